"""The optimised spine of 2020, against plain loops over states, tracts and kinds of blocks."""

import pickle
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from brute_force import refused

from tallyveil.nouns.areas import Areas
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.spine_optimiser import optimise_spine
from tallyveil.populations import census_2020
from tallyveil.privacy import Strategy

LEVELS = ("state", "county", "tract", "block_group", "block")
TYPES = ("prison", "household", "college", "nursing")
SCHEMA = Schema(attributes={"age": ["child", "adult"]})


def geography(seed):
    """A random country: path, place, tribal area and facility types of each block, in no order."""
    rng = Random(seed)
    blocks = []
    levels = rng.choice([LEVELS, LEVELS, LEVELS[:1] + LEVELS[2:], LEVELS[:1] + LEVELS[3:]])
    paths = [()]
    for level in levels:
        family = {"tract": [1, 2, 3], "block": [1, 3, 17, 40]}.get(level, [1, 2, 2])
        paths = [(*p, (p[-1] if p else "") + f"{i:02}") for p in paths for i in range(rng.choice(family))]
    tribal_states = {path[0] for path in paths if rng.random() < 0.5}
    for path in paths:
        tribal = rng.choice(["", "Pueblo", "Hopi"]) if path[0] in tribal_states else ""
        place = rng.choice(["", "", "", "Troy"])
        types = {kind for kind in TYPES if rng.random() < (0.9 if kind == "household" else 0.05)}
        blocks.append((path, place, tribal, types))
    rng.shuffle(blocks)
    return levels, blocks


def areas(spine, named):
    inside = {code: name for code, name in named if name}
    return Areas.from_codes(spine, leaf=list(inside) or np.empty(0, "S1"), area=list(inside.values()))


def build(levels, blocks):
    spine = Spine.from_columns({level: [path[i] for path, *_ in blocks] for i, level in enumerate(levels)}, root="us")
    built = [(path[-1], TYPES.index(kind)) for path, *_, types in blocks for kind in sorted(types)]
    facilities = Facilities.from_entries(
        spine,
        attribute="home",
        types=TYPES,
        unit=spine.locate(spine.leaf, [code for code, _ in built]) if built else [],
        kind=[kind for _, kind in built],
        count=[3] * len(built),
    )
    tribal = areas(spine, [(path[-1], tribal) for path, _, tribal, _ in blocks])
    place = areas(spine, [(path[-1], place) for path, place, _, _ in blocks])
    return spine, tribal, place, facilities


def slowly_optimised(blocks):
    """Every new block group as (flag, standard path of its tract, its blocks), in order."""
    groups = []
    tracts = sorted({(int(tribal != ""), path[:-2]) for path, _, tribal, _ in blocks})
    for flag, tract in tracts:
        here = sorted(b for b in blocks if b[0][:-2] == tract and int(b[2] != "") == flag)
        cutoff = int(len(here) ** 0.5 + 12)
        by_kind = {}
        for path, place, tribal, types in here:
            by_kind.setdefault((place, tribal, frozenset(types - {"household"})), []).append(path[-1])
        made = []
        for codes in by_kind.values():
            group = []
            for code in codes:
                if len(group) > cutoff:  # as the Bureau's code: after counting
                    made.append(group)
                    group = []
                group.append(code)
            made.append(group)
        groups += [(flag, tract, group) for group in sorted(made)]
    return groups


def leaves_of(spine, level):
    codes = spine.labels(spine.leaf)
    return [codes[a:b] for a, b in pairwise(spine.leaves_under(level))]


