r"""The fast path: accelerated projected gradient on a product of simplices.

For one nest, with x the children's cells (n children, m support cells), the problem is

.. math::

    \min_x f(x) = \tfrac12 \sum_{c} \sum_{q} w_{qc} \lVert Q_q x_c - y_{qc} \rVert^2
    \quad\text{s.t.}\quad x \ge 0,\quad \sum_c x_{cs} = P_s,\quad l \le R x \le h .

Without the last constraints the feasible set is one simplex for each cell. The Hessian H has no negative entries, so
D = diag(H 1) majorises it; with all children's weights at their largest, D_s omega_c does too. A step of D^-1 g,
projected in D's metric, decreases f, and FISTA with gradient restart makes that fast. The projection keeps u, from
which x = max(0, u): a multiplier theta_s for each cell shifts u by -theta_s / D until the children sum to the parent,
and a multiplier nu for each limited row does the same for its bounds, in turns (dual block ascent; each turn is a
one-dimensional Newton iteration).

A solve ends by proof, not by a small step. For any theta, and any nu of the right sign,

.. math::

    f^* \ge f(x) + \nu'(Rx - b) + \theta'(\textstyle\sum_c x_c - P)
    + \min_{y \ge 0} (g + R'\nu + \theta)'(y - x) + \tfrac12 \lVert y - x \rVert_M^2 ,
    \qquad M = \mathrm{diag}(w_{detailed}) \preceq H,

b being the bound that nu leans on; the minimum has a closed form. So f(x) - f^* is bounded, and with it the distance.

Tables lie cell by cell, ``x[s, c]``, so that loops over children run along memory. 1/D is ``step[s] * pace[c]``. An
entry that is not open (an upper bound of zero) stays 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tallyveil._compiled import summing

_NEWTON = 60  # steps of a one-dimensional Newton iteration, which ends by itself: a guard against dust
_SWEEPS = 12  # turns of columns and rows in one step of the gradient
_LAST_SWEEPS = 2000  # and before a solution is judged
_POWERS = 1  # power steps towards the best majoriser: more gain nothing
_TURNS = 4  # so many turns for each step that may be taken, in all: beyond that the general path is quicker
FAR = 1e100  # below 0: the answer of an entry that must stay 0, where cells are measured
CLOSED = 1e200  # what keeps an entry at 0: u is minus that, or its gradient that


class Queries(NamedTuple):
    """A nest's queries, fine to coarse, each made from the cells (source -1) or from a finer one.

    Row r of query q stands at ``offset[q] + r``; ``into[q, i]`` is the row that cell or finer row i falls into.
    """

    source: Any
    into: Any
    local: Any  # the row of each cell
    rows: Any
    offset: Any
    weight: Any  # queries x children
    noisy: Any  # all rows x children
    soft: Any  # which queries the projection meets
    own: Any  # the detailed query's weight, by child
    noisy_own: Any  # cells x children


class Rows(NamedTuple):
    """A nest's limited rows, in kinds (one for each limited query).

    Row r of owner o of kind k is number ``first[k] + r * owners[k] + o``; its cells are ``cells[k, ptr[k, r]]`` and on,
    its children ``children[k, child_ptr[k, o]]`` and on.
    A row with ``give`` is soft: not bounded, but a measured row whose weight 1/give is so large that it is better met
    in the projection than by steps of the gradient; ``least`` is its noisy answer.
    """

    first: Any
    rows: Any
    owners: Any
    into: Any
    owner: Any
    plain: Any  # whether each child is its own owner
    ptr: Any
    cells: Any
    child_ptr: Any
    children: Any
    least: Any
    most: Any
    give: Any
    nu: Any


@summing
def solve(n, m, count, queries, rows, open_, want_gap, want_distance, one, constant, most_steps):  # type: ignore[no-untyped-def]
    """Solve one nest: the table, the bound on f - f*, on the distance, the violation, the steps taken and f.

    It stops when the gap is below ``want_gap * max(one, f*)`` for certain, and the distance below ``want_distance``;
    the steps are negative where it did not come to that. ``constant`` is what merged queries add to f.
    """
    x, old = np.zeros((m, n)), np.zeros((m, n))
    step, pace, theta, sums = np.empty(m), np.empty(n), np.zeros(m), np.empty(queries.noisy.shape)
    limited = closed = n < 0  # no; bounds are enforced once the solution without them breaks them
    few, many = _SWEEPS + 0 * n, _LAST_SWEEPS + 0 * n  # variables: a literal argument is compiled for twice
    for s in range(m):
        for c in range(n):
            if not open_[s, c]:  # an answer so far below 0 keeps the entry there, where cells have weight
                queries.noisy_own[s, c] = -FAR
                closed = closed or queries.own[c] == 0.0
    for j in range(rows.least.size):
        limited = limited or rows.give[j] > 0.0 or (rows.least[j] == rows.most[j] and rows.most[j] > 0.0)
    g = np.empty((m, n))
    u = np.empty((m, n))
    j = 0
    for q in range(queries.source.size):
        j += queries.source[q] < 0
    direct = np.empty((j, m), np.int64)  # the rows made from cells that each cell falls into
    j = 0
    for q in range(queries.source.size):
        if queries.source[q] < 0:
            for s in range(m):
                direct[j, s] = queries.offset[q] + queries.into[q, s]
            j += 1
    _majorise(n, m, queries, sums, step, pace)
    for s in range(m):  # begin with the cells' own answers, projected
        for c in range(n):
            u[s, c] = queries.noisy_own[s, c] if open_[s, c] else -CLOSED
        _fit_column(u, s, step, pace, n, count, theta)
    if limited:
        _project(u, step, pace, n, m, count, theta, rows, 1e-3, few)
    _settle(x, old, 0.0, step, pace, n, m, u, x)
    for j in range(rows.nu.size):
        rows.nu[j] = 0.0
    scale, least_own = 0.0, np.inf
    for s in range(m):
        theta[s] = 0.0
        scale += max(0.0, count[s])
        for c in range(n):
            old[s, c] = x[s, c]
    for c in range(n):
        least_own = min(least_own, queries.own[c])
    dust = 1e-10 + 1e-15 * scale
    fine = max(1e-7, dust)  # how far a limited row may be off when a solution is judged; finer each time it is not good
    momentum, ahead, tolerance, next_check, still = 1.0, 0.0, 1.0, 8, 0.05 * min(1.0, want_distance)
    gap, distance, violation, turns = np.inf, np.inf, np.inf, 0
    for taken in range(1, most_steps + 1):
        _pull(x, old, ahead, n, m, queries, sums)
        if limited:
            _ascend(x, old, ahead, n, m, queries, direct, sums, step, pace, count, theta, rows, open_, closed, u)
            turns += _project(u, step, pace, n, m, count, theta, rows, max(dust, tolerance), few)
            turn, moved = _settle(x, old, ahead, step, pace, n, m, u, g)
            x, old, g = g, x, old
        else:
            turn, moved = _step(
                x, old, ahead, n, m, queries, direct, sums, step, pace, count, theta, open_, closed, u[0]
            )
            x, old = old, x
        tolerance = 0.02 * moved
        near = still if limited or rows.first.size == 0 else 2.0 * still  # bounds are looked at earlier
        if (taken >= next_check and moved <= near) or taken >= next_check + 60 or moved == 0.0:
            if limited:
                turns += _project(u, step, pace, n, m, count, theta, rows, fine, many)
                _settle(x, x, 0.0, step, pace, n, m, u, x)
            value = 0.5 * _pull(x, x, 0.0, n, m, queries, sums)
            value += _gradient(x, n, m, queries, sums, open_, g)
            gap, soft, violation = _gap(x, g, n, m, count, queries.own, open_, rows)
            value += soft
            if not limited and violation > fine:
                limited, turn = True, 1.0
            distance = np.sqrt(2.0 * gap / least_own) if least_own > 0.0 else np.inf
            close = distance <= want_distance or least_own == 0.0
            if gap <= want_gap * max(one, constant + value - gap) and close and violation <= 5.0 * fine:
                return x, gap, distance, violation, taken, value
            next_check = taken + max(4, taken // 12)
            fine = max(dust, 0.1 * fine)
            if turns > _TURNS * most_steps:
                break
        if turn > 0.0:  # the momentum points uphill: begin anew
            momentum, ahead = 1.0, 0.0
        else:
            after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
            ahead = (momentum - 1.0) / after
            momentum = after
    return x, gap, distance, violation, -most_steps, 0.0


@summing
def _pull(x, old, ahead, n, m, queries, sums):  # type: ignore[no-untyped-def]
    """What the queries' rows pull at v = x + ahead (x - old), the soft ones apart; gives their part of 2 f(v)."""
    for q in range(queries.source.size):
        first, p = queries.offset[q], queries.source[q]
        for r in range(queries.rows[q]):
            for c in range(n):
                sums[first + r, c] = 0.0
        for r in range(m if p < 0 else queries.rows[p]):
            to = first + queries.into[q, r]
            if p < 0:
                for c in range(n):
                    sums[to, c] += x[r, c] + ahead * (x[r, c] - old[r, c])
            else:
                at = queries.offset[p] + r
                for c in range(n):
                    sums[to, c] += sums[at, c]
    value = 0.0
    for q in range(queries.source.size):
        for r in range(queries.offset[q], queries.offset[q] + queries.rows[q]):
            if queries.soft[q]:
                for c in range(n):
                    sums[r, c] = 0.0
            else:
                for c in range(n):
                    off = sums[r, c] - queries.noisy[r, c]
                    value += queries.weight[q, c] * off * off
                    sums[r, c] = queries.weight[q, c] * off
    for q in range(queries.source.size - 1, -1, -1):  # hand each row's pull down to the finer rows it is made from
        p = queries.source[q]
        if p >= 0:
            for r in range(queries.rows[p]):
                at, to = queries.offset[q] + queries.into[q, r], queries.offset[p] + r
                for c in range(n):
                    sums[to, c] += sums[at, c]
    return value


