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
from tallyveil_papers.losses import authors_z, curve_of, densities, median, one_draw, two_panels
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of, printed

BUDGETS = {0.25: "caption of Figure SA2", 0.05: "text"}


def figure_sa1(setting: Setting) -> Outcome:
    """Noisy against precise totals of districts, at epsilon 0.25."""
    state = state_of(setting)
    true = state.people.answer("total", level="enumdist").dense()[:, 0]
    drawn = noise_of(state.people, 0.125, seed=setting.seed, runs=RUNS)
    shown = pd.DataFrame({"precise": true, "noisy": true + drawn[0], "residual": drawn[0]})
    case = "synthetic" if state.stand_in else "real"
    figures = [
        judge("petti2020-appendix.figure_sa1.districts", len(true), case=case, stand_in=state.stand_in),
        _parameter(drawn, 0.125),
        _negative(state, true, drawn, 0.125),
    ]
    notes = notes_of("petti2020-appendix.figure_sa1", state=state_in_words(state))
    return Outcome(figures=figures, charts={"figure_sa1": _scatter(shown, state)}, notes=notes)


def _parameter(drawn: NDArray[Any], z: float) -> Figure:
    """The z of the residuals, by maximum likelihood: the mean of |G(z)| is 1/sinh(z)."""
    ours = float(np.arcsinh(1 / np.abs(drawn).mean()))
    error = float(np.abs(drawn).std()) / np.abs(drawn).mean() * ours / drawn.size**0.5
    at = f"epsilon {2 * z:g}, {len(drawn)} runs"
    return judge("petti2020-appendix.figure_sa1.z", ours, at=at, again=z, again_within=4 * error)


def _negative(state: State, true: NDArray[Any], drawn: NDArray[Any], z: float) -> Figure:
    """The number of negative counts in a run, and its expectation: P[G(z) < -n] = exp(-z (n + 1)) / (1 + exp(-z))."""
    chance = np.exp(-z * (true + 1.0)) / (1 + np.exp(-z))
    error = float(np.sqrt((chance * (1 - chance)).sum() / len(drawn)))
    return judge("petti2020-appendix.figure_sa1.negative", float((true + drawn < 0).sum(axis=1).mean()),
                 at=f"mean of {len(drawn)} runs", again=float(chance.sum()), again_within=4 * error,
                 stand_in=state.stand_in)  # fmt: skip


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
    for epsilon in BUDGETS:
        drawn = noise_of(state.people, epsilon / 2, seed=setting.seed, runs=RUNS)
        ours = losses_of(drawn)
        theirs = losses_of(noise_of(state.people, authors_z(epsilon / 2), seed=setting.seed, runs=RUNS))
        for word, one in (("exp(-z)", ours), ("1 - z", theirs)):
            rows.append({"epsilon": epsilon, "ratio": word, **one.statistics(), "deviation": float(one.values.std())})
        figures += [_one_run(ours, epsilon, setting.seed), _pooled(drawn, epsilon)]
        curves.append(drawn[0])
    largest = printed("petti2020-appendix.figure_sa2.epl", "0.25")
    chart = two_panels(
        densities(curves[0], bandwidth=0.1),
        curve_of(curves[0]),
        title="The geometric mechanism, epsilon 0.25",
        lines=[("epsilon", 0.25), ("published largest", largest), ("epsilon/2", 0.125)],
        whose=f"{DISTRICTS:,} districts, noise G(0.125), one run",
    )
    notes = notes_of("petti2020-appendix.figure_sa2")
    return Outcome(figures=figures, charts={"figure_sa2": chart}, tables={"both": pd.DataFrame(rows)}, notes=notes)


def _one_run(ours: Losses, epsilon: float, seed: int) -> Figure:
    """The mean of our runs, compared with one run of theirs and with a second computation."""
    key, case = "petti2020-appendix.figure_sa2.epl", f"{epsilon:g}"
    again = losses_by_hand(epsilon / 2, seed=seed, districts=DISTRICTS, runs=BY_HAND)
    at = f"epsilon {epsilon:g} ({BUDGETS[epsilon]}), mean of {len(ours.values)} runs"
    return judge(key, ours.mean(), case=case, at=at, chance=one_draw(ours.values, printed(key, case)),
                 again=float(again.mean()),
                 again_within=4 * ours.errors(seed, beside=len(again))["epl_mean"])  # fmt: skip


def _pooled(drawn: NDArray[Any], epsilon: float) -> Figure:
    """The log ratio of the noise itself, from all runs pooled; the paper's theoretical value is that of two counts."""
    ours, where = median(drawn.reshape(-1)), f"epsilon {epsilon:g} ({BUDGETS[epsilon]})"
    at = f"{where}, {drawn.size:,} residuals together; as printed: of two counts"
    return judge("petti2020-appendix.figure_sa2.pooled", ours, case=f"{epsilon:g}", at=at, as_printed=2 * ours,
                 again=epsilon / 2, again_within=0.03 * epsilon / 2)  # fmt: skip
