"""The queries of a nest on its support, compiled: merged where their rows coincide, summed from finer ones."""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import inlined, part
from tallyveil.engine.estimate.one_nest import Queries

OUTWEIGHING = 200.0  # a query of so much more weight than all others is met in the projection


@inlined
def merged_queries(nests, asked, p, order, place):  # type: ignore[no-untyped-def]
    """The queries of a nest, those with the same rows on its support merged; and what merging took from the objective.

    Two answers y, z of weights v, w to one row pull like their weighted mean with weight v + w; the rest,
    v w / (v + w) (y - z)^2 / 2, depends on nothing else.
    """
    c0, s0 = nests.child_start[p], nests.cell_start[p]
    n, m, size = nests.child_start[p + 1] - c0, nests.cell_start[p + 1] - s0, asked.row_of_cell.shape[0]
    own, own_noisy, block = np.empty(n), np.empty((m, n)), nests.block_start[p]
    for c in range(n):
        own[c] = asked.weight[size, c0 + order[c]]
        for s in range(m):
            own_noisy[s, c] = asked.noisy_own[block + order[c] * m + s]
    total_rows = 0
    for q in range(size):
        total_rows += asked.row_start[q, p + 1] - asked.row_start[q, p]
    local, into = np.empty((size, m), np.int64), np.empty((size, m), np.int64)
    across = np.empty(m, np.int64)  # the row of this query that each cell, or row of the finer query, falls into
    rows, offset = np.zeros(size, np.int64), np.zeros(size, np.int64)
    made_from, alias = np.zeros(size, np.int64), np.zeros(size, np.int64)
    weights, values = np.empty((size, n)), np.empty((total_rows, n))
    kept, used, constant = 0, 0, 0.0
    for q in range(size):
        first = asked.row_start[q, p]
        k = asked.row_start[q, p + 1] - first
        for r in range(k):
            place[asked.row[first + r]] = r
        t = asked.source[q]
        if t >= 0:
            t = alias[t]
        finer = m if t < 0 else rows[t]
        for s in range(m):
            across[s if t < 0 else local[t, s]] = place[asked.row_of_cell[q, nests.cell[s0 + s]]]
        start = asked.noisy_start[q, p]
        noisy, weight = asked.noisy[start : start + n * k], asked.weight[q, c0 : c0 + n]
        if k == finer:  # the same rows as the finer query's: one weighted mean
            alias[q] = t
            if t < 0:
                constant += _average(own_noisy, own, noisy, weight, order, across)
            else:
                constant += _average(values[offset[t] : offset[t] + finer], weights[t], noisy, weight, order, across)
            continue
        alias[q] = kept
        made_from[kept], rows[kept], offset[kept] = t, k, used
        for i in range(finer):
            into[kept, i] = across[i]
        for s in range(m):
            local[kept, s] = place[asked.row_of_cell[q, nests.cell[s0 + s]]]
        for c in range(n):
            weights[kept, c] = weight[order[c]]
            for r in range(k):
                values[used + r, c] = noisy[order[c] * k + r]
        used += k
        kept += 1
    soft = _outweighing(rows[:kept], local, weights, own)
    queries = Queries(
        made_from[:kept], into, local, rows[:kept], offset[:kept], weights, values[:used], soft, own, own_noisy,
        _direct(m, made_from[:kept], into, offset), np.empty((used, n)),
    )  # fmt: skip
    return queries, constant


@part
def _direct(m, source, into, offset):  # type: ignore[no-untyped-def]
    """Where the rows of each cell stand, of the queries that are made from the cells."""
    number = 0
    for q in range(source.size):
        number += source[q] < 0
    direct = np.empty((number, m), np.int64)
    number = 0
    for q in range(source.size):
        if source[q] < 0:
            for s in range(m):
                direct[number, s] = offset[q] + into[q, s]
            number += 1
    return direct


@part
def _average(values, weights, noisy, weight, order, across):  # type: ignore[no-untyped-def]
    """Merge answers into those of the same rows; gives what that takes from the objective."""
    constant = 0.0
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            y, w = noisy[order[c] * values.shape[0] + across[i]], weight[order[c]]
            old, old_weight = values[i, c], weights[c]
            both = w + old_weight
            if both > 0.0:
                constant += 0.5 * w * old_weight / both * (y - old) ** 2
                values[i, c] = (w * y + old_weight * old) / both
    for c in range(values.shape[1]):
        weights[c] += weight[order[c]]
    return constant


@part
def _outweighing(rows, local, weights, own):  # type: ignore[no-untyped-def]
    """Which queries outweigh all the rest together so far that steps of the gradient would be far too short."""
    n, m, kept = own.size, local.shape[1], rows.size
    soft = np.zeros(kept, np.bool_)
    curvature = np.zeros(kept + 1)  # the largest eigenvalue that each query adds, at most; last the cells' own
    for c in range(n):
        curvature[kept] = max(curvature[kept], own[c])
    size = np.zeros(m, np.int64)
    for q in range(kept):
        heaviest, longest = 0.0, 0
        for c in range(n):
            heaviest = max(heaviest, weights[q, c])
        for r in range(rows[q]):
            size[r] = 0
        for s in range(m):
            size[local[q, s]] += 1
            longest = max(longest, size[local[q, s]])
        curvature[q] = heaviest * longest
    for _ in range(kept):
        rest, top = 0.0, kept
        for q in range(kept + 1):
            rest += curvature[q]
            top = q if curvature[q] > curvature[top] else top
        rest -= curvature[top]
        if top == kept or rest == 0.0 or curvature[top] <= OUTWEIGHING * rest:
            break
        soft[top] = True
        curvature[top] = 0.0
    return soft
