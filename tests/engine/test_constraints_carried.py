"""Bounds carried up the tree, against numbers worked out by hand; what breaks a constraint is refused before noise."""

from dataclasses import replace

import numpy as np
import pytest

from tallyveil import Areas, Facilities, Histogram, Schema, Spine, Strategy, protect
from tallyveil.engine.constraints import possible_cells
from tallyveil.engine.nests import UNLIMITED
from tallyveil.engine.run_limits import run_limits
from tallyveil.engine.topdown import topdown
from tallyveil.errors import EndedAfterNoise, InputError
from tallyveil.mechanisms.measure import exact_answers, measure
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import Bound, FacilityBounds, Invariant, RunKey, StructuralZero
from tallyveil.protection.protect import protect_to_folder
from tallyveil.protection.spending import Spending

HOMES = ["house", "prison", "dorm"]
SCHEMA = Schema(attributes={"age": ["minor", "adult"], "home": HOMES})
RULE_1940 = FacilityBounds(attribute="home", level="district", least={"*": 1}, most={"house": 99, "*": 99999})
STATE_TOTALS = Invariant(query="total", level="state")
FREE = int(UNLIMITED)


def spine_of(districts: dict[str, int]) -> Spine:
    """So many districts in each state, all in one county."""
    rows = [(state, state + "1", f"{state}1{i}") for state, number in districts.items() for i in range(number)]
    return Spine.from_columns(
        dict(zip(("state", "county", "district"), zip(*rows, strict=True), strict=True)), root="us"
    )


def people_of(spine: Spine, adults: list[list[int]]) -> Histogram:
    """Adults by home in each district, nobody else."""
    table = np.array(adults)
    return Histogram(spine=spine, schema=SCHEMA, leaves=Counts.from_dense(np.hstack([0 * table, table])))


def built_of(spine: Spine, units: list[list[int]]) -> Facilities:
    return Facilities(spine=spine, attribute="home", types=tuple(HOMES), leaves=Counts.from_dense(np.array(units)))


def plan_for(people: Histogram, *constraints, **budget) -> Strategy:
    plan = Strategy.default(people.spine, people.schema, **(budget or {"epsilon": 1}))
    return replace(plan, constraints=constraints)


def bounds(people: Histogram, *constraints, built: Facilities | None = None, **plan) -> dict:
    """Least and most of every level and query, as lists."""
    strategy = replace(plan_for(people, *constraints), **plan)
    exact = exact_answers(people, strategy)
    limits = run_limits(people.spine, people.schema, strategy, exact=exact, facilities=built)
    return {
        level: {one.query.name: tuple(part.tolist() for part in one.all()) for one in some}
        for level, some in limits.carried.items()
    }


@pytest.fixture
def land():
    """State A: two districts, 30 people; state B: one district with houses only, 9 people."""
    spine = spine_of({"A": 2, "B": 1})
    people = people_of(spine, [[12, 6, 0], [12, 0, 0], [9, 0, 0]])
    return people, built_of(spine, [[3, 1, 0], [2, 0, 0], [4, 0, 0]])


def test_facility_bounds_of_1940_are_units_and_caps_below_and_sums_at_the_county(land):
    people, built = land
    found = bounds(people, STATE_TOTALS, RULE_1940, built=built)
    assert found["district"]["home"] == (
        [[3, 1, 0], [2, 0, 0], [4, 0, 0]],
        [[297, 99999, 0], [198, 0, 0], [396, 0, 0]],
    )
    assert found["county"]["home"] == ([[5, 1, 0], [4, 0, 0]], [[495, 99999, 0], [396, 0, 0]])
    assert set(found["county"]) == {"home"}  # nothing exact is declared there


def test_facility_bounds_are_recomputed_with_the_exact_state_total_and_summed_for_the_nation(land):
    people, built = land
    found = bounds(people, STATE_TOTALS, RULE_1940, built=built)
    assert found["state"]["total"] == ([[30], [9]], [[30], [9]])
    # A: houses leave the prison its 1; the prison leaves houses their 5. B: no other units, so all 9 live in houses.
    assert found["state"]["home"] == ([[5, 1, 0], [9, 0, 0]], [[29, 25, 0], [9, 0, 0]])
    assert found["us"]["total"] == ([[39]], [[39]])
    assert found["us"]["home"] == ([[14, 1, 0]], [[38, 25, 0]])


