"""Attacks that met a hole where two features meet, each kept as a test."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import BudgetError, EndedAfterNoise, InputError
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.histogram import Filter
from tallyveil.privacy import Bound, FacilityBounds, RunKey
from tallyveil.privacy.budget import up
from tallyveil.protection.protect import protect, protect_to_folder

SPINE = Spine.from_columns({"county": ["a", "b"]}, root="us")
SCHEMA = Schema(attributes={"x": ["1", "2", "3"], "y": ["1", "2"]})
PEOPLE = Histogram.from_entries(
    SPINE, SCHEMA, unit=[0] * 6 + [1] * 6, cell=list(range(6)) * 2, count=[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
)


def outcome(strategy: Strategy, seed: int) -> str:
    try:
        protect(PEOPLE, strategy, seed=seed, threads=1)
    except EndedAfterNoise as problem:
        return str(problem)
    return "a release"


@pytest.mark.parametrize("asked", [["total"], ["x"], ["total", "x"], ["x", "y"]])
@pytest.mark.parametrize(("mechanism", "budget"), [("geometric", "2"), ("gaussian", "3/10")])
def test_a_root_whose_cells_are_not_measured_does_not_end_the_run(asked, mechanism, budget):
    # Where cells are not measured the optimum is not unique, and no gap can be proved: that is no reason to end.
    strategy = Strategy.proportional(
        mechanism=mechanism,
        budget=budget,
        levels={"us": 1, "county": 1},
        queries={"us": dict.fromkeys(asked, 1), "county": {"detailed": 1}},
        attributes=("x", "y"),
    )
    assert Counter(outcome(strategy, seed) for seed in range(12)) == {"a release": 12}


def test_the_answer_that_cannot_be_certified_is_still_the_nearest_one():
    strategy = Strategy.proportional(
        mechanism="gaussian",
        budget="3/10",
        levels={"us": 1, "county": 1},
        queries={"us": {"x": 1}, "county": {"detailed": 1}},
        attributes=("x", "y"),
    )
    for seed in range(12):
        noisy = measure(PEOPLE, strategy, RunKey.from_seed(seed)).ask("us", "x", np.arange(3))
        released = protect(PEOPLE, strategy, seed=seed).histogram.answer("x", level="us").dense()[0]
        assert np.abs(released - nearest(noisy, PEOPLE.total())).max() < 1 + 1e-6


def nearest(values: np.ndarray, total: int) -> np.ndarray:
    """The non-negative numbers with this sum that are nearest to some values."""
    down = np.sort(values)[::-1]
    moves = (np.cumsum(down) - total) / np.arange(1, len(down) + 1)
    move = moves[np.flatnonzero(down - moves > 0)[-1]]
    return np.maximum(values - move, 0)


def test_a_key_named_by_a_link_is_bound_as_the_key_itself(tmp_path):
    RunKey.from_file(tmp_path / "key").people([b"these"])
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to("../key")
    RunKey.from_file(link).people([b"these"])
    with pytest.raises(InputError, match="first used on other people"):
        RunKey.from_file(link).people([b"others"])
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["link"]


def test_a_key_is_refused_for_those_who_pass_a_filter_even_where_everybody_does(tmp_path):
    # Otherwise two equal releases, with and without a filter that is not public, would say that nobody was left out.
    strategy = replace(Strategy.default(SPINE, SCHEMA, epsilon=1), neighbours="add-or-remove")
    measure(PEOPLE, strategy, RunKey.from_file(tmp_path / "key"))
    for public in (False, True):
        some = replace(PEOPLE, filter=Filter(where={"hiv": "no"}, public=public))
        with pytest.raises(InputError, match="other people or another list of units or filter"):
            measure(some, strategy, RunKey.from_file(tmp_path / "key"))


def test_a_signing_key_that_cannot_be_used_is_refused_before_any_noise(tmp_path):
    strategy = Strategy.default(SPINE, SCHEMA, epsilon=1)
    key = RunKey.from_file(tmp_path / "key")
    with pytest.raises(InputError, match="cannot be read"):
        protect_to_folder(PEOPLE, strategy, tmp_path / "release", key=key, sign_with=tmp_path / "none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key"]  # it is not even bound


def test_the_order_in_which_levels_are_written_does_not_change_how_queries_are_spelled():
    tables = {"us": {"x": "1/2", "x * y": "1/2"}, "county": {"y*x": 1}}
    both = [
        Strategy(
            mechanism="geometric",
            budget=1,
            levels={"us": "1/2", "county": "1/2"},
            queries={level: tables[level] for level in order},
        )
        for order in (("us", "county"), ("county", "us"))
    ]
    assert both[0] == both[1]
    assert list(both[0].spends()) == list(both[1].spends())
    assert list(both[0].canonical_bytes()) == list(both[1].canonical_bytes())


# -- further findings of the same review -------------------------------------------------------------------------------


def test_under_add_or_remove_bounds_that_leave_one_number_of_people_are_refused():
    people = Histogram.from_entries(
        Spine.from_columns({"block": ["1", "2"]}, root="town"),
        Schema(attributes={"age": ["c", "a"]}),
        unit=[0, 1],
        cell=[0, 1],
        count=[2, 3],
    )
    free = replace(Strategy.default(people.spine, people.schema, epsilon=1), neighbours="add-or-remove")
    ways = [
        (Bound(query="total", level="town", least=5), Bound(query="total", level="town", most=5)),
        (Bound(query="age", level="town", least={"c": 2, "a": 3}, most={"c": 2, "a": 3}),),
        (Bound(query="total", level="block", least={"*": 2}), Bound(query="total", level="town", most=5),
         Bound(query="total", level="block", units=["2"], least=3)),
    ]  # fmt: skip
    for bounds in ways:
        with pytest.raises(BudgetError, match="the constraints leave one number of people, 5"):
            protect(people, replace(free, constraints=bounds), seed=1)
        protect(people, replace(free, constraints=bounds, check_constraints=False), seed=1)


def test_facility_bounds_that_fix_a_number_are_declared_as_an_invariant():
    exactly = FacilityBounds(attribute="age", level="block", least=1, most={"c": 1, "a": 9})
    free = FacilityBounds(attribute="age", level="block", least=1, most=9)
    assert (exactly.pins, free.pins) == (True, False)


def test_whatever_ends_a_run_after_noise_says_that_the_budget_counts(monkeypatch):
    people = Histogram.from_entries(
        Spine.from_columns({"block": ["1", "2"]}, root="town"),
        Schema(attributes={"age": ["c", "a"]}), unit=[0], cell=[0], count=[2],
    )  # fmt: skip
    plan = Strategy.default(people.spine, people.schema, epsilon=1)

    def broken(*_, **__):
        raise KeyError("something")

    monkeypatch.setattr("tallyveil.protection.protect.topdown", broken)
    with pytest.raises(EndedAfterNoise, match=r"^KeyError\. .*its budget \(epsilon 1\) counts as spent.*--key-file"):
        protect(people, plan)
    with pytest.raises(EndedAfterNoise, match=r"costs nothing more"):
        protect(people, plan, seed=1)


def test_what_cannot_be_drawn_is_refused_before_noise():
    people = Histogram.from_entries(
        Spine.from_columns({"block": ["1", "2"]}, root="town"),
        Schema(attributes={"age": ["c", "a"]}), unit=[0], cell=[0], count=[2],
    )  # fmt: skip
    plan = Strategy.default(people.spine, people.schema, epsilon=1)
    with pytest.raises(InputError, match="too wide to draw"):
        protect(people, replace(plan, budget="1e-17"), seed=1)
    with pytest.raises(InputError, match="replicate"):
        protect(people, plan, seed=1, replicate=1 << 32)
    with pytest.raises(InputError, match="threads must be 1 or more"):
        protect(people, plan, seed=1, threads=-1)


@pytest.mark.parametrize("attribute", ["block", "count"])
def test_columns_that_would_have_one_name_are_refused_before_noise(tmp_path, attribute):
    schema = Schema(attributes={attribute: ["c", "a"]})
    people = Histogram.from_entries(
        Spine.from_columns({"block": ["1", "2"]}, root="town"), schema, unit=[0], cell=[0], count=[2]
    )
    with pytest.raises(InputError, match=f"two columns of the release would be called '{attribute}'"):
        protect_to_folder(people, Strategy.default(people.spine, schema, epsilon=1), tmp_path / "r", seed=1)
    assert list(tmp_path.iterdir()) == []


def test_losses_in_words_are_rounded_up():
    assert up(1 / 3, digits=6) == "0.333334"
