"""Benchmark of a whole release, from the file to the tables, step by step: wall time, CPU time and peak memory.

    python bench/country.py                  25,000 to 300,000 blocks, and the exponents
    python bench/country.py --persons 331449281      the whole country
    python bench/country.py --estimator tree         with information from the levels below
    python bench/country.py --table docs/scale.csv   keeps the figures for docs/scale.md, beside those of other sizes

Each step runs in a process of its own, so that its peak memory is its own; reading, solving and writing are three steps
of one process. Beside them, a plain pass over the same data in the same run: read, sum to all levels and write with
pyarrow alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np

STRATEGY = "pl94-2020-us-persons"
MEMORY = "2400M"  # too little for the country at once
COUNTRY = 10**8  # persons who do not fit into it
Row = dict[str, object]
COLUMNS = ["blocks", "persons", "step", "wall time (s)", "CPU time (s)", "peak memory (GiB)"]


@contextmanager
def timed(name: str, rows: list[Row]) -> Iterator[None]:
    """Add the time of a step, and the peak memory of this process so far, to ``rows``."""
    wall, cpu = perf_counter(), os.times()
    yield
    spent = os.times()
    rows.append(
        {
            "step": name,
            "wall": perf_counter() - wall,
            "cpu": spent.user + spent.system - cpu.user - cpu.system,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        }
    )


def synth(place: Path, persons: int, _: str, rows: list[Row]) -> None:
    from tallyveil.cli.synth import write_population
    from tallyveil.populations import census_2020

    with timed("synth", rows):
        population = census_2020(persons=persons, seed=1)
        write_population(population, place / "people.parquet")


def protect(place: Path, _: int, estimator: str, rows: list[Row]) -> None:
    import tallyveil as tv
    from tallyveil.files import read_facilities

    book = place / "people.codebook.toml"
    with timed("read", rows):
        people = tv.files.read_counts(place / "people.parquet", book, units=place / "people.units.parquet")
        facilities = read_facilities(
            place / "people.facilities.parquet", people.spine, attribute="hhgq", types=people.schema.attributes["hhgq"]
        )
    rows[-1]["blocks"] = people.spine.size("block")
    with timed("solve", rows):
        plan = tv.Strategy.preset(STRATEGY).with_estimator(estimator)
        release = tv.protect(people, plan, facilities=facilities, seed=1)
    del people
    with timed("write", rows):
        tv.write_release(release, place / "release")


def parts(place: Path, _: int, estimator: str, rows: list[Row]) -> None:
    """Protect people who do not fit into the memory allowed: the same folder, from a file that is read in parts."""
    import tallyveil as tv
    from tallyveil.files import read_facilities

    with timed(f"all with --memory {MEMORY}", rows), tv.scale.memory_limit(MEMORY):
        people = tv.files.read_counts(
            place / "people.parquet", place / "people.codebook.toml", units=place / "people.units.parquet"
        )
        facilities = read_facilities(
            place / "people.facilities.parquet", people.spine, attribute="hhgq", types=people.schema.attributes["hhgq"]
        )
        plan = tv.Strategy.preset(STRATEGY).with_estimator(estimator)
        tv.protect_to_folder(people, plan, place / "parts", facilities=facilities, seed=1)
    for name in ("release.parquet", "levels/block.parquet", "levels/state.parquet"):
        assert (place / "parts" / name).read_bytes() == (place / "release" / name).read_bytes(), name


def verify(place: Path, _: int, __: str, rows: list[Row]) -> None:
    from tallyveil.protection.verify import verify_release

    with timed("verify", rows):
        assert all(finding.holds is not False for finding in verify_release(place / "release"))


def evaluate(place: Path, _: int, __: str, rows: list[Row]) -> None:
    import tallyveil as tv

    book = place / "people.codebook.toml"
    with timed("evaluate", rows):
        people = tv.files.read_counts(place / "people.parquet", book, units=place / "people.units.parquet")
        tv.evaluate.error(people, tv.read_release(place / "release"))


def tables(place: Path, _: int, __: str, rows: list[Row]) -> None:
    from tallyveil.files.published.write_tables import write_tables

    with timed("tables", rows):
        write_tables(place / "release", place / "tables", format="parquet")


def plain(place: Path, _: int, __: str, rows: list[Row]) -> None:
    """Read, sum to all levels and write with pyarrow alone: what any program on these data has to do."""
    import pyarrow.parquet as pq

    levels = ["state", "county", "tract", "block_group", "block"]
    attributes = ["hhgq", "votingage", "hispanic", "cenrace"]
    with timed("plain pass", rows):
        table = pq.read_table(place / "people.parquet", read_dictionary=[*levels, *attributes]).unify_dictionaries()
        pq.write_table(table, place / "plain_block.parquet")
        for depth in range(len(levels) - 1, 0, -1):
            table = table.group_by([*levels[:depth], *attributes]).aggregate([("count", "sum")])
            table = table.rename_columns([*levels[:depth], *attributes, "count"])
            pq.write_table(table, place / f"plain_{levels[depth - 1]}.parquet")


STEPS: dict[str, Callable[[Path, int, str, list[Row]], None]] = {
    step.__name__: step for step in (synth, protect, parts, verify, evaluate, tables, plain)
}


def measured(place: Path, persons: int, estimator: str, wanted: list[str]) -> list[Row]:
    """Run the steps, each in a process of its own, and print a row for each."""
    rows: list[Row] = []
    for step in wanted:
        command = [sys.executable, __file__, "--step", step, "--place", str(place), "--persons", str(persons)]
        command += ["--estimator", estimator]
        outcome = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        new = json.loads(outcome.stdout.splitlines()[-1])
        for row in new:
            print(
                f"{row['step']:>24} {row['wall']:>8.1f} s {row['cpu']:>8.1f} s CPU {row['peak']:>7.2f} GiB", flush=True
            )
        rows += new
    return rows


def keep(table: Path, persons: int, blocks: int, rows: list[Row]) -> None:
    """Write the figures of one size into a table, in place of older ones of that size."""
    lines = list(csv.reader(table.open())) if table.exists() else [COLUMNS]
    shown = f"{blocks:,}", f"{persons:,}"
    kept = [line for line in lines[1:] if line[1] != shown[1]]
    kept += [
        [*shown, str(row["step"]), *(f"{float(str(row[name])):.3g}" for name in ("wall", "cpu", "peak"))]
        for row in rows
    ]
    kept.sort(key=lambda line: int(line[0].replace(",", "")))
    with table.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *kept])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, nargs="*", default=[1_025_000, 3_700_000, 12_300_000])
    parser.add_argument("--steps", nargs="*", default=list(STEPS))
    parser.add_argument("--estimator", choices=["topdown", "tree"], default="topdown")
    parser.add_argument("--place", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--step", choices=STEPS)
    asked = parser.parse_args()
    if asked.step:
        rows: list[Row] = []
        STEPS[asked.step](asked.place, asked.persons[0], asked.estimator, rows)
        print(json.dumps(rows))
        return
    found: dict[int, dict[str, float]] = {}
    for persons in asked.persons:
        with tempfile.TemporaryDirectory(dir=asked.place) as folder:
            print(f"{persons:,} persons")
            wanted = [step for step in asked.steps if step != "parts" or persons > COUNTRY]
            rows = measured(Path(folder), persons, asked.estimator, wanted)
        blocks = next((int(str(row["blocks"])) for row in rows if "blocks" in row), persons)
        spent = {str(row["step"]): float(str(row["wall"])) for row in rows}
        found[blocks] = spent
        if asked.table is not None:
            keep(asked.table, persons, blocks, rows)
        if {"write", "verify", "evaluate", "solve"} <= spent.keys():
            around = spent["write"] + spent["verify"] + spent["evaluate"]
            print(f"write, verify and evaluate together: {around:.1f} s, {around / spent['solve']:.2f} times the solve")
    if len(found) > 1:
        for step in next(iter(found.values())):
            times = [spent[step] for spent in found.values()]
            power = np.polyfit(np.log(list(found)), np.log(times), 1)[0]
            print(f"{step:>12}: time grows with blocks to the power {power:.2f}")


if __name__ == "__main__":
    main()
