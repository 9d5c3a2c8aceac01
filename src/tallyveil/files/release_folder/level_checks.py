"""Checks that the tables by level are sums of the release, and that children sum to parents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tallyveil._arrays import Integers
from tallyveil._compiled import compiled
from tallyveil._workers import workers_ahead
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import (
    LEVEL_PIECE,
    MARGIN,
    level_columns,
    level_name,
    level_part,
    query_columns,
    with_margins,
)
from tallyveil.files.release_folder.strict import ReadRelease
from tallyveil.files.release_folder.strict_tables import CheckedTable, checked_table, refuse_differing
from tallyveil.files.tables.geography import unit_code
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.schema import Query
from tallyveil.release.plan import level_queries

Columns = dict[str, Integers]


@dataclass(eq=False)
class LevelProblems:
    """The problems of the tables by level, and of children against parents, from the finest level to the coarsest."""

    levels: list[Exception] = field(default_factory=list)
    children: list[Exception] = field(default_factory=list)


def read_levels(release: ReadRelease) -> LevelProblems:
    """Compare every table by level with the counts.

    Tables that are all sums of the same counts agree with each other, so children are compared with parents only where
    a table differs.
    """
    problems = LevelProblems()
    for level in reversed(release.spine.levels):
        try:
            _compare_with_counts(release, level, _level_table(release, level))
        except (BrokenError, UncheckedError) as problem:
            problems.levels.append(problem)
        except Exception as problem:  # whatever the file holds
            why = f"{level_name(level)} cannot be read: {type(problem).__name__}, {problem}"
            problems.levels.append(BrokenError(why))
    if problems.levels:
        problems.children = _children_problems(release)
    return problems


def check_level_tables(problems: LevelProblems) -> str:
    """The tables by level are sums of the release."""
    return _verdict(problems.levels, "every table is the sum of release.parquet")


def check_children(problems: LevelProblems) -> str:
    """In the tables by level, children sum to parents."""
    return _verdict(problems.children, "children sum to parents in every column")


def _level_table(release: ReadRelease, level: str) -> CheckedTable:
    columns = level_columns(release.spine, release.schema, release.strategy, level)
    table = checked_table(release.folder, level_name(level), lambda names: with_margins(columns, names))
    units = release.spine.size(level)
    if table.rows != units:
        raise BrokenError(f"{table.name}: {table.rows:,} rows, but {level} has {units:,} units")
    return table


def _compare_with_counts(release: ReadRelease, level: str, table: CheckedTable) -> None:
    """Refuse a table that is not the sum of the counts, piece by piece, several pieces at a time."""
    counts, queries = release.people.at(level), level_queries(release.strategy, release.schema, level)
    named = [(query, query_columns(query)) for query in map(release.schema.query, queries)]

    def compare(numbered: tuple[int, pa.Table]) -> None:
        first, piece = numbered
        units = np.arange(first, first + piece.num_rows)
        right = () if _same_counts(piece, counts, first, named) else queries
        _compare(release, level, piece, level_part(release.people, counts, level, right, units), first)

    with workers_ahead() as run:
        for _ in run(compare, _pieces(table)):
            pass


def _pieces(table: CheckedTable) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a level's table, in the pieces in which they were written."""
    return table.pieces(max(1, LEVEL_PIECE // table.file.metadata.num_columns))


def _same_counts(piece: pa.Table, counts: Counts, first: int, queries: Sequence[tuple[Query, Sequence[str]]]) -> bool:
    """Whether columns hold the answers to queries; most are 0, so the others are compared one by one."""
    start = counts.start[first : first + piece.num_rows + 1]
    for query, names in queries:
        begin, unit, answer = answers_by_row(start, counts.cell, counts.count, query.row_of_cell, query.size)
        for name, (one, end) in zip(names, pairwise(begin.tolist()), strict=True):
            stated = piece.column(name).to_numpy()
            if np.count_nonzero(stated) != end - one or (stated[unit[one:end]] != answer[one:end]).any():
                return False
    return True


@compiled
def answers_by_row(start, cell, count, row_of_cell, rows):  # type: ignore[no-untyped-def]
    """The non-zero answers to a query, row by row: where each row begins, and the unit and the answer of each."""
    begin, met = np.zeros(rows + 1, np.int64), np.full(rows, -1, np.int64)
    for u in range(len(start) - 1):
        for i in range(start[u], start[u + 1]):
            row = row_of_cell[cell[i]]
            if met[row] != u:
                met[row] = u
                begin[row + 1] += 1
    begin = np.cumsum(begin)
    unit, answer = np.empty(begin[rows], np.int64), np.zeros(begin[rows], np.int64)
    end = begin[:-1].copy()
    met[:] = -1
    for u in range(len(start) - 1):
        for i in range(start[u], start[u + 1]):
            row = row_of_cell[cell[i]]
            if met[row] != u:
                met[row] = u
                unit[end[row]] = u
                end[row] += 1
            answer[end[row] - 1] += count[i]
    return begin, unit, answer


def _compare(release: ReadRelease, level: str, piece: pa.Table, expected: pa.Table, first: int) -> None:
    """Refuse a value that differs from the expected one, and a margin of error that is impossible."""
    name, known = level_name(level), dict(zip(expected.column_names, expected.columns, strict=True))
    for column, values in zip(piece.column_names, piece.columns, strict=True):
        if column.endswith(MARGIN) and column not in known:
            _check_margins(name, values, column)
        elif column in known and pa.types.is_integer(values.type):
            stated, right = values.to_numpy(), known[column].to_numpy()
            if (stated != right).any():
                row = int(np.argmax(stated != right))
                unit = unit_code(release.spine, level, first + row)
                raise BrokenError(
                    f"{name}, {level} {unit}, {column}: {stated[row]}, but release.parquet gives {right[row]}"
                )
        elif column in known:
            refuse_differing(name, values, known[column], column=column, first=first)


def _children_problems(release: ReadRelease) -> list[Exception]:
    """Where the tables of two levels disagree, from the finest level to the coarsest."""
    problems: list[Exception] = []
    below: Columns | None = None
    for level in reversed(release.spine.levels):
        try:
            below = _compare_children(release, level, below, problems)
        except Exception:  # whatever the file holds
            problems.append(UncheckedError(f"{level_name(level)} cannot be compared"))
            below = None
    return problems


def _compare_children(release: ReadRelease, level: str, below: Columns | None, problems: list[Exception]) -> Columns:
    """Compare a level's table with the sums of the level below, and return the sums of its columns by parent."""
    table, depth = _level_table(release, level), release.spine.depth(level)
    columns = level_columns(release.spine, release.schema, release.strategy, level)
    counted = [field.name for field in columns if pa.types.is_integer(field.type)]
    parents = release.spine.parents(level) if depth else np.zeros(1, dtype=np.int64)
    sums: Columns = {}
    for first, piece in _pieces(table):
        units = np.arange(first, first + piece.num_rows)
        for name in counted:
            numbers = piece.column(name).to_numpy()
            _add_up(sums.setdefault(name, np.zeros(parents[-1] + 1, np.int64)), parents[units], numbers)
            if below is not None and name in below and (below[name][units] != numbers).any():
                row = int(np.argmax(below[name][units] != numbers))
                problems.append(
                    BrokenError(
                        f"{level} {unit_code(release.spine, level, first + row)}, {name}: {numbers[row]:,}, but its "
                        f"{release.spine.levels[depth + 1]} rows sum to {below[name][units[row]]:,}"
                    )
                )
    return sums


def _add_up(sums: Integers, parent: Integers, numbers: Integers) -> None:
    """Add numbers to the sums of their parents; the parents are sorted."""
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
