"""Loss curves of flaxman2019's mechanisms at the budgets of Figure 1, run by run and together; and by other means."""

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
from tallyveil_papers.flaxman.direct import direct_of
from tallyveil_papers.flaxman.runs import BUDGETS, LESS_OBVIOUS, LOSS, PARTS, RUNS, noise_of
from tallyveil_papers.flaxman.simulation import law_of, losses_by_hand, residuals_by_hand
from tallyveil_papers.losses import authors_z, loss_curve, median

BY_HAND, BATCHES, POINTS = 20, 10, 60  # of the second computation: runs alone, times all runs, points in the range


class Curves(NamedTuple):
    """Of each run's loss curve: median, largest value, largest raw value; and medians of all runs together."""

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
    """Of a mechanism at its budget in Figure 1."""
    found = residuals_of(seed, name)
    losses = [loss_curve(one, **LESS_OBVIOUS) for one in found]
    each = [np.abs(loss) for _, loss in losses]
    raw = [_largest_raw(one, x[-1]) for one, (x, _) in zip(found, losses, strict=True)]
    return Curves(
        np.array([np.median(one) for one in each]),
        np.array([one.max() for one in each]),
        np.array(raw),
        np.array([median(found.reshape(-1), **LESS_OBVIOUS)]),
    )


def _largest_raw(residuals: NDArray[Any], reach: float) -> float:
    """The largest |log p(k)/p(k+1)| of the frequencies themselves, of whole k in the range (others are rounded)."""
    table = frequencies(np.floor(residuals + 0.5).astype(np.int64))
    return float(table.log_ratio[table.k.abs() <= reach].abs().max())


@lru_cache(maxsize=8)
def again_of(seed: int, name: str) -> tuple[Curves, NDArray[Any]]:
    """The same by other means, all runs at once several times; and the residuals of one time."""
    rng = np.random.default_rng((seed, round(1000 * BUDGETS[name])))
    pooled = []
    for _ in range(BATCHES):
        found = residuals_by_hand(name, epsilon=BUDGETS[name], runs=RUNS, rng=rng)
        pooled.append(np.median(losses_by_hand(found, points=POINTS)))
    each = [losses_by_hand(one) for one in found[:BY_HAND]]
    raw = []
    for one in found[:BY_HAND]:
        k, count = np.unique(np.floor(one + 0.5), return_counts=True)
        near = (np.diff(k) == 1) & (np.abs(k[:-1]) <= 2 * np.percentile(np.abs(one), 95))
        raw.append(np.abs(np.diff(np.log(count)))[near].max())
    medians, largest = np.array([np.median(one) for one in each]), np.array([one.max() for one in each])
    return Curves(medians, largest, np.array(raw), np.array(pooled)), found


@lru_cache(maxsize=4)
def exact_of(name: str) -> float:
    """The median loss of the noise's own law, smoothed: as if a thousand million areas were as likely as can be."""
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


def clear() -> None:
    """Forget what was computed with the library, so that it is computed anew."""
    for kept in (residuals_of, curves_of, direct_of):
        kept.cache_clear()


def half_in_words(seed: int) -> str:
    """What half of the budget means for averaged noise."""
    budget, ours, exact = BUDGETS["averaged"], curves_of(seed, "averaged"), law_of("averaged", BUDGETS["averaged"])
    reach = 2 * float(np.percentile(np.abs(residuals_of(seed, "averaged")[0]), 95))
    whole = exact.p[exact.value % 1 == 0]
    middle = len(whole) // 2
    end = float(np.log(whole[middle + int(reach) - 1] / whole[middle + int(reach)]))
    return (
        "Averaged noise has no constant loss: its exact log ratio rises from 0 in the middle to "
        f"{end / budget:.2f} of the budget at the end of the range ({reach:.0f} persons), and to the whole budget far "
        f"out. One run's curve shows {ours.median.mean() / budget:.2f} of it in the median, {RUNS} runs together show "
        f"{ours.pooled[0] / budget:.2f}, and the exact median is {exact_of('averaged') / budget:.2f}. So one half is "
        "what a single run looks like; the exact figure is more."
    )


# -- chance


def one_run(values: Floats) -> float:
    """How far from the mean one run may lie, on the side of 0.025: to the 2.5th or 97.5th percentile."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(abs((low if values.mean() > LOSS else high) - values.mean()))


def within(ours: Floats, again: Floats) -> float:
    """Four standard errors of the difference of two means."""
    return 4 * float(max(ours.std(ddof=1), again.std(ddof=1))) * math.sqrt(1 / len(ours) + 1 / len(again))


def of_batches(again: Curves) -> float:
    """Four standard errors of what all runs together show; more, as so few batches know it so badly (Student's t)."""
    few = len(again.pooled)
    return float(stdtrit(few - 1, ndtr(4.0)) * again.pooled.std(ddof=1)) * math.sqrt(1 + 1 / few)


def error_of_deviation(values: NDArray[Any]) -> float:
    """The standard error of a standard deviation, from the fourth moment."""
    centred = values - values.mean()
    variance = float((centred**2).mean())
    return float(np.sqrt(((centred**4).mean() - variance**2) / values.size) / (2 * np.sqrt(variance)))
