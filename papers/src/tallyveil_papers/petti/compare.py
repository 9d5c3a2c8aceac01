"""Compare our figures with the published ones of petti2020, where a comparison is fair.

A smaller synthetic census is a smaller country, not a sample: its districts, counties and states have the usual size,
but there are fewer of them. Medians and percentiles can therefore be compared; maxima, and levels with a handful of
units, cannot. For bias by homogeneity, the direction is compared row by row and the size over all indices together,
because which units have which index is synthetic and differs between a small country and the nation. Figures that
cannot be compared are kept, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import pandas as pd

from tallyveil_papers.figure import FACTOR, Figure
from tallyveil_papers.petti.census import Census, fewest_persons
from tallyveil_papers.petti.runs import KEYS, TEXT_LOSS
from tallyveil_papers.registry import published

FEWEST_RESIDUALS = 20  # behind a bias
CHANCE = 3.0  # standard errors of the difference within which a stand-in does not differ
CLEAR = 3.0  # standard errors from 0 beyond which a bias has a direction (of 150, several would pass 2 by chance)
REAL_ERRORS = 4.0  # on the real census: standard errors of the difference of two such runs
UNIT = {
    "epl": 0.001,
    TEXT_LOSS: 0.001,
    "bias": 0.1,
    "mean": 0.1,
    "std": 0.1,
}  # of the last published digit; 1 elsewhere
FLOAT = 1e-9  # tolerance for a difference of exactly half a unit
WORDS = {
    "mae": "median absolute error",
    "pct95": "95th percentile of absolute error",
    "max_ae": "largest absolute error",
    "rmse": "root mean square error",
    "epl": "empirical privacy loss",
    TEXT_LOSS: "empirical privacy loss, 1.5 x 99th percentile",
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
    """Published rows joined with ours: a figure for each, and tables of the rows that are compared and left out."""

    figures: Sequence[Figure]
    left_out: pd.DataFrame
    table: pd.DataFrame

    def notes(self) -> list[str]:
        """The number of figures that are compared, and of those left out, by reason."""
        number = self.left_out.groupby("reason", sort=False).size()
        compared = [f"{len(self.table)} of {len(self.figures)} published figures are compared."]
        return compared + [f"Not compared, {count}: {reason}." for reason, count in number.items()]


def results(**wanted: Any) -> pd.DataFrame:
    """Rows of the authors' results, by the values of columns (one or a list of each)."""
    table = published("petti_flaxman_2020_results")
    for name, value in wanted.items():
        table = table[table[name].isin(value if isinstance(value, list | tuple) else [value])]
    return table.reset_index(drop=True)


def lay(theirs: pd.DataFrame, ours: pd.DataFrame, census: Census) -> Laid:
    """Join published rows with ours and make a figure of each; those not compared have a reason."""
    table = _joined(theirs, ours)
    rows: list[Any] = list(table.itertuples())
    table["reason"] = [_reason(row, census) for row in rows]
    figures = [figure_of(row, census, reason) for row, reason in zip(rows, table.reason, strict=True)]
    table["verdict"] = [figure.verdict for figure in figures]
    compared = table.reason == ""
    return Laid(
        figures=figures,
        left_out=table[~compared][[*KEYS, "published", "ours", "chance", "n", "reason"]].reset_index(drop=True),
        table=table[compared].drop(columns="reason").reset_index(drop=True),
    )


