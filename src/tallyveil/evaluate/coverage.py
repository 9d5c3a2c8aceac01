"""Coverage: the share of released counts within their margin of the truth, where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from tallyveil.evaluate.margin_classes import Margins, class_of, class_words
from tallyveil.evaluate.margins import CLASSES, class_sizes, residuals_at
from tallyveil.evaluate.residuals import Over
from tallyveil.evaluate.sources import people_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.release.release import Release

ALL = "all"


def coverage(
    truth: Histogram | Population, release: Release | Histogram, margins: Margins, *, over: Over = "nonempty"
) -> pd.DataFrame:
    """The share of released counts that are within their margin of the truth.

    Parameters
    ----------
    truth, release, margins
        The true counts, the release, and its margins.
    over
        ``"nonempty"``: counts that are not 0 in the truth or in the release, as when margins are made. ``"all"``: also
        cells that are empty in both, which are exact. Most released zeros are such cells, so their coverage is higher.

    Returns
    -------
    DataFrame
        ``level``, ``query``, ``by`` (``"all"``, ``"released size"``, ``"true size"``), ``class``, ``n``, ``coverage``.
        For areas, the classes of released size are classes of their number of leaves. The first row combines all levels
        and queries. Margins promise coverage by released size. By true size coverage may be lower, and it is where true
        counts are about as large as the noise.
    """
    people, rows, held, n = people_of(truth), [], 0, 0
    for (level, query), classes in margins.classes.items():
        errors = residuals_at(people, people_of(release), level, query, margins.areas, over=over)
        sizes_seen = class_sizes(errors, level, margins.areas)
        inside = np.abs(errors.value) <= margins.of(level, query, sizes_seen)
        exact, inside_all = errors.zeros, int(inside.sum()) + errors.zeros
        held, n = held + inside_all, n + errors.n
        rows.append((level, query, ALL, ALL, errors.n, _share(inside_all, errors.n)))
        starts = [size_class.least for size_class in classes]
        for by, edges, counts in (("released size", starts, sizes_seen), ("true size", CLASSES, errors.true)):
            place = class_of(edges, counts)
            sizes, within = (np.bincount(place[keep], minlength=len(edges)) for keep in (slice(None), inside))
            sizes[0], within[0] = sizes[0] + exact, within[0] + exact
            for number in np.flatnonzero(sizes):
                end = edges[number + 1] - 1 if number + 1 < len(edges) else None
                share = _share(int(within[number]), int(sizes[number]))
                rows.append((level, query, by, class_words(edges[number], end), int(sizes[number]), share))
    whole = (ALL, ALL, ALL, ALL, n, _share(held, n))
    return pd.DataFrame([whole, *rows], columns=["level", "query", "by", "class", "n", "coverage"])


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
