"""The tables of one level of a release: a wide one with a row per unit, and a tidy one with a row per number.

In a tidy table every attribute has a column. ``_T``, SDMX's code for the total of a dimension, stands where a query
does not distinguish it. The zeros of queries with many rows are left out, as in ``release.parquet``: there may be
thousands of them for each unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tallyveil._arrays import Integers
from tallyveil.errors import DataError
from tallyveil.files.parquet import UNREADABLE
from tallyveil.files.release_folder.layout import MARGIN, level_name, level_part, query_columns
from tallyveil.files.release_folder.margin_columns import MarginsBySize
from tallyveil.files.tables.columns import first_line
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL, Query
from tallyveil.nouns.tables import path_columns
from tallyveil.release.plan import level_queries
from tallyveil.release.release import Release

ALL = "_T"
DENSE = 100  # rows of a query up to which zeros are included
NUMBERS = 1_000_000  # numbers of a piece of a tidy table, which fit on an Excel sheet
WIDER = 4  # how many times more numbers a piece of a wide table has, where each takes less memory


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LevelTables:
    """One level of a release.

    Attributes
    ----------
    people
        The released counts.
    queries
        The queries that are published.
    margins
        Margins of error by column of the wide table, where they were computed.
    code
        The column in which the user's file had the whole code of a leaf, if the codes were cut from it.
    estimated
        Margins by size of a count, for queries that have none in the folder.
    """

    people: Histogram
    level: str
    queries: tuple[Query, ...]
    margins: Mapping[str, Integers]
    code: str | None = None
    estimated: MarginsBySize | None = None

    @property
    def has_margins(self) -> bool:
        """Whether any count has a margin of error."""
        return bool(self.margins) or self.estimated is not None

    @property
    def without_margins(self) -> list[Query]:
        """The queries that have no margins of error."""
        return [query for query in self.queries if not (self._is_in_folder(query) or self._is_estimated(query))]

    @property
    def units(self) -> int:
        """The number of units."""
        return self.people.spine.size(self.level)

    @property
    def tidy_rows(self) -> int:
        """The number of rows of the tidy table."""
        dense = sum(query.size for query in self.queries if not is_sparse(query))
        return self.units * dense + sum(self._entries(query) for query in self.queries if is_sparse(query))

    @property
    def factors(self) -> list[str]:
        """The attributes and groupings that the queries use, in the order of the schema."""
        used = {factor for query in self.queries for factor in query.factors}
        known = [*self.people.schema.attributes, *self.people.schema.groupings]
        return [name for name in known if name in used]

    def wide(self) -> Iterator[pa.Table]:
        """One row per unit, one column per answer (``query:label*label``), each followed by its margin of error."""
        names = [query.name for query in self.queries]
        query_of = {name: query for query in self.queries for name in query_columns(query)}
        for units in self._pieces(WIDER * NUMBERS):
            table = level_part(self.people, self._counts, self.level, names, units)
            columns: dict[str, Any] = self._whole_code(units)
            for name in table.column_names:
                columns[name] = table.column(name)
                if name in self.margins:
                    columns[f"{name}{MARGIN}"] = pa.array(self.margins[name][units])
                elif name in query_of and self._is_estimated(query_of[name]):
                    columns[f"{name}{MARGIN}"] = self._estimate(query_of[name], table.column(name).to_numpy())
            yield pa.table(columns)

    def tidy(self) -> Iterator[pa.Table]:
        """One row per number: geographic columns, ``query``, attributes, ``count`` and, if computed, ``moe90``."""
        for _, table in self.tidy_with_units():
            yield table

    def tidy_with_units(self) -> Iterator[tuple[Integers, pa.Table]]:
        """The pieces of the tidy table, each with the unit of every row."""
        for units in self._pieces(NUMBERS):
            paths = self._whole_code(units) | path_columns(self.people.spine, self.level, units, names=True)
            parts = [self._tidy(query, units, paths) for query in self.queries]
            yield np.concatenate([unit for unit, _ in parts]), pa.concat_tables([table for _, table in parts])

    def _tidy(
        self, query: Query, units: Integers, paths: Mapping[str, pa.DictionaryArray]
    ) -> tuple[Integers, pa.Table]:
        counts = self._counts.taken(units).merged(np.arange(len(units) + 1), query.row_of_cell, query.size)
        if is_sparse(query):
            unit, row, count = counts.unit(), counts.cell.astype(np.int64), counts.count.astype(np.int64)
        else:
            unit, row = np.divmod(np.arange(len(units) * query.size), query.size)
            count = counts.dense().reshape(-1).astype(np.int64)
        columns: dict[str, Any] = {
            name: pa.DictionaryArray.from_arrays(path.indices.take(pa.array(unit)), path.dictionary)
            for name, path in paths.items()
        }
        columns["query"] = _constant(_published_name(query), len(row))
        labels = list(product(*query.row_labels))
        for factor in self.factors:
            if factor in query.factors:
                at = query.factors.index(factor)
                known = list(query.row_labels[at])
                place = np.array([known.index(row_labels[at]) for row_labels in labels], dtype=np.int32)[row]
                columns[factor] = pa.DictionaryArray.from_arrays(pa.array(place), pa.array(known, pa.string()))
            else:
                columns[factor] = _constant(ALL, len(row))
        columns["count"] = pa.array(count)
        if self.has_margins:
            columns["moe90"] = self._margins_of(query, units, unit, row, count)
        return units[unit], pa.table(columns)

    def _margins_of(self, query: Query, units: Integers, unit: Integers, row: Integers, count: Integers) -> pa.Array:
        names = query_columns(query)
        if not self._is_in_folder(query):
            return self._estimate(query, count) if self._is_estimated(query) else pa.nulls(len(row), pa.int64())
        by_row = np.stack([self.margins[name][units] for name in names], axis=1)
        return pa.array(by_row[unit, row].astype(np.int64))

    def _is_in_folder(self, query: Query) -> bool:
        return all(name in self.margins for name in query_columns(query))

    def _is_estimated(self, query: Query) -> bool:
        return self.estimated is not None and (self.level, query.name) in self.estimated.classes

    def _estimate(self, query: Query, counts: Integers) -> pa.Array:
        assert self.estimated is not None
        return pa.array(self.estimated.of(self.level, query.name, counts))

    @cached_property
    def _counts(self) -> Counts:
        return self.people.at(self.level)

    def _entries(self, query: Query) -> int:
        merged = self._counts.merged(np.arange(self.units + 1), query.row_of_cell, query.size)
        return int(merged.entries)

    def _pieces(self, numbers: int) -> Iterator[Integers]:
        """The units in pieces that need not fit into memory together; a piece ends with the units of a parent."""
        size = max(1, numbers // max(1, sum(query.size for query in self.queries)))
        depth = self.people.spine.depth(self.level)
        ends = self.people.spine.first_child[depth - 1] if depth else np.array([0, self.units])
        first = 0
        while first < self.units:
            last = min(first + size, self.units)
            whole = int(ends[np.searchsorted(ends, last, side="right") - 1])
            last = whole if whole > first else last  # a parent with more units than fit is cut
            yield np.arange(first, last)
            first = last

    def _whole_code(self, units: Integers) -> dict[str, Any]:
        """The column of the user's file that had whole codes; it is another name of the leaf's code."""
        if self.code is None or self.level != self.people.spine.leaf:
            return {}
        codes = path_columns(self.people.spine, self.level, units)[self.level]
        return {} if self.code == self.level else {self.code: codes}


def is_sparse(query: Query) -> bool:
    """Whether only the non-zero rows of a query are in a tidy table."""
    return query.size > DENSE


def level_tables(
    folder: Path,
    release: Release,
    level: str,
    queries: Sequence[str],
    *,
    code: str | None,
    estimated: MarginsBySize | None = None,
) -> LevelTables:
    """The tables of a level, with the queries of the release's own table and further ones."""
    schema = release.histogram.schema
    own = [TOTAL, *schema.attributes] if release.strategy is None else level_queries(release.strategy, schema, level)
    asked = {query.name: query for query in map(schema.query, [*own, *queries])}
    tables = LevelTables(
        people=release.histogram,
        level=level,
        queries=tuple(asked.values()),
        margins=saved_margins(folder / level_name(level), release.histogram.spine.size(level)),
        code=code,
        estimated=estimated,
    )
    _refuse_clashes(tables)
    return tables


