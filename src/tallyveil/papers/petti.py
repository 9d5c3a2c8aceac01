"""petti2020: TopDown on the 1940 census, its error, its empirical privacy loss, its bias, and samples beside it [1]_.

The 1940 census itself cannot be shipped. Without an extract of it, figures are computed on a synthetic census of its
shape (:func:`tallyveil.populations.census_1940`) and are stand-ins: direction and factor are compared. What does not
depend on the people (the noise, the split of the budget, state totals, the rule of Table 1) is exact.

References
----------
.. [1] Petti & Flaxman, Differential privacy in the 2020 US census: what will it do?, Gates Open Research 3:1722, 2020.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tallyveil.evaluate.compare import distance
from tallyveil.papers import petti_charts as charts
from tallyveil.papers.petti_compare import CLEAR, PLACES, lay, name_of, results, signs
from tallyveil.papers.petti_exact import SETUP, VARIANCE
from tallyveil.papers.petti_runs import (
    DEFINITIONS,
    EPSILONS,
    FRACTIONS,
    SHOWN,
    census_of,
    sample_runs,
    size_figures,
    topdown_runs,
)
from tallyveil.papers.petti_text import TEXT
from tallyveil.papers.registry import Figure, Item, Outcome, Setting

ERRORS = ["mae", "pct95", "max_ae", "rmse"]
TABLE_1 = {1.0: 0.5, 2.0: 0.75, 4.0: 0.9, 6.0: 0.95}
STEP = 0.05  # between sampling fractions
FACTOR = (
    "Stand-in: the people are synthetic, so direction and a factor of two. {slack} With the real extract: rounding and "
    "four standard errors of the difference of two such runs."
)
PERSON = "Errors are published as whole persons, so one person is no difference."
CHANCE = "In a smaller country the direction alone, where it is clear; else three standard errors are no difference."
TOPDOWN = ("populations.census_1940", "protect", "Strategy.preset", "evaluate.error")
SAMPLES = ("populations.census_1940", "mechanisms.sampling.sample", "evaluate.error", "evaluate.epl")


def compute_error(setting: Setting) -> Outcome:
    """Error of TopDown: 192 published figures."""
    return _laid(
        setting, results(method="topdown", statistic=ERRORS), topdown_runs(setting).figures, "Error of TopDown"
    )


def compute_epl(setting: Setting) -> Outcome:
    """Empirical privacy loss of TopDown: 40 published figures."""
    theirs = results(method="topdown", statistic="epl")
    return _laid(setting, theirs, topdown_runs(setting).figures, "Empirical privacy loss of TopDown")


def compute_bias(setting: Setting) -> Outcome:
    """Bias of totals by homogeneity: 168 published figures; and how many have their sign with each definition of it."""
    theirs, ours = results(method="topdown", statistic="bias"), topdown_runs(setting).figures
    laid = _laid(setting, theirs, ours, "Bias by homogeneity", log=False)
    by_text = signs(theirs.assign(statistic=DEFINITIONS["cells"]), ours)
    words = [
        f"{word}: {int(table.same_sign.sum())} of {len(table)} have the published sign"
        for word, table in (("the product", signs(theirs, ours)), ("empty cells, as the text has it", by_text))
    ]
    note = f"Where both biases are more than {CLEAR:g} standard errors from 0, by the index of {', '.join(words)}."
    return replace(laid, notes=[*laid.notes, note], tables={**laid.tables, "index_of_the_text": by_text})


def compute_samples(setting: Setting) -> Outcome:
    """Error and loss of simple random samples: 570 published figures."""
    return _laid(setting, results(method="srs"), sample_runs(setting).figures, "Simple random samples")


def compute_sizes(setting: Setting) -> Outcome:
    """Sizes of the precise counts: 24 published figures."""
    return _laid(setting, results(method="precise"), size_figures(census_of(setting)), "Sizes of the precise counts")


def compute_figure1(setting: Setting) -> Outcome:
    """Residuals of district strata and their loss at three budgets."""
    runs = topdown_runs(setting)
    theirs = results(method="topdown", level="enum_dist", count="sc", epsilon=list(SHOWN), statistic=[*ERRORS, "epl"])
    laid = lay(theirs, runs.figures, census_of(setting))
    return Outcome(
        figures=laid.figures,
        charts={"figure1": charts.figure1(runs.residuals, runs.losses, of=census_of(setting).words())},
        tables={"residuals": runs.residuals, "losses": runs.losses, "not_compared": laid.left_out},
        notes=laid.notes(),
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
    """The nearest sample of each budget: by the authors' figures (exact), and by ours."""
    census = census_of(setting)
    ours = pd.concat([topdown_runs(setting).figures, sample_runs(setting).figures], ignore_index=True)
    lacking = lay(results(level="county", count="sc", statistic=["mae", "epl"]), ours, census)
    by_theirs, by_ours = nearest(results()), {} if len(lacking.left_out) else nearest(ours)
    at = "epsilon {:g}, counties, strata"
    figures = [
        Figure(
            name="nearest sample, by the published figures",
            at=at.format(epsilon),
            ours=by_theirs[epsilon],
            published=share,
            tolerance=1e-9,
        )
        for epsilon, share in TABLE_1.items()
    ]
    figures += [
        Figure(
            name="nearest sample, by ours",
            at=at.format(epsilon),
            ours=by_ours[epsilon],
            published=share,
            stand_in=census.stand_in,
            tolerance=STEP + 1e-9,
        )
        for epsilon, share in TABLE_1.items()
        if by_ours
    ]
    table = pd.DataFrame({"epsilon": list(TABLE_1), "published": list(TABLE_1.values())})
    table = table.assign(by_published=table.epsilon.map(by_theirs), by_ours=table.epsilon.map(by_ours))
    note = "The rule is the distance in log median absolute error and log loss that evaluate.like_a_sample uses."
    return Outcome(figures=figures, tables={"table1": table}, notes=[note, *lacking.notes()])


