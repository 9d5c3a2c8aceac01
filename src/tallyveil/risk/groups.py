"""Who is measured how: people of a level in groups that the same noisy counts, and the same exact ones, speak about.

Two things make units of a level differ. Under the only-child rule a unit may be measured with its parent, or pay for
its child. And what is published exactly settles something by itself, for an intruder who knows all others: an exact
answer settles its factors and that the target is there; where a facility must have somebody in it and nobody else is,
it settles that the target is there and their type; and where there are facilities of one type only, it settles the type
of everybody who is there. A query adds nothing about what is settled, and the prior is one that knows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from tallyveil.facilities import Facilities
from tallyveil.histogram import Histogram
from tallyveil.privacy.constraints import ALL, FacilityBounds, Invariant
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.attacks import Attack
from tallyveil.schema import DETAILED, TOTAL, factors_of
from tallyveil.spine import Spine


@final
@dataclass(frozen=True, kw_only=True)
class Group:
    """People about whom the same is measured and the same is settled.

    Attributes
    ----------
    measured_at
        The level at which they are measured: their own, or one above it whose unit has the same people.
    share
        What share of the budget those measurements have.
    settled
        Factors that exact counts settle; ``"total"`` where they settle that the target is there.
    if_there
        Attributes that are settled once it is known that the target is there.
    """

    measured_at: str
    share: Fraction
    settled: frozenset[str]
    if_there: frozenset[str] = frozenset()

    def told_by(self, strategy: Strategy, queries: Iterable[str] | None = None) -> tuple[str, ...]:
        """The queries (or those of the given ones) that still tell something."""
        asked = tuple(strategy.queries[self.measured_at] if queries is None else queries)
        return tuple(query for query in asked if not self._settles(strategy, query))

    def certain(self, strategy: Strategy, attack: Attack, attribute: str | None) -> bool:
        """Whether what is published exactly decides the attack alone."""
        if attack == "responded":
            return TOTAL in self.settled
        if attack == "attribute":
            return attribute in self.settled | self.if_there
        return set(strategy.attributes) <= self.settled

    def _settles(self, strategy: Strategy, query: str) -> bool:
        factors = strategy.attributes if query == DETAILED else factors_of(query) or (TOTAL,)
        return all(factor in self.settled or strategy.groupings.get(factor) in self.settled for factor in factors)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Grouped:
    """The groups of a level's people: that of each unit, and of a type of people in it that facilities settle.

    ``where`` is the position of each unit at the level where it is measured.
    """

    groups: tuple[Group, ...]
    of_unit: NDArray[np.int64]
    where: NDArray[np.int64]
    settled_type: NDArray[np.bool_] | None
    type_of_cell: NDArray[np.int32] | None

    def of(self, unit: NDArray[np.int64], cell: NDArray[np.integer]) -> NDArray[np.int64]:
        """The group of people by unit and cell."""
        group = self.of_unit[unit]
        if self.settled_type is None or self.type_of_cell is None:
            return group
        settled: NDArray[np.int64] = self.settled_type[unit, self.type_of_cell[cell]].astype(np.int64)
        return group + len(self.groups) // 2 * settled


def grouped(truth: Histogram, strategy: Strategy, level: str, facilities: Facilities | None = None) -> Grouped:
    """The groups of a level."""
    spine = truth.spine
    depth, where, span = measured(spine, strategy, level)
    exact = _exact(spine, strategy, level)
    bounds = next((c for c in strategy.constraints if isinstance(c, FacilityBounds)), None)
    if facilities is None or bounds is None or spine.depth(level) > spine.depth(bounds.level):
        bounds = facilities = None
    one_type = np.zeros(spine.size(level), dtype=np.int64)
    if facilities is not None:
        one_type = (np.diff(facilities.at(level).start) == 1).astype(np.int64)
    shape = (len(spine.levels), len(spine.levels) + 1, len(exact.settled), 2)
    kinds, of_unit = np.unique(np.ravel_multi_index((depth, span, exact.of_unit, one_type), shape), return_inverse=True)
    shares = unit_shares(strategy, spine)
    groups = tuple(
        Group(
            measured_at=spine.levels[d],
            share=shares[spine.levels[d]].shares[s],
            settled=exact.settled[e],
            if_there=frozenset({bounds.attribute}) if one and bounds else frozenset(),
        )
        for d, s, e, one in zip(*np.unravel_index(kinds, shape), strict=True)
    )
    settled_type = type_of_cell = None
    if bounds is not None and facilities is not None:
        type_of_cell = truth.schema.query(bounds.attribute).row_of_cell
        settled_type = _settled_types(truth, bounds, level, facilities)
        groups += tuple(replace(one, settled=one.settled | {TOTAL, bounds.attribute}) for one in groups)
    return Grouped(
        groups=groups,
        of_unit=of_unit.reshape(-1).astype(np.int64),
        where=where,
        settled_type=settled_type,
        type_of_cell=type_of_cell,
    )


def measured(
    spine: Spine, strategy: Strategy, level: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each unit of a level: the depth at which its people are measured, its place there, and the levels paid."""
    shares = unit_shares(strategy, spine)
    start = spine.depth(level)
    ancestor = np.arange(spine.size(level), dtype=np.int64)
    depth, where = np.full(len(ancestor), start, dtype=np.int64), ancestor.copy()
    span = shares[level].spans.astype(np.int64)
    for up in range(start - 1, -1, -1):
        waiting = span == 0
        if not waiting.any():
            break
        ancestor = spine.parents(spine.levels[up + 1])[ancestor]
        depth[waiting], where[waiting] = up, ancestor[waiting]
        span[waiting] = shares[spine.levels[up]].spans[ancestor[waiting]]
    return depth, where, span


