"""Checks on the numbers of a release, once its folder is read: each says what holds, or raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tallyveil._arrays import Integers
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import (
    exact_pairs,
    level_columns,
    level_name,
    level_part,
    level_queries,
    measurement_name,
    with_margins,
)
from tallyveil.files.release_folder.measured_checked import exact_answers
from tallyveil.files.release_folder.strict import ReadRelease
from tallyveil.files.release_folder.tables_checked import CheckedTable, checked_table, differs
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.constraints import ALL, UNLIMITED, Bound, FacilityBounds, Invariant, StructuralZero

Columns = dict[str, Integers]


@dataclass(eq=False)
class LevelTables:
    """What one pass over the tables by level found, from the finest to the coarsest."""

    levels: list[Exception] = field(default_factory=list)
    children: list[Exception] = field(default_factory=list)


def read_levels(release: ReadRelease) -> LevelTables:
    """Compare every table by level with the counts, and with the table of the level below it."""
    found, below = LevelTables(), None
    for level in reversed(release.spine.levels):
        try:
            table = _level_table(release, level)
            own = _level_sums(release, level, table, below, found)
        except Exception as problem:  # whatever the file holds
            known = isinstance(problem, BrokenError | UncheckedError)
            why = f"{level_name(level)} cannot be read: {type(problem).__name__}, {problem}"
            found.levels.append(problem if known else BrokenError(why))
            found.children.append(UncheckedError(f"{level_name(level)} cannot be compared"))
            own = None
        below = own
    return found


def check_levels(found: LevelTables) -> str:
    """Tables by level are the sums of the release."""
    return _verdict(found.levels, "every table is the sum of release.parquet")


def check_children(found: LevelTables) -> str:
    """Children sum to parents, table against table."""
    return _verdict(found.children, "children sum to parents in every column")


def check_zeros(release: ReadRelease) -> str:
    """Nobody in cells that the strategy or the codebook calls impossible."""
    cells = [dict(c.cells) for c in release.strategy.constraints if isinstance(c, StructuralZero)]
    schema = Schema(attributes=release.schema.attributes, zeros=[*cells, *release.schema.zeros])
    leaves = release.people.leaves
    wrong = np.flatnonzero(~schema.possible[leaves.cell])
    if len(wrong):
        unit, cell = int(leaves.unit()[wrong[0]]), int(leaves.cell[wrong[0]])
        label = schema.query("detailed").labels()[cell]
        where = f"{release.spine.leaf} {_code(release.spine, release.spine.leaf, unit)}"
        raise BrokenError(f"{where} has {leaves.count[wrong[0]]:,} persons in the impossible cell {label}")
    impossible = int((~schema.possible).sum())
    return f"nobody in {impossible:,} impossible cells" if impossible else "no cell is impossible"


def check_bounds(release: ReadRelease) -> str:
    """Bounds hold at their level; above it they hold for the sums, since both sides add up."""
    bounds = [c for c in release.strategy.constraints if isinstance(c, FacilityBounds | Bound)]
    for bound in bounds:
        query = bound.attribute if isinstance(bound, FacilityBounds) else bound.query
        for units, answers in _answers(release.people, query, bound.level):
            least, most = _limits(release, bound, units)
            wrong = (answers < least) | (answers > most)
            if wrong.any():
                at, row = (int(place[0]) for place in np.nonzero(wrong))
                label = release.schema.query(query).labels()[row]
                raise BrokenError(
                    f"{bound.level} {_code(release.spine, bound.level, int(units[at]))}, {query} {label}: "
                    f"{answers[at, row]:,} persons, not between {least[at, row]:,} and {most[at, row]:,}"
                )
    return f"{len(bounds)} kept" if bounds else "none declared"


def check_invariants(release: ReadRelease) -> str:
    """Invariants are those saved beside the release."""
    declared = {
        (release.schema.query(c.query).name, c.level) for c in release.strategy.constraints if isinstance(c, Invariant)
    }
    saved = [
        (query, level)
        for query, level in exact_pairs(release.strategy, release.schema)
        if measurement_name(query, level, exact=True) in release.folder.files
    ]
    for query, level in saved:
        exact = exact_answers(release, query, level)
        for units, answers in _answers(release.people, query, level):
            right = exact[int(units[0]) : int(units[-1]) + 1]
            if (answers != right).any():
                at, row = (int(place[0]) for place in np.nonzero(answers != right))
                raise BrokenError(
                    f"{level} {_code(release.spine, level, int(units[at]))}, "
                    f"{query} {release.schema.query(query).labels()[row]}: {answers[at, row]:,}, but the invariant is "
                    f"{right[at, row]:,}"
                )
    open_ = sorted(f"{query}@{level}" for query, level in declared.difference(saved))
    if open_:
        raise UncheckedError(f"no exact answers in the folder for {', '.join(open_)}")
    return f"{', '.join(f'{query}@{level}' for query, level in saved)} exact" if saved else "none declared"


NUMBERS: dict[str, Callable[[ReadRelease], str]] = {
    "structural zeros": check_zeros,
    "bounds": check_bounds,
    "invariants": check_invariants,
}


def _level_table(release: ReadRelease, level: str) -> CheckedTable:
    columns = level_columns(release.spine, release.schema, release.strategy, level)
    table = checked_table(release.folder, level_name(level), lambda there: with_margins(columns, there))
    units = release.spine.size(level)
    if table.rows != units:
        raise BrokenError(f"{table.name}: {table.rows:,} rows, but {level} has {units:,} units")
    return table


def _level_sums(
    release: ReadRelease, level: str, table: CheckedTable, below: Columns | None, found: LevelTables
) -> Columns:
    """Compare a level's table, and add up its columns by parent."""
    counts, queries = release.people.at(level), level_queries(release.strategy, release.schema, level)
    depth = release.spine.depth(level)
    parents = release.spine.parents(level) if depth else np.zeros(1, dtype=np.int64)
    sums: Columns = {}
    for first, piece in table.pieces(1 << 14):
        units = np.arange(first, first + piece.num_rows)
        right = level_part(release.people, counts, level, queries, units)
        _compare(release, level, piece, right, first, found)
        counted = {field.name for field in right.schema if pa.types.is_integer(field.type)}
        for name, values in zip(piece.column_names, piece.columns, strict=True):
            if name in counted:
                numbers = values.to_numpy()
                _add_up(sums.setdefault(name, np.zeros(parents[-1] + 1, np.int64)), parents[units], numbers)
                if below is not None and name in below:
                    _compare_children(release, depth, name, numbers, below[name][units], first, found)
    return sums


