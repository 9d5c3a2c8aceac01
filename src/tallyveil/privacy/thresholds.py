r"""Cumulative probabilities to any number of digits, rigorously, and the tables made from them.

A *half law* is a distribution on 0, 1, 2, ... with weight f(0) at 0 and ``sides`` times f(m) at m > 0: with two sides
the magnitude of a symmetric noise, with one side its upper half. What sampling needs of it is the whole number

.. math:: \lfloor 2^{bits} P[M \le m] \rfloor

It is computed in ball arithmetic (Arb, through python-flint): a ball that surely holds the true value, at a precision
that is raised until the floor is the same all over the ball. No float takes part.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count, islice
from typing import Any, final

import flint
import numpy as np
from numpy.typing import NDArray

BITS = 63  # of a first word that go into the magnitude; the other is the sign
GUIDE = 12  # leading bits whose answer is known before the search, or nearly


@dataclass(frozen=True, kw_only=True)
class HalfLaw(ABC):
    """A distribution on 0, 1, 2, ... whose cumulative probabilities are known as balls."""

    sides: int

    @abstractmethod
    def cumulatives(self) -> Iterator[Any]:
        """Balls that hold P[M <= 0], P[M <= 1], ..., at the precision in force."""

    @abstractmethod
    def cumulative(self, m: int) -> Any:
        """A ball that holds P[M <= m], at the precision in force."""

    def floor_of(self, m: int, bits: int) -> int:
        """The whole number floor(2^bits P[M <= m])."""
        return _raised(lambda: self.cumulative(m), bits)


@final
@dataclass(frozen=True, kw_only=True)
class HalfGeometric(HalfLaw):
    """f(m) = r^m with r = exp(-z)."""

    z: Fraction

    def cumulatives(self) -> Iterator[Any]:
        """1 - sides r^(m+1) / (1 - r + sides r), by multiplying on."""
        r = (-ball_of(self.z)).exp()
        tail = self.sides * r / (1 - r + self.sides * r)
        while True:
            yield 1 - tail
            tail *= r

    def cumulative(self, m: int) -> Any:
        """The same, directly."""
        r = (-ball_of(self.z)).exp()
        return 1 - self.sides * (-(m + 1) * ball_of(self.z)).exp() / (1 - r + self.sides * r)


@final
@dataclass(frozen=True, kw_only=True)
class HalfGaussian(HalfLaw):
    """f(m) = exp(-m^2 / 2s)."""

    s: Fraction

    def cumulatives(self) -> Iterator[Any]:
        """Partial sums over the whole sum."""
        whole = _whole_sum(self, flint.ctx.prec)
        part = flint.arb(0)
        for m, f in self.weights():
            part += f if m == 0 else self.sides * f
            yield part / whole

    def cumulative(self, m: int) -> Any:
        """The same, added up as far as m."""
        return next(islice(self.cumulatives(), m, None))

    def weights(self) -> Iterator[tuple[int, Any]]:
        """f(0), f(1), ... : f(m+1) / f(m) = q^(2m+1) with q = exp(-1/2s)."""
        q = (-1 / (2 * ball_of(self.s))).exp()
        f, ratio, step = flint.arb(1), q, q * q
        for m in count():
            yield m, f
            f *= ratio
            ratio *= step


@lru_cache(maxsize=64)
def _whole_sum(law: HalfGaussian, digits: int) -> Any:
    """The whole sum: terms until they are tiny, then a geometric series above the rest as the ball's radius."""
    q = (-1 / (2 * ball_of(law.s))).exp()
    tiny = flint.arb(2) ** -digits
    whole = flint.arb(0)
    for m, f in law.weights():
        if f < tiny:
            rest = law.sides * f / (1 - q ** (2 * m + 1))  # ratios of later terms are smaller still
            return whole + flint.arb(0, rest)
        whole += f if m == 0 else law.sides * f
    raise AssertionError("unreachable: the weights vanish")


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Where a 63-bit word falls among the thresholds of a half law.

    ``thresholds[m]`` is floor(2^63 P[M <= m]). A word below it (and above the one before) means m; a word equal to one
    needs more bits. The last threshold is 2^63 - 1: what lies beyond the table needs more bits too.
    ``guide[g]`` is the first threshold that a word with leading bits ``g`` can be below.
    """

    thresholds: NDArray[np.uint64]
    guide: NDArray[np.int32]


def entries_needed(law: HalfLaw) -> float:
    """About how many thresholds a table of this law has."""
    if isinstance(law, HalfGeometric):
        return 44 / float(law.z) + 2
    assert isinstance(law, HalfGaussian)
    return 9.3 * math.sqrt(law.s) + 2


@lru_cache(maxsize=256)
def table(law: HalfLaw) -> Table:
    """The table of a half law."""
    last = (1 << BITS) - 1
    floors: list[int] = []
    with precision(BITS + 128):
        for ball in law.cumulatives():
            floor = _floor(ball, BITS)
            floors.append(law.floor_of(len(floors), BITS) if floor is None else floor)
            if floors[-1] == last:
                break
    thresholds = np.array(floors, dtype=np.uint64)
    leading = np.arange((1 << GUIDE) + 1, dtype=np.uint64) << np.uint64(BITS - GUIDE)
    guide = np.searchsorted(thresholds, leading, side="left").astype(np.int32)
    guide[-1] = len(thresholds) - 1
    for array in (thresholds, guide):
        array.flags.writeable = False
    return Table(thresholds=thresholds, guide=guide)


def exp_floor(gamma: Fraction, bits: int) -> int:
    """The whole number floor(2^bits exp(-gamma)), for gamma >= 0."""
    return 1 << bits if gamma == 0 else _raised(lambda: (-ball_of(gamma)).exp(), bits)


def floor_of_log(value: Fraction, *, times: Fraction, plus: Fraction) -> int:
    """The whole number floor(times log(value) + plus), for a value above 0.

    >>> floor_of_log(Fraction(4), times=Fraction(1), plus=Fraction(1, 2))        # log 4 = 1.386...
    1
    """
    if value == 1:
        return math.floor(plus)
    digits = 64
    while True:  # the logarithm is no fraction, so the ball leaves every whole number out some day
        digits *= 2
        with precision(digits):
            ball = ball_of(times) * ball_of(value).log() + ball_of(plus)
            low, high = ball.lower().floor().unique_fmpz(), ball.upper().floor().unique_fmpz()
        if low is not None and low == high:
            return int(low)


def _raised(number: Callable[[], Any], bits: int) -> int:
    """The floor of 2^bits times a number below 1, its ball computed with more digits until that is certain."""
    digits = bits + 64
    while True:
        with precision(digits):
            floor = _floor(number(), bits)
        if floor is not None:
            return floor
        digits *= 2


def ball_of(value: Fraction) -> Any:
    """A fraction as a ball, at the precision in force."""
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def _floor(ball: Any, bits: int) -> int | None:
    """The floor of 2^bits times a number below 1 that lies in a ball, if it is the same all over the ball."""
    scaled = ball * flint.arb(2) ** bits
    low, high = scaled.lower().floor().unique_fmpz(), scaled.upper().floor().unique_fmpz()
    if low is None or high is None:
        return None
    high = min(int(high), (1 << bits) - 1)  # the number is below 1, whatever its ball holds besides
    return high if low >= high else None


_one_at_a_time = threading.RLock()  # the precision is one setting for the whole process


@contextmanager
def precision(digits: int) -> Iterator[None]:
    """Work with so many binary digits, alone."""
    with _one_at_a_time:
        before, flint.ctx.prec = flint.ctx.prec, digits
        try:
            yield
        finally:
            flint.ctx.prec = before
