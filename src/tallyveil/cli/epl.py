"""``tallyveil epl``: empirical privacy loss of residuals in a file, or of a release beside its truth."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tallyveil.evaluate.epl.loss import EmpiricalLoss
    from tallyveil.evaluate.residuals import Residuals


class Grid(StrEnum):
    """Where the smoothed density is looked at."""

    midpoints = "midpoints"
    integers = "integers"


class Tails(StrEnum):
    """Which percentile sets the search range."""

    each = "each"
    both = "both"


def epl(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file with one residual per row; or a release.")],
    column: Annotated[str | None, typer.Option(help="The column of residuals, released minus true.")] = None,
    truth: Annotated[Path | None, typer.Option(help="For a release: the precise counts.")] = None,
    codebook: Annotated[Path | None, typer.Option(help="For a release: what the truth's columns mean (TOML).")] = None,
    level: Annotated[str | None, typer.Option(help="For a release: the level of the counts.")] = None,
    query: Annotated[str | None, typer.Option(help="For a release: the query (default total).")] = None,
    units: Annotated[Path | None, typer.Option(help="For a release: the list of units.")] = None,
    bandwidth: Annotated[float, typer.Option(help="Of the smoothing, as a factor of the standard deviation.")] = 0.1,
    percentile: Annotated[float, typer.Option(help="Of the residuals, up to which ratios are looked at.")] = 95,
    multiplier: Annotated[float, typer.Option(help="Of that range.")] = 1,
    grid: Annotated[Grid, typer.Option(help="Points of the search range.")] = Grid.midpoints,
    tails: Annotated[
        Tails, typer.Option(help="Percentile of each tail (petti2020), or of the absolute residual (flaxman2019).")
    ] = Tails.each,
    confidence: Annotated[float, typer.Option(help="Of the interval and the band.")] = 0.95,
    theory: Annotated[float | None, typer.Option(help="The value to compare with, such as z for G(z).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new folder for tables and a plot.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate from residuals how much a count tells about one person, with an interval. Not a bound on epsilon.

    [bold]Examples[/bold]

      tallyveil epl residuals.csv --column residual

      tallyveil epl residuals.csv --column residual --bandwidth 0.5 --theory 0.125 --json

      tallyveil epl release --truth blocks.parquet --codebook blocks.toml --level county --query "age * race"
    """
    from tallyveil.files.release_folder.folder import refuse_existing

    if output is not None:
        refuse_existing(output)
    if column is not None:
        _refuse_both(truth=truth, codebook=codebook, level=level, query=query, units=units)
        residuals: Residuals | NDArray[Any] = read_residuals(file, column)
    else:
        residuals, known = _of_release(file, truth, codebook, level=level, query=query or "total", units=units)
        theory = known if theory is None else theory
    from tallyveil.evaluate.epl.loss import epl as estimate

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
        typer.echo(json.dumps(loss.as_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print_loss(loss)
    if output is not None:
        write_loss(loss, output)
        typer.echo(f"{output}: tables (internal: they come from the truth)", err=True)


def read_residuals(file: Path, column: str) -> NDArray[Any]:
    """A column of numbers; the first value that is none is an error with its place."""
    import numpy as np

    from tallyveil.files.tables.columns import batches

    parts = []
    for batch in batches(file):
        if column not in batch.table.column_names:
            listed = ", ".join(batch.table.column_names)
            raise InputError(f"{file}: no column {column!r}. Its columns are: {listed}. Name one with --column.")
        parts.append(_numbers(batch, column))
    values = np.concatenate(parts)
    if not len(values):
        raise InputError(f"{file}: column {column!r} has no rows. Give one residual per row.")
    return values


def print_loss(loss: EmpiricalLoss) -> None:
    """Print the figures as a table, with a word on what each means."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    table.add_row("residuals", f"{loss.n:,}", "released minus true")
    if loss.search_range is not None:
        table.add_row("search range", f"+-{loss.search_range:g}", "persons off, within which ratios are looked at")
    if loss.undefined is None:
        table.add_row(
            "EPL", f"{loss.epl:.4g}", "largest log ratio of the smoothed curve; too large if residuals are few"
        )
        bare = "the same without the upward bias of a noisy maximum"
        if loss.corrected is None:
            table.add_row("corrected", "-", f"{bare}: residuals are too few, see below")
        else:
            table.add_row("corrected", f"{loss.corrected:.4g}", bare)
        table.add_row("median", f"{loss.median:.4g}", "of the curve over the search range")
    else:
        table.add_row("EPL", "-", f"undefined: {loss.undefined}")
    if loss.epl_low is not None:
        high = "or more" if loss.epl_high is None else f"to {loss.epl_high:.4g}"
        words = f"{loss.settings.confidence:.0%} interval for the largest log ratio before smoothing"
        table.add_row("interval", f"{loss.epl_low:.4g} {high}", words)
    if loss.theory is not None:
        table.add_row("theory", f"{loss.theory:.4g}", "of the noise alone")
    console = Console()
    if console.width < 100 and not console.is_terminal:
        console = Console(width=140)
    console.print(table)
    console.print()
    console.print(loss.note)


def write_loss(loss: EmpiricalLoss, folder: Path) -> None:
    """Write the figures and the curve as CSV and Parquet, in a new folder."""
    import pandas as pd

    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.release_folder.folder import new_folder
    from tallyveil.report.plots import epl_plot, write_plot

    told = dict(loss.as_json())
    told |= told.pop("settings")
    with new_folder(folder) as place:
        write_frames({"epl": pd.DataFrame([told]), "curve": loss.curve}, place, internal=True)
        if loss.undefined is None and can_draw():
            curve = loss.curve.assign(panel="", largest=loss.epl, theory=loss.theory)
            write_plot(epl_plot(curve, title=f"Empirical privacy loss of {loss.n:,} residuals"), place / "epl")


def _refuse_both(**given: object) -> None:
    wrong = [f"--{name}" for name, value in given.items() if value is not None]
    if wrong:
        raise InputError(
            f"--column is for a file of residuals, {' and '.join(wrong)} for a release. Leave one of them out."
        )


def _of_release(
    file: Path, truth: Path | None, codebook: Path | None, *, level: str | None, query: str, units: Path | None
) -> tuple[Residuals, float | None]:
    """The residuals of a release, and the log ratio of its noise where that is known."""
    from tallyveil.cli.reading import read_truth_and_releases
    from tallyveil.evaluate.epl.loss import theory_of
    from tallyveil.evaluate.residuals import residuals

    if truth is None or codebook is None or level is None:
        raise InputError(
            "epl needs --column NAME for a file of residuals; for a release --truth DATA, --codebook C and --level L."
        )
    given = read_truth_and_releases(truth, [file], codebook, units=units)
    released = next(iter(given.releases.values()))
    found = residuals(given.truth, released, level=level, query=query)
    return found, theory_of(released.strategy, found)


def _numbers(batch: Any, column: str) -> NDArray[np.float64] | NDArray[np.int64]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from tallyveil.files.tables.columns import decoded

    values = decoded(batch.table.column(column).combine_chunks())
    if pa.types.is_string(values.type):
        words = pc.utf8_trim_whitespace(values).to_pylist()
        numbers = np.array([_number(word) for word in words], dtype=np.float64)
    elif pa.types.is_integer(values.type) and not values.null_count:
        return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64)
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        numbers = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    else:
        raise InputError(f"{batch.name}: column {column!r} holds {values.type}, not numbers. Name another column.")
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        shown = values[int(wrong[0])].as_py()
        said = "nothing there" if shown in (None, "") else f"{shown!r} is not a number"
        raise InputError(f"{batch.place(int(wrong[0]), column)}: {said}. Correct it, or leave the row out.")
    return numbers


def _number(word: str | None) -> float:
    """A number as it is written; not a number where it is none."""
    try:
        return float(word or "nan")
    except ValueError:
        return float("nan")
