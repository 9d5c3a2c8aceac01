"""The synthetic population of Flaxman (2019): nested areas, and persons placed in them uniformly at random."""

from __future__ import annotations

import numpy as np

from tallyveil.errors import InputError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.populations.arguments import whole_number

ONE_LABEL = Schema(attributes={"person": ("person",)})
MOST_AREAS = 10**7


def uniform_tree(*, persons: int = 1_000_000, mean: int = 100, levels: int = 3, seed: int) -> Population:
    r"""Generate persons spread uniformly over a tree in which all units have the same number of children.

    The area of a person is uniform over the areas of the finest level, so the counts are one multinomial draw. The
    number of children of a unit is (section 2.1 of flaxman2019)

    .. math:: C = \lfloor (N / \mu)^{1/J} \rfloor

    and 1 if there are fewer persons than the mean. The levels are ``top``, ``level1`` and so on. The code of a unit is
    that of its parent followed by its own number.

    Parameters
    ----------
    persons
        N, the number of persons.
    mean
        :math:`\mu`, the approximate mean number of persons in an area of the finest level.
    levels
        J, the number of levels below the top.
    seed
        An integer, 0 or more. The same seed gives the same counts.

    Examples
    --------
    >>> uniform_tree(seed=1).people
    Histogram(top 1, level1 21, level2 441, level3 9,261; person 1)
    """
    persons = whole_number("persons", persons, least=1)
    mean = whole_number("mean", mean, least=1)
    levels = whole_number("levels", levels, least=1)
    rng = np.random.Generator(np.random.PCG64(whole_number("seed", seed, least=0)))
    children = _children(persons, mean, levels)
    areas = children**levels
    if areas > MOST_AREAS:
        raise InputError(f"persons {persons:,} with mean {mean:,} make {areas:,} areas. Give a larger mean.")
    counts = rng.multinomial(persons, np.full(areas, 1 / areas))
    people = Histogram(spine=_tree(children, levels), schema=ONE_LABEL, leaves=Counts.from_dense(counts[:, None]))
    return Population(people=people)


def _children(persons: int, mean: int, levels: int) -> int:
    """Return the largest C with C^J <= N / mu, in integers: the floating-point cube root of 1000 is 9.99..."""
    children = max(1, round((persons / mean) ** (1 / levels)))
    while children > 1 and children**levels * mean > persons:
        children -= 1
    return int(children)


def _tree(children: int, levels: int) -> Spine:
    digits = len(str(children - 1))
    leaves = np.arange(children**levels)
    codes = np.full(len(leaves), b"", dtype="S1")
    columns = {}
    for level in range(1, levels + 1):
        own = leaves // children ** (levels - level) % children
        codes = np.char.add(codes, np.char.zfill(own.astype(f"S{digits}"), digits))
        columns[f"level{level}"] = codes
    return Spine.from_columns(columns, root="top")
