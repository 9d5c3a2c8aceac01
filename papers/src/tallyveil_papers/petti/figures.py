"""petti2020: TopDown on the 1940 census, its error, empirical privacy loss and bias, and simple random samples [1]_.

The 1940 census itself cannot be shipped. Without an extract of it, figures are computed on a synthetic census of its
shape (:func:`tallyveil.populations.census_1940`) and are stand-ins: direction and factor are compared. What does not
depend on the people (the noise, the split of the budget, state totals) is exact.

References
----------
.. [1] Petti & Flaxman, Differential privacy in the 2020 US census: what will it do?, Gates Open Research 3:1722, 2020.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from tallyveil.evaluate.likeness_interval import distance
from tallyveil_papers.figure import FACTOR as TWO
from tallyveil_papers.petti import charts
from tallyveil_papers.petti.census import census_of
from tallyveil_papers.petti.compare import FEWEST_RESIDUALS, lay, results
from tallyveil_papers.petti.file import ERRORS
from tallyveil_papers.petti.runs import SHOWN, sample_runs, topdown_runs
from tallyveil_papers.petti.typical import beyond_a_factor, bias_sizes
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of, printed_cases

TABLE_1 = {float(epsilon): share for epsilon, share in printed_cases("petti2020.table1.nearest").items()}
STEP = 0.05  # between sampling fractions


def compute_figure1(setting: Setting) -> Outcome:
    """Residuals of district strata and their loss at three budgets."""
    runs = topdown_runs(setting)
    theirs = results(method="topdown", level="enum_dist", count="sc", epsilon=list(SHOWN), statistic=[*ERRORS, "epl"])
    laid = lay(theirs, runs.figures, census_of(setting))
    return Outcome(
        figures=laid.figures,
        charts={"figure1": charts.figure1(runs.residuals, runs.losses, of=census_of(setting).words())},
        tables={"residuals": runs.residuals, "losses": runs.losses, "not_compared": laid.left_out},
        notes=[*laid.notes(), *notes_of("petti2020.figure1")],
    )


def compute_figure2(setting: Setting) -> Outcome:
    """Median error against loss of county strata, TopDown and samples."""
    census = census_of(setting)
    ours = pd.concat([topdown_runs(setting).figures, sample_runs(setting).figures], ignore_index=True)
    laid = lay(results(level="county", count="sc", statistic=["mae", "epl"]), ours, census)
    panels = ("published: census of 1940", f"here: {census.words()}")
    both = pd.concat([_points(results(), panels[0]), _points(ours, panels[1])], ignore_index=True)
    return Outcome(
        figures=laid.figures,
        charts={"figure2": charts.figure2(both)},
        tables={"points": both, "not_compared": laid.left_out},
        notes=laid.notes(),
    )


def compute_table1(setting: Setting) -> Outcome:
    """The sample nearest to each budget, both on one census."""
    census = census_of(setting)
    ours = pd.concat([topdown_runs(setting).figures, sample_runs(setting).figures], ignore_index=True)
    lacking = lay(results(level="county", count="sc", statistic=["mae", "epl"]), ours, census).left_out
    fractions = {} if len(lacking) else nearest(ours)
    left_out = "" if fractions else f"of county strata, {lacking.reason.iloc[0]}"
    figures = [
        judge("petti2020.table1.nearest", fractions.get(epsilon, math.nan), at=f"epsilon {epsilon:g}, counties, strata",
              case=f"{epsilon:g}", tolerance=0.0 if census.stand_in else STEP + 1e-9, stand_in=census.stand_in,
              slack=_slack(share), left_out=left_out)
        for epsilon, share in TABLE_1.items()
    ]  # fmt: skip
    table = pd.DataFrame({"epsilon": list(TABLE_1), "published": list(TABLE_1.values())})
    table = table.assign(
        by_ours=table.epsilon.map(fractions), by_the_published_figures=table.epsilon.map(nearest(results()))
    )
    return Outcome(figures=figures, tables={"table1": table}, notes=notes_of("petti2020.table1"))


def _slack(share: float) -> float:
    """The distance from a sampling fraction f within which (1 - f)/f, as the variance, is within a factor of two.

    The nearer side counts, and the distance is at least one step between samples.

    >>> [round(_slack(share), 3) for share in TABLE_1.values()]
    [0.167, 0.107, 0.05, 0.05]
    """
    odds = (1 - share) / share
    reach = (share - 1 / (1 + TWO * odds), 1 / (1 + odds / TWO) - share)
    return max(STEP, min(reach)) + 1e-9


def compute_figure3(setting: Setting) -> Outcome:
    """Residuals of district totals by homogeneity at three budgets."""
    runs, census = topdown_runs(setting), census_of(setting)
    theirs = results(method="topdown", level="enum_dist", epsilon=list(SHOWN), statistic="bias")
    laid = lay(theirs, runs.figures, census)
    means = theirs.rename(columns={"value": "published"})[["epsilon", "homogeneity", "published"]]
    spreads = runs.spreads.astype({"homogeneity": float}).merge(means, on=["epsilon", "homogeneity"], how="outer")
    spreads = spreads.sort_values(["epsilon", "homogeneity"], ignore_index=True)
    drawn = spreads[~(spreads.n < FEWEST_RESIDUALS)]
    return Outcome(
        figures=[*laid.figures, *bias_sizes(laid.table, census)],
        charts={"figure3": charts.figure3(drawn, of=census.words(), fewest=FEWEST_RESIDUALS)},
        tables={"spreads": spreads, "not_compared": laid.left_out},
        notes=[*laid.notes(), beyond_a_factor(laid.table)],
    )


def nearest(figures: pd.DataFrame) -> dict[float, float]:
    """The sampling fraction nearest to each budget of Table 1, for strata of counties."""
    pairs = _pairs(figures)
    own, samples = pairs[pairs.method == "topdown"].set_index("epsilon"), pairs[pairs.method == "srs"]
    fractions = {}
    for epsilon in TABLE_1:
        apart = [distance(own.loc[epsilon].to_dict(), row) for row in samples.to_dict(orient="records")]
        fractions[epsilon] = float(samples.fraction.iloc[int(np.argmin([np.inf if d is None else d for d in apart]))])
    return fractions


def _pairs(figures: pd.DataFrame) -> pd.DataFrame:
    """Median error and loss of county strata side by side."""
    rows = figures[(figures.level == "county") & (figures["count"] == "sc") & figures.statistic.isin(["mae", "epl"])]
    rows = rows[rows.method.isin(["topdown", "srs"])]
    rows = rows.assign(step=rows.epsilon.astype(float).fillna(0) + rows.fraction.astype(float).fillna(0))
    wide = rows.set_index(["method", "step", "statistic"]).value.unstack().reset_index()
    of = {"median_abs": wide.mae, "epsilon": wide.step.where(wide.method == "topdown")}
    return wide.assign(**of, fraction=wide.step.where(wide.method == "srs"))


def _points(figures: pd.DataFrame, panel: str) -> pd.DataFrame:
    pairs = _pairs(figures)
    sampled = pairs.method == "srs"
    named = pairs.step.isin([0.05, 0.25, 0.5, 0.75, 0.9, 0.95])
    labels = [
        (f"{100 * step:g}%" if name else "") if sample else f"{step:g}"
        for step, sample, name in zip(pairs.step, sampled, named, strict=True)
    ]
    method = np.where(sampled, "simple random sample", "TopDown, by ε")
    return pairs[["step", "median_abs", "epl"]].assign(panel=panel, method=method, label=labels)
