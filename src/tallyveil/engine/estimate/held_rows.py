"""The rows of a nest in the interior-point method: each is measured, exact, bounded, or free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Bools, Floats

_FREE = 1e100  # E of a row that nothing holds
_ROOM = 1e-13  # the least distance of a slack from its bound: below it, differences are dust


@dataclass(frozen=True, eq=False)
class RowPoint:
    """For each row its multiplier; for a bounded one also the slack v, and the multipliers of its two bounds."""

    dual: Floats
    slack: Floats
    down: Floats
    up: Floats

    def moved(self, by: RowPoint, length: float) -> RowPoint:
        """A step of some length from here."""
        return RowPoint(
            self.dual + length * by.dual,
            self.slack + length * by.slack,
            self.down + length * by.down,
            self.up + length * by.up,
        )


class HeldRows:
    """What holds each row: a measurement, an exact sum, or bounds. One that nothing holds has the multiplier 0."""

    def __init__(self, weight: Floats, answer: Floats, least: Floats, most: Floats) -> None:
        self.measured = weight > 0
        self.exact = ~self.measured & (least == most)
        self.below = ~self.measured & ~self.exact & np.isfinite(least)
        self.above = ~self.measured & ~self.exact & np.isfinite(most)
        self.bounded = self.below | self.above
        self.give = np.divide(1.0, weight, out=np.zeros(weight.shape), where=self.measured)
        self.target = np.where(self.measured, answer, np.where(self.exact, least, 0.0))
        self.least, self.most = np.where(self.below, least, 0.0), np.where(self.above, most, 0.0)

    def start(self, sums: Floats, mean: float, unit: float) -> RowPoint:
        """A point away from the bounds, with all complementarities equal to ``mean``."""
        width = np.where(self.below & self.above, self.most - self.least, np.inf)
        margin = np.minimum(unit, 0.25 * width)
        slack = np.where(self.below, np.maximum(sums, self.least + margin), sums)
        slack = np.where(self.above, np.minimum(slack, self.most - margin), slack)
        down = np.where(self.below, mean / self.room_below(slack), 0.0)
        up = np.where(self.above, mean / self.room_above(slack), 0.0)
        measured = np.divide(sums - self.target, self.give, out=np.zeros(sums.shape), where=self.measured)
        return RowPoint(np.where(self.measured, measured, up - down), slack, down, up)

    def violation(self, sums: Floats) -> float:
        """The largest distance of an exact or bounded row from where it may be."""
        exact = np.where(self.exact, np.abs(sums - self.target), 0.0)
        below, above = np.where(self.below, self.least - sums, 0.0), np.where(self.above, sums - self.most, 0.0)
        return float(max(part.max(initial=0.0) for part in (exact, below, above)))

    def room_below(self, slack: Floats) -> Floats:
        """How far each slack is from its lower bound."""
        return np.where(self.below, np.maximum(slack - self.least, _ROOM), 1.0)

    def room_above(self, slack: Floats) -> Floats:
        """How far each slack is from its upper bound."""
        return np.where(self.above, np.maximum(self.most - slack, _ROOM), 1.0)

    def residuals(self, sums: Floats, at: RowPoint) -> Floats:
        """By how much each row misses what holds it."""
        return np.where(
            self.measured | self.exact,
            sums - self.target - self.give * at.dual,
            np.where(self.bounded, sums - at.slack, 0.0),
        )

    def complementarity(self, at: RowPoint) -> float:
        """The sum of slack times multiplier over all bounds."""
        return float((at.down * self.room_below(at.slack)).sum() + (at.up * self.room_above(at.slack)).sum())

    def longest(self, at: RowPoint, by: RowPoint) -> float:
        """The longest step that keeps slacks and multipliers positive."""
        return min(
            longest_step(self.room_below(at.slack), by.slack, self.below),
            longest_step(self.room_above(at.slack), -by.slack, self.above),
            longest_step(at.down, by.down, self.below),
            longest_step(at.up, by.up, self.above),
        )

    def barrier(self, at: RowPoint) -> Floats:
        """The curvature that the bounds give each slack."""
        curvature = at.down / self.room_below(at.slack) + at.up / self.room_above(at.slack)
        return np.where(self.bounded, np.maximum(curvature, 1e-200), 1.0)

    def elasticity(self, at: RowPoint, least: float) -> Floats:
        """E: how far a row gives way for a unit of its multiplier; at least ``least`` (the proximal term)."""
        give = np.where(self.measured, self.give, np.where(self.exact, 0.0, _FREE))
        give = np.where(self.bounded, np.minimum(1.0 / self.barrier(at), _FREE), give)
        return np.where(self.measured, give, np.maximum(give, least))

    def pushed(self, at: RowPoint, mean: float, before: RowPoint | None) -> tuple[Floats, Floats, Floats]:
        """What the complementarity of the two bounds asks of the slack, of ``down`` and of ``up``."""
        down = at.down * self.room_below(at.slack) - np.where(self.below, mean, 0.0)
        up = at.up * self.room_above(at.slack) - np.where(self.above, mean, 0.0)
        if before is not None:
            down, up = down + before.down * before.slack, up - before.up * before.slack
        down, up = down / self.room_below(at.slack), up / self.room_above(at.slack)
        return np.where(self.bounded, at.dual - at.up + at.down + up - down, 0.0) / self.barrier(at), down, up

    def direction(self, at: RowPoint, dual: Floats, pushed: tuple[Floats, Floats, Floats]) -> RowPoint:
        """The direction of all of a row's unknowns from that of its multiplier."""
        shift, down, up = pushed
        slack = np.where(self.bounded, dual / self.barrier(at) + shift, 0.0)
        return RowPoint(
            dual,
            slack,
            np.where(self.below, -down - at.down / self.room_below(at.slack) * slack, 0.0),
            np.where(self.above, -up + at.up / self.room_above(at.slack) * slack, 0.0),
        )


def longest_step(values: Floats, by: Floats, where: Bools) -> float:
    """How far one can go before a value is 0."""
    falls = where & (by < 0)
    return float((-values[falls] / by[falls]).min(initial=np.inf))