@pytest.mark.parametrize("seed", range(40))
def test_the_spine_is_what_a_plain_loop_over_tracts_makes(seed):
    levels, blocks = geography(seed)
    spine, tribal, place, facilities = build(levels, blocks)
    made = optimise_spine(spine, tribal=tribal, place=place, facilities=facilities)
    slow = slowly_optimised(blocks)
    assert made.spine.levels == spine.levels
    assert leaves_of(made.spine, "block_group") == [group for _, _, group in slow]
    for depth, level in enumerate(levels[:-2]):
        parts = list(dict.fromkeys((flag, tract[: depth + 1]) for flag, tract, _ in slow))
        assert made.spine.labels(level) == [f"{flag}{path[-1]}" for flag, path in parts]
        assert [spine.labels(level)[unit] for unit in made.part_of[level]] == [path[-1] for _, path in parts]
        assert leaves_of(made.spine, level) == [
            [code for flag, tract, group in slow if (flag, tract[: depth + 1]) == part for code in group]
            for part in parts
        ]
    for first_child, codes in zip(made.spine.first_child, made.spine.codes[1:], strict=True):
        assert (np.diff(first_child) > 0).all()
        assert first_child[-1] == len(codes) == len(set(codes))
    # built again from its own codes it is the same: codes are unique, and in the order of their paths
    columns = {
        level: np.repeat(made.spine.codes[1 + i], np.diff(made.spine.leaves_under(level)))
        for i, level in enumerate(levels)
    }
    assert Spine.from_columns(columns, root="us") == made.spine


@pytest.mark.parametrize("seed", range(8))
def test_counts_and_facilities_go_there_and_back_unchanged(seed):
    spine, tribal, place, facilities = build(*geography(seed))
    made = optimise_spine(spine, tribal=tribal, place=place, facilities=facilities)
    rng = np.random.default_rng(seed)
    size = spine.size("block")
    people = Histogram.from_entries(
        spine,
        SCHEMA,
        unit=rng.integers(size, size=size),
        cell=rng.integers(2, size=size),
        count=rng.integers(9, size=size),
    )
    people = replace(people, stamps=("seeded",))
    moved = made.moved(people)
    assert moved.spine is made.spine
    assert made.restored(moved) == people
    assert made.restored(moved).stamps == moved.stamps == ("seeded",)
    old, new = people.leaves.dense(), moved.leaves.dense()
    where = {code: i for i, code in enumerate(spine.labels("block"))}
    assert all((new[i] == old[where[code]]).all() for i, code in enumerate(made.spine.labels("block")))
    for level in spine.levels:
        if level != "block_group":  # parts of a unit add up to it
            sums = np.zeros_like(people.at(level).dense())
            np.add.at(sums, made.part_of[level], moved.at(level).dense())
            assert (sums == people.at(level).dense()).all()
    assert "block_group" not in made.part_of


def one_tract(blocks, **areas_of):
    codes = [f"{i:04}" for i in range(blocks)]
    spine = Spine.from_columns(
        {"state": ["1"] * blocks, "tract": ["11"] * blocks, "block_group": ["111"] * blocks, "block": codes}, root="us"
    )
    named = {kind: areas(spine, [(code, name(int(code))) for code in codes]) for kind, name in areas_of.items()}
    return optimise_spine(spine, **named)


def sizes(made):
    return np.diff(made.spine.first_child[-1]).tolist()


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (14, [14]),  # int(3.7 + 12) = 15, so up to 16
        (16, [16]),  # int(4.0 + 12) = 16, so up to 17
        (17, [17]),  # int(4.1 + 12) = 16
        (18, [17, 1]),
        (100, [23, 23, 23, 23, 8]),  # int(10 + 12) = 22
        (99, [22, 22, 22, 22, 11]),  # int(9.9 + 12) = 21
    ],
)
def test_a_group_holds_one_block_more_than_the_cutoff(blocks, expected):
    assert sizes(one_tract(blocks)) == expected


def test_the_cutoff_counts_the_blocks_of_the_tracts_part_and_not_of_the_whole_tract():
    made = one_tract(100, tribal=lambda i: "Pueblo" if i < 36 else "")
    # outside: 64 blocks, int(8 + 12) + 1 = 21; inside: 36 blocks, int(6 + 12) + 1 = 19
    assert sizes(made) == [21, 21, 21, 1, 19, 17]
    assert made.spine.labels("block_group") == ["0111", "0112", "0113", "0114", "1111", "1112"]


