r"""What is known about a vector of counts, in square-root form: no covariance is formed, added up or inverted.

A belief about x says :math:`x = a + N y` (what is known exactly) and :math:`R W'y = z + e` with e standard normal (what
was measured), where N and W have orthonormal columns and R is upper triangular. Directions of y outside W are unknown.
Which directions are exact, seen or unknown is decided from matrices without any variance in them. So a precision of
about 1e-16 times the ratio of the largest to the smallest *standard deviation* is kept, where covariances keep 1e-16
times that of the variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from tallyveil._arrays import Bools, Floats

SMALL = 1e-9  # singular values below this are zero, in matrices of the order of 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Belief:
    """What is known about a vector from some measurements; columns of ``a`` and ``z`` are independent problems."""

    N: Floats
    a: Floats
    W: Floats
    R: Floats
    z: Floats

    @classmethod
    def none(cls, opened: Bools, columns: int) -> Belief:
        """Nothing is known but that closed cells are zero."""
        N = np.eye(len(opened))[:, opened]
        seen = np.zeros((N.shape[1], 0))
        return cls(N=N, a=np.zeros((len(opened), columns)), W=seen, R=np.zeros((0, 0)), z=np.zeros((0, columns)))

    def given(self, rows: Floats, answers: Floats) -> Belief:
        """With some rows known exactly."""
        left, values, right = np.linalg.svd(rows @ self.N)
        rank = int((values > SMALL).sum())
        missing = (left.T[:rank] @ (answers - rows @ self.a)) / values[:rank, None]
        a = self.a + self.N @ (right[:rank].T @ missing)
        free = right[rank:].T
        moved = self.z - self.R @ (self.W.T @ (right[:rank].T @ missing))
        return _compressed(self.N @ free, a, self.R @ (self.W.T @ free), moved, self.W.T @ free)

    def measured(self, rows: Floats, precision: Floats, answers: Floats) -> Belief:
        """With noisy answers to some rows; ``precision`` is one over their standard deviations."""
        seen = rows @ self.N
        R = np.concatenate([self.R @ self.W.T, precision[:, None] * seen])
        z = np.concatenate([self.z, precision[:, None] * (answers - rows @ self.a)])
        lengths = np.linalg.norm(seen, axis=1, keepdims=True)
        pattern = np.concatenate([self.W.T, seen / np.where(lengths > SMALL, lengths, 1.0)])
        return _compressed(self.N, self.a, R, z, pattern)

    def times(self, number: int, a: Floats, z: Floats) -> Belief:
        """The sum of as many vectors about which the same is known, but for the sums ``a`` and ``z`` of theirs."""
        root = np.sqrt(number)
        return Belief(N=self.N, a=a, W=self.W, R=self.R / root, z=z / root)

    def moved(self, z: Floats) -> Floats:
        """What answers ``z`` add to x in the directions that are seen."""
        return self.N @ self.W @ _solved(self.R, z)

    @property
    def unseen(self) -> Floats:
        """The directions of x that are unknown."""
        return self.N @ _complement(self.W)

    @property
    def spread(self) -> Floats:
        """A factor F of the covariance FF' of the directions that are seen."""
        return self.N @ self.W @ _solved(self.R, np.eye(len(self.R)))

    def posterior(self) -> Posterior:
        """What the belief says about x."""
        return Posterior(mean=self.a + self.moved(self.z), F=self.spread, U=self.unseen)


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """The mean of x, a factor F of its covariance FF', and a basis U of the directions that are unknown."""

    mean: Floats
    F: Floats
    U: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """How parts follow from their sum s: y = G N'(s - a) + g + H e + Z u, where y are the coordinates of all parts."""

    parts: tuple[Belief, ...]
    N: Floats
    a: Floats
    G: Floats
    G_pattern: Floats
    g: Floats
    H: Floats
    Z: Floats

    def of(self, part: int) -> slice:
        """The coordinates of a part."""
        before = sum(one.N.shape[1] for one in self.parts[:part])
        return slice(before, before + self.parts[part].N.shape[1])

    def posterior(self, part: int, whole: Posterior) -> Posterior:
        """What is known about a part, given what is known about the sum."""
        one, mine = self.parts[part], self.of(part)
        mean = one.a + one.N @ (self.G[mine] @ (self.N.T @ (whole.mean - self.a)) + self.g[mine])
        F = np.concatenate([self.G[mine] @ (self.N.T @ whole.F), self.H[mine]], axis=1)
        U = np.concatenate([self.G_pattern[mine] @ (self.N.T @ whole.U), self.Z[mine]], axis=1)
        return Posterior(mean=mean, F=one.N @ narrowed(F), U=one.N @ _basis(U))


