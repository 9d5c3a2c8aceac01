"""Accounting for a Gaussian strategy by its privacy loss distribution, which is tighter than the conversion from rho.

A delta is the largest over the pairs of neighbours that matter (``neighbour_pairs``), each bounded from above
(``loss_distribution``). The searches below return values that were tested, so that rounding never gives less privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

from tallyveil.errors import BudgetError
from tallyveil.privacy.budget import rounded_down
from tallyveil.privacy.conversions import epsilon_from_rho, rho_from_epsilon
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.loss_distribution import Counts, largest_delta
from tallyveil.privacy.neighbour_pairs import at_budget, differing_counts

LARGEST_RHO = 1000  # far beyond any use; the distribution grows with rho
SMALLEST_DELTA = 1e-100
MOST_PAIRS = 1000  # of different sets of counts; each takes some hundredths of a second
DIGITS = (
    8  # of a calibrated rho: not the last bits of a platform, but enough where a loss of coarse noise is near epsilon
)


def pld_epsilon(loss: Loss, delta: Fraction) -> tuple[float | None, str | None]:
    """Return epsilon at a delta, at most the one that rho implies; or None and why it cannot be computed.

    >>> from tallyveil.privacy.strategy import Strategy
    >>> plan = Strategy(mechanism="gaussian", budget=1, levels={"us": 1}, queries={"us": {"detailed": 1}})
    >>> round(pld_epsilon(Loss(strategy=plan), Fraction(1, 10**6))[0], 2)
    7.0
    """
    pairs, rho = differing_counts(loss), loss.in_all()
    if not pairs:
        return 0.0, None
    reason = _out_of_reach(pairs, rho, delta)
    if loss.rows_per_person > 1:
        reason = f"a person has up to {loss.rows_per_person} records"
    if reason is not None:
        return None, reason
    return _smallest_epsilon(pairs, loss.strategy.budget, delta, epsilon_from_rho(rho, delta)), None


def pld_epsilon_of_counts(pairs: tuple[Counts, ...], rho: Fraction, delta: Fraction) -> float:
    """Return epsilon at a delta for pairs of neighbours that differ in these counts; rho is known to hold for all."""
    return _smallest_epsilon(pairs, Fraction(1), delta, epsilon_from_rho(rho, delta))


def pld_delta(loss: Loss, epsilon: Fraction) -> float:
    """Return the delta at which epsilon holds, rounded up."""
    return _delta_of_pairs(differing_counts(loss), loss.strategy.budget, rounded_down(epsilon))


def largest_rho(loss: Loss, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a rho at which the strategy's privacy loss distribution gives (epsilon, delta), and just about uses it.

    It is found for the first set of differing counts, then lowered until no other set needs more noise, since the worst
    pair of neighbours can depend on the scale of the noise. The delta of coarse noise does not always rise with rho, so
    what counts is that the rho itself was tested, for every set.
    """
    return _largest_rho(differing_counts(loss), epsilon, delta)


def _out_of_reach(pairs: tuple[Counts, ...], rho: Fraction, delta: Fraction) -> str | None:
    if rho > LARGEST_RHO:
        return f"rho is above {LARGEST_RHO:,}"
    if delta < SMALLEST_DELTA:
        return f"delta {float(delta)} is below {SMALLEST_DELTA:g}"
    if len(pairs) > MOST_PAIRS:
        return f"the only-child rule makes {len(pairs):,} kinds of pairs of neighbours (the limit is {MOST_PAIRS:,})"
    return None


@lru_cache(maxsize=64)  # replicates of a run need the same value
def _delta_of_pairs(pairs: tuple[Counts, ...], budget: Fraction, epsilon: float) -> float:
    return max((largest_delta(at_budget(pair, budget), epsilon) for pair in pairs), default=0.0)


@lru_cache(maxsize=64)
def _smallest_epsilon(pairs: tuple[Counts, ...], budget: Fraction, delta: Fraction, highest: float) -> float:
    """Return the smallest epsilon that holds at delta for every pair; ``highest`` is known to hold."""
    wanted, low = math.log(rounded_down(delta)), 0.0
    for pair in pairs:
        counts = at_budget(pair, budget)

        def excess(epsilon: float, counts: Counts = counts) -> float:
            return math.log(largest_delta(counts, epsilon)) - wanted

        if excess(low) > 0:
            if excess(highest) > 0:
                return highest
            low = _boundary(excess, inside=highest, outside=low, tolerance=1e-7 * highest)
    return low


@lru_cache(maxsize=64)
def _largest_rho(pairs: tuple[Counts, ...], epsilon: Fraction, delta: Fraction) -> Fraction:
    safe = Fraction(rho_from_epsilon(epsilon, delta))  # zCDP holds for every pair
    if not pairs:
        return safe
    reason = _out_of_reach(pairs, safe, delta)
    if reason is not None:
        raise BudgetError(
            f'accounting = "pld" with epsilon {float(epsilon):g} at delta {float(delta):g}: {reason}. Use "zcdp".'
        )
    wanted, epsilon_ = math.log(rounded_down(delta)), rounded_down(epsilon)

    def excess(pair: Counts, log_rho: float) -> float:
        return math.log(largest_delta(at_budget(pair, Fraction(math.exp(log_rho))), epsilon_)) - wanted

    low = math.log(safe)
    if any(excess(pair, low) > 0 for pair in pairs):
        return safe
    outside = _first_outside(partial(excess, pairs[0]), low)
    worst: Counts | None = pairs[0]
    while worst is not None:
        outside = _boundary(partial(excess, worst), inside=low, outside=outside, tolerance=1e-9)
        rho = _few_digits_down(math.exp(outside))
        outside = math.log(rho)
        worst = next((pair for pair in pairs if largest_delta(at_budget(pair, rho), epsilon_) > delta), None)
    return max(rho, safe)


def _first_outside(excess: Callable[[float], float], inside: float) -> float:
    """Return a point where the excess is above 0, found in growing steps up from one where it is not."""
    step = 0.1
    while excess(inside + step) <= 0:
        step *= 2
    return inside + step


def _boundary(excess: Callable[[float], float], *, inside: float, outside: float, tolerance: float) -> float:
    """Return a point where the excess is at most 0, near one where it is above (false position, Illinois variant)."""
    at_inside, at_outside = excess(inside), excess(outside)
    moved_inside = moved_outside = False
    while abs(outside - inside) > tolerance and at_inside < 0:
        middle = inside + (outside - inside) * at_inside / (at_inside - at_outside)
        margin = 0.25 * math.copysign(tolerance, outside - inside)  # reach past a boundary that is nearly found
        middle = min(max(middle, min(inside, outside) + abs(margin)), max(inside, outside) - abs(margin))
        found = excess(middle)
        if found <= 0:
            inside, at_inside, at_outside = middle, found, at_outside / 2 if moved_inside else at_outside
            moved_inside, moved_outside = True, False
        else:
            outside, at_outside, at_inside = middle, found, at_inside / 2 if moved_outside else at_inside
            moved_inside, moved_outside = False, True
    return inside


def _few_digits_down(value: float) -> Fraction:
    """Return a positive number rounded down to ``DIGITS`` significant digits.

    >>> _few_digits_down(2.7399999999)
    Fraction(27399999, 10000000)
    """
    unit = Fraction(10) ** (math.floor(math.log10(value)) + 1 - DIGITS)
    return Fraction(value) // unit * unit
