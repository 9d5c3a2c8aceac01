"""Figure 1 of flaxman2019 and its claims: residuals and loss of three mechanisms at budgets of one loss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tallyveil.evaluate import epl
from tallyveil.populations import uniform_tree
from tallyveil.report.plots import BLUE, HEIGHT, INK, ORANGE, WIDTH, altair, titled
from tallyveil_papers.figure import Figure
from tallyveil_papers.flaxman.curves import (
    Curves,
    again_of,
    curves_of,
    error_of_deviation,
    exact_of,
    half_values,
    of_batches,
    residuals_of,
    within,
)
from tallyveil_papers.flaxman.direct import direct_of
from tallyveil_papers.flaxman.runs import (
    BUDGETS,
    LEAF,
    LESS_OBVIOUS,
    NAMES,
    RUNS,
    label,
    noise_of,
)
from tallyveil_papers.flaxman.simulation import children_of, law_of, losses_by_hand
from tallyveil_papers.losses import densities, level_lines, median, one_draw
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of, printed

RANGE = ("0.01", "0.025", "0.05", "0.1", "0.25", "0.5")  # budgets of the run that is timed
PUBLISHED = printed("flaxman2019.figure1b.median")  # the loss of all three mechanisms
SECONDS = 20  # of the author's less obvious estimates (section 3)


# -- Figure 1


def figure_1a(setting: Setting) -> Outcome:
    """The distribution of residuals, compared with the printed Pr[G(z) = k]."""
    spine = uniform_tree(seed=setting.seed).people.spine
    children = children_of(1_000_000, 100, 3)
    figures = [
        judge("flaxman2019.figure1a.children", spine.size("level1"), again=children),
        judge("flaxman2019.figure1a.areas", spine.size(LEAF), again=children**3),
    ]
    frames, rows = [], []
    for name, budget in BUDGETS.items():
        residuals = residuals_of(setting.seed, name)
        figures.append(_deviation(name, residuals, setting.seed))
        drawn = residuals_of(setting.seed, name, theirs=True).std()
        row = {"mechanism": NAMES[name], "budget": budget, "ratio exp(-z)": residuals.std(), "ratio 1 - z": drawn}
        rows.append(row)
        frames.append(densities(residuals[0], bandwidth=0, width=10, reach=250).assign(mechanism=label(name)))
    chart = _lines(pd.concat(frames), x="x", y="share", words="share of areas, per person")
    note = "One run of each, as in the paper, in bins of 10 persons."
    return Outcome(
        figures=figures,
        charts={"figure_1a": titled(chart, "Residuals (DP - exact) of three mechanisms", note)},
        tables={"noise": pd.DataFrame(rows)},
        notes=notes_of("flaxman2019.figure1a"),
    )


def _deviation(name: str, residuals: NDArray[Any], seed: int) -> Figure:
    """The residuals' standard deviation, and that of the printed law or of a simulation."""
    errors = [error_of_deviation(residuals)]
    if name == "raked":
        simulated = again_of(seed, name)[1]
        again = float(simulated.std())
        errors.append(error_of_deviation(simulated))
    else:
        again = law_of(name, BUDGETS[name]).deviation()
    at, within = f"{label(name)}, {RUNS} runs", 4 * math.hypot(*errors)
    return judge("flaxman2019.figure1a.deviation", float(residuals.std()), at=at, again=again, again_within=within)


def figure_1b(setting: Setting) -> Outcome:
    """The less obvious estimate: the smoothed loss of all areas."""
    figures, frames, rows = [], [], []
    for name, budget in BUDGETS.items():
        loss = epl(residuals_of(setting.seed, name)[0], **LESS_OBVIOUS)
        frames.append(loss.curve.assign(mechanism=label(name)))
        ours, again = curves_of(setting.seed, name), again_of(setting.seed, name)[0]
        theirs = median(residuals_of(setting.seed, name, theirs=True).reshape(-1), **LESS_OBVIOUS)
        figures += _loss_figures(name, ours, again)
        rows.append(
            {
                "mechanism": NAMES[name],
                "budget": budget,
                "median, runs pooled": ours.pooled[0],
                "the same, simulated": again.pooled.mean(),
                "the same, ratio 1 - z": theirs,
                "median, mean of runs": ours.median.mean(),
                "median, deviation of runs": ours.median.std(ddof=1),
                "largest, mean of runs": ours.largest.mean(),
                "largest raw, mean of runs": ours.raw.mean(),
                "search range": loss.search_range,
            }
        )
    chart = _lines(pd.concat(frames), x="x", y="epl", words="log p(x) / p(x + 1)") + level_lines([("loss", PUBLISHED)])
    note = "One run of each, as in the paper. Dashed: 0.025 and -0.025."
    return Outcome(
        figures=figures,
        charts={"figure_1b": titled(chart, "The loss of three mechanisms, estimated from all areas at once", note)},
        tables={"losses": pd.DataFrame(rows)},
        notes=notes_of("flaxman2019.figure1b", **half_values(setting.seed)),
    )


