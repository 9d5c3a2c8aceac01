"""Reading microdata detail files (MDF): one compiled kernel counts the rows of all layouts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import compiled
from tallyveil.errors import DataError
from tallyveil.files.formats.census import PER_TYPE, VACANT
from tallyveil.files.formats.lines import PIECE_BYTES, Bytes, TextFile, quoted
from tallyveil.files.formats.mdf_layout import (
    BLOCK_GROUP,
    CODE,
    IGNORED,
    PERSONS,
    PLACE,
    UNIT_NUMBER,
    FileLayout,
    tables,
)
from tallyveil.files.formats.piecewise import STRIDE, PieceCounts, PlaceCounts, add_entry, count_pieces

LIVING = STRIDE - 1  # the cell in which numbers of persons are added up


def count_rows(
    source: TextFile,
    layout: FileLayout,
    *,
    units: Integers | None = None,
    note_units: bool = False,
    threads: int = 2,
    piece: int = PIECE_BYTES,
) -> Iterator[PieceCounts]:
    """Count the rows of a file by place and cell.

    With ``units`` (the key of each unit's place and kind, by its number; -1 for no unit) the type of a person's
    quarters comes from the unit. With ``note_units`` the numbers of units and their keys are returned, row by row.
    """
    names, separator, lines, begun = _read_head(source, layout)
    table = tables(names, layout)
    grouped = any(column.role == BLOCK_GROUP for column in layout.columns)
    known = np.empty(0, np.int64) if units is None else units

    def count(data: Bytes) -> PieceCounts:
        key, number, unit, unit_key, status = _count_rows(
            data, ord(separator), *table, grouped, layout.cell_of, known, note_units
        )
        return PieceCounts(counts=PlaceCounts(key=key, count=number), status=status, units=(unit, unit_key))

    def explain(line: bytes, _: bytes) -> str:
        fields = line.removesuffix(b"\n").removesuffix(b"\r").split(separator)
        if len(fields) != len(names):
            return (
                f" has {len(fields)} fields, but a row of {layout.what} has {len(names)}. It is truncated, or its "
                f"fields are not separated by {quoted(separator)}: correct the row, or fetch the file again."
            )
        return _explanation(dict(zip(names, fields, strict=True)), names, layout, known)

    return count_pieces(
        source, count, explain=explain, starts=b"\n", piece=piece, threads=threads, begun=begun, lines=lines
    )


def refuse_no_rows(path: str | os.PathLike[str], counts: PlaceCounts) -> None:
    """Refuse a file in which nothing was counted."""
    if len(counts.key) == 0:
        raise DataError(f"{path}: the file has no rows. Fetch it again, or name another.")


def _read_head(source: TextFile, layout: FileLayout) -> tuple[tuple[str, ...], bytes, int, bytes]:
    """The names of the columns, what separates them, the number of lines before the first row, and its beginning."""
    lines = 1
    while (line := source.readline()).startswith(b"#"):
        lines += 1
    start = line.removeprefix(b"\xef\xbb\xbf")
    if not any(column.name.encode() in start for column in layout.columns):
        if layout.header:
            raise DataError(
                f"{source.name}, line {lines:,}: the header is missing; it starts {quoted(start[:40])}. The first line "
                f"must name the columns: {layout.listed()}."
            )
        return layout.names, layout.separators[:1], lines - 1, start
    separator = bytes([max(layout.separators, key=start.count)])
    names = tuple(start.decode("ascii", "backslashreplace").rstrip("\r\n").split(separator.decode()))
    missing = [column.name for column in layout.columns if column.name not in names]
    if missing:
        raise DataError(
            f"{source.name}, line {lines:,}: the header has no column {', '.join(missing)}. A file of {layout.what} "
            f"has the columns {layout.listed()}."
        )
    if len(set(names)) != len(names):
        raise DataError(f"{source.name}, line {lines:,}: the header names a column twice. Name each column once.")
    return names, separator, lines, b""


def _explanation(value: Mapping[str, bytes], names: Sequence[str], layout: FileLayout, units: Integers) -> str:
    """What is wrong with the values of the row at which the kernel stopped."""
    for column in sorted(layout.columns, key=lambda column: names.index(column.name)):
        text, here = value[column.name], f", column {column.name}: {quoted(value[column.name])}"
        if not text.isdigit() or (column.width == 0 and len(text) > 9):
            return f"{here} is not a whole number of at most 9 digits. Correct the row."
        if column.width not in (0, len(text)):
            return f"{here} has {len(text)} digits, not {column.width}. Keep leading zeros."
        if column.codes is not None and int(text) not in column.codes:
            legal = sorted(column.codes)
            known = f"{legal[0]} to {legal[-1]}" if len(legal) > 10 else ", ".join(map(str, legal))
            return f"{here} is not a known code ({known}). Correct the row."
    coded = [column for column in layout.columns if column.codes is not None]
    codes = ", ".join(f"{c.name} {quoted(value[c.name])}" for c in layout.columns if c.role in (CODE, BLOCK_GROUP))
    if layout.cell_of[sum((column.codes or {})[int(value[column.name])] for column in coded)] < 0:
        return f": the codes contradict each other ({codes}). Correct the row."
    if len(units) == 0:
        return (
            f", column TABBLK: {quoted(value['TABBLK'])} does not begin with the block group's digit ({codes}). "
            f"Correct TABBLK or TABBLKGRPCE."
        )
    number = int(value["EUID"])
    unit = int(units[number]) if number < len(units) else -1
    place = int(b"".join(value[column.name] for column in layout.columns if column.role == PLACE))
    if unit < 0:
        why = "not a unit of the file of units"
    elif unit // STRIDE != place:
        why = "a unit of another place"
    elif unit % STRIDE == VACANT:
        why = "a vacant unit, where nobody can live"
    else:
        why = f"a unit of another kind than RTYPE says ({codes})"
    return f", column EUID: {quoted(value['EUID'])} is {why}. Give the two files of one run."


_HASH, _END, _RETURN = b"#\n\r"


@compiled
def _count_rows(data, separator, columns, adds, grouped, cell_of, units, note):  # type: ignore[no-untyped-def]
    """Count rows by place and cell; stop at the first wrong one."""
    n = len(data)
    room = n // len(columns) + 2  # a row has a byte for each field
    key, count = np.empty(2 * room, np.int64), np.empty(2 * room, np.int64)
    number, unit_key = np.empty(room * note, np.int64), np.empty(room * note, np.int64)
    latest, row, status = np.zeros(STRIDE, np.int64), np.zeros(PERSONS + 1, np.int64), np.zeros(3, np.int64)
    size, rows, at, one = np.int64(0), 0, np.int64(0), np.int64(1)  # typed, so that callees compile once
    while at < n:
        start = at
        status[0] += 1
        if data[at] == _HASH:
            while at < n and data[at] != _END:
                at += 1
            at += 1
            continue
        at, good = _read_row(data, at, separator, columns, adds, row)
        cell = _cell(row, grouped, cell_of, units) if good else -one
        if cell < 0:
            status[1], status[2] = start, min(at, n)
            break
        size = add_entry(key, count, size, latest, row[PLACE], cell, one)
        if row[PERSONS] > 0:
            size = add_entry(key, count, size, latest, row[PLACE], np.int64(LIVING), row[PERSONS])
        if note:
            number[rows], unit_key[rows] = row[UNIT_NUMBER], row[PLACE] * STRIDE + cell
            rows += 1
    return key[:size].copy(), count[:size].copy(), number[:rows], unit_key[:rows], status


@compiled
def _read_row(data, at, separator, columns, adds, row):  # type: ignore[no-untyped-def]
    """Read the fields of a row into ``row`` by role; returns where the next row starts and if this one is valid."""
    row[:] = 0
    n, field, good = len(data), 0, True
    value, size, plain = np.int64(0), 0, True
    while True:
        letter = data[at] if at < n else np.uint8(_END)
        at += 1
        if letter == _RETURN and (at >= n or data[at] == _END):
            continue
        if letter != separator and letter != _END:
            digit = np.int64(letter) - 48
            if digit < 0 or digit > 9:
                plain = False
            if size < 17:  # more are refused, and would not fit
                value = value * 10 + digit
            size += 1
            continue
        if field < len(columns) and columns[field, 0] != IGNORED:
            role, width, scale = columns[field, 0], columns[field, 1], columns[field, 2]
            if not plain or size == 0 or size != (width or min(size, 9)):
                good = False
            elif role != CODE:
                row[role] += value * scale
            elif value >= adds.shape[1] or adds[field, value] < 0:
                good = False
            else:
                row[CODE] += adds[field, value]
        field += 1
        value, size, plain = np.int64(0), 0, True
        if letter == _END:
            return at, good and field == len(columns)


@compiled
def _cell(row, grouped, cell_of, units):  # type: ignore[no-untyped-def]
    """The cell of a row, -1 where its parts do not fit together."""
    cell = np.int64(cell_of[row[CODE]])
    if cell < 0 or (grouped and row[PLACE] // 1000 % 10 != row[BLOCK_GROUP]):
        return np.int64(-1)
    if len(units) == 0:
        return cell
    unit = units[row[UNIT_NUMBER]] if row[UNIT_NUMBER] < len(units) else np.int64(-1)
    kind = unit % STRIDE
    if unit < 0 or unit // STRIDE != row[PLACE] or kind == VACANT or (kind > 0) != (cell >= PER_TYPE):
        return np.int64(-1)
    return kind * PER_TYPE + cell % PER_TYPE
