"""The largest budget such that it and every smaller one keep an intruder's risk at or below a bound.

Three measures, each for a target who has the characteristics: ``risk`` (R, Eq. 15), ``posterior`` (the marginal one,
Eq. 14) and ``right_decision`` (Eq. 18 and 19). The last does not rise all along with the budget (section 4.2.3), nor do
the first two for very small or large priors (``posteriors``): windows above that keep the bound again are reported, not
used, since a little less budget would break it.

A bound is kept where the measure is at it or below. The budget is the paper's rho of a single count (variance
1/(2 rho)), epsilon of a geometric one, or that of a whole strategy with its shares and its own noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Literal, final, get_args

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact, text
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.strategy import Mechanism, Strategy
from tallyveil.risk.budget.budgets import Noises, at_budget, intersection
from tallyveil.risk.budget.kept_decisions import kept
from tallyveil.risk.budget.kept_posteriors import kept_by_posterior, rises
from tallyveil.risk.target.attacks import noises_of
from tallyveil.risk.target.evidence import Evidence
from tallyveil.risk.target.intruder import Exposure, Intruder

Measure = Literal["risk", "posterior", "right_decision"]
Tell = Callable[[int], object] | None  # is told how many budgets were tried
DIGITS = 12  # of a chosen budget
FURTHER = "; windows further up keep the bound again, but a smaller budget would break it"


@final
@dataclass(frozen=True, kw_only=True)
class Choice:
    """A budget that keeps a bound, and what was found around it.

    Attributes
    ----------
    measure, bound, priors
        What was to stay at or below the bound, for each of these priors.
    parameter
        ``"rho"`` or ``"epsilon"``.
    value
        The largest budget that keeps the bound with every smaller one, rounded down; None where there is none.
    reason
        Why it is not larger, or why there is none.
    binding_prior
        The prior that decides.
    windows
        Further budgets above that keep the bound, from and to: not used.
    checked
        ``"exact"``, ``"monotone"`` (the measure rises with the budget: proven for geometric counts, found numerically
        for discrete Gaussian ones and priors from 1/500 to 499/500) or on how many budgets it was checked.
    """

    measure: Measure
    bound: Fraction
    priors: tuple[Fraction, ...]
    parameter: str
    value: Fraction | None
    reason: str
    binding_prior: Fraction | None
    windows: tuple[tuple[Fraction, Fraction], ...]
    checked: str

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys; a budget of 12 digits reads back as it is."""
        return {
            "measure": self.measure,
            "bound": float(self.bound),
            "priors": [text(prior) for prior in self.priors],
            self.parameter: None if self.value is None else float(self.value),
            "reason": self.reason,
            "windows": [[float(low), float(high)] for low, high in self.windows],
            "binding_prior": None if self.binding_prior is None else text(self.binding_prior),
            "checked": self.checked,
        }


def choose(
    measure: Measure,
    bound: Number,
    *,
    priors: Iterable[Number | Intruder],
    mechanism: Mechanism = "gaussian",
    strategy: Strategy | None = None,
    level: str | None = None,
    queries: Iterable[str] | None = None,
    progress: Tell = None,
) -> Choice:
    """The largest budget of a single count, or of a strategy, that keeps the bound with every smaller one.

    ``priors`` may be intruders, with their costs. With a ``strategy``, its shares stay as they are, and the evidence is
    that of all ``queries`` of a ``level`` (all of the leaf level's if not given; ``["detailed"]`` is the paper's).
    ``progress`` is told how many budgets were tried.

    >>> found = choose("right_decision", "0.29", priors=["1/5"])
    >>> round(float(found.value), 4), [(round(float(a), 4), round(float(b), 4)) for a, b in found.windows]
    (0.4621, [(0.5542, 1.3863)])
    >>> choose("right_decision", "0.29", priors=["1/2"]).value is None
    True
    """
    if strategy is None and (level is not None or queries is not None):
        raise InputError("a level and queries are a strategy's. Give the strategy too, or leave them out.")
    noises = unit_noises(mechanism) if strategy is None else of_strategy(strategy, level, queries)
    parameter = {"gaussian": "rho", "geometric": "epsilon"}[mechanism] if strategy is None else strategy.unit
    return choose_for(noises, measure, bound, priors=priors, parameter=parameter, progress=progress)


