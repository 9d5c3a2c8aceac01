"""Frontiers: what one level must give up for another, and what less risk costs in error.

Each point is an allocation of the same budget. The error of a level is the geometric mean of the predicted standard
deviations of its queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyveil.allocation.allocate import allocate
from tallyveil.errors import InputError
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Number
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.budget.searches import Measure

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.allocation.result import Allocated

POINTS = 9


def level_frontier(
    spine: Spine,
    schema: Schema,
    strategy: Strategy,
    *,
    levels: Sequence[str],
    points: int = POINTS,
    **options: Any,
) -> pd.DataFrame:
    """The least error of one level for every error of another, and where the strategy itself stands.

    ``options`` are those of :func:`tallyveil.allocate`.

    Returns
    -------
    DataFrame
        ``point`` (``"start"`` or ``"allocated"``), ``weight`` (of the first level) and the error of both levels.
    """
    import pandas as pd

    if len(set(levels)) != 2:
        raise InputError(f"a frontier is between two levels. Got {', '.join(levels)} instead.")
    queries = list(dict.fromkeys(name for level in levels for name in strategy.queries[level]))
    rows: list[dict[str, Any]] = []
    for weight in np.linspace(0.02, 0.98, points).tolist():
        weights = {
            f"{query}@{level}": share for level, share in zip(levels, (weight, 1 - weight), strict=True)
            for query in queries
        }  # fmt: skip
        made = allocate(spine, schema, strategy, weights=weights, objective="geometric", **options)
        if not rows:
            rows.append({"point": "start", "weight": math.nan} | _errors(made, levels, queries, "sd_before"))
        rows.append({"point": "allocated", "weight": weight} | _errors(made, levels, queries, "sd_after"))
    return pd.DataFrame(rows)


def risk_frontier(
    spine: Spine,
    schema: Schema,
    strategy: Strategy,
    *,
    weights: dict[str, Number] | None = None,
    measure: Measure = "risk",
    priors: Sequence[Number] = ("1/2",),
    points: int = POINTS,
    **options: Any,
) -> pd.DataFrame:
    """The least error for every bound on the risk of a leaf, and where the strategy itself stands.

    Returns
    -------
    DataFrame
        ``point``, ``risk`` (the measure that is reached) and ``error`` (the geometric mean of the standard deviations
        of what is weighted, relative to the strategy's own).
    """
    import pandas as pd

    settings: dict[str, Any] = {"weights": weights, "objective": "geometric", "risk_measure": measure, "priors": priors}
    settings |= options
    free = allocate(spine, schema, strategy, risk_bound=_never(measure, priors), **settings)
    assert free.risk is not None
    least = 1.0 if measure == "risk" else max(float(_fraction(prior)) for prior in priors)
    rows = [{"point": "start", "risk": free.risk["before"], "error": 1.0}, _risk_row(free, weights)]
    for part in np.linspace(0.9, 0.1, points - 1).tolist():
        bound = least + part * (free.risk["after"] - least)
        try:
            made = allocate(spine, schema, strategy, risk_bound=float(f"{bound:.6g}"), **settings)
        except InputError:  # below what the least share of the leaf level gives
            break
        rows.append(_risk_row(made, weights))
    return pd.DataFrame(rows)


def _errors(made: Allocated, levels: Sequence[str], queries: Sequence[str], column: str) -> dict[str, float]:
    table = made.predicted[made.predicted["query"].isin(queries)]
    return {level: _mean(table[table.level == level][column].to_numpy()) for level in levels}


def _risk_row(made: Allocated, weights: dict[str, Number] | None) -> dict[str, Any]:
    table = made.predicted
    if weights is not None:
        named = table["query"] + "@" + table.level
        table = table[named.isin([word for word, weight in weights.items() if float(_fraction(weight)) > 0])]
    assert made.risk is not None
    error = _mean(table.sd_after.to_numpy()) / _mean(table.sd_before.to_numpy())
    return {"point": "allocated", "risk": made.risk["after"], "error": error}


def _mean(values: Any) -> float:
    known = values[values > 0]
    return float(np.exp(np.log(known).mean())) if len(known) else 0.0


def _never(measure: Measure, priors: Sequence[Number]) -> float:
    """A bound that hardly any budget breaks."""
    return 0.999999 if measure != "risk" else 0.999999 / max(float(_fraction(prior)) for prior in priors)


def _fraction(value: Number) -> Any:
    from tallyveil.privacy.budget import exact

    return exact(value, "a number", zero=True)
