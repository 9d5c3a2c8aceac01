"""Interrupted runs combined with everything else that a run can have, and with each other."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from interrupted_jobs import Job, Stop, contents

from command_line import run
from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import EndedAfterNoise, FolderError, InputError
from tallyveil.files.ledger.lines import read_lines
from tallyveil.files.ledger.programme import programme_of
from tallyveil.privacy import Bound, Invariant, RunKey
from tallyveil.protection.spending import Spending


@pytest.fixture(autouse=True)
def many_pieces(monkeypatch):
    monkeypatch.setattr("tallyveil.engine.level.CHUNK", 1)  # every parent is a piece


def deep_people(states: int = 2) -> Histogram:
    """Five levels below the root, some units with only one child."""
    paths = [
        (str(s), f"{s}{c}", f"{s}{c}{t}", f"{s}{c}{t}{b}")
        for s in range(1, 1 + states) for c in range(2) for t in range(1 + c) for b in range(3)
    ]  # fmt: skip
    columns = {name: [path[i] for path in paths] for i, name in enumerate(("state", "county", "tract", "block"))}
    schema = Schema(attributes={"age": ["child", "adult"], "home": ["house", "dorm"]})
    rng = np.random.default_rng(3)
    unit, cell = np.divmod(np.arange(len(paths) * schema.cells), schema.cells)
    return Histogram.from_entries(
        Spine.from_columns(columns, root="us"), schema, unit=unit, cell=cell, count=rng.poisson(4, len(unit))
    )


def deep_job(folder: Path, *, states: int = 2, optimise: bool = False, **changed) -> Job:
    people = deep_people(states)
    budget = {"epsilon": 2, "accounting": "pld"} if changed.pop("pld", False) else {"rho": 1}
    plan = replace(Strategy.default(people.spine, people.schema, **budget), **changed)
    optimised = people.spine.optimised() if optimise else None
    return Job(folder, truth=people, strategy=plan, facilities=None, optimised=optimised)


TIGHT = (
    Bound(query="home", level="block", most={"dorm": 15}),
    Bound(query="age", level="tract", least={"adult": 5}),
    Invariant(query="total", level="state"),
)
KINDS = {
    "plain": {},
    "only children": {"only_child": True},
    "one state": {"states": 1, "only_child": True},
    "optimised": {"optimise": True, "only_child": True},
    "pld": {"pld": True, "optimise": True},
    "tight": {"constraints": TIGHT},
}


@pytest.fixture
def ledger(tmp_path) -> Spending:
    """A ledger whose limit allows one measurement of rho 1, and no second one."""
    made = Spending(ledger=tmp_path / "key.ledger")
    assert run("ledger", str(made.ledger), "limit", "--epsilon", "11", "--delta", "1e-10").returncode == 0
    return made


def entries(spending: Spending) -> list[tuple[str, str]]:
    return [(entry.status, entry.cost.name) for entry in programme_of(read_lines(spending.ledger)).entries]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_resumes_to_the_same_bytes_and_is_entered_once(tmp_path, ledger, kind):
    job = deep_job(tmp_path, **KINDS[kind])
    how = {"measurements": None, "estimates": kind != "tight", "ledger": ledger}
    whole = contents(job.run(name="whole", **how))
    for pieces in (1, 5):
        with pytest.raises(Stop):
            job.run(stop_after=pieces, **how)
        assert contents(job.run(resume=True, **how)) == whole
        assert job.said[1].startswith("resumed: ")
        (tmp_path / "out").rename(tmp_path / f"done {pieces}")
    assert job.left() == ["done 1", "done 5", "whole"]
    states = entries(ledger)
    assert [status for status, _ in states].count("published") == 3
    assert len(programme_of(read_lines(ledger.ledger)).groups()[0].together.counted) == 1


def test_a_run_whose_reservation_was_taken_over_leaves_the_ledger_readable(tmp_path, ledger):
    """Two runs with one key at once: the second takes the reservation over, and then the first is interrupted."""
    first, second = deep_job(tmp_path), deep_job(tmp_path)

    def meanwhile(*_):
        second.run(name="second", ledger=ledger)
        raise Stop

    first.given["progress"] = meanwhile
    with pytest.raises(Stop):
        first.run(name="first", ledger=ledger)
    assert entries(ledger) == [("published", "second")]
    del first.given["progress"]
    first.run(name="first", ledger=ledger)
    assert entries(ledger) == [("published", "second"), ("published", "first")]


def test_a_ledger_that_cannot_be_written_does_not_hide_why_a_run_ended(tmp_path, ledger):
    job = deep_job(tmp_path)

    def gone(*_):
        ledger.ledger.unlink()
        raise Stop

    job.given["progress"] = gone
    with pytest.raises(Stop):
        job.run(ledger=ledger)


def test_an_interruption_after_the_release_has_appeared_says_that_it_is_complete(tmp_path, ledger, monkeypatch):
    def stop(*_):
        raise Stop

    monkeypatch.setattr("tallyveil.protection.spending.Booking.confirm", stop)
    job = deep_job(tmp_path)
    with pytest.raises(Stop) as stopped:
        job.run(ledger=ledger)
    assert stopped.value.__notes__ == [f"{tmp_path}/out is complete."]
    assert job.left() == ["out"]
    assert entries(ledger) == [("spent", "out")]
    assert run("ledger", str(ledger.ledger), "add", str(tmp_path / "out")).returncode == 0
    assert entries(ledger) == [("published", "out")]


def test_an_unexpected_error_after_noise_is_told_by_its_type_alone(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise KeyError("county 1 has 48271963 persons")

    monkeypatch.setattr("tallyveil.protection.protect.topdown", fail)
    with pytest.raises(EndedAfterNoise, match=r"^KeyError. Noise had been drawn") as ended:
        deep_job(tmp_path).run()
    assert "48271963" not in str(ended.value)


def test_a_target_reached_through_a_link_finds_the_same_work_and_a_dangling_link_is_refused(tmp_path):
    (tmp_path / "keyed").mkdir()
    (tmp_path / "key link").symlink_to(tmp_path / "keyed")
    job = deep_job(tmp_path)
    with pytest.raises(Stop):
        job.run(stop_after=4, name="keyed/out")
    job.run(name="key link/out", resume=True)
    assert job.said[0].startswith("resuming: ")
    assert [path.name for path in (tmp_path / "keyed").iterdir()] == ["out"]
    (tmp_path / "nowhere").symlink_to(tmp_path / "not there")
    with pytest.raises(FolderError, match=r"nowhere exists. Name a new folder"):
        job.run(name="nowhere")
    assert not (tmp_path / "not there").exists()


def test_a_disk_that_fills_up_while_a_run_is_resumed_costs_only_the_work(tmp_path, monkeypatch):
    job = deep_job(tmp_path)
    whole = contents(job.run(name="whole"))
    with pytest.raises(Stop):
        job.run(stop_after=4)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("tallyveil.files.work_folder.WorkFolder._write", full)
        assert contents(job.run(resume=True)) == whole
    assert job.said[1].startswith("finished work can no longer be kept (No space left on device)")
    assert job.left() == ["out", "whole"]


def damaged(work: Path, how: str) -> None:
    """Change a work folder as somebody else might."""
    part = work / "1-0-0-1.part"
    content = part.read_bytes()
    if how == "a folder":
        part.unlink()
        part.mkdir()
    elif how == "a link":
        part.rename(work.parent / "key part")
        part.symlink_to(work.parent / "key part")
    elif how == "a link to nothing":
        part.unlink()
        part.symlink_to(work.parent / "key nothing")
    elif how == "a pipe":
        part.unlink()
        os.mkfifo(part)
    elif how == "another part":
        part.write_bytes((work / "root.part").read_bytes())
    elif how == "huge":
        part.write_bytes(content[:40] + b"\x93NUMPY" * 1000)
    elif how == "the job is a folder":
        (work / "job.json").unlink()
        (work / "job.json").mkdir()
    elif how == "half is a folder":
        (work / "x.part.writing").mkdir()
    elif how == "the lock is a folder":
        (work / "lock").unlink()
        (work / "lock").mkdir()
    else:
        for path in work.iterdir():
            path.unlink()


DAMAGES = (
    "a folder", "a link", "a link to nothing", "a pipe", "another part", "huge", "the job is a folder",
    "half is a folder", "the lock is a folder", "nothing is left",
)  # fmt: skip


@pytest.mark.parametrize("how", DAMAGES)
def test_whatever_happens_to_the_work_the_release_is_the_same(tmp_path, how):
    job = deep_job(tmp_path)
    whole = contents(job.run(name="whole"))
    with pytest.raises(Stop):
        job.run(stop_after=6)
    damaged(tmp_path / ".out.work", how)
    assert contents(job.run()) == whole
    assert not (tmp_path / "key nothing").exists()


def test_work_that_is_removed_during_the_run_does_not_stop_it(tmp_path):
    import shutil

    job = deep_job(tmp_path)
    whole = contents(job.run(name="whole"))
    job.given["progress"] = lambda *_: shutil.rmtree(tmp_path / ".out.work", ignore_errors=True)
    assert contents(job.run()) == whole
    assert job.left() == ["out", "whole"]


def test_a_seeded_run_on_other_people_does_not_use_the_work(tmp_path):
    job, other = deep_job(tmp_path), deep_job(tmp_path, states=3)
    whole = contents(other.run(name="whole", seed=1))
    with pytest.raises(Stop):
        job.run(stop_after=6, seed=1)
    with pytest.raises(FolderError, match=r"the work of another run \(other people"):
        other.run(seed=1, resume=True)
    assert contents(other.run(seed=1)) == whole


def test_processes_that_make_one_key_at_once_have_the_same_key_and_leave_no_copy(tmp_path):
    def made(_: int) -> bytes:
        return RunKey.from_file(tmp_path / "key").people([b"people"])

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(made, range(64)))) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "key.bound"]


def test_one_key_used_at_once_on_two_sets_of_people_serves_only_one(tmp_path):
    RunKey.from_file(tmp_path / "key")

    def made(number: int) -> bool:
        try:
            RunKey.from_file(tmp_path / "key").people([b"%d" % (number % 2)])
        except InputError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        served = list(pool.map(made, range(64)))
    assert served[0::2] in ([True] * 32, [False] * 32)
    assert served[1::2] == [not one for one in served[0::2]]
