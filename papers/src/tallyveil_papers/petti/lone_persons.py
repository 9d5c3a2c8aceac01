"""Copies of a census of 1940 with more or fewer strata of one person, and all else kept: an experiment on the loss.

People are exchanged between units of one parent: a person of a stratum moves from one district to another, and a White
adult (not Hispanic) moves back. The totals of all units, all counts of the parents, households and group quarters stay
as they are. There are four ways to change the number of lone persons, the only ones of their stratum in their unit:

- ``pair``: each gets one other person, so that strata of one become strata of two;
- ``grow``: each gets 1 to 11 others, so that strata of one become strata of 2 to 12;
- ``join``: each moves to where there are more of the stratum, so that strata of one become empty;
- ``shrink``: strata of 2 to 12 lose all but one, the reverse of ``grow`` (districts only).

``pair``, ``grow`` and ``shrink`` also keep which strata are empty, and so the homogeneity of every unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram

Way = Literal["pair", "grow", "join", "shrink"]
MOST = 12  # persons in a small stratum
AVAILABLE = 100  # White adults in a household that a unit must have to take part
STRATA = 24


def with_other_lone_persons(
    people: Histogram, way: Way, fraction: float, *, level: str = "enumdist", seed: int = 1
) -> Histogram:
    """The people after this fraction of the strata in question was changed, as far as others can be exchanged.

    Strata are those of the units of ``level`` (districts or counties); exchanges stay within the unit above.
    """
    land, rng = _Land.of(people, level), np.random.default_rng(seed)
    unit, row = np.nonzero(land.small(2, MOST) if way == "shrink" else land.small(1, 1))
    some = rng.random(len(unit)) < fraction
    unit, row = unit[some], row[some]
    times = rng.integers(1, MOST, len(unit)) if way == "grow" else np.ones(len(unit), dtype=np.int64)
    if way == "shrink":
        times = land.strata[unit, row] - 1
    unit, row = np.repeat(unit, times), np.repeat(row, times)
    spare = np.where(land.large(), land.households // 2, 0)  # which leaves seven or more
    few, many = _matched(land.parent[unit] * STRATA + row, land.parent[:, None] * STRATA + np.arange(STRATA), spare)
    givers, takers = (many // STRATA, unit[few]) if way in ("pair", "grow") else (unit[few], many // STRATA)
    return land.exchanged(people, givers, takers, row[few])


def share_of_one(people: Histogram, *, level: str, query: str) -> float:
    """The share of strata of one person among those that are not empty."""
    counts = people.answer(query, level=level).count
    return float((counts[counts > 0] == 1).mean())


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Land:
    """Districts by stratum: persons in households, and all persons of the stratum in the unit of the level.

    Attributes
    ----------
    households, strata
        Districts x 24: persons in households; persons of the stratum in the district's unit of the level.
    parent
        The unit within which each district exchanges people.
    majority
        The stratum whose people move back.
    """

    households: Integers
    strata: Integers
    parent: Integers
    majority: int

    @classmethod
    def of(cls, people: Histogram, level: str) -> _Land:
        cells = people.leaves.dense().reshape(people.leaves.units, -1, STRATA).astype(np.int64)
        spine = people.spine
        above = spine.levels[spine.depth(level) - 1]
        strata = cells.sum(axis=1)
        starts = spine.leaves_under(level)
        units = np.add.reduceat(strata, starts[:-1], axis=0)
        majority = people.schema.query("votingage * hispanic * race").labels().index("adult*not_hispanic*white")
        return cls(
            households=cells[:, 0],
            strata=np.repeat(units, np.diff(starts), axis=0),
            parent=np.repeat(np.arange(spine.size(above)), np.diff(spine.leaves_under(above))),
            majority=majority,
        )

    def small(self, least: int, most: int) -> Bools:
        """Strata of this size whose people all live in households of one district that can exchange people."""
        found: Bools = (self.strata >= least) & (self.strata <= most) & (self.households == self.strata)
        found[self.households[:, self.majority] < AVAILABLE] = False
        found[:, self.majority] = False
        return found

    def large(self) -> Bools:
        """Strata that can give or take people without becoming small."""
        found: Bools = (self.strata > MOST) & (self.households[:, [self.majority]] >= AVAILABLE)
        found[:, self.majority] = False
        return found

    def exchanged(self, people: Histogram, givers: Integers, takers: Integers, row: Integers) -> Histogram:
        """The people after one person of each row moved from giver to taker, and one of the majority back."""
        cells = people.leaves.dense().reshape(people.leaves.units, -1, STRATA).astype(np.int64)
        back = np.full_like(row, self.majority)
        for unit, stratum, by in ((givers, row, -1), (takers, row, 1), (givers, back, 1), (takers, back, -1)):
            np.add.at(cells[:, 0], (unit, stratum), by)
        return replace(people, leaves=Counts.from_dense(cells.reshape(people.leaves.units, -1)))


def _matched(wanted: Integers, keys: Integers, spare: Integers) -> tuple[Integers, Integers]:
    """Partners of the same key: places in ``wanted``, and flat places in ``spare``, each as often as it has to spare.

    Partners are spread evenly over what is to spare. Where there are too few, the last wanted ones have none.
    """
    place = np.flatnonzero(spare)
    place = place[np.argsort(keys.ravel()[place], kind="stable")]
    key, number = keys.ravel()[place], spare.ravel()[place]
    order = np.argsort(wanted, kind="stable")
    asked = wanted[order]
    size = int(max(asked.max(initial=0), key.max(initial=0))) + 1
    total, needed = (np.bincount(k, w, minlength=size).astype(np.int64) for k, w in ((key, number), (asked, None)))
    rank = np.arange(len(asked)) - (np.cumsum(needed) - needed)[asked]
    met = np.minimum(total, needed)
    some = rank < met[asked]
    asked, rank = asked[some], rank[some]
    at = (np.cumsum(total) - total)[asked] + rank * total[asked] // met[asked]
    return order[some], place[np.searchsorted(np.cumsum(number), at, side="right")]
