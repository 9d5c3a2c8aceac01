"""The failsafe: a parent whose children cannot keep their constraints is changed as little as possible.

Such a conflict can come from noise, since bounds on rows and totals do not express everything that children require of
their parent. The 2018 run then changed the parent's counts as little as possible (sum of absolute changes over cells)
until its children could keep their constraints, while its sums over one attribute were kept. The same is done here,
with two additions that keep the run from ending:

- The constraints on the parent itself and on all units above it still hold after the change, since the levels above are
  rebuilt as sums. The change keeps the parent's sums over one attribute if it can, otherwise its total, and otherwise
  nothing else.
- Where no change of the parent alone helps, all units of its level inside the next larger unit are changed together,
  and so on up to the root. If that failed too, no counts would keep the constraints, which has been excluded before any
  noise was drawn (``feasibility``).

All of this is post-processing: it uses estimates, bounds and invariants only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.engine.conflict import Conflict
from tallyveil.engine.feasibility import units_inside
from tallyveil.engine.nearest_parents import NOTHING, BoundsAbove, nearest_parents
from tallyveil.engine.nests import UNLIMITED, Limits
from tallyveil.engine.run_limits import RunLimits
from tallyveil.engine.ties import Lots, lots_of, redrawn
from tallyveil.errors import EndedAfterNoise, TallyveilError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.schema import TOTAL, Query, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements
from tallyveil.release.solved import Relaxed


def relaxed_parents(
    limits: RunLimits, level: str, above: Counts, conflicting: Iterable[tuple[int, Conflict]], measured: Measurements
) -> tuple[Counts, list[tuple[int, Relaxed]]]:
    """The parents of a level, changed as little as possible so that the children of all can keep their constraints.

    Parameters
    ----------
    limits
        What the run must keep.
    level
        The children's level.
    above
        The counts of all units of the level above it.
    conflicting
        Parents whose children cannot keep their constraints, by position, and the conflict of each.
    measured
        The measurements. The facility bounds of their strategy name the attribute along which people are moved first,
        and lots of theirs say which parents give way first, and which of equal changes is made (``ties``).

    Returns
    -------
    counts
        The new counts of all units of the level above.
    relaxed
        Parents that were changed, by position, and the record of each change.

    Raises
    ------
    EndedAfterNoise
        No counts of the level keep the constraints. It was not known before, so the tree is too large to decide.
    """
    depth = limits.measured.depth(level) - 1
    kept = dict.fromkeys((_other_attributes(limits.schema, measured.strategy), TOTAL, NOTHING))
    lots = lots_of(measured.identifier, limits.measured.levels[depth], np.arange(above.units))
    new: dict[int, Integers] = {}
    relaxed: list[tuple[int, Relaxed]] = []
    for parent, conflict in sorted(conflicting, key=lambda one: lots[one[0]]):
        if parent in new:  # changed together with an earlier parent, and feasible since
            continue
        changed = next(_ways_out(limits, depth, parent, above, new, list(kept), lots), None)
        if changed is None:
            raise EndedAfterNoise(f"{conflict_in_words(limits, level, parent, conflict)} No counts keep all.")
        for unit, counts in changed.items():
            amount = int(np.abs(counts - _counts(above, new, unit)).sum())
            if amount:
                code = bytes(limits.measured.codes[depth][unit]).decode()
                relaxed.append((unit, Relaxed(unit=code, amount=amount, constraints=conflict.limits)))
        new |= changed
    return _replaced(above, new), sorted(relaxed, key=lambda one: one[0])


def conflict_in_words(limits: RunLimits, level: str, parent: int, conflict: Conflict) -> str:
    """The children in conflict, and over what."""
    above = limits.measured.levels[limits.measured.depth(level) - 1]
    return f"the children of {limits.unit(above, parent)} (level {level!r}): {conflict.words}."


def _other_attributes(schema: Schema, strategy: Strategy) -> str:
    """The query by all attributes but the one along which people move first: that of the facilities, as in 2018."""
    bounds = [constraint for constraint in strategy.constraints if isinstance(constraint, FacilityBounds)]
    moved = bounds[0].attribute if bounds else next(iter(schema.attributes), TOTAL)
    return " * ".join(name for name in schema.attributes if name != moved) or TOTAL


def _ways_out(
    limits: RunLimits, depth: int, parent: int, above: Counts, new: Mapping[int, Integers], kept: list[str], lots: Lots
) -> Iterator[dict[int, Integers]]:
    """New counts of a parent, or of more and more units around it: the least far-reaching change comes first."""
    cells = np.argsort(redrawn(lots[parent], np.arange(limits.schema.cells)))
    for inside in _widening(limits.measured, depth, parent):
        units = inside[np.argsort(lots[inside])]
        count = np.stack([_counts(above, new, int(unit)) for unit in units])
        children = [_limits_of_children(limits, depth, int(unit)) for unit in units]
        bounds = list(_bounds_above(limits, depth, units, above, new))
        for query in kept:
            try:
                changed = nearest_parents(count, children, limits.schema, query, limits.possible, cells, bounds)
            except TallyveilError:  # the solver gave up on this way out; the next one asks for less
                continue
            if changed is not None:
                yield dict(zip(units.tolist(), changed, strict=True))


def _widening(spine: Spine, depth: int, unit: int) -> Iterator[Integers]:
    """A unit; then all units of its level inside the next larger unit, and so on up to the root."""
    yield np.array([unit])
    ancestor = unit
    for higher in range(depth - 1, -1, -1):
        ancestor = int(np.searchsorted(spine.first_child[higher], ancestor, side="right")) - 1
        first, last = units_inside(spine, higher, ancestor, depth)
        if last - first > 1:
            yield np.arange(first, last)


def _limits_of_children(limits: RunLimits, depth: int, parent: int) -> list[Limits]:
    spine = limits.measured
    child = np.arange(*units_inside(spine, depth, parent, depth + 1))
    return [limit.of_children(child) for limit in limits.carried[spine.levels[depth + 1]]]


def _bounds_above(
    limits: RunLimits, depth: int, units: Integers, above: Counts, new: Mapping[int, Integers]
) -> Iterator[BoundsAbove]:
    """The bounds on the units that are changed and on all larger units they lie in, less the other units' counts."""
    spine = limits.measured
    ancestor = np.arange(above.units)  # of every unit of the level that is changed
    for higher in range(depth, -1, -1):
        level = spine.levels[higher]
        for limit in limits.carried[level] if higher == depth else limits.own[level]:
            owner_of_all = ancestor if limit.owner is None else limit.owner[ancestor]
            owner_of = owner_of_all[units]
            for owner in np.unique(owner_of):
                least, most = (bounds[0] for bounds in limit.of(np.array([owner])))
                if (least <= 0).all() and (most >= UNLIMITED).all():
                    continue
                others = np.setdiff1d(np.flatnonzero(owner_of_all == owner), units) if higher < depth else units[:0]
                fixed = _answer(limit.query, above, new, others)
                yield BoundsAbove(
                    row_of_cell=limit.query.row_of_cell,
                    members=np.flatnonzero(owner_of == owner),
                    least=(least - fixed).astype(np.float64),
                    most=np.where(most >= UNLIMITED, np.inf, most - fixed),
                )
        if higher:
            ancestor = spine.parents(level)[ancestor]


