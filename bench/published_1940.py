"""TopDown's error on a synthetic census of 1940's shape, beside the error that Petti & Flaxman published [1]_.

The 2018 strategy as the Bureau ran it, at the budgets of the paper, on ``census_1940(seed=1)``; the residuals of the
replicates pooled, as the authors pooled four runs. Their data was the real census of 1940 and ours is made up, fitted to
the sizes they published and to nothing else. Needs ``../shared/published``. docs/accuracy_1940.md has the results.

References
----------
.. [1] Petti & Flaxman, Differential privacy in the 2020 US census: what will it do?, Gates Open Research 3:1722, 2020.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import tallyveil as tv

PUBLISHED = Path(__file__).parents[2] / "shared" / "published" / "petti_flaxman_2020_results.csv"
STRATA = "votingage * hispanic * race"
STATISTICS = {"mae": "median_abs", "pct95": "p95_abs", "rmse": "rmse"}  # published spelling: ours
LEVELS = {"state": "state", "county": "county", "enum_dist": "enumdist"}
EPSILONS = (0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 6.0, 8.0)

Whole = NDArray[np.int64]
Key = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What residuals are taken of, at one level: totals and 24 strata of each unit."""

    total: Whole
    strata: Whole

    @classmethod
    def of(cls, people: tv.Histogram, level: str) -> Tables:
        strata = people.answer(STRATA, level=level).dense()
        return cls(total=strata.sum(axis=1), strata=strata)


def residuals(truth: Whole, protected: Whole) -> Whole:
    """Protected minus precise, over the cells that are non-zero in the precise or the protected data (the authors')."""
    union = (truth != 0) | (protected != 0)
    return (protected - truth)[union]


def summary(residual: Whole) -> dict[str, float]:
    """Median, 95th percentile and root mean square of the absolute error."""
    size = np.abs(residual)
    return {
        "median_abs": float(np.median(size)),
        "p95_abs": float(np.quantile(size, 0.95)),
        "rmse": float(np.sqrt(np.mean(size.astype(np.float64) ** 2))),
    }


def empty_cells(strata: Whole) -> Whole:
    """How many of a unit's 24 strata are empty: the homogeneity index as the paper defines it."""
    return (strata == 0).sum(axis=1)


def empty_product(strata: Whole) -> Whole:
    """24 less ages x ethnicities x races that occur in the unit: takes only the values that were published.

    >>> empty_product(np.eye(1, 24, dtype=np.int64)).tolist()        # one person: one age, one ethnicity, one race
    [23]
    """
    table = strata.reshape(-1, 2, 2, 6) != 0
    present = [table.any(axis=tuple({1, 2, 3} - {axis})).sum(axis=1) for axis in (1, 2, 3)]
    return 24 - np.prod(present, axis=0)


def bias_by(index: Whole, residual: Whole) -> pd.DataFrame:
    """Mean residual, its standard error and the number of residuals for each value of the index."""
    groups = pd.DataFrame({"index": index, "residual": residual}).groupby("index").residual
    return groups.agg(bias="mean", error="sem", n="size")


def within(ours: float, theirs: float) -> bool:
    """Within 25% of the published figure, or within one person of it."""
    return abs(ours - theirs) <= max(1.0, 0.25 * abs(theirs))


def beyond_two(ours: float, theirs: float) -> bool:
    """More than twice or less than half the published figure, and more than a person away from it.

    A published 1 stands for anything from 0.5 to 1.5, so a difference within a person has no ratio.
    """
    return not within(ours, theirs) and not 0.5 <= ours / theirs <= 2.0


def read_published(path: Path = PUBLISHED) -> pd.DataFrame:
    """The authors' figures of TopDown, with our names of levels and statistics."""
    if not path.exists():
        raise SystemExit(f"{path}: not found. The published figures lie beside the repository, in ../shared/published.")
    table = pd.read_csv(path)
    table = table[table.method == "topdown"]
    return table.assign(level=table.level.replace(LEVELS), statistic=table.statistic.replace(STATISTICS))


def run(population: tv.populations.Population, epsilon: float, replicates: Iterable[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Protect at this budget; the error figures, and the bias by homogeneity under both definitions of it."""
    truth = {level: Tables.of(population.people, level) for level in LEVELS.values()}
    pooled: dict[Key, list[Whole]] = {}
    strategy = tv.Strategy.preset("e2e-2018", epsilon=str(epsilon))
    for replicate in replicates:
        release = tv.protect(population, strategy, seed=1, replicate=replicate)
        for level, precise in truth.items():
            protected = Tables.of(release.histogram, level)
            pooled.setdefault(("tc", level), []).append(protected.total - precise.total)
            pooled.setdefault(("sc", level), []).append(residuals(precise.strata, protected.strata))
    return _errors(pooled, epsilon), _biases(pooled, truth, epsilon)


def compare(figures: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Our figures beside the published ones: ratio, within 25% or a person, beyond a factor of two."""
    table = figures.merge(published[["count", "level", "epsilon", "statistic", "value"]].rename(columns={"value": "theirs"}))
    pairs = list(zip(table.ours, table.theirs, strict=True))
    return table.assign(
        ratio=[ours / theirs if theirs else (1.0 if ours == 0 else np.inf) for ours, theirs in pairs],
        within=[within(*pair) for pair in pairs],
        beyond=[beyond_two(*pair) if pair[1] else pair[0] != 0 for pair in pairs],
    )


def compare_bias(biases: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Our bias by homogeneity beside the published one; ``clear`` where both are far enough from zero to have a sign.

    Ours: two standard errors. Theirs come without any; 0.5 of a person is what we ask.
    """
    theirs = published[published.statistic == "bias"].rename(columns={"value": "theirs", "homogeneity": "index"})
    table = biases.merge(theirs[["level", "epsilon", "index", "theirs"]])
    clear = (table.bias.abs() > 2 * table.error) & (table.theirs.abs() >= 0.5)
    return table.assign(clear=clear, agrees=np.sign(table.bias) == np.sign(table.theirs))


def _errors(pooled: Mapping[Key, list[Whole]], epsilon: float) -> pd.DataFrame:
    rows = [
        {"count": count, "level": level, "epsilon": epsilon, "statistic": statistic, "ours": value}
        for (count, level), parts in pooled.items()
        for statistic, value in summary(np.concatenate(parts)).items()
    ]
    return pd.DataFrame(rows)


def _biases(pooled: Mapping[Key, list[Whole]], truth: Mapping[str, Tables], epsilon: float) -> pd.DataFrame:
    parts = []
    for name, index_of in (("cells", empty_cells), ("product", empty_product)):
        for level, tables in truth.items():
            residual = pooled["tc", level]
            table = bias_by(np.tile(index_of(tables.strata), len(residual)), np.concatenate(residual))
            parts.append(table.reset_index().assign(definition=name, level=level, epsilon=epsilon))
    return pd.concat(parts, ignore_index=True)
