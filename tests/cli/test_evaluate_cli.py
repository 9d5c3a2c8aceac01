"""evaluate, compare and sweep on the command line, on a small census."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import Done, run
from tallyveil.cli.sweep import _show, conclusion
from tallyveil.evaluate import epl, error, funds, funds_by_group, residuals, segregation, survey
from tallyveil.files import read_counts, read_release
from tallyveil.report import plots


@pytest.fixture(scope="module")
def town(tmp_path_factory) -> Path:
    """A synthetic town, protected twice."""
    place = tmp_path_factory.mktemp("evaluated")
    assert run("synth", "1940", "--persons", "60000", "--seed", "7", "-o", str(place / "town.parquet")).returncode == 0
    for seed in ("1", "2"):
        words = [
            "--strategy",
            "e2e-2018",
            "--epsilon",
            "1",
            "--seed",
            seed,
            "--threads",
            "1",
            "-o",
            str(place / f"r{seed}"),
        ]
        done = run("protect", str(place / "town.parquet"), *book(place), *words)
        assert done.returncode == 0, done.stderr
    return place


def book(place: Path) -> list[str]:
    files = {
        "--codebook": "town.codebook.toml",
        "--facilities": "town.facilities.parquet",
        "--units": "town.units.parquet",
    }
    return [word for option, name in files.items() for word in (option, str(place / name))]


def ask(town: Path, command: str, *words: str) -> Done:
    return run(command, str(town / "town.parquet"), *words, "--codebook", str(town / "town.codebook.toml"))


def test_the_json_of_evaluate_has_the_figures_that_python_gives(town):
    done = ask(town, "evaluate", str(town / "r1"), "--query", "total", "--query", "race", "--json")
    assert done.returncode == 0, done.stderr
    assert "Not for publication" in json.loads(done.stdout)["note"]
    told = json.loads(done.stdout)["releases"]
    truth = read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "r1" / "spine.parquet")
    table = error(truth, read_release(town / "r1"), queries=["total", "race"])
    mine = [(row["level"], row["query"], row["statistic"], row["value"]) for row in told[0]["error"]]
    assert mine == list(table[["level", "query", "statistic", "value"]].itertuples(index=False, name=None))
    assert all(row["sampling_error"] is None for row in told[0]["error"])
    state = next(row for row in told[0]["epl"] if row["level"] == "state" and row["query"] == "total")
    assert state["epl"] is None
    assert state["undefined"]
    assert {row["kind"] for row in told[0]["implausible"]} >= {"children without adults", "people without homes"}


def test_evaluate_writes_the_loss_that_python_gives_beside_the_theory_of_the_noise(town, tmp_path):
    query = "votingage * hispanic * race"
    words = ["--level", "enumdist", "--query", query, "-o", str(tmp_path / "out")]
    done = ask(town, "evaluate", str(town / "r1"), *words)
    assert done.returncode == 0, done.stderr
    truth = read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "r1" / "spine.parquet")
    release = read_release(town / "r1")
    loss = epl(residuals(truth, release, level="enumdist", query=query))
    row = pd.read_csv(tmp_path / "out" / "epl.csv").iloc[0]
    assert row[["n", "epl", "epl_low"]].tolist() == pytest.approx([loss.n, loss.epl, loss.epl_low], rel=1e-9)
    assert row.theory == pytest.approx(float(release.strategy.noise("enumdist", query).z))
    curve = pd.read_csv(tmp_path / "out" / "epl_curves.csv")
    assert curve.epl.tolist() == pytest.approx(loss.curve["epl"].tolist(), rel=1e-9)


@pytest.mark.parametrize(
    "words",
    [("evaluate",), ("compare",), ("risk", "scan"), ("report",)],
    ids=" ".join,
)
def test_counts_that_a_release_was_not_made_from_are_refused_with_what_differs(town, tmp_path, words):
    people = pd.read_parquet(town / "town.parquet")
    other = tmp_path / "earlier.parquet"
    people.iloc[: len(people) * 95 // 100].to_parquet(other)  # few enough that totals alone look plausible
    book = ["--codebook", str(town / "town.codebook.toml")]
    at = {
        "risk scan": [str(other), "--release", str(town / "r1")],
        "report": [str(town / "r1"), "--truth", str(other), "--audience", "internal", "-o", str(tmp_path / "r.html")],
    }
    done = run(*words, *at.get(" ".join(words), [str(other), str(town / "r1")]), *book)
    assert done.returncode == 2, done.stderr
    assert "these are not the counts that" in done.stderr
    assert "exactly. Give the data of this release." in done.stderr
    assert not done.stdout


def test_evaluate_prints_tables_a_demographer_can_read(town):
    done = ask(town, "evaluate", str(town / "r1"), "--query", "total")
    assert done.returncode == 0, done.stderr
    for words in (
        "Absolute error, in persons",
        "Error by true size",
        "Bias of totals by homogeneity",
        "Withheld: the interval of a bias of fewer than 10 counts",
        "Withheld: the empirical privacy loss of too few counts to tell it from chance: us (total);",
    ):
        assert words in done.stdout
    assert done.stdout.splitlines()[-1].startswith("r1: at level enumdist, half of the totals (median ")
    assert "nan" not in done.stdout.lower().replace("tenan", "")


def test_pooled_releases_have_sampling_errors_and_separate_ones_a_table_each(town):
    both = [str(town / "r1"), str(town / "r2")]
    apart = json.loads(ask(town, "evaluate", *both, "--query", "total", "--json").stdout)["releases"]
    assert [one["release"] for one in apart] == ["r1", "r2"]
    (pooled,) = json.loads(ask(town, "evaluate", *both, "--query", "total", "--pool", "--json").stdout)["releases"]
    row = next(r for r in pooled["error"] if (r["level"], r["statistic"]) == ("enumdist", "mean_abs"))
    each = [
        next(r["value"] for r in one["error"] if (r["level"], r["statistic"]) == ("enumdist", "mean_abs"))
        for one in apart
    ]
    assert row["replicates"] == 2
    assert row["sampling_error"] == pytest.approx(abs(each[0] - each[1]) / 2)


def test_releases_of_different_strategies_are_not_pooled(town, tmp_path):
    words = ["--epsilon", "4", "--seed", "1", "--threads", "1", "-o", str(tmp_path / "other")]
    assert run("protect", str(town / "town.parquet"), *book(town)[:2], *book(town)[4:], *words).returncode == 0
    for command in ("evaluate", "compare"):
        done = ask(town, command, str(town / "r1"), str(tmp_path / "other"), "--pool")
        assert done.returncode == 2
        assert "r1, other have different strategies, so they are not replicates. Drop --pool." in done.stderr


def test_implausible_units_of_pooled_releases_are_their_mean(town):
    both = [str(town / "r1"), str(town / "r2")]
    told = [
        json.loads(ask(town, "evaluate", *names, "--query", "total", "--json").stdout)["releases"][0]["implausible"]
        for names in ([both[0]], [both[1]], [*both, "--pool"])
    ]
    for one, two, pooled in zip(*told, strict=True):
        assert pooled["released"] == (one["released"] + two["released"]) / 2


def test_over_all_units_homogeneity_and_size_count_the_same_empty_ones(town):
    words = ["--query", "total", "--level", "enumdist", "--homogeneity", "total", "--over", "all", "--json"]
    (told,) = json.loads(ask(town, "evaluate", str(town / "r1"), *words).stdout)["releases"]
    truth = read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "town.units.parquet")
    assert (
        sum(row["n"] for row in told["bias"])
        == sum(row["n"] for row in told["by_size"])
        == truth.spine.size("enumdist")
    )


def test_no_digit_is_cut_off_on_a_narrow_terminal(town, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    narrow = ask(town, "evaluate", str(town / "r1"), "--query", "total").stdout
    assert "…" not in narrow
    monkeypatch.setenv("COLUMNS", "200")
    assert ask(town, "evaluate", str(town / "r1"), "--query", "total").stdout.split() == narrow.split()


def test_a_truth_of_other_people_or_of_nobody_is_noticed(town, tmp_path):
    people = pd.read_parquet(town / "town.parquet")
    few, nobody = tmp_path / "few.parquet", tmp_path / "nobody.parquet"
    people.head(len(people) // 20).to_parquet(few)
    people.head(0).to_parquet(nobody)
    words = [str(town / "r1"), "--codebook", str(town / "town.codebook.toml"), "--query", "total"]
    units = ["--units", str(town / "town.units.parquet")]
    elsewhere = run("evaluate", str(few), str(town / "town.parquet"), *words[1:], *units)  # a table declares nothing
    assert (elsewhere.returncode, "Are they of the same people?" in elsewhere.stderr) == (0, True)
    done = run("evaluate", str(nobody), *words)
    assert done.returncode == 2
    assert "nobody is counted in it" in done.stderr or "no rows" in done.stderr
    empty = tmp_path / "areas.csv"
    empty.write_text("enumdist,area\n")
    done = ask(town, "evaluate", str(town / "r1"), "--areas", str(empty))
    assert (done.returncode, "no areas are in it" in done.stderr) == (2, True)


def test_areas_off_the_spine_are_evaluated_beside_the_levels(town, tmp_path):
    truth = read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "town.units.parquet")
    codes = truth.spine.labels("enumdist")
    pd.DataFrame({"enumdist": codes[:3], "area": ["Troy", "Troy", "Ithaca"]}).to_csv(
        tmp_path / "areas.csv", index=False
    )
    done = ask(town, "evaluate", str(town / "r1"), "--query", "total", "--areas", str(tmp_path / "areas.csv"), "--json")
    rows = json.loads(done.stdout)["releases"][0]["error"]
    noisy = read_release(town / "r1").histogram.answer("total", level="enumdist").dense()[:, 0]
    true = truth.answer("total", level="enumdist").dense()[:, 0]
    apart = [abs(noisy[:2].sum() - true[:2].sum()), abs(noisy[2] - true[2])]
    assert next(r["value"] for r in rows if (r["level"], r["statistic"]) == ("area", "max_abs")) == max(apart)


def test_two_areas_have_neither_a_95th_percentile_nor_an_interval_nor_one_in_twenty(town, tmp_path):
    truth = read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "town.units.parquet")
    codes = truth.spine.labels("enumdist")
    areas = tmp_path / "areas.csv"
    pd.DataFrame({"enumdist": codes[:4], "area": ["Troy", "Troy", "Ithaca", "Ithaca"]}).to_csv(areas, index=False)
    done = ask(town, "evaluate", str(town / "r1"), "--query", "total", "--areas", str(areas))
    lines = done.stdout.splitlines()
    assert "Withheld: the 95th percentile of fewer than 20 counts, none of which is one in twenty." in lines
    assert " to " not in "".join(lines[lines.index("Bias of totals by homogeneity, level area") :][:4])
    (row,) = (line.split() for line in lines if line.startswith("area"))
    heading = next(line for line in lines if "95th pct." in line)
    assert row[heading.replace("median true", "true").replace("95th pct.", "p95").split().index("p95")] == "-"
    assert "one in twenty" not in lines[-1]
    assert lines[-1].startswith("r1: at level area, half of the 2 totals (median ")
    assert "; the largest error is " in lines[-1]


def test_tables_and_plots_go_to_a_new_folder_and_an_existing_one_is_refused(town, tmp_path):
    done = ask(town, "evaluate", str(town / "r1"), "--query", "race", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"error.csv", "error.parquet", "bias.csv", "epl.csv", "error.svg", "error.png"} <= names
    assert (tmp_path / "out" / "error.svg").read_text().startswith("<svg")
    assert set(pd.read_csv(tmp_path / "out" / "error.csv").release) == {"r1"}
    assert "INTERNAL.txt" in names
    text = (tmp_path / "out" / "INTERNAL.txt").read_text()
    assert text.startswith("Internal: made from the true counts, for those who may see them. Not for publication.\n")
    for file in (tmp_path / "out").glob("*.csv"):  # a file may travel without its folder
        assert set(pd.read_csv(file).internal) == {"from true counts, not for publication"}, file
    for file in (tmp_path / "out").glob("*.parquet"):
        assert set(pd.read_parquet(file).internal) == {"from true counts, not for publication"}, file
    again = ask(town, "evaluate", str(town / "r1"), "-o", str(tmp_path / "out"))
    assert again.returncode == 2
    assert "exists. Name a new folder" in again.stderr


def test_without_the_plotting_library_tables_are_written_and_one_line_says_what_to_install(town, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    done = ask(town, "evaluate", str(town / "r1"), "--query", "total", "-o", str(tmp_path / "out"))
    assert done.returncode == 0
    assert "plots need altair. Install it: pip install altair vl-convert-python" in done.stderr
    assert (tmp_path / "out" / "error.csv").exists()
    assert not list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["missing"], "missing: no such file or folder"),
        (["r1", "r1"], "given twice"),
        (["r1", "--level", "block"], "unknown level 'block'"),
        (["r1", "--query", "sex"], "unknown factor 'sex'"),
        (["r1", "--over", "most"], "--over must be nonempty or all. Got most"),
        (["r1", "-o", "nowhere/at/all"], "nowhere/at/all: there is no folder nowhere/at"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line_and_exit_2(town, words, line):
    given = [str(town / word) if word in ("r1", "missing") else word for word in words]
    done = ask(town, "evaluate", *given)
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_compare_names_the_sample_with_its_level_and_query(town, tmp_path):
    words = ["--level", "enumdist", "--query", "votingage * hispanic * race"]
    done = ask(town, "compare", str(town / "r1"), *words, "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "counts of 'votingage * hispanic * race' at level 'enumdist': like a sample of " in done.stdout
    table = pd.read_csv(tmp_path / "out" / "compare.csv")
    assert table.method.value_counts().to_dict() == {"sample": 19, "release": 1}
    assert set(table.internal) == {"from true counts, not for publication"}
    assert "Not for publication" in (tmp_path / "out" / "INTERNAL.txt").read_text()
    samples = table[table.method == "sample"].sort_values("fraction")
    assert samples.median_abs.iloc[0] > samples.median_abs.iloc[-1]
    assert list((tmp_path / "out").glob("*.png"))
    told = json.loads(ask(town, "compare", str(town / "r1"), *words, "--json").stdout)
    assert "Not for publication" in told[0]["note"]
    assert told[0]["fraction"] in [k / 20 for k in range(1, 20)]
    wrong = ask(town, "compare", str(town / "r1"), "--level", "block")
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)
    assert "unknown level 'block'" in wrong.stderr


def test_the_conclusion_of_a_sweep_compares_the_same_counts():
    rows = [("us", "total", 1, 0.0, np.nan), ("block", "age", 1, 9.0, 0.2), ("us", "total", 2, 0.0, np.nan),
            ("block", "age", 2, 5.0, 0.4)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["level", "query", "budget", "rmse", "epl"]).assign(allocation="a", unit="rho")
    words = "smallest RMSE of age at block: 5 (a, rho 2); smallest privacy loss: 0.2 (a, rho 1)"
    assert conclusion(table) == words


def test_the_table_of_a_sweep_fits_a_hundred_columns_and_says_what_its_columns_are(capsys):
    row = {"allocation": "equal shares", "unit": "epsilon", "budget": 0.25, "level": "enumdist", "query": "votingage"}
    figures = {"median_abs": 10.25, "rmse": 1234.5, "bias": -1.234, "small_bias": -12.34, "epl": 0.1234}
    _show(pd.DataFrame([{**row, **figures, "fraction": 0.15, "risk": 1.234, "replicates": 4}]))
    printed = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in printed.splitlines()) <= 100
    assert " 15% " in printed
    assert "R is an intruder's average posterior divided by a prior of 1/2" in printed


def test_a_sweep_writes_one_table_and_goes_on_when_asked_for_more(town, tmp_path):
    words = ["--query", "total", "--level", "enumdist", "--seed", "3", "--threads", "1", "-o", str(tmp_path / "s")]
    units = ["--units", str(town / "town.units.parquet")]
    done = ask(town, "sweep", *units, *words, "--epsilon", "1,4", "--replicates", "1")
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(tmp_path / "s" / "sweep.parquet")
    assert sorted(set(table.budget)) == [1, 4]
    assert set(table.internal) == {"from true counts, not for publication"}
    assert "Not for publication" in (tmp_path / "s" / "INTERNAL.txt").read_text()
    assert set(table.allocation) == {"equal shares"}
    assert (tmp_path / "s" / "median_abs.svg").exists()
    assert (tmp_path / "s" / "tradeoff.svg").exists()
    assert "smallest RMSE of total at enumdist: " in done.stdout
    more = ask(town, "sweep", *units, *words, "--epsilon", "1,4", "--replicates", "2")
    assert "2 of 4 trials were done before" in more.stderr
    longer = pd.read_parquet(tmp_path / "s" / "sweep.parquet")
    pooled = pd.read_csv(tmp_path / "s" / "study.csv")
    assert list(pooled.replicates) == [2, 2]
    assert pooled.risk.is_monotonic_increasing  # by budget
    assert pooled.fraction.between(0.05, 0.95).all()
    assert (pooled.rmse_error > 0).all()
    assert set(pooled.internal) == {"from true counts, not for publication"}
    first = longer[longer.replicate == 0].reset_index(drop=True)
    assert np.array_equal(first.value, table.value, equal_nan=True)
    two = ask(town, "sweep", *units, *words, "--epsilon", "2", "--replicates", "1", "--no-samples")
    assert pd.read_csv(tmp_path / "s" / "study.csv").fraction.isna().all()
    assert two.returncode == 0
    assert sorted(set(pd.read_csv(tmp_path / "s" / "sweep.csv").budget)) == [1, 2, 4]  # what was there stays
    other = ask(town, "sweep", *units, *words[:4], "--seed", "4", "-o", str(tmp_path / "s"), "--epsilon", "1")
    assert other.returncode == 2
    assert "made for another job (seed was 3, is now 4" in other.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "sweep needs budgets"),
        (["--epsilon", "1", "--rho", "1"], "sweep needs budgets"),
        (["--epsilon", "1,,2"], "a budget is missing between two commas"),
        (["--epsilon", "1,1"], "a budget is given twice"),
        (["--epsilon", "1", "--replicates", "0"], "--replicates must be from 1 to 10,000"),
        (["--epsilon", "1", "--replicates", "9" * 20], "--replicates must be from 1 to 10,000"),
        (["--epsilon", "1", "--query", "height"], "query 'height': unknown factor 'height'"),
        (["--epsilon", "1", "--level", "village"], "unknown level 'village'"),
        (["--epsilon", "1", "--threads", "0"], "--threads must be 1 or more"),
    ],
)
def test_a_sweep_that_cannot_be_run_writes_nothing(town, tmp_path, words, line):
    done = ask(town, "sweep", *words, "-o", str(tmp_path / "s"))
    assert done.returncode == 2
    assert line in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_sweep_shows_the_strategy_that_was_asked_for_though_another_of_its_name_is_there(town, tmp_path):
    words = ["--query", "total", "--level", "county", "--threads", "1", "--epsilon", "1", "--replicates", "1"]
    units = ["--units", str(town / "town.units.parquet"), "-o", str(tmp_path / "s")]
    assert ask(town, "sweep", *units, *words).returncode == 0
    kept = json.loads(ask(town, "sweep", *units, *words, "--invariant", "total@county", "--json").stdout)
    assert next(row["value"] for row in kept if row["statistic"] == "max_abs") == 0
    assert pd.read_csv(tmp_path / "s" / "sweep.csv").strategy.nunique() == 2


def test_a_sweep_is_not_gone_on_with_for_other_people(town, tmp_path):
    people = pd.read_parquet(town / "town.parquet")
    data = tmp_path / "data.parquet"
    words = [
        "--codebook",
        str(town / "town.codebook.toml"),
        "--units",
        str(town / "town.units.parquet"),
        "--epsilon",
        "1",
    ]
    words += ["--query", "total", "--level", "us", "--replicates", "1", "--threads", "1", "-o", str(tmp_path / "s")]
    people.to_parquet(data)
    assert run("sweep", str(data), *words).returncode == 0
    people.iloc[::-1].to_parquet(data)  # the same people in another order
    assert "1 of 1 trials were done before" in run("sweep", str(data), *words).stderr
    people.head(len(people) - 1).to_parquet(data)
    done = run("sweep", str(data), *words)
    assert done.returncode == 2
    assert "made for another job (people was" in done.stderr


def test_a_sweep_never_writes_into_a_folder_that_is_not_its_own(town):
    done = ask(town, "sweep", "--epsilon", "1", "-o", str(town / "r1"))
    assert done.returncode == 2
    assert "exists. Name a new folder" in done.stderr
    assert not (town / "r1" / "trials").exists()


def test_plots_need_nothing_but_the_frames(tmp_path):
    curve = pd.DataFrame({"x": [0.0, 1.0], "epl": [0.1, 0.2], "low": [0.0, 0.1], "high": [0.2, 0.3]})
    curve = curve.assign(panel="county: total", largest=0.2, theory=None)
    plots.write_plot(plots.epl_plot(curve), tmp_path / "epl")
    assert (tmp_path / "epl.png").read_bytes()[:4] == b"\x89PNG"
    assert "county: total" in (tmp_path / "epl.svg").read_text()


# -- what people do with counts


def test_segregation_indices_have_their_error_and_margins(town, tmp_path):
    words = ["--query", "total", "--segregation", "race:black:white", "--segregation", "race:black", "--pool"]
    both = [str(town / "r1"), str(town / "r2")]
    done = ask(town, "evaluate", *both, *words, "--json")
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["releases"]
    truth = read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "r1" / "spine.parquet")
    releases = [read_release(town / name) for name in ("r1", "r2")]
    table = segregation(truth, releases, query="race", group="black", other="white", within="county")
    mine = [row for row in told["segregation"] if row["level"] == "county" and row["other"] == "white"]
    assert [row["released"] for row in mine] == pytest.approx(table.released.tolist())
    assert [row["moe90"] for row in mine] == pytest.approx(table.moe90.tolist())
    assert {row["level"] for row in told["segregation_error"]} == {"us", "state", "county"}
    assert {row["other"] for row in told["segregation_error"]} == {"white", "everybody else"}
    printed = ask(town, "evaluate", *both, *words, "-o", str(tmp_path / "o"))
    assert "Segregation indices, race: black and white" in printed.stdout
    assert "The largest bias is" in printed.stdout
    assert (pd.read_csv(tmp_path / "o" / "segregation.csv").internal != "").all()


def test_funds_by_a_formula_are_those_of_the_library_by_size_and_homogeneity(town, tmp_path):
    formula = "max(0, [votingage:under 18] - total / 4)"
    truth = read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "r1" / "spine.parquet")
    formula = formula.replace("under 18", truth.schema.attributes["votingage"][0])
    words = ["--query", "total", "--level", "enumdist", "--funds", formula, "--amount", "500", "--homogeneity", "race"]
    (told,) = json.loads(ask(town, "evaluate", str(town / "r1"), *words, "--json").stdout)["releases"]
    table = funds(truth, read_release(town / "r1"), formula, level="enumdist", amount=500)
    assert [row["gain"] for row in told["funds"]] == pytest.approx(table.gain.tolist())
    groups = funds_by_group(table, truth, of="race")
    assert [row["gain"] for row in told["funds_by_group"]] == pytest.approx(groups.gain.tolist())
    printed = ask(town, "evaluate", str(town / "r1"), *words, "-o", str(tmp_path / "o"))
    assert "goes to other units than it should" in printed.stdout
    assert (tmp_path / "o" / "funds_by_group.parquet").exists()


def test_the_estimates_of_a_survey_are_those_of_the_library(town):
    words = ["--query", "race", "--level", "state", "--survey", "1/20", "--control", "total@enumdist"]
    (told,) = json.loads(ask(town, "evaluate", str(town / "r1"), *words, "--json").stdout)["releases"]
    truth = read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "r1" / "spine.parquet")
    release = read_release(town / "r1")
    settings = {"controls": [("total", "enumdist")], "estimates": [("race", "state")]}
    table = survey(truth, release, fraction="1/20", **settings)
    assert [row["rmse"] for row in told["survey"]] == table.rmse.tolist()
    printed = ask(town, "evaluate", str(town / "r1"), *words)
    assert "Error of estimates from a survey, in persons" in printed.stdout
    assert "Raking to the release makes" in printed.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--survey 0.1", "--survey needs the counts that weights are raked to"),
        ("--control race@county", "--control is for the weights of a survey"),
        ("--survey 0.1 --control race", "write it as QUERY@LEVEL"),
        ("--survey 0.1 --control rice@county", "rice"),
        ("--survey 2 --control race@county", "fraction"),
        ("--funds open('x')", "contains \"open('x')\". Use only numbers, names of counts"),
        ("--funds kids", "there is no count called 'kids'"),
        ("--funds total --level us", "there is only one. Name a finer --level."),
        ("--funds total --amount 0", "the amount to divide must be a number above 0"),
        ("--amount 5", "--amount is what --funds divides"),
        ("--segregation race", "--segregation 'race': write it as QUERY:GROUP or QUERY:GROUP:OTHER"),
        ("--segregation race:green", "'green' is not a group of 'race'. Its groups are white"),
        ("--segregation rice:black", "rice"),
        ("--segregation race:black --level enumdist", "only enumdist is asked for. Add a --level above it."),
    ],
)
def test_a_use_that_cannot_be_computed_is_refused_with_one_line(town, words, line):
    done = ask(town, "evaluate", str(town / "r1"), "--query", "total", *words.split())
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stdout == ""


def test_the_authors_homogeneity_index_is_an_option(town):
    words = ["--query", "total", "--level", "enumdist", "--homogeneity", "votingage * hispanic * race", "--json"]
    done = ask(town, "evaluate", str(town / "r1"), *words, "--homogeneity-index", "product")
    groups = {row["group"] for row in json.loads(done.stdout)["releases"][0]["bias"]}
    possible = {24 - a * b * c for a in range(1, 3) for b in range(1, 3) for c in range(1, 7)}
    assert groups <= possible
    plain = json.loads(ask(town, "evaluate", str(town / "r1"), *words).stdout)["releases"][0]["bias"]
    assert not {row["group"] for row in plain} <= possible
