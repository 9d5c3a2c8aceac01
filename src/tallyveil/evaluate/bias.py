"""Bias: the mean of released minus true counts, for groups of units or cells (petti2020, Figure 3).

TopDown's counts cannot be negative, so noise raises empty cells and, because sums are kept, lowers full ones. Units
with many empty cells (homogeneous units) therefore gain people, and mixed units lose them.
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
FEWEST_CLUSTERS = 10  # with fewer parents, units are treated as independent
ENOUGH_FOR_INTERVAL = 10  # counts: a mean of fewer gets no interval, because their spread is mostly chance


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
    """The mean of released minus true counts, for groups of units or cells.

    Parameters
    ----------
    truth, released, level, query, areas, over
        As for :func:`~tallyveil.evaluate.residuals`.
    by
        ``"homogeneity"`` (the number of empty cells of a unit), ``"size"`` (the class of the true count), or an
        attribute of the query (each of its labels).
    of
        The query whose empty cells homogeneity counts.
    definition
        ``"cells"``: the number of empty cells, as defined in petti2020. ``"product"``: the number of cells minus the
        product of the numbers of labels that occur, which is what its authors computed.
    confidence
        Confidence level of the intervals.

    Returns
    -------
    DataFrame
        ``level``, ``query``, ``by``, ``group``, ``n``, ``bias``, ``standard_error``, ``low``, ``high``. Siblings share
        an error, so standard errors treat parents (and replicates), not units, as independent; with fewer than ten
        parents, units. ``low`` and ``high`` are missing for a mean of fewer than ten counts.

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
    compared = residuals(people, released, level=level, query=query, areas=areas, over=over).filled()
    if by == HOMOGENEITY:
        index = homogeneity(people, level=level, areas=areas, query=of, definition=definition)
        group, names = index[compared.unit].astype(np.int64), None
    elif by == SIZE:
        group, names = size_classes(compared.true)
    else:
        group, names = _labels(people, compared, by)
    return mean_by(compared, group, names, by=by, confidence=confidence)


def homogeneity(
    truth: Histogram | Population,
    *,
    level: str | None = None,
    query: str = "detailed",
    definition: Definition = "cells",
    areas: Areas | None = None,
) -> Integers:
    """The homogeneity index of each unit: the number of empty cells of a query.

    With ``definition="product"``, it is the number of cells minus the product of the numbers of labels that occur in
    the unit. The published table of petti2020 contains only values that this index can take.
    """
    people = people_of(truth)
    _refuse_unknown(definition)
    compared = residuals(people, people, level=level, query=query, areas=areas)
    if definition == "cells":
        return compared.rows - np.bincount(compared.unit, minlength=compared.units)
    present = np.ones(compared.units, dtype=np.int64)
    shape = [len(labels) for labels in people.schema.query(query).row_labels]
    for label, labels in zip(np.unravel_index(compared.row, shape) if shape else (), shape, strict=True):
        seen = np.unique(compared.unit * np.int64(labels) + label) // labels
        present *= np.bincount(seen, minlength=compared.units)
    return compared.rows - present


def mean_by(
    compared: Residuals, group: Integers, names: list[str] | None, *, by: str, confidence: float = 0.95
) -> pd.DataFrame:
    """The mean residual of each group, with its interval if it has enough counts; empty groups are left out."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1. Got {confidence!r} instead.")
    groups = int(group.max(initial=-1)) + 1
    n = np.bincount(group, minlength=groups)
    mean = np.bincount(group, weights=compared.value, minlength=groups) / np.maximum(n, 1)
    spread, clusters = _standard_errors(compared, group, mean, n)
    reach = stats.t.ppf((1 + confidence) / 2, np.maximum(clusters - 1, 1)) * spread
    reach[n < ENOUGH_FOR_INTERVAL] = np.nan
    kept = np.flatnonzero(n)
    return pd.DataFrame(
        {
            "level": compared.level,
            "query": compared.query,
            "by": by,
            "group": kept if names is None else [names[i] for i in kept],
            "n": n[kept],
            "bias": mean[kept],
            "standard_error": spread[kept],
            "low": (mean - reach)[kept],
            "high": (mean + reach)[kept],
        }
    )


def _standard_errors(compared: Residuals, group: Integers, mean: Floats, n: Integers) -> tuple[Floats, Integers]:
    """The standard error of the mean of each group (missing if it has one cluster), and the number of its clusters.

    The jackknife leaves out one cluster at a time. Unlike sums of squares by cluster, it remains nearly valid where one
    cluster contains most of a group.
    """
    _, cluster = np.unique(compared.cluster, return_inverse=True)
    if cluster.max(initial=0) + 1 < FEWEST_CLUSTERS:
        _, cluster = np.unique(
            compared.replicate.astype(np.int64) * compared.units + compared.unit, return_inverse=True
        )
    key, place = np.unique(group * (cluster.max(initial=0) + 1) + cluster, return_inverse=True)
    apart, size = np.bincount(place, weights=compared.value - mean[group]), np.bincount(place)
    of_group = key // (cluster.max(initial=0) + 1)
    clusters = np.bincount(of_group, minlength=len(n))
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = apart / (n[of_group] - size)  # change of the mean when a cluster is left out
        variance = np.bincount(of_group, weights=moves**2, minlength=len(n)) * (clusters - 1) / clusters
    return np.sqrt(np.where(clusters > 1, variance, np.nan)), clusters


def _refuse_unknown(definition: str) -> None:
    if definition not in ("cells", "product"):
        raise InputError(f'definition must be "cells" or "product". Got {definition!r} instead.')


def _labels(people: Histogram, compared: Residuals, attribute: str) -> tuple[Integers, list[str]]:
    query = people.schema.query(compared.query)
    if attribute not in query.factors:
        known = ", ".join((HOMOGENEITY, SIZE, *query.factors))
        raise InputError(f"by must be one of {known} for the query {query.name!r}. Got {attribute!r} instead.")
    axis = query.factors.index(attribute)
    shape = [len(labels) for labels in query.row_labels]
    return np.unravel_index(compared.row, shape)[axis].astype(np.int64), list(query.row_labels[axis])
