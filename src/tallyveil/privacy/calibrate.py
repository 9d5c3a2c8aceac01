"""Calibrate the noise of a strategy to the (epsilon, delta) that is wanted, by its privacy loss distribution.

The shares stay proportions of rho. One number is found: the largest rho at which every pair of neighbouring datasets
satisfies (epsilon, delta) on the spine that is measured. It follows from public inputs alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tallyveil.errors import BudgetError
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import text
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.pld import largest_rho, pld_delta
from tallyveil.privacy.strategy import Strategy

if TYPE_CHECKING:
    from tallyveil.nouns.optimised_spine import OptimisedSpine


def calibrated(
    strategy: Strategy,
    *,
    spine: Spine | None = None,
    schema: Schema | None = None,
    optimised: OptimisedSpine | None = None,
) -> Strategy:
    """Return a strategy with the rho that its accounting gives on a spine. Without "pld", it is the strategy itself.

    The rho of a strategy that is calibrated already is kept, so that the same measurement gets the same noise, and
    refused if it is too large on this spine.

    >>> plan = Strategy(mechanism="gaussian", accounting="pld", epsilon=1, delta="1e-6",
    ...                 levels={"us": 1}, queries={"us": {"detailed": 1}})
    >>> round(float(plan.budget), 4), round(float(calibrated(plan).budget), 4)     # by zCDP, and by distribution
    (0.0244, 0.028)
    """
    if strategy.epsilon is None:
        return strategy
    loss = Loss(strategy=replace(strategy, calibrated=True), spine=spine, schema=schema, optimised=optimised)
    if not strategy.calibrated:
        return replace(strategy, budget=largest_rho(loss, strategy.epsilon, strategy.delta), calibrated=True)
    needed = pld_delta(loss, strategy.epsilon)
    if needed > strategy.delta:
        raise BudgetError(
            f"rho = {text(strategy.budget)} gives epsilon {float(strategy.epsilon):g} only at delta {needed:.3g} on "
            f"this spine, not at {float(strategy.delta):g}. Leave rho out of the strategy, so that it is calibrated."
        )
    return strategy
