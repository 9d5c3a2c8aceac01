"""Paired differences: two releases of the same measurements have the same noise, so what differs is post-processing.

The error of one release is subtracted from that of the other, count by count, before anything is averaged. Noise that
both share cancels, so far smaller differences show than between independent releases. Standard errors come from a
jackknife over clusters: siblings share their parent's error, so parents (and pairs, if there are several) are left out
one at a time. With several pairs, the spread of the difference between pairs is given too; it also covers what is
shared by a whole release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.error import asked_of
from tallyveil.evaluate.residuals import Over, Residuals, residuals
from tallyveil.evaluate.sources import Source, people_of, sources_of
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.release.release import Release

FEWEST_CLUSTERS = 10  # with fewer parents, units are treated as independent
CONFIDENCE = 0.95


def paired(
    truth: Histogram | Population,
    first: Source | Sequence[Source],
    second: Source | Sequence[Source],
    *,
    levels: Iterable[str] | None = None,
    queries: Iterable[str] | None = None,
    areas: Areas | None = None,
    over: Over = "nonempty",
) -> pd.DataFrame:
    """How much larger the error of a second release is than that of a first one, made from the same measurements.

    Parameters
    ----------
    truth, levels, queries, areas
        As for :func:`~tallyveil.evaluate.error`.
    first, second
        Two releases of one measurement, or two lists in which releases at the same place are of one measurement.
    over
        ``"nonempty"``: cells that are non-empty in the truth or in either release; ``"all"``: every possible cell.

    Returns
    -------
    DataFrame
        ``level``, ``query``, ``statistic`` (``mean_abs`` or ``rmse``), ``first``, ``second``, ``difference`` (second
        minus first), ``standard_error``, ``low`` and ``high`` (a 95% interval), ``relative`` (the difference as a share
        of the first) and ``relative_error``, ``replicate_error`` (the standard error of the difference from its spread
        between pairs; missing for one pair), ``n`` (counts), ``clusters`` and ``pairs``. The interval uses the larger
        of the two standard errors.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> made = [Histogram.from_entries(spine, schema, unit=[0, 1, 2], cell=[0, 1, 1], count=count)
    ...         for count in ([10, 40, 7], [12, 39, 7], [11, 40, 7])]
    >>> table = paired(*made, levels=["block"], queries=["total"])
    >>> table[["statistic", "first", "second", "difference", "standard_error"]].round(2)
      statistic  first  second  difference  standard_error
    0  mean_abs   1.00    0.33       -0.67            0.33
    1      rmse   1.29    0.58       -0.71            0.11
    """
    people = people_of(truth)
    ones, others = sources_of(first), sources_of(second)
    check_pairs(ones, others)
    frames = []
    for level, area, query in asked_of(people, levels, queries, areas):
        both = [residuals(people, some, level=level, areas=area, query=query, over=over) for some in (ones, others)]
        frames.append(_differences(*both))
    return pd.concat(frames, ignore_index=True)


def check_pairs(first: Sequence[Source], second: Sequence[Source]) -> None:
    """Refuse lists of different lengths, and releases that are known to be of different measurements."""
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} and {len(second)} releases cannot be paired. Give as many second as first ones."
        )
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        mine, theirs = measurement_of(one), measurement_of(other)
        if mine is not None and theirs is not None and mine != theirs:
            raise InputError(
                f"pair {number + 1} is of two measurements ({mine[:8]}... and {theirs[:8]}...) whose noise differs. "
                f"Give releases that were made with the same key or seed and the same shares."
            )


def measurement_of(source: Source) -> str | None:
    """The identifier of the measurement that a release was made from, if it is known."""
    if not isinstance(source, Release) or source.certificate is None:
        return None
    return source.certificate.measurement


def paired_words(table: pd.DataFrame, first: str, second: str) -> str:
    """The conclusion in a sentence: where the mean absolute error is lower and higher, and where most."""
    rows = table[(table.statistic == "mean_abs") & table.low.notna()]
    better, worse = rows[rows.high < 0], rows[rows.low > 0]
    if rows.empty or (better.empty and worse.empty):
        return f"{second} against {first}, paired: no difference in mean absolute error is larger than chance."
    words = (
        f"{second} against {first}, paired: mean absolute error is lower in {len(better)} and higher in {len(worse)}"
    )
    words += f" of {len(rows)} levels and queries"
    for some, what, pick in ((better, "lowest", "idxmin"), (worse, "highest", "idxmax")):
        if not some.empty:
            most = some.loc[getattr(some.relative, pick)()]
            error = f"{100 * most.relative_error:.1g}"
            words += f"; {what} for {most['query']}@{most.level} ({100 * most.relative:+.1f}%, standard error {error})"
    return f"{words}."


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sums:
    """Sums over the counts of each cluster: absolute and squared errors of both releases, and how many counts."""

    absolute: tuple[Floats, Floats]
    squared: tuple[Floats, Floats]
    n: Floats
    pair: Integers

    def of_pairs(self, column: Floats) -> Floats:
        """The sums of each pair."""
        return np.bincount(self.pair, weights=column).astype(np.float64)

    def leaving_out(self, keep: Callable[[Floats], Floats]) -> dict[str, tuple[Floats, Floats]]:
        """Both statistics of both releases, from sums that ``keep`` forms of each column."""
        n = np.maximum(keep(self.n), 1.0)
        return {
            "mean_abs": (keep(self.absolute[0]) / n, keep(self.absolute[1]) / n),
            "rmse": (
                np.sqrt(np.maximum(keep(self.squared[0]), 0.0) / n),
                np.sqrt(np.maximum(keep(self.squared[1]), 0.0) / n),
            ),
        }


def _differences(first: Residuals, second: Residuals) -> pd.DataFrame:
    """The rows of one level and query."""
    sums = _sums(first, second)
    whole = sums.leaving_out(lambda column: np.atleast_1d(column.sum()))
    without = sums.leaving_out(lambda column: column.sum() - column)
    pairs = first.replicates
    each = sums.leaving_out(sums.of_pairs)
    clusters = len(sums.n)
    rows = []
    for name, (one, other) in whole.items():
        difference = float(other[0] - one[0])
        error = _jackknife(without[name][1] - without[name][0])
        spread = np.nan
        if pairs > 1:
            spread = float(np.std(each[name][1] - each[name][0], ddof=1) / np.sqrt(pairs))
        relative = relative_error = np.nan
        if one[0] > 0:
            relative = difference / float(one[0])
            with np.errstate(divide="ignore", invalid="ignore"):
                relative_error = _jackknife(without[name][1] / without[name][0] - 1)
        wide, freedom = (spread, pairs - 1) if spread > error else (error, max(clusters - 1, 1))
        reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * wide
        rows.append(
            {
                "level": first.level,
                "query": first.query,
                "statistic": name,
                "first": float(one[0]),
                "second": float(other[0]),
                "difference": difference,
                "standard_error": error,
                "low": difference - reach,
                "high": difference + reach,
                "relative": relative,
                "relative_error": relative_error,
                "replicate_error": spread,
                "n": int(sums.n.sum()),
                "clusters": clusters,
                "pairs": pairs,
            }
        )
    return pd.DataFrame(rows)


def _jackknife(left_out: Floats) -> float:
    """The standard error of a statistic from its values with one cluster left out at a time."""
    many = len(left_out)
    if many < 2 or not np.isfinite(left_out).all():
        return np.nan
    return float(np.sqrt((many - 1) / many * np.sum((left_out - left_out.mean()) ** 2)))


def _sums(first: Residuals, second: Residuals) -> _Sums:
    """The sums of each cluster, for counts that are non-empty in the truth or in either release."""
    units = first.replicates * first.units
    n = np.full(units, float(first.possible.sum()))
    if first.over == "nonempty":
        keys = [(one.replicate.astype(np.int64) * one.units + one.unit) * one.rows + one.row for one in (first, second)]
        n = np.bincount(np.union1d(*keys) // first.rows, minlength=units).astype(np.float64)
    parent = first.parent if len(first.parent) and first.parent.max() > 0 else np.arange(first.units)
    replicate = np.repeat(np.arange(first.replicates), first.units)
    cluster = replicate * (int(parent.max(initial=0)) + 1) + np.tile(parent, first.replicates)
    compared = n > 0
    if len(np.unique(cluster[compared])) < FEWEST_CLUSTERS:
        cluster = np.arange(units)
    _, place = np.unique(cluster[compared], return_inverse=True)
    many = int(place.max(initial=-1)) + 1

    def over_clusters(weights: Floats) -> Floats:
        out: Floats = np.bincount(place, weights=weights[compared], minlength=many).astype(np.float64)
        return out

    def of_units(one: Residuals, power: int) -> Floats:
        unit = one.replicate.astype(np.int64) * one.units + one.unit
        size = np.abs(one.value.astype(np.float64)) ** power
        return over_clusters(np.bincount(unit, weights=size, minlength=units).astype(np.float64))

    pair = np.zeros(many, np.int64)
    pair[place] = replicate[compared]
    return _Sums(
        absolute=(of_units(first, 1), of_units(second, 1)),
        squared=(of_units(first, 2), of_units(second, 2)),
        n=over_clusters(n),
        pair=pair,
    )
