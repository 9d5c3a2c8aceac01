r"""Noisy strata made to agree with a total by non-negative least squares (SA3 and SA4 of petti2020-appendix).

Both examples have the same form: for cells with noisy counts s and one total T,

.. math:: \min_{x \ge 0} \; w \left(\sum x_i - T\right)^2 + v \sum (x_i - s_i)^2

so every cell moves by the same amount and stops at 0: :math:`x_i = \max(0, s_i + \lambda)` with
:math:`\lambda v/w + \sum \max(0, s_i + \lambda) = T`. The left side is convex, piecewise linear and rising, so Newton's
method from the right ends at the exact :math:`\lambda` after finitely many steps. The paper's text says absolute
differences; the authors' code minimised squares (erratum 11).
"""

from __future__ import annotations

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.mechanisms.geometric import geometric
from tallyveil.mechanisms.noisy import (
    People,
    Replicates,
    noise_parameter,
    noise_stream,
    noisy_answers,
    people_of,
)
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED, TOTAL
from tallyveil.privacy.budget import Number
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Neighbours


def total_and_strata(
    people: People,
    *,
    epsilon_total: Number,
    epsilon_strata: Number,
    query: str = DETAILED,
    level: str | None = None,
    weights: tuple[float, float] = (0.25, 0.75),
    neighbours: Neighbours = "replace-one",
    seed: int | None = None,
    key: RunKey | None = None,
    replicate: Replicates = 0,
) -> Estimates:
    """A noisy total and noisy strata of each unit, reconciled (SA3): non-negative, rarely whole.

    Parameters
    ----------
    epsilon_total, epsilon_strata
        What the totals and the strata spend; together they cost the sum. Under replace-one neighbours, the default and
        the appendix's, noise is G(epsilon_total/2) and G(epsilon_strata/2), as a moved person changes two counts of
        each; with ``neighbours="add-or-remove"`` it is G(epsilon_total) and G(epsilon_strata).
    query
        The strata.
    level
        Whose units; the leaves by default.
    weights
        Of the total and of the strata in the objective; 0.25 and 0.75 are the authors'. They are not in the noise.
    people, neighbours, seed, key, replicate
        As for :func:`~tallyveil.mechanisms.geometric.geometric`.
    """
    if len(weights) != 2 or not all(isinstance(weight, int | float) and 0 < weight < np.inf for weight in weights):
        raise InputError(f"weights of total and strata are above 0. Got {weights}.")
    truth = people_of(people)
    where, asked = level or truth.spine.leaf, truth.schema.query(query).name
    z_total = noise_parameter(epsilon_total, neighbours, name="epsilon_total")
    z_strata = noise_parameter(epsilon_strata, neighbours, name="epsilon_strata")
    stream = noise_stream(truth, "total and strata", z_total, z_strata, asked, where, seed=seed, key=key)
    total = noisy_answers(truth, stream, z=z_total, query=TOTAL, level=where, replicate=replicate)
    strata = noisy_answers(truth, stream, z=z_strata, query=asked, level=where, replicate=replicate, number=1)
    agreed = _agree_possible(
        truth, asked, strata, total[:, :, 0], np.arange(strata.shape[1] + 1), give=weights[1] / weights[0]
    )
    return Estimates(spine=truth.spine, schema=truth.schema, query=asked, tables={where: agreed})


def with_invariant(
    people: People,
    *,
    epsilon: Number,
    query: str = DETAILED,
    above: str = "county",
    weight: float = 100,
    exact: bool = False,
    seed: int | None = None,
    key: RunKey | None = None,
    replicate: Replicates = 0,
) -> Estimates:
    """Noisy strata of the leaves, pulled to the true total of the unit above (SA4): non-negative, rarely whole.

    This is **not** differentially private: the totals at ``above`` are the truth's, without noise. Epsilon describes
    the strata's noise alone, and holds only between people who agree on all those totals.

    Parameters
    ----------
    epsilon
        Of the strata, for replace-one neighbours: noise G(epsilon/2), the same as the geometric mechanism's.
    above
        The level whose true totals are kept.
    weight
        Of the squared difference to the true total; 100 is the authors' penalty, which keeps it nearly.
    exact
        Keep it exactly instead (to rounding of floats): the projection on what has that total.
    people, query, seed, key, replicate
        As for :func:`~tallyveil.mechanisms.geometric.geometric`.
    """
    if not (isinstance(weight, int | float) and 0 < weight < np.inf):
        raise InputError(f"the weight of an invariant is above 0. Got {weight}; exact=True keeps it exactly.")
    truth = people_of(people)
    totals = truth.answer(TOTAL, level=above).dense()[:, 0]
    noisy = geometric(
        truth, epsilon=epsilon, query=query, neighbours="replace-one", seed=seed, key=key, replicate=replicate
    )
    strata = noisy.tables[truth.spine.leaf]
    every = np.broadcast_to(totals, (len(strata), len(totals)))
    agreed = _agree_possible(
        truth, query, strata, every, truth.spine.leaves_under(above), give=0 if exact else 1 / weight
    )
    return Estimates(spine=truth.spine, schema=truth.schema, query=query, tables={truth.spine.leaf: agreed})


def _agree_possible(
    truth: Histogram, query: str, strata: Integers, totals: Integers, units: Integers, *, give: float
) -> Floats:
    """Tables (runs x units x rows) that agree with the totals of runs of units; impossible rows stay 0."""
    possible = truth.schema.possible_rows(truth.schema.query(query))
    cells = strata[:, :, possible]
    out: Floats = np.zeros(strata.shape)
    out[:, :, possible] = agree(cells.reshape(len(cells), -1), totals, units * int(possible.sum()), give=give).reshape(
        cells.shape
    )
    return out


def agree(strata: Integers, totals: Integers, bounds: Integers, *, give: float) -> Floats:
    """Non-negative cells near the strata whose sums are near the totals, for all runs and groups.

    Group ``g`` of a run is its cells ``bounds[g]`` to ``bounds[g + 1]``. ``give`` is the strata's weight over the
    total's; with 0 the sums are the totals, which must then be 0 or more.

    >>> agree(np.array([[5, 1, -2]]), np.array([[4]]), np.array([0, 3]), give=0).tolist()
    [[4.0, 0.0, 0.0]]
    """
    out = np.empty(strata.shape, dtype=np.float64)
    _agree(
        np.ascontiguousarray(strata, dtype=np.float64),
        np.ascontiguousarray(totals, dtype=np.float64),
        bounds,
        float(give),
        out,
    )
    return out


@compiled
def _agree(strata, totals, bounds, give, out):  # type: ignore[no-untyped-def]
    """Newton's method on each group: the cells above 0 only become fewer, so it ends."""
    for run in range(len(strata)):
        cells = strata[run]
        for group in range(len(bounds) - 1):
            first, last = bounds[group], bounds[group + 1]
            some, total = last - first, 0.0
            for i in range(first, last):
                total += cells[i]
            move = -np.inf
            while some + give > 0:
                move = (totals[run, group] - total) / (give + some)
                left, total = 0, 0.0
                for i in range(first, last):
                    if cells[i] + move > 0:
                        left += 1
                        total += cells[i]
                if left >= some:
                    break
                some = left
            for i in range(first, last):
                out[run, i] = max(0.0, cells[i] + move)
