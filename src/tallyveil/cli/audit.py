"""``tallyveil audit``: run a mechanism many times on two neighbours, and bound its epsilon from below."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.auditing.mechanism_runs import SimpleRuns, TopDownRuns
    from tallyveil.cli.reading import People
    from tallyveil.evaluate.audit.result import Audit, EventBound

GAUSSIAN_DELTA = 1e-3  # a delta that some thousand runs can still resolve


class Mechanism(StrEnum):
    """Mechanisms that can be audited from the command line."""

    topdown = "topdown"
    geometric = "geometric"
    raked = "raked"
    averaged = "averaged"


class Holds(StrEnum):
    """The neighbours for which epsilon holds."""

    replace_one = "replace-one"
    add_or_remove = "add-or-remove"


def audit(
    data: options.Data,
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    mechanism: Annotated[Mechanism, typer.Option(help="Mechanism to audit.")] = Mechanism.topdown,
    strategy: options.StrategyName = None,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta at which epsilon is bounded (default: 0; 0.001 for Gaussian noise).")
    ] = None,
    neighbours: Annotated[
        Holds | None,
        typer.Option(help="Neighbours of the claimed epsilon (default: replace-one; TopDown's are in its strategy)."),
    ] = None,
    query: Annotated[str, typer.Option(help="Query whose released counts are compared.")] = "detailed",
    move: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT:CELL->UNIT:CELL", help="D' is D with this person moved (default: one moved far away)."
        ),
    ] = None,
    remove: Annotated[str | None, typer.Option(metavar="UNIT:CELL", help="D' is D without this person.")] = None,
    runs: Annotated[
        int, typer.Option(help="Number of runs on each of D and D'; half choose the event, half test it.")
    ] = 20_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound.")] = 0.95,
    facilities: options.FacilitiesFile = None,
    units: options.Units = None,
    invariant: options.Invariants = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    output: options.ResumableFolder = None,
    long: options.Long = False,
    as_json: options.Json = False,
) -> None:
    """Bound a mechanism's epsilon from below by running it many times on two neighbouring datasets, D and D'.

    The event that best tells D from D' is chosen on half of the runs and tested on the other half. A bound above the
    proven epsilon indicates a bug or a wrong claim, and the exit code is 1. The output is computed from the true counts
    and is not for publication.

    [bold]Examples[/bold]

      tallyveil audit blocks.csv --codebook blocks.toml --epsilon 2

      tallyveil audit blocks.csv --codebook blocks.toml --mechanism geometric --epsilon 1 --move "11:adult->22:adult"

      tallyveil audit blocks.csv --codebook blocks.toml --rho 0.5 --delta 0.001 --runs 50000 -o audit
    """
    from tallyveil.auditing.audit_job import AuditJob
    from tallyveil.auditing.neighbours import choose_neighbour
    from tallyveil.cli.reading import read_people
    from tallyveil.cli.tables import open_run_store, write_result
    from tallyveil.evaluate.audit.audit import check_audit
    from tallyveil.runs.batches import Execution
    from tallyveil.runs.pool import Batches, check_workers

    check_audit(runs, confidence, delta or 0.0)
    options.refuse_unless_resumable(output, "runs")
    check_workers(workers)
    read = read_people(data, codebook, file_format, units=units)
    people = read.counts
    if mechanism is Mechanism.topdown:
        if neighbours is not None:
            raise InputError(
                "--neighbours is for the other mechanisms: the strategy of topdown says which it protects."
            )
        run: TopDownRuns | SimpleRuns = _topdown(
            read, strategy, epsilon=epsilon, rho=rho, delta=delta, invariants=invariant or [],
            facilities=facilities, seed=seed,
        )  # fmt: skip
    else:
        _refuse_topdown_options(mechanism, strategy=strategy, rho=rho, facilities=facilities, invariant=invariant)
        run = _simple(
            mechanism, epsilon, query=query, neighbours=neighbours or Holds.replace_one, seed=seed, delta=delta
        )
    other, proven = choose_neighbour(people, run.proven, move=move, remove=remove)
    job = AuditJob(
        mechanism=run, people=people, neighbour=other, proven=proven, query=query, runs=runs, confidence=confidence
    )
    typer.echo(f"auditing {mechanism.value} on {people}\n{job.neighbours}", err=True)
    store = open_run_store(output, job.settings())
    work = Batches(run=run, people=people, names=job.batch_names(), batch=job.batch, store=store)
    remedy = "Audit a smaller tree (a bug shows in 8 leaves too)"
    with work.made(workers, f"{runs:,} runs a side", remedy, long=long) as (pool_map, progress):
        result = job.audit(Execution(batch=job.batch, map=pool_map, store=store, progress=progress))
    write_result(result.as_json(), output, "audit.json")
    if as_json:
        options.emit_json(result.as_json())
    else:
        _show(result)
    if result.exceeds:
        raise typer.Exit(1)


def _topdown(
    people: People,
    name: str | None,
    *,
    epsilon: str | None,
    rho: str | None,
    delta: float | None,
    invariants: list[str],
    facilities: Path | None,
    seed: int,
) -> TopDownRuns:
    """TopDown with the strategy that was asked for."""
    from tallyveil.auditing.mechanism_runs import TopDownRuns
    from tallyveil.cli.strategies import choose_strategy, find_facilities

    if epsilon is None and rho is None and name is None:
        raise InputError("audit needs a budget: --epsilon E, --rho R, or a --strategy that has one.")
    strategy = choose_strategy(people.counts, name, epsilon=epsilon, rho=rho, invariants=invariants)
    if delta is None:
        delta = 0.0 if strategy.mechanism == "geometric" else GAUSSIAN_DELTA
    if strategy.mechanism == "gaussian" and not delta > 0:
        raise InputError("Gaussian noise has an epsilon only at a delta above 0. Use --delta 0.001, or leave it out.")
    public = find_facilities(facilities, strategy, people.counts, own=people.facilities)
    return TopDownRuns(strategy=strategy, facilities=public, seed=seed, delta=float(delta))


def _simple(
    mechanism: Mechanism, epsilon: str | None, *, query: str, neighbours: Holds, seed: int, delta: float | None
) -> SimpleRuns:
    """A mechanism of flaxman2019."""
    from tallyveil.auditing.mechanism_runs import SimpleRuns
    from tallyveil.privacy.budget import exact

    if epsilon is None:
        raise InputError(f"audit --mechanism {mechanism.value} needs a budget: --epsilon E.")
    return SimpleRuns(
        name=mechanism.value,  # type: ignore[arg-type]
        epsilon=exact(epsilon, "epsilon"),
        query=query,
        neighbours=neighbours.value,
        seed=seed,
        delta=delta or 0.0,
    )


def _refuse_topdown_options(mechanism: Mechanism, *, invariant: list[str] | None, **values: object) -> None:
    for option, value in values.items():
        if value is not None:
            raise InputError(f"--{option} is for --mechanism topdown. {mechanism.value} takes --epsilon only.")
    if invariant:
        raise InputError(f"--invariant is for --mechanism topdown. {mechanism.value} keeps nothing exactly.")


def _show(result: Audit) -> None:
    """Print the bound, the event that shows it, and how it compares with the proven epsilon."""
    sure = f"with {100 * result.confidence:g}% confidence"
    lines = {
        "neighbours": result.neighbours,
        "epsilon": f"at least {result.epsilon_low:.4g}, {sure} "
        f"({result.runs:,} runs on each, half to choose the event)"
        + (f", at delta {result.delta:g}" if result.delta else ""),
        "event": _event(result.bound),
        "one count": _line(result.one_unit),
        "several": _line(result.joint),
        "proven": "-" if result.proven is None else f"{result.proven:.4g}, for these neighbours",
        "verdict": result.verdict,
    }
    for name, text in lines.items():
        typer.echo(f"{name:<12}{text}")


def _event(bound: EventBound) -> str:
    more, less = ("D", "D'") if bound.direction == "D over D'" else ("D'", "D")
    return (
        f"{bound.event}: in {100 * bound.p:.3g}% of the runs on {more} (at least {100 * bound.p_low:.3g}%), "
        f"in {100 * bound.q:.3g}% of those on {less} (at most {100 * bound.q_high:.3g}%)"
    )


def _line(bound: EventBound | None) -> str:
    return "-" if bound is None else f"at least {bound.epsilon_low:.4g}: {bound.event}"