def test_block_groups_are_numbered_by_their_first_block_in_as_many_digits_as_needed():
    made = one_tract(24, place=lambda i: f"place {-i % 12}")
    assert made.spine.labels("block_group") == [f"011{i:02}" for i in range(1, 13)]
    assert leaves_of(made.spine, "block_group")[:2] == [["0000", "0012"], ["0001", "0013"]]


def test_a_state_without_tribal_land_has_one_part_and_one_all_tribal_too():
    columns = {"state": [*"112233"], "tract": [*"112233"], "block_group": [*"112233"], "block": [*"abcdef"]}
    spine = Spine.from_columns(columns, root="us")
    tribal = Areas.from_codes(spine, leaf=["c", "e", "f"], area=["x", "y", "y"])
    made = spine.optimised(tribal=tribal)
    assert made.spine.labels("state") == ["01", "02", "12", "13"]
    assert made.part_of["state"].tolist() == [0, 1, 1, 2]
    assert made.spine.labels("block") == ["a", "b", "d", "c", "e", "f"]
    assert repr(made) == "OptimisedSpine(us 1, state 4, tract 4, block_group 4, block 6)"
    alone = spine.optimised()
    assert alone.spine.labels("state") == ["01", "02", "03"]
    assert alone.leaf.tolist() == list(range(6))


def test_numbering_of_areas_and_counts_of_facilities_do_not_matter_only_what_is_where():
    spine, tribal, place, facilities = build(*geography(3))
    made = optimise_spine(spine, tribal=tribal, place=place, facilities=facilities)
    last = len(place.names) - 1
    turned = Areas(
        spine=spine,
        names=place.names[::-1],
        of_leaf=np.where(place.of_leaf >= 0, last - place.of_leaf, -1).astype(np.int32),
    )
    more = replace(facilities, leaves=replace(facilities.leaves, count=facilities.leaves.count + 5))
    assert optimise_spine(spine, tribal=tribal, place=turned, facilities=more).spine == made.spine


def test_households_do_not_count_as_group_quarters_but_other_types_do():
    columns = {"state": ["1"] * 4, "tract": ["1"] * 4, "block_group": ["1"] * 4, "block": [*"abcd"]}
    spine = Spine.from_columns(columns, root="us")
    built = Facilities.from_entries(
        spine, attribute="home", types=["house", "prison"], unit=[0, 1, 3], kind=[0, 1, 0], count=[9, 1, 2]
    )
    made = optimise_spine(spine, facilities=built, household="house")
    assert leaves_of(made.spine, "block_group") == [["a", "c", "d"], ["b"]]
    with refused("'household'", "(house, prison)", "household=..."):
        optimise_spine(spine, facilities=built)
    types = [f"type {i}" for i in range(63)]
    many = Facilities.from_entries(spine, attribute="home", types=types, unit=[], kind=[], count=[])
    with refused("63 types", "limit of 62", "Merge"):
        optimise_spine(spine, facilities=many, household="type 0")


def test_the_spine_of_a_made_up_census_takes_the_2020_strategy_and_keeps_every_block():
    town = census_2020(persons=60_000, seed=5)
    made = town.people.spine.optimised(
        tribal=town.areas["tribal"], place=town.areas["place"], facilities=town.facilities
    )
    assert made.restored(made.moved(town.people)) == town.people
    assert sorted(made.leaf.tolist()) == list(range(town.people.spine.size("block")))
    Strategy.preset("pl94-2020-us-persons").check(made.spine, town.people.schema)
    place, pattern = town.areas["place"].of_leaf[made.leaf], (town.facilities.leaves.dense()[made.leaf, 1:] > 0)
    group = made.spine.parents("block")
    for kind in (place, *pattern.T):
        assert (kind == kind[made.spine.first_child[-1][:-1]][group]).all()  # one kind in each block group


