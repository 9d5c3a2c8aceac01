"""A release as a folder: counts, spine, tables by level, strategy, codebook, certificate and, if wanted, measurements.

The folder is written under another name beside its place and renamed when all is on disk: a folder that exists is
complete, and signed if it was to be. The certificate is written last, since it lists the SHA-256 of every other file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tallyveil.errors import FolderError, InputError, StrategyError
from tallyveil.files.atomic import replacing
from tallyveil.files.release_folder.layout import (
    CERTIFICATE,
    CODEBOOK,
    FACILITIES,
    MEASURED_SPINE,
    PAGE,
    RELEASE,
    SIGNATURE,
    SOURCE,
    SPINE,
    STRATEGY,
    exact_pairs,
    level_name,
    level_part,
    level_queries,
    measurement_name,
    saved_pairs,
)
from tallyveil.files.release_folder.manifest import manifest_of
from tallyveil.files.release_folder.measured import (
    exact_pieces,
    measured_pairs,
    read_exact,
    saved_measurements,
)
from tallyveil.files.release_folder.signing import read_signing_key
from tallyveil.files.tables.codebook import Codebook, codebook_to_toml, read_codebook
from tallyveil.files.tables.columns import Source, batches
from tallyveil.files.tables.geography import codes_of
from tallyveil.files.tables.read import read_counts
from tallyveil.files.tables.side import facilities_table, read_facilities
from tallyveil.files.tables.write import (
    codebook_for,
    units_table,
    write_table,
    write_text,
)
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import counts_table, has_named_root
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import read_strategy, strategy_to_toml
from tallyveil.release.canonical import MANIFEST, canonical_bytes, parse_json
from tallyveil.release.certificate import Certificate
from tallyveil.release.certificate_page import certificate_html
from tallyveil.release.declared import SEEDED
from tallyveil.release.measurements import Measurements, Pair
from tallyveil.release.release import Release


def write_release(
    release: Release,
    folder: str | PathLike[str],
    *,
    measurements: Sequence[Pair] = (),
    noisy: Measurements | None = None,
    source: Codebook | None = None,
    sign_with: str | PathLike[str] | None = None,
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
    noisy
        The measurements that the release was made from, to publish them from; without them, those that the release
        kept.
    source
        The codebook with which the input was read: it becomes ``source.toml``.
    sign_with
        The file of a private key (``tallyveil keygen``), with which the certificate is signed.
    """
    if release.strategy is None:
        raise FolderError("a release without a strategy cannot be written as a folder. Write its counts: write_counts.")
    key = None if sign_with is None else read_signing_key(sign_with)
    kept = release.measurements if noisy is None else noisy
    pairs = measured_pairs(release.strategy, measurements)
    if pairs and kept is None:
        raise FolderError("the release kept no measurements, so none can be published. Leave them out.")
    if kept is not None and (kept.published != release.histogram.spine or kept.strategy != release.strategy):
        raise FolderError(
            "the measurements are of another spine or strategy than the release. Give those it came from."
        )
    certificate = _stamped(release, kept)
    people = replace(
        release.histogram,
        stamps=certificate.declared.stamps,
        filter=release.histogram.filter or (None if source is None else source.filter),
    )
    optimised = release.optimised if kept is None else kept.optimised
    with new_folder(folder) as place:
        _write_counts(people, release.strategy, place)
        if release.facilities is not None:
            write_table(facilities_table(release.facilities), place / FACILITIES)
        write_text(strategy_to_toml(release.strategy), place / STRATEGY)
        if source is not None:
            write_text(codebook_to_toml(source), place / SOURCE)
        if optimised is not None:
            (place / MEASURED_SPINE).parent.mkdir()
            write_table(units_table(optimised.spine), place / MEASURED_SPINE)
        if kept is not None:
            _write_measurements(kept, pairs, place)
        write_text(certificate_html(certificate.to_json(), release.strategy), place / PAGE)
        write_certificate(certificate.to_json(), manifest_of(place), place, key=key)


