"""The averaged mechanism: the mean of geometric runs that share the budget (ADPC, section 2.2 of flaxman2019)."""

from __future__ import annotations

import numpy as np

from tallyveil.errors import InputError
from tallyveil.mechanisms.noisy import People, Replicates, noise_parameter, noise_stream, noisy_answers, people_of
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.schema import TOTAL
from tallyveil.privacy.budget import Number
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Neighbours

MOST_PARTS = 4096  # numbers of queries that a stream can tell apart


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
        What all parts spend together. It holds for add-or-remove neighbours; moving a person costs 2 epsilon (erratum
        10). With ``neighbours="replace-one"`` each part has half the parameter, and epsilon holds for them.
    parts
        P of the paper, which has 4.
    people, query, neighbours, seed, key, replicate
        As for :func:`~tallyveil.mechanisms.geometric.geometric`.

    Examples
    --------
    >>> from tallyveil.populations import uniform_tree
    >>> averaged(uniform_tree(persons=1000, mean=10, levels=2, seed=1), epsilon=1, seed=1)
    Estimates('total' at level2, 1 replicate)
    """
    if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= MOST_PARTS:
        raise InputError(f"parts is a whole number from 1 to {MOST_PARTS:,}. Got {parts!r}.")
    truth = people_of(people)
    z, asked, leaf = noise_parameter(epsilon, neighbours) / parts, truth.schema.query(query).name, truth.spine.leaf
    stream = noise_stream(truth, "averaged", z, parts, asked, seed=seed, key=key)
    total = noisy_answers(truth, stream, z=z, query=asked, level=leaf, replicate=replicate)
    for part in range(1, parts):
        total += noisy_answers(truth, stream, z=z, query=asked, level=leaf, replicate=replicate, number=part)
    mean = np.divide(total, parts, dtype=np.float64)
    return Estimates(spine=truth.spine, schema=truth.schema, query=asked, tables={leaf: mean})
