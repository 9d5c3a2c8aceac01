"""The layers of one nest and their nodes, through which units flow.

A layer is a partition of the cells, for every child or for every owner of a limit. Its nodes are the pairs of a group
of children and a row of cells. The columns are nodes too, and so is the ground, where all flow ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import part
from tallyveil.engine.rounding.limits import OWN, SHARED, renumber
from tallyveil.engine.rounding.residual import tilt
from tallyveil.engine.rounding.rules import EACH_CHILD

PROGRAM_SIZE = 2_000  # the largest table for an integer program where there is another way; beyond, it takes minutes


class Layers(NamedTuple):
    """The layers from coarse to fine. Nodes are numbered: columns, the ground, the finest layer, ..., the coarsest.

    The node of child ``c`` and column ``s`` in layer ``j`` is ``of_child[j, c] + of_column[j, s]``.
    """

    of_child: Integers
    of_column: Integers
    begin: Integers  # the first node of each layer
    end: Integers
    rows: Integers  # how many each layer has; 0: it is left out
    bounded: Integers  # 1 where limits bind in the layer
    is_margin: Integers  # 1 where every child stands for itself
    is_stage: Integers  # 1 where the layer's change is minimised


class Nodes(NamedTuple):
    """What each node of a layer may carry."""

    low: Integers  # the fewest and the most units
    high: Integers
    wanted: Integers  # what it would carry unrounded, in units of 1 / SCALE
    child: Integers  # some child and some column of the node
    column: Integers


@part
def layers_of(order, bounds, kinds, first_child, cell, children):  # type: ignore[no-untyped-def]
    """The layers of a nest, and whether they nest."""
    columns, size = len(cell), len(order.limit)
    of_child, of_column = np.zeros((size, children), np.int64), np.zeros((size, columns), np.int64)
    rows, groups = np.zeros(size, np.int64), np.zeros(size, np.int64)
    bounded, is_margin, is_stage = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    number, some_child = np.empty(max(children, columns), np.int64), np.empty(children, np.int64)
    nest = True
    for i in range(len(kinds)):  # a child's own limits on a cell hold at its floor and ceiling, shared ones need not
        if kinds[i] == SHARED and bounds.partition[i] == len(order.row_of_cell):
            nest = False
    first_stage = 0
    if children * columns > PROGRAM_SIZE:  # margins above limits that siblings share do not nest with them: do without
        for j in range(size):
            if order.limit[j] != EACH_CHILD and kinds[order.limit[j]] == SHARED:
                first_stage = j
    above = -1
    for j in range(size):
        limit = order.limit[j]
        if limit == EACH_CHILD:
            for i in range(len(kinds)):
                if kinds[i] == OWN and bounds.partition[i] == order.partition[j]:
                    bounded[j] = 1
        elif kinds[limit] == SHARED:
            bounded[j] = 1
        if bounded[j] == 0 and not (limit == EACH_CHILD and order.margins and j >= first_stage):
            continue
        for s in range(columns):
            number[s] = order.row_of_cell[order.partition[j], cell[s]]
        rows[j] = renumber(number, columns)
        for s in range(columns):
            of_column[j, s] = number[s]
        for c in range(children):
            number[c] = c if limit == EACH_CHILD else bounds.owner[limit, first_child + c]
        groups[j] = renumber(number, children)
        for c in range(children):
            of_child[j, c] = number[c]
            some_child[number[c]] = c
        if above >= 0:  # a group lies within one group of the layer above
            for c in range(children):
                if of_child[above, c] != of_child[above, some_child[of_child[j, c]]]:
                    nest = False
        above = j
    begin, end = np.empty(size, np.int64), np.empty(size, np.int64)
    nodes, finer = columns + 1, columns
    for j in range(size - 1, -1, -1):
        begin[j], end[j] = nodes, nodes + groups[j] * rows[j]
        nodes = end[j]
        for c in range(children):
            of_child[j, c] = begin[j] + of_child[j, c] * rows[j]
        if order.limit[j] == EACH_CHILD and rows[j] > 0:
            is_margin[j] = 1
            if order.margins and rows[j] < finer:  # not the same rows once more
                is_stage[j] = 1
                finer = rows[j]
    return nest, Layers(of_child, of_column, begin, end, rows, bounded, is_margin, is_stage)


@part
def nodes_of(layers, order, bounds, kinds, table, first_child, cell):  # type: ignore[no-untyped-def]
    """The nodes of a nest's layers, and whether their bounds can be kept."""
    children, columns = table.whole.shape
    size = columns + 1
    for j in range(len(layers.rows)):
        size += layers.end[j] - layers.begin[j]
    low, high, wanted = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    child, column, whole = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    fits = True
    for node in range(columns + 1, size):
        wanted[node] = tilt(node)
    for j in range(len(layers.rows)):
        if layers.rows[j] > 0:
            for c in range(children):
                for s in range(columns):
                    node = layers.of_child[j, c] + layers.of_column[j, s]
                    child[node], column[node] = c, s
                    whole[node] += table.whole[c, s]
                    wanted[node] += table.rest[c, s]
                    high[node] += table.live[c, s]
        for i in range(len(kinds)):
            if layers.bounded[j] == 0 or bounds.partition[i] != order.partition[j]:
                continue
            if i != order.limit[j] and not (order.limit[j] == EACH_CHILD and kinds[i] == OWN):
                continue
            for node in range(layers.begin[j], layers.end[j]):
                owner, row = bounds.owner[i, first_child + child[node]], bounds.row_of_cell[i, cell[column[node]]]
                at = bounds.begin[i] + owner * bounds.width[i] + row
                low[node] = max(low[node], bounds.least[at] - whole[node])
                high[node] = min(high[node], bounds.most[at] - whole[node])
                if low[node] > high[node]:
                    fits = False
    return fits, Nodes(low, high, wanted, child, column)
