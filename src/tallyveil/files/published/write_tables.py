"""Write the tables of a release folder for publication, in one of four formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tallyveil._workers import workers
from tallyveil.errors import InputError
from tallyveil.files.atomic import new_folder
from tallyveil.files.published.level_tables import LevelTables, level_tables
from tallyveil.files.published.readme import readme_lines
from tallyveil.files.published.sdmx import sdmx_pieces, structure_of
from tallyveil.files.published.workbook import check_workbook, write_workbook
from tallyveil.files.release_folder.layout import SOURCE
from tallyveil.files.release_folder.margin_columns import MarginsBySize, refuse_unless_90
from tallyveil.files.release_folder.read_folder import read_release
from tallyveil.files.tables.codebook_toml import read_codebook
from tallyveil.files.tables.columns import decoded
from tallyveil.files.tables.write import write_table, write_text

TableFormat = Literal["csv", "xlsx", "parquet", "sdmx-csv"]
NUMBER = r"[+-]?[0-9][0-9.,]*%?"
FORMULA = re.compile(  # what a spreadsheet program could compute when it opens a CSV: all but numbers, and "-5 to 0"
    rf"(?!{NUMBER}( [^\W\d_]{{1,5}} {NUMBER})?$)\s*[=@+\-\uff1d\uff20\uff0b\uff0d].*", re.DOTALL
)

_LONGEST = 100  # characters of a file's name that are kept
_RESERVED = {"readme", "con", "prn", "aux", "nul", *(f"{name}{i}" for name in ("com", "lpt") for i in range(1, 10))}


def write_tables(
    folder: str | PathLike[str],
    output: str | PathLike[str],
    *,
    format: TableFormat = "csv",  # noqa: A002 (the option's name)
    levels: Sequence[str] | None = None,
    queries: Sequence[str] = (),
    margins: MarginsBySize | None = None,
) -> list[Path]:
    """Write a release's tables to a new folder, and return the files.

    Parameters
    ----------
    folder
        The release folder.
    output
        The new folder.
    format
        ``"csv"`` and ``"parquet"``: a wide and a tidy table for each level; ``"xlsx"``: a workbook for each level with
        both; ``"sdmx-csv"``: a tidy table for each level as SDMX-CSV 2.0.
    levels
        The levels (all by default).
    queries
        Queries to publish besides those of ``levels/``, such as ``"detailed"``.
    margins
        90% margins of error (``tallyveil.evaluate.margins``) for queries that have none in the folder.
    """
    place, target = Path(folder), Path(output)
    if margins is not None:
        refuse_unless_90(margins)
    release = read_release(place)
    spine = release.histogram.spine
    source = read_codebook(place / SOURCE) if (place / SOURCE).exists() else None
    code = None if source is None else source.code
    chosen = [spine.levels[spine.depth(level)] for level in levels or spine.levels]
    tables = [
        level_tables(place, release, level, queries, code=code, estimated=margins) for level in dict.fromkeys(chosen)
    ]
    if format == "xlsx":
        for one in tables:
            check_workbook(one)
    elif format not in ("csv", "parquet", "sdmx-csv"):
        raise InputError(f'format must be "csv", "xlsx", "parquet" or "sdmx-csv". Got {format!r} instead.')
    stems = file_stems([one.level for one in tables])
    readme = readme_lines(release, tables, name=place.resolve().name)
    with new_folder(target) as made:
        write_text("".join(f"{line}\n" for line in readme), made / "README.txt")
        jobs = [
            job
            for one in reversed(tables)  # the largest tables begin first
            for job in _jobs(one, made / stems[one.level], format, readme, name=place.resolve().name)
        ]
        with workers() as run:
            list(run(lambda job: job(), jobs))
        names = sorted(path.name for path in made.iterdir())
    return [target / name for name in names]


def file_stems(levels: Sequence[str]) -> dict[str, str]:
    """The name of each level's files, as people read it: only what a file system may refuse is replaced.

    >>> file_stems(["Kod woj.", "LSOA/MSOA", "Gmina", "gmina", "con"])
    {'Kod woj.': 'Kod woj', 'LSOA/MSOA': 'LSOA_MSOA', 'Gmina': 'Gmina', 'gmina': 'gmina_2', 'con': 'con_'}
    """
    stems: dict[str, str] = {}
    for level in levels:
        stem = re.sub(r'[<>:"/\\|?*\x00-\x1f\x7f]', "_", level)[:_LONGEST].strip(" .") or "level"
        stem += "_" if stem.lower() in _RESERVED else ""
        taken = {name.casefold() for other in stems.values() for name in (other, f"{other}_tidy")}
        names = chain([stem], (f"{stem}_{number}" for number in count(2)))
        stems[level] = next(name for name in names if taken.isdisjoint({name.casefold(), f"{name}_tidy".casefold()}))
    return stems


def _jobs(
    tables: LevelTables, path: Path, kind: TableFormat, readme: Sequence[str], *, name: str
) -> list[Callable[[], None]]:
    """What writes the files of a level, a file each."""
    if kind == "xlsx":
        return [lambda: write_workbook(tables, path.with_name(f"{path.name}.xlsx"), readme)]
    if kind == "sdmx-csv":
        structure = structure_of(None, name)
        return [lambda: _write(sdmx_pieces(tables, structure=structure), path.with_name(f"{path.name}.csv"))]
    return [
        lambda: _write(tables.wide(), path.with_name(f"{path.name}.{kind}")),
        lambda: _write(tables.tidy(), path.with_name(f"{path.name}_tidy.{kind}")),
    ]


def _write(pieces: Iterator[pa.Table], path: Path) -> None:
    write_table(map(without_formulas, pieces) if path.suffix == ".csv" else pieces, path)


def without_formulas(table: pa.Table) -> pa.Table:
    """A table for CSV, in which an apostrophe precedes any text that a spreadsheet program would compute.

    >>> without_formulas(pa.table({"=label": ["=1+1", "-5 to 0", "+65", "-5-3"]})).to_pydict()
    {"'=label": ["'=1+1", '-5 to 0', '+65', "'-5-3"]}
    """
    columns: list[Any] = []
    for column in table.columns:
        plain = decoded(column)
        if pa.types.is_string(plain.type) and any(FORMULA.match(text or "") for text in pc.unique(plain).to_pylist()):
            plain = pa.array([f"'{text}" if FORMULA.match(text or "") else text for text in plain.to_pylist()])
        columns.append(plain)
    names = [f"'{name}" if FORMULA.match(name) else name for name in table.column_names]
    return pa.table(columns, names=names)
