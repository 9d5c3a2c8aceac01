"""Exact bounds on a probability from the number of times an event happened (Clopper & Pearson, 1934)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from tallyveil._arrays import Floats


def lower(count: ArrayLike, runs: int, alpha: float) -> Floats:
    """Lower bound: the probability at which ``count`` or more of ``runs`` happen with probability ``alpha``.

    >>> lower([0, 50, 100], 100, 0.025).round(3).tolist()
    [0.0, 0.398, 0.964]
    """
    x = np.asarray(count, dtype=np.float64)
    return np.where(x > 0, betaincinv(np.maximum(x, 1), runs - np.maximum(x, 1) + 1, alpha), 0.0)


def upper(count: ArrayLike, runs: int, alpha: float) -> Floats:
    """Upper bound: the probability at which ``count`` or fewer of ``runs`` happen with probability ``alpha``.

    >>> upper([0, 50, 100], 100, 0.025).round(3).tolist()
    [0.036, 0.602, 1.0]
    """
    x = np.asarray(count, dtype=np.float64)
    return np.where(x < runs, betainccinv(np.minimum(x, runs - 1) + 1, runs - np.minimum(x, runs - 1), alpha), 1.0)


@lru_cache(maxsize=16)
def log_bounds(runs: int, alpha: float, delta: float) -> tuple[Floats, Floats]:
    """For every count from 0 to ``runs``: log(lower - delta), or -inf where that is not positive, and log(upper)."""
    counts = np.arange(runs + 1)
    least = lower(counts, runs, alpha) - delta
    low = np.log(least, out=np.full(runs + 1, -np.inf), where=least > 0)
    high = np.log(upper(counts, runs, alpha))
    low.flags.writeable = high.flags.writeable = False
    return low, high
