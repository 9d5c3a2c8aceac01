"""``tallyveil compare``: which sample a release is like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options

if TYPE_CHECKING:
    from tallyveil.evaluate.compare import Likeness
    from tallyveil.nouns.histogram import Histogram


def compare(
    truth: options.Truth,
    releases: options.Releases,
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    level: Annotated[
        list[str] | None, typer.Option(help="Level (default: the level above the leaves). Can be repeated.")
    ] = None,
    query: Annotated[list[str] | None, typer.Option(help="Query (default: all cells). Can be repeated.")] = None,
    units: options.Units = None,
    pool: options.Pool = False,
    seed: options.Seed = 0,
    output: options.NewFolder = None,
    as_json: options.Json = False,
) -> None:
    """Find the sampling fraction whose error and privacy loss are nearest to those of a release. Not for publication.

    Simple random samples of 5%, 10%, ..., 95% are drawn without replacement and scaled up (Petti & Flaxman 2020,
    Table 1). Folders of "tallyveil baseline" are compared in the same way. Releases of the same measurements are also
    compared with each other: paired differences of their errors.

    [bold]Examples[/bold]

      tallyveil compare blocks.parquet release --codebook blocks.toml --level county --query "age * race"

      tallyveil compare blocks.parquet release swapped --codebook blocks.toml --level county --query age
    """
    from tallyveil.cli.paired import find_pairs, show_pairs
    from tallyveil.cli.reading import read_truth_and_releases
    from tallyveil.cli.tables import INTERNAL
    from tallyveil.evaluate.compare import FRACTIONS, like_a_sample
    from tallyveil.files.atomic import refuse_unwritable

    if output is not None:
        refuse_unwritable(output)
    data = read_truth_and_releases(truth, releases, codebook, units=units, file_format=file_format)
    results: list[tuple[str, Likeness]] = []
    pairs = _pairs(data.truth, level, query)
    for release, sources in data.groups(pool=pool).items():
        for name, text in pairs:
            typer.echo(f"{release}: {len(FRACTIONS)} samples for {text!r} at level {name!r}", err=True)
            likeness = like_a_sample(data.truth, sources, level=name, query=text, seed=seed)
            results.append((release, likeness))
    paired = [] if pool else find_pairs(data.releases)
    levels, queries = (list(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
    differences = [pair.table(data, levels=levels, queries=queries) for pair in paired]
    if as_json:
        told = [(pair.second, pair.as_json(table)) for pair, table in zip(paired, differences, strict=True)]
        options.emit_json(
            [
                {
                    "release": release,
                    **like.as_json(),
                    "paired": [one for second, one in told if release in (second, *(n for _, n in one["pairs"]))],
                    "note": INTERNAL,
                }
                for release, like in results
            ]
        )
    else:
        for i, (release, likeness) in enumerate(results):
            if i:
                typer.echo()
            _show(release, likeness)
        for pair, table in zip(paired, differences, strict=True):
            show_pairs(pair, table)
    if output is not None:
        _write(results, output)


def _pairs(people: Histogram, levels: list[str] | None, queries: list[str] | None) -> list[tuple[str, str]]:
    """Every (level, query) to compare; unknown ones are refused before the work."""
    pairs = [(level, query) for level in levels or [people.spine.levels[-2:][0]] for query in queries or ["detailed"]]
    for level, query in pairs:
        people.spine.depth(level)
        people.schema.query(query)
    return pairs


def _show(release: str, likeness: Likeness) -> None:
    from tallyveil.cli.tables import print_table

    table = likeness.table
    methods = [f"sample of {100 * r.fraction:g}%" if r.method == "sample" else r.method for r in table.itertuples()]
    headings = {"method": "method", "median_abs": "median error", "epl": "privacy loss", "distance": "distance"}
    title = f"{release}: {likeness.query!r} at level {likeness.level!r}"
    print_table(table.assign(method=methods), title=title, headings=headings)
    typer.echo(likeness.words())


def _write(results: list[tuple[str, Likeness]], output: Path) -> None:
    """Write the table of all comparisons, and a plot of each."""
    import pandas as pd

    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.atomic import new_folder
    from tallyveil.files.release_folder.measurement_files import file_name, safe_name
    from tallyveil.report.plots import tradeoff_plot, write_plot

    frames = [like.table.assign(release=release, level=like.level, query=like.query) for release, like in results]
    single = len({release for release, _ in results}) == 1
    with new_folder(output) as folder:
        write_frames({"compare": pd.concat(frames, ignore_index=True)}, folder, internal=True)
        drawn = can_draw()
        for release, like in results if drawn else []:
            prefix = "" if single else f"{safe_name(release)}_"
            chart = tradeoff_plot(like.table, title=f"{like.query}, level {like.level}")
            write_plot(chart, folder / f"{prefix}{safe_name(like.level)}_{file_name(like.query)}")
    typer.echo(f"{output}: a table{' and plots' if drawn else ''} (internal: they come from the truth)", err=True)
