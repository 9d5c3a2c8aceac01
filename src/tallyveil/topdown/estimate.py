"""Estimate: for each parent and all its children jointly, the non-negative table nearest to the measurements.

Nearest in weighted least squares (weights 1/variance), with the children summing to the parent in every cell and all
limits kept. The problem and the method are in ``solver``; here the nests are prepared for it, many at a time, and what
it cannot certify goes to a general solver (``general``).

Exact reductions: queries whose rows coincide on the support are merged into one (with one household type,
``votingage * hispanic * cenrace`` is ``detailed``); a query is summed from a finer one, not from the cells; an upper
bound of zero closes entries; a bound that the parent's counts cannot break is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tallyveil._compiled import compiled
from tallyveil.topdown.nests import UNLIMITED, Index, Limits, Nests
from tallyveil.topdown.solver import Queries, Rows, solve

Floats = NDArray[np.float64]

GAP, DISTANCE = 1e-6, 0.05  # a solve ends when both are proved: relative to max(1, optimum), and in persons
OUTWEIGHING = 200.0  # a query of so much more weight than all others is met in the projection
STEPS = 3000  # of the fast path, before a general solver takes over


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """Noisy answers to one query for the children of some nests, on the rows that touch each nest's support.

    Attributes
    ----------
    row_of_cell
        The row of each cell of the schema.
    start, rows
        Nest ``p`` has the rows ``rows[start[p]]`` to ``rows[start[p + 1]]``, rising.
    noisy
        The answers: nest after nest, within a nest child after child, row after row.
    weight
        1/variance for each child.
    """

    row_of_cell: NDArray[np.int32]
    start: Index
    rows: NDArray[np.int32]
    noisy: Floats
    weight: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimated:
    """Real tables, laid out like the nests' blocks, and for each nest how good they are.

    ``gap`` bounds (objective - optimum) / max(1, optimum), ``distance`` the distance to the optimum in persons
    (infinite where cells are not measured: then it is not unique), ``violation`` is the largest one of a constraint.
    ``general`` marks nests that a general solver solved.
    """

    x: Floats
    gap: Floats
    distance: Floats
    violation: Floats
    steps: Index
    general: NDArray[np.bool_]


def rows_of(nests: Nests, row_of_cell: NDArray[np.int32], size: int) -> tuple[Index, NDArray[np.int32]]:
    """The rows of a query that touch each nest's support (``Asked.start`` and ``Asked.rows``)."""
    return _support_rows(nests.cell_start, nests.cell, row_of_cell, size)  # type: ignore[no-any-return]


def places_of(nests: Nests, start: Index, rows: NDArray[np.int32], size: int) -> Index:
    """Where the answers stand among a level's: ``unit * size + row``, in the order of ``Asked.noisy``."""
    return _places(nests.child_start, nests.child, start, rows, size)  # type: ignore[no-any-return]


def estimate(
    nests: Nests,
    asked: Sequence[Asked],
    limits: Sequence[Limits] = (),
    *,
    gap: float = GAP,
    distance: float = DISTANCE,
    steps: int = STEPS,
) -> Estimated:
    """Solve every nest."""
    from tallyveil.topdown.general import solve_generally

    queries, own = _ordered(nests, asked)
    scale = max(float(one.weight.max()) for one in asked)
    result = _solve_fast(nests, queries, own, limits, scale, gap, distance, steps)
    for p in np.flatnonzero(result.steps < 0):
        found = solve_generally(nests, queries, own, limits, int(p), nests.table(result.x, int(p)).copy())
        nests.table(result.x, int(p))[:] = found.x
        for name in ("gap", "distance", "violation"):
            getattr(result, name)[p] = getattr(found, name)
        result.general[p] = True
    return result


