"""Predicted variances and their gradients, on random trees with everything that least squares must cope with."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tallyveil as tv
from blue.random_trees import draw_case
from tallyveil.allocation.alike import alike_tree
from tallyveil.allocation.model import Model
from tallyveil.allocation.precision import precision
from tallyveil.blue.accuracy import expected_accuracy
from tallyveil.release.expected_error import expected_errors

EXACT = 1e-9  # sums of variances below this are of exact counts: rounding, which has no gradient


def model_of(seed: int, estimator: str = "tree") -> Model:
    case = draw_case(seed)
    noisy = case.noisy
    return Model(
        spine=noisy.published,
        schema=noisy.schema,
        strategy=noisy.strategy,
        queries=["total", *noisy.schema.attributes, "detailed"],
        facilities=case.facilities,
        optimised=noisy.optimised,
        estimator=estimator,
    )


@pytest.mark.parametrize("seed", range(25))
def test_predicted_variances_are_those_of_least_squares_over_the_tree(seed):
    model = model_of(seed)
    squares = model.mean_squares(model.predict())
    table = expected_accuracy(
        model.spine,
        model.schema,
        model.strategy,
        facilities=model.facilities,
        optimised=model.optimised,
        queries=model.queries,
    )
    for row in table.itertuples():
        assert np.sqrt(squares[row.level, row.query]) == pytest.approx(row.sd, rel=1e-6, abs=2e-6), row


@pytest.mark.parametrize("estimator", ["tree", "topdown"])
@pytest.mark.parametrize("seed", range(25))
def test_the_gradient_is_that_of_finite_differences(seed, estimator):
    model = model_of(seed, estimator)
    rng, at = np.random.default_rng(seed), model.predict()
    weights = {pair: rng.random(rows.shape) for pair, rows in at.variances.items()}

    def figure(shares, budget):
        return sum(
            float((weights[pair] * rows).sum()) for pair, rows in model.predict(shares, budget).variances.items()
        )

    by_share, by_budget = model.gradient(at, weights)
    size, step = figure(model.shares, at.budget), 1e-5
    direction = rng.normal(size=len(model.shares)) * model.shares
    ahead, behind = (figure(model.shares + sign * step * direction, at.budget) for sign in (1, -1))
    assert by_share @ direction == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-6 * size + EXACT)
    ahead, behind = (figure(model.shares, at.budget * (1 + sign * step)) for sign in (1, -1))
    slope = (ahead - behind) / (2 * step)
    assert by_budget * at.budget == pytest.approx(slope, rel=1e-4, abs=1e-6 * size + EXACT)


@pytest.mark.parametrize("mechanism", ["gaussian", "geometric"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-or-remove"])
def test_precisions_are_those_of_the_noise_that_is_drawn_and_so_are_their_derivatives(mechanism, neighbours):
    for budget in (0.003, 0.05, 0.3, 1.7, 6.0):
        plan = tv.Strategy(
            mechanism=mechanism, neighbours=neighbours, budget=Fraction(budget).limit_denominator(10**9),
            levels={"us": 1}, queries={"us": {"total": 1}},
        )  # fmt: skip
        value, slope = precision(plan, budget)
        assert value == pytest.approx(1 / plan.noise("us", "total").actual_variance(), rel=1e-8)
        step = 1e-6 * budget
        difference = (precision(plan, budget + step)[0] - precision(plan, budget - step)[0]) / (2 * step)
        assert slope == pytest.approx(difference, rel=1e-5)
    assert precision(plan, 1e6) == (pytest.approx(1e9), 0.0)  # no noise at all


def test_without_inequalities_topdown_has_the_errors_of_totals_that_a_certificate_declares():
    spine = tv.Spine.from_columns({"county": list("aabbb"), "block": list("12345")}, root="state")
    schema = tv.Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    plan = tv.Strategy.default(spine, schema, rho="1/3").with_estimator("topdown")
    model = Model(spine=spine, schema=schema, strategy=plan, queries=["total"], estimator="topdown")
    squares = model.mean_squares(model.predict())
    for one in expected_errors(plan, spine, schema):
        assert np.sqrt(squares[one.level, "total"]) == pytest.approx(one.sd, rel=1e-9, abs=1e-9)


def big_tree() -> Model:
    """Two hundred streets with two to nine blocks."""
    rng = np.random.default_rng(4)
    street = np.repeat(np.arange(200), rng.integers(2, 10, 200))
    codes = [f"{s:03}" for s in street]
    spine = tv.Spine.from_columns(
        {"street": codes, "block": [f"{code}{i:04}" for i, code in enumerate(codes)]}, root="town"
    )
    schema = tv.Schema(attributes={"age": ["child", "adult"]})
    return Model(spine=spine, schema=schema, strategy=tv.Strategy.default(spine, schema, rho=1), queries=["total"])


def test_alike_units_are_listed_once_and_stand_for_all():
    model = big_tree()
    town, street, block = model.trees[0].stages
    assert [len(town.kind), len(street.kind), len(block.kind)] == [1, 8, 8]  # by their number of blocks
    assert street.units.sum() == 200
    assert block.units.sum() == model.spine.size("block")


def test_a_thinned_tree_keeps_the_number_of_units_and_predicts_nearly_the_same():
    model = big_tree()
    thin = replace(model, most=4)
    assert [len(stage.kind) for stage in thin.trees[0].stages] == [1, 4, 4]
    assert thin.trees[0].stages[1].units.sum() == 200
    exact, rough = (one.mean_squares(one.predict()) for one in (model, thin))
    for pair, square in exact.items():
        assert rough[pair] == pytest.approx(square, rel=0.03)
    assert len(alike_tree(model.trees[0].problem)[1].kind) == 8
