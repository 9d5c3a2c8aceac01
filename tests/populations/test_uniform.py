"""The uniform tree of Flaxman (2019)."""

import numpy as np
import pytest
from scipy.stats import chi2

from tallyveil.errors import InputError
from tallyveil.populations.uniform import uniform_tree


def sizes(population):
    spine = population.people.spine
    return [spine.size(level) for level in spine.levels]


def counts(population):
    return population.people.answer("total", level=population.people.spine.leaf).dense()[:, 0]


def test_the_paper_s_million_persons_live_in_9261_areas_21_children_each():
    made = uniform_tree(seed=1)
    assert sizes(made) == [1, 21, 441, 9_261]
    assert made.people.total() == 1_000_000
    assert all((np.diff(first_child) == 21).all() for first_child in made.people.spine.first_child)


@pytest.mark.parametrize(
    ("persons", "mean", "levels", "children"),
    [(1, 1, 1, 1), (1_000, 1, 3, 10), (999, 1, 3, 9), (125_000, 1_000, 3, 5), (7, 1, 2, 2), (99, 100, 2, 1)],
)
def test_children_are_the_largest_whole_number_whose_power_fits(persons, mean, levels, children):
    made = uniform_tree(persons=persons, mean=mean, levels=levels, seed=0)
    assert sizes(made) == [children**depth for depth in range(levels + 1)]
    assert made.people.total() == persons


def test_codes_begin_with_their_parent_s_code():
    spine = uniform_tree(persons=20_000, mean=10, seed=0).people.spine
    labels = spine.labels("level2")
    assert all(
        code.startswith(labels[parent])
        for code, parent in zip(spine.labels("level3"), spine.parents("level3"), strict=True)
    )


def fit(observed, expected):
    return chi2.sf(((observed - expected) ** 2 / expected).sum(), len(observed) - 1)


def test_persons_are_spread_evenly_and_at_random():
    observed = counts(uniform_tree(seed=4))
    even = np.full(len(observed), observed.mean())
    tilted = even * np.where(np.arange(len(observed)) % 2, 1.1, 0.9)
    assert 0.001 < fit(observed, even) < 0.999  # neither uneven nor more even than chance
    assert fit(observed, tilted) < 1e-9


def test_the_same_seed_gives_the_same_counts_and_another_seed_others():
    assert np.array_equal(counts(uniform_tree(seed=4)), counts(uniform_tree(seed=4)))
    assert not np.array_equal(counts(uniform_tree(seed=4)), counts(uniform_tree(seed=5)))


@pytest.mark.parametrize("name", ["persons", "mean", "levels"])
@pytest.mark.parametrize("value", [0, -1_000])
def test_numbers_below_1_are_refused_with_the_least(name, value):
    with pytest.raises(InputError, match=rf"^{name} is {value}\. Give a whole number of 1 or more\.$"):
        uniform_tree(**{"seed": 1, name: value})


@pytest.mark.parametrize("name", ["persons", "mean", "levels", "seed"])
@pytest.mark.parametrize("value", [1.5, "3", None, True])
def test_what_is_not_a_whole_number_is_refused_by_name(name, value):
    with pytest.raises(InputError, match=rf"^{name} is {value!r}\. Give a whole number of [01] or more\.$"):
        uniform_tree(**{"seed": 1} | {name: value})


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match=r"^seed is -1\. Give a whole number of 0 or more\.$"):
        uniform_tree(seed=-1)


def test_more_areas_than_memory_holds_are_refused_with_their_number():
    with pytest.raises(InputError, match=r"make 100,000,000 areas\. Give a larger mean\.$"):
        uniform_tree(persons=100_000_000, mean=1, levels=2, seed=1)
