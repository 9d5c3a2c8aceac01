"""``tallyveil evaluate``: what protection did to the counts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.evaluate.evaluation import Evaluation
    from tallyveil.nouns.histogram import Histogram


class HomogeneityIndex(StrEnum):
    """How the homogeneity of a unit is counted."""

    cells = "cells"
    product = "product"


def evaluate(
    truth: options.Truth,
    releases: options.Releases,
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    areas: options.AreasFile = None,
    level: options.Levels = None,
    query: options.Queries = None,
    homogeneity: Annotated[
        str, typer.Option(metavar="QUERY", help="Query that defines homogeneity: the number of its empty cells.")
    ] = "detailed",
    homogeneity_index: Annotated[
        HomogeneityIndex,
        typer.Option(
            help='How homogeneity is counted: "cells" (empty cells), or "product" (cells minus the product of the '
            "numbers of labels that occur, as the authors of petti2020 computed it)."
        ),
    ] = HomogeneityIndex.cells,
    over: Annotated[
        str, typer.Option(help='Cells to compare: "nonempty" (in the truth or the release) or "all".')
    ] = "nonempty",
    units: options.Units = None,
    housing: Annotated[
        Path | None, typer.Option(help="Table of housing units, with columns for leaf code, occupied and vacant.")
    ] = None,
    segregation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUERY:GROUP[:OTHER]",
            help="Segregation indices of a group, such as race:black:white, in all units above the finest ones. "
            "Without OTHER, compared with everybody else. Can be repeated.",
        ),
    ] = None,
    pool: options.Pool = False,
    output: options.NewFolder = None,
    as_json: options.Json = False,
) -> None:
    """Compare releases with the truth: error, bias, empirical privacy loss and implausible units. Not for publication.

    [bold]Examples[/bold]

      tallyveil evaluate blocks.parquet release --codebook blocks.toml

      tallyveil evaluate blocks.parquet release --codebook b.toml --query "age * race" --areas towns.csv

      tallyveil evaluate blocks.parquet run0 run1 run2 --codebook blocks.toml --pool -o evaluation

      tallyveil evaluate EXT1940USCB.dat run1/MDF_PER.dat run2/MDF_PER.dat --pool

      tallyveil evaluate blocks.parquet release --codebook blocks.toml --segregation race:black:white
    """
    from tallyveil.cli.evaluate_uses import Uses, show_uses
    from tallyveil.cli.reading import find_areas, find_homes, read_truth_and_releases
    from tallyveil.cli.tables import INTERNAL, records
    from tallyveil.evaluate.evaluation import evaluation
    from tallyveil.files.atomic import refuse_existing

    if over not in ("nonempty", "all"):
        raise InputError(f"--over must be nonempty or all. Got {over} instead.")
    if output is not None:
        refuse_existing(output)
    data = read_truth_and_releases(truth, releases, codebook, units=units, file_format=file_format)
    uses = Uses.of(data.truth, segregation=segregation)
    off_spine, homes = find_areas(areas, data.truth), find_homes(housing, data)
    results = {
        name: evaluation(
            data.truth,
            sources,
            levels=level,
            queries=query,
            areas=off_spine,
            over="all" if over == "all" else "nonempty",
            homogeneity=homogeneity,
            definition="product" if homogeneity_index is HomogeneityIndex.product else "cells",
            housing=homes,
        )
        for name, sources in data.groups(pool=pool).items()
    }
    used = {name: uses.frames(data.truth, sources, levels=level) for name, sources in data.groups(pool=pool).items()}
    if as_json:
        tables = [
            {"release": name} | {kind: records(frame) for kind, frame in (result.frames() | used[name]).items()}
            for name, result in results.items()
        ]
        options.emit_json({"note": INTERNAL, "over": over, "releases": tables})
    else:
        typer.echo(f"{INTERNAL}\n")
        for name, result in results.items():
            _show(name, result, data.truth, over=over)
            show_uses(used[name])
    if output is not None:
        _write(results, used, output)


def _show(name: str, result: Evaluation, truth: Histogram, *, over: str) -> None:
    """Print what a demographer looks at first."""
    from tallyveil.cli.tables import print_table

    cells = "cells that are non-empty in the truth or the release" if over == "nonempty" else "all cells"
    typer.echo(f"{name} compared with the truth ({truth.total():,} persons), over {cells}\n")
    wide = result.error.pivot_table(index=["level", "query", "n"], columns="statistic", values="value", sort=False)
    wide = wide.reset_index().merge(result.median_true)
    wide = wide.assign(exact=[f"{share:.0%}" for share in wide.share_exact])
    headings = {"level": "level", "query": "query", "n": "counts", "median_true": "median true"}
    headings |= {"median_abs": "median", "mean_abs": "mean", "p95_abs": "95th pct.", "max_abs": "largest"}
    headings |= {"rmse": "RMSE", "exact": "exact"}
    print_table(wide, title="Absolute error, in persons", headings=headings)
    evaluated = list(dict.fromkeys(result.by_size.level))
    finest = [level for level in truth.spine.levels if level in evaluated][-1:]
    for level in [*finest, *(level for level in evaluated if level not in truth.spine.levels)]:  # areas come last
        _show_by_size(result.by_size[result.by_size.level == level], level)
        _show_bias(result.bias[result.bias.level == level], level)
    _show_losses(result.epl)
    if not result.implausible.empty:
        headings = {"level": "level", "kind": "", "units": "units", "true": "truth", "released": "release"}
        print_table(result.implausible, title="Implausible units", headings=headings)


def _show_by_size(rows: pd.DataFrame, level: str) -> None:
    from tallyveil.cli.tables import figure, print_table

    rows = rows.assign(relative=["-" if x != x else f"{figure(100 * x)}%" for x in rows.relative])
    headings = {"query": "query", "size": "true size", "n": "counts", "mean_abs": "mean error"}
    headings |= {"relative": "of size", "bias": "bias"}
    print_table(rows, title=f"Error by true size, level {level}", headings=headings)


def _show_bias(rows: pd.DataFrame, level: str) -> None:
    from tallyveil.cli.tables import figure, print_table

    rows = rows.assign(
        interval=["-" if r.low != r.low else f"{figure(r.low)} to {figure(r.high)}" for r in rows.itertuples()]
    )
    headings = {"group": "empty cells", "n": "counts", "bias": "bias", "interval": "95% interval"}
    print_table(rows, title=f"Bias of totals by homogeneity, level {level}", headings=headings)


def _show_losses(losses: pd.DataFrame) -> None:
    from tallyveil.cli.tables import print_table

    rows = losses.assign(
        interval=[
            f"{row.epl_low:.3g} to {row.epl_high:.3g}" if row.epl_high == row.epl_high else f"{row.epl_low:.3g} or more"
            for row in losses.astype({"epl_low": float, "epl_high": float}).itertuples()
        ]
    )
    headings = {"level": "level", "query": "query", "epl": "largest", "corrected": "corrected", "median": "median"}
    headings |= {"interval": "before smoothing, 95%", "theory": "noise alone"}
    title = "Empirical privacy loss (log ratio of residuals one apart; not a bound on epsilon)"
    if rows.undefined.isna().any():
        print_table(rows[rows.undefined.isna()], title=title, headings=headings)
        typer.echo(
            "Largest, corrected and median describe the smoothed curve. The interval is for the largest ratio of the\n"
            "residuals before smoothing, a different quantity that may lie far from the curve's maximum.\n"
        )
    for reason, group in rows[rows.undefined.notna()].groupby("undefined", sort=False):
        which = "; ".join(f"{row.level} {row.query}" for row in group.itertuples())
        typer.echo(f"Undefined for {which}: {reason}\n")


def _write(results: dict[str, Evaluation], used: dict[str, dict[str, pd.DataFrame]], output: Path) -> None:
    """Write the tables of all releases, and the plots."""
    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.atomic import new_folder

    with new_folder(output) as folder:
        write_frames(_joined(results, used), folder, internal=True)
        drawn = can_draw()
        if drawn:
            _write_plots(results, folder)
    typer.echo(f"{output}: tables{' and plots' if drawn else ''} (internal: they show the truth)", err=True)


def _joined(
    results: dict[str, Evaluation], used: dict[str, dict[str, pd.DataFrame]] | None = None
) -> dict[str, pd.DataFrame]:
    """Each kind of table with all releases in it, and the curves of the losses."""
    import pandas as pd

    tables = {name: result.frames() | (used or {}).get(name, {}) for name, result in results.items()}
    joined = {
        kind: pd.concat([frames[kind].assign(release=name) for name, frames in tables.items()], ignore_index=True)
        for kind in next(iter(tables.values()))
    }
    curves = {name: curve for name, result in results.items() if not (curve := result.curves()).empty}
    for name, curve in curves.items():
        curve.insert(curve.columns.get_loc("level"), "release", name)
    return joined | ({"epl_curves": pd.concat(curves.values(), ignore_index=True)} if curves else {})


def _write_plots(results: dict[str, Evaluation], folder: Path) -> None:
    """Draw the error of all releases, and the bias and the loss of each."""
    from tallyveil.files.release_folder.measurement_files import safe_name
    from tallyveil.report.plots import bias_plot, epl_plot, error_plot, write_plot

    errors = _joined(results)["error"]
    errors = errors if len(results) > 1 else errors.drop(columns="release")
    write_plot(error_plot(errors, title=f"Error of {', '.join(results)}"), folder / "error")
    for name, result in results.items():
        suffix = "" if len(results) == 1 else f"_{safe_name(name)}"
        bias = result.bias
        if (bias[bias.low.notna() & (bias.n >= 10)].groupby("level").size() > 1).any():
            write_plot(bias_plot(bias, title=f"Bias of totals, {name}"), folder / f"bias{suffix}")
        finest = list(dict.fromkeys(level for level, _ in result.losses))[-2:]
        curves = result.curves()
        if not curves.empty and curves.level.isin(finest).any():
            curves = curves[curves.level.isin(finest)]
            curves = curves.assign(panel=curves.level + ": " + curves["query"])
            title = f"Empirical privacy loss, {name}, levels {' and '.join(finest)}"
            write_plot(epl_plot(curves, title=title), folder / f"epl{suffix}")
