"""A release as a microdata detail file (MDF), in its folder beside the counts.

The files are a function of the release: ``verify`` renders them again and compares. They hold no more than the folder
does. In 1940 the units are the facilities, all occupied, because vacant units are not part of a release. In 2020 only
persons are written: which housing units are vacant is not part of a release of persons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from tallyveil.errors import InputError
from tallyveil.files.formats.census import BLOCK, DISTRICT
from tallyveil.files.formats.mdf_1940 import mdf_1940_pieces
from tallyveil.files.formats.mdf_2020 import mdf_2020_persons
from tallyveil.files.formats.places import leaf_digits
from tallyveil.files.release_folder.findings import BrokenError
from tallyveil.files.release_folder.layout import MDF_FILES
from tallyveil.files.release_folder.strict import ReadRelease
from tallyveil.files.tables.stamps import STAMPS, stamp_lines
from tallyveil.nouns.census_schemas import PERSONS_1940, PERSONS_2020, UNITS_2020
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.strategy import Strategy

PERSONS_FILE, UNITS_FILE = MDF_FILES[:2]


def refuse_unless_mdf(people: Histogram, strategy: Strategy) -> None:
    """Refuse counts that have no microdata detail file, before any noise is drawn."""
    if people.schema not in (PERSONS_1940, PERSONS_2020):
        raise InputError(
            "--mdf is for counts on schemas.PERSONS_1940 or schemas.PERSONS_2020, and these have other attributes or "
            "labels. Leave it out."
        )
    leaf_digits(people.spine, DISTRICT if people.schema == PERSONS_1940 else BLOCK)
    bounded = [c for c in strategy.constraints if isinstance(c, FacilityBounds) and c.level == people.spine.leaf]
    if people.schema == PERSONS_1940 and not bounded:
        raise InputError(
            f"--mdf places every person in a unit, so the strategy must bound persons by facilities at level "
            f"{people.spine.leaf}, as e2e-2018 does. Add such bounds, or leave --mdf out."
        )


def write_mdf_files(people: Histogram, facilities: Facilities | None, folder: Path) -> None:
    """Write the microdata detail file of a release into its folder."""
    for name, pieces in _pieces(people, facilities).items():
        with (folder / name).open("wb") as file:
            for piece in pieces:
                file.write(piece)


def check_mdf_files(release: ReadRelease) -> str:
    """The microdata detail file, if there is one, is that of the counts, byte for byte."""
    there = {name for name in MDF_FILES if name in release.folder.files}
    if not there:
        return "not in the folder"
    refuse_unless_mdf(release.people, release.strategy)
    right = _pieces(release.people, release.facilities)
    if there != set(right):
        raise BrokenError(f"the folder has {', '.join(sorted(there))}, but an MDF consists of {', '.join(right)}")
    for name, pieces in right.items():
        digest, stated = sha256(), sha256()
        for piece in pieces:
            digest.update(piece)
        file = release.folder.read(name)
        while block := file.read(1 << 20):
            stated.update(block)
        if digest.digest() != stated.digest():
            raise BrokenError(f"{name} does not hold the persons of release.parquet as tallyveil writes them")
    return f"{release.people.total():,} persons, as in the counts"


def _pieces(people: Histogram, facilities: Facilities | None) -> Mapping[str, Iterable[bytes | memoryview]]:
    """The files of a release's MDF by name."""
    if people.schema == PERSONS_2020:
        lines = "".join(f"{line}\n" for line in stamp_lines(people)).encode()
        return {PERSONS_FILE: mdf_2020_persons(people)} | ({STAMPS: [lines]} if lines else {})
    if facilities is None:
        raise InputError("the release has no facilities for its persons to live in. Give them, or leave --mdf out.")
    homes = facilities.leaves.dense()[:, 0]
    occupied = Histogram.from_entries(
        people.spine, UNITS_2020, unit=homes.nonzero()[0], cell=[1] * int((homes > 0).sum()), count=homes[homes > 0]
    )
    persons, units = mdf_1940_pieces(people, facilities, occupied)
    return {PERSONS_FILE: persons, UNITS_FILE: units}
