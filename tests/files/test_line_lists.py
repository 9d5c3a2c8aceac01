"""Line lists: one row per person, as health offices keep them, with serial numbers, names of places and ages."""

import re

import numpy as np
import pandas as pd
import pytest

from tallyveil.errors import DataError
from tallyveil.files import codebook_from_toml, codebook_to_toml, read_counts
from tallyveil.files.tables.draft import draft_table


def cases(rows: int = 600, *, seed: int = 4) -> pd.DataFrame:
    """People with the names of their places; villages of different wards have the same names."""
    rng = np.random.default_rng(seed)
    ward = rng.integers(0, 12, rows)
    village = np.minimum(rng.integers(0, 5, rows), ward % 3 + 2)
    return pd.DataFrame(
        {
            "County": [f"County {'ABC'[w // 4]}" for w in ward],
            "Sub-county": [f"Sub {'ABCDEF'[w // 2]}" for w in ward],
            "Ward": [f"Ward {'abcdefghijkl'[w]}" for w in ward],
            "Village": [("Central", "Market", "North", "Sango", "Lwanda")[v] for v in village],
            "Age (years)": rng.integers(0, 95, rows).astype(str),
            "Sex": rng.choice(["F", "M"], rows),
            "Outcome": rng.choice(["Recovered", "Died"], rows),
        }
    )


def comments(draft, item: str) -> str:
    """What a draft says about an item."""
    return "; ".join(note.text for note in draft.notes if note.item == item)


LEVELS = ("County", "Sub-county", "Ward", "Village")


@pytest.mark.parametrize("name", ["S/No.", "Form number", "EPID code"])
@pytest.mark.parametrize("further", [{}, {"Days ill": range(60)}])
def test_a_number_of_each_person_is_no_level_beside_ages_in_years(name, further):
    people = cases()
    people.insert(0, name, [f"{i}" for i in range(1, 601)] if name == "S/No." else [f"K{7 * i:05}" for i in range(600)])
    for column, values in further.items():
        people[column] = np.random.default_rng(5).choice(values, 600).astype(str)
    draft = draft_table(people, persons=True)
    assert draft.book.levels == LEVELS
    assert set(draft.book.attributes) == {"Age (years)", "Sex", "Outcome"} | set(further)
    assert name in draft.book.ignore
    assert read_counts(people, draft.book).spine.size("Village") == people.groupby(list(LEVELS)).ngroups


@pytest.mark.parametrize("gaps", [(), ("", "NK")])
def test_the_bands_of_a_draft_can_be_changed_in_one_place(gaps):
    people = cases()
    people.loc[range(len(gaps)), "Age (years)"] = list(gaps)
    text = draft_table(people).to_toml()
    assert "0-14" not in text
    book = codebook_from_toml(text.replace("    0,\n    15,\n", "    0,\n    5,\n    15,\n"))
    bands = ("0-4", "5-14", "15-64", "65+")
    read = read_counts(people, book)
    assert read.schema.attributes["Age (years)"][:4] == bands
    assert len(read.schema.attributes["Age (years)"]) == 4 + len(gaps)
    ages = pd.to_numeric(people["Age (years)"], errors="coerce")
    truth = pd.cut(ages, [-1, 4, 14, 64, 200], labels=bands).value_counts(sort=False).tolist()
    assert read.answer("Age (years)", level="all").dense()[0, :4].tolist() == truth
    assert codebook_from_toml(codebook_to_toml(book)) == book


def test_bands_may_have_words_of_their_own():
    book = codebook_from_toml("""
    [geography]
    levels = ["town"]
    [attributes]
    age = ["", "NK"]
    [labels.age]
    0-4 = "under five"
    "" = "not stated"
    NK = "not stated"
    [bands]
    age = [0, 5, 15]
    [table]
    layout = "persons"
    """)
    assert book.words == {"age": ("under five", "5-14", "15+", "not stated")}
    assert codebook_from_toml(codebook_to_toml(book)) == book


