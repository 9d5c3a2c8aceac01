"""Entries (leaf, cell, count) of a table that is read batch by batch; memory grows with the non-empty cells."""

from __future__ import annotations

import math
import re
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

_EXAMPLES = 3  # rows that a message names


class Entries:
    """The entries read so far. Each batch keeps its distinct leaves, and entries that refer to them."""

    def __init__(self, codebook: Codebook) -> None:
        self._book = codebook
        self._shape = tuple(len(labels) for labels in codebook.words.values())
        sizes = [math.prod(self._shape[i + 1 :]) for i in range(len(self._shape))]
        self._steps = dict(zip(codebook.attributes, sizes, strict=True))  # between cells with neighbouring labels
        self._paths: list[pa.Table] = []  # one row per distinct path of a batch, with its first row in the file
        # path in its batch, cell, count, row in the file
        self._parts: list[tuple[Integers, Integers, Integers, Integers]] = []
        self._named: list[pa.Table] = []  # distinct paths and names, where the codebook has columns of names
        self._rows_of: list[tuple[Integers, Integers, Integers]] = []  # wide: path, labels in the row, row in the file
        self._rows_read = 0
        self._wrong_totals, self._examples = 0, list[str]()  # rows whose total is not the sum of their cells
        self._parents_of: dict[str, Integers] = {}
        self.name = "the table"

    def add(self, batch: Batch) -> None:
        """Add the entries of a batch."""
        self.name = batch.name
        if batch.table.num_rows == 0:
            return
        rows = batch.rows
        self._rows_read += len(rows)
        if self._book.names:
            named = named_paths(batch, self._book)
            self._named.append(distinct(named, tuple(named.column_names))[1])
        paths = paths_of(batch, self._book).append_column("row", pa.array(rows))
        if self._book.row_per_unit:
            path, distinct_paths = np.arange(len(rows)), paths
        else:
            path, distinct_paths = distinct(paths, self._book.levels)
        if self._book.layout == "wide":
            row, cell, count = self._wide(batch, path)
            self._paths.append(distinct_paths)
            self._parts.append((path[row], cell, count, rows[row]))
            return
        cell, count = self._cells_of_rows(batch), self._counts(batch)
        if self._book.layout == "persons":  # add up at once: memory grows with cells, not with persons
            cells = math.prod(self._shape)
            key, count = np.unique(path * cells + cell, return_counts=True)
            (path, cell), rows = np.divmod(key, cells), np.zeros(len(key), dtype=np.int64)
        self._paths.append(distinct_paths)
        self._parts.append((path, cell, count, rows))

    def _counts(self, batch: Batch) -> Integers:
        """Long tables and tables of persons: the count of each row."""
        book = self._book
        if book.layout == "long" and book.count:
            return batch.counts(book.count)
        return np.ones(batch.table.num_rows, dtype=np.int64)

    def _cells_of_rows(self, batch: Batch) -> Integers:
        """The cell of each row; in a wide table the first cell with the labels in the row."""
        cell = np.zeros(batch.table.num_rows, dtype=np.int64)
        for name in self._book.in_rows:
            code = batch.labels(name, self._book.attributes[name], bands=self._book.bands.get(name, ()))
            cell += self._steps[name] * self._book.word_of_code(name)[code]
        return cell

    def _wide(self, batch: Batch, path: Integers) -> tuple[Integers, Integers, Integers]:
        """Wide tables: row, cell and count of the non-zero cells."""
        book = self._book
        table = np.stack([batch.counts(name) for name in wide_columns(book)], axis=1)
        self._compare_totals(batch, table.sum(axis=1))
        of_row, of_column = self._cells_of_rows(batch), np.zeros(1, dtype=np.int64)
        for name in book.in_columns:
            offsets = self._steps[name] * book.word_of_code(name)
            of_column = (of_column[:, None] + offsets).ravel()
        self._rows_of.append((path, of_row, batch.rows))
        rows, columns = np.nonzero(table)
        return rows.astype(np.int64), of_row[rows] + of_column[columns], table[rows, columns]

    def _compare_totals(self, batch: Batch, sums: Integers) -> None:
        """Remember the rows whose stated total is not the sum of their cells."""
        if self._book.total is not None:
            stated = batch.counts(self._book.total)
            wrong = np.flatnonzero(stated != sums)
            self._wrong_totals += len(wrong)
            self._examples += [
                f"row {batch.rows[row] + 1:,}, column {self._book.total!r}: {stated[row]:,}, "
                f"but the cells sum to {sums[row]:,}"
                for row in wrong[: _EXAMPLES - len(self._examples)]
            ]

    def refuse_wrong_totals(self) -> None:
        """Refuse a table in which totals differ from the sum of the cells: say how many, and name the first ones."""
        if self._wrong_totals:
            in_all = f" In all, {self._wrong_totals:,} of {self._rows_read:,} rows do not match."
            raise DataError(
                f"{self.name}, {'; '.join(self._examples)}.{in_all if self._wrong_totals > 1 else ''} "
                f"Correct the rows, or the columns that the codebook names."
            )

    def spine(self) -> Spine:
        """The spine of the units in the data."""
        if not self._paths:
            kept = "".join(f" with {column} = {value!r}" for column, value in self._book.where.items())
            raise DataError(f"{self.name}: no rows{kept}, so no units. Give a list of units, or correct the codebook.")
        paths = pa.concat_tables(self._paths)
        if not self._book.row_per_unit:
            _, paths = distinct(paths, self._book.levels)
        try:
            spine = spine_from_paths(paths, self._book)
            return with_names(spine, pa.concat_tables(self._named), self._book) if self._named else spine
        except InputError as problem:
            raise problem.located(self.name) from None

    def on(self, spine: Spine) -> tuple[Integers, Integers, Integers]:
        """Leaf, cell and count of each entry; repeated rows, and rows that contradict the spine, are errors."""
        none = np.zeros(0, dtype=np.int64)
        leaves_of = [self._leaves(paths, spine) for paths in self._paths]
        leaves = [leaf[path] for leaf, (path, _, _, _) in zip(leaves_of, self._parts, strict=True)]
        unit, cell, count, row = (
            np.concatenate([none, *arrays])
            for arrays in (leaves, *([part[i] for part in self._parts] for i in (1, 2, 3)))
        )
        if self._book.layout == "long":
            self._refuse_repeated(spine, unit, cell, row)
        if self._book.layout == "wide":
            self._refuse_repeated(spine, *self._wide_rows(leaves_of))
        return unit, cell, count

    def _wide_rows(self, leaves: list[Integers]) -> tuple[Integers, Integers, Integers]:
        """Wide tables: the leaf, the labels and the number of every row, with people or without."""
        none = np.zeros(0, dtype=np.int64)
        parts = [(leaf[path], cell, row) for leaf, (path, cell, row) in zip(leaves, self._rows_of, strict=True)]
        leaf, cell, row = (np.concatenate([none, *(part[i] for part in parts)]) for i in range(3))
        return leaf, cell, row

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
            if self._book.in_rows:
                entry += f" with {self._label(int(cell[first]))}"
            raise DataError(f"{entry} is in rows {row[first] + 1:,} and {row[second] + 1:,}. Add them up in one row.")

    def _label(self, cell: int) -> str:
        place = np.unravel_index(cell, self._shape)
        label_of = dict(zip(self._book.attributes, place, strict=True))
        return ", ".join(f"{name} {self._book.words[name][label_of[name]]!r}" for name in self._book.in_rows)


def wide_columns(codebook: Codebook) -> list[str]:
    """The names of the columns of counts of a wide table, one per combination of the labels in their names."""
    names = codebook.in_columns
    pattern = codebook.column or ""
    labels = product(*(codebook.attributes[name] for name in names))
    parts = re.split(r"\{(.*?)\}", pattern)  # text and names in turn; the names may be any text, so not str.format
    cells = (dict(zip(names, cell, strict=True)) for cell in labels)
    return ["".join(cell[part] if i % 2 else part for i, part in enumerate(parts)) for cell in cells]


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
