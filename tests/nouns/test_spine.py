"""The geographic tree, against trees of plain tuples."""

import random
from itertools import pairwise

import numpy as np
import pytest
from brute_force import columns, patient, refused, trees, units
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import TallyveilError
from tallyveil.nouns.spine import Spine

NEW_ENGLAND = {"state": ["44", "44", "09"], "county": ["44007", "44001", "09001"]}


# ---- against brute force


@patient
@given(trees())
def test_units_of_every_level_stand_in_the_order_of_their_paths(tree):
    levels, paths = tree
    spine = Spine.from_columns(columns(levels, paths))
    assert spine.levels == levels
    assert spine.leaf == levels[-1]
    for depth, level in enumerate(levels):
        assert spine.labels(level) == [path[-1] for path in units(paths, depth)]
        assert spine.size(level) == len(units(paths, depth))
        assert spine.depth(level) == depth


@patient
@given(trees())
def test_parents_children_and_leaves_are_those_of_the_paths(tree):
    levels, paths = tree
    spine = Spine.from_columns(columns(levels, paths))
    leaves = units(paths, len(levels) - 1)
    for depth, level in enumerate(levels):
        here = units(paths, depth)
        offsets = spine.leaves_under(level)
        for unit, path in enumerate(here):
            held = leaves[offsets[unit] : offsets[unit + 1]]
            assert held == [leaf for leaf in leaves if leaf[: depth + 1] == path]
        if depth > 0:
            above = units(paths, depth - 1)
            assert spine.parents(level).tolist() == [above.index(path[:-1]) for path in here]
            first = spine.first_child[depth - 1]
            for unit, path in enumerate(above):
                assert here[first[unit] : first[unit + 1]] == [child for child in here if child[:-1] == path]
        assert offsets[0] == 0
        assert offsets[-1] == len(leaves)


@patient
@given(trees(), st.data())
def test_locate_finds_every_code_however_often_and_in_whatever_order_it_is_asked(tree, data):
    levels, paths = tree
    spine = Spine.from_columns(columns(levels, paths))
    for depth, level in enumerate(levels):
        known = [path[-1] for path in units(paths, depth)]
        asked = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=8))
        assert spine.locate(level, asked).tolist() == [known.index(code) for code in asked]


