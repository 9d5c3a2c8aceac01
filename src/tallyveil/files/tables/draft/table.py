"""Draft a codebook from a table. A person should review it before it is used.

The labels and units in a file are facts about the people in it, whereas a codebook for publication lists those that
could occur. Every draft is therefore marked (``labels_from`` and ``units_from``), and counts read with it are stamped
until a person has removed the marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Literal

import numpy as np

from tallyveil.errors import DataError, InputError
from tallyveil.files.tables.codebook import FILL_IN, Codebook
from tallyveil.files.tables.codebook_toml import codebook_to_toml
from tallyveil.files.tables.draft.asked import Asked
from tallyveil.files.tables.draft.asked_checks import check_asked
from tallyveil.files.tables.draft.doubts import ask_about_levels
from tallyveil.files.tables.draft.form import form_of_file, form_of_table
from tallyveil.files.tables.draft.geography import Geography, find_geography
from tallyveil.files.tables.draft.layout import Layout, find_layout
from tallyveil.files.tables.draft.notes import Note, commented
from tallyveil.files.tables.draft.sums import Totals, cuts_of
from tallyveil.files.tables.draft.view import NIL, View, view_table
from tallyveil.files.tables.draft.words import is_sum_label
from tallyveil.files.tables.entries import wide_columns
from tallyveil.files.tables.excel import is_workbook, sheet_names
from tallyveil.files.tables.form import PLAIN, FileForm
from tallyveil.files.tables.sources import Source

_TWICE = (
    "rows with {0} {1} may be totals of other rows, and their people would be counted twice. If they are, write these "
    "values in place of FILL_IN; if they are not, remove FILL_IN."
)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A codebook that fits a table as far as its columns show, with comments on what is in doubt or missing."""

    book: Codebook
    notes: tuple[Note, ...] = ()
    missing: tuple[str, ...] = ()

    def to_toml(self) -> str:
        """The draft as TOML text, each comment beside the line it concerns."""
        return commented(codebook_to_toml(self.book), self.notes)


def draft_codebook(source: Source) -> Codebook:
    """A codebook that fits a table, as far as its columns show, marked as drafted from the data."""
    drafted = draft_table(source)
    if drafted.missing:
        name = str(source) if isinstance(source, str | PathLike) else "the table"
        raise DataError(f"{name}: {' '.join(drafted.missing)}")
    return drafted.book


def draft_table(
    source: Source,
    *,
    levels: Sequence[str] = (),
    attributes: Sequence[str] = (),
    count: str | None = None,
    persons: bool = False,
    dictionary: Mapping[str, Mapping[str, str]] | None = None,
    sheet: str | None = None,
    encoding: str | None = None,
) -> Draft:
    """Draft a codebook with a comment on each doubt.

    Parameters
    ----------
    source
        A CSV, Parquet or Excel file, or a pandas, polars or Arrow table.
    levels, attributes, count
        Columns that the user names: the levels coarse to fine, the attributes, the count. What is not named is
        inferred. Attributes that are not columns name those in the names of columns, in their order.
    persons
        Whether one row is one person, whatever numbers the table has.
    dictionary
        Words for the codes of attributes (see :func:`read_dictionary`).
    sheet
        The sheet of an Excel workbook; by default the one with the most rows.
    encoding
        The encoding of a text file, such as ``"cp1250"``; by default the one that its letters suggest.
    """
    sheet, notes = _sheet(source, sheet)
    FileForm(encoding=encoding)  # refuses one that is unknown
    asked = Asked(
        levels=tuple(levels),
        attributes=tuple(attributes),
        count=count,
        persons=persons,
        encoding=encoding,
        words=dictionary or {},
    )
    draft = _drafted(source, asked, sheet)
    return replace(draft, notes=(*notes, *draft.notes))


