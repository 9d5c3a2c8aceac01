"""Which measurements a release tells: the true ones lie in their ranges, and simple cases are as by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.engine.topdown import topdown
from tallyveil.errors import InputError
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import Invariant, RunKey
from tallyveil.privacy.constraints import Bound, StructuralZero
from tallyveil.risk import bound_shares, measurement_ranges

SPINE = Spine.from_columns({"county": ["1", "1", "2", "2", "2"], "block": ["11", "12", "21", "22", "23"]}, root="us")
SCHEMA = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
PEOPLE = Histogram.from_entries(
    SPINE, SCHEMA, unit=[0, 0, 1, 2, 2, 3, 4], cell=[0, 2, 1, 0, 3, 2, 1], count=[1, 8, 9, 4, 2, 3, 5]
)
DETAILED = {level: {"detailed": 1} for level in SPINE.levels}
SHARES = dict.fromkeys(SPINE.levels, "1/3")


def plan(**fields) -> Strategy:
    made = {"mechanism": "gaussian", "budget": 1, "levels": SHARES, "queries": DETAILED, "attributes": ("age", "sex")}
    return Strategy(**{**made, **fields})


def default(**budget) -> Strategy:
    return Strategy.default(SPINE, SCHEMA, **budget).with_estimator("topdown")


PLANS = {
    "detailed": plan(),
    "default": default(rho="1/2"),
    "absent": plan(neighbours="add-or-remove", budget=2),
    "geometric": default(epsilon=1),
    "invariant": replace(default(rho=1), constraints=(Invariant(query="total", level="county"),)),
    "below": replace(default(rho=1), constraints=(Invariant(query="age", level="block"),)),
    "zeros": replace(
        default(rho=1),
        constraints=(StructuralZero(cells={"age": ("child",), "sex": ("m",)}),),
    ),
}


def _people(name: str) -> Histogram:
    if name != "zeros":
        return PEOPLE
    return Histogram.from_entries(
        SPINE, SCHEMA, unit=[0, 0, 1, 2, 3, 4], cell=[0, 2, 3, 0, 2, 3], count=[1, 8, 9, 4, 3, 5]
    )


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_measurements_of_a_run_lie_in_the_ranges_of_its_release(name, seed):
    strategy, people = PLANS[name], _people(name)
    noisy = measure(people, strategy, RunKey.from_seed(seed))
    release, _ = topdown(noisy)
    found = measurement_ranges(release, strategy)
    true = _measured(noisy, strategy)
    following = {level: _next(level) for level in SPINE.levels}
    for row in found.itertuples():
        value = true[row.level, row.unit, row.query, row.cell]
        assert row.low <= value <= row.high, row
        if isinstance(row.sibling_status, str):
            other = true[row.level, following[row.level][row.unit], row.query, row.cell]
            assert row.sibling_low <= value - other <= row.sibling_high, row
    if name in ("detailed", "absent"):
        assert np.isfinite(found.sibling_low).sum() + np.isfinite(found.sibling_high).sum() > 5  # there is power


def _next(level):
    """The next sibling of each unit; the first one after the last."""
    if level == SPINE.levels[0]:
        return {}
    labels, parents = SPINE.labels(level), SPINE.parents(level)
    families = [np.flatnonzero(parents == parent) for parent in np.unique(parents)]
    return {labels[one]: labels[two] for units in families for one, two in zip(units, np.roll(units, -1), strict=True)}


def _measured(noisy, strategy):
    """The noisy answers by place."""
    values = {}
    for level in SPINE.levels:
        for query in strategy.queries[level]:
            labels = SCHEMA.query(query).labels()
            answers = noisy.ask(level, query, np.arange(SPINE.size(level) * len(labels)))
            places = [(level, code, query, label) for code in SPINE.labels(level) for label in labels]
            values |= dict(zip(places, answers, strict=True))
    return values


def test_a_root_of_one_query_is_determined_where_it_is_positive_and_bounded_above_where_it_is_zero():
    """Without a total that is given, the estimate of a cell is its measurement, or 0 if that is negative."""
    found = measurement_ranges(PEOPLE, plan(neighbours="add-or-remove"))
    root = found[found.level == "us"].set_index("cell")
    released = dict(zip(SCHEMA.query("detailed").labels(), PEOPLE.at("us").dense()[0], strict=True))
    for cell, count in released.items():
        assert (root.unrounded_low[cell], root.unrounded_high[cell]) == pytest.approx((count, count))
        assert root.unrounded_status[cell] == "determined"
        assert (root.low[cell], root.high[cell]) == (count - 1, count + 1)
        assert root.status[cell] == "bounded"
    empty = Histogram.from_entries(SPINE, SCHEMA, unit=[0], cell=[0], count=[5])
    found = measurement_ranges(empty, plan(neighbours="add-or-remove"))
    zero = found[(found.level == "us") & (found.cell == "adult*m")].iloc[0]
    assert (zero.unrounded_low, zero.unrounded_high, zero.unrounded_status) == (-np.inf, 0, "bounded")
    assert (zero.low, zero.high) == (-np.inf, 1)


def test_a_total_that_is_given_hides_what_all_cells_have_in_common():
    """Under replace-one neighbours, the root's total is exact: its multiplier shifts all measurements alike."""
    found = measurement_ranges(PEOPLE, plan())
    assert set(found[found.level == "us"].unrounded_status) == {"hidden"}
    assert set(found.status) == {"hidden"}  # and so does each parent's count below


