"""Margins of error by level, query and class of released size, which :mod:`~tallyveil.evaluate.margins` computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tallyveil._arrays import Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import InputError
from tallyveil.evaluate.residuals import AREA
from tallyveil.nouns.areas import Areas


@dataclass(frozen=True, kw_only=True)
class MarginClass:
    """The margin of released counts from ``least`` to ``most`` (None: no upper end).

    Attributes
    ----------
    n
        Number of errors that were pooled, over all replicates.
    margin
        The smallest whole number that the requested share of the errors does not exceed.
    bias
        Mean error: the count after the re-run minus the count before.
    noise_sd
        Standard deviation of the most precise measurement of the query (missing where it was not measured).
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
        """Whether the bias is at least as large as the noise; a smaller one may not be that of the first protection."""
        return self.bias == 0 == self.margin or abs(self.bias) >= self.noise_sd


@dataclass(frozen=True, kw_only=True, eq=False)
class Margins:
    """Margins of error by level, query and class of released size.

    Attributes
    ----------
    classes
        The classes of each (level, query), in ascending order from 0 without gaps. The level of areas is ``"area"``.
    confidence
        Share of errors that the margins cover.
    replicates
        Number of re-runs that the margins come from.
    areas
        The areas off the spine, if any.
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
        """The margins of released counts; for areas (level ``"area"``), of numbers of leaves."""
        classes = self._classes(level, query)
        margin = np.array([size_class.margin for size_class in classes], dtype=np.int64)
        return margin[class_of([size_class.least for size_class in classes], counts)]

    def at(self, level: str, query: str, *, row: int, first: int, counts: ArrayLike) -> Integers:  # noqa: ARG002
        """The same; margins by class do not depend on which row of the query and which units these are."""
        return self.of(level, query, counts)

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
                "size": f"{size_class.size} leaves" if is_area(level, self.areas) else size_class.size,
                **vars(size_class),
                "bias_reliable": size_class.bias_reliable,
            }
            for (level, query), classes in self.classes.items()
            for size_class in classes
        ]
        columns = ["level", "query", "size", "least", "most", "n", "margin", "bias", "bias_reliable", "noise_sd"]
        return pd.DataFrame(rows, columns=columns).astype({"most": "Int64"})

    @property
    def weak(self) -> list[tuple[str, str]]:
        """The (level, query) pairs that were hardly measured directly: all margins are below half the noise_sd.

        They are known through other queries and levels more than through their own measurement, and how well that works
        differs between the truth and a release. In trials, margins of such counts were often too small.
        """
        return [
            pair
            for pair, classes in self.classes.items()
            if 0 < max(size_class.margin for size_class in classes) < classes[0].noise_sd / 2
        ]

    def _classes(self, level: str, query: str) -> tuple[MarginClass, ...]:
        if (level, query) not in self.classes:
            known = ", ".join(f"{query}@{level}" for level, query in self.classes)
            raise InputError(f"no margins for {query}@{level}. Only {known} have margins. Ask for it in margins(...).")
        return self.classes[level, query]


def class_of(starts: Sequence[int], counts: ArrayLike) -> Integers:
    """The class of each count, from the counts at which classes start."""
    return np.searchsorted(np.asarray(starts), np.asarray(counts), side="right").astype(np.int64) - 1


def class_words(least: int, most: int | None) -> str:
    """A class in words."""
    if most is None:
        return f"{least:,} or more"
    return f"{least:,}" if least == most else f"{least:,} - {most:,}"


def is_area(level: str, areas: Areas | None) -> bool:
    """Whether the level stands for areas off the spine."""
    return areas is not None and level == AREA
