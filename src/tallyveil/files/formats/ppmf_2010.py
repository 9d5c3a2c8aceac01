"""Privacy-protected microdata files (PPMF) of the 2010 demonstration data: the 2010 census, protected as in 2020.

The Bureau published a series of them from 2019 to 2023, as CSV with a header. Columns are found by name, and others are
ignored. Files made for redistricting have GQTYPE_PL and VOTING_AGE. Those with more detail may have QAGE and a GQTYPE
of three digits instead, which are grouped here.
"""

from __future__ import annotations

import os
from dataclasses import replace

from tallyveil.files.formats.census import Census2020
from tallyveil.files.formats.lines import PIECE_BYTES, opened
from tallyveil.files.formats.mdf_2020 import PERSONS_LAYOUT, UNITS_LAYOUT, read_blocks
from tallyveil.files.formats.mdf_layout import Column, FileLayout
from tallyveil.nouns.census_schemas import TYPES_2020

SEPARATORS = b",|"
ADULT = 18


def read_ppmf_2010(
    persons_path: str | os.PathLike[str],
    units_path: str | os.PathLike[str] | None = None,
    *,
    threads: int = 2,
    piece: int = PIECE_BYTES,
) -> Census2020:
    """Read persons, and units if their file is given, on the schema and the levels of 2020.

    Blocks are those that either file lists. The counts get the stamps in ``STAMPS.txt`` beside the file of persons.
    """
    return read_blocks(
        (persons_path, _layout_in(persons_path)), None if units_path is None else (units_path, _UNITS),
        threads=threads, piece=piece,
    )  # fmt: skip


def _layout_in(path: str | os.PathLike[str]) -> FileLayout:
    """The layout for the columns that a file's header names."""
    with opened(path) as source:
        start = source.readline()
        while start.startswith(b"#"):
            start = source.readline()
    named = start.removeprefix(b"\xef\xbb\xbf").decode("latin-1").strip().replace("|", ",").split(",")
    swapped = {short: long for short, long in _INSTEAD.items() if short not in named and long.name in named}
    if not swapped:
        return _PERSONS
    return replace(
        _PERSONS,
        names=tuple(swapped[name].name if name in swapped else name for name in _PERSONS.names),
        columns=tuple(swapped.get(column.name, column) for column in _PERSONS.columns),
    )


def _type_of(code: int) -> int:
    """The type of a three-digit GQTYPE: its hundreds; 7, 8 and 9 are other noninstitutional.

    >>> [TYPES_2020[_type_of(code)] for code in (0, 101, 301, 501, 801)]
    ['household', 'correctional', 'nursing', 'college', 'other_noninstitutional']
    """
    return min(code // 100, len(TYPES_2020) - 1)


_ADDED = {column.name: column.codes or {} for column in PERSONS_LAYOUT.columns}
_PERSONS = replace(
    PERSONS_LAYOUT,
    names=tuple(name for name in PERSONS_LAYOUT.names if name not in ("SCHEMA_TYPE_CODE", "SCHEMA_BUILD_ID", "EPNUM")),
    columns=tuple(replace(c, width=0) if c.name == "CENRACE" else c for c in PERSONS_LAYOUT.columns),
    separators=SEPARATORS,
)
_UNITS = replace(UNITS_LAYOUT, names=UNITS_LAYOUT.names[2:], separators=SEPARATORS)
_INSTEAD = {
    "VOTING_AGE": Column(name="QAGE", codes={age: _ADDED["VOTING_AGE"][1 + (age >= ADULT)] for age in range(136)}),
    "GQTYPE_PL": Column(
        name="GQTYPE", codes={code: _ADDED["GQTYPE_PL"][_type_of(code)] for code in (0, *range(101, 1000))}
    ),
}
