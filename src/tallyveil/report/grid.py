"""A grid of numbers by query and level: each cell shows its number, and larger ones are darker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tallyveil.report.exhibit import query_words, records
from tallyveil.report.plots import altair
from tallyveil.report.theme import ERROR

ROW, LINE = 32, 14  # pixels
WORDS = "split(replace(datum.label, /_/g, ' '), ' ')"  # a line for each word: columns are narrow

TWO_LINES = (  # long queries are cut in two
    r"length(datum.label) > 22 ? split(replace(datum.label, /^(.{6,22}), /, '$1,\n'), '\n') : datum.label"
)


def grid(table: pd.DataFrame, *, levels: Sequence[str], value: str, words: str) -> Any:
    """The chart of ``level``, ``query``, ``label`` and a value, which ``words`` name."""
    alt = altair()
    table = table.assign(query=table["query"].map(query_words))
    queries = list(dict.fromkeys(table["query"]))
    plain = {"domain": False, "ticks": False}
    lines = max(len(re.split("[_ ]", level)) for level in levels)
    base = alt.Chart(alt.Data(values=records(table))).encode(
        y=alt.Y("query:N", sort=queries, title=None, axis=alt.Axis(labelLimit=170, labelExpr=TWO_LINES, **plain)),
        x=alt.X(
            "level:N",
            sort=list(levels),
            title=None,
            axis=alt.Axis(orient="top", labelAngle=0, labelExpr=WORDS, labelPadding=4 + LINE * (lines - 1), **plain),
        ),
        tooltip=[
            alt.Tooltip("query:N", title="counts by"),
            alt.Tooltip("level:N"),
            alt.Tooltip(f"{value}:Q", title=words, format=",.1f"),
        ],
    )
    shade = alt.Scale(type="symlog", domain=[0, float(table[value].max()) or 1.0], range=[0.04, 0.4])
    cells = base.mark_rect(color=ERROR).encode(opacity=alt.Opacity(f"{value}:Q", scale=shade, legend=None))
    text = base.mark_text(fontSize=12).encode(text="label:N")
    return (cells + text).properties(height=ROW * len(queries))
