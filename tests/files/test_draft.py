"""Drafts: what a table shows about its geography, attributes and layout, and what is left as a comment."""

import re
import tomllib
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import InputError
from tallyveil.files import codebook_from_toml, read_counts
from tallyveil.files.tables.draft import draft_table, read_dictionary
from tallyveil.files.tables.draft.nesting import nest
from tallyveil.files.tables.draft.notes import Note, commented
from tallyveil.files.tables.draft.view import view_table
from tallyveil.files.tables.form import PLAIN

EXAMPLES = Path(__file__).parents[2] / "examples" / "messy"
RNG = np.random.default_rng(18)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(18).bit_generator.state


def tree(*sizes: int) -> list[tuple[int, ...]]:
    """Paths of a regular tree."""
    return [tuple(int(i) for i in path) for path in np.ndindex(*sizes)]


def comments(draft, field: str) -> dict[str | None, str]:
    return {note.item: note.text for note in draft.notes if ".".join(note.field) == field}


def reads(table, draft, total: int) -> bool:
    """Whether the draft, written and read back, reads all people of a table."""
    book = codebook_from_toml(draft.to_toml())
    return book == draft.book and read_counts(table, book).total() == total


# ---- nesting


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=30))
def test_a_column_determines_another_exactly_if_no_value_goes_with_two(rows):
    table = pd.DataFrame(rows, columns=["fine", "coarse"]).astype(str)
    view = view_table(table)
    found = nest(view.columns["fine"], view.columns["coarse"], exactly=True)
    homes = table.groupby("fine").coarse.nunique()
    assert (found.units, found.astray) == (len(homes), int((homes > 1).sum()))
    assert found.holds == (homes.max() == 1)  # so few values allow no slip


def test_all_rows_are_looked_at_and_not_only_the_first():
    fine = [f"f{i % 50}" for i in range(20_000)]
    table = pd.DataFrame({"fine": fine, "coarse": [f"c{int(f[1:]) // 10}" for f in fine]})
    table.loc[19_000:, "coarse"] = "c9"  # beyond the rows that are compared first
    view = view_table(table)
    assert nest(view.columns["fine"], view.columns["coarse"]).astray == 50


NAMES = [
    ("RGN", "LAD", "MSOA", "OA"),
    ("région", "académie", "circonscription", "établissement"),
    ("q", "w", "e", "r"),
    ("Bundesland", "Kreis", "Gemeinde", "Ortsteil"),
]


@pytest.mark.parametrize("names", NAMES, ids=lambda names: names[0])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)], ids=["down", "up", "mixed"])
@pytest.mark.parametrize("layout", ["wide", "long", "persons"])
def test_levels_are_found_by_nesting_whatever_they_are_called_and_wherever_they_stand(names, order, layout):
    paths = [["".join("abcdef"[j] for j in path[: i + 1]) for i in range(4)] for path in tree(2, 3, 2, 3)]
    units = pd.DataFrame(paths, columns=names)[[names[i] for i in order]]
    if layout == "wide":
        table = units.assign(male=RNG.integers(0, 9, len(units)), female=RNG.integers(0, 9, len(units)))
        total = int(table.male.sum() + table.female.sum())
    else:
        table = units.merge(pd.DataFrame({"sex": ["m", "f"]}), how="cross")
        total = 2 * len(units)
        if layout == "long":
            table["n"] = RNG.integers(0, 9, len(table))
            total = int(table.n.sum())
        else:
            table = table.sample(frac=3, replace=True, random_state=1)
            total = len(table)
    draft = draft_table(table)
    assert (draft.book.levels, draft.book.relative, draft.book.root) == (names, False, "all")
    assert draft.book.layout == layout
    assert draft.book.attributes.keys() == {"sex"}
    assert reads(table, draft, total)


