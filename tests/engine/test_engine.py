"""The loop from root to leaves: what it keeps, what it copies, how it spreads, and the failsafe."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from levels_seen import levels_seen
from tallyveil import Areas, Facilities, Histogram, Schema, Spine, Strategy
from tallyveil.engine import level as engine
from tallyveil.engine.topdown import topdown
from tallyveil.errors import BudgetError, EndedAfterNoise, InputError, TallyveilError
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import Bound, FacilityBounds, Invariant, RunKey, StructuralZero
from tallyveil.release.measurements import Measurements

SEED = RunKey.from_seed(20)
SCHEMA = Schema(attributes={"age": ["minor", "adult"], "race": ["a", "b", "c"]})


def spine_of(shape: list[list[int]]) -> Spine:
    """For each county its tracts, for each tract its number of blocks."""
    rows = [
        (f"{county:02d}", f"{county:02d}{tract:02d}", f"{county:02d}{tract:02d}{block:02d}")
        for county, tracts in enumerate(shape)
        for tract, blocks in enumerate(tracts)
        for block in range(blocks)
    ]
    return Spine.from_columns(dict(zip(("county", "tract", "block"), zip(*rows, strict=True), strict=True)), root="us")


def people_of(spine: Spine, table, schema: Schema = SCHEMA) -> Histogram:
    return Histogram(spine=spine, schema=schema, leaves=Counts.from_dense(table))


def some_people(shape: list[list[int]], seed: int = 1, mean: float = 3) -> Histogram:
    spine = spine_of(shape)
    return people_of(spine, np.random.default_rng(seed).poisson(mean, (spine.size("block"), SCHEMA.cells)))


def fixed_measurements(spine: Spine, schema: Schema, plan: Strategy, answers: dict, **exact) -> Measurements:
    """Measurements with these noisy answers: for each level a table of units by cells."""

    def ask(level, query, index):
        rows = schema.query(query)
        out = np.zeros((spine.size(level), rows.size), np.int64)
        np.add.at(out, (slice(None), rows.row_of_cell), np.asarray(answers[level]))
        return out.ravel()[index]

    kept = {tuple(name.split("_")): Counts.from_dense(table) for name, table in exact.items()}
    return Measurements(spine=spine, schema=schema, strategy=plan, ask=ask, exact=kept)


@pytest.mark.parametrize("rounding", ["margins", "cells"])
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": "1/10"}])
def test_what_was_released_at_each_level_is_the_sum_of_its_leaves(monkeypatch, budget, rounding):
    people = some_people([[4, 1, 7], [2], [1], [5, 5]])
    plan = replace(Strategy.default(people.spine, SCHEMA, **budget), rounding=rounding)
    seen = levels_seen(monkeypatch)
    release, _ = topdown(measure(people, plan, SEED))
    sums = dict(release.by_level())
    assert list(seen) == ["us", "county", "tract"]
    assert all(np.array_equal(seen[level].dense(), sums[level].dense()) for level in seen)
    assert release != people


def test_the_children_of_an_empty_parent_are_empty_and_an_only_child_copies_whatever_it_measures():
    spine = spine_of([[1], [2, 2]])
    plan = Strategy.default(spine, SCHEMA, epsilon=1).with_estimator("topdown")
    county = np.array([[5, 0, 9, 0, 0, 7], [8, 8, 0, 1, 0, 4]])
    tract = np.array([[50, 50, 50, 50, 50, 50], [8, 8, 0, 1, 0, 4], [0] * 6])
    block = np.full((5, 6), 99)  # what blocks say about tracts that are empty, or only children, is not heard
    noisy = fixed_measurements(
        spine, SCHEMA, plan, {"us": [county.sum(0)], "county": county, "tract": tract, "block": block}
    )
    release, solved = topdown(noisy)
    assert release.at("county").dense().tolist() == county.tolist()
    assert release.at("tract").dense().tolist() == [county[0].tolist(), county[1].tolist(), [0] * 6]
    assert release.leaves.dense()[0].tolist() == county[0].tolist()
    assert not release.leaves.dense()[3:].any()
    by_level = {one.level: (one.parents, one.copied, one.empty) for one in solved}
    assert by_level == {"us": (1, 0, 0), "county": (1, 0, 0), "tract": (1, 1, 0), "block": (1, 1, 1)}


def test_noise_is_asked_for_only_where_the_parent_has_anybody():
    people = people_of(spine_of([[2], [3]]), [[4, 0, 0, 2, 0, 0]] * 2 + [[1, 0, 5, 0, 0, 0]] * 3)
    plan = Strategy.default(people.spine, SCHEMA, epsilon=10**6)  # so the released parents are the true ones
    plan = plan.with_estimator("topdown")
    noisy, asked = measure(people, plan, SEED), {}

    def ask(level, query, index):
        if query == "detailed":
            asked.setdefault(level, []).extend(np.stack(np.divmod(index, SCHEMA.cells), axis=1).tolist())
        return noisy.ask(level, query, index)

    topdown(replace(noisy, ask=ask))
    assert asked["us"] == [[0, cell] for cell in range(6)]  # every cell: the root's support is not the truth's
    assert asked["county"] == [[unit, cell] for unit in range(2) for cell in (0, 2, 3)]
    assert "tract" not in asked  # only children
    assert asked["block"] == [[u, c] for u in (0, 1) for c in (0, 3)] + [[u, c] for u in (2, 3, 4) for c in (0, 2)]


def test_some_cell_that_is_truly_empty_is_not_empty_in_a_release():
    people = people_of(spine_of([[3], [3]]), np.eye(6, dtype=int) * 9)
    plan = Strategy.default(people.spine, SCHEMA, epsilon=1)
    truly_empty = people.leaves.dense() == 0
    found = [topdown(measure(people, plan, SEED, replicate=r))[0].leaves.dense()[truly_empty] > 0 for r in range(30)]
    assert np.mean(np.any(found, axis=0)) > 0.9  # nearly every such cell, in some release
    emptied = [topdown(measure(people, plan, SEED, replicate=r))[0].leaves.dense()[~truly_empty] == 0 for r in range(5)]
    assert np.any(emptied)  # and somebody's cell is empty in some release


@pytest.mark.parametrize("budget", [{"epsilon": 2}, {"rho": "1/4"}])
def test_a_truly_empty_cell_hears_the_same_noise_as_any_other(budget):
    """Noise on true non-zeros only would show who is there: the spread on zeros is the declared one, to 5%."""
    table = np.zeros((8000, 6), dtype=int)
    table[::2, :] = 7
    spine = Spine.from_columns({"block": [f"{block:04d}" for block in range(8000)]}, root="us")
    noisy = measure(people_of(spine, table), Strategy.default(spine, SCHEMA, **budget), SEED)
    errors = noisy.ask("block", "detailed", np.arange(table.size)).reshape(table.shape) - table
    variance = noisy.noise("block", "detailed", 1).actual_variance()
    for some in (errors[table == 0], errors[table > 0]):
        assert abs(some.var() / variance - 1) < 0.05
        assert abs(some.mean()) < 4 * np.sqrt(variance / some.size)


def test_pieces_of_any_size_and_order_give_the_same_counts(monkeypatch):
    people = some_people([[4, 1, 7], [2], [1], [5, 5]])
    noisy = measure(people, Strategy.default(people.spine, SCHEMA, epsilon=1), SEED)
    whole, how = topdown(noisy)
    for chunk in (1, 13, 40):
        monkeypatch.setattr(engine, "CHUNK", chunk)
        pieces = []
        again, how_again = topdown(noisy, run=lambda do, work: backwards(do, work, pieces))  # noqa: B023
        assert b"".join(again.canonical_bytes()) == b"".join(whole.canonical_bytes())
        assert how_again == how
        assert max(pieces) > 1


def backwards(do, work, pieces: list):
    todo = list(work)
    pieces.append(len(todo))
    return reversed([do(one) for one in reversed(todo)])


def test_progress_counts_the_parents_of_each_level_to_the_end():
    people = some_people([[4, 1, 7], [2], [1], [5, 5]])
    seen = []
    topdown(
        measure(people, Strategy.default(people.spine, SCHEMA, epsilon=1), SEED), progress=lambda *one: seen.append(one)
    )
    assert [(level, done, of) for level, done, of in seen if done == of] == [
        ("us", 1, 1), ("county", 1, 1), ("tract", 4, 4), ("block", 7, 7)
    ]  # fmt: skip


def test_with_passes_totals_stay_where_the_first_pass_put_them_and_without_they_do_not():
    people = some_people([[6, 6, 6, 6]], mean=20)
    weights = {"total": 1, "age": 4, "race": 4, "detailed": 4}
    plan = Strategy.proportional(
        mechanism="gaussian", budget="1/50", levels=dict.fromkeys(people.spine.levels, 1),
        queries=dict.fromkeys(people.spine.levels, weights),
    )  # fmt: skip
    noisy = measure(people, plan, SEED)
    in_passes = replace(plan, passes={"tract": [["total"], ["*"]]})
    moved = {}
    for name, strategy in (("without", plan), ("with", in_passes)):
        release, _ = topdown(replace(noisy, strategy=strategy))
        totals = release.answer("total", level="tract").dense()[:, 0]
        said = noisy.ask("tract", "total", np.arange(4))
        first_pass = said + (people.total() - said.sum()) / 4  # equal weights, sum kept
        assert first_pass.min() > 0
        moved[name] = np.abs(totals - first_pass).max()
    assert moved["with"] <= 0.1 + 1
    assert moved["without"] > 3


def test_a_pass_that_names_every_query_alone_equals_no_passes():
    people = some_people([[3, 3], [2]], mean=6)
    plan = Strategy.default(people.spine, SCHEMA, rho="1/10")
    noisy = measure(people, plan, SEED)
    one_pass = replace(plan, passes={level: [["*"]] for level in people.spine.levels})
    assert topdown(replace(noisy, strategy=one_pass))[0] == topdown(noisy)[0]


def test_the_parts_of_a_split_unit_have_one_exact_total_together():
    people = some_people([[2, 2], [2, 3], [2]], mean=4)
    plan = Strategy.default(people.spine, SCHEMA, epsilon="1/5")
    plan = replace(plan, constraints=(Invariant(query="total", level="county"),))
    inside = ["010100", "010101", "010102"]  # the second tract of county 01
    tribal = Areas.from_codes(people.spine, leaf=inside, area=["Pueblo"] * 3)
    made = people.spine.optimised(tribal=tribal)
    release, _ = topdown(measure(people, plan, SEED, optimised=made))
    parts, truth = made.part_of["county"], made.moved(people)
    assert parts.tolist() == [0, 1, 2, 1]
    found, wanted = (np.bincount(parts, one.answer("total", level="county").dense()[:, 0]) for one in (release, truth))
    assert found.tolist() == wanted.tolist()
    alone = release.answer("total", level="county").dense() != truth.answer("total", level="county").dense()
    assert alone[:, 0].tolist() == [False, True, False, True]  # a part alone is not exact


HOMES = ("house", "hotel", "prison", "dorm")
HOME = Schema(attributes={"age": ["minor", "adult"], "home": HOMES})
ROOM = FacilityBounds(attribute="home", level="tract", least=0, most=10)


@pytest.fixture
def crowded():
    """County A has a prison and a dorm, county B a house and a hotel, ten people each; the state says 10, 10, 0, 0.

    A prison and a dorm could hold 20, so the state does not see that county A must be 10.
    """
    codes = {"county": ["A", "A", "B", "B"], "tract": ["A1", "A2", "B1", "B2"]}
    spine = Spine.from_columns(codes, root="state")
    units = [[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    built = Facilities(spine=spine, attribute="home", types=HOMES, leaves=Counts.from_dense(units))
    plan = Strategy.default(spine, HOME, epsilon=1)
    plan = replace(plan, constraints=(Invariant(query="total", level="county"), ROOM))
    answers = {"state": [[0, 0, 3, 2, 0, 0, 7, 8]], "county": [[2] * 8] * 2, "tract": [[1] * 8] * 4}
    return (
        fixed_measurements(spine, HOME, plan, answers, total_state=[[20]], total_county=[[10], [10]]),
        built,
        np.array(units),
    )


def test_without_the_failsafe_a_conflict_ends_the_run_and_names_unit_level_and_both_constraints(crowded):
    noisy, built, _ = crowded
    with pytest.raises(EndedAfterNoise) as problem:
        topdown(noisy, facilities=built, failsafe=False)
    assert not isinstance(problem.value, InputError)  # whether it ends depends on the noise
    text = str(problem.value)
    assert text.startswith("the children of state 'state' (level 'county'): ")
    assert f"total is exact for every county and {ROOM.words()}: the children can keep each, but not all" in text
    assert text.endswith("Loosen a constraint, or use the failsafe.")


def test_the_failsafe_keeps_all_constraints_and_writes_down_what_it_moved(crowded):
    noisy, built, units = crowded
    release, solved = topdown(noisy, facilities=built)
    home = release.answer("home", level="tract").dense()
    assert (home <= 10 * units).all()
    assert release.answer("total", level="county").dense().tolist() == [[10], [10]]
    assert release.answer("home", level="state").dense()[0, :2].sum() == 10  # who had no room moved to county B
    assert release.answer("age", level="state").dense().tolist() == [[5, 15]]  # sums over homes are kept
    relaxed = {one.level: [(two.unit, two.amount, two.constraints) for two in one.relaxed] for one in solved}
    conflict = ("total is exact for every county", ROOM.words())
    assert relaxed == {"state": [], "county": [("state", 20, conflict)], "tract": []}


def test_the_failsafe_changes_nothing_where_nothing_is_in_conflict(crowded):
    noisy, built, _ = crowded
    answers = {"state": [[1, 4, 3, 2, 2, 3, 2, 3]], "county": [[2] * 8] * 2, "tract": [[1] * 8] * 4}
    exact = {f"{query}_{level}": counts.dense() for (query, level), counts in noisy.exact.items()}
    fits = fixed_measurements(noisy.spine, HOME, noisy.strategy, answers, **exact)
    with_it, solved = topdown(fits, facilities=built)
    assert with_it == topdown(fits, facilities=built, failsafe=False)[0]
    assert not any(one.relaxed for one in solved)


@pytest.fixture
def hidden():
    """Two counties alike: one tract holds at most 1 person of race a or b, the other only race c. Each race once.

    A county may seem to hold one a and one b. If it is estimated so, it cannot give way alone: the state has each once.
    """
    codes = {"county": ["A", "A", "B", "B"], "tract": ["A1", "A2", "B1", "B2"]}
    spine = Spine.from_columns(codes, root="state")
    schema = Schema(attributes={"race": ["a", "b", "c"]})
    constraints = (
        Bound(query="total", level="tract", most=1, units=["A1", "B1"]),
        Bound(query="race", level="tract", most={"a": 1, "b": 1, "c": 0}, units=["A1", "B1"]),
        Bound(query="race", level="tract", most={"a": 0, "b": 0, "c": 9}, units=["A2", "B2"]),
        Bound(query="race", level="state", least={"a": 1, "b": 1}, most={"a": 1, "b": 1}),
    )
    plan = replace(Strategy.default(spine, schema, epsilon=1), constraints=constraints)
    answers = {"state": [[1, 1, 8]], "county": [[9, 9, 4], [-9, -9, 4]], "tract": [[1, 1, 4]] * 4}
    return fixed_measurements(spine, schema, plan, answers, total_state=[[10]])


def test_where_a_unit_cannot_give_way_alone_its_siblings_give_way_with_it(hidden):
    release, solved = topdown(hidden)
    assert release.at("county").dense()[:, :2].sum(axis=1).tolist() == [1, 1]
    assert release.at("state").dense().tolist() == [[1, 1, 8]]
    relaxed = [(one.level, two.unit, two.amount) for one in solved for two in one.relaxed]
    assert [(level, unit) for level, unit, _ in relaxed] == [("tract", "A"), ("tract", "B")]
    assert [amount for *_, amount in relaxed] == [1, 1]  # one person moves from one county to the other


def test_a_failsafe_that_finds_no_way_out_ends_the_run_after_noise(hidden, monkeypatch):
    monkeypatch.setattr("tallyveil.engine.relax.nearest_parents", lambda *_: None)
    with pytest.raises(EndedAfterNoise, match=r"the children of county 'A' \(level 'tract'\).*No counts keep all"):
        topdown(hidden)


def test_whatever_else_goes_wrong_after_noise_is_of_the_same_kind(hidden, monkeypatch):
    def fail(*_, **__):
        raise TallyveilError("the solver gave up")

    monkeypatch.setattr(engine, "round_nests", fail)
    with pytest.raises(EndedAfterNoise, match="the solver gave up"):
        topdown(hidden)


def test_a_release_that_breaks_a_constraint_is_never_returned(hidden, monkeypatch):
    monkeypatch.setattr(engine, "conflicts", lambda *_: iter(()))  # solve what cannot be solved
    real = engine.round_nests
    monkeypatch.setattr(engine, "round_nests", lambda x, nests, _, *rest: real(x, nests, [], *rest))
    with pytest.raises(EndedAfterNoise, match=r"the release: tract '.1' has . in 'total' of 'total'"):
        topdown(hidden)


def test_threads_do_not_change_what_the_failsafe_does(hidden, monkeypatch):
    monkeypatch.setattr(engine, "CHUNK", 1)
    with ThreadPoolExecutor(3) as pool:
        assert topdown(hidden, run=pool.map) == topdown(hidden)


def test_constraints_that_no_root_can_keep_are_refused_with_their_words():
    spine = spine_of([[2], [2]])
    plan = Strategy.default(spine, SCHEMA, epsilon=1)
    bound = Bound(query="race", level="block", most=1)
    noisy = fixed_measurements(spine, SCHEMA, replace(plan, constraints=(bound,)), {"us": [[2] * 6]}, total_us=[[13]])
    noisy = replace(noisy, ask=None)  # nothing may be asked
    message = (
        r"us 'us' would have at least 13 and at most 12 in 'total' of 'total' \(total is exact for every us; "
        r"race in every block: every row at most 1\). Loosen a constraint"
    )
    with pytest.raises(InputError, match=message):
        topdown(noisy)


def test_errors_spread_as_weighted_least_squares_says_and_noise_10_percent_off_would_be_seen():
    """Counts far from zero, so nothing binds: the released counts are linear in the noise, with a known covariance.

    Half of the counties have one tract: they pay for its share too, so weights differ between siblings.
    """
    n = 8
    tracts = [f"{county}{tract}" for county in range(n) for tract in range(1 + county % 2)]
    spine = Spine.from_columns({"county": [code[0] for code in tracts], "tract": tracts}, root="us")
    people = people_of(spine, 20_000 + 100 * np.arange(12 * 6).reshape(12, 6))
    plan = Strategy.proportional(
        mechanism="gaussian", budget="1/2000", only_child=True,
        levels={"us": 3, "county": 1, "tract": 4},
        queries={level: {"total": 4, "race": 2, "detailed": 1} for level in spine.levels},
    )  # fmt: skip
    rows = [SCHEMA.query(query) for query in plan.queries["us"]]
    design = np.concatenate([np.eye(query.size)[query.row_of_cell].T for query in rows])
    noisy = measure(people, plan, SEED)

    def variances(level: str, unit: int) -> np.ndarray:
        span = int(noisy.shares[level].spans[unit])
        return np.concatenate([np.full(query.size, noisy.variances(level, query.name)[span]) for query in rows])

    # The root: one unit whose total is exact. The counties: their cells sum to the root's released cells.
    root = fitted(design, variances("us", 0), np.ones((1, 6)))
    spread = np.concatenate([variances("county", unit) for unit in range(n)])
    county = fitted(np.kron(np.eye(n), design), spread, np.kron(np.ones((1, n)), np.eye(6)))
    same = fitted(np.kron(np.eye(n), design), np.ones_like(spread), np.kron(np.ones((1, n)), np.eye(6)))
    truth = people.at("county").dense().ravel()
    errors = [
        topdown(measure(people, plan, SEED, replicate=r))[0].at("county").dense().ravel() - truth for r in range(250)
    ]
    errors = np.array(errors, dtype=float)

    def covariance(of_counties) -> np.ndarray:
        from_noise, from_root = of_counties
        above = root[0] * variances("us", 0) @ root[0].T
        return from_noise * spread @ from_noise.T + from_root @ above @ from_root.T

    whole = covariance(county)
    totals = np.kron(np.eye(n), np.ones((1, 6)))
    for some, matrix in ((errors, whole), (errors @ totals.T, totals @ whole @ totals.T)):
        assert p_value(some, matrix) > 0.01
        assert p_value(some, 1.1**2 * matrix) < 1e-4
        assert p_value(some, 0.9**2 * matrix) < 1e-4
    assert p_value(errors, covariance(same)) < 1e-6  # siblings weighted alike would be seen


def fitted(design, variances, sums) -> tuple[np.ndarray, np.ndarray]:
    """Least squares with ``sums @ x`` given, as matrices to be applied to the noisy answers and to the sums."""
    weighted = design.T / variances
    n = design.shape[1]
    kkt = np.block([[weighted @ design, sums.T], [sums, np.zeros((len(sums), len(sums)))]])
    inverse = np.linalg.inv(kkt)
    return inverse[:n, :n] @ weighted, inverse[:n, n:]


def p_value(errors, covariance) -> float:
    """Two-sided, for errors drawn from a normal distribution with this covariance (which may be singular)."""
    values, vectors = np.linalg.eigh(covariance)
    real = values > 1e-9 * values.max()
    scaled = errors @ vectors[:, real] / np.sqrt(values[real])
    df = scaled.size
    return float(2 * min(chi2.cdf((scaled**2).sum(), df), chi2.sf((scaled**2).sum(), df)))


@st.composite
def cases(draw) -> tuple[Histogram, Strategy]:
    """A small tree of people, and a strategy with any mix of what strategies have."""
    shape = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=3))
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    schema = Schema(attributes={f"a{i}": [f"{i}{label}" for label in range(size)] for i, size in enumerate(sizes)})
    spine = spine_of(shape)
    largest = draw(st.sampled_from([0, 1, 3, 1000]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    people = people_of(spine, rng.integers(0, largest + 1, (spine.size("block"), schema.cells)), schema)
    budget = {draw(st.sampled_from(["epsilon", "rho"])): draw(st.sampled_from(["1/1000", "1/3", "20", "10000000000"]))}
    level = st.sampled_from(spine.levels)
    exact = st.builds(Invariant, query=st.sampled_from(["total", "a0", "detailed"]), level=level)
    top = st.builds(
        Bound, query=st.sampled_from(["total", "a0"]), level=level, most=st.just(1000 * people.leaves.units * 9)
    )
    few = st.builds(Bound, query=st.just("detailed"), level=st.just("block"), most=st.just(largest))
    constraints = draw(st.lists(st.one_of(exact, top, few), max_size=2, unique_by=lambda one: one.words()))
    known = [one for one in constraints if isinstance(one, Invariant)] if draw(st.booleans()) else []
    try:
        plan = Strategy.default(spine, schema, **budget, invariants=known)  # leaves out what is known to be exact
    except BudgetError:
        assume(False)  # every count is exact
    plan = replace(
        plan,
        constraints=constraints,
        only_child=draw(st.booleans()),
        rounding=draw(st.sampled_from(["margins", "cells"])),
        passes={"tract": [["total"], ["*"]]} if "total" in plan.queries["tract"] and draw(st.booleans()) else {},
    )
    return people, plan


@settings(max_examples=60)
@given(case=cases(), seed=st.integers(0, 1000))
def test_any_release_is_whole_consistent_and_keeps_what_it_must(case, seed):
    people, plan = case
    with pytest.MonkeyPatch.context() as patch:
        seen = levels_seen(patch)
        release, solved = topdown(measure(people, plan, RunKey.from_seed(seed)))
    assert np.issubdtype(release.leaves.count.dtype, np.integer)
    assert (release.leaves.count > 0).all()  # sparse: nothing negative, no zero stored
    assert release.total() == people.total()
    if not any(one.relaxed for one in solved):
        sums = dict(release.by_level())
        assert all(np.array_equal(counts.dense(), sums[level].dense()) for level, counts in seen.items())
    for one in plan.constraints:
        found = release.answer(one.query, level=one.level).dense()
        if isinstance(one, Invariant):
            assert np.array_equal(found, people.answer(one.query, level=one.level).dense())
        else:
            assert (found <= one.limits(people.schema)[1]).all()
    if plan.budget > 10**9:
        assert release == people


@settings(max_examples=30)
@given(data=st.data())
def test_relabelling_measurements_relabels_the_release(data):
    """Siblings in another order, with their measurements, come out in that order (where no ties are to be broken)."""
    order = data.draw(st.permutations(range(4)))
    answers = data.draw(st.lists(st.integers(5, 60), min_size=24, max_size=24, unique=True))
    table = np.array(answers).reshape(4, 6)
    spine = Spine.from_columns({"block": ["1", "2", "3", "4"]}, root="us")
    plan = Strategy.default(spine, SCHEMA, epsilon=1)
    us = [table.sum(axis=0)]  # sums agree, so the estimate is the answers themselves
    first, _ = topdown(fixed_measurements(spine, SCHEMA, plan, {"us": us, "block": table}, total_us=[[table.sum()]]))
    moved, _ = topdown(
        fixed_measurements(spine, SCHEMA, plan, {"us": us, "block": table[order]}, total_us=[[table.sum()]])
    )
    assert first.leaves.dense().tolist() == table.tolist()
    assert moved.leaves.dense().tolist() == table[order].tolist()


def test_structural_zeros_stay_empty_where_everything_else_is_noisy():
    zero = StructuralZero(cells={"age": ("minor",), "race": ("c",)})
    table = np.random.default_rng(3).poisson(2, (8, 6))
    closed = SCHEMA.cell(age="minor", race="c")
    table[:, closed] = 0
    people = people_of(spine_of([[4], [2, 2]]), table)
    plan = replace(Strategy.default(people.spine, SCHEMA, epsilon="1/10"), constraints=(zero,))
    for replicate in range(5):
        release, _ = topdown(measure(people, plan, SEED, replicate=replicate))
        assert not release.leaves.dense()[:, closed].any()
    unbound = [measure(people, replace(plan, constraints=()), SEED, replicate=replicate) for replicate in range(5)]
    assert any(topdown(noisy)[0].leaves.dense()[:, closed].any() for noisy in unbound)
