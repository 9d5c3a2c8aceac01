"""The proof of a solution: how far its objective is above the optimum at most (the bound in ``fista``)."""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import summing, summing_part
from tallyveil.engine.estimate.one_nest import CLOSED
from tallyveil.engine.estimate.projection import add_up, off_by

_NEWTON = 60  # steps of a one-dimensional Newton iteration, which ends by itself: a guard against dust


@summing_part
def gap_of(x, g, columns, own, rows):  # type: ignore[no-untyped-def]
    """How far f(x) is above the optimum at most, the soft rows' part of f(x), and the largest violation.

    ``g`` comes without the soft rows and becomes g + R'nu. For a soft row with sum t and answer y, (t - y)^2 / (2 give)
    is never below nu (t - y) - give nu^2 / 2, whatever nu (Fenchel). The terms are added one by one, not as a
    difference of large sums: the bound stays sharp at any size of f. What a violation would gain counts as a loss: the
    nearest table without it may be worse by as much.
    """
    m, n = x.shape
    count, open_, end = columns.count, columns.open_, columns.end
    gap, unmet, soft, violation, curved = 0.0, 0.0, 0.0, 0.0, True
    give = np.zeros(n)
    for c in range(n):
        curved = curved and own[c] > 0.0
    for c in range(n):
        give[c] = 1.0 / own[c] if curved else 0.0
    for k in range(rows.first.size):
        for r in range(rows.rows[k]):
            first = rows.first[k] + r * rows.owners[k]
            if rows.held[k, r] == 0:
                continue
            add_up(k, r, x, end, rows)
            for a in range(rows.ptr[k, r], rows.ptr[k, r + 1]):
                s = rows.cells[k, a]
                for c in range(end[s]):
                    g[s, c] += rows.nu[first + rows.owner[k, c]]
            for o in range(rows.held[k, r]):
                j = first + o
                nu, total = rows.nu[j], rows.desk.total[o]
                off = total - rows.least[j]
                if rows.give[j] > 0.0:
                    soft += 0.5 * off * off / rows.give[j]
                    gap += 0.5 * (off - rows.give[j] * nu) ** 2 / rows.give[j]
                else:
                    violation = max(violation, total - rows.most[j], -off)
                    unmet += abs(nu * (total - rows.most[j]) if nu > 0.0 else nu * off)
    for s in range(m):
        for c in range(end[s]):
            g[s, c] = g[s, c] if open_[s, c] else CLOSED
        theta = 0.0
        if count[s] >= 0.0:
            theta = column_multiplier(x[s], g[s], n, count[s], own, give)
            off = off_by(x, s, columns)
            unmet += abs(theta * off)
            violation = max(violation, abs(off))
        if curved:
            for c in range(n):
                slope = g[s, c] + theta
                move = max(-x[s, c], -slope * give[c])
                gap -= move * (slope + 0.5 * own[c] * move)
        else:
            for c in range(n):
                slope = g[s, c] + theta
                if slope < 0.0:
                    return np.inf, unmet, soft, violation
                gap += slope * x[s, c] if open_[s, c] else 0.0
    return max(0.0, gap), unmet, soft, violation


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
