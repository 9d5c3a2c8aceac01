"""Every claim of a combination's pages against the brute force: what is false, too loose, or cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction

import comparing_counts
from asking import Asked, Finding
from claims import Claim
from comparing_counts import compared_with, left_out
from making import Pages
from oracle import from_rho
from reading import claims_of
from records import json_claims
from scipy.optimize import brentq
from statements import statements
from truths import Releases, Truths

GRID = 1e-5  # the relative error of the distribution of the loss


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
    each = claim.source.page.startswith("strategy") or "for each of up to" in claim.source.text
    if truths.rows > 1 and each:
        truths = truths.once(("one record",), lambda: Truths(truths.pages, rows=1))  # a strategy is for one record
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
    """Why somebody can be certain of what a claim bounds, if the claim has no condition that excepts it."""
    claim, scope, case, truths = asked.claim, asked.scope, asked.truths.pages.case, asked.truths
    seeded = case["key"] == "seed" and not claim.source.page.startswith(("plan", "strategy"))
    if scope == "all":
        sentence = claim.source.section == "sentence" and seeded and "no seed" not in claim.condition
        return ["whoever knows the seed is certain"] if sentence else []
    if scope not in ("records", "in or out") and not scope.startswith(("attribute", "place")):
        return []
    found = []
    if seeded and "no seed" not in claim.condition:
        found.append("whoever knows the seed is certain")
    if "agree" not in claim.condition:
        if not truths.agree(asked.releases, scope, "invariants"):
            found.append(
                "whoever knows the others is certain where an invariant differs, and nothing here excepts that"
            )
        elif "satisfy" not in claim.condition and not truths.agree(asked.releases, scope):
            found.append("whoever knows the others is certain where rules fix a count, and nothing here excepts that")
    if scope in ("records", "in or out"):
        if compared_with(asked.truths.folder) != ("satisfy" in claim.condition):
            found.append("that neighbours keep all rules has to be said where there are rules, and only there")
        shows = case["filter"] == "where" and truths.folder.replace
        if shows and "filter" not in claim.condition:
            found.append("whether somebody passes the filter is certain, because the number who pass it is exact")
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


def _converted(asked: Asked) -> Iterator[str]:
    """A rho that is said to give an epsilon: rounded down, since the epsilon is that of the rho before."""
    nominal = asked.truths.nominal(asked.releases)
    if not nominal - asked.digits <= asked.value <= nominal * (1 + 1e-9):
        yield f"rho is {nominal:.8g}"


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
    pairs, chance = asked.truths.pairs(asked.releases, asked.scope), asked.claim.chance
    if asked.truths.pure:
        if truth.loss(pairs) > epsilon + 1e-12:
            yield f"more: epsilon is {truth.loss(pairs):.6g}"
    elif chance is None:
        yield "no bound holds without a chance that it fails"
    else:
        more = truth.chance(pairs, epsilon + 1e-12, either=either)
        if more > chance * 1.001:
            yield f"more: the chance is {more:.3g}, {more / chance:.3g} times as large"


def _average(asked: Asked) -> Iterator[str]:
    certain = _certain(asked)
    if certain:
        yield from certain
        return
    truth = asked.truths.of(asked.releases).average(asked.truths.pairs(asked.releases, asked.scope))
    if asked.value + asked.digits < truth:
        yield f"too small: on average {truth:.4f} for some people"
    loosest = asked.truths.of(asked.releases, "loose").average(asked.truths.pairs(asked.releases, asked.scope, "loose"))
    if asked.value > loosest * 1.05 + asked.digits:
        yield f"too large: on average at most {loosest:.4f}"


def _certain_but_for_chance(asked: Asked) -> Iterator[str]:
    """An epsilon that the loss exceeds with a probability of at most delta."""
    certain = [] if asked.scope == "record" else _certain(asked)
    if certain:
        yield from certain
        return
    truth, delta = asked.truths.of(asked.releases), asked.truths.folder.delta
    more = truth.chance(asked.truths.pairs(asked.releases, asked.scope), asked.value)
    if more > delta:
        yield f"too small: the loss is larger with a probability of {more:.3g}"
    loosest = asked.truths.loosest_but_for_chance(asked.releases, asked.scope)
    if asked.value > loosest * 1.05 + asked.digits:
        yield f"too loose: it is at most {loosest:.6g}"


def _told(asked: Asked) -> Iterator[str]:
    """Exact counts tell it to someone who knows everybody else."""
    if asked.truths.couples(asked.releases, asked.scope):
        yield "exact counts do not tell it"


def _told_in_part(asked: Asked) -> Iterator[str]:
    every, left = (asked.truths.couples(asked.releases, asked.scope, kind) for kind in ("loose", "strict"))
    if len(every) == len(left):
        yield "exact counts tell nothing of it"


def _told_down_to(asked: Asked) -> Iterator[str]:
    """Exact counts tell the unit of a level, and no smaller one."""
    (level,) = asked.claim.words
    records, depth = asked.truths.folder.records, asked.truths.folder.levels.index(level) + 1
    every, left = (asked.truths.couples(asked.releases, asked.scope, kind) for kind in ("loose", "strict"))
    apart = {(i, j) for i, j in every if records[i][0][:depth] != records[j][0][:depth]}
    if not apart:
        yield f"there is one {level}"
    if apart & set(left):
        yield f"exact counts do not tell the {level}"


def _nothing_to_check(_asked: Asked) -> Iterator[str]:
    yield from ()


CHECKS: dict[str, Callable[[Asked], Iterator[str]]] = {
    **comparing_counts.CHECKS,
    "average": _average,
    "certain": _certain_but_for_chance,
    "delta": _delta,
    "epsilon from rho": _from_rho,
    "epsilon": _epsilon,
    "factor": _factor,
    "group": _nothing_to_check,
    "implied": _implied,
    "other attribute": _nothing_to_check,  # about attributes that these data do not have
    "rho by zcdp": _by_zcdp,
    "rho converted": _converted,
    "rho": _rho,
    "smaller": _by_zcdp,
    "sure": _sure,
    "told down to": _told_down_to,
    "told in part": _told_in_part,
    "told": _told,
}
