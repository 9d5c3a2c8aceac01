r"""Noisy strata and a noisy total reconciled by absolute differences, as the text of SA3 says (petti2020-appendix).

For the noisy counts s of a unit's cells and its noisy total T,

.. math:: \min_{x \ge 0} \; w \left|\sum x_i - T\right| + v \sum |x_i - s_i|

has a closed form. Without the first term, :math:`x_i = \max(0, s_i)`. Moving a cell away from there by one person
costs v and brings the sum at most one person, worth w, nearer to T. So where :math:`v \ge w`, as with the authors'
weights of 0.25 and 0.75, the total changes nothing. Otherwise the sum becomes :math:`\max(0, T)`, and any way to get
there without moving a cell up and another down is optimal. The one nearest to :math:`\max(0, s)` in squares is taken:
every cell moves by the same amount and stops at 0. The authors' code minimised squares instead (``reconciled``,
erratum 11).
"""

from __future__ import annotations

import numpy as np

from tallyveil.mechanisms.noisy import People, Replicates, histogram_of, noise_parameter
from tallyveil.mechanisms.reconciled import agree_possible, check_weights, noisy_total_and_strata
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.schema import DETAILED
from tallyveil.privacy.budget import Number
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Neighbours


def total_and_strata_absolute(
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
    """Reconcile a noisy total and noisy strata of each unit by least absolute differences (SA3, as its text says).

    The noise is that of :func:`~tallyveil.mechanisms.reconciled.total_and_strata`, which takes the same parameters.

    Examples
    --------
    >>> from tallyveil.populations import census_1940
    >>> truth = census_1940(persons=20_000, seed=1).people
    >>> budget = {"epsilon_total": "0.25", "epsilon_strata": "0.75", "query": "race", "seed": 1}
    >>> found = total_and_strata_absolute(truth, **budget).answer("race", level="enumdist")
    >>> bool((found >= 0).all()), bool((found == found.round()).all())     # these weights ignore the total
    (True, True)
    """
    check_weights(weights)
    truth = histogram_of(people)
    where, asked = level or truth.spine.leaf, truth.schema.query(query).name
    z = (
        noise_parameter(epsilon_total, neighbours, name="epsilon_total"),
        noise_parameter(epsilon_strata, neighbours, name="epsilon_strata"),
    )
    total, strata = noisy_total_and_strata(truth, z, query=asked, level=where, seed=seed, key=key, replicate=replicate)
    nearest = np.maximum(strata, 0)
    agreed = nearest
    if weights[0] > weights[1]:
        aims = np.maximum(total[:, :, 0], 0)
        agreed = agree_possible(truth, asked, nearest, aims, np.arange(strata.shape[1] + 1), give=0)
    return Estimates(spine=truth.spine, schema=truth.schema, query=asked, tables={where: agreed})
