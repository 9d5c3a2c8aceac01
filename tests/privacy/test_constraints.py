"""What a release must satisfy besides the noise: said in words, written as TOML, checked against the data's names."""

import pickle

import pytest

from tallyveil.errors import InputError
from tallyveil.nouns.schema import Grouping, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy import Bound, FacilityBounds, Invariant, Strategy, StructuralZero
from tallyveil.privacy.constraints import UNLIMITED, constraint_from_toml, pinning

SPINE = Spine.from_columns({"county": ["001", "003", "005"]}, root="state")
SCHEMA = Schema(
    attributes={"age": ["minor", "adult"], "hispanic": ["no", "yes"], "home": ["house", "nursing"]},
    groupings={"kind": Grouping(of="home", groups={"any": ["house", "nursing"]})},
)
QUERIES = {"state": {"detailed": 1}, "county": {"detailed": 1}}


def strategy(*constraints):
    return Strategy(
        mechanism="geometric",
        budget=1,
        levels={"state": "1/2", "county": "1/2"},
        queries=QUERIES,
        attributes=tuple(SCHEMA.attributes),
        constraints=constraints,
    )


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Bound(query="total", level="county", least=5), "total in every county: at least 5"),
        (Bound(query="total", level="state", least=5, most=5), "total in every state: exactly 5"),
        (Bound(query="age", level="county", most=7), "age in every county: every row at most 7"),
        (
            Bound(query="age", level="county", least={"adult": 1}, most={"adult": 3, "*": 9}, units=["001", "003"]),
            "age in county 001, 003: adult at least 1 and at most 3, every other row at most 9",
        ),
        (
            Bound(query="age * home", level="county", least={"adult * house": 0, "*": 2}),
            "age * home in every county: adult*house any number, every other row at least 2",
        ),
        (Bound(query="age", level="county", most={"minor": 0}), "age in every county: minor exactly 0"),
    ],
)
def test_a_bound_says_in_words_what_it_asks(constraint, words):
    assert constraint.words() == words
    assert constraint.source == "constant"


@pytest.mark.parametrize(
    "constraint",
    [
        Bound(query="total", level="county", least=5),
        Bound(query="age * hispanic", level="county", most={"adult*yes": 3, "*": 9}, units=["001"]),
        Bound(query="age", level="county", least={"adult": 4}, most={"adult": 4}),
        Invariant(query="total", level="state"),
        FacilityBounds(attribute="home", level="county", least={"house": 1, "*": 0}, most=99),
        StructuralZero(cells={"age": ["minor"], "home": ["nursing"]}),
    ],
    ids=lambda c: c.words()[:30],
)
def test_a_constraint_reads_back_from_toml_and_pickle_and_fits_data_that_has_its_names(constraint):
    assert constraint_from_toml(constraint.as_toml()) == constraint
    assert pickle.loads(pickle.dumps(constraint)) == constraint
    strategy(constraint).check(SPINE, SCHEMA)


def test_a_bound_in_a_file_is_read_as_written():
    plan = """
        mechanism = "geometric"
        epsilon = "1"
        levels = {state = "1/2", county = "1/2"}
        queries = {detailed = "1"}
        [[constraints]]
        bound = "age * hispanic"
        level = "county"
        least = {"adult*yes" = 5}
        most = {"adult*yes" = 9, "*" = 100}
        units = ["001"]
        [[constraints]]
        bound = "total"
        level = "state"
        most = 500
    """
    from tallyveil.privacy.strategy_toml import strategy_from_toml

    first, second = strategy_from_toml(plan).constraints
    assert first == Bound(
        query="age * hispanic",
        level="county",
        least={"adult*yes": 5},
        most={"adult*yes": 9, "*": 100},
        units=("001",),
    )
    assert second == Bound(query="total", level="state", most={"*": 500})


def test_the_limits_of_a_bound_stand_in_the_querys_order_however_it_was_written():
    rows = {"least": {"yes*adult": 3, "*": 1}, "most": {"no * minor": 4}}
    least, most = Bound(query="hispanic * age", level="county", **rows).limits(SCHEMA)
    assert SCHEMA.query("hispanic * age").labels() == ["minor*no", "minor*yes", "adult*no", "adult*yes"]
    assert least.tolist() == [1, 1, 1, 3]
    assert most.tolist() == [4, UNLIMITED, UNLIMITED, UNLIMITED]
    for query, row, size in (("total", "total", 1), ("kind", "any", 1), ("detailed", "minor*no*house", 8)):
        least, _ = Bound(query=query, level="county", least={row: 2}).limits(SCHEMA)
        assert least.tolist() == [2] + [0] * (size - 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"bound on 'age' at level 'county' has neither least nor most\. Give one"),
        ({"least": -1}, r"'county': least must be whole numbers, 0 or more and below 2\^60\. Got \{'\*': -1\}"),
        ({"most": {"adult": 1.5}}, r"most must be whole numbers, 0 or more .* Got \{'adult': 1\.5\}"),
        ({"most": "7"}, r"most must be whole numbers"),
        ({"most": True}, r"most must be whole numbers"),
        ({"most": 1 << 60}, r"below 2\^60\. Got \{'\*': 1152921504606846976\}"),
        ({"most": {"x * y": 1, "x*y": 2}}, r"most names a row twice \(x \* y, x\*y\)\. Name each row once"),
        ({"least": {"adult": 6}, "most": {"adult": 5}}, r"row 'adult' has least 6, above most 5\. Correct one"),
        ({"least": {"adult": 6}, "most": 5}, r"row 'adult' has least 6, above most 5"),
        ({"least": 6, "most": {"adult": 5}}, r"row 'adult' has least 6, above most 5"),
        ({"least": 6, "most": 5}, r"row '\*' has least 6, above most 5"),
        ({"least": 1, "units": "001"}, r'units must be a list of codes as text, such as \["44001"\]\. Got \'001\''),
        ({"least": 1, "units": [1]}, r"units must be a list of codes as text.* Got \[1\]"),
    ],
)
def test_a_bound_that_cannot_hold_or_is_not_whole_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Bound(query="age", level="county", **fields)


