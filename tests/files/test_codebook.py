from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tables import LAYOUTS, same

from tallyveil.errors import InputError
from tallyveil.files import Codebook, codebook_from_toml, codebook_to_toml, draft_codebook, read_codebook, read_counts
from tallyveil.files.tables.form import FileForm
from tallyveil.files.tables.write import codebook_for, write_table
from tallyveil.nouns.histogram import Filter

BASE = """
[geography]
levels = ["state", "tract"]
[attributes]
age = ["child", "adult"]
[table]
layout = "wide"
column = "{age}"
"""
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_codebook_is_read_as_written():
    book = codebook_from_toml(BASE)
    assert book.levels == ("state", "tract")
    assert book.attributes == {"age": ("child", "adult")}
    assert (book.layout, book.column, book.root) == ("wide", "{age}", None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('layout = "wide"', 'layout = "broad"', r'layout must be "wide", "long" or "persons"\. Got \'broad\''),
        ('layout = "wide"', 'layout = "long"', r'layout = "long" needs count'),
        ('layout = "wide"', 'layout = "long"\ncount = ""', r"count must be text that is not empty"),
        (
            'layout = "wide"',
            'layout = "persons"\ncount = "n"',
            r'layout = "persons" counts each row as one person and would ignore count = "n"\. Use layout = "long"',
        ),
        ("[geography]", 'labels_from = "me"\n[geography]', r"labels_from must be \"data\"\. Got 'me' instead\."),
        ("[geography]", "units_from = true\n[geography]", r"units_from must be \"data\"\. Got True instead\."),
        (
            "[geography]",
            'labelling = "data"\n[geography]',
            r"unknown field .labelling. at the top\. Known there are",
        ),
        ("[table]", '[table]\nlabels_from = "data"', r"\[table\] labels_from belongs at the top of the file"),
        ("[table]", '[table]\nwhere_is_public = "yes"', r"where_is_public must be true or false\. Got 'yes'"),
        (
            "[geography]",
            'stamps = "seeded"\n[geography]',
            r"stamps must be a list\. Got 'seeded' instead\. Write \['seeded'\]",
        ),
        (
            "[geography]",
            'stamps = ["a", 3]\n[geography]',
            r"stamps, item 2 must be text that is not empty\. Got 3 instead",
        ),
        ("[geography]", "zeros = 3\n[geography]", r"zeros = 3 is not a section\. Write \[zeros\]"),
        ("[table]", '[filtered]\nwhere = {a = "b"}\npublic = 1\n[table]', r"\[filtered\] public must be true or false"),
        ("[table]", "[filtered]\npublic = true\n[table]", r"\[filtered\] needs where"),
        ('column = "{age}"', "", r'layout = "wide" needs column = a pattern such as "{age}"'),
        ('column = "{age}"', 'column = "{race}"', r"must name attributes, each once \(age\)"),
        ('levels = ["state", "tract"]', "levels = []", r"names no levels"),
        ('levels = ["state", "tract"]', 'code = "geoid"', r"code = 'geoid' needs lengths"),
        ("[attributes]", "[attribute]", r"unknown section \[attribute\]"),
        (
            'levels = ["state", "tract"]',
            'level = ["a"]',
            r"\[geography\] unknown field 'level'. Known are levels, root",
        ),
        ("[table]", '[labels.sex]\n1 = "m"\n[table]', r"\[labels.sex\]: there is no attribute 'sex'\. Known are age"),
        ("[table]", '[labels.age]\nchild = "under 18"\n[table]', r"\[labels.age\] has no word for code 'adult'"),
        ("[table]", "[labels.age]\n[table]", r"no word for codes 'child', 'adult'\. Add \"child\" = "),
        (
            "[table]",
            '[labels.age]\nchild = "a"\nadult = "b"\nold = "c"\n[table]',
            r"\[labels.age\]: code 'old' is not among those of \[attributes\] age",
        ),
        (
            "[table]",
            "[bands]\nyears = [0, 18]\n[table]",
            r"\[bands\] years: there is no attribute 'years'\. Add years = ",
        ),
        (
            "[table]",
            "[bands]\nage = [0, 18]\n[table]",
            r"\[bands\] age: its labels are names of columns\. Bands are for",
        ),
        ("[table]", "[file]\nnote_rows = -1\n[table]", r"\[file\] note_rows must be 0 or more\. Got -1 instead"),
        ("[table]", "[file]\nheader_rows = 0\n[table]", r"\[file\] header_rows must be 1 or more\. Got 0 instead"),
        ("[table]", '[file]\nthousands = "_"\n[table]', r"\[file\] thousands must be one of \"\.\", \",\", .* Got '_'"),
        (
            "[table]",
            '[file]\nencoding = "klingon"\n[table]',
            r"\[file\] encoding 'klingon' is unknown\. Use \"cp1252\"",
        ),
        ("[table]", '[labels.age]\nchild = 1\nadult = "b"\n[table]', r"\[labels\] age child must be text\. Got 1"),
        ("[table]", '[labels]\nage = "old"\n[table]', r"\[labels\] age must be a table\. Got 'old' instead"),
        ("[table]", "[table", r"not TOML"),
        ('age = ["child", "adult"]', "age = []", r"\[attributes\] age has no labels"),
        ('["child", "adult"]', "3", r"\[attributes\] age must be a list\. Got 3 instead"),
    ],
)
def test_a_wrong_codebook_is_refused_with_the_field(tmp_path, old, new, message):
    assert old in BASE
    file = tmp_path / "book.toml"
    file.write_text(BASE.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        read_codebook(file)
    assert str(file) in str(caught.value)


def test_a_codebook_without_a_section_or_a_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"section \[table\] is missing"):
        codebook_from_toml(BASE.split("[table]")[0])
    with pytest.raises(InputError, match=r"no such file. Draft a codebook with: tallyveil codebook DATA"):
        read_codebook(tmp_path / "none.toml")


