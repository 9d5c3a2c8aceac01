"""What is left to decide in a nest: which entries of each column go up from their floors.

A column is a cell of the parent, and its entries are the children's estimates in that cell. Columns where nothing or
everything goes up are settled at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil._compiled import leaf, part
from tallyveil.engine.rounding.residual import SCALE, tilt

NO_PARENT = -1  # instead of a count or a number of units


class Table(NamedTuple):
    """One nest, children x columns."""

    whole: Integers  # the number to round to, unless the entry goes up
    rest: Integers  # the estimate less that, in units of 1 / SCALE
    live: NDArray[np.int8]  # 1 where the entry may go up by one, else 0


class Fractions(NamedTuple):
    """The live entries, column by column."""

    begin: Integers  # of each column's entries, and the end of the last
    units: Integers  # how many entries of each column go up, or NO_PARENT
    column: Integers  # of each entry
    child: Integers
    rest: Integers
    up: Integers  # 1 where the entry goes up, else 0


@part
def table_of(x, block, row, column, tolerance):  # type: ignore[no-untyped-def]
    """Floors and fractions of the nest whose estimates begin at ``block``; numbers near a whole one are whole."""
    children, columns = len(row), len(column)
    whole = np.empty((children, columns), np.int64)
    rest = np.empty((children, columns), np.int64)
    live = np.empty((children, columns), np.int8)
    for c in range(children):
        for s in range(columns):
            value = x[block + row[c] * columns + column[s]]
            if value < 0.0:
                value = 0.0
            near = math.floor(value + 0.5)
            is_live = abs(value - near) > tolerance
            floor = math.floor(value) if is_live else near
            whole[c, s] = floor
            rest[c, s] = round((value - floor) * SCALE)
            live[c, s] = is_live
    return Table(whole, rest, live)


@leaf
def settle_columns(table, count, units):  # type: ignore[no-untyped-def]
    """Find the units of each column, and settle those without a choice. False where a column cannot be kept.

    Where snapping left a column more or fewer units than its live entries can take, the least whole entries wake.
    """
    whole, rest, live = table.whole, table.rest, table.live
    children, columns = whole.shape
    for s in range(columns):
        units[s] = count[s]
        if count[s] == NO_PARENT:
            continue
        free = 0
        for c in range(children):
            units[s] -= whole[c, s]
            free += live[c, s]
        while units[s] < 0 or units[s] > free:
            least_whole, farthest = -1, 0
            for c in range(children):  # snapped up if there are too few units, down if there are too many
                off = -rest[c, s] if units[s] < 0 else rest[c, s]
                if live[c, s] == 0 and off > farthest:
                    least_whole, farthest = c, off
            if least_whole < 0:
                return False
            live[least_whole, s] = 1
            free += 1
            if units[s] < 0:
                whole[least_whole, s] -= 1
                rest[least_whole, s] += SCALE
                units[s] += 1
        if units[s] == 0 or units[s] == free:
            for c in range(children):
                if live[c, s] == 1:
                    live[c, s] = 0
                    if units[s] > 0:
                        whole[c, s] += 1
                        rest[c, s] -= SCALE
            units[s] = 0
    return True


@part
def fractions_of(table, units):  # type: ignore[no-untyped-def]
    """The live entries of a table whose columns are settled; none goes up yet."""
    children, columns = table.live.shape
    begin = np.zeros(columns + 1, np.int64)
    for c in range(children):  # along the rows, as the table lies in memory
        for s in range(columns):
            begin[s + 1] += table.live[c, s]
    for s in range(columns):
        begin[s + 1] += begin[s]
    size = begin[columns]
    column, child, rest = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    fill = begin.copy()
    for c in range(children):
        for s in range(columns):
            if table.live[c, s] == 1:
                column[fill[s]], child[fill[s]], rest[fill[s]] = s, c, table.rest[c, s] + tilt(fill[s])
                fill[s] += 1
    return Fractions(begin, units, column, child, rest, np.zeros(size, np.int64))
