"""Bounds carried up the tree, so that every level is made with those below it in mind.

Above the level where they are declared, bounds are summed, as the Bureau's rules do. What several of them together say
about a unit's total is carried up too: the total is at least the largest sum of leasts, and at most the smallest sum of
mosts, over the queries that are bounded. And where bounds on the total are known, the other bounds are sharpened with
them: a row holds at least the total less what the other rows may hold, at most the total less what they must hold.
(The Bureau also used the true totals of the parts of a split state there, which no invariant declares. That is not
copied.)

Where a unit's parts are bounded together, the unit is one more step of the way up: the bounds of its parts are summed,
then intersected with its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.engine.constraints import (
    Bounds,
    Exact,
    LevelLimits,
    declared_limits,
    possible_cells,
    translated_limits,
)
from tallyveil.engine.nests import UNLIMITED
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import TOTAL, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.strategy import Strategy

_CHUNK = 1 << 18


@dataclass(frozen=True, kw_only=True, eq=False)
class RunLimits:
    """All that a run must keep, worked out from public inputs and invariants, before anything is measured.

    Attributes
    ----------
    published
        The spine of the data and of the release.
    optimised
        The optimised spine, if the run is on one.
    possible
        Which cells may hold anybody.
    declared
        The bounds of each level of the published spine, as declared: what data and release are checked against.
    own
        The same on the spine that is measured.
    carried
        For each level of the measured spine all bounds that hold there, those carried up from below included.
    """

    published: Spine
    schema: Schema
    possible: Bools
    declared: Mapping[str, Sequence[LevelLimits]]
    own: Mapping[str, Sequence[LevelLimits]]
    carried: Mapping[str, Sequence[LevelLimits]]
    optimised: OptimisedSpine | None = field(default=None)

    @property
    def measured(self) -> Spine:
        """The spine that is measured and solved on."""
        return self.published if self.optimised is None else self.optimised.spine

    @cached_property
    def sums_decide(self) -> bool:
        """Whether bounds that are consistent in every unit can always be kept all together.

        So it is where every bounded query but the total is bounded at one level, and no two of them ask about the same
        attribute or, if they are several, could meet a structural zero. Then a unit's bounds leave it a range of totals
        without holes, totals are all that counts further up, and every total in the sum of the ranges can be reached.
        """
        levels: dict[str, set[str]] = {}
        for level, limits in self.own.items():
            for one in limits:
                levels.setdefault(one.query.name, set()).add(level)
        levels.pop(TOTAL, None)
        if any(len(some) > 1 for some in levels.values()):
            return False
        attributes = [{self._attribute(factor) for factor in self.schema.query(name).factors} for name in levels]
        apart = not any(one & other for one, other in combinations(attributes, 2))
        return len(levels) <= 1 or (apart and bool(self.possible.all()))

    def unit(self, level: str, position: int, *, owner: bool = False) -> str:
        """The unit in words, with its published code where it has one."""
        depth = self.measured.depth(level)
        if self.optimised is None or not (owner or self.optimised.keeps(level)):
            codes = self.measured.codes[depth]
        else:
            codes = self.published.codes[depth]
            position = position if owner else int(self.optimised.part_of[level][position])
        new = " of the optimised spine" if codes is not self.published.codes[depth] else ""
        return f"{level} {bytes(codes[position]).decode()!r}{new}"

    def _attribute(self, factor: str) -> str:
        grouping = self.schema.groupings.get(factor)
        return factor if grouping is None else grouping.of


def run_limits(
    spine: Spine,
    schema: Schema,
    strategy: Strategy,
    *,
    exact: Exact,
    facilities: Facilities | None = None,
    optimised: OptimisedSpine | None = None,
) -> RunLimits:
    """What a run must keep. ``spine``, ``exact`` and ``facilities`` are those of the published units.

    Raises
    ------
    InputError
        Facilities are missing, or a constraint is about units that the optimised spine does not keep.
    """
    declared = declared_limits(spine, schema, strategy, exact=exact, facilities=facilities)
    own = translated_limits(declared, optimised)
    possible = possible_cells(schema, strategy)
    measured = spine if optimised is None else optimised.spine
    return RunLimits(
        published=spine,
        optimised=optimised,
        schema=schema,
        possible=possible,
        declared=declared,
        own=own,
        carried=limits_by_level(measured, schema, own, possible),
    )


def limits_by_level(
    spine: Spine, schema: Schema, own: Mapping[str, Sequence[LevelLimits]], possible: Bools
) -> dict[str, list[LevelLimits]]:
    """For each level the bounds that hold there: its own, and those carried up from below."""
    table: dict[str, list[LevelLimits]] = {}
    below: dict[str, LevelLimits] = {}
    for depth in range(len(spine.levels) - 1, -1, -1):
        level = spine.levels[depth]
        here = {name: _summed(one, spine.first_child[depth]) for name, one in below.items()}
        here = _sharpened(_joined(here, [one for one in own[level] if one.owner is None]), schema, possible)
        table[level] = sorted(here.values(), key=lambda one: one.query.size)
        together = [one for one in own[level] if one.owner is not None]
        below = here
        if together:  # the parts of a unit, bounded together
            first = together[0]
            assert first.owner is not None
            below = {name: _of_owners(one, first.owner, first.owners) for name, one in here.items()}
            below = _sharpened(_joined(below, [replace(one, owner=None) for one in together]), schema, possible)
            names = {one.query.name for one in together}
            shared = [replace(one, owner=first.owner) for name, one in below.items() if name in names]
            table[level] += sorted(shared, key=lambda one: one.query.size)
            spine = replace(spine, first_child=(np.array([0, first.owners]), *spine.first_child[1:]))
    return table


def _joined(here: Mapping[str, LevelLimits], more: Sequence[LevelLimits]) -> dict[str, LevelLimits]:
    """The bounds by query, the stricter of each; and on the total, where several other queries are bounded."""
    table = dict(here)
    for one in more:
        name = one.query.name
        table[name] = _both(table[name], one) if name in table else one
    return table


def _both(one: LevelLimits, other: LevelLimits) -> LevelLimits:
    """Two sets of bounds on the same query: the stricter of each."""

    def of(units: Integers) -> Bounds:
        (a, b), (c, d) = one.of(units), other.of(units)
        return np.maximum(a, c), np.minimum(b, d)

    return replace(one, of=of, words=tuple(dict.fromkeys((*one.words, *other.words))))


def _sharpened(table: Mapping[str, LevelLimits], schema: Schema, possible: Bools) -> dict[str, LevelLimits]:
    """The bounds of a level with each other, and with the cells that are possible, taken into account.

    One query alone says the same about its rows and about its total: nothing is added. Several say more together.
    """
    if TOTAL not in table and len(table) > 1:
        table = {TOTAL: _no_limits_on_the_total(table, schema), **table}
    closed = {
        name: np.bincount(one.query.row_of_cell[possible], minlength=one.query.size) == 0 for name, one in table.items()
    }
    if len(table) <= 1 and not any(rows.any() for rows in closed.values()):
        return dict(table)

    def of(name: str, units: Integers) -> Bounds:
        bounds = {}
        for other, one in table.items():
            least, most = one.of(units)
            bounds[other] = (least, np.where(closed[other], 0, most))
        return bounds[name] if len(bounds) == 1 else _with_totals(bounds)[name]

    return {name: replace(one, of=partial(of, name)) for name, one in table.items()}


def _no_limits_on_the_total(table: Mapping[str, LevelLimits], schema: Schema) -> LevelLimits:
    some = next(iter(table.values()))
    return LevelLimits(
        query=schema.query(TOTAL),
        of=lambda units: (np.zeros((len(units), 1), np.int64), np.full((len(units), 1), UNLIMITED)),
        owners=some.owners,
        words=tuple(dict.fromkeys(words for one in table.values() for words in one.words)),
    )


def _with_totals(bounds: Mapping[str, Bounds]) -> dict[str, Bounds]:
    """Bounds on the total from all queries, and bounds on all rows from the total."""
    lowest, highest = bounds[TOTAL]
    for least, most in bounds.values():
        lowest = np.maximum(lowest, _sums(least, axis=1))
        highest = np.minimum(highest, _sums(most, axis=1))
    sharp = {TOTAL: (lowest, highest)}
    for name, (least, most) in bounds.items():
        if name != TOTAL:
            least_of_others = _sums(least, axis=1) - least
            free = most >= UNLIMITED
            bounded = np.where(free, 0, most)
            most_of_others = _sums(bounded, axis=1) - bounded
            others_free = free.sum(axis=1, keepdims=True) - free > 0
            lower = np.maximum(least, np.where(others_free, 0, lowest - most_of_others))
            upper = np.where(highest >= UNLIMITED, most, np.minimum(most, np.maximum(highest - least_of_others, 0)))
            sharp[name] = (lower, upper)
    return sharp


def _summed(one: LevelLimits, first_child: Integers) -> LevelLimits:
    """The bounds of the level below, added up for the units of this one."""
    size = len(first_child) - 1
    least, most = np.zeros((size, one.query.size), np.int64), np.zeros((size, one.query.size), np.int64)
    start = 0
    while start < size:  # runs of parents with about a chunk of children
        stop = max(start + 1, int(np.searchsorted(first_child, first_child[start] + _CHUNK, side="right")) - 1)
        a, b = one.of(np.arange(first_child[start], first_child[stop]))
        cuts = first_child[start:stop] - first_child[start]
        least[start:stop], most[start:stop] = _reduced(a, cuts), _reduced(b, cuts)
        start = stop
    return _fixed(one, least, most)


def _of_owners(one: LevelLimits, owner: Integers, owners: int) -> LevelLimits:
    """The bounds of parts, added up for the units they are parts of."""
    order = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[order], np.arange(owners))
    least, most = one.of(order)
    return _fixed(one, _reduced(least, cuts), _reduced(most, cuts))


def _reduced(bounds: Integers, cuts: Integers) -> Integers:
    """Sums of runs of units, or ``UNLIMITED`` where they are above it."""
    large = np.add.reduceat(bounds.astype(np.float64), cuts, axis=0) >= UNLIMITED
    return np.where(large, UNLIMITED, np.add.reduceat(np.where(bounds >= UNLIMITED, 0, bounds), cuts, axis=0))


def _sums(bounds: Integers, *, axis: int) -> Integers:
    """Sums over rows, or ``UNLIMITED`` where they are above it."""
    large = bounds.astype(np.float64).sum(axis=axis, keepdims=True) >= UNLIMITED
    return np.where(large, UNLIMITED, np.where(bounds >= UNLIMITED, 0, bounds).sum(axis=axis, keepdims=True))


def _fixed(one: LevelLimits, least: Integers, most: Integers) -> LevelLimits:
    return LevelLimits(
        query=one.query, of=lambda units: (least[units], most[units]), owners=len(least), words=one.words
    )
