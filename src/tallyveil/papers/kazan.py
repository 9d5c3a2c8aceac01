"""kazan2022, one level: Tables 2 to 4, Figures 1 to 3, sections 4.2 and 5; and the list of all items of the paper.

The paper's noise is DG(1/(2 rho)) with the Bureau's rho; the noise of the 2020 file has twice the variance (erratum 9).
Figures without a published number that say "Bureau's noise" are for the latter.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.histogram import Histogram
from tallyveil.papers.kazan_budgets import ITEMS as BUDGETS
from tallyveil.papers.kazan_decisions import ITEMS as DECISIONS
from tallyveil.papers.kazan_facts import (
    HALF_A_UNIT,
    PRIORS,
    beside,
    budget_axis,
    bureau_noise,
    lines,
    paper_noise,
    rho_of,
    rounding,
    rule,
    titled,
)
from tallyveil.papers.kazan_levels import ITEMS as LEVELS
from tallyveil.papers.kazan_sums import ITEMS as SUMS
from tallyveil.papers.registry import Figure, Item, Outcome, Setting
from tallyveil.privacy import DiscreteGaussian
from tallyveil.report.plots import GREY, altair
from tallyveil.risk import Attribute, Exposure, Intruder, curve
from tallyveil.schemas import PERSONS_1940
from tallyveil.spine import Spine

TABLE_2 = {("household", "adult", "not_hispanic", "white"): 34,
           ("household", "minor", "not_hispanic", "white"): 10,
           ("household", "adult", "not_hispanic", "black"): 1}  # fmt: skip
NOISE_9 = (
    "The paper adds DG(1/(2 rho)) with the Bureau's rho, which is right when one cell changes by one; the Bureau's rho "
    "is for replace-one neighbours (one cell down, one up), so the 2020 file has DG(1/rho), twice the variance "
    "(erratum 9). Figures for the Bureau's noise stand beside the paper's, without a published number."
)
GRID = np.geomspace(0.01, 10, 241)


def exposure(prior: str, noise: DiscreteGaussian | None = None, known: int = 0) -> Exposure:
    """What the intruder of section 4.2 learns; with the paper's noise in a block if none is given."""
    return Intruder(prior=prior, known=known).against(noise or paper_noise(rho_of("block")))


def _table_2(_: Setting) -> Outcome:
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
        Figure(name="persons", at="ED 28-21", ours=float(district.total()), published=45),
        Figure(name="persons who are unique", at="ED 28-21", ours=float(len(alone)), published=1),
        Figure(name="others with the target's characteristics, k1", ours=float(counts[alone[0]] - 1), published=0),
    ]
    names = ["HHGQ", "VOTINGAGE", "HISPANIC", "CENRACE"]
    shown = pd.DataFrame([[*row, count] for row, count in TABLE_2.items()], columns=[*names, "Count"])
    note = "The three counts are a fact of the 1940 census, taken from the paper as the input of what follows."
    return Outcome(figures=figures, tables={"table 2": shown}, notes=[note])


def _table_3(_: Setting) -> Outcome:
    noise, real = paper_noise(rho_of("block")), bureau_noise("block")
    figures, bureaus = [], []
    for x in range(1, 6):
        mass, without = float(noise.pmf(x - 1)), float(noise.pmf(x))
        figures.append(beside("Table 3", "probability mass", f"x={x}", mass, digits=3, as_printed=without))
        bureaus.append(Figure(name="probability mass, Bureau's noise", at=f"x={x}", ours=float(real.pmf(x - 1))))
        for p in PRIORS:
            at = f"x={x};p={p}"
            one, other = exposure(p), exposure(p, real)
            figures.append(beside("Table 3", "posterior", at, float(one.posterior(x)), digits=3))
            figures.append(beside("Table 3", "risk ratio", at, float(one.ratio(x)), digits=2))
            bureaus.append(Figure(name="posterior, Bureau's noise", at=at, ours=float(other.posterior(x))))
            bureaus.append(Figure(name="risk ratio, Bureau's noise", at=at, ours=float(other.ratio(x))))
    for x, percent in ((4, 3.6), (5, 1.5)):  # section 4.2.1
        ours, printed = 100 * float(noise.pmf(x - 1)), 100 * float(noise.pmf(x))
        figures.append(Figure(name="a statistic of this size occurs, %", at=f"x={x} (section 4.2.1)", ours=ours,
                              published=percent, tolerance=rounding(1), as_printed=printed))  # fmt: skip
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


