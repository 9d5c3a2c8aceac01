"""``tallyveil risk simulate``: what an intruder learns after post-processing, by runs with and without the target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.cli.simulated_mechanisms import SimulatedMechanism
from tallyveil.cli.tables import INTERNAL
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.auditing.mechanism_runs import TopDownRuns
    from tallyveil.cli.simulated_mechanisms import SimulatedRuns
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.privacy import Strategy
    from tallyveil.risk.simulate.simulated import Simulated
    from tallyveil.risk.target.target import Target
    from tallyveil.runs.batches import Execution
    from tallyveil.runs.store import FolderStore
    from tallyveil.scale.place import ClusterPlace

BATCH = 100  # runs that are made, and kept, together
LINES = {
    "marginal_posterior": "average posterior of a target who has the cell",
    "risk": "that over the prior",
    "accuracy": "right decisions, whichever hypothesis holds",
    "right_decision": "right decisions about a target who has the cell",
}


def simulate(
    data: Annotated[
        Path,
        typer.Argument(
            help="CSV, Parquet or Excel file of people or counts, or published microdata, with at most 200 leaves."
        ),
    ],
    unit: Annotated[str, typer.Option(metavar="CODE", help="Leaf of the target.")],
    cell: Annotated[str, typer.Option(metavar="LABEL*LABEL", help="Cell of the target.")],
    prior: Annotated[str, typer.Option(help="Prior probability that the target has this cell.")],
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    instead: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL*LABEL",
            help="Alternative cell of the target (default: the most common other cell in the parent; with "
            "add-or-remove neighbours, the target is absent).",
        ),
    ] = None,
    strategy: options.StrategyOrDefault = None,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    facilities: options.FacilitiesFile = None,
    units: options.Units = None,
    invariant: options.Invariants = None,
    mechanism: Annotated[
        SimulatedMechanism, typer.Option(help="What is released: TopDown, or a sample or swapping for comparison.")
    ] = SimulatedMechanism.topdown,
    fraction: Annotated[str | None, typer.Option(help="Fraction of the people in a sample (sample).")] = None,
    rate: Annotated[str | None, typer.Option(help="Share of the people who are drawn to be swapped (swap).")] = None,
    match: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Attributes on which swapped people must agree (swap).")
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Level within whose units people are swapped (swap).")
    ] = None,
    released: Annotated[
        str | None,
        typer.Option(metavar="X,X,...", help="Released counts of the cell, leaf first, to compute the posterior for."),
    ] = None,
    runs: Annotated[
        int, typer.Option(help="Number of runs per hypothesis; half are used to learn, half to judge.")
    ] = 20_000,
    seed: Annotated[int, typer.Option(help="Seed of the noise. These runs are not for publication.")] = 0,
    workers: options.Workers = None,
    cluster: options.ClusterAddress = None,
    output: options.ResumableFolder = None,
    long: options.Long = False,
    as_json: options.Json = False,
) -> None:
    """Simulate what an intruder who knows everyone but one person learns from released counts.

    TopDown runs many times with the target in its cell and many times with the alternative. The intruder sees the
    counts of the target's cell in its leaf and in all units above. The result is shown next to a bound: what the
    measurements reveal before post-processing. It is computed from the true counts, so it is not for publication.
    For comparison, samples and swapping can be simulated in the same way; they have no such bound.

    [bold]Examples[/bold]

      tallyveil risk simulate blocks.csv --codebook blocks.toml --rho 1 --unit 11 --cell adult --prior 1/2

      tallyveil risk simulate blocks.csv --codebook blocks.toml --epsilon 2 --unit 11 --cell "adult*f"
      --instead "adult*m" --prior 1/5 -o simulated

      tallyveil risk simulate blocks.csv --codebook blocks.toml --mechanism swap --rate 0.1 --match age --within county
      --unit 11 --cell "adult*f" --prior 1/2
    """
    from tallyveil.auditing.mechanism_runs import TopDownRuns
    from tallyveil.cli.clusters import cluster_place
    from tallyveil.cli.reading import read_people
    from tallyveil.cli.simulated_mechanisms import (
        comparison_runs,
        refuse_comparison_options,
        refuse_strategy_options,
        topdown_runs,
    )
    from tallyveil.cli.tables import open_run_store, write_result
    from tallyveil.risk.simulate.simulated import check_simulation
    from tallyveil.risk.target.intruder import Intruder
    from tallyveil.runs.pool import check_workers

    check_workers(workers)
    place = cluster_place(cluster, workers=workers)
    options.refuse_unless_resumable(output, "runs")
    Intruder(prior=prior)  # refuses what is not a prior
    read = read_people(data, codebook, file_format, units=units)
    people = read.counts
    check_simulation(people, runs)
    if mechanism is SimulatedMechanism.topdown:
        refuse_comparison_options(fraction=fraction, rate=rate, match=match, within=within)
        run: SimulatedRuns = topdown_runs(
            people, strategy, epsilon, rho, invariant or [], facilities, seed, own=read.facilities
        )
    else:
        refuse_strategy_options(mechanism, strategy, epsilon, rho, invariant, facilities)
        run = comparison_runs(people, mechanism, fraction=fraction, rate=rate, match=match, within=within, seed=seed)
    plan = run.strategy if isinstance(run, TopDownRuns) else None
    target = target_of(people, plan, unit, cell, instead)
    if isinstance(run, TopDownRuns):
        check_hypotheses(run, people, target)
    counts = _released(released, people)
    words = in_words(people, target)
    typer.echo(f"simulating {mechanism.value} on {people}\n{words}", err=True)
    store = open_run_store(output, job_of(people, run, words))
    found = _simulated(
        run, people, target, prior=prior, runs=runs, workers=workers, place=place, store=store, long=long
    )
    result = {"hypotheses": words, **found.as_json(), "note": INTERNAL}
    if counts is not None:
        result |= {"posterior": float(found.posterior(counts)), "posterior_se": found.posterior_se(counts)}
    write_result(result, output, "simulated.json")
    if as_json:
        options.emit_json(result)
    else:
        _show(result, found)


def _simulated(
    run: SimulatedRuns,
    people: Histogram,
    target: Target,
    *,
    prior: str,
    runs: int,
    workers: int | None,
    place: ClusterPlace | None,
    store: FolderStore | None,
    long: bool,
) -> Simulated:
    """Make the runs that are missing, in several processes where that pays, and learn from all of them."""
    from tallyveil.risk.simulate.simulated import simulate

    with execution_of(run, people, runs=runs, workers=workers, place=place, store=store, long=long) as execution:
        plan = getattr(run, "strategy", None)  # samples and swapping have none
        return simulate(run, people, target, prior=prior, runs=runs, strategy=plan, execution=execution)


@contextmanager
def execution_of(
    run: SimulatedRuns,
    people: Histogram,
    *,
    runs: int,
    workers: int | None,
    place: ClusterPlace | None,
    store: FolderStore | None,
    long: bool,
) -> Iterator[Execution]:
    """How runs of both hypotheses are executed, after announcing the time that they need."""
    from tallyveil.cli.clusters import opened
    from tallyveil.risk.simulate.target_runs import SIDES
    from tallyveil.runs.batches import Execution, batches_of, made_before
    from tallyveil.runs.pool import Batches

    batch = min(BATCH, runs)
    batches = batches_of(SIDES, runs, batch)
    done, resumable = made_before(batches, store), store is not None
    work = Batches(run=run, people=people, batches=batches, size=batch, done=done, resumable=resumable)
    so_many, remedy = f"{runs:,} runs of each hypothesis", "Cut the tree to fewer leaves"
    with (
        opened(place) as elsewhere,
        work.made(workers, so_many, remedy, long=long, elsewhere=elsewhere) as (pool_map, progress),
    ):
        yield Execution(batch=batch, map=pool_map, store=store, progress=progress)


def target_of(people: Histogram, strategy: Strategy | None, unit: str, cell: str, instead: str | None) -> Target:
    """The target of the options, and the alternative."""
    from tallyveil.auditing.neighbours import place_of
    from tallyveil.risk.target.target import Target, most_common_other

    leaf, number = place_of(people, f"{unit}:{cell}", "--unit and --cell")
    other: int | None = None
    if instead is not None:
        other = place_of(people, f"{unit}:{instead}", "--unit and --instead")[1]
    elif strategy is None or strategy.neighbours == "replace-one":
        other = most_common_other(people, leaf=leaf, cell=number)
    return Target(leaf=leaf, cell=number, instead=other)


def check_hypotheses(run: TopDownRuns, people: Histogram, target: Target) -> None:
    """Refuse hypotheses that invariants tell apart or constraints rule out: then there is nothing to learn."""
    from tallyveil.risk.target.target import check_target

    check_target(run.strategy, people, target)
    if run.strategy.check_constraints:
        run.check(people, whose="the data")
        run.check(target.gone(people), whose="the alternative")


def _released(text: str | None, people: Histogram) -> list[int] | None:
    if text is None:
        return None
    levels = people.spine.levels[::-1]
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(levels):
        raise InputError(f"--released {text!r}: give one whole number for each of {', '.join(levels)}, by commas.")
    return numbers


def in_words(people: Histogram, target: Target) -> str:
    """The two hypotheses."""
    labels, leaf = people.schema.query("detailed").labels(), people.spine.leaf
    code = people.spine.labels(leaf)[target.leaf]
    other = "or not there" if target.instead is None else f"or in {labels[target.instead]}"
    return f"the target: {leaf} {code}, in {labels[target.cell]} {other}"


def job_of(people: Histogram, run: SimulatedRuns, words: str, command: str = "risk simulate") -> dict[str, Any]:
    """What the stored runs depend on."""
    from tallyveil.runs.store import input_digest

    return {"command": command, **input_digest(people, run.facilities), **run.settings(), "hypotheses": words}


def _show(result: dict[str, Any], found: Simulated) -> None:
    """Print the figures beside their bounds, and the posterior given each of the most common counts."""
    import pandas as pd

    from tallyveil.cli.tables import print_table

    def exact(side: str, name: str) -> str:
        unbounded = " (no bound)" if side == "bound" and name == "right_decision" else ""
        return f"{result[side][name]:.4f}{unbounded}" if result[side] is not None else "-"

    rows = [
        {
            "figure": label,
            "released": f"{result[name]:.4f} +- {result[f'{name}_se']:.4f}",
            "bound": exact("bound", name),
            "alone": exact("alone", name),
        }
        for name, label in LINES.items()
    ]
    headings = {
        "figure": "",
        "released": "released, simulated",
        "bound": "bound: all measurements",
        "alone": "leaf's count alone",
    }
    title = f"{result['hypotheses']}; prior {found.prior}, {found.runs:,} runs of each"
    typer.echo(f"{INTERNAL}\n")
    print_table(pd.DataFrame(rows), title=title, headings=headings)
    common = pd.DataFrame(result["tuples"][:10])
    common["counts"] = [", ".join(map(str, counts)) for counts in common["counts"]]
    common["posterior"] = [
        f"{q:.3f} +- {error:.3f}" for q, error in zip(common["posterior"], common["posterior_se"], strict=True)
    ]
    print_table(
        common,
        title=f"the most common released counts of the cell ({', '.join(found.levels)})",
        headings={"counts": "counts", "posterior": "posterior", "runs_has": "runs with", "runs_not": "runs without"},
    )
    if "posterior" in result:
        typer.echo(f"given the released counts: posterior {result['posterior']:.4f} +- {result['posterior_se']:.4f}")
