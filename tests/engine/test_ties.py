"""Who gets the person that rounding leaves over is drawn by lot, so siblings and cells are treated alike."""

from itertools import permutations

import numpy as np
import pytest
from random_nests import LIMITED, MODES, SCHEMA, nests_of, random_nest
from scipy.stats import chi2
from siblings import changes, siblings, standard_scores, strategy_for

from tallyveil.engine.nearest_parents import nearest_parents
from tallyveil.engine.nests import Limits
from tallyveil.engine.rounding.rounding import round_nests
from tallyveil.engine.ties import in_turn, lots_of
from tallyveil.nouns.schema import Schema
from tallyveil.privacy import Bound, Invariant

FEW = [
    (20_000, 2, "totals", {}),
    (20_000, 4, "totals", {}),
    (20_000, 4, "totals", {"estimator": "tree"}),
    (20_000, 4, "one attribute", {}),
    (20_000, 4, "one attribute", {"estimator": "tree"}),
    (8_000, 4, "16 cells", {"only_totals": True}),
    (4_000, 4, "16 cells", {"only_totals": True, "rounding": "cells"}),
    (4_000, 10, "totals", {"estimator": "tree"}),
    (1_000, 100, "totals", {}),
]
CONSTRAINED = [
    {"constraints": (Invariant(query="total", level="parent"),)},
    {"constraints": (Bound(query="total", level="child", least=16, most=24),), "check_constraints": False},
]
MANY = [
    *((number, estimator, {}) for number in (2, 4, 10, 100) for estimator in ("topdown", "tree")),
    *((4, estimator, fields) for fields in CONSTRAINED for estimator in ("topdown", "tree")),
]


@pytest.mark.parametrize(("parents", "number", "schema", "fields"), FEW)
def test_rounding_favours_no_position_among_siblings(monkeypatch, parents, number, schema, fields):
    """With the order of codes, the first of four children had 7 to 190 standard errors in each of these cases."""
    people, _ = siblings(parents, [20] * number, schema, seed=2)
    added, _ = changes(monkeypatch, people, strategy_for(people, **fields))
    scores = standard_scores(added.sum(axis=1).reshape(parents, number))
    assert np.abs(scores).max() < 4
    assert (scores**2).sum() < chi2.isf(1e-4, number)  # all positions together


@pytest.mark.parametrize("schema", ["one attribute", "16 cells"])
@pytest.mark.parametrize("fields", [{}, *CONSTRAINED], ids=["free", "invariant", "bounds"])
def test_rounding_favours_no_cell_at_any_position(monkeypatch, schema, fields):
    """With the order of codes, some cell was 9 to 31 standard errors off in each of these cases."""
    parents, number = 6_000, 4
    people, _ = siblings(parents, [20] * number, schema, seed=5)
    added, _ = changes(monkeypatch, people, strategy_for(people, only_totals=True, **fields))
    assert np.abs(standard_scores(added.reshape(parents, -1))).max() < 4.2


