r"""The fast path: accelerated projected gradient on a product of simplices.

For one nest, with x the children's cells (n children, m support cells), the problem is

.. math::

    \min_x f(x) = \tfrac12 \sum_{c} \sum_{q} w_{qc} \lVert Q_q x_c - y_{qc} \rVert^2
    \quad\text{s.t.}\quad x \ge 0,\quad \sum_c x_{cs} = P_s,\quad l \le R x \le h .

Without the last constraints the feasible set is one simplex for each cell. With H the Hessian, D = diag(H 1) majorises
it (H has no negative entries), so a step of D^-1 g, projected in D's metric, decreases f; FISTA with gradient restart
makes that fast. The projection keeps u, from which x = max(0, u): a multiplier theta_s for each cell shifts u by
-theta_s / D until the children sum to the parent, and a multiplier nu for each limited row does the same for its bounds,
in turns (dual block ascent; each turn is a one-dimensional Newton iteration).

A solve ends by proof, not by a small step. For any theta, and any nu of the right sign,

.. math::

    f^* \ge f(x) + \nu'(Rx - b) + \theta'(\textstyle\sum_c x_c - P)
    + \min_{y \ge 0} (g + R'\nu + \theta)'(y - x) + \tfrac12 \lVert y - x \rVert_M^2 ,
    \qquad M = \mathrm{diag}(w_{detailed}) \preceq H,

b being the bound that nu leans on; the minimum has a closed form. So f(x) - f^* is bounded, and with it the distance.

Tables lie cell by cell, the children of a cell next to each other: ``x[s * n + c]``. ``inverse`` is 1/D; where it is 0
the entry is closed (an upper bound of zero), and stays 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tallyveil._compiled import compiled

_NEWTON = 60  # steps of a one-dimensional Newton iteration, which ends by itself: a guard against dust
_SWEEPS = 12  # turns of columns and rows in one step of the gradient
_LAST_SWEEPS = 2000  # and before a solution is judged


class Queries(NamedTuple):
    """A nest's queries, fine to coarse, each made from the cells (source -1) or from a finer one.

    Row r of query q stands at ``offset[q] + r``; ``into[q, i]`` is the row that cell or finer row i falls into.
    """

    source: Any
    into: Any
    rows: Any
    offset: Any
    weight: Any  # queries x children
    noisy: Any  # all rows x children
    own: Any  # the detailed query's weight, by child
    noisy_own: Any  # cells x children
    soft: Any  # queries met as soft rows, not by the gradient


class Rows(NamedTuple):
    """A nest's limited rows, in kinds (one for each limited query).

    Row r of owner o of kind k is number ``first[k] + r * owners[k] + o``; its cells are ``cells[k, ptr[k, r]]`` and on,
    its children ``children[k, child_ptr[k, o]]`` and on. A row with ``give`` is soft: a query whose weight 1/give is so
    large that it is better met here than by steps of the gradient.
    """

    first: Any
    rows: Any
    owners: Any
    into: Any
    owner: Any
    ptr: Any
    cells: Any
    child_ptr: Any
    children: Any
    least: Any
    most: Any
    give: Any
    nu: Any


@compiled
def solve(n, m, count, queries, rows, open_, want_gap, want_distance, one, most_steps, x):  # type: ignore[no-untyped-def]
    """Solve one nest into ``x``; gives the bound on f - f*, on the distance, the violation and the steps taken.

    It stops when the gap is below ``want_gap * max(one, f)`` and the distance below ``want_distance``.
    """
    size = n * m
    g, u, v, h, inverse, old = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size), x.copy()
    sums = np.empty(max(1, queries.noisy.size))
    theta = np.zeros(m)
    limited = rows.first.size > 0
    _majorise(n, m, queries, open_, sums, inverse)
    for i in range(size):
        u[i] = queries.noisy_own[i] if open_[i] else 0.0
    _project(u, inverse, n, m, count, theta, rows, limited, 1e-3, _SWEEPS, x)
    theta[:] = 0.0
    rows.nu[:] = 0.0
    v[:] = x
    momentum, tolerance, next_check = 1.0, 1.0, 8
    gap, distance, violation = np.inf, np.inf, np.inf
    least_own = np.inf
    for c in range(n):
        least_own = min(least_own, queries.own[c])
    scale = 0.0
    for s in range(m):
        scale += max(0.0, count[s])
    dust = 1e-8 + 1e-14 * scale
    for step in range(1, most_steps + 1):
        _gradient(v, n, m, queries, False, sums, g)
        _ascend(v, g, inverse, n, m, theta, rows, limited, u)
        old[:] = x
        _project(u, inverse, n, m, count, theta, rows, limited, max(dust, tolerance), _SWEEPS, x)
        turn, moved = 0.0, 0.0
        for i in range(size):
            if open_[i]:
                ahead = x[i] - old[i]
                turn += (v[i] - x[i]) * ahead / inverse[i]
                moved = max(moved, abs(ahead))
        tolerance = 0.02 * moved
        if step == next_check or moved == 0.0:
            if limited:
                _ascend(v, g, inverse, n, m, theta, rows, limited, u)
                _project(u, inverse, n, m, count, theta, rows, limited, dust, _LAST_SWEEPS, x)
            value = _gradient(x, n, m, queries, True, sums, g)
            bound, violation = _lower_bound(x, g, value, n, m, count, queries.own, open_, rows, h)
            gap = max(0.0, value - bound)
            distance = np.sqrt(2.0 * gap / least_own) if least_own > 0.0 else np.inf
            near = distance <= want_distance or least_own == 0.0
            if gap <= want_gap * max(one, value) and near and violation <= 10.0 * dust:
                return gap, distance, violation, step, value
            next_check = step + max(8, step // 6)
        if turn > 0.0:
            momentum = 1.0
            v[:] = x
        else:
            after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
            ahead = (momentum - 1.0) / after
            for i in range(size):
                v[i] = x[i] + ahead * (x[i] - old[i])
            momentum = after
    return gap, distance, violation, -most_steps, 0.0


@compiled
def _forward(x, n, m, queries, sums):  # type: ignore[no-untyped-def]
    """Row sums of every query, each from the finer query it is made from."""
    for q in range(queries.source.size):
        for i in range(queries.offset[q] * n, (queries.offset[q] + queries.rows[q]) * n):
            sums[i] = 0.0
        p = queries.source[q]
        for r in range(m if p < 0 else queries.rows[p]):
            to = (queries.offset[q] + queries.into[q, r]) * n
            if p < 0:
                for c in range(n):
                    sums[to + c] += x[r * n + c]
            else:
                at = (queries.offset[p] + r) * n
                for c in range(n):
                    sums[to + c] += sums[at + c]


@compiled
def _backward(n, m, queries, sums, out):  # type: ignore[no-untyped-def]
    """Add each query's rows to the finer rows they are made from, and in the end to the cells (transpose)."""
    for q in range(queries.source.size - 1, -1, -1):
        p = queries.source[q]
        for r in range(m if p < 0 else queries.rows[p]):
            at = (queries.offset[q] + queries.into[q, r]) * n
            if p < 0:
                for c in range(n):
                    out[r * n + c] += sums[at + c]
            else:
                to = (queries.offset[p] + r) * n
                for c in range(n):
                    sums[to + c] += sums[at + c]


