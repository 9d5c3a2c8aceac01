"""The audit that searches for its neighbours: faults that one kind of pair shows are found, right mechanisms pass."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom
from test_audit import Noisy

from tallyveil import Histogram, Schema, Spine
from tallyveil.auditing.mechanism_runs import SimpleRuns
from tallyveil.auditing.neighbours import choose_neighbour
from tallyveil.auditing.pair_family import PairFamily, pair_family
from tallyveil.errors import InputError
from tallyveil.evaluate.audit import learners, search
from tallyveil.evaluate.audit.audit import audit
from tallyveil.evaluate.audit.pairs import NeighbourPair, audit_pairs, search_batches, search_rounds
from tallyveil.evaluate.audit.search import Search
from tallyveil.evaluate.audit.views import AuditView, neighbour
from tallyveil.privacy import Geometric
from tallyveil.runs.batches import Execution

SPINE = Spine.from_columns(
    {"county": ["1", "1", "1", "2", "2", "2"], "block": ["11", "12", "13", "21", "22", "23"]}, root="us"
)
SCHEMA = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
TABLE = np.array([[3, 8, 2, 6], [4, 9, 3, 5], [6, 2, 7, 3], [2, 5, 4, 8], [5, 3, 6, 4], [7, 4, 2, 5]])
PEOPLE = Histogram.from_entries(
    SPINE, SCHEMA, unit=np.repeat(range(6), 4), cell=np.tile(range(4), 6), count=TABLE.ravel()
)
SIMPLE = SimpleRuns(name="geometric", epsilon=Fraction(1), query="detailed", neighbours="replace-one", seed=0)


def family() -> PairFamily:
    return pair_family(PEOPLE, SIMPLE, query="detailed")


def blocks(values: np.ndarray) -> np.ndarray:
    """The values of the blocks by block and cell (and by run, if there are runs)."""
    return values.reshape(*values.shape[:-1], 6, 4)


def quiet(where: Callable[[np.ndarray], np.ndarray]) -> Callable:
    """No noise in the blocks for whose true cells a condition holds."""

    def bug(level, noise, true, stream):
        del stream
        if level != "block":
            return noise
        return (blocks(noise) * ~where(blocks(true))[:, None]).reshape(noise.shape)

    return bug


def shared(change: Callable[[np.ndarray], np.ndarray]) -> Callable:
    """Some counts of the blocks get the noise of others."""

    def bug(level, noise, true, stream):
        del true, stream
        return change(blocks(noise)).reshape(noise.shape) if level == "block" else noise

    return bug


def of_the_first_sibling(noise: np.ndarray) -> np.ndarray:
    return noise[:, [0, 0, 0, 3, 3, 3]]


def of_the_other_sex(noise: np.ndarray) -> np.ndarray:
    return noise[:, :, [0, 0, 2, 2]]


def of_the_other_age(noise: np.ndarray) -> np.ndarray:
    return noise[:, :, [0, 1, 0, 1]]


def of_the_opposite_cell(noise: np.ndarray) -> np.ndarray:
    return noise[:, :, [0, 1, 1, 0]]


SIBLINGS = {
    "a person moves to a sibling unit",
    "a person moves into an empty unit",
    "a person joins the only person of a unit",
    "a person leaves a large unit",
}
OPPOSITE = {"a person changes all attributes", "a person of a homogeneous unit changes"}
FAULTS = {
    "empty": (quiet(lambda true: true.sum(axis=1) == 0), {"a person moves into an empty unit"}),
    "two": (quiet(lambda true: true.sum(axis=1) == 2), {"a person joins the only person of a unit"}),
    "homogeneous": (
        quiet(lambda true: ((true > 0).sum(axis=1) == 1) & (true.sum(axis=1) > 2)),
        {"a person of a homogeneous unit changes"},
    ),
    "large": (quiet(lambda true: true.sum(axis=1) > 900), {"a person leaves a large unit"}),
    "siblings": (shared(of_the_first_sibling), SIBLINGS),
    "sex": (shared(of_the_other_sex), {"a person changes sex"}),
    "age": (shared(of_the_other_age), {"a person changes age"}),
    "both": (shared(of_the_opposite_cell), OPPOSITE),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_one_kind_of_pair_shows_is_found_by_the_search_and_not_by_the_default_pair(fault):
    bug, kinds = FAULTS[fault]
    run = Noisy(Geometric(z="1/6"), seed=3, levels=SPINE.levels, bug=bug)
    found = audit_pairs(run, family().pairs, runs=2_400, proven=1)
    assert found.exceeds, found
    assert found.pair in kinds
    other, proven = choose_neighbour(PEOPLE, SIMPLE.proven, move=None, remove=None)
    assert not audit(run, PEOPLE, other, runs=2_400, proven=proven).exceeds


def test_the_right_mechanism_passes_and_shows_most_of_its_epsilon_where_all_levels_change():
    run = Noisy(Geometric(z="1/6"), seed=3, levels=SPINE.levels)
    found = audit_pairs(run, family().pairs, runs=20_000, proven=1)
    assert found.verdict == "consistent with epsilon 1"
    assert found.epsilon_low > 0.4
    assert found.pair.endswith("all attributes")


# -- confidence --------------------------------------------------------------------------------------------------------


def searches(count: int, confidence: float):
    """Searches over pairs of a mechanism whose epsilon is exactly 1 for each of them, with few runs."""
    pairs = [
        NeighbourPair(name=str(unit), people=PEOPLE, neighbour=neighbour(PEOPLE, unit=unit, cell=0, to_unit=unit + 1))
        for unit in range(4)
    ]
    for seed in range(count):
        yield audit_pairs(Noisy(Geometric(z="1/2"), seed), pairs, runs=600, proven=1, confidence=confidence)


def test_the_bounds_of_searches_exceed_epsilon_no_more_often_than_the_confidence_allows(monkeypatch):
    monkeypatch.setattr(search, "CAUTION", 1.0)  # the pair and event with the largest bound as they stand
    found, most = list(searches(60, 0.8)), binom.ppf(0.99, 60, 0.2)
    assert sum(one.exceeds for one in found) <= most
    selected = [max(one.pairs, key=lambda pair: pair.rounds) for one in found]
    same = sum(pair.selection_bound > 1 for pair in selected)
    assert same > 1.5 * most, "testing on the runs of the selection would not keep the confidence"


@pytest.mark.slow
def test_the_bounds_of_a_thousand_searches_exceed_epsilon_in_at_most_the_share_that_the_confidence_allows():
    found = list(searches(1_000, 0.95))
    assert sum(one.exceeds for one in found) <= binom.ppf(0.99, 1_000, 0.05)
    assert np.mean([one.epsilon_low for one in found]) > 0.3


# -- learners ----------------------------------------------------------------------------------------------------------

VIEWS = tuple(AuditView(level="block", unit=unit, query="detailed", row=0) for unit in (0, 1))
MOVED = neighbour(PEOPLE, unit=0, cell=0, to_unit=1)


def checkered(people: Histogram, runs: range) -> np.ndarray:
    """Two numbers, each inside or outside a band with chance 1/2: in 85% of the runs exactly one on D, or not on D'.

    Either number by itself is the same on D and D', and so are all sums of functions of one number. Epsilon is
    log(85 / 15) = 1.73.
    """
    rng = np.random.default_rng([int(people == PEOPLE), runs.start])
    inside = rng.random(len(runs)) < 0.5
    differ = rng.random(len(runs)) < (0.85 if people == PEOPLE else 0.15)
    band = np.stack([inside, inside ^ differ], axis=1)
    outside = rng.integers(20, 40, band.shape) * rng.choice([-1, 1], band.shape)
    return np.where(band, rng.integers(-19, 20, band.shape), outside)


def test_trees_find_an_interaction_that_the_linear_learner_does_not():
    pytest.importorskip("sklearn")
    linear = audit(checkered, PEOPLE, MOVED, runs=4_000, views=VIEWS, proven=1.4)
    assert not linear.exceeds
    assert linear.learned is None
    trees = audit(checkered, PEOPLE, MOVED, runs=4_000, views=VIEWS, proven=1.4, learner="trees")
    assert trees.best == "learned"
    assert trees.exceeds
    assert trees.epsilon_low < np.log(85 / 15)
    assert trees.joint == linear.joint
    assert "the boosted trees' log-odds of D against D'" in trees.bound.event
    assert audit(checkered, PEOPLE, MOVED, runs=4_000, views=VIEWS, proven=1.4, learner="trees") == trees


def test_trees_that_fit_noise_give_no_bound_above_epsilon():
    pytest.importorskip("sklearn")
    pairs = family().pairs[:2]
    found = [
        audit_pairs(Noisy(Geometric(z="1/2"), seed), pairs, runs=600, proven=1, learner="trees") for seed in range(5)
    ]
    assert not any(one.audit.learned.epsilon_low > 1 for one in found)
    assert any(one.audit.learned.epsilon_low > 0.2 for one in found)


def test_trees_are_not_judged_on_the_runs_that_they_were_fitted_on():
    pytest.importorskip("sklearn")
    one, two = np.random.default_rng(1).normal(size=(2, 600, 4))  # the same distribution
    chosen = Search(one=one, two=two, true_one=np.ones(4), true_two=np.zeros(4), alpha=0.025).best("learned")
    assert chosen.bound < 0


def test_a_learner_that_is_unknown_or_not_installed_is_refused(monkeypatch):
    with pytest.raises(InputError, match=r'learner must be "linear" or "trees"\. Got \'forest\' instead'):
        audit(checkered, PEOPLE, MOVED, runs=200, views=VIEWS, learner="forest")
    monkeypatch.setattr(learners, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r'needs scikit-learn, which is not installed\. .*"tallyveil\[learners\]"'):
        audit_pairs(checkered, family().pairs, runs=2_000, learner="trees")


# -- rounds and runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [1, 2, 5, 10, 13])
def test_the_rounds_and_the_test_use_the_runs_that_were_asked_for_and_most_go_to_the_last_pair(pairs):
    rounds = search_rounds(pairs, 10_000)
    selection = sum(n * (end - begin) for (n, end), begin in zip(rounds, [0, *(r.runs for r in rounds)], strict=False))
    assert 4_900 < selection <= 5_000
    assert (rounds[0].pairs, rounds[-1].pairs) == (pairs, 1)
    assert all(later.pairs == -(-one.pairs // 2) for one, later in pairwise(rounds))
    made = sum(len(batch.runs) for batch in search_batches(pairs, 10_000, 250))
    assert made == 2 * (selection + 5_000)


def test_a_search_that_was_stopped_resumes_gives_the_same_result_and_tests_on_runs_of_its_own():
    asked, told, kept = [], [], {}
    right = Noisy(Geometric(z="1/2"), 4)

    def run(people, runs):
        asked.append((people.canonical_bytes, runs))
        if len(asked) == 17:
            raise RuntimeError("power cut")
        return right(people, runs)

    pairs = family().pairs[:5]
    with pytest.raises(RuntimeError, match="power cut"):
        audit_pairs(run, pairs, runs=1_000, execution=Execution(batch=100, store=kept))
    assert len(kept) == 16
    execution = Execution(batch=100, store=kept, progress=lambda *at: told.append(at))
    again = audit_pairs(run, pairs, runs=1_000, execution=execution)
    assert again == audit_pairs(right, pairs, runs=1_000, execution=Execution(batch=33))
    assert len(asked) == 17 + len(kept) - 16
    batches = search_batches(5, 1_000, 100)
    assert len(kept) == len(batches)
    assert told[-1] == (told[0][1],) * 2 == (sum(len(batch.runs) for batch in batches),) * 2
    assert told == sorted(told)
    last = search_rounds(5, 1_000)[-1].runs
    tested = [name for name in kept if int(name.split("-")[2]) >= last]
    assert {name.rsplit("-", 3)[0] for name in tested} == {f"pair{[p.name for p in pairs].index(again.pair) + 1:02d}"}
    assert again.test_runs == 500


def test_too_few_runs_or_no_pairs_are_refused():
    with pytest.raises(InputError, match=r"there are no pairs of neighbours to search"):
        audit_pairs(Noisy(Geometric(z="1/2"), 4), [], runs=1_000)
    pairs = family().pairs
    with pytest.raises(InputError, match=r"1,000 runs a side are too few to search 10 pairs of neighbours\. Use 2,000"):
        audit_pairs(Noisy(Geometric(z="1/2"), 4), pairs, runs=1_000)
    audit_pairs(Noisy(Geometric(z="1/2"), 4), pairs, runs=2_000)