def test_numbers_of_unknown_names_are_levels_if_many_rows_say_so():
    sub = RNG.integers(1, 41, 2_000)
    table = pd.DataFrame({"zd": sub // 10 + 1, "sd": sub + 100, "q": RNG.integers(1, 3, 2_000)}).astype(str)
    draft = draft_table(table)
    assert draft.book.levels == ("zd", "sd")
    assert draft.book.attributes == {"q": ("1", "2")}
    assert comments(draft, "attributes.q") == {None: "codes; give them words in a section [labels.q]"}


def test_counts_that_happen_to_nest_are_no_levels():
    table = pd.DataFrame({"town": [f"t{i}" for i in range(40)], "m": [1, 1, 2, 2] * 10, "f": [5, 5, 6, 6] * 10})
    draft = draft_table(table)
    assert draft.book.levels == ("town",)
    assert draft.book.attributes == {"sex": ("m", "f")}


@pytest.mark.parametrize("names", [("district", "chiefdom", "village"), ("z", "s", "v")])
@pytest.mark.parametrize("typed", [str, int])
def test_codes_that_repeat_under_parents_are_relative(names, typed):
    paths = [path for path in tree(3, 4, 5) if sum(path) != 3]
    table = pd.DataFrame([[i + 1 for i in path] for path in paths], columns=names).astype(typed)
    for cell in ("male_young", "male_old", "female_young", "female_old"):
        table[cell] = RNG.integers(0, 40, len(table))
    draft = draft_table(table)
    assert (draft.book.levels, draft.book.relative) == (names, True)
    assert draft.book.column == "{sex}_{age}"
    assert "are in several parents, so a unit is known by its path" in comments(draft, "geography.relative")[None]
    assert read_counts(table, draft.book).spine.size(names[-1]) == len(paths)


def test_well_known_levels_keep_their_order_even_if_codes_repeat_and_columns_are_shuffled():
    paths = pd.DataFrame(tree(3, 3, 4), columns=["state", "county", "tract"]) + 1
    table = paths.assign(state=paths.state.map("{:02}".format), county=paths.county.map("{:03}".format))
    table = table.assign(tract=table.tract.map("{:06}".format), n=1, sex="f")[["sex", "tract", "n", "county", "state"]]
    draft = draft_table(table)
    assert (draft.book.levels, draft.book.relative) == (("state", "county", "tract"), True)


def test_counts_without_any_geography_are_not_taken_for_it():
    table = pd.DataFrame(RNG.integers(0, 60, (40, 4)), columns=["m_young", "m_old", "f_young", "f_old"])
    draft = draft_table(table)
    assert draft.book.levels == ("FILL_IN",)
    assert draft.book.column == "{sex}_{age}"


def test_codes_that_every_unit_has_are_labels_and_no_level():
    rows = [(f"D{i}", s, *RNG.integers(0, 40, 3)) for i in range(12) for s in (1, 2)]
    draft = draft_table(pd.DataFrame(rows, columns=["district", "s", "a", "b", "c"]))
    assert draft.book.levels == ("district",)
    assert (draft.book.layout, draft.book.in_rows, draft.book.in_columns) == ("wide", ("s",), ("FILL_IN",))
    assert draft.missing[0].startswith("nothing shows that the columns a, b, c count different people")
    said = draft_table(pd.DataFrame(rows, columns=["district", "s", "a", "b", "c"]), attributes=["s", "grade"])
    assert (said.book.in_columns, said.missing) == (("grade",), ())


def test_a_few_people_who_differ_in_everything_are_people_and_no_table_of_counts():
    n = 40
    answers = {f"q{i}": RNG.integers(1, 6, n) for i in range(5)}
    table = pd.DataFrame(
        {"village": RNG.choice(list("ABCDEFGHIJKL"), n), **answers, "height": RNG.integers(150, 199, n)}
    )
    draft = draft_table(table.assign(weight=RNG.integers(50, 99, n)))
    assert "--count 'height' or --count 'weight', or with --persons" in draft.missing[0]
    with pytest.raises(InputError, match=r"still has FILL_IN under \[table\] count"):
        read_counts(table.assign(weight=1), draft.book)
    draft = draft_table(table.assign(weight=RNG.integers(50, 99, n)), persons=True)
    assert (draft.book.layout, draft.book.ignore, draft.missing) == ("persons", ("height", "weight"), ())
    identified = draft_table(table.assign(patient=range(n)))
    assert (identified.book.layout, identified.missing) == ("persons", ())


def test_a_unit_in_two_parents_by_mistake_is_a_comment_and_not_a_path():
    table = pd.DataFrame([(f"R{i // 20}", f"{i:03}", s, 1) for i in range(200) for s in "fm"], columns=list("rcsn"))
    table.loc[7, "r"] = "R9"
    draft = draft_table(table)
    assert (draft.book.levels, draft.book.relative) == (("r", "c"), False)
    words = comments(draft, "geography.levels")[None]
    assert words.startswith("1 of 200 codes of c (such as '003') are in several parents: correct these rows")


# ---- names of units


def test_names_beside_codes_are_names_and_not_levels():
    rows = [(f"E12{i // 4}", f"Region {i // 4}", f"E09{i:02}", f"Town {i}", s) for i in range(12) for s in "mf"]
    table = pd.DataFrame(rows, columns=["RGN22CD", "RGN22NM", "LAD22CD", "LAD22NM", "sex"]).assign(n=3)
    draft = draft_table(table)
    assert draft.book.levels == ("RGN22CD", "LAD22CD")
    assert draft.book.names == {"RGN22CD": "RGN22NM", "LAD22CD": "LAD22NM"}
    assert reads(table, draft, 72)


def test_names_that_units_of_several_parents_share_are_still_names():
    towns = ["Washington", "Kent", "Bristol"]
    rows = [(s, f"{s}{i:03}", town, k) for s in ("09", "44", "25") for i, town in enumerate(towns) for k in "ab"]
    draft = draft_table(pd.DataFrame(rows, columns=["ST", "FIPS", "county name", "kind"]).assign(people=1))
    assert (draft.book.levels, draft.book.names) == (("ST", "FIPS"), {"FIPS": "county name"})


def test_units_with_two_names_are_counted_in_a_comment():
    rows = [(f"{i:03}", f"Place {i}" if i > 2 or s == "m" else f"Plaze {i}", s) for i in range(120) for s in "mf"]
    draft = draft_table(pd.DataFrame(rows, columns=["code", "label", "sex"]).assign(n=1))
    assert draft.book.names == {"code": "label"}
    assert comments(draft, "geography.names") == {None: "label: 3 of 120 units have two names; the first is kept"}


def test_a_level_by_nesting_alone_is_marked_if_others_are_words_for_places():
    rows = [("lowland" if i % 3 else "upland", f"D{i}", s, 2) for i in range(12) for s in "mf"]
    draft = draft_table(pd.DataFrame(rows, columns=["kind", "district", "sex", "n"]))
    assert draft.book.levels == ("kind", "district")
    assert comments(draft, "geography.levels") == {"kind": "taken as a level: each district lies in one"}


def test_a_column_that_nests_beside_the_chain_is_named_as_a_possible_level():
    rows = [(f"R{i // 30}", f"D{i // 10}", f"V{i:03}", f"Z{i % 3}") for i in range(60)]
    table = pd.DataFrame(rows, columns=["region", "district", "village", "zone"]).assign(men=1, women=range(60))
    draft = draft_table(table)
    assert draft.book.levels == ("region", "district", "village")
    assert comments(draft, "geography.levels") == {None: "could also be a level: zone"}


# ---- odd columns


def test_odd_columns_never_stop_a_draft_and_each_has_its_reason():
    n = 600
    village, age = RNG.integers(0, 20, n), RNG.integers(0, 80, n)
    table = pd.DataFrame(
        {
            "ref": [f"X{i:05}" for i in RNG.permutation(n)],
            "district": [f"D{v // 5}" for v in village],
            "village": [f"V{v}" for v in village],
            "altitude": [f"{v * 10}m" for v in village],
            "weight": RNG.random(n),
            "onset": pd.Timestamp("2014-01-01") + pd.to_timedelta(RNG.integers(0, 300, n), "D"),
            "remark": ["a sentence that goes on and on, as remarks in line lists do"] * n,
            "country": "SL",
            "age": age,
            "age_group": [f"{a // 20 * 20}-{a // 20 * 20 + 19}" for a in age],
            "outcome": RNG.choice(["dead", "alive", ""], n),
            "sex": RNG.choice(["M", "F"], n),
            "parts": [[1, 2]] * n,
            "nothing": None,
        }
    )
    draft = draft_table(pa.Table.from_pandas(table))
    assert draft.book.levels == ("country", "district", "village")
    assert draft.book.attributes.keys() == {"age_group", "outcome", "sex"}
    assert draft.book.labels == {"outcome": {"alive": "alive", "dead": "dead", "": "not stated"}}
    reasons = comments(draft, "table.ignore")
    assert tuple(sorted(reasons)) == tuple(sorted(draft.book.ignore))
    assert reasons["ref"] == "a different value in each row: an identifier or names"
    assert reasons["weight"] == "fractions or negative numbers, so not counts"
    assert reasons["onset"] == "dates"
    assert reasons["remark"] == "free text"
    assert reasons["age"].endswith("different values, which age_group groups")
    assert reasons["nothing"] == "no values"
    assert "parts" in reasons
    assert read_counts(table.drop(columns="parts"), draft.book).total() == n


def test_a_fact_about_units_is_no_attribute_of_people():
    rows = [(f"R{i // 4}", f"D{i}", "urban" if i % 3 else "rural", s, 2) for i in range(12) for s in "mf"]
    draft = draft_table(pd.DataFrame(rows, columns=["region", "district", "kind", "sex", "n"]))
    assert draft.book.attributes.keys() == {"sex"}
    assert comments(draft, "table.ignore") == {"kind": "follows from district: a fact about units rather than people"}


@pytest.mark.parametrize("shown", ["1,200", "1 200", "1'200"])
def test_numbers_with_thousands_separators_are_drafted_as_counts_and_read_as_such(shown):
    table = pd.DataFrame({"town": [f"t{i}" for i in range(12)], "men": [shown, "30"] * 6, "women": ["5"] * 12})
    draft = draft_table(table)
    assert draft.book.attributes == {"sex": ("men", "women")}
    assert draft.book.form.thousands == shown[1]
    assert reads(table, draft, 6 * 1_230 + 60)
    with pytest.raises(
        InputError, match=r"row 1, column 'men': .* is not a whole number.*codebook: \[file\] thousands"
    ):
        read_counts(table, replace(draft.book, form=PLAIN))


def test_labels_keep_their_stars():
    table = pd.DataFrame([(f"t{i}", s, 1) for i in range(12) for s in ("m", "f*")], columns=["town", "sex", "n"])
    draft = draft_table(table)
    assert draft.book.attributes == {"sex": ("f*", "m")}
    assert reads(table, draft, 24)


# ---- layouts


@pytest.mark.parametrize("name", ["effectif", "Población", "ANZAHL", "bevölkerung", "count"])
def test_the_count_is_known_by_its_name_in_several_languages(name):
    table = pd.DataFrame([(f"t{i}", s, 10 + i) for i in range(12) for s in "mf"], columns=["town", "sex", name])
    assert (draft_table(table).book.layout, draft_table(table).book.count) == ("long", name)


def test_the_count_is_known_by_its_shape_if_the_other_columns_identify_the_rows():
    rows = [(f"t{i}", s, a, int(RNG.integers(0, 90))) for i in range(12) for s in (1, 2) for a in (1, 2, 3)]
    table = pd.DataFrame(rows, columns=["town", "sex", "ag", "reports"])
    draft = draft_table(table)
    assert (draft.book.layout, draft.book.count) == ("long", "reports")
    assert draft.book.attributes == {"sex": ("1", "2"), "ag": ("1", "2", "3")}
    assert comments(draft, "table.count") == {None: "taken as the count: the other columns identify the rows"}
    assert reads(table, draft, int(table.reports.sum()))


def test_attributes_in_rows_and_in_columns_are_a_mixed_layout():
    rows = [(f"D{i // 4}", f"C{i:02}", s, *RNG.integers(0, 40, 3)) for i in range(12) for s in ("male", "female")]
    table = pd.DataFrame(rows, columns=["district", "chiefdom", "sex", "0-14", "15-64", "65+"])
    table["Total"] = table.iloc[:, 3:].sum(axis=1)
    draft = draft_table(table)
    assert draft.book.attributes == {"sex": ("female", "male"), "age": ("0-14", "15-64", "65+")}
    assert (draft.book.column, draft.book.total, draft.book.in_rows) == ("{age}", "Total", ("sex",))
    assert reads(table, draft, int(table.Total.sum()))


@pytest.mark.parametrize("separator", ["_", " ", ".", " - ", ": "])
def test_columns_are_products_of_two_or_three_attributes_by_any_separator(separator):
    cells = [separator.join((sex, age)) for sex in ("men", "women") for age in ("0-4", "5-9", "10+")]
    table = pd.DataFrame([[f"t{i}", *RNG.integers(0, 9, 6)] for i in range(12)], columns=["town", *cells])
    draft = draft_table(table)
    assert draft.book.column == f"{{sex}}{separator}{{age}}"
    assert draft.book.attributes == {"sex": ("men", "women"), "age": ("0-4", "5-9", "10+")}


def test_three_attributes_in_the_names_of_columns_are_told_apart_and_named_by_the_user():
    cells = [f"{a}_{b}_{c}" for a in ("m", "f") for b in ("in", "out") for c in ("x", "y", "z")]
    table = pd.DataFrame([[f"t{i}", *RNG.integers(0, 9, 12)] for i in range(12)], columns=["town", *cells])
    draft = draft_table(table)
    assert draft.book.column == "{sex}_{attribute_2}_{attribute_3}"
    assert comments(draft, "attributes.attribute_2") == {None: "give this attribute a name, here and in column"}
    named = draft_table(table, attributes=["sex", "work", "grade"]).book
    assert named.attributes == {"sex": ("m", "f"), "work": ("in", "out"), "grade": ("x", "y", "z")}


def test_one_of_two_sets_of_columns_that_sum_to_the_total_is_taken():
    rows = RNG.integers(0, 50, (12, 3))
    table = pd.DataFrame({"town": [f"t{i}" for i in range(12)], "men": rows[:, 0], "women": rows[:, 1] + rows[:, 2]})
    table = table.assign(young=rows[:, 1], old=rows[:, 0] + rows[:, 2], pop=rows.sum(axis=1))
    draft = draft_table(table)
    assert (draft.book.attributes, draft.book.total) == ({"sex": ("men", "women")}, "pop")
    assert draft.book.ignore == ("young", "old")
    assert reads(table, draft, int(rows.sum()))


def test_a_total_is_known_by_its_sums_whatever_it_is_called():
    rows = RNG.integers(0, 50, (12, 3))
    table = pd.DataFrame({"town": [f"t{i}" for i in range(12)], "xyz": rows.sum(axis=1)})
    table[["a", "b", "c"]] = rows
    draft = draft_table(table)
    assert draft.book.total == "xyz"
    assert comments(draft, "table.total") == {None: "taken as the total: the cells sum to it"}


def test_years_in_rows_are_not_added_up_without_a_word():
    rows = [(f"t{i}", year, *RNG.integers(0, 9, 2)) for i in range(12) for year in (2011, 2021)]
    draft = draft_table(pd.DataFrame(rows, columns=["town", "year", "male", "female"]))
    assert draft.missing[0].startswith(
        "the table has people of several times (2011, 2021, ...). Write the one to count"
    )
    assert (draft.book.where, "year" in draft.book.attributes) == ({"year": "FILL_IN"}, False)
    columns = draft_table(pd.DataFrame(rows, columns=["town", "year", "2011", "2021"]).query("year == 2011"))
    assert columns.missing[0].startswith("nothing shows that the columns 2011, 2021 count different people")


# ---- what the user says


def test_what_the_user_names_is_taken_and_the_rest_inferred():
    rows = [(z, s, g, a, b) for z in (1, 2) for s in (1, 2, 3) for g in "uv" for a, b in [(z + s + (g == "v"), 9)]]
    table = pd.DataFrame(rows, columns=["z", "s", "g", "many", "more"])
    book = draft_table(table, levels=["z", "s"], attributes=["g"], count="many").book
    assert (book.levels, book.relative, book.layout, book.count) == (("z", "s"), True, "long", "many")
    assert (tuple(book.attributes), book.ignore) == (("g",), ("more",))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"levels": ["town", "x"]}, r"--levels: the table has no column 'x'\. The columns are town, sex, n\."),
        ({"count": "x"}, r"--count: the table has no column 'x'"),
        ({"levels": ["town"], "count": "town"}, r"column 'town' is named twice"),
        ({"sheet": "x"}, r"--sheet 'x': .* is not an Excel workbook"),
    ],
)
def test_a_column_that_the_table_does_not_have_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        draft_table(pd.DataFrame({"town": ["a", "b"], "sex": ["m", "f"], "n": [1, 2]}), **asked)


