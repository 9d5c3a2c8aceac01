"""Noisy answers that are drawn when they are queried: about all units of a level, or about some that travel.

These objects can query the truth, so they cannot be pickled or copied by accident. On a cluster, the part of a level
that one piece of work needs is made ready to travel on purpose (``NoisyAnswers.sent``): the true counts of these units,
and the key of this measurement's stream. The key of the run stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import InputError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.schema import Query
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.sampling import draw
from tallyveil.privacy.stream_words import Secret, Stream

Noises = tuple[Geometric | DiscreteGaussian | None, ...]  # by span (see ``UnitShares``); None where nobody is measured


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnitAnswers:
    """Noisy answers about consecutive units of one level.

    Attributes
    ----------
    truth
        The true counts of the units.
    first
        The number of the first unit in its level. Noise belongs to a unit's number in its level.
    spans
        For how many levels each unit pays (see ``UnitShares``).
    queries, numbers, noises
        The measured queries; their numbers in the stream; and their noise by span.
    depth, replicate
        The level's number, and which sample of the noise is drawn.
    """

    level: str
    truth: Counts
    first: int
    spans: NDArray[np.int8]
    queries: Mapping[str, Query]
    numbers: Mapping[str, int]
    noises: Mapping[str, Noises]
    depth: int
    replicate: int
    stream: Stream

    def answers(self, query: str, index: Integers) -> Integers:
        """The noisy answers at ``unit * rows + row``, with units counted from the first of these."""
        rows = self.queries[query]
        answers = self.truth.looked_up(index, rows.row_of_cell, rows.size)
        spans = self.spans[index // rows.size]
        for span in np.unique(spans):
            noise = self.noises[query][span]
            if noise is None:
                raise InputError(f"a {self.level} whose parent took over its share is not measured. Copy the parent.")
            places = np.flatnonzero(spans == span)
            answers[places] += draw(
                noise,
                self.stream,
                index[places] + self.first * rows.size,
                level=self.depth,
                query=self.numbers[query],
                replicate=self.replicate,
            )
        return answers


@final
class NoisyAnswers(Secret):
    """Noisy answers about all units of all levels (``Measurements.ask``)."""

    __slots__ = ("_levels",)

    def __init__(self, levels: Mapping[str, UnitAnswers]) -> None:
        self._levels = dict(levels)

    def __call__(self, level: str, query: str, index: Integers) -> Integers:
        """The noisy answers of a level's query at the requested places."""
        return self._levels[level].answers(query, index)

    def sent(self, level: str, first: int, last: int) -> SentAnswers:
        """The answers about some units of a level, from ``first`` up to ``last``, made ready to travel."""
        whole = self._levels[level]
        parts = {name: getattr(whole, name) for name in whole.__dataclass_fields__ if name != "stream"}
        parts |= {
            "truth": whole.truth.part(first, last),
            "first": whole.first + first,
            "spans": whole.spans[first:last],
        }
        return SentAnswers(parts, whole.stream.travelling_key())


@final
class SentAnswers:
    """Noisy answers about some units, which can be pickled: they hold the true counts and the key of the stream."""

    __slots__ = ("_key", "_parts")

    def __init__(self, parts: Mapping[str, Any], key: bytes) -> None:
        self._parts, self._key = parts, key

    def __repr__(self) -> str:
        return "<SentAnswers: secret>"

    def __reduce__(self) -> tuple[type, tuple[Mapping[str, Any], bytes]]:
        return SentAnswers, (self._parts, self._key)

    def __call__(self, level: str, query: str, index: Integers) -> Integers:
        """The noisy answers at the requested places, with units counted from the first of these."""
        assert level == self._parts["level"]
        return UnitAnswers(**self._parts, stream=Stream(self._key)).answers(query, index)
