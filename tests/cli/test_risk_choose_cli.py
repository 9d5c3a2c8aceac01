"""tallyveil risk choose on the command line: the contract's keys, files, one line for what is wrong."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest

from command_line import figures, run
from tallyveil import Strategy
from tallyveil.cli import risk_choose
from tallyveil.risk import Hierarchy

CHOOSE = ("risk", "choose")
PLAN = """
mechanism = "gaussian"
rho = "2"
attributes = ["sex"]
[levels]
county = "1/2"
block = "1/2"
[queries]
total = "1/4"
detailed = "3/4"
"""


@pytest.fixture
def plan(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    return str(file)


def test_the_issues_example_gives_a_third_of_log_4_and_the_window():
    told = figures(*CHOOSE, "--prior", "1/5", "--bound", "0.29", "--on", "right-decision")
    assert set(told) == {"measure", "bound", "priors", "rho", "reason", "windows", "binding_prior", "checked"}
    assert told["rho"] == pytest.approx(0.4621, abs=5e-5)
    assert told["windows"] == [pytest.approx([0.5541, 1.3863], abs=1e-4)]
    back = figures("risk", "--prior", "1/5", "--rho", repr(told["rho"]))
    assert back["right_decision"] <= 0.29
    shown = run(*CHOOSE, "--prior", "1/5", "--bound", "0.29", "--on", "right-decision").stdout
    assert "0.462098" in shown
    assert "0.554177 to 1.38629 keeps the bound too" in shown


def test_how_a_budget_was_checked_is_said_in_words():
    for on, bound in (("risk", "1.2"), ("right-decision", "0.29")):
        shown = run(*CHOOSE, "--prior", "1/5", "--bound", bound, "--on", on).stdout
        assert "every smaller rho keeps the bound too" in shown
        assert "monotone" not in shown
    nothing = run(*CHOOSE, "--prior", "1/2", "--bound", "0.4", "--on", "right-decision").stdout
    assert "keeps the bound too" not in nothing


def test_none_is_null_with_its_reason():
    told = figures(*CHOOSE, "--prior", "1/2", "--prior", "1/5", "--bound", "0.4", "--on", "right-decision")
    assert told["rho"] is None
    assert told["binding_prior"] == "1/2"
    assert "even odds" in told["reason"]


def test_a_bound_on_risk_inverts_and_geometric_noise_has_an_epsilon():
    words = ("--prior", "1/5", "--bound", "1.2", "--on", "risk", "--mechanism", "geometric")
    told = figures(*CHOOSE, *words)
    at = [
        figures("risk", "--mechanism", "geometric", "--prior", "1/5", "--epsilon", repr(told["epsilon"] * more))["risk"]
        for more in (1, 1.01)
    ]
    assert at[0] <= 1.2 < at[1]


def test_a_strategy_has_level_queries_and_the_single_count_that_says_as_much(plan):
    told = figures(*CHOOSE, "--strategy", plan, "--prior", "1/5", "--bound", "0.3", "--on", "posterior")
    assert (told["level"], told["queries"]) == ("block", ["total", "detailed"])
    [one] = told["empirical_epsilon"]
    assert one["gaussian_rho"] == pytest.approx(0.5, rel=0.02)  # half of the level's rho: replace-one
    assert one["implied_epsilon"] == pytest.approx(math.sqrt(2 * one["gaussian_rho"]))
    alone = figures(
        *CHOOSE, "--strategy", plan, "--prior", "1/5", "--bound", "0.3", "--on", "posterior", "--detail-only"
    )
    assert alone["queries"] == ["detailed"]
    assert alone["rho"] > told["rho"]


def test_a_curve_and_an_allocation_are_written(plan, tmp_path):
    folder = tmp_path / "moved"
    words = ("--strategy", plan, "--prior", "1/5", "--bound", "1.1", "--on", "risk", "--curve", "--allocate")
    told = figures(*CHOOSE, *words, "-o", str(folder))
    assert len(told["curve"]) == 17
    assert told["curve"][8]["budget"] == told["rho"]
    assert told["curve"][8]["risk"] == pytest.approx(1.1)
    after = Strategy.read(folder / "strategy.toml")
    assert after.levels["block"] < Strategy.read(plan).levels["block"]
    assert str(after.levels["block"]) == told["allocation"]["shares"]["block"]["after"]
    assert len(pd.read_csv(folder / "curve.csv")) == 17
    assert json.loads((folder / "choice.json").read_text()) == told
    assert {"draws", "right_decision_se"} <= set(pd.read_csv(folder / "hierarchy.csv"))
    assert told["allocation"]["hierarchy"][0]["right_decision_se"] is None
    assert not (folder / "INTERNAL.txt").exists()  # made from the strategy alone
    assert {"noise.csv", "risk.csv", "hierarchy.csv", "curve.svg"} <= {file.name for file in folder.iterdir()}
    assert set(told["allocation"]) == {"note", "holds_for", "largest_share", "shares", "noise", "risk", "hierarchy"}


def test_people_read_tables(plan):
    words = ("--strategy", plan, "--prior", "1/5", "--bound", "1.1", "--on", "risk", "--detail-only")
    done = run(*CHOOSE, *words, "--curve", "--allocate")
    assert done.returncode == 0, done.stderr
    for words in (
        "R rises with rho for this prior, and is 1.1 there",
        "not a guarantee",
        "before post-processing",
        "Noise by level",
        "Risk by unit",
        "(detailed counts; exact sums)",
    ):
        assert words in done.stdout
    assert "the bound is for every unit of level 'block'" in done.stdout


def test_drawn_figures_are_printed_with_their_standard_error(plan, monkeypatch):
    decision = Hierarchy.decision
    drawn = {"draws": 100, "right_decision_se": 0.0123, "gain_se": 0.01, "loss_se": 0.02}
    monkeypatch.setattr(Hierarchy, "decision", lambda *given: replace(decision(*given), **drawn))
    words = ("--strategy", plan, "--prior", "1/5", "--bound", "1.1", "--on", "risk", "--detail-only", "--allocate")
    shown = run(*CHOOSE, *words).stdout
    assert "+- is one standard error where figures were drawn" in shown
    assert " +- 0.01, drawn" in shown
    assert "right decision se" not in shown


def test_a_bound_that_is_not_for_only_children_says_so_without_an_allocation_too(plan, tmp_path):
    file = tmp_path / "only.toml"
    file.write_text(PLAN.replace("rho =", "only_child = true\nrho ="))
    words = ("--prior", "1/5", "--bound", "1.1", "--on", "risk", "--detail-only")
    told = figures(*CHOOSE, "--strategy", str(file), *words)
    assert told["holds_for"].startswith("units of level 'block' with siblings; one that is its county's only child")
    shown = run(*CHOOSE, "--strategy", str(file), *words).stdout
    assert f"the bound is for {told['holds_for']}" in shown
    assert figures(*CHOOSE, "--strategy", plan, *words)["holds_for"] == "every unit of level 'block'"


def test_a_long_search_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(risk_choose, "EVERY", -1.0)
    tried = risk_choose._Tried()
    tried(1)
    tried(1200)
    monkeypatch.setattr(risk_choose, "EVERY", 1e9)
    tried(1201)
    assert capsys.readouterr().err.splitlines() == [f"searching for the budget: {n} tried" for n in ("1", "1,200")]


def test_a_small_priors_first_budget_and_window_are_told():
    told = figures(*CHOOSE, "--prior", "1/10000", "--bound", "240", "--on", "risk")
    assert told["rho"] == pytest.approx(3.13, abs=5e-3)
    assert told["windows"] == [pytest.approx([3.74, 5.273], abs=1e-3)]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--bound", "2", "--on", "right-decision"], "a bound on a probability must be less than 1. Got 2"),
        (["--bound", "0.3", "--on", "posterior", "--level", "block"], "are for a strategy. Give --strategy S"),
        (["--bound", "1.1", "--on", "risk", "--allocate"], "are for a strategy. Give --strategy S"),
        (["--bound", "1.1", "--on", "risk", "--strategy", "nowhere.toml"], "neither a file nor a preset"),
        (
            ["--bound", "1.1", "--on", "risk", "--strategy", "pl94-2020-us-persons", "--mechanism", "gaussian"],
            "a strategy has its mechanism",
        ),
        (
            ["--bound", "1.1", "--on", "risk", "--strategy", "pl94-2020-us-persons", "--level", "ward"],
            "unknown level 'ward'",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_2(words, line):
    done = run(*CHOOSE, "--prior", "1/5", *words)
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
