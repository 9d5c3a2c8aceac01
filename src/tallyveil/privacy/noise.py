r"""The two noise distributions on the integers, in floating point.

Both have one exact parameter and work at any scale from far below 1 to 10\ :sup:`8`. These functions are used for
weights, risk and reports. Noise is never drawn from them (see ``sampling``).

References
----------
petti2020
    Defines G(z). The printed variance is the reciprocal of the correct one (erratum 2).
kazan2022
    Eq. 8 is the discrete Gaussian with variance parameter 1/(2 rho).
canonne2020
    Canonne, Kamath & Steinke, The Discrete Gaussian for Differential Privacy, NeurIPS 2020.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx

from tallyveil._arrays import Bools, Floats
from tallyveil.errors import InputError
from tallyveil.privacy.budget import exact


class Noise(ABC):
    """A distribution on the integers that is symmetric about 0."""

    @abstractmethod
    def log_pmf(self, k: ArrayLike) -> Floats:
        """Logarithm of P[X = k]."""

    @abstractmethod
    def tail(self, k: ArrayLike) -> Floats:
        """P[X >= k], to full relative precision as long as it is a normal float."""

    @abstractmethod
    def actual_variance(self) -> float:
        """The variance of the distribution itself."""

    def pmf(self, k: ArrayLike) -> Floats:
        """P[X = k]."""
        return np.exp(self.log_pmf(k))

    def cdf(self, k: ArrayLike) -> Floats:
        """P[X <= k]."""
        return self.tail(-np.asarray(k, dtype=np.float64))  # symmetry: P[X <= k] = P[X >= -k]

    def quantile(self, p: ArrayLike) -> Floats:
        """The smallest k with P[X <= k] >= p, for 0 < p < 1."""
        wanted = np.asarray(p, dtype=np.float64)
        if not ((wanted > 0) & (wanted < 1)).all():
            raise InputError(f"a quantile needs a probability strictly between 0 and 1. Got {p!r}.")
        upper = wanted >= 0.5  # use P[X > k] <= 1 - p there, which floats can resolve near p = 1
        small = np.where(upper, 1 - wanted, wanted)
        low, high = np.zeros_like(small), np.ones_like(small)  # find the smallest j with P[X >= j] <= small, or < small

        def reached(j: Floats) -> Bools:
            return np.where(upper, self.tail(j) <= small, self.tail(j) < small)

        while not (done := reached(high)).all():
            high = np.where(done, high, 2 * high)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            low, high = (np.where(done := reached(middle), low, middle), np.where(done, middle, high))
        # p has a rounding error: if the steps of the cdf are far larger, quantile(cdf(k)) must be k
        before, here = self.tail(high - 1), self.tail(high)
        high = high - (upper & (high > 1) & (before - small <= 2.0**-53) & (before - here > 2.0**-50))
        return np.where(upper, high - 1, 1 - high)


@final
@dataclass(frozen=True, kw_only=True)
class Geometric(Noise):
    r"""Two-sided geometric G(z): :math:`P[k] = \frac{1 - e^{-z}}{1 + e^{-z}} e^{-z|k|}` (petti2020).

    >>> round(float(2 * Geometric(z=1).tail(3)), 4)     # kazan2022, section 2.1: 7.28 %
    0.0728
    """

    z: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "z", exact(self.z, "z"))

    def log_pmf(self, k: ArrayLike) -> Floats:
        """Logarithm of P[X = k]."""
        z, k = float(self.z), np.asarray(k, dtype=np.float64)
        return np.where(k == np.floor(k), math.log(math.tanh(z / 2)) - z * np.abs(k), -np.inf)

    def tail(self, k: ArrayLike) -> Floats:
        """P[X >= k]."""
        z, k = float(self.z), np.ceil(np.asarray(k, dtype=np.float64))
        above = np.exp(-z * np.maximum(k, 0)) / (1 + math.exp(-z))
        below = np.exp(-z * np.maximum(1 - k, 0)) / (1 + math.exp(-z))
        return np.where(k > 0, above, 1 - below)

    def actual_variance(self) -> float:
        """2 e^-z / (1 - e^-z)^2 (erratum 2: the paper prints the reciprocal)."""
        z = float(self.z)
        return 2 * math.exp(-z) / math.expm1(-z) ** 2

    @property
    def parameter(self) -> Fraction:
        """The parameter z."""
        return self.z

    @property
    def loss(self) -> Fraction:
        """The privacy loss of a count that differs by one: z, an epsilon of pure differential privacy."""
        return self.z


@final
@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(Noise):
    r"""Discrete Gaussian: :math:`P[k] \propto e^{-k^2 / 2\sigma^2}` with parameter :math:`\sigma^2` (canonne2020).

    ``variance`` is that parameter (DG(s) in kazan2022). The variance of the distribution, ``actual_variance()``, is
    smaller, but noticeably so only below 1.

    >>> round(float(2 * DiscreteGaussian(variance=1).tail(3)), 4)     # kazan2022, section 2.1: 0.91 %
    0.0091
    """

    variance: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", exact(self.variance, "variance"))

    def log_pmf(self, k: ArrayLike) -> Floats:
        """Logarithm of P[X = k]."""
        s = float(self.variance)
        k = np.asarray(k, dtype=np.float64)
        return np.where(k == np.floor(k), -k * k / (2 * s) - math.log(_normaliser(s)), -np.inf)

    def tail(self, k: ArrayLike) -> Floats:
        """P[X >= k]."""
        k = np.ceil(np.asarray(k, dtype=np.float64))
        upper = _upper_sum(float(self.variance), np.where(k > 0, k, 1 - k)) / _normaliser(float(self.variance))
        return np.where(k > 0, upper, 1 - upper)

    def actual_variance(self) -> float:
        r"""Sum of k² P[k]."""
        s = float(self.variance)
        if s > 10:  # differs from s by less than e^(-2 pi^2 s), far below a float's last digit
            return s
        k = np.arange(1, _REACH * math.ceil(math.sqrt(s)) + 2, dtype=np.float64)
        return float(2 * np.sum(k * k * self.pmf(k)))

    @property
    def parameter(self) -> Fraction:
        """The variance parameter."""
        return self.variance

    @property
    def loss(self) -> Fraction:
        """The privacy loss of a count that differs by one: 1 / (2 variance), a rho (Theorem 4 of canonne2020)."""
        return 1 / (2 * self.variance)


_REACH = 39  # beyond 39 standard deviations a tail is no longer a normal float
_TABLE = 2000.0  # largest standard deviation whose tails are summed term by term


def _normaliser(s: float) -> float:
    """Sum exp(-k^2 / 2s) over all integers k, term by term or by Poisson summation (both converge quickly)."""
    if s < 0.5:
        return 1 + 2 * sum(math.exp(-k * k / (2 * s)) for k in range(1, 8))
    return math.sqrt(2 * math.pi * s) * (1 + 2 * sum(math.exp(-2 * math.pi**2 * k * k * s) for k in range(1, 4)))


def _upper_sum(s: float, k: Floats) -> Floats:
    """Sum exp(-j^2 / 2s) over j >= k, for k >= 1."""
    sigma = math.sqrt(s)
    if sigma <= _TABLE:
        sums = _upper_sums(s)
        return sums[np.minimum(k, len(sums) - 1).astype(np.int64)]
    # Euler-Maclaurin at midpoints: integral + f'/24 - 7 f'''/5760 + ..., f' = -x/s f. The terms left out are below
    # (39 / sigma)^6 / 1000 of the sum.
    x = (k - 0.5) / sigma
    f = np.exp(-x * x / 2)
    integral: Floats = sigma * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)) * f
    first = -x * f / sigma
    third = (3 * x - x**3) * f / sigma**3
    return integral + first / 24 - 7 * third / 5760


@lru_cache(maxsize=64)
def _upper_sums(s: float) -> Floats:
    """Sum exp(-j^2 / 2s) over j >= k, for k = 0, 1, ... until the sums vanish; small terms are added first."""
    k = np.arange(_REACH * math.ceil(math.sqrt(s)) + 2, dtype=np.float64)
    sums = np.append(np.cumsum(np.exp(-k * k / (2 * s))[::-1])[::-1], 0.0)
    sums.flags.writeable = False
    return sums
