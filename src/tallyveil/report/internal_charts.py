"""The charts of an internal report. Each takes a tidy frame; nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tallyveil.report.exhibit import people, records
from tallyveil.report.grid import grid
from tallyveil.report.label_places import named_points, side_of
from tallyveil.report.plots import NAMED, altair
from tallyveil.report.theme import BAND, ERROR, INK, MEASURED, PLACE, SOFT, people_axis

HEIGHT = 240
FEW_TICKS = 20
FROM_TO = (  # a class of large sizes in two lines
    "length(datum.label) > 9 ? split(replace(datum.label, ' - ', ' -\\n'), '\\n') : datum.label"
)
SAMPLES_HEIGHT, SAMPLES_WIDTHS, PADDING = 300, (290, 420, 590), 30  # pixels inside the axes, phone to paper


def error_grid(table: pd.DataFrame, levels: Sequence[str]) -> Any:
    """Median and, where it is known, 95th percentile of the absolute error by level and query."""
    tails = ["" if tail != tail else f" ({people(tail)})" for tail in table.p95_abs]
    label = [f"{people(median)}{tail}" for median, tail in zip(table.median_abs, tails, strict=True)]
    return grid(table.assign(label=label), levels=levels, value="median_abs", words="median error")


def bias_chart(rows: pd.DataFrame, title: str, *, numbers: bool) -> Any:
    """Bias by group, with intervals."""
    alt = altair()
    axis = _whole_numbers(rows["group"]) if numbers else alt.Axis(labelAngle=0, labelExpr=FROM_TO, grid=False)
    kind = {"scale": alt.Scale(zero=False, nice=False, padding=12)} if numbers else {}
    base = alt.Chart(alt.Data(values=records(rows))).encode(
        x=alt.X(f"group:{'Q' if numbers else 'N'}", sort=None, title=title, axis=axis, **kind),
        tooltip=[
            alt.Tooltip("group:N"),
            alt.Tooltip("n:Q", title="units", format=",d"),
            alt.Tooltip("bias:Q", format="+,.2f"),
            alt.Tooltip("low:Q", title="95% from", format="+,.2f"),
            alt.Tooltip("high:Q", title="to", format="+,.2f"),
        ],
    )
    zero = alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule(color=SOFT, strokeDash=[4, 3]).encode(y="at:Q")
    lines = base.mark_rule(color=MEASURED, strokeWidth=2).encode(y=alt.Y("low:Q", title="bias, people"), y2="high:Q")
    dots = base.mark_point(filled=True, size=70, opacity=1, color=MEASURED).encode(y="bias:Q")
    return (zero + lines + dots).properties(height=HEIGHT)


def _whole_numbers(values: pd.Series[int], *, grid: bool = False) -> Any:
    """An axis with ticks at whole numbers alone, at every one where they are few."""
    alt = altair()
    low, high = int(values.min()), int(values.max())
    ticks = {"values": list(range(low, high + 1))} if high - low < FEW_TICKS else {"tickMinStep": 1}
    return alt.Axis(**ticks, format="d", grid=grid, labelOverlap=True)


def loss_chart(curve: pd.DataFrame, theory: float | None) -> Any:
    """The signed log ratio with its band, and the value of the noise alone where it is known."""
    alt = altair()
    base = alt.Chart(alt.Data(values=records(curve))).encode(
        x=alt.X("x:Q", title="error, people (published minus true)"),
        tooltip=[
            alt.Tooltip("x:Q", title="error", format=",.1f"),
            alt.Tooltip("epl:Q", title="log ratio", format=".3f"),
            alt.Tooltip("low:Q", title="band from", format=".3f"),
            alt.Tooltip("high:Q", title="to", format=".3f"),
        ],
    )
    line = base.mark_line(color=MEASURED, strokeWidth=2, point={"opacity": 0, "size": 60})
    parts = [line.encode(y=alt.Y("epl:Q", title="log ratio"))]
    if curve.low.notna().any():  # few residuals have no band
        parts.insert(0, base.mark_area(color=BAND).encode(y=alt.Y("low:Q", title="log ratio"), y2="high:Q"))
    if theory is not None:
        lines = alt.Data(values=[{"at": theory}, {"at": -theory}])
        parts.append(alt.Chart(lines).mark_rule(color=ERROR, strokeDash=[5, 3]).encode(y="at:Q"))
    return alt.layer(*parts).properties(height=HEIGHT)


def sample_chart(table: pd.DataFrame) -> Any:
    """Loss against error, on logarithmic axes: samples as a line, the release as a point."""
    alt = altair()
    known = table[table.epl > 0].assign(median_abs=lambda t: t.median_abs.clip(lower=0.5))
    scale = alt.Scale(type="log", nice=False, padding=PADDING)
    base = alt.Chart().encode(
        x=alt.X("median_abs:Q", scale=scale, title="median absolute error, people"),
        y=alt.Y("epl:Q", scale=scale, title="empirical privacy loss"),
        tooltip=[
            alt.Tooltip("sample:N", title="sample"),
            alt.Tooltip("median_abs:Q", title="median error", format=",.2f"),
            alt.Tooltip("epl:Q", title="loss", format=".3f"),
        ],
    )
    samples, own = (alt.Data(values=records(known[known.method == name])) for name in ("sample", "release"))
    layers = [
        base.mark_line(color=SOFT).encode(order="fraction:Q").properties(data=samples),
        base.mark_square(color=SOFT, size=45, opacity=1).properties(data=samples),
        base.mark_point(filled=True, color=ERROR, size=130, opacity=1).properties(data=own),
    ]
    sizes = [(width, SAMPLES_HEIGHT) for width in SAMPLES_WIDTHS]
    for place, rows in named_points(known, "sample", NAMED, sizes=sizes, padding=PADDING).groupby("place"):
        for own, weight in ((True, "bold"), (False, "normal")):
            data = alt.Data(values=records(rows[(rows.method == "release") == own]))
            text = base.mark_text(color=INK, fontWeight=weight, **side_of(str(place))).encode(text="sample:N")
            layers += [text.properties(data=data)] if data["values"] else []
    return alt.layer(*layers).properties(height=SAMPLES_HEIGHT)


def posterior_chart(rows: pd.DataFrame) -> Any:
    """People by the intruder's posterior."""
    alt = altair()
    return (
        alt.Chart(alt.Data(values=records(rows)))
        .mark_bar(color=PLACE)
        .encode(
            x=alt.X("low:Q", title="posterior", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            x2="high:Q",
            y=alt.Y("people:Q", **people_axis(alt, "people (logarithmic scale)")),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("low:Q", title="posterior from", format=".0%"),
                alt.Tooltip("high:Q", title="to", format=".0%"),
                alt.Tooltip("people:Q", format=",.0f"),
            ],
        )
        .properties(height=HEIGHT)
    )


