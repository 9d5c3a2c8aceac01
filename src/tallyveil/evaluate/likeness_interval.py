"""How well a release determines the sample that it is like: units and samples drawn again.

The nearest sampling fraction is itself an estimate. It would differ if other units of the same kind had been compared
and if other samples had been drawn. Both are repeated: groups of units (siblings, whose errors depend on each other)
are drawn with replacement, the same ones for the release and for its samples, and each draw uses one of several
samples. A largest log ratio estimated from fewer distinct residuals is larger, but equally so on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse import csr_matrix

from tallyveil._arrays import Floats, Integers
from tallyveil.evaluate.epl.settings import Settings, smoothed
from tallyveil.evaluate.residuals import Residuals
from tallyveil.evaluate.value_counts import ValueCounts

DRAWS = 200
CONFIDENCE = 0.9
FEWEST = 20  # groups of units; fewer do not show how much the answer varies
SMALLEST = 0.5  # persons: smaller median errors are replaced by this before taking logarithms

Profile = Mapping[str, Any]  # median_abs and epl


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedResiduals:
    """Residuals counted by group of units and value, so that any choice of groups is counted quickly."""

    value: Floats
    count: csr_matrix  # groups x values

    @classmethod
    def of(cls, compared: Residuals) -> GroupedResiduals:
        """Count the residuals of each group: the units of one parent, or each unit where there are few parents."""
        parents = int(compared.parent.max(initial=-1)) + 1
        group = compared.parent if parents >= FEWEST else np.arange(compared.units)
        value, place = np.unique(compared.value, return_inverse=True)
        entries = (np.ones(len(place)), (group[compared.unit], place.reshape(-1)))
        shape = (int(group.max(initial=-1)) + 1, len(value))
        return cls(value=value.astype(np.float64), count=csr_matrix(entries, shape=shape))

    @property
    def groups(self) -> int:
        """The number of groups of units."""
        return int(self.count.shape[0])

    def counted(self, weight: Integers) -> ValueCounts:
        """The residuals by value, each group as often as its weight says."""
        count = np.asarray(weight @ self.count).reshape(-1).astype(np.int64)
        return ValueCounts(value=self.value[count > 0], count=count[count > 0])


def nearest_interval(
    release: Residuals, samples: Mapping[float, Sequence[Residuals]], *, seed: int, draws: int = DRAWS
) -> tuple[float, float] | tuple[None, None]:
    """A 90% interval for the sampling fraction nearest to a release; (None, None) if there are too few groups of units.

    ``samples`` has the residuals of several samples of each fraction.
    """
    own = GroupedResiduals.of(release)
    if own.groups < FEWEST:
        return None, None
    drawn = {fraction: [GroupedResiduals.of(each) for each in some] for fraction, some in samples.items()}
    rng = np.random.default_rng(seed)
    nearest = []
    for _ in range(draws):
        weight = np.bincount(rng.integers(own.groups, size=own.groups), minlength=own.groups)
        mine = _profile(own.counted(weight))
        apart = {}
        for fraction, some in drawn.items():
            away = distance(mine, _profile(some[int(rng.integers(len(some)))].counted(weight)))
            if away is not None:
                apart[fraction] = away
        if apart:
            nearest.append(min(apart, key=lambda fraction: apart[fraction]))
    if not nearest:
        return None, None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(nearest, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


def distance(one: Profile, other: Profile) -> float | None:
    """The distance of two profiles: the hypotenuse of the log ratios; None where a loss is undefined.

    >>> round(distance({"median_abs": 6, "epl": 0.164}, {"median_abs": 5, "epl": 0.15}), 3)    # epsilon 1 and 50%
    0.203
    """
    if not one["epl"] or not other["epl"]:
        return None
    error = math.log(max(one["median_abs"], SMALLEST) / max(other["median_abs"], SMALLEST))
    return math.hypot(error, math.log(one["epl"] / other["epl"]))


def _profile(counted: ValueCounts) -> Profile:
    """Median absolute error and largest log ratio, without the band that a single loss comes with."""
    if counted.n < 2 or len(counted.value) < 2:
        return {"median_abs": 0.0, "epl": None}
    _, log_p = smoothed(counted, Settings())
    ratio = np.abs(np.diff(log_p))
    return {"median_abs": counted.absolute().percentile(50), "epl": float(ratio.max()) if len(ratio) else None}