def test_where_caps_bind_other_types_must_hold_the_rest(land):
    people, built = land
    tight = replace(RULE_1940, most={"house": 5, "*": 99999})
    found = bounds(people, STATE_TOTALS, tight, built=built)
    assert found["state"]["home"] == ([[5, 5, 0], [9, 0, 0]], [[25, 25, 0], [9, 0, 0]])  # 25 in houses, 5 in the prison
    assert found["us"]["home"] == ([[14, 5, 0]], [[34, 25, 0]])


def test_the_state_rule_of_1940_is_reproduced_for_random_states():
    rng = np.random.default_rng(1940)
    units = rng.integers(0, 4, (200, 3)) * (rng.random((200, 3)) < 0.6)
    units[~units.any(axis=1), 0] = 1
    extra = rng.integers(0, 50, units.shape) * (units > 0)
    spine = spine_of({f"{i:03d}": 1 for i in range(200)})
    people = people_of(spine, units + extra)
    wide = replace(RULE_1940, most={"*": 99999})  # the Bureau's recomputation has no cap
    least, most = bounds(people, STATE_TOTALS, wide, built=built_of(spine, units))["state"]["home"]
    total, everything = (units + extra).sum(axis=1, keepdims=True), units.sum(axis=1, keepdims=True)
    others = everything - units
    assert np.array_equal(least, np.where((units > 0) & (others == 0), total, units))
    assert np.array_equal(most, np.where(units > 0, total - others, 0))


def test_without_an_exact_state_total_the_state_has_plain_sums(land):
    people, built = land
    found = bounds(people, RULE_1940, built=built)
    assert found["state"]["home"] == ([[5, 1, 0], [4, 0, 0]], [[495, 99999, 0], [396, 0, 0]])
    assert set(found["state"]) == {"home"}


def test_only_where_neighbours_are_equally_many_is_the_root_total_exact(land):
    people, built = land
    plan = bounds(people, RULE_1940, built=built)
    assert plan["us"]["total"] == ([[39]], [[39]])
    other = bounds(people, RULE_1940, built=built, neighbours="add-or-remove")
    assert set(other["us"]) == {"home"}
    assert other["us"]["home"] == ([[9, 1, 0]], [[891, 99999, 0]])


def test_invariants_are_summed_above_their_level(land):
    people, _ = land
    found = bounds(people, Invariant(query="home", level="county"))
    assert "home" not in found["district"]
    assert found["county"]["home"] == ([[24, 6, 0], [9, 0, 0]],) * 2
    assert found["us"]["home"] == ([[33, 6, 0]],) * 2


def test_bounds_for_named_units_leave_others_free_and_so_the_units_above(land):
    people, _ = land
    found = bounds(people, Bound(query="home", level="district", least={"house": 4}, most={"house": 15}, units=["A10"]))
    assert found["district"]["home"] == ([[4, 0, 0], [0] * 3, [0] * 3], [[15, FREE, FREE], [FREE] * 3, [FREE] * 3])
    assert found["county"]["home"] == ([[4, 0, 0], [0, 0, 0]], [[FREE] * 3, [FREE] * 3])


def test_bounds_for_all_units_are_summed_and_two_on_one_query_are_both_kept(land):
    people, _ = land
    found = bounds(
        people,
        Bound(query="home", level="district", most={"house": 20, "prison": 7}),
        Bound(query="home", level="county", least={"house": 2}, most={"house": 30, "prison": 20}),
    )
    assert found["county"]["home"] == ([[2, 0, 0], [2, 0, 0]], [[30, 14, FREE], [20, 7, FREE]])


