"""The counts nearest to those of some parents that the children of each can sum to: one integer program.

Cells in one group (``integer_program``) and one row of the query that is kept form a pool. Changes within a pool have
one sign, so only their sum matters. The variables are, for every parent, the entries of its children, and then what
each pool gains and what it loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.engine.integer_program import MergedLimits, Rows, merged_limits, whole_solution
from tallyveil.engine.nests import Limits
from tallyveil.nouns.schema import Schema

NOTHING = "nothing"  # no query is kept


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundsAbove:
    """Bounds on the rows of a query for the sum of some of the parents that are changed together.

    Attributes
    ----------
    members
        Which of the parents, by position.
    least, most
        What is left to them in each row: a bound of the unit they lie in, less the counts of the other units in it.
    """

    row_of_cell: NDArray[np.int32]
    members: Integers
    least: Floats
    most: Floats


def nearest_parents(
    count: Integers,
    children: Sequence[Sequence[Limits]],
    schema: Schema,
    kept: str,
    possible: Bools,
    turn: Integers,
    above: Sequence[BoundsAbove] = (),
) -> Integers | None:
    """The counts nearest to those of some parents that the children of each can sum to; None if there are none.

    The distance is the sum of absolute changes over cells. Among equal changes the solver's first is taken (it is
    deterministic, and the order of parents and cells is drawn by lot); within a pool the largest cells change first.

    Parameters
    ----------
    count
        The counts of the parents, parents by cells.
    children
        For each parent, the limits of its children as those of a nest that stands alone.
    schema, kept
        The schema, and the query whose answer, for all parents together, must not change; ``NOTHING`` if any may.
    possible
        Which cells may hold anybody. Empty cells may open.
    turn
        All cells, in the order of their lots.
    above
        Bounds on sums of the parents.
    """
    row_of_cell = schema.query(kept).row_of_cell if kept != NOTHING else np.zeros(schema.cells, np.int32)
    margin = np.bincount(row_of_cell, count.sum(axis=0))
    cell = turn[(possible & ((margin[row_of_cell] > 0) | (kept == NOTHING)))[turn]]
    if len(cell) == 0:
        return count if _nobody_fits(children, above) else None
    limits = [merged_limits(own, cell, [bounds.row_of_cell for bounds in above]) for own in children]
    pools = _pools(limits[0].group, row_of_cell[cell])
    before = np.stack([np.bincount(pools.of_cell, counts[cell], len(pools.group)) for counts in count])
    rows = _rows_of_children(limits, pools, before)
    entries = sum(merged.size for merged in limits)
    if kept != NOTHING:
        unchanged = np.zeros(len(margin))
        into_margin = pools.into(pools.row, len(margin))
        rows.append((_on_changes(into_margin, np.arange(len(count)), before, entries), unchanged, unchanged))
    for bounds in above:
        into_rows = pools.into(bounds.row_of_cell[cell[pools.some_cell]], len(bounds.least))
        now = into_rows @ before[bounds.members].sum(axis=0)
        rows.append((_on_changes(into_rows, bounds.members, before, entries), bounds.least - now, bounds.most - now))
    room = np.full(before.shape, np.inf) if kept == NOTHING else np.maximum(margin[pools.row] - before, 0)
    solution = whole_solution(
        np.concatenate([np.zeros(entries), np.ones(2 * before.size)]),
        rows,
        np.concatenate([np.full(entries, np.inf), room.reshape(-1), before.reshape(-1)]),
    )
    if solution is None:
        return None
    gain, loss = solution[entries:].reshape(2, *before.shape)
    changed = count.copy()
    for counts, change in zip(changed, gain - loss, strict=True):
        counts[cell] = _spread(counts[cell], pools.of_cell, change)
    return changed


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pools:
    """The pool of each cell; and of each pool the group, the row of the query that is kept, and one of its cells."""

    of_cell: Integers
    group: Integers
    row: Integers
    some_cell: Integers

    def into(self, row: NDArray[np.integer], size: int) -> sp.csr_matrix:
        """The matrix that adds up pools by their row in a partition of this size."""
        pools = len(self.group)
        return sp.csr_matrix((np.ones(pools), (row, np.arange(pools))), shape=(size, pools))


def _pools(group_of_cell: Integers, row_of_cell: NDArray[np.int32]) -> _Pools:
    (group, row), some_cell, of_cell = np.unique(
        np.stack([group_of_cell, row_of_cell]), axis=1, return_index=True, return_inverse=True
    )
    by = np.argsort(some_cell)  # in the order of the cells
    return _Pools(of_cell=np.argsort(by)[of_cell.reshape(-1)], group=group[by], row=row[by], some_cell=some_cell[by])


def _rows_of_children(limits: Sequence[MergedLimits], pools: _Pools, before: Integers) -> list[Rows]:
    """The children keep their limits and sum to their parent's new counts."""
    inside = sp.block_diag([merged.rows[0] for merged in limits], format="csr")
    least, most = (np.concatenate([merged.rows[i] for merged in limits]) for i in (1, 2))
    into_group = pools.into(pools.group, limits[0].groups)
    sums = sp.block_diag([merged.sums() for merged in limits], format="csr")
    gains = sp.kron(sp.identity(len(before)), into_group)
    group_before = np.concatenate([into_group @ counts for counts in before])
    return [
        (sp.hstack([inside, sp.csr_matrix((inside.shape[0], 2 * before.size))]), least, most),
        (sp.hstack([sums, -gains, gains]), group_before, group_before),
    ]


def _on_changes(matrix: sp.csr_matrix, members: Integers, before: Integers, entries: int) -> sp.csr_matrix:
    """The matrix applied to the summed changes of some parents; the children's entries do not count."""
    which = np.zeros((1, len(before)))
    which[0, members] = 1
    gains = sp.kron(which, matrix)
    return sp.hstack([sp.csr_matrix((matrix.shape[0], entries)), gains, -gains], format="csr")


def _nobody_fits(children: Sequence[Sequence[Limits]], above: Sequence[BoundsAbove]) -> bool:
    """Whether counts of zero keep the limits."""
    bounds: list[Limits | BoundsAbove] = [*(limit for limits in children for limit in limits), *above]
    return all((limit.least <= 0).all() and (limit.most >= 0).all() for limit in bounds)


def _spread(count: Integers, pool: Integers, change: Integers) -> Integers:
    """The counts after each pool's change, which falls on its largest cells first."""
    count = count.copy()
    for j in np.flatnonzero(change):
        cells = np.flatnonzero(pool == j)
        cells = cells[np.argsort(-count[cells], kind="stable")]
        if change[j] > 0:
            count[cells[0]] += change[j]
        else:
            larger = np.cumsum(count[cells]) - count[cells]
            count[cells] -= np.clip(-change[j] - larger, 0, count[cells])
    return count
