"""Groups of people of a level whom the same noisy counts and the same exact counts describe.

Units of a level differ in two respects. The first is where the same people are counted again. A unit may have the same
people as the unit above or below it, because it is an only child or because its siblings have no facilities. Then the
counts of both describe them, and under the only-child rule one of the two is measured with the budget of both.

The second is what is published exactly, which can settle something by itself for an intruder who knows all others. An
exact answer settles its factors, and that the target is there. A facility that must have somebody in it, and has nobody
else, settles that the target is there and their type. Where all facilities are of one type, they settle the type of
everybody who is there. A query adds nothing about what is settled, and the prior takes it into account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL, factors_of
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.constraints import ALL, FacilityBounds, Invariant
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.target.attacks import Attack, is_settled, settled_by


@final
@dataclass(frozen=True, kw_only=True)
class Group:
    """People for whom the same counts are measured and the same facts are settled.

    Attributes
    ----------
    measured
        The levels that count these people, their own or others, and the share of the budget of each.
    settled
        Factors that exact counts settle; ``"total"`` where they settle that the target is there.
    if_there
        Attributes that are settled for an intruder who knows that the target is there.
    """

    measured: tuple[tuple[str, Fraction], ...]
    settled: frozenset[str]
    if_there: frozenset[str] = frozenset()

    def informative_counts(
        self, strategy: Strategy, queries: Iterable[str] | None = None
    ) -> tuple[tuple[str, str], ...]:
        """The levels and queries (of these queries, or of all) that reveal something beyond what is settled."""
        asked = None if queries is None else [frozenset(factors_of(query)) for query in queries]
        return tuple(
            (level, query)
            for level, _ in self.measured
            for query in strategy.queries[level]
            if (asked is None or frozenset(factors_of(query)) in asked)
            and not is_settled(strategy, query, self.settled)
        )

    def certain(self, strategy: Strategy, attack: Attack) -> bool:
        """Whether exact counts alone decide the attack."""
        if attack.kind == "responded":
            return TOTAL in self.settled
        known = self.settled | self.if_there
        if attack.kind == "attribute":
            return attack.attribute in known
        characteristics = set(strategy.known_attributes) or {TOTAL}  # without attributes: being there at all
        return characteristics <= (known if attack.kind == "cell" else self.settled)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Grouped:
    """The groups of a level's people, by unit and, where facilities settle the type of some people in it, by type.

    ``where`` gives, for each level at which people may be measured, the position of each unit of this level there.
    """

    groups: tuple[Group, ...]
    of_unit: Integers
    where: Mapping[str, Integers]
    settled_type: Bools | None
    type_of_cell: NDArray[np.int32] | None

    def of(self, unit: Integers, cell: NDArray[np.integer]) -> Integers:
        """The group of people by unit and cell."""
        group = self.of_unit[unit]
        if self.settled_type is None or self.type_of_cell is None:
            return group
        settled: Integers = self.settled_type[unit, self.type_of_cell[cell]].astype(np.int64)
        return group + len(self.groups) // 2 * settled


def grouped(truth: Histogram, strategy: Strategy, level: str, facilities: Facilities | None = None) -> Grouped:
    """The groups of a level. At levels above the facilities' own level, the sums of the facilities are used."""
    spine = truth.spine
    bounds = next((c for c in strategy.constraints if isinstance(c, FacilityBounds)), None)
    if facilities is None or bounds is None or spine.depth(level) > spine.depth(bounds.level):
        bounds = facilities = None
    same = _SamePeople(spine, facilities, spine.depth(bounds.level) if bounds else 0)
    measured, where = _measured_at(spine, strategy, level, same)
    exact = _exact(spine, strategy, level, same)
    one_type = np.zeros(spine.size(level), dtype=np.int64)
    if facilities is not None:
        one_type = (np.diff(facilities.at(level).start) == 1).astype(np.int64)
    kinds, of_unit = np.unique((measured * len(exact.settled) + exact.of_unit) * 2 + one_type, return_inverse=True)
    groups = []
    for kind in kinds.tolist():
        rest, one = divmod(kind, 2)
        spans, which = divmod(rest, len(exact.settled))
        kind_of_facility = frozenset({bounds.attribute}) if one and bounds else frozenset()
        settled = exact.settled[which]
        groups.append(
            Group(
                measured=_levels_and_shares(spine, strategy, spans),
                settled=settled | kind_of_facility if TOTAL in settled else settled,
                if_there=kind_of_facility,
            )
        )
    settled_type = type_of_cell = None
    if bounds is not None and facilities is not None:
        type_of_cell = truth.schema.query(bounds.attribute).row_of_cell
        settled_type = _settled_types(truth, bounds, level, facilities)
        groups += [replace(one, settled=one.settled | {TOTAL, bounds.attribute}) for one in groups]
    return Grouped(
        groups=tuple(groups),
        of_unit=of_unit.reshape(-1).astype(np.int64),
        where=where,
        settled_type=settled_type,
        type_of_cell=type_of_cell,
    )


