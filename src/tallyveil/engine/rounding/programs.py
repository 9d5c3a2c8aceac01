"""Rounding by integer programs (HiGHS), for limits that do not nest and so cannot be handled by a flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, identity

from tallyveil._arrays import Integers
from tallyveil.engine.integer_program import Rows, sum_matrix, whole_solution
from tallyveil.engine.nests import UNLIMITED, Limits, Nests, only_nest
from tallyveil.engine.rounding.stages import Partition, numbered

WHOLE = 1e-6  # numbers this near to a whole number count as whole


def round_by_program(
    x: NDArray[Any], p: int, nests: Nests, limits: Sequence[Limits], stages: Sequence[Partition]
) -> Integers | None:
    """Round one nest by one integer program per stage: to floors and ceilings, or else to any whole numbers."""
    n, m = x.shape
    children = slice(int(nests.child_start[p]), int(nests.child_start[p + 1]))
    cells = slice(int(nests.cell_start[p]), int(nests.cell_start[p + 1]))
    cell, count = nests.cell[cells], nests.count[cells]
    near = np.rint(x)
    floor = np.where(np.abs(x - near) <= WHOLE, near, np.floor(x)).astype(np.int64)
    rest = x - floor
    bound: list[Rows] = []  # on what is added to the floors
    if count[0] >= 0:
        units = count - floor.sum(axis=0)
        bound.append((sum_matrix(np.zeros(n, np.int64), np.arange(m), (1, m)), units, units))
    for limit in limits:
        owners, group = np.unique(limit.owner[children], return_inverse=True)
        matrix = sum_matrix(group.reshape(-1), limit.row_of_cell[cell], (len(owners), limit.least.shape[1]))
        already = matrix @ floor.reshape(-1)
        least, most = limit.least[owners].reshape(-1), limit.most[owners].reshape(-1)
        bound.append((matrix, least - already, np.where(most >= UNLIMITED, np.inf, most - already)))
    partitions = [numbered(stage[cell]) for stage in stages]
    margins = [sum_matrix(np.arange(n), rows, (n, int(rows.max()) + 1)) for rows in partitions]
    for low, high in (
        (np.zeros((n, m)), (rest > WHOLE).astype(float)),
        (-floor.astype(float), np.full((n, m), np.inf)),
    ):
        added = _nearest_whole(rest.reshape(-1), low.reshape(-1), high.reshape(-1), bound, margins)
        if added is not None:
            return np.asarray(floor + added.reshape(n, m), dtype=np.int64)
    return None


def any_table(p: int, nests: Nests, limits: Sequence[Limits]) -> Integers | None:
    """Some whole table of a nest that keeps the parent's counts and the limits; None if there is none."""
    nest, own = only_nest(nests, limits, p)
    n, m = nest.shape(0)
    rows: list[Rows] = []
    if nest.count[0] >= 0:
        parent = nest.count.astype(np.float64)
        rows.append((sum_matrix(np.zeros(n, np.int64), np.arange(m), (1, m)), parent, parent))
    for limit in own:
        most = np.where(limit.most >= UNLIMITED, np.inf, limit.most).reshape(-1)
        matrix = sum_matrix(limit.owner, limit.row_of_cell[nest.cell], limit.least.shape)
        rows.append((matrix, limit.least.reshape(-1).astype(np.float64), most))
    solution = whole_solution(np.zeros(n * m), rows)
    return None if solution is None else solution.reshape(n, m)


def _nearest_whole(
    rest: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    bound: Sequence[Rows],
    margins: Sequence[csr_matrix],
) -> Integers | None:
    """The whole numbers within bounds whose margins are nearest to those of ``rest``, one margin after another."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # a fifth of a second that few runs need

    added, size = None, len(rest)
    constraints = [LinearConstraint(matrix, least, most) for matrix, least, most in bound]
    for margin in margins:
        rows = margin.shape[0]
        cost, lower, upper, held = np.zeros(size), low, high, constraints
        if rows == size and (high <= 1).all():  # cells at floor or ceiling: linear
            cost = 1 - 2 * rest
        else:  # one more variable per row, at least as large as the row's change in either direction
            cost = np.concatenate([cost, np.ones(rows)])
            lower, upper = np.concatenate([low, np.zeros(rows)]), np.concatenate([high, np.full(rows, np.inf)])
            held = [
                LinearConstraint(hstack([c.A, csr_matrix((c.A.shape[0], rows))], format="csr"), c.lb, c.ub)
                for c in constraints
            ]
            wanted, change = margin @ rest, identity(rows, format="csr")
            held.append(LinearConstraint(hstack([margin, change], format="csr"), wanted, np.inf))
            held.append(LinearConstraint(hstack([margin, -change], format="csr"), -np.inf, wanted))
        whole = np.concatenate([np.ones(size), np.zeros(len(cost) - size)])
        answer = milp(
            cost, integrality=whole, bounds=Bounds(lower, upper), constraints=held, options={"mip_rel_gap": 0.0}
        )
        if answer.x is None:
            return None
        added = np.rint(answer.x[:size]).astype(np.int64)
        constraints = [*constraints, LinearConstraint(margin, margin @ added, margin @ added)]
    for matrix, least, most in bound:
        sums = matrix @ added
        if (sums < least).any() or (sums > most).any():
            return None
    return added
