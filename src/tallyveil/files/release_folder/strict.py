"""Read a release's folder strictly: each file must be exactly what tallyveil would write for what was read from it.

So nothing can hide in a comment, a column, the order of rows or a spelling. ``protection.verify`` calls these in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyveil.files.release_folder.certificate_file import shaped_by_of
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import (
    ALWAYS,
    CODEBOOK,
    FACILITIES,
    MEASURED_SPINE,
    RELEASE,
    SOURCE,
    SPINE,
    STRATEGY,
    allowed_files,
    facility_columns,
    release_columns,
    required_files,
    spine_columns,
)
from tallyveil.files.release_folder.manifest import Sealed, abbreviated
from tallyveil.files.release_folder.read_folder import facility_attribute, read_measured_spine
from tallyveil.files.release_folder.strict_tables import checked_table
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.codebook_toml import codebook_from_toml, codebook_to_toml
from tallyveil.files.tables.geography import read_units
from tallyveil.files.tables.read import read_counts
from tallyveil.files.tables.side import facilities_table, read_facilities
from tallyveil.files.tables.write import codebook_for, units_table
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import counts_table, path_levels
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import strategy_from_toml, strategy_to_toml
from tallyveil.release.declare import versions


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadRelease:
    """What was read from a folder."""

    folder: Sealed
    certificate: Mapping[str, Any]
    strategy: Strategy
    people: Histogram
    facilities: Facilities | None
    optimised: OptimisedSpine | None

    @property
    def place(self) -> Path:
        """Where the folder is."""
        return self.folder.place

    @property
    def spine(self) -> Spine:
        """The public tree of units."""
        return self.people.spine

    @property
    def schema(self) -> Schema:
        """The attributes and their labels."""
        return self.people.schema

    @property
    def declared(self) -> Mapping[str, Any]:
        """What the certificate declares."""
        declared: Mapping[str, Any] = self.certificate["declared"]
        return declared


def other_versions(certificate: Mapping[str, Any]) -> str | None:
    """How the versions and the platform that made a release differ from the current ones; None if they do not.

    Only what the release states is compared.
    """
    stated, here = certificate["declared"].get("versions"), versions()
    if not isinstance(stated, Mapping) or "tallyveil" not in stated:
        return "the certificate does not state which versions made it"
    differing = [f"{name} {value} (here {here.get(name)})" for name, value in stated.items() if here.get(name) != value]
    return f"made with {abbreviated(differing)}" if differing else None


def check_listing(folder: Sealed) -> str:
    """The folder holds only regular files, including those that every release has."""
    if folder.odd:
        raise BrokenError("; ".join(f"{name}: {what}" for name, what in list(folder.odd.items())[:5]))
    missing = [name for name in ALWAYS if name not in folder.files]
    if missing:
        raise BrokenError(f"missing: {', '.join(missing)}")
    return "nothing but files"


def check_names(folder: Sealed, strategy: Strategy | None, book: Codebook | None) -> tuple[str, bool]:
    """The folder has the files of its release and no others."""
    check_listing(folder)
    if strategy is None or book is None:
        raise UncheckedError("the strategy or the codebook cannot be read, so the files that belong here are unknown")
    missing = sorted(required_files(strategy, book.schema, book.spine_levels, folder.files) - folder.files)
    others = sorted(folder.files - allowed_files(strategy, book.schema, book.spine_levels, folder.files))
    if missing or others:
        raise BrokenError(
            "; ".join(
                [
                    *([f"missing: {abbreviated(missing)}"] if missing else []),
                    *([f"not of this release: {abbreviated(others)}"] if others else []),
                ]
            )
        )
    return f"{len(folder.files)}, all of them part of the release", True


def read_strategy_strictly(folder: Sealed) -> tuple[str, Strategy]:
    """Read the strategy; shares that do not sum to one are refused."""
    strategy = strategy_from_toml(folder.text(STRATEGY))
    return f"of {len(strategy.levels)} levels and of their queries sum to 1", strategy


def read_codebook_strictly(folder: Sealed) -> tuple[str, Codebook]:
    """Read the codebook."""
    book = codebook_from_toml(folder.text(CODEBOOK))
    return f"{len(book.levels)} levels and {len(book.attributes)} attributes", book


def read_spine_strictly(folder: Sealed, book: Codebook | None) -> tuple[str, Spine]:
    """Read the spine; its table has one row per leaf, in order."""
    if book is None:
        raise UncheckedError("the codebook cannot be read")
    table = checked_table(folder, SPINE, spine_columns(book.levels, book.names))
    spine = read_units(table.opened(), book)
    units = units_table(spine)
    table.same_as(lambda first, last: units.slice(first, last - first), units.num_rows)
    return ", ".join(f"{level} {spine.size(level):,}" for level in spine.levels), spine


def read_people_strictly(folder: Sealed, book: Codebook | None, spine: Spine | None) -> tuple[str, Histogram]:
    """Read the counts: positive integers for known units and labels, each once and in order."""
    if book is None or spine is None:
        raise UncheckedError("the spine cannot be read")
    table = checked_table(folder, RELEASE, release_columns(spine, book.schema))
    people = read_counts(table.opened(), book, units=spine)
    table.same_as(lambda first, last: counts_table(people, first, last), people.leaves.entries)
    return f"{people.leaves.entries:,} counts, whole and above 0, {people.total():,} persons", people


def check_strategy(folder: Sealed, strategy: Strategy, people: Histogram, *, strictly: bool) -> tuple[str, bool]:
    """The strategy fits the release; ``strictly``, the file is written as this version writes it."""
    strategy.check(people.spine, people.schema)
    if strictly:
        _same_text(STRATEGY, folder.text(STRATEGY), strategy_to_toml(strategy))
    return "fits the levels and attributes of the release", True


def check_codebook(folder: Sealed, book: Codebook, people: Histogram, *, strictly: bool) -> str:
    """The codebook is that of the release's counts."""
    right = codebook_to_toml(codebook_for(people, "long"))
    if codebook_to_toml(book) != right:
        raise BrokenError(f"{CODEBOOK} is not the codebook of {RELEASE}")
    if strictly:
        _same_text(CODEBOOK, folder.text(CODEBOOK), right)
    return "that of the counts"


