"""The general path: one nest written out, solved by methods that need no good conditioning, and judged by our own bound.

First the interior-point method of ``interior``, begun where the fast path stopped; then, where its answer is not proved
good enough, PIQP. Whatever a solver says of itself, its answer is judged by the bound of ``fista`` (module docstring) with the
multipliers that it found, and the best one is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from tallyveil._arrays import Bools, Floats
from tallyveil.engine.estimate.fista import CLOSED, column_multiplier
from tallyveil.engine.estimate.interior import Blocks, Point, interior
from tallyveil.engine.nests import UNLIMITED, Limits, Nests

if TYPE_CHECKING:
    from tallyveil.engine.estimate.problem import Asked

_GOOD = 1e-7  # relative gap, and violation in persons, with which the search for a better answer ends


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """An answer, children x cells, with bounds that are ours: they hold whatever the solver did."""

    x: Floats
    gap: float
    distance: float
    violation: float


def solve_generally(
    nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], p: int, near: Floats
) -> Found:
    """Solve one nest, from the table where the fast path stopped.

    An answer that is not certified is taken all the same: to end the run here would depend on the noise.
    """
    blocks = blocks_of(nests, queries, own, limits, p)
    best = Found(x=near, gap=np.inf, distance=np.inf, violation=np.inf)
    for point in _answers(blocks, near):
        found = judged(blocks, point)
        if (found.gap, found.violation) < (best.gap, best.violation):
            best = found
        if best.gap <= _GOOD and best.violation <= _GOOD:
            break
    return best


def _answers(blocks: Blocks, near: Floats) -> Iterator[Point]:
    point = interior(blocks, near)
    yield point
    yield interior(blocks, point.base + point.d)  # around the first answer, in which all residuals are small
    for unit in (1.0, 10.0, 100.0, 0.1, 1000.0):
        other = _by_piqp(blocks, point.base + point.d, unit)
        if other is not None:
            yield other


def blocks_of(nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], p: int) -> Blocks:
    """One nest, written out."""
    n, m = nests.shape(p)
    span = slice(int(nests.child_start[p]), int(nests.child_start[p + 1]))
    cells = slice(int(nests.cell_start[p]), int(nests.cell_start[p + 1]))
    cell, count = nests.cell[cells], nests.count[cells]
    member, group, weight, answer, least, most = [], [], [], [], [], []
    for query in queries:
        rows = query.rows[query.start[p] : query.start[p + 1]]
        before = int((np.diff(nests.child_start)[:p] * np.diff(query.start)[:p]).sum())
        member.append(rows[:, None] == query.row_of_cell[cell])
        group.append(np.full(len(rows), len(group)))
        weight.append(np.repeat(query.weight[span, None], len(rows), axis=1))
        answer.append(query.noisy[before : before + n * len(rows)].reshape(n, len(rows)))
        least.append(np.full((n, len(rows)), -np.inf))
        most.append(np.full((n, len(rows)), np.inf))
    open_ = np.ones((n, m), np.bool_)
    shared: list[tuple[Bools, Bools, float, float]] = []
    for limit in limits:
        owner, rows = limit.owner[span], np.unique(limit.row_of_cell[cell])
        inside = rows[:, None] == limit.row_of_cell[cell]
        low = np.where(limit.least > 0, limit.least, -np.inf)[owner][:, rows]
        high = np.where(limit.most < UNLIMITED, limit.most, np.inf)[owner][:, rows]
        open_ &= ~((high <= 0) @ inside)
        low, high = np.where(high <= 0, -np.inf, low), np.where(high <= 0, np.inf, high)
        owners, first, members = np.unique(owner, return_index=True, return_counts=True)
        for o in np.flatnonzero(members > 1):
            of_owner, c = owner == owners[o], first[o]
            bounded = np.flatnonzero(np.isfinite(low[c]) | np.isfinite(high[c]))
            shared += [(of_owner, inside[r], low[c, r], high[c, r]) for r in bounded]
            low[of_owner], high[of_owner] = -np.inf, np.inf
        used = (np.isfinite(low) | np.isfinite(high)).any(axis=0)
        member.append(inside[used])
        group.append(np.full(int(used.sum()), len(group)))
        weight.append(np.zeros((n, int(used.sum()))))
        answer.append(np.zeros((n, int(used.sum()))))
        least.append(low[:, used])
        most.append(high[:, used])
    none = np.zeros((n, 0))
    return Blocks(
        own=own.weight[span],
        noisy=_own_answers(nests, own, p),
        open=open_,
        count=count.astype(np.float64) if count[0] >= 0 else None,
        member=np.concatenate([np.zeros((0, m)), *member]).astype(np.float64),
        group=np.concatenate([np.zeros(0, np.int64), *group]),
        weight=np.concatenate([none, *weight], axis=1),
        answer=np.concatenate([none, *answer], axis=1),
        least=np.concatenate([none, *least], axis=1),
        most=np.concatenate([none, *most], axis=1),
        shared_children=np.array([row[0] for row in shared], np.float64).reshape(-1, n),
        shared_cells=np.array([row[1] for row in shared], np.float64).reshape(-1, m),
        shared_least=np.array([row[2] for row in shared], np.float64),
        shared_most=np.array([row[3] for row in shared], np.float64),
    )


def _own_answers(nests: Nests, own: Asked, p: int) -> Floats:
    answers: Floats = nests.table(own.noisy, p)
    return answers


def judged(blocks: Blocks, point: Point) -> Found:
    """How good an answer is at worst, by the multipliers that came with it (``fista``, module docstring).

    A measured row with weight w, sum t and answer y adds w (t - y)^2 / 2, which is never below nu (t - y) - nu^2 / (2 w)
    (Fenchel); the rest is as in the fast path. All is computed in d, so that counts of billions hide nothing.
    """
    x = np.where(blocks.open, np.maximum(point.base + point.d, 0.0), 0.0)
    d = np.where(blocks.open, np.maximum(point.d, -point.base), 0.0)
    base = np.where(blocks.open, point.base, 0.0)
    measured = blocks.weight > 0
    below, above = _off(blocks, base, d)
    residual = np.where(measured, d @ blocks.member.T - (blocks.answer - base @ blocks.member.T), 0.0)
    nu = np.where(measured | np.where(point.rows > 0, np.isfinite(above), np.isfinite(below)), point.rows, 0.0)
    off = d - np.where(blocks.open, blocks.noisy - base, 0.0)
    slope = blocks.own[:, None] * off + nu @ blocks.member
    low, high, shared = _off_shared(blocks, base, d)
    pull = np.where(np.where(point.shared > 0, np.isfinite(high), np.isfinite(low)), point.shared, 0.0)
    slope += np.einsum("k,kc,km->cm", pull, blocks.shared_children, blocks.shared_cells, optimize=True)
    if blocks.count is None and not (blocks.own > 0).all():
        nu, slope = _lifted(blocks, nu, slope)
    leans = np.where(nu > 0, np.where(np.isfinite(above), above, 0.0), np.where(np.isfinite(below), below, 0.0))
    gap = float(np.abs(np.where(measured, 0.0, nu * leans)).sum())
    gap += float(np.abs(pull * np.where(pull > 0, np.where(np.isfinite(high), high, 0.0), np.where(np.isfinite(low), low, 0.0))).sum())
    root = np.sqrt(blocks.weight)
    gap += 0.5 * float(np.sum((root * residual - np.divide(nu, root, out=np.zeros(nu.shape), where=measured))[measured] ** 2))
    columns = None if blocks.count is None else d.sum(axis=0) - (blocks.count - base.sum(axis=0))
    gap += _columns_gap(x, slope, ~blocks.open, columns, blocks.count, blocks.own)
    gap = max(0.0, gap)
    value = 0.5 * float(np.sum(blocks.own[:, None] * off**2) + np.sum(blocks.weight * residual**2))
    broken = [-below[np.isfinite(below)], above[np.isfinite(above)], -low[np.isfinite(low)], high[np.isfinite(high)]]
    broken += [] if columns is None else [np.abs(columns)]
    weakest = float(blocks.own.min())
    return Found(
        x=x,
        gap=gap / max(0.5, value - gap),
        distance=float(np.sqrt(2 * gap / weakest)) if weakest > 0 else np.inf,
        violation=max((float(part.max()) for part in broken if part.size), default=0.0),
    )


def _off(blocks: Blocks, base: Floats, d: Floats) -> tuple[Floats, Floats]:
    """By how much each row is above its least, and above its most; not finite where it has none."""
    sums, whole = d @ blocks.member.T, base @ blocks.member.T
    return sums - (blocks.least - whole), sums - (blocks.most - whole)


def _off_shared(blocks: Blocks, base: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
    parts = [
        np.einsum("kc,cm,km->k", blocks.shared_children, table, blocks.shared_cells, optimize=True) for table in (d, base)
    ]
    return parts[0] - (blocks.shared_least - parts[1]), parts[0] - (blocks.shared_most - parts[1]), parts[0]


def _lifted(blocks: Blocks, nu: Floats, slope: Floats) -> tuple[Floats, Floats]:
    """Multipliers with which no slope of the root is negative, which would bound nothing where cells are not measured.

    Any multiplier of a measured or exact row is allowed, so those of a query's rows are lowered by their least slope.
    """
    free = np.where(blocks.open, slope, np.inf)
    best, cost = (nu, slope), np.inf
    for group in np.unique(blocks.group):
        rows = np.flatnonzero(blocks.group == group)
        held = (blocks.weight[:, rows] > 0) | (blocks.least[:, rows] == blocks.most[:, rows])
        if not held.all() or not (blocks.member[rows].sum(axis=0) == 1).all():
            continue
        least = np.stack([np.where(blocks.member[r] > 0, free, np.inf).min(axis=1) for r in rows], axis=1)
        lift = np.where(np.isfinite(least), np.minimum(least, 0.0), 0.0)
        if -lift.sum() < cost:
            lifted = nu.copy()
            lifted[:, rows] -= lift
            best, cost = (lifted, slope - lift @ blocks.member[rows]), -lift.sum()
    return best


def _columns_gap(
    x: Floats, slope: Floats, closed: Bools, off: Floats | None, count: Floats | None, weight: Floats
) -> float:
    """The part of the gap that is left when the multipliers of all rows are fixed."""
    n, curved = len(x), bool((weight > 0).all())
    give = 1.0 / weight if curved else np.zeros(n)
    slope = np.where(closed, CLOSED, slope)
    if count is not None and off is not None:
        theta = np.array(
            [
                column_multiplier(np.ascontiguousarray(x[:, s]), np.ascontiguousarray(slope[:, s]), n, count[s], weight, give)
                for s in range(x.shape[1])
            ]
        )
        gap, slope = float(np.abs(theta * off).sum()), slope + theta
    else:
        gap = 0.0
    slope, x = np.where(closed, 0.0, slope), np.where(closed, 0.0, x)
    if curved:
        move = np.maximum(-x, -slope * give[:, None])
        return gap - float(np.sum(move * (slope + 0.5 * weight[:, None] * move)))
    return np.inf if (slope < 0).any() else gap + float(np.sum(slope * x))


def _by_piqp(blocks: Blocks, near: Floats, unit: float) -> Point | None:
    """The answer of PIQP, with residuals in units of so many standard deviations."""
    import piqp

    n, m = blocks.open.shape
    base = np.rint(near)
    each = sp.kron(sp.identity(n), sp.csr_matrix(blocks.member), format="csr")  # rows of one child after another
    weight, least, most = blocks.weight.reshape(-1), blocks.least.reshape(-1), blocks.most.reshape(-1)
    measured = weight > 0
    root = np.sqrt(np.concatenate([weight[measured], np.repeat(blocks.own, m)[np.repeat(blocks.own, m) > 0]])) / unit
    cells = sp.identity(n * m, format="csr")[np.repeat(blocks.own > 0, m)]
    design = sp.diags(root) @ sp.vstack([each[measured], cells])
    answers = np.concatenate([blocks.answer.reshape(-1)[measured], blocks.noisy.reshape(-1)[np.repeat(blocks.own > 0, m)]])
    residuals = len(root)
    shared = [
        sp.csr_matrix(np.outer(children, members).reshape(1, -1))
        for children, members in zip(blocks.shared_children, blocks.shared_cells, strict=True)
    ]
    rows = sp.vstack([each[~measured], *shared]).tocsr()
    low, high = np.append(least[~measured], blocks.shared_least), np.append(most[~measured], blocks.shared_most)
    exact, whole = low == high, base.reshape(-1)
    bounded = ~exact & (np.isfinite(low) | np.isfinite(high))
    low, high = low - rows @ whole, high - rows @ whole
    equal = [sp.hstack([design, -sp.identity(residuals)]), sp.hstack([rows[exact], sp.csr_matrix((int(exact.sum()), residuals))])]
    right = [root * answers - design @ whole, low[exact]]
    if blocks.count is not None:
        columns = sp.kron(np.ones((1, n)), sp.identity(m))
        equal.append(sp.hstack([columns, sp.csr_matrix((m, residuals))]))
        right.append(blocks.count - base.sum(axis=0))
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-10
    solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 1e-10
    solver.settings.max_iter = 300
    solver.setup(
        sp.diags(np.repeat([0.0, 1.0], [n * m, residuals])).tocsc(),
        np.zeros(n * m + residuals),
        sp.vstack(equal).tocsc(),
        np.concatenate(right),
        sp.hstack([rows[bounded], sp.csr_matrix((int(bounded.sum()), residuals))]).tocsc(),
        low[bounded],
        high[bounded],
        np.concatenate([np.where(blocks.open.reshape(-1), -whole, 0.0), np.full(residuals, -np.inf)]),
        np.concatenate([np.where(blocks.open.reshape(-1), np.inf, 0.0), np.full(residuals, np.inf)]),
    )
    if solver.solve() not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED):
        return None
    nu = np.zeros(len(low))
    nu[exact] = solver.result.y[residuals : residuals + int(exact.sum())]
    nu[bounded] = solver.result.z_u - solver.result.z_l
    every = np.zeros(len(weight))
    every[measured] = solver.result.y[: int(measured.sum())] * root[: int(measured.sum())]
    every[~measured] = nu[: int((~measured).sum())]
    split = int((~measured).sum())
    scale = unit**2
    every[~measured] *= scale
    every[measured] *= scale
    return Point(base=base, d=solver.result.x[: n * m].reshape(n, m), rows=every.reshape(n, -1), shared=nu[split:] * scale)
