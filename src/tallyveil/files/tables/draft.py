"""Draft a codebook from a table. A person should review it before it is used.

The labels and units in a file are facts about the people in it, whereas a codebook for publication lists those that
could occur. Every draft is therefore marked (``labels_from`` and ``units_from``), and counts read with it are stamped
until a person has removed the marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallyveil._arrays import Floats
from tallyveil.errors import DataError
from tallyveil.files.tables.codebook import COUNTS, TOTALS, Codebook
from tallyveil.files.tables.columns import decoded
from tallyveil.files.tables.geography import CUTS, lost_zeros
from tallyveil.files.tables.sources import Source, batches

LEVELS = (
    *("nation", "region", "division", "state", "county", "county_subdivision", "municipality", "town", "ward"),
    *("tract", "block_group", "enumdist", "enumeration_district", "precinct", "block"),
)
CODES = ("geoid", "geoid10", "geoid20", "gisjoin", "geocode", "geo_id")
GISJOIN_CUTS = {"state": 4, "county": 8, "tract": 14, "block_group": 15, "block": 18}
WORDS = {
    "age": {"adult", "child", "minor", "under18", "18plus", "voting_age"},
    "sex": {"male", "female", "m", "f", "men", "women"},
    "hispanic": {"h", "nh", "hispanic", "not_hispanic", "non_hispanic"},
    "race": {"white", "black", "asian", "aian", "nh_white", "nh_black"},
}
_MOST_LABELS = 200


def draft_codebook(source: Source) -> Codebook:
    """A codebook that fits a table, as far as its columns show, marked as drafted from the data."""
    drafted = _drafted(source)
    # A filter on rows of a level is public; a filter on rows of persons may reveal something about them.
    public = bool(drafted.where) and drafted.layout != "persons"
    return replace(drafted, labels_from="data", units_from="data", where_is_public=public)


def _drafted(source: Source) -> Codebook:
    batch = next(iter(batches(source)))
    table = pa.table({name: decoded(batch.table.column(name)) for name in batch.table.column_names})
    if table.num_rows == 0:
        raise DataError(f"{batch.name}: the table has no rows. Give a table with rows.")
    geography = _geography(table, batch.name)
    used = {geography.get("code"), *geography["levels"]}
    where = geography.pop("rows", {})
    rest = [name for name in table.column_names if name not in used and name not in where]
    numbers = [name for name in rest if _is_number(table.column(name))]
    kept = table
    for column, value in where.items():
        kept = kept.filter(pc.equal(kept.column(column), value))
    labels = [name for name in rest if name not in numbers]
    count = [name for name in numbers if name.lower() in COUNTS]
    if len(numbers) == 1 and numbers[0].lower() in TOTALS:
        count = numbers
    if labels and len(count) == 1:
        return _rows(kept, geography, where, labels, count=count[0], ignore=[n for n in numbers if n not in count])
    if labels and len(numbers) < 2:
        return _rows(kept, geography, where, labels, count=None, ignore=numbers)
    if not numbers:
        raise DataError(f"{batch.name}: no columns of counts or labels besides the codes. Write the codebook by hand.")
    return _wide(kept, geography, where, numbers, ignore=labels)


def _rows(
    table: pa.Table,
    geography: dict[str, Any],
    where: dict[str, str],
    labels: Sequence[str],
    *,
    count: str | None,
    ignore: Sequence[str],
) -> Codebook:
    attributes = {name: tuple(sorted(map(str, pc.unique(_text(table.column(name))).to_pylist()))) for name in labels}
    usable = {name: values for name, values in attributes.items() if len(values) <= _MOST_LABELS and "" not in values}
    if not usable:
        raise DataError("no column has few enough labels to be an attribute. Write the codebook by hand.")
    return Codebook(
        **geography,
        attributes=usable,
        layout="persons" if count is None else "long",
        count=count,
        where=where,
        ignore=(*(name for name in labels if name not in usable), *ignore),
    )


def _wide(
    table: pa.Table, geography: dict[str, Any], where: dict[str, str], numbers: Sequence[str], *, ignore: Sequence[str]
) -> Codebook:
    total = next((name for name in numbers if name.lower() in TOTALS), None)
    cells = [name for name in numbers if name != total]
    if not cells:
        cells, total = list(numbers), None
    for first, second in _products(cells):
        columns = [f"{a}_{b}" for a in first for b in second]
        if total is None or _fit(table, columns, total):
            names = _names([first, second])
            return Codebook(
                **geography,
                attributes=dict(zip(names, (tuple(first), tuple(second)), strict=True)),
                column="_".join(f"{{{name}}}" for name in names),
                total=total,
                where=where,
                ignore=(*(name for name in cells if name not in columns), *ignore),
            )
    (name,) = _names([cells])
    fits = total is not None and _fit(table, cells, total)
    return Codebook(
        **geography,
        attributes={name: tuple(cells)},
        column=f"{{{name}}}",
        total=total if fits else None,
        where=where,
        ignore=(*ignore, *(() if fits or total is None else (total,))),
    )


def _products(columns: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Ways to read column names as first_second with all combinations present, the largest first."""
    seconds: dict[str, list[str]] = {}
    for name in columns:
        parts = name.split("_")
        for i in range(1, len(parts)):
            seconds.setdefault("_".join(parts[:i]), []).append("_".join(parts[i:]))
    products = []
    for second in {tuple(values) for values in seconds.values() if len(values) > 1}:
        first = [name for name, values in seconds.items() if set(second) <= set(values)]
        if len(first) > 1:
            products.append((first, list(second)))
    yield from sorted(products, key=lambda pair: -len(pair[0]) * len(pair[1]))


