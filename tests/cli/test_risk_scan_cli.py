"""tallyveil risk scan on the command line: before, after, with the hierarchy; nothing of a person on the screen."""

import csv
import json
import re

import pytest

from command_line import figures, run

PEOPLE = """county,block,age,people
A,A1,child,3
A,A1,adult,1
A,A2,child,2
B,B1,adult,6
B,B2,adult,2
B,B2,child,9
"""
CODEBOOK = """[geography]
levels = ["county", "block"]
root = "state"
[attributes]
age = ["child", "adult"]
[table]
layout = "long"
count = "people"
"""


@pytest.fixture
def town(tmp_path):
    (tmp_path / "town.csv").write_text(PEOPLE)
    (tmp_path / "town.toml").write_text(CODEBOOK)
    return tmp_path


def words(town, *more):
    return ["risk", "scan", str(town / "town.csv"), "--codebook", str(town / "town.toml"), *more]


def test_a_scan_before_release_has_every_level_and_prior(town):
    told = figures(*words(town, "--rho", "1", "--prior", "1/2", "--prior", "1/5"))
    assert (told["when"], told["attack"], told["queries"]) == ("before", "characteristics", None)
    levels = told["levels"]
    assert {row["prior"] for row in levels} == {"1/2", "1/5"}
    assert {row["people"] for row in levels} == {23}
    finest = [row for row in levels if row["level"] == "block"]
    assert finest[0]["unique"] == 1
    assert 0.5 < finest[0]["right_decision"] + finest[0]["tie"] < 1
    assert "exposed" not in told
    assert "cells" not in told
    alone = figures(*words(town, "--rho", "1", "--detail-only", "--level", "block"))["levels"][0]
    assert alone["risk"] < finest[0]["risk"]


def test_a_release_is_scanned_as_its_noise_was_drawn(town):
    release = str(town / "release")
    made = ["--codebook", str(town / "town.toml"), "--rho", "1", "--seed", "4", "--measurements", "detailed@block"]
    assert run("protect", str(town / "town.csv"), *made, "-o", release).returncode == 0
    seen = run(*words(town, "--release", release, "--json"))
    told = json.loads(seen.stdout)
    assert (told["when"], [row["queries"] for row in told["groups"]]) == ("after", ["detailed"])
    assert "only what was saved is scanned: detailed@block" in seen.stderr
    again = figures(*words(town, "--release", release, "--seed", "4", "--detail-only", "--level", "block"))
    assert again["levels"] == told["levels"]
    other = run(*words(town, "--release", release, "--seed", "5"))
    assert (other.returncode, other.stdout) == (2, "")
    assert re.search(
        r"the seed gives measurement [0-9a-f]{32} .* the release states [0-9a-f]{32}\. Give its", other.stderr
    )
    key = town / "key"
    key.write_text("0123456789abcdef" * 4)
    key.chmod(0o600)
    assert "the key gives measurement" in run(*words(town, "--release", release, "--key-file", str(key))).stderr
    every = figures(*words(town, "--release", release, "--seed", "4"))
    assert [row["level"] for row in every["levels"]] == list(dict.fromkeys(row["level"] for row in every["levels"]))
    assert len(every["levels"]) == len({row["level"] for row in every["groups"]}) > 1


def test_the_most_exposed_are_written_and_not_shown(town):
    out = town / "scanned"
    seen = run(*words(town, "--rho", "1", "--most", "2", "--above", "-o", str(out)))
    assert seen.returncode == 0, seen.stderr
    assert "A1" not in seen.stdout
    assert "Not for publication" in seen.stdout
    assert "an intruder with a prior of 1/2 has a posterior of " in seen.stdout.splitlines()[-1]
    assert "internal: they show the truth" in seen.stderr
    with (out / "exposed.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["level"] == "block"]
    assert rows[0]["unit"] == "A1"  # with somebody unique
    assert len(rows) == 2
    with (out / "above.csv").open() as file:
        assert sum(int(row["people"]) for row in csv.DictReader(file)) == 23
    assert "others of the cell in siblings" in seen.stdout
    assert "drawn" not in seen.stdout
    for file in out.glob("*.csv"):
        with file.open() as table:
            assert all(row["internal"] == "from true counts, not for publication" for row in csv.DictReader(table))
    assert "Not for publication" in (out / "INTERNAL.txt").read_text()


def test_figures_with_a_unit_above_that_were_drawn_have_their_standard_error(town, monkeypatch):
    monkeypatch.setattr("tallyveil.risk.above.decision._LONGEST", 0.0)
    monkeypatch.setattr("tallyveil.risk.above.decision._FEWEST", 50)
    shown = run(*words(town, "--rho", "1", "--above"))
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"0\.\d+ \+- 0\.\d+, drawn", shown.stdout)
    told = json.loads(run(*words(town, "--rho", "1", "--above", "--json")).stdout)["above"]
    assert all(0 < row["right_decision_se"] < 0.2 for row in told if row["siblings"])


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ([], "a scan needs the noise"),
        (["--rho", "1", "--level", "street"], "unknown level 'street'"),
        (
            ["--rho", "1", "--prior", "2"],
            "a prior is a probability strictly between 0 and 1, such as 1/2 or 0.1. Got 2",
        ),
        (["--rho", "1", "--attack", "guess"], "unknown attack 'guess'"),
        (["--rho", "1", "--detail-only", "--query", "age"], "--detail-only and --query are both given"),
        (["--rho", "1", "--release", "x"], "Leave --strategy, its budget and the like out"),
        (["--rho", "1", "--seed", "1", "--key-file", "k"], "--seed and --key-file are both given"),
        (["--rho", "1", "--key-file", "no-such-key"], "no-such-key: no such file"),
        (["--rho", "1", "--threads", "0"], "--threads must be 1 or more"),
        (["--rho", "1", "--most", "-1"], "--most must be 0 or more"),
    ],
)
def test_what_is_wrong_is_one_line(town, more, problem):
    seen = run(*words(town, *more))
    assert seen.returncode == 2
    assert problem in seen.stderr
    assert len(seen.stderr.strip().splitlines()) == 1


