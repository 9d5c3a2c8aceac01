"""``tallyveil epl``: empirical privacy loss of residuals in a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options

if TYPE_CHECKING:
    from tallyveil.evaluate.epl.loss import EmpiricalLoss


class Grid(StrEnum):
    """Points at which the smoothed density is evaluated."""

    midpoints = "midpoints"
    integers = "integers"


class Tails(StrEnum):
    """Percentile that sets the search range."""

    each = "each"
    both = "both"


def epl(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet file with one residual per row.")],
    column: Annotated[str, typer.Option(help="Column of residuals, released minus true.")],
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

    For a release and its truth, "tallyveil evaluate" estimates it at every level, in every query.

    [bold]Examples[/bold]

      tallyveil epl residuals.csv --column residual

      tallyveil epl residuals.csv --column residual --bandwidth 0.5 --theory 0.125 --json
    """
    from tallyveil.evaluate.epl.loss import epl as estimate
    from tallyveil.evaluate.residual_file import read_residuals
    from tallyveil.files.atomic import refuse_unwritable

    if output is not None:
        refuse_unwritable(output)
    loss = estimate(
        read_residuals(file, column),
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
