"""Limits of one nest: who shares their bounds, and whether whole counts keep them."""

from __future__ import annotations

import numpy as np

from tallyveil._compiled import part
from tallyveil.engine.rounding.columns import NO_PARENT

OWN, SHARED, PARENTS = 0, 1, 2


@part
def renumber(values, size):  # type: ignore[no-untyped-def]
    """Number the first values from 0 in the order in which they occur; returns how many there are."""
    lowest, highest, known = values[0], values[0], 0
    for i in range(size):
        if values[i] < lowest:
            lowest = values[i]
        elif values[i] > highest:
            highest = values[i]
    number = np.zeros(highest - lowest + 1, np.int64)  # from 1; 0: not seen yet
    for i in range(size):
        at = values[i] - lowest
        if number[at] == 0:
            known += 1
            number[at] = known
        values[i] = number[at] - 1
    return known


@part
def kinds_of(bounds, first_child, children, count):  # type: ignore[no-untyped-def]
    """Whose bounds each limit has: every child's OWN, SHARED by some siblings, or the PARENT'S.

    Bounds that all children share bind the parent's counts. These are fixed, so nothing is left to do.
    """
    kinds = np.empty(len(bounds.width), np.int64)
    owner = np.empty(children, np.int64)
    for i in range(len(kinds)):
        for c in range(children):
            owner[c] = bounds.owner[i, first_child + c]
        owners = renumber(owner, children)
        kinds[i] = SHARED
        if owners == children:
            kinds[i] = OWN
        elif owners == 1 and count[0] != NO_PARENT:
            kinds[i] = PARENTS
    return kinds


@part
def limits_hold(bounds, first_child, cell, whole):  # type: ignore[no-untyped-def]
    """Whether whole counts keep all limits, those on rows without support cells included."""
    children, columns = whole.shape
    for i in range(len(bounds.width)):
        width = bounds.width[i]
        lowest, highest = bounds.owner[i, first_child], bounds.owner[i, first_child]
        for c in range(children):
            lowest = min(lowest, bounds.owner[i, first_child + c])
            highest = max(highest, bounds.owner[i, first_child + c])
        sums = np.zeros((highest - lowest + 1, width), np.int64)
        for c in range(children):
            owner = bounds.owner[i, first_child + c] - lowest
            for s in range(columns):
                sums[owner, bounds.row_of_cell[i, cell[s]]] += whole[c, s]
        for c in range(children):
            owner = bounds.owner[i, first_child + c]
            for r in range(width):
                at = bounds.begin[i] + owner * width + r
                if sums[owner - lowest, r] < bounds.least[at] or sums[owner - lowest, r] > bounds.most[at]:
                    return False
    return True
