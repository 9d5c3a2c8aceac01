"""Finished pieces that wait on disk, for a level that would take too much memory.

They are released counts, in a file without a name that nobody else can open and that ends with the process.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from tallyveil._arrays import AnyIntegers, Integers
from tallyveil.engine.pieces import Piece, account
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.paged_counts import PagedCounts
from tallyveil.release.solved import Solved


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AsidePiece:
    """Where a piece lies in the file, and the rest of it."""

    parents: int
    sizes: Integers
    solved: Solved
    at: int
    kinds: tuple[np.dtype[np.integer], np.dtype[np.integer]]


@final
class SetAside:
    """Takes pieces, and gives a level whose pages they are. ``folder`` is on the disk to use."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            self._file, self._end = os.dup(file.fileno()), 0
        weakref.finalize(self, os.close, self._file)

    def put(self, piece: Piece) -> AsidePiece:
        """Write the counts of a piece to disk."""
        aside = AsidePiece(
            parents=piece.parents, sizes=piece.sizes.astype(np.int32), solved=piece.solved, at=self._end,
            kinds=(piece.cell.dtype, piece.count.dtype),
        )  # fmt: skip
        for array in (piece.cell, piece.count):
            left = array.tobytes()
            while left:
                written = os.pwrite(self._file, left, self._end)
                self._end, left = self._end + written, left[written:]
        return aside

    def joined(self, pieces: Sequence[AsidePiece], cells: int) -> tuple[Counts, Solved]:
        """The counts of a level and one account of it, from all its pieces in order (see ``pieces.joined``)."""
        ends = np.cumsum([0, *(len(piece.sizes) for piece in pieces)])
        start = np.append(0, np.cumsum(np.concatenate([piece.sizes for piece in pieces]), dtype=np.int64))

        def fetch(page: int) -> Counts:
            own = np.append(0, np.cumsum(pieces[page].sizes, dtype=np.int64))
            cell, count = self._read(pieces[page], int(own[-1]))
            return Counts(start=own, cell=cell, count=count, cells=cells)

        counts = PagedCounts(start=start, first_unit=ends, fetch=fetch, cells=cells)
        return counts, account([piece.solved for piece in pieces])

    def _read(self, piece: AsidePiece, entries: int) -> Iterator[AnyIntegers]:
        at = piece.at
        for kind in piece.kinds:
            size = kind.itemsize * entries
            yield np.frombuffer(os.pread(self._file, size, at), kind)
            at += size
