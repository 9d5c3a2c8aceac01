"""Draft a codebook from a table. A person should review it before it is used.

The labels and units in a file are facts about the people in it, whereas a codebook for publication lists those that
could occur. Every draft is therefore marked (``labels_from`` and ``units_from``), and counts read with it are stamped
until a person has removed the marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from tallyveil.errors import DataError, InputError
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.codebook_toml import codebook_to_toml
from tallyveil.files.tables.draft.attributes import Asked
from tallyveil.files.tables.draft.geography import Geography, find_geography
from tallyveil.files.tables.draft.layout import Layout, find_layout
from tallyveil.files.tables.draft.notes import Note, commented
from tallyveil.files.tables.draft.view import View, view_table
from tallyveil.files.tables.excel import Sheet, is_workbook, sheet_names
from tallyveil.files.tables.sources import Source

FILL_IN = "FILL_IN"


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
    source, sheet_fields, sheet_notes = _sheet(source, sheet)
    view = view_table(source)
    asked = Asked(levels=tuple(levels), attributes=tuple(attributes), count=count, words=dictionary or {})
    _check(view, asked)
    geography = find_geography(view, asked.levels)
    layout = find_layout(geography, asked)
    missing = (*_missing_geography(view, geography), *_missing_layout(layout))
    return Draft(
        book=_codebook(geography, layout, sheet_fields),
        notes=(*sheet_notes, *_notes(view, geography, layout)),
        missing=missing,
    )


def _codebook(geography: Geography, layout: Layout | None, sheet: Mapping[str, str]) -> Codebook:
    found = dict(layout.fields) if layout else {"attributes": {FILL_IN: (FILL_IN,)}, "layout": "persons"}
    fields = {**geography.fields, **found, **sheet}
    fields["levels"] = fields["levels"] or (FILL_IN,)
    # A filter on rows of a level is public; a filter on rows of persons may reveal something about them.
    public = bool(fields.get("where")) and fields["layout"] != "persons"
    ignore = tuple(name for name in geography.view.columns if layout and name in layout.aside)
    return Codebook(**fields, ignore=ignore, labels_from="data", units_from="data", where_is_public=public)


def _notes(view: View, geography: Geography, layout: Layout | None) -> list[Note]:
    notes = list(geography.notes)
    if not view.complete:
        notes.append(
            Note(field=("geography", "levels"), text=f"nesting was looked at in the first {view.rows:,} rows only")
        )
    notes += [Note(field=("geography", "levels"), text=words) for words in _missing_geography(view, geography)]
    if layout is None:
        return [*notes, *(Note(field=("attributes", "FILL_IN"), text=words) for words in _missing_layout(layout))]
    reasons = [Note(field=("table", "ignore"), item=name, text=reason) for name, reason in layout.aside.items()]
    return [*notes, *layout.notes, *reasons]


def _missing_geography(view: View, geography: Geography) -> list[str]:
    if geography.is_found:
        return []
    columns = ", ".join(view.columns)
    return [f"no geographic column found. Name the levels, coarse to fine; the columns are {columns} (--levels A,B,C)."]


def _missing_layout(layout: Layout | None) -> list[str]:
    if layout is not None:
        return []
    return ["no columns of counts or labels found besides the geography. Name the attributes with their labels."]


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


def _sheet(source: Source, sheet: str | None) -> tuple[Source, dict[str, str], list[Note]]:
    """The sheet of a workbook to look at, and what the codebook says about it."""
    path = Path(fspath(source)) if isinstance(source, str | PathLike) else None
    if path is None or not path.is_file() or not is_workbook(path):
        if sheet is not None:
            raise InputError(f"--sheet {sheet!r}: {source} is not an Excel workbook. Leave the option out.")
        return source, {}, []
    names = sheet_names(path)
    if sheet is None and len(names) < 2:
        return source, {}, []
    chosen = sheet or names[0]
    others = [name for name in names if name != chosen]
    notes = (
        []
        if sheet
        else [Note(field=("table", "sheet"), text=f"the sheet with the most rows; others: {', '.join(others)}")]
    )
    return Sheet(path=path, name=chosen), {"sheet": chosen}, notes
