"""The family of neighbours that an audit searches: every pair is covered by the guarantee and is what its name says."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.auditing.mechanism_runs import SimpleRuns, TopDownRuns
from tallyveil.auditing.pair_family import pair_family
from tallyveil.errors import InputError
from tallyveil.evaluate.audit.pairs import NeighbourPair
from tallyveil.privacy import Bound, Invariant

SPINE = Spine.from_columns({"county": ["1", "1", "2", "2", "2"], "block": ["11", "12", "21", "22", "23"]}, root="us")
PARENT = np.array([0, 0, 1, 1, 1])
SCHEMA = Schema(
    attributes={"age": ["child", "adult"], "home": ["house", "prison", "ship"]},
    zeros=[{"age": ["child"], "home": ["prison"]}],
)
POSSIBLE = SCHEMA.possible.reshape(-1)
TABLE = np.array([[3, 0, 2, 6, 1, 0], [4, 0, 3, 5, 0, 2], [6, 0, 7, 3, 1, 1], [2, 0, 4, 8, 1, 0], [5, 0, 0, 4, 2, 1]])


def counted(table: np.ndarray) -> Histogram:
    unit, cell = np.indices(table.shape).reshape(2, -1)
    return Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=cell, count=table.reshape(-1))


def simple(neighbours: str) -> SimpleRuns:
    return SimpleRuns(name="geometric", epsilon=Fraction(1), query="detailed", neighbours=neighbours, seed=0)


def topdown(*constraints: Invariant | Bound) -> TopDownRuns:
    strategy = replace(Strategy.default(SPINE, SCHEMA, epsilon=1), constraints=constraints)
    return TopDownRuns(strategy=strategy, facilities=None, seed=0, delta=0.0)


def tables(pair: NeighbourPair) -> tuple[np.ndarray, np.ndarray]:
    return pair.people.leaves.dense(), pair.neighbour.leaves.dense()


def is_what_it_says(pair: NeighbourPair) -> bool:
    """The name of a pair checked against its two tables, block by block."""
    one, two = tables(pair)
    change = two - one
    where = [tuple(int(axis) for axis in place) for place in np.argwhere(change)]
    (source,) = [place for place in where if change[place] < 0]
    (target,) = [place for place in where if change[place] > 0]
    labels = [np.unravel_index(cell, SCHEMA.shape) for _, cell in (source, target)]
    differ = [name for i, name in enumerate(SCHEMA.attributes) if labels[0][i] != labels[1][i]]
    moved = source[0] != target[0]
    siblings = moved and PARENT[source[0]] == PARENT[target[0]]
    return {
        "a person moves into an empty unit": moved and one[target[0]].sum() == 0,
        "a person joins the only person of a unit": moved and one[target[0]].sum() == 1,
        "a person of a homogeneous unit changes": (one[source[0]] > 0).sum() == 1 and one[source[0]].sum() > 1,
        "a person leaves a large unit": moved and one[source[0]].sum() >= 1_000,
        "a person moves to a sibling unit": siblings and not differ,
        "a person moves to a unit of another parent": moved and not siblings and not differ,
        "a person changes age": not moved and differ == ["age"],
        "a person changes home": not moved and differ == ["home"],
        "a person changes all attributes": not moved and differ == ["age", "home"],
        "a person moves to another parent and changes all attributes": moved
        and not siblings
        and differ == ["age", "home"],
    }[pair.name]


def test_the_data_have_a_pair_of_every_kind():
    found = pair_family(counted(TABLE), simple("replace-one"), query="detailed")
    assert len(found.pairs) == 10
    assert found.left_out == ()
    assert found.proven == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["replace-one", "add-or-remove"]))
def test_every_pair_of_any_data_is_one_person_apart_and_what_its_name_says(seed, neighbours):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, (5, 6)) * (rng.random((5, 1)) < 0.7) * POSSIBLE
    table[0, 0] += 1  # somebody
    for pair in pair_family(counted(table), simple(neighbours), query="detailed").pairs:
        one, two = tables(pair)
        assert np.abs(one - two).sum() == (2 if neighbours == "replace-one" else 1)
        assert not one[:, ~POSSIBLE].any()
        assert not two[:, ~POSSIBLE].any()
        assert bool(pair.made) == (one != table).any()
        assert ((one != table).any(axis=1)).sum() <= 1, "one unit is altered at most"
        if neighbours == "replace-one":
            assert is_what_it_says(pair), (pair.name, one, two)


def test_add_or_remove_neighbours_are_people_added_and_removed_and_a_move_is_left_out_as_two_steps():
    found = pair_family(counted(TABLE), simple("add-or-remove"), query="detailed")
    sizes = {pair.name: [int(table.sum()) for table in tables(pair)] for pair in found.pairs}
    assert all(two - one == (-1 if "removed" in name else 1) for name, (one, two) in sizes.items())
    assert len(sizes) == 5
    assert found.proven == 1
    assert [kind.pair for kind in found.left_out] == ["a person moves or changes an attribute"]


def test_pairs_that_differ_in_an_invariant_are_left_out_with_the_reason():
    run = topdown(Invariant(query="total", level="county"))
    found = pair_family(counted(TABLE), run, query="detailed")
    for pair in found.pairs:
        one, two = (np.add.reduceat(table.sum(axis=1), [0, 2]) for table in tables(pair))
        assert one.tolist() == two.tolist()
    assert [kind.pair for kind in found.left_out] == [
        "a person moves to a unit of another parent",
        "a person moves to another parent and changes all attributes",
    ]
    assert all("total is exact for every county" in kind.reason for kind in found.left_out)
    exact = pair_family(counted(TABLE), topdown(Invariant(query="total", level="block")), query="detailed")
    assert [pair.name for pair in exact.pairs] == [
        "a person of a homogeneous unit changes",
        "a person changes age",
        "a person changes home",
        "a person changes all attributes",
    ]


def test_pairs_whose_data_or_neighbour_break_a_bound_are_not_used():
    """Every block holds at least one person and at most 40, so no block can be emptied or enlarged to 1,000."""
    bounds = (
        Bound(query="total", level="block", least={"*": 1}),
        Bound(query="total", level="block", most={"*": 40}),
    )
    found = pair_family(counted(TABLE), topdown(*bounds), query="detailed")
    assert [kind.pair for kind in found.left_out] == ["a person moves into an empty unit"]
    assert "block '11' has 0 in 'total' of 'total', not 1 to" in found.left_out[0].reason
    for pair in found.pairs:
        assert all(1 <= total <= 40 for table in tables(pair) for total in table.sum(axis=1))
    large = next(pair for pair in found.pairs if "large" in pair.name)
    assert large.made == ""


def test_a_query_that_does_not_see_a_change_leaves_the_kind_out():
    found = pair_family(counted(TABLE), simple("replace-one"), query="total")
    assert {kind.pair for kind in found.left_out} == {
        "a person changes age",
        "a person changes home",
        "a person changes all attributes",
    }
    assert found.left_out[0].reason == "no count of 'total' differs between the two."
    homogeneous = next(pair for pair in found.pairs if "homogeneous" in pair.name)
    assert (tables(homogeneous)[0].sum(axis=1) != tables(homogeneous)[1].sum(axis=1)).sum() == 2, (
        "the person moves away"
    )


def test_a_tree_with_one_leaf_and_nobody_in_it_has_no_pairs():
    spine = Spine.from_columns({"block": ["1"]})
    nobody = Histogram.from_entries(spine, SCHEMA, unit=[], cell=[], count=[])
    with pytest.raises(InputError, match=r"no pair of neighbours was found \(the data have no such units or people\)"):
        pair_family(nobody, simple("replace-one"), query="detailed")
