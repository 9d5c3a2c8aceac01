"""The mechanisms of flaxman2019: their noise by chi-square, raking by fractions, and what each stream depends on."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_people import PLAUSIBLE, countries, country, geometric_pmf, p_value

from tallyveil.errors import BudgetError, InputError
from tallyveil.mechanisms.averaged import averaged
from tallyveil.mechanisms.geometric import geometric
from tallyveil.mechanisms.noisy import noise_stream
from tallyveil.mechanisms.raked import rake, raked
from tallyveil.populations import uniform_tree
from tallyveil.privacy import Geometric, RunKey, draw

TREE = uniform_tree(seed=1).people  # the paper's: 9,261 areas, J = 3
ALL = [geometric, averaged, raked]
TRUTH = TREE.answer("total", level="level3").dense()
SMALL = country(np.arange(36).reshape(6, 6))


def noise(mechanism, **options):
    """The errors at the leaves, all replicates."""
    return mechanism(TREE, seed=1, **options).answer("total", level="level3") - TRUTH


# -- geometric and averaged


@pytest.mark.parametrize(("neighbours", "z"), [("add-or-remove", "0.5"), ("replace-one", "0.25")])
def test_geometric_noise_has_the_parameter_that_its_neighbours_ask_for(neighbours, z):
    found = noise(geometric, epsilon="0.5", neighbours=neighbours, replicate=range(6)).reshape(-1).tolist()
    assert p_value(found, geometric_pmf(z)) > PLAUSIBLE
    assert p_value(found, geometric_pmf(Fraction(z) * 11 / 10)) < 1e-9
    assert p_value(found, geometric_pmf(-np.log1p(-float(Fraction(z))))) < 1e-9  # ratio 1 - z (erratum 1)


@pytest.mark.parametrize(("neighbours", "z"), [("add-or-remove", "1/3"), ("replace-one", "1/6")])
def test_averaged_noise_is_the_mean_of_independent_parts(neighbours, z):
    found = 3 * noise(averaged, epsilon=1, parts=3, neighbours=neighbours, replicate=range(6)).reshape(-1)
    assert np.abs(found - np.rint(found)).max() < 1e-9
    found = np.rint(found).astype(int).tolist()
    assert p_value(found, geometric_pmf(z, parts=3)) > PLAUSIBLE
    assert p_value(found, geometric_pmf(Fraction(z) * 11 / 10, parts=3)) < 1e-9


def test_one_part_is_as_noisy_as_the_geometric_mechanism():
    found = noise(averaged, epsilon="0.5", parts=1, replicate=range(4)).astype(int).reshape(-1).tolist()
    assert p_value(found, geometric_pmf("0.5")) > PLAUSIBLE
    assert p_value(found, geometric_pmf("0.55")) < 1e-9


def test_every_cell_of_the_query_gets_noise_also_the_empty_ones():
    nobody = country(np.zeros((6, 6), dtype=int))
    found = geometric(nobody, epsilon="0.1", query="age * race", seed=3).answer("detailed", level="block")
    assert np.count_nonzero(found) > 30
    assert np.unique(found).size > 15


# -- raked


def raked_by_fractions(people, query, z, stream, replicate):
    """The definition, in exact fractions, from the same noise."""
    tables, spine = {}, people.spine
    for depth, level in enumerate(spine.levels):
        truth = people.answer(query, level=level).dense()
        extra = draw(Geometric(z=z), stream, np.arange(truth.size), level=depth, replicate=replicate)
        noisy = [[Fraction(int(x)) for x in row] for row in truth + extra.reshape(truth.shape)]
        if depth:
            parents = tables[spine.levels[depth - 1]]
            for p in range(len(parents)):
                children = range(spine.first_child[depth - 1][p], spine.first_child[depth - 1][p + 1])
                for row in range(len(noisy[0])):
                    total = sum(noisy[child][row] for child in children)
                    for child in children:
                        if total:
                            noisy[child][row] *= parents[p][row] / total
                        else:
                            noisy[child][row] += parents[p][row] / len(children)
        tables[level] = noisy
    return tables


@settings(max_examples=30)
@given(countries(), st.sampled_from(["total", "age", "detailed"]), st.integers(0, 99))
def test_raked_counts_are_the_definition_and_children_sum_to_parents(people, query, replicate):
    found = raked(people, epsilon="1/2", query=query, seed=5, replicate=replicate)
    z = Fraction(1, 8)  # four levels
    name = people.schema.query(query).name
    expected = raked_by_fractions(people, query, z, noise_stream(people, "raked", z, name, seed=5, key=None), replicate)
    assert list(found.tables) == list(people.spine.levels)
    for depth, level in enumerate(people.spine.levels):
        wanted = np.array(expected[level], dtype=float)
        got = found.answer(query, level=level)[0]
        assert got == pytest.approx(wanted, rel=1e-9, abs=1e-9 * np.abs(wanted).max())
        if depth:
            sums = np.add.reduceat(got, people.spine.first_child[depth - 1][:-1], axis=0)
            above = found.tables[people.spine.levels[depth - 1]][0]
            assert sums == pytest.approx(above, rel=1e-9, abs=1e-9 * np.abs(got).max())


@pytest.mark.parametrize(("neighbours", "z"), [("add-or-remove", "1/4"), ("replace-one", "1/8")])
def test_the_root_spends_one_share_of_the_levels(neighbours, z):
    found = raked(SMALL, epsilon=1, neighbours=neighbours, seed=2, replicate=range(20_000))
    errors = (found.answer("total", level="us") - SMALL.total()).reshape(-1).astype(int).tolist()
    assert p_value(errors, geometric_pmf(z)) > PLAUSIBLE
    assert p_value(errors, geometric_pmf(Fraction(z) * 11 / 10)) < 1e-6


def test_children_that_sum_to_zero_share_the_parents_count_equally():
    noisy = np.array([[[-3.0], [3.0], [0.0], [5.0]]])
    assert rake(noisy, np.array([[[6.0], [4.0]]]), np.array([0, 3, 4])).tolist() == [[[-1.0], [5.0], [2.0], [4.0]]]
    assert rake(np.zeros((1, 4, 1)), np.array([[[8.0]]]), np.array([0, 4])).tolist() == [[[2.0]] * 4]


# -- streams


@pytest.mark.parametrize("mechanism", ALL)
def test_a_range_of_replicates_gives_what_they_give_one_by_one(mechanism):
    together = mechanism(SMALL, epsilon=1, query="age", seed=1, replicate=range(3, 9, 2))
    alone = [mechanism(SMALL, epsilon=1, query="age", seed=1, replicate=r) for r in (3, 5, 7)]
    for level in together.tables:
        assert np.array_equal(together.tables[level], np.concatenate([one.tables[level] for one in alone]))
        assert not np.array_equal(alone[0].tables[level], alone[1].tables[level])


def correlation(one, other):
    return abs(np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1])


@pytest.mark.parametrize("mechanism", ALL)
def test_the_same_measurement_meets_the_same_noise_and_any_other_an_independent_one(mechanism):
    base = noise(mechanism, epsilon=1)
    assert np.array_equal(base, noise(mechanism, epsilon="1"))
    assert correlation(base, noise(mechanism, epsilon="1.000001")) < 0.05  # one stream would give 1
    assert correlation(base, noise(mechanism, epsilon=1, replicate=1)) < 0.05
    other = mechanism(TREE, epsilon=1, seed=2).answer("total", level="level3") - TRUTH
    assert correlation(base, other) < 0.05
    fewer = uniform_tree(persons=999_999, seed=1).people
    moved = mechanism(fewer, epsilon=1, seed=1).answer("total", level="level3")
    assert correlation(base, moved - fewer.answer("total", level="level3").dense()) < 0.05


def test_mechanisms_and_parts_have_streams_of_their_own():
    found = [noise(geometric, epsilon="1/4"), noise(raked, epsilon=1), 4 * noise(averaged, epsilon=1, parts=4)]
    found += [noise(averaged, epsilon="1/4", parts=1)]
    for i, one in enumerate(found):
        assert max(correlation(one, other) for other in found[:i] + found[i + 1 :]) < 0.05


def test_half_the_epsilon_for_one_kind_of_neighbours_is_the_same_measurement_as_epsilon_for_the_other():
    one = noise(geometric, epsilon=1, neighbours="replace-one")
    assert np.array_equal(one, noise(geometric, epsilon="1/2", neighbours="add-or-remove"))


def test_without_a_seed_two_runs_differ_and_a_key_gives_its_own_noise_again():
    key = RunKey.from_system()
    first, again = (geometric(SMALL, epsilon="0.01", key=key).tables["block"] for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, geometric(SMALL, epsilon="0.01").tables["block"])


# -- what is refused


@pytest.mark.parametrize("mechanism", ALL)
def test_wrong_options_are_refused(mechanism):
    with pytest.raises(BudgetError, match=r'neighbours must be "replace-one" or "add-or-remove". Got \'both\''):
        mechanism(SMALL, epsilon=1, neighbours="both", seed=1)
    with pytest.raises(BudgetError, match=r"epsilon must be greater than 0\. Got 0"):
        mechanism(SMALL, epsilon=0, seed=1)
    with pytest.raises(InputError, match="a seed and a key are both given"):
        mechanism(SMALL, epsilon=1, seed=1, key=RunKey.from_seed(1))
    with pytest.raises(InputError, match=r"replicate range\(2, 2\): give a whole number, or a range"):
        mechanism(SMALL, epsilon=1, seed=1, replicate=range(2, 2))
    with pytest.raises(InputError, match="unknown factor 'sex'"):
        mechanism(SMALL, epsilon=1, seed=1, query="sex")


@pytest.mark.parametrize("parts", [0, 2.5, True, 5000])
def test_parts_that_are_no_number_of_runs_are_refused(parts):
    with pytest.raises(InputError, match=f"parts must be a whole number from 1 to 4,096. Got {parts}"):
        averaged(SMALL, epsilon=1, parts=parts, seed=1)


def test_a_synthetic_census_can_be_given_whole():
    census = uniform_tree(persons=1000, mean=10, levels=2, seed=1)
    for mechanism in ALL:
        one, other = (mechanism(given, epsilon=1, seed=1).tables["level2"] for given in (census, census.people))
        assert np.array_equal(one, other)
