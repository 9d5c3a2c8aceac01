"""How far published counts are expected to be from the truth, as far as a release's folder tells.

The best that the folder holds is used: margins of the published counts that ``tallyveil uncertainty`` wrote, else those
that follow from saved measurements, else the errors that the certificate declares, which are upper limits because
published counts are also made non-negative. Nothing here sees the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtr

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.accuracy import expected_accuracy
from tallyveil.blue.published import published_margins
from tallyveil.errors import InputError
from tallyveil.files.published.level_tables import saved_margins
from tallyveil.files.release_folder.layout import level_name, query_columns
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL
from tallyveil.privacy.guarantee import Guarantee
from tallyveil.release.certificate_page import NINE_IN_TEN, with_rounding
from tallyveil.release.plan import level_queries
from tallyveil.release.release import Release

LEAST = 0.5  # persons: the margin of a count that is not exact, where nine in ten are right
EXACT = 1e-3  # persons: a smaller standard deviation is that of an exact count, but for rounding in its computation
SAVED = "They are the margins in the release's own tables, which “tallyveil uncertainty” computed."
ESTIMATED = "They follow from the measurements in the folder: each published count has an unbiased estimate beside it."
DECLARED = (
    "They are 1.645 times the standard deviation that the certificate expects from the noise and the method. Published "
    "counts are then made whole and non-negative, which often makes their errors smaller."
)
ATTAINED = (
    "They are 1.645 times the standard deviation of the best estimates from all noisy counts. Published counts are "
    "also made whole and non-negative, which makes errors smaller where many groups are empty and shifts small counts "
    "upwards."
)

CLASSES = (0.01, 0.05, 0.2, 1.0)  # of a margin relative to its count

Margins = Mapping[tuple[str, str], Floats]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """Expected errors, in people.

    Attributes
    ----------
    totals
        One row per level: ``level``, ``units``, ``peopled`` (units published with people), ``low``, ``median`` and
        ``high`` (10th, 50th and 90th percentile of their published totals), ``margin`` (nine in ten totals of
        places with people are expected within it) and ``at_most`` (whether that is an upper limit).
    groups
        The margins of other queries: ``level``, ``query``, ``margin``.
    precise
        By query other than the total, the number of its counts at the leaf level, among those published with people, in
        each class of :func:`precision_classes`.
    attributes
        The names of the attributes, whose counts are the simplest groups.
    published, margin
        By level, the published total of every unit, and its 90% margin.
    source, source_of_groups
        Where the margins come from, in a sentence.
    """

    totals: pd.DataFrame
    groups: pd.DataFrame
    precise: Mapping[str, Integers]
    attributes: tuple[str, ...]
    published: Mapping[str, Integers]
    margin: Mapping[str, Floats]
    source: str
    source_of_groups: str


def expected_of(release: Release, folder: Path | None = None) -> Expected:
    """The expected errors of a release, from the release alone; its ``folder`` may hold margins."""
    people = release.histogram
    levels = people.spine.levels
    published = {level: people.answer(TOTAL, level=level).dense()[:, 0] for level in levels}
    assert release.certificate is not None
    promised = Guarantee.from_declared(release.certificate.declared.to_json())
    found, source = _margins(release, folder)
    if found is not None:  # margins of whole counts can be 0 although the count is not exact
        found = {
            pair: one if promised.fixes(*reversed(pair)) else np.maximum(one, LEAST) for pair, one in found.items()
        }
    if found is None:
        margin = _declared_totals(release)
        groups, source_of_groups = _attained_groups(release), ATTAINED
    else:
        margin = {level: found[level, TOTAL][:, 0] for level in levels}
        groups, source_of_groups = _groups(people, found), source
    limits = found is None, release.measurements is not None
    return Expected(
        totals=pd.DataFrame([_row(level, published[level], margin[level], limits) for level in levels]),
        groups=groups,
        precise=_precise_groups(people, groups, found),
        attributes=tuple(people.schema.attributes),
        published=published,
        margin=margin,
        source=source,
        source_of_groups=source_of_groups,
    )


def nine_in_ten(margins: Floats) -> float:
    """The number of people within which nine in ten errors are expected, given the 90% margin of each count.

    Counts that are exact are left out, unless all are.

    >>> nine_in_ten(np.array([10.0, 10.0, 0.0])), nine_in_ten(np.zeros(3)), round(nine_in_ten(np.array([1.0, 100.0])))
    (10.0, 0.0, 78)
    """
    sd, repeats = np.unique(margins[margins > 0] / NINE_IN_TEN, return_counts=True)
    if len(sd) == 0:
        return 0.0
    if len(sd) == 1:
        return float(NINE_IN_TEN * sd[0])

    def missed(margin: float) -> float:
        return float(np.average(2 * ndtr(-margin / sd), weights=repeats)) - 2 * float(ndtr(-NINE_IN_TEN))

    return float(brentq(missed, NINE_IN_TEN * sd[0] / 2, NINE_IN_TEN * sd[-1]))


def precision_classes(published: Integers, margin: Floats) -> Integers:
    """How many counts of people have a margin of at most 1, 5, 20 and 100% of the count, and more than the count.

    >>> precision_classes(np.array([1000, 100, 10, 10, 0]), np.array([5.0, 5.0, 10.0, 11.0, 1.0])).tolist()
    [1, 1, 0, 1, 1]
    """
    there = published > 0
    share = margin[there] / published[there]
    return np.bincount(np.searchsorted(CLASSES, share - 1e-12), minlength=len(CLASSES) + 1)


def _precise_groups(people: Histogram, groups: pd.DataFrame, found: Margins | None) -> dict[str, Integers]:
    """The classes of the counts of groups at the leaf level, each with its own margin where it is known."""
    leaf, classes = people.spine.leaf, {}
    for query, margin in groups[groups.level == leaf].set_index("query").margin.items():
        if found is None:
            counts = people.answer(str(query), level=leaf).count.astype(np.int64)
            classes[str(query)] = precision_classes(counts, np.full(len(counts), margin))
        else:
            table = people.answer(str(query), level=leaf).dense()
            classes[str(query)] = precision_classes(table.ravel(), found[leaf, str(query)].ravel())
    return classes


def _row(level: str, published: Integers, margin: Floats, limits: tuple[bool, bool]) -> dict[str, object]:
    """A level's row; ``limits`` says whether margins are upper limits: always, and where they exceed a typical place.

    Those from measurements are the latter: they ignore that no count is negative, which then bounds errors.
    """
    there = published > 0
    peopled = published[there]
    low, median, high = np.percentile(peopled, [10, 50, 90]) if len(peopled) else (0.0, 0.0, 0.0)
    sizes = {"units": len(published), "peopled": len(peopled), "low": low, "median": median, "high": high}
    within = nine_in_ten(margin[there] if len(peopled) else margin)
    at_most = limits[0] or (limits[1] and within > median)
    return {"level": level, **sizes, "margin": within, "at_most": bool(at_most)}


def _margins(release: Release, folder: Path | None) -> tuple[Margins | None, str]:
    """The margins of published counts by level and query (units x rows), or None; and where margins come from."""
    saved = {} if folder is None else _saved(release, folder)
    if all((level, TOTAL) in saved for level in release.histogram.spine.levels):
        return saved, SAVED
    if release.measurements is None:
        return None, DECLARED
    for queries in (None, [TOTAL]):  # all queries of the tables where the measurements determine them and they fit
        try:
            made = published_margins(release, queries=queries)
        except InputError:
            continue
        return {place: found.astype(np.float64) for place, found in made.classes.items()}, ESTIMATED
    return None, DECLARED


def _saved(release: Release, folder: Path) -> dict[tuple[str, str], Floats]:
    """The margins in the tables by level of a folder."""
    people, strategy = release.histogram, release.strategy
    assert strategy is not None
    found = {}
    for level in people.spine.levels:
        columns = saved_margins(folder / level_name(level), people.spine.size(level))
        for query in level_queries(strategy, people.schema, level):
            names = query_columns(people.schema.query(query))
            if columns and all(name in columns for name in names):
                found[level, query] = np.stack([columns[name] for name in names], axis=1).astype(np.float64)
    return found


def _groups(people: Histogram, found: Margins) -> pd.DataFrame:
    """The margins of the groups that are published with people, by level and query."""
    rows = []
    for (level, query), margin in found.items():
        if query != TOTAL:
            there = people.answer(query, level=level).dense() > 0
            rows.append((level, query, nine_in_ten(margin[there] if there.any() else margin.ravel())))
    return pd.DataFrame(rows, columns=["level", "query", "margin"]).astype({"margin": float})


def _declared_totals(release: Release) -> dict[str, Floats]:
    assert release.certificate is not None
    declared = {one.level: one.sd for one in release.certificate.declared.expected_error if one.query == TOTAL}
    spine = release.histogram.spine
    return {level: np.full(spine.size(level), NINE_IN_TEN * with_rounding(declared[level])) for level in declared}


def _attained_groups(release: Release) -> pd.DataFrame:
    """The margins of the best estimates from all noisy counts, by level and query."""
    people, strategy = release.histogram, release.strategy
    assert strategy is not None
    try:
        table = expected_accuracy(
            people.spine,
            people.schema,
            strategy,
            facilities=release.facilities,
            optimised=release.optimised,
            published=True,
        )
    except InputError:  # the strategy does not determine every query that it measures
        return pd.DataFrame(columns=["level", "query", "margin"]).astype({"margin": float})
    rows = table[table["query"] != TOTAL].reset_index(drop=True)
    return rows[["level", "query"]].assign(margin=NINE_IN_TEN * with_rounding(rows.sd).where(rows.sd >= EXACT, 0.0))
