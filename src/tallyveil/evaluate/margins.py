"""Margins of error without the truth: protect the release again, as if it were the truth, and see how far it moves.

No budget is spent, since the release is public. What the second protection did to the released counts stands for what
the first did to the true ones. Errors are pooled by level, query and class of *released* size, which is what a reader
knows: in the re-run, the size that came out. The 90% margin of a class is the smallest whole number that at least 90%
of its errors do not exceed.

Intervals for each count by itself would not cover: true counts near 0 are lifted by non-negativity, which the release,
being lifted already, does not show again. Pooled by released size, upward and downward moves are both there.

Cells that are empty before and after are left out, as in :mod:`~tallyveil.evaluate.residuals`. So the margin of a
released 0 is about zeros that hide somebody: one that is truly empty is exact. With all cells in, most zeros would have
the margin 0, though a release has more zeros than the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tallyveil._arrays import Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import InputError
from tallyveil.evaluate.residuals import AREA, Over, Residuals, residuals
from tallyveil.evaluate.value_counts import ValueCounts, value_counts
from tallyveil.files.release_folder.layout import level_queries
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Query, Schema
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.release import Release

Rerun = Callable[[Histogram, int], Histogram]
CLASSES = (0, 1, 5, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000)
LEAST = 100  # errors in each replicate that a class needs; with fewer it is merged with the next
LEAVES = (0, *(1 << power for power in range(1, 24)))  # classes of areas off the spine, by how many leaves they have
LEAST_AREAS = 1  # errors that such a class needs: areas are few, and those of other sizes tell nothing about them


@dataclass(frozen=True, kw_only=True)
class MarginClass:
    """The margin of released counts from ``least`` to ``most`` (None: no end).

    Attributes
    ----------
    n
        How many errors were pooled, over all replicates.
    margin
        The smallest whole number that the asked share of the errors does not exceed.
    bias
        Their mean: what was released less what went in.
    noise_sd
        The standard deviation of the most precise measurement of the query (missing where it was not measured).
    """

    least: int
    most: int | None
    n: int
    margin: int
    bias: float
    noise_sd: float

    @property
    def size(self) -> str:
        """The class in words."""
        return class_words(self.least, self.most)

    @property
    def bias_reliable(self) -> bool:
        """Whether the bias is as large as the noise: a smaller one need not be that of the first protection."""
        return self.bias == 0 == self.margin or abs(self.bias) >= self.noise_sd


@dataclass(frozen=True, kw_only=True, eq=False)
class Margins:
    """Margins of error by level, query and class of released size.

    Attributes
    ----------
    classes
        For each level (``"area"`` for areas off the spine) and query its classes, from 0 up, without gaps.
    confidence
        The share of errors that the margins cover.
    replicates
        How many re-runs they come from.
    areas
        The areas off the spine, if there are any.
    """

    classes: Mapping[tuple[str, str], tuple[MarginClass, ...]]
    confidence: float
    replicates: int
    areas: Areas | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", Frozen(dict(self.classes)))

    def __repr__(self) -> str:
        return f"Margins({self.confidence:.0%}, {len(self.classes)} queries, {self.replicates} replicates)"

    def of(self, level: str, query: str, counts: ArrayLike) -> Integers:
        """The margins of released counts; of areas (level ``"area"``), given how many leaves each has."""
        classes = self._classes(level, query)
        margin = np.array([one.margin for one in classes], dtype=np.int64)
        return margin[class_of([one.least for one in classes], counts)]

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row for each level, query and class.

        ``level``, ``query``, ``size``, ``least``, ``most`` (missing in the last class of a query), ``n``, ``margin``,
        ``bias``, ``bias_reliable``, ``noise_sd``.
        """
        rows = [
            {
                "level": level,
                "query": query,
                "size": f"{one.size} leaves" if self.areas is not None and level == AREA else one.size,
                **vars(one),
                "bias_reliable": one.bias_reliable,
            }
            for (level, query), classes in self.classes.items()
            for one in classes
        ]
        columns = ["level", "query", "size", "least", "most", "n", "margin", "bias", "bias_reliable", "noise_sd"]
        return pd.DataFrame(rows, columns=columns).astype({"most": "Int64"})

    @property
    def weak(self) -> list[tuple[str, str]]:
        """The (level, query) pairs that were hardly measured themselves: all margins below half the noise's deviation.

        They are known through other queries and levels more than from their own measurement, and how well that works
        differs between the truth and a release. In trials margins of such counts were often too small.
        """
        return [pair for pair, classes in self.classes.items() if 0 < max(c.margin for c in classes) < _half(classes)]

    def _classes(self, level: str, query: str) -> tuple[MarginClass, ...]:
        if (level, query) not in self.classes:
            known = ", ".join(f"{query}@{level}" for level, query in self.classes)
            raise InputError(f"no margins for {query}@{level}. There are {known}. Ask for them when they are made.")
        return self.classes[level, query]


