r"""The pass down: what the whole tree says about each unit.

.. math:: \tilde x_c = x^-_c + V^-_c r_p, \quad r_p = S^+ (\tilde x_p - \textstyle\sum_k x^-_k), \qquad
    \tilde V_c = V^-_c + V^-_c G_p V^-_c, \quad G_p = S^+ \tilde V_p S^+ - S^+

(section 2 of the notes with :math:`A_c = V^-_c S^+`). An only child that is not measured copies its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.linear import applied, without_dust
from tallyveil.blue.places import Places, members_here
from tallyveil.blue.problem import Problem
from tallyveil.blue.upward import Upward, estimates_of_kind, inverse_of_sums, kinds_among, pass_up, runs

KEPT_BYTES = 1 << 30  # of estimates from below that are held on to for the way down


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimated:
    """The estimates of some units of a stage from everything; unit ``i`` has the covariance ``V[of[i]]``."""

    number: int
    units: Integers
    V: Floats
    of: Integers
    x: Floats | None


def whole_tree(problem: Problem, *, to: int | None = None) -> Iterator[Estimated]:
    """The estimates of every unit from everything, down to stage ``to``, in runs that hold little."""
    root = np.zeros(1, np.int64)
    to = problem.last if to is None else to
    if problem.last == 0:
        V, x = _padded(problem, *estimates_of_kind(problem, 0, int(problem.stages[0].kind[0]), root))
        yield Estimated(number=0, units=root, V=V, of=root, x=x)
        return
    up = pass_up(problem, 0, root, keep=to > 0 and _fits(problem, 0, root))
    yield from pass_down(problem, up, up.V, up.x, to=to)


@dataclass(frozen=True, kw_only=True, eq=False)
class JointEstimate:
    """The estimates of places: covariances of pairs of places (places x places x subsets x ...), or of each alone."""

    V: Floats
    x: Floats | None


def estimate_places(problem: Problem, places: Places) -> JointEstimate:
    """The estimates of places from everything, with their variances, or all covariances if they are ``joint``."""
    root = np.zeros(1, np.int64)
    if problem.last == 0:
        V, x = _padded(problem, *estimates_of_kind(problem, 0, int(problem.stages[0].kind[0]), root))
        carried = members_here(problem, places, 0, root)
    else:
        up = pass_up(problem, 0, root, places=places)
        assert up.carried is not None
        V, x, carried = up.V, up.x, up.carried
    B, subsets, cells = carried.B, V.shape[1], V.shape[2]
    V_pairs = B[carried.one] @ V @ np.swapaxes(B[carried.other], -1, -2) + carried.R
    shape = (places.count, places.count) if places.joint else (places.count,)
    covariance = np.zeros((*shape, subsets, cells, cells))
    one, other = carried.place[carried.one], carried.place[carried.other]
    covariance[(one, other) if places.joint else one] = V_pairs
    if x is None or carried.f is None:
        return JointEstimate(V=covariance, x=None)
    estimate = np.zeros((places.count, *x.shape[1:]))
    estimate[carried.place] = applied(B, np.broadcast_to(x, (carried.size, *x.shape[1:])), problem.decomposition.slices)
    estimate[carried.place] += carried.f
    return JointEstimate(V=covariance, x=estimate)


def pass_down(problem: Problem, up: Upward, V: Floats, x: Floats | None, *, to: int) -> Iterator[Estimated]:
    """The estimates of some units, given those of these units from everything, and of all units below them."""
    yield Estimated(number=up.number, units=up.units, V=V, of=np.arange(len(V)), x=x)
    if up.number >= to:
        return
    P = inverse_of_sums(problem, up.number, up.units, up.S)
    G = P @ V @ P - P
    r = None
    if x is not None and up.children is not None:
        r = applied(P, x - up.children, problem.decomposition.slices)
    for order, run in enumerate(runs(problem, up.number, up.units)):
        child, many = problem.stages[up.number].stage.children(up.units[run])
        parent = np.repeat(np.arange(run.start, run.stop), many)
        if up.number + 1 == problem.last:
            yield _leaves(problem, child, parent, V, x, G, r)
            continue
        keep = up.number + 1 < to and _fits(problem, up.number + 1, child)
        below = up.below[order] if up.below is not None else pass_up(problem, up.number + 1, child, keep=keep)
        V_child = without_dust(below.V + below.V @ G[parent] @ below.V, below.V)
        x_child = None
        if below.x is not None and r is not None:
            x_child = below.x + applied(below.V, r[parent], problem.decomposition.slices)
        bare = np.flatnonzero(problem.stages[below.number].bare[child])
        V_child[bare] = V[parent[bare]]
        if x_child is not None and x is not None:
            x_child[bare] = x[parent[bare]]
        yield from pass_down(problem, below, V_child, x_child, to=to)


def _leaves(
    problem: Problem, leaves: Integers, parent: Integers, V: Floats, x: Floats | None, G: Floats, r: Floats | None
) -> Estimated:
    """The estimates of leaves; leaves of one kind with the same parent share their covariance."""
    information = problem.stages[problem.last]
    pairs = parent * len(information.span) + information.kind[leaves]
    different, first, of = np.unique(pairs, return_index=True, return_inverse=True)
    V_leaf = np.zeros((len(different), *V.shape[1:]))
    x_leaf = None if x is None else np.zeros((len(leaves), *x.shape[1:]))
    bare = information.bare[leaves]
    for kind, place in kinds_among(problem, problem.last, leaves, information.base[leaves]):
        V_kind, x_kind = estimates_of_kind(problem, problem.last, kind, leaves[place])
        opened = np.flatnonzero(information.opened[kind])
        here = np.unique(of[place])
        middle = G[parent[first[here]]][:, :, opened][:, :, :, opened]
        V_leaf[np.ix_(here, np.arange(V.shape[1]), opened, opened)] = without_dust(
            V_kind + V_kind @ middle @ V_kind, V_kind
        )
        if x_leaf is not None and x_kind is not None and r is not None:
            moved = applied(V_kind, r[parent[place]][:, opened], problem.decomposition.slices)
            x_leaf[np.ix_(place, opened)] = x_kind + moved
    alone = np.flatnonzero(bare[first])
    V_leaf[alone] = V[parent[first[alone]]]
    if x_leaf is not None and x is not None:
        x_leaf[bare] = x[parent[bare]]
    return Estimated(number=problem.last, units=leaves, V=V_leaf, of=of.reshape(-1), x=x_leaf)


def _padded(problem: Problem, V: Floats, x: Floats | None) -> tuple[Floats, Floats | None]:
    """The estimate of a root that is also the leaf, on all dense cells."""
    decomposition, opened = problem.decomposition, problem.stages[0].opened[int(problem.stages[0].kind[0])]
    cells, open_cells = decomposition.dense_cells, np.flatnonzero(opened)
    whole = np.zeros((1, len(decomposition.subsets), cells, cells))
    whole[np.ix_(np.zeros(1, np.int64), np.arange(whole.shape[1]), open_cells, open_cells)] = V
    if x is None:
        return whole, None
    estimate = np.zeros((1, cells, decomposition.columns))
    estimate[:, open_cells] = x
    return whole, estimate


def _fits(problem: Problem, number: int, units: Integers) -> bool:
    """Whether the estimates from below of all units under these, but for leaves, may be held together."""
    decomposition = problem.decomposition
    numbers = 2 * decomposition.dense_cells**2 * len(decomposition.subsets)
    if problem.ask is not None:
        numbers += 2 * decomposition.dense_cells * decomposition.columns
    total = 0
    for stage in problem.stages[number : problem.last - 1]:
        units = stage.stage.children(units)[0]
        total += len(units)
    return total * numbers * 8 <= KEPT_BYTES
