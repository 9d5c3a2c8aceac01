"""Estimate: for each parent and all its children jointly, the non-negative table nearest to the measurements.

Nearest in weighted least squares (weights 1/variance), with the children summing to the parent in every cell and all
limits kept. The problem and the method are in ``fista``, for which ``reductions`` prepares each nest; what it cannot
certify goes to a general solver (``general``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.engine.estimate.fista import Goal
from tallyveil.engine.estimate.reductions import AskedArrays, LimitArrays, NestArrays, Solutions, solve_nests
from tallyveil.engine.estimate.supports import add_rows, places, support_rows
from tallyveil.engine.kernels import compile_elsewhere
from tallyveil.engine.nests import UNLIMITED, Limits, Nests

GAP, DISTANCE = 1e-6, 0.05  # a solve ends when both are proved: relative to max(1, optimum), and in persons
STEPS = 3000  # of the fast path, before a general solver takes over


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """Noisy answers to one query for the children of some nests, on the rows that touch each nest's support.

    Attributes
    ----------
    row_of_cell
        The row of each cell of the schema.
    start, rows
        Nest ``p`` has the rows ``rows[start[p]]`` to ``rows[start[p + 1]]``, rising.
    noisy
        The answers: nest after nest, within a nest child after child, row after row.
    weight
        1/variance for each child.
    """

    row_of_cell: NDArray[np.int32]
    start: Integers
    rows: NDArray[np.int32]
    noisy: Floats
    weight: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimated:
    """Real tables, laid out like the nests' blocks, and for each nest how good they are.

    ``gap`` bounds (objective - optimum) / max(1, optimum), ``distance`` the distance to the optimum in persons
    (infinite where cells are not measured: then it is not unique), ``violation`` is the largest one of a constraint.
    ``general`` marks nests that a general solver solved.
    """

    x: Floats
    gap: Floats
    distance: Floats
    violation: Floats
    steps: Integers
    general: Bools


def rows_of(nests: Nests, row_of_cell: NDArray[np.int32], size: int) -> tuple[Integers, NDArray[np.int32]]:
    """The rows of a query that touch each nest's support (``Asked.start`` and ``Asked.rows``)."""
    return support_rows(nests.cell_start, nests.cell, row_of_cell, size)  # type: ignore[no-any-return]


def places_of(nests: Nests, start: Integers, rows: NDArray[np.int32], size: int) -> Integers:
    """Where the answers stand among a level's: ``unit * size + row``, in the order of ``Asked.noisy``."""
    return places(nests.child_start, nests.child, start, rows, size)  # type: ignore[no-any-return]


def unanswered_cells(nests: Nests, cells: int, *, weight: float) -> Asked:
    """Stand-in for answers to the detailed query where nobody asked it: zeros of some weight."""
    return Asked(
        row_of_cell=np.arange(cells, dtype=np.int32),
        start=nests.cell_start,
        rows=nests.cell.astype(np.int32),
        noisy=np.zeros(int(nests.block_start[-1])),
        weight=np.full(len(nests.child), weight),
    )


def estimate(
    nests: Nests,
    asked: Sequence[Asked],
    limits: Sequence[Limits] = (),
    *,
    gap: float = GAP,
    distance: float = DISTANCE,
    steps: int = STEPS,
) -> Estimated:
    """Solve every nest."""
    from tallyveil.engine.estimate.general import solve_generally

    queries, own = _ordered(nests, asked)
    scale = max(float(one.weight.max()) for one in asked)
    result = _solve_fast(nests, queries, own, limits, scale, gap, distance, steps)
    for p in np.flatnonzero(result.steps < 0):
        found = solve_generally(nests, queries, own, limits, int(p), nests.table(result.x, int(p)).copy())
        nests.table(result.x, int(p))[:] = found.x
        for name in ("gap", "distance", "violation"):
            getattr(result, name)[p] = getattr(found, name)
        result.general[p] = True
    return result


def estimate_in_passes(
    nests: Nests, asked: Sequence[Sequence[Asked]], limits: Sequence[Limits], *, slack: float = 0.1
) -> Estimated:
    """Solve in passes, as the 2020 run did: each in its own queries, then held within ``slack`` by the next.

    A pass before the last is solved in the rows that matter to it, so its answer is always within reach of the cells.
    """
    held: list[Limits] = []
    earlier: list[Estimated] = []
    for queries in asked[:-1]:
        small, into = _collapsed(nests, [*queries, *limits, *held])
        found = estimate(
            small,
            [replace(one, row_of_cell=into(one.row_of_cell)) for one in queries],
            [replace(one, row_of_cell=into(one.row_of_cell)) for one in (*limits, *held)],
        )
        earlier.append(found)
        for one in queries:
            reached = _margin(small, found.x, into(one.row_of_cell), int(one.row_of_cell.max()) + 1)
            held.append(
                Limits(
                    name=f"pass {len(earlier)}",
                    row_of_cell=one.row_of_cell,
                    least=reached - slack,  # type: ignore[arg-type]
                    most=reached + slack,  # type: ignore[arg-type]
                    owner=np.arange(len(nests.child)),
                )
            )
    last = estimate(nests, asked[-1], [*limits, *held])
    for name, worst in (("gap", np.maximum), ("violation", np.maximum), ("general", np.logical_or)):
        for found in earlier:
            worst(getattr(last, name), getattr(found, name), out=getattr(last, name))
    return last


