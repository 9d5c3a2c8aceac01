"""The whole-number flow nearest to a real one: least sum of ``|flow - wanted|`` over the arcs that count.

Successive shortest paths from a warm start [1]_. A start need not keep the balance of the nodes, but it must be the
cheapest flow with its own imbalance, which node potentials prove: no arc that could carry one unit more, or one less,
has a negative reduced cost. Where a start breaks that, the arc is moved first. Every unit of excess then travels to a
deficit along a shortest path in reduced costs, found by Dijkstra's method from that one node and no further than the
nearest deficit. Costs are whole multiples of ``1 / SCALE``, so all comparisons are exact, and equal costs are settled
by the order of arcs and nodes.

A search may look at every child of a parent. With many units as well, the time would be quadratic in the number of
children. There the costs are scaled [2]_: the cheapest flow in the leading bits of the costs is the start for two bits
more, until the costs are exact. Costs of few bits are mostly equal, so one search from all nodes with excess finds
paths for many units, and the number of searches hardly depends on the number of children.

Kernels that take many arrays are costly to call: what runs for every arc is inlined.

References
----------
.. [1] Ahuja, Magnanti & Orlin, Network Flows, 1993, sections 9.7 and 14.5.
.. [2] Sections 9.8 (primal-dual) and 10.3 (cost scaling) of the same book.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import inlined, part

SCALE = 1 << 40  # one person, in units of cost
NEVER = 1 << 62  # the cost of what an arc cannot carry
NO_FLOW = -1
LEADING = 38  # scaled costs leave out this many bits at first,
MORE = 2  # and this many fewer each time
PATIENCE = 40  # costs are scaled where searches unit by unit might look at all ways so often


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
    order: Integers  # in which each node was settled, from 1; 0: not yet
    met: Integers  # the nodes with a distance, sources first
    level: Integers  # the nodes at the distance being settled
    key: Integers  # a heap of distances and their nodes
    node: Integers


@inlined
def cost_of_one_more(flow, wanted):  # type: ignore[no-untyped-def]
    """How much ``|flow - wanted|`` grows with one unit more; ``wanted`` in units of ``1 / SCALE``."""
    return abs((flow + 1) * SCALE - wanted) - abs(flow * SCALE - wanted)


@part
def nearest_flow(network, patience):  # type: ignore[no-untyped-def]
    """Change ``flow`` to the nearest balanced flow; returns the number of searches, or NO_FLOW.

    Also changes ``excess`` and ``potential``. Costs are scaled where the searches unit by unit might look at all ways
    more often than ``patience`` (usually ``PATIENCE``).
    """
    tail, head, flow, excess, potential = network.tail, network.head, network.flow, network.excess, network.potential
    nodes, size = len(excess), len(tail)
    ways = _ways_of(tail, head, nodes)
    distance, way_in = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    order, met, level = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    key, node_of_key = np.empty(2 * size + 1, np.int64), np.empty(2 * size + 1, np.int64)
    search = Search(distance, way_in, order, met, level, key, node_of_key)
    units, longest, searches, less, more = 0, 0, 0, 0, 0
    for node in range(nodes):
        distance[node], order[node] = NEVER, 0
        units += max(excess[node], 0)
        longest = max(longest, ways.begin[node + 1] - ways.begin[node])
    if units * longest > patience * 2 * size:
        less = LEADING
    scaled, bits = less > 0, less
    while bits >= 0:
        for node in range(nodes):
            potential[node] = potential[node] >> less << more
        for e in range(size):
            reduced = potential[tail[e]] - potential[head[e]]
            while True:  # move what the potentials do not prove to be cheapest
                _price(network, ways, e, bits)
                step = (ways.cost[ways.slot[2 * e]] + reduced < 0) - (ways.cost[ways.slot[2 * e + 1]] - reduced < 0)
                if step == 0:
                    break
                flow[e] += step
                excess[tail[e]] -= step
                excess[head[e]] += step
        for source in range(nodes):
            while excess[source] > 0:
                last = nodes if scaled else source + 1
                target, reached = _nearest_deficits(source, last, excess, potential, ways, search)
                if target < 0:
                    return NO_FLOW
                searches += 1
                farthest = distance[target]
                for i in range(reached):  # paths to targets now cost nothing in reduced costs, and no way less
                    if distance[met[i]] < farthest:
                        potential[met[i]] += distance[met[i]] - farthest
                    distance[met[i]] = NEVER
                if scaled:
                    _send_all(reached, network, ways, search, bits)
                    continue
                excess[source] -= 1
                excess[target] += 1
                while target != source:  # send one unit along the path, from its end
                    way = ways.arc[way_in[target]]
                    e, against = way >> 1, way & 1
                    flow[e] += 1 - 2 * against
                    _price(network, ways, e, bits)
                    target = head[e] if against else tail[e]
        bits, less, more = bits - MORE, 0, MORE
    for node in range(nodes):
        if excess[node] < 0:
            return NO_FLOW
    return searches


@inlined
def _price(network, ways, e, bits):  # type: ignore[no-untyped-def]
    """Set what one unit more costs along an arc and against it, without the last bits."""
    flow, weight = network.flow[e], network.weight[e]
    off = flow * weight - network.wanted[e]
    more = (abs(off + weight) - abs(off)) >> bits if flow < network.high[e] else NEVER
    less = -((abs(off) - abs(off - weight)) >> bits) if flow > network.low[e] else NEVER
    ways.cost[ways.slot[2 * e]], ways.cost[ways.slot[2 * e + 1]] = more, less


@part
def _send_all(reached, network, ways, search, bits):  # type: ignore[no-untyped-def]
    """Send units along ways that cost nothing and lead to nodes settled later, until no path is left.

    Nodes try their ways in order and none twice, so that this search in depth takes one pass over the ways.
    """
    excess, potential, begin, to, cost = network.excess, network.potential, ways.begin, ways.to, ways.cost
    order, untried, path = search.order, search.way_in, search.level
    for i in range(reached):
        untried[search.met[i]] = begin[search.met[i]]
    for i in range(reached):
        source = node = search.met[i]
        length = 0
        while excess[source] > 0:
            at, end, paid, here = untried[node], begin[node + 1], potential[node], order[node]
            while at < end and (cost[at] == NEVER or paid + cost[at] != potential[to[at]] or order[to[at]] <= here):
                at += 1
            untried[node] = at
            if at < end:
                path[length] = at
                node, length = to[at], length + 1
            elif length == 0:
                break
            else:
                length -= 1
                way = ways.arc[path[length]]
                node = network.head[way >> 1] if way & 1 else network.tail[way >> 1]
                untried[node] += 1
            if excess[node] < 0:
                excess[source] -= 1
                excess[node] += 1
                for j in range(length):
                    way = ways.arc[path[j]]
                    network.flow[way >> 1] += 1 - 2 * (way & 1)
                    _price(network, ways, way >> 1, bits)
                node, length = source, 0
    for i in range(reached):
        order[search.met[i]] = 0


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
def _nearest_deficits(source, end, excess, potential, ways, search):  # type: ignore[no-untyped-def]
    """Settle nodes, nearest first, from those between a source and an end that have too much.

    Stops when the nodes settled lack as many units as these have, or some where the end follows the source. Returns the
    last of them that lacks some (-1: none can be reached), and how many nodes were met.
    """
    begin, to, cost = ways.begin, ways.to, ways.cost
    distance, way_in, order, met, level = search.distance, search.way_in, search.order, search.met, search.level
    keys, heap = search.key, search.node
    first, last, size, here, target, wanted = 0, 0, np.int64(0), 0, -1, 0
    for node in range(source, end):
        if excess[node] > 0:
            met[last], level[last], last = node, node, last + 1
            distance[node], order[node], wanted = 0, last, wanted + excess[node]
    reached, settled, wanted = last, last, 1 if end == source + 1 else wanted
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
                return target, reached
            settled += 1
            order[node] = settled
            if excess[node] < 0:
                target, wanted = node, wanted + excess[node]
                if wanted <= 0:
                    return target, reached
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
                continue
            settled += 1
            order[other] = settled
            if excess[other] < 0:
                target, wanted = other, wanted + excess[other]
                if wanted <= 0:
                    return target, reached
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
