r"""The searches: least objective at a budget, or the least budget that meets goals.

Shares are a floor plus a softmax of free parameters. For Gaussian noise without the only-child rule, and estimates over
the whole tree, both problems are convex in the shares, so a stationary point is the optimum. The gradient g then bounds
how far from it a point is: :math:`F(s) - F^* \le \sum_i s_i g_i - \min_i g_i`, times the room above the floors. That is
the ``gap``. Geometric noise has a precision that grows with the square of the share, and TopDown's estimates are not
the best ones; there several starts are tried, and the gap says only how nearly stationary the result is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.allocation.goals import SHARP, Goal
from tallyveil.allocation.model import Model, Prediction
from tallyveil.allocation.objective import Objective
from tallyveil.errors import InputError

LARGEST = 1e4  # budget: far beyond any use
SMALLEST = 1e-9
GUESSES = 6  # of the least budget, before it is enclosed
STEPS = 500
REACH = 40.0  # of the free parameters


@dataclass(frozen=True, kw_only=True, eq=False)
class Room:
    """Where shares may be: above their floors, and in groups whose sums are given.

    ``capped`` are the shares whose sum is ``cap``; without a cap there is one group.
    """

    floor: Floats
    capped: Bools
    cap: float | None = None

    @property
    def group(self) -> Integers:
        """The group of each share."""
        return (self.capped & (self.cap is not None)).astype(np.int64)

    def free(self) -> Floats:
        """What is left above the floors in the group of each share."""
        sums = [1.0] if self.cap is None else [1.0 - self.cap, self.cap]
        left = np.array([whole - self.floor[self.group == g].sum() for g, whole in enumerate(sums)])
        return left[self.group]

    def shares(self, free: Floats) -> tuple[Floats, Floats]:
        """The shares of free parameters, and the softmax within each group."""
        soft = np.empty(len(free))
        for g in np.unique(self.group):
            mine = self.group == g
            powers = np.exp(free[mine] - free[mine].max())
            soft[mine] = powers / powers.sum()
        return self.floor + self.free() * soft, soft

    def parameters(self, shares: Floats) -> Floats:
        """Parameters whose shares are near the given ones."""
        above = np.maximum(shares - self.floor, 1e-4 * np.maximum(shares, 1e-6))
        return np.log(above)

    def gradient(self, soft: Floats, by_share: Floats) -> Floats:
        """The gradient by parameter from that by share."""
        scaled, out = self.free() * by_share, np.empty(len(soft))
        for g in np.unique(self.group):
            mine = self.group == g
            out[mine] = soft[mine] * (scaled[mine] - soft[mine] @ scaled[mine])
        return out

    def gap(self, soft: Floats, by_share: Floats) -> float:
        """How much lower a convex function with this gradient can be at most."""
        total = 0.0
        for g in np.unique(self.group):
            mine = self.group == g
            total += float(self.free()[mine][0] * (soft[mine] @ by_share[mine] - by_share[mine].min()))
        return total


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Shares, the budget, the logarithm of the objective there, and how far from the optimum it is at most."""

    shares: Floats
    budget: float
    value: float
    gap: float


def least_error(model: Model, objective: Objective, room: Room, *, starts: Sequence[Floats], budget: float) -> Solution:
    """The shares with the least objective at a budget; the best of several starts."""

    def cost(free: Floats) -> tuple[float, Floats]:
        shares, soft = room.shares(free)
        at = model.predict(shares, budget)
        value, by_variance = objective.value(model, at)
        by_share, _ = model.gradient(at, by_variance)
        return value, room.gradient(soft, by_share)

    def descend(start: Floats, precise: float) -> Any:
        settings = {"maxiter": STEPS, "ftol": precise, "gtol": 1e-9, "maxls": 40}
        bounds = [(-REACH, REACH)] * len(room.floor)
        return minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options=settings)

    roughly = [descend(room.parameters(start), 1e-6 if len(starts) > 1 else 1e-13) for start in starts]
    best = min(roughly, key=lambda one: float(one.fun))
    if len(starts) > 1:
        best = descend(best.x, 1e-11)
    return solution_at(model, objective, room, room.shares(best.x)[0], budget)


