"""``tallyveil report``: a page about a release that people can read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.nouns.histogram import Histogram


class Audience(StrEnum):
    """Who reads a report."""

    public = "public"
    internal = "internal"


def report(
    folder: options.ReleaseFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")],
    truth: Annotated[
        Path | None,
        typer.Option(
            help="CSV, Parquet or Excel file of the true counts, or published microdata; for an internal report."
        ),
    ] = None,
    audience: Annotated[
        Audience, typer.Option(help="public: made from the release alone. internal: compared with the truth.")
    ] = Audience.public,
    areas: Annotated[
        Path | None,
        typer.Option("--map", metavar="GEOJSON", help="Areas to draw, of which one property holds the codes of units."),
    ] = None,
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    units: options.Units = None,
) -> None:
    r"""Write a report on a release as one HTML file that opens without a network and prints well.

    The public report says what was released, how large errors are, what is promised, and how to use the numbers. It is
    made from the release folder alone. The internal report adds measured errors, bias, empirical privacy loss, the
    sample that the release is like, and exposed units. It is not for publication. Charts need the extra
    tallyveil\[plots].

    [bold]Examples[/bold]

      tallyveil report release -o report.html

      tallyveil report release --map counties.geojson -o report.html

      tallyveil report release --truth blocks.parquet --audience internal -o internal.html
    """
    from tallyveil.report.page import check_audience, check_page_name, write_report
    from tallyveil.report.plots import altair

    check_page_name(output)
    check_audience(audience.value, has_truth=truth is not None)
    altair()
    people = None if truth is None else _truth(truth, folder, codebook, file_format, units)
    written = write_report(folder, output, audience=audience.value, truth=people, areas=areas)
    size = f"{written.stat().st_size / 1e6:.1f} MB"
    whom = "public report" if audience is Audience.public else "INTERNAL report, made from the true counts"
    typer.echo(f"{written}: {whom}, {size}. It opens in any browser and loads nothing.")
    if not _has_margins(folder):
        typer.echo(f"Its margins are limits. For closer ones, first run: tallyveil uncertainty {folder}", err=True)


def _has_margins(folder: Path) -> bool:
    """Whether ``tallyveil uncertainty`` has added margins to the release's tables by level."""
    from pyarrow.parquet import read_schema

    from tallyveil.files.release_folder.layout import MARGIN

    tables = folder.glob("levels/*.parquet")
    return all(any(name.endswith(MARGIN) for name in read_schema(table).names) for table in tables)


def _truth(
    truth: Path, folder: Path, codebook: Path | None, file_format: options.FileFormat | None, units: Path | None
) -> Histogram:
    """The true counts, read as the release's input was, unless a codebook is given."""
    from tallyveil.cli.reading import read_truth_and_releases

    if not (folder / "certificate.json").exists():
        raise InputError(f"{folder}: not the folder of a release. Give one that tallyveil protect made.")
    return read_truth_and_releases(truth, [folder], codebook, units=units, file_format=file_format).truth
