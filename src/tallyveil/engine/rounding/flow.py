"""The whole-number flow nearest to a real one: least sum of ``|flow - wanted|`` over the arcs that count.

Successive shortest paths from a warm start [1]_. A start need not keep the balance of the nodes, but it must be the
cheapest flow with its own imbalance, which node potentials prove: no arc that could carry one unit more, or one less,
has a negative reduced cost. Where a start breaks that, the arc is moved first. Every unit of excess then travels to a
deficit along a shortest path in reduced costs, found by Dijkstra's method from that one node and no further than the
nearest deficit. Costs are whole multiples of ``1 / SCALE``, so all comparisons are exact, and equal costs are settled
by the order of arcs and nodes.

Kernels that take many arrays are costly to call: what runs for every arc takes numbers, or is inlined.

References
----------
.. [1] Ahuja, Magnanti & Orlin, Network Flows, 1993, sections 9.7 and 14.5.
"""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import compiled, inlined

SCALE = 1 << 40  # one person, in units of cost
NEVER = 1 << 62  # the cost of what an arc cannot carry


@inlined
def cost_of_one_more(flow, wanted):  # type: ignore[no-untyped-def]
    """How much ``|flow - wanted|`` grows with one unit more; ``wanted`` in units of ``1 / SCALE``."""
    return abs((flow + 1) * SCALE - wanted) - abs(flow * SCALE - wanted)


@compiled
def nearest_flow(tail, head, low, high, wanted, counts, flow, excess, potential):  # type: ignore[no-untyped-def]
    """Change ``flow`` to the nearest balanced flow, or return False where there is none.

    Arc ``e`` carries ``low[e]`` to ``high[e]`` units from ``tail[e]`` to ``head[e]``, and costs ``|flow - wanted|``
    if ``counts[e]``, else nothing. ``excess`` is what each node has too much of under the flow given. Also changes
    ``excess`` and ``potential``.
    """
    nodes, arcs = len(excess), len(tail)
    start, to, slot = _ways_out(tail, head, nodes)
    cost = np.empty(2 * arcs, np.int64)
    for e in range(arcs):
        reduced = potential[tail[e]] - potential[head[e]]
        more, less = _prices(flow[e], low[e], high[e], wanted[e], counts[e])
        step = 1 if more + reduced < 0 else -1
        while more + reduced < 0 or less - reduced < 0:
            flow[e] += step
            excess[tail[e]] -= step
            excess[head[e]] += step
            more, less = _prices(flow[e], low[e], high[e], wanted[e], counts[e])
        cost[slot[2 * e]], cost[slot[2 * e + 1]] = more, less
    arc = np.empty(2 * arcs, np.int64)
    for way in range(2 * arcs):
        arc[slot[way]] = way
    distance = np.full(nodes, NEVER, np.int64)
    way_in = np.empty(nodes, np.int64)
    met = np.empty(nodes, np.int64)  # the nodes with a distance
    level = np.empty(nodes, np.int64)  # the nodes at the distance being settled
    keys, heap = np.empty(2 * arcs + 1, np.int64), np.empty(2 * arcs + 1, np.int64)
    for source in range(nodes):
        while excess[source] > 0:
            target, reached = _nearest_deficit(
                source, start, to, cost, excess, potential, distance, way_in, met, level, keys, heap
            )
            if target < 0:
                return False
            excess[source] -= 1
            excess[target] += 1
            farthest = distance[target]
            node = target
            while node != source:
                e, against = arc[way_in[node]] >> 1, arc[way_in[node]] & 1
                flow[e] += 1 - 2 * against
                node = head[e] if against else tail[e]
                more, less = _prices(flow[e], low[e], high[e], wanted[e], counts[e])
                cost[slot[2 * e]], cost[slot[2 * e + 1]] = more, less
            for i in range(reached):
                if distance[met[i]] < farthest:
                    potential[met[i]] += distance[met[i]] - farthest
                distance[met[i]] = NEVER
    return excess.min() == 0


@inlined
def _prices(flow, low, high, wanted, counts):  # type: ignore[no-untyped-def]
    """What one unit more and one unit less cost on an arc."""
    off = flow * SCALE - wanted if counts else 0
    size = SCALE if counts else 0
    more = abs(off + size) - abs(off) if flow < high else NEVER
    less = abs(off - size) - abs(off) if flow > low else NEVER
    return more, less


@compiled
def _ways_out(tail, head, nodes):  # type: ignore[no-untyped-def]
    """The ways that leave each node, in the order of arcs: where they begin, and where each leads.

    Way 2e goes along arc e, way 2e + 1 against it; ``slot`` is the place of each among all.
    """
    start = np.zeros(nodes + 2, np.int64)
    for e in range(len(tail)):
        start[tail[e] + 2] += 1
        start[head[e] + 2] += 1
    for node in range(nodes):
        start[node + 2] += start[node + 1]
    to, slot = np.empty(2 * len(tail), np.int64), np.empty(2 * len(tail), np.int64)
    for e in range(len(tail)):  # start[node + 1] moves on to the end of the node's ways
        at = start[tail[e] + 1]
        to[at], slot[2 * e], start[tail[e] + 1] = head[e], at, at + 1
        at = start[head[e] + 1]
        to[at], slot[2 * e + 1], start[head[e] + 1] = tail[e], at, at + 1
    return start, to, slot


@compiled
def _nearest_deficit(  # type: ignore[no-untyped-def]
    source, start, to, cost, excess, potential, distance, way_in, met, level, keys, heap
):
    """The nearest node that has too little (-1: none can be reached), and how many nodes were met on the way."""
    distance[source] = 0
    met[0] = source
    level[0] = source
    reached, first, last, size, here = 1, 0, 1, np.int64(0), 0
    while True:
        if first < last:  # a node at the distance being settled
            node = level[first]
            first += 1
        else:
            node = -1
            while size > 0 and node < 0:
                key, node = keys[0], heap[0]
                size = _drop_first(keys, heap, size)
                if distance[node] != key:  # a shorter way was found since
                    node = -1
            if node < 0:
                return -1, reached
            if excess[node] < 0:
                return node, reached
            here, first, last = distance[node], 0, 0
        away_from_here = here + potential[node]
        for i in range(start[node], start[node + 1]):
            if cost[i] == NEVER:
                continue
            other = to[i]
            away = away_from_here + cost[i] - potential[other]
            if away >= distance[other]:
                continue
            if distance[other] == NEVER:
                met[reached] = other
                reached += 1
            distance[other] = away
            way_in[other] = i
            if away > here:
                size = _put(keys, heap, size, away, other)
            elif excess[other] < 0:
                return other, reached
            else:
                level[last] = other
                last += 1


@inlined
def _put(keys, heap, size, key, node):  # type: ignore[no-untyped-def]
    """Add to a heap ordered by key, then node."""
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if keys[up] < key or (keys[up] == key and heap[up] <= node):
            break
        keys[at], heap[at] = keys[up], heap[up]
        at = up
    keys[at], heap[at] = key, node
    return size + 1


@inlined
def _drop_first(keys, heap, size):  # type: ignore[no-untyped-def]
    """Remove the first of a heap."""
    size -= 1
    key, node, at = keys[size], heap[size], 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and (
            keys[down + 1] < keys[down] or (keys[down + 1] == keys[down] and heap[down + 1] < heap[down])
        ):
            down += 1
        if keys[down] > key or (keys[down] == key and heap[down] >= node):
            break
        keys[at], heap[at] = keys[down], heap[down]
        at = down
    keys[at], heap[at] = key, node
    return size
