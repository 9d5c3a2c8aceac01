"""Copies of a census with other shares of strata of one person: what changes, and what must not."""

import numpy as np
import pytest

from tallyveil.populations import census_1940
from tallyveil_papers.petti.lone_persons import MOST, share_of_one, with_other_lone_persons
from tallyveil_papers.petti.runs import STRATA

WAYS = [("pair", "enumdist"), ("grow", "enumdist"), ("join", "enumdist"), ("shrink", "enumdist"),
        ("pair", "county"), ("grow", "county"), ("join", "county")]  # fmt: skip
ABOVE = {"enumdist": "county", "county": "state"}


@pytest.fixture(scope="module")
def people():
    return census_1940(persons=10_000_000, seed=2).people


def strata(people, level):
    return people.answer(STRATA, level=level).dense()


@pytest.mark.parametrize(("way", "level"), WAYS)
def test_totals_parents_and_types_of_home_stay_and_so_does_what_is_empty_unless_persons_join_others(people, way, level):
    copy = with_other_lone_persons(people, way, 1.0, level=level)
    for query, at in (("total", "enumdist"), (STRATA, ABOVE[level]), ("hhgq", "enumdist"), ("hhgq", "us")):
        assert (copy.answer(query, level=at).dense() == people.answer(query, level=at).dense()).all()
    empty = (strata(copy, level) == 0) == (strata(people, level) == 0)
    assert empty.all() == (way != "join")


@pytest.mark.parametrize(("way", "level"), WAYS)
def test_the_share_of_strata_of_one_person_moves_as_the_way_says(people, way, level):
    shares = [
        share_of_one(with_other_lone_persons(people, way, fraction, level=level), level=level, query=STRATA)
        for fraction in (0.0, 0.5, 1.0)
    ]
    assert shares[0] == share_of_one(people, level=level, query=STRATA)
    steps = np.diff(shares) if way == "shrink" else -np.diff(shares)
    assert (steps > 0.01).all()


@pytest.mark.parametrize(("way", "sizes"), [("pair", {2}), ("grow", set(range(2, MOST + 1))), ("join", {0})])
def test_lone_persons_become_what_the_way_says(people, way, sizes):
    before, after = strata(people, "enumdist"), strata(with_other_lone_persons(people, way, 1.0), "enumdist")
    changed = after[(before == 1) & (after != 1)]
    assert len(changed) > 2000
    assert set(changed.tolist()) == sizes


def test_strata_of_2_to_12_become_1_and_only_large_ones_give_or_take(people):
    before, after = strata(people, "enumdist"), strata(with_other_lone_persons(people, "shrink", 1.0), "enumdist")
    small = (before >= 2) & (before <= MOST)
    assert (after[small] <= before[small]).all()
    assert (after[small] == 1).mean() > 0.5
    assert (after[before == 1] == 1).all()
    assert (after[before > MOST] >= MOST // 2).all()


def test_nothing_changes_without_a_partner_and_a_seed_gives_the_same_copy(people):
    village = census_1940(persons=500, seed=7).people
    assert with_other_lone_persons(village, "grow", 1.0).leaves == village.leaves
    one, again, other = (with_other_lone_persons(people, "grow", 0.5, seed=seed) for seed in (1, 1, 2))
    assert one.leaves == again.leaves != other.leaves
