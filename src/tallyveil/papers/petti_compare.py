"""Our figures beside published ones of petti2020, and which can be compared fairly.

A smaller synthetic census is a smaller country, not a sample: its districts, counties and states are of the usual
size, and there are fewer of each. So medians and percentiles can be compared; maxima, and levels of a handful of units,
cannot. Of bias by homogeneity only the direction can: state totals are fixed, so mixed places lose what uniform ones
gain, and how many there are of each differs (few states have all the nation's groups in each). What cannot be compared
is left out with its reason, not made up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import pandas as pd

from tallyveil.papers.petti_runs import KEYS, Census
from tallyveil.papers.registry import Figure, published

FEWEST_RESIDUALS = 20  # behind a bias
PERSON = 1.0  # errors are published as whole persons: a published 1 stands for 0.5 to 1.5
CHANCE = 3.0  # standard errors of the difference within which a stand-in is not told from the published figure
CLEAR = 3.0  # standard errors from 0 beyond which a bias has a direction (of 150, several would pass 2 by chance)
REAL_ERRORS = 4.0  # on the real census: standard errors of the difference of two such runs
UNIT = {"epl": 0.001, "bias": 0.1, "mean": 0.1, "std": 0.1}  # of the last published digit; 1 elsewhere
WORDS = {
    "mae": "median absolute error",
    "pct95": "95th percentile of absolute error",
    "max_ae": "largest absolute error",
    "rmse": "root mean square error",
    "epl": "empirical privacy loss",
    "bias": "bias",
    "median": "median size",
    "mean": "mean size",
    "std": "standard deviation of sizes",
}
COUNTED = {"tc": "totals", "sc": "strata"}
PLACES = {"state": "states", "county": "counties", "enum_dist": "districts"}
NUMBERS = {"state": 51, "county": 3_108, "enum_dist": 134_858}  # of units in 1940


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Laid:
    """Published rows laid beside ours: figures, those left out with the reason, and both in one table."""

    figures: Sequence[Figure]
    left_out: pd.DataFrame
    table: pd.DataFrame

    def notes(self) -> list[str]:
        """How many figures are left out, reason by reason."""
        number = self.left_out.groupby("reason", sort=False).size()
        return [f"{count} published figures are not compared: {reason}." for reason, count in number.items()]


def results(**wanted: Any) -> pd.DataFrame:
    """Rows of the authors' results, by the values of columns (one or a list of each)."""
    table = published("petti_flaxman_2020_results")
    for name, value in wanted.items():
        table = table[table[name].isin(value if isinstance(value, list | tuple) else [value])]
    return table.reset_index(drop=True)


def lay(theirs: pd.DataFrame, ours: pd.DataFrame, census: Census) -> Laid:
    """Join published rows with ours and make figures of those that can be compared."""
    table = _joined(theirs, ours)
    rows: list[Any] = list(table.itertuples())
    table["reason"] = [_reason(row, census) for row in rows]
    kept = [row for row, reason in zip(rows, table.reason, strict=True) if not reason]
    out = table[table.reason != ""]
    figures = [figure_of(row, census) for row in kept]
    beside = table[table.reason == ""].drop(columns="reason").reset_index(drop=True)
    return Laid(
        figures=figures,
        left_out=out[[*KEYS, "published", "ours", "reason"]].reset_index(drop=True),
        table=beside.assign(verdict=[figure.verdict for figure in figures]),
    )


