"""Microdata detail files of 1940 and 2020: known rows, round trips, and every kind of bad input."""

import gzip
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tables import with_peak_memory
from test_ipums import cell, cells, damaged, few, populations, same, town

from tallyveil import Histogram, Spine
from tallyveil.errors import InputError
from tallyveil.files import Census1940, Census2020, read_mdf_1940, read_mdf_2020, write_mdf_1940, write_mdf_2020
from tallyveil.files.formats import mdf_write
from tallyveil.nouns.census_schemas import PERSONS_1940, PERSONS_2020, RACES_2020, TYPES_1940, TYPES_2020, UNITS_2020
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities
from tallyveil.privacy.sentences import HOUSING

BLOCKS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}

# --- 1940: 23 fields of a person, 25 of a unit


def person(euid=1, epnum=1, *, rtype=3, age=18, hisp=1, race=1, place="44|0010|0001") -> bytes:
    rest = "|".join(["9999"] * 9)
    return f"MPD1940|3.1.4|{place}|{euid}|{epnum}|{rtype}|99|9|{age}|{hisp}|{race}|{rest}|9\n".encode()


def unit(euid=1, *, rtype=2, gqtype=0, ten=9, vacs=0, pop=0, place="44|0010|0001") -> bytes:
    rest = "9|99|99|9|9|9|999|9|99|9|99|99|99|99"
    return f"MUD1940|3.1.4|{place}|{euid}|{rtype}|{gqtype}|{ten}|{vacs}|{pop}|{rest}\n".encode()


UNITS = (
    unit(1, pop=2)
    + unit(2, pop=1)
    + unit(3, rtype=4, gqtype=6, ten=0, pop=1)
    + unit(4, ten=0, vacs=9)
    + unit(5, ten=0, vacs=9, place="09|0030|0007")
)
PERSONS = person(1, 1) + person(2, 1, age=17, race=6) + person(1, 2, hisp=2, race=2) + person(3, 1, rtype=5)
HEADERS = [
    b"SCHEMA_TYPE_CODE|SCHEMA_BUILD_ID|STATE|COUNTY|ENUMDIST|EUID|EPNUM|RTYPE|QREL|QSEX|QAGE|CENHISP|CENRACE|QSPANX|"
    b"QRACE1|QRACE2|QRACE3|QRACE4|QRACE5|QRACE6|QRACE7|QRACE8|CIT\n",
    b"SCHEMA_TYPE_CODE|SCHEMA_BUILD_ID|STATE|COUNTY|ENUMDIST|EUID|RTYPE|GQTYPE|TEN|VACS|FINAL_POP|HHT|HHT2|NPF|CPLT|"
    b"UPART|MULTG|HHLDRAGE|HHSPAN|HHRACE|PAOC|P18|P60|P65|P75\n",
]


@pytest.fixture
def read(tmp_path):
    """Read some bytes as the two files of 1940."""

    def read_bytes(persons: bytes = PERSONS, units: bytes = UNITS, **options) -> Census1940:
        (tmp_path / "MDF_PER.dat").write_bytes(persons)
        (tmp_path / "MDF_UNIT.dat").write_bytes(units)
        return read_mdf_1940(tmp_path / "MDF_PER.dat", **options)

    return read_bytes


def test_two_small_files_of_1940_are_read_cell_by_cell(read):
    census = read()
    assert census.people.spine.labels("enumdist") == ["0900300007", "4400100001"]
    assert census.people.spine.labels("county") == ["090030", "440010"]
    assert cells(census.people.leaves) == {
        (1, cell("household")): 1,
        (1, cell("household", "minor", race="other_asian")): 1,
        (1, cell("household", hispanic="hispanic", race="black")): 1,
        (1, cell("military")): 1,
    }
    assert cells(census.facilities.leaves) == {(1, 0): 2, (1, 4): 1}
    assert cells(census.housing.leaves) == {(0, 0): 1, (1, 0): 1, (1, 1): 2}


