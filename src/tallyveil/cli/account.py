"""``tallyveil account``: what a budget, a strategy, or releases together guarantee."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallyveil.privacy.guarantee import Account, Guarantee
    from tallyveil.privacy.theorems import Conversion


def account(
    rho: options.Rho = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Epsilon to convert; with --strategy, the budget of the strategy.")
    ] = None,
    delta: options.DeltaText = None,
    strategy: options.StrategyName = None,
    accounting: options.Accounting = None,
    release: Annotated[
        list[Path] | None,
        typer.Option(
            help="Release folder. The losses of several releases about the same people are added up; releases made "
            "from one measurement count once."
        ),
    ] = None,
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[RELEASE]...", help="Further release folders.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Convert a privacy-loss budget, or compute the total loss of a strategy or of several releases.

    Each budget is shown with both conversions of Kazan & Reiter (2022) and a sentence that says which one applies.
    Theorem 3 is for Gaussian noise, whose epsilon holds at delta: epsilon 1 at delta 1e-10 is rho 0.0132. Theorem 2 is
    for geometric noise, whose epsilon is pure: epsilon 1 is rho 0.5.

    [bold]Examples[/bold]

      tallyveil account --rho 2.56 --delta 1e-10

      tallyveil account --epsilon 1 --delta 1e-6

      tallyveil account --strategy pl94-2020-us-persons --json

      tallyveil account --strategy pl94-2020-us-persons --accounting pld

      tallyveil account --release release_2025 release_2026
    """
    from tallyveil.cli.strategies import accounted, find_strategy
    from tallyveil.privacy import account_of, account_of_epsilon, account_of_rho
    from tallyveil.privacy.strategy import REPORTING_DELTA
    from tallyveil.privacy.theorems import conversions_from_epsilon, conversions_of

    if release:
        if (rho, epsilon, strategy, accounting) != (None, None, None, None):
            raise InputError(
                "--release has a budget of its own. Leave out --rho, --epsilon, --strategy and --accounting."
            )
        account_releases([*release, *(more or [])], delta=delta, as_json=as_json)
        return
    if more:
        raise InputError(f"{more[0]}: unexpected argument. Release folders come after --release.")
    if accounting is not None and strategy is None:
        raise InputError("--accounting is for the noise of a strategy. Add --strategy S.")
    if strategy is not None:
        named = find_strategy(strategy, epsilon=epsilon, rho=rho)
        figures = account_of(accounted(named, accounting.value if accounting else None), delta=delta)
    elif (rho is None) == (epsilon is None):
        raise InputError(
            "account needs one of --rho, --epsilon, --strategy or --release. For example: --rho 2.56 --delta 1e-10"
        )
    elif rho is not None:
        figures = account_of_rho(rho, delta or "1e-10")
    else:
        figures = account_of_epsilon(epsilon or "", delta or "1e-10")
    from_epsilon = strategy is None and epsilon is not None
    used = (
        conversions_from_epsilon(figures, epsilon or "")
        if from_epsilon
        else conversions_of(figures, delta=delta or REPORTING_DELTA)
    )
    if as_json:
        options.emit_json(figures.as_json() | conversions_as_json(used))
    else:
        print_account(figures, used)