@compiled
def _gradient(x, n, m, queries, all_, sums, out):  # type: ignore[no-untyped-def]
    """The gradient of f at x into ``out``, soft queries only where all are wanted; gives f(x)."""
    _forward(x, n, m, queries, sums)
    value = 0.0
    for q in range(queries.source.size):
        used = all_ or not queries.soft[q]
        for r in range(queries.offset[q], queries.offset[q] + queries.rows[q]):
            for c in range(n):
                off = sums[r * n + c] - queries.noisy[r * n + c]
                pull = queries.weight[q, c] * off if used else 0.0
                value += pull * off
                sums[r * n + c] = pull
    for s in range(m):
        for c in range(n):
            off = x[s * n + c] - queries.noisy_own[s * n + c]
            pull = queries.own[c] * off
            value += pull * off
            out[s * n + c] = pull
    _backward(n, m, queries, sums, out)
    return 0.5 * value


@compiled
def _majorise(n, m, queries, open_, sums, inverse):  # type: ignore[no-untyped-def]
    """1 / (H 1) for open entries: the step in each."""
    ones = np.empty(n * m)
    for i in range(n * m):
        ones[i] = 1.0 if open_[i] else 0.0
    _forward(ones, n, m, queries, sums)
    for q in range(queries.source.size):
        for r in range(queries.offset[q], queries.offset[q] + queries.rows[q]):
            for c in range(n):
                sums[r * n + c] *= 0.0 if queries.soft[q] else queries.weight[q, c]
    for s in range(m):
        for c in range(n):
            inverse[s * n + c] = queries.own[c]
    _backward(n, m, queries, sums, inverse)
    for i in range(n * m):
        inverse[i] = 1.0 / inverse[i] if open_[i] else 0.0


