"""Decide before any noise is drawn whether constraints can hold, from bounds, invariants and structural zeros alone.

First each unit is checked on its own, from the leaves up, with the bounds carried up to it (``run_limits``): no row may
have a least above its most. Where that is not conclusive (``RunLimits.sums_decide``), an integer program looks for one
set of counts on the whole tree that satisfies everything. The program has few variables: cells that no constraint
distinguishes are merged, and levels below the lowest constrained one are left out. A tree too large for the program is
not decided: then only its root is checked, and a conflict further down, if there is one, shows up during the run.

The data are not used. Data that satisfy all constraints prove that the constraints can hold, so a run that checks the
data needs no program.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tallyveil.engine.conflict import first_conflict, listed
from tallyveil.engine.constraints import LevelLimits
from tallyveil.engine.integer_program import bound_rows, whole_solution
from tallyveil.engine.nests import root_nest
from tallyveil.engine.run_limits import RunLimits
from tallyveil.errors import InputError
from tallyveil.nouns.spine import Spine

LARGEST = 1 << 19  # variables of the program: beyond, it takes minutes
_TRIED = 200  # units of a level that are tried one by one, to name the smallest part of the tree in conflict

Own = Sequence[tuple[int, LevelLimits]]


def check_feasible(limits: RunLimits, *, exactly: bool = True) -> None:
    """Refuse constraints that no counts can keep; the error names unit, level and constraints.

    Without ``exactly``, only the bounds of each unit are compared with each other, which is quick for any tree.
    """
    for level in reversed(limits.measured.levels):
        for bounds in limits.carried[level]:
            _refuse_empty_ranges(bounds, level, limits)
    if exactly and not limits.sums_decide:
        _refuse_by_program(limits)
        _refuse_at_root(limits)


def _refuse_empty_ranges(bounds: LevelLimits, level: str, limits: RunLimits) -> None:
    for first, least, most in bounds.by_chunks():
        empty = np.argwhere(least > most)
        if len(empty):
            owner, row = map(int, empty[0])
            unit = limits.unit(level, first + owner, owner=bounds.owner is not None)
            words = dict.fromkeys(words for other in limits.carried[level] for words in other.words)
            raise InputError(
                f"the constraints cannot hold: {unit} would have at least {least[owner, row]:,} and at most "
                f"{most[owner, row]:,} in {bounds.query.labels()[row]!r} of {bounds.query.name!r} "
                f"({'; '.join(words)}). Loosen a constraint."
            )


def _refuse_by_program(limits: RunLimits) -> None:
    own = [(depth, bounds) for depth, level in enumerate(limits.measured.levels) for bounds in limits.own[level]]
    if _fits(limits, own, 0, 0) is not False:
        return
    depth, unit = _smallest_part(limits, own)
    below = [pair for pair in own if pair[0] >= depth]
    subsets = (subset for size in range(1, len(below) + 1) for subset in combinations(below, size))
    fewest = next(subset for subset in subsets if _fits(limits, subset, depth, unit) is False)
    words = dict.fromkeys(bounds.name for _, bounds in fewest)
    raise InputError(
        f"the constraints cannot hold: no counts of {limits.unit(limits.measured.levels[depth], unit)} and the units "
        f"in it keep {listed(list(words))}. Loosen one of them."
    )


def _refuse_at_root(limits: RunLimits) -> None:
    """Refuse bounds on the root that no counts keep together, where the tree is too large for the program."""
    level, nests = limits.measured.levels[0], root_nest(limits.possible)
    conflict = first_conflict(nests, [limit.of_children(nests.child) for limit in limits.carried[level]])
    if conflict is not None:
        raise InputError(f"level {level!r}: {conflict.words}. Loosen a constraint.")


def _smallest_part(limits: RunLimits, own: Own) -> tuple[int, int]:
    """Depth and position of a unit in which the constraints cannot hold, though they can in each of its children."""
    spine, depth, unit = limits.measured, 0, 0
    while depth + 1 < len(spine.levels):
        children = range(int(spine.first_child[depth][unit]), int(spine.first_child[depth][unit + 1]))
        inside = [pair for pair in own if pair[0] > depth]
        tried = children if len(children) <= _TRIED and inside else range(0)
        infeasible = next((child for child in tried if _fits(limits, inside, depth + 1, child) is False), None)
        if infeasible is None:
            break
        depth, unit = depth + 1, infeasible
    return depth, unit


def _fits(limits: RunLimits, own: Own, depth: int, unit: int) -> bool | None:
    """Whether some whole counts inside a unit keep these bounds on the units in it; None if it is too large to tell.

    Bounds on several parts together are considered only where the unit is the root.
    """
    spine = limits.measured
    own = [(top, bounds) for top, bounds in own if top >= depth and (bounds.owner is None or depth == 0)]
    if not own:
        return True
    deepest = max(top for top, _ in own)
    first, last = units_inside(spine, depth, unit, deepest)
    cell = np.flatnonzero(limits.possible)
    row = np.unique(np.stack([bounds.query.row_of_cell[cell] for _, bounds in own]), axis=1)
    groups, units = row.shape[1], last - first
    if units * groups > LARGEST:
        return None
    rows = []
    for row_of_group, (top, bounds) in zip(row, own, strict=True):
        ancestor = np.arange(first, last)
        for higher in range(deepest - 1, top - 1, -1):
            ancestor = np.searchsorted(spine.first_child[higher], ancestor, side="right") - 1
        owners, owner = np.unique(ancestor if bounds.owner is None else bounds.owner[ancestor], return_inverse=True)
        rows.append(bound_rows(owner.reshape(-1), row_of_group, *bounds.of(owners)))
    if units * groups == 0:
        return all((least <= 0).all() for _, least, _ in rows)
    return whole_solution(np.zeros(units * groups), rows) is not None


def units_inside(spine: Spine, depth: int, unit: int, deepest: int) -> tuple[int, int]:
    """The first and last (excluded) unit at depth ``deepest`` that lie in a unit."""
    first, last = unit, unit + 1
    for first_child in spine.first_child[depth:deepest]:
        first, last = int(first_child[first]), int(first_child[last])
    return first, last
