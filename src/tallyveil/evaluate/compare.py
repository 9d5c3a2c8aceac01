"""The sampling fraction whose error and empirical privacy loss are nearest to those of a release.

Petti & Flaxman compare TopDown with simple random sampling without replacement, with counts scaled up (their Figure 2
and Table 1): a budget of 1 is like a sample of 50% for stratified county counts. The answer depends on level and query
(the authors' figures for districts give 35%), so it is always reported with both, and with an interval: it varies with
the units that were compared and with the samples that were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from tallyveil.errors import InputError
from tallyveil.evaluate.epl.loss import epl
from tallyveil.evaluate.error import statistics
from tallyveil.evaluate.likeness_interval import CONFIDENCE, FEWEST, Profile, distance, nearest_interval
from tallyveil.evaluate.residuals import Residuals, residuals
from tallyveil.evaluate.sources import Source, people_of
from tallyveil.mechanisms.sampling import as_share, sample
from tallyveil.nouns.estimates import Sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population

FRACTIONS = tuple(Fraction(step, 20) for step in range(1, 20))  # 5%, 10%, ..., 95%
SAMPLES = 4  # of each fraction: a single one may by chance be far from what samples are like
WIDE = 0.4  # an interval this wide says that the comparison cannot tell
FAR = math.log(1.5)  # distance beyond which the nearest sample is not like the release: together, a factor of 1.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Likeness:
    """The sample that a release is most like.

    Attributes
    ----------
    level, query
        The counts that were compared.
    table
        ``method``, ``fraction``, ``median_abs``, ``epl``, ``distance`` from the release (missing for the release
        itself, and where a loss is undefined). The figures of samples are means over several of them.
    fraction
        The nearest sampling fraction; None where the loss of the release is undefined.
    low, high
        A 90% interval for it, over units and samples; None where there are too few units to tell.
    undefined
        The reason why there is no fraction.
    """

    level: str
    query: str
    table: pd.DataFrame
    fraction: float | None
    low: float | None = None
    high: float | None = None
    undefined: str | None = None

    @property
    def tells(self) -> bool:
        """Whether the comparison determines the sample: there is an interval, and it is not too wide."""
        return self.low is not None and self.high is not None and self.high - self.low < WIDE

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
        if self.low is None or self.high is None:
            why = f"fewer than {FEWEST} units are too few to tell"
            return f"{of}: the nearest is a sample of {100 * self.fraction:g}% ({figures}), but {why}"
        between = f"{100 * self.low:g}% to {100 * self.high:g}%"
        if not self.tells:
            return f"{of}: too few units to tell which sample it is like, anything from {between} ({figures})"
        interval = f"{CONFIDENCE:.0%} interval {between}"
        if near.distance > FAR and not self._beyond():
            return f"{of}: no sample is like it; the nearest is one of {100 * self.fraction:g}%, {interval} ({figures})"
        return f"{of}: like a sample of {100 * self.fraction:g}%{self._beyond()}, {interval} ({figures})"

    def _beyond(self) -> str:
        """What to add to the nearest fraction where it is the end of those that were tried."""
        tried = self.table[self.table.method == "sample"].fraction
        return " or less" if self.fraction == tried.min() else " or more" if self.fraction == tried.max() else ""

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        rows = self.table.astype(object).where(self.table.notna(), None).to_dict(orient="records")
        answer = {"level": self.level, "query": self.query, "fraction": self.fraction, "low": self.low}
        return {**answer, "high": self.high, "tells": self.tells, "undefined": self.undefined, "table": rows}


def like_a_sample(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    level: str,
    query: str = "detailed",
    fractions: Sequence[Fraction | float] = FRACTIONS,
    seed: int = 0,
) -> Likeness:
    """The sampling fraction nearest to a release in log median absolute error and log loss (petti2020, Table 1).

    Parameters
    ----------
    truth, released, level, query
        As for :func:`~tallyveil.evaluate.residuals`.
    fractions
        Sampling fractions. Four sets of samples are drawn of each, and a set has as many samples as there are releases,
        because the loss estimated from fewer residuals is larger.
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
    samples: dict[float, list[Residuals]] = {}
    for fraction in shares:
        samples[float(fraction)] = [
            residuals(people, drawn, level=level, query=query)
            for drawn in _sets_of_samples(people, fraction, size=mine.replicates, seed=seed)
        ]
        figures = _mean_profile([profile(drawn) for drawn in samples[float(fraction)]])
        rows.append({"method": "sample", "fraction": float(fraction), **figures, "distance": distance(own, figures)})
    table = pd.DataFrame(rows).astype({"fraction": float, "median_abs": float, "epl": float, "distance": float})
    known = table[(table.method == "sample") & table.distance.notna()]
    nearest = None if known.empty else float(known.loc[known.distance.idxmin(), "fraction"])
    reason = None if nearest is not None else "the loss is undefined: " + (own["undefined"] or "of every sample")
    low, high = (None, None) if nearest is None else nearest_interval(mine, samples, seed=seed)
    return Likeness(
        level=level,
        query=people.schema.query(query).name,
        table=table.drop(columns="undefined"),
        fraction=nearest,
        low=low,
        high=high,
        undefined=reason,
    )


def profile(compared: Residuals) -> Profile:
    """The two figures that are compared: median absolute error and the authors' loss."""
    loss = epl(compared, with_band=False)
    return {
        "median_abs": statistics(compared.value, zeros=compared.zeros)["median_abs"],
        "epl": loss.epl,
        "undefined": loss.undefined,
    }


def _sets_of_samples(people: Histogram, fraction: Fraction, *, size: int, seed: int) -> Iterator[list[Sample]]:
    """Several independent sets of samples, each as large as the set of releases."""
    for first in range(0, SAMPLES * size, size):
        yield [sample(people, fraction, seed=seed, replicate=first + k) for k in range(size)]


def _mean_profile(profiles: Sequence[Profile]) -> Profile:
    """The means of several profiles; the loss is undefined where it is undefined for one of them."""
    undefined = next((each["undefined"] for each in profiles if each["undefined"]), None)
    loss = None if undefined else float(np.mean([each["epl"] for each in profiles]))
    error = float(np.mean([each["median_abs"] for each in profiles]))
    return {"median_abs": error, "epl": loss, "undefined": undefined}
