"""Batched algebra of estimates and covariances, subset by subset of the decomposition.

Covariances are units x subsets x dense cells x dense cells; estimates are units x dense cells x columns. Directions in
which an estimate is exact (cells that are closed, or fixed by exact answers) have no variance. So covariances may be
singular, and formulas here do not invert them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Floats, Integers

DUST = 1e-13
NOTHING = 1e-11  # eigenvalues below this share of the largest variance are zero but for rounding


def applied(V: Floats, x: Floats, slices: list[slice]) -> Floats:
    """Covariances times estimates; one covariance may serve all units."""
    out = np.empty((len(x), V.shape[-2], x.shape[-1]))
    for subset, columns in enumerate(slices):
        np.matmul(V[:, subset], x[:, :, columns], out=out[:, :, columns])
    return out


def inverse_on(opened: Bools, matrices: Floats) -> Floats:
    """Inverses of the rows and columns of open cells, zero elsewhere; ``opened`` is units x dense cells."""
    both = opened[:, None, :, None] & opened[:, None, None, :]
    inverse = np.linalg.inv(np.where(both, matrices, np.eye(matrices.shape[-1])))
    return np.where(both, _symmetric(inverse), 0.0)


def pseudo_inverse(matrices: Floats, scale: Floats) -> Floats:
    """Pseudo-inverses of symmetric matrices; eigenvalues far below ``scale`` count as zero."""
    values, vectors = np.linalg.eigh(matrices)
    nothing = values <= NOTHING * np.maximum(scale, 0.0)[..., None]
    inverse = np.where(nothing, 0.0, 1.0 / np.where(nothing, 1.0, values))
    out: Floats = (vectors * inverse[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return out


def combined(S: Floats, Lambda: Floats) -> Floats:
    """The covariance that a prior covariance and the information of measurements give: (S^-1 + Lambda)^-1.

    Written as (I + S Lambda)^-1 S, which holds for singular covariances too.
    """
    return _symmetric(np.linalg.solve(np.eye(S.shape[-1]) + S @ Lambda, S))


def conditioned(V: Floats, rows: Floats, subsets: Bools) -> tuple[Floats, Floats]:
    """Covariances given that some rows of dense cells are known exactly, and the gains with which estimates move.

    The gain times (known answers - rows times estimate) is to be added to the estimate; zero in other subsets.
    """
    VE = V @ rows.T
    scale = np.einsum("ntii->nt", V).copy()  # at least the largest eigenvalue
    scale *= float((rows**2).sum(axis=1).max())
    gain = VE @ pseudo_inverse(rows @ VE, scale)
    gain[:, ~subsets] = 0.0
    return without_dust(_symmetric(V - gain @ np.swapaxes(VE, -1, -2)), V), gain


def without_dust(V: Floats, before: Floats) -> Floats:
    """Covariances with exact zeros where rounding left something that is nothing beside the variances before."""
    largest = np.einsum("ntii->nti", before).max(axis=2, initial=0.0)
    noisy = np.einsum("ntii->nti", V) > 10 * DUST * largest[:, :, None]
    kept = (np.abs(V) > DUST * largest[:, :, None, None]) & noisy[:, :, :, None] & noisy[:, :, None, :]
    return np.where(kept, V, 0.0)


def sums(values: Floats, number: Integers) -> Floats:
    """Sums of runs: the first ``number[0]`` items, then the next ``number[1]``, and so on; every run has an item."""
    if len(number) == 0:
        return np.zeros((0, *values.shape[1:]))
    starts = np.concatenate([[0], np.cumsum(number)[:-1]])
    out: Floats = np.add.reduceat(values, starts, axis=0)
    return out


def _symmetric(V: NDArray[Any]) -> Floats:
    out: Floats = (V + np.swapaxes(V, -1, -2)) / 2
    return out
