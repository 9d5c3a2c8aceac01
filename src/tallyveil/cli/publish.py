"""``tallyveil tables``: write a release as tables to publish."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options
from tallyveil.errors import one_line

if TYPE_CHECKING:
    from tallyveil.evaluate.margin_classes import Margins


class TableFormat(StrEnum):
    """Formats of published tables."""

    csv = "csv"
    xlsx = "xlsx"
    parquet = "parquet"
    sdmx_csv = "sdmx-csv"


def tables(
    folder: options.ReleaseFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for the tables; it must not exist yet.")],
    table_format: Annotated[TableFormat, typer.Option("--format", help="Format of the tables.")] = TableFormat.csv,
    level: Annotated[list[str] | None, typer.Option(help="Level to write (default: all). Can be repeated.")] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(help='Query to add to those of the release, such as "age * sex" or detailed. Can be repeated.'),
    ] = None,
    margins: Annotated[
        bool,
        typer.Option("--margins", help="Estimate margins of error for queries that have none yet, such as detailed."),
    ] = False,
) -> None:
    r"""Write a release as tables to publish: for each level a wide table and a tidy one, and a README in plain words.

    The tables have the codes of your file, and the names of units if there are any. Margins of error are included where
    "tallyveil uncertainty" has added them, and for all queries with --margins, which protects the release again ten
    times, as "tallyveil uncertainty" does. Excel workbooks need the extra tallyveil\[excel].

    [bold]Examples[/bold]

      tallyveil tables release -o tables

      tallyveil tables release --format xlsx --level county --query "age * sex" -o workbooks

      tallyveil tables release --query detailed --margins -o tables

      tallyveil tables release --format sdmx-csv -o sdmx
    """
    from tallyveil.files.atomic import refuse_existing
    from tallyveil.files.published.write_tables import write_tables
    from tallyveil.files.tables.codebook_toml import read_codebook

    if margins:
        refuse_existing(output)  # before the work
    made = _margins(folder, level, query or []) if margins else None
    written = write_tables(folder, output, format=table_format.value, levels=level, queries=query or (), margins=made)
    for path in written:
        typer.echo(str(path))
    files = "workbook" if table_format is TableFormat.xlsx else "table"
    many = f"{len(written) - 1} {files}{'s' * (len(written) != 2)} and a README"
    typer.echo(f"{output}: {many}. They hold what {folder} holds and nothing else.", err=True)
    attributes = list(read_codebook(folder / "codebook.toml").attributes)
    if len(attributes) > 1 and not _all_attributes(query or [], attributes):
        words = (
            f"Counts by {' * '.join(attributes)} are left out: {folder} has them too. To write them: --query detailed"
        )
        typer.echo(one_line(words), err=True)


def _all_attributes(queries: list[str], attributes: list[str]) -> bool:
    """Whether one of the queries is about all attributes."""
    from tallyveil.nouns.schema import DETAILED, factors_of

    return any(query == DETAILED or set(factors_of(query)) == set(attributes) for query in queries)


def _margins(folder: Path, levels: list[str] | None, queries: list[str]) -> Margins:
    """The margins of the tables' queries at these levels, refused for unknown ones before the work."""
    from tallyveil.cli.uncertainty import read_with_strategy, rerun_margins

    release = read_with_strategy(folder)
    for query in queries:
        release.histogram.schema.query(query)
    return rerun_margins(release, levels=levels, also=queries)