def choose_for(
    noises: Noises,
    measure: Measure,
    bound: Number,
    *,
    priors: Iterable[Number | Intruder],
    parameter: str,
    progress: Tell = None,
) -> Choice:
    """The same for counts of which the noise at a budget of one is given."""
    if measure not in get_args(Measure):
        raise InputError(f"unknown measure {measure!r}. Known are {', '.join(get_args(Measure))}.")
    if not noises:
        raise InputError("invariants answer every query of this level: no noise keeps a bound. Name another level.")
    intruders = intruders_of(priors)
    limit = exact(bound, "bound")
    if measure != "risk" and float(limit) >= 1:
        raise InputError(f"a bound on a probability is less than 1. Got {bound} instead.")
    find = _by_right_decision if measure == "right_decision" else _by_posterior
    found = find(noises, intruders, measure, limit, parameter, progress)
    return Choice(
        measure=measure,
        bound=limit,
        priors=tuple(Fraction(one.prior) for one in intruders),
        parameter=parameter,
        **found,
    )


def intruders_of(priors: Iterable[Number | Intruder]) -> list[Intruder]:
    """Intruders as they are, priors as intruders with equal costs."""
    intruders = [one if isinstance(one, Intruder) else Intruder(prior=one) for one in priors]
    if not intruders:
        raise InputError("a bound is for one prior or more. Got none.")
    return intruders


def unit_noises(mechanism: Mechanism) -> Noises:
    """A single count's noise at a budget of one: the paper's DG(1/(2 rho)), or geometric with ratio exp(-epsilon)."""
    if mechanism not in get_args(Mechanism):
        raise InputError(f"unknown mechanism {mechanism!r}. Known are {', '.join(get_args(Mechanism))}.")
    return (DiscreteGaussian(variance=Fraction(1, 2)) if mechanism == "gaussian" else Geometric(z=Fraction(1)),)


def of_strategy(strategy: Strategy, level: str | None = None, queries: Iterable[str] | None = None) -> Noises:
    """The noise of a level's counts (the leaf level's if none is given) if the whole budget were one."""
    whole = strategy.with_budget(**{strategy.unit: 1})
    return noises_of(whole, list(strategy.levels)[-1] if level is None else level, queries=queries)


def exposures(noises: Noises, intruders: Iterable[Intruder], budget: Number) -> list[Exposure]:
    """What each intruder learns at a budget, the noise at a budget of one being given."""
    evidence = Evidence(noises=at_budget(noises, exact(budget, "budget")))
    return [Exposure(intruder=one, evidence=evidence) for one in intruders]


def _by_posterior(
    noises: Noises, intruders: Sequence[Intruder], measure: Measure, bound: Fraction, parameter: str, tell: Tell
) -> dict[str, Any]:
    """Where it rises, by bisection; elsewhere on a grid of budgets. Costs do not matter: each prior once."""
    each = {Fraction(one.prior): one for one in intruders}
    limits = {prior: bound * prior if measure == "risk" else bound for prior in each}
    words = "R" if measure == "risk" else "the average posterior"
    for prior, limit in limits.items():
        if limit <= prior:
            than = "1" if measure == "risk" else f"the prior {text(prior)}"
            return _none(
                f"{words} is above {than} at every {parameter}, so none keeps it at {text(bound)} or below", prior
            )
    if min(limits.values()) >= 1:
        raise InputError(f"a bound of {text(bound)} on R is never broken: R is at most 1/prior. Give a smaller bound.")
    count = 0

    def tried() -> None:
        nonlocal count
        count += 1
        if tell is not None:
            tell(count)

    def keeps(budget: Number, *priors: Fraction) -> bool:
        found = exposures(noises, [each[prior] for prior in priors], budget)
        return all(Fraction(one.marginal_posterior) <= limits[Fraction(one.intruder.prior)] for one in found)

    # Those where it rises first, the likely one before others: the smallest prior for R, the largest for the posterior.
    matter = sorted((p for p in each if limits[p] < 1), key=lambda p: (not rises(noises, each[p]), limits[p] / p**2))
    binding, intervals = matter[0], [(0.0, math.inf)]
    for prior in matter:
        end = intervals[0][1]
        if math.isfinite(end) and rises(noises, each[prior]) and keeps(end * (1 - 1e-9), prior):
            continue
        found = kept_by_posterior(noises, each[prior], limits[prior], tried)
        intervals = intersection([intervals, found])
        if not found:
            return _none(f"the bound is next to the prior: only a {parameter} too small to be of use keeps it", prior)
        binding = prior if intervals[0][1] < end else binding
    windows = _windows(intervals)
    there = f"is {float(bound):.10g} there for prior {text(binding)}"
    if all(rises(noises, each[prior]) for prior in matter):
        reason, checked = f"{words} rises with {parameter} for this prior, and {there}", "monotone"
    else:
        reason, checked = (
            f"{words} {there}, and higher just above{FURTHER if windows else ''}",
            f"checked on {count} budgets",
        )
    return {
        "value": _rounded_down(intervals[0][1], lambda budget: keeps(budget, *each)),
        "reason": reason,
        "binding_prior": binding,
        "windows": windows,
        "checked": checked,
    }


