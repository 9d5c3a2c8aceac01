"""The distribution of a sum of independent noises, by convolution, with a bound on its error.

The sum of the noisy counts of siblings has the sum of their noises. kazan2022 (appendix 7.1, Proposition 1) replaces
the sum of d discrete Gaussians DG(1/(2 rho)) by DG(d/(2 rho)). Here the sum itself is computed, so the two can be
compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian, Noise

_UNIT = 2.0**-53  # rounding error of one operation
_DIRECT = 1 << 28  # largest number of products for which a convolution is summed term by term


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SumOfNoise(Noise):
    """A noise that is given by its probabilities on ``-reach`` to ``reach``.

    ``error`` bounds the total variation distance from the true distribution, including its tails beyond ``reach``.
    """

    probabilities: Floats
    error: float

    @property
    def reach(self) -> int:
        """The largest value with a stored probability."""
        return len(self.probabilities) // 2

    def pmf(self, k: ArrayLike) -> Floats:
        """P[X = k], which is 0 beyond the reach."""
        k = np.asarray(k, dtype=np.float64)
        inside = (np.abs(k) <= self.reach) & (k == np.floor(k))
        values: Floats = np.where(inside, self.probabilities[np.where(inside, k + self.reach, 0).astype(np.int64)], 0.0)
        return values

    def log_pmf(self, k: ArrayLike) -> Floats:
        """Logarithm of P[X = k], which is minus infinity beyond the reach."""
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(self.pmf(k))
        return logs

    def tail(self, k: ArrayLike) -> Floats:
        """P[X >= k]."""
        sums = np.append(np.cumsum(self.probabilities[::-1])[::-1], 0.0)
        place = np.clip(np.ceil(np.asarray(k, dtype=np.float64)) + self.reach, 0, len(sums) - 1)
        tails: Floats = sums[place.astype(np.int64)]
        return tails

    def actual_variance(self) -> float:
        """The variance of the sum."""
        k = np.arange(-self.reach, self.reach + 1, dtype=np.float64)
        return float(np.sum(k * k * self.probabilities))


def sum_of_noise(noises: Sequence[Noise], *, cut: float = 1e-20) -> SumOfNoise:
    """Return the distribution of the sum of independent noises. ``cut`` is the total probability of dropped tails.

    >>> three = sum_of_noise([DiscreteGaussian(variance=5)] * 3)
    >>> bool(abs(three.pmf(2) - DiscreteGaussian(variance=15).pmf(2)) < 1e-12), three.error < 1e-12
    (True, True)
    """
    if not noises:
        raise InputError("a sum needs at least one noise. Got none.")
    dropped = cut / (8 * len(noises))
    total: SumOfNoise | None = None
    for noise, times in Counter(noises).items():
        power: SumOfNoise | None = _window(noise, dropped)
        while power is not None:  # binary powers: x, x^2, x^4, ...
            if times & 1:
                total = power if total is None else _convolved(total, power, dropped)
            times >>= 1
            power = _convolved(power, power, dropped) if times else None
    assert total is not None
    total.probabilities.flags.writeable = False
    return total


def approximate_sum(noises: Sequence[DiscreteGaussian]) -> DiscreteGaussian:
    """Return one discrete Gaussian with the sum of the variances (kazan2022, Proposition 1: DG(d/(2 rho)))."""
    return DiscreteGaussian(variance=sum((noise.variance for noise in noises), Fraction(0)))


def _window(noise: Noise, dropped: float) -> SumOfNoise:
    """Truncate a noise where its tail is small enough. Each probability is accurate to a few dozen roundings."""
    reach = int(-noise.quantile(dropped / 2))
    probabilities = noise.pmf(np.arange(-reach, reach + 1))
    return SumOfNoise(probabilities=probabilities, error=dropped + 64 * _UNIT)


def _convolved(left: SumOfNoise, right: SumOfNoise, dropped: float) -> SumOfNoise:
    a, b = left.probabilities, right.probabilities
    shorter = min(len(a), len(b))
    if len(a) * len(b) <= _DIRECT:
        product = np.convolve(a, b)
        rounding = (shorter + 2) * _UNIT  # positive terms, so the relative error of each sum bounds that of the total
    else:
        product = convolved_by_fourier(a, b)
        size = len(product)
        norm = float(np.linalg.norm(a) * np.linalg.norm(b))
        rounding = 16 * _UNIT * math.log2(size) * norm * size  # Higham, Accuracy and Stability, Theorem 24.2
    product = (product + product[::-1]) / 2
    tails = np.cumsum(product[: len(product) // 2])
    spare = int(np.searchsorted(tails, dropped / 2))
    error = left.error + right.error + rounding + dropped
    return SumOfNoise(probabilities=product[spare : len(product) - spare], error=error)


def convolved_by_fourier(a: Floats, b: Floats) -> Floats:
    """Return the convolution of two series of probabilities by fast Fourier transform, without negative values.

    >>> convolved_by_fourier(np.array([0.5, 0.5]), np.array([0.25, 0.75])).round(12).tolist()
    [0.125, 0.5, 0.375]
    """
    size = len(a) + len(b) - 1
    fast = next_fast_len(size, real=True)
    product: Floats = irfft(rfft(a, fast) * rfft(b, fast), fast)[:size]
    return np.maximum(product, 0.0)
