"""Accuracy before any noise: standard deviations depend on public inputs alone, so they are known before a run.

The units' open cells, fan-out and shares of the budget decide the variance of every estimate. Nothing is drawn, and
the people are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.estimate import estimation_problems, of_leaf_places, owners
from tallyveil.blue.parts import level_answers
from tallyveil.errors import SecretError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements

if TYPE_CHECKING:
    import pandas as pd


def expected_accuracy(
    spine: Spine,
    schema: Schema,
    strategy: Strategy,
    *,
    facilities: Facilities | None = None,
    optimised: OptimisedSpine | None = None,
    queries: Sequence[str] | None = None,
    published: bool = False,
) -> pd.DataFrame:
    """The standard deviations that ``tv.estimate`` will have, from public inputs alone.

    Returns
    -------
    DataFrame
        ``level``, ``query``, ``sd`` (root mean square over units and cells), ``least`` and ``most``. On an optimised
        spine the units are those that are measured, or with ``published`` those of the standard spine.

    Examples
    --------
    >>> import tallyveil as tv
    >>> spine = tv.Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> schema = tv.Schema(attributes={"age": ["child", "adult"]})
    >>> expected_accuracy(spine, schema, tv.Strategy.default(spine, schema, rho=1), queries=["total"]).round(2)
       level  query    sd  least  most
    0   town  total  0.00   0.00  0.00
    1  block  total  1.33   1.33  1.33
    """
    import pandas as pd

    blank = unmeasured(spine, schema, strategy, optimised=optimised)
    problems, named = estimation_problems(blank, facilities=facilities, queries=queries, noise=False)
    asked = {level: [schema.query(name) for name in names] for level, names in named.items()}
    sums: dict[tuple[str, str], list[float]] = {}
    rebuilt = [level for level in asked if published and optimised is not None and not optimised.keeps(level)]
    for level in rebuilt:
        for query, _, (_, deviations) in of_leaf_places(problems, blank, owners(spine, level), asked[level]):
            variance = np.square(deviations)
            _add(sums.setdefault((level, query.name), [0.0, 0.0, np.inf, 0.0]), variance, np.ones(len(variance)))
    for found in level_answers(problems, {level: some for level, some in asked.items() if level not in rebuilt}):
        units = np.bincount(found.of)
        for name, variance in found.variances.items():
            _add(sums.setdefault((found.level, name), [0.0, 0.0, np.inf, 0.0]), variance, units)
    rows = [
        {"level": level, "query": name, "sd": np.sqrt(total / many), "least": np.sqrt(least), "most": np.sqrt(most)}
        for (level, name), (total, many, least, most) in sums.items()
    ]
    order = {level: depth for depth, level in enumerate(spine.levels)}
    return pd.DataFrame(sorted(rows, key=lambda row: order[str(row["level"])]))


def unmeasured(
    spine: Spine, schema: Schema, strategy: Strategy, *, optimised: OptimisedSpine | None = None
) -> Measurements:
    """Measurements of which only the variances are known: asking for an answer is an error."""

    def refuse(level: str, query: str, index: Integers) -> Integers:  # noqa: ARG001
        raise SecretError(f"{query}@{level} was requested before anything was measured.")

    measured = spine if optimised is None else optimised.spine
    strategy = calibrated(strategy, spine=spine, schema=schema, optimised=optimised)
    return Measurements(spine=measured, schema=schema, strategy=strategy, ask=refuse, optimised=optimised)


def _add(sums: list[float], variance: Floats, units: Integers | Floats) -> None:
    """Add the variances of some units to a sum, a number, the least and the most."""
    sums[0] += float(units @ variance.sum(axis=1))
    sums[1] += float(units.sum() * variance.shape[1])
    sums[2] = min(sums[2], float(variance.min(initial=np.inf)))
    sums[3] = max(sums[3], float(variance.max(initial=0.0)))
