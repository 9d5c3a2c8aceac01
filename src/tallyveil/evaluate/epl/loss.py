r"""Empirical privacy loss: how much the distribution of residuals changes when a true count changes by one.

If the error of all areas has one distribution p, a person more or less in an area shifts it by one, and an observer's
evidence is log p(x)/p(x+1). Flaxman (flaxman2019) and Petti & Flaxman (petti2020, appendix) estimate p from the
residuals of all areas, smoothed, and take the largest value as the empirical privacy loss. It is **not** a bound on
epsilon: it looks at one count of one area at a time, and assumes that areas are exchangeable
(:mod:`tallyveil.evaluate.epl.exchangeable`). And it is noisy, so here it comes with

- a band for the curve and a maximum without its upward bias (:mod:`tallyveil.evaluate.epl.band`),
- an interval for the largest log ratio before smoothing (:mod:`tallyveil.evaluate.epl.interval`),
- the median over the search range, which a few noisy points do not move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Literal, final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.epl.band import band
from tallyveil.evaluate.epl.clusters import ClusteredResiduals, with_clusters
from tallyveil.evaluate.epl.interval import Interval, interval
from tallyveil.evaluate.epl.smooth import log_density
from tallyveil.evaluate.residuals import Residuals
from tallyveil.evaluate.value_counts import ValueCounts, value_counts
from tallyveil.privacy.noise import Geometric
from tallyveil.privacy.strategy import Strategy

Grid = Literal["midpoints", "integers"]
Tails = Literal["each", "both"]

NOTE = (
    "Not a bound on epsilon: it looks at one count at a time, and takes the errors of all areas as draws of one "
    "distribution."
)
_POINTS = 1_000_000


@final
@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the empirical privacy loss is computed; the defaults are petti2020's."""

    bandwidth: float = 0.1
    percentile: float = 95.0
    multiplier: float = 1.0
    grid: Grid = "midpoints"
    tails: Tails = "each"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in ("bandwidth", "percentile", "multiplier", "confidence"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
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


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class EmpiricalLoss:
    r"""Empirical privacy loss of residuals.

    Attributes
    ----------
    epl
        The authors' figure: the largest \|log p(x)/p(x+1)\| of the smoothed density over the search range.
    median
        The median of the same over the range.
    epl_low, epl_high
        Interval for the largest \|log P(x)/P(x+1)\| of the residuals' distribution itself over the search range: z
        for G(z). ``epl`` may lie outside it. ``epl_high`` is None where the residuals do not bound it.
    corrected
        The smoothed curve's largest value without the upward bias of a noisy maximum; None where residuals are too few
        (``note`` says so then).
    n, search_range
        How many residuals, and how far from 0 ratios are looked at.
    undefined
        Why there is no ``epl``; None where there is one.
    theory
        The value that the mechanism has, where it was given.
    curve
        Frame with ``x``, ``epl`` (signed), and the band ``low`` to ``high`` that holds the whole curve of the smoothed
        distribution with the stated confidence; missing where ``corrected`` is None.
    """

    n: int
    settings: Settings
    epl: float | None = None
    median: float | None = None
    epl_low: float | None = None
    epl_high: float | None = None
    corrected: float | None = None
    search_range: float | None = None
    undefined: str | None = None
    theory: float | None = None
    note: str = NOTE
    curve: pd.DataFrame = field(default_factory=lambda: _no_curve(), repr=False)

    def as_json(self) -> Mapping[str, Any]:
        """The figures by name, without the curve."""
        names = ("epl", "median", "epl_low", "epl_high", "n", "corrected", "theory", "search_range")
        return {
            **{name: getattr(self, name) for name in names},
            "undefined": self.undefined,
            "note": self.note,
            "settings": asdict(self.settings),
        }


def epl(
    residuals: Residuals | ArrayLike,
    *,
    bandwidth: float = 0.1,
    percentile: float = 95.0,
    multiplier: float = 1.0,
    grid: Grid = "midpoints",
    tails: Tails = "each",
    confidence: float = 0.95,
    clusters: ArrayLike | None = None,
    theory: float | None = None,
    seed: int = 0,
) -> EmpiricalLoss:
    r"""Empirical privacy loss of residuals (petti2020, appendix).

    Parameters
    ----------
    residuals
        From :func:`tallyveil.evaluate.residuals.residuals`, or numbers: released minus true.
    bandwidth
        The kernel's standard deviation, as a factor of the residuals' (scipy's ``bw_method``).
    percentile, multiplier
        Ratios are looked at between -b and b, with b = multiplier times the larger of \|100 - percentile\| and
        \|percentile\|, percentiles of the residuals.
    grid
        ``"midpoints"`` of arange(-b, b, 1), as in petti2020; ``"integers"``: the whole numbers from -b to below b,
        which is arange(-b, b, 1) itself where b is whole.
    tails
        ``"each"``: percentiles as above; ``"both"``: b = multiplier times the percentile of \|residual\|
        (flaxman2019).
    confidence
        Of the interval, and of the band.
    clusters
        For each residual the group within which errors depend on each other; Residuals know theirs (one parent, one
        replicate), also of those that are 0. Without it, or with one cluster, residuals are taken as independent.
    theory
        The value to compare with, such as z for G(z); kept beside the result.
    seed
        Of the draws that set the band's width.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> z = 0.125
    >>> noise = rng.geometric(-np.expm1(-z), 2663) - rng.geometric(-np.expm1(-z), 2663)
    >>> loss = epl(noise, theory=z)
    >>> loss.epl > z, loss.epl_low < z < loss.epl_high
    (True, True)
    >>> epl([0, 0, 0]).undefined
    'all 3 residuals are 0: an invariant has no distribution of errors'
    """
    settings = Settings(
        bandwidth=bandwidth, percentile=percentile, multiplier=multiplier, grid=grid, tails=tails, confidence=confidence
    )
    if theory is not None and not 0 <= _number("theory", theory) < math.inf:
        raise InputError(f"theory must be a log ratio, 0 or more. Got {theory} instead.")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number, 0 or more. Got {seed!r} instead.")
    given = with_clusters(residuals, clusters)
    counted = value_counts(given.value, zeros=given.zeros)
    loss = EmpiricalLoss(n=counted.n, settings=settings, theory=None if theory is None else float(theory))
    loss = _noted(loss, given.remark)
    if counted.n < 2:
        return replace(loss, undefined=f"{counted.n} residual{'s' * (counted.n != 1)}: a distribution needs 2 or more")
    if len(counted.value) == 1:
        all_of_them = f"all {counted.n:,} residuals are {counted.value[0]:g}"
        return replace(loss, undefined=f"{all_of_them}: an invariant has no distribution of errors")
    reach = _search_range(counted, settings)
    loss = replace(loss, search_range=reach)
    within = f"the search range is {0.0 - reach:,.6g} to {reach:,.6g}"
    if 2 * reach > _POINTS:
        return replace(loss, undefined=f"{within}: more than {_POINTS:,} points, one person apart")
    loss = _with_interval(loss, _unsmoothed(given, counted, reach, settings.confidence), whole=counted.whole)
    points, log_p = smoothed(counted, settings)
    if len(points) < 2:
        return replace(loss, undefined=f"{within}: too short for one ratio")
    ratio = log_p[:-1] - log_p[1:]
    around = band(
        counted,
        points,
        log_p,
        width=settings.bandwidth * counted.deviation(),
        confidence=settings.confidence,
        seed=int(seed),
        clusters=None if given.clusters is None else (given.value, given.clusters),
    )
    few = around.too_few()
    half = np.full(len(ratio), np.nan) if few else around.half
    return replace(
        _noted(loss, f"No band and no corrected maximum: {few}." if few else None),
        epl=float(np.abs(ratio).max()),
        median=float(np.median(np.abs(ratio))),
        corrected=None if few else around.corrected,
        curve=pd.DataFrame({"x": points[:-1], "epl": ratio, "low": ratio - half, "high": ratio + half}),
    )


def smoothed(counted: ValueCounts, settings: Settings) -> tuple[Floats, Floats]:
    """The points of the search range, one apart, and the logarithm of the smoothed density at each."""
    points = _points(_search_range(counted, settings), settings.grid)
    return points, log_density(counted, points, width=settings.bandwidth * counted.deviation())


def frequencies(residuals: Residuals | ArrayLike) -> pd.DataFrame:
    """Raw ratios of frequencies (flaxman2019): for each whole residual k that occurs, log p(k)/p(k+1), and the tails'.

    Columns ``k``, ``count``, ``log_ratio`` = log p(k)/p(k+1), ``log_tail_ratio`` = log P(>=k)/P(>=k+1); missing where
    no residual is k + 1, or none is larger.

    >>> frequencies([-1, 0, 0, 1, 3]).round(2)
       k  count  log_ratio  log_tail_ratio
    0 -1      1      -0.69            0.22
    1  0      2       0.69            0.69
    2  1      1        NaN            0.69
    3  3      1        NaN             NaN
    """
    given = with_clusters(residuals)
    counted = value_counts(given.value, zeros=given.zeros)
    if not counted.whole:
        raise InputError("frequencies need whole residuals. For fractional ones use epl(...), which smooths them.")
    k, count = counted.value.astype(np.int64), counted.count
    tail = np.cumsum(count[::-1])[::-1]  # residuals of k or more; the next value that occurs has P(>= k + 1)
    log_ratio, log_tail = np.full(len(k), np.nan), np.full(len(k), np.nan)
    next_to = np.flatnonzero(np.diff(k) == 1)
    log_ratio[next_to] = np.log(count[next_to] / count[next_to + 1])
    log_tail[:-1] = np.log(tail[:-1] / tail[1:])
    return pd.DataFrame({"k": k, "count": count, "log_ratio": log_ratio, "log_tail_ratio": log_tail})


def theory_of(strategy: Strategy | None, residuals: Residuals) -> float | None:
    """z, where the residuals' query is measured at their level with G(z); None where it is not.

    What follows the measurement (consistency, rounding) changes the residuals' distribution: a value to compare with.
    """
    if strategy is None or residuals.query not in strategy.queries.get(residuals.level, {}):
        return None
    noise = strategy.noise(residuals.level, residuals.query)
    return float(noise.z) if isinstance(noise, Geometric) else None


def _number(name: str, value: object) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"{name} must be a number. Got {value!r} instead.")
    return float(value)


