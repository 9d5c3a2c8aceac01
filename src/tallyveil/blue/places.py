r"""Estimates of places: unions of units, on or off the spine, in one pass up and without covariances of all leaves.

A place is carried up the tree as :math:`\tilde x_{place} = B_u \tilde x_u + f_u + e`, where u is a unit and e, with
covariance R, is uncorrelated with what is outside u. A unit of the place has (B, R, f) = (I, 0, 0). From children,

.. math:: B_p = C S^+, \quad R_p = \sum_c (R_c + B_c V^-_c B_c') - C S^+ C', \quad
    f_p = \sum_c (f_c + B_c x^-_c) - B_p \textstyle\sum_c x^-_c, \qquad C = \sum_c B_c V^-_c,

and at the root the variance is :math:`B \tilde V B' + R`. The same formulas with two places give their covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.linear import applied
from tallyveil.blue.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """Unions of units of a tree.

    Attributes
    ----------
    count
        The number of places.
    members
        For each stage the units that belong to places, in rising order, and the place of each. A place has no unit
        together with a unit below it.
    joint
        Whether the covariances of different places are wanted as well.
    """

    count: int
    members: Sequence[tuple[Integers, Integers]]
    joint: bool

    def among(self, number: int, units: Integers) -> tuple[Integers, Integers]:
        """The positions of members among some units of a stage, and their places."""
        member, place = self.members[number]
        order = np.argsort(units, kind="stable")
        first = np.searchsorted(units[order], member)
        first[first == len(units)] = 0
        there = np.flatnonzero(units[order][first] == member) if len(units) else np.zeros(0, np.int64)
        return order[first[there]], place[there]


def places_of(
    problem: Problem, members: Sequence[tuple[int, Integers, Integers]], count: int, *, joint: bool
) -> Places:
    """Places from their units: triples of a stage, units of it, and the place of each unit.

    Units that together are all children of a unit are replaced by it, and a bare unit by its parent, whose people it
    has.
    """
    found: list[tuple[Integers, Integers]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64)) for _ in problem.stages]
    for number, units, place in members:
        unit_before, place_before = found[number]
        found[number] = (np.concatenate([unit_before, units]), np.concatenate([place_before, place]))
    for number in range(problem.last, 0, -1):
        unit, place = found[number]
        above = problem.stages[number - 1].stage
        child, many = above.children(np.arange(above.size))
        parent = np.empty(len(child), np.int64)
        parent[child] = np.repeat(np.arange(above.size), many)
        key = parent[unit] * count + place
        different, of, here = np.unique(key, return_inverse=True, return_counts=True)
        whole = here == many[different // count]
        up_unit, up_place = found[number - 1]
        found[number - 1] = (
            np.concatenate([up_unit, different[whole] // count]),
            np.concatenate([up_place, different[whole] % count]),
        )
        found[number] = (unit[~whole[of]], place[~whole[of]])
    ordered = [(unit[order := np.lexsort((place, unit))], place[order]) for unit, place in found]
    return Places(count=count, members=ordered, joint=joint)


@dataclass(frozen=True, kw_only=True, eq=False)
class Carried:
    """Places carried up to some units, one item for each unit and place, in the order of units and then places.

    Attributes
    ----------
    unit, place
        The position of the unit among those processed, and the place.
    B, f
        What is said in the docstring of the module; without noise there is no f.
    one, other, R
        Pairs of items of one unit, and their covariance given the unit: each item with itself, or all pairs.
    """

    unit: Integers
    place: Integers
    B: Floats
    f: Floats | None
    one: Integers
    other: Integers
    R: Floats

    @cached_property
    def size(self) -> int:
        """The number of items."""
        return len(self.unit)


def members_here(problem: Problem, places: Places, number: int, units: Integers) -> Carried:
    """The members of places among some units."""
    unit, place = places.among(number, units)
    order = np.lexsort((place, unit))
    unit, place = unit[order], place[order]
    decomposition = problem.decomposition
    cells, subsets = decomposition.dense_cells, len(decomposition.subsets)
    one, other = _pairs(unit, joint=places.joint)
    return Carried(
        unit=unit,
        place=place,
        B=np.broadcast_to(np.eye(cells), (len(unit), subsets, cells, cells)),
        f=None if problem.ask is None else np.zeros((len(unit), cells, decomposition.columns)),
        one=one,
        other=other,
        R=np.zeros((len(one), subsets, cells, cells)),
    )


def lifted(
    problem: Problem,
    places: Places,
    below: Carried,
    parent: Integers,
    V: Floats,
    x: Floats | None,
    *,
    P: Floats,
    children: Floats | None,
) -> Carried:
    """Places carried from children to their parents.

    ``parent`` is that of each child; ``V`` and ``x`` are the children's own, ``P`` and ``children`` the parents'
    inverse sum of covariances and sum of estimates.
    """
    slices = problem.decomposition.slices
    key = parent[below.unit] * places.count + below.place
    different, of = np.unique(key, return_inverse=True)
    unit, place = different // places.count, different % places.count
    BV = below.B @ V[below.unit]
    C = _added(BV, of, len(different))
    B = C @ P[unit]
    f = None
    if x is not None and below.f is not None and children is not None:
        f = _added(below.f + applied(below.B, x[below.unit], slices), of, len(different))
        f = f - applied(B, children[unit], slices)
    one, other = _pairs(unit, joint=places.joint)
    within = below.R + BV[below.one] @ np.swapaxes(below.B[below.other], -1, -2)
    wanted = one * len(different) + other
    summed = _added(within, np.searchsorted(wanted, of[below.one] * len(different) + of[below.other]), len(wanted))
    R = summed - B[one] @ np.swapaxes(C[other], -1, -2)
    return Carried(unit=unit, place=place, B=B, f=f, one=one, other=other, R=R)


def stacked(parts: Sequence[Carried], starts: Sequence[int], *, joint: bool) -> Carried:
    """Places carried to several runs of units, as if they had been processed together."""
    unit = np.concatenate([part.unit + start for part, start in zip(parts, starts, strict=True)])
    place = np.concatenate([part.place for part in parts])
    order = np.lexsort((place, unit))
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    sizes = np.cumsum([0, *(part.size for part in parts)])
    one, other = (
        back[np.concatenate([getattr(part, name) + size for part, size in zip(parts, sizes[:-1], strict=True)])]
        for name in ("one", "other")
    )
    unit, place = unit[order], place[order]
    all_one, all_other = _pairs(unit, joint=joint)
    R = np.zeros((len(all_one), *parts[0].R.shape[1:]))
    R[np.searchsorted(all_one * len(unit) + all_other, one * len(unit) + other)] = np.concatenate([p.R for p in parts])
    f = None if parts[0].f is None else np.concatenate([part.f for part in parts if part.f is not None])[order]
    B = np.concatenate([part.B for part in parts])[order]
    return Carried(unit=unit, place=place, B=B, f=f, one=all_one, other=all_other, R=R)


def _pairs(unit: Integers, *, joint: bool) -> tuple[Integers, Integers]:
    """Pairs of items of the same unit, in order: each with itself, or each with each."""
    items = np.arange(len(unit))
    if not joint:
        return items, items
    starts = np.searchsorted(unit, unit, side="left")
    number = np.searchsorted(unit, unit, side="right") - starts
    one = np.repeat(items, number)
    ends = np.cumsum(number)
    return one, np.arange(len(one)) + np.repeat(starts - ends + number, number)


def _added(values: Floats, of: Integers, size: int) -> Floats:
    """Sums of values by group; a group may be empty."""
    out = np.zeros((size, *values.shape[1:]))
    order = np.argsort(of, kind="stable")
    if len(order):
        different, first = np.unique(of[order], return_index=True)
        out[different] = np.add.reduceat(values[order], first, axis=0)
    return out
