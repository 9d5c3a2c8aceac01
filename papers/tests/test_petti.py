"""petti2020: every published figure is used, fair ones are compared, and a broken computation is seen."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ipums_extract import write_ipums_1940
from tallyveil.evaluate import epl
from tallyveil.evaluate.likeness_interval import distance
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.histogram import Histogram
from tallyveil.populations import census_1940
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.noise import Geometric
from tallyveil.privacy.strategy import Strategy
from tallyveil_papers import items
from tallyveil_papers.figure import AGREES, DIFFERS, ERRATUM, NOT_COMPARED, SHOWN, STAND_IN
from tallyveil_papers.petti import census as petti_census
from tallyveil_papers.petti import claims as petti_claims
from tallyveil_papers.petti import compare as petti_compare
from tallyveil_papers.petti import exact as petti_exact
from tallyveil_papers.petti import figures as petti
from tallyveil_papers.petti import file as petti_file
from tallyveil_papers.petti import runs as petti_runs
from tallyveil_papers.petti import text as petti_text
from tallyveil_papers.petti import topdown as petti_topdown
from tallyveil_papers.petti import typical as petti_typical
from tallyveil_papers.petti.census import NATION, Census
from tallyveil_papers.petti.compare import lay, results
from tallyveil_papers.petti.runs import COLUMNS, KEYS
from tallyveil_papers.registry import Setting

SMALL = Setting(persons=30_000, replicates=1, seed=3)
ITEMS = {item.key.partition(".")[2]: item for item in items(["petti2020"])}
OF_THE_FILE = ("error", "epl", "bias", "samples", "sizes")
EXACT = {"variance": ERRATUM, "setup": ERRATUM}


@pytest.fixture(scope="module")
def outcomes():
    """All items on a village (which stands in for the nation, too), with three of the sampling fractions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(petti_runs, "FRACTIONS", (0.05, 0.5, 0.95))
        patch.setattr(petti_census, "NATION_SIZE", SMALL.persons)
        made = {key: item.compute(SMALL) for key, item in ITEMS.items()}
    yield made
    petti_runs.sample_runs.cache_clear()


@pytest.fixture(scope="module")
def small():
    return census_1940(persons=50_000, seed=3)


class Nation:
    """A stand-in of the nation's size, without its people."""

    stand_in = True
    whole = True
    their_releases = False

    def has_enough(self, _):
        return True

    def has_persons(self, _):
        return True

    def units(self, level):
        return petti_compare.NUMBERS[level]


class Real(Nation):
    stand_in = False


class TenMillion(Nation):
    whole = False

    def has_enough(self, level):
        return level != "state"

    def units(self, level):
        return {"state": 4, "county": 235, "enum_dist": 10_185}[level]


def as_published(factor=1.0, chance=1e-6):
    """Figures as ours might be: the published ones, times a factor."""
    table = results()
    return table.assign(value=table.value * factor, chance=chance, n=10_000, corrected=table.value * factor)[COLUMNS]


def worst(figures):
    """The verdict of an item with these figures."""
    order = (SHOWN, AGREES, ERRATUM, NOT_COMPARED, STAND_IN, DIFFERS)
    return max((figure.verdict for figure in figures), key=order.index)


def verdicts(ours, census):
    return pd.Series([figure.verdict for figure in lay(results(), ours, census).figures]).value_counts().to_dict()


def test_every_published_row_is_used_by_just_one_item_of_the_file(outcomes):
    used = [
        tables[name][KEYS]
        for tables in (outcomes[key].tables for key in OF_THE_FILE)
        for name in ("side_by_side", "not_compared")
    ]
    used = pd.concat(used, ignore_index=True)
    assert len(used) == len(results()) == 994
    assert not used.duplicated().any()
    assert len(used.merge(results()[KEYS].astype({"homogeneity": float}), on=KEYS)) == 994