def test_options_before_scan_are_not_lost_silently(town):
    seen = run("risk", "--prior", "1/5", *words(town, "--rho", "1")[1:])
    assert seen.returncode == 2
    assert "--prior before scan would be ignored" in seen.stderr


def test_a_level_of_which_nothing_was_saved_is_refused(town):
    release = str(town / "release")
    made = ["--codebook", str(town / "town.toml"), "--rho", "1", "--seed", "4", "--measurements", "detailed@block"]
    assert run("protect", str(town / "town.csv"), *made, "-o", release).returncode == 0
    for level, problem in (("county", "nothing of level 'county' was saved"), ("street", "unknown level 'street'")):
        seen = run(*words(town, "--release", release, "--level", level))
        assert seen.returncode == 2
        assert problem in seen.stderr


def test_measurements_of_other_counts_are_refused(town):
    release = str(town / "release")
    made = ["--codebook", str(town / "town.toml"), "--rho", "1000", "--seed", "4", "--measurements", "all"]
    assert run("protect", str(town / "town.csv"), *made, "-o", release).returncode == 0
    every = figures(*words(town, "--release", release))  # so little noise that nobody is safe
    assert [row["right_decision"] for row in every["levels"]] == [1, 1, 1]
    (town / "town.csv").write_text(PEOPLE.replace("B1,adult,6", "B1,adult,1").replace("B2,adult,2", "B2,adult,7"))
    seen = run(*words(town, "--release", release))
    assert seen.returncode == 2
    assert "the measurements are not of these counts" in seen.stderr
    (town / "town.csv").write_text(PEOPLE.replace("B1", "B9"))
    assert "'B9' is not a unit of" in run(*words(town, "--release", release)).stderr


@pytest.mark.parametrize("rho", ["1e-12", "1e-30", "100000000"])
def test_budgets_of_any_size_give_figures_or_one_line(town, rho):
    seen = run(*words(town, "--rho", rho))
    assert seen.returncode == 0 or "too wide to be summed" in seen.stderr
    assert len(seen.stderr.strip().splitlines()) <= 1


@pytest.mark.parametrize("source", ["--seed", "--key-file"])
def test_noise_is_drawn_again_on_the_spine_that_the_release_was_measured_on(town, source):
    rows = [f"{c},{c}{t},{c}{t}{g},{c}{t}{g}{b},{age},{c + t + g + b + n}" for c in (1, 2) for t in (1, 2)
            for g in (1, 2) for b in (1, 2) for n, age in enumerate(("child", "adult"))]  # fmt: skip
    (town / "town.csv").write_text("\n".join(["county,tract,group,block,age,people", *rows]))
    levels = CODEBOOK.replace('["county", "block"]', '["county", "tract", "group", "block"]')
    (town / "town.toml").write_text(levels)
    places = [
        f"{c}{t}{g}{b},{'Troy' if b == 1 else 'Rome'}" for c in (1, 2) for t in (1, 2) for g in (1, 2) for b in (1, 2)
    ]
    (town / "places.csv").write_text("\n".join(["block,area", *places]))
    release, more = str(town / "r"), [source, "4" if source == "--seed" else str(town / "key")]
    data = [str(town / "town.csv"), "--codebook", str(town / "town.toml")]
    shape = ["--optimise-spine", "--places", str(town / "places.csv")]
    made = run("protect", *data, "--rho", "1", *shape, *more, "--measurements", "all", "-o", release)
    assert made.returncode == 0, made.stderr
    assert (town / "r" / "measurements" / "spine.parquet").exists()
    saved = run(*words(town, "--release", release, "--json"))
    again = run(*words(town, "--release", release, *more, "--json"))
    assert (saved.returncode, again.returncode) == (0, 0), saved.stderr + again.stderr
    assert json.loads(saved.stdout) == json.loads(again.stdout)
    assert "units below are those of the optimised spine" in again.stderr
    (town / "town.csv").write_text(
        "\n".join(["county,tract,group,block,age,people", *rows[:-2], "2,22,222,2222,child,9", "2,22,222,2222,adult,8"])
    )
    changed = run(*words(town, "--release", release, "--seed", "4"))
    assert (changed.returncode, "gives measurement" in changed.stderr) == (2, True)
