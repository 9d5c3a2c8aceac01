r"""The fast path: accelerated projected gradient on a product of simplices.

For one nest, with x the children's cells (n children, m support cells), the problem is

.. math::

    \min_x f(x) = \tfrac12 \sum_{c} \sum_{q} w_{qc} \lVert Q_q x_c - y_{qc} \rVert^2
    \quad\text{s.t.}\quad x \ge 0,\quad \sum_c x_{cs} = P_s,\quad l \le R x \le h .

Without the last constraints the feasible set is one simplex for each cell. The Hessian H has no negative entries, so
D = diag(H 1) majorises it; with all children's weights at their largest, D_s omega_c does too. A step of D^-1 g,
projected in D's metric (``projection``), decreases f, and FISTA with gradient restart makes that fast.

A solve ends by proof, not by a small step. For any theta, and any nu of the right sign,

.. math::

    f^* \ge f(x) + \nu'(Rx - b) + \theta'(\textstyle\sum_c x_c - P)
    + \min_{y \ge 0} (g + R'\nu + \theta)'(y - x) + \tfrac12 \lVert y - x \rVert_M^2 ,
    \qquad M = \mathrm{diag}(w_{detailed}) \preceq H,

b being the bound that nu leans on; the minimum has a closed form (``bound``). So f(x) - f^* is bounded, and with it
the distance. An entry that is not open (an upper bound of zero) stays 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tallyveil._compiled import inlined, summing_leaf
from tallyveil.engine.estimate.bound import gap_of
from tallyveil.engine.estimate.gradient import gradient, majorised, pull_rows
from tallyveil.engine.estimate.one_nest import CLOSED, FAR
from tallyveil.engine.estimate.projection import fit_column, meet_columns, project, shift_to

_SWEEPS = 12.0  # turns of columns and rows in one step of the gradient
_LAST_SWEEPS = 2000.0  # and before a solution is judged (floats: numba compiles anew for each literal integer)
_TURNS = 4  # so many turns for each step that may be taken, in all: beyond that the general path is quicker


class Goal(NamedTuple):
    """When a solve ends: a gap relative to max(one, optimum), a distance in persons, or so many steps.

    ``one`` is one half of a person's square in the scale of the weights, ``constant`` what merged queries add to f.
    """

    gap: Any
    distance: Any
    one: Any
    constant: Any
    steps: Any


class Solution(NamedTuple):
    """A table, the bounds on f - f* and on the distance, the violation, the steps taken and f.

    The steps are negative where the goal was not reached.
    """

    x: Any
    gap: Any
    distance: Any
    violation: Any
    steps: Any
    value: Any


@inlined
def solve(columns, queries, rows, goal):  # type: ignore[no-untyped-def]
    """Solve one nest. It stops when the gap and the distance are below the goal for certain."""
    m, n = queries.noisy_own.shape
    metric = majorised(queries)
    limited = _start_limited(rows)  # bounds are enforced once the solution without them breaks them
    x, u, g = _start(columns, queries, metric, rows, limited)
    old, desk = x.copy(), np.empty(n)
    scale, least_own = 0.0, np.inf
    for s in range(m):
        scale += max(0.0, columns.count[s])
    for c in range(n):
        least_own = min(least_own, queries.own[c])
    dust = 1e-10 + 1e-15 * scale
    fine = max(1e-7, dust)  # how far a limited row may be off when a solution is judged; finer each time it is not good
    momentum, ahead, tolerance, next_check, still = 1.0, 0.0, 1.0, 8, 0.05 * min(1.0, goal.distance)
    gap, violation, turns, met = np.inf, np.inf, 0, True
    for taken in range(1, goal.steps + 1):
        pull_rows(x, old, ahead, queries, columns.end)
        if limited:
            _descend(x, old, ahead, columns, queries, metric, rows, u)
            turns += project(u, columns, metric, rows, max(dust, tolerance), _SWEEPS)
            turn, moved = _settle(x, old, ahead, columns, metric, u)
        else:
            turn, moved = _step(x, old, ahead, columns, queries, metric, desk)
        x, old = old, x
        tolerance = 0.02 * moved
        near = still if limited or rows.first.size == 0 else 2.0 * still  # bounds are looked at earlier
        if (taken >= next_check and moved <= near) or taken >= next_check + 60 or moved == 0.0:
            meet_columns(x, columns, metric)
            value, gap, unmet, violation = _judged(x, columns, queries, rows, g)
            if limited and _reached(gap, value, least_own, goal):
                turns += project(u, columns, metric, rows, fine, _LAST_SWEEPS)
                _settle(x, x, 0.0, columns, metric, u)
                meet_columns(x, columns, metric)
                value, gap, unmet, violation = _judged(x, columns, queries, rows, g)
                met = violation <= 5.0 * fine
                fine = max(dust, 0.1 * fine)
            elif limited or violation > fine:
                met = False
                turn = turn if limited else 1.0
                limited = True
            gap += unmet
            if met and _reached(gap, value, least_own, goal):
                distance = np.sqrt(2.0 * gap / least_own) if least_own > 0.0 else np.inf
                return Solution(x, gap, distance, violation, taken, value)
            next_check = taken + max(4, taken // 12)
            if turns > _TURNS * goal.steps:
                break
        if turn > 0.0:  # the momentum points uphill: begin anew
            momentum, ahead = 1.0, 0.0
        else:
            after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
            ahead = (momentum - 1.0) / after
            momentum = after
    return Solution(x, gap, np.inf, violation, -goal.steps, 0.0)


@summing_leaf
def _reached(gap, value, least_own, goal):  # type: ignore[no-untyped-def]
    """Whether a gap is within the goal, and with it the distance (which has no bound where cells are not measured)."""
    near = 2.0 * gap <= least_own * goal.distance * goal.distance or least_own == 0.0
    return near and gap <= goal.gap * max(goal.one, goal.constant + value - gap)


@inlined
def _judged(x, columns, queries, rows, g):  # type: ignore[no-untyped-def]
    """f(x), how far it is above the optimum at most, but for what is not met; the bound of that; and the violation."""
    value = 0.5 * pull_rows(x, x, 0.0, queries, columns.end)
    value += gradient(x, queries, columns, g)
    gap, unmet, soft, violation = gap_of(x, g, columns, queries.own, rows)
    return value + soft, gap, unmet, violation


@summing_leaf
def _start_limited(rows):  # type: ignore[no-untyped-def]
    """Whether rows must be met from the start: soft ones, and exact ones."""
    limited = False
    for j in range(rows.least.size):
        limited = limited or rows.give[j] > 0.0 or (rows.least[j] == rows.most[j] and rows.most[j] > 0.0)
    return limited


@inlined
def _start(columns, queries, metric, rows, limited):  # type: ignore[no-untyped-def]
    """The first point: the cells' own answers, projected; u, and the gradient's table. All multipliers are 0 then."""
    m, n = queries.noisy_own.shape
    x, u, g = np.zeros((m, n)), np.empty((m, n)), np.empty((m, n))
    for s in range(m):
        for c in range(n):
            if not columns.open_[s, c]:
                queries.noisy_own[s, c] = -FAR
            u[s, c] = queries.noisy_own[s, c] if columns.open_[s, c] else -CLOSED
            g[s, c] = CLOSED
        fit_column(u, s, columns, metric)
    if limited:
        project(u, columns, metric, rows, 1e-3, _SWEEPS)
    _settle(x, x, 0.0, columns, metric, u)
    for s in range(m):
        columns.theta[s] = 0.0
    for j in range(rows.nu.size):
        rows.nu[j] = 0.0
    return x, u, g


@summing_leaf
def _step(x, old, ahead, columns, queries, metric, u):  # type: ignore[no-untyped-def]
    """One step without limits, cell by cell, into ``old``; gives whether the momentum turned uphill, and the change."""
    pace, theta, turn, moved = metric.pace, columns.theta, 0.0, 0.0
    for s in range(x.shape[0]):
        step, end = metric.step[s], columns.end[s]
        for c in range(end):
            u[c] = queries.own[c] * (x[s, c] + ahead * (x[s, c] - old[s, c]) - queries.noisy_own[s, c])
        for q in range(queries.direct.shape[0]):
            at = queries.direct[q, s]
            for c in range(end):
                u[c] += queries.pull[at, c]
        for c in range(end):
            u[c] = x[s, c] + ahead * (x[s, c] - old[s, c]) - step * pace[c] * (u[c] + theta[s])
        if columns.closed:
            for c in range(end):
                u[c] = u[c] if columns.open_[s, c] else -CLOSED
        shift = 0.0
        if columns.count[s] >= 0.0:
            shift = shift_to(u, end, pace, columns.count[s])
            theta[s] += shift / step
        uphill = 0.0
        for c in range(end):
            new = u[c] - shift * pace[c]
            new = new if new > 0.0 else 0.0
            forth = new - x[s, c]
            uphill += (x[s, c] + ahead * (x[s, c] - old[s, c]) - new) * forth * metric.drag[c]
            moved = max(moved, abs(forth))
            old[s, c] = new
        turn += uphill / step
    return turn, moved


@summing_leaf
def _descend(x, old, ahead, columns, queries, metric, rows, u):  # type: ignore[no-untyped-def]
    """A step with limits up to the projection, from the multipliers of the last one: u, its columns met."""
    for s in range(x.shape[0]):
        end = columns.end[s]
        for c in range(end):
            v = x[s, c] + ahead * (x[s, c] - old[s, c])
            u[s, c] = queries.own[c] * (v - queries.noisy_own[s, c]) + columns.theta[s]
        for q in range(queries.direct.shape[0]):
            at = queries.direct[q, s]
            for c in range(end):
                u[s, c] += queries.pull[at, c]
        for k in range(rows.first.size):
            base = rows.first[k] + rows.into[k, s] * rows.owners[k]
            if rows.plain[k]:
                for c in range(min(end, rows.held[k, rows.into[k, s]])):
                    u[s, c] += rows.nu[base + c]
            else:
                for c in range(end):
                    u[s, c] += rows.nu[base + rows.owner[k, c]]
        for c in range(end):
            u[s, c] = x[s, c] + ahead * (x[s, c] - old[s, c]) - metric.step[s] * metric.pace[c] * u[s, c]
        if columns.closed:
            for c in range(end):
                u[s, c] = u[s, c] if columns.open_[s, c] else -CLOSED
        fit_column(u, s, columns, metric)


@summing_leaf
def _settle(x, old, ahead, columns, metric, u):  # type: ignore[no-untyped-def]
    """The new point from u, into ``old``; gives whether the momentum turned uphill (positive), and the change."""
    turn, moved = 0.0, 0.0
    for s in range(x.shape[0]):
        uphill = 0.0
        for c in range(columns.end[s]):
            value = u[s, c] if u[s, c] > 0.0 else 0.0
            forth = value - x[s, c]
            uphill += (x[s, c] + ahead * (x[s, c] - old[s, c]) - value) * forth * metric.drag[c]
            moved = max(moved, abs(forth))
            old[s, c] = value
        turn += uphill / metric.step[s]
    return turn, moved
