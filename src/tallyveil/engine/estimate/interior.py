r"""The general path: a primal-dual interior-point method that knows the shape of a nest.

For what the fast path (``fista``) cannot certify. Write every measured or bounded row of a child as :math:`g_r' x_c`,
with a multiplier :math:`\lambda_{cr}`, and let :math:`\theta_s` be the multiplier of a column (the children sum to the
parent in cell s). A Newton step of Mehrotra's method [1]_ then solves

.. math::

    D\,\Delta x + G'\Delta\lambda + \Delta\theta = f_1, \qquad
    G\,\Delta x - E\,\Delta\lambda = f_2, \qquad \textstyle\sum_c \Delta x_c = f_3,

where D and E are diagonal. D is the weight of the measured cells plus the barrier of x >= 0; E is 1/weight for a
measured row, the inverse of the slack's barrier for a bounded one, and almost zero for an exact one. First x is
eliminated, entry by entry; then the rows of each child, with a small dense matrix
:math:`S_c = E_c + G D_c^{-1} G'`. What remains is one matrix with the size of the columns, to which each child adds its
part. The work is linear in the number of children.

Dependent rows need no special care: small proximal terms in D, and in E for exact rows, keep every matrix regular. They
are centred at the current point, so they do not move the solution [2]_. The unknowns are d = x - base, where base is
integer, so residuals are exact even where counts are in the billions.

References
----------
.. [1] Mehrotra, On the implementation of a primal-dual interior point method, SIAM Journal on Optimization 2, 1992.
.. [2] Schwan, Jiang, Kuhn & Jones, PIQP: a proximal interior-point quadratic programming solver, CDC 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.engine.estimate.blocks import Blocks, Point
from tallyveil.engine.estimate.held_rows import HeldRows, RowPoint, longest_step

STEPS = 80
_GAP, _VIOLATION = 1e-9, 1e-9  # a solve ends when both are reached: relative, and in persons
_IDLE = 6  # or after so many steps without a better point
_PROXIMAL = 1e-7  # of the largest weight: the proximal term in D
_STIFF = 1e-9  # of the largest 1/D: that in E
_NARROW = 1e-4  # in standard deviations of the best measurement: bounds this close are one exact sum
_ENTRIES = 1 << 22  # of the arrays that are worked on at once
_REFINED = 2  # how often a step is made more exact


def interior(blocks: Blocks, near: Floats, *, steps: int = STEPS, narrow: float = _NARROW, apart: float = 1.0) -> Point:
    """Solve a nest, beginning near a table; the best point that was met.

    It starts ``apart`` from zero, and bounds closer than ``narrow`` are one exact sum: both in standard deviations of
    the best measurement.
    """
    nest = _Nest(blocks, near, narrow)
    point = nest.start(near, apart)
    best, least, since = point, np.inf, 0
    for _ in range(steps):
        wrong = nest.residuals(point)
        merit = max(wrong.gap / _GAP, wrong.violation / _VIOLATION)
        if merit < least:
            best, least, since = point, merit, -1
        since += 1
        if merit <= 1.0 or not np.isfinite(merit) or since > _IDLE:
            break
        try:
            newton = _Newton(nest, point)
        except np.linalg.LinAlgError:
            break
        towards = newton.step(wrong, 0.0, None)
        reached = nest.complementarity(point.moved(towards, nest.longest(point, towards)))
        centring = (reached / wrong.complementarity) ** 3 * wrong.complementarity / nest.pairs
        towards = newton.step(wrong, centring, towards)
        point = point.moved(towards, 0.995 * nest.longest(point, towards))
    return Point(base=nest.base, d=best.d, rows=best.rows.dual * nest.unit, shared=best.shared.dual * nest.unit)


@dataclass(frozen=True, eq=False)
class _Place:
    """Where the method is, or the direction that it takes; d is x without its whole base."""

    x: Floats
    d: Floats
    z: Floats  # multipliers of x >= 0
    theta: Floats
    rows: RowPoint
    shared: RowPoint

    def moved(self, by: _Place, length: float) -> _Place:
        return _Place(
            self.x + length * by.x,
            self.d + length * by.d,
            self.z + length * by.z,
            self.theta + length * by.theta,
            self.rows.moved(by.rows, length),
            self.shared.moved(by.shared, length),
        )


@dataclass(frozen=True, eq=False)
class _Wrong:
    """How far the optimality conditions are from holding."""

    stationary: Floats
    columns: Floats
    rows: Floats
    shared: Floats
    complementarity: float
    gap: float  # what all of it may cost, relative to max(1/2, the objective)
    violation: float  # in persons


class _Nest:
    """The nest in unknowns d = x - base, with weights of at most 1."""

    def __init__(self, blocks: Blocks, near: Floats, narrow: float) -> None:
        self.open = blocks.open
        self.base = np.where(blocks.open, np.rint(near), 0.0)
        self.unit = max(float(blocks.own.max()), float(blocks.weight.max(initial=0.0)))
        self.own = np.where(blocks.open, blocks.own[:, None], 0.0) / self.unit
        self.noisy = np.where(blocks.open, blocks.noisy - self.base, 0.0)
        self.member = blocks.member
        sums = self.base @ blocks.member.T
        least, most = _narrowed(blocks.least - sums, blocks.most - sums, narrow * self.unit**-0.5)
        self.rows = HeldRows(blocks.weight / self.unit, blocks.answer - sums, least, most)
        self.children, self.cells = blocks.shared_children, blocks.shared_cells
        sums = self.shared_sums(self.base)
        none = np.zeros(len(sums))
        self.shared = HeldRows(none, none, blocks.shared_least - sums, blocks.shared_most - sums)
        self.count = None if blocks.count is None else blocks.count - self.base.sum(axis=0)
        every = (self.open, self.rows.below, self.rows.above, self.shared.below, self.shared.above)
        self.pairs = sum(int(mask.sum()) for mask in every)

    def shared_sums(self, x: Floats) -> Floats:
        sums: Floats = np.einsum("kc,cm,km->k", self.children, x, self.cells, optimize=True)
        return sums

    def start(self, near: Floats, scale: float) -> _Place:
        """Away from zero by a standard deviation of the best measurement, or by what there is room for."""
        unit = scale * self.unit**-0.5
        apart = np.where(self.open, np.minimum(unit, self.room()), 0.0)
        x = np.where(self.open, np.maximum(near, apart), 0.0)
        d = np.where(self.open, x - self.base, 0.0)
        sums = d @ self.member.T
        dual = self.rows.start(sums, 0.0, unit).dual
        slope = np.where(self.open, self.own * (d - self.noisy) + dual @ self.member, np.inf)
        slope = slope - (slope.min(axis=0) if self.count is not None else min(0.0, slope.min()))
        cost = np.minimum(slope, 1e6 * unit)[self.open] * apart[self.open]
        mean = 0.1 * float(np.mean(cost)) + 1e-3 * float(np.mean(apart[self.open] ** 2))
        z = np.where(self.open, mean / np.where(self.open, x, 1.0), 0.0)
        shared = self.shared.start(self.shared_sums(d), mean, unit)
        return _Place(x, d, z, np.zeros(near.shape[1]), self.rows.start(sums, mean, unit), shared)

    def room(self) -> Floats:
        """An even share of what the parent, and every bounded row, has for each entry."""
        n = len(self.open)
        room = np.full(self.open.shape, np.inf)
        if self.count is not None:
            room[:] = (self.count + self.base.sum(axis=0)) / n
        most = self.rows.most + self.base @ self.member.T
        for r, member in enumerate(self.member > 0):
            share = np.where(self.rows.above[:, r], most[:, r] / member.sum(), np.inf)
            room[:, member] = np.minimum(room[:, member], share[:, None])
        return room

    def pull(self, at: _Place) -> Floats:
        """R'nu and theta: what all multipliers but those of x >= 0 add to the gradient."""
        pull = at.rows.dual @ self.member + at.theta
        shared: Floats = np.einsum("k,kc,km->cm", at.shared.dual, self.children, self.cells, optimize=True)
        return pull + shared

    def residuals(self, at: _Place) -> _Wrong:
        off = at.d - self.noisy
        sums = at.d @ self.member.T
        stationary = np.where(self.open, self.own * off + self.pull(at) - at.z, 0.0)
        columns = np.zeros(len(at.theta)) if self.count is None else at.d.sum(axis=0) - self.count
        rows = self.rows.residuals(sums, at.rows)
        shared = self.shared.residuals(self.shared_sums(at.d), at.shared)
        far = np.divide(sums - self.rows.target, self.rows.give, out=np.zeros(rows.shape), where=self.rows.measured)
        value = 0.5 * float((self.own * off**2).sum() + (far * (sums - self.rows.target)).sum())
        hard = np.concatenate([columns, rows[~self.rows.measured], shared])
        cost = self.complementarity(at) + float(
            np.abs(stationary * at.x).sum()
            + np.abs(rows * at.rows.dual).sum()
            + np.abs(shared * at.shared.dual).sum()
            + np.abs(columns * at.theta).sum()
        )
        return _Wrong(
            stationary,
            columns,
            rows,
            shared,
            self.complementarity(at),
            cost / max(0.5 / self.unit, value),
            float(np.abs(hard).max(initial=0.0)),
        )

    def complementarity(self, at: _Place) -> float:
        pairs = float((at.x * at.z).sum())
        return pairs + self.rows.complementarity(at.rows) + self.shared.complementarity(at.shared)

    def longest(self, at: _Place, by: _Place) -> float:
        return min(
            1.0 / 0.995,
            longest_step(at.x, by.x, self.open),
            longest_step(at.z, by.z, self.open),
            self.rows.longest(at.rows, by.rows),
            self.shared.longest(at.shared, by.shared),
        )


