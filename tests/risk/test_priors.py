"""Priors on the siblings' count: probabilities against scipy, fits against draws, and what they change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.priors import AtMost, NegativeBinomial, Poisson, fitted

OWN, COUNTY = DiscreteGaussian(variance="5.04"), DiscreteGaussian(variance="2.0284")  # rho 0.0992 and 0.2465
COUNTS = np.arange(200)


@given(st.floats(0.001, 50), st.floats(1.01, 40))
def test_both_have_the_probabilities_that_scipy_gives(mean, times):
    assert Poisson(mean=mean)(COUNTS) == pytest.approx(stats.poisson.logpmf(COUNTS, mean), abs=1e-9, rel=1e-9)
    clustered = NegativeBinomial(mean=mean, variance=mean * times)
    theirs = stats.nbinom.logpmf(COUNTS, clustered.shape, 1 / times)
    assert clustered(COUNTS) == pytest.approx(theirs, abs=1e-7, rel=1e-9)


def test_a_cap_rules_out_what_is_above_it_and_leaves_the_prior_below():
    poisson = Poisson(mean=2)
    capped = AtMost(count=4, prior=poisson)(COUNTS)
    assert (capped[:5] == poisson(COUNTS[:5])).all()
    assert np.isneginf(capped[5:]).all()
    assert AtMost(count=0)(np.arange(2)).tolist() == [0, -np.inf]


def test_an_intruder_who_knows_that_nobody_else_has_them_uses_the_count_above_as_the_own():
    above = Above(noise=COUNTY, siblings=[OWN] * 27, prior=AtMost(count=0))
    found = Hierarchy(intruder=Intruder(prior="1/2"), noise=OWN, above=[above]).decision([1])
    both = Intruder(prior="1/2").against(OWN, COUNTY)
    assert (found.right_decision, found.tie) == pytest.approx((both.right_decision, both.tie), abs=1e-10)


def test_a_fit_finds_the_mean_and_the_variance_behind_the_noise():
    rng = np.random.default_rng(4)
    n = 200_000
    noise = rng.choice([4.0, 16.0], n)
    noisy = rng.negative_binomial(2, 1 / 4, n) + np.round(rng.normal(0, np.sqrt(noise)))  # mean 6, variance 24
    found = fitted(noisy, noise)
    assert isinstance(found, NegativeBinomial)
    assert (found.mean, found.variance) == pytest.approx((6, 24 + 1 / 12), rel=0.02)  # rounding adds 1/12
    found = fitted(rng.poisson(6, n) + np.round(rng.normal(0, 3, n)), 10)  # noise of 9.08, told as 10
    assert isinstance(found, Poisson)
    assert found.mean == pytest.approx(6, rel=0.01)


def test_the_flat_prior_drives_what_happens_where_the_target_is_alone_above():
    def right(prior, count):
        above = Above(noise=COUNTY, siblings=[OWN] * 27, prior=prior)
        return Hierarchy(intruder=Intruder(prior="1/2"), noise=OWN, above=[above]).decision([count]).right_decision

    alone = Intruder(prior="1/2").against(OWN).right_decision
    assert right(None, 1) < 0.32 < alone < right(Poisson(mean=1e-9), 1)
    by_mean = [right(Poisson(mean=mean), 1) for mean in (0.01, 0.1, 1, 10)]
    assert by_mean == pytest.approx([0.661, 0.653, 0.469, 0.020], abs=1e-3)
    broad = NegativeBinomial(mean=1000, variance=1000 + 1000**2)  # geometric and long: nearly flat
    assert [right(broad, n) for n in (1, 10)] == pytest.approx([right(None, n) for n in (1, 10)], abs=0.01)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Poisson(mean=0), "the mean of a prior must be greater than 0. Got 0"),
        (
            lambda: NegativeBinomial(mean=2, variance=2),
            "variance must be above the mean .2.. Got 2 instead. Use Poisson",
        ),
        (lambda: AtMost(count=-1), "the largest number of people with the characteristics must be 0 or more. Got -1"),
        (lambda: fitted([3], 1), "list of two or more sums"),
        (lambda: fitted([3, 4], [1, 2, 3]), "noise variances must be 0 or more"),
        (lambda: fitted([3, 4], -1), "noise variances must be 0 or more"),
        (lambda: fitted([3, np.nan], 1), "a noisy sum is not a finite number"),
    ],
)
def test_priors_that_cannot_be_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        wrong()
