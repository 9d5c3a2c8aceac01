"""The audit: bounds near epsilon for right mechanisms, never above it by more than chance, and planted bugs caught."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

from tallyveil import Histogram, Schema, Spine
from tallyveil.errors import InputError
from tallyveil.evaluate.audit import search
from tallyveil.evaluate.audit.audit import audit, bound_of
from tallyveil.evaluate.audit.search import Search
from tallyveil.evaluate.audit.views import AuditView, look, neighbour, neighbours_in_words, views_of
from tallyveil.evaluate.direct import direct
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.privacy import DiscreteGaussian, Geometric, RunKey, epsilon_from_rho
from tallyveil.privacy.sampling import draw
from tallyveil.runs.batches import Execution

SPINE = Spine.from_columns({"county": ["1", "1", "2", "2"], "block": ["11", "12", "21", "22"]}, root="us")
SCHEMA = Schema(attributes={"age": ["child", "adult"]})
PEOPLE = Histogram.from_entries(
    SPINE, SCHEMA, unit=[0, 0, 1, 1, 2, 2, 3], cell=[0, 1, 0, 1, 0, 1, 1], count=[3, 8, 2, 9, 4, 5, 7]
)
MOVED = neighbour(PEOPLE, unit=0, cell=1, to_unit=3)  # changes blocks and counties
AGED = neighbour(PEOPLE, unit=0, cell=1, to_unit=2, to_cell=0)  # changes the root's cells too
LEAVES = (
    AuditView(level="block", unit=0, query="detailed", row=1),
    AuditView(level="block", unit=3, query="detailed", row=1),
)


@dataclass(frozen=True)
class Noisy:
    """Independent noise on all counts of some levels; ``bug`` may spoil the noise (runs x places) of a level."""

    noise: Geometric | DiscreteGaussian
    seed: int
    levels: tuple[str, ...] = ("block",)
    bug: Callable | None = None

    def __call__(self, people: Histogram, runs: range) -> Estimates:
        stream = RunKey.from_seed(self.seed).stream(people.canonical_bytes())
        tables = {}
        for level in self.levels:
            true = people.at(level).dense()
            noise = draw(self.noise, stream, np.arange(true.size), level=SPINE.depth(level), replicate=runs)
            if self.bug:
                noise = self.bug(level, noise, true.reshape(-1), stream)
            tables[level] = true + noise.reshape(len(runs), *true.shape)
        return Estimates(spine=people.spine, schema=people.schema, query="detailed", tables=tables)


def tree(seed: int, *, z: Fraction = Fraction(1, 6), bug: Callable | None = None) -> Noisy:
    """Epsilon 1 for replace-one neighbours: three levels, two counts of each change by 1."""
    return Noisy(Geometric(z=z), seed, levels=SPINE.levels, bug=bug)


def test_the_geometric_mechanism_at_epsilon_1_shows_nearly_all_of_it_jointly_and_half_of_it_in_one_unit():
    found = audit(Noisy(Geometric(z="1/2"), seed=1), PEOPLE, MOVED, runs=50_000, proven=1)
    assert 0.8 < found.joint.epsilon_low <= 1
    assert 0.4 < found.one_unit.epsilon_low <= 0.5
    assert found.best == "joint"
    assert found.epsilon_low == found.joint.epsilon_low
    assert found.verdict == "consistent with epsilon 1"
    assert found.neighbours == "replace-one: one person moved from block 11 (adult) to block 22 (adult)"


def test_removing_a_person_costs_the_geometric_mechanism_half_of_what_moving_one_costs():
    """Erratum 10: the same mechanism has another epsilon for other neighbours."""
    removed = neighbour(PEOPLE, unit=0, cell=1)
    found = audit(Noisy(Geometric(z="1/2"), seed=1), PEOPLE, removed, runs=20_000, proven=0.5)
    assert 0.4 < found.epsilon_low <= 0.5
    assert found.neighbours == "add-or-remove: one person removed from block 11 (adult)"


def test_a_gaussian_mechanism_is_audited_at_its_delta():
    noise = DiscreteGaussian(variance=2)  # rho 1/2 for two counts that change by 1
    proven = epsilon_from_rho(0.5, 0.01)
    found = audit(Noisy(noise, seed=2), PEOPLE, MOVED, runs=20_000, delta=0.01, proven=proven)
    assert 1 < found.epsilon_low <= proven
    assert found.verdict == f"consistent with epsilon {proven:.6g} at delta 0.01"


def test_an_event_is_tested_on_the_second_half_of_the_runs_with_half_the_chance_of_error_on_each_side():
    def lucky(people: Histogram, runs: range) -> np.ndarray:
        """D gives 1 and D' 0 in the first 500 runs; after them D gives 1 in every other run, D' in every tenth."""
        often = 2 if people == PEOPLE else 10
        return np.array([[int(people == PEOPLE) if run < 500 else int(run % often == 0)] * 2 for run in runs])

    found = audit(lucky, PEOPLE, MOVED, runs=1_000, views=LEAVES, confidence=0.9).one_unit
    p, q = (0.5, 0.1) if found.direction == "D over D'" else (0.9, 0.5)
    assert (found.p, found.q) == (p, q)
    low, high = (binomtest(round(500 * share), 500).proportion_ci(0.9) for share in (p, q))  # 5% on each side
    assert (found.p_low, found.q_high) == (pytest.approx(low.low), pytest.approx(high.high))
    assert found.epsilon_low == pytest.approx(np.log(low.low / high.high))


def right_mechanisms() -> list[tuple[Noisy, float]]:
    """200 geometric mechanisms with their epsilon for moved persons, which is tight; half have many values."""
    return [(Noisy(Geometric(z=Fraction(epsilon) / 2), seed), epsilon) for seed in range(100) for epsilon in (1, 0.1)]


def test_of_200_audits_of_right_mechanisms_at_most_5_exceed_the_proven_epsilon():
    found = [audit(run, PEOPLE, MOVED, runs=600, views=LEAVES, proven=proven) for run, proven in right_mechanisms()]
    assert sum(one.exceeds for one in found) <= 5
    assert np.mean([one.epsilon_low for one in found if one.proven == 1]) > 0.3  # and they do say something


def test_choosing_and_testing_on_the_same_runs_exceeds_the_proven_epsilon_far_more_often(monkeypatch):
    monkeypatch.setattr(search, "CAUTION", 1.0)  # the event with the largest bound, as it stands
    fresh, same = 0, 0
    for run, proven in right_mechanisms():
        one, two = (look(run(side, range(600)), LEAVES, 600) for side in (PEOPLE, MOVED))
        true = [look([side], LEAVES, 1)[0].astype(float) for side in (PEOPLE, MOVED)]
        chosen = Search(one=one[:300], two=two[:300], true_one=true[0], true_two=true[1], alpha=0.025).best("joint")
        same += bound_of(chosen, one[:300], two[:300], ["a", "b"], alpha=0.025).epsilon_low > proven
        fresh += bound_of(chosen, one[300:], two[300:], ["a", "b"], alpha=0.025).epsilon_low > proven
    assert fresh <= 5
    assert same > 20


def half_the_noise(level, noise, true, stream):
    del level, true, stream
    return noise


def no_noise_at_blocks(level, noise, true, stream):
    del true, stream
    return noise * (level != "block")


def the_same_noise_in_every_run(level, noise, true, stream):
    del true
    once = draw(Geometric(z="1/6"), stream, np.arange(noise.shape[1]), level=SPINE.depth(level), replicate=0)
    return np.tile(once, (len(noise), 1))


def the_same_noise_in_two_cells(level, noise, true, stream):
    del true, stream
    shared = noise.copy()
    if level == "block":
        shared[:, 4] = noise[:, 1]  # block 21, child has the noise of block 11, adult
    return shared


def noise_only_on_true_non_zeros(level, noise, true, stream):
    del level, stream
    return noise * (true > 0)


INTO_THE_EMPTY = neighbour(PEOPLE, unit=0, cell=1, to_unit=3, to_cell=0)


@pytest.mark.parametrize(
    ("bug", "z", "other", "runs"),
    [
        (half_the_noise, Fraction(1, 3), AGED, 10_000),
        (no_noise_at_blocks, Fraction(1, 6), AGED, 500),
        (the_same_noise_in_every_run, Fraction(1, 6), AGED, 500),
        (the_same_noise_in_two_cells, Fraction(1, 6), AGED, 500),
        (noise_only_on_true_non_zeros, Fraction(1, 6), INTO_THE_EMPTY, 500),
    ],
)
def test_a_planted_bug_is_caught_and_the_right_mechanism_is_not(bug, z, other, runs):
    found = audit(tree(3, z=z, bug=bug), PEOPLE, other, runs=runs, proven=1)
    assert found.exceeds, found
    assert found.verdict == "exceeds the proven epsilon 1: a bug or a wrong claim"
    right = audit(tree(3), PEOPLE, other, runs=runs, proven=1)
    assert not right.exceeds, right


def test_the_result_depends_neither_on_the_batches_nor_on_the_map_and_kept_batches_are_not_run_again():
    asked = []

    def run(people, runs):
        asked.append(runs)
        return tree(4)(people, runs)

    kept: dict = {}
    first = audit(run, PEOPLE, MOVED, runs=1_000, execution=Execution(batch=137, store=kept))
    assert len(asked) == len(kept) == 16
    assert audit(run, PEOPLE, MOVED, runs=1_000, execution=Execution(batch=137, store=kept)) == first
    assert len(asked) == 16
    with ThreadPoolExecutor(2) as pool:
        assert audit(run, PEOPLE, MOVED, runs=1_000, execution=Execution(batch=300, map=pool.map)) == first


def test_an_audit_that_was_stopped_is_taken_up_where_it_was_and_says_how_far_it_is():
    kept, calls, told = {}, [], []

    def failing(people, runs):
        calls.append(runs)
        if len(calls) == 4:
            raise RuntimeError("power cut")
        return tree(4)(people, runs)

    with pytest.raises(RuntimeError, match="power cut"):
        audit(failing, PEOPLE, MOVED, runs=300, execution=Execution(batch=100, store=kept))
    assert len(kept) == 3
    again = audit(
        failing,
        PEOPLE,
        MOVED,
        runs=300,
        execution=Execution(batch=100, store=kept, progress=lambda *at: told.append(at)),
    )
    assert len(calls) == 4 + 3
    assert told == [(300, 600), (400, 600), (500, 600), (600, 600)]
    assert again == audit(tree(4), PEOPLE, MOVED, runs=300)


def test_kept_runs_of_another_shape_are_refused():
    kept = {"people-000000000-000000100": np.zeros((100, 1), dtype=np.int64)}
    with pytest.raises(InputError, match=r"stored runs people-000000000-000000100 have 100 x 1 values, not 100 x 4"):
        audit(tree(4), PEOPLE, MOVED, runs=100, execution=Execution(batch=100, store=kept))


def test_json_says_the_bound_the_event_the_neighbours_and_that_it_is_internal():
    told = audit(tree(4), PEOPLE, MOVED, runs=200, proven=1, events="one-unit").as_json()
    assert told["joint"] is None
    assert told["one_unit"]["epsilon_low"] == told["epsilon_low"]
    assert told["p_low"] <= told["p"]
    assert told["q"] <= told["q_high"]
    assert told["neighbours"].startswith("replace-one: ")
    assert "true counts" in told["note"]
    assert "no proven epsilon" in audit(tree(4), PEOPLE, MOVED, runs=200).verdict


def test_neighbours_are_said_and_anything_else_is_refused():
    assert (
        neighbours_in_words(MOVED, PEOPLE) == "replace-one: one person moved from block 22 (adult) to block 11 (adult)"
    )
    removed = neighbour(PEOPLE, unit=1, cell=0)
    assert neighbours_in_words(removed, PEOPLE) == "add-or-remove: one person added to block 12 (child)"
    with pytest.raises(InputError, match=r"differ in 0 cells by 0 persons in all"):
        audit(tree(1), PEOPLE, PEOPLE, runs=100)
    twice = neighbour(MOVED, unit=0, cell=1, to_unit=3)
    with pytest.raises(InputError, match=r"differ in 2 cells by 4 persons in all\. Neighbours differ by one person"):
        neighbours_in_words(PEOPLE, twice)
    with pytest.raises(InputError, match=r"block 22 \(child\) is empty, so nobody can leave it"):
        neighbour(PEOPLE, unit=3, cell=0)
    with pytest.raises(InputError, match=r"unit 9 is not between 0 and 3"):
        neighbour(PEOPLE, unit=9, cell=0)


def test_views_are_the_changed_counts_from_the_leaves_to_the_highest_level_that_changes():
    def found(other, query):
        return [(v.level, v.unit, v.row) for v in views_of(PEOPLE, other, query=query)]

    assert found(MOVED, "detailed") == [("block", 0, 1), ("block", 3, 1), ("county", 0, 1), ("county", 1, 1)]
    assert found(neighbour(PEOPLE, unit=0, cell=1, to_unit=1), "total") == [("block", 0, 0), ("block", 1, 0)]
    assert ("us", 0, 0) in found(neighbour(PEOPLE, unit=0, cell=1, to_cell=0), "age")
    with pytest.raises(InputError, match=r"no count of 'total' differs"):
        views_of(PEOPLE, neighbour(PEOPLE, unit=0, cell=1, to_cell=0), query="total")


def test_histograms_samples_and_estimates_are_seen_through_the_same_views():
    views = views_of(PEOPLE, AGED)
    true = [PEOPLE.answer(v.query, level=v.level).dense()[v.unit, v.row] for v in views]
    assert look([PEOPLE, PEOPLE], views, 2).tolist() == [true, true]
    assert look(Sample(people=PEOPLE, fraction=Fraction(1, 2)), views, 1).tolist() == [[2 * value for value in true]]
    tables = {"block": PEOPLE.at("block").dense()[None]}
    estimates = Estimates(spine=SPINE, schema=SCHEMA, query="age", tables=tables)
    assert look(estimates, views, 1).tolist() == [true]
    with pytest.raises(InputError, match=r"gave 2 x 6 values of int64 for 3 runs and 6 views"):
        look([PEOPLE, PEOPLE], views, 3)
    with pytest.raises(InputError, match=r"not a finite number"):
        look(np.full((1, 6), np.nan), views, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"runs": 99}, "99 runs a side are too few"),
        ({"confidence": 95}, "confidence must be between 0 and 1, such as 0.95. Got 95"),
        ({"delta": 1}, "delta must be 0 or more and below 1"),
        ({"events": "some"}, '"all", "one-unit" or "joint"'),
        ({"views": LEAVES[:1], "events": "joint"}, "joint events need two views or more"),
    ],
)
def test_bad_settings_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        audit(tree(1), PEOPLE, MOVED, **{"runs": 100, **wrong})


def test_a_batch_without_runs_is_refused():
    with pytest.raises(InputError, match=r"a batch must have 1 run or more\. Got 0 instead"):
        Execution(batch=0)


def test_the_direct_estimate_counts_errors_as_a_loop_would_and_its_intervals_cover_the_noises_own_ratio():
    runs, z = 40_000, 0.25
    run = Noisy(Geometric(z="1/4"), seed=6)
    values = [look(run(side, range(runs)), LEAVES, runs)[:, 0] for side in (PEOPLE, MOVED)]
    table = direct(*values, 8, confidence=0.999)
    for row in table[table.k.abs() < 4].itertuples():
        happened = [[v - 8 == row.k if row.event == "=" else v - 8 >= row.k for v in side.tolist()] for side in values]
        p, q = (sum(side) / runs for side in happened)
        assert (row.p, row.q, row.log_ratio) == (p, q, pytest.approx(np.log(p / q)))
        exact = _ratio(row.event, row.k, z)
        assert row.low < exact < row.high
        if row.event == "=":
            assert not row.low < exact * 2 < row.high


def _ratio(event: str, k: int, z: float) -> float:
    """The log ratio for one area whose count is one less on D'."""
    noise = Geometric(z=Fraction(z))
    of = noise.pmf if event == "=" else noise.tail
    return float(np.log(of(k) / of(k + 1)))


