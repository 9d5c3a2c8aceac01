"""Conversions between rho, epsilon and delta against published values, OpenDP, dp-accounting and 60 digits."""

import math
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting import rdp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from tallyveil.errors import BudgetError
from tallyveil.privacy.conversions import (
    delta_from_rho,
    epsilon_from_rho,
    implied_epsilon,
    rho_from_epsilon,
    rho_of_pure,
)

DELTA = 1e-10
BUREAU = Fraction(542, 339) ** 2  # rho of the 2020 redistricting file, persons
UNITS = Fraction(11417641, 152349649)  # rho of the same file, housing units

unhurried = settings(deadline=None, max_examples=60)


# -- references --------------------------------------------------------------------------------------------------------


def read(value):
    """What was written, to 60 digits: a float means the decimal it prints."""
    value = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    return mpf(value.numerator) / value.denominator


def root(f):
    """Where an increasing function of t > 0 is 0, by bisection on log t."""
    low, high = mpf(-400), mpf(400)
    for _ in range(230):
        middle = (low + high) / 2
        low, high = (middle, high) if f(mpmath.exp(middle)) < 0 else (low, middle)
    return mpmath.exp((low + high) / 2)


def true_epsilon(rho, delta):
    """The infimum of Eq. 7: its derivative times (alpha - 1)^2 is rho t^2 + log((1 + t) delta), t = alpha - 1."""
    log_delta = mpmath.log(delta)
    t = root(lambda t: rho * t * t + mpmath.log1p(t) + log_delta)
    alpha = 1 + t
    return max(mpf(0), rho * alpha + mpmath.log(t / alpha) - (mpmath.log(alpha) + log_delta) / t)


def true_delta(rho, epsilon):
    """The infimum of Corollary 13; its logarithm has the slope rho (2 alpha - 1) - epsilon + log(1 - 1/alpha)."""
    t = root(lambda t: rho * (1 + 2 * t) - epsilon + mpmath.log(t / (1 + t)))
    alpha = 1 + t
    log_delta = t * (alpha * rho - epsilon) + alpha * mpmath.log(t / alpha) - mpmath.log(t)
    return min(mpf(1), mpmath.exp(log_delta))


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


# -- published values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "published"), [(2.56, "17.158"), (0.5, "6.839")])
def test_exact_epsilons_of_kazan2022(rho, published):
    assert f"{epsilon_from_rho(rho, DELTA):.3f}" == published


def test_the_implied_epsilon_of_the_census_is_that_of_kazan2022():
    assert f"{implied_epsilon(2.56):.3f}" == "2.263"
    assert f"{implied_epsilon(0.5):.3f}" == "1.000"


def test_the_bureaus_epsilon_is_ours_but_for_a_difference_of_5e_9_on_the_unsafe_side():
    ours, reported = epsilon_from_rho(BUREAU, DELTA), 17.14355073869
    assert ours == pytest.approx(17.14355074360, abs=1e-10)
    assert 4.5e-9 < ours - reported < 5.5e-9
    assert true_epsilon(read(BUREAU), read(DELTA)) > reported
    assert f"{ours:.2f}" == "17.14"


def test_the_bureaus_epsilon_for_housing_units():
    assert f"{epsilon_from_rho(UNITS, DELTA):.4f}" == "2.4747"


# -- second opinions ---------------------------------------------------------------------------------------------------


def epsilon_of_opendp(rho, delta):
    dp.enable_features("contrib")
    noise = dp.m.make_gaussian(dp.atom_domain(T=int), dp.absolute_distance(T=float), scale=math.sqrt(1 / (2 * rho)))
    return dp.c.make_zCDP_to_approxDP(noise).map(1.0).epsilon(delta)


def epsilon_of_dp_accounting(rho, delta, orders=None):
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.GaussianDpEvent(math.sqrt(1 / (2 * rho))))
    return accountant.get_epsilon(delta)


@pytest.mark.parametrize("delta", [1e-10, 1e-6])
@pytest.mark.parametrize("rho", [1e-3, 0.0992, 0.5, float(BUREAU), 2.56, 20.0])
def test_opendp_agrees_to_six_digits(rho, delta):
    assert epsilon_from_rho(rho, delta) == pytest.approx(epsilon_of_opendp(rho, delta), abs=1e-6)


