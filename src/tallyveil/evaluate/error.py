"""Error: how far released counts are from the true ones, by level and query (petti2020, "Our evaluation approach").

Statistics pool all replicates, as the authors pooled four runs. Their sampling error is estimated from the differences
between replicates. What the papers call MAE is the median absolute error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.counted import can_be_counted, counted_residuals
from tallyveil.evaluate.residuals import Over, Residuals, residuals
from tallyveil.evaluate.sources import Source, people_of, sources_of
from tallyveil.evaluate.value_counts import ValueCounts, merged_counts, value_counts
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.schema import DETAILED, TOTAL, Schema

STATISTICS = ("median_abs", "mean_abs", "p95_abs", "max_abs", "rmse", "bias", "share_exact")
ENOUGH_FOR_TAIL = 20  # counts: of fewer, none is one in twenty


def error(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    levels: Iterable[str] | None = None,
    queries: Iterable[str] | None = None,
    areas: Areas | None = None,
    over: Over = "nonempty",
    quantiles: Sequence[float] = (),
) -> pd.DataFrame:
    """How far released counts are from the true ones.

    Parameters
    ----------
    truth, released, over
        As for :func:`~tallyveil.evaluate.residuals`.
    levels, queries
        Counts to evaluate; by default all levels, and the total, each attribute and all cells.
    areas
        Areas off the spine to evaluate after the levels (``levels=[]`` for the areas alone).
    quantiles
        Further quantiles of the absolute error: 0.99 gives the statistic ``p99_abs``.

    Returns
    -------
    DataFrame
        ``level``, ``query``, ``statistic``, ``value``, ``sampling_error`` (the standard error of the value, from
        replicates; missing if there is only one), ``n`` (residuals), ``replicates``.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 1, 1], cell=[1, 0, 1], count=[48, 2, 7])
    >>> table = error(truth, released, levels=["block"], queries=["age"])
    >>> dict(zip(table.statistic, table.value.round(2)))  # doctest: +NORMALIZE_WHITESPACE
    {'median_abs': 5.0, 'mean_abs': 5.0, 'p95_abs': 9.7, 'max_abs': 10.0, 'rmse': 6.48, 'bias': 0.0,
     'share_exact': 0.25}
    """
    people, sources = people_of(truth), sources_of(released)
    asked = [
        (level, area, people.schema.query(query).name)
        for level, area, query in asked_of(people, levels, queries, areas)
    ]
    pairs = {(level, query) for level, area, query in asked if level is not None}
    counted = counted_residuals(people, sources, pairs, over=over) if can_be_counted(sources, over) else {}
    frames = []
    for level, area, query in asked:
        if level is not None and (level, query) in counted:
            frames.append(_error_frame(level, query, counted[level, query], quantiles))
        else:
            compared = residuals(people, sources, level=level, areas=area, query=query, over=over)
            frames.append(error_of(compared, quantiles=quantiles))
    return pd.concat(frames, ignore_index=True)


def error_of(compared: Residuals, *, quantiles: Sequence[float] = ()) -> pd.DataFrame:
    """The statistics of residuals, in the form that :func:`error` returns."""
    each = [
        value_counts(compared.value[compared.replicate == number], zeros=int(zeros))
        for number, zeros in enumerate(compared.zeros_by_replicate)
    ]
    return _error_frame(compared.level, compared.query, each, quantiles)


def _error_frame(level: str, query: str, replicates: list[ValueCounts], quantiles: Sequence[float]) -> pd.DataFrame:
    counted = merged_counts(replicates)
    pooled = statistics_of(counted, quantiles=quantiles)
    spread = dict.fromkeys(pooled, np.nan)
    if len(replicates) > 1:
        each = [statistics_of(replicate, quantiles=quantiles) for replicate in replicates]
        spread = {name: _standard_error([figures[name] for figures in each]) for name in pooled}
    return pd.DataFrame(
        {
            "level": level,
            "query": query,
            "statistic": list(pooled),
            "value": list(pooled.values()),
            "sampling_error": list(spread.values()),
            "n": counted.n,
            "replicates": len(replicates),
        }
    )


def statistics(value: NDArray[Any], *, zeros: int = 0, quantiles: Sequence[float] = ()) -> dict[str, float]:
    """The statistics of residuals by name; without residuals, errors are 0 and all counts are exact."""
    return statistics_of(value_counts(value, zeros=zeros), quantiles=quantiles)


def statistics_of(signed: ValueCounts, *, quantiles: Sequence[float] = ()) -> dict[str, float]:
    """The statistics of residuals that are counted by value."""
    further = {f"p{100 * share:g}_abs": share for share in quantiles}
    wrong = [share for share in further.values() if not 0 <= share <= 1]
    if wrong:
        raise InputError(f"quantiles are shares from 0 to 1, such as 0.99. Got {wrong[0]} instead.")
    if signed.n == 0:
        return dict.fromkeys([*STATISTICS, *further], 0.0) | {"share_exact": 1.0}
    size = signed.absolute()
    return {
        "median_abs": size.percentile(50),
        "mean_abs": size.mean(),
        "p95_abs": size.percentile(95),
        "max_abs": float(size.value[-1]),
        "rmse": float(np.sqrt(size.mean(2))),
        "bias": signed.mean(),
        "share_exact": float(signed.count[signed.value == 0].sum() / signed.n),
        **{name: size.percentile(100 * share) for name, share in further.items()},
    }


def sizes(
    truth: Histogram | Population,
    *,
    levels: Iterable[str] | None = None,
    queries: Iterable[str] | None = None,
    areas: Areas | None = None,
) -> pd.DataFrame:
    """The sizes of the true counts that are not 0: ``level``, ``query``, ``statistic``, ``value``, ``n``.

    Statistics are ``median``, ``mean``, ``sd`` and ``p95``.
    """
    people = people_of(truth)
    frames = []
    for level, area, query in asked_of(people, levels, queries, areas):
        compared = residuals(people, people, level=level, areas=area, query=query)
        counted = value_counts(compared.true)
        figures = dict.fromkeys(("median", "mean", "sd", "p95"), 0.0)
        if counted.n:
            spread = counted.deviation() if counted.n > 1 else 0.0
            figures = {"median": counted.percentile(50), "mean": counted.mean(), "sd": spread}
            figures["p95"] = counted.percentile(95)
        frames.append(_frame(compared, figures, n=counted.n))
    return pd.concat(frames, ignore_index=True)


def error_by_size(compared: Residuals) -> pd.DataFrame:
    """Error by class of true size: ``size``, ``n``, ``mean_true``, and the statistics of each class.

    ``relative`` is the mean absolute error divided by the mean true count; it is missing for the class of empty cells.

    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 1, 1], cell=[1, 0, 1], count=[48, 2, 7])
    >>> table = error_by_size(residuals(truth, released, level="block", query="age"))
    >>> table[["size", "n", "mean_abs", "relative"]]
          size  n  mean_abs  relative
    0        0  1       2.0       NaN
    1    1 - 9  1       0.0      0.00
    2  10 - 99  2       9.0      0.36
    """
    number, names = size_classes(compared.true)
    rows = []
    for which, name in enumerate(names):
        inside = number == which
        zeros = compared.zeros if name == "0" else 0
        if not inside.any() and not zeros:
            continue
        figures = statistics(compared.value[inside], zeros=zeros)
        mean = float(compared.true[inside].sum()) / (int(inside.sum()) + zeros)
        relative = figures["mean_abs"] / mean if mean else np.nan
        place = {"level": compared.level, "query": compared.query, "size": name, "n": int(inside.sum()) + zeros}
        rows.append(place | {"mean_true": mean, "relative": relative} | figures)
    return pd.DataFrame(rows)


def size_classes(count: NDArray[Any]) -> tuple[Integers, list[str]]:
    """The class of each count (0, 1 - 9, 10 - 99, ...), and the names of the classes."""
    top = int(count.max(initial=0))
    edges = [10**power for power in range(len(str(top)))]
    names = ["0", *(f"{edge:,} - {10 * edge - 1:,}" for edge in edges)]
    return np.searchsorted(np.array(edges), count, side="right").astype(np.int64), names


def asked_of(
    people: Histogram, levels: Iterable[str] | None, queries: Iterable[str] | None, areas: Areas | None
) -> Iterator[tuple[str | None, Areas | None, str]]:
    """Every (level, areas, query) to evaluate; either the level or the areas are None."""
    if isinstance(levels, str) or isinstance(queries, str):
        raise InputError(f"levels and queries are lists. Write [{(levels if isinstance(levels, str) else queries)!r}].")
    wanted = default_queries(people.schema) if queries is None else list(queries)
    places = levels_and_areas(people, levels, areas)
    if not wanted or not places:
        raise InputError("nothing to evaluate. Name at least one level (or areas) and one query, or leave them out.")
    for level, area in places:
        for query in wanted:
            yield level, area, query


def levels_and_areas(
    people: Histogram, levels: Iterable[str] | None, areas: Areas | None
) -> list[tuple[str | None, Areas | None]]:
    """Every level as (level, None), all by default, and the areas, if given, as (None, areas)."""
    places: list[tuple[str | None, Areas | None]] = [
        (level, None) for level in (people.spine.levels if levels is None else levels)
    ]
    return places if areas is None else [*places, (None, areas)]


def default_queries(schema: Schema) -> list[str]:
    """The total, each attribute, and all cells; each once."""
    return list(dict.fromkeys(schema.query(text).name for text in (TOTAL, *schema.attributes, DETAILED)))


def _frame(compared: Residuals, figures: dict[str, float], *, n: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "level": compared.level,
            "query": compared.query,
            "statistic": list(figures),
            "value": list(figures.values()),
            "n": n,
        }
    )


def _standard_error(figures: Sequence[float]) -> float:
    return float(np.std(figures, ddof=1) / np.sqrt(len(figures)))


def shown_tail(table: pd.DataFrame) -> pd.Series[float]:
    """The column ``p95_abs`` of a table with ``n``, missing where too few counts have one; 0 where all are exact.

    >>> shown_tail(pd.DataFrame({"n": [1, 19, 20], "p95_abs": [0.0, 7.5, 7.5]})).tolist()
    [0.0, nan, 7.5]
    """
    return table.p95_abs.mask((table.n < ENOUGH_FOR_TAIL) & (table.p95_abs > 0))