def solution_at(model: Model, objective: Objective, room: Room, shares: Floats, budget: float) -> Solution:
    """The objective and the gap at some shares."""
    at = model.predict(shares, budget)
    value, by_variance = objective.value(model, at)
    by_share, _ = model.gradient(at, by_variance)
    soft = (shares - room.floor) / room.free()
    return Solution(shares=shares, budget=budget, value=value, gap=room.gap(soft, by_share))


def least_budget(model: Model, goals: Sequence[Goal], shares: Floats) -> float:
    """The least budget at which given shares meet all goals, to nine digits."""

    def missed(budget: float) -> bool:
        at = model.predict(shares, budget)
        return any(goal.excess(at) > 0 for goal in goals)

    if not missed(SMALLEST):
        return SMALLEST
    low, high = _near(model, goals, shares, missed)
    while high / low > 1 + 1e-9:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if missed(middle) else (low, middle)
    return high


def _near(model: Model, goals: Sequence[Goal], shares: Floats, missed: Callable[[float], bool]) -> tuple[float, float]:
    """Budgets just below and above the least one, since predictions of a large tree take seconds.

    Variances are taken to be proportional to a power of the budget, which is nearly so where noise matters.
    """
    power, guess = 1 if model.strategy.mechanism == "gaussian" else 2, 1.0
    for _ in range(GUESSES):
        at = model.predict(shares, guess)
        before, guess = guess, guess * _scale(at, goals) ** (1 / power)
        if abs(guess / before - 1) < 1e-10:
            break
    guess, width = min(max(guess, SMALLEST), LARGEST), 4e-10
    low = high = guess
    while missed(high):
        low, high, width = high, high * (1 + width), 100 * width
        if high > 10 * LARGEST:
            raise InputError(
                f"no budget up to {LARGEST:,.0f} meets the goals ({'; '.join(goal.words() for goal in goals)}). "
                f"Ask for less."
            )
    while low == high or not missed(low):
        high, low, width = low, max(low / (1 + width), SMALLEST), 100 * width
    return low, high


def _scale(at: Prediction, goals: Sequence[Goal]) -> float:
    """By what all variances must be divided so that the goals are just met."""

    def missed(factor: float) -> bool:
        scaled = replace(at, variances={goal.pair: at.variances[goal.pair] / factor for goal in goals})
        return any(goal.excess(scaled) > 0 for goal in goals)

    low, high = 1e-18, 1e18
    if missed(high) or not missed(low):
        return 1.0
    while high / low > 1 + 1e-12:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if missed(middle) else (low, middle)
    return high


def goals_met(
    model: Model,
    goals: Sequence[Goal],
    room: Room,
    *,
    starts: Sequence[Floats],
    objective: Objective | None = None,
    budget: float | None = None,
    most: float | None = None,
) -> tuple[Floats, float]:
    """Shares that meet all goals with the least budget, or with the least objective at a given budget.

    The budget of the capped shares is at most ``most``. Sequential quadratic programming, in the logarithm of the
    budget and the parameters of the shares, from every start; the best that meets the goals.
    """
    results = []
    for start in starts:
        first = least_budget(model, goals, room.shares(room.parameters(start))[0]) if budget is None else budget
        x = np.concatenate([[np.log(first)], room.parameters(start)])
        for sharp in SHARP:
            x = _sequential(model, goals, room, x, sharp, objective=objective, fixed=budget is not None, most=most)
        shares = room.shares(x[1:])[0]
        needed = least_budget(model, goals, shares)
        whole = needed if budget is None else budget
        if budget is not None and needed > budget * (1 + 1e-6):
            continue
        if most is not None and whole * float(shares[room.capped].sum()) > most * (1 + 1e-6):
            continue
        cost = needed
        if objective is not None:
            cost = objective.value(model, model.predict(shares, whole))[0]
        results.append((cost, shares, whole))
    if not results:
        raise InputError(unreached(goals, budget, most))
    _, shares, whole = min(results, key=lambda result: result[0])
    return shares, whole


