"""kazan2022, right decisions with the level above: Figures 5 and 6, sections 4.3.2 and 4.3.3.

The paper decides by 1,000 draws for each set of released counts, so chance decides where the posterior is near 1/2.
The effect is computed too (``sampler``). Odds too close to even for floats are settled exactly (``near_ties``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from tallyveil.report.plots import BLUE, GREY, HEIGHT, ORANGE, altair, titled
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import HALF_WIDTH, beside, budget_axis, lines, rho_of, rule
from tallyveil_papers.kazan.levels import (
    EXACT,
    LONG_RUN,
    bureaus_by_hand,
    two_levels,
    with_bureaus_noise,
)
from tallyveil_papers.kazan.near_ties import settled
from tallyveil_papers.kazan.sampler import Released, sampled, shares
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

DRAWS = 1000  # MCMC draws for each set of released counts
FIGURE_5_SETS, FIGURE_6_SETS = 1_000_000, 500_000  # Monte Carlo draws of the released counts
ALLOWED = 4  # standard errors
COUNTS_5, COUNTS_6 = range(1, 31), (1, 10, 100)
SHOWN_5 = (1, 2, 3, 4, 7, 10, 30)
GRID_6 = tuple(f"{rho:.6g}" for rho in np.geomspace(0.01, 100, 161))
SPARSE = 4  # the sampler is computed at every fourth of them: its curve is smooth
STEPS_6 = ("0.01", "0.1", "1", "2", "10", "100")  # of rho_2
AS_PRINTED = "condition left out, 1,000 draws"
STRICTLY = "condition left out, more than half of 1,000 draws"
PURPLE = "#7b3294"


def figure_5(_: Setting) -> Outcome:
    """Figure 5 and section 4.3.2: right decisions by the true count above."""
    two = two_levels()
    rows = []
    for count in COUNTS_5:
        released = Released.of(two, count)
        left_out = released.chains(two, condition=False)
        ways = (left_out.claimed(), left_out.claimed(DRAWS), left_out.claimed(DRAWS, strictly=True))
        sampled_shares = [100 * shares(released, claimed)[0] for claimed in ways]
        ours = 100 * two.decision([count]).right_decision
        rows.append([count, ours, *sampled_shares, 100 * plain_sums.decided(count)[0]])
    table = pd.DataFrame(rows, columns=["xi2", EXACT, LONG_RUN, AS_PRINTED, STRICTLY, "again"])
    later = table[table.xi2 > 3].median()
    alone = 100 * two.intruder.against(two.noise).right_decision
    figures = _claims_5(table, later, alone)
    for row in table[table.xi2.isin(SHOWN_5)].to_dict(orient="records"):
        for name in (EXACT, LONG_RUN, AS_PRINTED, STRICTLY):
            at, exact = f"xi2={row['xi2']:.0f}; {name}", {"again": row["again"]} if name == EXACT else {}
            figures.append(judge("kazan2022.figure5.right", row[name], case=at, at=at, **exact))
    real = with_bureaus_noise()
    for count in (1, 10):
        figures.append(Figure(name="P[right decision], Bureau's noise, %", at=f"xi2={count}; {EXACT}",
                              ours=100 * real.decision([count]).right_decision, again=100 * bureaus_by_hand(count)[0],
                              again_within=1e-4))  # fmt: skip
    kept = 100 * sampled(two, COUNTS_5[-1], condition=True, draws=DRAWS)[0]
    words = {
        "last": COUNTS_5[-1],
        "long_run": later[LONG_RUN],
        "drawn": later[AS_PRINTED],
        "kept": kept,
        "alone": alone,
    }
    first = {"printed_1": table[AS_PRINTED][0], "strictly_1": table[STRICTLY][0], "long_run_1": table[LONG_RUN][0]}
    notes = notes_of("kazan2022.figure5", **words, **first)
    drawn = table.drop(columns="again")
    return Outcome(figures=figures, charts={"figure 5": _chart_5(drawn, alone, later)},
                   tables={"right decisions": drawn}, notes=notes)  # fmt: skip


def _claims_5(table: pd.DataFrame, later: pd.Series[float], alone: float) -> list[Figure]:
    """Section 4.3.2: exact, and for the sampler without the condition in the long run."""
    chance = 100 * math.sqrt(later[EXACT] / 100 * (1 - later[EXACT] / 100) / FIGURE_5_SETS)
    figures = [
        beside("Section 4.3.2", "P[right decision], xi2>3", "", float(later[EXACT]), chance=ALLOWED * chance,
               again=float(later["again"]))
    ]  # fmt: skip
    ways = ((EXACT, alone), (LONG_RUN, alone), ("again", 100 * plain_sums.right(plain_sums.RHO_1, 0.5)))
    values = [
        (table[way][0] - base, table[way][0] - later[way], table[way].max() - table[way].min()) for way, base in ways
    ]
    return figures + [
        judge(f"kazan2022.figure5.{key}", float(ours), as_printed=float(sampler), again=float(hand))
        for key, ours, sampler, hand in zip(("without", "later", "range"), *values, strict=True)
    ]


def _chart_5(table: pd.DataFrame, alone: float, later: pd.Series[float]) -> Any:
    alt = altair()
    order = [EXACT, AS_PRINTED]
    long = table.melt("xi2", order, "posterior", "right")
    colour = alt.Color("posterior:N", sort=order, title=None, scale=alt.Scale(domain=order, range=[BLUE, ORANGE]),
                       legend=alt.Legend(orient="bottom"))  # fmt: skip
    shape = alt.Shape("posterior:N", sort=order, title=None,
                      scale=alt.Scale(domain=order, range=["circle", "triangle-up"]))  # fmt: skip
    mean = pd.DataFrame({"from": [4], "to": [COUNTS_5[-1]], "at": [later[AS_PRINTED]]})
    panels = []
    for title, low, high in (("all of it", 30, 62), ("in a small range, as in the paper", 58.7, 59.7)):
        y = alt.Y("right:Q", title="right decisions, %", scale=alt.Scale(domain=[low, high], nice=False, zero=False))
        inside = long[(long.right >= low) & (long.right <= high)]
        points = alt.Chart(inside, title=title).mark_point(filled=True, size=40, opacity=1)
        points = points.encode(x=alt.X("xi2:Q", title="true count above, xi_2"), y=y, color=colour, shape=shape)
        line = alt.Chart(mean).mark_rule(color=GREY, strokeDash=[6, 3], strokeWidth=1.5)
        middle = line.encode(x="from:Q", x2="to:Q", y=alt.Y("at:Q"))
        panels.append((rule(y=alone) + middle + points).properties(width=HALF_WIDTH, height=HEIGHT))
    return titled(alt.hconcat(*panels), "Right decisions by the true count above",
                  "Dashed: without the level above (black); the triangles' median from 4 on (grey).",
                  "Scales differ; on the right, exact points below 58.7% are left out.")  # fmt: skip


def figure_6(_: Setting) -> Outcome:
    """Figure 6 and section 4.3.3: right decisions by rho_2."""
    rows = []
    for place, rho in enumerate(GRID_6):
        for count in COUNTS_6:
            decision, printed = settled(two_levels(rho), count), math.nan
            if place % SPARSE == 0:
                printed = sampled(two_levels(rho), count, condition=False, draws=DRAWS)[0]
            right, ties = 100 * decision.right_decision, 100 * decision.near_ties
            rows.append({"rho_2": float(rho), "xi2": str(count), EXACT: right, "near-ties that were settled": ties,
                         AS_PRINTED: 100 * printed})  # fmt: skip
    table = pd.DataFrame(rows)
    two = two_levels()
    alone = 100 * two.intruder.against(two.noise).right_decision
    figures = [
        beside("Section 4.3.3", "P[right decision] without hierarchy", "", alone,
               again=100 * plain_sums.right(plain_sums.RHO_1, 0.5)),
        *_when_exact(alone),
        *_by_steps(),
        *_curves_6(table),
    ]  # fmt: skip
    at_100 = Released.of(two_levels("100"), 1)
    strictly = at_100.chains(two_levels("100"), condition=False).claimed(DRAWS, strictly=True)
    near = settled(two_levels("100"), 1)
    at_half = 100 * shares(at_100, strictly)[0]
    notes = notes_of("kazan2022.figure6", near_ties=100 * near.near_ties, strictly=at_half)
    return Outcome(figures=figures, charts={"figure 6": _chart_6(table, alone)}, tables={"right decisions": table},
                   notes=notes)  # fmt: skip


def _when_exact(alone: float) -> list[Figure]:
    """Section 4.3.3 at rho_2 = 100."""
    two, chance = two_levels("100"), 100 * math.sqrt(0.592 * 0.408 / FIGURE_6_SETS)
    figures = []
    for count in COUNTS_6:
        decision, again = settled(two, count), 100 * plain_sums.decided_when_exact(count)
        printed = 100 * sampled(two, count, condition=False, draws=DRAWS)[0]
        figure = beside("Section 4.3.3", "P[right decision] at rho2=100", "", 100 * decision.right_decision,
                     chance=ALLOWED * chance, as_printed=printed, again=again)  # fmt: skip
        figures += [
            replace(figure, at=f"xi2={count}"),
            judge("kazan2022.figure6.more", figure.ours - alone, at=f"rho2=100;xi2={count}"),
            Figure(name="near-ties at rho2=100, %", at=f"xi2={count}", ours=100 * two.decision([count]).tie,
                   again=100 * decision.near_ties, again_within=1e-6),
            Figure(name="P[right decision] at rho2=100, %", at=f"xi2={count}; {AS_PRINTED}", ours=printed,
                   again=100 * _drawn_when_exact(), again_within=1e-3),
        ]  # fmt: skip
    return figures


def _drawn_when_exact() -> float:
    """The probability that at least half of the draws are right, which are independent if the count above is exact."""
    (own, p), (rest, r) = plain_sums.law(plain_sums.RHO_1), plain_sums.law(plain_sums.RHO_1 / plain_sums.OTHERS)
    log_odds = plain_sums.RHO_1 * (
        2 * own[:, None] + 1 + (2 * (1 - rest) - 1) / plain_sums.OTHERS
    )  # x2 - y* = 1 - noise
    share = expit(log_odds)
    return float(p @ ndtr((DRAWS * share - DRAWS / 2 + 0.5) / np.sqrt(DRAWS * share * (1 - share) + 1e-300)) @ r)


def _by_steps() -> list[Figure]:
    """Section 4.3.3: xi_2 = 1 compared with 10 and 100, as rho_2 increases."""
    exact, left_out, again = [], [], []
    for rho in STEPS_6:
        two = two_levels(rho)
        exact.append([100 * settled(two, count).right_decision for count in COUNTS_6])
        left_out.append([100 * sampled(two, count, condition=False, draws=DRAWS)[0] for count in COUNTS_6])
        hands = (
            plain_sums.decided_when_exact(count) if rho == "100" else plain_sums.decided(count, rho_2=float(rho))[0]
            for count in COUNTS_6
        )
        again.append([100 * share for share in hands])

    def grows(rows: list[list[float]]) -> float:
        return float((np.diff([abs(alone - ten) for alone, ten, _ in rows]) > 0).sum())

    at = f"rho2 of {', '.join(STEPS_6)}"
    item = "kazan2022.figure6"
    return [
        *(judge(f"{item}.against", float(np.ptp(exact[i])), at=f"rho2={STEPS_6[i]}",
                as_printed=float(np.ptp(left_out[i])), again=float(np.ptp(again[i])))
          for i in (2, 3)),
        judge(f"{item}.grows", grows(exact), at=at, as_printed=grows(left_out), again=grows(again)),
        judge(f"{item}.robust", _range(exact), at=f"{EXACT};{at}", again=_range(again)),
        Figure(name="xi2 = 1 along rho_2, largest less smallest, points", at=f"{AS_PRINTED};{at}",
               ours=_range(left_out)),
    ]  # fmt: skip


def _range(rows: list[list[float]]) -> float:
    """Largest less smallest for xi_2 = 1."""
    return float(np.ptp([row[0] for row in rows]))


def _curves_6(table: pd.DataFrame) -> list[Figure]:
    """Check that the exact curves follow Eq. 25 and have no jump where floats cannot determine the sign."""
    figures = []
    for count in COUNTS_6:
        curve = table[table.xi2 == str(count)]
        some = curve[curve.rho_2 < 11].iloc[::8]
        if len(some):
            again = [100 * plain_sums.decided(count, rho_2=rho)[0] for rho in some.rho_2]
            figures.append(Figure(name="mean along the exact curve, %", at=f"xi2={count}", again=float(np.mean(again)),
                                  ours=float(some[EXACT].mean())))  # fmt: skip
        fall = -float(np.diff(curve[EXACT][curve.rho_2 >= 2], prepend=0.0).min())
        figures.append(Figure(name="largest fall along the exact curve from rho_2 = 2 on, points", at=f"xi2={count}",
                              ours=max(0.0, fall), again=0, again_within=1e-4))  # fmt: skip
    return figures


def _chart_6(table: pd.DataFrame, alone: float) -> Any:
    alt = altair()
    y = alt.Y("right:Q", title="right decisions, %", scale=alt.Scale(zero=False))
    axis = budget_axis("rho_2", "privacy parameter rho_2", 0.01, 100)
    panels = []
    for name in (EXACT, AS_PRINTED):
        drawn = table.rename(columns={name: "right"})[["rho_2", "xi2", "right"]].dropna()
        chart = lines(drawn, x=axis, y=y, by="xi2", name="xi_2") + rule(y=alone)
        panels.append((chart + rule(x=float(rho_of("block_group")), colour=PURPLE, dash=(6, 3))).properties(title=name))
    words = "Dashed: without the level above (black, across); rho_2 of 2020 (purple, upright). Scales differ."
    return titled(alt.hconcat(*panels), "Right decisions by rho_2", words)
