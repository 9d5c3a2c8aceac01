"""The branches of a network: one child each, with all its nodes, between the hubs (the columns and the ground).

A node has at most one arc that leaves it, so the nodes of a branch are trees, and a unit that enters a branch at one
door and leaves it at another climbs to where the ways of the two doors meet, and goes down from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import leaf, part
from tallyveil.engine.rounding.residual import NEVER, price


class Branches(NamedTuple):
    """The doors of each branch: its arcs from or to a hub, and, numbered after all arcs, its nodes out of balance."""

    begin: Integers  # of each branch's doors
    door: Integers
    above: Integers  # the arc that leaves each node; -1: none


@part
def branches_of(network):  # type: ignore[no-untyped-def]
    """Sort the doors by branch."""
    tail, head, hubs, arcs = network.tail, network.head, network.hubs, len(network.tail)
    begin, above = np.zeros(network.branches + 2, np.int64), np.empty(len(network.branch), np.int64)
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


@leaf
def through_door(d, network):  # type: ignore[no-untyped-def]
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
def climb(node, network, branches, up):  # type: ignore[no-untyped-def]
    """Write down what one unit costs from a node to each node that it can climb to."""
    cost = 0
    while True:
        up[node] = cost
        e = branches.above[node]
        if e < 0 or network.head[e] < network.hubs:
            break
        more, _ = price(network, e, 0)
        if more == NEVER:
            break
        node, cost = network.head[e], cost + more


@leaf
def meet(node, network, branches, up):  # type: ignore[no-untyped-def]
    """The least cost from where ``climb`` began down to a node, and where that path turns."""
    best, turn, cost = NEVER, np.int64(-1), 0
    while True:
        if up[node] < NEVER and up[node] + cost < best:
            best, turn = up[node] + cost, node
        e = branches.above[node]
        if e < 0 or network.head[e] < network.hubs:
            return best, turn
        _, less = price(network, e, 0)
        if less == NEVER:
            return best, turn
        node, cost = network.head[e], cost + less


@leaf
def forget_climb(node, network, branches, up):  # type: ignore[no-untyped-def]
    """Undo ``climb``."""
    while up[node] != NEVER:
        up[node] = NEVER
        e = branches.above[node]
        if e < 0:
            break
        node = network.head[e]


@leaf
def pass_door(d, node, turn, by, network, branches):  # type: ignore[no-untyped-def]
    """Let one unit more (1) or less (-1) enter by a door and climb to where the path turns."""
    if d >= len(network.tail):
        network.excess[node] -= by
    else:
        network.flow[d] += by if network.tail[d] < network.hubs else -by
    while node != turn:
        network.flow[branches.above[node]] += by
        node = network.head[branches.above[node]]
