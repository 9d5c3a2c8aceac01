"""Linear algebra on one thread: sums of floating-point numbers depend on how a library divides them among threads.

A release must not depend on the number of cores, so the general path takes one. Several threads may be inside at once:
the first sets the limit and the last one out lifts it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
_inside = 0
_limit: Any = None
_found: tuple[int, Any] = (0, None)  # modules imported when the libraries were looked for, and the libraries


@contextmanager
def one_thread() -> Iterator[None]:
    """Run BLAS and LAPACK on one thread, whatever the machine has."""
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _libraries().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()


def _libraries() -> Any:
    """The libraries of linear algebra in this process, looked for again only after an import, which may load one."""
    from threadpoolctl import ThreadpoolController

    global _found
    if _found[0] != len(sys.modules):
        _found = len(sys.modules), ThreadpoolController()
    return _found[1]