def test_a_row_without_a_most_does_not_swallow_the_small_ones_beside_it():
    # 2^60 + 12 - 2^60 is 0 in floating point: the free row must not be made to hold everybody.
    spine = spine_of({"A": 2})
    people = people_of(spine, [[90, 0, 0], [5, 5, 0]])
    found = bounds(people, Bound(query="home", level="district", most={"prison": 5, "dorm": 7}))
    assert found["us"]["home"] == ([[100 - 2 * 5 - 2 * 7, 0, 0]], [[100, 10, 14]])


@pytest.mark.parametrize("budget", [{"epsilon": "1/100"}, {"rho": "1/1000"}])
def test_bounds_and_equalities_of_users_hold_in_the_release(budget):
    spine = spine_of({"A": 3, "B": 4})
    people = people_of(spine, [[20, 5, 1], [0, 0, 0], [7, 1, 1], [10, 5, 0], [3, 3, 3], [0, 5, 2], [30, 0, 0]])
    constraints = (
        Bound(query="home", level="district", most={"house": 30, "prison": 6, "dorm": 9}),
        Bound(query="home", level="county", least={"prison": 6}, most={"prison": 6}, units=["A1"]),
        Bound(query="total", level="district", least=1, units=["A10", "B13"]),
    )
    release = protect(people, plan_for(people, *constraints, **budget), seed=3).histogram
    home = release.answer("home", level="district").dense()
    assert (home <= [30, 6, 9]).all()
    assert release.answer("home", level="county").dense()[0, 1] == 6
    assert home[[0, 6]].sum(axis=1).min() >= 1
    assert release.total() == people.total()
    assert not np.array_equal(home, people.answer("home", level="district").dense())


def test_persons_are_no_fewer_than_occupied_households_even_where_noise_is_large():
    spine = spine_of({"A": 4, "B": 5})
    units = [[5, 0, 0], [2, 0, 1], [9, 0, 0], [0, 0, 0], [3, 0, 0], [6, 0, 0], [1, 2, 0], [8, 0, 0], [4, 0, 0]]
    people = people_of(spine, [[u + (u > 0) for u in row] for row in units])
    built = built_of(spine, units)
    for seed in range(5):
        release = protect(
            people, plan_for(people, STATE_TOTALS, RULE_1940, epsilon="1/20"), facilities=built, seed=seed
        )
        home = release.histogram.answer("home", level="district").dense()
        assert (home >= units).all()
        assert (home[np.array(units) == 0] == 0).all()
    free = protect(people, plan_for(people, STATE_TOTALS, epsilon="1/20"), seed=0).histogram
    assert (free.answer("home", level="district").dense() < units).any()  # the noise is large enough to break them


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            Bound(query="home", level="district", most={"house": 11}),
            r"the data: district 'A10' has 12 in 'house' of 'home', not 0 to 11 "
            r"\(home in every district: house at most 11\)\. Correct the counts, the facilities or the constraint\.",
        ),
        (
            Bound(query="total", level="county", least=31, units=["A1"]),
            r"the data: county 'A1' has 30 in 'total' of 'total', not 31 to .*total in county A1: at least 31",
        ),
        (
            Bound(query="age", level="state", least={"minor": 2}, most={"minor": 2}, units=["B"]),
            r"the data: state 'B' has 0 in 'minor' of 'age', not exactly 2 \(age in state B: minor exactly 2\)",
        ),
        (
            StructuralZero(cells={"age": ("adult",), "home": ("prison",)}),
            r"the data: district 'A10' counts people in 'adult\*prison', which a constraint says is empty",
        ),
    ],
)
def test_data_that_break_a_constraint_are_refused_before_any_noise(land, constraint, message):
    people, _ = land
    with pytest.raises(InputError, match=message):
        protect(people, plan_for(people, constraint), seed=1)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("units", "message"),
    [
        (
            [[3, 7, 0], [2, 0, 0], [4, 0, 0]],
            r"district 'A10' has 6 in 'prison' of 'home', not 7 to 699,993 \(persons by",
        ),
        ([[3, 0, 0], [2, 0, 0], [4, 0, 0]], r"district 'A10' has 6 in 'prison' of 'home', not exactly 0 \(persons by"),
        ([[3, 1, 0], [2, 0, 0], [4, 0, 1]], r"district 'B10' has 0 in 'dorm' of 'home', not 1 to 99,999 \(persons by"),
        (
            [[3, 1, 0], [13, 0, 0], [4, 0, 0]],
            r"district 'A11' has 12 in 'house' of 'home', not 13 to 1,287 \(persons by",
        ),
    ],
)
def test_data_that_break_the_bounds_of_facilities_are_refused_before_any_noise(land, units, message):
    people, _ = land
    built = built_of(people.spine, units)
    with pytest.raises(InputError, match=message):
        protect(people, plan_for(people, STATE_TOTALS, RULE_1940), facilities=built, seed=1)


