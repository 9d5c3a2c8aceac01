"""Counting and smoothing residuals: beside numpy's percentiles and scipy's kernel density."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy.special import logsumexp
from scipy.stats import gaussian_kde

from tallyveil.errors import InputError
from tallyveil.evaluate.epl.smooth import log_density
from tallyveil.evaluate.value_counts import value_counts


def geometric(z: float, n: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.geometric(-np.expm1(-z), n) - rng.geometric(-np.expm1(-z), n)


def farthest(residuals, points, bandwidth: float) -> tuple[float, int]:
    """The largest difference from scipy in log density, where density exceeds 1e-12, and at how many points it does."""
    theirs = gaussian_kde(residuals, bw_method=bandwidth).logpdf(points)
    counted = value_counts(residuals)
    ours = log_density(counted, points, width=bandwidth * counted.deviation())
    assert np.isfinite(ours).all()
    sure = theirs > np.log(1e-12)
    return float(np.abs(ours - theirs)[sure].max(initial=0)), int(sure.sum())


@pytest.mark.parametrize("bandwidth", [0.005, 0.01, 0.1, 0.5, 5, 1000])
@pytest.mark.parametrize("start", [-40.0, -39.5, -40.3])
def test_smoothed_whole_residuals_equal_scipys_density(bandwidth, start):
    distance, compared = farthest(geometric(0.125, 2663), np.arange(start, 40), bandwidth)
    assert distance < 1e-9
    assert compared > (70 if bandwidth > 0.005 or start == -40 else -1)


@pytest.mark.parametrize("bandwidth", [0.02, 0.1, 1])
def test_smoothed_fractional_residuals_equal_scipys_density(bandwidth):
    residuals = np.random.default_rng(2).laplace(scale=8, size=3000)
    distance, compared = farthest(residuals, np.arange(-30.25, 30), bandwidth)
    assert distance < 1e-9
    assert compared > 55
    thirds = np.round(residuals * 3) / 3
    assert farthest(thirds, np.arange(-30.25, 30), bandwidth)[0] < 1e-9


@pytest.mark.parametrize(
    "residuals",
    [
        pytest.param([0, 1], id="two"),
        pytest.param([-4, 900], id="two far apart"),
        pytest.param(np.append(geometric(0.5, 500), [10**6, -(10**6)]), id="outliers"),
        pytest.param(np.append(geometric(0.5, 500), [10**12]), id="a range too wide for a table"),
        pytest.param(np.round(np.random.default_rng(3).standard_cauchy(4000) * 20).astype(int), id="heavy tails"),
        pytest.param(np.arange(-30, 31) * 20, id="multiples of 20"),
    ],
)
@pytest.mark.parametrize("bandwidth", [0.01, 0.1, 2])
def test_hard_residuals_are_smoothed_as_scipy_does(residuals, bandwidth):
    assert farthest(residuals, np.arange(-60.5, 60), bandwidth)[0] < 1e-9


def test_a_density_too_small_for_scipy_is_still_finite_and_right():
    residuals = np.array([0, 0, 0, 500, 501])
    points = np.arange(100.0, 400.0)
    ours = log_density(value_counts(residuals), points, width=0.25)
    exponent = -(((points[:, None] - residuals) / 0.25) ** 2) / 2
    expected = logsumexp(exponent, axis=1) - np.log(5 * 0.25 * np.sqrt(2 * np.pi))
    assert ours.max() < -3000
    np.testing.assert_allclose(ours, expected, rtol=1e-13)


def test_a_density_is_not_that_of_another_width():
    residuals, points = geometric(0.125, 2663), np.arange(-20.0, 20)
    counted = value_counts(residuals)
    other = log_density(counted, points, width=0.11 * counted.deviation())
    assert np.abs(other - gaussian_kde(residuals, bw_method=0.1).logpdf(points)).max() > 1e-3


@given(
    values=some.lists(some.integers(-50, 50), min_size=1, max_size=60) | some.lists(some.floats(-1e6, 1e6), min_size=1),
    percent=some.floats(0, 100),
)
def test_percentiles_from_counts_are_numpys_to_the_last_bit(values, percent):
    assert value_counts(values).percentile(percent) == np.percentile(values, percent)


@given(values=some.lists(some.integers(-(2**40), 2**40) | some.integers(-9, 9), max_size=60), zeros=some.integers(0, 5))
def test_a_tally_counts_every_residual_and_further_zeros_once(values, zeros):
    counted = value_counts(np.array(values, dtype=np.int64), zeros=zeros)
    value, count = np.unique(np.array([*values, *[0] * zeros], dtype=np.int64), return_counts=True)
    assert counted.value.tolist() == value.tolist()
    assert counted.count.tolist() == count.tolist()


def test_a_tally_has_the_residuals_mean_deviation_and_absolute_values():
    residuals = geometric(0.2, 500) + 1
    counted = value_counts(residuals)
    assert counted.mean() == pytest.approx(residuals.mean(), rel=1e-12)
    assert counted.deviation() == pytest.approx(residuals.std(ddof=1), rel=1e-12)
    assert counted.absolute().percentile(90) == np.percentile(np.abs(residuals), 90)


def test_residuals_that_are_no_finite_numbers_are_refused_with_their_place():
    with pytest.raises(InputError, match=r"residual 2 is nan\. Residuals must be finite"):
        value_counts([1.0, np.nan])
    with pytest.raises(InputError, match=r"one row of numbers\. Got 2 dimensions"):
        value_counts([[1, 2]])
    with pytest.raises(InputError, match="one row of numbers"):
        value_counts(["a"])
