"""Counts and answers as Arrow tables: codes and labels are dictionary columns, and each row holds one number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import DataError
from tallyveil.nouns.codes import Codes
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL, Schema
from tallyveil.nouns.spine import Spine


def counts_table(histogram: Histogram, first: int = 0, last: int | None = None) -> pa.Table:
    """The non-zero counts, one row each: geographic columns, attributes, ``count``; all entries, or a range of them."""
    refuse_clashing_names(histogram)
    leaves = histogram.leaves
    last = leaves.entries if last is None else min(last, leaves.entries)
    entries = np.arange(first, last)
    unit = np.searchsorted(leaves.start, entries, side="right") - 1
    columns = path_columns(histogram.spine, histogram.spine.leaf, unit)
    part, begins = leaves.part(0, 0), 0
    if len(unit):
        part, begins = leaves.part(int(unit[0]), int(unit[-1]) + 1), int(leaves.start[unit[0]])
    span = slice(first - begins, last - begins)
    columns |= _label_columns(histogram.schema, part.cell[span].astype(np.int64))
    return pa.table(columns | {"count": pa.array(part.count[span].astype(np.int64))})


def refuse_clashing_names(histogram: Histogram) -> None:
    """Refuse counts whose table would have two columns of the same name: a level, an attribute, or ``count``."""
    spine = histogram.spine
    names = [*path_levels(spine, spine.leaf), *histogram.schema.attributes]
    twice = next((name for i, name in enumerate(names) if name in {*names[:i], "count"}), None)
    if twice is not None:
        raise DataError(f"two columns of the release would be called {twice!r}. Rename the level or the attribute.")
    named = [unit_names.column for unit_names in spine.names.values()]
    twice = next((name for i, name in enumerate(named) if name in {*names, *named[:i], "count", TOTAL}), None)
    if twice is not None:
        raise DataError(f"two columns of the release would be called {twice!r}. Rename the column of names.")


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


def path_columns(spine: Spine, level: str, units: Integers, *, names: bool = False) -> dict[str, pa.Array]:
    """The own codes of units of a level and of their ancestors, one column per level (see ``path_levels``).

    With ``names``, the column of codes of a level that has names is followed by a column with them.
    """
    columns = []
    for name in reversed(path_levels(spine, level)):
        distinct_units, place = _distinct(units)
        coded = pa.array(place)
        if names and name in spine.names:
            texts = pa.array([spine.names[name].of_unit[unit] for unit in distinct_units], pa.string())
            columns.append((spine.names[name].column, _each_once(texts, coded)))
        codes = text_array(spine.own_codes(name)[distinct_units])
        repeat = name in spine.own
        columns.append((name, _each_once(codes, coded) if repeat else pa.DictionaryArray.from_arrays(coded, codes)))
        if spine.depth(name) > 0:  # a few units of a large level: not all parents
            units = (np.searchsorted(spine.first_child[spine.depth(name) - 1], distinct_units, side="right") - 1)[place]
    return dict(reversed(columns))


def path_levels(spine: Spine, level: str) -> list[str]:
    """The levels down to this one that have a column in a table; a root that is only a name has none."""
    return [name for name in spine.column_levels if spine.depth(name) <= spine.depth(level)]


def path_names(spine: Spine, level: str) -> list[str]:
    """The columns of ``path_columns`` with names: codes and names of the levels down to this one."""
    pairs = ((name, spine.names.get(name)) for name in path_levels(spine, level))
    return [column for name, names in pairs for column in (name, *([names.column] if names else []))]


def code_array(spine: Spine, level: str, units: Integers) -> pa.Array:
    """The codes of units of a level as text; their paths where codes repeat under parents."""
    return text_array(spine.codes[spine.depth(level)][units])


def text_array(codes: Codes) -> pa.Array:
    """Codes as text."""
    size = codes.dtype.itemsize
    if len(codes) and size and np.char.str_len(codes).min() == size:  # equal lengths: the bytes as they are
        fixed = pa.Array.from_buffers(pa.binary(size), len(codes), [None, pa.py_buffer(np.ascontiguousarray(codes))])
        return fixed.cast(pa.binary()).cast(pa.string())
    return pa.array(codes.tolist(), pa.binary()).cast(pa.string())


def _distinct(units: Integers) -> tuple[Integers, NDArray[np.int32]]:
    """The distinct units in rising order, and the place of each unit among them; fast if the units are in order."""
    steps = np.diff(units)
    if (steps < 0).any():
        distinct, place = np.unique(units, return_inverse=True)
        return distinct, place.astype(np.int32)
    first = np.concatenate([[True], steps > 0])[: len(units)]
    return units[first], np.cumsum(first, dtype=np.int32) - np.int32(1)


def _each_once(texts: pa.Array, place: pa.Array) -> pa.DictionaryArray:
    """A column of texts that may repeat, from the place of each row among them; its dictionary has each text once."""
    coded = texts.dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.take(place), coded.dictionary)


def _label_columns(schema: Schema, cells: Integers) -> dict[str, pa.Array]:
    places = np.unravel_index(cells, schema.shape) if schema.shape else ()
    return {
        name: pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), pa.array(labels))
        for (name, labels), place in zip(schema.attributes.items(), places, strict=True)
    }
