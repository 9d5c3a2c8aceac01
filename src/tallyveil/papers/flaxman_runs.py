"""The mechanisms of flaxman2019 and their budgets in Figure 1, run on its population; and the direct estimate.

The paper's run: a million persons, 100 in an area on average, three nested levels, so 21 children each and 9,261 areas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tallyveil.evaluate import direct, neighbour
from tallyveil.histogram import Histogram
from tallyveil.mechanisms import averaged, geometric, raked
from tallyveil.papers.registry import Figure, Outcome, Setting
from tallyveil.populations import uniform_tree
from tallyveil.report.plots import BLUE, GREY, HEIGHT, INK, ORANGE, WIDTH, _styled, altair

LEAF = "level3"
PARTS = 4  # P, and J + 1
LOSS = 0.025  # at which the budgets of Figure 1 were chosen
RUNS = 40  # of the less obvious estimate; the author has one
DIRECT_RUNS = 500
LESS_OBVIOUS: Mapping[str, Any] = {"bandwidth": 0.15, "multiplier": 2, "tails": "both", "grid": "integers"}
HOURS, SECONDS = 2, 20  # of the author's direct and less obvious estimates (section 3)
BUDGETS = {"geometric": 0.025, "averaged": 0.05, "raked": 0.1}  # Figure 1
NAMES = {"geometric": "GDPC", "averaged": "ADPC", "raked": "RDPC"}
ROUGHLY = 0.2  # what "roughly half" leaves open, relative


def run(name: str, people: Histogram, epsilon: Any, *, seed: int, runs: range) -> Any:
    """One of the three mechanisms; looked up by name, so that the module's functions can be exchanged."""
    mechanism: Callable[..., Any] = {"geometric": geometric, "averaged": averaged, "raked": raked}[name]
    return mechanism(people, epsilon=epsilon, seed=seed, replicate=runs)


def noise_of(name: str, people: Histogram, epsilon: Any, *, seed: int, runs: int, leaf: str = LEAF) -> NDArray[Any]:
    """The residuals of all finest areas, one row for each run."""
    released = run(name, people, epsilon, seed=seed, runs=range(runs)).answer("total", level=leaf)[:, :, 0]
    return np.asarray(released - people.answer("total", level=leaf).dense()[:, 0])


# -- the direct estimate


@lru_cache(maxsize=1)
def direct_of(seed: int) -> tuple[dict[str, pd.DataFrame], float]:
    """Curves of the three mechanisms from runs on D and D', and how long that took."""
    start = perf_counter()
    people = uniform_tree(seed=seed).people
    moved = neighbour(people, unit=0, cell=0, to_unit=1001)
    true = int(people.answer("total", level=LEAF).dense()[0, 0])
    curves = {}
    for name, budget in BUDGETS.items():
        here, there = (
            run(name, side, str(budget), seed=seed, runs=range(DIRECT_RUNS)).answer("total", level=LEAF)[:, 0, 0]
            for side in (people, moved)
        )
        curves[name] = direct(here, there, true)
    return curves, perf_counter() - start


def direct_estimates(setting: Setting) -> Outcome:
    """Runs on D and D', and the log ratios of {error = k} and {error >= k} in area 0."""
    curves, seconds = direct_of(setting.seed)
    figures, frames = [], []
    for name, curve in curves.items():
        budget, at = BUDGETS[name], f"{NAMES[name]}, budget {BUDGETS[name]:g}"
        frames.append(curve.assign(mechanism=label(name)))
        tails, single = (curve[(curve.event == event) & (curve.p > 0) & (curve.q > 0)] for event in (">=", "="))
        within = float(((tails.low <= budget) & (tails.high >= -budget)).mean())
        words = "share of k whose interval meets +-budget, {error >= k}"
        figures.append(Figure(name=words, at=at, ours=within, published=1.0, tolerance=0.05))
        middle = single[single.k.abs() <= 50]  # most of the mass
        noise = float(((middle.high - middle.low) / 2).median())
        figures.append(Figure(name="median half-width, {error = k}, over the budget", at=at, ours=noise / budget))
    shown = pd.concat(frames, ignore_index=True)
    return Outcome(
        figures=figures,
        charts={"direct": _direct_chart(shown[shown.k.abs() <= 150])},
        tables={"direct": shown},
        notes=[
            f"{DIRECT_RUNS} runs on D and {DIRECT_RUNS} on D' of three mechanisms took {seconds:.1f} s; the author's "
            f"about {HOURS} hours. {{error = k}} is as uninterpretable as the paper says: intervals are many times as "
            "wide as the budget. With so few runs {error >= k} is consistent with the budget, and with much else."
        ],
    )


def _direct_chart(shown: pd.DataFrame) -> Any:
    alt = altair()
    finite = shown[np.isfinite(shown.log_ratio)].assign(event="{error " + shown.event + " k}")
    x = alt.X("k:Q", title="k, persons", scale=alt.Scale(nice=False))
    base = alt.Chart(finite).encode(x=x, y=alt.Y("log_ratio:Q", title="log ratio of frequencies on D and D'"))
    colour = alt.Color("mechanism:N", title=None, sort=None, scale=alt.Scale(range=[BLUE, ORANGE, INK]))
    shape = alt.Shape("mechanism:N", title=None, sort=None)
    dots = base.mark_point(size=14, opacity=0.8).encode(color=colour, shape=shape)
    panels = dots.properties(width=WIDTH * 2 // 3, height=HEIGHT).facet(column=alt.Column("event:N", title=None))
    note = f"{DIRECT_RUNS} runs on each side, area 0. Not drawn: k that never occurred on one side."
    return titled(panels.resolve_scale(y="independent"), "Direct estimates of the loss", note)


def label(name: str) -> str:
    """A mechanism and its budget in Figure 1."""
    return f"{NAMES[name]}, budget {BUDGETS[name]:g}"


def titled(chart: Any, title: str, note: str) -> Any:
    """A chart in the house style, with a heading."""
    heading = altair().TitleParams(text=title, subtitle=note, subtitleColor=GREY, offset=12)
    return _styled(chart.properties(title=heading))
