r"""Budgets at which a target is rightly claimed no more often than a bound allows: all of them, as closed intervals.

The probability of a right decision (Eq. 18, 19) is not monotone in the budget: as it grows, the threshold falls at some
budgets, and between them extreme noise gets rarer. With L the logarithm of the odds needed:

- **One discrete Gaussian count** with the paper's rho: claimed where :math:`\rho (2\eta + 1) > L`. For L > 0 that is
  :math:`\eta \ge j` for rho in (L/(2j+1), L/(2j-1)], and :math:`\eta \ge 0` above L. For L < 0 it is
  :math:`\eta \ge -i` for rho in [\|L\|/(2i+1), \|L\|/(2i-1)), and :math:`\eta \ge 0` from \|L\| on.
  :math:`P[\eta \ge j]` falls with rho for j >= 1: it is A/(2A + B), A and B being the sums of
  :math:`e^{-\rho a^2}` over a >= j and over \|b\| < j, and each term of A falls against each of B, as a > \|b\|. For
  j <= 0 it is :math:`1 - P[\eta \ge 1 - j]` and rises. So each piece's extremes are at its ends: **exact**.
- **Geometric counts**: claimed are some patterns of raised and lowered counts. Which ones changes at finitely many
  budgets; between them each count is more often not lowered, and their probability rises: **exact**.
- **Several discrete Gaussian counts**: budgets where the decision changes lie dense. **Checked on a grid**.

How far to look: the logarithm of the likelihood ratio has mean V/2 and is sub-Gaussian with variance V, V being
:math:`1/s` for a discrete Gaussian (canonne2020) and :math:`2 z \tanh(z/2)` for a geometric count (Kearns & Saul 1998),
added up. So :math:`P[\mathrm{ratio} > L] \le e^{-(L - V/2)^2 / 2V}` for V < 2L, and likewise below the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from tallyveil.privacy.distributions import DiscreteGaussian, Geometric
from tallyveil.risk.evidence import Evidence
from tallyveil.risk.intruder import Exposure, Intruder

Noises = tuple[Geometric | DiscreteGaussian, ...]
Interval = tuple[float, float]  # from and to, both kept; from 0 means every smaller budget
PATTERNS = 12  # counts of which all patterns are listed
STEP, FINEST, EDGE = 0.1, 0.006, 1e-6  # of the grid, of its refinement, and how exactly an end is found: relative


def at_budget(noises: Noises, budget: Fraction) -> Noises:
    """The noise of each count at a budget, from the noise at a budget of one."""
    return tuple(
        Geometric(z=noise.z * budget)
        if isinstance(noise, Geometric)
        else DiscreteGaussian(variance=noise.variance / budget)
        for noise in noises
    )


def kept(noises: Noises, intruders: Sequence[Intruder], bound: Fraction) -> tuple[list[Interval], str]:
    """Budgets at which each intruder is right with a probability of at most ``bound``, and how they were found.

    ``noises`` are the counts' at a budget of one.

    >>> intervals, how = kept((DiscreteGaussian(variance="1/2"),), [Intruder(prior="1/5")], Fraction(29, 100))
    >>> [(round(low, 4), round(high, 4)) for low, high in intervals], how
    ([(0.0, 0.4621), (0.5542, 1.3863)], 'exact')
    """
    if len(noises) == 1 and isinstance(noises[0], DiscreteGaussian):
        rho = float(1 / (2 * noises[0].variance))  # the paper's, at a budget of one
        each = [_gaussian(_log_odds(one), float(bound)) for one in intruders]
        return [(low / rho, high / rho) for low, high in _intersection(each)], "exact"
    if len(noises) <= PATTERNS and all(isinstance(noise, Geometric) for noise in noises):
        return _intersection([_geometric(noises, _log_odds(one), float(bound)) for one in intruders]), "exact"
    return _scanned(noises, intruders, bound)


def _gaussian(needed: float, bound: float) -> list[Interval]:
    """Kept values of the paper's rho, for one discrete Gaussian count."""

    def tail(rho: float, j: int) -> float:
        return float(DiscreteGaussian(variance=1 / (2 * rho)).tail(j))  # type: ignore[arg-type]

    def pieces(low: int, high: int) -> Iterator[Interval]:
        """Kept parts of the pieces from low to high, settled together where their extremes allow it."""
        left, right = abs(needed) / (2 * high + 1), abs(needed) / (2 * low - 1)
        most, least = (tail(left, low), tail(right, high)) if needed > 0 else (tail(right, -high), tail(left, -low))
        if most <= bound:
            yield left, right
        elif least <= bound and low == high:
            end = _root(lambda rho: tail(rho, low if needed > 0 else -low) - bound, left, right)
            yield (end, right) if needed > 0 else (left, end)
        elif least <= bound:
            middle = (low + high) // 2
            yield from pieces(middle + 1, high)
            yield from pieces(low, middle)

    found: list[Interval] = []
    searched = _searched(needed, bound)
    if searched is not None and needed:
        rho = searched[0] / 2  # V = 1/s = 2 rho
        last = max(1, math.ceil((abs(needed) / rho + 1) / 2))
        found += [(0.0, needed / (2 * last + 1))] if needed > 0 else []
        found += pieces(1, last)
    found += _rising(lambda rho: tail(rho, 0), abs(needed), math.inf, bound)
    return _merged(found)


