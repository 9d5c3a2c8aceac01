"""kazan2022, the appendix: the variance of a discrete Gaussian (Figure 7) and sums of them (Figure 8)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.privacy import DiscreteGaussian, approximate_sum, sum_of_noise
from tallyveil.report.plots import INK, altair, titled
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import COLOURS, HALF_WIDTH, lines, paper_noise, rho_of
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

SCALES = np.linspace(0.02, 2, 199)
CASES = (("0.9", 5), ("0.9", 27), ("0.099", 5), ("0.099", 27))  # rho, below 1 as in Proposition 1, and n


def figure_7(_: Setting) -> Outcome:
    """Figure 7, appendix 7.1: variance of a discrete Gaussian."""
    alt = altair()
    rows = []
    for s in SCALES:
        actual = DiscreteGaussian(variance=Fraction(str(round(float(s), 9)))).actual_variance()
        rows.append({"s": s, "rho": 1 / (2 * s), "actual variance": actual, "s itself": s})
    table = pd.DataFrame(rows)
    figures = []
    for least in (0.5, 1.0):
        beyond = np.concatenate([[least], np.geomspace(least, 100, 400)])
        scales = [round(float(s), 9) for s in beyond]
        differences = [DiscreteGaussian(variance=Fraction(str(s))).actual_variance() - s for s in scales]
        again = abs(plain_sums.variance(1 / (2 * least)) - least)  # the largest is at the beginning
        at, ours = f"s > {least:g}", float(np.abs(differences).max())
        figures.append(judge("kazan2022.figure7.largest", ours, case=at, at=at, again=again))
    for s in ("0.2", "0.3"):  # where they are far apart
        figures.append(Figure(name="actual variance", at=f"s={s}", again=plain_sums.variance(1 / (2 * float(s))),
                              ours=DiscreteGaussian(variance=Fraction(s)).actual_variance()))  # fmt: skip
    long = table.melt(["s", "rho"], ["actual variance", "s itself"], "curve", "variance")
    y = alt.Y("variance:Q", title="variance")
    panels = []
    for name, title, high in (("s", "scale parameter s", 2), ("rho", "rho = 1/(2 s)", 5)):
        x = alt.X(f"{name}:Q", title=title, scale=alt.Scale(domain=[0, high], clamp=False))
        panels.append(lines(long[long[name] <= high], x=x, y=y, by="curve", name=None))
    chart = titled(alt.hconcat(*panels), "Variance of a discrete Gaussian")
    return Outcome(figures=figures, charts={"figure 7": chart}, tables={"variances": table})


def figure_8(_: Setting) -> Outcome:
    """Figure 8, section 3.2 and appendix 7.1: sums of discrete Gaussians."""
    alt = altair()
    rows, figures, apart = [], [], {}
    for rho, n in CASES:
        budget = rho_of("block") if rho == "0.099" else Fraction(rho)
        noises = [paper_noise(budget)] * n
        exact, approximation = sum_of_noise(noises), approximate_sum(noises)
        k = np.arange(-exact.reach, exact.reach + 1)
        off = np.abs(exact.pmf(k) - approximation.pmf(k))
        apart[rho, n] = float(off.sum() + 2 * approximation.tail(exact.reach + 1)) / 2
        distance, largest = _by_hand(float(budget), n)
        at = f"rho={rho};n={n}"
        figures += [
            Figure(name="total variation between the two", at=at, ours=apart[rho, n], again=distance,
                   again_within=1e-10),
            Figure(name="largest difference of probabilities", at=at, ours=float(off.max()), again=largest,
                   again_within=1e-10),
            Figure(name="variance of the sum", at=at, ours=exact.actual_variance(),
                   again=n * plain_sums.variance(float(budget))),
            Figure(name="variance of DG(n/(2 rho))", at=at, ours=approximation.actual_variance(),
                   again=plain_sums.variance(float(budget) / n)),
        ]  # fmt: skip
        shown = np.arange(
            -int(3.5 * float(approximation.variance) ** 0.5), int(3.5 * float(approximation.variance) ** 0.5) + 1
        )
        rows.append(pd.DataFrame({"case": f"rho = {rho}, n = {n}", "k": shown, "sum of n": exact.pmf(shown),
                                  "DG(n/(2 rho))": approximation.pmf(shown)}))  # fmt: skip
    few, many, census = (apart[case] for case in (("0.9", 5), ("0.9", 27), ("0.099", 27)))
    figures += [
        judge("kazan2022.figure8.by_number", many / few),
        judge("kazan2022.figure8.by_rho", census / many),
        judge("kazan2022.figure8.census", census),
    ]
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
    notes = notes_of("kazan2022.figure8")
    return Outcome(figures=figures, charts={"figure 8": chart}, tables={"probabilities": table}, notes=notes)


def _by_hand(rho: float, n: int) -> tuple[float, float]:
    """Total variation and the largest difference, by convolving n times."""
    k, p = plain_sums.law(rho)
    p = p[np.abs(k) <= 12 / np.sqrt(2 * rho) + 2]
    total = p
    for _ in range(n - 1):
        total = np.convolve(total, p)
    k, q = plain_sums.law(rho / n)
    reach = max(len(total), len(q)) // 2
    total, q = (np.pad(law, reach - len(law) // 2) for law in (total, q))
    off = np.abs(total - q)
    return float(off.sum()) / 2, float(off.max())
