"""``tallyveil sweep``: many budgets and allocations on the same counts, resumable."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.privacy import Strategy
    from tallyveil.release.release import Release
    from tallyveil.runs.store import FrameStore


MOST_REPLICATES = 10_000
KEYS = ["allocation", "strategy", "unit", "budget", "replicate", "level", "query", "statistic"]


def sweep(
    data: options.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the runs and tables; resumes an existing folder.")
    ],
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    epsilon: Annotated[
        str | None, typer.Option(metavar="E,E,...", help="Budgets as epsilon of pure differential privacy.")
    ] = None,
    rho: Annotated[
        str | None, typer.Option(metavar="R,R,...", help="Budgets as rho of zero-concentrated differential privacy.")
    ] = None,
    allocation: Annotated[
        list[str] | None,
        typer.Option(help="Strategy file or preset (default: equal shares). Can be repeated."),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Runs of each allocation and budget, which are pooled.")] = 4,
    samples: Annotated[
        bool, typer.Option("--samples/--no-samples", help="Find the sampling fraction that each result resembles.")
    ] = True,
    level: options.Levels = None,
    query: options.Queries = None,
    facilities: options.FacilitiesFile = None,
    units: options.Units = None,
    invariant: options.Invariants = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    cluster: options.ClusterAddress = None,
    as_json: options.Json = False,
) -> None:
    """Protect the same counts at many budgets and allocations, and compare error, bias, loss and risk of each.

    Every run is stored when it is done, so an interrupted sweep resumes where it stopped. study.csv has the pooled
    replicates with intervals, sweep.csv single runs. The output is computed from the true counts and is not for
    publication.

    [bold]Examples[/bold]

      tallyveil sweep blocks.parquet --codebook blocks.toml --epsilon 0.25,0.5,1,2 -o sweep

      tallyveil sweep t.csv --codebook t.toml --epsilon 1,4 --allocation even.toml --allocation leaf.toml -o sweep
    """
    from tallyveil.cli.clusters import cluster_place, opened
    from tallyveil.cli.reading import read_people
    from tallyveil.cli.strategies import find_facilities
    from tallyveil.cli.tables import records, write_internal
    from tallyveil.evaluate.allocation_study import study
    from tallyveil.evaluate.error import asked_of
    from tallyveil.evaluate.sweep import is_kept, kept_name, trials
    from tallyveil.evaluate.sweep import sweep as run
    from tallyveil.runs.progress import Steps
    from tallyveil.runs.store import FrameStore, input_digest

    options.check_threads(threads)
    place = cluster_place(cluster, threads=threads)
    options.refuse_unless_resumable(output, "trials")
    if not 1 <= replicates <= MOST_REPLICATES:
        raise InputError(f"--replicates must be from 1 to {MOST_REPLICATES:,}. Got {replicates:,} instead.")
    budgets = _budgets(epsilon, rho)
    read = read_people(data, codebook, file_format, units=units)
    people = read.counts
    strategies = _strategies(people, allocation or [], budgets, invariant or [])
    built = find_facilities(facilities, _bounded(strategies), people, own=read.facilities)
    wanted = trials(strategies, replicates=replicates)
    asked = [(str(name), text) for name, _, text in asked_of(people, level, query, None)]
    for name, text in asked:  # both refuse what they do not know, before anything is written
        people.spine.depth(name)
        people.schema.query(text)
    job = {"command": "sweep", "seed": seed, **input_digest(people, built)}
    store, entries = (FrameStore(output / name, job=job) for name in ("trials", "residuals"))
    write_internal(output)
    protect_again = _ProtectAgain(people, built, seed, threads if place is None else 1)
    done = sum(is_kept(kept_name(trial, asked), store, entries) for trial in wanted)
    with opened(place) as elsewhere, Steps("trials", len(wanted), resumable=True, done=done) as steps:
        table = run(
            people, wanted, protect_again, levels=level, queries=query, store=store, entries=entries,
            progress=steps.step, map=map if elsewhere is None else elsewhere.map,
        )  # fmt: skip
    drawn = (
        _sample_profiles(people, asked, replicates, FrameStore(output / "samples", job=job), seed) if samples else None
    )
    pooled = study(people, wanted, entries, asked=asked, samples=drawn, risk=_risk)
    _write_stored(store, output)
    _write_table(pooled, output, "study")
    plots = " and plots" if _write_plots(table, pooled, output) else ""
    if as_json:
        options.emit_json(records(table))
        return
    _show(pooled)
    typer.echo(conclusion(pooled))
    typer.echo(f"{output}: study.csv, sweep.csv (also as parquet){plots} (internal: they come from the truth)")


@dataclass(frozen=True, eq=False)
class _ProtectAgain:
    """Protects the same people with a strategy; it can be sent to other processes."""

    people: Histogram
    facilities: Facilities | None
    seed: int
    threads: int | None

    def __call__(self, strategy: Strategy, replicate: int) -> Release:
        """The release of a replicate."""
        from tallyveil.protection.protect import protect

        return protect(
            self.people, strategy, facilities=self.facilities, seed=self.seed, replicate=replicate,
            threads=self.threads,
        )  # fmt: skip


def _sample_profiles(
    people: Histogram, asked: list[tuple[str, str]], replicates: int, store: FrameStore, seed: int
) -> pd.DataFrame:
    from tallyveil.evaluate.allocation_study import sample_profiles
    from tallyveil.evaluate.compare import FRACTIONS
    from tallyveil.runs.progress import Steps

    with Steps("sampling fractions", len(FRACTIONS), resumable=True) as steps:
        return sample_profiles(people, asked, replicates=replicates, seed=seed, store=store, progress=steps.step)


def _risk(strategy: Strategy, level: str) -> float | None:
    """Disclosure risk R of someone alone in a cell of the level, for a prior of 1/2, before post-processing."""
    from tallyveil.risk import Intruder, noises_of

    noises = noises_of(strategy, level) if level in strategy.levels else ()
    return Intruder(prior="1/2").against(*noises).risk if noises else None


def _budgets(epsilon: str | None, rho: str | None) -> list[dict[str, str]]:
    """The budgets, each as a dictionary from epsilon or rho to its text."""
    if (epsilon is None) == (rho is None):
        raise InputError("sweep needs budgets: either --epsilon 0.5,1,2 or --rho 0.5,1,2.")
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

    strategies: dict[str, list[Strategy]] = {}
    for name in allocations or [None]:  # type: ignore[list-item]
        label = "equal shares" if name is None else Path(name).stem if Path(name).exists() else name
        if label in strategies:
            raise InputError(f"--allocation {name}: another is called {label} too. Rename the file.")
        strategies[label] = [
            choose_strategy(
                people, name, epsilon=budget.get("epsilon"), rho=budget.get("rho"), delta=None, invariants=invariants
            )
            for budget in budgets
        ]
    return strategies


def _bounded(strategies: dict[str, list[Strategy]]) -> Strategy:
    """An allocation that needs facilities, if there is one; otherwise the first."""
    from tallyveil.files.release_folder.read_folder import facility_attribute

    first = [budgets[0] for budgets in strategies.values()]
    return next((strategy for strategy in first if facility_attribute(strategy) is not None), first[0])


def _write_stored(store: FrameStore, output: Path) -> None:
    """Write all trials in the store, those of earlier sweeps too, as one table."""
    import pandas as pd

    table = pd.concat([store[name] for name in store]).drop_duplicates(subset=KEYS, ignore_index=True)
    table = table.sort_values(["allocation", "strategy", "budget", "replicate"], kind="stable", ignore_index=True)
    _write_table(table, output, "sweep")


def _write_table(table: pd.DataFrame, output: Path, name: str) -> None:
    from tallyveil.cli.tables import marked_internal
    from tallyveil.files.atomic import replacing

    marked = marked_internal(table)
    for ending, write in (("csv", marked.to_csv), ("parquet", marked.to_parquet)):
        with replacing(output / f"{name}.{ending}") as file:
            write(file, index=False)


def _show(table: pd.DataFrame) -> None:
    """Print error, bias, loss, the nearest sample and the risk of each allocation and budget."""
    from tallyveil.cli.tables import print_table

    unit = str(table.unit.iloc[0])
    headings = {"allocation": "allocation", "budget": unit, "level": "level", "query": "query"}
    more = {"median_abs": "median", "rmse": "RMSE", "bias": "bias", "small_bias": "of 1-10"}
    rest = {"epl": "loss", "sample": "sample", "risk": "R"}
    runs = int(table.replicates.iloc[0])
    pooled = "one run each" if runs == 1 else f"{runs} runs each, pooled"
    table = table.assign(sample=["-" if share != share else f"{share:.0%}" for share in table.fraction.astype(float)])
    print_table(table, title=f"Error, privacy loss and risk ({pooled})", headings=headings | more | rest)
    typer.echo(
        "Median, RMSE and bias are errors in persons; of 1-10 is the bias of true counts from 1 to 10.\n"
        "Loss is the empirical privacy loss, and sample the fraction of the sample that is nearest in\n"
        "error and loss. R is an intruder's average posterior divided by a prior of 1/2, before\n"
        "post-processing: 1 means that nothing is learned.\n"
    )


def conclusion(table: pd.DataFrame) -> str:
    """The smallest error and the smallest loss of the last query at the finest level, in a sentence."""
    unit, last = str(table.unit.iloc[0]), table.iloc[-1]
    same = table[(table.level == last.level) & (table["query"] == last["query"])]
    best = same.loc[same.rmse.idxmin()]
    words = f"smallest RMSE of {last['query']} at {last.level}: {best.rmse:.3g} "
    words += f"({best.allocation}, {unit} {best.budget:g})"
    if same.epl.notna().any():
        least = same.loc[same.epl.idxmin()]
        words += f"; smallest privacy loss: {least.epl:.3g} ({least.allocation}, {unit} {least.budget:g})"
    return words


def _write_plots(table: pd.DataFrame, pooled: pd.DataFrame, folder: Path) -> bool:
    from tallyveil.cli.tables import can_draw
    from tallyveil.report.plots import sweep_plot, write_plot
    from tallyveil.report.study_plot import study_plot

    if not can_draw():
        return False
    for statistic in ("median_abs", "rmse"):
        write_plot(sweep_plot(table, statistic=statistic), folder / statistic)
    if ((pooled.epl > 0) | (pooled.risk > 0)).any():
        write_plot(study_plot(pooled), folder / "tradeoff")
    return True
