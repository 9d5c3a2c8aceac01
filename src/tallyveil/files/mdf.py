"""Microdata detail files (MDF): persons and units as the Census Bureau writes them, one row each, fields cut by ``|``.

What the files of 1940 and 2020 share: a layout says which columns name the place, which are codes of a cell, and which
number a unit; one compiled kernel counts the rows of any layout, another writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.files.fixed_width import PIECE, Bytes, Found, Integers, Source, Tally, Wrong, counted, in_order, shown

IGNORED, PLACE, CODE, BLOCK_GROUP, UNIT_NUMBER, PERSONS = range(6)  # what a column is for
FIELDS, NOT_DIGITS, WIDTH, ILLEGAL, TOGETHER, OUTSIDE, NO_UNIT, ELSEWHERE, VACANT, OTHER_KIND = range(1, 11)
LARGEST = 200  # codes are below this
ROWS = 1 << 18  # rows written at a time


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column that is read.

    Attributes
    ----------
    width
        How many digits it has, 0 where any number will do.
    codes
        What each code adds to the number of the row's combination of codes.
    """

    name: str
    role: int = CODE
    width: int = 0
    codes: Mapping[int, int] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """The columns of a file.

    Attributes
    ----------
    what
        What a row is, for messages: ``"persons"``.
    names
        All columns in order.
    columns
        Those that are read.
    cell_of
        The cell of each combination of codes, -1 where the codes contradict each other.
    cells
        How many cells there are.
    header
        Whether a header line is needed.
    """

    what: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    cell_of: NDArray[np.int32]
    cells: int
    header: bool

    @property
    def stride(self) -> int:
        """Keys are the code of the place times this, plus the cell; the last cell is for numbers of persons."""
        return self.cells + 1


def count_rows(
    source: Source,
    layout: Layout,
    *,
    units: Integers | None = None,
    note_units: bool = False,
    threads: int = 2,
    piece: int = PIECE,
) -> Iterator[Found]:
    """Count the rows of a file by place and cell.

    With ``units`` (place times 16 plus type, by unit number; -1 for no unit) the type of a person's quarters comes
    from the unit; with ``note_units`` the numbers of units and these values are given back row by row.
    """
    names, lines = _read_head(source, layout)
    column_of = {name: i for i, name in enumerate(names)}
    shape = len(names)
    role, width, scale = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    table = np.full((shape, LARGEST), -1, np.int32)
    ten = 1
    for column in reversed(layout.columns):
        at = column_of[column.name]
        role[at], width[at] = column.role, column.width
        if column.role == PLACE:
            scale[at], ten = ten, ten * 10**column.width
        for code, adds in (column.codes or {}).items():
            table[at, code] = adds
    mode = 2 if units is not None else int(note_units)
    looked_up = np.empty(0, np.int64) if units is None else units

    def count(data: Bytes) -> Found:
        key, number, unit, place, status = _count_rows(
            data, role, width, scale, table, layout.cell_of, layout.cells, looked_up, mode
        )
        wrong = None
        if status[1]:
            wrong = Wrong(kind=status[1], field=status[2], first=status[3], last=status[4], note=status[5])
        return Found(tally=Tally(key=key, count=number), lines=int(status[0]), wrong=wrong, rows=(unit, place))

    def explain(line: bytes, at: int, wrong: Wrong) -> InputError:
        return InputError(f"{source.name}, line {at:,}{_explanation(line, wrong, names, layout)}")

    return counted(source, count, explain=explain, starts=b"\n", piece=piece, threads=threads, lines=lines)


def write_rows(
    make: Callable[[int, int], tuple[Bytes, Integers, Integers, Integers, Integers]],
    total: int,
    *,
    middles: Sequence[bytes],
    tails: Sequence[bytes],
) -> Iterator[memoryview]:
    """The rows of a file in pieces.

    ``make(first, last)`` gives the table of heads, then for each row its head, its cell and two numbers. A row is its
    head, the first number, the cell's middle, the second number and the cell's tail; negative numbers are left out.
    """
    middle, tail = _texts(middles), _texts(tails)

    def render(span: tuple[int, int]) -> memoryview:
        head, which, cell, one, two = make(*span)
        room = len(which) * (head.shape[1] + middle[0].shape[1] + tail[0].shape[1] + 40)
        out = np.empty(room, np.uint8)
        return out[: _render_rows(head, which, cell, one, two, *middle, *tail, out)].data

    spans = ((first, min(first + ROWS, total)) for first in range(0, total, ROWS))
    for _, piece in in_order(render, spans, 2):
        yield piece


def heads(prefix: bytes, places: Bytes, cuts: Sequence[slice]) -> Bytes:
    """The beginning of a unit's rows: the prefix, and the parts of its code, each closed by ``|``."""
    bar = np.full((len(places), 1), ord("|"), np.uint8)
    parts = [np.broadcast_to(np.frombuffer(prefix, np.uint8), (len(places), len(prefix)))]
    for cut in cuts:
        parts += [places[:, cut], bar]
    return np.ascontiguousarray(np.hstack(parts))


