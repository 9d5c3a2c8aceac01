"""The microdata detail file of the 2018 end-to-end test, run on the 1940 census: ``MDF_PER`` and ``MDF_UNIT``.

Persons have 23 fields and units 25, without a header, after lines of metadata that begin with ``#``. A person's row
does not give the type of group quarters; the unit's row does, and EUID joins them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import DataError, InputError
from tallyveil.files.formats.census import GQTYPE_OF, KINDS, PER_TYPE, VACANT, Census1940
from tallyveil.files.formats.deal import Deal
from tallyveil.files.formats.lines import PIECE_BYTES, opened
from tallyveil.files.formats.mdf_layout import PERSONS, PLACE, UNIT_NUMBER, Column, FileLayout
from tallyveil.files.formats.mdf_read import LIVING, count_rows, refuse_no_rows
from tallyveil.files.formats.mdf_write import Pieces, Rows, heads, rendered, write_pair
from tallyveil.files.formats.piecewise import STRIDE, PieceCounts, PlaceCounts, add_up
from tallyveil.files.tables.stamps import stamp_lines, stamps_in
from tallyveil.nouns.census_schemas import PERSONS_1940
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.sentences import HOUSING

_CUTS = (slice(0, 2), slice(2, 6), slice(6, 10))


def write_mdf_1940(
    people: Histogram, facilities: Facilities, housing: Histogram, folder: str | os.PathLike[str]
) -> tuple[Path, Path]:
    """Write ``MDF_PER.dat`` and ``MDF_UNIT.dat`` into a folder, and return their paths.

    Persons are assigned to units as the Bureau does, units are numbered from 1, and a district without units has no
    row. The first lines of both files hold the stamps of people and housing; the file of units also states there that
    no noise was added to them. Either both files are written or none.
    """
    return write_pair(folder, *mdf_1940_pieces(people, facilities, housing))


def mdf_1940_pieces(people: Histogram, facilities: Facilities, housing: Histogram) -> tuple[Pieces, Pieces]:
    """The content of both files, in pieces; counts that they cannot hold are refused at once."""
    stamps = stamp_lines(people, housing)
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
        start=_remarks("MDF_PER of 1940, written by tallyveil", *stamps),
        middles=[b"|"] * PERSONS_1940.cells,
        tails=[_person_tail(cell) for cell in range(PERSONS_1940.cells)],
    )
    units = rendered(
        unit_rows,
        int(deal.first_unit[-1]),
        start=_remarks("MDF_UNIT of 1940, written by tallyveil", *stamps, HOUSING),
        middles=[_unit_middle(kind) for kind in range(KINDS)],
        tails=[_UNIT_TAIL] * KINDS,
    )
    return persons, units


def read_mdf_1940(
    persons_path: str | os.PathLike[str],
    units_path: str | os.PathLike[str] | None = None,
    *,
    threads: int = 2,
    piece: int = PIECE_BYTES,
) -> Census1940:
    """Read the two files of one run.

    Without ``units_path`` the file of units is expected beside the other, with ``MDF_UNIT`` in place of ``MDF_PER`` in
    its name. Memory holds the counts, and eight bytes per unit. Districts are those that have a unit. The counts get
    the stamps in the first lines of either file.
    """
    path = _beside(Path(persons_path)) if units_path is None else Path(units_path)
    table = _UnitTable()
    with opened(path) as source:
        parts = count_rows(source, _UNITS, note_units=True, threads=threads, piece=piece)
        units = add_up(table.noted(parts, source.name))
    refuse_no_rows(path, units)
    with opened(persons_path) as source:
        parts = count_rows(source, _PERSONS, units=table.units, threads=threads, piece=piece)
        persons = add_up(part.counts for part in parts)
    _refuse_other_numbers(Path(persons_path), path, persons, units.cells(LIVING, STRIDE))
    remarks = [*_remarks_in(persons_path), *_remarks_in(path)]
    return Census1940.from_counts(persons, units.cells(0, KINDS)).stamped(stamps_in(remarks))


class _UnitTable:
    """The key of each unit's place and kind, by its number; grows as units are read."""

    def __init__(self) -> None:
        self.units = np.full(1024, -1, np.int64)

    def noted(self, parts: Iterable[PieceCounts], name: str) -> Iterator[PlaceCounts]:
        """Pass the counts of pieces on, and note the units in them."""
        rows = 0
        for part in parts:
            assert part.units is not None
            number, key = part.units
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
                raise DataError(f"{name}: EUID {twice[0]} occurs twice. Give each unit its own number.")
            self.units[number] = key
            yield part.counts


def _remarks(*lines: str) -> bytes:
    """The lines of metadata at the beginning of a file."""
    return "".join(f"# {line}\n" for line in lines).encode()


def _remarks_in(path: str | os.PathLike[str]) -> list[str]:
    """The lines of metadata at the beginning of a file, read back."""
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
            f"{persons}: a file of persons does not give their type of group quarters, and there is no file of units "
            f"beside it (named with MDF_UNIT in place of MDF_PER). Put it there, or give units_path."
        )
    return path


def _refuse_other_numbers(persons_path: Path, units_path: Path, persons: PlaceCounts, stated: PlaceCounts) -> None:
    """Compare with FINAL_POP, which reveals a file of persons that was cut short at the end of a line."""
    difference = add_up(
        [PlaceCounts(key=persons.place, count=persons.count), PlaceCounts(key=stated.place, count=-stated.count)]
    )
    if difference.count.any():
        entry = int(np.argmax(difference.count != 0))
        place = int(difference.key[entry])
        expected = int(stated.count[stated.place == place].sum())
        raise DataError(
            f"{persons_path.name}: enumdist '{place:010d}' has {expected + int(difference.count[entry]):,} persons, "
            f"but {expected:,} by FINAL_POP in {units_path.name}. One file is cut short, or they are of different runs."
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
_PERSONS = FileLayout(
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
_UNITS = FileLayout(
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
