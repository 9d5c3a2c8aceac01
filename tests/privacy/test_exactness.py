"""What invariants make exact, against linear algebra, and the default strategy, which spends nothing on it."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from brute_loss import default_worlds, optimised_spines, owner, queries_of, schemas, trees
from hypothesis import given, settings
from hypothesis import strategies as some

from tallyveil import Schema, Spine, Strategy
from tallyveil.errors import BudgetError, StrategyError
from tallyveil.nouns.areas import Areas
from tallyveil.privacy import Invariant, RunKey
from tallyveil.privacy.exactness import Exactness
from tallyveil.privacy.strategy_toml import strategy_from_toml, strategy_to_toml

AGE_SEX = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})


def nation() -> Spine:
    """Two states, the first with one county; three counties with two tracts each."""
    counties = {"1a": "1", "2a": "2", "2b": "2"}
    tracts = [(f"{county}{t}", county, state) for county, state in counties.items() for t in "xy"]
    columns = {"state": [s for *_, s in tracts], "county": [c for _, c, _ in tracts], "tract": [t for t, *_ in tracts]}
    return Spine.from_columns(columns, root="us")


def answers(spine: Spine, schema: Schema, query: str, level: str, leaf: np.ndarray) -> np.ndarray:
    """Each answer to a query at a level as a row of ones and zeros over (published leaf, possible cell)."""
    unit = owner(spine, level)[leaf]
    row = schema.query(query).row_of_cell[schema.possible]
    place = (unit[:, None] * schema.query(query).size + row).ravel()
    return (place == np.unique(place)[:, None]).astype(float)


@settings(max_examples=120)
@given(some.data())
def test_a_query_is_exact_where_its_answers_are_linear_combinations_of_an_invariants(data):
    optimise = data.draw(some.booleans())
    spine = data.draw(trees(depths=(4,) if optimise else (1, 2, 3, 4), most_leaves=5))
    schema = data.draw(schemas(most_cells=6))
    optimised = data.draw(optimised_spines(spine)) if optimise else None
    queries = queries_of(schema)
    invariant = Invariant(query=data.draw(some.sampled_from(queries)), level=data.draw(some.sampled_from(spine.levels)))
    exact = Exactness(spine=spine, schema=schema, invariants=(invariant,), same_people=False, optimised=optimised)
    same = np.arange(spine.size(spine.leaf))
    known = answers(spine, schema, invariant.query, invariant.level, same)
    measured, leaf = (spine, same) if optimised is None else (optimised.spine, np.argsort(optimised.leaf))
    for query, level in product(data.draw(some.lists(some.sampled_from(queries), max_size=3)), spine.levels):
        both = np.vstack([known, answers(measured, schema, query, level, leaf)])
        implied = np.linalg.matrix_rank(both) == np.linalg.matrix_rank(known)
        assert exact.holds(query, level) == implied, (query, level, invariant)


@settings(max_examples=60)
@given(default_worlds())
def test_the_default_measures_every_query_that_is_not_exact_and_no_other(world):
    exact = world.strategy.exactness(world.spine, world.schema, optimised=world.optimised)
    names = {world.schema.query(name).name for name in ("total", *world.schema.attributes, "detailed")}
    for level in world.spine.levels:
        left = {name for name in names if not exact.holds(name, level)}
        assert set(world.strategy.queries[level]) == left
        assert len(set(world.strategy.queries[level].values())) <= 1
    shares = {share for share in world.strategy.levels.values() if share}
    assert len(shares) == 1  # equal shares for all levels with something to measure
    assert strategy_from_toml(strategy_to_toml(world.strategy)) == world.strategy


def test_the_share_of_an_exact_total_goes_to_the_other_queries_of_its_level():
    default = Strategy.default(nation(), AGE_SEX, epsilon=1, invariants=[Invariant(query="total", level="county")])
    thirds, quarters = {q: Fraction(1, 3) for q in ("age", "sex", "detailed")}, Fraction(1, 4)
    assert [dict(default.queries[level]) for level in ("us", "state", "county")] == [thirds] * 3
    assert dict(default.queries["tract"]) == dict.fromkeys(("total", "age", "sex", "detailed"), quarters)
    assert dict(default.levels) == dict.fromkeys(("us", "state", "county", "tract"), quarters)


def test_the_share_of_levels_whose_counts_are_all_exact_goes_to_the_other_levels():
    default = Strategy.default(nation(), AGE_SEX, rho=1, invariants=[Invariant(query="age * sex", level="state")])
    assert dict(default.levels) == {"us": 0, "state": 0, "county": Fraction(1, 2), "tract": Fraction(1, 2)}
    assert dict(default.queries["state"]) == {}
    with pytest.raises(
        BudgetError, match=r"every count is exact \(detailed is exact for every tract\), so there is not"
    ):
        Strategy.default(nation(), AGE_SEX, rho=1, invariants=[Invariant(query="detailed", level="tract")])


def test_a_level_of_an_optimised_spine_that_is_split_is_measured_although_the_published_one_is_exact():
    blocks = [f"{tract}{b}" for tract in ("1a1", "1a2", "2a1") for b in "xyz"]
    columns = {
        "state": [b[0] for b in blocks],
        "tract": [b[:3] for b in blocks],
        "group": [b[:3] + "g" for b in blocks],
    }
    spine = Spine.from_columns({**columns, "block": blocks}, root="us")
    total = Invariant(query="total", level="state")
    split = spine.optimised(tribal=Areas.from_codes(spine, leaf=["1a1x"], area=["Pueblo"]))
    kept = Strategy.default(spine, AGE_SEX, epsilon=1, invariants=[total], optimised=spine.optimised())
    other = Strategy.default(spine, AGE_SEX, epsilon=1, invariants=[total], optimised=split)
    assert "total" not in kept.queries["state"]
    assert "total" in other.queries["state"]
    assert "total" not in other.queries["us"]


@pytest.mark.parametrize(
    ("levels", "queries", "message"),
    [
        ({"us": 0, "a": 1}, {"us": {"age": 1}, "a": {"age": 1}}, r"level 'us' has the share 0, but queries \(age\)"),
        ({"us": "1/2", "a": "1/2"}, {"us": {}, "a": {"age": 1}}, "level 'us' has no queries"),
        ({"us": 0, "a": 0}, {}, "levels sum to 0, not 1"),
    ],
)
def test_a_level_has_a_share_and_queries_or_neither(levels, queries, message):
    with pytest.raises(BudgetError, match=message):
        Strategy(mechanism="geometric", budget=1, levels=levels, queries=queries)


def test_common_queries_of_a_file_are_not_those_of_a_level_with_the_share_0():
    plan = strategy_from_toml(
        'mechanism = "geometric"\nepsilon = 1\nlevels = {us = 0, a = "1"}\nqueries = {age = "1/2", detailed = "1/2"}\n'
        'constraints = [{invariant = "detailed", level = "us"}]'
    )
    assert list(plan.queries["us"]) == []
    assert list(plan.queries["a"]) == ["age", "detailed"]


def test_a_level_that_is_not_measured_must_be_exact_on_the_spine_that_is_measured():
    from tallyveil import Histogram
    from tallyveil.mechanisms.measure import measure

    spine = nation()
    people = Histogram.from_entries(spine, AGE_SEX, unit=[0], cell=[0], count=[3])
    plan = Strategy.default(spine, AGE_SEX, rho=1, invariants=[Invariant(query="detailed", level="county")])
    measure(people, plan, RunKey.from_seed(1))
    without = replace(plan, constraints=())
    with pytest.raises(StrategyError, match=r"share 0 for level 'us', but no invariant makes all its counts exact"):
        measure(people, without, RunKey.from_seed(1))
    rebuilt = spine.optimised(tribal=Areas.from_codes(spine, leaf=["2ax"], area=["Pueblo"]))
    with pytest.raises(StrategyError, match=r"share 0 for level 'state'"):
        measure(people, plan, RunKey.from_seed(1), optimised=rebuilt)
