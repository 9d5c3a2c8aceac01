r"""Cumulative probabilities to any number of digits, with rigorous error bounds, and the tables made from them.

A *half law* is a distribution on 0, 1, 2, ... with weight f(0) at 0 and ``sides`` times f(m) at m > 0. With two sides
it is the law of the magnitude of a symmetric noise, with one side that of its upper half. Sampling needs the integer

.. math:: \lfloor 2^{bits} P[M \le m] \rfloor

It is computed in ball arithmetic (Arb, through python-flint). A ball is certain to contain the true value, and the
precision is increased until the floor is the same for the whole ball. No floating-point number is involved.
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

BITS = 63  # bits of the first word that determine the magnitude; the remaining bit is the sign
GUIDE = 12  # leading bits that narrow the search before it starts


@dataclass(frozen=True, kw_only=True)
class HalfLaw(ABC):
    """A distribution on 0, 1, 2, ... whose cumulative probabilities can be computed as balls."""

    sides: int

    @abstractmethod
    def cumulatives(self) -> Iterator[Any]:
        """Yield balls that contain P[M <= 0], P[M <= 1], ..., at the current precision."""

    @abstractmethod
    def cumulative(self, m: int) -> Any:
        """Return a ball that contains P[M <= m], at the current precision."""

    def floor_of(self, m: int, bits: int) -> int:
        """Return floor(2^bits P[M <= m])."""
        return _raised(lambda: self.cumulative(m), bits)


@final
@dataclass(frozen=True, kw_only=True)
class HalfGeometric(HalfLaw):
    """f(m) = r^m with r = exp(-z)."""

    z: Fraction

    def cumulatives(self) -> Iterator[Any]:
        """Yield 1 - sides r^(m+1) / (1 - r + sides r), with one multiplication per value."""
        r = (-ball_of(self.z)).exp()
        tail = self.sides * r / (1 - r + self.sides * r)
        while True:
            yield 1 - tail
            tail *= r

    def cumulative(self, m: int) -> Any:
        """Return the same for one m, directly."""
        r = (-ball_of(self.z)).exp()
        return 1 - self.sides * (-(m + 1) * ball_of(self.z)).exp() / (1 - r + self.sides * r)


@final
@dataclass(frozen=True, kw_only=True)
class HalfGaussian(HalfLaw):
    """f(m) = exp(-m^2 / 2s)."""

    s: Fraction

    def cumulatives(self) -> Iterator[Any]:
        """Yield the partial sums divided by the whole sum."""
        whole = _whole_sum(self, flint.ctx.prec)
        part = flint.arb(0)
        for m, f in self.weights():
            part += f if m == 0 else self.sides * f
            yield part / whole

    def cumulative(self, m: int) -> Any:
        """Return the same for one m, by summing up to it."""
        return next(islice(self.cumulatives(), m, None))

    def weights(self) -> Iterator[tuple[int, Any]]:
        """Yield m and f(m) for m = 0, 1, ...; f(m+1) / f(m) = q^(2m+1) with q = exp(-1/2s)."""
        q = (-1 / (2 * ball_of(self.s))).exp()
        f, ratio, step = flint.arb(1), q, q * q
        for m in count():
            yield m, f
            f *= ratio
            ratio *= step


@lru_cache(maxsize=64)
def _whole_sum(law: HalfGaussian, digits: int) -> Any:
    """Return the whole sum: terms until they are tiny; a geometric series bounds the rest and is the ball's radius."""
    q = (-1 / (2 * ball_of(law.s))).exp()
    tiny = flint.arb(2) ** -digits
    whole = flint.arb(0)
    for m, f in law.weights():
        if f < tiny:
            rest = law.sides * f / (1 - q ** (2 * m + 1))  # the ratios of later terms are even smaller
            return whole + flint.arb(0, rest)
        whole += f if m == 0 else law.sides * f
    raise AssertionError("unreachable: the weights vanish")


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The thresholds of a half law, among which a 63-bit word is searched.

    ``thresholds[m]`` is floor(2^63 P[M <= m]). A word below it and above the previous threshold means m. A word equal
    to a threshold needs more bits. The last threshold is 2^63 - 1, so values beyond the table need more bits too.
    ``guide[g]`` is the position of the first threshold that is not less than the smallest word with leading bits ``g``.
    """

    thresholds: NDArray[np.uint64]
    guide: NDArray[np.int32]


def entries_needed(law: HalfLaw) -> float:
    """Return the approximate number of thresholds in the table of a half law."""
    if isinstance(law, HalfGeometric):
        return 44 / float(law.z) + 2
    assert isinstance(law, HalfGaussian)
    return 9.3 * math.sqrt(law.s) + 2


@lru_cache(maxsize=256)
def table(law: HalfLaw) -> Table:
    """Return the table of a half law."""
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
    """Return floor(2^bits exp(-gamma)), for gamma >= 0."""
    return 1 << bits if gamma == 0 else _raised(lambda: (-ball_of(gamma)).exp(), bits)


def floor_of_log(value: Fraction, *, times: Fraction, plus: Fraction) -> int:
    """Return floor(times log(value) + plus), for a value above 0.

    >>> floor_of_log(Fraction(4), times=Fraction(1), plus=Fraction(1, 2))        # log 4 = 1.386...
    1
    """
    if value == 1:
        return math.floor(plus)
    digits = 64
    while True:  # the logarithm is irrational, so at some precision the ball contains no integer
        digits *= 2
        with precision(digits):
            ball = ball_of(times) * ball_of(value).log() + ball_of(plus)
            low, high = ball.lower().floor().unique_fmpz(), ball.upper().floor().unique_fmpz()
        if low is not None and low == high:
            return int(low)


def _raised(number: Callable[[], Any], bits: int) -> int:
    """Return the floor of 2^bits times a number below 1, with more digits until it is certain."""
    digits = bits + 64
    while True:
        with precision(digits):
            floor = _floor(number(), bits)
        if floor is not None:
            return floor
        digits *= 2


def ball_of(value: Fraction) -> Any:
    """Return a fraction as a ball, at the current precision."""
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def _floor(ball: Any, bits: int) -> int | None:
    """Return the floor of 2^bits times a number below 1, if it is the same for the whole ball."""
    scaled = ball * flint.arb(2) ** bits
    low, high = scaled.lower().floor().unique_fmpz(), scaled.upper().floor().unique_fmpz()
    if low is None or high is None:
        return None
    high = min(int(high), (1 << bits) - 1)  # the number is below 1, even if its ball extends beyond
    return high if low >= high else None


_precision_lock = threading.RLock()  # the precision is one setting for the whole process


@contextmanager
def precision(digits: int) -> Iterator[None]:
    """Set the precision to this many binary digits, for one thread at a time."""
    with _precision_lock:
        before, flint.ctx.prec = flint.ctx.prec, digits
        try:
            yield
        finally:
            flint.ctx.prec = before
