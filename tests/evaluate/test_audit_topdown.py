"""TopDown audited: consistent with its epsilon when right, caught when a level goes without noise."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np
import pytest

from tallyveil import Histogram, Schema, Spine, Strategy, protect
from tallyveil.engine.topdown import topdown
from tallyveil.evaluate.audit.audit import audit
from tallyveil.evaluate.audit.views import neighbour
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import RunKey, account_of
from tallyveil.runs.batches import Execution

SPINE = Spine.from_columns({"county": ["1", "1", "2", "2"], "block": ["11", "12", "21", "22"]}, root="us")
SCHEMA = Schema(attributes={"age": ["child", "adult"]})
COUNTS = np.array([[30, 80], [20, 90], [40, 50], [60, 70]])


def people() -> Histogram:
    unit, cell = np.indices(COUNTS.shape).reshape(2, -1)
    return Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=cell, count=COUNTS.reshape(-1))


@dataclass(frozen=True)
class TopDown:
    """measure and topdown, the two steps of ``protect``, without its certificate; a level may go without noise."""

    strategy: Strategy
    seed: int
    without_noise: str = ""

    def __call__(self, people: Histogram, runs: range) -> Iterator[Histogram]:
        key = RunKey.from_seed(self.seed)
        return (self.one(people, key, run) for run in runs)

    def one(self, people: Histogram, key: RunKey, run: int) -> Histogram:
        noisy = measure(people, self.strategy, key, replicate=run)
        return topdown(replace(noisy, ask=self.spared(noisy.ask, people)))[0]

    def spared(self, ask, people):
        def asked(level, query, index):
            if level != self.without_noise:
                return ask(level, query, index)
            return people.answer(query, level=level).dense().reshape(-1)[index]

        return asked


def strategy(**budget) -> Strategy:
    """Most of the budget where a person who moves is seen: in the counties and blocks."""
    mechanism, amount = ("geometric", budget["epsilon"]) if "epsilon" in budget else ("gaussian", budget["rho"])
    shares = {"us": "1/10", "county": "3/10", "block": "6/10"}
    return Strategy(
        mechanism=mechanism,
        budget=amount,
        levels=shares,
        queries={level: {"detailed": 1} for level in shares},
        attributes=("age",),
    )


def moved() -> Histogram:
    return neighbour(people(), unit=0, cell=1, to_unit=3)


def test_what_is_audited_is_what_protect_releases():
    right = TopDown(strategy(epsilon=2), seed=5)
    for run, made in zip(range(3), right(people(), range(3)), strict=True):
        assert made == protect(people(), right.strategy, seed=5, replicate=run, threads=1).histogram


def test_topdown_with_leaves_without_noise_is_caught():
    broken = TopDown(strategy(epsilon=1), seed=5, without_noise="block")
    found = audit(broken, people(), moved(), runs=120, proven=1)
    assert found.exceeds, found
    assert found.verdict == "exceeds the proven epsilon 1: a bug or a wrong claim"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "delta", "runs", "informative"), [({"epsilon": 4}, 0.0, 20_000, 1.0), ({"rho": "1"}, 1e-3, 2_000, 0.5)]
)
def test_topdown_is_consistent_with_its_epsilon_and_shows_a_good_part_of_it(budget, delta, runs, informative):
    right = TopDown(strategy(**budget), seed=11)
    proven = account_of(right.strategy, delta=delta or None, pld=False).epsilon
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        found = audit(
            right,
            people(),
            moved(),
            runs=runs,
            delta=delta,
            proven=proven,
            execution=Execution(batch=250, map=pool.map),
        )
    assert not found.exceeds, found
    assert found.epsilon_low > informative, found
