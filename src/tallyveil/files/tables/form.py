"""How the rows of an untidy file become a table: titles, names in several rows, notes, totals, merged cells.

Statistical offices write tables for readers, not for programs. A ``FileForm`` says which rows do not belong to the
table, so that nobody needs to prepare the file by hand.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallyveil._frozen import Frozen
from tallyveil.errors import DataError
from tallyveil.files.tables.columns import Batch, decoded

THOUSANDS = (".", ",", " ", "'")
BETWEEN = ": "  # between the parts of a name that stands in several rows
_ROWS = 1 << 16  # rows of a piece
SHOWN = 12  # columns that a message lists
Row = Sequence[str]


@final
@dataclass(frozen=True, kw_only=True)
class FileForm:
    """The form of a file. Rows without any value are skipped and never counted.

    Attributes
    ----------
    encoding
        The encoding of a text file that is not UTF-8, such as ``"cp1252"`` (Windows).
    title_rows, note_rows
        The number of rows above the names of columns and below the table.
    header_rows
        The number of rows with names of columns, which are joined by ``": "``. A name above several columns (a merged
        cell) holds for all of them.
    fill_down
        Columns whose empty cells have the value above them, as merged cells do.
    total_rows
        Rows that only repeat people of other rows: for a column, the values that mark them.
    thousands
        The separator of thousands in counts: a dot, a comma, a space or an apostrophe; ``""`` says that dots are
        decimal points.
    zeros
        Texts that stand for 0 in counts, such as ``"-"``; ``""`` is an empty cell.
    strip
        Whether spaces around values are removed.
    cells, counts
        The columns in which each row of the table has a value, with the labels in them if they are known, and whether
        it also has a count. The codebook says so, because no such row may be left out as a title or a note.
    """

    encoding: str | None = None
    title_rows: int = 0
    header_rows: int = 1
    note_rows: int = 0
    fill_down: tuple[str, ...] = ()
    total_rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    thousands: str | None = None
    zeros: tuple[str, ...] = ()
    strip: bool = False
    cells: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False, repr=False)
    counts: bool = field(default=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fill_down", tuple(self.fill_down))
        object.__setattr__(self, "zeros", tuple(self.zeros))
        object.__setattr__(self, "total_rows", Frozen(self.total_rows))
        for name, least in (("title_rows", 0), ("header_rows", 1), ("note_rows", 0)):
            if getattr(self, name) < least:
                raise DataError(f"[file] {name} must be {least} or more. Got {getattr(self, name)} instead.")
        if self.thousands and self.thousands not in THOUSANDS:
            known = ", ".join(f'"{mark}"' for mark in (*THOUSANDS, ""))
            raise DataError(f"[file] thousands must be one of {known}. Got {self.thousands!r} instead.")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise DataError(f'[file] encoding {self.encoding!r} is unknown. Use "cp1252", for example.') from None

    @property
    def names_first(self) -> bool:
        """Whether the first row has the names of columns, and all others belong to the table."""
        return (self.title_rows, self.header_rows, self.note_rows) == (0, 1, 0)


PLAIN = FileForm()


def table_of_rows(rows: Iterator[Row], form: FileForm, name: str) -> Iterator[pa.RecordBatch]:
    """The table that rows of text hold, in pieces."""
    filled = (row for row in rows if is_filled(row))
    titles = list(islice(filled, form.title_rows))
    names = joined_names(list(islice(filled, form.header_rows)))
    while names and not names[-1]:
        names.pop()
    _refuse_titles_of_table(titles, names, form, name)
    kept = [i for i, column in enumerate(names) if column]
    schema = pa.schema([(names[i], pa.string()) for i in kept])
    notes: deque[Row] = deque()
    any_rows, body = False, _without_last(filled, form.note_rows, notes)
    while piece := list(islice(body, _ROWS)):
        if any(value for row in piece for i, value in enumerate(row) if i >= len(names) or not names[i]):
            raise DataError(
                f"{name}: a column has values but no name in the header. Name or delete it; if names stand in several "
                f"rows, write [file] header_rows = 2 in the codebook."
            )
        any_rows = True
        columns = [pa.array([row[i] if i < len(row) else "" for row in piece], pa.string()) for i in kept]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
    if not any_rows:
        yield pa.RecordBatch.from_pylist([], schema=schema)
    _refuse_rows_of_table(notes, names, form, name)


def joined_names(header: Sequence[Row]) -> list[str]:
    """The names of columns that stand in one row or several.

    >>> joined_names([["ward", "men", "", "all"], ["", "0-14", "15+", ""]])
    ['ward', 'men: 0-14', 'men: 15+', 'all']
    """
    width = max(map(len, header), default=0)
    parts: list[list[str]] = [[] for _ in range(width)]
    for depth, row in enumerate(header):
        last = ""
        for i, cell in enumerate([*map(str.strip, row), *[""] * (width - len(row))]):
            is_above = any(i < len(below) and below[i].strip() for below in header[depth + 1 :])
            last = cell or (last if is_above else "")
            if last:
                parts[i].append(last)
    return [BETWEEN.join(part) for part in parts]


def is_filled(row: Row) -> bool:
    """Whether a row has any value."""
    return any(cell and not cell.isspace() for cell in row)


def formed(pieces: Iterator[Batch], form: FileForm) -> Iterator[Batch]:
    """The batches of a table with empty cells filled from above, and then without rows of totals."""
    above: dict[str, str] = {}
    if both := [column for column in form.fill_down if "" in form.total_rows.get(column, ())]:
        raise DataError(
            f"[file] total_rows marks the empty cells of column {both[0]!r}, but fill_down gives them the value above. "
            f"Remove the column from one of them."
        )
    for batch in pieces:
        _refuse_missing(batch, (*form.total_rows, *form.fill_down))
        if form.strip:
            batch = replace(batch, table=_stripped(batch.table))
        for column in form.fill_down:  # first, because a merged cell of a total holds for all of its rows
            batch = _filled_down(batch, column, above)
        if form.total_rows:
            batch = batch.filtered(pa.array(~total_rows(batch.table, form.total_rows)))
        yield replace(batch, thousands=form.thousands, zeros=form.zeros)


def total_rows(table: pa.Table, marks: Mapping[str, Sequence[str]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows have a value in a column that marks totals."""
    found = np.zeros(table.num_rows, dtype=np.bool_)
    for column, values in marks.items():
        texts = pc.utf8_trim_whitespace(decoded(table.column(column)).cast(pa.string()))
        found |= pc.fill_null(pc.is_in(texts, pa.array(values, pa.string())), False).to_numpy()
    return found


