"""Benchmark of a risk scan of 8.1 million blocks, before and after release, with time and peak memory."""

from __future__ import annotations

import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import tallyveil as tv
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import RunKey


def main(persons: int) -> None:
    """Scan a synthetic census with this many persons."""
    start = perf_counter()
    census = tv.populations.census_2020(persons=persons, seed=1)
    people, strategy = census.people, tv.Strategy.preset("pl94-2020-us-persons")
    print(f"{people}: {people.total():,} persons, {people.leaves.entries:,} counts, {perf_counter() - start:.0f} s")
    noisy = measure(people, strategy, RunKey.from_seed(1))
    detail = tv.risk.Attack(queries=["detailed"])
    with ThreadPoolExecutor(2) as pool:
        for name, more in {
            "before release, all levels": {},
            "before release, blocks": {"levels": ["block"]},
            "before release, blocks, detail alone": {"levels": ["block"], "attack": detail},
            "after release, blocks": {"levels": ["block"], "measurements": noisy},
            "after release, blocks, detail alone": {
                "levels": ["block"],
                "measurements": noisy,
                "attack": detail,
            },
        }.items():
            start = perf_counter()
            exposure = tv.risk.scan(people, strategy, facilities=census.facilities, run=pool.map, **more)
            seconds = perf_counter() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            blocks = exposure.levels[exposure.levels.level == "block"].iloc[0]
            print(
                f"{name:38} {seconds:6.1f} s, peak {peak:4.1f} GiB; unique {blocks['unique']:,}, "
                f"right decision {blocks.right_decision:.5f}, risk {blocks.risk:.5f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else 331_449_281)
