"""Some rows of a table as columns of codes, labels and counts; a bad value is an error with file, row and column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from tallyveil._arrays import Integers
from tallyveil.errors import DataError

_FILL_IN = 'Fill it in, or write 0; if all empty cells mean 0, write [file] zeros = [""] in the codebook'
_SPACES = r"[ \x{a0}\x{2009}\x{202f}]"  # spaces that separate thousands


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some rows of a table: its name for messages, its columns, and the index of each row in the whole table.

    ``thousands`` is the separator of thousands in counts, if there is one (``""`` says that there is none), and
    ``zeros`` are texts that stand for 0.
    """

    name: str
    table: pa.Table
    rows: Integers
    thousands: str | None = None
    zeros: tuple[str, ...] = ()

    def place(self, row: int, column: str | None = None) -> str:
        """The place of a value for a message; rows are counted from 1, without the header."""
        return f"{self.name}, row {self.rows[row] + 1:,}" + ("" if column is None else f", column {column!r}")

    def where(self, column: str, value: str) -> Batch:
        """The rows in which a column has this value."""
        return self.filtered(pc.fill_null(pc.equal(self.written(column), value), False))

    def filtered(self, mask: pa.Array | pa.ChunkedArray) -> Batch:
        """The rows that a mask keeps."""
        return replace(self, table=self.table.filter(mask), rows=self.rows[mask.to_numpy(zero_copy_only=False)])

    def written(self, column: str) -> pa.ChunkedArray:
        """A column of labels as text: numbers, dates and the like as they are written."""
        values = self.table.column(column)
        try:
            return decoded(values).cast(pa.string())
        except pa.ArrowException:
            raise DataError(
                f"{self.name}: column {column!r} holds {values.type}, which cannot be read as labels. Save it as text."
            ) from None

    def text(self, column: str) -> pa.Array:
        """A column as text without missing values; numbers are refused, since leading zeros may be lost."""
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
        any_gaps = pc.any(gaps).as_py()
        if coded is not None and (any_gaps or coded.indices.null_count):
            gaps = pc.fill_null(pc.take(gaps, coded.indices), True)
            any_gaps = pc.any(gaps).as_py()
        if any_gaps:
            raise DataError(
                f"{self.place(_first(gaps), column)}: the value is missing. Fill it in, or leave the row out."
                f"{_if_below_the_table(gaps)}"
            )
        return values if coded is None else coded

    def padded(self, column: str, digits: int) -> pa.Array:
        """A column of numbers or text as text, padded with zeros to a number of digits."""
        values = decoded(self.table.column(column).combine_chunks())
        if not pa.types.is_string(values.type):
            values = pc.cast(_whole(self, column, values), pa.string())
        return pc.utf8_lpad(values, digits, "0")

    def counts(self, column: str) -> Integers:
        """A column as non-negative integers."""
        values = _whole(self, column, self.table.column(column).combine_chunks())
        numbers: Integers = values.to_numpy(zero_copy_only=False)
        if len(numbers) and numbers.min() < 0:
            row = int(np.argmax(numbers < 0))
            raise DataError(
                f"{self.place(row, column)}: count {numbers[row]} is negative. Counts of people are 0 or more."
            )
        return numbers

    def labels(self, column: str, known: tuple[str, ...], *, bands: Sequence[int] = ()) -> Integers:
        """A column of labels as positions among the known labels. Numbers in it can be in bands, which are known first.

        A missing value is the label ``""``; spaces around a label do not matter if no known label has them.
        """
        values = self.table.column(column).combine_chunks()
        if not pa.types.is_dictionary(values.type):  # else of text (see sources)
            values = self.written(column).combine_chunks().dictionary_encode()
        texts = values.dictionary.cast(pa.string())
        labels = pa.array(known, pa.string())
        among = pc.coalesce(pc.index_in(texts, labels), pc.index_in(pc.utf8_trim_whitespace(texts), labels))
        if bands:
            among = pc.coalesce(_bands(texts, bands), among)
        empty = pc.index_in(pa.array([""]), labels)[0]
        place = pc.if_else(pc.is_null(values.indices), empty, pc.take(among, values.indices))
        if place.null_count:
            row = _first(pc.is_null(place))
            shown = ", ".join(repr(label) if not label.strip() else label for label in known)
            value = values[row].as_py()
            if not (value or "").strip():
                raise DataError(
                    f'{self.place(row, column)}: the value is missing. Fill it in, or add the label "" to [attributes] '
                    f"and a word for it to [labels.{column}] in the codebook."
                )
            raise DataError(
                f"{self.place(row, column)}: unknown label {value!r}. Known are {shown}. "
                f"Correct the row, or add the label to [attributes] in the codebook."
            )
        positions: Integers = place.to_numpy(zero_copy_only=False).astype(np.int64)
        return positions


def decoded(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column without dictionary encoding."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _bands(texts: pa.Array, bounds: Sequence[int]) -> pa.Array:
    """For texts that are numbers the position of their band; null for other texts, and below the first band."""
    number = pc.match_substring_regex(texts, r"^\s*[0-9]{1,15}([.,][0-9]*)?\s*$")
    digits = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, r"[.,][0-9]*", ""))
    numbers = pc.if_else(number, digits, None).cast(pa.int64())
    place = np.searchsorted(np.asarray(bounds), pc.fill_null(numbers, -1).to_numpy(), side="right") - 1
    return pa.array(place, pa.int32(), mask=place < 0)


