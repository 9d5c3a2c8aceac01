"""Nothing that can be reached from a release is a true count or a key, and a release can be handed on.

The walk follows what the garbage collector follows, and what it does not: closures, views of arrays, buffers, items of
object arrays and the frames of generators. Types, modules and the globals of functions are left out: they are the
program, not the release.
"""

import functools
import gc
import pickle
import re
import types
from collections import deque
from dataclasses import replace
from itertools import combinations
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallyveil as tv
from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import Invariant, RunKey, Stream
from tallyveil.privacy.stream_words import Secret

SPINE = Spine.from_columns(
    {"county": ["1", "1", "2", "2"], "block": ["1a", "1b", "2a", "2b"]},
    root="state",
)
SCHEMA = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
# Whole numbers that nothing else is: every sum of some of them is a number of its own, far above any index.
COUNTS = [[10_000_019 * 3**i + 7 * 3**j for j in range(4)] for i in range(4)]
EPSILON = "1/50000"  # noise so wide that a noisy count is no true one


def truth() -> Histogram:
    unit, cell = np.divmod(np.arange(16), 4)
    return Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=cell, count=np.array(COUNTS).ravel())


def strategy(**fields) -> Strategy:
    return replace(Strategy.default(SPINE, SCHEMA, epsilon=EPSILON), **fields)


def true_counts(people: Histogram, *, public=(("total", "state"),)) -> set[int]:
    """Every true answer to every query at every level; not what is published exactly."""
    queries = ["total", *(" * ".join(q) for n in (1, 2) for q in combinations(SCHEMA.attributes, n))]

    def answers(pairs):
        return {int(n) for query, level in pairs for n in people.answer(query, level=level).dense().ravel()}

    every = answers((query, level) for query in queries for level in SPINE.levels)
    assert min(every) > 10**6
    return every - answers(public)


# --- the walk


def reachable(root: object):
    """Everything that can be reached from an object, breadth first, each thing once, with the way there."""
    seen, waiting = {id(root): root}, deque([(root, type(root).__name__)])
    while waiting:
        thing, way = waiting.popleft()
        yield thing, way
        for below in referents(thing):
            if isinstance(below, type | types.ModuleType) or id(below) in seen:
                continue
            seen[id(below)] = below  # kept alive, so that an id is not used twice
            waiting.append((below, f"{way} > {type(below).__name__}"))