@pytest.mark.parametrize(("code", "kind"), [(2, 1), (3, 2), (4, 3), (6, 4), (7, 5), (8, 6), (9, 7)])
def test_the_unit_tells_the_type_of_its_persons_group_quarters(read, code, kind):
    census = read(person(7, rtype=5), unit(7, rtype=4, gqtype=code, ten=0, pop=1))
    assert cells(census.people.leaves) == {(0, 24 * kind + 12): 1}
    assert cells(census.facilities.leaves) == {(0, kind): 1}


def test_the_rows_of_1940_are_those_of_the_layout(tmp_path):
    census = town(vacant=1)
    persons, units = write_mdf_1940(census.people, census.facilities, census.housing, tmp_path)
    dealt = ((1, 1), (2, 1), (1, 2), (2, 2), (1, 3))
    note = b"# MDF_PER of 1940, written by tallyveil\n"
    assert persons.read_bytes() == note + b"".join(person(*pair) for pair in dealt) + person(3, 1, rtype=5)
    assert units.read_bytes() == (
        b"# MDF_UNIT of 1940, written by tallyveil\n"
        + f"# {HOUSING}\n".encode()
        + unit(1, pop=3)
        + unit(2, pop=2)
        + unit(3, rtype=4, gqtype=2, ten=0, pop=1)
        + unit(4, ten=0, vacs=9)
    )
    assert [row.count(b"|") for row in (person(), unit())] == [22, 24]


@few
@given(populations(), st.sampled_from([5001, 1 << 20]), st.sampled_from([50, 1 << 18]))
def test_what_is_written_in_1940_reads_back_the_same(tmp_path_factory, census, piece, rows):
    folder = tmp_path_factory.getbasetemp()
    before, mdf_write.ROWS = mdf_write.ROWS, rows
    try:
        persons, units = write_mdf_1940(census.people, census.facilities, census.housing, folder)
    finally:
        mdf_write.ROWS = before
    assert same(read_mdf_1940(persons, units, piece=piece, threads=1 + piece % 2), census)


@pytest.mark.parametrize("piece", [1, 90, 1000])
@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_and_threads_do_not_change_what_is_read(read, piece, threads):
    assert same(read(piece=piece, threads=threads), read())


def test_metadata_headers_line_ends_and_gzip_are_read(read):
    plain = read()
    assert same(read(b"# made by\n# someone\n" + PERSONS, b"# units\n" + UNITS + b"# the end\n"), plain)
    assert same(read(HEADERS[0] + PERSONS, b"# one\n" + HEADERS[1] + UNITS), plain)
    assert same(read(PERSONS.replace(b"\n", b"\r\n"), (HEADERS[1] + UNITS).replace(b"\n", b"\r\n")), plain)
    assert same(read(PERSONS[:-1], UNITS[:-1]), plain)
    assert same(read(b"\xef\xbb\xbf" + HEADERS[0] + PERSONS, b"\xef\xbb\xbf" + UNITS), plain)
    assert same(read(gzip.compress(PERSONS), gzip.compress(UNITS)), plain)


def test_a_header_may_name_columns_in_another_order(read):
    def turned(rows: bytes) -> bytes:
        return b"".join(b"|".join(row.split(b"|")[::-1]) + b"\n" for row in rows.splitlines())

    assert same(read(turned(HEADERS[0] + PERSONS), turned(HEADERS[1] + UNITS)), read())


def test_a_file_of_units_alone_gives_empty_districts(read):
    census = read(HEADERS[0], unit(1))
    assert (census.people.total(), census.facilities.leaves.total()) == (0, 1)


