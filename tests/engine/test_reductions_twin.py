"""Merged queries, limited rows and support rows against their twins in dense numpy, on random nests."""

from collections import Counter

import numpy as np
import pytest
from estimate_parts import ends_of, measured, ordered, queries_of, reduced, rows_of
from estimate_twins import (
    dense_queries,
    dense_rows,
    draw_case,
    matrix,
    merged,
    objective,
    outweighing,
    sources,
    support,
)

from tallyveil.engine.estimate.supports import add_rows, places, support_rows

KINDS = {
    "children": {},
    "root": {"root": True, "zeros": False},
    "cells not measured": {"measured": False},
    "one query outweighs the others": {"heavy": True, "zeros": False},
}


def cases(kind, number, seed=5):
    """Random nests of a kind: the case, the number of the nest, and what the kernels make of it."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        case = draw_case(rng, **KINDS[kind])
        p = int(rng.integers(len(case.nests)))
        yield rng, case, p, *reduced(case, p)


@pytest.mark.parametrize("kind", KINDS)
def test_merged_queries_and_a_constant_are_the_whole_objective(kind):
    """Which bug: a wrong mean, weight or constant, or answers of another row, child or nest."""
    for rng, case, p, queries, constant, _, _ in cases(kind, 60):
        for _ in range(3):
            x = rng.normal(2.0, 5.0, queries.noisy_own.shape)
            whole = objective(dense_queries(case, p), x)
            assert objective(queries_of(queries), x) + constant == pytest.approx(whole, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_with_the_same_rows_are_merged_and_only_those(kind):
    """Which bug: queries of as many but other rows merged, coinciding ones kept, or a wrong finer query."""
    seen = Counter()
    for _, case, p, queries, _, _, _ in cases(kind, 60):
        asked = dense_queries(case, p)
        left, made_from = merged(asked, sources(case))
        found = queries_of(queries)
        assert len(found) == len(left)
        for mine, twin in zip(found, left, strict=True):
            for part, wanted in zip(mine, twin, strict=True):
                np.testing.assert_allclose(part, wanted, rtol=1e-12, atol=1e-12)
        assert (queries.source + 1).tolist() == made_from[1:]
        for q, (adds, _, _) in enumerate(left[1:]):
            finer = left[made_from[q + 1]][0]
            np.testing.assert_array_equal(matrix(queries.into[q, : len(finer)]) @ finer, adds)
        direct = [queries.offset[q] + queries.local[q] for q in range(len(left) - 1) if made_from[q + 1] == 0]
        np.testing.assert_array_equal(queries.direct, np.reshape(direct, queries.direct.shape))
        assert queries.soft.tolist() == outweighing(left)[1:].tolist()
        seen["merged"] += len(asked) - len(left)
        seen["made from a finer one"] += sum(t > 0 for t in made_from)
        seen["soft"] += queries.soft.sum()
    assert seen["made from a finer one"] > 20
    assert seen["merged"] > 20 or kind == "root"
    assert (seen["soft"] > 20) == (kind == "one query outweighs the others")


@pytest.mark.parametrize("kind", KINDS)
def test_limited_rows_are_those_of_the_limits(kind):
    """Which bug: bounds of another owner, row or nest; a bound dropped that binds; an entry open that must be 0."""
    seen = Counter()
    for _, case, p, _, _, rows, open_ in cases(kind, 100):
        left, _ = merged(dense_queries(case, p), sources(case))
        wanted, wanted_open = dense_rows(case, p, left, outweighing(left))
        np.testing.assert_array_equal(open_, wanted_open)
        found = rows_of(rows)
        for mine, twin in zip(found.ordered(), wanted.ordered(), strict=True):
            assert mine[:2] == twin[:2]
            np.testing.assert_allclose(mine[2:], twin[2:], rtol=1e-12)
        hard = found.give == 0
        seen["closed"] += (~open_).sum()
        seen["upper bounds"] += (found.most[hard] < np.inf).sum()
        seen["dropped"] += (found.most[hard] == np.inf).sum()
        seen["shared"] += (found.inside.any(axis=1).sum(axis=1) > 1).sum()
        seen["soft"] += (~hard).sum()
    assert min(seen["closed"], seen["upper bounds"], seen["dropped"]) > 20
    assert (seen["shared"] > 50) == (kind != "root")
    assert (seen["soft"] > 50) == (kind == "one query outweighs the others")


def test_children_whose_entries_are_closed_come_last():
    """Which bug: a child lost or there twice, an order by rows of another nest, or an open entry left out."""
    seen = Counter()
    for _, case, p, _, _, _, open_ in cases("children", 300):
        children = ordered(case, p)
        np.testing.assert_array_equal(children, support(case, p)[0])
        end = ends_of(open_)
        np.testing.assert_array_equal(end, [np.flatnonzero(one).max(initial=-1) + 1 for one in open_])
        seen["moved"] += (np.diff(children) < 0).any()
        seen["left out"] += (end < len(children)).sum()
    assert min(seen["moved"], seen["left out"]) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_cells_that_nobody_measured_begin_with_shares_of_the_parent(kind):
    seen = set()
    for _, case, p, queries, _, _, _ in cases(kind, 40):
        first, last = case.nests.cell_start[p : p + 2]
        count, before = case.nests.count[first:last].astype(float), queries.noisy_own.copy()
        assert measured(queries, count) == (queries.own > 0).all()
        shares = np.tile(np.maximum(0, count)[:, None] / len(queries.own), len(queries.own))
        np.testing.assert_array_equal(queries.noisy_own, before if queries.own.any() else shares)
        seen.add(bool(queries.own.any()))
    assert True in seen or kind == "cells not measured"


def drawn_supports(rng, size):
    """Nests' first cells and cells of 300, and the row of each cell; a nest may have no cells, few, or very many."""
    supports = [np.sort(rng.choice(300, rng.choice([0, 3, 40, 250]), replace=False)) for _ in range(rng.integers(1, 6))]
    start = np.append(0, np.cumsum([len(one) for one in supports]))
    return supports, start, np.concatenate(supports).astype(np.int64), rng.integers(size, size=300).astype(np.int32)


