"""What rounding always keeps, and how it deals with limits that no floors and ceilings keep and with float dust."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_nests import LIMITED, MODES, SCHEMA, floors, keeps, limits_on, nests_of, random_nest, round_one

from tallyveil.engine.nests import Limits
from tallyveil.engine.rounding import rounding as rounding_module
from tallyveil.engine.rounding.rounding import Unroundable, round_nests, stages_of
from tallyveil.engine.ties import lots_of
from tallyveil.errors import InputError
from tallyveil.nouns.schema import Grouping, Schema

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
        lots = lots_of(None, "children", np.concatenate([10 * i + np.arange(len(parts[i][0])) for i in order]))
        counts = round_nests(x, nests, [limit], SCHEMA, rounding, lots).counts
        return {i: counts[nests.block_start[k] : nests.block_start[k + 1]].tolist() for k, i in enumerate(order)}

    assert batch([0, 1, 2, 3]) == batch([2, 0, 3, 1])


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
        round_nests(flat, nests, [impossible], SCHEMA, rounding, lots_of(None, "children", nests.child))
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


def test_a_limit_on_a_row_without_support_is_not_overlooked():
    x = np.array([[0.5, 0.5], [0.5, 0.5]])
    in_a_y = limits_on("a", [[0, 1], [0, 0]], [[9, 9], [9, 9]])
    with pytest.raises(Unroundable, match="nest 0"):
        round_one(x, [0, 1], [in_a_y], "margins")


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


def test_a_child_that_dust_rounds_up_in_one_column_goes_down_in_another():
    # the first column makes the first child 2; it wants 1.5 in all, so the second column's unit goes to its sibling
    x = np.array([[1 + 9e-7, 0.5], [1.0, 0.5]])
    z, _ = round_one(x, [0, 1], [], "margins", count=[3, 1])
    assert z.tolist() == [[2, 0], [1, 1]]


@pytest.mark.parametrize("rounding", MODES)
def test_numbers_that_seemed_whole_move_where_limits_need_it_without_a_program(rounding):
    x = np.array([[1 + 5e-7, 1 - 5e-7], [1 - 5e-7, 1 + 5e-7]])
    z, rounded = round_one(x, [0, 1], [limits_on("total", [[3], [1]], [[3], [1]])], rounding)
    assert (rounded.flows, rounded.programs) == (1, 0)
    assert z.tolist() == [[2, 1], [0, 1]]


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
