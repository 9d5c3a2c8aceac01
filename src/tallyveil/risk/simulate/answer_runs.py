"""Runs of a mechanism under two hypotheses about a target, and every released answer in which the two differ.

Where ``target_runs`` looks at the counts of the target's cell, this looks at all measured queries of all units that
contain the target: the row that counts the target, less the row that counts the alternative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED, Schema
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.release import Release
from tallyveil.risk.simulate.target_runs import SIDES
from tallyveil.risk.target.target import Target, path_of
from tallyveil.runs.batches import RunBatch, RunMechanism


@final
@dataclass(frozen=True, kw_only=True)
class AnswerRuns:
    """A batch of runs as a function that can be sent to another process.

    Attributes
    ----------
    run
        The mechanism, which gives a release or histogram for each run.
    people, alternative
        The people with the target, and with the alternative in the target's place.
    target
        The target and the alternative.
    strategy
        What is measured, and hence which queries are looked at.
    """

    run: RunMechanism
    people: Histogram
    alternative: Histogram
    target: Target
    strategy: Strategy

    def __call__(self, batch: RunBatch) -> Integers:
        """The answers of each run of a batch (runs x answers); the first are the counts of the cell, leaf first."""
        people = self.people if batch.side == SIDES[0] else self.alternative
        return np.array([self.answers(release) for release in self.run(people, batch.runs)])

    @cached_property
    def path(self) -> dict[str, int]:
        """The target's leaf and the units above it, by level."""
        return path_of(self.people.spine, self.target.leaf)

    @property
    def columns(self) -> int:
        """The number of answers."""
        return sum(1 + len(weights) for weights in self._weights.values())

    def answers(self, output: Histogram | Release) -> Integers:
        """The answers in one release."""
        leaves = (output.histogram if isinstance(output, Release) else output).leaves
        unit, cell, count = leaves.unit(), leaves.cell.astype(np.int64), leaves.count.astype(np.int64)
        of_cell, rest = [], []
        for level, above in self.path.items():
            first, last = self.people.spine.leaves_under(level)[above : above + 2]
            inside = (unit >= first) & (unit < last)
            cells = np.bincount(cell[inside], count[inside], minlength=self.people.schema.cells).astype(np.int64)
            of_cell.append(cells[self.target.cell])
            rest.append(self._weights[level] @ cells)
        return np.concatenate([np.array(of_cell, dtype=np.int64), *rest])

    @cached_property
    def _weights(self) -> dict[str, Integers]:
        """For each level, the weight of each cell in each answer (answers x cells)."""
        return {
            level: np.unique(
                [
                    contrast(self.people.schema, query, self.target)
                    for query in dict.fromkeys([*self.strategy.queries[level], DETAILED])
                    if self.target.differs(self.people.schema, query)
                ],
                axis=0,
            )
            for level in self.path
        }


def contrast(schema: Schema, query: str, target: Target) -> Integers:
    """The weight of each cell in an answer: 1 in the target's row of a query, and -1 in the alternative's."""
    row = schema.query(query).row_of_cell
    weights: Integers = (row == row[target.cell]).astype(np.int64)
    return weights if target.instead is None else weights - (row == row[target.instead])
