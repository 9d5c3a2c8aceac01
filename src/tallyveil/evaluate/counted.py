"""Residuals of whole levels, counted by value a piece at a time, for statistics that need no residual by itself.

A nation's residuals do not fit into memory, but they take few values. Levels are summed from the finest to the
coarsest, each from the one below it, and the pieces of a level are compared on all cores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tallyveil._workers import Run, workers
from tallyveil.evaluate.residuals import Over, union_of
from tallyveil.evaluate.sources import Source, SparseTable, aligned, people_of
from tallyveil.evaluate.value_counts import ValueCounts, merged_counts, value_counts
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Query

Counted = dict[tuple[str, str], list[ValueCounts]]
PIECE = 1 << 22  # entries that are compared together


def can_be_counted(sources: Sequence[Source], over: str) -> bool:
    """Whether the residuals of all sources can be counted: estimates are no counts of people."""
    return over in ("nonempty", "all") and not any(isinstance(source, Estimates) for source in sources)


def counted_residuals(
    people: Histogram, sources: Sequence[Source], pairs: Collection[tuple[str, str]], *, over: Over
) -> Counted:
    """The residuals of every source for pairs of a level and a query, counted by value."""
    names = [f"release {number + 1}: " if len(sources) > 1 else "" for number in range(len(sources))]
    released = [_on_truth(source, people, name) for source, name in zip(sources, names, strict=True)]
    levels, counted = {level for level, _ in pairs}, Counted()
    with workers() as run:
        for (level, truth), *others in zip(people.by_level(), *(one.by_level() for one in released), strict=True):
            for name in [name for of, name in pairs if of == level]:
                query, tables = people.schema.query(name), (counts for _, counts in others)
                counted[level, name] = [
                    _counted(people, truth, counts, source, query, over, run)
                    for source, counts in zip(sources, tables, strict=True)
                ]
            levels.discard(level)
            if not levels:
                break
    return counted


def _on_truth(source: Source, people: Histogram, name: str) -> Histogram:
    sampled = source.people if isinstance(source, Sample) else source
    assert not isinstance(sampled, Estimates)
    return replace(aligned(people_of(sampled), people, name), spine=people.spine)


def _counted(
    people: Histogram, truth: Counts, counts: Counts, source: Source, query: Query, over: Over, run: Run
) -> ValueCounts:
    """The residuals of one query at one level."""
    possible = people.schema.possible_rows(query)

    def piece(units: slice) -> tuple[ValueCounts, int]:
        true, released = (_table(side, units, query) for side in (truth, counts))
        if isinstance(source, Sample):
            released = released._replace(counts=source.scaled(released.counts))
        _, row, true_count, released_count = union_of(true, released)
        return value_counts(released_count - true_count), int(np.count_nonzero(possible[row]))

    parts = list(run(piece, _pieces(truth, counts)))
    zeros = truth.units * int(possible.sum()) - sum(entries for _, entries in parts) if over == "all" else 0
    return merged_counts([value_counts(np.zeros(0, np.int64), zeros=zeros), *(part for part, _ in parts)])


def _table(counts: Counts, units: slice, query: Query) -> SparseTable:
    """The answers to a query for some units of a level."""
    groups = np.arange(units.start, units.stop + 1)
    answers = counts.merged(groups, query.row_of_cell, query.size)
    return SparseTable(answers.start, answers.cell.astype(np.uint32), answers.count.astype(np.int64))


def _pieces(truth: Counts, counts: Counts) -> Iterator[slice]:
    """Runs of units with about ``PIECE`` entries each, in either table."""
    entries = truth.start + counts.start
    cuts = np.searchsorted(entries, np.arange(PIECE, int(entries[-1]), PIECE))
    ends = np.unique(np.concatenate([[0], cuts, [truth.units]]))
    return map(slice, ends[:-1].tolist(), ends[1:].tolist())