@pytest.mark.parametrize("delta", [1e-10, 1e-6])
@pytest.mark.parametrize("rho", [1e-3, 0.0992, 0.5, float(BUREAU), 2.56, 20.0])
def test_dp_accounting_agrees_to_six_digits_when_given_fine_orders(rho, delta):
    near = math.sqrt(math.log(1 / delta) / rho)  # alpha - 1 at the best order, nearly
    orders = 1 + near * np.exp(np.linspace(-0.7, 0.2, 20_001))
    assert epsilon_from_rho(rho, delta) == pytest.approx(epsilon_of_dp_accounting(rho, delta, orders), abs=1e-6)


def test_dp_accounting_with_its_own_orders_asks_for_up_to_a_ten_thousandth_more():
    excess = epsilon_of_dp_accounting(float(BUREAU), DELTA) - epsilon_from_rho(BUREAU, DELTA)
    assert 1e-5 < excess < 2e-4  # never less: any order gives a valid epsilon


# -- never less than the truth -----------------------------------------------------------------------------------------

decimals = st.integers(1, 10**6)
rhos = st.builds(lambda m, e: float(f"{m}e{e}"), decimals, st.integers(-14, -2))
deltas = st.one_of(
    st.builds(lambda m, e: float(f"{m}e{e}"), decimals, st.integers(-40, -7)).filter(lambda d: d < 0.99),
    st.sampled_from([1e-300, 1e-100, 0.5, 0.9, 0.999, 1e-10]),
)
epsilons = st.builds(lambda m, e: float(f"{m}e{e}"), decimals, st.integers(-9, -4))
sparingly = settings(max_examples=40, deadline=None)


@sparingly
@given(rho=rhos, delta=deltas)
def test_epsilon_is_never_below_the_infimum_and_hardly_above(rho, delta):
    with mp.workdps(60):
        right = true_epsilon(read(rho), read(delta))
        computed = epsilon_from_rho(rho, delta)
        assert right <= computed
        scale = float(read(rho)) - math.log(delta) + 1
        assert computed - right <= 1e-9 * max(scale, right)


@sparingly
@given(rho=rhos, epsilon=st.one_of(epsilons, st.just(0)))
def test_delta_is_never_below_the_infimum_and_hardly_above(rho, epsilon):
    with mp.workdps(60):
        right = true_delta(read(rho), read(epsilon))
        assume(right > 1e-300)
        computed = delta_from_rho(rho, epsilon)
        assert right <= computed <= 1
        if rho >= 1e-6:  # below that what is held back for rounding begins to show
            assert computed <= right * (1 + mpf("1e-6"))


def test_a_delta_too_small_for_a_float_is_not_reported_as_zero():
    # delta 0 would claim pure differential privacy, which no Gaussian has
    assert 0 < true_delta(read(0.01), read(10)) < mpf(10) ** -1000
    assert delta_from_rho(0.01, 10) > 0


@sparingly
@given(epsilon=epsilons, delta=deltas)
def test_rho_from_epsilon_never_spends_more_than_was_asked_for_and_hardly_less(epsilon, delta):
    with mp.workdps(60):
        rho = mpf(rho_from_epsilon(epsilon, delta))  # the float itself
        assert rho > 0
        assert true_epsilon(rho, read(delta)) <= read(epsilon)
        if epsilon > 1e-3:  # below that what is held back for rounding begins to show
            assert true_epsilon(rho, read(delta)) >= read(epsilon) * (1 - mpf("1e-6"))


@sparingly
@given(rho=rhos, delta=deltas)
def test_rho_to_epsilon_and_back_is_a_round_trip(rho, delta):
    epsilon = epsilon_from_rho(rho, delta)
    assume(epsilon > 1e-3)
    assert rho_from_epsilon(epsilon, delta) == pytest.approx(rho, rel=1e-6)


@sparingly
@given(rho=rhos, epsilon=epsilons)
def test_delta_to_epsilon_and_back_is_a_round_trip(rho, epsilon):
    delta = delta_from_rho(rho, epsilon)
    assume(1e-250 < delta < 0.9)
    assert epsilon_from_rho(rho, delta) == pytest.approx(epsilon, rel=1e-5, abs=1e-6)


@sparingly
@given(rho=rhos, delta=deltas, more=st.floats(1.001, 10))
def test_more_rho_means_more_epsilon_and_a_larger_delta_less(rho, delta, more):
    epsilon = epsilon_from_rho(rho, delta)
    assume(epsilon > 1e-3)
    assert epsilon_from_rho(rho * more, delta) > epsilon
    assert epsilon_from_rho(rho, min(0.9999, delta * more)) <= epsilon


