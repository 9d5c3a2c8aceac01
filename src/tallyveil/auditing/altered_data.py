"""Data with units of a kind that a fault may depend on: empty, with one person, homogeneous or large.

Units of a kind are taken from the data where they have some; otherwise one unit of the data is altered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, product
from typing import NamedTuple, final

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.evaluate.audit.views import neighbour
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL

LARGE = 1_000  # people in a large unit
PARTNERS = 3  # siblings, and units of other parents, that are tried with a unit
CELLS = 3  # cells that are tried for a change of attributes


class Candidate(NamedTuple):
    """D, a neighbour D', and how D was made from the data (empty if it is the data)."""

    people: Histogram
    neighbour: Histogram
    made: str


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AlteredData:
    """Some data, or the data altered in one unit (``made`` says how), and the neighbours that they have."""

    people: Histogram
    made: str = ""

    # -- units of a kind -----------------------------------------------------------------------------------------------

    def with_few(self, people: int) -> Iterator[tuple[AlteredData, int]]:
        """Data and a unit with so many people (0 or 1): such units of the data, then the smallest ones cut down."""
        for unit in np.flatnonzero(self._totals == people).tolist():
            yield self, unit
        for unit in np.argsort(self._totals, kind="stable").tolist():
            if self._totals[unit] > people:
                made = "emptied" if people == 0 else "cut down to one person"
                yield self._with_unit(unit, [self._cell(unit)], [people], made), unit

    def homogeneous(self) -> Iterator[tuple[AlteredData, int]]:
        """Data and a unit with two people or more, all alike: such units of the data, then others made alike."""
        kinds = np.diff(self.people.leaves.start)
        alike = (kinds == 1) & (self._totals > 1)
        for unit in np.flatnonzero(alike).tolist():
            yield self, unit
        for unit in self.ordinary():
            if not alike[unit]:
                people = max(2, int(self._totals[unit]))
                yield self._with_unit(unit, [self._cell(unit)], [people], "made homogeneous"), unit

    def large(self) -> Iterator[tuple[AlteredData, int]]:
        """Data and the largest unit, enlarged if it is small; then the largest as it is."""
        unit = int(np.argmax(self._totals))
        people = int(self._totals[unit])
        if 0 < people < LARGE:
            cells, counts = self._unit(unit)
            times = -(-LARGE // people)
            yield self._with_unit(unit, cells, counts * times, f"enlarged {times:,} times"), unit
        if people:
            yield self, unit

    def ordinary(self) -> Iterator[int]:
        """Units that have people, beginning with those of about median size."""
        some = np.flatnonzero(self._totals)
        distance = np.abs(self._totals[some] - np.median(self._totals[some])) if len(some) else some
        yield from some[np.argsort(distance, kind="stable")].tolist()

    def siblings(self, unit: int) -> list[int]:
        """Some other units of the same parent, those with people."""
        first, last = self._family(unit)
        return list(islice((other for other in range(first, last) if other != unit and self._totals[other]), PARTNERS))

    def cousins(self, unit: int) -> list[int]:
        """Some units of other parents, those with people that are farthest away in the tree."""
        first, last = self._family(unit)
        before, after = range(first), range(self.people.leaves.units - 1, last - 1, -1)
        others = chain(after, before) if unit < self.people.leaves.units // 2 else chain(before, after)
        return list(islice((other for other in others if self._totals[other]), PARTNERS))

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def moved(self, unit: int, to_unit: int, *, axes: Sequence[int] = ()) -> Iterator[Candidate]:
        """A person of the unit's fullest cell moves to a unit and changes the attributes of these axes."""
        if self._totals[unit]:
            cell = self._cell(unit)
            for to_cell in self._other_cells(cell, axes):
                other = neighbour(self.people, unit=unit, cell=cell, to_unit=to_unit, to_cell=to_cell)
                yield Candidate(self.people, other, self.made)

    def added(self, unit: int, *, axes: Sequence[int] = ()) -> Iterator[Candidate]:
        """A person is added to a unit who differs from its fullest cell in the attributes of these axes."""
        cells, counts = self._unit(unit)
        for cell in self._other_cells(self._cell(unit), axes):
            more = self._with_unit(unit, np.append(cells, cell), np.append(counts, 1), "")
            yield Candidate(self.people, more.people, self.made)

    def removed(self, unit: int) -> Iterator[Candidate]:
        """A person of the unit's fullest cell is removed."""
        yield Candidate(self.people, neighbour(self.people, unit=unit, cell=self._cell(unit)), self.made)

    # -- a unit and its people -----------------------------------------------------------------------------------------

    @cached_property
    def _totals(self) -> Integers:
        return self.people.answer(TOTAL, level=self.people.spine.leaf).dense()[:, 0]

    def _unit(self, unit: int) -> tuple[Integers, Integers]:
        """The cells of a unit that have people, and how many."""
        leaves = self.people.leaves
        here = slice(leaves.start[unit], leaves.start[unit + 1])
        return leaves.cell[here].astype(np.int64), leaves.count[here].astype(np.int64)

    def _cell(self, unit: int) -> int:
        """The fullest cell of a unit; of the data where the unit is empty."""
        cells, counts = self._unit(unit)
        if not len(cells):
            cells, counts = (part.astype(np.int64) for part in (self.people.leaves.cell, self.people.leaves.count))
        return int(cells[np.argmax(counts)]) if len(cells) else int(np.argmax(self.people.schema.possible))

    def _family(self, unit: int) -> tuple[int, int]:
        """The first of the units of a unit's parent, and the one after the last."""
        if len(self.people.spine.levels) == 1:
            return 0, 1
        starts = self.people.spine.first_child[-1]
        parent = int(np.searchsorted(starts, unit, side="right")) - 1
        return int(starts[parent]), int(starts[parent + 1])

    def _with_unit(
        self, unit: int, cells: Sequence[int] | Integers, counts: Sequence[int] | Integers, made: str
    ) -> AlteredData:
        """The data with other people in a unit."""
        leaves = self.people.leaves
        units = leaves.unit()
        others = units != unit
        altered = Counts.from_entries(
            np.append(units[others], np.full(len(cells), unit)),
            np.append(leaves.cell[others].astype(np.int64), cells),
            np.append(leaves.count[others].astype(np.int64), counts),
            units=leaves.units,
            cells=leaves.cells,
        )
        name = f"{self.people.spine.leaf} {bytes(self.people.spine.codes[-1][unit]).decode()} {made}"
        return AlteredData(people=replace(self.people, leaves=altered), made=name)

    def _other_cells(self, cell: int, axes: Sequence[int]) -> Iterator[int]:
        """Some possible cells that differ in the labels of exactly these axes, beginning with the next labels."""
        schema = self.people.schema
        place = np.unravel_index(cell, schema.shape)
        steps = [range(1, size) if axis in axes else range(1) for axis, size in enumerate(schema.shape)]
        cells = (
            int(
                np.ravel_multi_index(
                    [(p + s) % n for p, s, n in zip(place, step, schema.shape, strict=True)], schema.shape
                )
            )
            for step in product(*steps)
        )
        yield from islice((other for other in cells if schema.possible[other]), CELLS)
