"""An interrupted run is resumed: the same bytes, less work, no left-overs, and never the work of another run."""

import errno
import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from interrupted_jobs import Job, Stop, contents

from small_release import small_facilities, small_people, small_strategy
from tallyveil import Counts, Histogram
from tallyveil.errors import EndedAfterNoise, FolderError, InputError
from tallyveil.privacy import RunKey

PARENTS = 1 + 1 + 3  # the root itself, the root as a parent, and three counties


@pytest.fixture(autouse=True)
def many_pieces(monkeypatch):
    monkeypatch.setattr("tallyveil.engine.level.CHUNK", 1)  # every parent is a piece


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_interrupted_after_any_piece_resumes_to_the_same_bytes_with_less_work(tmp_path, threads):
    job = Job(tmp_path)
    whole = contents(job.run(name="whole"))
    for pieces in range(1, PARENTS + 1):
        with pytest.raises(Stop) as stopped:
            job.run(stop_after=pieces, threads=threads)
        assert stopped.value.__notes__ == [
            f"Finished work is kept in {tmp_path}/.out.work: the same command resumes it."
        ]
        assert job.left() == [".out.work", "whole"]
        target = job.run(threads=3 - threads, resume=pieces % 2 == 0)
        assert contents(target) == whole, pieces
        kept = int(job.said[0].split()[1])
        assert kept >= pieces
        assert job.said == [
            f"resuming: {kept} of {PARENTS} parents are kept in {tmp_path}/.out.work",
            f"resumed: {kept} parents were kept, {PARENTS - kept} were solved now",
        ]
        target.rename(tmp_path / "done")
        assert job.left() == ["done", "whole"]
        shutil.rmtree(tmp_path / "done")


def test_a_run_that_is_not_interrupted_says_nothing_and_leaves_nothing(tmp_path):
    job = Job(tmp_path)
    job.run()
    assert (job.said, job.left()) == ([], ["out"])
    job.run(name="again", resume=True)
    assert job.said == [f"nothing to resume in {tmp_path}/.again.work; this run starts anew"]


def other_facilities():
    built = small_facilities(small_people())
    return replace(built, leaves=Counts.from_dense(built.leaves.dense() + (built.leaves.dense() > 0)))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"strategy": replace(small_strategy(small_people()), rounding="cells")}, "other strategy"),
        ({"strategy": small_strategy(small_people(), rho=2)}, "other strategy"),
        ({"facilities": other_facilities()}, "other facilities"),
        ({"failsafe": False}, "other options"),
        ({"seed": 5}, "its key differs"),
    ],
)
def test_a_changed_job_never_uses_the_work_of_the_old_one(tmp_path, changed, what):
    old, new = Job(tmp_path), Job(tmp_path, **changed)
    key = {} if "seed" not in changed else {"seed": new.given.pop("seed")}
    fresh = contents(new.run(name="fresh", **key))
    with pytest.raises(Stop):
        old.run(stop_after=4)
    with pytest.raises(FolderError, match=rf"the work of another run \({what}\)"):
        new.run(resume=True, **key)
    assert contents(new.run(**key)) == fresh
    assert new.said == [f"the work of another, interrupted run ({what}) was removed; this run starts anew"]
    assert new.left() == ["fresh", "out"]


def test_other_code_or_versions_never_use_the_work(tmp_path, monkeypatch):
    job = Job(tmp_path)
    with pytest.raises(Stop):
        job.run(stop_after=4)
    for name, other in (("versions", {}), ("code_digest", b"other")):
        with monkeypatch.context() as patch:
            patch.setattr(f"tallyveil.protection.resuming.{name}", lambda other=other: other)
            with pytest.raises(FolderError, match="other versions"):
                job.run(resume=True)


def test_changed_people_are_refused_by_the_key_and_the_work_stays(tmp_path):
    job, people = Job(tmp_path), small_people()
    with pytest.raises(Stop):
        job.run(stop_after=4)
    moved = Histogram(
        spine=people.spine, schema=people.schema, leaves=Counts.from_dense(people.leaves.dense()[[0, 1, 2, 3, 5, 4]])
    )
    with pytest.raises(InputError, match="this key was first used on other people"):
        job.run(truth=moved)
    job.run()
    assert job.said[0].startswith("resuming: ")


