"""The IPUMS extract of the full 1940 census that the Bureau ran its end-to-end test on (``EXT1940USCB.dat``).

42 GB of fixed-width lines: a household ``H``, then its persons ``P``. Reading streams the file on threads through a
compiled kernel; writing makes such a file from counts, which reads back as the same counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.files.fixed_width import (
    PIECE,
    Bytes,
    Found,
    Progress,
    Tally,
    Wrong,
    added,
    counted,
    digits,
    in_order,
    opened,
    shown,
    written,
)
from tallyveil.files.mdf_1940 import GQTYPE_OF, KINDS, PER_TYPE, VACANT, Census1940, Deal
from tallyveil.histogram import Histogram
from tallyveil.schemas import PERSONS_1940

__all__ = ["Census1940", "read_ipums_1940", "write_ipums_1940"]

# Widths of the records in the Bureau's extract, and how much of them must be there.
H_WIDTH, P_WIDTH = 159, 273
H_NEEDED, P_NEEDED = 128, 89
# Fields: record, name, first and last column (from 1), what is legal.
FIELDS = (
    ("H", "SERIAL", 8, 15, "digits"),
    ("H", "STATEFIP", 54, 55, "digits"),
    ("H", "COUNTY", 56, 59, "digits"),
    ("H", "GQ", 94, 94, "0 to 6"),
    ("H", "GQTYPE", 95, 95, "0, 2, 3, 4, 6, 7, 8 or 9 (1 and 5 do not occur in 1940)"),
    ("H", "ENUMDIST", 125, 128, "digits"),
    ("P", "SERIAL", 8, 15, "digits"),
    ("P", "AGE", 74, 76, "000 to 135"),
    ("P", "RACE", 85, 85, "1 to 6"),
    ("P", "HISPAN", 89, 89, "0, 1, 2, 3, 4 or 9"),
)
# What may be wrong with a record.
UNKNOWN, SHORT, CUT, NOT_DIGITS, ILLEGAL, NO_HOUSEHOLD, OTHER_HOUSEHOLD = range(1, 8)
# Our type by GQTYPE; -1 is illegal. The Bureau's recode.
TYPE_OF = np.array([GQTYPE_OF.index(code) if code in GQTYPE_OF else -1 for code in range(10)], dtype=np.int64)
STRIDE = 256  # keys are the district times this, plus a cell: 192 of persons, then 9 kinds of unit
DROPPED = -1  # the key of persons without a household
_PIECE_OF_FILE = 16 << 20  # bytes written at a time, whole districts


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
    with opened(path) as source:

        def explain(record: bytes, line: int, wrong: Wrong) -> InputError:
            return InputError(f"{source.name}, line {line:,}{_explanation(record, wrong)}")

        found = counted(
            source,
            lambda data: _found(data, drop_orphans),
            explain=explain,
            starts=b"\nH",
            piece=piece,
            threads=threads,
            progress=progress,
        )
        tally = added(each.tally for each in found)
    district, cell = tally.key // STRIDE, tally.key % STRIDE
    person, unit = (tally.key >= 0) & (cell < PERSONS_1940.cells), (tally.key >= 0) & (cell >= PERSONS_1940.cells)
    if not unit.any():
        raise InputError(f"{path}: the file has no household 'H'. Check that it is the right file.")
    return Census1940.from_tallies(
        Tally(key=district[person] * PERSONS_1940.cells + cell[person], count=tally.count[person]),
        Tally(key=district[unit] * KINDS + cell[unit] - PERSONS_1940.cells, count=tally.count[unit]),
        dropped=int(tally.count[tally.key == DROPPED].sum()),
    )


def write_ipums_1940(
    people: Histogram, facilities: Facilities, housing: Histogram, path: str | os.PathLike[str], *, threads: int = 2
) -> Path:
    """Write counts as an extract; reading it gives them back. A name that ends in ``.gz`` is compressed.

    Persons are dealt to the units of their type in turn. Minors are 17 years old and adults 18; NUMPREC stops at 99
    and PERNUM at 9999; columns that the counts say nothing about are blank.
    """
    deal = Deal.of(people, facilities, housing)
    _refuse_unwritable(deal)
    households, persons = _household_records(), _person_records()

    def records(span: tuple[int, int]) -> memoryview:
        low, high = span
        first, last = int(deal.first_unit[low * KINDS]), int(deal.first_unit[high * KINDS])
        district, kind, living = deal.units(first, last)
        starts = people.leaves.start
        _, cell, unit, turn = deal.persons(int(deal.first_person[starts[low]]), int(deal.first_person[starts[high]]))
        size = len(kind) * households.shape[1] + len(cell) * persons.shape[1]
        out = np.empty(size, np.uint8)
        _write_records(
            out, households, persons, deal.places, district, kind, living, first, unit - first, turn, cell % PER_TYPE
        )
        return out.data

    with written(path) as file:
        for _, out in in_order(records, _spans(deal), threads):
            file.write(out)
    return Path(path)


def _found(data: Bytes, drop_orphans: bool) -> Found:
    """Count a piece that begins with a household."""
    key, count, status = _count_records(data, drop_orphans)
    wrong = None
    if status[1]:
        wrong = Wrong(kind=status[1], field=status[2], first=status[3], last=status[4], note=status[5])
    return Found(tally=added([Tally(key=key, count=count)]), lines=int(status[0]), wrong=wrong)


def _explanation(record: bytes, wrong: Wrong) -> str:
    """What is wrong with a record, from the numbers of the kernel."""
    record = record.rstrip(b"\r\n") if wrong.kind != UNKNOWN else record
    kind = record[:1].decode("latin-1")
    if wrong.kind == UNKNOWN:
        return (
            f", column 1: record type {shown(record[:1])} is not 'H' or 'P'. The line is damaged, or the file is not "
            f"the extract EXT1940USCB.dat: check it, or fetch it again."
        )
    if wrong.kind == NO_HOUSEHOLD:
        return ", column 1: a person 'P' comes before any household 'H'. Begin the file with the person's household."
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
    _, name, first, last, legal = FIELDS[wrong.field]
    columns = f"columns {first}-{last}" if first < last else f"column {first}"
    here = f" ({kind} record), {columns}: {name} {shown(record[first - 1 : last])}"
    if wrong.kind == NOT_DIGITS:
        return f"{here} is not digits. The record is shifted or damaged: correct it, or fetch the file again."
    if wrong.kind == ILLEGAL:
        return f"{here} is not {legal}. Correct the record."
    return (
        f"{here} is not that of the household above, '{wrong.note:08d}'. Put persons after their household, or use "
        f"drop_orphans to leave such persons out."
    )


def _spans(deal: Deal) -> Iterator[tuple[int, int]]:
    """Runs of districts, each of about a piece of the file."""
    sizes = deal.built.sum(axis=1) * (H_WIDTH + 1) + deal.living.sum(axis=1) * (P_WIDTH + 1)
    number = np.cumsum(sizes) // _PIECE_OF_FILE
    cuts = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
    yield from zip(cuts.tolist(), [*cuts[1:].tolist(), len(sizes)], strict=True)


def _refuse_unwritable(deal: Deal) -> None:
    if int(deal.first_unit[-1]) > 99_999_999:
        raise InputError(f"{int(deal.first_unit[-1]):,} units, but SERIAL has 8 digits. Write fewer districts.")
    empty = deal.built.sum(axis=1) == 0
    if empty.any():
        code = bytes(deal.people.spine.codes[-1][int(np.argmax(empty))]).decode()
        raise InputError(
            f"enumdist {code!r} has no unit, so no record would name it. Leave it out of the spine, or give it a "
            f"vacant unit."
        )


def _household_records() -> Bytes:
    """The line of each kind of unit, its numbers and place left blank."""
    rows = np.full((KINDS, H_WIDTH + 1), ord(" "), np.uint8)
    for kind in range(KINDS):
        code = 0 if kind == VACANT else GQTYPE_OF[kind]
        status = 0 if kind == VACANT else (1 if kind == 0 else (3 if code <= 4 else 4))
        _put(rows[kind], 1, b"H")
        _put(rows[kind], 94, f"{status}{code}".encode())
        _put(rows[kind], H_WIDTH, b"0\n")
    return rows


def _person_records() -> Bytes:
    """The line of each kind of person, their numbers left blank."""
    rows = np.full((PER_TYPE, P_WIDTH + 1), ord(" "), np.uint8)
    for cell in range(PER_TYPE):
        adult, hispanic, race = (int(i) for i in np.unravel_index(cell, PERSONS_1940.shape[1:]))
        _put(rows[cell], 1, b"P")
        _put(rows[cell], 74, f"{17 + adult:03d}".encode())
        _put(rows[cell], 85, str(race + 1).encode())
        _put(rows[cell], 89, b"4" if hispanic else b"0")
        _put(rows[cell], P_WIDTH, b"0\n")
    return rows


def _put(row: Bytes, column: int, text: bytes) -> None:
    row[column - 1 : column - 1 + len(text)] = np.frombuffer(text, np.uint8)


@compiled
def _line_end(data, start, guess):  # type: ignore[no-untyped-def]
    """Where a line ends: at ``guess`` bytes if a line end is there and none before (many bytes tested at once)."""
    n = len(data)
    end = start + guess
    if end < n and data[end] == 10:
        line, before = data[start:end], 0
        for i in range(guess):
            before += line[i] == 10
        if before == 0:
            return end
    end = start
    while end < n and data[end] != 10:
        end += 1
    return end


@compiled
def _count_records(data, drop_orphans):  # type: ignore[no-untyped-def]
    """Count persons and units by district and cell; stop at the first wrong record."""
    n = len(data)
    key = np.empty(n // 89 + 3, np.int64)  # a record adds at most one entry
    count = np.empty(n // 89 + 3, np.int64)
    sums = np.zeros(256, np.int64)
    met = np.empty(256, np.int64)
    distinct = entries = dropped = 0
    district, serial, kind_of_unit = -1, -1, 0
    guess_h, guess_p = 159, 273
    status = np.zeros(6, np.int64)  # lines, kind of error, field, first byte, last byte, a number for the message
    start = 0
    while start < n:
        letter = data[start]
        household = letter == 72
        end = _line_end(data, start, guess_h if household else guess_p)
        width = end - start
        if household:
            guess_h = width
        else:
            guess_p = width
        if width > 0 and data[end - 1] == 13:
            width -= 1
        status[0] += 1
        wrong, field, note, cell = 0, 0, 0, 0
        if not household and letter != 80:
            wrong = 1
        elif width < (128 if household else 89):
            wrong = 2
        elif end == n and width < (159 if household else 273):
            wrong = 3
        elif household:
            serial = digits(data, start + 7, start + 15)
            state = digits(data, start + 53, start + 55)
            county = digits(data, start + 55, start + 59)
            gq = digits(data, start + 93, start + 94)
            gq_type = digits(data, start + 94, start + 95)
            enumdist = digits(data, start + 124, start + 128)
            if serial < 0:
                wrong, field = 4, 0
            elif state < 0:
                wrong, field = 4, 1
            elif county < 0:
                wrong, field = 4, 2
            elif gq < 0:
                wrong, field = 4, 3
            elif gq_type < 0:
                wrong, field = 4, 4
            elif enumdist < 0:
                wrong, field = 4, 5
            elif gq > 6:
                wrong, field = 5, 3
            elif TYPE_OF[gq_type] < 0:
                wrong, field = 5, 4
            else:
                place = state * 100000000 + county * 10000 + enumdist
                if place != district:
                    for i in range(distinct):
                        key[entries] = district * 256 + met[i]
                        count[entries] = sums[met[i]]
                        sums[met[i]] = 0
                        entries += 1
                    district, distinct = place, 0
                kind_of_unit = int(TYPE_OF[gq_type])
                cell = 192 + (8 if kind_of_unit == 0 and gq == 0 else kind_of_unit)
        else:
            of = digits(data, start + 7, start + 15)
            age = digits(data, start + 73, start + 76)
            race = digits(data, start + 84, start + 85)
            hispan = digits(data, start + 88, start + 89)
            if of < 0:
                wrong, field = 4, 6
            elif age < 0:
                wrong, field = 4, 7
            elif race < 0:
                wrong, field = 4, 8
            elif hispan < 0:
                wrong, field = 4, 9
            elif age > 135:
                wrong, field = 5, 7
            elif race < 1 or race > 6:
                wrong, field = 5, 8
            elif 4 < hispan < 9:
                wrong, field = 5, 9
            elif of != serial:
                if drop_orphans:
                    dropped += 1
                    start = end + 1
                    continue
                wrong, field, note = (6, 0, note) if serial < 0 else (7, 6, serial)
            else:
                cell = kind_of_unit * 24 + (age >= 18) * 12 + (hispan > 0) * 6 + race - 1
        if wrong != 0:
            status[1], status[2], status[3], status[4], status[5] = wrong, field, start, min(end + 1, n), note
            return key[:0], count[:0], status
        if sums[cell] == 0:
            met[distinct] = cell
            distinct += 1
        sums[cell] += 1
        start = end + 1
    for i in range(distinct):
        key[entries] = district * 256 + met[i]
        count[entries] = sums[met[i]]
        entries += 1
    if dropped > 0:
        key[entries], count[entries] = -1, dropped
        entries += 1
    return key[:entries], count[:entries], status


@compiled
def _put_digits(out, at, size, value):  # type: ignore[no-untyped-def]
    """Write a number in so many digits."""
    for i in range(at + size - 1, at - 1, -1):
        out[i] = 48 + value % 10
        value //= 10


@compiled
def _write_records(out, households, persons, places, district, kind, living, first, unit, turn, cell):  # type: ignore[no-untyped-def]
    """Write units and their persons; a person's line is found from its unit and its turn."""
    wide, long = households.shape[1], persons.shape[1]
    starts = np.empty(len(kind), np.int64)
    at = 0
    for u in range(len(kind)):
        starts[u] = at
        for i in range(wide):
            out[at + i] = households[kind[u], i]
        _put_digits(out, at + 7, 8, first + u + 1)
        _put_digits(out, at + 15, 2, min(living[u], 99))
        for i in range(10):
            out[at + (53 if i < 6 else 118) + i] = places[district[u], i]
        at += wide + living[u] * long
    for p in range(len(cell)):
        at = starts[unit[p]] + wide + turn[p] * long
        for i in range(long):
            out[at + i] = persons[cell[p], i]
        _put_digits(out, at + 7, 8, first + unit[p] + 1)
        _put_digits(out, at + 15, 4, min(turn[p] + 1, 9999))