@summing
def _add_rows(s, n, queries, sums, out):  # type: ignore[no-untyped-def]
    """Add to a cell's children the pull of the rows they fall into."""
    for q in range(queries.source.size):
        if queries.source[q] < 0:
            at = queries.offset[q] + queries.into[q, s]
            for c in range(n):
                out[c] += sums[at, c]


@summing
def _gradient(x, n, m, queries, sums, open_, g):  # type: ignore[no-untyped-def]
    """The gradient at x, once the rows' pull is known; gives the cells' own part of f(x)."""
    value = 0.0
    for s in range(m):
        for c in range(n):
            off = x[s, c] - queries.noisy_own[s, c] if open_[s, c] else 0.0
            value += queries.own[c] * off * off
            g[s, c] = queries.own[c] * off
        _add_rows(s, n, queries, sums, g[s])
    return 0.5 * value


@summing
def _majorise(n, m, queries, sums, step, pace):  # type: ignore[no-untyped-def]
    """1/D: for each cell at the largest weights, and for each child how much its weights fall short of them.

    D_s = (H v)_s / v_s majorises H for any v > 0; a few power steps from v = 1 make its largest entries smaller.
    """
    largest = 0.0
    for c in range(n):
        largest = max(largest, queries.own[c])
    for c in range(n):
        pace[c] = queries.own[c] / largest if largest > 0.0 else 0.0
    heaviest = np.zeros(queries.source.size)
    for q in range(queries.source.size):
        if not queries.soft[q]:
            for c in range(n):
                heaviest[q] = max(heaviest[q], queries.weight[q, c])
            for c in range(n):
                pace[c] = max(pace[c], queries.weight[q, c] / heaviest[q])
    for c in range(n):
        pace[c] = 1.0 / pace[c]
    v, image = np.ones(m), np.empty(m)
    for _ in range(_POWERS + 1):
        for s in range(m):
            image[s] = largest * v[s]
        for q in range(queries.source.size):
            for r in range(queries.offset[q], queries.offset[q] + queries.rows[q]):  # row sums in the first column
                sums[r, 0] = 0.0
            for s in range(m):
                sums[queries.offset[q] + queries.local[q, s], 0] += v[s]
            for s in range(m):
                image[s] += heaviest[q] * sums[queries.offset[q] + queries.local[q, s], 0]
        for s in range(m):
            step[s] = v[s] / image[s]
        highest = 0.0
        for s in range(m):
            highest = max(highest, image[s])
        for s in range(m):
            v[s] = image[s] / highest


