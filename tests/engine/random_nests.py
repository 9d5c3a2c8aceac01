"""Random nests for tests of rounding, and what a rounded table must keep."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tallyveil.engine.nests import UNLIMITED, Limits, Nests
from tallyveil.engine.rounding.rounding import Rounded, round_nests
from tallyveil.engine.ties import lots_of
from tallyveil.nouns.schema import Schema

SCHEMA = Schema(attributes={"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y", "z"]})
MODES = ("margins", "cells")
Table = NDArray[np.float64]
LIMITED = [
    [],
    ["total"],
    ["a"],
    ["b"],
    ["b * c"],
    ["total", "a"],
    ["total", "b"],
    ["a", "a * b"],
    ["detailed"],
    ["total", "detailed"],
]


def nests_of(tables: Sequence[Table], cells: Sequence[Sequence[int]], counts: Sequence[Sequence[int]] | None = None):
    """Tables one after another, and their nests; the parents' counts are the sums unless given."""
    if counts is None:
        counts = [np.rint(table.sum(axis=0)).astype(int).tolist() for table in tables]
    children = np.cumsum([0, *(len(table) for table in tables)])
    nests = Nests(
        child_start=children,
        child=np.arange(children[-1]),
        cell_start=np.cumsum([0, *map(len, cells)]),
        cell=np.concatenate([np.asarray(c, dtype=np.int64) for c in cells]),
        count=np.concatenate([np.asarray(c, dtype=np.int64) for c in counts]),
        block_start=np.cumsum([0, *(table.size for table in tables)]),
    )
    return np.concatenate([table.reshape(-1) for table in tables]), nests


def sums(table: Table, rows: NDArray[np.int64], owner: NDArray[np.int64] | None = None, width: int = 0) -> Table:
    """A table added up over owners and rows."""
    owner = np.arange(len(table)) if owner is None else owner
    out = np.zeros((owner.max() + 1, max(width, rows.max() + 1)), dtype=table.dtype)
    np.add.at(out, (owner[:, None], rows[None, :]), table)
    return out


def random_tables(rng: np.random.Generator, n: int, m: int, *, keep_totals: bool, number: int = 3) -> list[Table]:
    """Whole tables with the same columns' sums, and the same rows' sums if asked."""
    first = rng.integers(0, 3, (n, m))
    tables = [first]
    for _ in range(number - 1):
        table = first.copy()
        for _ in range(2 * n * m):
            (a, b), s = rng.integers(n, size=2), rng.integers(m)
            t = rng.integers(m) if keep_totals else s
            if table[a, s] and (table[b, t] or not keep_totals):
                table[a, s] -= 1
                table[b, s] += 1
                if keep_totals:
                    table[b, t] -= 1
                    table[a, t] += 1
        tables.append(table)
    return tables


def random_nest(rng: np.random.Generator, n: int, m: int, queries: Sequence[str], *, shared: bool = False):
    """A real table that keeps random limits on the queries: a mixture of whole tables that do."""
    tables = random_tables(rng, n, m, keep_totals="total" in queries)
    weights = rng.dirichlet(np.ones(len(tables)))
    x = sum(weight * table for weight, table in zip(weights, tables, strict=True))
    cell = np.sort(rng.choice(SCHEMA.cells, m, replace=False))
    limits = []
    for text in queries:
        query = SCHEMA.query(text)
        owner = np.minimum(np.arange(n), 1) if shared else np.arange(n)
        all_sums = np.array([sums(table, query.row_of_cell[cell], owner, query.size) for table in tables])
        least, most = all_sums.min(axis=0), all_sums.max(axis=0)
        if rng.random() < 0.3:
            most = np.where(least == most, most, UNLIMITED)
        limits.append(
            Limits(name=text, row_of_cell=query.row_of_cell, least=least, most=most.astype(np.int64), owner=owner)
        )
    return x, cell, limits


def limits_on(text: str, least, most, owner=None) -> Limits:
    """Limits on a query; every child is its own owner unless owners are given."""
    query = SCHEMA.query(text)
    least = np.array(least, dtype=np.int64)
    return Limits(
        name=text,
        row_of_cell=query.row_of_cell,
        least=least,
        most=np.array(most, dtype=np.int64),
        owner=np.arange(len(least)) if owner is None else owner,
    )


def round_one(x: Table, cell, limits, rounding: str, count=None) -> tuple[NDArray[np.int64], Rounded]:
    flat, nests = nests_of([x], [cell], None if count is None else [count])
    rounded = round_nests(flat, nests, limits, SCHEMA, rounding, lots_of(None, "children", nests.child))
    return rounded.counts.reshape(x.shape), rounded


def keeps(z: NDArray[np.int64], cell: NDArray[np.int64], limits: Sequence[Limits]) -> bool:
    return all(
        ((s := sums(z, limit.row_of_cell[cell], limit.owner, limit.least.shape[1])) >= limit.least).all()
        and (s <= limit.most).all()
        for limit in limits
    )


def floors(x: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    near = np.rint(x)
    whole = np.abs(x - near) <= 1e-6
    return np.where(whole, near, np.floor(x)).astype(np.int64), np.where(whole, near, np.ceil(x)).astype(np.int64)
