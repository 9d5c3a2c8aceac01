"""Columns that only repeat people of other columns: totals and subtotals, known by arithmetic whatever they are called.

Empty cells and dashes count as nobody here, since the total of a row is what the other cells of the row add up to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.files.tables.draft.view import Column
from tallyveil.files.tables.draft.words import says_total

SEPARATORS = (" - ", ": ", "; ", ", ", "_", " ", "-", ".", "|", "/")
_SAMPLE = 5_000  # rows in which sums are compared
_FIRST = 40  # rows in which most candidates fail already
_MOST_COLUMNS = 400  # in wider tables, only all other columns and those of a common word are tried
_NEARLY = 0.9  # share of rows in which a sum must be equal; the reader reports the others
_ENOUGH = 3  # rows in which two or more parts add up: fewer may do so by chance

Values = Mapping[str, Floats]


def amounts(columns: Sequence[Column]) -> dict[str, Floats]:
    """The numbers in the first rows of each column; nobody where a cell is empty, NaN where it is not a number."""
    return {column.name: column.amounts[column.of_row[:_SAMPLE]] for column in columns}


def adds_up(total: Floats, parts: Sequence[Floats], *, share: float = _NEARLY) -> bool:
    """Whether parts sum to a total in nearly every row."""
    sums = np.sum(parts, axis=0)
    return bool(np.mean(sums == total) > share and (sums > 0).any())


def is_proven(total: Floats, parts: Sequence[Floats], *, enough: int = _ENOUGH) -> bool:
    """Whether parts sum to a total, in enough rows with people in two or more of them."""
    if not adds_up(total, parts):
        return False
    table = np.stack(parts)
    return int(((table > 0).sum(axis=0) > 1)[table.sum(axis=0) == total].sum()) >= enough


@dataclass(frozen=True, kw_only=True)
class ColumnSums:
    """Columns that are sums of others, and those that may be: they add up, but in too few rows to tell."""

    proven: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()


def sums_among(values: Values) -> ColumnSums:
    """The columns that are sums of others, whose own parts may be sums."""
    found: list[str] = []
    possible: list[str] = []
    for _ in values:
        before = len(found)
        for name in [name for name in values if name not in found]:
            cells = [cell for cell in values if cell not in found]
            parts = [parts for parts in _candidates(name, cells, values) if _may_be_sum(name, parts, values)]
            if any(says_total(name) or is_proven(values[name], [values[n] for n in some]) for some in parts):
                found.append(name)
            elif parts and name not in possible:
                possible.append(name)
        if len(found) == before:
            break
    return ColumnSums(proven=tuple(found), possible=tuple(name for name in possible if name not in found))


def _may_be_sum(name: str, parts: Sequence[str], values: Values) -> bool:
    head = slice(_FIRST)
    if len(parts) < 2 or not adds_up(values[name][head], [values[part][head] for part in parts], share=0.5):
        return False
    return adds_up(values[name], [values[part] for part in parts])


def _candidates(name: str, cells: Sequence[str], values: Values) -> Iterator[Sequence[str]]:
    """Sets of columns that a column may be the sum of: all others, its neighbours, or those that share a word."""
    place = cells.index(name)
    yield [cell for cell in cells if cell != name]
    if len(cells) <= _MOST_COLUMNS:
        yield from _runs(values[name], cells[place + 1 :], values)
        yield from (run[::-1] for run in _runs(values[name], cells[:place][::-1], values))
    for separator in SEPARATORS:
        for part in _parts(name, separator):
            yield from _with_part(name, part, separator, cells)


def _runs(total: Floats, cells: Sequence[str], values: Values) -> Iterator[Sequence[str]]:
    """Columns that follow one another and reach the total in the first rows, before they exceed it."""
    head, size = slice(_FIRST), np.zeros(len(total[:_FIRST]))
    for length, cell in enumerate(cells, start=1):
        size = size + values[cell][head]
        if length > 1 and np.mean(size == total[head]) > _NEARLY:
            yield cells[:length]
        if np.mean(size > total[head]) > 1 - _NEARLY:
            return


def _parts(name: str, separator: str) -> Iterable[tuple[str, str]]:
    pieces = name.split(separator)
    for i in range(1, len(pieces)):
        yield separator.join(pieces[:i]), separator.join(pieces[i:])


def _with_part(name: str, part: tuple[str, str], separator: str, cells: Sequence[str]) -> Iterator[Sequence[str]]:
    """The other columns that begin, or end, as a name does."""
    before, after = part[0] + separator, separator + part[1]
    yield [cell for cell in cells if cell != name and cell.startswith(before)]
    yield [cell for cell in cells if cell != name and cell.endswith(after)]
