"""Twofold precision: the arithmetic against fractions, and the elimination against the equations that it solves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.engine.estimate import twofold
from tallyveil.engine.estimate.blocks import Blocks
from tallyveil.engine.estimate.nest import Nest
from tallyveil.engine.estimate.newton import Quick
from tallyveil.engine.estimate.twofold import Twofold


@pytest.mark.parametrize(
    ("name", "exact"),
    [("_add", lambda a, b: a + b), ("_times", lambda a, b: a * b), ("_over", lambda a, b: a / b)],
)
def test_arithmetic_has_thirty_digits(name, exact):
    """Which bug: a lost low part, which leaves 16 digits."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, c = rng.normal(size=2) * 10.0 ** rng.integers(-20, 20, 2)
        b, d = a * 1e-17 * rng.random(), c * 1e-17 * rng.random()
        found = sum(map(Fraction, getattr(twofold, name)(a, b, c, d)))
        wanted = exact(Fraction(a) + Fraction(b), Fraction(c) + Fraction(d))
        assert abs(found - wanted) <= Fraction(1, 10**30) * abs(wanted)


def test_sums_that_cancel_keep_their_low_part():
    found = sum(map(Fraction, twofold._add(1.0, 3e-20, -1.0, 2e-23)))
    assert found == Fraction(3e-20) + Fraction(2e-23)


def nest_with_dependent_rows(rng):
    """Three children, four cells: total, a and b (dependent), a column each, a shared row, a closed entry."""
    n, m = 3, 4
    member = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]], float)
    table = rng.poisson(5.0, (n, m)).astype(float) + 1.0
    table[1, 2] = 0.0
    sums = table @ member.T
    held = np.arange(5) < 3
    blocks = Blocks(
        own=np.zeros(n),
        noisy=np.zeros((n, m)),
        open=table > 0,
        count=table.sum(axis=0),
        member=member,
        group=np.array([0, 1, 1, 2, 2]),
        weight=np.tile(np.where(held, 0.0, [1.0, 1.0, 1.0, 1e-10, 1.0]), (n, 1)),
        answer=sums + rng.normal(size=sums.shape),
        least=np.where(held, sums - 0.1, -np.inf),
        most=np.where(held, sums + 0.1, np.inf),
        shared_children=np.array([[1.0, 1.0, 0.0]]),
        shared_cells=np.array([[1.0, 1.0, 0.0, 0.0]]),
        shared_least=np.array([table[:2, :2].sum() - 3.0]),
        shared_most=np.array([np.inf]),
    )
    return Nest(blocks, table), table


def worst_equation(nest, diagonal, at, elimination, right):
    """The largest error of an equation in exact arithmetic, relative to its terms."""
    x, dual, theta, shared = elimination(nest, diagonal, at).solved(*right)
    exact = np.vectorize(Fraction, otypes=[object])
    f1, f2, f3, f4 = map(exact, right)
    x, dual, theta, shared, d = map(exact, (x, dual, theta, shared, diagonal))
    member, both = exact(nest.member), exact(nest.children[0][:, None] * nest.cells[0])
    give, shared_give = exact(nest.rows.elasticity(at.rows, 0.0)), exact(nest.shared.elasticity(at.shared, 0.0))
    terms = [
        [(d * x)[nest.open], *((dual[:, [r]] * member[r])[nest.open] for r in range(len(member)))],
        [*(member[:, s] * x[:, [s]] for s in range(x.shape[1])), -give * dual, -f2],
        [*x, -f3],
        [(both * x).sum(keepdims=True)[0], -shared_give * shared, -f4],
    ]
    terms[0] += [np.broadcast_to(theta, x.shape)[nest.open], (shared[0] * both)[nest.open], -f1[nest.open]]
    return max(float(np.max(abs(sum(parts)) / sum(abs(part) for part in parts))) for parts in terms)


def test_every_equation_of_a_step_holds_to_the_last_digits():
    """Which bug: a wrong sign or row in the elimination; and that dependent rows with a tiny E are still solved."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        nest, table = nest_with_dependent_rows(rng)
        at = nest.start(table, 1e-3)
        diagonal = np.where(nest.open, 10.0 ** rng.uniform(-13, 3, nest.open.shape), 1.0)
        right = (
            np.where(nest.open, rng.normal(size=nest.open.shape), 0.0),
            rng.normal(size=nest.rows.target.shape),
            rng.normal(size=4),
            rng.normal(size=1),
        )
        assert worst_equation(nest, diagonal, at, Twofold, right) <= 1e-12
        assert worst_equation(nest, diagonal, at, Quick, right) > 1e-6  # double precision does not do it
