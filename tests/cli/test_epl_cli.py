"""epl on the command line: residuals in a file."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner, Result

from tallyveil.cli.epl import epl as command
from tallyveil.errors import InputError
from tallyveil.evaluate.epl.loss import epl

Z = 0.125


def ask(*words: str | Path) -> Result:
    """Run the command alone, as the program does; what it refuses stays an error."""
    app = typer.Typer()
    app.command("epl")(command)
    return CliRunner().invoke(app, [str(word) for word in words])


def told(*words: str | Path) -> dict:
    done = ask(*words, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def refusal(*words: str | Path) -> str:
    done = ask(*words)
    assert isinstance(done.exception, InputError), (done.output, done.exception)
    assert "\n" not in str(done.exception)
    return str(done.exception)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.geometric(-np.expm1(-Z), 2663) - rng.geometric(-np.expm1(-Z), 2663)


@pytest.fixture
def file(noise, tmp_path) -> Path:
    pd.DataFrame({"district": range(2663), "residual": noise}).to_csv(tmp_path / "residuals.csv", index=False)
    return tmp_path / "residuals.csv"


def test_the_json_has_the_contracts_keys_and_pythons_figures(noise, file):
    found = told(file, "--column", "residual")
    loss = epl(noise)
    for name in ("epl", "median", "epl_low", "epl_high", "n"):
        assert found[name] == pytest.approx(getattr(loss, name), rel=1e-9)
    assert found["note"].startswith("Not a bound on epsilon")


def test_parquet_text_and_fractional_columns_are_read_alike(noise, tmp_path, file):
    pd.DataFrame({"whole": noise, "fraction": noise.astype(float)}).to_parquet(tmp_path / "r.parquet")
    expected = told(file, "--column", "residual")
    for column in ("whole", "fraction"):
        assert told(tmp_path / "r.parquet", "--column", column) == expected


def test_options_reach_the_estimate(noise, file):
    words = ["--bandwidth", "0.5", "--percentile", "90", "--multiplier", "1.5", "--grid", "integers"]
    found = told(file, "--column", "residual", *words, "--tails", "both", "--confidence", "0.9", "--theory", "0.125")
    loss = epl(noise, bandwidth=0.5, percentile=90, multiplier=1.5, grid="integers", tails="both", confidence=0.9)
    assert found["epl"] == pytest.approx(loss.epl, rel=1e-9)
    assert found["epl_high"] == pytest.approx(loss.epl_high, rel=1e-9)
    assert found["theory"] == 0.125
    assert found["settings"] == loss.as_json()["settings"]


def test_the_terminal_shows_figures_with_their_meaning(noise, file):
    done = ask(file, "--column", "residual", "--theory", "0.125")
    assert done.exit_code == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert f"{epl(noise).epl:.4g}" in lines["EPL"]
    assert "95% interval for the largest log ratio before smoothing" in lines["interval"]
    assert {"residuals", "corrected", "median", "theory", "Not"} <= lines.keys()


def test_an_invariant_is_undefined_with_its_reason_and_exit_code_0(tmp_path):
    pd.DataFrame({"r": [0] * 51}).to_csv(tmp_path / "states.csv", index=False)
    assert "undefined: all 51 residuals are 0" in ask(tmp_path / "states.csv", "--column", "r").stdout
    assert told(tmp_path / "states.csv", "--column", "r")["epl"] is None


def test_too_few_residuals_for_a_corrected_maximum_are_said_to_be(noise, tmp_path):
    pd.DataFrame({"r": noise[:60]}).to_csv(tmp_path / "few.csv", index=False)
    done = ask(tmp_path / "few.csv", "--column", "r", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.exception
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert lines["corrected"].split()[1] == "-"
    assert "No band and no corrected maximum" in done.stdout
    assert told(tmp_path / "few.csv", "--column", "r")["corrected"] is None
    assert pd.read_parquet(tmp_path / "out" / "curve.parquet")["low"].isna().all()


def test_tables_are_written_to_a_new_folder(noise, file, tmp_path):
    done = ask(file, "--column", "residual", "-o", tmp_path / "out")
    assert done.exit_code == 0
    curve = pd.read_parquet(tmp_path / "out" / "curve.parquet")
    assert list(curve.columns) == ["x", "epl", "low", "high", "internal"]
    assert "Not for publication" in (tmp_path / "out" / "INTERNAL.txt").read_text()
    np.testing.assert_allclose(curve["epl"], epl(noise).curve["epl"], rtol=1e-9)
    row = pd.read_csv(tmp_path / "out" / "epl.csv").iloc[0]
    assert (row["n"], row["bandwidth"]) == (2663, 0.1)
    assert "exists. Name a new folder" in refusal(file, "--column", "residual", "-o", tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a,b\n1,2\n", "c", "no column 'c'. Its columns are: a, b. Name one of them."),
        ("a\n1\nmany\n", "a", "row 2, column 'a': 'many' is not a number. Correct it, or leave the row out."),
        ("a,b\n1,2\n,3\n", "a", "row 2, column 'a': the value is missing."),
        ("a\n1\ninf\n", "a", "row 2, column 'a': 'inf' is not a number."),
        ("a\n", "a", "column 'a' has no rows. Give one residual per row."),
        ("", "a", "the file is empty"),
    ],
)
def test_a_file_without_the_numbers_is_refused_in_one_line(tmp_path, text, column, message):
    (tmp_path / "bad.csv").write_text(text)
    assert message in refusal(tmp_path / "bad.csv", "--column", column)


def test_a_column_of_dates_and_a_missing_file_are_refused(tmp_path):
    pd.DataFrame({"day": pd.to_datetime(["2020-04-01"])}).to_parquet(tmp_path / "days.parquet")
    assert "not numbers. Name another column." in refusal(tmp_path / "days.parquet", "--column", "day")
    assert "no such file" in refusal(tmp_path / "none.csv", "--column", "r")


def test_a_release_folder_and_settings_out_of_range_are_refused(file):
    assert "a folder, not a table. Give a CSV, Parquet or Excel file." in refusal(file.parent, "--column", "residual")
    assert "bandwidth must be above 0. Got 0 instead." in refusal(file, "--column", "residual", "--bandwidth", "0")
