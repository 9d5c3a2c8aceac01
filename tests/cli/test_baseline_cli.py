"""baseline on the command line: each method gives what the library gives, and says what it guarantees."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import run
from tallyveil import mechanisms
from tallyveil.evaluate.evaluation import evaluation
from tallyveil.files import read_counts, write_counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.populations import census_1940

STRATA = "votingage * hispanic * race"


@pytest.fixture(scope="module")
def town() -> Histogram:
    return census_1940(persons=20_000, seed=7).people


@pytest.fixture(scope="module")
def place(town, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("baseline")
    write_counts(town, folder / "town.parquet")
    return folder


def baseline(place: Path, output: Path, *words: str):
    book = ["--codebook", str(place / "town.codebook.toml"), "--units", str(place / "town.units.parquet")]
    return run("baseline", str(place / "town.parquet"), *book, "--method", *words, "-o", str(output))


def estimates(folder: Path, level: str) -> pd.DataFrame:
    return pd.read_parquet(folder / "estimates" / f"{level}.parquet")


def absolute(people, **options):
    budget = {"epsilon_total": "1/2", "epsilon_strata": "1/2"}
    return mechanisms.total_and_strata_absolute(people, weights=(0.75, 0.25), **budget, **options)


@pytest.mark.parametrize(
    ("words", "expected", "neighbours"),
    [
        ("geometric --epsilon 1", lambda p: mechanisms.geometric(p, epsilon=1, seed=3), "add-or-remove"),
        (
            "geometric --epsilon 1 --query race --neighbours replace-one",
            lambda p: mechanisms.geometric(p, epsilon=1, query="race", neighbours="replace-one", seed=3),
            "replace-one",
        ),
        ("raked --epsilon 1/2", lambda p: mechanisms.raked(p, epsilon="1/2", seed=3), "add-or-remove"),
        ("averaged --epsilon 1 --parts 2", lambda p: mechanisms.averaged(p, epsilon=1, parts=2, seed=3),
         "add-or-remove"),
        (
            "reconciled --epsilon 2 --query race",
            lambda p: mechanisms.total_and_strata(p, epsilon_total="1/2", epsilon_strata="3/2", query="race", seed=3),
            "replace-one",
        ),
        (
            "reconciled --epsilon 1 --total-share 1/2 --total-weight 0.75 --differences absolute --query race",
            lambda p: absolute(p, query="race", seed=3),
            "replace-one",
        ),
    ],
)  # fmt: skip
def test_noise_is_that_of_the_library_at_every_level(town, place, tmp_path, words, expected, neighbours):
    done = baseline(place, tmp_path / "o", *words.split(), "--seed", "3", "--json")
    assert done.returncode == 0, done.stderr
    told, wanted = json.loads(done.stdout), expected(town)
    assert told == {"folder": str(tmp_path / "o")} | json.loads((tmp_path / "o" / "baseline.json").read_text())
    assert (told["differentially_private"], told["settings"]["neighbours"]) == (True, neighbours)
    assert f"epsilon {words.split()[2]} for {neighbours} neighbours" in told["guarantee"]
    assert told["stamps"][0] == "seeded: not for publication"
    assert not (tmp_path / "o" / "INTERNAL.txt").exists()
    for level in town.spine.levels:
        table = estimates(tmp_path / "o", level)
        assert list(table.columns) == ["level", "query", "unit", "cell", "estimate"]
        assert table.estimate.tolist() == wanted.answer(wanted.query, level=level)[0].reshape(-1).tolist()
        assert table.unit.iloc[-1] == town.spine.labels(level)[-1]


def test_without_a_seed_the_noise_is_new_each_time_and_nothing_is_stamped_seeded(place, tmp_path):
    for name in "ab":
        done = baseline(place, tmp_path / name, "geometric", "--epsilon", "0.1", "--query", STRATA)
        assert done.returncode == 0
        assert "seed" not in done.stderr
    first, second = (estimates(tmp_path / name, "enumdist").estimate for name in "ab")
    assert (first != second).mean() > 0.5


def test_reconciled_at_a_level_has_no_finer_table(place, tmp_path):
    assert baseline(place, tmp_path / "o", "reconciled", "--epsilon", "1", "--level", "county").returncode == 0
    names = sorted(path.name for path in (tmp_path / "o" / "estimates").iterdir())
    assert names == ["county.parquet", "state.parquet", "us.parquet"]


def test_true_totals_that_are_kept_are_not_private_and_the_folder_is_internal(town, place, tmp_path):
    done = baseline(place, tmp_path / "o", "reconciled", "--epsilon", "1", "--keep", "county", "--query", "race")
    assert "Not differentially private: true totals are kept" in done.stderr
    assert (tmp_path / "o" / "INTERNAL.txt").exists()
    totals = estimates(tmp_path / "o", "county").groupby("unit", observed=True).estimate.sum()
    assert totals.tolist() == pytest.approx(town.answer("total", level="county").dense()[:, 0].tolist())


def test_a_sample_has_its_people_and_estimates_scaled_up(town, place, tmp_path):
    words = ["sample", "--fraction", "1/4", "--query", "race", "--seed", "5"]
    assert baseline(place, tmp_path / "o", *words).returncode == 0
    wanted = mechanisms.sample(town, "1/4", seed=5)
    read = read_counts(tmp_path / "o" / "counts.parquet", tmp_path / "o" / "counts.codebook.toml")
    assert read.total() == wanted.people.total() == 5000
    assert estimates(tmp_path / "o", "us").estimate.sum() == 20_000
    assert (
        estimates(tmp_path / "o", "county").estimate.tolist()
        == wanted.answer("race", level="county").reshape(-1).tolist()
    )
    assert (tmp_path / "o" / "INTERNAL.txt").exists()


def test_swapped_people_are_a_table_that_evaluate_reads(town, place, tmp_path):
    words = ["swap", "--rate", "0.3", "--match", "votingage", "--within", "county", "--seed", "5"]
    assert baseline(place, tmp_path / "o", *words).returncode == 0
    made = tmp_path / "o" / "counts.parquet"
    read = read_counts(made, tmp_path / "o" / "counts.codebook.toml", units=tmp_path / "o" / "counts.units.parquet")
    assert read.leaves == mechanisms.swap(town, rate="0.3", match="votingage", level="county", seed=5).people.leaves
    assert "seeded: not for publication" in read.stamps
    book = ["--codebook", str(place / "town.codebook.toml"), "--units", str(place / "town.units.parquet")]
    done = run("evaluate", str(place / "town.parquet"), str(made), *book, "--level", "enumdist", "--json")
    rows = {(r["query"], r["statistic"]): r["value"] for r in json.loads(done.stdout)["releases"][0]["error"]}
    assert rows["votingage", "max_abs"] == 0 < rows["race", "mean_abs"]


def test_suppressed_cells_are_missing_in_one_level(town, place, tmp_path):
    words = ["suppress", "--below", "5", "--query", "race", "--level", "enumdist"]
    assert baseline(place, tmp_path / "o", *words).returncode == 0
    wanted = mechanisms.suppress(town, query="race", level="enumdist", below=5)
    table = estimates(tmp_path / "o", "enumdist").estimate.to_numpy(dtype=float)
    assert (np.isnan(table) == wanted.hidden.reshape(-1)).all()
    true = town.answer("race", level="enumdist").dense().reshape(-1)
    shown = ~np.isnan(table)
    assert (table[shown] == true[shown]).all()
    assert [path.name for path in (tmp_path / "o" / "estimates").iterdir()] == ["enumdist.parquet"]


def evaluated(place: Path, *words: str, command: str = "evaluate"):
    book = ["--codebook", str(place / "town.codebook.toml"), "--units", str(place / "town.units.parquet")]
    return run(command, str(place / "town.parquet"), *words, *book)


@pytest.mark.parametrize(
    ("words", "asked", "source", "levels", "queries"),
    [
        ("geometric --epsilon 1", "", lambda p: mechanisms.geometric(p, epsilon=1, seed=3), 4, ["total"]),
        ("averaged --epsilon 1 --query race", "--query race",
         lambda p: mechanisms.averaged(p, epsilon=1, query="race", seed=3), 4, ["race"]),
        (
            "reconciled --epsilon 2 --query race --level county",
            "",
            lambda p: mechanisms.total_and_strata(
                p, epsilon_total="1/2", epsilon_strata="3/2", query="race", level="county", seed=3
            ),
            3,
            ["total", "race"],
        ),
        ("sample --fraction 2/5", "--query race", lambda p: mechanisms.sample(p, "2/5", seed=3), 4, ["race"]),
        (
            "swap --rate 0.3 --match race --within county",
            "--query votingage",
            lambda p: mechanisms.swap(p, rate="0.3", match="race", level="county", seed=3).people,
            4,
            ["votingage"],
        ),
    ],
)  # fmt: skip
def test_a_baseline_is_evaluated_as_what_the_library_gives(
    town, place, tmp_path, words, asked, source, levels, queries
):
    assert baseline(place, tmp_path / "o", *words.split(), "--seed", "3").returncode == 0
    done = evaluated(place, str(tmp_path / "o"), *asked.split(), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["releases"][0]
    expected = evaluation(town, source(town), levels=town.spine.levels[:levels], queries=queries)
    for name in ("error", "by_size", "bias", "implausible"):
        wanted = json.loads(expected.frames()[name].to_json(orient="records", double_precision=15))
        assert [row.keys() for row in found[name]] == [row.keys() for row in wanted]
        for row, other in zip(found[name], wanted, strict=True):
            assert row == {
                k: v if isinstance(v, str) or v is None else pytest.approx(v, rel=1e-9) for k, v in other.items()
            }
    assert [row["epl"] for row in found["epl"]] == expected.epl.epl.astype(object).where(
        expected.epl.epl.notna(), None
    ).tolist()


def test_hidden_cells_are_compared_as_0_in_the_table_that_was_shown(town, place, tmp_path):
    assert baseline(place, tmp_path / "o", "suppress", "--below", "5", "--query", "race").returncode == 0
    done = evaluated(place, str(tmp_path / "o"), "--json")
    hidden = mechanisms.suppress(town, query="race", level="enumdist", below=5)
    words = f"{hidden.hidden.sum():,} of {hidden.hidden.size:,} cells are hidden, and are compared as 0."
    assert words in done.stderr
    rows = json.loads(done.stdout)["releases"][0]["error"]
    assert {(row["level"], row["query"]) for row in rows} == {("enumdist", "race")}
    true = town.answer("race", level="enumdist").dense()
    largest = next(row["value"] for row in rows if row["statistic"] == "max_abs")
    assert largest == true[hidden.hidden].max()


def test_baselines_are_written_beside_a_release_pooled_and_compared(town, place, tmp_path):
    for name, seed in (("a", "3"), ("b", "4")):
        words = ["averaged", "--epsilon", "1", "--query", "race", "--seed", seed]
        assert baseline(place, tmp_path / name, *words).returncode == 0
    swap = ["swap", "--rate", "0.3", "--match", "race", "--within", "county"]
    assert baseline(place, tmp_path / "c", *swap).returncode == 0
    a, b, c = (str(tmp_path / name) for name in "abc")
    done = evaluated(place, a, c, str(place / "town.parquet"), "--query", "race", "-o", str(tmp_path / "out"))
    assert (done.returncode, "Warning" in done.stderr) == (0, False), done.stderr
    table = pd.read_parquet(tmp_path / "out" / "error.parquet")
    assert table.groupby("release")["level"].nunique().to_dict() == {"a": 4, "c": 4, "town.parquet": 4}
    pooled = json.loads(evaluated(place, a, b, "--pool", "--level", "county", "--json").stdout)["releases"]
    counts = {row["query"]: row["n"] for row in pooled[0]["error"]}
    assert counts["total"] == 2 * town.spine.size("county")
    assert "have different strategies" in evaluated(place, a, c, "--pool").stderr


def test_swapping_and_suppression_are_compared_with_samples_beside_a_release(place, tmp_path):
    swap = ["swap", "--rate", "0.3", "--match", "votingage", "--within", "county", "--seed", "5"]
    hide = ["suppress", "--below", "5", "--query", "race", "--level", "enumdist"]
    for name, words in (("swapped", swap), ("hidden", hide)):
        assert baseline(place, tmp_path / name, *words).returncode == 0
    sources = [str(place / "town.parquet"), str(tmp_path / "swapped"), str(tmp_path / "hidden")]
    done = evaluated(place, *sources, "--query", "race", "--level", "enumdist", "--json", command="compare")
    assert done.returncode == 0, done.stderr
    told = {one["release"]: one["table"][0] for one in json.loads(done.stdout)}
    assert list(told) == ["town.parquet", "swapped", "hidden"]
    assert {row["method"] for row in told.values()} == {"release"}
    assert told["town.parquet"]["median_abs"] == 0 < told["swapped"]["median_abs"]
    assert told["hidden"]["epl"] is not None


def test_a_baseline_of_other_units_or_that_cannot_answer_is_refused(place, tmp_path):
    assert baseline(place, tmp_path / "o", "geometric", "--epsilon", "1").returncode == 0
    finer = evaluated(place, str(tmp_path / "o"), "--query", "race")
    assert (finer.returncode, "query 'race' cannot be answered from estimates of 'total'" in finer.stderr) == (2, True)
    table = pd.read_parquet(place / "town.parquet")
    table[table.enumdist != table.enumdist.iloc[0]].to_parquet(tmp_path / "few.parquet")
    done = run(
        "evaluate", str(tmp_path / "few.parquet"), str(tmp_path / "o"), "--codebook", str(place / "town.codebook.toml")
    )
    assert done.returncode == 2
    assert "is not in the truth. Give the data and the --units that the baseline was made from." in done.stderr
    scan = ["--codebook", str(place / "town.codebook.toml"), "--release", str(tmp_path / "o")]
    assert "the strategy is missing" in run("risk", "scan", str(place / "town.parquet"), *scan).stderr
    (tmp_path / "o" / "baseline.json").write_text("{}")
    assert "not written by tallyveil baseline" in evaluated(place, str(tmp_path / "o")).stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("geometric", "--method geometric needs --epsilon too."),
        ("swap --rate 0.1", "--method swap needs --match and --within too."),
        ("geometric --epsilon 1 --parts 2", "--parts is not an option of --method geometric. Leave it out."),
        ("suppress --below 3 --seed 1", "--seed is not an option of --method suppress"),
        ("reconciled --epsilon 1 --keep county --level state",
         "--level is not an option of --method reconciled with --keep"),
        ("reconciled --epsilon 1 --total-share 1",
         "--total-share and --total-weight must be between 0 and 1. Got 1 and 0.25"),
        ("geometric --epsilon -1", "epsilon must be greater than 0. Got -1 instead."),
        ("geometric --epsilon 1 --query rase", "rase"),
        ("sample --fraction 2", "fraction"),
        ("swap --rate 0.1 --match age --within enumdist", "age"),
        ("suppress --below 0", "must be a whole number from 1. Got 0 instead"),
    ],
)  # fmt: skip
def test_bad_options_give_one_line_and_write_nothing(place, tmp_path, words, line):
    done = baseline(place, tmp_path / "o", *words.split())
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("tallyveil: ") == 1
    assert list(tmp_path.iterdir()) == []


BOOK = """[geography]
levels = ["state", "county"]
root = "us"
[attributes]
age = ["adult"]
[table]
layout = "long"
count = "count"
"""
HEAD = "state,county,age,count\n"
PEOPLE = HEAD + "A,A1,adult,3\nA,A2,adult,40\n"
METHODS = (
    "geometric --epsilon 1 --query age",
    "raked --epsilon 1",
    "reconciled --epsilon 1 --differences absolute",
    "reconciled --epsilon 1 --keep us",
    "sample --fraction 1/1000",
    "swap --rate 1 --match age --within us",
    "suppress --below 5",
)


@pytest.mark.parametrize(
    ("table", "units"),
    [(PEOPLE, None), (PEOPLE, "state,county\nA,A1\nA,A2\nB,B1\n"), (HEAD, "state,county\nA,A1\n")],
    ids=["one state and one label", "an empty state", "nobody"],
)
def test_every_method_runs_where_there_is_hardly_anything(tmp_path, table, units):
    (tmp_path / "t.csv").write_text(table)
    (tmp_path / "t.toml").write_text(BOOK)
    words = [str(tmp_path / "t.csv"), "--codebook", str(tmp_path / "t.toml")]
    if units is not None:
        (tmp_path / "u.csv").write_text(units)
        words += ["--units", str(tmp_path / "u.csv")]
    folders = []
    for number, method in enumerate(METHODS):
        folders.append(str(tmp_path / f"o{number}"))
        done = run("baseline", *words, "--method", *method.split(), "-o", folders[-1])
        assert done.returncode == 0, done.stderr
        for file in (tmp_path / f"o{number}").glob("estimates/*.parquet"):
            numbers = pd.read_parquet(file).estimate
            assert np.isfinite(numbers).all() or method.startswith("suppress")
    done = run("evaluate", words[0], *folders, *words[1:], "--json")
    if table == HEAD:
        assert (done.returncode, "nobody is counted in it" in done.stderr) == (2, True)
    else:
        assert done.returncode == 0, done.stderr
        assert len(json.loads(done.stdout)["releases"]) == len(METHODS)
