"""Rounding against brute force, a general integer solver, and what must always hold."""

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from tallyveil._compiled import compiled
from tallyveil.engine.nests import UNLIMITED, Limits, Nests
from tallyveil.engine.rounding import rounding as rounding_module
from tallyveil.engine.rounding.flow import SCALE, Network, nearest_flow
from tallyveil.engine.rounding.rounding import Rounded, Unroundable, round_nests, stages_of
from tallyveil.errors import InputError
from tallyveil.nouns.schema import Grouping, Schema

SCHEMA = Schema(attributes={"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y", "z"]})
MODES = ("margins", "cells")
Table = NDArray[np.float64]


# ---- building nests ----


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


# ---- checking the answer ----


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


def round_one(x: Table, cell, limits, rounding: str, count=None) -> tuple[NDArray[np.int64], Rounded]:
    flat, nests = nests_of([x], [cell], None if count is None else [count])
    rounded = round_nests(flat, nests, limits, SCHEMA, rounding)
    return rounded.counts.reshape(x.shape), rounded


# ---- brute force ----

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


# ---- no floors and ceilings, or nothing at all ----


@pytest.mark.parametrize("rounding", MODES)
def test_where_floors_and_ceilings_cannot_do_any_whole_numbers_may(rounding):
    # the first child must have 3 people, but its two cells hold 1 each: one of them goes to 2
    x = np.array([[1.0, 1.0], [1.0, 1.0]])
    limit = limits_on("total", [[3], [1]], [[3], [1]])
    z, rounded = round_one(x, [0, 1], [limit], rounding)
    assert rounded.programs == 1
    assert z.sum(axis=0).tolist() == [2, 2]
    assert z.sum(axis=1).tolist() == [3, 1]
    assert np.abs(z - x).sum() == 2


@pytest.mark.parametrize("rounding", MODES)
def test_a_nest_that_no_whole_table_fits_is_named(rounding):
    x = np.full((2, 2), 0.5)
    flat, nests = nests_of([x, x], [[0, 1], [0, 1]])
    limit = limits_on("total", [[0], [0], [2], [2]], [[9]] * 4)
    impossible = Limits(
        name="total", row_of_cell=limit.row_of_cell, least=limit.least, most=limit.most, owner=np.arange(4)
    )
    with pytest.raises(Unroundable, match="nest 1: no whole table keeps the parent's counts and all limits") as caught:
        round_nests(flat, nests, [impossible], SCHEMA, rounding)
    assert caught.value.nest == 1
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("failing", [1, 2])
def test_where_the_solver_loses_its_way_any_table_that_keeps_everything_will_do(rounding, failing, monkeypatch):
    """The first so many programs find nothing: the cells alone are tried, then any table."""
    real, calls = rounding_module.round_by_program, []

    def lost(*arguments):
        calls.append(arguments[-1])
        return None if len(calls) <= failing else real(*arguments)

    monkeypatch.setattr(rounding_module, "round_by_program", lost)
    x = np.array([[1.0, 1.0], [1.0, 1.0]])
    z, rounded = round_one(x, [0, 1], [limits_on("total", [[3], [1]], [[3], [1]])], rounding)
    assert len(calls) == 2
    assert len(calls[1]) == 1  # one stage: the cells
    assert rounded.programs == 1
    assert z.min() >= 0
    assert z.sum(axis=0).tolist() == [2, 2]
    assert z.sum(axis=1).tolist() == [3, 1]


def limits_on(text: str, least, most) -> Limits:
    query = SCHEMA.query(text)
    least = np.array(least, dtype=np.int64)
    return Limits(
        name=text,
        row_of_cell=query.row_of_cell,
        least=least,
        most=np.array(most, dtype=np.int64),
        owner=np.arange(len(least)),
    )


def test_a_limit_on_a_row_without_support_is_not_overlooked():
    x = np.array([[0.5, 0.5], [0.5, 0.5]])
    in_a_y = limits_on("a", [[0, 1], [0, 0]], [[9, 9], [9, 9]])
    with pytest.raises(Unroundable, match="nest 0"):
        round_one(x, [0, 1], [in_a_y], "margins")


# ---- a general solver, at medium size ----


