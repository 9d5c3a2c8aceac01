"""Suppression of small cells, as in the censuses before swapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import InputError
from tallyveil.mechanisms.noisy import People, histogram_of
from tallyveil.nouns.estimates import Estimates


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Suppressed:
    """Counts with small cells hidden.

    Attributes
    ----------
    estimates
        The counts as a reader may use them, with the hidden cells filled in.
    hidden
        Which cells are hidden, units x rows.
    primary, complementary
        How many cells are hidden because they are small, and how many to protect those.
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
    """Hide the counts from 1 to ``below - 1`` of each unit, and further cells that would reveal one of them.

    Where exactly one cell of a unit is hidden, subtracting the other cells from the unit's total reveals it. So the
    smallest other non-zero cell (the first, if there are several) is hidden too, or an empty cell if there is no other.

    This protects a cell against its own unit's total only. Readers who know the same counts of the parent and of the
    siblings can often subtract; two hidden cells still bound each other; and the same table of another year, or a finer
    query of the same units, may show what is hidden here. Suppression is not differentially private.

    Parameters
    ----------
    people
        The counts, or a synthetic census.
    query, level
        Which counts, of which units. The table of units x rows is held in memory.
    below
        The smallest count that may be shown.
    fill
        How the reader fills in a hidden cell: with 0, or with ``below / 2``, the middle of the small counts.
    complementary
        Whether to hide the further cells.

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
    truth = histogram_of(people)
    asked = truth.schema.query(query)
    counts = truth.answer(asked, level=level).dense()
    small = (counts > 0) & (counts < below)
    possible = truth.schema.possible_rows(asked)
    hidden = small | _partners(counts, small, possible) if complementary else small
    shown = np.where(hidden, 0, counts) if fill == "zero" else np.where(hidden, below / 2, counts)
    estimates = Estimates(spine=truth.spine, schema=truth.schema, query=asked.name, tables={level: shown[None]})
    primary = int(np.count_nonzero(small))
    return Suppressed(
        estimates=estimates, hidden=hidden, primary=primary, complementary=int(np.count_nonzero(hidden)) - primary
    )


def _check_options(below: int, fill: str) -> None:
    if isinstance(below, bool) or not isinstance(below, int | np.integer) or below < 1:
        raise InputError(
            f"below, the smallest count that may be shown, must be a whole number from 1. Got {below!r} instead."
        )
    if fill not in ("zero", "half"):
        raise InputError(f'fill must be "zero" or "half". Got {fill!r} instead.')


def _partners(counts: Integers, small: Bools, possible: Bools) -> Bools:
    """For each unit with one small cell, the cell hidden beside it: the smallest non-zero one, or an empty one."""
    partners = np.zeros_like(small)
    alone = np.flatnonzero(small.sum(axis=1) == 1)
    size = counts[alone]
    largest = np.iinfo(np.int64).max
    rank = np.where(size > 0, size, np.where(possible, largest - 1, largest))  # impossible cells protect nothing
    rank[small[alone]] = largest
    best = rank.argmin(axis=1)
    exists = rank[np.arange(len(alone)), best] < largest
    partners[alone[exists], best[exists]] = True
    return partners
