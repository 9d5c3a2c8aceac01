"""Figures that are known jointly: shares, ratios, differences and ranks with intervals, and simultaneous intervals.

Parts of one table are correlated (they were pulled to the same totals), so intervals of functions of several figures
need their covariance. Smooth functions use the delta method; ``draws`` simulates the joint normal distribution, for
ranks and simultaneous intervals, and as a check where a denominator is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from tallyveil._arrays import Floats
from tallyveil.blue.intervals import normal_quantile
from tallyveil.errors import InputError

DRAWS = 20_000


@final
@dataclass(frozen=True, kw_only=True)
class Derived:
    """A figure derived from others: its estimate, standard deviation and interval."""

    estimate: float
    sd: float
    low: float
    high: float


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Joint:
    """Estimates with their covariance. Figures are named by their positions; several positions mean their sum.

    >>> figures = Joint(estimate=[30.0, 70.0], covariance=[[9.0, -4.0], [-4.0, 16.0]], confidence=0.9)
    >>> share = figures.share([0], [0, 1])
    >>> round(share.estimate, 3), round(share.sd, 4)
    (0.3, 0.0274)
    """

    estimate: Floats
    covariance: Floats
    confidence: float = 0.9

    def __post_init__(self) -> None:
        for name in ("estimate", "covariance"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        size = len(self.estimate)
        if self.estimate.shape != (size,) or self.covariance.shape != (size, size):
            raise InputError(
                f"{size:,} estimates with covariances of shape {self.covariance.shape}. Give one row and column each."
            )

    @property
    def sd(self) -> Floats:
        """The standard deviations."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def sum(self, part: ArrayLike) -> Derived:
        """The sum of some figures."""
        return self._linear(self._weights(part))

    def difference(self, one: ArrayLike, other: ArrayLike) -> Derived:
        """One sum of figures minus another."""
        return self._linear(self._weights(one) - self._weights(other))

    def share(self, part: ArrayLike, whole: ArrayLike) -> Derived:
        """A part as a share of a whole that contains it, cut at 0 and 1 (delta method)."""
        found = self._ratio(part, whole)
        low, high = (min(max(limit, 0.0), 1.0) for limit in (found.low, found.high))
        return Derived(estimate=found.estimate, sd=found.sd, low=low, high=high)

    def ratio(self, one: ArrayLike, other: ArrayLike, *, per: float = 1.0) -> Derived:
        """One sum of figures per ``per`` of another, cut at 0 (delta method)."""
        found = self._ratio(one, other)
        return Derived(
            estimate=per * found.estimate,
            sd=per * found.sd,
            low=per * max(found.low, 0.0),
            high=per * max(found.high, 0.0),
        )

    def simulated_ratio(self, one: ArrayLike, other: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> Derived:
        """The ratio with an interval from draws of the joint distribution, which need not be symmetric."""
        drawn = self.draws(draws, seed=seed)
        ratio = (drawn @ self._weights(one)) / (drawn @ self._weights(other))
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(ratio, [tail, 1 - tail])
        plain = self._ratio(one, other)
        return Derived(estimate=plain.estimate, sd=float(ratio.std()), low=float(low), high=float(high))

    def ranks(self, *, draws: int = DRAWS, seed: int = 0) -> tuple[Floats, Floats]:
        """The interval of each figure's rank (1 is the largest).

        A figure ranks below those that are certainly larger and above those that are certainly smaller. Its differences
        from all others are judged together, by draws of the joint distribution (Mogstad, Romano, Shaikh & Wilhelm 2024,
        marginal confidence sets). Ranks of the draws themselves would be too sure where figures are close.

        >>> Joint(estimate=[9.0, 50.0, 10.0], covariance=[[4.0, 0, 0], [0, 4.0, 0], [0, 0, 4.0]]).ranks()
        (array([2., 1., 2.]), array([3., 1., 3.]))
        """
        errors = self.draws(draws, seed=seed) - self.estimate
        variance = np.diag(self.covariance)
        low, high = (np.empty(len(self.estimate)) for _ in range(2))
        for one in range(len(self.estimate)):
            sd = np.sqrt(np.maximum(variance + variance[one] - 2 * self.covariance[one], 0.0))
            open_ = np.flatnonzero(sd > 1e-9 * sd.max(initial=1e-300))
            times = 0.0
            if len(open_):
                apart = np.abs(errors[:, open_] - errors[:, [one]]) / sd[open_]
                times = float(np.quantile(apart.max(axis=1), self.confidence))
            larger = self.estimate - self.estimate[one]
            low[one] = 1 + np.count_nonzero(larger > times * sd)
            high[one] = len(larger) - np.count_nonzero(-larger > times * sd)
        return low, high

    def simultaneous(self, *, draws: int = DRAWS, seed: int = 0) -> tuple[Floats, Floats]:
        """Intervals that contain all true counts together with the stated confidence (largest standardised error)."""
        known = self.sd > 0
        if not known.any():
            return self.estimate.copy(), self.estimate.copy()
        errors = np.abs(self.draws(draws, seed=seed) - self.estimate)[:, known] / self.sd[known]
        times = float(np.quantile(errors.max(axis=1), self.confidence))
        return np.maximum(self.estimate - times * self.sd, 0.0), np.maximum(self.estimate + times * self.sd, 0.0)

    def draws(self, number: int, *, seed: int = 0) -> Floats:
        """Draws of the joint normal distribution around the estimates: draws x figures."""
        standard = np.random.default_rng(seed).standard_normal((number, len(self.estimate)))
        out: Floats = self.estimate + standard @ self._root.T
        return out

    @cached_property
    def _root(self) -> Floats:
        """A square root of the covariance, which may be singular."""
        values, vectors = np.linalg.eigh(self.covariance)
        root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
        return root

    def _weights(self, part: ArrayLike) -> Floats:
        places = np.atleast_1d(np.asarray(part))
        weights = np.zeros(len(self.estimate))
        if places.dtype == np.bool_ and places.shape == weights.shape:
            places = np.flatnonzero(places)
        if places.dtype.kind not in "iu" or not len(places) or places.min() < 0 or places.max() >= len(weights):
            raise InputError(
                f"figures are named by positions from 0 to {len(weights) - 1}, or by a true/false for each. "
                f"Got {np.asarray(part).tolist()!r}."
            )
        np.add.at(weights, places, 1.0)
        return weights

    def _linear(self, weights: Floats) -> Derived:
        sd = math.sqrt(max(float(weights @ self.covariance @ weights), 0.0))
        return self._interval(float(weights @ self.estimate), sd)

    def _ratio(self, one: ArrayLike, other: ArrayLike) -> Derived:
        top, bottom = self._weights(one), self._weights(other)
        whole = float(bottom @ self.estimate)
        if whole == 0:
            raise InputError("the denominator is estimated as 0, so there is no ratio. Choose another.")
        ratio = float(top @ self.estimate) / whole
        gradient = (top - ratio * bottom) / whole
        return self._interval(ratio, math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0)))

    def _interval(self, estimate: float, sd: float) -> Derived:
        half = normal_quantile(self.confidence) * sd
        return Derived(estimate=estimate, sd=sd, low=estimate - half, high=estimate + half)
