"""Tables as batches of Arrow columns, whatever they came from; bad values become errors with file, row and column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from tallyveil._arrays import Integers
from tallyveil.errors import DataError

Source = str | PathLike[str] | Any  # a path, or a pandas, polars or Arrow table, or an OpenTable


@dataclass(frozen=True, kw_only=True)
class OpenTable:
    """A Parquet file that is already open, and its name for messages."""

    name: str
    file: pyarrow.parquet.ParquetFile


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some rows of a table: its name for messages, its columns, and each row's number in the whole table from 0."""

    name: str
    table: pa.Table
    rows: Integers

    def place(self, row: int, column: str | None = None) -> str:
        """Where a value stands, for a message; rows are counted from 1, a header not counted."""
        return f"{self.name}, row {self.rows[row] + 1:,}" + ("" if column is None else f", column {column!r}")

    def where(self, column: str, value: str) -> Batch:
        """The rows in which a column has a value."""
        mask = pc.fill_null(pc.equal(pc.cast(self.table.column(column), pa.string()), value), False)
        return Batch(name=self.name, table=self.table.filter(mask), rows=self.rows[mask.to_numpy()])

    def text(self, column: str) -> pa.Array:
        """A column as text without gaps; numbers are refused, since leading zeros may be lost."""
        values = self.table.column(column).combine_chunks()
        coded = values if pa.types.is_dictionary(values.type) else None
        if coded is not None:
            values = coded.dictionary
        if not pa.types.is_string(values.type):
            first = values[0].as_py() if len(values) else None
            raise DataError(
                f"{self.name}: column {column!r} holds {values.type} (first {first!r}), not text, so leading zeros are "
                f"lost. Save it as text, or restore them in the codebook: [geography] pad = {{{column} = DIGITS}}."
            )
        gaps = pc.or_kleene(pc.is_null(values), pc.equal(pc.utf8_trim_whitespace(values), ""))
        if coded is not None:
            gaps = pc.fill_null(pc.take(gaps, coded.indices), True)
        if pc.any(gaps).as_py():
            raise DataError(f"{self.place(_first(gaps), column)}: nothing there. Fill it in, or leave the row out.")
        return values if coded is None else coded

    def padded(self, column: str, digits: int) -> pa.Array:
        """A column of numbers, or of text, as text of so many digits."""
        values = decoded(self.table.column(column).combine_chunks())
        if not pa.types.is_string(values.type):
            values = pc.cast(_whole(self, column, values), pa.string())
        return pc.utf8_lpad(values, digits, "0")

    def counts(self, column: str) -> Integers:
        """A column as whole numbers, 0 or more."""
        values = _whole(self, column, self.table.column(column).combine_chunks())
        numbers: Integers = values.to_numpy(zero_copy_only=False)
        if len(numbers) and numbers.min() < 0:
            row = int(np.argmax(numbers < 0))
            raise DataError(
                f"{self.place(row, column)}: count {numbers[row]} is negative. Counts of people are 0 or more."
            )
        return numbers

    def labels(self, column: str, known: tuple[str, ...]) -> Integers:
        """A column of labels as positions among the known ones."""
        values = self.table.column(column).combine_chunks()
        if pa.types.is_dictionary(values.type):
            among = pc.index_in(values.dictionary.cast(pa.string()), value_set=pa.array(known))
            place = pc.take(among, values.indices)
        else:
            values = values.cast(pa.string())
            place = pc.index_in(values, value_set=pa.array(known))
        if place.null_count:
            row = _first(pc.is_null(place))
            raise DataError(
                f"{self.place(row, column)}: unknown label {values[row].as_py()!r}. Known are {', '.join(known)}. "
                f"Correct the row, or add the label to [attributes] in the codebook."
            )
        positions: Integers = place.to_numpy(zero_copy_only=False).astype(np.int64)
        return positions


def batches(source: Source, *, size: int = 1 << 20) -> Iterator[Batch]:
    """A table in pieces, in order. CSV columns come as text: what they are is decided later, by the codebook."""
    if isinstance(source, OpenTable):
        yield from _pieces(source.name, _record_batches(source.file, size))
        return
    if not isinstance(source, str | PathLike):
        table = _plain_text(_arrow(source))
        yield Batch(name="the table", table=table, rows=np.arange(table.num_rows))
        return
    path = Path(fspath(source))
    if not path.exists():
        raise DataError(f"{path}: no such file.")
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a table. Give a CSV or Parquet file.")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty. Give a CSV or Parquet file.")
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    yield from _pieces(str(path), _parquet(path, size) if is_parquet else _csv(path))


