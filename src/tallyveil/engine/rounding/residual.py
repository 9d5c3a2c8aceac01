"""A network with a flow, and the ways on which its units can still go: along arcs that can carry more, against others.

An arc costs ``|flow - wanted|`` if it counts. Costs are whole multiples of ``1 / SCALE``, so all comparisons are exact.
Node potentials prove a flow to be the cheapest with its own imbalance: no way then has a negative reduced cost, which
is its cost, plus the potential of the node it leaves, less that of the node it enters.

Kernels that take many arrays are costly to call: what runs for every arc is inlined.
"""

from __future__ import annotations

from typing import NamedTuple

from tallyveil._arrays import Integers
from tallyveil._compiled import inlined, leaf

SCALE = 1 << 40  # one person, in units of cost
NEVER = 1 << 62  # the cost of what an arc cannot carry
NO_FLOW = -1  # instead of a number: no flow is balanced


class Network(NamedTuple):
    """Arcs with a flow, and nodes.

    Arc ``e`` carries ``low[e]`` to ``high[e]`` units from ``tail[e]`` to ``head[e]``. It costs
    ``|flow[e] * weight[e] - wanted[e]|``: the weight is ``SCALE`` if the arc counts, else 0.

    The first ``hubs`` nodes are the columns and the ground; ``hubs`` is 0 where children do not hang together by these
    alone. Each other node belongs to one branch, and has one arc that leaves it, or none.
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
    hubs: int
    branches: int
    branch: Integers  # of each node


class Ways(NamedTuple):
    """The ways that leave each node: along its arcs out, and against its arcs in. They are in the order of arcs."""

    begin: Integers  # of each node's ways
    to: Integers  # where each way leads
    cost: Integers  # of one unit more that goes this way
    arc: Integers  # 2e along arc e, 2e + 1 against it
    slot: Integers  # the place of 2e and 2e + 1 among the ways
    near: Integers  # the arcs that have ways


@inlined
def cost_of_one_more(flow, wanted):  # type: ignore[no-untyped-def]
    """How much ``|flow - wanted|`` grows with one unit more; ``wanted`` in units of ``1 / SCALE``."""
    return abs((flow + 1) * SCALE - wanted) - abs(flow * SCALE - wanted)


@inlined
def tilt(number):  # type: ignore[no-untyped-def]
    """What is added to the wanted flow of a node or an entry, to break ties: under a millionth, and 0 on average."""
    word = number * -0x61C8864680B583EB  # 2^64 over the golden ratio
    return ((word ^ (word >> 32)) * -0x61C8864680B583EB) >> 45


@inlined
def price(network, e, bits):  # type: ignore[no-untyped-def]
    """What one unit more costs along an arc and against it, without the last bits."""
    flow, weight = network.flow[e], network.weight[e]
    off = flow * weight - network.wanted[e]
    more = (abs(off + weight) - abs(off)) >> bits if flow < network.high[e] else NEVER
    less = -((abs(off) - abs(off - weight)) >> bits) if flow > network.low[e] else NEVER
    return more, less


@leaf
def find_ways(network, ways, bits, far):  # type: ignore[no-untyped-def]
    """Move the arcs that the potentials do not prove to be cheapest, and list the ways with small reduced costs.

    Costs are without the last ``bits``. An arc has ways where the reduced cost of one of them is at most ``far``.
    """
    tail, head, flow, excess, potential = network.tail, network.head, network.flow, network.excess, network.potential
    begin, number = ways.begin, 0
    for node in range(len(begin)):
        begin[node] = 0
    for e in range(len(tail)):
        reduced = potential[tail[e]] - potential[head[e]]
        while True:
            more, less = price(network, e, bits)
            step = (more + reduced < 0) - (less - reduced < 0)
            if step == 0:
                break
            flow[e] += step
            excess[tail[e]] -= step
            excess[head[e]] += step
        if more + reduced <= far or less - reduced <= far:
            ways.near[number] = e
            number += 1
            begin[tail[e] + 2] += 1
            begin[head[e] + 2] += 1
    for node in range(2, len(begin)):
        begin[node] += begin[node - 1]
    for i in range(number):  # begin[node + 1] moves on to the end of the node's ways
        e = ways.near[i]
        more, less = price(network, e, bits)
        along, against = begin[tail[e] + 1], begin[head[e] + 1]
        ways.to[along], ways.cost[along], ways.arc[along], ways.slot[2 * e] = head[e], more, 2 * e, along
        ways.to[against], ways.cost[against], ways.arc[against], ways.slot[2 * e + 1] = (
            tail[e],
            less,
            2 * e + 1,
            against,
        )
        begin[tail[e] + 1] += 1
        begin[head[e] + 1] += 1


@inlined
def send_one(network, ways, way, bits):  # type: ignore[no-untyped-def]
    """Send one unit on a way, which changes the costs of its arc; returns the node that it left."""
    e, against = ways.arc[way] >> 1, ways.arc[way] & 1
    network.flow[e] += 1 - 2 * against
    ways.cost[ways.slot[2 * e]], ways.cost[ways.slot[2 * e + 1]] = price(network, e, bits)
    return network.head[e] if against else network.tail[e]
