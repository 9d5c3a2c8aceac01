"""kazan2022, decisions by the counts released above: Figure 4 and section 4.3.1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tallyveil._arrays import Floats, Integers
from tallyveil.report.plots import BLUE, INK, altair, titled
from tallyveil.risk import Hierarchy
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import beside
from tallyveil_papers.kazan.levels import (
    EXACT,
    LONG_RUN,
    bureaus_by_hand,
    two_levels,
    with_bureaus_noise,
)
from tallyveil_papers.kazan.sampler import Chains, Released, shares
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

BOX = np.arange(-3, 6), np.arange(-30, 31)  # x2* and y1* of Figure 4
OWN = np.arange(-20, 31)  # x1* among which the smallest that is claimed is looked for
TILE_DRAWS = 250_000  # MCMC draws of a tile near 1/2
ALLOWED = 2  # standard errors
ORANGES = ("#fdd0a2", "#fdae6b", "#fd8d3c", "#e6550d", "#c94a05", "#a63603", "#8c2d04", "#6e2303", "#521a02")
SHADES = {0: BLUE, 1: "#f4f4f4", **{i + 2: colour for i, colour in enumerate(ORANGES)}}


def figure_4(_: Setting) -> Outcome:
    """Figure 4 and section 4.3.1: decisions by the counts released above."""
    two, (above, siblings) = two_levels(), BOX
    exact = np.array([[two.threshold([(int(x2), int(y))]) for y in siblings] for x2 in above])
    left_out = _thresholds(Chains.of(two, OWN, above, siblings, condition=False))
    again = _thresholds_by_hand()
    in_above, in_siblings = two.above[0].noise.pmf(above - 1).sum(), two.above[0].together.pmf(siblings).sum()
    held = plain_sums.mass(plain_sums.RHO_2, above - 1) * plain_sums.mass(
        plain_sums.RHO_1 / plain_sums.OTHERS, siblings
    )
    ours = 100 * float(in_above * in_siblings)
    figures = [
        judge("kazan2022.figure4.mass", ours, as_printed=100 * float(min(in_above, in_siblings)), again=100 * held),
        *_gains(two),
        *_zones(exact, left_out, again),
    ]
    real = with_bureaus_noise().decision([1])
    decisions = (real.right_decision, real.gain, real.loss)
    for name, value, hand in zip(("P[right decision]", "gain", "loss"), decisions, bureaus_by_hand(1), strict=True):
        figures.append(Figure(name=f"{name}, Bureau's noise, %", at="xi2=1", ours=100 * value, again=100 * hand))
    tiles = pd.concat([_tiles(exact, EXACT), _tiles(left_out, LONG_RUN)])
    notes = notes_of("kazan2022.figure4", above=100 * in_above, siblings=100 * in_siblings, both=ours)
    return Outcome(figures=figures, charts={"figure 4": _tile_chart(tiles)}, tables={"tiles": tiles}, notes=notes)


def _gains(two: Hierarchy) -> list[Figure]:
    """Section 4.3.1: exact, and for a sampler without the condition, with the sampling error of its tiles."""
    where, released, exact = "Section 4.3.1", Released.of(two, 1), two.decision([1])
    chains = released.chains(two, condition=False)
    right, gain, loss = (100 * share for share in shares(released, chains.claimed()))
    flips = chains.claimed(TILE_DRAWS)
    chances = released.mass**2 * flips * (1 - flips)  # tiles on the edge are decided by chance
    alone = released.x1[:, None, None] >= 1
    chance = [100 * ALLOWED * math.sqrt(float((chances * part).sum())) for part in (~alone, alone, True)]
    names = ("probability mass: rightly changed", "probability mass: wrongly changed", "net gain")
    hand_right, hand_gain, hand_loss = plain_sums.decided(1)
    figures = [
        beside(where, names[0], "", 100 * exact.gain, chance=chance[0], as_printed=gain),
        beside(where, names[1], "", 100 * exact.loss, chance=chance[1], as_printed=loss),
        beside(where, names[2], "", 100 * (exact.gain - exact.loss), chance=chance[2], as_printed=gain - loss,
               again=100 * (hand_gain - hand_loss)),
        judge("kazan2022.figure4.right", 100 * exact.right_decision, chance=chance[2], as_printed=right,
              again=100 * hand_right),
    ]  # fmt: skip
    for name, value in (("right", right), ("gain", gain), ("loss", loss)):
        figures.append(judge("kazan2022.figure4.sampler", value, case=name, at=LONG_RUN))
    inside = np.isin(released.x2, BOX[0])[:, None] & np.isin(released.y, BOX[1])
    _, gain, loss = shares(replace(released, mass=released.mass * inside), chains.claimed())
    at = f"{LONG_RUN}, tiles of the figure only"
    return figures + [Figure(name=f"{name}, %", at=at, ours=100 * value) for name, value in
                      (("gain", gain), ("loss", loss))]  # fmt: skip


def _zones(exact: Floats, left_out: Integers, again: Integers) -> list[Figure]:
    """Where the level above changes the decision: the smallest claimed X1* by X2* (rows) and Y1* (columns)."""
    zones = ("always", "never", "large", "not_large", "negative")
    ends = zip(zones, *(_ends(tiles) for tiles in (exact, left_out, again)), strict=True)
    return [
        judge("kazan2022.figure4.zone", ours, case=zone, as_printed=sampler, again=hand)
        for zone, ours, sampler, hand in ends
    ]


def _ends(tiles: Floats | Integers) -> list[float]:
    """The largest and the smallest tile, and counts of tiles at Y1* of 30, 0 and -30."""
    first, middle, last = tiles[:, 0], tiles[:, len(BOX[1]) // 2], tiles[:, -1]
    return [float(tiles.max()), float(tiles.min()) - 1, float((last > 1).sum()), float((middle <= 1).sum()),
            float((first <= 0).sum())]  # fmt: skip


def _thresholds(chains: Chains) -> Integers:
    claims = chains.claimed()
    thresholds: Integers = OWN[np.argmax(claims, axis=0)]
    return thresholds


def _thresholds_by_hand() -> Integers:
    """The smallest x1* with an odds of more than 1 (Eq. 25), tile by tile."""
    return np.array([[plain_sums.smallest_claimed(int(x2), int(y)) for y in BOX[1]] for x2 in BOX[0]], dtype=np.int64)


def _tiles(thresholds: Floats | Integers, name: str) -> pd.DataFrame:
    above, siblings = BOX
    x2, y = np.meshgrid(above, siblings, indexing="ij")
    return pd.DataFrame({"posterior": name, "x2": x2.ravel(), "y1": y.ravel(), "claimed from X1*": thresholds.ravel()})


def _tile_chart(tiles: pd.DataFrame) -> Any:
    alt = altair()
    whole = tiles.assign(claimed=tiles["claimed from X1*"].astype(int))
    order = sorted(whole.claimed.unique())
    scale = alt.Scale(domain=order, range=[SHADES.get(one, INK) for one in order])
    colour = alt.Color("claimed:O", title="X1 = 1 from X1* of", sort=order, scale=scale)
    x = alt.X("y1:O", title="siblings' sum Y1*", axis=alt.Axis(values=list(range(-30, 31, 10)), labelAngle=0))
    y = alt.Y("x2:O", title="count above X2*", sort="descending")
    panels = []
    for name in (EXACT, LONG_RUN):
        rows = whole[whole.posterior == name]
        chart = alt.Chart(rows, title=name).mark_rect(stroke="white", strokeWidth=0.3).encode(x=x, y=y, color=colour)
        words = alt.Chart(_runs(rows)).mark_text(fontSize=10).encode(
            x=x, y=y, text="claimed:O", color=alt.condition("datum.claimed == 0 || datum.claimed > 4",
                                                            alt.value("white"), alt.value(INK)))  # fmt: skip
        panels.append((chart + words).properties(width=alt.Step(8), height=alt.Step(16)))
    return titled(
        alt.vconcat(*panels),
        "The decision for each combination",
        "Numbers: the smallest X1* that is claimed. Pale: 1, as without the level above.",
    )


def _runs(rows: pd.DataFrame) -> pd.DataFrame:
    """The middle tile of each run of equal tiles that is long enough for a number."""
    runs = rows.assign(run=(rows.claimed.ne(rows.claimed.shift()) | rows.x2.ne(rows.x2.shift())).cumsum())
    middles = [run.iloc[len(run) // 2] for _, run in runs.groupby("run") if len(run) > 1]
    return pd.DataFrame(middles)
