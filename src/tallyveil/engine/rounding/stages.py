"""The stages of rounding: partitions of the cells, coarse to fine, whose change is minimised one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.nouns.schema import Schema

Partition = NDArray[np.int32]


def stages_of(schema: Schema, limits_queries: Sequence[Partition], rounding: str) -> tuple[Partition, ...] | None:
    """The partitions of the cells whose change is minimised, one after another; None where limits do not nest.

    In mode "margins" these are the total, the prefixes of the order of attributes, and the cells. Limits on other rows
    are put among these where they nest; otherwise they follow the total, and are followed by the prefixes within their
    rows.

    >>> schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    >>> [stage.tolist() for stage in stages_of(schema, [], "margins")]
    [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]]
    >>> [stage.tolist() for stage in stages_of(schema, [schema.query("sex").row_of_cell], "margins")]
    [[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 2, 3]]
    """
    if rounding not in ("margins", "cells"):
        raise InputError(f'rounding {rounding!r} is unknown. Use "margins" or "cells".')
    limited = nested(limits_queries)
    if limited is None:
        return None
    cells = np.arange(schema.cells, dtype=np.int32)
    if rounding == "cells":
        return (cells,)
    names = list(schema.attributes)
    prefixes = [schema.query(" * ".join(names[:i]) or "total").row_of_cell for i in range(len(names))]
    chain = nested([*prefixes, *limited, cells])
    if chain is None:
        finest = limited[-1].astype(np.int64)
        within = [numbered(finest * schema.cells + prefix) for prefix in prefixes]
        chain = nested([prefixes[0], *limited, *within, cells])
    assert chain is not None
    return tuple(chain)


def nested(partitions: Sequence[Partition]) -> list[Partition] | None:
    """The partitions from coarse to fine without repeats, or None where one does not refine another."""
    chain: list[Partition] = []
    for partition in sorted(map(numbered, partitions), key=lambda rows: int(rows.max())):
        if chain:
            together = numbered(chain[-1].astype(np.int64) * len(partition) + partition)
            if together.max() > partition.max():
                return None
            if partition.max() == chain[-1].max():
                continue
        chain.append(partition)
    return chain


def numbered(rows: NDArray[Any]) -> Partition:
    """The same partition with rows numbered in the order in which they first occur."""
    _, first, row = np.unique(rows, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[row.reshape(-1)].astype(np.int32)