def unreached(goals: Sequence[Goal], budget: float | None, most: float | None) -> str:
    """Why no shares were found, and what to do."""
    words = "; ".join(goal.words() for goal in goals)
    if most is not None:
        return (
            f"no shares meet the goals ({words}) while the leaf level keeps its bound on risk, a budget of {most:.4g}. "
            f"Ask for less, or allow more risk."
        )
    return f"no shares meet the goals ({words}) at a budget of {budget:.4g}. Leave the weights out to find the least."


def _sequential(
    model: Model,
    goals: Sequence[Goal],
    room: Room,
    start: Floats,
    sharp: float,
    *,
    objective: Objective | None,
    fixed: bool,
    most: float | None,
) -> Floats:
    """The logarithm of the budget and the parameters of the shares at a constrained optimum."""
    kept: dict[bytes, tuple[Prediction, Floats]] = {}

    def at(x: Floats) -> tuple[Prediction, Floats]:
        key = x.tobytes()
        if key not in kept:
            kept.clear()
            shares, soft = room.shares(x[1:])
            kept[key] = model.predict(shares, float(np.exp(x[0]))), soft
        return kept[key]

    def by_x(prediction: Prediction, soft: Floats, by_variance: dict[tuple[str, str], Floats]) -> Floats:
        by_share, by_budget = model.gradient(prediction, by_variance)
        by_log = 0.0 if fixed else by_budget * prediction.budget
        return np.concatenate([[by_log], room.gradient(soft, by_share)])

    def cost(x: Floats) -> tuple[float, Floats]:
        if objective is None:
            return float(x[0]), np.eye(1, len(x))[0]
        prediction, soft = at(x)
        value, by_variance = objective.value(model, prediction)
        return value, by_x(prediction, soft, by_variance)

    def margin(goal: Goal) -> Callable[[Floats], float]:
        return lambda x: -goal.smooth_excess(at(x)[0], sharp)[0]

    def slope(goal: Goal) -> Callable[[Floats], Floats]:
        return lambda x: -by_x(*at(x), {goal.pair: goal.smooth_excess(at(x)[0], sharp)[1]})

    constraints = [{"type": "ineq", "fun": margin(goal), "jac": slope(goal)} for goal in goals]
    if most is not None:
        constraints.append(_cap_constraint(room, most))
    low, high = (start[0], start[0]) if fixed else (np.log(SMALLEST), np.log(LARGEST))
    found = minimize(
        cost,
        np.clip(start, [low, *[-REACH] * (len(start) - 1)], [high, *[REACH] * (len(start) - 1)]),
        jac=True,
        method="SLSQP",
        bounds=[(low, high), *[(-REACH, REACH)] * (len(start) - 1)],
        constraints=constraints,
        options={"maxiter": 300, "ftol": 1e-10},
    )
    return np.asarray(found.x)


def _cap_constraint(room: Room, most: float) -> dict[str, object]:
    """The budget of the capped shares is at most ``most``, in logarithms."""

    def value(x: Floats) -> float:
        shares, _ = room.shares(x[1:])
        return float(np.log(most) - x[0] - np.log(shares[room.capped].sum()))

    def slope(x: Floats) -> Floats:
        shares, soft = room.shares(x[1:])
        by_share = np.where(room.capped, -1.0, 0.0) / shares[room.capped].sum()
        return np.concatenate([[-1.0], room.gradient(soft, by_share)])

    return {"type": "ineq", "fun": value, "jac": slope}
