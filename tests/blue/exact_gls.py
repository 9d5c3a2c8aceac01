"""Least squares from its definition in exact and ball arithmetic, for trees with any variances and any exact answers.

The unknowns are the cells of the leaves that may have people. Rank, estimability and the solution of the exact answers
are decided in rational arithmetic; the remaining normal equations are solved with balls of several hundred bits, so
that no condition number matters. Nothing is shared with the product but the nouns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import flint
import numpy as np

import tallyveil as tv
from tallyveil.privacy import Bound, FacilityBounds, Invariant, StructuralZero

BITS = 600


@dataclass(frozen=True)
class Found:
    """Which rows are estimable, and for these the estimates and covariances."""

    estimable: np.ndarray
    estimate: np.ndarray
    covariance: np.ndarray


class ExactGls:
    """The least-squares problem of some measurements, on the open leaf cells of the measured spine."""

    def __init__(
        self,
        noisy: tv.Measurements,
        facilities: tv.Facilities | None,
        *,
        given: tuple[str, np.ndarray] | None = None,
    ) -> None:
        self.noisy, self.schema, self.given = noisy, noisy.schema, given
        self.leaves = noisy.spine.size(noisy.spine.leaf)
        self.open = np.flatnonzero(~self._closed(facilities).reshape(-1))
        design, values, variances = self._measured()
        self._eliminate(*self._exact())
        A = _rational(design) * self.N  # what is measured, in the free directions
        weights = [1 / flint.fmpq(*float(variance).as_integer_ratio()) for variance in variances]
        self.rref, rank = A.rref()
        self.pivots = [next(j for j in range(A.ncols()) if self.rref[i, j] != 0) for i in range(rank)]
        kept = _columns(A, self.pivots)
        weighted = flint.fmpq_mat(
            kept.nrows(), rank, [w * kept[i, j] for i, w in enumerate(weights) for j in range(rank)]
        )
        before, flint.ctx.prec = flint.ctx.prec, BITS
        try:
            self.V = flint.arb_mat(kept.transpose() * weighted).inv() if rank else flint.arb_mat(0, 0)
            off = _rational(values[:, None]) - _rational(design) * self.x0
            self.z = self.V * flint.arb_mat(weighted.transpose() * off)
        finally:
            flint.ctx.prec = before

    def of(self, rows: np.ndarray) -> Found:
        """Estimates of linear functions of all leaf cells of the measured spine (rows x leaf cells)."""
        W = _rational(rows[:, self.open])
        free = W * self.N
        rank = len(self.pivots)
        some = _columns(free, self.pivots)
        left = free - some * flint.fmpq_mat(
            rank, free.ncols(), [self.rref[i, j] for i in range(rank) for j in range(free.ncols())]
        )
        good = np.array([all(left[i, j] == 0 for j in range(left.ncols())) for i in range(left.nrows())], bool)
        before, flint.ctx.prec = flint.ctx.prec, BITS
        try:
            ball = flint.arb_mat(some)
            estimate = flint.arb_mat(W * self.x0) + ball * self.z
            covariance = ball * self.V * ball.transpose()
        finally:
            flint.ctx.prec = before
        return Found(good, _floats(estimate).reshape(-1), _floats(covariance))

    def rows(self, query: str, published_leaves: Sequence[bool]) -> np.ndarray:
        """The rows of a query for an area made of published leaves."""
        inside = np.asarray(published_leaves, bool)
        if self.noisy.optimised is not None:
            inside = inside[self.noisy.optimised.leaf]
        return self._rows(query, inside)

    def unit(self, level: str, number: int) -> np.ndarray:
        """The published leaves of a published unit."""
        return _inside(self.noisy.published, level, number)

    def _rows(self, query: str, inside: np.ndarray) -> np.ndarray:
        one = self.schema.query(query)
        return np.kron(inside.astype(int), (one.row_of_cell == np.arange(one.size)[:, None]).astype(int))

    def _measured(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        noisy, spine = self.noisy, self.noisy.spine
        rows, values, variances = [], [], []
        for level in spine.levels:
            for name in noisy.strategy.queries[level]:
                size = self.schema.query(name).size
                for unit in range(spine.size(level)):
                    span = int(noisy.shares[level].spans[unit])
                    if span:
                        rows.append(self._rows(name, _inside(spine, level, unit)))
                        values.append(noisy.ask(level, name, unit * size + np.arange(size)))
                        variances.append(np.full(size, max(noisy.noise(level, name, span).actual_variance(), 1e-9)))
        return np.concatenate(rows)[:, self.open], np.concatenate(values), np.concatenate(variances)

    def _exact(self) -> tuple[np.ndarray, np.ndarray]:
        rows, values = [np.zeros((0, self.leaves * self.schema.cells), int)], [np.zeros(0, int)]
        for (name, level), counts in self.noisy.exact.items():
            for unit in range(self.noisy.published.size(level)):
                rows.append(self.rows(name, self.unit(level, unit)))
                values.append(counts.dense()[unit])
        if self.given is not None:  # the cells of all units of a level of the measured spine
            level, table = self.given
            for unit, cells in enumerate(table):
                rows.append(self._rows("detailed", _inside(self.noisy.spine, level, unit)))
                values.append(cells)
        return np.concatenate(rows)[:, self.open], np.concatenate(values)

    def _eliminate(self, rows: np.ndarray, values: np.ndarray) -> None:
        """x = x0 + N z for all z satisfies the exact answers, and nothing else does."""
        size = len(self.open)
        both, rank = _rational(np.concatenate([rows, values[:, None]], axis=1)).rref()
        pivots = [next(j for j in range(size + 1) if both[i, j] != 0) for i in range(rank)]
        assert size not in pivots, "the exact answers contradict each other or the zeros"
        free = [j for j in range(size) if j not in set(pivots)]
        self.x0, self.N = flint.fmpq_mat(size, 1), flint.fmpq_mat(size, len(free))
        for i, pivot in enumerate(pivots):
            self.x0[pivot, 0] = both[i, size]
            for k, j in enumerate(free):
                self.N[pivot, k] = -both[i, j]
        for k, j in enumerate(free):
            self.N[j, k] = 1

    def _closed(self, facilities: tv.Facilities | None) -> np.ndarray:
        """Leaf cells of the measured spine that are known to be empty."""
        schema, spine = self.schema, self.noisy.published
        closed = np.tile(~schema.possible, (self.leaves, 1))
        for one in self.noisy.strategy.constraints if self.noisy.strategy.check_constraints else ():
            if isinstance(one, StructuralZero):
                closed |= ~tv.Schema(attributes=schema.attributes, zeros=[dict(one.cells)]).possible
            if isinstance(one, FacilityBounds):
                built, row = facilities.at(one.level).dense(), schema.query(one.attribute).row_of_cell
                most = [one.most.get(kind, one.most.get("*", 1)) for kind in facilities.types]
                for unit in range(spine.size(one.level)):
                    closed[np.ix_(_inside(spine, one.level, unit), (built[unit] * most == 0)[row])] = True
            if isinstance(one, Bound):
                most, row = one.limits(schema)[1], schema.query(one.query).row_of_cell
                codes = spine.labels(one.level)
                for code in one.units or codes:
                    closed[np.ix_(_inside(spine, one.level, codes.index(code)), (most == 0)[row])] = True
            assert isinstance(one, StructuralZero | FacilityBounds | Bound | Invariant)
        return closed if self.noisy.optimised is None else closed[self.noisy.optimised.leaf]


def _inside(spine: tv.Spine, level: str, unit: int) -> np.ndarray:
    bounds = spine.leaves_under(level)
    leaf = np.arange(spine.size(spine.leaf))
    return (leaf >= bounds[unit]) & (leaf < bounds[unit + 1])


def _rational(table: np.ndarray) -> flint.fmpq_mat:
    return flint.fmpq_mat(flint.fmpz_mat(*table.shape, [int(value) for value in table.reshape(-1)]))


def _columns(table: flint.fmpq_mat, which: Sequence[int]) -> flint.fmpq_mat:
    return flint.fmpq_mat(table.nrows(), len(which), [table[i, j] for i in range(table.nrows()) for j in which])


def _floats(table: flint.arb_mat) -> np.ndarray:
    return np.array([[float(table[i, j].mid()) for j in range(table.ncols())] for i in range(table.nrows())]).reshape(
        table.nrows(), table.ncols()
    )