def _noted(loss: EmpiricalLoss, *remarks: str | None) -> EmpiricalLoss:
    return replace(loss, note=" ".join([loss.note, *(remark for remark in remarks if remark)]))


def _with_interval(loss: EmpiricalLoss, found: Interval | None, *, whole: bool) -> EmpiricalLoss:
    """The loss with its interval, and in the note what must be known about it."""
    if found is None:
        return loss
    unbounded = None
    if found.high is None and found.empty is None:
        unbounded = "Residuals come in too few clusters to bound the ratio before smoothing from above."
    elif found.high is None:
        where = f"no residual is {found.empty:,}, which lies in the search range"
        unbounded = f"The ratio before smoothing has no upper bound: {where}."
    rounded = None if whole else "The interval is for residuals rounded to whole numbers."
    return _noted(replace(loss, epl_low=found.low, epl_high=found.high), rounded, unbounded)


def _no_curve() -> pd.DataFrame:
    return pd.DataFrame({name: np.zeros(0) for name in ("x", "epl", "low", "high")})


def _search_range(counted: ValueCounts, settings: Settings) -> float:
    if settings.tails == "both":
        return settings.multiplier * counted.absolute().percentile(settings.percentile)
    ends = (counted.percentile(100 - settings.percentile), counted.percentile(settings.percentile))
    return settings.multiplier * max(abs(end) for end in ends)


