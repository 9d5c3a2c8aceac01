"""Sums of noise against convolutions to 40 digits, closed forms, and the stated bound against the true distance."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from rational import within

from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.sums import approximate_sum, sum_of_noise

unhurried = settings(deadline=None, max_examples=60)


@pytest.fixture(autouse=True)
def forty_digits():
    with mp.workdps(40):
        yield


def probabilities(noise):
    """One noise to 40 digits, on -n to n, its tails below 10^-36 cut off."""
    if isinstance(noise, Geometric):
        z = mpf(noise.z.numerator) / noise.z.denominator
        half = [mpmath.exp(-z * k) for k in range(int(83 / z) + 3)]
    else:
        s = mpf(noise.variance.numerator) / noise.variance.denominator
        half = [mpmath.exp(-(mpf(k) ** 2) / (2 * s)) for k in range(int(13 * mpmath.sqrt(s)) + 3)]
    whole = 2 * sum(half) - 1
    return [w / whole for w in half[:0:-1]] + [w / whole for w in half]


def convolution(noises):
    """The sum's probabilities to 40 digits, as {value: probability}, by multiplying out."""
    total = [mpf(1)]
    for p in map(probabilities, noises):
        out = [mpf(0)] * (len(total) + len(p) - 1)
        for i, a in enumerate(total):
            for j, b in enumerate(p):
                out[i + j] += a * b
        total = out
    middle = len(total) // 2
    return {i - middle: p for i, p in enumerate(total)}


def distance(computed, right):
    """Total variation between what was computed and the dictionary of right probabilities."""
    reach = max(computed.reach, max(right))
    k = np.arange(-reach, reach + 1)
    return sum(abs(mpf(float(p)) - right.get(int(at), mpf(0))) for at, p in zip(k, computed.pmf(k), strict=True)) / 2


MIXED = [
    [DiscreteGaussian(variance="0.3")],
    [DiscreteGaussian(variance="0.3")] * 2,
    [DiscreteGaussian(variance="0.3"), DiscreteGaussian(variance=2), DiscreteGaussian(variance="0.05")],
    [Geometric(z=1)] * 3,
    [Geometric(z=2), Geometric(z=1), DiscreteGaussian(variance="0.7")],
    [DiscreteGaussian(variance="0.5")] * 5,
    [Geometric(z=3)] * 7,
]


@pytest.mark.parametrize("noises", MIXED, ids=lambda noises: f"{len(noises)} of {noises[0]}")
def test_a_sum_is_the_convolution_and_its_error_bounds_the_distance(noises):
    computed, right = sum_of_noise(noises), convolution(noises)
    assert distance(computed, right) <= computed.error < 1e-13
    for k in (0, 1, -2, 5):
        assert float(computed.pmf(k)) == pytest.approx(float(right[k]), rel=1e-12)
        assert float(computed.cdf(k)) == pytest.approx(float(sum(p for j, p in right.items() if j <= k)), rel=1e-12)
        assert float(computed.tail(k)) == pytest.approx(float(sum(p for j, p in right.items() if j >= k)), rel=1e-12)


@pytest.mark.parametrize("cut", [1e-2, 1e-4, 1e-8])
def test_a_coarse_cut_is_inside_the_error_and_uses_it(cut):
    noises = [Geometric(z=1), DiscreteGaussian(variance=2), Geometric(z=1)]
    computed = sum_of_noise(noises, cut=cut)
    truth = distance(computed, convolution(noises))
    assert cut / 1000 < truth <= computed.error <= cut  # something was cut off, it was counted, and no more than asked


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(0.05, 3).map(lambda s: DiscreteGaussian(variance=s)),
            st.floats(2, 6).map(lambda z: Geometric(z=z)),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([1e-20, 1e-10, 1e-3]),
)
def test_the_stated_error_bounds_the_distance_for_any_few_noises(noises, cut):
    with mp.workdps(40):
        computed = sum_of_noise(noises, cut=cut)
        assert distance(computed, convolution(noises)) <= computed.error


def test_the_sum_of_two_wide_geometrics_is_the_closed_form_within_its_error():
    # sum over j of r^(|j| + |k - j|) = (|k| + (1 + r^2) / (1 - r^2)) r^|k|; this size takes the transform's path
    z = 1 / mpf(300)
    r = mpmath.exp(-z)
    front, constant = ((1 - r) / (1 + r)) ** 2, (1 + r**2) / (1 - r**2)
    computed = sum_of_noise([Geometric(z="1/300")] * 2)
    assert (2 * computed.reach + 1) ** 2 > 1 << 28
    k = np.arange(computed.reach + 1)
    right = (float(front) * (k + float(constant))) * np.exp(-float(z) * k)
    gap = np.abs(computed.pmf(k) - right)
    assert gap[0] / 2 + gap[1:].sum() <= computed.error < 1e-10
    assert float(computed.tail(1500)) == pytest.approx(
        float(front * mpmath.nsum(lambda j: (j + constant) * r**j, [1500, mpmath.inf])), rel=1e-9
    )


