"""The geometric mechanism: noise on every count of the finest units (GDPC, section 2.2 of flaxman2019)."""

from __future__ import annotations

from tallyveil.mechanisms.noisy import People, Replicates, histogram_of, noise_parameter, noise_stream, noisy_answers
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.schema import TOTAL
from tallyveil.privacy.budget import Number
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Neighbours


def geometric(
    people: People,
    *,
    epsilon: Number,
    query: str = TOTAL,
    neighbours: Neighbours = "add-or-remove",
    seed: int | None = None,
    key: RunKey | None = None,
    replicate: Replicates = 0,
) -> Estimates:
    """Add G(z) noise to every count of a query at the leaves; the results are whole numbers, some negative.

    The noise is G(z) itself, with ratio exp(-z); the authors' notebooks drew ratio 1 - z (erratum 1).

    Parameters
    ----------
    people
        The counts, or a synthetic census.
    epsilon
        The privacy loss. For add-or-remove neighbours, as in the paper, z is epsilon: adding or removing a person
        changes one count by 1. Replacing a person changes two counts, so under replace-one neighbours the same noise
        costs 2 epsilon (erratum 10); with ``neighbours="replace-one"`` z is epsilon/2, so that epsilon holds for those.
    query
        What is counted in each leaf.
    neighbours
        The neighbours for which epsilon holds.
    seed, key
        The source of randomness, the operating system by default; a seed is for research.
    replicate
        Which sample of the noise to draw. A range gives one replicate for each number, the same as one call each.

    Examples
    --------
    >>> from tallyveil.populations import uniform_tree
    >>> geometric(uniform_tree(persons=1000, mean=10, levels=2, seed=1), epsilon=1, seed=1, replicate=range(3))
    Estimates('total' at level2, 3 replicates)
    """
    truth = histogram_of(people)
    z, asked, leaf = noise_parameter(epsilon, neighbours), truth.schema.query(query).name, truth.spine.leaf
    stream = noise_stream(truth, "geometric", z, asked, seed=seed, key=key)
    noisy = noisy_answers(truth, stream, z=z, query=asked, level=leaf, replicate=replicate)
    return Estimates(spine=truth.spine, schema=truth.schema, query=asked, tables={leaf: noisy})
