"""Residuals: released minus true counts, of one query, for the units of one level or for areas off the spine.

Petti & Flaxman take them over the cells that are non-empty in the precise or in the protected data, not over all cells
(``over="nonempty"``, the default): where most cells are empty in both, all of them together would show an error of 0.
Memory grows with those cells, not with all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.schema import Query
from tallyveil.nouns.spine import Spine
from tallyveil.release.release import Release

Source = Histogram | Population | Release | Sample | Estimates
Over = Literal["nonempty", "all"]
MOST = 200_000_000  # residuals of empty cells that are held one by one where they must be
AREA = "area"  # stands for a level where areas off the spine are asked about


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """What was released and what is true, one entry for each replicate, unit and row that is non-empty in either.

    Attributes
    ----------
    true, released
        The two counts of each entry.
    unit, row, replicate
        Where each entry belongs.
    parent
        For each unit of the level its parent: siblings share an error. The units themselves where there is none.
    possible
        Which rows can exist at all (structural zeros cannot).
    zeros
        How many residuals there are besides, all 0: of cells empty in both, where all cells were asked for.
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
        """How many residuals there are."""
        return len(self.true) + self.zeros

    @cached_property
    def value(self) -> NDArray[Any]:
        """Released minus true; whole numbers where both are whole."""
        return np.asarray(self.released - self.true)

    @cached_property
    def cluster(self) -> Integers:
        """The number of the (replicate, parent) that each entry belongs to: errors of different ones are independent.

        Where all units have one parent, or are on their own, these are the units.
        """
        shared = self.parent if len(self.parent) and self.parent.max() > 0 else np.arange(self.units)
        return self.replicate.astype(np.int64) * int(shared.max(initial=0) + 1) + shared[self.unit]

    @cached_property
    def zeros_by_replicate(self) -> Integers:
        """The further residuals of 0, replicate by replicate."""
        if not self.zeros:
            return np.zeros(self.replicates, dtype=np.int64)
        entries = np.bincount(self.replicate[self.possible[self.row]], minlength=self.replicates)
        return self.units * int(self.possible.sum()) - entries

    def filled(self) -> Residuals:
        """The same residuals with those of empty cells as entries too; for queries of few rows."""
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

    def only(self, keep: Bools) -> Residuals:
        """Some of the entries."""
        parts = {name: getattr(self, name)[keep] for name in ("true", "released", "unit", "row", "replicate")}
        return replace(self, **parts, zeros=0)


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
        The precise counts.
    released
        What was released: of ours, of others, a sample, what a mechanism gave. Several are pooled as replicates.
    level, query
        Which counts. A query is written as elsewhere: ``"total"``, ``"age * race"``, ``"detailed"``.
    areas
        Areas off the spine to ask about, instead of the units of a level.
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
    asked = people.schema.query(query)
    if over not in ("nonempty", "all"):
        raise InputError(f'over must be "nonempty" or "all". Got {over!r} instead.')
    if (areas is None) == (level is None):
        raise InputError("residuals are of a level or of areas. Give level=... or areas=..., one of them.")
    sources = list(released) if isinstance(released, Sequence) else [released]
    if not sources:
        raise InputError("no release is given. Give one or several.")
    if areas is not None and areas.spine != people.spine:
        raise InputError("the areas are on another spine than the truth. Build them on the truth's.")
    if areas is not None and AREA in people.spine.levels:
        raise InputError(f"a level is called {AREA!r}, as areas off the spine are. Rename the level.")
    where = _Where(level, areas, asked)
    true = next(_rows(people, people, where))
    parts = [
        _union(*true, *table)
        for number, source in enumerate(sources)
        for table in _rows(source, people, where, f"release {number + 1}: " if len(sources) > 1 else "")
    ]
    sizes = [len(unit) for unit, *_ in parts]
    unit, row, precise, protected = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    units = len(true.start) - 1
    possible = people.schema.possible_rows(asked)
    there = int(np.count_nonzero(possible[row]))
    return Residuals(
        level=AREA if level is None else level,
        query=asked.name,
        over=over,
        true=precise,
        released=protected,
        unit=unit,
        row=row,
        replicate=np.repeat(np.arange(len(parts), dtype=np.int32), sizes),
        parent=_parents(people.spine, level, units),
        units=units,
        rows=asked.size,
        replicates=len(parts),
        possible=possible,
        zeros=units * int(possible.sum()) * len(parts) - there if over == "all" else 0,
    )