@compiled
def _ascend(v, g, inverse, n, m, theta, rows, limited, u):  # type: ignore[no-untyped-def]
    """The point to project, with the multipliers of the last projection taken off already."""
    for s in range(m):
        for i in range(s * n, (s + 1) * n):
            u[i] = v[i] - inverse[i] * (g[i] + theta[s])
    if limited:
        for k in range(rows.first.size):
            for s in range(m):
                base = rows.first[k] + rows.into[k, s] * rows.owners[k]
                for c in range(n):
                    u[s * n + c] -= inverse[s * n + c] * rows.nu[base + rows.owner[k, c]]


@compiled
def _project(u, inverse, n, m, count, theta, rows, limited, tolerance, sweeps, x):  # type: ignore[no-untyped-def]
    """Project: columns and rows in turns, columns last, until no row is off by more than the tolerance."""
    _fit_columns(u, inverse, n, m, count, theta)
    if limited:
        for _ in range(sweeps):
            if _fit_rows(u, inverse, n, rows, tolerance) == 0.0:
                break
            _fit_columns(u, inverse, n, m, count, theta)
    for i in range(n * m):
        x[i] = max(0.0, u[i])


@compiled
def _fit_columns(u, inverse, n, m, count, theta):  # type: ignore[no-untyped-def]
    """Shift every cell's children until they sum to the parent: exact projection onto the product of simplices.

    The sum is convex and falls with the shift, so Newton steps rise to the root from the left, and a step from the
    right lands on the left.
    """
    for s in range(m):
        if count[s] < 0.0:
            continue
        shift = 0.0
        for _ in range(_NEWTON):
            total, slope = 0.0, 0.0
            for i in range(s * n, (s + 1) * n):
                value = u[i] - shift * inverse[i]
                if value > 0.0:
                    total += value
                    slope += inverse[i]
            if slope == 0.0:  # nobody is above 0: begin where one child alone has the whole count
                highest, steepest = -np.inf, 0.0
                for i in range(s * n, (s + 1) * n):
                    if inverse[i] > 0.0:
                        highest = max(highest, u[i] / inverse[i])
                        steepest = max(steepest, 1.0 / inverse[i])
                if steepest == 0.0:
                    break
                shift = highest - count[s] * steepest
                continue
            shift += (total - count[s]) / slope
            if abs(total - count[s]) <= 1e-14 * (count[s] + total):
                break
        theta[s] += shift
        for i in range(s * n, (s + 1) * n):
            u[i] -= shift * inverse[i]


