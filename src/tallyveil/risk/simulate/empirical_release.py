"""The empirical epsilon of a release after post-processing, by simulation, beside that of its measurements.

Section 6 of kazan2022 asks for an empirical epsilon and notes that post-processing cannot raise the risk. Here the
mechanism is run under two hypotheses about a target, the intruder learns from the released answers of all queries and
levels (``answer_runs``), and the average posterior is converted as for noisy counts (``budget.empirical``). What a
learned intruder achieves is a lower bound of what a release reveals, and the measurements give an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, final

from tallyveil._arrays import Integers
from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.budget import Number, text
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.budget.empirical import implied_epsilon_of
from tallyveil.risk.simulate.answer_runs import AnswerRuns
from tallyveil.risk.simulate.judging import judged
from tallyveil.risk.simulate.simulated import BATCH, check_simulation
from tallyveil.risk.simulate.target_runs import SIDES
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.learned import Learned
from tallyveil.risk.target.learned_answers import LearnedAnswers
from tallyveil.risk.target.target import Target, before_postprocessing
from tallyveil.runs.batches import Execution, RunMechanism, outputs


@final
@dataclass(frozen=True, kw_only=True)
class EmpiricalFigure:
    """A marginal posterior (Eq. 14) and the implied epsilon of one count that reveals as much.

    Standard errors are None for figures that are exact. An epsilon is None where the posterior is 1.
    """

    marginal_posterior: float
    implied_epsilon: float | None
    marginal_posterior_se: float | None = None
    implied_epsilon_low: float | None = None
    implied_epsilon_high: float | None = None

    @classmethod
    def of(cls, posterior: float, prior: Fraction, se: float | None = None) -> EmpiricalFigure:
        """The figure of a marginal posterior; ``low`` and ``high`` are one standard error away."""
        low, high = (None, None) if se is None else (implied_epsilon_of(posterior + d, prior) for d in (-se, se))
        return cls(
            marginal_posterior=posterior,
            implied_epsilon=implied_epsilon_of(posterior, prior),
            marginal_posterior_se=se,
            implied_epsilon_low=low,
            implied_epsilon_high=high,
        )

    def as_json(self) -> dict[str, float | None]:
        """The figures under their JSON keys."""
        exact_ = {"marginal_posterior": self.marginal_posterior, "implied_epsilon": self.implied_epsilon}
        if self.marginal_posterior_se is None:
            return exact_
        names = ("marginal_posterior_se", "implied_epsilon_low", "implied_epsilon_high")
        return exact_ | {name: getattr(self, name) for name in names}


@final
@dataclass(frozen=True, kw_only=True)
class EmpiricalRelease:
    """What measurements and release reveal about a target.

    Attributes
    ----------
    prior, runs
        The intruder's prior, and the number of runs of each hypothesis.
    before
        All measurements, before post-processing: an upper bound for the release.
    after
        The released answers of all measured queries at all levels in which the hypotheses differ.
    after_cell
        The released counts of the target's cell alone, at all levels.
    """

    prior: Fraction
    runs: int
    before: EmpiricalFigure
    after: EmpiricalFigure
    after_cell: EmpiricalFigure

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        parts = {name: getattr(self, name).as_json() for name in ("before", "after", "after_cell")}
        return {"prior": text(self.prior), "runs": self.runs} | parts


def empirical_release(
    run: RunMechanism,
    people: Histogram,
    target: Target,
    *,
    strategy: Strategy,
    priors: list[Number],
    runs: int = 2_000,
    execution: Execution | None = None,
) -> list[EmpiricalRelease]:
    """The empirical epsilon of releases about a target, for each prior, before and after post-processing.

    Parameters
    ----------
    run
        The mechanism. It takes people and a range of run numbers, and gives a release or histogram for each.
    people, target
        The people, including the target, on a tree of at most 200 leaves.
    strategy
        What the mechanism measures.
    priors
        Priors of intruders. All are judged on the same runs.
    runs
        The number of runs of each hypothesis.
    execution
        Batches, processes, store and progress of the runs. The result does not depend on it.

    Examples
    --------
    See docs/risk.md.
    """
    check_simulation(people, runs)
    odds = [Fraction(Intruder(prior=prior).prior) for prior in priors]
    if not odds:
        raise InputError("no prior is given. Give one or more.")
    alternative = target.gone(people)
    bounds = [before_postprocessing(strategy, people, target, prior=prior)[0] for prior in odds]
    job = AnswerRuns(run=run, people=people, alternative=alternative, target=target, strategy=strategy)
    has, has_not = outputs(job, SIDES, runs, execution or Execution(batch=BATCH), columns=job.columns)
    known = job.answers(alternative)[: len(job.path)]
    return [
        EmpiricalRelease(
            prior=prior,
            runs=runs,
            before=EmpiricalFigure.of(bound.marginal_posterior, prior),
            **_after(has, has_not, known, prior),
        )
        for prior, bound in zip(odds, bounds, strict=True)
    ]


def _after(has: Integers, has_not: Integers, known: Integers, prior: Fraction) -> dict[str, EmpiricalFigure]:
    """What was learned from the counts of the cell alone (the first columns), and from all other answers."""
    cell, p = len(known), float(prior)
    learned = {
        "after": judged(has[:, cell:], has_not[:, cell:], LearnedAnswers.from_runs, p),
        "after_cell": judged(has[:, :cell], has_not[:, :cell], partial(Learned.from_runs, known=known), p),
    }
    return {
        name: EmpiricalFigure.of(found["marginal_posterior"], prior, found["marginal_posterior_se"])
        for name, found in learned.items()
    }
