"""Measurements in files, which are written in pieces and read on demand; each row holds one noisy answer.

A file holds the measured units in the order of the spine, each with all rows of the query in order. The position of an
answer in the file therefore follows from its unit and row, and reading a few answers reads a few pieces.
"""

from __future__ import annotations

import math
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tallyveil._arrays import Integers
from tallyveil.errors import FolderError
from tallyveil.files.parquet import UNREADABLE
from tallyveil.files.tables.columns import first_line
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema, factors_of
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import answers_table
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements, Pair, SavedAnswers, SavedPlaces, SavedValues

PIECE_NUMBERS = 1 << 20  # numbers written, or read, at a time


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many numbers will be published, and about how many bytes they take on disk."""

    numbers: int
    bytes: int


def measured_pairs(strategy: Strategy, pairs: Sequence[Pair] | None = None) -> list[Pair]:
    """The (query, level) pairs in the strategy's spelling, each once; by default all pairs.

    >>> plan = Strategy.preset("e2e-2018", epsilon=1)
    >>> measured_pairs(plan, [("race * hispanic * votingage", "state")])
    [('votingage * hispanic * race', 'state')]
    """
    if pairs is None:
        return [(query, level) for level, queries in strategy.queries.items() for query in queries]
    return list(dict.fromkeys((strategy.written(level, query), level) for query, level in pairs))


def measurement_sizes(measurements: Measurements, pairs: Sequence[Pair] | None = None) -> Sizes:
    """How large the files of these (query, level) pairs will be; by default of all pairs.

    The number of bytes is an estimate from the entropy of the noise, which Parquet's compression comes close to.
    """
    numbers, size = 0, 0.0
    for query, level in measured_pairs(measurements.strategy, pairs):
        units = int(np.count_nonzero(measurements.shares[level].spans))
        answers = units * measurements.schema.query(query).size
        variance = measurements.strategy.noise(level, query).actual_variance()
        entropy = max(math.log2(2 * math.pi * math.e * (variance + 1 / 12)) / 2, 0.1)  # bits of a rounded Gaussian
        numbers += answers
        size += 1500 + 2.2 * units + answers * 1.2 * entropy / 8  # fitted: metadata, codes, numbers
    return Sizes(numbers=numbers, bytes=round(size))


def planned_sizes(
    people: Histogram, strategy: Strategy, pairs: Sequence[Pair] | None, *, optimised: OptimisedSpine | None = None
) -> Sizes:
    """How large the measurements of some pairs (or of all) will be; none is drawn."""

    def never(*_: Any) -> Any:
        raise AssertionError("a plan asks for no measurement")

    spine = people.spine if optimised is None else optimised.spine
    shape = Measurements(spine=spine, schema=people.schema, strategy=strategy, ask=never, optimised=optimised)
    return measurement_sizes(shape, pairs)


def file_name(query: str) -> str:
    """A query as a file name; different queries have different names.

    >>> file_name("votingage * hispanic"), file_name("age/sex")
    ('votingage.hispanic', 'age%2Fsex')
    """
    return ".".join(safe_name(factor) for factor in factors_of(query) or ("total",))


def safe_name(name: str) -> str:
    """A level or factor as a portable file name: letters, digits, _ and - are kept, everything else becomes %XX.

    >>> safe_name("block group"), safe_name("ตำบล")
    ('block%20group', 'ตำบล')
    """
    return "".join(c if _is_kept(c) else "".join(f"%{b:02X}" for b in c.encode()) for c in name)


def _is_kept(letter: str) -> bool:
    return letter.isalnum() or letter in "_-" or unicodedata.category(letter).startswith("M")  # vowels of some scripts


def exact_pieces(
    measurements: Measurements, query: str, level: str, *, size: int = PIECE_NUMBERS
) -> Iterator[pa.Table]:
    """The exact answers of an invariant for all units of a level, with variance 0; in pieces."""
    counts, labels = measurements.exact[query, level], measurements.schema.query(query).labels()
    step = max(1, size // len(labels))
    for first in range(0, counts.units, step):
        last = min(first + step, counts.units)
        value = counts.dense(first, last).reshape(-1)
        numbers = {"value": value, "variance": np.zeros(len(value))}
        yield answers_table(measurements.published, level, np.arange(first, last), labels, numbers)


def read_exact(path: Path, schema: Schema, spine: Spine, *, query: str, level: str) -> Counts:
    """The exact answers in a file."""
    rows = schema.query(query).size
    expected = spine.size(level) * rows
    with _open(path) as file:
        _check_rows(path, file, expected)
        value = _values(path, lambda: file.read(columns=["value"]))
    return Counts.from_dense(value.reshape(spine.size(level), rows))


def digest_of_values(path: Path) -> str:
    """The SHA-256 of the noisy answers in a file, whatever wrote it."""
    digest = sha256()
    with _open(path) as file:
        for number in range(file.num_row_groups):
            digest.update(_values(path, partial(file.read_row_group, number, columns=["value"])).tobytes())
    return digest.hexdigest()


def empty_measurements(people: Histogram, strategy: Strategy, optimised: OptimisedSpine | None) -> Measurements:
    """The measurements of a release without any answers, to which saved answers can be added."""
    spine = people.spine if optimised is None else optimised.spine
    ask = SavedAnswers({})
    return Measurements(spine=spine, schema=people.schema, strategy=strategy, ask=ask, optimised=optimised)


class FileValues(SavedValues):
    """The values in one file, read piece by piece on demand."""

    def __init__(self, path: Path, places: SavedPlaces) -> None:
        self._path, self._places = path, places
        with _open(path) as file:
            _check_rows(path, file, places.size)
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._forget()

    def _forget(self) -> None:
        self._pieces: OrderedDict[int, Integers] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_pieces", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def values(self, index: Integers) -> Integers:
        """The answers at ``unit * rows + row``."""
        place = self._places.of(index)
        piece = np.searchsorted(self._start, place, side="right") - 1
        out = np.empty(len(index), dtype=np.int64)
        for number in np.unique(piece):
            inside = piece == number
            out[inside] = self._piece(int(number))[place[inside] - self._start[number]]
        return out

    def _piece(self, number: int, kept: int = 4) -> Integers:
        with self._lock:
            if number not in self._pieces:
                with _open(self._path) as file:
                    values = _values(self._path, lambda: file.read_row_group(number, columns=["value"]))
                self._pieces[number] = values
                if len(self._pieces) > kept:
                    self._pieces.popitem(last=False)
            self._pieces.move_to_end(number)
            return self._pieces[number]


def _open(path: Path) -> pyarrow.parquet.ParquetFile:
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except UNREADABLE as problem:
        raise FolderError(f"{path}: cannot be read as Parquet ({first_line(problem)}). Copy it again.") from None
    names = file.schema_arrow.names
    kind = file.schema_arrow.field("value").type if names.count("value") == 1 else None
    if kind != pa.int64():
        file.close()
        raise FolderError(f"{path}: no integer column 'value'. Measurements have unit, cell, value, variance.")
    return file


def _values(path: Path, read: Callable[[], pa.Table]) -> Integers:
    """The values that are read; a file that is damaged further on, or has gaps, is refused."""
    try:
        column = read().column("value")
    except UNREADABLE as problem:
        raise FolderError(f"{path}: cannot be read as Parquet ({first_line(problem)}). Copy it again.") from None
    if column.null_count:
        raise FolderError(f"{path}: {column.null_count:,} values are missing. Copy it again.")
    values: Integers = column.to_numpy()
    return values


def _check_rows(path: Path, file: pyarrow.parquet.ParquetFile, expected: int) -> None:
    if file.metadata.num_rows != expected:
        raise FolderError(
            f"{path}: {file.metadata.num_rows:,} rows, but the measured units have {expected:,}. Copy the folder again."
        )