def _answer(query: Query, above: Counts, new: Mapping[int, Integers], units: Integers) -> Integers:
    """The answer to a query for some units together."""
    unchanged = units[~np.isin(units, list(new))]
    counts = above.taken(unchanged)
    sums = np.bincount(query.row_of_cell[counts.cell], counts.count, query.size).astype(np.int64)
    for unit in np.setdiff1d(units, unchanged).tolist():
        sums += np.bincount(query.row_of_cell, new[unit], query.size).astype(np.int64)
    return sums


def _counts(above: Counts, new: Mapping[int, Integers], unit: int) -> Integers:
    return new[unit] if unit in new else above.dense(unit, unit + 1)[0]


def _replaced(counts: Counts, new: Mapping[int, Integers]) -> Counts:
    """The counts with those of some units replaced."""
    changed = np.isin(counts.unit(), list(new))
    unit, cell, count = [counts.unit()[~changed]], [counts.cell[~changed]], [counts.count[~changed]]
    for position, table in new.items():
        cells = np.flatnonzero(table)
        unit.append(np.full(len(cells), position))
        cell.append(cells.astype(counts.cell.dtype))
        count.append(table[cells])
    columns = (np.concatenate(part) for part in (unit, cell, count))
    return Counts.from_entries(*columns, units=counts.units, cells=counts.cells)