@summing
def _step(x, old, ahead, n, m, queries, direct, sums, step, pace, count, theta, open_, closed, u):  # type: ignore[no-untyped-def]
    """One step without limits, cell by cell, into ``old``; gives whether the momentum turned uphill, and the change."""
    turn, moved = 0.0, 0.0
    for s in range(m):
        for c in range(n):
            u[c] = queries.own[c] * (x[s, c] + ahead * (x[s, c] - old[s, c]) - queries.noisy_own[s, c])
        for q in range(direct.shape[0]):
            at = direct[q, s]
            for c in range(n):
                u[c] += sums[at, c]
        for c in range(n):
            u[c] = x[s, c] + ahead * (x[s, c] - old[s, c]) - step[s] * pace[c] * (u[c] + theta[s])
        if closed:
            for c in range(n):
                u[c] = u[c] if open_[s, c] else -CLOSED
        shift = 0.0
        if count[s] >= 0.0:
            shift = _shift_to(u, pace, n, count[s], 0.0)
            theta[s] += shift / step[s]
        uphill = 0.0
        for c in range(n):
            new = u[c] - shift * pace[c]
            new = new if new > 0.0 else 0.0
            forth = new - x[s, c]
            uphill += (x[s, c] + ahead * (x[s, c] - old[s, c]) - new) * forth / pace[c]
            moved = max(moved, abs(forth))
            old[s, c] = new
        turn += uphill / step[s]
    return turn, moved


