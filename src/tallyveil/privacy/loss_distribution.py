r"""The privacy loss distribution of counts with discrete Gaussian noise, each of which differs by one.

If a count differs by one between two datasets, its noise with variance parameter :math:`\sigma^2` takes the value j
with probability P[j] in one and P[j + 1] in the other, so that the privacy loss of the value is (2j + 1) / 2σ². The
losses of independent counts add up. The delta at an epsilon is the expectation of :math:`1 - e^{\varepsilon - L}` over
the losses L above epsilon (the hockey-stick divergence, [1]_).

The result is an upper bound, tight to a few parts in ten thousand:

- If all losses lie on one lattice that is not too fine, the grid is that lattice. Otherwise losses are moved to a grid
  such that both probabilities are kept ([2]_): the mass at a loss is split between the two grid points beside it. This
  can only tell more, and it changes delta by a term of second order in the step.
- Masses are multiplied by :math:`e^{tL}` before they are convolved and divided by it afterwards. With t at the saddle
  point, the losses near epsilon are the likely ones, so the convolution by FFT is precise relative to delta, however
  small delta is.
- What is left out is bounded and added: the tails of each noise, losses beyond the window of the FFT (Chernoff's bound)
  and rounding errors.

References
----------
.. [1] Sommer, Meiser & Mohammadi, Privacy Loss Classes, PoPETs 2019.
.. [2] Doroshenko, Ghazi, Kamath, Kumar & Manurangsi, Connect the Dots: Tighter Discrete Approximations of Privacy Loss
   Distributions, PoPETs 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tallyveil._arrays import Floats, Integers
from tallyveil.privacy.noise import DiscreteGaussian

Counts = tuple[tuple[Fraction, int], ...]  # variance parameters, and how many counts with that noise differ

TOLERANCE = 1e-4  # of delta, for the grid: the step follows from it
WIDEST_STEP = 0.02
MOST_POINTS = 1 << 22
LATTICE_POINTS = 1 << 18  # at most, for a grid without rounding
FEWEST_POINTS = 1 << 19  # over all variances: few counts have few losses, whose places matter
BEYOND = 1e-14  # probability of the losses outside the window of the FFT
_LEFT_OUT = 30.0  # what is left out of a tail is e^-30 of the delta that is expected
_SDS = 9.0  # half the width of the window, in standard deviations of the tilted loss
_ROUNDING = 2.0**-53


def largest_delta(counts: Counts, epsilon: float) -> float:
    """Return the delta at which this epsilon holds between two datasets that differ in these counts, rounded up.

    >>> pair = ((Fraction(4), 2),)                              # two counts with variance 4
    >>> 0.03796 < largest_delta(pair, 1.0) < 0.03798
    True
    """
    if not counts:
        return 0.0
    parts = [_Noise(variance=variance, times=times) for variance, times in counts]
    tilt = _saddle_point(parts, epsilon)
    reach = _LEFT_OUT + _chernoff(parts, tilt, epsilon) + math.log(sum(part.times for part in parts))
    grid = _grid_of(parts, tilt, epsilon)
    placed = [part.on(grid, reach) for part in parts]
    while (beyond := _beyond_window(grid, placed)) > BEYOND and grid.points <= 2 * MOST_POINTS:
        grid = replace(grid, first=grid.first - grid.points // 2, points=2 * grid.points)
    left_out = 4 * sum(part.times for part in parts) * math.exp(-reach)
    return min(1.0, (_delta_on(grid, placed, epsilon, beyond) + left_out) * (1 + 1e-8))


@final
@dataclass(frozen=True, kw_only=True)
class _Grid:
    """Losses ``(first + i) * step``, the tilt of their masses, and whether every loss of the noise is among them."""

    step: float
    first: int
    points: int
    tilt: float
    lattice: bool


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """The tilted masses of one noise at ``index * step``: ``exp(log_scale) * mass`` with masses that sum to 1."""

    index: Integers
    mass: Floats
    log_scale: float
    times: int


@final
@dataclass(frozen=True, kw_only=True)
class _Noise:
    """Discrete Gaussian noise on ``times`` counts that differ by one."""

    variance: Fraction
    times: int

    @property
    def s(self) -> float:
        return float(self.variance)

    def moments(self, tilt: float) -> tuple[float, float, float]:
        """Return log E[e^(tilt L)], and the mean and variance of the tilted loss of one count.

        Tilting moves the centre of the noise to ``tilt``. Where the variance is above 10, sums over the integers are
        integrals to within a float's last digits (as in ``DiscreteGaussian.actual_variance``).
        """
        s = self.s
        if s > 10:
            return tilt * (1 + tilt) / (2 * s), (1 + 2 * tilt) / (2 * s), 1 / s
        j = np.arange(-40 - 10 * math.ceil(s), math.ceil(tilt) + 40 + 10 * math.ceil(s), dtype=np.float64)
        loss = (2 * j + 1) / (2 * s)
        log_mass = DiscreteGaussian(variance=self.variance).log_pmf(j) + tilt * loss
        top = float(log_mass.max())
        mass = np.exp(log_mass - top)
        whole = float(mass.sum())
        mean = float(mass @ loss) / whole
        return top + math.log(whole), mean, float(mass @ (loss - mean) ** 2) / whole

    def on(self, grid: _Grid, reach: float) -> _Part:
        """Return the tilted masses on a grid. Values with a probability below about e^-reach are left out."""
        furthest = math.ceil(math.sqrt(2 * self.s * reach)) + 1
        if self.s * grid.step <= 2:
            low, log_mass, share = self._split_values(grid, -furthest, furthest)
        else:
            low, log_mass, share = self._split_ranges(grid, -furthest, furthest)
        first, t, h = int(low.min()), grid.tilt, grid.step
        top = float((log_mass + t * h * low).max())
        mass = np.exp(log_mass + t * h * low - top)
        size = int(low.max()) - first + 2
        tilted = np.bincount(low - first, weights=mass * (1 - share), minlength=size)
        tilted += np.bincount(low - first + 1, weights=mass * share * math.exp(t * h), minlength=size)
        whole = float(tilted.sum())
        return _Part(
            index=np.arange(first, first + size),
            mass=tilted / whole,
            log_scale=top + math.log(whole),
            times=self.times,
        )

    def _split_values(self, grid: _Grid, least: int, most: int) -> tuple[Integers, Floats, Floats]:
        """Return for each value the grid point below its loss, its log mass, and the share that moves up."""
        j = np.arange(least, most + 1, dtype=np.float64)
        loss = (2 * j + 1) / (2 * self.s)
        low = np.rint(loss / grid.step) if grid.lattice else np.floor(loss / grid.step)
        share = (
            np.zeros(len(j))
            if grid.lattice
            else np.clip(np.expm1(low * grid.step - loss) / math.expm1(-grid.step), 0.0, 1.0)
        )
        return low.astype(np.int64), DiscreteGaussian(variance=self.variance).log_pmf(j), share

    def _split_ranges(self, grid: _Grid, least: int, most: int) -> tuple[Integers, Floats, Floats]:
        """Return the same for the ranges of values between neighbouring grid points: only their two masses matter."""
        bounds = ((2 * np.array([least, most], dtype=np.float64) + 1) / (2 * self.s)) / grid.step
        low = np.arange(math.floor(bounds[0]), math.floor(bounds[1]) + 1)
        starts = np.ceil(low * grid.step * self.s - 0.5)
        starts[0] = least
        ends = np.append(starts[1:] - 1, most)
        here, there = self._mass(starts, ends), self._mass(starts + 1, ends + 1)
        kept = here > 0
        low, here, there = low[kept], here[kept], there[kept]
        share = np.clip((1 - there / here * np.exp(low * grid.step)) / -math.expm1(-grid.step), 0.0, 1.0)
        return low, np.log(here), share

    def _mass(self, first: Floats, last: Floats) -> Floats:
        """P[first <= X <= last], from the tail on the nearer side, to full relative precision."""
        tail = DiscreteGaussian(variance=self.variance).tail
        above, below = first > 0, last < 0
        left = np.where(below, -last, first)
        right = np.where(below, 1 - first, last + 1)
        inside = 1 - tail(np.maximum(last + 1, 1)) - tail(np.maximum(1 - first, 1))
        return np.where(above | below, tail(np.maximum(left, 1)) - tail(np.maximum(right, 1)), inside)


def _saddle_point(parts: list[_Noise], epsilon: float) -> float:
    """Return the tilt, 0 or more, at which the mean loss is epsilon. It only affects precision."""

    def mean(tilt: float) -> float:
        return sum(part.times * part.moments(tilt)[1] for part in parts)

    low, high = 0.0, 1.0
    if mean(low) >= epsilon:
        return low
    while mean(high) < epsilon:
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < epsilon else (low, middle)
    return low


def _chernoff(parts: list[_Noise], tilt: float, epsilon: float) -> float:
    """Return -log of Chernoff's bound on the probability of a loss above epsilon, which is about -log delta."""
    return max(0.0, tilt * epsilon - sum(part.times * part.moments(tilt)[0] for part in parts))


