"""Least squares from its definition only: every measurement of every unit stacked on the cells of the leaves.

Nothing here is shared with the product but the nouns: matrices are built from ``row_of_cell``, zeros are looked up leaf
by leaf, and exact answers are eliminated with a basis of the null space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tallyveil as tv
from tallyveil.privacy import Bound, FacilityBounds, Invariant, StructuralZero


class ContradictionError(ValueError):
    """Cells were given that exact answers and zeros below rule out."""


@dataclass(frozen=True)
class Dense:
    """The estimate of all leaf cells of the measured spine, and its covariance."""

    x: np.ndarray
    V: np.ndarray
    noisy: tv.Measurements

    def unit_rows(self, level: str, unit: int, *, published: bool = True) -> np.ndarray:
        """The leaves (of the measured spine) of a unit, as a 0/1 vector."""
        spine = self.noisy.published if published else self.noisy.spine
        bounds = spine.leaves_under(level)
        inside = np.zeros(spine.size(spine.leaf))
        inside[bounds[unit] : bounds[unit + 1]] = 1
        if published and self.noisy.optimised is not None:
            inside = inside[self.noisy.optimised.leaf]
        return inside

    def query(self, leaves: np.ndarray, query: str) -> np.ndarray:
        """The rows of a query for some leaves, as a matrix on all leaf cells."""
        one = self.noisy.schema.query(query)
        rows = (one.row_of_cell == np.arange(one.size)[:, None]).astype(float)
        return np.kron(leaves, rows)


def dense_gls(
    noisy: tv.Measurements, facilities: tv.Facilities | None, *, given: tuple[str, np.ndarray] | None = None
) -> Dense:
    """Weighted least squares on leaf cells, subject to exact answers and zeros, and to the ``given`` cells of a level.

    The cells are given for all units of a level of the measured spine: units x cells.
    """
    spine, schema = noisy.spine, noisy.schema
    dense = Dense(np.zeros(0), np.zeros(0), noisy)
    cells = schema.cells * spine.size(spine.leaf)
    information, vector = np.zeros((cells, cells)), np.zeros(cells)
    for level in spine.levels:
        for name in noisy.strategy.queries[level]:
            size = schema.query(name).size
            for unit in range(spine.size(level)):
                span = int(noisy.shares[level].spans[unit])
                if span == 0:
                    continue
                M = dense.query(dense.unit_rows(level, unit, published=False), name)
                variance = noisy.noise(level, name, span).actual_variance()
                y = noisy.ask(level, name, unit * size + np.arange(size))
                information += M.T @ M / variance
                vector += M.T @ y / variance
    rows = [np.zeros((0, cells))]
    values = [np.zeros(0)]
    for (name, level), counts in noisy.exact.items():
        for unit in range(noisy.published.size(level)):
            rows.append(dense.query(dense.unit_rows(level, unit), name))
            values.append(counts.dense()[unit])
    if given is not None:
        for unit, table in enumerate(given[1]):
            rows.append(dense.query(dense.unit_rows(given[0], unit, published=False), "detailed"))
            values.append(table)
    closed = closed_leaf_cells(noisy, facilities).reshape(-1)
    rows.append(np.eye(cells)[closed])
    values.append(np.zeros(closed.sum()))
    E, c = np.concatenate(rows), np.concatenate(values)
    _, singular, right = np.linalg.svd(E, full_matrices=True)
    rank = int((singular > 1e-9).sum())
    Z = right[rank:].T
    x0 = np.linalg.lstsq(E, c, rcond=None)[0]
    if np.abs(E @ x0 - c).max(initial=0.0) > 1e-3:
        raise ContradictionError("the given cells contradict exact answers or zeros")
    V = Z @ np.linalg.inv(Z.T @ information @ Z) @ Z.T
    return Dense(x0 + V @ (vector - information @ x0), V, noisy)


def closed_leaf_cells(noisy: tv.Measurements, facilities: tv.Facilities | None) -> np.ndarray:
    """Which cells of which leaves (of the measured spine) are known to be empty."""
    schema, published = noisy.schema, noisy.published
    closed = np.zeros((published.size(published.leaf), schema.cells), bool)
    closed |= ~schema.possible
    for one in noisy.strategy.constraints:
        if isinstance(one, Invariant) or not noisy.strategy.check_constraints:
            continue
        if isinstance(one, StructuralZero):
            closed |= ~tv.Schema(attributes=schema.attributes, zeros=[dict(one.cells)]).possible
            continue
        bounds = published.leaves_under(one.level)
        if isinstance(one, Bound):
            query, most = schema.query(one.query), one.limits(schema)[1]
            units = published.locate(one.level, list(one.units)) if one.units else range(published.size(one.level))
            for unit in units:
                closed[bounds[unit] : bounds[unit + 1]] |= (most == 0)[query.row_of_cell]
        if isinstance(one, FacilityBounds):
            query, built = schema.query(one.attribute), facilities.at(one.level).dense()
            for unit in range(published.size(one.level)):
                closed[bounds[unit] : bounds[unit + 1]] |= (built[unit] == 0)[query.row_of_cell]
    return closed if noisy.optimised is None else closed[noisy.optimised.leaf]
