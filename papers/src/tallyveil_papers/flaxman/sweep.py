"""The sweep of flaxman2019: the less obvious estimate over the budget, with one parameter varied at a time.

The rows that the paper's claims refer to are fixed in advance: "matching its theoretical bound" and "roughly one
quarter (with J = 3)" refer to Figure 1, whose caption has budgets 0.025 and 0.1. All other rows have no published
number; each is computed a second time from noise and raking in numpy (:mod:`tallyveil_papers.flaxman.simulation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from tallyveil._arrays import Floats
from tallyveil.populations import uniform_tree
from tallyveil.privacy import Geometric
from tallyveil.report.plots import BLUE, ORANGE, altair, titled
from tallyveil_papers.figure import Figure
from tallyveil_papers.flaxman.runs import BUDGETS, NAMES, noise_of
from tallyveil_papers.flaxman.simulation import children_of, losses_by_hand, residuals_by_hand
from tallyveil_papers.losses import loss_curve
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

BASE: Mapping[str, Any] = {
    "persons": 1_000_000,
    "levels": 3,
    "mean": 100,
    "epsilon": 0.1,
    "bandwidth": 0.15,
    "multiplier": 2.0,
    "percentile": 95.0,
}
VARIED: Mapping[str, tuple[float, ...]] = {
    "persons": (100_000, 300_000, 3_000_000),
    "levels": (1, 2, 4),
    "mean": (30, 300),
    "epsilon": (0.025, 0.05, 0.2, 0.5, 1.0),
    "bandwidth": (0.05, 0.3, 0.5, 1.0),
    "multiplier": (0.5, 1.0, 1.5),
    "percentile": (75.0, 90.0, 99.0),
}
POPULATION, SEARCH = ("persons", "levels", "mean"), ("bandwidth", "multiplier", "percentile")
RESIDUALS = 45_000  # pooled, about
BATCHES, POINTS = 10, 40  # of the second computation: batches of so many residuals, and points in the range
RANGES = 1.5  # ours may be so many times a range of ten batches from their median: 4.6 standard deviations


def sweep(setting: Setting) -> Outcome:
    """The loss over the budget for many populations, budgets, bandwidths and search ranges, one at a time."""
    cases = [("base", BASE), *((what, {**BASE, what: value}) for what, some in VARIED.items() for value in some)]
    rows = []
    for name in ("geometric", "raked"):
        for what, case in cases:
            estimate, again = _case(name, case, setting.seed), _again(name, case, setting.seed)
            second = {"again_over_epsilon": np.median(again), "again_range": np.ptp(again)}
            rows.append({"mechanism": NAMES[name], "varied": what, **case, **estimate, **second})
    table = pd.DataFrame(rows)
    _by_hand.cache_clear()
    names = {words: name for name, words in NAMES.items()}
    usual = float((table.again_range / table.again_over_epsilon).median())
    figures = [_figure(names[row["mechanism"]], row, usual=usual) for row in rows]
    return Outcome(figures=figures, tables={"sweep": table}, charts={"sweep": _sweep_chart(table)}, notes=_notes(table))


def _figure(name: str, row: Mapping[str, Any], *, usual: float) -> Figure:
    """A row compared with its second computation, and with the paper's claim if the claim refers to it."""
    said = all(row[what] == BASE[what] for what in BASE if what != "epsilon") and row["epsilon"] == BUDGETS[name]
    at = f"{row['mechanism']}, N {row['persons']:,}, J {row['levels']}, mu {row['mean']}, epsilon {row['epsilon']:g}"
    if row["varied"] in SEARCH:
        at += f", {row['varied']} {row[row['varied']]:g}"
    second, within = row["again_over_epsilon"], RANGES * max(row["again_range"], usual * row["again_over_epsilon"])
    ours, case = row["median_over_epsilon"], name if said else ""
    return judge("flaxman2019.sweep.loss", ours, case=case, at=at, again=second, again_within=within)


def _notes(table: pd.DataFrame) -> list[str]:
    raked = table[table.mechanism == NAMES["raked"]]
    at_three = raked[(raked.levels == 3) & ~raked.varied.isin(SEARCH)]
    far = at_three[(at_three.median_over_epsilon / 0.25 - 1).abs() > 0.06]
    missed = "; ".join(
        f"N {row.persons:,}, mu {row['mean']}, epsilon {row.epsilon:g}: {row.median_over_epsilon:.3f}"
        for _, row in far.iterrows()
    )
    own = ", ".join(
        f"{row.median_over_epsilon:.3f} for J = {row.levels}" for _, row in raked[raked.varied == "levels"].iterrows()
    )
    missed = f": {missed}" if missed else ""
    return notes_of("flaxman2019.sweep", own=own, far=len(far), rows=len(at_three), missed=missed)


