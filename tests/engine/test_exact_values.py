"""Counts with one possible value, against all tables of tiny trees that keep the constraints (which shares no code)."""

import json
from collections import Counter
from dataclasses import astuple, dataclass, replace
from functools import cache, cached_property
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from random_constraints import random_case

from tallyveil import Facilities, Histogram, Schema, Spine, Strategy, protect
from tallyveil.engine.exact_values import exact_values
from tallyveil.engine.run_limits import run_limits
from tallyveil.errors import BudgetError
from tallyveil.mechanisms.measure import exact_answers
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import Bound, FacilityBounds, Invariant, StructuralZero
from tallyveil.release.declare import declared_of

AGES, SEXES = ("child", "adult"), ("f", "m")
QUERIES = {"total": (), "age": (1,), "sex": (2,), "detailed": (1, 2)}  # the axes that each keeps
LEVELS = ("us", "state", "county")


# -- the brute force --------------------------------------------------------------------------------------------------


@cache
def tables(counties: int, people: int) -> np.ndarray:
    """Every table of counties by ages by sexes with so many people."""
    cells = counties * 4
    bars = np.array(list(combinations(range(people + cells - 1), cells - 1)), dtype=np.int64).reshape(-1, cells - 1)
    ends = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), people + cells - 1)])
    return (np.diff(ends, axis=1) - 1).reshape(-1, counties, 2, 2)


def all_tables(counties: int, people: int, *, same_people: bool) -> np.ndarray:
    sizes = [people] if same_people else range(people + 2)
    return np.concatenate([tables(counties, size) for size in sizes])


def answers(table: np.ndarray, states: tuple[int, ...], query: str, level: str) -> np.ndarray:
    """Tables by units by rows."""
    cuts = {"us": [0], "state": np.cumsum([0, *states[:-1]]), "county": np.arange(sum(states))}[level]
    units = np.add.reduceat(table, cuts, axis=1)
    gone = tuple(axis + 1 for axis in (1, 2) if axis not in QUERIES[query])
    return units.sum(axis=gone).reshape(len(table), len(cuts), 2 ** len(QUERIES[query]))


