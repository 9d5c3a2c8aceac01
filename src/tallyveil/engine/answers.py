"""Where the answers of a level come from: noisy answers and weights for nests, in the order of the passes.

This is the seam between the engine and its estimators. ``OwnAnswers`` gives each unit's own measurements (TopDown);
``tree_answers.TreeAnswers`` gives what the subtree of a unit says about the same queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from tallyveil._workers import Run
from tallyveil.engine.estimate.problem import Asked, places_of, rows_of
from tallyveil.engine.nests import Nests
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements

NO_NOISE = 1e-9  # smaller variances are replaced by this one


class Answers(Protocol):
    """Gives answers and weights for the children of nests. Used from several threads."""

    @property
    def measurements(self) -> Measurements:
        """What was measured."""

    def prepare(self, level: str, run: Run) -> None:
        """Compute what the nests of a level have in common, before they are solved; ``run`` works like ``map``."""

    def informed(self, level: str) -> bool:
        """Whether the answers of a level also come from the levels below it."""

    def passes(self, nests: Nests, level: str) -> list[list[Asked]]:
        """The answers to the queries of each pass; no pass if nothing is measured at the level."""


@final
@dataclass(frozen=True, eq=False)
class OwnAnswers:
    """The measurements of each unit itself."""

    measurements: Measurements

    def prepare(self, level: str, run: Run) -> None:
        """Nothing is in common."""

    def informed(self, level: str) -> bool:  # noqa: ARG002 (of the protocol)
        """Levels below are not used."""
        return False

    def passes(self, nests: Nests, level: str) -> list[list[Asked]]:
        """The noisy answers to the queries of each pass, with weights 1/variance."""
        return [[self._asked(nests, level, query) for query in names] for names in passes_of(self.strategy, level)]

    @property
    def strategy(self) -> Strategy:
        """What is measured, and in which passes it is used."""
        return self.measurements.strategy

    def _asked(self, nests: Nests, level: str, query: str) -> Asked:
        measurements = self.measurements
        rows_by_cell = measurements.schema.query(query)
        start, rows = rows_of(nests, rows_by_cell.row_of_cell, rows_by_cell.size)
        noisy = measurements.ask(level, query, places_of(nests, start, rows, rows_by_cell.size))
        variance = np.maximum(measurements.variances(level, query), NO_NOISE)
        return Asked(
            row_of_cell=rows_by_cell.row_of_cell,
            start=start,
            rows=rows,
            noisy=noisy.astype(np.float64),
            weight=1.0 / variance[measurements.shares[level].spans[nests.child]],
        )


def passes_of(strategy: Strategy, level: str) -> Sequence[list[str]]:
    """The measured queries of a level in passes: one with all of them if the strategy names none."""
    queries = list(strategy.queries[level])
    passes = strategy.passes.get(level) or [["*"]]
    named = {query for names in passes for query in names}
    order = [[q for q in queries if q in names or ("*" in names and q not in named)] for names in passes]
    return [names for names in order if names]
