"""Locks that the operating system releases when their process ends, however it ends.

Work that is under way holds a lock on its file or folder. What nobody holds a lock on was left behind by a process that
was killed, and may be removed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def take_lock(path: Path, *, create: bool = False) -> int | None:
    """Lock a file or folder; gives a descriptor to close at the end, or None if somebody else holds the lock.

    None also means that the file was removed or replaced in the meantime. With ``create``, a missing file is made.

    Raises
    ------
    OSError
        The path cannot be opened, or its file system has no locks.
    """
    if fcntl is None:  # pragma: no cover
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
    try:
        handle = os.open(path, flags | _NO_LINKS, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None
