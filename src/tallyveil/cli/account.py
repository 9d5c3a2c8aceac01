"""``tallyveil account``: what a budget, a strategy, or releases together guarantee."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.privacy import Account


def account(
    rho: Annotated[str | None, typer.Option(help="Budget of zero-concentrated privacy, such as 2.56 or 1/2.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Wanted epsilon; with a strategy, its budget.")] = None,
    delta: Annotated[str | None, typer.Option(help="Failure probability (default 1e-10).")] = None,
    strategy: Annotated[str | None, typer.Option(help="A preset's name or a strategy's TOML file.")] = None,
    release: Annotated[
        list[Path] | None, typer.Option(help="A release's folder; several about the same people are added up.")
    ] = None,
    more: Annotated[list[Path] | None, typer.Argument(help="Further releases.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Convert a privacy loss, or add up a strategy's or several releases'.

    [bold]Examples[/bold]

      tallyveil account --rho 2.56 --delta 1e-10

      tallyveil account --epsilon 1 --delta 1e-6

      tallyveil account --strategy pl94-2020-us-persons --json

      tallyveil account --release release_2025 release_2026
    """
    from tallyveil.cli.strategies import find_strategy
    from tallyveil.privacy import account_of, account_of_epsilon, account_of_rho

    if release:
        if (rho, epsilon, strategy) != (None, None, None):
            raise InputError("--release has a budget of its own. Leave out --rho, --epsilon and --strategy.")
        account_releases([*release, *(more or [])], delta=delta, as_json=as_json)
        return
    if more:
        raise InputError(f"{more[0]}: what is it? Folders of releases come after --release.")
    if strategy is not None:
        figures = account_of(find_strategy(strategy, epsilon=epsilon, rho=rho), delta=delta)
    elif (rho is None) == (epsilon is None):
        raise InputError(
            "account needs one of --rho, --epsilon, --strategy or --release. For example: --rho 2.56 --delta 1e-10"
        )
    elif rho is not None:
        figures = account_of_rho(rho, delta or "1e-10")
    else:
        figures = account_of_epsilon(epsilon or "", delta or "1e-10")
    if as_json:
        typer.echo(json.dumps(figures.as_json(), indent=2))
    else:
        print_account(figures)


def account_releases(folders: list[Path], *, delta: str | None, as_json: bool) -> None:
    """Print what releases of the same people guarantee together. Only their strategies are read."""
    from tallyveil.privacy.budget import text
    from tallyveil.privacy.strategy_toml import read_strategy
    from tallyveil.privacy.together import account_together

    twice = next((folder for i, folder in enumerate(folders) if folder.resolve() in _resolved(folders[:i])), None)
    if twice is not None:
        raise InputError(f"{twice} is named twice. Name each release once.")
    strategies = {}
    for folder in folders:
        if not (folder / "strategy.toml").is_file():
            raise InputError(f"{folder}: no strategy.toml in it. Give the folder of a release.")
        strategies[str(folder)] = read_strategy(folder / "strategy.toml")
    figures, how = account_together(list(strategies.values()), delta=delta)
    budgets = {name: f"{strategy.unit} {text(strategy.budget)}" for name, strategy in strategies.items()}
    if as_json:
        typer.echo(json.dumps({**figures.as_json(), "releases": budgets, "how": how}, indent=2))
        return
    for name, budget in budgets.items():
        typer.echo(f"{name}: {budget}")
    typer.echo(f"together ({how}):")
    print_account(figures)


def _resolved(folders: list[Path]) -> set[Path]:
    return {folder.resolve() for folder in folders}


def print_account(figures: Account) -> None:
    """Print the figures as a table, with a word on what each means."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    at = "" if figures.delta is None else f" at delta {figures.delta:g}"
    table.add_row("epsilon", up(figures.epsilon), f"the guarantee{at}")
    if figures.rho is not None:
        table.add_row("rho", f"{figures.rho:.6g}", "the zCDP budget")
    if figures.pld_epsilon is not None:
        table.add_row("pld epsilon", up(figures.pld_epsilon), "the same guarantee, computed more tightly")
    if figures.implied_epsilon is not None:
        table.add_row("implied epsilon", f"{figures.implied_epsilon:.4f}", "sqrt(2 rho): to compare, no guarantee")
    first = "told about one attribute of a person"
    for name, value in (figures.per_attribute or {}).items():
        table.add_row(f"epsilon, {name}", up(value), first)
        first = '"'
    first = "told about the place, to who knows this much of it"
    for name, value in (figures.within_level or {}).items():
        table.add_row(f"epsilon, within {name}", up(value), first)
        first = '"'
    Console().print(table)


def up(value: float) -> str:
    """A loss to four decimals, rounded up.

    >>> up(17.14355074)
    '17.1436'
    """
    import math

    return f"{math.ceil(value * 10_000 - 1e-6) / 10_000:.4f}"
