"""Events that may tell two neighbours apart, and the search for the one that does so best.

An event is a condition on the views of a run (the released counts that the neighbours differ in), or several of them.
Two families are searched:

- ``one-unit``: {v = k}, {v >= k}, {v <= k} for one view v, as in flaxman2019 (section 2.3);
- ``joint``: quadrants {v1 >= k1 and v2 < k2} (all four) of two views; sums, differences and a weighted sum of views
  (equal to k: two cells with the same noise; at least or at most k); all views together on one neighbour's side; and
  sums of the views' signed distances from midway, cut at some length, which is how noise of bounded ratio counts them.

Thresholds come from the runs that are searched. All events of a kind are tallied at once, by counting and adding up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Floats
from tallyveil.evaluate.audit.binomial import log_bounds

Values = NDArray[Any]
Family = Literal["one-unit", "joint"]
How = Literal["sum", "least", "largest"]
Relation = Literal["=", ">=", "<=", "<"]
CAUTION = 0.01  # events are chosen at this part of the chance of error they are tested at: the best of many is lucky
GRID = 48  # thresholds for each view of a quadrant
NARROW = 1 << 16  # whole numbers of a smaller range are counted without sorting
_WORDS = {"=": "is exactly", ">=": "is at least", "<=": "is at most", "<": "is below"}


@final
@dataclass(frozen=True, kw_only=True)
class Statistic:
    """One number of a run: of ``weight * (view - centre)``, cut at ``cut`` either way, the sum, least or largest."""

    weights: tuple[float, ...]
    centres: tuple[float, ...] | None = None
    cut: float | None = None
    how: How = "sum"

    def of(self, values: Values) -> Values:
        """Its value in each run."""
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
        """What it is, the views having these names."""
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

    conditions: tuple[tuple[Statistic, Relation, float], ...]

    def holds(self, values: Values) -> Bools:
        """Whether it happened, for each run (one row of views)."""
        happened = np.ones(len(values), dtype=np.bool_)
        for statistic, relation, threshold in self.conditions:
            found = statistic.of(values)
            happened &= {
                "=": found == threshold,
                ">=": found >= threshold,
                "<=": found <= threshold,
                "<": found < threshold,
            }[relation]
        return happened

    def words(self, names: Sequence[str]) -> str:
        """The event in words, the views having these names."""
        return " and ".join(f"{s.words(names)} {_WORDS[r]} {_number(k)}" for s, r, k in self.conditions)


@final
@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The event that told the runs on D and on D' apart best, and the bound on epsilon that it gave on these runs.

    ``swapped``: the event is likelier on D' than on D.
    """

    event: Event
    swapped: bool
    bound: float


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """A search for the event with the largest lower bound on epsilon.

    Attributes
    ----------
    one, two
        The views' values in the runs on D and on D' (runs x views), as many of each.
    true_one, true_two
        The views' true values in D and in D'.
    alpha
        The chance of error of each of the two probabilities' bounds.
    delta
        The delta at which epsilon is bounded.
    """

    one: Values
    two: Values
    true_one: Floats
    true_two: Floats
    alpha: float
    delta: float = 0.0

    def best(self, family: Family) -> Chosen | None:
        """The best event of a family; None where it has none (joint events need two views)."""
        found = self._single() if family == "one-unit" else self._joint()
        return max(found, key=lambda chosen: chosen.bound, default=None)

    def _single(self) -> Iterator[Chosen]:
        yield from self._along(Statistic(weights=_at(len(self.true_one), {i: 1})) for i in range(len(self.true_one)))

    def _joint(self) -> Iterator[Chosen]:
        views = len(self.true_one)
        if views < 2:
            return
        pairs = list(combinations(range(views), 2))
        yield from self._along(Statistic(weights=_at(views, {i: 1, j: s})) for i, j in pairs for s in (1, -1))
        yield from self._along(self._together())
        yield from self._quadrants(pairs)

    def _together(self) -> Iterator[Statistic]:
        """Statistics of all views at once."""
        side = np.sign(self.true_one - self.true_two)
        centre = (self.true_one + self.true_two) / 2
        if np.count_nonzero(side) > 1:
            towards = Statistic(weights=tuple(side.tolist()), centres=tuple(centre.tolist()))
            middle = np.median(np.abs(np.concatenate([self.one, self.two]) - centre))
            for cut in dict.fromkeys((0.5, max(0.5, round(2 * float(middle)) / 2), None)):
                yield replace(towards, cut=cut)
            yield replace(towards, how="least")
            yield replace(towards, how="largest")
        weights = _discriminant(self.one, self.two)
        if np.count_nonzero(weights) > 1:
            yield Statistic(weights=tuple(weights.tolist()))

    def _along(self, statistics: Iterable[Statistic]) -> Iterator[Chosen]:
        """The best event of each statistic: equal to, at most or at least k."""
        for statistic in statistics:
            k, in_one, in_two = _tallied(statistic.of(self.one), statistic.of(self.two))
            up_to_one, up_to_two = np.cumsum(in_one), np.cumsum(in_two)
            tallies: dict[Relation, tuple[Values, Values]] = {
                ">=": (len(self.one) - up_to_one + in_one, len(self.two) - up_to_two + in_two),
                "<=": (up_to_one, up_to_two),
            }
            if statistic.whole():  # of other weights every value is nearly its own
                tallies["="] = (in_one, in_two)
            for relation, (a, b) in tallies.items():
                at, swapped, bound = self._largest(a, b)
                event = Event(conditions=((statistic, relation, k[at].item()),))
                yield Chosen(event=event, swapped=swapped, bound=bound)

    def _quadrants(self, pairs: Sequence[tuple[int, int]]) -> Iterator[Chosen]:
        """The best quadrant of each pair of views."""
        views = range(len(self.true_one))
        grids = [_grid(np.concatenate([self.one[:, i], self.two[:, i]])) for i in views]
        ranks = [
            [np.searchsorted(grids[i], values[:, i], side="right") for i in views] for values in (self.one, self.two)
        ]
        single = [Statistic(weights=_at(len(views), {i: 1})) for i in views]
        for i, j in pairs:
            shape = (len(grids[i]) + 1, len(grids[j]) + 1)
            tables = [
                np.bincount(rank[i] * shape[1] + rank[j], minlength=shape[0] * shape[1]).reshape(shape)
                for rank in ranks
            ]
            for first in (">=", "<"):
                for second in (">=", "<"):
                    a, b = (_beyond(_beyond(table, first, 0), second, 1).reshape(-1) for table in tables)
                    at, swapped, bound = self._largest(a, b)
                    row, column = divmod(at, shape[1] - 1)
                    conditions = (
                        (single[i], first, grids[i][row].item()),
                        (single[j], second, grids[j][column].item()),
                    )
                    yield Chosen(event=Event(conditions=conditions), swapped=swapped, bound=bound)  # type: ignore[arg-type]

    def _largest(self, a: Values, b: Values) -> tuple[int, bool, float]:
        """Among events that happened a times on D and b times on D': the best, its direction and its bound."""
        low, high = log_bounds(len(self.one), CAUTION * self.alpha, self.delta)
        forth, back = low[a] - high[b], low[b] - high[a]
        i, j = int(np.argmax(forth)), int(np.argmax(back))
        return (j, True, float(back[j])) if back[j] > forth[i] else (i, False, float(forth[i]))


