"""Counts that do not lie in memory: pages of units are fetched when they are asked for, and a few are kept.

They answer like other counts, one run of units at a time, so that measuring, checking and writing need no other code.
Whatever asks for all cells at once is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import NoReturn, final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import AnyIntegers, Bools, Integers
from tallyveil._workers import workers_ahead
from tallyveil.errors import InputError
from tallyveil.nouns.counts import PIECE, Counts, stacked

KEPT = 1 << 26  # bytes of pages that are kept
TOGETHER = 1 << 21  # entries of units that are summed together


@final
class PagedCounts(Counts):
    """Counts in pages.

    Parameters
    ----------
    start
        Unit ``u`` has the entries ``start[u]`` to ``start[u + 1]``.
    first_unit
        The first unit of each page, and behind them the number of units. No page is without units.
    fetch
        The counts of the units of a page, by its number. It is called by one thread at a time.
    cells
        The number of cells that a unit can have.
    """

    def __init__(self, *, start: Integers, first_unit: Integers, fetch: Callable[[int], Counts], cells: int) -> None:
        start.flags.writeable = False
        for name, value in {
            "start": start, "cells": cells, "_first_unit": first_unit, "_fetch": fetch, "_pages": OrderedDict(),
            "_lock": Lock(), "_sums": None,
        }.items():  # fmt: skip
            object.__setattr__(self, name, value)

    _first_unit: Integers
    _fetch: Callable[[int], Counts]
    _pages: OrderedDict[int, Counts]
    _lock: Lock
    _sums: tuple[Integers, Counts] | None

    @property
    def cell(self) -> NoReturn:
        """Refused: not all cells are in memory at once."""
        raise InputError(
            "these counts are read from disk in parts, because they would not keep the limit on memory, and this needs "
            "all of them. Allow more (--memory)."
        )

    count = cell

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        if self.cells != other.cells or not np.array_equal(self.start, other.start):
            return False
        return all(part == other.part(first, first + part.units) for first, part in self._all())

    __hash__ = None

    @property
    def entries(self) -> int:
        """The number of non-empty cells over all units."""
        return int(self.start[-1])

    @property
    def nbytes(self) -> int:
        """The memory that the table takes, in bytes."""
        return self.start.nbytes + KEPT

    def total(self) -> int:
        """The sum of all counts."""
        return self._sums[1].total() if self._sums is not None else sum(part.total() for _, part in self._all())

    def part(self, first: int, last: int) -> Counts:
        """The counts of the units from ``first`` up to ``last`` (exclusive), in memory."""
        pages = range(
            int(np.searchsorted(self._first_unit, first, side="right")) - 1,
            int(np.searchsorted(self._first_unit, last, side="left")) if last > first else 0,
        )
        return stacked([self._slice(page, first, last) for page in pages], self.cells)

    def dense(self, first: int = 0, last: int | None = None) -> Integers:
        """Return the units from ``first`` up to ``last`` (exclusive) as an ordinary array."""
        return self.part(first, self.units if last is None else last).dense()

    def merged(self, groups: Integers, row_of_cell: NDArray[np.int32], rows: int) -> Counts:
        """Sum runs of units and groups of cells at the same time; sums of all cells are kept for the next question."""
        if self._sums is not None:
            among = np.searchsorted(self._sums[0], groups)
            if np.array_equal(self._sums[0][np.minimum(among, len(self._sums[0]) - 1)], groups):
                return self._sums[1].merged(among, row_of_cell, rows)
        parts, first = [], 0
        while first < len(groups) - 1:
            ends = np.searchsorted(self.start[groups], self.start[groups[first]] + TOGETHER, side="right") - 1
            last = min(max(first + 1, int(ends)), len(groups) - 1)
            parts.append(self._merged(groups[first : last + 1], row_of_cell, rows))
            first = last
        return stacked(parts, rows)

    def summed(self, groups: Integers) -> Counts:
        """Sum runs of units. The first sums that are asked for are kept, since those of coarser levels follow."""
        if self._sums is not None and np.array_equal(self._sums[0], groups):
            return self._sums[1]
        sums = super().summed(groups)
        if self._sums is None:
            object.__setattr__(self, "_sums", (groups, sums))
        return sums

    def taken(self, units: Integers) -> Counts:
        """Return the counts of some units, in the requested order."""
        if len(units) == 0:
            return self.part(0, 0)
        first = int(units.min())
        return self.part(first, int(units.max()) + 1).taken(units - first)

    def looked_up(self, index: Integers, row_of_cell: NDArray[np.int32], rows: int) -> Integers:
        """Return the sums of groups of cells at the places ``unit * rows + row``."""
        if len(index) == 0:
            return np.empty(0, np.int64)
        first, last = int(index.min()) // rows, int(index.max()) // rows + 1
        return self.part(first, last).looked_up(index - first * rows, row_of_cell, rows)

    def first_in(self, cells: Bools) -> tuple[int, int] | None:
        """The first unit, and its cell, with a count in one of these cells."""
        if not cells.any():
            return None
        for first, part in self._all():
            found = part.first_in(cells)
            if found is not None:
                return first + found[0], found[1]
        return None

    def canonical_bytes(self) -> Iterator[bytes]:
        """Yield the table as bytes that do not depend on the types of its arrays, nor on its pages."""
        yield from self._canonical_start()
        for name, kind in (("cell", "<i4"), ("count", "<i8")):
            yield from _in_pieces((getattr(part, name).astype(kind) for _, part in self._all()), kind)

    def _all(self) -> Iterator[tuple[int, Counts]]:
        """All pages in order, each with its first unit; the next one is fetched while one is used."""
        with workers_ahead(1) as run:
            yield from zip(self._first_unit.tolist(), run(self._page, range(len(self._first_unit) - 1)), strict=False)

    def _slice(self, page: int, first: int, last: int) -> Counts:
        begins, ends = int(self._first_unit[page]), int(self._first_unit[page + 1])
        return self._page(page).part(max(first, begins) - begins, min(last, ends) - begins)

    def _page(self, page: int) -> Counts:
        with self._lock:
            counts = self._pages.pop(page, None)
            if counts is None:
                counts = self._fetch(page)
            self._pages[page] = counts
            while len(self._pages) > 1 and sum(kept.nbytes for kept in self._pages.values()) > KEPT:
                self._pages.popitem(last=False)
            return counts

    def _merged(self, groups: Integers, row_of_cell: NDArray[np.int32], rows: int) -> Counts:
        """The sums of groups that are brought into memory together; a large group is added up page by page."""
        first, last = int(groups[0]), int(groups[-1])
        if len(groups) > 2 or self.start[last] - self.start[first] <= TOGETHER:
            return self.part(first, last).merged(groups - first, row_of_cell, rows)
        sums = Counts.from_dense(np.zeros((1, rows), np.int64))
        for page in range(int(np.searchsorted(self._first_unit, first, side="right")) - 1, len(self._first_unit) - 1):
            if self._first_unit[page] >= last:
                break
            part = self._slice(page, first, last)
            more = part.merged(np.array([0, part.units]), row_of_cell, rows)
            sums = stacked([sums, more], rows).summed(np.array([0, 2]))
        return sums


def _in_pieces(arrays: Iterable[AnyIntegers], kind: str) -> Iterator[bytes]:
    """The bytes of arrays one behind the other, in the pieces in which one long array yields them."""
    held = np.empty(0, kind)
    for array in arrays:
        held = np.concatenate([held, array])
        while len(held) >= PIECE:
            yield held[:PIECE].tobytes()
            held = held[PIECE:]
    if len(held):
        yield held.tobytes()
