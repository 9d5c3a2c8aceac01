"""Counts on a spine and a schema, against dictionaries of people."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from brute_force import all_factor_sets, answer, cells, columns, impossible, patient, refused, schemas, trees, units
from hypothesis import assume, given
from hypothesis import strategies as st

from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Grouping, Schema
from tallyveil.nouns.spine import Spine

TOWNS = {"county": ["x", "x", "y"], "town": ["xa", "xb", "yc"]}
AGES = {"age": ["child", "adult"], "home": ["household", "nursing", "prison"]}
KIND = {"household": ["household"], "gq": ["nursing", "prison"]}


@st.composite
def populations(draw):
    """A tree, a schema, and people in the possible cells of some leaves: (path, cell, count) with repeats."""
    levels, paths = draw(trees())
    plain = draw(schemas())
    allowed = [i for i, cell in enumerate(cells(plain)) if not impossible(plain, cell)]
    assume(allowed)
    entry = st.tuples(st.sampled_from(paths), st.sampled_from(allowed), st.sampled_from([0, 1, 2, 7, 300, 2**31]))
    return levels, paths, plain, draw(st.lists(entry, max_size=20))


def make(levels, paths, plain, listed):
    spine = Spine.from_columns(columns(levels, paths))
    groupings = {name: Grouping(of=of, groups=groups) for name, (of, groups) in plain["groupings"].items()}
    schema = Schema(attributes=plain["attributes"], groupings=groupings, zeros=plain["zeros"])
    unit = spine.locate(spine.leaf, [path[-1] for path, _, _ in listed]) if listed else []
    cell, count = [c for _, c, _ in listed], [n for _, _, n in listed]
    return Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=count)


def counter(listed):
    people = Counter()
    for path, cell, count in listed:
        people[path, cell] += count
    return people


def joined(histogram):
    return b"".join(histogram.canonical_bytes())


def small(*, columns=TOWNS, root="state", unit=(0, 2), cell=(0, 5), count=(10, 5), **schema):
    spine = Spine.from_columns(columns, root=root)
    return Histogram.from_entries(spine, Schema(**({"attributes": AGES} | schema)), unit=unit, cell=cell, count=count)


# ---- against brute force


@patient
@given(populations())
def test_every_query_at_every_level_adds_up_the_people_below(population):
    levels, paths, plain, listed = population
    histogram = make(*population)
    people = counter(listed)
    for depth, factors in product(range(len(levels)), all_factor_sets(plain)[:12]):
        text = " * ".join(reversed(factors)) or "total"
        got = histogram.answer(text, level=levels[depth]).dense().tolist()
        assert got == answer(people, paths, depth, plain, factors)


@patient
@given(populations())
def test_levels_summed_at_once_or_one_by_one_are_the_detailed_answer(population):
    levels, paths, plain, listed = population
    histogram = make(*population)
    one_by_one = dict(histogram.by_level())
    assert list(one_by_one) == list(reversed(levels))
    for depth, level in enumerate(levels):
        expected = answer(counter(listed), paths, depth, plain, tuple(plain["attributes"]))
        assert histogram.at(level).dense().tolist() == expected
        assert one_by_one[level].dense().tolist() == expected
        assert histogram.at(level).units == len(units(paths, depth))
        assert histogram.at(level).total() == histogram.total() == sum(count for _, _, count in listed)


@patient
@given(populations(), st.randoms(use_true_random=False))
def test_shuffled_units_and_entries_make_the_same_histogram(population, dice):
    levels, paths, plain, listed = population
    other_paths, other_listed = list(paths), list(listed)
    dice.shuffle(other_paths)
    dice.shuffle(other_listed)
    assert joined(make(*population)) == joined(make(levels, other_paths, plain, other_listed))


@patient
@given(populations(), st.data())
def test_one_person_more_changes_the_canonical_bytes(population, data):
    levels, paths, plain, listed = population
    allowed = [i for i, cell in enumerate(cells(plain)) if not impossible(plain, cell)]
    extra = (data.draw(st.sampled_from(paths)), data.draw(st.sampled_from(allowed)), 1)
    assert joined(make(*population)) != joined(make(levels, paths, plain, [*listed, extra]))


@patient
@given(populations(), st.data())
def test_anybody_in_an_impossible_cell_is_refused_with_the_unit_and_the_labels(population, data):
    levels, paths, plain, listed = population
    cell = data.draw(st.integers(0, len(cells(plain)) - 1))
    labels = cells(plain)[cell]
    zero = {name: [label] for name, label in labels.items()}
    others = [entry for entry in listed if entry[1] != cell]
    path = data.draw(st.sampled_from(paths))
    plain = plain | {"zeros": [*plain["zeros"], zero]}
    make(levels, paths, plain, others)
    with refused(f"{levels[-1]} {path[-1]!r}", repr("*".join(labels.values())), "structural zero", "Correct"):
        make(levels, paths, plain, [*others, (path, cell, 1)])


@patient
@given(populations())
def test_nobody_in_an_impossible_cell_is_no_offence(population):
    levels, paths, plain, listed = population
    nobody = [(paths[0], i, 0) for i, cell in enumerate(cells(plain)) if impossible(plain, cell)]
    assert joined(make(levels, paths, plain, [*listed, *nobody])) == joined(make(*population))


# ---- shapes and sizes


def test_empty_units_are_kept_at_every_level():
    histogram = small(unit=[2], cell=[1], count=[4])
    assert histogram.answer("total", level="town").dense().tolist() == [[0], [0], [4]]
    assert histogram.answer("total", level="county").dense().tolist() == [[0], [4]]


def test_a_histogram_of_nobody_answers_zero():
    histogram = small(unit=[], cell=[], count=[])
    assert histogram.total() == 0
    assert histogram.at("state").dense().tolist() == [[0] * 6]


def test_a_histogram_on_one_level_is_its_own_sum():
    histogram = small(columns={"town": ["a"]}, root=None, unit=[0, 0], cell=[0, 0], count=[1, 2])
    assert [(level, table.dense().tolist()) for level, table in histogram.by_level()] == [
        ("town", [[3, 0, 0, 0, 0, 0]])
    ]
    assert histogram.answer("age", level="town").dense().tolist() == [[3, 0]]


def test_a_hundred_levels_of_single_children_carry_the_counts_up():
    chain = {f"level {i}": [f"u{i}"] * 2 for i in range(100)} | {"end": ["a", "b"]}
    histogram = small(columns=chain, root=None, unit=[0, 1], cell=[0, 0], count=[1, 2])
    tables = dict(histogram.by_level())
    assert len(tables) == 101
    assert tables["level 0"].dense()[0, 0] == histogram.at("level 0").dense()[0, 0] == 3


def test_ten_thousand_leaves_and_a_total_above_two_to_the_31_add_up():
    size = 10_000
    codes = {"county": [f"c{i % 37:02}" for i in range(size)], "town": [f"t{i:05}" for i in range(size)]}
    spine = Spine.from_columns(codes, root="us")
    unit = spine.locate("town", codes["town"])
    count = np.arange(size) + 10**6
    histogram = Histogram.from_entries(spine, Schema(attributes=AGES), unit=unit, cell=np.arange(size) % 6, count=count)
    assert histogram.total() == int(count.sum()) > 2**31
    by_county = histogram.answer("home", level="county").dense()
    for county, home in [(0, 0), (17, 2), (36, 1)]:
        mine = (np.arange(size) % 37 == county) & (np.arange(size) % 6 % 3 == home)
        assert by_county[county, home] == count[mine].sum()


def test_more_than_65536_cells_are_answered_detailed_and_by_attribute():
    attributes = {"a": [f"{i}" for i in range(300)], "b": [f"{i}" for i in range(250)]}
    histogram = small(attributes=attributes, unit=[0, 1, 2], cell=[74_999, 74_999, 0], count=[1, 2, 4])
    assert histogram.at("county").dense()[:, [0, 74_999]].tolist() == [[0, 3], [4, 0]]
    assert histogram.answer("a", level="state").dense()[0, [0, 299]].tolist() == [4, 3]


def test_a_query_made_beforehand_gives_the_same_answer_as_its_text():
    histogram = small(groupings={"kind": Grouping(of="home", groups=KIND)})
    for text in ("total", "detailed", "kind * age"):
        query = histogram.schema.query(text)
        assert (
            histogram.answer(query, level="county").dense().tolist()
            == histogram.answer(text, level="county").dense().tolist()
        )


def test_codes_and_labels_outside_ascii_are_answered_and_named():
    with refused("kommun 'Malmö'", "'barn*fängelse'"):
        Histogram.from_entries(
            Spine.from_columns({"kommun": ["Örebro", "Malmö"]}, root="land"),
            Schema(
                attributes={"ålder": ["barn", "vuxen"], "hem": ["hushåll", "fängelse"]},
                zeros=[{"ålder": ["barn"], "hem": ["fängelse"]}],
            ),
            unit=[0],
            cell=[1],
            count=[1],
        )


def test_a_histogram_shows_its_sizes_and_no_count():
    assert repr(small(count=[1234, 5])) == "Histogram(state 1, county 2, town 3; age 2, home 3)"


def test_answers_cannot_be_written_to():
    histogram = small()
    for table in (histogram.leaves, histogram.at("county"), histogram.answer("age", level="state")):
        for array in (table.start, table.cell, table.count):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


# ---- canonical bytes: equal for equal content, different for different content


def test_canonical_bytes_do_not_depend_on_how_codes_labels_and_counts_are_held():
    held = small(
        columns={name: np.array(codes, dtype="U30") for name, codes in TOWNS.items()},
        attributes={name: np.array(labels) for name, labels in AGES.items()},
        unit=np.array([2, 0], dtype=np.int64),
        cell=np.array([5.0, 0.0]),
        count=[5, 10],
    )
    assert joined(held) == joined(small())


def test_canonical_bytes_do_not_depend_on_the_type_of_counts_held():
    plain = small()
    leaves = plain.leaves
    wide = Counts(
        start=leaves.start,
        cell=leaves.cell.astype(np.uint32),
        count=leaves.count.astype(np.int64),
        cells=leaves.cells,
    )
    assert joined(Histogram(spine=plain.spine, schema=plain.schema, leaves=wide)) == joined(plain)


def test_canonical_bytes_do_not_depend_on_the_order_in_which_zeros_and_groupings_are_listed():
    def histogram(turn):
        zeros = [{"age": ["child"], "home": ["nursing", "prison"]}, {"home": ["nursing"]}]
        groupings = {
            "kind": Grouping(of="home", groups=KIND),
            "life": Grouping(of="age", groups={"all": ["child", "adult"]}),
        }
        return small(zeros=turn(zeros), groupings=dict(turn(list(groupings.items()))))

    assert joined(histogram(list)) == joined(histogram(lambda items: items[::-1]))


def test_canonical_bytes_do_not_depend_on_the_order_of_labels_within_a_zero_or_a_group():
    def histogram(turn):
        return small(
            zeros=[{"age": ["child"], "home": turn(["nursing", "prison"])}],
            groupings={"kind": Grouping(of="home", groups={k: turn(v) for k, v in KIND.items()})},
        )

    assert joined(histogram(list)) == joined(histogram(lambda labels: labels[::-1]))


def test_canonical_bytes_differ_when_the_groups_and_so_the_rows_of_answers_are_reordered():
    """One key must not put the noise of row 0 on two different rows: their difference would be exact."""
    straight = small(groupings={"kind": Grouping(of="home", groups=KIND)})
    flipped = small(groupings={"kind": Grouping(of="home", groups=dict(reversed(KIND.items())))})
    assert straight.schema.query("kind").labels() != flipped.schema.query("kind").labels()
    assert joined(straight) != joined(flipped)


@pytest.mark.parametrize(
    "change",
    [
        {"columns": TOWNS | {"town": ["xa", "xb", "yd"]}},
        {"columns": TOWNS | {"county": ["x", "y", "y"]}},
        {"columns": {"county": TOWNS["county"], "city": TOWNS["town"]}},
        {"root": "land"},
        {"attributes": {"age": ["child", "adult"], "home": ["household", "nursing", "jail"]}},
        {"attributes": {"age": ["adult", "child"], "home": AGES["home"]}},
        {"attributes": dict(reversed(AGES.items()))},
        {"attributes": {"old": AGES["age"], "home": AGES["home"]}},
        {"groupings": {"kind": Grouping(of="home", groups=KIND)}},
        {"zeros": [{"age": ["child"], "home": ["nursing"]}]},
        {"unit": [1, 2]},
        {"cell": [1, 5]},
        {"count": [10, 4]},
    ],
    ids=lambda change: f"{next(iter(change))}",
)
def test_canonical_bytes_differ_when_anything_in_the_content_differs(change):
    assert joined(small(**change)) != joined(small())


def test_canonical_bytes_keep_codes_apart():
    one = small(columns={"town": ["ab", "c", "d"]})
    two = small(columns={"town": ["a", "bc", "d"]})
    assert joined(one) != joined(two)


# ---- bad input


def test_counts_of_another_size_are_refused_with_both_sizes():
    spine, schema = Spine.from_columns(TOWNS, root="state"), Schema(attributes=AGES)
    for wrong_units, wrong_cells in [(4, 6), (3, 5)]:
        leaves = Counts.from_entries([], [], [], units=wrong_units, cells=wrong_cells)
        with refused(f"{wrong_units} units x {wrong_cells} cells", "3 leaves", "6 cells", "this spine"):
            Histogram(spine=spine, schema=schema, leaves=leaves)


def test_a_structural_zero_is_met_in_the_right_unit_among_empty_ones():
    towns = {"town": [f"t{i}" for i in range(8)]}
    with refused("town 't6'", "'child*prison'"):
        small(
            columns=towns,
            unit=[1, 4, 6, 7],
            cell=[0, 3, 2, 2],
            count=[1] * 4,
            zeros=[{"age": ["child"], "home": ["prison"]}],
        )


@pytest.mark.parametrize("ask", ["at", "answer"])
def test_an_unknown_level_is_refused_with_the_levels_there_are(ask):
    histogram = small()
    with refused("'block'", "state, county, town"):
        histogram.at("block") if ask == "at" else histogram.answer("age", level="block")


def test_an_unknown_query_is_refused_with_the_factors_there_are():
    with refused("'race'", "age, home"):
        small().answer("race", level="state")


@pytest.mark.parametrize(
    ("attributes", "text"),
    [({"race": list("abcdefg")}, "race"), (dict(reversed(AGES.items())), "age"), ({"race": list("abcdef")}, "race")],
    ids=["more cells", "same attributes in another order", "as many cells"],
)
def test_a_query_of_another_schema_is_refused_even_if_it_has_as_many_cells(attributes, text):
    other = Schema(attributes=attributes).query(text)
    with refused("another schema", "Ask by name"):
        small().answer(other, level="county")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"unit": [0, 3]}, ("row 2", "unit 3", "0 and 2")),
        ({"cell": [6, 0]}, ("row 1", "cell 6", "0 and 5")),
        ({"count": [1, -1]}, ("row 2", "-1", "negative")),
        ({"count": [1, 0.5]}, ("row 2", "0.5", "not whole")),
        ({"count": [1, float("nan")]}, ("row 2", "nan", "not whole")),
        ({"count": [1]}, ("2 units, 2 cells and 1 counts",)),
    ],
    ids=["unit", "cell", "negative", "fraction", "missing", "length"],
)
def test_bad_entries_are_refused_with_their_row(change, parts):
    with refused(*parts):
        small(**change)


def test_exact_fractions_are_not_counts():
    with refused("not numbers"):
        small(count=[Fraction(1, 2), 1])
