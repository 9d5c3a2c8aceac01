"""The objective's side of a nest: what its queries pull, the gradient, and the metric that majorises the Hessian."""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import summing_leaf, summing_part
from tallyveil.engine.estimate.one_nest import Metric

_POWERS = 1  # power steps towards the best majoriser: more gain nothing


@summing_leaf
def pull_rows(x, old, ahead, queries, end):  # type: ignore[no-untyped-def]
    """What the rows of all queries pull at v = x + ahead (x - old); gives their part of 2 f(v).

    Row r of query q pulls w_q (Q_q v - y_q)_r, and a row that a coarser one is made from pulls what that pulls, too.
    Soft queries pull nothing: the projection meets them.
    """
    m, n = x.shape
    pull, value = queries.pull, 0.0
    for q in range(queries.source.size):  # Q_q v, fine to coarse
        first, p = queries.offset[q], queries.source[q]
        for r in range(queries.rows[q]):
            for c in range(n):
                pull[first + r, c] = 0.0
        for r in range(m if p < 0 else queries.rows[p]):
            to = first + queries.into[q, r]
            if p < 0:
                for c in range(end[r]):
                    pull[to, c] += x[r, c] + ahead * (x[r, c] - old[r, c])
            else:
                at = queries.offset[p] + r
                for c in range(n):
                    pull[to, c] += pull[at, c]
    for q in range(queries.source.size):
        for r in range(queries.offset[q], queries.offset[q] + queries.rows[q]):
            if queries.soft[q]:
                for c in range(n):
                    pull[r, c] = 0.0
            else:
                for c in range(n):
                    off = pull[r, c] - queries.noisy[r, c]
                    value += queries.weight[q, c] * off * off
                    pull[r, c] = queries.weight[q, c] * off
    for q in range(queries.source.size - 1, -1, -1):  # hand each row's pull down to the finer rows it is made from
        p = queries.source[q]
        if p >= 0:
            for r in range(queries.rows[p]):
                at, to = queries.offset[q] + queries.into[q, r], queries.offset[p] + r
                for c in range(n):
                    pull[to, c] += pull[at, c]
    return value


@summing_leaf
def gradient(x, queries, columns, g):  # type: ignore[no-untyped-def]
    """The gradient at x, once the rows' pull is known; gives the cells' own part of f(x)."""
    value, end = 0.0, columns.end
    for s in range(x.shape[0]):
        for c in range(end[s]):
            off = x[s, c] - queries.noisy_own[s, c] if columns.open_[s, c] else 0.0
            value += queries.own[c] * off * off
            g[s, c] = queries.own[c] * off
        for q in range(queries.direct.shape[0]):
            at = queries.direct[q, s]
            for c in range(end[s]):
                g[s, c] += queries.pull[at, c]
    return 0.5 * value


@summing_part
def majorised(queries):  # type: ignore[no-untyped-def]
    """1/D: for each cell at the largest weights, and for each child how much its weights fall short of them.

    D_s = (H v)_s / v_s majorises H for any v > 0; a few power steps from v = 1 make its largest entries smaller.
    """
    m, n = queries.noisy_own.shape
    step, pace, drag = np.empty(m), np.empty(n), np.empty(n)
    largest = 0.0
    for c in range(n):
        largest = max(largest, queries.own[c])
    for c in range(n):
        drag[c] = queries.own[c] / largest if largest > 0.0 else 0.0
    heaviest = np.zeros(queries.source.size)
    for q in range(queries.source.size):
        if not queries.soft[q]:
            for c in range(n):
                heaviest[q] = max(heaviest[q], queries.weight[q, c])
            for c in range(n):
                drag[c] = max(drag[c], queries.weight[q, c] / heaviest[q])
    for c in range(n):
        pace[c] = 1.0 / drag[c]
    v, image, sums = np.ones(m), np.empty(m), np.empty(m)
    for _ in range(_POWERS + 1):
        for s in range(m):
            image[s] = largest * v[s]
        for q in range(queries.source.size):
            for r in range(queries.rows[q]):
                sums[r] = 0.0
            for s in range(m):
                sums[queries.local[q, s]] += v[s]
            for s in range(m):
                image[s] += heaviest[q] * sums[queries.local[q, s]]
        highest = 0.0
        for s in range(m):
            step[s] = v[s] / image[s]
            highest = max(highest, image[s])
        for s in range(m):
            v[s] = image[s] / highest
    return Metric(step, pace, drag)
