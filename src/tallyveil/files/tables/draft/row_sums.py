"""Values whose rows only repeat people of other rows, known by arithmetic whatever they are called.

Let P be the people of a table. With a total of both sexes, a subtotal in each region and a grand total, its rows hold
6 P: the sexes together as many as their total, the regions twice as many as the grand total, the districts twice as
many as their subtotals. Values are therefore sought whose people are 1/2, 1/3, ... of all, and among them a set that
leaves P.

Sums should hold in each group of rows that the other columns make. If they hold in none, columns that take no part in
them, such as remarks, may have split the groups, and these columns are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.files.tables.draft.nesting import paths
from tallyveil.files.tables.draft.view import Column

_MOST_VALUES = 8  # values that are tried together
_MOST_TOGETHER = 4
_MOST_TIMES = 6  # totals of totals: how often people may be repeated
_NEARLY = 0.99  # share of groups in which sums must be equal
_ENOUGH = 4.0  # digits of all equal sums together: fewer may be equal by chance


@dataclass(frozen=True, kw_only=True)
class RowSum:
    """A value of a column whose rows are sums of others, and how many digits of the sums agree."""

    column: Column
    value: str
    digits: float

    @property
    def is_possible(self) -> bool:
        """Whether this should be asked about: sums below 10 are equal by chance in many small tables."""
        return self.digits >= 1

    @property
    def is_proven(self) -> bool:
        """Whether the sums can hardly be equal by chance."""
        return self.digits >= _ENOUGH


def not_numbers(column: Column) -> Bools:
    """The values of a column of numbers that are texts; all values of another column."""
    return column.present & ~column.gaps & np.isnan(column.numbers) if column.is_number else column.present


def find_sums(texts: Sequence[Column], numbers: Sequence[Floats], kept: Bools) -> list[RowSum]:
    """The values whose rows repeat people of all others: those of the largest set that explains all repetitions."""
    candidates = [(number, list(_values(texts, number, kept))[:_MOST_VALUES]) for number in numbers]
    for all_split in (True, False):
        for number, values in candidates:
            for size in range(min(_MOST_TOGETHER, len(values)), 0, -1):
                for chosen in combinations(values, size):
                    found = _explained(chosen, texts, numbers, number, kept, all_split=all_split)
                    if found and all(one.is_possible for one in found):
                        return found
    return []


def _values(texts: Sequence[Column], number: Floats, kept: Bools) -> Iterator[tuple[Column, int]]:
    """The values whose people are a half, a third, ... of all."""
    people = float(number[kept].sum())
    for column in texts:
        weights = np.bincount(column.of_row[kept], weights=number[kept], minlength=len(column.values))
        times = np.divide(people, weights, out=np.zeros_like(weights), where=weights > 0)
        among = not_numbers(column) if column.is_number and not column.is_code else column.present
        fits = (times >= 2) & (times <= _MOST_TIMES) & (times == np.floor(times)) & among
        if int((column.present & (weights > 0)).sum()) > 2:
            yield from ((column, int(place)) for place in np.flatnonzero(fits))


def _explained(
    chosen: Sequence[tuple[Column, int]],
    texts: Sequence[Column],
    numbers: Sequence[Floats],
    number: Floats,
    kept: Bools,
    *,
    all_split: bool,
) -> list[RowSum]:
    """The sums that values are, if the rows without any of them have all people once.

    ``all_split`` says that the sums must hold whichever column splits the rows, and not only some of the columns.
    """
    rows = [(column.of_row == place) & kept for column, place in chosen]
    rest = kept & ~np.any(rows, axis=0)
    found = []
    for (column, place), marked in zip(chosen, rows, strict=True):
        alone = marked & ~np.any([kept & False, *(other for other in rows if other is not marked)], axis=0)
        if not alone.any() or len(np.unique(column.of_row[rest])) < 2:  # a sum is one of several values
            return []
        splitting = _splitting(column, texts, alone, rest)
        group = _groups(splitting if all_split else _taking_part(splitting, number, alone, rest), alone)
        if not _agree(number, alone, rest, group):
            return []
        digits = sum(_digits(other, alone, rest, group) for other in numbers if _agree(other, alone, rest, group))
        found.append(RowSum(column=column, value=column.texts[place].as_py(), digits=digits))
    return found


def _splitting(column: Column, texts: Sequence[Column], alone: Bools, rest: Bools) -> list[Column]:
    """The other columns in which totals have values of other rows, so that a sum is one of rows with its values."""
    return [
        other
        for other in texts
        if other is not column and np.isin(np.unique(other.of_row[alone]), np.unique(other.of_row[rest])).all()
    ]


def _taking_part(columns: Sequence[Column], number: Floats, alone: Bools, rest: Bools) -> list[Column]:
    """As many of some columns as can split the rows while the sums still hold: remarks and the like cannot."""
    found: list[Column] = []
    for column in columns:
        if _agree(number, alone, rest, _groups([*found, column], alone)):
            found.append(column)
    return found


def _groups(columns: Sequence[Column], rows: Bools) -> Integers:
    """The group of each row, by the columns that split them."""
    return paths(columns) if columns else np.zeros(len(rows), dtype=np.int64)


def _agree(number: Floats, alone: Bools, rest: Bools, group: Integers) -> bool:
    inside, outside = _sums(number, alone, group), _sums(number, rest, group)
    return bool(inside.any() and np.mean((inside == outside)[(inside > 0) | (outside > 0)]) >= _NEARLY)


def _digits(number: Floats, alone: Bools, rest: Bools, group: Integers) -> float:
    """The digits of the sums of two or more rows that are equal."""
    inside, outside = _sums(number, alone, group), _sums(number, rest, group)
    several = np.bincount(group[rest & (number > 0)], minlength=len(inside)) > 1
    return float(np.log10(inside[several & (inside == outside) & (inside > 0)]).sum())


def _sums(number: Floats, rows: Bools, group: Integers) -> Floats:
    sums: Floats = np.bincount(group[rows], weights=number[rows], minlength=int(group.max()) + 1).astype(np.float64)
    return sums
