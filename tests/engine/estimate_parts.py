"""The compiled parts of an estimate, made callable from Python, and what they return as dense arrays.

Nothing is cached on disk: numba would not notice that the file of a part has changed.
"""

from __future__ import annotations

import numba
import numpy as np
from estimate_twins import DenseRows, matrix, packed

from tallyveil.engine.estimate.bound import gap_of
from tallyveil.engine.estimate.gradient import gradient, majorised, pull_rows
from tallyveil.engine.estimate.limited_rows import limited_rows
from tallyveil.engine.estimate.merged_queries import merged_queries
from tallyveil.engine.estimate.open_children import open_ends, open_first
from tallyveil.engine.estimate.projection import fit_column, meet_columns, off_by, project
from tallyveil.engine.estimate.reductions import _measured


@numba.njit
def _reduced(nests, asked, limits, p, place):
    order = open_first(nests, limits, p, place)
    queries, constant = merged_queries(nests, asked, p, order, place)
    rows, open_ = limited_rows(nests, limits, p, order, queries, place)
    return queries, constant, rows, open_


@numba.njit
def _ordered(nests, limits, p, place):
    return open_first(nests, limits, p, place)


@numba.njit
def ends_of(open_):
    """Where the open entries of each cell end."""
    return open_ends(open_)


@numba.njit
def measured(queries, count):
    return _measured(queries, count)


@numba.njit
def metric_of(queries):
    return majorised(queries)


@numba.njit
def projected(u, columns, metric, rows, tolerance, sweeps):
    """Fit the columns of u, then project; gives the turns taken."""
    for s in range(columns.count.size):
        fit_column(u, s, columns, metric)
    return project(u, columns, metric, rows, tolerance, sweeps)


@numba.njit
def pulled(x, old, ahead, v, queries, columns, g):
    """The rows' part of 2 f(v), the cells' own part of f(v), and in g the gradient at v = x + ahead (x - old)."""
    rows = pull_rows(x, old, ahead, queries, columns.end)
    return rows, gradient(v, queries, columns, g)


@numba.njit
def bounded(x, g, columns, own, rows):
    return gap_of(x, g, columns, own, rows)


def reduced(case, p):
    """A nest as the solver sees it: queries, constant, rows, open entries."""
    *arrays, place = packed(case)
    return _reduced(*arrays, p, place)


def ordered(case, p):
    """The children of a nest in the solver's order."""
    nests, _, limits, place = packed(case)
    return nests.child_start[p] + _ordered(nests, limits, p, place)


def queries_of(queries):
    """The kernel's queries as triples, the cells first."""
    m = len(queries.noisy_own)
    others = [
        (matrix(queries.local[q]), queries.weight[q], queries.noisy[first : first + queries.rows[q]])
        for q, first in enumerate(queries.offset)
    ]
    return [(np.eye(m), queries.own, queries.noisy_own), *others]


def rows_of(rows):
    """The kernel's rows, in its order; both of its ways to look them up must agree."""
    kind, inside = [], np.zeros((0, rows.into.shape[1], rows.owner.shape[1]))
    for k, first in enumerate(rows.first):
        assert first == len(inside)
        for r in range(rows.rows[k]):
            for o in range(rows.owners[k]):
                one = np.zeros(inside.shape[1:])
                cells = rows.cells[k, rows.ptr[k, r] : rows.ptr[k, r + 1]]
                one[np.ix_(cells, rows.children[k, rows.child_ptr[k, o] : rows.child_ptr[k, o + 1]])] = 1.0
                assert np.array_equal(one, np.outer(rows.into[k] == r, rows.owner[k] == o))
                kind, inside = [*kind, k], np.concatenate([inside, one[None]])
            span = slice(first + r * rows.owners[k], first + (r + 1) * rows.owners[k])
            limited = (rows.least[span] > 0) | (rows.most[span] < np.inf) | (rows.give[span] > 0)
            assert rows.held[k, r] == np.flatnonzero(limited).max(initial=-1) + 1
        assert rows.plain[k] == np.array_equal(rows.owner[k], np.arange(rows.owner.shape[1]))
    used = len(inside)
    assert (rows.least[used:] == 0).all()
    assert (rows.most[used:] == np.inf).all()
    assert not rows.give[used:].any()
    return DenseRows(np.array(kind), inside, rows.least[:used], rows.most[:used], rows.give[:used])


@numba.njit
def missing(x, s, columns):
    """By how much a column misses its count."""
    return off_by(x, s, columns)


@numba.njit
def met(x, columns, metric):
    meet_columns(x, columns, metric)
