"""Independent references for the tests here: intervals of fractions, exp by its series, and a watchdog.

Nothing below uses floats, ball arithmetic or the library. A number is known by two fractions that enclose it, rounded
outwards to whole multiples of 2^-PRECISION to keep them short.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, islice
from math import floor

PRECISION = 400
_ONE = 1 << PRECISION


@dataclass(frozen=True)
class Interval:
    """All numbers from ``low`` to ``high``; both positive here."""

    low: Fraction
    high: Fraction

    @classmethod
    def around(cls, low: Fraction, high: Fraction) -> Interval:
        below = low.numerator * _ONE // low.denominator
        above = -(-high.numerator * _ONE // high.denominator)
        return cls(Fraction(below, _ONE), Fraction(above, _ONE))

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Interval) -> Interval:
        return Interval.around(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: Interval) -> Interval:
        return Interval.around(self.low / other.high, self.high / other.low)

    def times(self, n: int) -> Interval:
        return Interval(n * self.low, n * self.high)

    def floor_at(self, bits: int) -> int:
        """floor(2^bits x), which must be the same for all x in the interval."""
        lowest, highest = floor(self.low * (1 << bits)), floor(self.high * (1 << bits))
        assert lowest == highest, "the reference needs more precision"
        return lowest


WHOLE = Interval(Fraction(1), Fraction(1))


def exp_minus(x: Fraction) -> Interval:
    """exp(-x) for x >= 0: the alternating series of exp(-x / 2^k), whose partial sums enclose it, squared k times."""
    halvings = max(0, (floor(x) + 1).bit_length() + 4)
    y = x / (1 << halvings)
    term, total, sums = Fraction(1), Fraction(1), []
    for n in count(1):
        term = Fraction(floor(term * y / n * _ONE) + 1, _ONE) if n > 3 else term * y / n
        sums.append(total)
        total += -term if n % 2 else term
        if term <= Fraction(2, _ONE):
            break
    slack = Fraction(4 * n, _ONE)  # every term was rounded by at most one unit
    result = Interval.around(min(total, sums[-1]) - slack, max(total, sums[-1]) + slack)
    for _ in range(halvings):
        result = result * result
    return result


def geometric_weights(z: Fraction) -> Iterator[Interval]:
    """exp(-z m) for m = 0, 1, ..."""
    ratio, weight = exp_minus(z), WHOLE
    while True:
        yield weight
        weight = weight * ratio


def gaussian_weights(s: Fraction) -> Iterator[Interval]:
    """exp(-m^2 / 2s) for m = 0, 1, ..."""
    q = exp_minus(1 / (2 * s))
    square, step, weight = q * q, q, WHOLE
    while True:
        yield weight
        weight = weight * step
        step = step * square


def geometric_whole(z: Fraction, sides: int) -> Interval:
    """1 + sides (r + r^2 + ...) = 1 + sides r / (1 - r)."""
    r = exp_minus(z)
    rest = Interval(1 - r.high, 1 - r.low)
    return WHOLE + (r / rest).times(sides)


def gaussian_whole(s: Fraction, sides: int) -> Interval:
    """Terms until they are tiny; the rest is below a geometric series with the first ratio."""
    q = exp_minus(1 / (2 * s))
    total = WHOLE
    for m, weight in enumerate(gaussian_weights(s)):
        if weight.high < Fraction(1, 1 << PRECISION - 60):
            rest = sides * weight.high / (1 - q.high)
            return Interval.around(total.low, total.high + rest)
        if m:
            total = total + weight.times(sides)
    raise AssertionError


def geometric_cumulative(z: Fraction, sides: int, m: int) -> Interval:
    """P[M <= m] = 1 - sides (r^(m+1) + ...) / whole, at any m."""
    r = exp_minus(z)
    upper = (exp_minus((m + 1) * z) / Interval(1 - r.high, 1 - r.low)).times(sides) / geometric_whole(z, sides)
    return _one_minus(upper, exponent=(m + 1) * z)


def gaussian_cumulative(s: Fraction, sides: int, m: int) -> Interval:
    """P[M <= m] as one minus the weights above m, each exponential on its own."""
    q, total = exp_minus(1 / (2 * s)), Interval(Fraction(0), Fraction(0))
    for j in count(m + 1):
        weight = exp_minus(Fraction(j * j) / (2 * s))
        if weight.high < Fraction(1, 1 << PRECISION - 60):
            total = Interval.around(total.low, total.high + weight.high / (1 - q.high))
            break
        total = total + weight
    upper = total.times(sides) / gaussian_whole(s, sides)
    return _one_minus(upper, exponent=Fraction((m + 1) ** 2) / (2 * s))


def _one_minus(upper: Interval, exponent: Fraction) -> Interval:
    """1 - upper, where upper > exp(-exponent) / 1024 > 4^-(exponent + 6) keeps the result off 1."""
    return Interval(1 - upper.high, 1 - max(upper.low, Fraction(1, 4 ** (floor(exponent) + 6))))


def cumulatives(weights: Iterator[Interval], whole: Interval, sides: int) -> Iterator[Interval]:
    """P[M <= 0], P[M <= 1], ... by adding up."""
    total = next(weights)
    while True:
        yield total / whole
        total = total + next(weights).times(sides)


def thresholds(weights: Iterator[Interval], whole: Interval, sides: int, size: int) -> list[int]:
    """The first ``size`` values of floor(2^63 P[M <= m])."""
    return [c.floor_at(63) for c in islice(cumulatives(weights, whole, sides), size)]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail, rather than hang, when the block takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"still running after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
