"""Shared by flaxman2019 and petti2020's appendix: curves of the loss, the authors' noise, and charts.

:func:`tallyveil.evaluate.epl` computes a curve with its band. Where hundreds of curves are needed, the same
``smoothed`` (tallyveil.evaluate.epl.loss) computes them without the band.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tallyveil._arrays import Floats
from tallyveil.evaluate.epl.settings import Settings, smoothed
from tallyveil.evaluate.value_counts import value_counts
from tallyveil.report.plots import BLUE, GREY, HEIGHT, INK, ORANGE, WIDTH, altair, titled

DRAWN = 0.95  # share of the residuals that a chart shows on each side, times 1.5


def loss_curve(residuals: NDArray[Any], **settings: Any) -> tuple[Floats, Floats]:
    """The points x of the search range and log p(x)/p(x+1) of the smoothed density at each.

    >>> x, loss = loss_curve(np.repeat([-1, 0, 1], [250, 500, 250]), bandwidth=0.01, grid="integers", percentile=100)
    >>> x.tolist(), loss.round(3).tolist()
    ([-1.0], [-0.693])
    """
    points, log_p = smoothed(value_counts(residuals), Settings(**settings))
    return points[:-1], log_p[:-1] - log_p[1:]


def largest(residuals: NDArray[Any], **settings: Any) -> float:
    """The largest absolute value of the curve: EPL."""
    return float(np.abs(loss_curve(residuals, **settings)[1]).max())


def median(residuals: NDArray[Any], **settings: Any) -> float:
    """The median absolute value of the curve, which a few noisy points do not move."""
    return float(np.median(np.abs(loss_curve(residuals, **settings)[1])))


def one_draw(values: Floats, published: float) -> float:
    """How far one draw may lie from the mean, on the side of a published one: to the 2.5th or 97.5th percentile."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(abs((low if published < values.mean() else high) - values.mean()))


def authors_z(z: float) -> Fraction:
    """The z of the noise that the notebooks drew: numpy's geometrics with success probability z have ratio 1 - z.

    >>> round(float(authors_z(0.125)), 4)        # erratum 1
    0.1335
    """
    return Fraction(-math.log1p(-z)).limit_denominator(10**12)


def densities(residuals: NDArray[Any], *, bandwidth: float, width: float = 1.0, reach: float | None = None) -> Any:
    """Frequencies of residuals per person (in bins of ``width``), and the smoothed density: x, share, what."""
    far = reach or 1.5 * float(np.quantile(np.abs(residuals), DRAWN))
    half = math.ceil(far / width)
    middle = np.arange(-half, half + 1) * width
    counted, _ = np.histogram(residuals, bins=np.append(middle - width / 2, middle[-1] + width / 2))
    points = np.arange(-math.ceil(far), math.ceil(far) + 0.01, 0.25)
    parts = [pd.DataFrame({"x": middle, "share": counted / len(residuals) / width, "what": "direct"})]
    if bandwidth:
        counts = value_counts(residuals)
        h = bandwidth * counts.deviation()
        weight = counts.count / counts.n / (h * math.sqrt(2 * math.pi))
        share = [float(weight @ np.exp(-(((x - counts.value) / h) ** 2) / 2)) for x in points]
        parts.append(pd.DataFrame({"x": points, "share": share, "what": "smoothed"}))
    return pd.concat(parts, ignore_index=True)


def curve_of(residuals: NDArray[Any]) -> pd.DataFrame:
    """The loss curve as a table: x, epl."""
    x, loss = loss_curve(residuals)
    return pd.DataFrame({"x": x, "epl": loss})


def two_panels(
    density: pd.DataFrame, curve: pd.DataFrame, *, title: str, lines: Sequence[tuple[str, float]], whose: str
) -> Any:
    """The form of Figures SA2 to SA4: (a) density, direct and smoothed; (b) EPL(x) with its largest value and lines."""
    alt = altair()
    x = alt.X("x:Q", title="residual, persons", scale=alt.Scale(nice=False))
    share = alt.Y("share:Q", title="share of residuals")
    dots = alt.Chart(density[density.what == "direct"]).mark_point(color=GREY, filled=True, size=22, opacity=1)
    a = dots.encode(x=x, y=share)
    a += alt.Chart(density[density.what == "smoothed"]).mark_line(color=BLUE).encode(x=x, y=share)
    y = alt.Y("epl:Q", title="log p(x) / p(x + 1)")
    b = alt.Chart(curve).mark_line(color=BLUE).encode(x=x, y=y)
    at = curve.loc[[curve.epl.abs().idxmax()]]
    b += alt.Chart(at).mark_point(color=ORANGE, filled=True, size=80, opacity=1, shape="square").encode(x=x, y=y)
    b += level_lines(lines)
    words = ", ".join(f"{name} {value:.3g}" for name, value in lines)
    note = [
        f"{whose}. (a) grey dots: frequencies, blue: smoothed.",
        f"(b) square: largest of this run, {at.epl.abs().iloc[0]:.3g}; dashed: {words}.",
    ]
    panels = [
        panel.properties(width=WIDTH * 2 // 3, height=HEIGHT * 3 // 4, title=t) for panel, t in ((a, "(a)"), (b, "(b)"))
    ]
    return titled(alt.hconcat(*panels), title, *note)


def level_lines(lines: Sequence[tuple[str, float]]) -> Any:
    """Dashed lines at plus and minus each value."""
    alt = altair()
    both = pd.DataFrame({"y": [sign * value for _, value in lines for sign in (1, -1)]})
    return alt.Chart(both).mark_rule(color=INK, strokeDash=[5, 4], strokeWidth=1).encode(y="y:Q")
