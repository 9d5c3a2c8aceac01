"""Neighbours and views: two datasets that differ by one person, and the counts that differ as a result.

The meaning of a mechanism's epsilon depends on the neighbours (erratum 10): moving a person changes two counts of a
level, while adding or removing a person changes one. :func:`neighbours_in_words` states which of them was done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.release.release import Release

Values = NDArray[Any]
Output = Histogram | Release | Sample


@final
@dataclass(frozen=True, kw_only=True)
class AuditView:
    """One released count: a unit and a row of a query."""

    level: str
    unit: int
    query: str
    row: int

    def words(self, spine: Spine, schema: Schema) -> str:
        """The name of the count.

        >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
        >>> schema = Schema(attributes={"age": ["c", "a"]})
        >>> AuditView(level="block", unit=1, query="detailed", row=0).words(spine, schema)
        'block 2 (c)'
        """
        row = self.query if self.query == "total" else schema.query(self.query).labels()[self.row]
        return f"{self.level} {bytes(spine.codes[spine.depth(self.level)][self.unit]).decode()} ({row})"


def neighbour(
    people: Histogram, *, unit: int, cell: int, to_unit: int | None = None, to_cell: int | None = None
) -> Histogram:
    """The people with one person moved to another leaf or cell, or removed if neither is given.

    >>> spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["c", "a"]})
    >>> people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 1], count=[4, 7])
    >>> moved = neighbour(people, unit=0, cell=1, to_unit=1)
    >>> moved.leaves.dense().tolist()
    [[0, 3], [0, 8]]
    >>> neighbours_in_words(people, moved)
    'replace-one: one person moved from block 1 (a) to block 2 (a)'
    """
    sizes = {"unit": people.leaves.units, "cell": people.schema.cells}
    for name, place in (("unit", unit), ("cell", cell), ("unit", to_unit), ("cell", to_cell)):
        if place is not None and not 0 <= place < sizes[name]:
            raise InputError(f"{name} {place} is not between 0 and {sizes[name] - 1:,}. Name one that exists.")
    units, cells = people.leaves.unit(), people.leaves.cell.astype(np.int64)
    counts = people.leaves.count.astype(np.int64)
    here = np.flatnonzero((units == unit) & (cells == cell))
    if len(here) == 0:
        name = AuditView(level=people.spine.leaf, unit=unit, query=DETAILED, row=cell).words(
            people.spine, people.schema
        )
        raise InputError(f"{name} is empty, so nobody can leave it. Take a person from where somebody is.")
    counts[here] -= 1
    if to_unit is not None or to_cell is not None:
        units = np.append(units, unit if to_unit is None else to_unit)
        cells = np.append(cells, cell if to_cell is None else to_cell)
        counts = np.append(counts, 1)
    leaves = Counts.from_entries(units, cells, counts, units=people.leaves.units, cells=people.schema.cells)
    return replace(people, leaves=leaves)


def neighbours_in_words(people: Histogram, neighbour: Histogram) -> str:
    """How two datasets differ; an error unless one person was moved, added or removed."""
    if people.spine != neighbour.spine or people.schema != neighbour.schema:
        raise InputError("the neighbours have different spines or schemas. They must differ in one person only.")
    leaf = people.spine.leaf
    unit, row, change = _changes(people, neighbour, leaf, DETAILED)
    name = [
        AuditView(level=leaf, unit=u, query=DETAILED, row=r) for u, r in zip(unit.tolist(), row.tolist(), strict=True)
    ]
    left, came = (
        [v.words(people.spine, people.schema) for v, c in zip(name, change, strict=True) if c == s] for s in (-1, 1)
    )
    if len(left) + len(came) == len(change) and (len(left), len(came)) in ((1, 1), (1, 0), (0, 1)):
        if left and came:
            return f"replace-one: one person moved from {left[0]} to {came[0]}"
        return f"add-or-remove: one person {f'removed from {left[0]}' if left else f'added to {came[0]}'}"
    raise InputError(
        f"the two datasets differ in {len(change):,} cells by {int(np.abs(change).sum()):,} persons in all. "
        f"Neighbours differ by one person moved, added or removed: use neighbour(...)."
    )


def views_of(people: Histogram, neighbour: Histogram, *, query: str = DETAILED) -> tuple[AuditView, ...]:
    """The counts of a query that differ between the two, at the leaves and at the levels above."""
    name = people.schema.query(query).name
    views = []
    for level in reversed(people.spine.levels):
        unit, row, _ = _changes(people, neighbour, level, name)
        pairs = zip(unit.tolist(), row.tolist(), strict=True)
        views += [AuditView(level=level, unit=u, query=name, row=r) for u, r in pairs]
    if not views:
        raise InputError(f"no count of {name!r} differs between the two. Ask for a query that tells them apart.")
    return tuple(views)


def look(output: Any, views: Sequence[AuditView], runs: int) -> Values:
    """The values of the views in each run; an array of runs x views is used as it is."""
    if isinstance(output, Estimates):
        tables = {(v.level, v.query): output.answer(v.query, level=v.level) for v in views}
        values: Values = np.stack([tables[v.level, v.query][:, v.unit, v.row] for v in views], axis=1)
    elif isinstance(output, np.ndarray):
        values = output
    else:
        histograms = [output] if isinstance(output, Output) else output
        values = np.array([_seen(histogram, views) for histogram in histograms])
    if values.shape != (runs, len(views)) or values.dtype.kind not in "iufb":
        raise InputError(
            f"the mechanism gave {' x '.join(map(str, values.shape))} values of {values.dtype} for {runs:,} runs and "
            f"{len(views)} views. Give numbers, one row for each run and one column for each view."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError("the mechanism gave a value that is not a finite number. Every run must give counts.")
    return np.array(values, dtype=np.float64 if values.dtype.kind == "f" else np.int64)  # a copy: buffers are reused


def _seen(output: Output, views: Sequence[AuditView]) -> list[int | float]:
    """The values of the views in one output."""
    if isinstance(output, Sample):
        return [float(output.answer(v.query, level=v.level)[v.unit, v.row]) for v in views]
    people = output.histogram if isinstance(output, Release) else output
    pairs = {(view.level, view.query) for view in views}
    answers = {(level, query): people.answer(query, level=level) for level, query in pairs}
    return [_entry(answers[v.level, v.query], v.unit, v.row) for v in views]


def _entry(counts: Counts, unit: int, row: int) -> int:
    first, last = counts.start[unit], counts.start[unit + 1]
    entry = first + int(np.searchsorted(counts.cell[first:last], row))
    return int(counts.count[entry]) if entry < last and counts.cell[entry] == row else 0


def _changes(people: Histogram, neighbour: Histogram, level: str, query: str) -> tuple[Values, Values, Values]:
    """The counts of a query that differ: unit, row, and the neighbour's count minus that of the people."""
    one, two = (h.answer(query, level=level) for h in (people, neighbour))
    place = np.concatenate([c.unit() * c.cells + c.cell for c in (one, two)])
    by = np.concatenate([-one.count.astype(np.int64), two.count.astype(np.int64)])
    places, inverse = np.unique(place, return_inverse=True)
    change = np.zeros(len(places), dtype=np.int64)
    np.add.at(change, inverse, by)
    some = np.flatnonzero(change)
    return places[some] // one.cells, places[some] % one.cells, change[some]
