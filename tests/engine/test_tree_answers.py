"""The tree estimator: where no inequality binds, it is the best linear unbiased estimate given the released parent.

Dense least squares from the definition (``blue.dense_gls``) decides. Where nothing is known from below, it is TopDown.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from random_constraints import random_case
from random_constraints import with_tree as add_tree
from test_constraints_attacked import outcome
from test_kept_pieces import feasible

import tallyveil as tv
from blue.dense_gls import ContradictionError, dense_gls
from blue.random_trees import draw_case
from levels_seen import levels_seen
from tallyveil import Strategy
from tallyveil.engine import level as engine
from tallyveil.engine import tree_answers
from tallyveil.engine.estimate.one_thread import one_thread
from tallyveil.engine.estimate.problem import estimate
from tallyveil.engine.nests import nests_of_parents
from tallyveil.engine.run_limits import run_limits
from tallyveil.engine.topdown import topdown
from tallyveil.engine.tree_answers import answers_of
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import FacilityBounds, Invariant, RunKey

CLOSE = 1e-6


def with_tree(noisy, information_from):
    return replace(noisy, strategy=replace(noisy.strategy, estimator="tree", information_from=information_from))


def compare_with_dense(seed: int, monkeypatch) -> int:
    """Compare the answers and the estimates of every level of a run with dense least squares given the level above."""
    with one_thread():  # small matrices
        return _compare_with_dense(draw_case(seed, mean=100_000), monkeypatch)  # so many that no inequality binds


def _compare_with_dense(case, monkeypatch) -> int:
    noisy = with_tree(case.noisy, case.noisy.spine.leaf)
    seen = levels_seen(monkeypatch)
    rebuilt = [] if noisy.optimised is None else set(noisy.spine.levels) - set(noisy.optimised.part_of)
    if any(isinstance(one, FacilityBounds) and one.level in rebuilt for one in noisy.strategy.constraints):
        return 0  # refused: bounds on units that are not measured as published
    topdown(noisy, facilities=case.facilities)
    answers = answers_of(noisy, case.facilities)
    limits = run_limits(
        noisy.published, noisy.schema, noisy.strategy,
        exact=noisy.exact, facilities=case.facilities, optimised=noisy.optimised,
    )  # fmt: skip
    compared = 0
    for depth, level in list(enumerate(noisy.spine.levels))[1:]:
        above, first = seen[noisy.spine.levels[depth - 1]], noisy.spine.first_child[depth - 1]
        nests, _ = nests_of_parents(first, above, 0, len(first) - 1)
        split = noisy.optimised is not None and depth == 1  # their own measurements: parts may share an exact total
        if not len(nests) or split:
            continue
        try:
            dense = dense_gls(noisy, case.facilities, given=(noisy.spine.levels[depth - 1], above.dense()))
        except (
            ContradictionError
        ):  # the parent was released with a cell that only several constraints together rule out
            continue
        wanted = [
            dense.query(dense.unit_rows(level, unit, published=False), "detailed") @ dense.x for unit in nests.child
        ]
        answers.prepare(level, map)
        asked = answers.passes(nests, level)[0]
        for one in asked if answers.informed(level) else ():
            compare_answers(nests, one, wanted)
        bounds = [limit.of_children(nests.child) for limit in limits.carried[level]]
        found = estimate(nests, asked, bounds, gap=1e-15, distance=1e-9)
        for p in range(len(nests)):
            children = range(int(nests.child_start[p]), int(nests.child_start[p + 1]))
            cells = nests.cell[nests.cell_start[p] : nests.cell_start[p + 1]]
            best = np.array([wanted[c] for c in children])
            if best.min() > -CLOSE:  # no inequality binds, also where the parent is empty
                np.testing.assert_allclose(nests.table(found.x, p), best[:, cells], rtol=0, atol=CLOSE)
                compared += answers.informed(level)
    return compared


def compare_answers(nests, asked, wanted):
    at = 0
    for p in range(len(nests)):
        rows = asked.rows[asked.start[p] : asked.start[p + 1]]
        for c in range(int(nests.child_start[p]), int(nests.child_start[p + 1])):
            expected = np.bincount(asked.row_of_cell, wanted[c])[rows]
            np.testing.assert_allclose(asked.noisy[at : at + len(rows)], expected, rtol=0, atol=CLOSE)
            at += len(rows)


def test_without_a_binding_inequality_the_estimate_is_the_best_linear_unbiased_one_given_the_parent(monkeypatch):
    assert sum(compare_with_dense(seed, monkeypatch) for seed in range(30)) > 15


@pytest.mark.slow
def test_more_estimates_are_the_best_linear_unbiased_ones_given_the_parent(monkeypatch):
    assert sum(compare_with_dense(seed, monkeypatch) for seed in range(30, 230)) > 100


def run_tree(case, seed: int, **options):
    noisy = measure(case.people, case.strategy, RunKey.from_seed(seed), optimised=case.optimised)
    return topdown(noisy, facilities=case.facilities, limits=feasible(case), **options)


@pytest.mark.parametrize("level", [None, "county", "us"])
def test_without_information_from_below_it_is_topdown_bit_for_bit(level):
    """One level above the leaves, a county has nothing below it that informs; and the root has no parent."""
    people = census(3)
    plan = Strategy.default(people.spine, people.schema, epsilon=1).with_estimator("topdown")
    noisy = measure(people, plan, RunKey.from_seed(1))
    assert topdown(with_tree(noisy, level)) == topdown(noisy)


def test_a_level_whose_information_determines_nothing_keeps_its_own_measurements():
    people = census(4)
    names = {"us": "detailed", "state": "detailed", "county": "sex", "block": "age"}
    plan = Strategy(
        mechanism="gaussian", budget=1, levels=dict.fromkeys(names, "1/4"),
        queries={level: {query: 1} for level, query in names.items()},
    )  # fmt: skip
    noisy = measure(people, plan, RunKey.from_seed(1))
    for level in ("county", "block"):
        assert topdown(with_tree(noisy, level)) == topdown(noisy)
    assert sum(one.informed for one in topdown(with_tree(noisy, "state"))[1]) == 0


def census(levels: int) -> tv.Histogram:
    rng = np.random.default_rng(levels)
    names, paths = ["state", "county", "block"][-(levels - 1) :], [("",)]
    for _ in names:
        paths = [(*path, f"{path[-1]}{i}") for path in paths for i in range(int(rng.integers(2, 5)))]
    columns = {name: [path[i + 1] for path in paths] for i, name in enumerate(names)}
    spine = tv.Spine.from_columns(columns, root="us")
    schema = tv.Schema(attributes={"age": ["child", "adult", "old"], "sex": ["f", "m"]})
    return tv.Histogram(spine=spine, schema=schema, leaves=Counts.from_dense(rng.poisson(5, (len(paths), 6))))


def test_pieces_of_any_size_and_any_number_of_threads_give_the_same_counts(monkeypatch):
    people = census(4)
    plan = Strategy.default(people.spine, people.schema, rho="1/10")
    noisy = with_tree(measure(people, plan, RunKey.from_seed(1)), "block")
    whole, how = topdown(noisy)
    assert [one.informed > 0 for one in how] == [False, True, True, False]
    with ThreadPoolExecutor(2) as pool:
        for chunk, numbers, run in ((1, 1 << 23, map), (17, 100, pool.map), (engine.CHUNK, 50, pool.map)):
            monkeypatch.setattr(engine, "CHUNK", chunk)
            monkeypatch.setattr(tree_answers, "RUN_NUMBERS", numbers)
            again, how_again = topdown(noisy, run=run)
            assert b"".join(again.canonical_bytes()) == b"".join(whole.canonical_bytes())
            assert how_again == how


def test_both_estimators_have_the_same_noise_and_cost_one_budget(tmp_path):
    people = census(4)
    plan = Strategy.default(people.spine, people.schema, epsilon=1)
    made = {}
    for name in ("topdown", "tree"):
        release = tv.protect(people, plan.with_estimator(name), seed=3, measurements=None)
        tv.write_release(release, tmp_path / name, measurements=None)
        made[name] = release
        findings = {one.name: one.holds for one in tv.verify_release(tmp_path / name)}
        assert findings["post-processing"] is True
        assert False not in findings.values()
    assert made["topdown"].certificate.measurement == made["tree"].certificate.measurement
    assert made["topdown"].measurements.to_arrow().equals(made["tree"].measurements.to_arrow())
    assert made["topdown"].histogram != made["tree"].histogram


def test_exact_totals_in_a_pass_of_their_own_are_kept():
    """Their answers have no variance, and no weight follows from that."""
    people = census(4)
    plan = replace(
        Strategy.default(people.spine, people.schema, rho=1, invariants=[Invariant(query="total", level="state")]),
        passes={level: [["total"], ["*"]] for level in ("county", "block")},
    )
    queries = {level: dict.fromkeys(["total", "age", "detailed"], "1/3") for level in plan.levels}
    plan = replace(plan, queries=queries, passes={"state": [["total"], ["*"]], **plan.passes})
    release = tv.protect(people, plan, seed=1)
    exact = people.answer("total", level="state").dense()
    assert (release.histogram.answer("total", level="state").dense() == exact).all()


def test_a_later_pass_does_not_take_over_the_precision_of_an_earlier_one():
    """In units with houses only, home and total are the same; the total was solved before."""
    rng, homes = np.random.default_rng(1), ["house", "prison"]
    paths = [(f"{i}", f"{i}{j}", f"{i}{j}{k}") for i in range(2) for j in range(3) for k in range(3)]
    spine = tv.Spine.from_columns(
        dict(zip(("state", "county", "block"), map(list, zip(*paths, strict=True)), strict=True)), root="us"
    )
    schema = tv.Schema(attributes={"home": homes, "sex": ["f", "m"]})
    people = tv.Histogram(spine=spine, schema=schema, leaves=Counts.from_dense(rng.poisson([90, 90, 0, 0], (18, 4))))
    built = np.tile([1, 0], (18, 1))
    built[0, 1] = 1
    facilities = tv.Facilities(spine=spine, attribute="home", types=homes, leaves=Counts.from_dense(built))
    bound = FacilityBounds(attribute="home", level="block", least=0, most=10**6)
    shares = {"total": "9/10", "home": "1/20", "detailed": "1/20"}
    plan = Strategy(
        mechanism="gaussian", budget=1, levels=dict.fromkeys(spine.levels, "1/4"), constraints=[bound],
        queries=dict.fromkeys(spine.levels, shares), passes={"county": [["total"], ["*"]]},
        estimator="tree", information_from="block",
    )  # fmt: skip
    answers = answers_of(measure(people, plan, RunKey.from_seed(1)), facilities)
    answers.prepare("county", map)
    nests, _ = nests_of_parents(spine.first_child[1], people.at("state"), 0, 2)
    (total,), (home, detailed) = answers.passes(nests, "county")
    assert home.weight[1:].tolist() == [0] * 5
    assert (home.weight < total.weight / 5).all()
    assert (detailed.weight > 0).all()


def test_information_that_would_not_fit_into_memory_is_not_used(monkeypatch):
    people = census(4)
    noisy = measure(people, Strategy.default(people.spine, people.schema, epsilon=1), RunKey.from_seed(1))
    assert any(one.informed for one in topdown(with_tree(noisy, "block"))[1])
    monkeypatch.setattr(tree_answers, "MOST_HELD", 100)
    assert topdown(with_tree(noisy, "block")) == topdown(with_tree(noisy, "us"))


def test_facilities_that_are_missing_are_an_error_and_not_ignored():
    case = next(case for case in map(draw_case, range(50)) if case.facilities is not None)
    with pytest.raises(tv.errors.InputError, match="no facilities are given"):
        topdown(with_tree(case.noisy, None))


def check_constraints_hold(seeds, *, crowded: bool) -> Counter:
    seen = Counter()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        case = random_tree_case(rng, crowded=crowded)
        seen[outcome(case, seed)] += 1
        if feasible(case) is not None:
            solved = run_tree(case, seed)[1]
            seen["informed"] += any(one.informed for one in solved)
            assert all(np.isfinite(one.gap) and one.gap <= 1e-5 and one.violation <= 1e-5 for one in solved), seed
    return seen


def random_tree_case(rng, *, crowded: bool):
    while True:
        case = random_case(rng, crowded=crowded)
        if len(case.strategy.levels) > 2:
            return add_tree(case, rng)


@pytest.mark.parametrize("crowded", [False, True])
def test_every_constraint_and_certificate_holds(crowded):
    seen = check_constraints_hold(range(30), crowded=crowded)
    assert seen["informed"] >= 5


@pytest.mark.slow
@pytest.mark.parametrize("crowded", [False, True])
def test_every_constraint_and_certificate_holds_in_a_thousand_more(crowded):
    seen = check_constraints_hold(range(30, 1030), crowded=crowded)
    assert seen["informed"] >= 150
    assert seen["relaxed"] >= (4 if crowded else 0)
