"""ledger, protect --ledger and the identifier of a measurement on the command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import figures, run, write_town
from folders import edit_certificate, reseal
from tallyveil.errors import EndedAfterNoise
from tallyveil.release.canonical import MANIFEST


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A town, its units, and three releases: two of one measurement, and one of another budget."""
    folder = tmp_path_factory.mktemp("ledger")
    data = write_town(folder)
    (folder / "units.csv").write_text("county,block\n1,11\n1,12\n2,21\n2,22\n")
    words = ["protect", *data, "--units", str(folder / "units.csv"), "--threads", "1"]
    made = run("strategy", *data, "--epsilon", "1", "-o", str(folder / "plan.toml"))
    assert made.returncode == 0, made.stderr
    plan = ["--strategy", str(folder / "plan.toml"), "--key-file", str(folder / "key")]
    about = ["--population", "Townspeople", "--date", "2026-01-02"]
    for more in (
        [*plan, *about, "-o", str(folder / "one")],
        [*plan, *about, "--invariant", "total@county", "-o", str(folder / "two")],
        ["--rho", "1/10", *about, "--key-file", str(folder / "key"), "-o", str(folder / "three")],
        ["--epsilon", "1", "--seed", "1", "-o", str(folder / "seeded")],
    ):
        done = run(*words, *more)
        assert done.returncode == 0, done.stderr
    (folder / "words.json").write_text(json.dumps(words))
    return folder


def protect_words(place: Path) -> list[str]:
    return json.loads((place / "words.json").read_text())


def measurement(folder: Path) -> str:
    return json.loads((folder / "certificate.json").read_text())["measurement"]


def test_two_post_processings_of_one_measurement_carry_one_identifier_and_count_once(place, tmp_path):
    one, two, three, seeded = (measurement(place / name) for name in ("one", "two", "three", "seeded"))
    assert one == two
    assert len({one, three, seeded}) == 3
    ledger = str(tmp_path / "p.jsonl")
    folders = [str(place / name) for name in ("one", "two", "three", "seeded")]
    done = run("ledger", ledger, "add", *folders)
    assert done.returncode == 0, done.stderr
    shown = figures("ledger", ledger, "show")
    (group,) = shown["groups"]
    assert (group["populations"], group["counted"]) == (["Townspeople"], ["one", "three"])
    together = figures("account", "--release", *folders[:3])
    assert group["epsilon"] == together["epsilon"]
    assert together["sentence"].startswith("These 3 releases, made from 2 measurements, cost a person at most epsilon")
    assert group["pld_epsilon"] < group["epsilon"]
    assert shown["epsilon"] == group["pld_epsilon"]
    assert [one["seeded"] for one in shown["entries"]] == [False, False, False, True]
    assert shown["entries"][1]["invariants"] == ["total is exact for every county"]
    again = run("ledger", ledger, "add", folders[1])
    assert (again.returncode, "already in the ledger, on line 2" in again.stderr) == (2, True)
    text = run("ledger", ledger, "show").stdout
    assert "Seeded, for research only; not counted:\nline 4: seeded, epsilon 1" in text
    assert "outside the guarantee: total is exact for every county" in text
    assert f"Head: {shown['head']}" in text
    assert text.rstrip().endswith("No limit is set.")
    assert run("ledger", ledger, "show", "--head", shown["head"]).returncode == 0
    assert "Lines were removed" in run("ledger", ledger, "show", "--head", "0" * 64).stderr


@pytest.mark.usefixtures("no_noise")
def test_a_limit_refuses_the_next_release_before_noise_is_drawn(place, tmp_path):
    ledger, output = str(tmp_path / "p.jsonl"), tmp_path / "release"
    assert run("ledger", ledger, "limit", "--epsilon", "3/2").returncode == 0
    assert run("ledger", ledger, "add", str(place / "one")).returncode == 0
    before = Path(ledger).read_bytes()
    done = run(*protect_words(place), "--epsilon", "1", "--ledger", ledger, "-o", str(output))
    assert done.returncode == 2, done.stderr
    assert "the limit of the ledger is epsilon 3/2 at delta 1e-10" in done.stderr
    assert "would be epsilon 2" in done.stderr
    assert not output.exists()
    assert Path(ledger).read_bytes() == before
    missing = run(*protect_words(place), "--epsilon", "1", "--ledger", str(tmp_path / "typo"), "-o", str(output))
    assert (missing.returncode, "Start a ledger with" in missing.stderr) == (2, True)