@summing
def _settle(x, old, ahead, step, pace, n, m, u, new):  # type: ignore[no-untyped-def]
    """The new point from u; gives whether the momentum turned uphill (positive), and the largest change."""
    turn, moved = 0.0, 0.0
    for s in range(m):
        uphill = 0.0
        for c in range(n):
            value = u[s, c] if u[s, c] > 0.0 else 0.0
            forth = value - x[s, c]
            uphill += (x[s, c] + ahead * (x[s, c] - old[s, c]) - value) * forth / pace[c]
            moved = max(moved, abs(forth))
            new[s, c] = value
        turn += uphill / step[s]
    return turn, moved


@summing
def _shift_to(u, pace, n, wanted, give):  # type: ignore[no-untyped-def]
    """The shift for which the positive parts of u - shift * pace sum to ``wanted + give * shift``: Newton's iteration.

    The sum is convex and falls with the shift, so steps rise to the root from the left, and one from the right lands
    on the left. Once the same entries are positive as before, the last step was exact.
    """
    shift, before = 0.0, -1.0
    for _ in range(_NEWTON):
        total, slope = -give * shift, give
        for c in range(n):
            value = u[c] - shift * pace[c]
            total += value if value > 0.0 else 0.0
            slope += pace[c] if value > 0.0 else 0.0
        if slope == before:
            break
        if slope == 0.0:  # nobody is above 0: begin where one alone has all that is wanted
            highest = -2.0 * CLOSED
            for c in range(n):
                highest = max(highest, (u[c] - wanted) / pace[c])
            if highest < -0.1 * CLOSED or wanted <= 0.0:
                break
            shift = highest
            continue
        shift += (total - wanted) / slope
        if abs(total - wanted) <= 1e-11 * abs(wanted):
            break
        before = slope
    return shift


@summing
def _ascend(x, old, ahead, n, m, queries, direct, sums, step, pace, count, theta, rows, open_, closed, u):  # type: ignore[no-untyped-def]
    """A step with limits up to the first projection: the multipliers of the last one are taken off already."""
    for s in range(m):
        for c in range(n):
            v = x[s, c] + ahead * (x[s, c] - old[s, c])
            u[s, c] = queries.own[c] * (v - queries.noisy_own[s, c]) + theta[s]
        for q in range(direct.shape[0]):
            at = direct[q, s]
            for c in range(n):
                u[s, c] += sums[at, c]
        for k in range(rows.first.size):
            base = rows.first[k] + rows.into[k, s] * rows.owners[k]
            if rows.plain[k]:
                for c in range(n):
                    u[s, c] += rows.nu[base + c]
            else:
                for c in range(n):
                    u[s, c] += rows.nu[base + rows.owner[k, c]]
        for c in range(n):
            u[s, c] = x[s, c] + ahead * (x[s, c] - old[s, c]) - step[s] * pace[c] * u[s, c]
        if closed:
            for c in range(n):
                u[s, c] = u[s, c] if open_[s, c] else -CLOSED
        _fit_column(u, s, step, pace, n, count, theta)


