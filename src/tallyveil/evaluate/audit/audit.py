r"""Audit: run a mechanism many times on D and on a neighbour D', and bound its epsilon from below.

If a mechanism is (epsilon, delta)-differentially private for these neighbours, then for every event E

.. math:: P[A(D) \in E] \le e^\varepsilon P[A(D') \in E] + \delta,

so any event gives a lower bound, :math:`\log((p - \delta) / q)`. The event is chosen on the first half of the runs and
tested on the second, since the event that looks best on some runs is partly lucky there. On the second half, p is
bounded from below and q from above, each by Clopper & Pearson at half the probability of error [1]_. So epsilon is at
least the bound, with the stated confidence, whatever the mechanism is. A bound above the proven epsilon means a bug or
a wrong claim. A bound below it proves nothing: another event, or other neighbours, might show more.

References
----------
.. [1] Ding, Wang, Wang, Zhang & Kifer, Detecting Violations of Differential Privacy, CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.evaluate.audit.binomial import lower, upper
from tallyveil.evaluate.audit.events import Chosen, Event, Family, Search
from tallyveil.evaluate.audit.views import AuditView, look, neighbours_in_words, views_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.runs.batches import Batch, Execution, Run, outputs

Families = Literal["all", "one-unit", "joint"]
Outputs = tuple[NDArray[Any], NDArray[Any]]
SIDES = ("people", "neighbour")  # D and D', as stores name them
FEWEST = 100  # runs a side below which no bound is informative
NOTE = (
    "A lower bound for these neighbours and the events searched, not an estimate of epsilon. It is computed from the "
    "true counts and is not for publication."
)


@final
@dataclass(frozen=True, kw_only=True)
class EventBound:
    """What one event says about epsilon, tested on runs that it was not chosen on.

    Attributes
    ----------
    epsilon_low
        Epsilon is at least this, with the audit's confidence.
    event, direction
        The event in words, and which neighbour it is likelier on.
    p, q
        How often it happened where it is likelier, and on the other.
    p_low, q_high
        The bounds on these probabilities.
    """

    epsilon_low: float
    event: str
    direction: Literal["D over D'", "D' over D"]
    p: float
    p_low: float
    q: float
    q_high: float


@final
@dataclass(frozen=True, kw_only=True)
class Audit:
    """A lower bound on epsilon, and what was done to get it.

    Attributes
    ----------
    best
        Which family of events looked better on the choosing half: its bound is the audit's.
    one_unit, joint
        The bound from events on one view, and from events on several; each holds with the confidence by itself.
    neighbours
        Which neighbours were compared.
    proven
        The epsilon (at ``delta``) that is claimed for these neighbours, if given.
    runs
        How many on each side, both halves together.
    """

    best: Family
    one_unit: EventBound | None
    joint: EventBound | None
    neighbours: str
    proven: float | None
    runs: int
    confidence: float
    delta: float
    views: tuple[str, ...]

    @property
    def bound(self) -> EventBound:
        """The bound of the family that looked better on the choosing half."""
        bound = self.one_unit if self.best == "one-unit" else self.joint
        assert bound is not None
        return bound

    @property
    def epsilon_low(self) -> float:
        """Epsilon is at least this, with the stated confidence."""
        return self.bound.epsilon_low

    @property
    def exceeds(self) -> bool:
        """Whether the bound is above what was proven."""
        return self.proven is not None and self.epsilon_low > self.proven

    @property
    def verdict(self) -> str:
        """How the bound compares with the proven epsilon, in words."""
        at_delta = f" at delta {self.delta:g}" if self.delta else ""
        if self.proven is None:
            return "no proven epsilon was given to compare with"
        if self.exceeds:
            return f"exceeds the proven epsilon {self.proven:.6g}{at_delta}: a bug or a wrong claim"
        return f"consistent with epsilon {self.proven:.6g}{at_delta}"

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        return {
            **asdict(self.bound),
            "proven": self.proven,
            "exceeds": self.exceeds,
            "verdict": self.verdict,
            "neighbours": self.neighbours,
            "runs": self.runs,
            "confidence": self.confidence,
            "delta": self.delta,
            "one_unit": None if self.one_unit is None else asdict(self.one_unit),
            "joint": None if self.joint is None else asdict(self.joint),
            "views": list(self.views),
            "note": NOTE,
        }


def audit(
    run: Run,
    people: Histogram,
    neighbour: Histogram,
    *,
    runs: int,
    views: Sequence[AuditView] | None = None,
    confidence: float = 0.95,
    delta: float = 0.0,
    proven: float | None = None,
    events: Families = "all",
    execution: Execution | None = None,
) -> Audit:
    """A lower bound on a mechanism's epsilon from runs on two neighbours.

    Parameters
    ----------
    run
        The mechanism: gets people and the numbers of some runs (a range), and gives one output for each: an array of
        runs x views, Estimates with as many replicates, or a sequence of histograms, releases or samples. Run number r
        must always give the same, and different numbers independent outputs (a replicate's number).
    people, neighbour
        D and D', which differ by one person moved, added or removed.
    runs
        How many runs on each: half to choose the event, half to test it.
    views
        Which released counts to look at; by default all that differ between D and D' (``views_of``).
    confidence
        That the bound holds, for each of the families of events.
    delta
        Bound the epsilon of (epsilon, delta)-differential privacy. Needed for Gaussian noise.
    proven
        The epsilon that is claimed for these neighbours at this delta.
    events
        Which events to search: ``"one-unit"``, ``"joint"`` or ``"all"``.
    execution
        In which batches and processes the runs are made, and where they are kept. The result does not depend on it.

    Examples
    --------
    See docs/audit.md.
    """
    check_audit(runs, confidence, delta)
    if events not in ("all", "one-unit", "joint"):
        raise InputError(f'events must be "all", "one-unit" or "joint". Got {events!r} instead.')
    neighbours = neighbours_in_words(people, neighbour)
    watched = tuple(views) if views is not None else views_of(people, neighbour)
    names = tuple(view.words(people.spine, people.schema) for view in watched)
    job = _WatchedRuns(run, dict(zip(SIDES, (people, neighbour), strict=True)), watched)
    values = outputs(job, SIDES, runs, execution or Execution(), columns=len(watched))
    best, bounds = _bounds(job, values, names, events=events, alpha=(1 - confidence) / 2, delta=delta)
    return Audit(
        best=best,
        one_unit=bounds.get("one-unit"),
        joint=bounds.get("joint"),
        neighbours=neighbours,
        proven=None if proven is None else float(proven),
        runs=runs,
        confidence=confidence,
        delta=delta,
        views=names,
    )


def _bounds(
    job: _WatchedRuns, values: Outputs, names: Sequence[str], *, events: Families, alpha: float, delta: float
) -> tuple[Family, dict[Family, EventBound]]:
    """The bound of each family, and the family that looked best on the half of the runs that events are chosen on."""
    one, two = values
    half = len(one) // 2
    true_one, true_two = (look([side], job.views, 1)[0].astype(np.float64) for side in job.sides.values())
    search = Search(one=one[:half], two=two[:half], true_one=true_one, true_two=true_two, alpha=alpha, delta=delta)
    families: tuple[Family, ...] = ("one-unit", "joint") if events == "all" else (events,)
    chosen = {family: event for family in families if (event := search.best(family)) is not None}
    if not chosen:
        raise InputError("joint events need two views or more. Add views, or use events='one-unit'.")
    bounds = {
        family: bound_of(event, one[half:], two[half:], names, alpha=alpha, delta=delta)
        for family, event in chosen.items()
    }
    return max(chosen, key=lambda family: chosen[family].bound), bounds


def bound_of(
    chosen: Chosen, one: NDArray[Any], two: NDArray[Any], names: Sequence[str], *, alpha: float, delta: float = 0.0
) -> EventBound:
    """The bound that an event gives on these runs; it holds if the event was chosen without them."""
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
class _WatchedRuns:
    """The views' values in a batch of runs, as a function that can be sent to another process."""

    run: Run
    sides: dict[str, Histogram]
    views: tuple[AuditView, ...]

    def __call__(self, batch: Batch) -> NDArray[Any]:
        return look(self.run(self.sides[batch.side], batch.runs), self.views, len(batch.runs))


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
