"""A release as a folder: counts, spine, tables by level, strategy, codebook, certificate and, if wanted, measurements.

The folder is written under another name beside its place and renamed when all is on disk: a folder that exists is
complete.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallyveil.counts import Counts
from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.files.codebook import Codebook, codebook_to_toml, read_codebook
from tallyveil.files.measured import (
    Pair,
    exact_pieces,
    file_name,
    measured_pairs,
    noisy_pieces,
    read_exact,
    safe_name,
    saved_measurements,
)
from tallyveil.files.side import facilities_table, read_facilities
from tallyveil.files.tables import read_counts
from tallyveil.files.write import codebook_for, counts_table, path_columns, units_table, write_table, write_text
from tallyveil.histogram import Histogram
from tallyveil.measurements import Index, Measurements
from tallyveil.privacy.constraints import FacilityBounds, Invariant
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import read_strategy, strategy_to_toml
from tallyveil.release import Release
from tallyveil.schema import DETAILED, TOTAL, Query, Schema
from tallyveil.spine import Spine

MARGIN = "_moe90"  # ends the name of a column with the 90% margins of error of the column before it
FREE_FIELDS = ("approver", "reference")  # of the certificate, for a review board


def write_release(
    release: Release,
    folder: str | PathLike[str],
    *,
    measurements: Sequence[Pair] = (),
    page: str | None = None,
) -> None:
    """Write a release as a new folder.

    Parameters
    ----------
    release
        What to write.
    folder
        Where: a folder that does not exist yet.
    measurements
        The (query, level) pairs whose measurements are published in full.
    page
        The text of ``certificate.html``.
    """
    if release.strategy is None:
        raise InputError("a release without a strategy cannot be written as a folder. Write its counts: write_counts.")
    pairs = measured_pairs(release.strategy, measurements)
    if pairs and release.measurements is None:
        raise InputError("the release kept no measurements, so none can be published. Leave them out.")
    kept = release.measurements
    if kept is not None and kept.spine != release.histogram.spine:  # an optimised spine, and the way back from it
        if pairs:
            raise InputError("the measurements are on another spine than the release. Publish them apart from it.")
        kept = None
    with new_folder(folder) as place:
        _write_counts(release.histogram, release.strategy, place)
        if release.facilities is not None:
            write_table(facilities_table(release.facilities), place / "facilities.parquet")
        write_text(strategy_to_toml(release.strategy), place / "strategy.toml")
        if kept is not None:
            _write_measurements(kept, pairs, place / "measurements")
        write_text(certificate_text(release.certificate), place / "certificate.json")
        if page is not None:
            write_text(page, place / "certificate.html")


def read_release(folder: str | PathLike[str]) -> Release:
    """A release from its folder.

    A folder made elsewhere needs ``release.parquet`` and ``codebook.toml`` only. Then it has no strategy and no
    certificate, and without ``spine.parquet`` its units are those that have anybody.
    """
    place = Path(folder)
    if not place.is_dir():
        what = "not a folder" if place.exists() else "no such folder"
        raise InputError(f"{place}: {what}. Give the folder of a release.")
    missing = [name for name in ("release.parquet", "codebook.toml") if not (place / name).exists()]
    if missing:
        lacks = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise InputError(f"{place}: not a release, {lacks}. Give the folder of a release.")
    units = place / "spine.parquet"
    people = read_counts(place / "release.parquet", _codebook(place), units=units if units.exists() else None)
    certificate = read_certificate(place) if (place / "certificate.json").exists() else {}
    stamps = stamps_of(certificate)
    people = replace(people, stamps=tuple(dict.fromkeys([*people.stamps, *stamps])))
    if not (place / "strategy.toml").exists():
        return Release(histogram=people, certificate=certificate)
    strategy = read_strategy(place / "strategy.toml")
    return Release(
        histogram=people,
        strategy=strategy,
        certificate=certificate,
        facilities=read_folder_facilities(place, strategy, people.spine, people.schema),
        measurements=_read_measurements(place, strategy, people, stamps),
    )


def certificate_text(certificate: Mapping[str, Any]) -> str:
    """A certificate as JSON text; the free fields are there to be filled in."""
    whole = dict(certificate) | {name: certificate.get(name, "") for name in FREE_FIELDS}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_certificate(folder: Path) -> dict[str, Any]:
    """The certificate of a folder."""
    path = folder / "certificate.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"{path}: cannot be read as JSON ({problem}). Copy the folder again.") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: not a certificate. It has the fields declared and observed. Copy the folder again.")
    return found


def stamps_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What a certificate stamps its release with."""
    declared = certificate.get("declared")
    stamps = declared.get("stamps", ()) if isinstance(declared, Mapping) else ()
    return tuple(map(str, stamps))


def read_folder_facilities(folder: Path, strategy: Strategy, spine: Spine, schema: Schema) -> Facilities | None:
    """The facilities of a folder, if it has any."""
    path = folder / "facilities.parquet"
    attribute = facility_attribute(strategy)
    if attribute is None or not path.exists():
        return None
    return read_facilities(path, spine, attribute=attribute, types=schema.attributes[attribute])


def facility_attribute(strategy: Strategy) -> str | None:
    """The attribute whose labels are the facility types: that of the strategy's facility bounds, if it has any."""
    names = {c.attribute: None for c in strategy.constraints if isinstance(c, FacilityBounds)}
    if len(names) > 1:
        raise InputError(
            f"facility bounds on {' and '.join(names)}: facilities have types of one attribute. Keep one of them."
        )
    return next(iter(names), None)


