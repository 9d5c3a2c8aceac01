"""``tallyveil codebook``: draft a codebook by looking at a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.errors import InputError

FROM_DATA = (
    "tallyveil: labels and units were taken from the data, so they can tell about single people: what is released with "
    "this codebook is stamped. Check them, list every label that can occur, give --units FILE, then remove labels_from "
    "and units_from."
)


def codebook(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file of people or counts.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the codebook (default: print it).")
    ] = None,
) -> None:
    """Draft a codebook for a table, and summarise what is read with it.

    The labels and units of a draft come from the data, which makes them depend on the people. The draft says so
    (labels_from, units_from), and releases made with it are stamped until someone has checked the lists against a
    public source and removed these lines.

    [bold]Examples[/bold]

      tallyveil codebook blocks.parquet

      tallyveil codebook blocks.csv -o blocks.toml
    """
    from tallyveil.files.tables.codebook_toml import codebook_to_toml
    from tallyveil.files.tables.draft import draft_codebook
    from tallyveil.files.tables.read import read_counts
    from tallyveil.files.tables.write import write_text

    if output is not None and output.exists():
        raise InputError(f"{output} exists. Name a new file; nothing is overwritten.")
    drafted = draft_codebook(data)
    text = f"# Drafted from {data.name}. Check the order of levels and the names and order of labels.\n"
    text += codebook_to_toml(drafted)
    people = read_counts(data, drafted)
    if output is None:
        typer.echo(text)
    else:
        write_text(text, output)
    typer.echo(f"{people}: {people.total():,} in all", err=True)
    if drafted.ignore:
        typer.echo(f"tallyveil: columns that are not used: {', '.join(drafted.ignore)}", err=True)
    typer.echo(FROM_DATA, err=True)
