"""The censuses' schemas fit the published strategies and the Bureau's codes."""

import pytest

from tallyveil import Strategy, schemas
from tallyveil.populations import census_2020


def test_races_stand_in_the_order_of_the_bureaus_codes():
    assert len(schemas.RACES_2020) == 63
    assert schemas.RACES_2020[:6] == ("white", "black", "aian", "asian", "nhpi", "other")  # CENRACE 1 to 6
    assert schemas.RACES_2020[6] == "white+black"  # CENRACE 7
    assert schemas.RACES_2020[20] == "nhpi+other"  # CENRACE 21, the last of two races
    assert schemas.RACES_2020[62].count("+") == 5  # CENRACE 63, all six


def test_cells_are_192_in_1940_and_2016_in_2020_with_no_minors_in_nursing_homes():
    assert schemas.PERSONS_1940.cells == 192
    assert schemas.PERSONS_2020.cells == 2016
    assert int((~schemas.PERSONS_2020.possible).sum()) == 2 * 63


def test_the_2020_strategies_fit_the_2020_population():
    town = census_2020(persons=500, seed=1)
    Strategy.preset("pl94-2020-us-persons").check(town.people.spine, town.people.schema)
    Strategy.preset("pl94-2020-us-units").check(town.housing.spine, town.housing.schema)


@pytest.mark.parametrize("query", ["hhinstlevels", "hispanic * cenrace", "votingage * hispanic"])
def test_queries_of_the_2020_strategy_have_the_published_sizes(query):
    sizes = {"hhinstlevels": 3, "hispanic * cenrace": 126, "votingage * hispanic": 4}
    assert schemas.PERSONS_2020.query(query).size == sizes[query]
