"""Shortest paths in reduced costs from nodes that have too much to nodes that lack some: Dijkstra's method.

A search ends at the nearest deficit, or with the deficits that take up all that there is too much of. Equal distances
are settled in the order in which nodes are met, or, from the heap, in the order of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import inlined, leaf
from tallyveil.engine.rounding.residual import NEVER


class Search(NamedTuple):
    """What a search for shortest paths writes down."""

    distance: Integers  # of each node
    way_in: Integers  # by which each node was reached
    order: Integers  # in which each node was settled, from 1; 0: not yet
    met: Integers  # the nodes with a distance, sources first
    level: Integers  # the nodes at the distance being settled
    key: Integers  # a heap of distances and their nodes
    node: Integers


@leaf
def nearest_deficits(source, end, excess, potential, ways, search):  # type: ignore[no-untyped-def]
    """Settle nodes, nearest first, from those between a source and an end that have too much.

    Stops when the nodes settled lack as many units as these have, or some where the end follows the source. Returns the
    last of them that lacks some (-1: none can be reached), how many nodes were met, and how many ways were looked at.
    """
    begin, to, cost = ways.begin, ways.to, ways.cost
    distance, way_in, order, met, level = search.distance, search.way_in, search.order, search.met, search.level
    keys, heap = search.key, search.node
    first, last, size, here, target, wanted, looked = 0, 0, np.int64(0), 0, -1, 0, 0
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
                return target, reached, looked
            settled += 1
            order[node] = settled
            if excess[node] < 0:
                target, wanted = node, wanted + excess[node]
                if wanted <= 0:
                    return target, reached, looked
            here, first, last = distance[node], 0, 0
        away_from_here = here + potential[node]
        looked += begin[node + 1] - begin[node]
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
                    return target, reached, looked
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
