"""What holds for all nests of a batch, as arrays for the kernels: the layers to round in, and the limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.engine.nests import Limits
from tallyveil.engine.rounding.stages import Partition, numbered
from tallyveil.nouns.schema import Schema

EACH_CHILD = -1  # instead of a limit: a layer in which every child stands for itself


class Order(NamedTuple):
    """The layers from coarse to fine. A layer is a partition of the cells, for every child or for a limit's owners."""

    margins: bool  # round margins first
    row_of_cell: Integers  # partitions (coarse to fine, without the cells themselves) x cells of the schema
    partition: Integers  # of each layer
    limit: Integers  # of each layer: whose owners its groups of children are, or EACH_CHILD


class Bounds(NamedTuple):
    """The limits. The bounds of limit ``i`` are a table of owners x ``width[i]`` rows that begins at ``begin[i]``."""

    partition: Integers  # of each limit; as many as there are partitions: the cells
    row_of_cell: Integers  # limits x cells of the schema
    owner: Integers  # limits x children
    width: Integers
    begin: Integers
    least: Integers
    most: Integers


def rules_of(
    limits: Sequence[Limits], partitions: list[Partition] | None, margins: bool, schema: Schema
) -> tuple[Order, Bounds]:
    """The layers and bounds of limits and partitions (coarse to fine)."""
    rows = [rows for rows in partitions or () if rows.max() + 1 < schema.cells]
    place = [
        next((k for k, r in enumerate(rows) if r.max() == numbered(q.row_of_cell).max()), len(rows)) for q in limits
    ]
    fewest_first = sorted(range(len(limits)), key=lambda i: len(limits[i].least))
    layers = [(k, i) for k in range(len(rows)) for i in [*(i for i in fewest_first if place[i] == k), EACH_CHILD]]
    order = Order(
        margins=margins,
        row_of_cell=_stacked(rows, schema.cells),
        partition=np.array([k for k, _ in layers], dtype=np.int64),
        limit=np.array([i for _, i in layers], dtype=np.int64),
    )
    bounds = Bounds(
        partition=np.array(place, dtype=np.int64),
        row_of_cell=_stacked([limit.row_of_cell for limit in limits], schema.cells),
        owner=_stacked([limit.owner for limit in limits], len(limits[0].owner) if limits else 0),
        width=np.array([limit.least.shape[1] for limit in limits], dtype=np.int64),
        begin=np.cumsum([0, *(limit.least.size for limit in limits)])[:-1].astype(np.int64),
        least=_joined([limit.least for limit in limits]),
        most=_joined([limit.most for limit in limits]),
    )
    return order, bounds


def _stacked(parts: Sequence[NDArray[Any]], length: int) -> Integers:
    return np.array(parts, dtype=np.int64).reshape(len(parts), length)


def _joined(parts: Sequence[NDArray[Any]]) -> Integers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(part.reshape(-1).astype(np.int64) for part in parts)])
