"""kazan2022, one level: Figures 1 to 3, sections 4.2.1 to 4.2.3."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.report.plots import GREY, altair, titled
from tallyveil.risk import curve
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import (
    PRIORS,
    beside,
    budget_axis,
    bureau_noise,
    lines,
    paper_noise,
    rho_of,
    rule,
)
from tallyveil_papers.kazan.tables import BUREAUS_RHO, exposure
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

GRID = np.geomspace(0.01, 10, 241)
STEPS = tuple(f"{rho:.2f}" for rho in np.arange(0.3, 6.01, 0.1))  # along which right decisions go up and down


def figure_1(_: Setting) -> Outcome:
    """Figure 1 and section 4.2.1: posterior and risk by the statistic."""
    alt = altair()
    x = np.arange(-8, 11)
    rows, figures = [], []
    for p in PRIORS:
        prior = float(Fraction(p))
        posterior, ratio = exposure(p).posterior(x), exposure(p).ratio(x)
        rows.append(pd.DataFrame({"x": x, "posterior": posterior, "ratio": ratio, "p": p}))
        for key, values, limit in (("posterior", posterior, prior), ("ratio", ratio, 1.0)):
            first = float(x[int(np.argmax(values > limit))])
            figures.append(judge("kazan2022.figure1.smallest", first, case=key, at=f"p={p}"))
        falls = float((np.diff(posterior) <= 0).sum() + (np.diff(ratio) <= 0).sum())
        figures.append(judge("kazan2022.figure1.falls", falls, at=f"p={p}"))
        again = [plain_sums.posterior(plain_sums.RHO_1, int(count), prior) for count in x]
        for name, curve_values, times in (("posterior", posterior, 1.0), ("R'", ratio, 1 / prior)):
            figures.append(Figure(name=f"{name}, mean along the curve", at=f"p={p}", ours=float(curve_values.mean()),
                                  again=times * float(np.mean(again))))  # fmt: skip
    table = pd.concat(rows)
    axis = alt.X("x:Q", title="released statistic", scale=alt.Scale(nice=False))
    left = lines(table, x=axis, y=alt.Y("posterior:Q", title="posterior probability"), by="p", name="prior p")
    right = lines(table, x=axis, y=alt.Y("ratio:Q", title="disclosure risk R'"), by="p", name="prior p")
    right = rule(y=1, colour=GREY) + right
    chart = titled(
        alt.hconcat(left, right), "Posterior and risk by the released statistic", "rho_1 = 0.099, as in 2020"
    )
    return Outcome(figures=figures, charts={"figure 1": chart}, tables={"curves": table})


def figure_2(_: Setting) -> Outcome:
    """Figure 2 and section 4.2.2: average posterior and risk by rho_1."""
    alt = altair()
    table = _curves()
    figures = []
    for p in PRIORS:
        rows, prior = table[table.prior == p].sort_values("budget"), float(Fraction(p))
        falls = float((np.diff(rows.posterior) < -1e-12).sum())
        figures.append(judge("kazan2022.figure2.falls", falls, at=f"p={p}"))
        least, most = (exposure(p, paper_noise(rho)) for rho in ("1e-4", "100"))
        figures += [
            judge("kazan2022.figure2.risk_begins", least.risk, at=f"p={p};rho=1e-4",
                  again=plain_sums.average(1e-4, prior) / prior),
            judge("kazan2022.figure2.posterior_ends", most.marginal_posterior, at=f"p={p};rho=100"),
            judge("kazan2022.figure2.risk_ends", most.risk, at=f"p={p};rho=100", published=1 / prior,
                  tolerance=1e-6 / prior),
        ]  # fmt: skip
        figures += _ends(p, prior)
    figures += _along(table, ("posterior", "risk"))
    axis = budget_axis("budget", "privacy parameter rho_1", GRID[0], GRID[-1])
    chosen = float(rho_of("block"))
    left = lines(table, x=axis, y=alt.Y("posterior:Q", title="marginal posterior"), by="prior", name="prior p")
    log = alt.Y("risk:Q", title="disclosure risk R", scale=alt.Scale(type="log", domain=[1, 50], nice=False))
    right = lines(table, x=axis, y=log, by="prior", name="prior p")
    panels = alt.hconcat(left + rule(x=chosen), right + rule(x=chosen))
    chart = titled(panels, "Average posterior and risk by rho_1", "Dashed: rho_1 = 0.099, as in 2020.")
    ours = {(figure.at, figure.name): figure.ours for figure in figures}
    risks = ", ".join(f"{ours[f'p={p};rho=0.25', 'R']:.2f}" for p in PRIORS)
    notes = notes_of("kazan2022.figure2", risks=risks, posterior=ours["p=1/50;rho=5", "marginal posterior"])
    return Outcome(figures=figures, charts={"figure 2": chart}, tables={"curves": table}, notes=notes)


def _ends(p: str, prior: float) -> list[Figure]:
    """The claims of section 4.2.2 about 0.25 and 5, which are too strong for some priors."""
    at_quarter, at_5 = (exposure(p, paper_noise(rho)) for rho in ("0.25", "5"))
    again_quarter, again_5 = (plain_sums.average(rho, prior) for rho in (0.25, 5.0))
    return [
        judge("kazan2022.figure2.risk_at_quarter", at_quarter.risk, at=f"p={p};rho=0.25", again=again_quarter / prior),
        judge("kazan2022.figure2.posterior_at_5", at_5.marginal_posterior, at=f"p={p};rho=5", again=again_5),
        judge("kazan2022.figure2.risk_at_5", at_5.risk, at=f"p={p};rho=5", published=1 / prior,
              tolerance=0.1 / prior, again=again_5 / prior),
    ]  # fmt: skip


def figure_3(_: Setting) -> Outcome:
    """Figure 3 and section 4.2.3: right decisions by rho_1."""
    alt = altair()
    table = _curves()
    where = "Section 4.2.3"
    half = exposure("1/2")
    figures = []
    for rho in ("0.5", "0.6"):
        at_rho = exposure("1/5", paper_noise(rho))
        figures.append(beside(where, "P[right decision]", f"rho={rho};p=1/5", at_rho.right_decision))
        figures.append(judge("kazan2022.figure3.claimed", at_rho.threshold, at=f"rho={rho};p=1/5"))
    figures.append(beside(where, "P[right decision]", "rho=0.099;p=1/2", half.right_decision))
    largest = max(exposure("1/2", paper_noise(rho)).threshold for rho in ("0.01", "0.099", "1", "10"))
    figures.append(judge("kazan2022.figure3.claimed_always", largest))
    for p in PRIORS[1:]:
        ours, again = 100 * exposure(p).right_decision, 100 * plain_sums.right(plain_sums.RHO_1, float(Fraction(p)))
        figures.append(judge("kazan2022.figure3.negligible", ours, at=f"rho=0.099;p={p}", again=again))
        figures += _jagged(p)
    for p in PRIORS:
        real = exposure(p, bureau_noise("block"))
        figures.append(Figure(name="P[right decision], Bureau's noise", at=f"p={p}", ours=real.right_decision,
                              again=plain_sums.right(BUREAUS_RHO, float(Fraction(p)))))  # fmt: skip
    figures += _along(table, ("right_decision",))
    axis = budget_axis("budget", "privacy parameter rho_1", GRID[0], GRID[-1])
    y = alt.Y("right_decision:Q", title="probability of the correct decision", scale=alt.Scale(domain=[0, 1]))
    panel = lines(table, x=axis, y=y, by="prior", name="prior p", width=420) + rule(x=float(rho_of("block")))
    chart = titled(panel, "Right decisions by rho_1 (0-1 loss)", "Dashed: rho_1 = 0.099, as in 2020.")
    return Outcome(figures=figures, charts={"figure 3": chart}, tables={"curves": table},
                   notes=notes_of("kazan2022.figure3"))  # fmt: skip


def _jagged(p: str) -> list[Figure]:
    """Where right decisions decrease in rho_1: only while X1* = 1 is not claimed, rho_1 <= log((1 - p) / p)."""
    limit = math.log(1 / float(Fraction(p)) - 1)
    exposures = [exposure(p, paper_noise(rho)) for rho in STEPS]
    falls = np.diff([at_rho.right_decision for at_rho in exposures]) < 0
    before = np.array([float(rho) for rho in STEPS[1:]]) <= limit  # a step that ends before the limit
    at = f"p={p}"
    figures = [
        judge("kazan2022.figure3.falls_before", float((falls & before).sum()), at=at),
        judge("kazan2022.figure3.falls_after", float((falls & ~before).sum()), at=at),
    ]
    for away, count in ((-0.001, 2), (0.001, 1)):
        threshold = exposure(p, paper_noise(f"{limit + away:.6f}")).threshold
        figures.append(Figure(name="smallest count that is claimed", at=f"{at};rho={limit + away:.3f}", ours=threshold,
                              again=count))  # fmt: skip
    return figures


def _curves() -> pd.DataFrame:
    """Marginal posterior, R and right decisions along rho_1."""
    table = curve([f"{rho:.9f}" for rho in GRID], priors=PRIORS)
    return table[["budget", "prior", "posterior", "risk", "right_decision"]]


def _along(table: pd.DataFrame, names: tuple[str, ...]) -> list[Figure]:
    """Check the curves against the equations: their means over some points, as plain sums."""
    figures = []
    for p, rows in table.groupby("prior", sort=False):
        some, prior = rows.iloc[::20], float(Fraction(str(p)))
        for name in names:
            of, scale = (
                (plain_sums.right if name == "right_decision" else plain_sums.average),
                prior if name == "risk" else 1.0,
            )
            again = float(np.mean([of(rho, prior) / scale for rho in some.budget]))
            figures.append(Figure(name=f"{name}, mean along the curve", at=f"p={p}", ours=float(some[name].mean()),
                                  again=again))  # fmt: skip
    return figures
