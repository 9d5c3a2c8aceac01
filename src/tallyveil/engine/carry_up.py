"""Bounds carried up the tree, so that every level is estimated with the constraints of the levels below it in mind.

Above the level where bounds are declared, they are summed, as in the Bureau's rules. What several bounds together say
about a unit's total is carried up too: the total is at least the largest sum of lower bounds, and at most the smallest
sum of upper bounds, over the bounded queries. Where the total is bounded, the other bounds are tightened in turn: a row
holds at least the total less what the other rows may hold, and at most the total less what they must hold. (The Bureau
also used the true totals of the parts of a split state there, which no invariant declares; we do not.)

Where the parts of a unit are bounded together, the unit is one more step on the way up: the bounds of its parts are
summed and then intersected with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.engine.constraints import UNITS_AT_ONCE, Bounds, LevelLimits
from tallyveil.engine.nests import UNLIMITED
from tallyveil.nouns.schema import TOTAL, Schema
from tallyveil.nouns.spine import Spine


def carried_limits(
    spine: Spine, schema: Schema, own: Mapping[str, Sequence[LevelLimits]], possible: Bools
) -> dict[str, list[LevelLimits]]:
    """For each level the bounds that hold there: its own, and those carried up from below."""
    carried: dict[str, list[LevelLimits]] = {}
    below: dict[str, LevelLimits] = {}
    for depth in range(len(spine.levels) - 1, -1, -1):
        level = spine.levels[depth]
        here = {name: _summed(limits, spine.first_child[depth]) for name, limits in below.items()}
        here = _tightened(_joined(here, [limits for limits in own[level] if limits.owner is None]), schema, possible)
        carried[level] = sorted(here.values(), key=lambda limits: limits.query.size)
        below = here
        together = [limits for limits in own[level] if limits.owner is not None]
        if together:  # the parts of a unit, bounded together
            owner, owners = together[0].owner, together[0].owners
            assert owner is not None
            below = {name: _of_owners(limits, owner, owners) for name, limits in here.items()}
            below = _tightened(_joined(below, [replace(limits, owner=None) for limits in together]), schema, possible)
            names = {limits.query.name for limits in together}
            shared = [replace(limits, owner=owner) for name, limits in below.items() if name in names]
            carried[level] += sorted(shared, key=lambda limits: limits.query.size)
            spine = replace(spine, first_child=(np.array([0, owners]), *spine.first_child[1:]))
    return carried


def tightened_by_total(bounds: Mapping[str, Bounds]) -> dict[str, Bounds]:
    """Bounds on the total from all queries, and bounds on all rows from the total."""
    lowest, highest = bounds[TOTAL]
    for least, most in bounds.values():
        lowest = np.maximum(lowest, _row_sums(least))
        highest = np.minimum(highest, _row_sums(most))
    tight = {TOTAL: (lowest, highest)}
    for name, (least, most) in bounds.items():
        if name != TOTAL:
            tight[name] = within_sum(least, most, lowest, highest, _row_sums)
    return tight


def within_sum(
    least: Integers, most: Integers, lowest: Integers, highest: Integers, sums: Callable[[Integers], Integers]
) -> Bounds:
    """Bounds on the parts of a sum that is bounded itself.

    A part holds at least the sum less what the others may hold, and at most the sum less what they must hold. ``sums``
    returns, for each part, the sum over all parts that belong together.
    """
    free = most >= UNLIMITED
    bounded = np.where(free, 0, most)
    all_bounded = sums(bounded)
    others_free = (sums(free.astype(np.int64)) - free > 0) | (all_bounded >= UNLIMITED)
    lower = np.maximum(least, np.where(others_free, 0, lowest - (all_bounded - bounded)))
    upper = np.where(highest >= UNLIMITED, most, np.minimum(most, np.maximum(highest - (sums(least) - least), 0)))
    return lower, upper


def runs_of_parents(first_child: Integers, units: int = UNITS_AT_ONCE) -> Iterator[tuple[int, int]]:
    """Runs of parents, first and last, that have up to so many children together, or one parent alone."""
    start, size = 0, len(first_child) - 1
    while start < size:
        end = int(np.searchsorted(first_child, first_child[start] + units, side="right")) - 1
        stop = max(start + 1, end)
        yield start, stop
        start = stop


def saturated_sums(bounds: Integers, cuts: Integers, *, axis: int = 0) -> Integers:
    """Sums of runs that begin at the cuts, or ``UNLIMITED`` where they would reach it."""
    large = np.add.reduceat(bounds.astype(np.float64), cuts, axis=axis) >= UNLIMITED
    return np.where(large, UNLIMITED, np.add.reduceat(np.where(bounds >= UNLIMITED, 0, bounds), cuts, axis=axis))


def _joined(here: Mapping[str, LevelLimits], more: Sequence[LevelLimits]) -> dict[str, LevelLimits]:
    """The bounds by query; where there are two on one query, the stricter of each."""
    by_query = dict(here)
    for limits in more:
        name = limits.query.name
        by_query[name] = _intersection(by_query[name], limits) if name in by_query else limits
    return by_query


def _intersection(first: LevelLimits, second: LevelLimits) -> LevelLimits:
    def of(units: Integers) -> Bounds:
        (least, most), (other_least, other_most) = first.of(units), second.of(units)
        return np.maximum(least, other_least), np.minimum(most, other_most)

    return replace(first, of=of, words=tuple(dict.fromkeys((*first.words, *second.words))))


def _tightened(by_query: Mapping[str, LevelLimits], schema: Schema, possible: Bools) -> dict[str, LevelLimits]:
    """The bounds of a level, tightened by each other and by which cells are possible.

    The bounds on one query alone imply nothing new about its total, so the total is added only where there are several.
    """
    if TOTAL not in by_query and len(by_query) > 1:
        by_query = {TOTAL: _no_limits_on_the_total(by_query, schema), **by_query}
    closed = {
        name: np.bincount(limits.query.row_of_cell[possible], minlength=limits.query.size) == 0
        for name, limits in by_query.items()
    }
    if len(by_query) <= 1 and not any(rows.any() for rows in closed.values()):
        return dict(by_query)

    def of(name: str, units: Integers) -> Bounds:
        bounds = {}
        for query, limits in by_query.items():
            least, most = limits.of(units)
            bounds[query] = (least, np.where(closed[query], 0, most))
        return bounds[name] if len(bounds) == 1 else tightened_by_total(bounds)[name]

    return {name: replace(limits, of=partial(of, name)) for name, limits in by_query.items()}


def _no_limits_on_the_total(by_query: Mapping[str, LevelLimits], schema: Schema) -> LevelLimits:
    return LevelLimits(
        query=schema.query(TOTAL),
        of=lambda units: (np.zeros((len(units), 1), np.int64), np.full((len(units), 1), UNLIMITED)),
        owners=next(iter(by_query.values())).owners,
        words=tuple(dict.fromkeys(words for limits in by_query.values() for words in limits.words)),
    )


def _summed(limits: LevelLimits, first_child: Integers) -> LevelLimits:
    """The bounds of the level below, summed over the children of each unit of this level."""
    size = len(first_child) - 1
    least, most = (np.zeros((size, limits.query.size), np.int64) for _ in range(2))
    for start, stop in runs_of_parents(first_child):
        cuts = first_child[start:stop] - first_child[start]
        bounds = limits.of(np.arange(first_child[start], first_child[stop]))
        least[start:stop], most[start:stop] = (saturated_sums(part, cuts) for part in bounds)
    return _fixed(limits, least, most)


def _of_owners(limits: LevelLimits, owner: Integers, owners: int) -> LevelLimits:
    """The bounds of parts, summed for the units they are parts of."""
    order = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[order], np.arange(owners))
    least, most = (saturated_sums(part, cuts) for part in limits.of(order))
    return _fixed(limits, least, most)


def _row_sums(bounds: Integers) -> Integers:
    """The sum over the rows of each unit."""
    return saturated_sums(bounds, np.zeros(1, np.int64), axis=1)


def _fixed(limits: LevelLimits, least: Integers, most: Integers) -> LevelLimits:
    return replace(limits, of=lambda units: (least[units], most[units]), owners=len(least), owner=None)