def test_the_difference_of_siblings_is_determined_where_both_are_positive():
    """With one query, the estimate is the measurement and a shift that siblings share, unless it is 0."""
    found = measurement_ranges(PEOPLE, plan())
    county = found[found.level == "county"].set_index(["unit", "cell"])
    both = county.loc["1", "child*f"]
    assert (both.sibling_unrounded_low, both.sibling_unrounded_high) == pytest.approx((1 - 4, 1 - 4))
    assert both.sibling_unrounded_status == "determined"
    one = county.loc["1", "adult*m"]  # 0, and 2 in the other county: at most 2 less
    assert (one.sibling_unrounded_low, one.sibling_unrounded_high) == (-np.inf, pytest.approx(-2))
    assert one.sibling_unrounded_status == "bounded"
    assert (both.sibling_low, both.sibling_high) == (-5, -1)  # rounding moves both by up to a person, in opposite ways


def test_several_queries_hide_each_other():
    """One equation for each cell cannot tell two measurements apart that it contains both."""
    both = {level: {"age": "1/2", "detailed": "1/2"} for level in SPINE.levels}
    found = measurement_ranges(PEOPLE, plan(queries=both, neighbours="add-or-remove"))
    assert set(found[found.level == "us"].unrounded_status) == {"hidden"}


def test_only_children_are_not_measured_and_have_no_range():
    spine = Spine.from_columns({"county": ["1", "2"], "block": ["11", "21"]}, root="us")
    people = Histogram.from_entries(spine, SCHEMA, unit=[0, 1], cell=[0, 3], count=[4, 7])
    found = measurement_ranges(people, plan(only_child=True))
    assert set(found.level) == {"us", "county"}
    shares = bound_shares(people, plan(only_child=True)).set_index("level")
    assert shares.loc["block"].tolist() == [0, 0, 0, 0, 0, 0]


def test_shares_count_cells_and_relations_as_by_hand():
    found = bound_shares(PEOPLE, PLANS["default"]).set_index("level")
    asked = {level: sum(SCHEMA.query(q).size for q in PLANS["default"].queries[level]) for level in SPINE.levels}
    assert found.measurements.tolist() == [asked["us"], 2 * asked["county"], 5 * asked["block"]]
    assert found.cells.tolist() == [4, 8, 3 * 2 + 4 * 3]  # counties have 3 and 4 cells above 0
    assert found.at_zero.tolist() == [0, 1, 18 - 7]
    assert found.relations.tolist() == [3, 7 - 4, 0]  # of the blocks, 7 cells above 0 less 7 of their parents


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (replace(PLANS["default"], passes={"county": (("total",), ("*",))}), "several passes"),
        (replace(PLANS["default"], constraints=(Bound(query="total", level="us", most=99),)), "not this constraint"),
        (
            replace(PLANS["default"], estimator="tree", information_from="block"),
            "estimates county from the levels below",
        ),
    ],
)
def test_what_the_ranges_do_not_cover_is_refused(strategy, words):
    with pytest.raises(InputError, match=words):
        measurement_ranges(PEOPLE, strategy)


def test_a_large_tree_is_refused(monkeypatch):
    monkeypatch.setattr("tallyveil.risk.inversion.nests.MOST", 10)
    with pytest.raises(InputError, match="measurements are too many for exact ranges; 10 are the most"):
        measurement_ranges(PEOPLE, PLANS["default"])
