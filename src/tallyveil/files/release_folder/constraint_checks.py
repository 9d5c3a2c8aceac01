"""Checks that the counts of a release satisfy structural zeros, bounds and invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import exact_pairs, measurement_name
from tallyveil.files.release_folder.measurement_checks import saved_exact_answers
from tallyveil.files.release_folder.strict import ReadRelease
from tallyveil.files.tables.geography import unit_code
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.privacy.constraints import ALL, UNLIMITED, Bound, FacilityBounds, Invariant, StructuralZero


def check_zeros(release: ReadRelease) -> str:
    """Nobody is in a cell that the strategy or the codebook declares impossible."""
    cells = [dict(c.cells) for c in release.strategy.constraints if isinstance(c, StructuralZero)]
    schema = Schema(attributes=release.schema.attributes, zeros=[*cells, *release.schema.zeros])
    leaves = release.people.leaves
    wrong = np.flatnonzero(~schema.possible[leaves.cell])
    if len(wrong):
        unit, cell = int(leaves.unit()[wrong[0]]), int(leaves.cell[wrong[0]])
        label = schema.query("detailed").labels()[cell]
        where = f"{release.spine.leaf} {unit_code(release.spine, release.spine.leaf, unit)}"
        raise BrokenError(f"{where} has {leaves.count[wrong[0]]:,} persons in the impossible cell {label}")
    impossible = int((~schema.possible).sum())
    return f"nobody in {impossible:,} impossible cells" if impossible else "no cell is impossible"


def check_bounds(release: ReadRelease) -> str:
    """Bounds hold at their level; above it they hold because both sides are sums."""
    bounds = [c for c in release.strategy.constraints if isinstance(c, FacilityBounds | Bound)]
    for bound in bounds:
        query = bound.attribute if isinstance(bound, FacilityBounds) else bound.query
        for units, answers in _answers(release.people, query, bound.level):
            least, most = _limits(release, bound, units)
            wrong = (answers < least) | (answers > most)
            if wrong.any():
                unit, row = (int(place[0]) for place in np.nonzero(wrong))
                label = release.schema.query(query).labels()[row]
                raise BrokenError(
                    f"{bound.level} {unit_code(release.spine, bound.level, int(units[unit]))}, {query} {label}: "
                    f"{answers[unit, row]:,} persons, not between {least[unit, row]:,} and {most[unit, row]:,}"
                )
    return f"{len(bounds)} kept" if bounds else "none declared"


def check_invariants(release: ReadRelease) -> str:
    """The release agrees with the exact answers saved beside it."""
    declared = {
        (release.schema.query(c.query).name, c.level) for c in release.strategy.constraints if isinstance(c, Invariant)
    }
    saved = [
        (query, level)
        for query, level in exact_pairs(release.strategy, release.schema)
        if measurement_name(query, level, exact=True) in release.folder.files
    ]
    for query, level in saved:
        exact = saved_exact_answers(release, query, level)
        for units, answers in _answers(release.people, query, level):
            right = exact[int(units[0]) : int(units[-1]) + 1]
            if (answers != right).any():
                unit, row = (int(place[0]) for place in np.nonzero(answers != right))
                raise BrokenError(
                    f"{level} {unit_code(release.spine, level, int(units[unit]))}, "
                    f"{query} {release.schema.query(query).labels()[row]}: {answers[unit, row]:,}, "
                    f"but the invariant is {right[unit, row]:,}"
                )
    unsaved = sorted(f"{query}@{level}" for query, level in declared.difference(saved))
    if unsaved:
        raise UncheckedError(f"no exact answers in the folder for {', '.join(unsaved)}")
    return f"{', '.join(f'{query}@{level}' for query, level in saved)} exact" if saved else "none declared"


NUMBERS: dict[str, Callable[[ReadRelease], str]] = {
    "structural zeros": check_zeros,
    "bounds": check_bounds,
    "invariants": check_invariants,
}


def _limits(release: ReadRelease, bound: FacilityBounds | Bound, units: Integers) -> tuple[Integers, Integers]:
    """The least and most for units of the bound's level, by rows of its query."""
    if isinstance(bound, Bound):
        least, most = bound.limits(release.schema)
        named = release.spine.locate(bound.level, list(bound.units)) if bound.units else units
        held = np.isin(units, named)[:, None]
        return np.where(held, least, 0), np.where(held, most, UNLIMITED)
    if release.facilities is None:
        raise UncheckedError("there are no facilities to check bounds with")
    facilities = release.facilities.at(bound.level).dense(int(units[0]), int(units[-1]) + 1)
    least, most = (
        np.array([table.get(label, table.get(ALL, default)) for label in release.facilities.types], dtype=np.int64)
        for table, default in ((bound.least, 0), (bound.most, UNLIMITED))
    )
    return facilities * least, np.where(most < UNLIMITED, facilities * most, UNLIMITED * (facilities > 0))


def _answers(people: Histogram, query: str, level: str, size: int = 1 << 22) -> Iterator[tuple[Integers, Integers]]:
    """A query's answers at a level, in pieces of units."""
    answers = people.answer(query, level=level)
    step = max(1, size // answers.cells)
    for first in range(0, answers.units, step):
        last = min(first + step, answers.units)
        yield np.arange(first, last), answers.dense(first, last)
