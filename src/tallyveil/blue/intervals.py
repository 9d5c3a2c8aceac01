"""Intervals of counts from an estimate and its standard deviation.

Estimates are sums of many independent noises, so they are close to normal. A count is a whole number of 0 or more:
limits are rounded inwards and cut at 0, which never excludes a possible count (the rule of the Bureau's intervals).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, ndtri_exp

from tallyveil._arrays import Floats
from tallyveil.errors import InputError

EXACT = 1e-6  # limits this close to a whole number are that number


def normal_quantile(confidence: float) -> float:
    """The number of standard deviations on each side of a two-sided interval.

    >>> round(normal_quantile(0.9), 3)
    1.645
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, such as 0.9. Got {confidence} instead.")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def count_interval(estimate: ArrayLike, sd: ArrayLike, confidence: float = 0.9) -> tuple[Floats, Floats]:
    """The interval of a count: rounded inwards and cut at 0; one whole number if none lies between the limits.

    >>> low, high = count_interval([10.3, -4.0, 7.0], [2.0, 1.0, 0.0])
    >>> low.tolist(), high.tolist()
    ([8.0, 0.0, 7.0], [13.0, 0.0, 7.0])
    """
    middle, half = np.asarray(estimate, np.float64), normal_quantile(confidence) * np.asarray(sd, np.float64)
    low, high = np.ceil(middle - half - EXACT), np.floor(middle + half + EXACT)
    nearest = np.rint(middle)
    none = low > high
    return np.maximum(np.where(none, nearest, low), 0.0) + 0.0, np.maximum(np.where(none, nearest, high), 0.0) + 0.0


def posterior_interval(estimate: ArrayLike, sd: ArrayLike, confidence: float = 0.9) -> tuple[Floats, Floats, Floats]:
    """Mean and central interval of a count, given its estimate and that it cannot be negative.

    The prior is flat on 0 and above, so the posterior is the normal distribution of the estimate, truncated at 0. It
    answers another question than ``count_interval``: it is never empty and is useful for a single small count, but is
    biased upwards, so sums of its means are too large.

    >>> mean, low, high = posterior_interval([-4.0], [2.0])
    >>> round(float(mean[0]), 2), round(float(high[0]), 2)
    (0.75, 2.1)
    """
    middle, spread = np.asarray(estimate, np.float64), np.asarray(sd, np.float64)
    scale = np.where(spread > 0, spread, 1.0)
    z = middle / scale
    tail = (1 - confidence) / 2
    normal_quantile(confidence)  # refuses a wrong confidence
    above = log_ndtr(z)  # the probability of 0 and above, as a logarithm: it may be tiny
    low, high = (middle - scale * ndtri_exp(above + np.log1p(-p)) for p in (tail, 1 - tail))
    mean = middle + scale * np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
    exact = spread <= 0
    return tuple(np.where(exact, np.maximum(middle, 0.0), np.maximum(value, 0.0)) for value in (mean, low, high))  # type: ignore[return-value]