def _case(name: str, case: Mapping[str, Any], seed: int) -> dict[str, float]:
    """The loss of a few runs pooled, over the budget."""
    tree = uniform_tree(persons=case["persons"], mean=case["mean"], levels=case["levels"], seed=seed).people
    leaf = tree.spine.leaf
    areas = tree.spine.size(leaf)
    runs = max(3, RESIDUALS // areas)
    residuals = noise_of(name, tree, str(case["epsilon"]), seed=seed, runs=runs, leaf=leaf)
    settings = {"tails": "both", "grid": "integers", **{what: case[what] for what in SEARCH}}
    values = np.abs(loss_curve(residuals.reshape(-1), **settings)[1])
    alone = np.abs(loss_curve(residuals[0], **settings)[1])
    siblings = areas ** (1 / case["levels"])
    spread = Geometric(z=Fraction(str(case["epsilon"]))).actual_variance() ** 0.5 * (
        1 if name == "geometric" else case["levels"] + 1
    )
    return {
        "areas": areas,
        "runs": runs,
        "noise_of_sum": spread / siblings**0.5 / case["mean"],  # of all children of a unit, over their mean
        "median_over_epsilon": float(np.median(values)) / case["epsilon"],
        "largest_over_epsilon": float(alone.max()) / case["epsilon"],
    }


def _again(name: str, case: Mapping[str, Any], seed: int) -> Floats:
    """The same for several batches of as many residuals, by the second implementation."""
    population = tuple(int(case[what]) for what in POPULATION)
    batches = _by_hand(name, float(case["epsilon"]), *population, seed)
    search = {what: case[what] for what in SEARCH}
    losses = [float(np.median(losses_by_hand(batch, points=POINTS, **search))) for batch in batches]
    return np.array(losses) / float(case["epsilon"])


@lru_cache(maxsize=64)
def _by_hand(name: str, epsilon: float, persons: int, levels: int, mean: int, seed: int) -> Floats:
    rng = np.random.default_rng((seed, persons, levels, mean, round(1e6 * epsilon), name == "raked"))
    runs = max(3, RESIDUALS // children_of(persons, mean, levels) ** levels)
    options: dict[str, Any] = {"epsilon": epsilon, "persons": persons, "mean": mean, "levels": levels, "rng": rng}
    return np.stack([residuals_by_hand(name, runs=runs, **options).ravel() for _ in range(BATCHES)])


def _sweep_chart(table: pd.DataFrame) -> Any:
    alt = altair()
    kinds = [what for what in dict.fromkeys(table.varied) if what != "base"]
    base = table[table.varied == "base"]
    shown = pd.concat([table[table.varied == what].assign(value=lambda t, w=what: t[w]) for what in kinds])
    shown = pd.concat([shown, *(base.assign(varied=what, value=base[what]) for what in kinds)])
    names = {"persons": "N, persons", "levels": "J, levels", "mean": "mu, persons in an area"}
    shown = shown.assign(varied=[names.get(what, what) for what in shown.varied])
    scale, kept = alt.Scale(type="log", nice=False, padding=10), ["GDPC", "RDPC"]
    encoded = alt.Chart(shown).encode(
        x=alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(labelOverlap=True, tickCount=4)),
        y=alt.Y("median_over_epsilon:Q", title="loss over budget", scale=alt.Scale(domain=[0, 1.1])),
        color=alt.Color("mechanism:N", title=None, scale=alt.Scale(domain=kept, range=[BLUE, ORANGE])),
        shape=alt.Shape("mechanism:N", title=None, scale=alt.Scale(domain=kept, range=["circle", "square"])),
    )
    panel = (encoded.mark_line() + encoded.mark_point(filled=True, size=40)).properties(width=150, height=110)
    order = [names.get(what, what) for what in kinds]
    panels = panel.facet(facet=alt.Facet("varied:N", title=None, sort=order), columns=4).resolve_scale(x="independent")
    return titled(panels, "The loss over the budget, one thing varied at a time", "Median over the search range.")
