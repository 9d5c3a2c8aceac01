"""``tallyveil uncertainty``: margins of error of a release, from the release alone."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.blue.published import PublishedMargins
    from tallyveil.evaluate.margin_classes import Margins
    from tallyveil.nouns.areas import Areas
    from tallyveil.release.release import Release

DETAILED = "detailed"  # has no columns in the tables by level
REPLICATES = 10
NOTES = (
    "Margins cover noise and post-processing only. Errors of the census itself (people missed, counted twice or in the "
    "wrong place) are not included.",
    "They are computed from the release alone: no budget was spent, and they are as public as the release.",
    "Among released counts of a given size, about nine in ten are within the margin of the true count. Among true "
    "counts of a given size the share may be lower, especially for counts about as large as the noise.",
)
WEAK = (
    "Counts that were hardly measured directly, and are known mostly through other counts: {}. In trials the margins "
    "of such counts were too small: in some classes they covered two counts in three."
)
FROM_ESTIMATES = (
    NOTES[0],
    NOTES[1],
    "Given the unbiased estimate of a count (tallyveil estimate), the true count is within the margin of the published "
    "one with 90% probability. The margin is wide where the published count lies far from its estimate.",
)


class Method(StrEnum):
    """How margins are computed."""

    auto = "auto"
    estimates = "estimates"
    reruns = "re-runs"


def uncertainty(
    folder: options.ReleaseFolder,
    method: Annotated[
        Method,
        typer.Option(
            help="From estimates, which need saved measurements, or from re-runs of the release (default: estimates if "
            "the measurements allow it)."
        ),
    ] = Method.auto,
    replicates: Annotated[int, typer.Option(help="Number of times the release is protected again.")] = REPLICATES,
    level: Annotated[
        list[str] | None,
        typer.Option(
            "--level", "--levels", help="Level, or several separated by commas (default: all). Can be repeated."
        ),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(help="Query (default: those of the release's tables by level, and detailed). Can be repeated."),
    ] = None,
    areas: options.AreasFile = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    no_write: Annotated[
        bool, typer.Option("--no-write", help="Do not write the margins into the tables of the release.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New folder for the tables; it must not exist yet.")
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Private key of a signed release, which is signed again with its margins."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Estimate 90% margins of error without the truth, and add them to the release's tables by level.

    If the release has its measurements, the margins come from unbiased estimates of the same counts (see estimate).
    Otherwise the release is protected again as if it were the truth: how far its counts move is an estimate of their
    distance from the true counts. Neither spends any budget. A column of margins is named like that of its counts,
    plus _moe90. Margins of detailed and other queries without such columns are printed only; "tallyveil tables --query
    detailed --margins" writes them beside the counts.

    A signed release is not changed: use -o to write the margins elsewhere, or --sign to sign it again.

    [bold]Examples[/bold]

      tallyveil uncertainty release

      tallyveil uncertainty release --level county,tract --areas towns.csv -o margins

      tallyveil uncertainty release --level tract --query total --query "age * sex" --no-write

      tallyveil uncertainty release --replicates 20 --no-write --json
    """
    from tallyveil.cli.reading import find_areas
    from tallyveil.cli.tables import records
    from tallyveil.files.atomic import refuse_unwritable
    from tallyveil.files.release_folder.layout import SIGNATURE
    from tallyveil.files.release_folder.margin_columns import refuse_signed, write_margins

    if replicates < 1:
        raise InputError(f"--replicates must be 1 or more. Got {replicates} instead.")
    options.check_threads(threads)
    if output is not None:
        refuse_unwritable(output)
    no_write = no_write or (output is not None and sign is None and os.path.lexists(folder / SIGNATURE))
    if not no_write:
        refuse_signed(folder, sign)
    release = read_with_strategy(folder)
    levels = _levels(level, release)
    for name in query or ():
        release.histogram.schema.query(name)  # an unknown query is refused before the work
    if not no_write and not os.access(folder / "levels", os.W_OK):
        raise InputError(f"{folder / 'levels'}: cannot be written. Copy the folder, or use --no-write with -o DIR.")
    off_spine = find_areas(areas, release.histogram)
    estimated, reason = _from_estimates(release, method, levels=levels, queries=query, areas=off_spine)
    margins: Margins | PublishedMargins
    if estimated is not None:
        margins, used = estimated, "unbiased estimates from the saved measurements"
        notes = [f"Method: {used} ({estimated.information}).", *FROM_ESTIMATES]
    else:
        also = [DETAILED] if query is None else []
        margins = rerun = rerun_margins(
            release, replicates, levels=levels, queries=query, also=also, areas=off_spine, seed=seed, threads=threads
        )
        used = "re-runs of the release as if it were the truth"
        weak = "; ".join(f"{query} at {name}" for name, query in rerun.weak)
        notes = [f"Method: {used}{reason}.", *NOTES, *([WEAK.format(weak)] if weak else [])]
    if output is not None:
        _write_tables(release, margins, output)
    written = [] if no_write else write_margins(folder, margins, sign_with=sign)
    if as_json:
        result = {"release": str(folder), "confidence": margins.confidence, "method": used}
        result |= {"replicates": replicates, "seed": seed} if estimated is None else {}
        result |= {"margins": records(margins.table), "areas": _areas(release, margins), "notes": notes}
        options.emit_json(result | {"written": [str(path) for path in written]})
        return
    _show(margins, notes)
    if written:
        typer.echo(f"{folder / 'levels'}: columns ending in _moe90 in {', '.join(path.name for path in written)}")
    if output is not None:
        typer.echo(f"{output}: the margins as tables")
    typer.echo(_conclusion(margins))


