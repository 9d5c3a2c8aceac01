r"""Precisions (one over the variance) of noise as a function of the budget that a measurement gets, with derivatives.

A measurement with a budget x has the precision

- Gaussian: :math:`2x/c` where c counts change between neighbours, as long as the variance parameter is above 10, and
  one over the variance of the discrete distribution below that. Its derivative follows from
  :math:`d\,E[k^2] / ds = (E[k^4] - E[k^2]^2) / 2 s^2`.
- geometric: :math:`\cosh(x/c) - 1`, which is one over :math:`2 e^{-z} / (1 - e^{-z})^2`.

Under the only-child rule a unit pays for several levels. Its level's share is then the sum of theirs, divided among the
queries of its own level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.blue.problem import NO_NOISE
from tallyveil.privacy.strategy import Strategy

CONTINUOUS = 10.0  # variance parameters above this are those of the distribution, to the last digit
Pair = tuple[str, str]  # level, query


def precision(strategy: Strategy, budget: float) -> tuple[float, float]:
    """The precision of a measurement with some of the budget, and its derivative.

    >>> plan = Strategy(mechanism="gaussian", budget=1, levels={"us": 1}, queries={"us": {"total": 1}})
    >>> precision(plan, 0.05)
    (0.05, 1.0)
    """
    changes = 2 if strategy.neighbours == "replace-one" else 1
    if strategy.mechanism == "geometric":
        z = budget / changes
        if z > 700 or math.cosh(z) - 1 >= 1 / NO_NOISE:
            return 1 / NO_NOISE, 0.0
        return 2 * math.sinh(z / 2) ** 2, math.sinh(z) / changes
    variance = changes / (2 * budget)
    if variance > CONTINUOUS:
        return 1 / variance, 2 / changes
    k = np.arange(1, 39 * math.ceil(math.sqrt(variance)) + 2, dtype=np.float64)
    mass = np.exp(-k * k / (2 * variance))
    normaliser = 1 + 2 * float(mass.sum())
    second, fourth = (2 * float((k**power * mass).sum()) / normaliser for power in (2, 4))
    if second <= NO_NOISE:
        return 1 / NO_NOISE, 0.0
    slope = (fourth - second**2) / (2 * variance**2)  # of the second moment, by the parameter
    return 1 / second, slope / second**2 * variance / budget


@dataclass(frozen=True, kw_only=True, eq=False)
class Spending:
    """How the shares of all measurements become precisions.

    Attributes
    ----------
    strategy
        The mechanism and the neighbours; its shares are not used.
    pairs
        The level and query of each share.
    levels
        All levels, coarse to fine.
    """

    strategy: Strategy
    pairs: Sequence[Pair]
    levels: Sequence[str]

    def precisions(self, shares: Floats, budget: float) -> dict[str, dict[str, Floats]]:
        """The precision of each level's queries by span; 0 where nothing is measured."""
        return {
            level: {query: np.array([values[0] for values in spans]) for query, spans in queries.items()}
            for level, queries in self._each(shares, budget).items()
        }

    def gradient(self, shares: Floats, budget: float, of: Mapping[str, Mapping[str, Floats]]) -> tuple[Floats, float]:
        """The gradient by share, and by the budget, from that by precision."""
        out, by_budget = np.zeros(len(shares)), 0.0
        place = {pair: number for number, pair in enumerate(self.pairs)}
        of_level = self._of_level(shares)
        inside = {level: np.array([pair[0] == level for pair in self.pairs]) for level in self.levels}
        for level, queries in self._each(shares, budget).items():
            for query, spans in queries.items():
                mine = shares[place[level, query]]
                for span, slope in enumerate(of[level][query]):
                    if span == 0 or slope == 0:
                        continue
                    paid = self.levels[self.levels.index(level) :][:span]
                    whole = sum(of_level[name] for name in paid)
                    each = slope * spans[span][1]
                    by_budget += each * whole * mine / of_level[level]
                    each *= budget
                    out[place[level, query]] += each * whole / of_level[level]
                    if span > 1:  # share = whole * mine / level's
                        out[inside[level]] -= each * whole * mine / of_level[level] ** 2
                        for name in paid:
                            out[inside[name]] += each * mine / of_level[level]
        return out, by_budget

    def _each(self, shares: Floats, budget: float) -> dict[str, dict[str, list[tuple[float, float]]]]:
        """The precision and its derivative by level, query and span."""
        of_level = self._of_level(shares)
        out: dict[str, dict[str, list[tuple[float, float]]]] = {level: {} for level in self.levels}
        for (level, query), share in zip(self.pairs, shares, strict=True):
            below = [of_level[name] for name in self.levels[self.levels.index(level) :]]
            reach = len(below) if self.strategy.only_child else 1
            out[level][query] = [(0.0, 0.0)] + [
                precision(self.strategy, budget * float(sum(below[:span])) * float(share) / of_level[level])
                for span in range(1, reach + 1)
            ]
        return out

    def _of_level(self, shares: Floats) -> dict[str, float]:
        return {
            level: float(sum(share for pair, share in zip(self.pairs, shares, strict=True) if pair[0] == level))
            for level in self.levels
        }
