"""Attributes, groupings, structural zeros and queries, against cells written out as dictionaries."""

import numpy as np
import pytest
from brute_force import all_factor_sets, cells, impossible, label_in, patient, refused, rows, schemas
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.nouns.schema import Grouping, Schema, factors_of

AGES = {"age": ["child", "adult"], "home": ["household", "nursing", "prison"]}
KIND = Grouping(of="home", groups={"household": ["household"], "gq": ["nursing", "prison"]})


def build(plain):
    groupings = {name: Grouping(of=of, groups=groups) for name, (of, groups) in plain["groupings"].items()}
    return Schema(attributes=plain["attributes"], groupings=groupings, zeros=plain["zeros"])


# ---- against brute force


@patient
@given(schemas())
def test_cells_are_numbered_with_the_last_attribute_running_fastest(plain):
    schema = build(plain)
    every = cells(plain)
    assert schema.cells == len(every)
    assert [schema.cell(**cell) for cell in every] == list(range(len(every)))
    assert schema.shape == tuple(len(labels) for labels in plain["attributes"].values())


@patient
@given(schemas())
def test_a_cell_is_possible_unless_a_structural_zero_holds_all_its_labels(plain):
    assert build(plain).possible.tolist() == [not impossible(plain, cell) for cell in cells(plain)]


@patient
@given(schemas())
def test_every_query_puts_each_cell_into_the_row_with_its_labels(plain):
    schema = build(plain)
    every = cells(plain)
    for factors in all_factor_sets(plain):
        query = schema.query(" * ".join(factors) or "total")
        expected = rows(plain, factors)
        assert query.factors == factors
        assert query.size == len(expected)
        assert query.labels() == ["*".join(row) or "total" for row in expected]
        fallen = [expected[row] for row in query.row_of_cell]
        assert fallen == [tuple(label_in(plain, factor, cell) for factor in factors) for cell in every]


@patient
@given(schemas(), st.data())
def test_the_order_and_spacing_of_factors_do_not_matter(plain, data):
    schema = build(plain)
    factors = data.draw(st.sampled_from([f for f in all_factor_sets(plain) if f]))
    mixed = data.draw(st.permutations(factors))
    star = data.draw(st.sampled_from(["*", " * ", "  *", "*\t"]))
    straight, odd = schema.query(" * ".join(factors)), schema.query(f" {star.join(mixed)} ")
    assert (odd.name, odd.factors, odd.row_labels) == (straight.name, straight.factors, straight.row_labels)
    assert odd.row_of_cell.tolist() == straight.row_of_cell.tolist()


# ---- queries by name


@pytest.mark.parametrize("text", ["total", " total ", "total\n"])
def test_total_is_one_row_for_all_cells(text):
    query = Schema(attributes=AGES).query(text)
    assert (query.name, query.size, query.labels()) == ("total", 1, ["total"])
    assert query.row_of_cell.tolist() == [0] * 6


@pytest.mark.parametrize("text", ["detailed", "  detailed ", "home * age", "age*home"])
def test_detailed_is_every_attribute_and_one_row_a_cell(text):
    query = Schema(attributes=AGES).query(text)
    assert query.name == "detailed"
    assert query.row_of_cell.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_product_of_groupings_is_not_called_detailed():
    schema = Schema(attributes=AGES, groupings={"kind": KIND})
    assert schema.query("kind * age").name == "age * kind"
    assert schema.query("kind").labels() == ["household", "gq"]


def test_groups_keep_the_order_in_which_they_were_given():
    flipped = Grouping(of="home", groups={"gq": ["prison", "nursing"], "household": ["household"]})
    query = Schema(attributes=AGES, groupings={"kind": flipped}).query("kind")
    assert query.labels() == ["gq", "household"]
    assert query.row_of_cell.tolist() == [1, 0, 0, 1, 0, 0]


def test_factors_are_read_as_written():
    assert factors_of(" race*  age ") == ("race", "age")
    assert factors_of("total") == ()
    assert factors_of("detailed") == ("detailed",)


# ---- a schema is one thing and stays it


def test_schemas_with_the_same_content_are_equal_however_they_were_given():
    lists = Schema(attributes=AGES, groupings={"kind": KIND}, zeros=[{"age": ["child"]}])
    tuples = Schema(
        attributes={name: tuple(labels) for name, labels in AGES.items()},
        groupings={"kind": KIND},
        zeros=({"age": ("child",)},),
    )
    assert lists == tuples


