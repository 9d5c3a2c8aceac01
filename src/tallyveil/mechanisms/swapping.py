"""Swapping: similar people trade places, as in the censuses before 2020.

Some people are drawn at random. Those who agree on the matching attributes and live under one parent are pooled and
dealt back at random, so that each leaf receives as many of them as it gave. Each leaf thus keeps its counts of the
matching attributes, and the parent keeps all its counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.mechanisms.noisy import People, histogram_of
from tallyveil.mechanisms.sampling import as_share, draw_people, generator
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.budget import Number


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Swapped:
    """Counts after swapping, how many people were drawn, and how many of them now live in another leaf.

    Fewer people move than are drawn: some have nobody to trade with, and some are dealt back to their own leaf.
    """

    people: Histogram
    drawn: int
    moved: int

    def __repr__(self) -> str:
        return f"Swapped({self.moved:,} of {self.drawn:,} drawn moved; {self.people!r})"


def swap(people: People, *, rate: Number, match: str, level: str, seed: int, replicate: int = 0) -> Swapped:
    """Let similar people trade places between the leaves under one parent.

    Swapping is not differentially private: what it hides depends on who else lives there, and on the rate and the seed
    staying secret. The random numbers come from NumPy's generator, for research.

    Parameters
    ----------
    people
        The counts, or a synthetic census.
    rate
        The share of all people that is drawn, from 0 to 1.
    match
        The attributes on which people must agree to trade places, written as a query (``"votingage * hispanic"``).
    level
        The level, above the leaves, within whose units people trade places.
    seed, replicate
        Integers, 0 or more. The same pair gives the same result, and any other pair an independent one.

    Examples
    --------
    >>> from tallyveil.populations import census_1940
    >>> truth = census_1940(persons=20_000, seed=1).people
    >>> after = swap(truth, rate=0.1, match="votingage * hispanic", level="county", seed=1)
    >>> after.drawn, after.moved <= after.drawn
    (2000, True)
    >>> key = "votingage * hispanic"
    >>> after.people.answer(key, level="enumdist") == truth.answer(key, level="enumdist")
    True
    >>> after.people.at("county") == truth.at("county")
    True
    """
    truth = histogram_of(people)
    spine, leaves, keys = truth.spine, truth.leaves, truth.schema.query(match)
    if spine.depth(level) == len(spine.levels) - 1:
        raise InputError(f"level {level!r} is the finest, so nobody can move within its units. Give a level above it.")
    rng = generator("swap", seed, replicate)
    drawn = draw_people(leaves.count, round(as_share(rate, "rate") * truth.total()), rng)
    entry = np.flatnonzero(drawn)
    unit, cell = leaves.unit(), leaves.cell.astype(np.int64)
    parent = np.searchsorted(spine.leaves_under(level), unit[entry], side="right") - 1
    pool = parent * keys.size + keys.row_of_cell[cell[entry]]
    order = np.argsort(pool, kind="stable")
    persons = np.repeat(entry[order], drawn[entry[order]])  # the entry that each drawn person comes from, by pool
    ends = np.flatnonzero(np.diff(np.repeat(pool[order], drawn[entry[order]]), append=-1)) + 1
    place, who = unit[persons], persons.copy()
    _shuffle(rng, np.concatenate([[0], ends]).astype(np.int64), who)
    after = Counts.from_entries(
        np.concatenate([unit, place]),
        np.concatenate([cell, cell[who]]),
        np.concatenate([leaves.count - drawn, np.ones(len(who), dtype=np.int64)]),
        units=leaves.units,
        cells=leaves.cells,
    )
    return Swapped(
        people=replace(truth, leaves=after),
        drawn=len(who),
        moved=int(np.count_nonzero(unit[who] != place)),
    )


@compiled
def _shuffle(rng, bounds, who):  # type: ignore[no-untyped-def]
    """Put each run into random order (Fisher and Yates)."""
    for run in range(len(bounds) - 1):
        first = bounds[run]
        for i in range(bounds[run + 1] - 1, first, -1):
            j = rng.integers(first, i + 1)
            who[i], who[j] = who[j], who[i]