def _stripped(table: pa.Table) -> pa.Table:
    """A table in which no text has spaces around it."""
    columns = [decoded(column) for column in table.columns]
    texts = [pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column for column in columns]
    return pa.table(texts, names=table.column_names)


def _filled_down(batch: Batch, column: str, above: dict[str, str]) -> Batch:
    """A batch in which empty cells of a column have the value above, which may be in the batch before."""
    texts = pc.utf8_trim_whitespace(decoded(batch.table.column(column)).cast(pa.string()))
    given = pc.if_else(pc.equal(texts, ""), None, texts).combine_chunks()
    given = pc.fill_null_forward(pa.concat_arrays([pa.array([above.get(column)], pa.string()), given]))[1:]
    if len(given) and given[-1].is_valid:
        above[column] = given[-1].as_py()
    place = batch.table.column_names.index(column)
    return replace(batch, table=batch.table.set_column(place, column, pc.fill_null(given, "")))


def _without_last(rows: Iterator[Row], number: int, waiting: deque[Row]) -> Iterator[Row]:
    """All rows but the last ones, which stay in ``waiting``."""
    waiting.extend(islice(rows, number))
    for row in rows:
        waiting.append(row)
        yield waiting.popleft()


def _refuse_titles_of_table(titles: Sequence[Row], names: Sequence[str], form: FileForm, name: str) -> None:
    """Refuse rows left out as titles with the names of all columns, below which people may be, or with a person."""
    starts = range(len(titles) if form.cells and names else 0)
    again = any(set(names) <= {*joined_names(titles[i : i + form.header_rows]), ""} for i in starts)
    labels = {column: known for column, known in form.cells.items() if known and not form.counts}
    rows = _rows_of_table(titles, names, form) if labels else ()
    if again or any(all(row[column] in known for column, known in labels.items()) for row in rows):
        found = "the names of the columns are" if again else "a row of the table is"
        raise DataError(
            f"{name}: {found} among the first {len(titles)} rows, which [file] title_rows leaves out. Correct "
            f"title_rows, or remove the rows above the names of columns."
        )


def _rows_of_table(rows: Sequence[Row], names: Sequence[str], form: FileForm) -> list[dict[str, str]]:
    """The rows that have a value in all columns in which each row of the table has one."""
    named = [dict(zip(names, map(str.strip, row), strict=False)) for row in rows if form.cells]
    return [row for row in named if all(row.get(column) for column in form.cells)]


def _refuse_rows_of_table(notes: Sequence[Row], names: Sequence[str], form: FileForm, name: str) -> None:
    """Refuse rows that are left out as notes but have all that a row of the table has."""
    rows = _rows_of_table(notes, names, form)
    if form.counts:
        rows = [row for row in rows if any(row[column][:1].isdigit() for column in row.keys() - set(form.cells))]
    if rows:
        raise DataError(
            f"{name}: {len(rows)} of the last {len(notes)} rows, which [file] note_rows leaves out, "
            f"have what a row of the table has. Correct note_rows; if they are totals, mark them in [file] total_rows."
        )


def _refuse_missing(batch: Batch, columns: Sequence[str]) -> None:
    """Refuse a table without the columns that its form names."""
    missing = [column for column in columns if column not in batch.table.column_names]
    if missing:
        there = ", ".join(batch.table.column_names[:SHOWN])
        more = ", ..." if len(batch.table.column_names) > SHOWN else ""
        raise DataError(
            f"{batch.name}: no column {missing[0]!r}, which [file] in the codebook names. The columns are "
            f"{there}{more}. Give the table that the codebook describes, or correct the codebook."
        )
