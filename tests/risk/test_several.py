"""All but n people known: against enumeration of everybody, the one-person intruder, and decisions at the edge."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.several import Several

noises = st.one_of(
    st.fractions("1/4", 3, max_denominator=20).map(lambda z: Geometric(z=z)),
    st.fractions("1/10", 30, max_denominator=20).map(lambda s: DiscreteGaussian(variance=s)),
)
probabilities = st.fractions("1/20", "19/20", max_denominator=20)
costs = st.fractions("1/5", 5, max_denominator=10)
PAPER = DiscreteGaussian(variance="5.04")


@settings(max_examples=35)
@given(noises, probabilities, st.integers(0, 4), st.none() | probabilities, st.integers(0, 9), costs, costs)
def test_all_figures_are_those_of_everybody_gone_through(noise, prior, others, share, known, cost, miss):
    intruder = Intruder(prior=prior, known=known, false_accusation=cost, miss=miss)
    exposed = Several(intruder=intruder, others=others, share=share).against(noise)
    x = np.arange(known - 260, known + 270)
    p, q = float(prior), float(prior if share is None else share)
    has, not_ = np.zeros(len(x)), np.zeros(len(x))
    for people in product((0, 1), repeat=others):
        chance = math.prod(q if one else 1 - q for one in people)
        has += chance * noise.pmf(x - known - sum(people) - 1)
        not_ += chance * noise.pmf(x - known - sum(people))
    seen = (has > 1e-200) & (not_ > 1e-200)
    posterior = p * has[seen] / (p * has[seen] + (1 - p) * not_[seen])
    assert exposed.posterior(x[seen]) == pytest.approx(posterior, rel=1e-9, abs=1e-13)
    assert exposed.marginal_posterior == pytest.approx(float(has[seen] @ posterior), rel=1e-9)
    gains, losses = float(miss) * p * has[seen], float(cost) * (1 - p) * not_[seen]
    near = np.abs(gains - losses) <= 1e-11 * losses
    claims = (gains > losses) & ~near
    assert exposed.right_decision == pytest.approx(float(has[seen][claims].sum()), abs=1e-9)
    assert exposed.tie == pytest.approx(float(has[seen][near].sum()), abs=1e-9)
    if not math.isinf(exposed.threshold):
        assert exposed.threshold == x[seen][claims].min()
        for b in range(others + 1):
            right = float(noise.pmf(x - known - b - 1)[seen][claims].sum())
            assert exposed.right_decision_given(b) == pytest.approx(right, abs=1e-9)


@settings(max_examples=35)
@given(noises, probabilities, st.integers(0, 9), costs)
def test_with_nobody_else_unknown_it_is_the_intruder_who_knows_all_but_one(noise, prior, known, cost):
    intruder = Intruder(prior=prior, known=known, false_accusation=cost)
    exposed, alone = Several(intruder=intruder, others=0).against(noise), intruder.against(noise)
    x = np.arange(known - 50, known + 50)
    assert (exposed.posterior(x) == alone.posterior(x)).all()
    assert (exposed.ratio(x) == alone.ratio(x)).all()
    assert (exposed.marginal_posterior, exposed.risk) == (alone.marginal_posterior, alone.risk)
    assert (exposed.threshold, exposed.tie) == (alone.threshold, alone.tie)
    assert exposed.right_decision == exposed.right_decision_given(0) == alone.right_decision


@settings(max_examples=35)
@given(noises, probabilities, probabilities, st.integers(0, 30))
def test_one_more_unknown_person_never_raises_the_risk(noise, prior, share, others):
    fewer, more = (
        Several(intruder=Intruder(prior=prior), others=n, share=share).against(noise).risk for n in (others, others + 1)
    )
    assert 1 - 1e-12 <= more <= fewer * (1 + 1e-12)


def test_risk_falls_as_n_grows():
    for noise in (PAPER, Geometric(z=1)):
        risks = [
            Several(intruder=Intruder(prior="1/5"), others=others).against(noise).risk
            for others in (0, 1, 10, 100, 1000)
        ]
        assert all(after < 0.999 * before for before, after in pairwise(risks))
        assert risks[-1] == pytest.approx(1, abs=0.01)


def test_even_odds_tie_in_the_middle_and_nowhere_else():
    # Share 1/2 and an odd number of others: h is symmetric about others / 2, so both answers are as probable there.
    for noise in (PAPER, Geometric(z=1), DiscreteGaussian(variance=10**6)):
        exposed = Several(intruder=Intruder(prior="1/2", known=2), others=7).against(noise)
        assert exposed.threshold == 2 + 5
        assert float(exposed.posterior(6)) == pytest.approx(0.5, abs=1e-12)
        mass = sum(math.comb(7, b) * float(noise.pmf(3 - b)) for b in range(8)) / 2**7
        assert exposed.tie == pytest.approx(mass, rel=1e-12)
        assert exposed.right_decision == pytest.approx(0.5, abs=1e-12)
        assert Several(intruder=Intruder(prior="1/2"), others=8).against(noise).tie == 0


@pytest.mark.parametrize(("others", "share", "variance"), [(3, "1/5", "2"), (40, "1/3", "9/10"), (200, "1/2", "1000")])
def test_odds_a_hair_from_the_edge_are_decided_rightly(others, share, variance):
    # The odds of one count, to 70 digits by decimals, moved by 1e-50 either way: no float can tell them apart.
    d, q, s = 1 + others // 2, Fraction(share), Fraction(variance)
    with localcontext() as context:
        context.prec = 90

        def h(at: int) -> Decimal:
            total = Decimal(0)
            for b in range(others + 1):
                weight = math.comb(others, b) * q**b * (1 - q) ** (others - b)
                gamma = Fraction((at - b) ** 2) / (2 * s)
                exponent = -Decimal(gamma.numerator) / gamma.denominator
                total += Decimal(weight.numerator) / weight.denominator * exponent.exp()
            return total

        odds = Fraction(h(d - 1) / h(d))
    found = []
    for moved in (-1, 1):
        intruder = Intruder(prior="1/2", known=4, false_accusation=odds + Fraction(moved, 10**50))
        found.append(Several(intruder=intruder, others=others, share=share).against(DiscreteGaussian(variance=s)))
    assert [exposed.threshold for exposed in found] == [4 + d, 4 + d + 1]
    assert [exposed.tie for exposed in found] == [0, 0]


@pytest.mark.parametrize("variance", ["1/10000", "1/50", "1", "1000", "1000000"])
@pytest.mark.parametrize("prior", ["1/2", "1/50"])
def test_a_thousand_unknown_people_and_any_variance(variance, prior):
    exposed = Several(intruder=Intruder(prior=prior, known=3), others=999).against(DiscreteGaussian(variance=variance))
    assert float(Fraction(prior)) * (1 - 1e-12) <= exposed.marginal_posterior <= 1
    x = int(exposed.threshold)
    before, at = exposed.posterior([x - 1, x])
    assert before <= 0.5 + 1e-12
    assert at >= 0.5 - 1e-12
    assert np.isfinite(exposed.posterior([-(10**9), 10**9])).all()
    assert exposed.right_decision_given(0) <= exposed.right_decision <= exposed.right_decision_given(999)


def test_without_noise_it_is_the_binomial_itself():
    # The count is then known, and the posterior is the share of the unknown people who have the characteristics.
    exposed = Several(intruder=Intruder(prior="1/5"), others=9).against(DiscreteGaussian(variance="1/10000"))
    assert exposed.posterior(np.arange(11)) == pytest.approx(np.arange(11) / 10, abs=1e-12)
    assert exposed.marginal_posterior == pytest.approx((1 + 9 / 5) / 10, rel=1e-12)


def test_a_geometric_count_is_claimed_always_or_never_whoever_the_others_are():
    def exposed(prior: str):
        return Several(intruder=Intruder(prior=prior), others=5, share="1/2").against(Geometric(z=1))

    assert (exposed("1/5").threshold, exposed("1/5").right_decision, exposed("1/5").tie) == (math.inf, 0, 0)
    assert (exposed("4/5").threshold, exposed("4/5").right_decision, exposed("4/5").tie) == (-math.inf, 1, 0)
    assert exposed("4/5").right_decision_given(3) == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"others": -1}, "others is the number of further unknown people, 0 or more. Got -1"),
        ({"share": 0}, "a share must be strictly between 0 and 1. Got 0. Count people who are certain in known"),
        ({"share": 1}, "a share must be strictly between 0 and 1. Got 1"),
    ],
)
def test_several_that_cannot_be_are_refused(changed, words):
    with pytest.raises(InputError, match=words):
        Several(**{"intruder": Intruder(prior="1/2"), "others": 2} | changed)
    exposed = Several(intruder=Intruder(prior="1/2"), others=2).against(PAPER)
    with pytest.raises(InputError, match=r"from 0 to 2 of the others have them\. Got 3"):
        exposed.right_decision_given(3)
    with pytest.raises(InputError, match="a released noisy count must be a whole number"):
        exposed.posterior([1, 2.5])
