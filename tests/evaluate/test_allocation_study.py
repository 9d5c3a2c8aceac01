"""The allocation study: replicates pooled as in petti2020, with intervals, bias, the nearest sample and risk."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from tallyveil.evaluate import bias, epl, error, residuals
from tallyveil.evaluate.allocation_study import COLUMNS, sample_profiles, study
from tallyveil.evaluate.compare import like_a_sample
from tallyveil.evaluate.sweep import sweep, trials
from tallyveil.populations import census_1940
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.protect import protect
from tallyveil.report.study_plot import study_plot

STRATA = "votingage * hispanic * race"
ASKED = [("county", "total"), ("enumdist", STRATA)]
TENTHS = tuple(Fraction(step, 5) for step in range(1, 5))


@pytest.fixture(scope="module")
def people():
    return census_1940(persons=200_000, seed=2).people


@pytest.fixture(scope="module")
def releases(people):
    """Three releases at each of two budgets, and the trials that ask for them."""
    default = Strategy.default(people.spine, people.schema, epsilon=1)
    wanted = trials({"even": [default, default.with_budget(epsilon=8)]}, replicates=3)
    return wanted, {
        (trial.strategy.budget, trial.replicate): protect(people, trial.strategy, seed=1, replicate=trial.replicate)
        for trial in wanted
    }


@pytest.fixture(scope="module")
def entries(people, releases):
    wanted, made = releases
    kept: dict = {}
    sweep(
        people, wanted, lambda strategy, number: made[strategy.budget, number], levels=["county", "enumdist"],
        queries=["total", STRATA], entries=kept,
    )  # fmt: skip
    return kept


ALL = [(level, query) for level in ("county", "enumdist") for query in ("total", STRATA)]


@pytest.fixture(scope="module")
def table(people, releases, entries):
    samples = sample_profiles(people, ALL, replicates=3, fractions=TENTHS)
    return study(people, releases[0], entries, asked=ALL, samples=samples, risk=lambda *_: 1.5)


def row_of(table, budget, level, query):
    (row,) = table[(table.budget == budget) & (table.level == level) & (table["query"] == query)].to_dict("records")
    return row


@pytest.mark.parametrize("budget", [1, 8])
@pytest.mark.parametrize(("level", "query"), ASKED)
def test_pooled_figures_are_those_of_all_replicates_evaluated_together(people, releases, table, budget, level, query):
    made = [release for (epsilon, _), release in releases[1].items() if epsilon == budget]
    row = row_of(table, budget, level, query)
    whole = error(people, made, levels=[level], queries=[query]).set_index("statistic")
    for name in ("median_abs", "rmse"):
        assert (row[name], row[f"{name}_error"]) == (whole.value[name], whole.sampling_error[name])
    assert row["bias"] == pytest.approx(whole.value["bias"], abs=1e-12)
    pooled = residuals(people, made, level=level, query=query)
    loss = epl(pooled, fewest=100)
    found = [row[name] for name in ("epl", "epl_low", "epl_high", "corrected")]
    expected = [loss.epl, loss.epl_low, loss.epl_high, loss.corrected]
    np.testing.assert_array_equal(np.array(found, dtype=float), np.array(expected, dtype=float))
    assert (row["n"], row["replicates"]) == (pooled.n, 3)
    like = like_a_sample(people, made, level=level, query=query, fractions=TENTHS)
    if pooled.n >= 100:
        assert row["fraction"] == like.fraction
    else:  # the loss is withheld, and so is the sample that it is like
        assert pd.isna(row["fraction"])


def test_the_loss_of_pooled_runs_is_not_the_mean_of_single_ones(people, releases, table):
    made = [release for (epsilon, _), release in releases[1].items() if epsilon == 1]
    single = [epl(residuals(people, one, level="county", query=STRATA)).epl for one in made]
    assert row_of(table, 1, "county", STRATA)["epl"] < np.mean(single)


def test_small_counts_are_biased_and_the_interval_is_that_of_bias_by_size(people, releases, table):
    made = [release for (epsilon, _), release in releases[1].items() if epsilon == 1]
    row = row_of(table, 1, "enumdist", STRATA)
    pooled = residuals(people, made, level="enumdist", query=STRATA)
    small = pooled.value[(pooled.true >= 1) & (pooled.true <= 10)]
    assert row["small_bias"] == pytest.approx(small.mean())
    assert row["small_bias_low"] < row["small_bias"] < row["small_bias_high"]
    assert row["bias_low"] <= 0 <= row["bias_high"]
    whole = bias(people, made, level="county", query="total", by="size")
    assert {"low", "high"} <= set(whole)


def test_a_row_for_each_allocation_budget_level_and_query_with_its_risk(table):
    assert list(table.columns) == COLUMNS
    assert len(table) == 2 * 4
    assert set(table.risk) == {1.5}
    assert table.groupby(["level", "query"]).rmse.agg(lambda each: each.iloc[0] > 2 * each.iloc[1]).all()


def test_without_samples_and_risk_they_are_missing_and_exact_counts_have_no_loss(people):
    strategy = Strategy.default(people.spine, people.schema, epsilon=1)
    kept: dict = {}
    wanted = trials({"exact": [strategy]}, replicates=2)
    sweep(people, wanted, lambda *_: people, levels=["county"], queries=["total"], entries=kept)
    (row,) = study(people, wanted, kept, asked=[("county", "total")]).to_dict("records")
    assert pd.isna([row["fraction"], row["risk"], row["epl"]]).all()
    assert (row["rmse"], row["bias"]) == (0, 0)


def test_a_trial_without_its_residuals_is_run_again(people, releases):
    wanted, made = releases
    store: dict = {}
    run = []

    def protect_one(strategy, number):
        run.append((strategy.budget, number))
        return made[strategy.budget, number]

    ask = {"levels": ["county"], "queries": ["total"], "store": store}
    sweep(people, wanted, protect_one, **ask)
    sweep(people, wanted, protect_one, **ask)
    assert len(run) == 6
    kept: dict = {}
    sweep(people, wanted, protect_one, **ask, entries=kept)
    assert len(run) == 12
    assert set(kept) == set(store)


def test_samples_are_drawn_once_for_the_same_counts_and_replicates(people):
    store: dict = {}
    names: list[str] = []
    for replicates, drawn in ((1, 4), (1, 4), (2, 8)):
        ask = {"replicates": replicates, "fractions": TENTHS, "store": store, "progress": names.append}
        table = sample_profiles(people, [("county", "total")], **ask)
        assert len(store) == drawn
        assert list(table.fraction) == [0.2, 0.4, 0.6, 0.8]
    assert len(names) == 12


def test_the_trade_off_is_drawn_with_loss_and_risk_of_each_count(table):
    drawn = study_plot(table).to_dict()
    titles = [panel["layer"][0]["encoding"]["y"]["title"] for panel in drawn["concat"]]
    assert titles == ["disclosure risk R", *["empirical privacy loss", "disclosure risk R"] * 3]  # too few counties
    without = study_plot(table.assign(risk=np.nan)).to_dict()
    assert len(without["concat"]) == 3
