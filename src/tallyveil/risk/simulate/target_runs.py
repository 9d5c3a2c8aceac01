"""Runs of a mechanism under the two hypotheses about a target, and the released counts that the intruder sees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import InputError
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED
from tallyveil.release.release import Release
from tallyveil.risk.target.target import Target, path_of
from tallyveil.runs.batches import RunBatch, RunMechanism

SIDES = ("has", "not")  # the target has the cell, or the alternative holds


@final
@dataclass(frozen=True, kw_only=True)
class TargetRuns:
    """A batch of runs as a function that can be sent to another process.

    Attributes
    ----------
    run
        The mechanism.
    people, alternative
        The people with the target, and with the alternative in the target's place.
    target
        The target, whose cell is watched.
    """

    run: RunMechanism
    people: Histogram
    alternative: Histogram
    target: Target

    def __call__(self, batch: RunBatch) -> Integers:
        """The counts that the intruder sees in each run of a batch."""
        people = self.people if batch.side == SIDES[0] else self.alternative
        return self.released_counts(self.run(people, batch.runs), len(batch.runs))

    @cached_property
    def path(self) -> dict[str, int]:
        """The target's leaf and the units above it, by level."""
        return path_of(self.people.spine, self.target.leaf)

    def released_counts(self, output: Any, runs: int) -> Integers:
        """The released counts of the target's cell (runs x levels, leaf first)."""
        if isinstance(output, Estimates):
            levels = [
                output.answer(DETAILED, level=level)[:, unit, self.target.cell] for level, unit in self.path.items()
            ]
            values: NDArray[Any] = np.stack(levels, axis=1)
        elif isinstance(output, np.ndarray):
            values = output
        else:
            values = np.array([self._counts_in(release) for release in output])
        shape = (runs, len(self.path))
        if values.shape != shape or values.dtype.kind not in "iuf" or (values != np.floor(values)).any():
            raise InputError(
                f"the mechanism gave {' x '.join(map(str, values.shape))} values of {values.dtype} for {runs:,} runs "
                f"and {len(self.path)} levels. Give whole numbers, a row for each run and a column for each level."
            )
        return values.astype(np.int64)

    def _counts_in(self, output: Histogram | Release) -> list[int]:
        leaves = (output.histogram if isinstance(output, Release) else output).leaves
        in_cell = leaves.cell == self.target.cell
        unit, count = leaves.unit()[in_cell], leaves.count[in_cell]
        spans = (self.people.spine.leaves_under(level)[above : above + 2] for level, above in self.path.items())
        return [int(count[(unit >= first) & (unit < last)].sum()) for first, last in spans]
