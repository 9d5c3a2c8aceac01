"""Error, bias, derived statistics and implausible units, against numpy and against planted cases."""

import numpy as np
import pandas as pd
import pytest

from tallyveil import Areas, Histogram, Schema, Spine
from tallyveil.errors import InputError
from tallyveil.evaluate import (
    bias,
    derived,
    dissimilarity,
    error,
    error_by_size,
    homogeneity,
    implausible,
    isolation,
    ranks,
    residuals,
    share,
    sizes,
)
from tallyveil.nouns.census_schemas import PERSONS_1940
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.facilities import Facilities
from tallyveil.populations import Population

PARENTS, CHILDREN, CELLS = 40, 25, 6
SCHEMA = Schema(attributes={"age": ["child", "adult"], "race": ["x", "y", "z"]})
SPINE = Spine.from_columns(
    {
        "county": [f"{p:02d}" for p in range(PARENTS) for _ in range(CHILDREN)],
        "tract": [f"{p:02d}{c:02d}" for p in range(PARENTS) for c in range(CHILDREN)],
    },
    root="state",
)
RNG = np.random.default_rng(5)
TRUE = RNG.poisson(3, (PARENTS * CHILDREN, CELLS))
RELEASED = [np.maximum(0, TRUE + RNG.integers(-2, 3, TRUE.shape)) for _ in range(3)]


def people(table) -> Histogram:
    return Histogram(spine=SPINE, schema=SCHEMA, leaves=Counts.from_dense(np.asarray(table)))


TRUTH, RELEASES = people(TRUE), [people(table) for table in RELEASED]


def value(table: pd.DataFrame, statistic: str, column: str = "value") -> float:
    return float(table.loc[table.statistic == statistic, column].iloc[0])


def test_error_statistics_are_numpys_on_the_pooled_residuals():
    table = error(TRUTH, RELEASES, levels=["tract"], queries=["detailed"], quantiles=[0.99])
    pooled = np.concatenate([(r - TRUE)[(r > 0) | (TRUE > 0)] for r in RELEASED])
    size = np.abs(pooled)
    expected = {
        "median_abs": np.median(size),
        "mean_abs": size.mean(),
        "p95_abs": np.quantile(size, 0.95),
        "max_abs": size.max(),
        "rmse": np.sqrt((pooled**2).mean()),
        "bias": pooled.mean(),
        "share_exact": (pooled == 0).mean(),
        "p99_abs": np.quantile(size, 0.99),
    }
    assert dict(zip(table.statistic, table.value, strict=True)) == pytest.approx(expected)
    assert set(table.n) == {len(pooled)}
    each = [np.abs(r - TRUE)[(r > 0) | (TRUE > 0)].mean() for r in RELEASED]
    assert value(table, "mean_abs", "sampling_error") == pytest.approx(np.std(each, ddof=1) / np.sqrt(3))


def test_over_all_cells_the_empty_ones_count_as_exactly_right():
    table = error(TRUTH, RELEASES[0], levels=["tract"], queries=["detailed"], over="all")
    assert value(table, "share_exact") == pytest.approx((RELEASED[0] == TRUE).mean())
    assert value(table, "mean_abs") == pytest.approx(np.abs(RELEASED[0] - TRUE).mean())


def test_sampling_errors_over_all_cells_and_of_quantiles_are_those_of_the_replicates_themselves():
    exact, off = people(TRUE), people(TRUE + 2)
    table = error(TRUTH, [exact, off], levels=["tract"], queries=["detailed"], over="all", quantiles=[0.9])
    assert value(table, "mean_abs", "sampling_error") == pytest.approx(1)  # 0 and 2
    assert value(table, "share_exact", "sampling_error") == pytest.approx(0.5)  # 1 and 0
    assert value(table, "p90_abs", "sampling_error") == pytest.approx(1)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"levels": []}, "nothing to evaluate"),
        ({"queries": []}, "nothing to evaluate"),
        ({"levels": "tract"}, "levels and queries are lists"),
        ({"quantiles": [99]}, "quantiles are shares from 0 to 1, such as 0.99. Got 99"),
    ],
)
def test_what_is_not_asked_rightly_is_refused(asked, words):
    with pytest.raises(InputError, match=words.replace(".", "[.]")):
        error(TRUTH, RELEASES, **asked)


