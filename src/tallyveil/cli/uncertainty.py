"""``tallyveil uncertainty``: margins of error of a release, from the release alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.evaluate.margins import Margins
    from tallyveil.nouns.areas import Areas
    from tallyveil.release.release import Release

NOTES = (
    "Margins are of noise and post-processing only. What a census itself gets wrong (people missed, counted twice or "
    "in the wrong place) comes on top.",
    "They are computed from the release alone: no budget was spent, and they are as public as it is.",
    "Of released counts of a size, about nine in ten are within the margin of the true one. Of true counts of a size, "
    "fewer may be, above all where they are about as large as the noise.",
)
WEAK = (
    "Hardly measured themselves, and known through other counts: {}. In trials margins of such counts were too small: "
    "in some classes they covered two in three."
)


def uncertainty(
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    replicates: Annotated[int, typer.Option(help="How often to protect the release again.")] = 10,
    level: Annotated[
        list[str] | None,
        typer.Option("--level", "--levels", help="A level, or several with commas; all by default. Can be repeated."),
    ] = None,
    areas: Annotated[Path | None, typer.Option(help="Areas off the spine: leaf code, area.")] = None,
    seed: Annotated[int, typer.Option(help="Of the noise of the re-runs; the same seed, the same margins.")] = 0,
    threads: Annotated[int | None, typer.Option(help="How many (default: all cores). The result is the same.")] = None,
    no_write: Annotated[bool, typer.Option("--no-write", help="Leave the release's tables as they are.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new folder for the tables.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find 90% margins of error without the truth, and put them beside the counts in the release's tables by level.

    The release is protected again as if it were the truth, which spends no budget. How far its counts move tells how
    far they are from the truth. Columns are called like the counts', with _moe90 at the end.

    [bold]Examples[/bold]

      tallyveil uncertainty release

      tallyveil uncertainty release --level county,tract --areas towns.csv -o margins

      tallyveil uncertainty release --replicates 20 --no-write --json
    """
    from tallyveil.cli.reading import find_areas
    from tallyveil.cli.tables import print_table, records
    from tallyveil.files.atomic import refuse_existing
    from tallyveil.files.release_folder.margin_columns import refuse_signed, write_margins
    from tallyveil.files.release_folder.read_folder import read_release

    if replicates < 1:
        raise InputError(f"--replicates must be 1 or more. Got {replicates} instead.")
    if threads is not None and threads < 1:
        raise InputError(f"--threads must be 1 or more. Got {threads} instead.")
    if output is not None:
        refuse_existing(output)
    if not no_write:
        refuse_signed(folder)
    release = read_release(folder)
    if release.strategy is None:
        raise InputError(
            f"{folder}: no strategy.toml, so nobody can tell how these counts were made, and margins need them to be "
            f"made so again. Ask whoever made the release for its strategy."
        )
    levels = None if level is None else [name.strip() for names in level for name in names.split(",") if name.strip()]
    if levels is not None and not levels:
        raise InputError("--level names no level. Name one, or leave it out for all.")
    for name in levels or []:
        release.histogram.spine.depth(name)  # an unknown one is refused before the work
    if not no_write and not os.access(folder / "levels", os.W_OK):
        raise InputError(f"{folder / 'levels'}: cannot be written. Copy the folder, or use --no-write with -o DIR.")
    off = find_areas(areas, release.histogram)
    made = _run(release, replicates, levels=levels, areas=off, seed=seed, threads=threads)
    weak = "; ".join(f"{query} at {name}" for name, query in made.weak)
    notes = [*NOTES, *([WEAK.format(weak)] if weak else [])]
    if output is not None:
        _write_tables(release, made, output)
    written = [] if no_write else write_margins(folder, made)
    if as_json:
        told = {"release": str(folder), "confidence": made.confidence, "replicates": replicates, "seed": seed}
        told |= {"margins": records(made.table), "areas": _areas(release, made), "notes": notes}
        told |= {"written": [str(path) for path in written]}
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    shown = made.table.assign(
        bias=[round(bias, 1) for bias in made.table["bias"]],
        bias_words=["" if reliable else "unreliable" for reliable in made.table["bias_reliable"]],
        place=made.table["level"] + " " + made.table["query"],
    )
    headings = {"place": "level and query", "size": "released count", "margin": "90% margin", "bias": "bias"}
    print_table(
        shown,
        title=f"Margins of error, in persons, from {replicates} re-runs",
        headings={**headings, "bias_words": "", "n": "errors"},
    )
    for note in notes:
        typer.echo(note)
    typer.echo('Bias is "unreliable" where it is smaller than the standard deviation of the noise.')
    if written:
        typer.echo(f"\n{folder / 'levels'}: columns ending in _moe90 in {', '.join(path.name for path in written)}")
    if output is not None:
        typer.echo(f"{output}: the margins as tables")


def _run(
    release: Release,
    replicates: int,
    *,
    levels: list[str] | None,
    areas: Areas | None,
    seed: int,
    threads: int | None,
) -> Margins:
    from tallyveil.evaluate.margins import margins
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.protection.protect import protect
    from tallyveil.runs.progress import Steps

    strategy = release.strategy
    assert strategy is not None
    with Steps("re-runs", replicates) as steps:

        def rerun(people: Histogram, replicate: int) -> Histogram:
            again = protect(
                people,
                strategy,
                facilities=release.facilities,
                optimised=release.optimised,
                seed=seed,
                replicate=replicate,
                threads=threads,
                failsafe=True,  # constraints that fitted the first time may conflict the next
            )
            steps.step()
            return again.histogram

        return margins(release, rerun, replicates=replicates, levels=levels, areas=areas)


def _write_tables(release: Release, made: Margins, output: Path) -> None:
    from tallyveil.cli.tables import write_frames
    from tallyveil.files.atomic import new_folder
    from tallyveil.files.release_folder.margin_columns import area_table
    from tallyveil.files.tables.stamps import STAMPS, stamp_lines
    from tallyveil.files.tables.write import write_table, write_text

    with new_folder(output) as place:
        write_frames({"margins": made.table}, place, internal=False)
        if said := stamp_lines(release.histogram):
            write_text("".join(f"{line}\n" for line in said), place / STAMPS)
        if made.areas is not None:
            write_table(area_table(release.histogram, made.areas, made), place / "areas.csv")


def _areas(release: Release, made: Margins) -> list[dict[str, object]] | None:
    from tallyveil.files.release_folder.margin_columns import area_table

    if made.areas is None:
        return None
    rows: list[dict[str, object]] = area_table(release.histogram, made.areas, made).to_pylist()
    return rows
