"""A level's tables as an Excel workbook: a README sheet, the wide table and the tidy one.

Everything but counts is written as text, so a label such as ``=1+1`` is no formula and codes keep their zeros. A sheet
holds 1,048,576 rows; longer tables continue with the next parent on further sheets, and what no workbook can hold is
refused before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tallyveil.errors import DataError, InputError
from tallyveil.files.published.level_tables import LevelTables

if TYPE_CHECKING:
    from openpyxl import Workbook

ROWS = 1_048_576  # of a sheet, the header included
COLUMNS = 16_384
MOST = 5_000_000  # rows of a workbook: more than a spreadsheet program opens


def write_workbook(tables: LevelTables, path: Path, readme: Sequence[str]) -> None:
    """Write the workbook of one level."""
    book = _openpyxl().Workbook(write_only=True)
    sheet = book.create_sheet("README")
    sheet.column_dimensions["A"].width = 120
    for line in readme:
        sheet.append([_text(sheet, line)])
    _write_sheets(book, sheet_name(tables.level), tables.wide())
    _write_sheets(book, sheet_name(f"{tables.level} tidy"), tables.tidy())
    book.save(path)


def check_workbook(tables: LevelTables) -> None:
    """Refuse, before anything is written, a level that no workbook can hold; also if the library is missing."""
    _openpyxl()
    columns = len(next(tables.wide()).column_names)
    if columns > COLUMNS:
        raise DataError(
            f"level {tables.level!r} has {columns:,} columns, more than the {COLUMNS:,} of an Excel sheet. Leave out a "
            f"query, or use --format csv or parquet."
        )
    if (rows := tables.units + tables.tidy_rows) > MOST:
        raise DataError(
            f"level {tables.level!r} has {rows:,} rows, too many for an Excel workbook ({MOST:,}). Use --format csv or "
            f"parquet for it, and --level to choose other levels."
        )


def sheet_name(name: str) -> str:
    """A name that Excel accepts for a sheet.

    >>> sheet_name("block/group: all of [them] in one long name")
    'block group  all of  them  in o'
    """
    return re.sub(r"[\\/*?:\[\]]", " ", name)[:31].strip("'")


def _write_sheets(book: Workbook, name: str, pieces: Iterable[pa.Table]) -> None:
    """Write a table on one sheet, or on as many as it needs; each begins with the header."""
    sheet: Any = None
    used, number = ROWS, 0
    for table in pieces:
        if used + table.num_rows > ROWS:
            number += 1
            title = name if number == 1 else f"{name[: 31 - len(f' {number}')]} {number}"
            sheet, used = book.create_sheet(title), 1
            sheet.freeze_panes = "A2"
            sheet.append([_text(sheet, column) for column in table.column_names])
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            sheet.append([value if isinstance(value, int) or value is None else _text(sheet, value) for value in row])
        used += table.num_rows


def _text(sheet: Any, text: str) -> Any:
    """A cell of text, whatever it begins with."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    cell = WriteOnlyCell(sheet, value=ILLEGAL_CHARACTERS_RE.sub(" ", text))
    cell.data_type = "s"
    return cell


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise InputError("Excel needs the library openpyxl. Install it with: pip install 'tallyveil[excel]'") from None
    return openpyxl
