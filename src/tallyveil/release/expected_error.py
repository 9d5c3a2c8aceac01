r"""How far released totals are expected to be from the truth: from the noise and the estimation, without the truth.

The estimate of a unit's total from its own measurements has the variance :math:`v = 1 / \sum_q 1 / (r_q \sigma_q^2)`,
since a query of :math:`r_q` rows with independent noise sums to the total with variance :math:`r_q \sigma_q^2`. TopDown
then moves the children of a parent to its total by least squares. With :math:`V = \sum_c v_c` over the children,

.. math:: \operatorname{Var}_c = v_c - v_c^2 / V + (v_c / V)^2 \operatorname{Var}_{parent}.

Where levels are estimated from the levels below, too, v becomes 1 / (1/v + 1/V) with the children's V.

These are errors before counts are made non-negative and whole. Cells that are empty in the parent have no noise, so the
errors of a release are often smaller than expected.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.nouns.schema import TOTAL, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.shares import UnitShares, unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.declaration import ExactQuery, ExpectedError

LEAST = 1e-200  # variance; that of geometric noise with a huge parameter is 0 in floating point
EVERYTHING = "*"  # in a strategy's passes: all queries that no earlier pass has


def expected_errors(
    strategy: Strategy, spine: Spine, schema: Schema, exact: Collection[ExactQuery]
) -> tuple[ExpectedError, ...]:
    """The root mean square of the expected errors of totals, level by level of the measured spine.

    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> queries = {"town": {"detailed": 1}, "block": {"total": 1}}
    >>> plan = Strategy(mechanism="gaussian", budget=1, levels={"town": "1/2", "block": "1/2"}, queries=queries)
    >>> town = ExactQuery(level="town", query="total")
    >>> block = expected_errors(plan, spine, Schema(attributes={"age": ["child", "adult"]}), [town])[1]
    >>> round(block.sd, 3)                      # two noises of variance 2, and the difference of both is known
    1.0
    """
    known = {one.level for one in exact if one.query == TOTAL}
    if not schema.possible.any():  # nobody can exist, so every total is 0
        known = set(spine.levels)
    variances = _variances(strategy, spine, schema, known)
    table, above = [], np.zeros(1)
    for depth, level in enumerate(spine.levels):
        if level in known:
            above = np.zeros(spine.size(level))
        else:
            own = variances[level]
            above = own if depth == 0 else _among_siblings(own, above, spine.first_child[depth - 1])
        table.append(ExpectedError(level=level, query=TOTAL, sd=math.sqrt(above.mean())))
    return tuple(table)


def _variances(strategy: Strategy, spine: Spine, schema: Schema, known: Collection[str]) -> dict[str, Floats]:
    """The variance of each unit's total from its own measurements, and those of the levels below where they inform."""
    shares, informed = unit_shares(strategy, spine), strategy.informed_levels
    found, below = {}, np.zeros(0)
    for depth, level in reversed(list(enumerate(spine.levels))):
        if level in known:
            found[level] = below = np.full(spine.size(level), LEAST)
            continue
        alone = _own_variances(strategy, schema, level, shares[level])
        own = _own_variances(strategy, schema, level, shares[level], every=True)
        if level in informed:
            precision = 1 / own + 1 / np.add.reduceat(below, spine.first_child[depth][:-1])
            own = np.divide(1.0, precision, out=np.full(len(own), np.inf), where=precision > 0)
        found[level], below = own if level in informed else alone, own
    return found


def _own_variances(
    strategy: Strategy, schema: Schema, level: str, shares: UnitShares, *, every: bool = False
) -> Floats:
    """The variance of each unit's total from the measurements of the unit alone; infinite where there are none.

    Where a level is solved in passes, totals come from the first, unless ``every`` query is used.
    """
    passes = () if every else strategy.passes.get(level, ())
    first = next((names for names in passes if names), (EVERYTHING,))
    measured = [query for query in strategy.queries[level] if EVERYTHING in first or query in first]
    rows = {query: int(schema.possible_rows(schema.query(query)).sum()) for query in measured}
    of_span = np.full(len(shares.shares), np.inf)
    for span in np.unique(shares.spans[shares.spans > 0]).tolist():
        noises = {query: strategy.noise(level, query, level_share=shares.shares[span]) for query in measured}
        variances = [rows[query] * max(noise.actual_variance(), LEAST) for query, noise in noises.items()]
        of_span[span] = 1 / sum(1 / variance for variance in variances)
    return of_span[shares.spans]


def _among_siblings(own: Floats, above: Floats, first_child: Integers) -> Floats:
    """The variances of children after they were moved to their parents' totals."""
    siblings = np.diff(first_child)
    variance = np.where(np.repeat(siblings == 1, siblings), 1.0, own)  # an only child has its parent's total
    part = variance / np.repeat(np.add.reduceat(variance, first_child[:-1]), siblings)
    return np.asarray(variance * (1 - part) + part**2 * np.repeat(above, siblings))
