"""Measurements that a release saved: which there are, and whether they belong to these counts and to this key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.release.measurements import Measurements


def saved_by_level(measurements: Measurements) -> dict[str, list[str]]:
    """The saved queries of each level."""
    return {level: saved_queries(measurements, level) for level in measurements.strategy.levels}


def saved_queries(measurements: Measurements, level: str) -> list[str]:
    """The queries of a level whose noisy answers are known."""
    found = []
    first = np.flatnonzero(measurements.shares[level].spans)[:1]
    for query in measurements.strategy.queries[level]:
        try:
            found += [query] * len(measurements.ask(level, query, first * measurements.schema.query(query).size))
        except InputError:
            continue
    return found


def check_same_noise(saved: Measurements, redrawn: Measurements) -> bool:
    """Refuse noise drawn again that differs from what was saved; False where nothing was saved to compare with."""
    pairs = [(level, query) for level, queries in saved_by_level(saved).items() for query in queries]
    if not pairs:
        return False
    level, query = pairs[-1]
    places = np.flatnonzero(redrawn.shares[level].spans)[:1000] * redrawn.schema.query(query).size
    if not np.array_equal(saved.ask(level, query, places), redrawn.ask(level, query, places)):
        raise InputError("this draws other noise than was saved. Give its own key or seed, and its data.")
    return True


def check_counts_match(truth: Histogram, measurements: Measurements, saved: Mapping[str, Sequence[str]]) -> None:
    """Refuse measurements of other counts: their noise would be far larger than it is."""
    for level in reversed(truth.spine.levels):
        for query in saved[level]:
            asked = truth.schema.query(query)
            units = np.flatnonzero(measurements.shares[level].spans)
            some = units[:: max(1, len(units) * asked.size // 20_000)]
            places = (some[:, None] * asked.size + np.arange(asked.size)).reshape(-1)
            precise = truth.at(level).looked_up(places, asked.row_of_cell, asked.size)
            noise = measurements.ask(level, query, places) - precise
            variance = measurements.variances(level, query)[measurements.shares[level].spans[places // asked.size]]
            ratio = float(np.mean(noise.astype(np.float64) ** 2 / np.maximum(variance, 1e-9)))
            if ratio > (2 if len(places) >= 300 else 6):
                raise InputError(
                    f"the measurements are not of these counts: {query} of level {level!r} would have noise "
                    f"{math.sqrt(ratio):.1f} times as large as it is. Give the counts that the release was made from."
                )
            return
