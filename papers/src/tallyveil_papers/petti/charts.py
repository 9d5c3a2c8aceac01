"""Figures 1 to 3 of petti2020 in the paper's form, and our figures against the published ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tallyveil.report.plots import BLUE, GREY, HEIGHT, INK, ORANGE, WIDTH, altair, styled, titled

COLOURS, SHAPES = [BLUE, ORANGE, "#009e73"], ["circle", "square", "triangle-up"]
REACH = 40  # persons to each side in Figure 1
DASHES = [[1, 0], [6, 3], [2, 2]]
TICKS = [-200, -50, -20, -5, -2, 0, 2, 5, 20, 50, 200]  # of biases, in persons


def figure1(residuals: pd.DataFrame, losses: pd.DataFrame, *, of: str) -> Any:
    """(a) The distribution of residuals of district strata; (b) the smoothed loss; a line for each budget."""
    alt = altair()
    order = [f"ε = {epsilon:g}" for epsilon in sorted(residuals.epsilon.unique())]
    by = {
        "color": alt.Color(
            "budget:N", title="budget", sort=order, scale=alt.Scale(domain=order, range=[BLUE, ORANGE, INK])
        ),
        "strokeDash": alt.StrokeDash(
            "budget:N", title="budget", sort=order, scale=alt.Scale(domain=order, range=DASHES)
        ),
    }
    near = residuals[residuals.value.abs() <= REACH]
    named = [f.assign(budget=[f"ε = {e:g}" for e in f.epsilon]) for f in (near, losses[losses.x.abs() <= REACH])]
    x = {"scale": alt.Scale(domain=[-REACH, REACH]), "title": "residual (DP - precise), persons"}
    share = alt.Y("share:Q", title="share of residuals", scale=alt.Scale(type="log"), axis=alt.Axis(format="~%"))
    panels = [
        alt.Chart(named[0], title="(a)").mark_line().encode(x=alt.X("value:Q", **x), y=share, **by),
        alt.Chart(named[1], title="(b)")
        .mark_line()
        .encode(x=alt.X("x:Q", **x), y=alt.Y("epl:Q", title="EPL(x) = log p(x) / p(x + 1)"), **by),
    ]
    sized = (panel.properties(width=WIDTH * 2 // 3, height=HEIGHT) for panel in panels)
    return titled(alt.hconcat(*sized), f"District strata, {of}")


def figure2(points: pd.DataFrame) -> Any:
    """Median error against loss of county strata: ``panel``, ``method``, ``label``, ``median_abs``, ``epl``."""
    alt = altair()
    order = ["TopDown, by ε", "simple random sample"]
    sides = [point.clip(lower=0.5) if name == "median_abs" else point for name, point in points.items()]
    points = pd.concat(sides, axis=1)
    axes = {
        "x": alt.X(
            "median_abs:Q",
            scale=alt.Scale(type="log", nice=False, padding=30),
            title="median absolute error, persons",
            axis=alt.Axis(values=[0.5, 1, 2, 5, 10, 20], format="~g"),
        ),
        "y": alt.Y("epl:Q", scale=alt.Scale(type="log", nice=False, padding=30), title="empirical privacy loss"),
    }
    colour = alt.Color("method:N", title="method", sort=order, scale=alt.Scale(domain=order, range=[ORANGE, BLUE]))
    shape = alt.Shape("method:N", title="method", sort=order, scale=alt.Scale(domain=order, range=["circle", "square"]))
    base = alt.Chart(points).encode(**axes, color=colour)
    panel = alt.layer(
        base.mark_line(strokeWidth=1).encode(order="step:Q"),
        base.mark_point(filled=True, size=55, opacity=1).encode(shape=shape),
        *(
            base.transform_filter(f"datum.label != '' && {those}").mark_text(fontSize=10, **at).encode(text="label:N")
            for those, at in (
                (f"datum.method == '{order[0]}' && datum.step != 0.75", {"dx": 8, "dy": -8, "align": "left"}),
                (f"datum.method == '{order[0]}' && datum.step == 0.75", {"dy": 14}),  # the line rises beside it
                (f"datum.method == '{order[1]}'", {"dx": -8, "dy": 8, "align": "right"}),
            )
        ),
    ).properties(width=WIDTH * 4 // 5, height=WIDTH * 3 // 5)
    facet = alt.Facet("panel:N", title=None, sort=list(dict.fromkeys(points.panel)))
    return styled(panel.facet(facet=facet, columns=2))


def figure3(spreads: pd.DataFrame, *, of: str, fewest: int) -> Any:
    """Bias of district totals by homogeneity: markers are means, shades hold 90 and 50% of residuals.

    ``published`` has the authors' means, where there are any.
    """
    alt = altair()
    shown = spreads.assign(panel=[f"ε = {epsilon:g}" for epsilon in spreads.epsilon])
    base = alt.Chart(shown)
    x = alt.X("homogeneity:Q", title="homogeneity index", scale=alt.Scale(domain=[-1, 24], nice=False))
    y = {"title": "residual (DP - precise), persons"}
    marks = ["published mean", "mean here"]
    means = base.transform_fold(["published", "bias"], as_=["which", "mean"]).transform_calculate(
        which="datum.which == 'bias' ? 'mean here' : 'published mean'"
    ).transform_filter("isValid(datum.mean)")  # fmt: skip
    panel = alt.layer(
        base.mark_rule(color=GREY, strokeDash=[4, 3]).encode(y=alt.datum(0)),
        base.mark_bar(color=BLUE, opacity=0.15, width=9).encode(x=x, y=alt.Y("p5:Q", **y), y2="p95:Q"),
        base.mark_bar(color=BLUE, opacity=0.3, width=9).encode(x=x, y=alt.Y("p25:Q", **y), y2="p75:Q"),
        means.mark_point(size=45, opacity=1, strokeWidth=2).encode(
            x=x,
            y=alt.Y("mean:Q", **y),
            color=alt.Color("which:N", title=None, sort=marks, scale=alt.Scale(domain=marks, range=[ORANGE, INK])),
            shape=alt.Shape(
                "which:N", title=None, sort=marks, scale=alt.Scale(domain=marks, range=["diamond", "circle"])
            ),
        ),
    ).properties(width=WIDTH * 3 // 5, height=HEIGHT)
    facet = alt.Facet("panel:N", title=None, sort=list(dict.fromkeys(shown.panel)))
    note = f"Shades hold 90 and 50% of the residuals here. Not drawn: indices of fewer than {fewest} residuals."
    return titled(panel.facet(facet=facet, columns=3), f"District totals, {of}", note)


def against(table: pd.DataFrame, *, title: str, of: str, log: bool = True) -> Any:
    """Ours against published, a point for each figure; grey lines: the same, and a factor of two.

    ``table`` has ``published``, ``ours``, ``kind`` (a panel each) and ``place`` (colour and shape). Without ``log`` the
    scale goes through 0: straight near it, logarithmic further out.
    """
    alt = altair()
    known = table[(table.published > 0) & (table.ours > 0)] if log else table
    order = list(dict.fromkeys(known.place))
    panels = []
    for kind in dict.fromkeys(known.kind):
        rows = known[known.kind == kind]
        both = pd.concat([rows.published, rows.ours])
        ends = [both.min() / 1.3, both.max() * 1.3] if log else [1.3 * min(both.min(), -1), 1.3 * max(both.max(), 1)]
        points = ends if log else np.concatenate([-np.geomspace(-ends[0], 0.01, 60), np.geomspace(0.01, ends[1], 60)])
        lines = pd.DataFrame([{"at": at, "to": at * f, "f": f} for f in (0.5, 1.0, 2.0) for at in points])
        scale = alt.Scale(type="log" if log else "symlog", domain=ends, nice=False)
        ticks = {"tickCount": 5} if log else {"values": [t for t in TICKS if ends[0] <= t <= ends[1]]}
        axis = alt.Axis(format="~g" if log else "d", labelOverlap=True, **ticks)
        rules = alt.Chart(lines).mark_line(color=GREY, strokeWidth=1, clip=True).encode(
            x=alt.X("at:Q", scale=scale), y=alt.Y("to:Q", scale=scale), detail="f:N",
            strokeDash=alt.condition("datum.f == 1", alt.value([1, 0]), alt.value([4, 3])),
        )  # fmt: skip
        dots = alt.Chart(rows).mark_point(size=35, opacity=0.9).encode(
            x=alt.X("published:Q", scale=scale, title="published", axis=axis),
            y=alt.Y("ours:Q", scale=scale, title="ours", axis=axis),
            color=alt.Color("place:N", title="of", sort=order, scale=alt.Scale(domain=order, range=COLOURS)),
            shape=alt.Shape("place:N", title="of", sort=order, scale=alt.Scale(domain=order, range=SHAPES)),
        )  # fmt: skip
        panels.append((rules + dots).properties(width=WIDTH // 2, height=WIDTH // 2, title=kind))
    note = f"Ours: {of}. Solid line: the same. Dashed: a factor of two."
    return titled(alt.concat(*panels, columns=2), title, note)
