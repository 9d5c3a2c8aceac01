"""audit on the command line, on a town of four blocks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import Done, figures, run
from tallyveil import Strategy
from tallyveil.auditing.mechanism_runs import SimpleRuns, TopDownRuns
from tallyveil.auditing.neighbours import choose_neighbour
from tallyveil.evaluate.audit import pairs
from tallyveil.evaluate.audit.views import neighbours_in_words
from tallyveil.files import read_counts
from tallyveil.privacy import Invariant

FEW = ["--runs", "200", "--workers", "1"]
BOTH = ["--neighbours", "replace-one", "--neighbours", "add-or-remove"]


def refused(*words: str) -> str:
    done: Done = run("audit", *words)
    assert done.returncode == 2, done
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


def test_the_geometric_mechanism_is_audited_and_the_neighbours_the_event_and_the_verdict_are_said(town):
    words = ["--mechanism", "geometric", "--epsilon", "1", "--move", "11:adult->22:adult", "--runs", "2000"]
    done = run("audit", *town, *words, "--workers", "1")
    assert done.returncode == 0, done.stderr
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if not line.startswith("one count"))
    assert told["neighbours"] == "replace-one: one person moved from block 11 (adult) to block 22 (adult)"
    assert told["verdict"] == "consistent with epsilon 1"
    assert told["proven"] == "1, for these neighbours"
    assert "of the runs on D" in told["event"]
    assert "batches of 250 runs done" in done.stderr


def test_what_is_proven_depends_on_the_neighbours_that_are_compared(town):
    def proven(*words: str) -> tuple[float, str]:
        found = figures("audit", *town, "--epsilon", "1", *FEW, *words)
        return found["proven"], found["neighbours"].split(":")[0]

    moved, removed = ["--move", "11:adult->22:adult"], ["--remove", "11:adult"]
    for name in ("geometric", "averaged"):
        assert proven("--mechanism", name, *moved) == (1, "replace-one")
        assert proven("--mechanism", name, "--neighbours", "add-or-remove", *moved) == (2, "replace-one")
        assert proven("--mechanism", name, "--neighbours", "add-or-remove", *removed) == (1, "add-or-remove")
    raked = ["--mechanism", "raked", "--neighbours", "add-or-remove"]
    assert proven(*raked, "--query", "total", *moved) == (pytest.approx(4 / 3), "replace-one")  # 2 J / (J + 1), J = 2
    assert proven(*raked, *moved) == (2, "replace-one")


def test_topdown_is_audited_in_a_folder_that_can_be_taken_up_again(town, tmp_path, monkeypatch):
    monkeypatch.setattr("tallyveil.auditing.audit_job.BATCH", 50)
    folder = str(tmp_path / "audit")
    words = ["--rho", "1/2", "--runs", "100", "--workers", "1", "-o", folder]
    first = figures("audit", *town, *words)
    assert (first["delta"], first["runs"], first["exceeds"]) == (0.001, 100, False)
    assert json.loads((tmp_path / "audit" / "audit.json").read_text()) == first
    assert "Not for publication" in (tmp_path / "audit" / "INTERNAL.txt").read_text()
    kept = Path(tmp_path / "audit" / "runs" / "people-000000000-000000050.npy")
    made = kept.stat().st_mtime_ns
    done = run("audit", *town, *words, "--json")
    assert "4 of 4 batches of 50 runs were done before" in done.stderr
    assert json.loads(done.stdout) == first
    assert kept.stat().st_mtime_ns == made
    assert "budget was 'rho 1/2', is now 'rho 1'" in refused(*town, *words, "--rho", "1")
    assert "seed was 0, is now 5" in refused(*town, *words, "--seed", "5")


@pytest.mark.slow
def test_other_processes_give_the_same_result(town, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.pool.POOL", 0.0)
    words = ["--mechanism", "averaged", "--epsilon", "1", "--runs", "600"]
    alone, together = (figures("audit", *town, *words, "--workers", n) for n in ("1", "2"))
    assert alone == together


def test_a_bound_above_the_claim_ends_with_exit_code_1(town, monkeypatch):
    monkeypatch.setattr(SimpleRuns, "proven", lambda *_: 0.25)  # a wrong claim
    done = run("audit", *town, "--mechanism", "geometric", "--epsilon", "4", *FEW)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].endswith("exceeds the proven epsilon 0.25: a bug or a wrong claim")


def test_an_invariant_keeps_the_default_neighbour_within_its_unit(town):
    people = read_counts(town[0], town[2])
    plan = Strategy.default(people.spine, people.schema, epsilon=1)
    kept = replace(plan, constraints=(Invariant(query="total", level="county"),))
    for strategy, block in ((plan, "22"), (kept, "12")):
        runs = TopDownRuns(strategy=strategy, facilities=None, seed=0, delta=0.0)
        other, proven = choose_neighbour(people, runs.proven, move=None, remove=None)
        assert proven == 1
        moved = f"replace-one: one person moved from block 11 (child) to block {block} (child)"
        assert neighbours_in_words(people, other) == moved
    words = ["--epsilon", "1", "--invariant", "total@county", "--move", "11:adult->22:adult"]
    assert "differ in an invariant (total is exact for every county)" in refused(*town, *words)


def test_an_audit_of_hours_must_be_asked_for(town, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.pool.LONG", 0.0)
    words = ["--mechanism", "geometric", "--epsilon", "1", *FEW]
    assert "200 runs a side take about" in refused(*town, *words)
    assert run("audit", *town, *words, "--long").returncode == 0


def test_a_search_says_the_pairs_the_selected_one_and_what_was_left_out_and_can_be_resumed(town, tmp_path):
    folder = tmp_path / "search"
    words = ["--mechanism", "geometric", "--epsilon", "1", "--neighbours", "search", "--runs", "2000", "--workers", "1"]
    done = run("audit", *town, *words, "--query", "total", "-o", str(folder))
    assert done.returncode == 0, done.stderr
    assert "searching 7 pairs of replace-one neighbours" in done.stderr
    assert "left out: a person changes age: no count of 'total' differs between the two." in done.stdout
    told = dict(
        line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith(("pair  ", "neigh", "eps"))
    )
    found = json.loads((folder / "audit.json").read_text())
    assert told["pair"] == found["pair"]
    assert told["neighbours"] == found["neighbours"]
    assert "(1,000 runs on each that took no part in the selection)" in told["epsilon"]
    assert done.stdout.splitlines()[-1].split(maxsplit=1) == ["verdict", "consistent with epsilon 1"]
    assert [pair["selection_runs"] for pair in sorted(found["pairs"], key=lambda pair: pair["rounds"])] == [
        *[35] * 3, *[97] * 2, 222, 472
    ]  # fmt: skip
    assert {pair["pair"] for pair in found["pairs"]} >= {found["pair"], "a person moves to a sibling unit"}
    made = {file: file.stat().st_mtime_ns for file in (folder / "runs").iterdir()}
    again = run("audit", *town, *words, "--query", "total", "-o", str(folder), "--json")
    assert json.loads(again.stdout) == found
    assert "batches of 250 runs were done before" in again.stderr
    assert made == {file: file.stat().st_mtime_ns for file in (folder / "runs").iterdir()}
    assert "runs was 2000, is now 4000" in refused(
        *town, *words, "--query", "total", "-o", str(folder), "--runs", "4000"
    )


def test_a_search_for_topdown_takes_its_neighbours_from_the_strategy(town, monkeypatch):
    monkeypatch.setattr(pairs, "FEWEST_IN_ROUND", 2)
    words = ["--epsilon", "1", "--neighbours", "search", "--neighbours", "replace-one", "--invariant", "total@county"]
    found = figures("audit", *town, *words, "--runs", "120", "--workers", "1")
    assert found["pair"] in {pair["pair"] for pair in found["pairs"]}
    assert found["proven"] == 1
    assert all("an invariant (total is exact for every county)" in kind["reason"] for kind in found["left_out"])
    assert len(found["left_out"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "audit needs a budget: --epsilon E, --rho R, or a --strategy that has one."),
        (["--mechanism", "raked"], "audit --mechanism raked needs a budget: --epsilon E."),
        (["--mechanism", "raked", "--rho", "1"], "--rho is for --mechanism topdown. raked takes --epsilon only."),
        (["--mechanism", "raked", "--invariant", "total@us"], "--invariant is for --mechanism topdown."),
        (["--rho", "1", "--delta", "0"], "Gaussian noise has an epsilon only at a delta above 0."),
        (["--epsilon", "1", "--remove", "11:adult"], "the number of people is exact, so removing one shows."),
        (["--epsilon", "1", "--move", "11:adult"], 'UNIT:CELL->UNIT:CELL, such as "11:child->22:child".'),
        (["--epsilon", "1", "--move", "11->22:adult"], "write a place as UNIT:CELL, such as"),
        (["--epsilon", "1", "--move", "11:adult->99:adult"], "'99' is not among the 4 units of level 'block'."),
        (["--epsilon", "1", "--move", "11:baby->22:adult"], "'baby' is not a cell. Cells are child, adult"),
        (["--epsilon", "1", "--move", "22:child->11:child"], "block 22 (child) is empty, so nobody can leave it."),
        (["--epsilon", "1", "--move", "11:child->11:child"], "the person stays where they are."),
        (["--epsilon", "1", "--move", "11:child->12:child", "--remove", "11:child"], "--move and --remove are both"),
        (["--epsilon", "1", "--neighbours", "search", "--remove", "11:adult"], "search chooses D and D' itself."),
        (["--epsilon", "1", "--neighbours", "add-or-remove"], "the strategy is for replace-one neighbours."),
        (["--epsilon", "1", *BOTH], "--neighbours replace-one and --neighbours add-or-remove are both given."),
        (["--epsilon", "1", "--neighbours", "search", *FEW], "200 runs a side are too few to search 8 pairs"),
        (["--epsilon", "1", "--workers", "0"], "--workers must be 1 or more. Got 0 instead."),
        (["--epsilon", "1", "--runs", "10", "--workers", "1"], "10 runs a side are too few for a bound."),
    ],
)
def test_bad_words_are_refused_in_one_line(town, words, message):
    assert message in refused(*town, *words)
