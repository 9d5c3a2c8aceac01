"""``tallyveil reproduce``: the papers' tables and figures, computed again beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.errors import InputError

FULL = 132_404_766  # persons of the census of 1940
QUICK = 10_000_000


def reproduce(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", help="Papers or items; all by default.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder to write, or to go on with.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="The 1940 items at 132 million persons (half an hour).")] = False,
    persons: Annotated[int | None, typer.Option(help="Or at this size (default 10,000,000).")] = None,
    ipums: Annotated[Path | None, typer.Option(help="A real extract of the census of 1940 instead.")] = None,
    replicates: Annotated[int, typer.Option(help="TopDown runs at each budget, pooled.")] = 4,
    seed: Annotated[int, typer.Option(help="Of populations and noise.")] = 1,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and stop.")] = False,
) -> None:
    """Compute every table and figure of the four papers again, and lay ours beside theirs on one page.

    Each item gets a verdict: agrees; differs as the erratum says; stand-in population (a synthetic census of 1940: the
    real one cannot be shipped); or differs. Exit code 1 if any item differs. An interrupted run is gone on with.

    [bold]Examples[/bold]

      tallyveil reproduce -o papers

      tallyveil reproduce kazan2022 -o papers

      tallyveil reproduce petti2020 --full -o full
    """
    from time import perf_counter

    from tallyveil.papers import Setting, items
    from tallyveil.papers.page import WORDS, page_of
    from tallyveil.papers.runner import run_items
    from tallyveil.report.plots import altair

    chosen = items(keys or [])
    if list_items:
        for item in chosen:
            typer.echo(f"{item.key:<34} {item.title}")
        return
    if output is None:
        raise InputError("reproduce needs a folder to write: -o DIR. To see the items: --list")
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: not a folder. Give a new one, or one of an earlier run.")
    if full and persons is not None:
        raise InputError("--full and --persons are both given. Give one.")
    if replicates < 2:
        raise InputError(f"--replicates must be 2 or more. Got {replicates} instead.")
    altair()  # says how to get it
    setting = Setting(persons=FULL if full else persons or QUICK, replicates=replicates, seed=seed, ipums=ipums)
    start, place = perf_counter(), {item.key: n for n, item in enumerate(chosen, 1)}

    def told(key: str, verdict: str, seconds: float) -> None:
        so_far, n = perf_counter() - start, place[key]
        left = f", about {so_far / n * (len(chosen) - n):.0f} s left" if n < len(chosen) else ""
        typer.echo(f"{n:>3} of {len(chosen)}  {key:<34} {seconds:6.1f} s  {WORDS[verdict]}{left}", err=True)

    done = run_items(chosen, output, setting, progress=told)
    page = output / "index.html"
    _write(page, page_of(done, setting, seconds=sum(one.seconds for one in done)))
    for verdict, words in WORDS.items():
        typer.echo(f"{sum(one.verdict == verdict for one in done):>4}  {words}")
    typer.echo(f"{page}")
    if any(one.verdict == "differs" for one in done):
        raise typer.Exit(1)


def _write(path: Path, text: str) -> None:
    from tallyveil.files.atomic import replacing

    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
