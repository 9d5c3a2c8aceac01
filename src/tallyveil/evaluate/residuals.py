"""Residuals: released minus true counts, of one query, for the units of one level or for areas off the spine.

Petti & Flaxman compute them over the cells that are non-empty in the true or in the protected data, not over all cells
(``over="nonempty"``, the default). Where most cells are empty in both, residuals over all cells would show a median
error of 0. Memory grows with the number of non-empty cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.evaluate.sources import Place, Source, SparseTable, people_of, sources_of, tables_of
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.spine import Spine

Over = Literal["nonempty", "all"]
MOST = 200_000_000  # residuals of empty cells that may be held in memory
AREA = "area"  # takes the place of a level for areas off the spine


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """True and released counts, with one entry for each replicate, unit and row that is non-empty in either.

    Attributes
    ----------
    true, released
        The two counts of each entry.
    unit, row, replicate
        The unit, the row of the query and the replicate of each entry.
    parent
        The parent of each unit of the level, because siblings share an error; the unit itself where there is none.
    possible
        Whether each row is possible; structural zeros are not.
    zeros
        Number of further residuals that are 0, for cells that are empty in both (with ``over="all"``).
    """

    level: str
    query: str
    over: Over
    true: NDArray[Any]
    released: NDArray[Any]
    unit: NDArray[np.int32]
    row: NDArray[np.int32]
    replicate: NDArray[np.int32]
    parent: Integers
    units: int
    rows: int
    replicates: int
    possible: Bools
    zeros: int = 0

    def __repr__(self) -> str:
        return f"Residuals({self.n:,} of {self.query!r} at level {self.level!r}, {self.replicates} replicates)"

    @property
    def n(self) -> int:
        """Number of residuals."""
        return len(self.true) + self.zeros

    @cached_property
    def value(self) -> NDArray[Any]:
        """Released minus true; whole numbers where both are whole."""
        return np.asarray(self.released - self.true)

    @cached_property
    def cluster(self) -> Integers:
        """The number of the (replicate, parent) of each entry. Errors of different clusters are independent.

        Where all units have the same parent, or none, each unit is a cluster.
        """
        shared = self.parent if len(self.parent) and self.parent.max() > 0 else np.arange(self.units)
        return self.replicate.astype(np.int64) * int(shared.max(initial=0) + 1) + shared[self.unit]

    @cached_property
    def zeros_by_replicate(self) -> Integers:
        """The number of further residuals that are 0 in each replicate."""
        if not self.zeros:
            return np.zeros(self.replicates, dtype=np.int64)
        entries = np.bincount(self.replicate[self.possible[self.row]], minlength=self.replicates)
        return self.units * int(self.possible.sum()) - entries

    def filled(self) -> Residuals:
        """The same residuals with an entry for each empty cell too; for queries with few rows."""
        if not self.zeros:
            return self
        if (cells := self.units * int(self.possible.sum()) * self.replicates) > MOST:
            raise InputError(
                f"{cells:,} cells are too many to hold one by one. Use over='nonempty', or a coarser query."
            )
        absent = np.ones((self.replicates, self.units, self.rows), dtype=np.bool_)
        absent[:, :, ~self.possible] = False
        absent[self.replicate, self.unit, self.row] = False
        parts: dict[str, Any] = dict(zip(("replicate", "unit", "row"), np.nonzero(absent), strict=True))
        parts |= {name: np.zeros(len(parts["unit"]), dtype=getattr(self, name).dtype) for name in ("true", "released")}
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), part.astype(getattr(self, name).dtype)])
            for name, part in parts.items()
        }
        return replace(self, **joined, zeros=0)


def residuals(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    level: str | None = None,
    query: str = "total",
    areas: Areas | None = None,
    over: Over = "nonempty",
) -> Residuals:
    """Released minus true counts.

    Parameters
    ----------
    truth
        The true counts.
    released
        A release, other counts, a sample, or estimates from a mechanism. Several are pooled as replicates.
    level, query
        The counts to compare, with queries such as ``"total"``, ``"age * race"`` or ``"detailed"``.
    areas
        Areas off the spine to compare, instead of the units of a level.
    over
        ``"nonempty"``: cells that are non-empty in the truth or in the release; ``"all"``: every possible cell.

    Examples
    --------
    >>> from tallyveil import Schema
    >>> spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 1, 1], cell=[1, 0, 1], count=[48, 2, 7])
    >>> residuals(truth, released, level="block", query="age").value.tolist()
    [-10, 8, 2, 0]
    >>> residuals(truth, released, level="block", query="age", over="all").n
    6
    """
    people = people_of(truth)
    place = _place(people, level, areas, query)
    if over not in ("nonempty", "all"):
        raise InputError(f'over must be "nonempty" or "all". Got {over!r} instead.')
    sources = sources_of(released)
    true = next(tables_of(people, people, place))
    parts = [
        union_of(true, table)
        for number, source in enumerate(sources)
        for table in tables_of(source, people, place, f"release {number + 1}: " if len(sources) > 1 else "")
    ]
    return _joined(people, place, parts, units=len(true.start) - 1, over=over)


def _place(people: Histogram, level: str | None, areas: Areas | None, query: str) -> Place:
    """The counts that are asked for, on the spine and schema of the truth."""
    if (areas is None) == (level is None):
        raise InputError("residuals are of a level or of areas. Give either level=... or areas=...")
    if areas is not None and areas.spine != people.spine:
        raise InputError("the areas have another spine than the truth. Build them on the spine of the truth.")
    if areas is not None and AREA in people.spine.levels:
        raise InputError(f"a level is called {AREA!r}, as areas off the spine are. Rename the level.")
    return Place(level, areas, people.schema.query(query))


def _joined(
    people: Histogram, place: Place, parts: list[tuple[NDArray[Any], ...]], *, units: int, over: Over
) -> Residuals:
    """The residuals of all replicates, each given as unit, row, true count and released count of its entries."""
    unit, row, true, released = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    possible = people.schema.possible_rows(place.query)
    entries = int(np.count_nonzero(possible[row]))
    return Residuals(
        level=AREA if place.level is None else place.level,
        query=place.query.name,
        over=over,
        true=true,
        released=released,
        unit=unit,
        row=row,
        replicate=np.repeat(np.arange(len(parts), dtype=np.int32), [len(part[0]) for part in parts]),
        parent=_parents(people.spine, place.level, units),
        units=units,
        rows=place.query.size,
        replicates=len(parts),
        possible=possible,
        zeros=units * int(possible.sum()) * len(parts) - entries if over == "all" else 0,
    )


def _parents(spine: Spine, level: str | None, units: int) -> Integers:
    if level is None or spine.depth(level) == 0:
        return np.arange(units, dtype=np.int64)
    return spine.parents(level)


def union_of(true: SparseTable, released: SparseTable) -> tuple[NDArray[Any], ...]:
    """Entries that are in either table: unit, row, and the count in each (0 where it is missing)."""
    entries: tuple[NDArray[Any], ...] = _union(*true, *released)
    return entries


@compiled
def _union(start, row, count, other_start, other_row, other_count):  # type: ignore[no-untyped-def]
    """Entries that are in either table: unit, row, and the count in each (0 where it is missing)."""
    units = len(start) - 1
    most = len(row) + len(other_row)
    out_unit, out_row = np.empty(most, np.int32), np.empty(most, np.int32)
    out, other_out = np.zeros(most, count.dtype), np.zeros(most, other_count.dtype)
    made = 0
    for u in range(units):
        i, j = start[u], other_start[u]
        while i < start[u + 1] or j < other_start[u + 1]:
            here = np.int64(row[i]) if i < start[u + 1] else np.int64(1 << 40)
            there = np.int64(other_row[j]) if j < other_start[u + 1] else np.int64(1 << 40)
            out_unit[made] = u
            out_row[made] = min(here, there)
            if here <= there:
                out[made] = count[i]
                i += 1
            if there <= here:
                other_out[made] = other_count[j]
                j += 1
            made += 1
    return out_unit[:made].copy(), out_row[:made].copy(), out[:made].copy(), other_out[:made].copy()
