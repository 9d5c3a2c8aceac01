"""TopDown: from the root to the leaves, each level from its own measurements and the level above.

For every parent: estimate its children jointly (``estimate``), then round them (``rounding``). An only child copies its
parent; the children of an empty parent are empty. Parents are independent of each other, and noise is a function of its
place, so the result depends neither on the order of the work nor on where it runs.

Whether the constraints can hold is decided before any noise is asked for; what can come in their way later is the noise
itself, and then parents give way (``relaxing``). So a run does not end because of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil._compiled import compiled
from tallyveil.engine.carried import RunLimits, run_limits
from tallyveil.engine.conflict import Conflict, conflicts, first_conflict
from tallyveil.engine.constraints import check_counts
from tallyveil.engine.decide import check_feasible
from tallyveil.engine.estimate.problem import Asked, Estimated, estimate, estimate_in_passes, places_of, rows_of
from tallyveil.engine.nests import Limits, Nests
from tallyveil.engine.relax import Change, relaxed_parents
from tallyveil.engine.rounding.rounding import round_nests
from tallyveil.errors import EndedAfterNoise, InputError, TallyveilError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.release.measurements import Measurements
from tallyveil.release.solved import Relaxed, Solved

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
Progress = Callable[[str, int, int], None]

CHUNK = 1 << 18  # entries of the tables that are solved together
SURE = 1e-9  # a smaller variance is no longer told from none


def topdown(
    measurements: Measurements,
    *,
    facilities: Facilities | None = None,
    limits: RunLimits | None = None,
    failsafe: bool = True,
    run: Run = map,
    progress: Progress | None = None,
) -> tuple[Histogram, tuple[Solved, ...]]:
    """The protected counts, and how each level was solved. It never sees the truth.

    Parameters
    ----------
    measurements
        The noisy answers and the strategy.
    facilities
        Those that the strategy's bounds are about, on the published spine.
    limits
        What must hold (``run_limits``), where it was worked out and found feasible before.
    failsafe
        Where the estimate of a parent leaves its children no way to keep their constraints, change it as little as
        possible (``relaxing``). Without it the run ends there: its ending depends on the noise.
    run
        Does the work for pieces of a level, in order, like ``map``.
    progress
        Called with a level, how many of its parents are done, and how many there are.

    Raises
    ------
    InputError
        The constraints cannot hold: no noise has been asked for.
    EndedAfterNoise
        The run ended after noise was drawn.
    """
    spine, schema = measurements.spine, measurements.schema
    if limits is None:
        limits = run_limits(
            measurements.published,
            schema,
            measurements.strategy,
            exact=measurements.exact,
            facilities=facilities,
            optimised=measurements.optimised,
        )
        check_feasible(limits)
    report = progress or (lambda *_: None)
    _check_root(measurements, limits)
    try:
        counts, how = _root(measurements, limits)
        solved = [how]
        report(spine.levels[0], 1, 1)
        for level in spine.levels[1:]:
            counts, how = _solved_level(measurements, level, counts, limits, failsafe, run, report)
            solved.append(how)
        release = Histogram(spine=spine, schema=schema, leaves=counts, stamps=measurements.stamps)
        published = release if limits.optimised is None else limits.optimised.restored(release)
        check_counts(published, limits.declared, limits.possible, whose="the release")
    except EndedAfterNoise:
        raise
    except TallyveilError as problem:
        raise EndedAfterNoise(str(problem)) from problem
    return release, tuple(solved)


def _solved_level(
    measurements: Measurements,
    level: str,
    above: Counts,
    limits: RunLimits,
    failsafe: bool,
    run: Run,
    report: Progress,
) -> tuple[Counts, Solved]:
    """The counts of a level from those of the one above, and how they were found.

    Pieces where a parent leaves its children no way to keep their constraints come back unsolved. Such parents are
    changed one after another, so the result does not depend on the order of the work; then the pieces of all parents
    that were changed are solved.
    """
    work = _Level(measurements, level, above, limits)
    spans = work.chunks()
    pieces: dict[tuple[int, int], _Piece] = {}
    changes: tuple[Change, ...] = ()
    todo = spans
    while todo:
        found: list[tuple[int, Conflict]] = []
        for span, piece in zip(todo, run(work.solve, todo), strict=True):
            if isinstance(piece, _Piece):
                pieces[span] = piece
                report(level, sum(one.parents for one in pieces.values()), spans[-1][1])
            else:
                found += piece
        if found and (changes or not failsafe):
            raise EndedAfterNoise(f"{work.words(*found[0])} Loosen a constraint, or use the failsafe.")
        todo = []
        if found:
            above, changes = relaxed_parents(limits, level, above, found, _relaxed_attribute(measurements))
            work = replace(work, above=above)
            again = {parent for parent, _ in found} | {change.unit for change in changes}
            todo = [span for span in spans if any(span[0] <= unit < span[1] for unit in again)]
    counts = Counts(
        start=np.append(0, np.cumsum(np.concatenate([pieces[span].sizes for span in spans]))),
        cell=np.concatenate([pieces[span].cell for span in spans]),
        count=np.concatenate([pieces[span].count for span in spans]),
        cells=measurements.schema.cells,
    )
    codes = measurements.spine.codes[measurements.spine.depth(level) - 1]
    relaxed = [
        Relaxed(unit=bytes(codes[one.unit]).decode(), amount=one.amount, constraints=one.limits) for one in changes
    ]
    how = _added_up(level, [pieces[span].solved for span in spans])
    return counts, replace(how, relaxed=tuple(relaxed))


def _relaxed_attribute(measurements: Measurements) -> str:
    """The attribute along which the failsafe moves people first: the one with facilities, as in 2018."""
    bounds = [c for c in measurements.strategy.constraints if isinstance(c, FacilityBounds)]
    return bounds[0].attribute if bounds else next(iter(measurements.schema.attributes))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Piece:
    """The children of some parents: entries of each, their cells and counts."""

    parents: int
    sizes: Integers
    cell: NDArray[np.integer]
    count: NDArray[np.integer]
    solved: Solved


@dataclass(frozen=True, eq=False)
class _Level:
    """The work of one level, cut into runs of parents."""

    measurements: Measurements
    level: str
    above: Counts
    limits: RunLimits

    @property
    def first_child(self) -> Integers:
        spine = self.measurements.spine
        return spine.first_child[spine.depth(self.level) - 1]

    def chunks(self) -> list[tuple[int, int]]:
        """Runs of parents with about ``CHUNK`` entries each."""
        entries = np.cumsum(np.diff(self.first_child) * np.maximum(1, np.diff(self.above.start)))
        ends = np.unique(np.searchsorted(entries, np.arange(CHUNK, int(entries[-1]) + CHUNK, CHUNK), side="left") + 1)
        ends = np.minimum(ends, len(entries))
        return [(int(first), int(last)) for first, last in zip([0, *ends[:-1]], ends, strict=True)]

    def words(self, parent: int, conflict: Conflict) -> str:
        """What is in conflict, and where."""
        spine = self.measurements.spine
        code = bytes(spine.codes[spine.depth(self.level) - 1][parent]).decode()
        return f"the children of unit {code!r} (level {self.level!r}): {conflict.words}."

    def solve(self, span: tuple[int, int]) -> _Piece | list[tuple[int, Conflict]]:
        """Estimate and round the children of the parents ``first`` to ``last``.

        Where the children of some cannot keep their constraints, nothing is solved and no noise asked for: these
        parents are named instead.
        """
        first, last = span
        nests, parent = _nests(self.first_child, self.above, first, last)
        if len(nests):
            limits = [one.at(nests) for one in self.limits.carried[self.level]]
            in_conflict = [(int(parent[conflict.nest]), conflict) for conflict in conflicts(nests, limits)]
            if in_conflict:
                return in_conflict
            estimated = _estimated(nests, self.level, self.measurements, limits)
            rounded = round_nests(
                estimated.x, nests, limits, self.measurements.schema, self.measurements.strategy.rounding
            )
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
            solved=replace(how, copied=int((children == 1).sum()), empty=int(((entries == 0) & (children > 1)).sum())),
        )


def _root_nest(possible: Bools) -> Nests:
    """The root: a nest of one child and no parent, every possible cell open."""
    cell = np.flatnonzero(possible)
    ends = np.array([0, len(cell)])
    return Nests(
        child_start=np.array([0, 1]),
        child=np.array([0]),
        cell_start=ends,
        cell=cell,
        count=np.full(len(cell), -1),
        block_start=ends,
    )


def _check_root(measurements: Measurements, limits: RunLimits) -> None:
    """Refuse bounds of the root that no counts keep, before it is measured."""
    level, nests = measurements.spine.levels[0], _root_nest(limits.possible)
    conflict = first_conflict(nests, [one.at(nests) for one in limits.carried[level]])
    if conflict is not None:
        raise InputError(f"level {level!r}: {conflict.words}. Loosen a constraint.")


def _root(measurements: Measurements, limits: RunLimits) -> tuple[Counts, Solved]:
    level, nests = measurements.spine.levels[0], _root_nest(limits.possible)
    bounds = [one.at(nests) for one in limits.carried[level]]
    estimated = _estimated(nests, level, measurements, bounds)
    rounded = round_nests(estimated.x, nests, bounds, measurements.schema, measurements.strategy.rounding)
    table = np.zeros((1, measurements.schema.cells), np.int64)
    table[0, nests.cell] = rounded.counts
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
        **{name: sum(getattr(part, name) for part in parts) for name in sums},
        **{name: max(getattr(part, name) for part in parts) for name in worst},
    )


def _nests(first_child: Integers, above: Counts, first: int, last: int) -> tuple[Nests, Integers]:
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
