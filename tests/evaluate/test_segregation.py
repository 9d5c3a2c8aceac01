"""Segregation indices by hand and by brute force, and their error against a planted release."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil import Histogram, Schema, Spine
from tallyveil.errors import InputError
from tallyveil.evaluate import dissimilarity, entropy, exposure, isolation, segregation, segregation_error

SPINE = Spine.from_columns({"county": ["1", "1", "2", "2"], "tract": ["1a", "1b", "2a", "2b"]}, root="state")
SCHEMA = Schema(attributes={"race": ["white", "black", "other"]})
TRUE = np.array([[60, 20, 20], [10, 30, 0], [50, 0, 5], [7, 0, 3]])


def histogram(table) -> Histogram:
    unit, cell = np.nonzero(table)
    return Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=cell, count=np.asarray(table)[unit, cell])


def test_indices_of_two_units_by_hand():
    x, y, t = [20, 30], [60, 10], [100, 40]
    assert dissimilarity(x, y).item() == pytest.approx((abs(20 / 50 - 60 / 70) + abs(30 / 50 - 10 / 70)) / 2)
    assert isolation(x, t).item() == pytest.approx(20 / 50 * 0.2 + 30 / 50 * 0.75)
    assert exposure(x, y, t).item() == pytest.approx(20 / 50 * 0.6 + 30 / 50 * 0.25)
    whole = -(50 / 120) * log(50 / 120) - (70 / 120) * log(70 / 120)
    first, second = -0.25 * log(0.25) - 0.75 * log(0.75), -0.75 * log(0.75) - 0.25 * log(0.25)
    assert entropy(x, y).item() == pytest.approx((80 * (whole - first) + 40 * (whole - second)) / (whole * 120))


counts = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6)


@given(counts)
def test_isolation_and_exposure_of_two_groups_sum_to_one_and_indices_lie_between_0_and_1(pairs):
    x, y = np.array(pairs, dtype=float).T
    if x.sum() == 0:
        assert np.isnan(exposure(x, y, x + y)).all()
        return
    assert (isolation(x, x + y) + exposure(x, y, x + y)).item() == pytest.approx(1)
    if y.sum() == 0:
        assert np.isnan(entropy(x, y)).all()
        return
    for index in (dissimilarity(x, y), entropy(x, y)):
        assert -1e-12 <= index.item() <= 1 + 1e-12
    assert entropy(x, y).item() == pytest.approx(entropy(y, x).item())


def test_indices_of_every_unit_above_are_those_of_its_own_units():
    table = segregation(histogram(TRUE), histogram(TRUE), query="race", group="black", other="white", within="county")
    assert (table.error.dropna() == 0).all()
    first = table[table.unit == "1"].set_index("index").true
    x, y, t = [20, 30], [60, 10], [100, 40]
    assert first.to_dict() == pytest.approx({
        "dissimilarity": dissimilarity(x, y).item(), "isolation": isolation(x, t).item(),
        "exposure": exposure(x, y, t).item(), "entropy": entropy(x, y).item(),
    })  # fmt: skip
    assert table[table.unit == "2"].true.isna().all()  # nobody of the group lives there


def test_the_error_and_the_margin_come_from_all_replicates():
    released = [TRUE + np.array([[0, 2, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]), TRUE]
    words = {"query": "race", "group": "black", "within": "state"}
    table = segregation(histogram(TRUE), [histogram(one) for one in released], **words)
    rows = table[table["index"] == "isolation"]
    everybody = TRUE.sum(axis=1)
    true = isolation(TRUE[:, 1], everybody).item()
    moved = isolation(released[0][:, 1], released[0].sum(axis=1)).item()
    assert rows.replicate.tolist() == [0, 1]
    assert rows.true.tolist() == pytest.approx([true, true])
    assert rows.released.tolist() == pytest.approx([moved, true])
    assert rows.error.tolist() == pytest.approx([moved - true, 0])
    assert rows.moe90.tolist() == pytest.approx([1.645 * abs(moved - true) / 2**0.5] * 2)
    assert (rows.other == "everybody else").all()


def test_errors_of_opposite_sign_are_pooled_and_not_averaged_away():
    released = [TRUE + np.array([[0, k, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]) for k in (8, -8)]
    words = {"query": "race", "group": "black", "within": "county"}
    table = segregation(histogram(TRUE), [histogram(one) for one in released], **words)
    summary = segregation_error(table).set_index("index").loc["isolation"]
    errors = [isolation(one[:2, 1], one[:2].sum(axis=1)).item() for one in (TRUE, *released)]
    errors = np.array(errors[1:]) - errors[0]
    assert (summary.n, summary.undefined) == (1, 1)
    assert summary.bias == pytest.approx(errors.mean())
    assert summary.mean_abs == pytest.approx(np.abs(errors).mean())
    assert summary.moe90 == pytest.approx(1.645 * summary.rmse)


def test_the_error_over_units_leaves_out_undefined_ones_and_counts_them():
    released = TRUE.copy()
    released[1] = [14, 26, 0]
    table = segregation(histogram(TRUE), histogram(released), query="race", group="black", within="county")
    summary = segregation_error(table).set_index("index")
    assert (summary.n == 1).all()
    assert (summary.undefined == 1).all()
    index = summary.loc["dissimilarity"]
    error = dissimilarity([20, 26], [80, 14]).item() - dissimilarity([20, 30], [80, 10]).item()
    assert (index.bias, index.median_abs) == (pytest.approx(error), pytest.approx(abs(error)))
    assert np.isnan(index.moe90)


def test_a_level_of_single_children_gets_the_codes_of_the_units_above():
    spine = Spine.from_columns({"county": ["1", "2"], "tract": ["1a", "2a"]}, root="state")
    people = Histogram.from_entries(spine, SCHEMA, unit=[0, 1], cell=[0, 1], count=[3, 4])
    assert segregation(people, people, query="race", group="black", within="county").unit.unique().tolist() == [
        "1",
        "2",
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"group": "green", "within": "county"},
         "'green' is not a group of 'detailed'. Its groups are white, black, other"),
        ({"group": "black", "within": "tract"}, "level 'tract' is not above 'tract'"),
        ({"group": "black", "other": "black", "within": "county"}, "the groups are the same, 'black'"),
        ({"group": "black", "within": "town"}, "unknown level 'town'"),
    ],
)  # fmt: skip
def test_unknown_groups_and_levels_are_refused(words, line):
    with pytest.raises(InputError, match=line.replace(".", r"\.")):
        segregation(histogram(TRUE), histogram(TRUE), query="race", **words)
