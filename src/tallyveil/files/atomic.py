"""Files and folders that appear complete or not at all.

They are written under a temporary name beside the final one, ``.NAME.XXXXXXXX.unfinished``, on which the process holds
a lock. A process that is killed cannot remove what it was writing; the next one that writes the same NAME does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from threading import Lock

from tallyveil.errors import FolderError, InputError
from tallyveil.files.locks import take_lock

_UNFINISHED = ".unfinished"

_ONE_AT_A_TIME = Lock()  # tables are written on several threads, and the umask belongs to the process


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to; it is renamed to ``path`` on success and removed on failure."""
    target = Path(path)
    with _beside(target) as temporary:
        try:
            yield temporary
            _settle(temporary)
            temporary.replace(target)
        except OSError as problem:
            raise InputError(f"{target}: cannot be written ({_reason(problem)}). Nothing was changed.") from None


@contextmanager
def replacing_together(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Temporary files that replace several existing files: all of them on success, none on failure.

    Only a machine that stops between two renames can leave a mixture of old and new files, each of them complete.
    """
    with ExitStack() as stack:
        temporary = [stack.enter_context(_beside(path)) for path in paths]
        yield temporary
        kept = [stack.enter_context(_beside(path)) for path in paths]
        try:
            for path, old, new in zip(paths, kept, temporary, strict=True):
                _settle(new)
                _keep(path, old)
        except OSError as problem:
            raise InputError(f"{paths[0]}: cannot be replaced ({_reason(problem)}). Nothing was changed.") from None
        try:
            for path, new in zip(paths, temporary, strict=True):
                new.replace(path)
        except BaseException:
            for path, old in zip(paths, kept, strict=True):
                old.replace(path)
            raise


@contextmanager
def new_folder(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``path`` to fill; it is renamed to ``path`` on success and removed on failure."""
    target = Path(path).absolute()
    refuse_existing(target)
    with _beside(target, folder=True) as temporary:
        try:
            yield temporary
            for folder in [*(path for path in temporary.rglob("*") if path.is_dir()), temporary]:
                _sync(folder)
            temporary.chmod(0o777 & ~_umask())
            refuse_existing(target)
            temporary.rename(target)
            _sync(target.parent)
        except OSError as problem:
            raise FolderError(f"{target}: cannot be written ({_reason(problem)}). Nothing was changed.") from None


def refuse_existing(folder: str | PathLike[str]) -> None:
    """Refuse a path that exists already, or whose parent folder does not exist."""
    if os.path.lexists(folder):
        raise FolderError(f"{folder} exists. Name a new folder; nothing is overwritten.")
    if not Path(folder).absolute().parent.is_dir():
        raise FolderError(f"{folder}: there is no folder {Path(folder).parent}. Make it, or name another place.")
    refuse_inside_release(folder)


def refuse_inside_release(path: str | PathLike[str]) -> None:
    """Refuse a path inside the folder of a finished release, whose certificate lists every file in it.

    That holds for a path through a link, too.
    """
    place = Path(path).absolute()
    for folder in dict.fromkeys((*place.parents, *(place.parent.resolve() / place.name).parents)):
        if all((folder / name).is_file() for name in ("certificate.json", "release.parquet")):
            raise FolderError(f"{path} is inside the release {folder}, which is finished. Name another place.")


def refuse_unwritable(folder: str | PathLike[str]) -> None:
    """Refuse a path that exists already or cannot be made, before any work is done. Nothing stays behind."""
    refuse_existing(folder)
    with _beside(Path(folder).absolute(), folder=True):
        pass


def remove_unfinished(parent: Path, name: str | None = None) -> None:
    """Remove what killed processes left behind of ``parent / name``, or of everything in ``parent``."""
    start = "." if name is None else f".{name}."
    with suppress(OSError), os.scandir(parent) as entries:
        for path in [Path(entry.path) for entry in entries if entry.name.startswith(start)]:
            if is_unfinished(path):
                _remove_unless_locked(path)


def is_unfinished(path: Path) -> bool:
    """Whether a path has the name of a temporary file or folder."""
    return path.name.startswith(".") and path.name.endswith(_UNFINISHED)


def _remove_unless_locked(path: Path) -> None:
    """Remove a file or folder of ours on which no process holds a lock; leave it where that cannot be known."""
    with suppress(OSError):
        if path.lstat().st_uid != os.geteuid():
            return
        handle = take_lock(path)
        if handle is not None:
            try:
                _remove(path)
            finally:
                os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _beside(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """An empty temporary file or folder beside ``target``; it is removed at the end if it still has this name."""
    remove_unfinished(target.parent, target.name)
    try:
        temporary, handle = _locked_new(target, folder=folder)
    except OSError as problem:
        what, error = ("folder", FolderError) if folder else ("file", InputError)
        raise error(f"{target}: cannot be written ({_reason(problem)}). Name a {what} in a folder you own.") from None
    try:
        yield temporary
    finally:
        _remove(temporary)
        if handle is not None:
            os.close(handle)


def _locked_new(target: Path, *, folder: bool) -> tuple[Path, int | None]:
    """A new temporary file or folder, and the lock on it.

    Before it is locked, another process may take it for one that was left behind; then the next one is made. Where a
    file system has no locks, nothing is ever taken for left behind.
    """
    start, parent = f".{target.name}.", str(target.parent)
    while True:
        if folder:
            temporary = Path(tempfile.mkdtemp(_UNFINISHED, start, parent))
        else:
            made, path = tempfile.mkstemp(_UNFINISHED, start, parent)
            os.close(made)
            temporary = Path(path)
        try:
            handle = take_lock(temporary)
        except OSError:
            return temporary, None
        if handle is not None:
            return temporary, handle


def _reason(problem: OSError) -> str:
    return os.strerror(problem.errno) if problem.errno else str(problem) or type(problem).__name__


def _keep(path: Path, old: Path) -> None:
    """Keep a file under another name: as a hard link where the file system supports it, otherwise as a copy."""
    old.unlink()
    try:
        old.hardlink_to(path)
    except OSError:
        shutil.copy2(path, old)


def _settle(temporary: Path) -> None:
    """Flush a file to disk, and give it the permissions of a new file."""
    _sync(temporary)
    temporary.chmod(0o666 & ~_umask())


def _umask() -> int:
    with _ONE_AT_A_TIME:
        umask = os.umask(0)  # it can only be read by setting it
        os.umask(umask)
    return umask


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
