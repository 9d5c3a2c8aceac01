"""Feasible: whether the children of a nest can keep all limits, and what is in conflict if not.

A nest is feasible if some table of whole numbers keeps its limits and sums to the parent. With one kind of limits this
is an interval check for each row of its query, made for all nests in one kernel. With several kinds it is an integer
program on few variables: cells that no limit tells apart are one, and so are children. (Any whole numbers for merged
cells and children can be dealt out to the cells and children themselves: that is a table with given margins.) A program
is solved only for nests where a first, greedy attempt at such a table fails.

What is done about a conflict is in ``relax``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil._compiled import compiled
from tallyveil.engine.nests import UNLIMITED, Limits, Nests
from tallyveil.errors import TallyveilError

OPTIMAL, INFEASIBLE = 0, 2  # statuses of scipy.optimize.milp


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Limits that the children of a nest cannot keep together; ``row`` is known where one kind alone is impossible."""

    nest: int
    limits: tuple[str, ...]
    row: int | None
    words: str


def first_conflict(nests: Nests, limits: Sequence[Limits]) -> Conflict | None:
    """The first nest that no table of whole numbers fits, and what is in conflict there; None if all are feasible."""
    return next(conflicts(nests, limits), None)


def conflicts(nests: Nests, limits: Sequence[Limits]) -> Iterator[Conflict]:
    """All nests that no table of whole numbers fits, in order, and what is in conflict in each."""
    broken, binding = _broken_rows(nests, limits)
    alone = (broken >= 0).any(axis=0)
    several = ~alone & (binding.sum(axis=0) >= 2)
    several &= ~_filled(nests, limits, several)
    for p in np.flatnonzero(alone | several).tolist():
        if several[p]:
            conflict = _conflict_of_several(nests, limits, p)
            if conflict is not None:
                yield conflict
        else:
            k = int(np.argmax(broken[:, p] >= 0))
            nest, (limit,) = only_nest(nests, [limits[k]], p)
            row = int(broken[k, p])
            yield Conflict(nest=p, limits=(limit.name,), row=row, words=_words_of_row(nest, limit, row))