@summing
def _project(u, step, pace, n, m, count, theta, rows, tolerance, sweeps):  # type: ignore[no-untyped-def]
    """Rows and columns in turns, columns last, until no row is off by more than the tolerance; gives the turns.

    After two plain turns the rows' multipliers are carried on in the direction they moved, with a momentum that begins
    anew whenever the worst row gets worse (accelerated block ascent of the dual).
    """
    turns, momentum, before = 0, 1.0, np.inf
    last, ahead, moves = rows.nu.copy(), np.zeros(rows.nu.size), np.empty(n)
    while turns < sweeps:
        off = _fit_rows(u, step, pace, n, m, rows, tolerance)
        if off == 0.0:
            break
        if turns > 1:
            momentum = 1.0 if off > before else momentum
            after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
            for j in range(rows.nu.size):
                ahead[j] = (momentum - 1.0) / after * (rows.nu[j] - last[j])
                if rows.give[j] == 0.0 and rows.nu[j] * (rows.nu[j] + ahead[j]) <= 0.0:
                    ahead[j] = 0.0  # a bound pushes in one direction only
                last[j] = rows.nu[j]
                rows.nu[j] += ahead[j]
            momentum = after
            for s in range(m):
                _shifts_of(s, n, rows, ahead, moves)
                for c in range(n):
                    u[s, c] -= step[s] * pace[c] * moves[c]
        else:
            for j in range(rows.nu.size):
                last[j] = rows.nu[j]
        before = off
        for s in range(m):
            _fit_column(u, s, step, pace, n, count, theta)
        turns += 1
    return turns


@summing
def _shifts_of(s, n, rows, shift, moves):  # type: ignore[no-untyped-def]
    """By how much the rows' shifts move the entries of one cell, before its step."""
    for c in range(n):
        moves[c] = 0.0
    for k in range(rows.first.size):
        base = rows.first[k] + rows.into[k, s] * rows.owners[k]
        if rows.plain[k]:
            for c in range(n):
                moves[c] += shift[base + c]
        else:
            for c in range(n):
                moves[c] += shift[base + rows.owner[k, c]]


@summing
def _fit_column(u, s, step, pace, n, count, theta):  # type: ignore[no-untyped-def]
    """Shift a cell's children until they sum to the parent: exact projection onto a simplex."""
    if count[s] >= 0.0:
        shift = _shift_to(u[s], pace, n, count[s], 0.0)
        theta[s] += shift / step[s]
        for c in range(n):
            u[s, c] -= shift * pace[c]


@summing
def _fit_rows(u, step, pace, n, m, rows, tolerance):  # type: ignore[no-untyped-def]
    """Shift each limited row that is out of its bounds, or that its multiplier holds where it need not be.

    Gives by how much the worst one was off.
    """
    worst = 0.0
    row_u, row_pace, totals = np.empty(n * m), np.empty(n * m), np.empty(n)
    for k in range(rows.first.size):
        for r in range(rows.rows[k]):
            begin, end = rows.ptr[k, r], rows.ptr[k, r + 1]
            first = rows.first[k] + r * rows.owners[k]
            if not _row_totals(u, n, k, begin, end, first, rows, totals):
                continue
            for o in range(rows.owners[k]):
                j, total = first + o, totals[o]
                nu, give = rows.nu[j], rows.give[j]
                if give > 0.0:
                    wanted = rows.least[j] + give * nu
                elif nu > 0.0 or (nu == 0.0 and total > rows.most[j]):
                    wanted = rows.most[j]
                elif nu < 0.0 or total < rows.least[j]:
                    wanted = rows.least[j]
                else:
                    continue
                if abs(total - wanted) <= tolerance:
                    continue
                size = 0
                for a in range(begin, end):
                    for b in range(rows.child_ptr[k, o], rows.child_ptr[k, o + 1]):
                        s, c = rows.cells[k, a], rows.children[k, b]
                        row_u[size], row_pace[size] = u[s, c], step[s] * pace[c]
                        size += 1
                shift = _shift_to(row_u, row_pace, size, wanted, give)
                if give == 0.0 and nu * (nu + shift) < 0.0:
                    shift = -nu  # the bound no longer holds the row: let go
                if shift == 0.0:
                    continue
                worst = max(worst, abs(total - wanted))
                rows.nu[j] = nu + shift
                for a in range(begin, end):
                    for b in range(rows.child_ptr[k, o], rows.child_ptr[k, o + 1]):
                        s, c = rows.cells[k, a], rows.children[k, b]
                        u[s, c] -= shift * step[s] * pace[c]
    return worst


