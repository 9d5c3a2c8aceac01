"""TopDown and simple random samples on a census of 1940, run once for all items of petti2020.

Our figures have the columns of the published file, so that comparing the two is a join. Of a run only figures
are kept; of the releases of one budget only the counts, until their residuals are pooled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, final

import numpy as np
import pandas as pd

from tallyveil.evaluate import bias, epl, homogeneity, residuals, sizes
from tallyveil.evaluate.epl.settings import Settings, smoothed
from tallyveil.evaluate.error import error_of
from tallyveil.evaluate.value_counts import value_counts
from tallyveil.mechanisms.sampling import sample
from tallyveil.populations import Population
from tallyveil_papers.petti.census import LEVELS, Census, nation_of
from tallyveil_papers.petti.census import census_of as census_of  # for others, too
from tallyveil_papers.petti.releases import EPSILONS, RUNS
from tallyveil_papers.petti.topdown import released_at
from tallyveil_papers.registry import Setting

STRATA = "votingage * hispanic * race"
COUNTS = {"tc": "total", "sc": STRATA}  # published spelling: our query
STATISTICS = {"mae": "median_abs", "pct95": "p95_abs", "max_ae": "max_abs", "rmse": "rmse"}
SIZES = {"median": "median", "pct95": "p95", "mean": "mean", "std": "sd"}
Definition = Literal["product", "cells"]
DEFINITIONS: dict[Definition, str] = {
    "product": "bias",
    "cells": "bias of the text",
}  # of the homogeneity index: our name of the statistic
KEYS = ["method", "count", "level", "epsilon", "fraction", "homogeneity", "statistic"]
COLUMNS = [*KEYS, "value", "chance", "n", "corrected"]
FRACTIONS = tuple(step / 20 for step in range(1, 20))
FIGURE_2 = ("county", "sc")  # the counts of Figure 2 and Table 1
SHOWN = (0.5, 1.0, 2.0)  # budgets of Figures 1 and 3
TEXT_FRACTIONS = (0.05, 0.5, 0.95)  # of samples whose loss the text gives too
TEXT_LOSS = "epl of the text"
TEXT_PERCENTILE, TEXT_MULTIPLIER = 99.0, 1.5  # its search range, of an earlier version of the authors' code
SPREADS = ["homogeneity", "p5", "p25", "p75", "p95", "bias", "n", "error", "epsilon"]
BAND = 3.0  # a 95% band for a whole curve is about this many standard errors to each side


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """The results that are kept of all runs of a kind.

    Attributes
    ----------
    figures
        The columns of the published file, with ``chance`` (the standard error of a figure made as theirs was), ``n``
        (residuals) and, of a loss, ``corrected`` for the upward bias of a noisy maximum. Undefined losses are missing.
    residuals, losses, spreads
        For Figures 1 and 3: how many residuals have which value; the smoothed loss; quantiles by homogeneity.
    times
        Seconds of a run at each budget.
    """

    figures: pd.DataFrame
    residuals: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["value", "share", "epsilon"]))
    losses: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["x", "epl", "epsilon"]))
    spreads: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=SPREADS))
    times: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["epsilon", "seconds"]))


@lru_cache(maxsize=2)
def topdown_runs(setting: Setting) -> Runs:
    """All budgets, one after another (or as ``setting.map`` does it)."""
    census_of(setting)
    return _joined(setting.map(topdown_at, [setting_only(setting)] * len(EPSILONS), EPSILONS))


@lru_cache(maxsize=2)  # on the nation, and on a smaller country
def sample_runs(setting: Setting) -> Runs:
    """All sampling fractions."""
    census_of(setting)
    runs = _joined(setting.map(samples_at, [setting_only(setting)] * len(FRACTIONS), FRACTIONS))
    return replace(runs, figures=_with_pooled_chance(runs.figures))


def setting_only(setting: Setting) -> Setting:
    """The setting without its pool, which other processes need not get."""
    return replace(setting, map=map)


def topdown_at(setting: Setting, epsilon: float) -> Runs:
    """TopDown at one budget: error, loss and bias of the pooled runs."""
    census = census_of(setting)
    truth = census.population
    released, times = released_at(setting, epsilon)
    at = {"method": "topdown", "epsilon": epsilon}
    scale = math.sqrt(len(released) / RUNS)
    shown = epsilon in SHOWN
    frames, counted, losses = [], [], []
    for level, count in _places():
        rows, errors, loss = figures_of(census, released, level, count)
        frames.append(rows.assign(chance=rows.chance * np.where(rows.statistic == "epl", 1.0, scale)))
        if shown and (level, count) == ("enum_dist", "sc"):
            counted.append(_counted(errors.value).assign(epsilon=epsilon))
            losses.append(loss.curve[["x", "epl"]].assign(epsilon=epsilon))
    biases = [_bias(truth, released, level, definition) for definition in DEFINITIONS for level in LEVELS]
    figures = pd.concat([*frames, *biases], ignore_index=True).assign(**at).reindex(columns=COLUMNS)
    every = Runs(figures=figures, times=times)
    if not shown:
        return every
    return replace(
        every,
        residuals=pd.concat(counted),
        losses=pd.concat(losses),
        spreads=_spread(truth, released).assign(epsilon=epsilon),
    )


def samples_at(setting: Setting, fraction: float) -> Runs:
    """Simple random samples of one fraction: error and loss.

    The authors drew one. On a census of the nation's size, figures are means over single samples; a smaller country has
    fewer units, so its samples are pooled, and it is needed for the counts of Figure 2 alone.
    """
    census = census_of(setting)
    share = Fraction(fraction).limit_denominator(20)
    drawn = [sample(census.population, share, seed=setting.seed, replicate=k) for k in range(setting.replicates)]
    frames = []
    for level, count in _places() if setting == nation_of(setting) else [FIGURE_2]:
        sets = [[histogram] for histogram in drawn] if census.whole else [drawn]
        parts = []
        for replicates in sets:
            rows, errors, _ = figures_of(census, replicates, level, count)
            parts.append(rows)
            if census.whole and fraction in TEXT_FRACTIONS and level != "state":
                parts.append(pd.DataFrame({"statistic": TEXT_LOSS, "value": [_loss_of_text(errors.value)]}))
        each = pd.concat(parts).astype({"value": float})
        spread = each.groupby("statistic").value.std()
        mean = each.groupby("statistic", sort=False)[["value", "n", "corrected"]].mean().reset_index()
        frames.append(mean.assign(count=count, level=level, chance=mean.statistic.map(spread)))
    figures = pd.concat(frames, ignore_index=True).assign(method="srs", fraction=fraction)
    return Runs(figures=figures.reindex(columns=COLUMNS))


def figures_of(census: Census, released: Sequence[Any], level: str, count: str) -> tuple[pd.DataFrame, Any, Any]:
    """Error and loss of some releases at one level; their residuals, and the loss with its curve.

    A level of too few units gets no loss: it would be slow, and nothing could be read from it.
    """
    errors = residuals(census.population, released, level=LEVELS[level], query=COUNTS[count])
    table = error_of(errors).set_index("statistic")
    loss = epl(errors.value if census.has_enough(level) else errors.value[:0])
    rows = [
        {"statistic": theirs, "value": table.value[ours], "chance": table.sampling_error[ours], "n": errors.n}
        for theirs, ours in STATISTICS.items()
    ]
    rows.append({"statistic": "epl", "value": loss.epl, "chance": _chance_of(loss), "n": errors.n})
    table = pd.DataFrame(rows).astype({"value": float, "chance": float})
    corrected = math.nan if loss.corrected is None else loss.corrected
    return table.assign(corrected=corrected, count=count, level=level), errors, loss


def size_figures(census: Census) -> pd.DataFrame:
    """The sizes of the precise counts."""
    queries = {query: count for count, query in COUNTS.items()}
    names, places = {ours: theirs for theirs, ours in SIZES.items()}, {ours: theirs for theirs, ours in LEVELS.items()}
    table = sizes(census.population, levels=LEVELS.values(), queries=COUNTS.values())
    return table.assign(
        method="precise",
        count=table["query"].map(queries),
        level=table.level.map(places),
        statistic=table.statistic.map(names),
        chance=0.0,
    ).reindex(columns=COLUMNS)


def _places() -> Iterator[tuple[str, str]]:
    for level in LEVELS:
        for count in COUNTS:
            yield level, count


def _chance_of(loss: Any) -> float:
    """About one standard error of the largest value of a loss curve; missing where residuals are too few for a band."""
    if loss.corrected is None:
        return math.nan
    at = int(loss.curve.epl.abs().argmax())
    return float(loss.curve.high.iloc[at] - loss.curve.epl.iloc[at]) / BAND


def _bias(truth: Population, released: Sequence[Any], level: str, definition: Definition) -> pd.DataFrame:
    biases = bias(truth, released, level=LEVELS[level], of=STRATA, definition=definition)
    return pd.DataFrame(
        {
            "statistic": DEFINITIONS[definition],
            "value": biases.bias,
            "chance": biases.standard_error,
            "n": biases.n,
            "homogeneity": biases.group.astype(float),
            "count": "tc",
            "level": level,
        }
    )


def _counted(values: Any) -> pd.DataFrame:
    value, count = np.unique(values, return_counts=True)
    return pd.DataFrame({"value": value, "share": count / count.sum()})


def _spread(truth: Population, released: Sequence[Any]) -> pd.DataFrame:
    """Residuals of district totals by homogeneity: quantiles, which Figure 3 shades, and the mean with its error."""
    errors = residuals(truth, released, level="enumdist")
    index = homogeneity(truth, level="enumdist", query=STRATA, definition="product")[errors.unit]
    groups = pd.Series(errors.value).groupby(index)
    spread = groups.quantile([0.05, 0.25, 0.75, 0.95]).unstack().set_axis(["p5", "p25", "p75", "p95"], axis=1)
    spread = spread.assign(bias=groups.mean(), n=groups.size(), error=groups.std() / np.sqrt(groups.size()))
    return spread.rename_axis("homogeneity").reset_index()


def _loss_of_text(values: Any) -> float:
    """The loss alone, without the band of :func:`tallyveil.evaluate.epl`, which takes long over so wide a range."""
    if len(values) < 2:  # an extract of one county
        return math.nan
    _, log_p = smoothed(value_counts(values), Settings(percentile=TEXT_PERCENTILE, multiplier=TEXT_MULTIPLIER))
    return float(np.abs(np.diff(log_p)).max()) if len(log_p) > 1 else math.nan


def _with_pooled_chance(figures: pd.DataFrame) -> pd.DataFrame:
    """The spread of single samples as a share of the figure, pooled over all fractions: that of four says little."""
    shares = (figures.chance / figures.value.where(figures.value != 0)) ** 2
    pooled = shares.groupby([figures.level, figures["count"], figures.statistic]).transform("mean") ** 0.5
    return figures.assign(chance=figures.value * pooled)


def _joined(runs: Iterable[Runs]) -> Runs:
    every = list(runs)
    parts = ((name, [getattr(run, name) for run in every]) for name in ("residuals", "losses", "spreads", "times"))
    tables = {
        name: pd.concat([part for part in some if len(part)] or some[:1], ignore_index=True) for name, some in parts
    }
    figures = pd.concat([run.figures for run in every], ignore_index=True)
    return Runs(figures=figures, **tables)
