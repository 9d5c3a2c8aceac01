"""The search for events, against a loop over all of them; and the bounds on probabilities, against scipy's."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from tallyveil.evaluate.audit import search as search_module
from tallyveil.evaluate.audit.binomial import log_bounds, lower, upper
from tallyveil.evaluate.audit.events import Event, Statistic
from tallyveil.evaluate.audit.search import Search

RELATIONS = {
    "=": np.equal,
    ">=": np.greater_equal,
    "<=": np.less_equal,
    "<": np.less,
}


@pytest.fixture(autouse=True)
def as_it_stands(monkeypatch):
    """Choose at the chance of error itself, so that a chosen event's bound can be worked out again."""
    monkeypatch.setattr(search_module, "CAUTION", 1.0)


@cache
def interval(count: int, runs: int) -> tuple[float, float]:
    found = binomtest(count, runs).proportion_ci(0.95)
    return found.low, found.high


def bound(a: int, b: int, runs: int, delta: float = 0.0) -> float:
    p, q = interval(a, runs)[0], interval(b, runs)[1]
    return math.log((p - delta) / q) if p > delta else -math.inf


def best_by_loop(one, two, statistics, delta=0.0) -> float:
    """The largest bound over all events of some statistics, one by one."""
    found = -math.inf
    for of in statistics:
        for k in {*of(one).tolist(), *of(two).tolist()}:
            for relation in ("=", ">=", "<="):
                a, b = (int(RELATIONS[relation](of(values), k).sum()) for values in (one, two))
                found = max(found, bound(a, b, len(one), delta), bound(b, a, len(one), delta))
    return found


def search(one, two, **more) -> Search:
    views = one.shape[1]
    true = {"true_one": np.arange(views) + 1.0, "true_two": np.arange(views) + 0.0}
    return Search(one=one, two=two, alpha=0.025, **{**true, **more})


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05]))
def test_the_best_event_on_one_view_is_the_one_a_loop_finds(seed, delta):
    rng = np.random.default_rng(seed)
    one, two = rng.integers(-3, 4, (40, 2)), rng.integers(-2, 4, (40, 2))
    chosen = search(one, two, delta=delta).best("one-unit")
    columns = [lambda values, i=i: values[:, i] for i in range(2)]
    assert chosen.bound == pytest.approx(best_by_loop(one, two, columns, delta))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_a_chosen_event_happened_as_often_as_its_bound_says(seed):
    rng = np.random.default_rng(seed)
    one, two = rng.integers(0, 5, (60, 3)), rng.integers(0, 4, (60, 3))
    for family in ("one-unit", "joint"):
        chosen = search(one, two).best(family)
        a, b = (int(chosen.event.holds(values).sum()) for values in (one, two))
        assert chosen.bound == pytest.approx(bound(*((b, a) if chosen.swapped else (a, b)), 60))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_joint_events_include_every_quadrant_sum_and_difference(seed):
    rng = np.random.default_rng(seed)
    one, two = rng.integers(0, 4, (40, 2)), rng.integers(0, 3, (40, 2))
    best = best_by_loop(one, two, [lambda v: v[:, 0] + v[:, 1], lambda v: v[:, 0] - v[:, 1]])
    for k in range(4):
        for m in range(4):
            for first in (">=", "<"):
                for second in (">=", "<"):
                    a, b = (
                        int((RELATIONS[first](v[:, 0], k) & RELATIONS[second](v[:, 1], m)).sum()) for v in (one, two)
                    )
                    best = max(best, bound(a, b, 40), bound(b, a, 40))
    assert search(one, two).best("joint").bound >= best - 1e-9


def test_the_same_noise_in_two_views_is_found_by_their_difference():
    rng = np.random.default_rng(1)
    noise = rng.integers(-50, 50, 2_000)
    one, two = np.stack([noise + 9, noise + 4], axis=1), np.stack([noise + 8, noise + 5], axis=1)
    chosen = search(one, two, true_one=np.array([9.0, 4.0]), true_two=np.array([8.0, 5.0])).best("joint")
    assert chosen.event.holds(one).all() != chosen.event.holds(two).all()
    assert chosen.bound > 6
    assert search(one, two).best("one-unit").bound < chosen.bound - 4


def test_a_difference_that_is_equal_on_one_side_only_is_found_though_its_mean_is_the_same():
    rng = np.random.default_rng(3)
    noise, other, gap = rng.integers(-50, 50, 2_000), rng.integers(-50, 50, (2, 2_000)), rng.choice([-1, 1], 2_000)
    one, two = np.stack([noise, noise + gap, other[0]], axis=1), np.stack([noise, noise, other[1]], axis=1)
    chosen = search(one, two).best("joint")
    assert chosen.event.words(["a", "b", "c"]) == "a - b is exactly 0"
    assert chosen.swapped
    assert chosen.bound > 6


def test_views_with_too_many_values_for_a_grid_are_searched_at_their_quantiles():
    rng = np.random.default_rng(2)
    one, two = rng.normal(0, 1000, (4_000, 2)), rng.normal(0, 1000, (4_000, 2))
    one[:, 0] += 1500
    one[:, 1] -= 1500
    chosen = search(one, two).best("joint")
    assert chosen.bound > 2
    assert bound(
        *(int(chosen.event.holds(v).sum()) for v in ((two, one) if chosen.swapped else (one, two))), 4_000
    ) == (pytest.approx(chosen.bound))


def test_one_view_has_no_joint_events():
    values = np.zeros((30, 1), dtype=np.int64)
    assert search(values, values).best("joint") is None


def test_events_are_said_in_words():
    names = ["block 1 (adult)", "block 2 (adult)"]
    single = Statistic(weights=(1, 0))
    event = Event(conditions=((single, ">=", 1200), (Statistic(weights=(0, 1)), "<", 3)))
    assert event.words(names) == "block 1 (adult) is at least 1,200 and block 2 (adult) is below 3"
    weighted = Event(conditions=((Statistic(weights=(1, -0.25)), "<=", 0.125),))
    assert weighted.words(names) == "block 1 (adult) - 0.25 x block 2 (adult) is at most 0.125"
    least = Statistic(weights=(1, -1), centres=(7.5, 2.5), how="least")
    text = "the least of the distances of block 1 (adult), block 2 (adult) from midway, towards D's count"
    assert Event(conditions=((least, ">=", 0.5),)).words(names) == f"{text} is at least 0.5"
    assert least.of(np.array([[8, 2], [9, 3]])).tolist() == [0.5, -0.5]
    cut = Statistic(weights=(1, -1), centres=(7.5, 2.5), cut=0.5)
    assert cut.of(np.array([[20, 2], [0, 3]])).tolist() == [1, -1]
    assert "each cut at 0.5, is exactly" in Event(conditions=((cut, "=", 1.0),)).words(names)


@given(st.integers(1, 500), st.data())
def test_bounds_on_probabilities_are_clopper_and_pearsons(runs, data):
    count = data.draw(st.integers(0, runs))
    exact = binomtest(count, runs).proportion_ci(0.95)
    assert float(lower(count, runs, 0.025)) == pytest.approx(exact.low, abs=1e-12)
    assert float(upper(count, runs, 0.025)) == pytest.approx(exact.high, abs=1e-12)
    low, high = log_bounds(runs, 0.025, 0.01)
    assert math.exp(low[count]) == pytest.approx(max(0, exact.low - 0.01), abs=1e-12)
    assert math.exp(high[count]) == pytest.approx(exact.high, abs=1e-12)
