"""Write a release as a folder: counts, spine, tables by level, strategy, codebook, certificate and measurements.

The folder is written under a temporary name and renamed when everything is on disk, so a folder that exists is
complete, and signed if it should be. The certificate is written last, since it lists the SHA-256 of every other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tallyveil._memory import limit_in_force
from tallyveil._workers import workers, workers_ahead
from tallyveil.errors import FolderError
from tallyveil.files.atomic import new_folder
from tallyveil.files.release_folder.certificate_file import write_certificate
from tallyveil.files.release_folder.layout import (
    CODEBOOK,
    ESTIMATED,
    FACILITIES,
    LEVEL_PIECE,
    MEASURED_SPINE,
    PAGE,
    RELEASE,
    SOURCE,
    SPINE,
    STRATEGY,
    estimate_name,
    level_name,
    level_part,
    measurement_name,
)
from tallyveil.files.release_folder.manifest import manifest_of
from tallyveil.files.release_folder.mdf_files import refuse_unless_mdf, write_mdf_files
from tallyveil.files.release_folder.measurement_files import exact_pieces, measured_pairs
from tallyveil.files.release_folder.signing import read_signing_key
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.codebook_toml import codebook_to_toml
from tallyveil.files.tables.side import facilities_table
from tallyveil.files.tables.write import codebook_for, units_table, write_table, write_text
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.tables import counts_table
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import strategy_to_toml
from tallyveil.release.certificate import Certificate
from tallyveil.release.certificate_page import certificate_html
from tallyveil.release.measurements import Measurements, Pair
from tallyveil.release.plan import level_queries
from tallyveil.release.release import Release


def write_release(
    release: Release,
    folder: str | PathLike[str],
    *,
    measurements: Sequence[Pair] = (),
    noisy: Measurements | None = None,
    source: Codebook | None = None,
    sign_with: str | PathLike[str] | None = None,
    mdf: bool = False,
    estimates: Iterable[tuple[str, pa.Table]] = (),
) -> None:
    """Write a release as a new folder.

    Parameters
    ----------
    release
        The release to write.
    folder
        A folder that does not exist yet.
    measurements
        The (query, level) pairs whose measurements are published in full.
    noisy
        The measurements that the release was made from; by default those that the release kept.
    source
        The codebook with which the input was read, written as ``source.toml``.
    sign_with
        The file of a private key (``tallyveil keygen``) to sign the certificate with.
    mdf
        Also write the release as a microdata detail file, for counts on the schemas of 1940 and 2020.
    estimates
        Pieces of the estimates of all units, each with its level (``tallyveil.blue.estimate.estimate_pieces``).
    """
    if release.strategy is None:
        raise FolderError("a release without a strategy cannot be written as a folder. Write its counts: write_counts.")
    if mdf:
        refuse_unless_mdf(release.histogram, release.strategy)
    key = None if sign_with is None else read_signing_key(sign_with)
    kept = release.measurements if noisy is None else noisy
    pairs = measured_pairs(release.strategy, measurements)
    _refuse_other_measurements(release, pairs, kept)
    certificate = _stamped(release, kept)
    people = replace(
        release.histogram,
        stamps=certificate.declared.stamps,
        filter=release.histogram.filter or (None if source is None else source.filter),
        rows_per_person=certificate.declared.rows_per_person,
    )
    optimised = release.optimised if kept is None else kept.optimised
    with new_folder(folder) as place:
        _write_counts(people, release.strategy, place)
        if release.facilities is not None:
            write_table(facilities_table(release.facilities), place / FACILITIES)
        if mdf:
            write_mdf_files(people, release.facilities, place)
        write_text(strategy_to_toml(release.strategy), place / STRATEGY)
        if source is not None:
            write_text(codebook_to_toml(source), place / SOURCE)
        if optimised is not None:
            (place / MEASURED_SPINE).parent.mkdir()
            write_table(units_table(optimised.spine), place / MEASURED_SPINE)
        if kept is not None:
            _write_measurements(kept, pairs, place)
        _write_estimates(estimates, place)
        write_text(certificate_html(certificate.to_json(), release.strategy), place / PAGE)
        write_certificate(certificate.to_json(), manifest_of(place), place, key=key)


def _refuse_other_measurements(release: Release, pairs: Sequence[Pair], kept: Measurements | None) -> None:
    if pairs and kept is None:
        raise FolderError("the release kept no measurements, so none can be published. Leave them out.")
    if kept is not None and (
        kept.published != release.histogram.spine
        or kept.strategy != release.strategy
        or not _same_measurement(release.certificate, kept)
    ):
        raise FolderError(
            "the measurements are of another spine or strategy than the release. Give those it came from."
        )


def _same_measurement(certificate: Certificate | None, kept: Measurements) -> bool:
    """Whether the identifiers agree, where both are known."""
    known = None if certificate is None else certificate.measurement
    return known is None or kept.identifier is None or known == kept.identifier


def _stamped(release: Release, kept: Measurements | None) -> Certificate:
    """The release's certificate with all stamps of its counts and measurements."""
    certificate = release.certificate
    if certificate is None:
        raise FolderError(
            "a release without a certificate cannot be written as a folder. protect makes one; to write the counts "
            "alone, use write_counts."
        )
    stamps = [
        *certificate.declared.stamps,
        *release.histogram.stamps,
        *(kept.stamps if kept is not None else ()),
    ]
    return replace(certificate, declared=replace(certificate.declared, stamps=tuple(dict.fromkeys(stamps))))


