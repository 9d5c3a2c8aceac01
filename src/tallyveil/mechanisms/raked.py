"""The raked mechanism: noise at every level, each level scaled to the one above (RDPC, section 2.2 of flaxman2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.mechanisms.noisy import People, Replicates, histogram_of, noise_parameter, noise_stream, noisy_answers
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.schema import TOTAL
from tallyveil.privacy.budget import Number
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Neighbours


def raked(
    people: People,
    *,
    epsilon: Number,
    query: str = TOTAL,
    neighbours: Neighbours = "add-or-remove",
    seed: int | None = None,
    key: RunKey | None = None,
    replicate: Replicates = 0,
) -> Estimates:
    """Noisy counts of every level, scaled from the root down so that children sum to their parent, row by row.

    Each of the J + 1 levels, including the root, spends epsilon/(J + 1). Where the noisy counts of a parent's children
    sum to 0, no scaling exists (the paper does not discuss this case), and they share the difference to the parent's
    count equally. Where they sum to nearly 0, the scaled counts are huge, as in the paper's mechanism.

    Parameters
    ----------
    epsilon
        The privacy loss of all levels together, for add-or-remove neighbours, where a person changes one count of each
        level. Replacing a person changes two counts of each level except the root's total, which costs 2J/(J + 1)
        epsilon (1.5 epsilon for J = 3, erratum 10), or 2 epsilon for a query that has several rows at the root. With
        ``neighbours="replace-one"`` the parameter is halved, and replacing a person costs at most epsilon.
    people, query, neighbours, seed, key, replicate
        As for :func:`~tallyveil.mechanisms.geometric.geometric`.

    Returns
    -------
    Estimates
        All levels.

    Examples
    --------
    >>> from tallyveil.populations import uniform_tree
    >>> raked(uniform_tree(persons=1000, mean=10, levels=2, seed=1), epsilon=1, seed=1)
    Estimates('total' at top, level1, level2, 1 replicate)
    """
    truth = histogram_of(people)
    spine, asked = truth.spine, truth.schema.query(query).name
    z = noise_parameter(epsilon, neighbours) / len(spine.levels)
    stream = noise_stream(truth, "raked", z, asked, seed=seed, key=key)
    tables: dict[str, NDArray[Any]] = {}
    for depth, level in enumerate(spine.levels):
        noisy = noisy_answers(truth, stream, z=z, query=asked, level=level, replicate=replicate).astype(np.float64)
        above = tables[spine.levels[depth - 1]] if depth else noisy
        tables[level] = rake(noisy, above, spine.first_child[depth - 1]) if depth else noisy
    return Estimates(spine=spine, schema=truth.schema, query=asked, tables=tables)


def rake(noisy: Floats, parents: Floats, first_child: Integers) -> Floats:
    """Scale children to sum to their parents, along the middle axis; where they sum to 0, add equal amounts instead.

    >>> children, parent = np.array([[[1.0], [3.0]], [[-2.0], [2.0]]]), np.array([[[8.0]], [[8.0]]])
    >>> rake(children, parent, np.array([0, 2]))[:, :, 0].tolist()
    [[2.0, 6.0], [2.0, 6.0]]
    """
    families = np.diff(first_child)
    sums = np.add.reduceat(noisy, first_child[:-1], axis=1)
    lost = sums == 0
    factor = np.where(lost, 1.0, parents / np.where(lost, 1.0, sums))
    addition = np.where(lost, parents / families[None, :, None], 0.0)
    scaled: Floats = noisy * np.repeat(factor, families, axis=1) + np.repeat(addition, families, axis=1)
    return scaled