def _loss_figures(name: str, ours: Curves, again: Curves) -> list[Figure]:
    """One estimator for all three mechanisms: the median of one run's curve; then pooled, the maximum, and raw."""
    at, mean = label(name), float(ours.median.mean())
    each, item = f"{at}, mean of {RUNS} runs", "flaxman2019.figure1b"

    def second(statistic: str) -> dict[str, Any]:
        values, simulated = getattr(ours, statistic), getattr(again, statistic)
        return {"again": float(simulated.mean()), "again_within": within(values, simulated)}

    return [
        judge(f"{item}.median", mean, case=name, at=each, chance=one_draw(ours.median, PUBLISHED), **second("median")),
        judge(f"{item}.pooled", float(ours.pooled[0]), at=f"{at}, {RUNS} runs", again=float(again.pooled.mean()),
              again_within=of_batches(again)),
        judge(f"{item}.largest", float(ours.largest.mean()), at=f"{each}; as printed: the median",
              chance=one_draw(ours.largest, PUBLISHED), as_printed=mean, **second("largest")),
        judge(f"{item}.raw", float(ours.raw.mean()), at=each, **second("raw")),
    ]  # fmt: skip


def claims(setting: Setting) -> Outcome:
    """The claims of the abstract and of section 3: the loss as a share of the budget, and the computing time."""
    figures = [figure for name in BUDGETS for figure in _shares(name, setting.seed)]
    start = perf_counter()
    people = uniform_tree(seed=setting.seed).people
    for name in BUDGETS:
        for epsilon in RANGE:
            median(noise_of(name, people, epsilon, seed=setting.seed, runs=1)[0], **LESS_OBVIOUS)
    less_obvious, direct = perf_counter() - start, direct_of(setting.seed)[1]
    times = pd.DataFrame(
        {
            "estimate": ["direct, 500 runs on D and D'", f"less obvious, {len(RANGE)} budgets"],
            "ours, seconds": [direct, less_obvious],
            "published, seconds": [round(printed("flaxman2019.claims.direct_seconds")), SECONDS],
        }
    )
    figures += [
        judge("flaxman2019.claims.direct_seconds", direct),
        judge("flaxman2019.claims.less_obvious_seconds", less_obvious),
    ]
    times_taken = {"budgets": len(RANGE), "less_obvious": less_obvious, "direct": direct}
    notes = notes_of("flaxman2019.claims", **times_taken, **half_values(setting.seed))
    return Outcome(figures=figures, tables={"times": times}, notes=notes)


def _shares(name: str, seed: int) -> Iterator[Figure]:
    """The loss over the budget: of all runs pooled, and of the noise distribution where it is known."""
    budget, ours, again = BUDGETS[name], curves_of(seed, name), again_of(seed, name)[0]
    one_run = float(ours.median.mean()) / budget
    yield judge("flaxman2019.claims.share", float(ours.pooled[0]) / budget, case=name, at=f"{label(name)}, {RUNS} runs",
                as_printed=one_run, again=float(again.pooled.mean()) / budget,
                again_within=of_batches(again) / budget)  # fmt: skip
    if name != "raked":  # whose distribution is not known
        exact = float(np.median(losses_by_hand(law_of(name, budget)))) / budget
        yield judge("flaxman2019.claims.law", exact_of(name) / budget, case=name, at=f"{label(name)}, exact",
                    as_printed=one_run, again=exact)  # fmt: skip


def _lines(frame: pd.DataFrame, *, x: str, y: str, words: str) -> Any:
    """One line for each mechanism, with its own colour and dashes."""
    alt = altair()
    order = [label(name) for name in BUDGETS]
    line = alt.Chart(frame).mark_line(strokeWidth=1.6).encode(
        x=alt.X(f"{x}:Q", title="residual, persons", scale=alt.Scale(nice=False)),
        y=alt.Y(f"{y}:Q", title=words),
        color=alt.Color("mechanism:N", title=None, scale=alt.Scale(domain=order, range=[BLUE, ORANGE, INK])),
        strokeDash=alt.StrokeDash(
            "mechanism:N", title=None, scale=alt.Scale(domain=order, range=[[1, 0], [6, 3], [2, 2]])
        ),
    )  # fmt: skip
    return line.properties(width=WIDTH * 4 // 3, height=HEIGHT)