def people_of(source: Histogram | Population | Release) -> Histogram:
    """The persons of a truth or a release."""
    if isinstance(source, Population):
        return source.people
    if isinstance(source, Release):
        return source.histogram
    if not isinstance(source, Histogram):
        raise InputError(f"a {type(source).__name__} is not counts of people. Give a Histogram, Population or Release.")
    return source


class _Where(NamedTuple):
    """Which counts are asked for."""

    level: str | None
    areas: Areas | None
    query: Query


class _Rows(NamedTuple):
    """A table by rows: unit ``u`` has the entries ``start[u]`` to ``start[u + 1]``, in rising order of rows."""

    start: Integers
    row: NDArray[Any]
    counts: NDArray[Any]


def _rows(source: Source, truth: Histogram, where: _Where, name: str = "") -> Iterator[_Rows]:
    """The table of each replicate that a source holds, on the truth's units."""
    if isinstance(source, Estimates):
        refuse_elsewhere(source, truth, name)
        for table in _dense(source, where):
            unit, row = np.nonzero(table)
            start = np.searchsorted(unit, np.arange(len(table) + 1)).astype(np.int64)
            yield _Rows(start, row.astype(np.uint32), table[unit, row])
        return
    sampled = source.people if isinstance(source, Sample) else source
    counts = _answer(aligned(people_of(sampled), truth, name), where)
    count = counts.count.astype(np.int64)
    yield _Rows(
        counts.start, counts.cell.astype(np.uint32), source.scaled(count) if isinstance(source, Sample) else count
    )


def _answer(people: Histogram, where: _Where) -> Counts:
    if where.areas is None:
        assert where.level is not None
        return people.answer(where.query, level=where.level)
    table = where.areas.tabulate(people.leaves)
    return table.merged(np.arange(table.units + 1), where.query.row_of_cell, where.query.size)


def _dense(source: Estimates, where: _Where) -> NDArray[Any]:
    if where.areas is None:
        assert where.level is not None
        return source.answer(where.query.name, level=where.level)
    leaves = source.answer(where.query.name, level=source.spine.leaf)
    inside = where.areas.of_leaf >= 0
    table = np.zeros((len(leaves), len(where.areas.names), leaves.shape[2]), dtype=leaves.dtype)
    np.add.at(table.swapaxes(0, 1), where.areas.of_leaf[inside], leaves[:, inside].swapaxes(0, 1))
    return table


def refuse_elsewhere(estimates: Estimates, truth: Histogram, name: str = "") -> None:
    """Refuse estimates that are not about the truth's units and cells."""
    if estimates.spine != truth.spine or estimates.schema != truth.schema:
        raise InputError(f"{name}estimates on another spine or schema than the truth cannot be compared with it.")


def aligned(people: Histogram, truth: Histogram, name: str = "") -> Histogram:
    """The same people on the truth's spine: a file made elsewhere may leave out units that have nobody."""
    if people.schema != truth.schema:
        mine, theirs = (", ".join(one.schema.attributes) for one in (people, truth))
        raise InputError(
            f"{name}the release counts by {mine} and the truth by {theirs}, or with other labels. "
            f"Read both with one codebook."
        )
    if people.spine == truth.spine:
        return people
    if people.spine.levels != truth.spine.levels:
        mine, theirs = (", ".join(one.spine.levels) for one in (people, truth))
        raise InputError(
            f"{name}the release has the levels {mine} and the truth {theirs}. Read both with one codebook."
        )
    try:
        place = truth.spine.locate(truth.spine.leaf, people.spine.codes[-1])
    except InputError as problem:
        raise InputError(f"{name}a unit of the release is not in the truth: {problem}") from None
    return Histogram.from_entries(
        truth.spine, truth.schema, unit=place[people.leaves.unit()], cell=people.leaves.cell, count=people.leaves.count
    )


def _parents(spine: Spine, level: str | None, units: int) -> Integers:
    if level is None or spine.depth(level) == 0:
        return np.arange(units, dtype=np.int64)
    return spine.parents(level)


@compiled
def _union(start, row, count, other_start, other_row, other_count):  # type: ignore[no-untyped-def]
    """Entries that are in one table or the other: unit, row, and the count in each (0 where it is not)."""
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
