"""The array work of a scan: figures of every non-empty cell of a level, added up piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.release.measurements import Measurements
from tallyveil.risk.scan.groups import Grouped
from tallyveil.risk.target.evidence import Evidence
from tallyveil.risk.target.intruder import Exposure, Intruder, log_ratio

SIZES = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000, 1_000_000, 10_000_000])
BINS = np.linspace(0, 1, 21)  # of posteriors
PIECE = 1 << 19  # entries worked on at a time


@final
@dataclass(frozen=True, kw_only=True)
class View:
    """What there is against a group of people: the levels and queries that tell something, and their noise.

    ``certain`` where exact counts decide alone; ``drawn`` where what was drawn is known and counts.
    """

    told: tuple[tuple[str, str], ...]
    noises: tuple[Geometric | DiscreteGaussian, ...]
    certain: bool
    drawn: bool

    @cached_property
    def evidence(self) -> Evidence | None:
        """The evidence that the noisy counts are, if there is any to wait for."""
        return Evidence(noises=self.noises) if self.noises and not self.certain else None

    def expected(self, intruder: Intruder) -> tuple[float, float, float]:
        """Posterior, right decision and tie, on average over the noise."""
        if self.evidence is None:
            return self._settled(intruder)
        exposed = Exposure(intruder=intruder, evidence=self.evidence)
        return exposed.marginal_posterior, exposed.right_decision, exposed.tie

    def given(self, intruder: Intruder, logs: Floats) -> Floats:
        """The same given what was drawn: the logarithms of the likelihood ratios."""
        if self.evidence is None:
            return np.repeat(np.array(self._settled(intruder))[:, None], len(logs), axis=1)
        exposed = Exposure(intruder=intruder, evidence=self.evidence)
        claims, tie = exposed.decided(logs)
        return np.stack([expit(intruder.log_prior_odds + logs), claims.astype(float), tie.astype(float)])

    def spread(self, intruder: Intruder) -> Floats:
        """Probability of a posterior in each interval of ``BINS``."""
        if self.evidence is None:
            return np.histogram([self._settled(intruder)[0]], BINS)[0].astype(float)
        posterior = expit(intruder.log_prior_odds + self.evidence.logs())
        return np.histogram(posterior, BINS, weights=self.evidence.probabilities)[0]

    def _settled(self, intruder: Intruder) -> tuple[float, float, float]:
        if self.certain:
            return 1.0, 1.0, 0.0
        return float(intruder.prior), float(intruder.odds_needed < 1), float(intruder.odds_needed == 1)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Sums:
    """Sums over people. Columns: people, unique ones, then posterior, right decision and tie for each intruder.

    ``exposed`` holds the most exposed units: unit, cell and count of its most exposed people, the unit's people and how
    many of them are unique, and that posterior.
    """

    groups: Floats
    cells: Floats
    sizes: Floats
    spread: Floats
    exposed: NDArray[np.void]

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            groups=self.groups + other.groups,
            cells=self.cells + other.cells,
            sizes=self.sizes + other.sizes,
            spread=self.spread + other.spread,
            exposed=_most(np.concatenate([self.exposed, other.exposed]), len(self.exposed)),
        )


EXPOSED = np.dtype(
    [("unit", "i8"), ("cell", "i8"), ("count", "i8"), ("people", "i8"), ("unique", "i8"), ("posterior", "f8")]
)


def pieces(counts: Counts) -> list[tuple[int, int]]:
    """Runs of units with about as many entries each."""
    cuts = np.searchsorted(counts.start, np.arange(PIECE, counts.entries, PIECE))
    ends = np.unique(np.concatenate([[0], cuts, [counts.units]]))
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def adder(
    truth: Histogram,
    counts: Counts,
    kinds: Grouped,
    views: Sequence[View],
    intruders: Sequence[Intruder],
    measurements: Measurements | None,
    lone: Bools,
    most: int,
) -> Callable[[tuple[int, int]], Sums]:
    """What adds up the units of one piece.

    People of a cell without a possible alternative (``lone``) are of the last view.
    """
    expected = np.array([[view.expected(intruder) for view in views] for intruder in intruders])

    def add(piece: tuple[int, int]) -> Sums:
        first, last = piece
        here = slice(int(counts.start[first]), int(counts.start[last]))
        sizes = np.diff(counts.start[first : last + 1])
        unit, cell = np.repeat(np.arange(first, last), sizes), counts.cell[here]
        count = counts.count[here].astype(np.int64)
        people = np.bincount(unit - first, count, minlength=last - first).astype(np.int64)
        group = np.where(lone[cell], len(views) - 1, kinds.of(unit, cell))
        figures = expected[:, group].transpose(0, 2, 1)
        for number in np.unique(group):
            if measurements is not None and views[number].drawn:
                at = np.flatnonzero(group == number)
                logs = _drawn(truth, counts, kinds.where, views[number], measurements, unit[at], cell[at])
                for i, intruder in enumerate(intruders):
                    figures[i][:, at] = views[number].given(intruder, logs)
        columns = np.concatenate([[count, count == 1], (figures * count).reshape(-1, len(cell))])
        size = np.searchsorted(SIZES, people[unit - first], side="right") - 1
        spread = np.zeros((len(intruders), len(BINS) - 1))
        if measurements is not None:
            drawn = count * np.array([view.drawn for view in views], dtype=np.float64)[group]
            spread = np.array([np.histogram(one[0], BINS, weights=drawn)[0] for one in figures])
        return Sums(
            groups=_by(group, columns, len(views)),
            cells=_by(cell, columns, counts.cells),
            sizes=_by(size, columns, len(SIZES)),
            spread=spread,
            exposed=_exposed(unit, cell, count, people[unit - first], figures[0, 0], most),
        )

    return add


def _drawn(
    truth: Histogram,
    counts: Counts,
    where: Mapping[str, Integers],
    view: View,
    measurements: Measurements,
    unit: Integers,
    cell: NDArray[np.integer],
) -> Floats:
    """The logarithm of the likelihood ratio of each entry's people, from the noise that was drawn."""
    logs = np.zeros(len(unit))
    for (level, query), noise in zip(view.told, view.noises, strict=True):
        asked = truth.schema.query(query)
        row = asked.row_of_cell[cell]
        noisy = measurements.ask(level, query, where[level][unit] * asked.size + row)
        precise = counts.looked_up(unit * asked.size + row, asked.row_of_cell, asked.size)
        logs += log_ratio(noise, (noisy - precise + 1).astype(np.float64))
    return logs


