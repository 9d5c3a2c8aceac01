r"""Several counts: budgets at which a target is rightly claimed no more often than a bound allows, stretch by stretch.

A target is claimed if the evidence exceeds L, the logarithm of the odds needed. On the grid of the evidence at a budget
of one (``step``, ``offset``; both scale with the budget b), these are the points from u(b) on, the first point with
:math:`b\,\mathrm{step}\,(u + \mathrm{offset}) > L`. So u is monotone in b, and the probability jumps only at

.. math:: b_m = L / (\mathrm{step}\,(m + \mathrm{offset})).

For a fixed u, the probability :math:`T_b(u)` of u or more is monotone in b too. For geometric counts it rises, since
each count is less often lowered. For discrete Gaussian counts it falls for u > 0 and rises for u <= 0. For equal
variances this holds because sums of symmetric unimodal integers keep the order of their concentration (Birnbaum 1948);
for other variances it was checked numerically, and no exception was found.

So between b and b' the probability is at most :math:`\max(T_b, T_{b'})` at the smaller of u(b), u(b'), and at least
their minimum at the larger. A stretch that this does not decide is divided until it has at most one jump. Then each
side of the jump is decided at its ends. **No budget in between is left out.** A stretch that is still undecided at a
relative width of 1e-6 counts as breaking the bound. (Above the first budget that breaks it, the width is 1e-3, since
what follows is not used.) If a grid is too fine to store and is rounded (``Evidence.rounding``), this holds for the
rounded grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

from tallyveil.privacy.thresholds import floor_of_log
from tallyveil.risk.budget.intervals import Interval, Noises, Tried, at_budget, log_odds, merged, root, short
from tallyveil.risk.target.evidence import Evidence
from tallyveil.risk.target.intruder import Intruder

FINEST, COARSEST = 1e-6, 1e-3  # smallest relative widths: before and after the first budget that breaks the bound
EXACTLY = 1e-10  # relative precision of an end, which is then moved inwards by as much
NEAR = 1.001  # factor around the budget at which normal noise would reach the bound


@final
@dataclass(frozen=True, kw_only=True)
class _At:
    """The evidence at a budget, and the first point from which a target is claimed."""

    budget: float
    first: int
    coarser: int
    evidence: Evidence

    def tail(self, u: int) -> float:
        """P[u or more], where u is a point of the grid at a budget of one."""
        return min(self.evidence.above(-(-u // self.coarser)), 1.0)


@final
class Stretches:
    """Budgets between two budgets that keep the bound for one intruder."""

    def __init__(self, noises: Noises, intruder: Intruder, bound: float, tried: Tried) -> None:
        self._noises, self._intruder, self._bound, self._tried = noises, intruder, bound, tried
        self._broken = False  # whether a budget that breaks the bound was found

    def between(self, low: float, high: float, *, guess: float | None = None) -> list[Interval]:
        """Budgets from low to high that keep the bound, divided first where the bound is likely to be reached."""
        near = [] if guess is None else [guess / NEAR, guess * NEAR]
        points = sorted({low, high, *(short(b) for b in near if low < short(b) < high)})
        if log_odds(self._intruder):
            count = math.ceil(math.log2(high / low))
            points = sorted({low, high, *(short(low * (high / low) ** (i / count)) for i in range(1, count))})
        found: list[Interval] = []
        left = self.at(points[0])
        for budget in points[1:]:
            right = self.at(budget)
            found += self._stretch(left, right)
            left = right
        return merged(found)

    def keeps(self, budget: float) -> bool:
        """Whether the bound is kept at a budget."""
        at = self.at(budget)
        return at.tail(at.first) <= self._bound

    def at(self, budget: float) -> _At:
        """The evidence at a budget."""
        exactly = Fraction(repr(budget))
        evidence = Evidence(noises=at_budget(self._noises, exactly))
        scale = 1 / (self._step * exactly)
        first = floor_of_log(self._intruder.odds_needed, times=scale, plus=-self._offset) + 1
        self._tried()
        return _At(budget=budget, first=first, coarser=int(evidence.step * scale), evidence=evidence)

    def _stretch(self, left: _At, right: _At) -> Iterator[Interval]:
        low, high = sorted((left.first, right.first))
        wide = right.budget / left.budget - 1
        if max(left.tail(low), right.tail(low)) <= self._bound:
            yield left.budget, right.budget
        elif min(left.tail(high), right.tail(high)) > self._bound:
            self._broken = True
        elif high == low:
            yield from self._piece(left, right, low)
        elif high == low + 1:
            jump = log_odds(self._intruder) / float(self._step * (low + self._offset))
            middle = self.at(min(max(jump, left.budget), right.budget))
            yield from self._piece(left, middle, left.first)
            yield from self._piece(middle, right, right.first)
        elif wide <= (COARSEST if self._broken else FINEST):
            self._broken = True
        else:
            middle = self.at(short(math.sqrt(left.budget * right.budget)))
            yield from self._stretch(left, middle)
            yield from self._stretch(middle, right)

    def _piece(self, left: _At, right: _At, u: int) -> Iterator[Interval]:
        """Between two jumps: claimed from u on, with a probability that is monotone."""
        ends = {at.budget: at.tail(u) - self._bound for at in (left, right)}
        kept_left, kept_right = (ends[at.budget] <= 0 for at in (left, right))
        if kept_left and kept_right:
            yield left.budget, right.budget
            return
        self._broken = True
        if kept_left or kept_right:

            def above(budget: float) -> float:
                return ends[budget] if budget in ends else self.at(budget).tail(u) - self._bound

            end = root(above, left.budget, right.budget, exactly=EXACTLY)
            inside = end * (1 - 2 * EXACTLY if kept_left else 1 + 2 * EXACTLY)
            inside = min(max(inside, left.budget), right.budget)
            yield (left.budget, inside) if kept_left else (inside, right.budget)

    @cached_property
    def _step(self) -> Fraction:
        return Evidence(noises=self._noises).exact_step

    @cached_property
    def _offset(self) -> Fraction:
        unit = Evidence(noises=self._noises)
        return unit.offset * unit.step / unit.exact_step