def added(one: Belief, other: Belief) -> tuple[Belief, Split]:
    """What is known about the sum of two independent vectors, and how they follow from it."""
    parts = (one, other)
    both = np.concatenate([one.N, other.N], axis=1)
    left, values, right = np.linalg.svd(both)
    rank = int((values > SMALL).sum())
    N, a = left[:, :rank], one.a + other.a
    along, across = right[:rank].T / values[:rank], right[rank:].T  # y = along t + across v, s = a + N t
    R, W = (_blocks([getattr(part, name) for part in parts]) for name in ("R", "W"))
    pattern = W.T @ across
    u, values, v = np.linalg.svd(pattern)
    seen = int((values > SMALL).sum())
    X, unseen = v[:seen].T, v[seen:].T
    B, z = R @ W.T, np.concatenate([one.z, other.z])
    order = np.argsort(-np.abs(B).max(axis=1, initial=0.0), kind="stable")  # rows of large weight first, [1]
    C, D, z = (B @ across @ X)[order], (B @ along)[order], z[order]
    Q, T, pivot = qr(C, pivoting=True) if C.size else (np.eye(len(C)), C, np.arange(seen))
    D, z, T = Q.T @ D, Q.T @ z, T[:seen]
    back = across @ X[:, pivot] @ _solved(T, np.eye(seen))
    G = along - back @ D[:seen]
    G_pattern = along - across @ (X @ (np.linalg.pinv(pattern @ X) @ (W.T @ along)))
    split = Split(
        parts=parts, N=N, a=a, G=G, G_pattern=G_pattern, g=back @ z[:seen], H=back, Z=across @ unseen
    )  # fmt: skip
    return _compressed(N, a, D[seen:], z[seen:], u[:, seen:].T @ (W.T @ along)), split


def narrowed(F: Floats) -> Floats:
    """A factor of the same covariance with no more columns than rows."""
    if F.shape[1] <= F.shape[0]:
        return F
    out: Floats = np.linalg.qr(F.T)[1].T
    return out


def _compressed(N: Floats, a: Floats, R: Floats, z: Floats, pattern: Floats) -> Belief:
    """The belief with rows R y = z, of which ``pattern`` has the same row space and no weights."""
    W = _basis(pattern.T)
    if not W.shape[1]:
        return Belief(N=N, a=a, W=W, R=np.zeros((0, 0)), z=np.zeros((0, z.shape[1])))
    order = np.argsort(-np.abs(R).max(axis=1), kind="stable")
    Q, T, pivot = qr((R @ W)[order], pivoting=True, mode="economic")
    return Belief(N=N, a=a, W=W[:, pivot], R=T, z=Q.T @ z[order])


def _basis(columns: Floats) -> Floats:
    """An orthonormal basis of the span of columns of the order of 1."""
    if not columns.size:
        return np.zeros((len(columns), 0))
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, values > SMALL]


def _complement(W: Floats) -> Floats:
    """An orthonormal basis of what is orthogonal to orthonormal columns."""
    if not W.shape[1]:
        return np.eye(len(W))
    return np.linalg.svd(W)[0][:, W.shape[1] :]


def _solved(T: Floats, right: Floats) -> Floats:
    """The solution of an upper triangular system."""
    if not T.size or not right.size:
        return np.zeros((T.shape[1], right.shape[1]))
    out: Floats = solve_triangular(T, right)
    return out


def _blocks(matrices: Sequence[Floats]) -> Floats:
    """A block diagonal matrix."""
    rows, columns = (np.cumsum([0, *(m.shape[axis] for m in matrices)]) for axis in (0, 1))
    out = np.zeros((rows[-1], columns[-1]))
    for number, matrix in enumerate(matrices):
        out[rows[number] : rows[number + 1], columns[number] : columns[number + 1]] = matrix
    return out
