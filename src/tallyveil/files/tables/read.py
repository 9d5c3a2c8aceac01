"""Read counts from tables with one row per person, per unit and cell, or per unit, as a codebook describes them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from os import PathLike

import pyarrow as pa
import pyarrow.compute as pc

from tallyveil.errors import DataError, InputError
from tallyveil.files.tables.codebook import COUNTS, TOTALS, Codebook
from tallyveil.files.tables.codebook_toml import read_codebook
from tallyveil.files.tables.entries import Entries, kept_rows, labels_in, wide_columns
from tallyveil.files.tables.geography import read_units
from tallyveil.files.tables.paged import read_pages, reads_in_pages
from tallyveil.files.tables.sources import Source, batches, column_names
from tallyveil.files.tables.spellings import units_spelled_twice
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.sentences import LABELS_FROM_DATA, UNITS_FROM_DATA

_EXAMPLES = 3  # values of a column that a message shows


def read_counts(
    source: Source, codebook: Codebook | str | PathLike[str], *, units: Source | Spine | None = None
) -> Histogram:
    """Read a table of people.

    Parameters
    ----------
    source
        A CSV, Parquet or Excel file, or a pandas, polars or Arrow table.
    codebook
        What the columns of the table mean.
    units
        The public list of units: a spine, or a table with the geographic columns. Without it the units are taken from
        the data, and a release is stamped accordingly.

    Within ``tallyveil.scale.memory_limit``, the rows of a large Parquet file are read in parts whenever they are
    needed, if ``units`` are given and the rows are in their order.

    The histogram has the codebook's stamps, a stamp if labels or units come from the data (or the codebook is marked
    as drafted from it), and the filter that selected the rows.
    """
    book = codebook if isinstance(codebook, Codebook) else read_codebook(codebook)
    book.refuse_unfilled()
    _check_columns(source, book, listed=units is not None)
    stamps, kept_by = codebook_stamps(book, listed=units is not None), book.filter
    if book.person is not None:
        _refuse_repeated_persons(source, book, book.person)
    if not all(book.attributes.values()):
        book = _with_labels_from(source, book)
    if units is None:
        entries = Entries(book)
        entries.read(batches(source, book.form, sheet=book.sheet))
        spine = entries.spine()
        if twice := units_spelled_twice(spine):
            warnings.warn(f"{entries.name}: {twice}.", stacklevel=2)
    elif reads_in_pages(source, book):
        spine = read_units(units, book)
        pa.default_memory_pool().release_unused()  # what reading the units took
        pages = read_pages(source, replace(book, names={}), spine)
        if len(spine.levels) > 1:
            pages.summed(spine.first_child[-1])  # kept for all questions about coarser levels
        people = Histogram(spine=spine, schema=book.schema, leaves=pages)
        if not pages.start[-1]:
            _refuse_unmet(source, book)
        return replace(people, stamps=stamps, filter=kept_by, rows_per_person=book.rows_of_person)
    else:  # names come from the list of units
        spine = read_units(units, book)
        entries = Entries(replace(book, names={}), spine)
        entries.read(batches(source, book.form, sheet=book.sheet))
    name, (unit, cell, count) = entries.name, entries.on(spine)
    if not len(count):
        _refuse_unmet(source, book)
    pa.default_memory_pool().release_unused()
    del entries  # it holds the same numbers
    try:
        people = Histogram.from_entries(spine, book.schema, unit=unit, cell=cell, count=count)
    except InputError as problem:
        raise problem.located(name) from None
    return replace(people, stamps=stamps, filter=kept_by, rows_per_person=book.rows_of_person)


def codebook_stamps(book: Codebook, *, listed: bool) -> tuple[str, ...]:
    """The stamps of counts read with a codebook; ``listed`` says whether a public list of units was given."""
    labels = book.labels_from is not None or not all(book.attributes.values())
    units = book.units_from is not None or not listed
    stamps = (*book.stamps, *([LABELS_FROM_DATA] if labels else []), *([UNITS_FROM_DATA] if units else []))
    return tuple(dict.fromkeys(stamps))


def _check_columns(source: Source, book: Codebook, *, listed: bool) -> None:
    names = column_names(source, book.form, sheet=book.sheet)
    name = str(source) if isinstance(source, str | PathLike) else "the table"
    cells = wide_columns(book) if book.layout == "wide" else [book.count] if book.count else []
    wanted = [*book.geography, *book.in_rows, *cells, *book.where, *([book.total] if book.total else [])]
    wanted += [] if book.person is None else [book.person]
    wanted += [] if listed else book.names.values()
    missing = [column for column in wanted if column not in names]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f"{name}: no column {missing[0]!r}{more}, which the codebook names. The columns are {', '.join(names)}. "
            f"Correct the codebook, or draft one with: tallyveil codebook {name}"
        )
    extra = [column for column in names if column not in {*wanted, *book.names.values(), *book.ignore}]
    if book.layout == "persons":
        _refuse_counts(name, [*extra, *([book.total] if book.total else [])])
    if extra:
        warnings.warn(
            f"{name}: columns not in the codebook are ignored: {', '.join(extra)}. List them under [table] ignore."
            f"{_lost_people(extra, book)}",
            stacklevel=3,
        )


def _lost_people(unused: list[str], book: Codebook) -> str:
    """What to say of a column whose name fits the pattern but for one label: the people in it are not counted."""
    for column in unused if book.layout == "wide" else ():
        labels = labels_in(column, book)
        unknown = [of for of, label in labels.items() if label not in book.attributes[of]]
        if len(labels) > 1 and 0 < len(unknown) < len(labels):
            return (
                f" But {column!r} has the form of a count, and the people in it are not counted: if they should be, "
                f"add {labels[unknown[0]]!r} to the labels of {unknown[0]!r} in [attributes]."
            )
    return ""


def _refuse_counts(name: str, unused: list[str]) -> None:
    """Refuse a column of counts in a table with one row per person."""
    counts = [column for column in unused if column.strip().lower() in {*COUNTS, *TOTALS}]
    if counts:
        raise DataError(
            f'{name}: layout = "persons" counts each row as one person, but column {counts[0]!r} looks like a count. '
            f'Use layout = "long" with count = {counts[0]!r}, or list it under [table] ignore.'
        )


def _refuse_repeated_persons(source: Source, book: Codebook, column: str) -> None:
    """Refuse a table in which persons have more rows than the codebook allows. No identifier is shown."""
    parts, name = [], ""
    for batch in batches(source, book.form, sheet=book.sheet):
        batch, name = kept_rows(batch, book), batch.name
        parts.append(pc.utf8_trim_whitespace(batch.written(column)))
        if missing := pc.index(pc.fill_null(pc.equal(parts[-1], ""), True), True).as_py() + 1:
            raise DataError(
                f"{batch.place(missing - 1, column)}: the value is missing. Fill it in, or leave the row out."
            )
    rows = pc.value_counts(pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string()))
    counts, allowed = rows.field("counts"), book.at_most or 1
    if several := pc.sum(pc.greater(counts, allowed)).as_py():
        most = pc.max(counts).as_py()
        raise DataError(
            f"{name}: {several:,} persons have more than {allowed} {'row' if allowed == 1 else 'rows'} by column "
            f"{column!r} (at most {most:,}). Keep {allowed} of each, or write [table] at_most = {most}: the guarantee "
            f"then counts that many rows a person, and its loss grows with them."
        )


def _refuse_unmet(source: Source, book: Codebook) -> None:
    """Refuse a filter with a value that no row has, because the table may write it in another way."""
    some: dict[str, list[str | None]] = {column: [] for column in book.where}
    unmet = {column: str(value) for column, value in book.where.items()}
    for batch in batches(source, book.form, sheet=book.sheet) if unmet else ():
        for column in list(unmet):
            values = pc.unique(batch.written(column)).to_pylist()
            some[column] = list(dict.fromkeys([*some[column], *values]))[: _EXAMPLES + 1]
            if unmet[column] in values:
                del unmet[column]
    for column, value in unmet.items():
        if shown := ["an empty cell" if one is None else repr(one) for one in some[column]]:
            name = str(source) if isinstance(source, str | PathLike) else "the table"
            more = ", ..." if len(shown) > _EXAMPLES else ""
            raise DataError(
                f"{name}: no row has {value!r} in column {column!r}, so [table] where keeps nobody. The column has "
                f"{', '.join(shown[:_EXAMPLES])}{more}. Write the value in the codebook as the table has it."
            )


def _with_labels_from(source: Source, book: Codebook) -> Codebook:
    labels_met: dict[str, set[str]] = {name: set() for name, labels in book.attributes.items() if not labels}
    for batch in batches(source, book.form, sheet=book.sheet):
        for name in labels_met:
            values = pc.unique(kept_rows(batch, book).written(name)).to_pylist()
            labels_met[name].update(value for value in values if value is not None)
    attributes = {name: labels or tuple(sorted(labels_met[name])) for name, labels in book.attributes.items()}
    return replace(book, attributes=attributes)
