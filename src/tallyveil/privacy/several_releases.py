"""The joint guarantee of several releases about the same people.

Budgets of one kind add up: rho to rho, epsilon to epsilon. If both kinds occur, two bounds hold and the smaller is
reported: either all releases count as zCDP (a pure epsilon is zCDP with rho = epsilon^2 / 2), or the pure epsilons are
added to the epsilon of the sum of rho.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from tallyveil.errors import BudgetError
from tallyveil.privacy.budget import Number, exact_delta, rounded_up
from tallyveil.privacy.conversions import epsilon_from_rho
from tallyveil.privacy.guarantee import Account, account_of, account_of_rho
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.strategy import Strategy


def account_together(losses: Sequence[Loss], *, delta: Number | None = None) -> tuple[Account, str]:
    """Return the joint guarantee of several measurements of the same people, and how it was computed.

    >>> plan = Strategy.preset("e2e-2018", epsilon=1)
    >>> account_together([Loss(strategy=plan), Loss(strategy=plan.with_budget(epsilon="1/2"))])[0].epsilon
    1.5
    """
    if not losses:
        raise BudgetError("no releases to add up. Give at least one.")
    if len(losses) == 1:
        (loss,) = losses
        figures = account_of(loss.strategy, spine=loss.spine, schema=loss.schema, optimised=loss.optimised, delta=delta)
        return figures, "one release"
    if len({loss.strategy.neighbours for loss in losses}) > 1:
        raise BudgetError(
            "some releases have replace-one neighbours and some add-or-remove: their losses are of different kinds and "
            "cannot be added. Account for each kind separately."
        )
    pure = [loss.in_all() for loss in losses if loss.strategy.mechanism == "geometric"]
    rho = sum((loss.in_all() for loss in losses if loss.strategy.mechanism == "gaussian"), Fraction(0))
    if not rho:
        return Account(epsilon=rounded_up(sum(pure, Fraction(0)))), f"the epsilons of {len(losses)} pure releases added"
    delta_ = _common_delta([loss.strategy for loss in losses], delta)
    if not pure:
        return account_of_rho(rho, delta_), f"the rhos of {len(losses)} zCDP releases added"
    as_rho = rho + sum((epsilon**2 / 2 for epsilon in pure), Fraction(0))
    whole = account_of_rho(as_rho, delta_)
    separately = rounded_up(sum(pure, Fraction(0)) + Fraction(epsilon_from_rho(rho, delta_)))
    if whole.epsilon <= separately:
        return (
            whole,
            "pure and zCDP releases mixed: each pure epsilon counted as rho = epsilon^2 / 2 (Theorem 2), rhos added "
            "and converted at delta (Theorem 3)",
        )
    return (
        Account(epsilon=separately, rho=whole.rho, delta=whole.delta, implied_epsilon=whole.implied_epsilon),
        "pure and zCDP releases mixed: the pure epsilons added to the epsilon of the rhos' sum (Theorem 3; rho: all as "
        "zCDP, Theorem 2)",
    )


def kinds_of(losses: Iterable[Loss]) -> set[str]:
    """The mechanisms of several measurements: one kind, whose budgets add up, or two."""
    return {loss.strategy.mechanism for loss in losses}


def _common_delta(strategies: Sequence[Strategy], delta: Number | None) -> Fraction:
    if delta is not None:
        return exact_delta(delta)
    deltas = {strategy.delta for strategy in strategies if strategy.mechanism == "gaussian"}
    if len(deltas) > 1:
        listed = ", ".join(f"{float(value):g}" for value in sorted(deltas))
        raise BudgetError(f"the releases report at different deltas ({listed}). Choose one: --delta 1e-10")
    return deltas.pop()