def _write_counts(histogram: Histogram, strategy: Strategy, place: Path, size: int = 1 << 20) -> None:
    """Write the codebook and the tables of counts, several tables at a time; the largest begin first."""

    def level_table(level: str) -> Iterator[pa.Table]:
        return _level_pieces(histogram, level, level_queries(strategy, histogram.schema, level))

    firsts = range(0, max(1, histogram.leaves.entries), size)
    tables: dict[str, Iterable[pa.Table]] = {
        level_name(histogram.spine.leaf): level_table(histogram.spine.leaf),
        RELEASE: (counts_table(histogram, first, first + size) for first in firsts),
        **{level_name(level): level_table(level) for level in reversed(histogram.spine.levels[:-1])},
        SPINE: (units_table(spine) for spine in [histogram.spine]),
    }
    write_text(codebook_to_toml(codebook_for(histogram, "long")), place / CODEBOOK)
    (place / "levels").mkdir()
    with workers(None if limit_in_force() is None else 1) as run:  # each table in work takes memory
        list(run(lambda name: write_table(tables[name], place / name, mostly_zeros=name.startswith("levels/")), tables))


def _level_pieces(histogram: Histogram, level: str, queries: Sequence[str]) -> Iterator[pa.Table]:
    """A level's table in pieces, since a nation's may not fit into memory; the next is made while one is written.

    A piece must be written before the next is asked for: the one after that takes its place in memory.
    """
    counts, units = histogram.at(level), np.arange(histogram.spine.size(level))
    columns = sum(histogram.schema.query(query).size for query in queries)
    step = max(1, LEVEL_PIECE // max(1, columns))
    rooms = [np.empty(columns * min(step, len(units)), dtype=np.int64) for _ in range(2)]

    def piece(number: int) -> pa.Table:
        part = units[number * step : (number + 1) * step]
        return level_part(histogram, counts, level, queries, part, room=rooms[number % 2])

    with workers_ahead(1) as run:
        yield from run(piece, range(-(-len(units) // step)))


def _write_measurements(measurements: Measurements, pairs: Sequence[Pair], place: Path) -> None:
    for query, level in pairs:
        _write_pieces(measurements.pieces(query, level), place / measurement_name(query, level))
    for query, level in measurements.exact:
        _write_pieces(exact_pieces(measurements, query, level), place / measurement_name(query, level, exact=True))


def _write_estimates(pieces: Iterable[tuple[str, pa.Table]], place: Path) -> None:
    """Write pieces of estimates to the files of their levels; levels may take turns."""
    with ExitStack() as files:
        writers: dict[str, pyarrow.parquet.ParquetWriter] = {}
        for level, piece in pieces:
            if level not in writers:
                path = place / estimate_name(level)
                path.parent.mkdir(exist_ok=True)
                writer = pyarrow.parquet.ParquetWriter(path, ESTIMATED, compression="zstd")
                writers[level] = files.enter_context(writer)
            writers[level].write_table(piece)


def _write_pieces(pieces: Iterable[pa.Table], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(pieces, path)
