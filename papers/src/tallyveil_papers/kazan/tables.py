"""kazan2022, one level: Tables 2 to 4.

The paper's noise is DG(1/(2 rho)) with the Bureau's rho; the noise of the 2020 file has twice the variance (erratum 9).
Figures without a published number that say "Bureau's noise" are for the latter.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.nouns.census_schemas import PERSONS_1940
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine
from tallyveil.privacy import DiscreteGaussian
from tallyveil.risk import Exposure, Intruder
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import (
    PRIORS,
    beside,
    bureau_noise,
    paper_noise,
    rho_of,
    rounding,
)
from tallyveil_papers.registry import Outcome, Setting

TABLE_2 = {("household", "adult", "not_hispanic", "white"): 34,
           ("household", "minor", "not_hispanic", "white"): 10,
           ("household", "adult", "not_hispanic", "black"): 1}  # fmt: skip
RIGHT_6 = (0.178, 0.161, 0.119, 0.073, 0.036)  # erratum 6: the column of probabilities as it should be
RIGHT_9 = {"1/2": 1.024, "1/50": 1.100}  # erratum 9: R with the variance 1/2.56 x ..., 10.08
BUREAUS_RHO = plain_sums.HALF * plain_sums.RHO_1  # whose DG(1/(2 rho)) has the Bureau's variance
NOISE_9 = (
    "The paper adds DG(1/(2 rho)) with the Bureau's rho, which is right when one cell changes by one; the Bureau's rho "
    "is for replace-one neighbours (one cell down, one up), so the 2020 file has DG(1/rho), twice the variance "
    "(erratum 9): 10.08 with the printed rho of 2.56, and 10.09 with the Bureau's exact one, (542/339)^2. Figures for "
    "the Bureau's noise, with its exact rho unless it says otherwise, stand beside the paper's, without a published "
    "number."
)


def exposure(prior: str, noise: DiscreteGaussian | None = None, known: int = 0) -> Exposure:
    """What the intruder of section 4.2 learns; with the paper's noise in a block if none is given."""
    return Intruder(prior=prior, known=known).against(noise or paper_noise(rho_of("block")))


def table_2(_: Setting) -> Outcome:
    """Table 2 and section 4.2: histogram of enumeration district 28-21."""
    labels = list(PERSONS_1940.attributes.values())
    cells = [
        int(
            np.ravel_multi_index(
                [names.index(label) for names, label in zip(labels, row, strict=True)], PERSONS_1940.shape
            )
        )
        for row in TABLE_2
    ]
    spine = Spine.from_columns({"enumdist": ["28-21"]})
    district = Histogram.from_entries(spine, PERSONS_1940, unit=[0] * 3, cell=cells, count=list(TABLE_2.values()))
    counts = district.at("enumdist").dense()[0]
    alone = np.flatnonzero(counts == 1)
    figures = [
        Figure(name="persons (input)", at="ED 28-21", ours=float(district.total()), again=45,
               quote="45 non-Hispanic individuals"),
        Figure(name="persons who are unique (input)", at="ED 28-21", ours=float(len(alone)), again=1,
               quote="there is one individual who is unique"),
        Figure(name="others with the target's characteristics, k1 (input)", ours=float(counts[alone[0]] - 1), again=0,
               quote="the intruder's known count is k_1 = 0"),
    ]  # fmt: skip
    names = ["HHGQ", "VOTINGAGE", "HISPANIC", "CENRACE"]
    shown = pd.DataFrame([[*row, count] for row, count in TABLE_2.items()], columns=[*names, "Count"])
    notes = [
        "The three counts are facts of the 1940 census, taken from the paper as the input of what follows.",
        "Nor are the paper's other facts of that census computed here: 209 persons in district 39-14, 29,364 in "
        "Granville County, and its 27 other districts (section 4.3).",
    ]
    return Outcome(figures=figures, tables={"table 2": shown}, notes=notes)