def _table_4(_: Setting) -> Outcome:
    figures, bureaus, rows = [], [], []
    for p in PRIORS:
        one, real = exposure(p), exposure(p, bureau_noise("block"))
        figures.append(beside("Table 4", "marginal posterior", f"p={p}", one.marginal_posterior, digits=3))
        figures.append(beside("Table 4", "disclosure risk R", f"p={p}", one.risk, digits=2))
        bureaus.append(Figure(name="marginal posterior, Bureau's noise", at=f"p={p}", ours=real.marginal_posterior))
        bureaus.append(Figure(name="disclosure risk R, Bureau's noise", at=f"p={p}", ours=real.risk))
        rows.append([p, one.marginal_posterior, one.risk, real.marginal_posterior, real.risk])
    names = ["p", "posterior", "risk R", "posterior, Bureau's noise", "risk R, Bureau's noise"]
    return Outcome(figures=figures + bureaus, tables={"table 4": pd.DataFrame(rows, columns=names)}, notes=[NOISE_9])


def _figure_1(_: Setting) -> Outcome:
    alt = altair()
    x = np.arange(-8, 11)
    rows, figures = [], []
    for p in PRIORS:
        posterior, ratio = exposure(p).posterior(x), exposure(p).ratio(x)
        rows.append(pd.DataFrame({"x": x, "posterior": posterior, "ratio": ratio, "p": p}))
        first = float(x[int(np.argmax(posterior > float(Fraction(p))))])
        figures.append(
            Figure(name="smallest count with a posterior above the prior", at=f"p={p}", ours=first, published=1)
        )
        falls = float((np.diff(posterior) <= 0).sum() + (np.diff(ratio) <= 0).sum())
        figures.append(Figure(name="places where either curve does not rise", at=f"p={p}", ours=falls, published=0))
    table = pd.concat(rows)
    axis = alt.X("x:Q", title="released statistic", scale=alt.Scale(nice=False))
    left = lines(table, x=axis, y=alt.Y("posterior:Q", title="posterior probability"), by="p", name="prior p")
    right = lines(table, x=axis, y=alt.Y("ratio:Q", title="disclosure risk R'"), by="p", name="prior p")
    right = rule(y=1, colour=GREY) + right
    chart = titled(
        alt.hconcat(left, right), "Posterior and risk by the released statistic", "rho_1 = 0.099, as in 2020"
    )
    return Outcome(figures=figures, charts={"figure 1": chart}, tables={"curves": table})


def _figure_2(_: Setting) -> Outcome:
    alt = altair()
    table = _curves()
    ends = {p: table[table.prior == p].sort_values("budget") for p in PRIORS}
    figures = []
    for p, rows in ends.items():
        falls = float((np.diff(rows.posterior) < -1e-12).sum())
        figures.append(Figure(name="places where the curve falls", at=f"p={p}", ours=falls, published=0))
        least, largest = (exposure(p, paper_noise(rho)) for rho in ("1e-4", "100"))
        figures.append(Figure(name="R", at=f"p={p};rho=1e-4", ours=least.risk, published=1, tolerance=0.01))
        most = largest.marginal_posterior
        figures.append(Figure(name="marginal posterior", at=f"p={p};rho=100", ours=most, published=1, tolerance=0.01))
    at_ends = {(p, rho): exposure(p, paper_noise(rho)).risk for p in PRIORS for rho in ("0.25", "5")}
    figures += [Figure(name="R", at=f"p={p};rho={rho}", ours=risk) for (p, rho), risk in at_ends.items()]
    axis = budget_axis("budget", "privacy parameter rho_1", GRID[0], GRID[-1])
    chosen = float(rho_of("block"))
    left = lines(table, x=axis, y=alt.Y("posterior:Q", title="marginal posterior"), by="prior", name="prior p")
    log = alt.Y("risk:Q", title="disclosure risk R", scale=alt.Scale(type="log", domain=[1, 50], nice=False))
    right = lines(table, x=axis, y=log, by="prior", name="prior p")
    panels = alt.hconcat(left + rule(x=chosen), right + rule(x=chosen))
    chart = titled(panels, "Average posterior and risk by rho_1", "Dashed: rho_1 = 0.099, as in 2020.")
    notes = [
        "The text calls the risk approximately one below rho_1 = 0.25, and 1/p above 5. R at these two is among the "
        f"figures, without a published number: at 0.25 it goes from {at_ends['1/2', '0.25']:.2f} (p = 1/2) to "
        f"{at_ends['1/50', '0.25']:.2f} (p = 1/50)."
    ]
    return Outcome(figures=figures, charts={"figure 2": chart}, tables={"curves": table}, notes=notes)