def account_releases(folders: list[Path], *, delta: str | None, as_json: bool) -> None:
    """Print what releases of the same people guarantee together, each on the spine that it was measured on."""
    from tallyveil.files.ledger.of_release import content_of, loss_in
    from tallyveil.privacy import sentences
    from tallyveil.privacy.guarantee import account_of_loss, constraints_in_words, invariants_in_words
    from tallyveil.privacy.several_releases import compose, cost_of, refuse_contradiction
    from tallyveil.privacy.strategy import REPORTING_DELTA
    from tallyveil.privacy.theorems import conversions_of
    from tallyveil.release.about import people_named

    twice = next((folder for i, folder in enumerate(folders) if folder.resolve() in _resolved(folders[:i])), None)
    if twice is not None:
        raise InputError(f"{twice} is named twice. Name each release once.")
    losses = {str(folder): loss_in(folder) for folder in folders}
    stated = {str(folder): _stated(folder) for folder in folders}
    costs = [cost_of(name, loss, stated[name]["measurement"]) for name, loss in losses.items()]
    known = [cost.measurement for cost in costs]
    shared = [c for c in costs if c.measurement is not None and known.count(c.measurement) > 1]
    shared = [replace(c, content=content_of(Path(c.name), losses[c.name])) for c in shared]
    for i, cost in enumerate(shared):
        refuse_contradiction(cost, shared[:i])
    together = compose(costs, delta=delta)
    how, _, steps = sentences.composed(together)
    counted = [losses[cost.name] for cost in together.counted]
    figures = together.account
    if len(counted) == 1:
        figures = account_of_loss(counted[0], delta=delta)
    one_kind = len({loss.strategy.mechanism for loss in counted}) == 1  # otherwise, ``how`` names the theorems
    used = conversions_of(figures, delta=delta or REPORTING_DELTA) if one_kind else []
    budgets = {
        name: sentences.budget({loss.strategy.unit: loss.strategy.budget}, loss.rows_per_person)
        for name, loss in losses.items()
    }
    exact = {name: invariants_in_words(loss.strategy, loss.schema) for name, loss in losses.items()}
    held = {name: constraints_in_words(loss.strategy, loss.schema) for name, loss in losses.items()}
    stamps = {name: stated[name]["stamps"] for name in losses}
    populations = {name: stated[name]["population"] for name in losses}
    named = len({people_named(name) for name in populations.values() if name is not None})
    sentence = sentences.cost_together(figures, together, populations, named, stamped=any(stamps.values()))
    if as_json:
        details = {"releases": budgets, "how": how, "stamps": stamps, "invariants": exact, "constraints": held}
        details |= {"populations": populations, "measurements": {name: stated[name]["measurement"] for name in losses}}
        details |= {"steps": list(steps), "sentence": sentence}
        options.emit_json({**figures.as_json(), **conversions_as_json(used), **details})
        return
    for name, budget in budgets.items():
        of = f", about {populations[name]}" if populations[name] else ""
        again = "" if any(cost.name == name for cost in together.counted) else " (a measurement counted above)"
        typer.echo(f"{name}: {budget}{of}{again}")
        for line in sentences.conditions(exact[name], held[name], stamps[name]):
            typer.echo(line)
    if len(counted) > 1:
        for step in steps:
            typer.echo(f"  {step}")
    print_account(figures, used, stamped=any(stamps.values()))
    typer.echo(f"\n{sentence}")


def _stated(folder: Path) -> dict[str, Any]:
    """The stamps, the population and the measurement that a release's certificate states, if it has one."""
    from tallyveil.files.release_folder.certificate_file import read_certificate, stamps_of

    certificate = read_certificate(folder) if (folder / "certificate.json").is_file() else {}
    declared = certificate.get("declared")
    return {
        "stamps": list(stamps_of(certificate)),
        "population": declared.get("population") if isinstance(declared, dict) else None,
        "measurement": certificate.get("measurement"),
    }


def _resolved(folders: list[Path]) -> set[Path]:
    return {folder.resolve() for folder in folders}


def conversions_as_json(used: Sequence[Conversion]) -> dict[str, Any]:
    """The conversions under their JSON keys, and the sentence that tells them apart."""
    from tallyveil.privacy.sentences import reading

    return {"conversions": [one.as_json() for one in used], "reading": reading(used)}


def print_account(
    figures: Account, used: Sequence[Conversion] = (), *, promised: Guarantee | None = None, stamped: bool = False
) -> None:
    """Print the figures as a table, with a word on what each means, and the theorem behind each conversion."""
    from rich.console import Console
    from rich.table import Table

    from tallyveil.privacy import sentences

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for row in sentences.rows(figures, promised, stamped=stamped):
        table.add_row(*row)
    Console().print(table)
    reading = sentences.reading(used)
    for line in [*map(sentences.conversion, used), *([] if reading is None else [reading]), *sentences.notes(figures)]:
        typer.echo(line)
