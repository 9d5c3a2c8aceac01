"""``tallyveil epl``: empirical privacy loss of residuals in a file, or of a release beside its truth."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tallyveil.evaluate.epl.loss import EmpiricalLoss
    from tallyveil.evaluate.residuals import Residuals


class Grid(StrEnum):
    """Points at which the smoothed density is evaluated."""

    midpoints = "midpoints"
    integers = "integers"


class Tails(StrEnum):
    """Percentile that sets the search range."""

    each = "each"
    both = "both"


def epl(
    file: Annotated[
        Path, typer.Argument(help="File with one residual per row (with --column), or a release (with --truth).")
    ],
    column: Annotated[str | None, typer.Option(help="Column of residuals, released minus true.")] = None,
    truth: Annotated[
        Path | None, typer.Option(help="For a release: CSV, Parquet or Excel file of the true counts.")
    ] = None,
    codebook: Annotated[
        Path | None, typer.Option(help="For a release: TOML file that describes the columns of the truth.")
    ] = None,
    file_format: options.Format = None,
    level: Annotated[str | None, typer.Option(help="For a release: level of the counts.")] = None,
    query: Annotated[str | None, typer.Option(help="For a release: query (default: total).")] = None,
    units: Annotated[Path | None, typer.Option(help="For a release: list of all units, including empty ones.")] = None,
    bandwidth: Annotated[
        float, typer.Option(help="Bandwidth of the kernel, as a multiple of the residuals' standard deviation.")
    ] = 0.1,
    percentile: Annotated[float, typer.Option(help="Percentile of the residuals at which the search range ends.")] = 95,
    multiplier: Annotated[float, typer.Option(help="Factor by which the search range is widened.")] = 1,
    grid: Annotated[Grid, typer.Option(help="Points at which the density is evaluated.")] = Grid.midpoints,
    tails: Annotated[
        Tails, typer.Option(help="Percentile of each tail (petti2020) or of the absolute residual (both, flaxman2019).")
    ] = Tails.each,
    confidence: Annotated[float, typer.Option(help="Confidence level of the interval and the band.")] = 0.95,
    theory: Annotated[
        float | None, typer.Option(help="Theoretical value to compare with, such as z for geometric noise G(z).")
    ] = None,
    output: options.NewFolder = None,
    as_json: options.Json = False,
) -> None:
    """Estimate the empirical privacy loss of residuals, with an interval. It is not a bound on epsilon.

    [bold]Examples[/bold]

      tallyveil epl residuals.csv --column residual

      tallyveil epl residuals.csv --column residual --bandwidth 0.5 --theory 0.125 --json

      tallyveil epl release --truth blocks.parquet --codebook blocks.toml --level county --query "age * race"
    """
    from tallyveil.evaluate.epl.loss import epl as estimate
    from tallyveil.evaluate.residual_file import read_residuals
    from tallyveil.files.atomic import refuse_unwritable

    if output is not None:
        refuse_unwritable(output)
    if column is not None:
        _refuse_both(truth=truth, codebook=codebook, format=file_format, level=level, query=query, units=units)
        residuals: Residuals | NDArray[Any] = read_residuals(file, column)
    else:
        residuals, known = _of_release(
            file, truth, codebook, file_format=file_format, level=level, query=query or "total", units=units
        )
        theory = known if theory is None else theory
    loss = estimate(
        residuals,
        bandwidth=bandwidth,
        percentile=percentile,
        multiplier=multiplier,
        grid=grid.value,
        tails=tails.value,
        confidence=confidence,
        theory=theory,
    )
    if as_json:
        options.emit_json(loss.as_json())
    else:
        _show(loss)
    if output is not None:
        _write(loss, output)
        typer.echo(f"{output}: tables (internal: they come from the truth)", err=True)


def _show(loss: EmpiricalLoss) -> None:
    """Print the figures as a table, and what each means."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    table.add_row("residuals", f"{loss.n:,}", "released minus true")
    if loss.search_range is not None:
        table.add_row("search range", f"+-{loss.search_range:g}", "persons, within which ratios are computed")
    if loss.undefined is None:
        table.add_row(
            "EPL", f"{loss.epl:.4g}", "largest log ratio of the smoothed curve; biased upwards if residuals are few"
        )
        meaning = "the same without the upward bias of a noisy maximum"
        if loss.corrected is None:
            table.add_row("corrected", "-", f"{meaning}: too few residuals, see below")
        else:
            table.add_row("corrected", f"{loss.corrected:.4g}", meaning)
        table.add_row("median", f"{loss.median:.4g}", "of the curve over the search range")
    else:
        table.add_row("EPL", "-", f"undefined: {loss.undefined}")
    if loss.epl_low is not None:
        high = "or more" if loss.epl_high is None else f"to {loss.epl_high:.4g}"
        words = f"{loss.settings.confidence:.0%} interval for the largest log ratio before smoothing"
        table.add_row("interval", f"{loss.epl_low:.4g} {high}", words)
    if loss.theory is not None:
        table.add_row("theory", f"{loss.theory:.4g}", "value for the noise alone")
    console = Console()
    if console.width < 100 and not console.is_terminal:
        console = Console(width=140)
    console.print(table)
    console.print()
    console.print(loss.note)


def _write(loss: EmpiricalLoss, output: Path) -> None:
    """Write the figures and the curve as CSV and Parquet, in a new folder."""
    import pandas as pd

    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.atomic import new_folder
    from tallyveil.report.plots import epl_plot, write_plot

    figures = dict(loss.as_json())
    figures |= figures.pop("settings")
    with new_folder(output) as folder:
        write_frames({"epl": pd.DataFrame([figures]), "curve": loss.curve}, folder, internal=True)
        if loss.undefined is None and can_draw():
            curve = loss.curve.assign(panel="", largest=loss.epl, theory=loss.theory)
            write_plot(epl_plot(curve, title=f"Empirical privacy loss of {loss.n:,} residuals"), folder / "epl")


def _refuse_both(**of_release: object) -> None:
    wrong = [f"--{name}" for name, value in of_release.items() if value is not None]
    if wrong:
        raise InputError(
            f"--column is for a file of residuals, {' and '.join(wrong)} for a release. Leave one of them out."
        )


def _of_release(
    file: Path,
    truth: Path | None,
    codebook: Path | None,
    *,
    file_format: str | None,
    level: str | None,
    query: str,
    units: Path | None,
) -> tuple[Residuals, float | None]:
    """The residuals of a release, and the theoretical log ratio of its noise where it is known."""
    from tallyveil.cli.reading import read_truth_and_releases
    from tallyveil.evaluate.epl.loss import theory_of
    from tallyveil.evaluate.residuals import residuals
    from tallyveil.release.release import Release

    if truth is None or level is None:
        raise InputError(
            "epl needs --column NAME for a file of residuals, or --truth DATA, --codebook C and --level L for a "
            "release."
        )
    data = read_truth_and_releases(truth, [file], codebook, units=units, file_format=file_format)
    ((source,),) = data.groups(pool=False).values()
    compared = residuals(data.truth, source, level=level, query=query)
    return compared, theory_of(source.strategy if isinstance(source, Release) else None, compared)