def spread(ends: Integers, first: int, last: int) -> Integers:
    """Which run each of the items ``first`` to ``last`` is in; run ``r`` holds the items from ends[r] to ends[r + 1].

    >>> spread(np.array([0, 2, 2, 5]), 1, 4).tolist()
    [0, 2, 2]
    """
    low, high = int(np.searchsorted(ends, first, side="right")) - 1, int(np.searchsorted(ends, last))
    sizes = np.minimum(ends[low + 1 : high + 1], last) - np.maximum(ends[low:high], first)
    return np.repeat(np.arange(low, high, dtype=np.int64), sizes)


def _read_head(source: Source, layout: Layout) -> tuple[tuple[str, ...], int]:
    """The names of the columns, and the number of lines before the first row."""
    lines = 1
    while (line := source.readline()).startswith(b"#"):
        lines += 1
    start = line.removeprefix(b"\xef\xbb\xbf")
    if not any(column.name.encode() in start for column in layout.columns):
        if layout.header:
            raise InputError(
                f"{source.name}, line {lines:,}: the header is missing; it starts {shown(start[:40])}. The first line "
                f"must name the columns: {'|'.join(layout.names)}."
            )
        source.put_back(start)
        return layout.names, lines - 1
    names = tuple(start.decode("ascii", "backslashreplace").rstrip("\r\n").split("|"))
    missing = [column.name for column in layout.columns if column.name not in names]
    if missing:
        raise InputError(
            f"{source.name}, line {lines:,}: the header has no column {', '.join(missing)}. A file of {layout.what} "
            f"has the columns {'|'.join(layout.names)}."
        )
    if len(set(names)) != len(names):
        raise InputError(f"{source.name}, line {lines:,}: the header names a column twice. Name each column once.")
    return names, lines


def _explanation(line: bytes, wrong: Wrong, names: Sequence[str], layout: Layout) -> str:
    """What is wrong with a row, from the numbers of the kernel."""
    fields = line.rstrip(b"\r\n").split(b"|")
    if wrong.kind == FIELDS:
        return (
            f" has {len(fields)} fields, but a row of {layout.what} has {len(names)}. It is cut short, or cut by "
            f"something else than '|': correct the row, or fetch the file again."
        )
    by_name = {column.name: column for column in layout.columns}
    values = dict(zip(names, fields, strict=True))
    codes = ", ".join(f"{c.name} {shown(values[c.name])}" for c in layout.columns if c.role in (CODE, BLOCK_GROUP))
    name = names[wrong.field]
    here = f", column {name}: {shown(values[name])}"
    if wrong.kind == NOT_DIGITS:
        return f"{here} is not a whole number of at most 9 digits. Correct the row."
    if wrong.kind == WIDTH:
        return f"{here} has {len(values[name])} digits, not {by_name[name].width}. Keep leading zeros."
    if wrong.kind == ILLEGAL:
        legal = sorted(by_name[name].codes or {})
        known = f"{legal[0]} to {legal[-1]}" if len(legal) > 10 else ", ".join(map(str, legal))
        return f"{here} is not a known code ({known}). Correct the row."
    if wrong.kind == OUTSIDE:
        return f"{here} does not begin with the block group's digit ({codes}). Correct TABBLK or TABBLKGRPCE."
    if wrong.kind == TOGETHER:
        return f": the codes contradict each other ({codes}). Correct the row."
    unit = f", column EUID: {shown(values.get('EUID', b''))}"
    if wrong.kind == NO_UNIT:
        return f"{unit} is not a unit of the file of units. Give the two files of one run."
    if wrong.kind == ELSEWHERE:
        return f"{unit} is a unit of another place. Give the two files of one run."
    if wrong.kind == VACANT:
        return f"{unit} is a vacant unit, where nobody can live. Give the two files of one run."
    return f"{unit} is a unit of another kind than RTYPE says ({codes}). Give the two files of one run."


def _texts(texts: Sequence[bytes]) -> tuple[Bytes, Integers]:
    """Texts as the rows of a table, with their lengths."""
    size = max(map(len, texts))
    table = np.frombuffer(b"".join(text.ljust(size) for text in texts), np.uint8)
    return table.reshape(len(texts), size), np.array([len(text) for text in texts], np.int64)


