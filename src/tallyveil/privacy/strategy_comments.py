"""A strategy as a TOML file for people to edit: a comment beside each line says what it does and when to change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tomli_w

from tallyveil.errors import StrategyError
from tallyveil.nouns.schema import DETAILED, TOTAL
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import text
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import Constraint
from tallyveil.privacy.exactness import Exactness
from tallyveil.privacy.sentences import DELTA, MECHANISMS
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import strategy_from_toml

_BUDGET = {
    "epsilon": "the whole budget: half of it doubles every standard deviation below",
    "rho": "the whole budget: a quarter of it doubles every standard deviation below",
    "pld": "wanted at delta; the noise is calibrated to it on the units that are measured",
}
_NEIGHBOURS = {
    "replace-one": "one person's record is replaced by another, so the number of people is exact",
    "add-or-remove": "one person's record is added or removed, so the number of people is protected too",
}
_ROUNDING = {
    "margins": 'whole numbers are found for totals first, then margins, then cells; "cells" rounds the cells alone',
    "cells": 'whole numbers are found for the cells alone; "margins" also keeps totals and margins close',
}
_ONLY_CHILD = {
    True: "a unit with one child takes over the child's share, and the child copies it",
    False: "true: a unit with one child takes over the child's share, and the child copies it",
}


def commented_toml(strategy: Strategy, exact: Exactness, *, notes: Sequence[str] = ()) -> str:
    """Write a strategy as TOML with comments, from which it can be read back unchanged.

    Parameters
    ----------
    strategy
        The strategy to write.
    exact
        What its invariants make exact, on the spine of the data.
    notes
        Sentences about how it was made, for the top of the file.
    """
    pairs = strategy.exact_pairs(exact)
    measured = calibrated(strategy, spine=exact.spine, schema=exact.schema)
    sections = [
        _top(exact.spine, notes),
        _fields(strategy),
        *_tables(strategy),
        _levels(strategy, exact.spine),
        *(_queries(measured, level, [query for query, place in pairs if place == level]) for level in strategy.levels),
        *map(_constraint, strategy.constraints),
    ]
    written = "\n\n".join("\n".join(lines) for lines in sections) + "\n"
    if strategy_from_toml(written) != strategy:
        raise StrategyError("the strategy cannot be written as TOML unchanged. Please report this with its names.")
    return written


def _top(spine: Spine, notes: Sequence[str]) -> list[str]:
    return [
        f"# A strategy for {', '.join(spine.levels)}. It follows from names and units alone; no count was read.",
        *(f"# {note}" for note in notes),
        "# Shares are exact fractions. Those in [levels] sum to 1, and so do those in each [queries...]: to raise one,",
        "# lower others by as much. The comment beside a share says what it buys, as long as no share is changed.",
    ]


def _fields(strategy: Strategy) -> list[str]:
    delta = "at which epsilon is reported; " if strategy.unit == "rho" else "used only if Gaussian noise is chosen; "
    by_pld = strategy.accounting == "pld"
    lines: list[tuple[str, str | bool, str]] = [
        *([("name", strategy.name, "")] if strategy.name else []),
        ("mechanism", strategy.mechanism, MECHANISMS[strategy.mechanism]),
        *([("accounting", "pld", 'by privacy loss distribution; "zcdp" takes a rho instead')] if by_pld else []),
        *((name, text(amount), _BUDGET["pld" if by_pld else name]) for name, amount in strategy.budgets.items()),
        ("delta", text(strategy.delta), DELTA if by_pld else f"{delta}it is not part of the budget"),
        ("neighbours", strategy.neighbours, _NEIGHBOURS[strategy.neighbours]),
        ("only_child", strategy.only_child, _ONLY_CHILD[strategy.only_child]),
        ("rounding", strategy.rounding, _ROUNDING[strategy.rounding]),
    ]
    if strategy.estimator == "tree":
        lines.append(
            ("estimator", "tree", 'levels are estimated from the levels below, too; "topdown" does not use them')
        )
    if strategy.information_from is not None:
        lines.append(("information_from", strategy.information_from, "the finest level that informs those above it"))
    if not strategy.check_constraints:
        lines.append(("check_constraints", False, "the data are not compared with bounds"))
    written = _beside([(_line(name, value), comment) for name, value, comment in lines])
    return [*written, f"attributes = {_inline(strategy.attributes)}"]


def _tables(strategy: Strategy) -> Iterable[list[str]]:
    if strategy.groupings:
        groupings = [f"{_key(name)} = {_inline(of)}" for name, of in strategy.groupings.items()]
        yield ["[groupings]  # the attribute of each grouping", *groupings]
    if strategy.passes:
        passes = [f"{_key(level)} = {_inline(stages)}" for level, stages in strategy.passes.items()]
        yield ["[passes]  # the queries of a pass are solved, and held while those of the next are", *passes]


def _levels(strategy: Strategy, spine: Spine) -> list[str]:
    header, *rows = _dumped({"levels": {level: text(share) for level, share in strategy.levels.items()}})
    comments = [_level_comment(strategy, spine, level) for level in strategy.levels]
    return [header, *_beside(list(zip(rows, comments, strict=True)))]


def _level_comment(strategy: Strategy, spine: Spine, level: str) -> str:
    """What a level's share is for. It says nothing about its units, which may have been found in the data."""
    if not strategy.levels[level]:
        return "every count is exact, so nothing is measured"
    if level == spine.levels[0]:
        return "raise it for figures of the whole, by attribute"
    if level == spine.leaf:
        return f"raise it for figures of each {level}, and for areas that people build from them"
    return f"raise it for figures of each {level}"


def _queries(strategy: Strategy, level: str, exact: Sequence[str]) -> list[str]:
    """The shares of a level, each with its noise, then what is exact there."""
    if not strategy.queries[level]:
        return [f"# No queries for {level}: every count is exact there."]
    header, *rows = _dumped(
        {"queries": {level: {name: text(share) for name, share in strategy.queries[level].items()}}}
    )
    noises = [strategy.noise(level, query).actual_variance() ** 0.5 for query in strategy.queries[level]]
    comments = [
        f"noise with a standard deviation of {_persons(sd)} on each count{_purpose(query)}"
        for query, sd in zip(strategy.queries[level], noises, strict=True)
    ]
    known = [f"# exact, so no share is needed: {', '.join(exact)}"] if exact else []
    return [header, *_beside(list(zip(rows, comments, strict=True))), *known]


def _persons(sd: float) -> str:
    return f"{sd:,.0f} persons" if sd >= 99.95 else f"{sd:#.3g} persons"


def _purpose(query: str) -> str:
    return {TOTAL: "; the number of people", DETAILED: "; all attributes together, which informs every query"}.get(
        query, ""
    )


def _constraint(constraint: Constraint) -> list[str]:
    fields = [f"{_key(name)} = {_inline(value)}" for name, value in constraint.as_toml().items()]
    return [f"[[constraints]]  # {constraint.words()}", *fields]


def _beside(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Lines with their comments in one column."""
    width = max((len(line) for line, _ in lines), default=0)
    return [f"{line:<{width}}  # {comment}" if comment else line for line, comment in lines]


def _line(name: str, value: str | bool) -> str:
    return tomli_w.dumps({name: value}).strip()


def _key(name: str) -> str:
    return _line(name, True).removesuffix(" = true")


def _inline(value: Any) -> str:
    """A value on one line; dictionaries as inline tables."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(name)} = {_inline(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    return _line("x", value).removeprefix("x = ")


def _dumped(table: Mapping[str, Any]) -> list[str]:
    return tomli_w.dumps(table).strip().splitlines()
