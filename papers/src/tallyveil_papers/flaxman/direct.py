"""The direct estimate of flaxman2019 (section 2.3): runs on D and D', compared with the exact distributions.

At the budgets of Figure 1, five hundred runs say little about a log ratio, as the paper found. Frequencies are
therefore compared with exact probabilities, also at epsilon 1, where this many runs are informative.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from tallyveil._arrays import Floats
from tallyveil.evaluate import direct, neighbour
from tallyveil.nouns.histogram import Histogram
from tallyveil.populations import uniform_tree
from tallyveil.report.plots import BLUE, HEIGHT, INK, ORANGE, WIDTH, altair, titled
from tallyveil_papers.figure import Figure
from tallyveil_papers.flaxman.runs import BUDGETS, LEAF, NAMES, run
from tallyveil_papers.flaxman.simulation import Law, errors_of_raked, law_of
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

RUNS = 500
TELLING = {"geometric": 1.0, "averaged": 1.0, "raked": 1.0}  # a budget at which so many runs tell
SIMULATED = 100_000  # runs behind the law of raked noise
KOLMOGOROV = 1.95  # over the root of the runs: exceeded once in a thousand
DRAWN = 150  # how far from 0 the picture goes, persons


@lru_cache(maxsize=2)
def direct_of(seed: int, *, telling: bool = False) -> tuple[dict[str, pd.DataFrame], float]:
    """Curves of the three mechanisms from runs on D and D', and the seconds that the runs took."""
    start = perf_counter()
    people, moved = _sides(seed)
    true = int(people.answer("total", level=LEAF).dense()[0, 0])
    curves = {}
    for name, budget in (TELLING if telling else BUDGETS).items():
        here, there = (
            run(name, side, str(budget), seed=seed, runs=range(RUNS)).answer("total", level=LEAF)[:, 0, 0]
            for side in (people, moved)
        )
        curves[name] = direct(here, there, true)
    return curves, perf_counter() - start


def direct_estimates(setting: Setting) -> Outcome:
    """Runs on D and D', and the log ratios of {error = k} and {error >= k} in area 0."""
    figures: list[Figure] = []
    shown = []
    for telling in (False, True):
        for name, curve in direct_of(setting.seed, telling=telling)[0].items():
            budget = (TELLING if telling else BUDGETS)[name]
            known = _with_exact(curve, _laws(name, budget, setting.seed))
            at = f"{NAMES[name]}, budget {budget:g}"
            figures += _judged(known, at=at, budget=budget, telling=telling)
            shown.append(known.assign(mechanism=NAMES[name], budget=budget))
    seconds = direct_of(setting.seed)[1]
    return Outcome(
        figures=figures,
        charts={"direct": _chart(pd.concat(shown[: len(BUDGETS)]))},
        tables={"direct": pd.concat(shown, ignore_index=True)},
        notes=notes_of("flaxman2019.direct", runs=RUNS, seconds=seconds, simulated=SIMULATED),
    )


def _judged(known: pd.DataFrame, *, at: str, budget: float, telling: bool) -> Iterator[Figure]:
    """The curves of one mechanism, compared with the exact probabilities."""
    item, case = "flaxman2019.direct", "" if telling else "figure1"
    single, tails = (known[(known.event == event) & (known.p > 0) & (known.q > 0)] for event in ("=", ">="))
    every = known[known.event == ">="]
    apart = max(float((every.p - every.exact_p).abs().max()), float((every.q - every.exact_q).abs().max()))
    holds = (tails.low <= tails.exact) & (tails.exact <= tails.high)
    yield judge(f"{item}.frequencies", apart, at=at, again_within=KOLMOGOROV / math.sqrt(RUNS))
    yield judge(f"{item}.intervals", float(holds.mean()), case=case, at=at)
    if telling:
        zero = known[(known.event == ">=") & (known.k == 0)]
        p, q = float(zero.exact_p.sum()), float(zero.exact_q.sum())
        error = math.sqrt((1 / p + 1 / q - 2) / RUNS) if p * q else math.inf
        ours, exact = (float(zero[name].mean()) for name in ("log_ratio", "exact"))  # not a number: {error >= 0} never
        yield judge(f"{item}.ratio", ours, at=at, again=exact, again_within=4 * error)
        return
    middle = single[single.k.abs() <= 50]  # most of the mass
    yield judge(f"{item}.width", float(((middle.high - middle.low) / 2).median()) / budget, at=at)
    for event, ratios in (("=", single), (">=", tails)):
        yield judge(f"{item}.largest", float(ratios.log_ratio.abs().max()) / budget, case=event, at=at)


