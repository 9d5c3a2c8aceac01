"""An interrupted run is resumed: the same bytes, less work, no left-overs, and never the work of another run."""

import errno
import os
import pickle
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from small_release import small_facilities, small_people, small_strategy
from tallyveil import Counts, Histogram, Strategy, protect, protect_to_folder
from tallyveil.errors import EndedAfterNoise, FolderError, InputError, SecretError
from tallyveil.privacy import RunKey

PARENTS = 1 + 1 + 3  # the root itself, the root as a parent, and three counties


class Stop(BaseException):
    """An interruption, like Ctrl-C."""


@pytest.fixture(autouse=True)
def many_pieces(monkeypatch):
    monkeypatch.setattr("tallyveil.engine.level.CHUNK", 1)  # every parent is a piece


def stopping_after(pieces: int | None):
    """Progress that interrupts a run after so many pieces of it."""
    left = iter(range(pieces - 1, -1, -1)) if pieces else iter([])

    def progress(*_):
        if next(left, None) == 0:
            raise Stop

    return progress


class Job:
    """A job with a key file, which can be run to the end or interrupted."""

    def __init__(self, folder: Path, **changed) -> None:
        people = small_people()
        self.given = {
            "truth": people,
            "strategy": small_strategy(people),
            "facilities": small_facilities(people),
            "failsafe": True,
            **changed,
        }
        self.folder, self.said = folder, []

    def run(self, *, stop_after: int | None = None, name: str = "out", **how) -> Path:
        self.said.clear()
        if not {"key", "seed"} & how.keys():
            how["key"] = RunKey.from_file(self.folder / "key")
        given = {"threads": 1, **self.given, **how}
        target = self.folder / name
        protect_to_folder(
            given.pop("truth"), given.pop("strategy"), target,
            progress=stopping_after(stop_after), say=self.said.append, **given,
        )  # fmt: skip
        return target

    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("key"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
    whole = contents(job.run(name="whole"))
    with pytest.raises(Stop):
        job.run(stop_after=4)
    part = tmp_path / ".out.work" / "1-0-0-1.part"
    stored = bytearray(part.read_bytes())
    stored[-300] ^= 1  # somewhere in the counts
    part.write_bytes(stored)
    assert contents(job.run()) == whole
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


PLANTED = 48_271_963  # persons of one cell, with so much noise that it is certainly not released


def planted_people() -> Histogram:
    people = small_people()
    table = people.leaves.dense()
    table[[0, 1, 3, 5], 3] = PLANTED + np.array([0, 1_000_001, 2_000_003, 3_000_017])
    return Histogram(spine=people.spine, schema=people.schema, leaves=Counts.from_dense(table))


def needles(people: Histogram, key: bytes) -> list[bytes]:
    """Every count of the truth but the total of all people, and the key, as they might be written."""
    counts = {int(c) for level in people.spine.levels[1:] for c in people.at(level).dense().ravel() if c > 1000}
    counts |= {
        int(total) for level in people.spine.levels[1:] for total in people.at(level).dense().sum(1) if total > 1000
    }
    written = [form for c in counts for form in (str(c).encode(), f"{c:,}".encode(), c.to_bytes(4, "little"))]
    return [*written, key, key.hex().encode(), np.frombuffer(key, "<u4").astype(">u4").tobytes()]


def test_neither_the_key_nor_a_true_count_is_in_the_work_the_release_or_what_is_said(tmp_path):
    people, key = planted_people(), sha256(b"planted").digest()
    (tmp_path / "key").write_text(key.hex())
    (tmp_path / "key").chmod(0o600)
    job = Job(tmp_path, truth=people, strategy=Strategy.default(people.spine, people.schema, rho="1/10000000000"))
    with pytest.raises(Stop) as stopped:
        job.run(stop_after=PARENTS)
    hidden = needles(people, key)
    stored = contents(tmp_path / ".out.work")
    assert sum(name.endswith(".part") for name in stored) == PARENTS
    target = job.run(measurements=None)
    written = [*stored.values(), *stored.keys(), *contents(target).values(), *decoded(target)]
    written += ["\n".join(job.said), repr(stopped.value), str(stopped.value.__notes__)]
    for text in written:
        data = text if isinstance(text, bytes) else text.encode()
        assert not [needle for needle in hidden if needle in data]
    planted = PLANTED.to_bytes(4, "little")  # the search would find it: it is in the truth
    assert planted in people.leaves.count.astype("<i4").tobytes()
    assert planted in hidden


def decoded(folder: Path) -> list[bytes]:
    """The tables of a folder as numbers: Parquet compresses them."""
    import pandas as pd

    tables = [pd.read_parquet(path) for path in folder.rglob("*.parquet")]
    numbers = [
        table.select_dtypes("number").fillna(0).clip(-(2**31), 2**31 - 1).to_numpy(np.float64).astype("<i4").tobytes()
        for table in tables
    ]
    return [*numbers, *(table.to_csv().encode() for table in tables)]


def test_nothing_of_a_run_that_can_be_pickled_has_the_key_or_a_true_count():
    people, key = planted_people(), RunKey.from_seed(1)
    plan = Strategy.default(people.spine, people.schema, rho="1/10000000000")
    release = protect(people, plan, key=key, measurements=None)
    data = pickle.dumps(release)
    assert not [needle for needle in needles(people, key._bytes) if needle in data]
    for secret in (key, key.seal({"people": [b""]})):
        with pytest.raises(SecretError, match="cannot be pickled"):
            pickle.dumps(secret)
