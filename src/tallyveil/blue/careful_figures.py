"""Figures of units and places from the solution in square-root form (``careful``): sums of squares, no differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.blue.belief import Posterior
from tallyveil.blue.careful import CarefulSubset, Family, LeafGroup, Level
from tallyveil.blue.decomposition import Marginal
from tallyveil.blue.places import Places
from tallyveil.blue.problem import Problem
from tallyveil.nouns.schema import Query

UNKNOWN = 1e-7  # a row that has more than this of an unknown direction is not determined
EXACT = 1e-11  # a standard deviation below this share of that of perfectly correlated cells is that of an exact sum


def determined(problem: Problem, number: int, query: Query) -> bool:
    """Whether the measurements determine a query for every unit of a stage."""
    marginal = problem.decomposition.marginal(query)
    needed: Bools = marginal.squares.max(axis=1) > 0
    return not any(
        _unknown(marginal.dense, U).any()
        for subset, levels in enumerate(problem.careful.levels)
        if needed[subset]
        for U in levels[number].U
    )


def answers_of_stage(
    problem: Problem, number: int, queries: Sequence[Query]
) -> tuple[Integers, Mapping[str, Floats], Mapping[str, Floats]]:
    """The answers to queries for all units of a stage, and their variances: unit ``i`` has row ``of[i]`` of these."""
    levels = [one[number] for one in problem.careful.levels]
    x = np.concatenate([one.x for one in levels], axis=2)
    marginals = {query.name: problem.decomposition.marginal(query) for query in queries}
    answers = {} if problem.ask is None else {name: one.answers(x) for name, one in marginals.items()}
    variances = {name: marginal.variances_of_dense(_squares(levels, marginal)) for name, marginal in marginals.items()}
    return levels[0].of, answers, variances


def _squares(levels: Sequence[Level], marginal: Marginal) -> Floats:
    """The variances of dense rows: groups of units x subsets x dense rows."""
    return np.stack(
        [np.stack([_lengths(marginal.dense, F) for F in one.F]) for one in levels],
        axis=1,
    )


def _lengths(rows: Floats, F: Floats) -> Floats:
    """The variances of rows with the covariance FF', with zeros where rounding left something."""
    squares = ((rows @ F) ** 2).sum(axis=1)
    most = np.abs(rows) @ np.sqrt((F**2).sum(axis=1))
    squares[squares <= (EXACT * most) ** 2] = 0.0
    out: Floats = squares
    return out


def _unknown(rows: Floats, U: Floats) -> Bools:
    """Which rows have a part in unknown directions."""
    lengths: Bools = np.sqrt(((rows @ U) ** 2).sum(axis=1)) > UNKNOWN * np.maximum(np.sqrt((rows**2).sum(axis=1)), 1.0)
    return lengths


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseRows:
    """Estimates of dense rows of places.

    Attributes
    ----------
    x
        Places x dense rows x columns.
    covariance
        (Places x) places x subsets x dense rows x dense rows; those of each place alone unless they are joint.
    unknown
        Places x subsets x dense rows that are not determined.
    """

    x: Floats
    covariance: Floats
    unknown: Bools


def rows_of_places(problem: Problem, places: Places, rows: Floats) -> DenseRows:
    """The estimates of dense rows of places from everything, with their covariances."""
    careful, size = problem.careful, len(rows)
    shape = (places.count, places.count) if places.joint else (places.count,)
    covariance = np.zeros((*shape, len(careful.subsets), size, size))
    unknown = np.zeros((places.count, len(careful.subsets), size), np.bool_)
    parts = []
    for number, subset in enumerate(careful.subsets):
        carrying = _Carrying(
            rows=rows,
            x=np.zeros((places.count, size, subset.width)),
            covariance=covariance[..., number, :, :],
            unknown=unknown[:, number],
            joint=places.joint,
        )
        _carry(carrying, problem, places, subset)
        parts.append(carrying.x)
    return DenseRows(x=np.concatenate(parts, axis=2), covariance=covariance, unknown=unknown)


Items = dict[int, tuple[Floats, Floats]]  # by place, B and f: the rows of the place are B s + f + noise


