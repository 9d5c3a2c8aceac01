"""The search for the event that best distinguishes two neighbours.

Three families of events can be searched:

- ``one-unit``: {v = k}, {v >= k}, {v <= k} for one view v, as in flaxman2019 (section 2.3);
- ``joint``: the four quadrants such as {v1 >= k1 and v2 < k2} of two views; sums, differences and a weighted sum of
  views (equal to k, at least k or at most k); all views together on one neighbour's side; and sums of the signed
  distances of the views from midway, clipped at some length, because noise of bounded ratio gives no more evidence
  beyond it;
- ``learned``: the score of boosted trees, at least k or at most k. The trees are fitted on the first half of the runs
  that are searched and the threshold is chosen on the second, because trees separate the runs they were fitted on far
  too well.

Thresholds come from the runs that are searched. All events of a kind are counted at once, by cumulative sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, final

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.evaluate.audit.binomial import log_bounds
from tallyveil.evaluate.audit.events import ChosenEvent, Event, Relation, RunStatistic, Statistic, Values
from tallyveil.evaluate.audit.learners import fit_trees

Family = Literal["one-unit", "joint", "learned"]
CAUTION = 0.01  # events are chosen at this fraction of the error they are tested at, since the best of many is lucky
GRID = 48  # thresholds for each view of a quadrant
NARROW = 1 << 16  # whole numbers of a smaller range are counted without sorting


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """A search for the event with the largest lower bound on epsilon.

    Attributes
    ----------
    one, two
        Values of the views in the runs on D and on D' (runs x views), with equally many runs.
    true_one, true_two
        True values of the views in D and in D'.
    alpha
        Probability of error of each of the two bounds on probabilities.
    delta
        Delta at which epsilon is bounded.
    """

    one: Values
    two: Values
    true_one: Floats
    true_two: Floats
    alpha: float
    delta: float = 0.0

    def best(self, family: Family) -> ChosenEvent | None:
        """The best event of a family; None if it has none (joint events need two views)."""
        choices = {"one-unit": self._single, "joint": self._joint, "learned": self._learned}[family]
        return max(choices(), key=lambda choice: choice.bound, default=None)

    def _single(self) -> Iterator[ChosenEvent]:
        yield from self._along(
            Statistic(weights=_weights(len(self.true_one), {i: 1})) for i in range(len(self.true_one))
        )

    def _joint(self) -> Iterator[ChosenEvent]:
        views = len(self.true_one)
        if views < 2:
            return
        pairs = list(combinations(range(views), 2))
        yield from self._along(Statistic(weights=_weights(views, {i: 1, j: s})) for i, j in pairs for s in (1, -1))
        yield from self._along(self._together())
        yield from self._quadrants(pairs)

    def _learned(self) -> Iterator[ChosenEvent]:
        half = len(self.one) // 2
        score = fit_trees(self.one[:half], self.two[:half])
        yield from replace(self, one=self.one[half:], two=self.two[half:])._along([score])

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

    def _along(self, statistics: Iterable[RunStatistic]) -> Iterator[ChosenEvent]:
        """The best event of each statistic: equal to, at most or at least k."""
        for statistic in statistics:
            k, in_one, in_two = _counted(statistic.of(self.one), statistic.of(self.two))
            up_to_one, up_to_two = np.cumsum(in_one), np.cumsum(in_two)
            counts: dict[Relation, tuple[Values, Values]] = {
                ">=": (len(self.one) - up_to_one + in_one, len(self.two) - up_to_two + in_two),
                "<=": (up_to_one, up_to_two),
            }
            if statistic.whole():  # with other weights, hardly any value occurs twice
                counts["="] = (in_one, in_two)
            for relation, (a, b) in counts.items():
                best, swapped, bound = self._largest(a, b)
                event = Event(conditions=((statistic, relation, k[best].item()),))
                yield ChosenEvent(event=event, swapped=swapped, bound=bound)

    def _quadrants(self, pairs: Sequence[tuple[int, int]]) -> Iterator[ChosenEvent]:
        """The best quadrant of each pair of views."""
        views = range(len(self.true_one))
        grids = [_grid(np.concatenate([self.one[:, i], self.two[:, i]])) for i in views]
        ranks = [
            [np.searchsorted(grids[i], values[:, i], side="right") for i in views] for values in (self.one, self.two)
        ]
        single = [Statistic(weights=_weights(len(views), {i: 1})) for i in views]
        for i, j in pairs:
            shape = (len(grids[i]) + 1, len(grids[j]) + 1)
            tables = [
                np.bincount(rank[i] * shape[1] + rank[j], minlength=shape[0] * shape[1]).reshape(shape)
                for rank in ranks
            ]
            for first in (">=", "<"):
                for second in (">=", "<"):
                    a, b = (_beyond(_beyond(table, first, 0), second, 1).reshape(-1) for table in tables)
                    best, swapped, bound = self._largest(a, b)
                    row, column = divmod(best, shape[1] - 1)
                    conditions = (
                        (single[i], first, grids[i][row].item()),
                        (single[j], second, grids[j][column].item()),
                    )
                    yield ChosenEvent(event=Event(conditions=conditions), swapped=swapped, bound=bound)  # type: ignore[arg-type]

    def _largest(self, a: Values, b: Values) -> tuple[int, bool, float]:
        """The best of the events that happened a times on D and b times on D': its number, direction and bound."""
        low, high = log_bounds(len(self.one), CAUTION * self.alpha, self.delta)
        forth, back = low[a] - high[b], low[b] - high[a]
        i, j = int(np.argmax(forth)), int(np.argmax(back))
        return (j, True, float(back[j])) if back[j] > forth[i] else (i, False, float(forth[i]))


def _counted(one: Values, two: Values) -> tuple[Values, Values, Values]:
    """The distinct values of both in ascending order, and how often they occur in each."""
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
    """Thresholds for a view: its distinct values, or quantiles of them if there are too many."""
    distinct = np.unique(values)
    if len(distinct) <= GRID:
        return distinct
    return np.unique(np.quantile(values, np.linspace(0.005, 0.995, GRID), method="inverted_cdf"))


def _beyond(table: Values, relation: str, axis: int) -> Values:
    """The number at or above, or below, each threshold, from the number at each rank among the thresholds."""
    below = np.cumsum(table, axis=axis)
    cut = [slice(None)] * table.ndim
    cut[axis] = slice(0, -1)
    total = table.sum(axis=axis, keepdims=True)
    return below[tuple(cut)] if relation == "<" else total - below[tuple(cut)]


def _discriminant(one: Values, two: Values) -> Floats:
    """Weights of the sum that best separates the two means (Fisher's discriminant), scaled to a maximum of 1."""
    difference = one.mean(axis=0) - two.mean(axis=0)
    within = (np.cov(one, rowvar=False) + np.cov(two, rowvar=False)) / 2
    ridge = 1e-9 * max(1.0, float(np.trace(within)))
    weights: Floats = np.linalg.solve(within + ridge * np.eye(len(difference)), difference)
    largest = np.abs(weights).max()
    return np.round(weights / largest, 3) if largest > 0 else weights


def _weights(views: int, weights: dict[int, float]) -> tuple[float, ...]:
    return tuple(weights.get(i, 0) for i in range(views))
