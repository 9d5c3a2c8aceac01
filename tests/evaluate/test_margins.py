"""Margins made without the truth cover it, and would not if they were made with less noise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import InputError
from tallyveil.evaluate.coverage import coverage
from tallyveil.evaluate.margins import FEWEST, margins
from tallyveil.evaluate.residuals import residuals
from tallyveil.files import read_counts
from tallyveil.nouns.areas import Areas
from tallyveil.populations import census_1940, census_2020
from tallyveil.privacy import Invariant
from tallyveil.protection.protect import protect
from tallyveil.release.release import Release

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "ri_2010_block.parquet"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the real census counts are not beside the project")


def rerunning(strategy, facilities=None, seed=0):
    """Protects people again."""

    def rerun(people, replicate):
        made = protect(people, strategy, facilities=facilities, seed=seed, replicate=replicate, failsafe=True)
        return made.histogram

    return rerun


def large_classes(table, *, above_zero=False):
    """Classes of released size with enough counts to tell 84% from 90%, those that start at 0 left out if wanted."""
    rows = table[(table["by"] == "released size") & (table["n"] >= 100)]
    return rows[~rows["class"].str.match(r"0\b")] if above_zero else rows


@pytest.fixture(scope="module")
def census():
    return census_1940(persons=1_000_000, seed=7)


@pytest.fixture(scope="module")
def release(census):
    return protect(census, Strategy.preset("e2e-2018", epsilon=1), seed=11)


@pytest.fixture(scope="module")
def made(census, release):
    return margins(release, rerunning(release.strategy, census.facilities), replicates=6)


def test_margins_cover_the_truth_they_never_saw(census, release, made):
    table = coverage(census, release, made)
    assert 0.86 <= table["coverage"][0] <= 0.94
    classes = large_classes(table)
    assert len(classes) >= 15
    assert classes["coverage"].between(0.84, 1).all(), classes.to_string()


def test_margins_made_with_half_the_noise_do_not_cover(census, release):
    less = release.strategy.with_budget(epsilon=2)
    table = coverage(census, release, margins(release, rerunning(less, census.facilities), replicates=3))
    assert table["coverage"][0] < 0.84
    assert (large_classes(table)["coverage"] < 0.84).sum() >= 5


def test_coverage_is_also_told_by_true_size_and_counts_every_count_once(census, release, made):
    table = coverage(census, release, made)
    for (_, _), rows in table[table["level"] != "all"].groupby(["level", "query"]):
        sums = rows.assign(held=rows["n"] * rows["coverage"]).groupby("by")[["n", "held"]].sum()
        assert set(sums.index) == {"all", "released size", "true size"}
        assert np.allclose(sums, sums.loc["all"])
    race = table[(table["level"] == "enumdist") & (table["query"] == "votingage * hispanic * race")]
    by_true_size = race[race["by"] == "true size"].set_index("class")["coverage"]
    assert by_true_size["20 - 49"] < 0.84 < 0.97 < by_true_size["1 - 4"]  # where the promise does not hold


def test_cells_empty_in_both_are_exact_and_counted_only_where_all_cells_are_asked_for(census, release, made):
    some, every = (coverage(census, release, made, over=over) for over in ("nonempty", "all"))
    asked = "level == 'enumdist' and query == 'hhgq' and by == 'all'"
    assert every.query(asked)["n"].item() == 8 * census.people.spine.size("enumdist") > some.query(asked)["n"].item()
    missed = [(table["n"] * (1 - table["coverage"])).iloc[0] for table in (some, every)]
    assert missed[0] == pytest.approx(missed[1])
    assert every["coverage"][0] > some["coverage"][0]


def test_margins_are_the_same_again_whatever_else_is_asked_for_and_differ_with_the_seed(census, release):
    def made(seed, levels):
        rerun = rerunning(release.strategy, census.facilities, seed=seed)
        return margins(release, rerun, replicates=2, levels=levels).classes

    first, more = made(0, ["county"]), made(0, ["enumdist", "county"])
    assert {pair: more[pair] for pair in more if pair[0] == "county"} == first
    assert made(5, ["county"]) != first


def test_classes_follow_each_other_from_zero_and_each_has_enough_errors(made):
    for classes in made.classes.values():
        assert classes[0].least == 0
        assert classes[-1].most is None
        assert [one.most + 1 for one in classes[:-1]] == [one.least for one in classes[1:]]
        assert len(classes) == 1 or min(one.n for one in classes) >= FEWEST * made.replicates
    assert max(map(len, made.classes.values())) >= 8


def test_a_margin_is_looked_up_by_released_count(made):
    classes = made.classes["enumdist", "votingage * hispanic * race"]
    counts = [count for one in classes for count in (one.least, one.least if one.most is None else one.most)]
    found = made.of("enumdist", "votingage * hispanic * race", counts)
    assert found.tolist() == [one.margin for one in classes for _ in range(2)]
    assert len(set(found.tolist())) > 3
    with pytest.raises(
        InputError, match=r"no margins for hispanic \* race@enumdist. Only total@us, .* have margins. Ask for it"
    ):
        made.of("enumdist", "hispanic * race", [1])


def test_what_is_kept_exactly_has_no_margin(census, release, made):
    assert made.of("us", "total", [1_000_000]).tolist() == [0]
    kept = replace(
        release.strategy, constraints=(*release.strategy.constraints, Invariant(query="hhgq", level="county"))
    )
    rerun = rerunning(kept, census.facilities)
    release = Release(histogram=census.people, strategy=kept)
    table = margins(release, rerun, replicates=2, levels=["county", "enumdist"]).table.set_index(["level", "query"])
    for query in ("total", "hhgq"):
        exact = table.loc[[("county", query)]]
        assert not exact[["margin", "bias", "noise_sd"]].to_numpy().any()
        assert exact["bias_reliable"].all()
    assert (table.loc[[("enumdist", "total")]]["margin"] > 0).all()


def test_without_noise_there_are_no_margins():
    census = census_1940(persons=20_000, seed=7)
    plan = Strategy.default(census.people.spine, census.people.schema, epsilon=10**9)
    table = margins(Release(histogram=census.people, strategy=plan), rerunning(plan), replicates=2).table
    assert not table[["margin", "bias"]].to_numpy().any()
    assert table["n"].sum() > 400


SPINE = Spine.from_columns({"block": [f"{number:04}" for number in range(2000)]}, root="town")
SCHEMA = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})


def town(counts) -> Histogram:
    unit = np.arange(len(counts))
    return Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=np.zeros(len(counts), int), count=counts)


def test_margin_and_bias_are_those_of_the_errors_sorted_by_what_came_out():
    rng = np.random.default_rng(3)
    before = rng.integers(0, 300, 2000)
    after = [np.maximum(0, before + rng.integers(-30, 31, 2000)) for _ in range(3)]
    release = Release(histogram=town(before), strategy=Strategy.default(SPINE, SCHEMA, epsilon=1))
    made = margins(
        release, lambda _, i: town(after[i]), replicates=3, levels=["block"], queries=["total"], confidence=0.8
    )
    pairs = np.array([(old, new) for one in after for old, new in zip(before, one, strict=True) if old or new])
    classes = made.classes["block", "total"]
    assert sum(one.n for one in classes) == len(pairs)
    for one in classes:
        end = np.inf if one.most is None else one.most
        errors = np.array([new - old for old, new in pairs if one.least <= new <= end])
        assert one.n == len(errors)
        assert one.bias == pytest.approx(errors.mean())
        assert (np.abs(errors) <= one.margin).mean() >= 0.8 > (np.abs(errors) < one.margin).mean()


def test_errors_at_the_edge_of_a_share_are_counted_exactly():
    before, after = np.full(2000, 50), np.full(2000, 50)
    after[:200] += 7  # one in ten is off: 90% are not
    release = Release(histogram=town(before), strategy=Strategy.default(SPINE, SCHEMA, epsilon=1))
    asked = {"replicates": 1, "levels": ["block"], "queries": ["total"]}
    assert margins(release, lambda *_: town(after), **asked).of("block", "total", 50) == 0
    after[200] += 7
    assert margins(release, lambda *_: town(after), **asked).of("block", "total", 50) == 7


def test_bias_below_the_noise_of_the_most_precise_measurement_is_unreliable():
    queries = {"town": {"detailed": 1}, "block": {"age * sex": "1/10", "age": "9/10"}}
    plan = Strategy(mechanism="gaussian", budget=1, levels={"town": "1/2", "block": "1/2"}, queries=queries)
    release = Release(histogram=town(np.full(2000, 50)), strategy=plan)

    def table(error: int):
        rerun = lambda *_: town(np.full(2000, 50 + error))  # noqa: E731
        found = margins(release, rerun, replicates=1, levels=["block"], queries=["total", "age", "sex"]).table
        return found.groupby("query")[["noise_sd", "bias_reliable"]].last()

    # age has variance 1 / (1/2 * 9/10); its two rows make up a total; sex is known from two of the four cells only
    expected = {"age": np.sqrt(2.2222), "total": np.sqrt(2 * 2.2222), "sex": np.sqrt(2 * 20)}
    for query, deviation in expected.items():
        assert table(1).loc[query, "noise_sd"] == pytest.approx(deviation, rel=1e-3)
    assert table(2)["bias_reliable"].to_dict() == {"age": True, "sex": False, "total": False}
    assert table(3)["bias_reliable"].to_dict() == {"age": True, "sex": False, "total": True}
    assert table(7)["bias_reliable"].all()


def test_counts_that_are_hardly_measured_themselves_are_named():
    queries = {"town": {"detailed": 1}, "block": {"total": "1/1000", "detailed": "999/1000"}}
    plan = Strategy(mechanism="gaussian", budget=1, levels={"town": "1/2", "block": "1/2"}, queries=queries)
    only = replace(plan, queries={"town": {"detailed": 1}, "block": {"total": 1}})
    before, after = np.full(2000, 50), np.full(2000, 51)
    for strategy, weak in ((plan, [("block", "total")]), (only, [])):
        release = Release(histogram=town(before), strategy=strategy)
        made = margins(release, lambda *_: town(after), replicates=1, queries=["total"], levels=["block"])
        assert made.weak == weak


def test_large_areas_do_not_get_the_margin_of_small_ones():
    rng = np.random.default_rng(6)
    before = rng.integers(50, 300, 2000)
    names = [f"large {i // 400}" if i < 1600 else f"small {i}" for i in range(1640)]  # 4 of 400 leaves, 40 of one
    areas = Areas.from_codes(SPINE, leaf=SPINE.codes[-1][:1640], area=names)
    release = Release(histogram=town(before), strategy=Strategy.default(SPINE, SCHEMA, epsilon=1))
    made = margins(
        release, lambda *_: town(before + rng.integers(-10, 11, 2000)), replicates=10, levels=[], areas=areas
    )
    small, large = made.of("area", "total", [1, 400])
    assert 8 <= small <= 10  # nine in ten of -10 to 10
    assert large == pytest.approx(1.645 * np.sqrt(400 * 440 / 12), rel=0.35)
    assert made.table["size"].str.endswith("leaves").all()


def test_areas_off_the_spine_have_margins_of_their_own():
    rng = np.random.default_rng(5)
    before = rng.integers(50, 300, 2000)
    after = before + rng.integers(-10, 11, 2000)
    areas = Areas.from_codes(SPINE, leaf=SPINE.codes[-1][:1600], area=[f"{i // 4:03}" for i in range(1600)])
    release = Release(histogram=town(before), strategy=Strategy.default(SPINE, SCHEMA, epsilon=1))
    made = margins(release, lambda *_: town(after), replicates=1, levels=[], areas=areas)
    assert {level for level, _ in made.classes} == {"area"}
    off = np.abs((after - before)[:1600].reshape(-1, 4).sum(axis=1))
    found = residuals(town(before), town(after), areas=areas, query="total")
    assert np.abs(found.value).tolist() == off.tolist()
    table = coverage(town(before), town(after), made)
    assert (off <= made.of("area", "total", np.full(400, 4))).mean() == pytest.approx(
        table[(table["query"] == "total") & (table["by"] == "all")]["coverage"].item()
    )
    alone = np.sqrt(Strategy.default(SPINE, SCHEMA, epsilon=1).noise("block", "total").actual_variance())
    assert made.classes["area", "total"][0].noise_sd == pytest.approx(2 * alone)  # of four leaves


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"replicates": 0}, "replicates must be 1 or more. Got 0 instead."),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1. Got 1.0 instead."),
        (
            {"classes": [1, 5]},
            r"classes start at \[1, 5\]. Give at most 255 ascending whole numbers, of which the first is 0.",
        ),
        ({"classes": [0, 5, 5]}, r"classes start at \[0, 5, 5\]"),
        ({"levels": ["ward"]}, "unknown level 'ward'. The levels are town, block."),
    ],
)
def test_what_makes_no_margins_is_refused(asked, line):
    release = Release(histogram=town(np.full(2000, 5)), strategy=Strategy.default(SPINE, SCHEMA, epsilon=1))
    with pytest.raises(InputError, match=line):
        margins(release, lambda people, _: people, **asked)


def test_a_release_without_a_strategy_or_without_people_is_refused():
    nobody = Histogram.from_entries(SPINE, SCHEMA, unit=[], cell=[], count=[])
    with pytest.raises(InputError, match=r"the release has no strategy, .* Give its strategy"):
        margins(Release(histogram=nobody), lambda people, _: people)
    with pytest.raises(InputError, match="the release has nobody in it"):
        margins(
            Release(histogram=nobody, strategy=Strategy.default(SPINE, SCHEMA, epsilon=1)), lambda people, _: people
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "persons", "strategy", "budget"),
    [
        (census_1940, 5_000_000, "e2e-2018", {"epsilon": 1}),
        (census_1940, 5_000_000, "default", {"epsilon": 1}),
        (census_1940, 5_000_000, "default", {"rho": 1}),
        (census_2020, 300_000, "default", {"epsilon": 1}),
        (census_2020, 300_000, "default", {"rho": 1}),
    ],
)
def test_margins_cover_synthetic_truths_with_several_strategies(make, persons, strategy, budget):
    census = make(persons=persons, seed=7)
    people = census.people
    plan = Strategy.default(people.spine, people.schema, **budget)
    if strategy != "default":
        plan = Strategy.preset(strategy, **budget)
    tables = []
    for seed in (21, 22, 23):  # classes of one release are small; three show what is systematic
        release = protect(census, plan, seed=seed)
        made = margins(release, rerunning(plan, census.facilities), areas=census.areas.get("place"))
        tables.append([coverage(census, release, made, over=over) for over in ("nonempty", "all")])
    check_pooled(tables)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 1}])
def test_margins_cover_the_real_counts_of_rhode_island(budget):
    people = read_counts(DATA, ROOT / "examples" / "ri_2010_block.toml")
    plan = Strategy.default(people.spine, people.schema, **budget)
    tables = []
    for seed in (21, 22, 23):
        release = protect(people, plan, seed=seed)
        made = margins(release, rerunning(plan))
        tables.append([coverage(people, release, made, over=over) for over in ("nonempty", "all")])
    check_pooled(tables)


def check_pooled(tables) -> None:
    """Counts above 0 are judged where somebody is, in truth or release; the class of released zeros over all of them.

    Among released zeros that hide somebody, margins may cover far less (people in group quarters) or more.
    """
    some, every = (pooled([pair[i] for pair in tables]) for i in (0, 1))
    above = some.query("by == 'released size' and `class` != '0'")
    zeros = every.query("by == 'released size' and `class` == '0'")
    large = above.query("n >= 300")
    low = large[large["coverage"] < 0.84]
    assert len(large) >= 20
    assert len(low) <= 1, low.to_string()  # measured: 1 of 346 in seven trials, at 82.5% (docs/margins.md)
    assert large["coverage"].between(0.80, 1).all(), low.to_string()
    assert zeros.query("n >= 300")["coverage"].between(0.84, 1).all(), zeros.to_string()
    assert 0.87 <= above["held"].sum() / above["n"].sum() <= 0.93
    whole = some.query("by == 'all'")
    assert 0.87 <= whole["held"].sum() / whole["n"].sum() <= 0.95  # zeros that hide somebody lift it


def pooled(tables):
    """Coverage in several releases together."""
    table = pd.concat([one.iloc[1:] for one in tables])
    table = table.assign(held=table["n"] * table["coverage"])
    sums = table.groupby(["level", "query", "by", "class"], sort=False)[["n", "held"]].sum().reset_index()
    return sums.assign(coverage=sums["held"] / sums["n"])