# ---- dictionaries


def test_a_dictionary_gives_words_for_codes_in_any_case_of_its_header(tmp_path):
    (tmp_path / "d.csv").write_text("Attribute,CODE,label\nsex,1,man\nsex,2,woman\nsex,3,other\n")
    words = read_dictionary(tmp_path / "d.csv")
    assert words == {"sex": {"1": "man", "2": "woman", "3": "other"}}
    table = pd.DataFrame([(f"t{i}", s, 1) for i in range(12) for s in (1, 2, 9)], columns=["town", "sex", "n"])
    draft = draft_table(table, dictionary=words)
    assert draft.book.attributes == {"sex": ("1", "2", "3", "9")}
    assert draft.book.words == {"sex": ("man", "woman", "other", "9")}
    assert comments(draft, "labels.sex") == {"9": "not in the dictionary: give this code a word"}
    assert '9 = "9"  # not in the dictionary: give this code a word' in draft.to_toml()
    assert reads(table, draft, 36)


def test_a_dictionary_names_the_attributes_in_the_names_of_columns():
    words = {"sexe": {"1": "homme", "2": "femme"}, "tranche": {"A": "jeune", "B": "vieux"}}
    cells = [f"{s}{a}" for s in ("1_", "2_") for a in "AB"]
    table = pd.DataFrame([[f"t{i}", *RNG.integers(0, 9, 4)] for i in range(12)], columns=["town", *cells])
    book = draft_table(table, dictionary=words).book
    assert (book.column, book.words) == (
        "{sexe}_{tranche}",
        {"sexe": ("homme", "femme"), "tranche": ("jeune", "vieux")},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,b\n1,2\n",
            r"no column 'attribute'\. A dictionary has the columns attribute, code and label; this one has a, b",
        ),
        (
            "attribute,code,label\nsex,1,man\nsex,1,woman\n",
            r"row 2: code '1' of sex is 'woman', but it was 'man' before",
        ),
        ("attribute,code,label\nsex,1,\n", r"row 1: a value is missing"),
    ],
)
def test_a_wrong_dictionary_is_refused(tmp_path, text, message):
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_dictionary(tmp_path / "d.csv")


