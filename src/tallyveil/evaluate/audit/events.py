"""Events that may distinguish two neighbours: conditions on the views of a run.

A view is a released count in which the neighbours differ.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools

Values = NDArray[Any]
Aggregate = Literal["sum", "least", "largest"]
Relation = Literal["=", ">=", "<=", "<"]
_COMPARISONS = {"=": operator.eq, ">=": operator.ge, "<=": operator.le, "<": operator.lt}
_WORDS = {"=": "is exactly", ">=": "is at least", "<=": "is at most", "<": "is below"}


class RunStatistic(Protocol):
    """One number of a run, computed from its views."""

    def of(self, values: Values) -> Values:
        """The statistic of each run."""
        ...

    def whole(self) -> bool:
        """Whether one value occurs in many runs, so that equality with it is an event."""
        ...

    def words(self, names: Sequence[str]) -> str:
        """The statistic in words, for these names of the views."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class Statistic:
    """One number of a run: the sum, least or largest of ``weight * (view - centre)``, each clipped to +-``cut``."""

    weights: tuple[float, ...]
    centres: tuple[float, ...] | None = None
    cut: float | None = None
    how: Aggregate = "sum"

    def of(self, values: Values) -> Values:
        """The statistic of each run."""
        used = [i for i, weight in enumerate(self.weights) if weight]
        weights = np.array([self.weights[i] for i in used])
        if values.dtype.kind == "i" and self.centres is None and self.whole():
            weights = weights.astype(np.int64)  # whole numbers stay whole, however large
        centres = 0 if self.centres is None else np.array([self.centres[i] for i in used])
        terms = (values[:, used] - centres) * weights
        if self.cut is not None:
            terms = np.clip(terms, -self.cut, self.cut)
        if self.how == "sum":
            return np.asarray(terms.sum(axis=1))
        return np.asarray(terms.min(axis=1) if self.how == "least" else terms.max(axis=1))

    def whole(self) -> bool:
        """Whether the weights are whole numbers."""
        return all(weight == round(weight) for weight in self.weights)

    def words(self, names: Sequence[str]) -> str:
        """The statistic in words, for these names of the views."""
        used = [i for i, weight in enumerate(self.weights) if weight]
        if self.centres is None:
            first, *others = used
            text = _term(self.weights[first], names[first])
            for i in others:
                text += f" {'+' if self.weights[i] > 0 else '-'} {_term(abs(self.weights[i]), names[i])}"
            return text
        distances = f"the distances of {', '.join(names[i] for i in used)} from midway, towards D's count"
        cut = "" if self.cut is None else f" and each cut at {self.cut:g},"
        return f"the {self.how} of {distances}{',' if cut else ''}{cut}"


@final
@dataclass(frozen=True, kw_only=True)
class Event:
    """Conditions on a run that must all hold: statistic, relation, threshold."""

    conditions: tuple[tuple[RunStatistic, Relation, float], ...]

    def holds(self, values: Values) -> Bools:
        """Whether the event happened in each run (a row of views)."""
        happened = np.ones(len(values), dtype=np.bool_)
        for statistic, relation, threshold in self.conditions:
            happened &= _COMPARISONS[relation](statistic.of(values), threshold)
        return happened

    def words(self, names: Sequence[str]) -> str:
        """The event in words, for these names of the views."""
        return " and ".join(f"{s.words(names)} {_WORDS[r]} {_number(k)}" for s, r, k in self.conditions)


@final
@dataclass(frozen=True, kw_only=True)
class ChosenEvent:
    """The event that best distinguished the runs on D from those on D', and the bound on epsilon that it gave on them.

    ``swapped`` means that the event is likelier on D' than on D.
    """

    event: Event
    swapped: bool
    bound: float


def _term(weight: float, name: str) -> str:
    return name if weight == 1 else f"{weight:g} x {name}"


def _number(k: float) -> str:
    return f"{k:,.6g}" if isinstance(k, float) and abs(k) < 1e6 else f"{k:,}"
