"""Feasible: whether the children of a nest can keep all limits, what is in conflict if not, and the least way out.

A nest is feasible if some table of whole numbers keeps its limits and sums to the parent. With one kind of limits this
is an interval check for each row of its query, made for all nests in one kernel. With several kinds it is an integer
program on few variables: cells that no limit tells apart are one, and so are children. (Any whole numbers for merged
cells and children can be dealt out to the cells and children themselves: that is a table with given margins.) A program
is solved only for nests where a first, greedy attempt at such a table fails.

The way out is the failsafe of the 2018 run: the parent's counts are changed as little as possible (sum of absolute
changes over cells) so that the children become feasible, while its sums over one attribute are kept. So every
invariant above that does not ask about this attribute, every total among them, stays exact when the levels above are
rebuilt as sums; and a bound of the parent that is the sum of its children's holds again. A constraint above that does
ask about the attribute may break, and is to be checked by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from tallyveil._compiled import compiled
from tallyveil.errors import InputError, TallyveilError
from tallyveil.schema import TOTAL, Schema
from tallyveil.topdown.nests import UNLIMITED, Index, Limits, Nests

Floats = NDArray[np.float64]

OPTIMAL, INFEASIBLE = 0, 2  # statuses of scipy.optimize.milp


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Limits that the children of a nest cannot keep together; ``row`` is known where one kind alone is impossible."""

    nest: int
    limits: tuple[str, ...]
    row: int | None
    words: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Relaxation:
    """New counts of a parent under which its children are feasible.

    Attributes
    ----------
    cell, count
        The parent's cells that are not empty, rising, and their new counts.
    amount
        The sum over cells of absolute changes: twice the persons moved.
    limits
        Names of the limits that were in conflict.
    kept
        The query whose answer did not change: all attributes but one, or only the total.
    """

    cell: Index
    count: Index
    amount: int
    limits: tuple[str, ...]
    kept: str

    def __post_init__(self) -> None:
        for name in ("cell", "count"):
            values = np.array(getattr(self, name), np.int64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)


def first_conflict(nests: Nests, limits: Sequence[Limits]) -> Conflict | None:
    """The first nest that no table of whole numbers fits, and what is in conflict there; None if all are feasible."""
    broken, binding = _broken_rows(nests, limits)
    first = min((nest for nest, _ in broken), default=len(nests))
    several = (binding.sum(axis=0) >= 2) & (np.arange(len(nests)) < first)
    for p in np.flatnonzero(several & ~_filled(nests, limits, several)).tolist():
        conflict = _conflict_of_several(nests, limits, p)
        if conflict is not None:
            return conflict
    for limit, (p, row) in zip(limits, broken, strict=True):
        if p == first < len(nests):
            nest, (alone,) = _alone(nests, [limit], first)
            return Conflict(nest=first, limits=(limit.name,), row=row, words=_words_of_row(nest, alone, row))
    return None


def relax(
    nests: Nests,
    p: int,
    limits: Sequence[Limits],
    schema: Schema,
    attribute: str,
    *,
    possible: NDArray[np.bool_] | None = None,
) -> Relaxation:
    """The least change of a parent's counts that makes nest ``p`` feasible: the failsafe of the 2018 run.

    Cells that were empty may open, impossible ones excepted (``possible``; the schema's by default). The parent's sums
    over the labels of ``attribute`` are kept, and where that cannot be had, its total. Among equal changes the solver's
    first is taken (it is deterministic); within cells that neither a limit nor the sums tell apart, the largest is
    changed first.

    Raises
    ------
    InputError
        The limits cannot be kept whatever the parent's counts are, its total given; or the nest has no parent.
    """
    if attribute not in schema.attributes:
        raise InputError(f"unknown attribute {attribute!r} to relax. Known are {', '.join(schema.attributes)}.")
    nest, own = _alone(nests, limits, p)
    if len(nest.count) and nest.count[0] < 0:
        raise InputError(f"nest {p} is the root's: it has no parent to relax. Correct the constraints of the root.")
    others = " * ".join(name for name in schema.attributes if name != attribute) or TOTAL
    conflict = first_conflict(nest, own)
    if conflict is None:
        return Relaxation(cell=nest.cell, count=nest.count, amount=0, limits=(), kept=others)
    count = np.zeros(schema.cells, np.int64)
    count[nest.cell] = nest.count
    open_ = schema.possible if possible is None else possible
    for kept in dict.fromkeys((others, TOTAL)):
        changed = _nearest_parent(own, count, schema, kept, open_)
        if changed is not None:
            cell = np.flatnonzero(changed)
            amount = int(np.abs(changed - count).sum())
            return Relaxation(cell=cell, count=changed[cell], amount=amount, limits=conflict.limits, kept=kept)
    names = _smallest(own, lambda some: _nearest_parent(some, count, schema, TOTAL, open_) is None, least=1)
    raise InputError(
        f"nest {p}: its {len(nest.child):,} children cannot keep {_listed(names)} as long as the parent's total is "
        f"{count.sum():,}, whatever its cells are. Correct the bounds, or the total."
    )