def exposed_chart(top: pd.DataFrame) -> Any:
    """The largest posterior of the most exposed units."""
    alt = altair()
    x = alt.X("posterior:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"), title="posterior")
    return _by_place(top).mark_point(filled=True, size=80, opacity=1, color=ERROR).encode(x=x)


def unique_chart(top: pd.DataFrame) -> Any:
    """The number of people who are alone in their cell, by unit."""
    alt = altair()
    axis = _whole_numbers(pd.Series([0, int(top.unique.max())]), grid=True)
    return (
        _by_place(top).mark_bar(color=PLACE).encode(x=alt.X("unique:Q", title="people alone in their cell", axis=axis))
    )


def _by_place(top: pd.DataFrame) -> Any:
    alt = altair()
    lines = max((place.count("\n") + 1 for place in top.place), default=1)
    return (
        alt.Chart(alt.Data(values=records(top)))
        .encode(
            y=alt.Y(
                "place:N",
                sort=None,
                title=None,
                axis=alt.Axis(
                    grid=True,
                    labelLimit=215,
                    labelExpr="split(datum.label, '\\n')",
                    labelLineHeight=12,
                    labelOffset=-6 * (lines - 1),
                ),
            ),
            tooltip=[
                alt.Tooltip("unit:N"),
                alt.Tooltip("cell:N"),
                alt.Tooltip("count:Q", title="true count", format=",d"),
                alt.Tooltip("people:Q", title="people in the unit", format=",d"),
                alt.Tooltip("unique:Q", title="alone in their cell", format=",d"),
                alt.Tooltip("posterior:Q", format=".1%"),
            ],
        )
        .properties(height=max(30, 6 + 12 * lines) * max(len(top), 1))
    )
