"""The synthetic census of 2020: what must always hold, and how near it comes to real blocks."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tallyveil.errors import InputError
from tallyveil.nouns.census_schemas import PERSONS_2020, RACES_2020, TYPES_2020, UNITS_2020
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.spine import Spine
from tallyveil.populations import census_2020_people
from tallyveil.populations.census_2020 import census_2020

DOCS = Path(__file__).parents[2] / "docs"
RHODE_ISLAND = 1_052_567
# Rhode Island, 2010 census, summary file blocks (the sixteen cells of `sixteen`), computed from
# Rhode Island, 2010 census, every block: 25,181 blocks, 815 block groups, 244 tracts.
REAL = {
    "share of blocks empty": 0.299,
    "cells per block": 3.05,
    "cells per non-empty block": 4.35,
    "cells per block group": 12.24,
    "cells per tract": 13.90,
}


@cache
def made(persons: int, seed: int = 1) -> Population:
    return census_2020(persons=persons, seed=seed)


def sixteen(people: Histogram, level: str) -> Counts:
    """Adult or minor x six races alone, two or more, hispanic: the cells of the real file."""
    rows = []
    for label in people.schema.query("detailed").labels():
        _, age, ethnicity, race = label.split("*")
        group = 7 if ethnicity == "hispanic" else min(RACES_2020.index(race), 6)
        rows.append(8 * (age == "adult") + group)
    return people.leaves.merged(people.spine.leaves_under(level), np.array(rows, dtype=np.int32), 16)


def texture(people: Histogram) -> dict[str, float]:
    cells = {level: np.diff(sixteen(people, level).start) for level in ("block", "block_group", "tract")}
    return {
        "share of blocks empty": float((cells["block"] == 0).mean()),
        "cells per block": float(cells["block"].mean()),
        "cells per non-empty block": float(cells["block"][cells["block"] > 0].mean()),
        "cells per block group": float(cells["block_group"].mean()),
        "cells per tract": float(cells["tract"].mean()),
    }


def column(people: Histogram, query: str, level: str = "block") -> np.ndarray:
    return people.answer(query, level=level).dense()


def digest(population: Population) -> tuple[bytes, ...]:
    return (
        b"".join(population.people.canonical_bytes()),
        b"".join(population.facilities.leaves.canonical_bytes()),
        b"".join(population.housing.canonical_bytes()),
        *(areas.of_leaf.tobytes() for areas in population.areas.values()),
    )


# --- what always holds ---


@pytest.mark.parametrize("persons", [1, 2, 3, 40, 61, 62, 300, 4_321, 100_000])
@pytest.mark.parametrize("seed", [0, 1, 2**70])
def test_every_size_from_one_person_up_has_exactly_the_persons_asked_for(persons, seed):
    population = census_2020(persons=persons, seed=seed)
    assert population.people.total() == persons
    assert population.people.schema == PERSONS_2020


def test_codes_are_geoids_that_nest_by_prefix():
    spine = made(15_000_000).people.spine
    lengths = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
    assert spine.size("state") == 2
    assert spine == Spine.from_codes(spine.codes[-1], lengths=lengths, root="us")


def test_the_block_group_is_the_first_digit_of_the_block_number_and_never_zero():
    spine = made(15_000_000).people.spine
    digit = np.array([code[11:12] for code in spine.codes[-1]])
    assert (digit == np.array([code[11:12] for code in spine.codes[-2]])[spine.parents("block")]).all()
    assert set(digit) <= {b"%d" % i for i in range(1, 10)}
    assert np.diff(spine.first_child[-2]).max() <= 9


def test_a_smaller_population_has_fewer_units_of_the_same_size():
    small, large = made(100_000).people.spine, made(15_000_000).people.spine
    for level, tolerance in (("block", 0.01), ("block_group", 0.01), ("tract", 0.03)):
        assert 100_000 / small.size(level) == pytest.approx(15_000_000 / large.size(level), rel=tolerance)


def test_empty_blocks_are_kept():
    people = made(100_000).people
    assert people.leaves.units == people.spine.size("block")
    assert 0.2 < (np.diff(people.leaves.start) == 0).mean() < 0.4


def test_nobody_below_eighteen_lives_in_a_nursing_home():
    table = column(made(1_000_000).people, "hhgq * votingage", "us").reshape(8, 2)
    assert table[TYPES_2020.index("nursing")].tolist()[0] == 0
    assert table[TYPES_2020.index("nursing"), 1] > 1_000
    assert table[TYPES_2020.index("juvenile"), 0] > 0


@pytest.mark.parametrize("persons", [1, 300, 1_000_000])
def test_persons_live_where_facilities_are_and_group_quarters_are_never_empty(persons):
    population = made(persons)
    people, built = column(population.people, "hhgq"), population.facilities.leaves.dense()
    assert population.facilities.attribute == "hhgq"
    assert population.facilities.types == TYPES_2020
    assert (people <= 99_999 * built).all()
    assert (people[:, 1:] >= built[:, 1:]).all()
    if persons == 1_000_000:
        assert (built.sum(axis=0) > 0).all()


@pytest.mark.parametrize("persons", [1, 300, 1_000_000])
def test_housing_is_occupied_where_households_are_and_by_no_more_than_the_adults_there(persons):
    population = made(persons)
    vacant, occupied = population.housing.leaves.dense().T
    minors, adults = column(population.people, "hhgq * votingage").reshape(-1, 8, 2)[:, 0].T
    assert population.housing.schema == UNITS_2020
    assert ((occupied > 0) == (minors + adults > 0)).all()
    assert (occupied <= adults).all()
    assert (population.facilities.leaves.dense()[:, 0] == vacant + occupied).all()


def test_the_same_seed_gives_the_same_population_and_another_seed_another():
    first, again, other = (digest(census_2020(persons=1_000_000, seed=seed)) for seed in (5, 5, 6))
    assert first == again
    assert all(mine != theirs for mine, theirs in zip(first, other, strict=True))


def test_the_size_of_chunks_changes_nothing(monkeypatch):
    whole = digest(census_2020(persons=50_000, seed=3))
    monkeypatch.setattr(census_2020_people, "CHUNK", 777)
    assert digest(census_2020(persons=50_000, seed=3)) == whole


@pytest.mark.parametrize(
    ("persons", "seed", "message"),
    [
        (0, 1, r"persons is 0\. Give a whole number from 1 to 331,449,281"),
        (-5, 1, r"persons is -5\. Give"),
        (10.5, 1, r"persons is 10\.5\. Give a whole number from 1"),
        ("many", 1, r"persons is 'many'\. Give"),
        (331_449_282, 1, r"persons is 331449282\. Give a whole number from 1 to 331,449,281"),
        (10, -1, r"seed is -1\. Give a whole number of 0 or more"),
        (10, 1.5, r"seed is 1\.5\. Give a whole number of 0 or more"),
        (10, None, r"seed is None\. Give a whole number"),
    ],
)
def test_a_wrong_size_or_seed_is_refused_with_the_value_and_the_remedy(persons, seed, message):
    with pytest.raises(InputError, match=message):
        census_2020(persons=persons, seed=seed)


# --- areas ---


def test_places_cross_block_groups_and_tracts_but_not_states_and_leave_many_blocks_out():
    population = made(15_000_000)
    spine, places = population.people.spine, population.areas["place"]
    inside = places.of_leaf >= 0
    assert 0.2 < inside.mean() < 0.8
    assert len(set(places.names)) == len(places.names)
    for level, units_in_many in (("block_group", 1_000), ("tract", 500)):
        unit = np.repeat(np.arange(spine.size(level)), np.diff(spine.leaves_under(level)))
        pairs = np.unique(np.stack([unit[inside], places.of_leaf[inside]]), axis=1)
        assert (np.bincount(pairs[0]) > 1).sum() > units_in_many / 10  # units shared by places
        assert (np.bincount(pairs[1]) > 1).sum() > units_in_many / 2  # places in several units
    names = np.array(places.names)[places.of_leaf[inside]]
    assert all(name[:2] == code[:2].decode() for name, code in zip(names, spine.codes[-1][inside], strict=True))


def test_tribal_areas_are_few_and_their_aian_share_is_many_times_the_nations():
    population = made(15_000_000)
    tribal, people = population.areas["tribal"], population.people
    assert 5 <= len(tribal.names) <= 20
    assert len({name[:2] for name in tribal.names}) == 1
    aian = np.array(people.schema.query("cenrace").row_of_cell == RACES_2020.index("aian"))
    table = tribal.tabulate(people.leaves).dense().sum(axis=0)
    assert table[aian].sum() / table.sum() > 0.4
    assert column(people, "cenrace", "us")[0, RACES_2020.index("aian")] / people.total() < 0.02


# --- how near to real blocks ---


def test_blocks_block_groups_and_tracts_are_as_empty_as_those_of_rhode_island():
    ours = texture(made(RHODE_ISLAND).people)
    assert ours == pytest.approx(REAL, rel=0.2)


def test_without_segregation_blocks_would_not_be_like_those_of_rhode_island(monkeypatch):
    monkeypatch.setattr(census_2020_people, "SEGREGATION", dict.fromkeys(census_2020_people.SEGREGATION, 0.0))
    monkeypatch.setattr(census_2020_people, "PERSON_CONCENTRATION", 1e6)
    ours = texture(census_2020(persons=300_000, seed=1).people)
    assert ours["cells per block"] > 1.2 * REAL["cells per block"]
    assert ours["cells per non-empty block"] > 1.2 * REAL["cells per non-empty block"]


def test_block_sizes_are_skewed_like_those_of_rhode_island():
    total = column(made(RHODE_ISLAND).people, "total")[:, 0]
    assert total.mean() == pytest.approx(41.8, rel=0.1)
    assert np.median(total) == pytest.approx(21, rel=0.25)
    assert np.quantile(total, 0.95) == pytest.approx(153, rel=0.2)
    assert total.std() == pytest.approx(77, rel=0.25)


def test_a_non_empty_block_has_eight_to_ten_of_the_2016_cells():
    cells = np.diff(made(RHODE_ISLAND).people.leaves.start)
    assert 8 <= cells[cells > 0].mean() <= 10


def test_the_composition_is_the_nations_of_2020():
    people = made(15_000_000).people
    percent = 100 / people.total()
    # Race alone and two or more, hispanic, adults, group quarters: 2020 census, redistricting file.
    race = column(people, "cenrace", "us")[0] * percent
    assert [*race[:6], race[6:].sum()] == pytest.approx([61.6, 12.4, 1.1, 6.0, 0.2, 8.4, 10.2], abs=0.5)
    assert column(people, "hispanic", "us")[0, 1] * percent == pytest.approx(18.7, abs=0.5)
    assert column(people, "votingage", "us")[0, 1] * percent == pytest.approx(77.9, abs=0.3)
    assert 100 - column(people, "hhgq", "us")[0, 0] * percent == pytest.approx(2.5, abs=0.3)


def test_group_quarters_stand_in_few_blocks():
    quarters = column(made(15_000_000).people, "hhgq")[:, 1:].sum(axis=1)
    assert 0.005 < (quarters > 0).mean() < 0.04
    largest = np.sort(quarters)[::-1]
    assert largest[: len(largest) // 200].sum() > 0.7 * quarters.sum()


def test_the_table_in_the_manual_is_what_its_snippet_computes():
    text = (DOCS / "populations_2020.md").read_text()
    names: dict[str, dict[str, float]] = {}
    exec(text.split("```python\n")[1].split("```")[0], names)  # the manual's own code
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and line.count("|") == 6]
    shown = {row[1].strip(): row for row in rows}
    assert len(names["ours"]) >= 10
    for name, value in names["ours"].items():
        real, ours, ratio = (float(shown[name][i].strip().replace(",", "")) for i in (2, 3, 4))
        assert ours == pytest.approx(value, rel=0.02), name
        assert ratio == pytest.approx(ours / real, abs=0.01), name


# --- the nation ---

NATION = """
import json, resource
from tallyveil.populations.census_2020 import census_2020
people = census_2020(seed=1).people
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
states, counties = (people.answer("total", level=level).dense()[:, 0] for level in ("state", "county"))
print(json.dumps({
    "peak": peak,
    "persons": people.total(),
    "units": {level: people.spine.size(level) for level in people.spine.levels},
    "states": [int(states.min()), int(states.max())],
    "skew": float(counties.mean() / sorted(counties)[len(counties) // 2]),
}))
"""


@pytest.mark.slow
def test_the_nation_has_all_its_persons_and_units_and_fits_in_eight_gibibytes():
    run = subprocess.run([sys.executable, "-c", NATION], capture_output=True, text=True, check=True, timeout=600)
    found = json.loads(run.stdout)
    assert found["persons"] == 331_449_281
    assert found["units"] == {
        "us": 1,
        "state": 51,
        "county": 3_143,
        "tract": 84_400,
        "block_group": 240_000,
        "block": 8_100_000,
    }
    assert found["peak"] < 8
    assert found["states"][1] > 20 * found["states"][0]
    assert found["skew"] > 2
