"""From columns of codes and names to paths on a spine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import DataError, InputError
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.columns import Batch
from tallyveil.files.tables.form import PLAIN, FileForm
from tallyveil.files.tables.sources import Source, batches, column_names, is_utf8
from tallyveil.nouns.spine import Spine, UnitNames

PIECE = 1 << 18  # rows of which a large tree is built at a time
CUTS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}  # digits of a GEOID


def read_units(units: Source | Spine, codebook: Codebook) -> Spine:
    """The spine of a public list of units: a table with the codebook's geographic columns, one row per leaf."""
    if isinstance(units, Spine):
        return units
    paths = pa.concat_tables([named_paths(batch, codebook) for batch in batches(units, list_form(units, codebook))])
    try:
        return with_names(spine_from_paths(paths, codebook), paths, codebook)
    except InputError as problem:
        raise problem.located(units if isinstance(units, str | PathLike) else "the units") from None


def read_spine(table: Source, codebook: Codebook) -> Spine:
    """The spine of the units in any table with the codebook's geographic columns; nothing else in it is read.

    Rows that the codebook leaves out (``where``) do not count, if the table has the columns that say so. The table can
    be the one that the codebook describes, or a list of units.
    """
    codebook.refuse_unfilled()
    parts = []
    for batch in _described(table, codebook):
        for column, value in codebook.where.items():
            if column in batch.table.column_names:
                batch = batch.where(column, str(value))
        parts.append(distinct(paths_of(batch, codebook), codebook.levels)[1])
    try:
        return spine_from_paths(distinct(pa.concat_tables(parts), codebook.levels)[1], codebook)
    except InputError as problem:
        raise problem.located(table if isinstance(table, str | PathLike) else "the table") from None


def _described(table: Source, book: Codebook) -> Iterator[Batch]:
    """The table that a codebook describes, or a list of units, which has a form of its own."""
    try:
        names = column_names(table, book.form, sheet=book.sheet)
    except DataError:
        names = []
    if set(book.geography) <= set(names):
        return batches(table, book.form, sheet=book.sheet)
    return batches(table, list_form(table, book))


def list_form(units: Source, book: Codebook) -> FileForm:
    """The form of a list of units: plain, and in the encoding that the codebook names unless it is UTF-8."""
    named = book.form.encoding is not None and isinstance(units, str | PathLike)
    return FileForm(encoding=book.form.encoding) if named and not is_utf8(Path(units)) else PLAIN


def paths_of(batch: Batch, book: Codebook) -> pa.Table:
    """The codes of every level, row by row."""
    for column in book.geography:
        if column not in batch.table.column_names:
            raise DataError(
                f"{batch.name}: no column {column!r}. The columns are {', '.join(batch.table.column_names)}."
            )

    def codes(column: str) -> pa.Array:
        if column in book.pad:
            return batch.padded(column, book.pad[column])
        values = batch.text(column)
        if not book.relative and lost_zeros(values, column):
            raise DataError(
                f"{batch.name}: column {column!r} has codes of {CUTS[column] - 1} digits, one short of a {column}'s: "
                f"leading zeros are lost. Save it as text, or restore them in the codebook: "
                f"[geography] pad = {{{column} = {CUTS[column]}}}."
            )
        return values

    if book.code is not None:
        return _cut(batch, book, codes(book.code).cast(pa.string()))
    return pa.table({column: codes(column) for column in book.levels})


def named_paths(batch: Batch, book: Codebook) -> pa.Table:
    """The codes of every level and the names of the units, row by row."""
    paths = paths_of(batch, book)
    for level, column in book.names.items():
        if column not in batch.table.column_names:
            raise DataError(
                f"{batch.name}: no column {column!r}, which the codebook names as the names of level {level!r}. Add it "
                f"(to the list of units, if there is one), or correct [geography] names."
            )
        paths = paths.append_column(column, batch.text(column))
    return paths


def with_names(spine: Spine, paths: pa.Table, book: Codebook) -> Spine:
    """The spine with the names that stand beside the codes of its units: one for each unit."""
    if not book.names:
        return spine
    codes = {level: codes_of(paths.column(level)) for level in book.levels}
    leaf, names = spine.locate(spine.leaf, spine.leaf_codes(codes)), {}
    for level, column in book.names.items():
        unit = np.searchsorted(spine.leaves_under(level), leaf, side="right") - 1
        texts = _one_array(paths.column(column)).cast(pa.string()).dictionary_encode()
        text = texts.indices.to_numpy().astype(np.int64)
        of_unit = np.zeros(spine.size(level), dtype=np.int64)
        of_unit[unit[::-1]] = text[::-1]  # the first name of each unit
        if (other := of_unit[unit] != text).any():
            row = int(np.argmax(other))
            first, second = (texts.dictionary[int(i)].as_py() for i in (of_unit[unit[row]], text[row]))
            raise DataError(
                f"{level} {unit_code(spine, level, int(unit[row]))!r} has two names in column {column!r}: {first!r} "
                f"and {second!r}. Give each unit one name, or remove the level from [geography] names."
            )
        known = texts.dictionary.to_pylist()
        names[level] = UnitNames(column=column, of_unit=tuple(known[i] for i in of_unit))
    return replace(spine, names=names)


