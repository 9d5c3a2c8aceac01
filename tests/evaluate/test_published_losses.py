"""Published losses of simple mechanisms: petti2020's appendix (on a synthetic state of that size) and flaxman2019."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.evaluate import epl, residuals
from tallyveil.mechanisms import (
    averaged,
    geometric,
    raked,
    sample,
    total_and_strata,
    total_and_strata_absolute,
    with_invariant,
)
from tallyveil.populations import census_1940, uniform_tree

STRATA = "votingage * hispanic * race"


@pytest.fixture(scope="module")
def state():
    people = census_1940(persons=2_614_000, seed=1).people
    assert people.spine.size("enumdist") == 2_662  # Washington has 2,663
    return people


def losses(state, made, query, over="nonempty"):
    """The loss in each of several runs of a mechanism."""
    return np.array([epl(residuals(state, one, level="enumdist", query=query, over=over)).epl for one in made])


def test_the_geometric_mechanism_has_the_loss_of_table_sa1_at_epsilon_a_quarter(state):
    made = [geometric(state, epsilon="1/4", neighbours="replace-one", seed=seed) for seed in range(12)]
    found = losses(state, made, "total")
    assert ((found > 0.1853) & (found < 0.3493)).mean() > 0.8  # published: 0.2429 (0.1853 to 0.3493); text: 0.18
    double = [geometric(state, epsilon="1/2", neighbours="replace-one", seed=seed) for seed in range(4)]
    assert losses(state, double, "total").mean() > 0.3434  # published at 0.5: 0.4052 (0.3434 to 0.5195)


def test_total_and_strata_reconciled_lose_about_half_of_what_is_proven(state):
    made = [total_and_strata(state, epsilon_total="1/4", epsilon_strata="3/4", query=STRATA, seed=s) for s in range(6)]
    found = losses(state, made, STRATA)
    assert found.mean() == pytest.approx(0.54, rel=0.2)  # Figure SA3: 0.54, where 1 is proven


def test_absolute_differences_with_the_authors_weights_are_farther_from_figure_sa3_than_squares(state):
    budget = {"epsilon_total": "1/4", "epsilon_strata": "3/4", "query": STRATA}
    found = losses(state, [total_and_strata_absolute(state, seed=seed, **budget) for seed in range(3)], STRATA)
    assert found.mean() == pytest.approx(0.76, rel=0.1)  # docs/mechanisms.md; published: 0.54, squares: 0.47


def test_an_invariant_makes_the_loss_larger_than_epsilon(state):
    made = [with_invariant(state, epsilon="1/4", query=STRATA, seed=seed) for seed in range(4)]
    found = losses(state, made, STRATA, over="all")
    assert found.mean() == pytest.approx(2.3, rel=0.25)  # Figure SA4: 2.3, at epsilon 0.25


def test_geometric_averaged_and_raked_noise_have_the_same_loss_at_a_quarter_a_half_and_all_of_a_tenth():
    # flaxman2019, Figure 1: budgets 0.025, 0.05 and 0.1 all lose 0.025; independently re-done, medians 0.0235 to 0.026.
    people = uniform_tree(seed=1).people
    for mechanism, epsilon in ((geometric, "0.025"), (averaged, "0.05"), (raked, "0.1")):
        medians = [
            epl(
                residuals(people, mechanism(people, epsilon=epsilon, seed=seed), level="level3"),
                bandwidth=0.15,
                multiplier=2,
                tails="both",
            ).median
            for seed in range(5)
        ]
        assert np.mean(medians) == pytest.approx(0.025, rel=0.08), mechanism
    half = epl(residuals(people, raked(people, epsilon="0.05", seed=1), level="level3"), bandwidth=0.15).median
    assert half < 0.018  # a budget of half the size loses about half


# petti2020, extended data (the text gives other losses of totals): (level, count, percent): median error, loss.
SAMPLES = {
    ("county", STRATA, 5): (19, 0.034),
    ("county", STRATA, 50): (5, 0.150),
    ("county", STRATA, 95): (1, 0.611),
    ("county", "total", 5): (388, 0.003),
    ("county", "total", 50): (90, 0.013),
    ("county", "total", 95): (20, 0.063),
    ("enumdist", STRATA, 5): (18, 0.098),
    ("enumdist", STRATA, 50): (4, 0.318),
    ("enumdist", STRATA, 95): (1, 1.307),
    ("enumdist", "total", 5): (74, 0.011),
    ("enumdist", "total", 50): (17, 0.050),
    ("enumdist", "total", 95): (4, 0.215),
}


@pytest.mark.slow
def test_samples_of_a_census_of_that_size_have_the_published_error_and_loss():
    people = census_1940(seed=1).people
    drawn = {percent: sample(people, Fraction(percent, 100), seed=3) for percent in (5, 50, 95)}
    for (level, query, percent), (median, loss) in SAMPLES.items():
        found = residuals(people, drawn[percent], level=level, query=query)
        ours = float(np.median(np.abs(found.value)))
        assert ours == pytest.approx(median, rel=0.1, abs=1), (level, query, percent)
        noisy = (level, query) == ("county", "total")  # the maximum over 3,108 residuals spread over thousands
        assert epl(found).epl == pytest.approx(loss, rel=0.5 if noisy else 0.15, abs=0.001), (level, query, percent)
