"""The noise of a measurement: the same for the same measurement, independent for any other (ARCHITECTURE, rule 2)."""

import numpy as np
import pytest

from tallyveil import Histogram, Schema, Spine
from tallyveil.nouns.schema import Grouping
from tallyveil.privacy import FacilityBounds, Invariant, RunKey, Strategy, draw, measurement_stream

SPINE = Spine.from_columns({"county": ["1", "1", "2"], "tract": ["1a", "1b", "2a"]}, root="state")
SCHEMA = Schema(
    attributes={"age": ["c", "a"], "home": ["h", "p", "q"]},
    groupings={"kind": Grouping(of="home", groups={"h": ["h"], "g": ["p", "q"]})},
)
KEY = RunKey.from_seed(11)
N = 200_000


def people(count=(5, 7, 1), unit=(0, 1, 2)) -> Histogram:
    return Histogram.from_entries(SPINE, SCHEMA, unit=list(unit), cell=[0, 3, 5], count=list(count))


def strategy(**fields) -> Strategy:
    levels = {"state": "1/4", "county": "1/4", "tract": "1/2"}
    queries = {level: {"age": "1/2", "detailed": "1/2"} for level in levels}
    return Strategy(**({"mechanism": "gaussian", "budget": 1, "levels": levels, "queries": queries} | fields))


def noise(histogram: Histogram, plan: Strategy, key: RunKey = KEY) -> np.ndarray:
    return draw(plan.noise("tract", "age"), measurement_stream(key, histogram, plan), np.arange(N), level=2, query=0)


BASE = noise(people(), strategy())


def correlation(other: np.ndarray) -> float:
    return float(np.corrcoef(BASE, other)[0, 1])


@pytest.mark.parametrize(
    ("histogram", "plan"),
    [
        pytest.param(people(), strategy(budget="1.1"), id="another budget"),
        pytest.param(people(count=(5, 7, 2)), strategy(), id="one person more"),
        pytest.param(people(count=(4, 8, 1)), strategy(), id="one person replaced"),
        pytest.param(people(unit=(0, 1, 1)), strategy(), id="one person moved"),
        pytest.param(people(), strategy(neighbours="add-or-remove"), id="other neighbours"),
        pytest.param(people(), strategy(only_child=True), id="the only-child rule"),
        pytest.param(
            people(),
            strategy(queries={level: {"age": "1/2", "home": "1/2"} for level in ("state", "county", "tract")}),
            id="another query",
        ),
    ],
)
def test_any_other_measurement_gets_uncorrelated_noise(histogram, plan):
    assert abs(correlation(noise(histogram, plan))) < 5 / N**0.5


def test_the_test_above_has_power_against_shared_words():
    # Noise of two budgets from the same words would be almost the same number twice.
    stream = measurement_stream(KEY, people(), strategy())
    shared = draw(strategy(budget="1.1").noise("tract", "age"), stream, np.arange(N), level=2, query=0)
    assert correlation(shared) > 0.9


def test_a_regrouping_under_the_same_name_is_another_measurement():
    regrouped = Schema(
        attributes=SCHEMA.attributes,
        groupings={"kind": Grouping(of="home", groups={"h": ["h", "p"], "g": ["q"]})},
    )
    other = Histogram.from_entries(SPINE, regrouped, unit=[0, 1, 2], cell=[0, 3, 5], count=[5, 7, 1])
    assert abs(correlation(noise(other, strategy()))) < 5 / N**0.5


def test_another_key_gets_uncorrelated_noise():
    assert abs(correlation(noise(people(), strategy(), RunKey.from_system()))) < 5 / N**0.5


def test_the_same_measurement_gets_the_same_noise_whatever_is_done_with_it():
    shuffled = Histogram.from_entries(SPINE, SCHEMA, unit=[2, 0, 1, 0], cell=[5, 0, 3, 0], count=[1, 2, 7, 3])
    post = strategy(
        constraints=(
            Invariant(query="total", level="state"),
            FacilityBounds(attribute="home", level="tract", least=1, most=9),
        ),
        rounding="cells",
        passes={"county": [["age"], ["*"]]},
        delta="1e-6",
        name="other",
    )
    reordered = strategy(queries={level: {"detailed": "1/2", "age": "1/2"} for level in ("tract", "county", "state")})
    for histogram, plan in ((shuffled, strategy()), (people(), post), (people(), reordered)):
        assert np.array_equal(BASE, noise(histogram, plan))
