"""Margins of error beside the counts: a column ``<column>_moe90`` after each count in a release's tables by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import ArrayLike, NDArray

from tallyveil.areas import Areas
from tallyveil.errors import InputError
from tallyveil.files.atomic import replacing
from tallyveil.files.codebook import read_codebook
from tallyveil.files.measured import safe_name
from tallyveil.files.release_folder import MARGIN, query_columns
from tallyveil.histogram import Histogram
from tallyveil.schema import Schema

PIECE = 1 << 16  # rows that are held at once


class MarginsOf(Protocol):
    """What gives margins of error: ``tallyveil.evaluate.Margins`` does."""

    @property
    def confidence(self) -> float:
        """The share of errors that they cover."""

    @property
    def classes(self) -> Mapping[tuple[str, str], Any]:
        """By (level, query), what there are margins for."""

    def of(self, level: str, query: str, counts: ArrayLike) -> NDArray[np.int64]:
        """The margins of released counts."""


def write_margins(folder: str | PathLike[str], margins: MarginsOf) -> list[Path]:
    """Put margins beside the counts in ``levels/`` of a release's folder, for the levels and queries they are for.

    Margins that were there before for the same columns are replaced. New tables are written beside the old ones and
    take their names when all are on disk: whoever stops the run between two of these leaves tables that are whole, some
    with margins and some without. Counts and the certificate stay as they are.
    """
    if round(margins.confidence, 9) != 0.9:
        raise InputError(f"margins of {margins.confidence:.0%} cannot be called {MARGIN}. Make margins of 90%.")
    place = Path(folder)
    book = read_codebook(place / "codebook.toml")
    asked: dict[str, list[str]] = {}
    for level, query in margins.classes:
        asked.setdefault(level, []).append(query)
    tables = {
        level: place / "levels" / f"{safe_name(level)}.parquet"
        for level in (*([book.root] if book.root else []), *book.levels)
        if level in asked  # areas off the spine have no table
    }
    with ExitStack() as waiting:
        for level, path in tables.items():
            temporary = waiting.enter_context(replacing(path))
            _rewrite(path, temporary, level, _columns(book.schema, asked[level]), margins)
    return list(tables.values())


def area_table(people: Histogram, areas: Areas, margins: MarginsOf, *, level: str = "area") -> pa.Table:
    """The counts of areas off the spine with their margins, a row for each area, columns as in ``levels/``."""
    columns: dict[str, Any] = {"area": pa.array(areas.names, pa.string())}
    counts = areas.tabulate(people.leaves)
    for query in (query for place, query in margins.classes if place == level):
        asked = people.schema.query(query)
        answers = counts.merged(np.arange(counts.units + 1), asked.row_of_cell, asked.size).dense()
        for name, numbers in zip(query_columns(asked), answers.T, strict=True):
            columns[name] = pa.array(numbers)
            columns[f"{name}{MARGIN}"] = pa.array(margins.of(level, query, areas.sizes()))
    return pa.table(columns)


def _columns(schema: Schema, queries: Sequence[str]) -> dict[str, str]:
    """The query of each column."""
    columns = {name: query for query in queries for name in query_columns(schema.query(query))}
    clash = next((name for name in columns if f"{name}{MARGIN}" in columns), None)
    if clash is not None:
        raise InputError(f"the column {clash}{MARGIN} has counts, so margins cannot be called so. Rename that label.")
    return columns


def _rewrite(path: Path, target: Path, level: str, columns: Mapping[str, str], margins: MarginsOf) -> None:
    """Copy a table, piece by piece, with margins after the columns that have them."""
    if not path.exists():
        raise InputError(f"{path}: no such table, so margins have no place. Write the release as a folder again.")
    try:
        with pyarrow.parquet.ParquetFile(path, read_dictionary=_dictionaries(path)) as file:
            empty = file.schema_arrow.empty_table()
            first = _with_margins(empty, level, columns, margins).schema
            with pyarrow.parquet.ParquetWriter(target, first, compression="zstd") as writer:
                for batch in file.iter_batches(batch_size=PIECE):
                    piece = _with_margins(pa.Table.from_batches([batch]), level, columns, margins)
                    writer.write_table(piece.cast(first))
    except pa.ArrowException as problem:
        raise InputError(
            f"{path}: cannot be read as Parquet ({str(problem).splitlines()[0]}). Copy the folder again."
        ) from None


def _dictionaries(path: Path) -> list[str]:
    kinds = pyarrow.parquet.read_schema(path)
    return [field.name for field in kinds if pa.types.is_dictionary(field.type)]


def _with_margins(table: pa.Table, level: str, columns: Mapping[str, str], margins: MarginsOf) -> pa.Table:
    old = {f"{name}{MARGIN}" for name in columns}
    made: dict[str, Any] = {}
    for name in table.column_names:
        if name in old:
            continue
        made[name] = table.column(name)
        if name in columns:
            made[f"{name}{MARGIN}"] = pa.array(margins.of(level, columns[name], table.column(name).to_numpy()))
    return pa.table(made)
