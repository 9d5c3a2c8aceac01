"""Read a release, with its measurements if they were saved, from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

import pyarrow as pa

from tallyveil.errors import FolderError, StrategyError
from tallyveil.files.release_folder.certificate_file import certificate_in, read_certificate, shaped_by_of
from tallyveil.files.release_folder.layout import (
    CERTIFICATE,
    CODEBOOK,
    FACILITIES,
    MEASURED_SPINE,
    RELEASE,
    SOURCE,
    SPINE,
    STRATEGY,
    exact_pairs,
    measurement_name,
    saved_pairs,
)
from tallyveil.files.release_folder.measurement_files import FileValues, empty_measurements, read_exact
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.codebook_toml import read_codebook
from tallyveil.files.tables.geography import codes_of, read_units
from tallyveil.files.tables.read import read_counts
from tallyveil.files.tables.side import read_facilities
from tallyveil.files.tables.sources import Source, batches
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import path_levels
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import read_strategy
from tallyveil.release.measurements import Measurements, SavedAnswers
from tallyveil.release.release import Release


def read_release(folder: str | PathLike[str]) -> Release:
    """Read a release from its folder.

    A folder made by other software needs only ``release.parquet`` and ``codebook.toml``. Its release has no strategy
    and no certificate; without ``spine.parquet`` its units are those with at least one person.
    """
    place = Path(folder)
    if not place.is_dir():
        what = "not a folder" if place.exists() else "no such folder"
        raise FolderError(f"{place}: {what}. Give the folder of a release.")
    missing = [name for name in (RELEASE, CODEBOOK) if not (place / name).exists()]
    if missing:
        lacks = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise FolderError(f"{place}: not a release, {lacks}. Give the folder of a release.")
    spine = read_spine(place) if (place / SPINE).exists() else None
    people = read_counts(place / RELEASE, read_codebook(place / CODEBOOK), units=spine)
    certificate = certificate_in(place) if (place / CERTIFICATE).exists() else None
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
        measurements=read_measurements(
            place,
            strategy,
            people,
            optimised=optimised,
            stamps=stamps,
            identifier=None if certificate is None else certificate.measurement,
        ),
        optimised=optimised,
    )


def read_spine(folder: Path) -> Spine:
    """The spine of a release, with the names of its units: ``spine.parquet`` as ``codebook.toml`` describes it."""
    return read_units(folder / SPINE, read_codebook(folder / CODEBOOK))


def read_source(folder: Path) -> Codebook | None:
    """The codebook with which the input of a release was read, if the folder has it.

    Labels that were taken from the data are those of the release.
    """
    if not (folder / SOURCE).exists():
        return None
    source, known = read_codebook(folder / SOURCE), read_codebook(folder / CODEBOOK).attributes
    attributes = {name: labels or known.get(name, ()) for name, labels in source.attributes.items()}
    return replace(source, attributes=attributes)


def read_measurements(
    place: Path,
    strategy: Strategy,
    people: Histogram,
    *,
    optimised: OptimisedSpine | None,
    stamps: tuple[str, ...],
    identifier: str | None = None,
) -> Measurements | None:
    """The measurements saved in a folder, if any, from which post-processing can be repeated."""
    files = saved_pairs(place, strategy)
    if not files:
        return None
    paths = {pair: place / measurement_name(*pair, exact=True) for pair in exact_pairs(strategy, people.schema)}
    exact = {
        (query, level): read_exact(path, people.schema, people.spine, query=query, level=level)
        for (query, level), path in paths.items()
        if path.exists()
    }
    empty = empty_measurements(people, strategy, optimised)
    tables = {pair: FileValues(path, empty.places(str(path), *pair)) for pair, path in files.items()}
    return replace(empty, ask=SavedAnswers(tables), exact=exact, stamps=stamps, identifier=identifier)


def read_optimised(folder: Path, standard: Spine) -> OptimisedSpine | None:
    """The optimised spine on which a release was measured, if it is not the published one."""
    certificate = read_certificate(folder) if (folder / CERTIFICATE).exists() else {}
    path, declared = folder / MEASURED_SPINE, certificate.get("declared")
    if path.exists():
        return read_measured_spine(path, standard, shaped_by=shaped_by_of(certificate))
    if isinstance(declared, Mapping) and declared.get("measured_on"):
        raise FolderError(
            f"{path} is missing, though the certificate states that an optimised spine was measured. Copy the folder "
            f"again."
        )
    return None


def read_measured_spine(source: Source, standard: Spine, *, shaped_by: tuple[str, ...]) -> OptimisedSpine:
    """The optimised spine on which a release was measured, from the ordered list of its leaves."""
    levels = path_levels(standard, standard.leaf)
    table = pa.concat_tables([batch.table for batch in batches(source)])
    missing = [level for level in levels if level not in table.column_names]
    if missing:
        raise FolderError(f"{source}: no column {missing[0]!r}. Copy the folder again.")
    columns = {level: codes_of(table.column(level)) for level in levels}
    spine = Spine.from_columns(columns, root=standard.named_root, in_order=True)
    return OptimisedSpine.from_spines(spine, standard, shaped_by=shaped_by)


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
