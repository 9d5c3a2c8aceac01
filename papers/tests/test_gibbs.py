"""The paper's Gibbs sampler: against the exact sum, the published Table 7, and itself."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric
from tallyveil.risk import Above, Hierarchy, Intruder
from tallyveil.risk.target.priors import Poisson
from tallyveil_papers.kazan.gibbs import Steps, gibbs, misfit

RHO_1 = Fraction("2.56") * Fraction(165, 4099) * Fraction(3945, 4097)
RHO_2 = Fraction("2.56") * Fraction(1256, 4099) * Fraction(1288, 4099)
OWN, COUNTY = DiscreteGaussian(variance=1 / (2 * RHO_1)), DiscreteGaussian(variance=1 / (2 * RHO_2))
EVEN = Intruder(prior="1/2")
TABLE_5 = (2, [(1, -1)])  # x1*, then x2* and y1*
TABLE_7 = np.array([10.71, 40.18, 29.74, 13.93, 4.63, 0.72, 0.08, 0.01]) / 100


def two_levels(*, intruder=EVEN, **changed) -> Hierarchy:
    return Hierarchy(intruder=intruder, noise=OWN, above=[Above(**{"noise": COUNTY, "siblings": [OWN] * 27} | changed)])


def test_the_papers_sampler_agrees_with_the_exact_sum_and_without_its_condition_does_not():
    two = two_levels(approximate=True)
    draws = gibbs(two, 2, 1, -1, draws=100_000, seed=1)
    share = (draws[:, 0] == 1).reshape(100, -1).mean(axis=1)  # batches, since draws depend on each other
    error = share.std(ddof=1) / 10
    assert abs(share.mean() - two.posterior(*TABLE_5)) < 4 * error < 0.02
    assert (draws[:, 0] <= draws[:, 1]).all()
    free = gibbs(two, 2, 1, -1, draws=100_000, seed=1, condition=False)
    free_share = (free[:, 0] == 1).reshape(100, -1).mean(axis=1)
    assert abs(free_share.mean() - two.posterior(*TABLE_5)) > 4 * free_share.std(ddof=1) / 10


def test_in_the_long_run_the_sampler_has_the_exact_posterior_only_with_its_condition():
    two = two_levels(intruder=Intruder(prior="1/3", known=2), approximate=True)
    for released, above, siblings in ((4, 3, -1), (1, 9, 30), (3, 2, -40)):
        steps = Steps.of(two, released, above, siblings, condition=True)
        exact = two.above_posterior(released, [(above, siblings)])
        assert steps.stationary[: len(exact) - 2] == pytest.approx(exact[steps.x2[0] :][: len(steps.x2)], abs=1e-12)
    free = Steps.of(two_levels(approximate=True), 2, 1, -1, condition=False).stationary
    erratum_8 = (11.00, 39.50, 30.46, 14.24, 4.04, 0.69, 0.07)
    assert 100 * free[:7] == pytest.approx(erratum_8, abs=6e-3)


def test_table_7_misfits_the_sampler_with_its_condition_far_more_than_without():
    two = two_levels(approximate=True)
    on, off = (misfit(Steps.of(two, 2, 1, -1, condition=c), TABLE_7, draws=10_000) for c in (True, False))
    assert (on.df, off.df) == (6, 6)
    assert (on.statistic, off.statistic) == pytest.approx((45.27, 13.33), abs=0.01)
    assert on.p_value < 1e-6 < 0.01 < off.p_value < 0.05
    assert off.deviations[4] == pytest.approx(3.02, abs=0.01)  # 4.63 % against 4.04 %


def test_the_misfit_of_a_sampler_with_itself_is_a_chi_square_because_it_allows_for_dependent_draws():
    sticky = two_levels(noise=DiscreteGaussian(variance=5), siblings=[DiscreteGaussian(variance="1/4")])
    steps = Steps.of(sticky, 1, 3, 2, condition=True)
    n, trials = 4000, 300
    found, plain = [], []
    for seed in range(trials):
        drawn = gibbs(sticky, 1, 3, 2, draws=n, seed=seed)[:, 1] - steps.x2[0]
        one = misfit(steps, np.bincount(drawn, minlength=len(steps.x2)) / n, draws=n)
        found.append(one.statistic)
        plain.append(n * ((one.published - one.expected) ** 2 / one.expected).sum())
    error = math.sqrt(2 * one.df / trials)
    assert abs(np.mean(found) - one.df) < 4 * error
    assert np.mean(plain) > one.df + 10 * error


@pytest.mark.parametrize("changed", [{"siblings": [Geometric(z=1)]}, {"prior": Poisson(mean=1)}])
def test_a_hierarchy_other_than_the_papers_is_refused(changed):
    with pytest.raises(InputError, match="the paper's sampler is for two levels"):
        gibbs(two_levels(**changed), 1, 1, 1)
