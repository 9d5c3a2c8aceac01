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

    from tallyveil.evaluate.bias import Definition
    from tallyveil.evaluate.evaluation import Evaluation


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
    funds: Annotated[
        str | None,
        typer.Option(
            metavar="FORMULA",
            help="Who gains and loses if released counts divide funds. A formula over counts, such as "
            r'"max(0, \[age:child] - total / 5)": numbers, total, \[QUERY:GROUP], + - * /, min and max.',
        ),
    ] = None,
    amount: Annotated[
        float | None, typer.Option(help="Amount that --funds divides at each level (default: 1,000,000).")
    ] = None,
    survey: Annotated[
        str | None,
        typer.Option(
            metavar="FRACTION",
            help="Error of estimates from a survey of this fraction of the people, with weights raked to true and to "
            "released controls.",
        ),
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option(metavar="QUERY@LEVEL", help="Counts that the weights of --survey are raked to. Can be repeated."),
    ] = None,
    pool: options.Pool = False,
    output: options.NewFolder = None,
    as_json: options.Json = False,
) -> None:
    r"""Compare releases with the truth: error, bias, empirical privacy loss and implausible units. Not for publication.

    Folders of "tallyveil baseline" are compared at the levels and in the queries that they have. Releases of the same
    measurements are also compared with each other: paired differences of their errors, with standard errors.

    [bold]Examples[/bold]

      tallyveil evaluate blocks.parquet release

      tallyveil evaluate blocks.parquet release --codebook b.toml --query "age * race" --areas towns.csv

      tallyveil evaluate blocks.parquet run0 run1 run2 --codebook blocks.toml --pool -o evaluation

      tallyveil evaluate blocks.parquet topdown tree --codebook blocks.toml

      tallyveil evaluate EXT1940USCB.dat run1/MDF_PER.dat run2/MDF_PER.dat --pool

      tallyveil evaluate blocks.parquet release --codebook blocks.toml --segregation race:black:white

      tallyveil evaluate blocks.parquet release --codebook blocks.toml --funds "\[age:child]" --amount 5e6

      tallyveil evaluate blocks.parquet release --codebook blocks.toml --survey 0.01 --control race@county

      tallyveil evaluate blocks.parquet release noisy --codebook blocks.toml
    """
    from tallyveil.cli.evaluate_output import conclusion, show_evaluation
    from tallyveil.cli.evaluate_uses import Uses, show_uses
    from tallyveil.cli.paired import find_pairs, show_pairs
    from tallyveil.cli.reading import find_areas, find_homes, read_truth_and_releases
    from tallyveil.cli.tables import INTERNAL, records
    from tallyveil.evaluate.evaluation import evaluation
    from tallyveil.files.atomic import refuse_unwritable

    if over not in ("nonempty", "all"):
        raise InputError(f"--over must be nonempty or all. Got {over} instead.")
    if output is not None:
        refuse_unwritable(output)
    data = read_truth_and_releases(truth, releases, codebook, units=units, file_format=file_format)
    definition: Definition = "product" if homogeneity_index is HomogeneityIndex.product else "cells"
    uses = Uses.of(
        data.truth,
        segregation=segregation,
        formula=funds,
        amount=amount,
        homogeneity=homogeneity,
        definition=definition,
        survey=survey,
        controls=control,
    )
    off_spine, homes = find_areas(areas, data.truth), find_homes(housing, data)
    results, used = {}, {}
    for name, sources in data.groups(pool=pool).items():
        levels, queries = data.asked(name, level, query)
        results[name] = evaluation(
            data.truth,
            sources,
            levels=levels,
            queries=queries,
            areas=off_spine,
            over="all" if over == "all" else "nonempty",
            homogeneity=homogeneity,
            definition=definition,
            housing=homes,
        )
        used[name] = uses.frames(data.truth, sources, levels=levels, queries=queries)
    pairs = [] if pool else find_pairs(data.releases)
    differences = [pair.table(data, levels=level, queries=query, areas=off_spine, over=over) for pair in pairs]
    if as_json:
        tables = [
            {"release": name} | {kind: records(frame) for kind, frame in (result.frames() | used[name]).items()}
            for name, result in results.items()
        ]
        compared = [pair.as_json(table) for pair, table in zip(pairs, differences, strict=True)]
        options.emit_json({"note": INTERNAL, "over": over, "releases": tables, "paired": compared})
    else:
        typer.echo(f"{INTERNAL}\n")
        for name, result in results.items():
            show_evaluation(name, result, data.truth, over=over)
            show_uses(used[name])
        for name, result in results.items():
            typer.echo(conclusion(name, result))
        for pair, table in zip(pairs, differences, strict=True):
            show_pairs(pair, table)
    if output is not None:
        named = [table.assign(first_release=pair.first, second_release=pair.second)
                 for pair, table in zip(pairs, differences, strict=True)]  # fmt: skip
        _write(results, used, named, output)


def _write(
    results: dict[str, Evaluation],
    used: dict[str, dict[str, pd.DataFrame]],
    differences: list[pd.DataFrame],
    output: Path,
) -> None:
    """Write the tables of all releases, and the plots."""
    import pandas as pd

    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.atomic import new_folder

    with new_folder(output) as folder:
        paired = {"paired": pd.concat(differences, ignore_index=True)} if differences else {}
        write_frames(_joined(results, used) | paired, folder, internal=True)
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
