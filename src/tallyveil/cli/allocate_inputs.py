"""The public inputs of ``tallyveil allocate``: units and names, and counts only if they are declared public."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.errors import DataError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallyveil.files.tables.codebook import Codebook
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.schema import Schema
    from tallyveil.nouns.spine import Spine
    from tallyveil.privacy import Strategy


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicInputs:
    """The units, the attributes, and counts that were declared public or synthetic."""

    spine: Spine
    schema: Schema
    counts: Histogram | None


def read_public_inputs(
    units: Path | None, codebook: Path | None, public_counts: Path | None, strategy: Strategy
) -> PublicInputs:
    """Read the list of units (or a release folder) and the public counts; without a codebook, names are the strategy's.

    A table with columns of counts or attributes is refused as a list of units.
    """
    from tallyveil.files.tables.codebook_toml import read_codebook
    from tallyveil.files.tables.geography import read_units
    from tallyveil.files.tables.read import read_counts

    book = None if codebook is None else read_codebook(codebook)
    counts = None
    if public_counts is not None:
        if book is None:
            raise InputError(f"{public_counts}: what its columns mean is unknown. Give --codebook FILE.")
        counts = read_counts(public_counts, book)
    if units is None:
        if counts is None:
            raise InputError("allocate needs the units: --units FILE, a public list with one row for each leaf.")
        return PublicInputs(spine=counts.spine, schema=counts.schema, counts=counts)
    if not units.exists():
        raise InputError(f"{units}: no such file or folder. Give a list of units, or a release folder.")
    if units.is_dir():
        return _of_folder(units, book, counts)
    found = book or _book_of(units, strategy)
    _refuse_counts(units, found)
    spine = read_units(units, found)
    return PublicInputs(spine=spine, schema=found.schema if counts is None else counts.schema, counts=counts)


def _of_folder(folder: Path, book: Codebook | None, counts: Histogram | None) -> PublicInputs:
    """The spine and the schema of a release folder; both are public."""
    from tallyveil.files.release_folder.read_folder import read_spine
    from tallyveil.files.tables.codebook_toml import read_codebook

    if not (folder / "spine.parquet").exists():
        raise InputError(
            f"{folder}: not a release folder (no spine.parquet). Give a list of units, or a release folder."
        )
    named = book or read_codebook(folder / "codebook.toml")
    return PublicInputs(spine=read_spine(folder), schema=named.schema, counts=counts)


def _book_of(units: Path, strategy: Strategy) -> Codebook:
    """A codebook from the names of the strategy, for a list of units whose columns have the names of its levels."""
    from tallyveil.files.tables.codebook import Codebook
    from tallyveil.files.tables.sources import column_names

    schema = _known_schema(strategy)
    levels, columns = list(strategy.levels), column_names(units)
    inside = [level for level in levels if level in columns]
    if inside not in (levels, levels[1:]):
        raise InputError(
            f"{units}: the levels {', '.join(level for level in levels[1:] if level not in columns)} of the strategy "
            f"are not among its columns ({', '.join(columns)}). Name the columns like the levels, or give --codebook."
        )
    root = None if inside == levels else levels[0]
    return Codebook(
        levels=tuple(inside),
        root=root,
        attributes={name: tuple(labels) for name, labels in schema.attributes.items()},
        groupings=schema.groupings,
        zeros=tuple({name: tuple(some) for name, some in zero.items()} for zero in schema.zeros),
        layout="long",
        count="count",
    )


def _known_schema(strategy: Strategy) -> Schema:
    """The schema of a census whose attributes the strategy has, or one without attributes for totals alone."""
    from tallyveil.nouns import census_schemas
    from tallyveil.nouns.schema import Schema

    wanted = set(strategy.known_attributes)
    if not wanted:
        return Schema(attributes={})
    for name in ("PERSONS_2020", "PERSONS_1940", "UNITS_2020"):
        schema: Schema = getattr(census_schemas, name)
        if set(schema.attributes) == wanted and set(strategy.groupings) <= set(schema.groupings):
            return schema
    raise InputError(
        f"the labels of {', '.join(strategy.known_attributes)} are unknown: a strategy has only their names. Give "
        f"--codebook FILE, or the folder of a release as --units."
    )


def is_list_of_units(table: Path, book: Codebook) -> bool:
    """Whether a table has the codebook's geographic columns, and none of counts or attributes."""
    from tallyveil.files.tables.geography import list_form
    from tallyveil.files.tables.sources import column_names

    try:
        names = column_names(table, list_form(table, book))
    except DataError:  # titles above a table, for example: it is the one that the codebook describes
        return False
    return {*book.geography} <= {*names} and not _of_people(names, book)


def _refuse_counts(units: Path, book: Codebook) -> None:
    """Refuse a table of people or counts as a list of units: nobody said that it is public."""
    from tallyveil.files.tables.geography import list_form
    from tallyveil.files.tables.sources import column_names

    found = _of_people(column_names(units, list_form(units, book)), book)
    if found:
        raise InputError(
            f"{units} holds counts or attributes of people (column {found[0]!r}), and shares are chosen from public "
            f"inputs. Keep only the columns {', '.join(book.geography)}, or declare the counts public: "
            f"--public-counts {units.name}."
        )


def _of_people(names: Sequence[str], book: Codebook) -> list[str]:
    """Those columns that hold counts or attributes of people."""
    from tallyveil.files.tables.codebook import COUNTS, TOTALS
    from tallyveil.files.tables.entries import wide_columns

    geography = {*book.geography, *book.levels, *book.names.values(), *book.where}
    cells: set[str] = {*book.in_rows, *COUNTS, *TOTALS, *filter(None, (book.count, book.total))}
    if book.layout == "wide" and book.column is not None:
        cells |= {*wide_columns(book)}
    return [name for name in names if name in cells - geography]
