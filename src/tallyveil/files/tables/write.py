"""Write counts as tables, CSV or Parquet, with the codebook to read them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tallyveil.errors import DataError, InputError
from tallyveil.files.atomic import replacing
from tallyveil.files.tables.codebook import Codebook, Layout
from tallyveil.files.tables.codebook_toml import codebook_to_toml
from tallyveil.files.tables.columns import decoded
from tallyveil.files.tables.entries import wide_columns
from tallyveil.files.tables.geography import CUTS
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import counts_table, path_columns, text_array


def persons_rows(counts: pa.Table) -> pa.Table:
    """A table of counts with one row per person instead: geographic columns and attributes."""
    rows = np.repeat(np.arange(counts.num_rows), counts.column("count").to_numpy())
    return counts.drop_columns(["count"]).take(pa.array(rows))


def wide_table(histogram: Histogram) -> pa.Table:
    """One row per leaf, one column per cell."""
    spine = histogram.spine
    columns = path_columns(spine, spine.leaf, np.arange(spine.size(spine.leaf)))
    dense = histogram.leaves.dense()
    for name, counts in zip(wide_columns(codebook_for(histogram, "wide")), dense.T, strict=True):
        if name in columns:
            raise DataError(f"two columns would be called {name!r}. Rename a label or a level, or write a long table.")
        columns[name] = pa.array(counts)
    return pa.table(columns)


def units_table(spine: Spine) -> pa.Table:
    """Every leaf with its path and the names of its units, including empty leaves.

    The codes of the leaves are plain text: nearly all differ, and a dictionary of them is larger and slower to read.
    """
    columns = path_columns(spine, spine.leaf, np.arange(spine.size(spine.leaf)), names=True)
    return pa.table(columns | {spine.leaf: text_array(spine.own_codes(spine.leaf))})


def codebook_for(histogram: Histogram, layout: Layout) -> Codebook:
    """The codebook of a table in this layout, with the stamps of the counts and the filter they were read with."""
    schema, spine = histogram.schema, histogram.spine
    levels = spine.column_levels
    short = [level for level in levels if np.char.str_len(spine.own_codes(level)).min() < CUTS.get(level, 0)]
    return Codebook(
        pad=dict.fromkeys(short, 1),  # their codes are short by design: no zeros were lost
        levels=levels,
        root=spine.named_root,
        relative=spine.relative,
        names={level: names.column for level, names in spine.names.items()},
        attributes={name: tuple(labels) for name, labels in schema.attributes.items()},
        groupings=schema.groupings,
        zeros=tuple({name: tuple(labels) for name, labels in zero.items()} for zero in schema.zeros),
        layout=layout,
        column=("_".join(f"{{{name}}}" for name in schema.attributes) or "count") if layout == "wide" else None,
        count="count" if layout == "long" else None,
        stamps=histogram.stamps,
        filtered=histogram.filter,
        rows_per_person=histogram.rows_per_person,
    )


def write_counts(histogram: Histogram, path: str | PathLike[str], *, layout: Layout = "long") -> None:
    """Write a table, and beside it ``<name>.codebook.toml`` and ``<name>.units.parquet`` to read it back.

    The codebook also keeps the stamps and the filter of the counts.
    """
    target, book = Path(path), codebook_to_toml(codebook_for(histogram, layout))
    write_table(units_table(histogram.spine), beside(target, "units.parquet"))
    write_text(book, beside(target, "codebook.toml"))
    write_table(_pieces(histogram, layout), target)


def _pieces(histogram: Histogram, layout: Layout, size: int = 1 << 20) -> Iterator[pa.Table]:
    """A table in pieces, so that it is not held in memory twice."""
    if layout == "wide":
        yield wide_table(histogram)
        return
    for first in range(0, max(1, histogram.leaves.entries), size):
        piece = counts_table(histogram, first, first + size)
        yield piece if layout == "long" else persons_rows(piece)


def write_table(table: pa.Table | Iterable[pa.Table], path: str | PathLike[str], *, mostly_zeros: bool = False) -> None:
    """Write a table, or its pieces in order, as CSV or Parquet by the ending of the name.

    Columns of plain text get no dictionary in Parquet: those whose texts repeat are dictionaries already.
    Numbers that are ``mostly_zeros`` are written without dictionaries and statistics, in pages whose values are
    compressed where they lie: faster, and not larger.
    """
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise InputError(f"{path}: a table's name ends in .csv or .parquet. Use one of these.")
    pieces = iter([table] if isinstance(table, pa.Table) else table)
    if ending == ".csv":
        pieces = map(_plain, pieces)
    first = next(pieces)
    with replacing(path) as temporary:
        if ending == ".parquet":
            texts = [field.name for field in first.schema if pa.types.is_dictionary(field.type)]
            numbers = [field.name for field in first.schema if pa.types.is_primitive(field.type)]
            coded = texts if mostly_zeros else [*texts, *numbers]
            many: dict[str, Any] = {"data_page_version": "2.0", "write_batch_size": 1 << 15} if mostly_zeros else {}
            writer = pyarrow.parquet.ParquetWriter(
                temporary,
                first.schema,
                compression="zstd",
                use_dictionary=coded,
                write_statistics=texts if mostly_zeros else True,
                **many,
            )
        else:
            writer = pyarrow.csv.CSVWriter(temporary, first.schema)
        with writer:
            for piece in chain([first], pieces):
                writer.write_table(piece)


def write_text(text: str, path: str | PathLike[str]) -> None:
    """Write a text file."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def beside(path: Path, ending: str) -> Path:
    """The path of a file's companion: the same name with another ending.

    >>> str(beside(Path("out/people.parquet"), "codebook.toml"))
    'out/people.codebook.toml'
    """
    return path.with_name(f"{path.stem}.{ending}")


def _plain(table: pa.Table) -> pa.Table:
    """A table without dictionary encoding, as CSV needs it."""
    return pa.table([decoded(column) for column in table.columns], names=table.column_names)
