"""The failsafe: where children cannot keep their constraints given the estimate of their parent, it is changed least.

A conflict can come from noise: bounds on rows and totals do not say all that children ask of their parent. The 2018 run
then changed the parent's counts as little as possible (sum of absolute changes over cells) until its children could
keep their constraints, while its sums over one attribute were kept. So it is done here, with two more steps that keep
the run from ending:

- whatever is changed, the constraints on the parent itself and on all units above it hold afterwards, since the levels
  above are rebuilt as sums. First the parent's sums over one attribute are kept, else its total, else nothing else;
- where the parent alone cannot give way, all units of its level inside the next larger unit are changed together, and
  so on up to the root. That they cannot all give way would mean that no counts keep the constraints, which was decided
  before any noise (``feasibility``).

All of it is post-processing: it looks at estimates, bounds and invariants only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.engine.conflict import Conflict, first_conflict, listed, only_nest, rows_of, smallest, whole_solution
from tallyveil.engine.constraints import LevelLimits
from tallyveil.engine.nests import UNLIMITED, Limits, Nests
from tallyveil.engine.run_limits import RunLimits
from tallyveil.errors import EndedAfterNoise, InputError, TallyveilError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.schema import TOTAL, Schema

NOTHING = "nothing"


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

    cell: Integers
    count: Integers
    amount: int
    limits: tuple[str, ...]
    kept: str

    def __post_init__(self) -> None:
        for name in ("cell", "count"):
            values = np.array(getattr(self, name), np.int64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Above:
    """Bounds on the rows of a query for the sum of some of the parents that are changed together.

    Attributes
    ----------
    members
        Which of the parents, by position.
    least, most
        For each row, what is left to them: a bound of the unit they lie in, less the counts of the other units in it.
    """

    row_of_cell: NDArray[np.int32]
    members: Integers
    least: Floats
    most: Floats


def relax(
    nests: Nests,
    p: int,
    limits: Sequence[Limits],
    schema: Schema,
    attribute: str,
    *,
    possible: Bools | None = None,
) -> Relaxation:
    """The least change of a parent's counts that makes nest ``p`` feasible, for a nest that stands alone.

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
    nest, own = only_nest(nests, limits, p)
    if len(nest.count) and nest.count[0] < 0:
        raise InputError(f"nest {p} is the root's: it has no parent to relax. Correct the constraints of the root.")
    others = other_attributes(schema, attribute)
    conflict = first_conflict(nest, own)
    if conflict is None:
        return Relaxation(cell=nest.cell, count=nest.count, amount=0, limits=(), kept=others)
    count = np.zeros((1, schema.cells), np.int64)
    count[0, nest.cell] = nest.count
    open_ = schema.possible if possible is None else possible
    for kept in dict.fromkeys((others, TOTAL)):
        changed = nearest_parents(count, [own], schema, kept, open_)
        if changed is not None:
            cell = np.flatnonzero(changed[0])
            amount = int(np.abs(changed - count).sum())
            return Relaxation(cell=cell, count=changed[0, cell], amount=amount, limits=conflict.limits, kept=kept)
    names = smallest(own, lambda some: nearest_parents(count, [some], schema, TOTAL, open_) is None, least=1)
    raise InputError(
        f"nest {p}: its {len(nest.child):,} children cannot keep {listed(names)} as long as the parent's total is "
        f"{count.sum():,}, whatever its cells are. Correct the bounds, or the total."
    )


def other_attributes(schema: Schema, attribute: str) -> str:
    """The query by all attributes but one."""
    return " * ".join(name for name in schema.attributes if name != attribute) or TOTAL


@dataclass(frozen=True, kw_only=True)
class Change:
    """A parent whose counts were changed: by how much in all, and for which constraints."""

    unit: int
    amount: int
    limits: tuple[str, ...]


def relaxed_parents(
    limits: RunLimits, level: str, above: Counts, conflicts: Iterable[tuple[int, Conflict]], attribute: str
) -> tuple[Counts, tuple[Change, ...]]:
    """The counts of the parents of a level, changed least so that the children of all can keep their constraints.

    Parameters
    ----------
    limits
        What the run must keep.
    level
        The children's level.
    above
        The counts of all units of the level above it.
    conflicts
        Parents whose children cannot keep their constraints, by position, and what is in conflict.
    attribute
        The attribute along which people are moved first.

    Raises
    ------
    EndedAfterNoise
        No counts of the level keep the constraints. It was not known before, so the tree is too large to decide.
    """
    depth = limits.measured.depth(level) - 1
    kept = dict.fromkeys((other_attributes(limits.schema, attribute), TOTAL, NOTHING))
    new: dict[int, Integers] = {}
    changes: list[Change] = []
    for parent, conflict in conflicts:
        if parent in new:  # changed with others before, and feasible since
            continue
        found = next(_ways_out(limits, depth, parent, above, new, list(kept)), None)
        if found is None:
            code = limits.unit(limits.measured.levels[depth], parent)
            raise EndedAfterNoise(f"the children of {code} (level {level!r}): {conflict.words}. No counts keep all.")
        for unit, counts in found.items():
            amount = int(np.abs(counts - _counts(above, new, unit)).sum())
            if amount:
                changes.append(Change(unit=unit, amount=amount, limits=conflict.limits))
        new |= found
    return _replaced(above, new), tuple(changes)