def repeated_rows(key: Integers) -> tuple[int, int] | None:
    """Two rows with the same key, if there are any.

    >>> repeated_rows(np.array([7, 3, 7])), repeated_rows(np.array([3, 7]))
    ((0, 2), None)
    """
    if (np.diff(key) > 0).all():  # sorted, as most tables are
        return None
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    return (int(order[again[0]]), int(order[again[0] + 1])) if len(again) else None


def first_line(problem: Exception) -> str:
    """The first line of an error's text, or its type where it has none."""
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _whole(batch: Batch, column: str, values: pa.Array) -> pa.Array:
    """A column as 64-bit integers; a value that is missing, not an integer or too large is an error."""
    values = decoded(values)
    kind = values.type
    if values.null_count and "" in batch.zeros:
        values = pc.fill_null(values, "0" if pa.types.is_string(kind) else 0)
    if values.null_count:
        raise DataError(f"{batch.place(_first(pc.is_null(values)), column)}: the count is missing. {_FILL_IN}.")
    if pa.types.is_integer(kind):
        if kind == pa.uint64():
            most = pa.scalar((1 << 63) - 1, kind)
            _refuse(batch, column, values, pc.greater(values, most), "is too large to be a count. Correct it")
        return values.cast(pa.int64())
    if pa.types.is_string(kind):
        values = pc.utf8_trim_whitespace(values)
        values = pc.if_else(pc.is_in(values, pa.array(batch.zeros, pa.string())), "0", values)
        _refuse(batch, column, values, pc.equal(values, ""), f"the count is missing. {_FILL_IN}")
        values = _digits(batch, column, values)
        digits = pc.utf8_length(pc.replace_substring_regex(values, r"^[+-]?0*", ""))
        _refuse(batch, column, values, pc.greater(digits, 18), "is too large to be a count. Correct it")
        return pc.replace_substring_regex(values, r"^\+", "").cast(pa.int64())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        floats = values.cast(pa.float64())
        whole = pc.and_(pc.is_finite(floats), pc.equal(floats, pc.floor(floats)))
        _refuse(batch, column, values, pc.invert(whole), "is not a whole number. Correct it")
        _refuse(batch, column, values, pc.greater(pc.abs(floats), 2.0**53), "is too large to be exact. Correct it")
        return floats.cast(pa.int64())
    raise DataError(f"{batch.name}: column {column!r} holds {kind}, not counts. Correct the codebook or the file.")


def _digits(batch: Batch, column: str, values: pa.Array) -> pa.Array:
    """Whole numbers as texts of digits, without separators of thousands and zeros after a decimal point."""
    if not batch.thousands:
        if batch.thousands is None:
            _refuse_dots_in_doubt(batch, column, values)
        whole = pc.match_substring_regex(values, r"^[+-]?[0-9]+(\.0*)?$")
        digits = pc.match_substring_regex(values, "^[0-9]")
        remedy = "Correct it; if thousands are separated, name the separator in the codebook: [file] thousands"
        _refuse(batch, column, values, pc.and_not(digits, whole), f"is not a whole number. {remedy}")
        remedy = "Give the count itself, also where it was suppressed; if it stands for 0, list it in [file] zeros"
        _refuse(batch, column, values, pc.invert(whole), f"is not a whole number. {remedy}")
        return pc.replace_substring_regex(values, r"\.0*$", "")
    mark = _SPACES if batch.thousands == " " else re.escape(batch.thousands)
    whole = pc.match_substring_regex(values, rf"^[+-]?([0-9]+|[1-9][0-9]{{0,2}}({mark}[0-9]{{3}})+)$")
    words = f"is not a whole number with thousands separated by {batch.thousands!r} ([file] thousands). Correct it"
    _refuse(batch, column, values, pc.invert(whole), words)
    return pc.replace_substring_regex(values, mark, "")


def _refuse_dots_in_doubt(batch: Batch, column: str, values: pa.Array) -> None:
    """Refuse 1.000 unless another number shows that dots are decimal points: one such as 1.00, 0.000 or 1000.000."""
    doubtful = pc.match_substring_regex(values, r"^[+-]?[1-9][0-9]{0,2}\.000$")
    if pc.any(doubtful).as_py():
        decimal = r"^[+-]?(0[0-9]*\..*|[0-9]+\.([0-9]{0,2}|[0-9]{4,})|[0-9]{4,}\..*)$"
        doubtful = pc.and_(doubtful, pc.invert(pc.any(pc.match_substring_regex(values, decimal))))
        remedy = (
            'write [file] thousands = "." in the codebook if dots separate thousands, "" if they are decimal points'
        )
        _refuse(batch, column, values, doubtful, f"may be a number of thousands or have three decimals: {remedy}")


def _refuse(batch: Batch, column: str, values: pa.Array, wrong: pa.Array, why: str) -> None:
    if pc.any(wrong).as_py():
        row = _first(wrong)
        value = values[row].as_py()
        shown = "" if value == "" else f"{value} "
        raise DataError(f"{batch.place(row, column)}: {shown}{why}.")


def _if_below_the_table(gaps: pa.Array) -> str:
    """How to leave rows out if all rows with a gap are the last ones, as totals and notes below a table are."""
    rows = np.flatnonzero(gaps.to_numpy(zero_copy_only=False))
    if len(gaps) == len(rows) or rows[0] + len(rows) < len(gaps):
        return ""
    return " If it is a total or a note below the table, count it in [file] note_rows of the codebook."


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())
