"""A piece that travels to another process is solved to the piece that is solved here."""

import gc
import pickle
from collections import Counter

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from random_constraints import random_case
from test_kept_pieces import Memory, feasible

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.engine.nests import UNLIMITED
from tallyveil.engine.topdown import topdown
from tallyveil.errors import SecretError
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import RunKey
from tallyveil.scale.sealed import Sealed
from tallyveil.scale.travelling import TravellingLevel, _packed, _unpacked


def there(value):
    """The value as another process gets it."""
    return there_and_back(Sealed.of(value)).opened()


def there_and_back(value):
    return pickle.loads(pickle.dumps(value))


def by_parcel(function, spans):
    """A ``map`` that does what a cluster does, without one."""
    level = TravellingLevel.of(function)
    if level is None:
        yield from map(function, spans)
        return
    solve = there(level.shared())
    for span in spans:
        kept = level.kept(span)
        yield kept if kept is not None else level.done(span, there(solve(there(level.parcel(span)))))


@pytest.mark.parametrize(("cases", "least"), [(16, 1), pytest.param(400, 4, marks=pytest.mark.slow)])
def test_pieces_that_travel_give_the_same_release_with_any_constraints_failsafe_and_spine(monkeypatch, cases, least):
    monkeypatch.setattr("tallyveil.engine.level.CHUNK", 4)  # many pieces
    seen = Counter()
    for seed in range(cases):
        rng = np.random.default_rng(seed)
        case = random_case(rng, crowded=seed % 4 > 0)
        limits = feasible(case)
        if limits is None:
            continue

        def run(case=case, limits=limits, seed=seed, **how):
            noisy = measure(case.people, case.strategy, RunKey.from_seed(seed), optimised=case.optimised)
            return topdown(noisy, limits=limits, **how)

        here = run()
        fresh = Memory({})
        assert run(run=by_parcel, kept=fresh) == here, seed
        some = {name: piece for name, piece in fresh.pieces.items() if rng.random() < 0.5}
        again = Memory(some)
        assert run(run=by_parcel, kept=again) == here, seed  # resumed on a cluster
        assert sorted(again.used) == sorted(some)
        assert run(kept=Memory(some)) == here, seed  # begun on a cluster, resumed on threads
        seen["relaxed"] += any(one.relaxed for one in here[1])
        seen["optimised"] += case.optimised is not None
        seen["only child"] += case.strategy.only_child
        seen["many"] += len(fresh.new) > len(here[1])
    assert min(seen[how] for how in ("optimised", "only child", "many")) >= 2, seen
    assert seen["relaxed"] >= least


def test_nothing_is_compiled_for_pieces_that_travel():
    """Kernels are compiled for one kind of array; those that travel must be of the same kind, read-only or not."""
    cases = [random_case(np.random.default_rng(seed), crowded=seed % 4 > 0) for seed in (2, 9, 16)]
    compiled = []
    for spread in (map, by_parcel):
        for case in cases:
            topdown(measure(case.people, case.strategy, RunKey.from_seed(1)), limits=feasible(case), run=spread)
        compiled.append(
            {kernel: set(kernel.signatures) for kernel in gc.get_objects() if issubclass(type(kernel), Dispatcher)}
        )
    assert compiled[0] == compiled[1]
    assert sum(map(len, compiled[0].values())) > 10


def people_with(count: int) -> Histogram:
    spine = Spine.from_columns({"state": ["1", "1", "1", "2", "2"], "block": ["11", "12", "13", "21", "22"]}, root="us")
    schema = Schema(attributes={"age": ["child", "adult"]})
    table = np.array([[count, 7], [3, 0], [0, 9], [5, 6], [2, 8]])
    return Histogram(spine=spine, schema=schema, leaves=Counts.from_dense(table))


def parcels_of(people: Histogram, level: str) -> list[bytes]:
    """The parcels of a level, one for each parent."""
    noisy = measure(people, Strategy.default(people.spine, people.schema, epsilon=1), RunKey.from_seed(1))
    sent = []

    def run(function, spans):
        work = TravellingLevel.of(function)
        if work is not None and work.level.level == level:
            sent.extend(pickle.dumps(work.parcel((first, first + 1))) for first in range(work.level.above.units))
        return map(function, spans)

    topdown(noisy, run=run)
    return sent


def test_a_parcel_holds_the_truth_about_its_own_children_and_about_nobody_else():
    # The noise of both runs differs, and so do the released parents: look for the count itself.
    count = 1_234_567_890
    own, other = parcels_of(people_with(count), "block")
    assert count.to_bytes(4, "little") in own
    assert count.to_bytes(4, "little") not in other


def test_a_parcel_holds_the_key_of_the_stream_and_never_that_of_the_run():
    people, key = people_with(4), RunKey.from_seed(1)
    strategy = Strategy.default(people.spine, people.schema, epsilon=1)
    from tallyveil.privacy.streams import measurement_stream

    stream = measurement_stream(key, people, strategy).travelling_key()
    for parcel in parcels_of(people, "block"):
        assert stream in parcel
        assert key._bytes not in parcel


def test_measurements_that_can_query_the_truth_cannot_be_pickled_as_a_whole():
    people = people_with(4)
    noisy = measure(people, Strategy.default(people.spine, people.schema, epsilon=1), RunKey.from_seed(1))
    with pytest.raises(SecretError, match="a NoisyAnswers is secret and cannot be pickled or copied"):
        pickle.dumps(noisy)
    assert "secret" in repr(noisy.ask.sent("block", 0, 2))
    assert str(4) not in repr(noisy.ask.sent("block", 0, 2))


def test_pieces_of_saved_measurements_are_solved_here():
    people = people_with(4)
    strategy = Strategy.default(people.spine, people.schema, epsilon=1)
    noisy = measure(people, strategy, RunKey.from_seed(1))
    saved = noisy.saved([(query, level) for level in strategy.queries for query in strategy.queries[level]])
    asked = []

    def run(function, spans):
        asked.append(TravellingLevel.of(function))
        return map(function, spans)

    assert topdown(saved, run=run) == topdown(noisy, run=by_parcel)
    assert set(asked) == {None}


@pytest.mark.parametrize("bounds", [[0, 5, UNLIMITED], [-3, 2**31 - 1, 0], [2**31, UNLIMITED, 1], [], [-(2**31), 0]])
def test_bounds_are_the_same_after_the_journey(bounds):
    given = np.array(bounds, np.int64).reshape(-1, 1)
    assert np.array_equal(_unpacked(there(_packed(given))), given)
    assert _unpacked(_packed(given)).dtype == np.int64
