"""tallyveil reproduce on the command line: one page, a verdict for each item, exit code 1 where one differs."""

import json
from pathlib import Path

import pytest

from command_line import run

KEYS = ("kazan2022.table4", "kazan2022.section2.1")


def test_items_are_computed_once_and_shown_on_one_page(tmp_path):
    out = str(tmp_path / "papers")
    seen = run("reproduce", *KEYS, "-o", out)
    assert seen.returncode == 0, seen.stderr
    assert "2  agrees" in seen.stdout
    page = (tmp_path / "papers" / "index.html").read_text()
    assert all(f'id="{key}"' in page for key in KEYS)
    made = (tmp_path / "papers" / KEYS[0] / "item.json").stat().st_mtime_ns
    assert run("reproduce", *KEYS, "-o", out).returncode == 0
    assert (tmp_path / "papers" / KEYS[0] / "item.json").stat().st_mtime_ns == made
    one = run("reproduce", KEYS[0], "-o", out, "--json")
    assert json.loads(one.stdout)["verdicts"]["agrees"] == 1
    assert "kept" in one.stderr
    page = (tmp_path / "papers" / "index.html").read_text()
    assert all(f'id="{key}"' in page for key in KEYS)  # the page has all that was made


def test_an_item_that_is_broken_on_purpose_ends_with_exit_code_1(tmp_path, monkeypatch):
    from tallyveil.risk import Exposure

    right = Exposure.marginal_posterior.func
    monkeypatch.setattr(Exposure, "marginal_posterior", property(lambda self: 1.1 * right(self)))
    seen = run("reproduce", KEYS[0], "-o", str(tmp_path / "papers"))
    assert seen.returncode == 1
    assert "1  differs\n" in seen.stdout


def test_items_are_listed():
    seen = run("reproduce", "--list")
    assert seen.returncode == 0
    assert {line.split()[0].partition(".")[0] for line in seen.stdout.splitlines()} == {
        "flaxman2019",
        "petti2020",
        "petti2020-appendix",
        "kazan2022",
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "reproduce needs a folder to write"),
        (["nobody2030", "-o", "x"], "unknown item 'nobody2030'"),
        (["--full", "--persons", "5", "-o", "x"], "of --full, --persons and --ipums, give only one"),
        (["--full", "--ipums", "x.dat", "-o", "x"], "of --full, --persons and --ipums, give only one"),
        (["--persons", "0", "-o", "x"], "--persons must be from 1 to 132,404,766. Got 0"),
        (["--persons", "-5", "-o", "x"], "--persons must be from 1"),
        (["--seed", "-1", "-o", "x"], "--seed must be from 0"),
        (["kazan2022.table4", "--ipums", "absent.dat", "-o", "x"], "absent.dat: no such file"),
        (["kazan2022.table4", "--ipums", "pyproject.toml", "-o", "x"], "pyproject.toml"),
        (["kazan2022.table4", "-o", "pyproject.toml/x"], "pyproject.toml/x: cannot be used"),
        (["kazan2022.table4", "-o", "tests"], "tests: not empty"),
        (["--replicates", "1", "-o", "x"], "--replicates must be 2 or more"),
    ],
)
def test_what_is_wrong_is_one_line(words, problem):
    seen = run("reproduce", *words)
    assert seen.returncode == 2, seen.stderr
    assert problem in seen.stderr
    assert not Path("x").exists()
