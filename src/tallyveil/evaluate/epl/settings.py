r"""Settings of the empirical privacy loss, and the smoothed curve that they define (petti2020, appendix)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal, final

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.evaluate.epl.smooth import log_density
from tallyveil.evaluate.value_counts import ValueCounts

Grid = Literal["midpoints", "integers"]
Tails = Literal["each", "both"]
ENOUGH = 100  # residuals: evaluations withhold the loss of fewer, whose largest ratio is mostly chance


@final
@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the empirical privacy loss is computed; the defaults are those of petti2020."""

    bandwidth: float = 0.1
    percentile: float = 95.0
    multiplier: float = 1.0
    grid: Grid = "midpoints"
    tails: Tails = "each"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in ("bandwidth", "percentile", "multiplier", "confidence"):
            object.__setattr__(self, name, as_number(name, getattr(self, name)))
        if not 0 < self.bandwidth < math.inf:
            raise InputError(f"bandwidth must be above 0. Got {self.bandwidth:g} instead.")
        if not 50 <= self.percentile <= 100:
            raise InputError(f"percentile must be from 50 to 100. Got {self.percentile:g} instead.")
        if not 0 < self.multiplier < math.inf:
            raise InputError(f"multiplier must be above 0. Got {self.multiplier:g} instead.")
        if self.grid not in ("midpoints", "integers"):
            raise InputError(f'grid must be "midpoints" or "integers". Got {self.grid!r} instead.')
        if self.tails not in ("each", "both"):
            raise InputError(f'tails must be "each" or "both". Got {self.tails!r} instead.')
        if not 0 < self.confidence < 1:
            raise InputError(f"confidence must be between 0 and 1. Got {self.confidence:g} instead.")


def smoothed(counted: ValueCounts, settings: Settings) -> tuple[Floats, Floats]:
    """The points of the search range, one apart, and the logarithm of the smoothed density at each."""
    points = _points(search_range(counted, settings), settings.grid)
    return points, log_density(counted, points, width=settings.bandwidth * counted.deviation())


def search_range(counted: ValueCounts, settings: Settings) -> float:
    """The largest distance from 0 at which ratios are computed."""
    if settings.tails == "both":
        return settings.multiplier * counted.absolute().percentile(settings.percentile)
    ends = (counted.percentile(100 - settings.percentile), counted.percentile(settings.percentile))
    return settings.multiplier * max(abs(end) for end in ends)


def as_number(name: str, value: object) -> float:
    """The value as a float; anything but a number is refused."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"{name} must be a number. Got {value!r} instead.")
    return float(value)


def _points(reach: float, grid: Grid) -> Floats:
    if grid == "integers":
        return np.arange(math.ceil(-reach), reach, 1.0)
    edges = np.arange(-reach, reach, 1.0)
    return (edges[1:] + edges[:-1]) / 2