def referents(thing: object) -> list:
    """What an object refers to, also where the garbage collector does not look."""
    if isinstance(thing, types.FunctionType):
        parts = [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
        return [part for part in parts if part is not None]
    if isinstance(thing, types.FrameType):
        return [dict(thing.f_locals)]
    if isinstance(thing, types.GeneratorType):
        return [thing.gi_frame] if thing.gi_frame else []
    if isinstance(thing, np.ndarray):
        items = thing.ravel().tolist() if thing.dtype.hasobject else []
        return [*items, *([] if thing.base is None else [thing.base])]
    if isinstance(thing, memoryview):
        return [thing.obj]
    if type(thing).__module__.startswith(("pyarrow", "pandas")):
        for exported in ("to_pydict", "to_pylist", "to_dict", "to_pybytes"):
            if hasattr(thing, exported):
                return [getattr(thing, exported)()]
    return gc.get_referents(thing)


def found_in(root: object, counts: set[int], keys: set[bytes], people: Histogram | None = None) -> list[str]:
    """The ways to everything that is secret."""
    return [f"{way}: {why}" for thing, way in reachable(root) if (why := secret(thing, counts, keys, people))]


def secret(thing: object, counts: set[int], keys: set[bytes], people: Histogram | None) -> str | None:
    """Why something is secret, if it is."""
    if isinstance(thing, Secret):
        return f"a {type(thing).__name__}"
    if people is not None and (thing is people or thing is people.leaves):
        return "the truth itself"
    if isinstance(thing, int | float | np.integer | np.floating) and thing in counts:
        return f"the true count {thing}"
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "iuf" and (known := counts.intersection(_values(thing))):
        return f"true counts in an array ({len(known)}, such as {min(known)})"
    if isinstance(thing, str):
        numbers = {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", thing)[:100_000]}
        if counts & numbers:
            return "a true count in text"
        if any(key.hex() in thing for key in keys):
            return "a key in text"
    if isinstance(thing, bytes | bytearray) or (isinstance(thing, np.ndarray) and not thing.dtype.hasobject):
        content = bytes(thing) if isinstance(thing, bytes | bytearray) else thing.tobytes()
        if any(key in content for key in keys):
            return "a key"
        if isinstance(thing, bytes) and len(thing) == 32:
            return "32 bytes, as a key has"
        if any(count.to_bytes(size, order) in content for count in counts for size in (4, 8) for order in _ORDERS):
            return "a true count in bytes"
    return None


_ORDERS = ("little", "big")


def _values(array: np.ndarray) -> set:
    return set(array.ravel().tolist())


@pytest.fixture
def keys():
    """The keys of all streams and runs that are made meanwhile."""
    seen: set[bytes] = set()
    stream, run = Stream.__init__, RunKey.__init__

    def of_stream(self, key, *arguments, **named):
        seen.add(bytes(key))
        stream(self, key, *arguments, **named)

    def of_run(self, key, *arguments, **named):
        seen.add(bytes(key))
        run(self, key, *arguments, **named)

    with mock.patch.object(Stream, "__init__", of_stream), mock.patch.object(RunKey, "__init__", of_run):
        yield seen


# --- releases


def protected(people: Histogram, plan: Strategy, **how):
    release = tv.protect(people, plan, seed=1, **how)
    assert release.histogram.total() == people.total()
    return release


@pytest.mark.parametrize("kept", [None, [("total", "block")], [("detailed", "county"), ("age", "block")]])
def test_nothing_reachable_from_a_release_is_a_true_count_or_a_key(keys, kept):
    people = truth()
    release = protected(people, strategy(), **({} if kept is None else {"measurements": kept}))
    assert len(keys) >= 2  # the run's and the measurement's
    assert found_in(release, true_counts(people), keys, people) == []


@pytest.mark.parametrize("only_child", [False, True])
@pytest.mark.parametrize("mechanism", ["geometric", "gaussian"])
def test_nothing_but_the_declared_invariants_of_the_truth_is_in_a_release(keys, mechanism, only_child):
    people = truth()
    plan = replace(
        strategy(mechanism=mechanism, budget="1e-7" if mechanism == "gaussian" else EPSILON),
        only_child=only_child,
        constraints=(Invariant(query="total", level="county"),),
    )
    release = protected(people, plan, measurements=[("total", "block")])
    assert release.histogram.answer("total", level="county") == people.answer("total", level="county")
    public = (("total", "state"), ("total", "county"))
    assert found_in(release, true_counts(people, public=public), keys, people) == []


def test_nothing_reachable_from_a_release_measured_on_an_optimised_spine_is_a_true_count_or_a_key(keys):
    spine = Spine.from_columns(
        {"county": ["1", "1", "2", "2"], "group": ["1x", "1x", "2x", "2x"], "block": ["1a", "1b", "2a", "2b"]},
        root="state",
    )
    people = replace(truth(), spine=spine)
    areas = tv.Areas.from_codes(spine, leaf=["1a", "2b"], area=["Troy", "Troy"])
    plan = Strategy.default(spine, SCHEMA, epsilon=EPSILON)
    release = protected(people, plan, optimised=spine.optimised(place=areas), measurements=[("total", "block")])
    assert found_in(release, true_counts(truth()), keys, people) == []


def test_a_release_without_measurements_has_none():
    assert tv.protect(truth(), strategy(), seed=1).measurements is None


def test_a_release_answers_for_the_measurements_it_kept():
    people = truth()
    release = protected(people, strategy(), measurements=[("total", "block")])
    answers = release.measurements.ask("block", "total", np.arange(4))
    wrong = answers - people.answer("total", level="block").dense()[:, 0]
    assert (wrong != 0).all()
    assert (np.abs(wrong) < 60 / float(strategy().noise("block", "total").z)).all()
    again = protected(people, strategy(), measurements=[("total", "block"), ("age", "block")])
    assert np.array_equal(answers, again.measurements.ask("block", "total", np.arange(4)))


@pytest.mark.parametrize("kept", [None, [("total", "block"), ("detailed", "county")]])
def test_a_release_can_be_pickled_and_comes_back_equal(kept):
    release = protected(truth(), strategy(), **({} if kept is None else {"measurements": kept}))
    again = pickle.loads(pickle.dumps(release))
    for name in ("histogram", "strategy", "certificate", "facilities"):
        assert getattr(again, name) == getattr(release, name), name
    if kept is None:
        assert again.measurements is None
        return
    for query, level in kept:
        places = np.arange(SPINE.size(level) * SCHEMA.query(query).size)
        assert np.array_equal(
            again.measurements.ask(level, query, places), release.measurements.ask(level, query, places)
        )
    assert dict(again.measurements.exact) == dict(release.measurements.exact)


def test_the_bytes_of_a_pickled_release_hold_no_key_and_no_true_count(keys):
    people = truth()
    whole = pickle.dumps(protected(people, strategy(), measurements=[("total", "block")]))
    assert not any(key in whole for key in keys)
    assert not any(count.to_bytes(4, "little") in whole for count in true_counts(people))


# --- the walk finds what is hidden


class _Slots:
    __slots__ = ("inside",)

    def __init__(self, inside):
        self.inside = inside


class _Cached:
    @functools.cached_property
    def inside(self):
        return COUNTS[0][0]


def _in_generator(inside):
    yield inside


def _called(inside):
    return inside


def _hidden(inside):
    cached, generator = _Cached(), _in_generator(inside)
    assert cached.inside == COUNTS[0][0]
    remembered = functools.lru_cache(maxsize=None)(_called)
    remembered(inside if isinstance(inside, int) else 0)
    array = np.array([1, inside, 3], dtype=object)
    yield "closure", lambda: inside
    yield "closure of a closure", lambda: lambda: lambda: inside
    yield "default", lambda given=inside: given
    yield "keyword default", (lambda *, given=inside: given)
    yield "partial", functools.partial(_called, inside)
    yield "slots", _Slots(_Slots(inside))
    yield "bound method", _Slots(inside).__repr__
    yield "cached property", cached
    yield "generator", generator
    yield "object array", array
    yield "array", np.array([0, inside])
    yield "floats", np.array([0.5, float(inside)])
    yield "part of an array", np.array([inside, 5])[1:]
    yield "view of an array", np.array([inside, 5]).view(np.uint8)[:1]
    yield "numpy's number", {"count": np.int64(inside)}
    yield "key of a dictionary", {inside: 1}
    yield "set", frozenset([(inside,)])
    yield "text", [f"about {inside:,} people"]
    yield "bytes", np.array([inside]).tobytes()
    yield "buffer", memoryview(np.array([inside]))
    yield "queue", deque([inside])
    yield "Arrow table", pa.table({"count": [inside]})
    yield "Arrow column", pa.chunked_array([[inside]])
    yield "Arrow buffer", pa.py_buffer(np.array([inside]).tobytes())
    yield "data frame", pd.DataFrame({"count": [inside]})
    yield "column of a data frame", pd.Series([inside])
    yield "counts", Counts.from_dense([[inside, 1]])


@pytest.mark.parametrize(("where", "holder"), [pytest.param(w, h, id=w) for w, h in _hidden(COUNTS[0][0])])
def test_the_walk_finds_a_true_count_in_a(where, holder):
    assert found_in([holder], true_counts(truth()), set()), where


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(lambda key: lambda: key, id="run key"),
        pytest.param(lambda key: {"stream": [key.stream([b"any"])]}, id="stream"),
        pytest.param(lambda key: _Slots(key._bytes), id="bytes"),
        pytest.param(lambda key: key.stream([b"any"])._key, id="words of a stream key"),
        pytest.param(lambda key: key._bytes.hex(), id="text"),
        pytest.param(lambda key: b"before" + key._bytes + b"after", id="part of bytes"),
    ],
)
def test_the_walk_finds_a_key_as(keys, holder):
    key = RunKey.from_seed(5)
    assert found_in([holder(key)], set(), keys)


def test_the_walk_finds_the_truth_itself():
    people = truth()
    assert found_in({"people": [people]}, set(), set(), people)
    assert found_in([(people.leaves,)], set(), set(), people)


def test_the_walk_does_not_take_the_spine_or_the_strategy_for_a_secret():
    assert found_in([SPINE, SCHEMA, strategy()], true_counts(truth()), set()) == []


def test_a_release_refuses_measurements_that_can_still_query_the_truth():
    """Which bug: a release that holds the counts behind its noisy answers."""
    from tallyveil.errors import SecretError
    from tallyveil.mechanisms.measure import measure

    people = truth()
    live = measure(people, Strategy.default(SPINE, SCHEMA, epsilon=EPSILON), RunKey.from_seed(1))
    with pytest.raises(SecretError, match="can still query the truth"):
        tv.Release(histogram=people, measurements=live)
