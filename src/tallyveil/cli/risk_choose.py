"""``tallyveil risk choose``: the largest budget that keeps a bound on what an intruder learns."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.options import Epsilon, Json, Rho, StrategyName, emit_json
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.privacy import Strategy
    from tallyveil.risk.budget.allocation import Allocation
    from tallyveil.risk.budget.choose import Choice
    from tallyveil.risk.budget.empirical import Empirical

MEASURES = {
    "right_decision": "the probability that a target is rightly claimed",
    "risk": "R, the average posterior over the prior,",
    "posterior": "the average posterior",
}
AROUND = 8  # a curve's budgets reach from the chosen one over this to it times this
EVERY = 5.0  # seconds between lines of progress
SHOWN, BETWEEN = 17, 8  # how many are printed, and into how many steps each is divided where figures are quick


class Mechanism(StrEnum):
    """Noise of a single count."""

    gaussian = "gaussian"
    geometric = "geometric"


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
        Mechanism | None, typer.Option(help="Noise of a single count (default: gaussian). Not with --strategy.")
    ] = None,
    strategy: StrategyName = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
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
    output: Annotated[Path | None, typer.Option("--output", "-o", help="New folder for tables and a plot.")] = None,
    as_json: Json = False,
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
    from tallyveil.cli.strategies import find_strategy
    from tallyveil.files.atomic import refuse_existing
    from tallyveil.nouns.schema import DETAILED
    from tallyveil.risk.budget.allocation import allocate as move
    from tallyveil.risk.budget.allocation import holds_for
    from tallyveil.risk.budget.choose import choose as find

    if output is not None:
        refuse_existing(output)
    if strategy is None and (level or detail_only or allocate or epsilon or rho):
        raise InputError(
            "--level, --detail-only, --allocate, --epsilon and --rho are for a strategy. Give --strategy S."
        )
    if strategy is not None and mechanism is not None:
        raise InputError("a strategy has its mechanism. Leave --mechanism or --strategy out.")
    plan = None if strategy is None else find_strategy(strategy, epsilon=epsilon, rho=rho)
    measure: Any = on.value.replace("-", "_")
    at = None if plan is None else level or list(plan.levels)[-1]
    queries = [DETAILED] if detail_only else None
    noise: Any = (mechanism or Mechanism.gaussian).value
    chosen = find(
        measure, bound, priors=prior, mechanism=noise, strategy=plan, level=at, queries=queries, progress=_Tried()
    )
    moved = None
    if allocate and plan is not None:
        moved = move(plan, bound, measure, prior, level=at, queries=queries, choice=chosen)
    table = _curve(chosen, prior, mechanism=noise, strategy=plan, level=at, queries=queries) if curve else None
    told = chosen.as_json()
    empirical = [] if plan is None else _empirical(plan, at or "", queries, prior)
    if plan is not None and at is not None:
        told |= {"level": at, "queries": queries or list(plan.queries[at]), "holds_for": holds_for(plan, at)}
        told["empirical_epsilon"] = [None if one is None else one.as_json() for one in empirical]
    if moved is not None:
        told["allocation"] = moved.as_json()
    if table is not None:
        from tallyveil.cli.tables import records

        told["curve"] = records(table)
    if output is not None:
        _write(output, told, chosen, table, moved)
    if as_json:
        emit_json(told)
        return
    _show(chosen, plan, told, empirical, table, moved)
    if output is not None:
        typer.echo(f"written to {output}")


class _Tried:
    """Says on stderr how many budgets were tried, every five seconds."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def __call__(self, count: int) -> None:
        if time.monotonic() - self._told > EVERY:
            self._told = time.monotonic()
            typer.echo(f"looking for the budget: {count:,} tried", err=True)


def _curve(chosen: Choice, priors: list[str], *, strategy: Strategy | None, **asked: Any) -> pd.DataFrame:
    """Budgets around the chosen one (or the strategy's, or 1), with progress."""
    import numpy as np

    from tallyveil.risk.budget.curve import curve
    from tallyveil.runs.progress import Steps

    middle = chosen.value or (strategy.budget if strategy is not None else Fraction(1))
    quick = strategy is None or asked["queries"] is not None  # one count
    factors = np.geomspace(1 / AROUND, AROUND, (SHOWN - 1) * (BETWEEN if quick else 1) + 1)
    budgets = [middle if factor == 1 else float(f"{float(middle) * factor:.6g}") for factor in factors.round(12)]
    with Steps("budgets", len(budgets)) as steps:

        def one_by_one() -> Any:
            for budget in budgets:
                yield budget
                steps.step()

        return curve(one_by_one(), priors=priors, strategy=strategy, **asked)


def _empirical(plan: Strategy, level: str, queries: list[str] | None, priors: list[str]) -> list[Empirical | None]:
    """Which single count would tell as much as the strategy at its own budget; None where floats cannot tell."""
    from tallyveil.risk.budget.empirical import empirical_epsilon
    from tallyveil.risk.budget.exposures import exposures
    from tallyveil.risk.target.attacks import noises_of
    from tallyveil.risk.target.intruder import Intruder

    noises = noises_of(plan, level, queries=queries)
    found: list[Empirical | None] = []
    for one in exposures(noises, [Intruder(prior=prior) for prior in priors], 1):
        try:
            found.append(empirical_epsilon(one))
        except InputError:  # next to the prior, or to 1
            found.append(None)
    return found