@dataclass(frozen=True, kw_only=True, eq=False)
class _Carrying:
    """Rows of places in one subset while they are carried up the tree, as in ``places``."""

    rows: Floats
    x: Floats
    covariance: Floats
    unknown: Bools
    joint: bool
    at: dict[tuple[int, int], Items] = field(default_factory=lambda: defaultdict(dict))  # by stage and unit

    def add_noise(self, places: Sequence[int], factors: Floats, weights: Floats | None = None) -> None:
        """Add noise with these factors (places x rows x terms); ``weights`` of pairs of places, or 1."""
        for i, one in enumerate(places):
            for j, other in enumerate(places) if self.joint else ((i, one),):
                weight = 1.0 if weights is None else weights[i, j]
                self.covariance[(one, other) if self.joint else one] += weight * (factors[i] @ factors[j].T)


def _carry(carrying: _Carrying, problem: Problem, places: Places, subset: CarefulSubset) -> None:
    root, families = subset.up
    width = carrying.x.shape[2]
    nothing = np.zeros((len(carrying.rows), width))
    for number in range(problem.last + 1):
        for unit, place in zip(*places.members[number], strict=True):
            carrying.at[number, int(unit)][int(place)] = (carrying.rows, nothing)
    for number in range(problem.last - 1, -1, -1):
        for unit, family in enumerate(families[number]):
            items = _through_family(carrying, family, number)
            carrying.at[number, unit].update(items)
    _at_root(carrying, root.posterior(), carrying.at[0, 0])


def _at_root(carrying: _Carrying, root: Posterior, items: Items) -> None:
    if not items:
        return
    chosen = list(items)
    carrying.add_noise(chosen, np.stack([B @ root.F for B, _ in items.values()]))
    for place, (B, f) in items.items():
        carrying.x[place] = B @ root.mean + f
        carrying.unknown[place] |= _unknown(B, root.U)


def _through_family(carrying: _Carrying, family: Family, number: int) -> Items:
    """What is carried to a unit from its children."""
    parts = [
        _through_group(carrying, child, number + 1) if isinstance(child, LeafGroup) else carrying.at[number + 1, child]
        for child in family.children
    ]
    items = parts[0]
    for split, new in zip(family.splits, parts[1:], strict=True):
        there = list(dict.fromkeys([*items, *new]))
        if not there:
            continue
        factors, up = [], {}
        for place in there:
            sides = [one.get(place) for one in (items, new)]
            coefficients = np.concatenate(
                [
                    np.zeros((len(carrying.rows), part.N.shape[1])) if side is None else side[0] @ part.N
                    for side, part in zip(sides, split.parts, strict=True)
                ],
                axis=1,
            )
            f = sum(side[1] + side[0] @ part.a for side, part in zip(sides, split.parts, strict=True) if side)
            B = coefficients @ split.G @ split.N.T
            up[place] = (B, f + coefficients @ split.g - B @ split.a)
            factors.append(coefficients @ split.H)
            carrying.unknown[place] |= _unknown(coefficients, split.Z)
        carrying.add_noise(there, np.stack(factors))
        items = up
    return items


def _through_group(carrying: _Carrying, group: LeafGroup, number: int) -> Items:
    """What is carried from leaves of one kind to their sum."""
    inside = [carrying.at.get((number, leaf), {}) for leaf in group.leaves.tolist()]
    there = list(dict.fromkeys(place for items in inside for place in items))
    if not there:
        return {}
    member = np.array([[place in items for items in inside] for place in there], float)
    many, sizes = len(group.leaves), member.sum(axis=1)
    factor = carrying.rows @ group.one.spread
    weights = (many * (member @ member.T) - np.outer(sizes, sizes)) / many  # whole numbers but for the division
    carrying.add_noise(there, np.broadcast_to(factor, (len(there), *factor.shape)), weights)
    items = {}
    mean_z = group.z.sum(axis=0) / many
    for place, chosen, size in zip(there, member, sizes, strict=True):
        a, z = (np.tensordot(chosen, table, axes=1) for table in (group.a, group.z))
        x = a - size / many * group.total.a + group.one.moved(z - size * mean_z)
        items[place] = (carrying.rows * (size / many), carrying.rows @ x)
        if size < many:
            carrying.unknown[place] |= _unknown(carrying.rows, group.one.unseen)
    return items
