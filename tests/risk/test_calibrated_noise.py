"""Risk reads the noise that is drawn: noise by privacy loss distribution is calibrated on the spine of the people."""

from functools import partial

import pytest

from tallyveil import Histogram, Schema, Spine, Strategy, measure, protect
from tallyveil.blue.accuracy import expected_accuracy
from tallyveil.errors import StrategyError
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import RunKey
from tallyveil.risk import Target, curve, empirical_levels, measurement_ranges, noises_of, scan, scan_above
from tallyveil.risk.target.target import before_postprocessing

SPINE = Spine.from_columns({"county": ["1", "1", "2", "2"], "block": ["11", "12", "21", "22"]}, root="us")
SCHEMA = Schema(attributes={"age": ["child", "adult"]})
PEOPLE = Histogram(spine=SPINE, schema=SCHEMA, leaves=Counts.from_dense([[1, 8], [2, 9], [4, 5], [0, 7]]))
PLAN = Strategy.default(SPINE, SCHEMA, epsilon=1, accounting="pld")
ALONE = Strategy.default(SPINE, SCHEMA, epsilon=1, accounting="pld").with_estimator("topdown")
TARGET = Target(leaf=0, cell=0, instead=1)

READERS = {
    "before post-processing": lambda plan: before_postprocessing(plan, PEOPLE, TARGET, prior="1/2"),
    "scan": lambda plan: scan(PEOPLE, plan).groups.to_dict(),
    "scan with the hierarchy": lambda plan: scan_above(PEOPLE, plan).to_dict(),
    "ranges": lambda plan: measurement_ranges(PEOPLE, plan).to_dict(),
    "accuracy": lambda plan: expected_accuracy(SPINE, SCHEMA, plan).to_dict(),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_of_a_strategy_uses_the_noise_that_measure_draws(name):
    plan = ALONE if name == "ranges" else PLAN
    read, drawn = READERS[name], measure(PEOPLE, plan, RunKey.from_seed(1)).strategy
    assert drawn.budget > 1.05 * plan.budget  # otherwise nothing could be told apart
    assert repr(read(plan)) == repr(read(drawn))
    if name != "ranges":  # which do not depend on the scale of all noise
        assert repr(read(plan)) != repr(read(drawn.with_budget(rho=plan.budget)))


@pytest.mark.parametrize(
    "read",
    [
        partial(empirical_levels, PLAN),
        partial(noises_of, PLAN, "block"),
        partial(PLAN.noise, "block", "detailed"),
        lambda: [spend.noise for spend in PLAN.spends()],
    ],
)
def test_without_a_spine_noise_that_depends_on_it_is_refused(read):
    with pytest.raises(StrategyError, match=r'accounting = "pld": the noise depends on the spine.*Calibrate'):
        read()


def test_shares_can_be_read_before_the_noise_is_known_and_a_curve_is_by_rho():
    assert sum(spend.share for spend in PLAN.spends()) == 1
    by_rho = PLAN.with_accounting("zcdp")
    assert curve([1], priors=["1/2"], strategy=PLAN).equals(curve([1], priors=["1/2"], strategy=by_rho))


def test_the_bound_of_a_simulation_is_that_of_the_release():
    release = protect(PEOPLE, PLAN, seed=1)
    assert before_postprocessing(PLAN, PEOPLE, TARGET, prior="1/2") == before_postprocessing(
        release.strategy, PEOPLE, TARGET, prior="1/2"
    )