def best_by_solver(x, cell, limits, stages, z) -> None:
    """At every stage the general solver, held to the same margins before, finds nothing nearer."""
    n, m = x.shape
    low, high = floors(x)
    index = np.arange(n * m).reshape(n, m)

    def adding(owner, rows):
        where = owner[:, None] * (rows.max() + 1) + rows[None, :]
        matrix = np.zeros((where.max() + 1, n * m))
        matrix[where.reshape(-1), index.reshape(-1)] = 1
        return matrix

    count = np.rint(x.sum(axis=0))
    held = [(adding(np.zeros(n, dtype=int), np.arange(m)), count, count)]
    for limit in limits:
        rows = np.unique(limit.row_of_cell[cell], return_inverse=True)[1]
        kept = np.unique(limit.row_of_cell[cell])
        most = np.where(limit.most == UNLIMITED, np.inf, limit.most)
        held.append((adding(limit.owner, rows), limit.least[:, kept].reshape(-1), most[:, kept].reshape(-1)))
    for stage in stages:
        matrix = adding(np.arange(n), np.unique(stage[cell], return_inverse=True)[1])
        wanted, size = matrix @ x.reshape(-1), len(matrix)
        constraints = [
            LinearConstraint(np.hstack([a, np.zeros((len(a), size))]), least, most) for a, least, most in held
        ]
        constraints.append(LinearConstraint(np.hstack([matrix, np.eye(size)]), wanted, np.inf))
        constraints.append(LinearConstraint(np.hstack([matrix, -np.eye(size)]), -np.inf, wanted))
        answer = milp(
            np.concatenate([np.zeros(n * m), np.ones(size)]),
            integrality=np.concatenate([np.ones(n * m), np.zeros(size)]),
            bounds=Bounds(
                np.concatenate([low.reshape(-1), np.zeros(size)]), np.concatenate([high.reshape(-1), np.full(size, 99)])
            ),
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        mine = matrix @ z.reshape(-1)
        assert np.abs(mine - wanted).sum() == pytest.approx(answer.fun, abs=1e-5)
        held.append((matrix, mine, mine))


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("queries", [[], ["total"], ["total", "a"], ["b"]], ids=" and ".join)
def test_a_general_solver_finds_nothing_nearer_at_medium_size(queries, rounding):
    rng = np.random.default_rng(16)
    for _ in range(2):
        x, cell, limits = random_nest(rng, 8, 12, queries)
        z, rounded = round_one(x, cell, limits, rounding)
        assert rounded.programs == 0
        assert keeps(z, cell, limits)
        best_by_solver(x, cell, limits, stages_of(SCHEMA, [q.row_of_cell for q in limits], rounding), z)


@compiled
def flow_in(network):
    return nearest_flow(network)


def test_a_flow_reaches_the_least_cost_from_any_start():
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
        found = flow_in(Network(tail, head, low, high, wanted, weight, flow, excess, potential))
        assert found == (best is not None)
        if found:
            possible += 1
            assert (out_of(flow) == supply).all()
            assert ((low <= flow) & (flow <= high)).all()
            assert cost(flow) == best
    assert 30 < possible < 60


# ---- what always holds ----


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    queries = draw(st.sampled_from(LIMITED))
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, SCHEMA.cells))
    return (*random_nest(rng, n, m, queries), draw(st.sampled_from(MODES)))


@given(cases())
def test_tables_are_whole_and_keep_parents_limits_floors_and_ceilings(case):
    x, cell, limits, rounding = case
    count = np.rint(x.sum(axis=0)).astype(int)
    x = x + np.where((x == np.rint(x)) & (x > 0), np.where(np.arange(len(x)) % 2, 4e-7, -4e-7)[:, None], 0)  # dust
    z, rounded = round_one(x, cell, limits, rounding, count)
    low, high = floors(x)
    assert z.dtype == np.int64
    assert rounded.programs == 0
    assert ((low <= z) & (z <= high)).all()
    assert (z.sum(axis=0) == count).all()
    assert keeps(z, cell, limits)
    again, _ = round_one(z.astype(float), cell, limits, rounding)
    assert (again == z).all()


