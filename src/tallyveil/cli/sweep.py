"""``tallyveil sweep``: many budgets and allocations on the same counts, resumable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.nouns.histogram import Histogram
    from tallyveil.privacy import Strategy
    from tallyveil.release.release import Release


KEYS = ["allocation", "strategy", "unit", "budget", "replicate", "level", "query", "statistic"]


def sweep(
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file of people.")],
    codebook: Annotated[Path, typer.Option(help="What its columns mean (TOML).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder; one that was begun is gone on with.")],
    epsilon: Annotated[str | None, typer.Option(metavar="E,E,...", help="Budgets, pure, with commas.")] = None,
    rho: Annotated[str | None, typer.Option(metavar="R,R,...", help="Budgets, zero-concentrated, with commas.")] = None,
    allocation: Annotated[
        list[str] | None,
        typer.Option(help="A strategy's file or a preset (default: equal shares). Can be repeated."),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Runs of each.")] = 4,
    level: Annotated[list[str] | None, typer.Option(help="A level; all by default. Can be repeated.")] = None,
    query: Annotated[list[str] | None, typer.Option(help="A query. Can be repeated.")] = None,
    facilities: Annotated[Path | None, typer.Option(help="Facilities by leaf and type, for bounds.")] = None,
    units: Annotated[Path | None, typer.Option(help="The public list of units, the empty ones too.")] = None,
    invariant: Annotated[
        list[str] | None, typer.Option(metavar="QUERY@LEVEL", help="Keep a query exactly at a level, as total@state.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the noise; these runs are not for publication.")] = 0,
    threads: Annotated[int | None, typer.Option(help="How many (default: all cores).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Protect the same counts at many budgets and allocations, and tabulate the error of each.

    Every run is written when it is done: an interrupted sweep goes on where it stopped.

    [bold]Examples[/bold]

      tallyveil sweep blocks.parquet --codebook blocks.toml --epsilon 0.25,0.5,1,2 -o sweep

      tallyveil sweep t.csv --codebook t.toml --epsilon 1,4 --allocation even.toml --allocation leaf.toml -o sweep
    """
    import pandas as pd

    from tallyveil.cli.strategies import find_facilities
    from tallyveil.cli.tables import marked_internal, records, write_internal
    from tallyveil.evaluate.error import asked_of
    from tallyveil.evaluate.sweep import kept_name, trials
    from tallyveil.evaluate.sweep import sweep as run
    from tallyveil.files.atomic import refuse_existing, replacing
    from tallyveil.files.tables.read import read_counts
    from tallyveil.protection.protect import protect
    from tallyveil.runs.progress import Steps
    from tallyveil.runs.store import FrameStore, input_digest

    if threads is not None and threads < 1:
        raise InputError(f"--threads must be 1 or more. Got {threads} instead.")
    if not (output / "trials" / "job.json").exists():
        refuse_existing(output)
    if replicates < 1:
        raise InputError(f"--replicates must be 1 or more. Got {replicates} instead.")
    budgets = _budgets(epsilon, rho)
    people = read_counts(data, codebook, units=units)
    chosen = _strategies(people, allocation or [], budgets, invariant or [])
    built = find_facilities(facilities, _bounded(chosen), people)
    wanted = trials(chosen, replicates=replicates)
    asked = [(str(at), text) for at, _, text in asked_of(people, level, query, None)]
    store = FrameStore(output / "trials", job={"command": "sweep", "seed": seed, **input_digest(people, built)})
    write_internal(output)

    def protect_one(strategy: Strategy, replicate: int) -> Release:
        return protect(people, strategy, facilities=built, seed=seed, replicate=replicate, threads=threads)

    done = sum(kept_name(trial, asked) in store for trial in wanted)
    with Steps("trials", len(wanted), resumable=True, done=done) as steps:
        asked_for = run(people, wanted, protect_one, levels=level, queries=query, store=store, progress=steps.step)
    table = pd.concat([store[name] for name in store]).drop_duplicates(subset=KEYS, ignore_index=True)
    table = table.sort_values(["allocation", "strategy", "budget", "replicate"], kind="stable", ignore_index=True)
    marked = marked_internal(table)
    for ending, write in (("csv", marked.to_csv), ("parquet", marked.to_parquet)):
        with replacing(output / f"sweep.{ending}") as file:
            write(file, index=False)
    drawn = _write_plots(asked_for, output)
    if as_json:
        typer.echo(json.dumps(records(asked_for), indent=2, ensure_ascii=False, allow_nan=False))
        return
    _show(asked_for)
    typer.echo(
        f"{output}: sweep.csv, sweep.parquet{' and plots' if drawn else ''} (internal: they come from the truth)"
    )


