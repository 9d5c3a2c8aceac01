r"""Audit: run a mechanism many times on D and on a neighbour D', and bound its epsilon from below.

If a mechanism is (epsilon, delta)-differentially private for these neighbours, then for every event E

.. math:: P[A(D) \in E] \le e^\varepsilon P[A(D') \in E] + \delta,

so any event gives a lower bound, :math:`\log((p - \delta) / q)`. The event is chosen on the first half of the runs and
tested on the second (choosing and testing on the same runs would find luck); there, p is bounded from below and q from
above, each by Clopper & Pearson at half the chance of error [1]_. So epsilon is at least the bound, with the stated
confidence, whatever the mechanism is. A bound above what was proven means a bug, or a wrong claim; one below it proves
nothing: another event, or other neighbours, might show more.

References
----------
.. [1] Ding, Wang, Wang, Zhang & Kifer, Detecting Violations of Differential Privacy, CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.evaluate.audit.binomial import lower, upper
from tallyveil.evaluate.audit.events import Chosen, Event, Family, Search
from tallyveil.evaluate.audit.views import View, look, neighbours_in_words, views_of
from tallyveil.nouns.histogram import Histogram

Run = Callable[[Histogram, range], Any]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
Store = MutableMapping[str, NDArray[Any]]
Progress = Callable[[int, int], None]
Families = Literal["all", "one-unit", "joint"]
FEWEST = 100  # runs a side below which no bound says anything
NOTE = (
    "A lower bound for these neighbours and the events searched, not an estimate of epsilon. It is computed from the "
    "true counts: for those who may see them."
)


@final
@dataclass(frozen=True, kw_only=True)
class Bound:
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
    one_unit: Bound | None
    joint: Bound | None
    neighbours: str
    proven: float | None
    runs: int
    confidence: float
    delta: float
    views: tuple[str, ...]

    @property
    def bound(self) -> Bound:
        """The bound of the family that looked better on the choosing half."""
        found = self.one_unit if self.best == "one-unit" else self.joint
        assert found is not None
        return found

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
        """What to think of it, in words."""
        at = f" at delta {self.delta:g}" if self.delta else ""
        if self.proven is None:
            return "no proven epsilon was given to compare with"
        if self.exceeds:
            return f"exceeds the proven epsilon {self.proven:.6g}{at}: a bug or a wrong claim"
        return f"consistent with epsilon {self.proven:.6g}{at}"

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
    views: Sequence[View] | None = None,
    confidence: float = 0.95,
    delta: float = 0.0,
    proven: float | None = None,
    events: Families = "all",
    batch: int = 1000,
    map: Map = map,  # noqa: A002
    store: Store | None = None,
    progress: Progress | None = None,
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
    batch, map
        Runs are made in batches of so many, by ``map`` (a pool's, to use several cores). The result depends on neither.
    store
        Where batches are kept, by name: those already there are not run again. ``files.store.FolderStore`` is a folder.
    progress
        Called with how many runs are done, and how many there are (both sides).

    Examples
    --------
    See docs/audit.md.
    """
    check_audit(runs, confidence, delta)
    if batch < 1:
        raise InputError(f"a batch must have 1 run or more. Got {batch} instead.")
    if events not in ("all", "one-unit", "joint"):
        raise InputError(f'events must be "all", "one-unit" or "joint". Got {events!r} instead.')
    neighbours = neighbours_in_words(people, neighbour)
    watched = tuple(views) if views is not None else views_of(people, neighbour)
    one, two = _outputs(
        _Job(run, (people, neighbour), watched), runs, batch, map, {} if store is None else store, progress
    )
    true_one, true_two = (look([side], watched, 1)[0].astype(np.float64) for side in (people, neighbour))
    half, alpha = runs // 2, (1 - confidence) / 2
    search = Search(one=one[:half], two=two[:half], true_one=true_one, true_two=true_two, alpha=alpha, delta=delta)
    families: tuple[Family, ...] = ("one-unit", "joint") if events == "all" else (events,)
    chosen = {family: best for family in families if (best := search.best(family)) is not None}
    if not chosen:
        raise InputError("joint events need two views or more. Add views, or use events='one-unit'.")
    names = tuple(view.words(people.spine, people.schema) for view in watched)
    bounds = {
        family: bound_of(found, one[half:], two[half:], names, alpha=alpha, delta=delta)
        for family, found in chosen.items()
    }
    return Audit(
        best=max(chosen, key=lambda family: chosen[family].bound),
        one_unit=bounds.get("one-unit"),
        joint=bounds.get("joint"),
        neighbours=neighbours,
        proven=None if proven is None else float(proven),
        runs=runs,
        confidence=confidence,
        delta=delta,
        views=names,
    )


