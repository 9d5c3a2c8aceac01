"""The general path: whatever the strategy, every nest is solved and the answer proved."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from random_strategies import draw_people, draw_strategy, solve

import tallyveil as tv
from tallyveil.engine.estimate import general
from tallyveil.engine.estimate.problem import Asked, estimate
from tallyveil.engine.nests import Nests
from tallyveil.privacy import Invariant


def check_certified(solved, *, where=None):
    for level in solved:
        assert level.gap <= 1e-6, (where, level)
        assert level.violation <= 1e-3, (where, level)


def even(queries, levels=("us", "county"), *, budget, mechanism="geometric", passes=None):
    part = Fraction(1, len(queries))
    return tv.Strategy(
        mechanism=mechanism,
        budget=budget,
        levels={level: Fraction(1, len(levels)) for level in levels},
        queries={level: dict.fromkeys(queries, part) for level in levels},
        passes=passes or {},
    )


def people_of(counts, labels, *, counties):
    spine = tv.Spine.from_columns({"county": [f"{i:05d}" for i in range(counties)]}, root="us")
    flat = np.asarray(counts).reshape(-1)
    entry, cells = np.flatnonzero(flat), len(flat) // counties
    return tv.Histogram.from_entries(
        spine, tv.Schema(attributes=labels), unit=entry // cells, cell=entry % cells, count=flat[entry]
    )


def check_random_strategies(numbers):
    """Which bug: a dependent row, a scale, a pass or a free direction that a solver cannot take."""
    general_ones = 0
    for number in numbers:
        rng = np.random.default_rng([16, number])
        people = draw_people(rng)
        solved = solve(people, draw_strategy(rng, people), number)
        general_ones += sum(level.general for level in solved)
        check_certified(solved, where=number)
    assert general_ones > len(numbers) / 20  # the general path had something to do


def test_random_strategies_are_solved_and_certified():
    check_random_strategies(range(60))


def test_the_hardest_random_strategies_are_solved_and_certified():
    """Rows held within 0.1 persons under noise of 100,000; weights that differ 10^10-fold; answers without noise."""
    check_random_strategies([263, 797, 919, 967, 1036, 1320, 1527, 1733])


@pytest.mark.slow
def test_two_thousand_random_strategies_are_solved_and_certified():
    check_random_strategies(range(60, 2060))


@pytest.mark.parametrize("budget", ["1", "1/10"])
def test_strategies_without_total_or_detailed_are_solved(budget):
    """They ended in "the general solver failed" for a third, and two thirds, of the seeds."""
    labels = {"age": list("abc"), "sex": list("fm"), "cat": list("xyz")}
    for seed in range(20):
        counts = np.random.default_rng(seed).poisson(2.0, (6, 18))
        people = people_of(counts, labels, counties=6)
        check_certified(solve(people, even(["age * sex", "cat * sex"], budget=Fraction(budget)), seed), where=seed)


@pytest.mark.parametrize("persons", [50_000, 300_000_000])
def test_crossing_passes_at_the_root_are_solved(persons):
    labels = {"age": list("abcd"), "race": list("uvwxyz")}
    plan = even(["age", "race", "detailed"], budget=1, passes={"us": (("age",), ("race",), ("*",))})
    for seed in range(6):
        rng = np.random.default_rng(seed)
        people = people_of(rng.multinomial(persons, rng.dirichlet(np.ones(72))), labels, counties=3)
        check_certified(solve(people, plan, seed), where=seed)


def test_crossing_queries_at_a_huge_budget_are_solved():
    labels = {"age": list("abcd"), "race": list("uvwxyz")}
    plan = even(["total", "age", "race", "detailed"], budget=10**6, mechanism="gaussian")
    for seed in range(6):
        rng = np.random.default_rng(seed)
        people = people_of(rng.multinomial(50_000, rng.dirichlet(np.ones(72))), labels, counties=3)
        check_certified(solve(people, plan, seed), where=seed)


@pytest.mark.parametrize("queries", [["age", "race"], ["detailed", "total"]])
def test_counts_of_billions_in_a_thousand_children_are_certified(queries):
    """Which bug: residuals as differences of large numbers."""
    counts = np.floor(2.0 ** np.random.default_rng(0).uniform(0, 33, (1000, 6))).astype(np.int64)
    people = people_of(counts, {"age": list("ab"), "race": list("xyz")}, counties=1000)
    check_certified(solve(people, even(queries, budget=1), 0))


def test_counts_of_billions_in_many_children_do_not_need_the_general_path():
    """Which bug: sums of 10^13 whose rounding errors exceed the goal, so that the fast path never ends."""
    counts = np.floor(2.0 ** np.random.default_rng(0).uniform(0, 33, (12_000, 6))).astype(np.int64)
    people = people_of(counts, {"age": list("ab"), "race": list("xyz")}, counties=12_000)
    solved = solve(people, even(["detailed", "total"], budget=1), 0)
    check_certified(solved)
    assert solved[-1].general == 0  # the level with many children; the root may take any path


def test_answers_without_noise_beside_exact_margins_are_certified(monkeypatch):
    """Which bug: a table that meets every answer, proved only by multipliers of rows that depend on each other."""
    monkeypatch.setattr(general, "Twofold", None)  # 16 digits suffice
    labels = {"age": list("abcd"), "race": list("uvw"), "sex": list("fm")}
    passes = {"county": (("race * sex",), ("race",), ("*",))}
    plan = even(["race * sex", "race", "total"], budget=10**7, mechanism="gaussian", passes=passes)
    exact = tuple(Invariant(query=query, level="county") for query in ("age", "sex"))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        people = people_of(rng.multinomial(20_000_000, rng.dirichlet(np.ones(40 * 24))), labels, counties=40)
        check_certified(solve(people, replace(plan, constraints=exact), seed), where=seed)


def test_sixty_leaves_of_two_cells_at_a_tiny_budget_are_certified():
    """They took 11 s. Noise has a standard deviation of thousands of persons, and totals are held by a pass."""
    plan = even(
        ["a", "total"], budget=Fraction(1, 10**6), mechanism="gaussian", passes={"county": (("total",), ("*",))}
    )
    for seed in range(5):
        counts = np.random.default_rng(seed).poisson(20.0, (60, 2))
        check_certified(solve(people_of(counts, {"a": list("xy")}, counties=60), plan, seed), where=seed)


def test_double_precision_suffices_on_ordinary_problems(monkeypatch):
    """Twofold precision comes second, because it is slow on large problems."""
    monkeypatch.setattr(general, "Twofold", None)
    for number in range(20):
        rng = np.random.default_rng([17, number])
        people = people_of(rng.poisson(3.0, (4, 12)), {"age": list("abc"), "race": list("wxyz")}, counties=4)
        check_certified(solve(people, even(["age", "race"], budget=1), number), where=number)


def test_queries_of_no_weight_may_merge():
    """On this support ``coarse`` has the rows of ``detailed``; neither weighs anything. That divided by zero."""
    nests = Nests(
        child_start=np.array([0, 2]),
        child=np.array([0, 1]),
        cell_start=np.array([0, 2]),
        cell=np.array([0, 2]),
        count=np.array([5, 7]),
        block_start=np.array([0, 4]),
    )
    fine, coarse = np.arange(4, dtype=np.int32), np.array([0, 0, 1, 1], np.int32)

    def asked(row_of_cell, rows, weight):
        answers = np.array([1.0, 3.0, 4.0, 4.0]) if len(rows) == 2 else np.array([4.0, 8.0])
        return Asked(
            row_of_cell=row_of_cell,
            start=np.array([0, len(rows)]),
            rows=np.array(rows, np.int32),
            noisy=answers,
            weight=np.full(2, weight),
        )

    total = asked(np.zeros(4, np.int32), [0], 1.0)
    found = estimate(nests, [asked(fine, [0, 2], 0.0), asked(coarse, [0, 1], 0.0), total])
    assert np.isfinite(found.x).all()
    assert found.gap[0] <= 1e-6
    assert nests.table(found.x, 0).sum(axis=1) == pytest.approx([4.0, 8.0], abs=1e-3)


def test_a_query_that_outweighs_all_others_may_weigh_nothing_in_one_child():
    """Which bug: one over its weight. Only the first child's total is measured, so well that it becomes a soft row."""
    nests = Nests(
        child_start=np.array([0, 2]),
        child=np.array([0, 1]),
        cell_start=np.array([0, 2]),
        cell=np.array([0, 1]),
        count=np.array([6, 6]),
        block_start=np.array([0, 4]),
    )
    cells = Asked(
        row_of_cell=np.arange(2, dtype=np.int32),
        start=np.array([0, 2]),
        rows=np.arange(2, dtype=np.int32),
        noisy=np.array([3.0, 2.0, 3.0, 4.0]),
        weight=np.ones(2),
    )
    total = Asked(
        row_of_cell=np.zeros(2, np.int32),
        start=np.array([0, 1]),
        rows=np.zeros(1, np.int32),
        noisy=np.array([7.0, 999.0]),
        weight=np.array([1e6, 0.0]),
    )
    found = estimate(nests, [cells, total])
    assert found.gap[0] <= 1e-6
    assert nests.table(found.x, 0) == pytest.approx(np.array([[4.0, 3.0], [2.0, 3.0]]), abs=1e-3)


