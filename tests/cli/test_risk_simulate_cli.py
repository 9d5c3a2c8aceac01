"""risk simulate on the command line, on a town of four blocks."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import tallyveil.cli.risk_simulate as command
from tallyveil import Strategy
from tallyveil.auditing.mechanism_runs import TopDownRuns
from tallyveil.errors import InputError
from tallyveil.files import read_counts
from tallyveil.privacy.constraints import Bound
from tallyveil.privacy.strategy_toml import strategy_to_toml
from tallyveil.risk.target.target import Target, before_postprocessing

APP = typer.Typer()
APP.command()(command.simulate)
CHILD = ["--unit", "11", "--cell", "child", "--prior", "1/2"]
FEW = ["--runs", "100", "--workers", "1"]


@pytest.fixture
def instant(monkeypatch):
    """The true counts instead of TopDown: what the command does around the runs."""
    monkeypatch.setattr(TopDownRuns, "__call__", lambda _, people, runs: iter([people] * len(runs)))


def run(*words: str):
    return CliRunner().invoke(APP, list(words), catch_exceptions=False)


def refused(*words: str) -> str:
    with pytest.raises(InputError) as problem:
        run(*words)
    return str(problem.value)


def test_topdown_is_simulated_in_a_folder_that_can_be_taken_up_again_with_another_prior(town, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "BATCH", 50)
    folder = tmp_path / "simulated"
    words = [*town, "--rho", "20", *CHILD, *FEW, "-o", str(folder)]
    done = run(*words, "--json", "--released", "1,3,7")
    told = json.loads(done.stdout)
    assert "4 of 4 batches of 50 runs done" in done.stderr
    assert json.loads((folder / "simulated.json").read_text()) == told
    assert told["hypotheses"] == "the target: block 11, in child or in adult"
    assert (told["runs"], told["prior"], told["levels"]) == (100, 0.5, ["block", "county", "us"])
    people = read_counts(town[0], town[2])
    strategy = Strategy.default(people.spine, people.schema, rho=20)
    bound, alone = before_postprocessing(strategy, people, Target(leaf=0, cell=0, instead=1), prior="1/2")
    assert alone is not None
    assert (told["bound"], told["alone"]) == (bound.as_json(), alone.as_json())
    assert 0.6 < told["marginal_posterior"] < told["bound"]["marginal_posterior"] + 2 * told["marginal_posterior_se"]
    assert told["risk"] == pytest.approx(2 * told["marginal_posterior"])
    assert {"right_decision", "right_decision_se", "accuracy", "accuracy_se"} <= set(told)
    assert 0 < told["posterior"] < 1
    (seen,) = [row for row in told["tuples"] if row["counts"] == [1, 3, 7]]
    assert (told["posterior"], told["posterior_se"]) == (seen["posterior"], seen["posterior_se"])
    assert "Not for publication" in told["note"]
    assert "Not for publication" in (folder / "INTERNAL.txt").read_text()
    assert set(told["tuples"][0]) == {"counts", "posterior", "posterior_se", "runs_has", "runs_not"}
    again = run(*words[:-4], "--prior", "1/5", *words[-4:], "--json")
    assert "4 of 4 batches of 50 runs were done before" in again.stderr
    assert json.loads(again.stdout)["prior"] == 0.2
    assert "budget was 'rho 20', is now 'rho 1'" in refused(*words, "--rho", "1")
    assert "hypotheses was" in refused(*words, "--cell", "adult", "--instead", "child")


@pytest.mark.usefixtures("instant")
def test_figures_are_printed_beside_their_bound(town):
    done = run(*town, "--epsilon", "2", *CHILD, *FEW, "--released", "1,3,7")
    lines = done.stdout.splitlines()
    assert lines[0].endswith("for those who may see them. Not for publication.")
    assert lines[2] == "the target: block 11, in child or in adult; prior 1/2, 100 runs of each"
    assert lines[3].split("  ")[-1].strip() == "leaf's count alone"
    assert lines[7].startswith("right decisions about a target who has the cell  1.0000 +- 0.0100")
    assert "(no bound)" in lines[7]
    assert "the most common released counts of the cell (block, county, us)" in lines
    assert [line.split()[:3] for line in lines if line.startswith(("0, 2, 6", "1, 3, 7"))] == [
        ["0,", "2,", "6"],
        ["1,", "3,", "7"],
    ]
    assert re.fullmatch(r"given the released counts: posterior 0\.9\d+ \+- 0\.\d+", lines[-1])


@pytest.mark.usefixtures("instant")
def test_a_target_may_be_absent_where_neighbours_are_added_or_removed(town, tmp_path):
    people = read_counts(town[0], town[2])
    plan = Strategy(
        mechanism="geometric",
        budget=3,
        levels=dict.fromkeys(people.spine.levels, "1/3"),
        queries={level: {"detailed": 1} for level in people.spine.levels},
        neighbours="add-or-remove",
        attributes=("age",),
    )
    (tmp_path / "plan.toml").write_text(strategy_to_toml(plan))
    words = [*town, "--strategy", str(tmp_path / "plan.toml"), *CHILD, *FEW, "--json"]
    told = json.loads(run(*words).stdout)
    assert told["hypotheses"] == "the target: block 11, in child or not there"
    moved = json.loads(run(*words, "--instead", "adult").stdout)
    assert moved["hypotheses"] == "the target: block 11, in child or in adult"
    assert moved["bound"]["marginal_posterior"] > told["bound"]["marginal_posterior"]  # two places each, not one


@pytest.mark.usefixtures("instant")
def test_a_simulation_of_hours_must_be_asked_for(town, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.pool.LONG", 0.0)
    words = [*town, "--epsilon", "1", *CHILD, *FEW]
    assert "100 runs of each hypothesis take about" in refused(*words)
    assert run(*words, "--long").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*CHILD], "a simulation needs a budget: --epsilon E, --rho R, or a --strategy that has one."),
        (["--rho", "1", *CHILD, "--unit", "99"], "'99' is not among the 4 units of level 'block'."),
        (["--rho", "1", *CHILD, "--cell", "baby"], "'baby' is not a cell. Cells are child, adult"),
        (["--rho", "1", *CHILD, "--instead", "baby"], "--unit and --instead '11:baby': 'baby' is not a cell."),
        (["--rho", "1", *CHILD, "--instead", "child"], "the same cell as the target's"),
        (["--rho", "1", *CHILD, "--unit", "22"], "block 22 has nobody in the cell 'child'"),
        (["--rho", "1", *CHILD, "--invariant", "age@county"], "differ in an invariant (age is exact for every county)"),
        (["--rho", "1", *CHILD, "--released", "1,2"], "give one whole number for each of block, county, us"),
        (["--rho", "1", *CHILD, "--released", "1,2,x"], "--released '1,2,x': give one whole number for each of"),
        (["--rho", "1", *CHILD, "--runs", "10"], "10 runs of each hypothesis are too few."),
        (["--rho", "1", *CHILD, "--workers", "0"], "--workers must be 1 or more. Got 0 instead."),
        (["--rho", "1", *CHILD, "--prior", "2"], "a prior is a probability strictly between 0 and 1"),
    ],
)
def test_bad_words_are_refused(town, words, message):
    assert message in refused(*town, *words)


def test_an_alternative_that_a_constraint_rules_out_is_refused(town, tmp_path):
    people = read_counts(town[0], town[2])
    plan = Strategy.default(people.spine, people.schema, rho=1)
    kept = replace(plan, constraints=(Bound(query="age", level="block", least={"child": 1}, units=("11",)),))
    (tmp_path / "plan.toml").write_text(strategy_to_toml(kept))
    words = [*town, "--strategy", str(tmp_path / "plan.toml")]
    assert "the alternative: block '11' has 0 in 'child' of 'detailed', not 1 to" in refused(*words, *CHILD)


def test_a_tree_of_more_than_200_leaves_is_refused_before_anything_is_run(town):
    many = "".join(f"3,3{i:03d},adult,1\n" for i in range(200))
    path = Path(town[0])
    path.write_text(path.read_text() + many)
    assert "the tree has 204 leaves; simulations are for 200 at most" in refused(*town, "--rho", "1", *CHILD)


@pytest.mark.slow
def test_other_processes_give_the_same_result(town, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.pool.POOL", 0.0)
    words = [*town, "--rho", "5", *CHILD, "--runs", "150", "--json", "--workers"]
    alone, together = (json.loads(run(*words, n).stdout) for n in ("1", "2"))
    assert alone == together
