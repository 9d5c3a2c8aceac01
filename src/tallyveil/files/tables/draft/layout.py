"""The layout of a table: what a row is, which columns are attributes, and which hold counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tallyveil.files.tables.codebook import FILL_IN
from tallyveil.files.tables.draft.asked import Asked
from tallyveil.files.tables.draft.attributes import MOST_CODES, Sorted, may_be_codes, possible_counts, sort_columns
from tallyveil.files.tables.draft.cells import Reading, are_alike, are_two_sets, attribute_names, read_cells
from tallyveil.files.tables.draft.geography import FEW_ROWS, Geography
from tallyveil.files.tables.draft.labels import in_years, may_be_years, names_from_dictionary, spoken, spoken_rows
from tallyveil.files.tables.draft.nesting import identify_rows, most_have_one_row
from tallyveil.files.tables.draft.notes import Note, toml_key
from tallyveil.files.tables.draft.view import Column
from tallyveil.files.tables.draft.words import is_count, is_time, is_total, says_total

_CROSSED = 0.3  # share of combinations of units and labels that have a row in a table of counts


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The fields of a codebook that say what rows and columns are, and comments on them."""

    fields: Mapping[str, Any]
    notes: tuple[Note, ...] = ()
    aside: Mapping[str, str]  # columns of no use, and why
    missing: tuple[Note, ...] = ()  # what a person must say, since counts would be wrong otherwise


def find_layout(geography: Geography, asked: Asked) -> Layout:
    """The layout of the columns that are not geography, with a comment on attributes that it does not have."""
    found = _layout(geography, asked)
    unused = [name for name in asked.attributes if name not in found.fields["attributes"]]
    unused = [name for name in unused if name not in found.fields.get("where", {})]
    if not unused:
        return found
    note = Note(field=("attributes", FILL_IN), text=_why_unused(unused, geography, found))
    fields = {**found.fields, "attributes": {FILL_IN: (FILL_IN,), **found.fields["attributes"]}}
    return replace(found, fields=fields, missing=(*found.missing, note))


def _why_unused(names: Sequence[str], geography: Geography, found: Layout) -> str:
    """Why a draft does not have attributes that the user names, and what to do."""
    listed = f"--attributes {','.join(names)!r} is not used"
    if aside := [f"{name}: {found.aside[name]}" for name in names if name in found.aside]:
        return f"{listed}, since of {'; '.join(aside)}. Leave these out, or correct the columns."
    if found.fields["layout"] == "wide":
        cells = [name for name in found.fields["attributes"] if name not in geography.view.columns]
        labels = ", ".join(label for name in cells for label in found.fields["attributes"][name][:4])
        return (
            f"{listed}, since it has {len(names)} names for labels in the names of columns, which are those of "
            f"{len(cells)} (such as {labels}). Give one name for each, or rename the columns."
        )
    columns = ", ".join(geography.view.columns)
    return (
        f"{listed}, since no column has this name, nor do names of columns have its labels. The columns are {columns}."
    )


def _layout(geography: Geography, asked: Asked) -> Layout:
    columns = sort_columns(geography, asked)
    labels, numbers, path = columns.labels, columns.numbers, geography.path
    if asked.persons:
        return _rows(columns, asked, [*labels, *(c for c in numbers if may_be_codes(c) or may_be_years(c))], count=None)
    counts = [c for c in numbers if c.name == asked.count] or [c for c in numbers if is_count(c.name)]
    if len(numbers) == 1 and is_total(numbers[0].name):
        counts = list(numbers)
    units_once = identify_rows(path, []) or (not geography.is_found and not all(map(may_be_codes, numbers)))
    if asked.count or (len(counts) == 1 and not _is_sum(numbers, counts[0])):
        codes = _codes_in_rows(geography, columns, counts[0])
        if labels or codes:
            return _rows(columns, asked, [*labels, *codes], count=counts[0])
    if not asked.count and _are_named_cells(geography, numbers, asked):
        return _wide(columns, asked, numbers, in_rows=labels, aside={})
    if asked.count or (units_once and not labels and _stands_alone(numbers, counts)):
        others = {column.name: "not the count" for column in numbers if column is not counts[0]}
        return _wide(columns, asked, counts, in_rows=[], aside=others)
    if units_once and numbers and (len(numbers) > 1 or not labels):
        facts = dict.fromkeys((column.name for column in labels), "the table has one row per unit")
        return _wide(columns, asked, numbers, in_rows=[], aside=facts)
    if len(numbers) > 1 and labels and _is_crossed(geography, labels):
        return _wide(columns, asked, numbers, in_rows=labels, aside={})
    if len(numbers) > 2 and most_have_one_row(path) and read_cells(numbers).total is not None:
        return _wide(columns, asked, numbers, in_rows=labels, aside={})  # a few units have several rows
    in_rows = [*labels, *(column for column in numbers if may_be_codes(column))]
    cells = [column for column in numbers if not may_be_codes(column)]
    if len(cells) > 1 and in_rows and _is_crossed(geography, in_rows):
        return _wide(columns, asked, cells, in_rows=in_rows, aside={})
    if len(cells) > 2 and read_cells(cells).total is not None and identify_rows(path, in_rows):
        return _wide(columns, asked, cells, in_rows=in_rows, aside={})
    count = _count_by_shape(geography, columns)
    if count is not None:
        codes = _codes_in_rows(geography, columns, count)
        note = Note(field=("table", "count"), text="taken as the count: the other columns identify the rows")
        found = _rows(columns, asked, [*labels, *codes], count=count, notes=[note])
        rivals = [c.name for c in numbers if c is not count and c not in codes]
        return _undecided(found, [*rivals, count.name]) if rivals else found
    codes = [column for column in numbers if may_be_codes(column)]
    possible = possible_counts(geography, columns)
    if labels or codes:
        years = [] if possible else [c for c in numbers if c not in codes and may_be_years(c)]
        found = _rows(columns, asked, [*labels, *codes, *years], count=None)
        return _undecided(found, possible) if possible else found
    if geography.is_found and not units_once and not numbers:
        found = Layout(fields={"attributes": {}, "layout": "persons"}, aside=columns.aside)
        return _undecided(found, possible) if possible else found
    nothing = {"attributes": {FILL_IN: (FILL_IN,)}, "layout": "persons"}
    words = "no columns of counts or labels found besides the geography. Name the attributes with their labels."
    missing = Note(field=("attributes", FILL_IN), text=words)
    return Layout(fields=nothing, aside={**columns.aside, **{c.name: "numbers" for c in numbers}}, missing=(missing,))


