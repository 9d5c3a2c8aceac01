"""The microdata detail file of the 2018 end-to-end test, run on the 1940 census: ``MDF_PER`` and ``MDF_UNIT``.

Persons have 23 fields and units 25, without a header, after lines of metadata that begin with ``#``. A person's row
does not say which kind of group quarters it is; the unit's row does, and EUID joins them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import DataError, InputError
from tallyveil.files.formats.census import GQTYPE_OF, KINDS, PER_TYPE, VACANT, Census1940
from tallyveil.files.formats.counting import STRIDE, Found, Tally, added
from tallyveil.files.formats.deal import Deal
from tallyveil.files.formats.lines import PIECE, opened
from tallyveil.files.formats.mdf_layout import PERSONS, PLACE, UNIT_NUMBER, Column, Layout
from tallyveil.files.formats.mdf_read import LIVING, count_rows, refuse_no_rows
from tallyveil.files.formats.mdf_write import Rows, heads, rendered, write_pair
from tallyveil.files.tables.stamps import HOUSING, stamp_lines, stamps_in
from tallyveil.nouns.census_schemas import PERSONS_1940
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram

_CUTS = (slice(0, 2), slice(2, 6), slice(6, 10))


def write_mdf_1940(
    people: Histogram, facilities: Facilities, housing: Histogram, folder: str | os.PathLike[str]
) -> tuple[Path, Path]:
    """Write ``MDF_PER.dat`` and ``MDF_UNIT.dat`` into a folder, and give back their paths.

    Persons are dealt to units as the Bureau does, units are numbered from 1, and a district without units leaves no
    row. Stamps of people and housing stand in the first lines of both files, and the file of units says there that
    they are written as they were given. Either both files are written or none.
    """
    said = stamp_lines(people, housing)
    deal = Deal.of(people, facilities, housing)

    def person_rows(first: int, last: int) -> Rows:
        district, cell, unit, turn = deal.persons(first, last)
        return Rows(heads(b"MPD1940|3.1.4|", deal.places, district, _CUTS), cell, unit + 1, turn + 1)

    def unit_rows(first: int, last: int) -> Rows:
        district, kind, living = deal.units(first, last)
        return Rows(heads(b"MUD1940|3.1.4|", deal.places, district, _CUTS), kind, np.arange(first, last) + 1, living)

    persons = rendered(
        person_rows,
        people.total(),
        start=_remarks("MDF_PER of 1940, written by tallyveil", *said),
        middles=[b"|"] * PERSONS_1940.cells,
        tails=[_person_tail(cell) for cell in range(PERSONS_1940.cells)],
    )
    units = rendered(
        unit_rows,
        int(deal.first_unit[-1]),
        start=_remarks("MDF_UNIT of 1940, written by tallyveil", *said, HOUSING),
        middles=[_unit_middle(kind) for kind in range(KINDS)],
        tails=[_UNIT_TAIL] * KINDS,
    )
    return write_pair(folder, persons, units)


def read_mdf_1940(
    persons_path: str | os.PathLike[str],
    units_path: str | os.PathLike[str] | None = None,
    *,
    threads: int = 2,
    piece: int = PIECE,
) -> Census1940:
    """Read the two files of one run.

    Without ``units_path`` the file of units is looked for beside the other, ``MDF_UNIT`` in place of ``MDF_PER`` in its
    name. Memory: the counts, and eight bytes for each unit. Districts are those that have a unit. Stamps in the first
    lines of either file are those of the counts.
    """
    path = _beside(Path(persons_path)) if units_path is None else Path(units_path)
    table = _UnitTable()
    with opened(path) as source:
        found = count_rows(source, _UNITS, note_units=True, threads=threads, piece=piece)
        units = added(table.noted(found, source.name))
    refuse_no_rows(path, units)
    with opened(persons_path) as source:
        found = count_rows(source, _PERSONS, units=table.units, threads=threads, piece=piece)
        persons = added(each.tally for each in found)
    _refuse_other_numbers(Path(persons_path), path, persons, units.cells(LIVING, STRIDE))
    said = [*_remarks_in(persons_path), *_remarks_in(path)]
    return Census1940.from_tallies(persons, units.cells(0, KINDS)).stamped(stamps_in(said))


class _UnitTable:
    """The key of each unit's place and kind, by its number; grows as units are read."""

    def __init__(self) -> None:
        self.units = np.full(1024, -1, np.int64)

    def noted(self, found: Iterable[Found], name: str) -> Iterator[Tally]:
        """Pass tallies on, noting the units they come with."""
        rows = 0
        for each in found:
            assert each.units is not None
            number, key = each.units
            rows += len(number)
            largest = int(number.max(initial=0))
            if largest > 16 * rows + 1024:
                raise DataError(
                    f"{name}: EUID {largest} in the first {rows:,} units. EUID must number the units from 0 or 1: "
                    f"number them again in both files."
                )
            if largest >= len(self.units):
                more = np.full(max(largest + 1, 2 * len(self.units)) - len(self.units), -1, np.int64)
                self.units = np.concatenate([self.units, more])
            again = np.sort(number)
            twice = np.append(again[1:][again[1:] == again[:-1]], number[self.units[number] >= 0])
            if len(twice):
                raise DataError(f"{name}: EUID {twice[0]} stands twice. Each unit has a number of its own.")
            self.units[number] = key
            yield each.tally


