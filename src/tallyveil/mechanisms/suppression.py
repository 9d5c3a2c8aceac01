"""Suppression of small cells, as in the censuses before swapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import InputError
from tallyveil.mechanisms.noisy import People, people_of
from tallyveil.nouns.estimates import Estimates


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Suppressed:
    """Counts with small cells hidden.

    Attributes
    ----------
    estimates
        The counts as a reader may use them, the hidden cells filled in.
    hidden
        Which cells are hidden, units x rows.
    primary, complementary
        How many are hidden because they are small, and how many to protect those.
    """

    estimates: Estimates
    hidden: Bools
    primary: int
    complementary: int

    def __post_init__(self) -> None:
        self.hidden.flags.writeable = False

    def __repr__(self) -> str:
        return (
            f"Suppressed({self.primary:,} small cells and {self.complementary:,} more of {self.hidden.size:,} hidden)"
        )


def suppress(
    people: People,
    *,
    query: str,
    level: str,
    below: int,
    fill: Literal["zero", "half"] = "zero",
    complementary: bool = True,
) -> Suppressed:
    """Hide the counts from 1 to ``below - 1`` of each unit, and what would give one of them away.

    Where exactly one cell of a unit is hidden, the unit's total less the other cells is that cell; so the smallest
    other non-zero cell (the first, if several are) is hidden too, or an empty one where there is no other.

    This protects a cell against its own unit's total only. A reader who has the same counts of the unit above and of
    the siblings can often subtract; two hidden cells still bound each other; the same table of another year, or a
    finer query of the same units, may show what is hidden here. It is no differential privacy.

    Parameters
    ----------
    people
        The counts, or a synthetic census.
    query, level
        Which counts, of which units. All are held at once: units x rows.
    below
        The smallest count that may be shown.
    fill
        How the reader fills in a hidden cell: with 0, or with ``below / 2``, the middle of what small cells may be.
    complementary
        Whether to hide further cells as described.

    Examples
    --------
    >>> from tallyveil import Histogram, Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult", "old"]})
    >>> people = Histogram.from_entries(
    ...     spine, schema, unit=[0, 0, 0, 1, 1], cell=[0, 1, 2, 0, 1], count=[2, 40, 9, 5, 6]
    ... )
    >>> hidden = suppress(people, query="age", level="block", below=3)
    >>> hidden
    Suppressed(1 small cells and 1 more of 6 hidden)
    >>> hidden.estimates.answer("age", level="block").tolist()
    [[[0, 40, 0], [5, 6, 0]]]
    """
    _check_options(below, fill)
    truth = people_of(people)
    asked = truth.schema.query(query)
    counts = truth.answer(asked, level=level).dense()
    small = (counts > 0) & (counts < below)
    possible = np.zeros(asked.size, dtype=np.bool_)
    possible[asked.row_of_cell[truth.schema.possible]] = True
    hidden = small | _partners(counts, small, possible) if complementary else small
    shown = np.where(hidden, 0, counts) if fill == "zero" else np.where(hidden, below / 2, counts)
    estimates = Estimates(spine=truth.spine, schema=truth.schema, query=asked.name, tables={level: shown[None]})
    primary = int(np.count_nonzero(small))
    return Suppressed(
        estimates=estimates, hidden=hidden, primary=primary, complementary=int(np.count_nonzero(hidden)) - primary
    )


def _check_options(below: int, fill: str) -> None:
    if isinstance(below, bool) or not isinstance(below, int | np.integer) or below < 1:
        raise InputError(f"below is a whole number from 1, the smallest count that may be shown. Got {below!r}.")
    if fill not in ("zero", "half"):
        raise InputError(f'fill must be "zero" or "half". Got {fill!r} instead.')


def _partners(counts: Integers, small: Bools, possible: Bools) -> Bools:
    """For each unit with one small cell, the cell hidden beside it: the smallest non-zero one, else an empty one."""
    partners = np.zeros_like(small)
    alone = np.flatnonzero(small.sum(axis=1) == 1)
    size = counts[alone]
    largest = np.iinfo(np.int64).max
    rank = np.where(size > 0, size, np.where(possible, largest - 1, largest))  # who cannot exist hides nobody
    rank[small[alone]] = largest
    best = rank.argmin(axis=1)
    found = rank[np.arange(len(alone)), best] < largest
    partners[alone[found], best[found]] = True
    return partners