def _ways_out(
    limits: RunLimits, depth: int, parent: int, above: Counts, new: Mapping[int, Integers], kept: Sequence[str]
) -> Iterator[dict[int, Integers]]:
    """New counts of a parent, or of more and more units around it: the first is the least far-reaching."""
    spine = limits.measured
    first, last = parent, parent + 1
    for top in range(depth, -1, -1):
        if top < depth:  # the units of the parent's level inside the next larger unit
            first = last = parent
            for at in range(depth - 1, top - 1, -1):
                first = int(np.searchsorted(spine.first_child[at], first, side="right")) - 1
            last = first + 1
            for at in range(top, depth):
                first, last = int(spine.first_child[at][first]), int(spine.first_child[at][last])
            if last - first == 1:
                continue
        units = np.arange(first, last)
        count = np.stack([_counts(above, new, int(unit)) for unit in units])
        children = [_limits_of_children(limits, depth, int(unit)) for unit in units]
        bounds = list(_bounds_above(limits, depth, units, above, new))
        for query in kept:
            try:
                changed = nearest_parents(count, children, limits.schema, query, limits.possible, bounds)
            except TallyveilError:  # the solver gave up on this way out; the next asks for less
                continue
            if changed is not None:
                yield dict(zip(units.tolist(), changed, strict=True))


def _limits_of_children(limits: RunLimits, depth: int, parent: int) -> list[Limits]:
    spine = limits.measured
    child = np.arange(spine.first_child[depth][parent], spine.first_child[depth][parent + 1])
    none = np.zeros(1, np.int64)
    ends = np.array([0, len(child)])
    nest = Nests(child_start=ends, child=child, cell_start=none, cell=none, count=none, block_start=none)
    return [one.at(nest) for one in limits.carried[spine.levels[depth + 1]]]


def _bounds_above(
    limits: RunLimits, depth: int, units: Integers, above: Counts, new: Mapping[int, Integers]
) -> Iterator[Above]:
    """The bounds on the parents that are changed and on all units they lie in: on what is left to them."""
    spine = limits.measured
    up, all_up = units, np.arange(above.units)
    for at in range(depth, -1, -1):
        level = spine.levels[at]
        for one in limits.carried[level] if at == depth else limits.own[level]:
            owner_of = up if one.owner is None else one.owner[up]
            owners_of_all = all_up if one.owner is None else one.owner[all_up]
            for owner in np.unique(owner_of):
                members = np.flatnonzero(owner_of == owner)
                least, most = (bounds[0] for bounds in one.of(np.array([owner])))
                if (least <= 0).all() and (most >= UNLIMITED).all():
                    continue
                others = np.setdiff1d(np.flatnonzero(owners_of_all == owner), units) if at < depth else units[:0]
                fixed = _row_sums(one, above, new, others)
                yield Above(
                    row_of_cell=one.query.row_of_cell,
                    members=members,
                    least=(least - fixed).astype(np.float64),
                    most=np.where(most >= UNLIMITED, np.inf, most - fixed),
                )
        if at:
            up, all_up = (np.searchsorted(spine.first_child[at - 1], some, side="right") - 1 for some in (up, all_up))


def _row_sums(one: LevelLimits, above: Counts, new: Mapping[int, Integers], units: Integers) -> Integers:
    """A query's answer for some units together."""
    old = units[~np.isin(units, list(new))] if new else units
    some = above.taken(old)
    sums = np.bincount(one.query.row_of_cell[some.cell], some.count, one.query.size).astype(np.int64)
    for unit in np.setdiff1d(units, old).tolist():
        sums += np.bincount(one.query.row_of_cell, new[unit], one.query.size).astype(np.int64)
    return sums


def _counts(above: Counts, new: Mapping[int, Integers], unit: int) -> Integers:
    return new[unit] if unit in new else above.dense(unit, unit + 1)[0]


