"""``tallyveil risk choose``: the largest budget that keeps a bound on what an intruder learns."""

from __future__ import annotations

import time
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.privacy import Strategy
    from tallyveil.risk.budget.allocation import Allocation
    from tallyveil.risk.budget.choose import Choice
    from tallyveil.risk.budget.empirical import Empirical

AROUND = 8  # a curve's budgets reach from the chosen one divided by this to the chosen one times this
EVERY = 5.0  # seconds between lines of progress
BETWEEN = 8  # steps between two budgets that are printed, where figures are quick to compute


class On(StrEnum):
    """Measure that is bounded."""

    right_decision = "right-decision"
    risk = "risk"
    posterior = "posterior"


def choose(
    prior: Annotated[list[str], typer.Option(help="Prior of an intruder. Can be repeated; the bound holds for each.")],
    bound: Annotated[str, typer.Option(help="Value that the measure must not exceed at this or any smaller budget.")],
    on: Annotated[
        On, typer.Option(help="Measure: right decision (Eq. 18), risk R (Eq. 15) or average posterior (Eq. 14).")
    ],
    mechanism: Annotated[
        options.CountMechanism | None,
        typer.Option(help="Noise of a single count (default: gaussian). Not with --strategy."),
    ] = None,
    strategy: options.StrategyName = None,
    epsilon: Annotated[str | None, typer.Option(help="Epsilon of the strategy, in place of its own budget.")] = None,
    rho: Annotated[str | None, typer.Option(help="Rho of the strategy, in place of its own budget.")] = None,
    level: Annotated[
        str | None, typer.Option(help="Level of the strategy whose risk is bounded (default: the leaf level).")
    ] = None,
    detail_only: Annotated[
        bool, typer.Option("--detail-only", help="Use the detailed query only, as in the paper.")
    ] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Also tabulate risk and error for budgets around the chosen one.")
    ] = False,
    allocate: Annotated[
        bool,
        typer.Option("--allocate", help="Keep the budget, cap the level's share, and give the rest to levels above."),
    ] = False,
    output: options.NewFolder = None,
    as_json: options.Json = False,
) -> None:
    """Choose the largest budget that, like every smaller one, keeps an intruder's risk at or below a bound.

    The budget is for a single noisy count (rho: variance 1/(2 rho), as in Kazan & Reiter 2022; epsilon: ratio
    exp(-epsilon)), or for a whole strategy with its own shares and noise. The risk is that of the noisy
    counts, before post-processing.

    [bold]Examples[/bold]

      tallyveil risk choose --prior 1/5 --bound 0.29 --on right-decision

      tallyveil risk choose --mechanism geometric --prior 1/2 --prior 1/50 --bound 1.2 --on risk --curve -o curve

      tallyveil risk choose --strategy pl94-2020-us-persons --prior 1/50 --bound 1.05 --on risk --allocate -o moved
    """
    from tallyveil.cli.risk_choose_output import show_choice, write_choice
    from tallyveil.cli.strategies import find_strategy
    from tallyveil.files.atomic import refuse_unwritable
    from tallyveil.nouns.schema import DETAILED
    from tallyveil.privacy.calibrate import calibrated
    from tallyveil.risk.budget import allocation
    from tallyveil.risk.budget.choose import choose as choose_budget

    if output is not None:
        refuse_unwritable(output)
    if strategy is None and (level or detail_only or allocate or epsilon or rho):
        raise InputError(
            "--level, --detail-only, --allocate, --epsilon and --rho are for a strategy. Give --strategy S."
        )
    if strategy is not None and mechanism is not None:
        raise InputError("a strategy has its mechanism. Leave --mechanism or --strategy out.")
    plan = None if strategy is None else calibrated(find_strategy(strategy, epsilon=epsilon, rho=rho))
    measure: Any = on.value.replace("-", "_")
    if plan is not None:
        level = level or list(plan.levels)[-1]
    queries = [DETAILED] if detail_only else None
    counts: Any = {
        "mechanism": (mechanism or options.CountMechanism.gaussian).value,
        "strategy": plan,
        "level": level,
        "queries": queries,
    }
    choice = choose_budget(measure, bound, priors=prior, progress=_Tried(), **counts)
    moved = None
    if allocate and plan is not None:
        moved = allocation.allocate(plan, bound, measure, prior, level=level, queries=queries, choice=choice)
    table = _curve(choice, prior, **counts) if curve else None
    empirical = [] if plan is None else _empirical(plan, level or "", queries, prior)
    result = choice.as_json() | _of_strategy(plan, level or "", queries, empirical) | _tables(table, moved)
    if output is not None:
        write_choice(output, result, choice, table, moved)
    if as_json:
        options.emit_json(result)
        return
    show_choice(choice, plan, result, empirical, table, moved)
    if output is not None:
        typer.echo(f"written to {output}")


