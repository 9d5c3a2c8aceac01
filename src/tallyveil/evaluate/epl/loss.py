r"""Empirical privacy loss: how much the distribution of residuals changes when a true count changes by one.

If the errors of all areas have one distribution p, adding a person to an area shifts it by one, and an observer's
evidence is log p(x)/p(x+1). Flaxman (flaxman2019) and Petti & Flaxman (petti2020, appendix) estimate p by smoothing the
residuals of all areas, and call the largest value the empirical privacy loss. It is **not** a bound on epsilon: it
considers one count of one area at a time, and assumes that areas are exchangeable
(:mod:`tallyveil.evaluate.epl.exchangeable`). It is also a noisy estimate, so it is reported together with

- a band for the curve, and a maximum corrected for its upward bias (:mod:`tallyveil.evaluate.epl.band`),
- an interval for the largest log ratio before smoothing (:mod:`tallyveil.evaluate.epl.interval`),
- the median over the search range, which a few noisy points do not move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.epl.band import band
from tallyveil.evaluate.epl.clusters import ClusteredResiduals, with_clusters
from tallyveil.evaluate.epl.interval import RatioInterval, interval
from tallyveil.evaluate.epl.settings import Grid, Settings, Tails, as_number, search_range, smoothed
from tallyveil.evaluate.residuals import Residuals
from tallyveil.evaluate.value_counts import ValueCounts, value_counts
from tallyveil.privacy.noise import Geometric
from tallyveil.privacy.strategy import Strategy

NOTE = (
    "Not a bound on epsilon: it considers one count at a time, and treats the errors of all areas as draws from one "
    "distribution."
)
CURVE = ["x", "epl", "low", "high"]
_POINTS = 1_000_000  # at most so many points of the search range


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class EmpiricalLoss:
    r"""Empirical privacy loss of residuals.

    Attributes
    ----------
    epl
        The figure of the papers: the largest \|log p(x)/p(x+1)\| of the smoothed density over the search range.
    median
        The median over the search range.
    epl_low, epl_high
        Interval for the largest \|log P(x)/P(x+1)\| over the search range before smoothing, which is z for G(z).
        ``epl`` may lie outside it. ``epl_high`` is None where the residuals do not bound the ratio from above.
    corrected
        The largest value of the smoothed curve, corrected for the upward bias of a noisy maximum; None where there are
        too few residuals, which ``note`` explains.
    n, search_range
        Number of residuals, and the largest distance from 0 at which ratios are computed.
    undefined
        The reason why there is no ``epl``; None where there is one.
    theory
        The theoretical value of the mechanism, if given.
    curve
        Frame with ``x``, ``epl`` (signed), and the band from ``low`` to ``high`` that contains the whole curve of the
        smoothed distribution with the stated confidence. The band is missing where ``corrected`` is None.
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
    curve: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(np.zeros((0, 4)), columns=CURVE), repr=False)

    @property
    def tells(self) -> bool:
        """Whether the residuals bound the loss from above: by a corrected maximum, or by an interval with two ends."""
        return self.corrected is not None or self.epl_high is not None

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
    fewest: int = 2,
    seed: int = 0,
    with_band: bool = True,
) -> EmpiricalLoss:
    r"""Empirical privacy loss of residuals (petti2020, appendix).

    Parameters
    ----------
    residuals
        From :func:`tallyveil.evaluate.residuals.residuals`, or an array of numbers: released minus true.
    bandwidth
        Standard deviation of the kernel, as a factor of that of the residuals (scipy's ``bw_method``).
    percentile, multiplier
        Ratios are computed between -b and b, where b is the multiplier times the larger absolute value of two
        percentiles of the residuals: ``percentile`` and 100 - ``percentile``.
    grid
        ``"midpoints"`` of arange(-b, b, 1), as in petti2020, or ``"integers"``: the whole numbers from -b to below b.
    tails
        ``"each"``: percentiles as above. ``"both"``: b is the multiplier times the percentile of \|residual\|
        (flaxman2019).
    confidence
        Confidence level of the interval and of the band.
    clusters
        For each residual, the group within which errors are dependent. The default for Residuals is (replicate,
        parent). Otherwise, or with a single cluster, residuals are treated as independent.
    theory
        Theoretical value, such as z for G(z); it is stored with the result.
    fewest
        Number of residuals below which the loss is undefined. The largest ratio of a few residuals says little.
    seed
        Seed of the draws that set the width of the band.
    with_band
        False leaves out the band and ``corrected``, which take most of the time.

    Examples
    --------
    >>> epl([0, 0, 0]).undefined
    'all 3 residuals are 0: an invariant has no distribution of errors'
    """
    settings = Settings(
        bandwidth=bandwidth, percentile=percentile, multiplier=multiplier, grid=grid, tails=tails, confidence=confidence
    )
    _check(theory, seed)
    sample = with_clusters(residuals, clusters)
    counted = value_counts(sample.value, zeros=sample.zeros)
    loss = EmpiricalLoss(n=counted.n, settings=settings, theory=None if theory is None else float(theory))
    if counted.n < max(fewest, 2):
        few = f"{counted.n} residual{'s' * (counted.n != 1)}"
        return replace(loss, undefined=f"{few}: a distribution needs {max(fewest, 2)} or more")
    return _estimated(_noted(loss, sample.remark), sample, counted, seed=int(seed) if with_band else None)


