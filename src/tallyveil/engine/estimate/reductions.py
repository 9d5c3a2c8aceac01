"""Prepare each nest for the solver, compiled: the rows of its queries and limits that its support has.

Exact reductions: queries whose rows coincide on the support are merged into one (with one household type,
``votingage * hispanic * cenrace`` is ``detailed``); a query is summed from a finer one, not from the cells; an upper
bound of zero closes entries; a bound that the parent's counts cannot break is dropped.
"""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import compiled
from tallyveil.engine.estimate.fista import Queries, Rows, solve

OUTWEIGHING = 200.0  # a query of so much more weight than all others is met in the projection


@compiled
def solve_nests(  # type: ignore[no-untyped-def]
    child_start, cell_start, cell, count, block_start, row_of_cell, source, row_start, row, noisy_start, noisy, weight,
    noisy_own, limit_row, limit_rows, limit_first, least, most, owner, want_gap, want_distance, one, most_steps,
    most_rows, out, out_gap, out_distance, out_violation, out_steps,
):  # fmt: skip
    """Prepare each nest and solve it."""
    kinds, asked = limit_row.shape[0], row_of_cell.shape[0]
    place = np.zeros(most_rows, np.int64)
    for p in range(len(child_start) - 1):
        c0, s0, b0 = child_start[p], cell_start[p], block_start[p]
        n, m = child_start[p + 1] - c0, cell_start[p + 1] - s0
        if m == 0:
            continue
        own, own_noisy = np.empty(n), np.empty((m, n))
        for c in range(n):
            own[c] = weight[asked, c0 + c]
            for s in range(m):
                own_noisy[s, c] = noisy_own[b0 + c * m + s]

        # queries, merged where their rows coincide on the support
        total_rows = 0
        for q in range(asked):
            total_rows += row_start[q, p + 1] - row_start[q, p]
        local = np.empty((asked, m), np.int64)
        into = np.empty((asked, m), np.int64)
        across = np.empty(m, np.int64)  # the row of this query that each cell, or row of the finer query, falls into
        rows, offset = np.zeros(asked, np.int64), np.zeros(asked, np.int64)
        made_from, alias = np.zeros(asked, np.int64), np.zeros(asked, np.int64)
        weights, values = np.empty((asked, n)), np.empty((total_rows, n))
        kept, used, constant = 0, 0, 0.0
        for q in range(asked):
            first = row_start[q, p]
            k = row_start[q, p + 1] - first
            for r in range(k):
                place[row[first + r]] = r
            t = source[q]
            if t >= 0:
                t = alias[t]
            finer = m if t < 0 else rows[t]
            start = noisy_start[q, p]
            for s in range(m):
                across[s if t < 0 else local[t, s]] = place[row_of_cell[q, cell[s0 + s]]]
            if k == finer:  # the same rows as the finer query's: one weighted mean
                alias[q] = t
                for i in range(finer):
                    for c in range(n):
                        y, w = noisy[start + c * k + across[i]], weight[q, c0 + c]
                        old = own_noisy[i, c] if t < 0 else values[offset[t] + i, c]
                        old_weight = own[c] if t < 0 else weights[t, c]
                        both = w + old_weight
                        constant += 0.5 * w * old_weight / both * (y - old) ** 2 if both > 0.0 else 0.0
                        mean = (w * y + old_weight * old) / both if both > 0.0 else old
                        if t < 0:
                            own_noisy[i, c] = mean
                        else:
                            values[offset[t] + i, c] = mean
                for c in range(n):
                    if t < 0:
                        own[c] += weight[q, c0 + c]
                    else:
                        weights[t, c] += weight[q, c0 + c]
                continue
            alias[q] = kept
            made_from[kept], rows[kept], offset[kept] = t, k, used
            for i in range(finer):
                into[kept, i] = across[i]
            for s in range(m):
                local[kept, s] = place[row_of_cell[q, cell[s0 + s]]]
            for c in range(n):
                weights[kept, c] = weight[q, c0 + c]
                for r in range(k):
                    values[used + r, c] = noisy[start + c * k + r]
            used += k
            kept += 1

        # queries that outweigh all others by far are met in the projection, as soft rows
        soft = _outweighing(n, m, kept, rows, local, weights, own)
        softs = 0
        for q in range(kept):
            softs += soft[q]

        # limits on the rows that the support has
        open_ = np.ones((m, n), np.bool_)
        total = 0
        for k in range(kinds):
            total += limit_rows[k] * n
        for q in range(kept):
            total += rows[q] * n if soft[q] else 0
        all_ = kinds + softs
        firsts, numbers, owners = np.zeros(all_, np.int64), np.zeros(all_, np.int64), np.zeros(all_, np.int64)
        limit_into, cells = np.empty((all_, m), np.int64), np.empty((all_, m), np.int64)
        owner_of, children = np.empty((all_, n), np.int64), np.empty((all_, n), np.int64)
        ptr, child_ptr = np.zeros((all_, m + 1), np.int64), np.zeros((all_, n + 1), np.int64)
        low, high, give = np.zeros(total), np.full(total, np.inf), np.zeros(total)
        plain = np.ones(all_, np.bool_)
        used_limits = 0
        for k in range(kinds):
            base, last = owner[k, c0], owner[k, c0]
            for c in range(n):
                base, last = min(base, owner[k, c0 + c]), max(last, owner[k, c0 + c])
            owners[k] = last - base + 1
            firsts[k] = used_limits
            for c in range(n):
                owner_of[k, c] = owner[k, c0 + c] - base
                plain[k] = plain[k] and owner_of[k, c] == c
                child_ptr[k, owner_of[k, c] + 1] += 1
            for o in range(owners[k]):
                child_ptr[k, o + 1] += child_ptr[k, o]
            fill = np.zeros(owners[k], np.int64)
            for c in range(n):
                children[k, child_ptr[k, owner_of[k, c]] + fill[owner_of[k, c]]] = c
                fill[owner_of[k, c]] += 1
            number = 0
            for s in range(m):
                place[limit_row[k, cell[s0 + s]]] = -1
            for s in range(m):
                r = limit_row[k, cell[s0 + s]]
                if place[r] < 0:
                    place[r] = number
                    number += 1
                limit_into[k, s] = place[r]
            numbers[k] = number
            _index_rows(m, number, limit_into[k], ptr[k], cells[k])
            for r in range(number):
                whole = 0.0
                for a in range(ptr[k, r], ptr[k, r + 1]):
                    whole += count[s0 + cells[k, a]]
                global_row = limit_row[k, cell[s0 + cells[k, ptr[k, r]]]]
                for o in range(owners[k]):
                    at = limit_first[k] + (base + o) * limit_rows[k] + global_row
                    j = used_limits + r * owners[k] + o
                    low[j], high[j] = least[at], most[at]
                    if high[j] <= 0.0:
                        low[j], high[j] = 0.0, np.inf
                        for a in range(ptr[k, r], ptr[k, r + 1]):
                            for b in range(child_ptr[k, o], child_ptr[k, o + 1]):
                                open_[cells[k, a], children[k, b]] = False
                    elif count[s0] >= 0.0 and high[j] >= whole:
                        high[j] = np.inf
            used_limits += number * owners[k]
        k = kinds
        for q in range(kept):
            if soft[q]:
                firsts[k], numbers[k], owners[k] = used_limits, rows[q], n
                for c in range(n):
                    owner_of[k, c], children[k, c], child_ptr[k, c + 1] = c, c, c + 1
                for s in range(m):
                    limit_into[k, s] = local[q, s]
                _index_rows(m, rows[q], limit_into[k], ptr[k], cells[k])
                for r in range(rows[q]):
                    for c in range(n):
                        low[used_limits] = high[used_limits] = values[offset[q] + r, c]
                        give[used_limits] = 1.0 / weights[q, c]
                        used_limits += 1
                k += 1

        measured = False
        for c in range(n):
            measured = measured or own[c] > 0.0
        if not measured:  # cells are not measured: begin with shares of the parent
            for s in range(m):
                for c in range(n):
                    own_noisy[s, c] = max(0.0, count[s0 + s]) / n
        x, gap, distance, violation, steps, value = solve(
            n,
            m,
            count[s0 : s0 + m],
            Queries(
                made_from[:kept], into, local, rows[:kept], offset[:kept], weights, values[:used], soft, own, own_noisy,
            ),
            Rows(
                firsts, numbers, owners, limit_into, owner_of, plain, ptr, cells, child_ptr, children, low,
                high, give, np.zeros(total),
            ),
            open_,
            want_gap,
            want_distance,
            one,
            constant,
            most_steps,
        )  # fmt: skip
        for c in range(n):
            for s in range(m):
                out[b0 + c * m + s] = x[s, c]
        out_gap[p] = gap / max(one, value + constant - gap)
        out_distance[p], out_violation[p], out_steps[p] = distance, violation, steps