def test_where_is_public_stands_at_the_top_or_in_the_table_and_not_in_both():
    where = 'where = {level = "block"}\n'
    below = codebook_from_toml(BASE + where + "where_is_public = true\n")
    above = codebook_from_toml("where_is_public = true\n" + BASE + where)
    assert below == above
    assert below.filter == Filter(where={"level": "block"}, public=True)
    assert codebook_from_toml(BASE + where).filter == Filter(where={"level": "block"}, public=False)
    assert codebook_from_toml(BASE).filter is None
    with pytest.raises(InputError, match=r"where_is_public is both at the top and in \[table\]\. Keep one of them"):
        codebook_from_toml("where_is_public = false\n" + BASE + where + "where_is_public = true\n")


def test_toml_that_is_nested_deeply_is_refused_in_one_line():
    with pytest.raises(InputError, match="nested too deeply for a codebook"):
        codebook_from_toml("a = " + "[" * 100_000)


labels = st.lists(st.text("abcd_ é", min_size=1, max_size=4), min_size=1, max_size=4, unique=True).map(tuple)


@given(
    attributes=st.dictionaries(st.text("xyz", min_size=1, max_size=3), labels, min_size=1, max_size=3),
    levels=st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4, unique=True).map(tuple),
    root=st.one_of(st.none(), st.just("us")),
    where=st.dictionaries(st.just("level"), st.text(max_size=3)),
    ignore=st.lists(st.text("ij", min_size=1)).map(tuple),
    marks=st.fixed_dictionaries(
        {
            "labels_from": st.sampled_from([None, "data"]),
            "units_from": st.sampled_from([None, "data"]),
            "where_is_public": st.booleans(),
            "stamps": st.lists(st.text('ab"\n#é ', min_size=1).filter(str.strip)).map(tuple),
            "sheet": st.sampled_from([None, "Sheet 1"]),
            "form": st.builds(
                FileForm,
                encoding=st.sampled_from([None, "cp1252"]),
                title_rows=st.integers(0, 2),
                header_rows=st.integers(1, 3),
                note_rows=st.integers(0, 2),
                thousands=st.sampled_from([None, ".", " "]),
                fill_down=st.sampled_from([(), ("a b", "é")]),
                total_rows=st.sampled_from([{}, {"a b": ("All", "")}]),
            ),
            "named": st.booleans(),
            "filtered": st.sampled_from([None, Filter(where={"hiv": "yes"}), Filter(where={"a b": ""}, public=True)]),
        }
    ),
)
def test_a_codebook_written_as_toml_reads_back_the_same(attributes, levels, root, where, ignore, marks):
    names = {levels[0]: "a name"} if marks.pop("named") else {}
    book = Codebook(
        levels=levels, attributes=attributes, root=root, names=names, where=where, ignore=ignore, layout="long",
        count="n", **marks,
    )  # fmt: skip
    assert codebook_from_toml(codebook_to_toml(book)) == book
    words = {name: {code: f"word {code}" for code in codes} for name, codes in attributes.items()}
    spoken = replace(book, labels=words)
    assert codebook_from_toml(codebook_to_toml(spoken)) == spoken
    assert spoken.words == {name: tuple(f"word {code}" for code in codes) for name, codes in attributes.items()}