def test_each_left_out_figure_says_why_and_the_notes_count_them(outcomes):
    for key in OF_THE_FILE:
        left = outcomes[key].tables["not_compared"]
        assert left.reason.str.len().min() > 10
        assert {"chance", "n"} <= set(left)
        told = sum(int(note.split()[2].rstrip(":")) for note in outcomes[key].notes if note.startswith("Not compared"))
        assert told == len(left) == sum(figure.verdict == NOT_COMPARED for figure in outcomes[key].figures) > 0


def test_on_a_village_nothing_but_invariants_is_compared_and_no_item_agrees_by_leaving_things_out(outcomes):
    found = {key: outcome.verdict for key, outcome in outcomes.items() if key != "claims"}
    assert found == dict.fromkeys([key for key in ITEMS if key != "claims"], NOT_COMPARED) | EXACT
    compared = [f for key in OF_THE_FILE for f in outcomes[key].figures if f.verdict != NOT_COMPARED]
    assert compared
    assert all(figure.at.startswith("states, totals") for figure in compared)


def test_a_hamlet_of_a_thousand_persons_differs_in_nothing(monkeypatch):
    monkeypatch.setattr(petti_runs, "FRACTIONS", (0.5,))
    monkeypatch.setattr(petti_census, "NATION_SIZE", 1000)
    made = [item.compute(replace(SMALL, persons=1000)) for item in items(["petti2020"])]
    petti_runs.sample_runs.cache_clear()
    assert DIFFERS not in {outcome.verdict for outcome in made}
    assert all(chart.to_dict()["config"] for outcome in made for chart in outcome.charts.values())


def test_samples_and_sizes_are_of_the_nation_whatever_the_setting(outcomes):
    assert petti_census.nation_of(SMALL).persons == NATION
    real = replace(SMALL, ipums="extract.dat")
    assert petti_census.nation_of(real) is real
    for key in ("samples", "sizes", "text", "claims"):
        assert "synthetic census of 30,000 persons, whatever the size" in outcomes[key].notes[-1]


def test_state_totals_are_exact_on_any_census_and_agree(outcomes):
    exact = [figure for figure in outcomes["error"].figures if figure.at.startswith("states, totals")]
    assert len(exact) == 32
    assert {figure.verdict for figure in exact} == {AGREES}


def test_at_the_nations_size_every_figure_is_compared_and_the_published_ones_pass():
    assert verdicts(as_published(), Nation()) == {STAND_IN: 946, AGREES: 48}


def test_on_the_real_census_a_tenth_is_seen_and_a_rounding_is_not():
    assert verdicts(as_published(), Real()) == {AGREES: 994}
    assert verdicts(as_published(1.1), Real())[DIFFERS] > 500


def test_a_stand_in_beyond_a_factor_of_two_differs_and_one_within_it_does_not():
    assert DIFFERS not in verdicts(as_published(1.9), Nation())
    assert verdicts(as_published(2.3), Nation())[DIFFERS] > 700
    assert verdicts(as_published(0.4), Nation())[DIFFERS] > 600


def test_a_person_who_is_lost_from_a_state_differs():
    ours = as_published()
    ours.loc[(ours.method == "topdown") & (ours.level == "state") & (ours["count"] == "tc"), "value"] = 0.01
    assert verdicts(ours, Nation())[DIFFERS] == 48


def test_in_a_smaller_country_maxima_and_states_are_left_out():
    compared = [figure for figure in lay(results(), as_published(), TenMillion()).figures if not figure.left_out]
    assert not any("largest" in figure.name for figure in compared if not figure.at.startswith("states"))
    assert {figure.at.split(",")[1] for figure in compared if figure.at.startswith("states")} == {" totals"}


