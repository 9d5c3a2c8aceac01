"""A second implementation of the appendix's noise, EPL and optimisation, with numpy and scipy only.

Noise is a difference of numpy's geometrics with success probability 1 - exp(-z), the density a sum written out (a test
lays it beside scipy's ``gaussian_kde``), and the optimisation is a general solver's (``nnls``) or found by sorting.
Nothing here calls the rest of the library.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil_papers.flaxman.simulation import log_density, noise

RUNS = 300  # of the second computation


def epl_by_hand(residuals: NDArray[Any], *, bandwidth: float = 0.1, percentile: float = 95.0) -> float:
    """EPL by the appendix's recipe: the largest log ratio of the smoothed density one apart, within the percentiles.

    >>> round(epl_by_hand(np.repeat([-2.0, -1, 0, 1, 2], [1, 2, 4, 2, 1]), bandwidth=0.2, percentile=100), 2)
    0.69
    """
    reach = np.abs(np.percentile(residuals, [100 - percentile, percentile])).max()
    edges = np.arange(-reach, reach, 1.0)
    value, count = np.unique(residuals, return_counts=True)
    width = bandwidth * float(residuals.std(ddof=1))
    return float(np.abs(np.diff(log_density(value, count, (edges[1:] + edges[:-1]) / 2, width))).max())


@lru_cache(maxsize=64)
def losses_by_hand(
    z: float, *, seed: int, districts: int, runs: int, bandwidth: float = 0.1, percentile: float = 95.0
) -> Floats:
    """EPL of ``runs`` draws of G(z)."""
    rng = np.random.default_rng((seed, districts, round(1e6 * z)))
    return np.array(
        [epl_by_hand(noise(z, districts, rng), bandwidth=bandwidth, percentile=percentile) for _ in range(runs)]
    )


def strata_and_total(true: Integers, *, z_total: float, z_strata: float, runs: int, rng: np.random.Generator) -> Floats:
    """Residuals of district totals where 0.25 (sum x - total)^2 + 0.75 sum (x - strata)^2 is least: by ``nnls``."""
    from scipy.optimize import nnls

    cells = true.shape[1]
    rows = np.vstack([math.sqrt(0.75) * np.eye(cells), np.full((1, cells), 0.5)])
    totals = np.empty((runs, len(true)))
    for run in range(runs):
        strata, total = true + noise(z_strata, true.shape, rng), true.sum(axis=1) + noise(z_total, len(true), rng)
        sides = np.column_stack([math.sqrt(0.75) * strata, 0.5 * total])
        totals[run] = [nnls(rows, side)[0].sum() for side in sides]
    return np.asarray(totals - true.sum(axis=1))


def nearest_with_total(strata: NDArray[Any], total: float) -> Floats:
    """The non-negative numbers of this sum that are nearest to the strata: by sorting.

    >>> nearest_with_total(np.array([5, 1, -2]), 4).tolist()
    [4.0, 0.0, 0.0]
    """
    falling = np.sort(strata)[::-1]
    move = (total - np.cumsum(falling)) / np.arange(1, len(falling) + 1)
    above = np.flatnonzero(falling + move > 0)[-1]
    return np.asarray(np.maximum(strata + move[above], 0.0))


def counties_kept(
    true: Integers, first: Integers, *, z: float, runs: int, rng: np.random.Generator
) -> Iterable[dict[str, NDArray[Any]]]:
    """Residuals of strata by run: noise alone, truncated at 0, and closest to the noisy ones with the true total."""
    for _ in range(runs):
        noisy = true + noise(z, true.shape, rng)
        kept = np.concatenate(
            [nearest_with_total(noisy[a:b].ravel(), float(true[a:b].sum())) for a, b in pairwise(first)]
        ).reshape(true.shape)
        yield {
            "noise": (noisy - true).ravel(),
            "cut": (np.maximum(noisy, 0) - true).ravel(),
            "kept": (kept - true).ravel(),
        }