def test_the_direct_estimate_is_infinite_where_an_error_was_never_seen_and_never_undefined():
    table = direct([5, 6], [4, 4], 5)
    assert not table.isna().any(axis=None)
    assert table[(table.event == "=") & (table.k == 0)].log_ratio.item() == np.inf
    assert table[(table.event == "=") & (table.k == -1)].log_ratio.item() == -np.inf
    halves = direct([5.4, 5.6], [5.0, 5.0], 5)
    assert halves[(halves.event == "=") & (halves.k == 0)].p.item() == 0.5
    assert halves[(halves.event == ">=") & (halves.k == 1)].p.tolist() == []
    with pytest.raises(InputError, match="one finite number for each run"):
        direct([], [1], 0)
    with pytest.raises(InputError, match="confidence must be between 0 and 1"):
        direct([1], [1], 0, confidence=2)


def test_a_mechanism_that_reuses_its_buffer_is_audited_like_any_other():
    buffer = np.empty((1000, 2))

    def reusing(people: Histogram, runs: range) -> np.ndarray:
        rng = np.random.default_rng([people.leaves.count[1], runs.start])
        true = people.answer("detailed", level="block").dense()[[0, 3], [1, 1]]
        buffer[: len(runs)] = true + rng.laplace(0, 0.1, (len(runs), 2))
        return buffer[: len(runs)]

    assert audit(reusing, PEOPLE, MOVED, runs=4000, views=LEAVES).epsilon_low > 5
