"""An unknown attribute: against enumeration of all cells, two noisy counts, and decisions at the edge."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric, sum_of_noise
from tallyveil.risk.target.attribute import Attribute
from tallyveil.risk.target.intruder import Intruder

small = st.fractions("1/4", 2, max_denominator=8)
noises = st.one_of(small.map(lambda s: DiscreteGaussian(variance=s)), small.map(lambda z: Geometric(z=z + 1)))


@st.composite
def attributes(draw, most=3):
    size = draw(st.integers(2, most))
    parts = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    values = "abc"[:size]
    return Attribute(
        priors={value: Fraction(part, sum(parts)) for value, part in zip(values, parts, strict=True)},
        noises={value: draw(noises) for value in values},
        known={value: draw(st.integers(0, 5)) for value in values},
    )


def likelihood(noise, k):
    """P[noise = k], each written out."""
    reach = np.arange(-60, 61)
    if isinstance(noise, Geometric):
        return np.exp(-float(noise.z) * np.abs(k)) / np.exp(-float(noise.z) * np.abs(reach)).sum()
    return (
        np.exp(-(np.asarray(k) ** 2) / (2 * float(noise.variance)))
        / np.exp(-(reach**2) / (2 * float(noise.variance))).sum()
    )


def enumerated(attribute: Attribute, true: str) -> tuple[float, float, float]:
    """Average posterior, right decision and tie by going through every released vector: no cell cancels here."""
    values, reach = list(attribute.priors), 20
    axes = [np.arange(-reach, reach + 1) + attribute.known[value] + (value == true) for value in values]
    grids = np.meshgrid(*axes, indexing="ij")

    def weight(value: str):
        parts = [
            likelihood(attribute.noises[other], grid - attribute.known[other] - (other == value))
            for other, grid in zip(values, grids, strict=True)
        ]
        return math.prod(parts[1:], start=parts[0])

    given_true = weight(true)
    joint = np.stack([float(attribute.priors[value]) * weight(value) for value in values])
    place = values.index(true)
    rest = np.delete(joint, place, axis=0).max(axis=0)
    near = np.abs(joint[place] - rest) <= 1e-9 * rest
    seen = given_true > 1e-200
    return (
        float((given_true * joint[place])[seen] @ (1 / joint.sum(axis=0)[seen])),
        float(given_true[(joint[place] > rest) & ~near].sum()),
        float(given_true[near].sum()),
    )


@settings(max_examples=10)
@given(attributes())
def test_all_figures_are_those_of_every_released_vector_gone_through(attribute):
    for value in attribute.priors:
        average, right, tie = enumerated(attribute, value)
        assert attribute.marginal_posterior(value) == pytest.approx(average, abs=1e-9)
        assert attribute.right_decision(value) == pytest.approx(right, abs=1e-9)
        assert attribute.tie(value) == pytest.approx(tie, abs=1e-9)


@settings(max_examples=30)
@given(attributes(), st.lists(st.integers(-8, 12), min_size=3, max_size=3))
def test_posteriors_are_bayes_theorem_on_whole_vectors_and_sum_to_one(attribute, released):
    values = list(attribute.priors)
    counts = dict(zip(values, released, strict=False))
    joint = {
        value: float(attribute.priors[value])
        * math.prod(
            float(likelihood(attribute.noises[other], counts[other] - attribute.known[other] - (other == value)))
            for other in values
        )
        for value in values
    }
    told = attribute.posterior(counts)
    assert {value: float(told[value]) for value in values} == pytest.approx(
        {value: joint[value] / sum(joint.values()) for value in values}, rel=1e-9
    )
    assert sum(float(p) for p in told.values()) == pytest.approx(1, abs=1e-12)
    as_array = attribute.posterior([[counts[value] for value in values]])
    assert all(as_array[value].tolist() == [float(told[value])] for value in values)


@pytest.mark.parametrize("variance", ["1/10", "1", "5.04", "400"])
@pytest.mark.parametrize("prior", ["1/2", "1/5", "1/1000"])
def test_the_integral_is_the_double_sum_for_two_values(variance, prior):
    one, two = DiscreteGaussian(variance=variance), DiscreteGaussian(variance=3 * Fraction(variance))
    attribute = Attribute(priors={"a": prior, "b": 1 - Fraction(prior)}, noises={"a": one, "b": two})
    eta = [np.arange(-reach, reach + 1) for reach in (int(12 * n.variance**0.5) + 6 for n in (one, two))]
    log_odds = (
        math.log(Fraction(prior) / (1 - Fraction(prior)))
        + ((2 * eta[0] + 1) / (2 * float(one.variance)))[:, None]
        - (2 * eta[1] - 1) / (2 * float(two.variance))
    )
    with np.errstate(over="ignore"):
        double = float(one.pmf(eta[0]) @ (1 / (1 + np.exp(-log_odds))) @ two.pmf(eta[1]))
    assert attribute.marginal_posterior("a") == pytest.approx(double, rel=1e-12)


@pytest.mark.parametrize("noise", [DiscreteGaussian(variance="5.04"), Geometric(z="1/2")])
def test_two_values_with_even_odds_are_two_noisy_counts(noise):
    attribute = Attribute(priors={"a": "1/2", "b": "1/2"}, noises=noise, known={"a": 3, "b": 70})
    both = Intruder(prior="1/2").against(noise, noise)  # one count is higher, the other lower: the evidence adds
    assert attribute.marginal_posterior("a") == pytest.approx(both.marginal_posterior, rel=1e-12)
    assert attribute.right_decision("a") == pytest.approx(both.right_decision, rel=1e-12)
    assert attribute.tie("a") == pytest.approx(both.tie, rel=1e-12)
    assert attribute.risk("a") > Intruder(prior="1/2").against(noise).risk
    if isinstance(noise, DiscreteGaussian):  # the higher of two counts wins, and they tie where noise makes up for 1
        difference = sum_of_noise([noise, noise])
        assert attribute.right_decision("b") == pytest.approx(float(difference.cdf(0)), rel=1e-12)
        assert attribute.tie("b") == pytest.approx(float(difference.pmf(1)), rel=1e-12)


def test_the_prior_is_on_the_value_it_names():
    # Erratum 11: Eq. 37 puts p_v on the vector of the other value; the text says P[Hispanic] = p_v.
    attribute = Attribute(priors={"hispanic": "1/5", "not": "4/5"}, noises=DiscreteGaussian(variance=10**6))
    told = attribute.posterior({"hispanic": 0, "not": 0})
    assert float(told["hispanic"]) == pytest.approx(0.2, abs=1e-9)


@pytest.mark.parametrize("other", ["1/10000", "1/3", "1000000"])
@pytest.mark.parametrize("variance", ["1/10000", "1", "1000000"])
def test_any_variances_give_posteriors_that_average_to_the_prior(variance, other):
    attribute = Attribute(
        priors={"a": "1/50", "b": "49/50"},
        noises={"a": DiscreteGaussian(variance=variance), "b": DiscreteGaussian(variance=other)},
    )
    a, b = attribute.marginal_posterior("a"), attribute.marginal_posterior("b")
    assert 0.02 * (1 - 1e-12) <= a <= 1
    assert a / 50 + (1 - b) * 49 / 50 == pytest.approx(1 / 50, rel=1e-11)
    far = attribute.log_posterior({"a": -(10**9), "b": 10**9})
    assert -math.inf < float(far["a"]) < -500
    assert float(far["b"]) == 0
    for value in "ab":
        assert (
            0 <= attribute.right_decision(value) <= attribute.right_decision(value) + attribute.tie(value) <= 1 + 1e-12
        )


def test_a_prior_near_the_edge_is_decided_by_balls_not_floats():
    # With variance 1 a wins where d_b < log(p_a / p_b) + d_a. These two ratios straddle e by less than 1e-18.
    below, above = (Fraction(*pair) for pair in _convergents_of_e(20, 21))
    assert float(below) == float(above) == math.e
    noise, eta = DiscreteGaussian(variance=1), np.arange(-30, 31)
    for ratio, more in ((below, 0), (above, 1)):
        priors = {"a": ratio / (1 + ratio), "b": 1 / (1 + ratio)}
        expected = float(noise.pmf(eta) @ noise.cdf(1 + eta + more))
        assert Attribute(priors=priors, noises=noise).right_decision("a") == pytest.approx(expected, rel=1e-12)
        assert Attribute(priors=priors, noises=noise).tie("a") == 0


def _convergents_of_e(*wanted):
    terms = [2] + [1 if i % 3 != 1 else 2 * (i // 3 + 1) for i in range(30)]  # 2; 1, 2, 1, 1, 4, 1, ...
    found = []
    (p, q), (before_p, before_q) = (terms[0], 1), (1, 0)
    for place, term in enumerate(terms[1:], start=1):
        (p, q), (before_p, before_q) = (term * p + before_p, term * q + before_q), (p, q)
        if place in wanted:
            found.append((p, q))
    return found


def test_ties_of_equal_values_are_counted_and_split_by_no_rounding():
    # Three equal geometric cells: the target's stays up with probability u, each other rises with probability r.
    noise = Geometric(z=1)
    attribute = Attribute(priors=dict.fromkeys("abc", "1/3"), noises=noise)
    up, rises = float(noise.tail(0)), float(noise.tail(1))
    none_rises = (1 - rises) ** 2
    assert attribute.right_decision("a") == pytest.approx(up * none_rises, rel=1e-12)
    assert attribute.tie("a") == pytest.approx(up * (1 - none_rises) + (1 - up) * none_rises, rel=1e-12)
    # A Gaussian exponent of (2 * 1 - 1) / 2 = 1/2 ties with a geometric one of 1/2.
    mixed = Attribute(
        priors={"a": "1/2", "b": "1/2"}, noises={"a": DiscreteGaussian(variance=1), "b": Geometric(z="1/2")}
    )
    normal, other = mixed.noises["a"], mixed.noises["b"]
    expected = float(normal.pmf(0) * other.tail(1) + normal.pmf(-1) * other.cdf(0))
    assert mixed.tie("a") == pytest.approx(expected, rel=1e-12)


def test_many_values_are_one_integral():
    # 63 races with equal priors: by symmetry each posterior averages 1/63 over all truths.
    attribute = Attribute(priors={str(race): Fraction(1, 63) for race in range(63)}, noises=Geometric(z=2))
    up, rises = float(Geometric(z=2).tail(0)), float(Geometric(z=2).tail(1))
    chances = [math.comb(62, k) * rises**k * (1 - rises) ** (62 - k) for k in range(63)]
    average = 0.0
    for (own, p), (k, q) in product(((2, up), (-2, 1 - up)), enumerate(chances)):
        average += p * q * math.exp(own) / (math.exp(own) + k * math.exp(2) + (62 - k) * math.exp(-2))
    assert attribute.marginal_posterior("7") == pytest.approx(average, rel=1e-12)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"priors": {"a": "1/2", "b": "1/4"}}, r"priors sum to 3/4, not 1 \(a=1/2, b=1/4\)"),
        ({"priors": {"a": 1}}, "an unknown attribute must have two values or more. Got a"),
        ({"priors": {"a": 0, "b": 1}}, 'the prior of "a" must be greater than 0'),
        ({"noises": {"a": Geometric(z=1)}}, "noises needs one entry for each of a, b. Got a"),
        ({"noises": 3}, "noise is Geometric or DiscreteGaussian. Got a int"),
        ({"known": {"a": 1, "b": -2}}, "0 or more. Got -2"),
    ],
)
def test_attributes_that_cannot_be_are_refused(changed, words):
    with pytest.raises(InputError, match=words):
        Attribute(**{"priors": {"a": "1/2", "b": "1/2"}, "noises": Geometric(z=1)} | changed)


def test_questions_that_cannot_be_answered_are_refused():
    attribute = Attribute(priors={"a": "1/2", "b": "1/2"}, noises=Geometric(z=1))
    with pytest.raises(InputError, match='"c" is not one of the values a, b'):
        attribute.risk("c")
    with pytest.raises(InputError, match=r"released needs one entry for each of a, b\. Got a"):
        attribute.posterior({"a": 1})
    with pytest.raises(InputError, match="the last axis must have a count for each of a, b"):
        attribute.posterior([1, 2, 3])
    with pytest.raises(InputError, match=r'a released noisy count must be a whole number\. Got 1\.5 for "b"'):
        attribute.posterior({"a": 1, "b": 1.5})
