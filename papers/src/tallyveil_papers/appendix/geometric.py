"""Figures SA1 and SA2 of petti2020's appendix: the geometric mechanism on the totals of districts, and its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tallyveil.report.plots import BLUE, HEIGHT, WIDTH, altair, titled
from tallyveil_papers.appendix.noise import (
    DISTRICTS,
    RUNS,
    Losses,
    State,
    losses_of,
    noise_of,
    state_in_words,
    state_of,
)
from tallyveil_papers.appendix.solvers import RUNS as BY_HAND
from tallyveil_papers.appendix.solvers import losses_by_hand
from tallyveil_papers.figure import Figure
from tallyveil_papers.losses import authors_z, curve_of, densities, median, two_panels
from tallyveil_papers.registry import Outcome, Setting

PRINTED = ((0.25, 0.18, 0.005, "caption of Figure SA2"), (0.05, 0.043, 0.0005, "text"))  # budget, EPL, half a unit


def figure_sa1(setting: Setting) -> Outcome:
    """Noisy against precise totals of districts, at epsilon 0.25."""
    state = state_of(setting)
    true = state.people.answer("total", level="enumdist").dense()[:, 0]
    drawn = noise_of(state.people, 0.125, seed=setting.seed, runs=RUNS)
    shown = pd.DataFrame({"precise": true, "noisy": true + drawn[0], "residual": drawn[0]})
    figures = [
        Figure(
            name="districts",
            at="the synthetic state was made of a size that gives so many" if state.stand_in else "Washington",
            ours=len(true),
            published=DISTRICTS,
            quote="C = 2,663 such queries",
            stand_in=state.stand_in,
        ),
        _parameter(drawn, 0.125),
        _negative(state, true, drawn, 0.125),
    ]
    return Outcome(figures=figures, charts={"figure_sa1": _scatter(shown, state)}, notes=[state_in_words(state)])


def _parameter(drawn: NDArray[Any], z: float) -> Figure:
    """The z of the residuals, by maximum likelihood: the mean of |G(z)| is 1/sinh(z)."""
    ours = float(np.arcsinh(1 / np.abs(drawn).mean()))
    error = float(np.abs(drawn).std()) / np.abs(drawn).mean() * ours / drawn.size**0.5
    return Figure(
        name="log ratio z of the noise",
        at=f"epsilon {2 * z:g}, {len(drawn)} runs",
        ours=ours,
        quote="geometric distribution of error j ~ G(epsilon/2)",
        again=z,
        again_within=4 * error,
    )


def _negative(state: State, true: NDArray[Any], drawn: NDArray[Any], z: float) -> Figure:
    """Negative counts of a run, and how many there must be: P[G(z) < -n] = exp(-z (n + 1)) / (1 + exp(-z))."""
    chance = np.exp(-z * (true + 1.0)) / (1 + np.exp(-z))
    return Figure(
        name="negative noisy counts in a run",
        at=f"mean of {len(drawn)} runs",
        ours=float((true + drawn < 0).sum(axis=1).mean()),
        published=0.0,
        relation=">",
        quote="the geometric mechanism does not guarantee DP counts are non-negative",
        again=float(chance.sum()),
        again_within=4 * float(np.sqrt((chance * (1 - chance)).sum() / len(drawn))),
        stand_in=state.stand_in,
        factor=1.0,
    )


def _scatter(shown: pd.DataFrame, state: State) -> Any:
    alt = altair()
    dots = alt.Chart(shown).mark_point(color=BLUE, filled=True, size=8, opacity=0.5)
    x = alt.X("precise:Q", title="precise count")
    a = dots.encode(x=x, y=alt.Y("noisy:Q", title="noisy count"))
    b = dots.encode(x=x, y=alt.Y("residual:Q", title="noisy minus precise"))
    panels = [p.properties(width=WIDTH * 2 // 3, height=HEIGHT, title=t) for p, t in ((a, "(a)"), (b, "(b)"))]
    title = "District totals under the geometric mechanism, epsilon 0.25"
    return titled(alt.hconcat(*panels), title, f"{state.words()}. Noise G(0.125), one run.")


def figure_sa2(setting: Setting) -> Outcome:
    """The loss of the geometric mechanism: at epsilon 0.25 as the caption has it, and at 0.05 as the text does."""
    state = state_of(setting)
    figures, rows, curves = [], [], []
    for epsilon, printed, half, where in PRINTED:
        drawn = noise_of(state.people, epsilon / 2, seed=setting.seed, runs=RUNS)
        ours, theirs = (
            losses_of(some)
            for some in (drawn, noise_of(state.people, authors_z(epsilon / 2), seed=setting.seed, runs=RUNS))
        )
        for word, one in (("exp(-z)", ours), ("1 - z", theirs)):
            rows.append({"epsilon": epsilon, "ratio": word, **one.statistics(), "deviation": float(one.values.std())})
        figures += [
            _one_run(ours, epsilon, printed, half=half, where=where, seed=setting.seed),
            _pooled(drawn, epsilon, where),
        ]
        curves.append(drawn[0])
    chart = two_panels(
        densities(curves[0], bandwidth=0.1),
        curve_of(curves[0]),
        title="The geometric mechanism, epsilon 0.25",
        lines=[("epsilon", 0.25), ("published largest", 0.18), ("epsilon/2", 0.125)],
        whose=f"{DISTRICTS:,} districts, noise G(0.125), one run",
    )
    notes = (
        "The text works with epsilon 0.05 and the captions with 0.25; both are computed. Published is one draw of "
        "2,663 districts, which may give anything between the 2.5th and the 97.5th percentile of ours (table both).",
        "All runs together show the noise's own log ratio, epsilon/2. The theoretical value that the paper compares "
        "with, epsilon, is that of the two counts which a person who moves changes, taken together: twice as much.",
    )
    return Outcome(figures=figures, charts={"figure_sa2": chart}, tables={"both": pd.DataFrame(rows)}, notes=notes)


def _one_run(found: Losses, epsilon: float, printed: float, *, half: float, where: str, seed: int) -> Figure:
    """The mean of our runs beside one run of theirs, and beside a second computation."""
    again = losses_by_hand(epsilon / 2, seed=seed, districts=DISTRICTS, runs=BY_HAND)
    return Figure(
        name="EPL",
        at=f"epsilon {epsilon:g} ({where}), mean of {len(found.values)} runs",
        ours=float(found.values.mean()),
        published=printed,
        tolerance=found.one_draw(printed) + half,
        again=float(again.mean()),
        again_within=4 * found.errors(seed, beside=len(again))["epl_mean"],
    )


def _pooled(drawn: NDArray[Any], epsilon: float, where: str) -> Figure:
    """The log ratio of the noise itself, from all runs at once; the paper's theoretical value is that of two counts."""
    ours = median(drawn.reshape(-1))
    return Figure(
        name="log ratio of one count (median over the range)",
        at=f"epsilon {epsilon:g} ({where}), {drawn.size:,} residuals together; as printed: of two counts",
        ours=ours,
        published=epsilon,
        quote=f"the theoretical value of epsilon = {epsilon:g}",
        tolerance=0.03 * epsilon,
        as_printed=2 * ours,
        again=epsilon / 2,
        again_within=0.03 * epsilon / 2,
    )