def test_schemas_that_number_their_cells_differently_are_not_equal():
    one = Schema(attributes=AGES)
    two = Schema(attributes={"home": AGES["home"], "age": AGES["age"]})
    assert one.cell(age="child", home="prison") != two.cell(age="child", home="prison")
    assert one != two


def test_schemas_whose_groups_stand_in_another_order_are_not_equal():
    flipped = Grouping(of="home", groups=dict(reversed(KIND.groups.items())))
    one, two = (Schema(attributes=AGES, groupings={"kind": kind}) for kind in (KIND, flipped))
    assert one.query("kind").labels() != two.query("kind").labels()
    assert one != two


def test_arrays_of_a_schema_and_its_queries_cannot_be_written_to():
    schema = Schema(attributes=AGES, zeros=[{"age": ["child"], "home": ["prison"]}])
    for array in (schema.possible, schema.query("age").row_of_cell):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_the_parts_of_a_schema_cannot_be_replaced():
    schema = Schema(attributes=AGES, groupings={"kind": KIND}, zeros=[{"age": ["child"]}])
    for part, key in ((schema.attributes, "age"), (schema.groupings, "kind"), (KIND.groups, "gq")):
        with pytest.raises(TypeError):
            part[key] = ("other",)
    with pytest.raises(TypeError):
        schema.zeros[0]["age"] = ("adult",)


def test_a_schema_does_not_follow_later_changes_of_what_it_was_given():
    labels, zero = ["child", "adult"], {"age": ["child"]}
    attributes = {"age": labels}
    schema = Schema(attributes=attributes, zeros=[zero])
    labels.append("old")
    attributes["sex"] = ["f", "m"]
    zero["age"].append("adult")
    assert schema.cells == 2
    assert schema.possible.tolist() == [False, True]


def test_a_thousand_labels_and_a_hundred_thousand_cells_are_numbered_without_wrapping():
    schema = Schema(attributes={"a": [f"{i}" for i in range(1000)], "b": [f"{i}" for i in range(100)]})
    assert schema.cell(a="999", b="99") == 99_999
    assert schema.query("detailed").row_of_cell[-1] == 99_999
    assert schema.query("a").row_of_cell[[0, 99, 100, 99_999]].tolist() == [0, 0, 1, 999]


# ---- bad input


def test_an_unknown_factor_is_refused_with_those_known():
    schema = Schema(attributes=AGES, groupings={"kind": KIND})
    with refused("'age * race'", "'race'", "age, home, kind"):
        schema.query("age * race")


@pytest.mark.parametrize("text", ["Total", "DETAILED"])
def test_names_of_queries_are_written_small(text):
    with refused(repr(text), "unknown factor"):
        Schema(attributes=AGES).query(text)


def test_a_factor_named_twice_is_refused():
    with refused("'age * home * age'", "twice", "once"):
        Schema(attributes=AGES).query("age * home * age")


def test_an_attribute_beside_its_grouping_is_refused():
    with refused("'kind * home'", "an attribute and its grouping", "finer"):
        Schema(attributes=AGES, groupings={"kind": KIND}).query("kind * home")


def test_two_groupings_of_one_attribute_are_refused_and_not_called_an_attribute():
    other = Grouping(of="home", groups={"free": ["household", "nursing"], "held": ["prison"]})
    schema = Schema(attributes=AGES, groupings={"kind": KIND, "freedom": other})
    with refused("'kind * freedom'", "'home'"):
        schema.query("kind * freedom")


@pytest.mark.parametrize("text", ["", "  ", "*", "age *", "* age", "age ** home"])
def test_an_empty_factor_is_refused_with_how_to_write_it(text):
    with refused(repr(text), "empty factor", '"age * race"'):
        Schema(attributes=AGES).query(text)


@pytest.mark.parametrize("text", ["age * total", "detailed * age", "total * detailed"])
def test_total_and_detailed_stand_alone(text):
    with refused(repr(text), "cannot be part of a product", "Use them alone"):
        Schema(attributes=AGES).query(text)


def test_a_label_used_twice_is_refused():
    with refused("'age'", "'child'", "twice"):
        Schema(attributes={"age": ["child", "adult", "child"]})


def test_a_label_in_two_groups_is_refused():
    both = Grouping(of="home", groups={"a": ["household", "prison"], "b": ["nursing", "prison"]})
    with refused("'kind'", "'prison'", "twice"):
        Schema(attributes=AGES, groupings={"kind": both})


def test_a_grouping_that_leaves_out_labels_is_refused_with_them():
    some = Grouping(of="home", groups={"gq": ["nursing"]})
    with refused("'kind'", "'home'", "household, prison", "Put each label in a group"):
        Schema(attributes=AGES, groupings={"kind": some})