def test_all_levels_and_queries_are_in_the_table_by_default_and_areas_come_last():
    areas = Areas.from_codes(SPINE, leaf=["0000", "0101"], area=["Troy", "Ithaca"])
    table = error(TRUTH, RELEASES[0], areas=areas)
    assert list(dict.fromkeys(table.level)) == ["state", "county", "tract", "area"]
    assert list(dict.fromkeys(table["query"])) == ["total", "age", "race", "detailed"]
    assert np.isnan(table.sampling_error).all()  # one replicate


def test_an_empty_release_of_an_empty_truth_is_exactly_right():
    nobody = people(np.zeros_like(TRUE))
    table = error(nobody, nobody, levels=["tract"], queries=["total"])
    assert value(table, "share_exact") == 1
    assert value(table, "max_abs") == 0
    assert value(sizes(nobody, levels=["tract"], queries=["total"]), "median") == 0


def test_sizes_are_those_of_the_non_empty_precise_counts():
    table = sizes(TRUTH, levels=["tract"], queries=["detailed"])
    there = TRUE[TRUE > 0]
    assert value(table, "median") == np.median(there)
    assert value(table, "mean") == pytest.approx(there.mean())
    assert value(table, "sd") == pytest.approx(there.std(ddof=1))
    assert value(table, "p95") == pytest.approx(np.quantile(there, 0.95))


def test_error_by_size_adds_up_to_the_whole():
    found = residuals(TRUTH, RELEASES, level="county", query="detailed")
    table = error_by_size(found)
    assert table.n.sum() == found.n
    assert (table.mean_abs * table.n).sum() == pytest.approx(np.abs(found.value).sum())
    here = table[table["size"] == "10 - 99"].iloc[0]
    inside = (found.true >= 10) & (found.true < 100)
    assert here.relative == pytest.approx(np.abs(found.value[inside]).sum() / found.true[inside].sum())


