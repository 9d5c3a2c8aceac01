"""A tree in which units that are alike are listed once, so that variances of a large tree are quick to compute.

Two units are alike if they have the same open cells, pay for the same levels, and have alike children, as many of each
kind. What their subtrees say about them then has the same covariance. Going down, alike children of one parent share
everything. The compressed tree is exact. Only where a stage would still have more than ``MOST`` numbers, neighbours by
size share one representative among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.blue.problem import Problem, StageInformation

MOST = 1 << 24  # numbers in the covariances of a stage: 128 MiB


@dataclass(frozen=True, kw_only=True, eq=False)
class AlikeStage:
    """The nodes of one stage: each stands for units that are alike.

    Attributes
    ----------
    kind, bare, base
        The kind of each node, and whether it is bare or base (``StageInformation``).
    parent
        The node above, in the stage above.
    times
        How many children of one parent unit each node stands for.
    units
        How many units each node stands for in all.
    """

    kind: Integers
    bare: Bools
    base: Bools
    parent: Integers
    times: Floats
    units: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class _Classes:
    """The classes of alike units of a stage: the kind of each, its leaves, and its children by class."""

    kind: Integers
    bare: Bools
    base: Bools
    leaves: Floats
    of_unit: Integers
    first: Integers  # the children of class c are child[first[c] : first[c + 1]]
    child: Integers
    many: Integers


def alike_tree(problem: Problem, *, most: int = MOST) -> tuple[AlikeStage, ...]:
    """The stages of a problem with alike units listed once, from the root down."""
    decomposition = problem.decomposition
    numbers = decomposition.dense_cells**2 * len(decomposition.subsets)
    classes: list[_Classes] = []
    for information in reversed(problem.stages):
        classes.insert(0, _classes(information, classes[0] if classes else None))
    node, parent = classes[0].of_unit, np.zeros(1, np.int64)
    times, units = np.ones(1), np.ones(1)
    stages = []
    for depth, here in enumerate(classes):
        stages.append(
            AlikeStage(
                kind=here.kind[node],
                bare=here.bare[node],
                base=here.base[node],
                parent=parent,
                times=times,
                units=units,
            )
        )
        if depth + 1 < len(classes):
            node, parent, times = _children(here, node)
            node, parent, times = _thinned(node, parent, times, classes[depth + 1].leaves, max(1, most // numbers))
            units = units[parent] * times
    return tuple(stages)


def _classes(information: StageInformation, below: _Classes | None) -> _Classes:
    """The classes of a stage, given those of the stage below it."""
    stage = information.stage
    flags = information.kind * 4 + information.bare * 2 + information.base
    if below is None:
        alike, of_unit = np.unique(flags, return_inverse=True)
        none = np.zeros(0, np.int64)
        first, leaves = np.zeros(len(alike) + 1, np.int64), np.ones(len(alike))
        child, many = none, none
    else:
        units = np.arange(stage.size)
        children, number = stage.children(units)
        pairs = np.repeat(units, number) * (int(below.of_unit.max()) + 1) + below.of_unit[children]
        pair, count = np.unique(pairs, return_counts=True)
        owner, place = np.divmod(pair, int(below.of_unit.max()) + 1)
        bounds = np.searchsorted(owner, np.arange(stage.size + 1))
        table = np.stack([place, count], axis=1)
        known: dict[tuple[int, bytes], int] = {}
        of_unit = np.empty(stage.size, np.int64)
        examples = []
        for unit in range(stage.size):
            key = int(flags[unit]), table[bounds[unit] : bounds[unit + 1]].tobytes()
            if key not in known:
                known[key] = len(known)
                examples.append(unit)
            of_unit[unit] = known[key]
        alike = flags[examples]
        runs = [np.arange(bounds[unit], bounds[unit + 1]) for unit in examples]
        first = np.concatenate([[0], np.cumsum([len(run) for run in runs])]).astype(np.int64)
        chosen = np.concatenate(runs)
        child, many = place[chosen], count[chosen]
        leaves = np.add.reduceat(below.leaves[child] * many, first[:-1])
    return _Classes(
        kind=alike // 4,
        bare=(alike // 2) % 2 == 1,
        base=alike % 2 == 1,
        leaves=leaves,
        of_unit=of_unit.reshape(-1),
        first=first,
        child=child,
        many=many,
    )


def _children(here: _Classes, node: Integers) -> tuple[Integers, Integers, Floats]:
    """The nodes below some nodes: their classes, parents and how many siblings each stands for."""
    number = np.diff(here.first)[node]
    ends = np.cumsum(number)
    place = np.arange(int(ends[-1])) + np.repeat(here.first[node] - ends + number, number)
    return here.child[place], np.repeat(np.arange(len(node)), number), here.many[place].astype(np.float64)


def _thinned(
    node: Integers, parent: Integers, times: Floats, leaves: Floats, most: int
) -> tuple[Integers, Integers, Floats]:
    """At most about ``most`` nodes: siblings in order of size, of which one in the middle stands for its neighbours."""
    if len(node) <= most:
        return node, parent, times
    together = -(-len(node) // most)
    order = np.lexsort((leaves[node], parent))
    node, parent, times = node[order], parent[order], times[order]
    starts = np.searchsorted(parent, parent)  # where the siblings of each begin
    group = (np.arange(len(node)) - starts) // together
    first = np.flatnonzero(np.diff(parent * len(node) + group, prepend=-1))
    middle = (first + np.append(first[1:], len(node)) - 1) // 2
    return node[middle], parent[middle], np.add.reduceat(times, first)
