"""Shared by the items of kazan2022: its budgets and noise, the comparison with published numbers, and charts."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pandas as pd

from tallyveil.privacy import DiscreteGaussian, Strategy
from tallyveil.privacy.budget import Number
from tallyveil.report.plots import BLUE, HEIGHT, INK, ORANGE, WIDTH, altair
from tallyveil_papers.figure import Figure
from tallyveil_papers.registry import published
from tallyveil_papers.verdicts import rounding

RHO = Fraction("2.56")  # section 2.3; the Bureau's exact one is (542/339)^2
PRIORS = ("1/2", "1/5", "1/10", "1/50")  # the four intruders of section 4.2
PUBLISHED = "kazan_reiter_2022_values"
COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7", INK)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [12, 4])
HALF_WIDTH = WIDTH * 2 // 3


@lru_cache
def bureau() -> Strategy:
    """The strategy of the 2020 redistricting file: its shares, and the noise that was actually added."""
    return Strategy.preset("pl94-2020-us-persons")


def rho_of(level: str) -> Fraction:
    """The paper's rho for the detailed query at a level: 2.56 times the Bureau's shares."""
    return RHO * bureau().share(level, "detailed")


def paper_noise(rho: Number) -> DiscreteGaussian:
    """DG(1/(2 rho)), the paper's noise (Definition 5)."""
    return DiscreteGaussian(variance=1 / (2 * Fraction(rho)))


def bureau_noise(level: str) -> DiscreteGaussian:
    """The noise of the detailed query in the 2020 file: variance 1/rho, twice the paper's (erratum 9)."""
    noise = bureau().noise(level, "detailed")
    assert isinstance(noise, DiscreteGaussian)
    return noise


@lru_cache
def _rows() -> dict[tuple[str, str, str], Any]:
    table = published(PUBLISHED).fillna({"at": ""})
    return {(row.item, row.quantity, row.at): row for row in table.itertuples()}


def beside(item: str, quantity: str, at: str, ours: float, *, chance: float = 0.0, **computed: Any) -> Figure:
    """Compare our number with the table of published values, and with the corrected value if the errata give one.

    ``chance`` is added to the tolerance: a multiple of the published number's standard error.
    """
    row = _rows()[item, quantity, at]
    fields = {"published": float(row.published), "tolerance": rounding(row.digits) + chance}
    if not math.isnan(row.corrected):
        fields |= {"again": row.corrected, "again_within": rounding(int(row.corrected_digits))}
    return Figure(name=quantity, at=at, ours=ours, **fields | computed)


def lines(table: pd.DataFrame, *, x: Any, y: Any, by: str, name: str | None, width: int = HALF_WIDTH) -> Any:
    """A line for each value of ``by``, with its own colour and dashes."""
    alt = altair()
    order = list(dict.fromkeys(table[by]))
    colours = alt.Scale(domain=order, range=list(COLOURS[: len(order)]))
    dashes = alt.Scale(domain=order, range=list(DASHES[: len(order)]))
    legend = alt.Legend(title=name, symbolSize=400, symbolStrokeWidth=2)
    chart = alt.Chart(table).mark_line(strokeWidth=1.8, clip=True)
    colour = alt.Color(f"{by}:N", sort=order, scale=colours, legend=legend)
    dash = alt.StrokeDash(f"{by}:N", sort=order, scale=dashes, legend=legend)
    return chart.encode(x=x, y=y, color=colour, strokeDash=dash).properties(width=width, height=HEIGHT)


def rule(*, x: float | None = None, y: float | None = None, colour: str = INK, dash: tuple[int, ...] = (3, 3)) -> Any:
    """A dashed line across a panel."""
    alt = altair()
    place = {"x": alt.X("at:Q")} if x is not None else {"y": alt.Y("at:Q")}
    rows = pd.DataFrame({"at": [x if x is not None else y]})
    return alt.Chart(rows).mark_rule(color=colour, strokeDash=list(dash)).encode(**place)


def budget_axis(name: str, title: str, low: float, high: float) -> Any:
    """A logarithmic axis of rho with the implied epsilon under each number."""
    alt = altair()
    values = [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    both = "[format(datum.value, '~g'), format(sqrt(2 * datum.value), '.2~f')]"
    axis = alt.Axis(values=values, labelExpr=both)
    scale = alt.Scale(type="log", nice=False, domain=[low, high])
    return alt.X(f"{name}:Q", scale=scale, axis=axis, title=[title, "(below: implied epsilon)"])