@dataclass(frozen=True, eq=False)
class World:
    """A tiny tree, its people, and what must hold, in plain terms: (query, level) and arrays of units by rows."""

    states: tuple[int, ...]
    truth: np.ndarray
    invariants: tuple[tuple[str, str], ...] = ()
    bounds: tuple[tuple[str, str, np.ndarray, np.ndarray], ...] = ()  # query, level, least, most (-1: none)
    facilities: tuple[np.ndarray, int, int] | None = None  # counties by ages; per facility at least and at most
    zeros: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()  # ages and sexes of the strategy's zeros
    schema_zeros: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    same_people: bool = True
    checked: bool = True

    @cached_property
    def of_release(self) -> np.ndarray:
        """The tables that a release can have."""
        return self.kept(by_data=False)

    @cached_property
    def of_data(self) -> np.ndarray:
        """The tables that data can have with the same invariants, which may not keep what is not checked."""
        return self.of_release if self.checked else self.kept(by_data=True)

    def kept(self, *, by_data: bool) -> np.ndarray:
        found = all_tables(sum(self.states), int(self.truth.sum()), same_people=self.same_people)
        loose = by_data and not self.checked
        for ages, sexes in (*self.schema_zeros, *(() if loose else self.zeros)):
            found = found[(found[:, :, list(ages)][:, :, :, list(sexes)] == 0).all(axis=(1, 2, 3))]
        for query, level in self.invariants:
            right = answers(self.truth[None], self.states, query, level)
            found = found[(answers(found, self.states, query, level) == right).all(axis=(1, 2))]
        for query, level, least, most in () if loose else self.bounds:
            given = answers(found, self.states, query, level)
            found = found[((given >= least) & ((most < 0) | (given <= most))).all(axis=(1, 2))]
        if self.facilities is not None and not loose:
            built, least, most = self.facilities
            given = answers(found, self.states, "age", "county")
            found = found[((given >= built * least) & (given <= built * most)).all(axis=(1, 2))]
        return found

    def single(self, query: str, level: str, *, by_data: bool = False) -> np.ndarray:
        """Which counts (units by rows) are the same in all tables."""
        given = answers(self.of_data if by_data else self.of_release, self.states, query, level)
        return (given == given[:1]).all(axis=0)

    # -- the same for the product --

    @property
    def spine(self) -> Spine:
        paths = [(f"{s}", f"{s}{c}") for s, size in enumerate(self.states) for c in range(size)]
        return Spine.from_columns({"state": [s for s, _ in paths], "county": [c for _, c in paths]}, root="us")

    @property
    def schema(self) -> Schema:
        return Schema(attributes={"age": AGES, "sex": SEXES}, zeros=[named(*zero) for zero in self.schema_zeros])

    def people(self, table: np.ndarray) -> Histogram:
        leaves = Counts.from_dense(table.reshape(len(table), 4))
        return Histogram(spine=self.spine, schema=self.schema, leaves=leaves)

    @property
    def built(self) -> Facilities | None:
        if self.facilities is None:
            return None
        leaves = Counts.from_dense(self.facilities[0])
        return Facilities(spine=self.spine, attribute="age", types=AGES, leaves=leaves)

    @property
    def strategy(self) -> Strategy:
        constraints = [Invariant(query=query, level=level) for query, level in self.invariants]
        constraints += [StructuralZero(cells=named(*zero)) for zero in self.zeros]
        for query, level, least, most in self.bounds:
            labels = self.schema.query(query).labels()
            for code, low, high in zip(self.spine.labels(level), least, most, strict=True):
                upper = {label: int(n) for label, n in zip(labels, high, strict=True) if n >= 0}
                lower = {label: int(n) for label, n in zip(labels, low, strict=True)}
                if query == "total":  # its one row is written as a single number
                    lower, upper = (dict(zip("*", table.values(), strict=False)) for table in (lower, upper))
                constraints.append(Bound(query=query, level=level, least=lower, most=upper, units=[code]))
        if self.facilities is not None:
            _, least, most = self.facilities
            constraints.append(FacilityBounds(attribute="age", level="county", least={"*": least}, most={"*": most}))
        levels = dict.fromkeys(LEVELS, 1)
        return Strategy.proportional(
            mechanism="geometric",
            budget=1,
            levels=levels,
            queries={level: dict.fromkeys(QUERIES, 1) for level in levels},
            attributes=("age", "sex"),
            constraints=tuple(constraints),
            check_constraints=self.checked,
            neighbours="replace-one" if self.same_people else "add-or-remove",
        )

    def found(self, table: np.ndarray | None = None) -> tuple:
        people = self.people(self.truth if table is None else table)
        exact = exact_answers(people, self.strategy)
        limits = run_limits(self.spine, self.schema, self.strategy, exact=exact, facilities=self.built)
        return exact_values(limits, self.strategy)

    def said(self) -> set[tuple[str, str]]:
        """What is exact for whole levels by invariants, which is declared elsewhere."""
        return set(self.strategy.exact_pairs(self.strategy.exactness(self.spine, self.schema)))


