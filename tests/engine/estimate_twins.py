"""The reductions of an estimate in dense numpy, slow and short: the specification of the compiled kernels.

A query on a nest's support is a triple (Q, w, y): a matrix of zeros and ones (rows x cells), the weights (one for each
child) and the noisy answers (rows x children). A nest's own list begins with the cells, for which Q is the identity.
Tables are cells x children.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from random_nests import SCHEMA, nests_of, sums

from tallyveil.engine.estimate import problem
from tallyveil.engine.nests import UNLIMITED, Limits, Nests

FINE_TO_COARSE = ("a * c", "b * c", "a * b", "c", "a", "b", "total")


class Question(NamedTuple):
    """A query of every child: noisy answers (children x rows) and weights."""

    row_of_cell: np.ndarray
    noisy: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Nests, their true tables (children x cells), the cells' own answers, the queries, fine to coarse, and limits."""

    nests: Nests
    tables: list[np.ndarray]
    own: Question
    questions: list[Question]
    limits: list[Limits]


# ---- random nests ----------------------------------------------------------------------------------------------------


def draw_case(rng, *, root=False, measured=True, heavy=False, zeros=True) -> Case:
    """Up to three nests; some weights may be zero, one query may outweigh the others, and limits hold of the truth."""
    tables, cells = [], []
    for _ in range(1 if root else rng.integers(1, 4)):
        n, m = (1, SCHEMA.cells) if root else (rng.integers(1, 5), rng.integers(1, 9))
        tables.append(rng.poisson(rng.choice([0.5, 4.0]), (n, m)))
        tables[-1][rng.integers(n, size=m), np.arange(m)] += not root  # every cell of a support has somebody
        cells.append(np.sort(rng.choice(SCHEMA.cells, m, replace=False)))
    _, nests = nests_of(tables, cells, [[-1] * SCHEMA.cells] if root else None)
    children = len(nests.child)
    some = [text for text in FINE_TO_COARSE if rng.random() < 0.5] or ["total"]

    def ask(text, factor=1.0):
        query = SCHEMA.query(text)
        pairs = zip(tables, cells, strict=True)
        true = np.vstack([sums(table, query.row_of_cell[cell], width=query.size) for table, cell in pairs])
        noise = 4.0 / max(factor, 1.0) ** 0.25
        weight = factor * 10.0 ** rng.uniform(-1, 1, children)
        weight[zeros & (rng.random(children) < 0.2)] = 0.0
        return Question(query.row_of_cell, rng.normal(true, noise), weight)

    own = ask("detailed", float(measured))
    own = own if own.weight.any() else own._replace(noisy=0.0 * own.noisy)
    pick = rng.choice(some) if heavy else ""
    questions = [ask(text, 1e5 if text == pick else 1.0) for text in some]
    if not any(one.weight.any() for one in (own, *questions)):  # something is measured
        questions[0].weight[:] = 1.0
    texts = rng.permutation(["detailed", *FINE_TO_COARSE])[: rng.integers(0, 4)]
    return Case(
        nests=nests,
        tables=tables,
        own=own,
        questions=questions,
        limits=[draw_limits(rng, text, tables, cells) for text in texts],
    )


def draw_limits(rng, text, tables, cells) -> Limits:
    """Bounds around the true sums: exact, loose, on one side only; and owners of one child or of several."""
    query, together = SCHEMA.query(text), rng.integers(1, 4)
    owners, true = [], np.zeros((0, query.size), np.int64)
    for table, cell in zip(tables, cells, strict=True):
        local = np.arange(len(table)) // together
        owners.append(len(true) + local)
        true = np.vstack([true, sums(table, query.row_of_cell[cell], local, query.size)])
    slack = rng.integers(0, 3, (2, *true.shape))
    most = np.where(rng.random(true.shape) < 0.3, UNLIMITED, true + slack[0] * (true > 0))
    least = np.where(rng.random(true.shape) < 0.3, 0, np.maximum(0, true - slack[1]))
    return Limits(
        name=text, row_of_cell=query.row_of_cell, least=least, most=most, owner=np.concatenate(owners).astype(np.int64)
    )


def packed(case: Case):
    """The arrays that ``estimate`` gives to the kernels: nests, queries, limits, and scratch."""
    nests, asked = case.nests, []
    for one in (case.own, *case.questions)[0 if case.own.weight.any() else 1 :]:
        start, rows = problem.rows_of(nests, one.row_of_cell, one.noisy.shape[1])
        at = problem.places_of(nests, start, rows, one.noisy.shape[1])
        noisy = one.noisy.reshape(-1)[at]
        asked.append(problem.Asked(row_of_cell=one.row_of_cell, start=start, rows=rows, noisy=noisy, weight=one.weight))
    with patch.object(problem, "solve_nests") as kernel:
        problem.estimate(nests, asked, case.limits)
    nest_arrays, asked_arrays, limit_arrays, _, most_rows, _ = kernel.call_args.args
    return nest_arrays, asked_arrays, limit_arrays, np.zeros(most_rows, np.int64)


# ---- the twins -------------------------------------------------------------------------------------------------------


def matrix(row_of_cell):
    """Q: which cells are in each row, the rows rising."""
    return (np.unique(row_of_cell)[:, None] == row_of_cell).astype(float)


