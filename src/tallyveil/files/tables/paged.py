"""Counts in a Parquet file that are brought into memory by row groups, each time they are asked for.

For people who would not keep the limit on memory. Their rows must be in the order of the list of units, so that the
counts of a run of units are in a few row groups. The file is read several times, and what was read first must still be
there: a file that changes in between is refused.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import final

import numpy as np

from tallyveil._arrays import AnyIntegers, Integers
from tallyveil._memory import limit_in_force, refuse_beyond_limit, resident
from tallyveil.errors import DataError
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.entries import Entries, wide_columns
from tallyveil.files.tables.form import PLAIN
from tallyveil.files.tables.sources import RowGroups, Source, is_parquet
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.paged_counts import PagedCounts
from tallyveil.nouns.spine import Spine

COUNT_BYTES = 80  # of memory that a count takes at most while all are read at once, solved and written


def reads_in_pages(source: Source, book: Codebook) -> bool:
    """Whether the rows of a table would not keep the limit on memory, and can be read in parts instead."""
    limit = limit_in_force()
    if limit is None or book.form != PLAIN or book.person is not None or not isinstance(source, str | PathLike):
        return False
    path = Path(source)
    if not path.is_file() or not is_parquet(path):
        return False
    in_row = len(wide_columns(book)) if book.layout == "wide" else 1
    with RowGroups(path) as groups:
        return resident() + COUNT_BYTES * in_row * sum(groups.sizes) > limit and len(groups.sizes) > 1


def read_pages(path: str | PathLike[str], book: Codebook, spine: Spine) -> PagedCounts:
    """The counts of a table, of which no more than a few row groups are in memory.

    Raises
    ------
    DataError
        The rows are not in the order of the units, or something else is wrong with them.
    """
    groups = _Groups(RowGroups(Path(path)), book, spine)
    pages, start = groups.pages()
    first_unit = np.array([*(page.first for page in pages), len(start) - 1])
    fetch = _Fetch(groups, pages, first_unit.tolist())
    return PagedCounts(start=start, first_unit=first_unit, fetch=fetch, cells=book.schema.cells)


@dataclass(frozen=True)
class _Page:
    """The units from ``first`` up to the next page have all their rows in the groups ``begins`` to ``ends``."""

    first: int
    begins: int
    ends: int


Rows = tuple[AnyIntegers, AnyIntegers, AnyIntegers]  # unit, cell and count


@final
class _Groups:
    """Row groups as entries of a spine."""

    def __init__(self, groups: RowGroups, book: Codebook, spine: Spine) -> None:
        self._groups, self._spine, self._cells, self.name = groups, spine, book.schema.cells, groups.name
        self._entries = Entries(book, spine)

    def rows(self, begins: int, ends: int) -> Rows:
        """The entries of some groups; a row that is there twice is refused."""
        self._entries.forget()
        self._entries.read(self._groups.batch(group) for group in range(begins, ends))
        return self._entries.on(self._spine)

    def pages(self) -> tuple[list[_Page], Integers]:
        """Pages of complete units, and where the entries of each unit start."""
        units = self._spine.size(self._spine.leaf)
        sizes = np.zeros(units, np.int64)
        pages: list[_Page] = []
        held: Rows = (np.empty(0, np.int32),) * 3  # of the last unit, which may go on in the next group
        first = begins = 0
        for group in range(len(self._groups.sizes)):
            refuse_beyond_limit(f"reading {self.name}")
            read = self.rows(group, group + 1)
            unit, cell, count = (np.concatenate(both) for both in zip(held, read, strict=True))
            if not len(unit):
                continue
            self._refuse_disorder(unit)
            last = int(unit[-1])
            complete = int(np.searchsorted(unit, last))
            if complete:
                sizes[first:last] = self._sizes((unit[:complete], cell[:complete], count[:complete]), first, last)
                pages.append(_Page(first, begins, group + 1))
                first, begins = last, group
            held = unit[complete:], cell[complete:], count[complete:]
        sizes[first:] = self._sizes(held, first, units)
        pages.append(_Page(first, begins, len(self._groups.sizes)))
        return pages, np.append(0, np.cumsum(sizes))

    def counts(self, rows: Rows, first: int, last: int) -> Counts:
        """The counts of the units from ``first`` up to ``last``."""
        unit, cell, count = rows
        kept = slice(*np.searchsorted(unit, [first, last]).tolist())
        return Counts.from_entries(
            unit[kept] - first, cell[kept], count[kept], units=last - first, cells=self._cells
        )  # fmt: skip

    def _sizes(self, rows: Rows, first: int, last: int) -> Integers:
        return np.diff(self.counts(rows, first, last).start)

    def _refuse_disorder(self, unit: AnyIntegers) -> None:
        falls = np.flatnonzero(np.diff(unit) < 0)
        if len(falls):
            codes = (bytes(self._spine.codes[-1][unit[falls[0] + i]]).decode() for i in (0, 1))
            one, other = (f"{self._spine.leaf} {code!r}" for code in codes)
            raise DataError(
                f"{self.name}: {one} comes before {other}, which is before it in the order of units. To protect "
                f"people who do not fit into the memory allowed, sort the rows by unit, or allow more (--memory)."
            )


@final
@dataclass(eq=False)
class _Fetch:
    """Brings a page into memory, and refuses one that is not as it was."""

    groups: _Groups
    pages: list[_Page]
    first_unit: list[int]
    seen: dict[int, int] = field(default_factory=dict)

    def __call__(self, number: int) -> Counts:
        page = self.pages[number]
        try:
            rows = self.groups.rows(page.begins, page.ends)
        except DataError:
            if number in self.seen:  # it was right before
                raise self._changed() from None
            raise
        counts = self.groups.counts(rows, page.first, self.first_unit[number + 1])
        check = 0
        for array in (counts.start, counts.cell, counts.count):
            check = zlib.crc32(array.tobytes(), check)
        if self.seen.setdefault(number, check) != check:
            raise self._changed()
        return counts

    def _changed(self) -> DataError:
        return DataError(f"{self.groups.name}: the file changed while it was read. Leave it as it is, and start again.")
