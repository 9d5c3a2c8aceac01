"""TopDown: from the root to the leaves, each level from its own measurements and the level above.

For every parent: estimate its children jointly (``estimate``), then round them (``rounding``). An only child copies its
parent; the children of an empty parent are empty. Parents are independent of each other, and noise is a function of its
place, so the result depends neither on the order of the work nor on where it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._compiled import compiled
from tallyveil.counts import Counts
from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.histogram import Histogram
from tallyveil.measurements import Measurements
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.release import Relaxed, Solved
from tallyveil.topdown.constraints import LevelLimits, check_counts, limits_by_level, possible_cells
from tallyveil.topdown.estimate import Asked, Estimated, estimate, estimate_in_passes, places_of, rows_of
from tallyveil.topdown.feasible import first_conflict, relax
from tallyveil.topdown.nests import Index, Limits, Nests
from tallyveil.topdown.rounding import Unroundable, round_nests

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
Progress = Callable[[str, int, int], None]

CHUNK = 1 << 18  # entries of the tables that are solved together
SURE = 1e-9  # a smaller variance is no longer told from none


def topdown(
    measurements: Measurements,
    *,
    facilities: Facilities | None = None,
    failsafe: bool = False,
    run: Run = map,
    progress: Progress | None = None,
) -> tuple[Histogram, tuple[Solved, ...]]:
    """The protected counts, and how each level was solved. It never sees the truth.

    ``run`` does the work for pieces of a level, in order, like ``map``. With ``failsafe``, a parent whose constraints
    cannot all hold is changed as little as possible, instead of being an error.
    """
    spine, schema = measurements.spine, measurements.schema
    limits = limits_by_level(measurements, facilities)
    possible = possible_cells(schema, measurements.strategy)
    report = progress or (lambda *_: None)
    counts, how = _root(measurements, limits[spine.levels[0]], possible)
    solved = [how]
    report(spine.levels[0], 1, 1)
    for depth, level in enumerate(spine.levels[1:], start=1):
        parents = spine.first_child[depth - 1]
        work = _Level(measurements, level, parents, counts, limits[level], failsafe, spine.codes[depth - 1], possible)
        pieces, done = [], 0
        for piece in run(work.solve, work.chunks()):
            pieces.append(piece)
            done += piece.parents
            report(level, done, len(parents) - 1)
        counts = Counts(
            start=np.append(0, np.cumsum(np.concatenate([piece.sizes for piece in pieces]))),
            cell=np.concatenate([piece.cell for piece in pieces]),
            count=np.concatenate([piece.count for piece in pieces]),
            cells=schema.cells,
        )
        solved.append(_added_up(level, [piece.solved for piece in pieces]))
    release = Histogram(spine=spine, schema=schema, leaves=counts, stamps=measurements.stamps)
    check_counts(release, limits, possible, whose="the release")
    return release, tuple(solved)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Piece:
    """The children of some parents: entries of each, their cells and counts."""

    parents: int
    sizes: Index
    cell: NDArray[np.integer]
    count: NDArray[np.integer]
    solved: Solved


@dataclass(frozen=True, eq=False)
class _Level:
    """The work of one level, cut into runs of parents."""

    measurements: Measurements
    level: str
    first_child: Index
    above: Counts
    limits: Sequence[LevelLimits]
    failsafe: bool
    codes: NDArray[np.bytes_]
    possible: NDArray[np.bool_]

    def chunks(self) -> list[tuple[int, int]]:
        """Runs of parents with about ``CHUNK`` entries each."""
        entries = np.cumsum(np.diff(self.first_child) * np.maximum(1, np.diff(self.above.start)))
        ends = np.unique(np.searchsorted(entries, np.arange(CHUNK, int(entries[-1]) + CHUNK, CHUNK), side="left") + 1)
        ends = np.minimum(ends, len(entries))
        return list(zip([0, *ends[:-1]], ends, strict=True)) if ends[0] else []

    def solve(self, span: tuple[int, int]) -> _Piece:
        """Estimate and round the children of the parents ``first`` to ``last``."""
        first, last = span
        nests, parent = _nests(self.first_child, self.above, first, last)
        relaxed: list[Relaxed] = []
        if len(nests):
            limits = [one.at(nests) for one in self.limits]
            while (conflict := first_conflict(nests, limits)) is not None:
                unit = f"{bytes(self.codes[parent[conflict.nest]]).decode()}"
                if not self.failsafe:
                    raise InputError(
                        f"the children of unit {unit!r} (level {self.level!r}): {conflict.words}. "
                        f"Loosen a constraint, or use the failsafe."
                    )
                try:
                    nests, found = self._relaxed(nests, conflict.nest, limits)
                except InputError as problem:
                    raise InputError(f"the children of unit {unit!r} (level {self.level!r}): {problem}") from None
                relaxed.append(Relaxed(unit=unit, amount=found.amount, constraints=found.limits))
            estimated = _estimated(nests, self.level, self.measurements, limits)
            try:
                rounded = round_nests(
                    estimated.x, nests, limits, self.measurements.schema, self.measurements.strategy.rounding
                )
            except Unroundable as problem:
                unit = bytes(self.codes[parent[problem.nest]]).decode()
                raise InputError(
                    f"the children of unit {unit!r} (level {self.level!r}) cannot be rounded to whole numbers within "
                    f"the constraints. Loosen one of them."
                ) from None
            how = _how(self.level, estimated, rounded.flows, rounded.programs)
            table = rounded.counts
        else:
            how, table = Solved(level=self.level), np.empty(0, np.int64)
        sizes, cell, count = _collect(
            self.first_child, self.above.start, self.above.cell, self.above.count, first, last, parent,
            nests.cell_start, nests.cell, nests.block_start, table,
        )  # fmt: skip
        children, entries = (np.diff(array[first : last + 1]) for array in (self.first_child, self.above.start))
        return _Piece(
            parents=last - first,
            sizes=sizes,
            cell=cell.astype(self.above.cell.dtype),
            count=count.astype(self.above.count.dtype),
            solved=replace(
                how,
                copied=int((children == 1).sum()),
                empty=int(((entries == 0) & (children > 1)).sum()),
                relaxed=tuple(relaxed),
            ),
        )

    def _relaxed(self, nests: Nests, p: int, limits: Sequence[Limits]) -> Any:
        """The nests with one parent changed so that its children can keep their constraints."""
        bounds = [c for c in self.measurements.strategy.constraints if isinstance(c, FacilityBounds)]
        schema = self.measurements.schema
        attribute = bounds[0].attribute if bounds else next(iter(schema.attributes))
        found = relax(nests, p, limits, schema, attribute, possible=self.possible)
        begin, end = nests.cell_start[p], nests.cell_start[p + 1]
        cell_start = nests.cell_start.copy()
        cell_start[p + 1 :] += len(found.cell) - (end - begin)
        sizes = np.diff(nests.child_start) * np.diff(cell_start)
        return replace(
            nests,
            cell=np.concatenate([nests.cell[:begin], found.cell, nests.cell[end:]]),
            count=np.concatenate([nests.count[:begin], found.count, nests.count[end:]]),
            cell_start=cell_start,
            block_start=np.append(0, np.cumsum(sizes)),
        ), found


def _root(
    measurements: Measurements, limits: Sequence[LevelLimits], possible: NDArray[np.bool_]
) -> tuple[Counts, Solved]:
    """The root: a nest of one child and no parent, every possible cell open."""
    level, cell = measurements.spine.levels[0], np.flatnonzero(possible)
    ends = np.array([0, len(cell)])
    nests = Nests(
        child_start=np.array([0, 1]),
        child=np.array([0]),
        cell_start=ends,
        cell=cell,
        count=np.full(len(cell), -1),
        block_start=ends,
    )
    bounds = [one.at(nests) for one in limits]
    conflict = first_conflict(nests, bounds)
    if conflict is not None:
        raise InputError(f"level {level!r}: {conflict.words}. Loosen a constraint.")
    estimated = _estimated(nests, level, measurements, bounds)
    rounded = round_nests(estimated.x, nests, bounds, measurements.schema, measurements.strategy.rounding)
    table = np.zeros((1, measurements.schema.cells), np.int64)
    table[0, cell] = rounded.counts
    return Counts.from_dense(table), _how(level, estimated, rounded.flows, rounded.programs)


def _estimated(nests: Nests, level: str, measurements: Measurements, limits: Sequence[Limits]) -> Estimated:
    """Ask for the noisy answers that the nests need, and solve."""
    strategy = measurements.strategy
    asked = {query: _asked(nests, level, query, measurements) for query in strategy.queries[level]}
    passes = strategy.passes.get(level)
    if not passes:
        return estimate(nests, list(asked.values()), limits)
    named = {query for one in passes for query in one}
    order = [[q for q in asked if q in one or ("*" in one and q not in named)] for one in passes]
    return estimate_in_passes(nests, [[asked[query] for query in one] for one in order if one], limits)


def _asked(nests: Nests, level: str, query: str, measurements: Measurements) -> Asked:
    rows_by_cell = measurements.schema.query(query)
    start, rows = rows_of(nests, rows_by_cell.row_of_cell, rows_by_cell.size)
    noisy = measurements.ask(level, query, places_of(nests, start, rows, rows_by_cell.size))
    variance = np.maximum(measurements.variances(level, query), SURE)
    return Asked(
        row_of_cell=rows_by_cell.row_of_cell,
        start=start,
        rows=rows,
        noisy=noisy.astype(np.float64),
        weight=1.0 / variance[measurements.shares[level].spans[nests.child]],
    )


def _how(level: str, estimated: Estimated, flows: int, programs: int) -> Solved:
    return Solved(
        level=level,
        parents=len(estimated.gap),
        fast=int((~estimated.general).sum()),
        general=int(estimated.general.sum()),
        flows=flows,
        programs=programs,
        gap=float(estimated.gap.max()),
        distance=float(estimated.distance.max()),
        violation=float(estimated.violation.max()),
    )


def _added_up(level: str, parts: Sequence[Solved]) -> Solved:
    """One account of a level from those of its pieces."""
    sums = ("parents", "copied", "empty", "fast", "general", "flows", "programs")
    worst = ("gap", "distance", "violation")
    return Solved(
        level=level,
        relaxed=tuple(one for part in parts for one in part.relaxed),
        **{name: sum(getattr(part, name) for part in parts) for name in sums},
        **{name: max(getattr(part, name) for part in parts) for name in worst},
    )


def _nests(first_child: Index, above: Counts, first: int, last: int) -> tuple[Nests, Index]:
    """The nests among some parents (several children, anybody there), and the parent of each."""
    children = np.diff(first_child[first : last + 1])
    cells = np.diff(above.start[first : last + 1])
    parent = first + np.flatnonzero((children > 1) & (cells > 0))
    child_start = np.append(0, np.cumsum(children[parent - first]))
    cell_start = np.append(0, np.cumsum(cells[parent - first]))
    entry = np.arange(cell_start[-1]) + np.repeat(above.start[parent] - cell_start[:-1], np.diff(cell_start))
    nests = Nests(
        child_start=child_start,
        child=np.arange(child_start[-1]) + np.repeat(first_child[parent] - child_start[:-1], np.diff(child_start)),
        cell_start=cell_start,
        cell=above.cell[entry].astype(np.int64),
        count=above.count[entry].astype(np.int64),
        block_start=np.append(0, np.cumsum(np.diff(child_start) * np.diff(cell_start))),
    )
    return nests, parent


@compiled
def _collect(  # type: ignore[no-untyped-def]
    first_child, above_start, above_cell, above_count, first, last, parent, cell_start, cell, block_start, table
):
    """Non-zero entries of the children of parents ``first`` to ``last``, child after child."""
    sizes = np.zeros(first_child[last] - first_child[first], np.int64)
    total = 0
    for value in table:
        total += value > 0
    for p in range(first, last):
        if first_child[p + 1] - first_child[p] == 1:
            total += above_start[p + 1] - above_start[p]
    cells, counts = np.empty(total, np.int64), np.empty(total, np.int64)
    at, nest, child = 0, 0, 0
    for p in range(first, last):
        n = first_child[p + 1] - first_child[p]
        if nest < len(parent) and parent[nest] == p:
            m = cell_start[nest + 1] - cell_start[nest]
            for c in range(n):
                for s in range(m):
                    value = table[block_start[nest] + c * m + s]
                    if value > 0:
                        cells[at], counts[at] = cell[cell_start[nest] + s], value
                        at += 1
                        sizes[child + c] += 1
            nest += 1
        elif n == 1:
            for i in range(above_start[p], above_start[p + 1]):
                cells[at], counts[at] = above_cell[i], above_count[i]
                at += 1
            sizes[child] = above_start[p + 1] - above_start[p]
        child += n
    return sizes, cells, counts
