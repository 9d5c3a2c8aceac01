"""What the tree estimator gains over TopDown from the same measurements, beside what BlueDown gains.

    python bench/rivals.py                              ten synthetic counties, production allocation
    python bench/rivals.py --data FOLDER                Rhode Island and Rockland, default shares
    python bench/rivals.py --cost                       CPU time at the shape of 1940 and for a state of 300,000 blocks

Releases are paired: both estimators use the same noise. Shown is the change of the mean absolute error over all units
and cells in percent, with its standard error over the seeds. BlueDown (arXiv 2603.10099) is a rival that projects the
best linear unbiased estimate of PL94 with a commercial solver. Its gains over its own TopDown are those of its own code
on one county of 27 tracts (5 draws of the noise, sum of absolute errors); it takes 0.67 seconds a block.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import tallyveil as tv

PERSONS, POPULATION = 1_100_000, 12  # ten counties of 3 to 110 tracts
QUERIES = ("total", "votingage", "hispanic", "hhgq", "cenrace", "votingage * hispanic * cenrace", "detailed")
BLUEDOWN = {
    ("county", "cenrace"): -25, ("county", "detailed"): -18, ("county", "hhgq"): 15, ("tract", "total"): -28,
    ("tract", "detailed"): -31, ("block_group", "detailed"): -20, ("block", "detailed"): -1,
}  # fmt: skip
GROUPS = {"county under 30 tracts": (0, 30), "county of 50 tracts and more": (50, 10**9)}
Errors = Mapping[tuple[str, str], np.ndarray]  # by level and query: seeds x units, the sum over cells
EXAMPLES = Path(__file__).parents[1] / "examples"


def answers(people: tv.Histogram, queries: tuple[str, ...]) -> Iterator[tuple[tuple[str, str], sp.csr_matrix]]:
    """The counts of every level and query, as sparse tables of units by rows."""
    for level in people.spine.levels:
        for query in queries:
            counts = people.answer(query, level=level)
            shape = (len(counts.start) - 1, counts.cells)
            yield (level, query), sp.csr_matrix((counts.count.astype(float), counts.cell, counts.start), shape=shape)


def paired(truth: tv.Histogram, strategy: tv.Strategy, seeds: range, queries: tuple[str, ...], **options) -> tuple:
    """The errors of TopDown and of the tree estimator, and the CPU seconds of each."""
    true = dict(answers(truth, queries))
    errors: tuple[dict, dict] = ({}, {})
    spent = np.zeros(2)
    for seed in seeds:
        for which, name in enumerate(("topdown", "tree")):
            before = time.process_time()
            release = tv.protect(truth, strategy.with_estimator(name), seed=seed, **options)
            spent[which] += time.process_time() - before
            for place, table in answers(release.histogram, queries):
                off = np.asarray(abs(table - true[place]).sum(axis=1)).reshape(-1)
                errors[which].setdefault(place, []).append(off)
    return (*({place: np.array(rows) for place, rows in one.items()} for one in errors), spent)


def change(topdown: np.ndarray, tree: np.ndarray) -> tuple[float, float]:
    """The change of the mean in percent, and its standard error over the seeds (rows)."""
    one, other = topdown.sum(axis=1), tree.sum(axis=1)
    if not one.sum():
        return (0.0, 0.0) if not other.sum() else (np.inf, np.nan)
    ratio = other.sum() / one.sum()
    spread = (other - ratio * one).std(ddof=1) / np.sqrt(len(one)) / one.mean() if len(one) > 1 else np.nan
    return 100 * (ratio - 1), 100 * spread


def show(title: str, topdown: Errors, tree: Errors, schema: tv.Schema, *, rival: Mapping = BLUEDOWN) -> None:
    """Print the errors of both and the change; marked if it is worse by more than 3% and three standard errors."""
    print(f"\n{title}\n{'':62}{'topdown':>10}{'tree':>10}{'change':>16}{'BlueDown' if rival else '':>10}")
    for (level, query), one in topdown.items():
        other = tree[level, query]
        moved, spread = change(one, other)
        rows = one.shape[1] * schema.query(query).size
        means = [table.sum(axis=1).mean() / rows for table in (one, other)]
        theirs = f"{rival[level, query]:+d}%" if (level, query) in rival else ""
        worse = "  worse" if moved > 3 + 3 * spread else ""
        print(
            f"{level:>30} {query:30} {means[0]:>10.4g}{means[1]:>10.4g}{moved:>+9.1f}% ({spread:.1f}){theirs:>9}{worse}"
        )


def by_size(errors: Errors, spine: tv.Spine) -> Errors:
    """The errors of counties, by how many tracts they have."""
    tracts = np.diff(spine.first_child[spine.depth("county")])
    return {
        (name, query): table[:, (tracts >= least) & (tracts < most)]
        for name, (least, most) in GROUPS.items()
        for (level, query), table in errors.items()
        if level == "county"
    }


def synthetic(seeds: range, population: int) -> None:
    """Ten counties with the published shares of the 2020 redistricting file."""
    census = tv.populations.census_2020(persons=PERSONS, seed=population)
    spine, plan = census.people.spine, tv.Strategy.preset("pl94-2020-us-persons")
    topdown, tree, spent = paired(census.people, plan, seeds, QUERIES, facilities=census.facilities)
    tracts = ", ".join(map(str, np.diff(spine.first_child[spine.depth("county")])))
    show(f"{spine}, {len(seeds)} seeds; counties of {tracts} tracts", topdown, tree, census.people.schema)
    show("by size of the county", by_size(topdown, spine), by_size(tree, spine), census.people.schema)
    blocks = spine.size("block") * len(seeds)
    print(
        f"\nCPU seconds a block: topdown {spent[0] / blocks:.2g}, tree {spent[1] / blocks:.2g} "
        f"({spent[1] / spent[0]:.2f} times), BlueDown 0.67"
    )


def compile_kernels() -> None:
    """Run both estimators once, so that no time is that of compiling."""
    village = tv.populations.census_2020(persons=20_000, seed=1)
    for name in ("topdown", "tree"):
        tv.protect(village, tv.Strategy.preset("pl94-2020-us-persons").with_estimator(name), seed=1)


def cost() -> None:
    """CPU seconds of both estimators at the shape of 1940 and for a state of 300,000 blocks, and the peak of memory."""
    for title, population, plan, levels in (
        ("1940", tv.populations.census_1940(seed=1), tv.Strategy.preset("e2e-2018", epsilon=1), (None, "enumdist")),
        (
            "2020",
            tv.populations.census_2020(persons=12_300_000, seed=1),
            tv.Strategy.preset("pl94-2020-us-persons"),
            (None,),
        ),
    ):
        print(f"\n{title}: {population.people.spine}")
        first = None
        for level in ("topdown", *levels):
            name = "topdown" if level == "topdown" else "tree"
            chosen = replace(plan, estimator=name, information_from=None if name == "topdown" else level)
            before = time.process_time()
            tv.protect(population, chosen, seed=1)
            spent = time.process_time() - before
            first = first or spent
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            start = f", information from {chosen.information_level}" if name == "tree" else ""
            print(f"{name}{start}: {spent:.1f} s CPU, {spent / first:.2f} times, peak {peak:.2f} GiB", flush=True)


def real(folder: Path, seeds: range, rho: str) -> None:
    """Real counts of 2010 with default shares."""
    for name in ("ri_2010_block", "ny_rockland_2010_block"):
        people = tv.read_counts(folder / f"{name}.parquet", EXAMPLES / f"{name}.toml")
        queries = ("total", *people.schema.attributes, "detailed")
        plan = tv.Strategy.default(people.spine, people.schema, rho=rho)
        topdown, tree, spent = paired(people, plan, seeds, queries)
        show(f"{name}, rho {rho}, {len(seeds)} seeds", topdown, tree, people.schema, rival={})
        for level in people.spine.levels[1:]:
            one, other = (
                np.stack([errors[level, query].sum(axis=1) for query in queries]) for errors in (topdown, tree)
            )
            noisy = (one > 0).all(axis=1) & (other > 0).all(axis=1)  # a single county has an exact total
            logs = (np.log(other[noisy]) - np.log(one[noisy])).mean(axis=0)
            print(
                f"{level}: geometric mean over queries {100 * np.expm1(logs.mean()):+.1f}% "
                f"({100 * logs.std(ddof=1) / np.sqrt(len(seeds)):.1f})"
            )
        print(f"CPU: tree {spent[1] / spent[0]:.2f} times topdown")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8, help="How many seeds.")
    parser.add_argument("--first-seed", type=int, default=1, help="The first of them.")
    parser.add_argument("--population", type=int, default=POPULATION, help="Seed of the synthetic counties.")
    parser.add_argument("--data", type=Path, help="Folder with the real counts, instead of synthetic ones.")
    parser.add_argument("--cost", action="store_true", help="Time both estimators instead.")
    parser.add_argument("--rho", default="1/2", help="Budget for the real counts.")
    given = parser.parse_args()
    compile_kernels()
    chosen = range(given.first_seed, given.first_seed + given.seeds)
    if given.cost:
        cost()
    elif given.data is None:
        synthetic(chosen, given.population)
    else:
        real(given.data, chosen, given.rho)