@pytest.mark.parametrize("census", [TenMillion(), Nation()])
@pytest.mark.parametrize("factor", [0.0, 0.1, 10.0, -1.0])
def test_a_bias_that_vanished_or_has_another_size_or_sign_differs(factor, census):
    def verdict_of(factor):
        laid = lay(results(statistic="bias", level=["county", "enum_dist"]), as_published(factor, 0.1), census)
        return worst([*laid.figures, *petti_typical.bias_sizes(laid.table, census)])

    assert verdict_of(1.0) == STAND_IN
    assert verdict_of(factor) == DIFFERS


def test_a_bias_shows_its_numbers_and_in_a_smaller_country_its_direction_and_the_mean_size_are_judged():
    laid = lay(results(statistic="bias", level="county", epsilon=1.0), as_published(3.0), TenMillion())
    assert next((f.ours, f.published) for f in laid.figures) == (pytest.approx(-101.7), -33.9)
    assert {f.verdict for f in laid.figures} == {STAND_IN}
    (size,) = petti_typical.bias_sizes(laid.table, TenMillion())
    assert size.verdict == DIFFERS
    assert size.ours / size.published == pytest.approx(3)
    assert "8 of the 8 biases" in petti_typical.beyond_a_factor(laid.table)


def test_what_is_left_out_of_the_bias_does_not_depend_on_ours():
    rows = results(statistic="bias", level=["county", "enum_dist"])
    left = [lay(rows, as_published(factor, chance=1.0), TenMillion()).left_out[KEYS] for factor in (1.0, 0.0, -30.0)]
    assert 0 < len(left[0]) < len(rows)
    pd.testing.assert_frame_equal(left[0], left[1])
    pd.testing.assert_frame_equal(left[0], left[2])


def test_a_published_bias_that_chance_could_turn_round_has_no_direction():
    laid = lay(results(statistic="bias", level="county"), as_published(-1.0, chance=1_000.0), TenMillion())
    assert {figure.verdict for figure in laid.figures} == {NOT_COMPARED}
    assert laid.left_out.reason.str.contains("standard errors \\(of ours\\) of 0").all()


def test_a_sign_counts_only_where_both_biases_are_clear_of_zero_and_by_the_index_that_is_asked_for():
    theirs = results(statistic="bias", level="county", epsilon=1.0)
    ours = as_published().assign(chance=1.0)
    table = petti_compare.signs(theirs, ours)
    assert sorted(table.homogeneity) == [0, 4, 16, 18, 20, 22]  # not 8 and 12: -2.9 and 1.2
    assert table.same_sign.all()
    assert not petti_compare.signs(theirs, ours.assign(value=-ours.value)).same_sign.any()
    assert not len(petti_compare.signs(theirs.assign(statistic="bias of the text"), ours))


@pytest.mark.parametrize(("times", "verdict"), [(1.2, "shown"), (2.0, DIFFERS), (0.5, DIFFERS)])
def test_standard_errors_that_would_leave_out_too_much_or_too_little_are_seen(times, verdict):
    rows = pd.DataFrame({"epsilon": 1.0, "homogeneity": [16.0, 18.0, 20.0], "n": [100, 200, 19]})
    figures = rows.assign(statistic="bias", level="enum_dist", chance=[3.0 * times, times, 100.0])
    runs = petti_runs.Runs(figures=figures, spreads=rows.assign(error=[3.0, 1.0, 1.0], bias=0.0))
    assert [figure.verdict for figure in petti_file._errors_of_bias(runs)] == [verdict]


def test_bias_is_computed_by_both_definitions_of_the_index(outcomes):
    table = petti_runs.topdown_runs(SMALL).figures
    index = {word: set(table[table.statistic == word].homogeneity) for word in ("bias", "bias of the text")}
    assert index["bias"] <= {
        24.0 - ages * ethnicities * races for ages in (1, 2) for ethnicities in (1, 2) for races in range(1, 7)
    }
    assert not index["bias of the text"] <= index["bias"]  # 19 empty cells is no product
    assert "empty cells, as the text has it" in outcomes["bias"].notes[-1]


