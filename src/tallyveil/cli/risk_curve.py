"""``tallyveil risk curve``: what an intruder learns along a range of budgets, for every attack."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.privacy import Strategy

LARGEST = 1000  # points


def curve(
    prior: options.Priors = None,
    attack: options.AttackName = "characteristics",
    attribute: options.UnknownAttribute = None,
    query: options.UsedQueries = None,
    level: Annotated[
        list[str] | None,
        typer.Option(
            help="Level of the strategy whose counts are used (default: the leaf level). Can be repeated; the levels "
            "are then used together."
        ),
    ] = None,
    all_levels: Annotated[bool, typer.Option("--all-levels", help="Use the counts of all levels together.")] = False,
    mechanism: Annotated[
        options.CountMechanism | None,
        typer.Option(help="Noise of a single count (default: gaussian). Not with --strategy."),
    ] = None,
    strategy: options.StrategyName = None,
    unknown: options.UnknownPeople = 0,
    share: options.UnknownShare = None,
    low: Annotated[str, typer.Option("--from", help="Smallest budget.")] = "0.01",
    high: Annotated[str, typer.Option("--to", help="Largest budget.")] = "10",
    points: Annotated[int, typer.Option(help="Number of budgets, evenly spaced on a logarithmic scale.")] = 13,
    output: options.NewFolder = None,
    as_json: options.Json = False,
) -> None:
    """Tabulate what an intruder learns along a range of budgets: rho or, for geometric noise, epsilon.

    The budget is that of a single count, or of a whole strategy with its shares and its noise. Figures are averages
    over the noise, before post-processing: the average posterior (Eq. 14 of Kazan & Reiter 2022), risk R (Eq. 15) and
    the probability of a right decision (Eq. 18).

    [bold]Examples[/bold]

      tallyveil risk curve --prior 1/2 --prior 1/10

      tallyveil risk curve --strategy pl94-2020-us-persons --attack attribute --attribute hispanic --from 0.1 --to 20

      tallyveil risk curve --strategy pl94-2020-us-persons --level block --level block_group --unknown 10
    """
    from tallyveil.cli.strategies import find_strategy
    from tallyveil.cli.tables import records
    from tallyveil.files.atomic import refuse_unwritable
    from tallyveil.risk import Attack

    if output is not None:
        refuse_unwritable(output)
    if strategy is None and (level or all_levels or query or attribute):
        raise InputError("--level, --all-levels, --query and --attribute are for a strategy. Give --strategy S.")
    if strategy is not None and mechanism is not None:
        raise InputError("a strategy has its mechanism. Leave --mechanism or --strategy out.")
    if level and all_levels:
        raise InputError("--level and --all-levels are both given. Give one.")
    plan = None if strategy is None else find_strategy(strategy, epsilon="1")  # any budget, since the curve sets it
    asked = Attack(kind=attack, attribute=attribute, queries=query)  # type: ignore[arg-type]
    table = _tabulated(
        _budgets(low, high, points),
        priors=list(dict.fromkeys(prior or ["1/2"])),
        mechanism=(mechanism or options.CountMechanism.gaussian).value,
        strategy=plan,
        attack=asked,
        levels=_levels(plan, level, all_levels),
        unknown=unknown,
        share=share,
    )
    budget = plan.unit if plan is not None else "epsilon" if mechanism is options.CountMechanism.geometric else "rho"
    result = {"attack": attack, "budget": budget, "unknown": unknown, "curve": records(table)}
    if output is not None:
        _write(table, result, output)
    if as_json:
        options.emit_json(result)
        return
    _show(table, budget, attack)
    if output is not None:
        typer.echo(f"written to {output}")


def _levels(plan: Strategy | None, named: list[str] | None, every: bool) -> list[str] | None:
    if plan is None:
        return None
    return list(plan.levels) if every else list(dict.fromkeys(named)) if named else None


def _budgets(low: str, high: str, points: int) -> list[Fraction]:
    """Budgets of at most six digits, evenly spaced on a logarithmic scale, the two ends as they were given."""
    import numpy as np

    from tallyveil.privacy.budget import exact

    first, last = exact(low, "--from"), exact(high, "--to")
    if first >= last:
        raise InputError(f"--from must be below --to. Got {low} and {high} instead.")
    if not 2 <= points <= LARGEST:
        raise InputError(f"--points must be from 2 to {LARGEST:,}. Got {points:,} instead.")
    between = np.geomspace(float(first), float(last), points)[1:-1]
    return [first, *(Fraction(f"{value:.6g}") for value in between), last]


def _tabulated(budgets: list[Fraction], **settings: Any) -> pd.DataFrame:
    """The curve, with progress where it takes long."""
    from tallyveil.risk import curve as curve_of
    from tallyveil.runs.progress import Steps

    with Steps("budgets", len(budgets)) as steps:

        def with_progress() -> Any:
            for budget in budgets:
                yield budget
                steps.step()

        return curve_of(with_progress(), **settings)


def _write(table: pd.DataFrame, result: dict[str, Any], output: Any) -> None:
    from tallyveil.cli.tables import write_frames, write_result
    from tallyveil.files.atomic import new_folder

    with new_folder(output) as folder:
        write_frames({"curve": table}, folder, internal=False)
        write_result(result, folder, "curve.json")


def _show(table: pd.DataFrame, budget: str, attack: str) -> None:
    from tallyveil.cli.tables import print_table

    headings = {
        "budget": budget,
        "prior": "prior",
        "posterior": "average posterior",
        "risk": "risk R",
        "right_decision": "right decision",
    }
    if budget == "rho":
        headings = {"budget": "rho", "epsilon": "epsilon at delta"} | headings
    print_table(table, title=f"attack {attack!r}, along the budget", headings=headings)
    last = table[table.budget == table.budget.max()].sort_values("risk").iloc[-1]
    typer.echo(
        f"At {budget} {last.budget:g}, an intruder with prior {last.prior} has an average posterior of "
        f"{last.posterior:.3g} ({last.risk:.3g} times the prior) and is right about {last.right_decision:.1%} of such "
        f"targets."
    )
