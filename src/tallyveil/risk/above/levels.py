r"""What the levels above say about a unit's count: a sum over true counts, level by level, in log space.

At a level the unit above counts X' = X + Y, Y being the siblings together; both are released with noise, X'* and Y*.
With f the noise of the unit above, g that of the siblings' sum, :math:`\pi` the prior on their true sum, and V' the
same for the levels further up (1 above the last),

.. math:: V(x) = \sum_{y \ge 0} \pi(y)\, g(y^* - y)\, f(x'^* - x - y)\, V'(x + y)

is the probability of what was released, given that the unit counts x (kazan2022, Eq. 22 to 25 for one level above, with
y for :math:`x_2 - x_1`). A level without siblings counts the same people again: Y and Y* are 0, and V(x) is
:math:`f(x'^* - x) V'(x)`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian, Geometric, Noise
from tallyveil.privacy.sums import SumOfNoise, approximate_sum, sum_of_noise

LogPrior = Callable[[Integers], Floats]  # log weight of each count of the siblings; any constant may be added
Pair = tuple[int, int]  # at one level: the count above and the siblings' sum
NEGLIGIBLE = -45.0  # log of a term over the whole sum, below which terms may be left out
_CELLS = 1 << 21  # of an array at a time
_BLOCK = 1 << 13  # longer inner products are shared out to threads, which costs more than it saves
_SMALL = 1e-120  # sums of scaled terms below this are taken in logs
_TINY = 1e-60  # probability from which on wide sums of noise are continued
_WIDEST = 1 << 22  # range of true counts that is summed over


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Above:
    """One level above: the unit's noise, each sibling's below it, and the prior on the siblings' true sum.

    ``prior`` is a logarithm as a function of counts (see ``risk.target.priors``); None is the paper's flat one. The
    noise of the siblings' sum is a convolution; ``approximate=True`` takes the paper's DG(d/(2 rho)) (Eq. 21).
    ``siblings=[]`` is a unit above that has no other below it; the siblings' sum is then released as 0.
    """

    noise: Geometric | DiscreteGaussian
    siblings: Sequence[Geometric | DiscreteGaussian]
    prior: LogPrior | None = None
    approximate: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "siblings", tuple(self.siblings))
        for one in (self.noise, *self.siblings):
            if not isinstance(one, Geometric | DiscreteGaussian):
                raise InputError(f"noise is Geometric or DiscreteGaussian. Got a {type(one).__name__} instead.")
        if self.approximate and not all(isinstance(one, DiscreteGaussian) for one in self.siblings):
            raise InputError("the paper's approximation is for discrete Gaussian noise. Leave approximate out.")

    @cached_property
    def together(self) -> Noise:
        """The noise of the siblings' sum."""
        return _sum(tuple(self.siblings), self.approximate)

    @cached_property
    def variances(self) -> tuple[float, float]:
        """Of the unit's noise and of the siblings' sum; never quite 0."""
        return max(self.noise.actual_variance(), 1e-9), max(self.together.actual_variance(), 1e-9)

    def log_prior(self, y: Integers) -> Floats:
        """Logarithm of pi(y), for y >= 0."""
        return np.zeros(len(y)) if self.prior is None else np.asarray(self.prior(y), dtype=np.float64)

    def log_weight(self, y: Integers, siblings: int) -> Floats:
        """Logarithm of pi(y) g(y* - y), minus infinity for y < 0."""
        return np.where(y >= 0, self.log_prior(np.maximum(y, 0)) + self.together.log_pmf(siblings - y), -np.inf)


@dataclass(frozen=True)
class Terms:
    """The terms of V(x) for x in a row: that for x and x' = x + y is ``kernel`` at x' - x plus ``base`` at x'."""

    first: int  # the smallest x'
    kernel: Floats
    base: Floats
    log_values: Floats  # log V(x)

    @property
    def each(self) -> Floats:
        """A row for each x, a column for each x'."""
        return sliding_window_view(self.kernel, len(self.base))[::-1] + self.base


def log_values(levels: Sequence[Above], low: int, high: int, released: Sequence[Pair]) -> Floats:
    """Log V(x) for x from low to high, given what was released at each level."""
    return terms(levels, low, high, released).log_values if levels else np.zeros(high - low + 1)


def terms(levels: Sequence[Above], low: int, high: int, released: Sequence[Pair]) -> Terms:
    """The terms that matter for x from low to high.

    The range of counts above is widened until each x has a term and those at both ends are negligible. All noises and
    the priors here are log-concave, so the terms beyond are negligible too. But for the negative binomial of a shape r
    below 1, which falls from 0 to y by a factor of up to y / r more than a log-concave one: as far above 0, what is
    left out may be exp(NEGLIGIBLE) y / r of the sum, 1e-9 for r = 1e-9 and y = 30.
    """
    (count, siblings), near = released[0], levels[0]
    first, last = _guess(levels, low, high, released)
    while last - first < _WIDEST:
        x = np.arange(first, last + 1)
        base = near.noise.log_pmf(count - x) + log_values(levels[1:], first, last, released[1:])
        kernel = near.log_weight(np.arange(first - high, last - low + 1), siblings)
        sums = _row_sums(kernel, base)
        rows = len(sums)
        below = first > low and matter(kernel[:rows][::-1] + base[0], sums)
        beyond = matter(kernel[-rows:][::-1] + base[-1], sums)
        if not (below or beyond):
            return Terms(first, kernel, base, sums)
        width = last - first + 1
        first, last = max(low, first - below * width), last + beyond * width
    raise InputError(f"what was released above, {list(released)}, is too far apart for the noise. Check the counts.")