def test_a_grouping_of_something_unknown_is_refused():
    with refused("'kind'", "'house'", "age, home"):
        Schema(attributes=AGES, groupings={"kind": Grouping(of="house", groups={"a": ["household"]})})


def test_a_grouping_with_an_unknown_label_is_refused():
    wrong = Grouping(of="home", groups={"a": ["household", "hotel"], "b": ["nursing", "prison"]})
    with refused("'kind'", "'hotel'", "'home'", "household, nursing, prison"):
        Schema(attributes=AGES, groupings={"kind": wrong})


def test_a_grouping_with_the_name_of_an_attribute_is_refused():
    with refused("'age'", "both", "Rename"):
        Schema(attributes=AGES, groupings={"age": KIND})


def test_a_group_called_star_is_refused_as_a_label_called_star_is():
    starred = Grouping(of="home", groups={"*": ["household"], "gq": ["nursing", "prison"]})
    with refused("'kind'", "'*'", "not * alone"):
        Schema(attributes=AGES, groupings={"kind": starred})


@pytest.mark.parametrize("name", ["", " age", "age ", "a*b", "total", "detailed"])
def test_names_that_a_query_could_not_name_are_refused(name):
    with refused(repr(name), "cannot name"):
        Schema(attributes={name: ["x", "y"]})
    with refused(repr(name), "cannot name"):
        Schema(attributes=AGES, groupings={name: KIND})


@pytest.mark.parametrize("label", ["*", " *", 3, None])
def test_labels_that_are_not_text_or_only_a_star_are_refused(label):
    with refused("'age'", repr(label), "must be text, and not * alone, which means all other labels"):
        Schema(attributes={"age": ["child", label]})


@patient
@given(st.lists(st.lists(st.text("a*\\", min_size=1, max_size=3), min_size=1, max_size=4, unique=True), min_size=1))
def test_rows_of_labels_with_stars_and_backslashes_stay_different(attributes):
    named = {f"a{i}": [f"x{label}" for label in labels] for i, labels in enumerate(attributes[:4])}
    labels = Schema(attributes=named).query("detailed").labels()
    assert len(set(labels)) == len(labels)


def test_labels_without_stars_and_single_labels_are_joined_as_they_are():
    schema = Schema(attributes={"age": ["A*", "B"], "sex": ["f", "m"]})
    assert schema.query("age").labels() == ["A*", "B"]
    assert schema.query("age * sex").labels() == ["A\\**f", "A\\**m", "B*f", "B*m"]


def test_labels_given_as_one_text_are_refused_instead_of_being_split_into_letters():
    with refused("'sex'", "'fm'"):
        Schema(attributes={"sex": "fm"})


def test_an_attribute_without_labels_is_refused():
    with refused("'age'", "no labels", "at least one"):
        Schema(attributes={"age": []})


def test_a_schema_without_attributes_has_one_cell_and_its_detailed_query_is_the_total():
    schema = Schema(attributes={})
    assert (schema.cells, schema.cell(), schema.possible.tolist()) == (1, 0, [True])
    for text in ("total", "detailed"):
        query = schema.query(text)
        assert (query.name, query.labels(), query.row_of_cell.tolist()) == ("total", ["total"], [0])


def test_a_structural_zero_on_an_unknown_attribute_is_refused():
    with refused("structural zero", "'sex'", "age, home"):
        Schema(attributes=AGES, zeros=[{"sex": ["f"]}])


def test_a_structural_zero_on_an_unknown_label_is_refused():
    with refused("structural zero", "'age'", "'old'", "child, adult"):
        Schema(attributes=AGES, zeros=[{"age": ["old"]}])


def test_a_structural_zero_that_names_no_attribute_is_refused_rather_than_emptying_the_schema():
    with refused("structural zero"):
        Schema(attributes=AGES, zeros=[{}])


def test_a_cell_with_a_missing_or_extra_attribute_is_refused():
    schema = Schema(attributes=AGES)
    with refused("age, home", "'age': 'child'"):
        schema.cell(age="child")
    with refused("age, home", "sex"):
        schema.cell(age="child", home="prison", sex="f")


def test_a_cell_with_an_unknown_label_is_refused():
    with refused("'old'", "'age'", "child, adult"):
        Schema(attributes=AGES).cell(age="old", home="prison")


def test_labels_from_an_array_are_the_same_labels():
    held = Schema(attributes={name: np.array(labels) for name, labels in AGES.items()})
    assert held == Schema(attributes=AGES)
    assert held.query("age").labels() == ["child", "adult"]
