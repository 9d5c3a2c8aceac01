"""The coarsest schema that answers a request, for attributes whose groupings or zeros make the dense part too large.

Labels that no requested query tells apart become one. Measured queries with finer rows are summed to the coarser
labels, which loses a little of what they say; queries that do not nest with the requested ones are left out. Estimates
stay unbiased, and their standard deviations are exact for what is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.blue.decomposition import attribute_of
from tallyveil.blue.zeros import attributes_with_zeros, possible_cells
from tallyveil.nouns.schema import TOTAL, Grouping, Query, Schema
from tallyveil.privacy.constraints import Bound, Constraint, FacilityBounds
from tallyveil.release.measurements import Measurements


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RowSums:
    """The rows of a coarser query as sums of rows of a measured one."""

    coarse: Query
    size: int
    row: Integers  # the coarse row of each row that anybody may be in, else -1

    @property
    def times(self) -> Integers:
        """How many rows are summed to each coarse row."""
        return np.bincount(self.row[self.row >= 0], minlength=self.coarse.size)

    def fine(self, rows: Integers) -> tuple[Integers, Integers]:
        """The rows that are summed to some coarse rows, one coarse row after the other, and where each begins."""
        order = np.argsort(self.row, kind="stable")
        first = np.searchsorted(self.row[order], rows)
        many = self.times[rows]
        starts = np.cumsum(many) - many
        place = np.arange(int(many.sum())) + np.repeat(first - starts, many)
        return order[place], starts

    def summed(self, table: Floats) -> Floats:
        """A table of answers (units x rows) summed to the coarse rows."""
        out = np.zeros((self.coarse.size, len(table)))
        there = np.flatnonzero(self.row >= 0)
        np.add.at(out, self.row[there], table[:, there].T)
        return out.T


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Coarser:
    """A coarser schema: ``cell`` is the coarse cell of each cell, ``possible`` says which cells anybody may be in.

    ``merged`` are the attributes with fewer labels than before, ``dense`` those whose labels sums treat differently.
    """

    fine: Schema
    schema: Schema
    merged: frozenset[str]
    dense: frozenset[str]
    cell: Integers
    possible: Bools

    @property
    def possible_coarse(self) -> Bools:
        """Which coarse cells anybody may be in."""
        out = np.zeros(self.schema.cells, np.bool_)
        out[self.cell[self.possible]] = True
        return out

    def usable(self, constraint: Constraint) -> bool:
        """Whether a constraint says something about coarse cells alone."""
        if isinstance(constraint, FacilityBounds):
            return constraint.attribute not in self.merged
        if isinstance(constraint, Bound):
            return not self.merged & _attributes(self.fine, self.fine.query(constraint.query))
        return True

    def sums(self, query: Query) -> RowSums | None:
        """A measured query as sums on the coarser schema; None if it does not nest."""
        factors = []
        for factor in query.factors:
            name = attribute_of(self.fine, factor)
            if name not in self.merged or factor in self.schema.groupings:
                factors.append(factor)
            elif len(self.schema.attributes[name]) > 1:
                factors.append(name)
        coarse = self.schema.query(" * ".join(factors) or TOTAL)
        of_cell = coarse.row_of_cell[self.cell][self.possible]
        row_of_cell = query.row_of_cell[self.possible]
        row = np.full(query.size, -1, np.int64)
        row[row_of_cell] = of_cell
        return None if (row[row_of_cell] != of_cell).any() else RowSums(coarse=coarse, size=query.size, row=row)


def coarsest(measurements: Measurements, asked: Sequence[Query]) -> Coarser | None:
    """The coarsest schema that answers some queries; None if they tell all labels apart."""
    schema, strategy = measurements.schema, measurements.strategy
    possible = possible_cells(schema, strategy)
    measured = [schema.query(name) for names in strategy.queries.values() for name in names]
    grouped = {schema.groupings[f].of for query in measured for f in query.factors if f in schema.groupings}
    dense = grouped | attributes_with_zeros(schema, strategy, possible)
    classes = {}
    for name in dense:
        together = _told_apart(schema, name, asked)
        if together.max() + 1 < len(together):
            classes[name] = together
    if not classes:
        return None
    coarse = _schema(schema, classes)
    number = np.unravel_index(np.arange(schema.cells), schema.shape)
    parts = [
        classes[name][label] if name in classes else label
        for name, label in zip(schema.attributes, number, strict=True)
    ]
    cell = np.ravel_multi_index(parts, coarse.shape).astype(np.int64)
    return Coarser(
        fine=schema, schema=coarse, merged=frozenset(classes), dense=frozenset(dense), cell=cell, possible=possible
    )


def _told_apart(schema: Schema, name: str, asked: Sequence[Query]) -> Integers:
    """The class of each label of an attribute: labels that the queries do not tell apart have the same."""
    factors = {factor for query in asked for factor in query.factors if attribute_of(schema, factor) == name}
    none = np.zeros(len(schema.attributes[name]), np.int32)
    keys = np.stack([none, *(schema.positions(factor) for factor in sorted(factors))])
    _, first, of = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))  # classes in the order of their first labels
    return rank[of.reshape(-1)]


def _schema(schema: Schema, classes: Mapping[str, Integers]) -> Schema:
    attributes = {
        name: [str(label) for label in range(classes[name].max() + 1)] if name in classes else labels
        for name, labels in schema.attributes.items()
    }
    groupings = {}
    for name, grouping in schema.groupings.items():
        if grouping.of not in classes:
            groupings[name] = grouping
            continue
        of_label, of_class = schema.positions(name), classes[grouping.of]
        inside = {int(c): {int(g) for g in of_label[of_class == c]} for c in np.unique(of_class)}
        if all(len(groups) == 1 for groups in inside.values()):
            groups = {
                group: tuple(str(c) for c, (number,) in inside.items() if number == place)
                for place, group in enumerate(grouping.groups)
            }
            groupings[name] = Grouping(of=grouping.of, groups=groups)
    return Schema(attributes=attributes, groupings=groupings)


def _attributes(schema: Schema, query: Query) -> set[str]:
    return {attribute_of(schema, factor) for factor in query.factors}
