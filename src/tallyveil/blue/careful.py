r"""Least squares over the tree in square-root form, for problems that covariances cannot solve.

The pass up adds beliefs (``belief``) from the leaves to the root, and the pass down splits them again, subset by subset
of the decomposition. It takes variances of any size, and units whose measurements determine only some of their counts,
where ``upward`` needs every unit to be determined. It works unit by unit, so it is used only where it is needed and the
tree is not too large (``pose``). Leaves of one kind with the same parent are processed together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.blue.belief import Belief, Posterior, Split, added, narrowed

if TYPE_CHECKING:
    from tallyveil.blue.problem import Problem, StageInformation


class Observed(NamedTuple):
    """What is measured and known about some units of one kind: dense rows, precisions by subset, and answers."""

    rows: Floats
    precision: Floats  # rows x subsets
    answers: Floats  # units x rows x columns
    known: list[tuple[Floats, Bools, Floats]]  # rows, subsets, units x rows x columns


class LeafGroup(NamedTuple):
    """Leaves of one kind with the same parent: the belief about each of them but for ``a`` and ``z``."""

    leaves: Integers
    one: Belief
    a: Floats  # leaves x cells x columns
    z: Floats  # leaves x seen x columns
    total: Belief


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """How the children of a unit follow from their sum: splits of ever shorter sums, the last child first."""

    splits: Sequence[Split]
    children: Sequence[int | LeafGroup]


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """The estimates of the units of a stage in one subset: unit ``i`` has the factors ``F[of[i]]``, ``U[of[i]]``."""

    x: Floats
    of: Integers
    F: Sequence[Floats]
    U: Sequence[Floats]


@dataclass(frozen=True, eq=False)
class CarefulSubset:
    """The solution in one subset."""

    problem: Problem
    subset: int
    observed: Sequence[Mapping[int, Observed]]
    rank: Sequence[Integers]  # by stage, the place of each unit among those of its kind

    @cached_property
    def columns(self) -> slice:
        """The columns of the subset; none without noise."""
        return self.problem.decomposition.slices[self.subset] if self.problem.ask is not None else slice(0, 0)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return int(self.columns.stop - self.columns.start)

    @cached_property
    def up(self) -> tuple[Belief, list[list[Family]]]:
        """The belief about the root from everything, and the families of all stages but the last."""
        problem = self.problem
        last = problem.last
        if last == 0:
            return self._groups(np.zeros(1, np.int64))[0].total, []
        families: list[list[Family]] = [[] for _ in range(last)]
        beliefs: list[Belief] = []
        for number in range(last - 1, -1, -1):
            information, below = problem.stages[number], beliefs
            beliefs = []
            for unit in range(information.stage.size):
                child = information.stage.children(np.array([unit]))[0]
                members: list[int | LeafGroup] = list(self._groups(child) if number + 1 == last else map(int, child))
                parts = [one.total if isinstance(one, LeafGroup) else below[one] for one in members]
                whole, splits = parts[0], []
                for part in parts[1:]:
                    whole, split = added(whole, part)
                    splits.append(split)
                families[number].append(Family(splits=splits, children=members))
                place = self.rank[number][[unit]]
                beliefs.append(self._with_own(whole, number, int(information.kind[unit]), place))
        return beliefs[0], families

    def _with_own(self, belief: Belief, number: int, kind: int, places: Integers) -> Belief:
        """The belief with the measurements and exact answers of units of a kind, side by side in its columns."""
        seen = self.observed[number][kind]
        for rows, subsets, answers in seen.known:
            if subsets[self.subset]:
                belief = belief.given(rows, _side_by_side(answers[places][:, :, self.columns]))
        used = np.flatnonzero(seen.precision[:, self.subset] > 0)
        if not len(used):
            return belief
        answers = _side_by_side(seen.answers[np.ix_(places, used)][:, :, self.columns])
        return belief.measured(seen.rows[used], seen.precision[used, self.subset], answers)

    @cached_property
    def _leaves(self) -> dict[int, Belief]:
        """The beliefs about all leaves by kind, side by side in the columns."""
        number = self.problem.last
        information, beliefs = self.problem.stages[number], {}
        for kind, units in enumerate(np.bincount(information.kind).tolist()):
            nothing = Belief.none(information.opened[kind], units * self.width)
            beliefs[kind] = self._with_own(nothing, number, kind, np.arange(units))
        return beliefs

    def _groups(self, leaves: Integers) -> list[LeafGroup]:
        """The beliefs about leaves by kind, and about their sums."""
        information, groups = self.problem.stages[self.problem.last], []
        for kind in np.unique(information.kind[leaves]).tolist():
            mine = leaves[information.kind[leaves] == kind]
            every, places = self._leaves[kind], self.rank[self.problem.last][mine]
            units = int((information.kind == kind).sum())
            a, z = (
                np.moveaxis(table.reshape(len(table), units, self.width)[:, places], 1, 0)
                for table in (every.a, every.z)
            )
            one = Belief(N=every.N, a=a[0], W=every.W, R=every.R, z=z[0])
            groups.append(LeafGroup(mine, one, a, z, one.times(len(mine), a.sum(axis=0), z.sum(axis=0))))
        return groups

    def levels(self) -> Iterator[Level]:
        """The estimates of the units of each stage from everything, from the root down."""
        root, families = self.up
        above = [root.posterior()]
        yield _level(above)
        for number in range(self.problem.last):
            below: list[Posterior | None] = [None] * self.problem.stages[number + 1].stage.size
            of = np.arange(len(below))
            for whole, family in zip(above, families[number], strict=True):
                for child, found in zip(family.children, _parts(whole, family), strict=True):
                    if isinstance(child, LeafGroup):
                        of[child.leaves] = child.leaves[0]
                        for leaf, posterior in zip(child.leaves.tolist(), _leaves(found, child), strict=True):
                            below[leaf] = posterior
                    else:
                        below[child] = found
            above = [one for one in below if one is not None]
            yield _level(above, of)


def _parts(whole: Posterior, family: Family) -> list[Posterior]:
    """What is known about the children of a unit, or their groups, given what is known about it."""
    found = []
    for split in reversed(family.splits):
        found.append(split.posterior(1, whole))
        whole = split.posterior(0, whole)
    return [whole, *reversed(found)]


def _leaves(total: Posterior, group: LeafGroup) -> Iterator[Posterior]:
    """What is known about each leaf of a group, given what is known about their sum."""
    one, many = group.one, len(group.leaves)
    F, U = total.F / many, total.U
    if many > 1:
        F = narrowed(np.concatenate([F, np.sqrt(1 - 1 / many) * one.spread], axis=1))
        U = np.concatenate([U, one.unseen], axis=1)
    share = (total.mean - group.total.a) / many
    mean_z = group.z.sum(axis=0) / many
    for a, z in zip(group.a, group.z, strict=True):
        yield Posterior(mean=a + share + one.moved(z - mean_z), F=F, U=U)


def _level(found: Sequence[Posterior], of: Integers | None = None) -> Level:
    of = np.arange(len(found)) if of is None else of
    kept, of = np.unique(of, return_inverse=True)
    return Level(
        x=np.stack([one.mean for one in found]),
        of=of.reshape(-1),
        F=[found[i].F for i in kept],
        U=[found[i].U for i in kept],
    )


def _side_by_side(table: Floats) -> Floats:
    """Units x rows x columns as rows x (units x columns)."""
    return np.moveaxis(table, 0, 1).reshape(table.shape[1], table.shape[0] * table.shape[2])


class Careful:
    """The solution of a problem, subset by subset."""

    def __init__(self, problem: Problem) -> None:
        observed = [_observed_units(problem, information) for information in problem.stages]
        rank = [_ranks(information.kind) for information in problem.stages]
        self.subsets = [
            CarefulSubset(problem, subset, observed, rank) for subset in range(len(problem.decomposition.subsets))
        ]

    @cached_property
    def levels(self) -> list[list[Level]]:
        """The estimates of all stages, by subset."""
        return [list(subset.levels()) for subset in self.subsets]


def _ranks(kind: Integers) -> Integers:
    """The place of each unit among those of its kind."""
    order = np.argsort(kind, kind="stable")
    starts = np.searchsorted(kind[order], kind[order])
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - starts
    return rank


def _observed_units(problem: Problem, information: StageInformation) -> dict[int, Observed]:
    """What is measured and known about the units of a stage, by kind; the units of a kind in rising order."""
    decomposition = problem.decomposition
    found = {}
    for kind in np.unique(information.kind).tolist():
        units, span = np.flatnonzero(information.kind == kind), int(information.span[kind])
        width = decomposition.columns if problem.ask is not None else 0
        rows = [np.zeros((0, decomposition.dense_cells))]
        precision = [np.zeros((0, len(decomposition.subsets)))]
        answers = [np.zeros((len(units), 0, width))]
        for name, one in information.measured.items() if span > 0 else ():
            dense = np.flatnonzero(one.marginal.dense[:, information.opened[kind]].any(axis=1) & (one.times > 0))
            if not len(dense):
                continue
            variance = one.variance[span] * one.times[dense]
            rows.append(one.marginal.dense[dense])
            precision.append(np.sqrt(one.marginal.gram[None] / variance[:, None]))
            if problem.ask is None:
                answers.append(np.zeros((len(units), len(dense), 0)))
                continue
            assert information.stage.level is not None
            spans = np.full(len(units), span)
            noisy = one.weighted(problem.ask, (information.stage.level, name), units, spans, dense)
            table = one.marginal.coordinates(noisy, dense) * variance[:, None]
            for columns, length in zip(decomposition.slices, one.marginal.gram, strict=True):
                table[:, :, columns] /= length or 1.0
            answers.append(table)
        known = []
        for exact in information.known:
            used = exact.marginal.dense.any(axis=1)
            values = (
                np.zeros((len(units), int(used.sum()), 0)) if problem.ask is None else exact.coordinates(units)[:, used]
            )
            known.append((exact.marginal.dense[used], exact.marginal.gram > 0, values))
        found[kind] = Observed(np.concatenate(rows), np.concatenate(precision), np.concatenate(answers, axis=1), known)
    return found