@pytest.mark.parametrize(
    ("factor", "corrected", "verdict"),
    [(2.5, 0.9, STAND_IN), (2.5, 1.5, DIFFERS), (20.0, 16.0, DIFFERS), (0.4, 0.1, DIFFERS), (1.9, 1.9, STAND_IN)],
)
def test_a_loss_may_be_larger_by_the_bias_of_a_noisy_maximum_in_a_smaller_country_alone(factor, corrected, verdict):
    rows = results(statistic="epl", method="topdown", level="enum_dist")
    ours = as_published(factor).assign(corrected=results().value * corrected)
    assert {figure.verdict for figure in lay(rows, ours, TenMillion()).figures} == {verdict}
    nation = {figure.verdict for figure in lay(rows, ours, Nation()).figures}
    assert nation == ({STAND_IN} if 0.5 <= factor <= 2 else {DIFFERS})


def test_half_a_person_is_no_difference_and_a_person_is():
    rows = results(method="topdown", statistic="mae", count="sc", epsilon=8.0, level=["county", "enum_dist"])
    assert (rows.value == 1).all()
    for ours, verdict in ((0.5, STAND_IN), (0.0, DIFFERS)):
        laid = lay(rows, as_published().assign(value=ours), Nation())
        assert {figure.verdict for figure in laid.figures} == {verdict}


def test_the_maximum_of_one_sample_may_be_off_by_its_own_spread_and_by_no_more():
    rows = results(method="srs", statistic="max_ae", level="county")
    for factor, verdict in ((2.5, {STAND_IN}), (0.4, {STAND_IN}), (4.0, {DIFFERS}), (0.25, {DIFFERS})):
        ours = as_published(factor)
        laid = lay(rows, ours.assign(chance=0.25 * ours.value), Nation())
        assert {figure.verdict for figure in laid.figures} == verdict


def test_the_spread_of_single_samples_is_pooled_over_fractions():
    table = as_published().query("method == 'srs'")
    table = table.assign(chance=table.value * np.where(table.fraction < 0.5, 0.1, 0.2))
    pooled = petti_runs._with_pooled_chance(table)
    share = (pooled.chance / pooled.value).dropna()
    assert share.to_numpy() == pytest.approx(np.sqrt((9 * 0.01 + 10 * 0.04) / 19))


@pytest.mark.parametrize("census", [TenMillion(), Nation()])
def test_a_budget_1_5_times_too_large_passes_row_by_row_and_not_in_the_mean(census):
    for method in ("topdown", "srs"):
        for factor, verdict in ((1.1, STAND_IN), (1 / 1.5, DIFFERS), (1.5, DIFFERS)):
            rows = results(method=method, statistic=["mae", "pct95", "rmse"])
            laid = lay(rows, as_published(factor), census)
            assert DIFFERS not in {figure.verdict for figure in laid.figures}
            means = petti_typical.typical_errors(laid.table, census)
            assert len(means) == 3 * (4 if not census.whole else 6 if method == "srs" else 5)
            assert {figure.verdict for figure in means} == {verdict}


def test_losses_1_6_times_too_large_pass_row_by_row_and_not_in_the_mean():
    rows = results(method="topdown", statistic="epl")
    for factor, verdict in ((1.3, STAND_IN), (1.6, DIFFERS), (1 / 1.6, DIFFERS)):
        laid = lay(rows, as_published(factor), Nation())
        assert DIFFERS not in {figure.verdict for figure in laid.figures}
        (mean,) = petti_typical.typical_losses(laid.table, Nation())
        assert mean.verdict == verdict


def of_squared_fractions():
    """The published samples as they would be if each fraction were taken twice: the error grows by sqrt((1 + f)/f)."""
    ours = as_published()
    times = np.sqrt((1 + ours.fraction) / ours.fraction)
    return ours.assign(value=np.where(ours.method == "srs", ours.value * times, ours.value))