@compiled
def _outweighing(n, m, kept, rows, local, weights, own):  # type: ignore[no-untyped-def]
    """Which queries outweigh all the rest together so far that steps of the gradient would be far too short."""
    soft = np.zeros(kept, np.bool_)
    curvature = np.zeros(kept + 1)  # the largest eigenvalue that each query adds, at most; last the cells' own
    for c in range(n):
        curvature[kept] = max(curvature[kept], own[c])
    size = np.zeros(m, np.int64)
    for q in range(kept):
        heaviest, longest = 0.0, 0
        for c in range(n):
            heaviest = max(heaviest, weights[q, c])
        for r in range(rows[q]):
            size[r] = 0
        for s in range(m):
            size[local[q, s]] += 1
            longest = max(longest, size[local[q, s]])
        curvature[q] = heaviest * longest
    for _ in range(kept):
        rest, top = 0.0, kept
        for q in range(kept + 1):
            rest += curvature[q]
            top = q if curvature[q] > curvature[top] else top
        rest -= curvature[top]
        if top == kept or rest == 0.0 or curvature[top] <= OUTWEIGHING * rest:
            break
        soft[top] = True
        curvature[top] = 0.0
    return soft


@compiled
def _index_rows(m, number, into, ptr, cells):  # type: ignore[no-untyped-def]
    """The cells of each row: row r has ``cells[ptr[r]]`` to ``cells[ptr[r + 1]]``."""
    for s in range(m):
        ptr[into[s] + 1] += 1
    for r in range(number):
        ptr[r + 1] += ptr[r]
    fill = np.zeros(number, np.int64)
    for s in range(m):
        cells[ptr[into[s]] + fill[into[s]]] = s
        fill[into[s]] += 1


