"""Benchmark of a whole evaluation of a synthetic 1940 census: error, bias and empirical privacy loss at every level.

There are 132 million persons in 134,858 districts; total and stratified counts are evaluated as by Petti & Flaxman. For
comparison, medians and bias (but no loss) are computed with pandas from a table of all non-empty counts.
"""

from __future__ import annotations

from time import perf_counter

import pandas as pd

import tallyveil as tv
from tallyveil.evaluate.epl.loss import epl

STRATA = "votingage * hispanic * race"
ATTRIBUTES = ["votingage", "hispanic", "race"]


def evaluate(truth: tv.Histogram, released: tv.Histogram) -> dict[str, float]:
    """Return the time that each part takes, in seconds."""
    seconds = {}
    start = perf_counter()
    tv.evaluate.error(truth, released, queries=["total", STRATA])
    seconds["error"] = perf_counter() - start
    start = perf_counter()
    for level in truth.spine.levels[1:]:
        tv.evaluate.bias(truth, released, level=level, of=STRATA)
        tv.evaluate.bias(truth, released, level=level, query=STRATA, by="race")
        tv.evaluate.error_by_size(tv.evaluate.residuals(truth, released, level=level, query=STRATA))
    seconds["bias"] = perf_counter() - start
    start = perf_counter()
    for level in truth.spine.levels:
        for query in ("total", STRATA):
            epl(tv.evaluate.residuals(truth, released, level=level, query=query))
    seconds["loss"] = perf_counter() - start
    return seconds


def as_frame(people: tv.Histogram, name: str) -> pd.DataFrame:
    """Return the counts as a table with one row per district and non-empty cell."""
    leaves, spine = people.leaves, people.spine
    unit = leaves.unit()
    columns: dict[str, object] = {spine.leaf: unit}
    for level in reversed(spine.levels[:-1]):
        unit = spine.parents(spine.levels[spine.depth(level) + 1])[unit]
        columns[level] = unit
    labels = people.schema.query(STRATA).labels()
    columns["strata"] = pd.Categorical.from_codes(people.schema.query(STRATA).row_of_cell[leaves.cell], labels)
    return pd.DataFrame(columns | {name: leaves.count})


def notebook(truth: pd.DataFrame, released: pd.DataFrame, levels: tuple[str, ...]) -> float:
    """Compute the median error of totals and strata, and bias by empty cells, with pandas; return the seconds."""
    start = perf_counter()
    for level in levels:
        for keys in ([level], [level, "strata"]):
            pair = [frame.groupby(keys, observed=True)[name].sum() for frame, name in ((truth, "t"), (released, "r"))]
            both = pd.concat(pair, axis=1).fillna(0)
            residual = both.r - both.t
            residual.abs().median()
            if len(keys) == 1:
                empty = 24 - (truth.groupby([level, "strata"], observed=True).t.sum() > 0).groupby(level).sum()
                residual.groupby(empty.reindex(residual.index)).mean()
    return perf_counter() - start


def main() -> None:
    """Run the benchmark and print the results."""
    population = tv.populations.census_1940(seed=1)
    truth = population.people
    released = tv.protect(population, tv.Strategy.preset("e2e-2018", epsilon=1), seed=1).histogram
    small = tv.populations.census_1940(persons=100_000, seed=2).people
    evaluate(small, small)  # compiles the kernels
    seconds = evaluate(truth, released)
    parts = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    print(f"evaluation of {truth!r}: {sum(seconds.values()):.1f} s ({parts})")
    frames = as_frame(truth, "t"), as_frame(released, "r")
    slow = notebook(*frames, levels=truth.spine.levels)
    ours = seconds["error"] + seconds["bias"]
    print(f"median error and bias only, with pandas: {slow:.1f} s, {slow / ours:.1f} times ours with all statistics")


if __name__ == "__main__":
    main()
