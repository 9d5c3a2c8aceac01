"""Small tables of people in every layout, and helpers of several files."""

import tracemalloc

import numpy as np
import pyarrow as pa

from tallyveil import Histogram, Schema, Spine
from tallyveil.files.tables.write import persons_rows, wide_table
from tallyveil.nouns.schema import Grouping
from tallyveil.nouns.tables import counts_table

COLUMNS = {
    "state": ["09", "09", "44", "44", "44"],
    "county": ["09001", "09001", "44001", "44001", "44007"],
    "tract": ["0900101", "0900102", "4400101", "4400102", "4400701"],
}
SCHEMA = Schema(
    attributes={"age": ["child", "adult"], "home": ["house", "prison", "dorm"]},
    groupings={"kind": Grouping(of="home", groups={"house": ["house"], "quarters": ["prison", "dorm"]})},
    zeros=[{"age": ["child"], "home": ["prison"]}],
)


def persons_table(people: Histogram) -> pa.Table:
    return persons_rows(counts_table(people))


LAYOUTS = {"long": counts_table, "wide": wide_table, "persons": persons_table}


def with_peak_memory(work):
    """The result of some work, and the largest number of bytes it allocated."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def same(one: Histogram, two: Histogram) -> bool:
    return b"".join(one.canonical_bytes()) == b"".join(two.canonical_bytes())


def random_people(seed: int, units: int = 50) -> Histogram:
    rng = np.random.default_rng(seed)
    codes = {"county": [f"{i // 10:03}" for i in range(units)], "tract": [f"{i // 10:03}{i:04}" for i in range(units)]}
    spine = Spine.from_columns(codes, root="us")
    cell = rng.choice(np.flatnonzero(SCHEMA.possible), 200)
    return Histogram.from_entries(spine, SCHEMA, unit=rng.integers(0, units, 200), cell=cell, count=np.ones(200, int))
