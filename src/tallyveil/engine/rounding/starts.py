"""Where a flow starts: at the largest fractions of each column, with prices that prove as much as is easy to prove.

A good start leaves few units to move. The prices are node potentials (``residual`` says what they must satisfy).
"""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import leaf, part
from tallyveil.engine.rounding.columns import NO_PARENT
from tallyveil.engine.rounding.residual import NEVER, SCALE, cost_of_one_more

ROUNDS = 64  # in which each head of a start is balanced by one unit; the rest is left to the flow


@part
def largest_fractions(fractions, layers, counted, wanted, up):  # type: ignore[no-untyped-def]
    """Let the largest fractions of every column go up. What a child lacks in the layers ``counted`` adds to them.

    A node lacks what it would carry unrounded, less the units of the columns done and the fractions of those to come.
    """
    of_child, of_column = layers.of_child, layers.of_column
    begin, column, child, rest = fractions.begin, fractions.column, fractions.child, fractions.rest
    lack, key = wanted.copy(), rest.copy()
    for e in range(len(child)):
        for j in range(len(counted)):
            if counted[j] == 1:
                lack[of_child[j, child[e]] + of_column[j, column[e]]] -= rest[e]
    for s in range(len(begin) - 1):
        for e in range(begin[s], begin[s + 1]):
            for j in range(len(counted)):
                if counted[j] == 1:
                    key[e] += lack[of_child[j, child[e]] + of_column[j, s]]
        _largest_of_column(key, begin[s], begin[s + 1], fractions.units[s], up)
        for e in range(begin[s], begin[s + 1]):
            for j in range(len(counted)):
                if counted[j] == 1:
                    lack[of_child[j, child[e]] + of_column[j, s]] += rest[e] - up[e] * SCALE


@leaf
def _largest_of_column(key, first, last, units, up):  # type: ignore[no-untyped-def]
    """The ``units`` largest of a column go up, earlier ones first; without a parent all above one half."""
    for e in range(first, last):
        up[e] = units == NO_PARENT and key[e] > SCALE // 2
    if units * (last - first) <= 4096:
        for _ in range(units):
            best = -1
            for e in range(first, last):
                if up[e] == 0 and (best < 0 or key[e] > key[best]):
                    best = e
            up[best] = 1
    else:  # halve the range of the least key that goes up
        low, high, left = -NEVER, NEVER, units
        while low < high:
            middle, above = (low + high) >> 1, 0
            for e in range(first, last):
                above += key[e] > middle
            if above < units:
                high = middle
            else:
                low = middle + 1
        for e in range(first, last):
            up[e] = key[e] > low
            left -= up[e]
        for e in range(first, last):
            if left > 0 and key[e] == low:
                up[e] = 1
                left -= 1


@leaf
def price_columns(fractions, up, potential):  # type: ignore[no-untyped-def]
    """Price every column between the costs of its entries that go up and of those that do not."""
    for s in range(len(fractions.units)):
        least, most = SCALE, 0
        for e in range(fractions.begin[s], fractions.begin[s + 1]):
            if up[e] == 1:
                least = min(least, fractions.rest[e])
            else:
                most = max(most, fractions.rest[e])
        if fractions.units[s] != NO_PARENT:
            potential[s] = least + most - SCALE


@part
def balance_heads(network, first, last):  # type: ignore[no-untyped-def]
    """Let the arcs from ``first`` to ``last`` carry what their heads need, cheapest first, and price the heads so."""
    tail, head, low, high, wanted = network.tail, network.head, network.low, network.high, network.wanted
    flow, excess, potential = network.flow, network.excess, network.potential
    best, price = np.empty(len(excess), np.int64), np.empty(len(excess), np.int64)
    least, most = np.empty(len(excess), np.int64), np.empty(len(excess), np.int64)
    for h in range(len(excess)):
        best[h], least[h], most[h] = -1, -NEVER, NEVER
    for _ in range(ROUNDS):
        moved = False
        for e in range(first, last):
            h = head[e]
            if excess[h] > 0 and flow[e] > low[e]:
                cost = -cost_of_one_more(flow[e] - 1, wanted[e])
            elif excess[h] < 0 and flow[e] < high[e]:
                cost = cost_of_one_more(flow[e], wanted[e])
            else:
                continue
            if best[h] < 0 or cost < price[h]:
                best[h], price[h] = e, cost
        for e in range(first, last):
            h = head[e]
            if best[h] == e:
                step = 1 if excess[h] < 0 else -1
                flow[e] += step
                excess[h] += step
                excess[tail[e]] -= step
                best[h] = -1
                moved = True
        if not moved:
            break
    for e in range(first, last):
        h = head[e]
        if flow[e] < high[e]:
            most[h] = min(most[h], cost_of_one_more(flow[e], wanted[e]))
        if flow[e] > low[e]:
            least[h] = max(least[h], cost_of_one_more(flow[e] - 1, wanted[e]))
    for e in range(first, last):
        h = head[e]
        potential[h] = min(max(0, least[h]), most[h])  # the price nearest to 0
