"""Audit over many pairs of neighbours: search for the pair that shows most, then test it on runs of its own.

A fault may show on one kind of neighbours only, such as a person who moves into an empty unit, so Ding et al. [1]_ try
a family of pairs. The first half of the runs selects the pair and its event, by successive halving [2]_: in each round,
the pairs that are left get equally many new runs, and the half with the larger bounds goes on. Most runs therefore go
to the pair that shows most. The second half of the runs is made on the selected pair alone. They took no part in the
selection, so the bound that they give holds with the stated confidence, without a correction for the number of pairs
and events that were tried.

References
----------
.. [1] Ding, Wang, Wang, Zhang & Kifer, Detecting Violations of Differential Privacy, CCS 2018.
.. [2] Jamieson & Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization, AISTATS 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.evaluate.audit.audit import (
    SIDES,
    Chosen,
    WatchedRuns,
    best_and_bounds,
    best_family,
    check_audit,
    choose_events,
)
from tallyveil.evaluate.audit.events import ChosenEvent
from tallyveil.evaluate.audit.learners import Learner, check_learner
from tallyveil.evaluate.audit.pairs_result import AuditSearch, LeftOut, SearchedPair
from tallyveil.evaluate.audit.result import Audit
from tallyveil.evaluate.audit.search import Family
from tallyveil.evaluate.audit.views import neighbours_in_words, views_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED
from tallyveil.runs.batches import Execution, RunBatch, RunMechanism, batches_of, outputs

FEWEST_IN_ROUND = 20  # runs a side of each pair in the first round


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class NeighbourPair:
    """Two neighbouring datasets, and a name for what is special about them.

    Attributes
    ----------
    name
        What is special, such as ``"a person moves into an empty unit"``.
    people, neighbour
        D and D', which differ by one person moved, added or removed.
    made
        How D was made from the data that were given; empty if it is the data.
    """

    name: str
    people: Histogram
    neighbour: Histogram
    made: str = ""

    def words(self) -> str:
        """How D and D' differ, and how D differs from the data."""
        return neighbours_in_words(self.people, self.neighbour) + (
            f", in the data with {self.made}" if self.made else ""
        )


class SearchRound(NamedTuple):
    """A round of the selection: how many pairs are left, and how many runs a side each has had at its end."""

    pairs: int
    runs: int


