"""The general path: one nest as a sparse quadratic program (PIQP), for what the fast path cannot certify.

Query rows are variables of their own, so the matrices stay sparse: minimise 1/2 sum w (t - y)^2 with t = Q x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tallyveil.errors import TallyveilError
from tallyveil.topdown.nests import UNLIMITED, Limits, Nests

if TYPE_CHECKING:
    from tallyveil.topdown.estimate import Asked

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """minimise 1/2 z'Pz + c'z + constant subject to Az = b, lower <= Gz <= upper, low <= z <= high; x is z's beginning."""

    P: sp.csc_matrix
    c: Floats
    constant: float
    A: sp.csc_matrix
    b: Floats
    G: sp.csc_matrix
    lower: Floats
    upper: Floats
    low: Floats
    high: Floats
    entries: int

    def value(self, z: Floats) -> float:
        """The objective."""
        return float(0.5 * z @ (self.P @ z) + self.c @ z + self.constant)


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """A general solver's answer: gap and distance come from its duality gap."""

    x: Floats
    gap: float
    distance: float
    violation: float


def program_of(nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], p: int) -> Program:
    """One nest, written out. Entries are ordered child after child."""
    n, m = nests.shape(p)
    children = np.arange(nests.child_start[p], nests.child_start[p + 1])
    cell = nests.cell[nests.cell_start[p] : nests.cell_start[p + 1]]
    count = nests.count[nests.cell_start[p] : nests.cell_start[p + 1]].astype(np.float64)
    eye = sp.identity(n, format="csr")
    scale = max(float(one.weight[children].max()) for one in (*queries, own))
    diagonal = [np.repeat(own.weight[children] / scale, m)]
    target = [nests.table(own.noisy, p).reshape(-1).astype(np.float64)]
    links = []
    sizes = nests.child_start
    for query in queries:
        rows = query.rows[query.start[p] : query.start[p + 1]]
        before = int((np.diff(sizes)[:p] * np.diff(query.start)[:p]).sum())
        k = len(rows)
        member = sp.csr_matrix(
            (np.ones(m), (np.searchsorted(rows, query.row_of_cell[cell]), np.arange(m))), shape=(k, m)
        )
        links.append(sp.kron(eye, member))
        diagonal.append(np.repeat(query.weight[children] / scale, k))
        target.append(query.noisy[before : before + n * k])
    w, y = np.concatenate(diagonal), np.concatenate(target)
    aux = len(w) - n * m
    equal, right = [], []
    if links:
        equal.append(sp.hstack([sp.vstack(links), -sp.identity(aux)]))
        right.append(np.zeros(aux))
    if count[0] >= 0:
        columns = sp.kron(np.ones((1, n)), sp.identity(m))
        equal.append(sp.hstack([columns, sp.csr_matrix((m, aux))]))
        right.append(count)
    high = np.full(len(w), np.inf)
    bounded, lower, upper = [], [], []
    for limit in limits:
        owner = limit.owner[children]
        for o in np.unique(owner):
            for r in np.unique(limit.row_of_cell[cell]):
                inside = np.outer(owner == o, limit.row_of_cell[cell] == r).reshape(-1)
                least, most = float(limit.least[o, r]), float(limit.most[o, r])
                if most <= 0:
                    high[: n * m][inside] = 0.0
                    continue
                if least <= 0 and most >= UNLIMITED:
                    continue
                row = sp.csr_matrix(np.concatenate([inside, np.zeros(aux)]).astype(np.float64))
                if least == most:
                    equal.append(row)
                    right.append(np.array([least]))
                else:
                    bounded.append(row)
                    lower.append(least if least > 0 else -np.inf)
                    upper.append(most if most < UNLIMITED else np.inf)
    z = len(w)
    return Program(
        P=sp.diags(w).tocsc(),
        c=-w * y,
        constant=0.5 * float(w @ y**2),
        A=(sp.vstack(equal) if equal else sp.csr_matrix((0, z))).tocsc(),
        b=np.concatenate(right) if right else np.zeros(0),
        G=(sp.vstack(bounded) if bounded else sp.csr_matrix((0, z))).tocsc(),
        lower=np.array(lower),
        upper=np.array(upper),
        low=np.concatenate([np.zeros(n * m), np.full(aux, -np.inf)]),
        high=high,
        entries=n * m,
    )


def solve_generally(nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], p: int) -> Found:
    """Solve one nest with PIQP."""
    import piqp

    problem = program_of(nests, queries, own, limits, p)
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = 1e-9
    solver.settings.eps_rel = 1e-10
    solver.settings.max_iter = 500
    solver.setup(
        problem.P,
        problem.c,
        problem.A,
        problem.b,
        problem.G,
        problem.lower,
        problem.upper,
        problem.low,
        problem.high,
    )
    status = solver.solve()
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED):
        raise TallyveilError(f"the general solver stopped with {status}. Report this: the constraints were checked before.")
    n, m = nests.shape(p)
    z = np.clip(solver.result.x, problem.low, problem.high)
    x = z[: n * m]
    off = [np.abs(problem.A @ z - problem.b), problem.lower - problem.G @ z, problem.G @ z - problem.upper]
    info = solver.result.info
    weight = float(own.weight[nests.child_start[p] : nests.child_start[p + 1]].min())
    scale = max(float(one.weight[nests.child_start[p] : nests.child_start[p + 1]].max()) for one in (*queries, own))
    gap = float(abs(info.duality_gap))
    return Found(
        x=x.reshape(n, m),
        gap=gap / max(0.5 / scale, problem.value(z)),
        distance=float(np.sqrt(2 * gap * scale / weight)) if weight > 0 else np.inf,
        violation=float(max((one.max() for one in off if one.size), default=0.0)),
    )
