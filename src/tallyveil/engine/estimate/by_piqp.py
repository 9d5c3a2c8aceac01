"""The second solver of the general path: PIQP, on the nest as one sparse quadratic program.

The unknowns are d = x - base, base being integer, and the residuals r in standard deviations, r = W^(1/2) (Q x - y):
minimise 1/2 r'r. So weights of very different size stand side by side as rows of one matrix, and counts of millions do
not hide fractions of a person.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tallyveil._arrays import Floats
from tallyveil.engine.estimate.blocks import Blocks, Point


def solve_by_piqp(blocks: Blocks, near: Floats, unit: float) -> Point | None:
    """The answer of PIQP, with residuals in units of so many standard deviations."""
    n, m = blocks.open.shape
    base = np.rint(near)
    each = sp.kron(sp.identity(n), sp.csr_matrix(blocks.member), format="csr")  # rows of one child after another
    weight, least, most = blocks.weight.reshape(-1), blocks.least.reshape(-1), blocks.most.reshape(-1)
    measured = weight > 0
    root = np.sqrt(np.concatenate([weight[measured], np.repeat(blocks.own, m)[np.repeat(blocks.own, m) > 0]])) / unit
    cells = sp.identity(n * m, format="csr")[np.repeat(blocks.own > 0, m)]
    design = sp.diags(root) @ sp.vstack([each[measured], cells])
    answers = np.concatenate(
        [blocks.answer.reshape(-1)[measured], blocks.noisy.reshape(-1)[np.repeat(blocks.own > 0, m)]]
    )
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
    equal = [
        sp.hstack([design, -sp.identity(residuals)]),
        sp.hstack([rows[exact], sp.csr_matrix((int(exact.sum()), residuals))]),
    ]
    right = [root * answers - design @ whole, low[exact]]
    if blocks.count is not None:
        columns = sp.kron(np.ones((1, n)), sp.identity(m))
        equal.append(sp.hstack([columns, sp.csr_matrix((m, residuals))]))
        right.append(blocks.count - base.sum(axis=0))
    result = _solved(
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
    if result is None:
        return None
    nu = np.zeros(len(low))
    nu[exact] = result.y[residuals : residuals + int(exact.sum())]
    nu[bounded] = result.z_u - result.z_l
    every = np.zeros(len(weight))
    every[measured] = result.y[: int(measured.sum())] * root[: int(measured.sum())]
    every[~measured] = nu[: int((~measured).sum())]
    split = int((~measured).sum())
    scale = unit**2
    every[~measured] *= scale
    every[measured] *= scale
    return Point(base=base, d=result.x[: n * m].reshape(n, m), rows=every.reshape(n, -1), shared=nu[split:] * scale)


def _solved(*program: Any) -> Any:
    """What PIQP says of a program (P, c, A, b, G, lower, upper, low, high); none where it found nothing."""
    import piqp

    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-10
    solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 1e-10
    solver.settings.max_iter = 300
    solver.setup(*program)
    return solver.result if solver.solve() in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED) else None
