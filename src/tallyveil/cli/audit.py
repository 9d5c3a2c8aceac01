"""``tallyveil audit``: run a mechanism many times on neighbours, and bound its epsilon from below."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tallyveil.cli import options
from tallyveil.cli.audited_mechanisms import (
    AuditedMechanism,
    audited_simple,
    audited_topdown,
    refuse_topdown_options,
)
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.auditing.audit_job import AuditJob
    from tallyveil.auditing.mechanism_runs import SimpleRuns, TopDownRuns
    from tallyveil.auditing.search_job import SearchJob
    from tallyveil.nouns.histogram import Histogram


class Neighbours(StrEnum):
    """The neighbours for which epsilon holds, and whether one pair of them is compared or many."""

    replace_one = "replace-one"
    add_or_remove = "add-or-remove"
    search = "search"


class Learner(StrEnum):
    """How events are learned from the runs."""

    linear = "linear"
    trees = "trees"


def audit(
    data: options.Data,
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    mechanism: Annotated[AuditedMechanism, typer.Option(help="Mechanism to audit.")] = AuditedMechanism.topdown,
    strategy: options.StrategyName = None,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta at which epsilon is bounded (default: 0; 0.001 for Gaussian noise).")
    ] = None,
    neighbours: Annotated[
        list[Neighbours] | None,
        typer.Option(
            help="Neighbours of the claimed epsilon (default: replace-one; TopDown's are in its strategy); search "
            "compares a family of pairs instead of one (repeatable)."
        ),
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
        int,
        typer.Option(help="Number of runs on each of D and D'; half choose (the pair and) the event, half test it."),
    ] = 20_000,
    learner: Annotated[
        Learner, typer.Option(help=r"Learner of events; trees adds boosted trees (needs tallyveil\[learners]).")
    ] = Learner.linear,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound.")] = 0.95,
    facilities: options.FacilitiesFile = None,
    units: options.Units = None,
    invariant: options.Invariants = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    cluster: options.ClusterAddress = None,
    output: options.ResumableFolder = None,
    long: options.Long = False,
    as_json: options.Json = False,
) -> None:
    """Bound a mechanism's epsilon from below by running it many times on two neighbouring datasets, D and D'.

    The event that best tells D from D' is chosen on half of the runs and tested on the other half. A bound above the
    proven epsilon indicates a bug or a wrong claim, and the exit code is 1. The output is computed from the true counts
    and is not for publication.

    With --neighbours search, the first half also chooses D and D' from a family of pairs made from the data: a person
    moves into an empty unit, joins the only person of a unit, differs from everyone else in a unit, leaves a large
    unit, moves to a sibling unit or to another parent, or changes one or all attributes. Pairs that the guarantee does
    not cover are left out.

    [bold]Examples[/bold]

      tallyveil audit blocks.csv --codebook blocks.toml --epsilon 2

      tallyveil audit blocks.csv --codebook blocks.toml --mechanism geometric --epsilon 1 --move "11:adult->22:adult"

      tallyveil audit blocks.csv --codebook blocks.toml --epsilon 2 --neighbours search --learner trees

      tallyveil audit blocks.csv --codebook blocks.toml --rho 0.5 --delta 0.001 --runs 50000 -o audit
    """
    from tallyveil.cli.audit_words import show_audit
    from tallyveil.cli.clusters import cluster_place, opened
    from tallyveil.cli.reading import read_people
    from tallyveil.cli.tables import open_run_store, write_result
    from tallyveil.evaluate.audit.audit import check_audit
    from tallyveil.evaluate.audit.learners import check_learner
    from tallyveil.runs.batches import Execution
    from tallyveil.runs.pool import Batches, check_workers

    check_audit(runs, confidence, delta or 0.0)
    check_learner(learner.value)
    options.refuse_unless_resumable(output, "runs")
    check_workers(workers)
    place = cluster_place(cluster, workers=workers)
    searching, holds = _asked(neighbours or [], move=move, remove=remove)
    read = read_people(data, codebook, file_format, units=units)
    people = read.counts
    if mechanism is AuditedMechanism.topdown:
        run: TopDownRuns | SimpleRuns = audited_topdown(
            read, strategy, epsilon=epsilon, rho=rho, delta=delta, invariants=invariant or [],
            facilities=facilities, neighbours=holds, seed=seed,
        )  # fmt: skip
    else:
        refuse_topdown_options(mechanism, strategy=strategy, rho=rho, facilities=facilities, invariant=invariant)
        run = audited_simple(mechanism, epsilon, query=query, neighbours=holds or "replace-one", seed=seed, delta=delta)
    settings: dict[str, Any] = {"query": query, "runs": runs, "confidence": confidence, "learner": learner.value}
    job = _job(run, people, searching=searching, move=move, remove=remove, settings=settings)
    typer.echo(f"auditing {mechanism.value} on {people}\n{job.neighbours}", err=True)
    store = open_run_store(output, job.settings())
    done, resumable = 0 if store is None else job.made_before(store), store is not None
    work = Batches(run=run, people=people, batches=job.batches(), size=job.batch, done=done, resumable=resumable)
    remedy = "Audit a smaller tree (a bug shows in 8 leaves too)"
    with (
        opened(place) as elsewhere,
        work.made(workers, f"{runs:,} runs a side", remedy, long=long, elsewhere=elsewhere) as (pool_map, progress),
    ):
        result = job.audit(Execution(batch=job.batch, map=pool_map, store=store, progress=progress))
    write_result(result.as_json(), output, "audit.json")
    if as_json:
        options.emit_json(result.as_json())
    else:
        show_audit(result)
    if result.exceeds:
        raise typer.Exit(1)


def _asked(
    neighbours: list[Neighbours], *, move: str | None, remove: str | None
) -> tuple[bool, Literal["replace-one", "add-or-remove"] | None]:
    """Whether many pairs are compared, and the neighbours for which epsilon holds, if they are named."""
    searching = Neighbours.search in neighbours
    if searching and (move is not None or remove is not None):
        raise InputError("--neighbours search chooses D and D' itself. Leave out --move and --remove, or the search.")
    named = {word for word in neighbours if word is not Neighbours.search}
    if len(named) > 1:
        raise InputError("--neighbours replace-one and --neighbours add-or-remove are both given. Give one of them.")
    return searching, named.pop().value if named else None  # type: ignore[return-value]


def _job(
    run: TopDownRuns | SimpleRuns,
    people: Histogram,
    *,
    searching: bool,
    move: str | None,
    remove: str | None,
    settings: dict[str, Any],
) -> AuditJob | SearchJob:
    """The audit of one pair of neighbours or of many."""
    from tallyveil.auditing.audit_job import AuditJob
    from tallyveil.auditing.neighbours import choose_neighbour
    from tallyveil.auditing.search_job import SearchJob

    if searching:
        return SearchJob(mechanism=run, people=people, **settings)
    other, proven = choose_neighbour(people, run.proven, move=move, remove=remove)
    return AuditJob(mechanism=run, people=people, neighbour=other, proven=proven, **settings)
