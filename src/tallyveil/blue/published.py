r"""Margins of published counts from the unbiased estimates beside them.

The error of the best linear unbiased estimate is uncorrelated with the difference between it and any other unbiased
linear estimate. Given the published count p and the estimate e with standard deviation s, the true count t is therefore
close to normal around e, wherever p lies, and t is not negative. The margin is the smallest whole number m with

.. math:: P(|t - p| \le m \mid t \ge 0) \ge 0.9, \qquad t \sim N(e, s^2).

Published counts near zero are pulled up by the rule that no count is negative; their distance from e shows it, and the
margin grows with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from tallyveil._arrays import Floats, Integers
from tallyveil._frozen import Frozen
from tallyveil.blue.estimate import measurements_of, of_leaf_places, owners, queries_by_level
from tallyveil.blue.information import information_words
from tallyveil.blue.intervals import EXACT, normal_quantile
from tallyveil.blue.parts import level_answers
from tallyveil.blue.pose import pose
from tallyveil.blue.problem import Problem
from tallyveil.errors import InputError
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.schema import Query
from tallyveil.release.measurements import Measurements
from tallyveil.release.release import Release

if TYPE_CHECKING:
    import pandas as pd

AREA = "area"
LARGEST = 10**8  # margins that are held at a time


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedMargins:
    """The margin of every published count.

    Attributes
    ----------
    classes
        For each (level, query), the margins: units x rows. The level of areas is ``"area"``.
    confidence
        The probability that they stand for.
    table
        One row for each level and query: ``level``, ``query``, ``size``, ``least``, ``most``, ``n``, ``margin`` (the
        median) with ``least_margin`` and ``most_margin``, ``bias`` (published counts minus estimates, on average),
        ``bias_reliable`` (whether it is more than two standard errors) and ``noise_sd`` (of the estimates).
    information
        What the estimates were made from.
    areas
        The areas off the spine, if any.
    """

    classes: Mapping[tuple[str, str], Integers]
    confidence: float
    table: pd.DataFrame
    information: str
    areas: Areas | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", Frozen(dict(self.classes)))

    def at(self, level: str, query: str, *, row: int, first: int, counts: ArrayLike) -> Integers:
        """The margins of a row of a query, of as many units as there are counts, from the ``first`` on."""
        return self.classes[level, query][first : first + len(np.asarray(counts)), row].astype(np.int64)


def published_margins(
    release: Release,
    *,
    levels: Sequence[str] | None = None,
    queries: Sequence[str] | None = None,
    areas: Areas | None = None,
    confidence: float = 0.9,
) -> PublishedMargins:
    """The margins of a release's counts from its saved measurements; an error where these do not determine them.

    >>> import tallyveil as tv
    >>> spine = tv.Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = tv.Schema(attributes={"age": ["child", "adult"]})
    >>> people = tv.Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7])
    >>> release = tv.protect(people, tv.Strategy.default(spine, schema, rho=1), seed=1, measurements=None)
    >>> published_margins(release, queries=["total"]).table[["level", "query", "margin"]]
       level  query  margin
    0   town  total       0
    1  block  total       2
    """
    import pandas as pd

    measurements, facilities = measurements_of(release, None)
    people, schema = release.histogram, measurements.schema
    chosen = list(levels) if levels is not None else list(people.spine.levels)
    named = queries_by_level(measurements, chosen, queries)
    if areas is not None:
        named[AREA] = list(dict.fromkeys(name for names in named.values() for name in names))
    asked = {level: [schema.query(name) for name in names] for level, names in named.items()}
    sizes = {level: len(areas.names) if areas and level == AREA else people.spine.size(level) for level in asked}
    if sum(sizes[level] * query.size for level, some in asked.items() for query in some) > LARGEST:
        raise InputError(f"more than {LARGEST:,} counts, whose margins cannot be held together. Name fewer levels.")
    of_areas = asked.get(AREA, []) if areas is not None else []
    on_spine = {level: some for level, some in asked.items() if level != AREA or areas is None}
    problems = pose(measurements, on_spine, areas=of_areas, facilities=facilities)
    found: dict[tuple[str, str], Integers] = {}
    rows = []
    for level, some in asked.items():
        estimates = _estimates(problems, measurements, level, some, areas if level == AREA else None)
        for query in some:
            estimate, sd = estimates[query.name]
            if areas is not None and level == AREA:
                published = areas.tabulate(people.answer(query.name, level=people.spine.leaf)).dense()
            else:
                published = people.answer(query.name, level=level).dense()
            margin = published_margin(published, estimate, sd, confidence)
            found[level, query.name] = margin
            rows.append({"level": level, "query": query.name, **_summary(margin, published - estimate, sd)})
    return PublishedMargins(
        classes=found,
        confidence=confidence,
        table=pd.DataFrame(rows).astype({"most": "Int64"}),
        information=information_words(problems, measurements),
        areas=areas,
    )


def published_margin(published: ArrayLike, estimate: ArrayLike, sd: ArrayLike, confidence: float = 0.9) -> Integers:
    """The margin of published counts, given an unbiased estimate of each and its standard deviation.

    >>> published_margin([100, 100, 0, 7], [100.2, 92.0, -3.0, 7.0], [4.0, 4.0, 4.0, 0.0]).tolist()
    [7, 13, 5, 0]
    """
    normal_quantile(confidence)  # refuses a wrong confidence
    count, middle, spread = (np.asarray(given, np.float64) for given in (published, estimate, sd))
    exact = spread <= EXACT
    scale = np.where(exact, 1.0, spread)
    low = np.full(count.shape, -1, np.int64)  # too small a margin
    high = np.ceil(np.abs(count - np.maximum(middle, 0.0)) + 8 * scale).astype(np.int64)
    above = log_ndtr((middle + 0.5) / scale)  # the probability that the count is not negative, as a logarithm

    def probability(margin: Integers) -> Floats:
        """That the true count is within the margin, from upper tails, which stay exact where they are small."""
        lower = np.maximum(count - margin - 0.5, -0.5)
        tails = (np.exp(log_ndtr((middle - limit) / scale) - above) for limit in (lower, count + margin + 0.5))
        upper, beyond = tails
        within: Floats = upper - beyond
        return within

    while (high - low > 1).any():
        trial = (low + high) // 2
        enough = probability(trial) >= confidence
        low, high = np.where(enough, low, trial), np.where(enough, trial, high)
    return np.where(exact, np.rint(np.abs(count - middle)).astype(np.int64), high)


def _estimates(
    problems: Sequence[Problem],
    measurements: Measurements,
    level: str,
    queries: Sequence[Query],
    areas: Areas | None,
) -> dict[str, tuple[Floats, Floats]]:
    """Estimates and standard deviations of all units of a level, or of areas: units x rows."""
    optimised, spine = measurements.optimised, measurements.published
    out: dict[str, tuple[Floats, Floats]] = {}
    if areas is None and (optimised is None or optimised.keeps(level)):
        size = spine.size(level)
        out = {query.name: (np.zeros((size, query.size)), np.zeros((size, query.size))) for query in queries}
        for part in level_answers(problems, {level: queries}):
            units = part.units if optimised is None else optimised.part_of[level][part.units]
            for name, (estimate, sd) in out.items():
                estimate[units] = part.answers[name]
                sd[units] = np.sqrt(part.variances[name])[part.of]
        return out
    owner = owners(spine, level) if areas is None else areas.of_leaf.astype(np.int64)
    pieces: dict[str, list[tuple[Floats, Floats]]] = {}
    for query, _, numbers in of_leaf_places(problems, measurements, owner, queries):
        pieces.setdefault(query.name, []).append(numbers)
    return {name: tuple(map(np.concatenate, zip(*some, strict=True))) for name, some in pieces.items()}  # type: ignore[misc]


def _summary(margin: Integers, apart: Floats, sd: Floats) -> dict[str, object]:
    bias, error = float(apart.mean()), 2 * float(np.sqrt((sd**2).sum())) / sd.size
    return {
        "size": "any",
        "least": 0,
        "most": None,
        "n": margin.size,
        "margin": int(np.median(margin)),
        "least_margin": int(margin.min()),
        "most_margin": int(margin.max()),
        "bias": bias,
        "bias_reliable": abs(bias) > error,
        "noise_sd": float(np.sqrt((sd**2).mean())),
    }
