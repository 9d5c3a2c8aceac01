r"""Answers from the whole subtree of a unit, centred on its released parent: ``estimator = "tree"``.

At each level with information from below, the solver gets the best linear unbiased answers to the strategy's own
queries instead of the unit's own noisy ones. With the estimates from below :math:`x^-_c` of covariance :math:`V^-_c`
(``blue.subtrees``) and the released parent P,

.. math:: \hat x_c = x^-_c + V^-_c S^+ \big(P - \textstyle\sum_k x^-_k\big), \qquad S = \sum_k V^-_k.

These sum to the parent, so where no inequality binds they are the estimate, whatever the weights. The weights decide
how a table moves where an inequality binds (``fitted_weights``). Constraints, solver, rounding and
proofs are TopDown's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import final

import numpy as np

from tallyveil._arrays import Floats
from tallyveil._workers import Run
from tallyveil.blue.decomposition import Marginal
from tallyveil.blue.linear import applied
from tallyveil.blue.problem import Problem, problem_of
from tallyveil.blue.subtrees import StageEstimates, numbers_held, subtree_estimates
from tallyveil.blue.upward import RUN_NUMBERS, inverse_of_sums
from tallyveil.engine.answers import Answers, OwnAnswers, passes_of
from tallyveil.engine.estimate.one_thread import one_thread
from tallyveil.engine.estimate.problem import Asked, places_of, rows_of
from tallyveil.engine.fitted_weights import fitted_weights
from tallyveil.engine.nests import Nests, some_nests
from tallyveil.errors import UndeterminedError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.schema import DETAILED
from tallyveil.release.measurements import Measurements

FIRST_DEPTH = 1  # of the levels that use information from below; the root has no parent to be centred on

MOST_HELD = 1 << 29  # numbers about all units (4 GiB); where more would be held, units have their own answers


def answers_of(measurements: Measurements, facilities: Facilities | None) -> Answers:
    """The answers that the strategy's estimator uses."""
    own = OwnAnswers(measurements)
    if measurements.strategy.estimator == "topdown":
        return own
    problem = information_problem(measurements, facilities)
    return own if problem is None else TreeAnswers(own, problem)


def information_problem(measurements: Measurements, facilities: Facilities | None) -> Problem | None:
    """The least-squares problem of the tree down to the information's level.

    None if it determines nothing, or if what subtrees say does not fit into memory.
    """
    try:
        problem = problem_of(
            measurements,
            [measurements.schema.query(DETAILED)],
            facilities=facilities,
            finest=measurements.strategy.information_level,
            saved_only=False,
        )
    except UndeterminedError:
        return None
    held = sum(numbers_held(problem, number) for number in range(FIRST_DEPTH, problem.last))
    return problem if _informed_stages(problem) and held <= MOST_HELD else None


def _informed_stages(problem: Problem) -> dict[str, int]:
    """The levels that have information from below and their parents right above, each with its stage."""
    stages = [information.stage.level for information in problem.stages]
    return {
        level: number
        for number, level in enumerate(stages[: problem.last])
        if level is not None and number >= FIRST_DEPTH and stages[number - 1] is not None
    }


