"""How far published counts are expected to be from the truth, as far as a release's folder tells.

Where measurements were kept, standard deviations are those of ``tv.estimate``. Otherwise totals have the errors that
the certificate declares, and other queries those that estimates from all noisy counts would have. Nothing here sees
the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd
import pyarrow as pa

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.accuracy import expected_accuracy
from tallyveil.blue.estimate import estimate_pieces
from tallyveil.errors import InputError
from tallyveil.nouns.schema import TOTAL
from tallyveil.release.reader_words import NINE_IN_TEN
from tallyveil.release.release import Release

EXACT = 1e-3  # persons: a smaller standard deviation is that of an exact count, but for rounding in its computation
ESTIMATED = "the exact standard deviations of estimates from the measurements in the folder"
DECLARED = "the errors that the certificate expects from the noise and the method"
ATTAINED = "the standard deviations of the best estimates from all noisy counts"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """Expected errors, in people.

    Attributes
    ----------
    totals
        One row per level: ``level``, ``units``, ``peopled`` (units published with people), ``low``, ``median`` and
        ``high`` (10th, 50th and 90th percentile of their published totals), ``sd`` and ``margin`` (90%).
    groups
        The same errors of other queries: ``level``, ``query``, ``sd``, ``margin``.
    published, sd
        By level, the published total of every unit, and its standard deviation.
    source, source_of_groups
        Where the errors come from, in words.
    """

    totals: pd.DataFrame
    groups: pd.DataFrame
    published: Mapping[str, Integers]
    sd: Mapping[str, Floats]
    source: str
    source_of_groups: str

    def margins(self, level: str) -> Floats:
        """The 90% margin of every unit's total."""
        return NINE_IN_TEN * self.sd[level]


def expected_of(release: Release) -> Expected:
    """The expected errors of a release, from the release alone."""
    people = release.histogram
    published = {level: people.answer(TOTAL, level=level).dense()[:, 0] for level in people.spine.levels}
    estimated = _estimated_totals(release)
    sd = _declared_totals(release) if estimated is None else estimated
    groups = _groups(release, measured=estimated is not None)
    return Expected(
        totals=pd.DataFrame([_row(level, published[level], sd[level]) for level in people.spine.levels]),
        groups=groups.assign(margin=NINE_IN_TEN * groups.sd),
        published=published,
        sd=sd,
        source=DECLARED if estimated is None else ESTIMATED,
        source_of_groups=ATTAINED if estimated is None else ESTIMATED,
    )


def _row(level: str, published: Integers, sd: Floats) -> dict[str, object]:
    peopled = published[published > 0]
    low, median, high = np.percentile(peopled, [10, 50, 90]) if len(peopled) else (0.0, 0.0, 0.0)
    spread = float(np.sqrt(np.mean(sd**2))) if len(sd) else 0.0
    sizes = {"units": len(published), "peopled": len(peopled), "low": low, "median": median, "high": high}
    return {"level": level, **sizes, "sd": spread, "margin": NINE_IN_TEN * spread}


def _estimated_totals(release: Release) -> dict[str, Floats] | None:
    """The standard deviation of every unit's total from saved measurements; None where they do not determine it."""
    if release.measurements is None:
        return None
    try:
        pieces = list(estimate_pieces(release.measurements, facilities=release.facilities, queries=[TOTAL]))
    except InputError:  # what was saved does not determine totals
        return None
    spine = release.histogram.spine
    if {level for level, _ in pieces} != set(spine.levels):
        return None
    return {
        level: _by_unit((table for name, table in pieces if name == level), spine.labels(level))
        for level in spine.levels
    }


def _by_unit(tables: Iterable[pa.Table], labels: Iterable[str]) -> Floats:
    """Standard deviations in the order of the units."""
    joined = pa.concat_tables(tables).select(["unit", "sd"]).unify_dictionaries().to_pandas()
    sd = joined.set_index(joined.unit.astype(str)).sd.reindex(list(labels)).to_numpy(np.float64)
    return np.where(sd < EXACT, 0.0, sd)


def _declared_totals(release: Release) -> dict[str, Floats]:
    assert release.certificate is not None
    declared = {one.level: one.sd for one in release.certificate.declared.expected_error if one.query == TOTAL}
    return {level: np.full(release.histogram.spine.size(level), declared[level]) for level in declared}


def _groups(release: Release, *, measured: bool) -> pd.DataFrame:
    """Standard deviations of the queries of the release's tables by level, except totals."""
    table = _estimated_groups(release) if measured else _attained_groups(release)
    rows = table[table["query"] != TOTAL].reset_index(drop=True)
    return rows.assign(sd=rows.sd.where(rows.sd >= EXACT, 0.0))


def _estimated_groups(release: Release) -> pd.DataFrame:
    """The root mean square over units and cells of the standard deviations of estimates, by level and query."""
    assert release.measurements is not None
    sums: dict[tuple[str, str], list[float]] = {}
    try:
        for level, table in estimate_pieces(release.measurements, facilities=release.facilities):
            query = table.column("query").chunk(0).dictionary[0].as_py()
            sd = table.column("sd").to_numpy()
            total = sums.setdefault((level, query), [0.0, 0.0])
            total[0] += float((sd**2).sum())
            total[1] += len(sd)
    except InputError:  # what was saved determines totals only
        sums = {}
    rows = [(level, query, np.sqrt(total / max(n, 1))) for (level, query), (total, n) in sums.items()]
    return pd.DataFrame(rows, columns=["level", "query", "sd"]).astype({"sd": float})


def _attained_groups(release: Release) -> pd.DataFrame:
    people, strategy = release.histogram, release.strategy
    assert strategy is not None
    try:
        table = expected_accuracy(
            people.spine, people.schema, strategy, facilities=release.facilities, optimised=release.optimised
        )
    except InputError:  # the strategy does not determine every query that it measures
        return pd.DataFrame(columns=["level", "query", "sd"]).astype({"sd": float})
    return table[["level", "query", "sd"]]
