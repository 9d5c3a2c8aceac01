"""kazan2022, one level: Tables 2 to 4.

The paper's noise is DG(1/(2 rho)) with the Bureau's rho; the noise of the 2020 file has twice the variance (erratum 9).
Figures named "Bureau's noise", which have no published number, use the latter.
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
from tallyveil_papers.kazan.extract import extract_of, table_2_figures
from tallyveil_papers.kazan.facts import (
    PRIORS,
    beside,
    bureau_noise,
    paper_noise,
    rho_of,
)
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

TABLE_2 = {("household", "adult", "not_hispanic", "white"): 34,
           ("household", "minor", "not_hispanic", "white"): 10,
           ("household", "adult", "not_hispanic", "black"): 1}  # fmt: skip
BUREAUS_RHO = plain_sums.HALF * plain_sums.RHO_1  # whose DG(1/(2 rho)) has the Bureau's variance


def exposure(prior: str, noise: DiscreteGaussian | None = None, known: int = 0) -> Exposure:
    """What the intruder of section 4.2 learns; with the paper's noise in a block if none is given."""
    return Intruder(prior=prior, known=known).against(noise or paper_noise(rho_of("block")))


def table_2(setting: Setting) -> Outcome:
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
        judge("kazan2022.table2.persons", float(district.total())),
        judge("kazan2022.table2.unique", float(len(alone))),
        judge("kazan2022.table2.known", float(counts[alone[0]] - 1)),
    ]
    names = ["HHGQ", "VOTINGAGE", "HISPANIC", "CENRACE"]
    shown = pd.DataFrame([[*row, count] for row, count in TABLE_2.items()], columns=[*names, "Count"])
    if setting.ipums is None:
        return Outcome(figures=figures, tables={"table 2": shown}, notes=notes_of("kazan2022.table2"))
    read, rows = table_2_figures(extract_of(setting.ipums))
    return Outcome(figures=[*figures, *read], tables={"table 2": shown, "table 2 from the extract": rows})


def table_3(_: Setting) -> Outcome:
    """Table 3 and section 4.2.1: posterior and risk for a released statistic."""
    noise, real = paper_noise(rho_of("block")), bureau_noise("block")
    figures, bureaus = [], []
    for x in range(1, 6):
        mass, without = float(noise.pmf(x - 1)), float(noise.pmf(x))
        figures.append(beside("Table 3", "probability mass", f"x={x}", mass, as_printed=without))
        bureaus.append(Figure(name="probability mass, Bureau's noise", at=f"x={x}", ours=float(real.pmf(x - 1)),
                              again=plain_sums.mass(BUREAUS_RHO, x - 1)))  # fmt: skip
        for p in PRIORS:
            at, prior = f"x={x};p={p}", float(Fraction(p))
            paper, bureau = exposure(p), exposure(p, real)
            figures.append(beside("Table 3", "posterior", at, float(paper.posterior(x))))
            figures.append(beside("Table 3", "risk ratio", at, float(paper.ratio(x))))
            again = plain_sums.posterior(BUREAUS_RHO, x, prior)
            bureaus.append(
                Figure(name="posterior, Bureau's noise", at=at, ours=float(bureau.posterior(x)), again=again)
            )
            bureaus.append(Figure(name="risk ratio, Bureau's noise", at=at, ours=float(bureau.ratio(x)),
                                  again=again / prior))  # fmt: skip
    for x in (4, 5):  # section 4.2.1
        ours, printed = 100 * float(noise.pmf(x - 1)), 100 * float(noise.pmf(x))
        figures.append(judge("kazan2022.table3.occurs", ours, case=f"{x}", as_printed=printed))
    notes = notes_of("kazan2022.table3")
    return Outcome(figures=figures + bureaus, tables={"table 3": _as_table_3(figures)}, notes=notes)


def _as_table_3(figures: list[Figure]) -> pd.DataFrame:
    """The figures in the form of the paper's table, with the probabilities under both hypotheses."""
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
        paper, bureau, prior = exposure(p), exposure(p, bureau_noise("block")), float(Fraction(p))
        figures.append(beside("Table 4", "marginal posterior", f"p={p}", paper.marginal_posterior))
        figures.append(beside("Table 4", "disclosure risk R", f"p={p}", paper.risk))
        again = plain_sums.average(BUREAUS_RHO, prior)
        bureaus.append(Figure(name="marginal posterior, Bureau's noise", at=f"p={p}", ours=bureau.marginal_posterior,
                              again=again))  # fmt: skip
        bureaus.append(Figure(name="disclosure risk R, Bureau's noise", at=f"p={p}", ours=bureau.risk,
                              again=again / prior))  # fmt: skip
        rows.append([p, paper.marginal_posterior, paper.risk, bureau.marginal_posterior, bureau.risk])
    risks = [exposure(p).risk for p in PRIORS]
    figures += [judge("kazan2022.table4.smallest", min(risks)), judge("kazan2022.table4.largest", max(risks))]
    twice = DiscreteGaussian(variance=1 / rho_of("block"))  # erratum 9 with the printed rho
    bureaus.append(judge("kazan2022.table4.twice", float(twice.variance)))
    for p in ("1/2", "1/50"):
        bureaus.append(judge("kazan2022.table4.risk", exposure(p, twice).risk, case=p, at=f"rho=2.56;p={p}"))
    names = ["p", "posterior", "risk R", "posterior, Bureau's noise", "risk R, Bureau's noise"]
    table = pd.DataFrame(rows, columns=names)
    return Outcome(figures=figures + bureaus, tables={"table 4": table}, notes=notes_of("kazan2022.table4"))