def search_rounds(pairs: int, runs: int) -> list[SearchRound]:
    """The rounds of the selection; each has an equal part of half the runs, and the last one has one pair.

    >>> [tuple(part) for part in search_rounds(5, 8000)]
    [(5, 200), (3, 533), (2, 1033), (1, 2033)]
    """
    left = [pairs]
    while left[-1] > 1:
        left.append((left[-1] + 1) // 2)
    share = runs // 2 // len(left)
    ends = np.cumsum([share // n for n in left]).tolist()
    return [SearchRound(n, end) for n, end in zip(left, ends, strict=True)]


def search_batches(pairs: int, runs: int, size: int) -> list[RunBatch]:
    """As many batches as the rounds and the test will make; the first pairs stand for those that will be left."""
    rounds = search_rounds(pairs, runs)
    begins = [0, *(end for _, end in rounds)]
    tasks = [*rounds, SearchRound(1, begins[-1] + runs // 2)]
    return [
        batch
        for (left, end), begin in zip(tasks, begins, strict=True)
        for batch in batches_of(_sides(range(left)), end, size, first=begin)
    ]


def audit_pairs(
    run: RunMechanism,
    pairs: Sequence[NeighbourPair],
    *,
    runs: int,
    query: str = DETAILED,
    confidence: float = 0.95,
    delta: float = 0.0,
    proven: float | None = None,
    learner: Learner = "linear",
    left_out: Sequence[LeftOut] = (),
    execution: Execution | None = None,
) -> AuditSearch:
    """Bound the epsilon of a mechanism from below on the pair of neighbours that shows most.

    Parameters
    ----------
    run
        The mechanism, as for :func:`~tallyveil.evaluate.audit.audit.audit`.
    pairs
        The neighbours that are searched.
    runs
        Number of runs on each side: half to select the pair and the event, shared by the pairs, and half to test them.
    query
        Query whose released counts are compared, where they differ between the neighbours of a pair.
    confidence, delta, proven, learner, execution
        As for an audit of one pair. ``proven`` is the epsilon claimed for every pair.
    left_out
        Kinds of pairs that were not searched, for the result.
    """
    check_pairs(len(pairs), runs, confidence, delta)
    check_learner(learner)
    made = _PairRuns(run, pairs, query=query, runs=runs, execution=execution or Execution())
    families: tuple[Family, ...] = ("one-unit", "joint", "learned") if learner == "trees" else ("one-unit", "joint")
    alpha = (1 - confidence) / 2
    selected, chosen, searched = _select(made, pairs, runs=runs, families=families, alpha=alpha, delta=delta)
    one, two = made.test(selected)
    names = made.names(selected)
    audit = Audit(
        **best_and_bounds(chosen, one, two, names, alpha=alpha, delta=delta),
        neighbours=searched[selected].neighbours,
        proven=None if proven is None else float(proven),
        runs=runs,
        confidence=confidence,
        delta=delta,
        views=names,
    )
    return AuditSearch(
        audit=audit,
        pair=pairs[selected].name,
        test_runs=len(one),
        pairs=searched,
        left_out=tuple(left_out),
    )


def _select(
    made: _PairRuns,
    pairs: Sequence[NeighbourPair],
    *,
    runs: int,
    families: Sequence[Family],
    alpha: float,
    delta: float,
) -> tuple[int, Chosen, tuple[SearchedPair, ...]]:
    """The pair that stays until the last round, its events, and how every pair looked in its own last round."""
    words, left = [pair.words() for pair in pairs], list(range(len(pairs)))
    looks: dict[int, float] = {}
    searched: dict[int, SearchedPair] = {}
    chosen: Chosen = {}
    for number, (keep, end) in enumerate(search_rounds(len(pairs), runs), 1):
        left = sorted(left, key=lambda i: -looks.get(i, 0.0))[:keep]
        made.extend(left, end)
        for i in left:
            chosen = made.choose(i, families=families, alpha=alpha, delta=delta)  # in the last round, of one pair
            looks[i] = chosen[best_family(chosen)].bound
            searched[i] = SearchedPair(pair=pairs[i].name, neighbours=words[i], rounds=number,
                                       selection_runs=end, selection_bound=max(0.0, looks[i]))  # fmt: skip
    return left[0], chosen, tuple(searched[i] for i in range(len(pairs)))


class _PairRuns:
    """The runs that are made so far on each pair; all runs of a round are made together."""

    def __init__(
        self, run: RunMechanism, pairs: Sequence[NeighbourPair], *, query: str, runs: int, execution: Execution
    ) -> None:
        views = [views_of(pair.people, pair.neighbour, query=query) for pair in pairs]
        people = [who for pair in pairs for who in (pair.people, pair.neighbour)]
        sides = _sides(range(len(pairs)))
        self._job = WatchedRuns(run, {side: (people[i], views[i // 2]) for i, side in enumerate(sides)})
        self._values: dict[str, list[NDArray[Any]]] = {side: [] for side in sides}
        self._end, self._runs, self._execution, self._made = 0, runs, execution, 0
        self._all = sum(len(batch.runs) for batch in search_batches(len(pairs), runs, runs))

    def extend(self, pairs: Sequence[int], end: int) -> None:
        """Make the runs of some pairs up to number ``end``."""
        sides = _sides(pairs)
        columns = {side: len(self._job.sides[side][1]) for side in sides}
        made = outputs(self._job, sides, end, self._counting(), columns=columns, first=self._end)
        for side, values in zip(sides, made, strict=True):
            self._values[side].append(values)
        self._made += len(sides) * (end - self._end)
        self._end = end

    def choose(self, pair: int, *, families: Sequence[Family], alpha: float, delta: float) -> dict[Family, ChosenEvent]:
        """The events that best tell D from D' on all runs of a pair."""
        sides = _sides([pair])
        one, two = (np.concatenate(self._values[side]) for side in sides)
        return choose_events(one, two, *self._job.true_values(sides), families=families, alpha=alpha, delta=delta)

    def test(self, pair: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """New runs of a pair. Their numbers are new to every pair, because some pairs have D in common."""
        self.extend([pair], self._end + self._runs // 2)
        one, two = (self._values[side][-1] for side in _sides([pair]))
        return one, two

    def names(self, pair: int) -> tuple[str, ...]:
        """The views of a pair in words."""
        people, views = self._job.sides[_sides([pair])[0]]
        return tuple(view.words(people.spine, people.schema) for view in views)

    def _counting(self) -> Execution:
        """The execution of one round, whose progress counts the runs of all rounds."""
        report, before, runs = self._execution.progress, self._made, self._all
        if report is None:
            return self._execution
        return replace(self._execution, progress=lambda done, _: report(before + done, runs))


def _sides(pairs: Sequence[int]) -> tuple[str, ...]:
    """The names of both sides of some pairs, as stores name them."""
    return tuple(f"pair{pair + 1:02d}-{side}" for pair in pairs for side in SIDES)


def check_pairs(pairs: int, runs: int, confidence: float, delta: float) -> None:
    """Refuse a search that cannot give a bound."""
    check_audit(runs, confidence, delta)
    if not pairs:
        raise InputError("there are no pairs of neighbours to search. Give one or more.")
    rounds = search_rounds(pairs, runs)
    if rounds[0].runs < FEWEST_IN_ROUND:
        least = 2 * len(rounds) * pairs * FEWEST_IN_ROUND
        raise InputError(
            f"{runs:,} runs a side are too few to search {pairs} pairs of neighbours. Use {least:,} or more."
        )
