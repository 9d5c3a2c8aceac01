"""One level: the published tables, sums done by hand, and decisions at the edge."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil import Strategy
from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric
from tallyveil.risk import Intruder

RHO = Fraction("2.56") * Fraction(165, 4099) * Fraction(3945, 4097)  # kazan2022, section 4.2: 0.099
PAPER = DiscreteGaussian(variance=1 / (2 * RHO))
PRIORS = ("1/2", "1/5", "1/10", "1/50")
TABLE_3 = {  # kazan2022, Table 3: posterior and R' by released count, in the order of the priors
    1: ((0.525, 0.216, 0.109, 0.022), (1.05, 1.08, 1.09, 1.10)),
    2: ((0.574, 0.252, 0.130, 0.027), (1.15, 1.26, 1.30, 1.34)),
    3: ((0.622, 0.291, 0.154, 0.032), (1.24, 1.46, 1.54, 1.62)),
    4: ((0.667, 0.334, 0.182, 0.039), (1.33, 1.67, 1.82, 1.96)),
    5: ((0.710, 0.379, 0.213, 0.047), (1.42, 1.90, 2.13, 2.37)),
}
TABLE_4 = {"1/2": (0.524, 1.05), "1/5": (0.225, 1.13), "1/10": (0.117, 1.17), "1/50": (0.024, 1.21)}


def test_table_3_to_the_printed_digits():
    for released, (posteriors, ratios) in TABLE_3.items():
        for prior, posterior, ratio in zip(PRIORS, posteriors, ratios, strict=True):
            exposed = Intruder(prior=prior).against(PAPER)
            assert float(exposed.posterior(released)) == pytest.approx(posterior, abs=5.1e-4)
            assert float(exposed.ratio(released)) == pytest.approx(ratio, abs=5.1e-3)


def test_table_3s_probabilities_are_those_of_a_target_without_the_characteristics():
    # Erratum 6: the column headed P[X* = x | X = 1] holds P[X* = x | X = 0].
    published, right = (0.161, 0.119, 0.073, 0.036, 0.015), (0.178, 0.161, 0.119, 0.073, 0.036)
    assert PAPER.pmf(np.arange(1, 6)) == pytest.approx(published, abs=5e-4)
    assert PAPER.pmf(np.arange(0, 5)) == pytest.approx(right, abs=5e-4)


def test_table_4_to_the_printed_digits():
    for prior, (posterior, risk) in TABLE_4.items():
        exposed = Intruder(prior=prior).against(PAPER)
        assert exposed.marginal_posterior == pytest.approx(posterior, abs=5.1e-4)
        assert exposed.risk == pytest.approx(risk, abs=5.1e-3)


@pytest.mark.parametrize(
    ("rho", "prior", "right"),
    [("0.099", "1/2", 0.59), ("0.5", "1/5", 0.30), ("0.6", "1/5", 0.28)],  # section 4.2.3
)
def test_the_published_probabilities_of_a_right_decision(rho, prior, right):
    noise = DiscreteGaussian(variance=1 / (2 * Fraction(rho)))
    assert Intruder(prior=prior).against(noise).right_decision == pytest.approx(right, abs=5e-3)


def test_with_the_bureaus_real_noise_the_risk_is_smaller():
    # Erratum 9: the Bureau's rho is for replace-one neighbours, so its variance is twice the paper's.
    assert Intruder(prior="1/2").against(PAPER).right_decision == pytest.approx(0.5889, abs=5e-5)
    real = Strategy.preset("pl94-2020-us-persons").noise("block", "detailed")
    assert float(real.variance) == pytest.approx(10.08, abs=0.02)
    assert Intruder(prior="1/2").against(real).right_decision == pytest.approx(0.5628, abs=5e-5)
    twice = DiscreteGaussian(variance=1 / RHO)
    assert Intruder(prior="1/2").against(twice).risk == pytest.approx(1.024, abs=5e-4)
    assert Intruder(prior="1/50").against(twice).risk == pytest.approx(1.100, abs=5e-4)


noises = st.one_of(
    st.fractions("1/10", 4, max_denominator=50).map(lambda z: Geometric(z=z)),
    st.fractions("1/20", 60, max_denominator=50).map(lambda s: DiscreteGaussian(variance=s)),
)
priors = st.fractions("1/100", "99/100", max_denominator=100)
costs = st.fractions("1/5", 5, max_denominator=10)


@given(noises, priors, st.integers(0, 9), costs, costs)
def test_all_figures_are_those_of_bayes_theorem_summed_by_hand(noise, prior, known, cost, miss):
    exposed = Intruder(prior=prior, known=known, false_accusation=cost, miss=miss).against(noise)
    x = np.arange(known - 400, known + 402)
    has, not_ = np.exp(noise.log_pmf(x - known - 1)), np.exp(noise.log_pmf(x - known))
    p = float(prior)
    with np.errstate(invalid="ignore"):
        posterior = p * has / (p * has + (1 - p) * not_)
    seen = (has > 1e-200) & (not_ > 1e-200)
    assert exposed.posterior(x[seen]) == pytest.approx(posterior[seen], rel=1e-9, abs=1e-12)
    assert exposed.marginal_posterior == pytest.approx(float((has * posterior)[seen].sum()), rel=1e-9, abs=1e-12)
    claims = float(miss) * posterior[seen] > float(cost) * (1 - posterior[seen])
    assert exposed.right_decision == pytest.approx(float(has[seen][claims].sum()), abs=1e-9)


@given(noises, priors)
def test_posteriors_of_both_answers_sum_to_one_and_average_to_the_prior(noise, prior):
    exposed, mirrored = (Intruder(prior=p).against(noise) for p in (prior, 1 - prior))
    x = np.arange(-6, 8)
    assert exposed.posterior(x) + mirrored.posterior(1 - x) == pytest.approx(np.ones(len(x)), abs=1e-12)
    average = float(prior) * exposed.marginal_posterior + float(1 - prior) * (1 - mirrored.marginal_posterior)
    assert average == pytest.approx(float(prior), abs=1e-9)


@pytest.mark.parametrize("variance", ["1/10000", "1", "1000000"])
def test_any_variance_gives_figures_between_the_prior_and_certainty(variance):
    exposed = Intruder(prior="1/50", known=3).against(DiscreteGaussian(variance=variance))
    assert 0.02 - 1e-12 <= exposed.marginal_posterior <= 1
    assert np.isfinite(exposed.posterior([-(10**9), 4, 10**9])).all()
    assert 0 <= exposed.right_decision <= 1


def test_the_threshold_is_strict_and_jumps_where_the_odds_are_met():
    # p = 1/5: claims at 2 or more while rho is below (ln 4) / 1 = 1.386; from (ln 4) / 3 = 0.462 at 2, below at 3.
    def threshold(rho: str) -> float:
        return Intruder(prior="1/5").against(DiscreteGaussian(variance=1 / (2 * Fraction(rho)))).threshold

    assert [threshold(rho) for rho in ("0.4620", "0.4622", "1.3862", "1.3864")] == [3, 2, 2, 1]


def test_a_geometric_count_decides_always_at_a_threshold_or_never():
    def threshold(prior: str) -> float:
        return Intruder(prior=prior, known=4).against(Geometric(z=1)).threshold

    assert threshold("1/2") == 5
    assert threshold("1/5") == math.inf  # odds of 4 are needed, e are given
    assert threshold("4/5") == -math.inf
    assert Intruder(prior="4/5").against(Geometric(z=1)).right_decision == 1
    assert Intruder(prior="1/5").against(Geometric(z=1)).right_decision == 0
    assert Intruder(prior="1/5").against(Geometric(z=1)).as_json()["threshold"] is None


def test_a_dear_accusation_is_made_less_often():
    cheap, dear = (Intruder(prior="1/2", false_accusation=cost).against(PAPER) for cost in (1, 3))
    assert dear.threshold > cheap.threshold
    assert dear.right_decision < cheap.right_decision
    assert dear.marginal_posterior == cheap.marginal_posterior


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"prior": 1}, "a prior is a probability strictly between 0 and 1, such as 1/2 or 0.1. Got 1"),
        ({"prior": 0}, "a prior is a probability strictly between 0 and 1, such as 1/2 or 0.1. Got 0"),
        (
            {"prior": "1/2", "known": -1},
            "known is the number of others who have the characteristics, 0 or more. Got -1",
        ),
        ({"prior": "1/2", "miss": 0}, "the cost miss must be greater than 0"),
    ],
)
def test_intruders_that_cannot_be_are_refused(given, words):
    with pytest.raises(InputError, match=words.replace(".", "[.]")):
        Intruder(**given)
    with pytest.raises(InputError, match="a released noisy count must be a whole number"):
        Intruder(prior="1/2").against(PAPER).posterior(1.5)
    with pytest.raises(InputError, match=r"noise is Geometric or DiscreteGaussian\. Got a int"):
        Intruder(prior="1/2").against(3)