BAD_1940 = {
    "too few fields": (
        (person()[:-3] + b"\n", unit(pop=1)),
        "MDF_PER.dat, line 1 has 22 fields, but a row of persons has 23. It is truncated, or its fields are not "
        "separated by '|': correct the row, or fetch the file again.",
    ),
    "other delimiter": ((PERSONS.replace(b"|", b","), UNITS), "MDF_PER.dat, line 1 has 1 fields, but a row of persons"),
    "blank line": ((person() + b"\n", unit(pop=1)), "MDF_PER.dat, line 2 has 1 fields, but a row of persons has 23."),
    "units for persons": ((UNITS, UNITS), "MDF_PER.dat, line 1 has 25 fields, but a row of persons has 23."),
    "missing columns": (
        (HEADERS[0].replace(b"QAGE", b"AGE").replace(b"CENRACE", b"RACE") + PERSONS, UNITS),
        "MDF_PER.dat, line 1: the header has no column QAGE, CENRACE. A file of persons has the columns SCHEMA_TYPE_",
    ),
    "column twice": (
        (HEADERS[0].replace(b"CIT", b"QSEX") + PERSONS, UNITS),
        "MDF_PER.dat, line 1: the header names a column twice. Name each column once.",
    ),
    "code unknown": (
        (b"# note\n" + person() + person(race=7), unit(pop=2)),
        "MDF_PER.dat, line 3, column CENRACE: '7' is not a known code (1, 2, 3, 4, 5, 6). Correct the row.",
    ),
    "age unknown": ((person(age=136), UNITS), "column QAGE: '136' is not a known code (0 to 135)."),
    "code too large": ((person(hisp=200), UNITS), "column CENHISP: '200' is not a known code (1, 2)."),
    "not a number": (
        (person(race="x"), UNITS),
        "MDF_PER.dat, line 1, column CENRACE: 'x' is not a whole number of at most 9 digits. Correct the row.",
    ),
    "nothing": ((person(age=""), UNITS), "column QAGE: '' is not a whole number of at most 9 digits."),
    "long number": ((person(10**9), UNITS), "column EUID: '1000000000' is not a whole number of at most 9 digits."),
    "accents": ((person(race="\xe9"), UNITS), "column CENRACE: '\\xc3\\xa9' is not a whole number"),
    "leading zero lost": (
        (person(place="9|0030|0007"), UNITS),
        "MDF_PER.dat, line 1, column STATE: '9' has 1 digits, not 2. Keep leading zeros.",
    ),
    "contradiction": (
        (PERSONS, unit(rtype=4, gqtype=0)),
        "MDF_UNIT.dat, line 1: the codes contradict each other (RTYPE '4', GQTYPE '0', VACS '0'). Correct the row.",
    ),
    "quarters that are vacant": ((PERSONS, unit(rtype=4, gqtype=2, vacs=9)), "the codes contradict each other"),
    "gqtype 5": (
        (PERSONS, unit(rtype=4, gqtype=5)),
        "column GQTYPE: '5' is not a known code (0, 2, 3, 4, 6, 7, 8, 9).",
    ),
    "no such unit": (
        (person(9), UNITS),
        "MDF_PER.dat, line 1, column EUID: '9' is not a unit of the file of units. Give the two files of one run.",
    ),
    "unit beyond all": ((person(999999), UNITS), "column EUID: '999999' is not a unit of the file of units."),
    "unit elsewhere": (
        (person(5), UNITS),
        "MDF_PER.dat, line 1, column EUID: '5' is a unit of another place. Give the two files of one run.",
    ),
    "vacant unit": ((person(4), UNITS), "column EUID: '4' is a vacant unit, where nobody can live."),
    "unit of another kind": (
        (person(3), UNITS),
        "column EUID: '3' is a unit of another kind than RTYPE says (RTYPE '3', QAGE '18', CENHISP '1', CENRACE '1').",
    ),
    "unit twice": ((PERSONS, UNITS + unit(2)), "MDF_UNIT.dat: EUID 2 occurs twice. Give each unit its own number."),
    "units not numbered": (
        (PERSONS, unit(123456789)),
        "MDF_UNIT.dat: EUID 123456789 in the first 1 units. EUID must number the units from 0 or 1: number them again",
    ),
    "persons missing": (
        (PERSONS[: -len(person(3, 1, rtype=5))], UNITS),
        "MDF_PER.dat: enumdist '4400100001' has 3 persons, but 4 by FINAL_POP in MDF_UNIT.dat. One file is cut short, "
        "or they are of different runs.",
    ),
    "empty persons": ((b"", UNITS), "MDF_PER.dat: the file is empty. Fetch it again, or name another."),
    "no rows": ((PERSONS, b"# only this\n"), "MDF_UNIT.dat: the file has no rows. Fetch it again, or name another."),
    "only a header": ((PERSONS, HEADERS[1]), "MDF_UNIT.dat: the file has no rows."),
    "binary": ((b"MPD\0\1\2", UNITS), "MDF_PER.dat: the file is binary, not text."),
    "utf-16": ((PERSONS.decode().encode("utf-16"), UNITS), "MDF_PER.dat: the file is UTF-16, not plain text."),
}