@final
class TreeAnswers:
    """What subtrees say where there is information from below; measurements of the units themselves elsewhere."""

    def __init__(self, own: OwnAnswers, problem: Problem) -> None:
        self.measurements = own.measurements
        self._own, self._problem = own, problem
        self._stages = _informed_stages(problem)
        self._estimates: dict[int, StageEstimates] | None = None

    def informed(self, level: str) -> bool:
        """Whether the answers of a level also come from the levels below it."""
        return level in self._stages

    def prepare(self, level: str, run: Run) -> None:
        """Pass the information up from below, once, when the first level needs it."""
        if self.informed(level) and self._estimates is None:
            with one_thread():
                self._estimates = subtree_estimates(self._problem, top=min(self._stages.values()), run=run)

    def passes(self, nests: Nests, level: str) -> list[list[Asked]]:
        """The answers to the queries of each pass with fitted weights, or the units' own measurements."""
        if not self.informed(level):
            return self._own.passes(nests, level)
        with one_thread():
            batches = [self._passes(batch, level) for batch in self._batches(nests)]
        return [[_joined(parts) for parts in zip(*one, strict=True)] for one in zip(*batches, strict=True)]

    def _passes(self, nests: Nests, level: str) -> list[list[Asked]]:
        """The answers of each pass. Weights are fitted together with the queries of earlier passes, which hold theirs.

        A query of a later pass would otherwise take over their precision where it says the same about a unit.
        """
        V, x = self._centred(nests, level)
        asked: list[list[Asked]] = []
        marginals: list[Marginal] = []
        for names in passes_of(self._own.strategy, level):
            earlier = len(marginals)
            marginals += [self._marginals[name] for name in names]
            weights = fitted_weights(V, marginals)[:, earlier:]
            idle = ~weights.any(axis=1)  # everything was said in earlier passes
            if idle.any():
                weights[idle] = fitted_weights(V[idle], marginals[earlier:])
            asked.append([_asked(nests, one, x, weights[:, i]) for i, one in enumerate(marginals[earlier:])])
        return asked

    def _batches(self, nests: Nests) -> Iterator[Nests]:
        """Runs of nests whose children's tables may be held together; the result does not depend on them."""
        decomposition = self._problem.decomposition
        each = decomposition.dense_cells * max(
            decomposition.columns, decomposition.dense_cells * len(decomposition.subsets)
        )
        first = 0
        while first < len(nests):
            most = nests.child_start[first] + RUN_NUMBERS // each
            last = max(first + 1, int(np.searchsorted(nests.child_start, most, side="right")) - 1)
            yield some_nests(nests, first, last)
            first = last

    @cached_property
    def _marginals(self) -> dict[str, Marginal]:
        names = {name for level in self._stages for name in self._own.strategy.queries[level]}
        return {
            name: self._problem.decomposition.marginal(self.measurements.schema.query(name))
            for name in sorted({*names, DETAILED})
        }

    def _centred(self, nests: Nests, level: str) -> tuple[Floats, Floats]:
        """The covariances from below of all children, and their estimates given the parents, in coordinates."""
        problem, number = self._problem, self._stages[level]
        assert self._estimates is not None
        V, x = self._estimates[number].of(nests.child)
        first = nests.child_start[:-1]
        S, total = np.add.reduceat(V, first, axis=0), np.add.reduceat(x, first, axis=0)
        spine = self.measurements.spine
        parent = np.searchsorted(spine.first_child[spine.depth(level) - 1], nests.child[first], side="right") - 1
        P = inverse_of_sums(problem, number - 1, parent, S)
        slices = problem.decomposition.slices
        missing = applied(P, self._parents(nests) - total, slices)
        nest = np.repeat(np.arange(len(nests)), np.diff(nests.child_start))
        return V, x + applied(V, missing[nest], slices)

    def _parents(self, nests: Nests) -> Floats:
        """The released parents in coordinates."""
        table = np.zeros((len(nests), self.measurements.schema.cells))
        nest = np.repeat(np.arange(len(nests)), np.diff(nests.cell_start))
        table[nest, nests.cell] = nests.count
        cells = self._marginals[DETAILED]
        return cells.coordinates(table[:, cells.rows.reshape(-1)], np.arange(len(cells.rows)))


def _asked(nests: Nests, marginal: Marginal, x: Floats, weight: Floats) -> Asked:
    query = marginal.query
    start, rows = rows_of(nests, query.row_of_cell, query.size)
    answers = marginal.answers(x)
    place = places_of(nests, start, rows, query.size)
    unit, row = np.divmod(place, query.size)
    position = np.searchsorted(nests.child, unit)  # children are in rising order
    return Asked(
        row_of_cell=query.row_of_cell,
        start=start,
        rows=rows,
        noisy=answers[position, row],
        weight=np.ascontiguousarray(weight),
    )


def _joined(parts: Sequence[Asked]) -> Asked:
    """The answers to one query for several runs of nests, one after another."""
    ends = np.cumsum([0, *(len(part.rows) for part in parts)])
    return replace(
        parts[0],
        start=np.append(0, np.concatenate([part.start[1:] + end for part, end in zip(parts, ends[:-1], strict=True)])),
        rows=np.concatenate([part.rows for part in parts]),
        noisy=np.concatenate([part.noisy for part in parts]),
        weight=np.concatenate([part.weight for part in parts]),
    )
