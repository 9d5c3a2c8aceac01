r"""What an intruder learns from released counts after post-processing, by simulation (kazan2022, section 6).

Released counts are non-negative integers that add up, and no formula gives their distribution. So the mechanism is run
many times on the people with the target, and many times on the people with the alternative. The intruder can do the
same, since they know everybody but the target and how counts are made. They see a tuple of integers: the counts of the
target's cell in its leaf and in all units above. Let pi be the posterior probability of the target given that tuple.
(The other counts of the release could reveal more, up to the bound below.)

**The posterior is learned on one half of the runs and judged on the other**; then the halves are swapped. For any
estimate q of pi, with T = 1 where the target has the cell and 0 otherwise,

.. math:: p\,M = E[\pi^2] \ge 2 E[T q] - E[q^2], \quad \text{the difference being } E[(\pi - q)^2].

M is the marginal posterior (Eq. 14: :math:`E[\pi \mid T = 1] = E[T \pi] / p`). The right side divided by p is reported.
Apart from chance it is never above the true value, however badly q was learned, and it falls short by the mean squared
error of q. (The mean of q itself may lie on either side.)

**The bound** is that of the measurements before post-processing. The release is computed from them, so pi is an average
of their posterior over all measurements that give this tuple, and by Jensen's inequality :math:`E[\pi^2]` is at most
theirs. The same holds for :math:`E[\max(\pi, 1 - \pi)]`, the probability of a right decision whichever hypothesis holds
(``accuracy``: one minus the Bayes error). The probability of a right decision *given that the target has the cell*
(Eq. 18) has no such bound at any prior: an intruder who claims more often is right about more targets, and wrong about
more others. At p = 1/2, a release that shows only whether noise was below -100 is nearly always claimed. Where p = 1/2
and there are no ties, ``right_decision`` of the measurements equals their ``accuracy``, because they are symmetric, and
so bounds the accuracy of the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.budget import Number
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.simulate.judging import judged
from tallyveil.risk.simulate.target_runs import SIDES, TargetRuns
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.learned import Learned
from tallyveil.risk.target.target import Figures, Target, before_postprocessing
from tallyveil.runs.batches import Execution, RunMechanism, outputs

MOST_LEAVES = 200
FEWEST = 100  # runs of each hypothesis
BATCH = 250  # runs that are made together


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """What an intruder learns from released counts; all figures but ``accuracy`` are for a target who has the cell.

    Attributes
    ----------
    prior, runs
        The intruder's prior, and the number of runs of each hypothesis.
    levels
        The levels whose counts of the target's cell are seen, from the leaf to the root.
    marginal_posterior, right_decision, accuracy
        As in Figures, judged on runs that were not used to learn. An error in the marginal posterior makes it too
        small.
    marginal_posterior_se, right_decision_se, accuracy_se
        Monte Carlo standard errors of the judging runs, given what was learned (1 over their number if all agree).
        Right decisions also depend on the learned rule, so theirs is at least half the difference of the two halves.
    bound, alone
        What the measurements before post-processing reveal: all of them, and the leaf's detailed count alone.
    learned
        The posterior learned from all runs together.
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
        """The posterior given the released counts of the levels (last dimension), learned from all runs."""
        counts = np.asarray(released)
        if counts.shape[-1:] != (len(self.levels),) or (counts != np.floor(counts)).any():
            raise InputError(f"give a whole number for each of {', '.join(self.levels)}. Got {released!r} instead.")
        rows = counts.reshape(-1, len(self.levels)).astype(np.int64)
        return self.learned.posterior(rows, float(self.prior)).reshape(counts.shape[:-1])

    def posterior_se(self, released: Sequence[int]) -> float:
        """The standard error of the posterior given one tuple, from the log odds of the runs that gave this tuple."""
        q = float(self.posterior(released))
        has, has_not = self.learned.seen.get(tuple(int(count) for count in released), (0, 0))
        return q * (1 - q) * float(np.sqrt(1 / (has + 0.5) + 1 / (has_not + 0.5)))

    def tuples(self, most: int = 20) -> list[dict[str, Any]]:
        """The most common tuples: counts, posterior with its standard error, and runs of each hypothesis."""
        common = sorted(self.learned.seen.items(), key=lambda item: (-sum(item[1]), item[0]))[:most]
        return [
            {
                "counts": list(counts),
                "posterior": float(self.posterior(counts)),
                "posterior_se": self.posterior_se(counts),
                "runs_has": has,
                "runs_not": has_not,
            }
            for counts, (has, has_not) in common
        ]

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
    run: RunMechanism,
    people: Histogram,
    target: Target,
    *,
    prior: Number,
    runs: int = 20_000,
    strategy: Strategy | None = None,
    execution: Execution | None = None,
) -> Simulated:
    """Simulate what an intruder who knows everybody but the target learns from released counts.

    Parameters
    ----------
    run
        The mechanism. It takes people and a range of run numbers, and returns a release or histogram for each run,
        Estimates with as many replicates, or an array (runs x levels, leaf first). Different run numbers must give
        independent outputs.
    people, target
        The people, including the target, on a tree of at most 200 leaves.
    prior
        The intruder's prior probability that the target has the cell.
    runs
        The number of runs of each hypothesis.
    strategy
        What the mechanism measures, from which the bound is computed. None for no bound.
    execution
        Batches, processes, store and progress of the runs. The result does not depend on it.

    Examples
    --------
    See docs/risk.md.
    """
    check_simulation(people, runs)
    intruder, alternative = Intruder(prior=prior), target.gone(people)
    bound, alone = (None, None) if strategy is None else before_postprocessing(strategy, people, target, prior=prior)
    job = TargetRuns(run=run, people=people, alternative=alternative, target=target)
    has, has_not = outputs(job, SIDES, runs, execution or Execution(batch=BATCH), columns=len(job.path))
    known = job.released_counts([alternative], 1)[0]
    return Simulated(
        prior=Fraction(intruder.prior),
        runs=runs,
        levels=tuple(job.path),
        **judged(has, has_not, partial(Learned.from_runs, known=known), float(intruder.prior)),
        bound=bound,
        alone=alone,
        learned=Learned.from_runs(has, has_not, known),
    )


def check_simulation(people: Histogram, runs: int) -> None:
    """Refuse a simulation that would take too long, or that has too few runs to show anything."""
    if people.leaves.units > MOST_LEAVES:
        raise InputError(
            f"the tree has {people.leaves.units:,} leaves; simulations are for {MOST_LEAVES} at most. Cut it to the "
            f"target's surroundings, such as one tract."
        )
    if runs < FEWEST:
        raise InputError(f"{runs} runs of each hypothesis are too few. Use {FEWEST} or more; 20,000 is usual.")
