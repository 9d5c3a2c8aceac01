"""risk invert on the command line: shares of a release, and the ranges of a small one."""

import json

import pandas as pd
import pytest

from command_line import figures, run, write_town


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("town")
    words = ["--rho", "1", "--seed", "1", "--estimator", "topdown", "-o", str(folder / "release")]
    made = run("protect", *write_town(folder), *words)
    assert made.returncode == 0, made.stderr
    return str(folder / "release")


def test_a_release_is_counted_level_by_level_and_concluded(release):
    found = figures("risk", "invert", release)
    assert list(found) == ["shares"]
    assert [row["measurements"] for row in found["shares"]] == [2, 6, 12]
    assert all(row["relations"] <= row["measurements"] for row in found["shares"])
    assert run("risk", "invert", release).stdout.endswith("post-processing cannot be undone.\n")


def test_exact_ranges_are_written_and_infinite_ends_are_null_in_json(release, tmp_path):
    found = figures("risk", "invert", release, "--exact", "-o", str(tmp_path / "found"))
    assert len(found["ranges"]) == 20
    hidden = [row for row in found["ranges"] if row["status"] == "hidden"]
    assert all((row["low"], row["high"]) == (None, None) for row in hidden)
    assert sum(row["number"] for row in found["statuses"] if row["what"] == "measurements") == 20
    assert len(pd.read_parquet(tmp_path / "found" / "ranges.parquet")) == 20
    assert "Infinity" not in json.dumps(found)
    shown = run("risk", "invert", release, "--exact").stdout
    assert shown.endswith(f"hides {len(hidden)}.\n")


@pytest.mark.parametrize(("folder", "line"), [("nowhere", "nowhere: no such folder.")])
def test_what_is_no_release_is_refused(folder, line):
    done = run("risk", "invert", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