# ---- comments, partial drafts, sheets


def test_comments_stand_above_their_field_and_beside_their_item_and_change_nothing():
    toml = '[a]\nb = [\n    "x y",\n    "z",\n]\n\n[a."c d"]\n1 = "one"\n'
    notes = [
        Note(field=("a", "b"), text="on\nb"),
        Note(field=("a", "b"), item="x y", text="on x"),
        Note(field=("a", "c d"), text="on c"),
        Note(field=("a", "c d"), item="1", text="on one"),
        Note(field=("a", "none"), text="left over"),
    ]
    text = commented(toml, notes)
    assert text == (
        '[a]\n# on b\nb = [\n    "x y",  # on x\n    "z",\n]\n\n# on c\n[a."c d"]\n1 = "one"  # on one\n# left over\n'
    )
    assert tomllib.loads(text) == tomllib.loads(toml)


def test_a_table_without_geography_gives_a_partial_draft_that_says_what_to_fill_in():
    table = pd.DataFrame({"sex": ["m", "f"] * 20, "agegroup": ["a", "b", "c", "d", "e"] * 8})
    draft = draft_table(table)
    text = draft.to_toml()
    assert draft.missing == (
        "no geographic column found among sex, agegroup. Name the levels, coarse to fine (--levels A,B,C).",
    )
    assert f'# {draft.missing[0]}\nlevels = [\n    "FILL_IN",\n]' in text
    assert draft.book.attributes.keys() == {"sex", "agegroup"}
    with pytest.raises(InputError, match=r"still has FILL_IN under \[geography\] levels\. The comment there"):
        read_counts(table, draft.book)


def test_a_table_without_counts_or_labels_gives_a_partial_draft_too():
    draft = draft_table(pd.DataFrame({"region": list("abc"), "town": list("xyz")}))
    assert "FILL_IN = [" in draft.to_toml()
    assert draft.missing[0].startswith("no columns of counts or labels found besides the geography")


def test_the_sheet_with_the_most_rows_is_drafted_and_the_others_are_named(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["notes"])
    data = book.create_sheet("data 2020")
    for row in [["town", "men", "women"], *([f"t{i}", i, 2 * i] for i in range(12))]:
        data.append(row)
    book.save(tmp_path / "t.xlsx")
    draft = draft_table(tmp_path / "t.xlsx")
    assert draft.book.sheet == "data 2020"
    assert comments(draft, "table.sheet") == {None: "the sheet with the most rows; others: Sheet"}
    assert reads(tmp_path / "t.xlsx", draft, 198)


PRINTED = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])  # others are refused
values = st.one_of(
    st.none(), st.text(PRINTED, max_size=3), st.integers(-3, 40), st.floats(), st.sampled_from(["1", "01", "a*", ""])
)


@settings(max_examples=60)
@given(
    columns=st.lists(
        st.sampled_from(["region", "a", "sex", "n", "x_1", "x_2", "y_1", "y_2", "total", "{b}", "geoid", "name"]),
        min_size=1,
        max_size=8,
        unique=True,
    ),
    data=st.data(),
)
def test_any_table_gives_a_draft_that_can_be_written_and_read_back(columns, data):
    rows = data.draw(st.integers(1, 14))
    few = st.lists(
        data.draw(st.sampled_from([values, st.integers(0, 3), st.sampled_from("uvw")])), min_size=rows, max_size=rows
    )
    table = pd.DataFrame({name: data.draw(few) for name in columns}, dtype=object).astype(str)
    draft = draft_table(table)
    assert codebook_from_toml(draft.to_toml()) == draft.book
    assert bool(draft.missing) == ("FILL_IN" in draft.to_toml())
    with suppress(InputError):
        read_counts(table, draft.book)


DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not DATA.exists(), reason="the real census counts are not beside the project")
@pytest.mark.parametrize("relative", [False, True])
def test_a_real_census_is_drafted_without_its_well_known_names(tmp_path, relative):
    table = pd.read_parquet(DATA / "ri_2010_block.parquet")
    levels = list(table)[:5]
    if relative:
        for above, level in zip(levels[-2::-1], levels[:0:-1], strict=True):
            table[level] = [code.removeprefix(parent) for code, parent in zip(table[level], table[above], strict=True)]
    file = tmp_path / "t.csv"
    table.rename(columns=dict(zip(levels, "vwxyz", strict=True))).to_csv(file, index=False)
    draft = draft_table(file)
    assert draft.book.levels == (("w", "x", "y", "z") if relative else ("v", "w", "x", "y", "z"))
    assert (draft.book.relative, draft.book.column, draft.book.total) == (relative, "{age}_{race}", "total")
    assert reads(file, draft, 1_052_567)


# ---- the five messy tables