def level_queries(strategy: Strategy, schema: Schema, level: str) -> list[str]:
    """The queries in a level's table: the total, and those measured there, except detailed."""
    names = dict.fromkeys(schema.query(query).name for query in (TOTAL, *strategy.queries[level]))
    return [name for name in names if name != DETAILED]


def level_part(histogram: Histogram, counts: Counts, level: str, queries: Sequence[str], units: Index) -> pa.Table:
    """Some rows of a level's table, made from the level's counts: a row per unit, columns ``query:label*label``."""
    part = counts.taken(units)
    columns: dict[str, Any] = path_columns(histogram.spine, level, units)
    for query in map(histogram.schema.query, queries):
        answers = part.merged(np.arange(len(units) + 1), query.row_of_cell, query.size).dense()
        columns |= {name: pa.array(numbers) for name, numbers in zip(query_columns(query), answers.T, strict=True)}
    return pa.table(columns)


def query_columns(query: Query) -> list[str]:
    """The columns of a query in a level's table: ``query:label*label``, or ``total`` alone."""
    return [query.name if query.name == label else f"{query.name}:{label}" for label in query.labels()]


@contextmanager
def new_folder(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``path`` to fill; it takes the name when all went well, and is removed otherwise."""
    target = Path(path).absolute()
    refuse_existing(target)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as problem:
        raise InputError(
            f"{target}: cannot be written ({problem.strerror}). Name a folder in a folder you own."
        ) from None
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        for folder in [*(one for one in temporary.rglob("*") if one.is_dir()), temporary]:
            _sync(folder)
        temporary.chmod(0o777 & ~umask)
        refuse_existing(target)
        temporary.rename(target)
        _sync(target.parent)
    except OSError as problem:
        raise InputError(f"{target}: cannot be written ({problem.strerror}). Nothing was changed.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_existing(folder: str | PathLike[str]) -> None:
    """Refuse a place where something is already, or that lies in no folder."""
    if os.path.lexists(folder):
        raise InputError(f"{folder} exists. Name a new folder; nothing is overwritten.")
    if not Path(folder).absolute().parent.is_dir():
        raise InputError(f"{folder}: there is no folder {Path(folder).parent}. Make it, or name another place.")


def measurement_path(folder: Path, query: str, level: str, *, exact: bool = False) -> Path:
    """Where the measurements of a query at a level are in a release's folder."""
    kind = folder / "measurements" / "exact" if exact else folder / "measurements"
    return kind / safe_name(level) / f"{file_name(query)}.parquet"


def saved_pairs(folder: Path, strategy: Strategy) -> dict[Pair, Path]:
    """The (query, level) pairs whose measurements are in a release's folder."""
    paths = {(query, level): measurement_path(folder, query, level) for query, level in measured_pairs(strategy)}
    return {pair: path for pair, path in paths.items() if path.exists()}


def exact_pairs(folder: Path, strategy: Strategy, schema: Schema) -> dict[Pair, Path]:
    """The (query, level) pairs whose exact answers are in a release's folder: invariants, and the root's total."""
    kept = [(c.query, c.level) for c in strategy.constraints if isinstance(c, Invariant)]
    pairs = dict.fromkeys(
        (schema.query(query).name, level) for query, level in [*kept, (TOTAL, next(iter(strategy.levels)))]
    )
    paths = {(query, level): measurement_path(folder, query, level, exact=True) for query, level in pairs}
    return {pair: path for pair, path in paths.items() if path.exists()}


def _write_counts(histogram: Histogram, strategy: Strategy, place: Path, size: int = 1 << 20) -> None:
    firsts = range(0, max(1, histogram.leaves.entries), size)
    write_table((counts_table(histogram, first, first + size) for first in firsts), place / "release.parquet")
    write_table(units_table(histogram.spine), place / "spine.parquet")
    write_text(codebook_to_toml(codebook_for(histogram, "long")), place / "codebook.toml")
    (place / "levels").mkdir()
    for level in histogram.spine.levels:
        pieces = _level_pieces(histogram, level, level_queries(strategy, histogram.schema, level))
        write_table(pieces, place / "levels" / f"{safe_name(level)}.parquet")


def _level_pieces(histogram: Histogram, level: str, queries: Sequence[str], size: int = 1 << 22) -> Iterator[pa.Table]:
    """A level's table in pieces, so that a nation's need not be held at once."""
    counts, units = histogram.at(level), np.arange(histogram.spine.size(level))
    step = max(1, size // max(1, sum(histogram.schema.query(query).size for query in queries)))
    for first in range(0, len(units), step):
        yield level_part(histogram, counts, level, queries, units[first : first + step])


def _write_measurements(measurements: Measurements, pairs: Sequence[Pair], place: Path) -> None:
    for query, level in pairs:
        path = measurement_path(place.parent, query, level)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(noisy_pieces(measurements, query, level), path)
    for query, level in measurements.exact:
        path = measurement_path(place.parent, query, level, exact=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(exact_pieces(measurements, query, level), path)


def _read_measurements(
    place: Path, strategy: Strategy, people: Histogram, stamps: tuple[str, ...]
) -> Measurements | None:
    files = saved_pairs(place, strategy)
    if not files:
        return None
    exact = {
        (query, level): read_exact(path, people.schema, people.spine, query=query, level=level)
        for (query, level), path in exact_pairs(place, strategy, people.schema).items()
    }
    return saved_measurements(
        files, spine=people.spine, schema=people.schema, strategy=strategy, exact=exact, stamps=stamps
    )


def _codebook(place: Path) -> Codebook:
    return read_codebook(place / "codebook.toml")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
