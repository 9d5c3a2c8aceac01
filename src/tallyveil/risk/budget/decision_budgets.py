r"""All budgets at which a target is rightly claimed no more often than a bound allows, as closed intervals.

The probability of a right decision (Eq. 18, 19) is not monotone in the budget. As the budget grows, the threshold falls
at some budgets, and between them extreme noise becomes rarer. With L the logarithm of the odds needed:

- **One discrete Gaussian count** with the paper's rho: claimed if :math:`\rho (2\eta + 1) > L`. For L > 0 that is
  :math:`\eta \ge j` for rho in (L/(2j+1), L/(2j-1)], and :math:`\eta \ge 0` above L. For L < 0 it is
  :math:`\eta \ge -i` for rho in [\|L\|/(2i+1), \|L\|/(2i-1)), and :math:`\eta \ge 0` from \|L\| on.
  :math:`P[\eta \ge j]` falls with rho for j >= 1: it is A/(2A + B), A and B being the sums of
  :math:`e^{-\rho a^2}` over a >= j and over \|b\| < j, and each term of A falls against each of B, as a > \|b\|. For
  j <= 0 it is :math:`1 - P[\eta \ge 1 - j]` and rises. So each piece's extremes are at its ends: **exact**.
- **Geometric counts**: the target is claimed for some patterns of raised and lowered counts. The set of patterns
  changes at finitely many budgets. Between them each count is less often lowered, so the probability rises: **exact**.
- **Several discrete Gaussian counts**, or many geometric ones: stretch by stretch (``decision_stretches``), on as many
  budgets as needed. Where jumps are very dense, the largest budget is found to a relative 1e-6.

The range of the search: the log likelihood ratio has mean V/2 and is sub-Gaussian with variance V, where V is the sum
of :math:`1/s` for discrete Gaussian counts (canonne2020) and :math:`2 z \tanh(z/2)` for geometric counts (Kearns & Saul
1998). So :math:`P[\mathrm{ratio} > L] \le e^{-(L - V/2)^2 / 2V}` for V < 2L, and likewise below the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from scipy.special import expit, ndtri

from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.risk.budget.decision_stretches import Stretches
from tallyveil.risk.budget.intervals import (
    BudgetsTried,
    Interval,
    Noises,
    Tried,
    budget_of,
    intersection,
    log_odds,
    merged,
    root,
    short,
)
from tallyveil.risk.target.intruder import Intruder

PATTERNS = 12  # largest number of counts whose patterns are all listed
TINY = 1e-7  # the smallest V that is searched, for several counts


def budgets_by_decision(
    noises: Noises,
    intruders: Sequence[Intruder],
    bound: Fraction,
    progress: BudgetsTried = None,
) -> tuple[list[Interval], str]:
    """Budgets at which each intruder is right with a probability of at most ``bound``, and how they were found.

    ``noises`` is the noise of the counts at a budget of one. ``progress`` is called with the number of budgets tried.

    >>> paper = DiscreteGaussian(variance="1/2")
    >>> intervals, how = budgets_by_decision((paper,), [Intruder(prior="1/5")], Fraction(29, 100))
    >>> [(round(low, 4), round(high, 4)) for low, high in intervals], how
    ([(0.0, 0.4621), (0.5542, 1.3863)], 'exact')
    """
    if len(noises) == 1 and isinstance(noises[0], DiscreteGaussian):
        rho = float(1 / (2 * noises[0].variance))  # the paper's, at a budget of one
        each = [_gaussian(log_odds(one), float(bound)) for one in intruders]
        return [(low / rho, high / rho) for low, high in intersection(each)], "exact"
    if len(noises) <= PATTERNS and all(isinstance(noise, Geometric) for noise in noises):
        return intersection([_geometric(noises, log_odds(one), float(bound)) for one in intruders]), "exact"
    return _by_stretches(noises, intruders, bound, progress)


def _gaussian(needed: float, bound: float) -> list[Interval]:
    """Values of the paper's rho that keep the bound, for one discrete Gaussian count."""

    def tail(rho: float, j: int) -> float:
        return float(DiscreteGaussian(variance=1 / (2 * rho)).tail(j))  # type: ignore[arg-type]

    def pieces(low: int, high: int) -> Iterator[Interval]:
        """The parts of the pieces from low to high that keep the bound, decided together if their extremes allow it."""
        left, right = abs(needed) / (2 * high + 1), abs(needed) / (2 * low - 1)
        most, least = (tail(left, low), tail(right, high)) if needed > 0 else (tail(right, -high), tail(left, -low))
        if most <= bound:
            yield left, right
        elif least <= bound and low == high:
            end = root(lambda rho: tail(rho, low if needed > 0 else -low) - bound, left, right)
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
    return merged(found)


