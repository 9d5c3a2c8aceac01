"""petti2020 from files: an extract and the releases of a folder give every figure that the arrays give."""

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from command_line import run
from ipums_extract import write_ipums_1940
from tallyveil.errors import InputError
from tallyveil.files import read_ipums_1940, write_mdf_1940
from tallyveil.nouns.histogram import Histogram
from tallyveil.populations import census_1940
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.protect import protect
from tallyveil_papers import items
from tallyveil_papers.figure import AGREES, DIFFERS
from tallyveil_papers.petti import census as petti_census
from tallyveil_papers.petti import runs as petti_runs
from tallyveil_papers.petti.census import Census
from tallyveil_papers.petti.compare import lay, results
from tallyveil_papers.petti.releases import EPSILONS, budget_and_run, find_releases, read_releases
from tallyveil_papers.petti.typical import bias_sizes
from tallyveil_papers.registry import Setting
from tallyveil_papers.runner import job_of
from test_petti import Real, as_published, verdicts

PERSONS, SEED, RUNS = 30_000, 3, 2


@pytest.fixture(scope="module")
def town():
    return census_1940(persons=PERSONS, seed=SEED)


@pytest.fixture(scope="module")
def place(town, tmp_path_factory) -> Path:
    """An extract, and two releases at each budget, in folders by budget and run."""
    folder = tmp_path_factory.mktemp("bureau")
    write_ipums_1940(town.people, town.facilities, town.housing, folder / "EXT1940USCB.dat")
    for epsilon in EPSILONS:
        for number in range(RUNS):
            strategy = Strategy.preset("e2e-2018", epsilon=str(epsilon))
            release = protect(town, strategy, seed=SEED, replicate=number)
            at = folder / "mdf" / f"{epsilon:g}" / f"run{number + 1}"
            at.mkdir(parents=True)
            write_mdf_1940(release.histogram, town.facilities, town.housing, at)
    return folder


def of_files(place: Path) -> Setting:
    return Setting(replicates=RUNS, seed=SEED, ipums=place / "EXT1940USCB.dat", mdf=place / "mdf")


@pytest.mark.slow
def test_every_figure_of_every_item_comes_out_as_from_the_arrays(place, town, monkeypatch):
    monkeypatch.setattr(petti_runs, "FRACTIONS", (0.05, 0.5, 0.95))
    monkeypatch.setattr(petti_census, "NATION_SIZE", PERSONS)
    of_1940 = [item for item in items(["petti2020"]) if item.key != "petti2020.conjecture"]  # which is about 2020
    made = {item.key: item.compute(of_files(place)) for item in of_1940}
    petti_runs.sample_runs.cache_clear()
    monkeypatch.setattr(petti_census, "_census", lambda *_: Census(population=town, stand_in=False))
    direct = Setting(persons=PERSONS, replicates=RUNS, seed=SEED)
    for item in of_1940:
        arrays, files = item.compute(direct), made[item.key]
        shown = ["name", "at", "ours", "published", "verdict"]
        kept = arrays.frame()[lambda frame: ~frame.name.str.startswith("seconds of a run")]
        pd.testing.assert_frame_equal(files.frame()[shown], kept[shown].reset_index(drop=True), check_exact=True)
        for name in set(files.tables):
            pd.testing.assert_frame_equal(files.tables[name], arrays.tables[name], check_exact=True)
        assert set(arrays.tables) - set(files.tables) <= {"seconds"}
        assert not any(figure.stand_in for figure in files.figures)
    petti_runs.sample_runs.cache_clear()
    petti_runs.topdown_runs.cache_clear()


def test_a_release_of_other_people_gives_other_figures(place, town):
    """The figures are those of the files: the releases of two budgets, exchanged, exchange their errors."""
    truth = read_ipums_1940(place / "EXT1940USCB.dat").people
    one, eight = (read_releases(place / "mdf", epsilon, truth) for epsilon in (1.0, 8.0))
    again = protect(town, Strategy.preset("e2e-2018", epsilon="1.0"), seed=SEED, replicate=1)
    assert one[1].leaves == again.histogram.leaves
    assert one[0].leaves != one[1].leaves != eight[1].leaves


def test_the_sampling_error_is_that_of_the_runs_in_the_files_whatever_the_replicates_of_samples(place):
    two, four = (petti_runs.topdown_at(replace(of_files(place), replicates=number), 8.0).figures for number in (2, 4))
    pd.testing.assert_frame_equal(two, four)


def test_invariants_are_checked_on_every_release_of_the_files(place, town, tmp_path):
    shutil.copytree(place / "mdf", tmp_path / "mdf")
    setting = replace(of_files(place), mdf=tmp_path / "mdf")
    (setup,) = items(["petti2020.setup"])
    changed = {f.at: f.ours for f in setup.compute(setting).figures if f.name == "totals that changed"}
    assert changed == {"us": 0, "state": 0}
    more = Histogram.from_entries(
        town.people.spine, town.people.schema, unit=[*town.people.leaves.unit(), 0],
        cell=[*town.people.leaves.cell, 0], count=[*town.people.leaves.count, 1],
    )  # fmt: skip
    write_mdf_1940(more, town.facilities, town.housing, tmp_path / "mdf" / "0.25" / "run2")
    changed = {f.at: (f.ours, f.verdict) for f in setup.compute(setting).figures if f.name == "totals that changed"}
    assert changed == {"us": (1, DIFFERS), "state": (1, DIFFERS)}


