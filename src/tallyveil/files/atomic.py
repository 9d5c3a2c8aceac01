"""Files and folders that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from threading import Lock

from tallyveil.errors import FolderError, InputError

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
            raise InputError(f"{target}: cannot be written ({problem.strerror}). Nothing was changed.") from None


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
            raise InputError(f"{paths[0]}: cannot be replaced ({problem.strerror}). Nothing was changed.") from None
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
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as problem:
        raise FolderError(
            f"{target}: cannot be written ({problem.strerror}). Name a folder in a folder you own."
        ) from None
    try:
        yield temporary
        for folder in [*(path for path in temporary.rglob("*") if path.is_dir()), temporary]:
            _sync(folder)
        temporary.chmod(0o777 & ~_umask())
        refuse_existing(target)
        temporary.rename(target)
        _sync(target.parent)
    except OSError as problem:
        raise FolderError(f"{target}: cannot be written ({problem.strerror}). Nothing was changed.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_existing(folder: str | PathLike[str]) -> None:
    """Refuse a path that exists already, or whose parent folder does not exist."""
    if os.path.lexists(folder):
        raise FolderError(f"{folder} exists. Name a new folder; nothing is overwritten.")
    if not Path(folder).absolute().parent.is_dir():
        raise FolderError(f"{folder}: there is no folder {Path(folder).parent}. Make it, or name another place.")


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """An empty temporary file beside another file; it is removed at the end if it still exists."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as problem:
        raise InputError(
            f"{target}: cannot be written ({problem.strerror}). Name a file in a folder you own."
        ) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


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
