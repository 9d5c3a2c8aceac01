"""Budgets, shares and deltas as exact fractions."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Integral

from tallyveil._frozen import Frozen
from tallyveil.errors import BudgetError

Number = int | float | str | Fraction
Shares = Mapping[str, Fraction]
_POWER = 300  # numbers are between 1e-300 and 1e300
_LARGEST = Fraction(10) ** _POWER
_WRITTEN = re.compile(r"\s*[+-]?(?P<digits>[0-9_]*(/[0-9_]+|\.[0-9_]*)?)([eE](?P<power>[+-]?[0-9]+))?\s*", re.ASCII)


def exact(value: Number, name: str, *, zero: bool = False) -> Fraction:
    """Convert a positive number to the fraction that was written: 0.1 is 1/10, not the nearest float.

    >>> exact("165/4099", "block"), exact(0.1, "epsilon"), exact("1e-10", "delta")
    (Fraction(165, 4099), Fraction(1, 10), Fraction(1, 10000000000))
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        value = int(value)  # also NumPy's integers
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
        raise BudgetError(f"{name} must be a number. Got {value!r} instead.")
    if isinstance(value, float) and not math.isfinite(value):
        raise BudgetError(f"{name} must be a finite number. Got {value} instead.")
    fraction = _fraction(value, name)
    if fraction < 0 or (fraction == 0 and not zero):
        raise BudgetError(f"{name} must be {'0 or more' if zero else 'greater than 0'}. Got {_shown(value)} instead.")
    if fraction > _LARGEST or 0 < fraction < 1 / _LARGEST:
        raise BudgetError(f"{name} must be between 1e-300 and 1e300. Got {_shown(value)} instead.")
    return fraction


def _fraction(value: Number, name: str) -> Fraction:
    """The fraction that was written. A power of ten is bounded before it is built: 1e99999999999 fills the memory."""
    if not isinstance(value, str):
        return Fraction(float.__repr__(value) if isinstance(value, float) else value)
    written = _WRITTEN.fullmatch(value)
    if written and written["power"]:
        power = written["power"].lstrip("+-0")
        if len(power) > 4 or int(power or 0) > 2 * _POWER + len(written["digits"]):
            raise BudgetError(f"{name} must be between 1e-300 and 1e300. Got {value} instead.")
    try:
        if written:
            return Fraction(value)
    except (ValueError, ZeroDivisionError):  # no digits, thousands of them, or 1/0
        pass
    raise BudgetError(f'{name} must be a number such as "2.56" or "165/4099". Got {value!r} instead.')


def _shown(value: Number) -> str:
    """A number for a message; Python refuses to write thousands of digits."""
    if isinstance(value, str | float):
        return str(value)
    return str(value) if -(_LARGEST**2) <= value <= _LARGEST**2 else "a larger one"


def exact_delta(value: Number) -> Fraction:
    """Convert a delta to a fraction, and refuse one that is not strictly between 0 and 1."""
    delta = exact(value, "delta")
    if delta >= 1:
        raise BudgetError(f"delta must be less than 1 (1e-10 is common). Got {_shown(value)} instead.")
    return delta


def exact_shares(what: str, shares: Mapping[str, Number], *, zero: bool = False) -> Shares:
    """Return shares as exact fractions, and refuse shares that do not sum to 1, or are 0 unless ``zero`` allows it."""
    table = {name: exact(share, f"share of {name!r} in {what}", zero=zero) for name, share in shares.items()}
    total = sum(table.values(), Fraction(0))
    if total != 1:
        listed = ", ".join(f"{name}={text(share)}" for name, share in table.items())
        raise BudgetError(
            f"shares of {what} sum to {total}, not 1 ({listed}). Rescale them, or use Strategy.proportional(...)."
        )
    return Frozen(table)


def rescaled_shares(what: str, weights: Mapping[str, Number], *, zero: bool = False) -> Shares:
    """Rescale weights to exact shares that sum to 1. A weight may be 0 only if ``zero`` allows it."""
    table = {name: exact(weight, f"weight of {name!r} in {what}", zero=zero) for name, weight in weights.items()}
    total = sum(table.values(), Fraction(0))
    return {name: weight / total for name, weight in table.items()} if total else table


def text(fraction: Fraction) -> str:
    """Write a fraction in its usual form.

    >>> text(Fraction(1, 4)), text(Fraction(3)), text(Fraction(1, 10**10))
    ('1/4', '3', '1e-10')
    """
    power = len(str(fraction.denominator)) - 1
    if fraction.numerator == 1 and power > 3 and fraction.denominator == 10**power:
        return f"1e-{power}"
    return str(fraction)


def rounded_up(fraction: Fraction) -> float:
    """Return the smallest float that is not less than the fraction."""
    try:
        value = float(fraction)
    except OverflowError:
        return math.inf
    return value if Fraction(value) >= fraction else math.nextafter(value, math.inf)


def up(value: Fraction | float, *, digits: int | None = None, places: int | None = None) -> str:
    """Write a loss, never smaller than it is: to significant digits or decimal places; a short fraction as it is.

    A float that is 3/5 rounded up is written as 0.6, not 0.6001: its last two binary digits do not count.

    >>> up(1 / 3, digits=4), up(17.1, digits=4), up(rounded_up(Fraction(3, 5)), digits=4), up(17.14355, places=2)
    ('0.3334', '17.1', '0.6', '17.15')
    >>> up(Fraction(3, 10)), up(Fraction(1000, 3333))
    ('3/10', '0.3001')
    """
    if digits is None and places is None:
        digits, exactly = 4, text(Fraction(value))
        if len(exactly) <= 7:
            return exactly
    if isinstance(value, float) and 1e-300 < value < math.inf:
        value = value - 2 * math.ulp(value)
    return _written(value, ROUND_CEILING, digits, places)


def down(value: Fraction | float, *, digits: int) -> str:
    """Write what is left of a limit, or a lower bound that is proven, never larger than it is.

    >>> down(Fraction(69996, 100000), digits=3), down(0.99996, digits=4)
    ('0.699', '0.9999')
    """
    return _written(value, ROUND_FLOOR, digits, None)


def _written(value: Fraction | float, towards: str, digits: int | None, places: int | None) -> str:
    """A number rounded in one direction."""
    if not math.isfinite(value):
        return str(value)
    exactly = Fraction(value)
    if digits is None:
        scaled = exactly * 10 ** (places or 0)
        whole = math.ceil(scaled) if towards == ROUND_CEILING else math.floor(scaled)
        return f"{Decimal(whole).scaleb(-(places or 0)):,f}"
    top, bottom = Decimal(exactly.numerator), Decimal(exactly.denominator)
    rounded = Context(prec=digits, rounding=towards).divide(top, bottom)
    return f"{float(rounded):.{digits}g}"


def rounded_down(fraction: Fraction) -> float:
    """Return the largest float that is not greater than the fraction."""
    try:
        value = float(fraction)
    except OverflowError:
        return sys.float_info.max
    return value if Fraction(value) <= fraction else math.nextafter(value, -math.inf)
