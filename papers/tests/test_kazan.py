"""Items of kazan2022: verdicts, every published number used, broken computations noticed, the sampler as a chain."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.privacy import DiscreteGaussian, Strategy
from tallyveil.risk import Attribute, Exposure, Hierarchy, Intruder, empirical_levels
from tallyveil_papers import items
from tallyveil_papers.figure import AGREES, DIFFERS, ERRATUM, SHOWN
from tallyveil_papers.kazan import budgets as kazan_budgets
from tallyveil_papers.kazan import curves as kazan_curves
from tallyveil_papers.kazan import empirical as kazan_empirical
from tallyveil_papers.kazan import levels as kazan_levels
from tallyveil_papers.kazan import plain_sums as kazan_by_hand
from tallyveil_papers.kazan import right as kazan_right
from tallyveil_papers.kazan import sums as kazan_sums
from tallyveil_papers.kazan import tiles as kazan_tiles
from tallyveil_papers.kazan.facts import PUBLISHED, bureau, rho_of
from tallyveil_papers.kazan.gibbs import Steps, gibbs
from tallyveil_papers.kazan.levels import TABLE_5, two_levels
from tallyveil_papers.kazan.near_ties import is_claimed, settled
from tallyveil_papers.kazan.sampler import Chains, sampled
from tallyveil_papers.registry import Setting, published

BY_KEY = {item.key.removeprefix("kazan2022."): item for item in items(["kazan2022"])}
OFF_IN_PRINT = {"section1", "section2.3", "section4.3", "section6", "table3", "table5", "table6", "table7", "figure2",
                "figure4", "figure5", "figure6"}  # fmt: skip
SIMULATED = kazan_empirical.simulated
WITHOUT_NUMBERS = {"definitions", "table2", "other-priors"}  # the paper prints none to compare with, or they are inputs


@pytest.fixture(autouse=True)
def _afresh():
    two_levels.cache_clear()
    yield
    two_levels.cache_clear()


@pytest.fixture(scope="module")
def outcomes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kazan_right, "GRID_6", ("1", "4", "100"))
        patch.setattr(kazan_curves, "GRID", np.geomspace(0.01, 10, 13))
        patch.setattr(kazan_empirical, "simulated", few_runs)
        return {key: item.compute(Setting()) for key, item in BY_KEY.items()}


@cache
def few_runs(kept, seed, runs):
    """The simulation of section 6 on a small tree; it is the same whatever else is broken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kazan_empirical, "CHILDREN", (1, 1, 1, 2, 2))
        return SIMULATED(kept, seed, runs // 4)


def compute(key, monkeypatch):
    """An item on as few points as show whether it is broken."""
    monkeypatch.setattr(kazan_right, "GRID_6", ("3", "100"))
    monkeypatch.setattr(kazan_right, "STEPS_6", ("0.2", "0.5", "1", "2", "10", "100"))
    monkeypatch.setattr(kazan_right, "COUNTS_5", (1, 4, 10, 20, 30))
    monkeypatch.setattr(kazan_curves, "GRID", np.array([0.1, 1.0]))
    if kazan_empirical.simulated is SIMULATED:
        monkeypatch.setattr(kazan_empirical, "simulated", few_runs)
    return BY_KEY[key].compute(Setting())


def ours(outcomes, key, name, at=""):
    (value,) = (one.ours for one in outcomes[key].figures if (one.name, one.at) == (name, at))
    return value


@pytest.mark.parametrize("key", BY_KEY)
def test_each_item_agrees_or_differs_as_its_erratum_says(key, outcomes):
    expected = SHOWN if key in WITHOUT_NUMBERS else ERRATUM if key in OFF_IN_PRINT else AGREES
    assert outcomes[key].verdict == expected
    if key in OFF_IN_PRINT:
        assert BY_KEY[key].erratum
    assert all(np.isfinite(figure.ours) for figure in outcomes[key].figures)


def test_whatever_differs_in_print_is_confirmed_by_other_means(outcomes):
    off = [one for outcome in outcomes.values() for one in outcome.figures if one.verdict == ERRATUM]
    alone = {one.name for one in off if one.again is None}
    assert len(off) > 20
    assert alone == {"p-value of the published row, to be above the test's level"}


def test_tables_and_figures_are_all_there_with_charts_of_the_figures(outcomes):
    assert {f"table{n}" for n in range(1, 8)} | {f"figure{n}" for n in range(1, 9)} <= set(outcomes)
    for n in range(1, 9):
        (chart,) = outcomes[f"figure{n}"].charts.values()
        assert chart.to_dict()["title"]["text"]
    for n in range(1, 8):
        assert all(len(table) for table in outcomes[f"table{n}"].tables.values())
        assert outcomes[f"table{n}"].tables


def test_every_published_number_is_used_by_some_item(outcomes):
    used = {(one.name, one.published, at) for outcome in outcomes.values() for one in outcome.figures
            for at in (one.at, "")}  # fmt: skip
    table = published(PUBLISHED).fillna({"at": ""})
    missing = [row for row in zip(table.quantity, table.published, table["at"], strict=True) if row not in used]
    assert missing == []


def test_no_item_but_those_named_is_without_a_published_number(outcomes):
    silent = {key for key, outcome in outcomes.items() if all(figure.published is None for figure in outcome.figures)}
    assert silent == WITHOUT_NUMBERS


def times(factor, function):
    return lambda *args, **named: factor * function(*args, **named)


def ten_percent_more(function):
    return times(1.1, function)


def decision_of(**changes):
    def broken(hierarchy, counts):
        found = DECISION(hierarchy, counts)
        return replace(found, **{name: factor * getattr(found, name) for name, factor in changes.items()})

    return broken


def swapped():
    levels = dict(bureau().levels)
    return replace(bureau(), levels=levels | {"tract": levels["county"], "county": levels["tract"]})


def one_less():
    block = dict(bureau().queries["block"])
    rest = block.pop("total")
    queries = dict(bureau().queries) | {"block": block | {"detailed": block["detailed"] + rest}}
    return replace(bureau(), queries=queries)


def curve_off(**factors):
    return lambda *args, **named: CURVE(*args, **named).assign(
        **{name: lambda table, name=name, factor=factor: factor * table[name] for name, factor in factors.items()}
    )


def papers_noise(_, level, *__, **___):
    return DiscreteGaussian(variance=1 / (2 * rho_of(level)))


def more_above(rho):
    return NOISE(Fraction(rho) * (1 if Fraction(rho) == rho_of("block") else Fraction("1.1")))


def gains_off(released, claimed):
    right, gain, loss = SHARES(released, claimed)
    return right, 1.1 * gain, 1.1 * loss


def rare_is_common(exposure):
    right = RIGHT.fget(exposure)
    return 5 * right if right < 0.01 else right


def further_off(noise):
    s = float(noise.variance)
    return s + 1.9 * (VARIANCE(noise) - s)


def other_way(attribute, released):
    return {value: 1 - p for value, p in POSTERIOR(attribute, released).items()}


def near_ties_are_lost(two, count):
    found = two.decision([count])
    return SimpleNamespace(right_decision=found.right_decision, won=0.0, near_ties=found.tie)


DECISION, CURVE, NOISE, SHARES = Hierarchy.decision, kazan_curves.curve, kazan_levels.paper_noise, kazan_tiles.shares
RIGHT, VARIANCE, POSTERIOR = Exposure.right_decision, DiscreteGaussian.actual_variance, Attribute.posterior
SUM, LIKE = kazan_sums.sum_of_noise, kazan_sums.approximate_sum
EPSILON, CLAIMED = kazan_budgets.epsilon_from_rho, Chains.claimed
TWO_LEVELS = ["table5", "table6", "table7", "figure4", "figure5", "figure6"]


def larger_empirical_epsilon(strategy):
    table = empirical_levels(strategy)
    return table.assign(implied_epsilon=1.001 * table.implied_epsilon)


def more_after_than_before(*_):
    rows = {"seen": list(kazan_empirical.SEEN), "marginal_posterior": [0.6, 0.7, 0.6], "marginal_posterior_se": 0.01}
    return kazan_empirical.TargetFigures(figures=pd.DataFrame(rows).assign(implied_epsilon=1.0))


BROKEN = [  # where, what, by what, and which items must notice
    (DiscreteGaussian, "pmf", ten_percent_more(DiscreteGaussian.pmf), ["table3", "figure4"]),
    (DiscreteGaussian, "tail", ten_percent_more(DiscreteGaussian.tail), ["section2.1"]),
    (DiscreteGaussian, "log_pmf", times(-1, DiscreteGaussian.log_pmf), ["definitions"]),
    (DiscreteGaussian, "actual_variance", ten_percent_more(VARIANCE), ["figure7"]),
    (DiscreteGaussian, "actual_variance", lambda noise: float(noise.variance), ["figure7"]),
    (DiscreteGaussian, "actual_variance", further_off, ["figure7"]),
    (Exposure, "posterior", ten_percent_more(Exposure.posterior), ["table3", "table6", "section4.3", "figure1"]),
    (Exposure, "ratio", ten_percent_more(Exposure.ratio), ["table3", "figure1"]),
    (
        Exposure,
        "marginal_posterior",
        property(ten_percent_more(Exposure.marginal_posterior.func)),
        ["table4", "figure2"],
    ),
    (Exposure, "right_decision", property(ten_percent_more(RIGHT.fget)), ["figure3", "figure6"]),
    (Exposure, "right_decision", property(rare_is_common), ["figure3"]),
    (Exposure, "threshold", property(ten_percent_more(Exposure.threshold.fget)), ["figure3", "section5"]),
    (kazan_curves, "curve", curve_off(risk=0.5), ["figure2"]),
    (kazan_curves, "curve", curve_off(posterior=0.5), ["figure2"]),
    (kazan_curves, "curve", curve_off(right_decision=0.9), ["figure3"]),
    (Attribute, "posterior", other_way, ["section5"]),
    (Attribute, "risk", ten_percent_more(Attribute.risk), ["section5"]),
    (Hierarchy, "evidence", ten_percent_more(Hierarchy.evidence), ["section3.2"]),
    (Hierarchy, "log_values", ten_percent_more(Hierarchy.log_values), ["section3.2", "table6"]),
    (Hierarchy, "posterior", times(1.5, Hierarchy.posterior), ["table6"]),
    (Hierarchy, "posterior", lambda *_: 1 - 0.5033, ["table6"]),
    (Hierarchy, "above_posterior", ten_percent_more(Hierarchy.above_posterior), ["table7", "section4.3"]),
    (Hierarchy, "threshold", ten_percent_more(Hierarchy.threshold), ["figure4", "other-priors"]),
    (
        Hierarchy,
        "decision",
        decision_of(right_decision=1.1, gain=1.1, loss=1.1),
        ["figure4", "figure5", "figure6", "section5"],
    ),
    (Hierarchy, "decision", decision_of(right_decision=0.995), ["figure5", "figure6"]),
    (Hierarchy, "decision", decision_of(tie=0.5), ["figure6"]),
    (Hierarchy, "decision", decision_of(tie=1.4), ["figure6"]),
    (kazan_right, "settled", near_ties_are_lost, ["figure6"]),
    (kazan_levels, "OTHERS", 24, TWO_LEVELS),
    (kazan_levels, "paper_noise", more_above, TWO_LEVELS),
    (kazan_tiles, "shares", gains_off, ["figure4"]),
    (
        Chains,
        "claimed",
        lambda chains, draws=None, **named: (
            (chains.posterior > 0.49).astype(float) if draws is None else CLAIMED(chains, draws, **named)
        ),
        ["figure4", "figure5"],
    ),
    (Chains, "claimed", ten_percent_more(CLAIMED), ["figure6"]),
    (Steps, "covariance", property(times(25, Steps.covariance.fget)), ["table7"]),
    (Strategy, "share", ten_percent_more(Strategy.share), ["section2.3", "section6", "table5"]),
    (
        Strategy,
        "noise",
        papers_noise,
        ["table3", "table4", "table6", "figure3", "figure4", "figure5", "section5", "section6"],
    ),
    (Histogram, "total", ten_percent_more(Histogram.total), ["table2"]),
    (Schema, "cells", property(ten_percent_more(Schema.cells.fget)), ["section4.1"]),
    (kazan_budgets, "bureau", swapped, ["table1"]),
    (kazan_budgets, "bureau", one_less, ["table1", "section2.3"]),
    (kazan_budgets, "RHO", Fraction("2.40"), ["section1", "section2.3", "section6"]),
    (
        kazan_budgets,
        "epsilon_from_rho",
        ten_percent_more(EPSILON),
        ["section1", "section2.1", "section2.3", "section6"],
    ),
    (
        kazan_budgets,
        "epsilon_from_rho",
        lambda rho, _: EPSILON(rho, kazan_budgets.DELTA),
        ["section1", "section2.1"],
    ),
    (kazan_budgets, "implied_epsilon", ten_percent_more(kazan_budgets.implied_epsilon), ["section2.3", "section6"]),
    (
        kazan_budgets,
        "empirical_epsilon",
        lambda _: SimpleNamespace(implied_epsilon=3 * 0.3148),
        ["section6"],
    ),
    (kazan_empirical, "empirical_levels", larger_empirical_epsilon, ["empirical"]),
    (kazan_empirical, "simulated", more_after_than_before, ["empirical"]),
    (kazan_sums, "sum_of_noise", lambda noises: SUM(noises[: len(noises) // 2]), ["figure8"]),
    (kazan_sums, "approximate_sum", lambda noises: LIKE(2 * noises), ["figure8"]),
]


@pytest.mark.parametrize(
    ("place", "name", "broken", "key"),
    [(place, name, broken, key) for place, name, broken, keys in BROKEN for key in keys],
)
def test_a_computation_that_is_broken_on_purpose_is_reported_as_differing(place, name, broken, key, monkeypatch):
    monkeypatch.setattr(place, name, broken)
    with np.errstate(all="ignore"):
        assert compute(key, monkeypatch).verdict == DIFFERS


def test_every_item_has_a_way_to_differ():
    assert {key for *_, keys in BROKEN for key in keys} == set(BY_KEY)


def test_errata_name_the_numbers_that_are_computed(outcomes):
    def words(key, name, digits, at=""):
        return f"{ours(outcomes, key, name, at):.{digits}f}"

    def text(key):
        return BY_KEY[key].erratum

    assert words("section2.3", "exact epsilon", 3, "rho=2.56;delta=1e-10") in text("section2.3")
    assert words("table3", "a statistic of this size occurs, %", 1, "x=4 (section 4.2.1)") + "%" in text("table3")
    assert words("section4.3", "weight on X2 = 1, %", 1, "exact") in text("section4.3")
    assert words("table6", "size of what the level above adds, points", 1, "exact") in text("table6")
    assert words("figure4", "probability mass: wrongly changed", 1) in text("figure4")
    assert words("figure4", "probability mass: rightly changed", 1) in text("figure4")
    whatever = "X1* from which on X1 = 1 is claimed, whatever is above"
    assert f"X1* = {words('figure4', whatever, 0)} on" in text("figure4")
    assert words("figure5", "P[right decision], %", 1, "xi2=1; exact") in text("figure5")
    for count in (1, 10, 100):
        assert words("figure6", "P[right decision] at rho2=100", 2, f"xi2={count}") in text("figure6")
    apart = "xi2 = 1 against 10 or 100, points"
    assert words("figure6", apart, 0, "rho2=1") + " points apart" in text("figure6")
    assert words("table5", "rho_2", 5, "section 4.3") == "0.24648"
    assert "0.24648" in text("table5")
    ratios = [one.ours for one in outcomes["definitions"].figures if one.name.startswith("P[Z")]
    assert min(ratios) > 2  # Theorem 1: far from needed
    assert text("definitions").startswith("Erratum 11")
    both = [one.ours for one in outcomes["definitions"].figures if "Eq. 8" in one.name]
    assert both[0] == pytest.approx(both[1], rel=1e-12)


def test_the_bureaus_noise_gives_what_erratum_9_says(outcomes):
    assert ours(outcomes, "figure3", "P[right decision], Bureau's noise", "p=1/2") == pytest.approx(0.5628, abs=5e-5)
    name = "disclosure risk R, variance 1/rho"
    assert ours(outcomes, "table4", name, "rho=2.56;p=1/2") == pytest.approx(1.024, abs=5e-4)
    assert ours(outcomes, "table4", name, "rho=2.56;p=1/50") == pytest.approx(1.100, abs=5e-4)
    exact = ours(outcomes, "table4", "disclosure risk R, Bureau's noise", "p=1/50")
    assert exact == pytest.approx(1.099, abs=5e-4)  # of the Bureau's exact rho


def test_near_ties_are_settled_as_many_digits_have_it():
    two = two_levels("100")
    # X1*, X2*, Y1* and the sign of the log odds at 120 digits: 5.4e-47, -5.4e-47, -3.3e-44, -4.1e-44
    for counts, claimed in (((1, 10, 23), True), ((0, 10, -4), False), ((1, 1, 14), False), ((0, 1, -13), False)):
        assert abs(two.log_odds(counts[0], [counts[1:]])) < 1e-12  # floats do not tell
        assert is_claimed(two, *counts) is claimed
    for count, right in ((1, 58.678), (10, 58.975), (100, 58.975)):
        found = settled(two, count)
        assert 100 * found.right_decision == pytest.approx(right, abs=5e-4)
        assert found.near_ties == pytest.approx(two.decision([count]).tie, abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.integers(-4, 6), st.integers(-4, 9), st.integers(-40, 40), st.sampled_from([None, "0.05", "3", "12"]))
def test_balls_and_floats_decide_alike_where_floats_can_tell(x1, x2, y, rho_2):
    two = two_levels(rho_2)
    log_odds = two.log_odds(x1, [(x2, y)])
    if abs(log_odds) > 1e-9:
        assert is_claimed(two, x1, x2, y) == (log_odds > 0)


def test_sums_by_hand_are_those_of_a_count_of_all_cases():
    rho = 0.4  # so few cases that each can be written down
    prior, x = 0.2, range(-12, 14)
    total = sum(np.exp(-rho * k**2) for k in range(-40, 41))
    mass = {k: np.exp(-rho * (k - 1) ** 2) / total for k in x}
    odds = {k: prior * np.exp(-rho * (k - 1) ** 2) / ((1 - prior) * np.exp(-rho * k**2)) for k in x}
    assert kazan_by_hand.average(rho, prior) == pytest.approx(sum(mass[k] * odds[k] / (1 + odds[k]) for k in x))
    assert kazan_by_hand.right(rho, prior) == pytest.approx(sum(mass[k] for k in x if odds[k] > 1))
    found = Intruder(prior="1/5").against(DiscreteGaussian(variance="5/4"))
    assert kazan_by_hand.average(rho, prior) == pytest.approx(found.marginal_posterior, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(-6, 8), st.integers(-5, 30), st.integers(-40, 60), st.booleans(), st.sampled_from([None, "0.02", "3"])
)
def test_chains_have_the_long_run_of_the_samplers_steps(x1, x2, y, condition, rho_2):
    two = two_levels(rho_2)
    steps = Steps.of(two, x1, x2, y, condition=condition)
    chains = Chains.of(two, np.array([x1]), np.array([x2, x2 + 3]), np.array([y, y + 2]), condition=condition)
    assert chains.posterior[0, 0, 0] == pytest.approx(float(steps.stationary @ steps.has_given_x2), abs=1e-9)


@pytest.mark.parametrize(("to_has", "to_not"), [(0.5, 0.5), (0.52, 0.47), (0.3, 0.31), (0.55, 0.5)])
def test_how_often_half_of_the_draws_have_it_is_that_of_the_chain_counted_out(to_has, to_not):
    draws = 1000
    counted = np.zeros((2, draws + 1))  # by state, and by draws with x1 = 1 so far
    counted[:, 0] = np.array([to_not, to_has]) / (to_has + to_not)
    for _ in range(draws):
        has = to_has * counted[0] + (1 - to_not) * counted[1]
        counted = np.array([(1 - to_has) * counted[0] + to_not * counted[1], np.append(0, has[:-1])])
    exact = counted.sum(axis=0)
    chains = Chains(to_has=np.array(to_has), to_not=np.array(to_not))
    assert float(chains.claimed(draws)) == pytest.approx(exact[500:].sum(), abs=2e-3)
    assert float(chains.claimed(draws, strictly=True)) == pytest.approx(exact[501:].sum(), abs=2e-3)
    if 0.3 < exact[500:].sum() < 0.7:  # more than half is another figure
        assert abs(float(chains.claimed(draws)) - exact[501:].sum()) > 5e-3


def test_the_sampler_with_the_condition_decides_as_the_exact_sum_and_without_it_as_published():
    two = two_levels()
    for count in (1, 3, 9):
        found = two.decision([count])
        expected = (found.right_decision, found.gain, found.loss)
        assert sampled(two, count, condition=True) == pytest.approx(expected, abs=1e-7)
    assert sampled(two, 1, condition=False) == pytest.approx((0.5946, 0.0238, 0.0181), abs=6e-5)  # erratum 8


def test_draws_of_the_sampler_have_the_shares_of_the_chains():
    two, (x1, x2, y), draws = two_levels(), TABLE_5, 200_000
    for condition in (True, False):
        chains = Chains.of(two, np.array([x1]), np.array([x2]), np.array([y]), condition=condition)
        share = gibbs(two, x1, x2, y, draws=draws, seed=3, condition=condition)[:, 0].mean()
        assert abs(share - float(chains.posterior[0, 0, 0])) < 0.006  # four standard errors; the two are 0.07 apart


@pytest.mark.parametrize("key", ["figure2", "figure3", "figure5", "figure6"])
def test_items_on_few_points_have_the_verdict_of_the_whole(key, monkeypatch):
    assert compute(key, monkeypatch).verdict == (ERRATUM if key in OFF_IN_PRINT else AGREES)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["figure2", "figure3", "figure6"])
def test_items_on_all_points_have_the_same_verdict(key):
    assert BY_KEY[key].compute(Setting()).verdict == (ERRATUM if key in OFF_IN_PRINT else AGREES)
