"""Texts that would forge a line, move a cursor or run in a spreadsheet: refused when read, or escaped when written."""

import csv
import re
import unicodedata
from dataclasses import replace

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallyveil as tv
from command_line import run
from tallyveil.errors import DataError
from tallyveil.files.published.write_tables import without_formulas, write_tables
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.codebook_toml import codebook_from_toml, codebook_to_toml
from tallyveil.files.tables.read import read_counts
from tallyveil.files.tables.side import read_areas
from tallyveil.nouns.codes import as_codes, refuse_control_codes
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.schema import Grouping

BAD = [
    "a\x1b[2Kb", "a\nStamped: nothing", "a\rb", "a\tb", "a\x00b", "a\x7fb", "a\x85b", "a\x9b31mb", "a\u2028b",
    "a\u2029b", "a\u202eb", "a\u2066b",
]  # fmt: skip
GOOD = ["São Tomé", "حي السلام", "1-17", "a b", "日本", "\u200fאב", "O'Neill", "-", "naïve"]
BOOK = Codebook(root="all", levels=("town",), attributes={"age": ("x", "y")}, layout="persons")


def spine(codes=("a", "b")):
    return tv.Spine.from_columns({"town": list(codes)}, root="all")


MAKERS = {
    "code": lambda text: spine([text, "b"]),
    "code of a spine cut by length": lambda text: tv.Spine.from_codes(
        [f"x{text}"], lengths={"a": 1, "b": 1 + len(text)}
    ),
    "root": lambda text: tv.Spine.from_columns({"town": ["a", "b"]}, root=text),
    "label": lambda text: tv.Schema(attributes={"age": [text, "y"]}),
    "attribute": lambda text: tv.Schema(attributes={text: ["x", "y"]}),
    "group": lambda text: tv.Schema(
        attributes={"age": ["x", "y"]}, groupings={"g": Grouping(of="age", groups={text: ["x"], "other": ["y"]})}
    ),
    "area": lambda text: tv.nouns.areas.Areas.from_codes(spine(), leaf=["a"], area=[text]),
    "facility": lambda text: Facilities.from_entries(
        spine(), attribute="age", types=[text, "y"], unit=[0], kind=[0], count=[1]
    ),
    "code of a label": lambda text: replace(BOOK, attributes={"age": (text,)}, labels={"age": {text: "word"}}),
    "word of a label": lambda text: replace(BOOK, attributes={"age": ("1",)}, labels={"age": {"1": text}}).schema,
    "codebook": lambda text: codebook_from_toml(codebook_to_toml(BOOK).replace('"y"', repr_toml(text))),
    "label in the data": lambda text: read_counts(
        pd.DataFrame({"town": ["a"], "age": [text]}), replace(BOOK, attributes={"age": ()}), units=spine()
    ),
    "unit in the data": lambda text: read_counts(pd.DataFrame({"town": [text, "b"], "age": ["x", "y"]}), BOOK),
    "list of units": lambda text: tv.files.read_counts(
        pd.DataFrame({"town": ["a"], "age": ["x"]}), BOOK, units=pd.DataFrame({"town": ["a", text]})
    ),
    "names of units": lambda text: read_counts(
        pd.DataFrame({"town": ["a", "b"], "age": "x", "name": ["A", text]}), replace(BOOK, names={"town": "name"})
    ),
    "table of areas": lambda text: read_areas(pd.DataFrame({"town": ["a"], "area": [text]}), spine()),
}  # fmt: skip


def repr_toml(text):
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"'


@pytest.mark.parametrize("text", BAD, ids=ascii)
@pytest.mark.parametrize("maker", MAKERS)
def test_control_characters_are_refused_by_every_reader_with_the_text_escaped_and_the_place(maker, text):
    with pytest.raises(DataError, match="has a control character") as refused:
        MAKERS[maker](text)
    message = str(refused.value)
    assert ascii(text).strip("'") in message.replace("\\\\", "\\")
    assert not any(unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") for letter in message)
    assert message.index(":") < message.index("has a control character")
    assert message.endswith("Remove it.")


@pytest.mark.parametrize("text", GOOD)
@pytest.mark.parametrize("maker", MAKERS)
def test_letters_of_all_languages_are_kept(maker, text):
    MAKERS[maker](text)


@given(st.lists(st.text(min_size=1, max_size=4).filter(lambda text: not text.startswith("\0")), min_size=1, max_size=6))
def test_codes_are_refused_exactly_where_one_has_a_control_character(texts):
    texts = [text.rstrip("\0").encode("utf-8", "ignore").decode() or "x" for text in texts]
    bad = any(re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text) for text in texts)
    codes = as_codes("town", np.array(texts, dtype=object))
    try:
        refuse_control_codes("town", codes)
    except DataError:
        assert bad
    else:
        assert not bad


