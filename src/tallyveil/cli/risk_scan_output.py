"""The result of ``tallyveil risk scan``: on the terminal, as JSON and in a folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tallyveil.cli.tables import INTERNAL, figure

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.schema import Schema
    from tallyveil.risk import Scan

WHEN = {"before": "expected over the noise", "after": "given the noise that was drawn"}


def show_hierarchy(frame: pd.DataFrame) -> None:
    """Print averages over people by the number of others in the cell that the siblings have."""
    import pandas as pd

    from tallyveil.cli.tables import print_table, with_error

    classes = [-1, 0, 1, 2, 5, 10, math.inf]
    labels = ["nobody", "1", "2", "3 to 5", "6 to 10", "11 or more"]
    cut = frame.assign(others=pd.cut(frame.others, classes, labels=labels))
    figures = ["alone", "right_decision", "gain", "loss", "tie"]
    errors = [f"{name}_se" for name in figures[1:]]  # one seed draws for all cases, so errors add up
    weighted = cut.assign(**{name: cut[name] * cut.people for name in [*figures, *errors]})
    sums = weighted.groupby(["prior", "others"], observed=True, sort=False)[["people", *figures, *errors]].sum()
    means = sums.div(sums.people, axis="index").assign(people=sums.people).reset_index()
    shown = means.assign(others=means.others.astype(str))
    if frame[errors].notna().any(axis=None):
        texts = {
            name: map(with_error, means[name], means[f"{name}_se"].where(means.right_decision_se > 0))
            for name in figures[1:]
        }
        shown = shown.assign(**{name: list(cells) for name, cells in texts.items()})
    headings = {"prior": "prior", "others": "others of the cell in siblings", "people": "people", "alone": "without it"}
    headings |= {"right_decision": "rightly claimed", "gain": "gain", "loss": "loss", "tie": "tie"}
    levels = f"{frame.measured_at.iloc[-1]}, with that of the {frame.above.iloc[-1]} and the siblings' sum"
    print_table(shown, title=f"Detailed count of the {levels} (flat prior on the siblings)", headings=headings)


def scan_as_json(found: Scan, frames: dict[str, pd.DataFrame], unknown: int) -> dict[str, Any]:
    """The result for JSON. Tables that show single cells or units are left out."""
    from tallyveil.cli.tables import records

    shown = {name: records(frame) for name, frame in frames.items() if name not in ("cells", "exposed")}
    return {"note": INTERNAL, **found.as_json(), "unknown": unknown, **shown}


def show_scan(found: Scan, people: Histogram, unknown: int) -> None:
    """Print what was scanned, and the averages by level, group and size."""
    from tallyveil.cli.tables import print_table

    when = WHEN[found.when]
    attack = found.attack
    used = "every query of the level" if attack.queries is None else ", ".join(attack.queries)
    typer.echo(f"{INTERNAL}\n")
    known = f"all others in the unit{f' but {unknown:,}' if unknown else ''}"
    typer.echo(f"{people.total():,} persons, each the target of an intruder who knows {known}")
    typer.echo(f"attack: {attack.kind}{f' ({attack.attribute})' if attack.attribute else ''}; uses {used}; {when}\n")
    figures = {
        "prior": "prior",
        "people": "people",
        "unique": "unique",
        "posterior": "posterior",
        "risk": "over prior",
        "right_decision": "rightly claimed",
        "tie": "tie",
    }
    print_table(found.levels, title="By level", headings={"level": "level", **figures, "certain": "given away"})
    leaf = found.levels.level.iloc[-1]
    groups, sizes = (frame[frame.level == leaf] for frame in (found.groups, found.sizes))
    if len(groups) > groups.prior.nunique():
        headings = {"measured_at": "measured with the", "share": "share", "settled": "settled by exact counts"}
        print_table(groups, title=f"People who are measured in the same way ({leaf})", headings={**headings, **figures})
    if found.when == "after" or len(groups) > groups.prior.nunique():
        print_table(sizes, title=f"By the {leaf}'s number of people", headings={"size": "people in it", **figures})


def conclusion(found: Scan, schema: Schema) -> str:
    """What the scan says about the finest level, in a sentence."""
    if schema.cells == 1:
        return (
            "The table counts people without attributes, so an intruder who knows that someone is in a unit has "
            "nothing left to learn: the posterior is 1 whatever is released."
        )
    rows = found.levels[found.levels.level == found.levels.level.iloc[-1]]
    told = [
        f"an intruder with a prior of {row.prior} has a posterior of {figure(row.posterior)} on average and rightly "
        f"claims {row.right_decision:.0%} of the people"
        for row in rows.itertuples()
    ]
    given = int(rows.certain.iloc[0]) if "certain" in rows else 0
    away = "nobody is given away with certainty" if not given else f"{given:,} people are given away with certainty"
    return f"At level {rows.level.iloc[0]}, {'; '.join(told)}; {away}."


def write_scan(found: Scan, frames: dict[str, pd.DataFrame], output: Path) -> None:
    """Write the tables and a plot of the posteriors to a new folder."""
    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.atomic import new_folder

    with new_folder(output) as place:
        write_frames(frames, place, internal=True)
        if drawn := can_draw():
            from tallyveil.report.plots import write_plot
            from tallyveil.report.risk_plots import posterior_plot

            leaf = found.levels.level.iloc[-1]
            frame = found.posteriors[found.posteriors.level == leaf]
            title = f"What an intruder believes about each person of a {leaf}, {WHEN[found.when]}"
            chart = posterior_plot(frame, title=title)
            write_plot(chart, place / "posteriors")
    typer.echo(f"{output}: tables{' and a plot' if drawn else ''} (internal: they show the truth)", err=True)
