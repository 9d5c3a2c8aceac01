"""Which columns are attributes of people, which hold numbers, and which are of no use, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tallyveil.files.tables.draft.asked import Asked
from tallyveil.files.tables.draft.cells import completes_product
from tallyveil.files.tables.draft.geography import FEW_ROWS, Geography
from tallyveil.files.tables.draft.nesting import count_paths, follows_from, nest, paths, same_units
from tallyveil.files.tables.draft.view import Column
from tallyveil.files.tables.draft.words import (
    is_age,
    is_attribute,
    is_code_name,
    is_count,
    is_identifier,
    is_only_attribute,
    is_place,
    is_remark,
    is_total,
)

_TOLD_APART = 0.5  # share of rows that differ from all others in a table of counts
_FACT = ": a fact about units, not a count"
MOST_LABELS = 200
MOST_CODES = 30  # different numbers that can be codes of labels
_MOST_MISSING = 0.4  # share of empty cells that may be a label of their own
MOST_FLAGS = 3  # the same where zero is among them: counts have zeros too


@dataclass(frozen=True, kw_only=True, eq=False)
class Sorted:
    """The columns that are not geography, by their use."""

    labels: tuple[Column, ...]
    numbers: tuple[Column, ...]  # whole numbers: counts, or codes of labels
    aside: Mapping[str, str]  # columns of no use, and why


def may_be_codes(column: Column) -> bool:
    """Whether numbers may be codes of labels: a few that occur again and again, and zero only beside one or two."""
    most = MOST_FLAGS if column.has_nobody else MOST_CODES
    return 1 < column.size <= min(most, len(column.of_row) / 2) and not column.missing


def possible_counts(geography: Geography, columns: Sorted) -> list[str]:
    """The columns of numbers that may say how many people a row stands for.

    In a table of counts, the other columns tell most rows apart, whereas many persons are alike. A number that is
    called a count, or a number among the levels that no name explains, is possible too.
    """
    view = geography.view
    if any(is_identifier(c.name) and c.is_unique for c in view.columns.values()):
        return []
    levels = [view.columns[name] for name in geography.fields["levels"] if name in view.columns]
    unexplained = [c for c in levels if c.is_number and not (c.is_code or is_place(c.name) or is_code_name(c.name))]
    facts = [view.columns[name] for name, reason in columns.aside.items() if reason.endswith(_FACT)]
    possible = []
    for column in (*columns.numbers, *facts, *unexplained):
        others = [c for c in view.columns.values() if c is not column and not c.is_free_text]
        named = is_count(column.name) or is_total(column.name)
        if named or count_paths(others) > _TOLD_APART * view.rows:
            possible.append(column.name)
    return possible


def sort_columns(geography: Geography, asked: Asked) -> Sorted:
    """Sort the columns that are not geography."""
    rest = [column for name, column in geography.view.columns.items() if name not in geography.columns]
    aside: dict[str, str] = {}
    labels, numbers = [], []
    only = any(name in geography.view.columns for name in asked.attributes)  # others are names for the cells' labels
    for column in rest:
        forced = column.name in asked.attributes or column.name in asked.words
        if column.name == asked.count:
            numbers.append(column)
        elif reason := _no_use(column, forced=forced, only=only):
            aside[column.name] = reason
        elif forced or not column.is_number or _is_coded(column):
            labels.append(column)
        elif reason := fact_about_units(geography, column):
            aside[column.name] = reason
        else:
            numbers.append(column)
    nobody = _counts_of_nobody(rest, numbers, asked)
    numbers = [column for column in rest if column in (*numbers, *nobody)]
    labels = [column for column in labels if column not in nobody]
    for column in nobody:
        aside.pop(column.name, None)
    kept = []
    for column in labels:
        said = column.name in asked.attributes
        if reason := None if said else _says_nothing_new(geography, column, labels):
            aside[column.name] = reason
        else:
            kept.append(column)
    return Sorted(labels=tuple(kept), numbers=tuple(numbers), aside=aside)


def _counts_of_nobody(columns: Sequence[Column], numbers: Sequence[Column], asked: Asked) -> list[Column]:
    """The columns of zeros or dashes whose names complete those of the counts: no people have these labels."""
    names = [column.name for column in numbers]
    return [
        column
        for column in columns
        if column.has_nobody_only
        and column.name not in (*names, *asked.attributes)
        and completes_product(column.name, names)
    ]


def fact_about_units(geography: Geography, column: Column) -> str | None:
    """Why numbers are no counts, if they are the same in all rows of each unit, or of each unit above the leaves."""
    levels = [geography.view.columns.get(name) for name in geography.fields["levels"]]
    known = [level for level in levels if level is not None]
    named = is_count(column.name) or is_total(column.name)
    if named or column.size < 2 or geography.view.rows < FEW_ROWS or len(known) < len(levels) or not known:
        return None
    for depth in range(len(known), 0, -1):  # most leaves may have one row: what is the same for all rows of a parent?
        path = paths(known[:depth])
        if len(path) >= 2 * (int(path.max()) + 1) and follows_from(path, column):
            return f"the same in all rows of each {known[depth - 1].name}{_FACT}"
    return None


def _is_coded(column: Column) -> bool:
    """Whether the numbers of a column are codes of labels, by their leading zeros or by the column's name."""
    named = is_count(column.name) or is_total(column.name)
    return not named and (column.is_code or column.is_year or is_only_attribute(column.name) or is_age(column.name))


