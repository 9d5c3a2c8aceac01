"""How much of the measurements a release can tell at all, at any scale: shares of cells at a bound.

By the conditions of optimality (``ranges``), a released cell above 0 gives one equation between measurements, up to
rounding, and a cell at 0 gives an inequality only. Every positive cell of the parent has a multiplier that hides what
its children have in common. What is left are ``relations``: the most linear combinations of measurements that
post-processing could leave known up to rounding. If there are fewer relations than measurements, it cannot be undone.

This holds for estimates in several passes too. Estimates are a piecewise linear function of the measurements, and those
with these cells at 0 and these sums have as many dimensions as there are relations, so they tell no more combinations.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.inversion.nests import possible_cells


def bound_shares(release: Histogram, strategy: Strategy) -> pd.DataFrame:
    """Cells at 0, and how many relations between measurements are left, by level.

    Returns
    -------
    DataFrame
        Columns ``level``, ``measurements`` (of units that are measured), ``cells`` (that were estimated: possible, and
        not empty in the parent), ``at_zero`` and ``at_zero_share``, ``relations`` and ``relations_share`` (of the
        measurements; at most 1). Exact counts and bounds, which hide more, are not taken into account.

    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> people = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[3, 8, 2])
    >>> bound_shares(people, Strategy.default(spine, schema, rho=1)).values.tolist()
    [['town', 2, 2, 0, 0.0, 1, 0.5], ['block', 6, 4, 1, 0.25, 1, 0.16666666666666666]]
    """
    strategy.check(release.spine, release.schema)
    spine, shares = release.spine, unit_shares(strategy, release.spine)
    rows = []
    above = None
    for depth, level in enumerate(spine.levels):
        counts = release.at(level)
        positive = np.diff(counts.start)  # of each unit
        asked = sum(release.schema.query(query).size for query in strategy.queries[level])
        measured = asked * int((shares[level].spans > 0).sum())
        if above is None:
            cells, present = int(possible_cells(release.schema, strategy).sum()), int(positive.sum())
            relations = present - (strategy.neighbours == "replace-one")
        else:
            children = np.diff(spine.first_child[depth - 1])
            several = children > 1  # an only child copies its parent
            cells = int((above * children)[several].sum())
            inside = np.repeat(several, children)
            present = int(positive[inside].sum())
            relations = present - int(above[several].sum())
        at_zero = cells - present
        rows.append(
            {
                "level": level,
                "measurements": measured,
                "cells": cells,
                "at_zero": at_zero,
                "at_zero_share": at_zero / cells if cells else 0.0,
                "relations": max(0, int(relations)),
                "relations_share": min(1.0, max(0, int(relations)) / measured) if measured else 0.0,
            }
        )
        above = positive
    return pd.DataFrame(rows)
