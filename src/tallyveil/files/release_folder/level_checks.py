"""Checks that the tables by level are sums of the release, and that children sum to parents."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tallyveil._arrays import Integers
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import (
    level_columns,
    level_name,
    level_part,
    level_queries,
    with_margins,
)
from tallyveil.files.release_folder.strict import ReadRelease
from tallyveil.files.release_folder.strict_tables import CheckedTable, checked_table, differs
from tallyveil.files.tables.geography import unit_code

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
                    unit = unit_code(release.spine, level, first + at)
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
                f"{level} {unit_code(release.spine, level, first + at)}, {column}: {parents[at]:,}, but its "
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