def _pieces(name: str, pieces: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
    before = 0
    try:
        for piece in pieces:
            rows = np.arange(before, before + piece.num_rows)
            yield Batch(name=name, table=_plain_text(pa.Table.from_batches([piece])), rows=rows)
            before += piece.num_rows
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{name}: {_reason(problem)}") from None


def column_names(source: Source) -> list[str]:
    """The names of a table's columns."""
    return list(next(iter(batches(source))).table.column_names)


def _arrow(source: Any) -> pa.Table:
    try:
        if isinstance(source, pa.Table):
            return source
        if type(source).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(source, preserve_index=False)
        return pa.table(source)
    except (pa.ArrowException, OverflowError) as problem:
        raise DataError(
            f"the table: a column cannot be read ({first_line(problem)}). Give each column one kind of value."
        ) from None
    except (TypeError, ValueError):
        raise DataError(
            f"{type(source).__name__} is not a table. Give a path, or a pandas, polars or Arrow table."
        ) from None


def _plain_text(table: pa.Table) -> pa.Table:
    """All kinds of text columns as one kind, spelled out or as a dictionary."""
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
    with pyarrow.parquet.ParquetFile(path) as file:
        texts = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
    with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:  # codes and labels repeat
        yield from _record_batches(file, size)


def _record_batches(file: pyarrow.parquet.ParquetFile, size: int) -> Iterator[pa.RecordBatch]:
    if file.metadata.num_rows == 0:
        yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
    yield from file.iter_batches(batch_size=size)


def _csv(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.input_stream(str(path)) as file:  # unpacks .gz
        head = file.read(1 << 16)
    if b"\0" in head:
        raise DataError(f"{path}: a binary file, neither CSV nor Parquet. Give a CSV or Parquet file.")
    try:
        first = head.decode("utf-8-sig", errors="strict" if len(head) < 1 << 16 else "ignore").splitlines()[:1]
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("invalid UTF8") from None
    if not first:
        raise DataError(f"{path}: the file is empty. Give a CSV or Parquet file.")
    delimiter = max(",;\t|", key=first[0].count)
    names = next(iter(_split(first[0], delimiter)))
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{path}: column {twice[0]!r} stands twice in the header. Rename one.")
    reader = pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=1 << 24),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in names}, strings_can_be_null=False
        ),
    )
    any_rows = False
    for piece in reader:
        any_rows = True
        yield piece
    if not any_rows:
        yield pa.RecordBatch.from_pylist([], schema=reader.schema)


def _split(line: str, delimiter: str) -> Iterator[list[str]]:
    import csv

    return csv.reader([line], delimiter=delimiter)


def decoded(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column spelled out, if it is a dictionary."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def first_line(problem: Exception) -> str:
    """The first line of an error's text, or its type where it has none."""
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _whole(batch: Batch, column: str, values: pa.Array) -> pa.Array:
    """A column as 64-bit integers; the first value that is missing, not whole or too large is an error."""
    values = decoded(values)
    kind = values.type
    if values.null_count:
        raise DataError(
            f"{batch.place(_first(pc.is_null(values)), column)}: the count is missing. Fill it in, or write 0."
        )
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return values.cast(pa.int64())
    if pa.types.is_string(kind):
        values = pc.utf8_trim_whitespace(values)
        _refuse(batch, column, values, pc.equal(values, ""), "the count is missing. Fill it in, or write 0")
        whole = pc.match_substring_regex(values, r"^[+-]?[0-9]+(\.0*)?$")
        _refuse(batch, column, values, pc.invert(whole), "is not a whole number. Correct it (no thousands separators)")
        values = pc.replace_substring_regex(values, r"\.0*$", "")
        digits = pc.utf8_length(pc.replace_substring_regex(values, r"^[+-]?0*", ""))
        _refuse(batch, column, values, pc.greater(digits, 18), "is too large to be a count. Correct it")
        return pc.replace_substring_regex(values, r"^\+", "").cast(pa.int64())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or kind == pa.uint64():
        floats = values.cast(pa.float64())
        whole = pc.and_(pc.is_finite(floats), pc.equal(floats, pc.floor(floats)))
        _refuse(batch, column, values, pc.invert(whole), "is not a whole number. Correct it")
        _refuse(batch, column, values, pc.greater(pc.abs(floats), 2.0**53), "is too large to be exact. Correct it")
        return floats.cast(pa.int64())
    raise DataError(f"{batch.name}: column {column!r} holds {kind}, not counts. Correct the codebook or the file.")


def _refuse(batch: Batch, column: str, values: pa.Array, wrong: pa.Array, why: str) -> None:
    if pc.any(wrong).as_py():
        row = _first(wrong)
        value = values[row].as_py()
        shown = "" if value == "" else f"{value} "
        raise DataError(f"{batch.place(row, column)}: {shown}{why}.")


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())


def _reason(problem: Exception) -> str:
    text = first_line(problem)
    if "UTF8" in text or "utf-8" in text:
        return "not UTF-8 text. Convert it (iconv -f latin1 -t utf-8), or save it again as UTF-8."
    if "Expected" in text and "columns" in text:
        return f"rows differ in length ({text}). Correct the row, or quote its commas."
    return f"cannot be read as CSV or Parquet ({text}). Check the file."
