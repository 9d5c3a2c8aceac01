"""Noisy answers: all that post-processing may look at.

Measurements know every query of every unit that the strategy measures, but nobody holds them all: for a nation they are
21 billion numbers. They are asked for, place by place, and the same place always gives the same answer, whether it is
drawn when asked (``mechanisms.measure``) or was saved before (``files``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tallyveil._frozen import Frozen
from tallyveil.counts import Counts
from tallyveil.errors import InputError
from tallyveil.optimised import OptimisedSpine
from tallyveil.privacy.distributions import DiscreteGaussian, Geometric
from tallyveil.privacy.shares import UnitShares, unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.schema import Schema
from tallyveil.spine import Spine

Index = NDArray[np.int64]
Ask = Callable[[str, str, Index], NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurements:
    """Noisy answers to a strategy's queries on a spine and a schema.

    Attributes
    ----------
    ask
        Gives the noisy answers of a level's query at the places asked for (``unit * rows + row``).
    exact
        What is published without noise: the answers to the invariants, by (query, level).
    stamps
        What a release made from these must be stamped with.
    optimised
        The optimised spine, where ``spine`` is one. Invariants, constraints and ``exact`` are about the units of its
        standard spine, on which the release is published.
    """

    spine: Spine
    schema: Schema
    strategy: Strategy
    ask: Ask
    exact: Mapping[tuple[str, str], Counts] = field(default_factory=dict)
    stamps: tuple[str, ...] = ()
    optimised: OptimisedSpine | None = None

    def __post_init__(self) -> None:
        self.strategy.check(self.published, self.schema)
        object.__setattr__(self, "exact", Frozen(dict(self.exact)))

    @property
    def published(self) -> Spine:
        """The spine on which the release is published."""
        return self.spine if self.optimised is None else self.optimised.standard

    @cached_property
    def shares(self) -> Mapping[str, UnitShares]:
        """Each unit's share of its level's budget."""
        return unit_shares(self.strategy, self.spine)

    def measured(self, level: str, first: int, last: int) -> NDArray[np.bool_]:
        """Which of a level's units are measured at all: not those whose parent took over their share."""
        return self.shares[level].spans[first:last] > 0

    def noise(self, level: str, query: str, span: int) -> Geometric | DiscreteGaussian:
        """The noise of a query for the units that pay for so many levels (one, but for the only-child rule)."""
        if span == 0:
            raise InputError(f"a {level} whose parent took over its share is not measured. Copy the parent.")
        return self.strategy.noise(level, query, level_share=self.shares[level].shares[span])

    def variances(self, level: str, query: str) -> NDArray[np.float64]:
        """The noise's variance by span (see ``UnitShares``); infinite where nothing is measured."""
        spans = range(1, len(self.shares[level].shares))
        return np.array([np.inf, *(self.noise(level, query, span).actual_variance() for span in spans)])