def test_samples_of_the_squared_fraction_differ():
    laid = lay(results(method="srs", statistic=["mae", "pct95", "rmse"]), of_squared_fractions(), Nation())
    assert {figure.verdict for figure in petti_typical.typical_errors(laid.table, Nation())} == {DIFFERS}


def test_table_1_follows_from_the_published_figures_and_not_without_the_loss(monkeypatch):
    assert petti.nearest(results()) == petti.TABLE_1
    monkeypatch.setattr(petti, "distance", lambda one, other: abs(one["median_abs"] - other["median_abs"]))
    assert petti.nearest(results()) != petti.TABLE_1


def table_1(monkeypatch, figures):
    """Table 1 as it comes out with these figures of ours."""
    parts = {method: figures[figures.method == method] for method in ("topdown", "srs")}
    monkeypatch.setattr(petti, "census_of", lambda _: TenMillion())
    monkeypatch.setattr(petti, "topdown_runs", lambda _: petti_runs.Runs(figures=parts["topdown"]))
    monkeypatch.setattr(petti, "sample_runs", lambda _: petti_runs.Runs(figures=parts["srs"]))
    return petti.compute_table1(SMALL)


def test_table_1_by_ours_is_a_stand_in_and_with_samples_of_other_fractions_it_differs(monkeypatch):
    assert table_1(monkeypatch, as_published()).verdict == STAND_IN
    assert table_1(monkeypatch, of_squared_fractions()).verdict == DIFFERS
    ours = as_published()
    shifted = ours.assign(fraction=(ours.fraction + 0.2).round(2))  # each sample called one that is 20% larger
    shifted = pd.concat([shifted[shifted.fraction < 1], ours[ours.method != "srs"], ours[ours.fraction <= 0.2]])
    assert table_1(monkeypatch, shifted).verdict == DIFFERS
    assert distance({"median_abs": 6, "epl": 0.1}, {"median_abs": 6, "epl": 0.1}) == 0


def test_table_1_of_a_country_that_is_too_small_is_not_compared(monkeypatch, outcomes):
    assert {figure.verdict for figure in outcomes["table1"].figures} == {NOT_COMPARED}
    monkeypatch.setattr(TenMillion, "has_persons", lambda _, statistic: statistic != "epl")
    assert table_1(monkeypatch, as_published()).verdict == NOT_COMPARED


@pytest.mark.parametrize("statistic", ["mae", "epl"])
def test_a_figure_that_is_missing_differs(statistic):
    ours = as_published()
    ours.loc[ours.statistic == statistic, ["value", "corrected"]] = np.nan
    figures = lay(results(method="topdown", statistic=statistic, level="county"), ours, TenMillion()).figures
    assert {figure.verdict for figure in figures} == {DIFFERS}


def test_the_printed_variance_is_the_reciprocal_and_the_definitions_agrees_with_the_distribution(outcomes):
    assert outcomes["variance"].verdict == ERRATUM
    k = np.arange(-40_000, 40_001)
    for figure in outcomes["variance"].figures:
        z = figure.at.split()[2]
        by_hand = float((Geometric(z=z).pmf(k) * k.astype(float) ** 2).sum())
        assert figure.ours == pytest.approx(by_hand, rel=1e-6)
        assert figure.again == pytest.approx(by_hand, rel=1e-6)
        assert figure.ours * figure.published == pytest.approx(1)


def test_a_variance_a_tenth_off_differs(monkeypatch):
    right = Geometric.actual_variance
    monkeypatch.setattr(Geometric, "actual_variance", lambda self: 1.1 * right(self))
    assert petti_exact.compute_variance(SMALL).verdict == DIFFERS