@pytest.mark.parametrize("case", BAD_1940)
def test_bad_files_of_1940_are_refused_with_place_value_and_remedy(read, case):
    files, text = BAD_1940[case]
    for options in ({}, {"piece": 40, "threads": 3}):
        with pytest.raises(InputError, match=re.escape(text)):
            read(*files, **options)


def test_an_euid_that_returns_in_a_later_piece_occurs_twice_too(read):
    with pytest.raises(InputError, match=r"EUID 1 occurs twice"):
        read(PERSONS, UNITS + unit(1), piece=100)


def test_the_line_of_a_wrong_row_counts_metadata_header_and_earlier_pieces(read):
    persons = b"# a\n# b\n" + HEADERS[0] + person() * 50 + b"# c\n" + person(race=9) + person(race=8) * 50
    for options in ({}, {"piece": 100, "threads": 3}):
        with pytest.raises(InputError, match=r"MDF_PER\.dat, line 55, column CENRACE: '9'"):
            read(persons, unit(pop=51), **options)


def test_units_are_looked_for_beside_persons_and_asked_for_where_absent(tmp_path):
    (tmp_path / "run1-MDF_PER.dat").write_bytes(PERSONS)
    text = r"there is no file of units beside it \(named with MDF_UNIT in place of MDF_PER\)\. Put it there"
    with pytest.raises(InputError, match=text):
        read_mdf_1940(tmp_path / "run1-MDF_PER.dat")
    (tmp_path / "run1-MDF_UNIT.dat").write_bytes(UNITS)
    assert read_mdf_1940(tmp_path / "run1-MDF_PER.dat").people.total() == 4
    with pytest.raises(InputError, match=r"nowhere\.dat: no such file"):
        read_mdf_1940(tmp_path / "run1-MDF_PER.dat", tmp_path / "nowhere.dat")


def test_memory_does_not_grow_with_the_number_of_persons(tmp_path):
    persons, units, peaks = tmp_path / "MDF_PER.dat", tmp_path / "MDF_UNIT.dat", []
    for number in (2_000, 100_000):
        persons.write_bytes(person() * number)
        units.write_bytes(unit(pop=number))
        read_mdf_1940(persons, piece=1 << 16)
        census, peak = with_peak_memory(lambda: read_mdf_1940(persons, piece=1 << 16))
        assert census.people.total() == number
        peaks.append(peak)
    assert persons.stat().st_size > 9e6
    assert peaks[1] < 1.5e6
    assert peaks[1] < peaks[0] + 4e5


# --- 2020

HEAD_PERSONS = (
    b"SCHEMA_TYPE_CODE|SCHEMA_BUILD_ID|TABBLKST|TABBLKCOU|TABTRACTCE|TABBLKGRPCE|TABBLK|EPNUM|RTYPE|GQTYPE_PL|"
    b"VOTING_AGE|CENHISP|CENRACE\n"
)
HEAD_UNITS = b"SCHEMA_TYPE_CODE|SCHEMA_BUILD_ID|TABBLKST|TABBLKCOU|TABTRACTCE|TABBLKGRPCE|TABBLK|RTYPE|HH_STATUS\n"


def resident(epnum=1, *, rtype=3, kind=0, age=2, hisp=1, race="01", block="44|001|030100|1|1000") -> bytes:
    return f"MPD2020|1.1.0|{block}|{epnum}|{rtype}|{kind}|{age}|{hisp}|{race}\n".encode()


def home(rtype=2, status=1, *, block="44|001|030100|1|1000") -> bytes:
    return f"MUD2020|1.1.0|{block}|{rtype}|{status}\n".encode()


