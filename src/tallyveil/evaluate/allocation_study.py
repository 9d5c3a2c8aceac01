"""An allocation study: a sweep with its replicates pooled, as petti2020 pools four runs at each budget.

For each allocation, budget, level and query there is one row: error and bias of all replicates together, the empirical
privacy loss of their pooled residuals with its interval, the sampling fraction that the result resembles (petti2020,
Table 1), and the risk of the allocation. The loss of a single run is larger: it is the maximum of a noisier curve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from tallyveil.evaluate.bias import mean_by
from tallyveil.evaluate.compare import FRACTIONS, profile
from tallyveil.evaluate.epl.loss import epl
from tallyveil.evaluate.epl.settings import ENOUGH
from tallyveil.evaluate.error import error_of
from tallyveil.evaluate.likeness_interval import distance
from tallyveil.evaluate.residuals import Residuals, residuals
from tallyveil.evaluate.sources import people_of
from tallyveil.evaluate.sweep import Trial, asked_digest, kept_name
from tallyveil.mechanisms.sampling import sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.privacy.strategy import Strategy

Asked = Sequence[tuple[str, str]]  # levels and queries
SMALL = 10  # persons: bias is also given for counts from 1 to this, which non-negativity pushes up
Risk = Callable[[Strategy, str], float | None]  # of an allocation at a level
COLUMNS = [
    *("allocation", "strategy", "unit", "budget", "level", "query", "replicates", "n"),
    *("median_abs", "median_abs_error", "rmse", "rmse_error", "bias", "bias_low", "bias_high"),
    *("small_bias", "small_bias_low", "small_bias_high"),
    *("epl", "epl_low", "epl_high", "corrected", "fraction", "risk"),
]


def study(
    truth: Histogram | Population,
    wanted: Iterable[Trial],
    entries: Mapping[str, pd.DataFrame],
    *,
    asked: Asked,
    samples: pd.DataFrame | None = None,
    risk: Risk | None = None,
) -> pd.DataFrame:
    """Pool the replicates of each allocation and budget.

    Parameters
    ----------
    truth
        The true counts.
    wanted
        The trials of the sweep, replicates of one strategy after each other.
    entries
        The residuals of each trial, as :func:`~tallyveil.evaluate.sweep.sweep` stores them.
    asked
        The (level, query) pairs of the sweep.
    samples
        From :func:`sample_profiles`; without it, ``fraction`` is missing.
    risk
        Function that returns the risk of a strategy at a level; without it, ``risk`` is missing.

    Returns
    -------
    DataFrame
        ``allocation``, ``strategy``, ``unit``, ``budget``, ``level``, ``query``, ``replicates``, ``n``;
        ``median_abs`` and ``rmse`` with their standard errors over replicates (``_error``); ``bias`` (the mean
        residual) with its interval, and ``small_bias`` for true counts from 1 to 10; ``epl`` of the pooled residuals,
        ``epl_low`` and ``epl_high`` (the interval of the largest log ratio before smoothing) and ``corrected``;
        ``fraction``, the sample it resembles; ``risk``.
    """
    people = people_of(truth)
    rows = []
    for (allocation, digest), group in groupby(wanted, key=lambda trial: (trial.allocation, trial.digest)):
        some = list(group)
        strategy, stored = some[0].strategy, [entries[kept_name(trial, asked)] for trial in some]
        named = {"allocation": allocation, "strategy": digest, "unit": strategy.unit, "budget": float(strategy.budget)}
        for level, query in asked:
            row = named | _figures(_pooled(people, stored, level, query))
            row["fraction"] = None if samples is None else _nearest(row, samples)
            row["risk"] = None if risk is None else risk(strategy, level)
            rows.append(row)
    numbers = dict.fromkeys(COLUMNS[8:], float)
    return pd.DataFrame(rows, columns=COLUMNS).astype(numbers)


def sample_profiles(
    truth: Histogram | Population,
    asked: Asked,
    *,
    replicates: int,
    seed: int = 0,
    fractions: Sequence[Fraction] = FRACTIONS,
    store: MutableMapping[str, pd.DataFrame] | None = None,
    progress: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Error and loss of simple random samples: ``fraction``, ``level``, ``query``, ``median_abs``, ``epl``.

    As many samples of each fraction are pooled as there are replicates, because the loss estimated from fewer residuals
    is larger. They do not depend on the allocation, so a sweep draws them once.
    """
    people, frames = people_of(truth), []
    stored: MutableMapping[str, pd.DataFrame] = {} if store is None else store
    for fraction in fractions:
        name = f"{fraction.numerator}_of_{fraction.denominator}-{replicates}-{asked_digest(asked)}"
        if name not in stored:
            drawn = [sample(people, fraction, seed=seed, replicate=k) for k in range(replicates)]
            rows = []
            for level, query in asked:
                compared = residuals(people, drawn, level=level, query=query)
                figures = profile(compared)
                rows.append({"fraction": float(fraction), "level": level, "query": compared.query,
                             "median_abs": figures["median_abs"], "epl": figures["epl"]})  # fmt: skip
            stored[name] = pd.DataFrame(rows).astype({"median_abs": float, "epl": float})
        frames.append(stored[name])
        if progress is not None:
            progress(name)
    return pd.concat(frames, ignore_index=True)


def _pooled(people: Histogram, stored: Sequence[pd.DataFrame], level: str, query: str) -> Residuals:
    """The residuals of several trials as replicates."""
    none = residuals(people, people, level=level, query=query)
    parts = [frame[(frame.level == none.level) & (frame["query"] == none.query)] for frame in stored]
    joined: dict[str, Any] = {
        name: np.concatenate([part[name].to_numpy() for part in parts]) for name in ("true", "released", "unit", "row")
    }
    replicate = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])
    return replace(none, **joined, replicate=replicate, replicates=len(parts))


def _figures(compared: Residuals) -> dict[str, Any]:
    """Error, bias and loss of pooled residuals."""
    error = error_of(compared).set_index("statistic")
    figures: dict[str, Any] = {"level": compared.level, "query": compared.query, "replicates": compared.replicates,
                               "n": compared.n}  # fmt: skip
    for name in ("median_abs", "rmse"):
        figures |= {name: error.value[name], f"{name}_error": error.sampling_error[name]}
    small = (compared.true >= 1) & (compared.true <= SMALL)
    for name, group in (("bias", np.zeros(len(small), dtype=np.int64)), ("small_bias", (~small).astype(np.int64))):
        mean = mean_by(compared, group, None, by="size").set_index("group")
        known = mean.loc[0] if 0 in mean.index else dict.fromkeys(("bias", "low", "high"))
        figures |= {name: known["bias"], f"{name}_low": known["low"], f"{name}_high": known["high"]}
    loss = epl(compared, fewest=ENOUGH)
    return figures | {"epl": loss.epl, "epl_low": loss.epl_low, "epl_high": loss.epl_high, "corrected": loss.corrected}


def _nearest(row: Mapping[str, Any], samples: pd.DataFrame) -> float | None:
    """The sampling fraction nearest in log error and log loss; None where a loss is undefined."""
    same = samples[(samples.level == row["level"]) & (samples["query"] == row["query"]) & samples.epl.notna()]
    apart = {float(each["fraction"]): distance(dict(row), each) for each in same.to_dict(orient="records")}
    known = {fraction: value for fraction, value in apart.items() if value is not None}
    return min(known, key=lambda fraction: known[fraction]) if known else None
