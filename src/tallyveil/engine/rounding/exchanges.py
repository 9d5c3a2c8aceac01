"""The nearest flow where a parent has many children and few cells: every path is a few exchanges between cells.

The columns and the ground are hubs: a branch (one child, ``branches``) touches nothing else. A shortest path thus goes
from hub to hub, each time through one branch, and all that matters of a branch is what a unit costs that enters it
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
from tallyveil.engine.rounding.branches import branches_of, climb, forget_climb, meet, pass_door, through_door
from tallyveil.engine.rounding.residual import NEVER, NO_FLOW

ROOM = 1 << 24  # the largest table of costs, in numbers
MANY = 64  # exchanges on a path are fewer (ROOM admits 52 hubs); each adds 1 / MANY of the unit of cost


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
    branches, costs = branches_of(network), _costs_of(network)
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
        start, first, enter, _ = through_door(branches.door[i], network)
        if enter == NEVER:
            continue
        climb(first, network, branches, costs.up)
        for j in range(branches.begin[b], branches.begin[b + 1]):
            to, last, _, leave = through_door(branches.door[j], network)
            if leave < NEVER and (to != start or to == hubs):
                cost, _ = meet(last, network, branches, costs.up)
                if cost < NEVER:
                    pair = start * (hubs + 1) + to
                    least[pair] = min(least[pair], (enter + cost + leave) * MANY + 1)
        forget_climb(first, network, branches, costs.up)


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
        at, first, enter, _ = through_door(branches.door[i], network)
        if at != start or enter == NEVER:
            continue
        climb(first, network, branches, costs.up)
        for j in range(branches.begin[b], branches.begin[b + 1]):
            out, last, _, leave = through_door(branches.door[j], network)
            if out != to or leave == NEVER:
                continue
            cost, turn = meet(last, network, branches, costs.up)
            if cost < NEVER and (enter + cost + leave) * MANY + 1 == known:
                forget_climb(first, network, branches, costs.up)
                pass_door(branches.door[i], first, turn, one, network, branches)
                pass_door(branches.door[j], last, turn, -one, network, branches)
                return
        forget_climb(first, network, branches, costs.up)
