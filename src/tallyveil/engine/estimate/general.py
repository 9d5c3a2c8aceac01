"""The general path: one nest as a sparse quadratic program (PIQP), for what the fast path cannot certify.

The unknowns are d = x - x0, x0 being where the fast path stopped, and the residuals r in standard deviations,
r = W^(1/2) (Q x - y): minimise 1/2 r'r. So weights of very different size stand side by side as rows of one matrix, and
counts of millions do not hide fractions of a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from tallyveil._arrays import Bools, Floats
from tallyveil.engine.estimate.fista import CLOSED, column_multiplier
from tallyveil.engine.nests import UNLIMITED, Limits, Nests
from tallyveil.errors import TallyveilError

if TYPE_CHECKING:
    from tallyveil.engine.estimate.problem import Asked


_GOOD = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """minimise 1/2 z'Pz subject to Az = b, lower <= Gz <= upper, low <= z <= high; z is d and then r."""

    P: sp.csc_matrix
    A: sp.csc_matrix
    b: Floats
    G: sp.csc_matrix
    lower: Floats
    upper: Floats
    low: Floats
    high: Floats
    measured: sp.csr_matrix  # r = measured x - target, rows of the queries first, then of the cells themselves
    target: Floats
    cells_measured: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """A general solver's answer, children x cells, with bounds that are ours: they hold whatever the solver did."""

    x: Floats
    gap: float
    distance: float
    violation: float


def program_of(
    nests: Nests,
    queries: Sequence[Asked],
    own: Asked,
    limits: Sequence[Limits],
    p: int,
    near: Floats,
    *,
    unit: float = 1.0,
) -> Program:
    """One nest, written out around the table ``near``. Entries are ordered child after child, r is in units."""
    n, m = nests.shape(p)
    span = slice(int(nests.child_start[p]), int(nests.child_start[p + 1]))
    cell = nests.cell[nests.cell_start[p] : nests.cell_start[p + 1]]
    count = nests.count[nests.cell_start[p] : nests.cell_start[p + 1]]
    x = near.reshape(-1)
    design, off, target = [], [], []
    for query in (*queries, own):
        root = np.sqrt(query.weight[span]) / unit
        if not root.any():
            continue
        rows = query.rows[query.start[p] : query.start[p + 1]]
        before = int((np.diff(nests.child_start)[:p] * np.diff(query.start)[:p]).sum())
        noisy = query.noisy[before : before + n * len(rows)].reshape(n, len(rows))
        member = sp.csr_matrix((np.ones(m), (np.searchsorted(rows, query.row_of_cell[cell]), np.arange(m))))
        design.append(sp.kron(sp.diags(root), member))
        off.append((root[:, None] * (noisy - near @ member.T)).reshape(-1))
        target.append((root[:, None] * noisy).reshape(-1))
    measured = sp.vstack(design)
    residuals = measured.shape[0]
    equal, right = [sp.hstack([measured, -sp.identity(residuals)])], [np.concatenate(off)]

    def padded(rows: sp.spmatrix) -> sp.spmatrix:
        return sp.hstack([rows, sp.csr_matrix((rows.shape[0], residuals))])

    if count[0] >= 0:
        columns = sp.csr_matrix(sp.kron(np.ones((1, n)), sp.identity(m)))
        equal.append(padded(columns))
        right.append(count - columns @ x)
    high = np.full(n * m + residuals, np.inf)
    bounded: list[sp.spmatrix] = []
    lower: list[float] = []
    upper: list[float] = []
    for limit in limits:
        owner = limit.owner[span]
        for o in np.unique(owner):
            for r in np.unique(limit.row_of_cell[cell]):
                inside = np.outer(owner == o, limit.row_of_cell[cell] == r).reshape(-1)
                least, most = float(limit.least[o, r]), float(limit.most[o, r])
                if most <= 0:
                    high[: n * m][inside] = 0.0
                    continue
                if least <= 0 and most >= UNLIMITED:
                    continue
                row, here = padded(sp.csr_matrix(inside.astype(np.float64))), float(x[inside].sum())
                if least == most:
                    equal.append(row)
                    right.append(np.array([least - here]))
                else:
                    bounded.append(row)
                    lower.append(least - here if least > 0 else -np.inf)
                    upper.append(most - here if most < UNLIMITED else np.inf)
    z = n * m + residuals
    return Program(
        P=sp.diags(np.repeat([0.0, 1.0], [n * m, residuals])).tocsc(),
        A=sp.vstack(equal).tocsc(),
        b=np.concatenate(right),
        G=(sp.vstack(bounded) if bounded else sp.csr_matrix((0, z))).tocsc(),
        lower=np.array(lower),
        upper=np.array(upper),
        low=np.concatenate([-x, np.full(residuals, -np.inf)]),
        high=high,
        measured=sp.csr_matrix(measured),
        target=np.concatenate(target),
        cells_measured=bool(own.weight[span].any()),
    )


