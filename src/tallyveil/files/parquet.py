"""What a damaged Parquet file does to those who open it, and how it is noticed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet

UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)  # what opening or reading a damaged file raises


def check_columns(file: pyarrow.parquet.ParquetFile, group: int) -> None:
    """Refuse a row group whose columns are described wrongly, before anybody asks for ``row_group(...).column(...)``.

    pyarrow ends the process if that description is damaged. Reading one row raises an error instead (``UNREADABLE``).
    """
    next(file.iter_batches(batch_size=1, row_groups=[group], use_threads=False), None)
