"""What the subtree of every unit says about it, held for all units above the last stage.

The pass up (``upward``), stage by stage. Estimates are held on the open cells of each unit, so that memory grows with
what may be there: for the nation of 2020, with information from the block groups, about half a gigabyte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil._workers import Run
from tallyveil.blue.linear import sums
from tallyveil.blue.problem import Problem
from tallyveil.blue.upward import kinds_among, runs, sums_of_leaves, with_own_information


@dataclass(frozen=True, kw_only=True, eq=False)
class StageEstimates:
    """The covariances and estimates from below of all units of a stage, by kind of unit and on its open cells.

    Unit ``u`` is number ``rank[u]`` among the units of its kind.
    """

    problem: Problem
    number: int
    rank: Integers
    V: list[Floats]
    x: list[Floats]

    @classmethod
    def blank(cls, problem: Problem, number: int) -> StageEstimates:
        """Room for the estimates of a stage."""
        information, decomposition = problem.stages[number], problem.decomposition
        kinds = len(information.span)
        many = np.bincount(information.kind, minlength=kinds)
        order = np.argsort(information.kind, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(many) - many, many)
        cells, subsets = information.opened.sum(axis=1), len(decomposition.subsets)
        return cls(
            problem=problem,
            number=number,
            rank=rank,
            V=[np.zeros((n, subsets, c, c)) for n, c in zip(many, cells, strict=True)],
            x=[np.zeros((n, c, decomposition.columns)) for n, c in zip(many, cells, strict=True)],
        )

    def write(self, units: Integers, V: Floats, x: Floats) -> None:
        """Hold the estimates of some units, which are on all dense cells."""
        for kind, place in self._kinds(units):
            opened, rank = np.flatnonzero(self.problem.stages[self.number].opened[kind]), self.rank[units[place]]
            self.V[kind][rank] = V[np.ix_(place, np.arange(V.shape[1]), opened, opened)]
            self.x[kind][rank] = x[np.ix_(place, opened)]

    def of(self, units: Integers) -> tuple[Floats, Floats]:
        """The covariances and estimates of some units on all dense cells."""
        decomposition = self.problem.decomposition
        cells, subsets = decomposition.dense_cells, len(decomposition.subsets)
        V = np.zeros((len(units), subsets, cells, cells))
        x = np.zeros((len(units), cells, decomposition.columns))
        for kind, place in self._kinds(units):
            opened, rank = np.flatnonzero(self.problem.stages[self.number].opened[kind]), self.rank[units[place]]
            V[np.ix_(place, np.arange(subsets), opened, opened)] = self.V[kind][rank]
            x[np.ix_(place, opened)] = self.x[kind][rank]
        return V, x

    def _kinds(self, units: Integers):  # type: ignore[no-untyped-def]
        return kinds_among(self.problem, self.number, units, np.ones(len(units), np.bool_))


def numbers_held(problem: Problem, number: int) -> int:
    """How many numbers the estimates of a stage take."""
    information, decomposition = problem.stages[number], problem.decomposition
    cells = information.opened.sum(axis=1)
    each = len(decomposition.subsets) * cells**2 + decomposition.columns * cells
    return int(each @ np.bincount(information.kind, minlength=len(each)))


def subtree_estimates(problem: Problem, *, top: int, run: Run = map) -> dict[int, StageEstimates]:
    """The estimates from below of all units from stage ``top`` to the last but one, by stage.

    ``run`` works on runs of units like ``map``. Runs do not depend on how many threads there are, and neither does the
    result.
    """
    found: dict[int, StageEstimates] = {}
    for number in range(problem.last - 1, top - 1, -1):
        units = np.arange(problem.stages[number].stage.size)
        here, below = StageEstimates.blank(problem, number), found.get(number + 1)

        def estimated(part: Integers, number: int = number, below: StageEstimates | None = below):  # type: ignore[no-untyped-def]
            return part, *_from_children(problem, number, part, below)

        for part, V, x in run(estimated, [units[slice_] for slice_ in runs(problem, number, units)]):
            here.write(part, V, x)
        found[number] = here
    return found


def _from_children(
    problem: Problem, number: int, units: Integers, below: StageEstimates | None
) -> tuple[Floats, Floats]:
    """The covariances and estimates of some units from those of their children and their own measurements."""
    child, many = problem.stages[number].stage.children(units)
    if below is None:
        parent = np.repeat(np.arange(len(many)), many)
        sources = sums_of_leaves(problem, child, parent, len(many), None, np.ones(len(child), np.int64))
        S, children = sources.S, sources.children
    else:
        V_child, x_child = below.of(child)
        S, children = sums(V_child, many), sums(x_child, many)
    V, x = with_own_information(problem, number, units, S, children)
    assert x is not None
    return V, x
