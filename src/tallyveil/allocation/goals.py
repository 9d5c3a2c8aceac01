"""Goals for accuracy, as people write them: how far a count may be off, or how large its coefficient of variation.

``total@county within 20 in 95%``
    Of all counts of that level, 95% are expected within 20 of the truth: the mean over units and cells of the
    probability that a normal error with the predicted standard deviation is at most 20.

``race@tract: CV under 10% above 500 people``
    In every unit and cell the standard deviation is at most 10% of any count of 500 or more, so at most 50. The counts
    are not looked at: 500 is the smallest for which it is asked.

Goals are about the unbiased estimates, before counts are made whole and non-negative.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtr

from tallyveil._arrays import Floats
from tallyveil.allocation.model import Prediction
from tallyveil.allocation.precision import Pair
from tallyveil.errors import InputError
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine

SHARP = (32.0, 1024.0)  # powers of the norm that stands for the largest variance, one search after the other
TINY = 1e-300
_NUMBER = r"(?P<{}>[0-9][0-9,_]*\.?[0-9]*|\.[0-9]+)"
_WHERE = r"\s*(?P<query>.+?)\s*@\s*(?P<level>.+?)\s*:?\s+"
_WITHIN = re.compile(
    _WHERE + r"within\s+" + _NUMBER.format("size") + r"(\s+(persons|people))?\s+in\s+" + _NUMBER.format("part")
    + r"\s*%\s*", re.IGNORECASE,
)  # fmt: skip
_CV = re.compile(
    _WHERE + r"cv\s+under\s+" + _NUMBER.format("part") + r"\s*%\s+above\s+" + _NUMBER.format("size")
    + r"(\s+(persons|people))?\s*", re.IGNORECASE,
)  # fmt: skip
_EXAMPLES = '"total@county within 20 in 95%" or "race@tract: CV under 10% above 500 people"'


@dataclass(frozen=True, kw_only=True)
class Goal(ABC):
    """A level and query, how large an error may be, and for how much of it."""

    level: str
    query: str
    size: float
    part: float

    @property
    def pair(self) -> Pair:
        """The level and query."""
        return self.level, self.query

    @abstractmethod
    def words(self) -> str:
        """The goal as it is written."""

    @abstractmethod
    def figure(self, at: Prediction) -> float:
        """What is predicted, in the goal's own terms: a share in percent."""

    @abstractmethod
    def excess(self, at: Prediction) -> float:
        """Logarithm of how far the goal is missed; it is met at 0 or below."""

    @abstractmethod
    def smooth_excess(self, at: Prediction, sharp: float) -> tuple[float, Floats]:
        """A smooth excess that is at least ``excess``, with its gradient by the variances of nodes and rows.

        The larger ``sharp``, the nearer it is.
        """


@final
class Within(Goal):
    """A part of all counts is expected within some persons of the truth."""

    def words(self) -> str:
        """The goal as it is written."""
        return f"{self.query}@{self.level} within {self.size:g} in {100 * self.part:g}%"

    def figure(self, at: Prediction) -> float:
        """The percentage of counts that are expected within the size."""
        return 100 * (1 - self._missed(at)[0])

    def excess(self, at: Prediction) -> float:
        """Logarithm of the expected part outside, over the part that may be outside."""
        return float(np.log(max(self._missed(at)[0], TINY) / (1 - self.part)))

    def smooth_excess(self, at: Prediction, sharp: float) -> tuple[float, Floats]:
        """The excess, which is smooth already, with its gradient."""
        del sharp
        missed, weights = self._missed(at)
        variance = np.maximum(at.variances[self.pair], TINY)
        z = self.size / np.sqrt(variance)
        density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)  # d 2 Phi(-t v^-1/2) / dv = phi t v^-3/2
        return self.excess(at), weights * density * z / variance / max(missed, TINY)

    def _missed(self, at: Prediction) -> tuple[float, Floats]:
        """The expected part outside, and the weight of each node and row."""
        place = at.places[self.pair]
        weights = place.units[:, None] * place.possible
        weights = weights / weights.sum()
        sd = np.sqrt(at.variances[self.pair])
        outside = np.where(sd > 0, 2 * ndtr(-self.size / np.where(sd > 0, sd, 1.0)), 0.0)
        return float((weights * outside).sum()), weights


@final
class SmallVariation(Goal):
    """The coefficient of variation of every count above a size is small."""

    def words(self) -> str:
        """The goal as it is written."""
        return f"{self.query}@{self.level}: CV under {100 * self.part:g}% above {self.size:g} people"

    def figure(self, at: Prediction) -> float:
        """The largest coefficient of variation of a count of that size, in percent."""
        return 100 * float(np.sqrt(at.variances[self.pair].max())) / self.size

    def excess(self, at: Prediction) -> float:
        """Logarithm of the largest variance over the one that is allowed."""
        return float(np.log(max(at.variances[self.pair].max(), TINY) / (self.part * self.size) ** 2))

    def smooth_excess(self, at: Prediction, sharp: float) -> tuple[float, Floats]:
        """The same with a norm in place of the largest variance."""
        ratio = np.maximum(at.variances[self.pair], TINY) / (self.part * self.size) ** 2
        largest = float(ratio.max())
        powers = (ratio / largest) ** sharp
        total = float(powers.sum())
        return float(np.log(largest) + np.log(total) / sharp), powers / ratio / total / (self.part * self.size) ** 2


def parse_goal(text: str, spine: Spine, schema: Schema) -> Goal:
    """A goal from its words.

    >>> spine = Spine.from_columns({"county": ["1", "2"]}, root="state")
    >>> goal = parse_goal("total@county within 20 in 95%", spine, Schema(attributes={"age": ["child", "adult"]}))
    >>> goal.words(), goal.part
    ('total@county within 20 in 95%', 0.95)
    """
    kinds: tuple[tuple[re.Pattern[str], type[Goal]], ...] = ((_WITHIN, Within), (_CV, SmallVariation))
    for pattern, kind in kinds:
        found = pattern.fullmatch(text)
        if found is None:
            continue
        size, part = (float(found[name].replace(",", "").replace("_", "")) for name in ("size", "part"))
        if not size > 0:
            raise InputError(f"goal {text!r}: {found['size']} people is not above 0. Noise is never 0: allow some.")
        if not 0 < part < 100:
            raise InputError(f"goal {text!r}: {found['part']}% must be between 0% and 100%, and neither of them.")
        try:
            spine.depth(found["level"])
            query = schema.query(found["query"]).name
        except InputError as problem:
            raise InputError(f"goal {text!r}: {problem}") from None
        return kind(level=found["level"], query=query, size=size, part=part / 100)
    raise InputError(f"goal {text!r} is not understood. Write it as {_EXAMPLES}.")
