"""Measured and known queries in the coordinates of the decomposition, as they are or summed to a coarser schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.coarser import RowSums
from tallyveil.blue.decomposition import Marginal
from tallyveil.nouns.counts import Counts
from tallyveil.release.measurements import Ask


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredQuery:
    """A measured query: ``variance`` is that of one noisy answer, by span; ``sums`` if its rows are summed."""

    marginal: Marginal
    variance: Floats
    sums: RowSums | None = None

    @cached_property
    def times(self) -> Floats:
        """How many noisy answers are summed to each dense row; every symmetric row has as many."""
        if self.sums is None:
            return np.ones(len(self.marginal.rows))
        return self.sums.times[self.marginal.rows[:, 0]].astype(np.float64)

    @cached_property
    def dense_information(self) -> Floats:
        """The information about the dense cells that answers with variance 1 give: dense cells x dense cells."""
        weight = np.where(self.times > 0, 1.0 / np.maximum(self.times, 1.0), 0.0)
        out: Floats = (self.marginal.dense.T * weight) @ self.marginal.dense
        return out

    def weighted(self, ask: Ask, place: tuple[str, str], units: Integers, spans: Integers, rows: Integers) -> Floats:
        """Noisy answers of some dense rows at a level and query, over their variance: units x (dense x symmetric)."""
        level, name = place
        wanted, starts = self.marginal.rows[rows].reshape(-1), None
        size = self.marginal.query.size
        if self.sums is not None:
            (wanted, starts), size = self.sums.fine(wanted), self.sums.size
        noisy = ask(level, name, (units[:, None] * size + wanted).reshape(-1)).astype(np.float64)
        noisy = noisy.reshape(len(units), -1)
        if starts is not None:
            noisy = np.add.reduceat(noisy, starts, axis=1)
        each = np.repeat(self.times[rows], self.marginal.rows.shape[1])
        return noisy / (self.variance[spans, None] * each)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """The answers to a query that are known exactly for all units of a stage; ``answers`` only once there are any."""

    marginal: Marginal
    answers: Counts | None
    unit: Integers | None  # where each unit's answers are, if units are in another order
    sums: RowSums | None = None

    def coordinates(self, units: Integers) -> Floats:
        """The known answers of some units in the coordinates of the decomposition: units x dense rows x columns."""
        assert self.answers is not None
        table = self.answers.taken(units if self.unit is None else self.unit[units]).dense().astype(np.float64)
        if self.sums is not None:
            table = self.sums.summed(table)
        marginal = self.marginal
        shaped = table[:, marginal.rows.reshape(-1)]
        out = marginal.coordinates(shaped, np.arange(len(marginal.rows)))
        for columns, length in zip(marginal.decomposition.slices, marginal.gram, strict=True):
            out[:, :, columns] /= length or 1.0
        return out
