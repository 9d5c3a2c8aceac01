"""Least squares over the tree equals dense least squares from the definition."""

import numpy as np
import pytest
from blue.dense_gls import dense_gls
from blue.random_trees import draw_case

from tallyveil.blue.downward import whole_tree
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
    largest = max(strategy.noise(level, name).actual_variance() for level, names in strategy.queries.items() for name in names)
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
