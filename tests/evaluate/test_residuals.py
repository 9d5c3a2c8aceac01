"""Residuals against dense arithmetic, for every kind of release."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil import Areas, Histogram, Release, Schema, Spine
from tallyveil.errors import InputError
from tallyveil.evaluate import residuals
from tallyveil.evaluate.value_counts import value_counts
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.populations import Population

SPINE = Spine.from_columns({"county": ["1", "1", "2", "2"], "tract": ["1a", "1b", "2a", "2b"]}, root="state")
SCHEMA = Schema(attributes={"age": ["child", "adult"], "race": ["x", "y", "z"]})
LEVELS, QUERIES = ("state", "county", "tract"), ("total", "age", "race", "detailed")

tables = st.lists(st.lists(st.integers(0, 3).map(lambda n: n * n), min_size=6, max_size=6), min_size=4, max_size=4).map(
    np.array
)


def people(table) -> Histogram:
    return Histogram(spine=SPINE, schema=SCHEMA, leaves=Counts.from_dense(np.asarray(table)))


def dense(table, query: str, level: str):
    """The answer by summing an ordinary array."""
    cube = np.asarray(table).reshape(4, 2, 3)
    rows = {"total": cube.sum(axis=(1, 2))[:, None], "age": cube.sum(axis=2), "race": cube.sum(axis=1)}
    leaves = rows.get(query, cube.reshape(4, 6))
    return {"state": leaves.sum(axis=0)[None], "county": leaves.reshape(2, 2, -1).sum(axis=1), "tract": leaves}[level]


@given(tables, tables, tables, st.sampled_from(QUERIES), st.sampled_from(LEVELS))
def test_residuals_are_the_differences_over_cells_non_empty_in_either_for_each_replicate(a, b, c, query, level):
    found = residuals(people(a), [people(b), Release(histogram=people(c))], level=level, query=query)
    true = dense(a, query, level)
    for number, table in enumerate((b, c)):
        released = dense(table, query, level)
        unit, row = np.nonzero((true != 0) | (released != 0))
        mine = found.replicate == number
        assert found.unit[mine].tolist() == unit.tolist()
        assert found.row[mine].tolist() == row.tolist()
        assert found.true[mine].tolist() == true[unit, row].tolist()
        assert found.value[mine].tolist() == (released - true)[unit, row].tolist()
    every = residuals(people(a), [people(b), people(c)], level=level, query=query, over="all")
    assert every.n == 2 * true.size
    assert every.zeros == 2 * true.size - len(found.value)


@given(tables, tables)
def test_estimates_and_samples_are_compared_as_they_are_answered(a, b):
    noisy = Estimates(
        spine=SPINE, schema=SCHEMA, query="age", tables={"tract": np.stack([dense(b, "age", "tract")] * 2) - 1}
    )
    found = residuals(people(a), noisy, level="county", query="age")
    assert found.replicates == 2
    expected = dense(b, "age", "county") - 2 - dense(a, "age", "county")
    here = (dense(a, "age", "county") != 0) | (dense(b, "age", "county") != 2)
    assert found.value[found.replicate == 1].tolist() == expected[here].tolist()
    third = residuals(people(a), Sample(people=people(b), fraction=Fraction(2, 3)), level="tract", query="race")
    true, scaled = dense(a, "race", "tract"), dense(b, "race", "tract") * 1.5
    assert third.value.tolist() == (scaled - true)[(true != 0) | (scaled != 0)].tolist()
    half = residuals(people(a), Sample(people=people(b), fraction=Fraction(1, 2)), level="tract", query="race")
    assert half.value.dtype == np.int64


def test_areas_off_the_spine_are_summed_from_their_leaves_for_every_kind_of_release():
    a, b = np.arange(24).reshape(4, 6), np.ones((4, 6), dtype=int)
    towns = Areas.from_codes(SPINE, leaf=["1b", "2a"], area=["Troy", "Troy"])
    for released in (people(b), Estimates(spine=SPINE, schema=SCHEMA, query="detailed", tables={"tract": b[None]})):
        found = residuals(people(a), released, areas=towns, query="race")
        expected = dense(b, "race", "tract")[1:3].sum(axis=0) - dense(a, "race", "tract")[1:3].sum(axis=0)
        assert found.value.tolist() == expected.tolist()
        assert (found.level, found.units) == ("area", 1)


def test_cells_that_cannot_exist_are_not_among_all_cells():
    schema = Schema(attributes=SCHEMA.attributes, zeros=[{"age": ["child"], "race": ["x"]}])
    truth = Histogram.from_entries(SPINE, schema, unit=[0], cell=[1], count=[1])
    assert residuals(truth, truth, level="tract", query="detailed", over="all").n == 4 * 5


def test_a_release_that_leaves_out_empty_units_is_put_on_the_truths_units():
    truth = people(np.eye(4, 6, dtype=int))
    few = Spine.from_columns({"county": ["1", "2"], "tract": ["1b", "2b"]}, root="state")
    part = Histogram.from_entries(few, SCHEMA, unit=[0, 1], cell=[1, 3], count=[1, 5])
    found = residuals(truth, part, level="tract", query="total")
    assert found.value.tolist() == [-1, 0, -1, 4]


def test_siblings_of_one_replicate_share_a_cluster_and_units_under_one_root_stand_alone():
    truth = people(np.ones((4, 6), dtype=int))
    found = residuals(Population(people=truth), [truth, truth], level="tract", query="total")
    assert found.cluster.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert residuals(truth, [truth, truth], level="county", query="total").cluster.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"level": "city"}, "unknown level 'city'"),
        ({"query": "sex"}, "unknown factor 'sex'"),
        ({"over": "some"}, 'over must be "nonempty" or "all". Got \'some\''),
        ({"level": None}, "Give either level=... or areas=..."),
        ({"released": []}, "no release is given"),
        ({"released": [3]}, "a int is not counts of people"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(change, words):
    truth = people(np.ones((4, 6), dtype=int))
    asked = {"released": truth, "level": "tract"} | change
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        residuals(truth, **asked)


def test_releases_on_other_units_levels_or_labels_are_refused_by_number():
    truth = people(np.ones((4, 6), dtype=int))
    other = Schema(attributes={"age": ["child", "adult"]})
    wrong = Histogram.from_entries(SPINE, other, unit=[0], cell=[0], count=[1])
    with pytest.raises(InputError, match="release 2: the release counts by age and the truth by age, race"):
        residuals(truth, [truth, wrong], level="tract")
    moved = Spine.from_columns({"county": ["9"], "tract": ["9a"]}, root="state")
    with pytest.raises(InputError, match="a unit of the release is not in the truth: row 1: tract '9a'"):
        residuals(truth, Histogram.from_entries(moved, SCHEMA, unit=[0], cell=[0], count=[1]), level="tract")
    flat = Spine.from_columns({"tract": ["1a"]}, root="state")
    with pytest.raises(InputError, match="the release has the levels state, tract and the truth state, county, tract"):
        residuals(truth, Histogram.from_entries(flat, SCHEMA, unit=[0], cell=[0], count=[1]), level="tract")


@given(st.lists(st.integers(-4, 4) | st.floats(-3, 3), min_size=1, max_size=30), st.integers(0, 5))
def test_a_tally_has_the_quantiles_of_the_numbers_themselves(numbers, zeros):
    values = np.array(numbers)
    whole = np.concatenate([values, np.zeros(zeros, dtype=values.dtype)])
    counted = value_counts(values, zeros=zeros)
    assert counted.n == len(whole)
    for share in (0, 0.1, 0.5, 0.95, 1):
        assert counted.percentile(100 * share) == pytest.approx(np.quantile(whole, share), rel=1e-12, abs=1e-12)


def test_samples_are_scaled_without_overflow_whatever_the_fraction():
    many = Histogram.from_entries(SPINE, SCHEMA, unit=[0], cell=[0], count=[2_000_000_000])
    for fraction in (1 / 3, Fraction(1, 3), 0.1, Fraction(3333333333333333, 10**16)):
        found = residuals(many, Sample(people=many, fraction=fraction), level="tract", query="total")
        assert found.released[0] == pytest.approx(2e9 / float(fraction), rel=1e-15)
        scaled = Sample(people=many, fraction=fraction).answer("total", level="state")
        assert scaled[0, 0] == pytest.approx(2e9 / float(fraction), rel=1e-15)


def test_values_in_impossible_cells_are_residuals_and_never_make_zeros_negative():
    schema = Schema(attributes=SCHEMA.attributes, zeros=[{"age": ["child"], "race": ["x", "y"]}])
    truth = Histogram.from_entries(SPINE, schema, unit=[0], cell=[4], count=[9])
    full = Estimates(spine=SPINE, schema=schema, query="detailed", tables={"tract": np.ones((2, 4, 6), dtype=int)})
    found = residuals(truth, full, level="tract", query="detailed", over="all")
    assert found.zeros == 0
    assert found.zeros_by_replicate.tolist() == [0, 0]
    some = np.zeros((2, 4, 6), dtype=int)
    some[1, :, 5] = 1
    part = residuals(truth, Estimates(spine=SPINE, schema=schema, query="detailed", tables={"tract": some}),
                     level="tract", query="detailed", over="all")  # fmt: skip
    assert part.n == 2 * 4 * 4
    assert part.zeros_by_replicate.tolist() == [15, 11]


def test_a_level_called_area_is_a_level_and_cannot_be_told_from_areas_off_the_spine():
    spine = Spine.from_columns({"area": ["1", "2"], "block": ["1a", "2a"]}, root="state")
    truth = Histogram.from_entries(spine, SCHEMA, unit=[0], cell=[0], count=[5])
    assert residuals(truth, truth, level="area").level == "area"
    off = Areas.from_codes(spine, leaf=["1a"], area=["Troy"])
    with pytest.raises(InputError, match="a level is called 'area', as areas off the spine are"):
        residuals(truth, truth, areas=off)
