"""The privacy cost of a person who moves, for the mechanisms of flaxman2019: from their noise, and by an audit.

The noise of a mechanism is measured on areas with the same huge count, where raking changes all children of a unit
alike, so that the difference of two siblings is that of their noise. The variance of G(z) is 1/(cosh z - 1).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.evaluate import audit, neighbour, views_of
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.populations import uniform_tree
from tallyveil_papers.figure import Figure
from tallyveil_papers.flaxman.runs import BUDGETS, NAMES, PARTS, run
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

RUNS = 20_000
HUGE = 10**9  # persons in an area, beside which noise is nothing
MOST_PARTS = 16


class Spent(NamedTuple):
    """Epsilon that one changed count of a level spends, and the standard error of that, by level."""

    epsilon: dict[str, float]
    error: dict[str, float]

    def on(self, people: Histogram, other: Histogram) -> tuple[float, float]:
        """Epsilon that the counts differing between two populations spend, by composition, and its standard error."""
        changed = [view.level for view in views_of(people, other, query="total") if view.level in self.epsilon]
        squares = sum((changed.count(level) * self.error[level]) ** 2 for level in set(changed))
        return sum(self.epsilon[level] for level in changed), math.sqrt(squares)


def neighbours(setting: Setting) -> Outcome:
    """Epsilon that the mechanisms spend when a person moves, and lower bounds from an audit on a small tree."""
    small = uniform_tree(persons=800, mean=100, levels=3, seed=setting.seed).people
    removed, moved = neighbour(small, unit=0, cell=0), neighbour(small, unit=0, cell=0, to_unit=7)
    figures = []
    for name in BUDGETS:
        spent = measured(name, small, seed=setting.seed)
        (costs, error), (once, _) = (spent.on(small, other) for other in (moved, removed))
        at = f"{NAMES[name]}, noise measured in {RUNS:,} runs; as printed: one person is removed"
        figures.append(
            judge("flaxman2019.neighbours.moves", costs, at=at, chance=4 * error, as_printed=once,
                  again=_by_the_text(name), again_within=4 * error)
        )  # fmt: skip
        figures += _audited(name, small, moved, proven=_by_the_text(name), seed=setting.seed)
    return Outcome(figures=figures, notes=notes_of("flaxman2019.neighbours"))


def measured(name: str, people: Histogram, *, seed: int) -> Spent:
    """Epsilon that each changed count spends at a stated epsilon of 1, from the noise in a mechanism's output."""
    same = replace(people, leaves=Counts.from_dense(np.full((people.spine.size(people.spine.leaf), 1), HUGE)))
    made = run(name, same, 1, seed=seed, runs=range(RUNS))
    epsilon, error = {}, {}
    for level, table in made.tables.items():
        residuals = (table - same.answer("total", level=level).dense())[:, :, 0]
        depth = people.spine.depth(level)
        apart = _of_siblings(residuals, people.spine.first_child[depth - 1]) if depth else residuals.ravel()
        parts = _parts(residuals) if level == people.spine.leaf and len(made.tables) == 1 else 1
        squares = apart**2 / (2 if depth else 1) * parts
        variance = float(squares.mean())
        z = math.acosh(1 + 1 / variance)
        epsilon[level] = parts * z
        error[level] = parts * z / 2 * float(squares.std()) / variance / math.sqrt(len(squares))  # z goes with 1/sd
    return Spent(epsilon, error)


def _of_siblings(residuals: NDArray[Any], first: Integers) -> Floats:
    """The first child's residual minus the second's, of every unit and run."""
    return np.asarray(residuals[:, first[:-1]] - residuals[:, first[:-1] + 1], dtype=np.float64).ravel()


def _parts(residuals: NDArray[Any]) -> int:
    """The number of noisy counts that a released count is the mean of, from the fractions in which it occurs."""
    return next(parts for parts in range(1, MOST_PARTS + 1) if not (residuals * parts % 1).any())


def _by_the_text(name: str) -> float:
    """By section 2.2: a person who moves changes two counts of each measured level except the top."""
    geometric_noise, averaged_noise, raked_noise = 2 * 1.0, 2 * PARTS / PARTS, 2 * 3 / (3 + 1)
    return {"geometric": geometric_noise, "averaged": averaged_noise, "raked": raked_noise}[name]


def _audited(name: str, people: Histogram, moved: Histogram, *, proven: float, seed: int) -> list[Figure]:
    """Lower bounds on epsilon, compared with the stated epsilon and with the bound by composition."""

    def mechanism(some: Histogram, runs: range) -> Any:
        return run(name, some, 1, seed=seed, runs=runs)

    result = audit(mechanism, people, moved, runs=RUNS, proven=proven)
    assert result.one_unit is not None
    low, alone, at = result.epsilon_low, result.one_unit.epsilon_low, f"{NAMES[name]}, epsilon 1, {result.runs:,} runs"
    reached: dict[str, Any] = {"again": proven, "again_within": proven / 10} if name == "geometric" else {}
    # with geometric noise two events, on one area each, both have the whole log ratio
    return [
        judge("flaxman2019.neighbours.audit", low, at=f"{at}; as printed: events on one area", as_printed=alone,
              **reached),
        judge("flaxman2019.neighbours.composition", low / proven, at=at),
        judge("flaxman2019.neighbours.one_area", alone, at=at),
    ]  # fmt: skip