def _points(reach: float, grid: Grid) -> Floats:
    if grid == "integers":
        return np.arange(math.ceil(-reach), reach, 1.0)
    edges = np.arange(-reach, reach, 1.0)
    return (edges[1:] + edges[:-1]) / 2


def _unsmoothed(given: ClusteredResiduals, counted: ValueCounts, reach: float, confidence: float) -> Interval | None:
    """The interval over the whole numbers from -reach to reach; fractional residuals are rounded to the nearest."""
    first, last = math.ceil(-reach), math.floor(reach)
    if last - first < 1:
        return None
    size = last - first + 1
    place = _places(counted.value, first, last)
    count = np.bincount(place[place >= 0], weights=counted.count[place >= 0], minlength=size).astype(np.int64)
    clustered = None
    if given.clusters is not None:
        clustered = given.clusters.table(_places(given.value, first, last), size, zero=-first)
    return interval(count, first=first, confidence=confidence, clustered=clustered)


def _places(value: NDArray[Any], first: int, last: int) -> Integers:
    """Which whole number from first to last each value is nearest to, counted from first; -1 where none is."""
    nearest = value if value.dtype.kind in "iu" else np.floor(value + 0.5)
    return np.where((nearest >= first) & (nearest <= last), nearest - first, -1).astype(np.int64)
