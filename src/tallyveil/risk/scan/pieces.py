"""The array work of a scan: figures of every non-empty cell of a level, added up piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.release.measurements import Measurements
from tallyveil.risk.scan.group_evidence import POSTERIOR_BINS, GroupEvidence
from tallyveil.risk.scan.groups import Grouped
from tallyveil.risk.target.intruder import Intruder, log_ratio

SIZES = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000, 1_000_000, 10_000_000])
PIECE = 1 << 19  # entries that are processed at a time


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Sums:
    """Sums over people. Columns: people, unique people, then posterior, right decision and tie for each intruder.

    ``spread`` is the number of people by interval of the posterior. ``exposed`` has the most exposed units: the unit,
    the cell and count of its most exposed people, the number of people in the unit and how many of them are unique, and
    that posterior.
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
    """Ranges of units with about equally many entries."""
    cuts = np.searchsorted(counts.start, np.arange(PIECE, counts.entries, PIECE))
    ends = np.unique(np.concatenate([[0], cuts, [counts.units]]))
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def adder(
    truth: Histogram,
    counts: Counts,
    kinds: Grouped,
    evidence: Sequence[GroupEvidence],
    intruders: Sequence[Intruder],
    measurements: Measurements | None,
    lone: Bools,
    most: int,
) -> Callable[[tuple[int, int]], Sums]:
    """A function that adds up the units of one piece.

    ``evidence`` has one entry for each group, and a last one for people of a cell without an alternative (``lone``).
    """
    expected = np.array([[against.expected(intruder) for against in evidence] for intruder in intruders])

    def add(piece: tuple[int, int]) -> Sums:
        first, last = piece
        here = slice(int(counts.start[first]), int(counts.start[last]))
        sizes = np.diff(counts.start[first : last + 1])
        unit, cell = np.repeat(np.arange(first, last), sizes), counts.cell[here]
        count = counts.count[here].astype(np.int64)
        people = np.bincount(unit - first, count, minlength=last - first).astype(np.int64)
        group = np.where(lone[cell], len(evidence) - 1, kinds.of(unit, cell))
        figures = expected[:, group].transpose(0, 2, 1)
        for number in np.unique(group):
            if measurements is not None and evidence[number].drawn:
                members = np.flatnonzero(group == number)
                logs = _log_ratios(
                    truth, counts, kinds.where, evidence[number], measurements, unit[members], cell[members]
                )
                for i, intruder in enumerate(intruders):
                    figures[i][:, members] = evidence[number].given_ratios(intruder, logs)
        columns = np.concatenate([[count, count == 1], (figures * count).reshape(-1, len(cell))])
        size = np.searchsorted(SIZES, people[unit - first], side="right") - 1
        spread = np.zeros((len(intruders), len(POSTERIOR_BINS) - 1))
        if measurements is not None:
            drawn = count * np.array([against.drawn for against in evidence], dtype=np.float64)[group]
            spread = np.array([np.histogram(rows[0], POSTERIOR_BINS, weights=drawn)[0] for rows in figures])
        return Sums(
            groups=_by(group, columns, len(evidence)),
            cells=_by(cell, columns, counts.cells),
            sizes=_by(size, columns, len(SIZES)),
            spread=spread,
            exposed=_exposed(unit, cell, count, people[unit - first], figures[0, 0], most),
        )

    return add


def _log_ratios(
    truth: Histogram,
    counts: Counts,
    where: Mapping[str, Integers],
    against: GroupEvidence,
    measurements: Measurements,
    unit: Integers,
    cell: NDArray[np.integer],
) -> Floats:
    """The log likelihood ratio of each entry's people, given the noise that was drawn."""
    logs = np.zeros(len(unit))
    for (level, name), noise in zip(against.counts, against.noises, strict=True):
        query = truth.schema.query(name)
        row = query.row_of_cell[cell]
        noisy = measurements.ask(level, name, where[level][unit] * query.size + row)
        precise = counts.looked_up(unit * query.size + row, query.row_of_cell, query.size)
        logs += log_ratio(noise, (noisy - precise + 1).astype(np.float64))
    return logs


def _by(kind: NDArray[np.integer], columns: Floats, kinds: int) -> Floats:
    return np.stack([np.bincount(kind, column, minlength=kinds) for column in columns], axis=1)


def _exposed(
    unit: Integers, cell: NDArray[np.integer], count: Integers, people: Integers, posterior: Floats, most: int
) -> NDArray[np.void]:
    """The most exposed units of a piece, by the posterior of their most exposed people, then by their unique people."""
    out = np.zeros(most, dtype=EXPOSED)
    out["posterior"] = -1
    if not len(unit) or not most:
        return out
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    largest = np.maximum.reduceat(posterior, starts)
    unique = np.add.reduceat(count == 1, starts, dtype=np.int64)
    chosen = np.lexsort((-unit[starts], unique, largest))[::-1][:most]
    ends = np.append(starts, len(unit))
    for rank, number in enumerate(chosen):
        entries = slice(ends[number], ends[number + 1])
        # of several equally exposed cells, the one with the fewest people
        entry = starts[number] + np.lexsort((count[entries], -posterior[entries]))[0]
        out[rank] = unit[entry], cell[entry], count[entry], people[entry], unique[number], posterior[entry]
    return out


def _most(rows: NDArray[np.void], most: int) -> NDArray[np.void]:
    return rows[np.lexsort((-rows["unit"], rows["unique"], rows["posterior"]))[::-1][:most]]
