"""Sampling from counts: the distribution of sampling persons, by listing all samples, and its mean and variance."""

from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from small_people import PLAUSIBLE, countries, country, p_value

from tallyveil.errors import InputError
from tallyveil.mechanisms.sampling import draw_people, generator, sample
from tallyveil.populations import census_1940, uniform_tree

FEW = country([[2, 1, 0, 0, 0, 0], [0, 0, 0, 3, 0, 0], [1, 0, 0, 0, 2, 0]], families=[[2, 1]])
LARGE = census_1940(persons=300_000, seed=1).people


def all_samples(counts, persons):
    """How many of each entry are in a sample, with its probability, by listing every set of persons."""
    who = np.repeat(np.arange(len(counts)), counts)
    tally = Counter(tuple(np.bincount(s, minlength=len(counts)).tolist()) for s in combinations(who, persons))
    total = sum(tally.values())
    return {outcome: times / total for outcome, times in tally.items()}


def tilted(pmf, factor):
    """The same outcomes, each of the first entry's persons being so much likelier."""
    weights = {outcome: p * factor ** outcome[0] for outcome, p in pmf.items()}
    whole = sum(weights.values())
    return {outcome: weight / whole for outcome, weight in weights.items()}


# sample() itself on a few draws, then what it draws with on many, which must tell 10%.
def test_samples_are_as_likely_as_if_persons_were_drawn():
    pmf, found = all_samples(FEW.leaves.count, 3), []
    for replicate in range(1500):
        drawn = sample(FEW, "1/3", seed=11, replicate=replicate).people
        found.append(tuple(drawn.leaves.dense()[FEW.leaves.unit(), FEW.leaves.cell].tolist()))
    assert p_value(found, pmf) > PLAUSIBLE
    assert p_value(found, tilted(pmf, 1.5)) < 1e-6


@pytest.mark.parametrize("persons", [3, 8])
def test_many_draws_reject_a_law_ten_percent_off(persons):
    counts, rng = np.array([5, 3, 4]), generator("test", 1, persons)
    found = [tuple(draw_people(counts, persons, rng).tolist()) for _ in range(10_000)]
    pmf = all_samples(counts, persons)
    assert p_value(found, pmf) > PLAUSIBLE
    assert p_value(found, tilted(pmf, 1.1)) < 1e-6
    again = {outcome: stats.multinomial.pmf(outcome, persons, counts / 12) for outcome in pmf}
    whole = sum(again.values())
    assert p_value(found, {outcome: p / whole for outcome, p in again.items()}) < 1e-6  # with replacement


@pytest.mark.parametrize("fraction", [0.05, 0.5, 0.95])
def test_counts_of_many_units_have_the_right_mean_and_variance(fraction):
    truth = LARGE.answer("total", level="enumdist").dense()[:, 0].astype(float)
    everybody, runs = truth.sum(), 60
    n = round(fraction * everybody)
    samples = (sample(LARGE, fraction, seed=2, replicate=run).people for run in range(runs))
    found = np.array([one.answer("total", level="enumdist").dense()[:, 0] for one in samples])
    share = truth / everybody
    variance = n * share * (1 - share) * (everybody - n) / (everybody - 1)
    score = (found - n * share) / np.sqrt(variance)
    assert stats.kstest(score.mean(axis=0) * np.sqrt(runs), "norm").pvalue > PLAUSIBLE
    squares = (score**2).sum()
    degrees = score.size * (1 - 1 / len(truth))  # the counts of a run sum to n
    assert PLAUSIBLE < stats.chi2.cdf(squares, degrees) < 1 - PLAUSIBLE
    assert stats.chi2.sf(squares * 1.1, degrees) < 1e-6
    assert stats.chi2.cdf(squares / 1.1, degrees) < 1e-6


def test_more_than_a_billion_people_can_be_sampled():
    counts, n, runs = np.full(50, 6 * 10**7), 12 * 10**8, 200
    found = np.array([draw_people(counts, n, generator("test", 1, run)) for run in range(runs)])
    assert (found.sum(axis=1) == n).all()
    variance = n * (1 / 50) * (49 / 50) * (counts.sum() - n) / (counts.sum() - 1)
    squares, degrees = ((found - n / 50) ** 2).sum() / variance * (49 / 50), 49 * runs
    assert PLAUSIBLE < stats.chi2.cdf(squares, degrees) < 1 - PLAUSIBLE
    assert stats.chi2.sf(squares * 1.1, degrees) < 1e-6
    assert stats.chi2.cdf(squares / 1.1, degrees) < 1e-6


@settings(max_examples=30)
@given(countries(), st.fractions(Fraction(1, 1000), 1), st.integers(0, 100))
def test_a_sample_has_its_size_and_takes_nobody_who_is_not_there(people, fraction, seed):
    drawn = sample(people, fraction, seed=seed)
    assert drawn.fraction == fraction
    assert drawn.people.total() == round(fraction * people.total())
    assert (drawn.people.leaves.dense() <= people.leaves.dense()).all()
    assert drawn.people.spine == people.spine
    assert drawn.people.schema == people.schema


def test_all_or_nobody():
    assert sample(LARGE, 1, seed=1).people == LARGE
    nobody = sample(FEW, "1/100", seed=1)
    assert nobody.people.total() == 0
    assert nobody.answer("total", level="us").tolist() == [[0.0]]
    with pytest.raises(InputError, match="fraction 0 takes nobody"):
        sample(LARGE, 0, seed=1)
    with pytest.raises(InputError, match=r"fraction must be from 0 to 1\. Got 1\.5"):
        sample(LARGE, 1.5, seed=1)


def test_the_seed_and_the_replicate_decide():
    base = sample(LARGE, 0.5, seed=1).people
    assert base == sample(LARGE, "1/2", seed=1, replicate=0).people
    assert base != sample(LARGE, 0.5, seed=2).people
    assert base != sample(LARGE, 0.5, seed=1, replicate=1).people
    for options in ({"seed": -1}, {"seed": 1.5}, {"seed": 1, "replicate": -2}):
        with pytest.raises(InputError, match="whole number, 0 or more"):
            sample(LARGE, 0.5, **options)


def test_a_synthetic_census_can_be_sampled_whole():
    census = uniform_tree(persons=1000, mean=10, levels=2, seed=1)
    assert sample(census, 0.1, seed=1).people == sample(census.people, 0.1, seed=1).people


def test_a_sample_of_nobody_is_scaled_to_zeros_at_any_fraction():
    people = uniform_tree(persons=20, mean=10, levels=2, seed=1)
    assert not sample(people, "1e-30", seed=1).answer("total", level="top").any()
