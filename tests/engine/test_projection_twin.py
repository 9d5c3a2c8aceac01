"""Projection, gradient, metric and the bound of a gap against dense algebra and a dense quadratic program."""

from collections import Counter
from fractions import Fraction

import clarabel
import numpy as np
import pytest
import scipy.sparse
from estimate_parts import bounded, ends_of, met, metric_of, missing, projected, pulled, queries_of, reduced, rows_of
from estimate_twins import DenseRows, draw_case, hessian, objective, slope, support
from test_estimate import SETTINGS, independent_rows

from tallyveil.engine.estimate.one_nest import CLOSED, Columns, Metric

KINDS = {
    "children": {"zeros": False},
    "root": {"root": True, "zeros": False},
    "some weights are zero": {},
    "cells not measured": {"measured": False, "zeros": False},
    "one query outweighs the others": {"heavy": True, "zeros": False},
}


def nests(kind, number, seed=7):
    """Random nests of a kind: the true table (cells x children), the columns, queries and rows."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        case = draw_case(rng, **KINDS[kind])
        p = int(rng.integers(len(case.nests)))
        queries, _, rows, open_ = reduced(case, p)
        children, _, count = support(case, p)
        columns = Columns(count.astype(float), np.zeros(len(count)), open_, True, ends_of(open_))
        yield rng, case.tables[p][children - case.nests.child_start[p]].T.astype(float), columns, queries, rows


# ---- the dense quadratic program -------------------------------------------------------------------------------------


def optimum(terms, columns, rows):
    """The table that minimises the objective of (Q, w, y) within the columns' sums and the hard rows; and nu.

    Clarabel finds it, and one solve of the optimality conditions, with the constraints that are met, sharpens it.
    """
    m, n = columns.open_.shape
    free = columns.open_.reshape(-1)
    unit = terms[0][1].max() or 1.0  # of the weights: what is left of the others beside a very large one
    root = [np.sqrt(np.broadcast_to(w / unit, y.shape)).reshape(-1, 1) for _, w, y in terms]
    design = np.vstack([a * np.kron(Q, np.eye(n)) for a, (Q, _, _) in zip(root, terms, strict=True)])[:, free]
    target = np.concatenate([a[:, 0] * y.reshape(-1) for a, (_, _, y) in zip(root, terms, strict=True)])
    sums, exact = rows.inside.reshape(-1, m * n)[:, free], (rows.give == 0) & (rows.least == rows.most)
    above, below = (rows.give == 0) & ~exact & (rows.most < np.inf), (rows.give == 0) & ~exact & (rows.least > 0)
    total = np.kron(np.eye(m), np.ones((1, n)))[columns.count >= 0][:, free]
    equal, right = (
        np.vstack([total, sums[exact]]),
        np.concatenate([columns.count[columns.count >= 0], rows.least[exact]]),
    )
    kept = independent_rows(equal)
    wall = np.vstack([sums[above], -sums[below], -np.eye(free.sum())])
    end = np.concatenate([rows.most[above], -rows.least[below], np.zeros(free.sum())])
    v, k = free.sum(), len(target)  # unknowns: x, and r = design x - target
    found = clarabel.DefaultSolver(
        scipy.sparse.diags(np.repeat([0.0, 1.0], [v, k])).tocsc(),
        np.zeros(v + k),
        scipy.sparse.csc_matrix(
            np.block([[equal[kept], np.zeros((len(kept), k))], [design, -np.eye(k)], [wall, np.zeros((len(end), k))]])
        ),
        np.concatenate([right[kept], target, end]),
        [clarabel.ZeroConeT(len(kept) + k), clarabel.NonnegativeConeT(len(end))],
        SETTINGS,
    ).solve()
    point = np.delete(np.append(found.x[:v], found.z), np.s_[v + len(kept) : v + len(kept) + k])
    x, dual = sharpened(design, target, np.vstack([equal[kept], wall]), np.append(right[kept], end), len(kept), point)
    assert max((wall @ x - end).max(), np.abs(equal @ x - right).max(initial=0.0)) < 1e-8
    nu, multipliers = np.zeros(len(rows.kind)), np.zeros(len(equal))
    multipliers[kept], dual = dual[: len(kept)], dual[len(kept) :]
    nu[exact] = multipliers[len(total) :]
    nu[above] += dual[: above.sum()]
    nu[below] -= dual[above.sum() :][: below.sum()]
    table = np.zeros(m * n)
    table[free] = np.maximum(0.0, x)
    return table.reshape(m, n), unit * nu


def sharpened(design, target, lines, ends, equalities, point):
    """The solution of the optimality conditions nearest to a point (x and multipliers) that almost meets them."""
    curvature, right, v = design.T @ design, design.T @ target, design.shape[1]
    balance = max(1.0, np.linalg.norm(curvature, 2))  # constraints as large as the objective
    met = (np.arange(len(ends)) < equalities) | (ends - lines @ point[:v] < point[v:])
    for _ in range(10):
        some, dual = balance * lines[met], np.zeros(len(ends))
        conditions = np.block([[curvature, some.T], [some, np.zeros((len(some), len(some)))]])
        found, wanted = np.append(point[:v], point[v:][met] / balance), np.append(right, balance * ends[met])
        for _ in range(2):  # the second time for what rounding left
            found += np.linalg.lstsq(conditions, wanted - conditions @ found, rcond=1e-12)[0]
        x, dual[met] = found[:v], balance * found[v:]
        wrong = np.where(met, dual < -1e-10, lines @ x > ends + 1e-10) & (np.arange(len(ends)) >= equalities)
        if not wrong.any():
            break
        met ^= wrong
    return x, dual


def test_the_program_projects_onto_a_simplex():
    """By hand: (3, 1, -1) with a sum of 2 becomes (2, 0, 0), and (1, 0.5, 0) with a sum of 3 (1.5, 1, 0.5)."""
    y = np.array([[3.0, 1.0, -1.0], [1.0, 0.5, 0.0]])
    columns = Columns(np.array([2.0, 3.0]), np.zeros(2), np.ones((2, 3), bool), False, np.array([3, 3]))
    none = DenseRows(np.zeros(0), np.zeros((0, 2, 3)), np.zeros(0), np.zeros(0), np.zeros(0))
    found, _ = optimum([(np.eye(2), np.ones(3), y)], columns, none)
    np.testing.assert_allclose(found, [[2.0, 0.0, 0.0], [1.5, 1.0, 0.5]], atol=1e-9)


# ---- the tests -------------------------------------------------------------------------------------------------------


def drawn_multipliers(rng, columns, rows, size):
    """Multipliers of the right sign, some of them 0."""
    some = rng.exponential(1.0, size) * (rng.random(size) < 0.5)
    nu, hard, used = np.zeros(size), rows.give == 0, len(rows.kind)
    nu[:used] = np.select([~hard, rows.most < np.inf, rows.least > 0], [some[:used], some[:used], -some[:used]], 0.0)
    flip = hard & (rows.least > 0) & (rng.random(used) < 0.5)
    nu[:used][flip] = -some[:used][flip]
    return np.where(columns.count >= 0, rng.normal(size=len(columns.count)), 0.0), nu


@pytest.mark.parametrize("kind", ["children", "root", "one query outweighs the others"])
@pytest.mark.parametrize("warm", [False, True], ids=["from no multipliers", "from some multipliers"])
def test_projection_is_the_nearest_table_in_the_metric(kind, warm):
    """Which bug: a shift not divided by D, a bound pushed in the wrong direction or never let go, a lost multiplier."""
    seen = Counter()
    for rng, truth, columns, queries, arrays in nests(kind, 50):
        rows = rows_of(arrays)
        m, n = truth.shape
        pace = 10.0 ** rng.uniform(-0.5, 0.5, n)
        metric = Metric(10.0 ** rng.uniform(-0.5, 0.5, m), pace, 1.0 / pace)
        reach = np.outer(metric.step, metric.pace)
        point = np.where(columns.open_, truth + rng.normal(0.0, 3.0, (m, n)), -CLOSED)
        if warm:
            columns.theta[:], arrays.nu[:] = drawn_multipliers(rng, columns, rows, arrays.nu.size)
        used = len(rows.kind)
        u = point - reach * (columns.theta[:, None] + rows.pull(arrays.nu[:used]))
        projected(u, columns, metric, arrays, 1e-10, 2e5)
        soft = [one for one, is_soft in zip(queries_of(queries)[1:], queries.soft, strict=True) if is_soft]
        near = np.where(columns.open_, point, 0.0)
        wanted, _ = optimum([(np.eye(m), 1.0 / reach, near), *soft], columns, rows)
        np.testing.assert_allclose(np.maximum(0.0, u), wanted, atol=1e-6)
        shifted = point - reach * (columns.theta[:, None] + rows.pull(arrays.nu[:used]))
        np.testing.assert_allclose(u[columns.open_], shifted[columns.open_], atol=1e-7)
        nu = arrays.nu[:used]
        seen["upper bounds"] += ((nu > 1e-6) & (rows.give == 0)).sum()
        seen["lower bounds"] += ((nu < -1e-6) & (rows.give == 0)).sum()
        seen["let go"] += ((nu == 0) & (rows.give == 0)).sum()
        seen["soft"] += (rows.give > 0).sum()
        seen["closed"] += (~columns.open_).sum()
    assert min(seen["upper bounds"], seen["lower bounds"], seen["let go"], seen["closed"]) > 10
    assert seen["soft"] > 50 or kind != "one query outweighs the others"


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_the_dense_objective(kind):
    """Which bug: a pull not handed down to the finer rows, weights of another child, or soft queries counted."""
    for rng, truth, columns, queries, _ in nests(kind, 60):
        seen = np.arange(truth.shape[1]) < columns.end[:, None]  # beyond that all entries are 0
        x, old = (np.where(seen, truth + rng.normal(size=truth.shape), 0.0) for _ in range(2))
        ahead = float(rng.choice([0.0, rng.random()]))
        v, g = x + ahead * (x - old), np.full(truth.shape, np.nan)
        rows_part, own_part = pulled(x, old, ahead, v, queries, columns, g)
        (identity, own, y), *others = queries_of(queries)
        steep = [one for one, soft in zip(others, queries.soft, strict=True) if not soft]
        cells = (identity, own, np.where(columns.open_, y, v))  # a closed entry is not measured
        np.testing.assert_allclose(g, np.where(seen, slope([cells, *steep], v), np.nan), rtol=1e-9, atol=1e-9)
        assert rows_part == pytest.approx(2.0 * objective(steep, v), rel=1e-9)
        assert own_part == pytest.approx(objective([cells], v), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_metric_majorises_the_hessian(kind):
    """Which bug: too long a step. D is also what its docstring says, so it is not needlessly large."""
    for _, truth, _, queries, _ in nests(kind, 60):
        m, n = truth.shape
        metric = metric_of(queries)
        cells, *others = queries_of(queries)
        steep = [cells, *(one for one, soft in zip(others, queries.soft, strict=True) if not soft)]
        if not any(w.any() for _, w, _ in steep):
            continue
        for c in range(n):
            majoriser = np.diag(metric.drag[c] / metric.step)
            assert np.linalg.eigvalsh(majoriser - hessian(steep, c)).min() >= -1e-12 * majoriser.max()
        largest = sum(w.max() * Q.T @ Q for Q, w, _ in steep)
        power = largest @ np.ones(m)
        np.testing.assert_allclose(1.0 / metric.step, largest @ power / power, rtol=1e-9)
        shares = [w / w.max() for _, w, _ in steep if w.max() > 0]
        np.testing.assert_allclose(metric.drag, np.max(shares, axis=0), rtol=1e-12)
        some = metric.drag > 0
        np.testing.assert_allclose(metric.pace[some] * metric.drag[some], 1.0, rtol=1e-12)


def judge(x, nu, steep, columns, own, arrays):
    """The kernel's gap, what is unmet, the soft rows' part of f and the violation, with the dense gradient."""
    arrays.nu[: len(nu)] = nu
    return bounded(x, np.where(columns.open_, slope(steep, x), CLOSED), columns, own, arrays)


@pytest.mark.parametrize("kind", KINDS)
def test_gap_bounds_the_distance_to_the_optimum_and_is_none_there(kind):
    """Which bug: a bound that does not hold, above all with violations or multipliers that are not the best."""
    seen = Counter()
    for rng, truth, columns, queries, arrays in nests(kind, 30):
        rows, every = rows_of(arrays), queries_of(queries)
        steep = [one for one, soft in zip(every, [False, *queries.soft], strict=True) if not soft]
        soft = [one for one, is_soft in zip(every[1:], queries.soft, strict=True) if is_soft]
        every[0] = steep[0] = (every[0][0], every[0][1], np.where(columns.open_, every[0][2], 0.0))
        best, nu = optimum(every, columns, rows)
        unit = every[0][1].max() or 1.0
        lowest, used = objective(every, best), len(rows.kind)
        for spread in (0.0, 0.01, 1.0):
            x = np.where(columns.open_, np.maximum(0.0, truth + spread * rng.normal(size=truth.shape)), 0.0)
            for multipliers in (0.0 * nu, nu, drawn_multipliers(rng, columns, rows, used)[1]):
                gap, unmet, soft_part, violation = judge(x, multipliers, steep, columns, queries.own, arrays)
                assert objective(every, x) - lowest <= gap + unmet + 1e-7 * max(unit, lowest)
                assert soft_part == pytest.approx(objective(soft, x), rel=1e-9)
                hard, off = rows.give == 0, rows.sums(x)
                parts = (off - rows.most, rows.least - off, np.abs(x.sum(axis=1) - columns.count)[columns.count >= 0])
                worst = max(0.0, *(part.max(initial=0.0) for part in (parts[0][hard], parts[1][hard], parts[2])))
                assert violation == pytest.approx(worst, abs=1e-9)
                seen["finite"] += np.isfinite(gap)
        answer = (rows.sums(best) - rows.least) / np.where(rows.give > 0, rows.give, 1.0)
        gap, unmet, _, violation = judge(best, np.where(rows.give > 0, answer, nu), steep, columns, queries.own, arrays)
        assert violation < 1e-7
        assert gap + unmet <= 1e-6 * max(unit, lowest)
    assert seen["finite"] > 200


def test_sums_of_billions_are_met_to_the_last_digits():
    """Which bug: plain sums of 10^13 are off by hundredths of a person, of which the bound makes too much."""
    rng = np.random.default_rng(33)
    x = 2.0 ** rng.uniform(0, 33, (2, 20_000)) * (rng.random((2, 20_000)) < 0.9)
    exact = [sum(map(Fraction, row.tolist())) for row in x]
    count = np.array([float(round(total)) for total in exact])
    columns = Columns(count, np.zeros(2), np.ones(x.shape, np.bool_), False, np.array([20_000, 20_000]))
    metric = Metric(np.ones(2), np.ones(20_000), np.ones(20_000))
    off = [missing(x, s, columns) for s in range(2)]
    assert off == pytest.approx([float(total - Fraction(c)) for total, c in zip(exact, count, strict=True)], abs=1e-8)
    zeros = x == 0
    met(x, columns, metric)
    assert (
        max(abs(float(sum(map(Fraction, row.tolist())) - Fraction(c))) for row, c in zip(x, count, strict=True)) < 1e-3
    )
    assert (x[zeros] == 0).all()
    assert (x >= 0).all()