def _conflict_of_several(nests: Nests, limits: Sequence[Limits], p: int) -> Conflict | None:
    """The conflict between kinds in a nest where none is impossible alone."""
    nest, own = _alone(nests, limits, p)
    if _fits(nest, own):
        return None
    names = _smallest(own, lambda some: not _fits(nest, some), least=2)
    return Conflict(nest=p, limits=names, row=None, words=_words_of_several(nest, names))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Limits of one nest as ``least <= matrix u <= most``, where u has an entry for each bundle and group.

    A group is the cells, and a bundle the children, that no limit tells apart. Entries run bundle after bundle.
    """

    group: Index  # of each cell
    bundles: int
    groups: int
    matrix: sp.csr_matrix
    least: Floats
    most: Floats

    def sums(self) -> sp.csr_matrix:
        """The matrix that adds the bundles up, group by group."""
        return sp.csr_matrix(sp.kron(np.ones((1, self.bundles)), sp.identity(self.groups)))


def _rows_of(limits: Sequence[Limits], cell: Index) -> _Rows:
    """The limits of a nest that stands alone, on these cells."""
    row, group = np.unique(np.stack([one.row_of_cell[cell] for one in limits]), axis=1, return_inverse=True)
    owner = np.unique(np.stack([one.owner for one in limits]), axis=1)
    (kinds, groups), bundles = row.shape, owner.shape[1]
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
    return _Rows(
        group=group.reshape(-1),
        bundles=bundles,
        groups=groups,
        matrix=sp.vstack(parts, format="csr"),
        least=np.concatenate(least),
        most=np.concatenate(most),
    )


def _fits(nest: Nests, limits: Sequence[Limits]) -> bool:
    """Whether some whole numbers keep these limits and sum to the parent."""
    rows = _rows_of(limits, nest.cell)
    size = rows.bundles * rows.groups
    matrix, least, most = [rows.matrix], [rows.least], [rows.most]
    if nest.count[0] >= 0:
        matrix.append(rows.sums())
        least.append(np.bincount(rows.group, nest.count, rows.groups).astype(np.float64))
        most.append(least[-1])
    found = _whole_solution(np.zeros(size), matrix, least, most, np.full(size, np.inf))
    return found is not None


def _nearest_parent(
    limits: Sequence[Limits], count: Index, schema: Schema, kept: str, possible: NDArray[np.bool_]
) -> Index | None:
    """Counts nearest to the parent's that its children can sum to, the answer to a query kept; None if there are none.

    Cells in one group and one row of the query are a pool: the changes in it have one sign, so only their sum matters.
    Variables are u, and what each pool gains and loses.
    """
    row_of_cell = schema.query(kept).row_of_cell
    margin = np.bincount(row_of_cell, count)
    cell = np.flatnonzero(possible & (margin[row_of_cell] > 0))
    if len(cell) == 0:
        return count if all((one.least <= 0).all() and (one.most >= 0).all() for one in limits) else None
    rows = _rows_of(limits, cell)
    (group, margin_row), pool = np.unique(np.stack([rows.group, row_of_cell[cell]]), axis=1, return_inverse=True)
    pool, pools, entries = pool.reshape(-1), len(group), rows.bundles * rows.groups
    before = np.bincount(pool, count[cell], pools)
    into_group = sp.csr_matrix((np.ones(pools), (group, np.arange(pools))), shape=(rows.groups, pools))
    into_row = sp.csr_matrix((np.ones(pools), (margin_row, np.arange(pools))), shape=(len(margin), pools))
    group_before = into_group @ before
    matrix = [
        sp.hstack([rows.matrix, sp.csr_matrix((len(rows.least), 2 * pools))]),
        sp.hstack([rows.sums(), -into_group, into_group]),  # the children's sum is the parent's new count
        sp.hstack([sp.csr_matrix((len(margin), entries)), into_row, -into_row]),  # what is kept does not change
    ]
    unchanged = np.zeros(len(margin))
    found = _whole_solution(
        np.concatenate([np.zeros(entries), np.ones(2 * pools)]),
        matrix,
        [rows.least, group_before, unchanged],
        [rows.most, group_before, unchanged],
        np.concatenate([np.full(entries, count.sum()), margin[margin_row] - before, before]),
    )
    if found is None:
        return None
    gain, loss = found[entries : entries + pools], found[entries + pools :]
    changed = count.copy()
    changed[cell] = _spread(count[cell], pool, gain - loss)
    return changed


def _spread(count: Index, pool: Index, change: Index) -> Index:
    """The counts after each pool's change, which falls on its largest cells first."""
    count = count.copy()
    for j in np.flatnonzero(change):
        cells = np.flatnonzero(pool == j)
        cells = cells[np.argsort(-count[cells], kind="stable")]
        if change[j] > 0:
            count[cells[0]] += change[j]
        else:
            larger = np.cumsum(count[cells]) - count[cells]
            count[cells] -= np.clip(-change[j] - larger, 0, count[cells])
    return count


