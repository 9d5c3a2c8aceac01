"""Paired differences of releases of the same measurements."""

from dataclasses import replace

import numpy as np
import pytest

import tallyveil as tv
from tallyveil.errors import InputError
from tallyveil.evaluate.paired import paired_words

SCHEMA = tv.Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})


@pytest.fixture(scope="module")
def town() -> tv.Histogram:
    """Twenty-four streets of five blocks each."""
    rng = np.random.default_rng(1)
    streets = [f"{i:02}" for i in range(24) for _ in range(5)]
    spine = tv.Spine.from_columns(
        {"street": streets, "block": [f"{s}{k}" for k, s in zip([0, 1, 2, 3, 4] * 24, streets, strict=True)]},
        root="town",
    )
    counts = rng.poisson(4.0, (120, SCHEMA.cells))
    unit, cell = np.nonzero(counts)
    return tv.Histogram.from_entries(spine, SCHEMA, unit=unit, cell=cell, count=counts[unit, cell])


def both(town: tv.Histogram, seed: int) -> list[tv.Release]:
    """Two releases of one measurement: margins and cells are rounded, or cells alone."""
    plan = tv.Strategy.default(town.spine, town.schema, rho="1/5")
    return [tv.protect(town, replace(plan, rounding=how), seed=seed) for how in ("margins", "cells")]


def moved(town: tv.Histogram, noise: np.ndarray) -> tv.Histogram:
    """The town with noise added to its cells."""
    counts = np.maximum(town.answer("detailed", level="block").dense() + noise, 0)
    unit, cell = np.nonzero(counts)
    return tv.Histogram.from_entries(town.spine, SCHEMA, unit=unit, cell=cell, count=counts[unit, cell])


def test_two_roundings_of_one_measurement_have_one_identifier_and_are_compared_count_by_count(town):
    one, other = both(town, 1)
    assert one.certificate.measurement == other.certificate.measurement is not None
    table = tv.evaluate.paired(town, one, other, levels=["street", "block"], queries=["total", "detailed"], over="all")
    row = table[(table.level == "block") & (table["query"] == "detailed") & (table.statistic == "mean_abs")].iloc[0]
    true = town.answer("detailed", level="block").dense()
    errors = [np.abs(r.histogram.answer("detailed", level="block").dense() - true).astype(float) for r in (one, other)]
    apart = (errors[1] - errors[0]).sum(axis=1).reshape(24, 5).sum(axis=1)  # of each street
    left_out = (apart.sum() - apart) / (23 * 5 * 4)
    assert row.difference == pytest.approx(errors[1].mean() - errors[0].mean())
    assert row.standard_error == pytest.approx(np.sqrt(23 / 24 * ((left_out - left_out.mean()) ** 2).sum()))
    assert (row.clusters, row.n, row.pairs) == (24, 480, 1)
    assert row.relative == pytest.approx(row.difference / row["first"])


def test_nonempty_counts_are_those_of_the_truth_or_of_either_release(town):
    one, other = both(town, 1)
    tables = [h.answer("detailed", level="block").dense() for h in (town, one.histogram, other.histogram)]
    table = tv.evaluate.paired(town, one, other, levels=["block"], queries=["detailed"])
    assert table.n.iloc[0] == np.count_nonzero(np.any([t > 0 for t in tables], axis=0))


