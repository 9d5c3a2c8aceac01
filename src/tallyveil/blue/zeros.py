"""Cells that are known to be empty: structural zeros, and upper bounds of zero such as types without facilities.

A cell that is empty in a unit is empty in the units below it, and one that is empty in all children is empty in their
parent. Only public inputs are used. Bounds that were never checked against the data (``check_constraints = false``) may
be wrong, so they are not used here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.blue.decomposition import Decomposition, attribute_of
from tallyveil.blue.tree import Stage
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Query, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.constraints import ALL, UNLIMITED, Bound, FacilityBounds, StructuralZero
from tallyveil.privacy.strategy import Strategy

Kind = TypeVar("Kind", StructuralZero, FacilityBounds, Bound)


def possible_cells(schema: Schema, strategy: Strategy) -> Bools:
    """Which cells anybody may be in, in any unit."""
    possible = schema.possible.copy()
    for zero in _constraints(strategy, StructuralZero):
        possible &= Schema(attributes=schema.attributes, zeros=[dict(zero.cells)]).possible
    return possible


def attributes_with_zeros(schema: Schema, strategy: Strategy, possible: Bools) -> set[str]:
    """The attributes whose labels zeros tell apart, which the decomposition must treat label by label."""
    names = set()
    table = possible.reshape(schema.shape)
    for axis, name in enumerate(schema.attributes):
        if (table != np.take(table, [0], axis=axis)).any():
            names.add(name)
    for bounds in _constraints(strategy, FacilityBounds):
        names.add(bounds.attribute)
    for bound in _constraints(strategy, Bound):
        if (bound.limits(schema)[1] == 0).any():
            names |= {attribute_of(schema, factor) for factor in schema.query(bound.query).factors}
    return names


def open_cells(
    stages: Sequence[Stage],
    decomposition: Decomposition,
    strategy: Strategy,
    possible: Bools,
    *,
    facilities: Facilities | None,
    published: Spine,
    optimised: OptimisedSpine | None,
) -> list[Bools]:
    """For each stage, which dense cells of each unit may have people: units x dense cells."""
    always = possible[decomposition.dense_cell]
    tables = [np.tile(always, (stage.size, 1)) for stage in stages]
    place = {stage.level: number for number, stage in enumerate(stages)}
    schema = decomposition.schema
    for bounds in _constraints(strategy, FacilityBounds):
        _close(
            tables, place, decomposition, schema.query(bounds.attribute), _without_facilities(bounds, facilities),
            level=bounds.level, published=published, optimised=optimised,
        )  # fmt: skip
    for bound in _constraints(strategy, Bound):
        closed = np.tile(bound.limits(schema)[1] == 0, (published.size(bound.level), 1))
        if bound.units:
            others = np.ones(len(closed), np.bool_)
            others[published.locate(bound.level, list(bound.units))] = False
            closed[others] = False
        if closed.any():
            _close(
                tables, place, decomposition, schema.query(bound.query), closed,
                level=bound.level, published=published, optimised=optimised,
            )  # fmt: skip
    _spread(stages, tables)
    return tables


def _constraints(strategy: Strategy, kind: type[Kind]) -> list[Kind]:
    """The constraints of a kind that the data are known to satisfy."""
    return [one for one in strategy.constraints if isinstance(one, kind) and strategy.check_constraints]


def _without_facilities(bounds: FacilityBounds, facilities: Facilities | None) -> Bools:
    """Which types have no room for anybody in each published unit."""
    if facilities is None:
        raise InputError(
            f"the strategy bounds persons by facilities ({bounds.words()}), but no facilities are given. Give the "
            f"table of facilities."
        )
    most = np.array([bounds.most.get(name, bounds.most.get(ALL, UNLIMITED)) for name in facilities.types])
    built = facilities.at(bounds.level)
    closed = np.ones((built.units, len(most)), np.bool_)  # a nation has many units, and few facilities each
    closed[np.repeat(np.arange(built.units), np.diff(built.start)), built.cell] = most[built.cell] == 0
    return closed


def _close(
    tables: Sequence[Bools],
    place: Mapping[str | None, int],
    decomposition: Decomposition,
    query: Query,
    closed: Bools,
    *,
    level: str,
    published: Spine,
    optimised: OptimisedSpine | None,
) -> None:
    """Close the dense cells of some rows of a query, given for published units of a level.

    Where an optimised spine has rebuilt the level, they are closed in the leaves instead.
    """
    unit: Integers = np.arange(len(closed))
    if optimised is not None:
        if level not in optimised.part_of:
            closed = np.repeat(closed, np.diff(published.leaves_under(level)), axis=0)
            level = published.leaf
        unit = optimised.part_of[level]
    tables[place[level]][:] &= ~closed[unit][:, query.row_of_cell[decomposition.dense_cell]]


def _spread(stages: Sequence[Stage], tables: Sequence[Bools]) -> None:
    """Carry closed cells down to children, and up to parents whose children are all closed."""
    for above, stage in enumerate(stages[:-1]):
        child, number = stage.children(np.arange(stage.size))
        tables[above + 1][child] &= np.repeat(tables[above], number, axis=0)
    for above in range(len(stages) - 2, -1, -1):
        stage = stages[above]
        child, _ = stage.children(np.arange(stage.size))
        assert stage.first_child is not None
        tables[above][:] &= np.logical_or.reduceat(tables[above + 1][child], stage.first_child[:-1], axis=0)
