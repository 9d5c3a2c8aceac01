"""TopDown at the nation's size beside the Bureau's runs: error to a quarter, bias to its sign."""

import pandas as pd
import pytest

from tallyveil_papers.petti.census import NATION, census_of
from tallyveil_papers.petti.compare import lay, results, signs
from tallyveil_papers.petti.runs import topdown_at
from tallyveil_papers.registry import Setting

pytestmark = pytest.mark.slow
SETTING = Setting(persons=NATION, replicates=1)


@pytest.fixture(scope="module")
def figures():
    """One run each at epsilon 1 and 4."""
    return pd.concat([topdown_at(SETTING, epsilon).figures for epsilon in (1.0, 4.0)], ignore_index=True)


def beside(figures, **wanted):
    """Error of counties and districts beside the published."""
    theirs = results(method="topdown", statistic=["mae", "pct95", "rmse"], level=["county", "enum_dist"], **wanted)
    return lay(theirs, figures, census_of(SETTING)).table


def share_within(table, share):
    """How many are within a share of the published figure, or within a person."""
    apart = (table.ours - table.published).abs()
    return ((apart <= 1) | (apart <= share * table.published)).mean()


def test_error_is_the_published_one_and_noise_of_half_the_size_would_be_seen(figures):
    assert len(beside(figures, epsilon=[1.0, 4.0])) == 24  # 2 budgets x 2 levels x totals, strata x 3 statistics
    assert share_within(beside(figures, epsilon=[1.0, 4.0]), 0.25) >= 0.8
    halved = figures.assign(epsilon=figures.epsilon / 2)  # as if they had been the runs at 1/2 and 2
    assert share_within(beside(halved, epsilon=[0.5, 2.0]), 0.25) < 0.2


def test_at_epsilon_1_error_is_within_a_tenth_and_a_budget_a_third_larger_would_be_seen(figures):
    assert share_within(beside(figures, epsilon=1.0), 0.1) == 1
    assert share_within(beside(figures[figures.epsilon == 1].assign(epsilon=0.75), epsilon=0.75), 0.1) < 0.25


def test_state_totals_are_exact(figures):
    state = figures[(figures.level == "state") & (figures["count"] == "tc") & (figures.statistic != "epl")]
    assert (state.value == 0).all()
    assert len(state) >= 2 * (4 + 1)  # error, and bias of each index


def test_bias_has_the_published_sign_wherever_both_are_clear_of_zero(figures):
    table = signs(results(method="topdown", statistic="bias", epsilon=[1.0, 4.0]), figures)
    assert len(table) >= 20
    assert table.same_sign.all(), table[~table.same_sign].to_string()