def _geometric(noises: Noises, needed: float, bound: float) -> list[Interval]:
    """Budgets that keep the bound for geometric counts: a sum over their patterns, piece by piece."""
    z = [noise.z for noise in noises if isinstance(noise, Geometric)]
    whole = math.lcm(*(part.denominator for part in z))
    signs = np.array(list(product((1, -1), repeat=len(z))))
    sums = [sum(sign * int(part * whole) for sign, part in zip(row, z, strict=True)) for row in signs.tolist()]

    def claimed(least: int) -> Callable[[float], float]:
        """Probability of the patterns with this sum or more, as a function of the budget."""
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
    return merged(found)


def _by_stretches(
    noises: Noises, intruders: Sequence[Intruder], bound: Fraction, progress: BudgetsTried
) -> tuple[list[Interval], str]:
    """Budgets that keep the bound for several counts: one intruder after another, among the budgets left so far."""
    if len({type(noise) for noise in noises}) > 1:
        raise InputError(
            "right decisions are bounded for counts of one kind of noise. Give geometric or Gaussian ones."
        )
    tried = Tried(progress)
    common: list[Interval] = [(0.0, math.inf)]
    for intruder in intruders:
        if common:
            stretches = Stretches(noises, intruder, float(bound), tried)
            kept = _of_one_intruder(noises, intruder, float(bound), stretches, common[-1][1])
            common = intersection([common, kept])
    return common, str(tried) if tried.count else "exact"


def _of_one_intruder(
    noises: Noises, intruder: Intruder, bound: float, stretches: Stretches, up_to: float
) -> list[Interval]:
    """Budgets up to a largest one that keep the bound for one intruder."""
    needed = log_odds(intruder)
    searched = _searched(needed, bound)
    if needed == 0 and isinstance(noises[0], Geometric) and bound <= 0.5:
        searched = TINY, _searched(needed, 0.75)[1]  # type: ignore[index]  # ties may keep it so low
    if searched is None:
        return []
    low, high = (budget_of(noises, max(v, TINY)) for v in searched)
    low, high = short(low * (1 - 1e-8)), short(min(high * (1 + 1e-8), up_to))
    if needed >= 0 and (needed == 0 or searched[0] < TINY) and not stretches.keeps(low):
        return []  # only a budget that is too small to be useful could keep the bound
    found = [(0.0, low)] if needed >= 0 else []
    if low < high:
        normal = 2 * float(ndtri(bound))  # normal noise is right with Phi((V/2 - L) / sqrt(V)); at even odds:
        guess = budget_of(noises, normal**2) if needed == 0 and normal > 0 else None
        found += stretches.between(low, high, guess=guess)
    return merged(found)


def _searched(needed: float, bound: float) -> Interval | None:
    """The range of V to search: below, the bound is always kept (never for L < 0); above, never. None: never kept."""
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
    """The part of a piece that keeps the bound, where the probability rises."""
    if right(max(start, 1e-12)) > bound:
        return []
    high = max(2 * start, 1.0)
    while high < end and right(high) <= bound:
        high *= 2
    if high >= end:
        if right(end) <= bound:
            return [(start, end)]
        high = end
    return [(start, root(lambda budget: right(budget) - bound, max(start, 1e-12), high))]
