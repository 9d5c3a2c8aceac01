"""What commands read: tables and published microdata; and for evaluations the truth and releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tallyveil.errors import InputError, UnknownUnitError

if TYPE_CHECKING:
    from tallyveil.cli.baseline_folder import BaselineFolder
    from tallyveil.evaluate.sources import Source
    from tallyveil.files.formats.by_name import Census
    from tallyveil.files.tables.codebook import Codebook
    from tallyveil.nouns.areas import Areas
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.spine import Spine
    from tallyveil.release.release import Release

TOGETHER = "all together"  # the name of pooled releases
WITH_TYPES = ("ipums-1940", "mdf-1940")  # formats whose facilities have the types that strategies bound people by
DETAIL_FILES = ("mdf-1940", "mdf-2020")  # formats whose first line no other table has


def outline(people: Histogram) -> str:
    """The number of units of each level and of labels of each attribute, in words."""
    units = ", ".join(f"{level} {len(codes):,}" for level, codes in people.spine.items())
    labels = ", ".join(f"{name} {len(labels):,}" for name, labels in people.schema.attributes.items())
    return f"units: {units}; {f'labels: {labels}' if labels else 'totals only'}"


@dataclass(frozen=True, kw_only=True)
class TruthAndReleases:
    """The truth, and by name the releases and the folders of ``tallyveil baseline``."""

    truth: Histogram
    releases: dict[str, Release]
    baselines: dict[str, BaselineFolder] = field(default_factory=dict)

    def groups(self, *, pool: bool) -> dict[str, list[Source]]:
        """What is evaluated together, by name: each alone, or all as replicates of one strategy or method."""
        sources: dict[str, Source] = {**self.releases, **{name: one.source for name, one in self.baselines.items()}}
        if not pool or len(sources) == 1:
            return {name: [source] for name, source in sources.items()}
        made = {_made(release) for release in self.releases.values()} | {one.made for one in self.baselines.values()}
        if len(made) > 1:
            names = ", ".join(sources)
            raise InputError(f"{names} have different strategies, so they are not replicates. Drop --pool.")
        return {TOGETHER: list(sources.values())}

    def asked(
        self, group: str, levels: list[str] | None, queries: list[str] | None
    ) -> tuple[list[str] | None, list[str] | None]:
        """The levels and queries to compare for a group: those named, or all that a baseline has."""
        from tallyveil.evaluate.error import default_queries

        folders = [one for name, one in self.baselines.items() if group in (name, TOGETHER)]
        if not folders:
            return levels, queries
        return levels or list(folders[0].levels), queries or folders[0].queries(default_queries(self.truth.schema))


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """Counts of people that were read, with the facilities that the file holds and the codebook, if there are any."""

    counts: Histogram
    facilities: Facilities | None = None
    codebook: Codebook | None = None


def read_people(
    path: Path, codebook: Path | Codebook | None, file_format: str | None, *, units: Path | Spine | None
) -> People:
    """Read a table that a codebook describes, or published microdata of a named format.

    With neither a codebook nor a format, the format is recognised by the first line of the file.
    """
    from tallyveil.files.tables.codebook import Codebook
    from tallyveil.files.tables.codebook_toml import read_codebook
    from tallyveil.files.tables.read import read_counts

    name = format_of(path, codebook, file_format)
    if name is not None:
        census = _read_published(path, name, units=units)
        own = census.facilities if name in WITH_TYPES else None
        return People(counts=census.people, facilities=own)
    if codebook is None:
        raise InputError(
            f"{path}: what its columns mean is unknown. Give --codebook FILE, or --format for published microdata."
        )
    book = codebook if isinstance(codebook, Codebook) else read_codebook(codebook)
    return People(counts=read_counts(path, book, units=units), codebook=book)


def format_of(path: Path, codebook: Path | Codebook | None, file_format: str | None) -> str | None:
    """The named format, or the one that is recognised; None for a table that a codebook describes."""
    from tallyveil.files.formats.by_name import recognise_format

    if file_format is not None:
        if codebook is not None:
            raise InputError("--codebook and --format are both given. A published format needs no codebook: drop one.")
        return str(file_format)
    return recognise_format(path) if codebook is None else None


def _read_published(path: Path, name: str, *, units: Path | Spine | None) -> Census:
    """Read published microdata, with progress if the extract is large."""
    from tallyveil.files.formats.by_name import read_format
    from tallyveil.files.formats.census import Census1940
    from tallyveil.runs.progress import following_bytes

    if not path.exists():
        raise InputError(f"{path}: no such file or folder. Check the name.")
    with following_bytes(path) as progress:
        census = read_format(path, name, units=units, progress=progress)
    if isinstance(census, Census1940) and census.dropped:
        who = f"{census.dropped:,} persons who belong to no household are left out"
        typer.echo(f"tallyveil: {path}: {who}, as in the Bureau's test.", err=True)
    return census


def read_truth_and_releases(
    truth: Path,
    releases: list[Path],
    codebook: Path | None,
    *,
    units: Path | None,
    file_format: str | None = None,
) -> TruthAndReleases:
    """Read the truth and each release: a folder of a release or baseline, microdata, or a table with the same codebook.

    Without a list of units, the units of the first release folder are used, because the truth may leave out empty ones.
    Without a codebook, the truth is of the format, or it is described by the ``source.toml`` of the first folder.
    A release that keeps counts exactly refuses a truth that differs in them.
    """
    from tallyveil.cli.baseline_folder import is_baseline, read_baseline
    from tallyveil.cli.same_data import refuse_other_data
    from tallyveil.files.release_folder.read_folder import read_source, read_spine

    own = ("spine.parquet", "codebook.toml")
    folder = next((path for path in releases if all((path / name).exists() for name in own)), None)
    book: Path | Codebook | None = codebook
    if folder is not None and codebook is None and format_of(truth, codebook, file_format) is None:
        book = read_source(folder)
    listed = units or (None if folder is None else read_spine(folder))
    try:
        people = read_people(truth, book, file_format, units=listed).counts
    except UnknownUnitError as problem:
        if folder is None or units is not None:
            raise
        raise InputError(
            f"{truth}: {problem.code!r} is not a unit of {folder}. Give a release of these data."
        ) from None
    if people.total() == 0:
        raise InputError(f"{truth}: nobody is counted in it. Give the true counts.")
    by_name: dict[str, Release] = {}
    baselines: dict[str, BaselineFolder] = {}
    for path in releases:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder. Give a release folder, or a table of its counts.")
        if releases.count(path) > 1:
            raise InputError(f"{path}: given twice. Give each release once.")
        name = _name_of(path, releases)
        if is_baseline(path):
            baselines[name] = read_baseline(path, people)
            continue
        by_name[name] = _read_one(path, book, units=listed)
        refuse_other_data(people, by_name[name], file=truth, folder=path)
        released, true = by_name[name].histogram.total(), people.total()
        if abs(released - true) > 0.1 * max(released, true):
            words = f"{path} has {released:,} persons and {truth} {true:,}. Are they of the same people?"
            typer.echo(f"tallyveil: {words}", err=True)
    return TruthAndReleases(truth=people, releases=by_name, baselines=baselines)


def _made(release: Release) -> str | None:
    """How a release was made, if it says so."""
    from tallyveil.privacy.strategy_toml import strategy_to_toml

    return None if release.strategy is None else strategy_to_toml(release.strategy)


def _name_of(path: Path, releases: list[Path]) -> str:
    """The last part of a path, or all of it where several releases have the same last part."""
    return path.name if [other.name for other in releases].count(path.name) == 1 else str(path)


def _read_one(path: Path, codebook: Path | Codebook | None, *, units: Path | Spine | None) -> Release:
    """One release; microdata detail files and their folders are recognised even if there is a codebook for tables."""
    from tallyveil.files.formats.by_name import recognise_format
    from tallyveil.files.release_folder.read_folder import read_release
    from tallyveil.release.release import Release

    if (path / "certificate.json").exists() or (path.is_dir() and recognise_format(path) is None):
        return read_release(path)
    microdata = path.is_dir() or recognise_format(path) in DETAIL_FILES
    people = read_people(path, None if microdata else codebook, None, units=units)
    return Release(histogram=people.counts, facilities=people.facilities)


def find_areas(path: Path | None, people: Histogram) -> Areas | None:
    """The areas in a file, if one is named."""
    from tallyveil.files.tables.side import read_areas

    if path is None:
        return None
    areas = read_areas(path, people.spine)
    if not areas.names:
        raise InputError(f"{path}: no areas are in it. Give one row for each {people.spine.leaf} of an area.")
    return areas


def find_homes(housing: Path | None, data: TruthAndReleases) -> Histogram | Facilities | None:
    """Occupied homes: from a table of housing units, or from the facilities of a release."""
    from tallyveil.files.tables.side import read_housing

    if housing is not None:
        return read_housing(housing, data.truth.spine)
    facilities = (release.facilities for release in data.releases.values())
    return next((table for table in facilities if table is not None and table.spine == data.truth.spine), None)