def solve_generally(
    nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], p: int, near: Floats
) -> Found:
    """Solve one nest with PIQP, from the table where the fast path stopped, in one unit of r after another."""
    best = Found(x=near, gap=np.inf, distance=np.inf, violation=np.inf)
    for unit in (1.0, 10.0, 100.0, 0.1, 1000.0):
        found = _solved(nests, queries, own, limits, p, near, unit)
        best = _better(best, found)
        if best.gap <= _GOOD and best.violation <= _GOOD:
            return best
    again = _solved(nests, queries, own, limits, p, best.x, 1.0)  # around the best yet
    best = _better(best, again)
    if best.violation == np.inf:
        raise TallyveilError("the general solver failed, though the constraints had been found feasible. Report this.")
    return best


def _better(best: Found, found: Found | None) -> Found:
    """The answer with the smaller gap, then violation.

    A gap can be infinite though the answer is good: where cells are not measured, a slope that is negative by a
    rounding error bounds nothing. Such an answer is taken all the same, uncertified: to end the run here would depend
    on the noise.
    """
    return best if found is None or (found.gap, found.violation) >= (best.gap, best.violation) else found


def _solved(
    nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], p: int, near: Floats, unit: float
) -> Found | None:
    import piqp

    program = program_of(nests, queries, own, limits, p, near, unit=unit)
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-10
    solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 1e-10
    solver.settings.max_iter = 300
    zero = np.zeros(len(program.low))
    solver.setup(
        program.P, zero, program.A, program.b, program.G, program.lower, program.upper, program.low, program.high
    )
    if solver.solve() not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED):
        return None
    n, m = nests.shape(p)
    entries, residuals = n * m, len(program.target)
    z = np.clip(solver.result.x, program.low, program.high)
    x = near + z[:entries].reshape(n, m)
    rows = sp.vstack([program.A[residuals:], program.G])[:, :entries]  # columns, exact rows, bounded rows
    duals = np.concatenate([solver.result.y[residuals:], solver.result.z_u - solver.result.z_l])
    if nests.count[nests.cell_start[p]] >= 0:  # the columns' multipliers are found again, exactly
        rows, duals = rows[m:], duals[m:]
    at = rows @ z[:entries]
    exact = len(at) - len(program.lower)
    leans_on = np.concatenate(
        [
            program.b[len(program.b) - exact :],
            np.where(duals[exact:] > 0, program.upper, program.lower),
        ]
    )
    leans_on = np.where(np.isfinite(leans_on), leans_on, at)
    weight = own.weight[nests.child_start[p] : nests.child_start[p + 1]]
    residual = program.measured @ x.reshape(-1) - program.target
    queries_rows = residuals - (entries if program.cells_measured else 0)
    pull = np.concatenate([solver.result.y[:queries_rows], residual[queries_rows:]])
    gap = 0.5 * float(np.sum((residual[:queries_rows] - pull[:queries_rows]) ** 2))
    gap += float(np.sum(np.abs(duals * (at - leans_on))))
    slope = (program.measured.T @ pull + rows.T @ duals).reshape(n, m)
    closed = (program.high[:entries] == 0).reshape(n, m)
    count = nests.count[nests.cell_start[p] : nests.cell_start[p + 1]].astype(np.float64)
    gap = (gap + _columns_gap(x, slope, closed, count, weight / unit**2)) * unit**2
    value = 0.5 * float(residual @ residual) * unit**2
    off = [np.abs(program.A @ z - program.b)[residuals:], program.lower - program.G @ z, program.G @ z - program.upper]
    return Found(
        x=x,
        gap=gap / max(0.5, value - gap),
        distance=float(np.sqrt(2 * gap / weight.min())) if weight.min() > 0 else np.inf,
        violation=float(max((one.max() for one in off if one.size), default=0.0)),
    )


def _columns_gap(x: Floats, slope: Floats, closed: Bools, count: Floats, weight: Floats) -> float:
    """The part of the gap that is left when the other multipliers are fixed (``solver``, module docstring)."""
    n = len(x)
    give = 1.0 / weight if (weight > 0).all() else np.zeros(n)
    gap = 0.0
    for s in range(x.shape[1]):
        h = np.where(closed[:, s], CLOSED, slope[:, s])
        theta = column_multiplier(x[:, s].copy(), h, n, count[s], weight, give) if count[s] >= 0 else 0.0
        gap += abs(theta * (x[:, s].sum() - count[s])) if count[s] >= 0 else 0.0
        open_slope, some = (h + theta)[~closed[:, s]], x[~closed[:, s], s]
        if give.any():
            move = np.maximum(-some, -open_slope * give[~closed[:, s]])
            gap -= float(np.sum(move * (open_slope + 0.5 * weight[~closed[:, s]] * move)))
        elif (open_slope < 0).any():
            return np.inf
        else:
            gap += float(np.sum(open_slope * some))
    return max(0.0, gap)
