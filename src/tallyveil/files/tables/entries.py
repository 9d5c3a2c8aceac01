"""Entries (leaf, cell, count) of a table that is read batch by batch; memory grows with the non-empty cells."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pyarrow as pa

from tallyveil._arrays import Integers
from tallyveil.errors import DataError, InputError, UnknownUnitError
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.columns import Batch, repeated_rows
from tallyveil.files.tables.geography import (
    codes_of,
    distinct,
    named_paths,
    paths_of,
    spine_from_paths,
    unit_code,
    with_names,
)
from tallyveil.nouns.codes import code_text, positions
from tallyveil.nouns.spine import Spine


class Entries:
    """The entries read so far. Each batch keeps its distinct leaves, and entries that refer to them."""

    def __init__(self, codebook: Codebook) -> None:
        self._book = codebook
        self._shape = tuple(len(labels) for labels in codebook.attributes.values())
        self._paths: list[pa.Table] = []  # one row per distinct path of a batch, with its first row in the file
        # path in its batch, cell, count, row in the file
        self._parts: list[tuple[Integers, Integers, Integers, Integers]] = []
        self._named: list[pa.Table] = []  # distinct paths and names, where the codebook has columns of names
        self._parents_of: dict[str, Integers] = {}
        self.name = "the table"

    def add(self, batch: Batch) -> None:
        """Add the entries of a batch."""
        self.name = batch.name
        if batch.table.num_rows == 0:
            return
        rows = batch.rows
        if self._book.names:
            named = named_paths(batch, self._book)
            self._named.append(distinct(named, tuple(named.column_names))[1])
        paths = paths_of(batch, self._book).append_column("row", pa.array(rows))
        if self._book.layout == "wide":
            path, cell, count = self._wide(batch)
            self._paths.append(paths)
            self._parts.append((path, cell, count, rows[path]))
            return
        path, distinct_paths = distinct(paths, self._book.levels)
        cell, count = self._rows(batch)
        if self._book.layout == "persons":  # add up at once: memory grows with cells, not with persons
            cells = math.prod(self._shape)
            key, count = np.unique(path * cells + cell, return_counts=True)
            (path, cell), rows = np.divmod(key, cells), np.zeros(len(key), dtype=np.int64)
        self._paths.append(distinct_paths)
        self._parts.append((path, cell, count, rows))

    def _rows(self, batch: Batch) -> tuple[Integers, Integers]:
        """Long tables and tables of persons: the cell and count of each row."""
        book = self._book
        labels = [batch.labels(name, known) for name, known in book.attributes.items()]
        count = batch.counts(book.count) if book.layout == "long" and book.count else np.ones(len(batch.rows), np.int64)
        if not labels:
            return np.zeros(len(batch.rows), np.int64), count
        return np.ravel_multi_index(labels, self._shape).astype(np.int64), count

    def _wide(self, batch: Batch) -> tuple[Integers, Integers, Integers]:
        """Wide tables: row, cell and count of the non-zero cells."""
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
        """The spine of the units in the data."""
        if not self._paths:
            kept = "".join(f" with {column} = {value!r}" for column, value in self._book.where.items())
            raise DataError(f"{self.name}: no rows{kept}, so no units. Give a list of units, or correct the codebook.")
        paths = pa.concat_tables(self._paths)
        if self._book.layout != "wide":
            _, paths = distinct(paths, self._book.levels)
        try:
            spine = spine_from_paths(paths, self._book)
            return with_names(spine, pa.concat_tables(self._named), self._book) if self._named else spine
        except InputError as problem:
            raise problem.located(self.name) from None

    def on(self, spine: Spine) -> tuple[Integers, Integers, Integers]:
        """Leaf, cell and count of each entry; repeated rows, and rows that contradict the spine, are errors."""
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
        """The leaves of paths; codes of coarser levels must agree with the spine."""
        levels = self._book.levels
        leaf = place = _located(spine, paths, self._book)
        for below, level in zip(reversed(levels[1:]), reversed(levels[:-1]), strict=True):
            place = self._parents(spine, below)[place]
            stated, right = codes_of(paths.column(level)), spine.own_codes(level)[place]
            if (stated != right).any():
                row = int(np.argmax(stated != right))
                raise DataError(
                    f"row {paths.column('row')[row].as_py() + 1:,}: {levels[-1]} "
                    f"{paths.column(levels[-1])[row].as_py()!r} is in {level} {right[row].decode()!r} by the list of "
                    f"units, but in {stated[row].decode()!r} here. Correct one."
                )
        return leaf

    def _parents(self, spine: Spine, level: str) -> Integers:
        if level not in self._parents_of:
            self._parents_of[level] = spine.parents(level)
        return self._parents_of[level]

    def _refuse_repeated(self, spine: Spine, unit: Integers, cell: Integers, row: Integers) -> None:
        if rows := repeated_rows(unit * math.prod(self._shape) + cell):
            first, second = rows
            entry = f"{spine.leaf} {unit_code(spine, spine.leaf, unit[first])!r}"
            if self._book.layout == "long" and self._shape:
                entry += f" with {self._label(int(cell[first]))}"
            raise DataError(f"{entry} is in rows {row[first] + 1:,} and {row[second] + 1:,}. Add them up in one row.")

    def _label(self, cell: int) -> str:
        place = np.unravel_index(cell, self._shape)
        return ", ".join(
            f"{name} {labels[i]!r}" for (name, labels), i in zip(self._book.attributes.items(), place, strict=True)
        )


def wide_columns(codebook: Codebook) -> list[str]:
    """The names of the columns of a wide table, one per cell."""
    names, labels = list(codebook.attributes), codebook.attributes.values()
    pattern = codebook.column or ""
    return [pattern.format(**dict(zip(names, cell, strict=True))) for cell in product(*labels)]


def _located(spine: Spine, paths: pa.Table, book: Codebook) -> Integers:
    if book.levels[-1] != spine.leaf or not set(spine.column_levels) <= set(book.levels):
        raise DataError(
            f"the codebook has the levels {', '.join(book.levels)}, but the units have "
            f"{', '.join(spine.column_levels)}. Read both with one codebook."
        )
    codes = spine.leaf_codes({level: codes_of(paths.column(level)) for level in book.levels})
    position = positions(spine.codes[-1], codes)
    if (position < 0).any():
        unknown = int(np.argmax(position < 0))
        row, code = paths.column("row")[unknown].as_py(), code_text(codes[unknown])
        raise UnknownUnitError(
            f"row {row + 1:,}: {spine.leaf} {code!r} is not in the list of units. Add it there, or correct the row.",
            row=row,
            code=code,
        )
    return position
