"""Noisy answers, the only input of post-processing.

Measurements can answer every query for every unit that the strategy measures, but are never held as a whole: for a
nation they are 21 billion numbers. Answers are requested place by place, and the same place always gives the same
answer, whether the noise is drawn on request (``mechanisms.measure``) or the answer was saved before (``files``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import FolderError, InputError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.shares import UnitShares, unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_checks import check_unmeasured

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Ask = Callable[[str, str, Integers], Integers]
Pair = tuple[str, str]  # a query and a level


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SavedPlaces:
    """The positions of a query's answers when those of the measured units are saved, one unit after the other."""

    name: str
    measured: Bools
    rows: int

    @cached_property
    def size(self) -> int:
        """How many answers are saved."""
        return int(self.measured.sum()) * self.rows

    @cached_property
    def rank(self) -> Integers:
        """How many measured units stand before each."""
        return np.cumsum(self.measured) - 1

    def of(self, index: Integers) -> Integers:
        """The positions of ``unit * rows + row`` among the saved answers."""
        unit, row = np.divmod(index, self.rows)
        if not self.measured[unit].all():
            raise InputError(f"{self.name}: a unit whose parent took over its share is not measured. Copy the parent.")
        return self.rank[unit] * self.rows + row


class SavedValues(ABC):
    """The saved answers of one query at one level."""

    @abstractmethod
    def values(self, index: Integers) -> Integers:
        """The answers at ``unit * rows + row``."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class HeldValues(SavedValues):
    """Answers held in memory."""

    places: SavedPlaces
    held: Integers

    def values(self, index: Integers) -> Integers:
        """The answers at ``unit * rows + row``."""
        return self.held[self.places.of(index)]


@final
class SavedAnswers:
    """Noisy answers that were saved as values. Only these may become part of a release.

    Measurements that can still query the truth (``mechanisms.measure``) have another type, and a release refuses them.
    """

    def __init__(self, tables: Mapping[Pair, SavedValues]) -> None:
        self.tables = Frozen(dict(tables))

    def __call__(self, level: str, query: str, index: Integers) -> Integers:
        """The saved answers of a level's query at the requested places."""
        if (query, level) not in self.tables:
            saved = ", ".join(f"{query}@{level}" for query, level in self.tables) or "none"
            raise FolderError(
                f"{query}@{level} was not saved with this release (saved: {saved}). Protect again with the same key "
                f'and --measurements "{query}@{level}".'
            )
        return self.tables[query, level].values(index)


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurements:
    """Noisy answers to a strategy's queries on a spine and a schema.

    Attributes
    ----------
    ask
        Gives the noisy answers of a level's query at the requested places (``unit * rows + row``).
    exact
        The answers that are published without noise, those of invariants, by (query, level).
    stamps
        The stamps of a release made from these measurements.
    identifier
        The public name of the measurement, the same for every release made from it; None if it is unknown.
    optimised
        The optimised spine, if ``spine`` is one. Invariants, constraints and ``exact`` refer to the units of its
        standard spine, on which the release is published.
    """

    spine: Spine
    schema: Schema
    strategy: Strategy
    ask: Ask
    exact: Mapping[tuple[str, str], Counts] = field(default_factory=dict)
    stamps: tuple[str, ...] = ()
    identifier: str | None = None
    optimised: OptimisedSpine | None = None

    def __post_init__(self) -> None:
        self.strategy.check(self.published, self.schema)
        check_unmeasured(
            self.strategy.levels, self.strategy.exactness(self.published, self.schema, optimised=self.optimised)
        )
        object.__setattr__(self, "exact", Frozen(dict(self.exact)))

    def places(self, name: str, query: str, level: str) -> SavedPlaces:
        """The positions of the answers of a query at a level when they are saved; ``name`` is for messages."""
        measured = self.shares[level].spans > 0
        return SavedPlaces(name=name, measured=measured, rows=self.schema.query(query).size)

    def saved(self, pairs: Sequence[Pair]) -> Measurements:
        """The same measurements with only the answers of these (query, level) pairs, held in memory."""
        tables = {}
        for query, level in pairs:
            places = self.places(f"{query}@{level}", query, level)
            answers = self._answers(query, level, np.flatnonzero(places.measured))
            tables[query, level] = HeldValues(places=places, held=answers)
        return replace(self, ask=SavedAnswers(tables))

    def to_arrow(self) -> pa.Table:
        """Every noisy answer, one row each: ``level``, ``query``, ``unit``, ``cell``, ``value`` and ``variance``.

        Saved measurements give the answers that were saved; others give all queries of the strategy, which for a
        nation do not fit into memory (see ``pieces``).
        """
        from tallyveil.nouns.tables import stacked

        if isinstance(self.ask, SavedAnswers):
            pairs = list(self.ask.tables)
            if not pairs:
                raise InputError(
                    "no answers were saved, so there is no table of them. Save some: saved([(query, level)])."
                )
        else:
            pairs = [(query, level) for level, queries in self.strategy.queries.items() for query in queries]
        return stacked(
            ({"level": level, "query": query}, piece) for query, level in pairs for piece in self.pieces(query, level)
        )

    def to_pandas(self) -> pd.DataFrame:
        """``to_arrow`` as a pandas frame; codes and labels are categoricals."""
        return self.to_arrow().to_pandas()

    def pieces(self, query: str, level: str, *, size: int = 1 << 20) -> Iterator[pa.Table]:
        """The noisy answers to a query for all measured units of a level, about ``size`` rows at a time.

        The columns are ``unit``, ``cell``, ``value`` and ``variance``.
        """
        from tallyveil.nouns.tables import answers_table

        labels, spans = self.schema.query(query).labels(), self.shares[level].spans
        variances, measured = self.variances(level, query), np.flatnonzero(spans)
        step = max(1, size // len(labels))
        for first in range(0, max(1, len(measured)), step):
            units = measured[first : first + step]
            variance = np.repeat(variances[spans[units]], len(labels))
            numbers = {"value": self._answers(query, level, units), "variance": variance}
            yield answers_table(self.spine, level, units, labels, numbers)

    def _answers(self, query: str, level: str, units: Integers) -> Integers:
        """The answers to all rows of a query for some units of a level, unit by unit."""
        rows = self.schema.query(query).size
        return np.asarray(self.ask(level, query, (units[:, None] * rows + np.arange(rows)).reshape(-1)), np.int64)

    @property
    def published(self) -> Spine:
        """The spine on which the release is published."""
        return self.spine if self.optimised is None else self.optimised.standard

    @cached_property
    def shares(self) -> Mapping[str, UnitShares]:
        """Each unit's share of its level's budget."""
        return unit_shares(self.strategy, self.spine)

    def measured(self, level: str, first: int, last: int) -> Bools:
        """Which of a level's units are measured; those whose parent took over their share are not."""
        return self.shares[level].spans[first:last] > 0

    def noise(self, level: str, query: str, span: int) -> Geometric | DiscreteGaussian:
        """The noise of a query for units that hold the budget of ``span`` levels (1 without the only-child rule)."""
        if span == 0:
            raise InputError(f"a {level} whose parent took over its share is not measured. Copy the parent.")
        return self.strategy.noise(level, query, level_share=self.shares[level].shares[span])

    def variances(self, level: str, query: str) -> Floats:
        """The noise's variance by span (see ``UnitShares``); infinite where nothing is measured."""
        spans = range(1, len(self.shares[level].shares))
        return np.array([np.inf, *(self.noise(level, query, span).actual_variance() for span in spans)])
