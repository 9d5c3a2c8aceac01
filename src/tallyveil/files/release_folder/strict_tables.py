"""Tables of a release's folder, opened once and compared with what they must hold: columns, types, rows, values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tallyveil._workers import workers_ahead
from tallyveil.files.parquet import UNREADABLE, check_columns
from tallyveil.files.release_folder.findings import BrokenError
from tallyveil.files.release_folder.manifest import Sealed
from tallyveil.files.tables.columns import decoded, first_line
from tallyveil.files.tables.sources import OpenTable

_ARROW = b"ARROW:schema"  # where Arrow keeps the types of columns
_MAGIC, _LENGTH = b"PAR1", 4  # at both ends of a file; bytes of the footer's length, before the end
_WRITER = re.compile(r"parquet-cpp-arrow version [0-9.]+(-SNAPSHOT)?")


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """A Parquet file that has exactly the columns and types it must have."""

    name: str
    file: pyarrow.parquet.ParquetFile

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.file.metadata.num_rows)

    def opened(self) -> OpenTable:
        """The table for a reader."""
        return OpenTable(name=self.name, file=self.file)

    def pieces(self, size: int = 1 << 20) -> Iterator[tuple[int, pa.Table]]:
        """The rows in pieces, each with the index of its first row; a missing value is an error.

        Each row group is read by itself: a piece with rows of two of them would be copied together.
        """
        done, groups = 0, range(self.file.num_row_groups)
        for batch in chain.from_iterable(self.file.iter_batches(batch_size=size, row_groups=[one]) for one in groups):
            for column, values in zip(batch.schema.names, batch.columns, strict=True):
                gaps = values.null_count
                if pa.types.is_dictionary(values.type):
                    gaps += values.dictionary.null_count
                if gaps:
                    raise BrokenError(f"{self.name}, {column}: {gaps:,} values are missing")
            yield done, pa.Table.from_batches([batch])
            done += batch.num_rows

    def same_as(self, expected: Callable[[int, int], pa.Table], rows: int) -> None:
        """Refuse a table that differs from the expected one, which ``expected`` gives for a range of rows."""
        self.has(rows)

        def compare(numbered: tuple[int, pa.Table]) -> None:
            first, piece = numbered
            right = expected(first, first + piece.num_rows)
            for column in right.column_names:
                refuse_differing(self.name, piece.column(column), right.column(column), column=column, first=first)

        with workers_ahead() as run:
            for _ in run(compare, self.pieces()):
                pass

    def has(self, rows: int) -> None:
        """Refuse a table with another number of rows."""
        if self.rows != rows:
            raise BrokenError(f"{self.name}: {self.rows:,} rows instead of {rows:,}")


def checked_table(folder: Sealed, name: str, columns: Callable[[list[str]], pa.Schema] | pa.Schema) -> CheckedTable:
    """A table of the folder; ``columns`` is the schema it must have, or computes it from the names in the file."""
    try:
        file = pyarrow.parquet.ParquetFile(folder.read(name))
        schema, frame = file.schema_arrow, file.metadata
        for group in range(frame.num_row_groups):
            check_columns(file, group)
    except UNREADABLE as problem:
        raise BrokenError(f"{name}: cannot be read as Parquet ({first_line(problem)})") from None
    expected = columns if isinstance(columns, pa.Schema) else columns(schema.names)
    if schema.names != expected.names:
        odd = sorted(set(schema.names) ^ set(expected.names))
        raise BrokenError(f"{name}: columns differ ({', '.join(odd) or 'in their order'})")
    for field in expected:
        if schema.field(field.name).type != field.type:
            raise BrokenError(f"{name}, {field.name}: holds {schema.field(field.name).type}, not {field.type}")
    notes = [key.decode("utf-8", "replace") for key in frame.metadata or {} if key != _ARROW]
    if notes or not schema.equals(expected, check_metadata=True) or not _WRITER.fullmatch(frame.created_by):
        raise BrokenError(f"{name}: holds more than its columns ({', '.join(notes) or 'metadata'})")
    for group in range(frame.num_row_groups):
        for column in range(frame.num_columns):
            if getattr(frame.row_group(group).column(column), "metadata", None):
                raise BrokenError(f"{name}: holds more than its columns (metadata of {schema.names[column]})")
    if _described(frame) != folder.size(name):
        raise BrokenError(f"{name}: holds more than its columns (bytes that belong to none of them)")
    return CheckedTable(name, file)


def refuse_differing(name: str, values: pa.ChunkedArray, right: pa.ChunkedArray, *, column: str, first: int) -> None:
    """Refuse a column that differs from the right one, and name the first row where it does."""
    if _same_texts(values, right):
        return
    stated, expected = decoded(values), decoded(right)
    same = pc.fill_null(pc.equal(stated, expected), False)
    if not pc.all(same).as_py():
        row = int(pc.index(same, False).as_py())
        raise BrokenError(
            f"{name}, row {first + row + 1:,}, {column}: {stated[row].as_py()}, not {expected[row].as_py()}"
        )


def _same_texts(values: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    """Whether two columns with dictionaries hold the same texts; they are compared by their places in one of them."""
    if not pa.types.is_dictionary(values.type) or right.num_chunks != 1 or values.type != right.type:
        return False
    (known,), done = right.chunks, 0
    for chunk in values.chunks:
        place = chunk.indices.to_numpy()
        if not chunk.dictionary.equals(known.dictionary):
            among = pc.index_in(chunk.dictionary, value_set=known.dictionary)  # null for a text that is not there
            place = pc.fill_null(among, -1).to_numpy(zero_copy_only=False)[place]
        if not np.array_equal(place, known.indices[done : done + len(chunk)].to_numpy()):
            return False
        done += len(chunk)
    return True


def _described(frame: pyarrow.parquet.FileMetaData) -> int:
    """The size of a file that holds nothing but its columns and its footer."""
    groups = [frame.row_group(group) for group in range(frame.num_row_groups)]
    columns = [group.column(column).total_compressed_size for group in groups for column in range(frame.num_columns)]
    return int(len(_MAGIC) + sum(columns) + frame.serialized_size + _LENGTH + len(_MAGIC))