def read_source_strictly(folder: Sealed, people: Histogram, *, strictly: bool) -> tuple[str, Codebook | None]:
    """Read the codebook of the input, if the folder has it."""
    if SOURCE not in folder.files:
        return "not in the folder", None
    source = codebook_from_toml(folder.text(SOURCE))
    if strictly:
        _same_text(SOURCE, folder.text(SOURCE), codebook_to_toml(source))
    labels = {name: tuple(known) for name, known in people.schema.attributes.items()}
    if source.spine_levels != people.spine.levels:
        raise BrokenError(f"{SOURCE} has other levels than {CODEBOOK}")
    if {name: tuple(known) or labels.get(name) for name, known in source.words.items()} != labels:
        raise BrokenError(f"{SOURCE} has other attributes or labels than {CODEBOOK}")
    return "a codebook with the levels and attributes of the release", source


def read_facilities_strictly(folder: Sealed, strategy: Strategy, people: Histogram) -> tuple[str, Facilities | None]:
    """Read the facilities, if the strategy has bounds from them."""
    attribute = facility_attribute(strategy)
    if attribute is None:
        return "none needed", None
    if FACILITIES not in folder.files:
        raise BrokenError(f"{FACILITIES} is missing, though the strategy has bounds from facilities")
    table = checked_table(folder, FACILITIES, facility_columns(people.spine))
    types = people.schema.attributes[attribute]
    facilities = read_facilities(table.opened(), people.spine, attribute=attribute, types=types)
    right = facilities_table(facilities)
    table.same_as(lambda first, last: right.slice(first, last - first), right.num_rows)
    return f"{facilities.leaves.total():,} facilities", facilities


def read_measured_spine_strictly(
    folder: Sealed, certificate: Mapping[str, Any], spine: Spine
) -> tuple[str, OptimisedSpine | None]:
    """Read the spine that was measured, if it is not the published one."""
    elsewhere = "measured_on" in certificate["declared"]
    if MEASURED_SPINE not in folder.files:
        if elsewhere:
            raise BrokenError(f"{MEASURED_SPINE} is missing, though the certificate declares an optimised spine")
        return "the published one", None
    if not elsewhere:
        raise BrokenError(f"{MEASURED_SPINE} exists, though the certificate declares no optimised spine")
    table = checked_table(folder, MEASURED_SPINE, spine_columns(path_levels(spine, spine.leaf)))
    optimised = read_measured_spine(table.opened(), spine, shaped_by=shaped_by_of(certificate))
    units = units_table(optimised.spine)
    table.same_as(lambda first, last: units.slice(first, last - first), units.num_rows)
    sizes = ", ".join(f"{level} {optimised.spine.size(level):,}" for level in spine.levels)
    return f"optimised: {sizes}", optimised


def leave_spelling_unchecked(folder: Sealed, other: str) -> tuple[str, None]:
    """Say that comments and spelling were not compared, because ``other`` versions wrote them."""
    names = [name for name in (CODEBOOK, STRATEGY, SOURCE) if name in folder.files]
    raise UncheckedError(
        f"{other}: comments, order and spelling of {', '.join(names)}, and the sentences of certificate.json, are "
        f"compared on the same only"
    )


def _same_text(name: str, stated: str, right: str) -> None:
    if stated != right:
        lines = zip([*stated.splitlines(), ""], [*right.splitlines(), ""], strict=False)
        number = next((i for i, (line, right_line) in enumerate(lines, 1) if line != right_line), 1)
        raise BrokenError(f"{name}, line {number}: not as tallyveil writes it (a comment, another order or spelling)")