class _Newton:
    """The matrices of a Newton step, in the order of elimination: entries, rows of a child, columns and shared rows."""

    def __init__(self, nest: _Nest, at: _Place) -> None:
        self.nest, self.at = nest, at
        self.diagonal = np.where(nest.open, nest.own + at.z / np.where(nest.open, at.x, 1.0) + _PROXIMAL, 1.0)
        self.inverse = np.where(nest.open, 1.0 / self.diagonal, 0.0)
        least = _STIFF * float(self.inverse.max())
        self.give = nest.rows.elasticity(at.rows, least)
        self.shared_give = nest.shared.elasticity(at.shared, least)
        n, m = nest.open.shape
        rows, shared = len(nest.member), len(nest.cells)
        columns = nest.count is not None
        size = (m if columns else 0) + shared
        matrix = np.zeros((size, size))
        self.rows_inverse = np.empty((n, rows, rows))
        if columns:
            matrix[:m, :m] = np.diag(self.inverse.sum(axis=0))
        some = max(1, _ENTRIES // max(1, rows * m))
        for first in range(0, n if rows else 0, some):
            part = slice(first, first + some)
            scaled = nest.member * self.inverse[part, None, :]  # G D^-1 of these children
            block = scaled @ nest.member.T
            block[:, range(rows), range(rows)] += self.give[part]
            self.rows_inverse[part] = _inverse(block)
            if columns:
                matrix[:m, :m] -= scaled.reshape(-1, m).T @ (self.rows_inverse[part] @ scaled).reshape(-1, m)
        if shared:
            first = size - shared
            for k in range(shared):
                unit = np.zeros(shared)
                unit[k] = 1.0
                column = self.eliminated(
                    -np.einsum("k,kc,km->cm", unit, nest.children, nest.cells, optimize=True), 0.0
                )[0]
                matrix[first:, first + k] = -nest.shared_sums(column)
                if columns:
                    matrix[:m, first + k] = matrix[first + k, :m] = -column.sum(axis=0)
            matrix[range(first, size), range(first, size)] += self.shared_give
        self.coupled = _inverse(matrix[None])[0] if size else matrix

    def eliminated(self, f1: Floats, f2: Floats | float) -> tuple[Floats, Floats]:
        """Dx and the rows' multipliers, with those of columns and shared rows fixed."""
        nest = self.nest
        right = (self.inverse * f1) @ nest.member.T - f2
        dual = np.einsum("crt,ct->cr", self.rows_inverse, right)
        return self.inverse * (f1 - dual @ nest.member), dual

    def solved(self, f1: Floats, f2: Floats, f3: Floats, f4: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        nest, m = self.nest, self.nest.open.shape[1]
        x, dual = self.eliminated(f1, f2)
        if not len(self.coupled):
            return x, dual, np.zeros(m), np.zeros(0)
        columns = [x.sum(axis=0) - f3] if nest.count is not None else []
        both = self.coupled @ np.concatenate([*columns, nest.shared_sums(x) - f4])
        theta, shared = (both[:m], both[m:]) if columns else (np.zeros(m), both)
        pull = theta + np.einsum("k,kc,km->cm", shared, nest.children, nest.cells, optimize=True)
        x, dual = self.eliminated(f1 - pull, f2)
        return x, dual, theta, shared

    def step(self, wrong: _Wrong, mean: float, before: _Place | None) -> _Place:
        """The direction to where complementarity is ``mean``; with the second-order correction of a first direction."""
        nest, at = self.nest, self.at
        over = np.where(nest.open, at.x, 1.0)
        product = np.where(nest.open, at.x * at.z - mean, 0.0)
        if before is not None:
            product = product + before.x * before.z
        rows = nest.rows.pushed(at.rows, mean, None if before is None else before.rows)
        shared = nest.shared.pushed(at.shared, mean, None if before is None else before.shared)
        f1 = np.where(nest.open, -wrong.stationary - product / over, 0.0)
        f2, f3, f4 = rows[0] - wrong.rows, -wrong.columns, shared[0] - wrong.shared
        x, dual, theta, shared_dual = self.solved(f1, f2, f3, f4)
        give = nest.rows.elasticity(at.rows, 0.0)  # without the proximal term
        shared_give = nest.shared.elasticity(at.shared, 0.0)
        for _ in range(_REFINED):
            pull = dual @ nest.member + theta
            pull = pull + np.einsum("k,kc,km->cm", shared_dual, nest.children, nest.cells, optimize=True)
            more = self.solved(
                np.where(nest.open, f1 - self.diagonal * x - pull, 0.0),
                f2 - x @ nest.member.T + give * dual,
                f3 - x.sum(axis=0),
                f4 - nest.shared_sums(x) + shared_give * shared_dual,
            )
            x, dual, theta, shared_dual = x + more[0], dual + more[1], theta + more[2], shared_dual + more[3]
        z = np.where(nest.open, -(product + at.z * x) / over, 0.0)
        return _Place(
            x,
            x,
            z,
            theta,
            nest.rows.direction(at.rows, dual, rows),
            nest.shared.direction(at.shared, shared_dual, shared),
        )


def _narrowed(least: Floats, most: Floats, width: float) -> tuple[Floats, Floats]:
    """Bounds that are very close to each other become one exact sum in their middle.

    Passes hold rows within a tenth of a person, where the noise may have a standard deviation of a million: there is no
    interior to speak of, and nothing to gain in it.
    """
    narrow = most - least <= width
    middle = 0.5 * (np.where(narrow, least, 0.0) + np.where(narrow, most, 0.0))
    return np.where(narrow, middle, least), np.where(narrow, middle, most)


def _inverse(matrices: Floats) -> Floats:
    """Inverses of symmetric positive matrices, scaled to a diagonal of ones first."""
    size = matrices.shape[1]
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("crr->cr", matrices), 1e-300))
    scaled = matrices * scale[:, :, None] * scale[:, None, :]
    scaled[:, range(size), range(size)] += 1e-14
    inverse: Floats = np.linalg.inv(scaled) * scale[:, :, None] * scale[:, None, :]
    return inverse
