"""Rounding by largest fractions or a network flow, nest by nest, compiled.

Which of a column's fractions go up is a flow of units from columns (cells of the parent) through each child's margins,
finest to coarsest, and through owners that share limits. Stage by stage the flow nearest to that layer's real sums is
found, and held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import compiled, inlined
from tallyveil.engine.rounding.columns import NO_PARENT, fractions_of, settle_columns, table_of
from tallyveil.engine.rounding.flow import PATIENCE, nearest_flow
from tallyveil.engine.rounding.layers import layers_of, nodes_of
from tallyveil.engine.rounding.limits import kinds_of, limits_hold
from tallyveil.engine.rounding.network import CELLS, NOTHING, chain_of, network_of
from tallyveil.engine.rounding.programs import WHOLE
from tallyveil.engine.rounding.residual import NO_FLOW
from tallyveil.engine.rounding.starts import balance_heads, largest_fractions, price_columns

DONE, FLOWED, STUCK = 0, 1, 2


class Layout(NamedTuple):
    """The arrays of ``Nests``, whose children and cells are in the order of their lots, unlike those of the tables."""

    child_start: Integers
    cell_start: Integers
    cell: Integers
    parent: Integers  # its counts
    block_start: Integers
    row: Integers  # where each child's counts stand in the table of its nest
    column: Integers  # and those of each cell


@compiled
def round_by_flow(x, layout, order, bounds, counts, outcome):  # type: ignore[no-untyped-def]
    """Round every nest; ``outcome`` says how, or that it is stuck. Returns how many ways its flows looked at."""
    looked = np.zeros(1, np.int64)
    for p in range(len(outcome)):
        first_child, block = layout.child_start[p], layout.block_start[p]
        cell = layout.cell[layout.cell_start[p] : layout.cell_start[p + 1]]
        count = layout.parent[layout.cell_start[p] : layout.cell_start[p + 1]]
        row = layout.row[first_child : layout.child_start[p + 1]]
        column = layout.column[layout.cell_start[p] : layout.cell_start[p + 1]]
        children, columns = len(row), len(column)
        kinds = kinds_of(bounds, first_child, children, count)
        for attempt in range(2):
            tolerance = WHOLE if attempt == 0 else 0.0  # numbers that seemed whole may have to move
            table = table_of(x, block, row, column, tolerance)
            outcome[p] = _round_table(table, count, cell, first_child, order, bounds, kinds, looked)
            if outcome[p] != STUCK:
                break
        for c in range(children):
            for s in range(columns):
                counts[block + row[c] * columns + column[s]] = table.whole[c, s]
    return looked[0]


@inlined  # as a kernel of its own it would be optimised twice, with all that it calls
def _round_table(table, count, cell, first_child, order, bounds, kinds, looked):  # type: ignore[no-untyped-def]
    """Round one nest in ``table.whole``, stage by stage: the margins from coarse to fine, then the cells."""
    units = np.empty(len(count), np.int64)
    if not settle_columns(table, count, units):
        return STUCK
    fractions = fractions_of(table, units)
    up, start, status = fractions.up, np.zeros(len(fractions.up), np.int64), DONE
    if len(up) > 0:
        nest, layers = layers_of(order, bounds, kinds, first_child, cell, len(table.whole))
        fits, nodes = nodes_of(layers, order, bounds, kinds, table, first_child, cell)
        if not (nest and fits):
            return STUCK
        if order.margins:
            largest_fractions(fractions, layers, layers.is_margin, nodes.wanted, up)
        held = np.int64(NOTHING)  # one type of number: compiled once
        for j in range(len(order.limit) + 1):
            stage = j if j < len(order.limit) else CELLS
            if stage == CELLS:  # start anew; where nothing else binds, that is the answer
                largest_fractions(fractions, layers, np.zeros(len(order.limit), np.int64), nodes.wanted, start)
            elif layers.is_stage[j]:
                for e in range(len(up)):
                    start[e] = up[e]
            else:
                continue
            chain = chain_of(stage, held, layers)
            if len(chain) > 0:
                status = FLOWED
                network, first, last = network_of(stage, held, chain, layers, nodes, fractions, start)
                if stage == CELLS:
                    price_columns(fractions, start, network.potential)
                elif count[0] != NO_PARENT and chain[len(chain) - (1 if held == NOTHING else 2)] == stage:
                    balance_heads(network, first, last)  # the heads are the ground or the nodes held
                seen = nearest_flow(network, PATIENCE)
                if seen == NO_FLOW:
                    return STUCK
                looked[0] += seen
                for e in range(len(up)):
                    start[e] = network.flow[e]
            for e in range(len(up)):
                up[e] = start[e]
            held = np.int64(stage)
        for e in range(len(up)):
            table.whole[fractions.child[e], fractions.column[e]] += up[e]
    return status if limits_hold(bounds, first_child, cell, table.whole) else STUCK