def _names(sets: Sequence[Sequence[str]]) -> list[str]:
    """A name for each set of labels: a known word, or a number."""
    names: list[str] = []
    for i, labels in enumerate(sets):
        known = [name for name, words in WORDS.items() if words & set(labels) and name not in names]
        names.append(
            known[-1] if known and "white" in " ".join(labels) else known[0] if known else f"attribute_{i + 1}"
        )
    return names


def _geography(table: pa.Table, name: str) -> dict[str, Any]:
    """The geographic fields: one column per level, or one code to cut; ``rows`` tells which rows are leaves."""
    lower = {column.lower(): column for column in table.column_names}
    levels = [lower[level] for level in LEVELS if level in lower]
    if levels:
        several = len(pc.unique(table.column(levels[0]))) > 1
        pad = {
            column: CUTS[column] for column in levels if column in CUTS and _lost_zeros(table.column(column), column)
        }
        fields: dict[str, Any] = {"levels": tuple(levels), "pad": pad}
        return fields | ({"root": "us" if levels[0] == "state" else "all"} if several else {})
    code = next((lower[column] for column in CODES if column in lower), None)
    if code is None:
        raise DataError(
            f"{name}: no geographic column found ({', '.join(table.column_names)}). Name columns after their level "
            f"(state, county, tract, ...) or geoid, or write the codebook by hand."
        )
    codes = _text(table.column(code))
    sizes = pc.utf8_length(codes)
    longest = pc.max(sizes).as_py()
    cuts = GISJOIN_CUTS if code.lower() == "gisjoin" else CUTS
    lengths = {level: size for level, size in cuts.items() if size <= longest}
    leaves = pc.equal(sizes, longest)
    if longest not in cuts.values():
        lengths = {"unit": longest}
    fields = {"levels": tuple(lengths), "code": code, "lengths": lengths}
    if not pc.all(leaves).as_py():
        fields["rows"] = _marks(table, leaves, code)
    several = len(pc.unique(pc.utf8_slice_codeunits(codes.filter(leaves), 0, next(iter(lengths.values()))))) > 1
    return fields | ({"root": "us"} if several else {})


def _lost_zeros(column: pa.ChunkedArray, level: str) -> bool:
    return pa.types.is_integer(column.type) or lost_zeros(_text(column), level)


def _marks(table: pa.Table, leaves: pa.Array, code: str) -> dict[str, str]:
    """A column whose value distinguishes the rows of leaves from the others."""
    for name in table.column_names:
        if name != code and pa.types.is_string(table.column(name).type):
            inside = pc.unique(table.column(name).filter(leaves)).to_pylist()
            if (
                len(inside) == 1
                and inside[0] not in pc.unique(table.column(name).filter(pc.invert(leaves))).to_pylist()
            ):
                return {name: inside[0]}
    return {}


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.cast(column, pa.string()), "")


def _is_number(column: pa.ChunkedArray) -> bool:
    """Whether most of a column's values are numbers; the reader will report the values that are not."""
    return bool(np.mean(~np.isnan(_numbers(column))) > 0.5)


def _numbers(column: pa.ChunkedArray) -> Floats:
    """Values as floats, NaN where a value is not a number."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if not pa.types.is_string(kind):
        return np.full(len(column), np.nan)
    text = pc.utf8_trim_whitespace(column)
    number = pc.fill_null(pc.match_substring_regex(text, r"^[+-]?[0-9]+(\.[0-9]*)?$"), False)
    return np.asarray(pc.if_else(number, text, None).cast(pa.float64()).to_numpy(), dtype=np.float64)


def _fit(table: pa.Table, columns: Sequence[str], total: str) -> bool:
    """Whether columns sum to the total in most rows; the reader will report the rows in which they do not."""
    sums = np.sum([_numbers(table.column(name)) for name in columns], axis=0)
    return bool(np.mean(sums == _numbers(table.column(total))) > 0.5)
