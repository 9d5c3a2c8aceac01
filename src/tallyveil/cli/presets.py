"""``tallyveil presets``: the published strategies, listed, shown or written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options
from tallyveil.cli.tables import figure
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallyveil.privacy import Strategy


app = typer.Typer(help="List the published strategies, show the noise of one, or write one as a TOML file.")

Name = Annotated[str, typer.Argument(help="Name of a preset.")]
PresetEpsilon = Annotated[
    str | None, typer.Option(help="Budget as epsilon, instead of the preset's own (default for e2e-2018: 1).")
]
PresetRho = Annotated[str | None, typer.Option(help="Budget as rho, instead of the preset's own.")]


@app.command("list")
def list_presets(as_json: options.Json = False) -> None:
    """List the published strategies.

    [bold]Example[/bold]

      tallyveil presets list
    """
    from tallyveil.privacy.presets import PRESETS

    if as_json:
        options.emit_json(dict(PRESETS))
        return
    width = max(map(len, PRESETS))
    for name, description in PRESETS.items():
        typer.echo(f"{name:<{width}}  {description}")
    typer.echo(
        '\n"tallyveil presets show NAME" shows the noise of one, and "presets write" makes a file of it to edit.'
    )


@app.command("show")
def show_preset(
    name: Name,
    epsilon: PresetEpsilon = None,
    rho: PresetRho = None,
    accounting: options.Accounting = None,
    as_json: options.Json = False,
) -> None:
    """Show the noise that a strategy adds to each query at each level.

    [bold]Example[/bold]

      tallyveil presets show pl94-2020-us-persons
    """
    from tallyveil.privacy.calibrate import calibrated

    strategy = calibrated(_preset(name, epsilon, rho, accounting))
    if as_json:
        options.emit_json(spends_as_json(strategy))
    else:
        print_noise(strategy)
        typer.echo(
            f"\nTo protect counts with it: tallyveil protect DATA --strategy {name}. Levels and attributes with other "
            f'names are fitted by "tallyveil strategy --preset {name} --map NAMES".'
        )


@app.command("write")
def write_preset(
    name: Name,
    output: Annotated[Path, typer.Option("--output", "-o", help="TOML file to write; it must not exist yet.")],
    epsilon: PresetEpsilon = None,
    rho: PresetRho = None,
    accounting: options.Accounting = None,
) -> None:
    """Write a strategy as a TOML file, to use as it is or as a starting point.

    [bold]Example[/bold]

      tallyveil presets write e2e-2018 --epsilon 0.5 -o mine.toml
    """
    from tallyveil.privacy.strategy_toml import strategy_to_toml

    write_new(strategy_to_toml(_preset(name, epsilon, rho, accounting)), output)
    typer.echo(f"{output} was written. Edit it, then use it: tallyveil protect DATA --strategy {output}", err=True)


def write_new(text: str, output: Path) -> None:
    """Write a text file that does not exist yet."""
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{output} exists. Name a new file; nothing is overwritten.") from None
    except OSError as problem:
        raise InputError(f"{output} cannot be written ({problem.strerror}). Name another file.") from None


def _preset(
    name: str, epsilon: str | None, rho: str | None, accounting: options.AccountingName | None = None
) -> Strategy:
    from tallyveil.cli.strategies import accounted
    from tallyveil.privacy import Strategy

    if name == "e2e-2018" and epsilon is None and rho is None:
        typer.echo("e2e-2018 takes any epsilon: here 1. Choose with --epsilon.", err=True)
        epsilon = "1"
    return accounted(Strategy.preset(name, epsilon=epsilon, rho=rho), accounting.value if accounting else None)


def spends_as_json(strategy: Strategy) -> list[dict[str, str | float]]:
    """Each measurement with its share (exact) and the standard deviation of its noise."""
    return [
        {
            "level": spend.level,
            "query": spend.query,
            "share": str(spend.share),
            "sd": spend.noise.actual_variance() ** 0.5,
        }
        for spend in strategy.spends()
    ]


def print_noise(strategy: Strategy, exact: Sequence[tuple[str, str]] = ()) -> None:
    """Print the standard deviation of every query's noise, levels across; ``exact`` are (query, level) pairs."""
    title = f"Standard deviation of the noise{f', {strategy.name}' if strategy.name else ''}"
    shares = ["share of the budget", *(percent(float(share)) for share in strategy.levels.values())]
    rows = [
        [query, *(_sd(strategy, level, query, exact) for level in strategy.levels)]
        for query in shown_queries(strategy, exact)
    ]
    print_by_level(title, list(strategy.levels), [shares, *rows])


def print_by_level(title: str, levels: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print texts by query and level, levels across, under a title as wide as it needs to be."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("query")
    for level in levels:
        table.add_column(level, justify="right")
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False)  # brackets in names are names
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    console.print(table)


def percent(share: float) -> str:
    """A share in percent, with two digits that count.

    >>> percent(1 / 3), percent(0.0254), percent(0.00176), percent(1)
    ('33%', '2.5%', '0.18%', '100%')
    """
    return f"{float(f'{100 * share:.2g}'):g}%"


def shown_queries(strategy: Strategy, exact: Sequence[tuple[str, str]]) -> list[str]:
    """The rows of a table of noise: queries that are exact somewhere, then those that are measured."""
    measured = [query for level in reversed(list(strategy.queries.values())) for query in level]
    return list(dict.fromkeys([*(query for query, _ in exact), *measured]))


def _sd(strategy: Strategy, level: str, query: str, exact: Sequence[tuple[str, str]]) -> str:
    if (query, level) in exact:
        return "exact"
    if query not in strategy.queries[level]:
        return "-"
    return figure(strategy.noise(level, query).actual_variance() ** 0.5)
