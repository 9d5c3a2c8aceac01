"""Counts and answers as Arrow tables: codes and labels are dictionary columns, and each row holds one number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tallyveil._arrays import Integers
from tallyveil.errors import DataError
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine


def counts_table(histogram: Histogram, first: int = 0, last: int | None = None) -> pa.Table:
    """The non-zero counts, one row each: geographic columns, attributes, ``count``; all entries, or a range of them."""
    refuse_clashing_names(histogram)
    leaves, span = histogram.leaves, slice(first, last)
    entries = np.arange(leaves.entries)[span]
    unit = np.searchsorted(leaves.start, entries, side="right") - 1
    columns = path_columns(histogram.spine, histogram.spine.leaf, unit)
    columns |= _label_columns(histogram.schema, leaves.cell[span].astype(np.int64))
    return pa.table(columns | {"count": pa.array(leaves.count[span].astype(np.int64))})


def refuse_clashing_names(histogram: Histogram) -> None:
    """Refuse counts whose table would have two columns of the same name: a level, an attribute, or ``count``."""
    names = [*path_levels(histogram.spine, histogram.spine.leaf), *histogram.schema.attributes]
    twice = next((name for i, name in enumerate(names) if name in {*names[:i], "count"}), None)
    if twice is not None:
        raise DataError(f"two columns of the release would be called {twice!r}. Rename the level or the attribute.")


def answers_table(
    spine: Spine,
    level: str,
    units: Integers,
    labels: Sequence[str],
    numbers: Mapping[str, np.ndarray],
) -> pa.Table:
    """The answers to a query, one row per unit and cell: ``unit``, ``cell``, and the columns of ``numbers``."""
    cells = np.tile(np.arange(len(labels), dtype=np.int32), len(units))
    rows = np.repeat(np.arange(len(units), dtype=np.int32), len(labels))
    columns = {
        "unit": pa.DictionaryArray.from_arrays(pa.array(rows), code_array(spine, level, units)),
        "cell": pa.DictionaryArray.from_arrays(pa.array(cells), pa.array(labels, pa.string())),
    }
    return pa.table(columns | {name: pa.array(values) for name, values in numbers.items()})


def stacked(tables: Iterable[tuple[Mapping[str, str], pa.Table]]) -> pa.Table:
    """Tables one below the other, each with constant columns (name and value) in front of its own."""
    parts = []
    for constants, table in tables:
        rows = pa.array(np.zeros(table.num_rows, np.int32))
        columns = {name: pa.DictionaryArray.from_arrays(rows, pa.array([value])) for name, value in constants.items()}
        parts.append(pa.table(columns | dict(zip(table.column_names, table.columns, strict=True))))
    return pa.concat_tables(parts).unify_dictionaries()


def path_columns(spine: Spine, level: str, units: Integers) -> dict[str, pa.Array]:
    """The codes of units of a level and of their ancestors, one column per level (see ``path_levels``)."""
    columns = {}
    for name in reversed(path_levels(spine, level)):
        distinct_units, place = np.unique(units, return_inverse=True)
        codes = code_array(spine, name, distinct_units)
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), codes)
        if spine.depth(name) > 0:
            units = spine.parents(name)[units]
    return dict(reversed(columns.items()))


def path_levels(spine: Spine, level: str) -> list[str]:
    """The levels down to this one that have a column in a table; a root that is only a name has none."""
    return list(spine.levels[int(has_named_root(spine)) : spine.depth(level) + 1])


def has_named_root(spine: Spine) -> bool:
    """Whether the root is only a name above the first column."""
    return bytes(spine.codes[0][0]).decode() == spine.levels[0] and len(spine.levels) > 1


def code_array(spine: Spine, level: str, units: Integers) -> pa.Array:
    """The codes of units of a level as text."""
    return pa.array(spine.codes[spine.depth(level)][units].tolist(), pa.binary()).cast(pa.string())


def _label_columns(schema: Schema, cells: Integers) -> dict[str, pa.Array]:
    places = np.unravel_index(cells, schema.shape)
    return {
        name: pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), pa.array(labels))
        for (name, labels), place in zip(schema.attributes.items(), places, strict=True)
    }