@patient
@given(trees(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(tree, dice):
    levels, paths = tree
    shuffled = list(paths)
    dice.shuffle(shuffled)
    assert Spine.from_columns(columns(levels, paths)) == Spine.from_columns(columns(levels, shuffled))


@patient
@given(trees())
def test_a_named_root_adds_one_level_of_one_unit_and_changes_nothing_else(tree):
    levels, paths = tree
    bare = Spine.from_columns(columns(levels, paths))
    rooted = Spine.from_columns(columns(levels, paths), root="us")
    assert rooted.levels == ("us", *levels)
    assert rooted.labels("us") == ["us"]
    for level in levels:
        assert rooted.labels(level) == bare.labels(level)
        assert rooted.leaves_under(level).tolist() == bare.leaves_under(level).tolist()
    assert rooted.parents(levels[0]).tolist() == [0]


@patient
@given(st.sets(st.text("0123456789", min_size=6, max_size=6), min_size=1, max_size=12))
def test_codes_cut_by_length_make_the_same_tree_as_columns(codes):
    lengths = {"state": 2, "county": 3, "tract": 6}
    cut = {level: [code[:size] for code in codes] for level, size in lengths.items()}
    assert Spine.from_codes(list(codes), lengths=lengths, root="us") == Spine.from_columns(cut, root="us")


# ---- shapes of trees


def test_a_spine_of_one_level_is_its_own_root_and_leaf():
    spine = Spine.from_columns({"town": ["x"]})
    assert spine.leaf == "town"
    assert spine.first_child == ()
    assert spine.leaves_under("town").tolist() == [0, 1]
    assert spine.locate("town", ["x", "x"]).tolist() == [0, 0]


def test_a_chain_of_two_hundred_single_children_keeps_every_level():
    names = [f"level {i}" for i in range(200)]
    spine = Spine.from_columns({name: [f"u{i}"] * 2 for i, name in enumerate(names)} | {"end": ["b", "a"]})
    assert spine.size("level 199") == 1
    assert spine.leaves_under("level 0").tolist() == [0, 2]


def test_fifty_thousand_shuffled_leaves_under_uneven_parents_find_their_parents():
    dice = random.Random(3)
    paths = [(f"p{dice.randrange(700):03}", f"c{i:05}") for i in range(50_000)]
    spine = Spine.from_columns(columns(("county", "block"), paths), root="us")
    parent_of = {block: county for county, block in paths}
    counties = spine.labels("county")
    assert [counties[p] for p in spine.parents("block")] == [parent_of[b] for b in spine.labels("block")]
    asked = [block for _, block in paths[:1000]]
    blocks = spine.labels("block")
    assert [blocks[i] for i in spine.locate("block", asked)] == asked


def test_leading_zeros_are_kept_and_sort_as_text():
    spine = Spine.from_columns({"county": ["1", "01", "10", "001"]}, root="state")
    assert spine.labels("county") == ["001", "01", "1", "10"]
    assert spine.locate("county", ["1", "001"]).tolist() == [2, 0]


@pytest.mark.parametrize("digits", [1, 15, 18, 19, 25])
def test_long_codes_of_digits_keep_their_last_digit(digits):
    lead = "9" * (digits - 1)
    spine = Spine.from_columns({"block": [f"{lead}{i}" for i in (7, 0, 9, 8)]}, root="us")
    assert spine.labels("block") == [f"{lead}{i}" for i in (0, 7, 8, 9)]
    assert spine.locate("block", [f"{lead}8"]).tolist() == [2]


def test_codes_outside_ascii_come_back_as_they_were():
    spine = Spine.from_columns({"län": ["Skåne", "Örebro"], "kommun": ["Malmö", "京都"]}, root="sverige")
    assert spine.labels("län") == ["Skåne", "Örebro"]
    assert spine.locate("kommun", ["京都", "Malmö"]).tolist() == [1, 0]
    assert repr(spine) == "Spine(sverige 1, län 2, kommun 2)"


def test_codes_outside_ascii_are_cut_by_characters_not_bytes():
    spine = Spine.from_codes(["ÅB1", "ÅB2", "ÄB1"], lengths={"region": 1, "area": 3}, root="land")
    assert spine.labels("region") == ["Ä", "Å"]
    assert spine.labels("area") == ["ÄB1", "ÅB1", "ÅB2"]


@pytest.mark.parametrize(
    "held",
    [
        np.array(["44", "09"]),
        np.array([b"44", b"09"]),
        np.array(["44", "09"], dtype=object),
        np.array(["44", "09", "50"], dtype="U9")[:2],
        np.array(["44", "-", "09", "-"])[::2],
        ("44", "09"),
    ],
    ids=["text", "bytes", "objects", "wide text", "every second", "tuple"],
)
def test_the_way_codes_are_held_does_not_matter(held):
    assert Spine.from_columns({"state": held}, root="us") == Spine.from_columns({"state": ["09", "44"]}, root="us")


def test_spines_that_differ_in_a_code_a_name_or_a_parent_are_not_equal():
    def spine(**change):
        return Spine.from_columns({"a": ["x", "x", "y"], "b": ["1p", "2p", "3p"]} | change, root="r")

    assert spine() == spine()
    assert spine() != spine(b=["1p", "2p", "4p"])
    assert spine() != spine(a=["x", "y", "y"])
    assert spine() != Spine.from_columns({"a": ["x", "x", "y"], "c": ["1p", "2p", "3p"]}, root="r")
    assert spine() != Spine.from_columns({"a": ["x", "x", "y"]} | {"b": ["1p", "2p", "3p"]}, root="s")
    assert spine() != "spine"


def test_arrays_of_a_spine_cannot_be_written_to():
    spine = Spine.from_columns(NEW_ENGLAND, root="us")
    for array in (*spine.codes, *spine.first_child):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]


def test_the_callers_codes_stay_writable_and_apart_from_the_spine():
    codes = np.array([b"b", b"a"])
    spine = Spine.from_columns({"town": codes}, root="us")
    codes[0] = b"z"
    assert spine.labels("town") == ["a", "b"]


def test_attributes_of_a_spine_cannot_be_replaced():
    spine = Spine.from_columns(NEW_ENGLAND, root="us")
    with pytest.raises(AttributeError):
        spine.levels = ("us", "state", "town")


# ---- empty questions


def test_locating_no_codes_gives_no_positions():
    spine = Spine.from_columns(NEW_ENGLAND, root="us")
    assert spine.locate("county", []).tolist() == []
    assert spine.locate("county", np.array([], dtype=str)).tolist() == []


@pytest.mark.parametrize("none", [[], np.array([], dtype=str)], ids=["list", "text array"])
def test_a_list_of_units_without_units_is_refused_as_such(none):
    with refused("'block'", "no units", "List all units"):
        Spine.from_columns({"state": none, "block": none})


# ---- bad input


@pytest.mark.parametrize(
    "numbers", [[9, 44], [9.0, 44.0], np.array([9, 44], dtype=object), np.array([9, 44], dtype="u2")]
)
def test_codes_that_are_numbers_are_refused_because_leading_zeros_count(numbers):
    with refused("'state'", "not text", "leading zeros"):
        Spine.from_columns({"state": numbers}, root="us")


@pytest.mark.parametrize("slip", [9, float("nan"), None], ids=repr)
def test_one_code_that_is_not_text_in_a_list_of_text_is_refused(slip):
    with refused("'state'", "not text"):
        Spine.from_columns({"state": ["44", slip]}, root="us")


def test_truth_values_are_not_codes():
    with refused("'state'", "not text"):
        Spine.from_columns({"state": [True, False]}, root="us")


def test_bytes_that_are_not_utf8_are_refused_when_the_spine_is_built():
    with refused("'town'", "UTF-8"):
        Spine.from_columns({"town": np.array(["Malmö".encode("latin-1"), b"Lund"])}, root="land")


def test_an_empty_code_is_refused_with_its_row_and_level():
    with refused("row 2", "'county'", "empty", "Give every unit a code"):
        Spine.from_columns({"state": ["44", "44"], "county": ["44001", ""]})


def test_a_unit_listed_twice_is_refused_with_both_rows():
    with refused("county '44001'", "rows 1 and 4", "List each unit once"):
        Spine.from_columns({"county": ["44001", "44003", "44005", "44001"]}, root="ri")


def test_a_code_in_two_places_is_refused_with_both_parents():
    with refused("county '001'", "state '09'", "state '44'", "set relative = true in [geography]"):
        Spine.from_columns({"state": ["44", "09"], "county": ["001", "001"]}, root="us")


def test_a_code_in_two_places_is_refused_in_a_middle_level_too():
    with refused("county 'x'", "state 'a'", "state 'b'"):
        Spine.from_columns({"state": ["a", "b"], "county": ["x", "x"], "tract": ["1t", "2t"]}, root="us")


def test_a_code_that_does_not_begin_with_its_parents_is_refused():
    with refused("county '09005'", "state '44'", "Correct the row"):
        Spine.from_columns({"state": ["44", "44", "09"], "county": ["44001", "09005", "09001"]}, root="us")


def test_codes_that_never_begin_with_their_parents_are_a_matter_of_taste():
    spine = Spine.from_columns({"state": ["44", "44", "09"], "county": ["001", "003", "005"]}, root="us")
    assert spine.labels("county") == ["005", "001", "003"]


def test_one_code_that_begins_with_its_parents_by_chance_is_no_reason_to_refuse_the_others():
    wards = ["1"] * 6 + ["2"] * 6
    precincts = [f"{i:02}" for i in range(1, 13)]  # no code is written in full
    wards[9] = "1"  # but 10, in ward 1, looks as if it were
    spine = Spine.from_columns({"ward": wards, "precinct": precincts}, root="town")
    assert spine.size("precinct") == 12


def test_several_roots_are_refused_with_how_to_name_one():
    with refused("'state'", "2 units", "one root", "root = "):
        Spine.from_columns(NEW_ENGLAND)


def test_a_root_with_the_name_of_a_level_is_refused():
    with refused("state, state, county", "twice", "its own name"):
        Spine.from_columns(NEW_ENGLAND, root="state")


def test_columns_of_different_length_are_refused_with_their_lengths():
    with refused("state 2", "county 3", "one row per leaf"):
        Spine.from_columns({"state": ["44", "44"], "county": ["a", "b", "c"]})


def test_a_spine_without_columns_is_refused():
    with refused("no geographic columns", "Name at least one level"):
        Spine.from_columns({})


def test_codes_in_a_table_instead_of_a_column_are_refused():
    with refused("'state'", "2 dimensions", "one column"):
        Spine.from_columns({"state": [["44", "09"]]}, root="us")


def test_a_code_of_the_wrong_length_is_refused_with_its_row_and_both_lengths():
    with refused("row 2", "'4407'", "4 characters", "5", "county", "Correct"):
        Spine.from_codes(["44001", "4407"], lengths={"state": 2, "county": 5})


def test_cutting_codes_without_lengths_is_refused():
    with refused("level"):
        Spine.from_codes(["44001"], lengths={})


@pytest.mark.parametrize("ask", ["depth", "size", "labels", "leaves_under", "parents"])
def test_an_unknown_level_is_refused_with_the_levels_there_are(ask):
    spine = Spine.from_columns(NEW_ENGLAND, root="us")
    with refused("'block'", "us, state, county"):
        getattr(spine, ask)("block")


def test_locating_in_an_unknown_level_is_refused():
    with refused("'block'", "us, state, county"):
        Spine.from_columns(NEW_ENGLAND, root="us").locate("block", ["1"])


@pytest.mark.parametrize("code", ["00000", "09002", "99999", "4400", "440010"])
def test_locating_an_unknown_code_is_refused_with_its_row(code):
    with refused("row 2", "county", repr(code), "3 units", "correct the code"):
        Spine.from_columns(NEW_ENGLAND, root="us").locate("county", ["44001", code])


def test_the_root_has_no_parents_to_ask_for():
    with refused("'us'", "root", "level below"):
        Spine.from_columns(NEW_ENGLAND, root="us").parents("us")


def test_bad_input_is_a_value_error_and_one_of_ours():
    with pytest.raises(ValueError, match="unknown level") as caught:
        Spine.from_columns(NEW_ENGLAND, root="us").size("block")
    assert isinstance(caught.value, TallyveilError)


def test_rows_in_order_stay_in_order_and_children_that_are_apart_are_refused():
    columns = {"state": ["44", "44", "09"], "county": ["44007", "44001", "09001"]}
    spine = Spine.from_columns(columns, root="us", in_order=True)
    assert (spine.labels("state"), spine.labels("county")) == (["44", "09"], columns["county"])
    with refused("state '44' lies in us 'us' and in us 'us'"):
        Spine.from_columns(
            {"state": ["44", "09", "44"], "county": ["44007", "09001", "44001"]}, root="us", in_order=True
        )


@given(st.lists(st.text("aé1/ ", min_size=1, max_size=4), min_size=1, max_size=30, unique=True))
def test_the_identifying_bytes_of_codes_are_their_letters_one_code_after_another(codes):
    spine = Spine.from_columns({"block": codes}, root="town")
    written = [code.encode() for code in sorted(codes, key=str.encode)]
    assert list(spine.canonical_bytes())[3:6] == [
        b"block", np.array([len(code) for code in written], "<i4").tobytes(), b"".join(written),
    ]  # fmt: skip


@given(st.data())
@settings(max_examples=300)
def test_a_tree_built_piece_by_piece_is_the_tree_of_the_whole_list(data):
    paths = data.draw(st.lists(st.tuples(*[st.sampled_from(["1", "2", "22", "3"])] * 3), min_size=1, max_size=15))
    if data.draw(st.booleans()):
        paths = sorted(set(paths))
    rows = [[f"{a}", f"{a}/{b}", f"{a}/{b}/{c}"] for a, b, c in paths]
    columns = {level: [row[i] for row in rows] for i, level in enumerate(("county", "tract", "block"))}
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3))), len(rows)]
    whole = [np.array(column, "S") for column in columns.values()]
    pieces = [[column[first:last] for column in whole] for first, last in pairwise(cuts)]
    tree = Spine.from_sorted(list(columns), pieces, root="us")
    by_bytes = [[code.encode() for code in row] for row in rows]
    if by_bytes == sorted(by_bytes) and len(set(paths)) == len(paths):
        assert tree is not None
        assert tree == Spine.from_columns(columns, root="us")
        assert tree.own == {}
    else:
        assert tree is None