def named(ages: tuple[int, ...], sexes: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    return {"age": tuple(AGES[i] for i in ages), "sex": tuple(SEXES[i] for i in sexes)}


@some.composite
def worlds(draw) -> World:
    states = draw(some.sampled_from([(1,), (2,), (1, 1), (2, 1)]))
    size = sum(states)
    truth = np.zeros((size, 2, 2), np.int64)
    for county, age, sex in draw(
        some.lists(some.tuples(some.integers(0, size - 1), some.integers(0, 1), some.integers(0, 1)), max_size=4)
    ):
        truth[county, age, sex] += 1
    same_people, checked = draw(some.booleans()), draw(some.booleans())
    cells = ((0,), (1,), (0, 1))

    def zero(*, true: bool):
        ages, sexes = draw(some.sampled_from(cells)), draw(some.sampled_from(cells))
        empty = not truth[:, list(ages)][:, :, list(sexes)].any()
        return [(ages, sexes)] if (ages, sexes) != ((0, 1), (0, 1)) and (empty or not true) else []

    basis = truth if checked or not same_people else truth[draw(some.permutations(range(size)))]
    bounds = []
    for _ in range(draw(some.integers(0, 3))):
        query, level = draw(some.sampled_from(list(QUERIES))), draw(some.sampled_from(LEVELS))
        right = answers(basis[None], states, query, level)[0]
        room = some.sampled_from([0, 0, 0, 1, 9])
        least = np.array([[max(0, n - draw(room)) for n in row] for row in right])
        most = np.array([[-1 if (more := draw(room)) == 9 else n + more for n in row] for row in right])
        bounds.append((query, level, least, most))
    facilities = None
    if draw(some.integers(0, 3)) == 0:
        by_age = truth.sum(axis=2)
        facilities = (np.minimum(by_age, draw(some.integers(1, 2))), 1, 4)
    invariants = draw(some.lists(some.tuples(some.sampled_from(list(QUERIES)), some.sampled_from(LEVELS)), max_size=2))
    world = World(
        states=states,
        truth=truth,
        invariants=tuple(dict.fromkeys(invariants)) if same_people else (),
        bounds=tuple(bounds),
        facilities=facilities if same_people or not checked else None,
        zeros=tuple(zero(true=True) if draw(some.booleans()) else []),
        schema_zeros=tuple(zero(true=True) if draw(some.integers(0, 3)) == 0 else []),
        same_people=same_people,
        checked=checked or not same_people,
    )
    assume(len(world.of_release) > 0)
    try:
        world.strategy  # noqa: B018 (a property that may refuse)
    except BudgetError:  # neighbours that differ by a person, and a fixed number of people
        assume(False)
    return world


# -- what is found ----------------------------------------------------------------------------------------------------


def amounts(world: World, found: tuple, query: str, level: str, *, true: bool) -> tuple[int, int]:
    """In how many units all counts are found to be exact, and how many counts are in all."""
    ours = [one for one in found if (one.query, one.level, one.true) == (query, level, true)]
    size = {"us": 1, "state": len(world.states), "county": sum(world.states)}[level]
    units = Counter()
    for one in ours:
        units[one.counts == "all"] += size if one.units == "all" else one.units
    rows = 2 ** len(QUERIES[query])
    return units[True], units[True] * rows + sum(one.counts for one in ours if one.counts != "all")


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_every_count_called_exact_is_the_same_in_all_tables_that_keep_the_constraints(world):
    found = world.found()
    for query, level in product(QUERIES, LEVELS):
        if (query, level) in world.said():
            assert world.single(query, level).all()
            assert not any((one.query, one.level) == (query, level) for one in found)
        for true in (True, False):
            right = world.single(query, level, by_data=true)  # an item that is not true holds of the release
            units, counts = amounts(world, found, query, level, true=true)
            assert units <= right.all(axis=1).sum(), (query, level, true, found)
            assert counts <= right.sum(), (query, level, true, found)


@settings(max_examples=60, deadline=None)
@given(worlds(), some.randoms(use_true_random=False))
def test_what_is_declared_is_the_same_for_all_datasets_that_the_guarantee_covers(world, random):
    other = world.of_data[random.randrange(len(world.of_data))]
    declared = []
    for table in (world.truth, other):
        made = declared_of(
            world.strategy, world.spine, world.schema, facilities=False, stamps=(), exact_values=world.found(table)
        )
        declared.append(json.dumps(made.to_json()))
    assert declared[0] == declared[1]


# -- the cases that have a name ---------------------------------------------------------------------------------------

LAND = Spine.from_columns({"state": ["1", "1", "2"], "county": ["1a", "1b", "2a"]}, root="us")
PEOPLE = Schema(attributes={"age": AGES, "sex": SEXES})
THREE = [[30, 0, 0, 29], [0, 0, 5, 0], [7, 0, 0, 0]]  # people by county and cell


def listed(*constraints, table=THREE, schema: Schema = PEOPLE, built: list | None = None, **fields) -> set[tuple]:
    """What is found: query, level, units, counts, source, and whether the data agree."""
    people = Histogram(spine=LAND, schema=schema, leaves=Counts.from_dense(np.array(table)))
    strategy = replace(Strategy.default(LAND, schema, epsilon=1), constraints=constraints, **fields)
    facilities = None
    if built is not None:
        facilities = Facilities(spine=LAND, attribute="age", types=AGES, leaves=Counts.from_dense(np.array(built)))
    exact = exact_answers(people, strategy)
    limits = run_limits(LAND, schema, strategy, exact=exact, facilities=facilities)
    found = [astuple(one) for one in exact_values(limits, strategy)]
    assert len(set(found)) == len(found)
    return set(found)


def test_nothing_is_listed_without_constraints_since_the_number_of_people_has_its_own_place():
    assert listed() == set()


@pytest.mark.parametrize("checked", [True, False])
def test_bounds_that_fix_rows_through_the_total_are_found_and_are_true_where_the_data_are_checked(checked):
    total = Bound(query="total", level="county", most=59, units=["1a"])
    ages = Bound(query="age", level="county", least={"child": 30, "adult": 29}, units=["1a"])
    found = listed(total, ages, check_constraints=checked)
    assert found == {(query, "county", 1, "all", "follows", checked) for query in ("total", "age")}
    assert listed(total, replace(ages, least={"child": 29, "adult": 29}), check_constraints=checked) == set()


def test_an_impossible_label_makes_the_others_exact_where_the_total_is():
    adults = [[0, 0, 30, 29], [0, 0, 5, 0], [0, 0, 0, 7]]
    expected = {
        ("age", "us", "all", "all", "follows", True),
        ("age", "state", "all", 2, "zero", True),  # only the zeros
        ("age", "county", "all", 3, "zero", True),
    }
    zero = StructuralZero(cells={"age": ("child",)})
    assert listed(zero, table=adults) == expected
    of_schema = Schema(attributes=PEOPLE.attributes, zeros=[{"age": ["child"]}])
    of_levels = ("age", "us", "all", "all", "follows", True)  # which the strategy's own list of exact queries has
    assert listed(table=adults, schema=of_schema, check_constraints=False) == expected - {of_levels}  # always compared
    unchecked = {(*row[:-1], False) for row in expected}
    assert listed(zero, table=adults, check_constraints=False) == unchecked


def test_a_zero_of_single_cells_is_listed_by_the_coarsest_query_that_has_it():
    zero = StructuralZero(cells={"age": ("child",), "sex": ("m",)})
    sizes = {"us": 1, "state": 2, "county": 3}
    assert listed(zero) == {("detailed", level, "all", size, "zero", True) for level, size in sizes.items()}


def test_the_only_county_of_a_state_takes_over_what_is_exact_there():
    total = ("total", "county", 1, "all", "follows", True)
    assert listed(Invariant(query="total", level="state")) == {total}
    assert listed(Invariant(query="age", level="state")) == {total, ("age", "county", 1, "all", "follows", True)}


def test_the_last_of_several_siblings_is_exact_where_the_others_and_the_parent_are():
    bound = Bound(query="total", level="county", least=5, most=5, units=["1b"])
    assert listed(Invariant(query="total", level="state"), bound) == {
        ("total", "county", 1, "all", "bound", True),
        ("total", "county", 2, "all", "follows", True),
    }


def test_a_type_without_facilities_is_exactly_zero():
    rule = FacilityBounds(attribute="age", level="county", least={"*": 1}, most={"*": 40})
    assert listed(rule, built=[[1, 1], [0, 1], [1, 0]]) == {
        ("age", "county", 2, 2, "facilities", True),
        ("age", "state", 1, 1, "follows", True),  # nobody can be an adult in state 2
    }


def test_facility_bounds_that_meet_fix_the_rows_that_they_meet_on():
    fives = FacilityBounds(attribute="age", level="county", least={"child": 5, "*": 0}, most={"*": 90})
    sixes = FacilityBounds(attribute="age", level="county", least={"*": 0}, most={"child": 5, "*": 90})
    found = listed(fives, sixes, built=[[6, 1], [0, 1], [0, 1]], table=[[30, 0, 0, 29], [0, 0, 5, 0], [0, 0, 7, 0]])
    assert ("age", "county", 1, 1, "follows", True) in found  # 30 children
    assert ("age", "us", "all", "all", "follows", True) in found  # 30 of 71


def test_a_place_without_facilities_of_any_type_is_said_to_be_empty_once():
    rule = FacilityBounds(attribute="age", level="county", least={"*": 1}, most={"*": 99})
    found = listed(rule, built=[[1, 1], [0, 0], [1, 0]], table=[[30, 0, 0, 29], [0, 0, 0, 0], [7, 0, 0, 0]])
    assert ("total", "county", 1, "all", "follows", True) in found
    assert {row[0] for row in found} == {"total", "age"}


def test_bounds_on_queries_that_overlap_are_decided_by_a_linear_program():
    cells = {"child*f": 30, "child*m": 0, "adult*f": 0}
    bounds = [
        Bound(query="age * sex", level="county", most=cells, units=["1a"]),
        Bound(query="sex", level="county", least={"f": 30}, units=["1a"]),
        Bound(query="age", level="county", most={"adult": 29}, units=["1a"]),
    ]
    table = [[30, 0, 0, 20], [0, 0, 5, 0], [7, 0, 0, 0]]
    assert listed(*bounds, table=table) == {  # all children are girls, and all girls are children: 30
        ("age", "county", 1, 1, "follows", True),
        ("sex", "county", 1, 1, "follows", True),
        ("detailed", "county", 1, 1, "follows", True),
        ("detailed", "county", 1, 2, "bound", True),
    }


def test_no_more_than_the_allowed_number_of_linear_programs_is_solved(monkeypatch):
    solved = []
    monkeypatch.setattr("tallyveil.engine.exact_values.MOST_UNITS", 2)
    monkeypatch.setattr(
        "tallyveil.engine.exact_values._always_met",
        lambda rows, _, is_open: solved.append(1) or np.zeros(len(rows) + len(is_open), np.bool_),
    )
    bounds = [
        Bound(query=query, level="county", most=100 + number, units=[code])
        for number, code in enumerate(("1a", "1b", "2a"))
        for query in ("age", "age * sex")
    ]
    listed(*bounds)
    assert len(solved) == 2


def test_an_invariant_is_exact_for_published_units_though_parts_of_them_are_measured():
    rows = [("1", "1a", "1a1", f"1a{i}") for i in range(5)] + [("2", "2a", "2a1", "2a5")]
    names = ("state", "county", "district", "block")
    spine = Spine.from_columns(dict(zip(names, zip(*rows, strict=True), strict=True)), root="us")
    people = Histogram(spine=spine, schema=PEOPLE, leaves=Counts.from_dense(np.ones((6, 4), np.int64)))
    made = spine.optimised(tribal=Areas.from_codes(spine, leaf=["1a1", "1a3"], area=["Pueblo"] * 2))
    strategy = replace(
        Strategy.default(spine, PEOPLE, epsilon=1), constraints=[Invariant(query="total", level="state")]
    )
    exact = exact_answers(people, strategy)
    limits = run_limits(spine, PEOPLE, strategy, exact=exact, optimised=made)
    found = {astuple(one) for one in exact_values(limits, strategy)}
    listed = strategy.exact_pairs(strategy.exactness(spine, PEOPLE))
    assert {("total", "state"), ("total", "county")} <= set(listed)  # both states have one county
    assert not any(level == "block" and units == "all" for _, level, units, *_ in found)


def test_what_is_exact_stays_so_where_the_failsafe_changes_parents():
    for seed in (9, 45):
        case = random_case(np.random.default_rng(seed), crowded=True)
        runs = [
            protect(case.people, case.strategy, facilities=case.facilities, optimised=case.optimised, seed=number)
            for number in (seed, 101, 102)
        ]
        declared = runs[0].certificate.declared
        assert declared.exact_values
        relaxed = [level.relaxed for run in runs for level in run.certificate.observed.levels]
        assert any(relaxed)
        for one in declared.exact_values:
            drawn = [run.histogram.answer(one.query, level=one.level).dense() for run in runs]
            same = (np.array(drawn) == drawn[0]).all(axis=0)
            units = len(same) if one.units == "all" else one.units
            assert same.all(axis=1).sum() >= units if one.counts == "all" else same.sum() >= one.counts
