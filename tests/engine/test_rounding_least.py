"""No table changes less: rounding against all tables of floors and ceilings."""

from collections.abc import Sequence
from itertools import product
from types import FunctionType

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from random_nests import LIMITED, MODES, SCHEMA, Table, floors, keeps, limits_on, random_nest, round_one, sums

from tallyveil.engine.nests import Limits
from tallyveil.engine.rounding import flow
from tallyveil.engine.rounding.flow import PATIENCE, nearest_flow
from tallyveil.engine.rounding.residual import NO_FLOW, SCALE, Network
from tallyveil.engine.rounding.rounding import Unroundable, stages_of


def all_whole_tables(x: Table, cell: NDArray[np.int64], limits: Sequence[Limits], count: NDArray[np.int64] | None):
    """Every table of floors and ceilings that keeps the parent's counts and the limits."""
    low, high = floors(x)
    columns = []
    for s in range(x.shape[1]):
        choices = [np.array(c) for c in product(*[range(a, b + 1) for a, b in zip(low[:, s], high[:, s], strict=True)])]
        columns.append([c for c in choices if count is None or c.sum() == count[s]])
    tables = (np.array(chosen).T for chosen in product(*columns))
    return [table for table in tables if keeps(table, cell, limits)]


def assert_least_change(x, z, cell, candidates, stages) -> None:
    """At every stage no candidate with the same margins before is nearer; the answer is a candidate."""
    for stage in stages:
        rows = np.unique(stage[cell], return_inverse=True)[1].reshape(-1)
        wanted, mine = sums(x, rows), sums(z, rows)
        least = min(np.abs(sums(table, rows) - wanted).sum() for table in candidates)
        assert np.abs(mine - wanted).sum() == pytest.approx(least, abs=1e-6)
        candidates = [table for table in candidates if (sums(table, rows) == mine).all()]
    assert any((table == z).all() for table in candidates)


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("queries", LIMITED, ids=" and ".join)
def test_no_table_of_floors_and_ceilings_changes_less_stage_by_stage(queries, rounding):
    rng = np.random.default_rng(len(queries) + 7)
    programs = 0
    for _ in range(40):
        x, cell, limits = random_nest(rng, int(rng.integers(1, 4)), int(rng.integers(1, 6)), queries)
        z, rounded = round_one(x, cell, limits, rounding)
        programs += rounded.programs
        stages = stages_of(SCHEMA, [limit.row_of_cell for limit in limits], rounding)
        count = np.rint(x.sum(axis=0)).astype(int)
        assert_least_change(x, z, cell, all_whole_tables(x, cell, limits, count), stages)
    assert programs == 0


@pytest.mark.parametrize(
    ("queries", "rounding"), [(["total"], "margins"), (["total"], "cells"), (["a"], "cells"), (["a", "a * b"], "cells")]
)
def test_limits_that_siblings_share_hold_and_cost_the_least(queries, rounding):
    rng = np.random.default_rng(11)
    for _ in range(25):
        x, cell, limits = random_nest(rng, 3, int(rng.integers(2, 5)), queries, shared=True)
        z, rounded = round_one(x, cell, limits, rounding)
        assert rounded.programs == 0
        stages = stages_of(SCHEMA, [limit.row_of_cell for limit in limits], rounding)
        candidates = all_whole_tables(x, cell, limits, np.rint(x.sum(axis=0)).astype(int))
        assert_least_change(x, z, cell, candidates, stages)


@pytest.mark.parametrize("query", ["a", "detailed"])
def test_limits_that_siblings_share_below_a_margin_go_to_the_integer_program(query):
    rng = np.random.default_rng(12)
    programs = 0
    for _ in range(12):
        x, cell, limits = random_nest(rng, 3, 4, [query], shared=True)
        candidates = all_whole_tables(x, cell, limits, np.rint(x.sum(axis=0)).astype(int))
        z, rounded = round_one(x, cell, limits, "margins")
        programs += rounded.programs
        if candidates:
            assert_least_change(x, z, cell, candidates, stages_of(SCHEMA, [limits[0].row_of_cell], "margins"))
    assert programs > 8


def test_large_nests_with_such_limits_do_without_the_margins_above():
    rng = np.random.default_rng(13)
    x, cell, limits = random_nest(rng, 200, 11, ["a"], shared=True)
    z, rounded = round_one(x, cell, limits, "margins")
    assert (rounded.flows, rounded.programs) == (1, 0)
    assert keeps(z, cell, limits)
    assert (z.sum(axis=0) == np.rint(x.sum(axis=0))).all()
    rows = SCHEMA.query("a").row_of_cell[cell]
    assert np.abs(sums(z, rows) - sums(x, rows)).max() < 1  # the first margin that is left


