"""The folder that ``tallyveil baseline`` writes, read back for comparison with the truth."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tallyveil.cli.baseline_methods import Method
from tallyveil.errors import InputError, UnknownUnitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallyveil.nouns.estimates import Estimates, Sample
    from tallyveil.nouns.histogram import Histogram

DESCRIPTION = "baseline.json"
NAMES = ("unit", "cell")  # columns of estimates that say which count it is


@dataclass(frozen=True, kw_only=True, eq=False)
class BaselineFolder:
    """The result of a method: scaled-up people of a sample, people after swapping, or estimates of one query.

    ``made`` says how, and ``levels`` which levels can be compared. Sums over hidden cells are not shown, so
    ``suppress`` has one level and one query.
    """

    source: Histogram | Sample | Estimates
    method: Method
    made: str
    levels: tuple[str, ...]

    def queries(self, wanted: Sequence[str]) -> list[str]:
        """Those of the queries that can be answered, and the one of the estimates."""
        from tallyveil.nouns.estimates import Estimates

        if not isinstance(self.source, Estimates):
            return list(wanted)
        if self.method is Method.suppress:
            return [self.source.query]
        return list(dict.fromkeys([*filter(self.source.answers, wanted), self.source.query]))


def is_baseline(path: Path) -> bool:
    """Whether a path is a folder of ``tallyveil baseline``."""
    return (path / DESCRIPTION).exists()


def read_baseline(path: Path, truth: Histogram) -> BaselineFolder:
    """Read a folder, on the units and cells of the truth."""
    from tallyveil.files.tables.codebook_toml import read_codebook
    from tallyveil.files.tables.read import read_counts
    from tallyveil.nouns.estimates import Sample

    try:
        described = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        method, settings = Method(described["method"]), described["settings"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path / DESCRIPTION}: not written by tallyveil baseline. Run it again.") from None
    made = json.dumps({"method": method.value, "settings": settings}, sort_keys=True)
    if method not in (Method.sample, Method.swap):
        estimates = _estimates(path, truth)
        return BaselineFolder(source=estimates, method=method, made=made, levels=tuple(estimates.tables))
    book = read_codebook(path / "counts.codebook.toml")
    people = read_counts(path / "counts.parquet", book, units=path / "counts.units.parquet")
    source = Sample(people=people, fraction=Fraction(settings["fraction"])) if method is Method.sample else people
    return BaselineFolder(source=source, method=method, made=made, levels=truth.spine.levels)


def _estimates(path: Path, truth: Histogram) -> Estimates:
    """The estimates of all levels in a folder; hidden cells are taken as 0."""
    import pyarrow.parquet as pq

    from tallyveil.files.release_folder.measurement_files import safe_name
    from tallyveil.nouns.estimates import Estimates

    tables, query, hidden, cells = {}, "", 0, 0
    for level in truth.spine.levels:
        file = path / "estimates" / f"{safe_name(level)}.parquet"
        if file.exists():
            table = pq.read_table(file)
            query = table.column("query")[0].as_py()
            tables[level] = _dense(table, truth, level, query, path)
            hidden, cells = hidden + table.column("estimate").null_count, cells + table.num_rows
    if not tables:
        raise InputError(f"{path / 'estimates'}: no table of the levels {', '.join(truth.spine.levels)}. Run it again.")
    if hidden:
        typer.echo(f"tallyveil: {path}: {hidden:,} of {cells:,} cells are hidden, and are compared as 0.", err=True)
    return Estimates(spine=truth.spine, schema=truth.schema, query=query, tables=tables)


def _dense(table: Any, truth: Histogram, level: str, query: str, path: Path) -> Any:
    """A table of estimates as an array, 1 x units x rows; other units or cells than those of the truth are refused."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = {label: row for row, label in enumerate(truth.schema.query(query).labels())}
    units, cells = (table.column(name).cast(pa.string()).dictionary_encode().combine_chunks() for name in NAMES)
    try:
        unit = truth.spine.locate(level, units.dictionary.to_pylist())[units.indices.to_numpy()]
        row = np.array([labels[cell] for cell in cells.dictionary.to_pylist()], np.int64)[cells.indices.to_numpy()]
    except (UnknownUnitError, KeyError) as problem:
        other = f"{level} {problem.code!r}" if isinstance(problem, UnknownUnitError) else f"cell {problem}"
        raise InputError(
            f"{path}: {other} is not in the truth. Give the data and the --units that the baseline was made from."
        ) from None
    shape = truth.spine.size(level), len(labels)
    if table.num_rows != shape[0] * shape[1]:
        raise InputError(
            f"{path}: level {level} has {table.num_rows:,} rows, but the truth {shape[0]:,} units x {shape[1]:,} "
            f"cells. Give the data and the --units that the baseline was made from."
        )
    numbers = pc.fill_null(table.column("estimate"), 0).to_numpy()
    dense = np.zeros((1, *shape), dtype=numbers.dtype)
    dense[0, unit, row] = numbers
    return dense
