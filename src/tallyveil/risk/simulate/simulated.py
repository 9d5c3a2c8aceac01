r"""After post-processing: what an intruder learns from released counts, by simulation (kazan2022, section 6).

Released counts are whole, not negative and add up; no formula gives their distribution. So the mechanism is run many
times on the people with the target, and on the people with the alternative. The intruder can do that too: they know
everybody but the target, and how counts are made. They see the counts of the target's cell in its leaf and in all units
above, a tuple of whole numbers; let pi be the posterior probability of the target given the tuple. (The release's other
counts could tell them more, up to the bound below.)

**Learned on one half of the runs, judged on the other**; then the halves are swapped. For any guess q of pi, with
T = 1 where the target has the cell and else 0,

.. math:: p\,M = E[\pi^2] \ge 2 E[T q] - E[q^2], \quad \text{the difference being } E[(\pi - q)^2].

M is the marginal posterior (Eq. 14: :math:`E[\pi \mid T = 1] = E[T \pi] / p`). What is reported is the right side, over
p: but for chance it is never above the truth, however badly q was learned, and falls short of it by the square of what
q is off. (The mean of q itself may lie on either side.)

**The bound** is for the measurements before post-processing. The release is made from them, so pi is their posterior
averaged over all that gives this tuple, and by Jensen :math:`E[\pi^2]` is not larger than theirs. Neither is
:math:`E[\max(\pi, 1 - \pi)]`, the probability of a right decision whichever hypothesis holds (``accuracy``: one less
the Bayes error). The probability of a right decision *given that the target has the cell* (Eq. 18) has no such bound,
at any prior: whoever claims more often is right about more targets, and wrong about more others. At p = 1/2, a release
that shows no more than whether noise was below -100 is nearly always claimed. Where p = 1/2 and nothing ties,
``right_decision`` of the measurements is their ``accuracy``, as they are symmetric, and so bounds that of the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED
from tallyveil.privacy.budget import Number
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.release import Release
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.learned import Learned
from tallyveil.risk.target.target import Figures, Target, before_postprocessing, path_of

Run = Callable[[Histogram, range], Any]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
Store = MutableMapping[str, NDArray[Any]]
MOST_LEAVES = 200
FEWEST = 100  # runs of each hypothesis


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """What an intruder learns from released counts; figures are for a target who has the cell but for ``accuracy``.

    Attributes
    ----------
    prior, runs
        The intruder's prior, and how many runs of each hypothesis.
    levels
        Which counts of the target's cell are seen: the leaf's first, the root's last.
    marginal_posterior, right_decision, accuracy
        As in Figures, judged on runs that nothing was learned from. The marginal posterior falls short of the truth if
        it errs.
    marginal_posterior_se, right_decision_se, accuracy_se
        Monte Carlo standard errors of the judging runs, given what was learned (1 over their number if all agree).
        Right decisions depend on the learned rule too: there, half the difference of the two halves if that is larger.
    bound, alone
        What the measurements before post-processing tell: all of them, and the leaf's detailed count alone.
    learned
        What all runs together teach.
    """

    prior: Fraction
    runs: int
    levels: tuple[str, ...]
    marginal_posterior: float
    marginal_posterior_se: float
    right_decision: float
    right_decision_se: float
    accuracy: float
    accuracy_se: float
    bound: Figures | None
    alone: Figures | None
    learned: Learned

    @property
    def risk(self) -> float:
        """Average posterior over prior, R (Eq. 15)."""
        return self.marginal_posterior / float(self.prior)

    def posterior(self, released: ArrayLike) -> Floats:
        """The posterior given the released counts of the levels, in the last dimension; learned from all runs."""
        counts = np.asarray(released)
        if counts.shape[-1:] != (len(self.levels),) or (counts != np.floor(counts)).any():
            raise InputError(f"give a whole number for each of {', '.join(self.levels)}. Got {released!r} instead.")
        rows = counts.reshape(-1, len(self.levels)).astype(np.int64)
        return self.learned.posterior(rows, float(self.prior)).reshape(counts.shape[:-1])

    def posterior_se(self, released: Sequence[int]) -> float:
        """The standard error of the posterior given one tuple, by the runs that gave it (from that of the log odds)."""
        q = float(self.posterior(released))
        has, not_ = self.learned.seen.get(tuple(int(count) for count in released), (0, 0))
        return q * (1 - q) * float(np.sqrt(1 / (has + 0.5) + 1 / (not_ + 0.5)))

    def tuples(self, most: int = 20) -> list[dict[str, Any]]:
        """The commonest tuples: their counts, posterior, its standard error by their own runs, and these."""
        common = sorted(self.learned.seen.items(), key=lambda item: (-sum(item[1]), item[0]))[:most]
        told = []
        for counts, (has, not_) in common:
            q, error = float(self.posterior(counts)), self.posterior_se(counts)
            told.append(
                {"counts": list(counts), "posterior": q, "posterior_se": error, "runs_has": has, "runs_not": not_}
            )
        return told

    def as_json(self, most: int = 20) -> dict[str, Any]:
        """The figures under their JSON keys."""
        return {
            "runs": self.runs,
            "prior": float(self.prior),
            "marginal_posterior": self.marginal_posterior,
            "marginal_posterior_se": self.marginal_posterior_se,
            "risk": self.risk,
            "risk_se": self.marginal_posterior_se / float(self.prior),
            "right_decision": self.right_decision,
            "right_decision_se": self.right_decision_se,
            "accuracy": self.accuracy,
            "accuracy_se": self.accuracy_se,
            "bound": None if self.bound is None else self.bound.as_json(),
            "alone": None if self.alone is None else self.alone.as_json(),
            "levels": list(self.levels),
            "tuples": self.tuples(most),
        }


def simulate(
    run: Run,
    people: Histogram,
    target: Target,
    *,
    prior: Number,
    runs: int = 20_000,
    strategy: Strategy | None = None,
    batch: int = 250,
    map: Map = map,  # noqa: A002
    store: Store | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Simulated:
    """What an intruder who knows everybody but the target learns from released counts, by runs of the mechanism.

    Parameters
    ----------
    run
        The mechanism: gets people and the numbers of some runs (a range), and gives a release or histogram for each,
        Estimates with as many replicates, or an array of runs x levels, leaf first. Different numbers must give
        independent outputs (a replicate's number).
    people, target
        The people, the target among them, on a tree of at most 200 leaves.
    prior
        The intruder's, that the target has the cell.
    runs
        How many for each hypothesis.
    strategy
        What the mechanism measures, for the bound; None where there is none.
    batch, map
        Runs are made in batches of so many, by ``map`` (a pool's, to use several cores). The result depends on neither.
    store
        Where batches are kept, by name: those already there are not run again.
    progress
        Called with how many runs are done, and how many there are (both hypotheses).

    Examples
    --------
    See docs/risk.md.
    """
    check_simulation(people, runs)
    if batch < 1:
        raise InputError(f"a batch must have 1 run or more. Got {batch} instead.")
    intruder, other = Intruder(prior=prior), target.gone(people)
    bound, alone = (None, None) if strategy is None else before_postprocessing(strategy, people, target, prior=prior)
    job = _Job(run, (people, other), target)
    has, not_ = _outputs(job, runs, batch, map, {} if store is None else store, progress)
    known = job.seen([other], 1)[0]
    p, half = float(Fraction(intruder.prior)), runs // 2
    squared, claimed, right = np.empty(runs), np.empty(runs), np.empty(runs)
    for learn, judge in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        learned = Learned.from_runs(has[learn], not_[learn], known)
        q, q_not = (learned.posterior(side[judge], p) for side in (has, not_))
        squared[judge] = 2 * q - q**2 - (1 - p) / p * q_not**2
        claimed[judge] = q > 0.5 + 1e-9  # strictly (Eq. 18)
        right[judge] = p * claimed[judge] + (1 - p) * (q_not <= 0.5 + 1e-9)
    swing = abs(claimed[:half].mean() - claimed[half:].mean()) / 2
    return Simulated(
        prior=Fraction(intruder.prior),
        runs=runs,
        levels=tuple(path_of(people.spine, target.leaf)),
        marginal_posterior=float(squared.mean()),
        marginal_posterior_se=_error(squared),
        right_decision=float(claimed.mean()),
        right_decision_se=max(_error(claimed), float(swing)),
        accuracy=float(right.mean()),
        accuracy_se=_error(right),
        bound=bound,
        alone=alone,
        learned=Learned.from_runs(has, not_, known),
    )


def check_simulation(people: Histogram, runs: int) -> None:
    """Refuse a simulation that would take too long, or say nothing."""
    if people.leaves.units > MOST_LEAVES:
        raise InputError(
            f"the tree has {people.leaves.units:,} leaves; simulations are for {MOST_LEAVES} at most. Cut it to the "
            f"target's surroundings, such as one tract."
        )
    if runs < FEWEST:
        raise InputError(f"{runs} runs of each hypothesis are too few. Use {FEWEST} or more; 20,000 is usual.")


def batch_names(runs: int, batch: int) -> list[str]:
    """The names under which a simulation keeps its batches.

    >>> batch_names(150, 100)[:2]
    ['has-000000000-000000100', 'not-000000000-000000100']
    """
    return [_key(piece) for piece in _work(runs, batch)]


@dataclass(frozen=True)
class _Job:
    """Some runs of one hypothesis, as a function that can be sent to another process."""

    run: Run
    sides: tuple[Histogram, Histogram]
    target: Target

    def __call__(self, work: tuple[int, int, int]) -> Integers:
        side, first, last = work
        return self.seen(self.run(self.sides[side], range(first, last)), last - first)

    def seen(self, output: Any, runs: int) -> Integers:
        """The released counts of the target's cell, runs x levels."""
        spine, cell = self.sides[0].spine, self.target.cell
        path = path_of(spine, self.target.leaf)
        if isinstance(output, Estimates):
            levels = [output.answer(DETAILED, level=level)[:, unit, cell] for level, unit in path.items()]
            values: NDArray[Any] = np.stack(levels, axis=1)
        elif isinstance(output, np.ndarray):
            values = output
        else:
            spans = [spine.leaves_under(level)[unit : unit + 2] for level, unit in path.items()]
            values = np.array([_counts_in(one, cell, spans) for one in output])
        if values.shape != (runs, len(path)) or values.dtype.kind not in "iuf" or (values != np.floor(values)).any():
            raise InputError(
                f"the mechanism gave {' x '.join(map(str, values.shape))} values of {values.dtype} for {runs:,} runs "
                f"and {len(path)} levels. Give whole numbers, a row for each run and a column for each level."
            )
        return values.astype(np.int64)


def _counts_in(output: Histogram | Release, cell: int, spans: list[Integers]) -> list[int]:
    leaves = (output.histogram if isinstance(output, Release) else output).leaves
    at = leaves.cell == cell
    unit, count = leaves.unit()[at], leaves.count[at]
    return [int(count[(unit >= first) & (unit < last)].sum()) for first, last in spans]


def _outputs(
    job: _Job, runs: int, batch: int, run_all: Map, store: Store, progress: Callable[[int, int], None] | None
) -> tuple[Integers, Integers]:
    """What was seen in all runs, of both hypotheses: those kept, and those made now and kept."""
    work, report = _work(runs, batch), progress or (lambda *_: None)
    missing = [piece for piece in work if _key(piece) not in store]
    done = 2 * runs - sum(last - first for _, first, last in missing)
    report(done, 2 * runs)
    for piece, values in zip(missing, run_all(job, missing), strict=True):
        store[_key(piece)] = values
        done += len(values)
        report(done, 2 * runs)
    has, not_ = (np.concatenate([store[_key(piece)] for piece in work if piece[0] == side]) for side in (0, 1))
    return has, not_


def _work(runs: int, batch: int) -> list[tuple[int, int, int]]:
    """The batches of both hypotheses: which, first run, the run after the last."""
    return [(side, first, min(first + batch, runs)) for first in range(0, runs, batch) for side in (0, 1)]


def _key(work: tuple[int, int, int]) -> str:
    side, first, last = work
    return f"{'not' if side else 'has'}-{first:09d}-{last:09d}"


def _error(values: Floats) -> float:
    if np.ptp(values) == 0:  # what was not seen in so many runs may yet happen in one of as many
        return 1 / len(values)
    return float(values.std(ddof=1) / np.sqrt(len(values)))
