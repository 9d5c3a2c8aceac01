"""The work folder of a run: finished parts of it, so that an interrupted run can be resumed.

For a target ``release`` it is ``.release.work`` in the same folder, readable by its owner only. It is removed when the
run has written its release. It contains

- ``job.json``: a keyed digest of each part of the job (people, strategy, options, versions), which reveals nothing
  without the run's key. Work of another job is never used.
- ``NAME.part``: a finished part, after 32 bytes that only the run's key can compute from it. A part that was edited,
  renamed or damaged is recognised, removed, and computed again.
- ``lock``: locked while a process uses the folder. Work that nobody uses and that is of no use to the next run with the
  same target is removed by that run.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tallyveil.errors import FolderError
from tallyveil.files.atomic import refuse_unwritable
from tallyveil.files.locks import take_lock

if TYPE_CHECKING:
    from tallyveil.privacy.entropy import Seal

Say = Callable[[str], None]

_JOB, _LOCK = "job.json", "lock"
_PART, _WRITING = ".part", ".writing"
_MARK = 32  # bytes
_UNTRUSTED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def work_path(target: str | PathLike[str]) -> Path:
    """The work folder of a target.

    >>> work_path("/data/release").name
    '.release.work'
    """
    place = Path(target).absolute()
    return place.with_name(f".{place.name}.work")


def refuse_target(target: str | PathLike[str]) -> None:
    """Refuse a target that exists or cannot be written. One that exists is complete, and needs its work no longer."""
    if os.path.lexists(target):
        with suppress(FolderError):  # in use, or not ours
            remove_work(target)
    refuse_unwritable(target)


def open_work(target: str | PathLike[str], seal: Seal, *, resume: bool, say: Say) -> WorkFolder | None:
    """The work folder of a run that has a key: an interrupted run's if it was the same job, otherwise a new one.

    With ``resume``, work of another job is refused instead of removed. None if no work can be kept there.

    Raises
    ------
    FolderError
        Another process is using the folder, or it is not ours.
    """
    path = work_path(target)
    try:
        if not os.path.lexists(path):
            path.mkdir(mode=0o700)
        _refuse_others_folder(path)
        lock = take_lock(path / _LOCK, create=True)
    except OSError as problem:
        say(_cannot_keep(path, problem))
        return None
    if lock is None:
        raise _in_use(target, path)
    folder = WorkFolder(path, seal, lock, say)
    try:
        folder.begin(resume=resume)
    except OSError as problem:
        folder.remove()
        folder.close()
        say(_cannot_keep(path, problem))
        return None
    except BaseException:
        folder.close()
        raise
    return folder


def remove_work(target: str | PathLike[str], *, resume: bool = False) -> bool:
    """Remove a target's work folder, for a run that cannot use it; gives whether there was one.

    A folder that another process uses is refused. With ``resume``, so is any work, which only lacks its key.
    """
    path = work_path(target)
    if not os.path.lexists(path):
        return False
    _refuse_others_folder(path)
    try:
        lock = take_lock(path / _LOCK, create=True)
    except OSError:
        return False
    if lock is None:
        raise _in_use(target, path)
    try:
        if resume and any(_parts(path)):
            raise FolderError(
                f"{path}: this work belongs to a run with a key file or seed. Name the same one to resume it, or leave "
                f"out --resume to start anew."
            )
        _remove(path)
    finally:
        os.close(lock)
    return True


@final
class WorkFolder:
    """Finished parts of one job by name. May be used from several threads."""

    def __init__(self, path: Path, seal: Seal, lock: int, say: Say) -> None:
        self.path = path
        self._seal, self._lock, self._say = seal, lock, say
        self._keeping, self._told, self._guard = True, False, threading.Lock()

    def begin(self, *, resume: bool) -> None:
        """Use the parts of the same job, and remove (or refuse) those of another."""
        self.path.chmod(0o700)
        for entry in self.path.glob(f"*{_WRITING}"):
            entry.unlink(missing_ok=True)
        there = _read_job(self.path)
        if there == self._seal.job:
            return
        if any(_parts(self.path)):
            differ = [part for part, digest in self._seal.job.items() if there.get(part) != digest]
            what = "its key differs" if len(differ) == len(self._seal.job) else f"other {' and '.join(differ)}"
            if resume:
                raise FolderError(
                    f"{self.path}: this is the work of another run ({what}). Resume it with the same input, options "
                    f"and versions, or leave out --resume to start anew."
                )
            self._say(f"the work of another, interrupted run ({what}) was removed; this run starts anew")
        for file in _ours(self.path):
            if file.name != _LOCK:
                file.unlink(missing_ok=True)
        self._write(_JOB, json.dumps(self._seal.job, indent=2, sort_keys=True).encode() + b"\n")

    def names(self) -> list[str]:
        """The names of the parts that are kept."""
        return sorted(file.name.removesuffix(_PART) for file in _parts(self.path))

    def get(self, name: str) -> bytes | None:
        """A part, or None if it is not kept or is no longer what was kept."""
        file = self.path / f"{name}{_PART}"
        try:
            stored = _read_file(file)
        except OSError:
            return None
        mark, content = stored[:_MARK], stored[_MARK:]
        if self._seal.holds(name, content, mark):
            return content
        file.unlink(missing_ok=True)
        self._say(f"{file}: changed or damaged since it was written; this part is computed again")
        return None

    def keep(self, name: str, content: bytes) -> None:
        """Keep a part. If there is no room, nothing is kept from then on, and the run goes on without."""
        if self._keeping:
            try:
                self._write(f"{name}{_PART}", self._seal.mark(name, content) + content)
            except OSError as problem:
                self._stop_keeping(problem)

    def remove(self) -> None:
        """Remove the folder; the run is complete, or would end in the same way again."""
        _remove(self.path)

    def close(self) -> None:
        """Let other processes use the folder."""
        os.close(self._lock)

    def _write(self, name: str, stored: bytes) -> None:
        """Write a file of the folder completely or not at all; what a power cut damages is recognised by its mark."""
        temporary = self.path / f"{name}{_WRITING}"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as out:
                out.write(stored)
            temporary.replace(self.path / name)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def _stop_keeping(self, problem: OSError) -> None:
        with self._guard:
            if not self._keeping:
                return
            self._keeping = False
        for file in _parts(self.path):
            with suppress(OSError):
                file.unlink(missing_ok=True)
        self._say(f"finished work can no longer be kept ({problem.strerror}): if interrupted, this run starts anew")


def _refuse_others_folder(path: Path) -> None:
    """Refuse a work folder that is a link, not a folder, or another user's: it could be exchanged while it is used."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise FolderError(f"{path}: not a work folder of yours. Remove it, or name another target.")