def batch_names(runs: int, batch: int) -> list[str]:
    """The names under which an audit keeps its batches.

    >>> batch_names(150, 100)[:2]
    ['people-000000000-000000100', 'neighbour-000000000-000000100']
    """
    return [_key(piece) for piece in _work(runs, batch)]


def bound_of(
    chosen: Chosen, one: NDArray[Any], two: NDArray[Any], names: Sequence[str], *, alpha: float, delta: float = 0.0
) -> Bound:
    """The bound that an event gives on these runs; it holds if the event was chosen without them."""
    likelier, other = (two, one) if chosen.swapped else (one, two)
    hits, misses = (_happened(chosen.event, values) for values in (likelier, other))
    p_low = float(lower(hits, len(likelier), alpha))
    q_high = float(upper(misses, len(other), alpha))
    return Bound(
        epsilon_low=max(0.0, math.log((p_low - delta) / q_high)) if p_low > delta else 0.0,
        event=chosen.event.words(names),
        direction="D' over D" if chosen.swapped else "D over D'",
        p=hits / len(likelier),
        p_low=p_low,
        q=misses / len(other),
        q_high=q_high,
    )


@dataclass(frozen=True)
class _Job:
    """Some runs on one side, as a function that can be sent to another process."""

    run: Run
    sides: tuple[Histogram, Histogram]
    views: tuple[View, ...]

    def __call__(self, work: tuple[int, int, int]) -> NDArray[Any]:
        side, first, last = work
        return look(self.run(self.sides[side], range(first, last)), self.views, last - first)


def _outputs(
    job: _Job, runs: int, batch: int, run_all: Map, store: Store, progress: Progress | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The views' values in all runs, of both sides: those kept, and those made now and kept."""
    work = _work(runs, batch)
    kept = {piece for piece in work if _key(piece) in store}
    done = sum(last - first for _, first, last in kept)
    report = progress or (lambda *_: None)
    report(done, 2 * runs)
    missing = [piece for piece in work if piece not in kept]
    for piece, values in zip(missing, run_all(job, missing), strict=True):
        store[_key(piece)] = values
        done += len(values)
        report(done, 2 * runs)
    one, two = (list(_pieces(job, store, [piece for piece in work if piece[0] == side])) for side in (0, 1))
    return np.concatenate(one), np.concatenate(two)


def _pieces(job: _Job, store: Store, work: Iterable[tuple[int, int, int]]) -> Iterator[NDArray[Any]]:
    for piece in work:
        values = store[_key(piece)]
        if values.shape != (piece[2] - piece[1], len(job.views)):
            raise InputError(
                f"kept runs {_key(piece)} have {' x '.join(map(str, values.shape))} values, not "
                f"{piece[2] - piece[1]} x {len(job.views)}: they belong to another audit. Use another folder."
            )
        yield values


def _work(runs: int, batch: int) -> list[tuple[int, int, int]]:
    """The batches of both sides: side, first run, the run after the last."""
    return [(side, first, min(first + batch, runs)) for first in range(0, runs, batch) for side in (0, 1)]


def _key(work: tuple[int, int, int]) -> str:
    side, first, last = work
    return f"{'people' if side == 0 else 'neighbour'}-{first:09d}-{last:09d}"


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
