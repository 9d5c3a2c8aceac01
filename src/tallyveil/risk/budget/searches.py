"""The searches behind ``choose``: the largest budget that keeps a bound on a measure, and why it is not larger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Literal, final

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, text
from tallyveil.privacy.noise import DiscreteGaussian
from tallyveil.risk.budget.decision_budgets import budgets_by_decision
from tallyveil.risk.budget.exposures import exposures
from tallyveil.risk.budget.intervals import BudgetsTried, Noises, Tried, intersection
from tallyveil.risk.budget.posterior_budgets import budgets_by_posterior, rises
from tallyveil.risk.target.intruder import Intruder

Measure = Literal["risk", "posterior", "right_decision"]
DIGITS = 12  # of a chosen budget
FURTHER = "; windows further up keep the bound again, but a smaller budget would break it"


@final
@dataclass(frozen=True, kw_only=True)
class Largest:
    """The result of a search: the fields of ``Choice`` that do not repeat the question."""

    value: Fraction | None
    reason: str
    binding_prior: Fraction
    windows: tuple[tuple[Fraction, Fraction], ...] = ()
    checked: str = "exact"


def largest_by_posterior(
    noises: Noises,
    intruders: Sequence[Intruder],
    measure: Measure,
    bound: Fraction,
    parameter: str,
    progress: BudgetsTried,
) -> Largest:
    """The largest budget by R or the average posterior, in which costs play no part.

    Where the posterior rises with the budget it is found by bisection, elsewhere on a grid of budgets.
    """
    each = {Fraction(intruder.prior): intruder for intruder in intruders}
    limits = {prior: bound * prior if measure == "risk" else bound for prior in each}
    words = "R" if measure == "risk" else "the average posterior"
    for prior, limit in limits.items():
        if limit <= prior:
            least = "1" if measure == "risk" else f"the prior {text(prior)}"
            reason = f"{words} is above {least} at every {parameter}, so none keeps it at {text(bound)} or below"
            return Largest(value=None, reason=reason, binding_prior=prior)
    if min(limits.values()) >= 1:
        raise InputError(f"a bound of {text(bound)} on R is never broken: R is at most 1/prior. Give a smaller bound.")

    def keeps(budget: Number, *priors: Fraction) -> bool:
        exposed = exposures(noises, [each[prior] for prior in priors], budget)
        return all(Fraction(one.marginal_posterior) <= limits[Fraction(one.intruder.prior)] for one in exposed)

    # Monotone priors first, and of these the most likely to bind: the smallest for R, the largest for the posterior.
    matter = sorted((p for p in each if limits[p] < 1), key=lambda p: (not rises(noises, each[p]), limits[p] / p**2))
    binding, intervals, tried = matter[0], [(0.0, math.inf)], Tried(progress)
    for prior in matter:
        end = intervals[0][1]
        if math.isfinite(end) and rises(noises, each[prior]) and keeps(end * (1 - 1e-9), prior):
            continue
        kept = budgets_by_posterior(noises, each[prior], limits[prior], tried)
        if not kept:
            reason = f"the bound is next to the prior: only a {parameter} too small to be of use keeps it"
            return Largest(value=None, reason=reason, binding_prior=prior)
        intervals = intersection([intervals, kept])
        binding = prior if intervals[0][1] < end else binding
    windows, monotone = _windows(intervals), all(rises(noises, each[prior]) for prior in matter)
    there = f"is {float(bound):.10g} there for prior {text(binding)}"
    above = f"{words} {there}, and higher just above{FURTHER if windows else ''}"
    return Largest(
        value=_rounded_down(intervals[0][1], lambda budget: keeps(budget, *each)),
        reason=f"{words} rises with {parameter} for this prior, and {there}" if monotone else above,
        binding_prior=binding,
        windows=windows,
        checked="monotone" if monotone else str(tried),
    )


def largest_by_decision(
    noises: Noises, intruders: Sequence[Intruder], bound: Fraction, parameter: str, progress: BudgetsTried
) -> Largest:
    """The largest budget by right decisions: the end of the first interval that keeps the bound, if it starts at 0."""
    intervals, checked = budgets_by_decision(noises, intruders, bound, progress)
    windows = _windows(intervals)
    if not intervals or intervals[0][0] > 0:
        worst = min(intruders, key=lambda intruder: intruder.odds_needed)
        who = f"an intruder with prior {text(Fraction(worst.prior))}"
        if worst.odds_needed < 1:
            reason = f"{who} claims a target before seeing anything: the smaller {parameter}, the more surely so"
        elif worst.odds_needed == 1 and bound <= _least(noises):
            reason = f"{who} is at even odds, and right more often than {text(bound)} however small {parameter} is"
        else:
            reason = f"{who} is next to even odds: only a {parameter} too small to be of use keeps it at {text(bound)}"
        return Largest(value=None, reason=reason, binding_prior=Fraction(worst.prior), windows=windows, checked=checked)

    def rights(budget: Fraction) -> list[float]:
        return [one.right_decision for one in exposures(noises, intruders, budget)]

    value = _rounded_down(intervals[0][1], lambda budget: max(rights(budget)) <= bound)
    above = rights(value * (1 + Fraction(1, 10**5)))  # where the threshold falls, on the other side
    prior = Fraction(intruders[above.index(max(above))].prior)
    return Largest(
        value=value,
        reason=f"just above, an intruder with prior {text(prior)} is right more often ({max(above):.4g})"
        + (FURTHER if windows else ""),
        binding_prior=prior,
        windows=windows,
        checked=checked,
    )


def _least(noises: Noises) -> float:
    """How often a target is rightly claimed at even odds as the budget goes to 0.

    For discrete Gaussian counts it is 1/2, and more at every budget, since the noise is symmetric and everything above
    a negative number is claimed. For geometric counts, ties may make it less.
    """
    if any(isinstance(noise, DiscreteGaussian) for noise in noises):
        return 0.5
    [exposed] = exposures(noises, [Intruder(prior="1/2")], "1e-12")
    return exposed.right_decision


def _windows(intervals: Iterable[tuple[float, float]]) -> tuple[tuple[Fraction, Fraction], ...]:
    """All intervals that do not start at 0, rounded inwards."""
    rounded = ((_digits(low, ROUND_CEILING), _digits(high, ROUND_FLOOR)) for low, high in intervals if low > 0)
    return tuple((low, high) for low, high in rounded if low <= high)


def _rounded_down(budget: float, keeps: Callable[[Fraction], bool]) -> Fraction:
    """The budget rounded down to few digits, so that it still keeps the bound."""
    value = _digits(budget, ROUND_FLOOR)
    for power in range(-DIGITS, 0):
        if keeps(value):
            return value
        value = _digits(float(value) * (1 - 10.0**power), ROUND_FLOOR)
    raise AssertionError("unreachable: smaller budgets keep the bound")


def _digits(budget: float, rounding: str) -> Fraction:
    return Fraction(Context(prec=DIGITS, rounding=rounding).create_decimal(Decimal(repr(budget))))