def _conflict_of_several(nests: Nests, limits: Sequence[Limits], p: int) -> Conflict | None:
    """The conflict between kinds in a nest where none is impossible alone."""
    nest, own = only_nest(nests, limits, p)
    if _fits(nest, own):
        return None
    names = smallest(own, lambda some: not _fits(nest, some), least=2)
    return Conflict(nest=p, limits=names, row=None, words=_words_of_several(nest, names))


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Limits of one nest as ``least <= matrix u <= most``, where u has an entry for each bundle and group.

    A group is the cells, and a bundle the children, that no limit tells apart. Entries run bundle after bundle.
    """

    group: Integers  # of each cell
    bundles: int
    groups: int
    matrix: sp.csr_matrix
    least: Floats
    most: Floats

    def sums(self) -> sp.csr_matrix:
        """The matrix that adds the bundles up, group by group."""
        return sp.csr_matrix(sp.kron(np.ones((1, self.bundles)), sp.identity(self.groups)))


def rows_of(limits: Sequence[Limits], cell: Integers, apart: Sequence[NDArray[np.int32]] = ()) -> Rows:
    """The limits of a nest that stands alone, on these cells; groups also keep apart what some partitions do."""
    keys = np.stack([*(one.row_of_cell[cell] for one in limits), *(rows[cell] for rows in apart)])
    row, group = np.unique(keys, axis=1, return_inverse=True)
    owner = np.unique(np.stack([one.owner for one in limits]), axis=1)
    kinds, groups, bundles = len(limits), row.shape[1], owner.shape[1]
    parts, least, most = [], [], []
    for k in range(kinds):
        owners, rows = limits[k].least.shape
        slot = (owner[k][:, None] * rows + row[k]).reshape(-1)
        member = sp.csr_matrix((np.ones(len(slot)), (slot, np.arange(len(slot)))), shape=(owners * rows, len(slot)))
        low, high = limits[k].least.reshape(-1), limits[k].most.reshape(-1)
        asks = (low > 0) | (high < UNLIMITED)
        parts.append(member[asks])
        least.append(low[asks].astype(np.float64))
        most.append(np.where(high < UNLIMITED, high, np.inf)[asks])
    return Rows(
        group=group.reshape(-1),
        bundles=bundles,
        groups=groups,
        matrix=sp.vstack(parts, format="csr"),
        least=np.concatenate(least),
        most=np.concatenate(most),
    )


def _fits(nest: Nests, limits: Sequence[Limits]) -> bool:
    """Whether some whole numbers keep these limits and sum to the parent."""
    rows = rows_of(limits, nest.cell)
    size = rows.bundles * rows.groups
    matrix, least, most = [rows.matrix], [rows.least], [rows.most]
    if nest.count[0] >= 0:
        matrix.append(rows.sums())
        least.append(np.bincount(rows.group, nest.count, rows.groups).astype(np.float64))
        most.append(least[-1])
    found = whole_solution(np.zeros(size), matrix, least, most, np.full(size, np.inf))
    return found is not None


def whole_solution(
    cost: Floats, matrix: Sequence[sp.csr_matrix], least: Sequence[Floats], most: Sequence[Floats], high: Floats
) -> Integers | None:
    """Whole numbers z of least cost with least <= matrix z <= most and 0 <= z <= high; None if there are none."""
    rows, lower, upper = sp.vstack(matrix, format="csr"), np.concatenate(least), np.concatenate(most)
    result = milp(
        cost,
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, high),
        constraints=LinearConstraint(rows, lower, upper),
        options={"mip_rel_gap": 0.0},
    )
    if result.status == INFEASIBLE:
        return None
    if result.status != OPTIMAL:
        raise TallyveilError(f"the integer program stopped with {result.message!r}. Report this.")
    z = np.rint(result.x)
    reached = rows @ z  # whole numbers below 2^53: exact
    if (z < 0).any() or (z > high).any() or (reached < lower).any() or (reached > upper).any():
        raise TallyveilError("the integer program's answer breaks a constraint once rounded. Report this.")
    whole: Integers = z.astype(np.int64)
    return whole


def smallest(limits: Sequence[Limits], impossible: Callable[[list[Limits]], bool], *, least: int) -> tuple[str, ...]:
    """Names of the fewest kinds that are impossible together; all of them are known to be."""
    for size in range(least, len(limits)):
        for some in combinations(limits, size):
            if impossible(list(some)):
                return tuple(one.name for one in some)
    return tuple(one.name for one in limits)


def only_nest(nests: Nests, limits: Sequence[Limits], p: int) -> tuple[Nests, list[Limits]]:
    """One nest and its limits, as if there were no others."""
    children = slice(nests.child_start[p], nests.child_start[p + 1])
    cells = slice(nests.cell_start[p], nests.cell_start[p + 1])
    nest = Nests(
        child_start=np.array([0, children.stop - children.start]),
        child=nests.child[children],
        cell_start=np.array([0, cells.stop - cells.start]),
        cell=nests.cell[cells],
        count=nests.count[cells],
        block_start=np.array([0, nests.block_start[p + 1] - nests.block_start[p]]),
    )
    own = []
    for limit in limits:
        owners, owner = np.unique(limit.owner[children], return_inverse=True)
        own.append(replace(limit, least=limit.least[owners], most=limit.most[owners], owner=owner))
    return nest, own


def _words_of_row(nest: Nests, limit: Limits, row: int) -> str:
    least, most = np.maximum(limit.least[:, row], 0), limit.most[:, row]
    if (least > most).any():
        o = int(np.argmax(least > most))
        return f"{limit.name}, row {row}: a child must have at least {least[o]:,} and at most {most[o]:,}"
    inside = limit.row_of_cell[nest.cell] == row
    if len(nest.count) and nest.count[0] < 0:
        return f"{limit.name}, row {row}: at least {least.sum():,} are asked for, but all its cells are impossible"
    whole = nest.count[inside].sum()
    if least.sum() > whole:
        return f"{limit.name}, row {row}: the parent has {whole:,}, but its children must have at least {least.sum():,}"
    return f"{limit.name}, row {row}: the parent has {whole:,}, but its children have room for {most.sum():,}"


def _words_of_several(nest: Nests, names: Sequence[str]) -> str:
    parent = " while summing to the parent" if nest.count[0] >= 0 else ""
    return f"{listed(names)}: the children can keep each, but not all together{parent}"


def listed(names: Sequence[str]) -> str:
    """Names in words: one, two and three."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _broken_rows(nests: Nests, limits: Sequence[Limits]) -> tuple[Integers, Bools]:
    """For each kind and nest the first row that it alone makes impossible (-1: none), and where it binds at all."""
    binding = np.zeros((len(limits), len(nests)), np.bool_)
    broken = np.full((len(limits), len(nests)), -1, np.int64)
    for k, limit in enumerate(limits):
        _mark_broken_rows(
            nests.child_start, nests.cell_start, nests.cell, nests.count,
            limit.row_of_cell, limit.owner, limit.least, limit.most, binding[k], broken[k],
        )  # fmt: skip
    return broken, binding


