"""Evidence from several counts: brute force over every combination of noise."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil import Strategy
from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric, Invariant
from tallyveil.risk import Intruder, noises_of
from tallyveil.risk.target.evidence import Evidence

noises = st.one_of(
    st.fractions("1/2", 4, max_denominator=6).map(lambda z: Geometric(z=z)),
    st.fractions("1/4", 3, max_denominator=6).map(lambda s: DiscreteGaussian(variance=s)),
)


def brute_force(noises, prior, odds):
    """Marginal posterior, right decision and tie: likelihoods multiplied, every combination of small noises added."""
    eta = range(-16, 17)
    posterior = right = tie = 0.0
    for drawn in product(eta, repeat=len(noises)):
        has = math.prod(float(noise.pmf(e)) for noise, e in zip(noises, drawn, strict=True))
        if has < 1e-18:
            continue
        not_ = math.prod(float(noise.pmf(e + 1)) for noise, e in zip(noises, drawn, strict=True))
        posterior += has * prior * has / (prior * has + (1 - prior) * not_)
        right += has * (has > odds * not_ * (1 + 1e-9))
        tie += has * (abs(has / not_ - odds) <= 1e-9 * odds)
    return posterior, right, tie


@settings(max_examples=15, deadline=None)
@given(st.lists(noises, min_size=1, max_size=2), st.sampled_from([Fraction(1, 2), Fraction(1, 5), Fraction(3, 4)]))
def test_all_combinations_of_noise_give_the_same_figures(noises, prior):
    exposed = Intruder(prior=prior).against(*noises)
    posterior, right, tie = brute_force(noises, float(prior), float(exposed.intruder.odds_needed))
    missing = sum(2 * float(noise.tail(17)) for noise in noises) + 1e-9
    assert exposed.marginal_posterior == pytest.approx(posterior, abs=missing)
    assert exposed.right_decision == pytest.approx(right, abs=missing)
    assert exposed.tie == pytest.approx(tie, abs=missing)


def test_ties_are_counted_in_whole_numbers():
    two = Intruder(prior="1/2").against(DiscreteGaussian(variance="1/3"), DiscreteGaussian(variance="1/3"))
    eta = np.arange(-12, 13)
    noise = DiscreteGaussian(variance="1/3").pmf(eta)
    assert two.tie == pytest.approx(float(noise @ DiscreteGaussian(variance="1/3").pmf(-1 - eta)), rel=1e-12)
    one = Intruder(prior="1/2").against(DiscreteGaussian(variance="1/3"))
    assert one.tie == 0
    nearly = Intruder(prior=Fraction(10**12 + 1, 2 * 10**12)).against(*two.evidence.noises)
    assert nearly.tie == 0
    assert nearly.right_decision == pytest.approx(two.right_decision + two.tie, abs=1e-12)


@given(st.lists(noises, min_size=1, max_size=5))
def test_evidence_is_a_probability_and_averages_to_more_for_a_target_than_against(noises):
    evidence = Evidence(noises=tuple(noises))
    assert evidence.probabilities.sum() == pytest.approx(1, abs=1e-12)
    logs = evidence.logs()
    assert evidence.probabilities @ np.exp(-logs) == pytest.approx(1, abs=1e-7)  # the other hypothesis' probabilities


def test_more_counts_tell_more_and_the_order_does_not_matter():
    some = [DiscreteGaussian(variance=5), DiscreteGaussian(variance="20.5"), Geometric(z="1/3")]
    alone, both = Intruder(prior="1/5").against(some[0]), Intruder(prior="1/5").against(*some[:2])
    all_three, turned = (Intruder(prior="1/5").against(*order) for order in (some, some[::-1]))
    assert alone.risk < both.risk < all_three.risk
    assert all_three.risk == pytest.approx(turned.risk, rel=1e-13)
    assert all_three.right_decision == pytest.approx(turned.right_decision, rel=1e-13)


def test_all_queries_of_a_block_tell_a_little_more_than_detail_alone():
    plan = Strategy.preset("pl94-2020-us-persons")
    exposed = Intruder(prior="1/2").against(*(plan.noise("block", query) for query in plan.queries["block"]))
    # Their precisions add up to rho of the level; a normal distribution with that precision is very near.
    rho = float(plan.budget * plan.levels["block"])
    near = (1 + math.erf(math.sqrt(rho) / 2 / math.sqrt(2))) / 2
    assert exposed.right_decision == pytest.approx(near, abs=1e-4)
    assert exposed.evidence.rounding == 0
    assert 0.5628 < exposed.right_decision < 0.565


def test_a_grid_too_fine_to_hold_is_rounded_and_says_so():
    odd = [DiscreteGaussian(variance=Fraction(10**9 + 7 * i, 10**8 + i)) for i in range(1, 4)]
    rounded = Intruder(prior="1/3").against(*odd)
    assert 0 < rounded.evidence.rounding < 1e-3
    near = Intruder(prior="1/3").against(*[DiscreteGaussian(variance=10)] * 3)
    assert rounded.risk == pytest.approx(near.risk, abs=1e-5)
    assert rounded.tie == 0


def test_counts_that_do_not_fit_are_refused():
    two = (DiscreteGaussian(variance=1), DiscreteGaussian(variance=2))
    with pytest.raises(InputError, match="known is given for 3 counts, but there are 2"):
        Intruder(prior="1/2").against(*two, known=(0, 1, 2))
    with pytest.raises(InputError, match="2 counts were released"):
        Intruder(prior="1/2").against(*two).posterior([1, 2, 3])
    with pytest.raises(InputError, match="no single threshold"):
        _ = Intruder(prior="1/2").against(*two).threshold


def test_a_posterior_of_several_counts_is_bayes_theorem():
    noises = (DiscreteGaussian(variance=2), Geometric(z="1/2"))
    exposed = Intruder(prior="1/5").against(*noises, known=(3, 40))
    x = np.array([[4, 41], [3, 44], [9, 30]])
    has = noises[0].pmf(x[:, 0] - 4) * noises[1].pmf(x[:, 1] - 41)
    not_ = noises[0].pmf(x[:, 0] - 3) * noises[1].pmf(x[:, 1] - 40)
    assert exposed.posterior(x) == pytest.approx(0.2 * has / (0.2 * has + 0.8 * not_), rel=1e-12)


def test_a_query_that_an_invariant_answers_tells_nothing_more():
    plan = Strategy.preset("pl94-2020-us-persons")  # the state's total is exact, so the nation's is too
    for level, fewer in (("us", 0), ("state", 1), ("county", 0)):
        assert len(noises_of(plan, level)) == len(plan.queries[level]) - fewer
    kept = replace(plan, constraints=(*plan.constraints, Invariant(query="hhgq", level="block")))
    left = len(plan.queries["block"]) - 3  # total, hhgq, and hhinstlevels, which groups it
    assert len(noises_of(kept, "block")) == left