ANSWER = """
import hashlib
import numpy as np
from tallyveil.engine.estimate.general import solve_generally
from tallyveil.engine.estimate.problem import Asked
from tallyveil.engine.nests import Nests
from tallyveil.privacy import Invariant

n, a, b = 30, 16, 15
rng, m = np.random.default_rng(0), a * b
truth = rng.poisson(5, (n, m))
ends = np.array([0, m])
nests = Nests(
    child_start=np.array([0, n]), child=np.arange(n), cell_start=ends, cell=np.arange(m),
    count=truth.sum(axis=0), block_start=ends * n,
)

def asked(row_of_cell, size, weight):
    sums = np.stack([truth[:, row_of_cell == r].sum(axis=1) for r in range(size)], axis=1)
    noisy = (sums + rng.normal(size=sums.shape)).reshape(-1)
    rows = np.arange(size, dtype=np.int32)
    return Asked(row_of_cell=row_of_cell.astype(np.int32), start=np.array([0, size]), rows=rows, noisy=noisy,
                 weight=np.full(n, weight))

cell = np.arange(m)
queries = [asked(cell % a, a, 1.0), asked(cell // a, b, 1.0)]
found = solve_generally(nests, queries, asked(cell, m, 0.0), [], 0, np.tile(nests.count / n, (n, 1)))
assert found.gap <= 1e-6, found.gap
print(hashlib.sha256(found.x.tobytes()).hexdigest())
"""


def test_the_answer_does_not_depend_on_the_threads_of_linear_algebra():
    """Which bug: a release that changes with the number of cores. Without the limit these two differ."""
    answers = set()
    for threads in "12":
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        done = subprocess.run(
            [sys.executable, "-c", ANSWER], env=environment, capture_output=True, text=True, check=True
        )
        answers.add(done.stdout)
    assert len(answers) == 1
