"""Raking against hand computations and its defining property, and surveys raked to true and released controls."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil import Histogram, Schema, Spine
from tallyveil.errors import InputError
from tallyveil.evaluate import rake_weights, survey
from tallyveil.mechanisms import geometric, sample
from tallyveil.populations import census_1940

TOWN = census_1940(persons=200_000, seed=7).people
SPINE = Spine.from_columns({"county": ["1", "1", "2"], "tract": ["1a", "1b", "2a"]}, root="state")
SCHEMA = Schema(attributes={"age": ["child", "adult"], "race": ["white", "black"]})
TRUE = np.array([[30, 5, 60, 10], [20, 20, 30, 30], [8, 2, 50, 40]])


def histogram(table) -> Histogram:
    unit, cell = np.nonzero(table)
    return Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=cell, count=np.asarray(table)[unit, cell])


def test_raking_to_one_control_is_post_stratification():
    found = rake_weights(np.array([2.0, 6, 5]), [np.array([0, 0, 1])], [np.array([16.0, 7])])
    assert found.weight.tolist() == [4, 12, 7]
    assert (found.missed, found.gap, found.rounds) == (0, 0, 1)


positive = st.floats(0.5, 20)


@given(
    st.lists(positive, min_size=12, max_size=12),
    st.lists(positive, min_size=3, max_size=3),
    st.lists(positive, min_size=4, max_size=4),
)
def test_raked_weights_meet_both_controls_and_keep_every_odds_ratio(weights, rows, columns):
    """What defines the limit of raking: the margins are met, and weight / start = row factor x column factor."""
    start = np.array(weights)
    aims = np.array(rows), np.array(columns) * sum(rows) / sum(columns)
    groups = [np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)]
    found = rake_weights(start, groups, aims)
    for group, aim in zip(groups, aims, strict=True):
        assert np.bincount(group, weights=found.weight) == pytest.approx(aim, rel=1e-6)
    log = np.log(found.weight / start).reshape(3, 4)
    assert log - log[:, :1] - log[:1] + log[0, 0] == pytest.approx(np.zeros((3, 4)), abs=1e-9)


def test_groups_that_nobody_stands_for_are_counted_and_empty_controls_remove_people():
    found = rake_weights(np.array([1.0, 1]), [np.array([0, 2])], [np.array([3.0, 1, 0])])
    assert found.weight.tolist() == [3, 0]
    assert found.missed == 0.25


def test_a_control_whose_people_another_control_removes_is_not_met():
    groups, controls = [np.array([0, 1]), np.array([0, 1])], [np.array([0.0, 5]), np.array([3.0, 5])]
    found = rake_weights(np.ones(2), groups, controls)
    assert found.weight.tolist() == [0, 5]
    assert (found.missed, found.gap) == (0, 1)


def test_the_gap_is_relative_to_the_control():
    found = rake_weights(np.ones(1), [np.array([0]), np.array([0])], [np.array([4.0]), np.array([8.0])])
    assert (found.weight.tolist(), found.gap) == ([8], 1)  # the first control is met twice over


def test_a_survey_of_everybody_raked_to_the_truth_is_the_truth():
    people = histogram(TRUE)
    table = survey(people, people, fraction=1, controls=[("age", "county")], estimates=[("race", "tract")])
    assert table.controls.tolist() == ["none", "true", "released"]
    assert (table.max_abs < 1e-9).all()


def test_estimates_of_a_control_are_the_controls():
    """Whatever the survey, its weighted counts of the control are the released ones, so errors are the release's."""
    released = TRUE + np.array([[3, 0, 0, 0], [0, -4, 0, 0], [0, 0, 0, 5]])
    table = survey(
        histogram(TRUE),
        histogram(released),
        fraction="3/4",
        controls=[("age", "county")],
        estimates=[("age", "county")],
    ).set_index("controls")
    assert table.loc["true"].max_abs == pytest.approx(0, abs=1e-6)
    assert table.loc["released"].mean_abs == pytest.approx((1 + 0 + 0 + 5) / 4)
    assert table.loc["released"].added == pytest.approx(((1 + 25) / 4) ** 0.5)
    assert table.loc["none"].max_abs > 0


def test_the_estimate_of_another_query_by_hand():
    people, released = histogram(TRUE), histogram(TRUE + np.array([[10, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]))
    words = {"fraction": "1/2", "controls": [("total", "state")], "estimates": [("race", "county")], "seed": 4}
    table = survey(people, released, **words).set_index("controls")
    drawn = sample(people, "1/2", seed=4).people.answer("race", level="county").dense()
    true = people.answer("race", level="county").dense()
    for name, total in (("true", 305), ("released", 315)):
        assert table.loc[name].mean_abs == pytest.approx(np.abs(drawn * total / drawn.sum() - true).mean())


def test_each_release_has_a_survey_of_its_own():
    people = histogram(TRUE)
    words = {"fraction": "1/2", "controls": [("total", "state")], "estimates": [("race", "county")], "seed": 4}
    table = survey(people, [people, people], **words).set_index("controls")
    true = people.answer("race", level="county").dense()
    drawn = [sample(people, "1/2", seed=4, replicate=k).answer("race", level="county") for k in range(2)]
    assert (drawn[0] != drawn[1]).any()
    assert table.loc["none"].mean_abs == pytest.approx(np.mean([np.abs(one - true) for one in drawn]))
    assert table.loc["none"].n == 8


def test_true_controls_help_and_very_noisy_ones_do_harm():
    words = {"fraction": "1/20", "controls": [("race", "county"), ("votingage", "county")]}
    words["estimates"] = [("total", "county"), ("race", "state")]
    released = geometric(TOWN, epsilon="1/50", query="votingage * hispanic * race", seed=1)
    noisy = released.tables["enumdist"].clip(min=0)
    noisy = type(released)(spine=TOWN.spine, schema=TOWN.schema, query=released.query, tables={"enumdist": noisy})
    table = survey(TOWN, [noisy, noisy], **words).set_index(["level", "query", "controls"]).rmse
    for level, query in (("county", "total"), ("state", "race")):
        none, true, harmed = (table[level, query, name] for name in ("none", "true", "released"))
        assert true < none < harmed


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"controls": []}, "a survey needs controls and estimates"),
        ({"controls": [("age", "town")]}, "unknown level 'town'"),
        ({"fraction": 0}, "fraction 0 takes nobody"),
    ],
)
def test_surveys_that_cannot_be_made_are_refused(changes, line):
    words = {"fraction": "1/2", "controls": [("age", "county")], "estimates": [("age", "county")]} | changes
    with pytest.raises(InputError, match=line):
        survey(histogram(TRUE), histogram(TRUE), **words)


def test_negative_controls_are_refused():
    noisy = geometric(histogram(TRUE), epsilon="1/100", query="age", seed=1)
    with pytest.raises(InputError, match=r"the control age@tract has negative counts\. Rake to counts of a release"):
        survey(histogram(TRUE), noisy, fraction="1/2", controls=[("age", "tract")], estimates=[("age", "tract")])


def test_tables_that_do_not_fit_in_memory_are_refused_before_the_work(monkeypatch):
    monkeypatch.setattr(sys.modules[survey.__module__], "LARGEST", 5)
    with pytest.raises(InputError, match=r"age@tract has 6 counts, more than the 5 .* Name coarser levels or queries"):
        survey(histogram(TRUE), histogram(TRUE), fraction=1, controls=[("age", "county")], estimates=[("age", "tract")])
