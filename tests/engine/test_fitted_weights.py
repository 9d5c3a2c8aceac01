"""Fitted weights are the non-negative least squares of their definition."""

import numpy as np
import pytest
from scipy.optimize import nnls

import tallyveil as tv
from tallyveil.blue.decomposition import Decomposition
from tallyveil.engine.fitted_weights import fitted_weights

SCHEMA = tv.Schema(attributes={"home": ["house", "prison", "dorm"], "age": ["child", "adult"], "race": list("abcd")})
NAMES = ["total", "home", "age", "race", "home * age", "age * race", "detailed"]


def marginals(names):
    queries = [SCHEMA.query(name) for name in names]
    made = Decomposition.of(SCHEMA, measured=queries, asked=[SCHEMA.query("detailed")], zeros={"home"})
    return made, [made.marginal(query) for query in queries]


def random_covariances(rng, made, units):
    shape = (units, len(made.subsets), made.dense_cells, made.dense_cells)
    root = rng.normal(size=shape)
    return root @ np.swapaxes(root, -1, -2) + 0.1 * np.eye(made.dense_cells)


def by_definition(V, some):
    """Each column is V^(1/2) L V^(1/2) of a query over all subsets; the target is the identity."""
    values, vectors = np.linalg.eigh(V)
    root = (vectors * np.sqrt(values)[:, None, :]) @ np.swapaxes(vectors, -1, -2)
    columns = [root @ (one.gram[:, None, None] * (one.dense.T @ one.dense)) @ root for one in some]
    matrix = np.stack([column.reshape(-1) for column in columns], axis=1)
    target = np.broadcast_to(np.eye(V.shape[-1]), V.shape).reshape(-1)
    return matrix, target


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_non_negative_fit_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    made, some = marginals(NAMES)
    V = random_covariances(rng, made, 20)
    found = fitted_weights(V, some)
    assert (found >= 0).all()
    assert 0 < (found == 0).sum() < found.size
    for covariance, weights in zip(V, found, strict=True):
        matrix, target = by_definition(covariance, some)
        best = nnls(matrix, target)[1]
        assert np.linalg.norm(matrix @ weights - target) <= best * (1 + 1e-8)


def test_the_weights_of_measurements_themselves_are_found_again():
    _, some = marginals(NAMES)
    weights = np.array([3.0, 0.5, 0.0, 2.0, 1.0, 0.25, 0.7])
    information = sum(
        w * one.gram[:, None, None] * (one.dense.T @ one.dense) for w, one in zip(weights, some, strict=True)
    )
    np.testing.assert_allclose(fitted_weights(np.linalg.inv(information)[None], some)[0], weights, atol=1e-9)


def test_one_query_alone_gets_the_inverse_of_its_variance():
    made, (total,) = marginals(["total"])
    V = random_covariances(np.random.default_rng(1), made, 3)
    np.testing.assert_allclose(fitted_weights(V, [total])[:, 0], 1 / total.variances(V)[:, 0], rtol=1e-12)


def test_of_queries_that_coincide_the_cells_or_else_the_coarsest_have_the_weight():
    made, some = marginals(NAMES)
    V = random_covariances(np.random.default_rng(1), made, 1)
    V[:, :, 1:], V[:, :, :, 1:] = 0, 0  # nothing but houses: home is total, home * age is age, and so on
    weights = dict(zip(NAMES, fitted_weights(V, some)[0], strict=True))
    assert weights["home"] == weights["home * age"] == weights["age * race"] == 0
    assert weights["detailed"] > 0


def test_what_is_exact_has_no_weight_unless_all_is():
    made, some = marginals(["total", "detailed"])
    V = random_covariances(np.random.default_rng(1), made, 1)
    rows = np.ones((1, made.dense_cells))
    V[:, 0] -= V[:, 0] @ rows.T @ rows @ V[:, 0] / (rows @ V[:, 0] @ rows.T)  # the total is known
    weights = fitted_weights(V, some)[0]
    assert weights[0] == 0
    assert weights[1] > 0
    assert fitted_weights(V, some[:1]).tolist() == [[1.0]]
    assert fitted_weights(0 * V, some).tolist() == [[1.0, 1.0]]
