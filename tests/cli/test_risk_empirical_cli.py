"""risk empirical on the command line: of a strategy, and of releases of a town of four blocks."""

import json

import pytest

from command_line import figures, run

CHILD = ["--unit", "11", "--cell", "child", "--runs", "100", "--workers", "1"]


def test_the_2020_strategy_is_shown_with_the_papers_words():
    found = figures("risk", "empirical", "--strategy", "pl94-2020-us-persons")
    assert (round(found["expected"]["low"], 2), round(found["expected"]["high"], 2)) == (0.45, 2.26)
    assert found["expected"]["quote"].startswith("A better bound is likely somewhere between eps = 0.45")
    (whole,) = (
        row
        for row in found["before"]
        if (row["level"], row["scope"], row["invariants"]) == ("us", "with levels below", True)
    )
    assert whole["implied_epsilon"] == pytest.approx(1.312, abs=5e-4)
    printed = run("risk", "empirical", "--strategy", "pl94-2020-us-persons", "--query", "detailed")
    assert "between the implied epsilon of the leaf level (0.45) and that of all levels (2.26)" in printed.stdout
    assert printed.stdout.endswith("epsilon 0.74. This is an average before post-processing, not a guarantee.\n")


@pytest.mark.slow
def test_a_target_is_simulated_with_and_without_invariants_in_a_folder_that_can_be_resumed(town, tmp_path):
    folder = tmp_path / "found"
    words = ["risk", "empirical", *town, "--rho", "1", "--invariant", "total@county", *CHILD, "-o", str(folder)]
    first = figures(*words)
    rows = first["simulated"]
    assert [row["invariants"] for row in rows] == [True, False]
    assert all(0.5 < row["before"]["marginal_posterior"] < 1 for row in rows)
    assert set(rows[0]["after"]) >= {"marginal_posterior", "marginal_posterior_se", "implied_epsilon"}
    assert "Not for publication" in first["note"]
    assert (folder / "with_invariants" / "INTERNAL.txt").exists()
    assert json.loads((folder / "empirical.json").read_text()) == first
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("runs/*.npy")}
    again = figures(*words, "--prior", "1/2", "--prior", "1/5")
    assert [row["prior"] for row in again["simulated"]] == ["1/2", "1/5", "1/2", "1/5"]
    assert again["simulated"][0] == rows[0]
    assert kept == {path: path.stat().st_mtime_ns for path in folder.rglob("runs/*.npy")}


def test_the_conclusion_is_about_the_target(town):
    done = run("risk", "empirical", *town, "--rho", "1", *CHILD)
    assert done.returncode == 0, done.stderr
    assert "Internal: made from the true counts" in done.stdout
    assert "the target: block 11, in child or in adult; 100 runs of each hypothesis" in done.stdout
    assert done.stdout.endswith("after it. This is not a guarantee.\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "risk empirical needs a strategy: --strategy S, or DATA to simulate with."),
        (["--strategy", "e2e-2018"], "no budget"),
        (["--strategy", "pl94-2020-us-persons", "--unit", "11"], "--unit is for a simulation."),
        (["--strategy", "pl94-2020-us-persons", "-o", "x"], "-o is for a simulation."),
        (["--strategy", "pl94-2020-us-persons", "--prior", "2"], "a prior is a probability strictly between 0 and 1"),
        (["--strategy", "pl94-2020-us-persons", "--attack", "x"], "unknown attack 'x'"),
        (["--strategy", "pl94-2020-us-persons", "--query", "nothing"], "query 'nothing' is not measured at any level."),
        (["nowhere.csv", "--unit", "1"], "nowhere.csv: a simulation needs --codebook, --cell too"),
        (["nowhere.csv", "--codebook", "no.toml", "--unit", "1", "--cell", "x"], "no.toml"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_one_line(words, line):
    done = run("risk", "empirical", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
