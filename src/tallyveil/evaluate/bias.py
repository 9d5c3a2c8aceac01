"""Bias: the mean of released minus true, for units or cells of a kind (petti2020, Figure 3).

TopDown's counts cannot be negative, so empty cells are pushed up, and because sums are kept, full ones down. Units with
many empty cells (homogeneous ones) therefore gain people, and mixed ones lose them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.error import size_classes
from tallyveil.evaluate.residuals import Over, Residuals, residuals
from tallyveil.evaluate.sources import Source, people_of
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population

Definition = Literal["cells", "product"]
HOMOGENEITY, SIZE = "homogeneity", "size"
FEWEST_CLUSTERS = 10  # with fewer parents than that, units stand for themselves


def bias(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    level: str | None = None,
    query: str = "total",
    by: str = HOMOGENEITY,
    of: str = "detailed",
    definition: Definition = "cells",
    areas: Areas | None = None,
    over: Over = "nonempty",
    confidence: float = 0.95,
) -> pd.DataFrame:
    """The mean of released minus true, for units or cells of a kind.

    Parameters
    ----------
    truth, released, level, query, areas, over
        As for :func:`~tallyveil.evaluate.residuals`.
    by
        ``"homogeneity"`` (how many of a unit's cells are empty), ``"size"`` (class of the true count), or an attribute
        of the query (each of its labels).
    of
        The query whose empty cells homogeneity counts.
    definition
        ``"cells"``: the number of empty cells, as petti2020 says; ``"product"``: all cells less the product of the
        numbers of labels that occur, which is what its authors computed.
    confidence
        Of the intervals.

    Returns
    -------
    DataFrame
        ``level``, ``query``, ``by``, ``group``, ``n``, ``bias``, ``standard_error``, ``low``, ``high``. Siblings share
        an error, so the standard error takes parents (and replicates) as independent, not units; where there are fewer
        than ten, units.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1, 2], cell=[0, 1, 1, 0], count=[10, 40, 7, 5])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 0, 1, 2], cell=[0, 1, 1, 0], count=[8, 38, 8, 8])
    >>> bias(truth, released, level="block")[["group", "n", "bias"]]
       group  n  bias
    0      0  1  -4.0
    1      1  2   2.0
    """
    people = people_of(truth)
    _refuse_unknown(definition)
    found = residuals(people, released, level=level, query=query, areas=areas, over=over).filled()
    if by == HOMOGENEITY:
        index = homogeneity(people, level=level, areas=areas, query=of, definition=definition)
        group, names = index[found.unit].astype(np.int64), None
    elif by == SIZE:
        group, names = size_classes(found.true)
    else:
        group, names = _labels(people, found, by)
    return mean_by(found, group, names, by=by, confidence=confidence)


def homogeneity(
    truth: Histogram | Population,
    *,
    level: str | None = None,
    query: str = "detailed",
    definition: Definition = "cells",
    areas: Areas | None = None,
) -> Integers:
    """The homogeneity index of each unit: how many of a query's cells are empty.

    With ``definition="product"``: all cells less ages x ethnicities x ... that occur in the unit. The published table
    of petti2020 is consistent with this one: only values that it can take occur there.
    """
    people = people_of(truth)
    _refuse_unknown(definition)
    found = residuals(people, people, level=level, query=query, areas=areas)
    if definition == "cells":
        return found.rows - np.bincount(found.unit, minlength=found.units)
    present = np.ones(found.units, dtype=np.int64)
    shape = [len(labels) for labels in people.schema.query(query).row_labels]
    for label, labels in zip(np.unravel_index(found.row, shape) if shape else (), shape, strict=True):
        seen = np.unique(found.unit * np.int64(labels) + label) // labels
        present *= np.bincount(seen, minlength=found.units)
    return found.rows - present


def mean_by(
    found: Residuals, group: Integers, names: list[str] | None, *, by: str, confidence: float = 0.95
) -> pd.DataFrame:
    """Mean residual of each group with its interval; groups without residuals are left out."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1. Got {confidence!r} instead.")
    groups = int(group.max(initial=-1)) + 1
    n = np.bincount(group, minlength=groups)
    mean = np.bincount(group, weights=found.value, minlength=groups) / np.maximum(n, 1)
    spread, clusters = _standard_errors(found, group, mean, n)
    reach = stats.t.ppf((1 + confidence) / 2, np.maximum(clusters - 1, 1)) * spread
    kept = np.flatnonzero(n)
    return pd.DataFrame(
        {
            "level": found.level,
            "query": found.query,
            "by": by,
            "group": kept if names is None else [names[i] for i in kept],
            "n": n[kept],
            "bias": mean[kept],
            "standard_error": spread[kept],
            "low": (mean - reach)[kept],
            "high": (mean + reach)[kept],
        }
    )


def _standard_errors(found: Residuals, group: Integers, mean: Floats, n: Integers) -> tuple[Floats, Integers]:
    """The standard error of each group's mean, and how many independent clusters it rests on (one: unknown).

    By the jackknife: clusters are left out one by one. Unlike sums of squares by cluster it holds, nearly, where one
    cluster has most of a group.
    """
    _, cluster = np.unique(found.cluster, return_inverse=True)
    if cluster.max(initial=0) + 1 < FEWEST_CLUSTERS:
        _, cluster = np.unique(found.replicate.astype(np.int64) * found.units + found.unit, return_inverse=True)
    key, place = np.unique(group * (cluster.max(initial=0) + 1) + cluster, return_inverse=True)
    apart, size = np.bincount(place, weights=found.value - mean[group]), np.bincount(place)
    of_group = key // (cluster.max(initial=0) + 1)
    clusters = np.bincount(of_group, minlength=len(n))
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = apart / (n[of_group] - size)  # how the mean moves when a cluster is left out
        variance = np.bincount(of_group, weights=moves**2, minlength=len(n)) * (clusters - 1) / clusters
    return np.sqrt(np.where(clusters > 1, variance, np.nan)), clusters


def _refuse_unknown(definition: str) -> None:
    if definition not in ("cells", "product"):
        raise InputError(f'definition must be "cells" or "product". Got {definition!r} instead.')


def _labels(people: Histogram, found: Residuals, attribute: str) -> tuple[Integers, list[str]]:
    query = people.schema.query(found.query)
    if attribute not in query.factors:
        known = ", ".join((HOMOGENEITY, SIZE, *query.factors))
        raise InputError(f"by must be one of {known} for the query {query.name!r}. Got {attribute!r} instead.")
    axis = query.factors.index(attribute)
    shape = [len(labels) for labels in query.row_labels]
    return np.unravel_index(found.row, shape)[axis].astype(np.int64), list(query.row_labels[axis])