@pytest.mark.slow
@pytest.mark.parametrize(("number", "estimator", "fields"), MANY)
@pytest.mark.parametrize("schema", ["totals", "one attribute", "16 cells"])
def test_the_mean_error_is_0_at_every_position_over_200_000_parents(monkeypatch, number, schema, estimator, fields):
    at_once, parents = min(200_000, 400_000 // number), 0
    sums, squares = np.zeros((2, number)), np.zeros((2, number))  # of what rounding adds, and of errors
    for seed in range(-(-200_000 // at_once)):
        people, _ = siblings(at_once, [20] * number, schema, seed)
        plan = strategy_for(people, estimator=estimator, **fields)
        added, error = changes(monkeypatch, people, plan, seed)
        for i, values in enumerate((added.sum(axis=1), error)):
            sums[i] += values.reshape(-1, number).sum(axis=0)
            squares[i] += (values.reshape(-1, number) ** 2).sum(axis=0)
        parents += at_once
    scores = sums / np.sqrt(squares)
    worst, means = np.abs(scores).max(axis=1).round(2).tolist(), np.round(sums[:, :4] / parents, 4).tolist()
    print(f"{number} siblings, {schema}, {estimator}, {parents:,} parents: worst scores {worst}, means {means}")
    assert np.abs(scores).max() < (3.5 if number <= 10 else 4)  # some of 100 are beyond 3 by chance
    assert ((scores**2).sum(axis=1) < chi2.isf(1e-3, number)).all()


@pytest.mark.parametrize(
    ("schema", "fields"),
    [("totals", {}), ("totals", {"estimator": "tree"}), ("one attribute", {}), ("16 cells", {"only_totals": True})],
)
def test_rounding_favours_neither_large_nor_small_siblings(monkeypatch, schema, fields):
    """With the order of codes, small ones of 16 cells gained 0.036 of a person each (9 standard errors here)."""
    sizes = (400, 100, 25, 6, 1.5)
    people, size = siblings(8_000, sizes, schema, seed=1)
    added, _ = changes(monkeypatch, people, strategy_for(people, **fields))
    scores = standard_scores(np.stack([added.sum(axis=1)[size == one] for one in sizes], axis=1))
    assert np.abs(scores).max() < 4


def test_rounding_cells_alone_takes_from_small_siblings_where_only_totals_are_measured(monkeypatch):
    """What docs/topdown.md says: the changes of the cells add up in the total of a child."""
    sizes = (400, 1.5)
    people, size = siblings(4_000, sizes, "16 cells", seed=1)
    added, _ = changes(monkeypatch, people, strategy_for(people, only_totals=True, rounding="cells"))
    assert standard_scores(added.sum(axis=1)[size == 1.5]) < -20


# ---- equally near tables ----


def tied_nest(rng, queries, *, shared=False):
    """A nest with many equal fractions: halves and quarters of whole tables."""
    x, cell, limits = random_nest(rng, int(rng.integers(2, 6)), int(rng.integers(1, 6)), queries, shared=shared)
    whole = np.rint(4 * x) / 4
    fits = (whole.sum(axis=0) == np.rint(whole.sum(axis=0))).all()
    return (whole if fits and not queries else x), cell, limits


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("queries", [*LIMITED, ["a", "b"]], ids=" and ".join)
def test_tables_follow_the_lots_of_children_and_not_their_order(queries, shared, rounding):
    """Flows, exchanges and integer programs: children in another order, with their lots, get the same counts."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        x, cell, limits = tied_nest(rng, queries, shared=shared)
        lots, order = lots_of("some", "level", np.arange(len(x))), rng.permutation(len(x))
        flat, nests = nests_of([x], [cell])
        counts = round_nests(flat, nests, limits, SCHEMA, rounding, lots).counts.reshape(x.shape)
        moved = [
            Limits(name=one.name, row_of_cell=one.row_of_cell, least=one.least, most=one.most, owner=one.owner[order])
            for one in limits
        ]
        flat, nests = nests_of([x[order]], [cell])
        again = round_nests(flat, nests, moved, SCHEMA, rounding, lots[order]).counts.reshape(x.shape)
        assert (again == counts[order]).all()


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("dust", [0, 1e-12, -1e-10])
def test_equal_fractions_go_up_equally_often_even_if_floats_differ_a_little(rounding, dust):
    parents, rng = 20_000, np.random.default_rng(3)
    up = rng.integers(1, 4, parents)
    x = (up[:, None] / 4 + rng.integers(0, 9, (parents, 4)) + dust * np.arange(4)).reshape(-1, 4, 1)
    flat, nests = nests_of(list(x), [[3]] * parents)
    counts = round_nests(flat, nests, [], SCHEMA, rounding, lots_of("one", "level", nests.child)).counts
    assert np.abs(standard_scores((counts - flat).reshape(parents, 4))).max() < 4


@pytest.mark.parametrize("rounding", MODES)
def test_equal_cells_of_the_root_go_up_equally_often(rounding):
    """The root has no siblings: lots of its cells decide which of them go up."""
    flat, nests = nests_of([np.full((1, 3), 1.5)], [[0, 1, 2]], [[-1] * 3])  # one row of every margin
    rows = np.zeros(SCHEMA.cells, np.int32)
    total = Limits(name="total", row_of_cell=rows, least=np.array([[5]]), most=np.array([[5]]), owner=np.zeros(1, int))
    tables = [
        round_nests(flat, nests, [total], SCHEMA, rounding, lots_of(f"{i}", "us", nests.child)) for i in range(2000)
    ]
    went_up = np.array([table.counts for table in tables]) - 1
    assert (went_up.sum(axis=1) == 2).all()
    assert np.abs(standard_scores(went_up - 2 / 3)).max() < 4


def test_which_of_equal_changes_the_failsafe_makes_follows_the_order_of_cells_that_was_drawn():
    """Two cells could equally give the person that a child must have in the third."""
    schema = Schema(attributes={"home": ["a", "b", "c"]})
    least = Limits(
        name="home",
        row_of_cell=schema.query("home").row_of_cell,
        least=np.array([[0, 0, 1], [0, 0, 0]]),
        most=np.full((2, 3), 99),
        owner=np.arange(2),
    )
    found = {
        tuple(nearest_parents(np.array([[5, 5, 0]]), [[least]], schema, "total", schema.possible, np.array(turn))[0])
        for turn in permutations(range(3))
    }
    assert found == {(4, 5, 1), (5, 4, 1)}


# ---- the lots themselves ----


def shares_of_orders(order):
    """How often each of the 24 orders of four things occurs."""
    codes = np.array(list(permutations(range(4)))) @ (64, 16, 4, 1)
    return np.bincount(np.searchsorted(codes, order.reshape(-1, 4) @ (64, 16, 4, 1)), minlength=24)


def test_all_orders_of_four_siblings_are_equally_frequent_and_unmixed_numbers_would_be_found():
    start = np.arange(24_001) * 4
    _, within = in_turn(lots_of("5f", "block", np.arange(96_000)), start)
    frequent = shares_of_orders(within)
    assert chi2.sf(((frequent - 1000.0) ** 2 / 1000).sum(), 23) > 1e-3
    _, within = in_turn(np.arange(96_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15), start)
    assert chi2.sf(((shares_of_orders(within) - 1000.0) ** 2 / 1000).sum(), 23) < 1e-12


def test_lots_belong_to_the_measurement_the_level_and_the_unit_and_to_nothing_else():
    units = np.arange(5000)
    mine = lots_of("a1", "tract", units)
    assert (lots_of("a1", "tract", units[700:900]) == mine[700:900]).all()  # in any piece
    assert (lots_of(None, "tract", units) == lots_of("", "tract", units)).all()
    others = [
        lots_of("a2", "tract", units),
        lots_of("a1", "block", units),
        lots_of(None, "tract", units),
        np.roll(mine, 1),
    ]
    for other in others:
        assert abs(np.corrcoef(mine.astype(float), other.astype(float))[0, 1]) < 4 / np.sqrt(len(units))
