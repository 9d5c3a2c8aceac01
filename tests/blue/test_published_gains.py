"""The standard deviations of the 2020 allocation on an average tree, worked out independently of this code."""

from dataclasses import replace

import numpy as np
import pytest

import tallyveil as tv
from tallyveil.blue.accuracy import unmeasured
from tallyveil.blue.downward import whole_tree
from tallyveil.blue.linear import conditioned, inverse_on
from tallyveil.blue.problem import problem_of
from tallyveil.privacy import Invariant, Strategy

LEVELS = ["us", "state", "county", "tract", "block_group", "block"]
FANOUT = [51, 62, 27, 3, 34]
PLAN = replace(
    Strategy.preset("pl94-2020-us-persons"), only_child=False, constraints=(Invariant(query="total", level="state"),)
)
RACE, BOTH, ALL = "cenrace", "hispanic * cenrace", "votingage * hispanic * cenrace"
EXPECTED = {  # the noise, the unit's own queries, TopDown without bounds, the best estimate; ratio of variances
    ("state", RACE): ("27.6", "11.5", "11.4", "11.3", ".98"),
    ("state", "detailed"): ("4.45", "4.26", "4.21", "4.18", ".98"),
    ("county", "total"): ("2.17", "2.16", "2.14", "2.09", ".95"),
    ("county", "votingage"): ("38.3", "20.8", "20.7", "20.2", ".96"),
    ("county", "hispanic"): ("38.3", "20.8", "20.7", "19.0", ".85"),
    ("county", RACE): ("38.3", "12.9", "12.8", "9.3", ".53"),
    ("county", BOTH): ("22.9", "10.0", "9.9", "6.9", ".48"),
    ("county", "detailed"): ("4.42", "4.23", "4.20", "3.99", ".90"),
    ("tract", "total"): ("2.47", "2.45", "2.41", "1.87", ".60"),
    ("tract", "votingage"): ("43.8", "23.3", "22.9", "19.2", ".70"),
    ("tract", RACE): ("34.6", "3.05", "3.03", "2.60", ".74"),
    ("tract", ALL): ("12.0", "5.8", "5.7", "4.3", ".55"),
    ("tract", "detailed"): ("4.46", "4.23", "4.15", "2.57", ".38"),
    ("block_group", "total"): ("1.75", "1.74", "1.63", "1.55", ".90"),
    ("block_group", RACE): ("41.8", "2.98", "2.63", "2.58", ".96"),
    ("block_group", "detailed"): ("2.02", "1.94", "2.10", "1.79", ".73"),
}
QUERIES = ["total", "votingage", "hispanic", RACE, BOTH, ALL, "detailed"]


def average_tree(fanout, zeros=()):
    """The problem on a tree in which all units of a level are alike, each listed once with its number of siblings."""
    schema = replace(tv.schemas.PERSONS_2020, zeros=zeros)
    spine = tv.Spine.from_columns({level: [level] for level in LEVELS[1:]}, root="us", relative=True)
    queries = [schema.query(name) for name in QUERIES]
    problem = problem_of(unmeasured(spine, schema, PLAN), queries, noise=False)
    stages = [
        replace(one, stage=replace(one.stage, times=np.array([many])))
        for one, many in zip(problem.stages[:-1], fanout, strict=True)
    ]
    return replace(problem, stages=[*stages, problem.stages[-1]]), schema


def deviations(fanout, zeros=()):
    """For each level and query: the sds of the unit's own queries, of TopDown without bounds, and of the estimate.

    TopDown takes the parent as it was estimated from above: V_c (1 - 1/n) + V_p / n^2 for n equal siblings.
    """
    problem, schema = average_tree(fanout, zeros)
    best = {problem.stages[one.number].stage.level: one.V for one in whole_tree(problem)}
    total = problem.decomposition.marginal(schema.query("total"))
    found, topdown = {}, None
    for depth, level in enumerate(LEVELS):
        stage = problem.stages[depth]
        own = inverse_on(stage.opened[:1], stage.information[:1])
        if level in ("us", "state"):
            own, _ = conditioned(own, total.dense, total.gram > 0)
        many = ([1, *fanout])[depth]
        topdown = own if topdown is None else own * (1 - 1 / many) + topdown / many**2
        for name in QUERIES:
            marginal = problem.decomposition.marginal(schema.query(name))
            variances = (marginal.variances(V)[0, 0] for V in (own, topdown, best[level]))
            found[level, name] = [float(np.sqrt(variance)) for variance in variances]
    return found


def ratio(found, level, query):
    _, topdown, best = found[level, query]
    return (best / topdown) ** 2


def agrees(value: float, printed: str) -> bool:
    """Whether a value has the printed digits."""
    return abs(value - float(printed)) <= 0.5001 * 10 ** -len(printed.partition(".")[2])


def test_the_average_tree_gives_every_row_of_the_table():
    found = deviations(FANOUT)
    for (level, query), printed in EXPECTED.items():
        noise = np.sqrt(PLAN.noise(level, query).actual_variance())
        ours = [noise, *found[level, query], ratio(found, level, query)]
        assert all(map(agrees, ours, printed)), (level, query, ours, printed)
    for query in QUERIES:
        assert ratio(found, "block", query) == pytest.approx(1, abs=0.005)


def test_small_counties_gain_most_and_large_ones_little():
    small, large = deviations([51, 62, 4, 3, 34]), deviations([51, 62, 100, 3, 34])
    for query, printed in {"total": ".76", "hispanic": ".46", RACE: ".14", BOTH: ".12", "detailed": ".60"}.items():
        assert agrees(ratio(small, "county", query), printed), query
    assert agrees(ratio(large, "county", "total"), ".99")
    assert ratio(large, "county", RACE) == pytest.approx(0.81, abs=0.01)  # 0.805, where the note has .81
    assert 1.80 < small["county", "total"][2] <= 1.87  # by hand 1.87 from total queries only


def test_areas_with_households_only_gain_too():
    kinds = tv.schemas.PERSONS_2020.attributes["hhgq"]
    found = deviations(FANOUT, zeros=({"hhgq": kinds[1:]},))
    for (level, query), printed in {
        ("county", RACE): ".73",
        ("tract", "total"): ".60",
        ("tract", ALL): ".44",
    }.items():
        assert agrees(ratio(found, level, query), printed), (level, query, ratio(found, level, query))
    for query in QUERIES:
        assert 0.79 < ratio(found, "block_group", query) < 0.95, (query, ratio(found, "block_group", query))