def _no_use(column: Column, *, forced: bool, only: bool) -> str | None:
    """Why a column is neither an attribute nor a count, if so. ``only`` says that the user has named all attributes."""
    if column.size == 0:
        return "no values"
    if not forced:
        if column.is_date:
            return "dates"
        if column.is_serial and not is_count(column.name):
            return "numbers of the rows"
        if column.is_free_text or (is_remark(column.name) and not column.is_number):
            return "free text"
        if column.is_number and not column.is_whole and not is_age(column.name):
            return "fractions or negative numbers, so not counts"
        if column.is_number and not _is_coded(column):
            return "numbers of records: an identifier" if is_identifier(column.name) else None
        if column.is_unique and len(column.of_row) >= FEW_ROWS:
            return "a different value in each row: an identifier or names"
        if column.size == 1 and len(column.of_row) > 1 and (column.is_year or not is_attribute(column.name)):
            return f"one value only, {column.labels[0]!r}"
        if only:
            return "not among the attributes that were asked for"
    if column.size > MOST_LABELS:
        return f"{column.size:,} different values: an attribute has few labels, so group them first"
    if column.missing > _MOST_MISSING * len(column.of_row) and not forced:
        return f"{column.missing:,} of {len(column.of_row):,} rows have no value; name it in --attributes to use it"
    return None


def _says_nothing_new(geography: Geography, column: Column, labels: Sequence[Column]) -> str | None:
    """Why a column of labels adds nothing: it follows from the unit, or from another column of labels."""
    rows = geography.view.rows
    if rows < FEW_ROWS:
        return None
    if geography.is_found and not is_attribute(column.name) and follows_from(geography.path, column):
        return f"follows from {geography.fields['levels'][-1]}: a fact about units rather than people"
    if above := _level_that_it_divides(geography, column):
        return f"divides {above} as {geography.fields['levels'][-1]} does: could be a level in place of it"
    for other in labels:
        if other is column or rows < 5 * max(column.size, other.size):
            continue
        if same_units(column, other):
            if (column.is_number, labels.index(column)) > (other.is_number, labels.index(other)):
                return f"says the same as {other.name}"
        elif _groups(column, other) and other.size <= MOST_CODES:
            return f"follows from {other.name}: could be a grouping of it"
        elif _groups(other, column) and column.size > MOST_CODES:
            return f"{column.size:,} different values, which {other.name} groups"
    return None


def _level_that_it_divides(geography: Geography, column: Column) -> str | None:
    """The finest level above the leaves in whose units a column of other places lies, if there is any."""
    names = geography.fields["levels"][:-1]
    levels = [geography.view.columns[name] for name in names if name in geography.view.columns]
    if not is_place(column.name) or is_attribute(column.name):
        return None
    finer = (level.name for level in levels[::-1] if 1 < level.size < column.size and nest(column, level).holds)
    return next(finer, None)


def _groups(coarse: Column, fine: Column) -> bool:
    """Whether each label of one column has one label of a coarser one."""
    return 1 < coarse.size < fine.size and nest(fine, coarse).astray == 0
