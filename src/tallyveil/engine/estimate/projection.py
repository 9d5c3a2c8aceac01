"""Projection in the metric D onto the children's sums, the bounds and x >= 0: dual block ascent.

The projection keeps u, from which x = max(0, u). A multiplier theta_s for each cell shifts u by -theta_s / D until the
children sum to the parent, and a multiplier nu for each limited row does the same for its bounds, in turns; each is a
one-dimensional Newton iteration.
"""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import exact_part, inlined, summing_leaf
from tallyveil.engine.estimate.one_nest import CLOSED

_DUST = 1e-6  # persons: what a sum may be off before it is met exactly
_ERRORS = 1e-10  # of a sum: what rounding errors may make of it, at most
_NEWTON = 60  # steps of a one-dimensional Newton iteration, which ends by itself: a guard against dust


@summing_leaf
def shift_to(u, end, pace, wanted):  # type: ignore[no-untyped-def]
    """The shift for which the positive parts of u - shift * pace sum to ``wanted``: Newton's iteration.

    The sum is convex and falls with the shift, so steps rise to the root from the left, and one from the right lands
    on the left. Once the same entries are positive as before, the last step was exact.
    """
    shift, before = 0.0, -1.0
    for _ in range(_NEWTON):
        total, slope = 0.0, 0.0
        for c in range(end):
            value = u[c] - shift * pace[c]
            total += value if value > 0.0 else 0.0
            slope += pace[c] if value > 0.0 else 0.0
        if slope == before:
            break
        if slope == 0.0:  # nobody is above 0: begin where one alone has all that is wanted
            highest = -2.0 * CLOSED
            for c in range(end):
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


@summing_leaf
def fit_column(u, s, columns, metric):  # type: ignore[no-untyped-def]
    """Shift a cell's children until they sum to the parent: exact projection onto a simplex."""
    if columns.count[s] >= 0.0:
        end = columns.end[s]
        shift = shift_to(u[s], end, metric.pace, columns.count[s])
        columns.theta[s] += shift / metric.step[s]
        for c in range(end):
            u[s, c] -= shift * metric.pace[c]


@exact_part  # in another order the whole parts would not cancel
def off_by(x, s, columns):  # type: ignore[no-untyped-def]
    """By how much the children of a cell miss the parent's count: whole parts are added as integers, which is exact.

    Sums of billions are otherwise off by more than a solution may be.
    """
    whole, rest = -np.int64(columns.count[s]), 0.0
    for c in range(columns.end[s]):
        floor = np.int64(x[s, c])
        whole += floor
        rest += x[s, c] - floor
    return whole + rest


@summing_leaf
def meet_columns(x, columns, metric):  # type: ignore[no-untyped-def]
    """Shift children that have people by what rounding errors of large sums leave: a projection that misses little."""
    for s in range(columns.count.size):
        off = off_by(x, s, columns) if columns.count[s] >= 0.0 else 0.0
        if _DUST < abs(off) < _ERRORS * columns.count[s]:
            slope = 0.0
            for c in range(columns.end[s]):
                slope += metric.pace[c] if x[s, c] > abs(off) else 0.0
            for c in range(columns.end[s]):
                x[s, c] -= off * metric.pace[c] / slope if x[s, c] > abs(off) else 0.0


@summing_leaf
def project(u, columns, metric, rows, tolerance, sweeps):  # type: ignore[no-untyped-def]
    """Rows and columns in turns, columns last, until no row is off by more than the tolerance; gives the turns.

    After two plain turns the rows' multipliers are carried on in the direction they moved, with a momentum that begins
    anew whenever the worst row gets worse (accelerated block ascent of the dual).
    """
    turns, momentum, before, end = 0, 1.0, np.inf, columns.end
    while turns < sweeps:
        off = _fit_rows(u, end, metric, rows, tolerance)
        if off == 0.0:
            break
        if turns > 1:
            momentum = 1.0 if off > before else momentum
            after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
            _carry_on((momentum - 1.0) / after, rows)
            momentum = after
        else:
            _carry_on(0.0, rows)
        before = off
        for s in range(columns.count.size):
            if turns > 1:
                _pull_by_rows(s, end[s], rows)
                for c in range(end[s]):
                    u[s, c] -= metric.step[s] * metric.pace[c] * rows.desk.move[c]
            fit_column(u, s, columns, metric)
        turns += 1
    return turns


