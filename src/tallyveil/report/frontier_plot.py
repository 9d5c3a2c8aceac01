"""Frontiers of allocations: error at one level against another, and error against risk. Nothing is computed here."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tallyveil.report.plots import BLUE, ORANGE, WIDTH, altair, titled

PUBLIC = "From public inputs alone: predicted standard deviations, before counts are made whole and non-negative."


def level_frontier_plot(table: pd.DataFrame, *, title: str = "What one level gives up for another") -> Any:
    """The error of one level against that of another (``allocation.frontier.level_frontier``)."""
    one, other = [name for name in table.columns if name not in ("point", "weight")]
    return _frontier(table, one, other, f"error at {one}, persons", f"error at {other}, persons", title, "log")


def risk_frontier_plot(table: pd.DataFrame, *, measure: str = "risk", title: str = "What less risk costs") -> Any:
    """Error against the risk of a leaf (``allocation.frontier.risk_frontier``)."""
    words = {"risk": "risk R at the leaf level", "posterior": "average posterior", "right_decision": "rightly claimed"}
    return _frontier(table, "risk", "error", words[measure], "error, start = 1", title, "linear")


def _frontier(table: pd.DataFrame, x: str, y: str, x_title: str, y_title: str, title: str, scale: str) -> Any:
    alt = altair()
    shown = table.rename(columns={x: "across", y: "up"})  # names of levels may hold anything
    where = alt.Scale(type=scale, nice=False, padding=25, zero=False)
    base = alt.Chart(shown).encode(
        x=alt.X("across:Q", scale=where, title=x_title), y=alt.Y("up:Q", scale=where, title=y_title)
    )
    line = base.transform_filter("datum.point == 'allocated'")
    start = base.transform_filter("datum.point == 'start'")
    layers = [
        line.mark_line(color=BLUE).encode(order="across:Q"),
        line.mark_point(filled=True, color=BLUE, size=45, opacity=1),
        start.mark_point(filled=True, color=ORANGE, size=90, opacity=1),
        start.mark_text(color=ORANGE, dx=9, align="left", fontWeight="bold").encode(text=alt.value("start")),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH, height=WIDTH * 3 // 4)
    return titled(chart, title, "Blue: the least error that this budget allows.", PUBLIC)
