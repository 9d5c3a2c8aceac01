"""``tallyveil strategy``: write a strategy for one's own levels and attributes, with a comment beside each line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallyveil.nouns.schema import Schema
    from tallyveil.nouns.spine import Spine
    from tallyveil.privacy import Invariant, Strategy


def strategy(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="DATA|UNITS",
            help="Table with the geographic columns: the data, or the list of units. Its counts are not read.",
        ),
    ],
    codebook: options.Codebook,
    output: Annotated[Path, typer.Option("--output", "-o", help="TOML file to write; it must not exist yet.")],
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    accounting: options.Accounting = None,
    invariant: options.Invariants = None,
    preset: Annotated[
        str | None, typer.Option(help="Published strategy to start from, instead of equal shares (see presets list).")
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="NAMES",
            help='What the names of the preset are called here: pairs such as "county=lad, race=ethnicity", or a TOML '
            "file with the sections levels and attributes. Names that are equal need no pair.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a strategy for your own levels and attributes, ready to edit.

    It follows from names and units alone; no count is read. Nothing is spent on what is exact: queries that invariants
    fix get no share. Without a preset, the strategy is the one that protect uses by default: equal shares for levels,
    and for total, each attribute and detailed. A preset is fitted to the data by a table of names. Its levels and
    attributes without a counterpart are left out, and all other shares are rescaled by one factor; a level of the data
    without a counterpart is an error.

    [bold]Examples[/bold]

      tallyveil strategy units.csv --codebook blocks.toml --epsilon 1 --invariant total@county -o mine.toml

      tallyveil strategy oas.csv --codebook oas.toml --preset pl94-2020-us-persons --map names.toml -o mine.toml
    """
    from tallyveil.cli.allocate_inputs import is_list_of_units
    from tallyveil.cli.presets import print_noise, write_new
    from tallyveil.cli.strategies import parse_invariants
    from tallyveil.files.tables.codebook_toml import read_codebook
    from tallyveil.files.tables.geography import read_spine
    from tallyveil.privacy.calibrate import calibrated
    from tallyveil.privacy.strategy_comments import commented_toml
    from tallyveil.release.plan import planned_noise

    book = read_codebook(codebook)
    spine, schema = read_spine(table, book), book.schema
    declared = parse_invariants(invariant or [], spine, schema)
    chosen, notes = _made(preset, names, spine, schema, declared, epsilon=epsilon, rho=rho, accounting=accounting)
    exactness = chosen.exactness(spine, schema)
    exact = chosen.exact_pairs(exactness)
    write_new(commented_toml(chosen, exactness, notes=notes), output)
    chosen = calibrated(chosen, spine=spine, schema=schema)
    if as_json:
        noise = [one.as_json() for one in planned_noise(chosen, exact)]
        options.emit_json({"file": str(output), "strategy": chosen.name, "noise": noise, "notes": list(notes)})
        return
    print_noise(chosen, exact)
    for note in notes:
        typer.echo(note)
    typer.echo(f"{output} was written from names and units alone; no count was read. Edit it, then use it:")
    data, units = ("DATA", f" --units {table}") if is_list_of_units(table, book) else (table, "")
    typer.echo(f"  tallyveil protect {data} --codebook {codebook}{units} --strategy {output} --plan")


def _made(
    preset: str | None,
    names: str | None,
    spine: Spine,
    schema: Schema,
    invariants: Sequence[Invariant],
    *,
    epsilon: str | None,
    rho: str | None,
    accounting: options.AccountingName | None,
) -> tuple[Strategy, tuple[str, ...]]:
    """The default strategy, or a preset under other names with notes on what was left out."""
    from tallyveil.cli.strategies import accounted
    from tallyveil.privacy import Strategy
    from tallyveil.privacy.preset_mapping import mapped_preset, read_names

    accountant: Any = accounting.value if accounting else None
    if preset is not None:
        published = accounted(Strategy.preset(preset, epsilon=epsilon, rho=rho), accountant)
        levels, attributes = ({}, {}) if names is None else read_names(names, published)
        mapped = mapped_preset(published, spine, schema, levels=levels, attributes=attributes, invariants=invariants)
        mapped.strategy.check(spine, schema)
        return mapped.strategy, mapped.notes
    if names is not None:
        raise InputError("--map gives the names of a preset. Add --preset NAME, or leave --map out.")
    if (epsilon is None) == (rho is None):
        raise InputError("a strategy needs one budget: --epsilon E (geometric noise) or --rho R (Gaussian noise).")
    made = Strategy.default(
        spine, schema, epsilon=epsilon, rho=rho, invariants=invariants, accounting=accountant or "zcdp"
    )
    return accounted(made, accountant), ()
