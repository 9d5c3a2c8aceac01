"""Benchmark of one parent with many children: how the time of a whole ``protect`` grows with their number.

Counts are up to 2^33 in 6 cells, the case in which a general solver once took over and in which rounding once was
quadratic. Each strategy asks for other queries, so that other parts decide. Times are CPU seconds on one thread.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from time import process_time

import numpy as np

import tallyveil as tv
from tallyveil.engine import level as engine

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)
STRATEGIES = {
    "detailed, total": ["detailed", "total"],
    "a, b": ["a", "b"],
    "a * b, total": ["a * b", "total"],
    "default": None,
}
PARTS = ("_estimated", "round_nests")


def people_of(children, seed):
    """Return one parent whose children have from 1 to 2^33 people in each of 6 cells."""
    counts = np.floor(2.0 ** np.random.default_rng(seed).uniform(0, 33, children * 6)).astype(np.int64)
    spine = tv.Spine.from_columns({"county": [f"{i:05d}" for i in range(children)]}, root="us")
    schema = tv.Schema(attributes={"a": list("ab"), "b": list("xyz")})
    at = np.arange(len(counts))
    return tv.Histogram.from_entries(spine, schema, unit=at // 6, cell=at % 6, count=counts)


def strategy_of(queries, people):
    """Return a strategy with even shares, or the default one."""
    if queries is None:
        return tv.Strategy.default(people.spine, people.schema, epsilon=1)
    even = {query: Fraction(1, len(queries)) for query in queries}
    return tv.Strategy(
        mechanism="geometric",
        budget=Fraction(1),
        levels={level: Fraction(1, 2) for level in people.spine.levels},
        queries=dict.fromkeys(people.spine.levels, even),
    )


def timed(people, strategy, repeats):
    """Return the least CPU seconds of a whole call, and those of the estimate and of the rounding in it."""
    best = np.full(1 + len(PARTS), np.inf)
    parts = [getattr(engine, name) for name in PARTS]
    for _ in range(repeats):
        spent = np.zeros(len(best))

        def watched(i, part, spent=spent):
            def call(*arguments):
                start = process_time()
                result = part(*arguments)
                spent[i] += process_time() - start
                return result

            return call

        for i, name in enumerate(PARTS):
            setattr(engine, name, watched(1 + i, parts[i]))
        try:
            start = process_time()
            tv.protect(people, strategy, seed=1)
            spent[0] = process_time() - start
        finally:
            for name, part in zip(PARTS, parts, strict=True):
                setattr(engine, name, part)
        best = np.minimum(best, spent)
    return best


def main(sizes, seeds, repeats):
    people = people_of(50, 0)
    for queries in STRATEGIES.values():
        tv.protect(people, strategy_of(queries, people), seed=1)  # compile
    print("CPU seconds of protect for one parent (in the estimate / in the rounding), and their exponent in children")
    print(f"{'queries':>16} " + " ".join(f"{size:>22,}" for size in sizes) + f" {'exponents':>20}")
    for name, queries in STRATEGIES.items():
        times = []
        for size in sizes:
            every = [people_of(size, seed) for seed in range(seeds)]
            times.append(np.mean([timed(people, strategy_of(queries, people), repeats) for people in every], axis=0))
        exponents = np.polyfit(np.log(sizes), np.log(np.maximum(times, 1e-6)), 1)[0]
        row = " ".join(f"{whole:>7.3f} ({a:.3f} / {b:.3f})" for whole, a, b in times)
        print(f"{name:>16} {row}   {exponents[0]:.2f} ({exponents[1]:.2f} / {exponents[2]:.2f})", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seeds", type=int, default=3, help="populations of each size, whose times are averaged")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, of which the least counts")
    given = parser.parse_args()
    main(tuple(given.sizes), given.seeds, given.repeats)
