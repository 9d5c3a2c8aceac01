"""The children of one parent and what was measured of them, as matrices: the conditions of section ``ranges``.

Cells that are impossible, or empty in the parent, are not estimated. The parent's counts and exact counts are sums that
are given to the estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL, Schema
from tallyveil.privacy.constraints import Invariant, StructuralZero
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy

MOST = 2_000  # measurements; each takes eight linear programs


@dataclass(frozen=True, kw_only=True, eq=False)
class Nest:
    """The children of one parent (or the root alone): measurements, cells, and the sums that are given.

    Attributes
    ----------
    places
        Level, unit, query and cell of each measurement.
    released
        The released count of each cell, child after child.
    weighted
        The transpose of the queries' matrices times their weights (cells x measurements).
    squared
        That times the queries' matrices (cells x cells).
    given
        The sums that are given (sums x cells).
    """

    places: list[tuple[str, str, str, str]]
    released: Floats
    weighted: csr_array
    squared: csr_array
    given: csr_array

    def siblings(self) -> list[int | None]:
        """For each measurement, the same one of the next sibling, the first one following the last."""
        same: dict[tuple[str, str], list[int]] = {}
        for i, (_, _, query, cell) in enumerate(self.places):
            same.setdefault((query, cell), []).append(i)
        following = {i: each[(n + 1) % len(each)] for each in same.values() for n, i in enumerate(each)}
        return [None if following[i] == i else following[i] for i in range(len(self.places))]


def nests(release: Histogram, strategy: Strategy, possible: Bools) -> Iterator[Nest]:
    """The root, and then the children of each parent that has several and is not empty."""
    spine, shares = release.spine, unit_shares(strategy, release.spine)
    size = sum(
        release.schema.query(query).size * int((shares[level].spans > 0).sum())
        for level in spine.levels
        for query in strategy.queries[level]
    )
    if size > MOST:
        raise InputError(f"{size:,} measurements are too many for exact ranges; {MOST:,} are the most. Use the shares.")
    for depth, level in enumerate(spine.levels):
        tables = release.at(level).dense()
        if depth == 0:
            yield _nest(release, strategy, level, np.array([0]), tables, possible, None)
            continue
        above = release.at(spine.levels[depth - 1]).dense()
        first = spine.first_child[depth - 1]
        for parent in range(len(above)):
            children = np.arange(first[parent], first[parent + 1])
            yield _nest(release, strategy, level, children, tables, possible, above[parent])


def _nest(
    release: Histogram,
    strategy: Strategy,
    level: str,
    children: Integers,
    tables: Integers,
    possible: Bools,
    parent: Integers | None,
) -> Nest:
    """One nest; cells that are impossible or empty in the parent are not estimated, and have no equation."""
    schema, codes = release.schema, release.spine.labels(level)
    used = np.flatnonzero(possible if parent is None else possible & (parent > 0))
    k, m = len(children), len(used)
    share = unit_shares(strategy, release.spine)[level]
    places: list[tuple[str, str, str, str]] = []
    cells: list[Integers] = []
    weights: list[float] = []
    for number, child in enumerate(children):
        if not share.of(int(child)):
            continue
        for query in strategy.queries[level]:
            asked = schema.query(query)
            weight = 1 / strategy.noise(level, query, level_share=share.of(int(child))).actual_variance()
            for row, label in enumerate(asked.labels()):
                places.append((level, codes[child], query, label))
                cells.append(number * m + np.flatnonzero(asked.row_of_cell[used] == row))
                weights.append(weight)
    ask = _rows(cells, k * m)
    weighted = csr_array(ask.T * np.array(weights))
    return Nest(
        places=places,
        released=tables[children][:, used].astype(np.float64).ravel(),
        weighted=weighted,
        squared=csr_array(weighted @ ask),
        given=_rows(list(_given(strategy, schema, level, used, k, parent)), k * m),
    )


def _given(
    strategy: Strategy, schema: Schema, level: str, used: Integers, k: int, parent: Integers | None
) -> Iterator[Integers]:
    """The cells of each sum that is given: the parent's counts, and the exact counts of this level or of one below."""
    m, levels = len(used), list(strategy.levels)
    exact = {c.query for c in strategy.constraints if isinstance(c, Invariant) and level in _at_or_above(levels, c)}
    if parent is not None:
        yield from (np.arange(k) * m + i for i in range(m))
    elif strategy.neighbours == "replace-one":
        exact.add(TOTAL)
    for query in sorted(exact):
        row_of_cell = schema.query(query).row_of_cell[used]
        for row in np.unique(row_of_cell):
            for number in range(k):
                yield number * m + np.flatnonzero(row_of_cell == row)


def _at_or_above(levels: list[str], constraint: Invariant) -> list[str]:
    return levels[: levels.index(constraint.level) + 1]


def _rows(cells: list[Integers], width: int) -> csr_array:
    """A matrix of 0 and 1, one row for each set of cells."""
    row = np.repeat(np.arange(len(cells)), [len(each) for each in cells])
    column = np.concatenate(cells) if cells else np.zeros(0, dtype=np.int64)
    return csr_array(coo_array((np.ones(len(row)), (row, column)), shape=(len(cells), width)))


def possible_cells(schema: Schema, strategy: Strategy) -> Bools:
    """The cells that neither the schema nor the strategy rules out."""
    zeros = [zero.cells for zero in strategy.constraints if isinstance(zero, StructuralZero)]
    return Schema(attributes=schema.attributes, groupings=schema.groupings, zeros=[*schema.zeros, *zeros]).possible
