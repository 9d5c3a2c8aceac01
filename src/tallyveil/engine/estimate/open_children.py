"""The children of a nest in an order in which closed entries come last, compiled: the solver leaves those out.

Most children have no facility of most types, and their entries are closed. Where the children whose entry is open come
first in every cell, loops over children end early.
"""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import part


@part
def open_first(nests, limits, p, place):  # type: ignore[no-untyped-def]
    """The children of a nest, sorted by the rows that are closed for them.

    Rows that are open for few children count most: those children come first. The sort goes by one row after another,
    the one that counts least first, and is stable: where nothing is closed, the order stays.
    """
    c0, n = nests.child_start[p], nests.child_start[p + 1] - nests.child_start[p]
    order, shut = np.empty(n, np.int64), np.empty(n, np.int64)
    for c in range(n):
        order[c] = c
    rows = _dividing_rows(nests, limits, p, place)
    for _ in range(rows.shape[0]):
        i = 0
        for j in range(rows.shape[0]):
            i = j if rows[j, 2] > rows[i, 2] else i
        opened = 0
        for b in range(n):
            if _is_closed(limits, rows[i, 0], c0 + order[b], rows[i, 1]):
                shut[b - opened] = order[b]
            else:
                order[opened] = order[b]
                opened += 1
        for b in range(opened, n):
            order[b] = shut[b - opened]
        rows[i, 2] = 0
    return order


@part
def _dividing_rows(nests, limits, p, place):  # type: ignore[no-untyped-def]
    """The rows that are closed for some children only: kind, row, and the number of children that they are open for."""
    s0, m, number = nests.cell_start[p], nests.cell_start[p + 1] - nests.cell_start[p], 0
    for k in range(limits.closing.size):
        number += m if limits.closing[k] else 0
    rows, number = np.empty((number, 3), np.int64), 0
    for k in range(limits.closing.size):
        if not limits.closing[k]:
            continue
        for s in range(m):
            place[limits.row_of_cell[k, nests.cell[s0 + s]]] = 0
        for s in range(m):
            r = limits.row_of_cell[k, nests.cell[s0 + s]]
            if place[r] == 0:
                place[r], rows[number, 0], rows[number, 1], rows[number, 2] = 1, k, r, 0
                for c in range(nests.child_start[p], nests.child_start[p + 1]):
                    rows[number, 2] += not _is_closed(limits, k, c, rows[number, 1])
                number += 0 < rows[number, 2] < nests.child_start[p + 1] - nests.child_start[p]
    return rows[:number]


@part
def _is_closed(limits, k, c, r):  # type: ignore[no-untyped-def]
    """Whether nobody may be in row r of limit k for a child."""
    return limits.most[limits.first[k] + limits.owner[k, c] * limits.rows[k] + r] <= 0.0


@part
def open_ends(open_):  # type: ignore[no-untyped-def]
    """For each cell the child after the last one whose entry is open."""
    m, n = open_.shape
    end = np.empty(m, np.int64)
    for s in range(m):
        end[s] = n
        while end[s] > 0 and not open_[s, end[s] - 1]:
            end[s] -= 1
    return end