def test_support_rows_are_the_distinct_rows_of_each_support():
    """Which bug: rows of the nest before, or not rising where there are more than 48."""
    rng, longest = np.random.default_rng(0), 0
    for size in [1, 2, 30, 200] * 10:
        supports, cell_start, cell, row_of_cell = drawn_supports(rng, size)
        start, rows = support_rows(cell_start, cell, row_of_cell, size)
        for p, one in enumerate(supports):
            np.testing.assert_array_equal(rows[start[p] : start[p + 1]], np.unique(row_of_cell[one]))
            longest = max(longest, start[p + 1] - start[p])
        assert start[0] == 0
        assert start[-1] == len(rows)
    assert longest > 48


def test_places_are_those_of_every_child_and_row():
    rng = np.random.default_rng(1)
    for _ in range(30):
        _, cell_start, cell, row_of_cell = drawn_supports(rng, 20)
        start, rows = support_rows(cell_start, cell, row_of_cell, 20)
        child_start = np.append(0, np.cumsum(rng.integers(1, 5, len(start) - 1)))
        child = rng.permutation(child_start[-1])
        blocks = [
            child[child_start[p] : child_start[p + 1], None] * 20 + rows[start[p] : start[p + 1]]
            for p in range(len(start) - 1)
        ]
        wanted = np.concatenate([block.reshape(-1) for block in blocks])
        np.testing.assert_array_equal(places(child_start, child, start, rows, 20), wanted)


def test_rows_are_added_to_what_is_there():
    rng = np.random.default_rng(2)
    for _ in range(30):
        supports, cell_start, cell, row_of_cell = drawn_supports(rng, 20)
        sizes = rng.integers(1, 5, len(supports))
        tables = [rng.normal(size=(n, len(one))) for n, one in zip(sizes, supports, strict=True)]
        before = rng.normal(size=(sizes.sum(), 20))
        found = before.copy()
        x = np.concatenate([table.reshape(-1) for table in tables])
        blocks = np.append(0, np.cumsum([table.size for table in tables]))
        add_rows(np.append(0, np.cumsum(sizes)), cell_start, cell, blocks, x, row_of_cell, found)
        added = [table @ np.eye(20)[row_of_cell[one]] for table, one in zip(tables, supports, strict=True)]
        np.testing.assert_allclose(found, before + np.vstack(added), atol=1e-12)
