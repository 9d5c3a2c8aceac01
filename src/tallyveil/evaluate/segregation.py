"""Segregation indices of true and released counts: dissimilarity, isolation, exposure and entropy.

The formulas are those of Massey & Denton, The Dimensions of Residential Segregation, Social Forces 67 (1988), 281-315.
An index is not linear in the counts, so that of released counts has a bias even where every count is unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.derived import derived, dissimilarity, grouped, isolation, share
from tallyveil.evaluate.error import statistics
from tallyveil.evaluate.sources import Source, people_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.schema import Query

INDICES = ("dissimilarity", "isolation", "exposure", "entropy")
Z90 = 1.645  # a 90% margin of error is so many standard errors, as the Census Bureau computes it


def exposure(one: ArrayLike, other: ArrayLike, everybody: ArrayLike, groups: ArrayLike | None = None) -> Floats:
    r"""Exposure (interaction) index: the share of the other group in the unit of an average member of the first.

    .. math:: {}_xP^*_y = \sum_i \frac{x_i}{X} \frac{y_i}{t_i}

    over the units ``i`` of each unit above (Massey & Denton 1988). With the isolation index it sums to 1 if the
    two groups are everybody.

    >>> exposure([10, 0], [0, 10], [10, 10]).tolist(), exposure([5, 5], [5, 15], [10, 20]).tolist()
    ([0.0], [0.625])
    """
    x, y, above = grouped(one, other, groups)
    everyone, _, _ = grouped(everybody, other, groups)
    size = int(above.max(initial=-1)) + 1
    total = np.bincount(above, weights=x, minlength=size)
    met = np.where(x > 0, share(x, total[above]) * share(y, everyone), 0.0)
    return np.where(total > 0, np.bincount(above, weights=met, minlength=size), np.nan)


def entropy(one: ArrayLike, other: ArrayLike, groups: ArrayLike | None = None) -> Floats:
    r"""Entropy (information theory) index of two groups: how much less mixed the units are than the unit above.

    .. math:: H = \sum_i \frac{t_i (E - E_i)}{E \, T}, \quad
              E = P \ln \frac1P + (1 - P) \ln \frac1{1 - P}

    where ``P`` is the share of the first group among both in the unit above, and ``E_i`` is the same for unit ``i``
    (Theil 1972; Massey & Denton 1988). Missing where only one group lives in the unit above.

    >>> entropy([10, 0], [0, 10]).tolist(), entropy([5, 5], [5, 5]).tolist()
    ([1.0], [0.0])
    """
    x, y, above = grouped(one, other, groups)
    size = int(above.max(initial=-1)) + 1
    both = x + y
    total_x, total = (np.bincount(above, weights=count, minlength=size) for count in (x, both))
    whole, parts = _entropy(share(total_x, total)), _entropy(share(x, both))
    lost = np.bincount(above, weights=np.where(both > 0, both * (whole[above] - parts), 0.0), minlength=size)
    return share(lost, np.where(np.isnan(whole), 0.0, whole) * total)


def _entropy(part: Floats) -> Floats:
    """Entropy of a share and its complement, in natural logarithms; 0 at 0 and 1, and missing where the share is."""
    inside = (part > 0) & (part < 1)
    p = np.where(inside, part, 0.5)
    return np.where(inside, -p * np.log(p) - (1 - p) * np.log1p(-p), np.where(np.isnan(part), np.nan, 0.0))


def segregation(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    query: str,
    group: str,
    other: str | None = None,
    within: str,
    level: str | None = None,
) -> pd.DataFrame:
    """Segregation indices of each unit of a level, computed from true and from released counts of the units below.

    Parameters
    ----------
    truth, released
        As for :func:`~tallyveil.evaluate.residuals`.
    query, group, other
        The groups: labels of a query such as ``"race"``. Without ``other``, everybody else.
    within, level
        An index describes each unit of ``within``, over its units of ``level`` (the leaves by default).

    Returns
    -------
    DataFrame
        A row for each index, unit and replicate: ``index``, ``query``, ``group``, ``other``, ``level``, ``unit``,
        ``replicate``, ``true``, ``released``, ``error``, and ``moe90``: 1.645 times the root mean squared error of the
        unit over replicates, missing if there is one.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 50])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 0, 1, 1], cell=[0, 1, 0, 1], count=[8, 42, 2, 48])
    >>> table = segregation(truth, released, query="age", group="child", within="town")
    >>> table[["index", "true", "released"]].round(3)
               index   true  released
    0  dissimilarity  0.556     0.333
    1      isolation  0.200     0.136
    2       exposure  0.800     0.864
    3        entropy  0.230     0.065
    """
    people = people_of(truth)
    below = level or people.spine.leaf
    asked = people.schema.query(query)
    mine, theirs = row_of(asked, group), None if other is None else row_of(asked, other)
    if mine == theirs:
        raise InputError(f"the groups are the same, {group!r}. Name two groups of {asked.name!r}.")
    above = _units_above(people, below, within)

    def groups_of(counts: Floats) -> tuple[Floats, Floats, Floats]:
        everybody = counts.sum(axis=1)
        one = counts[:, mine]
        return one, everybody - one if theirs is None else counts[:, theirs], everybody

    def table_of(counts: Floats) -> Floats:
        one, rest, everybody = groups_of(counts)
        figures = (
            dissimilarity(one, rest, above),
            isolation(one, everybody, above),
            exposure(one, rest, everybody, above),
            entropy(one, rest, above),
        )
        return np.concatenate(figures)

    table = derived(people, released, {"index": table_of}, level=below, query=query)
    replicates, units = int(table.replicate.max()) + 1, people.spine.labels(within)
    errors = table.error.to_numpy().reshape(replicates, -1)
    spread = np.sqrt(np.mean(errors**2, axis=0)) if replicates > 1 else np.full(errors.shape[1], np.nan)
    return pd.DataFrame(
        {
            "index": np.tile(np.repeat(INDICES, len(units)), replicates),
            "query": asked.name,
            "group": group,
            "other": "everybody else" if other is None else other,
            "level": within,
            "unit": np.tile(units, replicates * len(INDICES)),
            "replicate": table.replicate,
            "true": table.true,
            "released": table.released,
            "error": table.error,
            "moe90": np.tile(Z90 * spread, replicates),
        }
    )


def segregation_error(table: pd.DataFrame) -> pd.DataFrame:
    """The error of each index over the units of a level and replicates: the statistics of ``error``.

    ``undefined`` counts the units where the index is missing in the truth or in a release, because a group is empty.
    ``n`` counts the others; ``mean_true`` is the mean of their true index, and ``moe90`` the root mean square of their
    margins.
    """
    rows = []
    for keys, part in table.groupby(["level", "query", "group", "other", "index"], sort=False):
        missing, replicates = set(part.unit[part.error.isna()]), part.replicate.nunique()
        known = part[~part.unit.isin(missing)]
        figures = statistics(known.error.to_numpy())
        del figures["share_exact"]
        rows.append(
            dict(zip(("level", "query", "group", "other", "index"), keys, strict=True))
            | {"n": len(known) // replicates, "undefined": len(missing), "mean_true": known.true.mean()}
            | (figures if len(known) else dict.fromkeys(figures, np.nan))
            | {"moe90": float(np.sqrt(np.mean(known.moe90**2)))}
        )
    return pd.DataFrame(rows)


def row_of(query: Query, label: str) -> int:
    """The position of a group among the rows of a query; an unknown one is refused."""
    labels = query.labels()
    if label not in labels:
        raise InputError(f"{label!r} is not a group of {query.name!r}. Its groups are {', '.join(labels)}.")
    return labels.index(label)


def _units_above(people: Histogram, level: str, within: str) -> Integers:
    """For each unit of a level, the position of the unit of a coarser level that contains it."""
    spine = people.spine
    if spine.depth(within) >= spine.depth(level):
        raise InputError(
            f"level {within!r} is not above {level!r}. An index needs units below those that it describes."
        )
    above = spine.parents(level)
    for depth in range(spine.depth(level) - 1, spine.depth(within), -1):
        above = spine.parents(spine.levels[depth])[above]
    return above
