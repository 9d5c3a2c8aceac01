"""Neither the key of a run nor a true count is in anything that the run leaves: no file, message, report or pickle."""

import errno
import os
import pickle
from pathlib import Path

import pytest
from interrupted_jobs import Job, Stop
from planted import KEY, PLANTED, RHO, found_in, leaks, needles, planted_key, planted_people

from command_line import run
from tallyveil import Strategy, protect
from tallyveil.errors import SecretError
from tallyveil.privacy import RunKey

BOOK = """units_from = "data"
[geography]
levels = ["county", "tract"]
root = "us"
[attributes]
age = ["child", "adult"]
home = ["house", "prison", "dorm"]
[table]
layout = "long"
count = "count"
"""
INPUTS = ("people.csv", "key", "signer")


@pytest.fixture(autouse=True)
def many_pieces(monkeypatch):
    monkeypatch.setattr("tallyveil.engine.level.CHUNK", 1)  # every parent is a piece


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with the people and their key, in which temporary files are made too."""
    table = planted_people().to_pandas()
    table.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(BOOK)
    planted_key(tmp_path)
    assert run("keygen", "-o", str(tmp_path / "signer")).returncode == 0
    assert run("ledger", str(tmp_path / "ledger"), "limit", "--epsilon", "1").returncode == 0
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def words(place: Path) -> list[str]:
    data = ["protect", str(place / "people.csv"), "--codebook", str(place / "people.toml"), "--rho", RHO]
    return [*data, "--key-file", str(place / "key"), "--ledger", str(place / "ledger"), "--sign", str(place / "signer")]


def options(place: Path) -> list[str]:
    return ["--measurements", "all", "--estimates", "--title", "A town", "-o", str(place / "out")]


def clean(place: Path, *done) -> None:
    """Nothing in the folder and in what was printed has a needle; the search does find them in the inputs."""
    hidden = needles(planted_people())
    assert leaks(place, hidden, inputs=INPUTS) == []
    for one in done:
        assert found_in(one.stdout, hidden) == found_in(one.stderr, hidden) == []
    assert str(PLANTED).encode() in found_in((place / "people.csv").read_bytes(), hidden)
    assert KEY.hex().encode() in found_in((place / "key").read_bytes(), hidden)


def test_nothing_of_a_run_that_is_interrupted_resumed_and_used_has_the_key_or_a_true_count(place, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    planned = run(*words(place), "--plan", "--json")
    with monkeypatch.context() as patch:
        patch.setattr("tallyveil.files.release_folder.certificate_file.certificate_bytes", full)
        stopped = run(*words(place), *options(place))
    assert (stopped.returncode, len(list(place.glob(".out.work/*.part")))) == (1, 5)
    assert (place / "key.bound").exists()
    clean(place, planned, stopped)
    resumed = run(*words(place), *options(place), "--resume")
    assert "resumed: 5 parents were kept, 0 were solved now" in resumed.stderr
    release, tables = str(place / "out"), str(place / "tables")
    used = [
        run("verify", release, "--json"), run("tables", release, "--format", "csv", "-o", tables),
        run("estimate", release, "--json"), run("ledger", str(place / "ledger"), "show", "--json"),
        run("account", "--release", release, "--json"),
    ]  # fmt: skip
    assert [done.returncode for done in (resumed, *used)] == [0] * 6, [done.stderr for done in used]
    clean(place, resumed, *used)


@pytest.mark.parametrize("where", ["tallyveil.protection.protect.measure", "tallyveil.protection.protect.topdown"])
def test_an_unexpected_error_before_or_after_noise_is_reported_without_what_it_says(place, monkeypatch, where):
    def fail(*_, **__):
        counts, key = planted_people().leaves.count, KEY.hex()
        raise IndexError(f"{counts.tolist()}, {key}")

    monkeypatch.setattr(where, fail)
    done = run(*words(place), *options(place))
    assert done.returncode == 1
    assert "an unexpected error (" in done.stderr
    assert len(list(place.glob("tallyveil-error-*.txt"))) == 1
    clean(place, done)


def test_a_run_stopped_after_any_piece_leaves_neither(tmp_path):
    planted_key(tmp_path)
    people = planted_people()
    job = Job(tmp_path, truth=people, strategy=Strategy.default(people.spine, people.schema, rho=RHO))
    for pieces in range(1, 6):
        with pytest.raises(Stop) as stopped:
            job.run(stop_after=pieces)
        assert leaks(tmp_path, needles(people), inputs=INPUTS) == []
        assert found_in(f"{job.said} {stopped.value!r} {stopped.value.__notes__}", needles(people)) == []


def test_nothing_of_a_run_that_can_be_pickled_has_the_key_or_a_true_count():
    people, key = planted_people(), RunKey.from_seed(1)
    plan = Strategy.default(people.spine, people.schema, rho=RHO)
    release = protect(people, plan, key=key, measurements=None)
    hidden = needles(people, key._bytes)
    assert found_in(pickle.dumps(release), hidden) == []
    assert found_in(pickle.dumps(people), hidden)  # the search would find them
    for secret in (key, key.seal({"people": [b""]})):
        with pytest.raises(SecretError, match="cannot be pickled"):
            pickle.dumps(secret)
