r"""The pass up: what the subtree of each unit says about it.

From the children of a unit come :math:`S = \sum_c V^-_c` and :math:`\sum_c x^-_c`; with its own information

.. math:: V^-_u = (\Lambda_u + S^{-1})^{-1}, \qquad x^-_u = \sum_c x^-_c + V^-_u (b_u - \Lambda_u \sum_c x^-_c),

and answers that are known exactly are conditioned on. Leaves, and units whose only child is not measured (the
only-child rule), start from their own information. Leaves are never held: they are read in runs and summed to their
parents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.blue.linear import applied, combined, conditioned, inverse_on, pseudo_inverse, sums
from tallyveil.blue.measured import Known
from tallyveil.blue.places import Carried, Places, lifted, members_here, stacked
from tallyveil.blue.problem import Problem

RUN_NUMBERS = 1 << 23  # numbers of the estimates of units that are processed together


@dataclass(frozen=True, kw_only=True, eq=False)
class Upward:
    """Estimates from below of some units of a stage.

    Attributes
    ----------
    number, units
        The stage and its units.
    V, x
        Their covariances and estimates; zero for bare units. Without noise there are no estimates.
    S, children
        The sums of the covariances and of the estimates of their children.
    below
        The estimates of their children, run by run, if they were kept.
    carried
        The places that were carried up to these units, if there are any.
    """

    number: int
    units: Integers
    V: Floats
    x: Floats | None
    S: Floats
    children: Floats | None
    below: tuple[Upward, ...] | None = None
    carried: Carried | None = None


def pass_up(
    problem: Problem, number: int, units: Integers, *, keep: bool = False, places: Places | None = None
) -> Upward:
    """The estimates from below of some units of a stage, which is not the last; ``keep`` those below them too."""
    decomposition, count = problem.decomposition, len(units)
    cells, subsets = decomposition.dense_cells, len(decomposition.subsets)
    S = np.zeros((count, subsets, cells, cells))
    children = None if problem.ask is None else np.zeros((count, cells, decomposition.columns))
    kept, carried = [], []
    for run in runs(problem, number, units):
        child, many = problem.stages[number].stage.children(units[run])
        parent = np.repeat(np.arange(len(many)), many)
        if number + 1 == problem.last:
            times = problem.stages[number].stage.repeats(units[run])
            sources = sums_of_leaves(problem, child, parent, len(many), places, times)
        else:
            below = pass_up(problem, number + 1, child, keep=keep, places=places)
            kept.append(below)
            sources = Sources(
                S=sums(below.V * problem.stages[number].stage.repeats(units[run])[:, None, None, None], many),
                children=None if below.x is None else sums(below.x, many),
                carried=below.carried,
                parent=parent,
                V=below.V,
                x=below.x,
            )
        S[run] = sources.S
        if children is not None:
            children[run] = sources.children
        if places is not None and sources.carried is not None:
            P = inverse_of_sums(problem, number, units[run], sources.S)
            up = lifted(
                problem, places, sources.carried, sources.parent, sources.V, sources.x, P=P, children=sources.children
            )
            carried.append((up, run.start))
    V, x = with_own_information(problem, number, units, S, children)
    if places is not None:
        carried.append((members_here(problem, places, number, units), 0))
    return Upward(
        number=number,
        units=units,
        V=V,
        x=x,
        S=S,
        children=children,
        below=tuple(kept) if keep and number + 1 < problem.last else None,
        carried=None if places is None else stacked(*zip(*carried, strict=True), joint=places.joint),
    )


def runs(problem: Problem, number: int, units: Integers) -> Iterator[slice]:
    """Runs of units whose children are processed together."""
    stage = problem.stages[number].stage
    assert stage.first_child is not None
    decomposition = problem.decomposition
    each = decomposition.dense_cells * max(
        decomposition.columns, decomposition.dense_cells * len(decomposition.subsets)
    )
    ends = np.cumsum(np.diff(stage.first_child)[units]) * each
    first = 0
    while first < len(units):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + RUN_NUMBERS, side="right")))
        yield slice(first, last)
        first = last


def estimates_of_kind(problem: Problem, number: int, kind: int, units: Integers) -> tuple[Floats, Floats | None]:
    """The covariance and the estimates of base units of one kind, on its open cells, from their own measurements."""
    information = problem.stages[number]
    opened = information.opened[kind]
    V = information.inverse[kind][None][:, :, opened][:, :, :, opened]
    x = None
    if problem.ask is not None:
        x = applied(V, information.vector(problem.ask, units, opened), problem.decomposition.slices)
    for below in range(number, len(problem.stages)):
        for known in problem.stages[below].known:
            V, x = condition_on(problem, known, units, V, x, opened)
        stage = problem.stages[below].stage
        if below < problem.last:  # a bare only child is the same people
            units = stage.children(units)[0]
    return V, x


def condition_on(
    problem: Problem, known: Known, units: Integers, V: Floats, x: Floats | None, opened: Bools | None = None
) -> tuple[Floats, Floats | None]:
    """Covariances and estimates, given exact answers; only the ``opened`` cells are there, or all."""
    rows = known.marginal.dense if opened is None else known.marginal.dense[:, opened]
    used = rows.any(axis=1)
    if not used.any():
        return V, x
    V, gain = conditioned(V, rows[used], known.marginal.gram > 0)
    if x is not None:
        missing = known.coordinates(units)[:, used] - rows[used] @ x
        x = x + applied(gain, missing, problem.decomposition.slices)
    return V, x


def inverse_of_sums(problem: Problem, number: int, units: Integers, S: Floats) -> Floats:
    """Pseudo-inverses of the sums of the children's covariances; zero where the children say nothing."""
    information = problem.stages[number]
    alone = information.base[units] | information.bare[units]
    opened = information.opened[information.kind[units]] & ~alone[:, None]
    exactly = problem.exactly(number + 1)
    P = np.zeros_like(S)
    P[:, ~exactly] = inverse_on(opened, S[:, ~exactly])
    P[:, exactly] = pseudo_inverse(S[:, exactly], np.einsum("ntii->nt", S[:, exactly]))
    return P


