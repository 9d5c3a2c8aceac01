from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import same
from tallyveil.errors import InputError
from tallyveil.files import Codebook, codebook_from_toml, codebook_to_toml, draft_codebook, read_codebook, read_counts
from tallyveil.files.write import codebook_for, counts_table, persons_table, wide_table

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
        ('column = "{age}"', "", r'layout = "wide" needs column = a pattern such as "{age}"'),
        ('column = "{age}"', 'column = "{race}"', r"must name each attribute once \(age\)"),
        ('levels = ["state", "tract"]', "levels = []", r"names no levels"),
        ('levels = ["state", "tract"]', 'code = "geoid"', r"code = 'geoid' needs lengths"),
        ("[attributes]", "[attribute]", r"unknown section \[attribute\]"),
        (
            'levels = ["state", "tract"]',
            'level = ["a"]',
            r"\[geography\] unknown field 'level'. Known are levels, root",
        ),
        ("[table]", "[table", r"not TOML"),
        ('age = ["child", "adult"]', "age = []", r"\[attributes\] age has no labels"),
        ('["child", "adult"]', "3", r"wrong kind of value"),
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


labels = st.lists(st.text("abcd_ é", min_size=1, max_size=4), min_size=1, max_size=4, unique=True).map(tuple)


@given(
    attributes=st.dictionaries(st.text("xyz", min_size=1, max_size=3), labels, min_size=1, max_size=3),
    levels=st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4, unique=True).map(tuple),
    root=st.one_of(st.none(), st.just("us")),
    where=st.dictionaries(st.just("level"), st.text(max_size=3)),
    ignore=st.lists(st.text("ij", min_size=1)).map(tuple),
)
def test_a_codebook_written_as_toml_reads_back_the_same(attributes, levels, root, where, ignore):
    book = Codebook(
        levels=levels, attributes=attributes, root=root, where=where, ignore=ignore, layout="long", count="n"
    )
    assert codebook_from_toml(codebook_to_toml(book)) == book


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("make", [counts_table, wide_table, persons_table], ids=["long", "wide", "persons"])
def test_a_drafted_codebook_reads_the_table_it_was_drafted_from(people, tmp_path, make, ending):
    from tallyveil.files.write import write_table

    layout = {counts_table: "long", wide_table: "wide", persons_table: "persons"}[make]
    file = tmp_path / f"t.{ending}"
    write_table(make(people), file)
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
        ({"state": []}, "no rows to look at"),
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
    assert draft_codebook(file) == book


def rockland() -> pd.DataFrame:
    rows = [("36", "36087", 3, 1, 2, 2), ("36", "36089", 5, 5, 1, 0), ("36", "36091", 2, 2, 2, 1)]
    table = pd.DataFrame(rows, columns=["state", "county", "adult_f", "adult_m", "child_f", "child_m"])
    return table.assign(total=table.iloc[:, 2:].sum(axis=1))


@pytest.mark.parametrize("slip", ["NA", "", "-3", "0.5", "23,000"])
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
