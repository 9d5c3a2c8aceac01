"""One level of TopDown: its parents in pieces, each estimated and rounded, and the pieces put together.

A piece is a run of consecutive parents. Pieces are independent, so they may be solved in any order and on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil._compiled import compiled
from tallyveil.engine.conflict import Conflict, conflicts
from tallyveil.engine.estimate.problem import Asked, Estimated, estimate, estimate_in_passes, places_of, rows_of
from tallyveil.engine.nests import Limits, Nests, nests_of_parents, root_nest
from tallyveil.engine.relax import Change, relaxed_parents
from tallyveil.engine.rounding.rounding import round_nests
from tallyveil.engine.run_limits import RunLimits
from tallyveil.errors import EndedAfterNoise
from tallyveil.nouns.counts import Counts
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.release.measurements import Measurements
from tallyveil.release.solved import Relaxed, Solved

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
Progress = Callable[[str, int, int], None]

CHUNK = 1 << 18  # entries of the tables that are solved together
NO_NOISE = 1e-9  # a variance below this is treated as this


def solve_root(measurements: Measurements, limits: RunLimits) -> tuple[Counts, Solved]:
    """The counts of the root, which has no parent, and how they were found."""
    level, nests = measurements.spine.levels[0], root_nest(limits.possible)
    bounds = [one.at(nests) for one in limits.carried[level]]
    estimated = _estimated(nests, level, measurements, bounds)
    rounded = round_nests(estimated.x, nests, bounds, measurements.schema, measurements.strategy.rounding)
    table = np.zeros((1, measurements.schema.cells), np.int64)
    table[0, nests.cell] = rounded.counts
    return Counts.from_dense(table), _how(level, estimated, rounded.flows, rounded.programs)


def solve_level(
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
    work = Level(measurements, level, above, limits)
    spans = work.chunks()
    pieces: dict[tuple[int, int], Piece] = {}
    changes: tuple[Change, ...] = ()
    todo = spans
    while todo:
        found: list[tuple[int, Conflict]] = []
        for span, piece in zip(todo, run(work.solve, todo), strict=True):
            if isinstance(piece, Piece):
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
class Piece:
    """The children of some parents: entries of each, their cells and counts."""

    parents: int
    sizes: Integers
    cell: NDArray[np.integer]
    count: NDArray[np.integer]
    solved: Solved


@dataclass(frozen=True, eq=False)
class Level:
    """The work of one level, cut into runs of parents."""

    measurements: Measurements
    level: str
    above: Counts
    limits: RunLimits

    @property
    def first_child(self) -> Integers:
        """The first child of each parent, and the end of the last parent's children."""
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

    def solve(self, span: tuple[int, int]) -> Piece | list[tuple[int, Conflict]]:
        """Estimate and round the children of the parents ``first`` to ``last``.

        Where the children of some cannot keep their constraints, nothing is solved and no noise asked for: these
        parents are named instead.
        """
        first, last = span
        nests, parent = nests_of_parents(self.first_child, self.above, first, last)
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
        return Piece(
            parents=last - first,
            sizes=sizes,
            cell=cell.astype(self.above.cell.dtype),
            count=count.astype(self.above.count.dtype),
            solved=replace(how, copied=int((children == 1).sum()), empty=int(((entries == 0) & (children > 1)).sum())),
        )


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
    variance = np.maximum(measurements.variances(level, query), NO_NOISE)
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