def _replaced(counts: Counts, new: Mapping[int, Integers]) -> Counts:
    """The counts with those of some units exchanged."""
    changed = np.isin(counts.unit(), list(new))
    unit, cell, count = [counts.unit()[~changed]], [counts.cell[~changed]], [counts.count[~changed]]
    for one, table in new.items():
        cells = np.flatnonzero(table)
        unit.append(np.full(len(cells), one))
        cell.append(cells.astype(counts.cell.dtype))
        count.append(table[cells])
    columns = (np.concatenate(part) for part in (unit, cell, count))
    return Counts.from_entries(*columns, units=counts.units, cells=counts.cells)


def nearest_parents(
    count: Integers,
    children: Sequence[Sequence[Limits]],
    schema: Schema,
    kept: str,
    possible: Bools,
    above: Sequence[Above] = (),
) -> Integers | None:
    """Counts nearest to those of some parents that the children of each can sum to; None if there are none.

    The answer to a query is kept for the parents together (``NOTHING``: none is), and the bounds above hold. Cells in
    one group and one row of the query are a pool: changes in it have one sign, so only their sum matters. Variables
    are, for every parent, the entries of its children, and what each pool gains and loses.
    """
    row_of_cell = schema.query(kept).row_of_cell if kept != NOTHING else np.zeros(schema.cells, np.int32)
    margin = np.bincount(row_of_cell, count.sum(axis=0))
    cell = np.flatnonzero(possible & ((margin[row_of_cell] > 0) | (kept == NOTHING)))
    if len(cell) == 0:
        return count if _nobody_fits(children, above) else None
    rows = [rows_of(limits, cell, [one.row_of_cell for one in above]) for limits in children]
    group_of_cell, groups = rows[0].group, rows[0].groups
    (group, margin_row), pool = np.unique(np.stack([group_of_cell, row_of_cell[cell]]), axis=1, return_inverse=True)
    pool, pools, parents = pool.reshape(-1), len(group), len(count)
    before = np.stack([np.bincount(pool, one[cell], pools) for one in count])
    entries = [one.bundles * one.groups for one in rows]
    some_cell = cell[np.unique(pool, return_index=True)[1]]

    def into(row: NDArray[np.integer], size: int) -> sp.csr_matrix:
        return sp.csr_matrix((np.ones(pools), (row, np.arange(pools))), shape=(size, pools))

    def change(matrix: sp.csr_matrix, members: Integers) -> sp.csr_matrix:
        """The matrix applied to the changes of some parents, added up."""
        which = np.zeros((1, parents))
        which[0, members] = 1
        wide = sp.kron(which, matrix)
        return sp.hstack([sp.csr_matrix((matrix.shape[0], sum(entries))), wide, -wide], format="csr")

    into_group = into(group, groups)
    inside = sp.block_diag([one.matrix for one in rows], format="csr")
    sums = sp.block_diag([one.sums() for one in rows], format="csr")
    gains = sp.kron(sp.identity(parents), into_group)
    group_before = np.concatenate([into_group @ one for one in before])
    matrix = [
        sp.hstack([inside, sp.csr_matrix((inside.shape[0], 2 * parents * pools))]),
        sp.hstack([sums, -gains, gains]),  # the children's sum is the parent's new count
    ]
    least = [np.concatenate([one.least for one in rows]), group_before]
    most = [np.concatenate([one.most for one in rows]), group_before]
    if kept != NOTHING:
        matrix.append(change(into(margin_row, len(margin)), np.arange(parents)))
        least.append(np.zeros(len(margin)))
        most.append(np.zeros(len(margin)))
    for one in above:
        here = into(one.row_of_cell[some_cell], len(one.least))
        now = here @ before[one.members].sum(axis=0)
        matrix.append(change(here, one.members))
        least.append(one.least - now)
        most.append(one.most - now)
    room = np.full(before.shape, np.inf) if kept == NOTHING else np.maximum(margin[margin_row] - before, 0)
    found = whole_solution(
        np.concatenate([np.zeros(sum(entries)), np.ones(2 * parents * pools)]),
        matrix,
        least,
        most,
        np.concatenate([np.full(sum(entries), np.inf), room.reshape(-1), before.reshape(-1)]),
    )
    if found is None:
        return None
    gain, loss = found[sum(entries) :].reshape(2, parents, pools)
    changed = count.copy()
    for i in range(parents):
        changed[i, cell] = _spread(count[i, cell], pool, (gain - loss)[i])
    return changed


def _nobody_fits(children: Sequence[Sequence[Limits]], above: Sequence[Above]) -> bool:
    """Whether nobody at all keeps the limits."""
    inside = all((one.least <= 0).all() and (one.most >= 0).all() for limits in children for one in limits)
    return inside and all((one.least <= 0).all() and (one.most >= 0).all() for one in above)


def _spread(count: Integers, pool: Integers, change: Integers) -> Integers:
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
