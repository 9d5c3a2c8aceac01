"""``tallyveil units``: the list of units that a table has, to be completed from a public register."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.errors import InputError, one_line

if TYPE_CHECKING:
    import pyarrow as pa

    from tallyveil.files.tables.codebook import Codebook
    from tallyveil.nouns.spine import Spine


def units(
    data: Annotated[Path, typer.Argument(help="CSV, Parquet or Excel (.xlsx) file of people or counts.")],
    codebook: Annotated[Path, typer.Option(help="TOML file that describes the columns.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="List to write (.csv or .parquet).")],
) -> None:
    """Write the list of units that a table has, to complete from a public register and to give as --units.

    The list has one row for each leaf, with the columns of the levels and of the names of units. Rows of titles, notes
    and totals are left out. It has the units of the table only: add the units where nobody was counted, or the list
    shows that somebody was counted in each of those that it has.

    [bold]Example[/bold]

      tallyveil units schools.csv --codebook schools.toml -o list.csv
    """
    from tallyveil.files.tables.codebook_toml import read_codebook
    from tallyveil.files.tables.read import read_counts
    from tallyveil.files.tables.write import write_table

    if output.exists():
        raise InputError(f"{output} exists. Name a new file; nothing is overwritten.")
    book = read_codebook(codebook)
    spine = read_counts(data, book).spine
    write_table(_listed(spine, book), output)
    typer.echo(str(output))
    words = f"{spine.size(spine.leaf):,} units of level {spine.leaf}, as found in {data}. "
    words += "Add those where nobody was counted, from a public register. Then use it: "
    words += f"tallyveil protect {data} --codebook {codebook} --units {output}"
    typer.echo(one_line(words), err=True)


def _listed(spine: Spine, book: Codebook) -> pa.Table:
    """The list, with whole codes in one column where the codebook cuts the levels out of one."""
    from tallyveil.files.tables.write import units_table

    table = units_table(spine)
    if book.code is None:
        return table
    names = [column for column in book.names.values() if column in table.column_names]
    return table.select([spine.leaf, *names]).rename_columns([book.code, *names])
