"""The IPUMS extract of the 1940 census: writing it from counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tallyveil._compiled import compiled
from tallyveil.errors import DataError
from tallyveil.files.formats.census import GQTYPE_OF, KINDS, PER_TYPE, VACANT
from tallyveil.files.formats.deal import Deal
from tallyveil.files.formats.ipums_read import H_WIDTH, P_WIDTH
from tallyveil.files.formats.lines import Bytes, in_order, put_digits, written
from tallyveil.files.tables.geography import unit_code
from tallyveil.files.tables.stamps import STAMPS, stamp_lines
from tallyveil.files.tables.write import beside
from tallyveil.nouns.census_schemas import PERSONS_1940
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram

_WRITE_BYTES = 16 << 20  # bytes written at a time, whole districts


def write_ipums_1940(
    people: Histogram, facilities: Facilities, housing: Histogram, path: str | os.PathLike[str], *, threads: int = 2
) -> Path:
    """Write counts as an extract; reading it gives them back. A name that ends in ``.gz`` is compressed.

    Persons are assigned to the units of their type in turn. Minors are 17 years old and adults 18. NUMPREC is capped at
    99 and PERNUM at 9999. Columns that the counts do not cover are blank. Stamps of people and housing are written to
    ``<name>.STAMPS.txt`` beside the extract.
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
        out = np.empty(len(kind) * households.shape[1] + len(cell) * persons.shape[1], np.uint8)
        _write_records(
            out, households, persons, deal.places, district, kind, living, first, unit - first, turn, cell % PER_TYPE
        )
        return out.data

    target, stamps = Path(path), stamp_lines(people, housing)
    with ExitStack() as files:
        file = files.enter_context(written(target))
        for _, out in in_order(records, _spans(deal), threads):
            file.write(out)
        if stamps:
            files.enter_context(written(beside(target, STAMPS))).write("".join(f"{line}\n" for line in stamps).encode())
    if not stamps:
        beside(target, STAMPS).unlink(missing_ok=True)  # of an earlier file of this name
    return target


def _spans(deal: Deal) -> Iterator[tuple[int, int]]:
    """Ranges of districts, each about ``_WRITE_BYTES`` of the file."""
    sizes = deal.built.sum(axis=1) * (H_WIDTH + 1) + deal.living.sum(axis=1) * (P_WIDTH + 1)
    number = np.cumsum(sizes) // _WRITE_BYTES
    cuts = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
    yield from zip(cuts.tolist(), [*cuts[1:].tolist(), len(sizes)], strict=True)


def _refuse_unwritable(deal: Deal) -> None:
    if int(deal.first_unit[-1]) > 99_999_999:
        raise DataError(f"{int(deal.first_unit[-1]):,} units, but SERIAL has 8 digits. Write fewer districts.")
    empty = deal.built.sum(axis=1) == 0
    if empty.any():
        code = unit_code(deal.people.spine, deal.people.spine.leaf, int(np.argmax(empty)))
        raise DataError(
            f"enumdist {code!r} has no unit, so no record would mention it. Leave it out of the spine, or give it "
            f"a vacant unit."
        )


def _household_records() -> Bytes:
    """The line of each kind of unit, with its numbers and place blank."""
    rows = []
    for kind in range(KINDS):
        code = 0 if kind == VACANT else GQTYPE_OF[kind]
        status = 0 if kind == VACANT else (1 if kind == 0 else (3 if code <= 4 else 4))
        rows.append(_record(H_WIDTH, {1: "H", 94: f"{status}{code}"}))
    return np.stack(rows)


def _person_records() -> Bytes:
    """The line of each kind of person, with the numbers blank."""
    rows = []
    for cell in range(PER_TYPE):
        adult, hispanic, race = (int(i) for i in np.unravel_index(cell, PERSONS_1940.shape[1:]))
        rows.append(
            _record(P_WIDTH, {1: "P", 74: f"{17 + adult:03d}", 85: f"{race + 1}", 89: "4" if hispanic else "0"})
        )
    return np.stack(rows)


def _record(width: int, fields: dict[int, str]) -> Bytes:
    """A line with text at some columns; a 0 in the last column shows that the line is complete."""
    row = bytearray(b" " * (width - 1) + b"0\n")
    for column, text in fields.items():
        row[column - 1 : column - 1 + len(text)] = text.encode()
    return np.frombuffer(row, np.uint8)


@compiled
def _write_records(out, households, persons, places, district, kind, living, first, unit, turn, cell):  # type: ignore[no-untyped-def]
    """Write units and their persons; the position of a person's line follows from its unit and its turn."""
    wide, long = households.shape[1], persons.shape[1]
    starts = np.empty(len(kind), np.int64)
    at = 0
    for u in range(len(kind)):
        starts[u] = at
        for i in range(wide):
            out[at + i] = households[kind[u], i]
        put_digits(out, at + 7, 8, first + u + 1)
        put_digits(out, at + 15, 2, min(living[u], 99))
        for i in range(10):
            out[at + (53 if i < 6 else 118) + i] = places[district[u], i]
        at += wide + living[u] * long
    for p in range(len(cell)):
        at = starts[unit[p]] + wide + turn[p] * long
        for i in range(long):
            out[at + i] = persons[cell[p], i]
        put_digits(out, at + 7, 8, first + unit[p] + 1)
        put_digits(out, at + 15, 4, min(turn[p] + 1, 9999))
