"""``tallyveil audit``: run a mechanism many times on two neighbours, and bound its epsilon from below."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.cli.audited import SimpleRuns, TopDownRuns
    from tallyveil.evaluate.audit.audit import Audit, Bound
    from tallyveil.nouns.histogram import Histogram

BATCH = 250  # runs that are made, and kept, together
GAUSSIAN_DELTA = 1e-3  # what some thousand runs can still see
PLACES = 1 << 22  # noisy counts that a batch may hold


class Mechanism(StrEnum):
    """What can be audited from the command line."""

    topdown = "topdown"
    geometric = "geometric"
    raked = "raked"
    averaged = "averaged"


class Holds(StrEnum):
    """For which neighbours epsilon holds."""

    replace_one = "replace-one"
    add_or_remove = "add-or-remove"


def audit(
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file of people; few units.")],
    codebook: Annotated[Path, typer.Option(help="What its columns mean (TOML).")],
    mechanism: Annotated[Mechanism, typer.Option(help="What is audited.")] = Mechanism.topdown,
    strategy: Annotated[
        str | None, typer.Option(help="TopDown's: a preset's name or a TOML file (default: equal shares).")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="The budget, pure.")] = None,
    rho: Annotated[str | None, typer.Option(help="The budget, zero-concentrated (TopDown).")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Bound epsilon at this delta (default: 0; for Gaussian noise 0.001).")
    ] = None,
    neighbours: Annotated[
        Holds,
        typer.Option(help="For whom epsilon holds (geometric, raked, averaged; TopDown's strategy says it)."),
    ] = Holds.replace_one,
    query: Annotated[str, typer.Option(help="Which released counts are looked at.")] = "detailed",
    move: Annotated[
        str | None,
        typer.Option(metavar="UNIT:CELL->UNIT:CELL", help="D' has this person elsewhere (default: one far away)."),
    ] = None,
    remove: Annotated[str | None, typer.Option(metavar="UNIT:CELL", help="D' lacks this person.")] = None,
    runs: Annotated[int, typer.Option(help="On each side; half choose the event, half test it.")] = 20_000,
    confidence: Annotated[float, typer.Option(help="That the bound holds.")] = 0.95,
    facilities: Annotated[Path | None, typer.Option(help="Facilities by leaf and type, for bounds.")] = None,
    units: Annotated[Path | None, typer.Option(help="The public list of units, the empty ones too.")] = None,
    invariant: Annotated[
        list[str] | None, typer.Option(metavar="QUERY@LEVEL", help="Keep a query exactly at a level, as total@state.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the noise; these runs are not for publication.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes (default: all cores). The result is the same.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder for the runs; one that was begun is gone on with.")
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="Go on even if it takes more than an hour.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Bound a mechanism's epsilon from below: run it many times on neighbours D and D', and tell them apart.

    The best event is chosen on half of the runs and tested on the other. A bound above the proven epsilon is a bug or
    a wrong claim, and ends with exit code 1. What is printed comes from the true counts: for those who may see them.

    [bold]Examples[/bold]

      tallyveil audit blocks.csv --codebook blocks.toml --epsilon 2

      tallyveil audit blocks.csv --codebook blocks.toml --mechanism geometric --epsilon 1 --move "11:adult->22:adult"

      tallyveil audit blocks.csv --codebook blocks.toml --rho 0.5 --delta 0.001 --runs 50000 -o audit
    """
    from tallyveil.cli.audited import TopDownRuns, choose_neighbour
    from tallyveil.cli.reading import job_of
    from tallyveil.cli.runs import Batches, settings_of
    from tallyveil.cli.tables import write_internal
    from tallyveil.evaluate.audit.audit import audit as run_audit
    from tallyveil.evaluate.audit.audit import batch_names, check_audit
    from tallyveil.evaluate.audit.views import neighbours_in_words, views_of
    from tallyveil.files.release_folder.folder import refuse_existing
    from tallyveil.files.tables.read import read_counts
    from tallyveil.runs.store import FolderStore

    check_audit(runs, confidence, delta or 0.0)
    if output is not None and not (output / "runs" / "job.json").exists():
        refuse_existing(output)
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be 1 or more. Got {workers} instead.")
    people = read_counts(data, codebook, units=units)
    run = _mechanism(
        people,
        mechanism.value,
        strategy=strategy,
        epsilon=epsilon,
        rho=rho,
        delta=delta,
        neighbours=neighbours.value,
        query=query,
        invariants=invariant or [],
        facilities=facilities,
        seed=seed,
    )
    at = run.delta if mechanism is Mechanism.topdown else delta or 0.0  # type: ignore[union-attr]
    other, proven = choose_neighbour(people, run.proven, move=move, remove=remove)
    views = views_of(people, other, query=query)
    words = neighbours_in_words(people, other)
    typer.echo(f"auditing {mechanism.value} on {people}\n{words}", err=True)
    batch = max(1, min(BATCH, runs, PLACES // max(1, people.leaves.units * people.schema.query(query).size)))
    job = {
        "command": "audit",
        **job_of(people, run.facilities if isinstance(run, TopDownRuns) else None),
        **settings_of(run),
        "neighbours": words,
        "query": query,
    }
    store = None if output is None else FolderStore(output / "runs", job=job)
    if output is not None:
        write_internal(output)
    so_many, remedy = f"{runs:,} runs a side", "Audit a smaller tree (a bug shows in 8 leaves too)"
    work = Batches(run=run, people=people, names=batch_names(runs, batch), batch=batch, store=store)
    with work.made(workers, so_many, remedy, long=long) as (spread, progress):
        found = run_audit(
            run,
            people,
            other,
            runs=runs,
            views=views,
            confidence=confidence,
            delta=at,
            proven=proven,
            batch=batch,
            map=spread,
            store=store,
            progress=progress,
        )
    if output is not None:
        _write(found, output)
    _show(found, as_json=as_json)
    if found.exceeds:
        raise typer.Exit(1)


def _mechanism(people: Histogram, name: str, **given: Any) -> TopDownRuns | SimpleRuns:
    """The mechanism that was asked for."""
    from tallyveil.cli.audited import SimpleRuns, TopDownRuns
    from tallyveil.cli.protect import choose_strategy, find_facilities
    from tallyveil.privacy.budget import exact

    strategy, epsilon, rho = given["strategy"], given["epsilon"], given["rho"]
    if name == "topdown":
        if epsilon is None and rho is None and strategy is None:
            raise InputError("audit needs a budget: --epsilon E, --rho R, or a --strategy that has one.")
        chosen = choose_strategy(people, strategy, epsilon=epsilon, rho=rho, delta=None, invariants=given["invariants"])
        built = find_facilities(given["facilities"], chosen, people)
        delta = given["delta"]
        if delta is None:
            delta = 0.0 if chosen.mechanism == "geometric" else GAUSSIAN_DELTA
        if chosen.mechanism == "gaussian" and not delta > 0:
            raise InputError(
                "Gaussian noise has an epsilon only at a delta above 0. Use --delta 0.001, or leave it out."
            )
        return TopDownRuns(strategy=chosen, facilities=built, seed=given["seed"], delta=float(delta))
    for option in ("strategy", "rho", "facilities"):
        if given[option] is not None:
            raise InputError(f"--{option} is for --mechanism topdown. {name} takes --epsilon only.")
    if given["invariants"]:
        raise InputError(f"--invariant is for --mechanism topdown. {name} keeps nothing exactly.")
    if epsilon is None:
        raise InputError(f"audit --mechanism {name} needs a budget: --epsilon E.")
    return SimpleRuns(
        name=name,  # type: ignore[arg-type]
        epsilon=exact(epsilon, "epsilon"),
        query=given["query"],
        neighbours=given["neighbours"],
        seed=given["seed"],
    )


def _write(found: Audit, output: Path) -> None:
    from tallyveil.files.atomic import replacing

    with replacing(output / "audit.json") as file:
        text = json.dumps(found.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
        file.write_text(text + "\n", encoding="utf-8")


def _show(found: Audit, *, as_json: bool) -> None:
    """Print the bound, what shows it, and what to think of it."""
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=2, ensure_ascii=False, allow_nan=False))
        return
    sure = f"with {100 * found.confidence:g}% confidence"
    lines = {
        "neighbours": found.neighbours,
        "epsilon": f"at least {found.epsilon_low:.4g}, {sure} ({found.runs:,} runs on each, half to choose the event)",
        "event": _event(found.bound),
        "one count": _line(found.one_unit),
        "several": _line(found.joint),
        "proven": "-" if found.proven is None else f"{found.proven:.4g}, for these neighbours",
        "verdict": found.verdict,
    }
    if found.delta:
        lines["epsilon"] += f", at delta {found.delta:g}"
    for name, text in lines.items():
        typer.echo(f"{name:<12}{text}")


def _event(bound: Bound) -> str:
    more, less = ("D", "D'") if bound.direction == "D over D'" else ("D'", "D")
    return (
        f"{bound.event}: in {100 * bound.p:.3g}% of the runs on {more} (at least {100 * bound.p_low:.3g}%), "
        f"in {100 * bound.q:.3g}% of those on {less} (at most {100 * bound.q_high:.3g}%)"
    )


def _line(bound: Bound | None) -> str:
    return "-" if bound is None else f"at least {bound.epsilon_low:.4g}: {bound.event}"
