"""What evaluations read: the truth, and releases in whatever form they have."""

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
class Given:
    """The truth, and the releases by name."""

    truth: Histogram
    releases: dict[str, Release]

    def groups(self, *, pool: bool) -> dict[str, list[Release]]:
        """The releases that are evaluated together, by name: each alone, or all as replicates of one strategy."""
        from tallyveil.privacy.strategy_toml import strategy_to_toml

        if not pool or len(self.releases) == 1:
            return {name: [release] for name, release in self.releases.items()}
        every = list(self.releases.values())
        if len({None if one.strategy is None else strategy_to_toml(one.strategy) for one in every}) > 1:
            names = ", ".join(self.releases)
            raise InputError(f"{names} have different strategies, so they are no replicates. Drop --pool.")
        return {"all together": every}


def read_given(truth: Path, releases: list[Path], codebook: Path, *, units: Path | None) -> Given:
    """Read the truth and each release: a release's folder, or a table that the same codebook describes.

    Without a list of units, that of the first folder is used: a truth that leaves out empty units has them too.
    """
    from tallyveil.files.release_folder.read_folder import read_release
    from tallyveil.files.tables.read import read_counts
    from tallyveil.release.release import Release

    borrowed = next((path for path in releases if (path / "spine.parquet").exists()), None) if units is None else None
    listed = units if borrowed is None else borrowed / "spine.parquet"
    try:
        people = read_counts(truth, codebook, units=listed)
    except UnknownUnitError as problem:
        if borrowed is None:
            raise
        raise InputError(f"{truth}: {problem.code!r} is no unit of {borrowed}. Give a release of these data.") from None
    if people.total() == 0:
        raise InputError(f"{truth}: nobody is counted in it. Give the precise counts.")
    found: dict[str, Release] = {}
    for path in releases:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder. Give a release's folder, or a table of its counts.")
        if releases.count(path) > 1:
            raise InputError(f"{path}: given twice. Give each release once.")
        name = path.name if path.name not in found else str(path)
        if path.is_dir():
            found[name] = read_release(path)
        else:
            found[name] = Release(histogram=read_counts(path, codebook, units=listed))
        there, here = found[name].histogram.total(), people.total()
        if abs(there - here) > 0.1 * max(there, here):
            words = f"{path} has {there:,} persons and {truth} {here:,}. Are they of the same people?"
            typer.echo(f"tallyveil: {words}", err=True)
    return Given(truth=people, releases=found)


def find_areas(path: Path | None, people: Histogram) -> Areas | None:
    """The areas in a file, if one is named."""
    from tallyveil.files.tables.side import read_areas

    if path is None:
        return None
    found = read_areas(path, people.spine)
    if not found.names:
        raise InputError(f"{path}: no areas are in it. Give one row for each {people.spine.leaf} of an area.")
    return found


def find_homes(housing: Path | None, given: Given) -> Histogram | Facilities | None:
    """Occupied homes: from a table of housing units, or from the facilities of a release."""
    from tallyveil.files.tables.side import read_housing

    if housing is not None:
        return read_housing(housing, given.truth.spine)
    built = (release.facilities for release in given.releases.values())
    return next((one for one in built if one is not None and one.spine == given.truth.spine), None)
