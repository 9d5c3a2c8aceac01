"""protect, verify and account --release on the command line, on a small census with facilities."""

import json
import os
import re
import signal
import stat
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from command_line import Done, figures, run, write_town
from tallyveil import Strategy
from tallyveil.cli.protect import _exceptions
from tallyveil.engine.topdown import topdown
from tallyveil.files import read_counts, read_release
from tallyveil.privacy.strategy_toml import strategy_to_toml
from tallyveil.release.certificate import Observed
from tallyveil.runs.progress import LevelProgress, Steps

SEEDED = "seeded: not for publication"


@pytest.fixture(scope="module")
def town(tmp_path_factory) -> Path:
    """A folder with a synthetic town: counts, codebook, units and facilities."""
    place = tmp_path_factory.mktemp("town")
    assert run("synth", "1940", "--persons", "3000", "--seed", "7", "-o", str(place / "town.parquet")).returncode == 0
    return place


def protect(town: Path, *words: str, facilities: bool = False, units: bool = True) -> Done:
    given = ["--facilities", str(town / "town.facilities.parquet")] if facilities else []
    given += ["--units", str(town / "town.units.parquet")] if units else []
    book = str(town / "town.codebook.toml")
    return run("protect", str(town / "town.parquet"), "--codebook", book, "--threads", "1", *given, *words)