def _by_right_decision(
    noises: Noises, intruders: Sequence[Intruder], measure: Measure, bound: Fraction, parameter: str, tell: Tell
) -> dict[str, Any]:
    """From the budgets that are kept: the first interval, if it starts at 0, and the windows above."""
    del measure
    intervals, checked = kept(noises, intruders, bound, tell)
    windows = _windows(intervals)
    if not intervals or intervals[0][0] > 0:
        worst = min(intruders, key=lambda one: one.odds_needed)
        who = f"an intruder with prior {text(Fraction(worst.prior))}"
        if worst.odds_needed < 1:
            reason = f"{who} claims a target before seeing anything: the smaller {parameter}, the more surely so"
        elif worst.odds_needed == 1 and bound <= _least(noises):
            reason = f"{who} is at even odds, and right more often than {text(bound)} however small {parameter} is"
        else:
            reason = f"{who} is next to even odds: only a {parameter} too small to be of use keeps it at {text(bound)}"
        return _none(reason, Fraction(worst.prior), windows=windows, checked=checked)

    def rights(budget: Fraction) -> list[float]:
        return [one.right_decision for one in exposures(noises, intruders, budget)]

    value = _rounded_down(intervals[0][1], lambda budget: max(rights(budget)) <= bound)
    above = rights(value * (1 + Fraction(1, 10**5)))  # where the threshold falls, on the other side
    prior = Fraction(intruders[above.index(max(above))].prior)
    return {
        "value": value,
        "reason": f"just above, an intruder with prior {text(prior)} is right more often ({max(above):.4g})"
        + (FURTHER if windows else ""),
        "binding_prior": prior,
        "windows": windows,
        "checked": checked,
    }


def _least(noises: Noises) -> float:
    """How often a target is rightly claimed at even odds, the budget going to 0.

    Of discrete Gaussian counts it is 1/2, and more with every budget: the noise is symmetric, and claimed is what is
    above a negative number. Of geometric ones ties may make it less.
    """
    if any(isinstance(noise, DiscreteGaussian) for noise in noises):
        return 0.5
    [exposed] = exposures(noises, [Intruder(prior="1/2")], "1e-12")
    return exposed.right_decision


def _windows(intervals: Iterable[tuple[float, float]]) -> tuple[tuple[Fraction, Fraction], ...]:
    """All that do not start at 0, rounded inwards."""
    rounded = ((_digits(low, ROUND_CEILING), _digits(high, ROUND_FLOOR)) for low, high in intervals if low > 0)
    return tuple((low, high) for low, high in rounded if low <= high)


def _none(reason: str, prior: Fraction, **more: Any) -> dict[str, Any]:
    found = {"value": None, "reason": reason, "binding_prior": prior, "windows": (), "checked": "exact"}
    return found | more


def _rounded_down(budget: float, meets: Callable[[Fraction], bool]) -> Fraction:
    """A budget of few digits, no larger, that itself meets the bound."""
    value = _digits(budget, ROUND_FLOOR)
    for power in range(-DIGITS, 0):
        if meets(value):
            return value
        value = _digits(float(value) * (1 - 10.0**power), ROUND_FLOOR)
    raise AssertionError("unreachable: smaller budgets keep the bound")


def _digits(budget: float, rounding: str) -> Fraction:
    return Fraction(Context(prec=DIGITS, rounding=rounding).create_decimal(Decimal(repr(budget))))
