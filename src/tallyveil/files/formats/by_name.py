"""Published microdata by the name of their format, so that they can be read wherever a table is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tallyveil.errors import InputError
from tallyveil.files.formats.census import BLOCK, DISTRICT, Census1940, Census2020
from tallyveil.files.formats.ipums_read import H_NEEDED, read_ipums_1940
from tallyveil.files.formats.lines import opened
from tallyveil.files.formats.mdf_1940 import read_mdf_1940
from tallyveil.files.formats.mdf_2020 import read_mdf_2020
from tallyveil.files.formats.piecewise import BytesRead
from tallyveil.files.formats.ppmf_2010 import read_ppmf_2010
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.geography import read_units
from tallyveil.files.tables.sources import Source
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.sentences import UNITS_FROM_DATA

Census = Census1940 | Census2020
PERSONS_FILE, UNITS_FILE = "MDF_PER", "MDF_UNIT"


def read_format(
    path: str | os.PathLike[str],
    name: str,
    *,
    units: Source | Spine | None = None,
    progress: BytesRead | None = None,
) -> Census:
    """Read published microdata.

    Parameters
    ----------
    path
        The file of persons, or for an MDF the folder that holds it. Units are read too if their file is beside it.
    name
        ``"ipums-1940"``, ``"mdf-1940"``, ``"mdf-2020"`` or ``"ppmf-2010"``.
    units
        The public list of units, as for ``read_counts``. Without it the units are those in the file, and a release is
        stamped accordingly.
    progress
        Called with the number of bytes read and the size of an extract.

    As the Bureau did, persons of an extract who belong to no household are left out (``dropped``); the filter of the
    counts says so. Facilities are those of the same file (``from_people``).
    """
    if name not in FORMATS:
        raise InputError(f"{name!r} is not a format. The formats are {', '.join(FORMATS)}.")
    census = FORMATS[name](_persons_file(Path(path)), progress)
    if units is None:
        return census.stamped([UNITS_FROM_DATA])
    spine = read_units(units, _geography(name))
    try:
        return _moved(census, spine)
    except InputError as problem:
        raise problem.located(path) from None


def recognise_format(path: str | os.PathLike[str]) -> str | None:
    """The format of a file, or of a folder with an MDF, judged by its first line; None if it is none of these."""
    place = Path(path)
    persons = _mdf_in(place) if place.is_dir() else place
    if persons is None or not persons.is_file():
        return None
    try:
        with opened(persons) as source:
            line = source.readline()
            while line.startswith(b"#"):
                line = source.readline()
    except InputError:  # binary, such as Parquet
        return None
    start = line.removeprefix(b"\xef\xbb\xbf")
    if start[:1] == b"H" and start[7:15].isdigit() and len(start) > H_NEEDED:
        return "ipums-1940"
    if start.startswith(b"MPD1940|") or b"|ENUMDIST|EUID|" in start:
        return "mdf-1940"
    if b"TABBLKST" not in start:
        return None
    return "mdf-2020" if start.startswith(b"SCHEMA_TYPE_CODE|") and b"|GQTYPE_PL|" in start else "ppmf-2010"


def _read_ipums(path: Path, progress: BytesRead | None) -> Census:
    return read_ipums_1940(path, drop_orphans=True, progress=progress)


def _read_mdf_2020(path: Path, _: BytesRead | None) -> Census:
    units = path.with_name(path.name.replace(PERSONS_FILE, UNITS_FILE))
    return read_mdf_2020(path, units if units != path and units.exists() else None)


FORMATS: dict[str, Callable[[Path, BytesRead | None], Census]] = {
    "ipums-1940": _read_ipums,
    "mdf-1940": lambda path, _: read_mdf_1940(path),
    "mdf-2020": _read_mdf_2020,
    "ppmf-2010": lambda path, _: read_ppmf_2010(path),
}


def _persons_file(path: Path) -> Path:
    """The file itself, or the file of persons in a folder."""
    if not path.is_dir():
        return path
    found = _mdf_in(path)
    if found is None:
        raise InputError(f"{path}: there is no single file {PERSONS_FILE}.* in this folder. Name the file of persons.")
    return found


def _mdf_in(folder: Path) -> Path | None:
    """The file of persons of the MDF in a folder, if there is exactly one."""
    found = [path for path in folder.glob(f"*{PERSONS_FILE}*") if path.is_file()]
    return found[0] if len(found) == 1 else None


def _geography(name: str) -> Codebook:
    """A codebook with the geographic columns of a format."""
    lengths = DISTRICT if name.endswith("1940") else BLOCK
    return Codebook(levels=tuple(lengths), root="us", attributes={"any": ("one",)}, layout="persons")


def _moved(census: Census, spine: Spine) -> Census:
    """The same counts on a public list of units, which may have further units."""
    unit = spine.locate(spine.leaf, census.people.spine.codes[-1])

    def moved(part: Histogram) -> Histogram:
        leaves = part.leaves
        on = Histogram.from_entries(spine, part.schema, unit=unit[leaves.unit()], cell=leaves.cell, count=leaves.count)
        return replace(on, stamps=part.stamps, filter=part.filter, rows_per_person=part.rows_per_person)

    built = census.facilities
    facilities = None if built is None else replace(Facilities.from_entries(
        spine, attribute=built.attribute, types=built.types, unit=unit[built.leaves.unit()], kind=built.leaves.cell,
        count=built.leaves.count,
    ), from_people=built.from_people)  # fmt: skip
    housing = None if census.housing is None else moved(census.housing)
    return replace(census, people=moved(census.people), facilities=facilities, housing=housing)  # type: ignore[arg-type]
