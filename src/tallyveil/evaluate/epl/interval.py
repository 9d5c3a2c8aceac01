r"""An interval for the largest log ratio of neighbouring probabilities of residuals, before any smoothing.

The estimand is :math:`\theta = \max_x |\log P(x) / P(x+1)|` over whole numbers x and x + 1 of the search range:
z for G(z). The maximum of estimated ratios is biased upwards, and so is its bootstrap. Here both ends come from exact
binomial bounds: given the number of residuals in A or B, the number in A is binomial with odds P(A)/P(B) (Clopper &
Pearson, 1934).

Upper end
    The largest of the one-sided upper bounds of all neighbouring pairs, each at half the error. The pair that attains
    theta is fixed, and its bound is below theta with at most that probability, so no correction for the number of pairs
    is needed (union-intersection). Without assumptions on the shape no bound can be lower, because any pair may attain
    the maximum. A pair with an empty value has no upper bound, and then theta has none.
Lower end
    For any set of values A and shift m, :math:`\log P(A)/P(A+m) \le m\theta`, so a lower bound for the left side
    divided by m is a lower bound for theta. A runs over blocks of 1, 2, 4, ... values, shifted by 1, 2, 4, ... blocks
    in both directions. The other half of the error is split evenly between block lengths, and evenly within a length
    (Bonferroni). Long blocks hold many residuals, so the bound is sharp where the ratio is constant over a stretch, as
    for geometric noise.

Residuals that are dependent within clusters (siblings under one parent) carry less information. Counts are divided by
the design effect, which is the variance of the log ratio between clusters over that of independent residuals, but at
least 1, with Student's quantile for few clusters [1]_. Only clusters with residuals in the pair of blocks contribute,
and a few large ones may dominate (:mod:`tallyveil.evaluate.epl.clusters`). At the lower end, where the error is split
so finely that the tails matter, the degrees of freedom are the effective number of clusters.

The search range is treated as fixed. It depends on percentiles of the residuals, which hardly vary if residuals are
many.

References
----------
.. [1] Korn & Graubard, Confidence intervals for proportions with small expected number of positive counts estimated
   from survey data, Survey Methodology 24, 1998.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import betaincinv, ndtri, stdtrit

from tallyveil._arrays import Floats, Integers
from tallyveil.evaluate.epl.clusters import freedom

_LEAST = 1e-290  # quantiles of smaller probabilities are not computed, and give no bound
_CANDIDATES = 8  # pairs of blocks of each length that are bounded exactly


class RatioInterval(NamedTuple):
    """Ends of the interval; ``high`` is None if the ratio is unbounded, and ``empty`` a value without residuals."""

    low: float
    high: float | None
    empty: int | None = None


def interval(count: Integers, *, first: int, confidence: float, clustered: csr_matrix | None = None) -> RatioInterval:
    """Interval for the largest |log P(x)/P(x+1)| from the counts of the values first, first + 1, ...

    ``clustered`` has the counts by cluster (rows) and value, where residuals depend on each other.

    >>> interval(np.array([250, 500, 1000, 500, 250]), first=-2, confidence=0.95)      # log 2 = 0.693
    RatioInterval(low=0.5..., high=0.84..., empty=None)
    """
    alpha = (1 - confidence) / 2
    empty = np.flatnonzero(count == 0)
    high = None if len(empty) else _upper(count, alpha, clustered)
    return RatioInterval(_lower(count, alpha, clustered), high, int(empty[0]) + first if len(empty) else None)


class _Pairs(NamedTuple):
    """Pairs of blocks of equal length: their starts, their length, and the number of residuals in each."""

    a: Integers
    b: Integers
    length: Integers
    in_a: Integers
    in_b: Integers

    def apart(self) -> Integers:
        """The distance between the two blocks."""
        shift: Integers = np.abs(self.b - self.a)
        return shift


def _upper(count: Integers, alpha: float, clustered: csr_matrix | None) -> float | None:
    x = np.arange(len(count) - 1)
    y = x + 1
    pairs = _Pairs(np.where(count[x] > count[y], x, y), np.where(count[x] > count[y], y, x), np.ones_like(x), x, y)
    pairs = pairs._replace(
        in_a=count[pairs.a], in_b=count[pairs.b]
    )  # the larger count over the smaller has the higher bound
    shrink = _shrinkage(pairs, np.full(len(x), alpha), len(count), clustered, far=False)
    highest = -float(_least_log_odds(pairs.in_b / shrink, pairs.in_a / shrink, alpha).min())
    return highest if highest < np.inf else None


def _lower(count: Integers, alpha: float, clustered: csr_matrix | None) -> float:
    lengths = [1 << i for i in range(len(count).bit_length()) if 2 << i <= len(count)]
    promising = [_most_promising(count, length, alpha / len(lengths)) for length in lengths]
    pairs = _Pairs(*(np.concatenate(columns) for columns in zip(*(pairs for pairs, _ in promising), strict=True)))
    if not len(pairs.a):
        return 0.0
    level = np.repeat([level for _, level in promising], [len(pairs.a) for pairs, _ in promising])
    shrink = _shrinkage(pairs, level, len(count), clustered, far=True)
    return max(0.0, float(np.max(_least_log_odds(pairs.in_a / shrink, pairs.in_b / shrink, level) / pairs.apart())))


def _least_log_odds(a: Floats, b: Floats, alpha: float | Floats) -> Floats:
    """Lower bound of log P(A)/P(B) for a residuals in A and b in B; its negative bounds log P(B)/P(A) from above."""
    chance = betaincinv(a, b + 1, alpha)
    least: Floats = np.log(chance, out=np.full(np.shape(chance), -np.inf), where=chance > _LEAST)
    least -= np.log1p(-chance)
    return least


def _most_promising(count: Integers, length: int, alpha: float) -> tuple[_Pairs, float]:
    """The pairs of blocks of one length whose bounds are likely the best, and the error level of each.

    The error is split over all pairs, so that any choice is valid.
    """
    start = np.arange(0, len(count) - length + 1, length)
    inside = np.add.reduceat(count[: start[-1] + length], start)
    shifts = [1 << j for j in range(len(start).bit_length()) if 1 << j < len(start)]
    level = alpha / (2 * sum(len(start) - shift for shift in shifts))
    best = []
    for shift in shifts:
        i = np.arange(len(start) - shift)
        a, b = np.concatenate([i, i + shift]), np.concatenate([i + shift, i])
        more, less = inside[a] + 0.5, inside[b] + 0.5
        guess = (np.log(more / less) + ndtri(level) * np.sqrt(1 / more + 1 / less)) / (shift * length)
        guess[inside[a] == 0] = -np.inf
        top = np.argpartition(-guess, min(_CANDIDATES, len(guess)) - 1)[:_CANDIDATES]
        best.append(np.stack([guess[top], a[top], b[top]]))
    guess, a, b = np.concatenate(best, axis=1)
    top = np.argsort(-guess, kind="stable")[:_CANDIDATES]
    a, b = (ends[top][guess[top] > -np.inf].astype(np.int64) for ends in (a, b))
    return _Pairs(start[a], start[b], np.full(len(a), length), inside[a], inside[b]), level


def _shrinkage(pairs: _Pairs, alpha: Floats, values: int, clustered: csr_matrix | None, *, far: bool) -> Floats:
    """The divisor of the counts of pairs of blocks: the design effect of their log ratio, larger for few clusters."""
    if clustered is None:
        return np.ones(len(pairs.a))
    clusters = clustered.shape[0]
    column = np.repeat(np.arange(len(pairs.a)), pairs.length)
    within = np.arange(len(column)) - np.repeat(np.cumsum(pairs.length) - pairs.length, pairs.length)
    weight = [1 / np.maximum(inside, 1) for inside in (pairs.in_a, pairs.in_b)]
    rows = np.concatenate([pairs.a[column] + within, pairs.b[column] + within])
    entries = np.concatenate([weight[0][column], -weight[1][column]])
    contrast: Any = csr_matrix((entries, (rows, np.tile(column, 2))), shape=(values, len(pairs.a)))
    share = clustered @ contrast  # by cluster: its share of A minus its share of B
    square = share.data**2
    between, fourth = (np.bincount(share.indices, part, minlength=len(pairs.a)) for part in (square, square**2))
    independent = weight[0] * (pairs.in_a > 0) + weight[1] * (pairs.in_b > 0)
    effect = between * clusters / max(clusters - 1, 1) / np.maximum(independent, 1e-300)
    concentration = np.divide(fourth, between**2, out=np.ones_like(between), where=between > 0)
    free = np.minimum(1 / concentration, max(clusters - 1, 1)) if far else freedom(concentration, clusters)
    result: Floats = np.maximum(effect, 1.0) * (stdtrit(free, alpha) / ndtri(alpha)) ** 2
    return result
