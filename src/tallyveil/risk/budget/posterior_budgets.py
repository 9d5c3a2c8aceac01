r"""Budgets at which the marginal posterior (Eq. 14) is at most a bound, and the first budget at which it is reached.

The marginal posterior is :math:`E[\pi^2]/p`, where the posterior :math:`\pi` is averaged over the released counts. This
is a convex function of the posterior, so it rises wherever more budget means more information in Blackwell's sense.

- **Geometric counts** carry more information with a larger budget. They reveal only whether the noise lowers the
  count, and a smaller budget is the same with some answers flipped at random. So the posterior rises for every prior,
  which is proven.
- **Discrete Gaussian counts** need not, because their noise takes integer values. For priors from 1/500 to 499/500, no
  fall was found numerically, for one count or several. For smaller priors the posterior falls at some budgets (and for
  larger ones, 1 minus the posterior rises). For one count, with L the log odds of the prior, it falls for rho between
  L/3 and L/2, by 2.4% for a prior of 1/1000, 24% for 1/10,000 and 96% for 1e-12.

So for other priors, budgets are checked on a grid whose highest and lowest points are found exactly. It covers more
than all budgets at which a fall was ever found numerically: from where the rho of the counts add up to L/6, to where
the largest of them is L.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from tallyveil.privacy.budget import Number
from tallyveil.privacy.noise import Geometric
from tallyveil.risk.budget.intervals import Interval, Noises, Tried, at_budget, merged
from tallyveil.risk.target.evidence import Evidence, weight_of
from tallyveil.risk.target.intruder import Exposure, Intruder

RISES = (Fraction(1, 500), Fraction(499, 500))  # priors between which the posterior rises with the budget
SMALLEST = (1e-6, 1e-4)  # smallest 1/variance that is searched, for one count and for several
STEP = 0.0125  # relative step of the grid
_DIGITS = 15


def rises(noises: Noises, intruder: Intruder) -> bool:
    """Whether this intruder's marginal posterior rises with the budget everywhere."""
    low, high = RISES
    return all(isinstance(noise, Geometric) for noise in noises) or low <= Fraction(intruder.prior) <= high


def inverse_posterior(noises: Noises, intruder: Intruder, wanted: Number) -> float | None:
    """The smallest budget at which the marginal posterior has the wanted value; None if it is too small to be found."""
    intervals = budgets_by_posterior(noises, intruder, Fraction(wanted), Tried())
    return intervals[0][1] if intervals else None


def budgets_by_posterior(noises: Noises, intruder: Intruder, limit: Fraction, tried: Tried) -> list[Interval]:
    """Budgets at which the marginal posterior is at most the limit (above the prior, below 1); none if too small."""

    def above(log: float) -> float:
        tried()
        budget = Fraction(f"{math.exp(log):.{_DIGITS}g}")
        exposed = Exposure(intruder=intruder, evidence=Evidence(noises=at_budget(noises, budget)))
        return float(Fraction(exposed.marginal_posterior) - limit)

    if rises(noises, intruder):
        first = _first(above, noises)
        return [] if first is None else [(0.0, math.exp(first))]
    odds, parts = abs(intruder.log_prior_odds), [float(weight) for weight in map(weight_of, noises)]
    low, high = math.log(odds / (3 * sum(parts))), math.log(2 * odds / max(parts))
    grid = np.linspace(low, high, math.ceil((high - low) / STEP) + 1).tolist()
    figures = {log: above(log) for log in grid}
    figures |= {log: above(log) for log in _extremes(above, figures)}
    while figures[max(figures)] <= 0:  # it rises from here on
        figures[max(figures) + math.log(4)] = above(max(figures) + math.log(4))
    found: list[Interval] = [(0.0, math.exp(low))] if figures[low] <= 0 else []
    if not found:  # it rises as far as here
        first = _first(above, noises, high=low)
        found = [] if first is None else [(0.0, math.exp(first))]
    for left, right in pairwise(sorted(figures)):
        kept_left, kept_right = figures[left] <= 0, figures[right] <= 0
        if kept_left or kept_right:
            end = right if kept_left and kept_right else _root(above, left, right)
            found.append((math.exp(left), math.exp(end)) if kept_left else (math.exp(end), math.exp(right)))
    return merged(found)


def _first(above: Callable[[float], float], noises: Noises, high: float | None = None) -> float | None:
    """The root of a rising function; None if it is too small a budget."""
    unit, smallest = float(sum(map(weight_of, noises))), SMALLEST[len(noises) > 1]
    if isinstance(noises[0], Geometric):
        unit, smallest = math.sqrt(sum(float(z) ** 2 for z in map(weight_of, noises))), math.sqrt(smallest)
    if high is None:
        high = math.log(4 / unit)
    low = high - math.log(16)
    while above(high) <= 0:
        low, high = high, high + math.log(4)
    while above(low) > 0:
        low, high = low - math.log(4), low
        if low < math.log(smallest / unit):
            return None
    return _root(above, low, high)


def _extremes(above: Callable[[float], float], figures: dict[float, float]) -> list[float]:
    """Extremes between points of the grid at which the function may lie on the other side of 0 than at the points."""
    logs = sorted(figures)
    found = []
    for before, at, after in zip(logs, logs[1:], logs[2:], strict=False):
        sign = -1 if figures[at] <= 0 else 1
        rest = [sign * (figures[end] - figures[at]) for end in (before, after)]
        if min(rest) >= 0 and sign * figures[at] <= max(rest):  # a parabola would turn within a quarter of this
            turn = minimize_scalar(
                lambda log, sign=sign: sign * above(log),
                bounds=(before, after),
                method="bounded",
                options={"xatol": 1e-9},
            )
            found.append(float(turn.x))
    return found


def _root(above: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(above, low, high, xtol=1e-14, rtol=1e-14))