@pytest.mark.parametrize("name", ["schools", "persons", "output_areas", "villages", "totals"])
def test_the_drafts_of_the_messy_tables_are_those_beside_them_and_read_all_people(name):
    file, dictionary = EXAMPLES / f"{name}.csv", EXAMPLES / f"{name}_dictionary.csv"
    draft = draft_table(file, dictionary=read_dictionary(dictionary) if dictionary.exists() else None)
    beside = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
    assert beside.split("\n", 1)[1] == draft.to_toml()
    table = pd.read_csv(file)
    counted = {"schools": "effectif", "output_areas": "All persons", "villages": "tot", "totals": "Einwohner"}
    total = len(table) if name == "persons" else table[counted[name]].sum()
    assert read_counts(file, draft.book).total() == total


# ---- what newcomers met


def catchments():
    """Facilities in districts that are numbered within regions; sex in rows, age in columns."""
    rng, rows = np.random.default_rng(4), []
    for i in range(24):
        region, number = f"R{i // 8}", i % 8 // 4 + 1
        names = [region, number, f"Town {i // 4}", f"{i:04d}", f"Clinic {i}"]
        rows += [[*names, sex, *rng.integers(0, 90, 3)] for sex in "MF"]
    columns = ["Region", "Distr_No", "District", "Facility ID", "Facility", "Sex", "<5", "5-14", "15+"]
    return pd.DataFrame(rows, columns=columns)


def test_numbers_that_are_the_same_in_all_rows_of_a_unit_are_no_counts():
    table = catchments().rename(columns={"Distr_No": "Doctors"})
    draft = draft_table(table)
    assert "Doctors" in draft.book.ignore
    assert draft.book.attributes["Sex"] == ("F", "M")
    assert "the same in all rows of each Facility ID: a fact about units, not a count" in draft.to_toml()
    assert reads(table, draft, int(table[["<5", "5-14", "15+"]].to_numpy().sum()))


@pytest.mark.parametrize("levels", [(), ["Region", "Distr_No", "Facility ID"]])
def test_a_level_whose_codes_repeat_has_the_names_of_its_paths(levels):
    draft = draft_table(catchments().astype({"Distr_No": str}), levels=levels)
    assert (draft.book.levels, draft.book.relative) == (("Region", "Distr_No", "Facility ID"), True)
    assert draft.book.names == {"Distr_No": "District", "Facility ID": "Facility"}


def villages_with_names(codes=("prov", "dist", "aldeia")):
    """Every province has a district 1 and every district a village 1; sex in rows, age in columns, and a total."""
    rng, rows = np.random.default_rng(5), []
    province, district, village = codes
    for i in range(3 * 4 * 7 * 2):
        p, d, v, sex = (int(part) + 1 for part in np.unravel_index(i, (3, 4, 7, 2)))
        counts = rng.integers(0, 200, 3)
        rows.append([p, f"Província {p}", d, f"Distrito {p}.{d}", v, "HM"[sex - 1], *counts, counts.sum()])
    names = [province, f"{province}_nome", district, f"{district}_nome", village, "sexo"]
    return pd.DataFrame(rows, columns=[*names, "0-14", "15-64", "65+", "total"]).astype(str)


@pytest.mark.parametrize("codes", [("prov", "dist", "aldeia"), ("prov", "d", "aldeia")])
def test_codes_repeat_in_every_parent_and_only_the_names_of_columns_show_it(codes):
    table = villages_with_names(codes)
    draft = draft_table(table)
    assert draft.book.levels == codes
    assert draft.book.relative
    assert draft.book.names == {codes[0]: f"{codes[0]}_nome", codes[1]: f"{codes[1]}_nome"}
    assert draft.book.attributes == {"sexo": ("H", "M"), "age": ("0-14", "15-64", "65+")}
    assert reads(table, draft, table["total"].astype(int).sum())


def test_a_table_whose_total_is_the_sum_of_columns_is_not_a_list_of_persons_whatever_the_columns_are_called():
    table = villages_with_names(("u", "v", "w")).rename(columns={"u_nome": "x", "v_nome": "y"})
    draft = draft_table(table)
    assert draft.book.layout == "wide"
    assert draft.book.total == "total"


def test_a_draft_of_persons_asks_where_a_column_looks_like_a_number_of_people():
    rows = [[f"z{i % 4}", "ab"[i % 2], 7 * i % 41, 5 * i % 43] for i in range(120)]
    draft = draft_table(pd.DataFrame(rows, columns=["zone", "sex", "count", "n"]).astype(str), attributes=["sex"])
    assert (draft.book.layout, draft.book.count) == ("long", "FILL_IN")
    assert draft.missing[0].startswith("the table does not show whether count or n is the number of people of a row")
    assert f"# {draft.missing[0]}\n" in draft.to_toml()
    assert draft_table(catchments()).missing == ()


def test_names_that_look_like_codes_and_a_state_that_all_rows_share_are_kept():
    rows = [["10", f"{i // 10:03d}", f"Town{i // 10}", f"10{i // 10:03d}{i:03d}", i, 2 * i] for i in range(40)]
    table = pd.DataFrame(rows, columns=["STATEFP20", "COUNTYFP20", "COUNTY20NM", "GEOID20", "men", "women"])
    draft = draft_table(table.astype(str))
    assert draft.book.levels == ("STATEFP20", "COUNTYFP20", "GEOID20")
    assert draft.book.names == {"COUNTYFP20": "COUNTY20NM"}


def test_a_draft_of_totals_says_nothing_about_labels():
    table = pd.DataFrame({"town": [f"t{i}" for i in range(12)], "population": range(5, 17)})
    assert draft_table(table).book.labels_from is None
    assert "labels" not in draft_table(table).to_toml()


def test_thousands_separated_by_dots_are_counts():
    rows = [[f"Land {i // 6}", f"{i:05d}", f"{1 + i % 9}.{37 * i + 1:03d}", str(300 + 91 * i % 600)] for i in range(24)]
    table = pd.DataFrame(rows, columns=["Land", "AGS", "weiblich", "männlich"])
    draft = draft_table(table)
    assert draft.book.layout == "wide"
    assert draft.book.attributes == {"sex": ("weiblich", "männlich")}
    numbers = table.iloc[:, 2:].apply(lambda column: column.str.replace(".", "").astype(int))
    assert reads(table, draft, int(numbers.to_numpy().sum()))
    table.loc[3, "weiblich"] = "1.01"
    with pytest.raises(InputError, match=r"row 4, column 'weiblich': 1\.01 is not a whole number with thousands sepa"):
        read_counts(table, draft.book)
    shares = draft_table(table.assign(weiblich=[f"0.{i:03d}" for i in range(24)]))
    assert "weiblich" in shares.book.ignore


def test_fractions_with_a_decimal_comma_are_no_labels_and_leave_the_counts_alone():
    rows = []
    for i, (post, sex) in enumerate(product(range(40), ("mies", "nainen"))):
        young, old = 90 + 7 * i, 38 + i * i % 61
        rows.append([f"R{post // 8}", f"{post:05d}", sex, young, old, young + old, f"{i % 7},{10 + i}"])
    table = pd.DataFrame(rows, columns=["region", "post", "sex", "age_0_14", "age_15_", "sum", "loans"]).astype(str)
    draft = draft_table(table)
    assert (draft.book.layout, draft.book.total) == ("wide", "sum")
    assert draft.book.ignore == ("loans",)
    assert "sex" in draft.book.attributes


