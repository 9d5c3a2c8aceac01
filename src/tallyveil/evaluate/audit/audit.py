r"""Audit: run a mechanism many times on D and on a neighbour D', and bound its epsilon from below.

If a mechanism is (epsilon, delta)-differentially private for these neighbours, then for every event E

.. math:: P[A(D) \in E] \le e^\varepsilon P[A(D') \in E] + \delta,

so any event gives a lower bound, :math:`\log((p - \delta) / q)`. The event is chosen on the first half of the runs and
tested on the second, because the event that looks best on some runs is partly lucky there. On the second half, p is
bounded from below and q from above, each by Clopper & Pearson at half the probability of error [1]_. Epsilon is
therefore at least the bound, with the stated confidence, for any mechanism. A bound above the proven epsilon means a
bug or a wrong claim. A bound below it proves nothing, because another event or other neighbours might show more.

References
----------
.. [1] Ding, Wang, Wang, Zhang & Kifer, Detecting Violations of Differential Privacy, CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.evaluate.audit.binomial import lower, upper
from tallyveil.evaluate.audit.events import ChosenEvent, Event
from tallyveil.evaluate.audit.learners import Learner, check_learner
from tallyveil.evaluate.audit.result import Audit, EventBound
from tallyveil.evaluate.audit.search import Family, Search
from tallyveil.evaluate.audit.views import AuditView, look, neighbours_in_words, views_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.runs.batches import Execution, RunBatch, RunMechanism, outputs

Families = Literal["all", "one-unit", "joint"]
Chosen = Mapping[Family, ChosenEvent]
SIDES = ("people", "neighbour")  # D and D', as stores name them
FEWEST = 100  # runs a side below which no bound is informative


def audit(
    run: RunMechanism,
    people: Histogram,
    neighbour: Histogram,
    *,
    runs: int,
    views: Sequence[AuditView] | None = None,
    confidence: float = 0.95,
    delta: float = 0.0,
    proven: float | None = None,
    events: Families = "all",
    learner: Learner = "linear",
    execution: Execution | None = None,
) -> Audit:
    """Bound the epsilon of a mechanism from below, by runs on two neighbours (see docs/audit.md for an example).

    Parameters
    ----------
    run
        The mechanism: a function of people and a range of run numbers that returns one output per run, as an array of
        runs x views, Estimates with as many replicates, or a sequence of histograms, releases or samples. The same
        number must always give the same output, and different numbers independent ones.
    people, neighbour
        D and D', which differ by one person moved, added or removed.
    runs
        Number of runs on each: half to choose the event, half to test it.
    views
        Released counts to compare; by default all that differ between D and D' (``views_of``).
    confidence
        Confidence level of the bound, for each family of events.
    delta
        Bound the epsilon of (epsilon, delta)-differential privacy. Needed for Gaussian noise.
    proven
        The epsilon claimed for these neighbours at this delta.
    events
        Events to search: ``"one-unit"``, ``"joint"`` or ``"all"``.
    learner
        ``"trees"`` also searches the scores of boosted trees (needs scikit-learn), beside the events above.
    execution
        How the runs are batched, distributed over processes and stored. The result does not depend on it.
    """
    check_audit(runs, confidence, delta)
    check_learner(learner)
    if events not in ("all", "one-unit", "joint"):
        raise InputError(f'events must be "all", "one-unit" or "joint". Got {events!r} instead.')
    neighbours = neighbours_in_words(people, neighbour)
    watched = tuple(views) if views is not None else views_of(people, neighbour)
    names = tuple(view.words(people.spine, people.schema) for view in watched)
    job = WatchedRuns(run, {side: (who, watched) for side, who in zip(SIDES, (people, neighbour), strict=True)})
    one, two = outputs(job, SIDES, runs, execution or Execution(), columns=len(watched))
    half, alpha = runs // 2, (1 - confidence) / 2
    families: tuple[Family, ...] = ("one-unit", "joint") if events == "all" else (events,)
    chosen = choose_events(
        one[:half],
        two[:half],
        *job.true_values(SIDES),
        families=(*families, "learned") if learner == "trees" else families,
        alpha=alpha,
        delta=delta,
    )
    if not chosen:
        raise InputError("joint events need two views or more. Add views, or use events='one-unit'.")
    return Audit(
        **best_and_bounds(chosen, one[half:], two[half:], names, alpha=alpha, delta=delta),
        neighbours=neighbours,
        proven=None if proven is None else float(proven),
        runs=runs,
        confidence=confidence,
        delta=delta,
        views=names,
    )


def choose_events(
    one: NDArray[Any],
    two: NDArray[Any],
    true_one: Floats,
    true_two: Floats,
    *,
    families: Sequence[Family],
    alpha: float,
    delta: float,
) -> dict[Family, ChosenEvent]:
    """The event of each family that best tells the runs on D from those on D'; a family may have none."""
    search = Search(one=one, two=two, true_one=true_one, true_two=true_two, alpha=alpha, delta=delta)
    return {family: event for family in families if (event := search.best(family)) is not None}


