"""The synthetic population of Flaxman (2019): nested areas, and persons placed in them uniformly at random."""

from __future__ import annotations

import numpy as np

from tallyveil.errors import InputError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine

ONE_LABEL = Schema(attributes={"person": ("person",)})
MOST_AREAS = 10**7


def uniform_tree(*, persons: int = 1_000_000, mean: int = 100, levels: int = 3, seed: int) -> Population:
    r"""Persons spread evenly over a tree in which every unit has as many children as any other.

    A person's area is uniform on the finest ones, so their counts are one multinomial draw. Units have (section 2.1
    of flaxman2019)

    .. math:: C = \lfloor (N / \mu)^{1/J} \rfloor

    children each, and one where there are fewer persons than the mean. The levels are ``top``, ``level1`` and so on;
    a unit's code is its parent's and its own number.

    Parameters
    ----------
    persons
        N, how many.
    mean
        :math:`\mu`, about how many in each finest area.
    levels
        J, how many levels lie below the top.
    seed
        A whole number from 0. The same seed gives the same counts.

    Examples
    --------
    >>> uniform_tree(seed=1).people
    Histogram(top 1, level1 21, level2 441, level3 9,261; person 1)
    """
    asked = {"persons": (persons, 1), "mean": (mean, 1), "levels": (levels, 1), "seed": (seed, 0)}
    for name, (value, least) in asked.items():
        _refuse_unless_whole(name, value, least)
    children = _children(int(persons), int(mean), int(levels))
    areas = children ** int(levels)
    if areas > MOST_AREAS:
        raise InputError(f"persons {persons:,} with mean {mean:,} make {areas:,} areas. Give a larger mean.")
    rng = np.random.Generator(np.random.PCG64(int(seed)))
    counts = rng.multinomial(int(persons), np.full(areas, 1 / areas))
    people = Histogram(spine=_tree(children, int(levels)), schema=ONE_LABEL, leaves=Counts.from_dense(counts[:, None]))
    return Population(people=people)


def _children(persons: int, mean: int, levels: int) -> int:
    """Largest C with C^J <= N / mu, in whole numbers: a floating root of 1000 is 9.99."""
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


def _refuse_unless_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} is {value!r}, not a whole number. Give one from {least}.")
    if value < least:
        raise InputError(f"{name} is {value:,}, too small. Give a whole number from {least}.")
