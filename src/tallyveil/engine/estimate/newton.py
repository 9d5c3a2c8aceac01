r"""A Newton step of the interior-point method, and its elimination in double precision."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.engine.estimate.nest import Nest, Place, Wrong

_STIFF = 1e-9  # of the largest 1/D: the proximal term in E
_ENTRIES = 1 << 22  # of the arrays that are worked on at once
_REFINED = 2  # how often a step is made more exact


class Elimination(Protocol):
    """Solves the equations of a step, of which it knows D and the point."""

    proximal: float  # of the largest weight: the proximal term in D

    def __init__(self, nest: Nest, diagonal: Floats, at: Place) -> None: ...

    def solved(self, f1: Floats, f2: Floats, f3: Floats, f4: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Dx and the multipliers of the rows, columns and shared rows."""


class Newton:
    """The steps from one point."""

    def __init__(self, nest: Nest, at: Place, elimination: type[Elimination]) -> None:
        self.nest, self.at = nest, at
        curvature = nest.own + at.z / np.where(nest.open, at.x, 1.0) + elimination.proximal
        self.diagonal = np.where(nest.open, curvature, 1.0)
        self.solved = elimination(nest, self.diagonal, at).solved

    def step(self, wrong: Wrong, mean: float, before: Place | None) -> Place:
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
        return Place(
            x,
            x,
            z,
            theta,
            nest.rows.direction(at.rows, dual, rows),
            nest.shared.direction(at.shared, shared_dual, shared),
        )


class Quick:
    """Entries, then the rows of each child, then columns and shared rows: eliminated in double precision."""

    proximal = 1e-7

    def __init__(self, nest: Nest, diagonal: Floats, at: Place) -> None:
        self.nest = nest
        self.inverse = np.where(nest.open, 1.0 / diagonal, 0.0)
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
        """Dx and the multipliers of the rows, columns and shared rows."""
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


def _inverse(matrices: Floats) -> Floats:
    """Inverses of symmetric positive matrices, scaled to a diagonal of ones first."""
    size = matrices.shape[1]
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("crr->cr", matrices), 1e-300))
    scaled = matrices * scale[:, :, None] * scale[:, None, :]
    scaled[:, range(size), range(size)] += 1e-14
    inverse: Floats = np.linalg.inv(scaled) * scale[:, :, None] * scale[:, None, :]
    return inverse