def test_the_split_of_the_budget_agrees_and_the_types_differ_as_the_erratum_says(outcomes):
    found = outcomes["setup"].figures
    names = pd.Series([figure.name for figure in found]).value_counts()
    assert names["share of a level"] == 4
    assert names["share of a query"] == names["z of the noise"] == 12
    assert {figure.verdict for figure in found if figure.name.startswith("share")} == {AGREES}
    assert [(f.ours, f.published) for f in found if f.verdict == ERRATUM] == [(8, 6)]


@pytest.mark.parametrize(("level", "query"), [("us", "detailed"), ("state", "hhgq"), ("enumdist", petti_runs.STRATA)])
def test_another_share_at_any_level_differs(level, query):
    right = Strategy.preset("e2e-2018", epsilon=1)
    other = next(name for name in right.queries[level] if name != query)
    shares = dict(right.queries[level])
    shares[query], shares[other] = shares[query] * 9 / 10, shares[other] + shares[query] / 10
    wrong = replace(right, queries={**right.queries, level: shares})
    assert DIFFERS not in {figure.verdict for figure in petti_exact.share_figures(right)}
    for figures in (petti_exact.share_figures(wrong), petti_exact.noise_figures(wrong)):
        off = [figure.at for figure in figures if figure.verdict == DIFFERS]
        assert f"{level}, {query}" in off


def test_noise_of_another_size_is_seen_in_z_and_in_the_probability_of_23_persons(monkeypatch):
    right = Geometric.pmf
    monkeypatch.setattr(Geometric, "pmf", lambda self, k: 1.1 * right(self, k))
    figures = petti_exact.noise_figures(Strategy.preset("e2e-2018", epsilon=1))
    assert [figure.name for figure in figures if figure.verdict == DIFFERS] == ["probability of 23 persons more"]
    doubled = petti_exact.noise_figures(Strategy.preset("e2e-2018", epsilon=2))
    assert sum(figure.verdict == DIFFERS for figure in doubled) >= 12


class Made:
    """A release with these people and measurements."""

    def __init__(self, histogram, measurements=None):
        self.histogram, self.measurements = histogram, measurements


def with_one_more(people, place=0):
    """The same people and one more in the first cell."""
    unit, count = people.leaves.unit(), people.leaves.count.astype(np.int64).copy()
    count[place] += 1
    return Histogram.from_entries(people.spine, people.schema, unit=unit, cell=people.leaves.cell, count=count)


def test_a_person_too_many_or_too_few_in_a_release_is_seen(small):
    census = Census(population=small, stand_in=True)
    held = petti_exact.held_figures(census, [small.people])
    assert [figure.at for figure in held] == ["us", "state", "us", "state", "county", "enumdist"]
    assert {figure.verdict for figure in held} == {AGREES}
    more = petti_exact.held_figures(census, [with_one_more(small.people)])
    assert [figure.verdict for figure in more] == [DIFFERS, DIFFERS, AGREES, AGREES, AGREES, AGREES]
    people = small.people
    some = people.leaves.unit() != 5  # nobody is left in a district
    fewer = Histogram.from_entries(
        people.spine,
        people.schema,
        unit=people.leaves.unit()[some],
        cell=people.leaves.cell[some],
        count=people.leaves.count[some],
    )
    bounds = {figure.at: figure.verdict for figure in petti_exact.held_figures(census, [fewer])[2:]}
    assert bounds == {"us": AGREES, "state": AGREES, "county": AGREES, "enumdist": DIFFERS}


def test_noise_that_grows_with_the_count_is_seen():
    census = Census(population=census_1940(persons=2_000_000, seed=3), stand_in=True)
    people = census.population.people
    made = measure(people, Strategy.preset("e2e-2018", epsilon="0.25"), RunKey.from_seed(3))
    assert petti_exact.spread_figure(census, Made(people, made)).verdict == AGREES
    cells = people.schema.query(petti_runs.STRATA).size
    true = people.answer(petti_runs.STRATA, level="enumdist").dense().ravel()

    def ask(level, query, places):
        noisy = made.ask(level, query, places)
        return np.where(true[places] > 300, true[places] + np.rint(1.25 * (noisy - true[places])), noisy).astype(int)

    assert cells == 24
    assert petti_exact.spread_figure(census, Made(people, replace(made, ask=ask))).verdict == DIFFERS


