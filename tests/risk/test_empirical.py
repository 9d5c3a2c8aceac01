"""The empirical epsilon of a whole strategy, before and after post-processing (kazan2022, section 6)."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.auditing.mechanism_runs import TopDownRuns
from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Invariant
from tallyveil.risk import Attack, Intruder, empirical_epsilon, empirical_levels, empirical_release
from tallyveil.risk.budget.empirical_levels import WITH_BELOW, Expected, without_invariants
from tallyveil.risk.simulate.answer_runs import AnswerRuns
from tallyveil.risk.simulate.judging import judged
from tallyveil.risk.target.learned_answers import LearnedAnswers
from tallyveil.risk.target.target import Target, path_of

SPINE = Spine.from_columns({"county": ["1", "1", "2"], "block": ["11", "12", "21"]}, root="us")
SCHEMA = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
PEOPLE = Histogram.from_entries(
    SPINE, SCHEMA, unit=[0, 0, 0, 1, 1, 2, 2], cell=[0, 2, 3, 1, 2, 0, 3], count=[1, 8, 9, 2, 12, 3, 7]
)
TARGET = Target(leaf=0, cell=0, instead=2)  # a girl, or a woman
PLAN = Strategy.default(SPINE, SCHEMA, rho=1)


@pytest.fixture(scope="module")
def of_2020():
    table = empirical_levels(Strategy.preset("pl94-2020-us-persons"))
    return table[table.scope == WITH_BELOW].set_index(["invariants", "level"])


def test_all_six_levels_of_2020_lie_where_the_paper_expects_them(of_2020):
    found, expected = of_2020.implied_epsilon, Expected.of(Strategy.preset("pl94-2020-us-persons"))
    assert (round(expected.low, 2), round(expected.high, 2)) == (0.45, 2.26)
    assert found[True, "block"] == pytest.approx(0.321, abs=5e-4)
    assert found[True, "us"] == pytest.approx(1.312, abs=5e-4)
    assert found[False, "us"] == pytest.approx(1.567, abs=5e-4)
    assert expected.low < found[True, "us"] < found[False, "us"] < expected.high


def test_an_exact_count_takes_its_noisy_count_out_of_the_evidence(of_2020):
    """The state's total is an invariant: without it, its noisy count would be evidence, at the state and above."""
    more = of_2020.counts[False] - of_2020.counts[True]
    assert more.to_dict() == {"us": 1, "state": 1, "county": 0, "tract": 0, "block_group": 0, "block": 0}


def test_levels_add_up_and_the_finest_is_the_figure_of_one_level(of_2020):
    rising = of_2020.implied_epsilon[True][["block", "block_group", "tract", "county", "state", "us"]]
    assert rising.is_monotonic_increasing
    alone = empirical_epsilon(Intruder(prior="1/2").against(DiscreteGaussian(variance=5)))
    single = Strategy(mechanism="gaussian", budget="1/5", levels={"us": 1}, queries={"us": {"detailed": 1}},
                      attributes=("age",))  # fmt: skip
    (row, again) = empirical_levels(single).itertuples()
    assert (row.implied_epsilon, again.implied_epsilon) == (alone.implied_epsilon, alone.implied_epsilon)


def test_queries_that_a_level_does_not_measure_add_nothing_there():
    table = empirical_levels(Strategy.preset("pl94-2020-us-persons"), attack=Attack(queries=["total"]))
    alone = table[table.invariants & (table.scope == "alone")].set_index("level")
    assert alone.counts.to_dict() == {"us": 0, "state": 0, "county": 1, "tract": 1, "block_group": 1, "block": 1}
    assert alone.implied_epsilon.isna().to_dict() == {name: name in ("us", "state") for name in alone.index}


def test_an_attack_that_no_query_answers_is_refused():
    plan = Strategy(mechanism="gaussian", budget=1, levels={"us": 1}, queries={"us": {"age": 1}},
                    attributes=("age", "sex"))  # fmt: skip
    with pytest.raises(InputError, match="no measured query tells the hypotheses of this attack apart"):
        empirical_levels(plan, attack=Attack(kind="attribute", attribute="sex"))