def signs(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Biases of counties and districts beside the published ones: those of both that have a direction."""
    table = _joined(theirs, ours)
    clear = table[["ours", "published"]].abs().min(axis=1) > CLEAR * table.chance
    table = table[clear & (table.level != "state")]
    names = ["level", "epsilon", "homogeneity", "ours", "published", "chance", "n"]
    return table[names].assign(same_sign=table.ours * table.published > 0).reset_index(drop=True)


def figure_of(row: Any, census: Census) -> Figure:
    """One published row with ours."""
    rounding = UNIT.get(row.statistic, 1.0) / 2
    exact, slack, name = is_invariant(row), 0.0, name_of(row)
    tolerance = 0.0 if exact else rounding
    if not census.stand_in and not exact and row.method != "precise":
        tolerance = rounding + REAL_ERRORS * math.sqrt(2) * row.chance
    elif row.statistic == "bias" and not exact:
        if not census.whole:
            return Figure(
                name=f"{name} (direction)",
                at=at_of(row),
                ours=float(row.ours),
                published=float(row.published),
                stand_in=True,
                factor=math.inf,
            )
        slack = CHANCE * math.sqrt(2) * row.chance  # theirs has chance in it too
    elif row.statistic != "epl" and row.method != "precise":
        slack = max(PERSON, CHANCE * math.sqrt(2) * row.chance if census.whole else 0.0)  # the maximum of one sample
    return Figure(
        name=name,
        at=at_of(row),
        ours=float(row.ours),
        published=float(row.published),
        tolerance=tolerance + 1e-9,
        stand_in=census.stand_in and not exact,
        slack=slack,
    )


def is_invariant(row: Any) -> bool:
    """Whether a figure is of state totals, which TopDown keeps whatever the census."""
    return bool(row.method == "topdown" and row.level == "state" and row.count == "tc")


def name_of(row: Any) -> str:
    """A row's statistic in words."""
    if row.method == "precise" and row.statistic == "pct95":
        return "95th percentile of sizes"
    return WORDS[row.statistic]


def at_of(row: Any) -> str:
    """A row's place in words: level, counts, and the budget or fraction."""
    parts = [PLACES[row.level], COUNTED[row.count]]
    if row.method == "topdown":
        parts.append(f"epsilon {row.epsilon:g}")
    elif row.method == "srs":
        parts.append(f"sample of {100 * row.fraction:g}%")
    if not math.isnan(row.homogeneity):
        parts.append(f"homogeneity {row.homogeneity:.0f}")
    return ", ".join(parts)


def _reason(row: Any, census: Census) -> str:
    """Why a row is not compared; nothing if it is."""
    level = PLACES[row.level]
    if not is_invariant(row) and not census.has_enough(row.level):
        return f"this smaller country has {census.units(row.level)} of the nation's {NUMBERS[row.level]:,} {level}"
    if pd.isna(row.ours):
        if row.statistic == "bias":
            return f"no {level} here have such a homogeneity index"
        return f"the loss of {level} is undefined here" if row.statistic == "epl" else "they were not computed"
    if is_invariant(row) or (not census.stand_in and row.method == "precise"):
        return ""
    if row.statistic == "bias" and row.n < FEWEST_RESIDUALS:
        return f"fewer than {FEWEST_RESIDUALS} residuals of {level} have such a homogeneity index here"
    if row.statistic == "epl" and math.isnan(row.corrected):
        return f"{level} have too few residuals here for the loss to say anything"
    if not census.stand_in and math.isnan(row.chance):
        return "with one run, nothing is known of the chance in them"
    return "" if census.whole else _reason_of_size(row, level)


def _reason_of_size(row: Any, level: str) -> str:
    """Why a row is not compared in a smaller country."""
    if row.statistic == "max_ae":
        return "a maximum grows with the number of counts, and a smaller country has fewer"
    if row.statistic == "std" and row.level != "enum_dist":
        return "the spread of sizes hangs on the few largest counties, which a smaller country does not have"
    if row.statistic == "bias" and not min(abs(row.ours), abs(row.published)) > CLEAR * row.chance:
        return f"the bias of {level} is within {CLEAR:g} standard errors of 0, here or as published"
    if row.statistic == "epl" and row.corrected < row.ours / 2:
        return (
            f"more than half of the loss of {level} is the upward bias of a noisy maximum, larger than the published "
            f"one's as there are fewer residuals"
        )
    return ""


def _joined(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Published rows and what we have of them, in columns ``published`` and ``ours``."""
    numbers = dict.fromkeys(("epsilon", "fraction", "homogeneity"), float)
    table = theirs.rename(columns={"value": "published"}).astype(numbers)
    return table.merge(ours.rename(columns={"value": "ours"}).astype(numbers), on=KEYS, how="left")
