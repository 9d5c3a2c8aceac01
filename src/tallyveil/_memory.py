"""A limit on the memory of this process, kept by measurement.

Resident memory is measured before each piece of work. While it is near the limit, pieces run one at a time. Reading
stops with an error where the limit is reached, and a run is refused before noise is drawn if what is in use, and what
protecting takes on top of it, would not fit. The limit belongs to the process, as its memory does.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from tallyveil.errors import InputError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NEAR = 0.8  # of the limit: from here on pieces run one at a time
_RESERVE = 0.95  # of the limit may be in use when reading goes on

_limit: int | None = None
_turns = Condition()
_running = 0


def memory_size(text: str) -> int:
    """Bytes of a size such as 500M or 4G, in powers of 1,024.

    >>> memory_size("4G"), memory_size("1.5 GiB")
    (4294967296, 1610612736)
    """
    parts = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if parts is None or float(parts[1]) == 0:
        raise InputError(f"memory must be a size such as 500M or 4G. Got {text!r} instead.")
    return int(float(parts[1]) * _UNITS[parts[2].upper()])


@contextmanager
def memory_limit(size: str | int | None) -> Iterator[None]:
    """Keep the memory of this process below a size such as ``"4G"`` while the block runs; None for no limit."""
    global _limit
    before, _limit = _limit, memory_size(size) if isinstance(size, str) else size
    try:
        yield
    finally:
        _limit = before


def limit_in_force() -> int | None:
    """The limit in bytes, if there is one."""
    return _limit


def resident() -> int:
    """Bytes of memory that this process uses now; the most it has used where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak()


def peak() -> int:
    """The most bytes of memory that this process has used so far."""
    try:
        import resource
    except ImportError:  # not on Windows
        raise InputError("memory cannot be measured on this system. Leave --memory out.") from None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def near_limit() -> bool:
    """Whether memory is so near the limit that work should wait for other work to end."""
    return _limit is not None and resident() > _NEAR * _limit


def refuse_beyond_limit(doing: str, instead: str = "") -> None:
    """Refuse to go on where the limit is reached; ``instead`` says what else could be done."""
    if _limit is not None and resident() > _RESERVE * _limit:
        raise InputError(
            f"{doing} takes more than the {gibibytes(_limit)} of memory allowed ({gibibytes(resident())} in use). "
            f"Allow more (--memory){instead}."
        )


def refuse_need(more: int, doing: str) -> None:
    """Refuse what would take ``more`` bytes than are in use now, if that is beyond the limit."""
    if _limit is not None and (needed := resident() + more) > _limit:
        raise InputError(
            f"{doing} needs about {gibibytes(needed)} of memory ({gibibytes(resident())} are in use, after reading), "
            f"and {gibibytes(_limit)} are allowed. Nothing was spent. Allow more (--memory), or give fewer units."
        )


@contextmanager
def turn() -> Iterator[None]:
    """Run a piece of work: at once, or alone if memory is near the limit."""
    global _running
    if _limit is None:
        yield
        return
    with _turns:
        while _running and near_limit():
            _turns.wait()
        _running += 1
    try:
        yield
    finally:
        with _turns:
            _running -= 1
            _turns.notify_all()


def gibibytes(size: int) -> str:
    """A size in words.

    >>> gibibytes(3 << 29)
    '1.50 GiB'
    """
    return f"{size / 2**30:.2f} GiB"
