"""Loss curves of flaxman2019's mechanisms at the budgets of Figure 1: by run, pooled, and by a second computation."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from tallyveil._arrays import Floats
from tallyveil.evaluate.epl.frequencies import frequencies
from tallyveil.evaluate.epl.settings import Settings, smoothed
from tallyveil.evaluate.value_counts import ValueCounts
from tallyveil.populations import uniform_tree
from tallyveil.privacy import Geometric
from tallyveil_papers.flaxman.runs import BUDGETS, LESS_OBVIOUS, PARTS, RUNS, noise_of
from tallyveil_papers.flaxman.simulation import law_of, losses_by_hand, residuals_by_hand
from tallyveil_papers.losses import authors_z, loss_curve, median

BY_HAND, BATCHES, POINTS = 20, 10, 60  # of the second computation: runs alone, times all runs, points in the range


class Curves(NamedTuple):
    """Median, largest and largest raw value of each run's loss curve, and medians of all runs pooled."""

    median: Floats
    largest: Floats
    raw: Floats
    pooled: Floats


@lru_cache(maxsize=8)
def residuals_of(seed: int, name: str, *, theirs: bool = False) -> NDArray[Any]:
    """Residuals at a mechanism's budget in Figure 1; ``theirs`` with the noise that the notebook drew."""
    parts = 1 if name == "geometric" else PARTS
    epsilon = parts * authors_z(BUDGETS[name] / parts) if theirs else str(BUDGETS[name])
    return noise_of(name, uniform_tree(seed=seed).people, epsilon, seed=seed, runs=RUNS)


@lru_cache(maxsize=8)
def curves_of(seed: int, name: str) -> Curves:
    """The curves of a mechanism at its budget in Figure 1."""
    residuals = residuals_of(seed, name)
    losses = [loss_curve(values, **LESS_OBVIOUS) for values in residuals]
    each = [np.abs(loss) for _, loss in losses]
    raw = [_largest_raw(values, x[-1]) for values, (x, _) in zip(residuals, losses, strict=True)]
    return Curves(
        np.array([np.median(values) for values in each]),
        np.array([values.max() for values in each]),
        np.array(raw),
        np.array([median(residuals.reshape(-1), **LESS_OBVIOUS)]),
    )


def _largest_raw(residuals: NDArray[Any], reach: float) -> float:
    """The largest |log p(k)/p(k+1)| of the frequencies themselves, of whole k in the range (others are rounded)."""
    table = frequencies(np.floor(residuals + 0.5).astype(np.int64))
    return float(table.log_ratio[table.k.abs() <= reach].abs().max())


@lru_cache(maxsize=8)
def again_of(seed: int, name: str) -> tuple[Curves, NDArray[Any]]:
    """The curves by the second implementation, with several pooled batches, and the residuals of the last batch."""
    rng = np.random.default_rng((seed, round(1000 * BUDGETS[name])))
    pooled = []
    for _ in range(BATCHES):
        residuals = residuals_by_hand(name, epsilon=BUDGETS[name], runs=RUNS, rng=rng)
        pooled.append(np.median(losses_by_hand(residuals, points=POINTS)))
    each = [losses_by_hand(values) for values in residuals[:BY_HAND]]
    raw = []
    for values in residuals[:BY_HAND]:
        k, count = np.unique(np.floor(values + 0.5), return_counts=True)
        near = (np.diff(k) == 1) & (np.abs(k[:-1]) <= 2 * np.percentile(np.abs(values), 95))
        raw.append(np.abs(np.diff(np.log(count)))[near].max())
    medians, largest = np.array([np.median(values) for values in each]), np.array([values.max() for values in each])
    return Curves(medians, largest, np.array(raw), np.array(pooled)), residuals


@lru_cache(maxsize=4)
def exact_of(name: str) -> float:
    """The median loss of the smoothed noise distribution itself, as for a thousand million areas."""
    z = Fraction(str(BUDGETS[name])) / (PARTS if name == "averaged" else 1)
    k = np.arange(-round(30 / z), round(30 / z) + 1)
    p = Geometric(z=z).pmf(k)
    if name == "averaged":
        for _ in range(2):  # the mean of four, PARTS: the sum of two, twice
            p = np.convolve(p, p)
        k = np.arange(-(len(p) // 2), len(p) // 2 + 1)
    count = np.rint(1e9 * p).astype(np.int64)
    law = ValueCounts(value=k[count > 0] / (PARTS if name == "averaged" else 1), count=count[count > 0])
    log_p = smoothed(law, Settings(**LESS_OBVIOUS))[1]
    return float(np.median(np.abs(np.diff(log_p))))


def half_values(seed: int) -> dict[str, float]:
    """The values of the note on what half of the budget means for averaged noise."""
    budget, ours, exact = BUDGETS["averaged"], curves_of(seed, "averaged"), law_of("averaged", BUDGETS["averaged"])
    reach = 2 * float(np.percentile(np.abs(residuals_of(seed, "averaged")[0]), 95))
    whole = exact.p[exact.value % 1 == 0]
    end = len(whole) // 2 + int(reach)
    return {
        "end": float(np.log(whole[end - 1] / whole[end])) / budget,
        "reach": reach,
        "one_run": ours.median.mean() / budget,
        "runs": RUNS,
        "pooled": ours.pooled[0] / budget,
        "exact": exact_of("averaged") / budget,
    }


# -- chance


def within(ours: Floats, again: Floats) -> float:
    """Four standard errors of the difference of two means."""
    return 4 * float(max(ours.std(ddof=1), again.std(ddof=1))) * math.sqrt(1 / len(ours) + 1 / len(again))


def of_batches(again: Curves) -> float:
    """Four standard errors of the pooled median, widened by Student's t because there are few batches."""
    few = len(again.pooled)
    return float(stdtrit(few - 1, ndtr(4.0)) * again.pooled.std(ddof=1)) * math.sqrt(1 + 1 / few)


def error_of_deviation(values: NDArray[Any]) -> float:
    """The standard error of a standard deviation, from the fourth moment."""
    centred = values - values.mean()
    variance = float((centred**2).mean())
    return float(np.sqrt(((centred**4).mean() - variance**2) / values.size) / (2 * np.sqrt(variance)))
