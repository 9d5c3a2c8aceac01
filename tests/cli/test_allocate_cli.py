"""allocate on the command line: its outputs, what it refuses, and paired differences of evaluate and compare."""

import json
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from command_line import Done, run
from tallyveil import Strategy

BOOK = """[geography]
levels = ["county", "block"]
root = "us"
[attributes]
age = ["child", "adult"]
sex = ["f", "m"]
[table]
layout = "long"
count = "count"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A list of units, a table of counts, a codebook and a strategy."""
    blocks = pd.DataFrame({"county": [c for c in "abcd" for _ in range(5)]})
    blocks["block"] = [f"{c}{i % 5}" for i, c in enumerate(blocks.county)]
    blocks.to_csv(tmp_path / "units.csv", index=False)
    people = blocks.assign(age="adult", sex="f", count=range(3, 23))
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "book.toml").write_text(BOOK)
    done = run("strategy", str(tmp_path / "units.csv"), "--codebook", str(tmp_path / "book.toml"), "--rho", "1/2", "-o",
               str(tmp_path / "s.toml"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path


def ask(place: Path, *words: str, units: str = "units.csv") -> Done:
    return run("allocate", "--strategy", str(place / "s.toml"), "--units", str(place / units), "--codebook",
               str(place / "book.toml"), *words)  # fmt: skip


def test_the_json_has_shares_that_sum_to_one_and_every_level_and_query(place):
    done = ask(place, "--weight", "total@county=2", "--weight", "age@block=1", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sum(Fraction(row["share"]) for row in told["shares"]) == 1
    assert len(told["predicted"]) == 12
    assert {"level", "query", "sd_before", "sd_after"} <= set(told["predicted"][0])
    assert 0 <= told["gap"] < 1e-3


def test_the_file_is_a_strategy_that_protect_takes_and_nothing_is_overwritten(place):
    done = ask(place, "--weight", "total@county=1", "-o", str(place / "new.toml"))
    assert done.returncode == 0, done.stderr
    assert "every level and query" in done.stdout
    assert "rise; total@county gains most" in done.stdout
    assert f" --units {place / 'units.csv'} --strategy {place / 'new.toml'} --plan" in done.stdout
    plan = Strategy.read(place / "new.toml")
    assert plan.levels["county"] > Fraction(4, 5)
    again = ask(place, "--weight", "total@county=1", "-o", str(place / "new.toml"))
    assert again.returncode == 2
    assert "exists. Name a new file" in again.stderr
    made = run("protect", str(place / "people.csv"), "--codebook", str(place / "book.toml"), "--strategy",
               str(place / "new.toml"), "--plan")  # fmt: skip
    assert made.returncode == 0, made.stderr


def test_goals_give_the_least_budget_and_are_listed(place):
    done = ask(place, "--goal", "total@county within 20 in 95%", "--goal", "age@block: CV under 10% above 300 people")
    assert done.returncode == 0, done.stderr
    assert "The least budget that meets these goals" in done.stdout
    assert "Nothing was written. Add -o FILE" in done.stdout


@pytest.mark.slow
def test_candidates_and_a_bound_on_risk_go_together(place):
    words = ["--candidates", "all", "--risk-bound", "1.05", "--least", "1/50"]
    done = ask(place, "--weight", "total@block=1", *words)
    assert done.returncode == 0, done.stderr
    assert "The bound on risk of 1.05 is kept" in done.stdout


def test_counts_are_refused_as_units_and_taken_if_they_are_declared_public(place):
    done = ask(place, units="people.csv")
    assert done.returncode == 2
    assert "holds counts or attributes of people (column 'age')" in done.stderr
    assert "--public-counts people.csv" in done.stderr
    given = ["--public-counts", str(place / "people.csv"), "--replicates", "2", "--json"]
    done = run("allocate", "--strategy", str(place / "s.toml"), "--codebook", str(place / "book.toml"), *given)
    assert done.returncode == 0, done.stderr
    assert {"released_before", "released_after"} <= set(json.loads(done.stdout)["predicted"][0])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--weight", "total@county"], "write it as QUERY@LEVEL=W"),
        (["--weight", "total@county=1", "--weight", "total@county=2"], "--weight total@county is given twice"),
        (["--weight", "total@county=many"], "weight 'total@county': the weight must be a number"),
        (["--facilities", "f.csv"], "f.csv: the strategy has no bounds from facilities. Leave --facilities out"),
    ],
)
def test_bad_options_end_with_one_line(place, words, error):
    done = ask(place, *words)
    assert done.returncode == 2
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_codebook_a_census_preset_or_a_release_folder_has_the_labels(place):
    plain = ["allocate", "--strategy", str(place / "s.toml"), "--units", str(place / "units.csv")]
    done = run(*plain)
    assert done.returncode == 2
    assert "the labels of age, sex are unknown" in done.stderr
    spine = {"state": ["01"] * 4, "county": ["001"] * 4, "tract": ["1"] * 4, "block_group": list("1122"),
             "block": list("1234")}  # fmt: skip
    frame = pd.DataFrame(spine)
    frame["county"], frame["tract"] = frame.state + frame.county, "01001" + frame.tract
    frame["block_group"] = frame.tract + frame.block_group
    frame["block"] = frame.block_group + frame.block
    frame.to_csv(place / "blocks.csv", index=False)
    done = run("allocate", "--strategy", "pl94-2020-us-persons", "--units", str(place / "blocks.csv"), "--weight",
               "total@block_group=1", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sum(Fraction(row["share"]) for row in json.loads(done.stdout)["shares"]) == 1
    assert "No facilities were given, so errors are predicted as if" in " ".join(json.loads(done.stdout)["notes"])
    made = run("protect", str(place / "people.csv"), "--codebook", str(place / "book.toml"), "--units",
               str(place / "units.csv"), "--strategy", str(place / "s.toml"), "--seed", "1", "-o",
               str(place / "r1"))  # fmt: skip
    assert made.returncode == 0, made.stderr
    done = run("allocate", "--strategy", str(place / "s.toml"), "--units", str(place / "r1"), "--json")
    assert done.returncode == 0, done.stderr
    done = run(*plain[:3], "--units", str(place))
    assert done.returncode == 2
    assert "not a release folder" in done.stderr
    done = run("allocate", "--strategy", "pl94-2020-us-persons", "--units", str(place / "units.csv"))
    assert "Name the columns like the levels, or give --codebook" in done.stderr


def released(place: Path, name: str, seed: str, *, rounding: str) -> str:
    text = (place / "s.toml").read_text().replace('rounding = "margins"', f'rounding = "{rounding}"')
    (place / f"{rounding}.toml").write_text(text)
    done = run("protect", str(place / "people.csv"), "--codebook", str(place / "book.toml"), "--units",
               str(place / "units.csv"), "--strategy", str(place / f"{rounding}.toml"), "--seed", seed, "-o",
               str(place / name))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(place / name)


def test_evaluate_and_compare_pair_releases_of_one_measurement_and_no_others(place):
    folders = [
        released(place, f"{rounding}{seed}", seed, rounding=rounding)
        for seed, rounding in (("1", "margins"), ("1", "cells"), ("2", "cells"), ("2", "margins"))
    ]
    truth = [str(place / "people.csv")]
    book = ["--codebook", str(place / "book.toml")]
    done = run("evaluate", *truth, *folders, *book, "--json", "-o", str(place / "tables"))
    assert done.returncode == 0, done.stderr
    [one] = json.loads(done.stdout)["paired"]
    assert one["pairs"] == [["margins1", "cells1"], ["margins2", "cells2"]]
    assert one["differences"][0]["pairs"] == 2
    assert one["conclusion"].startswith("the second against the first of each pair, paired:")
    assert "internal" in pd.read_csv(place / "tables" / "paired.csv")
    shown = run("evaluate", *truth, *folders[:2], *book)
    assert "Mean absolute error of cells1 against margins1, paired" in shown.stdout
    assert "cells1 against margins1, paired:" in shown.stdout.splitlines()[-1]
    apart = run("evaluate", *truth, folders[0], folders[2], *book, "--json")
    assert json.loads(apart.stdout)["paired"] == []
    done = run("compare", *truth, *folders[:2], *book, "--level", "block", "--query", "total", "--json")
    first, second = json.loads(done.stdout)
    assert first["paired"] == []
    assert second["paired"][0]["first"] == "margins1"
    assert {row["statistic"] for row in second["paired"][0]["differences"]} == {"mean_abs", "rmse"}
