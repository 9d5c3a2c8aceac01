"""Assign the persons of 1940 to the units of their type in their district, in turn, as the Bureau does.

The first persons of all units come first, then the second persons, and so on. Persons are numbered by district, then
cell; units by district, then kind (eight types, then vacant).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.errors import DataError
from tallyveil.files.formats.census import DISTRICT, KINDS, PER_TYPE, refuse_other_parts
from tallyveil.files.formats.lines import Bytes
from tallyveil.files.formats.places import leaf_digits
from tallyveil.files.tables.geography import unit_code
from tallyveil.nouns.census_schemas import TYPES_1940
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram


@dataclass(frozen=True, kw_only=True, eq=False)
class Deal:
    """Which unit each person lives in, as arrays of spans rather than of persons, so that a nation fits into memory."""

    people: Histogram
    places: Bytes  # the digits of each district
    built: Integers  # units by district and kind
    living: Integers  # persons by district and kind
    first_person: Integers  # of each entry of the counts, and the end
    first_of_type: Integers  # the first person of the entry's type in its district
    first_unit: Integers  # of each district and kind, and the end

    @classmethod
    def of(cls, people: Histogram, facilities: Facilities, housing: Histogram) -> Deal:
        """Check that the parts belong together, and assign persons to units."""
        refuse_other_parts(people, facilities, housing, year=1940)
        leaves, homes = people.leaves, housing.leaves.dense()
        built = np.hstack([facilities.leaves.dense(), homes[:, :1]])
        _refuse_other_households(people, built[:, 0], homes[:, 1])
        group = leaves.unit() * KINDS + leaves.cell // PER_TYPE
        living = np.zeros(built.size, np.int64)
        np.add.at(living, group, leaves.count)
        _refuse_homeless(people, living.reshape(built.shape), built)
        first_person = np.append(0, np.cumsum(leaves.count, dtype=np.int64))
        new = np.append(True, group[1:] != group[:-1])[: len(group)]
        return cls(
            people=people,
            places=leaf_digits(people.spine, DISTRICT),
            built=built,
            living=living.reshape(built.shape),
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


def spread(ends: Integers, first: int, last: int) -> Integers:
    """Which run each of the items ``first`` to ``last`` is in; run ``r`` holds the items from ends[r] to ends[r + 1].

    >>> spread(np.array([0, 2, 2, 5]), 1, 4).tolist()
    [0, 2, 2]
    """
    low, high = int(np.searchsorted(ends, first, side="right")) - 1, int(np.searchsorted(ends, last))
    sizes = np.minimum(ends[low + 1 : high + 1], last) - np.maximum(ends[low:high], first)
    return np.repeat(np.arange(low, high, dtype=np.int64), sizes)


def _refuse_other_households(people: Histogram, households: Integers, occupied: Integers) -> None:
    if (occupied != households).any():
        district = int(np.argmax(occupied != households))
        code = unit_code(people.spine, people.spine.leaf, district)
        raise DataError(
            f"enumdist {code!r} has {households[district]:,} households but {occupied[district]:,} occupied "
            f"housing units. In 1940 they are the same: correct facilities or housing."
        )


def _refuse_homeless(people: Histogram, living: Integers, built: Integers) -> None:
    homeless = (living > 0) & (built == 0)
    if homeless.any():
        district, kind = (int(i) for i in np.argwhere(homeless)[0])
        code = unit_code(people.spine, people.spine.leaf, district)
        raise DataError(
            f"enumdist {code!r} has {living[district, kind]:,} persons of type {TYPES_1940[kind]!r} "
            f"but no such unit to live in. Correct people or facilities."
        )
