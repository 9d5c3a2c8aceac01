"""The sampling fraction whose error and empirical privacy loss are nearest to those of a release.

Petti & Flaxman compare TopDown with simple random sampling without replacement, with counts scaled up (their Figure 2
and Table 1): a budget of 1 is like a sample of 50% for stratified county counts. The answer depends on level and query
(the authors' figures for districts give 35%), so it is always reported with both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pandas as pd

from tallyveil.errors import InputError
from tallyveil.evaluate.epl.loss import epl
from tallyveil.evaluate.error import statistics
from tallyveil.evaluate.residuals import Residuals, residuals
from tallyveil.evaluate.sources import Source, people_of
from tallyveil.mechanisms.sampling import as_share, sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population

FRACTIONS = tuple(Fraction(step, 20) for step in range(1, 20))  # 5%, 10%, ..., 95%
SMALLEST = 0.5  # persons: smaller median errors are replaced by this before taking logarithms


@dataclass(frozen=True, kw_only=True, eq=False)
class Likeness:
    """The sample that a release is most like.

    Attributes
    ----------
    level, query
        The counts that were compared.
    table
        ``method``, ``fraction``, ``median_abs``, ``epl``, ``distance`` from the release (missing for the release
        itself, and where a loss is undefined).
    fraction
        The nearest sampling fraction; None where the loss of the release is undefined.
    undefined
        The reason why it is None.
    """

    level: str
    query: str
    table: pd.DataFrame
    fraction: float | None
    undefined: str | None = None

    def words(self) -> str:
        """The answer in a sentence, with its level and query."""
        of = f"counts of {self.query!r} at level {self.level!r}"
        if self.fraction is None:
            return f"{of}: no sample is like it ({self.undefined})"
        own = self.table[self.table.method == "release"].iloc[0]
        near = self.table[(self.table.method == "sample") & (self.table.fraction == self.fraction)].iloc[0]
        figures = (
            f"median error {own.median_abs:g} against {near.median_abs:.3g}, loss {own.epl:.3g} against {near.epl:.3g}"
        )
        return f"{of}: like a sample of {100 * self.fraction:g}% ({figures})"

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        rows = self.table.astype(object).where(self.table.notna(), None).to_dict(orient="records")
        answer = {"level": self.level, "query": self.query, "fraction": self.fraction, "undefined": self.undefined}
        return {**answer, "table": rows}


def like_a_sample(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    level: str,
    query: str = "detailed",
    fractions: Sequence[Fraction | float] = FRACTIONS,
    others: Sequence[tuple[str, Source]] = (),
    seed: int = 0,
) -> Likeness:
    """The sampling fraction nearest to a release in log median absolute error and log loss (petti2020, Table 1).

    Parameters
    ----------
    truth, released, level, query
        As for :func:`~tallyveil.evaluate.residuals`.
    fractions
        Sampling fractions. As many samples are drawn of each as there are releases, because the loss estimated from
        fewer residuals is larger.
    others
        Further methods to compare with, as (name, counts).
    seed
        Seed of the samples.
    """
    people = people_of(truth)
    shares = [as_share(fraction, "fraction") for fraction in fractions]
    if not shares:
        raise InputError("fractions is empty. Give some, such as [0.25, 0.5, 0.75], or leave it out.")
    mine = residuals(people, released, level=level, query=query)
    own = profile(mine)
    rows: list[dict[str, Any]] = [{"method": "release", "fraction": None, **own, "distance": None}]
    for name, source in others:
        figures = profile(residuals(people, source, level=level, query=query))
        rows.append({"method": name, "fraction": None, **figures, "distance": distance(own, figures)})
    for fraction in shares:
        drawn = [sample(people, fraction, seed=seed, replicate=k) for k in range(mine.replicates)]
        figures = profile(residuals(people, drawn, level=level, query=query))
        sampled = {"method": "sample", "fraction": float(fraction)}
        rows.append({**sampled, **figures, "distance": distance(own, figures)})
    table = pd.DataFrame(rows).astype({"fraction": float, "median_abs": float, "epl": float, "distance": float})
    samples = table[(table.method == "sample") & table.distance.notna()]
    nearest = None if samples.empty else float(samples.loc[samples.distance.idxmin(), "fraction"])
    reason = None if nearest is not None else "the loss is undefined: " + (own["undefined"] or "of every sample")
    table = table.drop(columns="undefined")
    return Likeness(level=level, query=people.schema.query(query).name, table=table, fraction=nearest, undefined=reason)


def profile(compared: Residuals) -> dict[str, Any]:
    """The two figures that are compared: median absolute error and the authors' loss."""
    loss = epl(compared)
    return {
        "median_abs": statistics(compared.value, zeros=compared.zeros)["median_abs"],
        "epl": loss.epl,
        "undefined": loss.undefined,
    }


def distance(one: dict[str, Any], other: dict[str, Any]) -> float | None:
    """The distance of two profiles: the hypotenuse of the log ratios; None where a loss is undefined.

    >>> round(distance({"median_abs": 6, "epl": 0.164}, {"median_abs": 5, "epl": 0.15}), 3)    # epsilon 1 and 50%
    0.203
    """
    if not one["epl"] or not other["epl"]:
        return None
    error = math.log(max(one["median_abs"], SMALLEST) / max(other["median_abs"], SMALLEST))
    return math.hypot(error, math.log(one["epl"] / other["epl"]))
