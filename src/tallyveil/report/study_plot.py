"""The trade-off of a sweep: error against empirical privacy loss, and error against risk."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tallyveil.report.plots import BLUE, INK, INTERNAL, ORANGE, altair, titled

PANELS = {"epl": "empirical privacy loss", "risk": "disclosure risk R"}
SMALLEST = 0.5  # persons: smaller median errors are drawn here


def study_plot(table: pd.DataFrame) -> Any:
    """Loss and risk against the median error, a line for each allocation and a point for each budget.

    ``table`` is that of :func:`tallyveil.evaluate.allocation_study.study`. Each level and query has a row of panels;
    figures that are undefined are not drawn.
    """
    alt = altair()
    table = table.assign(median_abs=table.median_abs.clip(lower=SMALLEST))
    rows = []
    for (level, query), some in table.groupby(["level", "query"], sort=False):
        for measure, words in PANELS.items():
            known = some[some[measure] > 0]
            if len(known):
                rows.append(_panel(alt, known, measure, words).properties(title=f"{level}: {query}"))
    unit, runs = table.unit.iloc[0], int(table.replicates.iloc[0])
    note = f"Labels: {unit}. Replicates are pooled ({runs}). Risk is that of a count of the level, for a prior of 1/2."
    return titled(alt.concat(*rows, columns=2), "Error against loss and risk", note, INTERNAL)


def _panel(alt: Any, known: pd.DataFrame, measure: str, words: str) -> Any:
    scale = {"type": "log", "nice": False, "padding": 25}
    base = alt.Chart(known).encode(
        x=alt.X("median_abs:Q", scale=alt.Scale(**scale), title="median absolute error, persons"),
        y=alt.Y(f"{measure}:Q", scale=alt.Scale(**scale), title=words),
        color=alt.Color("allocation:N", title=None, scale=alt.Scale(range=[BLUE, ORANGE, "#009e73", "#cc79a7", INK])),
    )
    return alt.layer(
        base.mark_line(strokeWidth=1).encode(order="budget:Q"),
        base.mark_point(filled=True, size=45, opacity=1),
        base.mark_text(dx=7, dy=-7, align="left", fontSize=10).encode(text=alt.Text("budget:Q", format="~g")),
    ).properties(width=260, height=190)