def _geometric(noises: Noises, needed: float, bound: float) -> list[Interval]:
    """Kept budgets, for geometric counts: a sum over their patterns, piece by piece."""
    z = [noise.z for noise in noises if isinstance(noise, Geometric)]
    whole = math.lcm(*(part.denominator for part in z))
    signs = np.array(list(product((1, -1), repeat=len(z))))
    sums = [sum(sign * int(part * whole) for sign, part in zip(row, z, strict=True)) for row in signs.tolist()]

    def claimed(least: int) -> Callable[[float], float]:
        """Probability of the patterns whose sum is this or more, by budget."""
        rows = signs[[total >= least for total in sums]]
        return lambda budget: float(expit(budget * rows * np.array(z, dtype=np.float64)).prod(axis=1).sum())

    if needed > 0:  # from needed / sum on, that sum is claimed too
        changes = sorted({total for total in sums if total > 0}, reverse=True)
        starts = [(needed * whole / total, claimed(total)) for total in changes]
        found = [(0.0, starts[0][0])]
    else:  # from needed / sum on, that negative sum is no longer claimed; at even odds none ever is
        changes = sorted({total for total in sums if total < 0}) if needed < 0 else [0]
        starts = [(needed * whole / total if total else 0.0, claimed(total + 1)) for total in changes]
        found = []
    ends = [start for start, _ in starts[1:]] + [math.inf]
    for (start, right), end in zip(starts, ends, strict=True):
        found += _rising(right, start, end, bound)
    return _merged(found)


def _scanned(noises: Noises, intruders: Sequence[Intruder], bound: Fraction) -> tuple[list[Interval], str]:
    """Kept budgets on a grid, finer where the bound is near; ends by bisection."""
    ranges = [_searched(_log_odds(one), float(bound)) for one in intruders]
    if any(one is None for one in ranges):
        return [], "exact"
    known = [one for one in ranges if one is not None]
    all_claim = [one for one, intruder in zip(known, intruders, strict=True) if intruder.odds_needed < 1]
    first = max(low for low, _ in all_claim) if all_claim else min(low for low, _ in known)
    low, high = (_budget_of(noises, v) for v in (first, min(high for _, high in known)))
    if low >= high:
        return [], "exact"
    seen: dict[float, float] = {}

    def right(budget: float) -> float:
        if budget not in seen:
            evidence = Evidence(noises=at_budget(noises, Fraction(repr(budget))))
            seen[budget] = max(Exposure(intruder=one, evidence=evidence).right_decision for one in intruders)
        return seen[budget]

    def refine(left: float, right_: float) -> None:
        near = min(abs(right(end) - float(bound)) for end in (left, right_))
        if right_ / left > 1 + FINEST and near <= 3 * abs(right(left) - right(right_)) + 0.001:
            middle = _digits(math.sqrt(left * right_))
            refine(left, middle)
            refine(middle, right_)

    count = math.ceil(math.log(high / low) / STEP) + 1
    grid = [_digits(budget) for budget in np.geomspace(low, high, max(count, 2))]
    for left, right_ in pairwise(grid):
        refine(left, right_)
    checked = sorted(seen)
    states = [right(budget) <= bound for budget in checked]
    found: list[Interval] = [] if all_claim else [(0.0, checked[0])] if states[0] else []
    for (left, kept_left), (right_, kept_right) in pairwise(zip(checked, states, strict=True)):
        if kept_left and kept_right:
            found.append((left, right_))
        elif kept_left or kept_right:
            inside = _edge(lambda budget: right(budget) <= bound, *((left, right_) if kept_left else (right_, left)))
            found.append((left, inside) if kept_left else (inside, right_))
    return _merged(found), f"checked on {len(seen)} budgets"


