"""The network of one stage of one nest: which units may flow where, and what that costs.

Units flow from the columns along the live entries into the finest layer that matters, from there into the next, and end
in the layer whose margins are held, or in the ground. Without a parent they come from the ground too.
"""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import part
from tallyveil.engine.rounding.columns import NO_PARENT
from tallyveil.engine.rounding.residual import SCALE, Network

CELLS = -1  # instead of a layer: the stage of the cells
NOTHING = -1  # instead of a layer: no layer is held


@part
def chain_of(stage, held, layers):  # type: ignore[no-untyped-def]
    """The layers that matter, finest first: those with bounds, the stage's, and the one held, where the chain ends."""
    size = 0
    chain = np.empty(len(layers.rows), np.int64)
    for i in range(len(layers.rows) - 1, max(held, 0) - 1, -1):
        if i in (held, stage) or layers.bounded[i] == 1:
            chain[size] = i
            size += 1
    return chain[:size]


@part
def network_of(stage, held, chain, layers, nodes, fractions, start):  # type: ignore[no-untyped-def]
    """The network that makes the change of the stage's layer least. The first arcs are the live entries.

    ``start`` says which entries go up at first. The layer held keeps the units that ``fractions.up`` gives it.
    """
    up, columns, ground, last = fractions.up, fractions.column, len(fractions.units), len(chain) - 1
    arcs = len(start)
    for link in range(len(chain)):
        for node in range(layers.begin[chain[link]], layers.end[chain[link]]):
            arcs += chain[link] != held and nodes.high[node] != 0
    tail, head, flow = np.empty(arcs, np.int64), np.empty(arcs, np.int64), np.empty(arcs, np.int64)
    low, high, wanted = np.zeros(arcs, np.int64), np.ones(arcs, np.int64), np.zeros(arcs, np.int64)
    weight = np.zeros(arcs, np.int64)
    size = len(nodes.high)
    excess, potential, taken = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    for e in range(len(start)):
        c, s = fractions.child[e], columns[e]
        tail[e] = ground if fractions.units[s] == NO_PARENT else s
        head[e] = layers.of_child[chain[0], c] + layers.of_column[chain[0], s]
        flow[e], wanted[e] = start[e], fractions.rest[e]
        weight[e] = SCALE if stage == CELLS else 0
        sent, sink = start[e], ground
        if held != NOTHING:
            sent, sink = up[e], layers.of_child[held, c] + layers.of_column[held, s]
        excess[tail[e]] += sent - start[e]
        excess[sink] -= sent
        excess[head[e]] += start[e]
        for link in range(len(chain)):
            taken[layers.of_child[chain[link], c] + layers.of_column[chain[link], s]] += start[e]
    e = len(start)
    first_of_stage, last_of_stage = e, e
    for link in range(len(chain)):
        i = chain[link]
        if i == stage:
            first_of_stage = e
        for node in range(layers.begin[i], layers.end[i]):
            if i == held or nodes.high[node] == 0:
                continue
            tail[e], head[e] = node, ground
            if link < last:  # into the node of the next layer that contains this one
                after = chain[link + 1]
                head[e] = layers.of_child[after, nodes.child[node]] + layers.of_column[after, nodes.column[node]]
            low[e], high[e], wanted[e] = nodes.low[node], nodes.high[node], nodes.wanted[node]
            near = taken[node]
            if i == stage:
                weight[e], near = SCALE, (wanted[e] + SCALE // 2) // SCALE
            flow[e] = min(max(near, low[e]), high[e])
            excess[node] -= flow[e]
            excess[head[e]] += flow[e]
            e += 1
        if i == stage:
            last_of_stage = e
    hubs = ground + 1 if fractions.units[0] != NO_PARENT else 0
    for link in range(len(chain)):
        if layers.is_margin[chain[link]] == 0:
            hubs = 0
    network = Network(
        tail, head, low, high, wanted, weight, flow, excess, potential, hubs, layers.of_child.shape[1], nodes.child
    )
    return network, first_of_stage, last_of_stage
