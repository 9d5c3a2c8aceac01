"""Margins of error without the truth: protect the release again as if it were the truth, and measure how far it moves.

No budget is spent, since the release is public. The change from the release to the re-run estimates the change from the
truth to the release. Errors are pooled by level, query and class of *released* size, because that is the size a reader
knows; in the re-run, it is the size that comes out. The 90% margin of a class is the smallest whole number that at
least 90% of its errors do not exceed.

Intervals for single counts would not have the stated coverage: non-negativity lifts true counts near 0, but the release
is lifted already and does not show this again. Errors pooled by released size contain both upward and downward moves.

Cells that are empty before and after are left out, as in :mod:`~tallyveil.evaluate.residuals`. The margin of a released
0 therefore describes zeros where somebody was lost, while a cell that is truly empty is exact. With all cells included,
most zeros would have a margin of 0, although a release has more zeros than the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.margin_classes import MarginClass, Margins, class_of, is_area
from tallyveil.evaluate.residuals import AREA, Over, Residuals, residuals
from tallyveil.evaluate.value_counts import ValueCounts, merged_counts, value_counts
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Query, Schema
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.plan import level_queries
from tallyveil.release.release import Release

Rerun = Callable[[Histogram, int], Histogram]
CLASSES = (0, 1, 5, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000)
FEWEST = 100  # errors that a class needs in each replicate; with fewer it is merged with the next
LEAVES = (0, *(1 << power for power in range(1, 24)))  # classes of areas off the spine, by their number of leaves
FEWEST_OF_AREAS = 1  # errors that such a class needs: areas are few, and those of other sizes are no guide


def margins(
    release: Release,
    rerun: Rerun,
    *,
    replicates: int = 10,
    confidence: float = 0.90,
    levels: Sequence[str] | None = None,
    queries: Sequence[str] | None = None,
    also: Sequence[str] = (),
    areas: Areas | None = None,
    classes: Sequence[int] | None = None,
) -> Margins:
    """Margins of error of a release, estimated from the release alone.

    Parameters
    ----------
    release
        A release with its strategy.
    rerun
        Function that protects people again with the release's strategy, for a replicate number:
        ``lambda people, i: protect(people, release.strategy, seed=0, replicate=i, failsafe=True).histogram``.
    replicates
        Number of re-runs to pool.
    confidence
        Share of errors to cover.
    levels, queries
        Counts to make margins for; by default all levels, with the queries of the release's tables by level.
    also
        Further queries at all of these levels, such as ``"detailed"``.
    areas
        Areas off the spine to make margins for as well (``levels=[]`` for the areas alone).
    classes
        Released sizes at which classes start. The first must be 0.

    Examples
    --------
    >>> from tallyveil import Spine
    >>> spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["c", "a"]})
    >>> people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 1], count=[40, 7])
    >>> release = Release(histogram=people, strategy=Strategy.default(spine, schema, epsilon=1))
    >>> moved = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 1], count=[38, 9])
    >>> result = margins(release, lambda people, i: moved, replicates=1, levels=["block"])
    >>> result.of("block", "total", [38, 9])
    array([2, 2])
    """
    strategy = _checked_strategy(release, replicates, confidence)
    people, edges = release.histogram, _edges(classes)
    pools = {
        (place, query): _pool(place, areas, edges, replicates)
        for place, query in _asked(people, strategy, levels, queries, also, areas)
    }
    for replicate in range(replicates):
        again = rerun(people, replicate)
        for (place, query), pool in pools.items():
            moves = residuals_at(people, again, place, query, areas)
            pool.add(moves, class_sizes(moves, place, areas))
    by_pair = {
        pair: pool.classes(confidence, _noise_sd(strategy, people, *pair, areas)) for pair, pool in pools.items()
    }
    return Margins(classes=by_pair, confidence=confidence, replicates=replicates, areas=areas)


def _checked_strategy(release: Release, replicates: int, confidence: float) -> Strategy:
    """The strategy of the release; what margins cannot be made of is refused."""
    if release.strategy is None:
        raise InputError("the release has no strategy, so it cannot be protected again as it was. Give its strategy.")
    if replicates < 1:
        raise InputError(f"replicates must be 1 or more. Got {replicates} instead.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1. Got {confidence} instead.")
    if release.histogram.total() == 0:
        raise InputError("the release has nobody in it, so nothing moves when it is protected again.")
    return release.strategy


def _pool(place: str, areas: Areas | None, edges: tuple[int, ...], replicates: int) -> _Pool:
    if is_area(place, areas):
        return _Pool(LEAVES, fewest=FEWEST_OF_AREAS)
    return _Pool(edges, fewest=FEWEST * replicates)


class _Pool:
    """Errors of one query at one level, counted by value in each class of released size.

    A class with fewer than ``fewest`` errors is merged with the next.
    """

    def __init__(self, edges: tuple[int, ...], *, fewest: int) -> None:
        self._edges, self._fewest = edges, fewest
        self._errors = [value_counts([]) for _ in edges]

    def add(self, moves: Residuals, sizes: Integers) -> None:
        number = class_of(self._edges, sizes).astype(np.uint8)
        order = np.argsort(number, kind="stable")  # a radix sort: as fast as counting
        bounds = np.searchsorted(number[order], np.arange(len(self._edges) + 1))
        value = moves.value[order]
        for i, (first, last) in enumerate(pairwise(bounds)):
            if last > first:
                self._errors[i] = merged_counts([self._errors[i], value_counts(value[first:last])])

    def classes(self, confidence: float, noise_sd: float) -> tuple[MarginClass, ...]:
        """The classes after merging; the last is merged with the one before if it has too few errors."""
        groups: list[list[int]] = [[]]
        for number in range(len(self._edges)):
            if groups[-1] and self._n(groups[-1]) >= self._fewest:
                groups.append([])
            groups[-1].append(number)
        if len(groups) > 1 and self._n(groups[-1]) < self._fewest:
            last = groups.pop()
            groups[-1] += last
        starts = [self._edges[group[0]] for group in groups]
        ends = [*(start - 1 for start in starts[1:]), None]
        return tuple(
            _class(merged_counts([self._errors[number] for number in group]), confidence, start, end, noise_sd)
            for group, start, end in zip(groups, starts, ends, strict=True)
        )

    def _n(self, group: list[int]) -> int:
        return sum(self._errors[number].n for number in group)


def _class(errors: ValueCounts, confidence: float, least: int, most: int | None, noise_sd: float) -> MarginClass:
    n = errors.n
    if n == 0:  # the query counts nobody before or after
        return MarginClass(least=least, most=most, n=0, margin=0, bias=0.0, noise_sd=noise_sd)
    size = np.abs(errors.value)
    order = np.argsort(size, kind="stable")
    within = np.cumsum(errors.count[order])
    margin = size[order][np.searchsorted(within, math.ceil(confidence * n - 1e-9))]
    return MarginClass(least=least, most=most, n=n, margin=math.ceil(margin), bias=errors.mean(), noise_sd=noise_sd)


def _edges(classes: Sequence[int] | None) -> tuple[int, ...]:
    edges = CLASSES if classes is None else tuple(classes)
    if not edges or edges[0] != 0 or any(b <= a for a, b in pairwise(edges)) or len(edges) > 255:
        raise InputError(
            f"classes start at {list(edges)}. Give at most 255 ascending whole numbers, of which the first is 0."
        )
    return edges


def _asked(
    people: Histogram,
    strategy: Strategy,
    levels: Sequence[str] | None,
    queries: Sequence[str] | None,
    also: Sequence[str],
    areas: Areas | None,
) -> Iterator[tuple[str, str]]:
    """Every (level, query); areas have the level ``"area"`` and the queries of the leaves."""
    wanted = list(dict.fromkeys(people.spine.levels if levels is None else levels))
    for level in wanted:
        people.spine.depth(level)  # refuses an unknown level
    for place, level in [*((level, level) for level in wanted), *([(AREA, people.spine.leaf)] if areas else [])]:
        named = level_queries(strategy, people.schema, level) if queries is None else queries
        for query in dict.fromkeys(people.schema.query(text).name for text in [*named, *also]):
            yield place, query


def class_sizes(moves: Residuals, place: str, areas: Areas | None) -> Integers:
    """The size by which each residual is classified: the released count or, for an area, its number of leaves.

    The error of a unit does not grow with its size, because its level was measured. That of an area grows with the
    number of its leaves.
    """
    if areas is None or place != AREA:
        return moves.released.astype(np.int64)
    return areas.sizes()[moves.unit]


def residuals_at(
    before: Histogram, after: Histogram, place: str, query: str, areas: Areas | None, *, over: Over = "nonempty"
) -> Residuals:
    """Residuals of the units of a level or, where the level stands for them, of areas."""
    off = is_area(place, areas)
    return residuals(before, after, level=None if off else place, areas=areas if off else None, query=query, over=over)


def _noise_sd(strategy: Strategy, people: Histogram, place: str, query: str, areas: Areas | None) -> float:
    """The standard deviation of the most precise measurement of a query at a level; 0 if the query is exact.

    A query is measured directly, or by a finer query whose rows are added up. An area is a sum of leaves.
    """
    schema, off = people.schema, is_area(place, areas)
    level = people.spine.leaf if off else place
    asked = schema.query(query)
    invariant = ((schema.query(c.query), c.level) for c in strategy.constraints if isinstance(c, Invariant))
    if not off and any(kept == level and _rows_added(asked, exact, schema) for exact, kept in invariant):
        return 0.0
    if not off and asked.size == 1 and level == people.spine.levels[0] and strategy.neighbours == "replace-one":
        return 0.0  # replace-one neighbours have the same number of people
    variances = [
        added * strategy.noise(level, measured).actual_variance()
        for measured in strategy.queries[level]
        if (added := _rows_added(asked, schema.query(measured), schema))
    ]
    leaves = float(np.mean(areas.sizes())) if off and areas is not None else 1.0
    return math.sqrt(min(variances) * leaves) if variances else math.nan


def _rows_added(asked: Query, finer: Query, schema: Schema) -> int:
    """The largest number of rows of the finer query that add up to one of the asked query; 0 if they do not add up."""
    pairs = np.unique(np.stack([finer.row_of_cell, asked.row_of_cell])[:, schema.possible], axis=1)
    if len(np.unique(pairs[0])) != pairs.shape[1]:
        return 0
    return int(np.bincount(pairs[1]).max())