def compute_figure3(setting: Setting) -> Outcome:
    """Residuals of district totals by homogeneity at three budgets."""
    runs = topdown_runs(setting)
    theirs = results(method="topdown", level="enum_dist", epsilon=list(SHOWN), statistic="bias")
    laid = lay(theirs, runs.figures, census_of(setting))
    means = theirs.rename(columns={"value": "published"})[["epsilon", "homogeneity", "published"]]
    spreads = runs.spreads.astype({"homogeneity": float}).merge(means, on=["epsilon", "homogeneity"], how="outer")
    spreads = spreads.sort_values(["epsilon", "homogeneity"], ignore_index=True)
    return Outcome(
        figures=laid.figures,
        charts={"figure3": charts.figure3(spreads, of=census_of(setting).words())},
        tables={"spreads": spreads, "not_compared": laid.left_out},
        notes=laid.notes(),
    )


def nearest(figures: pd.DataFrame) -> dict[float, float]:
    """The sampling fraction nearest to each budget of Table 1, for strata of counties."""
    pairs = _pairs(figures)
    own, samples = pairs[pairs.method == "topdown"].set_index("epsilon"), pairs[pairs.method == "srs"]
    found = {}
    for epsilon in TABLE_1:
        apart = [distance(own.loc[epsilon].to_dict(), row) for row in samples.to_dict(orient="records")]
        found[epsilon] = float(samples.fraction.iloc[int(np.argmin([np.inf if d is None else d for d in apart]))])
    return found


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


def _laid(setting: Setting, theirs: pd.DataFrame, ours: pd.DataFrame, title: str, *, log: bool = True) -> Outcome:
    """Published rows beside ours, with a chart of one against the other."""
    census = census_of(setting)
    laid = lay(theirs, ours, census)
    table = laid.table
    if log:
        shown = table.assign(kind=[name_of(row) for row in table.itertuples()], place=table.level.map(PLACES))
    else:
        place = np.where(table.epsilon < 1, "epsilon below 1", "epsilon from 1")
        shown = table.assign(kind=table.level.map(PLACES), place=place)[table.level != "state"]
    drawn: dict[str, Any] = {}
    if len(shown):
        drawn["against"] = charts.against(shown, title=f"{title}: ours against published", of=census.words(), log=log)
    return Outcome(
        figures=laid.figures,
        charts=drawn,
        tables={"side_by_side": laid.table, "not_compared": laid.left_out},
        notes=laid.notes(),
    )


