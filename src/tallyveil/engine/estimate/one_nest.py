"""One nest as the kernels see it: its columns, the queries asked of it, its limited rows, and the metric of a step.

Tables lie cell by cell, ``x[s, c]`` for support cell s and child c, so that loops over children run along memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

FAR = 1e100  # below 0: the answer of an entry that must stay 0, where cells are measured
CLOSED = 1e200  # what keeps an entry at 0: u is minus that, or its gradient that


class Columns(NamedTuple):
    """For each support cell, that the children sum to the parent.

    ``count`` is the parent's count (below 0: there is no parent), ``theta`` the multiplier, and ``open_`` which entries
    may be above 0. ``closed`` tells whether ``open_`` must be looked at: an answer of ``-FAR`` keeps an entry at 0
    wherever cells are measured. From child ``end[s]`` on all entries of cell s are closed, and never looked at: x stays
    0 there, u minus ``CLOSED``, and the gradient ``CLOSED``.
    """

    count: Any
    theta: Any
    open_: Any
    closed: Any
    end: Any


class Queries(NamedTuple):
    """A nest's queries, fine to coarse, each made from the cells (source -1) or from a finer one.

    Row r of query q stands at ``offset[q] + r``; ``into[q, i]`` is the row that cell or finer row i falls into.
    """

    source: Any
    into: Any
    local: Any  # the row of each cell
    rows: Any
    offset: Any
    weight: Any  # queries x children
    noisy: Any  # all rows x children
    soft: Any  # which queries the projection meets
    own: Any  # the detailed query's weight, by child
    noisy_own: Any  # cells x children
    direct: Any  # where each cell's rows stand, of the queries made from the cells: queries x cells
    pull: Any  # scratch like noisy: what each row pulls


class Rows(NamedTuple):
    """A nest's limited rows, in kinds (one for each limited query).

    Row r of owner o of kind k is number ``first[k] + r * owners[k] + o``; its cells are ``cells[k, ptr[k, r]]`` and on,
    its children ``children[k, child_ptr[k, o]]`` and on. From owner ``held[k, r]`` on nothing limits row r of kind k.
    A row with ``give`` is soft: not bounded, but a measured row whose weight 1/give is so large that it is better met
    in the projection than by steps of the gradient; ``least`` is its noisy answer.
    """

    first: Any
    rows: Any
    owners: Any
    held: Any
    into: Any
    owner: Any
    plain: Any  # whether each child is its own owner
    ptr: Any
    cells: Any
    child_ptr: Any
    children: Any
    least: Any
    most: Any
    give: Any
    nu: Any  # the multiplier: above 0 where the row leans on its upper bound, below 0 on its lower one
    desk: Any  # scratch


class Desk(NamedTuple):
    """Scratch of the projection, for one row of a kind at a time.

    By owner, ``total`` is the row's sum, and ``moving`` lists the owners that are off. By place in that list,
    ``wanted`` is what they should sum to, ``shift`` the change of nu, and ``fall`` how fast the sum last fell with it.
    By place of their children, ``child`` is the child, ``place`` that of its owner, ``move`` its part of the shift, and
    ``sum`` and ``slope`` its parts of the row's sum and fall. ``table`` has the entries: cells x places. By limited row
    of any kind, ``last`` is nu after the last turn, and ``ahead`` how far it is carried on.
    """

    total: Any
    moving: Any
    wanted: Any
    shift: Any
    fall: Any
    child: Any
    place: Any
    move: Any
    sum: Any
    slope: Any
    table: Any
    last: Any
    ahead: Any


class Metric(NamedTuple):
    """1/D: ``step[s] * pace[c]`` for cell s of child c; ``drag`` is 1/pace."""

    step: Any
    pace: Any
    drag: Any
