"""The averaged mechanism: the mean of geometric runs that share the budget (ADPC, section 2.2 of flaxman2019)."""

from __future__ import annotations

import numpy as np

from tallyveil.errors import InputError
from tallyveil.mechanisms.noisy import People, Replicates, histogram_of, noise_parameter, noise_stream, noisy_answers
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.schema import TOTAL
from tallyveil.privacy.budget import Number
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Neighbours

MOST_PARTS = 4096  # as many queries as a stream distinguishes


def averaged(
    people: People,
    *,
    epsilon: Number,
    parts: int = 4,
    query: str = TOTAL,
    neighbours: Neighbours = "add-or-remove",
    seed: int | None = None,
    key: RunKey | None = None,
    replicate: Replicates = 0,
) -> Estimates:
    """The mean of ``parts`` independent geometric runs, each at epsilon/parts; multiples of 1/parts.

    Parameters
    ----------
    epsilon
        The privacy loss of all parts together, for add-or-remove neighbours. For replace-one neighbours the same noise
        costs 2 epsilon (erratum 10); with ``neighbours="replace-one"`` the parameter of each part is halved, so that
        epsilon holds for those.
    parts
        P in the paper, which uses 4.
    people, query, neighbours, seed, key, replicate
        As for :func:`~tallyveil.mechanisms.geometric.geometric`.

    Examples
    --------
    >>> from tallyveil.populations import uniform_tree
    >>> averaged(uniform_tree(persons=1000, mean=10, levels=2, seed=1), epsilon=1, seed=1)
    Estimates('total' at level2, 1 replicate)
    """
    if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= MOST_PARTS:
        raise InputError(f"parts must be a whole number from 1 to {MOST_PARTS:,}. Got {parts!r} instead.")
    truth = histogram_of(people)
    z, asked, leaf = noise_parameter(epsilon, neighbours) / parts, truth.schema.query(query).name, truth.spine.leaf
    stream = noise_stream(truth, "averaged", z, parts, asked, seed=seed, key=key)
    total = noisy_answers(truth, stream, z=z, query=asked, level=leaf, replicate=replicate)
    for part in range(1, parts):
        total += noisy_answers(truth, stream, z=z, query=asked, level=leaf, replicate=replicate, number=part)
    mean = np.divide(total, parts, dtype=np.float64)
    return Estimates(spine=truth.spine, schema=truth.schema, query=asked, tables={leaf: mean})