def _are_named_cells(geography: Geography, numbers: Sequence[Column], asked: Asked) -> bool:
    """Whether the user names as many attributes that are no columns as the names of columns combine."""
    named = [name for name in asked.attributes if name not in geography.view.columns]
    reading = read_cells(numbers) if named and len(numbers) > 1 else None
    return reading is not None and reading.total is not None and len(reading.labels) == len(named)


def _stands_alone(numbers: Sequence[Column], counts: Sequence[Column]) -> bool:
    """Whether one column is called a count, and the others neither sum to it nor are labels of the same people."""
    others = [column for column in numbers if column not in counts]
    return (
        len(counts) == 1 and len(others) > 0 and not are_alike(read_cells(others)) and not _is_sum(numbers, counts[0])
    )


def _undecided(found: Layout, counts: Sequence[str]) -> Layout:
    """A draft that asks whether rows are persons, or which column has their number."""
    listed = " or ".join(f"--count {name!r}" for name in counts)
    words = (
        f"the table does not show whether {' or '.join(counts)} is the number of people of a row, or whether one row "
        f"is one person. Draft again with {listed}, or with --persons."
    )
    fields = {**found.fields, "layout": "long", "count": FILL_IN}
    aside = {name: reason for name, reason in found.aside.items() if name not in counts}
    return replace(found, fields=fields, aside=aside, missing=(Note(field=("table", "count"), text=words),))


def _is_sum(numbers: Sequence[Column], count: Column) -> bool:
    """Whether a column is the sum of others, so that the table is wide and this is its total."""
    return len(numbers) > 2 and read_cells(numbers, total=count.name).total == count.name


def _is_crossed(geography: Geography, columns: Sequence[Column]) -> bool:
    """Whether units and labels identify the rows, and most of their combinations have one: a table, and not people."""
    units = int(geography.path.max(initial=-1)) + 1
    combinations = units * math.prod(column.size for column in columns)
    return identify_rows(geography.path, columns) and geography.view.rows >= _CROSSED * combinations


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
    known = [*columns.labels, *others]
    return last if known and _is_crossed(geography, known) else None


def _rows(
    columns: Sorted, asked: Asked, used: Sequence[Column], *, count: Column | None, notes: Sequence[Note] = ()
) -> Layout:
    """A long table, or a table of persons where no column has the count."""
    aside = dict(columns.aside)
    for column in columns.numbers:
        if column not in used and column is not count:
            few = count is not None or column.size <= MOST_CODES
            many = f"{column.size:,} different numbers: an attribute has few labels, so group them first"
            aside[column.name] = "numbers that are neither the count nor codes of labels" if few else many
    banded = [c for c in used if count is None and (in_years(c) or (may_be_years(c) and c.name not in asked.words))]
    coded, more = spoken_rows(used, asked, banded=banded)
    fields = {**coded, "layout": "persons" if count is None else "long", "count": None if count is None else count.name}
    more += _on_labels([column for column in used if column not in banded and column.name not in coded["labels"]])
    return _one_time(Layout(fields=fields, notes=(*notes, *more), aside=aside), used)