def test_the_standard_error_is_that_of_repeated_draws_and_not_one_that_is_a_quarter_off(town):
    """Errors of siblings move together, so clusters matter; the mean of estimated variances is the true one."""
    rng = np.random.default_rng(5)
    differences, errors, alone = [], [], []
    for _ in range(150):
        street = np.repeat(rng.integers(-2, 3, (24, 1)), 5, axis=0)  # shared by the blocks of a street
        shared = rng.integers(-3, 4, (120, 4))
        releases = [moved(town, shared), moved(town, shared + street)]
        row = tv.evaluate.paired(town, *releases, levels=["block"], queries=["detailed"], over="all").iloc[0]
        differences.append(row.difference)
        errors.append(row.standard_error)
        single = tv.evaluate.error(town, releases[1], levels=["block"], queries=["detailed"], over="all")
        alone.append(single[single.statistic == "mean_abs"].value.iloc[0])
    ratio = np.sqrt(np.mean(np.square(errors))) / np.std(differences, ddof=1)
    assert 0.85 < ratio < 1.15  # three standard errors of the ratio are 0.18
    assert not 0.85 < ratio * 1.4 < 1.15
    assert not 0.85 < ratio / 1.4 < 1.15


def test_pairing_makes_the_difference_of_two_noisy_releases_precise(town):
    one, other = zip(*(both(town, seed) for seed in range(4)), strict=True)
    table = tv.evaluate.paired(town, list(one), list(other), levels=["block"], queries=["detailed"])
    row = table[table.statistic == "mean_abs"].iloc[0]
    assert row.pairs == 4
    assert row.clusters == 96
    each = [
        tv.evaluate.paired(town, a, b, levels=["block"], queries=["detailed"], over="all").difference.iloc[0]
        for a, b in zip(one, other, strict=True)
    ]
    whole = tv.evaluate.paired(town, list(one), list(other), levels=["block"], queries=["detailed"], over="all").iloc[0]
    assert whole.replicate_error == pytest.approx(np.std(each, ddof=1) / 2)
    unpaired = [tv.evaluate.error(town, list(some), levels=["block"], queries=["detailed"]) for some in (one, other)]
    apart = np.hypot(*(table[table.statistic == "mean_abs"].sampling_error.iloc[0] for table in unpaired))
    assert row.replicate_error < apart


def test_a_release_paired_with_itself_differs_by_nothing_and_the_sentence_says_so(town):
    one, _ = both(town, 1)
    table = tv.evaluate.paired(town, one, one)
    assert (table.difference == 0).all()
    assert paired_words(table, "a", "b") == (
        "b against a, paired: no difference in mean absolute error is larger than chance."
    )


def test_the_sentence_names_what_is_lower_and_higher(town):
    rng = np.random.default_rng(3)
    small, large = rng.integers(-1, 2, (120, 4)), rng.integers(-6, 7, (120, 4))
    table = tv.evaluate.paired(town, moved(town, large), moved(town, small), levels=["block"], queries=["detailed"])
    words = paired_words(table, "old", "new")
    assert words.startswith("new against old, paired: mean absolute error is lower in 1 and higher in 0 of 1 levels")
    assert "lowest for detailed@block (-" in words
    back = paired_words(
        tv.evaluate.paired(town, moved(town, small), moved(town, large), levels=["block"], queries=["detailed"]),
        "new",
        "old",
    )
    assert "highest for detailed@block (+" in back


def test_releases_of_two_measurements_and_unequal_lists_are_refused(town):
    one, other = both(town, 1)[0], both(town, 2)[1]
    with pytest.raises(InputError, match=r"pair 1 is of two measurements .* whose noise differs. Give releases"):
        tv.evaluate.paired(town, one, other)
    with pytest.raises(InputError, match=r"2 and 1 releases cannot be paired. Give as many second as first ones"):
        tv.evaluate.paired(town, [one, one], [one])


def test_a_level_with_one_unit_has_no_standard_error_and_areas_can_be_paired(town):
    one, other = both(town, 1)
    root = tv.evaluate.paired(town, one, other, levels=["town"], queries=["age"])
    assert root.standard_error.isna().all()
    leaves = town.spine.labels("block")
    areas = tv.Areas.from_codes(town.spine, leaf=leaves, area=[f"a{i % 12}" for i in range(len(leaves))])
    table = tv.evaluate.paired(town, one, other, levels=[], areas=areas, queries=["total"])
    assert set(table.level) == {"area"}
    assert table.clusters.iloc[0] == 12
