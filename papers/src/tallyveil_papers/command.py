"""``tallyveil reproduce``: the papers' tables and figures, computed again beside the published numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil_papers import Setting
    from tallyveil_papers.runner import Done

FULL = 132_404_766  # persons of the census of 1940
QUICK = 10_000_000


def reproduce(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", help="Papers or items; all by default.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder to write, or to go on with.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The 1940 items at 132 million persons (5 minutes for petti2020).")
    ] = False,
    persons: Annotated[int | None, typer.Option(help="Or at this size (default 10,000,000).")] = None,
    ipums: Annotated[Path | None, typer.Option(help="A real extract of the census of 1940 instead.")] = None,
    replicates: Annotated[int, typer.Option(help="TopDown runs at each budget, pooled.")] = 4,
    seed: Annotated[int, typer.Option(help="Of populations and noise.")] = 1,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The verdicts as JSON.")] = False,
) -> None:
    """Compute every table and figure of the four papers again, and lay ours beside theirs on one page.

    Each item gets a verdict: agrees; differs as the erratum says; stand-in population (a synthetic census of 1940: the
    real one cannot be shipped); or differs. Exit code 1 if any item differs. An interrupted run is gone on with.

    [bold]Examples[/bold]

      tallyveil reproduce -o papers

      tallyveil reproduce kazan2022 -o papers

      tallyveil reproduce petti2020 --full -o full
    """
    from tallyveil.report.plots import altair
    from tallyveil_papers import items
    from tallyveil_papers.page import WORDS, page_of
    from tallyveil_papers.runner import read_done, run_items

    chosen = items(keys or [])
    if list_items:
        for item in chosen:
            typer.echo(f"{item.key:<34} {item.title}")
        return
    if output is None:
        raise InputError("reproduce needs a folder to write: -o DIR. To see the items: --list")
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: not a folder. Give a new one, or one of an earlier run.")
    setting = _setting(full, persons, ipums, replicates, seed)
    altair()  # says how to get it
    done = run_items(chosen, output, setting, progress=_follow(len(chosen)))
    made = {one.item.key: one for one in done}
    found = (made.get(item.key) or read_done(item, output / item.key) for item in items())
    shown = [one for one in found if one is not None]  # in the papers' order, those of earlier runs too
    page = output / "index.html"
    _write(page, page_of(shown, setting, seconds=sum(one.seconds for one in shown)))
    counts = {verdict: sum(one.verdict == verdict for one in done) for verdict in WORDS}
    if as_json:
        told = [{"key": one.item.key, "verdict": one.verdict, "seconds": one.seconds} for one in done]
        typer.echo(json.dumps({"verdicts": counts, "items": told, "page": str(page)}, indent=2))
    else:
        for verdict, words in WORDS.items():
            typer.echo(f"{counts[verdict]:>4}  {words}")
        typer.echo(f"{page}")
    if counts["differs"]:
        raise typer.Exit(1)


def _setting(full: bool, persons: int | None, ipums: Path | None, replicates: int, seed: int) -> Setting:
    """With what to compute, once it is seen to be sensible."""
    from tallyveil_papers import Setting

    if sum((full, persons is not None, ipums is not None)) > 1:
        raise InputError("of --full, --persons and --ipums, give one.")
    if persons is not None and not 1 <= persons <= FULL:
        raise InputError(f"--persons must be from 1 to {FULL:,}. Got {persons:,} instead.")
    if replicates < 2:
        raise InputError(f"--replicates must be 2 or more. Got {replicates} instead.")
    if not 0 <= seed < 2**64:
        raise InputError(f"--seed must be from 0 to 2^64 - 1. Got {seed} instead.")
    size = FULL if full else QUICK if persons is None else persons
    setting = Setting(persons=size, replicates=replicates, seed=seed, ipums=ipums, map=_told_map)
    if ipums is not None:
        if not ipums.is_file():
            raise InputError(f"{ipums}: no such file. Give an IPUMS extract of the census of 1940.")
        from tallyveil_papers.petti.census import census_of

        typer.echo(f"reading {ipums}", err=True)
        persons = census_of(setting).persons  # what is wrong with it is said before anything is written
        if persons != FULL:
            typer.echo(f"it has {persons:,} persons; the published figures are of {FULL:,}", err=True)
    return setting


def _told_map(work: Callable[..., Any], *pieces: Sequence[Any]) -> Iterator[Any]:
    """Work in pieces, one after another, with progress and the time that is left."""
    from tallyveil.runs.progress import Steps

    what = (work.__doc__ or "").partition(":")[0].strip()
    with Steps(f"pieces of work ({what})", len(pieces[0]), resumable=True) as steps:
        for one in map(work, *pieces):
            steps.step()
            yield one


def _follow(total: int) -> Callable[[Done, bool], None]:
    """A line for each item."""
    from tallyveil_papers.page import WORDS

    places = count(1)

    def told(one: Done, made: bool) -> None:
        how = f"{one.seconds:6.1f} s" if made else "    kept"
        words = one.failed and f"could not be computed: {one.failed}"
        line = f"{next(places):>3} of {total}  {one.item.key:<34} {how}  {words or WORDS[one.verdict]}"
        typer.echo(line, err=True)
        for row in one.figures[one.figures.verdict == "differs"].head(3).itertuples():
            at = f", {row.at}" if isinstance(row.at, str) else ""
            typer.echo(
                f"           {row.name}{at}: {row.ours:.4g}, published {row.published:.4g} ({row.apart})", err=True
            )

    return told


def _write(path: Path, text: str) -> None:
    from tallyveil.files.atomic import replacing

    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
