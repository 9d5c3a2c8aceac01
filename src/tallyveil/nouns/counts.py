"""A sparse table of whole counts, units by cells, that stores only the non-zero entries (compressed rows).

A census block has about 8 non-empty cells out of 2,016, so memory grows with the number of non-empty cells rather than
with the number of possible ones. Three operations are compiled (:mod:`tallyveil.nouns.counts_kernels`) and never loop
over units in Python: building the table from entries in any order, summing runs of units (children to parents), and
summing groups of cells (a marginal query).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tallyveil._arrays import AnyIntegers, Bools, Integers
from tallyveil.errors import DataError
from tallyveil.nouns.counts_kernels import count_merged, fill_merged, look_up, sort_entries

PIECE = 1 << 20  # numbers that canonical bytes hold at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """A sparse table of whole counts, ``units`` by ``cells``.

    Attributes
    ----------
    start
        Unit ``u`` has the entries ``start[u]`` to ``start[u + 1]``.
    cell
        The cell of each entry, in increasing order within a unit.
    count
        The count of each entry, never zero.
    cells
        The number of cells that a unit can have.

    Examples
    --------
    >>> table = Counts.from_entries([0, 2, 2, 0], [1, 0, 1, 1], [5, 1, 2, 3], units=3, cells=2)
    >>> table.dense().tolist()
    [[0, 8], [0, 0], [1, 2]]
    """

    start: Integers
    cell: AnyIntegers
    count: AnyIntegers
    cells: int

    def __post_init__(self) -> None:
        for name in ("start", "cell", "count"):
            array = np.asarray(getattr(self, name)).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        ends = (int(self.start[0]), int(self.start[-1])) if len(self.start) else ()
        if ends != (0, len(self.cell)) or len(self.cell) != len(self.count) or (np.diff(self.start) < 0).any():
            raise DataError("start, cell and count do not fit together. Build the table with Counts.from_entries(...).")
        if len(self.cell) and not (self.count.min() > 0 and self.cell.min() >= 0 and self.cell.max() < self.cells):
            raise DataError(
                "counts must be above 0, in cells that exist. Build the table with Counts.from_entries(...)."
            )

    @classmethod
    def from_entries(
        cls, unit: ArrayLike, cell: ArrayLike, count: ArrayLike, *, units: int, cells: int, cell_name: str = "cell"
    ) -> Counts:
        """Build the table from entries in any order. Entries of the same unit and cell are added; zeros are dropped."""
        unit_, cell_ = _positions(unit, units, "unit"), _positions(cell, cells, cell_name)
        count_ = whole(count)
        if not unit_.ndim == cell_.ndim == count_.ndim == 1:
            raise DataError(
                f"entries have {unit_.ndim}, {cell_.ndim} and {count_.ndim} dimensions. Give three columns."
            )
        if not len(unit_) == len(cell_) == len(count_):
            raise DataError(
                f"{len(unit_):,} units, {len(cell_):,} cells and {len(count_):,} counts. Give one of each per row."
            )
        _refuse_negative(count_)
        if len(count_) and float(count_.max()) * len(count_) >= 2.0**62 and sum(map(int, count_)) >= 1 << 63:
            raise DataError(f"the counts sum to {sum(map(int, count_)):,}, too large for 64 bits. Correct the counts.")
        total = int(count_.sum(dtype=np.int64))
        start, sorted_cell, sorted_count = sort_entries(
            unit_.astype(np.int32 if units < 1 << 31 else np.int64, copy=False),
            cell_.astype(_cell_type(cells), copy=False),
            count_.astype(_count_type(total), copy=False),
            units,
        )
        return cls(start=start, cell=sorted_cell, count=sorted_count, cells=cells)

    @classmethod
    def from_dense(cls, table: ArrayLike) -> Counts:
        """Build the table from an array with one row per unit and one column per cell."""
        dense = whole(table)
        if dense.ndim != 2:
            raise DataError(f"the table has {dense.ndim} dimensions. Give one row per unit and one column per cell.")
        _refuse_negative(dense)
        unit, cell = np.nonzero(dense)
        return cls.from_entries(unit, cell, dense[unit, cell], units=dense.shape[0], cells=dense.shape[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        parts = ((self.start, other.start), (self.cell, other.cell), (self.count, other.count))
        return self.cells == other.cells and all(np.array_equal(mine, theirs) for mine, theirs in parts)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Counts({self.units:,} units x {self.cells:,} cells)"

    @property
    def units(self) -> int:
        """The number of units, including the empty ones."""
        return len(self.start) - 1

    @property
    def entries(self) -> int:
        """The number of non-empty cells over all units."""
        return len(self.cell)

    @property
    def nbytes(self) -> int:
        """The memory that the table takes, in bytes."""
        return self.start.nbytes + self.cell.nbytes + self.count.nbytes

    def total(self) -> int:
        """The sum of all counts."""
        return int(self.count.sum(dtype=np.int64))

    def part(self, first: int, last: int) -> Counts:
        """The counts of the units from ``first`` up to ``last`` (exclusive)."""
        start = self.start[first : last + 1]
        span = slice(int(start[0]), int(start[-1]))
        return Counts(start=start - start[0], cell=self.cell[span], count=self.count[span], cells=self.cells)

    def first_in(self, cells: Bools) -> tuple[int, int] | None:
        """The first unit, and its cell, with a count in one of these cells; None if there is none."""
        entry = np.flatnonzero(cells[self.cell])[:1]
        if not len(entry):
            return None
        return int(np.searchsorted(self.start, entry[0], side="right")) - 1, int(self.cell[entry[0]])

    def unit(self) -> Integers:
        """The unit of each entry."""
        return np.repeat(np.arange(self.units, dtype=np.int64), np.diff(self.start))

    def dense(self, first: int = 0, last: int | None = None) -> Integers:
        """Return the units from ``first`` up to ``last`` (exclusive) as an ordinary array."""
        start = self.start[first : None if last is None else last + 1]
        span = slice(int(start[0]), int(start[-1]))
        table = np.zeros((len(start) - 1, self.cells), dtype=np.int64)
        table[np.repeat(np.arange(len(start) - 1), np.diff(start)), self.cell[span]] = self.count[span]
        return table

    def summed(self, groups: Integers) -> Counts:
        """Sum runs of units: group ``g`` holds the units from ``groups[g]`` up to ``groups[g + 1]``."""
        return self.merged(groups, np.arange(self.cells, dtype=np.int32), self.cells)

    def merged(self, groups: Integers, row_of_cell: NDArray[np.int32], rows: int) -> Counts:
        """Sum runs of units and groups of cells at the same time: cell ``c`` is added to row ``row_of_cell[c]``."""
        starts, row_of_cell = self.start[groups], row_of_cell.view()
        row_of_cell.flags.writeable = False  # like those of queries: one type of array, so kernels are compiled once
        start = count_merged(starts, self.cell, row_of_cell, rows)
        cell = np.empty(start[-1], dtype=_cell_type(rows))
        count = np.empty(start[-1], dtype=_count_type(self.total()))
        fill_merged(starts, self.cell, self.count, row_of_cell, rows, start, cell, count)
        return Counts(start=start, cell=cell, count=count, cells=rows)

    def taken(self, units: Integers) -> Counts:
        """Return the counts of some units, in the requested order."""
        first, sizes = self.start[units], self.start[units + 1] - self.start[units]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        entry = np.arange(start[-1]) + np.repeat(first - start[:-1], sizes)
        return Counts(start=start, cell=self.cell[entry], count=self.count[entry], cells=self.cells)

    def looked_up(self, index: Integers, row_of_cell: NDArray[np.int32], rows: int) -> Integers:
        """Return the sums of groups of cells at the places ``unit * rows + row``; fast if the units are in order.

        >>> table = Counts.from_dense([[1, 2, 4], [0, 8, 16]])
        >>> table.looked_up(np.array([1, 2]), np.array([0, 1, 1], dtype=np.int32), 2).tolist()
        [6, 0]
        """
        out = np.empty(len(index), dtype=np.int64)
        look_up(self.start, self.cell, self.count, row_of_cell, rows, index, out)
        return out

    def canonical_bytes(self) -> Iterator[bytes]:
        """Yield the table as bytes that do not depend on the types of its arrays."""
        yield from self._canonical_start()
        for array, kind in ((self.cell, "<i4"), (self.count, "<i8")):
            for i in range(0, len(array), PIECE):
                yield array[i : i + PIECE].astype(kind).tobytes()

    def _canonical_start(self) -> Iterator[bytes]:
        yield f"{self.units} units, {self.cells} cells".encode()
        for i in range(0, len(self.start), PIECE):
            yield self.start[i : i + PIECE].astype("<i8").tobytes()


def stacked(parts: Sequence[Counts], cells: int) -> Counts:
    """Tables of the same cells, one below the other."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([0, *(part.entries for part in parts)])
    return Counts(
        start=np.concatenate([[0], *(part.start[1:] + end for part, end in zip(parts, ends, strict=False))]),
        cell=np.concatenate([np.empty(0, _cell_type(cells)), *(part.cell for part in parts)]),
        count=np.concatenate([np.empty(0, np.int32), *(part.count for part in parts)]),
        cells=cells,
    )