def test_the_text_has_the_figures_of_the_file_but_for_losses_of_samples():
    text = petti_text.text_table().astype({"homogeneity": float, "epsilon": float, "fraction": float})
    both = text.merge(results(), on=KEYS, suffixes=("_text", "_file"))
    assert len(both) == len(text) == 33 + 12 + 15 + 12
    assert (both.value_text == both.value_file).all()
    losses = petti_text.losses_table().astype({"homogeneity": float, "epsilon": float})
    losses = losses.merge(results(), on=KEYS, suffixes=("_text", "_file"))
    assert len(losses) == 12
    assert (losses.value_text != losses.value_file).sum() == 8


def test_charts_are_drawn_in_the_papers_form(outcomes):
    names = [name for outcome in outcomes.values() for name in outcome.charts]
    assert {"figure1", "figure2", "figure3", "against"} == set(names)
    for outcome in outcomes.values():
        for chart in outcome.charts.values():
            assert chart.to_dict()["config"]


def test_a_seed_gives_the_same_figures_again_and_another_seed_others(small):
    census = Census(population=small, stand_in=True)
    assert not census.whole
    assert census.units("enum_dist") == small.people.spine.size("enumdist")
    first, again, other = (petti_runs.samples_at(replace(SMALL, seed=seed), 0.5).figures for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


def test_a_release_with_a_person_too_many_differs_in_error_and_in_the_loss_of_states(monkeypatch):
    monkeypatch.setattr(petti_topdown, "protect", lambda truth, *_, **__: Made(with_one_more(truth.people)))
    petti_runs.topdown_runs.cache_clear()
    try:
        assert petti_file.compute_error(SMALL).verdict == DIFFERS
        undefined = petti_claims.undefined_figure(petti_runs.topdown_runs(SMALL).figures)
    finally:
        petti_runs.topdown_runs.cache_clear()
    assert undefined.verdict == DIFFERS


def claim_verdicts(figures):
    """The verdict of each claim on a stand-in with these figures."""
    made = (petti_claims._figure(claim, Nation()) for claim in petti_claims.claims(figures))
    return {(figure.name, figure.at): figure.verdict for figure in made}


def test_the_claims_hold_of_the_published_figures_themselves():
    found = claim_verdicts(results())
    assert len(found) == 66
    assert set(found.values()) == {STAND_IN, SHOWN}
    assert list(found.values()).count(SHOWN) == 24  # of losses: of other counts than Figure 2's, and step by step


def test_claims_on_a_smaller_country_are_stand_ins_and_those_of_states_are_left_out(monkeypatch):
    ours = as_published()
    parts = {method: ours[ours.method == method] for method in ("topdown", "srs", "precise")}
    times = pd.DataFrame({"epsilon": [1.0], "seconds": [2.0]})
    monkeypatch.setattr(petti_claims, "census_of", lambda at: Nation() if at.persons == NATION else TenMillion())
    monkeypatch.setattr(petti_claims, "topdown_runs", lambda _: petti_runs.Runs(figures=parts["topdown"], times=times))
    monkeypatch.setattr(petti_claims, "sample_runs", lambda _: petti_runs.Runs(figures=parts["srs"]))
    monkeypatch.setattr(petti_claims, "size_figures", lambda _: parts["precise"])
    monkeypatch.setattr(petti_claims, "of_the_nation", lambda *_: "")
    outcome = petti_claims.compute_claims(SMALL)
    assert outcome.verdict == STAND_IN
    assert {figure.at.partition(", epsilon")[0] for figure in outcome.figures if figure.left_out} == {"states, strata"}
    table = outcome.tables["claims"].dropna()
    assert len(table) == 61
    assert table.ours.to_numpy() == pytest.approx(table.from_the_published_figures.to_numpy())


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        ({"statistic": "epl", "method": "topdown"}, "largest loss as a share of epsilon"),
        ({"statistic": "epl", "method": "srs"}, "least growth of the loss, samples of 5 to 50 to 95%"),
        ({"statistic": "mae", "method": "srs"}, "least fall of the median error, samples of 5 to 50 to 95%"),
        ({"statistic": "bias"}, "budgets at which the bias is larger than at the last"),
        ({"statistic": "bias"}, "rank correlation of index and bias"),
        ({"statistic": "mean"}, "mean size, counties over districts"),
    ],
)
def test_a_claim_that_is_turned_round_differs(broken, name):
    table = results()
    rows = np.logical_and.reduce([table[column] == value for column, value in broken.items()])
    ours = table.assign(value=np.where(rows, -1000 / table.value.replace(0, 1), table.value))
    ours.loc[rows & (table.statistic != "bias"), "value"] *= -1
    told = {verdict for (what, _), verdict in claim_verdicts(ours).items() if what == name}
    assert DIFFERS in told


