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

from tallyveil.errors import DataError, InputError
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.codebook_toml import codebook_to_toml
from tallyveil.files.tables.draft.asked import Asked
from tallyveil.files.tables.draft.form import form_of_file, form_of_table
from tallyveil.files.tables.draft.geography import Geography, find_geography
from tallyveil.files.tables.draft.layout import FILL_IN, Layout, find_layout
from tallyveil.files.tables.draft.notes import Note, commented
from tallyveil.files.tables.draft.sums import cuts_of
from tallyveil.files.tables.draft.view import View, view_table
from tallyveil.files.tables.draft.words import is_sum_label
from tallyveil.files.tables.entries import wide_columns
from tallyveil.files.tables.excel import is_workbook, sheet_names
from tallyveil.files.tables.form import PLAIN, FileForm
from tallyveil.files.tables.sources import Source

TWICE = "looks like a total of other rows: name it in [file] total_rows, or its people are counted twice"


NIL = ("-", "\u2013", "\u2014")  # dashes that stand for nobody in tables of counts


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A codebook that fits a table as far as its columns show, with comments on what is in doubt or missing."""

    book: Codebook
    notes: tuple[Note, ...] = ()
    missing: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # comments on what a row is: if they are right, all counts are wrong

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
    dictionary: Mapping[str, Mapping[str, str]] | None = None,
    sheet: str | None = None,
) -> Draft:
    """Draft a codebook with a comment on each doubt.

    Parameters
    ----------
    source
        A CSV, Parquet or Excel file, or a pandas, polars or Arrow table.
    levels, attributes, count
        Columns that the user names: the levels coarse to fine, the attributes, the count. What is not named is
        inferred. Attributes that are not columns name those in the names of columns, in their order.
    dictionary
        Words for the codes of attributes (see :func:`read_dictionary`).
    sheet
        The sheet of an Excel workbook; by default the one with the most rows.
    """
    sheet, notes = _sheet(source, sheet)
    asked = Asked(levels=tuple(levels), attributes=tuple(attributes), count=count, words=dictionary or {})
    draft = _drafted(source, asked, sheet)
    return replace(draft, notes=(*notes, *draft.notes))


def _drafted(source: Source, asked: Asked, sheet: str | None, *, totals: bool = True) -> Draft:
    """The draft of a table; ``totals`` says whether rows that repeat others are left out."""
    view, form, form_notes = _viewed(source, sheet, totals=totals)
    _check(view, asked)
    cuts = {name: cuts_of(view.columns[name], marks) for name, marks in form.total_rows.items()}
    geography = find_geography(view, asked, {name: sizes for name, sizes in cuts.items() if sizes})
    layout = find_layout(geography, asked)
    if layout.fields["layout"] == "persons" and form.total_rows:  # people are not totals of others
        return _drafted(source, asked, sheet, totals=False)
    missing = _missing(view, geography, layout)
    sums, notes = _rows_of_totals(geography, layout), _notes(view, geography, layout)
    on_rows = [note.text for note in notes if note.field == ("table", "layout")]
    return Draft(
        book=_codebook(geography, layout, sheet=sheet, form=form),
        notes=(*missing, *notes, *sums, *form_notes),
        missing=tuple(note.text for note in missing),
        doubts=(*on_rows, *(f"{note.field[-1]} {note.item!r}: {note.text}" for note in sums)),
    )


def _viewed(source: Source, sheet: str | None, *, totals: bool) -> tuple[View, FileForm, list[Note]]:
    """The table as its form shows it: without titles, notes and totals, and with merged cells filled."""
    if isinstance(source, str | PathLike) and Path(fspath(source)).is_file() and Path(fspath(source)).stat().st_size:
        form, notes = form_of_file(Path(fspath(source)), sheet)
    else:
        form, notes = PLAIN, []
    view = view_table(source, form, sheet=sheet)
    whole, more = form_of_table(view, form, totals=totals)
    return (view if whole == form else view_table(source, whole, sheet=sheet)), whole, [*notes, *more]


def _codebook(geography: Geography, layout: Layout, *, sheet: str | None, form: FileForm) -> Codebook:
    fields = {**geography.fields, **layout.fields, "sheet": sheet}
    fields["levels"] = fields["levels"] or (FILL_IN,)
    # A filter on rows of a level is public; a filter on rows of persons may reveal something about them.
    public = bool(fields.get("where")) and fields["layout"] != "persons"
    ignore = tuple(name for name in geography.view.columns if name in layout.aside)
    labels_from: Literal["data"] | None = "data" if fields["attributes"] else None
    book = Codebook(**fields, ignore=ignore, labels_from=labels_from, units_from="data", where_is_public=public)
    counts = {*_wide_columns(book), book.count, book.total}
    columns = [column for name, column in geography.view.columns.items() if name in counts]
    thousands = next((column.thousands for column in columns if column.thousands), None)
    zeros = sorted({label for column in columns for label in column.labels if label in NIL})
    return replace(book, form=replace(form, thousands=thousands, zeros=tuple(zeros)))


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


def _rows_of_totals(geography: Geography, layout: Layout) -> list[Note]:
    """Labels and units that are called total, so that their rows add up others."""
    columns = geography.view.columns
    attributes = [name for name in layout.fields["attributes"] if name in columns]
    notes = []
    for section, names in (("geography", geography.fields["levels"]), ("attributes", attributes)):
        for column in (columns[name] for name in names if name in columns):
            sums = [label for label in column.labels if is_sum_label(label)] if column.size > 1 else []
            notes += [Note(field=(section, column.name), item=label, text=TWICE) for label in sums]
    return notes


def _missing(view: View, geography: Geography, layout: Layout) -> list[Note]:
    """What a person must write, since the table does not show it."""
    notes = []
    if not geography.is_found:
        names = ", ".join(view.columns)
        words = f"no geographic column found among {names}. Name the levels, coarse to fine (--levels A,B,C)."
        notes.append(Note(field=("geography", "levels"), text=words))
    if not layout.is_found:
        words = "no columns of counts or labels found besides the geography. Name the attributes with their labels."
        notes.append(Note(field=("attributes", FILL_IN), text=words))
    return notes


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
