"""Residuals from a file: a column of numbers, one residual per row."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.files.tables.columns import Batch, decoded
from tallyveil.files.tables.sources import batches


def read_residuals(file: str | PathLike[str], column: str) -> NDArray[Any]:
    """The residuals in a column of a CSV or Parquet file.

    A value that is missing or not a finite number is refused, with the row that it stands in.
    """
    parts = []
    for batch in batches(file):
        if column not in batch.table.column_names:
            listed = ", ".join(batch.table.column_names)
            raise InputError(f"{file}: no column {column!r}. Its columns are: {listed}. Name one of them.")
        parts.append(_numbers(batch, column))
    values = np.concatenate(parts)
    if not len(values):
        raise InputError(f"{file}: column {column!r} has no rows. Give one residual per row.")
    return values


def _numbers(batch: Batch, column: str) -> NDArray[Any]:
    """A column of a batch as numbers: whole numbers where they are stored so, floating point otherwise."""
    values = decoded(batch.table.column(column).combine_chunks())
    if pa.types.is_string(values.type):
        numbers = np.array([_number(text) for text in pc.utf8_trim_whitespace(values).to_pylist()], dtype=np.float64)
    elif pa.types.is_integer(values.type) and not values.null_count:
        return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64)
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        numbers = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    else:
        raise InputError(f"{batch.name}: column {column!r} holds {values.type}, not numbers. Name another column.")
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        value = values[int(wrong[0])].as_py()
        problem = "the value is missing" if value in (None, "") else f"{value!r} is not a number"
        raise InputError(f"{batch.place(int(wrong[0]), column)}: {problem}. Correct it, or leave the row out.")
    return numbers


def _number(text: str | None) -> float:
    """The number that a text spells; not-a-number if it spells none."""
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")
