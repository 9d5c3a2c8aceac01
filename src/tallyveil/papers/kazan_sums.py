"""kazan2022, the appendix: the variance of a discrete Gaussian (Figure 7) and sums of them (Figure 8)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.papers.kazan_facts import COLOURS, HALF_WIDTH, lines, paper_noise, rho_of, titled
from tallyveil.papers.registry import Figure, Item, Outcome, Setting
from tallyveil.privacy import DiscreteGaussian, approximate_sum, sum_of_noise
from tallyveil.report.plots import INK, altair

SCALES = np.linspace(0.02, 2, 199)
CASES = (("1", 5), ("1", 27), ("0.099", 5), ("0.099", 27))  # rho and n


def _figure_7(_: Setting) -> Outcome:
    alt = altair()
    rows = []
    for s in SCALES:
        actual = DiscreteGaussian(variance=Fraction(str(round(float(s), 9)))).actual_variance()
        rows.append({"s": s, "rho": 1 / (2 * s), "actual variance": actual, "s itself": s})
    table = pd.DataFrame(rows)
    off = {}
    for least in (0.5, 1.0):
        beyond = np.concatenate([[least], np.geomspace(least, 100, 400)])
        found = [DiscreteGaussian(variance=Fraction(str(round(float(s), 9)))).actual_variance() - round(float(s), 9)
                 for s in beyond]  # fmt: skip
        off[least] = float(np.abs(found).max())
    figures = [
        Figure(name="largest |actual variance - s|", at="s > 0.5, printed: below 0.002", ours=off[0.5], published=0,
               tolerance=0.002),
        Figure(name="largest |actual variance - s|", at="s > 1, printed: below 1e-6", ours=off[1.0], published=0,
               tolerance=1e-6),
    ]  # fmt: skip
    long = table.melt(["s", "rho"], ["actual variance", "s itself"], "curve", "variance")
    y = alt.Y("variance:Q", title="variance")
    panels = []
    for name, title, high in (("s", "scale parameter s", 2), ("rho", "rho = 1/(2 s)", 5)):
        x = alt.X(f"{name}:Q", title=title, scale=alt.Scale(domain=[0, high], clamp=False))
        panels.append(lines(long[long[name] <= high], x=x, y=y, by="curve", name=None))
    chart = titled(alt.hconcat(*panels), "Variance of a discrete Gaussian")
    return Outcome(figures=figures, charts={"figure 7": chart}, tables={"variances": table})


def _figure_8(_: Setting) -> Outcome:
    alt = altair()
    rows, figures = [], []
    for rho, n in CASES:
        noises = [paper_noise(rho_of("block") if rho == "0.099" else rho)] * n
        exact, one = sum_of_noise(noises), approximate_sum(noises)
        k = np.arange(-exact.reach, exact.reach + 1)
        apart = float(np.abs(exact.pmf(k) - one.pmf(k)).sum() + 2 * one.tail(exact.reach + 1)) / 2
        at = f"rho={rho};n={n}"
        figures.append(Figure(name="total variation between the two", at=at, ours=apart))
        figures.append(
            Figure(
                name="largest difference of probabilities", at=at, ours=float(np.abs(exact.pmf(k) - one.pmf(k)).max())
            )
        )
        figures.append(Figure(name="variance of the sum over n/(2 rho)", at=at,
                              ours=exact.actual_variance() / float(one.variance)))  # fmt: skip
        shown = np.arange(-int(3.5 * float(one.variance) ** 0.5), int(3.5 * float(one.variance) ** 0.5) + 1)
        rows.append(pd.DataFrame({"case": f"rho = {rho}, n = {n}", "k": shown, "sum of n": exact.pmf(shown),
                                  "DG(n/(2 rho))": one.pmf(shown)}))  # fmt: skip
    table = pd.concat(rows, ignore_index=True)
    panels = []
    for case in dict.fromkeys(table.case):
        base = alt.Chart(table[table.case == case], title=case)
        x = alt.X("k:Q", title="k", scale=alt.Scale(nice=False))
        y = alt.Y("sum of n:Q", title="probability", axis=alt.Axis(format="~g", tickCount=5))
        line = base.mark_line(color=COLOURS[1], strokeWidth=1.5).encode(x=x, y=alt.Y("DG(n/(2 rho)):Q"))
        points = base.mark_point(filled=True, color=INK, size=22, opacity=1).encode(x=x, y=y)
        panels.append((line + points).properties(width=HALF_WIDTH, height=150))
    chart = titled(
        alt.concat(*panels, columns=2), "Sums of discrete Gaussians", "Points: the sum of n. Line: DG(n/(2 rho))."
    )
    notes = ["The captions of Figures 7 and 8 are missing in the paper; Figure 8 is drawn from what its text says."]
    return Outcome(figures=figures, charts={"figure 8": chart}, tables={"probabilities": table}, notes=notes)


ITEMS: tuple[Item, ...] = (
    Item(
        key="kazan2022.figure7", title="Variance of a discrete Gaussian", where="Figure 7, appendix 7.1",
        what="The actual variance of DG(s) along s and rho, and how far it is from s at most.",
        calls=("privacy.DiscreteGaussian.actual_variance",),
        tolerance="As printed: the text says below 0.002 and below 1e-6.", compute=_figure_7,
    ),
    Item(
        key="kazan2022.figure8", title="Sums of discrete Gaussians", where="Figure 8, appendix 7.1",
        what="Probabilities of a sum of n, by convolution, and of DG(n/(2 rho)) (Proposition 1), and how far "
        "apart they are.",
        calls=("privacy.sum_of_noise", "privacy.approximate_sum"),
        tolerance="None: the paper prints no number.", compute=_figure_8,
    ),
)  # fmt: skip
