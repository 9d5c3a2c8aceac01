"""Plots of disclosure risk: posteriors of an intruder, and risk and error by budget. Nothing is computed here."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pandas as pd

from tallyveil.report.plots import BLUE, GREY, HEIGHT, INK, INTERNAL, ORANGE, TICKS, WIDTH, altair, titled

WORDS = {"right_decision": "rightly claimed", "risk": "R, posterior over prior", "posterior": "average posterior"}
NOISE = "noise_mean_abs"


def posterior_plot(table: pd.DataFrame, *, title: str = "") -> Any:
    """Number of people by the posterior of an intruder: a bar for each interval of posteriors, a panel for each prior.

    ``table`` has ``prior``, ``low``, ``high`` and ``people`` (:class:`tallyveil.risk.Scan`).
    """
    alt = altair()
    shown = table.assign(panel="prior " + table.prior, at=[float(Fraction(prior)) for prior in table.prior])
    axis = alt.Axis(values=TICKS, labelOverlap=True, format=",d")
    people = alt.Y(
        "people:Q", title="people (logarithmic)", scale=alt.Scale(type="symlog", constant=1, domainMin=0), axis=axis
    )
    bars = alt.Chart(shown).mark_bar(color=BLUE, stroke="white", strokeWidth=0.5)
    bars = bars.encode(
        x=alt.X("low:Q", title="posterior", scale=alt.Scale(domain=[0, 1])), x2="high:Q", y=people, y2=alt.datum(0)
    )
    rule = alt.Chart(shown).mark_rule(color=ORANGE, strokeDash=[4, 3]).encode(x="mean(at):Q")
    panel = (bars + rule).properties(width=WIDTH, height=HEIGHT * 2 // 3)
    order = list(dict.fromkeys(shown.panel))
    note = "Bars count people by the intruder's posterior; the dashed line is the prior."
    facets = panel.facet(facet=alt.Facet("panel:N", title=None, sort=order), columns=1)
    return titled(facets, title, note, INTERNAL)


def risk_curve_plot(
    table: pd.DataFrame, *, measure: str, unit: str, bound: float, chosen: float | None, title: str = "Risk and error"
) -> Any:
    """A measure of risk and its bound, with a line for each prior, next to the mean absolute noise of each count."""
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