class Theirs(Real):
    """The real census, with the releases that the authors had."""

    their_releases = True


def test_with_both_the_extract_and_the_releases_a_figure_agrees_to_its_last_digit_or_differs():
    assert verdicts(as_published(chance=100.0), Theirs()) == {AGREES: 994}
    theirs = results(method="topdown")
    for more, verdict in ((0.49, AGREES), (0.51, DIFFERS)):
        ours = as_published(chance=100.0)
        unit = ours.statistic.map({"epl": 0.001, "bias": 0.1}).fillna(1.0)
        invariant = (ours.level == "state") & (ours["count"] == "tc")
        ours["value"] += more * unit.where(~invariant, 0.0)
        found = {figure.verdict for figure in lay(theirs, ours, Theirs()).figures if "states, totals" not in figure.at}
        assert found == {verdict}
        sizes = bias_sizes(lay(results(statistic="bias", level="county"), ours, Theirs()).table, Theirs())
        assert all(figure.tolerance == pytest.approx(0.05) for figure in sizes)
    samples = as_published(1.01, chance=100.0)
    assert {figure.verdict for figure in lay(results(method="srs"), samples, Theirs()).figures} == {AGREES}  # random


def test_with_their_releases_a_figure_that_is_missing_differs():
    ours = as_published()
    lacking = lay(results(method="topdown"), ours[ours.statistic != "bias"], Theirs())
    assert sum(figure.verdict == DIFFERS for figure in lacking.figures) == 168
    few = lay(results(method="topdown", statistic="bias"), ours.assign(n=3), Theirs())
    assert not len(few.left_out)


def test_only_four_runs_at_each_budget_are_those_of_the_authors(place):
    assert not petti_census.census_of(of_files(place)).their_releases
    assert petti_census.census_of(of_files(place)).words() == "census of 1940"


# --- names


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("0.25/run1/MDF_PER.dat", (0.25, 1)),
        ("0.50/2/MDF_PER.dat.gz", (0.5, 2)),
        ("epsilon_0.75/run_3/MDF_PER.dat", (0.75, 3)),
        ("EXT1940USCB-EPSILON025-RUN1/MDF_PER.dat", (0.25, 1)),
        ("EXT1940USCB-EPSILON80-RUN4/MDF_PER.dat", (8.0, 4)),
        ("EXT1940USCB-EPSILON1.0-RUN2_MDF_PER.dat", (1.0, 2)),
        ("run4/4/MDF_PER.dat", (4.0, 4)),
        ("4/4/MDF_PER.dat", (4.0, 4)),
        ("6/MDF_PER.dat", (6.0, 1)),
        ("3/run1/MDF_PER.dat", None),
        ("MDF_PER.dat", None),
        ("run1/MDF_PER.dat", None),
    ],
)
def test_the_budget_and_the_run_are_told_by_the_path(path, place):
    assert budget_and_run(Path(path)) == place


def laid_out(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def test_folders_that_lack_budgets_or_name_one_twice_are_refused(tmp_path):
    all_but = [f"{epsilon:g}/run1/MDF_PER.dat" for epsilon in EPSILONS[:-2]]
    with pytest.raises(InputError, match=r"no file MDF_PER.\* at epsilon 6, 8. Name the folders by budget and run"):
        find_releases(laid_out(tmp_path / "a", *all_but))
    with pytest.raises(InputError, match=r"are both run 1 at epsilon 0.5"):
        find_releases(laid_out(tmp_path / "b", "0.5/run1/MDF_PER.dat", "eps0.5/run1/MDF_PER.dat"))
    with pytest.raises(InputError, match=r"MDF_PER.dat: which of the budgets 0.25, 0.5, .* cannot be told"):
        find_releases(laid_out(tmp_path / "c", "3/run1/MDF_PER.dat"))
    with pytest.raises(InputError, match=r"nowhere: no such folder. Give the folder with the Bureau's releases"):
        find_releases(tmp_path / "nowhere")


def test_a_folder_of_results_belongs_to_one_set_of_releases(place, tmp_path):
    before = job_of(of_files(place))
    assert before["mdf"] == job_of(of_files(place))["mdf"]
    other = Setting(ipums=place / "EXT1940USCB.dat", mdf=laid_out(tmp_path, "1/run1/MDF_PER.dat"))
    assert job_of(other)["mdf"] != before["mdf"]


def test_the_command_reads_both_and_says_what_it_read(place, tmp_path):
    files = ["--ipums", str(place / "EXT1940USCB.dat"), "--mdf", str(place / "mdf")]
    done = run("reproduce", "petti2020.setup", *files, "-o", str(tmp_path / "real"))
    assert done.returncode == 0, done.stderr
    assert "16 releases at 8 budgets" in done.stderr
    assert "not 4 runs at each budget" in done.stderr
    assert "releases are the Bureau's microdata files" in (tmp_path / "real" / "index.html").read_text()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--mdf", "x"], "--mdf needs --ipums"),
        (["--ipums", "EXT1940USCB.dat", "--mdf", "gone"], "gone: no such folder"),
        (["--ipums", "EXT1940USCB.dat", "--mdf", "mdf/0.25"], "0.25/run1/MDF_PER.dat: which of the budgets"),
    ],
)
def test_releases_that_cannot_be_used_are_refused_before_anything_is_written(place, tmp_path, words, text):
    paths = [word if word.startswith("--") else str(place / word) for word in words]
    done = run("reproduce", "petti2020.sizes", *paths, "-o", str(tmp_path / "x"))
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert text in done.stderr