def support(case, p):
    """A nest's children, in the solver's order, its cells and the parent's counts."""
    nests = case.nests
    cells = slice(nests.cell_start[p], nests.cell_start[p + 1])
    children = np.arange(nests.child_start[p], nests.child_start[p + 1])
    return children[open_first(case, children, nests.cell[cells])], nests.cell[cells], nests.count[cells]


def open_first(case, children, cell):
    """The order of children: by the rows that are closed for some of them, one that is open for few before the others.

    Of rows that are open for equally many, the later limit, and the row whose first cell is later, goes first.
    """
    rows = [(limit, row) for limit in case.limits for row in dict.fromkeys(limit.row_of_cell[cell])]
    closed = [limit.most[limit.owner[children], row] <= 0 for limit, row in rows]
    closed = sorted((one for one in closed if one.any() and not one.all()), key=np.sum)
    return np.lexsort([np.zeros(len(children)), *closed])


def dense_queries(case, p):
    """All that was asked of a nest, the cells first; weights relative to the largest of all nests."""
    children, cell, _ = support(case, p)
    every = (case.own, *case.questions)
    scale = max(one.weight.max() for one in every)
    return [
        (
            matrix(one.row_of_cell[cell]),
            one.weight[children] / scale,
            one.noisy[children][:, np.unique(one.row_of_cell[cell])].T,
        )
        for one in every
    ]


def objective(queries, x) -> float:
    """1/2 sum_q w_q |Q_q x - y_q|^2."""
    return 0.5 * sum(float((w * (Q @ x - y) ** 2).sum()) for Q, w, y in queries)


def slope(queries, x):
    """The gradient of the objective."""
    return sum(Q.T @ (w * (Q @ x - y)) for Q, w, y in queries)


def hessian(queries, child):
    """The Hessian of one child's cells."""
    return sum(w[child] * Q.T @ Q for Q, w, _ in queries)


def sources(case):
    """The last finer query that each query is a sum of, in the whole schema; -1: of the cells only."""
    together = [one.row_of_cell[:, None] == one.row_of_cell for one in case.questions]
    return [max([p for p in range(q) if (together[p] <= together[q]).all()], default=-1) for q in range(len(together))]


def merged(queries, source):
    """Queries that have the same rows on the support as the finer one that they are made from are merged into it.

    Gives the queries that are left, cells first, and which of them each one is made from.
    """
    left, made_from, now = [queries[0]], [0], []
    for (adds, w, y), t in zip(queries[1:], source, strict=True):
        finer = now[t] if t >= 0 else 0
        finer_adds, v, z = left[finer]
        same = np.array_equal(adds.T @ adds, finer_adds.T @ finer_adds)
        now.append(finer if same else len(left))
        if same:
            answer = (finer_adds @ adds.T > 0) @ y
            mean = np.where(v + w > 0, (v * z + w * answer) / np.where(v + w > 0, v + w, 1.0), z)
            left[finer] = (finer_adds, v + w, mean)
        else:
            left.append((adds, w, y))
            made_from.append(finer)
    return left, made_from


def outweighing(queries, factor=200.0):
    """Queries whose largest eigenvalue is above so many times that of all others together, the heaviest first."""
    curvature = np.array([np.linalg.norm(w.max() * Q.T @ Q, 2) for Q, w, _ in queries])
    soft = np.zeros(len(queries), bool)
    while True:
        top = int(curvature.argmax())
        rest = curvature.sum() - curvature[top]
        if top == 0 or rest <= 0 or curvature[top] <= factor * rest:
            return soft
        soft[top], curvature[top] = True, 0.0


class DenseRows(NamedTuple):
    """Rows of sums: ``inside`` is rows x cells x children. Soft ones have ``give`` = 1/w, and an answer for bounds."""

    kind: np.ndarray
    inside: np.ndarray
    least: np.ndarray
    most: np.ndarray
    give: np.ndarray

    def ordered(self):
        return sorted(zip(*(part.tolist() for part in self), strict=True))

    def sums(self, x):
        return np.einsum("jsc,sc->j", self.inside, x)

    def pull(self, nu):
        """R' nu."""
        return np.einsum("jsc,j->sc", self.inside, nu)


def dense_rows(case, p, left, soft):
    """The limits on the support, then the soft queries, as rows; and the open entries."""
    children, cell, count = support(case, p)
    open_, found = np.ones((len(cell), len(children)), bool), []
    for k, limit in enumerate(case.limits):
        owner, row = limit.owner[children], limit.row_of_cell[cell]
        for o, r in product(np.unique(owner), np.unique(row)):
            inside = np.outer(row == r, owner == o)
            least, most = limit.least[o, r], limit.most[o, r]
            if most <= 0:  # closed
                open_ &= ~inside
                least, most = 0, UNLIMITED
            if count[0] >= 0 and most >= count[row == r].sum():  # the parent's counts cannot break it
                most = UNLIMITED
            found.append((k, inside, least, np.inf if most == UNLIMITED else most, 0.0))
    for k, q in enumerate(np.flatnonzero(soft)):
        adds, w, y = left[q]
        for r, c in product(range(len(adds)), range(len(w))):
            inside = np.outer(adds[r] > 0, np.arange(len(w)) == c)
            found.append((len(case.limits) + k, inside, y[r, c], y[r, c], 1.0 / w[c]))
    shape = (len(found), *open_.shape)
    parts = list(zip(*found, strict=True)) or [()] * 5
    return DenseRows(np.array(parts[0]), np.array(parts[1], float).reshape(shape), *map(np.array, parts[2:])), open_