def margins(
    release: Release,
    rerun: Rerun,
    *,
    replicates: int = 10,
    confidence: float = 0.90,
    levels: Sequence[str] | None = None,
    queries: Sequence[str] | None = None,
    areas: Areas | None = None,
    classes: Sequence[int] | None = None,
) -> Margins:
    """The margins of error of a release, from the release alone.

    Parameters
    ----------
    release
        A release with its strategy.
    rerun
        Protects people again with the release's strategy, given which replicate it is:
        ``lambda people, i: protect(people, release.strategy, seed=0, replicate=i, failsafe=True).histogram``.
    replicates
        How many re-runs are pooled.
    confidence
        The share of errors to cover.
    levels, queries
        Which counts; by default all levels, with the queries of the release's tables by level.
    areas
        Areas off the spine to make margins for besides (``levels=[]`` for the areas alone).
    classes
        Where classes of released size start. The first is 0.

    Examples
    --------
    >>> from tallyveil import Spine
    >>> spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["c", "a"]})
    >>> people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 1], count=[40, 7])
    >>> release = Release(histogram=people, strategy=Strategy.default(spine, schema, epsilon=1))
    >>> moved = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 1], count=[38, 9])
    >>> made = margins(release, lambda people, i: moved, replicates=1, levels=["block"])
    >>> made.table[["level", "query", "size", "n", "margin", "bias"]]
       level  query       size  n  margin  bias
    0  block  total  0 or more  2       2   0.0
    >>> made.of("block", "total", [38, 9])
    array([2, 2])
    """
    strategy = release.strategy
    if strategy is None:
        raise InputError("the release has no strategy, so it cannot be protected again as it was. Give its strategy.")
    if replicates < 1:
        raise InputError(f"replicates must be 1 or more. Got {replicates} instead.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1. Got {confidence} instead.")
    people, edges = release.histogram, _edges(classes)
    if people.total() == 0:
        raise InputError("the release has nobody in it, so nothing moves when it is protected again.")
    asked = list(_asked(people, strategy, levels, queries, areas))
    off = AREA if areas is not None else None  # the place whose units are areas
    pools = {(place, query): _Pool(LEAVES if place == off else edges) for place, query in asked}
    for replicate in range(replicates):
        again = rerun(people, replicate)
        for place, query in asked:
            found = residuals_at(people, again, place, query, areas)
            pools[place, query].add(found, class_sizes(found, place, areas))
    return Margins(
        classes={
            (place, query): pool.classes(
                confidence,
                least_errors=LEAST_AREAS if place == off else LEAST * replicates,
                noise_sd=_noise_sd(strategy, people, place, query, areas),
            )
            for (place, query), pool in pools.items()
        },
        confidence=confidence,
        replicates=replicates,
        areas=areas,
    )


class _Pool:
    """Errors of one query at one level, counted by class of released size: none is kept by itself."""

    def __init__(self, edges: tuple[int, ...]) -> None:
        self._edges = edges
        self._errors = [ValueCounts(value=np.empty(0), count=np.empty(0, np.int64)) for _ in edges]

    def add(self, found: Residuals, sizes: Integers) -> None:
        place = class_of(self._edges, sizes).astype(np.uint8)
        order = np.argsort(place, kind="stable")  # by radix: as fast as counting
        bounds = np.searchsorted(place[order], np.arange(len(self._edges) + 1))
        value = found.value[order]
        for number, (first, last) in enumerate(pairwise(bounds)):
            if last > first:
                self._errors[number] = _together([self._errors[number], value_counts(value[first:last])])

    def classes(self, confidence: float, *, least_errors: int, noise_sd: float) -> tuple[MarginClass, ...]:
        """The classes, with those that have too few errors merged into the next (the last into the one before)."""
        groups: list[list[int]] = [[]]
        for number in range(len(self._edges)):
            if groups[-1] and self._n(groups[-1]) >= least_errors:
                groups.append([])
            groups[-1].append(number)
        if len(groups) > 1 and self._n(groups[-1]) < least_errors:
            last = groups.pop()
            groups[-1] += last
        starts = [self._edges[group[0]] for group in groups]
        ends = [*(start - 1 for start in starts[1:]), None]
        return tuple(
            _class(_together([self._errors[number] for number in group]), confidence, start, end, noise_sd)
            for group, start, end in zip(groups, starts, ends, strict=True)
        )

    def _n(self, group: list[int]) -> int:
        return sum(self._errors[number].n for number in group)


