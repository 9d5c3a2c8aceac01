"""The layout of a table: what a row is, which columns are attributes, and which hold counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallyveil.files.tables.draft.attributes import MOST_CODES, Asked, Sorted, may_be_codes, sort_columns
from tallyveil.files.tables.draft.cells import attribute_names, read_cells
from tallyveil.files.tables.draft.geography import FEW_ROWS, Geography
from tallyveil.files.tables.draft.nesting import identify_rows
from tallyveil.files.tables.draft.notes import Note
from tallyveil.files.tables.draft.view import Column, natural
from tallyveil.files.tables.draft.words import is_count, is_time, is_total

TOTALS_ONLY = "people"  # the attribute of a table that has totals only


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The fields of a codebook that say what rows and columns are, and comments on them."""

    fields: Mapping[str, Any]
    notes: tuple[Note, ...] = ()
    aside: Mapping[str, str]  # columns of no use, and why


def find_layout(geography: Geography, asked: Asked) -> Layout | None:
    """The layout of the columns that are not geography, if there are counts or attributes among them."""
    columns = sort_columns(geography, asked)
    labels, numbers, path = columns.labels, columns.numbers, geography.path
    counts = [c for c in numbers if c.name == asked.count] or [c for c in numbers if is_count(c.name)]
    if len(numbers) == 1 and is_total(numbers[0].name):
        counts = list(numbers)
    units_once = identify_rows(path, []) or (not geography.is_found and any(c.size > MOST_CODES for c in numbers))
    if asked.count or (len(counts) == 1 and not _is_sum(numbers, counts[0])):
        codes = _codes_in_rows(geography, columns, counts[0])
        if labels or codes:
            return _rows(columns, asked, [*labels, *codes], count=counts[0])
    if units_once and numbers and (len(numbers) > 1 or not labels):
        facts = dict.fromkeys((column.name for column in labels), "the table has one row per unit")
        return _wide(columns, asked, numbers, in_rows=[], aside=facts)
    if len(numbers) > 1 and labels and identify_rows(path, labels):
        return _wide(columns, asked, numbers, in_rows=labels, aside={})
    count = _count_by_shape(geography, columns)
    if count is not None:
        codes = _codes_in_rows(geography, columns, count)
        note = Note(field=("table", "count"), text="taken as the count: the other columns identify the rows")
        return _rows(columns, asked, [*labels, *codes], count=count, notes=[note])
    codes = [column for column in numbers if may_be_codes(column)]
    if labels or codes:
        return _rows(columns, asked, [*labels, *codes], count=None)
    return None


def _is_sum(numbers: Sequence[Column], count: Column) -> bool:
    """Whether a column is the sum of others, so that the table is wide and this is its total."""
    return len(numbers) > 2 and read_cells(numbers, total=count.name).total == count.name


def _codes_in_rows(geography: Geography, columns: Sorted, count: Column) -> list[Column]:
    """The numbers that are codes of labels: without them, rows would occur twice."""
    codes: list[Column] = []
    for column in columns.numbers:
        if identify_rows(geography.path, [*columns.labels, *codes]):
            break
        if column is not count and may_be_codes(column):
            codes.append(column)
    return codes


def _count_by_shape(geography: Geography, columns: Sorted) -> Column | None:
    """The last column of numbers, if the others identify the rows and it does not look like a code."""
    if geography.view.rows < FEW_ROWS or not columns.numbers or not geography.is_found:
        return None
    *others, last = columns.numbers
    if not all(map(may_be_codes, others)):
        return None
    known = identify_rows(geography.path, [*columns.labels, *others])
    return last if known and (columns.labels or others) else None


def _rows(
    columns: Sorted, asked: Asked, used: Sequence[Column], *, count: Column | None, notes: Sequence[Note] = ()
) -> Layout:
    """A long table, or a table of persons where no column has the count."""
    aside = dict(columns.aside)
    for column in columns.numbers:
        if column not in used and column is not count:
            many = f"{column.size:,} different numbers: an attribute has few labels, so group them first"
            aside[column.name] = many if count is None else "numbers that are not the count"
    coded, more = _spoken({column.name: tuple(column.labels) for column in used}, asked, listed=True)
    fields = {**coded, "layout": "persons" if count is None else "long", "count": None if count is None else count.name}
    more += _on_labels([column for column in used if column.name not in coded["labels"]])
    return Layout(fields=fields, notes=(*notes, *more), aside=aside)


