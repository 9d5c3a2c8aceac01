r"""What the levels above reveal about the count of a unit: a sum over true counts, level by level, in log space.

The unit above counts X' = X + Y, where Y is the sum of the siblings. Both are released with noise, as X'* and Y*.
With f the noise of the unit above, g that of the siblings' sum, :math:`\pi` the prior on their true sum, and V' the
same for the levels further up (1 above the last),

.. math:: V(x) = \sum_{y \ge 0} \pi(y)\, g(y^* - y)\, f(x'^* - x - y)\, V'(x + y)

is the probability of the released counts, given that the unit counts x (kazan2022, Eq. 22, 23, 24 and 25 for one level
above, with y for :math:`x_2 - x_1`). ``Above.log_weight`` computes it. A level without siblings counts the same people
again: Y and Y* are 0, and V(x) is :math:`f(x'^* - x) V'(x)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian, Noise
from tallyveil.risk.above.log_sums import log_correlation
from tallyveil.risk.above.sibling_noise import noise_of_sum
from tallyveil.risk.target.evidence import CountNoise

LogPrior = Callable[[Integers], Floats]  # log weight of each count of the siblings; any constant may be added
AboveAndSiblings = tuple[int, int]  # at one level: the count above and the siblings' sum
NEGLIGIBLE = -45.0  # log of a term over the whole sum, below which terms may be left out
_WIDEST = 1 << 22  # range of true counts that is summed over


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Above:
    """One level above: the noise of the unit, the noise of each sibling below it, and the prior on the siblings' sum.

    ``prior`` is the log prior as a function of counts (see ``risk.target.priors``); None is the paper's flat prior. The
    noise of the siblings' sum is a convolution, or with ``approximate=True`` the paper's DG(d/(2 rho)) (Eq. 21).
    ``siblings=[]`` is for a unit above that contains no other unit; the siblings' sum is then released as 0.
    """

    noise: CountNoise
    siblings: Sequence[CountNoise]
    prior: LogPrior | None = None
    approximate: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "siblings", tuple(self.siblings))
        for one in (self.noise, *self.siblings):
            if not isinstance(one, CountNoise):
                raise InputError(f"noise must be Geometric or DiscreteGaussian. Got a {type(one).__name__} instead.")
        if self.approximate and not all(isinstance(one, DiscreteGaussian) for one in self.siblings):
            raise InputError("the paper's approximation is for discrete Gaussian noise. Leave approximate out.")

    @cached_property
    def together(self) -> Noise:
        """The noise of the siblings' sum."""
        return noise_of_sum(tuple(self.siblings), self.approximate)

    @cached_property
    def variances(self) -> tuple[float, float]:
        """Variances of the noise of the unit and of the siblings' sum; never exactly 0."""
        return max(self.noise.actual_variance(), 1e-9), max(self.together.actual_variance(), 1e-9)

    def log_prior(self, y: Integers) -> Floats:
        """Logarithm of pi(y), for y >= 0."""
        return np.zeros(len(y)) if self.prior is None else np.asarray(self.prior(y), dtype=np.float64)

    def log_weight(self, y: Integers, siblings: int) -> Floats:
        """Logarithm of pi(y) g(y* - y), minus infinity for y < 0."""
        return np.where(y >= 0, self.log_prior(np.maximum(y, 0)) + self.together.log_pmf(siblings - y), -np.inf)


@dataclass(frozen=True)
class Terms:
    """The log terms of V(x) for consecutive x: ``kernel`` at x' - x plus ``base`` at x', where x' = x + y."""

    first: int  # the smallest x'
    kernel: Floats
    base: Floats
    log_values: Floats  # log V(x)

    @property
    def each(self) -> Floats:
        """A row for each x, a column for each x'."""
        return sliding_window_view(self.kernel, len(self.base))[::-1] + self.base


def log_values(levels: Sequence[Above], low: int, high: int, released: Sequence[AboveAndSiblings]) -> Floats:
    """Log V(x) for x from low to high, given the released counts of each level."""
    return terms(levels, low, high, released).log_values if levels else np.zeros(high - low + 1)


def terms(levels: Sequence[Above], low: int, high: int, released: Sequence[AboveAndSiblings]) -> Terms:
    """The terms that matter for x from low to high.

    The range of counts above is widened until each x has a term and those at both ends are negligible. All noises and
    priors here are log-concave, so the terms beyond are negligible too. The exception is the negative binomial with a
    shape r below 1, which from 0 to y falls by a factor of up to y / r more than a log-concave prior. Far above 0, the
    terms left out may be exp(NEGLIGIBLE) y / r of the sum: 1e-9 for r = 1e-9 and y = 30.
    """
    (count, siblings), near = released[0], levels[0]
    first, last = _guess(levels, low, high, released)
    while last - first < _WIDEST:
        x = np.arange(first, last + 1)
        base = near.noise.log_pmf(count - x) + log_values(levels[1:], first, last, released[1:])
        kernel = near.log_weight(np.arange(first - high, last - low + 1), siblings)
        sums = log_correlation(kernel, base)
        rows = len(sums)
        below = first > low and matter(kernel[:rows][::-1] + base[0], sums)
        beyond = matter(kernel[-rows:][::-1] + base[-1], sums)
        if not (below or beyond):
            return Terms(first, kernel, base, sums)
        width = last - first + 1
        first, last = max(low, first - below * width), last + beyond * width
    raise InputError(f"the counts released above, {list(released)}, are too far apart for the noise. Check the counts.")


def matter(at_the_end: Floats, sums: Floats) -> bool:
    """Whether the terms at an end of a range matter for any of the sums, or a sum has no terms yet."""
    return bool(np.isneginf(sums).any()) or bool((at_the_end - sums > NEGLIGIBLE).any())


def _guess(levels: Sequence[Above], low: int, high: int, released: Sequence[AboveAndSiblings]) -> AboveAndSiblings:
    """A range for the count above: 10 standard deviations, if all noise were Gaussian and counts could be negative."""
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