def _grid_of(parts: list[_Noise], tilt: float, epsilon: float) -> _Grid:
    """Return a grid whose step changes delta by at most about ``TOLERANCE``.

    Splitting a loss between grid points adds at most step^2 / 4 to its variance, step^2 / 6 on average. A relative
    change of the variance by x changes a delta that is z standard deviations out by about x z^2 / 2.
    """
    moments = [part.moments(tilt) for part in parts]
    count = sum(part.times for part in parts)
    mean = sum(part.times * one[1] for part, one in zip(parts, moments, strict=True))
    variance = sum(part.times * one[2] for part, one in zip(parts, moments, strict=True))
    squared_z = max(2.0, 2 * _chernoff(parts, tilt, epsilon))
    half = _SDS * math.sqrt(variance)
    fewest = 2 * half * len(parts) / FEWEST_POINTS
    step = min(WIDEST_STEP, math.sqrt(12 * TOLERANCE * variance / (squared_z * count)), fewest)
    step = max(step, 2 * half / MOST_POINTS)  # a wider step is less tight, but as safe
    lattice = float(_common_step(parts))
    if exact := 2 * half / lattice <= LATTICE_POINTS:
        step = lattice
    half += 4 * step
    points = fft.next_fast_len(math.ceil(2 * half / step), real=True)
    return _Grid(step=step, first=math.floor((mean - half) / step), points=points, tilt=tilt, lattice=exact)