@pytest.fixture
def read20(tmp_path):
    """Read some bytes as files of 2020."""

    def read_bytes(persons: bytes, units: bytes | None = None, **options) -> Census2020:
        (tmp_path / "persons.txt").write_bytes(persons)
        if units is None:
            return read_mdf_2020(tmp_path / "persons.txt", **options)
        (tmp_path / "units.txt").write_bytes(units)
        return read_mdf_2020(tmp_path / "persons.txt", tmp_path / "units.txt", **options)

    return read_bytes


def test_small_files_of_2020_are_read_cell_by_cell(read20):
    other = "44|001|030100|2|2003"
    persons = (
        HEAD_PERSONS
        + resident()
        + resident(2, age=1, hisp=2, race="63")
        + resident(3, rtype=5, kind=7, race="07", block=other)
    )
    units = HEAD_UNITS + home() + home(2, 2) + home(4, 0, block=other) + home(2, 2, block="09|001|000100|0|0001")
    census = read20(persons, units)
    spine = census.people.spine
    assert spine.levels == ("us", "state", "county", "tract", "block_group", "block")
    assert spine.labels("block") == ["090010001000001", "440010301001000", "440010301002003"]
    assert spine.labels("block_group") == ["090010001000", "440010301001", "440010301002"]
    assert (spine.labels("tract"), spine.labels("county")) == (["09001000100", "44001030100"], ["09001", "44001"])
    shape = PERSONS_2020.shape
    assert cells(census.people.leaves) == {
        (1, int(np.ravel_multi_index((0, 1, 0, 0), shape))): 1,
        (1, int(np.ravel_multi_index((0, 0, 1, 62), shape))): 1,
        (2, int(np.ravel_multi_index((7, 1, 0, RACES_2020.index("white+black")), shape))): 1,
    }
    assert cells(census.housing.leaves) == {(0, 0): 1, (1, 0): 1, (1, 1): 1}
    assert census.facilities.types == ("housing_unit", "group_quarters")
    assert census.facilities.leaves.dense().tolist() == [[1, 0], [2, 0], [0, 1]]


def test_persons_of_2020_alone_are_read_without_housing(read20):
    census = read20(HEAD_PERSONS + resident())
    assert (census.people.total(), census.housing, census.facilities) == (1, None, None)


