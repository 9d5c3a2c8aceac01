r"""How far the smoothed curve of empirical privacy loss may be off: a band for all of it, and its maximum without bias.

A residual :math:`k` moves :math:`\log p(x)/p(x+1)` by its influence over n, with :math:`w_k(x)` the kernel around it:

.. math:: \phi_k(x) = w_k(x)/p(x) - w_k(x+1)/p(x+1)

The variance is the sum of squares of influences, summed within clusters first. The band is as many standard errors wide
as the largest deviation of a Gaussian process with the same correlations exceeds with the stated probability (what
Gaussian multipliers of the clusters give, drawn from their covariance). It is a band for the smoothed density's curve:
smoothing itself moves the curve, for which see :mod:`tallyveil.evaluate.epl_interval`.

The maximum of a noisy curve is too large. Chernozhukov, Lee & Rosen [1]_ take the maximum of the curve less k standard
errors, k the median of the largest deviation over those x that may attain the maximum (their section 3.3, with their
:math:`\gamma_n = 1 - 0.1/\log n`): its median is not above the true maximum.

References
----------
.. [1] Chernozhukov, Lee & Rosen, Intersection bounds: estimation and inference, Econometrica 81, 2013.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtri

from tallyveil.evaluate.tally import Tally

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NODES = 600  # the band is computed at so many points at most, and between them interpolated
_BINS = 20_000
_DRAWS = 2000
_ROWS = 8192
_JITTER = 1e-9  # neighbouring points are so alike that their correlations have no root otherwise


class Band(NamedTuple):
    """Standard error at each ratio, how many of them the band is wide, and the maximum without its upward bias."""

    error: Floats
    critical: float
    corrected: float


class Bins(NamedTuple):
    """Residuals in narrow bins: where each bin is, how many are in it, and what gives a residual's bin."""

    centre: Floats
    filled: Integers
    low: int
    step: float

    def number(self, values: NDArray[np.generic]) -> Integers:
        """The bin of each residual; the last one is for those too far away to matter."""
        place = np.rint(np.asarray(values, dtype=np.float64) / self.step) - self.low
        inside = (place >= 0) & (place < len(self.centre))
        return np.where(inside, place, len(self.centre)).astype(np.int64)


def band(
    counted: Tally,
    points: Floats,
    log_p: Floats,
    *,
    width: float,
    confidence: float,
    seed: int,
    clusters: tuple[NDArray[np.generic], Integers] | None = None,
    single: int = 0,
) -> Band:
    """The band of the curve ``log_p[:-1] - log_p[1:]``.

    Parameters
    ----------
    counted, points, log_p, width
        The residuals, and what :func:`tallyveil.evaluate.smooth.log_density` made of them.
    clusters
        Residuals one by one, and the number (from 0) of the cluster each belongs to.
    single
        Further residuals of 0 that belong to no cluster.
    confidence, seed
        How surely the band holds the whole curve, and the seed of the draws that set its width.
    """
    stride = max(1, math.floor(width / 4))
    ratios = len(points) - 1
    dense = -(-ratios // stride) <= _NODES
    nodes = np.unique(np.append(np.arange(0, ratios, stride if dense else -(-ratios // _NODES)), ratios - 1))
    bins = _bins(counted, points, width)
    phi = _influence(bins.centre, points, log_p, nodes, width=width, n=counted.n)
    phi -= (bins.filled @ phi) / counted.n
    if clusters is None:
        covariance = phi.T @ (bins.filled[:, None] * phi)
    else:
        covariance = _between_clusters(phi, bins, *clusters, single=single)
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0)) / counted.n
    curve = log_p[nodes] - log_p[nodes + 1]
    everywhere = np.exp(np.interp(np.arange(ratios), nodes, np.log(np.maximum(error, 1e-300))))
    if dense:
        draws = _draws(covariance, seed)
        critical = max(float(np.quantile(np.abs(draws).max(axis=1), confidence)), float(ndtri((1 + confidence) / 2)))
        shift = _shift(curve, error, draws, counted.n)
    else:  # as if all points were independent: wider
        critical = float(-ndtri((1 - confidence ** (1 / ratios)) / 2))
        shift = float(-ndtri(-math.expm1(math.log(0.5) / (2 * ratios))))
    corrected = float(np.max(np.abs(log_p[:-1] - log_p[1:]) - shift * everywhere))
    return Band(everywhere, critical, max(0.0, corrected))


def _bins(counted: Tally, points: Floats, width: float) -> Bins:
    """Bins of a fiftieth of the width, of one whole number at least for whole residuals, as far as kernels reach."""
    least, most = points[0] - 11 * width, points[-1] + 11 * width
    step = max(width / 50, (most - least) / _BINS)
    if counted.whole:
        step = max(1.0, math.floor(step))
    low = math.floor(least / step)
    size = math.ceil(most / step) - low + 1
    bins = Bins((low + np.arange(size)) * step, np.zeros(size, dtype=np.int64), low, step)
    count = np.bincount(bins.number(counted.value), weights=counted.count, minlength=size + 1)[:size]
    return bins._replace(filled=count.astype(np.int64))


def _influence(centre: Floats, points: Floats, log_p: Floats, nodes: Integers, *, width: float, n: int) -> Floats:
    """The influence of a residual in each bin (rows) on the log ratio at each node (columns)."""

    def part(at: Integers) -> Floats:
        exponent = -(((points[at] - centre[:, None]) / width) ** 2) / 2
        exponent -= log_p[at] + math.log(width * math.sqrt(2 * math.pi))
        return np.exp(np.minimum(exponent, math.log(n)))

    return part(nodes) - part(nodes + 1)


def _between_clusters(
    phi: Floats, bins: Bins, values: NDArray[np.generic], cluster: Integers, *, single: int
) -> Floats:
    """Sum over clusters of the outer products of their summed influences."""
    padded = np.vstack([phi, np.zeros(phi.shape[1])])
    found = int(cluster.max()) + 1
    number = bins.number(values)
    table = csr_matrix((np.ones(len(number)), (cluster, number)), shape=(found, len(padded)))
    covariance = np.zeros((phi.shape[1], phi.shape[1]))
    for first in range(0, found, _ROWS):
        summed = table[first : first + _ROWS] @ padded
        covariance += summed.T @ summed
    covariance *= found / max(found - 1, 1)
    if single:
        zero = padded[bins.number(np.zeros(1))]
        covariance += single * zero.T @ zero
    return covariance


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
