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
from collections.abc import Collection, Mapping

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import TOTAL, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.shares import UnitShares, unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.declaration import ExpectedError

LEAST = 1e-200  # variance; that of geometric noise with a huge parameter is 0 in floating point
EVERYTHING = "*"  # in a strategy's passes: all queries that no earlier pass has


def expected_errors(
    strategy: Strategy, spine: Spine, schema: Schema, *, optimised: OptimisedSpine | None = None
) -> tuple[ExpectedError, ...]:
    """The root mean square of the expected errors of totals, level by level of the published spine.

    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> queries = {"town": {"detailed": 1}, "block": {"total": 1}}
    >>> plan = Strategy(mechanism="gaussian", budget=1, levels={"town": "1/2", "block": "1/2"}, queries=queries)
    >>> block = expected_errors(plan, spine, Schema(attributes={"age": ["child", "adult"]}))[1]
    >>> round(block.sd, 3)                      # two noises of variance 2, and the difference of both is known
    1.0
    """
    measured = spine if optimised is None else optimised.spine
    nobody = not schema.possible.any()  # nobody can exist, so every total is 0
    known, published = (
        {level for level in spine.levels if nobody or exact.holds(TOTAL, level)}
        for exact in (strategy.exactness(spine, schema, optimised=optimised), strategy.exactness(spine, schema))
    )
    variances = _variances(strategy, measured, schema, known)
    table, above = [], np.zeros(1)
    for depth, level in enumerate(spine.levels):
        if level in known:
            above = np.zeros(measured.size(level))
        else:
            own = variances[level]
            above = own if depth == 0 else _among_siblings(own, above, measured.first_child[depth - 1])
        of_units = above if optimised is None else _of_published(spine, level, optimised, variances, known)
        sd = 0.0 if level in published else math.sqrt(of_units.mean())
        table.append(ExpectedError(level=level, query=TOTAL, sd=sd))
    return tuple(table)


def _of_published(
    spine: Spine, level: str, optimised: OptimisedSpine, variances: Mapping[str, Floats], known: Collection[str]
) -> Floats:
    r"""The variances of the totals of a level's published units, which are sums over measured leaves.

    The error of a child is :math:`e_c = n_c - (v_c / V) (\sum n - e_{parent})`. A sum over children with weights
    :math:`w_c` has therefore the error of its parent with the weight :math:`W = \sum w_c v_c / V`, and a part of its
    own with the variance :math:`\sum w_c^2 v_c - W^2 V`.
    """
    units, measured = spine.size(level), optimised.spine
    total = np.zeros(units)
    of_leaf = np.repeat(np.arange(units), np.diff(spine.leaves_under(level)))
    owner, weight = of_leaf[optimised.leaf], np.ones(len(optimised.leaf), dtype=np.float64)
    place: Integers = np.arange(len(owner))
    for depth in reversed(range(len(measured.levels))):
        if (name := measured.levels[depth]) in known:
            break
        if depth == 0:
            total += np.bincount(owner, weight**2 * variances[name][place], minlength=units)
            break
        siblings = np.diff(measured.first_child[depth - 1])
        parent = np.repeat(np.arange(len(siblings)), siblings)
        variance = np.where(np.repeat(siblings == 1, siblings), 1.0, variances[name])
        together = np.add.reduceat(variance, measured.first_child[depth - 1][:-1])
        total += np.bincount(owner, weight**2 * variance[place], minlength=units)
        pairs, of_pair = np.unique(parent[place] * units + owner, return_inverse=True)
        part = weight * variance[place] / together[parent[place]]
        weight = np.asarray(np.bincount(of_pair.reshape(-1), part, minlength=len(pairs)), dtype=np.float64)
        place, owner = pairs // units, pairs % units
        total -= np.bincount(owner, weight**2 * together[place], minlength=units)
    return np.maximum(total, 0.0)


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
        if variances:  # a level that is not measured although it is not exact is refused with the noise
            of_span[span] = 1 / sum(1 / variance for variance in variances)
    return of_span[shares.spans]


def _among_siblings(own: Floats, above: Floats, first_child: Integers) -> Floats:
    """The variances of children after they were moved to their parents' totals."""
    siblings = np.diff(first_child)
    variance = np.where(np.repeat(siblings == 1, siblings), 1.0, own)  # an only child has its parent's total
    part = variance / np.repeat(np.add.reduceat(variance, first_child[:-1]), siblings)
    return np.asarray(variance * (1 - part) + part**2 * np.repeat(above, siblings))
