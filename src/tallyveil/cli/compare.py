"""``tallyveil compare``: which sample a release is like, and how older methods would have done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.evaluate.compare import Likeness
    from tallyveil.evaluate.residuals import Source
    from tallyveil.nouns.histogram import Histogram


def compare(
    truth: Annotated[Path, typer.Argument(help="The precise counts: a CSV or Parquet file.")],
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Folders of releases, or tables.")],
    codebook: Annotated[Path, typer.Option(help="What the truth's columns mean (TOML).")],
    level: Annotated[list[str] | None, typer.Option(help="A level (default: the one above the leaves).")] = None,
    query: Annotated[list[str] | None, typer.Option(help="A query (default: all cells).")] = None,
    swap: Annotated[
        str | None, typer.Option(metavar="RATE@LEVEL", help="Beside it: this share of people swapped within a level.")
    ] = None,
    match: Annotated[
        str | None, typer.Option(help="With --swap: the query on which swapped people agree (default: none).")
    ] = None,
    suppress: Annotated[
        int | None, typer.Option(metavar="N", help="Beside it: cells below N hidden (and shown as 0).")
    ] = None,
    units: Annotated[Path | None, typer.Option(help="The list of units, the empty ones too.")] = None,
    pool: Annotated[bool, typer.Option("--pool", help="Take several releases as replicates of one.")] = False,
    seed: Annotated[int, typer.Option(help="Of the samples and of swapping.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new folder for tables and plots.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which sampling fraction is nearest to a release in error and loss, by level and query. Not for publication.

    Simple random samples of 5%, 10%, ..., 95% without replacement, scaled up (Petti & Flaxman 2020, Table 1).

    [bold]Examples[/bold]

      tallyveil compare blocks.parquet release --codebook blocks.toml --level county --query "age * race"

      tallyveil compare blocks.parquet release --codebook blocks.toml --swap 0.05@tract --match age --suppress 10
    """
    import pandas as pd

    from tallyveil.cli.reading import read_truth_and_releases
    from tallyveil.cli.tables import INTERNAL, write_frames
    from tallyveil.evaluate.compare import FRACTIONS, like_a_sample
    from tallyveil.files.release_folder.folder import new_folder, refuse_existing

    if output is not None:
        refuse_existing(output)
    swapping = None if swap is None else _parse_swap(swap)
    if match is not None and swapping is None:
        raise InputError("--match is for swapping. Give --swap RATE@LEVEL too, or leave it out.")
    if suppress is not None and suppress < 1:
        raise InputError(f"--suppress must be 1 or more. Got {suppress} instead.")
    given = read_truth_and_releases(truth, releases, codebook, units=units)
    people = given.truth
    names = people.spine.levels
    for at in [*(level or []), *([swapping[1]] if swapping else [])]:
        people.spine.depth(at)  # an unknown one is refused before the work, and so is an unknown query
    for asked in [*(query or []), *([match] if match else [])]:
        people.schema.query(asked)
    found: dict[str, list[Likeness]] = {}
    for name, sources in given.groups(pool=pool).items():
        for at in level or [names[max(0, len(names) - 2)]]:
            for asked in query or ["detailed"]:
                others = _older(
                    people, at, asked, swapping=swapping, match=match or "total", suppress=suppress, seed=seed
                )
                typer.echo(f"{name}: {len(FRACTIONS)} samples for {asked!r} at level {at!r}", err=True)
                like = like_a_sample(people, sources, level=at, query=asked, others=others, seed=seed)
                found.setdefault(name, []).append(like)
    if as_json:
        told = [
            {"release": name, **like.as_json(), "note": INTERNAL} for name, likes in found.items() for like in likes
        ]
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        for name, likes in found.items():
            for like in likes:
                _show(name, like)
    if output is not None:
        with new_folder(output) as place:
            frames = [
                like.table.assign(release=name, level=like.level, query=like.query)
                for name, likes in found.items()
                for like in likes
            ]
            write_frames({"compare": pd.concat(frames, ignore_index=True)}, place, internal=True)
            _write_plots(found, place)
        typer.echo(f"{output}: tables and plots (internal: they come from the truth)", err=True)


def _parse_swap(text: str) -> tuple[str, str]:
    rate, at, level = text.partition("@")
    try:
        share = float(rate)
    except ValueError:
        share = -1.0
    if not at or not level or not 0 <= share <= 1:
        raise InputError(f"--swap {text}: write it as RATE@LEVEL, such as 0.05@tract, with a rate from 0 to 1.")
    return rate, level


def _older(
    people: Histogram,
    level: str,
    query: str,
    *,
    swapping: tuple[str, str] | None,
    match: str,
    suppress: int | None,
    seed: int,
) -> list[tuple[str, Source]]:
    """The older methods asked for, applied to the truth."""
    from fractions import Fraction

    from tallyveil.mechanisms.suppression import suppress as hide
    from tallyveil.mechanisms.swapping import swap

    made: list[tuple[str, Source]] = []
    if swapping is not None:
        rate, within = swapping
        moved = swap(people, rate=Fraction(rate), match=match, level=within, seed=seed)
        made.append((f"swapped {float(rate):g}", moved.people))
    if suppress is not None:
        made.append((f"hidden below {suppress}", hide(people, query=query, level=level, below=suppress).estimates))
    return made


def _show(name: str, like: Likeness) -> None:
    from tallyveil.cli.tables import print_table

    table = like.table.assign(
        method=[
            f"sample of {100 * r.fraction:g}%" if r.method == "sample" else r.method for r in like.table.itertuples()
        ]
    )
    headings = {"method": "method", "median_abs": "median error", "epl": "privacy loss", "distance": "distance"}
    print_table(table, title=f"{name}: {like.query!r} at level {like.level!r}", headings=headings)
    typer.echo(like.words() + "\n")


def _write_plots(found: dict[str, list[Likeness]], place: Path) -> None:
    from tallyveil.cli.tables import can_draw
    from tallyveil.files.release_folder.measured import file_name, safe_name
    from tallyveil.report.plots import tradeoff_plot, write_plot

    if not can_draw():
        return
    for name, likes in found.items():
        for like in likes:
            mark = "" if len(found) == 1 else f"{safe_name(name)}_"
            chart = tradeoff_plot(like.table, title=f"{like.query}, level {like.level}")
            write_plot(chart, place / f"{mark}{safe_name(like.level)}_{file_name(like.query)}")