@pytest.fixture(scope="module")
def made(town) -> Path:
    """The town protected with the 2018 rules, all measurements published."""
    words = ["--strategy", "e2e-2018", "--epsilon", "1", "--seed", "1", "--measurements", "all"]
    done = protect(town, *words, "-o", str(town / "e2e"), facilities=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{town / 'e2e'}\n"
    assert "measurements: " in done.stderr
    assert done.stderr.count(SEEDED) == 1
    assert "The counts are consistent at all levels" in done.stderr
    assert "Protected, but stamped (seeded): epsilon 1, for neighbours" in done.stderr.splitlines()[-1]
    for level in ("us", "state", "county", "enumdist"):
        assert sum(line.startswith(f"{level}: ") for line in done.stderr.splitlines()) == 1
    return town / "e2e"


def truth(town: Path):
    return read_counts(town / "town.parquet", town / "town.codebook.toml", units=town / "town.units.parquet")


def test_a_protected_town_keeps_its_total_holds_in_every_check_and_differs_from_the_truth(town, made):
    release = read_release(made)
    assert release.histogram.total() == truth(town).total()
    assert release.histogram != truth(town)
    found = figures("verify", str(made))
    assert found["holds"]
    assert {one["name"] for one in found["checks"] if not one["holds"]} == {"signature"}
    assert {one["name"]: one["words"] for one in found["checks"]}["stamps"] == SEEDED


def test_post_processing_from_the_saved_measurements_gives_the_release_and_observed_again(made):
    release = read_release(made)
    again, solved = topdown(release.measurements, facilities=release.facilities)
    assert again == release.histogram
    assert Observed(levels=tuple(solved)) == release.certificate.observed


def test_verify_prints_a_line_per_check_and_fails_with_exit_code_1(made, tmp_path):
    import shutil

    done = run("verify", str(made))
    assert done.returncode == 0
    assert all(line.startswith(("holds ", "unchecked  signature")) for line in done.stdout.splitlines()[:-1])
    broken = Path(shutil.copytree(made, tmp_path / "broken"))
    table = pd.read_parquet(broken / "levels" / "county.parquet")
    table.loc[0, "total"] += 1
    table.to_parquet(broken / "levels" / "county.parquet")
    done = run("verify", str(broken))
    assert done.returncode == 1
    assert sum(line.startswith("fails ") for line in done.stdout.splitlines()) == 1  # manifest
    assert run("verify", str(broken), "--json").returncode == 1
    assert run("verify", str(tmp_path / "nowhere")).returncode == 2


def test_the_same_seed_gives_the_same_counts_whatever_is_published_and_with_any_threads(town, made, tmp_path):
    words = ["--strategy", "e2e-2018", "--epsilon", "1", "--seed", "1", "--threads", "2"]
    done = protect(town, *words, "-o", str(tmp_path / "r"), "--json", facilities=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["folder"], told["epsilon"], told["rho"], told["stamps"]) == (str(tmp_path / "r"), 1.0, None, [SEEDED])
    for name in ("release.parquet", "certificate.html", "levels/county.parquet"):
        assert (tmp_path / "r" / name).read_bytes() == (made / name).read_bytes()
    one, other = (json.loads((folder / "certificate.json").read_text()) for folder in (tmp_path / "r", made))
    assert (one["declared"], one["observed"]) == (other["declared"], other["observed"])
    assert not (tmp_path / "r" / "measurements" / "county").exists()


def test_without_a_strategy_the_default_is_used_and_an_invariant_is_kept(town, tmp_path):
    words = ["--rho", "1/10", "--delta", "1e-6", "--invariant", "total@county", "--measurements", "race@county"]
    done = protect(town, *words, "-o", str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    release = read_release(tmp_path / "r")
    answers = [one.answer("total", level="county") for one in (release.histogram, truth(town))]
    assert answers[0] == answers[1]
    declared = release.certificate.declared.to_json()
    assert declared["stamps"] == []
    assert declared["guarantee"]["delta"] == 1e-6
    assert [one["words"] for one in declared["constraints"]] == ["total is exact for every county"]
    saved = {str(p.relative_to(tmp_path / "r")) for p in (tmp_path / "r" / "measurements").rglob("*.parquet")}
    assert saved == {f"measurements/{name}.parquet" for name in ("county/race", "exact/county/total", "exact/us/total")}
    assert run("verify", str(tmp_path / "r")).returncode == 0


@pytest.mark.parametrize(("epsilon", "cautioned"), [("20", False), ("30", True)])
def test_an_epsilon_that_promises_nothing_is_called_so(town, tmp_path, epsilon, cautioned):
    done = protect(town, "--epsilon", epsilon, "-o", str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    assert ("Such an epsilon promises nothing" in done.stderr) == cautioned
    page = " ".join((tmp_path / "r" / "certificate.html").read_text().split())
    assert ("could then be more than a trillion times more or less likely" in page) == cautioned
    assert ("would then have been at most 486 million times more or less likely" in page) != cautioned


def test_units_taken_from_the_data_are_stamped(town, tmp_path):
    done = protect(town, "--epsilon", "1", "-o", str(tmp_path / "r"), units=False)
    assert "stamped: units from data: not covered by the guarantee" in done.stderr
    assert "units from data" in (tmp_path / "r" / "certificate.html").read_text()


def test_a_key_file_is_made_kept_secret_and_gives_the_same_noise_again(town, tmp_path):
    key = tmp_path / "key"
    for name in ("a", "b"):
        done = protect(town, "--epsilon", "1", "--key-file", str(key), "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert (tmp_path / "a" / "release.parquet").read_bytes() == (tmp_path / "b" / "release.parquet").read_bytes()
    secret = key.read_text().strip()
    for path in (tmp_path / "a").rglob("*"):
        assert path.is_dir() or secret not in path.read_bytes().decode("latin1")
    done = protect(town, "--epsilon", "1", "-o", str(tmp_path / "c"))
    assert (tmp_path / "a" / "release.parquet").read_bytes() != (tmp_path / "c" / "release.parquet").read_bytes()


def test_neighbouring_files_give_the_same_declared_bytes(town, made, tmp_path):
    table = pd.read_parquet(town / "town.parquet")
    row = int(table["count"].idxmax())
    same = table[(table["enumdist"] == table.loc[row, "enumdist"]) & (table["hhgq"] == table.loc[row, "hhgq"])]
    other = next(i for i in same.index if i != row)
    table.loc[row, "count"] -= 1
    table.loc[other, "count"] += 1
    table.to_parquet(tmp_path / "neighbour.parquet")
    words = ["--strategy", "e2e-2018", "--epsilon", "1", "--seed", "1", "--units", str(town / "town.units.parquet")]
    words += ["--facilities", str(town / "town.facilities.parquet"), "-o", str(tmp_path / "r")]
    book = str(town / "town.codebook.toml")
    done = run("protect", str(tmp_path / "neighbour.parquet"), "--codebook", book, *words)
    assert done.returncode == 0, done.stderr
    one, two = (json.loads((folder / "certificate.json").read_text()) for folder in (made, tmp_path / "r"))
    assert json.dumps(one["declared"]) == json.dumps(two["declared"])
    assert one["observed"] != two["observed"]


def test_a_plan_shows_noise_usable_counts_effort_and_guarantee_and_spends_nothing(town, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("a plan draws nothing")

    monkeypatch.setattr("tallyveil.protection.protect.protect_to_folder", never)
    monkeypatch.setattr("tallyveil.privacy.entropy.RunKey.__init__", never)
    before = sorted(town.rglob("*"))
    words = ["--strategy", "e2e-2018", "--epsilon", "1", "--plan", "--key-file", str(tmp_path / "key")]
    done = protect(town, *words, facilities=True)
    assert done.returncode == 0, done.stderr
    for words_ in (
        "Standard deviation of the noise",
        "coefficient of variation of 10%",
        "50.3",
        "503",
        "total is exact",
    ):
        assert words_ in done.stdout
    assert not re.search(r"[0-9]\.[0-9]+%", done.stdout)  # shares of a quarter and a fifth need no decimals
    assert done.stdout.endswith(" persons before post-processing. Nothing was spent.\n")
    told = json.loads(protect(town, *words, "--measurements", "hhgq@county", "--json", facilities=True).stdout)
    noise = {(one["level"], one["query"]): one for one in told["noise"]}
    assert noise["county", "hhgq"]["usable"] == 503
    assert noise["county", "hhgq"]["sd"] == pytest.approx(50.28, abs=5e-3)
    assert told["guarantee"]["epsilon"] == 1.0
    holds_for = told["guarantee"]["holds_for"]
    assert holds_for.startswith("two datasets in which one person's record, place and attributes, is replaced by any")
    assert "both agree on all invariants (the number of people in all; total is exact" in holds_for
    assert "both satisfy all listed constraints (" in holds_for
    assert {"seconds", "memory_bytes", "release_bytes", "levels_bytes"} < set(told["effort"])
    assert told["effort"]["measurements"]["numbers"] == 8 * truth(town).spine.size("county")
    assert sorted(town.rglob("*")) == before
    assert not (tmp_path / "key").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--epsilon", "1"], "protect needs a folder to write: -o DIR"),
        (["-o", "NEW"], "protect needs a budget: --epsilon E, --rho R, or a --strategy that has one."),
        (["--epsilon", "1", "--rho", "1", "-o", "NEW"], "--epsilon and --rho are both given. Give one."),
        (["--epsilon", "-1", "-o", "NEW"], "epsilon must be greater than 0. Got -1 instead."),
        (["--strategy", "e2e-2018", "-o", "NEW"], "no budget"),
        (["--strategy", "e2e-2018", "--epsilon", "1", "-o", "NEW"], "Give them: --facilities FILE (columns enumdist,"),
        (
            ["--strategy", "pl94-2020-us-persons", "-o", "NEW"],
            "is for the levels us, state, county, tract, block_group",
        ),
        (["--epsilon", "1", "--invariant", "total", "-o", "NEW"], "'total': write it as QUERY@LEVEL"),
        (["--epsilon", "1", "--invariant", "total@town", "-o", "NEW"], "unknown level 'town'"),
        (["--epsilon", "1", "--invariant", "sex@us", "-o", "NEW"], "unknown factor 'sex'"),
        (["--epsilon", "1", "--measurements", "sex@us", "-o", "NEW"], "query 'sex' is not measured at level 'us'"),
        (["--epsilon", "1", "--measurements", "us", "-o", "NEW"], "'us': write it as QUERY@LEVEL"),
        (["--epsilon", "1", "--seed", "1", "--key-file", "k", "-o", "NEW"], "--seed and --key-file are both given."),
        (
            ["--epsilon", "1", "--seed", "-1", "-o", "NEW"],
            "a seed is a whole number, 0 or more and below 2^1024. Got -1.",
        ),
        (["--epsilon", "1", "--threads", "0", "-o", "NEW"], "--threads must be 1 or more. Got 0 instead."),
        (["--epsilon", "1", "--key-file", "no/key", "-o", "NEW"], "no/key: cannot be read or made (No such file"),
        (["--rho", "1", "--delta", "2", "-o", "NEW"], "delta must be less than 1"),
        (["--epsilon", "1", "-o", "OLD"], "exists. Name a new folder; nothing is overwritten."),
    ],
)
def test_bad_input_ends_with_one_clear_line_and_nothing_written(town, tmp_path, words, line):
    old = tmp_path / "old"
    old.mkdir()
    places = {"NEW": str(tmp_path / "new"), "OLD": str(old)}
    done = protect(town, *(places.get(word, word) for word in words))
    assert done.returncode == 2
    assert line in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("tallyveil: ")
    assert list(tmp_path.iterdir()) == [old]


def test_facilities_without_bounds_are_refused(town, tmp_path):
    done = protect(town, "--epsilon", "1", "-o", str(tmp_path / "r"), facilities=True)
    assert done.returncode == 2
    assert "the strategy has no bounds from facilities. Leave --facilities out" in done.stderr


def test_an_existing_folder_is_refused_before_the_data_is_read(tmp_path):
    done = run("protect", "nowhere.csv", "--codebook", "none.toml", "--epsilon", "1", "-o", str(tmp_path))
    assert "exists. Name a new folder" in done.stderr


def test_an_interrupted_run_exits_with_130_and_leaves_nothing(town, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("tallyveil.files.release_folder.certificate_file.certificate_bytes", interrupted)
    done = protect(town, "--epsilon", "1", "-o", str(tmp_path / "r"))
    signal.signal(signal.SIGINT, before)
    assert done.returncode == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code", "how"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGHUP, 129, "ended by SIGHUP"),
    ],
)
def test_signals_end_a_run_with_one_line_and_the_same_command_resumes_it(
    town, tmp_path, monkeypatch, number, code, how
):
    before = {path.name for path in tmp_path.iterdir()}
    words = ["--epsilon", "1", "--key-file", str(tmp_path / "key"), "-o", str(tmp_path / "r")]
    with monkeypatch.context() as patch:
        patch.setattr(
            "tallyveil.files.release_folder.certificate_file.certificate_bytes", lambda *_: signal.raise_signal(number)
        )
        done = protect(town, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1] == (
        f"tallyveil: {how}; nothing was left half-written. Finished work is kept in {tmp_path}/.r.work: the same "
        f"command resumes it."
    )
    assert {path.name for path in tmp_path.iterdir()} - before == {"key", "key.bound", ".r.work"}
    done = protect(town, *words, "--resume")
    assert done.returncode == 0
    assert "resumed: 4 parents were kept, 0 were solved now" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} - before == {"key", "key.bound", "r"}


def test_a_signal_that_nohup_ignores_stays_ignored(town, tmp_path, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(
        "tallyveil.protection.protect.measured_pairs",
        lambda *_: signal.raise_signal(signal.SIGHUP) or [],
    )
    done = protect(town, "--epsilon", "1", "-o", str(tmp_path / "r"))
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN
    assert done.returncode == 0


def test_a_place_that_cannot_be_written_is_refused_before_the_data_is_read():
    done = run("protect", "nowhere.csv", "--codebook", "none.toml", "--epsilon", "1", "-o", "/proc/r")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tallyveil: /proc/r: cannot be written (")


def strategy_folder(place: Path, *words: str) -> str:
    place.mkdir()
    assert run("presets", "write", *words, "-o", str(place / "strategy.toml")).returncode == 0
    return str(place)


def test_releases_of_the_same_people_are_added_up(tmp_path):
    pure = [strategy_folder(tmp_path / f"p{i}", "e2e-2018", "--epsilon", e) for i, e in enumerate(["1", "0.5"])]
    both = figures("account", "--release", *pure)
    assert (both["epsilon"], both["rho"], both["delta"]) == (1.5, None, None)
    assert both["releases"] == {pure[0]: "epsilon 1", pure[1]: "epsilon 1/2"}
    assert figures("account", "--release", pure[0], "--release", pure[1]) == both
    names = ["pl94-2020-us-units", "pl94-2020-pr-units"]
    zcdp = [strategy_folder(tmp_path / name, name) for name in names]
    added, alone = figures("account", "--release", *zcdp), [figures("account", "--strategy", name) for name in names]
    assert added["rho"] == pytest.approx(sum(one["rho"] for one in alone))
    assert max(one["epsilon"] for one in alone) < added["epsilon"] < sum(one["epsilon"] for one in alone)
    assert figures("account", "--release", zcdp[0])["pld_epsilon"] == alone[0]["pld_epsilon"]


def test_pure_and_zcdp_releases_together_get_the_smaller_of_two_bounds_and_say_so(tmp_path):
    zcdp = strategy_folder(tmp_path / "z", "pl94-2020-us-units")
    epsilon = figures("account", "--release", zcdp)["epsilon"]
    small = figures("account", "--release", zcdp, strategy_folder(tmp_path / "a", "e2e-2018", "--epsilon", "1/20"))
    large = figures("account", "--release", zcdp, strategy_folder(tmp_path / "b", "e2e-2018", "--epsilon", "20"))
    assert epsilon < small["epsilon"] < epsilon + 0.05
    assert "each pure epsilon counted as rho = epsilon^2 / 2" in small["how"]
    assert large["epsilon"] == pytest.approx(epsilon + 20)
    assert "the pure epsilons added to the epsilon of the rhos' sum" in large["how"]
    assert (
        "a pure epsilon counts as rho = epsilon^2 / 2" in run("account", "--release", zcdp, str(tmp_path / "a")).stdout
    )
    said = run("account", "--release", zcdp, str(tmp_path / "b")).stdout
    assert "epsilon 20 of the pure releases, and epsilon" in said


def test_releases_that_cannot_be_added_are_refused(tmp_path):
    one, two = (strategy_folder(tmp_path / name, "pl94-2020-us-units") for name in ("one", "two"))
    file = Path(two) / "strategy.toml"
    file.write_text(file.read_text().replace('delta = "1e-10"', 'delta = "1e-6"'))
    done = run("account", "--release", one, two)
    assert "the releases report at different deltas (1e-10, 1e-06). Choose one: --delta 1e-10" in done.stderr
    assert run("account", "--release", one, two, "--delta", "1e-6").returncode == 0
    assert "is named twice" in run("account", "--release", one, os.path.join(one, ".")).stderr
    assert "no strategy.toml in it" in run("account", "--release", str(tmp_path)).stderr
    assert "has a budget of its own" in run("account", "--release", one, "--rho", "1").stderr
    assert "Release folders come after --release" in run("account", one).stderr
    free = replace(Strategy.read(file), constraints=(), neighbours="add-or-remove")
    file.write_text(strategy_to_toml(free))
    done = run("account", "--release", one, two)
    assert "some releases have replace-one neighbours and some add-or-remove" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Exact, so outside the guarantee: the number of people in all."),
        (
            ("--invariant", "total@county"),
            "Exact, so outside the guarantee: the number of people in all; total of every county.",
        ),
        (
            ("--invariant", "age@us"),
            "Exact, so outside the guarantee: the number of people in all; all counts of the us; age is exact for the "
            "us.",
        ),
    ],
)
def test_the_end_of_a_run_names_what_is_exact(tmp_path, words, said):
    done = run("protect", *write_town(tmp_path), "--epsilon", "1", *words, "-o", str(tmp_path / "r"))
    assert done.stderr.splitlines()[-2] == said


def test_the_end_of_a_run_names_conflicts_and_unproven_counts_but_no_figures_of_the_solver():
    assert _exceptions(0, 1e-9) == (
        "The counts are consistent at all levels, and as close to the noisy answers as that allows."
    )
    conflict = (
        "The noise made constraints conflict in 1 place, where the counts above were changed as little as possible"
    )
    assert _exceptions(1, 0.0) == f"{conflict}: see observed in certificate.json."
    assert "Not all counts are proven" in _exceptions(0, None)
    assert "in 2 places" in _exceptions(2, 1e-3)
    assert "Not all counts are proven" in _exceptions(2, 1e-3)


def test_progress_on_a_terminal_shows_a_bar_and_elsewhere_a_line_per_level(capsys):
    for terminal in (True, False):
        with LevelProgress({"us": 0.1, "county": 0.9}, terminal=terminal) as progress:
            progress.update("us", 1, 1)
            for done in range(1, 4):
                progress.update("county", done, 3)
        lines = [line for line in capsys.readouterr().err.splitlines() if "done after" in line]
        assert [line.split(" after")[0].split("\r")[-1].strip() for line in lines] == ["us: done", "county: done"]


def test_the_estimator_is_an_option_and_the_measurement_stays_the_same(tmp_path):
    town = write_town(tmp_path)
    made = {}
    for name in ("topdown", "tree"):
        folder = tmp_path / name
        words = ["--rho", "1/10", "--seed", "1", "--estimator", name, "--measurements", "all", "-o", str(folder)]
        done = run("protect", *town, *words)
        assert done.returncode == 0, done.stderr
        made[name] = json.loads((folder / "certificate.json").read_text())
        assert made[name]["declared"]["post_processing"]["estimator"] == name
        assert run("verify", str(folder)).returncode == 0
    assert made["topdown"]["measurement"] == made["tree"]["measurement"]
    assert 'estimator = "tree"' in (tmp_path / "tree" / "strategy.toml").read_text()
    assert run("protect", *town, "--rho", "1", "--estimator", "blue", "-o", str(tmp_path / "x")).returncode == 2


def test_more_steps_than_estimated_are_told_once(capsys, monkeypatch):
    monkeypatch.setattr("time.monotonic", iter(range(0, 1000, 6)).__next__)  # a line is due at every step
    with Steps("kernels", 3, terminal=False) as steps:
        for _ in range(9):
            steps.step()
    assert capsys.readouterr().err.count("3 of 3 kernels done") == 1


def test_the_time_left_is_told_without_what_is_done_once(capsys, monkeypatch):
    now = iter([0, 100, 100, 106, 112, 118])  # two at a time: both start slowly, then one is done every six seconds
    monkeypatch.setattr("time.monotonic", now.__next__)
    with Steps("batches", 7, abreast=2, terminal=False) as steps:
        for _ in range(5):
            steps.step()
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "1 of 7 batches done, at most 5 minutes left",
        "3 of 7 batches done, about 24 seconds left",
        "4 of 7 batches done, about 18 seconds left",
        "5 of 7 batches done, about 12 seconds left",
    ]