def _drafted(source: Source, asked: Asked, sheet: str | None, *, totals: bool = True) -> Draft:
    """The draft of a table; ``totals`` says whether rows that repeat others are left out."""
    view, form, form_notes, found = _viewed(source, sheet, asked.encoding, totals=totals)
    _check(view, asked)
    check_asked(view, asked)
    cuts = {name: cuts_of(view.columns[name], marks) for name, marks in form.total_rows.items()}
    geography = find_geography(view, asked, {name: sizes for name, sizes in cuts.items() if sizes})
    layout = ask_about_levels(geography, find_layout(geography, asked), asked)
    if layout.fields["layout"] == "persons" and totals:  # people are not totals of others
        marked = form.total_rows or form.fill_down or found.doubts
        return _drafted(source, asked, sheet, totals=False) if marked else _drafted_as(
            geography, layout, form, form_notes, sheet=sheet
        )  # fmt: skip
    doubts = _rows_in_doubt(geography, layout, found) if layout.fields["layout"] != "persons" else {}
    marks = {
        name: (*form.total_rows.get(name, ()), *((FILL_IN,) if name in doubts else ()))
        for name in (*form.total_rows, *doubts)
    }
    layout = replace(layout, missing=(*layout.missing, *doubts.values()))
    return _drafted_as(geography, layout, replace(form, total_rows=marks), form_notes, sheet=sheet)


def _drafted_as(
    geography: Geography, layout: Layout, form: FileForm, notes: Sequence[Note], *, sheet: str | None
) -> Draft:
    missing = (*_missing(geography), *layout.missing)
    return Draft(
        book=_codebook(geography, layout, sheet=sheet, form=form),
        notes=(*missing, *_notes(geography.view, geography, layout), *notes),
        missing=tuple(note.text for note in missing),
    )


def _viewed(
    source: Source, sheet: str | None, encoding: str | None, *, totals: bool
) -> tuple[View, FileForm, list[Note], Totals]:
    """The table as its form shows it: without titles, notes and totals, and with merged cells filled."""
    if isinstance(source, str | PathLike) and Path(fspath(source)).is_file() and Path(fspath(source)).stat().st_size:
        form, notes = form_of_file(Path(fspath(source)), sheet, encoding)
    else:
        form, notes = PLAIN, []
    view = view_table(source, form, sheet=sheet)
    whole, more, found = form_of_table(view, form, totals=totals)
    return (view if whole == form else view_table(source, whole, sheet=sheet)), whole, [*notes, *more], found


def _codebook(geography: Geography, layout: Layout, *, sheet: str | None, form: FileForm) -> Codebook:
    fields = {**geography.fields, **layout.fields, "sheet": sheet}
    fields["levels"] = fields["levels"] or (FILL_IN,)
    # A filter on rows of a level is public; a filter on rows of persons may reveal something about them.
    marks = {mark for values in form.total_rows.values() for mark in values}  # found by their sums, unless in doubt
    public = bool(fields.get("where") or marks) and FILL_IN not in marks and fields["layout"] != "persons"
    ignore = tuple(name for name in geography.view.columns if name in layout.aside)
    labels_from: Literal["data"] | None = "data" if fields["attributes"] else None
    book = Codebook(**fields, ignore=ignore, labels_from=labels_from, units_from="data", where_is_public=public)
    counts = {*_wide_columns(book), book.count, book.total}
    columns = [column for name, column in geography.view.columns.items() if name in counts]
    thousands = next((column.thousands for column in columns if column.thousands), None)
    zeros = sorted({*_stand_for_nobody(geography.view, book), *(n for c in columns for n in c.labels if n in NIL)})
    public |= bool(zeros and book.total) and FILL_IN not in marks  # the totals are right where these are 0
    form = replace(form, thousands=thousands, zeros=tuple(zeros))
    return replace(book, form=form, where_is_public=public)


