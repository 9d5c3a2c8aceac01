"""How the charts of a report look: colours are variables of the page, so that one drawing serves screen and paper.

Altair writes Vega-Lite, whose SVG takes any CSS colour. ``var(--ink)`` is dark on light paper and light on a dark
screen; the page's style sheet decides (``report.css``).
"""

from __future__ import annotations

from typing import Any

INK, SOFT, LINE, PAPER = "var(--ink)", "var(--soft)", "var(--line)", "var(--paper)"
ERROR, PLACE, MEASURED, BAND = "var(--error)", "var(--place)", "var(--measured)", "var(--band)"
RAMP = [f"var(--ramp-{i})" for i in range(1, 6)]  # from precise to imprecise
SEQUENCE = [f"var(--sequence-{i})" for i in range(1, 6)]  # from few to many
SANS = '"Source Sans 3", "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif'
TICKS = [0, *(10**e for e in range(10))]
STATIC_WIDTH = 640  # pixels, of drawings for paper and for pages without scripts


def themed(chart: Any) -> Any:
    """A chart in the report's style."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return chart.configure(
        background="transparent",
        font=SANS,
        aria=False,  # the page describes the chart in words, and has its table
        view={"stroke": None},
        axis={**text, "gridColor": LINE, "domainColor": SOFT, "tickColor": SOFT, "labelLimit": 150},
        legend={**text, "orient": "top", "labelLimit": 300, "symbolStrokeColor": INK},
        text={"color": INK, "fontSize": 12},
    )


def people_axis(alt: Any, title: str) -> dict[str, Any]:
    """The scale and axis of numbers of people, which are logarithmic but start at 0."""
    axis = alt.Axis(values=TICKS, format=",d", labelOverlap="greedy", title=title)
    return {"scale": alt.Scale(type="symlog", constant=1, domainMin=0, nice=False), "axis": axis}
