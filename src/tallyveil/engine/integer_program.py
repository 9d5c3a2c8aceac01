"""Limits as rows of an integer program, and the solver (HiGHS) that finds whole numbers within them.

Cells that no limit tells apart are merged into one group, and children likewise into one bundle. This loses nothing:
any whole numbers for groups and bundles can be dealt out to the cells and children themselves, since that is a table
with given margins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.engine.nests import UNLIMITED, Limits
from tallyveil.errors import TallyveilError

OPTIMAL, INFEASIBLE = 0, 2  # statuses of scipy.optimize.milp

Rows = tuple[Any, Floats, Floats]  # a sparse matrix, least and most: least <= matrix z <= most


@dataclass(frozen=True, kw_only=True, eq=False)
class MergedLimits:
    """The limits of one nest as rows, for variables that run bundle after bundle, group by group.

    Attributes
    ----------
    group
        The group of each cell.
    bundles, groups
        How many of each there are.
    rows
        The limits; rows that bound nothing are left out.
    """

    group: Integers
    bundles: int
    groups: int
    rows: Rows

    @property
    def size(self) -> int:
        """The number of variables."""
        return self.bundles * self.groups

    def sums(self) -> sp.csr_matrix:
        """The matrix that adds up the bundles, group by group."""
        return sp.csr_matrix(sp.kron(np.ones((1, self.bundles)), sp.identity(self.groups)))


def merged_limits(
    limits: Sequence[Limits], cell: Integers, partitions: Sequence[NDArray[np.int32]] = ()
) -> MergedLimits:
    """The limits of a nest that stands alone, on some cells; cells in different rows of a partition are not merged."""
    keys = np.stack([*(limit.row_of_cell[cell] for limit in limits), *(rows[cell] for rows in partitions)])
    row, group = np.unique(keys, axis=1, return_inverse=True)
    owner = np.unique(np.stack([limit.owner for limit in limits]), axis=1)
    parts = [bound_rows(owner[k], row[k], limit.least, limit.most) for k, limit in enumerate(limits)]
    matrices, least, most = zip(*parts, strict=True)
    return MergedLimits(
        group=group.reshape(-1),
        bundles=owner.shape[1],
        groups=row.shape[1],
        rows=(sp.vstack(matrices, format="csr"), np.concatenate(least), np.concatenate(most)),
    )


def bound_rows(owner: Integers, row: NDArray[np.integer], least: Integers, most: Integers) -> Rows:
    """Bounds (owners by rows) on the sums of a table, given the owner of each line and the row of each column."""
    matrix = sum_matrix(owner, row, least.shape)
    low, high = least.reshape(-1), most.reshape(-1)
    bounded = (low > 0) | (high < UNLIMITED)
    return matrix[bounded], low[bounded].astype(np.float64), np.where(high < UNLIMITED, high, np.inf)[bounded]


def sum_matrix(owner: Integers, row: NDArray[np.integer], shape: tuple[int, ...]) -> sp.csr_matrix:
    """The matrix that adds up a table, line after line, over owners and rows; ``shape`` says how many of each."""
    slot = (owner[:, None] * shape[1] + row).reshape(-1)
    return sp.csr_matrix((np.ones(len(slot)), (slot, np.arange(len(slot)))), shape=(shape[0] * shape[1], len(slot)))


def whole_solution(cost: Floats, rows: Sequence[Rows], high: Floats | float = np.inf) -> Integers | None:
    """Whole numbers z of least cost that keep all rows, with 0 <= z <= high; None if there are none."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # a fifth of a second that few runs need

    matrices, least, most = zip(*rows, strict=True)
    matrix, lower, upper = sp.vstack(matrices, format="csr"), np.concatenate(least), np.concatenate(most)
    result = milp(
        cost,
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, np.broadcast_to(high, len(cost))),
        constraints=LinearConstraint(matrix, lower, upper),
        options={"mip_rel_gap": 0.0},
    )
    if result.status == INFEASIBLE:
        return None
    if result.status != OPTIMAL:
        raise TallyveilError(f"the integer program stopped with {result.message!r}. Report this.")
    z = np.rint(result.x)
    reached = matrix @ z  # whole numbers below 2^53: exact
    if (z < 0).any() or (z > high).any() or (reached < lower).any() or (reached > upper).any():
        raise TallyveilError("the integer program's answer breaks a constraint once rounded. Report this.")
    whole: Integers = z.astype(np.int64)
    return whole
