"""Counts from tables: one row per person, per unit and cell, or per unit, as a codebook says.

A file is read in pieces; each piece becomes entries (leaf, cell, count), added up at once, so that memory grows with
the non-empty cells and not with the rows.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import product
from os import PathLike

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallyveil._arrays import Integers
from tallyveil.errors import DataError, InputError, UnknownUnitError
from tallyveil.files.tables.codebook import COUNTS, TOTALS, Codebook
from tallyveil.files.tables.codebook_toml import read_codebook
from tallyveil.files.tables.columns import Batch, Source, batches, column_names
from tallyveil.files.tables.geography import codes_of, distinct, paths_of, read_units, spine_from_paths, unit_code
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine

LABELS_FROM_DATA = "labels from data: not covered by the guarantee"
UNITS_FROM_DATA = "units from data: not covered by the guarantee"


def read_counts(
    source: Source, codebook: Codebook | str | PathLike[str], *, units: Source | Spine | None = None
) -> Histogram:
    """Read a table of people.

    Parameters
    ----------
    source
        A CSV or Parquet file, or a pandas, polars or Arrow table.
    codebook
        What its columns mean.
    units
        The public list of units: a spine, or a table with the geographic columns. Without it the units are taken from
        the data, and a release will say so.

    The histogram has the codebook's stamps, a stamp where labels or units come from the data (or the codebook is marked
    as drafted from it), and the filter that the rows were kept by.
    """
    book = codebook if isinstance(codebook, Codebook) else read_codebook(codebook)
    _check_columns(source, book)
    stamps, kept_by = codebook_stamps(book, listed=units is not None), book.filter
    if not all(book.attributes.values()):
        book = _with_labels_from(source, book)
    entries = _Entries(book)
    for batch in batches(source):
        entries.add(_kept(batch, book))
    spine = read_units(units, book) if units is not None else entries.spine()
    name = entries.name
    try:
        unit, cell, count = entries.on(spine)
        people = Histogram.from_entries(spine, book.schema, unit=unit, cell=cell, count=count)
    except InputError as problem:
        raise problem.located(name) from None
    return replace(people, stamps=stamps, filter=kept_by)


def codebook_stamps(book: Codebook, *, listed: bool) -> tuple[str, ...]:
    """The stamps of counts read with a codebook; ``listed`` says whether a public list of units was given."""
    labels = book.labels_from is not None or not all(book.attributes.values())
    units = book.units_from is not None or not listed
    stamps = (*book.stamps, *([LABELS_FROM_DATA] if labels else []), *([UNITS_FROM_DATA] if units else []))
    return tuple(dict.fromkeys(stamps))


class _Entries:
    """Entries read so far. Each batch keeps its own distinct leaves, and entries that point at them."""

    def __init__(self, codebook: Codebook) -> None:
        self._book = codebook
        self._shape = tuple(len(labels) for labels in codebook.attributes.values())
        self._paths: list[pa.Table] = []  # one row per distinct path of a batch, with its first row in the file
        self._parts: list[
            tuple[Integers, Integers, Integers, Integers]
        ] = []  # path in its batch, cell, count, row in the file
        self._parents_of: dict[str, Integers] = {}
        self.name = "the table"

    def add(self, batch: Batch) -> None:
        """Take in a batch."""
        self.name = batch.name
        if batch.table.num_rows == 0:
            return
        rows = batch.rows
        paths = paths_of(batch, self._book).append_column("row", pa.array(rows))
        if self._book.layout == "wide":
            path, cell, count = self._wide(batch)
            self._paths.append(paths)
            self._parts.append((path, cell, count, rows[path]))
            return
        path, met = distinct(paths, self._book.levels)
        cell, count = self._rows(batch)
        if self._book.layout == "persons":  # add up at once: memory grows with cells, not with persons
            cells = math.prod(self._shape)
            key, count = np.unique(path * cells + cell, return_counts=True)
            (path, cell), rows = np.divmod(key, cells), np.zeros(len(key), dtype=np.int64)
        self._paths.append(met)
        self._parts.append((path, cell, count, rows))

    def _rows(self, batch: Batch) -> tuple[Integers, Integers]:
        """Long tables and tables of persons: the cell and count of each row."""
        book = self._book
        labels = [batch.labels(name, known) for name, known in book.attributes.items()]
        count = batch.counts(book.count) if book.layout == "long" and book.count else np.ones(len(labels[0]), np.int64)
        return np.ravel_multi_index(labels, self._shape).astype(np.int64), count

    def _wide(self, batch: Batch) -> tuple[Integers, Integers, Integers]:
        """Wide tables: row, cell and count of what is not zero."""
        table = np.stack([batch.counts(name) for name in wide_columns(self._book)], axis=1)
        if self._book.total is not None:
            stated, total = batch.counts(self._book.total), table.sum(axis=1)
            if (stated != total).any():
                row = int(np.argmax(stated != total))
                raise DataError(
                    f"{batch.place(row, self._book.total)}: {stated[row]:,}, but the cells sum to {total[row]:,}. "
                    f"Correct the row, or the columns that the codebook names."
                )
        rows, cells = np.nonzero(table)
        return rows.astype(np.int64), cells.astype(np.int64), table[rows, cells]

    def spine(self) -> Spine:
        """The units met in the data."""
        if not self._paths:
            kept = "".join(f" with {column} = {value!r}" for column, value in self._book.where.items())
            raise DataError(f"{self.name}: no rows{kept}, so no units. Give a list of units, or correct the codebook.")
        paths = pa.concat_tables(self._paths)
        if self._book.layout != "wide":
            _, paths = distinct(paths, self._book.levels)
        try:
            return spine_from_paths(paths, self._book)
        except InputError as problem:
            raise problem.located(self.name) from None

    def on(self, spine: Spine) -> tuple[Integers, Integers, Integers]:
        """Leaf, cell and count of each entry; rows that repeat, or contradict the spine, are errors."""
        none = np.zeros(0, dtype=np.int64)
        leaves = []
        for paths, (path, _, _, _) in zip(self._paths, self._parts, strict=True):
            leaves.append(self._leaves(paths, spine)[path])
        unit, cell, count, row = (
            np.concatenate([none, *arrays])
            for arrays in (leaves, *([part[i] for part in self._parts] for i in (1, 2, 3)))
        )
        if self._book.layout != "persons":
            self._refuse_repeated(spine, unit, cell, row)
        return unit, cell, count

    def _leaves(self, paths: pa.Table, spine: Spine) -> Integers:
        """The leaves of paths; coarser codes must be those of the spine."""
        levels = self._book.levels
        leaf = place = _located(spine, paths, self._book)
        for below, level in zip(reversed(levels[1:]), reversed(levels[:-1]), strict=True):
            place = self._parents(spine, below)[place]
            stated, right = codes_of(paths.column(level)), spine.codes[spine.depth(level)][place]
            if (stated != right).any():
                at = int(np.argmax(stated != right))
                raise DataError(
                    f"row {paths.column('row')[at].as_py() + 1:,}: {levels[-1]} "
                    f"{paths.column(levels[-1])[at].as_py()!r} is in {level} {right[at].decode()!r} by the list of "
                    f"units, but in {stated[at].decode()!r} here. Correct one."
                )
        return leaf

    def _parents(self, spine: Spine, level: str) -> Integers:
        if level not in self._parents_of:
            self._parents_of[level] = spine.parents(level)
        return self._parents_of[level]

    def _refuse_repeated(self, spine: Spine, unit: Integers, cell: Integers, row: Integers) -> None:
        key = unit * math.prod(self._shape) + cell
        if (np.diff(key) > 0).all():  # in order, as such tables mostly are
            return
        order = np.argsort(key, kind="stable")
        again = np.flatnonzero(np.diff(key[order]) == 0)
        if len(again):
            one, two = order[again[0]], order[again[0] + 1]
            what = f"{spine.leaf} {unit_code(spine, spine.leaf, unit[one])!r}"
            if self._book.layout == "long":
                what += f" with {self._label(int(cell[one]))}"
            raise DataError(f"{what} stands in rows {row[one] + 1:,} and {row[two] + 1:,}. Give each once, added up.")

    def _label(self, cell: int) -> str:
        place = np.unravel_index(cell, self._shape)
        return ", ".join(
            f"{name} {labels[i]!r}" for (name, labels), i in zip(self._book.attributes.items(), place, strict=True)
        )


def _located(spine: Spine, paths: pa.Table, book: Codebook) -> Integers:
    try:
        return spine.locate(spine.leaf, codes_of(paths.column(book.levels[-1])))
    except UnknownUnitError as problem:
        row = paths.column("row")[problem.row].as_py()
        raise UnknownUnitError(
            f"row {row + 1:,}: {spine.leaf} {problem.code!r} is not in the list of units. "
            f"Add it there, or correct the row.",
            row=row,
            code=problem.code,
        ) from None


def wide_columns(codebook: Codebook) -> list[str]:
    """The columns of a wide table, cell by cell."""
    names, labels = list(codebook.attributes), codebook.attributes.values()
    pattern = codebook.column or ""
    return [pattern.format(**dict(zip(names, cell, strict=True))) for cell in product(*labels)]


def _check_columns(source: Source, book: Codebook) -> None:
    there = column_names(source)
    name = str(source) if isinstance(source, str | PathLike) else "the table"
    cells = wide_columns(book) if book.layout == "wide" else [*book.attributes, *([book.count] if book.count else [])]
    wanted = [*book.geography, *cells, *book.where, *([book.total] if book.total else [])]
    missing = [column for column in wanted if column not in there]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f"{name}: no column {missing[0]!r}{more}, which the codebook names. The columns are {', '.join(there)}. "
            f"Correct the codebook, or draft one with: tallyveil codebook {name}"
        )
    extra = [column for column in there if column not in {*wanted, *book.ignore}]
    if book.layout == "persons":
        _refuse_counts(name, [*extra, *([book.total] if book.total else [])])
    if extra:
        warnings.warn(
            f"{name}: columns not in the codebook are passed over: {', '.join(extra)}. List them under [table] ignore.",
            stacklevel=3,
        )


def _refuse_counts(name: str, unused: list[str]) -> None:
    """Refuse a column of counts in a table whose rows are counted as one person each."""
    found = [column for column in unused if column.strip().lower() in {*COUNTS, *TOTALS}]
    if found:
        raise DataError(
            f'{name}: layout = "persons" counts each row as one person, but column {found[0]!r} looks like a count. '
            f'Use layout = "long" with count = {found[0]!r}, or list it under [table] ignore.'
        )


def _kept(batch: Batch, book: Codebook) -> Batch:
    """The rows that the codebook keeps."""
    for column, value in book.where.items():
        batch = batch.where(column, str(value))
    return batch


def _with_labels_from(source: Source, book: Codebook) -> Codebook:
    found: dict[str, set[str]] = {name: set() for name, labels in book.attributes.items() if not labels}
    for batch in batches(source):
        for name in found:
            values = pc.unique(pc.cast(_kept(batch, book).table.column(name), pa.string())).to_pylist()
            found[name].update(value for value in values if value is not None)
    attributes = {name: labels or tuple(sorted(found[name])) for name, labels in book.attributes.items()}
    return replace(book, attributes=attributes)