def test_facility_bounds_that_are_not_whole_and_a_zero_without_labels_are_refused():
    for wrong in (-1, "1", {"house": 0.5}, None):
        with pytest.raises(InputError, match=r"facility bounds: least must be whole numbers, 0 or more .* Got"):
            FacilityBounds(attribute="home", level="county", least=wrong, most=9)
    with pytest.raises(InputError, match=r"a structural zero names no attribute, so nobody could exist"):
        StructuralZero(cells={})
    with pytest.raises(InputError, match=r"'age': labels 'minor' are a single string\. Give a list"):
        StructuralZero(cells={"age": "minor"})


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            Invariant(query="sex", level="state"),
            r"^constraint \(sex is exact for every state\): query 'sex': unknown factor 'sex'\. Known are age, hisp",
        ),
        (
            FacilityBounds(attribute="hhgq", level="county", least=0, most=9),
            r"^constraint \(persons by hhgq .*\): unknown attribute 'hhgq'\. Known are age, hispanic, home",
        ),
        (
            FacilityBounds(attribute="home", level="county", least={"*": 0}, most={"prison": 9, "*": 1}),
            r"'prison' is not a label of 'home' \(house, nursing\)",
        ),
        (
            StructuralZero(cells={"race": ["x"]}),
            r"^constraint \(nobody has race x\): unknown attribute 'race'\. Known are age, hispanic, home",
        ),
        (
            StructuralZero(cells={"age": ["minor"], "home": ["house", "prison"]}),
            r"^constraint \(nobody has age minor and home house or prison\): 'prison' is not a label of 'home'",
        ),
        (Bound(query="age * sex", level="county", least=1), r"query 'age \* sex': unknown factor 'sex'"),
        (
            Bound(query="age", level="county", least={"old": 1}),
            r"^constraint \(.*\): 'old' is not a row of 'age' \(minor, adult\)\. Correct it",
        ),
        (
            Bound(query="detailed", level="county", most={"adult": 1}),
            r"'adult' is not a row of 'detailed' \(minor\*no\*house, minor\*no\*nursing, .*, \.\.\.\)",
        ),
        (
            Bound(query="age", level="county", least=1, units=["001", "007"]),
            r"^constraint \(.*\): county '007' is not among the 3 units of that level\. Correct the code\.$",
        ),
    ],
)
def test_a_constraint_that_names_what_the_data_lacks_is_refused_in_one_line(constraint, message):
    with pytest.raises(InputError, match=message) as caught:
        strategy(constraint).check(SPINE, SCHEMA)
    assert "\n" not in str(caught.value)


def test_a_bound_with_an_unknown_field_or_level_is_refused():
    with pytest.raises(InputError, match=r"constraint with bound, lest, level: not understood.*bound \+ level"):
        constraint_from_toml({"bound": "age", "level": "county", "lest": 1})
    with pytest.raises(InputError, match=r"unknown level 'tract'\. The levels are state, county"):
        strategy(Bound(query="age", level="tract", least=1))


@pytest.mark.parametrize(
    ("fields", "pins"),
    [
        ({"least": 5, "most": 5}, True),
        ({"least": 5, "most": 6}, False),
        ({"least": {"adult": 2}, "most": {"adult": 2, "minor": 9}}, True),
        ({"least": {"adult": 2}, "most": {"*": 2}}, True),
        ({"most": 0}, False),  # a structural zero says nothing about any unit
        ({"most": 0, "units": ["001"]}, True),
        ({"most": {"adult": 0}, "least": {"minor": 3}}, False),
    ],
)
def test_a_bound_that_fixes_a_row_pins_it_and_one_that_is_zero_everywhere_does_not(fields, pins):
    bound = Bound(query="age", level="county", **fields)
    assert bound.pins is pins
    assert pinning([bound], SCHEMA) == ((bound,) if pins else ())


def test_bounds_that_pin_a_row_only_together_are_found_however_they_are_spelled():
    low = Bound(query="age * home", level="county", least={"adult*house": 4})
    high = Bound(query="home*age", level="county", most={"house*adult": 4}, units=["001"])
    others = [
        Bound(query="home * age", level="county", most={"nursing*adult": 4}),
        Bound(query="age * home", level="state", most=4),
        StructuralZero(cells={"age": ("minor",)}),
    ]
    assert pinning([low, high, *others], SCHEMA) == (low, high)
    elsewhere = Bound(query="age * home", level="county", least={"adult*house": 4}, units=["003"])
    assert pinning([elsewhere, high, *others], SCHEMA) == ()
