r"""Noisy strata made to agree with a total by non-negative least squares (SA3 and SA4 of petti2020-appendix).

Both examples have the same form: for cells with noisy counts s and one total T,

.. math:: \min_{x \ge 0} \; w \left(\sum x_i - T\right)^2 + v \sum (x_i - s_i)^2

so every cell moves by the same amount and stops at 0: :math:`x_i = \max(0, s_i + \lambda)` with
:math:`\lambda v/w + \sum \max(0, s_i + \lambda) = T`. The left side is convex, piecewise linear and rising, so Newton's
method from the right ends at the exact :math:`\lambda` after finitely many steps. The paper's text says absolute
differences; the authors' code minimised squares (erratum 11). ``absolute`` has the version of the text.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.mechanisms.geometric import geometric
from tallyveil.mechanisms.noisy import (
    People,
    Replicates,
    histogram_of,
    noise_parameter,
    noise_stream,
    noisy_answers,
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
    """Reconcile a noisy total and noisy strata of each unit (SA3); the results are non-negative, rarely whole.

    Parameters
    ----------
    epsilon_total, epsilon_strata
        The privacy loss of the totals and of the strata; together they cost the sum. Under replace-one neighbours, as
        in the appendix, the noise is G(epsilon_total/2) and G(epsilon_strata/2), since replacing a person changes two
        counts of each; with ``neighbours="add-or-remove"`` it is G(epsilon_total) and G(epsilon_strata).
    query
        The strata.
    level
        The level of the units; the leaves by default.
    weights
        The weights of the total and of the strata in the objective; the authors used 0.25 and 0.75. The noise does not
        depend on them.
    people, neighbours, seed, key, replicate
        As for :func:`~tallyveil.mechanisms.geometric.geometric`.
    """
    check_weights(weights)
    truth = histogram_of(people)
    where, asked = level or truth.spine.leaf, truth.schema.query(query).name
    z = (
        noise_parameter(epsilon_total, neighbours, name="epsilon_total"),
        noise_parameter(epsilon_strata, neighbours, name="epsilon_strata"),
    )
    total, strata = noisy_total_and_strata(truth, z, query=asked, level=where, seed=seed, key=key, replicate=replicate)
    agreed = agree_possible(
        truth, asked, strata, total[:, :, 0], np.arange(strata.shape[1] + 1), give=weights[1] / weights[0]
    )
    return Estimates(spine=truth.spine, schema=truth.schema, query=asked, tables={where: agreed})


def check_weights(weights: tuple[float, float]) -> None:
    """Refuse weights of total and strata that are not above 0."""
    if len(weights) != 2 or not all(isinstance(weight, int | float) and 0 < weight < np.inf for weight in weights):
        raise InputError(f"the weights of total and strata must be above 0. Got {weights} instead.")


def noisy_total_and_strata(
    truth: Histogram,
    z: tuple[Fraction, Fraction],
    *,
    query: str,
    level: str,
    seed: int | None,
    key: RunKey | None,
    replicate: Replicates,
) -> tuple[Integers, Integers]:
    """The noisy totals and strata of each unit (SA3), with the noise parameters of both."""
    stream = noise_stream(truth, "total and strata", *z, query, level, seed=seed, key=key)
    total = noisy_answers(truth, stream, z=z[0], query=TOTAL, level=level, replicate=replicate)
    strata = noisy_answers(truth, stream, z=z[1], query=query, level=level, replicate=replicate, number=1)
    return total, strata


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
    """Noisy strata of the leaves, adjusted to the true totals of larger units (SA4); non-negative, rarely whole.

    This is **not** differentially private: the totals at ``above`` are true, without noise. Epsilon describes the noise
    on the strata alone, and holds only between datasets that agree on all those totals.

    Parameters
    ----------
    epsilon
        The privacy loss of the strata for replace-one neighbours: the noise is G(epsilon/2), as in ``geometric``.
    above
        The level whose true totals are kept.
    weight
        The weight of the squared difference to the true total. With 100, as the authors used, it is kept nearly.
    exact
        Keep the total exactly (to floating-point rounding), by projecting on the tables with that total.
    people, query, seed, key, replicate
        As for :func:`~tallyveil.mechanisms.geometric.geometric`.
    """
    if not (isinstance(weight, int | float) and 0 < weight < np.inf):
        raise InputError(
            f"the weight of an invariant must be above 0. Got {weight} instead; exact=True keeps it exactly."
        )
    truth = histogram_of(people)
    totals = truth.answer(TOTAL, level=above).dense()[:, 0]
    noisy = geometric(
        truth, epsilon=epsilon, query=query, neighbours="replace-one", seed=seed, key=key, replicate=replicate
    )
    strata = noisy.tables[truth.spine.leaf]
    every = np.broadcast_to(totals, (len(strata), len(totals)))
    agreed = agree_possible(
        truth, query, strata, every, truth.spine.leaves_under(above), give=0 if exact else 1 / weight
    )
    return Estimates(spine=truth.spine, schema=truth.schema, query=query, tables={truth.spine.leaf: agreed})


def agree_possible(
    truth: Histogram, query: str, strata: Integers, totals: Integers, units: Integers, *, give: float
) -> Floats:
    """Tables (replicates x units x rows) that agree with the totals of groups of units; impossible rows stay 0."""
    possible = truth.schema.possible_rows(truth.schema.query(query))
    cells = strata[:, :, possible]
    out: Floats = np.zeros(strata.shape)
    out[:, :, possible] = agree(cells.reshape(len(cells), -1), totals, units * int(possible.sum()), give=give).reshape(
        cells.shape
    )
    return out


def agree(strata: Integers, totals: Integers, bounds: Integers, *, give: float) -> Floats:
    """Non-negative cells near the strata whose sums are near the totals, for all replicates and groups.

    Group ``g`` consists of the cells ``bounds[g]`` to ``bounds[g + 1]``. ``give`` is the weight of the strata over
    that of the total; if it is 0, the sums equal the totals, which must then be 0 or more.

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
    """Newton's method on each group; the cells above 0 only become fewer, so it terminates."""
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
