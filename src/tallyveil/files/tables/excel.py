"""Sheets of Excel workbooks (.xlsx) as tables of text, as CSV files are read: the codebook interprets the values."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallyveil.errors import DataError
from tallyveil.files.tables.form import PLAIN, FileForm, Row, table_of_rows

OLD_EXCEL = b"\xd0\xcf\x11\xe0"  # the first bytes of .xls
ZIP = b"PK\x03\x04"  # those of .xlsx and .ods


def is_workbook(path: Path) -> bool:
    """Whether a file is an Excel workbook. Other spreadsheets are refused with a remedy."""
    with path.open("rb") as file:
        start = file.read(4)
    if start == OLD_EXCEL:
        raise DataError(f"{path}: an old Excel file (.xls), which is not read. Save it as .xlsx or CSV.")
    if start != ZIP:
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            parts = set(archive.namelist())
    except zipfile.BadZipFile:
        raise DataError(f"{path}: a damaged workbook or zip file. Save it again as .xlsx or CSV.") from None
    if "xl/workbook.xml" in parts:
        return True
    kind = "an OpenDocument file (.ods)" if "content.xml" in parts else "a zip file"
    raise DataError(f"{path}: {kind}, which is not read. Save the table as .xlsx or CSV.")


def sheet_names(path: Path) -> list[str]:
    """The sheets of a workbook that hold anything, the one with the most rows first."""
    book = _opened(path)
    try:
        if len(_sheets(book)) == 1:
            return [_sheets(book)[0].title]
        filled = [(sum(_is_filled(row) for row in sheet.iter_rows(values_only=True)), sheet) for sheet in _sheets(book)]
        return [sheet.title for rows, sheet in sorted(filled, key=lambda pair: -pair[0]) if rows]
    finally:
        book.close()


def read_sheet(path: Path, name: str | None, form: FileForm = PLAIN) -> Iterator[pa.RecordBatch]:
    """The table on a sheet, or on the only one, in pieces.

    Unless the form says where the names of columns are, they are in the first row with more than one value.
    """
    rows = sheet_rows(path, name, form.thousands)
    if form.title_rows:
        yield from table_of_rows(rows, form, str(path))
        return
    title: Row = ()
    for header in rows:
        if sum(map(bool, header)) > 1:
            yield from table_of_rows(chain([header], rows), form, str(path))
            return
        title = title or header  # a line above the table, or a table with one column
    yield pa.RecordBatch.from_pydict({value: pa.array([], pa.string()) for value in title})


def sheet_rows(path: Path, name: str | None, thousands: str | None = None) -> Iterator[Row]:
    """The rows of a sheet that hold anything, as text in which a separator separates thousands."""
    book = _opened(path)
    try:
        for row in _chosen(path, book, name).iter_rows(values_only=True):
            if _is_filled(row):
                yield [cell_text(value, thousands) for value in row]
    finally:
        book.close()


def _opened(path: Path) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise DataError(f"{path}: Excel files need openpyxl. Run: pip install tallyveil[excel]") from None
    try:
        return openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    except Exception as problem:  # openpyxl raises many kinds on damaged files
        raise DataError(f"{path}: cannot be read as a workbook ({problem}). Save it again as .xlsx or CSV.") from None


def _sheets(book: Any) -> list[Any]:
    """The sheets with cells, which charts do not have."""
    return [sheet for sheet in book.worksheets if hasattr(sheet, "iter_rows")]


def _chosen(path: Path, book: Any, name: str | None) -> Any:
    by_name = {sheet.title: sheet for sheet in _sheets(book)}
    listed = ", ".join(by_name)
    if name is None:
        if len(by_name) == 1:
            return next(iter(by_name.values()))
        raise DataError(
            f"{path} has {len(by_name)} sheets ({listed}). Name one in the codebook: "
            f'[table] sheet = "{next(iter(by_name), "")}".'
        )
    if name not in by_name:
        raise DataError(f"{path} has no sheet {name!r}. The sheets are {listed}.")
    return by_name[name]


def _is_filled(row: Sequence[Any]) -> bool:
    return any(value is not None and value != "" for value in row)


def cell_text(value: Any, thousands: str | None = None) -> str:
    """A cell as text: text as it is, with its leading zeros, and whole numbers without a decimal point.

    Where dots separate thousands, a fraction has another number of decimals than three, so that it is not read so.
    """
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    is_in_doubt = thousands == "." and isinstance(value, Real) and str(value)[-4:-3] == "."
    return f"{value}0" if is_in_doubt else str(value)
