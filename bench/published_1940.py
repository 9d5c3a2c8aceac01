"""TopDown's error on a synthetic census of 1940's shape, beside the error that Petti & Flaxman published [1]_.

The 2018 strategy as the Bureau ran it, at the budgets of the paper, on ``census_1940(seed=1)``; the residuals of the
replicates pooled, as the authors pooled four runs. Theirs is the real census of 1940; ours is made up, fitted to sizes
they published and to nothing else. Needs ``../shared/published``. docs/accuracy_1940.md has the results.

References
----------
.. [1] Petti & Flaxman, Differential privacy in the 2020 US census: what will it do?, Gates Open Research 3:1722, 2020.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

import tallyveil as tv
from tallyveil.privacy.constraints import FacilityBounds

PUBLISHED = Path(__file__).parents[2] / "shared" / "published" / "petti_flaxman_2020_results.csv"
STRATA = "votingage * hispanic * race"
COUNTS = {"tc": "total", "sc": STRATA}
STATISTICS = {"mae": "median_abs", "pct95": "p95_abs", "rmse": "rmse"}  # published spelling: ours
LEVELS = {"state": "state", "county": "county", "enum_dist": "enumdist"}
NAMES = {"tc": "totals", "sc": "strata", "enumdist": "district"}  # in print
EPSILONS = (0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 6.0, 8.0)


def within(ours: float, theirs: float, *, share: float = 0.25) -> bool:
    """Within this share of the published figure, or within one person of it."""
    return abs(ours - theirs) <= max(1.0, share * abs(theirs))


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


def run(
    population: tv.populations.Population, epsilon: float, replicates: Iterable[int], *, bounds: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Protect at this budget; the error figures, and the bias by homogeneity under both definitions of it."""
    strategy = tv.Strategy.preset("e2e-2018", epsilon=str(epsilon))
    if not bounds:
        kept = tuple(rule for rule in strategy.constraints if not isinstance(rule, FacilityBounds))
        strategy = replace(strategy, constraints=kept)
    releases = [tv.protect(population, strategy, seed=1, replicate=replicate) for replicate in replicates]
    levels = LEVELS.values()
    found = tv.evaluate.error(population, releases, levels=levels, queries=COUNTS.values())
    errors = found[found.statistic.isin(STATISTICS.values())].rename(columns={"value": "ours"})
    errors = errors.assign(
        count=errors["query"].map({query: count for count, query in COUNTS.items()}), epsilon=epsilon
    )
    biases = [
        tv.evaluate.bias(population, releases, level=level, of=STRATA, definition=definition)
        .rename(columns={"group": "index", "standard_error": "error"})
        .assign(definition=definition, epsilon=epsilon)
        for definition in ("cells", "product")
        for level in levels
    ]
    return errors[["count", "level", "epsilon", "statistic", "ours"]], pd.concat(biases, ignore_index=True)


def compare(figures: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Our figures beside the published ones: ratio, within 25% or a person, beyond a factor of two."""
    table = figures.merge(
        published[["count", "level", "epsilon", "statistic", "value"]].rename(columns={"value": "theirs"})
    )
    pairs = list(zip(table.ours, table.theirs, strict=True))
    return table.assign(
        ratio=[ours / theirs if theirs else (1.0 if ours == 0 else np.inf) for ours, theirs in pairs],
        within=[within(*pair) for pair in pairs],
        beyond=[beyond_two(*pair) if pair[1] else pair[0] != 0 for pair in pairs],
    )


def compare_bias(biases: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Our bias by homogeneity beside the published one; ``clear`` where both are far enough from zero to have a sign.

    Both by two standard errors of ours: theirs were published without any, from as many runs on as many units.
    """
    theirs = published[published.statistic == "bias"].rename(columns={"value": "theirs", "homogeneity": "index"})
    table = biases.merge(theirs[["level", "epsilon", "index", "theirs"]])
    clear = table[["bias", "theirs"]].abs().min(axis=1) > 2 * table.error
    return table.assign(clear=clear, agrees=np.sign(table.bias) == np.sign(table.theirs))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replicates", type=int, default=4, help="runs at each budget, pooled (the authors: 4)")
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS, help="budgets of the paper")
    parser.add_argument("--population", type=int, default=1, help="seed of the synthetic census")
    parser.add_argument("--without-bounds", action="store_true", help="leave out the bounds from facilities")
    options = parser.parse_args()
    if options.replicates < 1 or not set(options.epsilons) <= set(EPSILONS):
        parser.error(f"give at least one replicate, and budgets among {', '.join(map(str, EPSILONS))}.")
    published = read_published()
    population = tv.populations.census_1940(seed=options.population)
    errors, biases = [], []
    for epsilon in options.epsilons:
        start = perf_counter()
        error, bias = run(population, epsilon, range(options.replicates), bounds=not options.without_bounds)
        errors.append(error)
        biases.append(bias)
        print(f"epsilon {epsilon}: {perf_counter() - start:.0f} s for {options.replicates} runs", flush=True)
    print_errors(compare(pd.concat(errors), published))
    print_biases(compare_bias(pd.concat(biases), published))


def print_errors(table: pd.DataFrame) -> None:
    """Ours / theirs by budget, as a table of Markdown; then what is not within 25% or one person."""
    print("\n| level | count | statistic | " + " | ".join(f"{e:g}" for e in table.epsilon.unique()) + " |")
    print("| --- | --- | --- |" + " --- |" * table.epsilon.nunique())
    for (level, count, statistic), rows in table.groupby(["level", "count", "statistic"], sort=False):
        cells = [f"{row.ours:.3g} / {row.theirs:g}" for row in rows.itertuples()]
        print("|", " | ".join([NAMES.get(level, level), NAMES[count], statistic, *cells]), "|")
    for name, levels in (("county and district", ("county", "enumdist")), ("state", ("state",))):
        rows = table[table.level.isin(levels)]
        print(f"\n{name}: {rows.within.sum()} of {len(rows)} figures within 25% or one person,", end=" ")
        print(f"{rows.beyond.sum()} beyond a factor of two. Ratios {rows.ratio.min():.2f} to {rows.ratio.max():.2f}.")
        for row in rows[~rows.within].itertuples():
            print(
                f"  {row.level} {NAMES[row.count]} {row.statistic} at {row.epsilon:g}: {row.ours:.3g} / {row.theirs:g}"
            )


def print_biases(table: pd.DataFrame) -> None:
    """Bias by homogeneity, ours / theirs, under both definitions of the index."""
    for definition, rows in table[table.level != "state"].groupby("definition"):
        clear = rows[rows.clear]
        print(f"\nbias of totals by homogeneity, index of {definition}:", end=" ")
        print(f"sign agrees in {clear.agrees.sum()} of {len(clear)} that are clear of zero ({len(rows)} in all)\n")
        print("| level | index | residuals | " + " | ".join(f"{e:g}" for e in table.epsilon.unique()) + " |")
        print("| --- | --- | --- |" + " --- |" * table.epsilon.nunique())
        for (level, index), group in rows.groupby(["level", "index"]):
            cells = [f"{r.bias:.1f} ± {r.error:.1f} / {r.theirs:.1f}" for r in group.itertuples()]
            print("|", " | ".join([NAMES.get(level, level), f"{index:.0f}", f"{group.n.iloc[0]:,}", *cells]), "|")
    print(f"\nstate totals: largest bias {table[table.level == 'state'].bias.abs().max():g}")


if __name__ == "__main__":
    main()