def _wide(
    columns: Sorted, asked: Asked, numbers: Sequence[Column], *, in_rows: Sequence[Column], aside: Mapping[str, str]
) -> Layout:
    """A table with a column per cell; some attributes may be columns of labels."""
    reading = read_cells(numbers)
    named = [name for name in asked.attributes if name not in {column.name for column in in_rows}]
    totals_only = len(reading.columns) == 1
    names = attribute_names(reading, [column.name for column in in_rows])
    names = [_from_dictionary(name, labels, asked) for name, labels in zip(names, reading.labels, strict=True)]
    names = named if len(named) == len(names) else [TOTALS_ONLY] if totals_only else names
    coded_rows, notes = _spoken({column.name: tuple(column.labels) for column in in_rows}, asked, listed=True)
    notes += _on_labels([column for column in in_rows if column.name not in coded_rows["labels"]])
    coded, more = _spoken(dict(zip(names, reading.labels, strict=True)), asked, listed=False)
    fields: dict[str, Any] = {
        "attributes": {**coded_rows["attributes"], **coded["attributes"]},
        "labels": {**coded_rows["labels"], **coded["labels"]},
        "layout": "wide",
        "column": reading.pattern(names),
        "total": reading.total,
    }
    if totals_only:
        words = "the table has totals only: one attribute with one label stands for everybody"
        more.append(Note(field=("attributes", names[0]), text=words))
    elif reading.total is not None and not is_total(reading.total):
        more.append(Note(field=("table", "total"), text="taken as the total: the cells sum to it in nearly every row"))
    unnamed = [name for name in names if name.startswith("attribute_")]
    more += [
        Note(field=("attributes", name), text="give this attribute a name, here and in column") for name in unnamed
    ]
    used = {*reading.columns, reading.total}
    left = {c.name: _why_left(c) for c in numbers if c.name not in used}
    return Layout(fields=fields, notes=(*notes, *more), aside={**columns.aside, **aside, **left})


def _on_labels(columns: Sequence[Column]) -> list[Note]:
    """What to check about columns of labels."""
    notes = []
    for column in columns:
        if is_time(column.name):
            words = "people of several times are added up; to keep one, use where in [table]"
        elif column.is_number and column.size > MOST_CODES:
            words = f"{column.size:,} different numbers; fewer groups cost less accuracy"
        elif column.is_number:
            words = f"codes; give them words in a section [labels.{column.name}]"
        else:
            continue
        notes.append(Note(field=("attributes", column.name), text=words))
    return notes


def _why_left(column: Column) -> str:
    if is_total(column.name):
        return "the cells do not sum to it in most rows"
    return "numbers that are not among the cells"


def _from_dictionary(name: str, labels: Sequence[str], asked: Asked) -> str:
    """The attribute of the dictionary that has all these codes, or the name that was found otherwise."""
    fitting = [attribute for attribute, words in asked.words.items() if set(labels) <= set(words)]
    return fitting[0] if len(fitting) == 1 else name


def _spoken(
    attributes: Mapping[str, tuple[str, ...]], asked: Asked, *, listed: bool
) -> tuple[dict[str, dict[str, Any]], list[Note]]:
    """Attributes with the words of the dictionary; ``listed`` adds the codes that it has and the data lack."""
    codes, labels, notes = dict(attributes), {}, []
    for name in [name for name in attributes if name in asked.words]:
        words = asked.words[name]
        unknown = [code for code in attributes[name] if code not in words]
        met = [code for code in words if listed or code in attributes[name]]
        codes[name] = tuple(attributes[name]) if not listed else (*met, *sorted(unknown, key=natural))
        labels[name] = {code: words.get(code, code) for code in codes[name]}
        notes += [
            Note(field=("labels", name), item=code, text="not in the dictionary: give this code a word")
            for code in unknown
        ]
    return {"attributes": codes, "labels": labels}, notes