def test_rows_of_totals_among_labels_and_units_are_named_since_they_would_be_counted_twice():
    labels = [(r, s, a) for r in ("A", "B", "Total") for s in ("M", "F", "Both sexes") for a in ("0-17", "18+")]
    table = pd.DataFrame([[*row, 10 + i] for i, row in enumerate(labels)], columns=["region", "sex", "age", "count"])
    draft = draft_table(table)
    region, sex = draft.missing
    assert region.startswith("rows with region 'Total' may be totals of other rows, and their people would be counted")
    assert sex.startswith("rows with sex 'Both sexes' may be totals")
    assert draft.book.form.total_rows == {"region": ("FILL_IN",), "sex": ("FILL_IN",)}
    assert f"# {sex}" in draft.to_toml()
    with pytest.raises(InputError, match=r"still has FILL_IN under \[file\] total_rows"):
        read_counts(table, draft.book)
    assert draft_table(table[(table.region != "Total") & (table.sex != "Both sexes")]).missing == ()


def _numbered_within_parents(*, names: bool, unique: bool = False) -> pd.DataFrame:
    """Regions, districts and towns whose codes begin again at 01 under each parent, with counts by sex."""
    rows = [
        {
            "kód kraje": f"{r:02d}",
            "kraj": f"Kraj {'ABCDE'[r - 1]}",
            "kód okresu": f"{d:02d}",
            "okres": f"Okres {r}x{d}",
            "kód obce": f"{t:02d}",
            "obec": f"Lhota {r}{d}{t}" if unique else f"Lhota {'ghijklm'[t]}",
            "pohlaví": sex,
            "0-14": (97 * r + 51 * d + 33 * t + 17 * len(sex)) % 61,
            "15+": 20 + (37 * r + 113 * d + 71 * t + 29 * len(sex)) % 301,
        }
        for r in range(1, 6)
        for d in range(1, 2 + r % 4)
        for t in range(1, 3 + (r + d) % 5)
        for sex in ("muž", "žena")
    ]
    table = pd.DataFrame(rows)
    return table if names else table.drop(columns=["kraj", "okres", "obec"])


@pytest.mark.parametrize("unique", [False, True])
def test_codes_that_begin_again_under_parents_are_levels_with_their_names(unique):
    book = draft_table(_numbered_within_parents(names=True, unique=unique)).book
    assert book.levels == ("kód kraje", "kód okresu", "kód obce")
    assert book.relative
    assert book.names == {"kód kraje": "kraj", "kód okresu": "okres", "kód obce": "obec"}


def _same_codes_in_every_parent(*, codes_first: bool = True, towns: str = "u3") -> pd.DataFrame:
    """Four regions with districts 001 to 005 each, whose names are all different, and towns 0001 to 0009 at most."""
    order = ["u2", "u2 text"] if codes_first else ["u2 text", "u2"]
    rows = [
        {
            "u1": f"{r:02d}",
            "u1 text": f"Reg {'ABCD'[r - 1]}",
            "u2": f"{d:03d}",
            "u2 text": f"Dis {'abcde'[d - 1]} {'ABCD'[r - 1]}",
            towns: f"{t:04d}",
            "parish": f"Par {'xyz'[t % 3]}",  # follows from the code of a town alone
            "sexe": sex,
            "0-14": (97 * r + 51 * d + 33 * t + 17 * (sex == "femme")) % 61,
            "15+": 20 + (37 * r + 113 * d + 71 * t + 29 * (sex == "femme")) % 301,
        }
        for r in range(1, 5)
        for d in range(1, 6)
        for t in range(1, 5 + (r + 2 * d) % 6)
        for sex in ("homme", "femme")
    ]
    table = pd.DataFrame(rows)
    table = table[["u1", "u1 text", *order, *table.columns[4:]]]
    return table.assign(total=table["0-14"] + table["15+"])


@pytest.mark.parametrize("codes_first", [True, False])
def test_codes_that_every_parent_has_are_levels_if_each_path_has_a_name_of_its_own(codes_first):
    table = _same_codes_in_every_parent(codes_first=codes_first)
    draft = draft_table(table)
    assert draft.book.levels == ("u1", "u2", "u3")
    assert draft.book.relative
    assert draft.book.names == {"u1": "u1 text", "u2": "u2 text"}
    assert list(draft.book.attributes) == ["sexe", "age"]
    assert reads(table, draft, table["total"].sum())


def test_a_name_for_what_the_columns_count_leaves_the_attributes_in_rows_as_they_are():
    table = _same_codes_in_every_parent()
    book = draft_table(table, attributes=["tranche d'âge"]).book
    assert (list(book.attributes), book.column) == (["sexe", "tranche d'âge"], "{tranche d'âge}")
    assert read_counts(table, book).total() == table["total"].sum()


def test_levels_in_the_reverse_order_are_refused_also_if_every_parent_has_the_same_codes():
    table = _same_codes_in_every_parent()
    with pytest.raises(InputError, match=r"the order may be reversed.*--levels 'u1,u2,u3'"):
        draft_table(table, levels=("u3", "u2", "u1"))


def test_codes_of_nearly_every_parent_are_levels_if_their_column_is_called_a_place():
    table = _same_codes_in_every_parent(towns="Setor")
    table = table[(table["Setor"] > "0004") | (table["Setor"] < "0004")]  # parents differ less
    table.loc[table["Setor"] > "0004", "Setor"] = "0004"
    assert draft_table(table.drop_duplicates(["u1", "u2", "Setor", "sexe"])).book.levels == ("u1", "u2", "Setor")


@pytest.mark.parametrize("reverse", [False, True])
def test_codes_that_begin_again_are_levels_without_any_names_and_in_either_order_of_columns(reverse):
    table = _numbered_within_parents(names=False).rename(
        columns={"kód kraje": "u1", "kód okresu": "u2", "kód obce": "u3"}
    )
    if reverse:
        table = table[["u3", "u2", "u1", *table.columns[3:]]]
    book = draft_table(table).book
    assert (book.levels, book.relative) == (("u1", "u2", "u3"), True)
    assert list(book.attributes) == ["pohlaví", "age"]


def test_codes_of_people_that_every_unit_has_are_no_levels():
    rows = [(f"R{u // 4}", f"R{u // 4}U{u}", f"{g:02d}", 5 + u * g % 7) for u in range(24) for g in range(1, 7)]
    book = draft_table(pd.DataFrame(rows, columns=["reg", "uni", "grp", "persons"])).book
    assert (book.levels, list(book.attributes)) == (("reg", "uni"), ["grp"])


def test_a_serial_number_under_any_name_takes_no_part_in_the_levels():
    rng = np.random.default_rng(3)
    unit = rng.integers(0, 30, 900)
    people = pd.DataFrame(
        {
            "seq": np.arange(1, 901),
            "reg": [f"Reg {u // 10}" for u in unit],
            "sub": [f"Sub {u // 3}" for u in unit],
            "unit": [f"{1000 + 13 * u}" for u in unit],
            "illness": rng.choice(["x", "y"], 900),
            "years": rng.integers(0, 95, 900),
        }
    )
    without = draft_table(people.drop(columns="seq"), persons=True).book
    draft = draft_table(people, persons=True)
    assert (draft.book.levels, draft.book.ignore[0]) == (without.levels, "seq")
    assert "numbers of the rows" in draft.to_toml()