def test_a_draft_is_marked_at_its_top_and_the_marks_say_when_to_remove_them():
    text = codebook_to_toml(draft_codebook(rockland()))
    top = text.split("[geography]")[0]
    assert 'labels_from = "data"\n' in top
    assert 'units_from = "data"\n' in top
    assert "# List every label that can occur, whether anybody has it or not, then remove labels_from.\n" in top
    assert "# Use a public list of units, empty ones too (--units FILE), then remove units_from.\n" in top


def test_a_draft_calls_where_public_only_if_it_picks_units_rather_than_persons():
    rows = {"geoid": ["44", "440010301001000", "440010301001001"], "level": ["state", "block", "block"]}
    units = pd.DataFrame({**rows, "male": [3, 1, 2], "female": [4, 0, 4]})
    drafted = draft_codebook(units)
    assert (drafted.where, drafted.where_is_public) == ({"level": "block"}, True)
    assert read_counts(units, drafted).filter == Filter(where={"level": "block"}, public=True)
    persons = pd.DataFrame({**rows, "sex": ["male", "male", "female"]})
    drafted = draft_codebook(persons)
    assert (drafted.layout, drafted.where, drafted.where_is_public) == ("persons", {"level": "block"}, False)
    assert not draft_codebook(rockland()).where_is_public


@pytest.mark.parametrize("name", ["count", "n", "Freq", "total", "population"])
def test_one_column_of_counts_beside_labels_is_drafted_as_the_count(name):
    table = pd.DataFrame({"county": ["001", "003"], "sex": ["f", "m"], name: [7, 5]})
    drafted = draft_codebook(table)
    assert (drafted.layout, drafted.count) == ("long", name)
    assert read_counts(table, drafted).total() == 12


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_drafted_codebook_reads_the_table_it_was_drafted_from(people, tmp_path, layout, ending):
    file = tmp_path / f"t.{ending}"
    write_table(LAYOUTS[layout](people), file)
    drafted = draft_codebook(file)
    assert drafted.layout == layout
    assert drafted.root == "us"
    # the draft cannot know groupings, zeros or the order of labels; told those, it reads the same people
    told = codebook_for(people, layout)
    drafted = replace(
        drafted, attributes=told.attributes, groupings=told.groupings, zeros=told.zeros, column=told.column
    )
    assert same(read_counts(file, drafted, units=people.spine), people)