def test_a_changed_part_is_solved_again_and_the_release_is_the_same(tmp_path):
    job = Job(tmp_path)
    whole = contents(job.run(name="whole", seed=1))
    with pytest.raises(Stop):
        job.run(stop_after=4, seed=1)  # a seed: with other noise, the failsafe may change the names of parts
    part = tmp_path / ".out.work" / "1-0-0-1.part"
    stored = bytearray(part.read_bytes())
    stored[-300] ^= 1  # somewhere in the counts
    part.write_bytes(stored)
    assert contents(job.run(seed=1)) == whole
    assert job.said[1] == f"{part}: changed or damaged since it was written; this part is computed again"
    kept = int(job.said[0].split()[1])
    assert job.said[2] == f"resumed: {kept - 1} parents were kept, {PARENTS - kept + 1} were solved now"


def test_a_run_without_a_key_keeps_nothing_and_says_so(tmp_path):
    job = Job(tmp_path)
    with pytest.raises(Stop) as stopped:
        job.run(stop_after=4, key=RunKey.from_system())
    assert not hasattr(stopped.value, "__notes__")
    assert job.left() == []
    job.run(key=RunKey.from_system(), resume=True)
    assert job.said == ["nothing to resume: without --key-file, an interrupted run keeps nothing; this run starts anew"]


def test_a_run_without_a_key_does_not_touch_work_that_is_to_be_resumed(tmp_path):
    job = Job(tmp_path)
    with pytest.raises(Stop):
        job.run(stop_after=4)
    with pytest.raises(FolderError, match=r"belongs to a run with a key file or seed. Name the same one"):
        job.run(key=RunKey.from_system(), resume=True)
    job.run(key=RunKey.from_system())
    assert job.said == ["the work of an interrupted run was removed: this run has no key file, and starts anew"]
    assert job.left() == ["out"]


def test_a_disk_that_is_full_when_the_release_is_written_keeps_the_work(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    job = Job(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("tallyveil.files.release_folder.certificate_file.certificate_bytes", full)
        with pytest.raises(
            EndedAfterNoise, match=r"No space left.*costs nothing more. Finished work is kept in .*work"
        ):
            job.run()
    assert job.left() == [".out.work"]
    job.run()
    assert job.said[-1] == "resumed: 5 parents were kept, 0 were solved now"


def test_a_run_that_would_end_in_the_same_way_again_keeps_nothing(tmp_path, monkeypatch):
    def wrong(*_, **__):
        raise InputError("the release is wrong.")

    monkeypatch.setattr("tallyveil.engine.topdown.check_counts", wrong)
    job = Job(tmp_path)
    with pytest.raises(EndedAfterNoise, match=r"the release is wrong. Noise had been drawn"):
        job.run()
    assert job.left() == []


def test_an_interruption_inside_a_compiled_kernel_is_an_interruption(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise SystemError("a kernel returned a result with an exception set") from Stop()

    monkeypatch.setattr("tallyveil.engine.topdown.solve_level", interrupted)
    with pytest.raises(Stop):
        Job(tmp_path).run()
    assert Job(tmp_path).left() == [".out.work"]  # the root


def test_work_that_cannot_be_kept_does_not_stop_the_run(tmp_path, monkeypatch):
    job = Job(tmp_path)
    whole = contents(job.run(name="whole"))

    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    assert contents(job.run()) == whole
    assert job.said[0].startswith(f"finished work cannot be kept in {tmp_path}/.out.work (No locks available)")


@pytest.mark.usefixtures("no_noise")
def test_a_release_that_does_not_fit_on_the_disk_is_refused_before_noise(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=900))
    with pytest.raises(FolderError, match=r"out: the release takes about \d+ kB, and only 900 bytes are free there"):
        Job(tmp_path).run()
    assert Job(tmp_path).left() == []