def best_family(chosen: Chosen) -> Family:
    """The family whose event looked best on the runs it was chosen on."""
    return max(chosen, key=lambda family: chosen[family].bound)


def best_and_bounds(
    chosen: Chosen, one: NDArray[Any], two: NDArray[Any], names: Sequence[str], *, alpha: float, delta: float
) -> dict[str, Any]:
    """The family that looked best, and what the event of each family says on runs that it was not chosen on."""
    bounds = {
        family.replace("-", "_"): bound_of(event, one, two, names, alpha=alpha, delta=delta)
        for family, event in chosen.items()
    }
    return {"best": best_family(chosen), "one_unit": None, "joint": None, **bounds}


def bound_of(
    chosen: ChosenEvent, one: NDArray[Any], two: NDArray[Any], names: Sequence[str], *, alpha: float, delta: float = 0.0
) -> EventBound:
    """The bound that an event gives on these runs; it is valid if the event was chosen without them."""
    likelier, other = (two, one) if chosen.swapped else (one, two)
    hits, misses = (_happened(chosen.event, values) for values in (likelier, other))
    p_low = float(lower(hits, len(likelier), alpha))
    q_high = float(upper(misses, len(other), alpha))
    return EventBound(
        epsilon_low=max(0.0, math.log((p_low - delta) / q_high)) if p_low > delta else 0.0,
        event=chosen.event.words(names),
        direction="D' over D" if chosen.swapped else "D over D'",
        p=hits / len(likelier),
        p_low=p_low,
        q=misses / len(other),
        q_high=q_high,
    )


@dataclass(frozen=True)
class WatchedRuns:
    """The views' values in a batch of runs, as a function that can be sent to another process.

    ``sides`` has the people of each side, and the views through which they are seen.
    """

    run: RunMechanism
    sides: Mapping[str, tuple[Histogram, tuple[AuditView, ...]]]

    def __call__(self, batch: RunBatch) -> NDArray[Any]:
        """The values of the views in each run of a batch (runs x views)."""
        people, views = self.sides[batch.side]
        return look(self.run(people, batch.runs), views, len(batch.runs))

    def true_values(self, sides: Sequence[str]) -> list[Floats]:
        """The true values of the views on some sides."""
        watched = (self.sides[side] for side in sides)
        return [look([people], views, 1)[0].astype(np.float64) for people, views in watched]


def _happened(event: Event, values: NDArray[Any]) -> int:
    return int(np.count_nonzero(event.holds(values)))


def check_audit(runs: int, confidence: float, delta: float) -> None:
    """Refuse an audit that cannot give a bound."""
    if runs < FEWEST:
        raise InputError(f"{runs} runs a side are too few for a bound. Use {FEWEST} or more; 20,000 is usual.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, such as 0.95. Got {confidence} instead.")
    if not 0 <= delta < 1:
        raise InputError(f"delta must be 0 or more and below 1. Got {delta} instead.")
