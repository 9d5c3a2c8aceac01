"""``tallyveil account``: what a budget, a strategy, or releases together guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallyveil.privacy import Account
    from tallyveil.privacy.several_releases import Together
    from tallyveil.privacy.theorems import Conversion

OTHER = "*"  # the key of every attribute that a strategy does not name


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
    from tallyveil.files.ledger.of_release import loss_in
    from tallyveil.privacy.budget import text
    from tallyveil.privacy.several_releases import account_together, compose, cost_of, kinds_of
    from tallyveil.privacy.strategy import REPORTING_DELTA
    from tallyveil.privacy.theorems import conversions_of
    from tallyveil.release.guarantee_words import constraints_in_words, invariants_in_words

    twice = next((folder for i, folder in enumerate(folders) if folder.resolve() in _resolved(folders[:i])), None)
    if twice is not None:
        raise InputError(f"{twice} is named twice. Name each release once.")
    losses = {str(folder): loss_in(folder) for folder in folders}
    stated = {str(folder): _stated(folder) for folder in folders}
    costs = [cost_of(name, loss, stated[name]["measurement"]) for name, loss in losses.items()]
    together = compose(costs, delta=delta)
    counted = [losses[cost.name] for cost in together.counted]
    figures = account_together(counted, delta=delta)[0] if len(counted) == 1 else together.account
    one_kind = len(kinds_of(counted)) == 1  # otherwise, ``how`` names the theorems
    used = conversions_of(figures, delta=delta or REPORTING_DELTA) if one_kind else []
    budgets = {name: f"{loss.strategy.unit} {text(loss.strategy.budget)}" for name, loss in losses.items()}
    exact = {name: invariants_in_words(loss.strategy, loss.schema) for name, loss in losses.items()}
    held = {name: constraints_in_words(loss.strategy, loss.schema) for name, loss in losses.items()}
    stamps = {name: stated[name]["stamps"] for name in losses}
    populations = {name: stated[name]["population"] for name in losses}
    sentence = _in_a_sentence(figures, together, populations)
    if as_json:
        details = {"releases": budgets, "how": together.how, "stamps": stamps, "invariants": exact, "constraints": held}
        details |= {"populations": populations, "measurements": {name: stated[name]["measurement"] for name in losses}}
        details |= {"steps": list(together.steps), "sentence": sentence}
        options.emit_json({**figures.as_json(), **conversions_as_json(used), **details})
        return
    for name, budget in budgets.items():
        of = f", about {populations[name]}" if populations[name] else ""
        again = "" if any(cost.name == name for cost in together.counted) else " (a measurement counted above)"
        typer.echo(f"{name}: {budget}{of}{again}")
        for words in exact[name]:
            typer.echo(f"  outside the guarantee: {words}")
        for words in held[name]:
            typer.echo(f"  for neighbours that satisfy: {words}")
        for stamp in stamps[name]:
            typer.echo(f"  stamped: {stamp}")
    if len(counted) > 1:
        for step in together.steps:
            typer.echo(f"  {step}")
    print_account(figures, used, stamped=any(stamps.values()))
    typer.echo(f"\n{sentence}")
    if any(stamps.values()):
        typer.echo("A release above is stamped, so these figures are no guarantee for it as it stands.")


def _in_a_sentence(figures: Account, together: Together, populations: dict[str, str | None]) -> str:
    """What the releases cost together, in a sentence that a reader understands, and whose people they are."""
    from tallyveil.privacy.budget import up_to_digits
    from tallyveil.release.about import people_named

    releases, measured = len(populations), len(together.counted)
    at = "" if figures.delta is None else f" at delta {figures.delta:g}"
    many = f"These {releases} releases" if releases > 1 else "This release"
    once = f", made from {measured} measurement{'s' if measured > 1 else ''}," if measured < releases else ""
    cost = "cost" if releases > 1 else "costs"
    words = f"{many}{once} {cost} a person at most epsilon {up_to_digits(figures.epsilon, 4)}{at}"
    if measured > 1:
        words += f": {together.reason}"
    named = list({people_named(name): name for name in populations.values() if name is not None}.values())
    if len(named) > 1:
        return (
            f"{words}. They name different people ({'; '.join(named)}) and were added up as if a person could be in "
            f"all of them; if nobody is in two, the largest cost counts (tallyveil ledger FILE disjoint)."
        )
    return f"{words}, if all are about the same people." if releases > 1 and not named else f"{words}."


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
    from tallyveil.privacy.theorems import in_a_sentence

    return {"conversions": [one.as_json() for one in used], "reading": in_a_sentence(used)}


def print_account(figures: Account, used: Sequence[Conversion] = (), *, stamped: bool = False) -> None:
    """Print the figures as a table, with a word on what each means, and the theorem behind each conversion."""
    from rich.console import Console
    from rich.table import Table

    from tallyveil.privacy.budget import up_to_digits
    from tallyveil.privacy.theorems import in_a_sentence

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    at = "" if figures.delta is None else f" at delta {figures.delta:g}"
    by_pld = figures.accountant == "pld"
    what = f"{'the loss' if stamped else 'the guarantee'}{at}{', by privacy loss distribution' if by_pld else ''}"
    table.add_row("epsilon", rounded_up_text(figures.epsilon), what)
    if figures.rho is not None:
        table.add_row("rho", up_to_digits(figures.rho, 6), "the budget of zero-concentrated differential privacy")
    if by_pld and figures.zcdp_epsilon is not None:
        table.add_row("zcdp epsilon", rounded_up_text(figures.zcdp_epsilon), "what rho alone would give")
    elif figures.pld_epsilon is not None:
        table.add_row("pld epsilon", rounded_up_text(figures.pld_epsilon), "the same, computed more tightly")
    elif figures.pld_reason is not None:
        table.add_row("pld epsilon", "-", f"not computed: {figures.pld_reason}")
    if figures.implied_epsilon is not None:
        table.add_row("implied epsilon", f"{figures.implied_epsilon:.4f}", "sqrt(2 rho): to compare, not a guarantee")
    first = "what is revealed about one attribute of a person, to someone who knows all others"
    for name, value in (figures.per_attribute or {}).items():
        table.add_row(f"epsilon, {'any other attribute' if name == OTHER else name}", rounded_up_text(value), first)
        first = '"'
    first = "what is revealed about a person's place, to someone who knows their unit of this level"
    for name, value in (figures.within_level or {}).items():
        table.add_row(f"epsilon, within {name}", rounded_up_text(value), first)
        first = '"'
    Console().print(table)
    for one in used:
        sides = f"epsilon {one.epsilon:.4g}, delta {one.delta:g}, rho {one.rho:.4g}"
        typer.echo(f"Theorem {one.theorem}: {sides}: {one.words}.")
    if (reading := in_a_sentence(used)) is not None:
        typer.echo(reading)
    if by_pld:
        typer.echo(_less_noise(figures))
    if max((figures.per_attribute or {}).values(), default=0.0) > figures.epsilon:
        typer.echo(
            "Changing an attribute or a place takes one record out and puts another in: two counts differ, not one."
        )
    if figures.basis is not None:
        typer.echo(
            f"Per attribute and within levels {figures.basis}, which needs a spine: see a release's certificate."
        )


def _less_noise(figures: Account) -> str:
    """What accounting by privacy loss distribution gains, in a sentence."""
    from tallyveil.privacy.conversions import rho_from_epsilon

    assert figures.rho is not None
    assert figures.delta is not None
    by_zcdp = rho_from_epsilon(figures.epsilon, figures.delta)
    less = 1 - by_zcdp / figures.rho
    return (
        f"The guarantee is epsilon {rounded_up_text(figures.epsilon)} at delta {figures.delta:g}, by privacy loss "
        f"distribution. By zCDP, it would take rho {by_zcdp:.5g}: variances are {less:.1%} smaller."
    )


def rounded_up_text(value: float) -> str:
    """A loss to four decimals, rounded up.

    >>> rounded_up_text(17.14355074)
    '17.1436'
    """
    import math

    return f"{math.ceil(value * 10_000 - 1e-6) / 10_000:.4f}"
