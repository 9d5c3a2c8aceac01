"""``tallyveil reproduce``: recompute the papers' tables and figures and compare them with the published ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.cli.clusters import cluster_place, opened
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
        Path | None, typer.Option("--output", "-o", help="The folder to write; an existing one is resumed.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The 1940 items at 132 million persons (5 minutes for petti2020).")
    ] = False,
    persons: Annotated[
        int | None, typer.Option(help="Size of the synthetic census of 1940 (default 10,000,000).")
    ] = None,
    ipums: Annotated[Path | None, typer.Option(help="A real extract of the census of 1940, used instead.")] = None,
    mdf: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --ipums: the Bureau's releases (0.25/run1/MDF_PER.dat, ...), used for TopDown."
        ),
    ] = None,
    replicates: Annotated[int, typer.Option(help="TopDown runs at each budget, pooled.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the populations and the noise.")] = 1,
    cluster: options.ClusterAddress = None,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Recompute every table and figure of the four papers, and compare them with the published ones on one page.

    Each item gets a verdict: agrees; differs as the erratum says; stand-in population (a synthetic census of 1940,
    because the real one cannot be shipped); or differs. The exit code is 1 if any item differs. An interrupted run is
    resumed.

    [bold]Examples[/bold]

      tallyveil reproduce -o papers

      tallyveil reproduce kazan2022 -o papers

      tallyveil reproduce petti2020 --full -o full

      tallyveil reproduce petti2020 --ipums EXT1940USCB.dat --mdf releases -o real
    """
    from tallyveil.report.plots import altair
    from tallyveil_papers import items
    from tallyveil_papers.page import WORDS
    from tallyveil_papers.runner import run_items

    chosen = items(keys or [])
    if list_items:
        for item in chosen:
            typer.echo(f"{item.key:<34} {item.title}")
        return
    if output is None:
        raise InputError("reproduce needs a folder to write: -o DIR. Use --list to see the items.")
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: not a folder. Give a new folder, or one of an earlier run.")
    place = cluster_place(cluster)
    setting = _setting(full, persons, ipums, mdf, replicates, seed)
    altair()  # raises an error that says how to install it
    with opened(place) as elsewhere:
        setting = replace(setting, map=partial(_map_with_progress, map if elsewhere is None else elsewhere.map))
        done = run_items(chosen, output, setting, progress=_follow(len(chosen)))
    page = _write_page(output, done, setting)
    counts = {verdict: sum(result.verdict == verdict for result in done) for verdict in WORDS}
    if as_json:
        rows = [{"key": result.item.key, "verdict": result.verdict, "seconds": result.seconds} for result in done]
        typer.echo(json.dumps({"verdicts": counts, "items": rows, "page": str(page)}, indent=2))
    else:
        for verdict, words in WORDS.items():
            typer.echo(f"{counts[verdict]:>4}  {words}")
        typer.echo(f"{page}")
    if counts["differs"]:
        raise typer.Exit(1)


def _write_page(output: Path, done: Sequence[Done], setting: Setting) -> Path:
    """Write the page with these items and those of earlier runs, in the papers' order."""
    from tallyveil.files.atomic import replacing
    from tallyveil_papers import items
    from tallyveil_papers.page import page_of
    from tallyveil_papers.runner import read_done

    now = {result.item.key: result for result in done}
    known = (now.get(item.key) or read_done(item, output / item.key) for item in items())
    shown = [result for result in known if result is not None]
    page = output / "index.html"
    with replacing(page) as file:
        file.write_text(page_of(shown, setting, seconds=sum(result.seconds for result in shown)), encoding="utf-8")
    return page


def _setting(
    full: bool, persons: int | None, ipums: Path | None, mdf: Path | None, replicates: int, seed: int
) -> Setting:
    """The setting of these options, after checking them."""
    from tallyveil_papers import Setting

    if sum((full, persons is not None, ipums is not None)) > 1:
        raise InputError("of --full, --persons and --ipums, give only one.")
    if mdf is not None and ipums is None:
        raise InputError("--mdf needs --ipums: the releases are compared with the extract that they were made from.")
    if persons is not None and not 1 <= persons <= FULL:
        raise InputError(f"--persons must be from 1 to {FULL:,}. Got {persons:,} instead.")
    if replicates < 2:
        raise InputError(f"--replicates must be 2 or more. Got {replicates} instead.")
    if not 0 <= seed < 2**64:
        raise InputError(f"--seed must be from 0 to 2^64 - 1. Got {seed} instead.")
    size = FULL if full else QUICK if persons is None else persons
    setting = Setting(persons=size, replicates=replicates, seed=seed, ipums=ipums, mdf=mdf)
    if ipums is not None:
        if not ipums.is_file():
            raise InputError(f"{ipums}: no such file. Give an IPUMS extract of the census of 1940.")
        from tallyveil_papers.petti.census import census_of
        from tallyveil_papers.petti.releases import RUNS, find_releases

        if mdf is not None:
            runs = {epsilon: len(files) for epsilon, files in find_releases(mdf).items()}
            typer.echo(f"{sum(runs.values())} releases at {len(runs)} budgets in {mdf}", err=True)
            if set(runs.values()) != {RUNS}:
                words = f"the published figures pool {RUNS} runs at each budget, so these may differ by chance"
                typer.echo(f"not {RUNS} runs at each budget: {words}", err=True)
        typer.echo(f"reading {ipums}", err=True)
        persons = census_of(setting).persons  # errors in the extract are reported before anything is written
        if persons != FULL:
            typer.echo(f"it has {persons:,} persons; the published figures are for {FULL:,}", err=True)
    return setting


def _map_with_progress(
    spread: Callable[..., Iterable[Any]], work: Callable[..., Any], *pieces: Sequence[Any]
) -> Iterator[Any]:
    """Do the pieces of work as ``spread`` does (one after another, or on a cluster), and show progress."""
    from tallyveil.runs.progress import Steps

    what = (work.__doc__ or "").partition(":")[0].strip()
    with Steps(f"pieces of work ({what})", len(pieces[0]), resumable=True) as steps:
        for result in spread(work, *pieces):
            steps.step()
            yield result


def _follow(total: int) -> Callable[[Done, bool], None]:
    """A function that prints a line for each item."""
    from tallyveil_papers.page import WORDS

    places = count(1)

    def follow(done: Done, computed: bool) -> None:
        how = f"{done.seconds:6.1f} s" if computed else "    kept"
        words = f"could not be computed: {done.failed}" if done.failed else WORDS[done.verdict]
        typer.echo(f"{next(places):>3} of {total}  {done.item.key:<34} {how}  {words}", err=True)
        for row in done.figures[done.figures.verdict == "differs"].head(3).itertuples():
            at = f", {row.at}" if isinstance(row.at, str) else ""
            numbers = f"{row.ours:.4g}, published {row.published:.4g} ({row.apart})"
            typer.echo(f"           {row.name}{at}: {numbers}", err=True)

    return follow