@unhurried
@given(epsilon=epsilons)
def test_pure_epsilon_to_rho_and_the_implied_epsilon_are_inverse(epsilon):
    assert Fraction(rho_of_pure(epsilon)) >= Fraction(repr(epsilon)) ** 2 / 2  # rounded up, not to nearest
    assert rho_of_pure(epsilon) == pytest.approx(epsilon**2 / 2, rel=1e-15)
    assert implied_epsilon(rho_of_pure(epsilon)) == pytest.approx(epsilon, rel=1e-14)


def test_a_fraction_a_text_and_a_float_that_print_the_same_give_the_same_epsilon():
    assert epsilon_from_rho(0.1, "1e-10") == epsilon_from_rho("1/10", 1e-10) == epsilon_from_rho(Fraction(1, 10), DELTA)


def test_a_float_from_numpy_is_a_number_too():
    assert epsilon_from_rho(np.float64(0.5), np.float64(1e-10)) == epsilon_from_rho(0.5, 1e-10)
    assert implied_epsilon(np.float64(2.56)) == implied_epsilon(2.56)


# -- bad input ---------------------------------------------------------------------------------------------------------

BAD = [-1, -0.25, 0, float("nan"), float("inf"), float("-inf"), "lots", "1/0", "", None, True]


def called(function, name, value):
    good = {"rho": 0.5, "epsilon": 2.0, "delta": 1e-10} | {name: value}
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    return function(**{parameter: good[parameter] for parameter in parameters})


@pytest.mark.parametrize("value", BAD, ids=repr)
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (epsilon_from_rho, "rho"),
        (epsilon_from_rho, "delta"),
        (delta_from_rho, "rho"),
        (delta_from_rho, "epsilon"),
        (rho_from_epsilon, "epsilon"),
        (rho_from_epsilon, "delta"),
        (rho_of_pure, "epsilon"),
        (implied_epsilon, "rho"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_what_is_not_a_positive_number_is_refused_by_name_and_value(function, name, value):
    if function is delta_from_rho and name == "epsilon" and value == 0 and value is not False:
        assert 0 < called(function, name, value) < 1  # at epsilon 0 delta is a total variation
        return
    with pytest.raises(BudgetError, match=rf"^{name} must be .*Got {value!r} instead\."):
        called(function, name, value)


@pytest.mark.parametrize("value", [1, 1.0, 2, "3/2"])
@pytest.mark.parametrize("function", [epsilon_from_rho, rho_from_epsilon])
def test_a_delta_of_one_or_more_is_refused_by_value(function, value):
    with pytest.raises(BudgetError, match=rf"^delta must be less than 1 .*Got {value} instead\."):
        called(function, "delta", value)


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [
        (epsilon_from_rho, "rho", "1e400"),
        (epsilon_from_rho, "delta", "1e-400"),
        (delta_from_rho, "rho", "1e400"),
        (delta_from_rho, "epsilon", "1e400"),
        (rho_from_epsilon, "epsilon", "1e400"),
        (rho_from_epsilon, "delta", "1e-400"),
        (rho_of_pure, "epsilon", "1e200"),
        (implied_epsilon, "rho", "1e400"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_a_number_beyond_floats_is_refused_by_name_and_value_or_answered_on_the_safe_side(function, name, value):
    try:
        answer = called(function, name, value)
    except BudgetError as error:
        assert {name, value} <= set(str(error).replace(".", " ").split())  # noqa: PT017
        return
    if function is epsilon_from_rho:
        assert answer >= (true_epsilon(read("0.5"), read(value)) if name == "delta" else read(value))
    elif function is rho_from_epsilon:
        assert answer > 0
        assert name == "epsilon" or true_epsilon(mpf(answer), read(value)) <= 2
    elif function is delta_from_rho:
        assert answer == 1 if name == "rho" else answer > 0
    else:
        assert answer >= (read(value) ** 2 / 2 if function is rho_of_pure else mpmath.sqrt(2 * read(value)))


def test_an_epsilon_out_of_reach_is_refused_by_value():
    with pytest.raises(BudgetError, match=r"1e\+16|1e16|10000000000000000"):
        rho_from_epsilon(1e16, DELTA)