def matter(at_the_end: Floats, sums: Floats) -> bool:
    """Whether the terms at an end of a range matter to any of the sums, or a sum has no term yet."""
    return bool(np.isneginf(sums).any()) or bool((at_the_end - sums > NEGLIGIBLE).any())


def log_product(a: Floats, b: Floats) -> Floats:
    """log(exp(a) @ exp(b)): a product of scaled matrices, and where that is too small for a float, term by term.

    Few products are too small, since b is first divided by its middle column and a multiplied by it, and columns are
    scaled to be near 1 where the middle row of a is largest.
    """
    middle = b[:, b.shape[1] // 2]
    a, b = a + middle, np.where(np.isneginf(middle)[:, None], b, b - _top(middle)[:, None])
    rows, most = _top(a.max(axis=1, keepdims=True)), a[len(a) // 2].argmax()
    columns = _top(np.maximum(b[most], b.max(axis=0) - 20)[None])
    scaled = _exp(a - rows) @ _exp(b - columns)
    small = scaled < _SMALL
    sums: Floats = np.log(np.where(small, 1.0, scaled)) + rows + columns
    i, j = np.nonzero(small)
    step = max(1, _CELLS // a.shape[1])
    for start in range(0, len(i), step):
        some = slice(start, start + step)
        sums[i[some], j[some]] = _log_sum(a[i[some]] + b[:, j[some]].T)
    return sums


def _row_sums(kernel: Floats, base: Floats) -> Floats:
    """Log V(x) from the two parts of its terms, in the same way."""
    tops, rows = (_top(kernel.max()), _top(base.max())), len(kernel) - len(base) + 1
    one, two = _exp(kernel - tops[0]), _exp(base - tops[1])
    scaled = np.zeros(rows)
    for start in range(0, len(base), _BLOCK):
        block = two[start : start + _BLOCK]
        scaled += np.correlate(one[start : start + len(block) + rows - 1], block, mode="valid")[::-1]
    small = scaled < _SMALL
    sums: Floats = np.log(np.where(small, 1.0, scaled)) + sum(tops)
    windows, few = sliding_window_view(kernel, len(base))[::-1], np.flatnonzero(small)
    step = max(1, _CELLS // len(base))
    for start in range(0, len(few), step):
        some = few[start : start + step]
        sums[some] = _log_sum(windows[some] + base)
    return sums


def _exp(logs: Floats) -> Floats:
    """Without what is negligible in any sum above ``_SMALL``, so that no product is a denormal: those are slow."""
    return np.where(logs > -345, np.exp(logs), 0.0)


def _log_sum(rows: Floats) -> Floats:
    top = _top(rows.max(axis=1))
    with np.errstate(divide="ignore"):
        sums: Floats = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
    return sums


def _top(logs: Floats) -> Floats:
    """What logarithms are taken relative to: the largest, or 0 where all are of 0."""
    return np.where(np.isneginf(logs), 0.0, logs)


def _guess(levels: Sequence[Above], low: int, high: int, released: Sequence[Pair]) -> Pair:
    """Where the count above would lie if all were Gaussian and counts could be negative: 10 standard deviations."""
    n = len(levels)
    precision, pull = np.zeros((n, n)), np.zeros((n, 2))  # for x at low and at high
    for j, (level, (count, siblings)) in enumerate(zip(levels, released, strict=True)):
        unit, rest = (1 / s for s in level.variances)
        precision[j, j] += unit + rest
        pull[j] += unit * count + rest * siblings
        if j == 0:
            pull[j] += rest * np.array([low, high])
        else:
            precision[j - 1, j - 1] += rest
            precision[j - 1, j] = precision[j, j - 1] = -rest
            pull[j - 1] -= rest * siblings
    covariance = np.linalg.inv(precision)
    lowest, highest = covariance[0] @ pull
    reach = 10 * math.sqrt(covariance[0, 0]) + 2
    return max(low, math.floor(lowest - reach)), math.ceil(max(highest, high) + reach)


@lru_cache(maxsize=256)
def _sum(noises: tuple[Geometric | DiscreteGaussian, ...], approximate: bool) -> Noise:
    """The noise of a sum.

    Discrete Gaussians of variance 4 or more add up to one, by Poisson summation: every probability differs by less than
    4 exp(-4 pi^2) = 3e-17 of itself, in the tails too. The others are convolved.
    """
    if not noises:
        return _None()
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
    """A sum too wide to be convolved term by term, down to probabilities of ``_TINY``.

    Fourier transforms are exact to a rounding of the largest probability, so the tail is not right. That of noise with
    probabilities times exp(t k) is right near its mean, and is the sum's times exp(t k): t is raised until the mean is
    where probabilities are too small, and each is taken from the t for which it is nearest to the largest.
    """
    size = 1 << math.ceil(math.log2(8 * reach))
    k = np.arange(-(size // 2), size // 2, dtype=np.float64)
    most = math.inf if slowest is None else float(slowest) - 8 / reach  # more, and the tail would come round again
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
class _None(Noise):
    """No noise, of no siblings."""

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
    """A sum by convolution; beyond its reach, the tail of a noise like it, so that no released count is impossible."""

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
