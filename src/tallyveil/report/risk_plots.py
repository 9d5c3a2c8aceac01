"""A plot of risk and error side by side along budgets; nothing is computed here."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tallyveil.report.plots import BLUE, GREY, HEIGHT, INK, ORANGE, WIDTH, altair, titled

WORDS = {"right_decision": "rightly claimed", "risk": "R, posterior over prior", "posterior": "average posterior"}
NOISE = "noise_mean_abs"


def risk_curve_plot(
    table: pd.DataFrame, *, measure: str, unit: str, bound: float, chosen: float | None, title: str = "Risk and error"
) -> Any:
    """A measure of risk with its bound, a line for each prior; beside it the mean absolute noise of each count."""
    alt = altair()
    scale = alt.Scale(type="log", nice=False)
    x = alt.X("budget:Q", scale=scale, title=unit, axis=alt.Axis(labelOverlap=True, tickCount=6))
    colours = alt.Scale(range=[BLUE, ORANGE, "#009e73", "#cc79a7", "#e69f00", "#56b4e9"])
    least = float(table[measure].min())
    near = [least, min(float(table[measure].max()), least + 4 * max(bound - least, 0.01))]  # so that the bound is seen
    risks = alt.Chart(table).mark_line(clip=True).encode(
        x=x,
        y=alt.Y(f"{measure}:Q", title=WORDS.get(measure, measure), scale=alt.Scale(zero=False, domain=near)),
        color=alt.Color("prior:N", title="prior", sort=None, scale=colours),
    )  # fmt: skip
    limit = alt.Chart(pd.DataFrame({"bound": [bound]})).mark_rule(color=GREY, strokeDash=[4, 3]).encode(y="bound:Q")
    several = alt.Legend() if NOISE not in table else None
    names = [name for name in table if str(name).startswith(NOISE)]
    errors = table.drop_duplicates("budget").melt("budget", names, "column", "error")
    parts = errors["column"].str.removeprefix(NOISE).str.lstrip(":").str.partition("@")
    errors = errors.drop(columns="column").assign(measured=parts[0].replace("", "a count"), level=parts[2])
    lines = alt.Chart(errors).mark_line().encode(
        x=x,
        y=alt.Y("error:Q", scale=scale, title="mean absolute noise, persons"),
        color=alt.Color("level:N", title="level", sort=None, scale=colours, legend=several),
        strokeDash=alt.StrokeDash("measured:N", title="noisy count", sort=None, legend=several),
    )  # fmt: skip
    at = alt.Chart(pd.DataFrame({"budget": [] if chosen is None else [chosen]})).mark_rule(color=INK).encode(x=x)
    panels = [layer.properties(width=WIDTH * 2 // 3, height=HEIGHT) for layer in (risks + limit + at, lines + at)]
    note = ["Dashed: the bound. Black: the chosen budget.", "Noisy counts, before post-processing."]
    return titled(alt.hconcat(*panels).resolve_scale(color="independent"), title, *note)
