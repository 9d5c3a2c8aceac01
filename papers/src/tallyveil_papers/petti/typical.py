"""Figures that combine many published rows: a sharper test than a factor of two for each.

One row of a stand-in may be off by a factor of two; the mean of several may not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tallyveil_papers.figure import FACTOR, Figure
from tallyveil_papers.petti.census import Census
from tallyveil_papers.petti.compare import COUNTED, PLACES, REAL_ERRORS, UNIT, WORDS

ROUNDED = 5  # units at least: rounding is then at most a tenth of a figure
ERROR_FACTOR = 1.25  # error goes as one over the budget: half-way (in logarithms) to a budget 1.5 times too large
LOSS_FACTOR = 1.5  # the largest value of a noisy curve, biased upwards, the more so the fewer residuals there are
REAL = 0.1  # of the real census: what rounding can do to a figure


def typical_errors(table: pd.DataFrame, census: Census) -> list[Figure]:
    """Errors by level, count and statistic: the geometric mean of ours and of the published ones."""
    errors = table[~table.statistic.isin(["epl", "max_ae"])]
    return _typical(errors, census, by=["level", "count", "statistic"], factor=ERROR_FACTOR, of="errors")


def typical_losses(table: pd.DataFrame, census: Census) -> list[Figure]:
    """Losses, all together."""
    return _typical(table[table.statistic == "epl"], census, by=[], factor=LOSS_FACTOR, of="losses")


def bias_sizes(table: pd.DataFrame, census: Census) -> list[Figure]:
    """The size of the bias for each budget and level: the mean over the indices compared, in the published direction.

    Every index has the same weight: how many units have which was not published. Ours counts as negative where it has
    the other sign, so that chance averages out, and a bias that is turned round differs.
    """
    rows = table[table.level != "state"]
    return [_bias_size(group, census, keys) for keys, group in rows.groupby(["level", "epsilon"], sort=False)]


def beyond_a_factor(table: pd.DataFrame) -> str:
    """A note on the number of biases that are more than a factor of two from the published ones."""
    rows = table[table.level != "state"]
    ratio = rows.ours / rows.published
    beyond = int((~ratio.between(1 / FACTOR, FACTOR)).sum())
    return f"{beyond} of the {len(rows)} biases compared of counties and districts are beyond a factor of two."


def _bias_size(group: pd.DataFrame, census: Census, keys: Any) -> Figure:
    level, epsilon = keys
    published = group.published.abs()
    chance = 0.0 if census.their_releases else math.sqrt((group.chance**2).sum()) / len(group)
    return Figure(
        name=f"size of the bias, mean of {len(group)} {'index' if len(group) == 1 else 'indices'}",
        at=f"{PLACES[level]}, totals, epsilon {epsilon:g}",
        ours=float((group.ours * np.sign(group.published)).mean()),
        published=float(published.mean()),
        tolerance=0.0 if census.stand_in else UNIT["bias"] / 2 + REAL_ERRORS * math.sqrt(2) * chance,
        stand_in=census.stand_in,
    )


def _typical(table: pd.DataFrame, census: Census, *, by: Sequence[str], factor: float, of: str) -> list[Figure]:
    units = table.statistic.map(UNIT).astype(float).fillna(1.0)
    rows = table[table.published >= ROUNDED * units]
    groups: Mapping[Any, pd.DataFrame] = dict(list(rows.groupby(list(by), sort=False))) if by else {(): rows}
    return [
        Figure(
            name=f"geometric mean of {len(group)} {of}",
            at=", ".join(
                [PLACES[keys[0]], COUNTED[keys[1]], WORDS[keys[2]]] if keys else ["all levels and counts compared"]
            ),
            ours=_geometric_mean(group.ours),
            published=_geometric_mean(group.published),
            tolerance=0.0 if census.stand_in else REAL * _geometric_mean(group.published),
            stand_in=census.stand_in,
            factor=factor,
        )
        for keys, group in groups.items()
        if len(group)
    ]


def _geometric_mean(values: pd.Series) -> float:
    """0 if one is 0: an error that vanished differs."""
    return float(np.exp(np.log(values).mean())) if (values > 0).all() else 0.0
