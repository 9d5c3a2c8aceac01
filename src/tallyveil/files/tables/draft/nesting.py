"""Which column determines which: the chain of levels that a table shows, whatever its columns are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.files.tables.draft.view import Column, View

_SLIPS = 0.01  # share of units that may lie in two parents, as mistakes that the reader will report
_SAMPLE = 5_000  # rows that are compared first: most pairs of columns differ among them already


@dataclass(frozen=True, kw_only=True)
class Nest:
    """How the values of a finer column lie in those of a coarser one."""

    units: int  # values of the finer column
    astray: int  # those that lie in several values of the coarser one
    example: str = ""  # one of these

    @property
    def holds(self) -> bool:
        """Whether each value lies in one, but for a few in a hundred that are taken for mistakes."""
        return self.astray <= _SLIPS * self.units


def nest(fine: Column, coarse: Column, *, exactly: bool = False) -> Nest:
    """Whether each value of one column lies in one value of another; rows without a value are left out.

    All rows are compared. Unless the number of values that go astray is needed exactly, columns that disagree in the
    first rows already are not looked at further.
    """
    units = fine.size
    astray = _astray(fine, coarse, slice(_SAMPLE))
    if len(fine.of_row) > _SAMPLE and (exactly or len(astray) <= _SLIPS * units):
        astray = _astray(fine, coarse, slice(None))
    return Nest(units=units, astray=len(astray), example=fine.texts[int(astray[0])].as_py() if len(astray) else "")


def paths(columns: Sequence[Column]) -> Integers:
    """The number of each row's path: rows with the same values in all columns have the same."""
    number = np.zeros(len(columns[0].of_row), dtype=np.int64)
    for column in columns:
        _, number = np.unique(number * len(column.values) + column.of_row, return_inverse=True)
    return number.astype(np.int64)


def count_paths(columns: Sequence[Column]) -> int:
    """The number of different paths."""
    return int(paths(columns).max(initial=-1)) + 1 if columns else 0


def same_units(one: Column, two: Column) -> bool:
    """Whether two columns say the same: each value of one goes with one value of the other."""
    alike = abs(one.size - two.size) <= 0.01 * one.size
    return alike and nest(one, two).holds and nest(two, one).holds


def follows_from(path: Integers, column: Column) -> bool:
    """Whether each path has one value of a column only, in rows that are enough to tell."""
    units = int(path.max(initial=-1)) + 1
    home = np.zeros(units, dtype=np.int64)
    home[path] = column.of_row
    return len(path) >= 2 and units > 1 and bool((home[path] == column.of_row).all())


def identify_rows(path: Integers, columns: Sequence[Column]) -> bool:
    """Whether nearly every row has its own path and values."""
    number = path
    for column in columns:
        _, number = np.unique(number * len(column.values) + column.of_row, return_inverse=True)
    return int(number.max(initial=-1)) + 1 >= 0.98 * len(path)


def most_have_one_row(path: Integers) -> bool:
    """Whether most paths are of one row: units have several rows if labels of people are in the rows."""
    return bool(np.mean(np.bincount(path) == 1) > 0.8) if len(path) else False


def longest_chain(
    view: View,
    candidates: Sequence[Column],
    weight: Callable[[Column], float],
    *,
    may_lie: Callable[[Column, Column], bool] = lambda _fine, _coarse: True,
) -> list[Column]:
    """The chain of columns, coarse to fine, each determining the one above, with the largest weight in all.

    Among chains of the same weight, the one with the most units at its end is taken. ``may_lie`` says of a finer and a
    coarser column whether the chain may have one in the other.
    """
    ordered = sorted(candidates, key=lambda column: (column.size, view.position(column.name)))
    best: dict[str, tuple[float, list[Column]]] = {}

    for column in ordered:
        above = [
            best[coarse.name]
            for coarse in ordered
            if coarse.size < column.size and may_lie(column, coarse) and nest(column, coarse).holds
        ]
        gained, chain = max(above, key=lambda found: found[0], default=(0.0, []))
        best[column.name] = (gained + weight(column), [*chain, column])
    _, chain = max(best.values(), key=lambda found: (found[0], found[1][-1].size), default=(0.0, []))
    return chain


def _astray(fine: Column, coarse: Column, rows: slice) -> Integers:
    """The values of the finer column that lie in several of the coarser one."""
    below, above = fine.of_row[rows], coarse.of_row[rows]
    if fine.missing or coarse.missing:
        kept = ~(fine.empty[below] | coarse.empty[above])
        below, above = below[kept], above[kept]
    home = np.full(len(fine.values), -1, dtype=np.int64)
    home[below[::-1]] = above[::-1]
    return np.unique(below[home[below] != above])