def test_a_claim_that_cannot_be_made_of_what_is_compared_is_left_out(outcomes):
    left = [figure for figure in outcomes["claims"].figures if figure.left_out]
    assert len(left) == 66
    rest = {figure.name: figure.verdict for figure in outcomes["claims"].figures if not figure.left_out}
    assert rest == {
        "budgets at which the loss of state totals is defined": AGREES,
        "levels in 2020": AGREES,
        "race groups, 2020 over 1940": AGREES,
        "seconds of a run of TopDown, mean over budgets": SHOWN,
    }


def test_the_loss_of_the_text_is_that_of_the_wider_search_range():
    values = np.random.default_rng(1).normal(0, 20, 3000).round()
    wide = epl(values, percentile=99, multiplier=1.5).epl
    assert petti_runs._loss_of_text(values) == pytest.approx(wide)
    assert wide > 1.1 * epl(values).epl


def test_losses_of_samples_in_the_text_are_compared_at_the_nations_size_and_a_third_of_them_differs():
    table = petti_text.losses_table().assign(statistic=petti_runs.TEXT_LOSS, chance=1e-6, n=10_000, corrected=0.1)
    for factor, verdict in ((1.0, STAND_IN), (1 / 3, DIFFERS)):
        figures, notes = petti_text.sample_loss_figures(table.assign(value=factor * table.value), Nation())
        assert [figure.verdict for figure in figures] == [verdict] * 12
        assert f"{12 if factor == 1 else 0} of 12 are met" in notes[0]
    assert all(figure.left_out for figure in petti_text.sample_loss_figures(table, TenMillion())[0])


def test_an_extract_is_read_and_its_figures_are_no_stand_ins(tmp_path, small):
    path = tmp_path / "extract.dat"
    write_ipums_1940(small.people, small.facilities, small.housing, path)
    setting = Setting(replicates=2, ipums=path)
    census = petti_census.census_of(setting)
    assert not census.stand_in
    assert census.whole
    assert census.population.people.total() == 50_000 < NATION
    outcome = petti_file.compute_sizes(setting)
    assert len(outcome.figures) == 24
    assert outcome.notes[-1] == "Sizes are real."
    assert outcome.verdict == DIFFERS  # a village is not the nation, and claims to be
    assert not any(figure.stand_in for figure in outcome.figures)


@pytest.mark.slow
def test_on_ten_million_persons_no_item_differs():
    setting = Setting(persons=10_000_000)
    made = {key: item.compute(setting) for key, item in ITEMS.items()}
    assert {key: outcome.verdict for key, outcome in made.items()} == dict.fromkeys(ITEMS, STAND_IN) | EXACT
    assert sum(len(made[key].tables["side_by_side"]) for key in OF_THE_FILE) > 800  # of 994