def read_release(folder: str | PathLike[str]) -> Release:
    """A release from its folder.

    A folder made elsewhere needs ``release.parquet`` and ``codebook.toml`` only. Then it has no strategy and no
    certificate, and without ``spine.parquet`` its units are those that have anybody.
    """
    place = Path(folder)
    if not place.is_dir():
        what = "not a folder" if place.exists() else "no such folder"
        raise FolderError(f"{place}: {what}. Give the folder of a release.")
    missing = [name for name in (RELEASE, CODEBOOK) if not (place / name).exists()]
    if missing:
        lacks = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise FolderError(f"{place}: not a release, {lacks}. Give the folder of a release.")
    units, book = place / SPINE, read_codebook(place / CODEBOOK)
    people = read_counts(place / RELEASE, book, units=units if units.exists() else None)
    certificate = _certificate(place) if (place / CERTIFICATE).exists() else None
    stamps = () if certificate is None else certificate.declared.stamps
    people = replace(people, stamps=tuple(dict.fromkeys([*people.stamps, *stamps])))
    if not (place / STRATEGY).exists():
        return Release(histogram=people, certificate=certificate)
    strategy = read_strategy(place / STRATEGY)
    optimised = read_optimised(place, people.spine)
    return Release(
        histogram=people,
        strategy=strategy,
        certificate=certificate,
        facilities=read_folder_facilities(place, strategy, people.spine, people.schema),
        measurements=read_measurements(place, strategy, people, optimised=optimised, stamps=stamps),
        optimised=optimised,
    )


def write_certificate(
    certificate: Mapping[str, Any], listed: Mapping[str, str], place: Path, *, key: Ed25519PrivateKey | None = None
) -> None:
    """Write a certificate with its list of files into a folder, and its signature beside it."""
    data = certificate_bytes(certificate, listed)
    with replacing(place / CERTIFICATE) as temporary:
        temporary.write_bytes(data)
    if key is not None:
        with replacing(place / SIGNATURE) as temporary:
            temporary.write_bytes(key.sign(data))


def certificate_bytes(certificate: Mapping[str, Any], listed: Mapping[str, str]) -> bytes:
    """A certificate with a list of files, as canonical JSON."""
    try:
        return canonical_bytes({**certificate, MANIFEST: dict(listed)})
    except InputError as problem:
        raise FolderError(f"the certificate {problem}") from None


def read_certificate(folder: Path) -> dict[str, Any]:
    """The certificate of a folder."""
    path = folder / CERTIFICATE
    try:
        found = parse_json(path.read_bytes())
    except OSError as problem:
        raise FolderError(f"{path}: cannot be read ({problem.strerror}). Copy the folder again.") from None
    except InputError as problem:
        raise problem.located(path) from None
    if not isinstance(found, dict):
        raise FolderError(f"{path}: not a certificate. It has the fields declared and observed. Copy the folder again.")
    return found


def stamps_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What a certificate stamps its release with."""
    declared = certificate.get("declared")
    stamps = declared.get("stamps", ()) if isinstance(declared, Mapping) else ()
    return tuple(map(str, stamps)) if isinstance(stamps, list | tuple) else ()


def shaped_by_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What shaped the spine that was measured, as a certificate says."""
    declared = certificate.get("declared")
    measured_on = declared.get("measured_on") if isinstance(declared, Mapping) else None
    shaped_by = measured_on.get("shaped_by") if isinstance(measured_on, Mapping) else None
    return tuple(map(str, shaped_by)) if isinstance(shaped_by, list | tuple) else ()


def read_folder_facilities(folder: Path, strategy: Strategy, spine: Spine, schema: Schema) -> Facilities | None:
    """The facilities of a folder, if it has any."""
    attribute = facility_attribute(strategy)
    if attribute is None or not (folder / FACILITIES).exists():
        return None
    return read_facilities(folder / FACILITIES, spine, attribute=attribute, types=schema.attributes[attribute])


def facility_attribute(strategy: Strategy) -> str | None:
    """The attribute whose labels are the facility types: that of the strategy's facility bounds, if it has any."""
    names = {c.attribute: None for c in strategy.constraints if isinstance(c, FacilityBounds)}
    if len(names) > 1:
        raise StrategyError(
            f"facility bounds on {' and '.join(names)}: facilities have types of one attribute. Keep one of them."
        )
    return next(iter(names), None)


