"""Answers that are not a histogram: their levels, their coarser queries, and what is refused."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from brute_force import all_factor_sets, answer, cells, columns, refused, schemas, trees, units
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil import Grouping, Histogram, Schema, Spine
from tallyveil.nouns.estimates import Estimates, Sample

SPINE = Spine.from_columns({"county": ["1", "1", "3"], "tract": ["1a", "1b", "3a"]}, root="state")
SCHEMA = Schema(attributes={"age": ["child", "adult"], "race": ["a", "b", "c"]})


def estimates(query="age", **tables):
    return Estimates(spine=SPINE, schema=SCHEMA, query=query, tables=tables or {"tract": np.zeros((1, 3, 2))})


@settings(deadline=None, max_examples=25)
@given(trees(), schemas(), st.data())
def test_every_coarser_query_and_level_is_what_adding_up_gives(tree, plain, data):
    levels, paths = tree
    groupings = {name: Grouping(of=of, groups=groups) for name, (of, groups) in plain["groupings"].items()}
    schema = Schema(attributes=plain["attributes"], groupings=groupings)
    spine = Spine.from_columns(columns(levels, paths))
    leaves = units(paths, len(levels) - 1)
    people = Counter()
    for _ in range(data.draw(st.integers(0, 6))):
        where = data.draw(st.sampled_from(leaves))
        people[where, data.draw(st.integers(0, len(cells(plain)) - 1))] += data.draw(st.integers(-9, 9))
    everything = tuple(plain["attributes"])
    table = np.array([answer(people, paths, len(levels) - 1, plain, everything)])
    both = np.concatenate([table, -2 * table])
    found = Estimates(spine=spine, schema=schema, query="detailed", tables={levels[-1]: both})
    assert found.replicates == 2
    for depth, level in enumerate(levels):
        for factors in all_factor_sets(plain):
            expected = np.array(answer(people, paths, depth, plain, factors))
            got = found.answer(" * ".join(factors) or "total", level=level)
            assert got.dtype == np.int64
            assert np.array_equal(got, np.array([expected, -2 * expected]))


def test_a_level_that_is_given_is_not_summed_from_a_finer_one():
    both = estimates(
        tract=np.array([[[1, 2], [3, 4], [5, 6]]]),
        county=np.array([[[100.5, 0.25], [7.0, 8.0]]]),
    )
    assert list(both.tables) == ["county", "tract"]
    assert both.answer("age", level="county").tolist() == [[[100.5, 0.25], [7.0, 8.0]]]
    assert both.answer("total", level="state").tolist() == [[[115.75]]]  # from the counties, the next finer ones
    assert both.answer("total", level="tract").tolist() == [[[3], [7], [11]]]


def test_a_level_is_summed_from_the_next_finer_one_given_and_not_from_the_leaves():
    blocks = {"state": list("aaab"), "county": ["a1", "a1", "a2", "b1"], "block": ["a11", "a12", "a21", "b11"]}
    spine = Spine.from_columns(blocks, root="us")
    counties = np.array([[[1, 0], [2, 0], [40, 7]]])
    found = Estimates(spine=spine, schema=SCHEMA, query="age", tables={"county": counties})
    assert found.answer("age", level="state").tolist() == [[[3, 0], [40, 7]]]
    assert found.answer("total", level="us").tolist() == [[[50]]]


def test_whole_answers_stay_whole_and_others_are_floats_and_none_can_be_changed():
    whole, not_whole = estimates(tract=np.ones((2, 3, 2), dtype=np.int32)), estimates()
    assert whole.answer("total", level="state").dtype == np.int64
    assert not_whole.answer("total", level="state").dtype == np.float64
    for level in SPINE.levels:
        with pytest.raises(ValueError, match="read-only"):
            whole.answer("age", level=level)[0, 0, 0] = 5


def test_a_group_without_labels_answers_zero():
    schema = Schema(
        attributes={"age": ["child", "adult"]},
        groupings={"some": Grouping(of="age", groups={"none": [], "all": ["child", "adult"]})},
    )
    table = np.array([[[1, 2], [3, 4], [5, 6]]])
    found = Estimates(spine=SPINE, schema=schema, query="age", tables={"tract": table})
    assert found.answer("some", level="state").tolist() == [[[0, 21]]]


def test_a_finer_or_another_query_is_refused_with_both_names():
    with refused("'race'", "'age'", "it is not coarser"):
        estimates().answer("race", level="tract")
    with refused("'detailed'", "'age'"):
        estimates().answer("age * race", level="tract")


def test_a_level_finer_than_all_is_refused():
    with refused("'tract'", "county", "finer"):
        estimates(county=np.zeros((1, 2, 2))).answer("age", level="tract")


def test_tables_that_do_not_fit_are_refused_with_their_shape():
    with refused("'tract'", "1 x 3 x 3", "3 units x 2 rows"):
        estimates(tract=np.zeros((1, 3, 3)))
    with refused("replicates", "county 2", "tract 1"):
        estimates(tract=np.zeros((1, 3, 2)), county=np.zeros((2, 2, 2)))
    with refused("'tract'", "nan", "[0, 1, 0]"):
        estimates(tract=np.array([[[0, 0], [np.nan, 0], [0, 0]]]))
    with refused("complex128"):
        estimates(tract=np.zeros((1, 3, 2), dtype=complex))
    with refused("unknown level 'block'"):
        estimates(block=np.zeros((1, 3, 2)))
    with refused("at least one level"):
        Estimates(spine=SPINE, schema=SCHEMA, query="age", tables={})


def test_a_sample_is_scaled_up_by_the_fraction_as_written():
    people = Histogram.from_entries(SPINE, SCHEMA, unit=[0, 2], cell=[5, 0], count=[3, 1])
    sample = Sample(people=people, fraction=Fraction(3, 10))
    assert sample.spine == SPINE
    assert sample.schema == SCHEMA
    assert sample.answer("total", level="county").tolist() == [[10.0], [10 / 3]]


@pytest.mark.parametrize("fraction", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_a_fraction_that_cannot_be_scaled_up_is_refused(fraction):
    people = Histogram.from_entries(SPINE, SCHEMA, unit=[], cell=[], count=[])
    with refused(str(fraction), "above 0 and at most 1"):
        Sample(people=people, fraction=fraction)
