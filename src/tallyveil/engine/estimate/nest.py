"""A nest as the interior-point method sees it: unknowns, where it starts, and how far it is from the solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.engine.estimate.blocks import Blocks
from tallyveil.engine.estimate.held_rows import HeldRows, RowPoint, longest_step


@dataclass(frozen=True, eq=False)
class Place:
    """Where the method is, or the direction that it takes; d is x without its whole base."""

    x: Floats
    d: Floats
    z: Floats  # multipliers of x >= 0
    theta: Floats
    rows: RowPoint
    shared: RowPoint

    def moved(self, by: Place, length: float) -> Place:
        """A step of some length from here."""
        return Place(
            self.x + length * by.x,
            self.d + length * by.d,
            self.z + length * by.z,
            self.theta + length * by.theta,
            self.rows.moved(by.rows, length),
            self.shared.moved(by.shared, length),
        )


@dataclass(frozen=True, eq=False)
class Wrong:
    """How far the optimality conditions are from holding."""

    stationary: Floats
    columns: Floats
    rows: Floats
    shared: Floats
    complementarity: float
    gap: float  # what all of it may cost, relative to max(1/2, the objective)
    share: float  # of complementarity in the gap
    violation: float  # in persons


class Nest:
    """The nest in unknowns d = x - base, with weights of at most 1."""

    def __init__(self, blocks: Blocks, near: Floats) -> None:
        self.open = blocks.open
        self.base = np.where(blocks.open, np.rint(near), 0.0)
        self.unit = max(float(blocks.own.max()), float(blocks.weight.max(initial=0.0)))
        self.own = np.where(blocks.open, blocks.own[:, None], 0.0) / self.unit
        self.noisy = np.where(blocks.open, blocks.noisy - self.base, 0.0)
        self.member = blocks.member
        sums = self.base @ blocks.member.T
        self.rows = HeldRows(blocks.weight / self.unit, blocks.answer - sums, blocks.least - sums, blocks.most - sums)
        self.children, self.cells = blocks.shared_children, blocks.shared_cells
        sums = self.shared_sums(self.base)
        none = np.zeros(len(sums))
        self.shared = HeldRows(none, none, blocks.shared_least - sums, blocks.shared_most - sums)
        self.count = None if blocks.count is None else blocks.count - self.base.sum(axis=0)
        every = (self.open, self.rows.below, self.rows.above, self.shared.below, self.shared.above)
        self.pairs = sum(int(mask.sum()) for mask in every)

    def shared_sums(self, x: Floats) -> Floats:
        """The sums of the shared rows."""
        sums: Floats = np.einsum("kc,cm,km->k", self.children, x, self.cells, optimize=True)
        return sums

    def start(self, near: Floats, apart: float) -> Place:
        """Away from all bounds by so many units, or by what there is room for.

        The unit is the standard deviation of the best measurement, or the worst violation of the table if that is more.
        """
        unit = apart * max(self.unit**-0.5, self.violation(np.where(self.open, np.maximum(near, 0.0) - self.base, 0.0)))
        away = np.where(self.open, np.minimum(unit, self.room()), 0.0)
        x = np.where(self.open, np.maximum(near, away), 0.0)
        d = np.where(self.open, x - self.base, 0.0)
        sums = d @ self.member.T
        dual = self.rows.start(sums, 0.0, unit).dual
        slope = np.where(self.open, self.own * (d - self.noisy) + dual @ self.member, np.inf)
        slope = slope - (slope.min(axis=0) if self.count is not None else min(0.0, slope.min()))
        mean = 0.1 * float(np.mean(slope[self.open] * away[self.open])) + 1e-3 * float(np.mean(away[self.open] ** 2))
        z = np.where(self.open, mean / np.where(self.open, x, 1.0), 0.0)
        shared = self.shared.start(self.shared_sums(d), mean, unit)
        return Place(x, d, z, np.zeros(near.shape[1]), self.rows.start(sums, mean, unit), shared)

    def violation(self, d: Floats) -> float:
        """The largest violation of a column, an exact row or a bound, in persons."""
        columns = 0.0 if self.count is None else float(np.abs(d.sum(axis=0) - self.count).max())
        return max(columns, self.rows.violation(d @ self.member.T), self.shared.violation(self.shared_sums(d)))

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

    def pull(self, at: Place) -> Floats:
        """R'nu and theta: what all multipliers but those of x >= 0 add to the gradient."""
        pull = at.rows.dual @ self.member + at.theta
        shared: Floats = np.einsum("k,kc,km->cm", at.shared.dual, self.children, self.cells, optimize=True)
        return pull + shared

    def residuals(self, at: Place) -> Wrong:
        """How far the optimality conditions are from holding."""
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
        return Wrong(
            stationary,
            columns,
            rows,
            shared,
            self.complementarity(at),
            cost / max(0.5 / self.unit, value),
            self.complementarity(at) / cost,
            float(np.abs(hard).max(initial=0.0)),
        )

    def complementarity(self, at: Place) -> float:
        """The sum of slack times multiplier over all bounds."""
        pairs = float((at.x * at.z).sum())
        return pairs + self.rows.complementarity(at.rows) + self.shared.complementarity(at.shared)

    def longest(self, at: Place, by: Place) -> float:
        """The longest step that keeps everything positive; a little more than 1 at most."""
        return min(
            1.0 / 0.995,
            longest_step(at.x, by.x, self.open),
            longest_step(at.z, by.z, self.open),
            self.rows.longest(at.rows, by.rows),
            self.shared.longest(at.shared, by.shared),
        )
