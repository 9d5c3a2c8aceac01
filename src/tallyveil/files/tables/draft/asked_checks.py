"""What the user says about a table, checked against its values: the order of levels, and the column of counts."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from tallyveil.errors import InputError
from tallyveil.files.tables.draft.asked import Asked
from tallyveil.files.tables.draft.attributes import fact_about_units
from tallyveil.files.tables.draft.geography import find_geography
from tallyveil.files.tables.draft.labels import in_years
from tallyveil.files.tables.draft.nesting import identify_rows
from tallyveil.files.tables.draft.path_chain import looks_reversed
from tallyveil.files.tables.draft.view import Column, View
from tallyveil.files.tables.draft.words import is_code_name, is_count

_PERSONS = "If each row is one person, draft with --persons; otherwise name the column that has the number of people"


def check_asked(view: View, asked: Asked) -> None:
    """Refuse levels in the reverse order, and a count that is none by its values."""
    if looks_reversed(view, [view.columns[name] for name in asked.levels]):
        backwards = ",".join(reversed(asked.levels))
        raise InputError(
            f"--levels {','.join(asked.levels)!r}: the order may be reversed, since units of {asked.levels[-1]} do not "
            f"lie in one {asked.levels[0]} each. List the levels coarse to fine: --levels {backwards!r}."
        )
    if asked.count is not None and (why := _no_count(view, asked, view.columns[asked.count])):
        raise InputError(f"--count {asked.count!r}: {why}. {_PERSONS}.")


def _no_count(view: View, asked: Asked, column: Column) -> str | None:
    """Why the values of a column are no numbers of people, if so."""
    zeros = column.occurring.filter(pc.match_substring_regex(column.occurring, "^0[0-9]+$"))
    if len(zeros):
        return f"values such as {zeros[0].as_py()!r} are codes, since numbers of people have no leading zeros"
    if is_count(column.name):
        return None
    if column.is_serial:
        return "its values number the rows"
    if in_years(column):
        return "its values are ages in years"
    geography = find_geography(view, replace(asked, count=None))
    if column.name in geography.fields["levels"] and (column.name in asked.levels or is_code_name(column.name)):
        return "its values are codes of units"
    others = find_geography(view, asked)
    several = others.is_found and not identify_rows(others.path, [])  # rows of a unit
    return fact_about_units(others, column) if several else None