@compiled
def _count_rows(data, role, width, scale, table, cell_of, cells, units, mode):  # type: ignore[no-untyped-def]
    """Count rows by place and cell; stop at the first wrong one."""
    columns = len(role)
    n = len(data)
    room = n // columns + 2  # a row has a byte for each field
    key = np.empty(2 * room, np.int64)
    count = np.empty(2 * room, np.int64)
    noted = room if mode == 1 else 0
    unit_out = np.empty(noted, np.int64)
    place_out = np.empty(noted, np.int64)
    sums = np.zeros(cells + 1, np.int64)
    met = np.empty(cells + 1, np.int64)
    distinct = entries = rows = 0
    here = np.int64(-1)
    status = np.zeros(6, np.int64)  # lines, kind of error, field, first byte, last byte, a number for the message
    at = 0
    while at < n:
        start = at
        status[0] += 1
        if data[at] == 35:  # '#'
            while at < n and data[at] != 10:
                at += 1
            at += 1
            continue
        field, kind, wrong = 0, 0, 0
        place = np.int64(0)
        combination, block_group, unit, persons = np.int64(0), np.int64(-1), np.int64(0), np.int64(0)
        value, size, plain = np.int64(0), 0, True
        while True:
            letter = data[at] if at < n else np.uint8(10)
            if letter == 13 and (at + 1 >= n or data[at + 1] == 10):
                at += 1
                continue
            if letter != 124 and letter != 10:
                if letter < 48 or letter > 57:
                    plain = False
                elif size < 17:
                    value = value * 10 + (np.int64(letter) - 48)
                size += 1
                at += 1
                continue
            if field < columns and role[field] != 0 and kind == 0:  # the end of a field that is read
                purpose = role[field]
                if not plain or size == 0 or (width[field] == 0 and size > 9):
                    kind, wrong = 2, field
                elif width[field] != 0 and size != width[field]:
                    kind, wrong = 3, field
                elif purpose == 1:
                    place += value * scale[field]
                elif purpose == 3:
                    block_group = value
                elif purpose == 4:
                    unit = value
                elif purpose == 5:
                    persons = value
                elif value >= table.shape[1] or table[field, value] < 0:
                    kind, wrong = 4, field
                else:
                    combination += table[field, value]
            field += 1
            value, size, plain = np.int64(0), 0, True
            at += 1
            if letter == 10:
                break
        if field != columns:
            kind = 1
        cell = np.int64(0)
        if kind == 0:
            cell = np.int64(cell_of[combination])
            if cell < 0:
                kind = 5
            elif block_group >= 0 and place // 1000 % 10 != block_group:
                kind = 6
                for i in range(columns):
                    if role[i] == 1 and scale[i] == 1:
                        wrong = i
        if kind == 0 and mode == 2:
            if unit >= len(units) or units[unit] < 0:
                kind = 7
            elif units[unit] // 16 != place:
                kind = 8
            elif units[unit] % 16 == 8:
                kind = 9
            elif (units[unit] % 16 > 0) != (cell >= 24):
                kind = 10
            else:
                cell = units[unit] % 16 * 24 + cell % 24
        if kind != 0:
            status[1], status[2], status[3], status[4] = kind, wrong, start, min(at, n)
            return key[:0], count[:0], unit_out[:0], place_out[:0], status
        if mode == 1:
            unit_out[rows] = unit
            place_out[rows] = place * 16 + cell
        rows += 1
        if place != here:
            for i in range(distinct):
                key[entries] = here * (cells + 1) + met[i]
                count[entries] = sums[met[i]]
                sums[met[i]] = 0
                entries += 1
            here, distinct = place, 0
        if sums[cell] == 0:
            met[distinct] = cell
            distinct += 1
        sums[cell] += 1
        if persons > 0:
            if sums[cells] == 0:
                met[distinct] = cells
                distinct += 1
            sums[cells] += persons
    for i in range(distinct):
        key[entries] = here * (cells + 1) + met[i]
        count[entries] = sums[met[i]]
        entries += 1
    return key[:entries].copy(), count[:entries].copy(), unit_out[:rows], place_out[:rows], status


@compiled
def _put_number(out, at, value):  # type: ignore[no-untyped-def]
    """Write a number, and say where it ends; a negative one is left out."""
    if value < 0:
        return at
    size, rest = 1, value // 10
    while rest > 0:
        size, rest = size + 1, rest // 10
    for i in range(at + size - 1, at - 1, -1):
        out[i] = 48 + value % 10
        value //= 10
    return at + size


@compiled
def _render_rows(head, which, cell, one, two, middle, middle_size, tail, tail_size, out):  # type: ignore[no-untyped-def]
    """Write rows one after the other; the number of bytes."""
    at = 0
    for row in range(len(which)):
        for i in range(head.shape[1]):
            out[at + i] = head[which[row], i]
        at = _put_number(out, at + head.shape[1], one[row])
        c = cell[row]
        for i in range(middle_size[c]):
            out[at + i] = middle[c, i]
        at = _put_number(out, at + middle_size[c], two[row])
        for i in range(tail_size[c]):
            out[at + i] = tail[c, i]
        at += tail_size[c]
    return at