def read_with_strategy(folder: Path) -> Release:
    """The release, which must have a strategy."""
    from tallyveil.files.release_folder.read_folder import read_release

    release = read_release(folder)
    if release.strategy is None:
        raise InputError(
            f"{folder}: no strategy.toml, so it is unknown how these counts were made, and they cannot be made again "
            f"to estimate margins. Ask whoever made the release for its strategy."
        )
    return release


def _levels(texts: list[str] | None, release: Release) -> list[str] | None:
    """The levels of the option, which may be repeated and hold several; None for all."""
    if texts is None:
        return None
    levels = [name.strip() for names in texts for name in names.split(",") if name.strip()]
    if not levels:
        raise InputError("--level names no level. Name one, or leave it out for all.")
    for name in levels:
        release.histogram.spine.depth(name)  # an unknown level is refused before the work
    return levels


def _from_estimates(
    release: Release, method: Method, *, levels: list[str] | None, queries: list[str] | None, areas: Areas | None
) -> tuple[PublishedMargins | None, str]:
    """Margins from estimates; or None and why not, for re-runs."""
    from tallyveil.blue.published import published_margins

    if method is Method.reruns or (release.measurements is None and method is Method.auto):
        return None, ""
    try:
        return published_margins(release, levels=levels, queries=queries, areas=areas), ""
    except InputError as problem:
        if method is Method.estimates:
            raise
        return None, f" ({str(problem).partition('. ')[0]})"


