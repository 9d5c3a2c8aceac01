"""Quick checks of many nests at once, in compiled code: limits that are impossible alone, and greedy tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil._compiled import compiled, part
from tallyveil.engine.nests import UNLIMITED, Limits, Nests


def broken_rows(nests: Nests, limits: Sequence[Limits]) -> tuple[Integers, Bools]:
    """For each kind of limits and nest: the first row that it alone makes impossible (or -1), and whether it binds."""
    binding = np.zeros((len(limits), len(nests)), np.bool_)
    broken = np.full((len(limits), len(nests)), -1, np.int64)
    for k, limit in enumerate(limits):
        _mark_broken_rows(
            nests.child_start, nests.cell_start, nests.cell, nests.count,
            limit.row_of_cell, limit.owner, limit.least, limit.most, binding[k], broken[k],
        )  # fmt: skip
    return broken, binding


def greedily_filled(nests: Nests, limits: Sequence[Limits], wanted: Bools) -> Bools:
    """Which of the wanted nests a greedily filled table fits. The others may have some other table."""
    filled = np.zeros(len(nests), np.bool_)
    if wanted.any():
        kinds = sorted(limits, key=lambda limit: -limit.least.shape[1])  # the needs of fine rows first
        rows, group = np.unique(np.stack([limit.row_of_cell for limit in kinds]), axis=1, return_inverse=True)
        sizes = [limit.least.size for limit in kinds]
        _fill(
            nests.child_start, nests.cell_start, nests.cell, nests.count, wanted, group.reshape(-1), rows,
            np.stack([limit.owner for limit in kinds]),
            np.cumsum([0, *sizes[:-1]]),
            np.array([limit.least.shape[1] for limit in kinds]),
            np.concatenate([np.maximum(limit.least, 0).reshape(-1) for limit in kinds]),
            np.concatenate([limit.most.reshape(-1) for limit in kinds]),
            filled,
        )  # fmt: skip
    return filled


@compiled
def _mark_broken_rows(child_start, cell_start, cell, count, row_of_cell, owner, least, most, binding, broken):  # type: ignore[no-untyped-def]
    """Find the first row of each nest where the children's bounds exclude the parent's count."""
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
    """Give the people of every group to children, first to those that need them, within the room that each has.

    Groups that fit into few children go first, and go to the children that few groups fit into. Overwrites ``need``
    and ``room``.
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
        for g in range(groups):
            for i in range(n if left[g] else 0):
                fits = 1
                for k in range(kinds):
                    if room[first[k] + owner[k, start + i] * width[k] + rows[k, g]] <= 0:
                        fits = 0
                choices[g] += fits
                options[i] += fits
        order, children = _rising(choices, n), _rising(options, groups)
        for turn in range(kinds if free else kinds + 1):
            for g in order:
                for i in children:
                    c = start + i
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
        filled[p] = True
        for g in range(groups):
            if left[g] > 0 and not free:
                filled[p] = False
        for k in range(kinds):
            for i in children:
                at = first[k] + owner[k, start + i] * width[k]
                for place in range(at, at + width[k]):
                    if need[place] > 0:
                        filled[p] = False


@part
def _rising(value, most):  # type: ignore[no-untyped-def]
    """The order in which values from 0 to ``most`` rise, equal ones as they come (a counting sort)."""
    place, order = np.zeros(most + 2, np.int64), np.empty(value.size, np.int64)
    for i in range(value.size):
        place[value[i] + 1] += 1
    for v in range(most):
        place[v + 1] += place[v]
    for i in range(value.size):
        order[place[value[i]]] = i
        place[value[i]] += 1
    return order