def _budgets(epsilon: str | None, rho: str | None) -> list[dict[str, str]]:
    """The budgets asked for, each as the option that gives it."""
    if (epsilon is None) == (rho is None):
        raise InputError("sweep needs budgets: --epsilon 0.5,1,2 or --rho 0.5,1,2, one of them.")
    unit, text = ("epsilon", epsilon) if epsilon is not None else ("rho", rho)
    words = [word.strip() for word in (text or "").split(",")]
    if not all(words):
        raise InputError(f"--{unit} {text!r}: a budget is missing between two commas. Write it like 0.5,1,2.")
    if len(set(words)) != len(words):
        raise InputError(f"--{unit} {text}: a budget is given twice. Give each once.")
    return [{unit: word} for word in words]


def _strategies(
    people: Histogram, allocations: list[str], budgets: list[dict[str, str]], invariants: list[str]
) -> dict[str, list[Strategy]]:
    """Each allocation at each budget."""
    from tallyveil.cli.strategies import choose_strategy

    chosen: dict[str, list[Strategy]] = {}
    for name in allocations or [None]:  # type: ignore[list-item]
        called = "equal shares" if name is None else Path(name).stem if Path(name).exists() else name
        if called in chosen:
            raise InputError(f"--allocation {name}: another is called {called} too. Rename the file.")
        chosen[called] = [
            choose_strategy(
                people, name, epsilon=one.get("epsilon"), rho=one.get("rho"), delta=None, invariants=invariants
            )
            for one in budgets
        ]
    return chosen


def _bounded(chosen: dict[str, list[Strategy]]) -> Strategy:
    """An allocation that needs facilities, if one does."""
    from tallyveil.files.release_folder.read_folder import facility_attribute

    first = [several[0] for several in chosen.values()]
    return next((strategy for strategy in first if facility_attribute(strategy) is not None), first[0])


def _show(table: pd.DataFrame) -> None:
    """Print the median error and the loss of each allocation and budget, mean of the replicates."""
    from tallyveil.cli.tables import print_table

    rows = table[table.statistic.isin(["median_abs", "rmse", "epl"])]
    keys = ["allocation", "unit", "budget", "level", "query"]
    wide = rows.pivot_table(index=keys, columns="statistic", values="value", sort=False, dropna=False).reset_index()
    wide = wide[wide.median_abs.notna()]
    unit = str(table.unit.iloc[0])
    headings = {"allocation": "allocation", "budget": unit, "level": "level", "query": "query"}
    more = {"median_abs": "median error", "rmse": "RMSE", "epl": "privacy loss"}
    print_table(
        wide, title=f"Error and loss ({table.replicate.nunique()} runs of each, their mean)", headings=headings | more
    )


def _write_plots(table: pd.DataFrame, place: Path) -> bool:
    from tallyveil.cli.tables import can_draw
    from tallyveil.report.plots import sweep_plot, write_plot

    if not can_draw():
        return False
    for statistic in ("median_abs", "rmse"):
        write_plot(sweep_plot(table, statistic=statistic), place / statistic)
    return True
