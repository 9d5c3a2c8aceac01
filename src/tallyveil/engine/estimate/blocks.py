"""One nest written out as dense blocks: what the general path solves and the proof judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.engine.nests import UNLIMITED, Limits, Nests

if TYPE_CHECKING:
    from tallyveil.engine.estimate.problem import Asked


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """One nest, written out: n children, m cells, R rows that each child has, K rows that children share.

    Attributes
    ----------
    own, noisy
        Weight of the cells' own answers by child, and these answers (n x m).
    open
        Entries that may be above 0 (n x m).
    count
        The parent's count in each cell; none for the root.
    member, group
        Which cells each row sums (R x m, zeros and ones), and the query or limit that it belongs to.
    weight, answer
        Of each child's rows (n x R); a weight of 0 means that a row is not measured.
    least, most
        Bounds of each child's rows (n x R), infinite where there are none.
    shared_children, shared_cells, shared_least, shared_most
        Rows over the entries of several children: K x n, K x m, K and K.
    """

    own: Floats
    noisy: Floats
    open: Bools
    count: Floats | None
    member: Floats
    group: Integers
    weight: Floats
    answer: Floats
    least: Floats
    most: Floats
    shared_children: Floats
    shared_cells: Floats
    shared_least: Floats
    shared_most: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """A table ``base + d`` (n x m), base whole, with the multipliers of the rows (n x R) and of the shared rows (K)."""

    base: Floats
    d: Floats
    rows: Floats
    shared: Floats


def blocks_of(nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], p: int) -> Blocks:
    """One nest, written out."""
    n, m = nests.shape(p)
    span = slice(int(nests.child_start[p]), int(nests.child_start[p + 1]))
    cells = slice(int(nests.cell_start[p]), int(nests.cell_start[p + 1]))
    cell, count = nests.cell[cells], nests.count[cells]
    member: list[NDArray[Any]] = []
    group: list[NDArray[Any]] = []
    weight, answer, least, most = [], [], [], []
    for query in queries:
        rows = query.rows[query.start[p] : query.start[p + 1]]
        before = int((np.diff(nests.child_start)[:p] * np.diff(query.start)[:p]).sum())
        member.append(rows[:, None] == query.row_of_cell[cell])
        group.append(np.full(len(rows), len(group)))
        weight.append(np.repeat(query.weight[span, None], len(rows), axis=1))
        answer.append(query.noisy[before : before + n * len(rows)].reshape(n, len(rows)))
        least.append(np.full((n, len(rows)), -np.inf))
        most.append(np.full((n, len(rows)), np.inf))
    open_ = np.ones((n, m), np.bool_)
    shared: list[tuple[Bools, Bools, float, float]] = []
    for limit in limits:
        owner, rows = limit.owner[span], np.unique(limit.row_of_cell[cell])
        inside = rows[:, None] == limit.row_of_cell[cell]
        low = np.where(limit.least > 0, limit.least, -np.inf)[owner][:, rows]
        high = np.where(limit.most < UNLIMITED, limit.most, np.inf)[owner][:, rows]
        open_ &= ~((high <= 0) @ inside)
        low, high = np.where(high <= 0, -np.inf, low), np.where(high <= 0, np.inf, high)
        owners, first, members = np.unique(owner, return_index=True, return_counts=True)
        for o in np.flatnonzero(members > 1):
            of_owner, c = owner == owners[o], first[o]
            bounded = np.flatnonzero(np.isfinite(low[c]) | np.isfinite(high[c]))
            shared += [(of_owner, inside[r], low[c, r], high[c, r]) for r in bounded]
            low[of_owner], high[of_owner] = -np.inf, np.inf
        used = (np.isfinite(low) | np.isfinite(high)).any(axis=0)
        member.append(inside[used])
        group.append(np.full(int(used.sum()), len(group)))
        weight.append(np.zeros((n, int(used.sum()))))
        answer.append(np.zeros((n, int(used.sum()))))
        least.append(low[:, used])
        most.append(high[:, used])
    none = np.zeros((n, 0))
    return Blocks(
        own=own.weight[span],
        noisy=nests.table(own.noisy, p),
        open=open_,
        count=count.astype(np.float64) if count[0] >= 0 else None,
        member=np.concatenate([np.zeros((0, m)), *member]).astype(np.float64),
        group=np.concatenate([np.zeros(0, np.int64), *group]),
        weight=np.concatenate([none, *weight], axis=1),
        answer=np.concatenate([none, *answer], axis=1),
        least=np.concatenate([none, *least], axis=1),
        most=np.concatenate([none, *most], axis=1),
        shared_children=np.array([row[0] for row in shared], np.float64).reshape(-1, n),
        shared_cells=np.array([row[1] for row in shared], np.float64).reshape(-1, m),
        shared_least=np.array([row[2] for row in shared], np.float64),
        shared_most=np.array([row[3] for row in shared], np.float64),
    )