def _figure_3(_: Setting) -> Outcome:
    alt = altair()
    table = _curves()
    where = "Section 4.2.3"
    half = exposure("1/2")
    figures = [
        beside(
            where, "P[right decision]", f"rho={rho};p=1/5", exposure("1/5", paper_noise(rho)).right_decision, digits=2
        )
        for rho in ("0.5", "0.6")
    ]
    figures.append(beside(where, "P[right decision]", "rho=0.099;p=1/2", half.right_decision, digits=2))
    for rho in ("0.5", "0.6"):
        threshold = exposure("1/5", paper_noise(rho)).threshold
        figures.append(
            Figure(name="smallest count that is claimed", at=f"rho={rho};p=1/5", ours=threshold, published=2)
        )
    figures.append(
        Figure(name="smallest count that is claimed", at="rho=0.099;p=1/2", ours=half.threshold, published=1)
    )
    for p in PRIORS[1:]:  # printed: a fraction of a percent
        figures.append(Figure(name="P[right decision], %: a fraction of a percent", at=f"rho=0.099;p={p}", published=0,
                              ours=100 * exposure(p).right_decision, tolerance=1))  # fmt: skip
    for p in PRIORS:
        real = exposure(p, bureau_noise("block"))
        figures.append(Figure(name="P[right decision], Bureau's noise", at=f"p={p}", ours=real.right_decision))
    axis = budget_axis("budget", "privacy parameter rho_1", GRID[0], GRID[-1])
    y = alt.Y("right_decision:Q", title="probability of the correct decision", scale=alt.Scale(domain=[0, 1]))
    panel = lines(table, x=axis, y=y, by="prior", name="prior p", width=420) + rule(x=float(rho_of("block")))
    chart = titled(panel, "Right decisions by rho_1 (0-1 loss)", "Dashed: rho_1 = 0.099, as in 2020.")
    return Outcome(figures=figures, charts={"figure 3": chart}, tables={"curves": table}, notes=[NOISE_9])


def _curves() -> pd.DataFrame:
    """Marginal posterior, R and right decisions along rho_1."""
    table = curve([f"{rho:.9f}" for rho in GRID], priors=PRIORS)
    return table[["budget", "prior", "posterior", "risk", "right_decision"]]


def _section_5(_: Setting) -> Outcome:
    noise, others = paper_noise(rho_of("block")), 3
    figures = []
    for p in PRIORS:  # section 5.2: probabilities do not change, counts are shifted by m
        unique, several = exposure(p), exposure(p, known=others)
        at = f"p={p};m={others}"
        for name, one, two in (
            ("marginal posterior", unique.marginal_posterior, several.marginal_posterior),
            ("P[right decision]", unique.right_decision, several.right_decision),
        ):
            figures.append(Figure(name=f"{name}: change when m others have them", at=at, ours=two - one, published=0,
                                  tolerance=1e-12))  # fmt: skip
        shift = several.threshold - unique.threshold
        figures.append(Figure(name="shift of the smallest count that is claimed", at=at, ours=shift, published=others))
    released = {"hispanic": 2, "not hispanic": 0}
    rows = []
    for p in PRIORS:  # Eq. 37, as its text says and as it is printed
        text = Attribute(priors={"hispanic": p, "not hispanic": str(1 - Fraction(p))}, noises=noise)
        printed = Attribute(priors={"hispanic": str(1 - Fraction(p)), "not hispanic": p}, noises=noise)
        told = [float(one.posterior(released)["hispanic"]) for one in (text, printed)]
        log_odds = math.log(float(Fraction(p)) / (1 - float(Fraction(p)))) + (2 * 2 - 1 + 1) * float(rho_of("block"))
        again = 1 / (1 + math.exp(-log_odds))  # both cells speak: (2 d - 1) rho each, d = 2 and 0
        figures.append(Figure(name="P[hispanic] given (2, 0), Eq. 37 as its text says", at=f"p_v={p}", ours=told[0]))
        rows.append({"p_v": p, "as the text says": told[0], "by hand": again, "as Eq. 37 is printed": told[1],
                     "risk R, as the text says": text.risk("hispanic")})  # fmt: skip
    notes = [
        "Did the target respond (Eq. 36), and truthfully (Eq. 38)? Both are Eq. 9 with another name for p: Table 4 and "
        "Figures 1 to 3 are theirs too.",
        "Section 5 prints no numbers. The table has the posterior of an unknown attribute both ways.",
    ]
    return Outcome(figures=figures, tables={"unknown attribute": pd.DataFrame(rows)}, notes=notes)