def _write(
    folder: Path, told: dict[str, Any], chosen: Choice, table: pd.DataFrame | None, moved: Allocation | None
) -> None:
    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.atomic import new_folder
    from tallyveil.privacy.strategy_toml import strategy_to_toml
    from tallyveil.report.plots import write_plot
    from tallyveil.report.risk_plots import risk_curve_plot

    with new_folder(folder) as place:
        (place / "choice.json").write_text(json.dumps(told, indent=2, ensure_ascii=False), encoding="utf-8")
        if moved is not None:
            frames = {name: frame for name, frame in moved.frames().items() if len(frame)}
            write_frames(frames, place, internal=False)
            (place / "strategy.toml").write_text(strategy_to_toml(moved.after), encoding="utf-8")
        if table is not None:
            write_frames({"curve": table}, place, internal=False)
            if can_draw():
                value = None if chosen.value is None else float(chosen.value)
                drawn = risk_curve_plot(
                    table, measure=chosen.measure, unit=chosen.parameter, bound=float(chosen.bound), chosen=value
                )
                write_plot(drawn, place / "curve")


def _show(
    chosen: Choice,
    plan: Strategy | None,
    told: dict[str, Any],
    empirical: list[Empirical | None],
    table: pd.DataFrame | None,
    moved: Allocation | None,
) -> None:
    priors = ", ".join(map(str, chosen.priors))
    typer.echo(f"{MEASURES[chosen.measure]} is to be {float(chosen.bound):g} or less, for prior {priors}")
    if plan is not None:
        typer.echo(f"strategy {plan.name or 'given'}, level {told['level']}, before post-processing")
    value = "none" if chosen.value is None else f"{float(chosen.value):.6g}"
    typer.echo(f"\n{chosen.parameter:<9}{value:>10}  {chosen.reason}")
    for low, high in chosen.windows:
        typer.echo(f"{'not used':<9}{'':>10}  {float(low):.6g} to {float(high):.6g} keeps the bound too")
    typer.echo(f"{'found':<9}{'':>10}  {chosen.checked}")
    typer.echo(f"\nthe bound is for {told['holds_for']}\n" if plan is not None else "")
    for one in (one for one in empirical if one is not None):
        typer.echo(
            f"At its own budget it tells an intruder with prior {one.prior} as much as a single count would: geometric "
            f"with epsilon {one.geometric_epsilon:.3g}, or discrete Gaussian with rho {one.gaussian_rho:.3g} (implied "
            f"epsilon {one.implied_epsilon:.3g}). This compares; it is no guarantee.\n"
        )
    _show_tables(table, moved)


def _show_tables(table: pd.DataFrame | None, moved: Allocation | None) -> None:
    from tallyveil.cli.tables import print_table

    if table is not None:
        budgets = table.budget.unique()
        table = table[table.budget.isin(budgets[:: (len(budgets) - 1) // (SHOWN - 1)])]
        names = {str(name): str(name).removeprefix("noise_mean_abs:") for name in table}
        few = [name for name in names if not name.startswith("noise_mean_abs:")]
        errors = [name for name in names if name not in few]
        headings = {name: names[name].replace("_", " ") for name in few} | {name: names[name] for name in errors[-2:]}
        print_table(table, title="Risk, and mean absolute noise of counts before post-processing", headings=headings)
    if moved is None:
        return
    typer.echo(f"{moved.note}\n")
    for title, frame in {
        "Noise by level": moved.noise,
        "Risk by unit": moved.risk,
        f"Rightly claimed with the unit above and 27 siblings (detailed counts; {_how(moved.hierarchy)})": _with_errors(
            moved.hierarchy
        ),
    }.items():
        if moved.after == moved.before:
            frame = frame[frame.allocation == "before"].drop(columns="allocation") if len(frame) else frame
        if len(frame):
            print_table(frame, title=title, headings={str(name): str(name).replace("_", " ") for name in frame})


def _how(hierarchy: pd.DataFrame) -> str:
    """Whether the figures with the unit above are sums."""
    exact = hierarchy.empty or hierarchy.draws.isna().all()
    return "exact sums" if exact else "+- is one standard error where figures were drawn"


def _with_errors(hierarchy: pd.DataFrame) -> pd.DataFrame:
    """Figures with their standard errors where they were drawn, as they are printed."""
    from tallyveil.cli.tables import with_error

    if hierarchy.empty:
        return hierarchy
    errors = [name for name in hierarchy if str(name).endswith("_se")]
    bare = hierarchy.drop(columns=["draws", *errors])
    if hierarchy.draws.isna().all():
        return bare
    figures = {str(name).removesuffix("_se"): hierarchy[name] for name in errors}
    return bare.assign(**{name: list(map(with_error, bare[name], error)) for name, error in figures.items()})
