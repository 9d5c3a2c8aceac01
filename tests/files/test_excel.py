"""Excel workbooks are read as CSV files are; other spreadsheets are refused with what to do."""

import sys
import zipfile
from datetime import datetime

import openpyxl
import pandas as pd
import pytest
from small_tables import LAYOUTS, same

from tallyveil.errors import InputError
from tallyveil.files import read_counts
from tallyveil.files.tables.excel import read_sheet
from tallyveil.files.tables.write import codebook_for


def workbook(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def refused(path, codebook, message):
    with pytest.raises(InputError, match=message):
        read_counts(path, codebook)


def rows_of(table: pd.DataFrame) -> list[list[object]]:
    return [list(table), *table.to_numpy().tolist()]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_workbook_reads_as_the_table_that_was_put_into_it(people, tmp_path, layout):
    table = LAYOUTS[layout](people).to_pandas()
    file = workbook(tmp_path / "t.xlsx", data=rows_of(table.astype(object)))
    assert same(read_counts(file, codebook_for(people, layout), units=people.spine), people)


def test_a_sheet_is_named_by_the_codebook_if_there_are_several(people, tmp_path):
    from dataclasses import replace

    rows = rows_of(LAYOUTS["long"](people).to_pandas().astype(object))
    file, book = workbook(tmp_path / "t.xlsx", notes=[["about"]], data=rows), codebook_for(people, "long")
    refused(file, book, r't\.xlsx has 2 sheets \(notes, data\)\. Name one in the codebook: \[table\] sheet = "notes"')
    refused(file, replace(book, sheet="dat"), r"t\.xlsx has no sheet 'dat'\. The sheets are notes, data\.")
    assert same(read_counts(file, replace(book, sheet="data"), units=people.spine), people)


def test_titles_blank_rows_and_blank_columns_are_skipped_and_values_keep_what_they_are(tmp_path):
    rows = [
        [None, "Population by sex"],
        [],
        [None, "code", "count", "share", "day"],
        [None, "007", 3, 0.5, datetime(2020, 1, 2)],
        [],
        [None, 7, 4.0, None, datetime(2020, 1, 2, 3)],
        [],
    ]
    (piece,) = read_sheet(workbook(tmp_path / "t.xlsx", data=rows), None)
    assert piece.to_pylist() == [
        {"code": "007", "count": "3", "share": "0.5", "day": "2020-01-02"},
        {"code": "7", "count": "4", "share": "", "day": "2020-01-02T03:00:00"},
    ]


def test_a_sheet_without_rows_or_with_a_nameless_column_is_refused(people, tmp_path):
    book = codebook_for(people, "long")
    refused(workbook(tmp_path / "empty.xlsx", data=[]), book, "no column 'state'")
    nameless = [["state", "county"], ["09", "09001", 3]]
    refused(workbook(tmp_path / "t.xlsx", data=nameless), book, "has values but no name in the header")


def test_other_spreadsheets_are_refused_with_how_to_convert_them(people, tmp_path):
    book = codebook_for(people, "long")
    (tmp_path / "t.xls").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(100))
    refused(tmp_path / "t.xls", book, r"t\.xls: an old Excel file \(\.xls\).*Save it as \.xlsx or CSV")
    with zipfile.ZipFile(tmp_path / "t.ods", "w") as archive:
        archive.writestr("content.xml", "<a/>")
    refused(tmp_path / "t.ods", book, r"t\.ods: an OpenDocument file \(\.ods\).*Save the table as \.xlsx or CSV")
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", "a\n")
    refused(tmp_path / "t.zip", book, r"t\.zip: a zip file, which is not read")
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04 and nothing more")
    refused(tmp_path / "t.xlsx", book, r"t\.xlsx: a damaged workbook")
    with zipfile.ZipFile(tmp_path / "u.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<a/>")
    refused(tmp_path / "u.xlsx", book, r"u\.xlsx: cannot be read as a workbook")


def test_without_openpyxl_the_message_says_what_to_install(people, tmp_path, monkeypatch):
    file = workbook(tmp_path / "t.xlsx", data=[["state"], ["09"]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    refused(
        file, codebook_for(people, "long"), r"t\.xlsx: Excel files need openpyxl\. Run: pip install tallyveil\[excel\]"
    )
