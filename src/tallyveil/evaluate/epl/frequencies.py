"""Ratios of raw frequencies of residuals (flaxman2019)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tallyveil.errors import InputError
from tallyveil.evaluate.epl.clusters import with_clusters
from tallyveil.evaluate.residuals import Residuals
from tallyveil.evaluate.value_counts import value_counts


def frequencies(residuals: Residuals | ArrayLike) -> pd.DataFrame:
    """Log ratios of the frequencies of neighbouring residuals, without smoothing.

    One row for each residual k that occurs, with the columns ``k``, ``count``, ``log_ratio`` = log p(k)/p(k+1) and
    ``log_tail_ratio`` = log P(>=k)/P(>=k+1). A ratio is missing where no residual is k + 1, or none is larger than k.

    >>> frequencies([-1, 0, 0, 1, 3]).round(2)
       k  count  log_ratio  log_tail_ratio
    0 -1      1      -0.69            0.22
    1  0      2       0.69            0.69
    2  1      1        NaN            0.69
    3  3      1        NaN             NaN
    """
    sample = with_clusters(residuals)
    counted = value_counts(sample.value, zeros=sample.zeros)
    if not counted.whole:
        raise InputError("frequencies need whole residuals. For fractional ones use epl(...), which smooths them.")
    k, count = counted.value.astype(np.int64), counted.count
    tail = np.cumsum(count[::-1])[::-1]  # residuals of k or more; the next value that occurs has P(>= k + 1)
    log_ratio, log_tail = np.full(len(k), np.nan), np.full(len(k), np.nan)
    next_to = np.flatnonzero(np.diff(k) == 1)
    log_ratio[next_to] = np.log(count[next_to] / count[next_to + 1])
    log_tail[:-1] = np.log(tail[:-1] / tail[1:])
    return pd.DataFrame({"k": k, "count": count, "log_ratio": log_ratio, "log_tail_ratio": log_tail})