def _class(errors: ValueCounts, confidence: float, least: int, most: int | None, noise_sd: float) -> MarginClass:
    n = errors.n
    if n == 0:  # nobody is counted by this query before or after
        return MarginClass(least=least, most=most, n=0, margin=0, bias=0.0, noise_sd=noise_sd)
    size = np.abs(errors.value)
    order = np.argsort(size, kind="stable")
    within = np.cumsum(errors.count[order])
    margin = size[order][np.searchsorted(within, math.ceil(confidence * n - 1e-9))]
    return MarginClass(least=least, most=most, n=n, margin=math.ceil(margin), bias=errors.mean(), noise_sd=noise_sd)


def _together(tallies: Sequence[ValueCounts]) -> ValueCounts:
    value, place = np.unique(np.concatenate([one.value for one in tallies]), return_inverse=True)
    often = np.zeros(len(value), dtype=np.int64)
    np.add.at(often, place, np.concatenate([one.count for one in tallies]))
    return ValueCounts(value=value, count=often)


def _edges(classes: Sequence[int] | None) -> tuple[int, ...]:
    edges = CLASSES if classes is None else tuple(classes)
    if not edges or edges[0] != 0 or any(b <= a for a, b in pairwise(edges)) or len(edges) > 255:
        raise InputError(
            f"classes start at {list(edges)}. Give rising whole numbers, 255 at most, the first of them 0."
        )
    return edges


def _asked(
    people: Histogram,
    strategy: Strategy,
    levels: Sequence[str] | None,
    queries: Sequence[str] | None,
    areas: Areas | None,
) -> Iterator[tuple[str, str]]:
    """Every (level, query); ``"area"`` stands for a level, with the queries of the leaves."""
    wanted = list(dict.fromkeys(people.spine.levels if levels is None else levels))
    for level in wanted:
        people.spine.depth(level)  # an unknown one is refused
    for place, level in [*((level, level) for level in wanted), *([(AREA, people.spine.leaf)] if areas else [])]:
        named = level_queries(strategy, people.schema, level) if queries is None else queries
        for query in dict.fromkeys(people.schema.query(text).name for text in named):
            yield place, query


def class_sizes(found: Residuals, place: str, areas: Areas | None) -> Integers:
    """What puts each residual into its class: the released count or, for an area, how many leaves it has.

    A unit's error does not grow with its size, as its level was measured; an area's does with its leaves.
    """
    if areas is None or place != AREA:
        return found.released.astype(np.int64)
    return areas.sizes()[found.unit]


def residuals_at(
    before: Histogram, after: Histogram, place: str, query: str, areas: Areas | None, *, over: Over = "nonempty"
) -> Residuals:
    """Residuals of a level's units or, where the level stands for them, of areas."""
    off = areas is not None and place == AREA
    return residuals(before, after, level=None if off else place, areas=areas if off else None, query=query, over=over)


def _noise_sd(strategy: Strategy, people: Histogram, place: str, query: str, areas: Areas | None) -> float:
    """The standard deviation of the most precise measurement of a query at a level; 0 for what is exact.

    A query is measured by itself, or by a finer one whose rows are added up. An area is a sum of leaves.
    """
    schema, off = people.schema, areas is not None and place == AREA
    level = people.spine.leaf if off else place
    asked = schema.query(query)
    invariant = ((schema.query(c.query), c.level) for c in strategy.constraints if isinstance(c, Invariant))
    if not off and any(kept == level and _rows_added(asked, one, schema) for one, kept in invariant):
        return 0.0
    if not off and asked.size == 1 and level == people.spine.levels[0] and strategy.neighbours == "replace-one":
        return 0.0  # everybody: neighbours are equally many
    found = [
        added * strategy.noise(level, measured).actual_variance()
        for measured in strategy.queries[level]
        if (added := _rows_added(asked, schema.query(measured), schema))
    ]
    leaves = float(np.mean(areas.sizes())) if off and areas is not None else 1.0
    return math.sqrt(min(found) * leaves) if found else math.nan


def _rows_added(asked: Query, finer: Query, schema: Schema) -> int:
    """How many rows of the finer query make up one of the asked query, at most; 0 if they do not."""
    pairs = np.unique(np.stack([finer.row_of_cell, asked.row_of_cell])[:, schema.possible], axis=1)
    if len(np.unique(pairs[0])) != pairs.shape[1]:
        return 0
    return int(np.bincount(pairs[1]).max())


def class_of(starts: Sequence[int], counts: ArrayLike) -> Integers:
    """The class of each count, given where classes start."""
    return np.searchsorted(np.asarray(starts), np.asarray(counts), side="right").astype(np.int64) - 1


def _half(classes: Sequence[MarginClass]) -> float:
    return classes[0].noise_sd / 2


def class_words(least: int, most: int | None) -> str:
    """A class in words."""
    if most is None:
        return f"{least:,} or more"
    return f"{least:,}" if least == most else f"{least:,} - {most:,}"