@contextmanager
def new_folder(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``path`` to fill; it takes the name when all went well, and is removed otherwise."""
    target = Path(path).absolute()
    refuse_existing(target)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as problem:
        raise FolderError(
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
        raise FolderError(f"{target}: cannot be written ({problem.strerror}). Nothing was changed.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_existing(folder: str | PathLike[str]) -> None:
    """Refuse a place where something is already, or that lies in no folder."""
    if os.path.lexists(folder):
        raise FolderError(f"{folder} exists. Name a new folder; nothing is overwritten.")
    if not Path(folder).absolute().parent.is_dir():
        raise FolderError(f"{folder}: there is no folder {Path(folder).parent}. Make it, or name another place.")


def read_measurements(
    place: Path,
    strategy: Strategy,
    people: Histogram,
    *,
    optimised: OptimisedSpine | None,
    stamps: tuple[str, ...],
) -> Measurements | None:
    """The measurements that were saved in a folder, if any were: post-processing can be done again from them."""
    files = saved_pairs(place, strategy)
    if not files:
        return None
    paths = {pair: place / measurement_name(*pair, exact=True) for pair in exact_pairs(strategy, people.schema)}
    exact = {
        (query, level): read_exact(path, people.schema, people.spine, query=query, level=level)
        for (query, level), path in paths.items()
        if path.exists()
    }
    return saved_measurements(
        files,
        spine=people.spine if optimised is None else optimised.spine,
        schema=people.schema,
        strategy=strategy,
        exact=exact,
        stamps=stamps,
        optimised=optimised,
    )


def read_optimised(folder: Path, standard: Spine) -> OptimisedSpine | None:
    """The optimised spine on which a release was measured, if it was another one than the published."""
    certificate = read_certificate(folder) if (folder / CERTIFICATE).exists() else {}
    path, declared = folder / MEASURED_SPINE, certificate.get("declared")
    if path.exists():
        return read_measured_spine(path, standard, shaped_by=shaped_by_of(certificate))
    if isinstance(declared, Mapping) and declared.get("measured_on"):
        raise FolderError(
            f"{path} is missing, though the certificate says that an optimised spine was measured. Copy the folder "
            f"again."
        )
    return None


def read_measured_spine(source: Source, standard: Spine, *, shaped_by: tuple[str, ...]) -> OptimisedSpine:
    """The optimised spine on which a release was measured, from the list of its leaves in their order."""
    named = has_named_root(standard)
    levels = standard.levels[1:] if named else standard.levels
    pieces = [batch.table for batch in batches(source)]
    table = pa.concat_tables(pieces)
    missing = [level for level in levels if level not in table.column_names]
    if missing:
        raise FolderError(f"{source}: no column {missing[0]!r}. Copy the folder again.")
    columns = {level: codes_of(table.column(level)) for level in levels}
    spine = Spine.from_columns(columns, root=standard.levels[0] if named else None, in_order=True)
    return OptimisedSpine.from_spines(spine, standard, shaped_by=shaped_by)


def _certificate(place: Path) -> Certificate:
    """The certificate of a folder, without its list of files."""
    table = read_certificate(place)
    table.pop(MANIFEST, None)
    try:
        return Certificate.from_json(table)
    except FolderError as problem:
        raise problem.located(place / CERTIFICATE) from None


def _stamped(release: Release, kept: Measurements | None) -> Certificate:
    """The release's certificate, with every stamp of its counts and measurements."""
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
    seeded_first = sorted(dict.fromkeys(stamps), key=lambda stamp: stamp != SEEDED)
    return replace(certificate, declared=replace(certificate.declared, stamps=tuple(seeded_first)))


def _write_counts(histogram: Histogram, strategy: Strategy, place: Path, size: int = 1 << 20) -> None:
    firsts = range(0, max(1, histogram.leaves.entries), size)
    write_table((counts_table(histogram, first, first + size) for first in firsts), place / RELEASE)
    write_table(units_table(histogram.spine), place / SPINE)
    write_text(codebook_to_toml(codebook_for(histogram, "long")), place / CODEBOOK)
    (place / "levels").mkdir()
    for level in histogram.spine.levels:
        pieces = _level_pieces(histogram, level, level_queries(strategy, histogram.schema, level))
        write_table(pieces, place / level_name(level))


def _level_pieces(histogram: Histogram, level: str, queries: Sequence[str], size: int = 1 << 22) -> Iterator[pa.Table]:
    """A level's table in pieces, so that a nation's need not be held at once."""
    counts, units = histogram.at(level), np.arange(histogram.spine.size(level))
    step = max(1, size // max(1, sum(histogram.schema.query(query).size for query in queries)))
    for first in range(0, len(units), step):
        yield level_part(histogram, counts, level, queries, units[first : first + step])


def _write_measurements(measurements: Measurements, pairs: Sequence[Pair], place: Path) -> None:
    for query, level in pairs:
        _write_pieces(measurements.pieces(query, level), place / measurement_name(query, level))
    for query, level in measurements.exact:
        _write_pieces(exact_pieces(measurements, query, level), place / measurement_name(query, level, exact=True))


def _write_pieces(pieces: Iterable[pa.Table], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(pieces, path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