def saved_margins(path: Path, units: int) -> dict[str, Integers]:
    """The margins of error in a level's table, by the column that they belong to."""
    if not path.exists():
        return {}
    try:
        names = [name for name in pyarrow.parquet.read_schema(path).names if name.endswith(MARGIN)]
        table = pyarrow.parquet.read_table(path, columns=names)
    except UNREADABLE as problem:
        raise DataError(f"{path}: cannot be read as Parquet ({first_line(problem)}). Copy the folder again.") from None
    if names and table.num_rows != units:
        raise DataError(f"{path}: {table.num_rows:,} rows for {units:,} units. Copy the folder again.")
    for field in table.schema:
        if not pa.types.is_integer(field.type) or table.column_names.count(field.name) > 1:
            raise DataError(f"{path}: column {field.name!r} is not one column of whole numbers. Copy the folder again.")
    return {name.removesuffix(MARGIN): table.column(name).to_numpy() for name in names}


def _refuse_clashes(tables: LevelTables) -> None:
    names = [*path_columns(tables.people.spine, tables.level, np.arange(1), names=True), *tables.factors]
    twice = next((name for i, name in enumerate(names) if name in {*names[:i], "query", "count", "moe90"}), None)
    if twice is not None:
        raise DataError(f"two columns would be called {twice!r}. Rename the level or the attribute.")


def _published_name(query: Query) -> str:
    """The name of a query; an attribute keeps its name even where it is the only one, and so the detailed query."""
    return query.factors[0] if len(query.factors) == 1 else query.name


def _constant(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))