@pytest.mark.parametrize("rounding", MODES)
def test_one_owner_of_all_siblings_binds_the_parent_only(rounding):
    rng = np.random.default_rng(14)
    x, cell, _ = random_nest(rng, 3, 4, [])
    query = SCHEMA.query("a")
    reached = np.rint(sums(x, query.row_of_cell[cell], np.zeros(3, dtype=int), 2)).astype(np.int64)
    free, _ = round_one(x, cell, [], rounding)
    for off in (0, 1):
        bound = Limits(
            name="a",
            row_of_cell=query.row_of_cell,
            least=reached + off,
            most=reached + off,
            owner=np.zeros(3, dtype=np.int64),
        )
        if off:
            with pytest.raises(Unroundable, match="nest 0: no whole table keeps"):
                round_one(x, cell, [bound], rounding)
        else:
            z, rounded = round_one(x, cell, [bound], rounding)
            assert (z == free).all()
            assert rounded.programs == 0


@pytest.mark.parametrize("rounding", MODES)
def test_limits_that_do_not_nest_go_to_the_integer_program_which_agrees_with_brute_force(rounding):
    rng = np.random.default_rng(15)
    solved = 0
    for _ in range(15):
        x, cell, limits = random_nest(rng, 3, 4, ["a", "b"])
        assert stages_of(SCHEMA, [limit.row_of_cell for limit in limits], rounding) is None
        z, rounded = round_one(x, cell, limits, rounding)
        assert (rounded.flows, rounded.programs) == (0, 1)
        assert keeps(z, cell, limits)
        candidates = all_whole_tables(x, cell, limits, np.rint(x.sum(axis=0)).astype(int))
        cells = np.arange(SCHEMA.cells)
        if candidates:
            solved += 1
            assert_least_change(x, z, cell, candidates, [cells * 0, cells] if rounding == "margins" else [cells])
    assert solved > 5


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("queries", [[], ["total"], ["a"], ["total", "a * b"], ["b"]], ids=" and ".join)
def test_the_root_without_a_parent_changes_least(queries, rounding):
    rng = np.random.default_rng(17)
    for _ in range(20):
        x, cell, limits = random_nest(rng, 1, 5, queries)
        x = x + rng.random(x.shape) - x % 1
        limits = [limits_on(one.name, *bounds_around(x, cell, one)) for one in limits]
        z, rounded = round_one(x, cell, limits, rounding, count=[-1] * 5)
        assert rounded.programs == 0
        stages = stages_of(SCHEMA, [limit.row_of_cell for limit in limits], rounding)
        assert_least_change(x, z, cell, all_whole_tables(x, cell, limits, None), stages)


def bounds_around(x, cell, limit):
    reached = sums(x, limit.row_of_cell[cell], width=limit.least.shape[1])
    return np.floor(reached), np.ceil(reached)


@numba.njit  # not kept on disk: a cached copy would not notice changes of the kernel it calls
def flow_in(network, patience):
    return nearest_flow(network, patience)


@pytest.mark.parametrize("patience", [0, PATIENCE], ids=["scaled costs", "unit by unit"])
def test_a_flow_reaches_the_least_cost_from_any_start(patience):
    rng = np.random.default_rng(19)
    nodes, arcs, possible = 4, 6, 0
    for _ in range(60):
        tail = rng.integers(nodes, size=arcs)
        head = (tail + rng.integers(1, nodes, size=arcs)) % nodes
        low = rng.integers(-1, 1, size=arcs)
        high = low + rng.integers(0, 3, size=arcs)
        wanted, counts = rng.integers(-2 * SCALE, 2 * SCALE, size=arcs), rng.random(arcs) < 0.8

        def out_of(flow, tail=tail, head=head):
            return np.bincount(tail, flow, nodes) - np.bincount(head, flow, nodes)

        def cost(flow, wanted=wanted, counts=counts):
            return int((np.abs(flow * SCALE - wanted) * counts).sum())

        supply = out_of(rng.integers(low, high + 1)) + (rng.random() < 0.2) * np.array([1, 0, 0, -1])
        every = map(np.array, product(*[range(a, b + 1) for a, b in zip(low, high, strict=True)]))
        best = min((cost(flow) for flow in every if (out_of(flow) == supply).all()), default=None)
        flow = rng.integers(low, high + 1)
        excess = (supply - out_of(flow)).astype(np.int64)
        potential, weight = rng.integers(-9, 9, nodes) * SCALE, np.where(counts, SCALE, 0)
        network = Network(tail, head, low, high, wanted, weight, flow, excess, potential, 0, 0, tail)  # no hubs
        found = flow_in(network, patience) != NO_FLOW
        assert found == (best is not None)
        if found:
            possible += 1
            assert (out_of(flow) == supply).all()
            assert ((low <= flow) & (flow <= high)).all()
            assert cost(flow) == best
    assert 30 < possible < 60