def estimate_in_passes(
    nests: Nests, asked: Sequence[Sequence[Asked]], limits: Sequence[Limits], *, slack: float = 0.1
) -> Estimated:
    """Solve in passes, as the 2020 run did: each in its own queries, then held within ``slack`` by the next.

    A pass before the last is solved in the rows that matter to it, so its answer is always within reach of the cells.
    """
    held: list[Limits] = []
    earlier: list[Estimated] = []
    for queries in asked[:-1]:
        small, into = _collapsed(nests, [*queries, *limits, *held])
        found = estimate(
            small,
            [replace(one, row_of_cell=into(one.row_of_cell)) for one in queries],
            [replace(one, row_of_cell=into(one.row_of_cell)) for one in (*limits, *held)],
        )
        earlier.append(found)
        for one in queries:
            reached = _margin(small, found.x, into(one.row_of_cell), int(one.row_of_cell.max()) + 1)
            held.append(
                Limits(
                    name=f"pass {len(earlier)}",
                    row_of_cell=one.row_of_cell,
                    least=reached - slack,  # type: ignore[arg-type]
                    most=reached + slack,  # type: ignore[arg-type]
                    owner=np.arange(len(nests.child)),
                )
            )
    last = estimate(nests, asked[-1], [*limits, *held])
    for name, worst in (("gap", np.maximum), ("violation", np.maximum), ("general", np.logical_or)):
        for found in earlier:
            worst(getattr(last, name), getattr(found, name), out=getattr(last, name))
    return last


def _collapsed(nests: Nests, wanted: Sequence[Asked | Limits]):  # type: ignore[no-untyped-def]
    """The nests with cells merged that no wanted partition tells apart, and how partitions translate."""
    keys = np.stack([one.row_of_cell for one in wanted])
    _, first, merged = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    merged = merged.reshape(-1).astype(np.int32)
    start, rows = _support_rows(nests.cell_start, nests.cell, merged, len(first))
    nest_of = np.repeat(np.arange(len(nests)), np.diff(nests.cell_start))
    at = np.searchsorted(
        np.repeat(np.arange(len(nests)), np.diff(start)) * len(first) + rows, nest_of * len(first) + merged[nests.cell]
    )
    free = len(nests.count) > 0 and nests.count[0] < 0
    count = np.full(len(rows), -1, np.int64) if free else np.bincount(at, nests.count, len(rows)).astype(np.int64)
    blocks = np.diff(nests.child_start) * np.diff(start)
    small = replace(
        nests, cell_start=start, cell=rows.astype(np.int64), count=count, block_start=np.append(0, np.cumsum(blocks))
    )
    return small, lambda row_of_cell: row_of_cell[first]


def _margin(nests: Nests, x: Floats, row_of_cell: NDArray[np.int32], size: int) -> Floats:
    """Row sums of every child, children x rows."""
    sums = np.zeros((len(nests.child), size))
    _add_rows(nests.child_start, nests.cell_start, nests.cell, nests.block_start, x, row_of_cell, sums)
    return sums


def _ordered(nests: Nests, asked: Sequence[Asked]) -> tuple[list[Asked], Asked]:
    """The queries fine to coarse, and the detailed one; where cells are not measured, one of no weight stands in."""
    others = sorted(asked, key=lambda one: -int(one.row_of_cell.max()))
    if _is_cells(others[0]):
        return others[1:], others[0]
    stand_in = Asked(
        row_of_cell=np.arange(len(asked[0].row_of_cell), dtype=np.int32),
        start=nests.cell_start,
        rows=nests.cell.astype(np.int32),
        noisy=np.zeros(int(nests.block_start[-1])),
        weight=np.zeros(len(nests.child)),
    )
    return others, stand_in


def _is_cells(one: Asked) -> bool:
    return bool((one.row_of_cell == np.arange(len(one.row_of_cell))).all())