def test_the_sum_of_wide_gaussians_is_the_gaussian_of_the_added_variances_within_its_error():
    # at variance 10^6 the two differ by less than exp(-10^6): what is left is rounding
    computed, one = sum_of_noise([DiscreteGaussian(variance=10**6)] * 3), DiscreteGaussian(variance=3 * 10**6)
    k = np.arange(-computed.reach, computed.reach + 1)
    assert float(np.abs(computed.pmf(k) - one.pmf(k)).sum()) / 2 <= computed.error < 1e-9
    assert computed.actual_variance() == pytest.approx(3e6, rel=1e-9)


# -- kazan2022, Proposition 1 ------------------------------------------------------------------------------------------


def test_at_the_census_block_a_sum_of_27_is_one_discrete_gaussian_to_all_digits():
    one = DiscreteGaussian(variance=1 / (2 * Fraction("0.099")))
    computed, approximation = sum_of_noise([one] * 27), approximate_sum([one] * 27)
    assert approximation == DiscreteGaussian(variance=27 / (2 * Fraction("0.099")))
    k = np.arange(-computed.reach, computed.reach + 1)
    assert float(np.abs(computed.pmf(k) - approximation.pmf(k)).sum()) / 2 < 1e-12
    wrong = DiscreteGaussian(variance=26 / (2 * Fraction("0.099")))  # so close that one term more or less is seen
    assert float(np.abs(computed.pmf(k) - wrong.pmf(k)).sum()) / 2 > 1e-3


def test_at_rho_one_the_approximation_of_a_sum_of_five_is_visibly_off_by_the_right_amount():
    one = DiscreteGaussian(variance="1/2")
    computed, approximation = sum_of_noise([one] * 5), approximate_sum([one] * 5)
    right = convolution([one] * 5)
    s = mpf(5) / 2
    whole = sum(mpmath.exp(-(mpf(k) ** 2) / (2 * s)) for k in range(-60, 61))
    true = sum(abs(right.get(k, mpf(0)) - mpmath.exp(-(mpf(k) ** 2) / (2 * s)) / whole) for k in range(-60, 61)) / 2
    k = np.arange(-computed.reach, computed.reach + 1)
    seen = float(np.abs(computed.pmf(k) - approximation.pmf(k)).sum()) / 2
    assert seen == pytest.approx(float(true), abs=1e-12)
    assert 1e-5 < seen < 1e-2
    assert seen > 1e6 * computed.error


def test_variances_of_independent_noises_add_up():
    noises = [Geometric(z=1), DiscreteGaussian(variance="0.3"), DiscreteGaussian(variance=8), Geometric(z=1)]
    assert sum_of_noise(noises).actual_variance() == pytest.approx(sum(n.actual_variance() for n in noises), rel=1e-12)


def test_the_order_of_the_noises_does_not_matter_and_a_sum_may_be_summed_again():
    a, b, c = Geometric(z=1), DiscreteGaussian(variance="0.3"), DiscreteGaussian(variance=8)
    k = np.arange(-40, 41)
    once = sum_of_noise([a, b, c]).pmf(k)
    assert sum_of_noise([c, b, a]).pmf(k) == pytest.approx(once, rel=1e-12)
    assert sum_of_noise([sum_of_noise([a, b]), c]).pmf(k) == pytest.approx(once, rel=1e-9)


# -- as a distribution -------------------------------------------------------------------------------------------------


@unhurried
@given(p=st.floats(1e-12, 1 - 1e-12))
def test_the_quantile_of_a_sum_is_the_smallest_k_that_reaches_p(p):
    total = sum_of_noise([Geometric(z=1), DiscreteGaussian(variance="0.7")])
    k = total.quantile(p)
    assert total.cdf(k) >= p > total.cdf(k - 1)


@pytest.mark.parametrize("noises", [[DiscreteGaussian(variance="0.7")] * 8, [Geometric(z=1)] * 3])
def test_the_quantile_of_the_float_below_one_exists(noises):
    with within(1):
        k = sum_of_noise(noises).quantile(1 - 2.0**-53)
    assert 8 < k <= sum_of_noise(noises).reach


def test_a_low_quantile_of_a_sum_of_wide_geometrics_is_found_in_time():
    total = sum_of_noise([Geometric(z="1/300")] * 2)
    with within(3):
        k = total.quantile(1e-12)
    assert total.cdf(k) >= 1e-12 > total.cdf(k - 1)


def test_a_sum_is_symmetric_and_zero_beyond_its_reach_and_between_whole_numbers():
    total = sum_of_noise([Geometric(z=1), DiscreteGaussian(variance=3)])
    k = np.arange(total.reach + 1)
    assert np.array_equal(total.pmf(k), total.pmf(-k))
    assert np.array_equal(total.tail(k), total.cdf(-k))
    assert total.pmf([total.reach + 1, -total.reach - 1, 0.5]).tolist() == [0, 0, 0]
    assert total.log_pmf(total.reach + 1) == -np.inf
    assert total.tail(total.reach + 1) == 0
    assert float(total.cdf(10 * total.reach)) == pytest.approx(1, abs=1e-14)


def test_a_sum_of_nothing_is_refused():
    with pytest.raises(InputError, match=r"at least one noise\. Got none"):
        sum_of_noise([])


def test_the_probabilities_of_a_sum_cannot_be_changed():
    total = sum_of_noise([Geometric(z=1)])
    with pytest.raises(ValueError, match="read-only"):
        total.probabilities[0] = 1