def _of_strategy(
    plan: Strategy | None, level: str, queries: list[str] | None, empirical: list[Empirical | None]
) -> dict[str, Any]:
    """What the bound is for, and the empirical epsilon, under their JSON keys; nothing for a single count."""
    from tallyveil.risk.budget.allocation import bounded_units

    if plan is None:
        return {}
    return {
        "level": level,
        "queries": queries or list(plan.queries[level]),
        "holds_for": bounded_units(plan, level),
        "empirical_epsilon": [None if found is None else found.as_json() for found in empirical],
    }


def _tables(table: pd.DataFrame | None, moved: Allocation | None) -> dict[str, Any]:
    """The allocation and the curve under their JSON keys, where they were asked for."""
    from tallyveil.cli.tables import records

    result: dict[str, Any] = {}
    if moved is not None:
        result["allocation"] = moved.as_json() | {name: records(frame) for name, frame in moved.frames().items()}
    if table is not None:
        result["curve"] = records(table)
    return result


class _Tried:
    """Reports on stderr every five seconds how many budgets were tried."""

    def __init__(self) -> None:
        self._reported = time.monotonic()

    def __call__(self, count: int) -> None:
        if time.monotonic() - self._reported > EVERY:
            self._reported = time.monotonic()
            typer.echo(f"searching for the budget: {count:,} tried", err=True)


def _curve(choice: Choice, priors: list[str], *, strategy: Strategy | None, **counts: Any) -> pd.DataFrame:
    """The curve for budgets around the chosen one (or around the strategy's budget, or 1), with progress."""
    import numpy as np

    from tallyveil.cli.risk_choose_output import SHOWN
    from tallyveil.risk.budget.curve import curve
    from tallyveil.runs.progress import Steps

    middle = choice.value or (strategy.budget if strategy is not None else Fraction(1))
    quick = strategy is None or counts["queries"] is not None  # one count
    factors = np.geomspace(1 / AROUND, AROUND, (SHOWN - 1) * (BETWEEN if quick else 1) + 1)
    budgets = [middle if factor == 1 else float(f"{float(middle) * factor:.6g}") for factor in factors.round(12)]
    with Steps("budgets", len(budgets)) as steps:

        def with_progress() -> Any:
            for budget in budgets:
                yield budget
                steps.step()

        return curve(with_progress(), priors=priors, strategy=strategy, **counts)


def _empirical(plan: Strategy, level: str, queries: list[str] | None, priors: list[str]) -> list[Empirical | None]:
    """The single counts that reveal as much as the strategy at its own budget; None where floats cannot tell."""
    from tallyveil.risk.budget.empirical import empirical_epsilon
    from tallyveil.risk.budget.exposures import exposures
    from tallyveil.risk.target.attacks import noises_of
    from tallyveil.risk.target.intruder import Intruder

    noises = noises_of(plan, level, queries=queries)
    empirical: list[Empirical | None] = []
    for exposure in exposures(noises, [Intruder(prior=prior) for prior in priors], 1):
        try:
            empirical.append(empirical_epsilon(exposure))
        except InputError:  # too near to the prior, or to 1
            empirical.append(None)
    return empirical