def test_a_release_is_entered_by_the_run_that_makes_it(place, tmp_path):
    ledger, key = str(tmp_path / "p.jsonl"), str(tmp_path / "office")
    assert run("keygen", "-o", key).returncode == 0
    assert run("ledger", ledger, "limit", "--epsilon", "2", "--sign", key).returncode == 0
    reserved = run("ledger", ledger, "reserve", "--epsilon", "3/2", "--reference", "7", "--sign", key)
    assert "epsilon 0.5 is left" in reserved.stdout
    words = [*protect_words(place), "--ledger", ledger, "--sign", key, "--reference", "7"]
    done = run(*words, "--epsilon", "2", "-o", str(tmp_path / "no"))
    assert "reserves epsilon 3/2 (replace-one) for reference '7', but this release costs epsilon 2" in done.stderr
    done = run(*words, "--epsilon", "1", "-o", str(tmp_path / "yes"))
    assert done.returncode == 0, done.stderr
    shown = figures("ledger", ledger, "show", "--public-key", f"{key}.pub")
    assert [(one["name"], one["status"]) for one in shown["entries"]] == [("yes", "published")]
    assert shown["entries"][0]["measurement"] == measurement(tmp_path / "yes")
    assert (shown["epsilon"] <= 1.001, shown["within_limit"]) == (True, True)
    again = run("ledger", ledger, "add", str(tmp_path / "yes"))
    assert "already in the ledger" in again.stderr


def test_a_run_that_ends_after_noise_keeps_its_budget_as_spent(place, tmp_path, monkeypatch):
    ledger = str(tmp_path / "p.jsonl")
    run("ledger", ledger, "limit", "--epsilon", "2")

    def fail(*_, **__):
        raise EndedAfterNoise("the solver gave up")

    monkeypatch.setattr("tallyveil.protection.protect.topdown", fail)
    plan = ["--strategy", str(place / "plan.toml"), "--key-file", str(place / "key")]
    words = [*protect_words(place), *plan, "--population", "Townspeople", "--ledger", ledger]
    done = run(*words, "-o", str(tmp_path / "release"))
    assert (done.returncode, "counts as spent" in done.stderr) == (1, True)
    (entry,) = figures("ledger", ledger, "show")["entries"]
    assert (entry["status"], entry["measurement"]) == ("spent", measurement(place / "one"))
    monkeypatch.undo()
    done = run(*words, "-o", str(tmp_path / "release"))  # the same key: the same noise, which costs nothing more
    assert done.returncode == 0, done.stderr
    shown = figures("ledger", ledger, "show")
    assert [one["status"] for one in shown["entries"]] == ["spent", "published"]
    assert shown["groups"][0]["epsilon"] == 1.0


def test_a_killed_run_that_is_repeated_with_its_key_takes_over_its_reservation(place, tmp_path, monkeypatch):
    ledger = str(tmp_path / "p.jsonl")
    run("ledger", ledger, "limit", "--epsilon", "1")
    plan = ["--strategy", str(place / "plan.toml"), "--key-file", str(place / "key"), "--ledger", ledger]
    words = [*protect_words(place), *plan, "-o", str(tmp_path / "release")]

    def fail(*_, **__):
        raise EndedAfterNoise("as if killed")

    monkeypatch.setattr("tallyveil.protection.protect.topdown", fail)
    monkeypatch.setattr("tallyveil.protection.spending.Booking.keep_as_spent", lambda _: None)
    assert run(*words).returncode == 1
    monkeypatch.undo()
    other = [word.replace("key", "other-key") if word.endswith("key") else word for word in words]
    assert "would be epsilon 2" in run(*other).stderr  # other noise: the killed run may have drawn its own
    done = run(*words)
    assert done.returncode == 0, done.stderr
    shown = figures("ledger", ledger, "show")
    assert [entry["status"] for entry in shown["entries"]] == ["published"]
    assert shown["groups"][0]["epsilon"] == 1.0


