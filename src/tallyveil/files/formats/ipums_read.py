"""The IPUMS extract of the full 1940 census that the Bureau ran its end-to-end test on (``EXT1940USCB.dat``): reading.

42 GB of fixed-width lines: a household ``H``, then its persons ``P``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tallyveil._compiled import compiled
from tallyveil.errors import DataError, InputError
from tallyveil.files.formats.census import GQTYPE_OF, KINDS, VACANT, Census1940
from tallyveil.files.formats.lines import PIECE_BYTES, Bytes, opened, quoted
from tallyveil.files.formats.piecewise import (
    STRIDE,
    BytesRead,
    PieceCounts,
    PlaceCounts,
    add_entry,
    add_up,
    count_pieces,
)
from tallyveil.files.tables.stamps import STAMPS, read_stamps
from tallyveil.files.tables.write import beside
from tallyveil.nouns.census_schemas import PERSONS_1940, PERSONS_1940_IPUMS
from tallyveil.nouns.histogram import Filter
from tallyveil.nouns.schema import Schema

# Widths of the records in the Bureau's extract, and how many of their columns are needed.
H_WIDTH, P_WIDTH = 159, 273
H_NEEDED, P_NEEDED = 128, 89
# Codes of HISPAN by its value, -1 where there is none: the Bureau's two, and all six of IPUMS.
HISPAN_CODES = (0, 1, 2, 3, 4, 9)
EACH_HISPANIC = np.array([HISPAN_CODES.index(i) if i in HISPAN_CODES else -1 for i in range(10)], dtype=np.int64)
ANY_HISPANIC = np.minimum(EACH_HISPANIC, 1)
# Fields of a household and of a person: name, first and last column (from 1), legal codes, and these in words.
H_FIELDS = (
    ("SERIAL", 8, 15, None, ""),
    ("STATEFIP", 54, 55, None, ""),
    ("COUNTY", 56, 59, None, ""),
    ("GQ", 94, 94, range(7), "0 to 6"),
    ("GQTYPE", 95, 95, GQTYPE_OF, "0, 2, 3, 4, 6, 7, 8 or 9 (1 and 5 do not occur in 1940)"),
    ("ENUMDIST", 125, 128, None, ""),
)
P_FIELDS = (
    ("SERIAL", 8, 15, None, ""),
    ("AGE", 74, 76, range(136), "000 to 135"),
    ("RACE", 85, 85, None, ""),  # as many as the schema has
    ("HISPAN", 89, 89, HISPAN_CODES, "0, 1, 2, 3, 4 or 9"),
)
# Our type by GQTYPE, recoded as the Bureau does; -1 is illegal.
TYPE_OF = np.array([GQTYPE_OF.index(code) if code in GQTYPE_OF else -1 for code in range(10)], dtype=np.int64)
# Cells are those of persons, then the kinds of unit; the last is for persons without a household, at place -1.
DROPPED = STRIDE - 1
ORPHANS = "persons whose SERIAL is not that of the household above them are left out"


def read_ipums_1940(
    path: str | os.PathLike[str],
    *,
    schema: Schema = PERSONS_1940,
    threads: int = 2,
    progress: BytesRead | None = None,
    drop_orphans: bool = False,
    piece: int = PIECE_BYTES,
) -> Census1940:
    """Read the extract, plain or gzip, in memory that does not grow with the size of the file.

    The recodes are the Bureau's: adults are 18 or older, Hispanic is any HISPAN above 0, a unit is vacant where GQ and
    GQTYPE are 0, and persons in a vacant unit count as living in households. Districts are those with a unit. The
    counts get the stamps in ``<name>.STAMPS.txt`` beside the extract.

    Parameters
    ----------
    path
        The extract.
    schema
        ``PERSONS_1940``, or ``PERSONS_1940_IPUMS`` for every code of HISPAN and RACE.
    threads
        How many threads to count with.
    progress
        Called with the number of bytes read and the size of the file.
    drop_orphans
        Leave out persons whose SERIAL is not that of the household above them, as the Bureau did, and count them in
        ``dropped``. Without it, such a person raises an error.
    piece
        Bytes read at a time.
    """
    if schema not in (PERSONS_1940, PERSONS_1940_IPUMS):
        raise InputError("an extract is counted on schemas.PERSONS_1940 or schemas.PERSONS_1940_IPUMS. Give one.")
    origins = ANY_HISPANIC if schema == PERSONS_1940 else EACH_HISPANIC
    races, of_persons = len(schema.attributes["race"]), schema.cells

    def count(data: Bytes) -> PieceCounts:
        key, number, status = _count_records(data, drop_orphans, origins, races)
        return PieceCounts(counts=PlaceCounts(key=key, count=number), status=status)

    with opened(path) as source:
        parts = count_pieces(
            source,
            count,
            explain=partial(_explanation, races),
            starts=b"\nH",
            piece=piece,
            threads=threads,
            progress=progress,
        )
        counts = add_up(part.counts for part in parts)
    units = counts.cells(of_persons, of_persons + KINDS)
    if len(units.key) == 0:
        raise DataError(f"{path}: the file has no household 'H'. Check that it is the right file.")
    dropped = int(counts.cells(DROPPED, STRIDE).count.sum())
    census = Census1940.from_counts(counts.cells(0, of_persons), units, schema=schema, dropped=dropped)
    if drop_orphans:
        census = replace(census, people=replace(census.people, filter=Filter(where={}, others=(ORPHANS,))))
    return census.stamped(read_stamps(beside(Path(path), STAMPS)))


def _explanation(races: int, line: bytes, before: bytes) -> str:
    """What is wrong with the record at which the kernel stopped."""
    kind, record = line[:1].decode("latin-1"), line.removesuffix(b"\n").removesuffix(b"\r")
    if kind not in ("H", "P"):
        return (
            f", column 1: record type {quoted(line[:1])} is not 'H' or 'P'. The line is damaged, or the file is not "
            f"the extract EXT1940USCB.dat: check it, or fetch it again."
        )
    fields, whole, needed = (H_FIELDS, H_WIDTH, H_NEEDED) if kind == "H" else (P_FIELDS, P_WIDTH, P_NEEDED)
    if len(record) < needed:
        return (
            f" ({kind} record): ends at column {len(record)}, but its fields go to column {needed}. The record is "
            f"truncated: fetch the file again."
        )
    if len(record) < whole and not line.endswith(b"\n"):
        return (
            f" ({kind} record): the file ends at column {len(record)} of {whole}, without a line end. It may be cut "
            f"short: fetch it again, or add a line end if it is complete."
        )
    values = [record[first - 1 : last] for _, first, last, _, _ in fields]
    places = [
        f" ({kind} record), column{f's {first}-{last}' if first < last else f' {first}'}: {name} {quoted(value)}"
        for (name, first, last, _, _), value in zip(fields, values, strict=True)
    ]
    for value, place in zip(values, places, strict=True):
        if not value.isdigit():
            return f"{place} is not digits. The record is shifted or damaged: correct it, or fetch the file again."
    for (*_, codes, legal), value, place in zip(fields, values, places, strict=True):
        if codes is not None and int(value) not in codes:
            return f"{place} is not {legal}. Correct the record."
    if kind == "P" and not 1 <= int(values[2]) <= races:
        return f"{places[2]} is not 1 to {races}. Correct the record."
    if not before.startswith(b"H"):
        return ", column 1: a person 'P' comes before any household 'H'. Begin the file with the person's household."
    above = before[before.rfind(b"\nH") + 1 :]
    return (
        f"{places[0]} is not that of the household above, {quoted(above[7:15])}. Put persons after their household, or "
        f"use drop_orphans to leave such persons out."
    )


_H, _P, _END, _RETURN = b"HP\n\r"


@compiled
def _count_records(data, drop_orphans, origins, races):  # type: ignore[no-untyped-def]
    """Count persons and units by district and cell; stop at the first wrong record."""
    n = len(data)
    per_age = (origins.max() + 1) * races
    first_unit = 2 * per_age * len(GQTYPE_OF)
    key, count = np.empty(n // P_NEEDED + 3, np.int64), np.empty(n // P_NEEDED + 3, np.int64)
    latest, status = np.zeros(STRIDE, np.int64), np.zeros(3, np.int64)
    size, start, one = np.int64(0), np.int64(0), np.int64(1)  # typed, so that callees compile once
    serial, place, kind = -one, -one, np.int64(0)
    h_guess, p_guess = np.int64(H_WIDTH), np.int64(P_WIDTH)
    while start < n:
        household = data[start] == _H
        end = _line_end(data, start, h_guess if household else p_guess)
        if household:
            h_guess = end - start
        else:
            p_guess = end - start
        width = end - start - (data[end - 1] == _RETURN)
        needed, whole = (H_NEEDED, H_WIDTH) if household else (P_NEEDED, P_WIDTH)
        district, cell = place, -one  # until the record is known to be good
        if width < needed or (end == n and width < whole):
            pass
        elif household:
            serial = _digits(data, start + 7, start + 15)
            state, county = _digits(data, start + 53, start + 55), _digits(data, start + 55, start + 59)
            gq, gqtype = _digits(data, start + 93, start + 94), _digits(data, start + 94, start + 95)
            enumdist = _digits(data, start + 124, start + 128)
            if min(serial, state, county, gq, gqtype, enumdist) >= 0 and gq <= 6 and TYPE_OF[gqtype] >= 0:
                district = place = state * 100_000_000 + county * 10_000 + enumdist
                kind = np.int64(TYPE_OF[gqtype])
                cell = first_unit + (kind if kind > 0 or gq > 0 else np.int64(VACANT))
        elif data[start] == _P:
            of, age = _digits(data, start + 7, start + 15), _digits(data, start + 73, start + 76)
            race, hispan = _digits(data, start + 84, start + 85), _digits(data, start + 88, start + 89)
            if min(of, age, hispan) < 0 or age > 135 or race < 1 or race > races or origins[hispan] < 0:
                pass
            elif of == serial:
                cell = (2 * kind + (age >= 18)) * per_age + origins[hispan] * races + race - 1
            elif drop_orphans:
                district, cell = -one, np.int64(DROPPED)
        status[0] += 1
        if cell < 0:
            status[1], status[2] = start, min(end + 1, n)
            break
        size = add_entry(key, count, size, latest, district, cell, one)
        start = end + 1
    return key[:size].copy(), count[:size].copy(), status


@compiled
def _line_end(data, start, guess):  # type: ignore[no-untyped-def]
    """Where a line ends: after ``guess`` bytes if the first line end is there, which is fast to test."""
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
def _digits(data, first, last):  # type: ignore[no-untyped-def]
    """The number that a range of bytes spells, or -1 where a byte is not a digit."""
    value = np.int64(0)
    for i in range(first, last):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value
