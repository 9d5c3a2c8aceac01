"""The layout of a release's folder: the names of its files, and the columns and types of its tables.

The writer follows it, and ``verify`` accepts nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallyveil._arrays import Integers
from tallyveil.files.release_folder.measurement_files import file_name, measured_pairs, safe_name
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL, Query, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import path_columns, path_levels, path_names
from tallyveil.privacy.constraints import FacilityBounds, Invariant
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Pair
from tallyveil.release.plan import level_queries

MARGIN = "_moe90"  # suffix of a column with the 90% margins of error of the column before it
CERTIFICATE, SIGNATURE, PAGE = "certificate.json", "certificate.sig", "certificate.html"
STRATEGY, CODEBOOK, SOURCE = "strategy.toml", "codebook.toml", "source.toml"
RELEASE, SPINE, FACILITIES = "release.parquet", "spine.parquet", "facilities.parquet"
MEASURED_SPINE = "measurements/spine.parquet"
MDF_FILES = ("MDF_PER.dat", "MDF_UNIT.dat", "STAMPS.txt")  # the release as microdata, where asked for
ALWAYS = (CERTIFICATE, PAGE, STRATEGY, CODEBOOK, RELEASE, SPINE)
LEVEL_PIECE = 1 << 24  # numbers of a level's table that are written together

_CODES = pa.dictionary(pa.int32(), pa.string())
MEASURED = pa.schema({"unit": _CODES, "cell": _CODES, "value": pa.int64(), "variance": pa.float64()})
ESTIMATED = pa.schema(
    {**dict.fromkeys(["level", "unit", "query", "cell"], _CODES), "estimate": pa.float64(), "sd": pa.float64()}
)


def level_name(level: str) -> str:
    """The file of a level's table.

    >>> level_name("block group")
    'levels/block%20group.parquet'
    """
    return f"levels/{safe_name(level)}.parquet"


def estimate_name(level: str) -> str:
    """The file of a level's estimates, where there are any.

    >>> estimate_name("county")
    'estimates/county.parquet'
    """
    return f"estimates/{safe_name(level)}.parquet"


def measurement_name(query: str, level: str, *, exact: bool = False) -> str:
    """The file of a query's measurements at a level, or of its exact answers."""
    return f"measurements/{'exact/' if exact else ''}{safe_name(level)}/{file_name(query)}.parquet"


def exact_pairs(strategy: Strategy, schema: Schema) -> list[Pair]:
    """The pairs published without noise: the invariants, and the total if neighbours have the same number of people."""
    pairs = [(c.query, c.level) for c in strategy.constraints if isinstance(c, Invariant)]
    if strategy.neighbours == "replace-one":
        pairs.append((TOTAL, next(iter(strategy.levels))))
    return list(dict.fromkeys((schema.query(query).name, level) for query, level in pairs))


def saved_pairs(folder: Path, strategy: Strategy) -> dict[Pair, Path]:
    """The (query, level) pairs whose measurements are in a release's folder."""
    paths = {(query, level): folder / measurement_name(query, level) for query, level in measured_pairs(strategy)}
    return {pair: path for pair, path in paths.items() if path.exists()}


def required_files(strategy: Strategy, schema: Schema, levels: Iterable[str], there: Collection[str]) -> set[str]:
    """The files that a folder must have; ``there`` are those it has.

    Measurements require the exact answers, and estimates of a level those of every level.
    """
    levels = list(levels)
    names = {*ALWAYS, *map(level_name, levels)}
    if any(name.startswith("estimates/") for name in there):
        names |= set(map(estimate_name, levels))
    if any(isinstance(constraint, FacilityBounds) for constraint in strategy.constraints):
        names.add(FACILITIES)
    if any(name.startswith("measurements/") and name != MEASURED_SPINE for name in there):
        names |= {measurement_name(query, level, exact=True) for query, level in exact_pairs(strategy, schema)}
    return names


