"""Round real tables to whole numbers: the least total change that keeps the parents' counts and the limits exactly.

Every entry goes to its floor or its ceiling. In mode "cells" the total change of the cells is minimised. In mode
"margins" the change of the children's totals is minimised first; then, with these fixed, that of the first attribute's
margin, and so on down to the cells. Which fractions of a column are rounded up is a flow of units from columns (cells
of the parent) through each child's margins, finest to coarsest. These sets nest, so the best flow is whole [1]_. Where
only the parent's counts bind, rounding up the largest fractions of every cell is optimal.

Limits that do not nest need an integer program, and so do limits that siblings share on rows finer than a margin to be
rounded; large nests leave such margins to the later stages. If the solver fails on these programs, a program rounds the
cells alone, and if that fails too, a last one looks for any table that keeps everything. These count as programs too.

Among tables that are equally near, lots decide (``ties``): children and cells take part in the order of their lots.

References
----------
.. [1] Cox & Ernst, Controlled Rounding, INFOR 20 (1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.engine.nests import Limits, Nests
from tallyveil.engine.rounding.by_flow import FLOWED, STUCK, Layout, round_by_flow
from tallyveil.engine.rounding.programs import any_table, round_by_program
from tallyveil.engine.rounding.rules import rules_of
from tallyveil.engine.rounding.stages import nested, stages_of
from tallyveil.engine.ties import Lots, in_turn, redrawn
from tallyveil.errors import InputError
from tallyveil.nouns.schema import Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounded:
    """Whole counts, laid out like the tables they came from, and how many nests needed a flow or a program."""

    counts: Integers
    flows: int
    programs: int


class Unroundable(InputError):  # noqa: N818 (it says what the nest is)
    """No whole table of this nest keeps the parent's counts and the limits; ``nest`` counts from 0."""

    def __init__(self, nest: int) -> None:
        super().__init__(
            f"nest {nest}: no whole table keeps the parent's counts and all limits. Loosen a limit of its children."
        )
        self.nest = nest


def round_nests(x: Floats, nests: Nests, limits: Sequence[Limits], schema: Schema, mode: str, lots: Lots) -> Rounded:
    """Round the tables of several nests. ``mode`` is "margins" or "cells"; ``lots`` are those of the children."""
    child, row = in_turn(lots, nests.child_start)
    lot_of_nest = lots[child[nests.child_start[:-1]]]
    cell, column = in_turn(redrawn(np.repeat(lot_of_nest, np.diff(nests.cell_start)), nests.cell), nests.cell_start)
    nests = replace(nests, child=nests.child[child], cell=nests.cell[cell], count=nests.count[cell])
    limits = [replace(limit, owner=limit.owner[child]) for limit in limits]
    queries = [limit.row_of_cell for limit in limits]
    stages = stages_of(schema, queries, mode)
    counts = np.empty(len(x), dtype=np.int64)
    outcome = np.full(len(nests), STUCK, dtype=np.int64)
    if stages is not None:
        partitions = nested(queries) if len(stages) == 1 else list(stages[:-1])
        order, bounds = rules_of(limits, partitions, len(stages) > 1, schema)
        arrays = (nests.child_start, nests.cell_start, nests.cell, nests.count, nests.block_start, row, column)
        layout = Layout(*(np.require(array, np.int64, ["C", "W"]) for array in arrays))  # one type: compiled once
        round_by_flow(np.require(x, np.float64, ["C", "W"]), layout, order, bounds, counts, outcome)
    else:
        cells = np.arange(schema.cells, dtype=np.int32)
        stages = (np.zeros_like(cells), cells) if mode == "margins" else (cells,)
    stuck = np.flatnonzero((outcome == STUCK) & (np.diff(nests.block_start) > 0))  # no possible cell: nothing to round
    for p in map(int, stuck):
        rows, columns = (slice(*start[p : p + 2]) for start in (nests.child_start, nests.cell_start))
        turn = np.ix_(row[rows], column[columns])
        table = round_by_program(nests.table(x, p)[turn], p, nests, limits, stages)
        if table is None:  # the solver failed at some stage: round the cells alone
            table = round_by_program(nests.table(x, p)[turn], p, nests, limits, stages[-1:])
        if table is None:
            table = any_table(p, nests, limits)
        if table is None:
            raise Unroundable(p)
        nests.table(counts, p)[turn] = table
    return Rounded(counts=counts, flows=int((outcome == FLOWED).sum()), programs=len(stuck))