@pytest.mark.usefixtures("no_noise")
def test_facility_bounds_without_facilities_are_refused_before_any_noise(land):
    people, _ = land
    with pytest.raises(
        InputError, match=r"bounds persons by facilities .*but no facilities are given\. Give the table"
    ):
        protect(people, plan_for(people, RULE_1940), seed=1)


@pytest.mark.usefixtures("no_noise")
def test_facilities_of_other_types_are_refused_with_both_lists(land):
    people, _ = land
    built = Facilities.from_entries(
        people.spine, attribute="home", types=["house", "dorm", "prison"], unit=[0], kind=[0], count=[1]
    )
    message = "types house, dorm, prison; attribute 'home' has house, prison, dorm. Give them the same labels"
    with pytest.raises(InputError, match=message):
        protect(people, plan_for(people, RULE_1940), facilities=built, seed=1)


@pytest.mark.usefixtures("no_noise")
def test_facilities_of_other_units_are_refused_even_where_there_are_as_many(land):
    people, _ = land
    other = spine_of({"A": 1, "B": 2})
    with pytest.raises(InputError, match=r"the facilities are on another spine .* than the counts"):
        protect(people, plan_for(people, RULE_1940), facilities=built_of(other, [[3, 1, 0]] * 3), seed=1)


@pytest.mark.usefixtures("no_noise")
def test_the_test_for_noise_above_can_fail(land):
    people, _ = land
    with pytest.raises(EndedAfterNoise, match=r"^AssertionError\. Noise had been drawn"):
        protect(people, plan_for(people, STATE_TOTALS), seed=1)


def test_structural_zeros_of_schema_and_strategy_both_close_cells(land):
    people, _ = land
    schema = Schema(attributes=SCHEMA.attributes, zeros=[{"age": ["minor"], "home": ["prison"]}])
    plan = plan_for(people, StructuralZero(cells={"home": ("dorm",)}))
    open_cells = np.array(schema.query("detailed").labels())[possible_cells(schema, plan)]
    assert open_cells.tolist() == ["minor*house", "adult*house", "adult*prison"]


def test_what_several_bounds_say_about_the_total_is_carried_up_with_them(land):
    people, _ = land
    age = Bound(query="age", level="district", least={"adult": 6}, most={"adult": 20, "minor": 1})  # 6 to 21
    home = Bound(
        query="home", level="district", least={"house": 8}, most={"house": 12, "prison": 6, "dorm": 0}
    )  # 8, 18
    found = bounds(people, age, home)
    assert found["district"]["total"] == ([[8]] * 3, [[18]] * 3)
    assert found["district"]["age"] == ([[0, 7]] * 3, [[1, 18]] * 3)  # 8 people, one minor at most: 7 adults
    assert found["state"]["total"] == ([[16], [8]], [[36], [18]])
    assert found["us"]["total"] == ([[39]], [[39]])
    assert found["us"]["home"] == ([[24, 3, 0]], [[36, 15, 0]])  # 39 people: 36 fit into houses, 24 must be there