def _tallied(one: Values, two: Values) -> tuple[Values, Values, Values]:
    """The distinct values of both, in order, and how often each has them."""
    least = min(one.min(), two.min())
    span = max(one.max(), two.max()) - least
    if one.dtype.kind == "i" and span < NARROW:
        a, b = (np.bincount(values - least, minlength=int(span) + 1) for values in (one, two))
        some = np.flatnonzero(a + b)
        return some + least, a[some], b[some]
    k, place = np.unique(np.concatenate([one, two]), return_inverse=True)
    a, b = (np.bincount(part, minlength=len(k)) for part in (place[: len(one)], place[len(one) :]))
    return k, a, b


def _grid(values: Values) -> Values:
    """Thresholds for a view: its distinct values, or as many quantiles of them as a grid has."""
    distinct = np.unique(values)
    if len(distinct) <= GRID:
        return distinct
    return np.unique(np.quantile(values, np.linspace(0.005, 0.995, GRID), method="inverted_cdf"))


def _beyond(table: Values, relation: str, axis: int) -> Values:
    """How many lie at or above, or below, each threshold, given how many have each rank among the thresholds."""
    below = np.cumsum(table, axis=axis)
    cut = [slice(None)] * table.ndim
    cut[axis] = slice(0, -1)
    total = table.sum(axis=axis, keepdims=True)
    return below[tuple(cut)] if relation == "<" else total - below[tuple(cut)]


def _discriminant(one: Values, two: Values) -> Floats:
    """Weights of the sum that separates the two means best (Fisher's), largest 1, to three digits."""
    difference = one.mean(axis=0) - two.mean(axis=0)
    within = (np.cov(one, rowvar=False) + np.cov(two, rowvar=False)) / 2
    ridge = 1e-9 * max(1.0, float(np.trace(within)))
    weights: Floats = np.linalg.solve(within + ridge * np.eye(len(difference)), difference)
    largest = np.abs(weights).max()
    return np.round(weights / largest, 3) if largest > 0 else weights


def _at(views: int, weights: dict[int, float]) -> tuple[float, ...]:
    return tuple(weights.get(i, 0) for i in range(views))


def _term(weight: float, name: str) -> str:
    return name if weight == 1 else f"{weight:g} x {name}"


def _number(k: float) -> str:
    return f"{k:,.6g}" if isinstance(k, float) and abs(k) < 1e6 else f"{k:,}"
