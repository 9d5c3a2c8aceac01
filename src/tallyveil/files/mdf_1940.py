"""The microdata detail file of the 2018 end-to-end test, run on the 1940 census: ``MDF_PER`` and ``MDF_UNIT``.

Persons have 23 fields and units 25, without a header, after lines of metadata that begin with ``#``. A person's row
does not say which kind of group quarters it is; the unit's row does, and EUID joins them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.files.fixed_width import (
    PIECE,
    Bytes,
    Found,
    Integers,
    Tally,
    added,
    leaf_digits,
    opened,
    spine_of,
    written,
)
from tallyveil.files.mdf import (
    PERSONS,
    PLACE,
    UNIT_NUMBER,
    Column,
    Layout,
    count_rows,
    heads,
    spread,
    write_rows,
)
from tallyveil.histogram import Histogram
from tallyveil.schemas import PERSONS_1940, TYPES_1940, UNITS_2020

LENGTHS = {"state": 2, "county": 6, "enumdist": 10}
# The code of IPUMS for each of our types: correctional 2 ... other 9; 1 and 5 do not occur in 1940.
GQTYPE_OF = (0, 2, 3, 4, 6, 7, 8, 9)
VACANT = len(TYPES_1940)  # the ninth kind of unit
KINDS = VACANT + 1
PER_TYPE = PERSONS_1940.cells // len(TYPES_1940)


@dataclass(frozen=True, kw_only=True, eq=False)
class Census1940:
    """The 1940 census as counts.

    Attributes
    ----------
    people
        Persons by enumeration district and cell.
    facilities
        Occupied housing units and group quarters by type.
    housing
        Housing units, vacant and occupied.
    dropped
        Persons left out because no unit was theirs.
    """

    people: Histogram
    facilities: Facilities
    housing: Histogram
    dropped: int = 0

    @classmethod
    def from_tallies(cls, persons: Tally, units: Tally, *, dropped: int = 0) -> Census1940:
        """Build from persons (district times 192 plus cell) and units (district times 9 plus kind)."""
        districts = np.unique(units.key // KINDS)
        spine = spine_of(districts, LENGTHS)
        district, kind = np.searchsorted(districts, units.key // KINDS), units.key % KINDS
        built, home = kind < VACANT, (kind == 0) | (kind == VACANT)
        return cls(
            people=Histogram.from_entries(
                spine,
                PERSONS_1940,
                unit=np.searchsorted(districts, persons.key // PERSONS_1940.cells),
                cell=persons.key % PERSONS_1940.cells,
                count=persons.count,
            ),
            facilities=Facilities.from_entries(
                spine,
                attribute="hhgq",
                types=TYPES_1940,
                unit=district[built],
                kind=kind[built],
                count=units.count[built],
            ),
            housing=Histogram.from_entries(
                spine, UNITS_2020, unit=district[home], cell=(kind[home] == 0), count=units.count[home]
            ),
            dropped=dropped,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Deal:
    """Persons dealt to the units of their type in their district, in turn: all first persons, then all second ones.

    Persons are numbered by district, then cell; units by district, then kind (eight types, then vacant).
    """

    people: Histogram
    places: Bytes  # the digits of each district
    built: Integers  # units by district and kind
    living: Integers  # persons by district and kind
    first_person: Integers  # of each entry of the counts, and the end
    first_of_type: Integers  # the first person of the entry's type in its district
    first_unit: Integers  # of each district and kind, and the end

    @classmethod
    def of(cls, people: Histogram, facilities: Facilities, housing: Histogram) -> Deal:
        """Check that the parts belong together, and deal."""
        _refuse_other_parts(people, facilities, housing)
        leaves, districts = people.leaves, people.leaves.units
        built = np.zeros((districts, KINDS), np.int64)
        built[:, :VACANT] = facilities.leaves.dense()
        built[:, VACANT] = housing.leaves.dense()[:, 0]
        _refuse_other_households(housing, built)
        group = leaves.unit() * KINDS + leaves.cell // PER_TYPE
        first_person = np.append(0, np.cumsum(leaves.count, dtype=np.int64))
        new = np.append(True, group[1:] != group[:-1])[: len(group)]
        living = np.zeros(districts * KINDS, np.int64)
        np.add.at(living, group, leaves.count)
        _refuse_homeless(people, living.reshape(districts, KINDS), built)
        return cls(
            people=people,
            places=leaf_digits(people.spine, LENGTHS),
            built=built,
            living=living.reshape(districts, KINDS),
            first_person=first_person,
            first_of_type=np.maximum.accumulate(np.where(new, first_person[:-1], 0)),
            first_unit=np.append(0, np.cumsum(built)),
        )

    def persons(self, first: int, last: int) -> tuple[Integers, Integers, Integers, Integers]:
        """District, cell, unit and round (from 0) of the persons ``first`` to ``last``."""
        entry = spread(self.first_person, first, last)
        district = np.searchsorted(self.people.leaves.start, entry, side="right") - 1
        cell = self.people.leaves.cell[entry].astype(np.int64)
        group = district * KINDS + cell // PER_TYPE
        turn, among = np.arange(first, last) - self.first_of_type[entry], self.built.ravel()[group]
        return district, cell, self.first_unit[group] + turn % among, turn // among

    def units(self, first: int, last: int) -> tuple[Integers, Integers, Integers]:
        """District, kind and number of persons of the units ``first`` to ``last``."""
        group = spread(self.first_unit, first, last)
        among, living = self.built.ravel()[group], self.living.ravel()[group]
        extra = np.arange(first, last) - self.first_unit[group] < living % among
        return group // KINDS, group % KINDS, living // among + extra


def write_mdf_1940(
    people: Histogram, facilities: Facilities, housing: Histogram, folder: str | os.PathLike[str]
) -> tuple[Path, Path]:
    """Write ``MDF_PER.dat`` and ``MDF_UNIT.dat`` into a folder, and give back their paths.

    Persons are dealt to units as the Bureau does, units are numbered from 1, and a district without units leaves no
    row. Either both files are written or none.
    """
    deal = Deal.of(people, facilities, housing)
    persons, units = Path(folder) / "MDF_PER.dat", Path(folder) / "MDF_UNIT.dat"

    def person_rows(first: int, last: int) -> tuple[Bytes, Integers, Integers, Integers, Integers]:
        district, cell, unit, turn = deal.persons(first, last)
        return *_heads(b"MPD1940", deal, district), cell, unit + 1, turn + 1

    def unit_rows(first: int, last: int) -> tuple[Bytes, Integers, Integers, Integers, Integers]:
        district, kind, living = deal.units(first, last)
        return *_heads(b"MUD1940", deal, district), kind, np.arange(first, last) + 1, living

    with ExitStack() as files:
        out = files.enter_context(written(persons))
        out.write(b"# MDF_PER of 1940, written by tallyveil\n")
        tails = [_person_tail(cell) for cell in range(PERSONS_1940.cells)]
        for piece in write_rows(person_rows, people.total(), middles=[b"|"] * len(tails), tails=tails):
            out.write(piece)
        out = files.enter_context(written(units))
        out.write(b"# MDF_UNIT of 1940, written by tallyveil\n")
        middles = [_unit_middle(kind) for kind in range(KINDS)]
        for piece in write_rows(unit_rows, int(deal.first_unit[-1]), middles=middles, tails=[_UNIT_TAIL] * KINDS):
            out.write(piece)
    return persons, units


def read_mdf_1940(
    persons_path: str | os.PathLike[str],
    units_path: str | os.PathLike[str] | None = None,
    *,
    threads: int = 2,
    piece: int = PIECE,
) -> Census1940:
    """Read the two files of one run.

    Without ``units_path`` the file of units is looked for beside the other, ``MDF_UNIT`` in place of ``MDF_PER`` in its
    name. Memory: the counts, and eight bytes for each unit. Districts are those that have a unit.
    """
    path = _beside(Path(persons_path)) if units_path is None else Path(units_path)
    table = _UnitTable()
    with opened(path) as source:
        found = count_rows(source, UNITS, note_units=True, threads=threads, piece=piece)
        both = added(table.noted(found, source.name))
    if len(both.key) == 0:
        raise InputError(f"{path}: the file has no rows. Fetch it again, or name another.")
    with opened(persons_path) as source:
        found = count_rows(source, PERSONS_OF_1940, units=table.units, threads=threads, piece=piece)
        persons = added(piece.tally for piece in found)
    cell = both.key % UNITS.stride
    said = Tally(key=both.key[cell == KINDS] // UNITS.stride, count=both.count[cell == KINDS])
    _refuse_other_numbers(Path(persons_path), path, persons, said)
    return Census1940.from_tallies(
        Tally(
            key=persons.key // PERSONS_OF_1940.stride * PERSONS_1940.cells + persons.key % PERSONS_OF_1940.stride,
            count=persons.count,
        ),
        Tally(key=both.key[cell < KINDS] // UNITS.stride * KINDS + cell[cell < KINDS], count=both.count[cell < KINDS]),
    )


class _UnitTable:
    """Place and kind of each unit, by its number; grows as units are read."""

    def __init__(self) -> None:
        self.units, self._size = np.full(1024, -1, np.int64), 0

    def noted(self, found: Iterable[Found], name: str) -> Iterator[Tally]:
        """Pass tallies on, noting the units they come with."""
        rows = 0
        for each in found:
            assert each.rows is not None
            number, place = each.rows
            rows += len(number)
            largest = int(number.max(initial=0))
            if largest > 16 * rows + 1024:
                raise InputError(
                    f"{name}: EUID {largest} in the first {rows:,} units. EUID must number the units from 0 or 1: "
                    f"number them again in both files."
                )
            if largest >= len(self.units):
                more = np.full(max(largest + 1, 2 * len(self.units)) - len(self.units), -1, np.int64)
                self.units = np.concatenate([self.units, more])
            again = np.sort(number)
            twice = np.append(again[1:][again[1:] == again[:-1]], number[self.units[number] >= 0])
            if len(twice):
                raise InputError(f"{name}: EUID {twice[0]} stands twice. Each unit has a number of its own.")
            self.units[number] = place
            yield each.tally


def _heads(kind: bytes, deal: Deal, district: Integers) -> tuple[Bytes, Integers]:
    """The beginnings of rows for the districts in question, and which one each row has."""
    low, high = int(district.min(initial=len(deal.places))), int(district.max(initial=-1))
    cuts = (slice(0, 2), slice(2, 6), slice(6, 10))
    return heads(kind + b"|3.1.4|", deal.places[low : high + 1], cuts), district - low


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


def _refuse_other_parts(people: Histogram, facilities: Facilities, housing: Histogram) -> None:
    if people.schema != PERSONS_1940 or housing.schema != UNITS_2020 or facilities.types != TYPES_1940:
        raise InputError(
            "a file of the 1940 census holds people on schemas.PERSONS_1940, facilities of schemas.TYPES_1940 and "
            "housing on schemas.UNITS_2020. Build the parts on those."
        )
    if not people.spine == facilities.spine == housing.spine:
        raise InputError("people, facilities and housing stand on different spines. Build them on one.")


def _refuse_other_households(housing: Histogram, built: Integers) -> None:
    occupied = housing.leaves.dense()[:, 1]
    if (occupied != built[:, 0]).any():
        at = int(np.argmax(occupied != built[:, 0]))
        raise InputError(
            f"enumdist {_code(housing, at)!r} has {built[at, 0]:,} households but {occupied[at]:,} occupied housing "
            f"units. In 1940 they are the same: correct facilities or housing."
        )


def _refuse_homeless(people: Histogram, living: Integers, built: Integers) -> None:
    homeless = (living > 0) & (built == 0)
    if homeless.any():
        at, kind = (int(i) for i in np.argwhere(homeless)[0])
        raise InputError(
            f"enumdist {_code(people, at)!r} has {living[at, kind]:,} persons of type {TYPES_1940[kind]!r} but no such "
            f"unit to deal them to. Correct people or facilities."
        )


def _refuse_other_numbers(persons_path: Path, units_path: Path, persons: Tally, said: Tally) -> None:
    """FINAL_POP tells a file of persons that was cut short at the end of a line."""
    living = added([Tally(key=persons.key // PERSONS_OF_1940.stride, count=persons.count)])
    zero = added([living, Tally(key=said.key, count=-said.count)])
    if zero.count.any():
        at = int(np.argmax(zero.count != 0))
        place = int(zero.key[at])
        told = int(said.count[said.key == place].sum())
        raise InputError(
            f"{persons_path.name}: enumdist '{place:010d}' has {told + int(zero.count[at]):,} persons, but "
            f"{told:,} by FINAL_POP in {units_path.name}. One file is cut short, or they are of different runs."
        )


def _code(histogram: Histogram, at: int) -> str:
    return bytes(histogram.spine.codes[-1][at]).decode()


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
PERSONS_OF_1940 = Layout(
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
    cells=PERSONS_1940.cells,
    header=False,
)
UNITS = Layout(
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
    cells=KINDS,
    header=False,
)
_UNIT_TAIL = b"|9|99|99|9|9|9|999|9|99|9|99|99|99|99\n"
