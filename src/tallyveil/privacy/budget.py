"""Budgets, shares and deltas as exact fractions, read from what people write."""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from numbers import Integral

from tallyveil.errors import BudgetError

Number = int | float | str | Fraction
_LARGEST = Fraction(10) ** 300


def exact(value: Number, name: str, *, zero: bool = False) -> Fraction:
    """A positive number as the fraction it was written as: 0.1 is 1/10, not the nearest float.

    >>> exact("165/4099", "block"), exact(0.1, "epsilon"), exact("1e-10", "delta")
    (Fraction(165, 4099), Fraction(1, 10), Fraction(1, 10000000000))
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        value = int(value)  # NumPy's too
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
        raise BudgetError(f"{name} must be a number. Got {value!r} instead.")
    if isinstance(value, float) and not math.isfinite(value):
        raise BudgetError(f"{name} must be a finite number. Got {value} instead.")
    try:
        fraction = Fraction(float.__repr__(value) if isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError):
        raise BudgetError(f'{name} must be a number such as "2.56" or "165/4099". Got {value!r} instead.') from None
    if fraction < 0 or (fraction == 0 and not zero):
        raise BudgetError(f"{name} must be {'0 or more' if zero else 'greater than 0'}. Got {value} instead.")
    if fraction > _LARGEST or 0 < fraction < 1 / _LARGEST:
        raise BudgetError(f"{name} must be between 1e-300 and 1e300. Got {value} instead.")
    return fraction


def exact_delta(value: Number) -> Fraction:
    """A probability strictly between 0 and 1."""
    delta = exact(value, "delta")
    if delta >= 1:
        raise BudgetError(f"delta must be less than 1 (usual: 1e-10). Got {value} instead.")
    return delta


def text(fraction: Fraction) -> str:
    """A fraction as people write it.

    >>> text(Fraction(1, 4)), text(Fraction(3)), text(Fraction(1, 10**10))
    ('1/4', '3', '1e-10')
    """
    power = len(str(fraction.denominator)) - 1
    if fraction.numerator == 1 and power > 3 and fraction.denominator == 10**power:
        return f"1e-{power}"
    return str(fraction)


def rounded_up(fraction: Fraction) -> float:
    """The smallest float that is no less."""
    try:
        value = float(fraction)
    except OverflowError:
        return math.inf
    return value if Fraction(value) >= fraction else math.nextafter(value, math.inf)


def up_to_digits(value: float, digits: int) -> str:
    """A loss to so many significant digits, rounded up.

    >>> up_to_digits(1 / 3, 4), up_to_digits(17.1, 4), up_to_digits(1.0, 4)
    ('0.3334', '17.1', '1')
    """
    exact_value = Decimal(repr(float(value)))
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(exact_value)
    return f"{float(rounded):.{digits}g}"


def rounded_down(fraction: Fraction) -> float:
    """The largest float that is no more."""
    try:
        value = float(fraction)
    except OverflowError:
        return sys.float_info.max
    return value if Fraction(value) <= fraction else math.nextafter(value, -math.inf)
