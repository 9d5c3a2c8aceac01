"""Residuals counted by value: there are many, they take few values, and every statistic follows from the counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil._compiled import compiled
from tallyveil.errors import InputError

_DENSE = 1 << 22  # residuals within a range up to this are counted in a table


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ValueCounts:
    """The distinct values of residuals in ascending order, and the number of residuals that have each."""

    value: Floats
    count: Integers

    @property
    def n(self) -> int:
        """Number of residuals."""
        return int(self.count.sum())

    @property
    def whole(self) -> bool:
        """Whether every residual is a whole number."""
        return bool((self.value == np.floor(self.value)).all())

    def mean(self, power: int = 1) -> float:
        """Mean of a power of the residuals."""
        return float(self.value**power @ self.count) / self.n

    def deviation(self) -> float:
        """Standard deviation of the residuals, denominator n - 1."""
        return math.sqrt(float((self.value - self.mean()) ** 2 @ self.count) / (self.n - 1))

    def absolute(self) -> ValueCounts:
        """The counts of the absolute values."""
        value, place = np.unique(np.abs(self.value), return_inverse=True)
        return ValueCounts(value=value, count=np.bincount(place, weights=self.count).astype(np.int64))

    def percentile(self, percent: float) -> float:
        """The same as ``np.percentile(residuals, percent)``, to the last bit.

        >>> value_counts([1, 2, 10]).percentile(75)
        6.0
        """
        last = self.n - 1
        place = percent / 100 * last
        below = min(int(place), last)
        ends = np.cumsum(self.count)
        low, high = (
            float(self.value[np.searchsorted(ends, rank, side="right")]) for rank in (below, min(below + 1, last))
        )
        part = place - below
        return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def value_counts(residuals: ArrayLike, *, zeros: int = 0) -> ValueCounts:
    """Count residuals by value, plus ``zeros`` residuals that are 0 and not listed.

    >>> counted = value_counts([3, -1, 3], zeros=2)
    >>> counted.value.tolist(), counted.count.tolist()
    ([-1.0, 0.0, 3.0], [1, 2, 2])
    """
    values = np.asarray(residuals)
    if values.ndim != 1 or values.dtype.kind not in "iufb":
        raise InputError(
            f"residuals must be one row of numbers. Got {values.ndim} dimensions of {values.dtype} instead."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        first = int(np.argmin(np.isfinite(values)))
        raise InputError(f"residual {first + 1:,} is {values[first]}. Residuals must be finite; leave the others out.")
    value, count = _count(values)
    if zeros:
        place = int(np.searchsorted(value, 0.0))
        if place == len(value) or value[place] != 0.0:
            value, count = np.insert(value, place, 0.0), np.insert(count, place, 0)
        count[place] += zeros
    return ValueCounts(value=value, count=count)


def merged_counts(parts: Sequence[ValueCounts]) -> ValueCounts:
    """The counts of several sets of residuals together."""
    value, place = np.unique(np.concatenate([part.value for part in parts]), return_inverse=True)
    count = np.zeros(len(value), dtype=np.int64)
    np.add.at(count, place, np.concatenate([part.count for part in parts]))
    return ValueCounts(value=value, count=count)


def _count(values: NDArray[Any]) -> tuple[Floats, Integers]:
    if values.dtype.kind == "f" and len(values) and (values == np.floor(values)).all() and np.abs(values).max() < 2**53:
        values = values.astype(np.int64)
    if values.dtype.kind in "iub" and len(values):
        numbers = values.astype(np.int64, copy=False)
        low, high = _extremes(numbers)
        if high - low < max(_DENSE, 2 * len(values)):
            table = _table(numbers, low, high - low + 1)
            occurring = np.flatnonzero(table)
            return (occurring + low).astype(np.float64), table[occurring]
        values = numbers
    value, count = np.unique(values, return_counts=True)
    return value.astype(np.float64), count.astype(np.int64)


@compiled
def _extremes(numbers):  # type: ignore[no-untyped-def]
    """Least and largest number, in one pass."""
    low, high = numbers[0], numbers[0]
    for number in numbers:
        low = min(low, number)
        high = max(high, number)
    return low, high


@compiled
def _table(numbers, low, size):  # type: ignore[no-untyped-def]
    """How often low, low + 1, ... occur. A short table has four lanes, so that equal neighbours do not wait."""
    lanes = 4 if size < 1 << 14 else 1
    tables = np.zeros((lanes, size), dtype=np.int64)
    for i in range(len(numbers)):
        tables[i & (lanes - 1), numbers[i] - low] += 1
    for lane in range(1, lanes):
        tables[0] += tables[lane]
    return tables[0]
