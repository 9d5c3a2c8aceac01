"""Statistics that demographers derive from counts: shares, ratios, segregation indices, ranks, or any function.

Each takes counts (units x rows of a query) and returns one number for each unit, or for each unit of a level above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.sources import Source, aligned, people_of, refuse_elsewhere, sources_of
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population

DerivedStatistic = Callable[[Floats], ArrayLike]


def share(part: ArrayLike, whole: ArrayLike) -> Floats:
    """A part as a share of a whole; missing where the whole is 0.

    >>> share([1, 0], [4, 0]).tolist()
    [0.25, nan]
    """
    top, bottom = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    result: Floats = np.full(np.broadcast(top, bottom).shape, np.nan)
    np.divide(top, bottom, out=result, where=bottom != 0)
    return result


def ratio(one: ArrayLike, other: ArrayLike, *, per: float = 100.0) -> Floats:
    """The number of one group per hundred of another, such as children per hundred adults.

    >>> ratio([30], [120]).tolist()
    [25.0]
    """
    return per * share(one, other)


def dissimilarity(one: ArrayLike, other: ArrayLike, groups: ArrayLike | None = None) -> Floats:
    r"""Index of dissimilarity: the share of a group that would have to move to be distributed like the other.

    .. math:: D = \tfrac12 \sum_i \left| \frac{a_i}{A} - \frac{b_i}{B} \right|

    over the units ``i`` of each unit above (Duncan & Duncan 1955). ``groups`` has the number of the unit above each;
    by default, all have the same one.

    >>> dissimilarity([10, 0], [0, 10]).tolist(), dissimilarity([5, 5], [1, 1]).tolist()
    ([1.0], [0.0])
    """
    a, b, above = grouped(one, other, groups)
    size = int(above.max(initial=-1)) + 1
    total_a, total_b = (np.bincount(above, weights=x, minlength=size) for x in (a, b))
    apart = np.abs(share(a, total_a[above]) - share(b, total_b[above]))
    half = np.bincount(above, weights=apart, minlength=size) / 2
    return np.where((total_a > 0) & (total_b > 0), half, np.nan)


def isolation(one: ArrayLike, everybody: ArrayLike, groups: ArrayLike | None = None) -> Floats:
    r"""Isolation index: the share of the same group in the unit of an average member.

    .. math:: P = \sum_i \frac{a_i}{A} \frac{a_i}{t_i}

    over the units ``i`` of each unit above (Bell 1954).

    >>> isolation([10, 0], [10, 10]).tolist(), isolation([5, 5], [10, 10]).tolist()
    ([1.0], [0.5])
    """
    a, everyone, above = grouped(one, everybody, groups)
    size = int(above.max(initial=-1)) + 1
    total = np.bincount(above, weights=a, minlength=size)
    met = np.where(a > 0, share(a, total[above]) * share(a, everyone), 0.0)
    summed = np.bincount(above, weights=met, minlength=size)
    return np.where(total > 0, summed, np.nan)


def ranks(values: ArrayLike) -> Floats:
    """The rank of each value; the largest has rank 1, and equal values share the mean of their ranks.

    >>> ranks([10, 30, 30]).tolist()
    [3.0, 1.5, 1.5]
    """
    return np.asarray(pd.Series(np.asarray(values, dtype=np.float64)).rank(ascending=False), dtype=np.float64)


def derived(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    statistics: Mapping[str, DerivedStatistic] | DerivedStatistic,
    *,
    level: str,
    query: str = "total",
) -> pd.DataFrame:
    """Statistics of the true counts, and the same statistics of the released counts.

    Parameters
    ----------
    truth, released, level, query
        As for :func:`~tallyveil.evaluate.residuals`.
    statistics
        Functions by name. Each maps an array (units x rows of the query) to numbers.

    Returns
    -------
    DataFrame
        ``statistic``, ``place`` (the unit's code if there is one number per unit, otherwise the position),
        ``replicate``, ``true``, ``released``, ``error``.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 1, 1], cell=[1, 0, 1], count=[48, 2, 7])
    >>> derived(truth, released, {"children": lambda c: share(c[:, 0], c.sum(axis=1))}, level="block", query="age")
      statistic place  replicate  true  released     error
    0  children     1          0   0.2  0.000000 -0.200000
    1  children     2          0   0.0  0.222222  0.222222
    """
    people = people_of(truth)
    functions = statistics if isinstance(statistics, Mapping) else {"statistic": statistics}
    if not functions:
        raise InputError("no statistic is given. Give at least one.")
    tables = [table for source in sources_of(released) for table in tables_at(source, people, level=level, query=query)]
    codes = people.spine.labels(level)
    precise = people.answer(query, level=level).dense().astype(np.float64)
    frames = []
    for name, function in functions.items():
        true = _figures(function, precise, name)
        place: Any = codes if len(true) == len(codes) else np.arange(len(true)).astype(str)
        for number, table in enumerate(tables):
            protected = _figures(function, table, name)
            if len(protected) != len(true):
                raise InputError(f"statistic {name!r} gave {len(true):,} numbers, then {len(protected):,}.")
            columns = {"statistic": name, "place": place, "replicate": number, "true": true, "released": protected}
            frames.append(pd.DataFrame(columns | {"error": protected - true}))
    return pd.concat(frames, ignore_index=True)


def tables_at(source: Source, truth: Histogram, *, level: str, query: str) -> list[Floats]:
    """The counts of each replicate of a source, units x rows, on the units of the truth."""
    if isinstance(source, Estimates):
        refuse_elsewhere(source, truth)
        return list(source.answer(query, level=level).astype(np.float64))
    people = aligned(people_of(source.people if isinstance(source, Sample) else source), truth)
    counts = people.answer(query, level=level).dense()
    return [(source.scaled(counts) if isinstance(source, Sample) else counts).astype(np.float64)]


def _figures(function: DerivedStatistic, table: Floats, name: str) -> Floats:
    figures = np.atleast_1d(np.asarray(function(table), dtype=np.float64))
    if figures.ndim != 1:
        raise InputError(f"statistic {name!r} gave an array of {figures.ndim} dimensions. Give one number per unit.")
    return figures


def grouped(one: ArrayLike, other: ArrayLike, groups: ArrayLike | None) -> tuple[Floats, Floats, Integers]:
    """Counts of two groups as arrays, with the number of the unit above each; wrong shapes are refused."""
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    above = np.zeros(len(a), dtype=np.int64) if groups is None else np.asarray(groups)
    if above.dtype.kind not in "iu" or (above < 0).any():
        raise InputError("groups must be numbers of the units above, 0 or more, such as spine.parents(level) returns.")
    if not len(a) == len(b) == len(above):
        raise InputError(f"{len(a):,}, {len(b):,} and {len(above):,} numbers: give one of each per unit.")
    return a, b, above.astype(np.int64)