def _collapsed(nests: Nests, wanted: Sequence[Asked | Limits]):  # type: ignore[no-untyped-def]
    """The nests with cells merged that no wanted partition tells apart, and how partitions translate."""
    keys = np.stack([one.row_of_cell for one in wanted])
    _, first, merged = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    merged = merged.reshape(-1).astype(np.int32)
    start, rows = support_rows(nests.cell_start, nests.cell, merged, len(first))
    nest_of = np.repeat(np.arange(len(nests)), np.diff(nests.cell_start))
    at = np.searchsorted(
        np.repeat(np.arange(len(nests)), np.diff(start)) * len(first) + rows, nest_of * len(first) + merged[nests.cell]
    )
    free = len(nests.count) > 0 and nests.count[0] < 0
    count = np.full(len(rows), -1, np.int64) if free else np.bincount(at, nests.count, len(rows)).astype(np.int64)
    blocks = np.diff(nests.child_start) * np.diff(start)
    small = replace(
        nests, cell_start=start, cell=rows.astype(np.int64), count=count, block_start=np.append(0, np.cumsum(blocks))
    )
    return small, lambda row_of_cell: row_of_cell[first]


def _margin(nests: Nests, x: Floats, row_of_cell: NDArray[np.int32], size: int) -> Floats:
    """Row sums of every child, children x rows."""
    sums = np.zeros((len(nests.child), size))
    add_rows(nests.child_start, nests.cell_start, nests.cell, nests.block_start, x, row_of_cell, sums)
    return sums


def _ordered(nests: Nests, asked: Sequence[Asked]) -> tuple[list[Asked], Asked]:
    """The queries fine to coarse, and the detailed one; where cells are not measured, one of no weight stands in."""
    others = sorted(asked, key=lambda one: -int(one.row_of_cell.max()))
    if _is_cells(others[0]):
        return others[1:], others[0]
    return others, unanswered_cells(nests, len(asked[0].row_of_cell), weight=0.0)


def _is_cells(one: Asked) -> bool:
    return bool((one.row_of_cell == np.arange(len(one.row_of_cell))).all())


def _sources(queries: Sequence[Asked]) -> Integers:
    """For each query the smallest finer one that it can be summed from, or -1: the cells."""
    source = np.full(len(queries), -1, np.int64)
    for q, query in enumerate(queries):
        for p in range(q - 1, -1, -1):  # from the coarsest of the finer ones
            pairs = len(np.unique(queries[p].row_of_cell.astype(np.int64) << 32 | query.row_of_cell))
            if pairs == len(np.unique(queries[p].row_of_cell)):
                source[q] = p
                break
    return source


def _solve_fast(
    nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], scale: float, *wanted: float
) -> Estimated:
    count, children, cells = len(nests), len(nests.child), len(own.row_of_cell)
    starts = np.zeros((len(queries), count + 1), np.int64)
    noisy_starts = np.zeros_like(starts)
    sizes = np.diff(nests.child_start)
    rows, noisy, at, noisy_at = [np.empty(0, np.int32)], [np.empty(0)], 0, 0
    for q, query in enumerate(queries):
        starts[q] = at + query.start
        noisy_starts[q] = noisy_at + np.append(0, np.cumsum(sizes * np.diff(query.start)))
        rows.append(query.rows)
        noisy.append(query.noisy)
        at, noisy_at = at + len(query.rows), noisy_at + len(query.noisy)
    result = Estimated(
        x=np.zeros(int(nests.block_start[-1])),
        gap=np.zeros(count),
        distance=np.zeros(count),
        violation=np.zeros(count),
        steps=np.zeros(count, np.int64),
        general=np.zeros(count, np.bool_),
    )
    row = np.concatenate(rows)
    least = [np.zeros((1, 1)), *(limit.least.astype(np.float64) for limit in limits)]
    most = [np.where(limit.most >= UNLIMITED, np.inf, limit.most).astype(np.float64) for limit in limits]
    limit_first = np.cumsum([len(one.reshape(-1)) for one in least])[: len(limits)]
    gap, distance, steps = wanted
    compile_elsewhere()
    solve_nests(
        NestArrays(
            _whole(nests.child_start),
            _whole(nests.cell_start),
            _whole(nests.cell),
            nests.count.astype(np.float64),
            _whole(nests.block_start),
        ),
        AskedArrays(
            _stacked([query.row_of_cell for query in queries], cells),
            _sources(queries),
            starts,
            row,
            noisy_starts,
            np.concatenate(noisy),
            np.stack([*(query.weight for query in queries), own.weight]) / scale,
            own.noisy,
        ),
        LimitArrays(
            _stacked([limit.row_of_cell for limit in limits], cells),
            np.array([limit.least.shape[1] for limit in limits], np.int64),
            np.array(limit_first, np.int64),
            np.concatenate([one.reshape(-1) for one in least]),
            np.concatenate([np.zeros(1), *(one.reshape(-1) for one in most)]),
            np.stack([limit.owner for limit in limits]) if limits else np.zeros((0, children), np.int64),
            np.array([(limit.most <= 0).any() for limit in limits], np.bool_),
        ),
        Goal(gap, distance, 0.5 / scale, 0.0, int(steps)),
        max([int(row.max(initial=0)) + 1, *(limit.least.shape[1] for limit in limits)]),
        Solutions(result.x, result.gap, result.distance, result.violation, result.steps),
    )
    return result


def _stacked(partitions: Sequence[NDArray[np.int32]], cells: int) -> NDArray[np.int32]:
    return np.stack(partitions) if partitions else np.zeros((0, cells), np.int32)


def _whole(array: Integers) -> Integers:
    """The same whole numbers as one type of array, for which kernels are compiled once."""
    return np.require(array, np.int64, ["C", "W"])
