r"""The joint evidence of several noisy counts for and against a target: log likelihood ratios add up.

If the target has the characteristics, each of these counts is one higher (or one lower, since the noise is symmetric).
With independent noise :math:`\eta_i`, the log likelihood ratio for a target who has them is a sum of

- :math:`(2\eta_i + 1) / 2s_i` for a discrete Gaussian count with variance parameter :math:`s_i` (from Eq. 11);
- for a geometric count, :math:`z_i` if the noise does not lower the count and :math:`-z_i` if it does (Eq. 12).

Parameters are fractions, so all possible values lie on a grid ``step * (m + offset)`` with integer m, and their
distribution is a convolution over integers. For a target who does not have the characteristics, the sign is reversed.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from typing import final

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.sums import convolved_by_fourier

CountNoise = Geometric | DiscreteGaussian  # the noise of one released count
CUT = 1e-20  # probability of each count's noise that is left out if there are several counts
BY_PLACES = 1 << 28  # number of products up to which a convolution is computed directly
WIDEST = 10**10  # variance of a noise
LARGEST = 1 << 19  # points of a grid; a finer grid is rounded to about as many
_REACH = 39  # standard deviations of a single noise; probabilities beyond are not normal floats


@final
@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The log likelihood ratio of noisy counts, for a target who has the characteristics.

    Examples
    --------
    Two equally noisy counts tie where their noise sums to -1. A single count never ties.

    >>> both = Evidence(noises=(DiscreteGaussian(variance=5), DiscreteGaussian(variance=5)))
    >>> both.step, both.offset, round(both.at(-1), 4)
    (Fraction(1, 5), Fraction(1, 1), 0.12)
    """

    noises: tuple[CountNoise, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "noises", tuple(self.noises))
        if not self.noises:
            raise InputError("evidence needs at least one noisy count. Got none.")
        for noise in self.noises:
            if not isinstance(noise, CountNoise):
                raise InputError(f"noise is Geometric or DiscreteGaussian. Got a {type(noise).__name__} instead.")
            if isinstance(noise, DiscreteGaussian) and noise.variance > WIDEST:
                raise InputError(
                    f"a noise of variance {float(noise.variance):.3g} is too wide to be summed, and reveals next to "
                    f"nothing. Give a larger budget: a variance of {WIDEST:.0e} or less."
                )

    @cached_property
    def step(self) -> Fraction:
        """The step of the grid: the exact step, unless that grid would be too large to store."""
        return self.exact_step * self._coarser

    @cached_property
    def exact_step(self) -> Fraction:
        """The largest step of which all possible values are integer multiples, apart from the offset."""
        return reduce(_common, (weight_of(noise) for noise in self.noises))

    @cached_property
    def offset(self) -> Fraction:
        """The offset of the grid from integer multiples of the step."""
        halves = (
            sum((weight_of(noise) for noise in self.noises if isinstance(noise, DiscreteGaussian)), Fraction(0)) / 2
        )
        return halves / self.step

    @cached_property
    def rounding(self) -> float:
        """Largest error of the logarithm because the exact grid was too large to store; 0 in all ordinary cases."""
        return len(self.noises) * float(self.step) / 2 if self._coarser > 1 else 0.0

    @cached_property
    def truncation(self) -> float:
        """Upper bound on the probability that is left out or rounded away."""
        return 0.0 if len(self.noises) == 1 else 1e-14 * len(self.noises)

    @property
    def first(self) -> int:
        """The smallest m with a positive probability."""
        return self._grid[0]

    @property
    def probabilities(self) -> Floats:
        """Probability of m = first, first + 1, ..."""
        return self._grid[1]

    def logs(self) -> Floats:
        """The log likelihood ratio at each point of the grid."""
        m = np.arange(self.first, self.first + len(self.probabilities), dtype=np.float64)
        return (m + float(self.offset)) * float(self.step)

    def at(self, m: int) -> float:
        """P[m]."""
        place = m - self.first
        return float(self.probabilities[place]) if 0 <= place < len(self.probabilities) else 0.0

    def above(self, m: int) -> float:
        """P[m or more]."""
        if len(self.noises) == 1 and isinstance(self.noises[0], DiscreteGaussian):
            return float(self.noises[0].tail(m))  # to full relative precision
        return float(self._tails[min(max(m - self.first, 0), len(self._tails) - 1)])

    @cached_property
    def _tails(self) -> Floats:
        return np.append(np.cumsum(self.probabilities[::-1])[::-1], 0.0)

    @cached_property
    def _coarser(self) -> int:
        """The factor by which the exact grid is too fine."""
        variance = sum(self._reach(noise) ** 2 * weight_of(noise) ** 2 for noise in self.noises)
        points = 2 * math.sqrt(variance) / float(self.exact_step) if len(self.noises) > 1 else 1.0
        return max(1, math.ceil(points / LARGEST))

    def _reach(self, noise: CountNoise) -> int:
        if isinstance(noise, Geometric):
            return 1
        if len(self.noises) > 1:
            return int(-noise.quantile(CUT / 2))
        return math.ceil(_REACH * math.sqrt(noise.variance)) + 1

    @cached_property
    def _grid(self) -> tuple[int, Floats]:
        """The first point and the probabilities. Small weights come first, so that long grids need few shifts."""
        if len(self.noises) == 1:
            return self._sum(self.noises[0], 1)
        return _convolved(tuple(sorted(self.noises, key=weight_of)))

    def _sum(self, noise: CountNoise, times: int) -> tuple[int, Floats]:
        """The distribution of a sum of equal noises: its first value, and the probabilities from there on.

        The values of geometric noise are -1 and 1: whether it lowers the count. A sum of discrete Gaussians of variance
        4 or more is a discrete Gaussian, to a relative 3e-17 of each probability (by Poisson summation).
        """
        if isinstance(noise, Geometric):
            stays = float(noise.tail(0))
            one = np.array([1 - stays, 0.0, stays])
        else:
            if noise.variance >= 4:
                noise, times = DiscreteGaussian(variance=noise.variance * times), 1
            reach = self._reach(noise)
            one = noise.pmf(np.arange(-reach, reach + 1))
        low, chances = -(len(one) // 2), one
        for _ in range(times - 1):
            low, chances = _trimmed(low - len(one) // 2, np.convolve(chances, one))
        return low, chances


@lru_cache(maxsize=16)
def _convolved(noises: tuple[CountNoise, ...]) -> tuple[int, Floats]:
    evidence = Evidence(noises=noises)
    first, total = 0, np.ones(1)
    for noise, times in Counter(noises).items():
        low, chances = evidence._sum(noise, times)
        weight = weight_of(noise) / evidence.step
        places = np.rint(np.arange(low, low + len(chances)) * float(weight)).astype(
            np.int64
        )  # exact if they are integers
        if len(places) * len(total) > BY_PLACES:
            spread = np.bincount(places - places[0], chances)
            moved = convolved_by_fourier(total, spread.astype(np.float64))  # to 1e-16 of the total
        else:
            moved = np.zeros(len(total) + int(places[-1] - places[0]))
            for place, chance in zip((places - places[0]).tolist(), chances.tolist(), strict=True):
                moved[place : place + len(total)] += chance * total
        first, total = _trimmed(first + int(places[0]), moved)
    total.flags.writeable = False
    return first, total


def _trimmed(first: int, chances: Floats) -> tuple[int, Floats]:
    """The distribution without tails of total probability ``CUT``."""
    below, above = (int(np.searchsorted(np.cumsum(end), CUT / 2)) for end in (chances, chances[::-1]))
    return first + below, chances[below : len(chances) - above]


def weight_of(noise: CountNoise) -> Fraction:
    """The weight of a count in the log likelihood ratio: 1/s, or z."""
    return noise.z if isinstance(noise, Geometric) else 1 / noise.variance


def _common(one: Fraction, two: Fraction) -> Fraction:
    """The largest fraction of which both are integer multiples."""
    return Fraction(
        math.gcd(one.numerator * two.denominator, two.numerator * one.denominator), one.denominator * two.denominator
    )