_INDEX = (
    "The text defines the homogeneity index as the number of empty cells and calls 22 its maximum; the indices "
    "published (0, 4, 8, 12, 14, ... 23) are consistent with the 24 cells less the product of the numbers of ages, "
    "ethnicities and races present. That one is used here; evaluate.homogeneity has both."
)

ITEMS: tuple[Item, ...] = (
    Item(
        key="petti2020.figure1",
        title="Residuals of district strata, and their empirical privacy loss",
        where="Figure 1",
        what="TopDown at epsilon 0.5, 1 and 2: how often a residual occurs, and EPL(x); error and loss of these.",
        calls=(*TOPDOWN, "evaluate.residuals", "evaluate.epl"),
        tolerance=FACTOR.format(slack=PERSON),
        compute=compute_figure1,
    ),
    Item(
        key="petti2020.figure2",
        title="Error against empirical privacy loss: TopDown and simple random samples",
        where="Figure 2",
        what=f"Median error and loss of county strata at {len(EPSILONS)} budgets and {len(FRACTIONS)} fractions.",
        calls=(*TOPDOWN, "mechanisms.sampling.sample", "evaluate.epl"),
        tolerance=FACTOR.format(slack=PERSON),
        compute=compute_figure2,
    ),
    Item(
        key="petti2020.table1",
        title="Like which sample?",
        where="Table 1",
        what="The sample nearest to each budget: from the authors' own figures, and from ours.",
        calls=("evaluate.compare.distance", *TOPDOWN, "mechanisms.sampling.sample", "evaluate.epl"),
        tolerance="From the published figures: exact. From ours: stand-in, one step of 5% or a factor of two.",
        compute=compute_table1,
    ),
    Item(
        key="petti2020.figure3",
        title="Bias of district totals by homogeneity",
        where="Figure 3",
        what="Mean and spread of residuals of district totals at epsilon 0.5, 1 and 2, by homogeneity index.",
        calls=(*TOPDOWN[:3], "evaluate.bias", "evaluate.homogeneity", "evaluate.residuals"),
        tolerance=FACTOR.format(slack=CHANCE),
        compute=compute_figure3,
        erratum=_INDEX,
    ),
    Item(
        key="petti2020.error",
        title="Error of TopDown at every budget, level and statistic",
        where="Extended data (results file, 192 figures)",
        what="Median, 95th percentile, maximum and root mean square of errors, totals and strata; runs pooled.",
        calls=TOPDOWN,
        tolerance=FACTOR.format(slack=PERSON) + " State totals are invariant: exactly 0.",
        compute=compute_error,
    ),
    Item(
        key="petti2020.epl",
        title="Empirical privacy loss of TopDown at every budget and level",
        where="Extended data (results file, 40 figures)",
        what="The authors' loss of pooled residuals: bandwidth factor 0.1, 95th percentile, midpoints.",
        calls=(*TOPDOWN[:3], "evaluate.residuals", "evaluate.epl"),
        tolerance=FACTOR.format(slack="Half a unit of the third decimal."),
        compute=compute_epl,
    ),
    Item(
        key="petti2020.bias",
        title="Bias of totals by homogeneity at every budget and level",
        where="Extended data (results file, 168 figures)",
        what="Mean residual of totals by the homogeneity index that the authors computed; runs pooled.",
        calls=(*TOPDOWN[:3], "evaluate.bias"),
        tolerance=FACTOR.format(slack=CHANCE) + " State totals: exactly 0.",
        compute=compute_bias,
        erratum=_INDEX,
    ),
    Item(
        key="petti2020.samples",
        title="Simple random samples: error and loss at 19 fractions",
        where="Extended data (results file, 570 figures)",
        what="Samples without replacement, counts scaled up; error and loss as of TopDown.",
        calls=SAMPLES,
        tolerance=FACTOR.format(slack=PERSON),
        compute=compute_samples,
    ),
    Item(
        key="petti2020.sizes",
        title="Sizes of the precise counts",
        where="Extended data (results file, 24 figures)",
        what="Median, mean, standard deviation and 95th percentile of counts that are not empty.",
        calls=("populations.census_1940", "evaluate.sizes"),
        tolerance="Stand-in: a factor of two (its parameters were fitted to these). Real extract: half a unit.",
        compute=compute_sizes,
    ),
    TEXT,
    VARIANCE,
    SETUP,
)