def test_a_comment_that_shows_a_table_of_toml_quotes_a_name_that_needs_it():
    rows = [(f"R{u // 4}", f"R{u // 4}U{u}", f"{g:02d}", 5 + u * g % 7) for u in range(24) for g in range(1, 7)]
    draft = draft_table(pd.DataFrame(rows, columns=["reg", "uni", "kód sk.", "persons"]))
    assert '[labels."kód sk."]' in draft.to_toml()


def test_levels_in_the_reverse_order_are_refused_by_their_names_and_by_their_codes():
    table = _numbered_within_parents(names=True, unique=True)
    for up in (("obec", "okres", "kraj"), ("kód obce", "kód okresu", "kód kraje")):
        with pytest.raises(InputError, match="the order may be reversed.*--levels '" + ",".join(up[::-1])):
            draft_table(table, levels=up)
        assert draft_table(table, levels=up[::-1]).book.levels == up[::-1]


def test_levels_given_with_codes_that_repeat_anyhow_are_taken_in_that_order():
    rows = [(s, c, t, 10 + s * c * t) for s in range(1, 5) for c in (1, 3, 5) for t in (100, 200, 201)]
    book = draft_table(pd.DataFrame(rows, columns=["s", "c", "t", "persons"]), levels=("s", "c", "t")).book
    assert (book.levels, book.relative) == (("s", "c", "t"), True)


