"""Benchmark of a histogram of the size of the 2020 census: building it, summing it to all levels, and queries.

It has 8.1 million blocks with 2,016 possible cells each, about 80 million of them non-empty. The memory printed is the
peak of this process.
"""

from __future__ import annotations

import resource
from time import perf_counter

import numpy as np

from tallyveil import Histogram, Schema, Spine

BLOCKS, CELLS_PER_BLOCK = 8_100_000, 11
LEVELS = {"state": 51, "county": 3_143, "tract": 84_400, "block_group": 242_000}


def step(name: str, started: float) -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:<48} {perf_counter() - started:>7.2f} s   peak so far {peak:>6.2f} GiB", flush=True)
    return perf_counter()


def main() -> None:
    started = perf_counter()
    print(f"a census of {BLOCKS:,} blocks x 2,016 cells")
    block = np.arange(BLOCKS, dtype=np.int64)
    columns, unit, size = {"block": np.char.zfill(block.astype("S8"), 8)}, block, BLOCKS
    for level, above in reversed(LEVELS.items()):
        unit, size = unit * above // size, above
        columns = {level: np.char.zfill(unit.astype("S8"), 8), **columns}
    schema = Schema(
        attributes={
            "hhgq": [f"type{i}" for i in range(8)],
            "votingage": ["minor", "adult"],
            "hispanic": ["no", "yes"],
            "cenrace": [f"race{i}" for i in range(63)],
        }
    )
    rng = np.random.default_rng(2020)
    entries = BLOCKS * CELLS_PER_BLOCK
    unit = np.repeat(block.astype(np.int32), CELLS_PER_BLOCK)
    cell = (2016 * rng.random(entries, dtype=np.float32) ** 4).astype(np.uint16)  # a few cells hold most people
    count = rng.geometric(0.25, entries).astype(np.int32)
    started = step("generating the input (not part of the benchmark)", started)
    spine = Spine.from_columns(columns, root="us")
    started = step("spine from codes", started)
    people = Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=count)
    started = step("histogram from entries", started)
    memory = people.leaves.nbytes / 2**30
    print(f"  {people.leaves.entries:,} non-empty cells, {people.total():,} persons, stored in {memory:.2f} GiB")
    for level, counts in people.by_level():
        assert counts.total() == people.total()
        started = step(f"summed to {level} ({counts.units:,} units)", started)
    for query, level in (
        ("total", "block"),
        ("hispanic * cenrace", "block"),
        ("hhgq", "tract"),
        ("detailed", "county"),
    ):
        answer = people.answer(query, level=level)
        assert answer.total() == people.total()
        started = step(f"{query} for every {level}", started)


if __name__ == "__main__":
    main()