def _show(margins: Margins | PublishedMargins, notes: list[str]) -> None:
    from tallyveil.cli.tables import print_table
    from tallyveil.evaluate.margin_classes import Margins

    table = margins.table
    if not isinstance(margins, Margins):
        rows = table.assign(place=table["level"] + " " + table["query"], bias=table["bias"].round(1))
        rows["range"] = [
            f"{low:,} to {high:,}" for low, high in zip(table.least_margin, table.most_margin, strict=True)
        ]
        headings = {"place": "level and query", "margin": "90% margin, median", "range": "range", "n": "counts"}
        print_table(
            rows,
            title="Margins of error, in persons, from unbiased estimates",
            headings=headings | {"bias": "published minus estimate, mean"},
        )
        for note in notes:
            typer.echo(note)
        return
    known = table["bias"].round(1).where(table["bias_reliable"])
    is_biased = bool((known.fillna(0) != 0).any())
    rows = table.assign(bias=known, place=table["level"] + " " + table["query"])
    headings = {"place": "level and query", "size": "released count", "margin": "90% margin", "n": "errors"}
    print_table(
        rows,
        title=f"Margins of error, in persons, from {margins.replicates} re-runs",
        headings=headings | ({"bias": "bias"} if is_biased else {}),
    )
    for note in notes:
        typer.echo(note)
    if not is_biased:
        typer.echo(
            "No bias in the re-runs is larger than the standard deviation of the noise. Smaller ones are unreliable "
            "and not shown."
        )
    elif known.isna().any():
        typer.echo("A bias smaller than the standard deviation of the noise is unreliable and not shown.")


def _conclusion(margins: Margins | PublishedMargins) -> str:
    """The margins of the finest level, in a sentence."""
    table = margins.table
    places = table[table["level"] == table["level"].iloc[-1]]
    query = "total" if (places["query"] == "total").any() else places["query"].iloc[0]
    rows = places[places["query"] == query]
    counts = "totals" if query == "total" else f"counts of {query}"
    if "most_margin" in rows:
        least, most = int(rows.least_margin.iloc[0]), int(rows.most_margin.iloc[0])
        margin = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        return f"At level {rows['level'].iloc[0]}, {counts} have margins of {margin} persons."
    least, most = int(rows.margin.min()), int(rows.margin.max())
    margin = f"{most:,}" if least == most else f"{least:,} to {most:,}, by size,"
    return (
        f"At level {rows['level'].iloc[0]}, about nine in ten {counts} are within {margin} persons of the true count."
    )


def rerun_margins(
    release: Release,
    replicates: int = REPLICATES,
    *,
    levels: list[str] | None = None,
    queries: list[str] | None = None,
    also: list[str],
    areas: Areas | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Margins:
    """The margins of a release from so many re-runs, with progress on stderr."""
    from tallyveil.evaluate.margins import margins
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.protection.protect import protect
    from tallyveil.runs.progress import Steps

    strategy = release.strategy
    assert strategy is not None
    with Steps("re-runs", replicates) as steps:

        def rerun(people: Histogram, replicate: int) -> Histogram:
            protected = protect(
                people,
                strategy,
                facilities=release.facilities,
                optimised=release.optimised,
                seed=seed,
                replicate=replicate,
                threads=threads,
                failsafe=True,  # constraints that were feasible for the truth may conflict for the release
            )
            steps.step()
            return protected.histogram

        return margins(release, rerun, replicates=replicates, levels=levels, queries=queries, also=also, areas=areas)


def _write_tables(release: Release, margins: Margins | PublishedMargins, output: Path) -> None:
    from tallyveil.cli.tables import write_frames
    from tallyveil.files.atomic import new_folder
    from tallyveil.files.release_folder.margin_columns import area_table
    from tallyveil.files.tables.stamps import STAMPS, stamp_lines
    from tallyveil.files.tables.write import write_table, write_text

    with new_folder(output) as folder:
        write_frames({"margins": margins.table}, folder, internal=False)
        if lines := stamp_lines(release.histogram):
            write_text("".join(f"{line}\n" for line in lines), folder / STAMPS)
        if margins.areas is not None:
            write_table(area_table(release.histogram, margins.areas, margins), folder / "areas.csv")


def _areas(release: Release, margins: Margins | PublishedMargins) -> list[dict[str, object]] | None:
    from tallyveil.files.release_folder.margin_columns import area_table

    if margins.areas is None:
        return None
    rows: list[dict[str, object]] = area_table(release.histogram, margins.areas, margins).to_pylist()
    return rows