def _cannot_keep(path: Path, problem: OSError) -> str:
    return f"finished work cannot be kept in {path} ({problem.strerror}): if interrupted, this run would start anew"


def _in_use(target: str | PathLike[str], path: Path) -> FolderError:
    return FolderError(f"{target}: another run is writing it (it uses {path}). Wait until it ends, or name another.")


def _read_file(path: Path) -> bytes:
    """The content of a regular file; a link is not followed, and nobody waits for the other end of a pipe."""
    with os.fdopen(os.open(path, os.O_RDONLY | _UNTRUSTED), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return file.read()


def _read_job(path: Path) -> dict[str, Any]:
    try:
        there = json.loads(_read_file(path / _JOB))
    except (OSError, ValueError):
        return {}
    return there if isinstance(there, dict) else {}


def _ours(path: Path) -> Iterator[Path]:
    """The files that a work folder has; nothing else is ever removed."""
    for file in sorted(path.iterdir()):
        if file.name in (_JOB, _LOCK) or file.suffix in (_PART, _WRITING):
            yield file


def _parts(path: Path) -> Iterator[Path]:
    return path.glob(f"*{_PART}")


def _remove(path: Path) -> None:
    """Remove a folder whose lock is held; the lock itself last, so that nobody begins to use what is being removed."""
    with suppress(OSError):
        for file in sorted(_ours(path), key=lambda file: file.name == _LOCK):
            with suppress(OSError):  # a folder of this name is not ours
                file.unlink(missing_ok=True)
        path.rmdir()