def kinds_among(problem: Problem, number: int, units: Integers, chosen: Bools) -> Iterator[tuple[int, Integers]]:
    """The kinds of the chosen units, each with the positions of its units in rising order."""
    kind = problem.stages[number].kind[units]
    place = np.flatnonzero(chosen)
    order = place[np.argsort(kind[place], kind="stable")]
    cuts = np.flatnonzero(np.diff(kind[order])) + 1
    for group in np.split(order, cuts):
        if len(group):
            yield int(kind[group[0]]), group


@dataclass(frozen=True, kw_only=True, eq=False)
class Sources:
    """What a run of units gets from its children: sums, and the places that they carry with the children's own V, x."""

    S: Floats
    children: Floats | None
    carried: Carried | None
    parent: Integers
    V: Floats
    x: Floats | None


def sums_of_leaves(
    problem: Problem,
    leaves: Integers,
    parent: Integers,
    parents: int,
    places: Places | None,
    times: Integers,
) -> Sources:
    """The sums over the leaves of each parent; of single leaves only those that belong to places are held."""
    decomposition, information = problem.decomposition, problem.stages[problem.last]
    cells, subsets = decomposition.dense_cells, len(decomposition.subsets)
    S = np.zeros((parents, subsets, cells, cells))
    total = None if problem.ask is None else np.zeros((parents, cells, decomposition.columns))
    carried = None if places is None else members_here(problem, places, problem.last, leaves)
    member = np.zeros(0, np.int64) if carried is None else np.unique(carried.unit)
    V_member = np.zeros((len(member), subsets, cells, cells))
    x_member = None if problem.ask is None else np.zeros((len(member), cells, decomposition.columns))
    for kind, position in kinds_among(problem, problem.last, leaves, information.base[leaves]):
        V, x = estimates_of_kind(problem, problem.last, kind, leaves[position])
        opened = np.flatnonzero(information.opened[kind])
        with_some, first = np.unique(parent[position], return_index=True)
        how_many = np.add.reduceat(times[position], first)
        S[np.ix_(with_some, np.arange(subsets), opened, opened)] += how_many[:, None, None, None] * V
        _, mine, here = np.intersect1d(member, position, assume_unique=True, return_indices=True)
        V_member[np.ix_(mine, np.arange(subsets), opened, opened)] = V
        if total is not None and x_member is not None and x is not None and len(opened):
            total[np.ix_(with_some, opened)] += np.add.reduceat(x, first, axis=0)
            x_member[np.ix_(mine, opened)] = x[here]
    if carried is not None:
        carried = replace(carried, unit=np.searchsorted(member, carried.unit))
    return Sources(S=S, children=total, carried=carried, parent=parent[member], V=V_member, x=x_member)


def with_own_information(
    problem: Problem, number: int, units: Integers, S: Floats, children: Floats | None
) -> tuple[Floats, Floats | None]:
    """Covariances and estimates of units from those of their children and their own measurements."""
    information, slices = problem.stages[number], problem.decomposition.slices
    base = information.base[units]
    V, x = S.copy(), None if children is None else children.copy()
    inner = np.flatnonzero(~base & ~information.bare[units])
    if information.measured and len(inner):
        own = information.information[information.kind[units[inner]]]
        V[inner] = combined(S[inner], own)
        if x is not None:
            rest = -applied(own, x[inner], slices)
            for kind, place in kinds_among(problem, number, units[inner], np.ones(len(inner), np.bool_)):
                opened = information.opened[kind]
                assert problem.ask is not None
                rest[np.ix_(place, np.flatnonzero(opened))] += information.vector(
                    problem.ask, units[inner[place]], opened
                )
            x[inner] += applied(V[inner], rest, slices)
    for known in information.known:
        V[inner], moved = condition_on(problem, known, units[inner], V[inner], None if x is None else x[inner])
        if x is not None and moved is not None:
            x[inner] = moved
    for kind, place in kinds_among(problem, number, units, base):
        opened = np.flatnonzero(information.opened[kind])
        V_kind, x_kind = estimates_of_kind(problem, number, kind, units[place])
        V[np.ix_(place, np.arange(V.shape[1]), opened, opened)] = V_kind
        if x is not None and x_kind is not None:
            x[np.ix_(place, opened)] = x_kind
    return V, x
