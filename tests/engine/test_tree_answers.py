"""The tree estimator: where no inequality binds, it is the best linear unbiased estimate given the released parent.

Dense least squares from the definition (``blue.dense_gls``) decides. Where nothing is known from below, it is TopDown.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tallyveil as tv
from blue.dense_gls import dense_gls
from blue.random_trees import draw_case
from levels_seen import levels_seen
from tallyveil.engine.estimate.problem import estimate
from tallyveil.engine.nests import nests_of_parents
from tallyveil.engine.run_limits import run_limits
from tallyveil.engine.topdown import topdown
from tallyveil.engine.tree_answers import answers_of
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import RunKey

CLOSE = 1e-6


def with_tree(noisy, information_from):
    return replace(noisy, strategy=replace(noisy.strategy, estimator="tree", information_from=information_from))


def compare_with_dense(seed: int, monkeypatch) -> int:
    """Compare the answers and the estimates of every level of a run with dense least squares given the level above."""
    case = draw_case(seed, mean=100_000)  # so many that no inequality binds
    noisy = with_tree(case.noisy, case.noisy.spine.leaf)
    seen = levels_seen(monkeypatch)
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
        dense = dense_gls(noisy, case.facilities, given=(noisy.spine.levels[depth - 1], above.dense()))
        wanted = [
            dense.query(dense.unit_rows(level, unit, published=False), "detailed") @ dense.x for unit in nests.child
        ]
        answers.prepare(level, map)
        asked = answers.passes(nests, level)[0]
        if answers.informed(level):
            compared += 1
            for one in asked:
                compare_answers(nests, one, wanted)
        bounds = [limit.of_children(nests.child) for limit in limits.carried[level]]
        found = estimate(nests, asked, bounds, gap=1e-15, distance=1e-9)
        for p in range(len(nests)):
            children = range(int(nests.child_start[p]), int(nests.child_start[p + 1]))
            cells = nests.cell[nests.cell_start[p] : nests.cell_start[p + 1]]
            np.testing.assert_allclose(nests.table(found.x, p), [wanted[c][cells] for c in children], atol=CLOSE)
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