def test_a_draft_cuts_a_gisjoin_and_pads_numbers():
    joined = pd.DataFrame({"GISJOIN": ["G44000100301001000", "G44000100301001001"], "male": [1, 2], "female": [0, 4]})
    book = draft_codebook(joined)
    assert book.lengths == {"state": 4, "county": 8, "tract": 14, "block_group": 15, "block": 18}
    assert book.attributes == {"sex": ("male", "female")}
    assert read_counts(joined, book).at("tract").dense().tolist() == [[3, 4]]
    numbers = pd.DataFrame({"state": [9, 9], "county": [9001, 9003], "total": [3, 4]})
    book = draft_codebook(numbers)
    assert read_counts(numbers, book).spine.labels("county") == ["09001", "09003"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"place": ["a"], "n": [1]}, "no geographic column found"),
        ({"state": ["44"]}, "no columns of counts or labels"),
        ({"state": []}, "the table has no rows"),
    ],
)
def test_a_table_that_tells_too_little_is_refused(table, message):
    with pytest.raises(InputError, match=message):
        draft_codebook(pd.DataFrame(table))


DATA = Path(__file__).parents[3] / "shared" / "data"
TOTALS = {
    "ri_2010_block": 1_052_567,
    "ny_rockland_2010_block": 311_687,
    "us_2000_block_groups": 281_421_906,
    "ri_2018_e2e_seven_tracts": 29_225,
}


@pytest.mark.skipif(not DATA.exists(), reason="the real census counts are not beside the project")
@pytest.mark.parametrize("name", TOTALS)
def test_the_real_files_are_read_with_the_shipped_codebooks_and_the_drafts_equal_them(name):
    file, book = DATA / f"{name}.parquet", read_codebook(EXAMPLES / f"{name}.toml")
    assert read_counts(file, book).total() == TOTALS[name]
    drafted = draft_codebook(file)
    assert (drafted.labels_from, drafted.units_from) == ("data", "data")
    assert replace(drafted, labels_from=None, units_from=None) == book


def rockland() -> pd.DataFrame:
    rows = [("36", "36087", 3, 1, 2, 2), ("36", "36089", 5, 5, 1, 0), ("36", "36091", 2, 2, 2, 1)]
    table = pd.DataFrame(rows, columns=["state", "county", "adult_f", "adult_m", "child_f", "child_m"])
    return table.assign(total=table.iloc[:, 2:].sum(axis=1))


@pytest.mark.parametrize("slip", ["NA", "", "-3", "0.5", "23,00"])
def test_one_bad_value_does_not_hide_a_column_from_the_draft_but_is_named(tmp_path, slip):
    table = rockland().astype(str)
    table.loc[1, "adult_m"] = slip
    file = tmp_path / "t.csv"
    table.to_csv(file, index=False)
    drafted = draft_codebook(file)
    assert drafted.column == "{age}_{sex}"
    assert drafted.total == "total"
    with pytest.raises(InputError, match="row 2, column 'adult_m'"):
        read_counts(file, drafted)


def test_one_wrong_total_does_not_change_the_draft_but_is_named():
    table = rockland()
    table.loc[2, "total"] += 1
    drafted = draft_codebook(table)
    assert drafted.total == "total"
    with pytest.raises(InputError, match="row 3, column 'total': 8, but the cells sum to 7"):
        read_counts(table, drafted)


def test_whole_floats_and_decimals_are_counts_to_the_draft():
    floats = rockland().astype({"adult_f": float})
    assert draft_codebook(floats) == draft_codebook(rockland())
    assert read_counts(floats, draft_codebook(floats)).total() == 26


def test_codes_in_a_csv_that_lost_their_zeros_are_refused_and_a_draft_restores_them(tmp_path):
    file = tmp_path / "t.csv"
    rows = {"state": [1, 1, 44], "county": [1001, 1003, 44001], "male": [1, 2, 3], "female": [1, 1, 1]}
    pd.DataFrame(rows).to_csv(file, index=False)
    drafted = draft_codebook(file)
    assert drafted.pad == {"state": 2, "county": 5}
    assert read_counts(file, drafted).spine.labels("county") == ["01001", "01003", "44001"]
    with pytest.raises(InputError, match=r"column 'state' has codes of 1 digits.*pad = \{state = 2\}"):
        read_counts(file, replace(drafted, pad={}))
