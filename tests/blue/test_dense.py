"""Least squares over the tree equals dense least squares from the definition."""

import numpy as np
import pytest

from blue.dense_gls import dense_gls
from blue.random_trees import draw_case
from tallyveil.blue.downward import estimate_places, whole_tree
from tallyveil.blue.figures import covariance_of_rows
from tallyveil.blue.places import places_of
from tallyveil.blue.problem import problem_of

CLOSE = 1e-8


def compare(seed: int) -> None:
    case = draw_case(seed)
    noisy, schema = case.noisy, case.noisy.schema
    names = [*schema.attributes, *schema.groupings, "total", "detailed"]
    queries = [schema.query(name) for name in names]
    dense = dense_gls(noisy, case.facilities)
    problem = problem_of(noisy, queries, facilities=case.facilities)
    scale = max(1.0, float(np.abs(dense.x).max()))
    strategy = noisy.strategy
    largest = max(
        strategy.noise(level, name).actual_variance() for level, names in strategy.queries.items() for name in names
    )
    seen = 0
    for found in whole_tree(problem):
        level = problem.stages[found.number].stage.level
        if level is None:
            continue
        for query in queries:
            marginal = problem.decomposition.marginal(query)
            answers, variances = marginal.answers(found.x), marginal.variances(found.V)[found.of]
            for row, unit in enumerate(found.units):
                M = dense.query(dense.unit_rows(level, unit, published=False), query.name)
                np.testing.assert_allclose(answers[row], M @ dense.x, rtol=CLOSE, atol=CLOSE * scale / 100)
                expected = np.einsum("ij,jk,ik->i", M, dense.V, M)
                np.testing.assert_allclose(variances[row], expected, rtol=CLOSE, atol=CLOSE * largest / 1000)
                seen += 1
    assert seen == len(queries) * sum(noisy.spine.size(level) for level in noisy.spine.levels)


@pytest.mark.parametrize("seed", range(40))
def test_estimates_and_variances_equal_dense_least_squares(seed):
    compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 200))
def test_more_estimates_and_variances_equal_dense_least_squares(seed):
    compare(seed)


def compare_places(seed: int) -> None:
    """Places off the spine: scattered leaves, and units of every published level, with all their covariances."""
    case = draw_case(seed)
    rng = np.random.default_rng(seed + 10**6)
    noisy, schema = case.noisy, case.noisy.schema
    dense = dense_gls(noisy, case.facilities)
    queries = [schema.query(name) for name in [*schema.attributes, *schema.groupings, "total"]]
    problem = problem_of(noisy, queries, facilities=case.facilities)
    leaves = noisy.spine.size(noisy.spine.leaf)
    chosen = [rng.random(leaves) < p for p in (0.2, 0.5, 0.8)]  # they may overlap
    level = str(rng.choice(noisy.spine.levels))
    unit = int(rng.integers(noisy.spine.size(level)))
    members = [(problem.last, np.flatnonzero(inside), np.full(inside.sum(), i)) for i, inside in enumerate(chosen)]
    members.append((problem.place(level), np.array([unit]), np.array([3])))
    chosen.append(dense.unit_rows(level, unit, published=False))
    found = estimate_places(problem, places_of(problem, members, 4, joint=True))
    M = np.concatenate([dense.query(np.asarray(inside, float), query.name) for inside in chosen for query in queries])
    marginals = [problem.decomposition.marginal(query) for query in queries]
    answers = np.concatenate([marginal.answers(found.x) for marginal in marginals], axis=1).reshape(-1)
    covariance = covariance_of_rows(problem.decomposition, marginals, found.V)
    expected = M @ dense.V @ M.T
    scale, largest = max(1.0, float(np.abs(dense.x).max())), float(np.abs(expected).max()) + 1e-3
    np.testing.assert_allclose(answers, M @ dense.x, rtol=CLOSE, atol=CLOSE * scale)
    np.testing.assert_allclose(covariance, expected, rtol=CLOSE, atol=CLOSE * largest)
    alone = estimate_places(problem, places_of(problem, members, 4, joint=False))
    np.testing.assert_allclose(alone.x, found.x, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(alone.V, found.V[np.arange(4), np.arange(4)], rtol=1e-9, atol=CLOSE * largest)


@pytest.mark.parametrize("seed", range(25))
def test_places_and_their_covariances_equal_dense_least_squares(seed):
    compare_places(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25, 200))
def test_more_places_and_their_covariances_equal_dense_least_squares(seed):
    compare_places(seed)
