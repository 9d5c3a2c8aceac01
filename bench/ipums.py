"""Benchmark of reading an IPUMS extract of 10 million persons, compared with pandas.

It also checks that memory does not grow with the file. Each reading runs in a separate process, so that its peak memory
can be measured.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import numpy as np

from tallyveil import Histogram, Spine
from tallyveil.files import read_ipums_1940
from tallyveil.nouns.census_schemas import PERSONS_1940, TYPES_1940, UNITS_2020
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities

DISTRICTS, PERSONS, SAMPLE = 10_000, 10_000_000, 200_000
WANTED = 20  # required ratio of our speed to that of pandas
PEOPLE_COLUMNS = [(0, 1), (7, 15), (53, 55), (55, 59), (73, 76), (84, 85), (88, 89), (93, 94), (94, 95), (124, 128)]


def population(persons: int) -> tuple[Histogram, Facilities, Histogram]:
    """Generate random persons in households of about four and in a few group quarters."""
    rng = np.random.default_rng(1940)
    code = [f"{d // 250 + 1:02d}{d // 25 % 10 * 10:04d}{d % 25 + 1:04d}" for d in range(DISTRICTS)]
    spine = Spine.from_codes(code, lengths={"state": 2, "county": 6, "enumdist": 10}, root="us")
    built = np.zeros((DISTRICTS, 8), np.int64)
    built[:, 0] = rng.poisson(persons / DISTRICTS / 3.5, DISTRICTS) + 1
    built[:, 1:] = rng.random((DISTRICTS, 7)) < 0.1
    share = (rng.gamma(0.3, size=(DISTRICTS, 8, 24)) * (built > 0)[:, :, None]).reshape(DISTRICTS, 192)
    people = rng.multinomial(persons, (share / share.sum()).ravel()).reshape(DISTRICTS, 192)
    housing = np.stack([rng.poisson(3, DISTRICTS), built[:, 0]], axis=1)
    return (
        Histogram(spine=spine, schema=PERSONS_1940, leaves=Counts.from_dense(people)),
        Facilities(spine=spine, attribute="hhgq", types=TYPES_1940, leaves=Counts.from_dense(built)),
        Histogram(spine=spine, schema=UNITS_2020, leaves=Counts.from_dense(housing)),
    )


def canonical(histogram: Histogram) -> bytes:
    return b"".join(histogram.canonical_bytes())


def read_alone(path: Path, threads: int) -> tuple[float, float, tuple[bytes, bytes, bytes]]:
    """Return the seconds, the peak memory of the process in MiB, and the data read."""
    warm_up = path.with_suffix(".tiny")
    read_ipums_1940(warm_up, threads=threads)  # loads the compiled code
    started = perf_counter()
    census = read_ipums_1940(path, threads=threads)
    seconds = perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    facilities = b"".join(census.facilities.leaves.canonical_bytes())
    return seconds, peak, (canonical(census.people), facilities, canonical(census.housing))


def in_new_process(path: Path, threads: int) -> tuple[float, float, tuple[bytes, bytes, bytes]]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(read_alone, path, threads).result()


def pandas_speed(path: Path, folder: Path) -> float:
    """Return the MB/s of pandas for the first lines, read as text without checking, counting or recoding."""
    import pandas as pd

    sample = folder / "sample.dat"
    with open(path, "rb") as file:
        sample.write_bytes(b"".join(islice(file, SAMPLE)))
    started = perf_counter()
    frame = pd.read_fwf(sample, colspecs=PEOPLE_COLUMNS, header=None, dtype=str)
    assert len(frame) == SAMPLE
    return sample.stat().st_size / 1e6 / (perf_counter() - started)


def main() -> None:
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from ipums_extract import write_ipums_1940

    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder, peaks, ours = Path(name), {}, 0.0
        for persons in (PERSONS // 10, PERSONS):
            people, facilities, housing = population(persons)
            path = folder / f"{persons}.dat"
            write_ipums_1940(people, facilities, housing, path)
            with open(path, "rb") as file:
                path.with_suffix(".tiny").write_bytes(b"".join(islice(file, 10)))
            size = path.stat().st_size / 1e6
            print(f"{persons:,} persons, {DISTRICTS:,} districts, {size:,.0f} MB", flush=True)
            truth = canonical(people), b"".join(facilities.leaves.canonical_bytes()), canonical(housing)
            for threads in (1, 2):
                seconds, peak, read = in_new_process(path, threads)
                assert read == truth, "the data read differ from the data written"
                label = f"read, {threads} thread" + "s" * (threads > 1)
                speed = f"{seconds:6.2f} s {size / seconds:8,.0f} MB/s   peak {peak:5,.0f} MiB"
                print(f"  {label:<21} {speed}", flush=True)
                peaks[persons, threads], ours = peak, size / seconds
        theirs = pandas_speed(path, folder)
        print(f"pandas.read_fwf, first {SAMPLE:,} lines {theirs:8,.1f} MB/s (nothing checked or counted)")
        grown = peaks[PERSONS, 2] - peaks[PERSONS // 10, 2]
        print(
            f"ours is {ours / theirs:,.0f} times as fast (required: {WANTED}); ten times the data adds {grown:,.0f} MiB"
        )
        assert ours > WANTED * theirs
        assert grown < 100


if __name__ == "__main__":
    main()
