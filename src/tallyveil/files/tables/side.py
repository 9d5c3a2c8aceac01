"""Tables that accompany the counts: facilities, housing units and areas, one row per leaf (and type)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import DataError, InputError
from tallyveil.files.tables.columns import Batch, repeated_rows
from tallyveil.files.tables.geography import codes_of
from tallyveil.files.tables.sources import Source, batches
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.census_schemas import UNITS_2020
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import code_array, path_columns


def read_facilities(source: Source, spine: Spine, *, attribute: str, types: Sequence[str]) -> Facilities:
    """Facilities from a table with a leaf code, ``type`` and ``count``."""
    batch = _whole(source, spine, "type", "count")
    leaf = _leaves(batch, spine, "type", "count")
    kind, count = batch.labels("type", tuple(types)), batch.counts("count")
    _refuse_repeated(batch, leaf * len(types) + kind)
    return Facilities.from_entries(spine, attribute=attribute, types=types, unit=leaf, kind=kind, count=count)


def read_housing(source: Source, spine: Spine) -> Histogram:
    """Housing units from a table with a leaf code, ``occupied`` and ``vacant``."""
    batch = _whole(source, spine, "occupied", "vacant")
    leaf = _leaves(batch, spine, "occupied", "vacant")
    _refuse_repeated(batch, leaf)
    h1 = list(UNITS_2020.attributes["h1"])
    cell = np.concatenate([np.full(len(leaf), h1.index(name)) for name in ("occupied", "vacant")])
    count = np.concatenate([batch.counts("occupied"), batch.counts("vacant")])
    return Histogram.from_entries(spine, UNITS_2020, unit=np.tile(leaf, 2), cell=cell, count=count)


def read_areas(source: Source, spine: Spine) -> Areas:
    """Areas off the spine from a table with a leaf code and ``area``."""
    batch = _whole(source, spine, "area")
    names = batch.text("area").to_pylist()
    leaf = _leaves(batch, spine, "area")
    try:
        return Areas.from_codes(spine, leaf=spine.codes[-1][leaf], area=names)
    except InputError as problem:
        raise DataError(f"{batch.name}, {problem}") from None


def facilities_table(facilities: Facilities) -> pa.Table:
    """Facilities as a table: leaf code, ``type``, ``count``; zeros are left out."""
    leaves = facilities.leaves
    kinds = pa.DictionaryArray.from_arrays(pa.array(leaves.cell.astype(np.int32)), pa.array(facilities.types))
    return pa.table({**_codes(facilities.spine, leaves.unit()), "type": kinds, "count": leaves.count.astype(np.int64)})


def housing_table(housing: Histogram) -> pa.Table:
    """Housing units as a table: leaf code, ``occupied``, ``vacant``, one row per leaf."""
    dense = housing.leaves.dense()
    columns = {name: dense[:, housing.schema.cell(h1=name)] for name in ("occupied", "vacant")}
    return pa.table(_codes(housing.spine, np.arange(len(dense))) | columns)


def areas_table(areas: Areas) -> pa.Table:
    """Areas as a table: leaf code, ``area``; leaves in no area are left out."""
    inside = np.flatnonzero(areas.of_leaf >= 0)
    names = pa.DictionaryArray.from_arrays(pa.array(areas.of_leaf[inside]), pa.array(areas.names, pa.string()))
    return pa.table({**_codes(areas.spine, inside), "area": names})


def _codes(spine: Spine, leaves: Integers) -> dict[str, pa.Array]:
    """The column of leaf codes or, where these repeat under parents, a column for every level."""
    if spine.leaf in spine.own:
        return path_columns(spine, spine.leaf, leaves)
    return {spine.leaf: code_array(spine, spine.leaf, leaves)}


def _whole(source: Source, spine: Spine, *columns: str) -> Batch:
    parts = list(batches(source))
    table = pa.concat_tables([part.table for part in parts])
    missing = [name for name in columns if name not in table.column_names]
    if missing or len(table.column_names) < len(columns) + 1:
        wanted = ", ".join((spine.leaf, *columns))
        raise DataError(
            f"{parts[0].name}: needs the columns {wanted}; it has {', '.join(table.column_names)}. Rename its columns."
        )
    return Batch(name=parts[0].name, table=table, rows=np.arange(table.num_rows))


def _leaves(batch: Batch, spine: Spine, *others: str) -> Integers:
    """Leaf positions from the column named after the leaf level or, without one, from the first other column.

    Where leaf codes repeat under parents, they come from the columns of all levels, if the table has them.
    """
    names = [name for name in batch.table.column_names if name not in others]
    column = spine.leaf if spine.leaf in names else names[0]
    whole = spine.leaf in spine.own and set(spine.column_levels) <= set(names)

    def codes(name: str) -> NDArray[np.bytes_]:
        return codes_of(pa.chunked_array([batch.text(name)]))

    try:
        found = spine.leaf_codes({level: codes(level) for level in spine.column_levels}) if whole else codes(column)
        return spine.locate(spine.leaf, found)
    except InputError as problem:
        raise DataError(str(problem) if batch.name in str(problem) else f"{batch.name}, {problem}") from None


def _refuse_repeated(batch: Batch, key: Integers) -> None:
    if rows := repeated_rows(key):
        first, second = rows[0] + 1, rows[1] + 1
        raise DataError(
            f"{batch.name}: rows {first:,} and {second:,} are about the same thing. Add them up in one row."
        )