@pytest.fixture
def workbook(tmp_path):
    """Writes people as a sheet with a serial number, titles and rows below them; returns its path."""

    def written(people: pd.DataFrame, *below: dict[str, object]):
        numbered = people.assign(**{"S/No.": range(1, len(people) + 1)})
        rows = [*numbered.to_dict("records"), *below]
        file = tmp_path / "list.xlsx"
        with pd.ExcelWriter(file, engine="openpyxl") as book:
            pd.DataFrame(rows, columns=["S/No.", *people]).to_excel(book, sheet_name="List", index=False, startrow=3)
            book.sheets["List"]["A1"] = "Measles line list, 2024 (provisional)"
        return file

    return written


@pytest.mark.parametrize("says", ["TOTAL CASES", "Jumlah kasus", "Total"])
def test_a_row_below_a_line_list_that_tallies_its_rows_is_no_person(workbook, says):
    people = cases()
    file = workbook(people, {"S/No.": says, "Age (years)": len(people)})
    draft = draft_table(file)
    assert (draft.book.form.note_rows, draft.book.bands) == (1, {"Age (years)": (0, 15, 65)})
    assert read_counts(file, draft.book).total() == len(people)


def test_a_last_row_that_is_no_tally_is_left_to_the_reader_which_says_how_to_leave_it_out(workbook):
    people = cases()
    file = workbook(people, {"S/No.": "TOTAL CASES", "Age (years)": len(people) - 1})
    draft = draft_table(file, levels=LEVELS, persons=True)
    assert draft.book.form.note_rows == 0
    below = r"row 601, column 'County': .* below the table, count it in \[file\] note_rows of the codebook\."
    with pytest.raises(DataError, match=below):
        read_counts(file, draft.book)
    people.loc[7, "County"] = ""
    file = workbook(people)
    with pytest.raises(DataError, match=r"row 8, column 'County': .* leave the row out\.$"):
        read_counts(file, draft_table(file, levels=LEVELS).book)


def test_units_that_differ_only_in_spelling_are_named_in_the_draft_and_when_they_are_read():
    people = cases()
    units = people[list(LEVELS)].drop_duplicates()
    shouted = people.copy()
    two = people.drop_duplicates("Sub-county").index[:2]
    shouted.loc[two, "Sub-county"] = people.loc[two, "Sub-county"].str.upper()
    draft = draft_table(shouted)
    said = (
        r"'SUB .' and 'Sub .' \(and another pair\) differ only in capitals, accents or spaces, and are read as differ"
    )
    assert re.search(f'"Sub-county",  # {said}', draft.to_toml())
    with pytest.warns(UserWarning, match=f"the table: Sub-county {said}"):
        read_counts(shouted, draft.book)
    with pytest.raises(DataError, match="SUB"):  # a list of units says which is right
        read_counts(shouted, draft.book, units=units)


def test_names_that_repeat_in_different_parents_are_no_second_spellings():
    people = cases()
    people["Village"] = people["Village"].where(people["County"] == "County A", people["Village"].str.upper())
    assert read_counts(people, draft_table(people).book).spine.size("Village") == people.groupby(list(LEVELS)).ngroups


def test_a_frame_with_numbers_and_texts_in_a_column_reads_as_the_sheet_it_came_from(workbook):
    people = cases()
    ages = people["Age (years)"].astype(int).astype(object)
    ages[[0, 5]] = ["NK", None]
    people = people.assign(**{"Age (years)": ages})
    file = workbook(people)
    frame = pd.read_excel(file, header=3)
    assert {type(age) for age in frame["Age (years)"]} >= {int, str}
    draft = draft_table(file)
    assert draft_table(frame).book.attributes == draft.book.attributes
    assert read_counts(frame, draft.book) == read_counts(file, draft.book)


def test_a_frame_with_things_that_are_no_values_is_refused():
    people = cases(20)
    people["Sex"] = [["F"], 3, *["F"] * 18]
    with pytest.raises(DataError, match=r"a column cannot be read .* Give each column one kind of value"):
        draft_table(people)


def test_clinics_that_divide_wards_as_villages_do_are_no_level_below_the_villages():
    people = cases()
    kinds = np.random.default_rng(8).choice(["dispensary", "health centre"], len(people))
    people["Reporting facility"] = people["Ward"] + " " + kinds
    draft = draft_table(people)
    assert (draft.book.levels, draft.book.ignore) == (LEVELS, ("Reporting facility",))
    assert comments(draft, "Reporting facility") == "divides Ward as Village does: could be a level in place of it"