@pytest.mark.slow
def test_a_budget_that_was_reserved_before_a_crash_is_shown_as_such(place, tmp_path):
    ledger = tmp_path / "p.jsonl"
    run("ledger", str(ledger), "limit", "--epsilon", "2")
    code = (
        "import time, sys; import tallyveil.protection.protect as p; p.topdown = lambda *a, **k: time.sleep(600);"
        "from tallyveil.cli import main; sys.argv = ['tallyveil', *sys.argv[1:]]; main()"
    )
    words = [*protect_words(place), "--epsilon", "1", "--ledger", str(ledger), "-o", str(tmp_path / "release")]
    process = subprocess.Popen([sys.executable, "-c", code, *words])
    while ledger.read_text().count("\n") < 2:
        assert process.poll() is None
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (entry,) = figures("ledger", str(ledger), "show")["entries"]
    assert entry["status"] == "running"
    assert "reserved by a run that has not reported back" in run("ledger", str(ledger), "show").stdout
    refused = run("ledger", str(ledger), "reserve", "--cancel", str(entry["line"]))
    assert (refused.returncode, "is no open reservation" in refused.stderr) == (2, True)
    too_much = run("ledger", str(ledger), "reserve", "--epsilon", "3/2", "--reference", "9")
    assert "would be epsilon 5/2" in too_much.stderr


def test_populations_that_share_nobody_cost_the_larger_one(tmp_path):
    ledger = str(tmp_path / "p.jsonl")
    words = ["ledger", ledger, "reserve", "--reference"]
    assert run(*words, "a", "--epsilon", "1", "--population", "Delaware").returncode == 0
    assert "epsilon 3 " in run(*words, "b", "--epsilon", "2", "--population", "England").stdout.replace(".", " ")
    told = run("ledger", ledger, "disjoint", "Delaware", "England")
    assert "cost a person in England at most epsilon 2." in told.stdout
    assert "needs two or more different names" in run("ledger", ledger, "disjoint", "Delaware").stderr
    assert "at most epsilon 1." in run("ledger", ledger, "reserve", "--cancel", "2").stdout
    assert "needs --reference" in run("ledger", ledger, "reserve", "--epsilon", "1").stderr


def test_releases_of_different_people_are_not_added_without_a_word(place, tmp_path):
    other = tmp_path / "other"
    words = [*protect_words(place), "--epsilon", "1", "--population", "Others", "-o", str(other)]
    assert run(*words).returncode == 0
    said = figures("account", "--release", str(place / "one"), str(other))["sentence"]
    assert "They name different people (Townspeople; Others)" in said
    assert "if nobody is in two, the largest cost counts" in said


@pytest.mark.usefixtures("no_noise")
def test_words_about_a_release_are_declared_and_bad_ones_refused(place, tmp_path):
    declared = json.loads((place / "one" / "certificate.json").read_text())["declared"]
    names = ("title", "organisation", "population", "reference", "approver", "date")
    assert [declared[name] for name in names] == [None, None, "Townspeople", None, None, "2026-01-02"]
    words = [*protect_words(place), "--epsilon", "1", "-o", str(tmp_path / "no")]
    for bad, problem in (
        (["--date", "1 May"], "date must be a day written as YYYY-MM-DD. Got '1 May' instead"),
        (["--title", " "], "title must be text of 1 to 200 characters"),
        (["--title", "a\u202eb"], "title has the unprintable character U+202E"),
    ):
        done = run(*words, *bad)
        assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


STAMPED = 'stamps = ["seeded: not for publication"]\n'


@pytest.fixture
def stamped(tmp_path) -> list[str]:
    """protect for a town whose codebook says that its counts are from an earlier, seeded trial."""
    data = write_town(tmp_path)
    (tmp_path / "town.toml").write_text(STAMPED + (tmp_path / "town.toml").read_text())
    (tmp_path / "units.csv").write_text("county,block\n1,11\n1,12\n2,21\n2,22\n")
    return ["protect", *data, "--units", str(tmp_path / "units.csv"), "--threads", "1"]