def _compare(
    release: ReadRelease, level: str, piece: pa.Table, right: pa.Table, first: int, found: LevelTables
) -> None:
    """Note the first value of a table that differs from the release's, and margins of error that cannot be."""
    if any(isinstance(problem, BrokenError) for problem in found.levels):
        return
    name, known = level_name(level), dict(zip(right.column_names, right.columns, strict=True))
    try:
        for column, values in zip(piece.column_names, piece.columns, strict=True):
            if column not in known:
                _check_margins(name, values, column)
            elif pa.types.is_integer(values.type):
                mine, theirs = values.to_numpy(), known[column].to_numpy()
                if (mine != theirs).any():
                    at = int(np.argmax(mine != theirs))
                    unit = _code(release.spine, level, first + at)
                    raise BrokenError(
                        f"{name}, {level} {unit}, {column}: {mine[at]}, but release.parquet gives {theirs[at]}"
                    )
            else:
                differs(name, values, known[column], column=column, first=first)
    except BrokenError as problem:
        found.levels.append(problem)


def _compare_children(
    release: ReadRelease,
    depth: int,
    column: str,
    parents: Integers,
    sums: Integers,
    first: int,
    found: LevelTables,
) -> None:
    if (sums != parents).any() and not any(isinstance(problem, BrokenError) for problem in found.children):
        at, level = int(np.argmax(sums != parents)), release.spine.levels[depth]
        found.children.append(
            BrokenError(
                f"{level} {_code(release.spine, level, first + at)}, {column}: {parents[at]:,}, but its "
                f"{release.spine.levels[depth + 1]} rows sum to {sums[at]:,}"
            )
        )


def _add_up(sums: Integers, parent: Integers, numbers: Integers) -> None:
    """Add numbers to the sums of their parents, which come in order."""
    start = np.flatnonzero(np.diff(parent, prepend=-1))
    sums[parent[start]] += np.add.reduceat(numbers, start)


def _check_margins(name: str, column: pa.ChunkedArray, title: str) -> None:
    """Margins of error are 0 or more."""
    values = column.to_numpy()
    if (values < 0).any():
        raise BrokenError(f"{name}, {title}: {values[np.argmax(values < 0)]}, but a margin of error is 0 or more")


def _verdict(problems: list[Exception], right: str) -> str:
    broken = [problem for problem in problems if isinstance(problem, BrokenError)]
    if broken or problems:
        raise (broken or problems)[0]
    return right


def _limits(release: ReadRelease, bound: FacilityBounds | Bound, units: Integers) -> tuple[Integers, Integers]:
    """Least and most for some units of the bound's level, by rows of its query."""
    if isinstance(bound, Bound):
        least, most = bound.limits(release.schema)
        named = release.spine.locate(bound.level, list(bound.units)) if bound.units else units
        held = np.isin(units, named)[:, None]
        return np.where(held, least, 0), np.where(held, most, UNLIMITED)
    if release.facilities is None:
        raise UncheckedError("there are no facilities to check bounds with")
    there = release.facilities.at(bound.level).dense(int(units[0]), int(units[-1]) + 1)
    least, most = (
        np.array([table.get(label, table.get(ALL, default)) for label in release.facilities.types], dtype=np.int64)
        for table, default in ((bound.least, 0), (bound.most, UNLIMITED))
    )
    return there * least, np.where(most < UNLIMITED, there * most, UNLIMITED * (there > 0))


def _answers(people: Histogram, query: str, level: str, size: int = 1 << 22) -> Iterator[tuple[Integers, Integers]]:
    """A query's answers at a level, some units at a time."""
    answers = people.answer(query, level=level)
    step = max(1, size // answers.cells)
    for first in range(0, answers.units, step):
        last = min(first + step, answers.units)
        yield np.arange(first, last), answers.dense(first, last)


def _code(spine: Spine, level: str, unit: int) -> str:
    return bytes(spine.codes[spine.depth(level)][unit]).decode()