@pytest.mark.parametrize(
    ("count", "why"),
    [
        ("kód obce", "values such as '01' are codes"),
        ("pořadí", "its values number the rows"),
        ("rozloha", "the same in all rows of each kód obce: a fact about units"),
    ],
)
def test_a_count_that_is_none_by_its_values_is_refused_with_the_reason(count, why):
    table = _numbered_within_parents(names=True)
    table["pořadí"] = np.arange(1, len(table) + 1)
    table["rozloha"] = np.repeat(np.random.default_rng(5).integers(10, 999, len(table) // 2), 2)
    with pytest.raises(InputError, match=f"--count '{count}': {why}.*draft with --persons"):
        draft_table(table, count=count)


def test_ages_are_not_taken_as_the_count():
    rng = np.random.default_rng(3)
    people = pd.DataFrame({"town": rng.choice(["Ay", "Be", "Ce"], 200), "idade": rng.integers(0, 95, 200)})
    with pytest.raises(InputError, match=r"its values are ages in years\. If each row is one person"):
        draft_table(people, count="idade")


@pytest.mark.parametrize("name", ["Ηλικία", "возраст", "年齢", "vanus", "v7"])
def test_ages_in_years_are_banded_by_words_for_age_or_by_their_values(name):
    rng = np.random.default_rng(3)
    people = pd.DataFrame(
        {
            "town": rng.choice(["Ay", "Be", "Ce"], 2000),
            "sex": rng.choice(["f", "m"], 2000),
            name: rng.integers(0, 97, 2000),
        }
    )
    draft = draft_table(people, levels=["town"], persons=True)
    assert draft.book.bands == {name: (0, 15, 65)}
    assert read_counts(people, draft.book).total() == 2000
    assert ("taken for ages by their values" in draft.to_toml()) == (name == "v7")


def test_numbers_that_need_not_be_ages_are_not_banded():
    rng = np.random.default_rng(3)
    town, sex = rng.choice(["Ay", "Be", "Ce"], 2000), rng.choice(["f", "m"], 2000)
    for values in (rng.integers(150, 200, 2000), rng.integers(0, 30, 2000), rng.integers(0, 9000, 2000)):
        people = pd.DataFrame({"town": town, "sex": sex, "v7": values})
        assert not draft_table(people, levels=["town"], persons=True).book.bands


THAI = ("เขต", "รหัสจังหวัด", "รหัสอำเภอ", "รหัสตำบล")
HEADERS = [THAI, ("khet", "cw", "amp", "tam")]


def _repeating_below_unique(headers, *, names, wide, regular=False) -> pd.DataFrame:
    """Regions 01, 07 and 12 with provinces 50 to 55, whose codes differ; districts and wards begin again at 01."""
    rows = []
    for p, d, t, sex in product(range(6), range(1, 5), range(1, 9), ("ชาย", "หญิง")):
        if not regular and t > 3 + (5 * p + 3 * d) % 6:
            continue
        codes = [("01", "07", "12")[p // 2], str(50 + p), f"{d:02d}", f"{t:02d}"][: len(headers)]
        if len(headers) == 3 and (t > 1 or (d > 1 + p % 4 and not regular)):
            continue
        towns = ["", "จังหวัด " + "กขคงจฉ"[p], f"เมือง{'abcd'[d - 1]} {'กขคงจฉ'[p]}", f"ban{'abcdefgh'[t - 1]} {p}{d}"]
        row = {}
        for level, (header, code) in enumerate(zip(headers, codes, strict=True)):
            row |= {header: code} | ({f"nn{level}": towns[level]} if names and level else {})
        cells = {
            "0-14": (97 * p + 51 * d + 33 * t + 17 * len(sex)) % 61,
            "15+": 20 + (37 * p + 71 * t * d + 29 * len(sex)) % 301,
        }
        if wide:
            rows.append({**row, "phet": sex, **cells})
        else:
            rows += [{**row, "phet": sex, "oto": band, "persons": count} for band, count in cells.items()]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("depth", [3, 4])
@pytest.mark.parametrize("headers", HEADERS)
def test_codes_that_repeat_below_unique_ones_are_levels_under_any_header(headers, depth, names, wide):
    table = _repeating_below_unique(headers[:depth], names=names, wide=wide)
    draft = draft_table(table)
    assert (draft.book.levels, draft.book.relative, draft.missing) == (headers[:depth], True, ())
    expected = {header: f"nn{level}" for level, header in enumerate(headers[:depth]) if level}
    assert draft.book.names == (expected if names else {})
    assert list(draft.book.attributes) == (["phet", "age"] if wide else ["phet", "oto"])
    assert reads(table, draft, table["persons" if not wide else ["0-14", "15+"]].to_numpy().sum())


@pytest.mark.parametrize("typed", [str, int])
def test_numbers_are_levels_if_each_path_has_a_name_of_its_own_and_asked_about_if_not(typed):
    headers = ("khet", "cw", "amp", "tam")
    named = _repeating_below_unique(headers, names=True, wide=True).astype(dict.fromkeys(headers, typed))
    assert draft_table(named).book.levels == headers
    for regular in (False, True):
        table = _repeating_below_unique(headers, names=False, wide=True, regular=regular)
        draft = draft_table(table.astype(dict.fromkeys(headers, typed)))
        assert draft.missing or draft.book.levels == headers


def test_codes_of_every_parent_that_nothing_names_are_asked_about_and_answered():
    table = _repeating_below_unique(THAI, names=False, wide=True, regular=True)
    draft = draft_table(table)
    assert draft.book.levels == THAI[:2]
    assert draft.book.attributes[THAI[2]] == ("FILL_IN", "01", "02", "03", "04")
    assert (
        "may be a level or the name of one rather than an attribute of people: it has codes 01, 02" in draft.missing[0]
    )
    assert f"--levels '{','.join(THAI)}'" in draft.missing[0]
    with pytest.raises(InputError, match=r"FILL_IN under \[attributes\]"):
        draft.book.refuse_unfilled()
    assert not draft_table(table, levels=THAI).missing
    assert not draft_table(table, attributes=(*THAI[2:], "phet", "age")).missing
    words = {THAI[2]: {f"{n:02d}": f"w{n}" for n in range(1, 5)}, THAI[3]: {f"{n:02d}": f"w{n}" for n in range(1, 9)}}
    assert not draft_table(table, dictionary=words).missing


def test_labels_that_occur_in_one_unit_each_are_asked_about():
    """Wards have names, and rows of what may be totals of districts have none."""
    cells = product(range(6), ["", "a", "bb", "ccc"], "mf")
    rows = [(f"R{u}", f"{w}-{u}" if w else None, sex, 7 + u * len(w), 5 + 3 * u) for u, w, sex in cells]
    draft = draft_table(pd.DataFrame(rows, columns=["reg", "oto", "sex", "0-14", "15+"]))
    assert draft.book.levels == ("reg",)
    assert "FILL_IN" in draft.book.attributes["oto"]
    assert "each of its 18 values occurs in one reg only" in draft.to_toml()


@pytest.mark.parametrize("names_first", [False, True])
def test_numbers_are_the_levels_and_other_codes_beside_them_are_their_names(names_first):
    rows = []
    for r, p, d, w, sex in product(range(1, 4), range(1, 3), range(1, 5), range(1, 9), "mf"):
        row = {"region": f"{r:02d}", "province": f"{p:02d}", "pname": f"Prov{r}{p}", "district": f"{d:02d}"}
        row |= {"dname": f"D{r}{p}{d}", "ward": f"{w:02d}", "wname": f"W{r * 1000 + p * 100 + d * 10 + w}", "sex": sex}
        young, old = (
            (97 * r + 51 * p + 33 * d * w + 17 * (sex == "f")) % 61,
            20 + (37 * r * w + 113 * d + 29 * (sex == "f")) % 301,
        )
        rows.append(row | {"total": young + old, "young": young, "old": old})
    table = pd.DataFrame(rows)
    if names_first:
        table = table[["region", "pname", "province", "dname", "district", "wname", "ward", *table.columns[7:]]]
    draft = draft_table(table)
    assert (draft.book.levels, draft.book.relative) == (("region", "province", "district", "ward"), True)
    assert draft.book.names == {"province": "pname", "district": "dname", "ward": "wname"}
    assert list(draft.book.attributes) == ["sex", "age"]


def test_labels_with_codes_in_every_unit_are_no_level_because_units_have_codes_too():
    """Codes of units name the paths that end in a label, but do not tell the labels of a unit apart."""
    rows = [
        (f"{u // 4 + 1:02d}", f"U{u:03d}", f"{s:02d}", f"{g:02d}", 5 + u * g % 7)
        for u, s, g in product(range(16), (1, 2), range(1, 7))
    ]
    book = draft_table(pd.DataFrame(rows, columns=["reg", "uni", "phet", "grp", "persons"])).book
    assert (book.levels, list(book.attributes)) == (("reg", "uni"), ["phet", "grp"])


# ---- cells without people, and attributes that are named


def _schemes(*, total, nobody):
    """Towns by sex in rows, and scheme and age in columns, of which one has nobody in any row."""
    cells = [f"{s}: {a}" for s in ("civil", "social", "other") for a in ("0-14", "15-59", "60+")]
    rows = [[f"t{i:02}", sex, *RNG.integers(1, 90, 9)] for i in range(14) for sex in ("m", "f")]
    table = pd.DataFrame(rows, columns=["town", "sex", *cells]).assign(**{"social: 0-14": 0})
    people = int(table[cells].to_numpy().sum())
    if total:
        table.insert(2, "total", table[cells].sum(axis=1))
    return table.astype({"social: 0-14": object}).assign(**{"social: 0-14": nobody}), people


@pytest.mark.parametrize("nobody", ["-", "\u2013", 0, ""], ids=["dash", "en dash", "zero", "empty"])
@pytest.mark.parametrize("total", [True, False])
def test_a_cell_that_has_nobody_in_any_row_is_a_cell_of_its_product(tmp_path, nobody, total):
    table, people = _schemes(total=total, nobody=nobody)
    file = tmp_path / "t.csv"
    table.to_csv(file, index=False)
    draft = draft_table(file, attributes=["sex", "scheme", "age"])
    assert draft.missing == ()
    assert (draft.book.column, draft.book.ignore) == ("{scheme}: {age}", ())
    assert draft.book.attributes["scheme"] == ("civil", "social", "other")
    assert read_counts(file, draft.book).total() == people


def test_an_empty_column_that_completes_no_product_is_still_of_no_use():
    table, _ = _schemes(total=True, nobody="-")
    draft = draft_table(table.assign(remark="-", **{"social: 7-9": "-"}))
    assert set(draft.book.ignore) == {"remark", "social: 7-9"}


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        (["sex", "scheme"], r"'scheme' is not used, since it has 1 name.* which are those of 2 \(such as civil"),
        (["sex", "a", "b", "c"], r"'a,b,c' is not used, since it has 3 names"),
        (["sex", "scheme", "age", "code"], r"'code' is not used, since of code: no values"),
    ],
)
def test_names_of_attributes_that_are_not_used_are_never_dropped_without_a_word(attributes, why):
    table, _ = _schemes(total=True, nobody="-")
    draft = draft_table(table.assign(code=""), attributes=attributes)
    assert any(re.search(why, text) for text in draft.missing)
    assert "FILL_IN" in draft.book.attributes
    with pytest.raises(InputError, match="still has FILL_IN"):
        read_counts(table, codebook_from_toml(draft.to_toml()))


def test_a_name_in_attributes_that_a_list_of_persons_does_not_have_is_named():
    table = pd.DataFrame({"town": list("abcd") * 9, "sex": ["m", "f", "f"] * 12})
    (text,) = draft_table(table, levels=["town"], attributes=["sex", "agee"], persons=True).missing
    assert text.startswith("--attributes 'agee' is not used, since no column has this name")
    assert text.endswith("The columns are town, sex.")


def test_named_attributes_of_cells_make_a_table_wide_though_its_levels_are_not_found():
    table, _ = _schemes(total=True, nobody="-")
    table = table.drop(columns="town").assign(zz=[f"{i % 4:02}" for i in range(len(table))])
    book = draft_table(table, attributes=["sex", "scheme", "age"]).book
    assert (book.layout, book.column, book.total) == ("wide", "{scheme}: {age}", "total")