def _remarks(*lines: str) -> bytes:
    """Lines of metadata, as a file begins with."""
    return "".join(f"# {line}\n" for line in lines).encode()


def _remarks_in(path: str | os.PathLike[str]) -> list[str]:
    """The lines of metadata that a file begins with."""
    lines = []
    with opened(path) as source:
        while (line := source.readline()).startswith(b"#"):
            lines.append(line.decode("utf-8", "replace").removeprefix("#").strip())
    return lines


def _person_tail(cell: int) -> bytes:
    kind, adult, hispanic, race = (int(i) for i in np.unravel_index(cell, PERSONS_1940.shape))
    filled = "|".join(["9999"] * 9)
    return f"|{5 if kind else 3}|99|9|{17 + adult}|{1 + hispanic}|{1 + race}|{filled}|9\n".encode()


def _unit_middle(kind: int) -> bytes:
    if kind in (0, VACANT):
        return b"|2|0|9|0|" if kind == 0 else b"|2|0|0|9|"
    return f"|4|{GQTYPE_OF[kind]}|0|0|".encode()


def _beside(persons: Path) -> Path:
    path = persons.with_name(persons.name.replace("MDF_PER", "MDF_UNIT"))
    if path == persons or not path.exists():
        raise InputError(
            f"{persons}: a file of persons does not say which kind of group quarters they live in, and no file of "
            f"units lies beside it ({path.name}). Give units_path."
        )
    return path


def _refuse_other_numbers(persons_path: Path, units_path: Path, persons: Tally, said: Tally) -> None:
    """FINAL_POP tells a file of persons that was cut short at the end of a line."""
    zero = added([Tally(key=persons.place, count=persons.count), Tally(key=said.place, count=-said.count)])
    if zero.count.any():
        at = int(np.argmax(zero.count != 0))
        place = int(zero.key[at])
        told = int(said.count[said.place == place].sum())
        raise DataError(
            f"{persons_path.name}: enumdist '{place:010d}' has {told + int(zero.count[at]):,} persons, but "
            f"{told:,} by FINAL_POP in {units_path.name}. One file is cut short, or they are of different runs."
        )


def _cells_of_units() -> NDArray[np.int32]:
    """Kind of unit by RTYPE (housing unit, group quarters), GQTYPE and whether vacant."""
    table = np.full((2, 10, 2), -1, np.int32)
    table[0, 0] = 0, VACANT
    for kind, code in list(enumerate(GQTYPE_OF))[1:]:
        table[1, code, 0] = kind
    return table.ravel()


_PLACES = (
    Column(name="STATE", role=PLACE, width=2),
    Column(name="COUNTY", role=PLACE, width=4),
    Column(name="ENUMDIST", role=PLACE, width=4),
    Column(name="EUID", role=UNIT_NUMBER),
)
_START = ("SCHEMA_TYPE_CODE", "SCHEMA_BUILD_ID", "STATE", "COUNTY", "ENUMDIST", "EUID")
_RACES = tuple(f"QRACE{i}" for i in range(1, 9))
_HOUSEHOLD = ("HHT", "HHT2", "NPF", "CPLT", "UPART", "MULTG", "HHLDRAGE", "HHSPAN", "HHRACE", "PAOC")
_AGES = ("P18", "P60", "P65", "P75")
_PERSONS = Layout(
    what="persons",
    names=(*_START, "EPNUM", "RTYPE", "QREL", "QSEX", "QAGE", "CENHISP", "CENRACE", "QSPANX", *_RACES, "CIT"),
    columns=(
        *_PLACES,
        Column(name="RTYPE", codes={3: 0, 5: PER_TYPE}),
        Column(name="QAGE", codes={age: 12 * (age >= 18) for age in range(136)}),
        Column(name="CENHISP", codes={1: 0, 2: 6}),
        Column(name="CENRACE", codes={race: race - 1 for race in range(1, 7)}),
    ),
    cell_of=np.arange(2 * PER_TYPE, dtype=np.int32),
    header=False,
)
_UNITS = Layout(
    what="units",
    names=(*_START, "RTYPE", "GQTYPE", "TEN", "VACS", "FINAL_POP", *_HOUSEHOLD, *_AGES),
    columns=(
        *_PLACES,
        Column(name="RTYPE", codes={2: 0, 4: 20}),
        Column(name="GQTYPE", codes={code: 2 * code for code in GQTYPE_OF}),
        Column(name="VACS", codes={code: int(code > 0) for code in range(10)}),
        Column(name="FINAL_POP", role=PERSONS),
    ),
    cell_of=_cells_of_units(),
    header=False,
)
_UNIT_TAIL = b"|9|99|99|9|9|9|999|9|99|9|99|99|99|99\n"
