"""A nest: a parent and its children, on the cells where the parent has anybody.

A cell that is zero in the parent is zero in all children, so only the parent's non-empty cells (its support) are
variables. Many nests are processed at a time; they are stored one after another in flat arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil.nouns.counts import Counts


@dataclass(frozen=True, kw_only=True, eq=False)
class Nests:
    """Several nests.

    Nest ``p`` has children ``child_start[p]`` to ``child_start[p + 1]`` and support cells ``cell_start[p]`` to
    ``cell_start[p + 1]``; its table begins at ``block_start[p]``, one row per child, one column per support cell, row
    after row.

    Attributes
    ----------
    child
        The number of each child in its level.
    cell
        The schema's cell of each support cell, rising within a nest.
    count
        The parent's count in each support cell, above 0; or -1 in the root's own nest, which has no parent.
    """

    child_start: Integers
    child: Integers
    cell_start: Integers
    cell: Integers
    count: Integers
    block_start: Integers

    def __len__(self) -> int:
        return len(self.child_start) - 1

    def shape(self, p: int) -> tuple[int, int]:
        """Children and support cells of a nest."""
        return (
            int(self.child_start[p + 1] - self.child_start[p]),
            int(self.cell_start[p + 1] - self.cell_start[p]),
        )

    def table(self, values: NDArray[Any], p: int) -> NDArray[Any]:
        """A nest's part of an array laid out like the blocks, as children x cells."""
        return values[self.block_start[p] : self.block_start[p + 1]].reshape(self.shape(p))


@dataclass(frozen=True, kw_only=True, eq=False)
class Limits:
    """Bounds on the rows of a query, for the children of some nests.

    Attributes
    ----------
    row_of_cell
        The row of each cell of the schema.
    least, most
        Owners by rows, whole numbers. ``UNLIMITED`` means no upper bound.
    owner
        The owner of the bounds that apply to each child (in the order of ``Nests.child``), usually the child itself.
        Siblings with the same owner are bounded together: the parts of a split state, for example, have one exact
        total. The owners of a nest are consecutive, and no owner has children in two nests.
    """

    name: str
    row_of_cell: NDArray[np.int32]
    least: Integers
    most: Integers
    owner: Integers


UNLIMITED = np.int64(1) << 60


def root_nest(possible: Bools) -> Nests:
    """The nest of the root: one child, no parent, and every possible cell open."""
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


def nests_of_parents(first_child: Integers, above: Counts, first: int, last: int) -> tuple[Nests, Integers]:
    """The nests among some parents (those with people and several children), and the parent of each nest."""
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


def some_nests(nests: Nests, first: int, last: int) -> Nests:
    """The nests from ``first`` up to ``last``, which is excluded."""
    child, cell, block = (
        starts[first : last + 1] for starts in (nests.child_start, nests.cell_start, nests.block_start)
    )
    return Nests(
        child_start=child - child[0],
        child=nests.child[child[0] : child[-1]],
        cell_start=cell - cell[0],
        cell=nests.cell[cell[0] : cell[-1]],
        count=nests.count[cell[0] : cell[-1]],
        block_start=block - block[0],
    )


def only_nest(nests: Nests, limits: Sequence[Limits], p: int) -> tuple[Nests, list[Limits]]:
    """One nest and its limits, as if there were no others."""
    children = slice(nests.child_start[p], nests.child_start[p + 1])
    cells = slice(nests.cell_start[p], nests.cell_start[p + 1])
    nest = Nests(
        child_start=np.array([0, children.stop - children.start]),
        child=nests.child[children],
        cell_start=np.array([0, cells.stop - cells.start]),
        cell=nests.cell[cells],
        count=nests.count[cells],
        block_start=np.array([0, nests.block_start[p + 1] - nests.block_start[p]]),
    )
    own = []
    for limit in limits:
        owners, owner = np.unique(limit.owner[children], return_inverse=True)
        own.append(replace(limit, least=limit.least[owners], most=limit.most[owners], owner=owner))
    return nest, own
