"""The microdata detail file of the 2020 redistricting data: persons and units by block, with a header.

A person's row says the type of its quarters, so the files are read apart. A unit's row does not say the type of a
group quarters: what is read back is how many there are.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tallyveil.counts import Counts
from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.files.fixed_width import PIECE, Bytes, Integers, Tally, added, leaf_digits, opened, spine_of, written
from tallyveil.files.mdf import BLOCK_GROUP, PLACE, Column, Layout, count_rows, heads, spread, write_rows
from tallyveil.histogram import Histogram
from tallyveil.schemas import PERSONS_2020, TYPES_2020, UNITS_2020

LENGTHS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
KINDS_2020 = ("housing_unit", "group_quarters")
VACANT, OCCUPIED, GROUP_QUARTERS = range(3)


@dataclass(frozen=True, kw_only=True, eq=False)
class Census2020:
    """The 2020 census as counts.

    Attributes
    ----------
    people
        Persons by block and cell.
    facilities
        Housing units and group quarters by block (the files do not say the type), if units were read.
    housing
        Housing units, vacant and occupied, if units were read.
    """

    people: Histogram
    facilities: Facilities | None = None
    housing: Histogram | None = None


def write_mdf_2020(
    people: Histogram, facilities: Facilities, housing: Histogram, folder: str | os.PathLike[str]
) -> tuple[Path, Path]:
    """Write ``MDF_PER.dat`` and ``MDF_UNIT.dat`` into a folder, and give back their paths.

    Rows are sorted by block and persons numbered from 1. A block with neither persons nor units leaves no row. Either
    both files are written or none.
    """
    _refuse_other_parts(people, facilities, housing)
    places = leaf_digits(people.spine, LENGTHS)
    persons, units = Path(folder) / "MDF_PER.dat", Path(folder) / "MDF_UNIT.dat"
    with ExitStack() as files:
        tails = [_person_tail(cell) for cell in range(PERSONS_2020.cells)]
        out = files.enter_context(written(persons))
        _write_counts(out, PERSONS, places, people.leaves, tails=tails, numbered=True)
        out = files.enter_context(written(units))
        built = _built(facilities, housing)
        _write_counts(out, UNITS, places, built, tails=[b"2|2\n", b"2|1\n", b"4|0\n"], numbered=False)
    return persons, units


def read_mdf_2020(
    persons_path: str | os.PathLike[str],
    units_path: str | os.PathLike[str] | None = None,
    *,
    threads: int = 2,
    piece: int = PIECE,
) -> Census2020:
    """Read persons, and units if their file is given; blocks are those that either file lists."""
    persons = _tally(persons_path, PERSONS, threads=threads, piece=piece)
    if units_path is None:
        blocks = np.unique(persons.key // PERSONS.stride)
        _refuse_no_rows(persons_path, blocks)
        return Census2020(people=_histogram(persons, PERSONS, blocks))
    units = _tally(units_path, UNITS, threads=threads, piece=piece)
    blocks = np.union1d(persons.key // PERSONS.stride, units.key // UNITS.stride)
    _refuse_no_rows(units_path, blocks)
    people = _histogram(persons, PERSONS, blocks)
    block, kind = np.searchsorted(blocks, units.key // UNITS.stride), units.key % UNITS.stride
    home = kind != GROUP_QUARTERS
    return Census2020(
        people=people,
        facilities=Facilities.from_entries(
            people.spine, attribute="kind", types=KINDS_2020, unit=block, kind=(~home), count=units.count
        ),
        housing=Histogram.from_entries(
            people.spine, UNITS_2020, unit=block[home], cell=kind[home], count=units.count[home]
        ),
    )


def _tally(path: str | os.PathLike[str], layout: Layout, *, threads: int, piece: int) -> Tally:
    with opened(path) as source:
        return added(found.tally for found in count_rows(source, layout, threads=threads, piece=piece))


def _histogram(tally: Tally, layout: Layout, blocks: Integers) -> Histogram:
    unit, cell = np.searchsorted(blocks, tally.key // layout.stride), tally.key % layout.stride
    return Histogram.from_entries(spine_of(blocks, LENGTHS), PERSONS_2020, unit=unit, cell=cell, count=tally.count)


def _write_counts(
    out: IO[bytes], layout: Layout, places: Bytes, counts: Counts, *, tails: list[bytes], numbered: bool
) -> None:
    """Write a row for each one counted, with its number or not."""
    ends = np.append(0, np.cumsum(counts.count, dtype=np.int64))
    prefix = b"MPD2020|1.1.0|" if numbered else b"MUD2020|1.1.0|"
    cuts = (slice(0, 2), slice(2, 5), slice(5, 11), slice(11, 12), slice(11, 15))

    def rows(first: int, last: int) -> tuple[Bytes, Integers, Integers, Integers, Integers]:
        entry = spread(ends, first, last)
        block = np.searchsorted(counts.start, entry, side="right") - 1
        low, none = int(block[0]), np.full(last - first, -1, np.int64)
        number = np.arange(first, last) + 1 if numbered else none
        table = heads(prefix, places[low : int(block[-1]) + 1], cuts)
        return table, block - low, counts.cell[entry].astype(np.int64), number, none

    out.write("|".join(layout.names).encode() + b"\n")
    middle = b"|" if numbered else b""
    for piece in write_rows(rows, int(ends[-1]), middles=[middle] * len(tails), tails=tails):
        out.write(piece)


def _person_tail(cell: int) -> bytes:
    kind, adult, hispanic, race = (int(i) for i in np.unravel_index(cell, PERSONS_2020.shape))
    return f"{5 if kind else 3}|{kind}|{1 + adult}|{1 + hispanic}|{1 + race:02d}\n".encode()


def _built(facilities: Facilities, housing: Histogram) -> Counts:
    """Vacant and occupied housing units and group quarters, by block."""
    quarters = facilities.leaves.cell > 0
    unit = np.concatenate([housing.leaves.unit(), facilities.leaves.unit()[quarters]])
    cell = np.concatenate([housing.leaves.cell, np.full(int(quarters.sum()), GROUP_QUARTERS, np.uint16)])
    count = np.concatenate([housing.leaves.count, facilities.leaves.count[quarters]])
    return Counts.from_entries(unit, cell, count, units=housing.leaves.units, cells=3)


def _refuse_other_parts(people: Histogram, facilities: Facilities, housing: Histogram) -> None:
    if people.schema != PERSONS_2020 or housing.schema != UNITS_2020 or facilities.types != TYPES_2020:
        raise InputError(
            "a file of the 2020 census holds people on schemas.PERSONS_2020, facilities of schemas.TYPES_2020 and "
            "housing on schemas.UNITS_2020. Build the parts on those."
        )
    if not people.spine == facilities.spine == housing.spine:
        raise InputError("people, facilities and housing stand on different spines. Build them on one.")
    homes = np.zeros(housing.leaves.units, np.int64)
    np.add.at(homes, housing.leaves.unit(), housing.leaves.count)
    households = facilities.leaves.cell == 0
    np.subtract.at(homes, facilities.leaves.unit()[households], facilities.leaves.count[households])
    if homes.any():
        at = int(np.argmax(homes != 0))
        code = bytes(housing.spine.codes[-1][at]).decode()
        raise InputError(
            f"block {code!r}: facilities and housing differ by {abs(int(homes[at])):,} housing units. In 2020 the "
            f"first type of facilities counts all housing units, the vacant ones too: correct one of them."
        )


def _refuse_no_rows(path: str | os.PathLike[str], blocks: Integers) -> None:
    if len(blocks) == 0:
        raise InputError(f"{path}: the file has no rows. Fetch it again, or name another.")


def _cells_of_persons() -> NDArray[np.int32]:
    """Cell by RTYPE (household, group quarters) and the four attributes; impossible combinations are -1."""
    cells = np.where(PERSONS_2020.possible, np.arange(PERSONS_2020.cells), -1).reshape(len(TYPES_2020), -1)
    table = np.full((2, *cells.shape), -1, np.int32)
    table[0, 0], table[1, 1:] = cells[0], cells[1:]
    return table.ravel()


_PLACES = (
    Column(name="TABBLKST", role=PLACE, width=2),
    Column(name="TABBLKCOU", role=PLACE, width=3),
    Column(name="TABTRACTCE", role=PLACE, width=6),
    Column(name="TABBLKGRPCE", role=BLOCK_GROUP, width=1),
    Column(name="TABBLK", role=PLACE, width=4),
)
_START = ("SCHEMA_TYPE_CODE", "SCHEMA_BUILD_ID", *(column.name for column in _PLACES))
PERSONS = Layout(
    what="persons",
    names=(*_START, "EPNUM", "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"),
    columns=(
        *_PLACES,
        Column(name="RTYPE", codes={3: 0, 5: PERSONS_2020.cells}),
        Column(name="GQTYPE_PL", codes={kind: 252 * kind for kind in range(8)}),
        Column(name="VOTING_AGE", codes={1: 0, 2: 126}),
        Column(name="CENHISP", codes={1: 0, 2: 63}),
        Column(name="CENRACE", width=2, codes={race: race - 1 for race in range(1, 64)}),
    ),
    cell_of=_cells_of_persons(),
    cells=PERSONS_2020.cells,
    header=True,
)
UNITS = Layout(
    what="units",
    names=(*_START, "RTYPE", "HH_STATUS"),
    columns=(
        *_PLACES,
        Column(name="RTYPE", codes={2: 0, 4: 3}),
        Column(name="HH_STATUS", codes={0: 0, 1: 1, 2: 2}),
    ),
    cell_of=np.array([-1, OCCUPIED, VACANT, GROUP_QUARTERS, -1, -1], dtype=np.int32),
    cells=3,
    header=True,
)
