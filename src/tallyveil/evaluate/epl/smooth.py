r"""The smoothed density of residuals, computed exactly at the points where it is needed.

The density is that of ``scipy.stats.gaussian_kde(values, bw_method=bandwidth)``: with :math:`c_k` residuals equal to
:math:`k`, :math:`n` in all, and width :math:`h` = bandwidth times their standard deviation (denominator n - 1),

.. math:: p(x) = \frac{1}{n h \sqrt{2\pi}} \sum_k c_k \, e^{-(x-k)^2 / 2h^2}

For points one apart and whole residuals, x - k takes few values, so the exponentials are computed once for all
residuals and added up directly (a Fourier transform would lose the tails). Terms too far away to matter are left out.
Where the density is too small for that, and for fractional residuals, terms are added relative to the largest, so that
nothing underflows.
"""

from __future__ import annotations

import math

import numpy as np

from tallyveil._arrays import Floats
from tallyveil._compiled import compiled, summing
from tallyveil.evaluate.value_counts import ValueCounts

_SMALL = 1e-12  # the logarithm of larger densities has an error below 1e-9


def log_density(counted: ValueCounts, points: Floats, *, width: float) -> Floats:
    """Logarithm of the smoothed density at points one apart; ``width`` is the kernel's standard deviation.

    >>> from tallyveil.evaluate.value_counts import value_counts
    >>> counted = value_counts([-1, 0, 0, 2])
    >>> np.exp(log_density(counted, np.array([0.0, 1.0]), width=1.0)).round(4).tolist()
    [0.2735, 0.195]
    """
    scale = counted.n * width * math.sqrt(2 * math.pi)
    result: Floats = np.full(len(points), -np.inf)
    if counted.whole and len(points):
        sums = _spread_whole(counted, points, width)
        enough = sums > _SMALL * scale
        result[enough] = np.log(sums[enough])
    else:
        enough = np.zeros(len(points), dtype=np.bool_)
    rest = np.flatnonzero(~enough)
    result[rest] = _log_sums(counted.value, counted.count, points[rest], width)
    return result - math.log(scale)


def _spread_whole(counted: ValueCounts, points: Floats, width: float) -> Floats:
    """Sum of c_k exp(-(x-k)^2 / 2 width^2) over the residuals k within reach of each point x."""
    reach = width * math.sqrt(2 * -math.log(1e-11 * _SMALL * min(width, 1.0)))  # left out: below 1e-10 of the sum
    first = math.floor(points[0])
    far = math.ceil(reach) + 1
    near = slice(*np.searchsorted(counted.value, [first - far, first + len(points) + far]))
    far = min(far, int(np.abs(counted.value[near] - first).max(initial=0)) + len(points) + 1)
    distance = points[0] - first + np.arange(-far, far + 1)
    kernel = np.exp(-((distance / width) ** 2) / 2)
    offset = counted.value[near].astype(np.int64) - first
    sums: Floats = _add_shifted(kernel, far, offset, counted.count[near].astype(np.float64), len(points))
    return sums


@summing
def _add_shifted(kernel, far, offset, count, points):  # type: ignore[no-untyped-def]
    """At each point j, the sum of count times the kernel at distance j - offset."""
    sums = np.zeros(points)
    for i in range(len(offset)):
        shift = far - offset[i]
        for j in range(max(0, -shift), min(points, len(kernel) - shift)):
            sums[j] += count[i] * kernel[j + shift]
    return sums


@compiled
def _log_sums(value, count, points, width):  # type: ignore[no-untyped-def]
    """Logarithm of the same sum at any points, added outwards from the nearest value, relative to its exponent."""
    sums = np.empty(len(points))
    for j in range(len(points)):
        x = points[j]
        above = np.searchsorted(value, x)
        nearest = above
        if above == len(value) or (above > 0 and x - value[above - 1] < value[above] - x):
            nearest = above - 1
        top = ((x - value[nearest]) / width) ** 2 / 2
        total = 0.0
        for k in range(above, len(value)):
            exponent = ((x - value[k]) / width) ** 2 / 2 - top
            if exponent > 65.0:  # 10^19 residuals further away would change the 10th digit
                break
            total += count[k] * math.exp(-exponent)
        for k in range(above - 1, -1, -1):
            exponent = ((x - value[k]) / width) ** 2 / 2 - top
            if exponent > 65.0:
                break
            total += count[k] * math.exp(-exponent)
        sums[j] = math.log(total) - top
    return sums
