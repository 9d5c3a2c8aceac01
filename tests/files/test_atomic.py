"""Files and folders that appear complete or not at all, and what killed processes leave behind."""

import errno
import os
import stat

import pytest

from tallyveil.cli.protect import _key as protect_key
from tallyveil.errors import FolderError, InputError
from tallyveil.files.atomic import new_folder, refuse_unwritable, remove_unfinished, replacing
from tallyveil.files.ledger.lines import open_ledger
from tallyveil.files.locks import take_lock
from tallyveil.files.release_folder.signing import write_key_pair


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def left(tmp_path):
    """What a killed process leaves: a temporary folder and a temporary file, on which nobody holds a lock."""
    (tmp_path / ".out.abcd1234.unfinished" / "levels").mkdir(parents=True)
    (tmp_path / ".out.abcd1234.unfinished" / "levels" / "a.parquet").write_text("half")
    (tmp_path / ".out.efgh5678.unfinished").write_text("half")
    return tmp_path


def test_what_killed_processes_left_is_removed_by_the_next_one_that_writes_the_same_name(left):
    with new_folder(left / "out") as folder:
        assert names(left) == [folder.name]
    assert names(left) == ["out"]


def test_a_file_that_was_never_finished_is_removed_by_the_next_one_too(left):
    with replacing(left / "out") as file:
        file.write_text("whole")
    assert names(left) == ["out"]
    assert (left / "out").read_text() == "whole"


def test_what_another_process_is_still_writing_stays(left):
    def overtaken():
        with new_folder(left / "out") as slower, new_folder(left / "out") as faster:  # each holds a lock of its own
            remove_unfinished(left, "out")
            assert names(left) == sorted([slower.name, faster.name])

    with pytest.raises(FolderError, match=r"out exists. Name a new folder"):
        overtaken()
    assert names(left) == ["out"]


@pytest.mark.parametrize("name", [".outer.abcd1234.unfinished", "out.unfinished", ".out.txt", ".out.work"])
def test_nothing_else_is_removed(tmp_path, name):
    (tmp_path / name).write_text("mine")
    refuse_unwritable(tmp_path / "out")
    assert names(tmp_path) == [name]


def test_what_belongs_to_another_user_is_not_removed(left, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    remove_unfinished(left, "out")
    assert len(names(left)) == 2


def test_a_link_is_removed_at_most_and_never_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    (tmp_path / ".out.abcd1234.unfinished").symlink_to(tmp_path / "precious")
    with new_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "precious" / "file").read_text() == "mine"


def fail(writing, target, problem):
    """Begin to write a file or folder, and end with this problem."""
    with writing(target) as temporary:
        (temporary / "a" if temporary.is_dir() else temporary).write_text("half")
        raise problem


@pytest.mark.parametrize("writing", [new_folder, replacing])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_disk_that_fails_while_writing_is_one_line_and_leaves_nothing(tmp_path, number, writing):
    with pytest.raises(InputError, match=rf"out: cannot be written .{os.strerror(number)}.. Nothing was changed"):
        fail(writing, tmp_path / "out", OSError(number, os.strerror(number)))
    assert names(tmp_path) == []


@pytest.mark.parametrize("writing", [new_folder, replacing])
def test_memory_that_runs_out_while_writing_leaves_nothing(tmp_path, writing):
    with pytest.raises(MemoryError):
        fail(writing, tmp_path / "out", MemoryError())
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written_is_refused_without_a_trace(tmp_path, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    refuse_unwritable(tmp_path / "out")
    monkeypatch.setattr("tempfile.mkdtemp", read_only)
    with pytest.raises(FolderError, match=r"out: cannot be written .Read-only file system.. Name a folder in a folder"):
        refuse_unwritable(tmp_path / "out")
    assert names(tmp_path) == []


def test_nothing_is_written_into_a_finished_release_not_even_through_a_link(tmp_path):
    release = tmp_path / "release"
    (release / "levels").mkdir(parents=True)
    for name in ("certificate.json", "release.parquet"):
        (release / name).touch()
    (tmp_path / "link").symlink_to(release / "levels")
    for place in (release / "new", release / "levels" / "new", tmp_path / "link" / "new"):
        with pytest.raises(FolderError, match="release, which is finished"):
            refuse_unwritable(place)
        with pytest.raises(FolderError, match="release, which is finished"):
            write_key_pair(place)  # a secret, in a folder that will be published
        with pytest.raises(FolderError, match="release, which is finished"), open_ledger(place, create=True):
            pass
        with pytest.raises(FolderError, match="release, which is finished"):
            protect_key(None, place)
    assert len(names(release)) == 3
    refuse_unwritable(tmp_path / "beside")


def test_a_file_system_without_locks_is_written_to_and_nothing_is_taken_for_left_behind(left, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with new_folder(left / "out"):
        pass
    assert names(left) == [".out.abcd1234.unfinished", ".out.efgh5678.unfinished", "out"]


def test_a_lock_is_held_once_and_released_when_it_is_closed(tmp_path):
    first = take_lock(tmp_path / "lock", create=True)
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
    assert take_lock(tmp_path / "lock") is None
    os.close(first)
    second = take_lock(tmp_path / "lock")
    assert second is not None
    os.close(second)


def test_a_lock_on_a_file_that_is_gone_or_was_replaced_is_not_given(tmp_path, monkeypatch):
    import fcntl

    assert take_lock(tmp_path / "lock") is None
    (tmp_path / "lock").write_text("")
    flock = fcntl.flock

    def replaced(handle, how):
        (tmp_path / "lock").unlink()
        (tmp_path / "lock").write_text("")
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", replaced)
    assert take_lock(tmp_path / "lock") is None
