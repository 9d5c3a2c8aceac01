"""Two levels: against enumeration, the paper's sampler, and the exact values of erratum 8."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric
from tallyveil.risk import Intruder, TwoLevels
from tallyveil.risk.gibbs import gibbs

RHO_1 = Fraction("2.56") * Fraction(165, 4099) * Fraction(3945, 4097)
RHO_2 = Fraction("2.56") * Fraction(1256, 4099) * Fraction(1288, 4099)
OWN, ABOVE = DiscreteGaussian(variance=1 / (2 * RHO_1)), DiscreteGaussian(variance=1 / (2 * RHO_2))
TABLE_5 = (2, 1, -1)  # x1*, x2*, y1*


def two_levels(**changed) -> TwoLevels:
    given = {"intruder": Intruder(prior="1/2"), "noise": OWN, "above": ABOVE, "siblings": [OWN] * 27}
    return TwoLevels(**given | changed)


def test_the_posterior_for_the_data_of_table_5_is_that_of_erratum_8():
    for approximate in (True, False):
        two = two_levels(approximate=approximate)
        assert two.posterior(*TABLE_5) == pytest.approx(0.5033, abs=5e-5)
        exact = (12.94, 38.66, 29.79, 13.92, 3.94, 0.68, 0.07)
        assert 100 * two.above_posterior(*TABLE_5)[:7] == pytest.approx(exact, abs=6e-3)
    assert float(two.intruder.against(OWN).posterior(2)) == pytest.approx(0.5739, abs=5e-5)  # without the hierarchy


def test_right_decisions_gains_and_losses_are_those_of_erratum_8():
    found = two_levels(approximate=True).decision(1)
    assert (found.right_decision, found.alone) == pytest.approx((0.318, 0.5889), abs=5e-4)
    assert (found.gain, found.loss) == pytest.approx((0.0021, 0.273), abs=5e-4)
    assert found.truncation < 1e-11
    assert 0.589 < two_levels(approximate=True).decision(7).right_decision < 0.590
    sharp = two_levels(approximate=True, above=DiscreteGaussian(variance=Fraction(1, 200))).decision(1)  # rho_2 = 100
    assert sharp.right_decision == pytest.approx(0.5868, abs=5e-5)
    assert sharp.right_decision + sharp.tie == pytest.approx(0.5927, abs=5e-5)


small = st.fractions("1/4", 3, max_denominator=8)
noises = st.one_of(small.map(lambda s: DiscreteGaussian(variance=s)), small.map(lambda z: Geometric(z=z)))


@settings(max_examples=40)
@given(
    noises,
    noises,
    st.lists(noises, min_size=1, max_size=3),
    st.fractions("1/10", "9/10", max_denominator=20),
    st.integers(0, 2),
    st.tuples(st.integers(-2, 5), st.integers(-2, 6), st.integers(-3, 4)),
    st.booleans(),
)
def test_the_posterior_equals_enumeration_of_everybodys_counts(noise, above, siblings, prior, known, released, poisson):
    def log_prior(y):
        return stats.poisson.logpmf(y, 2.5)

    two = TwoLevels(
        intruder=Intruder(prior=prior, known=known),
        noise=noise,
        above=above,
        siblings=siblings,
        prior=log_prior if poisson else None,
    )
    x1s, (x1, x2, y1) = (known, known + 1), released
    reach = 240
    noise_of_sum = np.ones(1)
    for one in siblings:
        noise_of_sum = np.convolve(noise_of_sum, one.pmf(np.arange(-reach, reach + 1)))
    middle = len(noise_of_sum) // 2
    y = np.arange(0, 200)
    weight = np.exp(log_prior(y)) if poisson else np.ones(len(y))
    joint = np.array(
        [float(noise.pmf(x1 - x)) * weight * above.pmf(x2 - x - y) * noise_of_sum[middle + y1 - y] for x in x1s]
    ) * np.array([[1 - float(prior)], [float(prior)]])
    assert two.posterior(*released) == pytest.approx(joint[1].sum() / joint.sum(), rel=1e-10, abs=1e-12)
    counts = np.zeros(len(y) + known + 2)
    for x, row in zip(x1s, joint / joint.sum(), strict=True):
        counts[x : x + len(y)] += row
    found = two.above_posterior(*released)[: len(counts)]
    assert found == pytest.approx(counts[: len(found)], abs=1e-10)


def test_the_decision_equals_enumeration_of_everything_that_may_be_released():
    noise, above, sibling = DiscreteGaussian(variance=1), DiscreteGaussian(variance="1/2"), DiscreteGaussian(variance=2)
    two = TwoLevels(intruder=Intruder(prior="2/5", known=1), noise=noise, above=above, siblings=[sibling])
    right = gain = 0.0
    alone = Intruder(prior="2/5", known=1).against(noise)
    for x1 in range(-5, 10):
        for x2 in range(-1, 8):
            for y in range(-8, 11):
                mass = float(noise.pmf(x1 - 2) * above.pmf(x2 - 3) * sibling.pmf(y - 1))
                claims = two.posterior(x1, x2, y) > 0.5
                right += mass * claims
                gain += mass * (claims and float(alone.posterior(x1)) <= 0.5)
    found = two.decision(3)
    assert found.right_decision == pytest.approx(right, abs=1e-6)
    assert found.gain == pytest.approx(gain, abs=1e-6)
    assert found.right_decision == pytest.approx(found.alone + found.gain - found.loss, abs=1e-9)


def test_the_papers_sampler_agrees_with_the_exact_sum_and_without_its_condition_does_not():
    two = two_levels(approximate=True)
    draws = gibbs(two, *TABLE_5, draws=20_000, seed=1)
    share = (draws[:, 0] == 1).reshape(100, -1).mean(axis=1)  # batches, since draws depend on each other
    error = share.std(ddof=1) / 10
    assert abs(share.mean() - two.posterior(*TABLE_5)) < 4 * error
    assert (draws[:, 0] <= draws[:, 1]).all()
    free = gibbs(two, *TABLE_5, draws=20_000, seed=1, condition=False)
    near = np.bincount(free[:, 1], minlength=7)[:7] / len(free) * 100
    assert near == pytest.approx((11.00, 39.50, 30.46, 14.24, 4.04, 0.69, 0.07), abs=1.3)  # erratum 8
    free_share = (free[:, 0] == 1).reshape(100, -1).mean(axis=1)
    assert abs(free_share.mean() - two.posterior(*TABLE_5)) > 4 * free_share.std(ddof=1) / 10


def test_a_count_above_without_information_leaves_the_single_level_as_it_is():
    wide = DiscreteGaussian(variance=10**6)
    two = two_levels(above=wide, siblings=[wide])
    alone = float(two.intruder.against(OWN).posterior(3))
    assert two.posterior(3, 500, 400) == pytest.approx(alone, abs=2e-3)


def test_levels_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="two levels need at least one sibling"):
        two_levels(siblings=[])
    with pytest.raises(InputError, match="the paper's approximation is for discrete Gaussian noise"):
        two_levels(siblings=[Geometric(z=1)], approximate=True)
    with pytest.raises(
        InputError, match="the unit above has 1 or more with the characteristics. Got 0".replace(".", "[.]")
    ):
        two_levels().decision(0)
    with pytest.raises(InputError, match="the paper's sampler is for discrete Gaussians"):
        gibbs(two_levels(), *TABLE_5)
    assert math.isfinite(two_levels().posterior(-200, 300, 0))