def _filled(nests: Nests, limits: Sequence[Limits], wanted: Bools) -> Bools:
    """Which of the wanted nests a greedy table fits. No proof that the others have none."""
    filled = np.zeros(len(nests), np.bool_)
    if wanted.any():
        kinds = sorted(limits, key=lambda one: -one.least.shape[1])  # the needs of fine rows first
        rows, group = np.unique(np.stack([one.row_of_cell for one in kinds]), axis=1, return_inverse=True)
        sizes = [one.least.size for one in kinds]
        _fill(
            nests.child_start, nests.cell_start, nests.cell, nests.count, wanted, group.reshape(-1), rows,
            np.stack([one.owner for one in kinds]),
            np.cumsum([0, *sizes[:-1]]),
            np.array([one.least.shape[1] for one in kinds]),
            np.concatenate([np.maximum(one.least, 0).reshape(-1) for one in kinds]),
            np.concatenate([one.most.reshape(-1) for one in kinds]),
            filled,
        )  # fmt: skip
    return filled


@compiled
def _mark_broken_rows(child_start, cell_start, cell, count, row_of_cell, owner, least, most, binding, broken):  # type: ignore[no-untyped-def]
    """The first row of each nest where the parent's count is not one that its children may have."""
    owners, rows = least.shape
    whole, low, high = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    seen = np.full(owners, -1, np.int64)
    for p in range(len(child_start) - 1):
        whole[:], low[:], high[:] = 0, 0, 0
        for s in range(cell_start[p], cell_start[p + 1]):
            if count[s] < 0:
                whole[row_of_cell[cell[s]]] = UNLIMITED  # no parent: any number
            else:
                whole[row_of_cell[cell[s]]] += count[s]
        for c in range(child_start[p], child_start[p + 1]):
            o = owner[c]
            if seen[o] == p:
                continue
            seen[o] = p
            for r in range(rows):
                if max(0, least[o, r]) > most[o, r] and broken[p] < 0:
                    broken[p] = r
                if least[o, r] > 0 or most[o, r] < whole[r]:
                    binding[p] = True
                low[r] = min(UNLIMITED, low[r] + max(0, least[o, r]))
                high[r] = min(UNLIMITED, high[r] + most[o, r])
        for r in range(rows):
            if broken[p] < 0 and (low[r] > whole[r] or (high[r] < whole[r] and whole[r] < UNLIMITED)):
                broken[p] = r


@compiled
def _fill(child_start, cell_start, cell, count, wanted, group, rows, owner, first, width, need, room, filled):  # type: ignore[no-untyped-def]
    """Give every group's people to children, those first who need them, within the room that each has.

    Groups that fit into few children go first, to the children that few groups fit into. Uses up ``need`` and ``room``.
    """
    kinds, groups = rows.shape
    left, slot = np.empty(groups, np.int64), np.empty(kinds, np.int64)
    for p in range(len(child_start) - 1):
        if not wanted[p]:
            continue
        free = count[cell_start[p]] < 0  # it has cells: limits on an empty parent bind only where they break
        start, n = child_start[p], child_start[p + 1] - child_start[p]
        choices, options = np.zeros(groups, np.int64), np.zeros(n, np.int64)
        left[:] = 0
        for s in range(cell_start[p], cell_start[p + 1]):
            left[group[cell[s]]] += UNLIMITED >> 30 if free else count[s]
        for g in np.flatnonzero(left):
            for i in range(n):
                fits = 1
                for k in range(kinds):
                    if room[first[k] + owner[k, start + i] * width[k] + rows[k, g]] <= 0:
                        fits = 0
                choices[g] += fits
                options[i] += fits
        order, children = np.argsort(choices, kind="mergesort"), start + np.argsort(options, kind="mergesort")
        for turn in range(kinds if free else kinds + 1):
            for g in order:
                for c in children:
                    if left[g] == 0:
                        break
                    amount = left[g]
                    for k in range(kinds):
                        slot[k] = first[k] + owner[k, c] * width[k] + rows[k, g]
                        amount = min(amount, room[slot[k]])
                    if turn < kinds:
                        amount = min(amount, need[slot[turn]])
                    left[g] -= amount
                    for k in range(kinds):
                        need[slot[k]] = max(0, need[slot[k]] - amount)
                        room[slot[k]] -= amount
        filled[p] = free or left.sum() == 0
        for k in range(kinds):
            for c in children:
                at = first[k] + owner[k, c] * width[k]
                if need[at : at + width[k]].max() > 0:
                    filled[p] = False
