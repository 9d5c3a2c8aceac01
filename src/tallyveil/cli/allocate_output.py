"""What ``tallyveil allocate`` prints: shares, and what every level and query gains and loses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tallyveil.cli.presets import percent
from tallyveil.cli.tables import print_table, records

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.allocation.result import Allocated

SAME = 0.005  # changes of a standard deviation below this are called none


def show_allocated(made: Allocated) -> None:
    """Print the shares of the levels, the predicted errors of every level and query, the goals and the notes."""
    print_table(
        _shares(made), title="Shares of the budget", headings={"level": "level", "before": "before", "after": "after"}
    )
    headings = {"level": "level", "query": "query", "share_before": "share before", "share_after": "share after"}
    headings |= {"sd_before": "sd before", "sd_after": "sd after", "shown": "change"}
    if "released_before" in made.predicted:
        headings |= {"released_before": "released before", "released_after": "released after"}
    print_table(_table(made), title="Predicted standard deviations, in persons (every level and query)",
                headings=headings)  # fmt: skip
    if "released_before" in made.predicted:
        typer.echo("Released: root mean squared error of whole, non-negative counts in simulations on public counts.\n")
    if len(made.goals):
        goals = made.goals.assign(
            before=[_percent(value) for value in made.goals.before],
            after=[_percent(value) for value in made.goals.after],
            met=["yes" if met else "no" for met in made.goals.met],
        )
        print_table(goals, title="Goals", headings={name: name for name in goals.columns})
    for note in made.notes:
        typer.echo(note)


def conclusion(made: Allocated) -> str:
    """How many figures gain and lose, and which loses most."""
    known = made.predicted[made.predicted.change.notna()]
    gains, losses = known[known.change < -SAME], known[known.change > SAME]
    words = f"{_many(len(gains), 'standard deviation falls', 'standard deviations fall')} and {len(losses)} rise"
    if len(gains):
        best = gains.loc[gains.change.idxmin()]
        words += f"; {best['query']}@{best.level} gains most ({_change(best.change)})"
    if len(losses):
        worst = losses.loc[losses.change.idxmax()]
        words += f"; {worst['query']}@{worst.level} loses most ({_change(worst.change)})"
    return f"{words}."


def allocated_as_json(made: Allocated) -> dict[str, Any]:
    """The result under its JSON keys."""
    return made.as_json() | {"predicted": records(made.predicted), "goals": records(made.goals)}


def _shares(made: Allocated) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [
            {"level": level, "before": percent(float(share)), "after": percent(float(made.after.levels[level]))}
            for level, share in made.before.levels.items()
        ]
    )


def _table(made: Allocated) -> pd.DataFrame:
    """The predicted table with the share of each measurement; a dash for what is not measured."""
    schema = made.exactness.schema
    spelled = [
        {(level, schema.query(query).name): query for level, of in plan.queries.items() for query in of}
        for plan in (made.before, made.after)
    ]
    table = made.predicted.assign(shown=[_change(value) for value in made.predicted.change])
    for when, plan, names in zip(("before", "after"), (made.before, made.after), spelled, strict=True):
        table[f"share_{when}"] = [
            percent(float(plan.share(str(level), names[level, query]))) if (level, query) in names else "-"
            for level, query in zip(table.level, table["query"], strict=True)
        ]
    return table


def _change(value: float) -> str:
    """A change as a percentage, or as a factor where it is large.

    >>> _change(-0.214), _change(0.031), _change(17.2), _change(float("nan"))
    ('-21%', '+3.1%', 'x18', '-')
    """
    if value != value:
        return "-"
    if value > 2:
        return f"x{value + 1:.2g}"
    return f"{float(f'{100 * value:.2g}'):+g}%"


def _percent(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4g}%"


def _many(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