def _whole_solution(
    cost: Floats, matrix: Sequence[sp.csr_matrix], least: Sequence[Floats], most: Sequence[Floats], high: Floats
) -> Index | None:
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
    whole: Index = z.astype(np.int64)
    return whole


def _smallest(limits: Sequence[Limits], impossible: Callable[[list[Limits]], bool], *, least: int) -> tuple[str, ...]:
    """Names of the fewest kinds that are impossible together; all of them are known to be."""
    for size in range(least, len(limits)):
        for some in combinations(limits, size):
            if impossible(list(some)):
                return tuple(one.name for one in some)
    return tuple(one.name for one in limits)


def _alone(nests: Nests, limits: Sequence[Limits], p: int) -> tuple[Nests, list[Limits]]:
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
    return f"{_listed(names)}: the children can keep each, but not all together{parent}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _broken_rows(nests: Nests, limits: Sequence[Limits]) -> tuple[list[tuple[int, int]], NDArray[np.bool_]]:
    """For each kind the first nest and row that it alone makes impossible, and where it asks for anything at all."""
    binding = np.zeros((len(limits), len(nests)), np.bool_)
    broken = [
        _first_broken_row(
            nests.child_start, nests.cell_start, nests.cell, nests.count,
            limit.row_of_cell, limit.owner, limit.least, limit.most, binding[k],
        )
        for k, limit in enumerate(limits)
    ]  # fmt: skip
    return broken, binding


def _filled(nests: Nests, limits: Sequence[Limits], wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
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
def _first_broken_row(child_start, cell_start, cell, count, row_of_cell, owner, least, most, binding):  # type: ignore[no-untyped-def]
    """The first nest and row where the parent's count is not one that its children may have."""
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
                if max(0, least[o, r]) > most[o, r]:
                    return p, r
                if least[o, r] > 0 or most[o, r] < whole[r]:
                    binding[p] = True
                low[r] = min(UNLIMITED, low[r] + max(0, least[o, r]))
                high[r] = min(UNLIMITED, high[r] + most[o, r])
        for r in range(rows):
            if low[r] > whole[r] or (high[r] < whole[r] and whole[r] < UNLIMITED):
                return p, r
    return len(child_start) - 1, -1


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
