"""Ties are broken by lot: a public order of units and cells, drawn anew for each measurement and level.

Where several whole tables are equally near, some child must get the person that another one does not get. If codes
decided that, the first children of all parents would be released too large and the last ones too small. The lot of a
unit is a hash of the measurement's identifier, the level and the unit's number in its level (SplitMix64 [1]_). All of
these are public, so whoever has the measurements computes the same release, and no lot depends on the truth, on pieces
or on threads. Measurements made by hand have no identifier; all of them share one order.

References
----------
.. [1] Steele, Lea & Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import AnyIntegers, Integers

Lots = NDArray[np.uint64]


def lots_of(identifier: str | None, level: str, units: AnyIntegers) -> Lots:
    """The lots of some units of a level, by their numbers in it."""
    digest = sha256(f"{identifier or ''}/{level}".encode()).digest()
    return redrawn(np.frombuffer(digest[:8], "<u8"), units)


def redrawn(lots: Lots, numbers: AnyIntegers) -> Lots:
    """The lots of things with these numbers, each within something that has a lot of its own.

    >>> redrawn(np.zeros(2, np.uint64), np.array([0, 1])).tolist()  # the first numbers of SplitMix64 with seed 0
    [16294208416658607535, 7960286522194355700]
    """
    word: Lots = lots + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def in_turn(lots: Lots, start: Integers) -> tuple[Integers, Integers]:
    """The positions of all things, by group and lot, and these within their groups; group g begins at ``start[g]``."""
    group = np.repeat(np.arange(len(start) - 1), np.diff(start))
    order = np.argsort(group.astype(np.uint64) << np.uint64(40) | lots >> np.uint64(24), kind="stable")
    return order, order - start[group]
