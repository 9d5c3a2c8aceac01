"""The IPUMS extract of the full 1940 census that the Bureau ran its end-to-end test on (``EXT1940USCB.dat``), read.

42 GB of fixed-width lines: a household ``H``, then its persons ``P``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.files.census import GQTYPE_OF, KINDS, PER_TYPE, VACANT, Census1940
from tallyveil.files.lines import PIECE, Bytes, opened, shown
from tallyveil.files.tally import STRIDE, Found, Progress, Tally, Wrong, added, counted, tallied
from tallyveil.schemas import PERSONS_1940

# Widths of the records in the Bureau's extract, and how much of them must be there.
H_WIDTH, P_WIDTH = 159, 273
H_NEEDED, P_NEEDED = 128, 89


@dataclass(frozen=True)
class Field:
    """A field of a record: its columns from 1, what is legal, and what each code adds to a cell if it has codes."""

    name: str
    first: int
    last: int
    legal: str = "digits"
    codes: Mapping[int, int] | None = None


# The recodes are the Bureau's. Those of a household come first.
FIELDS = (
    Field("SERIAL", 8, 15),
    Field("STATEFIP", 54, 55),
    Field("COUNTY", 56, 59),
    Field("GQ", 94, 94, "0 to 6", {code: int(code > 0) for code in range(7)}),
    Field(
        "GQTYPE",
        95,
        95,
        "0, 2, 3, 4, 6, 7, 8 or 9 (1 and 5 do not occur in 1940)",
        {code: kind for kind, code in enumerate(GQTYPE_OF)},
    ),
    Field("ENUMDIST", 125, 128),
    Field("SERIAL", 8, 15),
    Field("AGE", 74, 76, "000 to 135", {age: 12 * (age >= 18) for age in range(136)}),
    Field("RACE", 85, 85, "1 to 6", {race: race - 1 for race in range(1, 7)}),
    Field("HISPAN", 89, 89, "0, 1, 2, 3, 4 or 9", {code: 6 * (code > 0) for code in (0, 1, 2, 3, 4, 9)}),
)
SERIAL, STATE, COUNTY, GQ, GQTYPE, ENUMDIST, OF, AGE, RACE, HISPAN = range(len(FIELDS))
# What may be wrong with a record.
UNKNOWN, SHORT, CUT, NOT_DIGITS, ILLEGAL, NO_HOUSEHOLD, OTHER_HOUSEHOLD = range(1, 8)
# The cells of a tally: of persons, then kinds of unit; the last is for persons without a household, at place -1.
UNITS, DROPPED = PERSONS_1940.cells, STRIDE - 1


def read_ipums_1940(
    path: str | os.PathLike[str],
    *,
    threads: int = 2,
    progress: Progress | None = None,
    drop_orphans: bool = False,
    piece: int = PIECE,
) -> Census1940:
    """Read the extract, plain or gzip, in memory that does not grow with the file.

    The recodes are the Bureau's: adults are 18 or older, Hispanic is any HISPAN above 0, a unit is vacant where GQ and
    GQTYPE are 0, and persons found in a vacant unit count as living in households. Districts are those with a unit.

    Parameters
    ----------
    path
        The extract.
    threads
        How many threads count.
    progress
        Called with the bytes read and the bytes of the file.
    drop_orphans
        Leave out persons whose SERIAL is not that of the household above them, as the Bureau did, and count them in
        ``dropped``; otherwise they are an error.
    piece
        Bytes read at a time.
    """

    def count(data: Bytes) -> Found:
        key, number, status = _count_records(data, drop_orphans)
        return Found(tally=Tally(key=key, count=number), status=status)

    with opened(path) as source:
        found = counted(
            source, count, explain=_explanation, starts=b"\nH", piece=piece, threads=threads, progress=progress
        )
        tally = added(each.tally for each in found)
    units = tally.cells(UNITS, UNITS + KINDS)
    if len(units.key) == 0:
        raise InputError(f"{path}: the file has no household 'H'. Check that it is the right file.")
    dropped = int(tally.cells(DROPPED, STRIDE).count.sum())
    return Census1940.from_tallies(tally.cells(0, UNITS), units, dropped=dropped)


def _explanation(data: Bytes, wrong: Wrong) -> str:
    """What is wrong with a record of a piece, from the numbers of the kernel."""
    line = data[wrong.first : wrong.last].tobytes()
    if wrong.kind == UNKNOWN:
        return (
            f", column 1: record type {shown(line[:1])} is not 'H' or 'P'. The line is damaged, or the file is not "
            f"the extract EXT1940USCB.dat: check it, or fetch it again."
        )
    if wrong.kind == NO_HOUSEHOLD:
        return ", column 1: a person 'P' comes before any household 'H'. Begin the file with the person's household."
    record, kind = line.rstrip(b"\r\n"), line[:1].decode()
    whole, needed = (H_WIDTH, H_NEEDED) if kind == "H" else (P_WIDTH, P_NEEDED)
    if wrong.kind == SHORT:
        return (
            f" ({kind} record): ends at column {len(record)}, but its fields go to column {needed}. The record is "
            f"truncated: fetch the file again."
        )
    if wrong.kind == CUT:
        return (
            f" ({kind} record): the file ends at column {len(record)} of {whole}, without a line end. It looks cut "
            f"short: fetch it again, or end it with a line end if it is whole."
        )
    field = FIELDS[wrong.field]
    columns = f"columns {field.first}-{field.last}" if field.first < field.last else f"column {field.first}"
    here = f" ({kind} record), {columns}: {field.name} {shown(record[field.first - 1 : field.last])}"
    if wrong.kind == NOT_DIGITS:
        return f"{here} is not digits. The record is shifted or damaged: correct it, or fetch the file again."
    if wrong.kind == ILLEGAL:
        return f"{here} is not {field.legal}. Correct the record."
    before = data[: wrong.first].tobytes()
    above = before[before.rfind(b"\nH") + 8 :][:8]
    return (
        f"{here} is not that of the household above, {shown(above)}. Put persons after their household, or use "
        f"drop_orphans to leave such persons out."
    )


_H, _P, _END, _RETURN = b"HP\n\r"
_FIRST, _LAST = (np.array(ends, np.int64) for ends in zip(*((f.first - 1, f.last) for f in FIELDS), strict=True))
_CODED = np.array([field.codes is not None for field in FIELDS])
_ADDS = np.full((len(FIELDS), 1000), -1, np.int16)  # what a code adds to a cell; -1 is illegal
for _adds, _field in zip(_ADDS, FIELDS, strict=True):
    for _code, _more in (_field.codes or {}).items():
        _adds[_code] = _more


@compiled
def _count_records(data, drop_orphans):  # type: ignore[no-untyped-def]
    """Count persons and units by district and cell; stop at the first wrong record."""
    n = len(data)
    key, count = np.empty(n // P_NEEDED + 3, np.int64), np.empty(n // P_NEEDED + 3, np.int64)
    latest, value, status = np.zeros(STRIDE, np.int64), np.zeros(len(_CODED), np.int64), np.zeros(5, np.int64)
    size, start, one = np.int64(0), np.int64(0), np.int64(1)
    place, serial, widths = -one, -one, np.array([H_WIDTH, P_WIDTH])
    while start < n:
        household = data[start] == _H
        end = _line_end(data, start, widths[1 - household])
        widths[1 - household] = end - start  # the next record is probably as long
        wrong, field = _read_record(data, start, end, value)
        status[0] += 1
        district, cell = place, np.int64(DROPPED)
        if wrong != 0:
            pass
        elif household:
            serial = value[SERIAL]
            place = value[STATE] * 100_000_000 + value[COUNTY] * 10_000 + value[ENUMDIST]
            district = place
            cell = UNITS + (value[GQTYPE] if value[GQ] + value[GQTYPE] > 0 else np.int64(VACANT))
        elif value[OF] == serial:
            cell = value[GQTYPE] * PER_TYPE + value[AGE] + value[HISPAN] + value[RACE]
        elif drop_orphans:
            district = -one
        else:
            wrong, field = (NO_HOUSEHOLD if serial < 0 else OTHER_HOUSEHOLD), OF
        if wrong != 0:
            status[1], status[2], status[3], status[4] = wrong, field, start, min(end + 1, n)
            break
        size = tallied(key, count, size, latest, district, cell, one)
        start = end + 1
    return key[:size].copy(), count[:size].copy(), status


@compiled
def _line_end(data, start, guess):  # type: ignore[no-untyped-def]
    """Where a line ends: at ``guess`` bytes if a line end is there and none before (many bytes tested at once)."""
    n = len(data)
    end = start + guess
    if end < n and data[end] == _END:
        line, before = data[start:end], 0
        for i in range(guess):
            before += line[i] == _END
        if before == 0:
            return end
    end = start
    while end < n and data[end] != _END:
        end += 1
    return end


@compiled
def _read_record(data, start, end, value):  # type: ignore[no-untyped-def]
    """Read the fields of a record into ``value``, codes as what they add; what is wrong, and in which field."""
    household = data[start] == _H
    if not household and data[start] != _P:
        return UNKNOWN, 0
    width = end - start - (data[end - 1] == _RETURN)
    if width < (H_NEEDED if household else P_NEEDED):
        return SHORT, 0
    if end == len(data) and width < (H_WIDTH if household else P_WIDTH):
        return CUT, 0
    low, high = (0, OF) if household else (OF, len(_CODED))
    for f in range(low, high):
        number = np.int64(0)
        for i in range(start + _FIRST[f], start + _LAST[f]):
            digit = np.int64(data[i]) - 48
            if digit < 0 or digit > 9:
                return NOT_DIGITS, f
            number = number * 10 + digit
        value[f] = number
    for f in range(low, high):
        if _CODED[f]:
            value[f] = _ADDS[f, value[f]]
            if value[f] < 0:
                return ILLEGAL, f
    return 0, 0
