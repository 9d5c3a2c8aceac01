"""petti2020's appendix: every item's verdict, the same when something is broken, and what the figures rest on."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog, nnls
from scipy.stats import chi2, gaussian_kde

from tallyveil import Histogram, Schema, Spine
from tallyveil_papers import items, losses
from tallyveil_papers.appendix import geometric as appendix_geometric
from tallyveil_papers.appendix import noise as appendix_noise
from tallyveil_papers.appendix import reconciled as appendix_reconciled
from tallyveil_papers.appendix import solvers as appendix_by_hand
from tallyveil_papers.appendix import table as appendix_table
from tallyveil_papers.figure import AGREES, DIFFERS, ERRATUM, SHOWN, STAND_IN
from tallyveil_papers.registry import Setting, published

COMPUTE = {item.key.partition(".")[2]: item.compute for item in items(["petti2020-appendix"])}
VERDICTS = {
    "figure_sa1": STAND_IN,
    "figure_sa2": ERRATUM,
    "figure_sa3": STAND_IN,
    "figure_sa4": STAND_IN,
    "table_sa1b": ERRATUM,
    "table_sa1c": ERRATUM,
}


SOUND = {}


def sound_outcome(name):
    """What an item gives with nothing broken: computed once."""
    if name not in SOUND:
        SOUND[name] = COMPUTE[name](Setting())
    return SOUND[name]


def verdict(name):
    return COMPUTE[name](Setting()).verdict


def break_noise(monkeypatch, times):
    """Geometric noise with another parameter than it says."""
    sound = appendix_noise.geometric

    def broken(people, *, epsilon, **options):
        return sound(people, epsilon=Fraction(epsilon) * times, **options)

    monkeypatch.setattr(appendix_noise, "geometric", broken)


def break_smoothing(monkeypatch, times):
    sound = losses.smoothed

    def broken(*given):
        points, log_p = sound(*given)
        return points, times * log_p

    monkeypatch.setattr(losses, "smoothed", broken)


@pytest.fixture
def _some_budgets(monkeypatch):
    """Table SA1 (a) without its smallest budgets, whose noise is wide and slow."""
    sound = appendix_table._published
    monkeypatch.setattr(appendix_table, "_published", lambda part: sound(part).query("part != 'a' or value >= 0.05"))


@pytest.fixture
def _few_budgets(monkeypatch):
    sound = appendix_table._published
    monkeypatch.setattr(appendix_table, "_published", lambda part: sound(part).query("part != 'a' or value >= 0.4"))


@pytest.fixture(autouse=True)
def _fewer_runs(monkeypatch, request):
    if "slow" not in request.keywords:
        for module in (appendix_geometric, appendix_table):
            monkeypatch.setattr(module, "RUNS", 100)
            monkeypatch.setattr(module, "BY_HAND", 100)
        monkeypatch.setattr(appendix_reconciled, "RUNS_SA3", 15)
        monkeypatch.setattr(appendix_reconciled, "RUNS_SA4", 5)
        monkeypatch.setattr(appendix_reconciled, "BY_HAND", 4)
        monkeypatch.setattr(appendix_reconciled, "strata_and_total", _nnls_once)


@pytest.fixture(autouse=True)
def _no_pictures_of_what_is_broken(monkeypatch, request):
    if "differ" in request.node.name:
        for module in (appendix_geometric, appendix_reconciled):
            monkeypatch.setattr(module, "two_panels", lambda *_, **__: None)
        monkeypatch.setattr(appendix_geometric, "_scatter", lambda *_: None)
        monkeypatch.setattr(appendix_table, "_table_chart", lambda *_: None)
        monkeypatch.setattr(appendix_table, "_option_chart", lambda *_: None)


_NNLS = {}


def _nnls_once(true, **options):
    """The general solver is slow, and always gives the same."""
    if "found" not in _NNLS:
        _NNLS["found"] = appendix_by_hand.strata_and_total(true, **options)
    return _NNLS["found"]


# -- verdicts


@pytest.mark.parametrize("name", VERDICTS)
def test_each_item_has_the_verdict_that_it_should(name):
    outcome = sound_outcome(name)
    assert outcome.verdict == VERDICTS[name], outcome.frame()
    assert list(outcome.charts) == [name]
    if VERDICTS[name] == STAND_IN:
        assert "synthetic" in str(outcome.charts[name].to_dict()["title"])


@pytest.mark.usefixtures("_some_budgets")
def test_the_rows_of_table_sa1a_together_tell_the_two_noises_apart():
    outcome = COMPUTE["table_sa1a"](Setting())
    assert outcome.verdict == ERRATUM, outcome.frame()
    together = next(figure for figure in outcome.figures if "on average" in figure.name)
    assert together.verdict == ERRATUM
    assert together.ours == pytest.approx(0.868, abs=0.02)  # ratio exp(-z)
    assert together.as_printed == pytest.approx(0.923, abs=0.02)  # ratio 1 - z
    alone = [figure.verdict for figure in outcome.figures if figure.at in ("epsilon 0.05", "epsilon 0.1")]
    assert alone == [AGREES] * 6  # no erratum where ours fits, too
    losses_by_size = outcome.tables["by_size"].epl_mean.tolist()
    assert losses_by_size == pytest.approx([0.225, 0.155, 0.136], rel=0.08)  # erratum 5
    assert [figure.verdict for figure in outcome.figures[-2:]] == [SHOWN, SHOWN]


@pytest.mark.slow
def test_every_published_row_of_table_sa1_is_compared():
    found = {}
    for part in "abc":
        outcome = COMPUTE[f"table_sa1{part}"](Setting())
        assert outcome.verdict == ERRATUM, outcome.frame()
        found[part] = [figure.published for figure in outcome.figures]
    table = published("petti_flaxman_2020_table_sa1")
    for part, rows in table.groupby("part"):
        printed = rows[["epl_mean", "epl_2_5", "epl_97_5"]].to_numpy().reshape(-1).tolist()
        assert found[part][: len(printed)] == printed


def test_epl_depends_on_bandwidth_and_percentile_as_erratum_4_says():
    known = {
        "b": {0.01: 0.40, 0.1: 0.22, 0.5: 0.13, 1.0: 0.08, 5.0: 0.005},
        "c": {75: 0.15, 85: 0.17, 95: 0.22, 99: 0.37, 99.9: 1.84},
    }
    for part, values in known.items():
        table = sound_outcome(f"table_sa1{part}").tables["statistics"]
        by_option = dict(zip(table.iloc[:, 0], table.epl_mean, strict=True))
        for value, expected in values.items():
            assert by_option[value] == pytest.approx(expected, rel=0.3 if value == 99.9 else 0.08)


def test_rows_of_table_sa1_where_ours_fits_are_no_errata():
    verdicts = {
        part: {figure.at: figure.verdict for figure in sound_outcome(f"table_sa1{part}").figures} for part in "bc"
    }
    assert verdicts["b"] == {
        f"bandwidth {value:g}": AGREES if value == 0.1 else ERRATUM
        for value in (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
    }
    assert verdicts["c"]["percentile 95"] == AGREES
    assert verdicts["c"]["percentile 99"] == ERRATUM


def test_the_theoretical_value_is_that_of_two_counts():
    figures = [figure for figure in sound_outcome("figure_sa2").figures if "one count" in figure.name]
    assert [figure.published for figure in figures] == [0.25, 0.05]
    assert [figure.verdict for figure in figures] == [ERRATUM, ERRATUM]
    assert [figure.ours for figure in figures] == pytest.approx([0.125, 0.025], rel=0.03)


def test_most_of_the_rise_of_sa4_comes_with_the_cut_at_0():
    figures = {figure.name: figure for figure in sound_outcome("figure_sa4").figures}
    alone, cut = figures["EPL, noise alone"].ours, figures["EPL, noise cut at 0, no invariant"].ours
    kept = figures["EPL, county totals kept exactly"].ours
    assert [alone, cut, kept] == pytest.approx([0.145, 1.33, 1.9], rel=0.05)
    assert figures["share of the rise that comes with the cut at 0"].ours == pytest.approx(
        (cut - alone) / (kept - alone)
    )


def test_what_differs_from_washington_is_said():
    words = appendix_noise.state_in_words(appendix_noise.state_of(Setting()))
    for part in ("stands in for Washington", "2,663 districts", "9,869", "5.1 strata", "3.7 there"):
        assert part in words


# -- broken on purpose


@pytest.mark.usefixtures("_few_budgets")
@pytest.mark.parametrize("name", ["figure_sa1", "figure_sa2", "table_sa1a", "table_sa1c"])
def test_noise_that_is_10_percent_off_differs(monkeypatch, name):
    break_noise(monkeypatch, Fraction(11, 10))
    assert verdict(name) == DIFFERS


@pytest.mark.usefixtures("_few_budgets")
@pytest.mark.parametrize("name", ["table_sa1a", "table_sa1b"])
def test_a_smoothing_that_is_10_percent_off_differs(monkeypatch, name):
    break_smoothing(monkeypatch, 1.1)
    assert verdict(name) == DIFFERS


@pytest.mark.parametrize("name", ["figure_sa3", "figure_sa4"])
def test_a_stand_in_beyond_a_factor_of_two_differs(monkeypatch, name):
    break_smoothing(monkeypatch, 0.4)
    assert verdict(name) == DIFFERS


@pytest.mark.parametrize(
    ("name", "changed"),
    [("table_sa1b", lambda _: {}), ("table_sa1c", lambda _: {}), ("table_sa1b", lambda o: {"bandwidth": 3 * o})],
    ids=["bandwidth ignored", "percentile ignored", "bandwidth three times"],
)
def test_ours_that_ignores_or_changes_an_option_differs(monkeypatch, name, changed):
    sound = appendix_table.losses_of

    def broken(draws, **options):
        return sound(draws, **(changed(*options.values()) if options else {}))

    monkeypatch.setattr(appendix_table, "losses_of", broken)
    assert verdict(name) == DIFFERS


@pytest.mark.parametrize("times", [1.5, 0.6])
def test_an_epl_that_is_off_differs_in_figure_sa2(monkeypatch, times):
    sound = appendix_noise.largest
    monkeypatch.setattr(appendix_noise, "largest", lambda *given, **options: times * sound(*given, **options))
    assert verdict("figure_sa2") == DIFFERS


def _swap_budgets(o):
    return o | {"epsilon_total": o["epsilon_strata"], "epsilon_strata": o["epsilon_total"]}


@pytest.mark.parametrize(
    "changed",
    [lambda o: o | {"weights": (1e-9, 0.75)}, lambda o: o | {"weights": (0.75, 0.25)}, _swap_budgets],
    ids=["total ignored", "weights swapped", "budgets swapped"],
)
def test_another_optimisation_differs_in_figure_sa3(monkeypatch, changed):
    sound = appendix_reconciled.total_and_strata
    monkeypatch.setattr(appendix_reconciled, "total_and_strata", lambda people, **o: sound(people, **changed(o)))
    assert verdict("figure_sa3") == DIFFERS


@pytest.mark.parametrize(
    "changed",
    [lambda o: o | {"weight": 1e-6}, lambda o: o | {"above": "state"}, lambda o: o | {"epsilon": 2 * o["epsilon"]}],
    ids=["hardly kept", "the state's total", "epsilon doubled"],
)
def test_another_invariant_differs_in_figure_sa4(monkeypatch, changed):
    sound = appendix_reconciled.with_invariant
    monkeypatch.setattr(appendix_reconciled, "with_invariant", lambda people, **o: sound(people, **changed(o)))
    assert verdict("figure_sa4") == DIFFERS


# -- what the figures rest on


def test_epl_is_that_of_the_authors_recipe_with_scipy():
    drawn = appendix_noise.noise_of(appendix_noise._synthetic(1), 0.125, seed=4, runs=2)
    assert drawn.shape == (2, 2663)
    found = appendix_noise.losses_of(drawn).values
    for residuals, ours in zip(drawn, found, strict=True):
        reach = max(abs(np.percentile(residuals, [5, 95])))
        edges = np.arange(-reach, reach, 1)
        density = gaussian_kde(residuals, bw_method=0.1)((edges[1:] + edges[:-1]) / 2)
        assert ours == pytest.approx(np.abs(np.log(density[:-1] / density[1:])).max(), rel=1e-6)


def test_epl_by_hand_is_scipys():
    residuals = np.random.default_rng(2).laplace(0, 8, 1500).round()
    for bandwidth, percentile in ((0.1, 95), (0.5, 80)):
        reach = max(abs(np.percentile(residuals, [100 - percentile, percentile])))
        edges = np.arange(-reach, reach, 1)
        log_p = gaussian_kde(residuals, bw_method=bandwidth).logpdf((edges[1:] + edges[:-1]) / 2)
        found = appendix_by_hand.epl_by_hand(residuals, bandwidth=bandwidth, percentile=percentile)
        assert found == pytest.approx(np.abs(np.diff(log_p)).max(), rel=1e-9)


def test_strata_of_a_total_by_sorting_are_the_nearest():
    rng = np.random.default_rng(3)
    for _ in range(20):
        strata, total = rng.integers(-9, 12, 6), float(rng.integers(1, 30))
        found = appendix_by_hand.nearest_with_total(strata, total)
        assert found.sum() == pytest.approx(total)
        # a heavy penalty makes nnls keep the total
        rows = np.vstack([np.eye(6), np.full((1, 6), 1e4)])
        wanted, _ = nnls(rows, np.append(strata, 1e4 * total))
        assert found == pytest.approx(wanted, abs=1e-3)


def test_strata_cut_at_zero_are_least_in_absolute_differences():
    rng = np.random.default_rng(7)
    for _ in range(20):
        strata, total = rng.integers(-6, 9, 5), int(rng.integers(-5, 30))
        # x, then the part of each difference: minimise 0.75 sum d + 0.25 t with d >= |x - s| and t >= |sum x - total|
        cost = np.r_[np.zeros(5), np.full(5, 0.75), 0.25]
        eye, one = np.eye(5), np.ones((1, 5))
        rows = np.block(
            [
                [eye, -eye, np.zeros((5, 1))],
                [-eye, -eye, np.zeros((5, 1))],
                [one, np.zeros((1, 5)), -np.ones((1, 1))],
                [-one, np.zeros((1, 5)), -np.ones((1, 1))],
            ]
        )
        best = linprog(cost, A_ub=rows, b_ub=np.r_[strata, -strata, total, -total])
        cut = np.maximum(strata, 0)
        value = 0.75 * np.abs(cut - strata).sum() + 0.25 * abs(cut.sum() - total)
        assert value == pytest.approx(best.fun, abs=1e-9)
        assert best.x[:5] == pytest.approx(cut, abs=1e-9)


def test_one_state_has_its_own_people_and_nobody_elses():
    columns = {"state": ["44", "53", "53", "53"], "county": ["441", "531", "531", "532"]}
    spine = Spine.from_columns({**columns, "enumdist": ["4411", "5311", "5312", "5321"]}, root="us")
    schema = Schema(attributes={"age": ["child", "adult"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1, 2, 3, 3], cell=[0, 0, 1, 0, 1], count=[9, 1, 2, 3, 4])
    washington = appendix_noise.one_state(people, b"53")
    assert repr(washington) == "Histogram(us 1, state 1, county 2, enumdist 3; age 2)"
    assert washington.leaves.dense().tolist() == [[1, 0], [0, 2], [3, 4]]
    assert washington.spine.labels("enumdist") == ["5311", "5312", "5321"]


def test_the_noise_of_a_statistic_is_that_of_means_of_independent_draws():
    rng = np.random.default_rng(8)
    one = appendix_noise.Losses(rng.normal(0, 1, 4000))
    errors = one.errors(1)
    assert errors["epl_mean"] == pytest.approx((1 / 100 + 1 / 4000) ** 0.5, rel=0.06)
    assert errors["epl_2_5"] > 2 * errors["epl_mean"]


def test_equal_rows_of_the_published_table_differ_as_means_of_about_100_draws_do():
    means = published("petti_flaxman_2020_table_sa1").query("part == 'b'").epl_mean
    drawn = appendix_noise.noise_of(appendix_noise._synthetic(1), losses.authors_z(0.125), seed=1, runs=200)
    times = appendix_noise.losses_of(drawn).values.var(ddof=1) / means.var(ddof=1)
    low, high = times * chi2.ppf([0.025, 0.975], len(means) - 1) / (len(means) - 1)
    assert low == pytest.approx(30, rel=0.3)
    assert high == pytest.approx(260, rel=0.3)
    assert low < appendix_noise.THEIRS < high