def _estimated(
    loss: EmpiricalLoss, sample: ClusteredResiduals, counted: ValueCounts, *, seed: int | None
) -> EmpiricalLoss:
    """The loss with its search range, interval and curve, or with the reason why it is undefined."""
    if len(counted.value) == 1:
        all_of_them = f"all {counted.n:,} residuals are {counted.value[0]:g}"
        return replace(loss, undefined=f"{all_of_them}: an invariant has no distribution of errors")
    reach = search_range(counted, loss.settings)
    loss = replace(loss, search_range=reach)
    within = f"the search range is {0.0 - reach:,.6g} to {reach:,.6g}"
    if 2 * reach > _POINTS:
        return replace(loss, undefined=f"{within}: more than {_POINTS:,} points, one person apart")
    unsmoothed = _unsmoothed(sample, counted, reach, loss.settings.confidence)
    loss = _with_interval(loss, unsmoothed, whole=counted.whole)
    points, log_p = smoothed(counted, loss.settings)
    if len(points) < 2:
        return replace(loss, undefined=f"{within}: too short for one ratio")
    ratio = log_p[:-1] - log_p[1:]
    loss = replace(
        loss,
        epl=float(np.abs(ratio).max()),
        median=float(np.median(np.abs(ratio))),
        curve=pd.DataFrame({"x": points[:-1], "epl": ratio, "low": np.nan, "high": np.nan}),
    )
    return loss if seed is None else _with_band(loss, sample, counted, points, log_p, seed=seed)


def _with_band(
    loss: EmpiricalLoss, sample: ClusteredResiduals, counted: ValueCounts, points: Floats, log_p: Floats, *, seed: int
) -> EmpiricalLoss:
    """The loss with the band of its curve and the corrected maximum, or with the reason why there is neither."""
    around = band(
        counted,
        points,
        log_p,
        width=loss.settings.bandwidth * counted.deviation(),
        confidence=loss.settings.confidence,
        seed=seed,
        clusters=None if sample.clusters is None else (sample.value, sample.clusters),
    )
    if few := around.too_few():
        return _noted(loss, f"No band and no corrected maximum: {few}.")
    curve = loss.curve.assign(low=loss.curve.epl - around.half, high=loss.curve.epl + around.half)
    return replace(loss, corrected=around.corrected, curve=curve)


def theory_of(strategy: Strategy | None, residuals: Residuals) -> float | None:
    """z, if the query of the residuals is measured at their level with G(z); otherwise None.

    Consistency and rounding change the distribution of the residuals, so this is only a value to compare with.
    """
    if strategy is None or residuals.query not in strategy.queries.get(residuals.level, {}):
        return None
    noise = strategy.noise(residuals.level, residuals.query)
    return float(noise.z) if isinstance(noise, Geometric) else None


def _check(theory: float | None, seed: int) -> None:
    if theory is not None and not 0 <= as_number("theory", theory) < math.inf:
        raise InputError(f"theory must be a log ratio, 0 or more. Got {theory} instead.")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number, 0 or more. Got {seed!r} instead.")


def _noted(loss: EmpiricalLoss, *remarks: str | None) -> EmpiricalLoss:
    return replace(loss, note=" ".join([loss.note, *(remark for remark in remarks if remark)]))


def _with_interval(loss: EmpiricalLoss, ends: RatioInterval | None, *, whole: bool) -> EmpiricalLoss:
    """The loss with its interval, and its limitations in the note."""
    if ends is None:
        return loss
    unbounded = None
    if ends.high is None and ends.empty is None:
        unbounded = "There are too few clusters of residuals to bound the ratio before smoothing from above."
    elif ends.high is None:
        where = f"no residual is {ends.empty:,}, which lies in the search range"
        unbounded = f"The ratio before smoothing has no upper bound: {where}."
    rounded = None if whole else "The interval is for residuals rounded to whole numbers."
    return _noted(replace(loss, epl_low=ends.low, epl_high=ends.high), rounded, unbounded)


def _unsmoothed(
    sample: ClusteredResiduals, counted: ValueCounts, reach: float, confidence: float
) -> RatioInterval | None:
    """The interval over the whole numbers from -reach to reach; fractional residuals are rounded to the nearest."""
    first, last = math.ceil(-reach), math.floor(reach)
    if last - first < 1:
        return None
    size = last - first + 1
    place = _places(counted.value, first, last)
    count = np.bincount(place[place >= 0], weights=counted.count[place >= 0], minlength=size).astype(np.int64)
    clustered = None
    if sample.clusters is not None:
        clustered = sample.clusters.table(_places(sample.value, first, last), size, zero=-first)
    return interval(count, first=first, confidence=confidence, clustered=clustered)


def _places(value: NDArray[Any], first: int, last: int) -> Integers:
    """The whole number nearest to each value, counted from ``first``; -1 where it is not between first and last."""
    nearest = value if value.dtype.kind in "iu" else np.floor(value + 0.5)
    return np.where((nearest >= first) & (nearest <= last), nearest - first, -1).astype(np.int64)