@given(st.integers(0, 2**32), st.sampled_from(MODES))
def test_the_order_of_nests_in_a_batch_changes_nothing(seed, rounding):
    rng = np.random.default_rng(seed)
    parts = [random_nest(rng, int(rng.integers(1, 5)), int(rng.integers(1, 8)), ["total"]) for _ in range(4)]

    def batch(order):
        x, nests = nests_of([parts[i][0] for i in order], [parts[i][1] for i in order])
        least = np.concatenate([parts[i][2][0].least for i in order])
        most = np.concatenate([parts[i][2][0].most for i in order])
        zeros = np.zeros(SCHEMA.cells, dtype=np.int32)
        limit = Limits(name="total", row_of_cell=zeros, least=least, most=most, owner=np.arange(len(least)))
        counts = round_nests(x, nests, [limit], SCHEMA, rounding).counts
        return {i: counts[nests.block_start[k] : nests.block_start[k + 1]].tolist() for k, i in enumerate(order)}

    assert batch([0, 1, 2, 3]) == batch([2, 0, 3, 1])


@pytest.mark.parametrize("rounding", MODES)
def test_equal_fractions_go_to_the_first_children(rounding):
    z, _ = round_one(np.full((4, 1), 0.5), [3], [], rounding)
    assert z.reshape(-1).tolist() == [1, 1, 0, 0]


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


# ---- float dust ----


@pytest.mark.parametrize("rounding", MODES)
def test_float_dust_is_not_a_fraction(rounding):
    x = np.array([[3 - 4e-10, 2e-12], [1e-9, 4 - 1e-11], [4.5, 0.5], [0.5, 1.5]])
    z, _ = round_one(x, [0, 5], [], rounding)
    assert z[:2].tolist() == [[3, 0], [0, 4]]
    assert z.sum(axis=0).tolist() == [8, 6]


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("dust", [9e-7, -9e-7])
def test_much_dust_in_one_column_wakes_the_least_whole_entries(dust, rounding):
    x = np.full((40, 1), 1.0)
    x[7] += dust
    x[9] += dust / 2
    count = 41 if dust > 0 else 39
    z, rounded = round_one(x, [0], [], rounding, count=[count])
    assert rounded.programs == 0
    assert z.sum() == count
    assert z[7, 0] == (2 if dust > 0 else 0)


def test_only_the_columns_that_need_it_wake_their_least_whole_entries():
    # if all dust were awake, one child could go up in one column and down in the other, and keep its total
    x = np.array([[1 + 9e-7, 1 - 5e-7], [1 + 5e-7, 1 - 9e-7]])
    z, _ = round_one(x, [0, 1], [], "margins", count=[3, 1])
    assert z.tolist() == [[2, 1], [1, 0]]


def test_limits_missed_by_float_error_hold_exactly():
    rng = np.random.default_rng(18)
    x, cell, limits = random_nest(rng, 6, 9, ["total", "a"])
    noisy = np.maximum(x + rng.uniform(-1e-9, 1e-9, x.shape), 0)
    z, _ = round_one(noisy, cell, limits, "margins", count=np.rint(x.sum(axis=0)).astype(int))
    assert keeps(z, cell, limits)
    assert (z == round_one(x, cell, limits, "margins")[0]).all()


# ---- the stages ----


def stage_sizes(schema: Schema, queries: Sequence[str], rounding: str = "margins") -> list[int]:
    stages = stages_of(schema, [schema.query(text).row_of_cell for text in queries], rounding)
    assert stages is not None
    for coarse, fine in pairwise(stages):
        assert len(np.unique(np.stack([coarse, fine]), axis=1).T) == fine.max() + 1
    return [int(stage.max()) + 1 for stage in stages]


def test_stages_are_the_total_the_prefixes_and_the_cells():
    assert stage_sizes(SCHEMA, []) == [1, 2, 4, 12]
    assert stage_sizes(SCHEMA, ["total", "a * b"]) == [1, 2, 4, 12]
    assert stage_sizes(SCHEMA, ["a"], "cells") == [12]


def test_limits_between_prefixes_are_stages_too():
    homes = Schema(
        attributes={"home": ["own", "prison", "ward"], "age": ["minor", "adult"]},
        groupings={"kind": Grouping(of="home", groups={"own": ["own"], "gq": ["prison", "ward"]})},
    )
    assert stage_sizes(homes, ["kind"]) == [1, 2, 3, 6]


def test_limits_across_the_prefixes_come_first_and_prefixes_within_their_rows():
    assert stage_sizes(SCHEMA, ["b"]) == [1, 2, 4, 12]
    assert stage_sizes(SCHEMA, ["c", "b * c"]) == [1, 3, 6, 12]


def test_an_unknown_way_of_rounding_is_refused():
    with pytest.raises(InputError, match=r"rounding 'totals' is unknown\. Use \"margins\" or \"cells\""):
        stages_of(SCHEMA, [], "totals")
