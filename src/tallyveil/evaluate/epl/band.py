r"""A confidence band for the smoothed curve of empirical privacy loss, and its maximum corrected for bias.

A residual :math:`k` changes :math:`\log p(x)/p(x+1)` by its influence over n, where :math:`w_k(x)` is its kernel:

.. math:: \phi_k(x) = w_k(x)/p(x) - w_k(x+1)/p(x+1)

The variance is the sum of squared influences, which are summed within clusters first. The half-width of the band, in
standard errors, is a quantile of the largest deviation of a Gaussian process with the same correlations. It is drawn
from the covariance of the clusters, as with Gaussian multipliers; few clusters span too few directions, so it is at
least that of independent residuals. Student's quantile replaces the normal one at each point, because the variance is
an estimate (:mod:`tallyveil.evaluate.epl.clusters`). The band is for the curve of the smoothed density. Smoothing
itself changes the curve; for the curve before smoothing see :mod:`tallyveil.evaluate.epl.interval`.

The band needs enough residuals under the kernel: next to a single residual, the curve is the slope of the kernel, and
the influences are nearly 0. With kernel weights :math:`W_c(x)` summed by cluster, the effective number at x is
:math:`(\sum W_c)^2 / \sum W_c^2`. Where it is below 6 anywhere, or with fewer than 8 clusters, there is no band.

The maximum of a noisy curve is biased upwards. Chernozhukov, Lee & Rosen [1]_ use the maximum of the curve minus k
standard errors, where k is the median of the largest deviation over those x that may attain the maximum (their section
3.3, with their :math:`\gamma_n = 1 - 0.1/\log n`). The median of this estimate is not above the true maximum.

References
----------
.. [1] Chernozhukov, Lee & Rosen, Intersection bounds: estimation and inference, Econometrica 81, 2013.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtr, ndtri, stdtrit

from tallyveil._arrays import Floats, Integers
from tallyveil.evaluate.epl.clusters import Clusters, freedom
from tallyveil.evaluate.epl.smooth import log_density
from tallyveil.evaluate.value_counts import ValueCounts

_LEAST = 6.0  # with fewer residuals, or clusters, under the kernel there is no band (simulated in docs/epl.md)
_CLUSTERS = 8
_NODES = 600  # the band is computed at this many points at most, and interpolated between them
_BINS = 20_000
_DRAWS = 2000
_ROWS = 8192
_JITTER = 1e-9  # added to the correlations of neighbouring points, which are nearly singular


class Band(NamedTuple):
    """Standard error and half-width of the band at each ratio, and the maximum corrected for its upward bias.

    ``effective`` is the smallest effective number of clusters (residuals, if independent) under the kernel.
    """

    error: Floats
    half: Floats
    corrected: float
    effective: float
    clusters: int | None

    def too_few(self) -> str | None:
        """The reason why the band is unreliable; None if it is reliable."""
        if self.clusters is not None and self.clusters < _CLUSTERS:
            return f"residuals come in {self.clusters} clusters, and {_CLUSTERS} are needed"
        if self.effective >= _LEAST:
            return None
        those = "residuals" if self.clusters is None else "clusters of residuals"
        fewest = f"as few as {math.floor(10 * self.effective) / 10:.1f} {those} count under the kernel"
        return f"{fewest} somewhere in the search range, and {_LEAST:g} are needed"


class Bins(NamedTuple):
    """Residuals in narrow bins: the centre of each bin, its number of residuals, and the grid of the bins."""

    centre: Floats
    filled: Integers
    low: int
    step: float

    def number(self, values: NDArray[np.generic]) -> Integers:
        """The bin of each residual; -1 if it is too far away to matter."""
        place = np.rint(np.asarray(values, dtype=np.float64) / self.step) - self.low
        inside = (place >= 0) & (place < len(self.centre))
        return np.where(inside, place, -1).astype(np.int64)


def band(
    counted: ValueCounts,
    points: Floats,
    log_p: Floats,
    *,
    width: float,
    confidence: float,
    seed: int,
    clusters: tuple[NDArray[np.generic], Clusters] | None = None,
) -> Band:
    """The band of the curve ``log_p[:-1] - log_p[1:]``.

    Parameters
    ----------
    counted, points, log_p, width
        The residuals, and the result of :func:`tallyveil.evaluate.epl.smooth.log_density` for them.
    clusters
        Single residuals, and their clusters.
    confidence, seed
        Probability that the band contains the whole curve, and the seed of the draws that set its width.
    """
    stride = max(1, math.floor(width / 4))
    ratios = len(points) - 1
    dense = -(-ratios // stride) <= _NODES
    nodes = np.unique(np.append(np.arange(0, ratios, stride if dense else -(-ratios // _NODES)), ratios - 1))
    bins = _bins(counted, points, width)
    weights = partial(_weights, bins, points, log_p, width=width, n=counted.n)
    alone = _independent(weights, bins.filled, nodes, counted.n)
    spread = alone
    if clusters is not None:
        values, of = clusters
        zero = int(bins.number(np.zeros(1))[0])
        table = of.table(bins.number(values), len(bins.centre), zero=None if zero < 0 else zero)
        spread = _between_clusters(weights, table, nodes)
    effective = min(spread.effective, _under_kernel(counted, points, log_p, width))
    error = np.sqrt(np.maximum(np.diag(spread.covariance), 0.0)) / counted.n
    curve = log_p[nodes] - log_p[nodes + 1]
    if dense:
        spreads = (spread, alone)[: 1 if clusters is None else 2]
        draws = [_draws(assumed.covariance, seed) for assumed in spreads]
        sups = [float(np.quantile(np.abs(drawn).max(axis=1), confidence)) for drawn in draws]
        critical = max(*sups, float(ndtri((1 + confidence) / 2)))
        shift = _shift(curve, error, draws[int(np.argmax(sups))], counted.n)
    else:  # wider: all points are treated as independent
        critical = float(-ndtri((1 - confidence ** (1 / ratios)) / 2))
        shift = float(-ndtri(-math.expm1(math.log(0.5) / (2 * ratios))))

    def everywhere(times: Floats | float) -> Floats:
        log_size = np.log(np.maximum(error * times, 1e-300))
        return np.asarray(np.exp(np.interp(np.arange(ratios), nodes, log_size)))

    half, off = (everywhere(-stdtrit(spread.freedom, ndtr(-deviations))) for deviations in (critical, shift))
    corrected = float(np.max(np.abs(log_p[:-1] - log_p[1:]) - off))
    return Band(everywhere(1.0), half, max(0.0, corrected), effective, None if clusters is None else clusters[1].number)


class _Spread(NamedTuple):
    """Covariance of summed influences at the nodes, its degrees of freedom, and the smallest effective number."""

    covariance: Floats
    freedom: Floats
    effective: float


def _independent(weights: Callable[[Integers], Floats], filled: Integers, nodes: Integers, n: int) -> _Spread:
    parts = [weights(nodes), weights(nodes + 1)]
    phi = parts[0] - parts[1]
    squares = phi**2
    free = _freedom(filled @ squares, filled @ squares**2, n)
    counting = [_counting(filled @ part, filled @ part**2) for part in parts]
    return _Spread(phi.T @ (filled[:, None] * phi), free, min(counting))


def _between_clusters(weights: Callable[[Integers], Floats], table: csr_matrix, nodes: Integers) -> _Spread:
    """Sum over clusters of the outer products of their summed influences."""
    at = np.unique(np.append(nodes, nodes + 1))
    left, right = np.searchsorted(at, nodes), np.searchsorted(at, nodes + 1)
    here, clusters = weights(at), table.shape[0]
    covariance, fourth = np.zeros((len(nodes), len(nodes))), np.zeros(len(nodes))
    total, squared = np.zeros(len(at)), np.zeros(len(at))
    for first in range(0, clusters, _ROWS):
        summed = table[first : first + _ROWS] @ here
        influence = summed[:, left] - summed[:, right]
        covariance += influence.T @ influence
        influence *= influence
        fourth += np.einsum("ij,ij->j", influence, influence)
        total += summed.sum(axis=0)
        squared += np.einsum("ij,ij->j", summed, summed)
    free = _freedom(np.diag(covariance), fourth, clusters)
    return _Spread(covariance * clusters / max(clusters - 1, 1), free, _counting(total, squared))


def _freedom(second: Floats, fourth: Floats, number: int) -> Floats:
    return freedom(np.divide(fourth, second**2, out=np.ones_like(fourth), where=second > 1e-100), number)


def _counting(total: Floats, squared: Floats) -> float:
    """The smallest effective number: the square of the sum over the sum of squares."""
    return float(np.divide(total**2, squared, out=np.zeros(len(squared)), where=squared > 1e-100).min())


def _under_kernel(counted: ValueCounts, points: Floats, log_p: Floats, width: float) -> float:
    """The smallest effective number of residuals under the kernel, by their weights and by their distance.

    A residual can be no nearer than the point itself, or the nearest whole number. With many residuals on all sides of
    a point, both numbers are the same.
    """
    scale = math.log(counted.n * width * math.sqrt(2 * math.pi))
    log_sum = log_p + scale
    log_squares = log_density(counted, points, width=width / math.sqrt(2)) + scale - math.log(2) / 2
    nearest = np.abs(points - np.rint(points)) if counted.whole else np.zeros(len(points))
    log_near = log_sum + (nearest / width) ** 2 / 2 + math.log(2) / 2
    return float(np.exp(min((2 * log_sum - log_squares).min(), log_near.min())))


def _bins(counted: ValueCounts, points: Floats, width: float) -> Bins:
    """Bins of a fiftieth of the width (whole numbers for whole residuals), as far as the kernels reach."""
    least, most = points[0] - 11 * width, points[-1] + 11 * width
    step = max(width / 50, (most - least) / _BINS)
    if counted.whole:
        step = max(1.0, math.floor(step))
    low = math.floor(least / step)
    size = math.ceil(most / step) - low + 1
    bins = Bins((low + np.arange(size)) * step, np.zeros(size, dtype=np.int64), low, step)
    place = bins.number(counted.value)
    count = np.bincount(place[place >= 0], weights=counted.count[place >= 0], minlength=size)
    return bins._replace(filled=count.astype(np.int64))


def _weights(bins: Bins, points: Floats, log_p: Floats, at: Integers, *, width: float, n: int) -> Floats:
    """Kernel over density for a residual in each bin (rows) at each point (columns); summed over residuals, n."""
    exponent = -(((points[at] - bins.centre[:, None]) / width) ** 2) / 2
    exponent -= log_p[at] + math.log(width * math.sqrt(2 * math.pi))
    weights: Floats = np.exp(np.minimum(exponent, math.log(n)))
    total = bins.filled @ weights
    return weights * np.divide(n, total, out=np.zeros(len(at)), where=total > 1e-100)


def _draws(covariance: Floats, seed: int) -> Floats:
    """Draws of a Gaussian process with this covariance, each point at variance 1 (0 where it has none)."""
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    inverse = np.divide(1.0, error, out=np.zeros_like(error), where=error > 1e-12 * error.max(initial=0))
    correlation = covariance * inverse[:, None] * inverse
    root = np.linalg.cholesky(correlation + _JITTER * np.eye(len(error)))
    normal = np.random.default_rng(seed).standard_normal((_DRAWS, len(error)))
    result: Floats = normal @ root.T
    return result


def _shift(curve: Floats, error: Floats, draws: Floats, n: int) -> float:
    """How many standard errors to take off before the maximum (section 3.3 of [1]_, for the curve and its negative)."""
    kappa = float(np.quantile(np.abs(draws).max(axis=1), 1 - 0.1 / math.log(max(n, 3))))
    threshold = np.max(np.abs(curve) - kappa * error) - 2 * kappa * error
    rising, falling = curve >= threshold, -curve >= threshold
    largest = np.maximum(
        draws[:, rising].max(axis=1, initial=-np.inf), (-draws[:, falling]).max(axis=1, initial=-np.inf)
    )
    return max(0.0, float(np.median(largest)))