# -- the exact laws


def _sides(seed: int) -> tuple[Histogram, Histogram]:
    """D, and D': one person moved from area 0 to area 1001."""
    people = uniform_tree(seed=seed).people
    return people, neighbour(people, unit=0, cell=0, to_unit=1001)


@lru_cache(maxsize=8)
def _laws(name: str, epsilon: float, seed: int) -> tuple[Law, Law]:
    """Distributions of area 0's released count minus its true count in D, on D and on D' (one person fewer)."""
    if name != "raked":
        law = law_of(name, epsilon)
        return law, Law(law.value - 1, law.p)
    rng, (people, moved) = np.random.default_rng((seed, 1001)), _sides(seed)
    laws = []
    for side, shift in ((people, 0), (moved, 1)):
        counts = [int(side.answer("total", level=level).dense()[0, 0]) for level in side.spine.levels]
        pairs = list(zip(counts[1:], counts[:-1], strict=True))
        siblings = side.spine.size(side.spine.levels[1])
        drawn = np.sort(errors_of_raked(pairs, siblings, epsilon=epsilon, runs=SIMULATED, rng=rng)) - shift
        laws.append(Law(drawn, np.full(SIMULATED, 1 / SIMULATED)))
    return laws[0], laws[1]


def _with_exact(curve: pd.DataFrame, laws: tuple[Law, Law]) -> pd.DataFrame:
    """The curve with the exact probabilities of its events on D and D', and their log ratio."""
    k = curve.k.to_numpy(dtype=np.float64)
    tail = (curve.event == ">=").to_numpy()
    p, q = (np.where(tail, _at_least(law, k), _at_least(law, k - 0.5) - _at_least(law, k + 0.5)) for law in laws)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.log(p) - np.log(q)
    return curve.assign(exact_p=p, exact_q=q, exact=exact)


def _at_least(law: Law, k: Floats) -> Floats:
    beyond = np.append(np.cumsum(law.p[::-1])[::-1], 0.0)
    return np.asarray(beyond[np.searchsorted(law.value, k, side="left")])


def _chart(shown: pd.DataFrame) -> Any:
    """A row for each mechanism, a column for each event: intervals, log ratios, the exact ones and the budget."""
    alt = altair()
    drawn = shown[(shown.k.abs() <= DRAWN) & (shown.p > 0) & (shown.q > 0)]
    rows = []
    for mechanism, some in drawn.groupby("mechanism", sort=False):
        budget, panels = float(some.budget.iloc[0]), []
        for event, most in (("=", 4.6), (">=", 1.2)):
            points = some[some.event == event]
            x = alt.X("k:Q", title="k, persons", scale=alt.Scale(domain=[-DRAWN, DRAWN], nice=False))
            scale = alt.Scale(domain=[-most, most], nice=False)
            y = alt.Y("log_ratio:Q", title="log ratio", scale=scale)
            base = alt.Chart(points).encode(x=x)
            bars = base.mark_rule(color=BLUE, opacity=0.25, clip=True).encode(
                y=alt.Y("low:Q", title="log ratio", scale=scale), y2="high:Q"
            )
            dots = base.mark_point(color=BLUE, filled=True, size=9, opacity=1, clip=True).encode(y=y)
            lines = alt.Chart(pd.DataFrame({"log_ratio": [budget, -budget]})).mark_rule(
                color=INK, strokeDash=[5, 4], strokeWidth=1
            )
            line = base.mark_line(color=ORANGE, strokeWidth=1.5, clip=True).encode(
                y=alt.Y("exact:Q", title="log ratio", scale=scale)
            )
            title = f"{mechanism}, budget {budget:g}: {{error {event} k}}"
            panel = alt.layer(bars, dots, lines.encode(y=y), *([line] if event == ">=" else []))
            panels.append(panel.properties(width=WIDTH * 3 // 4, height=HEIGHT // 2, title=title))
        rows.append(alt.hconcat(*panels))
    note = [
        f"{RUNS} runs on D and on D', area 0. Dots and bars: log ratios with 95% intervals; dashed: plus and minus the",
        "budget; orange: exact (raked: simulated). Not drawn: k that never occurred on one side, and beyond the panel.",
    ]
    return titled(alt.vconcat(*rows), "Direct estimates of the loss", *note)
