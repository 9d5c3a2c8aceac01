"""The full evaluation of a release, from Python."""

import numpy as np
import pandas as pd
import pytest

from small_release import small_release
from tallyveil import Histogram, Release, Strategy
from tallyveil.evaluate import bias, epl, error, evaluation, implausible, residuals, sizes


@pytest.fixture(scope="module")
def release() -> Release:
    return small_release()


@pytest.fixture(scope="module")
def truth(release) -> Histogram:
    """People whom the release counts with errors of 0, 1, 2, 0, 1, 2, ..."""
    people = release.histogram
    counts = people.leaves.count + np.arange(len(people.leaves.count)) % 3
    return Histogram.from_entries(
        people.spine, people.schema, unit=people.leaves.unit(), cell=people.leaves.cell, count=counts
    )


def test_its_tables_are_those_of_the_single_functions(release, truth):
    levels, queries = [truth.spine.leaf], ["total", "age"]
    result = evaluation(truth, release, levels=levels, queries=queries)
    assert result.error.value.abs().max() > 0
    pd.testing.assert_frame_equal(result.to_pandas(), error(truth, release, levels=levels, queries=queries))
    pd.testing.assert_frame_equal(result.bias, bias(truth, release, level=levels[0]))
    pd.testing.assert_frame_equal(result.sizes, sizes(truth, levels=levels, queries=queries))
    pd.testing.assert_frame_equal(result.implausible, implausible(truth, release, levels=levels))
    for level, query in ((levels[0], "total"), (levels[0], "age")):
        compared = residuals(truth, release, level=level, query=query)
        loss = epl(compared, theory=result.losses[level, query].theory, fewest=100)
        assert result.losses[level, query].as_json() == loss.as_json()
        assert loss.undefined == f"{compared.n} residuals: a distribution needs 100 or more"
        assert epl(compared).epl is not None  # withheld by the evaluation, not by the loss itself


def test_the_main_table_is_the_error_and_what_is_handed_out_is_a_copy(release, truth):
    result = evaluation(truth, release, queries=["total"])
    assert set(result.to_pandas().level) == set(truth.spine.levels)
    assert result.to_arrow().column_names == list(result.error.columns)
    table = result.to_pandas()
    table["value"] = -1.0
    assert (result.error.value != -1).all()


def test_the_theoretical_loss_comes_from_the_strategy_of_the_release(release, truth):
    people = release.histogram
    strategy = Strategy.default(people.spine, people.schema, epsilon=1)
    leaf = people.spine.leaf
    geometric = evaluation(truth, Release(histogram=people, strategy=strategy), levels=[leaf], queries=["age"])
    assert geometric.losses[leaf, "age"].theory == float(strategy.noise(leaf, "age").z)
    assert evaluation(truth, people, levels=[leaf], queries=["age"]).losses[leaf, "age"].theory is None


def test_a_release_without_error_has_no_curves(release):
    result = evaluation(release.histogram, release, queries=["total"])
    assert result.curves().empty
    assert result.epl.undefined.notna().all()
