"""A table as a draft looks at it: for each column its distinct values, and which of them each row has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.errors import DataError
from tallyveil.files.tables.form import PLAIN, THOUSANDS, FileForm
from tallyveil.files.tables.sources import Source, batches

_MOST_VALUES = 250_000_000  # values that are kept, of four bytes each: the rows after them are not looked at
_NUMBER = r"^[+-]?[0-9]+(\.[0-9]*)?$|^[0-9]{1,3}([., '\x{a0}\x{202f}][0-9]{3})+$"  # the reader refuses separators
_DOTS = r"^[1-9][0-9]{0,2}(\.[0-9]{3})+$"
_COMMAS = r"^[+-]?[0-9]+,[0-9]+$"
_THOUSANDS = r"^[0-9]{1,3}(,[0-9]{3})+$"
_GAPS = ["", "-", "\u2013", "\u2014", ".", "..", "...", "\u2026", ":", "x", "X", "NA", "N/A", "n/a", "na", "NaN", "nan"]
NIL = ("-", "\u2013", "\u2014")  # dashes that stand for nobody in tables of counts
_MANY_ROWS = 20  # counts of so many rows are not 1, 2, 3 and so on
_DATE = r"^[0-9]{4}[-/.][0-9]{1,2}([-/.][0-9]{1,2}([T ].*)?)?$|^[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4}$"


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """One column: its distinct values as text, and for each row the index of its value."""

    name: str
    values: pa.Array
    of_row: Integers
    kind: pa.DataType

    @cached_property
    def texts(self) -> pa.Array:
        """The distinct values, without outer spaces. Missing ones are empty."""
        return pc.utf8_trim_whitespace(self.values)

    @cached_property
    def rows_of(self) -> Integers:
        """The number of rows that have each value."""
        return np.bincount(self.of_row, minlength=len(self.values)).astype(np.int64)

    @cached_property
    def empty(self) -> Bools:
        """Which of the values are missing ones."""
        return np.asarray(pc.equal(self.texts, "").to_numpy(zero_copy_only=False), dtype=np.bool_)

    @cached_property
    def present(self) -> Bools:
        """Which of the values occur and are not missing."""
        return (self.rows_of > 0) & ~self.empty

    @cached_property
    def occurring(self) -> pa.Array:
        """The values that occur."""
        return self.texts.filter(pa.array(self.present))

    @cached_property
    def labels(self) -> list[str]:
        """The values that occur in natural order, which sorts numbers in texts by their size."""
        return sorted(set(self.occurring.to_pylist()), key=natural)

    @cached_property
    def size(self) -> int:
        """The number of different values that occur."""
        return int(self.present.sum())

    @cached_property
    def missing(self) -> int:
        """The number of rows without a value."""
        return int(self.rows_of[self.empty].sum())

    @cached_property
    def numbers(self) -> Floats:
        """Each distinct value as a number, or NaN."""
        texts = pc.replace_substring(self.texts, ",", ".") if self._has_decimal_commas else self.texts
        marks = r"[, '\x{a0}\x{202f}.]" if self._has_dots_for_thousands else r"[, '\x{a0}\x{202f}]"
        whole = pc.replace_substring_regex(texts, marks, "")
        digits = pc.if_else(pc.match_substring_regex(texts, _NUMBER), whole, None)
        return np.asarray(digits.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)

    @cached_property
    def amounts(self) -> Floats:
        """Each distinct value as a number of people: 0 where it stands for nobody or is missing, or NaN."""
        return np.where(self.gaps, 0.0, self.numbers)

    @cached_property
    def gaps(self) -> Bools:
        """Which of the values are empty cells, or signs that tables have in place of a number."""
        return np.asarray(pc.is_in(self.texts, pa.array(_GAPS)).to_numpy(zero_copy_only=False), dtype=np.bool_)

    @cached_property
    def _has_dots_for_thousands(self) -> bool:
        """Whether every dot is followed by three digits and no number begins with zero: 1.234 in a German table."""
        dotted = self.texts.filter(pa.array(self.present & ~self.gaps))
        dotted = dotted.filter(pc.match_substring(dotted, "."))
        plain = bool(pc.any(pc.match_substring_regex(self.occurring, r"^[0-9]{4,}$")).as_py())
        return len(dotted) > 1 and not plain and bool(pc.all(pc.match_substring_regex(dotted, _DOTS)).as_py())

    @cached_property
    def thousands(self) -> str | None:
        """The separator of thousands in the numbers, if they have one."""
        marks = [mark for mark in THOUSANDS if mark != "." or self._has_dots_for_thousands]
        return next((mark for mark in marks if self._has_separated(mark)), None) if self.is_number else None

    def _has_separated(self, mark: str) -> bool:
        spaces = r"[ \x{a0}\x{2009}\x{202f}]" if mark == " " else re.escape(mark)
        return bool(pc.any(pc.match_substring_regex(self.occurring, rf"^[0-9]{{1,3}}({spaces}[0-9]{{3}})+$")).as_py())

    @cached_property
    def _has_decimal_commas(self) -> bool:
        """Whether numbers have commas that cannot all separate thousands: 2,52 in a Finnish table."""
        written = self.occurring.filter(pc.match_substring(self.occurring, ","))
        numbers = pc.all(pc.match_substring_regex(written, _COMMAS)).as_py()
        thousands = pc.all(pc.match_substring_regex(written, _THOUSANDS)).as_py()
        return len(written) > 0 and bool(numbers) and not thousands

    @cached_property
    def is_number(self) -> bool:
        """Whether most rows that have a value have a number; the reader will report those that do not."""
        given = int(self.rows_of[~self.gaps].sum())
        return int(self.rows_of[~np.isnan(self.numbers) & ~self.gaps].sum()) > 0.5 * given

    @cached_property
    def is_whole(self) -> bool:
        """Whether the numbers are whole and not negative, but for a few that the reader will report."""
        with np.errstate(invalid="ignore"):
            odd = (self.numbers < 0) | (self.numbers != np.floor(self.numbers))
        odd &= ~np.isnan(self.numbers)
        return self.is_number and int(self.rows_of[odd].sum()) <= max(1, 0.05 * len(self.of_row))

    @cached_property
    def has_zero(self) -> bool:
        """Whether the number zero occurs."""
        return bool((self.rows_of[self.numbers == 0] > 0).any())

    @cached_property
    def has_nobody(self) -> bool:
        """Whether zero occurs, or an empty cell or sign that may stand for it."""
        return bool((self.rows_of[self.amounts == 0] > 0).any())

    @cached_property
    def has_nobody_only(self) -> bool:
        """Whether all values are zeros, dashes that stand for them, or empty cells."""
        return all(label in NIL or label == "0" for label in self.labels)

    @cached_property
    def is_code(self) -> bool:
        """Whether the values look like codes: they have leading zeros, or all one length and digits."""
        if not self.size or self.thousands is not None:
            return False
        sizes = pc.min_max(pc.utf8_length(self.occurring)).as_py()
        same_length = sizes["min"] == sizes["max"] <= 20
        if self.is_number:
            leading = pc.any(pc.match_substring_regex(self.occurring, "^0[0-9]")).as_py()
            return bool(leading or (same_length and (sizes["min"] >= 8 or (sizes["min"] >= 5 and self.size >= 20))))
        digits = pc.all(pc.match_substring_regex(self.occurring, r"^\S*[0-9]\S*$")).as_py()
        return bool(digits and same_length)

    @cached_property
    def is_date(self) -> bool:
        """Whether the values are dates."""
        if pa.types.is_temporal(self.kind):
            return True
        return self._share(pc.match_substring_regex(self.texts, _DATE).to_numpy(zero_copy_only=False)) > 0.5

    @cached_property
    def is_year(self) -> bool:
        """Whether all values are years of the last centuries, and most of them occur again and again."""
        years = self.numbers[self.present]
        if not self.is_number or self.missing or not self.size or self.size > max(1, len(self.of_row) / 2):
            return False
        return bool(((years >= 1850) & (years <= 2100) & (years == np.floor(years))).all())

    @cached_property
    def is_free_text(self) -> bool:
        """Whether the values are sentences rather than labels or names."""
        return not self.is_number and bool((pc.mean(pc.utf8_length(self.occurring)).as_py() or 0) > 40)

    @cached_property
    def is_unique(self) -> bool:
        """Whether nearly every row has its own value."""
        return self.size >= 0.98 * len(self.of_row)

    @cached_property
    def numbers_rows(self) -> bool:
        """Whether the values number the rows, by their order and by the column's name or lack of it."""
        nameless = re.fullmatch(r"column \d+|unnamed: \d+|#|n[ro°]?\.?|s/?n\.?|sno", self.name.strip().lower())
        return nameless is not None and len(self.of_row) > 2 and self._is_in_steps_of_one

    @cached_property
    def is_serial(self) -> bool:
        """Whether the values are 1, 2, 3 and so on in the order of many rows, whatever the column is called."""
        return self.numbers_rows or (len(self.of_row) >= _MANY_ROWS and not self.is_code and self._is_in_steps_of_one)

    @cached_property
    def _is_in_steps_of_one(self) -> bool:
        numbers = self.numbers[self.of_row]
        return numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())

    @cached_property
    def has_outer_spaces(self) -> bool:
        """Whether values that occur differ only in the spaces around them."""
        return len(pc.unique(self.occurring)) < self.size

    def _share(self, mask: Bools) -> float:
        """The share of rows whose value is marked."""
        return float(self.rows_of[mask].sum() / max(1, len(self.of_row)))

    def filled_down(self) -> Column:
        """The column with the value above in empty cells."""
        given = ~self.empty[self.of_row]
        last = np.maximum.accumulate(np.where(given, np.arange(len(given)), 0))
        return Column(name=self.name, values=self.values, of_row=self.of_row[last], kind=self.kind)

    def taken(self, rows: Bools) -> Column:
        """The column with some of its rows."""
        return Column(name=self.name, values=self.values, of_row=self.of_row[rows], kind=self.kind)


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A table: its name for messages, its columns, and whether all of its rows were looked at."""

    name: str
    columns: Mapping[str, Column]
    rows: int
    complete: bool = True

    def where(self, column: str, value: str) -> View:
        """The rows in which a column has this value."""
        values = self.columns[column]
        kept = pc.equal(values.texts, value).to_numpy(zero_copy_only=False)[values.of_row]
        taken = {name: other.taken(kept) for name, other in self.columns.items()}
        return View(name=self.name, columns=taken, rows=int(kept.sum()), complete=self.complete)

    def position(self, name: str) -> int:
        """The place of a column in the table."""
        return list(self.columns).index(name)


def view_table(source: Source, form: FileForm = PLAIN, *, sheet: str | None = None) -> View:
    """Look at all rows of a table, as far as memory allows."""
    parts: dict[str, list[pa.Array]] = {}
    kinds: dict[str, pa.DataType] = {}
    rows, complete, table = 0, True, "the table"
    for batch in batches(source, form, sheet=sheet):
        table = batch.name
        for name in batch.table.column_names:
            column = batch.table.column(name)
            kinds.setdefault(name, column.type)
            parts.setdefault(name, []).append(_encoded(column))
        rows += batch.table.num_rows
        if rows * len(kinds) > _MOST_VALUES:
            complete = False
            break
    if rows == 0:
        raise DataError(f"{table}: the table has no rows. Give a table with rows.")
    columns = {name: _column(name, parts.pop(name), kinds[name]) for name in kinds}
    return View(name=table, columns=columns, rows=rows, complete=complete)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers in texts by their size.

    >>> sorted(["10-14", "5-9", "0-4"], key=natural)
    ['0-4', '5-9', '10-14']
    """
    parts = re.split(r"([0-9]+)", text)
    return tuple((0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts)


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A column as positions among its distinct texts."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # older versions of pyarrow
        array = pa.concat_arrays(array.chunks)
    try:
        coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        words = coded.dictionary.cast(pa.string())
    except pa.ArrowException:  # lists and other things that are neither codes nor counts
        return pa.DictionaryArray.from_arrays(pa.array([0] * len(array), pa.int32()), [f"({column.type})"])
    words = pa.concat_arrays([words, pa.array([""])])
    places = pc.fill_null(coded.indices.cast(pa.int32()), len(words) - 1)
    return pa.DictionaryArray.from_arrays(places, pc.fill_null(words, ""))


def _column(name: str, parts: Sequence[pa.Array], kind: pa.DataType) -> Column:
    whole = pa.chunked_array(parts).unify_dictionaries()
    places = np.concatenate([part.indices.to_numpy(zero_copy_only=False) for part in whole.chunks])
    values = whole.chunk(0).dictionary
    return Column(name=name, values=values, of_row=places, kind=kind)
