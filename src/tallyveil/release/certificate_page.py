"""The certificate as an HTML page of two printed pages: a part for all readers, and one for specialists.

The first part says what was released, about whom, what is exact, how large errors are, what is promised and what is
not. The second has the figures: the privacy loss, the noise, the constraints, and how the release was computed. Both
come from the certificate and the strategy alone. The page has no scripts and loads nothing. It carries the SHA-256 of
the certificate without its list of files, so that neither can be changed without the other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from tallyveil.privacy import sentences
from tallyveil.privacy.guarantee import Guarantee
from tallyveil.privacy.sentences import listed
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.canonical import canonical_bytes, certificate_digest, parse_json

NINE_IN_TEN = 1.645  # standard deviations that nine in ten errors are within (normal; 1.63 for one geometric noise)
SHOWN = 8  # relaxed units, so that the page stays short; all are in certificate.json


def certificate_html(certificate: Mapping[str, Any], strategy: Strategy) -> str:
    """The page of a certificate as text, which does not depend on whether the certificate was read from its file."""
    read = parse_json(canonical_bytes(certificate))
    declared = read["declared"]
    rows = _rows(strategy, declared["budget"]["exact"])
    return page_template("certificate.html").render(
        plain_facts(declared, strategy),
        measurement=read.get("measurement"),
        observed=read.get("observed"),
        digest_tag=Markup(digest_tag(certificate_digest(read))),
        passes=_in_order(declared["post_processing"]["passes"], strategy.levels),
        mechanism="two-sided geometric" if strategy.mechanism == "geometric" else "discrete Gaussian",
        rows=rows,
        noise_of_leaves=[cells[-1][0] for _, cells in rows if not isinstance(cells[-1], str)],
        shown=SHOWN,
    )


def plain_facts(declared: Mapping[str, Any], strategy: Strategy) -> dict[str, Any]:
    """What the first part of the page says, and what a report repeats: the variables of ``plain_words.html``."""
    attributes = _in_order(declared["schema"]["attributes"], strategy.attributes)
    promised = Guarantee.from_declared(declared)
    figures = promised.account
    attribute, level = figures.per_attribute or {}, figures.within_level or {}
    figures = replace(
        figures,
        per_attribute=dict(_in_order(attribute, strategy.attributes)),
        within_level=dict(_in_order(level, strategy.levels)),
    )
    return {
        "title": title_of(declared, [name for name, _ in attributes]),
        "declared": declared,
        "promised": promised,
        "figures": figures,
        "sentences": sentences,
        "attributes": attributes,
        "pure": strategy.mechanism == "geometric",
        "levels": [(level, share, declared["spine"][level]) for level, share in strategy.levels.items()],
    }


def title_of(declared: Mapping[str, Any], attributes: Iterable[str]) -> str:
    """The title of a release, or one made of what was counted."""
    finest, names = declared["budget"]["levels"][-1]["level"], list(attributes)
    by = f" by {listed(names)}" if names else ""
    return str(declared.get("title") or f"Counts of people{by}, down to every {finest}")


def with_rounding(sd: Any) -> Any:
    """A standard deviation with that of rounding to a whole number, which is at most 1/2; 0 for an exact count.

    >>> with_rounding(0.0), round(with_rounding(0.4), 3)
    (0.0, 0.64)
    """
    return (sd**2 + (sd > 0) / 4) ** 0.5


def digest_tag(digest: str) -> str:
    """The line of the page that carries the certificate's digest.

    >>> digest_tag("ab12")
    '<meta name="certificate-sha256" content="ab12">'
    """
    return f'<meta name="certificate-sha256" content="{digest}">'


def number(value: int) -> str:
    """A count with thousands separators."""
    return f"{value:,}"


def figures(value: float) -> str:
    """A measure to three significant digits, without decimals from 100 on.

    >>> figures(1234.56), figures(22.04), figures(0.0512)
    ('1,235', '22.0', '0.0512')
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def persons(value: float, *, most: bool = False) -> str:
    """An error in persons to two significant digits; one that is said to be the ``most`` is rounded up.

    >>> persons(1234.5), persons(20.6), persons(3.26), persons(0.04), persons(13.414, most=True)
    ('1,200', '21', '3.3', 'less than 0.1', '14')
    """
    if value < 0.1:
        return "less than 0.1"
    size = 10 ** (math.floor(math.log10(value)) - 1)
    whole = math.ceil(value / size - 1e-9) if most else round(value / size)
    return f"{whole * size:,.{0 if value >= 9.95 else 1}f}"


def percent(share: Fraction | float) -> str:
    """A share in percent.

    >>> percent(Fraction(1, 4)), percent(Fraction(5, 4097))
    ('25%', '0.122%')
    """
    return f"{100 * float(share):.3g}%"


def small(value: float | None) -> str:
    """A bound, usually tiny, to two significant digits.

    >>> small(3.2e-9), small(0.0), small(None)
    ('3.2e-09', '0', 'not certified')
    """
    return "not certified" if value is None else f"{value:.2g}"


@cache
def page_template(name: str, package: str = "tallyveil.release") -> Template:
    """A page's template, which may use the certificate's style and words, with the filters for figures."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(each, "") for each in dict.fromkeys([package, "tallyveil.release"])]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "figures": figures,
        "percent": percent,
        "small": small,
        "persons": persons,
        "with_rounding": with_rounding,
    }
    environment.globals |= {"nine_in_ten": NINE_IN_TEN}
    return environment.get_template(name)


def _in_order(table: Mapping[str, Any], order: Iterable[str]) -> list[tuple[str, Any]]:
    """The items of a table in the strategy's order, then the others."""
    return [(name, table[name]) for name in dict.fromkeys([*order, *table]) if name in table]


def _rows(
    strategy: Strategy, exact: Sequence[Mapping[str, str]]
) -> list[tuple[str, list[tuple[float, Fraction] | str]]]:
    """For each query, level by level: the standard deviation of its noise and its share of the level's budget.

    In place of both, "exact" for a query that invariants fix at the level, or "not measured".
    """
    known = {(one["query"], one["level"]) for one in exact}
    fixed = [one["query"] for one in exact]
    measured = [query for level in reversed(list(strategy.queries.values())) for query in level]
    return [
        (query, [_cell(strategy, level, query, known) for level in strategy.levels])
        for query in dict.fromkeys([*fixed, *measured])
    ]


def _cell(
    strategy: Strategy, level: str, query: str, exact: Collection[tuple[str, str]]
) -> tuple[float, Fraction] | str:
    if query in strategy.queries[level]:
        return math.sqrt(strategy.noise(level, query).actual_variance()), strategy.queries[level][query]
    return "exact" if (query, level) in exact else "not measured"