def _common_step(parts: list[_Noise]) -> Fraction:
    """Return the largest step of which 1 / 2 variance is a multiple for every noise."""
    return reduce(_common_divisor, (1 / (2 * part.variance) for part in parts))


def _common_divisor(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _delta_on(grid: _Grid, parts: list[_Part], epsilon: float, beyond_window: float) -> float:
    """Return the delta of the composed losses, with a bound on what is outside the window or rounded."""
    composed = fft.irfft(reduce(np.multiply, (_spectrum(part, grid.points) for part in parts)), grid.points)
    place = (grid.first + np.arange(grid.points)) % grid.points
    loss = (grid.first + np.arange(grid.points)) * grid.step
    above = loss > epsilon
    beyond = loss[above] - epsilon
    weight = np.exp(-grid.tilt * beyond) * -np.expm1(-beyond)
    scale = math.exp(min(0.0, sum(part.times * part.log_scale for part in parts) - grid.tilt * epsilon))
    inside = float(np.maximum(composed[place[above]], 0.0) @ weight)
    # A product of spectra of modulus at most 1 has the sum of their errors, each at most a few log2(points) roundings.
    count = sum(part.times for part in parts)
    rounded = 8 * count * math.log2(grid.points) * _ROUNDING * float(np.linalg.norm(weight))
    return scale * (inside + rounded + beyond_window)


def _spectrum(part: _Part, points: int) -> NDArray[np.complex128]:
    wrapped = np.bincount(part.index % points, weights=part.mass, minlength=points)
    spectrum: NDArray[np.complex128] = fft.rfft(wrapped)
    power, remaining = np.ones_like(spectrum), part.times
    while remaining:  # by squaring: fewer roundings than a logarithm
        if remaining & 1:
            power *= spectrum
        spectrum, remaining = spectrum * spectrum, remaining >> 1
    return power


def _beyond_window(grid: _Grid, parts: list[_Part]) -> float:
    """Return Chernoff's bound on the tilted probability of a loss above the window, which would be lost."""
    top = (grid.first + grid.points) * grid.step
    means = [part.mass @ (part.index * grid.step) for part in parts]
    mean = sum(part.times * one for part, one in zip(parts, means, strict=True))
    variance = sum(
        part.times * float(part.mass @ (part.index * grid.step - one) ** 2)
        for part, one in zip(parts, means, strict=True)
    )
    s = (top - mean) / variance
    exponent = -s * top
    for part in parts:
        likely = part.mass > 0
        powers = s * part.index[likely] * grid.step + np.log(part.mass[likely])
        highest = float(powers.max())
        exponent += part.times * (highest + math.log(float(np.exp(powers - highest).sum())))
    return math.exp(min(0.0, exponent))