def _by(kind: NDArray[np.integer], columns: Floats, kinds: int) -> Floats:
    return np.stack([np.bincount(kind, column, minlength=kinds) for column in columns], axis=1)


def _exposed(
    unit: Integers, cell: NDArray[np.integer], count: Integers, people: Integers, posterior: Floats, most: int
) -> NDArray[np.void]:
    """The most exposed units of a piece: by their most exposed people, then by how many of them are unique."""
    out = np.zeros(most, dtype=EXPOSED)
    out["posterior"] = -1
    if not len(unit) or not most:
        return out
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    largest = np.maximum.reduceat(posterior, starts)
    unique = np.add.reduceat(count == 1, starts, dtype=np.int64)
    chosen = np.lexsort((-unit[starts], unique, largest))[::-1][:most]
    ends = np.append(starts, len(unit))
    for place, one in enumerate(chosen):
        entries = slice(ends[one], ends[one + 1])
        # of people equally exposed, those who are fewest
        at = starts[one] + np.lexsort((count[entries], -posterior[entries]))[0]
        out[place] = unit[at], cell[at], count[at], people[at], unique[one], posterior[at]
    return out


def _most(rows: NDArray[np.void], most: int) -> NDArray[np.void]:
    return rows[np.lexsort((-rows["unit"], rows["unique"], rows["posterior"]))[::-1][:most]]
