r"""Priors on the number of people with the characteristics in the siblings together.

The paper's prior is flat (``None`` in ``Above``): every number is as probable as 0, so all larger numbers together are
far more probable than 0. This drives the result if the target is alone in the unit above. A proper prior says how rare
the characteristics are. Give its mean, or fit it to released counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln
from scipy.stats import binom

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact


@final
@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Counts of people who are scattered at random, with this ``mean``.

    >>> np.exp(Poisson(mean=0.1)(np.arange(3))).round(4).tolist()
    [0.9048, 0.0905, 0.0045]
    """

    mean: float

    def __post_init__(self) -> None:
        _check_positive(self.mean, "the mean of a prior")

    def __call__(self, y: ArrayLike) -> Floats:
        """Logarithm of the probability of each count."""
        y = np.asarray(y, dtype=np.float64)
        logs: Floats = y * math.log(self.mean) - self.mean - gammaln(y + 1)
        return logs


@final
@dataclass(frozen=True, kw_only=True)
class NegativeBinomial:
    """Counts of people who come in clusters, so that ``variance`` is above ``mean``.

    >>> np.exp(NegativeBinomial(mean=1, variance=2)(np.arange(3))).round(4).tolist()     # geometric
    [0.5, 0.25, 0.125]
    """

    mean: float
    variance: float

    def __post_init__(self) -> None:
        _check_positive(self.mean, "the mean of a prior")
        if not (math.isfinite(self.variance) and self.variance > self.mean):
            raise InputError(
                f"the variance must be above the mean ({self.mean}). Got {self.variance} instead. Use Poisson."
            )

    @property
    def shape(self) -> float:
        """mean^2 / (variance - mean); a smaller shape means stronger clusters."""
        return self.mean**2 / (self.variance - self.mean)

    def __call__(self, y: ArrayLike) -> Floats:
        """Logarithm of the probability of each count."""
        y, r, m = np.asarray(y, dtype=np.float64), self.shape, self.mean
        none = -r * math.log1p(m / r)
        logs: Floats = gammaln(y + r) - gammaln(r) - gammaln(y + 1) + none + y * math.log(m / (m + r))
        return logs


@final
@dataclass(frozen=True, kw_only=True)
class AtMost:
    """Certainly no more than ``count``, as an invariant may show; up to ``count``, another prior or a flat one.

    >>> AtMost(count=1)(np.arange(3)).tolist()
    [0.0, 0.0, -inf]
    """

    count: int
    prior: Callable[[Integers], Floats] | None = None

    def __post_init__(self) -> None:
        if self.count < 0:
            raise InputError(
                f"the largest number of people with the characteristics must be 0 or more. Got {self.count} instead."
            )

    def __call__(self, y: ArrayLike) -> Floats:
        """Logarithm of the weight of each count."""
        y = np.asarray(y, dtype=np.int64)
        return np.where(y <= self.count, np.zeros(y.shape) if self.prior is None else self.prior(y), -np.inf)


@final
@dataclass(frozen=True, kw_only=True)
class Binomial:
    """Everybody in the siblings is known but ``unknown`` people, each of whom has them with probability ``share``.

    ``known`` is the number of known people in the siblings who have the characteristics.

    >>> np.exp(Binomial(unknown=2, share="1/4", known=1)(np.arange(5))).round(4).tolist()
    [0.0, 0.5625, 0.375, 0.0625, 0.0]
    """

    unknown: int
    share: Number
    known: int = 0

    def __post_init__(self) -> None:
        for name in ("unknown", "known"):
            if getattr(self, name) < 0:
                raise InputError(
                    f"the number of {name} people in the siblings must be 0 or more. Got {getattr(self, name)}."
                )
        share = exact(self.share, "share", zero=True)
        if not 0 < share < 1:
            raise InputError(
                f"a share must be strictly between 0 and 1. Got {self.share}. Count people who are certain in known."
            )
        object.__setattr__(self, "share", share)

    def __call__(self, y: ArrayLike) -> Floats:
        """Logarithm of the probability of each count."""
        has = np.asarray(y, dtype=np.int64) - self.known
        return np.asarray(binom.logpmf(has, self.unknown, float(self.share)), dtype=np.float64)


def fitted(noisy_sums: ArrayLike, noise_variances: ArrayLike) -> Poisson | NegativeBinomial:
    """Fit a prior to noisy sums by the method of moments.

    ``noisy_sums`` are the released sums of siblings of several units above that are like the target's, and
    ``noise_variances`` are the variances of their noise, or one variance for all. The variance of the prior is that of
    the sums minus that of the noise. If that is not above the mean, the prior is a Poisson. A mean of 0 or less, which
    noise may cause, is replaced by half a person in all the units together.

    >>> fitted([4, 9, 0, 3, 12, 2, 5, 5], 5)
    NegativeBinomial(mean=5.0, variance=9.857142857142858)
    >>> fitted([-3, 2, 0, -1], 5)
    Poisson(mean=0.125)
    """
    sums, noise = np.asarray(noisy_sums, dtype=np.float64), np.asarray(noise_variances, dtype=np.float64)
    if sums.ndim != 1 or len(sums) < 2:
        raise InputError(f"a prior is fitted to a list of two or more sums. Got an array of shape {sums.shape}.")
    if noise.shape not in {(), sums.shape} or not (np.isfinite(noise) & (noise >= 0)).all():
        raise InputError("noise variances must be 0 or more. Give one for each sum, or one for all.")
    if not np.isfinite(sums).all():
        raise InputError("a noisy sum is not a finite number. Leave units without a count out.")
    mean = float(sums.mean())
    if mean <= 0:
        return Poisson(mean=1 / (2 * len(sums)))
    variance = float(sums.var(ddof=1) - noise.mean())
    return NegativeBinomial(mean=mean, variance=variance) if variance > mean else Poisson(mean=mean)


def _check_positive(value: float, name: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} must be greater than 0. Got {value} instead.")