def allowed_files(strategy: Strategy, schema: Schema, levels: Iterable[str], there: Collection[str]) -> set[str]:
    """The files that a folder may have; ``there`` are those it has."""
    names = required_files(strategy, schema, levels, there) | {SIGNATURE, SOURCE, MEASURED_SPINE, *MDF_FILES}
    return names | {measurement_name(query, level) for query, level in measured_pairs(strategy)}


def level_part(
    histogram: Histogram,
    counts: Counts,
    level: str,
    queries: Sequence[str],
    units: Integers,
    *,
    room: Integers | None = None,
) -> pa.Table:
    """Rows of a level's table, from the level's counts: one row per unit, columns ``query:label*label``.

    The answers are written into ``room`` if it is given: new memory for every piece would take longer than the sums.
    """
    part, used = counts.taken(units), 0
    columns: dict[str, Any] = path_columns(histogram.spine, level, units, names=True)
    for query in map(histogram.schema.query, queries):
        size = query.size * len(units)
        columns |= answer_columns(part, query, None if room is None else room[used : used + size])
        used += size
    return pa.table(columns)


def answer_columns(counts: Counts, query: Query, room: Integers | None = None) -> dict[str, pa.Array]:
    """The answers to a query for each unit of the counts, one column per row of the query."""
    answers = np.empty(query.size * counts.units, dtype=np.int64) if room is None else room
    answers[:] = 0
    place = query.row_of_cell[counts.cell].astype(np.int64) * counts.units + counts.unit()  # by columns
    np.add.at(answers, place, counts.count.astype(np.int64))
    names = query_columns(query)
    return {name: pa.array(row) for name, row in zip(names, answers.reshape(query.size, counts.units), strict=True)}


def query_columns(query: Query) -> list[str]:
    """The columns of a query in a level's table: ``query:label*label``, or ``total`` alone.

    An attribute keeps its name, even if it is the only one and so the detailed query.
    """
    name = query.factors[0] if len(query.factors) == 1 else query.name
    return [f"{name}:{label}" for label in query.labels()] if query.factors else [TOTAL]


def release_columns(spine: Spine, schema: Schema) -> pa.Schema:
    """The columns of ``release.parquet``."""
    coded = dict.fromkeys([*path_levels(spine, spine.leaf), *schema.attributes], _CODES)
    return pa.schema({**coded, "count": pa.int64()})


def spine_columns(levels: Sequence[str], names: Mapping[str, str] | None = None) -> pa.Schema:
    """The columns of ``spine.parquet``; ``names`` are the columns of names, by level."""
    named = names or {}
    coded = {column: _CODES for level in levels for column in (level, named.get(level, level))}
    return pa.schema(coded | {levels[-1]: pa.string()})


def facility_columns(spine: Spine) -> pa.Schema:
    """The columns of ``facilities.parquet``."""
    paths = dict.fromkeys(path_levels(spine, spine.leaf), _CODES)
    leaf = paths if spine.leaf in spine.own else {spine.leaf: pa.string()}
    return pa.schema({**leaf, "type": _CODES, "count": pa.int64()})


def level_columns(spine: Spine, schema: Schema, strategy: Strategy, level: str) -> pa.Schema:
    """The columns of a level's table, without margins of error."""
    counts = [name for query in level_queries(strategy, schema, level) for name in query_columns(schema.query(query))]
    return pa.schema({**dict.fromkeys(path_names(spine, level), _CODES), **dict.fromkeys(counts, pa.int64())})


def with_margins(columns: pa.Schema, there: Collection[str]) -> pa.Schema:
    """The columns of a level's table; margins of error that are ``there`` follow their counts."""
    fields = []
    for field in columns:
        fields.append(field)
        margin = f"{field.name}{MARGIN}"
        if field.type == pa.int64() and margin in there and margin not in columns.names:
            fields.append(pa.field(margin, pa.int64()))
    return pa.schema(fields)