def test_bounds_of_the_leaves_are_carried_up_the_spine_that_is_measured():
    rows = [("1", "1a", "1a1", f"1a{i}") for i in range(5)] + [("2", "2a", "2a1", "2a5")]
    names = ("state", "county", "district", "block")
    spine = Spine.from_columns(dict(zip(names, zip(*rows, strict=True), strict=True)), root="us")
    people = people_of(spine, [[1, 0, 0]] * 6)
    tribal = Areas.from_codes(spine, leaf=["1a1", "1a3"], area=["Pueblo"] * 2)
    bound = Bound(query="home", level="block", most=3)
    one = Bound(query="home", level="block", least={"prison": 1}, most={"*": 3}, units=["1a3"])
    state = Bound(query="home", level="state", most={"house": 5, "*": 99}, units=["1"])
    made = spine.optimised(tribal=tribal)
    exact = {("total", "us"): Counts.from_dense([[6]])}
    limits = run_limits(spine, SCHEMA, plan_for(people, bound, one, state), exact=exact, optimised=made)
    assert made.spine.labels("state") == ["01", "02", "11"]
    assert made.spine.labels("block") == ["1a0", "1a2", "1a4", "2a5", "1a1", "1a3"]
    found = {level: [(one.query.name, *(part.tolist() for part in one.all())) for one in some]
             for level, some in limits.carried.items()}  # fmt: skip
    assert found["block"] == [("home", [[0, 0, 0]] * 5 + [[0, 1, 0]], [[3, 3, 3]] * 6)]
    assert found["county"] == [("home", [[0, 0, 0]] * 2 + [[0, 1, 0]], [[9, 9, 9], [3, 3, 3], [6, 6, 6]])]
    parts, whole = found["state"]
    assert parts == found["county"][0]
    assert whole == ("home", [[0, 1, 0], [0, 0, 0]], [[5, 15, 15], [3, 3, 3]])  # by state, its parts together
    assert limits.carried["state"][1].owner.tolist() == [0, 1, 0]
    assert found["us"][1] == ("home", [[0, 1, 0]], [[5, 6, 5]])  # 8, 18 and 18 but for six people, one in prison


def test_a_tree_too_large_to_decide_is_run_and_ends_after_noise_where_nothing_can_hold(monkeypatch):
    monkeypatch.setattr("tallyveil.engine.feasibility.LARGEST", 1)
    spine = Spine.from_columns({"county": ["A", "A"], "tract": ["A1", "A2"]}, root="state")
    schema = Schema(attributes={"race": ["a", "b", "c"]})
    people = Histogram(spine=spine, schema=schema, leaves=Counts.from_dense([[1, 0, 0], [0, 0, 9]]))
    constraints = (
        Bound(query="total", level="tract", most=1, units=["A1"]),
        Bound(query="race", level="tract", most={"a": 0, "b": 0}, units=["A2"]),
        Bound(query="race", level="county", least={"a": 1, "b": 1}),
    )
    plan = replace(plan_for(people, *constraints), check_constraints=False)
    with pytest.raises(EndedAfterNoise, match=r"the children of county 'A' \(level 'tract'\).*No counts keep all"):
        protect(people, plan, seed=1)


@pytest.mark.usefixtures("no_noise")
def test_a_conflict_at_the_root_is_found_before_noise_and_costs_nothing_however_large_the_tree(monkeypatch, tmp_path):
    monkeypatch.setattr("tallyveil.engine.feasibility.LARGEST", 1)
    people = people_of(spine_of({"A": 2}), [[5, 0, 0], [5, 0, 0]])
    constraints = (
        Bound(query="age", level="us", least={"minor": 6}),
        Bound(query="home", level="us", least={"prison": 6}),
        StructuralZero(cells={"age": ("minor",), "home": ("prison",)}),
    )
    plan, ledger = replace(plan_for(people, *constraints), check_constraints=False), tmp_path / "p.jsonl"
    for attempt in (
        lambda: protect(people, plan, seed=1),
        lambda: protect_to_folder(people, plan, tmp_path / "r", ledger=Spending(ledger=ledger)),
        lambda: topdown(measure(people, plan, RunKey.from_system())),
    ):
        ledger.touch()
        with pytest.raises(InputError, match=r"level 'us': .*all together.*Loosen a constraint") as problem:
            attempt()
        assert not isinstance(problem.value, EndedAfterNoise)
        assert "drawn" not in str(problem.value)
        assert [path.name for path in tmp_path.iterdir()] == ["p.jsonl"]
        assert ledger.read_bytes() == b""
