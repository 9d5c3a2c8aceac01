"""Measurements that a release saved: which there are, which levels they allow to scan, and whose counts they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseNoise:
    """The noise of a release as far as it is known, the levels to scan, and what the reader should know about it.

    ``measurements`` is None where nothing is known of the noise that was drawn. ``note`` is empty where all of it is.
    """

    measurements: Measurements | None
    levels: Sequence[str] | None
    note: str = ""

    @classmethod
    def of(cls, saved: Measurements | None, levels: Sequence[str] | None) -> ReleaseNoise:
        """The noise that was saved. ``levels`` are those asked for; None stands for all of which something was."""
        queries = {} if saved is None else saved_by_level(saved)
        if saved is None or not any(queries.values()):
            note = "no measurements were saved, so figures are averages over the noise of its strategy"
            return cls(measurements=None, levels=levels, note=note)
        wanted = [level for level in levels or queries if level in queries]
        note = ""
        if any(len(queries[level]) < len(saved.strategy.queries[level]) for level in wanted):
            names = ", ".join(f"{query}@{level}" for level, some in queries.items() for query in some)
            note = f"only what was saved is scanned: {names}"
        with_saved = [level for level, some in queries.items() if some]
        return cls(measurements=saved, levels=with_saved if levels is None else levels, note=note)


def saved_by_level(measurements: Measurements) -> dict[str, list[str]]:
    """The queries of each level whose noisy answers are known."""
    return {level: _saved_queries(measurements, level) for level in measurements.strategy.levels}


def levels_to_scan(strategy: Strategy, levels: Sequence[str] | None, queries: Sequence[str] | None) -> list[str]:
    """The levels asked for, or all levels that measure one of the queries."""
    if (queries is not None and not queries) or (levels is not None and not levels):
        raise InputError("no query or no level is left to scan. Name one or more, or leave them out for all.")
    if levels is not None:
        for level in levels:
            for query in queries or ():
                strategy.written(level, query)
            if level not in strategy.levels:
                raise InputError(f"unknown level {level!r}. Known are {', '.join(strategy.levels)}.")
        return list(dict.fromkeys(levels))
    if queries is None:
        return list(strategy.levels)
    measured = {query: [level for level in strategy.levels if _measures(strategy, level, query)] for query in queries}
    for query, where in measured.items():
        if not where:
            strategy.written(list(strategy.levels)[-1], query)  # raises an error that lists what is measured
    return [level for level in strategy.levels if any(level in where for where in measured.values())]


def check_counts_match(truth: Histogram, measurements: Measurements) -> None:
    """Refuse measurements of other counts: their noise would be far larger than its variance allows."""
    for level in reversed(truth.spine.levels):
        for name in _saved_queries(measurements, level)[:1]:
            query = truth.schema.query(name)
            units = np.flatnonzero(measurements.shares[level].spans)
            some = units[:: max(1, len(units) * query.size // 20_000)]
            cells = (some[:, None] * query.size + np.arange(query.size)).reshape(-1)
            precise = truth.at(level).looked_up(cells, query.row_of_cell, query.size)
            noise = measurements.ask(level, name, cells) - precise
            variance = measurements.variances(level, name)[measurements.shares[level].spans[cells // query.size]]
            ratio = float(np.mean(noise.astype(np.float64) ** 2 / np.maximum(variance, 1e-9)))
            if ratio > (2 if len(cells) >= 300 else 6):
                raise InputError(
                    f"the measurements are not of these counts: {name} of level {level!r} would have noise "
                    f"{math.sqrt(ratio):.1f} times as large as it is. Give the counts that the release was made from."
                )
            return


def _saved_queries(measurements: Measurements, level: str) -> list[str]:
    saved = []
    first = np.flatnonzero(measurements.shares[level].spans)[:1]
    for query in measurements.strategy.queries[level]:
        try:
            saved += [query] * len(measurements.ask(level, query, first * measurements.schema.query(query).size))
        except InputError:
            continue
    return saved


def _measures(strategy: Strategy, level: str, query: str) -> bool:
    try:
        return bool(strategy.written(level, query))
    except InputError:
        return False