@pytest.mark.parametrize("key", [[], ["--key-file"]])
def test_what_is_spent_follows_from_the_key_and_not_from_a_stamp_of_the_data(stamped, key, tmp_path):
    ledger, folder = str(tmp_path / "p.jsonl"), tmp_path / "made"
    assert run("ledger", ledger, "limit", "--epsilon", "1").returncode == 0
    words = [*stamped, "--ledger", ledger, *key, *([str(tmp_path / "key")] if key else [])]
    beyond = run(*words, "--epsilon", "50", "-o", str(folder))
    assert (beyond.returncode, "the cost would be epsilon 50" in beyond.stderr) == (2, True), beyond.stderr
    assert not folder.exists()
    assert run(*words, "--epsilon", "3/4", "-o", str(folder)).returncode == 0
    shown = figures("ledger", ledger, "show")
    assert ([one["seeded"] for one in shown["entries"]], shown["epsilon"] >= 0.75) == ([False], True)
    assert "for research only" not in run("ledger", ledger, "show").stdout
    assert run(*words, "--epsilon", "1/2", "-o", str(tmp_path / "second")).returncode == 2
    other = str(tmp_path / "other.jsonl")
    assert run("ledger", other, "add", str(folder)).returncode == 0
    assert figures("ledger", other, "show")["epsilon"] == shown["epsilon"]
    declared = json.loads((folder / "certificate.json").read_text())["declared"]
    assert (declared["seeded"], declared["stamps"]) == (False, ["seeded: not for publication"])
    assert run("verify", str(folder)).returncode == 0
    assert run("report", str(folder), "-o", str(tmp_path / "report.html")).returncode == 0
    for page in (folder / "certificate.html", tmp_path / "report.html"):
        said = page.read_text()
        assert "this stamp is of the data that were read; the noise of this run does not come from a seed" in said
        for claim in ("because this release is seeded", "trial with a known seed", "Without a seed"):
            assert claim not in said


def test_a_seeded_run_costs_nothing_and_a_folder_that_does_not_state_its_seed_is_counted(stamped, tmp_path):
    ledger, folder = str(tmp_path / "p.jsonl"), tmp_path / "made"
    assert run("ledger", ledger, "limit", "--epsilon", "1").returncode == 0
    done = run(*stamped, "--epsilon", "50", "--seed", "1", "--ledger", ledger, "-o", str(folder))
    assert done.returncode == 0, done.stderr
    shown = figures("ledger", ledger, "show")
    assert ([one["seeded"] for one in shown["entries"]], shown["epsilon"]) == ([True], None)
    assert "because this release is seeded" in (folder / "certificate.html").read_text()
    reseal(folder, lambda certificate: certificate["declared"].pop("seeded"))  # as earlier versions wrote it
    assert run("ledger", str(tmp_path / "old.jsonl"), "add", str(folder)).returncode == 0
    assert figures("ledger", str(tmp_path / "old.jsonl"), "show")["epsilon"] == 50.0