@summing_leaf
def _carry_on(momentum, rows):  # type: ignore[no-untyped-def]
    """Carry the rows' multipliers on in the direction that they moved."""
    last, ahead = rows.desk.last, rows.desk.ahead
    for k in range(rows.first.size):
        for r in range(rows.rows[k]):
            first = rows.first[k] + r * rows.owners[k]
            for j in range(first, first + rows.held[k, r]):
                ahead[j] = momentum * (rows.nu[j] - last[j])
                if rows.give[j] == 0.0 and rows.nu[j] * (rows.nu[j] + ahead[j]) <= 0.0:
                    ahead[j] = 0.0  # a bound pushes in one direction only
                last[j] = rows.nu[j]
                rows.nu[j] += ahead[j]


@summing_leaf
def _pull_by_rows(s, end, rows):  # type: ignore[no-untyped-def]
    """(R' ahead)_s: what the rows pull at the entries of one cell where their multipliers are carried on."""
    pull, ahead = rows.desk.move, rows.desk.ahead
    for c in range(end):
        pull[c] = 0.0
    for k in range(rows.first.size):
        base = rows.first[k] + rows.into[k, s] * rows.owners[k]
        if rows.plain[k]:
            for c in range(min(end, rows.held[k, rows.into[k, s]])):
                pull[c] += ahead[base + c]
        else:
            for c in range(end):
                pull[c] += ahead[base + rows.owner[k, c]]


@inlined
def _fit_rows(u, end, metric, rows, tolerance):  # type: ignore[no-untyped-def]
    """Shift each limited row that is out of its bounds, or that its multiplier holds where it need not be.

    Gives by how much the worst one was off.
    """
    worst = 0.0
    for k in range(rows.first.size):
        for r in range(rows.rows[k]):
            if rows.held[k, r] > 0:
                add_up(k, r, u, end, rows)
                number, off = _find_moving(k, r, tolerance, rows)
                if number > 0:
                    worst = max(worst, off)
                    width = _lay_out(k, r, number, u, rows)
                    _find_shifts(k, r, number, width, metric, rows)
                    _shift(k, r, number, width, u, metric, rows)
    return worst


@summing_leaf
def add_up(k, r, u, end, rows):  # type: ignore[no-untyped-def]
    """Each owner's sum over one row that is limited."""
    total = rows.desk.total
    for o in range(rows.owners[k]):
        total[o] = 0.0
    for a in range(rows.ptr[k, r], rows.ptr[k, r + 1]):
        s = rows.cells[k, a]
        if rows.plain[k]:
            for c in range(min(end[s], rows.held[k, r])):
                total[c] += u[s, c] if u[s, c] > 0.0 else 0.0
        else:
            for c in range(end[s]):
                total[rows.owner[k, c]] += max(0.0, u[s, c])


@summing_leaf
def _find_moving(k, r, tolerance, rows):  # type: ignore[no-untyped-def]
    """The owners whose row is off, and what it should be; gives how many, and by how much the worst is off."""
    number, worst, first = 0, 0.0, rows.first[k] + r * rows.owners[k]
    for o in range(rows.held[k, r]):
        j, total = first + o, rows.desk.total[o]
        nu, give = rows.nu[j], rows.give[j]
        if give > 0.0:
            wanted = rows.least[j] + give * nu
        elif nu > 0.0 or (nu == 0.0 and total > rows.most[j]):
            wanted = rows.most[j]
        elif nu < 0.0 or total < rows.least[j]:
            wanted = rows.least[j]
        else:
            continue
        if abs(total - wanted) > tolerance:
            rows.desk.moving[number], rows.desk.wanted[number] = o, wanted
            number, worst = number + 1, max(worst, abs(total - wanted))
    return number, worst