@summing
def _row_totals(u, n, k, begin, end, first, rows, totals):  # type: ignore[no-untyped-def]
    """Each owner's sum over one limited row; tells whether anything limits the row at all."""
    limited = False
    for o in range(rows.owners[k]):
        j = first + o
        totals[o] = 0.0
        limited = limited or rows.give[j] > 0.0 or rows.nu[j] != 0.0 or rows.least[j] > 0.0 or rows.most[j] < np.inf
    if not limited:
        return False
    for a in range(begin, end):
        s = rows.cells[k, a]
        if rows.plain[k]:
            for c in range(n):
                totals[c] += u[s, c] if u[s, c] > 0.0 else 0.0
        else:
            for c in range(n):
                totals[rows.owner[k, c]] += max(0.0, u[s, c])
    return True


@summing
def _gap(x, g, n, m, count, own, open_, rows):  # type: ignore[no-untyped-def]
    """How far f(x) is above the optimum at most, the soft rows' part of f(x), and the largest violation.

    ``g`` comes without the soft rows and becomes g + R'nu. For a soft row with sum t and answer y, (t - y)^2 / (2 give)
    is never below nu (t - y) - give nu^2 / 2, whatever nu (Fenchel). The terms are added one by one, not as a
    difference of large sums: the bound stays sharp at any size of f. What a violation would gain counts as a loss: the
    nearest table without it may be worse by as much.
    """
    gap, soft, violation, curved = 0.0, 0.0, 0.0, True
    give = np.zeros(n)
    for c in range(n):
        curved = curved and own[c] > 0.0
    for c in range(n):
        give[c] = 1.0 / own[c] if curved else 0.0
    for k in range(rows.first.size):
        for r in range(rows.rows[k]):
            for o in range(rows.owners[k]):
                j = rows.first[k] + r * rows.owners[k] + o
                nu, total = rows.nu[j], 0.0
                for a in range(rows.ptr[k, r], rows.ptr[k, r + 1]):
                    for b in range(rows.child_ptr[k, o], rows.child_ptr[k, o + 1]):
                        s, c = rows.cells[k, a], rows.children[k, b]
                        total += x[s, c]
                        g[s, c] += nu
                off = total - rows.least[j]
                if rows.give[j] > 0.0:
                    soft += 0.5 * off * off / rows.give[j]
                    gap += 0.5 * (off - rows.give[j] * nu) ** 2 / rows.give[j]
                else:
                    violation = max(violation, total - rows.most[j], -off)
                    gap += abs(nu * (total - rows.most[j]) if nu > 0.0 else nu * off)
    for s in range(m):
        for c in range(n):
            g[s, c] = g[s, c] if open_[s, c] else CLOSED
        theta, total = 0.0, 0.0
        if count[s] >= 0.0:
            theta = column_multiplier(x[s], g[s], n, count[s], own, give)
            for c in range(n):
                total += x[s, c]
            gap += abs(theta * (total - count[s]))
            violation = max(violation, abs(total - count[s]))
        if curved:
            for c in range(n):
                slope = g[s, c] + theta
                move = max(-x[s, c], -slope * give[c])
                gap -= move * (slope + 0.5 * own[c] * move)
        else:
            for c in range(n):
                slope = g[s, c] + theta
                if slope < 0.0:
                    return np.inf, soft, violation
                gap += slope * x[s, c] if open_[s, c] else 0.0
    return max(0.0, gap), soft, violation


@summing
def column_multiplier(x, h, n, count, own, give):  # type: ignore[no-untyped-def]
    """The theta that makes the minimum sum to the count (without strong convexity: the best vertex)."""
    lowest, theta = h[0], -2 * CLOSED
    for c in range(n):
        lowest = min(lowest, h[c])
        theta = max(theta, own[c] * (x[c] - count) - h[c])
    if give[0] == 0.0:
        return -lowest
    before = -1.0
    for _ in range(_NEWTON):
        total, slope = 0.0, 0.0
        for c in range(n):
            y = x[c] - (h[c] + theta) * give[c]
            total += y if y > 0.0 else 0.0
            slope += give[c] if y > 0.0 else 0.0
        if slope == 0.0 or slope == before:
            break
        theta += (total - count) / slope
        before = slope
    return theta
