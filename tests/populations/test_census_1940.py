"""The synthetic census of 1940: what must hold at any size, and the published sizes at the nation's."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tallyveil.errors import InputError
from tallyveil.nouns.census_schemas import PERSONS_1940, TYPES_1940, UNITS_2020
from tallyveil.populations.census_1940 import BY_RACE, HISPANIC, PERSONS, census_1940

SIZES = [1, 2, 3, 10, 500, 20_000, 3_000_000]
STRATA = "votingage * hispanic * race"
# Petti & Flaxman 2020, from the precise counts of 1940: median, mean, standard deviation, 95th percentile.
TOTAL_COUNTS = {
    "state": (1_903_133, 2_596_171.9, 2_645_777, 7_419_040),
    "county": (18_679, 42_601.3, 143_832.1, 122_710),
    "enumdist": (865, 981.8, 762.7, 2_342),
}
STRATIFIED_COUNTS = {
    "state": (229, 131_093.8, 577_137.3, 714_208),
    "county": (47, 5_088.4, 37_147.8, 17_480),
    "enumdist": (88, 245.6, 376.6, 967),
}
UNITS = {"us": 1, "state": 51, "county": 3_108, "enumdist": 134_858}
MINORS, TOLERANCE, MEMORY = 0.306, 0.1, 4 * 2**30


def summary(counts):
    return np.array([np.median(counts), counts.mean(), counts.std(), np.quantile(counts, 0.95)])


def content(population):
    parts = (population.people.leaves, population.facilities.leaves, population.housing.leaves)
    return b"".join(population.people.canonical_bytes()) + b"".join(p for c in parts for p in c.canonical_bytes())


def persons_by_type(population):
    return population.people.answer("hhgq", level="enumdist").dense()


@pytest.fixture(scope="module", params=SIZES)
def census(request):
    return request.param, census_1940(persons=request.param, seed=3)


# ---- any size


def test_every_person_asked_for_is_there_and_no_more(census):
    persons, made = census
    assert made.people.total() == persons


def test_every_district_has_somebody_and_a_code_inside_its_county_and_state(census):
    _, made = census
    spine = made.people.spine
    assert spine.levels == ("us", "state", "county", "enumdist")
    assert made.people.answer("total", level="enumdist").dense().min() >= 1
    for level, above, digits in (("state", "us", 2), ("county", "state", 6), ("enumdist", "county", 10)):
        codes, parents = spine.labels(level), spine.parents(level)
        assert {len(code) for code in codes} == {digits}
        assert "".join(codes).isdigit()
        if above != "us":
            labels = spine.labels(above)
            assert all(code.startswith(labels[parent]) for code, parent in zip(codes, parents, strict=True))


def test_people_facilities_and_housing_stand_on_the_same_districts_and_known_schemas(census):
    _, made = census
    assert made.people.schema == PERSONS_1940
    assert made.housing.schema == UNITS_2020
    assert (made.facilities.attribute, made.facilities.types) == ("hhgq", TYPES_1940)
    assert made.people.spine == made.housing.spine == made.facilities.spine


def test_a_type_has_persons_where_it_has_facilities_and_at_least_one_in_each(census):
    _, made = census
    persons, built = persons_by_type(made), made.facilities.leaves.dense()
    assert ((persons > 0) == (built > 0)).all()
    assert (persons >= built).all()


def test_no_household_has_more_than_99_persons_and_no_group_quarters_more_than_99999(census):
    _, made = census
    persons, built = persons_by_type(made), made.facilities.leaves.dense()
    assert (persons <= built * np.array([99] + [99_999] * 7)).all()


def test_occupied_housing_units_are_the_household_facilities(census):
    _, made = census
    assert np.array_equal(made.housing.leaves.dense()[:, 1], made.facilities.leaves.dense()[:, 0])


@pytest.mark.parametrize(("persons", "sizes"), [(1, [1, 1, 1, 1]), (500, [1, 1, 1, 3]), (6_000_000, [1, 2, 141, 6111])])
def test_a_smaller_country_has_fewer_units_of_the_same_size(persons, sizes):
    spine = census_1940(persons=persons, seed=0).people.spine
    assert [spine.size(level) for level in spine.levels] == sizes
    assert spine.labels("enumdist")[0] == "0100100001"


def test_districts_of_a_small_country_are_as_large_as_the_nation_s():
    counts = census_1940(persons=1_000_000, seed=5).people.answer("total", level="enumdist").dense()
    assert np.allclose(summary(counts) / TOTAL_COUNTS["enumdist"], 1, atol=TOLERANCE)


def test_a_small_country_has_the_nation_s_shares_of_race_ethnicity_and_age():
    answer = census_1940(persons=3_000_000, seed=5).people.answer(STRATA, level="us").dense().reshape(2, 2, 6)
    assert np.allclose(answer.sum(axis=(0, 1)) / 3e6 * PERSONS / BY_RACE, 1, atol=0.05)
    assert answer[:, 1].sum() / 3e6 == pytest.approx(HISPANIC / PERSONS, rel=0.05)
    assert answer[0].sum() / 3e6 == pytest.approx(MINORS, rel=0.05)


def test_people_live_apart_so_that_most_black_persons_live_where_few_others_do():
    race = census_1940(persons=3_000_000, seed=5).people.answer("race", level="enumdist").dense()
    black, everyone = race[:, 1], race.sum(axis=1)
    met = (black * black / everyone).sum() / black.sum()  # share of black persons in a black person's district
    assert met > 4 * black.sum() / everyone.sum()


# ---- seeds


def test_the_same_seed_gives_the_same_bytes():
    assert content(census_1940(persons=50_000, seed=11)) == content(census_1940(persons=50_000, seed=11))


def test_another_seed_gives_other_people_in_as_many_units():
    one, two = (census_1940(persons=50_000, seed=seed) for seed in (11, 12))
    assert content(one) != content(two)
    assert repr(one.people) == repr(two.people)


# ---- bad input


@pytest.mark.parametrize("persons", [0, -5, 10.5, 10.0, True, "10", None, PERSONS + 1])
def test_persons_that_are_not_a_whole_number_from_1_to_the_nation_s_are_refused_with_the_range(persons):
    with pytest.raises(InputError) as caught:
        census_1940(persons=persons, seed=1)
    assert str(caught.value) == f"persons is {persons!r}. Give a whole number from 1 to 132,404,766."


@pytest.mark.parametrize("seed", [-1, 1.5, None, False, 2**64])
def test_a_seed_that_is_not_a_whole_number_from_0_is_refused_with_the_range(seed):
    with pytest.raises(InputError) as caught:
        census_1940(persons=10, seed=seed)
    assert str(caught.value) == f"seed is {seed!r}. Give a whole number from 0 to 18,446,744,073,709,551,615."


# ---- the nation


@pytest.fixture(scope="module")
def nation():
    return census_1940(seed=1).people


@pytest.mark.slow
def test_the_nation_has_the_published_number_of_persons_and_units(nation):
    assert nation.total() == 132_404_766
    assert {level: nation.spine.size(level) for level in nation.spine.levels} == UNITS


@pytest.mark.slow
@pytest.mark.parametrize("level", TOTAL_COUNTS)
@pytest.mark.parametrize(("query", "published"), [("total", TOTAL_COUNTS), (STRATA, STRATIFIED_COUNTS)])
def test_non_empty_counts_have_the_published_median_mean_spread_and_95th_percentile(nation, level, query, published):
    ratios = summary(nation.answer(query, level=level).count) / published[level]
    assert np.allclose(ratios, 1, atol=TOLERANCE), ratios


@pytest.mark.slow
def test_races_and_hispanic_persons_have_the_published_totals(nation):
    answer = nation.answer(STRATA, level="us").dense().reshape(2, 2, 6)
    assert np.allclose(answer.sum(axis=(0, 1)) / BY_RACE, 1, atol=0.01)
    assert answer[:, 1].sum() == pytest.approx(2_202_645, rel=0.01)
    assert answer[0].sum() / nation.total() == pytest.approx(MINORS, rel=0.01)


@pytest.mark.slow
def test_the_homogeneity_index_runs_from_0_to_23_and_is_mostly_20_to_22(nation):
    empty = 24 - np.diff(nation.answer(STRATA, level="enumdist").start)
    assert (empty.min(), empty.max()) == (0, 23)
    assert np.isin(empty, (20, 21, 22)).mean() > 0.5


@pytest.mark.slow
def test_one_person_in_forty_lives_in_group_quarters_and_most_districts_have_none(nation):
    persons = nation.answer("hhgq", level="enumdist").dense()
    assert persons[:, 1:].sum() / persons.sum() == pytest.approx(0.025, rel=TOLERANCE)
    assert (persons[:, 1:].sum(axis=1) == 0).mean() > 0.5


@pytest.mark.slow
def test_the_nation_takes_less_than_4_gib():
    program = (
        "import json, resource; from tallyveil.populations.census_1940 import census_1940; "
        "total = census_1940(seed=2).people.total(); "
        "print(json.dumps([total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    total, peak = json.loads(done.stdout)
    assert total == PERSONS
    assert 2**26 < peak < MEMORY
