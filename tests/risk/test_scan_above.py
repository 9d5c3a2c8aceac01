"""The scan with the hierarchy: every person's own sum, by hand."""

from fractions import Fraction

import pytest

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import InputError
from tallyveil.risk import Above, Hierarchy, Intruder, Several, scan_above

SCHEMA = Schema(attributes={"age": ["child", "adult"]})
SPINE = Spine.from_columns(
    {
        "county": ["A", "B", "B", "B", "C", "C"],
        "tract": ["A1", "B1", "B1", "B2", "C1", "C2"],
        "block": ["A11", "B11", "B12", "B21", "C11", "C21"],
    },
    root="state",
)
PEOPLE = Histogram.from_entries(
    SPINE, SCHEMA, unit=[0, 1, 1, 2, 3, 4, 5], cell=[0, 0, 1, 1, 1, 0, 0], count=[4, 1, 2, 3, 1, 900, 1]
)
LEVELS = {"state": "1/4", "county": "1/4", "tract": "1/4", "block": "1/4"}


def plan(only_child):
    return Strategy(
        mechanism="gaussian",
        budget=6,
        levels=LEVELS,
        queries={level: {"total": "1/3", "detailed": "2/3"} for level in LEVELS},
        only_child=only_child,
    )


def test_every_case_is_the_sum_of_its_own_hierarchy():
    # With the only-child rule: block A11 is measured with county A, B21 with tract B2, C11 and C21 with theirs.
    strategy = plan(only_child=True)
    own, twice, thrice = (strategy.noise("tract", "detailed", level_share=Fraction(n, 4)) for n in (1, 2, 3))
    wanted = {  # measured at, siblings, others above: people, own noise, noise above, siblings' noise
        ("county", 2, 901): (4, thrice, own, [own, own]),
        ("block", 1, 0): (1, own, own, [own]),
        ("block", 1, 3): (2, own, own, [own]),
        ("block", 1, 2): (3, own, own, [own]),
        ("tract", 1, 5): (1, twice, own, [own]),
        ("tract", 1, 1): (900, twice, own, [twice]),
        ("tract", 1, 900): (1, twice, own, [twice]),
    }
    found = scan_above(PEOPLE, strategy)
    assert found.people.sum() == PEOPLE.total()
    assert len(found) == len(wanted)
    for row in found.itertuples():
        exact = (row.measured_at, row.siblings, row.others)
        at = exact if exact in wanted else next(key for key in wanted if key[:2] == exact[:2] and key[2] > row.others)
        people, noise, above, siblings = wanted.pop(at)
        hierarchy = Hierarchy(
            intruder=Intruder(prior="1/2"), noise=noise, above=[Above(noise=above, siblings=siblings)]
        )
        decision = hierarchy.decision([1 + at[2]])  # all 900, where the scan stops counting earlier
        assert row.people == people
        assert row.right_decision == pytest.approx(decision.right_decision, abs=1e-9)
        assert (row.alone, row.gain, row.loss) == pytest.approx(
            (decision.alone, decision.gain, decision.loss), abs=1e-9
        )
    assert not wanted


def test_an_only_child_that_is_measured_itself_is_counted_twice():
    strategy = plan(only_child=False)
    found = scan_above(PEOPLE, strategy)
    alone = found[found.siblings == 0]
    assert alone.people.sum() == 4 + 1 + 900 + 1
    noise = strategy.noise("block", "detailed")
    both = Intruder(prior="1/2").against(noise, noise)
    assert alone.right_decision.to_numpy() == pytest.approx(both.right_decision, abs=1e-11)


def test_people_who_are_all_in_one_place_have_nothing_above():
    spine = Spine.from_columns({"block": ["1"]}, root="town")
    people = Histogram.from_entries(spine, SCHEMA, unit=[0], cell=[0], count=[4])
    strategy = Strategy(
        mechanism="gaussian",
        budget=1,
        levels={"town": "1/2", "block": "1/2"},
        queries={"town": {"detailed": 1}, "block": {"detailed": 1}},
        only_child=True,
    )
    with pytest.raises(InputError, match="no unit above"):
        scan_above(people, strategy)


@pytest.mark.parametrize("budget", [{"rho": 6}, {"epsilon": 3}], ids=["gaussian", "geometric"])
def test_unknown_people_are_those_of_each_hierarchy_however_many_the_siblings_have(budget):
    spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    people = Histogram.from_entries(spine, SCHEMA, unit=[0, 1, 1, 2], cell=[0, 0, 1, 1], count=[1, 2, 1, 300])
    strategy = Strategy.default(spine, SCHEMA, **budget)
    found = scan_above(people, strategy, prior="1/3", unknown=4, share="1/5")
    own, town = (strategy.noise(level, "detailed") for level in ("block", "town"))
    several = Several(intruder=Intruder(prior="1/3"), others=4, share="1/5")
    two = Hierarchy(intruder=several, noise=own, above=[Above(noise=town, siblings=[own] * 2)])
    assert found.people.tolist() == [302, 1, 1]
    for row, others in zip(found.itertuples(), (1, 2, 300), strict=True):
        decision = two.decision([1 + others])
        assert row.others <= others
        assert (row.right_decision, row.gain, row.loss, row.alone) == pytest.approx(
            (decision.right_decision, decision.gain, decision.loss, decision.alone), abs=1e-9
        )
