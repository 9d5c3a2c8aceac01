"""How a piece of a level travels: what it needs, and nothing else.

A piece needs the counts of its parents in the level above, the bounds on its children, the true counts of its children,
and the key of the stream. A worker solves it with the code that solves it on a thread, on parents and children that are
numbered from 0; noise belongs to the children's own numbers (``mechanisms.unit_answers``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.engine.answers import OwnAnswers
from tallyveil.engine.conflict import Conflict
from tallyveil.engine.constraints import Bounds, LevelLimits
from tallyveil.engine.level import Level, Span
from tallyveil.engine.nests import UNLIMITED
from tallyveil.engine.pieces import Piece
from tallyveil.engine.run_limits import RunLimits
from tallyveil.mechanisms.unit_answers import NoisyAnswers, SentAnswers
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.schema import Query, Schema
from tallyveil.privacy.shares import UnitShares
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements

Outcome = Piece | list[tuple[int, Conflict]]
_NO_BOUND = np.iinfo(np.int32).min  # stands for ``UNLIMITED`` in an array of 32 bits


@final
@dataclass(frozen=True, eq=False)
class TravellingLevel:
    """The work of one level as pieces that can be solved elsewhere."""

    level: Level
    answers: NoisyAnswers

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> TravellingLevel | None:
        """The work of a level if this is the function that solves its pieces, and they can travel.

        Saved measurements are read from the files of this machine, and what the levels below say is held here, so
        pieces that use these are solved here. The leaves, which are most of the work, are never informed from below.
        """
        level = getattr(function, "__self__", None)
        if not isinstance(level, Level) or function != level.kept_or_solved:
            return None
        answers = level.answers.measurements.ask
        if level.answers.informed(level.level) or not isinstance(answers, NoisyAnswers):
            return None
        return cls(level, answers)

    def name(self, span: Span) -> str:
        """The name of a piece, made of numbers of levels and units, which are public."""
        return self.level.name(span)

    def kept(self, span: Span) -> Piece | None:
        """The piece that an interrupted run has kept."""
        return None if self.level.kept is None else self.level.kept.get(self.name(span))

    def done(self, span: Span, outcome: Outcome) -> Outcome:
        """The outcome of a piece in terms of the level's own numbers; a finished piece is kept."""
        if isinstance(outcome, Piece):
            if self.level.kept is not None:
                self.level.kept.keep(self.name(span), outcome)
            return outcome
        return [(span[0] + parent, conflict) for parent, conflict in outcome]

    def shared(self) -> SpanSolver:
        """What all pieces have in common."""
        measurements, level = self.level.answers.measurements, self.level.level
        return SpanSolver(
            level=level,
            schema=measurements.schema,
            strategy=measurements.strategy,
            identifier=measurements.identifier,
            variances={query: measurements.variances(level, query) for query in measurements.strategy.queries[level]},
            limits=tuple((limit.query, limit.words) for limit in self._limits),
        )

    def parcel(self, span: Span) -> SpanParcel:
        """What one piece needs besides."""
        first_child, above, level = self.level.first_child, self.level.above, self.level.level
        first, last = int(first_child[span[0]]), int(first_child[span[1]])
        own_children = first_child[span[0] : span[1] + 1] - first
        own_children.flags.writeable = False  # as in a spine: compiled kernels are for one kind of array
        return SpanParcel(
            first=first,
            first_child=own_children,
            above=above.taken(np.arange(*span)),
            spans=self.level.answers.measurements.shares[level].spans[first:last],
            bounds=[_bounds_of(limit, first, last) for limit in self._limits],
            answers=self.answers.sent(level, first, last),
        )

    @property
    def _limits(self) -> Sequence[LevelLimits]:
        return self.level.limits.carried[self.level.level]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpanParcel:
    """What one piece needs: parents and children are numbered from 0, and ``first`` is the first child's own number."""

    first: int
    first_child: Integers
    above: Counts
    spans: NDArray[np.int8]
    bounds: Sequence[SpanBounds]
    answers: SentAnswers


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpanBounds:
    """Bounds on the rows of one query for the owners among the children of a piece."""

    least: NDArray[np.integer]
    most: NDArray[np.integer]
    owner: Integers | None

    def limits(self, query: Query, words: tuple[str, ...]) -> LevelLimits:
        """The bounds as the engine uses them."""
        of = partial(_rows, _unpacked(self.least), _unpacked(self.most))
        return LevelLimits(query=query, of=of, owners=len(self.least), words=words, owner=self.owner)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpanSolver:
    """Solves the pieces of one level, each from its parcel."""

    level: str
    schema: Schema
    strategy: Strategy
    identifier: str | None
    variances: Mapping[str, Floats]
    limits: Sequence[tuple[Query, tuple[str, ...]]]

    def __call__(self, parcel: SpanParcel) -> Outcome:
        """The piece, or the conflicts that leave it unsolved."""
        limits = [
            bounds.limits(query, words) for bounds, (query, words) in zip(parcel.bounds, self.limits, strict=True)
        ]
        level = Level(
            OwnAnswers(self._measurements(parcel)),
            self.level,
            parcel.above,
            cast(RunLimits, SimpleNamespace(carried={self.level: limits})),
            first=parcel.first,
        )
        return level.solve((0, parcel.above.units))

    def _measurements(self, parcel: SpanParcel) -> Measurements:
        """The part of measurements that a level uses, on a spine of two levels."""
        part = SimpleNamespace(
            spine=SimpleNamespace(first_child=(parcel.first_child,), depth=lambda _: 1),
            schema=self.schema,
            strategy=self.strategy,
            identifier=self.identifier,
            ask=parcel.answers,
            shares={self.level: UnitShares(spans=parcel.spans, shares=())},
            variances=lambda _, query: self.variances[query],
        )
        return cast(Measurements, part)


def _bounds_of(limit: LevelLimits, first: int, last: int) -> SpanBounds:
    """The bounds of some children. Where siblings are bounded together, their parent is the root: all travel."""
    if limit.owner is None:
        (least, most), owner = limit.of(np.arange(first, last)), None
    else:
        (least, most), owner = limit.all(), limit.owner[first:last]
    return SpanBounds(least=_packed(least), most=_packed(most), owner=owner)


def _packed(bounds: Integers) -> NDArray[np.integer]:
    """Bounds in 32 bits, if they fit."""
    free = bounds >= UNLIMITED
    finite = np.where(free, 0, bounds)
    if finite.size and (finite.max() > np.iinfo(np.int32).max or finite.min() <= _NO_BOUND):
        return bounds
    return np.where(free, _NO_BOUND, finite).astype(np.int32)


def _unpacked(bounds: NDArray[np.integer]) -> Integers:
    if bounds.dtype == np.int64:
        return cast(Integers, bounds)
    return np.where(bounds == _NO_BOUND, UNLIMITED, bounds.astype(np.int64))


def _rows(least: Integers, most: Integers, owners: Integers) -> Bounds:
    return least[owners], most[owners]
