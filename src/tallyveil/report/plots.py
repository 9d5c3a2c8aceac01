"""Publication-quality plots of evaluations: error by level, bias, empirical privacy loss, comparison with samples.

Each function takes a tidy frame from :mod:`tallyveil.evaluate` and returns a chart; nothing is computed here. Altair
draws the charts and is an optional dependency: ``pip install '.[plots]'``.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from tallyveil.errors import InputError
from tallyveil.evaluate.error import ENOUGH_FOR_TAIL
from tallyveil.report.label_places import named_points, side_of

INK, BLUE, ORANGE, GREY = "#222222", "#0072b2", "#d55e00", "#999999"  # distinguishable for colour-blind readers
WIDTH, HEIGHT = 420, 260
NAMED = (0.05, 0.25, 0.5, 0.75, 0.95)  # samples whose fraction is written beside them
TICKS = [0, *(m * 10**e for e in range(8) for m in (1, 2, 5))]  # of logarithmic axes that start at 0
INTERNAL = "Internal: made from the true counts."


def altair() -> Any:
    """The plotting library; an error that says how to install it if it is missing."""
    try:
        import altair as alt
        import vl_convert  # noqa: F401
    except ImportError:
        raise InputError("plots need altair. Install it: pip install altair vl-convert-python") from None
    return alt


def error_plot(table: pd.DataFrame, *, title: str = "") -> Any:
    """Absolute error by level: the median as a dot, up to the 95th percentile as a line; a panel for each query.

    Fewer counts than have a 95th percentile get no line.
    """
    alt = altair()
    few = (table.n < ENOUGH_FOR_TAIL) & (table.statistic == "p95_abs")
    wide = table[table.statistic.isin(["median_abs", "p95_abs"])].assign(value=table.value.mask(few))
    keys = ["level", "query"] + (["release"] if "release" in wide else [])
    wide = wide.pivot_table(index=keys, columns="statistic", values="value", sort=False).reset_index()
    levels = list(dict.fromkeys(table.level))
    place = {"y": alt.Y("level:N", sort=levels, title=None)}
    if "release" in wide:
        place |= {"yOffset": alt.YOffset("release:N"), "color": alt.Color("release:N", title=None)}
    else:
        place |= {"color": alt.value(BLUE)}
    base = alt.Chart(wide).encode(**place)
    scale = alt.Scale(type="symlog", constant=1)
    ticks = alt.Axis(values=TICKS, labelOverlap=True, format=",d")
    line = base.transform_filter("isValid(datum.p95_abs)").mark_rule(strokeWidth=2)
    line = line.encode(
        x=alt.X("median_abs:Q", scale=scale, axis=ticks, title="absolute error, persons (median to 95th percentile)"),
        x2="p95_abs:Q",
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("median_abs:Q", scale=scale))
    panel = (line + dots).properties(width=WIDTH, height=alt.Step(14 if "release" in wide else 22))
    queries = alt.Facet("query:N", title=None, sort=list(dict.fromkeys(wide["query"])))
    return titled(panel.facet(facet=queries, columns=1), title, INTERNAL)


def bias_plot(table: pd.DataFrame, *, title: str = "", fewest: int = 10) -> Any:
    """Bias by homogeneity or another grouping, with intervals, for groups of at least ``fewest``; a panel per level."""
    alt = altair()
    known = table[(table.n >= fewest) & table.low.notna()]
    levels = [level for level in dict.fromkeys(known.level) if (known.level == level).sum() > 1]
    known = known[known.level.isin(levels)]
    number = pd.api.types.is_numeric_dtype(known["group"])
    by = str(table["by"].iloc[0])
    axis = {"homogeneity": "homogeneity index (number of empty cells of a unit)"}.get(by, by)
    whole = {"axis": alt.Axis(tickMinStep=1), "scale": alt.Scale(padding=12, nice=False, zero=False)} if number else {}
    x = alt.X(f"group:{'Q' if number else 'N'}", title=axis, sort=None, **whole)
    base = alt.Chart(known)
    zero = base.mark_rule(color=GREY, strokeDash=[4, 3]).encode(y=alt.datum(0))
    bars = base.mark_rule(color=BLUE).encode(x=x, y=alt.Y("low:Q", title="bias, persons"), y2="high:Q")
    dots = base.mark_point(filled=True, color=BLUE, size=45, opacity=1).encode(x=x, y="bias:Q")
    panel = (zero + bars + dots).properties(width=WIDTH, height=HEIGHT * 2 // 3)
    shown = panel.facet(facet=alt.Facet("level:N", title=None, sort=levels), columns=1)
    note = f"Mean of released minus true, with 95% intervals. Not drawn: groups of fewer than {fewest}."
    return titled(shown.resolve_scale(x="independent", y="independent"), title, note, INTERNAL)


def epl_plot(curves: pd.DataFrame, *, title: str = "") -> Any:
    """The curves EPL(x) with their simultaneous bands, the largest value, and the theoretical value where it is known.

    Columns ``panel`` (one for each curve), ``x``, ``epl``, ``low``, ``high``, ``largest`` and ``theory``.
    """
    alt = altair()
    base = alt.Chart(curves)
    x = alt.X("x:Q", title="residual x, persons", scale=alt.Scale(nice=False))
    layers = [
        base.mark_area(color=BLUE, opacity=0.2).encode(x=x, y=alt.Y("low:Q", title="log p(x) / p(x + 1)"), y2="high:Q"),
        base.mark_line(color=BLUE).encode(x=x, y="epl:Q"),
    ]
    for name, colour in (("largest", ORANGE), ("theory", INK)):
        for sign in ("", "-"):
            line = base.transform_calculate(y_=f"{sign}datum.{name}").transform_filter(f"isValid(datum.{name})")
            layers.append(line.mark_rule(color=colour, strokeDash=[5, 4]).encode(y="mean(y_):Q"))
    facet = alt.Facet("panel:N", title=None, sort=list(dict.fromkeys(curves.panel)))
    single = curves.panel.nunique() == 1
    width, height = (WIDTH, HEIGHT) if single else (WIDTH * 2 // 3, HEIGHT // 2)
    shown = alt.layer(*layers).properties(width=width, height=height).facet(facet=facet, columns=2)
    known = curves.theory.notna().any()
    band = "Shaded: 95% band for the whole curve, where there are enough residuals."
    words = f"Orange: largest value.{' Black: the noise alone.' if known else ''}"
    return titled(shown.resolve_scale(x="independent", y="independent"), title, words, band, INTERNAL)


def tradeoff_plot(table: pd.DataFrame, *, title: str) -> Any:
    """Error against loss, on logarithmic axes: samples as a line, the release as a point (Figure 2)."""
    alt = altair()
    known = table[table.epl > 0].assign(median_abs=lambda t: t.median_abs.clip(lower=0.5))
    known = known.assign(label=[_label(row) for row in known.itertuples()])
    axes = {
        "x": alt.X(
            "median_abs:Q", scale=alt.Scale(type="log", nice=False, padding=25), title="median absolute error, persons"
        ),
        "y": alt.Y("epl:Q", scale=alt.Scale(type="log", nice=False, padding=25), title="empirical privacy loss"),
    }
    samples, released = known[known.method == "sample"], known[known.method == "release"]
    base = alt.Chart(samples).encode(**axes)
    size = WIDTH, WIDTH * 3 // 4
    named = named_points(known, "label", NAMED, sizes=[size], padding=25)
    parts = [
        base.mark_line(color=GREY).encode(order="fraction:Q"),
        base.mark_square(color=GREY, size=40, opacity=1),
        alt.Chart(released).encode(**axes).mark_point(filled=True, color=ORANGE, size=90, opacity=1),
    ]
    for (place, is_sample), rows in named.groupby(["place", named.method == "sample"]):
        style = {"color": INK} if is_sample else {"color": ORANGE, "fontWeight": "bold"}
        parts.append(alt.Chart(rows).encode(**axes, text="label:N").mark_text(**style, **side_of(str(place))))
    hidden = len(table) - len(known)
    note = "Grey: simple random samples." + (f" Not drawn (no loss): {hidden}." if hidden else "")
    return titled(alt.layer(*parts).properties(width=size[0], height=size[1]), title, note, INTERNAL)


def sweep_plot(table: pd.DataFrame, *, statistic: str = "median_abs") -> Any:
    """A statistic against the budget, a line for each allocation, a panel for each level and query."""
    alt = altair()
    rows = table[table.statistic == statistic]
    keys = ["allocation", "unit", "budget", "level", "query"]
    mean = rows.groupby(keys, sort=False).value.mean().reset_index()
    levels, queries = list(dict.fromkeys(table.level)), list(dict.fromkeys(table["query"]))
    words = {"median_abs": "median error", "rmse": "root mean square error"}.get(statistic, statistic)
    base = alt.Chart(mean).encode(
        x=alt.X(
            "budget:Q",
            scale=alt.Scale(type="log", nice=False, padding=10),
            axis=alt.Axis(values=sorted(mean.budget.unique()), labelExpr="datum.value"),
            title=str(rows.unit.iloc[0]),
        ),
        y=alt.Y(
            "value:Q",
            scale=alt.Scale(type="symlog"),
            axis=alt.Axis(values=TICKS, labelOverlap=True, format=",d"),
            title=words,
        ),
        color=alt.Color("allocation:N", title=None, scale=alt.Scale(range=[BLUE, ORANGE, "#009e73", "#cc79a7", INK])),
    )
    panel = (base.mark_line() + base.mark_point(filled=True, size=35)).properties(width=170, height=130)
    row, column = (alt.Row("query:N", title=None, sort=queries), alt.Column("level:N", title=None, sort=levels))
    note = f"Mean of {rows.replicate.nunique()} runs each."
    return titled(panel.facet(row=row, column=column), f"Sweep: {words}, persons", note, INTERNAL)


def write_plot(chart: Any, path: str | PathLike[str]) -> None:
    """Write a chart as SVG and as PNG: ``path`` without an ending."""
    place = Path(path)
    chart.save(str(place.with_name(place.name + ".svg")))
    chart.save(str(place.with_name(place.name + ".png")), ppi=144)


def _label(row: Any) -> str:
    return f"{100 * row.fraction:g}%" if row.method == "sample" else str(row.method)


def titled(chart: Any, title: str, *notes: str) -> Any:
    """A chart in the house style, with a short title and notes under it."""
    heading = altair().TitleParams(text=title, subtitle=list(notes), subtitleColor=GREY, offset=12)
    return styled(chart.properties(title=heading))


def styled(chart: Any) -> Any:
    """A chart in the house style."""
    font = {"labelFont": "sans-serif", "titleFont": "sans-serif", "labelColor": INK, "titleColor": INK}
    return (
        chart.configure_axis(**font, titleFontWeight="normal", gridColor="#e6e6e6", domainColor=GREY, tickColor=GREY)
        .configure_header(**font, labelFontWeight="bold", labelAnchor="start", labelFontSize=12)
        .configure_legend(**font)
        .configure_title(font="sans-serif", fontWeight="normal", anchor="start", color=INK, fontSize=12)
        .configure_view(stroke=None)
    )
