"""Constraints as bounds on the rows of queries, carried up the tree, and checked on data and release.

A constraint is declared at a level. Above that level its bounds are summed, as the Bureau's rules do; where the total
of a unit is exact by a declared invariant, the other bounds are sharpened with it: at least the total less what the
other rows may hold, at most the total less what they must hold. (The Bureau also used the true totals of the parts of a
split state there, which no invariant declares. That is not copied.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.counts import Counts
from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.histogram import Histogram
from tallyveil.measurements import Measurements
from tallyveil.privacy.constraints import ALL, Bound, FacilityBounds, StructuralZero
from tallyveil.privacy.strategy import Strategy
from tallyveil.schema import TOTAL, Query, Schema
from tallyveil.spine import Spine
from tallyveil.topdown.nests import UNLIMITED, Index, Limits, Nests

Bounds = tuple[Index, Index]
_CHUNK = 1 << 18


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelLimits:
    """Bounds on a query's rows for all units of a level.

    Attributes
    ----------
    of
        Gives least and most for the owners ``first`` to ``last``: owners by rows.
    owner
        The owner of each unit, where siblings are bounded together; otherwise each unit is its own.
    words
        The constraints they come from.
    """

    query: Query
    of: Callable[[int, int], Bounds]
    owners: int
    words: tuple[str, ...]
    owner: Index | None = None

    def at(self, nests: Nests) -> Limits:
        """The limits of the children of some nests."""
        if self.owner is None:
            low, high = (int(nests.child[0]), int(nests.child[-1]) + 1) if len(nests.child) else (0, 0)
            least, most = self.of(low, high)
            owner = nests.child - low
        else:
            least, most = self.of(0, self.owners)
            owner = self.owner[nests.child]
        return Limits(
            name="; ".join(self.words), row_of_cell=self.query.row_of_cell, least=least, most=most, owner=owner
        )


def limits_by_level(measurements: Measurements, facilities: Facilities | None = None) -> dict[str, list[LevelLimits]]:
    """For each level the bounds that hold there: those declared for it, and those carried up from below."""
    spine, strategy = measurements.spine, measurements.strategy
    table: dict[str, list[LevelLimits]] = {}
    carried: dict[str, LevelLimits] = {}
    for depth in range(len(spine.levels) - 1, -1, -1):
        level = spine.levels[depth]
        carried = {name: _summed(one, spine, depth) for name, one in carried.items()}
        for one in _declared(level, measurements, strategy, facilities):
            carried[one.query.name] = _both(carried[one.query.name], one) if one.query.name in carried else one
        if (TOTAL, level) in measurements.exact and carried[TOTAL].owner is None:
            sharp = {name: _sharpened(one, carried[TOTAL]) for name, one in carried.items() if name != TOTAL}
            carried = {TOTAL: carried[TOTAL], **sharp}
        table[level] = [one for _, one in sorted(carried.items(), key=lambda item: item[1].query.size)]
    return table


def possible_cells(schema: Schema, strategy: Strategy) -> NDArray[np.bool_]:
    """Which cells may hold anybody: the schema's structural zeros and the strategy's."""
    possible = schema.possible.copy()
    for zero in strategy.constraints:
        if isinstance(zero, StructuralZero):
            cells = dict(zero.cells)
            possible &= Schema(attributes=schema.attributes, zeros=[cells]).possible
    return possible


def check_counts(
    histogram: Histogram, limits: Mapping[str, Sequence[LevelLimits]], possible: NDArray[np.bool_], *, whose: str
) -> None:
    """Refuse counts that break a constraint: the error names the unit and the constraint."""
    spine, schema = histogram.spine, histogram.schema
    closed = np.flatnonzero(~possible[histogram.leaves.cell])
    if len(closed):
        unit = int(np.searchsorted(histogram.leaves.start, closed[0], side="right")) - 1
        cell = schema.query("detailed").labels()[int(histogram.leaves.cell[closed[0]])]
        code = bytes(spine.codes[-1][unit]).decode()
        raise InputError(f"{whose}: {spine.leaf} {code!r} counts people in {cell!r}, which a constraint says is empty.")
    for level, counts in histogram.by_level():
        for one in limits[level]:
            answers = counts.merged(np.arange(counts.units + 1), one.query.row_of_cell, one.query.size)
            wrong = _first_break(answers, one)
            if wrong is not None:
                unit, row, count, least, most = wrong
                code = bytes(spine.codes[spine.depth(level)][unit]).decode()
                bounds = f"exactly {least:,}" if least == most else f"{least:,} to {most:,}"
                raise InputError(
                    f"{whose}: {level} {code!r} has {count:,} in {one.query.labels()[row]!r} of {one.query.name!r}, "
                    f"not {bounds} ({'; '.join(one.words)}). Correct the counts, the facilities or the constraint."
                )


def _first_break(answers: Counts, one: LevelLimits) -> tuple[int, int, int, int, int] | None:
    """The first unit and row outside its bounds."""
    if one.owner is not None:
        table = np.zeros((one.owners, answers.cells), np.int64)
        np.add.at(table, one.owner, answers.dense())
        answers, back = Counts.from_dense(table), one.owner
    for first in range(0, answers.units, _CHUNK):
        last = min(first + _CHUNK, answers.units)
        table = answers.dense(first, last)
        least, most = one.of(first, last)
        wrong = np.argwhere((table < least) | (table > most))
        if len(wrong):
            at, row = map(int, wrong[0])
            unit = first + at if one.owner is None else int(np.flatnonzero(back == at)[0])
            return unit, row, int(table[at, row]), int(least[at, row]), int(most[at, row])
    return None


def _declared(
    level: str, measurements: Measurements, strategy: Strategy, facilities: Facilities | None
) -> list[LevelLimits]:
    """The bounds declared for a level itself."""
    spine, schema = measurements.spine, measurements.schema
    units = spine.size(level)
    found = []
    for (query, at), exact in measurements.exact.items():
        if at == level:
            owner = measurements.parts.get(level)
            found.append(
                LevelLimits(
                    query=schema.query(query),
                    of=lambda first, last, exact=exact: (exact.dense(first, last),) * 2,  # type: ignore[misc]
                    owners=exact.units,
                    words=(f"{query} is exact for every {level}",),
                    owner=owner,
                )
            )
    for constraint in strategy.constraints:
        if isinstance(constraint, FacilityBounds) and constraint.level == level:
            if facilities is None:
                raise InputError(
                    f"the strategy bounds persons by facilities ({constraint.words()}), but no facilities are given. "
                    f"Give the table of facilities, or take the constraint out of the strategy."
                )
            found.append(_facility_limits(constraint, facilities, level, schema, units))
        if isinstance(constraint, Bound) and constraint.level == level:
            found.append(_bound_limits(constraint, spine, schema))
    return found


def _facility_limits(
    constraint: FacilityBounds, facilities: Facilities, level: str, schema: Schema, units: int
) -> LevelLimits:
    query = schema.query(constraint.attribute)
    if facilities.types != query.row_labels[0]:
        raise InputError(
            f"facilities are of the types {', '.join(facilities.types)}; attribute {constraint.attribute!r} has "
            f"{', '.join(query.row_labels[0])}. Give them the same labels in the same order."
        )
    built = facilities.at(level)
    per = [
        np.array([table.get(name, table.get(ALL, none)) for name in facilities.types], np.int64)
        for table, none in ((constraint.least, 0), (constraint.most, int(UNLIMITED)))
    ]

    def of(first: int, last: int) -> Bounds:
        table = built.dense(first, last)
        return table * per[0], np.where(per[1] >= UNLIMITED, UNLIMITED * (table > 0), table * per[1])

    return LevelLimits(query=query, of=of, owners=units, words=(constraint.words(),))


def _bound_limits(constraint: Bound, spine: Spine, schema: Schema) -> LevelLimits:
    query = schema.query(constraint.query)
    least, most = constraint.limits(schema)
    units = spine.size(constraint.level)
    applies = np.ones(units, np.bool_)
    if constraint.units:
        applies[:] = False
        applies[spine.locate(constraint.level, list(constraint.units))] = True

    def of(first: int, last: int) -> Bounds:
        here = applies[first:last, None]
        return np.where(here, least, 0), np.where(here, most, UNLIMITED)

    return LevelLimits(query=query, of=of, owners=units, words=(constraint.words(),))


def _both(one: LevelLimits, other: LevelLimits) -> LevelLimits:
    """Two sets of bounds on the same query: the stricter of each."""
    if (one.owner is None) != (other.owner is None):
        raise InputError(
            f"bounds on {one.query.name!r} for the parts of a split unit and for the whole ({'; '.join(one.words)}; "
            f"{'; '.join(other.words)}) cannot be kept together. Drop one of them."
        )

    def of(first: int, last: int) -> Bounds:
        (a, b), (c, d) = one.of(first, last), other.of(first, last)
        return np.maximum(a, c), np.minimum(b, d)

    return LevelLimits(query=one.query, of=of, owners=one.owners, words=(*one.words, *other.words), owner=one.owner)


def _summed(one: LevelLimits, spine: Spine, depth: int) -> LevelLimits:
    """The bounds of the level below, added up for the units of this one."""
    first_child = spine.first_child[depth] if one.owner is None else np.array([0, one.owners])
    size = len(first_child) - 1
    least, most = np.zeros((size, one.query.size), np.int64), np.zeros((size, one.query.size), np.int64)
    start = 0
    while start < size:  # runs of parents with about a chunk of children
        stop = max(start + 1, int(np.searchsorted(first_child, first_child[start] + _CHUNK, side="right")) - 1)
        a, b = one.of(int(first_child[start]), int(first_child[stop]))
        cuts = first_child[start:stop] - first_child[start]
        least[start:stop] = np.add.reduceat(a, cuts, axis=0)
        free = np.add.reduceat(b >= UNLIMITED, cuts, axis=0) > 0
        bounded = np.add.reduceat(np.where(b >= UNLIMITED, 0, b), cuts, axis=0)
        most[start:stop] = np.where(free, UNLIMITED, bounded)
        start = stop
    return _fixed(one, least, most)


def _sharpened(one: LevelLimits, total: LevelLimits) -> LevelLimits:
    """The bounds with the exact total taken into account."""
    least, most = one.of(0, one.owners)
    exact = total.of(0, total.owners)[0]
    others_least = least.sum(axis=1, keepdims=True) - least
    free = most >= UNLIMITED
    bounded = np.where(free, 0, most)
    others_most = bounded.sum(axis=1, keepdims=True) - bounded
    others_free = free.sum(axis=1, keepdims=True) - free > 0
    lower = np.maximum(least, np.where(others_free, 0, exact - others_most))
    return _fixed(one, lower, np.minimum(most, np.maximum(exact - others_least, 0)))


def _fixed(one: LevelLimits, least: Index, most: Index) -> LevelLimits:
    return LevelLimits(query=one.query, of=lambda a, b: (least[a:b], most[a:b]), owners=len(least), words=one.words)