def test_without_invariants_only_what_is_exact_goes():
    plan = Strategy.preset("pl94-2020-us-persons")
    assert [type(one).__name__ for one in without_invariants(plan).constraints] == ["StructuralZero"]
    assert without_invariants(PLAN) is PLAN


@pytest.mark.parametrize("size", [3, 20])
def test_what_is_learned_from_gaussian_answers_is_what_the_exact_sum_says(size):
    """The lower bound is near the exact marginal posterior, and would reject noise of a variance 20% off."""
    rng, runs, variance = np.random.default_rng(5), 20_000, 5.0 * size
    has, has_not = (rng.normal(0, np.sqrt(variance), (runs, size)) + shift for shift in (1.0, 0.0))
    found = judged(has, has_not, LearnedAnswers.from_runs, 0.5)
    low, exact, high = (_exact(size / (variance * factor)) for factor in (1.2, 1.0, 0.8))
    value, error = found["marginal_posterior"], found["marginal_posterior_se"]
    assert abs(value - exact) < 3 * error
    assert low + 3 * error < value < high - 3 * error


def _exact(information: float) -> float:
    """The average posterior of normal evidence at even odds, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    return float(weights @ expit(information / 2 + np.sqrt(information) * nodes) / weights.sum())


def test_answers_are_those_of_the_histogram_in_the_order_cell_first():
    job = AnswerRuns(run=lambda *_: [], people=PEOPLE, alternative=TARGET.gone(PEOPLE), target=TARGET, strategy=PLAN)
    found, gone = job.answers(PEOPLE), job.answers(TARGET.gone(PEOPLE))
    path = path_of(SPINE, 0)
    cells = [PEOPLE.at(level).dense()[unit] for level, unit in path.items()]
    assert found[:3].tolist() == [cell[0] for cell in cells] == [1, 1, 4]
    expected = {(i, "detailed"): cell[0] - cell[2] for i, cell in enumerate(cells)}
    expected |= {(i, "age"): cell[0] + cell[1] - cell[2] - cell[3] for i, cell in enumerate(cells)}
    assert sorted(found[3:]) == sorted(expected.values())  # sex and total are the same under both hypotheses
    assert (found[3:] - gone[3:]).tolist() == [2] * 6
    assert job.columns == len(found)


def test_a_mechanism_that_hides_nothing_and_one_that_hides_all():
    def bare(people, runs):
        return [people] * len(runs)

    def blind(_, runs):
        return [PEOPLE] * len(runs)

    given = {"strategy": PLAN, "priors": ["1/2", "1/10"], "runs": 200}
    for found in empirical_release(bare, PEOPLE, TARGET, **given):
        assert found.after.marginal_posterior > 0.95
        assert found.after.implied_epsilon > found.before.implied_epsilon  # not a release of these measurements
    for found in empirical_release(blind, PEOPLE, TARGET, **given):
        assert found.after.marginal_posterior == pytest.approx(float(found.prior))
        assert found.after.implied_epsilon == pytest.approx(0, abs=1e-3)


EXACT = replace(PLAN, constraints=(Invariant(query="total", level="county"),))


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(EXACT, id="with invariants"),
        pytest.param(without_invariants(EXACT), id="without", marks=pytest.mark.slow),
    ],
)
def test_post_processing_reveals_no_more_than_the_measurements(plan):
    run = TopDownRuns(strategy=plan, facilities=None, seed=3, delta=1e-10)
    (found,) = empirical_release(run, PEOPLE, TARGET, strategy=plan, priors=["1/2"], runs=500)
    error = found.after.marginal_posterior_se
    assert 0.5 + 3 * error < found.after.marginal_posterior < found.before.marginal_posterior + 3 * error
    assert found.after.implied_epsilon_low < found.after.implied_epsilon < found.after.implied_epsilon_high


def test_no_prior_is_refused():
    with pytest.raises(InputError, match="no prior is given"):
        empirical_release(lambda *_: [], PEOPLE, TARGET, strategy=PLAN, priors=[], runs=100)