_ONE = ("risk.Intruder.against", "risk.Exposure")
ONE_LEVEL = (
    Item(
        key="kazan2022.table2", title="Histogram of enumeration district 28-21", where="Table 2 and section 4.2",
        what="The three counts as a histogram: how many persons, who is unique, and what the intruder knows.",
        calls=("Spine.from_columns", "Histogram.from_entries", "Histogram.at"),
        tolerance="None: whole numbers.", compute=_table_2,
    ),
    Item(
        key="kazan2022.table3", title="Posterior and risk for a released statistic", where="Table 3 and section 4.2.1",
        what="Posterior (Eq. 11), risk ratio R' (13) and the probability of each released statistic (8).",
        calls=(*_ONE, "privacy.DiscreteGaussian.pmf"), tolerance=HALF_A_UNIT, compute=_table_3,
        erratum="Erratum 6: the column headed P[X* = x | X = 1] is consistent with P[X* = x | X = 0]. Of a target with "
        "the characteristics, a statistic of 4 is seen in 7.3% of cases, not in 3.6%, and one of 5 in 3.6%, "
        "not in 1.5%.",
    ),
    Item(
        key="kazan2022.table4", title="Average posterior and disclosure risk", where="Table 4 and section 4.2.2",
        what="The posterior averaged over what may be released (Eq. 14) and R (15).",
        calls=_ONE, tolerance=HALF_A_UNIT, compute=_table_4,
    ),
    Item(
        key="kazan2022.figure1", title="Posterior and risk by the statistic", where="Figure 1 and section 4.2.1",
        what="The curves of Figure 1; that they rise, and that the posterior exceeds p from a statistic of 1 on.",
        calls=_ONE, tolerance="None: whole numbers.", compute=_figure_1,
    ),
    Item(
        key="kazan2022.figure2", title="Average posterior and risk by rho_1", where="Figure 2 and section 4.2.2",
        what="The curves of Figure 2 (Eq. 14 and 15), that they rise, and their ends: R goes from 1 to 1/p.",
        calls=(*_ONE, "risk.curve"), tolerance="One percent: the text says near, and very large.", compute=_figure_2,
    ),
    Item(
        key="kazan2022.figure3", title="Right decisions by rho_1", where="Figure 3 and section 4.2.3",
        what="The probability of a right decision (Eq. 19) along rho_1, and the numbers of section 4.2.3.",
        calls=(*_ONE, "risk.curve"),
        tolerance=f"{HALF_A_UNIT} Where the text says a fraction of a percent, anything from 0 to 1 percent.",
        compute=_figure_3,
    ),
    Item(
        key="kazan2022.section5", title="Other attacks, and targets who are not unique", where="Sections 5.1 and 5.2",
        what="The claims of section 5.2 with m = 3, and the posterior of an unknown attribute (Eq. 37) both ways.",
        calls=("risk.Attribute", *_ONE), tolerance="Rounding of floats (1e-12).", compute=_section_5,
        erratum="Erratum 11: Eq. 37 puts p_v on the other vector than its text, which calls it the probability that "
        "the target is Hispanic. The text is followed.",
    ),
)  # fmt: skip

ITEMS: tuple[Item, ...] = (*BUDGETS, *ONE_LEVEL, *LEVELS, *DECISIONS, *SUMS)
