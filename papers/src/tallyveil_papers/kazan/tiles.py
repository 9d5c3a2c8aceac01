"""kazan2022, decisions given what is released above: Figure 4 and section 4.3.1."""

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
from tallyveil_papers.kazan.facts import beside, rounding
from tallyveil_papers.kazan.levels import (
    EXACT,
    LONG_RUN,
    bureaus_by_hand,
    two_levels,
    with_bureaus_noise,
)
from tallyveil_papers.kazan.sampler import Chains, Released, shares
from tallyveil_papers.registry import Outcome, Setting

BOX = np.arange(-3, 6), np.arange(-30, 31)  # x2* and y1* of Figure 4
OWN = np.arange(-20, 31)  # x1* among which the smallest that is claimed is looked for
TILE_DRAWS = 250_000  # MCMC draws of a tile near 1/2
ALLOWED = 2  # standard errors
RIGHT_8 = {"right": 31.8, "gain": 0.21, "loss": 27.3}  # erratum 8, in percent
SAMPLED_8 = {"right": 59.46, "gain": 2.38, "loss": 1.81}
ORANGES = ("#fdd0a2", "#fdae6b", "#fd8d3c", "#e6550d", "#c94a05", "#a63603", "#8c2d04", "#6e2303", "#521a02")
SHADES = {0: BLUE, 1: "#f4f4f4", **{i + 2: colour for i, colour in enumerate(ORANGES)}}


def figure_4(_: Setting) -> Outcome:
    """Figure 4 and section 4.3.1: decisions by what is released above."""
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
        Figure(name="probability mass of the combinations, %", ours=ours, published=99, relation=">",
               quote="over 99% of the probability mass",
               as_printed=100 * float(min(in_above, in_siblings)), again=100 * held),
        *_gains(two),
        *_zones(exact, left_out, again),
    ]  # fmt: skip
    real = with_bureaus_noise().decision([1])
    found = (real.right_decision, real.gain, real.loss)
    for name, value, hand in zip(("P[right decision]", "gain", "loss"), found, bureaus_by_hand(1), strict=True):
        figures.append(Figure(name=f"{name}, Bureau's noise, %", at="xi2=1", ours=100 * value, again=100 * hand))
    tiles = pd.concat([_tiles(exact, EXACT), _tiles(left_out, LONG_RUN)])
    notes = [
        f"Printed is that the combinations hold over 99%. The ranges of X2* and of Y1* do ({100 * in_above:.2f}% and "
        f"{100 * in_siblings:.2f}%); together they hold {ours:.2f}%.",
        "Published gains and losses are sums over tiles that were sampled, those near 1/2 with 250,000 draws. Whether "
        "they are over the tiles of the figure or over all that may be released, the tolerance does not tell: both "
        "are shown.",
        "59.54 is not printed: it is 58.89 and the net gain of 0.65.",
    ]
    return Outcome(figures=figures, charts={"figure 4": _tile_chart(tiles)}, tables={"tiles": tiles}, notes=notes)


def _gains(two: Hierarchy) -> list[Figure]:
    """Section 4.3.1: exact, and as a sampler without the condition has it, with the chance of its tiles."""
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
        beside(where, names[0], "", 100 * exact.gain, digits=2, chance=chance[0], as_printed=gain,
               again=RIGHT_8["gain"], again_within=rounding(2)),
        beside(where, names[1], "", 100 * exact.loss, digits=2, chance=chance[1], as_printed=loss,
               again=RIGHT_8["loss"], again_within=rounding(1)),
        beside(where, names[2], "", 100 * (exact.gain - exact.loss), digits=2, chance=chance[2], as_printed=gain - loss,
               again=100 * (hand_gain - hand_loss)),
        Figure(name="P[right decision], %", at="xi2=1", ours=100 * exact.right_decision, published=59.54,
               quote="increasing the probability they make the correct decision by 0.65%",
               tolerance=rounding(2) + chance[2], as_printed=right, again=100 * hand_right),
    ]  # fmt: skip
    for name, value in (("right", right), ("gain", gain), ("loss", loss)):
        figures.append(Figure(name=f"{name}, %", at=LONG_RUN, ours=value, again=SAMPLED_8[name],
                              again_within=rounding(2)))  # fmt: skip
    inside = np.isin(released.x2, BOX[0])[:, None] & np.isin(released.y, BOX[1])
    _, gain, loss = shares(replace(released, mass=released.mass * inside), chains.claimed())
    at = f"{LONG_RUN}, tiles of the figure only"
    return figures + [Figure(name=f"{name}, %", at=at, ours=100 * value) for name, value in
                      (("gain", gain), ("loss", loss))]  # fmt: skip


def _zones(exact: Floats, left_out: Integers, again: Integers) -> list[Figure]:
    """Where the level above changes the decision; X2* by row, Y1* by column, the smallest X1* that is claimed in it."""
    names = (
        ("X1* from which on X1 = 1 is claimed, whatever is above", 2, "the same when X1* >= 2"),
        ("X1* up to which X1 = 0 is claimed, whatever is above", -1, "the same when ... X1* <= -1"),
        (
            "X2* of 9 for which X1* = 1 is not claimed at Y1* = 30",
            9,
            "X1* = 1 and Y1* is positive and large ... X1 = 0",
        ),
        (
            "X2* of 9 for which X1* = 1 is claimed at Y1* = 0, not being large",
            9,
            "X1* = 1 and Y1* is positive and large ... X1 = 0",
        ),
        ("X2* of 9 for which X1* = 0 is claimed at Y1* = -30", 9, "X1* = 0 and Y1* is negative and large ... X1 = 1"),
    )
    found = zip(names, *(_ends(tiles) for tiles in (exact, left_out, again)), strict=True)
    return [
        Figure(name=name, ours=ours, published=printed, quote=quote, as_printed=sampler, again=hand)
        for (name, printed, quote), ours, sampler, hand in found
    ]


def _ends(tiles: Floats | Integers) -> list[float]:
    """The largest and the smallest of the tiles, and what they are for Y1* of 30, 0 and -30."""
    first, middle, last = tiles[:, 0], tiles[:, len(BOX[1]) // 2], tiles[:, -1]
    return [float(tiles.max()), float(tiles.min()) - 1, float((last > 1).sum()), float((middle <= 1).sum()),
            float((first <= 0).sum())]  # fmt: skip


def _thresholds(chains: Chains) -> Integers:
    claims = chains.claimed()
    found: Integers = OWN[np.argmax(claims, axis=0)]
    return found


def _thresholds_by_hand() -> Integers:
    """The smallest x1* with an odds of more than 1 (Eq. 25), tile by tile."""
    given = [[plain_sums.given(0, int(x2), int(y)) for y in BOX[1]] for x2 in BOX[0]]
    log_odds = np.array([[math.log(one[1].sum() / one[0].sum()) for one in row] for row in given])  # at x1* = 0
    found: Integers = np.floor(-log_odds / (2 * plain_sums.RHO_1)).astype(np.int64) + 1  # each step adds 2 rho_1
    return found


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
    """The middle tile of each run of equal ones, if it is not too short for a number."""
    runs = rows.assign(run=(rows.claimed.ne(rows.claimed.shift()) | rows.x2.ne(rows.x2.shift())).cumsum())
    middles = [run.iloc[len(run) // 2] for _, run in runs.groupby("run") if len(run) > 1]
    return pd.DataFrame(middles)
