"""Residuals of whole levels, counted by value a piece at a time, for statistics that need no residual by itself.

A nation's residuals do not fit into memory, but they take few values. Levels are summed from the finest to the
coarsest, each from the one below it, and the pieces of a level are compared on all cores. The answers of both sides are
added up in one pass, unsorted: their order does not matter here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tallyveil._arrays import AnyIntegers
from tallyveil._compiled import compiled
from tallyveil._workers import Run, workers
from tallyveil.evaluate.residuals import Over
from tallyveil.evaluate.sources import Source, aligned, people_of
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
        true, released, entries = _answers(
            *_entries(truth, units), *_entries(counts, units), query.row_of_cell, possible, query.size
        )
        scaled = source.scaled(released) if isinstance(source, Sample) else released
        return value_counts(scaled - true), entries

    parts = list(run(piece, _pieces(truth, counts)))
    zeros = truth.units * int(possible.sum()) - sum(entries for _, entries in parts) if over == "all" else 0
    return merged_counts([value_counts(np.zeros(0, np.int64), zeros=zeros), *(part for part, _ in parts)])


def _entries(counts: Counts, units: slice) -> tuple[AnyIntegers, ...]:
    """Where the entries of units begin, and the cell and count of each."""
    return counts.start[units.start : units.stop + 1], counts.cell, counts.count


def _pieces(truth: Counts, counts: Counts) -> Iterator[slice]:
    """Runs of units with about ``PIECE`` entries each, in either table."""
    entries = truth.start + counts.start
    cuts = np.searchsorted(entries, np.arange(PIECE, int(entries[-1]), PIECE))
    ends = np.unique(np.concatenate([[0], cuts, [truth.units]]))
    return map(slice, ends[:-1].tolist(), ends[1:].tolist())


@compiled
def _answers(start, cell, count, other_start, other_cell, other_count, row_of_cell, possible, rows):  # type: ignore[no-untyped-def]
    """The answers of either table where one is not 0, in no order, and how many of them are in possible rows."""
    units = len(start) - 1
    most = start[units] - start[0] + other_start[units] - other_start[0]
    true, released = np.empty(most, np.int64), np.empty(most, np.int64)
    place, met = np.zeros(rows, np.int64), np.full(rows, -1, np.int64)
    made = entries = 0
    for u in range(units):
        for i in range(start[u], start[u + 1]):
            row = row_of_cell[cell[i]]
            if met[row] != u:
                met[row], place[row] = u, made
                true[made] = released[made] = 0
                entries += possible[row]
                made += 1
            true[place[row]] += count[i]
        for i in range(other_start[u], other_start[u + 1]):
            row = row_of_cell[other_cell[i]]
            if met[row] != u:
                met[row], place[row] = u, made
                true[made] = released[made] = 0
                entries += possible[row]
                made += 1
            released[place[row]] += other_count[i]
    return true[:made], released[:made], entries