def test_either_line_end_and_metadata_are_read_in_2020(read20):
    data = HEAD_PERSONS + resident() + resident(2, race="63")
    plain = cells(read20(data).people.leaves)
    assert len(plain) == 2
    for other in (data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\r\n")[:-1], data[:-1], b"# a\n" + data):
        assert cells(read20(other).people.leaves) == plain
        assert cells(read20(other, piece=10).people.leaves) == plain


@st.composite
def blocks_of_2020(draw) -> tuple[Histogram, Facilities, Histogram]:
    codes = draw(
        st.lists(
            st.from_regex(r"(09|44)00[12]00010[01][0-3]00[0-9]", fullmatch=True), min_size=1, max_size=5, unique=True
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    spine = Spine.from_codes(codes, lengths=BLOCKS, root="us")
    size, density = len(codes), draw(st.sampled_from([0.0, 0.002, 0.1]))
    people = rng.integers(1, 5, (size, 2016)) * (rng.random((size, 2016)) < density) * PERSONS_2020.possible
    homes = rng.integers(0, 4, (size, 2))
    built = rng.integers(0, 3, (size, 8))
    built[:, 0] = homes.sum(axis=1)
    built[:, 1] += built.sum(axis=1) == 0  # every block has something
    return (
        Histogram(spine=spine, schema=PERSONS_2020, leaves=Counts.from_dense(people)),
        Facilities(spine=spine, attribute="hhgq", types=TYPES_2020, leaves=Counts.from_dense(built)),
        Histogram(spine=spine, schema=UNITS_2020, leaves=Counts.from_dense(homes)),
    )


@few
@given(blocks_of_2020(), st.sampled_from([2000, 1 << 20]))
def test_what_is_written_in_2020_reads_back_the_same(tmp_path_factory, parts, piece):
    people, facilities, housing = parts
    persons, units = write_mdf_2020(*parts, tmp_path_factory.getbasetemp())
    census = read_mdf_2020(persons, units, piece=piece)
    assert census.people.spine == people.spine
    assert cells(census.people.leaves) == cells(people.leaves)
    assert cells(census.housing.leaves) == cells(housing.leaves)
    quarters = facilities.leaves.dense()[:, 1:].sum(axis=1)
    assert census.facilities.leaves.dense()[:, 1].tolist() == quarters.tolist()


def hamlet(*, homes=(1, 2), households=3, code="440010301001000") -> tuple[Histogram, Facilities, Histogram]:
    spine = Spine.from_codes([code], lengths=BLOCKS, root="us")
    return (
        Histogram.from_entries(spine, PERSONS_2020, unit=[0, 0], cell=[126, 252 + 188], count=[2, 1]),
        Facilities.from_entries(
            spine, attribute="hhgq", types=TYPES_2020, unit=[0, 0], kind=[0, 1], count=[households, 1]
        ),
        Histogram.from_entries(spine, UNITS_2020, unit=[0, 0], cell=[0, 1], count=list(homes)),
    )


def test_the_rows_of_2020_are_those_of_the_layout(tmp_path):
    persons, units = write_mdf_2020(*hamlet(), tmp_path)
    assert persons.read_bytes() == (
        HEAD_PERSONS + resident(1) + resident(2) + resident(3, rtype=5, kind=1, age=2, hisp=1, race="63")
    )
    assert units.read_bytes() == HEAD_UNITS + home(2, 2) + home(2, 1) * 2 + home(4, 0)


BAD_2020 = {
    "no header": (
        resident(),
        "persons.txt, line 1: the header is missing; it starts 'MPD2020|1.1.0|44|001|030100|1|1000|1|3|0'. The first "
        "line must name the columns: SCHEMA_TYPE_CODE|SCHEMA_BUILD_ID|TABBLKST|",
    ),
    "units for persons": (
        HEAD_UNITS + home(),
        "persons.txt, line 1: the header has no column GQTYPE_PL, VOTING_AGE, CENHISP, CENRACE. A file of persons has",
    ),
    "block outside its group": (
        HEAD_PERSONS + resident(block="44|001|030100|2|1000"),
        "persons.txt, line 2, column TABBLK: '1000' does not begin with the block group's digit (TABBLKGRPCE '2', ",
    ),
    "type against kind of record": (
        HEAD_PERSONS + resident(rtype=3, kind=4),
        "persons.txt, line 2: the codes contradict each other (TABBLKGRPCE '1', RTYPE '3', GQTYPE_PL '4', VOTING_AGE "
        "'2', CENHISP '1', CENRACE '01'). Correct the row.",
    ),
    "minor in a nursing home": (
        HEAD_PERSONS + resident(rtype=5, kind=3, age=1),
        "the codes contradict each other (TABBLKGRPCE '1', RTYPE '5', GQTYPE_PL '3', VOTING_AGE '1'",
    ),
    "race 64": (HEAD_PERSONS + resident(race="64"), "column CENRACE: '64' is not a known code (1 to 63)."),
    "race cut": (HEAD_PERSONS + resident(race="6"), "column CENRACE: '6' has 1 digits, not 2. Keep leading zeros."),
    "tract cut": (
        HEAD_PERSONS + resident(block="44|001|30100|1|1000"),
        "persons.txt, line 2, column TABTRACTCE: '30100' has 5 digits, not 6. Keep leading zeros.",
    ),
    "cut short": (
        HEAD_PERSONS + resident() + resident()[:-6],
        "persons.txt, line 3 has 11 fields, but a row of persons has 13.",
    ),
    "only a header": (HEAD_PERSONS, "persons.txt: the file has no rows. Fetch it again, or name another."),
    "empty": (b"", "persons.txt: the file is empty."),
}


@pytest.mark.parametrize("case", BAD_2020)
def test_bad_files_of_2020_are_refused_with_place_value_and_remedy(read20, case):
    data, text = BAD_2020[case]
    with pytest.raises(InputError, match=re.escape(text)):
        read20(data)


@pytest.mark.parametrize(("rtype", "status"), [(2, 0), (4, 1), (4, 2)])
def test_a_unit_of_2020_whose_status_does_not_fit_is_refused(read20, rtype, status):
    with pytest.raises(InputError, match=rf"units.txt, line 3: .*contradict.*RTYPE '{rtype}', HH_STATUS '{status}'"):
        read20(HEAD_PERSONS + resident(), HEAD_UNITS + home() + home(rtype, status))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            hamlet(homes=(1, 1)),
            "block '440010301001000': facilities and housing differ by 1 housing units. In 2020 the",
        ),
        (
            (*hamlet()[:2], hamlet(code="440010301001001")[2]),
            "people, facilities and housing stand on different spines. Build them on one.",
        ),
        ((hamlet()[2], *hamlet()[1:]), "holds people on schemas.PERSONS_2020, facilities of schemas.TYPES_2020"),
    ],
)
def test_counts_that_files_of_2020_cannot_hold_are_refused(tmp_path, parts, text):
    with pytest.raises(InputError, match=re.escape(text)):
        write_mdf_2020(*parts, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("census", "text"),
    [
        (
            town(built=(2,)),
            "enumdist '4400100001' has 1 persons of type 'correctional' but no such unit to live in. Correct "
            "people or facilities.",
        ),
        (
            town(occupied=5),
            "enumdist '4400100001' has 2 households but 5 occupied housing units. In 1940 they are the same: correct "
            "facilities or housing.",
        ),
        (
            Census1940(people=town(code="4400100002").people, facilities=town().facilities, housing=town().housing),
            "people, facilities and housing stand on different spines. Build them on one.",
        ),
        (
            Census1940(people=town().housing, facilities=town().facilities, housing=town().housing),
            "holds people on schemas.PERSONS_1940, facilities of schemas.TYPES_1940 and housing on schemas.UNITS_2020.",
        ),
        (town(code="44001000x1"), "enumdist '44001000x1' is not the first 10 digits of its enumdist codes."),
    ],
)
def test_counts_that_files_of_1940_cannot_hold_are_refused(tmp_path, census, text):
    with pytest.raises(InputError, match=re.escape(text)):
        write_mdf_1940(census.people, census.facilities, census.housing, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_other_levels_are_refused_with_both_lists(tmp_path):
    spine = Spine.from_codes(["4400100001"], lengths={"state": 2, "district": 10}, root="us")
    parts = [
        Histogram(spine=spine, schema=schema, leaves=Counts.from_dense(np.zeros((1, schema.cells), np.int64)))
        for schema in (PERSONS_1940, UNITS_2020)
    ]
    built = Facilities.from_entries(spine, attribute="hhgq", types=TYPES_1940, unit=[], kind=[], count=[])
    with pytest.raises(
        InputError, match=r"levels us, state, county, enumdist, but the spine has us, state, district\."
    ):
        write_mdf_1940(parts[0], built, parts[1], tmp_path)


@pytest.mark.parametrize("year", [1940, 2020])
def test_a_failure_leaves_neither_file(tmp_path, monkeypatch, year):
    real, calls = mdf_write._render_rows, []

    def fail(*arguments):
        calls.append(1)
        if len(calls) > 1:  # the persons are written, the units are not
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(mdf_write, "_render_rows", fail)
    write = {1940: write_mdf_1940, 2020: write_mdf_2020}[year]
    parts = (town().people, town().facilities, town().housing) if year == 1940 else hamlet()
    with pytest.raises(KeyboardInterrupt):
        write(*parts, tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- stamps

SEEDED, LABELS = "seeded: not for publication", "labels from data: not covered by the guarantee"


def parts_of(year):
    census = town(vacant=1)
    return (census.people, census.facilities, census.housing) if year == 1940 else hamlet()


@pytest.mark.parametrize("year", [1940, 2020])
def test_stamps_of_people_and_housing_are_written_with_the_files_and_read_back(tmp_path, year):
    write, read_back = {1940: (write_mdf_1940, read_mdf_1940), 2020: (write_mdf_2020, read_mdf_2020)}[year]
    people, facilities, housing = parts_of(year)
    bare = read_back(*write(people, facilities, housing, tmp_path))
    assert bare.people.stamps == bare.housing.stamps == ()
    people, housing = replace(people, stamps=(SEEDED,)), replace(housing, stamps=(LABELS, SEEDED))
    census = read_back(*write(people, facilities, housing, tmp_path))
    assert census.people.stamps == census.housing.stamps == (SEEDED, LABELS)
    assert census.people == bare.people
    said = (tmp_path / ("MDF_PER.dat" if year == 1940 else "STAMPS.txt")).read_text()
    assert f"Stamped: {SEEDED}\n" in said
    again = read_back(*write(*parts_of(year), tmp_path))  # what stood there before is gone
    assert again.people.stamps == ()


def test_stamps_of_1940_are_read_from_either_file_of_a_pair(tmp_path):
    people, facilities, housing = parts_of(1940)
    persons, units = write_mdf_1940(replace(people, stamps=(SEEDED,)), facilities, housing, tmp_path)
    persons.write_bytes(b"".join(line for line in persons.read_bytes().splitlines(True) if line[:1] != b"#"))
    assert read_mdf_1940(persons, units).people.stamps == (SEEDED,)


@pytest.mark.parametrize("year", [1940, 2020])
def test_files_of_units_say_that_housing_is_written_without_noise(tmp_path, year):
    {1940: write_mdf_1940, 2020: write_mdf_2020}[year](*parts_of(year), tmp_path)
    said = (tmp_path / ("MDF_UNIT.dat" if year == 1940 else "STAMPS.txt")).read_text()
    assert "Occupied and vacant housing units and group quarters are written exactly as they were given" in said
    assert "these are true counts, which no guarantee covers" in said


def test_a_stamp_of_several_lines_stays_one_line_of_metadata(tmp_path):
    people, facilities, housing = parts_of(1940)
    broken = replace(people, stamps=("one\nMPD1940|3.1.4|44|0010|0001",))
    census = read_mdf_1940(*write_mdf_1940(broken, facilities, housing, tmp_path))
    assert census.people == people
    assert census.people.stamps == ("one MPD1940|3.1.4|44|0010|0001",)


def test_a_file_of_stamps_that_is_no_text_is_refused(tmp_path):
    persons, units = write_mdf_2020(*hamlet(), tmp_path)
    (tmp_path / "STAMPS.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"STAMPS\.txt: cannot be read as text .*Correct it, or remove it"):
        read_mdf_2020(persons, units)


# --- anything at all


@few
@given(
    st.one_of(damaged(PERSONS), st.just(PERSONS), st.binary(max_size=200)),
    st.one_of(damaged(UNITS), damaged(HEADERS[1] + UNITS), st.just(UNITS)),
    st.sampled_from([16, 1 << 20]),
)
def test_any_files_of_1940_are_read_or_refused_and_never_break(tmp_path_factory, persons, units, piece):
    folder = tmp_path_factory.getbasetemp()
    (folder / "fuzz_MDF_PER.dat").write_bytes(persons)
    (folder / "fuzz_MDF_UNIT.dat").write_bytes(units)
    try:
        census = read_mdf_1940(folder / "fuzz_MDF_PER.dat", piece=piece)
    except InputError:
        return
    rows = [row for row in persons.split(b"\n") if row and not row.startswith((b"#", b"SCHEMA"))]
    assert census.people.total() == len(rows)


GOOD_2020 = HEAD_PERSONS + resident() + resident(2, rtype=5, kind=5, hisp=2, race="14") + resident(3, age=1)


@few
@given(st.one_of(damaged(GOOD_2020), st.binary(max_size=200).map(HEAD_PERSONS.__add__)), st.sampled_from([16, 1 << 20]))
def test_any_file_of_2020_is_read_or_refused_and_never_breaks(tmp_path_factory, persons, piece):
    path = tmp_path_factory.getbasetemp() / "fuzz_2020.txt"
    path.write_bytes(persons)
    try:
        census = read_mdf_2020(path, piece=piece)
    except InputError:
        return
    rows = [row for row in persons.split(b"\n") if row and not row.startswith((b"#", b"\xef")) and b"TABBLK" not in row]
    assert census.people.total() == len(rows)