def _stand_for_nobody(view: View, book: Codebook) -> set[str]:
    """Empty cells and signs among the cells of a wide table, if its totals are right where these are 0.

    Without totals, empty cells are 0 where whole columns are empty, and no other cells.
    """
    cells = [view.columns[name] for name in _wide_columns(book)]
    if book.total is None:
        wholly = [column.missing == view.rows for column in cells if column.missing]
        return {""} if wholly and all(wholly) else set()
    total = view.columns[book.total]
    with_gaps = np.any([column.gaps[column.of_row] for column in (*cells, total)], axis=0)
    right = np.sum([c.amounts[c.of_row] for c in cells], axis=0) == total.amounts[total.of_row]
    if not right[with_gaps].all():
        return set()
    return {
        column.texts[int(i)].as_py() for column in (*cells, total) for i in np.unique(column.of_row) if column.gaps[i]
    }


def _wide_columns(book: Codebook) -> list[str]:
    """The columns of counts of a wide table; none if their names have braces, which a pattern cannot express."""
    try:
        return wide_columns(book) if book.layout == "wide" else []
    except (IndexError, KeyError, ValueError):
        return []


def _notes(view: View, geography: Geography, layout: Layout) -> list[Note]:
    notes = list(geography.notes)
    if not view.complete:
        words = f"nesting was looked at in the first {view.rows:,} rows only"
        notes.append(Note(field=("geography", "levels"), text=words))
    reasons = [Note(field=("table", "ignore"), item=name, text=reason) for name, reason in layout.aside.items()]
    return [*notes, *layout.notes, *reasons]


def _rows_in_doubt(geography: Geography, layout: Layout, found: Totals) -> dict[str, Note]:
    """By column, a comment on values that are called totals or may be some, though the numbers do not prove it."""
    columns = geography.view.columns
    doubts = {name: list(values) for name, values in found.doubts.items() if name in columns}
    used = [*geography.fields["levels"], *layout.fields["attributes"]]
    for column in (columns[name] for name in used if name in columns):
        called = [label for label in column.labels if is_sum_label(label)] if column.size > 1 else []
        if called:
            doubts[column.name] = list(dict.fromkeys([*doubts.get(column.name, ()), *called]))
    return {
        name: Note(field=("file", "total_rows"), text=_TWICE.format(name, _listed(values)))
        for name, values in doubts.items()
    }


def _listed(values: Sequence[str]) -> str:
    return ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")


def _missing(geography: Geography) -> list[Note]:
    """What a person must write, since the table does not show its geography."""
    if geography.is_found:
        return []
    names = ", ".join(geography.view.columns)
    words = f"no geographic column found among {names}. Name the levels, coarse to fine (--levels A,B,C)."
    return [Note(field=("geography", "levels"), text=words)]


def _check(view: View, asked: Asked) -> None:
    columns = ", ".join(view.columns)
    for option, names in (("--levels", asked.levels), ("--count", (asked.count,) if asked.count else ())):
        unknown = [name for name in names if name not in view.columns]
        if unknown:
            raise InputError(f"{option}: {view.name} has no column {unknown[0]!r}. The columns are {columns}.")
    uses = (*asked.levels, *asked.attributes, *((asked.count,) if asked.count else ()))
    twice = [name for name in uses if uses.count(name) > 1]
    if twice:
        raise InputError(f"column {twice[0]!r} is named twice. Name it as a level, as an attribute or as the count.")


def _sheet(source: Source, sheet: str | None) -> tuple[str | None, list[Note]]:
    """The sheet of a workbook to look at, if it must be named, and a comment on the choice."""
    path = Path(fspath(source)) if isinstance(source, str | PathLike) else None
    if path is None or not path.is_file() or not is_workbook(path):
        if sheet is not None:
            raise InputError(
                f"--sheet {sheet!r}: {path or 'the table'} is not an Excel workbook. Leave the option out."
            )
        return None, []
    names = sheet_names(path)
    if sheet is not None or len(names) < 2:
        return sheet, []
    words = f"the sheet with the most rows; others: {', '.join(names[1:])}"
    return names[0], [Note(field=("table", "sheet"), text=words)]
