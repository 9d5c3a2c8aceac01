"""The whole-number flow nearest to a real one: least sum of ``|flow - wanted|`` over the arcs that count.

Successive shortest paths from a warm start [1]_. A start need not keep the balance of the nodes, but it must be the
cheapest flow with its own imbalance, which node potentials prove: no arc that could carry one unit more, or one less,
has a negative reduced cost. Where a start breaks that, the arc is moved first. Every unit of excess then travels to a
deficit along a shortest path in reduced costs, found by Dijkstra's method from that one node and no further than the
nearest deficit. Costs are whole multiples of ``1 / SCALE``, so all comparisons are exact, and equal costs are settled
by the order of arcs and nodes.

Kernels that take many arrays are costly to call: what runs for every arc is inlined.

References
----------
.. [1] Ahuja, Magnanti & Orlin, Network Flows, 1993, sections 9.7 and 14.5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import inlined, part

SCALE = 1 << 40  # one person, in units of cost
NEVER = 1 << 62  # the cost of what an arc cannot carry


class Network(NamedTuple):
    """Arcs with a flow, and nodes.

    Arc ``e`` carries ``low[e]`` to ``high[e]`` units from ``tail[e]`` to ``head[e]``. It costs
    ``|flow[e] * weight[e] - wanted[e]|``: the weight is ``SCALE`` if the arc counts, else 0.
    """

    tail: Integers
    head: Integers
    low: Integers
    high: Integers
    wanted: Integers
    weight: Integers
    flow: Integers
    excess: Integers  # of each node: what it has too much of under the flow
    potential: Integers


class Ways(NamedTuple):
    """The ways that leave each node: along its arcs out, and against its arcs in. They are in the order of arcs."""

    begin: Integers  # of each node's ways
    to: Integers  # where each way leads
    cost: Integers  # of one unit more that goes this way
    arc: Integers  # 2e along arc e, 2e + 1 against it
    slot: Integers  # the place of 2e and 2e + 1 among the ways


class Search(NamedTuple):
    """What a search for a shortest path writes down."""

    distance: Integers  # of each node
    way_in: Integers  # by which each node was reached
    met: Integers  # the nodes with a distance
    level: Integers  # the nodes at the distance being settled
    key: Integers  # a heap of distances and their nodes
    node: Integers


@inlined
def cost_of_one_more(flow, wanted):  # type: ignore[no-untyped-def]
    """How much ``|flow - wanted|`` grows with one unit more; ``wanted`` in units of ``1 / SCALE``."""
    return abs((flow + 1) * SCALE - wanted) - abs(flow * SCALE - wanted)


@part
def nearest_flow(network):  # type: ignore[no-untyped-def]
    """Change ``flow`` to the nearest balanced flow, or return False where there is none.

    Also changes ``excess`` and ``potential``.
    """
    tail, head, flow = network.tail, network.head, network.flow
    excess, potential = network.excess, network.potential
    nodes, size = len(excess), len(tail)
    ways = _ways_of(tail, head, nodes)
    for e in range(size):  # move what the potentials do not prove to be cheapest
        reduced = potential[tail[e]] - potential[head[e]]
        _price(network, ways, e)
        more, less = ways.cost[ways.slot[2 * e]] + reduced, ways.cost[ways.slot[2 * e + 1]] - reduced
        step = 1 if more < 0 else -1
        while more < 0 or less < 0:
            flow[e] += step
            excess[tail[e]] -= step
            excess[head[e]] += step
            _price(network, ways, e)
            more, less = ways.cost[ways.slot[2 * e]] + reduced, ways.cost[ways.slot[2 * e + 1]] - reduced
    distance = np.empty(nodes, np.int64)
    for node in range(nodes):
        distance[node] = NEVER
    way_in, met, level = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    search = Search(distance, way_in, met, level, np.empty(2 * size + 1, np.int64), np.empty(2 * size + 1, np.int64))
    for source in range(nodes):
        while excess[source] > 0:
            target, reached = _nearest_deficit(source, excess, potential, ways, search)
            if target < 0:
                return False
            excess[source] -= 1
            excess[target] += 1
            farthest = distance[target]
            node = target
            while node != source:  # send one unit along the path, from its end
                way = ways.arc[way_in[node]]
                e, against = way >> 1, way & 1
                flow[e] += 1 - 2 * against
                node = head[e] if against else tail[e]
                _price(network, ways, e)
            for i in range(reached):  # the path now costs nothing in reduced costs, and no other way less than that
                if distance[met[i]] < farthest:
                    potential[met[i]] += distance[met[i]] - farthest
                distance[met[i]] = NEVER
    left = 0
    for node in range(nodes):
        left = min(left, excess[node])
    return left == 0


@inlined
def _price(network, ways, e):  # type: ignore[no-untyped-def]
    """Set what one unit more costs along an arc and against it."""
    flow, weight = network.flow[e], network.weight[e]
    off = flow * weight - network.wanted[e]
    more = abs(off + weight) - abs(off) if flow < network.high[e] else NEVER
    less = abs(off - weight) - abs(off) if flow > network.low[e] else NEVER
    ways.cost[ways.slot[2 * e]], ways.cost[ways.slot[2 * e + 1]] = more, less


@part
def _ways_of(tail, head, nodes):  # type: ignore[no-untyped-def]
    """The ways that leave each node, without their costs."""
    size = len(tail)
    begin = np.zeros(nodes + 2, np.int64)
    for e in range(size):
        begin[tail[e] + 2] += 1
        begin[head[e] + 2] += 1
    for node in range(nodes):
        begin[node + 2] += begin[node + 1]
    to, cost = np.empty(2 * size, np.int64), np.empty(2 * size, np.int64)
    arc, slot = np.empty(2 * size, np.int64), np.empty(2 * size, np.int64)
    for way in range(2 * size):  # begin[node + 1] moves on to the end of the node's ways
        e, against = way >> 1, way & 1
        leaves, enters = (head[e], tail[e]) if against else (tail[e], head[e])
        at = begin[leaves + 1]
        to[at], arc[at], slot[way], begin[leaves + 1] = enters, way, at, at + 1
    return Ways(begin, to, cost, arc, slot)


@part
def _nearest_deficit(source, excess, potential, ways, search):  # type: ignore[no-untyped-def]
    """The nearest node that has too little (-1: none can be reached), and how many nodes were met on the way."""
    begin, to, cost = ways.begin, ways.to, ways.cost
    distance, way_in, met, level = search.distance, search.way_in, search.met, search.level
    keys, heap = search.key, search.node
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
        for i in range(begin[node], begin[node + 1]):
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
