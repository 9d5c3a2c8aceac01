"""Tables by level in the style of NHGIS: CSV with a GISJOIN, short variable codes, and a codebook.txt."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tallyveil.errors import InputError
from tallyveil.files.tables.geography import CUTS
from tallyveil.files.tables.stamps import stamp_lines
from tallyveil.files.tables.write import write_table, write_text
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Query
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import path_columns


def write_nhgis(
    histogram: Histogram,
    folder: str | PathLike[str],
    *,
    queries: Sequence[str],
    levels: Sequence[str] | None = None,
    layout: Literal["wide", "long"] = "wide",
) -> None:
    """Write ``<level>.csv`` for each level, and ``codebook.txt``, into a folder that is new or empty.

    Wide: one row per unit, one column per number (``AAA001``). Long: one row per unit and number. ``codebook.txt``
    begins with the stamps of the counts.
    """
    target = Path(folder)
    if target.exists() and any(target.iterdir()):
        raise InputError(f"{target}: not empty. Name a new folder; nothing is overwritten.")
    asked = [histogram.schema.query(text) for text in queries]
    chosen = list(levels or histogram.spine.levels)
    tables = {level: _table(histogram, level, asked, layout) for level in chosen}
    target.mkdir(parents=True, exist_ok=True)
    write_text(_codebook(histogram, chosen, asked, layout), target / "codebook.txt")
    for level, table in tables.items():
        write_table(table, target / f"{level}.csv")


def variable(table: int, row: int) -> str:
    """The code of a number: three letters for its table, three digits or more for its row.

    >>> variable(0, 0), variable(27, 11)
    ('AAA001', 'ABB012')
    """
    letters = "".join(chr(ord("A") + table // 26**power % 26) for power in (2, 1, 0))
    return f"{letters}{row + 1:03d}"


def gisjoin(spine: Spine, level: str) -> list[str] | None:
    """The GISJOIN of every unit of a level, where codes are GEOIDs: zeros after state and county, and a leading G.

    >>> gisjoin(Spine.from_codes(["440010301001000"], lengths=CUTS), "block")
    ['G44000100301001000']
    """
    size = CUTS.get(level)
    codes = spine.labels(level)
    if size is None or any(len(code) != size for code in codes):
        return None
    joined = []
    for code in codes:
        state, county, tract, rest = code[:2], code[2:5], code[5:11], code[11:]
        part = code[11:12] if level == "block_group" else rest
        joined.append("G" + state + "0" + (county + "0" if county else "") + tract + part)
    return joined


def _table(histogram: Histogram, level: str, queries: Sequence[Query], layout: str) -> pa.Table:
    units = np.arange(histogram.spine.size(level))
    joined = gisjoin(histogram.spine, level)
    columns: dict[str, Any] = {} if joined is None else {"GISJOIN": pa.array(joined)}
    paths = path_columns(histogram.spine, level, units)
    columns |= {name.upper(): codes for name, codes in paths.items()}
    numbers = {
        variable(t, r): counts
        for t, query in enumerate(queries)
        for r, counts in enumerate(histogram.answer(query, level=level).dense().T)
    }
    if layout == "wide":
        return pa.table(columns | {name: pa.array(counts) for name, counts in numbers.items()})
    parts = [
        pa.table(columns | {"VARIABLE": [name] * len(units), "COUNT": pa.array(counts)})
        for name, counts in numbers.items()
    ]
    return pa.concat_tables(parts)


def _codebook(histogram: Histogram, levels: Sequence[str], queries: Sequence[Query], layout: str) -> str:
    stamps = stamp_lines(histogram)
    lines = [*stamps, *([""] if stamps else []), "Codebook", "", f"Layout: {layout}", "Files:"]
    lines += [f"    {level}.csv  ({histogram.spine.size(level):,} units)" for level in levels]
    lines += ["", "Columns:", "    GISJOIN  NHGIS code of the unit, where codes are GEOIDs"]
    lines += [f"    {name.upper()}  code of the {name}" for name in histogram.spine.levels]
    if layout == "long":
        lines += ["    VARIABLE  one of the codes below", "    COUNT  its count"]
    for number, query in enumerate(queries):
        lines += ["", f"Table {variable(number, 0)[:3]}: {query.name}"]
        lines += [f"    {variable(number, row)}  {label}" for row, label in enumerate(query.labels())]
    return "\n".join([*lines, ""])
