"""Columns that may be levels rather than attributes of people, which a person must decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tallyveil.files.tables.codebook import FILL_IN
from tallyveil.files.tables.draft.asked import Asked
from tallyveil.files.tables.draft.geography import Geography
from tallyveil.files.tables.draft.layout import Layout
from tallyveil.files.tables.draft.nesting import follows_from, nest, paths
from tallyveil.files.tables.draft.notes import Note
from tallyveil.files.tables.draft.path_chain import as_column, is_numbered, path_chain
from tallyveil.files.tables.draft.view import Column
from tallyveil.files.tables.draft.words import is_attribute


def ask_about_levels(geography: Geography, layout: Layout, asked: Asked) -> Layout:
    """The layout with FILL_IN among the labels of each attribute that may be a level, and a comment on it.

    Labels of people occur in many units. A label that occurs in one unit only is a place or its name. Codes 01, 02
    and so on in every unit look the same whether they are places within it or labels.
    """
    given = {*asked.attributes, *asked.words}
    if asked.levels or not geography.is_found:
        return layout
    columns = [
        geography.view.columns[name]
        for name in layout.fields["attributes"]
        if name in geography.view.columns and name not in given and not is_attribute(name)
    ]
    levels = [geography.view.columns[name] for name in geography.fields["levels"] if name in geography.view.columns]
    longer = path_chain(geography.view, [*levels, *columns], levels, loose=True)
    found = {column.name: why for column in columns if (why := _why_a_level(geography, levels, column, longer))}
    if not found:
        return layout
    proposed = [*longer, *(c for c in columns if c.name in found and c.is_number and c not in longer)]
    notes = [
        Note(field=("attributes", name), text=_question(name, why, [column.name for column in proposed]))
        for name, why in found.items()
    ]
    return replace(layout, fields=_with_gaps(layout, found), missing=(*layout.missing, *notes))


def _with_gaps(layout: Layout, names: Iterable[str]) -> dict[str, Any]:
    """The fields of a layout with FILL_IN among the labels of some attributes."""
    attributes, labels = dict(layout.fields["attributes"]), dict(layout.fields.get("labels", {}))
    for name in names:
        attributes[name] = (FILL_IN, *attributes[name])
        if name in labels:
            labels[name] = {FILL_IN: FILL_IN, **labels[name]}
    return {**layout.fields, "attributes": attributes, "labels": labels}


def _question(name: str, why: str, proposed: Sequence[str]) -> str:
    listed = ",".join(proposed if name in proposed else [*proposed, name])
    return (
        f"{name} may be a level or the name of one rather than an attribute of people: {why}. If it is, draft again "
        f"with all levels, such as --levels {listed!r}; if it is an attribute, remove FILL_IN."
    )


def _why_a_level(
    geography: Geography, levels: Sequence[Column], column: Column, longer: Sequence[Column]
) -> str | None:
    """What a column has in common with levels, if anything."""
    units = int(geography.path.max(initial=-1)) + 1
    if units < 2 or column.size < 2:
        return None
    if column in longer:
        return "units have the first ones of its numbers, and differ in how many"
    several = geography.view.rows >= 2 * column.size and column.size > units
    if several and not follows_from(geography.path, column) and nest(column, as_column(geography.path)).holds:
        return f"each of its {column.size:,} values occurs in one {levels[-1].name} only"
    if _is_numbered_like(geography, column, levels):
        return f"it has codes {column.labels[0]}, {column.labels[1]} and so on, as the levels have"
    return None


def _is_numbered_like(geography: Geography, column: Column, levels: Sequence[Column]) -> bool:
    """Whether a column has codes 01, 02 and so on where levels have numbers too; 1, 2 and so on only beside these."""
    if column.missing or not is_numbered(column) or not any(level.is_number for level in levels):
        return False
    if column.is_code:
        return True
    used = {*geography.columns, *(level.name for level in levels)}
    beside = max(geography.view.position(name) for name in used if name in geography.view.columns)
    longer = paths([*levels, column])
    together = np.count_nonzero(np.diff(longer)) == int(longer.max(initial=-1))
    return together and geography.view.position(column.name) == beside + 1
