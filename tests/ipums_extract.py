"""Writing counts of 1940 as an IPUMS extract, so that tests have one to read; extracts cannot be distributed."""

import gzip
from functools import cache
from pathlib import Path

import numpy as np

from tallyveil.files.formats.census import GQTYPE_OF, KINDS, PER_TYPE, VACANT
from tallyveil.files.formats.deal import Deal
from tallyveil.files.formats.ipums_read import H_WIDTH, P_WIDTH
from tallyveil.files.tables.stamps import STAMPS, stamp_lines
from tallyveil.files.tables.write import beside
from tallyveil.nouns.census_schemas import PERSONS_1940
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram


def write_ipums_1940(people: Histogram, facilities: Facilities, housing: Histogram, path: Path) -> None:
    """Write an extract, compressed if its name ends in ``.gz``, and the stamps beside it.

    Minors are 17 years old and adults 18. NUMPREC is capped at 99 and PERNUM at 9999.
    """
    deal = Deal.of(people, facilities, housing)
    first_unit, starts = deal.first_unit[::KINDS], deal.first_person[people.leaves.start]
    if stamps := stamp_lines(people, housing):
        beside(path, STAMPS).write_text("".join(f"{line}\n" for line in stamps))
    with gzip.open(path, "wb") if path.suffix == ".gz" else open(path, "wb") as file:
        for district in range(len(deal.built)):
            units, persons = first_unit[district : district + 2], starts[district : district + 2]
            file.write(_lines(deal, district, *units.tolist(), *persons.tolist()))


def _lines(deal: Deal, district: int, first: int, last: int, first_person: int, last_person: int) -> bytes:
    """The households of a district, each followed by its persons."""
    place = deal.places[district].tobytes().decode()
    _, kinds, living = deal.units(first, last)
    units = [[_household(first + i + 1, place, *unit)] for i, unit in enumerate(zip(kinds, living, strict=True))]
    _, cells, unit_of, turns = deal.persons(first_person, last_person)
    for i in np.argsort(turns, kind="stable"):
        units[unit_of[i] - first].append(_person(unit_of[i] + 1, turns[i] + 1, cells[i] % PER_TYPE))
    return "".join(line for unit in units for line in unit).encode()


def _household(serial: int, place: str, kind: int, living: int) -> str:
    code = 0 if kind == VACANT else GQTYPE_OF[kind]
    status = 0 if kind == VACANT else 1 if kind == 0 else 3 if code <= 4 else 4
    number = f"{serial:08d}{min(living, 99):02d}"
    return _line(H_WIDTH, {1: "H", 8: number, 54: place[:6], 94: f"{status}{code}", 125: place[6:]})


def _person(serial: int, turn: int, cell: int) -> str:
    line = _person_without_number(int(cell))
    return f"{line[:7]}{serial:08d}{min(turn, 9999):04d}{line[19:]}"


@cache
def _person_without_number(cell: int) -> str:
    adult, hispanic, race = np.unravel_index(cell, PERSONS_1940.shape[1:])
    return _line(P_WIDTH, {1: "P", 74: f"{17 + adult:03d}", 85: f"{race + 1}", 89: "4" if hispanic else "0"})


def _line(width: int, fields: dict[int, str]) -> str:
    """A line with texts at columns counted from 1; a 0 in the last column shows that the line is complete."""
    line = ""
    for column, text in fields.items():
        line = line.ljust(column - 1) + text
    return line.ljust(width - 1) + "0\n"
