"""A piece of a level: the children of a run of consecutive parents, solved together, and a level joined from pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil._compiled import compiled
from tallyveil.nouns.counts import Counts
from tallyveil.release.solved import Solved


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """The counts of the children of some parents, and how they were found.

    Attributes
    ----------
    parents
        The number of parents.
    sizes
        The number of non-empty cells of each child.
    cell, count
        The non-empty cells and their counts, child after child.
    """

    parents: int
    sizes: Integers
    cell: NDArray[np.integer]
    count: NDArray[np.integer]
    solved: Solved


class KeptPieces(Protocol):
    """Where finished pieces are kept, so that an interrupted run can be resumed. Used from several threads."""

    def get(self, name: str) -> Piece | None:
        """The piece of this name, if it is kept."""

    def keep(self, name: str, piece: Piece) -> None:
        """Keep a finished piece."""


def joined(pieces: Sequence[Piece], cells: int) -> tuple[Counts, Solved]:
    """The counts of a level and one account of it, from all its pieces in order."""
    counts = Counts(
        start=np.append(0, np.cumsum(np.concatenate([piece.sizes for piece in pieces]))),
        cell=np.concatenate([piece.cell for piece in pieces]),
        count=np.concatenate([piece.count for piece in pieces]),
        cells=cells,
    )
    return counts, account([piece.solved for piece in pieces])


def account(accounts: Sequence[Solved]) -> Solved:
    """One account of a level, from those of its pieces."""
    sums = ("parents", "copied", "empty", "fast", "general", "informed", "flows", "programs")
    worst = ("gap", "distance", "violation")
    return Solved(
        level=accounts[0].level,
        **{name: sum(getattr(account, name) for account in accounts) for name in sums},
        **{name: max(getattr(account, name) for account in accounts) for name in worst},
    )


@compiled
def collect(  # type: ignore[no-untyped-def]
    first_child, above_start, above_cell, above_count, first, last, parent, cell_start, cell, block_start, table
):
    """Sizes, cells and counts of a piece: the non-zero entries of the children of parents ``first`` to ``last``.

    Children of a nest have the counts in ``table``, which is laid out like the blocks of the nests. Only children copy
    their parent, and the children of an empty parent are empty.
    """
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
