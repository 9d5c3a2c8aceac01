"""What ``tallyveil evaluate`` prints: error, bias, empirical privacy loss and implausible units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tallyveil.cli.tables import figure
from tallyveil.evaluate.bias import ENOUGH_FOR_INTERVAL
from tallyveil.evaluate.epl.settings import ENOUGH
from tallyveil.evaluate.error import ENOUGH_FOR_TAIL, shown_tail

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.evaluate.evaluation import Evaluation
    from tallyveil.nouns.histogram import Histogram


def show_evaluation(name: str, result: Evaluation, truth: Histogram, *, over: str) -> None:
    """Print what a demographer looks at first."""
    from tallyveil.cli.tables import print_table

    cells = "cells that are non-empty in the truth or the release" if over == "nonempty" else "all cells"
    typer.echo(f"{name} compared with the truth ({truth.total():,} persons), over {cells}\n")
    wide = result.error.pivot_table(index=["level", "query", "n"], columns="statistic", values="value", sort=False)
    wide = wide.reset_index().merge(result.median_true)
    wide = wide.assign(p95_abs=shown_tail(wide), exact=[f"{share:.0%}" for share in wide.share_exact])
    headings = {"level": "level", "query": "query", "n": "counts", "median_true": "median true"}
    headings |= {"median_abs": "median", "mean_abs": "mean", "p95_abs": "95th pct.", "max_abs": "largest"}
    headings |= {"rmse": "RMSE", "exact": "exact"}
    print_table(wide, title="Absolute error, in persons", headings=headings)
    if wide.p95_abs.isna().any():
        typer.echo(
            f"Withheld: the 95th percentile of fewer than {ENOUGH_FOR_TAIL} counts, none of which is one in twenty.\n"
        )
    evaluated = list(dict.fromkeys(result.by_size.level))
    finest = [level for level in truth.spine.levels if level in evaluated][-1:]
    for level in [*finest, *(level for level in evaluated if level not in truth.spine.levels)]:  # areas come last
        _show_by_size(result.by_size[result.by_size.level == level], level)
        _show_bias(result.bias[result.bias.level == level], level)
    _show_losses(result.epl.assign(tells=[loss.tells for loss in result.losses.values()]))
    if not result.implausible.empty:
        headings = {"level": "level", "kind": "", "units": "units", "true": "truth", "released": "release"}
        print_table(result.implausible, title="Implausible units", headings=headings)


def _show_by_size(rows: pd.DataFrame, level: str) -> None:
    from tallyveil.cli.tables import print_table

    rows = rows.assign(relative=["-" if x != x else f"{figure(100 * x)}%" for x in rows.relative])
    headings = {"query": "query", "size": "true size", "n": "counts", "mean_abs": "mean error"}
    headings |= {"relative": "of size", "bias": "bias"}
    print_table(rows, title=f"Error by true size, level {level}", headings=headings)


def _show_bias(rows: pd.DataFrame, level: str) -> None:
    from tallyveil.cli.tables import print_table

    rows = rows.assign(
        interval=["-" if r.low != r.low else f"{figure(r.low)} to {figure(r.high)}" for r in rows.itertuples()]
    )
    headings = {"group": "empty cells", "n": "counts", "bias": "bias", "interval": "95% interval"}
    print_table(rows, title=f"Bias of totals by homogeneity, level {level}", headings=headings)
    if (rows.n < ENOUGH_FOR_INTERVAL).any():
        typer.echo(f"Withheld: the interval of a bias of fewer than {ENOUGH_FOR_INTERVAL} counts.\n")


def _show_losses(losses: pd.DataFrame) -> None:
    from tallyveil.cli.tables import print_table

    rows = losses.assign(
        interval=[
            f"{row.epl_low:.3g} to {row.epl_high:.3g}" if row.epl_high == row.epl_high else f"{row.epl_low:.3g} or more"
            for row in losses.astype({"epl_low": float, "epl_high": float}).itertuples()
        ]
    )
    headings = {"level": "level", "query": "query", "epl": "largest", "corrected": "corrected", "median": "median"}
    headings |= {"interval": "before smoothing, 95%", "theory": "noise alone"}
    title = "Empirical privacy loss (log ratio of residuals one apart; not a bound on epsilon)"
    known = rows[rows.tells]
    if not known.empty:
        print_table(known, title=title, headings=headings)
        typer.echo(
            "Largest, corrected and median describe the smoothed curve. The interval is for the largest ratio of the\n"
            "residuals before smoothing, a different quantity that may lie far from the curve's maximum.\n"
        )
        if known.corrected.isna().any():
            typer.echo("A dash under corrected: too few counts, or too few parents of them, for a correction.\n")
    few = rows[~rows.tells & (rows.undefined.isna() | (rows.n < ENOUGH))]
    if not few.empty:
        typer.echo(f"Withheld: the empirical privacy loss of too few counts to tell it from chance: {_places(few)}\n")
    for reason, group in rows[rows.undefined.notna() & (rows.n >= ENOUGH)].groupby("undefined", sort=False):
        typer.echo(f"Empirical privacy loss undefined for {_places(group)}: {reason}\n")


def _places(rows: pd.DataFrame) -> str:
    """Levels with their queries, for a sentence."""
    return "; ".join(f"{level} ({', '.join(part['query'])})" for level, part in rows.groupby("level", sort=False))


def conclusion(name: str, result: Evaluation) -> str:
    """The error of totals at the finest level that was evaluated and is not exact, in a sentence."""
    error = result.error.pivot_table(index=["level", "query"], columns="statistic", values="value", sort=False)
    asked = [place for place in error.index if error.loc[place, "max_abs"] > 0]
    if not asked:
        return f"{name}: every count that was compared equals the true one."
    finest = [place for place in asked if place[0] == asked[-1][0]]
    level, query = next((place for place in finest if place[1] == "total"), finest[0])
    row = error.loc[(level, query)]
    n = int(result.error.set_index(["level", "query"]).n.loc[(level, query)].iloc[0])
    medians = result.median_true.set_index(["level", "query"]).median_true
    typical = figure(medians[level, query])
    if n == 1:
        return f"{name}: at level {level}, the only {query} ({typical}) is off by {figure(row.max_abs)}."
    what = "totals" if query == "total" else f"counts of {query}"
    few = f"{n} " if n < ENOUGH_FOR_TAIL else ""
    half = f"half of the {few}{what} (median {typical}) are off by {figure(row.median_abs)} or more"
    if few:
        return f"{name}: at level {level}, {half}; the largest error is {figure(row.max_abs)}."
    return f"{name}: at level {level}, {half}, and one in twenty by {figure(row.p95_abs)} or more."
