"""The work folder of a run: only whole, unchanged work of the same job and key is ever used."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from tallyveil.errors import FolderError
from tallyveil.files.work_folder import open_work, refuse_target, remove_work, work_path
from tallyveil.privacy import RunKey

JOB = {"people": [b"1", b"2"], "strategy": [b"even"], "options": [b"True"]}


def seal(seed: int = 1, **changed: bytes):
    return RunKey.from_seed(seed).seal({**JOB, **{part: [value] for part, value in changed.items()}})


class Run:
    """A run that keeps work for a target, and what it says."""

    def __init__(self, target: Path, *, resume: bool = False, seed: int = 1, **changed: bytes) -> None:
        self.said: list[str] = []
        self.folder = open_work(target, seal(seed, **changed), resume=resume, say=self.said.append)

    def __enter__(self):
        return self.folder

    def __exit__(self, *_) -> None:
        self.folder.close()


@pytest.fixture
def target(tmp_path):
    """The target of an interrupted run with two finished parts."""
    with Run(tmp_path / "out") as work:
        work.keep("root", b"first")
        work.keep("1-0-0-2", b"second")
    return tmp_path / "out"


def test_the_same_job_finds_its_parts_again(target):
    run = Run(target)
    with run as work:
        assert work.names() == ["1-0-0-2", "root"]
        assert (work.get("root"), work.get("1-0-0-2"), work.get("1-0-2-4")) == (b"first", b"second", None)
        work.remove()
    assert run.said == []
    assert list(target.parent.iterdir()) == []


def test_only_its_owner_can_read_the_folder(target):
    place = work_path(target)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o600}
    place.chmod(0o755)
    with Run(target):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"people": b"other"}, "other people"),
        ({"strategy": b"odd"}, "other strategy"),
        ({"strategy": b"odd", "options": b"False"}, "other strategy and options"),
        ({"seed": 2}, "its key differs"),
    ],
)
def test_work_of_another_job_is_removed_or_refused_and_never_used(target, changed, words):
    with pytest.raises(FolderError, match=rf"the work of another run \({words}\). Resume it with the same input"):
        Run(target, resume=True, **changed)
    with Run(target) as work:  # it is still there
        assert len(work.names()) == 2
    run = Run(target, **changed)
    with run as work:
        assert (work.names(), work.get("root")) == ([], None)
    assert run.said == [f"the work of another, interrupted run ({words}) was removed; this run starts anew"]


def damage(kind: str, file: Path) -> None:
    stored = file.read_bytes()
    changed = {
        "one bit": stored[:-1] + bytes([stored[-1] ^ 1]),
        "its mark": bytes([stored[0] ^ 1]) + stored[1:],
        "its end": stored[:-1],
        "everything": b"",
        "longer": stored + b"0",
    }
    file.write_bytes(changed[kind])


@pytest.mark.parametrize("kind", ["one bit", "its mark", "its end", "everything", "longer"])
def test_a_part_that_was_changed_is_found_said_and_removed(target, kind):
    file = work_path(target) / "root.part"
    damage(kind, file)
    run = Run(target)
    with run as work:
        assert (work.get("root"), work.get("1-0-0-2")) == (None, b"second")
    assert run.said == [f"{file}: changed or damaged since it was written; this part is computed again"]
    assert not file.exists()


def test_a_part_under_the_name_of_another_is_not_used(target):
    place = work_path(target)
    (place / "1-0-0-2.part").replace(place / "root.part")
    with Run(target) as work:
        assert work.get("root") is None


def test_a_part_of_another_job_is_not_used_even_if_the_job_file_is_forged(target):
    place = work_path(target)
    (place / "job.json").write_text(json.dumps(seal(strategy=b"odd").job))
    with Run(target, strategy=b"odd") as work:
        assert work.names() == ["1-0-0-2", "root"]
        assert work.get("root") is None


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", '{"people": 1}'])
def test_a_job_file_that_is_not_one_is_another_job(target, text):
    (work_path(target) / "job.json").write_text(text)
    with Run(target) as work:
        assert work.names() == []


def test_two_runs_do_not_use_one_folder(target):
    with Run(target):
        with pytest.raises(FolderError, match=r"out: another run is writing it .it uses .*out.work.. Wait until it"):
            Run(target)
        with pytest.raises(FolderError, match="another run is writing it"):
            remove_work(target)
    with Run(target) as work:
        assert len(work.names()) == 2


def test_a_folder_that_is_a_link_or_anothers_is_refused(target, tmp_path, monkeypatch):
    (tmp_path / ".x.work").symlink_to(work_path(target))
    (tmp_path / ".y.work").write_text("")
    for name in ("x", "y"):
        with pytest.raises(FolderError, match=rf"{name}.work: not a work folder of yours. Remove it, or name another"):
            Run(tmp_path / name)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(FolderError, match=r"out.work: not a work folder of yours"):
        Run(target)


def test_what_was_being_written_when_the_process_was_killed_is_not_used(target):
    half = work_path(target) / "2-0-0-9.part.writing"
    half.write_bytes(b"half")
    with Run(target) as work:
        assert work.names() == ["1-0-0-2", "root"]
    assert not half.exists()


def test_files_of_others_in_the_folder_are_never_removed(target):
    (work_path(target) / "thesis.txt").write_text("mine")
    with Run(target) as work:
        work.remove()
    assert [path.name for path in work_path(target).iterdir()] == ["thesis.txt"]


def test_a_part_that_became_a_folder_does_not_keep_the_others(target):
    (work_path(target) / "1-0-0-2.part").unlink()
    (work_path(target) / "1-0-0-2.part").mkdir()
    with Run(target) as work:
        assert work.get("1-0-0-2") is None
        work.remove()
    assert [path.name for path in work_path(target).iterdir()] == ["1-0-0-2.part"]


@pytest.mark.parametrize("name", ["root.part", "job.json"])
def test_nobody_waits_for_a_pipe_in_the_folder(target, name):
    (work_path(target) / name).unlink()
    os.mkfifo(work_path(target) / name)
    with Run(target) as work:
        assert work.get("root") is None


def test_a_run_without_a_key_removes_the_work_or_refuses_to_resume_it(target):
    with pytest.raises(FolderError, match=r"belongs to a run with a key file or seed. Name the same one to resume it"):
        remove_work(target, resume=True)
    assert remove_work(target)
    assert not remove_work(target)
    assert list(target.parent.iterdir()) == []


def test_work_of_a_target_that_is_complete_is_removed(target):
    target.mkdir()
    with pytest.raises(FolderError, match=r"out exists. Name a new folder"):
        refuse_target(target)
    assert list(target.parent.iterdir()) == [target]


def test_a_full_disk_ends_the_keeping_and_not_the_run(target, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run = Run(target)
    with run as work:
        monkeypatch.setattr(Path, "replace", full)
        work.keep("1-0-2-4", b"third")
        monkeypatch.undo()
        work.keep("1-0-4-6", b"fourth")
        assert work.names() == []
    words = "finished work can no longer be kept (No space left on device): if interrupted, this run starts anew"
    assert run.said == [words]
    assert sorted(path.name for path in work_path(target).iterdir()) == ["job.json", "lock"]


def test_a_disk_that_is_full_from_the_start_keeps_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    said = []
    monkeypatch.setattr(Path, "replace", full)
    assert open_work(tmp_path / "out", seal(), resume=False, say=said.append) is None
    assert said[0].startswith(f"finished work cannot be kept in {tmp_path}/.out.work (No space left on device)")
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_no_folder_can_be_made_keeps_nothing(tmp_path):
    said = []
    assert open_work(tmp_path / "nowhere" / "out", seal(), resume=False, say=said.append) is None
    assert said[0].startswith(
        f"finished work cannot be kept in {tmp_path}/nowhere/.out.work (No such file or directory)"
    )