def _one_time(found: Layout, used: Sequence[Column]) -> Layout:
    """A table of counts at several times asks for one of them, since most people would be counted again and again."""
    times = [column for column in used if is_time(column.name) or column.is_year]
    if found.fields["layout"] == "persons" or not times or times[0].size < 2:
        return found
    name, values = times[0].name, ", ".join(times[0].labels[:4])
    words = (
        f"the table has people of several times ({values}, ...). Write the one to count, or remove this line and write "
        f"{toml_key(name)} = [] under [attributes] if nobody is counted at two of them."
    )
    fields = {**found.fields, "where": {**found.fields.get("where", {}), name: FILL_IN}}
    fields["attributes"] = {
        attribute: labels for attribute, labels in fields["attributes"].items() if attribute != name
    }
    fields["labels"] = {attribute: words for attribute, words in fields.get("labels", {}).items() if attribute != name}
    missing = (*found.missing, Note(field=("table", "where"), item=name, text=words))
    return replace(found, fields=fields, missing=missing)


def _wide(
    columns: Sorted, asked: Asked, numbers: Sequence[Column], *, in_rows: Sequence[Column], aside: Mapping[str, str]
) -> Layout:
    """A table with a column per cell; some attributes may be columns of labels."""
    reading = read_cells(numbers)
    if len(reading.columns) == 1 and not in_rows and not asked.attributes:
        note = Note(field=("table", "column"), text="the table has totals only, so there are no attributes")
        totals = {"attributes": {}, "layout": "wide", "column": reading.columns[0]}
        return Layout(fields=totals, notes=(note,), aside={**columns.aside, **aside})
    known = {*(column.name for column in in_rows), *columns.aside, *aside}
    named = [name for name in asked.attributes if name not in known]
    names = attribute_names(reading, [column.name for column in in_rows])
    names = names_from_dictionary(names, reading.labels, asked, [column.name for column in in_rows])
    names = named if len(named) == len(names) else names
    coded_rows, notes = spoken_rows(in_rows, asked)
    notes += _on_labels([column for column in in_rows if column.name not in coded_rows["labels"]])
    said = len(named) == len(names) or any(name in asked.words for name in names)
    doubts = [] if said else _doubts(numbers, reading, [column.name for column in in_rows])
    if doubts:
        names = [FILL_IN if i == 0 else name for i, name in enumerate(names)]
    coded, more = spoken(dict(zip(names, reading.labels, strict=True)), asked, listed=False)
    fields: dict[str, Any] = {
        "attributes": {**coded_rows["attributes"], **coded["attributes"]},
        "labels": {**coded_rows["labels"], **coded["labels"]},
        "layout": "wide",
        "column": reading.pattern(names),
        "total": reading.total,
    }
    if reading.total is not None and not is_total(reading.total):
        more.append(Note(field=("table", "total"), text="taken as the total: the cells sum to it"))
    unnamed = [name for name in names if name.startswith("attribute_")]
    more += [
        Note(field=("attributes", name), text="give this attribute a name, here and in column") for name in unnamed
    ]
    used = {*reading.columns, reading.total}
    left = {c.name: _why_left(c, reading) for c in numbers if c.name not in used}
    missing = tuple(Note(field=("attributes", FILL_IN), text=text) for text in doubts)
    found = Layout(fields=fields, notes=(*notes, *more), aside={**columns.aside, **aside, **left}, missing=missing)
    return _one_time(found, in_rows)


def _doubts(numbers: Sequence[Column], reading: Reading, in_rows: Sequence[str]) -> list[str]:
    """Why columns may not be the cells of a table, so that their sum is not the number of people."""
    if reading.total is not None:
        return []
    remedy = "Give the attribute a name here and in column, remove labels that are none and list them under ignore"
    cells = reading.columns
    left = [c.name for c in numbers if c.name not in (*cells, *reading.sums)]
    listed = ", ".join(cells[:6]) + (", ..." if len(cells) > 6 else "")
    if left:
        return [f"{', '.join(left)} is not the sum of {listed}, so people may be missing or counted twice. {remedy}."]
    sums = [name for name in cells if name in reading.possible_sums or says_total(name)]
    if sums:
        return [f"{', '.join(sums)} may be a sum of others among {listed}, and people counted twice. {remedy}."]
    if are_two_sets(numbers, reading):
        return [f"some of the columns {listed} sum to the same as the others, so people are counted twice. {remedy}."]
    if not are_alike(reading):
        return [f"nothing shows that the columns {listed} count different people. If they do, name what they are with "
                f"--attributes {','.join([*in_rows, 'NAME'])!r}. {remedy}."]  # fmt: skip
    return []


def _on_labels(columns: Sequence[Column]) -> list[Note]:
    """What to check about columns of labels."""
    notes = []
    for column in columns:
        if column.is_number and column.size > MOST_CODES:
            words = f"{column.size:,} different numbers; fewer groups cost less accuracy"
        elif column.is_number:
            words = f"codes; give them words in a section [labels.{toml_key(column.name)}]"
        else:
            continue
        notes.append(Note(field=("attributes", column.name), text=words))
    return notes


def _why_left(column: Column, reading: Reading) -> str:
    if column.name in reading.sums:
        return "a sum of other columns"
    if is_total(column.name):
        return "the cells do not sum to it in most rows"
    return "numbers that are not among the cells"
