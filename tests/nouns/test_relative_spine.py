"""Codes that repeat under parents: a unit is known by its path, and keeps its own code."""

import pytest
from brute_force import patient, refused, units
from hypothesis import given

from repeated_codes import relative_spine, relative_trees
from tallyveil.nouns.spine import Spine

COLLIDING = {"county": ["1", "1", "11", "11"], "tract": ["12", "2", "2", "12"]}


@patient
@given(relative_trees())
def test_units_have_their_own_codes_and_keys_are_paths_only_in_levels_where_codes_repeat(tree):
    levels, paths = tree
    spine = relative_spine(tree)
    for depth, level in enumerate(levels):
        here = units(paths, depth)
        own = [path[-1] for path in here]
        assert [bytes(code).decode() for code in spine.own_codes(level)] == own
        keys = own if len(set(own)) == len(own) else ["/".join(path) for path in here]
        assert spine.labels(level) == keys
        assert spine.locate(level, keys).tolist() == list(range(len(here)))
        single = [code for code in own if own.count(code) == 1 and code not in keys]
        assert spine.locate(level, single).tolist() == [own.index(code) for code in single]


@patient
@given(relative_trees())
def test_leaves_are_found_by_their_columns_of_own_codes(tree):
    spine = relative_spine(tree)
    found = spine.locate(spine.leaf, spine.leaf_codes(spine.leaf_columns()))
    assert found.tolist() == list(range(spine.size(spine.leaf)))


def test_counties_1_and_11_with_tracts_12_and_2_do_not_collide():
    spine = Spine.from_columns(COLLIDING, root="state", relative=True)
    assert spine.labels("county") == ["1", "11"]  # no code repeats here
    assert spine.labels("tract") == ["1/12", "1/2", "11/12", "11/2"]


def test_a_first_column_with_one_unit_is_part_of_the_path_and_a_root_that_is_only_a_name_is_not():
    rows = {"state": ["DE", "DE"], "county": ["Kent", "Sussex"], "district": ["001", "001"]}
    assert Spine.from_columns(rows, relative=True).labels("district") == ["DE/Kent/001", "DE/Sussex/001"]
    del rows["state"]
    assert Spine.from_columns(rows, root="DE", relative=True).labels("district") == ["Kent/001", "Sussex/001"]


def test_two_paths_that_would_be_the_same_text_are_refused():
    with refused("tract", "('a', 'b/c')", "('a/b', 'c')", "both be written 'a/b/c'", "Replace the /"):
        Spine.from_columns({"county": ["a", "a/b", "x"], "tract": ["b/c", "c", "c"]}, root="us", relative=True)


def test_a_code_of_several_units_is_refused_with_their_paths():
    spine = Spine.from_columns(COLLIDING, root="state", relative=True)
    with refused("row 1: tract '2' is the code of 2 units", "'1/2' or '11/2'", "all columns of codes"):
        spine.locate("tract", ["2"])
    with refused("row 2: tract '9' is not among the 4 units"):
        spine.locate("tract", ["1/2", "9"])


def test_codes_that_do_not_repeat_are_the_same_spine_with_and_without_relative():
    rows = {"county": ["1", "2"], "tract": ["a", "b"]}
    plain, relative = (Spine.from_columns(rows, root="us", relative=kind) for kind in (False, True))
    assert plain == relative
    assert b"".join(plain.canonical_bytes()) == b"".join(relative.canonical_bytes())


@pytest.mark.parametrize("relative", [False, True])
def test_own_codes_that_begin_like_their_parent_by_chance_are_accepted_if_codes_are_relative(relative):
    rows = {"state": ["4"] * 3, "county": ["41", "42", "53"]}
    if relative:
        assert Spine.from_columns(rows, relative=True).labels("county") == rows["county"]
    else:
        with refused("county '53' is not inside state '4'"):
            Spine.from_columns(rows)
