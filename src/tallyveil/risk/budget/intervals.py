"""Budgets, intervals of budgets, and the count of budgets tried: shared by the searches for the largest budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import final

from scipy.optimize import brentq

from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import Intruder

Noises = tuple[CountNoise, ...]
Interval = tuple[float, float]  # both ends keep the bound; from 0 means every smaller budget
BudgetsTried = Callable[[int], object] | None  # called with the number of budgets tried


@final
class Tried:
    """Counts the budgets that are tried, and reports their number."""

    def __init__(self, progress: BudgetsTried = None) -> None:
        self.count, self._progress = 0, progress

    def __call__(self) -> None:
        """Count one more budget."""
        self.count += 1
        if self._progress is not None:
            self._progress(self.count)

    def __str__(self) -> str:
        return f"checked on {self.count} budgets"


def at_budget(noises: Noises, budget: Fraction) -> Noises:
    """The noise of each count at a budget, given the noise at a budget of one."""
    return tuple(
        Geometric(z=noise.z * budget)
        if isinstance(noise, Geometric)
        else DiscreteGaussian(variance=noise.variance / budget)
        for noise in noises
    )


def budget_of(noises: Noises, wanted: float) -> float:
    """The budget at which V of the counts (see ``decision_budgets``) has the wanted value."""

    def v(budget: float) -> float:
        parts = (
            1 / float(noise.variance) * budget
            if isinstance(noise, DiscreteGaussian)
            else 2 * budget * float(noise.z) * math.tanh(budget * float(noise.z) / 2)
            for noise in noises
        )
        return sum(parts)

    return math.exp(brentq(lambda log: math.log(v(math.exp(log)) / wanted), -100, 100))


def log_odds(intruder: Intruder) -> float:
    """Logarithm of the odds that the intruder needs for a claim, L."""
    needed = intruder.odds_needed
    return math.log(needed.numerator) - math.log(needed.denominator) if needed != 1 else 0.0


def root(f: Callable[[float], float], low: float, high: float, *, exactly: float = 1e-14) -> float:
    """The root of a function that changes its sign between low and high."""
    return float(brentq(f, low, high, xtol=1e-300, rtol=exactly))


def short(number: float) -> float:
    """The number rounded to nine digits, so that its fraction is short."""
    return float(f"{number:.9g}")


def merged(intervals: list[Interval]) -> list[Interval]:
    """Intervals in order; those that touch are joined."""
    joined: list[Interval] = []
    for low, high in sorted(intervals):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def intersection(each: list[list[Interval]]) -> list[Interval]:
    """The intervals that lie in all of the lists."""
    common = each[0]
    for other in each[1:]:
        common = [(max(a, c), min(b, d)) for a, b in common for c, d in other if max(a, c) <= min(b, d)]
    return sorted(common)
