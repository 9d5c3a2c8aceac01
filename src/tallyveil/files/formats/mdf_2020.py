"""The microdata detail file of the 2020 redistricting data: persons and units by block, with a header.

A person's row gives the type of group quarters, so the files are read separately. A unit's row does not, so only the
number of group quarters is read back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import DataError
from tallyveil.files.formats.census import BLOCK, Census2020, refuse_other_parts
from tallyveil.files.formats.deal import spread
from tallyveil.files.formats.lines import PIECE_BYTES, Bytes, opened
from tallyveil.files.formats.mdf_layout import BLOCK_GROUP, PLACE, Column, FileLayout
from tallyveil.files.formats.mdf_read import count_rows, refuse_no_rows
from tallyveil.files.formats.mdf_write import Pieces, Rows, heads, rendered, write_pair
from tallyveil.files.formats.piecewise import PlaceCounts, add_up
from tallyveil.files.formats.places import leaf_digits
from tallyveil.files.tables.geography import unit_code
from tallyveil.files.tables.stamps import STAMPS, read_stamps, stamp_lines
from tallyveil.nouns.census_schemas import PERSONS_2020, TYPES_2020
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.sentences import HOUSING

LaidOut = tuple[str | os.PathLike[str], FileLayout]  # a file and its layout
VACANT_UNIT, OCCUPIED_UNIT, GROUP_QUARTERS = range(3)
_CUTS = (slice(0, 2), slice(2, 5), slice(5, 11), slice(11, 12), slice(11, 15))


def write_mdf_2020(
    people: Histogram, facilities: Facilities, housing: Histogram, folder: str | os.PathLike[str]
) -> tuple[Path, Path]:
    """Write ``MDF_PER.dat`` and ``MDF_UNIT.dat`` into a folder, and return their paths.

    Rows are sorted by block and persons numbered from 1. A block with neither persons nor units has no row. The format
    has no comments, so ``STAMPS.txt`` beside the files holds the stamps of people and housing, and states that no noise
    was added to the units. Either all files are written or none.
    """
    refuse_other_parts(people, facilities, housing, year=2020)
    _refuse_other_homes(facilities, housing)
    places = leaf_digits(people.spine, BLOCK)
    built, kinds = _built(facilities, housing), (b"2|2\n", b"2|1\n", b"4|0\n")
    persons = mdf_2020_persons(people)
    units = _rendered(UNITS_LAYOUT, b"MUD2020|1.1.0|", places, built, tails=kinds, numbered=False)
    return write_pair(folder, persons, units, remarks=[*stamp_lines(people, housing), f"MDF_UNIT.dat: {HOUSING}"])


def mdf_2020_persons(people: Histogram) -> Pieces:
    """The content of ``MDF_PER.dat``, in pieces."""
    places = leaf_digits(people.spine, BLOCK)
    return _rendered(PERSONS_LAYOUT, b"MPD2020|1.1.0|", places, people.leaves, tails=_person_tails(), numbered=True)


def read_mdf_2020(
    persons_path: str | os.PathLike[str],
    units_path: str | os.PathLike[str] | None = None,
    *,
    threads: int = 2,
    piece: int = PIECE_BYTES,
) -> Census2020:
    """Read persons, and units if their file is given; blocks are those that either file lists.

    The counts get the stamps in ``STAMPS.txt`` beside the file of persons.
    """
    return read_blocks(
        (persons_path, PERSONS_LAYOUT), None if units_path is None else (units_path, UNITS_LAYOUT),
        threads=threads, piece=piece,
    )  # fmt: skip


def read_blocks(persons: LaidOut, units: LaidOut | None, *, threads: int, piece: int) -> Census2020:
    """Read files of persons and units by block, each with its layout."""
    people = _place_counts(*persons, threads=threads, piece=piece)
    built = None if units is None else _place_counts(*units, threads=threads, piece=piece)
    refuse_no_rows((units or persons)[0], people if built is None else add_up([people, built]))
    return Census2020.from_counts(people, built).stamped(read_stamps(Path(persons[0]).with_name(STAMPS)))


def _place_counts(path: str | os.PathLike[str], layout: FileLayout, *, threads: int, piece: int) -> PlaceCounts:
    with opened(path) as source:
        return add_up(part.counts for part in count_rows(source, layout, threads=threads, piece=piece))


def _rendered(
    layout: FileLayout, prefix: bytes, places: Bytes, counts: Counts, *, tails: Sequence[bytes], numbered: bool
) -> Pieces:
    """A file with one row per person or unit counted; ``numbered`` rows carry their number."""
    ends = np.append(0, np.cumsum(counts.count, dtype=np.int64))

    def rows(first: int, last: int) -> Rows:
        entry = spread(ends, first, last)
        block = np.searchsorted(counts.start, entry, side="right") - 1
        none = np.full(last - first, -1, np.int64)
        number = np.arange(first, last) + 1 if numbered else none
        return Rows(heads(prefix, places, block, _CUTS), counts.cell[entry].astype(np.int64), number, none)

    start = "|".join(layout.names).encode() + b"\n"
    middles = [b"|" if numbered else b""] * len(tails)
    return rendered(rows, int(ends[-1]), start=start, middles=middles, tails=tails)


@cache
def _person_tails() -> tuple[bytes, ...]:
    """The end of a person's row, by cell."""
    return tuple(
        f"{5 if kind else 3}|{kind}|{1 + adult}|{1 + hispanic}|{1 + race:02d}\n".encode()
        for kind, adult, hispanic, race in np.ndindex(PERSONS_2020.shape)
    )


def _built(facilities: Facilities, housing: Histogram) -> Counts:
    """Vacant and occupied housing units and group quarters, by block."""
    quarters = facilities.leaves.cell > 0
    unit = np.concatenate([housing.leaves.unit(), facilities.leaves.unit()[quarters]])
    cell = np.concatenate([housing.leaves.cell, np.full(int(quarters.sum()), GROUP_QUARTERS, np.uint16)])
    count = np.concatenate([housing.leaves.count, facilities.leaves.count[quarters]])
    return Counts.from_entries(unit, cell, count, units=housing.leaves.units, cells=3)


def _refuse_other_homes(facilities: Facilities, housing: Histogram) -> None:
    homes = np.zeros(housing.leaves.units, np.int64)
    np.add.at(homes, housing.leaves.unit(), housing.leaves.count)
    households = facilities.leaves.cell == 0
    np.subtract.at(homes, facilities.leaves.unit()[households], facilities.leaves.count[households])
    if homes.any():
        block = int(np.argmax(homes != 0))
        code = unit_code(housing.spine, housing.spine.leaf, block)
        raise DataError(
            f"block {code!r}: facilities and housing differ by {abs(int(homes[block])):,} housing "
            f"units. In 2020 the first type of facilities counts all housing units, including vacant ones: "
            f"correct one of them."
        )


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
PERSONS_LAYOUT = FileLayout(
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
    header=True,
)
UNITS_LAYOUT = FileLayout(
    what="units",
    names=(*_START, "RTYPE", "HH_STATUS"),
    columns=(
        *_PLACES,
        Column(name="RTYPE", codes={2: 0, 4: 3}),
        Column(name="HH_STATUS", codes={0: 0, 1: 1, 2: 2}),
    ),
    cell_of=np.array([-1, OCCUPIED_UNIT, VACANT_UNIT, GROUP_QUARTERS, -1, -1], dtype=np.int32),
    header=True,
)
