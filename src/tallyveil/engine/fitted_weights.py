r"""Weights for the strategy's own queries that say as much about a unit as its subtree does.

The covariance :math:`V_T` of a unit's estimate from below is given for each subset T of the symmetric attributes
(``blue.decomposition``). The weights are those of the non-negative fit to its inverse, in its own metric,

.. math:: \min_{w \ge 0} \sum_T \big\lVert V_T^{1/2} \big(\textstyle\sum_q w_q L_{qT} - V_T^{-1}\big) V_T^{1/2}
    \big\rVert_F^2, \qquad L_{qT} = g_{qT} D_q' D_q,

which needs no inverse: it is :math:`w'Aw - 2 b'w` with :math:`A_{qp} = \sum_T g_{qT} g_{pT} \lVert D_q V_T D_p'
\rVert_F^2` and :math:`b_q = \sum_T g_{qT} \operatorname{tr}(D_q V_T D_q')`. One query alone, such as the total, gets
1 / its variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyveil._arrays import Floats
from tallyveil._compiled import compiled, part
from tallyveil.blue.decomposition import Marginal

ALIKE = 1.0 - 1e-9  # cosine from which two queries count as the same on the open cells of a unit
EXACT = 1e-12  # a query has no variance if it has less than this share of what independent cells would give it


def fitted_weights(V: Floats, queries: Sequence[Marginal]) -> Floats:
    """The weights of queries for units with covariances ``V`` (units x subsets x dense x dense): units x queries.

    Of queries that coincide on a unit's open cells one gets all the weight: the one with a row for every cell, or else
    the one with the fewest rows. Where everything is exact, all weights are 1.
    """
    parts = np.stack([marginal.dense.argmax(axis=0) for marginal in queries])  # the dense row of each dense cell
    distinct, of = np.unique(parts, axis=0, return_inverse=True)
    gram = np.stack([marginal.gram for marginal in queries])
    cells = queries[0].decomposition.schema.cells
    order = sorted(range(len(queries)), key=lambda q: (queries[q].query.size != cells, queries[q].query.size))
    out = np.empty((len(V), len(queries)))
    _fit(
        np.ascontiguousarray(V), distinct.astype(np.int64), of.reshape(-1).astype(np.int64), gram, np.array(order), out
    )
    return out


@compiled
def _fit(V, distinct, of, gram, order, out):  # type: ignore[no-untyped-def]
    """Fit the weights of every unit."""
    size, kinds = of.size, len(distinct)
    subsets, cells = V.shape[1], V.shape[2]
    square, trace = np.empty((kinds, kinds, subsets)), np.empty((kinds, subsets))
    sums = np.empty((cells, cells))
    A, b, varies = np.empty((size, size)), np.empty(size), np.empty(size, np.bool_)
    for u in range(len(V)):
        for t in range(subsets):
            for i in range(kinds):
                for j in range(i, kinds):
                    square[i, j, t] = _square(V[u, t], distinct[i], distinct[j], sums)
                    square[j, i, t] = square[i, j, t]
                    if i == j:
                        trace[i, t] = _trace(sums)
        for q in range(size):
            b[q], apart = 0.0, 0.0
            for t in range(subsets):
                b[q] += gram[q, t] * trace[of[q], t]
                apart += gram[q, t] * _trace(V[u, t])
            varies[q] = b[q] > EXACT * apart
            for p in range(size):
                A[q, p] = 0.0
                for t in range(subsets):
                    A[q, p] += gram[q, t] * gram[p, t] * square[of[q], of[p], t]
        _non_negative(A, b, order, varies, out[u])


@part
def _trace(matrix):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(matrix)):
        total += matrix[i, i]
    return total


@part
def _square(V, rows, columns, sums):  # type: ignore[no-untyped-def]
    """The sum of squares of V summed to some rows and columns; ``sums`` has them, and zeros elsewhere."""
    n = len(V)
    sums[:] = 0.0
    for i in range(n):
        for j in range(n):
            sums[rows[i], columns[j]] += V[i, j]
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += sums[i, j] ** 2
    return total


@part
def _non_negative(A, b, order, varies, w):  # type: ignore[no-untyped-def]
    """Minimise w'Aw - 2 b'w over w >= 0 (the active-set method of Lawson and Hanson on the normal equations).

    Queries that do not vary get no weight, unless none does.
    """
    size = b.size
    scale = np.zeros(size)
    wanted = np.empty(size, np.int64)  # the queries that may have a weight
    count = 0
    for q in order:
        if not varies[q]:
            continue
        scale[q] = 1.0 / np.sqrt(A[q, q])
        alike = False
        for i in range(count):
            alike = alike or A[q, wanted[i]] * scale[q] * scale[wanted[i]] >= ALIKE
        if not alike:
            wanted[count] = q
            count += 1
    w[:] = 1.0 if count == 0 else 0.0
    H, g, largest = np.empty((count, count)), np.empty(count), 0.0
    for i in range(count):
        g[i] = b[wanted[i]] * scale[wanted[i]]
        largest = max(largest, abs(g[i]))
        for j in range(count):
            H[i, j] = A[wanted[i], wanted[j]] * scale[wanted[i]] * scale[wanted[j]]
    z, inside = np.zeros(count), np.zeros(count, np.bool_)
    for _ in range(10 * count):
        enters, steepest = -1, 1e-10 * largest
        for i in range(count):
            if not inside[i]:
                slope = g[i]
                for j in range(count):
                    slope -= H[i, j] * z[j]
                if slope > steepest:
                    enters, steepest = i, slope
        if enters < 0:
            break
        inside[enters] = True
        while True:
            at = _solution(H, g, inside)
            length, leaves = 1.0, -1
            for i in range(count):
                if inside[i] and at[i] <= 0.0:
                    share = z[i] / (z[i] - at[i]) if z[i] > at[i] else 0.0
                    if share < length or leaves < 0:
                        length, leaves = share, i
            for i in range(count):
                if inside[i]:
                    z[i] += length * (at[i] - z[i])
            if leaves < 0:
                break
            inside[leaves] = False
            z[leaves] = 0.0
    for i in range(count):
        w[wanted[i]] = z[i] * scale[wanted[i]]


@part
def _solution(H, g, inside):  # type: ignore[no-untyped-def]
    """The minimum over the unknowns inside, zero elsewhere (Cholesky; a pivot of nothing leaves its unknown out)."""
    n, m = g.size, 0
    place = np.empty(n, np.int64)
    for i in range(n):
        if inside[i]:
            place[m] = i
            m += 1
    L, y, out = np.zeros((m, m)), np.zeros(m), np.zeros(n)
    for i in range(m):
        for j in range(i + 1):
            value = H[place[i], place[j]]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            if i == j:
                L[i, i] = np.sqrt(value) if value > 1e-13 else np.inf
            else:
                L[i, j] = value / L[j, j]
        y[i] = g[place[i]]
        for k in range(i):
            y[i] -= L[i, k] * y[k]
        y[i] /= L[i, i]
    for i in range(m - 1, -1, -1):
        value = y[i]
        for k in range(i + 1, m):
            value -= L[k, i] * out[place[k]]
        out[place[i]] = value / L[i, i]
    return out
