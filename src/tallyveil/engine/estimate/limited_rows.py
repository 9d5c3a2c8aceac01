"""The limited rows of a nest on its support, compiled, and which of its entries are open."""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import inlined, part
from tallyveil.engine.estimate.one_nest import Desk, Rows


@inlined
def limited_rows(nests, limits, p, order, queries, place):  # type: ignore[no-untyped-def]
    """The limited rows that the support has, and the queries that the projection meets; and which entries are open."""
    n, m = nests.child_start[p + 1] - nests.child_start[p], nests.cell_start[p + 1] - nests.cell_start[p]
    kinds, kept, total = limits.row_of_cell.shape[0], queries.source.size, 0
    for k in range(kinds):
        total += limits.rows[k] * n
    softs = 0
    for q in range(kept):
        softs += queries.soft[q]
        total += queries.rows[q] * n if queries.soft[q] else 0
    size = kinds + softs
    by_kind, by_row = np.zeros((3, size), np.int64), np.zeros((6, total))
    by_cell, by_child = np.zeros((3, size, m), np.int64), np.empty((2, size, n), np.int64)
    rows = Rows(
        by_kind[0], by_kind[1], by_kind[2], by_cell[0], by_cell[1], by_child[0], np.ones(size, np.bool_),
        np.zeros((size, m + 1), np.int64), by_cell[2], np.zeros((size, n + 1), np.int64), by_child[1],
        by_row[0], by_row[1], by_row[2], by_row[3], _desk(n, m if size > 0 else 0, by_row[4], by_row[5]),
    )  # fmt: skip
    open_, owner, used = np.ones((m, n), np.bool_), np.empty(n, np.int64), 0
    for j in range(total):
        rows.most[j] = np.inf
    for k in range(kinds):
        rows.first[k] = used
        _index_owners(limits.owner[k], nests.child_start[p], order, k, rows, owner)
        _index_limited_rows(nests, limits, p, k, place, rows)
        _bound_rows(nests, limits, p, k, owner, rows, open_)
        used += rows.rows[k] * rows.owners[k]
    k = kinds
    for q in range(kept):
        if queries.soft[q]:
            rows.first[k] = used
            _soften(n, m, q, k, queries, rows)
            used += queries.rows[q] * n
            k += 1
    return rows, open_


@part
def _index_owners(owner_of, c0, order, k, rows, owner):  # type: ignore[no-untyped-def]
    """Number the owners of a limit as the children come, and index their children; ``owner`` gets who they are."""
    n = order.size
    base = last = owner_of[c0]
    for c in range(n):
        base, last = min(base, owner_of[c0 + c]), max(last, owner_of[c0 + c])
    number = np.zeros(last - base + 1, np.int64)  # of each owner, from 1; 0: not met yet
    for c in range(n):
        who = owner_of[c0 + order[c]]
        if number[who - base] == 0:
            owner[rows.owners[k]] = who
            rows.owners[k] += 1
            number[who - base] = rows.owners[k]
        rows.owner[k, c] = number[who - base] - 1
        rows.plain[k] = rows.plain[k] and rows.owner[k, c] == c
    _index_rows(n, rows.owners[k], rows.owner[k], rows.child_ptr[k], rows.children[k])


@part
def _index_limited_rows(nests, limits, p, k, place, rows):  # type: ignore[no-untyped-def]
    """The cells of each row of a limit that the support has, in the order of their first cells."""
    s0, m = nests.cell_start[p], nests.cell_start[p + 1] - nests.cell_start[p]
    number = 0
    for s in range(m):
        place[limits.row_of_cell[k, nests.cell[s0 + s]]] = -1
    for s in range(m):
        r = limits.row_of_cell[k, nests.cell[s0 + s]]
        if place[r] < 0:
            place[r] = number
            number += 1
        rows.into[k, s] = place[r]
    rows.rows[k] = number
    _index_rows(m, rows.rows[k], rows.into[k], rows.ptr[k], rows.cells[k])


@part
def _bound_rows(nests, limits, p, k, owner, rows, open_):  # type: ignore[no-untyped-def]
    """The bounds of a limit's rows: zero closes entries, and what the parent's counts cannot break is dropped."""
    s0 = nests.cell_start[p]
    for r in range(rows.rows[k]):
        begin, end = rows.ptr[k, r], rows.ptr[k, r + 1]
        whole = 0.0
        for a in range(begin, end):
            whole += nests.count[s0 + rows.cells[k, a]]
        row = limits.row_of_cell[k, nests.cell[s0 + rows.cells[k, begin]]]
        for o in range(rows.owners[k]):
            at = limits.first[k] + owner[o] * limits.rows[k] + row
            j = rows.first[k] + r * rows.owners[k] + o
            rows.least[j], rows.most[j] = limits.least[at], limits.most[at]
            if rows.most[j] <= 0.0:
                rows.least[j], rows.most[j] = 0.0, np.inf
                for a in range(begin, end):
                    for b in range(rows.child_ptr[k, o], rows.child_ptr[k, o + 1]):
                        open_[rows.cells[k, a], rows.children[k, b]] = False
            elif nests.count[s0] >= 0.0 and rows.most[j] >= whole:
                rows.most[j] = np.inf
            if rows.least[j] > 0.0 or rows.most[j] < np.inf:
                rows.held[k, r] = o + 1


@part
def _soften(n, m, q, k, queries, rows):  # type: ignore[no-untyped-def]
    """A query that outweighs all others, as soft rows: each child its own owner, the noisy answer both bounds."""
    rows.rows[k], rows.owners[k] = queries.rows[q], n
    for c in range(n):
        rows.owner[k, c], rows.children[k, c], rows.child_ptr[k, c + 1] = c, c, c + 1
    for s in range(m):
        rows.into[k, s] = queries.local[q, s]
    _index_rows(m, queries.rows[q], rows.into[k], rows.ptr[k], rows.cells[k])
    j = rows.first[k]
    for r in range(queries.rows[q]):
        rows.held[k, r] = n
        for c in range(n):
            if queries.weight[q, c] > 0.0:  # otherwise the answer says nothing
                rows.least[j] = rows.most[j] = queries.noisy[queries.offset[q] + r, c]
                rows.give[j] = 1.0 / queries.weight[q, c]
            j += 1


@part
def _index_rows(m, number, into, ptr, cells):  # type: ignore[no-untyped-def]
    """The cells of each row: row r has ``cells[ptr[r]]`` to ``cells[ptr[r + 1]]``."""
    for s in range(m):
        ptr[into[s] + 1] += 1
    for r in range(number):
        ptr[r + 1] += ptr[r]
    for s in range(m):
        cells[ptr[into[s]]] = s
        ptr[into[s]] += 1  # moves on to the row's end, where the next row begins
    for r in range(number, 0, -1):
        ptr[r] = ptr[r - 1]
    ptr[0] = 0


@part
def _desk(n, m, last, ahead):  # type: ignore[no-untyped-def]
    """Scratch of the projection."""
    whole, real = np.empty((3, n), np.int64), np.empty((7, n))
    return Desk(
        real[0], whole[0], real[1], real[2], real[3], whole[1], whole[2], real[4], real[5], real[6], np.empty(n * m),
        last, ahead,
    )  # fmt: skip
