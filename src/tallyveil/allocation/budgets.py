"""A strategy with the budget that goals need, written with few digits and never less than needed."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.pld import pld_epsilon
from tallyveil.privacy.strategy import Strategy

DIGITS = 4  # of a budget that goals need


def few_digits_up(value: float, digits: int = DIGITS) -> Fraction:
    """A positive number rounded up to a few significant digits.

    >>> few_digits_up(0.123411), few_digits_up(2.0)
    (Fraction(247, 2000), Fraction(2, 1))
    """
    unit = Fraction(10) ** (math.floor(math.log10(value)) + 1 - digits)
    return -(-Fraction(value) // unit) * unit


def with_least_budget(
    strategy: Strategy, needed: float, *, spine: Spine, schema: Schema, optimised: OptimisedSpine | None
) -> Strategy:
    """The strategy with a budget of at least what is needed: epsilon or rho, or the epsilon that calibrates to it."""
    if strategy.accounting != "pld":
        return strategy.with_budget(**{strategy.unit: few_digits_up(needed)})
    by_rho = replace(strategy, accounting="zcdp", epsilon=None, calibrated=False, budget=few_digits_up(needed))
    place = {"spine": spine, "schema": schema, "optimised": optimised}
    epsilon, _ = pld_epsilon(Loss(strategy=by_rho, **place), strategy.delta)  # type: ignore[arg-type]
    wanted = few_digits_up(epsilon if epsilon is not None else float(strategy.epsilon or 1))
    while True:
        made = replace(strategy, epsilon=wanted, calibrated=False)
        if float(calibrated(made, **place).budget) >= needed:  # type: ignore[arg-type]
            return made
        wanted = few_digits_up(float(wanted) * 1.0005)
