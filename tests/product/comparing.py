"""Every claim of a combination's pages against the brute force: what is false, too loose, or cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from exact import EVERY
from making import LIMIT, Pages
from oracle import counts_of, from_rho
from reading import Claim, claims_of
from records import json_claims
from scipy.optimize import brentq
from statements import statements
from truths import Releases, Truths

GRID = 1e-5  # the relative error of the distribution of the loss
# the table of a report states once for all of its rows by which chance they may fail
ALL_ROWS = re.compile(r"At most: but for a chance of delta = ([\d.]+(?:e-?\d+)?)\.?(?= |$)")


@dataclass(frozen=True)
class Finding:
    """A claim that is not true, and what is."""

    claim: Claim
    truth: str

    def __str__(self) -> str:
        return f"{self.claim}\n      {self.truth}"


@dataclass(frozen=True)
class Asked:
    """A claim, the releases it is about, and the brute force about them."""

    claim: Claim
    releases: Releases
    truths: Truths

    @property
    def value(self) -> float:
        return self.claim.value

    @property
    def digits(self) -> float:
        return self.claim.digits

    @property
    def scope(self) -> str:
        return self.claim.scope

    @property
    def delta(self) -> float:
        """The delta that a claim is about: pure noise has one only where an epsilon is said to hold at it."""
        if self.truths.pure:
            told = "at delta" in self.claim.source.text
            return float(self.truths.pages.case["delta"]) if told else 0.0
        return self.truths.folder.delta


def findings(pages: Pages) -> list[Finding]:
    """All claims of a combination that do not hold."""
    truths = Truths(pages)
    found = []
    for page, text in pages.page.items():
        made = list(claims_of(statements(page, text)))
        found += [Finding(claim, problem) for claim in made for problem in problems(claim, truths)]
        found += left_out(made, truths)
    for page, record in pages.json.items():
        found += [Finding(claim, problem) for claim in json_claims(page, record) for problem in problems(claim, truths)]
    return found


def problems(claim: Claim, truths: Truths) -> Iterator[str]:
    """What is wrong with a claim."""
    yield from CHECKS[claim.kind](Asked(claim, _releases(claim, truths), truths))


def _releases(claim: Claim, truths: Truths) -> Releases:
    number = re.search(r"\d$", claim.source.page.removesuffix(".json"))
    if claim.scope == "one":
        number = re.search(r"(?<=release)\d", claim.source.text)
    if number:
        return (int(number[0]) - 1,)
    return tuple(range(len(truths.folders))) if claim.source.page.startswith(("account", "ledger")) else (0,)


# losses


def _certain(asked: Asked) -> list[str]:
    """Why somebody can be certain of what a claim bounds, if the claim has no condition."""
    claim, scope, case = asked.claim, asked.scope, asked.truths.pages.case
    if (
        scope == "all"
        and claim.source.section == "sentence"
        and case["key"] == "seed"
        and "no seed" not in claim.condition
    ):
        return ["whoever knows the seed is certain"]
    if scope != "records" and not scope.startswith(("attribute", "place")):
        return []
    found = []
    seeded = case["key"] == "seed" and not claim.source.page.startswith(("plan", "strategy"))
    if seeded and "no seed" not in claim.condition:
        found.append("whoever knows the seed is certain")
    if "agree" not in claim.condition and not asked.truths.agree(asked.releases, scope):
        found.append("whoever knows the others is certain where an exact count differs, and nothing here excepts that")
    shows = case["filter"] == "where" and asked.truths.folder.replace and scope == "records"
    if shows and "filter" not in claim.source.text:
        found.append("whether somebody passes the filter is certain, because the number of people who pass it is exact")
    return found


def _epsilon(asked: Asked) -> Iterator[str]:
    truths, folder = asked.truths, asked.truths.folder
    strategy = asked.claim.source.page.startswith("strategy") and " " in asked.scope
    if strategy and (folder.strategy.get("only_child") or truths.pages.case["spine"] == "optimised"):
        return  # a strategy alone knows no spine: its figures are for published spines without only children
    certain = [] if strategy or asked.scope == "record" else _certain(asked)
    if certain:
        yield from certain
        return
    truth = truths.epsilon(asked.releases, asked.scope, asked.delta)
    if asked.value < truth * (1 - GRID) - 1e-12:
        yield f"too small: the loss is {truth:.8g}"
    loosest = truths.loosest(asked.releases, asked.scope)
    if not strategy and asked.value > loosest * 1.05 + asked.digits:
        yield f"too loose: the loss is at most {loosest:.6g}, even if nothing were exact"


def _rho(asked: Asked) -> Iterator[str]:
    nominal = asked.truths.nominal(asked.releases)
    if asked.value < nominal * (1 - 1e-9):
        yield f"rounded down: rho is {nominal:.8g}"
    if asked.value > nominal * 1.05 + asked.digits:
        yield f"too loose: rho is {nominal:.8g}"


def _from_rho(asked: Asked) -> Iterator[str]:
    truths = asked.truths
    nominal = truths.nominal(asked.releases)
    truth = truths.once(("from rho", asked.releases), lambda: from_rho(nominal, truths.folder.delta))
    if asked.value < truth * (1 - 1e-9):
        yield f"rounded down: rho {nominal:.6g} gives {truth:.8g}"
    if asked.value > truth * 1.05 + asked.digits:
        yield f"too loose: rho gives {truth:.8g}"


def _implied(asked: Asked) -> Iterator[str]:
    truth = math.sqrt(2 * asked.truths.nominal(asked.releases))
    if abs(asked.value - truth) > asked.digits + 1e-9 * truth:
        yield f"the square root of 2 rho is {truth:.6g}"


def _by_zcdp(asked: Asked) -> Iterator[str]:
    """The rho that zCDP would give for the epsilon of a strategy that is calibrated by the distribution of the loss."""
    plan, delta = asked.truths.folders[asked.releases[0]].strategy, asked.truths.folder.delta
    rho = float(brentq(lambda r: from_rho(r, delta) - float(Fraction(plan["epsilon"])), 1e-7, 50.0, xtol=1e-12))
    truth = rho if asked.claim.kind == "rho by zcdp" else 100 * (1 - rho / float(Fraction(plan["rho"])))
    if abs(asked.value - truth) > 0.51 * asked.digits + 1e-4 * truth:
        yield f"it is {truth:.6g}"


def _delta(asked: Asked) -> Iterator[str]:
    if asked.value != asked.truths.folder.delta:
        yield f"delta is {asked.truths.folder.delta:g}"


def _sure(asked: Asked) -> Iterator[str]:
    yield from _certain_or_likely(asked, math.log(asked.value / max(1 - asked.value, 1e-300)), either=False)


def _factor(asked: Asked) -> Iterator[str]:
    yield from _certain_or_likely(asked, math.log(asked.value), either=True)


def _certain_or_likely(asked: Asked, epsilon: float, *, either: bool) -> Iterator[str]:
    """The chance that somebody learns more than a bound on odds says, against the chance that the page states."""
    certain = _certain(asked)
    if certain:
        yield from certain
        return
    truth = asked.truths.of(asked.releases)
    pairs, chance = asked.truths.pairs(asked.releases, asked.scope), _chance(asked)
    if asked.truths.pure:
        if truth.loss(pairs) > epsilon + 1e-12:
            yield f"more: epsilon is {truth.loss(pairs):.6g}"
    elif chance is None:
        yield "no bound holds without a chance that it fails"
    else:
        more = truth.chance(pairs, epsilon + 1e-12, either=either)
        if more > chance * 1.001:
            yield f"more: the chance is {more:.3g}, {more / chance:.3g} times as large"


def _chance(asked: Asked) -> float | None:
    if asked.claim.chance is not None:
        return asked.claim.chance
    page = asked.claim.source.page
    texts = asked.truths.once(
        ("text", page), lambda: " ".join(s.text for s in statements(page, asked.truths.pages.page[page]))
    )
    found = ALL_ROWS.search(texts)
    return float(found[1].rstrip(".")) if found else None


def _average(asked: Asked) -> Iterator[str]:
    certain = _certain(asked)
    if certain:
        yield from certain
        return
    truth = asked.truths.of(asked.releases).average(asked.truths.pairs(asked.releases, asked.scope))
    if asked.value + asked.digits < truth:
        yield f"too small: on average {truth:.4f} for some people"
    if asked.value > truth * 1.05 + asked.digits:
        yield f"too large: on average at most {truth:.4f}"


def _twice(asked: Asked) -> Iterator[str]:
    one, two = (asked.truths.epsilon(asked.releases, scope, asked.delta) for scope in ("in or out", "records"))
    if two > 2 * one * (1 + GRID):
        yield f"more than twice: {two:.5g} instead of {one:.5g}"


# exact counts


def _exact(asked: Asked) -> Iterator[str]:
    truths = asked.truths
    known = {count[:4] for count in truths.single}
    for query, name in asked.claim.names:
        level = truths.folder.levels[0] if name == "@root" else name
        rows = [count for count in counts_of(truths.folder, (query,)) if count[0] == level]
        if not rows or not {count[:4] for count in rows} <= known:
            yield f"{query}@{level} has more than one possible value"
        elif any(count[-1] @ truths.truth != count[-1] @ truths.released(asked.releases[0]) for count in rows):
            yield f"{query}@{level} was released with another value"


def _nothing_exact(asked: Asked) -> Iterator[str]:
    single = asked.truths.single
    if single:
        names = sorted({f"{query}@{level}" for level, _, query, _, _ in single})
        yield f"{len(single)} counts have a single possible value, of {', '.join(names)}"


def _exact_totals(asked: Asked) -> Iterator[str]:
    known = {count[:4] for count in asked.truths.single}
    missing = {count[0] for count in counts_of(asked.truths.folder, ("total",)) if count[:4] not in known}
    if missing:
        yield f"totals of {', '.join(sorted(missing))} are not exact"


def left_out(claims: list[Claim], truths: Truths) -> Iterator[Finding]:
    """Exact counts that a page with a list of exact counts does not name, zeros of impossible or empty groups apart."""
    lists = [claim for claim in claims if claim.kind in ("exact", "nothing exact") and claim.scope == "release"]
    for claim in lists[:1]:
        root = truths.folder.levels[0]
        named = {(query, root if level == "@root" else level) for other in lists for query, level in other.names}
        empty = truths.folder.impossible(enforced=True)
        for level, _, query, _, inside in truths.single_in_data:
            if (query, level) in named and not inside @ truths.truth:
                empty = empty | inside
        missing = [c for c in truths.single_in_data if (c[2], c[0]) not in named and (c[-1] & ~empty).any()]
        if missing:
            names = {f"{query}@{level} {unit[-1]} {'*'.join(row)}".strip() for level, unit, query, row, _ in missing}
            yield Finding(claim, f"not in the list, but exact: {', '.join(sorted(names))}")


# noise and errors


def _noise(asked: Asked) -> Iterator[str]:
    truth = asked.truths.deviation(asked.scope, asked.releases[0])
    if truth is not None and abs(asked.value - truth) > max(0.51 * asked.digits, 1e-6 * truth):
        yield f"the standard deviation is {truth:.6g}"


def _noise_of(asked: Asked) -> Iterator[str]:
    """The noise of the counts of groups of a level: the largest of those that are not exact."""
    known = {count[:4] for count in asked.truths.single}
    counts = [count for count in counts_of(asked.truths.folder, EVERY) if count[0] == asked.scope]
    noisy = {count[2] for count in counts if count[:4] not in known}
    worst = max(asked.truths.deviation(f"{query}@{asked.scope}", asked.releases[0]) or 0.0 for query in noisy)
    if asked.value < worst * (1 - 1e-6) or asked.value > worst + asked.digits:
        yield f"the largest standard deviation is {worst:.5g}"


def _usable(asked: Asked) -> Iterator[str]:
    truth = asked.truths.deviation(asked.scope, asked.releases[0])
    if truth is not None and asked.value != math.ceil(10 * truth - 1e-9):
        yield f"ten standard deviations are {10 * truth:.5g}"


def _expected(asked: Asked) -> Iterator[str]:
    query, level = asked.scope.split("@")
    truth = asked.truths.best(asked.releases[0], enforced=False)[level, query]
    if abs(asked.value - truth) > max(0.51 * asked.digits, 1e-5 * truth, 1e-5):
        yield f"the best linear estimates of published units have {truth:.6g}"


def _typical(asked: Asked, *, times: float = 1.0) -> Iterator[str]:
    truth = asked.truths.best(asked.releases[0], enforced=True)[asked.scope, "total"] * times
    if asked.value + max(0.51 * asked.digits, 1e-5 * truth, 1e-4) < truth:
        yield f"too small: no linear estimate is better than {truth:.5g}"
    if asked.truths.best(asked.releases[0], enforced=False)[asked.scope, "total"] < 1e-4 < asked.value:
        yield "the total is exact in every published unit"


def _margin(asked: Asked) -> Iterator[str]:
    yield from _typical(asked, times=1.6448)


# other facts


def _only_children(asked: Asked) -> Iterator[str]:
    folder = asked.truths.folder
    units = [unit for level in range(len(folder.levels)) for unit in folder.units(level, measured=True)]
    below = {unit: [other for other in units if other[:-1] == unit] for unit in units}
    copied = {children[0] for children in below.values() if len(children) == 1}
    less = [unit for unit in units if len(below[unit]) == 1 and unit not in copied]
    truth = len(copied) if asked.claim.kind == "units that copy" else len(less)
    if asked.value != truth:
        yield f"there are {truth}"


def _left(asked: Asked) -> Iterator[str]:
    truth = LIMIT - asked.truths.pages.json["ledger"]["epsilon"]
    if asked.value > truth + 1e-9:
        yield f"rounded up: {truth:.9g} is left"


def _counted_once(asked: Asked) -> Iterator[str]:
    if not re.search(r"provided|if each|as long as|condition", asked.claim.source.text):
        yield "nobody checked it: it is a condition"


def _nothing_spent(asked: Asked) -> Iterator[str]:
    if asked.truths.pages.case["key"] != "seed":
        yield "something has been spent"


def _conditions(asked: Asked) -> Iterator[str]:
    """Neighbours agree on what is exact, and satisfy what the data are compared with."""
    folder = asked.truths.folder
    compared = bool(folder.zeros) or (
        folder.checked and any(folder.constraints(k) for k in ("zero", "bound", "facilities"))
    )
    true = {"agree"} if folder.replace else set()
    true |= {"satisfy"} if compared else set()
    said = {name for name, _ in asked.claim.names}
    if said != true:
        yield f"it holds for neighbours that {' and '.join(sorted(true)) or 'differ in any record'}"


def _holds_for(asked: Asked) -> Iterator[str]:
    full = asked.truths.pages.json["certificate 1"]["declared"]["guarantee"]["holds_for"]
    if asked.scope != full and not asked.claim.source.page.endswith("2.json"):
        yield f"the certificate says in full: {full}"


def _compared(asked: Asked) -> Iterator[str]:
    """The data are always compared with zeros of the codebook, and with constraints if they are checked."""
    folder = asked.truths.folder
    zero = asked.claim.source.text.startswith("nobody has") and bool(folder.zeros)
    if (zero or folder.checked) != (asked.claim.kind == "compared"):
        yield "the data were compared with it" if zero or folder.checked else "the data were not compared with it"


def _nothing_to_check(_asked: Asked) -> Iterator[str]:
    yield from ()


def _unread(_asked: Asked) -> Iterator[str]:
    yield "a statement that reading.py does not know"


CHECKS: dict[str, Callable[[Asked], Iterator[str]]] = {
    "average": _average,
    "compared": _compared,
    "conditions": _conditions,
    "counted once": _counted_once,
    "delta": _delta,
    "epsilon": _epsilon,
    "epsilon from rho": _from_rho,
    "exact": _exact,
    "exact totals": _exact_totals,
    "expected": _expected,
    "factor": _factor,
    "group": _nothing_to_check,
    "holds for": _holds_for,
    "implied": _implied,
    "left": _left,
    "margin": _margin,
    "noise": _noise,
    "not compared": _compared,
    "noise of": _noise_of,
    "nothing exact": _nothing_exact,
    "nothing spent": _nothing_spent,
    "other attribute": _nothing_to_check,  # about attributes that these data do not have
    "rho": _rho,
    "rho by zcdp": _by_zcdp,
    "smaller": _by_zcdp,
    "sure": _sure,
    "twice": _twice,
    "typical error": _typical,
    "units that copy": _only_children,
    "units with less noise": _only_children,
    "unread": _unread,
    "usable": _usable,
}