@summing_leaf
def _lay_out(k, r, number, u, rows):  # type: ignore[no-untyped-def]
    """Copy the entries of the rows that are off, so that loops run along memory; gives their width."""
    desk, width = rows.desk, 0
    for i in range(number):
        o = desk.moving[i]
        for b in range(rows.child_ptr[k, o], rows.child_ptr[k, o + 1]):
            desk.child[width], desk.place[width] = rows.children[k, b], i
            width += 1
    at = 0
    for a in range(rows.ptr[k, r], rows.ptr[k, r + 1]):
        s = rows.cells[k, a]
        for b in range(width):
            desk.table[at + b] = u[s, desk.child[b]]
        at += width
    return width


@summing_leaf
def _find_shifts(k, r, number, width, metric, rows):  # type: ignore[no-untyped-def]
    """Newton's iteration of ``shift_to`` for all rows that are off, side by side."""
    desk, first = rows.desk, rows.first[k] + r * rows.owners[k]
    for i in range(number):
        desk.shift[i], desk.fall[i] = 0.0, -1.0
    for _ in range(_NEWTON):
        for b in range(width):
            desk.move[b] = desk.shift[desk.place[b]] * metric.pace[desk.child[b]]
            desk.sum[b] = desk.slope[b] = 0.0
        at = 0
        for a in range(rows.ptr[k, r], rows.ptr[k, r + 1]):
            step = metric.step[rows.cells[k, a]]
            for b in range(width):
                value = desk.table[at + b] - step * desk.move[b]
                desk.sum[b] += value if value > 0.0 else 0.0
                desk.slope[b] += step if value > 0.0 else 0.0
            at += width
        b, left = 0, 0
        for i in range(number):
            give = rows.give[first + desk.moving[i]]
            total, fall = -give * desk.shift[i], give
            while b < width and desk.place[b] == i:
                total += desk.sum[b]
                fall += desk.slope[b] * metric.pace[desk.child[b]]
                b += 1
            if fall == desk.fall[i]:
                continue
            if fall == 0.0:  # nobody is above 0: begin where one alone has all that is wanted
                highest = _lift(k, r, i, width, metric, rows)
                if highest > -0.1 * CLOSED and desk.wanted[i] > 0.0:
                    desk.shift[i] = highest
                    left += 1
                continue
            desk.shift[i] += (total - desk.wanted[i]) / fall
            desk.fall[i] = fall
            left += abs(total - desk.wanted[i]) > 1e-11 * abs(desk.wanted[i])
        if left == 0:
            break


@summing_leaf
def _lift(k, r, i, width, metric, rows):  # type: ignore[no-untyped-def]
    """The shift of a row that has nobody, after which one entry alone has all that is wanted."""
    desk, highest, at = rows.desk, -2.0 * CLOSED, 0
    for a in range(rows.ptr[k, r], rows.ptr[k, r + 1]):
        for b in range(width):
            if desk.place[b] == i:
                reach = metric.step[rows.cells[k, a]] * metric.pace[desk.child[b]]
                highest = max(highest, (desk.table[at + b] - desk.wanted[i]) / reach)
        at += width
    return highest


@summing_leaf
def _shift(k, r, number, width, u, metric, rows):  # type: ignore[no-untyped-def]
    """Take the shifts over into u and nu."""
    desk, first = rows.desk, rows.first[k] + r * rows.owners[k]
    for i in range(number):
        j = first + desk.moving[i]
        if rows.give[j] == 0.0 and rows.nu[j] * (rows.nu[j] + desk.shift[i]) < 0.0:
            desk.shift[i] = -rows.nu[j]  # the bound no longer holds the row: let go
        rows.nu[j] += desk.shift[i]
    for b in range(width):
        desk.move[b] = desk.shift[desk.place[b]] * metric.pace[desk.child[b]]
    for a in range(rows.ptr[k, r], rows.ptr[k, r + 1]):
        s = rows.cells[k, a]
        for b in range(width):
            u[s, desk.child[b]] -= metric.step[s] * desk.move[b]