def children_with_exact_totals(n, m, by_exchanges=False):
    """Fractions of many children in a few columns, the nearest whole numbers, and what these miss of the sums."""
    rng = np.random.default_rng(n)
    rest = rng.integers(SCALE, size=(n, m))
    column, child = np.tile(np.arange(m), n), m + np.repeat(np.arange(n), m)
    up, kept = (rest > SCALE // 2).astype(np.int64), rng.integers(2, size=(n, m))  # the sums are those of some table
    missing = np.concatenate([kept.sum(axis=0) - up.sum(axis=0), up.sum(axis=1) - kept.sum(axis=1)])
    none, ones = np.zeros(n * m, np.int64), np.ones(n * m, np.int64)
    wanted, flow = rest.reshape(-1), up.reshape(-1)
    hubs, branch = (m, np.maximum(np.arange(n + m) - m, 0)) if by_exchanges else (0, np.zeros(n + m, np.int64))
    prices = np.zeros(n + m, np.int64)
    return Network(column, child, none, ones, wanted, ones * SCALE, flow, missing, prices, hubs, n, branch)


@pytest.mark.parametrize("by_exchanges", [False, True], ids=["scaled costs", "exchanges"])
def test_the_work_is_almost_linear_in_the_children(by_exchanges):
    """Which bug: a search for every unit, each past all children, is quadratic. Work is counted in ways looked at."""
    children = [1000, 2000, 4000, 8000, 16000]
    looked = [flow_in(children_with_exact_totals(n, 6, by_exchanges), PATIENCE) for n in children]
    exponent = np.polyfit(np.log(children), np.log(looked), 1)[0]
    assert 0.9 < exponent < 1.1


def random_branches(rng: np.random.Generator) -> Network:
    """Many children with few columns: entries into margins, margins into totals, totals into the ground or held.

    Costs are often equal, nodes are bounded, and the sums wanted are those of some flow, or off by one somewhere.
    """
    m, n, held = int(rng.integers(1, 4)), 40, rng.random() < 0.5
    ground, rows = m, int(rng.integers(1, m + 1))
    margin = m + 1 + np.arange(n * rows).reshape(n, rows)
    total = m + 1 + n * rows + np.arange(n)
    row = rng.integers(rows, size=m)
    arcs = [(s, margin[c, row[s]], 0, 1) for c in range(n) for s in range(m) if rng.random() < 0.9]
    arcs += [(margin[c, r], total[c], *rng.choice([[0, 3], [0, 1], [1, 2]])) for c in range(n) for r in range(rows)]
    arcs += [] if held else [(total[c], ground, *rng.choice([[0, 9], [0, 2], [1, 3]])) for c in range(n)]
    tail, head, low, high = np.array(arcs, np.int64).T.copy()
    nodes = m + 1 + n * rows + n

    def out_of(flow):
        return np.bincount(tail, flow, nodes) - np.bincount(head, flow, nodes)

    kept, flow = rng.integers(low, high + 1), rng.integers(low, high + 1)
    supply = out_of(kept)
    if rng.random() < 0.1:
        supply[rng.choice(nodes, 2, replace=False)] += [1, -1]
    steps = int(rng.choice([2, 4, SCALE]))
    wanted = rng.integers(-steps, 3 * steps, size=len(tail)) * (SCALE // steps)
    weight = SCALE * (rng.random(len(tail)) < 0.7)
    branch = np.concatenate([np.zeros(m + 1, np.int64), np.repeat(np.arange(n), rows), np.arange(n)])
    excess = (supply - out_of(flow)).astype(np.int64)
    prices = np.zeros(nodes, np.int64)
    return Network(tail, head, low, high, wanted, weight, flow, excess, prices, m + 1, n, branch)


def test_exchanges_cost_as_little_as_searches_unit_by_unit():
    """Which bug: a path that passes a node twice where costs are equal, or a unit that starts inside a child."""
    rng = np.random.default_rng(20)
    possible = 0
    for _ in range(200):
        mine = random_branches(rng)
        other = mine._replace(**{name: getattr(mine, name).copy() for name in ("flow", "excess", "potential")})
        balance = mine.excess - np.bincount(mine.head, mine.flow, len(mine.excess))
        balance = balance + np.bincount(mine.tail, mine.flow, len(mine.excess))
        found = [flow_in(mine, 0) != NO_FLOW, flow_in(other, 10**9) != NO_FLOW]
        assert found[0] == found[1]
        if found[0]:
            possible += 1
            assert (np.abs(mine.excess) == 0).all()
            out = np.bincount(mine.tail, mine.flow, len(balance)) - np.bincount(mine.head, mine.flow, len(balance))
            assert (out == balance).all()
            assert ((mine.low <= mine.flow) & (mine.flow <= mine.high)).all()
            cost = [int(np.abs(one.flow * one.weight - one.wanted).sum()) for one in (mine, other)]
            assert cost[0] == cost[1]
    assert 100 < possible < 200


def test_ways_that_were_left_out_come_back_where_they_are_needed():
    """Which bug: a flow that is called impossible, or is not the cheapest, because a way is not listed."""
    tight = FunctionType(nearest_flow.py_func.__code__, {**vars(flow), "FAR": 0})  # a copy: the kernel stays as it is
    flow_from_tight_ways = numba.njit(tight)
    mine, other = children_with_exact_totals(300, 6), children_with_exact_totals(300, 6)
    assert flow_from_tight_ways(mine, 0) > 0
    assert flow_in(other, 10**9) > 0  # unit by unit
    cost = [int(np.abs(one.flow * one.weight - one.wanted).sum()) for one in (mine, other)]
    assert cost[0] == cost[1]