def test_bias_of_clustered_residuals_has_intervals_that_cover_and_naive_ones_do_not():
    # Every county's tracts share an error: 40 independent numbers, not 1,000.
    rng = np.random.default_rng(8)
    base = np.full((PARENTS * CHILDREN, CELLS), 50)
    truth, covered, naive = people(base), 0, 0
    for _ in range(100):
        shared = np.repeat(rng.integers(-3, 4, PARENTS), CHILDREN)
        table = bias(truth, people(base + shared[:, None] // 1), level="tract", query="total", by="size").iloc[0]
        covered += table.low <= 0 <= table.high
        spread = 6 * shared.std() / np.sqrt(len(shared))
        naive += abs(6 * shared.mean()) <= 1.96 * spread
    assert covered >= 88
    assert naive <= 60


def test_bias_of_a_group_that_lies_mostly_in_one_parent_is_not_called_certain():
    # 40 units in one parent and one in each of two others: three independent numbers, nearly one.
    codes = ["0"] * 40 + ["1", "2"] + [str(3 + k) for k in range(12) for _ in range(3)]
    spine = Spine.from_columns({"county": codes, "tract": [f"{c}-{i}" for i, c in enumerate(codes)]}, root="state")
    base = np.array([[10, 10, 10, 10, 10, 10]] * 42 + [[10, 0, 10, 10, 10, 10]] * 36)
    truth = Histogram(spine=spine, schema=SCHEMA, leaves=Counts.from_dense(base))
    _, parent = np.unique(spine.parents("tract"), return_inverse=True)
    rng, covered = np.random.default_rng(4), 0
    for _ in range(150):
        shared = rng.integers(-5, 6, parent.max() + 1)[parent]
        moved = base + np.where(np.arange(6) == 0, shared[:, None], 0)
        noisy = Histogram(spine=spine, schema=SCHEMA, leaves=Counts.from_dense(moved))
        row = bias(truth, noisy, level="tract", query="total", by="homogeneity").iloc[0]
        covered += row.low <= 0 <= row.high
    assert covered >= 125  # sums of squares by cluster cover a quarter of them


def test_bias_by_attribute_finds_the_planted_label():
    moved = TRUE + np.array([0, 0, 0, 0, 2, 0])  # adults of race y
    table = bias(TRUTH, people(moved), level="tract", query="age * race", by="race")
    by = dict(zip(table.group, table.bias, strict=True))
    assert by["x"] == by["z"] == 0
    pairs = (TRUE[:, [1, 4]] > 0) | (moved[:, [1, 4]] > 0)
    assert by["y"] == pytest.approx(2 * len(TRUE) / pairs.sum())
    with pytest.raises(InputError, match=r"by must be one of homogeneity, size, age for the query 'age'\. Got 'race'"):
        bias(TRUTH, people(moved), level="tract", query="age", by="race")


def test_both_homogeneity_indices_are_as_their_definitions_say():
    table = np.array([[5, 0, 0, 0, 0, 0], [5, 0, 0, 0, 1, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    spine = Spine.from_columns({"tract": list("abcd")}, root="state")
    four = Histogram(spine=spine, schema=SCHEMA, leaves=Counts.from_dense(table))
    assert homogeneity(four, level="tract").tolist() == [5, 4, 0, 6]
    assert homogeneity(four, level="tract", definition="product").tolist() == [5, 2, 0, 6]  # 2 ages x 2 races occur
    assert homogeneity(four, level="tract", query="age").tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize(
    ("cells", "empty", "product"),
    [
        ([(1, 0, 0)], 23, 23),
        ([(0, 0, 0), (1, 0, 0)], 22, 22),
        ([(0, 0, 0), (1, 0, 1)], 22, 20),  # 2 ages x 1 ethnicity x 2 races
        ([(0, 0, 0), (1, 0, 0), (1, 1, 4)], 21, 16),  # 2 x 2 x 2
        ([(0, 0, race) for race in range(6)], 18, 18),  # 1 x 1 x 6
        ([(1, race % 2, race) for race in range(6)], 18, 12),  # 1 x 2 x 6
    ],
)
def test_the_homogeneity_index_of_petti2020s_text_and_the_one_its_authors_computed_differ(cells, empty, product):
    place = [int(np.ravel_multi_index((0, *cell), PERSONS_1940.shape)) for cell in cells]
    spine = Spine.from_columns({"enumdist": ["1"]}, root="us")
    one = Histogram.from_entries(spine, PERSONS_1940, unit=[0] * len(place), cell=place, count=[3] * len(place))
    strata = {"level": "enumdist", "query": "votingage * hispanic * race"}
    assert homogeneity(one, **strata).tolist() == [empty]
    assert homogeneity(one, **strata, definition="product").tolist() == [product]


def test_bias_by_homogeneity_is_the_mean_by_group():
    table = bias(TRUTH, RELEASES, level="tract", query="total", by="homogeneity")
    index = (TRUE == 0).sum(axis=1)
    for row in table.itertuples():
        diffs = [r.sum(axis=1)[index == row.group] - TRUE.sum(axis=1)[index == row.group] for r in RELEASED]
        assert row.bias == pytest.approx(np.mean(diffs))
        assert row.n == 3 * (index == row.group).sum()


@pytest.mark.parametrize(("tracts", "has_interval"), [(9, False), (10, True)])
def test_a_bias_of_fewer_than_ten_counts_has_no_interval(tracts, has_interval):
    spine = Spine.from_columns({"tract": [f"{i:02}" for i in range(tracts)]}, root="land")
    schema = Schema(attributes={"age": ["child", "adult"]})
    unit, cell = np.arange(tracts), np.zeros(tracts, dtype=np.int64)
    truth, released = (
        Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=50 + moved) for moved in (0 * unit, unit % 3)
    )
    row = bias(truth, released, level="tract").iloc[0]
    assert (row.n, bool(row.low < row.bias < row.high)) == (tracts, has_interval)
    assert bool(np.isnan(row.low) and np.isnan(row.high)) is not has_interval


def test_segregation_indices_by_brute_force_within_counties():
    a, b = TRUE[:, 0].astype(float), TRUE[:, 1].astype(float)
    above = np.repeat(np.arange(PARENTS), CHILDREN)
    everybody = TRUE.sum(axis=1)
    for county in (0, 17):
        here = above == county
        d = 0.5 * sum(abs(x / a[here].sum() - y / b[here].sum()) for x, y in zip(a[here], b[here], strict=True))
        i = sum(x / a[here].sum() * x / t for x, t in zip(a[here], everybody[here], strict=True) if t)
        assert dissimilarity(a, b, above)[county] == pytest.approx(d)
        assert isolation(a, everybody, above)[county] == pytest.approx(i)
    assert np.isnan(dissimilarity([5, 5], [1, 1], [0, 2])[1])  # nobody lives there
    with pytest.raises(InputError, match="groups must be numbers of the units above, 0 or more"):
        dissimilarity([5, 5], [1, 1], ["a", "b"])
    assert ranks([5, 1, 5]).tolist() == [1.5, 3, 1.5]


def test_a_function_of_counts_is_shown_true_and_released_for_every_unit_and_replicate():
    table = derived(TRUTH, RELEASES, {"children": lambda c: share(c[:, 0], c.sum(axis=1))}, level="county", query="age")
    assert len(table) == 3 * PARENTS
    county = RELEASED[2].reshape(PARENTS, CHILDREN, 2, 3).sum(axis=(1, 3))
    last = table[(table.replicate == 2) & (table.place == "07")].iloc[0]
    assert last.released == pytest.approx(county[7, 0] / county[7].sum())
    elsewhere = Spine.from_columns({"county": ["x"], "tract": ["xa"]}, root="state")
    wrong = Estimates(spine=elsewhere, schema=SCHEMA, query="age", tables={"tract": np.ones((1, 1, 2))})
    with pytest.raises(InputError, match="estimates have another spine or schema"):
        derived(TRUTH, wrong, lambda c: c[:, 0], level="county", query="age")
    with pytest.raises(InputError, match="no release is given"):
        derived(TRUTH, [], lambda c: c[:, 0], level="county", query="age")
    with pytest.raises(InputError, match="no statistic is given"):
        derived(TRUTH, RELEASES[0], {}, level="county", query="age")
    with pytest.raises(InputError, match="statistic 'bad' gave an array of 2 dimensions"):
        derived(TRUTH, RELEASES[0], {"bad": lambda c: c}, level="county", query="age")


def test_implausible_units_are_counted_at_every_level():
    schema = Schema(attributes={"hhgq": ["household", "dorm"], "age": ["child", "adult"]})
    spine = Spine.from_columns({"tract": list("abcde")}, root="state")
    #               household child, adult, dorm child, adult
    true = np.array([[1, 2, 0, 0], [1, 1, 0, 0], [0, 0, 0, 4], [0, 0, 0, 0], [0, 3, 0, 0]])
    released = np.array([[3, 0, 0, 0], [0, 0, 0, 1], [0, 2, 0, 4], [0, 0, 0, 0], [0, 0, 2, 0]])
    truth, noisy = (Histogram(spine=spine, schema=schema, leaves=Counts.from_dense(t)) for t in (true, released))
    homes = Facilities.from_entries(
        spine, attribute="hhgq", types=["household", "dorm"], unit=[0, 1, 4], kind=[0, 0, 0], count=[2, 1, 1]
    )
    table = implausible(Population(people=truth, facilities=homes), noisy, levels=["tract"]).set_index("kind")
    assert table.true.tolist() == [0, 0, 0]
    assert table.released["children without adults"] == 2  # a and e
    assert table.released["occupied homes without people"] == 2  # b and e
    assert table.released["people without homes"] == 1  # c
    assert implausible(truth, noisy, children=("age", "child")).kind.unique().tolist() == ["children without adults"]
    with pytest.raises(InputError, match="children are age=kid, but there is no such attribute and label"):
        implausible(truth, noisy, children=("age", "kid"))


def test_implausible_units_are_looked_for_on_the_truths_units_and_labels():
    schema = Schema(attributes={"age": ["child", "adult"]})
    spine = Spine.from_columns({"block": ["a", "b", "c"]}, root="state")
    truth = Histogram.from_entries(spine, schema, unit=[0, 2], cell=[1, 1], count=[4, 4])
    homes = Facilities.from_entries(
        spine, attribute="home", types=["household"], unit=[0, 1, 2], kind=[0, 0, 0], count=[1, 1, 1]
    )
    few = Spine.from_columns({"block": ["a", "c"]}, root="state")
    part = Histogram.from_entries(few, schema, unit=[0, 1], cell=[1, 0], count=[4, 4])
    table = implausible(truth, part, housing=homes, levels=["block"]).set_index("kind").released
    assert table["occupied homes without people"] == 1  # b, which the release leaves out
    assert table["children without adults"] == 1  # c
    turned = Schema(attributes={"age": ["adult", "child"]})
    with pytest.raises(InputError, match="or with other labels"):
        implausible(truth, Histogram.from_entries(spine, turned, unit=[0], cell=[0], count=[1]))
