"""The form of an untidy file: which rows are titles, names of columns, notes and totals, and which cells are merged."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow as pa

from tallyveil._arrays import Bools
from tallyveil.files.tables.draft.encodings import Encoding, likely_encoding
from tallyveil.files.tables.draft.notes import Note
from tallyveil.files.tables.draft.sums import Totals, find_totals, marked_rows
from tallyveil.files.tables.draft.view import Column, View
from tallyveil.files.tables.draft.words import says_total
from tallyveil.files.tables.excel import is_workbook, sheet_rows
from tallyveil.files.tables.form import PLAIN, FileForm, Row, is_filled, joined_names
from tallyveil.files.tables.sources import is_parquet, text_rows

_LOOKED_AT = 60  # rows at the start and at the end of a file
_MOST_BYTES = 1 << 26  # of a text file; in larger ones only the start is looked at
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,'\s\u00a0\u202f]*%?")


def form_of_file(path: Path, sheet: str | None, asked: str | None = None) -> tuple[FileForm, list[Note]]:
    """Where the table in a file begins and ends, and its encoding, unless the user asks for one."""
    if is_parquet(path):
        return PLAIN, []
    found, whole = (None, True) if is_workbook(path) else _encoding(path)
    encoding = asked or (found.name if found else None)
    rows = sheet_rows(path, sheet) if is_workbook(path) else text_rows(path, encoding)
    try:
        form = _form_of_rows(*_ends(rows, whole=whole), found_alone=is_workbook(path))
    except (csv.Error, UnicodeDecodeError, OSError, pa.ArrowException):  # the reader says what is wrong
        return PLAIN, []
    words = {
        "encoding": _on_encoding(found) if found and not asked else "as asked for",
        "title_rows": "rows above the names of columns",
        "header_rows": 'rows with names of columns; a name has their parts, joined by ": "',
        "note_rows": "rows below the table",
    }
    form = replace(form, encoding=encoding)
    stated = [name for name in words if getattr(form, name) != getattr(PLAIN, name)]
    return form, [Note(field=("file", name), text=words[name] or "") for name in stated]


def form_of_table(view: View, form: FileForm, *, totals: bool = True) -> tuple[FileForm, list[Note], Totals]:
    """Which rows of a table are totals of others, and which cells are empty because the value above holds for them."""
    found = find_totals(view) if totals else Totals(marks={})
    strip = any(column.has_outer_spaces for column in view.columns.values())
    kept = ~marked_rows(view, found.marks)
    down = _merged(list(view.columns.values()), kept) if totals else ()  # in a table of people, rows stand alone
    if down:  # what sums are of shows only when each row has all of its labels
        columns = {n: c.filled_down() if n in down else c for n, c in view.columns.items()}
        found = find_totals(replace(view, columns=columns))
        down = _merged(list(view.columns.values()), ~marked_rows(view, found.marks))
    marks = found.marks
    notes = []
    if marks:
        words = "rows that only repeat people of other rows, so they are left out"
        notes.append(Note(field=("file", "total_rows"), text=words))
    if down:
        notes.append(Note(field=("file", "fill_down"), text="empty cells have the value above, as in merged cells"))
    if strip:
        words = "some values differ only in the spaces around them, which are removed"
        notes.append(Note(field=("file", "strip"), text=words))
    return replace(form, total_rows=marks, fill_down=down, strip=strip), notes, found


def _on_encoding(found: Encoding) -> str:
    shown = f"not UTF-8; read as {found.name}, which gives words such as {found.word!r}" if found.word else "not UTF-8"
    return shown + ("" if found.is_sure else ". If letters are wrong, draft again with --encoding NAME")


def _encoding(path: Path) -> tuple[Encoding | None, bool]:
    """The encoding of a text file if it is not UTF-8, and whether all of the file was looked at."""
    with pa.input_stream(str(path)) as file:
        content = file.read(_MOST_BYTES)
    return likely_encoding(content, whole=len(content) < _MOST_BYTES), len(content) < _MOST_BYTES


def _ends(rows: Iterator[Row], *, whole: bool) -> tuple[list[Row], list[Row], int]:
    """The first and the last rows that hold anything, and the number of all of them."""
    filled = enumerate((row for row in rows if is_filled(row)), start=1)
    head = list(islice(filled, _LOOKED_AT))
    ends = [*head, *deque(filled, maxlen=_LOOKED_AT)] if whole else head[:1]
    return [row for _, row in head], [row for _, row in ends], ends[-1][0] if ends else 0


def _form_of_rows(head: list[Row], tail: list[Row], rows: int, *, found_alone: bool) -> FileForm:
    """The form by the first and last rows; ``found_alone`` says that the reader skips titles of one value by itself."""
    sizes = sorted(map(_size, head[len(head) // 2 :]))
    typical = sizes[9 * len(sizes) // 10] if sizes else 0
    if typical < 2:
        return PLAIN
    first = next((i for i, row in enumerate(head[:-1]) if not _is_title(row, head[i + 1], typical)), 0)
    names = next((rows for rows in (1, 2, 3) if _are_names(head, first, rows)), 1)
    below = enumerate(reversed(tail))
    above = rows - first - names - 1  # the rows of the table above its last one
    notes = next((i for i, row in below if not (_is_note(row, typical) or _is_tally(row, typical, above - i))), 0)
    alone = next((i for i, row in enumerate(head) if _size(row) > 1), 0)
    title_rows = 0 if found_alone and first == alone else first
    return FileForm(title_rows=title_rows, header_rows=names, note_rows=min(notes, len(tail) - first - names - 1))


def _size(row: Row) -> int:
    return sum(bool(cell.strip()) for cell in row)


def _is_title(row: Row, below: Row, typical: int) -> bool:
    """Whether a row above the table is a title: one value, or a sentence that its commas have split."""
    size = _size(row)
    return size < 2 or (size < 0.6 * typical and _is_to_the_left(row) and bool(below[0].strip()))


def _is_note(row: Row, typical: int) -> bool:
    """Whether a row below the table is a note on it."""
    size = _size(row)
    short = size < 0.6 * typical and _is_to_the_left(row) and not any(map(_is_number, row))
    return typical > 2 and (size == 1 or short)


def _is_tally(row: Row, typical: int, above: int) -> bool:
    """Whether a row below the table has few values, of which one says that it is a total and one is the rows above."""
    tallied = any(_is_number(cell) and re.sub(r"\D", "", cell) == str(above) for cell in row)
    return _size(row) < 0.6 * typical and tallied and any(map(says_total, row))


def _is_to_the_left(row: Row) -> bool:
    """Whether all values of a row come before its empty cells."""
    return all(cell.strip() for cell in row[: _size(row)])


def _are_names(head: list[Row], first: int, rows: int) -> bool:
    """Whether this many rows are the names of all columns, and the row below them belongs to the table."""
    header, body = head[first : first + rows], head[first + rows :]
    names = joined_names(header)
    used = [i for i in range(max(map(len, body), default=0)) if any(i < len(row) and row[i].strip() for row in body)]
    named = [names[i] if i < len(names) else "" for i in used]
    is_data = rows > 1 and bool(header[-1][0].strip()) and any(map(_is_number, header[-1]))
    return all(named) and len(set(named)) == len(named) and not is_data and not _continues(body[0] if body else [])


def _continues(row: Row) -> bool:
    """Whether a row below names of columns goes on with them: it has no first value, and no numbers."""
    return is_filled(row) and not row[0].strip() and not any(map(_is_number, row))


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell.strip()) is not None


def _merged(columns: Sequence[Column], kept: Bools) -> tuple[str, ...]:
    """The first columns if their empty cells are merged ones: a new value of one begins a new value of the next."""
    found: list[str] = []
    before: Bools | None = None
    for column in columns[:-1]:
        filled = ~column.empty[column.of_row][kept]
        nested = before is None or not (before & ~filled).any()
        if filled.all() or not len(filled) or not filled[0] or not nested:
            break
        if before is None and (filled.mean() > 0.7 or column.taken(kept).size < 0.8 * filled.sum()):
            break
        found.append(column.name)
        before = filled
    return tuple(found)