def whole(counts: ArrayLike, name: str = "count") -> AnyIntegers:
    """Convert numbers to an array of integers, and refuse a number that is not whole."""
    array = np.asarray(counts)
    if array.dtype.kind == "f":
        _refuse(array, array != np.floor(array), name, "is not whole. Give whole numbers")  # also NaN
        _refuse(array, np.abs(array) > 2.0**53, name, "is too large to be exact. Correct it, or give integers")
        return array.astype(np.int64)
    if array.dtype.kind == "b" or array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DataError(f"{name}s are {array.dtype}, not numbers. Read the column as whole numbers.")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        _refuse(array, array >= 1 << 63, name, "is too large for 64 bits. Correct it")
        return array.astype(np.int64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _refuse(array: NDArray[Any], wrong: Bools, name: str, why: str) -> None:
    """Raise an error that names the first wrong value and its row, if there is one."""
    if wrong.any():
        position = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(wrong)))
        value = np.atleast_1d(array)[position]
        raise DataError(f"row {position[0] + 1:,}: {name} {value} {why}.")


def _refuse_negative(counts: AnyIntegers) -> None:
    _refuse(counts, counts < 0, "count", "is negative. Counts of people are 0 or more")


def _positions(values: ArrayLike, limit: int, what: str) -> AnyIntegers:
    array = whole(values, what)
    if array.size and (array.min() < 0 or array.max() >= limit):
        _refuse(array, (array < 0) | (array >= limit), what, f"is not between 0 and {limit - 1}. Correct it")
    return array


def _cell_type(cells: int) -> DTypeLike:
    return np.uint16 if cells <= 1 << 16 else np.uint32


def _count_type(total: int) -> DTypeLike:
    return np.int32 if total < 1 << 31 else np.int64
