"""Tables as batches of rows, whatever they come from: CSV, Parquet, Excel, Arrow, pandas or polars."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import accumulate, chain, islice
from numbers import Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from tallyveil.errors import DataError
from tallyveil.files.parquet import UNREADABLE, check_columns
from tallyveil.files.tables.columns import Batch, first_line
from tallyveil.files.tables.excel import cell_text, is_workbook, read_sheet
from tallyveil.files.tables.form import PLAIN, FileForm, Row, formed, table_of_rows

Source = str | PathLike[str] | Any  # a path, an OpenTable, or a pandas, polars or Arrow table
DELIMITERS = ",;\t|"
_PIECE = 1 << 20  # bytes that are decoded at once


@dataclass(frozen=True, kw_only=True)
class OpenTable:
    """A Parquet file that is already open, and its name for messages."""

    name: str
    file: pyarrow.parquet.ParquetFile


def batches(
    source: Source, form: FileForm = PLAIN, *, sheet: str | None = None, size: int = 1 << 20
) -> Iterator[Batch]:
    """A table in pieces, in order. Columns of CSV files are text, which the codebook interprets later."""
    pieces = _as_they_are(source, form, sheet=sheet, size=size)
    return pieces if form == PLAIN else formed(pieces, form)


def column_names(source: Source, form: FileForm = PLAIN, *, sheet: str | None = None) -> list[str]:
    """The names of a table's columns."""
    return list(next(batches(source, form, sheet=sheet)).table.column_names)


def text_rows(path: Path, encoding: str | None, delimiter: str | None = None) -> Iterator[Row]:
    """The rows of a text file, which may differ in length."""
    with pa.input_stream(str(path)) as file:  # unpacks .gz
        lines = io.TextIOWrapper(file, encoding=encoding or "utf-8-sig", newline="")
        head = list(islice(lines, 50))
        yield from csv.reader(chain(head, lines), delimiter=delimiter or likely_delimiter(head))


