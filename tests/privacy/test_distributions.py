"""The two noise distributions against direct sums and expansions to 50 digits, and against kazan2022's numbers."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from rational import within

from tallyveil.errors import BudgetError, InputError
from tallyveil.privacy.noise import DiscreteGaussian, Geometric

SMALLEST = 1e-300  # a little above the smallest normal float

unhurried = settings(deadline=None, max_examples=60)


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


# -- references --------------------------------------------------------------------------------------------------------


class SummedGeometric:
    """Every probability by adding up exp(-z |k|), term by term."""

    def __init__(self, z):
        self.z = z
        self.whole = 1 + 2 * self.upper(1)

    def upper(self, k):  # sum of exp(-z j) over j >= k
        ratio, total, term = mpmath.exp(-self.z), mpf(0), mpmath.exp(-self.z * k)
        while term > total * mpf(10) ** -30:
            total, term = total + term, term * ratio
        return total

    def pmf(self, k):
        return mpmath.exp(-self.z * abs(k)) / self.whole

    def tail(self, k):
        return self.upper(k) / self.whole if k > 0 else 1 - self.upper(1 - k) / self.whole


class ClosedGeometric(SummedGeometric):
    """The same with the sum of the geometric series, for scales too large to add up."""

    def upper(self, k):
        return mpmath.exp(-self.z * k) / -mpmath.expm1(-self.z)


class SummedGaussian(SummedGeometric):
    """Every probability by adding up exp(-k^2 / 2s), term by term."""

    def __init__(self, s):
        self.s = s
        self.whole = 1 + 2 * self.upper(1)

    def upper(self, k):
        step = mpmath.exp(-1 / self.s)
        term = mpmath.exp(-(mpf(k) ** 2) / (2 * self.s))
        ratio, total = mpmath.exp(-(2 * mpf(k) + 1) / (2 * self.s)), mpf(0)
        while term > total * mpf(10) ** -30:
            total, term, ratio = total + term, term * ratio, ratio * step
        return total

    def pmf(self, k):
        return mpmath.exp(-(mpf(k) ** 2) / (2 * self.s)) / self.whole


class SmoothGaussian(SummedGaussian):
    """Euler-Maclaurin from the end point, to the fifth derivative (1/2, 1/12, 1/720, 1/30240)."""

    def upper(self, k):
        sigma = mpmath.sqrt(self.s)
        x = k / sigma
        f = mpmath.exp(-x * x / 2)
        integral = sigma * mpmath.sqrt(mpmath.pi / 2) * mpmath.erfc(x / mpmath.sqrt(2))
        first, third = -x / sigma, (3 * x - x**3) / sigma**3
        fifth = (-15 * x + 10 * x**3 - x**5) / sigma**5
        return integral + f / 2 + f * (-first / 12 + third / 720 - fifth / 30240)


def relative(computed, right):
    return float(abs(mpf(float(computed)) - right) / right)


def places(scale, reach):
    """Places from the middle to the far tail, as whole numbers."""
    return sorted({round(scale * c) for c in (0, 1e-3, 0.1, 0.5, 1, 2, 5, 10, 25, reach)} | {0, 1, 2, 3})


def assert_same(noise, right, k):
    for at in k:
        assert float(noise.log_pmf(at)) == pytest.approx(float(mpmath.log(right.pmf(at))), rel=1e-13, abs=1e-15)
        for sign in (1, -1):
            for computed, wanted in ((noise.pmf, right.pmf(at)), (noise.tail, right.tail(sign * at))):
                if wanted > SMALLEST:
                    assert relative(computed(sign * at), wanted) < 3e-13, (noise, sign * at)
        assert noise.cdf(at) == noise.tail(-at)
        assert float(noise.cdf(at)) == pytest.approx(float(1 - right.tail(at + 1)), rel=1e-13)


# -- against the references --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("z", [1000, 30, 2, 1, 0.1])
def test_a_geometric_agrees_with_sums_of_its_terms(z):
    right = SummedGeometric(mpf(repr(z)))
    assert_same(Geometric(z=z), right, places(1 / z, 680))


@pytest.mark.parametrize("scale", ["1e2", "1e3", "1e5", "1e8"])
def test_a_wide_geometric_agrees_with_the_closed_form_to_fifty_digits(scale):
    assert_same(Geometric(z=1 / Fraction(scale)), ClosedGeometric(1 / mpf(scale)), places(float(scale), 680))


def test_the_closed_form_in_this_file_agrees_with_the_sums_in_this_file():
    for k in (-30, 0, 1, 40):
        assert relative(SummedGeometric(mpf("0.1")).tail(k), ClosedGeometric(mpf("0.1")).tail(k)) < 1e-15


@pytest.mark.parametrize("variance", ["1e-6", "0.01", "0.2", "0.499", "0.5", "0.501", "1", "5.04", "100", "1e4"])
def test_a_discrete_gaussian_agrees_with_sums_of_its_terms(variance):
    right = SummedGaussian(mpf(variance))
    assert_same(DiscreteGaussian(variance=variance), right, places(float(variance) ** 0.5, 36))


@pytest.mark.parametrize("variance", ["1e6", "3.99e6", "4e6", "4.01e6", "1e8", "1e12", "1e16"])
def test_a_wide_discrete_gaussian_agrees_with_an_expansion_to_fifty_digits(variance):
    right = SmoothGaussian(mpf(variance))
    assert_same(DiscreteGaussian(variance=variance), right, places(float(variance) ** 0.5, 36))


def test_the_expansion_in_this_file_agrees_with_the_sums_in_this_file():
    summed, smooth = SummedGaussian(mpf(250_000)), SmoothGaussian(mpf(250_000))
    for k in (-700, 0, 1, 500, 5000, 15_000):
        assert relative(summed.tail(k), smooth.tail(k)) < 1e-15


@pytest.mark.parametrize("z", [1000, 720, 700, 40, 2, 1, 0.1, 1e-3, 1e-8])
def test_the_variance_of_a_geometric_is_that_of_erratum_2_not_the_printed_reciprocal(z):
    r = mpmath.exp(-mpf(repr(z)))
    right, printed = 2 * r / (1 - r) ** 2, (1 - r) ** 2 / (2 * r)
    computed = Geometric(z=z).actual_variance()
    if right > SMALLEST:
        assert relative(computed, right) < 1e-14
    else:
        assert 0 <= computed <= 1e-300
    assert abs(mpf(computed) - printed) > 0.1 * printed


def test_the_variance_of_a_geometric_is_the_sum_of_squares_times_probabilities():
    k = np.arange(-4000, 4001)
    noise = Geometric(z="1/8")
    assert noise.actual_variance() == pytest.approx(float(np.sum(k**2 * noise.pmf(k))), rel=1e-12)


@pytest.mark.parametrize("variance", ["1e-6", "1e-3", "0.02", "0.3", "0.5", "1", "2.5", "9.99", "10", "10.01", "400"])
def test_the_variance_of_a_discrete_gaussian_is_the_sum_of_squares_times_probabilities(variance):
    s = mpf(variance)
    f = [mpmath.exp(-(mpf(k) ** 2) / (2 * s)) for k in range(int(30 * float(s) ** 0.5) + 30)]
    right = 2 * sum(k * k * w for k, w in enumerate(f)) / (2 * sum(f) - 1)
    if right > SMALLEST:
        assert relative(DiscreteGaussian(variance=variance).actual_variance(), right) < 1e-13
    else:
        assert DiscreteGaussian(variance=variance).actual_variance() <= 1e-300


# -- published numbers -------------------------------------------------------------------------------------------------


def test_tail_probabilities_of_kazan2022_section_2_1():
    # rho = 1/2, true statistic 5: a release <= 2 or >= 8
    gaussian, geometric = DiscreteGaussian(variance=1), Geometric(z=1)
    for noise, percent in ((gaussian, 0.91), (geometric, 7.28)):
        assert round(100 * float(noise.cdf(2 - 5) + noise.tail(8 - 5)), 2) == percent


def test_the_block_noise_of_kazan2022_table_3_has_the_column_of_erratum_6():
    rho = Fraction("2.56") * Fraction(165, 4099) * Fraction(3945, 4097)
    block = DiscreteGaussian(variance=1 / (2 * rho))
    assert np.round(block.pmf([1, 2, 3, 4, 5]), 3).tolist() == [0.161, 0.119, 0.073, 0.036, 0.015]


def test_the_variance_is_near_its_parameter_as_appendix_7_1_says_and_not_below_its_range():
    def gap(s):
        return abs(DiscreteGaussian(variance=s).actual_variance() - float(s))

    assert max(gap(0.5 + i / 100) for i in range(1, 500)) < 0.002
    assert max(gap(1 + i / 100) for i in range(1, 2000)) < 1e-6
    assert gap(0.4) > 0.002  # the claims are not true everywhere: their ranges matter
    assert gap(0.9) > 1e-6


# -- properties --------------------------------------------------------------------------------------------------------

scales = st.floats(-3, 8).map(lambda decade: float(f"{10**decade:.6g}"))
scaled = st.one_of(  # a noise and its scale
    scales.map(lambda scale: (Geometric(z=1 / Fraction(scale)), scale)),
    scales.map(lambda scale: (DiscreteGaussian(variance=Fraction(scale) ** 2), scale)),
)
narrow = st.one_of(
    st.floats(0.02, 50).map(lambda z: Geometric(z=z)),
    st.floats(0.01, 2500).map(lambda s: DiscreteGaussian(variance=s)),
)
probabilities = st.one_of(st.floats(1e-12, 1 - 1e-6), st.floats(1e-250, 1e-12), st.just(0.5))


@unhurried
@given(noise_and_scale=scaled, multiple=st.floats(0, 30))
def test_a_noise_is_symmetric(noise_and_scale, multiple):
    noise, scale = noise_and_scale
    k = np.round(multiple * (1 + scale))
    assert noise.pmf(k) == noise.pmf(-k)
    assert noise.log_pmf(k) == noise.log_pmf(-k)
    assert noise.tail(k) == noise.cdf(-k)
    assert noise.cdf(k) + noise.tail(k + 1) == pytest.approx(1, abs=1e-15)


@unhurried
@given(noise=narrow)
def test_probabilities_sum_to_one(noise):
    k = np.arange(-4000, 4001)
    assert float(np.sum(noise.pmf(k))) == pytest.approx(1, abs=1e-12)


@unhurried
@given(noise_and_scale=scaled, multiple=st.floats(-25, 25))
def test_neighbouring_tails_differ_by_the_probability_between_them(noise_and_scale, multiple):
    noise, scale = noise_and_scale
    k = np.round(multiple * (1 + scale))
    magnitude = float(max(noise.tail(k), noise.tail(k + 1)))
    assert float(noise.tail(k) - noise.tail(k + 1)) == pytest.approx(float(noise.pmf(k)), abs=1e-12 * magnitude)


@settings(deadline=None)
@given(noise_and_scale=scaled, p=probabilities)
def test_a_quantile_is_the_smallest_k_that_reaches_p(noise_and_scale, p):
    noise, _ = noise_and_scale
    k = noise.quantile(p)
    if p < 0.5:
        assert noise.cdf(k) >= p > noise.cdf(k - 1)
    else:  # the same from the other side, where 1 - p is exact and small probabilities keep their digits
        assert noise.tail(k + 1) <= 1 - p < noise.tail(k)


@unhurried
@given(noise=narrow, k=st.integers(-30, 30), shift=st.sampled_from([0.25, 0.5, 1.0]))
def test_quantile_inverts_cdf(noise, k, shift):
    below, at = float(noise.cdf(k - 1)), float(noise.cdf(k))
    p = below + shift * (at - below)  # in (P[X < k], P[X <= k]]
    assume(below < p <= at and 0 < p < 1)
    assert noise.quantile(p) == k


def test_many_quantiles_at_once_are_the_same_as_one_by_one():
    noise, p = DiscreteGaussian(variance=7), np.array([1e-9, 0.1, 0.5, 0.77, 1 - 1e-9])
    assert noise.quantile(p).tolist() == [float(noise.quantile(x)) for x in p]


@pytest.mark.parametrize("bits", [20, 30, 40])
@pytest.mark.parametrize("scale", [1e6, 1e8])
def test_a_high_quantile_of_a_wide_geometric_is_the_true_one(scale, bits):
    # 1 - p is exactly 2^-bits, so the answer is the smallest k with P[X > k] <= 2^-bits
    z, p = 1 / mpf(scale), 1 - 2.0**-bits
    k = mpmath.ceil((bits * mpmath.log(2) - mpmath.log1p(mpmath.exp(-z))) / z) - 1
    right = ClosedGeometric(z)
    assert right.tail(k + 1) <= mpf(2) ** -bits < right.tail(k)
    with within(5):
        assert Geometric(z=1 / Fraction(scale)).quantile(p) == float(k)


def test_the_quantile_of_the_float_below_one_is_found_in_time_at_a_wide_scale():
    with within(1):
        k = Geometric(z="1e-8").quantile(1 - 2.0**-53)
    assert 3.5e9 < k < 3.7e9  # 53 log 2 * 1e8, less log 2


# -- edges -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, float("nan")])
@pytest.mark.parametrize("noise", [Geometric(z=1), DiscreteGaussian(variance=1)])
def test_a_probability_outside_zero_to_one_has_no_quantile(noise, p):
    with pytest.raises(InputError, match=f"strictly between 0 and 1. Got {p}"):
        noise.quantile(p)


@pytest.mark.parametrize(("make", "name"), [(Geometric, "z"), (DiscreteGaussian, "variance")])
@pytest.mark.parametrize("value", [0, -2, float("nan"), float("inf"), "wide"])
def test_a_bad_parameter_is_refused_by_name_and_value(make, name, value):
    with pytest.raises(BudgetError, match=f"{name} must be.*Got '?{value}'?"):
        make(**{name: value})


def test_a_parameter_is_the_fraction_that_was_written():
    assert Geometric(z=0.1).z == Fraction(1, 10)
    assert DiscreteGaussian(variance="4097/165").variance == Fraction(4097, 165)
    assert Geometric(z=0.1) == Geometric(z="1/10")


def test_between_whole_numbers_the_cumulative_probability_is_constant():
    for noise in (Geometric(z=1), DiscreteGaussian(variance=2)):
        assert noise.cdf(2.5) == noise.cdf(2) < noise.cdf(3)
        assert noise.cdf(-2.5) == noise.cdf(-3) < noise.cdf(-2)
        assert noise.tail(2.5) == noise.tail(3) < noise.tail(2)
