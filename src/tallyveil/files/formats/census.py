"""The censuses of 1940 and 2020 as counts, built from the counts in a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tallyveil.errors import DataError
from tallyveil.files.formats.piecewise import PlaceCounts
from tallyveil.files.formats.places import spine_from_numbers
from tallyveil.files.tables.stamps import stamped
from tallyveil.nouns.census_schemas import PERSONS_1940, PERSONS_2020, TYPES_1940, TYPES_2020, UNITS_2020
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine

DISTRICT = {"state": 2, "county": 6, "enumdist": 10}
BLOCK = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
# The code of IPUMS for each type of 1940: correctional 2 ... other 9; 1 and 5 do not occur.
GQTYPE_OF = (0, 2, 3, 4, 6, 7, 8, 9)
VACANT = len(TYPES_1940)  # the ninth kind of unit
KINDS = VACANT + 1
PER_TYPE = PERSONS_1940.cells // len(TYPES_1940)
KINDS_2020 = ("housing_unit", "group_quarters")


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
        Persons left out because they belong to no unit.
    """

    people: Histogram
    facilities: Facilities
    housing: Histogram
    dropped: int = 0

    @classmethod
    def from_counts(
        cls, persons: PlaceCounts, units: PlaceCounts, *, schema: Schema = PERSONS_1940, dropped: int = 0
    ) -> Census1940:
        """Build from persons by cell and units by kind (eight types, then vacant)."""
        districts = np.unique(units.place)
        spine = spine_from_numbers(districts, DISTRICT)
        district, kind, count = np.searchsorted(districts, units.place), units.cell, units.count
        built, home = kind < VACANT, (kind == 0) | (kind == VACANT)
        built_here = Facilities.from_entries(
            spine, attribute="hhgq", types=TYPES_1940, unit=district[built], kind=kind[built], count=count[built]
        )
        return cls(
            people=_histogram(spine, schema, persons, districts),
            facilities=replace(built_here, from_people=True),
            housing=Histogram.from_entries(
                spine, UNITS_2020, unit=district[home], cell=(kind[home] == 0), count=count[home]
            ),
            dropped=dropped,
        )

    def stamped(self, stamps: Iterable[str]) -> Census1940:
        """The same counts with further stamps."""
        stamps = tuple(stamps)
        return replace(self, people=stamped(self.people, stamps), housing=stamped(self.housing, stamps))


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

    @classmethod
    def from_counts(cls, persons: PlaceCounts, units: PlaceCounts | None) -> Census2020:
        """Build from persons by cell and units by kind (vacant, occupied, group quarters)."""
        blocks = np.unique(persons.place) if units is None else np.union1d(persons.place, units.place)
        spine = spine_from_numbers(blocks, BLOCK)
        people = _histogram(spine, PERSONS_2020, persons, blocks)
        if units is None:
            return cls(people=people)
        quarters = units.cell == UNITS_2020.cells
        unit = np.searchsorted(blocks, units.place)
        built = Facilities.from_entries(
            spine, attribute="kind", types=KINDS_2020, unit=unit, kind=quarters, count=units.count
        )
        return cls(
            people=people,
            facilities=replace(built, from_people=True),
            housing=_histogram(spine, UNITS_2020, units.cells(0, UNITS_2020.cells), blocks),
        )

    def stamped(self, stamps: Iterable[str]) -> Census2020:
        """The same counts with further stamps."""
        stamps = tuple(stamps)
        housing = None if self.housing is None else stamped(self.housing, stamps)
        return replace(self, people=stamped(self.people, stamps), housing=housing)


def refuse_other_parts(people: Histogram, facilities: Facilities, housing: Histogram, *, year: int) -> None:
    """Refuse counts on other schemas or spines than a file of the year has."""
    persons, types = {1940: (PERSONS_1940, TYPES_1940), 2020: (PERSONS_2020, TYPES_2020)}[year]
    if people.schema != persons or housing.schema != UNITS_2020 or facilities.types != types:
        raise DataError(
            f"a file of the {year} census holds people on schemas.PERSONS_{year}, facilities of schemas.TYPES_{year} "
            f"and housing on schemas.UNITS_2020. Build the parts on those."
        )
    if not people.spine == facilities.spine == housing.spine:
        raise DataError("people, facilities and housing stand on different spines. Build them on one.")


def _histogram(spine: Spine, schema: Schema, counts: PlaceCounts, places: np.ndarray) -> Histogram:
    unit = np.searchsorted(places, counts.place)
    return Histogram.from_entries(spine, schema, unit=unit, cell=counts.cell, count=counts.count)
