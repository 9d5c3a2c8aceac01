"""Counting a file of persons that does not fit into memory: piece by piece, on threads.

The counts of the pieces are added up in the order of the file, so the same wrong line is reported whatever the number
of threads. Memory grows with the number of distinct places and cells, not with the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import inlined
from tallyveil.errors import DataError
from tallyveil.files.formats.lines import PIECE_BYTES, Bytes, TextFile, in_order, pieces

BytesRead = Callable[[int, int], None]  # bytes read so far, bytes in the file

_BITS = 11
STRIDE = 1 << _BITS  # above any cell, and a key still holds the 15 digits of a block
_WAITING = 1 << 21  # entries that may wait before they are added up


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceCounts:
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

    def cells(self, first: int, last: int) -> PlaceCounts:
        """The entries of the cells ``first`` to ``last``, which are numbered anew from 0."""
        cell = self.cell
        kept = (first <= cell) & (cell < last)
        return PlaceCounts(key=self.key[kept] - first, count=self.count[kept])


@dataclass(frozen=True, kw_only=True, eq=False)
class PieceCounts:
    """What a kernel counted in a piece.

    ``status`` holds the number of lines, and the first and last byte of a wrong record, or zeros. A kernel only reports
    where it stopped; Python then finds out what is wrong there.
    """

    counts: PlaceCounts
    status: Integers
    units: tuple[Integers, Integers] | None = None


def count_pieces(
    source: TextFile,
    count: Callable[[Bytes], PieceCounts],
    *,
    explain: Callable[[bytes, bytes], str],
    starts: bytes,
    piece: int = PIECE_BYTES,
    threads: int = 2,
    progress: BytesRead | None = None,
    begun: bytes = b"",
    lines: int = 0,
) -> Iterator[PieceCounts]:
    """Count the rest of a file in pieces, each of which begins with a record (see ``pieces``).

    ``lines`` is the number of lines read before, and ``begun`` the bytes read after them. The first wrong record raises
    an error with the text that ``explain`` gives for the record and the part of the piece before it.
    """
    jobs = pieces(source, starts, size=piece, ahead=threads + 2, begun=begun)
    for data, part in in_order(count, jobs, threads):
        number, first, last = part.status
        lines += int(number)
        if last > 0:
            why = explain(data[first:last].tobytes(), data[:first].tobytes())
            raise DataError(f"{source.name}, line {lines:,}{why}")
        yield part
        if progress is not None:
            progress(source.position(), source.size)


def add_up(parts: Iterable[PlaceCounts]) -> PlaceCounts:
    """The sum of counts, added up as they arrive to save memory; its keys are sorted and distinct.

    >>> one = PlaceCounts(key=np.array([7, 3]), count=np.array([1, 2]))
    >>> add_up([one, one]).key.tolist(), add_up([one, one]).count.tolist()
    ([3, 7], [4, 2])
    """
    whole = PlaceCounts(key=np.empty(0, np.int64), count=np.empty(0, np.int64))
    waiting: list[PlaceCounts] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part.key)
        if size > max(_WAITING, len(whole.key) // 2):
            whole, waiting, size = _merged([whole, *waiting]), [], 0
    return _merged([whole, *waiting])


@inlined
def add_entry(key, count, size, latest, place, cell, number):  # type: ignore[no-untyped-def]
    """Add to the latest entry of a cell if it is of this place, else to a new one; returns the number of entries."""
    entry, wanted = latest[cell], place * STRIDE + cell
    if entry < size and key[entry] == wanted:
        count[entry] += number
        return size
    key[size], count[size], latest[cell] = wanted, number, size
    return size + 1


def _merged(parts: list[PlaceCounts]) -> PlaceCounts:
    key = np.concatenate([part.key for part in parts])
    count = np.concatenate([part.count for part in parts])
    if len(key) == 0:
        return PlaceCounts(key=key, count=count)
    order = np.argsort(key, kind="stable")  # nearly sorted as a rule, where this is fast
    key = key[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return PlaceCounts(key=key[first], count=np.add.reduceat(count[order], first))