def with_measurement_of(folder: Path, other: Path, to: Path) -> Path:
    """A copy of a folder, its certificate resealed with the identifier of another."""
    shutil.copytree(folder, to)
    reseal(to, lambda certificate: certificate.update(measurement=measurement(other)))
    return to


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        (["--epsilon", "1"], ["--epsilon", "1"], "release.parquet"),  # another key, or other people
        (["--epsilon", "1"], ["--epsilon", "1/2"], "what is measured"),
        (["--epsilon", "1", "--measurements", "all"], ["--epsilon", "1", "--invariant", "total@us", "--measurements",
         "detailed@block", "--no-failsafe"], "measurements/block/detailed.parquet"),
        (["--epsilon", "1", "--estimator", "tree"], ["--epsilon", "1", "--estimator", "tree"], "release.parquet"),
    ],
)  # fmt: skip
def test_equal_identifiers_of_what_cannot_be_one_measurement_are_refused(first, second, differs, place, tmp_path):
    words, made = protect_words(place), []
    for name, more in (("first", first), ("second", second)):
        done = run(*words, *more, "--key-file", str(tmp_path / f"key of {name}"), "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        made.append(tmp_path / name)
    forged = with_measurement_of(made[1], made[0], tmp_path / "forged")
    ledger = str(tmp_path / "p.jsonl")
    at_once = run("ledger", ledger, "add", str(made[0]), str(forged))
    assert (at_once.returncode, at_once.stdout) == (2, ""), at_once.stdout
    assert f"but differ in {differs}: the certificate of one was changed" in at_once.stderr
    assert not Path(ledger).exists() or Path(ledger).read_bytes() == b""
    assert run("ledger", ledger, "add", str(made[0])).returncode == 0
    before = Path(ledger).read_bytes()
    later = run("ledger", ledger, "add", str(forged))
    assert (later.returncode, "first and forged have the same measurement identifier" in later.stderr) == (2, True)
    assert Path(ledger).read_bytes() == before
    together = run("account", "--release", str(made[0]), str(forged))
    assert (together.returncode, together.stdout) == (2, "")
    assert all(word in together.stderr for word in (str(made[0]), str(forged), differs))


def test_releases_of_one_measurement_by_other_versions_or_post_processing_count_once(place, tmp_path):
    words, key = protect_words(place), ["--epsilon", "1", "--key-file", str(tmp_path / "key")]
    for name, more in (
        ("one", ["--measurements", "all"]),
        ("two", ["--estimator", "topdown", "--threads", "2"]),
        ("three", ["--measurements", "total@block", "--title", "Counts"]),
    ):
        words_ = words if "--threads" not in more else [word for word in words if word not in ("--threads", "1")]
        done = run(*words_, *key, *more, "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    folders = [str(tmp_path / name) for name in ("one", "two", "three")]
    assert len({measurement(Path(folder)) for folder in folders}) == 1
    assert run("ledger", str(tmp_path / "p.jsonl"), "add", *folders).returncode == 0
    assert figures("ledger", str(tmp_path / "p.jsonl"), "show")["groups"][0]["counted"] == ["one"]
    assert figures("account", "--release", *folders)["epsilon"] == 1.0


def _free(certificate: dict) -> None:
    certificate["declared"]["seeded"] = True


def _a_third(certificate: dict) -> None:
    figures = certificate["declared"]["guarantee"]
    figures["epsilon"] = figures["epsilon"] / 3


def _other_text(name: str, old: str, new: str):
    def alter(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")

    return alter


@pytest.mark.parametrize(
    "alter",
    [
        lambda folder: edit_certificate(folder, _free),
        lambda folder: reseal(folder, _free),  # with its page and its list of files, but without the stamp
        lambda folder: edit_certificate(folder, _a_third),
        lambda folder: edit_certificate(folder, lambda certificate: certificate.pop(MANIFEST)),
        _other_text("codebook.toml", "adult", "adults"),
        _other_text("strategy.toml", "replace-one", "add-or-remove"),
        _other_text("certificate.html", "certificate-sha256", "certificate-sha"),
        lambda folder: (folder / "codebook.toml").unlink(),
        lambda folder: (folder / "certificate.html").unlink(),
        lambda folder: shutil.copy(folder / "codebook.toml", folder / "source.toml"),
        lambda folder: ((folder / "measurements").mkdir(exist_ok=True),
                        shutil.copy(folder / "spine.parquet", folder / "measurements" / "spine.parquet")),
    ],
)  # fmt: skip
def test_a_folder_whose_cost_could_have_been_altered_is_neither_added_nor_accounted_for(alter, place, tmp_path):
    folder, ledger = tmp_path / "altered", tmp_path / "p.jsonl"
    shutil.copytree(place / "three", folder)
    assert figures("account", "--release", str(folder))["rho"] > 0
    alter(folder)
    for words in (["ledger", str(ledger), "add", str(folder)], ["account", "--release", str(folder)]):
        done = run(*words)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout
        assert f"See: tallyveil verify {folder}" in done.stderr
        assert done.stderr.count("\n") == 1
    assert not ledger.exists()


@pytest.mark.parametrize("listed", [True, False])
def test_folders_that_stated_no_seed_and_had_no_list_of_files_are_added_as_before(listed, place, tmp_path):
    folder, ledger = tmp_path / "old", str(tmp_path / "p.jsonl")
    shutil.copytree(place / "one", folder)
    reseal(folder, lambda certificate: certificate["declared"].pop("seeded"))
    if not listed:
        edit_certificate(folder, lambda certificate: certificate.pop(MANIFEST))
        (folder / "certificate.html").unlink()
    assert run("ledger", ledger, "add", str(folder)).returncode == 0
    assert (
        figures("ledger", ledger, "show")["epsilon"] == 1.0 == figures("account", "--release", str(folder))["epsilon"]
    )


def test_a_release_that_is_given_twice_is_named_by_both_names(place, tmp_path):
    copy, ledger = tmp_path / "copy", tmp_path / "p.jsonl"
    shutil.copytree(place / "one", copy)
    done = run("ledger", str(ledger), "add", str(place / "one"), str(copy))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{place / 'one'} and {copy} are the same release. Nothing was added." in done.stderr
    assert not ledger.read_bytes()


FILTERS = ["age = 'adult'", "age = 'child'"]


@pytest.fixture(scope="module")
def exact_and_filtered(tmp_path_factory) -> tuple[Path, Path, Path, Path]:
    """Releases of records: all ages of a state exact; only adults; only children; and up to 3 records of a person."""
    place = tmp_path_factory.mktemp("filtered")
    rows = "".join(
        f"{person},{1 + block // 20},{block},{age},{sex}\n"
        for person, (block, age, sex) in enumerate(
            [(11, "adult", "m"), (11, "child", "w"), (12, "adult", "w"), (21, "adult", "m"), (22, "child", "m")] * 3
        )
    )
    (place / "people.csv").write_text(f"person,county,block,age,sex\n{rows}")
    (place / "units.csv").write_text("county,block\n1,11\n1,12\n2,21\n2,22\n")
    book = '[geography]\nlevels = ["county", "block"]\nroot = "us"\n[attributes]\n{}sex = ["m", "w"]\n[table]\n'
    book += 'layout = "persons"\n{}'
    age = 'age = ["child", "adult"]\n'
    (place / "exact.toml").write_text(book.format(age, 'ignore = ["person"]\n'))
    (place / "adult.toml").write_text(book.format("", 'where = {age = "adult"}\nignore = ["person"]\n'))
    (place / "child.toml").write_text(
        book.format("", 'where = {age = "child"}\nignore = ["person"]\nwhere_is_public = true\n')
    )
    (place / "three.toml").write_text(book.format(age, 'person = "person"\nat_most = 3\n'))
    words = ["protect", str(place / "people.csv"), "--units", str(place / "units.csv"), "--threads", "1"]
    more = {"exact": ["--invariant", "age@us"]}
    for name in ("exact", "adult", "child", "three"):
        book_of = ["--codebook", str(place / f"{name}.toml"), *more.get(name, [])]
        done = run(*words, *book_of, "--epsilon", "1", "--population", "Town", "-o", str(place / name))
        assert done.returncode == 0, done.stderr
    return place / "exact", place / "adult", place / "child", place / "three"


def test_what_exact_counts_tell_is_not_protected_in_accounts_either(exact_and_filtered):
    exact, _, _, three = map(str, exact_and_filtered)
    for folders in ([exact], [exact, three], [three, exact]):
        said = run("account", "--release", *folders).stdout
        (row,) = [line for line in said.splitlines() if line.startswith("epsilon, age")]
        assert row.split()[:5] == ["epsilon,", "age", "-", "not", "protected:"], row
    alone = run("account", "--release", three).stdout
    assert "not protected" not in alone


def test_places_that_exact_counts_tell_are_not_protected_in_accounts_either(place, exact_and_filtered):
    """The totals of counties are exact in a release, so they tell the county of a person."""
    told = run("account", "--release", str(place / "two")).stdout
    both = run("account", "--release", str(place / "two"), str(exact_and_filtered[3])).stdout
    assert "only where exact counts do not tell it" in " ".join(told.split())
    row = " ".join(both.split()).partition("epsilon, within us - ")[2]
    assert row.startswith("not protected where exact counts tell it: they tell the place, to someone who knows")
    assert "everybody else, down to the county" in row


def test_a_release_is_headed_by_what_it_costs_a_person(exact_and_filtered):
    three = str(exact_and_filtered[3])
    assert run("account", "--release", three).stdout.startswith(f"{three}: epsilon 3,")
    assert figures("account", "--release", three)["releases"] == {three: "epsilon 3"}


def test_accounts_and_ledgers_show_filters_and_say_what_different_ones_tell(exact_and_filtered, tmp_path):
    exact, adult, child, _ = map(str, exact_and_filtered)
    ledger, different = (
        str(tmp_path / "p.jsonl"),
        "the numbers of people who pass the filters are exact and not covered",
    )
    told = figures("account", "--release", exact, adult, child)
    words = {name: f"only rows with {kept} are counted" for name, kept in zip((adult, child), FILTERS, strict=True)}
    assert told["filters"] == {exact: None, **words}
    assert different in told["sentence"]
    assert different not in figures("account", "--release", adult)["sentence"]
    text = run("account", "--release", adult, child).stdout
    assert [line for line in text.splitlines() if line.startswith("  filter: ")] == [
        f"  filter: {said}" for said in words.values()
    ]
    assert run("ledger", ledger, "add", adult).returncode == 0
    assert different not in run("ledger", ledger, "show").stdout
    assert different in run("ledger", ledger, "add", child).stdout
    shown = run("ledger", ledger, "show").stdout
    assert all(f"  filter: {said}\n" in shown for said in words.values())
    assert [one["filter"] for one in figures("ledger", ledger, "show")["entries"]] == list(words.values())
    assert different in figures("ledger", ledger, "show")["sentence"]
