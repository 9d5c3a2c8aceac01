"""The rows of a query that touch each nest's support, and sums over them: kernels over all nests."""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import compiled
from tallyveil.nouns.counts_kernels import insert_sorted


@compiled
def support_rows(cell_start, cell, row_of_cell, size):  # type: ignore[no-untyped-def]
    """Distinct rows of each nest's support, rising."""
    start, seen = np.zeros(len(cell_start), np.int64), np.zeros(size, np.int64)
    for p in range(len(cell_start) - 1):
        distinct = 0
        for i in range(cell_start[p], cell_start[p + 1]):
            distinct += seen[row_of_cell[cell[i]]] <= p
            seen[row_of_cell[cell[i]]] = p + 1
        start[p + 1] = start[p] + distinct
    rows = np.empty(start[-1], np.int32)
    for r in range(size):
        seen[r] = 0
    for p in range(len(cell_start) - 1):
        at = start[p]
        for i in range(cell_start[p], cell_start[p + 1]):
            row = row_of_cell[cell[i]]
            if seen[row] <= p:
                seen[row] = p + 1
                rows[at] = row
                at += 1
        if at - start[p] <= 48:
            insert_sorted(rows, start[p], at)
        else:  # many rows: read them all, in order
            at = start[p]
            for row in range(size):
                if seen[row] == p + 1:
                    rows[at] = row
                    at += 1
    return start, rows


@compiled
def places(child_start, child, start, rows, size):  # type: ignore[no-untyped-def]
    """Places (unit * size + row) for every child of every nest and every row of the nest."""
    total = 0
    for p in range(len(start) - 1):
        total += (child_start[p + 1] - child_start[p]) * (start[p + 1] - start[p])
    out = np.empty(total, np.int64)
    at = 0
    for p in range(len(start) - 1):
        for c in range(child_start[p], child_start[p + 1]):
            for r in range(start[p], start[p + 1]):
                out[at] = child[c] * size + rows[r]
                at += 1
    return out


@compiled
def add_rows(child_start, cell_start, cell, block_start, x, row_of_cell, sums):  # type: ignore[no-untyped-def]
    """Add each child's entries to the rows they fall into."""
    for p in range(len(child_start) - 1):
        at = block_start[p]
        for c in range(child_start[p], child_start[p + 1]):
            for s in range(cell_start[p], cell_start[p + 1]):
                sums[c, row_of_cell[cell[s]]] += x[at]
                at += 1