class _SamePeople:
    """Units that are publicly known to have the same people as the unit above, or as one unit below."""

    def __init__(self, spine: Spine, facilities: Facilities | None, finest: int) -> None:
        self._spine, self._facilities, self._finest = spine, facilities, finest

    def as_above(self, depth: int) -> Bools:
        """Whether nobody can be in the siblings, for each unit at a depth above 0."""
        counted, parents = self._counted(depth), self._spine.parents(self._spine.levels[depth])
        others = np.bincount(parents[counted], minlength=self._spine.size(self._spine.levels[depth - 1]))[parents]
        alone: Bools = others == counted
        return alone

    def below(self, depth: int) -> tuple[Bools, Integers]:
        """Whether all people of a unit are in one child, and which child, for each unit at a depth."""
        child = np.zeros(self._spine.size(self._spine.levels[depth]), dtype=np.int64)
        if depth + 1 == len(self._spine.levels):
            return np.zeros(len(child), dtype=np.bool_), child
        counted, parents = self._counted(depth + 1), self._spine.parents(self._spine.levels[depth + 1])
        child[parents[counted]] = np.flatnonzero(counted)
        return np.bincount(parents[counted], minlength=len(child)) == 1, child

    def _counted(self, depth: int) -> Bools:
        """Units that may have people: all of them, or those with facilities where these are known."""
        level = self._spine.levels[depth]
        if self._facilities is None or depth > self._finest:
            return np.ones(self._spine.size(level), dtype=np.bool_)
        return np.diff(self._facilities.at(level).start) > 0


def _measured_at(
    spine: Spine, strategy: Strategy, level: str, same: _SamePeople
) -> tuple[Integers, dict[str, Integers]]:
    """Where the people of each unit are measured: spans by level as digits of a code, and positions by level."""
    shares, start = unit_shares(strategy, spine), spine.depth(level)
    base = len(spine.levels) + 1
    place = np.arange(spine.size(level), dtype=np.int64)
    code, where = np.zeros(len(place), dtype=np.int64), {}

    def note(depth: int, place: Integers, alive: Bools) -> None:
        nonlocal code
        where[spine.levels[depth]] = place
        code = code + np.where(alive, shares[spine.levels[depth]].spans[place].astype(np.int64), 0) * base**depth

    alive = np.ones(len(place), dtype=np.bool_)
    note(start, place, alive)
    for depth in range(start, 0, -1):
        alive = alive & same.as_above(depth)[place]
        if not alive.any():
            break
        place = spine.parents(spine.levels[depth])[place]
        note(depth - 1, place, alive)
    place, alive = where[level], np.ones(len(where[level]), dtype=np.bool_)
    for depth in range(start, len(spine.levels) - 1):
        one, child = same.below(depth)
        alive, place = alive & one[place], child[place]
        if not alive.any():
            break
        note(depth + 1, place, alive)
    return code, where


def _levels_and_shares(spine: Spine, strategy: Strategy, code: int) -> tuple[tuple[str, Fraction], ...]:
    """Levels and shares from the digits of a code: a unit pays for as many levels as its span, from its own down."""
    pairs, base = [], len(spine.levels) + 1
    for depth, level in enumerate(spine.levels):
        span = code // base**depth % base
        if span:
            share = sum((strategy.levels[name] for name in spine.levels[depth : depth + span]), Fraction(0))
            pairs.append((level, share))
    return tuple(reversed(pairs))


@dataclass(frozen=True)
class _Exact:
    settled: tuple[frozenset[str], ...]
    of_unit: Integers


def _exact(spine: Spine, strategy: Strategy, level: str, same: _SamePeople) -> _Exact:
    """What exact answers settle in each unit: answers of its level or below, or of units above with the same people."""
    start = spine.depth(level)
    invariants = [c for c in strategy.constraints if isinstance(c, Invariant)]
    if strategy.neighbours == "replace-one":
        invariants.append(Invariant(query=TOTAL, level=spine.levels[0]))
    alive, place = np.ones(spine.size(level), dtype=np.bool_), np.arange(spine.size(level), dtype=np.int64)
    mask = np.zeros(spine.size(level), dtype=np.int64)
    for depth in range(start, -1, -1):
        for bit, one in enumerate(invariants):
            there = spine.depth(one.level)
            if there == depth or (depth == start and there > depth):
                mask |= alive.astype(np.int64) << bit
        if depth:
            alive = alive & same.as_above(depth)[place]
            place = spine.parents(spine.levels[depth])[place]
    kinds, of_unit = np.unique(mask, return_inverse=True)
    settled = (
        settled_by(strategy, [one.query for bit, one in enumerate(invariants) if bits >> bit & 1])
        for bits in kinds.tolist()
    )
    return _Exact(tuple(settled), of_unit.reshape(-1).astype(np.int64))


def _settled_types(truth: Histogram, bounds: FacilityBounds, level: str, facilities: Facilities) -> Bools:
    """Units and types with so few people that one fewer would leave a facility below its least number."""
    people, built = truth.answer(bounds.attribute, level=level), facilities.at(level)
    least = np.array([bounds.least.get(kind, bounds.least.get(ALL, 0)) for kind in facilities.types])
    settled = np.zeros((people.units, people.cells), dtype=np.bool_)
    for first in range(0, people.units, 1 << 18):
        last = min(people.units, first + (1 << 18))
        here = people.dense(first, last)
        settled[first:last] = (here > 0) & (here - 1 < least * built.dense(first, last))
    return settled
