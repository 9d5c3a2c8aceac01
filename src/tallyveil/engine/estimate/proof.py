"""A proof of the quality of any answer: the bound of ``fista`` (module docstring), for a nest that is written out.

It needs only the table and multipliers, and holds whatever the solver did to find them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tallyveil._arrays import Bools, Floats
from tallyveil.engine.estimate.blocks import Blocks, Point
from tallyveil.engine.estimate.bound import column_multiplier
from tallyveil.engine.estimate.one_nest import CLOSED

_GOOD = 1e-7  # a relative gap that no other multipliers need to improve


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """An answer, children x cells, with bounds that are ours: they hold whatever the solver did."""

    x: Floats
    gap: float
    distance: float
    violation: float

    @property
    def worst(self) -> float:
        """The larger of the relative gap and the violation in persons."""
        return max(self.gap, self.violation)


def judged(blocks: Blocks, point: Point) -> Found:
    """How good an answer is at worst, by the multipliers that came with it, by slightly rounded ones, or by none.

    Where cells are not measured, multipliers that should cancel leave 1e-16 of themselves, which counts of billions
    multiply. Rounded to a common step, they cancel exactly. Without any, the bound says that no sum of squares is below
    0, which is all that is needed where a table meets every answer.
    """
    found = _judged(blocks, point)
    if found.gap <= _GOOD:
        return found
    others = [replace(point, rows=np.zeros(point.rows.shape), shared=np.zeros(point.shared.shape))]
    if not (blocks.own > 0).all():
        others.append(replace(point, rows=_rounded(point.rows), shared=_rounded(point.shared)))
    return min([found, *(_judged(blocks, other) for other in others)], key=lambda one: one.worst)


def _rounded(values: Floats) -> Floats:
    """Multiples of a power of two, about 2^-36 of the largest."""
    step = 2.0 ** (np.ceil(np.log2(np.abs(values).max(initial=1e-300))) - 36)
    rounded: Floats = step * np.rint(values / step)
    return rounded


def _judged(blocks: Blocks, point: Point) -> Found:
    """How good an answer is at worst, by given multipliers (``fista``, module docstring).

    A measured row with weight w, sum t and answer y adds w (t - y)^2 / 2 to the objective, which is never below
    nu (t - y) - nu^2 / (2 w), whatever nu (Fenchel). The rest is as in the fast path. Everything is computed from d, so
    counts of billions do not hide fractions of a person.
    """
    base = np.where(blocks.open, point.base, 0.0)
    d = np.where(blocks.open, np.maximum(point.d, -point.base), 0.0)
    measured = blocks.weight > 0
    sums = d @ blocks.member.T
    whole = base @ blocks.member.T
    residual = np.where(measured, sums - (blocks.answer - whole), 0.0)
    rows = _Leaning.of(np.where(measured, 0.0, point.rows), sums, blocks.least - whole, blocks.most - whole)
    whole = _shared_sums(blocks, base)
    shared = _Leaning.of(point.shared, _shared_sums(blocks, d), blocks.shared_least - whole, blocks.shared_most - whole)
    nu = np.where(measured, point.rows, rows.nu)
    off = d - np.where(blocks.open, blocks.noisy - base, 0.0)
    slope = blocks.own[:, None] * off + nu @ blocks.member
    slope += np.einsum("k,kc,km->cm", shared.nu, blocks.shared_children, blocks.shared_cells, optimize=True)
    if blocks.count is None and not (blocks.own > 0).all():
        nu, slope = _lifted(blocks, nu, slope)
    columns = None if blocks.count is None else d.sum(axis=0) - (blocks.count - base.sum(axis=0))
    x = base + d
    root = np.sqrt(blocks.weight)
    pull = np.divide(nu, root, out=np.zeros(nu.shape), where=measured)
    gap = 0.5 * float(np.sum((root * residual - pull)[measured] ** 2))
    gap += float(np.abs(np.where(measured, 0.0, nu) * rows.off).sum() + np.abs(shared.nu * shared.off).sum())
    gap = max(0.0, gap + _columns_gap(x, slope, ~blocks.open, columns, blocks.count, blocks.own))
    value = 0.5 * float(np.sum(blocks.own[:, None] * off**2) + np.sum(blocks.weight * residual**2))
    weakest = float(blocks.own.min())
    return Found(
        x=x,
        gap=gap / max(0.5, value - gap),
        distance=float(np.sqrt(2 * gap / weakest)) if weakest > 0 else np.inf,
        violation=max(rows.violation, shared.violation, 0.0 if columns is None else float(np.abs(columns).max())),
    )


@dataclass(frozen=True, eq=False)
class _Leaning:
    """Bounded rows: multipliers, distances from the bounds that the multipliers lean on, and the worst violation."""

    nu: Floats
    off: Floats
    violation: float

    @classmethod
    def of(cls, nu: Floats, sums: Floats, least: Floats, most: Floats) -> _Leaning:
        bound = np.where(nu > 0, most, least)
        nu = np.where(np.isfinite(bound), nu, 0.0)  # there is nothing to lean on
        off = sums - np.where(np.isfinite(bound), bound, sums)
        return cls(nu, off, float(max((least - sums).max(initial=0.0), (sums - most).max(initial=0.0))))


def _shared_sums(blocks: Blocks, table: Floats) -> Floats:
    sums: Floats = np.einsum("kc,cm,km->k", blocks.shared_children, table, blocks.shared_cells, optimize=True)
    return sums


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
                column_multiplier(
                    np.ascontiguousarray(x[:, s]), np.ascontiguousarray(slope[:, s]), n, count[s], weight, give
                )
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
