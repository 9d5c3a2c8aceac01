"""Which published counts have a single possible value, whatever is measured, under invariants, bounds and zeros.

The bounds carried up the tree (``carry_up``) are passed down again: a child holds at most what its parent may hold less
what its siblings must hold, and at least the reverse. A row whose least is its most has one value. Where several
queries besides the total are bounded, a linear program finds which other bounds of a unit are always met with equality
([1]_). All counts that are linear combinations of rows with one value have one value.

A count that is found has one value. Others may have one too: whole numbers, or constraints of several units together,
can leave less than their bounds, and no more than ``MOST_UNITS`` different units are looked at. Everything follows from
public inputs: bounds, facilities, and the answers of invariants.

References
----------
.. [1] Freund, Roundy & Todd, Identifying the Set of Always-Active Constraints in a System of Linear Inequalities by a
   Single Linear Program, MIT Sloan working paper 1674-85, 1985.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil.engine.carry_up import carried_limits, runs_of_parents, saturated_sums, tightened_by_total, within_sum
from tallyveil.engine.constraints import LevelLimits
from tallyveil.engine.nests import UNLIMITED
from tallyveil.engine.run_limits import RunLimits
from tallyveil.nouns.schema import DETAILED, TOTAL, Query
from tallyveil.privacy.guarantee import ExactCounts
from tallyveil.privacy.strategy import Strategy

MOST_UNITS = 2_000  # different units that are looked at, or fewer where they have many bounded rows
LARGE = 1 << 21  # as many, times bounded rows, times groups of cells
TRUSTED = 1 << 31  # a larger bound is not given to the solver
NUMBERS_AT_ONCE = 1 << 22
SOURCES = ("follows", "facilities", "bound", "zero", "invariant", "people")  # the last that fixes a count names it

Kind = tuple[str, str, bool]  # query, source, whether every count of the unit
ByLevel = Mapping[str, Sequence[LevelLimits]]


def exact_values(limits: RunLimits, strategy: Strategy) -> tuple[ExactCounts, ...]:
    """Published counts with a single possible value, except the queries that invariants fix for a whole level.

    Where the data are not compared with all constraints, what they do keep comes first.
    """
    measured = (query for queries in strategy.queries.values() for query in queries)
    names = {limits.schema.query(name).name: name for name in (*limits.schema.attributes, *measured)}
    pairs = strategy.exact_pairs(strategy.exactness(limits.published, limits.schema))
    said = {(limits.schema.query(query).name, level) for query, level in pairs}
    found = tuple(_Proofs(limits, names, limits.declared, limits.possible).exact(said))
    if strategy.check_constraints:
        return found
    kept = {level: [one for one in some if one.source in SOURCES[-2:]] for level, some in limits.declared.items()}
    true = tuple(_Proofs(limits, names, kept, limits.schema.possible).exact(said))
    return (*true, *(replace(one, true=False) for one in found if one not in true))


class _Proofs:
    """What bounds and possible cells prove; cells that no bounded row and no zero tells apart are merged to groups."""

    def __init__(self, limits: RunLimits, names: dict[str, str], declared: ByLevel, possible: Bools) -> None:
        self.spine, self.declared, self.possible = limits.published, declared, possible
        same = limits.optimised is None and declared is limits.declared
        self.carried = limits.carried if same else carried_limits(self.spine, limits.schema, declared, possible)
        bounded = {one.query.name: one.query for some in limits.declared.values() for one in some}
        bounded |= {TOTAL: limits.schema.query(TOTAL)}
        self.names = {name: name for name in (*bounded, DETAILED)} | names
        self.asked = sorted(map(limits.schema.query, self.names), key=lambda query: query.size)
        of_cell = np.stack([possible, *(query.row_of_cell for query in bounded.values())])
        (is_open, *of_group), group = np.unique(of_cell, axis=1, return_inverse=True)
        self.group, self.open = group.reshape(-1), is_open > 0
        sizes = [query.size for query in bounded.values()]
        self.rows = np.vstack([np.arange(size)[:, None] == row for size, row in zip(sizes, of_group, strict=True)])
        ends = np.cumsum([0, *sizes]).tolist()
        self.place = {name: slice(*ends[k : k + 2]) for k, name in enumerate(bounded)}
        in_product = math.prod(len(np.unique(row[self.open])) for row in of_group)
        self.independent = in_product == self.open.sum()  # then bounds are as tight as they can be
        self.most = min(MOST_UNITS, LARGE // self.rows.size)
        self.solved: dict[bytes, Bools] = {}

    def exact(self, said: Container[tuple[str, str]]) -> Iterator[ExactCounts]:
        """What is exact, level by level, and not said to be so."""
        read: dict[bytes, list[tuple[Kind, int]]] = {}
        units, counts = Counter[tuple[str, Kind]](), Counter[tuple[str, Kind]]()
        for level, lines in self._units():
            first, _, number = _different(lines)
            for line, same in sorted(zip(lines[first], number.tolist(), strict=True), key=lambda both: -both[1]):
                if line.tobytes() not in read and len(read) < self.most:
                    read[line.tobytes()] = list(self._read(line))
                for kind, some in read.get(line.tobytes(), []):
                    units[level, kind] += same
                    counts[level, kind] += same * some
        for (level, (name, source, whole)), same in units.items():
            if (name, level) not in said:
                of_units: int | str = "all" if same == self.spine.size(level) else same
                of_counts: int | str = "all" if whole else counts[level, (name, source, whole)]
                query = self.names[name]
                yield ExactCounts(query=query, level=level, units=of_units, counts=of_counts, source=source)

    def _units(self) -> Iterator[tuple[str, NDArray[np.uint8]]]:
        """For runs of units, level by level: which bounded rows have one value, which groups are empty, and why."""
        closed = np.asarray(~self.rows[:, self.open].any(axis=1))
        above = [np.zeros((1, len(closed)), np.int64), np.full((1, len(closed)), UNLIMITED)]
        for level, starts in zip(self.spine.levels, (np.array([0, 1]), *self.spine.first_child), strict=True):
            tight = []
            for first, last in runs_of_parents(starts, max(1, NUMBERS_AT_ONCE // sum(self.rows.shape))):
                units = np.arange(starts[first], starts[last])
                parent = np.repeat(np.arange(first, last), np.diff(starts[first : last + 1]))
                least = np.zeros((len(units), len(closed)), np.int64)
                most = np.where(closed, 0, np.full_like(least, UNLIMITED))
                for limit in self.carried[level]:
                    place, (low, high) = self.place[limit.query.name], limit.of(units)
                    least[:, place], most[:, place] = low, np.minimum(most[:, place], high)
                sums = partial(_of_siblings, starts[first:last] - units[0], parent - first)
                least, most = within_sum(*self._tight(least, most), above[0][parent], above[1][parent], sums)
                least, most = self._tight(least, most)
                if level != self.spine.leaf:
                    tight.append((least, most))
                yield level, np.hstack([self._state(least, most), self._sources(level, units)])
            above = [np.concatenate(side) for side in zip(*tight, strict=True)]

    def _tight(self, least: Integers, most: Integers) -> tuple[Integers, Integers]:
        """What the rows of a unit say of its total, and its total of them."""
        bounds = tightened_by_total({name: (least[:, p], most[:, p]) for name, p in self.place.items()})
        tight = (np.hstack([bounds[name][side] for name in self.place]) for side in (0, 1))
        return next(tight), next(tight)

    def _state(self, least: Integers, most: Integers) -> Bools:
        """For each unit, which bounded rows have one value, and then which groups of cells are empty."""
        empty = (most == 0).astype(np.float32) @ self.rows.astype(np.float32) > 0
        state = np.hstack([least == most, empty | ~self.open])
        both = np.hstack([least, most])
        first, unit, _ = _different(both[:0] if self.independent else both)
        for number, bounds in enumerate(both[first]):
            if bounds.tobytes() not in self.solved and len(self.solved) < self.most:
                self.solved[bounds.tobytes()] = _always_met(self.rows, bounds, self.open)
            if bounds.tobytes() in self.solved:
                state[unit == number] |= self.solved[bounds.tobytes()]
        return state

    def _sources(self, level: str, units: Integers) -> NDArray[np.uint8]:
        """For each unit and bounded row, what fixes it alone, as a position in ``SOURCES``."""
        source = np.zeros((len(units), len(self.rows)), np.uint8)
        for one in self.declared[level]:
            own = source[:, self.place[one.query.name]]
            np.maximum(own, np.equal(*one.of(units)) * np.uint8(SOURCES.index(one.source)), out=own)
        return source

    def _read(self, line: NDArray[np.uint8]) -> Iterator[tuple[Kind, int]]:
        """What is exact in a unit with this state and these sources, and how many counts."""
        fixed, empty, code = np.split(line, [len(self.rows), sum(self.rows.shape)])
        told = np.zeros(len(self.group), np.bool_)  # cells in a row of a coarser query that is zero: not said again
        for query in self.asked:
            exact = self._combined(query, fixed > 0, empty > 0)
            source = np.where(_lie_in(query, ~self.possible), SOURCES.index("zero"), 0)
            if query.name in self.place:
                source = np.maximum(source, code[self.place[query.name]])
            new = exact & ~_lie_in(query, told)
            told |= _lie_in(query, empty[self.group] > 0)[query.row_of_cell]
            if exact.all() and new.any():
                yield (query.name, SOURCES[source[0] if (source == source[0]).all() else 0], True), query.size
            elif not exact.all():
                yield from (((query.name, SOURCES[one], False), n) for one, n in Counter(source[new].tolist()).items())

    def _combined(self, query: Query, fixed: Bools, empty: Bools) -> Bools:
        """Which rows are linear combinations of rows with one value, on groups of cells that are not empty."""
        inside = np.bincount(query.row_of_cell * len(empty) + self.group, minlength=query.size * len(empty))
        wanted = (inside.reshape(query.size, -1) / np.bincount(self.group))[:, ~empty]  # the part of each group
        known = self.rows[fixed][:, ~empty].astype(np.float64)
        same = np.isclose(wanted @ np.linalg.pinv(known) @ known, wanted, atol=1e-6)
        return np.asarray((same & (wanted % 1 == 0)).all(axis=1))


def _always_met(rows: Bools, bounds: Integers, is_open: Bools) -> Bools:
    """Which rows have one value, and then which groups are empty, under bounds on rows of non-negative numbers [1]_."""
    from scipy.optimize import linprog  # a fifth of a second that few runs need

    size, groups = rows.shape
    bound = np.concatenate([bounds[:size], -bounds[size:], np.where(is_open, 0, TRUSTED)])
    used = np.abs(bound) < TRUSTED
    sides = np.vstack([rows, -1 * rows, np.eye(groups)])[used] * is_open  # sides z >= bound t + slack, with t >= 1:
    slack = int(used.sum())  # scaled by t, a slack that can be positive can be 1
    variables = [(0, None)] * groups + [(1, None)] + [(0, 1)] * slack
    matrix = sp.hstack([sp.csr_matrix(-sides), bound[used, None], sp.identity(slack)], format="csr")
    cost = np.repeat([0, -1], [groups + 1, slack])
    result = linprog(cost, A_ub=matrix, b_ub=np.zeros(slack), bounds=variables)
    met = np.zeros(len(bound), np.bool_)
    met[used] = result.status == 0 and result.x[-slack:] < 1 / 2
    return np.concatenate([met[:size] | met[size : 2 * size], met[2 * size :]])


def _different(lines: NDArray[Any]) -> tuple[Integers, Integers, Integers]:
    """The first of each kind of line, the kind of each line, and the number of lines of each kind."""
    whole = np.ascontiguousarray(lines).view(f"S{lines.shape[1] * lines.itemsize}").ravel()
    _, first, kind, number = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    return first, kind, number


def _lie_in(query: Query, cells: Bools) -> Bools:
    """Which rows of a query have no cell but these."""
    return np.asarray(np.bincount(query.row_of_cell, ~cells, query.size) == 0)


def _of_siblings(cuts: Integers, parent: Integers, part: Integers) -> Integers:
    return saturated_sums(part, cuts)[parent]
