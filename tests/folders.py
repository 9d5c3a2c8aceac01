"""Changing the files of a release's folder, honestly and otherwise."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from tallyveil import verify_release
from tallyveil.files.release_folder.manifest import manifest_of
from tallyveil.privacy.strategy_toml import read_strategy
from tallyveil.release.canonical import MANIFEST, canonical_bytes, certificate_digest, parse_json
from tallyveil.release.certificate_page import certificate_html, digest_tag


def failing(folder: Path, **words) -> dict[str, str]:
    """The checks that fail, with their words."""
    return {finding.name: finding.words for finding in verify_release(folder, **words) if finding.holds is False}


def unchecked(folder: Path, **words) -> dict[str, str]:
    return {finding.name: finding.words for finding in verify_release(folder, **words) if finding.holds is None}


def holds(folder: Path, **words) -> bool:
    return all(finding.holds is not False for finding in verify_release(folder, **words))


def edit(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change a table and write it with the types it had, as tallyveil would."""
    old = pyarrow.parquet.read_table(path)
    frame = old.to_pandas()
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].astype(str)
    new = pa.Table.from_pandas(change(frame), preserve_index=False).replace_schema_metadata(None)
    columns = [_as_before(new.column(name), old, name) for name in new.column_names]
    pyarrow.parquet.write_table(pa.table(columns, names=new.column_names), path, compression="zstd")


def _as_before(column: pa.ChunkedArray, old: pa.Table, name: str) -> pa.ChunkedArray:
    try:
        return column.cast(old.schema.field(name).type)
    except (KeyError, pa.ArrowInvalid):
        return column  # a new column, or one of another type


def put(row: int, column: str, value):
    def change(table):
        table.loc[row, column] = value
        return table

    return change


def edit_certificate(folder: Path, change: Callable[[dict], object]) -> None:
    """Change the certificate alone."""
    certificate = parse_json((folder / "certificate.json").read_bytes())
    change(certificate)
    (folder / "certificate.json").write_bytes(canonical_bytes(certificate))


def reseal(folder: Path, change: Callable[[dict], object] = lambda _: None, *, render: bool = False) -> None:
    """A coordinated change: the page, its digest and the list of files follow. Nobody can tell without a signature."""
    certificate = json.loads((folder / "certificate.json").read_text())
    change(certificate)
    page = folder / "certificate.html"
    if render:
        page.write_text(certificate_html(certificate, read_strategy(folder / "strategy.toml")))
    elif page.is_file():
        tag = digest_tag(certificate_digest(certificate)).encode()
        page.write_bytes(re.sub(b'<meta name="certificate-sha256"[^>]*>', tag, page.read_bytes()))
    certificate[MANIFEST] = manifest_of(folder)
    (folder / "certificate.json").write_bytes(canonical_bytes(certificate))
