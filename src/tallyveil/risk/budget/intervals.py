"""Budgets and intervals of them: what the searches for a budget that keeps a bound have in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scipy.optimize import brentq

from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.risk.target.intruder import Intruder

Noises = tuple[Geometric | DiscreteGaussian, ...]
Interval = tuple[float, float]  # from and to, both kept; from 0 means every smaller budget
Tried = Callable[[], object]  # is told of every budget that is tried


def at_budget(noises: Noises, budget: Fraction) -> Noises:
    """The noise of each count at a budget, from the noise at a budget of one."""
    return tuple(
        Geometric(z=noise.z * budget)
        if isinstance(noise, Geometric)
        else DiscreteGaussian(variance=noise.variance / budget)
        for noise in noises
    )


def budget_of(noises: Noises, wanted: float) -> float:
    """The budget at which the counts' V (see ``decision_budgets``) is this."""

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
    """Logarithm of the odds needed, L."""
    needed = intruder.odds_needed
    return math.log(needed.numerator) - math.log(needed.denominator) if needed != 1 else 0.0


def root(f: Callable[[float], float], low: float, high: float, *, exactly: float = 1e-14) -> float:
    """Where a function that changes its sign is 0."""
    return float(brentq(f, low, high, xtol=1e-300, rtol=exactly))


def short(number: float) -> float:
    """Nine digits: budgets whose fractions are short."""
    return float(f"{number:.9g}")


def merged(intervals: list[Interval]) -> list[Interval]:
    """Intervals in order, those that touch joined."""
    joined: list[Interval] = []
    for low, high in sorted(intervals):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def intersection(each: list[list[Interval]]) -> list[Interval]:
    """Where all are kept."""
    common = each[0]
    for other in each[1:]:
        common = [(max(a, c), min(b, d)) for a, b in common for c, d in other if max(a, c) <= min(b, d)]
    return sorted(common)
