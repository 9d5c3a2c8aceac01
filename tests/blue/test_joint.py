"""Functions of several figures: coverage of ranks and simultaneous intervals, ratios by two methods, posteriors."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate
from scipy.stats import norm

from tallyveil.blue.intervals import count_interval, posterior_interval
from tallyveil.blue.joint import Joint
from tallyveil.blue.result import TreeEstimates
from tallyveil.errors import InputError


@pytest.mark.parametrize("spread", [10, 60])
def test_ranks_and_simultaneous_intervals_hold_even_where_figures_are_close(spread):
    rng = np.random.default_rng(1)
    true = np.linspace(100, 100 + spread, 8)
    covariance = 100 * (0.7 * np.eye(8) + 0.3)
    rank = (-true).argsort().argsort() + 1
    of_each, of_the_largest, together = [], [], []
    for estimate in rng.multivariate_normal(true, covariance, 150):
        figures = Joint(estimate=estimate, covariance=covariance)
        low, high = figures.ranks(draws=1000)
        held = (low <= rank) & (rank <= high)
        of_each.extend(held)
        of_the_largest.append(held[np.argmax(estimate)])
        low, high = figures.simultaneous(draws=1000)
        together.append(((low <= true) & (true <= high)).all())
    assert np.mean(of_each) > 0.9
    assert np.mean(of_the_largest) > 0.85
    assert 0.83 < np.mean(together) < 0.96
    alone = Joint(estimate=true, covariance=covariance)
    assert (alone.simultaneous(draws=1000)[1] - true > 1.9 * alone.sd).all()  # wider than 1.645


def test_exact_figures_have_exact_ranks():
    low, high = Joint(estimate=[3.0, 9.0, 5.0], covariance=np.zeros((3, 3))).ranks(draws=10)
    assert (low.tolist(), high.tolist()) == ([3, 1, 2], [3, 1, 2])


def test_the_delta_method_and_simulation_agree_unless_the_denominator_is_uncertain():
    figures = Joint(estimate=[300.0, 1000.0], covariance=[[100.0, 60.0], [60.0, 400.0]])
    delta, drawn = figures.ratio([0], [1]), figures.simulated_ratio([0], [1], draws=50_000)
    assert drawn.low == pytest.approx(delta.low, abs=0.03 * delta.sd + 2e-4)
    assert drawn.high == pytest.approx(delta.high, abs=0.03 * delta.sd + 2e-4)
    vague = Joint(estimate=[30.0, 40.0], covariance=[[1.0, 0.0], [0.0, 100.0]])
    delta, drawn = vague.ratio([0], [1]), vague.simulated_ratio([0], [1])
    assert drawn.high - drawn.estimate > 1.3 * (drawn.estimate - drawn.low)  # skewed, which the delta method is not
    assert delta.high - delta.estimate == pytest.approx(delta.estimate - delta.low)
    assert figures.ratio([0], [1], per=100).estimate == pytest.approx(30)
    with pytest.raises(InputError, match="the denominator is estimated as 0"):
        Joint(estimate=[1.0, 0.0], covariance=np.eye(2)).share([0], [1])


@pytest.mark.parametrize(("estimate", "sd"), [(7.0, 3.0), (0.5, 2.0), (-4.0, 2.0), (-30.0, 2.0)])
def test_the_posterior_is_the_normal_distribution_cut_at_zero(estimate, sd):
    mean, low, high = (float(value) for value in posterior_interval(estimate, sd))
    far = max(0.0, estimate) + 12 * sd

    def weight(x: float) -> float:
        return float(np.exp(norm.logpdf(x, estimate, sd) - norm.logsf(0, estimate, sd)))

    assert mean == pytest.approx(integrate.quad(lambda x: x * weight(x), 0, far, limit=200)[0], rel=1e-6)
    assert integrate.quad(weight, 0, low, limit=200)[0] == pytest.approx(0.05, abs=1e-6)
    assert integrate.quad(weight, 0, high, limit=200)[0] == pytest.approx(0.95, abs=1e-6)


def test_a_posterior_is_had_on_request_and_leaves_the_estimates_as_they_are():
    table = pa.table({"unit": ["a", "b"], "estimate": [-4.0, 50.0], "sd": [2.0, 3.0]})
    found = TreeEstimates.of(table, information="", confidence=0.9).posterior()
    assert found.estimate.tolist() == [-4.0, 50.0]
    assert found["mean"].round(2).tolist() == [0.75, 50.0]
    assert found.high.round(2).tolist() == [2.1, 54.93]


def test_an_interval_is_cut_at_zero_and_an_exact_count_is_itself():
    low, high = count_interval([-9.0, 2.4, 5.0], [2.0, 0.1, 0.0])
    assert (low.tolist(), high.tolist()) == ([0, 2, 5], [0, 2, 5])
    with pytest.raises(InputError, match=r"confidence must be between 0 and 1, such as 0\.9"):
        count_interval([1.0], [1.0], 90)
