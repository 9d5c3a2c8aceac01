"""Published microdata by the name of their format, and the demonstration files of 2010."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_ipums import SMALL, cells, same, town
from test_mdf import HEAD_PERSONS, PERSONS, UNITS, hamlet, resident

from ipums_extract import write_ipums_1940
from tallyveil.errors import InputError
from tallyveil.files import (
    UNITS_FROM_DATA,
    read_format,
    read_ipums_1940,
    read_mdf_1940,
    read_ppmf_2010,
    recognise_format,
    write_mdf_1940,
    write_mdf_2020,
)
from tallyveil.files.formats.by_name import FORMATS
from tallyveil.nouns.census_schemas import PERSONS_2020, RACES_2020, TYPES_2020

HEADER = "VINTAGE,TABBLKST,TABBLKCOU,TABTRACTCE,TABBLKGRPCE,TABBLK,RTYPE,GQTYPE_PL,VOTING_AGE,CENHISP,CENRACE"
ROWS = """\
20210428_eps12-2,01,105,686800,1,1000,3,0,2,1,01
20210428_eps12-2,01,105,686800,1,1000,3,0,1,2,07
20210428_eps12-2,01,105,686800,2,2001,5,7,2,1,63
"""


@pytest.fixture
def read(tmp_path):
    """Read some text as a demonstration file."""

    def read_text(text: str, **options):
        path = tmp_path / "ppmf_20210428_eps12-2_P.csv"
        path.write_text(text, encoding="ascii")
        return read_ppmf_2010(path, **options)

    return read_text


def cell(kind: str, age: str, hispanic: int, race: str) -> int:
    where = TYPES_2020.index(kind), ("minor", "adult").index(age), hispanic, RACES_2020.index(race)
    return int(np.ravel_multi_index(where, PERSONS_2020.shape))


EXPECTED = {
    (0, cell("household", "adult", 0, "white")): 1,
    (0, cell("household", "minor", 1, "white+black")): 1,
    (1, cell("other_noninstitutional", "adult", 0, RACES_2020[-1])): 1,
}


def test_a_demonstration_file_is_read_cell_by_cell(read):
    census = read(f"{HEADER}\n{ROWS}")
    assert census.people.spine.labels("block") == ["011056868001000", "011056868002001"]
    assert census.people.spine.labels("block_group") == ["011056868001", "011056868002"]
    assert cells(census.people.leaves) == EXPECTED
    assert census.housing is None


def test_columns_are_found_by_name_and_further_ones_are_ignored(read):
    table = pd.DataFrame([row.split(",") for row in ROWS.splitlines()], columns=HEADER.split(","))
    turned = table[table.columns[::-1]].assign(INTPTLAT="+32.5", PLACEFP="99999")
    assert cells(read(turned.to_csv(index=False)).people.leaves) == EXPECTED
    assert cells(read(table.to_csv(index=False, sep="|")).people.leaves) == EXPECTED
    assert cells(read(table.assign(CENRACE=["1", "7", "63"]).to_csv(index=False)).people.leaves) == EXPECTED


def test_ages_and_detailed_types_are_grouped(read):
    table = pd.DataFrame([row.split(",") for row in ROWS.splitlines()], columns=HEADER.split(","))
    fine = table.drop(columns=["VOTING_AGE", "GQTYPE_PL"]).assign(
        QAGE=["18", "17", "115"], GQTYPE=["000", "000", "801"]
    )
    assert cells(read(fine.to_csv(index=False)).people.leaves) == EXPECTED
    only_age = table.drop(columns="VOTING_AGE").assign(QAGE=["018", "0", "99"])
    assert cells(read(only_age.to_csv(index=False)).people.leaves) == EXPECTED


@pytest.mark.parametrize(
    ("code", "kind"),
    [("101", 1), ("203", 2), ("301", 3), ("405", 4), ("501", 5), ("602", 6), ("701", 7), ("802", 7), ("904", 7)],
)
def test_each_hundred_of_detailed_types_is_one_type(read, code, kind):
    header = HEADER.replace("GQTYPE_PL", "GQTYPE")
    row = f"v,01,105,686800,1,1000,5,{code},2,1,01\n"
    assert [c // 252 for _, c in cells(read(f"{header}\n{row}").people.leaves)] == [kind]


QUOTED = ',"01",'
BAD = {
    "no header": (
        ROWS,
        "line 1: the header is missing; it starts '20210428_eps12-2,01,105,686800,1,1000,3,'. The first",
    ),
    "a column is missing": (
        f"{HEADER.replace('CENRACE', 'RACE')}\n{ROWS}",
        "the header has no column CENRACE. A file of persons has the columns TABBLKST,TABBLKCOU,",
    ),
    "too few fields": (f"{HEADER}\n{ROWS[:30]}\n", "line 2 has 4 fields, but a row of persons has 11"),
    "a lost zero": (f"{HEADER}\n{ROWS.replace(',01,105', ',1,105')}", "column TABBLKST: '1' has 1 digits, not 2. Keep"),
    "an unknown race": (
        f"{HEADER}\n{ROWS.replace(',63', ',64')}",
        "column CENRACE: '64' is not a known code (1 to 63)",
    ),
    "a household in a dormitory": (f"{HEADER}\n{ROWS.replace(',3,0,2', ',3,5,2')}", "the codes contradict each other"),
    "another block group": (
        f"{HEADER}\n{ROWS.replace(',1,1000', ',2,1000')}",
        "column TABBLK: '1000' does not begin with the block group's digit",
    ),
    "quoted": (f"{HEADER}\n{ROWS.replace(',01,', QUOTED)}", "'\"01\"' is not a whole number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_demonstration_files_are_refused_with_place_value_and_remedy(read, case):
    text, words = BAD[case]
    with pytest.raises(InputError, match=re.escape(words)):
        read(text)


# --- by name


@pytest.fixture
def files(tmp_path):
    """A file, or a folder, of each format."""
    census = town(vacant=1)
    write_ipums_1940(census.people, census.facilities, census.housing, tmp_path / "EXT1940USCB.dat")
    for name in ("run1", "blocks"):
        (tmp_path / name).mkdir()
    write_mdf_1940(census.people, census.facilities, census.housing, tmp_path / "run1")
    write_mdf_2020(*hamlet(), tmp_path / "blocks")
    (tmp_path / "ppmf.csv").write_text(f"{HEADER}\n{ROWS}", encoding="ascii")
    names = {"ipums-1940": "EXT1940USCB.dat", "mdf-1940": "run1", "mdf-2020": "blocks", "ppmf-2010": "ppmf.csv"}
    return {name: tmp_path / file for name, file in names.items()}


def test_every_format_is_recognised_and_read_by_its_name(files):
    assert {name: recognise_format(path) for name, path in files.items()} == {name: name for name in FORMATS}
    read = {name: read_format(path, name) for name, path in files.items()}
    assert same(read["ipums-1940"], town(vacant=1))
    assert same(read["mdf-1940"], town(vacant=1))
    assert cells(read["mdf-2020"].people.leaves) == cells(hamlet()[0].leaves)
    assert read["mdf-2020"].housing is not None  # the units beside the persons
    assert cells(read["ppmf-2010"].people.leaves) == EXPECTED
    assert {census.people.stamps for census in read.values()} == {(UNITS_FROM_DATA,)}


def test_headers_metadata_and_gzip_do_not_hide_a_format(tmp_path):
    import gzip

    for number, (data, name) in enumerate(
        [
            (SMALL, "ipums-1940"),
            (gzip.compress(SMALL), "ipums-1940"),
            (b"# made by\n" + PERSONS, "mdf-1940"),
            (HEAD_PERSONS + resident(), "mdf-2020"),
            (f"{HEADER}\n{ROWS}".encode(), "ppmf-2010"),
            (b"Household,county,count\n1,2,3\n", None),
            (b"H,00000001" + b" " * 200 + b"\n", None),
            (UNITS, None),
            (b"PAR1\0\0\0", None),
            (b"", None),
        ]
    ):
        (tmp_path / str(number)).write_bytes(data)
        assert recognise_format(tmp_path / str(number)) == name
    assert recognise_format(tmp_path) is None
    assert recognise_format(tmp_path / "nowhere") is None


def test_a_list_of_units_adds_empty_ones_and_removes_the_stamp(files):
    units = pd.DataFrame(
        {"state": ["44", "44"], "county": ["440010", "440010"], "enumdist": ["4400100001", "4400100002"]}
    )
    for name in ("ipums-1940", "mdf-1940"):
        census = read_format(files[name], name, units=units)
        assert census.people.spine.labels("enumdist") == ["4400100001", "4400100002"]
        assert census.people.stamps == ()
        assert census.people.total() == town().people.total()
        assert census.facilities.spine == census.housing.spine == census.people.spine
    with pytest.raises(InputError, match=r"EXT1940USCB.dat: row 1: enumdist '4400100001' is not among the 1 units"):
        read_format(files["ipums-1940"], "ipums-1940", units=units[1:])


def test_a_format_that_does_not_exist_and_a_folder_without_persons_are_refused(files, tmp_path):
    with pytest.raises(
        InputError, match=r"'sas' is not a format. The formats are ipums-1940, mdf-1940, mdf-2020, ppmf"
    ):
        read_format(files["ppmf-2010"], "sas")
    with pytest.raises(
        InputError, match=r"there is no single file MDF_PER.\* in this folder. Name the file of persons"
    ):
        read_format(tmp_path, "mdf-1940")


def test_persons_of_an_extract_without_a_household_are_left_out_and_counted(tmp_path):
    lost = SMALL.replace(b"P      00000005", b"P      00000009")
    (tmp_path / "x.dat").write_bytes(lost)
    census = read_format(tmp_path / "x.dat", "ipums-1940")
    assert (census.dropped, census.people.total()) == (1, read_ipums_1940_total(SMALL, tmp_path) - 1)


def read_ipums_1940_total(data: bytes, folder) -> int:
    (folder / "whole.dat").write_bytes(data)
    return read_ipums_1940(folder / "whole.dat").people.total()


def test_stamps_of_a_seeded_release_stay(tmp_path):
    census, seeded = town(vacant=1), "seeded: not for publication"
    write_mdf_1940(replace(census.people, stamps=(seeded,)), census.facilities, census.housing, tmp_path)
    assert read_mdf_1940(tmp_path / "MDF_PER.dat").people.stamps == (seeded,)
    assert read_format(tmp_path, "mdf-1940").people.stamps == (seeded, UNITS_FROM_DATA)