@compiled
def _fit_rows(u, inverse, n, rows, tolerance):  # type: ignore[no-untyped-def]
    """Shift each limited row that is out of its bounds, or that its multiplier holds where it need not be.

    Gives the largest deviation that was mended.
    """
    worst = 0.0
    for k in range(rows.first.size):
        for r in range(rows.rows[k]):
            cells = rows.cells[k, rows.ptr[k, r] : rows.ptr[k, r + 1]]
            for o in range(rows.owners[k]):
                j = rows.first[k] + r * rows.owners[k] + o
                give, nu, least, most = rows.give[j], rows.nu[j], rows.least[j], rows.most[j]
                if give == 0.0 and nu == 0.0 and least <= 0.0 and most == np.inf:
                    continue
                children = rows.children[k, rows.child_ptr[k, o] : rows.child_ptr[k, o + 1]]
                total = 0.0
                for s in cells:
                    for c in children:
                        total += max(0.0, u[s * n + c])
                if give > 0.0:
                    wanted = least + give * nu
                elif nu > 0.0 or (nu == 0.0 and total > most):
                    wanted = most
                elif nu < 0.0 or total < least:
                    wanted = least
                else:
                    continue
                if abs(total - wanted) <= tolerance:
                    continue
                shift = 0.0
                for _ in range(_NEWTON):
                    total, slope = -give * shift, give
                    for s in cells:
                        for c in children:
                            value = u[s * n + c] - shift * inverse[s * n + c]
                            if value > 0.0:
                                total += value
                                slope += inverse[s * n + c]
                    if slope == 0.0:
                        if wanted <= 0.0:
                            break
                        highest, steepest = -np.inf, 0.0
                        for s in cells:
                            for c in children:
                                if inverse[s * n + c] > 0.0:
                                    highest = max(highest, u[s * n + c] / inverse[s * n + c])
                                    steepest = max(steepest, 1.0 / inverse[s * n + c])
                        if steepest == 0.0:
                            break
                        shift = highest - wanted * steepest
                        continue
                    shift += (total - wanted) / slope
                    if abs(total - wanted) <= 1e-14 * (abs(wanted) + abs(total)):
                        break
                if give == 0.0 and nu * (nu + shift) < 0.0:
                    shift = -nu  # the bound no longer holds the row: let go
                if shift == 0.0:
                    continue
                worst = max(worst, abs(total - wanted), tolerance)
                rows.nu[j] = nu + shift
                for s in cells:
                    for c in children:
                        u[s * n + c] -= shift * inverse[s * n + c]
    return worst


@compiled
def _lower_bound(x, g, value, n, m, count, own, open_, rows, h):  # type: ignore[no-untyped-def]
    """A number that the optimum of f cannot be below, and the largest violation of a limited row at x."""
    violation = 0.0
    h[:] = g
    for k in range(rows.first.size):
        for r in range(rows.rows[k]):
            for o in range(rows.owners[k]):
                j = rows.first[k] + r * rows.owners[k] + o
                if rows.give[j] > 0.0:
                    continue
                total = 0.0
                for a in range(rows.ptr[k, r], rows.ptr[k, r + 1]):
                    for b in range(rows.child_ptr[k, o], rows.child_ptr[k, o + 1]):
                        at = rows.cells[k, a] * n + rows.children[k, b]
                        total += x[at]
                        h[at] += rows.nu[j]
                violation = max(violation, total - rows.most[j], rows.least[j] - total)
                if rows.nu[j] > 0.0:
                    value += rows.nu[j] * (total - rows.most[j])
                elif rows.nu[j] < 0.0:
                    value += rows.nu[j] * (total - rows.least[j])
    for s in range(m):
        theta, total = 0.0, 0.0
        for c in range(n):
            total += x[s * n + c]
        if count[s] >= 0.0:
            theta = _column_multiplier(x, h, s, n, count[s], own, open_)
            value += theta * (total - count[s])
            violation = max(violation, abs(total - count[s]))
        for c in range(n):
            i = s * n + c
            if open_[i]:
                slope = h[i] + theta
                if own[c] > 0.0:
                    move = max(-x[i], -slope / own[c])
                    value += move * (slope + 0.5 * own[c] * move)
                elif slope >= 0.0:
                    value -= slope * x[i]
                elif slope < 0.0 and count[s] < 0.0:
                    value = -np.inf
    return value, violation


@compiled
def _column_multiplier(x, h, s, n, count, own, open_):  # type: ignore[no-untyped-def]
    """The theta that makes the minimum sum to the count (without strong convexity: the best vertex)."""
    lowest, theta, curved = np.inf, -np.inf, True
    for c in range(n):
        if open_[s * n + c]:
            lowest = min(lowest, h[s * n + c])
            theta = max(theta, own[c] * (x[s * n + c] - count) - h[s * n + c])
            curved = curved and own[c] > 0.0
    if not curved:
        return -lowest
    for _ in range(_NEWTON):
        total, slope = 0.0, 0.0
        for c in range(n):
            if open_[s * n + c]:
                y = x[s * n + c] - (h[s * n + c] + theta) / own[c]
                if y > 0.0:
                    total += y
                    slope += 1.0 / own[c]
        if slope == 0.0 or total - count <= 1e-13 * (count + total):
            break
        theta += (total - count) / slope
    return theta