@compiled
def support_rows(cell_start, cell, row_of_cell, size):  # type: ignore[no-untyped-def]
    """Distinct rows of each nest's support, rising."""
    seen = np.full(size, -1, np.int64)
    start = np.zeros(len(cell_start), np.int64)
    for p in range(len(cell_start) - 1):
        found = 0
        for i in range(cell_start[p], cell_start[p + 1]):
            if seen[row_of_cell[cell[i]]] != p:
                seen[row_of_cell[cell[i]]] = p
                found += 1
        start[p + 1] = start[p] + found
    rows = np.empty(start[-1], np.int32)
    seen[:] = -1
    for p in range(len(cell_start) - 1):
        at = start[p]
        for i in range(cell_start[p], cell_start[p + 1]):
            if seen[row_of_cell[cell[i]]] != p:
                seen[row_of_cell[cell[i]]] = p
                rows[at] = row_of_cell[cell[i]]
                at += 1
        rows[start[p] : start[p + 1]].sort()
    return start, rows


@compiled
def places(child_start, child, start, rows, size):  # type: ignore[no-untyped-def]
    """Places (unit * size + row) for every child of every nest and every row of the nest."""
    total = 0
    for p in range(len(start) - 1):
        total += (child_start[p + 1] - child_start[p]) * (start[p + 1] - start[p])
    out = np.empty(total, np.int64)
    at = 0
    for p in range(len(start) - 1):
        for c in range(child_start[p], child_start[p + 1]):
            for r in range(start[p], start[p + 1]):
                out[at] = child[c] * size + rows[r]
                at += 1
    return out


@compiled
def add_rows(child_start, cell_start, cell, block_start, x, row_of_cell, sums):  # type: ignore[no-untyped-def]
    """Add each child's entries to the rows they fall into."""
    for p in range(len(child_start) - 1):
        at = block_start[p]
        for c in range(child_start[p], child_start[p + 1]):
            for s in range(cell_start[p], cell_start[p + 1]):
                sums[c, row_of_cell[cell[s]]] += x[at]
                at += 1