def lost_zeros(codes: pa.Array | pa.ChunkedArray, level: str) -> bool:
    """Whether census codes look like numbers that lost a leading zero: only digits, some one short, none longer."""
    if level not in CUTS or len(codes) == 0:
        return False
    known = codes.dictionary if isinstance(codes, pa.DictionaryArray) else codes
    if pa.types.is_string(known.type) and not pc.any(pc.equal(pc.utf8_length(known), CUTS[level] - 1)).as_py():
        return False  # no code is short, used or not
    distinct_codes = pc.unique(codes).cast(pa.string())
    if not pc.all(pc.match_substring_regex(distinct_codes, "^[0-9]+$")).as_py():
        return False
    sizes = pc.min_max(pc.utf8_length(distinct_codes)).as_py()
    return bool(sizes["min"] == CUTS[level] - 1 and sizes["max"] <= CUTS[level])


def _cut(batch: Batch, book: Codebook, whole: pa.Array) -> pa.Table:
    leaf = book.levels[-1]
    size = book.lengths[leaf]
    wrong = pc.not_equal(pc.utf8_length(whole), size)
    if pc.any(wrong).as_py():
        row = int(pc.index(wrong, True).as_py())
        code = whole[row].as_py()
        lost = f" Leading zeros may be lost: [geography] pad = {{{book.code} = {size}}} restores them."
        raise DataError(
            f"{batch.place(row, book.code)}: code {code!r} has {len(code)} characters, not the {size} of a {leaf}. "
            f"Correct the code or the lengths.{lost if len(code) < size else ''}"
        )
    return pa.table({name: pc.utf8_slice_codeunits(whole, 0, length) for name, length in book.lengths.items()})


def spine_from_paths(paths: pa.Table, book: Codebook) -> Spine:
    """The spine whose leaves have these paths."""
    if not book.relative and paths.num_rows > PIECE:  # most large lists are in order, and need no copy
        pieces = (paths.slice(first, PIECE) for first in range(0, paths.num_rows, PIECE))
        codes = ([codes_of(piece.column(name)) for name in book.levels] for piece in pieces)
        if (spine := Spine.from_sorted(book.levels, codes, root=book.root)) is not None:
            return spine
    columns = {name: codes_of(paths.column(name)) for name in book.levels}
    return Spine.from_columns(columns, root=book.root, relative=book.relative)


def distinct(paths: pa.Table, levels: tuple[str, ...]) -> tuple[Integers, pa.Table]:
    """For each row the index of its path, and the distinct paths with the first row of each."""
    coded = [_one_array(paths.column(level)).dictionary_encode().indices.to_numpy() for level in levels]
    begins = np.ones(paths.num_rows, dtype=np.bool_)  # in most tables the rows of a path are together: one for each run
    if paths.num_rows:
        begins[1:] = np.logical_or.reduce([code[1:] != code[:-1] for code in coded])
    run = np.flatnonzero(begins)
    number = np.zeros(len(run), dtype=np.int64)
    for code in coded:  # one number for the whole path, level by level
        key = number * (int(code.max(initial=0)) + 1) + code[run]
        if (np.diff(key) > 0).all():
            number = np.arange(len(run))
        else:
            _, number = np.unique(key, return_inverse=True)
    first = np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64)
    first[number[::-1]] = run[::-1]
    return np.repeat(number, np.diff(run, append=paths.num_rows)), paths.take(pa.array(first))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.unify_dictionaries().combine_chunks()


def codes_of(column: pa.ChunkedArray) -> NDArray[np.bytes_]:
    """A column of text as an array of fixed-width bytes."""
    values = _one_array(column).cast(pa.string()).cast(pa.large_binary())
    size = pc.max(pc.binary_length(values)).as_py() or 1
    if len(values) and pc.min(pc.binary_length(values)).as_py() == size:  # equal lengths: no copy
        start = np.frombuffer(values.buffers()[1], dtype=np.int64)[values.offset]
        return np.frombuffer(values.buffers()[2], dtype=f"S{size}", count=len(values), offset=start)
    return np.array(values.to_pylist(), dtype=f"S{size}")


def unit_code(spine: Spine, level: str, unit: int) -> str:
    """The code of one unit of a level (its path where codes repeat), for a message."""
    return bytes(spine.codes[spine.depth(level)][unit]).decode()
