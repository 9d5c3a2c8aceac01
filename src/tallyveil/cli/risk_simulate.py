"""``tallyveil risk simulate``: what an intruder learns after post-processing, by runs with and without the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.options import (
    Codebook,
    Epsilon,
    FacilitiesFile,
    Invariants,
    Json,
    Long,
    Rho,
    StrategyName,
    Units,
    Workers,
    emit_json,
    json_text,
)
from tallyveil.cli.tables import INTERNAL, write_internal
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.auditing.mechanism_runs import TopDownRuns
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.risk.simulate.simulated import Simulated
    from tallyveil.risk.target.target import Target

BATCH = 100  # runs that are made, and kept, together
LINES = {
    "marginal_posterior": "average posterior of a target who has the cell",
    "risk": "that over the prior",
    "accuracy": "right decisions, whichever hypothesis holds",
    "right_decision": "right decisions about a target who has the cell",
}


def simulate(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file of people or counts, with at most 200 leaves.")],
    codebook: Codebook,
    unit: Annotated[str, typer.Option(metavar="CODE", help="Leaf of the target.")],
    cell: Annotated[str, typer.Option(metavar="LABEL*LABEL", help="Cell of the target.")],
    prior: Annotated[str, typer.Option(help="Prior probability that the target has this cell.")],
    instead: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL*LABEL",
            help="Alternative cell of the target (default: the most common other cell in the parent; with "
            "add-or-remove neighbours, the target is absent).",
        ),
    ] = None,
    strategy: StrategyName = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    facilities: FacilitiesFile = None,
    units: Units = None,
    invariant: Invariants = None,
    released: Annotated[
        str | None,
        typer.Option(metavar="X,X,...", help="Released counts of the cell, leaf first, to compute the posterior for."),
    ] = None,
    runs: Annotated[
        int, typer.Option(help="Number of runs per hypothesis; half are used to learn, half to judge.")
    ] = 20_000,
    seed: Annotated[int, typer.Option(help="Seed of the noise. These runs are not for publication.")] = 0,
    workers: Workers = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the runs; resumes an existing folder.")
    ] = None,
    long: Long = False,
    as_json: Json = False,
) -> None:
    """Simulate what an intruder who knows everyone but one person learns from released counts.

    TopDown runs many times with the target in its cell and many times with the alternative. The intruder sees the
    counts of the target's cell in its leaf and in all units above. The result is shown next to a bound: what the
    measurements reveal before post-processing. It is computed from the true counts, so it is not for publication.

    [bold]Examples[/bold]

      tallyveil risk simulate blocks.csv --codebook blocks.toml --rho 1 --unit 11 --cell adult --prior 1/2

      tallyveil risk simulate blocks.csv --codebook blocks.toml --epsilon 2 --unit 11 --cell "adult*f"
      --instead "adult*m" --prior 1/5 -o simulated
    """
    from tallyveil.files.atomic import refuse_existing
    from tallyveil.files.tables.read import read_counts
    from tallyveil.risk.simulate.simulated import batch_names, check_simulation
    from tallyveil.risk.simulate.simulated import simulate as run_simulation
    from tallyveil.risk.target.intruder import Intruder
    from tallyveil.risk.target.target import check_target
    from tallyveil.runs.pool import Batches
    from tallyveil.runs.store import FolderStore

    if workers is not None and workers < 1:
        raise InputError(f"--workers must be 1 or more. Got {workers} instead.")
    if output is not None and not (output / "runs" / "job.json").exists():
        refuse_existing(output)
    Intruder(prior=prior)  # refuses what is no prior
    people = read_counts(data, codebook, units=units)
    check_simulation(people, runs)
    run = _mechanism(people, strategy, epsilon, rho, invariant or [], facilities, seed)
    target = _target(people, run, unit, cell, instead)
    check_target(run.strategy, people, target)
    _check_counts(run, {"the data": people, "the alternative": target.gone(people)})
    seen = _released(released, people)
    words = _in_words(people, target)
    typer.echo(f"simulating topdown on {people}\n{words}", err=True)
    batch = min(BATCH, runs)
    store = None if output is None else FolderStore(output / "runs", job=_job(people, run, words))
    if output is not None:
        write_internal(output)
    so_many, remedy = f"{runs:,} runs of each hypothesis", "Cut the tree to fewer leaves"
    work = Batches(run=run, people=people, names=batch_names(runs, batch), batch=batch, store=store)
    with work.made(workers, so_many, remedy, long=long) as (spread, progress):
        found = run_simulation(
            run,
            people,
            target,
            prior=prior,
            runs=runs,
            strategy=run.strategy,
            batch=batch,
            map=spread,
            store=store,
            progress=progress,
        )
    told = {"hypotheses": words, **found.as_json(), "note": INTERNAL}
    if seen is not None:
        told |= {"posterior": float(found.posterior(seen)), "posterior_se": found.posterior_se(seen)}
    if output is not None:
        _write(told, output)
    if as_json:
        emit_json(told)
        return
    _show(told, found)


def _mechanism(
    people: Histogram,
    strategy: str | None,
    epsilon: str | None,
    rho: str | None,
    invariants: list[str],
    facilities: Path | None,
    seed: int,
) -> TopDownRuns:
    from tallyveil.auditing.mechanism_runs import TopDownRuns
    from tallyveil.cli.strategies import choose_strategy, find_facilities

    if epsilon is None and rho is None and strategy is None:
        raise InputError("risk simulate needs a budget: --epsilon E, --rho R, or a --strategy that has one.")
    chosen = choose_strategy(people, strategy, epsilon=epsilon, rho=rho, delta=None, invariants=invariants)
    return TopDownRuns(
        strategy=chosen, facilities=find_facilities(facilities, chosen, people), seed=seed, delta=float(chosen.delta)
    )


def _target(people: Histogram, run: TopDownRuns, unit: str, cell: str, instead: str | None) -> Target:
    from tallyveil.auditing.neighbours import place_of
    from tallyveil.risk.target.target import Target, most_common_other

    leaf, number = place_of(people, f"{unit}:{cell}", "--unit and --cell")
    other: int | None = None
    if instead is not None:
        other = place_of(people, f"{unit}:{instead}", "--unit and --instead")[1]
    elif run.strategy.neighbours == "replace-one":
        other = most_common_other(people, leaf=leaf, cell=number)
    return Target(leaf=leaf, cell=number, instead=other)


def _check_counts(run: TopDownRuns, sides: dict[str, Histogram]) -> None:
    """Refuse hypotheses that the constraints rule out: then nothing needs to be learned."""
    from tallyveil.engine.constraints import check_counts, declared_limits, possible_cells
    from tallyveil.mechanisms.measure import measure
    from tallyveil.privacy import RunKey

    if not run.strategy.check_constraints:
        return
    for whose, people in sides.items():
        exact = measure(people, run.strategy, RunKey.from_seed(run.seed)).exact
        limits = declared_limits(people.spine, people.schema, run.strategy, exact=exact, facilities=run.facilities)
        check_counts(people, limits, possible_cells(people.schema, run.strategy), whose=whose)


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


def _in_words(people: Histogram, target: Target) -> str:
    labels, leaf = people.schema.query("detailed").labels(), people.spine.leaf
    code = people.spine.labels(leaf)[target.leaf]
    other = "or not there" if target.instead is None else f"or in {labels[target.instead]}"
    return f"the target: {leaf} {code}, in {labels[target.cell]} {other}"


def _job(people: Histogram, run: TopDownRuns, words: str) -> dict[str, Any]:
    from tallyveil.runs.store import input_digest

    return {"command": "risk simulate", **input_digest(people, run.facilities), **run.settings(), "hypotheses": words}


def _write(told: dict[str, Any], output: Path) -> None:
    from tallyveil.files.atomic import replacing

    with replacing(output / "simulated.json") as file:
        file.write_text(json_text(told) + "\n", encoding="utf-8")


def _show(told: dict[str, Any], found: Simulated) -> None:
    """Print the figures beside their bounds, and what the commonest counts say."""
    import pandas as pd

    from tallyveil.cli.tables import print_table

    def exact(side: str, name: str) -> str:
        unbounded = " (no bound)" if side == "bound" and name == "right_decision" else ""
        return f"{told[side][name]:.4f}{unbounded}" if told[side] is not None else "-"

    rows = [
        {
            "figure": label,
            "released": f"{told[name]:.4f} +- {told[f'{name}_se']:.4f}",
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
    title = f"{told['hypotheses']}; prior {found.prior}, {found.runs:,} runs of each"
    typer.echo(f"{INTERNAL}\n")
    print_table(pd.DataFrame(rows), title=title, headings=headings)
    common = pd.DataFrame(told["tuples"][:10])
    common["counts"] = [", ".join(map(str, counts)) for counts in common["counts"]]
    common["posterior"] = [
        f"{q:.3f} +- {error:.3f}" for q, error in zip(common["posterior"], common["posterior_se"], strict=True)
    ]
    print_table(
        common,
        title=f"the commonest released counts of the cell ({', '.join(found.levels)})",
        headings={"counts": "counts", "posterior": "posterior", "runs_has": "runs with", "runs_not": "runs without"},
    )
    if "posterior" in told:
        typer.echo(f"given the released counts: posterior {told['posterior']:.4f} +- {told['posterior_se']:.4f}")
