"""Swapping: what it keeps, how it deals people back, and how many move."""

from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_people import PLAUSIBLE, countries, country, p_value

from tallyveil.errors import InputError
from tallyveil.mechanisms.swapping import swap
from tallyveil.populations import census_1940

QUERIES = ["total", "age", "either", "age * race"]


@settings(max_examples=30)
@given(countries(), st.fractions(0, 1), st.sampled_from(QUERIES), st.sampled_from(["us", "state", "county"]))
def test_leaves_keep_their_counts_by_key_and_the_level_keeps_everything(people, rate, match, level):
    after = swap(people, rate=rate, match=match, level=level, seed=4)
    assert after.drawn == round(rate * people.total())
    assert 0 <= after.moved <= after.drawn
    for below in people.spine.levels:
        assert after.people.answer(match, level=below) == people.answer(match, level=below)
    assert after.people.at(level) == people.at(level)
    changed = np.abs(after.people.leaves.dense() - people.leaves.dense()).sum()
    assert changed <= 2 * after.moved  # each who moves changes two counts at most


def test_nothing_changes_where_nobody_is_drawn_or_everybody_is_alike():
    people = country(np.arange(36).reshape(6, 6))
    nobody = swap(people, rate=0, match="age", level="county", seed=1)
    assert (nobody.people, nobody.drawn, nobody.moved) == (people, 0, 0)
    alike = swap(people, rate=1, match="age * race", level="state", seed=1)
    assert alike.people == people  # people trade places with their doubles
    assert alike.moved > 0


def test_people_without_anybody_to_trade_with_stay():
    people = country([[4, 0, 0, 0, 0, 0], [0, 0, 0, 4, 0, 0], [5, 5, 5, 5, 5, 5]], families=[[2, 1]])
    after = swap(people, rate=1, match="age", level="county", seed=1)
    assert (after.people, after.drawn, after.moved) == (people, 38, 0)


# Counties of two blocks with 3 and 2 persons, of cells 0, 0, 1 and 1, 2; all trade, each county for itself.
COUNTIES = 2000
TRADERS = country([[2, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]] * COUNTIES, families=[[2] * 50] * (COUNTIES // 50))


def first_block_by_listing():
    """What the first block may hold after dealing five persons in any order, and how many of them move."""
    people, places = [0, 0, 1, 1, 2], [0, 0, 0, 1, 1]
    blocks, moves = Counter(), []
    for order in permutations(range(5)):
        blocks[tuple(np.bincount([people[who] for who in order[:3]], minlength=3).tolist())] += 1
        moves.append(sum(places[who] != places[i] for i, who in enumerate(order)))
    return {block: times / 120 for block, times in blocks.items()}, np.array(moves)


def test_people_are_dealt_back_as_if_all_orders_were_equally_likely():
    pmf, moves = first_block_by_listing()
    runs = [swap(TRADERS, rate=1, match="total", level="county", seed=7, replicate=run) for run in range(10)]
    found = [tuple(row) for run in runs for row in run.people.leaves.dense()[::2, :3].tolist()]
    off = {block: p * 1.1 ** block[0] for block, p in pmf.items()}
    assert p_value(found, pmf) > PLAUSIBLE
    assert p_value(found, {block: p / sum(off.values()) for block, p in off.items()}) < 1e-6
    error = moves.std() / np.sqrt(10 * COUNTIES)
    moved = sum(run.moved for run in runs) / (10 * COUNTIES)
    assert abs(moved - moves.mean()) < 4 * error < 0.05 * moves.mean()


def test_the_people_drawn_are_a_share_of_each_group_on_average():
    people = census_1940(persons=200_000, seed=1).people
    # With a level of one family and all alike on the key, a person drawn moves unless dealt back to their own leaf.
    after = swap(people, rate=0.2, match="total", level="us", seed=1)
    share = people.answer("total", level="enumdist").dense()[:, 0] / people.total()
    expected = after.drawn * (1 - (share**2).sum())
    assert after.drawn == 40_000
    assert abs(after.moved - expected) < 5 * np.sqrt(after.drawn * (share**2).sum())


def test_the_seed_and_the_replicate_decide():
    people = census_1940(persons=50_000, seed=1).people
    options = {"rate": 0.1, "match": "votingage", "level": "state"}
    base = swap(people, **options, seed=1).people
    assert base != people
    assert base == swap(people, **options, seed=1, replicate=0).people
    assert base != swap(people, **options, seed=2).people
    assert base != swap(people, **options, seed=1, replicate=1).people


def test_wrong_options_are_refused():
    with pytest.raises(InputError, match="level 'block' is the finest, so nobody can move"):
        swap(TRADERS, rate=0.1, match="age", level="block", seed=1)
    with pytest.raises(InputError, match=r"rate must be from 0 to 1\. Got 2"):
        swap(TRADERS, rate=2, match="age", level="county", seed=1)
    with pytest.raises(InputError, match="unknown factor 'sex'"):
        swap(TRADERS, rate=Fraction(1, 2), match="sex", level="county", seed=1)