def test_a_forged_line_ends_the_command_before_anything_is_written(tmp_path):
    (tmp_path / "t.csv").write_text('town,age\na,x\nb,"y"\n', encoding="utf-8")
    text = codebook_to_toml(replace(BOOK, labels={"age": {"x": "x", "y": "y"}}))
    (tmp_path / "t.toml").write_text(text.replace('y = "y"', 'y = "y\\nStamped: nothing"'), encoding="utf-8")
    done = run("protect", str(tmp_path / "t.csv"), "--codebook", str(tmp_path / "t.toml"), "--epsilon", "1",
               "-o", str(tmp_path / "r"))  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "\\nStamped: nothing" in done.stderr
    assert not (tmp_path / "r").exists()


PLAIN = [
    "-5",
    "+65",
    "-5.5",
    "-5%",
    "-1,234",
    "-5 to 0",
    "-5 bis -1",
    "5-9",
    "65+",
    "a=b",
    "1+1",
    "household",
    "",
    "'x",
]
COMPUTED = [
    "=1+1", "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "-x", "-5-3", "--5", "+", "-", "-5 to 0+1", "-5 to =1", " =1",
    "-5!A1", "\uff1d1+1", "\uff0d1+2", "+65 ", "-5 to", "=", "-5 SUMIFS(A) 3",
]  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
def test_plain_numbers_ranges_and_words_are_written_as_they_are(text):
    assert without_formulas(pa.table({"a": [text]})).to_pydict() == {"a": [text]}


@pytest.mark.parametrize("text", COMPUTED)
def test_whatever_a_spreadsheet_could_compute_is_escaped_in_cells_and_headers(text):
    assert without_formulas(pa.table({text: [text, "x", None]})).to_pydict() == {f"'{text}": [f"'{text}", "x", None]}


@given(st.text(max_size=12))
def test_no_written_text_begins_like_a_formula_unless_it_is_a_number_or_a_range(text):
    ((name, (value,)),) = without_formulas(pa.table({text: [text]})).to_pydict().items()
    assert name == value
    assert value in (text, f"'{text}")
    if value.lstrip()[:1] in tuple("=@+-"):
        assert re.fullmatch(r"[+-]?[0-9][0-9.,]*%?( [^\W\d_]+ [+-]?[0-9][0-9.,]*%?)?", value)


def test_published_tables_escape_every_cell_and_every_name_of_a_column(tmp_path):
    labels = ["-2+3+cmd|' /C calc'!A0", "=1+1", "-5 to 0"]
    schema = tv.Schema(attributes={"=age": labels, "@sex": ["f", "+m"]})
    units = tv.Spine.from_columns({"-town": ["=a", "+b"]}, root="all")
    people = tv.Histogram.from_entries(units, schema, unit=[0, 0, 1, 1], cell=[0, 2, 3, 5], count=[40, 50, 60, 70])
    release = tv.protect(people, tv.Strategy.default(units, schema, epsilon=50), seed=1)
    tv.write_release(release, tmp_path / "r")
    for kind in ("csv", "sdmx-csv"):
        write_tables(tmp_path / "r", tmp_path / kind, format=kind)
        for file in (tmp_path / kind).glob("*.csv"):
            with file.open(encoding="utf-8", newline="") as opened:
                cells = [cell for row in csv.reader(opened) for cell in row]
            assert cells
            begins = [
                cell for cell in cells if cell[:1] in tuple("=@+-") and not re.fullmatch("-5 to 0|-?[0-9]+", cell)
            ]
            assert not begins
    write_tables(tmp_path / "r", tmp_path / "xlsx", format="xlsx")
    book = openpyxl.load_workbook(tmp_path / "xlsx" / "-town.xlsx")
    assert not [cell for sheet in book for row in sheet for cell in row if cell.data_type == "f"]
