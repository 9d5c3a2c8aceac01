"""The result of ``tallyveil risk choose``: on the terminal and in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

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
LARGE = 5  # an epsilon above which the guarantee alone promises little
SHOWN = 17  # budgets of a curve that are printed


def write_choice(
    folder: Path, result: dict[str, Any], choice: Choice, table: pd.DataFrame | None, moved: Allocation | None
) -> None:
    """Write the choice, and the tables and the plot that were asked for, to a new folder."""
    from tallyveil.cli.options import json_text
    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.atomic import new_folder
    from tallyveil.privacy.strategy_toml import strategy_to_toml
    from tallyveil.report.plots import write_plot
    from tallyveil.report.risk_plots import risk_curve_plot

    with new_folder(folder) as place:
        (place / "choice.json").write_text(json_text(result), encoding="utf-8")
        if moved is not None:
            frames = {name: frame for name, frame in moved.frames().items() if len(frame)}
            write_frames(frames, place, internal=False)
            (place / "strategy.toml").write_text(strategy_to_toml(moved.after), encoding="utf-8")
        if table is not None:
            write_frames({"curve": table}, place, internal=False)
            if can_draw():
                value = None if choice.value is None else float(choice.value)
                drawn = risk_curve_plot(
                    table, measure=choice.measure, unit=choice.parameter, bound=float(choice.bound), chosen=value
                )
                write_plot(drawn, place / "curve")


def show_choice(
    choice: Choice,
    plan: Strategy | None,
    result: dict[str, Any],
    empirical: list[Empirical | None],
    table: pd.DataFrame | None,
    moved: Allocation | None,
) -> None:
    """Print the chosen budget, why it is not larger, and the tables that were asked for."""
    from tallyveil.privacy import sentences
    from tallyveil.privacy.budget import down, up

    priors = ", ".join(map(str, choice.priors))
    typer.echo(f"{MEASURES[choice.measure]} is to be {float(choice.bound):g} or less, for prior {priors}")
    if plan is not None:
        typer.echo(f"strategy {plan.name or 'given'}, level {result['level']}, before post-processing")
    value = "none" if choice.value is None else down(choice.value, digits=6)
    typer.echo(f"\n{choice.parameter:<9}{value:>10}  {choice.reason}")
    for low, high in choice.windows:
        typer.echo(f"{'not used':<9}{'':>10}  {up(low, digits=6)} to {down(high, digits=6)} keeps the bound too")
    typer.echo(f"{'checked':<9}{'':>10}  {_checked(choice)}")
    typer.echo(f"\nthe bound is for {result['holds_for']}\n" if plan is not None else "")
    for single in (single for single in empirical if single is not None):
        figures = single.geometric_epsilon, single.gaussian_rho, single.implied_epsilon
        typer.echo(f"{sentences.as_one_count(single.prior, *figures)}\n")
    _show_tables(table, moved)
    if choice.parameter == "epsilon" and choice.value is not None and choice.value > LARGE:
        typer.echo(sentences.large_epsilon(choice.value))


def _checked(choice: Choice) -> str:
    """How it was verified, in words."""
    all_smaller = "" if choice.value is None else f"every smaller {choice.parameter} keeps the bound too"
    if choice.checked == "monotone":
        return all_smaller or "at every budget"
    if choice.checked == "exact":
        return f"exactly: {all_smaller}" if all_smaller else "exactly, at every budget"
    return choice.checked.removeprefix("checked ")


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
    """How the figures with the unit above were computed."""
    exact = hierarchy.empty or hierarchy.draws.isna().all()
    return "exact sums" if exact else "+- is one standard error where figures were drawn"


def _with_errors(hierarchy: pd.DataFrame) -> pd.DataFrame:
    """Figures as they are printed: with their standard errors where they were drawn."""
    from tallyveil.cli.tables import with_error

    if hierarchy.empty:
        return hierarchy
    errors = [name for name in hierarchy if str(name).endswith("_se")]
    bare = hierarchy.drop(columns=["draws", *errors])
    if hierarchy.draws.isna().all():
        return bare
    figures = {str(name).removesuffix("_se"): hierarchy[name] for name in errors}
    return bare.assign(**{name: list(map(with_error, bare[name], error)) for name, error in figures.items()})
