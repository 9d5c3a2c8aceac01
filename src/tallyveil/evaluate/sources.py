"""What can be compared with the truth: releases, other counts, samples and estimates, as tables on its units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import InputError
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.schema import Query
from tallyveil.release.release import Release

Source = Histogram | Population | Release | Sample | Estimates


def sources_of(released: Source | Sequence[Source]) -> list[Source]:
    """One or several releases as a list; an empty one is refused."""
    sources = list(released) if isinstance(released, Sequence) else [released]
    if not sources:
        raise InputError("no release is given. Give one or several.")
    return sources


def people_of(source: Histogram | Population | Release) -> Histogram:
    """The people that a truth or a release counts."""
    if isinstance(source, Population):
        return source.people
    if isinstance(source, Release):
        return source.histogram
    if not isinstance(source, Histogram):
        raise InputError(f"a {type(source).__name__} is not counts of people. Give a Histogram, Population or Release.")
    return source


class Place(NamedTuple):
    """The counts to compare: a query, at a level or for areas off the spine (the other is None)."""

    level: str | None
    areas: Areas | None
    query: Query


class SparseTable(NamedTuple):
    """A sparse table: unit ``u`` has the entries ``start[u]`` to ``start[u + 1]``, in ascending order of rows."""

    start: Integers
    row: NDArray[Any]
    counts: NDArray[Any]


def tables_of(source: Source, truth: Histogram, place: Place, name: str = "") -> Iterator[SparseTable]:
    """The table of each replicate that a source holds, on the units of the truth."""
    if isinstance(source, Estimates):
        refuse_elsewhere(source, truth, name)
        for table in _dense(source, place):
            unit, row = np.nonzero(table)
            start = np.searchsorted(unit, np.arange(len(table) + 1)).astype(np.int64)
            yield SparseTable(start, row.astype(np.uint32), table[unit, row])
        return
    sampled = source.people if isinstance(source, Sample) else source
    counts = _answer(aligned(people_of(sampled), truth, name), place)
    count = counts.count.astype(np.int64)
    yield SparseTable(
        counts.start, counts.cell.astype(np.uint32), source.scaled(count) if isinstance(source, Sample) else count
    )


def _answer(people: Histogram, place: Place) -> Counts:
    if place.areas is None:
        assert place.level is not None
        return people.answer(place.query, level=place.level)
    table = place.areas.tabulate(people.leaves)
    return table.merged(np.arange(table.units + 1), place.query.row_of_cell, place.query.size)


def _dense(source: Estimates, place: Place) -> NDArray[Any]:
    if place.areas is None:
        assert place.level is not None
        return source.answer(place.query.name, level=place.level)
    leaves = source.answer(place.query.name, level=source.spine.leaf)
    inside = place.areas.of_leaf >= 0
    table = np.zeros((len(leaves), len(place.areas.names), leaves.shape[2]), dtype=leaves.dtype)
    np.add.at(table.swapaxes(0, 1), place.areas.of_leaf[inside], leaves[:, inside].swapaxes(0, 1))
    return table


def refuse_elsewhere(estimates: Estimates, truth: Histogram, name: str = "") -> None:
    """Refuse estimates whose units or cells are not those of the truth."""
    if estimates.spine != truth.spine or estimates.schema != truth.schema:
        raise InputError(f"{name}the estimates have another spine or schema than the truth. Use those of the truth.")


def aligned(people: Histogram, truth: Histogram, name: str = "") -> Histogram:
    """The same people on the spine of the truth: a file made elsewhere may leave out empty units."""
    if people.schema != truth.schema:
        mine, theirs = (", ".join(side.schema.attributes) for side in (people, truth))
        raise InputError(
            f"{name}the release counts by {mine} and the truth by {theirs}, or with other labels. "
            f"Read both with one codebook."
        )
    if people.spine == truth.spine:
        return people
    if people.spine.levels != truth.spine.levels:
        mine, theirs = (", ".join(side.spine.levels) for side in (people, truth))
        raise InputError(
            f"{name}the release has the levels {mine} and the truth {theirs}. Read both with one codebook."
        )
    try:
        unit = truth.spine.locate(truth.spine.leaf, truth.spine.leaf_codes(people.spine.leaf_columns()))
    except InputError as problem:
        raise InputError(f"{name}a unit of the release is not in the truth: {problem}") from None
    return Histogram.from_entries(
        truth.spine, truth.schema, unit=unit[people.leaves.unit()], cell=people.leaves.cell, count=people.leaves.count
    )
