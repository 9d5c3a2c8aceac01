"""Rounding against its specification, a linear program: slow and short, and written without a network.

At each stage the rounded margins are as near to the real ones, in the sum of absolute differences, as those of any
whole table between floors and ceilings that keeps the parent's counts, the limits and the margins before. Where sets
nest, tables of real numbers do no better if their differences are interpolated between whole numbers: a linear program
finds the least change. Elsewhere its variables must be whole.
"""

from collections import Counter

import numpy as np
import pytest
from random_nests import MODES, SCHEMA, floors, keeps, limits_on, random_nest, round_one, sums
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, diags, eye, hstack, kron

from tallyveil.engine.nests import UNLIMITED
from tallyveil.engine.rounding.rounding import stages_of

QUERIES = [[], ["total"], ["b"], ["total", "a"], ["a", "a * b"], ["total", "detailed"], ["total", "a", "a * b"]]


def adding(group, groups, row, rows):
    """The matrix that adds up a table (children x columns, one after another) over groups of children and rows."""
    return kron(eye(groups, format="csr")[group].T, eye(rows, format="csr")[row].T, format="csr")


def assert_nothing_is_nearer(x, z, cell, count, limits, stages, *, whole=False):
    """At each stage the program, held to the same margins before, finds the same least change."""
    n, m = x.shape
    low, high = (bound.reshape(-1) for bound in floors(x))
    kept = [] if count is None else [(adding(np.zeros(n, int), 1, np.arange(m), m), count, count)]
    for limit in limits:
        most = np.where(limit.most == UNLIMITED, np.inf, limit.most)
        matrix = adding(limit.owner, len(most), limit.row_of_cell[cell], most.shape[1])
        kept.append((matrix, limit.least.reshape(-1), most.reshape(-1)))
    for stage in stages:
        margin = adding(np.arange(n), n, stage[cell], stage.max() + 1)
        wanted, mine, size = margin @ x.reshape(-1), margin @ z.reshape(-1), margin.shape[0]
        change = eye(size)  # of each row: at least the difference in either direction,
        below = np.floor(wanted)
        slope = 1 - 2 * (wanted - below)  # and the chord between the whole numbers around the real one
        answer = milp(
            np.repeat([0, 1], [n * m, size]),
            integrality=np.repeat([whole, False], [n * m, size]),
            bounds=Bounds(np.append(low, np.zeros(size)), np.append(high, np.full(size, np.inf))),
            constraints=[
                *(LinearConstraint(hstack([a, csr_array((a.shape[0], size))]), least, most) for a, least, most in kept),
                LinearConstraint(hstack([margin, change]), wanted, np.inf),
                LinearConstraint(hstack([margin, -change]), -np.inf, wanted),
                LinearConstraint(hstack([-diags(slope) @ margin, change]), wanted - below - slope * below, np.inf),
            ],
            options={"mip_rel_gap": 0.0},
        )
        assert np.abs(mine - wanted).sum() == pytest.approx(answer.fun, abs=1e-5)
        kept.append((margin, mine, mine))


def drawn_nest(rng, queries, *, root):
    """A real table, and limits around its sums: some shared by siblings, some capped at zero, some without a cap."""
    n, m = 1 if root else int(rng.integers(2, 9)), int(rng.integers(2, SCHEMA.cells + 1))
    cell = np.sort(rng.choice(SCHEMA.cells, m, replace=False))
    x = rng.gamma(0.7, 2, (n, m)) * (rng.random((n, m)) < 0.8)
    closed = rng.random(n) < 0.3  # these children have nobody in some row of the last limit
    rows = SCHEMA.query(queries[-1] if queries else "total").row_of_cell[cell]
    x[np.ix_(closed, rows == rng.choice(rows))] = 0
    count = None
    if not root:
        count = np.ceil(x.sum(axis=0)).astype(int)
        x[rng.integers(n)] += count - x.sum(axis=0)
    limits = []
    for text in queries:
        query, owner = SCHEMA.query(text), np.arange(n) // rng.choice([1, 1, 2, 3])  # so many children to an owner
        near = sums(x, query.row_of_cell[cell], owner, query.size)
        slack = rng.integers(0, 2, near.shape)
        most = np.where(rng.random(near.shape) < 0.2, UNLIMITED, np.ceil(near - 1e-9) + slack * (near > 0))
        least = np.maximum(0, np.floor(near + 1e-9) - slack)
        limits.append(limits_on(text, least, most, owner))
    return x, cell, count, limits


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("root", [False, True], ids=["children", "root"])
def test_no_table_is_nearer_stage_by_stage(root, rounding):
    rng, seen = np.random.default_rng(21), Counter()
    for number in range(70):
        x, cell, count, limits = drawn_nest(rng, QUERIES[number % len(QUERIES)], root=root)
        z, rounded = round_one(x, cell, limits, rounding, [-1] * len(cell) if count is None else count)
        assert keeps(z, cell, limits)
        assert count is None or (z.sum(axis=0) == count).all()
        stages = stages_of(SCHEMA, [limit.row_of_cell for limit in limits], rounding)
        assert_nothing_is_nearer(x, z, cell, count, limits, stages, whole=rounded.programs > 0)
        seen["programs"] += rounded.programs
        seen["flows"] += rounded.flows
        seen["limits"] += len(limits)
        seen["shared"] += rounded.flows * any(0 < limit.owner[-1] < len(x) - 1 for limit in limits)
        seen["zero caps"] += any((limit.most == 0).any() for limit in limits)
    assert seen["programs"] <= (0 if root else 30)
    assert min(seen["flows"], seen["limits"], seen["zero caps"]) > 10
    assert root or seen["shared"] > 5


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("queries", [[], ["total"], ["total", "a"], ["b"]], ids=" and ".join)
def test_nothing_is_nearer_at_medium_size(queries, rounding):
    rng = np.random.default_rng(16)
    for _ in range(2):
        x, cell, limits = random_nest(rng, 25, 12, queries)
        z, rounded = round_one(x, cell, limits, rounding)
        assert rounded.programs == 0
        assert keeps(z, cell, limits)
        stages = stages_of(SCHEMA, [limit.row_of_cell for limit in limits], rounding)
        assert_nothing_is_nearer(x, z, cell, np.rint(x.sum(axis=0)), limits, stages)


@pytest.mark.parametrize(("queries", "rounding"), [([], "margins"), (["total"], "margins"), (["total"], "cells")])
def test_nothing_is_nearer_among_thousands_of_children(queries, rounding):
    """So many that the costs are scaled."""
    rng = np.random.default_rng(22)
    x = rng.random((2000, 4))
    x += rng.integers(0, 2, x.shape)
    if queries:
        x[:, 3] += np.ceil(x.sum(axis=1)) - x.sum(axis=1)
    x[-1] += np.ceil(x.sum(axis=0)) - x.sum(axis=0)
    totals = np.rint(x.sum(axis=1)).astype(int)[:, None]
    cell, limits = np.array([0, 4, 6, 11]), [limits_on(text, totals, totals) for text in queries]
    z, rounded = round_one(x, cell, limits, rounding)
    assert (rounded.flows, rounded.programs) == (1, 0)
    stages = stages_of(SCHEMA, [limit.row_of_cell for limit in limits], rounding)
    assert_nothing_is_nearer(x, z, cell, np.rint(x.sum(axis=0)), limits, stages)
