"""Households and group quarters by leaf and type, against dictionaries."""

from collections import Counter

import numpy as np
import pytest
from brute_force import columns, patient, refused, trees, units
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.spine import Spine

TYPES = ["household", "nursing", "prison"]
TOWN = {"block": ["1", "2", "3"]}


def build(spine, **change):
    given_ = {"attribute": "home", "types": TYPES, "unit": [0, 2], "kind": [0, 2], "count": [40, 1]} | change
    return Facilities.from_entries(spine, **given_)


@patient
@given(trees(), st.data())
def test_facilities_of_every_level_add_up_those_below(tree, data):
    levels, paths = tree
    entry = st.tuples(st.sampled_from(paths), st.integers(0, 2), st.integers(0, 3))
    listed = data.draw(st.lists(entry, max_size=12))
    spine = Spine.from_columns(columns(levels, paths))
    unit = spine.locate(spine.leaf, [path[-1] for path, _, _ in listed]) if listed else []
    built = build(spine, unit=unit, kind=[k for _, k, _ in listed], count=[n for _, _, n in listed])
    for depth, level in enumerate(levels):
        sums = Counter()
        for path, kind, count in listed:
            sums[path[: depth + 1], kind] += count
        assert built.at(level).dense().tolist() == [
            [sums[unit, kind] for kind in range(3)] for unit in units(paths, depth)
        ]


def test_leaves_without_facilities_are_kept():
    built = build(Spine.from_columns(TOWN, root="town"))
    assert built.at("block").dense().tolist() == [[40, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_types_given_in_any_sequence_are_kept_in_order_as_text():
    spine = Spine.from_columns(TOWN, root="town")
    for types in (TYPES, tuple(TYPES)):
        assert build(spine, types=types).types == ("household", "nursing", "prison")


def test_facilities_cannot_be_written_to():
    built = build(Spine.from_columns(TOWN, root="town"))
    for table in (built.leaves, built.at("town")):
        with pytest.raises(ValueError, match="read-only"):
            table.count[0] = 7
    with pytest.raises(AttributeError):
        built.attribute = "other"


def test_a_type_named_twice_is_refused():
    with refused("household, household, prison", "contain a duplicate", "once"):
        build(Spine.from_columns(TOWN, root="town"), types=["household", "household", "prison"])


@pytest.mark.parametrize(("units_", "types"), [(2, 3), (3, 2)])
def test_counts_of_another_size_are_refused_with_both_sizes(units_, types):
    leaves = Counts.from_entries([], [], [], units=units_, cells=types)
    with refused(f"{units_} units x {types} types", "3 leaves", "3 types", "on this spine"):
        Facilities(spine=Spine.from_columns(TOWN, root="town"), attribute="home", types=tuple(TYPES), leaves=leaves)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"unit": [0, 3]}, ("row 2", "unit 3", "0 and 2")),
        ({"kind": [3, 0]}, ("row 1", " 3 ", "0 and 2")),
        ({"count": [-1, 0]}, ("row 1", "-1", "negative")),
        ({"count": [0, 1.5]}, ("row 2", "1.5", "not whole")),
        ({"count": np.array([1, np.nan])}, ("row 2", "nan", "not whole")),
        ({"unit": [0]}, ("1 units", "2 counts")),
    ],
    ids=["unit", "type", "negative", "fraction", "missing", "length"],
)
def test_bad_entries_are_refused_with_their_row(change, parts):
    with refused(*parts):
        build(Spine.from_columns(TOWN, root="town"), **change)


def test_a_type_out_of_range_is_called_a_type_and_not_a_cell():
    with refused("type 3"):
        build(Spine.from_columns(TOWN, root="town"), kind=[3, 0])


def test_an_unknown_level_is_refused_with_the_levels_there_are():
    with refused("'county'", "town, block"):
        build(Spine.from_columns(TOWN, root="town")).at("county")
