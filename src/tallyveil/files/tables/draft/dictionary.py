"""Data dictionaries: tables that give the codes of attributes their words."""

from __future__ import annotations

from os import PathLike

import pyarrow as pa
import pyarrow.compute as pc

from tallyveil.errors import DataError
from tallyveil.files.tables.columns import decoded
from tallyveil.files.tables.sources import Source, batches
from tallyveil.files.tables.spellings import plain

HEADERS = {
    "attribute": ("attribute", "variable", "column", "field"),
    "code": ("code", "value", "codigo", "modalite"),
    "label": ("label", "word", "libelle", "description", "meaning", "name"),
}


def read_dictionary(source: Source) -> dict[str, dict[str, str]]:
    """The words for the codes of each attribute, in the order of a table with columns attribute, code and label."""
    words: dict[str, dict[str, str]] = {}
    name = str(source) if isinstance(source, str | PathLike) else "the dictionary"
    row = 0
    for batch in batches(source):
        columns = [_column(batch.table, field, name) for field in HEADERS]
        for attribute, code, label in zip(*columns, strict=True):
            row += 1
            if not attribute or not code or not label:
                raise DataError(f"{name}, row {row:,}: a value is missing. Give attribute, code and label in each row.")
            known = words.setdefault(attribute, {})
            if known.get(code, label) != label:
                raise DataError(
                    f"{name}, row {row:,}: code {code!r} of {attribute} is {label!r}, but it was {known[code]!r} "
                    f"before. Give each code one label."
                )
            known[code] = label
    return words


def _column(table: pa.Table, field: str, name: str) -> list[str]:
    by_name = {plain(column): column for column in table.column_names}
    found = next((by_name[word] for word in HEADERS[field] if word in by_name), None)
    if found is None:
        raise DataError(
            f"{name}: no column {field!r}. A dictionary has the columns attribute, code and label; "
            f"this one has {', '.join(table.column_names)}."
        )
    texts = pc.fill_null(decoded(table.column(found)).cast(pa.string()), "")
    return [str(text).strip() for text in texts.to_pylist()]
