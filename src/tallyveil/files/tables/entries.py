"""Entries (leaf, cell, count) of a table that is read batch by batch; memory grows with the non-empty cells."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pyarrow as pa

from tallyveil._arrays import AnyIntegers, Integers
from tallyveil._memory import refuse_beyond_limit
from tallyveil._workers import workers_ahead
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
from tallyveil.nouns.codes import code_text, positions, rising
from tallyveil.nouns.spine import Spine

_EXAMPLES = 3  # rows that a message names
_IN_PARTS = (
    ", or give a Parquet file of several row groups in the order of the units, and a list of units: then it is read in "
    "parts"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """The entries of a batch: where each lies (a leaf, or a path of ``paths``), its cell, count and row in the file.

    ``labelled`` has the place, the labels and the number of every row of a wide table.
    """

    place: AnyIntegers
    cell: AnyIntegers
    count: AnyIntegers
    row: AnyIntegers | range
    paths: pa.Table | None
    named: pa.Table | None
    labelled: tuple[AnyIntegers, AnyIntegers, AnyIntegers] | None
    rows_read: int
    wrong_totals: int
    examples: tuple[str, ...]


class Entries:
    """The entries of a table. Without a spine each batch keeps its distinct paths, and entries that refer to them."""

    def __init__(self, codebook: Codebook, spine: Spine | None = None) -> None:
        self._book, self._spine = codebook, spine
        self._shape = tuple(len(labels) for labels in codebook.words.values())
        sizes = [math.prod(self._shape[i + 1 :]) for i in range(len(self._shape))]
        self._steps = dict(zip(codebook.attributes, sizes, strict=True))  # between cells with neighbouring labels
        self._parts: list[_Part] = []
        self._parents_of: dict[str, Integers] = {}
        self._rising: bool | None = None  # whether leaves are in the order of their codes
        self.name = "the table"

    def read(self, batches: Iterable[Batch]) -> None:
        """Add the entries of batches, several at a time."""
        with workers_ahead() as run:
            for part in run(self._part, batches):
                refuse_beyond_limit(f"reading {self.name}", _IN_PARTS)
                self._parts += [part] if part is not None else []
        self._refuse_wrong_totals()

    def forget(self) -> None:
        """Forget the entries read so far, but not what is known of the spine."""
        self._parts = []

    def _part(self, batch: Batch) -> _Part | None:
        """The entries of a batch, if it has rows."""
        book, batch = self._book, kept_rows(batch, self._book)
        self.name = batch.name
        if batch.table.num_rows == 0:
            return None
        named = named_paths(batch, book) if book.names else None
        paths = paths_of(batch, book).append_column("row", pa.array(batch.rows))
        place, paths = (np.arange(len(batch.rows)), paths) if book.row_per_unit else distinct(paths, book.levels)
        if self._spine is not None:
            place = self._leaves(paths, self._spine)[place]
        row: AnyIntegers | range = _numbers(batch.rows)
        wrong, examples, labelled = 0, list[str](), None
        if book.layout == "wide":
            in_batch, cell, count, of_row, wrong, examples = self._wide(batch)
            labelled = (_small(place), _small(of_row), batch.rows)
            place, row = place[in_batch], batch.rows[in_batch]
        else:
            cell, count = self._cells_of_rows(batch), self._counts(batch)
        if book.layout == "persons":  # add up at once: memory grows with cells, not with persons
            cells = math.prod(self._shape)
            key, count = np.unique(place * cells + cell, return_counts=True)
            (place, cell), row = np.divmod(key, cells), range(0)
        return _Part(
            place=_small(place),
            cell=_small(cell),
            count=_small(count),
            row=row,
            paths=paths if self._spine is None else None,
            named=distinct(named, tuple(named.column_names))[1] if named is not None else None,
            labelled=labelled,
            rows_read=len(batch.rows),
            wrong_totals=wrong,
            examples=tuple(examples),
        )

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

    def _wide(self, batch: Batch) -> tuple[Integers, Integers, Integers, Integers, int, list[str]]:
        """Wide tables: row, cell and count of the non-zero cells, the labels in each row, and wrong totals."""
        book = self._book
        table = np.stack([batch.counts(name) for name in wide_columns(book)], axis=1)
        wrong, examples = self._wrong_totals(batch, table.sum(axis=1))
        of_row, of_column = self._cells_of_rows(batch), np.zeros(1, dtype=np.int64)
        for name in book.in_columns:
            offsets = self._steps[name] * book.word_of_code(name)
            of_column = (of_column[:, None] + offsets).ravel()
        rows, columns = np.nonzero(table)
        return rows, of_row[rows] + of_column[columns], table[rows, columns], of_row, wrong, examples

    def _wrong_totals(self, batch: Batch, sums: Integers) -> tuple[int, list[str]]:
        """How many rows have a stated total that is not the sum of their cells, and the first of them."""
        if self._book.total is None:
            return 0, []
        stated = batch.counts(self._book.total)
        wrong = np.flatnonzero(stated != sums)
        return len(wrong), [
            f"row {batch.rows[row] + 1:,}, column {self._book.total!r}: {stated[row]:,}, "
            f"but the cells sum to {sums[row]:,}"
            for row in wrong[:_EXAMPLES]
        ]

    def _refuse_wrong_totals(self) -> None:
        """Refuse a table in which totals differ from the sum of the cells: say how many, and name the first ones."""
        wrong = sum(part.wrong_totals for part in self._parts)
        if wrong:
            rows_read = sum(part.rows_read for part in self._parts)
            examples = [text for part in self._parts for text in part.examples][:_EXAMPLES]
            in_all = f" In all, {wrong:,} of {rows_read:,} rows do not match."
            raise DataError(
                f"{self.name}, {'; '.join(examples)}.{in_all if wrong > 1 else ''} "
                f"Correct the rows, or the columns that the codebook names."
            )

    def spine(self) -> Spine:
        """The spine of the units in the data."""
        if not self._parts:
            kept = "".join(f" with {column} = {value!r}" for column, value in self._book.where.items())
            raise DataError(f"{self.name}: no rows{kept}, so no units. Give a list of units, or correct the codebook.")
        paths = pa.concat_tables([part.paths for part in self._parts if part.paths is not None])
        if not self._book.row_per_unit:
            _, paths = distinct(paths, self._book.levels)
        named = [part.named for part in self._parts if part.named is not None]
        try:
            spine = spine_from_paths(paths, self._book)
            return with_names(spine, pa.concat_tables(named), self._book) if named else spine
        except InputError as problem:
            raise problem.located(self.name) from None

    def on(self, spine: Spine) -> tuple[AnyIntegers, AnyIntegers, AnyIntegers]:
        """Leaf, cell and count of each entry; repeated rows, and rows that contradict the spine, are errors."""
        self._parts = [self._placed(part, spine) for part in self._parts]
        parts = self._parts
        unit = _joined([part.place for part in parts])
        cell = _joined([part.cell for part in parts])
        if self._book.layout == "long":
            self._refuse_repeated(spine, unit, cell, [part.row for part in parts])
        if self._book.layout == "wide":
            rows = [part.labelled for part in parts if part.labelled is not None]
            leaf, labels = (_joined([row[i] for row in rows]) for i in (0, 1))
            self._refuse_repeated(spine, leaf, labels, [row[2] for row in rows])
        return unit, cell, _joined([part.count for part in parts])

    def _placed(self, part: _Part, spine: Spine) -> _Part:
        """The part with leaves of the spine instead of its own paths."""
        if part.paths is None:
            return part
        leaf = _small(self._leaves(part.paths, spine))
        labelled = part.labelled and (leaf[part.labelled[0]], *part.labelled[1:])
        return replace(part, place=leaf[part.place], labelled=labelled, paths=None)

    def _leaves(self, paths: pa.Table, spine: Spine) -> Integers:
        """The leaves of paths; codes of coarser levels must agree with the spine."""
        try:
            return self._checked_leaves(paths, spine)
        except InputError as problem:
            raise problem.located(self.name) from None

    def _checked_leaves(self, paths: pa.Table, spine: Spine) -> Integers:
        levels = self._book.levels
        leaf = place = _located(spine, paths, self._book, in_order=self._in_order(spine))
        for below, level in zip(reversed(levels[1:]), reversed(levels[:-1]), strict=True):
            place = self._parents(spine, below)[place]
            rows = _changes(place, paths.column(level))  # the same code for the same unit need not be compared again
            stated, right = codes_of(paths.column(level).take(pa.array(rows))), spine.own_codes(level)[place[rows]]
            if (stated != right).any():
                wrong = int(np.argmax(stated != right))
                row = int(rows[wrong])
                raise DataError(
                    f"row {paths.column('row')[row].as_py() + 1:,}: {levels[-1]} "
                    f"{paths.column(levels[-1])[row].as_py()!r} is in {level} {right[wrong].decode()!r} by the list of "
                    f"units, but in {stated[wrong].decode()!r} here. Correct one."
                )
        return leaf

    def _in_order(self, spine: Spine) -> bool:
        if self._rising is None:
            self._rising = rising(spine.codes[-1])
        return self._rising

    def _parents(self, spine: Spine, level: str) -> Integers:
        if level not in self._parents_of:
            self._parents_of[level] = spine.parents(level)
        return self._parents_of[level]

    def _refuse_repeated(
        self, spine: Spine, unit: AnyIntegers, cell: AnyIntegers, rows: list[AnyIntegers | range]
    ) -> None:
        cells = math.prod(self._shape)
        if _ascending(unit, cell, cells):
            return
        if repeated := repeated_rows(unit.astype(np.int64) * cells + cell):
            place = int(repeated[0])
            first, second = (_row(rows, which) + 1 for which in repeated)
            entry = f"{spine.leaf} {unit_code(spine, spine.leaf, int(unit[place]))!r}"
            if self._book.in_rows:
                entry += f" with {self._label(int(cell[place]))}"
            one_each = 'If each row is one person, draft with --persons (layout = "persons"). Otherwise add '
            remedy = one_each if self._book.layout == "long" else "Add "
            raise DataError(f"{entry} is in rows {first:,} and {second:,}. {remedy}them up in one row.")

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


def labels_in(name: str, codebook: Codebook) -> dict[str, str]:
    """The labels in the name of a column that has the form of the pattern, known or not; nothing in other names."""
    parts = re.split(r"\{(.*?)\}", codebook.column or "")
    pattern = "".join("(.+?)" if i % 2 else re.escape(part) for i, part in enumerate(parts))
    found = re.fullmatch(pattern, name)
    return {} if found is None else dict(zip(parts[1::2], found.groups(), strict=True))


def kept_rows(batch: Batch, book: Codebook) -> Batch:
    """The rows that the codebook keeps."""
    for column, value in book.where.items():
        batch = batch.where(column, str(value))
    return batch


def _small(numbers: AnyIntegers) -> AnyIntegers:
    """Numbers that are 0 or more, in 32 bits if they fit."""
    return numbers.astype(np.int32) if numbers.max(initial=0) < 1 << 31 else numbers


def _joined(arrays: list[AnyIntegers]) -> AnyIntegers:
    return np.concatenate([np.zeros(0, dtype=np.int32), *arrays])


def _numbers(rows: Integers) -> AnyIntegers | range:
    """The numbers of rows that rise; a range if none is left out."""
    first, last = int(rows[0]), int(rows[-1])
    return range(first, last + 1) if last - first + 1 == len(rows) else rows


def _row(parts: list[AnyIntegers | range], which: int) -> int:
    """The number of one of the rows of all parts."""
    for rows in parts:
        if which < len(rows):
            return int(rows[which])
        which -= len(rows)
    raise IndexError(which)


def _ascending(unit: AnyIntegers, cell: AnyIntegers, cells: int, size: int = 1 << 22) -> bool:
    """Whether entries rise by unit and cell, as in most tables: then none is repeated."""
    for first in range(0, len(unit), size):
        some = slice(first, first + size + 1)  # one more, to compare with the next piece
        if (np.diff(unit[some].astype(np.int64) * cells + cell[some]) <= 0).any():
            return False
    return True


def _changes(place: Integers, column: pa.ChunkedArray) -> Integers:
    """The rows in which the unit or the text differs from the row before; all rows of a column of plain text."""
    if column.num_chunks != 1 or not pa.types.is_dictionary(column.type):
        return np.arange(len(place))
    code = column.chunk(0).indices.to_numpy()
    return np.flatnonzero(np.diff(place, prepend=-1) | np.diff(code, prepend=-1))


def _located(spine: Spine, paths: pa.Table, book: Codebook, *, in_order: bool) -> Integers:
    if book.levels[-1] != spine.leaf or not set(spine.column_levels) <= set(book.levels):
        raise DataError(
            f"the codebook has the levels {', '.join(book.levels)}, but the units have "
            f"{', '.join(spine.column_levels)}. Read both with one codebook."
        )
    codes = spine.leaf_codes({level: codes_of(paths.column(level)) for level in book.levels})
    position = positions(spine.codes[-1], codes, in_order=in_order)
    if (position < 0).any():
        unknown = int(np.argmax(position < 0))
        row, code = paths.column("row")[unknown].as_py(), code_text(codes[unknown])
        raise UnknownUnitError(
            f"row {row + 1:,}: {spine.leaf} {code!r} is not in the list of units. Add it there, or correct the row.",
            row=row,
            code=code,
        )
    return position
