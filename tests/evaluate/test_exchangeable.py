"""Exchangeability of residuals: one distribution for all areas is accepted, planted differences are found."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import f_oneway, kstest

from tallyveil.errors import InputError
from tallyveil.evaluate.epl.exchangeable import exchangeability
from tallyveil.evaluate.residuals import Residuals


def only(residuals: Residuals, keep: np.ndarray) -> Residuals:
    """Some of the entries."""
    parts = {name: getattr(residuals, name)[keep] for name in ("true", "released", "unit", "row", "replicate")}
    return replace(residuals, **parts)


def geometric(z: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.geometric(-np.expm1(-z), shape) - rng.geometric(-np.expm1(-z), shape)


def made_of(table: np.ndarray, true: int | np.ndarray = 100) -> Residuals:
    """Residuals from a table of replicates x units."""
    replicates, units = table.shape
    truth = np.broadcast_to(np.asarray(true), (units,))
    return Residuals(
        level="block",
        query="total",
        over="nonempty",
        true=np.tile(truth, replicates),
        released=(truth + table).ravel(),
        unit=np.tile(np.arange(units, dtype=np.int32), replicates),
        row=np.zeros(table.size, dtype=np.int32),
        replicate=np.repeat(np.arange(replicates, dtype=np.int32), units),
        parent=np.arange(units),
        units=units,
        rows=1,
        replicates=replicates,
        possible=np.ones(1, dtype=bool),
    )


def p_values(table: np.ndarray) -> tuple[float, float]:
    found = exchangeability(made_of(table)).set_index("compared")["p_value"]
    return found["residual"], found["abs_residual"]


@pytest.mark.parametrize("replicates", [2, 4])
def test_geometric_noise_alike_everywhere_is_accepted_with_p_values_spread_evenly(replicates):
    rng = np.random.default_rng(1)
    found = np.array([p_values(geometric(0.1, (replicates, 400), rng)) for _ in range(200)])
    assert kstest(found[:, 0], "uniform").pvalue > 0.001
    assert kstest(found[:, 1], "uniform").pvalue > 0.001


def test_areas_with_a_bias_of_their_own_are_found():
    rng = np.random.default_rng(2)
    biased = geometric(0.1, (4, 400), rng) + np.round(rng.normal(scale=6, size=400)).astype(int)
    table = exchangeability(made_of(biased)).set_index("compared")
    assert table.loc["residual", "p_value"] < 1e-6
    assert table.loc["residual", "share_between"] == pytest.approx(36 / (36 + 200), abs=0.06)
    assert table.loc["residual", "reading"].startswith("some areas' errors have means of their own")


def test_areas_with_larger_errors_are_found_and_not_called_biased():
    rng = np.random.default_rng(3)
    uneven = geometric(0.1, (4, 1200), rng) * np.where(np.arange(1200) < 600, 1, 2)
    table = exchangeability(made_of(uneven)).set_index("compared")
    assert table.loc["abs_residual", "p_value"] < 1e-6
    assert table.loc["abs_residual", "reading"].startswith("some areas' errors are larger")
    assert table.loc["residual", "p_value"] > 0.001


def test_the_analysis_is_scipys():
    table = geometric(0.2, (3, 50), np.random.default_rng(4))
    expected = f_oneway(*table.T)
    found = exchangeability(made_of(table)).iloc[0]
    assert (found["f"], found["p_value"]) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)


def test_the_order_of_entries_does_not_matter_and_counts_empty_in_the_truth_take_no_part():
    rng = np.random.default_rng(5)
    table = geometric(0.2, (3, 60), rng)
    plain = made_of(table, np.where(np.arange(60) < 50, 100, 0))
    mixed = only(plain, rng.permutation(len(plain.true)))
    first = exchangeability(mixed)
    assert first["counts"].tolist() == [50, 50]
    np.testing.assert_allclose(first["f"], exchangeability(made_of(table[:, :50]))["f"])


def test_an_invariant_has_nothing_to_compare_and_says_so():
    table = exchangeability(made_of(np.zeros((2, 30), dtype=int)))
    assert table["reading"].tolist() == ["all residuals are equal: nothing to compare"] * 2
    assert table["share_between"].tolist() == [0, 0]


def test_one_replicate_or_one_count_is_refused():
    with pytest.raises(InputError, match="exchangeability needs 2 replicates or more"):
        exchangeability(made_of(np.zeros((1, 30), dtype=int)))
    with pytest.raises(InputError, match="fewer than 2 counts are not empty in the truth"):
        exchangeability(made_of(np.zeros((2, 1), dtype=int)))


def test_counts_without_some_of_their_replicates_are_refused_and_whole_ones_compared():
    table = geometric(0.2, (3, 60), np.random.default_rng(6))
    given = made_of(table)
    with pytest.raises(InputError, match=r"60 of 60 counts are not in each of the 3 replicates\. Compare whole counts"):
        exchangeability(only(given, (given.unit + given.replicate) % 3 != 0))
    with pytest.raises(InputError, match="1 of 60 counts"):
        exchangeability(only(given, np.arange(180) != 100))
    some, two = exchangeability(only(given, given.unit < 40)), exchangeability(only(given, given.replicate != 1))
    np.testing.assert_allclose(some["f"], exchangeability(made_of(table[:, :40]))["f"])
    np.testing.assert_allclose(two["f"], exchangeability(made_of(table[[0, 2]]))["f"])
    with pytest.raises(InputError, match="exchangeability needs 2 replicates or more"):
        exchangeability(only(given, given.replicate == 1))
