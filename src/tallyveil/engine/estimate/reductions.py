"""Prepare each nest for the solver, compiled: the rows of its queries and limits that its support has.

Exact reductions: queries whose rows coincide on the support are merged into one (with one household type,
``votingage * hispanic * cenrace`` is ``detailed``); a query is summed from a finer one, not from the cells; an upper
bound of zero closes entries, and children are ordered so that closed entries come last and are left out
(``open_children``); a bound that the parent's counts cannot break is dropped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tallyveil._compiled import compiled, part
from tallyveil.engine.estimate.fista import Goal, solve
from tallyveil.engine.estimate.limited_rows import limited_rows
from tallyveil.engine.estimate.merged_queries import merged_queries
from tallyveil.engine.estimate.one_nest import Columns
from tallyveil.engine.estimate.open_children import open_ends, open_first


class NestArrays(NamedTuple):
    """The nests, as in ``nests.Nests``, with counts as floats."""

    child_start: Any
    cell_start: Any
    cell: Any
    count: Any
    block_start: Any


class AskedArrays(NamedTuple):
    """The noisy answers to queries, fine to coarse, and those of the cells themselves.

    ``source`` is for each query the finer one it is summed from (-1: the cells). Nest p has the rows ``row`` from
    ``row_start[q, p]`` on, and their answers, child after child, in ``noisy`` from ``noisy_start[q, p]`` on.
    """

    row_of_cell: Any
    source: Any
    row_start: Any
    row: Any
    noisy_start: Any
    noisy: Any
    weight: Any  # by query (the cells last) and child
    noisy_own: Any


class LimitArrays(NamedTuple):
    """Bounds: of limit k, owner o and row r at ``first[k] + o * rows[k] + r``."""

    row_of_cell: Any
    rows: Any
    first: Any
    least: Any
    most: Any
    owner: Any  # by limit and child
    closing: Any  # whether any upper bound is zero, by limit


class Solutions(NamedTuple):
    """Where the solutions go: tables like the nests' blocks, and for each nest how good they are."""

    x: Any
    gap: Any
    distance: Any
    violation: Any
    steps: Any


@compiled
def solve_nests(nests, asked, limits, goal, most_rows, out):  # type: ignore[no-untyped-def]
    """Prepare each nest and solve it."""
    place = np.zeros(most_rows, np.int64)  # of each row of a query in the nest
    for p in range(len(nests.child_start) - 1):
        n, m = nests.child_start[p + 1] - nests.child_start[p], nests.cell_start[p + 1] - nests.cell_start[p]
        if m == 0:
            continue
        count = nests.count[nests.cell_start[p] : nests.cell_start[p + 1]]
        order = open_first(nests, limits, p, place)
        queries, constant = merged_queries(nests, asked, p, order, place)
        measured = _measured(queries, count)
        rows, open_ = limited_rows(nests, limits, p, order, queries, place)
        columns = Columns(count, np.zeros(m), open_, not measured, open_ends(open_))
        found = solve(columns, queries, rows, Goal(goal.gap, goal.distance, goal.one, constant, goal.steps))
        at = nests.block_start[p]
        for c in range(n):
            for s in range(m):
                out.x[at + order[c] * m + s] = found.x[s, c]
        out.gap[p] = found.gap / max(goal.one, found.value + constant - found.gap)
        out.distance[p], out.violation[p], out.steps[p] = found.distance, found.violation, found.steps


@part
def _measured(queries, count):  # type: ignore[no-untyped-def]
    """Whether the cells of every child are measured. Where none are, the solver begins with shares of the parent."""
    m, n = queries.noisy_own.shape
    most, least = 0.0, np.inf
    for c in range(n):
        most, least = max(most, queries.own[c]), min(least, queries.own[c])
    if most <= 0.0:
        for s in range(m):
            for c in range(n):
                queries.noisy_own[s, c] = max(0.0, count[s]) / n
    return least > 0.0
