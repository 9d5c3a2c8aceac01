"""Counting a file of persons that does not fit in memory: piece by piece on threads, added up as they come.

What the pieces hold is added up in the order of the file, so that the first wrong line is named whatever the number of
threads. Memory grows with the number of distinct places and cells, not with the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import inlined
from tallyveil.errors import DataError
from tallyveil.files.formats.lines import PIECE, Bytes, Source, in_order, pieces

Progress = Callable[[int, int], None]  # bytes read so far, bytes in the file

_BITS = 11
STRIDE = 1 << _BITS  # above any cell, and a key still holds the 15 digits of a block
_WAITING = 1 << 21  # entries that may wait before they are added up


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """Counts by key: the code of a place as a number, times STRIDE, plus a cell."""

    key: Integers
    count: Integers

    @property
    def place(self) -> Integers:
        """The code of each entry's place."""
        return self.key >> _BITS

    @property
    def cell(self) -> Integers:
        """The cell of each entry."""
        return self.key & (STRIDE - 1)

    def cells(self, first: int, last: int) -> Tally:
        """The entries of the cells ``first`` to ``last``, which are numbered anew from 0."""
        cell = self.cell
        kept = (first <= cell) & (cell < last)
        return Tally(key=self.key[kept] - first, count=self.count[kept])


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What a kernel found in a piece; ``status`` holds the number of lines, and the ends of a wrong one or zeros.

    A kernel only says where it stopped; what is wrong there is found out in Python, once.
    """

    tally: Tally
    status: Integers
    units: tuple[Integers, Integers] | None = None


def counted(
    source: Source,
    count: Callable[[Bytes], Found],
    *,
    explain: Callable[[bytes, bytes], str],
    starts: bytes,
    piece: int = PIECE,
    threads: int = 2,
    progress: Progress | None = None,
    begun: bytes = b"",
    lines: int = 0,
) -> Iterator[Found]:
    """Count the rest of a file in pieces; each begins after a line end that ``starts`` ends with or follows.

    ``lines`` were read before, and ``begun`` after them. The first wrong record is raised as ``explain`` words it,
    from the record and what stands before it in the piece.
    """
    jobs = pieces(source, starts, size=piece, ahead=threads + 2, begun=begun)
    for data, found in in_order(count, jobs, threads):
        number, first, last = found.status
        lines += int(number)
        if last > 0:
            why = explain(data[first:last].tobytes(), data[:first].tobytes())
            raise DataError(f"{source.name}, line {lines:,}{why}")
        yield found
        if progress is not None:
            progress(source.position(), source.size)


def added(tallies: Iterable[Tally]) -> Tally:
    """Add up tallies as they come, holding little more than their sum; keys rise, each standing once.

    >>> one = Tally(key=np.array([7, 3]), count=np.array([1, 2]))
    >>> added([one, one]).key.tolist(), added([one, one]).count.tolist()
    ([3, 7], [4, 2])
    """
    whole = Tally(key=np.empty(0, np.int64), count=np.empty(0, np.int64))
    waiting: list[Tally] = []
    size = 0
    for tally in tallies:
        waiting.append(tally)
        size += len(tally.key)
        if size > max(_WAITING, len(whole.key) // 2):
            whole, waiting, size = _merged([whole, *waiting]), [], 0
    return _merged([whole, *waiting])


@inlined
def tallied(key, count, size, latest, place, cell, number):  # type: ignore[no-untyped-def]
    """Add to the latest entry of a cell if it is of this place, otherwise to a new one; the number of entries."""
    entry, wanted = latest[cell], place * STRIDE + cell
    if entry < size and key[entry] == wanted:
        count[entry] += number
        return size
    key[size], count[size], latest[cell] = wanted, number, size
    return size + 1


def _merged(tallies: list[Tally]) -> Tally:
    key = np.concatenate([tally.key for tally in tallies])
    count = np.concatenate([tally.count for tally in tallies])
    if len(key) == 0:
        return Tally(key=key, count=count)
    order = np.argsort(key, kind="stable")  # nearly sorted as a rule, where this is fast
    key = key[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return Tally(key=key[first], count=np.add.reduceat(count[order], first))