def _searched(needed: float, bound: float) -> Interval | None:
    """Between which V the bound may be met or not: below, always (never for L < 0); above, never. None: nowhere met."""
    met, missed = -math.log(bound), -math.log1p(-bound)
    if needed < 0:
        if missed <= -needed:
            return None  # (|L| + V/2)^2 / 2V > log 1/(1 - bound) for every V
        half, root = 2 * missed + needed, 2 * math.sqrt(missed * (missed + needed))
        return 2 * needed**2 / (half + root), 2 * (half + root)
    highest = 2 * (needed + 2 * missed) + 4 * math.sqrt(missed * (needed + missed))
    if needed == 0:  # P[right] <= (1 + total variation) / 2 <= (1 + sqrt(V) / 2) / 2, by Pinsker
        return ((4 * bound - 2) ** 2, highest) if bound > 0.5 else None
    return 2 * needed**2 / (needed + 2 * met + 2 * math.sqrt(met * (needed + met))), highest


def _rising(right: Callable[[float], float], start: float, end: float, bound: float) -> list[Interval]:
    """The kept part of a piece on which the probability rises."""
    if right(max(start, 1e-12)) > bound:
        return []
    high = max(2 * start, 1.0)
    while high < end and right(high) <= bound:
        high *= 2
    if high >= end:
        if right(end) <= bound:
            return [(start, end)]
        high = end
    return [(start, _root(lambda budget: right(budget) - bound, max(start, 1e-12), high))]


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(f, low, high, xtol=1e-300, rtol=1e-14))


def _edge(is_kept: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last kept budget from ``inside`` towards ``outside``, nearly."""
    while abs(outside / inside - 1) > EDGE:
        middle = _digits((inside + outside) / 2)
        inside, outside = (middle, outside) if is_kept(middle) else (inside, middle)
    return inside


def _budget_of(noises: Noises, wanted: float) -> float:
    """The budget at which the counts' V is this."""

    def v(budget: float) -> float:
        parts = (
            1 / float(noise.variance) * budget
            if isinstance(noise, DiscreteGaussian)
            else 2 * budget * float(noise.z) * math.tanh(budget * float(noise.z) / 2)
            for noise in noises
        )
        return sum(parts)

    return math.exp(brentq(lambda log: math.log(v(math.exp(log)) / wanted), -100, 100))


def _log_odds(intruder: Intruder) -> float:
    needed = intruder.odds_needed
    return math.log(needed.numerator) - math.log(needed.denominator) if needed != 1 else 0.0


def _digits(number: float) -> float:
    """Nine digits: budgets whose fractions are short."""
    return float(f"{number:.9g}")


def _merged(intervals: list[Interval]) -> list[Interval]:
    """Intervals in order, those that touch joined."""
    joined: list[Interval] = []
    for low, high in sorted(intervals):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def _intersection(each: list[list[Interval]]) -> list[Interval]:
    """Where all are kept."""
    common = each[0]
    for other in each[1:]:
        common = [(max(a, c), min(b, d)) for a, b in common for c, d in other if max(a, c) <= min(b, d)]
    return sorted(common)