@dataclass(frozen=True)
class _Exact:
    settled: tuple[frozenset[str], ...]
    of_unit: NDArray[np.int64]


def _exact(spine: Spine, strategy: Strategy, level: str) -> _Exact:
    """What exact answers settle in each unit: those of its level or below, and of units above with the same people."""
    depth = spine.depth(level)
    invariants = [c for c in strategy.constraints if isinstance(c, Invariant)]
    if strategy.neighbours == "replace-one":
        invariants.append(Invariant(query=TOTAL, level=spine.levels[0]))
    same = np.ones(spine.size(level), dtype=np.bool_)  # as the unit `up` levels above
    ancestor = np.arange(spine.size(level), dtype=np.int64)
    mask = np.zeros(spine.size(level), dtype=np.int64)
    for at in range(depth, -1, -1):
        for bit, one in enumerate(invariants):
            there = spine.depth(one.level)
            if there == at or (at == depth and there > at):
                mask |= same.astype(np.int64) << bit
        if at:
            same = same & spine.only_children(spine.levels[at])[ancestor]
            ancestor = spine.parents(spine.levels[at])[ancestor]
    found, of_unit = np.unique(mask, return_inverse=True)
    settled = []
    for bits in found.tolist():
        held = [one for bit, one in enumerate(invariants) if bits >> bit & 1]
        factors = {f for one in held for f in (strategy.attributes if one.query == DETAILED else factors_of(one.query))}
        settled.append(frozenset(factors | ({TOTAL} if held else set())))
    return _Exact(tuple(settled), of_unit.reshape(-1).astype(np.int64))


def _settled_types(truth: Histogram, bounds: FacilityBounds, level: str, facilities: Facilities) -> NDArray[np.bool_]:
    """In which units the people of a type are so few that one less would leave a facility without its least number."""
    people, built = truth.answer(bounds.attribute, level=level), facilities.at(level)
    least = np.array([bounds.least.get(kind, bounds.least.get(ALL, 0)) for kind in facilities.types])
    settled = np.zeros((people.units, people.cells), dtype=np.bool_)
    for first in range(0, people.units, 1 << 18):
        last = min(people.units, first + (1 << 18))
        here = people.dense(first, last)
        settled[first:last] = (here > 0) & (here - 1 < least * built.dense(first, last))
    return settled
