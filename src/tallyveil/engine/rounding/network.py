"""Rounding by largest fractions or a network flow, nest by nest, compiled.

Which of a column's fractions go up is a flow of units from columns (cells of the parent) through each child's margins,
finest to coarsest, and through owners that share limits. A layer is one partition of the cells, for every child or for
every owner; a node is a row of it. Stage by stage the flow nearest to that layer's real sums is found, and held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil._compiled import compiled
from tallyveil.engine.nests import Limits
from tallyveil.engine.rounding.flow import NEVER, SCALE, cost_of_one_more, nearest_flow
from tallyveil.engine.rounding.programs import WHOLE
from tallyveil.engine.rounding.stages import Partition, numbered
from tallyveil.nouns.schema import Schema

PROGRAM_SIZE = 2_000  # the largest table for an integer program where there is another way; beyond, it takes minutes
DONE, FLOWED, STUCK = 0, 1, 2
_OWN, _SHARED, _PARENTS = 0, 1, 2


class Rules(NamedTuple):
    """What holds for all nests, as arrays. A layer is a partition of the cells, for every child or for every owner."""

    margins: bool  # round margins first
    rows: NDArray[np.int32]  # partitions coarse to fine, the cells left out: row of each cell
    layer_partition: Integers  # coarse to fine
    layer_limit: Integers  # whose owners a layer is for; -1: every child for itself
    limit_partition: Integers  # as many as there are: the cells
    limit_row: NDArray[np.int32]
    width: Integers  # rows of each limit's bounds, which begin at:
    begin: Integers
    least: Integers
    most: Integers
    owner: Integers


def rules_of(limits: Sequence[Limits], partitions: list[Partition] | None, margins: bool, schema: Schema) -> Rules:
    """What holds for all nests, from limits and partitions (coarse to fine)."""
    rows = [rows for rows in partitions or () if rows.max() + 1 < schema.cells]
    place = [
        next((k for k, r in enumerate(rows) if r.max() == numbered(q.row_of_cell).max()), len(rows)) for q in limits
    ]
    fewest_first = sorted(range(len(limits)), key=lambda i: len(limits[i].least))
    layers = [(k, i) for k in range(len(rows)) for i in [*(i for i in fewest_first if place[i] == k), -1]]
    sizes = [limit.least.size for limit in limits]

    def joined(parts: list[NDArray[Any]]) -> Integers:
        return np.concatenate([np.zeros(0, dtype=np.int64), *(part.reshape(-1).astype(np.int64) for part in parts)])

    def stacked(parts: list[NDArray[Any]], kind: type, length: int) -> NDArray[Any]:
        return np.array(parts, dtype=kind).reshape(len(parts), length)

    return Rules(
        margins=margins,
        rows=stacked(list(rows), np.int32, schema.cells),
        layer_partition=np.array([k for k, _ in layers], dtype=np.int64),
        layer_limit=np.array([i for _, i in layers], dtype=np.int64),
        limit_partition=np.array(place, dtype=np.int64),
        limit_row=stacked([limit.row_of_cell for limit in limits], np.int32, schema.cells),
        width=np.array([limit.least.shape[1] for limit in limits], dtype=np.int64),
        begin=np.cumsum([0, *sizes])[:-1].astype(np.int64),
        least=joined([limit.least for limit in limits]),
        most=joined([limit.most for limit in limits]),
        owner=stacked([limit.owner for limit in limits], np.int64, len(limits[0].owner) if limits else 0),
    )


class _Layers(NamedTuple):
    """The layers of one nest. A node is a group of children and a row of cells in a layer."""

    row: Integers  # by layer and support cell
    group: Integers  # by layer and child
    rows: Integers  # how many
    groups: Integers
    some_cell: Integers  # of each row
    some_child: Integers  # of each group
    begin: Integers  # of each layer's nodes
    bounded: Bools  # whether limits bind in the layer
    low: Integers  # of each node: the fewest and the most units it may still take
    high: Integers
    wanted: Integers  # and how many it would have unrounded, in units of 1 / SCALE


class _Network(NamedTuple):
    """What ``nearest_flow`` takes. The first arcs are the live entries."""

    tail: Integers
    head: Integers
    low: Integers
    high: Integers
    wanted: Integers
    counts: Bools
    flow: Integers
    excess: Integers
    potential: Integers


@compiled
def round_by_flow(x, child_start, cell_start, cell, count, block_start, rules, counts, outcome):  # type: ignore[no-untyped-def]
    """Round every nest; ``outcome`` says how, or that it is stuck."""
    for p in range(len(outcome)):
        first, n = child_start[p], child_start[p + 1] - child_start[p]
        cells = slice(cell_start[p], cell_start[p + 1])
        block = slice(block_start[p], block_start[p + 1])
        m = cell_start[p + 1] - cell_start[p]
        table, z = x[block].reshape(n, m), counts[block].reshape(n, m)
        for tolerance in (WHOLE, 0.0):  # numbers that seemed whole may have to move
            outcome[p] = _round_nest(table, count[cells], cell[cells], first, rules, tolerance, z)
            if outcome[p] != STUCK:
                break


@compiled
def _round_nest(x, count, cell, first, rules, tolerance, z):  # type: ignore[no-untyped-def]
    """Round one nest into ``z``."""
    n, m = x.shape
    rest = np.empty((n, m), np.int64)
    live = np.empty((n, m), np.bool_)
    _split(x, tolerance, z, rest, live)
    kind = _kinds(rules, first, n, count)
    _wake_columns(x, count, z, rest, live)
    if not _fix_columns(count, z, rest, live):
        return STUCK
    begin, child, part = _entries(live, rest)
    up = np.zeros(len(child), np.int64)
    status = DONE
    if len(child) > 0:
        fits, layers = _layers(rules, kind, cell, first, z, rest, live)
        if not fits:
            return STUCK
        units = _units(count, z, begin)
        if rules.margins:
            _start(rules.layer_limit, layers, begin, child, part, units, up)
        held = np.int64(-1)
        for j in _stages(rules.margins, rules.layer_limit, layers.rows, m):
            network = _network(j, held, layers, begin, child, part, units, up)
            if len(network.tail) > 0:
                status = FLOWED
                if not nearest_flow(*network):
                    return STUCK
                up[:] = network.flow[: len(up)]
            held = j
        for s in range(m):
            for e in range(begin[s], begin[s + 1]):
                z[child[e], s] += up[e]
    return status if _limits_hold(rules, cell, first, z) else STUCK


@compiled
def _stages(margins, layer_limit, rows, m):  # type: ignore[no-untyped-def]
    """The layers to round, one after another, those left out that have the same rows on this support; -1: the cells."""
    stages, size = np.full(len(layer_limit) + 1, -1, np.int64), 0
    for j in range(len(layer_limit)):
        if margins and layer_limit[j] < 0 and 0 < rows[j] < m:
            if size > 0 and rows[j] == rows[stages[size - 1]]:
                size -= 1
            stages[size] = j
            size += 1
    stages[size] = -1
    return stages[: size + 1]


@compiled
def _network(j, held, layers, begin, child, part, units, up):  # type: ignore[no-untyped-def]
    """The network that makes the change of layer ``j`` (-1: the cells) least, with layer ``held`` (-1: none) as it is.

    For the cells ``up`` starts anew, at the largest fractions; where nothing else binds, that is the answer, and the
    network empty. Units flow from columns through the layers that matter, finest first, to the layer held or to the
    ground. Where there is no parent, they come from the ground too.
    """
    m = len(begin) - 1
    row, group, rows, groups = layers.row, layers.group, layers.rows, layers.groups
    bounds, fewest, most, margin = layers.begin, layers.low, layers.high, layers.wanted
    some_child, some_cell = layers.some_child, layers.some_cell
    ground = m
    chain, nodes, arcs = np.empty(len(rows) + 1, np.int64), m + 1, len(child)
    place = np.zeros(len(rows), np.int64)
    links = 0
    for i in range(len(rows) - 1, max(held, 0) - 1, -1):
        if i in (held, j) or layers.bounded[i]:
            chain[links] = i
            place[i] = nodes
            nodes += groups[i] * rows[i]
            arcs += groups[i] * rows[i]
            links += 1
    tail, head = np.empty(arcs, np.int64), np.empty(arcs, np.int64)
    low, high = np.zeros(arcs, np.int64), np.ones(arcs, np.int64)
    flow, wanted = np.empty(arcs, np.int64), np.empty(arcs, np.int64)
    counts = np.zeros(arcs, np.bool_)
    excess, potential = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    taken = np.zeros(nodes, np.int64)  # what each node has now
    for s in range(m):
        for e in range(begin[s], begin[s + 1]):
            if held >= 0 and up[e]:
                excess[place[held] + child[e] * rows[held] + row[held, s]] -= 1
                excess[s if units[s] >= 0 else ground] += 1
    if j < 0:
        _largest(part, begin, units, up, potential)
        if links == 0:
            return _Network(tail[:0], head[:0], low[:0], high[:0], wanted[:0], counts[:0], flow[:0], excess, potential)
    for s in range(m):
        for e in range(begin[s], begin[s + 1]):
            tail[e] = s if units[s] >= 0 else ground
            if held < 0 and up[e]:
                excess[tail[e]] += 1
                excess[ground] -= 1
            for link in range(links):
                i = chain[link]
                node = place[i] + group[i, child[e]] * rows[i] + row[i, s]
                taken[node] += up[e]
                if link == 0:
                    head[e] = node
            flow[e], wanted[e], counts[e] = up[e], part[e], j < 0
            excess[tail[e]] -= up[e]
            excess[head[e]] += up[e]
    e, first, last = len(child), len(child), len(child)
    for link in range(links):
        i = chain[link]
        if i == j:
            first = e
        for g in range(groups[i]):
            for r in range(rows[i]):
                node, at = place[i] + g * rows[i] + r, bounds[i] + g * rows[i] + r
                if i == held or fewest[at] == most[at] == 0:
                    continue
                tail[e], head[e] = node, ground
                if link + 1 < links:
                    k, c, s = chain[link + 1], some_child[i, g], some_cell[i, r]
                    head[e] = place[k] + group[k, c] * rows[k] + row[k, s]
                low[e], high[e], wanted[e] = fewest[at], most[at], margin[at]
                counts[e] = i == j
                near = (wanted[e] + SCALE // 2) // SCALE if i == j else taken[node]
                flow[e] = min(max(near, low[e]), high[e])
                excess[node] -= flow[e]
                excess[head[e]] += flow[e]
                e += 1
        if i == j:
            last = e
    if j >= 0 and units[0] >= 0 and (chain[links - 1] == j or (links > 1 and held >= 0 and chain[links - 2] == j)):
        _balance_heads(first, last, head, tail, low, high, wanted, flow, excess, potential)
    return _Network(tail[:e], head[:e], low[:e], high[:e], wanted[:e], counts[:e], flow[:e], excess, potential)


@compiled
def _balance_heads(first, last, head, tail, low, high, wanted, flow, excess, potential):  # type: ignore[no-untyped-def]
    """A better start: let the arcs into each head carry what it needs, cheapest first, and price the head so."""
    best = np.full(len(excess), -1, np.int64)
    price = np.zeros(len(excess), np.int64)
    moved = True
    while moved:
        moved = False
        for e in range(first, last):
            h = head[e]
            if excess[h] > 0 and flow[e] > low[e]:
                cost = -cost_of_one_more(flow[e] - 1, wanted[e])
            elif excess[h] < 0 and flow[e] < high[e]:
                cost = cost_of_one_more(flow[e], wanted[e])
            else:
                continue
            if best[h] < 0 or cost < price[h]:
                best[h], price[h] = e, cost
        for e in range(first, last):
            h = head[e]
            if best[h] == e:
                step = 1 if excess[h] < 0 else -1
                flow[e] += step
                excess[h] += step
                excess[tail[e]] -= step
                best[h] = -1
                moved = True
    least, most = np.full(len(excess), -NEVER, np.int64), np.full(len(excess), NEVER, np.int64)
    for e in range(first, last):
        if flow[e] < high[e]:
            most[head[e]] = min(most[head[e]], cost_of_one_more(flow[e], wanted[e]))
        if flow[e] > low[e]:
            least[head[e]] = max(least[head[e]], cost_of_one_more(flow[e] - 1, wanted[e]))
    for e in range(first, last):
        potential[head[e]] = min(max(0, least[head[e]]), most[head[e]])


@compiled
def _start(layer_limit, layers, begin, child, part, units, up):  # type: ignore[no-untyped-def]
    """A start near all margins: column by column, what the margins still lack counts with the fraction."""
    row, rows, place, wanted = layers.row, layers.rows, layers.begin, layers.wanted
    lack = np.zeros(place[-1], np.int64)
    for s in range(len(begin) - 1):  # what fixed entries leave to the others
        for e in range(begin[s], begin[s + 1]):
            for j in range(len(layer_limit)):
                if layer_limit[j] < 0 and rows[j] > 0:
                    lack[place[j] + child[e] * rows[j] + row[j, s]] -= part[e]
    for i in range(len(lack)):
        lack[i] += wanted[i]
    key = np.empty(len(child), np.int64)
    for s in range(len(begin) - 1):
        for e in range(begin[s], begin[s + 1]):
            key[e] = part[e]
            for j in range(len(layer_limit)):
                if layer_limit[j] < 0 and rows[j] > 0:
                    key[e] += lack[place[j] + child[e] * rows[j] + row[j, s]]
        _largest_of(key, begin[s], begin[s + 1], units[s], up)
        for e in range(begin[s], begin[s + 1]):
            for j in range(len(layer_limit)):
                if layer_limit[j] < 0 and rows[j] > 0:
                    lack[place[j] + child[e] * rows[j] + row[j, s]] += part[e] - up[e] * SCALE


@compiled
def _largest(part, begin, units, up, price):  # type: ignore[no-untyped-def]
    """The largest fractions of every column go up; ``price`` lies between the costs of those that do and do not."""
    for s in range(len(begin) - 1):
        _largest_of(part, begin[s], begin[s + 1], units[s], up)
        least, most = SCALE, np.int64(0)
        for e in range(begin[s], begin[s + 1]):
            if up[e]:
                least = min(least, part[e])
            else:
                most = max(most, part[e])
        if units[s] >= 0:
            price[s] = least + most - SCALE


@compiled
def _largest_of(key, first, last, units, up):  # type: ignore[no-untyped-def]
    """The ``units`` largest of a column go up, earlier ones first; without a parent (-1) all above one half."""
    up[first:last] = 0
    if units < 0:
        for e in range(first, last):
            up[e] = key[e] > SCALE // 2
    elif units * (last - first) <= 4096:
        for _ in range(units):
            best = -1
            for e in range(first, last):
                if up[e] == 0 and (best < 0 or key[e] > key[best]):
                    best = e
            up[best] = 1
    else:  # halve the range of the least key that goes up
        low, high = -NEVER, NEVER
        while low < high:
            middle, above = (low + high) >> 1, 0
            for e in range(first, last):
                above += key[e] > middle
            if above < units:
                high = middle
            else:
                low = middle + 1
        left = units
        for e in range(first, last):
            up[e] = key[e] > low
            left -= up[e]
        for e in range(first, last):
            if left > 0 and key[e] == low:
                up[e] = 1
                left -= 1


@compiled
def _split(x, tolerance, z, rest, live):  # type: ignore[no-untyped-def]
    """Floors, what is left in units of 1 / SCALE, and whether an entry may go up."""
    for c in range(x.shape[0]):
        for s in range(x.shape[1]):
            value = max(x[c, s], 0.0)
            near = np.floor(value + 0.5)
            live[c, s] = abs(value - near) > tolerance
            whole = np.floor(value) if live[c, s] else near
            z[c, s] = np.int64(whole)
            rest[c, s] = np.int64(np.rint((value - whole) * SCALE))


@compiled
def _wake_columns(x, count, z, rest, live):  # type: ignore[no-untyped-def]
    """Where snapping left a column more or fewer units than live entries can take, wake the least whole ones."""
    n, m = x.shape
    for s in range(m):
        if count[s] < 0:
            continue
        units, free = count[s], 0
        for c in range(n):
            units -= z[c, s]
            free += live[c, s]
        while units < 0 or units > free:
            best = -1
            for c in range(n):  # snapped up if there are too few units, down if too many
                off = -rest[c, s] if units < 0 else rest[c, s]
                if not live[c, s] and off > 0 and (best < 0 or off > abs(rest[best, s])):
                    best = c
            if best < 0:
                break
            live[best, s] = True
            free += 1
            if units < 0:
                z[best, s] -= 1
                rest[best, s] += SCALE
                units += 1


@compiled
def _kinds(rules, first, n, count):  # type: ignore[no-untyped-def]
    """For each limit whether siblings share its bounds. Bounds that all share bind the parent: nothing to do."""
    kind = np.empty(len(rules.width), np.int64)
    number, some = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(len(kind)):
        owners = _number(rules.owner[i, first : first + n], number, some)
        kind[i] = _OWN if owners == n else _PARENTS if owners == 1 and count[0] >= 0 else _SHARED
    return kind


@compiled
def _fix_columns(count, z, rest, live):  # type: ignore[no-untyped-def]
    """Settle the columns where nothing or everything goes up. False where a column cannot be kept."""
    n, m = z.shape
    for s in range(m):
        if count[s] < 0:
            continue
        units, free = count[s], 0
        for c in range(n):
            units -= z[c, s]
            free += live[c, s]
        if units < 0 or units > free:
            return False
        if units == 0 or units == free:
            for c in range(n):
                if live[c, s]:
                    live[c, s] = False
                    if units > 0:
                        z[c, s] += 1
                        rest[c, s] -= SCALE
    return True


@compiled
def _entries(live, rest):  # type: ignore[no-untyped-def]
    """The live entries column by column: where each column begins, the child, the fraction."""
    n, m = live.shape
    begin = np.zeros(m + 1, np.int64)
    for s in range(m):
        begin[s + 1] = begin[s]
        for c in range(n):
            begin[s + 1] += live[c, s]
    child, part, fill = np.empty(begin[m], np.int64), np.empty(begin[m], np.int64), begin[:-1].copy()
    for c in range(n):
        for s in range(m):
            if live[c, s]:
                child[fill[s]], part[fill[s]] = c, rest[c, s]
                fill[s] += 1
    return begin, child, part


@compiled
def _units(count, z, begin):  # type: ignore[no-untyped-def]
    """How many entries of each column must go up; -1 without a parent."""
    units = count.copy()
    for s in range(len(units)):
        if count[s] >= 0:
            if begin[s] == begin[s + 1]:
                units[s] = 0
            else:
                for c in range(z.shape[0]):
                    units[s] -= z[c, s]
    return units


@compiled
def _layers(rules, kind, cell, first, z, rest, live):  # type: ignore[no-untyped-def]
    """The layers of a nest, and whether they nest and their bounds can be kept."""
    n, m = z.shape
    size = len(rules.layer_limit)
    row, group = np.zeros((size, m), np.int64), np.zeros((size, n), np.int64)
    rows, groups = np.zeros(size, np.int64), np.zeros(size, np.int64)
    some_cell, some_child = np.zeros((size, m), np.int64), np.zeros((size, n), np.int64)
    begin, bounded = np.zeros(size + 1, np.int64), np.zeros(size, np.bool_)
    fits = True
    for i in range(len(kind)):  # a child's own limits on a cell hold at its floor and ceiling, shared ones need not
        fits &= kind[i] != _SHARED or rules.limit_partition[i] < len(rules.rows)
    first_stage = 0
    if n * m > PROGRAM_SIZE:  # margins above limits that siblings share do not nest with them: do without
        for j in range(size):
            if rules.layer_limit[j] >= 0 and kind[rules.layer_limit[j]] == _SHARED:
                first_stage = j
    above, of_cell = -1, np.empty(m, np.int64)
    for j in range(size):
        k, i = rules.layer_partition[j], rules.layer_limit[j]
        bounded[j] = i >= 0 and kind[i] == _SHARED
        if i < 0:
            for other in range(len(kind)):
                bounded[j] |= rules.limit_partition[other] == k and kind[other] == _OWN
        begin[j + 1] = begin[j]
        if not (bounded[j] or (i < 0 and rules.margins and j >= first_stage)):
            continue
        for s in range(m):
            of_cell[s] = rules.rows[k, cell[s]]
        rows[j] = _number(of_cell, row[j], some_cell[j])
        if i < 0:
            groups[j] = n
            for c in range(n):
                group[j, c], some_child[j, c] = c, c
        else:
            groups[j] = _number(rules.owner[i, first : first + n], group[j], some_child[j])
        begin[j + 1] += groups[j] * rows[j]
        if above >= 0:
            for c in range(n):
                fits &= group[above, c] == group[above, some_child[j, group[j, c]]]
        above = j
    low, high = np.zeros(begin[size], np.int64), np.zeros(begin[size], np.int64)
    wanted, whole = np.zeros(begin[size], np.int64), np.zeros(begin[size], np.int64)
    for j in range(size):
        if rows[j] > 0:
            for c in range(n):
                for s in range(m):
                    at = begin[j] + group[j, c] * rows[j] + row[j, s]
                    whole[at] += z[c, s]
                    wanted[at] += rest[c, s]
                    high[at] += live[c, s]
        if bounded[j]:
            for i in range(len(kind)):
                mine = i == rules.layer_limit[j] if rules.layer_limit[j] >= 0 else kind[i] == _OWN
                if not mine or rules.limit_partition[i] != rules.layer_partition[j]:
                    continue
                for g in range(groups[j]):
                    owner = rules.owner[i, first + some_child[j, g]]
                    for r in range(rows[j]):
                        at = begin[j] + g * rows[j] + r
                        bound = rules.begin[i] + owner * rules.width[i] + rules.limit_row[i, cell[some_cell[j, r]]]
                        low[at] = max(low[at], rules.least[bound] - whole[at])
                        high[at] = min(high[at], rules.most[bound] - whole[at])
                        fits &= low[at] <= high[at]
    return fits, _Layers(row, group, rows, groups, some_cell, some_child, begin, bounded, low, high, wanted)


@compiled
def _number(values, number, some):  # type: ignore[no-untyped-def]
    """Number values from 0 in the order of first sight, with one place of each; returns how many there are."""
    lowest, highest, known = values[0], values[0], 0
    for value in values:
        lowest, highest = min(lowest, value), max(highest, value)
    name = np.full(highest - lowest + 1, -1, np.int64)
    for i in range(len(values)):
        if name[values[i] - lowest] < 0:
            name[values[i] - lowest] = known
            some[known] = i
            known += 1
        number[i] = name[values[i] - lowest]
    return known


@compiled
def _limits_hold(rules, cell, first, z):  # type: ignore[no-untyped-def]
    """Whether whole counts keep all limits, the rows without support cells included."""
    n, m = z.shape
    of_child, row, least, most = rules.owner, rules.limit_row, rules.least, rules.most
    for i in range(len(rules.width)):
        width = rules.width[i]
        lowest, highest = of_child[i, first], of_child[i, first]
        for c in range(n):
            lowest, highest = min(lowest, of_child[i, first + c]), max(highest, of_child[i, first + c])
        sums = np.zeros((highest - lowest + 1, width), np.int64)
        seen = np.zeros(highest - lowest + 1, np.bool_)
        for c in range(n):
            owner = of_child[i, first + c] - lowest
            seen[owner] = True
            for s in range(m):
                sums[owner, row[i, cell[s]]] += z[c, s]
        for owner in range(len(seen)):
            if seen[owner]:
                at = rules.begin[i] + (lowest + owner) * width
                for r in range(width):
                    if not least[at + r] <= sums[owner, r] <= most[at + r]:
                        return False
    return True
