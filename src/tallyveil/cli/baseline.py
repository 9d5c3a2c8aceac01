"""``tallyveil baseline``: the papers' simple mechanisms and older methods, written as tables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.cli.baseline_folder import DESCRIPTION
from tallyveil.cli.baseline_methods import Differences, Method, NeighbourRelation

if TYPE_CHECKING:
    from tallyveil.cli.baseline_methods import Baseline


def baseline(
    data: options.Data,
    method: Annotated[Method, typer.Option(help="Method to run; the other options say which methods they are for.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the tables; it must not exist yet.")],
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    units: options.Units = None,
    query: Annotated[
        str | None,
        typer.Option(help="Counts to protect (all but swap; default: total, and all cells for reconciled)."),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy-loss budget (geometric, raked, averaged, reconciled).")
    ] = None,
    neighbours: Annotated[
        NeighbourRelation | None,
        typer.Option(
            help="Neighbours for which epsilon holds (default: as in the papers, replace-one for reconciled and "
            "add-or-remove for geometric, raked and averaged)."
        ),
    ] = None,
    parts: Annotated[int | None, typer.Option(help="Number of runs that are averaged (averaged; default: 4).")] = None,
    total_share: Annotated[
        str | None, typer.Option(help="Share of epsilon that the total of each unit gets (reconciled; default: 1/4).")
    ] = None,
    total_weight: Annotated[
        float | None,
        typer.Option(help="Weight of the total in the fit; the strata have the rest (reconciled; default: 0.25)."),
    ] = None,
    differences: Annotated[
        Differences | None,
        typer.Option(help="Differences that the fit minimises (reconciled; default: squares)."),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="Keep the true totals of this level instead of measuring totals (reconciled). The result is then not "
            "differentially private.",
        ),
    ] = None,
    fraction: Annotated[str | None, typer.Option(help="Fraction of the people in the sample (sample).")] = None,
    rate: Annotated[str | None, typer.Option(help="Share of the people who are drawn to be swapped (swap).")] = None,
    match: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Attributes on which swapped people must agree (swap).")
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Level within whose units people are swapped (swap).")
    ] = None,
    below: Annotated[int | None, typer.Option(help="Smallest count that may be shown (suppress).")] = None,
    level: Annotated[
        str | None, typer.Option(help="Level of the counts (reconciled, suppress; default: the finest).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed for research only: anyone who knows it can remove the noise.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Protect counts with a simple mechanism or an older method, for comparison with TopDown, and write tables.

    The folder contains baseline.json (method, settings and guarantee), and estimates/LEVEL.parquet with one row for
    each unit and cell. Samples and swapping also give counts.parquet, a table of people with its codebook. Samples,
    swapping, suppression and --keep are not differentially private, and their folders are marked as internal.

    [bold]Examples[/bold]

      tallyveil baseline blocks.parquet --codebook b.toml --method geometric --epsilon 1 -o noisy

      tallyveil baseline blocks.parquet --codebook b.toml --method reconciled --epsilon 1 --differences absolute -o sa3

      tallyveil baseline blocks.parquet --codebook b.toml --method sample --fraction 1/2 --query race -o half

      tallyveil baseline t.csv --codebook t.toml --method swap --rate 0.05 --match age --within county -o swapped
    """
    from tallyveil.cli.baseline_methods import checked_options, run_method
    from tallyveil.cli.reading import read_people
    from tallyveil.files.atomic import refuse_unwritable

    refuse_unwritable(output)
    given = {
        "query": query,
        "epsilon": epsilon,
        "neighbours": neighbours,
        "parts": parts,
        "total_share": total_share,
        "total_weight": total_weight,
        "differences": differences,
        "keep": keep,
        "fraction": fraction,
        "rate": rate,
        "match": match,
        "within": within,
        "below": below,
        "level": level,
        "seed": seed,
    }
    settings = checked_options(method, {name: _plain(value) for name, value in given.items() if value is not None})
    people = read_people(data, codebook, file_format, units=units).counts
    typer.echo(f"{method.value} on {people}", err=True)
    made = run_method(people, method, settings)
    _write(made, output)
    if as_json:
        options.emit_json({"folder": str(output), **made.described})
        return
    typer.echo(str(output))
    for stamp in made.described["stamps"]:
        typer.echo(f"stamped: {stamp}", err=True)
    typer.echo(made.described["guarantee"], err=True)


def _plain(value: Any) -> Any:
    """The value of an option without the type of the command line."""
    return value.value if isinstance(value, StrEnum) else value


def _write(made: Baseline, output: Path) -> None:
    """Write the tables, and what they are."""
    from tallyveil.cli.tables import write_internal, write_result
    from tallyveil.files.atomic import new_folder
    from tallyveil.files.release_folder.measurement_files import safe_name
    from tallyveil.files.tables.write import write_counts, write_table

    with new_folder(output) as folder:
        if not made.described["differentially_private"]:
            write_internal(folder)
        if made.tables:
            (folder / "estimates").mkdir()
        for level, table in made.tables.items():
            write_table(table, folder / "estimates" / f"{safe_name(level)}.parquet")
        if made.people is not None:
            write_counts(made.people, folder / "counts.parquet")
        write_result(made.described, folder, DESCRIPTION)
