"""What evaluations read: the truth, and releases as folders or tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tallyveil.errors import InputError, UnknownUnitError

if TYPE_CHECKING:
    from tallyveil.nouns.areas import Areas
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.release.release import Release


@dataclass(frozen=True, kw_only=True)
class TruthAndReleases:
    """The truth, and the releases by name."""

    truth: Histogram
    releases: dict[str, Release]

    def groups(self, *, pool: bool) -> dict[str, list[Release]]:
        """The releases that are evaluated together, by name: each alone, or all as replicates of one strategy."""
        from tallyveil.privacy.strategy_toml import strategy_to_toml

        if not pool or len(self.releases) == 1:
            return {name: [release] for name, release in self.releases.items()}
        releases = list(self.releases.values())
        strategies = [None if release.strategy is None else strategy_to_toml(release.strategy) for release in releases]
        if len(set(strategies)) > 1:
            names = ", ".join(self.releases)
            raise InputError(f"{names} have different strategies, so they are not replicates. Drop --pool.")
        return {"all together": releases}


def read_truth_and_releases(
    truth: Path, releases: list[Path], codebook: Path, *, units: Path | None
) -> TruthAndReleases:
    """Read the truth and each release: a release folder, or a table that the same codebook describes.

    Without a list of units, the units of the first release folder are used, because the truth may leave out empty ones.
    """
    from tallyveil.files.release_folder.read_folder import read_release
    from tallyveil.files.tables.read import read_counts
    from tallyveil.release.release import Release

    folder = next((path for path in releases if (path / "spine.parquet").exists()), None) if units is None else None
    units = units if folder is None else folder / "spine.parquet"
    try:
        people = read_counts(truth, codebook, units=units)
    except UnknownUnitError as problem:
        if folder is None:
            raise
        raise InputError(
            f"{truth}: {problem.code!r} is not a unit of {folder}. Give a release of these data."
        ) from None
    if people.total() == 0:
        raise InputError(f"{truth}: nobody is counted in it. Give the true counts.")
    by_name: dict[str, Release] = {}
    for path in releases:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder. Give a release folder, or a table of its counts.")
        if releases.count(path) > 1:
            raise InputError(f"{path}: given twice. Give each release once.")
        name = path.name if path.name not in by_name else str(path)
        by_name[name] = (
            read_release(path) if path.is_dir() else Release(histogram=read_counts(path, codebook, units=units))
        )
        released, true = by_name[name].histogram.total(), people.total()
        if abs(released - true) > 0.1 * max(released, true):
            words = f"{path} has {released:,} persons and {truth} {true:,}. Are they of the same people?"
            typer.echo(f"tallyveil: {words}", err=True)
    return TruthAndReleases(truth=people, releases=by_name)


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