def signs(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Biases of counties and districts and the published ones, where both are clearly different from 0."""
    table = _joined(theirs, ours)
    clear = table[["ours", "published"]].abs().min(axis=1) > CLEAR * table.chance
    table = table[clear & (table.level != "state")]
    names = ["level", "epsilon", "homogeneity", "ours", "published", "chance", "n"]
    return table[names].assign(same_sign=table.ours * table.published > 0).reset_index(drop=True)


def figure_of(row: Any, census: Census, reason: str = "") -> Figure:
    """One published row with ours."""
    exact, rounding, slack, factor = is_invariant(row), UNIT.get(row.statistic, 1.0) / 2 + FLOAT, 0.0, FACTOR
    stand_in = census.stand_in and not exact
    if stand_in:
        slack, factor = _rule(row, rounding, whole=census.whole)
    elif not exact and not has_no_chance(row, census):
        rounding += REAL_ERRORS * math.sqrt(2) * row.chance
    return Figure(
        name=f"{name_of(row)} (direction)" if factor == math.inf else name_of(row),
        at=at_of(row),
        ours=float(row.ours),
        published=float(row.published),
        tolerance=0.0 if exact or stand_in else rounding,
        stand_in=stand_in,
        slack=slack,
        factor=factor,
        left_out=reason,
    )


def _rule(row: Any, rounding: float, *, whole: bool) -> tuple[float, float]:
    """The slack and the factor within which a stand-in does not differ."""
    chance = CHANCE * math.sqrt(2) * (0.0 if math.isnan(row.chance) else row.chance)  # theirs has chance in it too
    if row.statistic == "bias":
        return chance, FACTOR if whole else math.inf
    if row.statistic == "epl" and not whole and row.ours > row.published:
        above = 0.0 if math.isnan(row.corrected) else row.ours - row.corrected  # fewer residuals, noisier maximum
        return max(rounding, above), FACTOR
    if row.method == "srs" and whole and row.ours > 0:
        return rounding, max(FACTOR, math.exp(chance / row.ours))  # the maximum of one sample
    if row.method == "topdown" and row.statistic != "epl" and whole:
        return max(rounding, chance), FACTOR
    return rounding, FACTOR


def is_invariant(row: Any) -> bool:
    """Whether a figure is of state totals, which TopDown keeps whatever the census."""
    return bool(row.method == "topdown" and row.level == "state" and row.count == "tc")


def has_no_chance(row: Any, census: Census) -> bool:
    """Whether a figure follows from the real files alone: sizes, and TopDown on the releases that the authors had."""
    real_runs = row.method == "topdown" and census.their_releases
    return not census.stand_in and (row.method == "precise" or real_runs)


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
    """Why a row is not compared, or an empty text. It depends on the census and the published figure, not on ours."""
    level = PLACES[row.level]
    if is_invariant(row) and not pd.isna(row.ours):
        return ""
    if not census.has_persons(row.statistic):
        return f"a country of fewer than {fewest_persons(row.statistic):,} persons is too small for this comparison"
    if not census.has_enough(row.level):
        return f"this smaller country has {census.units(row.level)} of the nation's {NUMBERS[row.level]:,} {level}"
    if has_no_chance(row, census):
        return ""
    if pd.isna(row.ours):  # but for units that are not there, a figure that is missing differs
        return f"no {level} here have this homogeneity index" if row.statistic == "bias" else ""
    if row.statistic == "bias" and row.n < FEWEST_RESIDUALS:
        return f"fewer than {FEWEST_RESIDUALS} residuals of {level} have this homogeneity index here"
    if row.statistic == "epl" and math.isnan(row.corrected):
        return f"{level} have too few residuals to estimate the loss"
    if not census.stand_in and math.isnan(row.chance):
        return "with one run, the sampling error is unknown"
    return "" if census.whole else _reason_of_size(row, level)


def _reason_of_size(row: Any, level: str) -> str:
    """Why a row is not compared in a smaller country."""
    if row.statistic == "max_ae":
        return "a maximum grows with the number of counts, and a smaller country has fewer counts"
    if row.statistic == "std" and row.level != "enum_dist":
        return "the spread of sizes depends on the few largest counties, which a smaller country does not have"
    if row.statistic == "bias" and not abs(row.published) > CLEAR * row.chance:
        return f"the published bias of {level} is within {CLEAR:g} standard errors (of ours) of 0"
    return ""


def _joined(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Published rows joined with ours, in the columns ``published`` and ``ours``."""
    numbers = dict.fromkeys(("epsilon", "fraction", "homogeneity"), float)
    table = theirs.rename(columns={"value": "published"}).astype(numbers)
    return table.merge(ours.rename(columns={"value": "ours"}).astype(numbers), on=KEYS, how="left")
