"""The noise of a sum of siblings' counts, with tails that reach every released count."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from tallyveil._arrays import Floats
from tallyveil.privacy.noise import DiscreteGaussian, Geometric, Noise
from tallyveil.privacy.sums import SumOfNoise, approximate_sum, sum_of_noise
from tallyveil.risk.target.evidence import CountNoise

_TINY = 1e-60  # probability below which wide sums are continued by the tail of a single noise


@lru_cache(maxsize=256)
def noise_of_sum(noises: tuple[CountNoise, ...], approximate: bool) -> Noise:
    """The noise of a sum.

    A sum of discrete Gaussians of variance 4 or more is a discrete Gaussian by Poisson summation: the relative error of
    every probability is below 4 exp(-4 pi^2) = 3e-17, also in the tails. Other noises are convolved.
    """
    if not noises:
        return _NoNoise()
    gaussians = [one for one in noises if isinstance(one, DiscreteGaussian)]
    if approximate:
        return approximate_sum(gaussians)
    parts = [one for one in noises if isinstance(one, Geometric) or one.variance < 4]
    wide = [one for one in gaussians if one.variance >= 4]
    parts += [approximate_sum(wide)] if wide else []
    if len(parts) == 1:
        return parts[0]
    slowest = min((one.z for one in parts if isinstance(one, Geometric)), default=None)
    like = approximate_sum(gaussians) if slowest is None else Geometric(z=slowest)
    spread = math.sqrt(sum(one.actual_variance() for one in parts))
    reach = 30 * spread + (0 if slowest is None else 470 / slowest)
    if 8000 <= reach < 10**6:
        return _Continued(_tilted(parts, slowest, reach / 3), like)
    return _Continued(sum_of_noise(parts, cut=1e-200 if reach < 8000 else 1e-10), like)


def _tilted(parts: Sequence[Noise], slowest: Fraction | None, reach: float) -> SumOfNoise:
    """A sum that is too wide to be convolved directly, down to probabilities of ``_TINY``.

    A Fourier transform has errors relative to the largest probability, so its tail is wrong. The sum of noises tilted
    by exp(t k) is accurate near its own mean, and equals the sum's probabilities times exp(t k). So t is raised until
    the mean reaches probabilities that are too small, and each probability is taken from the t for which it is largest
    relative to the peak.
    """
    size = 1 << math.ceil(math.log2(8 * reach))
    k = np.arange(-(size // 2), size // 2, dtype=np.float64)
    most = math.inf if slowest is None else float(slowest) - 8 / reach  # with more, the tail would wrap around
    noises = [(noise.log_pmf(k), times) for noise, times in Counter(parts).items()]
    logs, best, tilt = np.full(size // 2, -np.inf), np.full(size // 2, -np.inf), 0.0
    while True:
        log_total, transform = 0.0, np.ones(size // 2 + 1, dtype=np.complex128)
        for log_pmf, times in noises:
            weights = np.exp(log_pmf + tilt * k)
            total = weights.sum()
            log_total += times * math.log(total)
            transform *= np.fft.rfft(np.fft.ifftshift(weights / total)) ** times
        mass = np.maximum(np.fft.irfft(transform)[: size // 2], 1e-300)
        height, at = np.log(mass / mass.max()), np.arange(size // 2)
        better = height > best
        logs[better], best[better] = (np.log(mass) + log_total - tilt * at)[better], height[better]
        peak = int(mass.argmax())
        spread = math.sqrt(float(np.average((at - peak) ** 2.0, weights=mass)))
        if tilt >= most or logs[peak] < math.log(_TINY):
            break
        middle = math.inf if slowest is None else (tilt + float(slowest)) / 2
        tilt = min(tilt + 3 / spread, middle, most)
    last = int(np.argmax(logs < math.log(_TINY))) or size // 2
    half = np.exp(logs[:last])
    return SumOfNoise(probabilities=np.concatenate([half[:0:-1], half]), error=1e-12)


@final
class _NoNoise(Noise):
    """The noise of no siblings, which is 0."""

    def log_pmf(self, k: ArrayLike) -> Floats:
        """0 at 0, minus infinity elsewhere."""
        return np.where(np.asarray(k) == 0, 0.0, -np.inf)

    def tail(self, k: ArrayLike) -> Floats:
        """P[0 >= k]."""
        return np.where(np.asarray(k) <= 0, 1.0, 0.0)

    def actual_variance(self) -> float:
        """0."""
        return 0.0


@final
class _Continued(Noise):
    """A sum by convolution, continued by the tail of a similar noise, so that no released count is impossible."""

    def __init__(self, table: SumOfNoise, like: Noise) -> None:
        self.table, self.like = table, like

    def log_pmf(self, k: ArrayLike) -> Floats:
        """Logarithm of P[X = k]."""
        at, edge = np.abs(np.asarray(k, dtype=np.float64)), self.table.reach
        beyond = self.table.log_pmf(edge) + self.like.log_pmf(at) - self.like.log_pmf(edge)
        return np.where(at <= edge, self.table.log_pmf(np.minimum(at, edge)), beyond)

    def tail(self, k: ArrayLike) -> Floats:
        """P[X >= k]."""
        return self.table.tail(k)

    def actual_variance(self) -> float:
        """The sum's variance."""
        return self.table.actual_variance()
