"""The rows of a query that touch each nest's support, and sums over them: kernels over all nests."""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import compiled


@compiled
def support_rows(cell_start, cell, row_of_cell, size):  # type: ignore[no-untyped-def]
    """Distinct rows of each nest's support, rising."""
    seen = np.full(size, -1, np.int64)
    start = np.zeros(len(cell_start), np.int64)
    for p in range(len(cell_start) - 1):
        found = 0
        for i in range(cell_start[p], cell_start[p + 1]):
            if seen[row_of_cell[cell[i]]] != p:
                seen[row_of_cell[cell[i]]] = p
                found += 1
        start[p + 1] = start[p] + found
    rows = np.empty(start[-1], np.int32)
    seen[:] = -1
    for p in range(len(cell_start) - 1):
        at = start[p]
        for i in range(cell_start[p], cell_start[p + 1]):
            if seen[row_of_cell[cell[i]]] != p:
                seen[row_of_cell[cell[i]]] = p
                rows[at] = row_of_cell[cell[i]]
                at += 1
        rows[start[p] : start[p + 1]].sort()
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