def likely_delimiter(lines: Sequence[str]) -> str:
    """The character that separates values: the one that the typical line has most often, of lines that have any."""
    lines = [line for line in lines if any(mark in line for mark in DELIMITERS)] or lines
    return max(DELIMITERS, key=lambda mark: sorted(line.count(mark) for line in lines)[len(lines) // 2])


def _as_they_are(source: Source, form: FileForm, *, sheet: str | None, size: int) -> Iterator[Batch]:
    """All rows of the table in a file, or of a table in memory."""
    if isinstance(source, OpenTable):
        yield from _pieces(source.name, _record_batches(source.file, size))
        return
    if not isinstance(source, str | PathLike):
        table = _plain_text(_arrow(source, form.thousands))
        yield Batch(name="the table", table=table, rows=np.arange(table.num_rows))
        return
    path = Path(fspath(source))
    if not path.exists():
        raise DataError(f"{path}: no such file.")
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a table. Give a CSV, Parquet or Excel file.")
    if not path.is_file():  # it is read more than once
        raise DataError(f"{path}: a pipe or device, not a file. Save the table to a file, and give that.")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty. Give a CSV, Parquet or Excel file.")
    if is_workbook(path):
        pieces = read_sheet(path, sheet, form)
    elif is_parquet(path):
        pieces = _parquet(path, size)
    elif form.names_first:
        pieces = _csv(path, form.encoding)
    else:
        pieces = table_of_rows(text_rows(path, form.encoding), form, str(path))
    yield from _pieces(str(path), pieces)


def is_parquet(path: Path) -> bool:
    """Whether a file is a Parquet file."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def is_utf8(path: Path) -> bool:
    """Whether a file is text in UTF-8, or none whose encoding matters."""
    if not path.is_file() or is_workbook(path) or is_parquet(path):
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with pa.input_stream(str(path)) as file:  # unpacks .gz
            while piece := file.read(_PIECE):
                decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _refuse_repeated(name: str, names: Sequence[str]) -> None:
    """Refuse two columns of one name: which of them is meant cannot be known."""
    if len(set(names)) != len(names):
        twice = next(column for column in names if list(names).count(column) > 1)
        raise DataError(f"{name}: column {twice!r} is in the header twice. Rename one.")


def _pieces(name: str, pieces: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
    before = 0
    with _damage_told(name):
        for piece in pieces:
            _refuse_repeated(name, piece.schema.names)
            _check_dictionaries(piece)
            rows = np.arange(before, before + piece.num_rows)
            yield Batch(name=name, table=_plain_text(pa.Table.from_batches([piece])), rows=rows)
            before += piece.num_rows


@contextmanager
def _damage_told(name: str) -> Iterator[None]:
    """Say of which file it is that cannot be read, and why."""
    try:
        yield
    except MemoryError:  # pyarrow's is an ArrowException too, but the file is sound
        raise
    except UNREADABLE as problem:
        raise DataError(f"{name}: {_reason(problem)}") from None


def _arrow(source: Any, thousands: str | None) -> pa.Table:
    names = source.column_names if isinstance(source, pa.Table) else getattr(source, "columns", ())
    _refuse_repeated("the table", [str(name) for name in names])
    try:
        if isinstance(source, pa.Table):
            return source
        if type(source).__module__.partition(".")[0] == "pandas":
            return _from_pandas(source, thousands)
        return pa.table(source)
    except (pa.ArrowException, OverflowError) as problem:
        raise DataError(
            f"the table: a column cannot be read ({first_line(problem)}). Give each column one kind of value."
        ) from None
    except (TypeError, ValueError, AttributeError):
        raise DataError(
            f"{type(source).__name__} is not a table. Give a path, or a pandas, polars or Arrow table."
        ) from None


def _from_pandas(frame: Any, thousands: str | None) -> pa.Table:
    """A frame as an Arrow table. Columns with numbers and texts are text, as if the sheet they come from were read."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:
        frame = frame.copy(deep=False)
        for name in [name for name in frame.columns if frame[name].dtype == object]:
            values, gaps = frame[name].tolist(), frame[name].isna().tolist()
            if all(gap or isinstance(value, str | Real | date) for value, gap in zip(values, gaps, strict=True)):
                cells = (None if gap else value for value, gap in zip(values, gaps, strict=True))
                frame[name] = [cell_text(cell, thousands) for cell in cells]
        return pa.Table.from_pandas(frame, preserve_index=False)


def _plain_text(table: pa.Table) -> pa.Table:
    """A table with every text column as string, plain or as a dictionary."""
    columns = []
    for column in table.columns:
        coded = pa.types.is_dictionary(column.type)
        kind = column.type.value_type if coded else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            column = column.cast(pa.dictionary(pa.int32(), pa.string()) if coded else pa.string())
        elif coded:
            column = column.cast(kind)
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def _parquet(path: Path, size: int) -> Iterator[pa.RecordBatch]:
    with _opened(path) as file:
        yield from _record_batches(file, size)


def _opened(path: Path) -> pyarrow.parquet.ParquetFile:
    """A Parquet file whose texts stay in dictionaries if they are stored in them."""
    with pyarrow.parquet.ParquetFile(path) as file:
        texts = {field.name for field in file.schema_arrow if pa.types.is_string(field.type)}
        columns = _first_columns(file)
    coded = [column.path_in_schema for column in columns if column.has_dictionary_page]  # codes and labels that repeat
    return pyarrow.parquet.ParquetFile(path, read_dictionary=texts.intersection(coded))


@final
class RowGroups:
    """The row groups of a Parquet file, which stays open, to be read in any order."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        with _damage_told(self.name):
            self._file = _opened(path)
            metadata = self._file.metadata
            self.sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._first = [0, *accumulate(self.sizes)]

    def __enter__(self) -> RowGroups:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def batch(self, group: int) -> Batch:
        """The rows of a group."""
        with _damage_told(self.name):
            pieces = list(self._file.iter_batches(batch_size=max(1, self.sizes[group]), row_groups=[group]))
            for piece in pieces:
                _refuse_repeated(self.name, piece.schema.names)
                _check_dictionaries(piece)
            table = _plain_text(pa.Table.from_batches(pieces, schema=None if pieces else self._file.schema_arrow))
        return Batch(name=self.name, table=table, rows=np.arange(self._first[group], self._first[group + 1]))


def _first_columns(file: pyarrow.parquet.ParquetFile) -> list[pyarrow.parquet.ColumnChunkMetaData]:
    """How the columns of the first row group are stored."""
    if not file.num_row_groups:
        return []
    check_columns(file, 0)
    group = file.metadata.row_group(0)
    return [group.column(number) for number in range(group.num_columns)]


def _check_dictionaries(piece: pa.RecordBatch) -> None:
    """Refuse a column with places outside its dictionary, as a damaged file has: they are not checked when used."""
    for column in piece.columns:
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)


def _record_batches(file: pyarrow.parquet.ParquetFile, size: int) -> Iterator[pa.RecordBatch]:
    stated, rows = file.metadata.num_rows, 0
    if stated == 0:
        yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
    for piece in file.iter_batches(batch_size=size):
        rows += piece.num_rows
        yield piece
    if rows != stated:
        raise pa.ArrowInvalid(f"{rows:,} rows, but its metadata state {stated:,}: the file is damaged")


def _csv(path: Path, encoding: str | None) -> Iterator[pa.RecordBatch]:
    with pa.input_stream(str(path)) as file:  # unpacks .gz
        head = file.read(1 << 16)
    if encoding is None and b"\0" in head:
        raise DataError(f"{path}: a binary file, neither CSV nor Parquet. Give a CSV, Parquet or Excel file.")
    try:
        whole = "strict" if len(head) < 1 << 16 else "ignore"
        first = head.decode(encoding or "utf-8-sig", errors=whole).splitlines()[:1]
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("invalid UTF8") from None
    if not first:
        raise DataError(f"{path}: the file is empty. Give a CSV, Parquet or Excel file.")
    delimiter = max(DELIMITERS, key=first[0].count)
    names = next(csv.reader([first[0]], delimiter=delimiter))
    _refuse_repeated(str(path), names)
    reader = pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=1 << 24, encoding=encoding or "utf8"),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in names}, strings_can_be_null=False
        ),
    )
    any_rows = False
    shown = [name or f"column {i}" for i, name in enumerate(names, start=1)]  # row numbers often have no name
    for piece in reader:
        any_rows = True
        yield _filled_rows(piece.rename_columns(shown))
    if not any_rows:
        yield pa.RecordBatch.from_pylist([], schema=pa.schema([(name, pa.string()) for name in shown]))


def _filled_rows(piece: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of texts that hold anything."""
    empty: pa.Array = pa.scalar(True)
    for column in piece.columns:
        empty = pc.and_(empty, pc.equal(pc.utf8_trim_whitespace(column), ""))
        if not pc.any(empty).as_py():  # as in the first column of most tables
            return piece
    return piece.filter(pc.invert(empty))


def _reason(problem: Exception) -> str:
    text = first_line(problem)
    if "UTF8" in text or "utf-8" in text:
        return (
            "not UTF-8 text. Save it again as UTF-8; or, if a codebook describes it, name its encoding there "
            '([file] encoding = "cp1252"), as "tallyveil codebook" does.'
        )
    if "Expected" in text and "columns" in text:
        return (
            f"rows differ in length ({text}). Correct the row, or quote its commas. For titles above a table and notes "
            f'below it, write [file] title_rows and note_rows in the codebook, as "tallyveil codebook" does.'
        )
    return f"cannot be read as CSV or Parquet ({text}). Check the file."