def test_it_says_what_shaped_it_and_which_levels_it_keeps():
    spine, tribal, place, facilities = build(*geography(3))
    given = {"tribal": tribal, "place": place, "facilities": facilities}
    words = {"place": "places", "tribal": "tribal areas", "facilities": "facilities"}
    for some in ((), ("tribal",), ("facilities", "place"), ("tribal", "place", "facilities")):
        made = optimise_spine(spine, **{name: given[name] for name in some})
        assert made.shaped_by == tuple(words[name] for name in words if name in some)
        for level in spine.levels:
            mine, theirs = (sorted(map(sorted, leaves_of(one, level))) for one in (made.spine, spine))
            same = mine == theirs
            assert made.keeps(level) == (same and level != spine.levels[-2])
    assert not made.keeps("state")


def test_it_is_frozen_and_survives_pickling():
    made = one_tract(30)
    with pytest.raises(ValueError, match="read-only"):
        made.leaf[0] = 1
    with pytest.raises(TypeError, match="frozen"):
        made.part_of["state"] = made.leaf
    again = pickle.loads(pickle.dumps(made))
    assert isinstance(again, OptimisedSpine)
    assert again.spine == made.spine
    assert (again.leaf == made.leaf).all()


def test_a_spine_of_three_levels_is_refused_with_its_levels():
    spine = Spine.from_columns({"tract": ["1"], "block": ["1"]}, root="county")
    with refused("3 levels (county, tract, block)", "Give at least 4", "block groups"):
        optimise_spine(spine)


def test_anything_on_another_spine_is_refused_with_both():
    spine, tribal, place, facilities = build(*geography(0))
    other_spine, other_tribal, other_place, other_facilities = build(*geography(1))
    for name, wrong, what in (
        ("tribal", other_tribal, "tribal areas"),
        ("place", other_place, "places"),
        ("facilities", other_facilities, "facilities"),
    ):
        with refused(f"{what} are on another spine ({other_spine})", f"the given one ({spine})", "Build them"):
            optimise_spine(spine, **{"tribal": tribal, "place": place, "facilities": facilities, name: wrong})
    made = optimise_spine(spine, tribal=tribal, place=place, facilities=facilities)
    people = Histogram.from_entries(spine, SCHEMA, unit=[0], cell=[0], count=[1])
    with refused("the counts are on another spine", f"the optimised one ({made.spine})"):
        made.restored(people)
    with refused("the counts are on another spine", f"the standard one ({spine})"):
        made.moved(made.moved(people))


@pytest.mark.parametrize("seed", range(12))
def test_two_spines_give_the_way_between_them_again(seed):
    levels, blocks = geography(seed)
    if len(levels) < 3:
        pytest.skip("too few levels")
    spine, tribal, place, facilities = build(levels, blocks)
    made = optimise_spine(spine, tribal=tribal, place=place, facilities=facilities)
    again = OptimisedSpine.from_spines(made.spine, made.standard, shaped_by=made.shaped_by)
    assert (again.spine, again.standard, again.shaped_by) == (made.spine, made.standard, made.shaped_by)
    assert np.array_equal(again.leaf, made.leaf)
    assert set(again.part_of) == set(made.part_of)
    assert all(np.array_equal(again.part_of[level], made.part_of[level]) for level in made.part_of)


def test_spines_of_two_releases_are_refused():
    columns = {"state": ["1", "1", "2"], "tract": ["1a", "1b", "2a"], "group": ["1a1", "1b1", "2a1"]}
    spine = Spine.from_columns(columns | {"block": ["x", "y", "z"]}, root="us")
    fewer = Spine.from_columns({name: codes[:2] for name, codes in columns.items()} | {"block": ["x", "y"]}, root="us")
    with refused("other levels or leaves than the published one", "Give both spines"):
        OptimisedSpine.from_spines(fewer, spine)
    other = Spine.from_columns(columns | {"block": ["x", "y", "w"]}, root="us")
    with refused("block 'w' is not among the 3 units"):
        OptimisedSpine.from_spines(other, spine)
    across = {"state": ["1"] * 3, "tract": ["1a"] * 3, "group": ["1a1"] * 3, "block": ["x", "y", "z"]}
    with refused("state '1' of the spine that was measured lies in two published ones"):
        OptimisedSpine.from_spines(Spine.from_columns(across, root="us"), spine)
