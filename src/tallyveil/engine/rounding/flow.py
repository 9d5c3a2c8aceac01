"""The whole-number flow nearest to a real one: least sum of ``|flow - wanted|`` over the arcs that count.

Successive shortest paths from a warm start [1]_. A start need not keep the balance of the nodes, but it must be the
cheapest flow with its own imbalance, which node potentials prove (``residual``). Where a start breaks that, the arc is
moved first. Every unit of excess then travels to a deficit along a shortest path in reduced costs (``paths``).

A search may look at every child of a parent. With many units as well, the time would be quadratic in the number of
children. Where there are few columns, such units go by ``exchanges``. Otherwise the costs are scaled [2]_: the cheapest
flow in the leading bits of the costs is the start for two bits more, until the costs are exact. Costs of few bits are
mostly equal, so one search from all nodes with excess finds paths for many units, and the number of searches hardly
depends on the number of children.

Two bits more change little: a way with a large reduced cost will not be needed. Such ways are left out, so that with
every bit fewer are left to search. A search lowers potentials by the length of its longest path at most. Once these
lengths add up to the least reduced cost that was left out, or no path is found, the ways are listed anew, and more of
them.

References
----------
.. [1] Ahuja, Magnanti & Orlin, Network Flows, 1993, sections 9.7 and 14.5.
.. [2] Sections 9.8 (primal-dual) and 10.3 (cost scaling) of the same book.
"""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import leaf, part
from tallyveil.engine.rounding.exchanges import few_hubs, flow_by_exchanges
from tallyveil.engine.rounding.paths import Search, nearest_deficits
from tallyveil.engine.rounding.residual import NEVER, NO_FLOW, Ways, find_ways, send_one

LEADING = 38  # scaled costs leave out this many bits at first,
MORE = 2  # and this many fewer each time
FAR = 16  # ways of larger reduced costs are left out
ALL = NEVER >> 1  # none is left out
PATIENCE = 40  # costs are scaled where searches unit by unit might look at all ways more often than this,
EASY = 8  # and units go by exchanges, where there are few hubs, from an eighth of that on


@part
def nearest_flow(network, patience):  # type: ignore[no-untyped-def]
    """Change ``flow`` to the nearest balanced flow; returns how many ways were looked at, or NO_FLOW.

    Also changes ``excess`` and ``potential``. Costs are scaled where the searches unit by unit might look at all ways
    more often than ``patience`` (usually ``PATIENCE``); units go by exchanges sooner.
    """
    excess, potential = network.excess, network.potential
    nodes, size = len(excess), len(network.tail)
    ways, search = _room(nodes, size)
    units, longest, looked = 0, 0, 0
    for e in range(size):
        search.order[network.tail[e]] += 1
        search.order[network.head[e]] += 1
    for node in range(nodes):
        units += max(excess[node], 0)
        longest = max(longest, search.order[node])
        search.order[node] = 0
    patient = 2 * size * patience
    by_exchanges = units * longest * EASY > patient and few_hubs(network)
    scaled = units * longest > patient and not by_exchanges
    bits = LEADING if scaled else 0
    for node in range(nodes):
        potential[node] >>= bits
    while bits >= 0:
        far = FAR if scaled else ALL
        while True:
            find_ways(network, ways, bits, far)
            if by_exchanges:
                return flow_by_exchanges(network)
            lowered, seen = _balance(network, ways, search, bits, far, scaled)
            looked += 2 * size + seen
            if lowered == NO_FLOW and far == ALL:
                return NO_FLOW
            if 0 <= lowered <= far:
                break
            far = ALL if lowered == NO_FLOW else min(ALL, 4 * far + 4)  # so that the ways are listed a few times only
        bits -= MORE
        if bits >= 0:
            for node in range(nodes):
                potential[node] <<= MORE
    for node in range(nodes):
        if excess[node] < 0:
            return NO_FLOW
    return looked


@part
def _room(nodes, size):  # type: ignore[no-untyped-def]
    """Memory for the ways and searches of a network."""
    of_node, of_way = np.zeros((5, nodes), np.int64), np.empty((6, 2 * size + 1), np.int64)
    for node in range(nodes):
        of_node[0, node] = NEVER
    begin, near = np.empty(nodes + 2, np.int64), np.empty(size, np.int64)
    ways = Ways(begin, of_way[0], of_way[1], of_way[2], of_way[3], near)
    return ways, Search(of_node[0], of_node[1], of_node[2], of_node[3], of_node[4], of_way[4], of_way[5])


@leaf
def _balance(network, ways, search, bits, far, scaled):  # type: ignore[no-untyped-def]
    """Send all excess to deficits, as long as the ways left out cannot be needed.

    Returns by how much potentials were lowered at most, or NO_FLOW, and how many ways were looked at.
    """
    excess, potential, distance, met = network.excess, network.potential, search.distance, search.met
    source, lowered, looked = np.int64(0), 0, 0  # one type of number: compiled once
    while source < len(excess) and 0 <= lowered <= far:
        if excess[source] <= 0:
            source += 1
            continue
        end = len(excess) if scaled else source + 1
        target, reached, seen = nearest_deficits(source, end, excess, potential, ways, search)
        looked += 2 * seen if scaled else seen  # once to search, once to send
        farthest = distance[target] if target >= 0 else 0
        lowered = lowered + farthest if target >= 0 else NO_FLOW
        for i in range(reached):  # paths to targets now cost nothing in reduced costs, and no way less
            node = met[i]
            if distance[node] < farthest:
                potential[node] += distance[node] - farthest
            distance[node] = NEVER
        if scaled:
            _send_all(reached, network, ways, search, bits)
        elif target >= 0:
            excess[source] -= 1
            excess[target] += 1
            while target != source:  # send one unit along the path, from its end
                target = send_one(network, ways, search.way_in[target], bits)
    return lowered, looked


@leaf
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
                    send_one(network, ways, path[j], bits)
                node, length = source, 0
    for i in range(reached):
        order[search.met[i]] = 0
