"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from tallyveil.errors import InputError


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to; it takes the name when all went well, and is removed otherwise."""
    target = Path(path)
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
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    except OSError as problem:
        raise InputError(f"{target}: cannot be written ({problem.strerror}). Nothing was changed.") from None
    finally:
        temporary.unlink(missing_ok=True)