def _sources(queries: Sequence[Asked]) -> Index:
    """For each query the smallest finer one that it can be summed from, or -1: the cells."""
    source = np.full(len(queries), -1, np.int64)
    for q, query in enumerate(queries):
        for p in range(q - 1, -1, -1):  # from the coarsest of the finer ones
            pairs = len(np.unique(queries[p].row_of_cell.astype(np.int64) << 32 | query.row_of_cell))
            if pairs == len(np.unique(queries[p].row_of_cell)):
                source[q] = p
                break
    return source


def _solve_fast(
    nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], scale: float, *wanted: float
) -> Estimated:
    count, children, cells = len(nests), len(nests.child), len(own.row_of_cell)
    starts = np.zeros((len(queries), count + 1), np.int64)
    noisy_starts = np.zeros_like(starts)
    sizes = np.diff(nests.child_start)
    rows, noisy, at, noisy_at = [np.empty(0, np.int32)], [np.empty(0)], 0, 0
    for q, query in enumerate(queries):
        starts[q] = at + query.start
        noisy_starts[q] = noisy_at + np.append(0, np.cumsum(sizes * np.diff(query.start)))
        rows.append(query.rows)
        noisy.append(query.noisy)
        at, noisy_at = at + len(query.rows), noisy_at + len(query.noisy)
    result = Estimated(
        x=np.zeros(int(nests.block_start[-1])),
        gap=np.zeros(count),
        distance=np.zeros(count),
        violation=np.zeros(count),
        steps=np.zeros(count, np.int64),
        general=np.zeros(count, np.bool_),
    )
    least = [np.zeros((1, 1)), *(limit.least.astype(np.float64) for limit in limits)]
    most = [np.where(limit.most >= UNLIMITED, np.inf, limit.most).astype(np.float64) for limit in limits]
    limit_first = np.cumsum([len(one.reshape(-1)) for one in least])[: len(limits)]
    gap, distance, steps = wanted
    _solve_nests(
        nests.child_start,
        nests.cell_start,
        nests.cell,
        nests.count.astype(np.float64),
        nests.block_start,
        _stacked([query.row_of_cell for query in queries], cells),
        _sources(queries),
        starts,
        np.concatenate(rows),
        noisy_starts,
        np.concatenate(noisy),
        np.stack([*(query.weight for query in queries), own.weight]) / scale,
        own.noisy,
        _stacked([limit.row_of_cell for limit in limits], cells),
        np.array([limit.least.shape[1] for limit in limits], np.int64),
        np.array(limit_first, np.int64),
        np.concatenate([one.reshape(-1) for one in least]),
        np.concatenate([np.zeros(1), *(one.reshape(-1) for one in most)]),
        np.stack([limit.owner for limit in limits]) if limits else np.zeros((0, children), np.int64),
        gap,
        distance,
        0.5 / scale,
        int(steps),
        1 + max((int(rows_.max()) for rows_ in [one.row_of_cell for one in (*queries, *limits)]), default=0),  # type: ignore[attr-defined]
        result.x,
        result.gap,
        result.distance,
        result.violation,
        result.steps,
    )
    return result


def _stacked(partitions: Sequence[NDArray[np.int32]], cells: int) -> NDArray[np.int32]:
    return np.stack(partitions) if partitions else np.zeros((0, cells), np.int32)


@compiled
def _solve_nests(  # type: ignore[no-untyped-def]
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
                        constant += 0.5 * w * old_weight / (w + old_weight) * (y - old) ** 2
                        mean = (w * y + old_weight * old) / (w + old_weight)
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
def _support_rows(cell_start, cell, row_of_cell, size):  # type: ignore[no-untyped-def]
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
def _places(child_start, child, start, rows, size):  # type: ignore[no-untyped-def]
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
def _add_rows(child_start, cell_start, cell, block_start, x, row_of_cell, sums):  # type: ignore[no-untyped-def]
    for p in range(len(child_start) - 1):
        at = block_start[p]
        for c in range(child_start[p], child_start[p + 1]):
            for s in range(cell_start[p], cell_start[p + 1]):
                sums[c, row_of_cell[cell[s]]] += x[at]
                at += 1
