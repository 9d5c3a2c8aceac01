"""The nearest flow where a parent has many children and few cells: every path is a few exchanges between cells.

The columns and the ground are hubs: a branch (one child with all its nodes) touches nothing else. A shortest path thus
goes from hub to hub, each time through one branch, and all that matters of a branch is what a unit costs that enters it
at one hub and leaves it at another. These costs stand in the leaves of a tree in which every node has the least costs
of the branches below. A search then is one on the hubs alone, with the costs at the top of the tree, and a unit that
passes a branch changes one leaf and the nodes above it. With n children and m cells, a flow of k units takes
O((n + k log n) m^2) steps: almost linear in n, whether costs are distinct or mostly equal.

Units may start, and end, inside a branch: "nowhere" is one more place beside the hubs, from which units enter where
there is an excess, and to which they leave where there is a deficit.

Among the cheapest paths the one with the fewest exchanges is taken. It does not pass any node twice: without the
detour it would not cost more, since no cycle has a negative cost, and have fewer exchanges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import leaf, part
from tallyveil.engine.rounding.residual import NEVER, NO_FLOW, price

ROOM = 1 << 24  # the largest table of costs, in numbers
MANY = 64  # exchanges on a path are fewer; each adds 1 / MANY of the unit of cost


class Branches(NamedTuple):
    """The doors of each branch: its arcs from or to a hub, and, numbered after all arcs, its nodes out of balance."""

    begin: Integers  # of each branch's doors
    door: Integers
    above: Integers  # the arc that leaves each node; -1: none


class Costs(NamedTuple):
    """The costs of one unit from hub to hub, in units of 1 / MANY: at ``start * (hubs + 1) + to``; nowhere comes last.

    The top of the tree is 1, the nodes below ``i`` are ``2 i`` and ``2 i + 1``, and the leaf of branch ``b`` is
    ``branches + 1 + b``. The last leaf is for the hubs that are out of balance themselves.
    """

    least: Integers  # nodes of the tree x pairs of hubs
    up: Integers  # scratch, for each node of the network: the cost from a door to it
    distance: Integers  # scratch of the search, for each hub
    before: Integers


@leaf
def few_hubs(network):  # type: ignore[no-untyped-def]
    """Whether a network has so few hubs, and so many branches, that exchanges are the quickest."""
    pairs = (network.hubs + 1) ** 2
    return network.hubs > 0 and pairs <= network.branches and 2 * network.branches * pairs <= ROOM


@part
def flow_by_exchanges(network):  # type: ignore[no-untyped-def]
    """Send all excess to deficits, from a flow that is the cheapest with its own imbalance.

    Returns how many costs were looked at, or NO_FLOW where some excess cannot go anywhere.
    """
    hubs, leaves, excess = network.hubs, network.branches + 1, network.excess
    branches, costs = _branches_of(network), _costs_of(network)
    for b in range(leaves):
        _price_branch(b, network, branches, costs)
    for node in range(leaves - 1, 0, -1):
        _take_least(costs.least, node)
    looked, left = costs.least.size, 0
    for node in range(len(excess)):
        left += max(excess[node], 0)
    for _ in range(left):
        if not _search(network, costs):
            return NO_FLOW
        to = hubs
        while True:  # the path, from its end; each step is the cheapest whatever has been sent after it
            start = costs.before[to]
            looked += _exchange(start, to, network, branches, costs)
            to = start
            if to == hubs:
                break
    return looked


@part
def _branches_of(network):  # type: ignore[no-untyped-def]
    """Sort the doors by branch."""
    tail, head, hubs, arcs = network.tail, network.head, network.hubs, len(network.tail)
    begin, above = np.zeros(network.branches + 3, np.int64), np.empty(len(network.branch), np.int64)
    door = np.empty(arcs + len(above), np.int64)
    for node in range(len(above)):
        above[node] = -1
    for turn in range(2):
        for d in range(len(door)):
            node = d - arcs
            if d < arcs:
                node = max(tail[d], head[d])
                if tail[d] >= hubs:
                    above[tail[d]] = d
                    if head[d] >= hubs:
                        continue
            elif node < hubs or network.excess[node] == 0:
                continue
            b = network.branch[node]
            if turn == 0:
                begin[b + 2] += 1
            else:
                door[begin[b + 1]] = d
                begin[b + 1] += 1
        if turn == 0:
            for b in range(2, len(begin)):
                begin[b] += begin[b - 1]
    return Branches(begin, door, above)


@part
def _costs_of(network):  # type: ignore[no-untyped-def]
    """Memory for the costs."""
    up, of_hub = np.empty(len(network.excess), np.int64), np.empty((2, network.hubs + 1), np.int64)
    for node in range(len(up)):
        up[node] = NEVER
    least = np.empty((2 * (network.branches + 1), (network.hubs + 1) ** 2), np.int64)
    return Costs(least, up, of_hub[0], of_hub[1])


@leaf
def _price_branch(b, network, branches, costs):  # type: ignore[no-untyped-def]
    """Write the costs of a branch into its leaf."""
    hubs, least = network.hubs, costs.least[network.branches + 1 + b]
    for pair in range(len(least)):
        least[pair] = NEVER
    if b == network.branches:
        for hub in range(hubs):
            if network.excess[hub] > 0:
                least[hubs * (hubs + 1) + hub] = 1
            elif network.excess[hub] < 0:
                least[hub * (hubs + 1) + hubs] = 1
        return
    for i in range(branches.begin[b], branches.begin[b + 1]):
        start, first, enter, _ = _door(branches.door[i], network)
        if enter == NEVER:
            continue
        _climb(first, network, branches, costs)
        for j in range(branches.begin[b], branches.begin[b + 1]):
            to, last, _, leave = _door(branches.door[j], network)
            if leave < NEVER and (to != start or to == hubs):
                cost, _ = _meet(last, network, branches, costs)
                if cost < NEVER:
                    pair = start * (hubs + 1) + to
                    least[pair] = min(least[pair], (enter + cost + leave) * MANY + 1)
        _forget(first, network, branches, costs)


@leaf
def _door(d, network):  # type: ignore[no-untyped-def]
    """The hub and the node of a door, and what one unit costs that enters, or leaves."""
    if d >= len(network.tail):
        node = d - len(network.tail)
        enter = 0 if network.excess[node] > 0 else NEVER
        return network.hubs, node, enter, 0 if network.excess[node] < 0 else NEVER
    more, less = price(network, d, 0)
    if network.tail[d] < network.hubs:
        return network.tail[d], network.head[d], more, less
    return network.head[d], network.tail[d], less, more


@leaf
def _climb(node, network, branches, costs):  # type: ignore[no-untyped-def]
    """Write down what one unit costs from a node to each node that it can climb to."""
    cost = 0
    while True:
        costs.up[node] = cost
        e = branches.above[node]
        if e < 0 or network.head[e] < network.hubs:
            break
        more, _ = price(network, e, 0)
        if more == NEVER:
            break
        node, cost = network.head[e], cost + more


@leaf
def _forget(node, network, branches, costs):  # type: ignore[no-untyped-def]
    """Undo ``_climb``."""
    while costs.up[node] != NEVER:
        costs.up[node] = NEVER
        e = branches.above[node]
        if e < 0:
            break
        node = network.head[e]


@leaf
def _meet(node, network, branches, costs):  # type: ignore[no-untyped-def]
    """The least cost from where ``_climb`` began down to a node, and where that path turns."""
    best, turn, cost = NEVER, np.int64(-1), 0
    while True:
        if costs.up[node] < NEVER and costs.up[node] + cost < best:
            best, turn = costs.up[node] + cost, node
        e = branches.above[node]
        if e < 0 or network.head[e] < network.hubs:
            return best, turn
        _, less = price(network, e, 0)
        if less == NEVER:
            return best, turn
        node, cost = network.head[e], cost + less


@leaf
def _search(network, costs):  # type: ignore[no-untyped-def]
    """Find a cheapest path on the hubs from nowhere to nowhere (Bellman and Ford); False if there is none."""
    hubs, top, distance, before = network.hubs, costs.least[1], costs.distance, costs.before
    for hub in range(hubs + 1):
        distance[hub], before[hub] = top[hubs * (hubs + 1) + hub], hubs
    shorter = True
    while shorter:
        shorter = False
        for start in range(hubs):
            if distance[start] == NEVER:
                continue
            for to in range(hubs + 1):
                cost = top[start * (hubs + 1) + to]
                if cost < NEVER and distance[start] + cost < distance[to]:
                    distance[to], before[to] = distance[start] + cost, start
                    shorter = True
    return distance[hubs] < NEVER


@leaf
def _exchange(start, to, network, branches, costs):  # type: ignore[no-untyped-def]
    """Send one unit from hub to hub through the cheapest branch; returns how many costs were looked at."""
    hubs, least, leaves = network.hubs, costs.least, network.branches + 1
    pair, node = start * (hubs + 1) + to, 1
    while node < leaves:
        node = 2 * node if least[2 * node, pair] == least[node, pair] else 2 * node + 1
    b = node - leaves
    if b == network.branches:
        network.excess[min(start, to)] += 1 if to == hubs else -1
    else:
        _send(start, to, b, least[node, pair], network, branches, costs)
    _price_branch(b, network, branches, costs)
    looked = least.shape[1]
    while node > 1:
        node >>= 1
        _take_least(least, node)
        looked += least.shape[1]
    return looked


@leaf
def _take_least(least, node):  # type: ignore[no-untyped-def]
    """The least costs below a node of the tree."""
    for pair in range(least.shape[1]):
        left, right = least[2 * node, pair], least[2 * node + 1, pair]
        least[node, pair] = left if left < right else right


@leaf
def _send(start, to, b, known, network, branches, costs):  # type: ignore[no-untyped-def]
    """Send one unit through a branch, where its cost is known."""
    one = np.int64(1)  # one type of number: compiled once
    for i in range(branches.begin[b], branches.begin[b + 1]):
        at, first, enter, _ = _door(branches.door[i], network)
        if at != start or enter == NEVER:
            continue
        _climb(first, network, branches, costs)
        for j in range(branches.begin[b], branches.begin[b + 1]):
            out, last, _, leave = _door(branches.door[j], network)
            if out != to or leave == NEVER:
                continue
            cost, turn = _meet(last, network, branches, costs)
            if cost < NEVER and (enter + cost + leave) * MANY + 1 == known:
                _forget(first, network, branches, costs)
                _pass(branches.door[i], first, turn, one, network, branches)
                _pass(branches.door[j], last, turn, -one, network, branches)
                return
        _forget(first, network, branches, costs)


@leaf
def _pass(d, node, turn, by, network, branches):  # type: ignore[no-untyped-def]
    """Let one unit more (1) or less (-1) enter by a door and climb to where the path turns."""
    if d >= len(network.tail):
        network.excess[node] -= by
    else:
        network.flow[d] += by if network.tail[d] < network.hubs else -by
    while node != turn:
        network.flow[branches.above[node]] += by
        node = network.head[branches.above[node]]
