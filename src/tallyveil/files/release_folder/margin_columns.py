"""Margins of error beside the counts: a column ``<column>_moe90`` after each count in a release's tables by level."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import ArrayLike

from tallyveil._arrays import Integers
from tallyveil.errors import FolderError, InputError
from tallyveil.files.atomic import replacing_together
from tallyveil.files.parquet import UNREADABLE
from tallyveil.files.release_folder.certificate_file import certificate_bytes, read_certificate
from tallyveil.files.release_folder.layout import (
    CERTIFICATE,
    CODEBOOK,
    MARGIN,
    SIGNATURE,
    answer_columns,
    level_name,
    query_columns,
)
from tallyveil.files.release_folder.manifest import regular_file, sha256_of
from tallyveil.files.release_folder.signing import SIGNATURE_SIZE, read_signing_key, signature_holds
from tallyveil.files.tables.codebook_toml import read_codebook
from tallyveil.files.tables.columns import first_line
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.release.canonical import MANIFEST

PIECE_ROWS = 1 << 16  # rows held in memory at a time


class MarginsOf(Protocol):
    """The interface of margins of error, which ``tallyveil.evaluate.Margins`` has."""

    @property
    def confidence(self) -> float:
        """The share of errors that they cover."""

    @property
    def classes(self) -> Mapping[tuple[str, str], Any]:
        """The classes of counts that have margins, by (level, query)."""

    def at(self, level: str, query: str, *, row: int, first: int, counts: ArrayLike) -> Integers:
        """The margins of a row of a query: of the released counts of the units from the ``first`` on."""


class MarginsBySize(MarginsOf, Protocol):
    """Margins that depend on the size of a count alone."""

    def of(self, level: str, query: str, counts: ArrayLike) -> Integers:
        """The margins of released counts."""


def write_margins(
    folder: str | PathLike[str], margins: MarginsOf, *, sign_with: str | PathLike[str] | None = None
) -> list[Path]:
    """Add margins to the counts in ``levels/`` of a release's folder, for the levels and queries that have them.

    Earlier margins of the same columns are replaced. The certificate's list of files is updated: the tables and
    ``certificate.json`` are replaced together, or nothing changes. What the certificate declares does not change. A
    table that does not match the list is refused, and so is a signed folder, unless ``sign_with`` is the private key
    that it was signed with: the signature is then replaced with the rest.
    """
    refuse_unless_90(margins)
    place = Path(folder)
    key = refuse_signed(place, sign_with)
    book = read_codebook(place / CODEBOOK)
    asked: dict[str, list[str]] = {}
    for level, query in margins.classes:
        asked.setdefault(level, []).append(query)
    levels = [level for level in book.spine_levels if level in asked]
    names = [level_name(level) for level in levels]  # areas off the spine have no table
    certificate = read_certificate(place) if (place / CERTIFICATE).exists() else {}
    listed = certificate.get(MANIFEST)
    if isinstance(listed, Mapping):
        _refuse_changed(place, names, listed)
    tables = [place / name for name in names]
    missing = next((table for table in tables if not table.exists()), None)
    if missing is not None:
        raise FolderError(f"{missing}: no such table, so margins cannot be added. Write the release as a folder again.")
    listing = [place / CERTIFICATE] if isinstance(listed, Mapping) else []
    targets = [*tables, *listing, *([] if key is None else [place / SIGNATURE])]
    with replacing_together(targets) as waiting:
        for level, table, new in zip(levels, tables, waiting, strict=False):
            _rewrite(table, new, level, _columns(book.schema, asked[level]), margins)
        if isinstance(listed, Mapping):
            digests = {name: sha256_of(new) for name, new in zip(names, waiting, strict=False)}
            parts = {name: part for name, part in certificate.items() if name != MANIFEST}
            data = certificate_bytes(parts, {**listed, **digests})
            waiting[len(tables)].write_bytes(data)
            if key is not None:
                waiting[-1].write_bytes(key.sign(data))
    return tables


def refuse_unless_90(margins: MarginsOf) -> None:
    """Refuse margins of another confidence than the name of their columns says."""
    if round(margins.confidence, 9) != 0.9:
        raise InputError(f"margins of {margins.confidence:.0%} cannot be called {MARGIN}. Make margins of 90%.")


def refuse_signed(
    folder: str | PathLike[str], sign_with: str | PathLike[str] | None = None
) -> Ed25519PrivateKey | None:
    """Refuse to change a signed folder without the key that it was signed with, and return that key."""
    place = Path(folder)
    signature = place / SIGNATURE
    if not os.path.lexists(signature):
        if sign_with is not None:
            raise FolderError(
                f"{place} is not signed. Leave out --sign, and sign it afterwards: tallyveil sign {place}"
            )
        return None
    if sign_with is None:
        raise FolderError(
            f"{signature}: the folder is signed, and margins would change what was signed. Use -o DIR to write them "
            f"elsewhere, or --sign KEY to sign the folder again."
        )
    key = read_signing_key(sign_with)
    with regular_file(signature) as file:
        signed = file.read(SIGNATURE_SIZE + 1)
    if not signature_holds(key.public_key(), signed, (place / CERTIFICATE).read_bytes()):
        raise FolderError(
            f"{signature} is not the signature of this folder by {sign_with}. What somebody else signed, or what was "
            f"changed since, is not signed again. Use -o DIR to write the margins elsewhere."
        )
    return key


def area_table(people: Histogram, areas: Areas, margins: MarginsOf, *, level: str = "area") -> pa.Table:
    """The counts of areas off the spine with their margins, one row per area, with the columns of ``levels/``."""
    columns: dict[str, Any] = {"area": pa.array(areas.names, pa.string())}
    counts = areas.tabulate(people.leaves)
    for query in (query for place, query in margins.classes if place == level):
        for row, (name, numbers) in enumerate(answer_columns(counts, people.schema.query(query)).items()):
            columns[name] = numbers
            columns[f"{name}{MARGIN}"] = pa.array(margins.at(level, query, row=row, first=0, counts=areas.sizes()))
    return pa.table(columns)


def _columns(schema: Schema, queries: Sequence[str]) -> dict[str, tuple[str, int]]:
    """The query of each column, and its row."""
    columns = {name: (query, row) for query in queries for row, name in enumerate(query_columns(schema.query(query)))}
    clash = next((name for name in columns if f"{name}{MARGIN}" in columns), None)
    if clash is not None:
        raise FolderError(
            f"the column {clash}{MARGIN} holds counts, so margins cannot use that name. Rename that label."
        )
    return columns


def _refuse_changed(place: Path, names: Sequence[str], listed: Mapping[str, Any]) -> None:
    """Refuse tables that do not match the certificate: listing them again would vouch for unknown changes."""
    for name in names:
        if (place / name).is_file() and listed.get(name) != sha256_of(place / name):
            raise FolderError(
                f"{place / name}: not the file that {CERTIFICATE} lists, so margins are not added. Copy the folder "
                f"again; see: tallyveil verify {place}"
            )


def _rewrite(path: Path, target: Path, level: str, columns: Mapping[str, tuple[str, int]], margins: MarginsOf) -> None:
    """Copy a table piece by piece, with margins after the columns that have them."""
    try:
        with pyarrow.parquet.ParquetFile(path, read_dictionary=_dictionaries(path)) as file:
            empty = file.schema_arrow.empty_table()
            kinds, first = _with_margins(empty, level, columns, margins, first=0).schema, 0
            with pyarrow.parquet.ParquetWriter(target, kinds, compression="zstd") as writer:
                for batch in file.iter_batches(batch_size=PIECE_ROWS):
                    piece = _with_margins(pa.Table.from_batches([batch]), level, columns, margins, first=first)
                    writer.write_table(piece.cast(kinds))
                    first += batch.num_rows
    except UNREADABLE as problem:
        raise FolderError(
            f"{path}: cannot be read as Parquet ({first_line(problem)}). Copy the folder again."
        ) from None


def _dictionaries(path: Path) -> list[str]:
    kinds = pyarrow.parquet.read_schema(path)
    return [field.name for field in kinds if pa.types.is_dictionary(field.type)]


def _with_margins(
    table: pa.Table, level: str, columns: Mapping[str, tuple[str, int]], margins: MarginsOf, *, first: int
) -> pa.Table:
    old = {f"{name}{MARGIN}" for name in columns}
    made: dict[str, Any] = {}
    for name in table.column_names:
        if name in old:
            continue
        made[name] = table.column(name)
        if name in columns:
            query, row = columns[name]
            counts = table.column(name).to_numpy()
            made[f"{name}{MARGIN}"] = pa.array(margins.at(level, query, row=row, first=first, counts=counts))
    return pa.table(made)