def table_3(_: Setting) -> Outcome:
    """Table 3 and section 4.2.1: posterior and risk for a released statistic."""
    noise, real = paper_noise(rho_of("block")), bureau_noise("block")
    figures, bureaus = [], []
    for x, right in zip(range(1, 6), RIGHT_6, strict=True):
        mass, without = float(noise.pmf(x - 1)), float(noise.pmf(x))
        figures.append(beside("Table 3", "probability mass", f"x={x}", mass, digits=3, as_printed=without, again=right,
                              again_within=rounding(3)))  # fmt: skip
        bureaus.append(Figure(name="probability mass, Bureau's noise", at=f"x={x}", ours=float(real.pmf(x - 1)),
                              again=plain_sums.mass(BUREAUS_RHO, x - 1)))  # fmt: skip
        for p in PRIORS:
            at, prior = f"x={x};p={p}", float(Fraction(p))
            one, other = exposure(p), exposure(p, real)
            figures.append(beside("Table 3", "posterior", at, float(one.posterior(x)), digits=3))
            figures.append(beside("Table 3", "risk ratio", at, float(one.ratio(x)), digits=2))
            again = plain_sums.posterior(BUREAUS_RHO, x, prior)
            bureaus.append(Figure(name="posterior, Bureau's noise", at=at, ours=float(other.posterior(x)), again=again))
            bureaus.append(Figure(name="risk ratio, Bureau's noise", at=at, ours=float(other.ratio(x)),
                                  again=again / prior))  # fmt: skip
    for x, percent, right in ((4, 3.6, 7.3), (5, 1.5, 3.6)):  # section 4.2.1
        ours, printed = 100 * float(noise.pmf(x - 1)), 100 * float(noise.pmf(x))
        figures.append(Figure(name="a statistic of this size occurs, %", at=f"x={x} (section 4.2.1)", ours=ours,
                              published=percent, tolerance=rounding(1), as_printed=printed, again=right,
                              again_within=rounding(1)))  # fmt: skip
    return Outcome(figures=figures + bureaus, tables={"table 3": _as_table_3(figures)}, notes=[NOISE_9])


def _as_table_3(figures: list[Figure]) -> pd.DataFrame:
    """The figures in the form of the paper's table, the probability of both hypotheses beside each other."""
    ours = {(figure.name, figure.at): figure for figure in figures}
    rows = []
    for x in range(1, 6):
        mass = ours["probability mass", f"x={x}"]
        row: dict[str, float | int | None] = {
            "x": x,
            "P[X* = x | X = 1]": mass.ours,
            "P[X* = x | X = 0]": mass.as_printed,
        }
        row |= {f"posterior p={p}": ours["posterior", f"x={x};p={p}"].ours for p in PRIORS}
        rows.append(row | {f"risk p={p}": ours["risk ratio", f"x={x};p={p}"].ours for p in PRIORS})
    return pd.DataFrame(rows)


def table_4(_: Setting) -> Outcome:
    """Table 4 and section 4.2.2: average posterior and disclosure risk."""
    figures, bureaus, rows = [], [], []
    for p in PRIORS:
        one, real, prior = exposure(p), exposure(p, bureau_noise("block")), float(Fraction(p))
        figures.append(beside("Table 4", "marginal posterior", f"p={p}", one.marginal_posterior, digits=3))
        figures.append(beside("Table 4", "disclosure risk R", f"p={p}", one.risk, digits=2))
        again = plain_sums.average(BUREAUS_RHO, prior)
        bureaus.append(Figure(name="marginal posterior, Bureau's noise", at=f"p={p}", ours=real.marginal_posterior,
                              again=again))  # fmt: skip
        bureaus.append(Figure(name="disclosure risk R, Bureau's noise", at=f"p={p}", ours=real.risk,
                              again=again / prior))  # fmt: skip
        rows.append([p, one.marginal_posterior, one.risk, real.marginal_posterior, real.risk])
    risks = [exposure(p).risk for p in PRIORS]
    for name, end, printed in (("smallest", min, 1.05), ("largest", max, 1.21)):  # section 4.2.2
        figures.append(Figure(name=f"{name} disclosure risk R", at="section 4.2.2", ours=end(risks), published=printed,
                              tolerance=rounding(2), quote="between 1.05 and 1.21"))  # fmt: skip
    twice = DiscreteGaussian(variance=1 / rho_of("block"))  # erratum 9 with the printed rho
    bureaus.append(Figure(name="variance 1/rho", at="rho=2.56", ours=float(twice.variance), again=10.08,
                          again_within=rounding(2)))  # fmt: skip
    for p, right in RIGHT_9.items():
        bureaus.append(Figure(name="disclosure risk R, variance 1/rho", at=f"rho=2.56;p={p}", again=right,
                              again_within=rounding(3), ours=exposure(p, twice).risk))  # fmt: skip
    names = ["p", "posterior", "risk R", "posterior, Bureau's noise", "risk R, Bureau's noise"]
    return Outcome(figures=figures + bureaus, tables={"table 4": pd.DataFrame(rows, columns=names)}, notes=[NOISE_9])
