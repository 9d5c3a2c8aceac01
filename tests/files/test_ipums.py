"""The IPUMS extract of 1940: hand-written files with known content, round trips, and every kind of bad input."""

import gzip
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_tables import with_peak_memory

from ipums_extract import write_ipums_1940
from tallyveil import Histogram, Spine
from tallyveil.errors import InputError
from tallyveil.files import Census1940, read_ipums_1940
from tallyveil.nouns.census_schemas import PERSONS_1940, PERSONS_1940_IPUMS, TYPES_1940, UNITS_2020
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities

LENGTHS = {"state": 2, "county": 6, "enumdist": 10}
PROFILE = settings()
few = settings(max_examples=20 if PROFILE.derandomize else PROFILE.max_examples)  # all of them in `make test-all`


def line(width: int, fields: dict[int, str]) -> bytes:
    """A line with texts at columns counted from 1."""
    row = bytearray(b" " * width)
    for column, text in fields.items():
        row[column - 1 : column - 1 + len(text)] = text.encode()
    return bytes(row)


def household(serial=1, *, state="44", county="0010", gq="1", gqtype="0", enumdist="0001", width=159) -> bytes:
    number = serial if isinstance(serial, str) else f"{serial:08d}"
    return line(width, {1: "H", 8: number, 54: state, 56: county, 94: gq, 95: gqtype, 125: enumdist})


def person(serial=1, *, age="030", race="1", hispan="0", width=273) -> bytes:
    number = serial if isinstance(serial, str) else f"{serial:08d}"
    return line(width, {1: "P", 8: number, 74: age, 85: race, 89: hispan})


def joined(*lines: bytes, end: bytes = b"\n") -> bytes:
    return b"".join(each + end for each in lines)


@pytest.fixture
def read(tmp_path):
    """Read some bytes as a file."""

    def read_bytes(data: bytes, name: str = "extract.dat", **options) -> Census1940:
        (tmp_path / name).write_bytes(data)
        return read_ipums_1940(tmp_path / name, **options)

    return read_bytes


def cells(counts: Counts) -> dict[tuple[int, int], int]:
    return {(int(u), int(c)): int(n) for u, c, n in zip(counts.unit(), counts.cell, counts.count, strict=True)}


def same(one, other) -> bool:
    parts = ((one.people, other.people), (one.facilities, other.facilities), (one.housing, other.housing))
    return all(a.spine == b.spine and cells(a.leaves) == cells(b.leaves) for a, b in parts)


def cell(kind: str, age: str = "adult", hispanic: str = "not_hispanic", race: str = "white") -> int:
    labels = PERSONS_1940.attributes.values()
    places = [list(of).index(label) for of, label in zip(labels, (kind, age, hispanic, race), strict=True)]
    return int(np.ravel_multi_index(places, PERSONS_1940.shape))


SMALL = joined(
    household(1),
    person(1, age="040"),
    person(1, age="017", race="2"),
    person(1, age="018", hispan="1", race="6"),
    household(2, gq="0", enumdist="0002"),
    household(3, gq="3", gqtype="2", enumdist="0002"),
    person(3, race="3"),
    person(3, race="3"),
    household(4, state="09", county="0030", enumdist="0007"),
    household(5),
    person(5, hispan="9"),
)


def counts_by_hand(data: bytes) -> tuple[Counter, Counter]:
    """Persons and units, read line by line in plain Python with the table of recodes."""
    kind_of = {0: 0, 2: 1, 3: 2, 4: 3, 6: 4, 7: 5, 8: 6, 9: 7}
    persons, units, place, kind = Counter(), Counter(), "", 0
    for row in data.decode().splitlines():
        if row[0] == "H":
            place, kind = row[53:59] + row[124:128], kind_of[int(row[94])]
            units[place, 8 if kind == 0 and row[93] == "0" else kind] += 1
        else:
            who = (kind, int(int(row[73:76]) >= 18), int(row[88] != "0"), int(row[84]) - 1)
            persons[place, int(np.ravel_multi_index(who, PERSONS_1940.shape))] += 1
    return persons, units


def as_counters(census: Census1940) -> tuple[Counter, Counter]:
    names = census.people.spine.labels("enumdist")
    persons = Counter({(names[u], c): n for (u, c), n in cells(census.people.leaves).items()})
    units = Counter({(names[u], c): n for (u, c), n in cells(census.facilities.leaves).items()})
    vacant = {(names[u], 8): n for (u, c), n in cells(census.housing.leaves).items() if c == 0}
    return persons, units + Counter(vacant)


# --- what is in a file


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_stamps_beside_the_extract_are_read(tmp_path, ending):
    census, file, stamps = town(vacant=1), tmp_path / f"x.dat{ending}", ("seeded: not for publication",)
    written(census, file)
    assert read_ipums_1940(file).people.stamps == ()
    write_ipums_1940(replace(census.people, stamps=stamps), census.facilities, census.housing, file)
    assert read_ipums_1940(file).people.stamps == stamps


def test_every_code_of_hispan_and_race_is_kept_on_the_schema_of_864_cells(read):
    shape = PERSONS_1940_IPUMS.shape
    assert shape == (8, 2, 6, 9)
    assert PERSONS_1940_IPUMS.cells == 864
    kinds = ((0, "0"), (1, "2"), (7, "9"))
    people = [
        (kind, gqtype, adult, origin, hispan, race)
        for kind, gqtype in kinds
        for adult in (0, 1)
        for origin, hispan in enumerate("012349")
        for race in range(1, 10)
    ]
    lines = []
    for number, (_, gqtype, adult, _, hispan, race) in enumerate(people, 1):
        lines += [
            household(number, gqtype=gqtype),
            person(number, age=f"{17 + adult:03d}", race=f"{race}", hispan=hispan),
        ]
    census = read(joined(*lines), schema=PERSONS_1940_IPUMS)
    expected = [(0, int(np.ravel_multi_index((k, a, o, r - 1), shape))) for k, _, a, o, _, r in people]
    assert cells(census.people.leaves) == dict.fromkeys(expected, 1)
    assert cells(census.facilities.leaves) == {(0, kind): 108 for kind, _ in kinds}


def test_the_192_cells_are_groups_of_the_864(read):
    coarse, fine = read(SMALL), read(SMALL, schema=PERSONS_1940_IPUMS)
    table = fine.people.leaves.dense().reshape(-1, 8, 2, 6, 9)
    assert not table[..., 6:].any()
    merged = np.stack([table[..., 0, :6], table[..., 1:, :6].sum(axis=-2)], axis=-2)
    assert (merged.reshape(len(table), -1) == coarse.people.leaves.dense()).all()
    assert (fine.facilities.leaves.dense() == coarse.facilities.leaves.dense()).all()


def test_another_schema_and_a_race_that_it_does_not_have_are_refused(read):
    two_races = joined(household(1), person(1, race="8"))
    with pytest.raises(InputError, match=r"line 2 \(P record\), column 85: RACE '8' is not 1 to 6. Correct the record"):
        read(two_races)
    assert read(two_races, schema=PERSONS_1940_IPUMS).people.total() == 1
    with pytest.raises(InputError, match="RACE '0' is not 1 to 9"):
        read(joined(household(1), person(1, race="0")), schema=PERSONS_1940_IPUMS)
    with pytest.raises(InputError, match=r"counted on schemas.PERSONS_1940 or schemas.PERSONS_1940_IPUMS"):
        read(SMALL, schema=UNITS_2020)


def test_a_small_file_is_read_cell_by_cell(read):
    census = read(SMALL)
    assert census.people.spine.levels == ("us", "state", "county", "enumdist")
    assert census.people.spine.labels("state") == ["09", "44"]
    assert census.people.spine.labels("county") == ["090030", "440010"]
    assert census.people.spine.labels("enumdist") == ["0900300007", "4400100001", "4400100002"]
    assert cells(census.people.leaves) == {
        (1, cell("household")): 1,
        (1, cell("household", "minor", race="black")): 1,
        (1, cell("household", hispanic="hispanic", race="other_asian")): 1,
        (1, cell("household", hispanic="hispanic")): 1,
        (2, cell("correctional", race="aian")): 2,
    }
    assert census.people.schema == PERSONS_1940
    assert census.housing.schema == UNITS_2020
    assert census.facilities.leaves.dense().tolist() == [[1] + [0] * 7, [2] + [0] * 7, [0, 1] + [0] * 6]
    assert census.housing.leaves.dense().tolist() == [[0, 1], [0, 2], [1, 0]]
    assert (census.facilities.attribute, census.facilities.types, census.dropped) == ("hhgq", TYPES_1940, 0)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("0", "household"),
        ("2", "correctional"),
        ("3", "mental"),
        ("4", "elderly"),
        ("6", "military"),
        ("7", "college"),
        ("8", "rooming"),
        ("9", "other"),
    ],
)
def test_each_gqtype_is_its_type_of_quarters(read, code, kind):
    census = read(joined(household(gqtype=code), person()))
    assert cells(census.people.leaves) == {(0, cell(kind)): 1}
    assert cells(census.facilities.leaves) == {(0, TYPES_1940.index(kind)): 1}
    assert cells(census.housing.leaves) == ({(0, 1): 1} if kind == "household" else {})


@pytest.mark.parametrize(("age", "group"), [("000", "minor"), ("017", "minor"), ("018", "adult"), ("135", "adult")])
def test_adults_are_eighteen_or_older(read, age, group):
    assert cells(read(joined(household(), person(age=age))).people.leaves) == {(0, cell("household", group)): 1}


@pytest.mark.parametrize("code", list("012349"))
def test_every_hispan_but_zero_is_hispanic(read, code):
    census = read(joined(household(), person(hispan=code)))
    label = "not_hispanic" if code == "0" else "hispanic"
    assert cells(census.people.leaves) == {(0, cell("household", hispanic=label)): 1}


@pytest.mark.parametrize(
    ("code", "race"), list(zip("123456", ["white", "black", "aian", "chinese", "japanese", "other_asian"], strict=True))
)
def test_each_race_code_is_its_race(read, code, race):
    assert cells(read(joined(household(), person(race=code))).people.leaves) == {(0, cell("household", race=race)): 1}


@pytest.mark.parametrize("gq", list("0123456"))
def test_a_housing_unit_is_vacant_only_where_gq_is_zero(read, gq):
    census = read(joined(household(gq=gq)))
    assert cells(census.housing.leaves) == {(0, int(gq != "0")): 1}
    assert cells(census.facilities.leaves) == ({} if gq == "0" else {(0, 0): 1})
    assert census.people.total() == 0


def test_group_quarters_are_never_vacant_and_persons_in_a_vacant_unit_count_in_households_as_the_bureau_did(read):
    quarters = read(joined(household(gq="0", gqtype="3")))
    assert (cells(quarters.facilities.leaves), cells(quarters.housing.leaves)) == ({(0, 2): 1}, {})
    squatted = read(joined(household(gq="0"), person()))
    assert cells(squatted.people.leaves) == {(0, cell("household")): 1}
    assert cells(squatted.housing.leaves) == {(0, 0): 1}


def test_a_district_whose_households_lie_apart_is_added_up(read):
    census = read(joined(household(1), person(1), household(2, enumdist="0002"), household(3), person(3)))
    assert cells(census.people.leaves) == {(0, cell("household")): 2}
    assert cells(census.facilities.leaves) == {(0, 0): 2, (1, 0): 1}


# --- how it is read


@pytest.mark.parametrize("piece", [1, 100, 273, 500, 1000, 4096])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pieces_and_threads_do_not_change_what_is_read(read, piece, threads):
    assert same(read(SMALL, piece=piece, threads=threads), read(SMALL))


@pytest.mark.parametrize("pad", [0, 1, 200])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_padded_lines_and_either_line_end_are_read(read, pad, end):
    lines = [row.ljust(len(row) + pad) for row in SMALL.splitlines()]
    assert same(read(joined(*lines, end=end)), read(SMALL))
    assert same(read(joined(*lines, end=end).removesuffix(end)), read(SMALL))


def test_lines_without_their_trailing_blanks_and_of_mixed_lengths_are_read(read):
    short = [row.rstrip(b" ") + b" " * (i % 3) for i, row in enumerate(SMALL.splitlines())]
    assert len(min(short, key=len)) == 89
    assert same(read(joined(*short)), read(SMALL))


def test_two_short_lines_as_long_as_one_whole_line_are_two_persons(read):
    half = person(width=136)
    assert 2 * len(half) + 1 == len(person())
    assert read(joined(household(), half, half)).people.total() == 2


@pytest.mark.parametrize("name", ["extract.dat.gz", "named_otherwise.dat"])
def test_a_gzip_file_is_known_by_its_content(read, name):
    assert same(read(gzip.compress(SMALL), name), read(SMALL))


def test_memory_does_not_grow_with_the_file(tmp_path):
    path, block = tmp_path / "long.dat", joined(household(), *[person()] * 50)
    read_peaks = []
    for blocks in (20, 1000):
        path.write_bytes(block * blocks)
        read_ipums_1940(path, piece=1 << 16)
        census, peak = with_peak_memory(lambda: read_ipums_1940(path, piece=1 << 16))
        assert census.people.total() == 50 * blocks
        read_peaks.append(peak)
    assert path.stat().st_size > 13e6
    assert read_peaks[1] < 1.5e6
    assert read_peaks[1] < read_peaks[0] + 4e5


def test_entries_are_added_up_before_too_many_wait(read, monkeypatch):
    plain = read(SMALL)
    monkeypatch.setattr("tallyveil.files.formats.piecewise._WAITING", 1)
    assert same(read(SMALL, piece=300), plain)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_progress_rises_to_the_size_of_the_file(read, pack):
    seen: list[tuple[int, int]] = []
    data = pack(SMALL * 20)
    read(data, piece=2000, progress=lambda done, size: seen.append((done, size)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert {size for _, size in seen} == {len(data)}
    assert seen[-1][0] == len(data)
    assert len(seen) > 10
    if pack is bytes:
        assert 0 < seen[0][0] < len(data) / 2


def test_persons_of_another_household_are_dropped_and_counted_where_asked(read):
    data = joined(person(9), household(1), person(1), person(7), household(2), person(2), person(1))
    census = read(data, drop_orphans=True)
    assert (census.dropped, census.people.total()) == (3, 2)
    assert read(data, drop_orphans=True, piece=300).dropped == 3


# --- bad input

H, P = household(), person()
BAD = {
    "unknown record type": (
        joined(H, P, b"X" + P[1:]),
        "extract.dat, line 3, column 1: record type 'X' is not 'H' or 'P'. The line is damaged, or the file is not the "
        "extract EXT1940USCB.dat: check it, or fetch it again.",
    ),
    "blank line": (joined(H, b"", P), "extract.dat, line 2, column 1: record type '\\n' is not 'H' or 'P'."),
    "letters beyond ASCII": (b"\xe9" + H, "extract.dat, line 1, column 1: record type '\\xe9' is not 'H' or 'P'."),
    "truncated household": (
        joined(H[:127], P),
        "extract.dat, line 1 (H record): ends at column 127, but its fields go to column 128. The record is truncated: "
        "fetch the file again.",
    ),
    "truncated person": (
        joined(H, P[:88], P),
        "extract.dat, line 2 (P record): ends at column 88, but its fields go to column 89.",
    ),
    "file cut short": (
        joined(H, P) + P[:200],
        "extract.dat, line 3 (P record): the file ends at column 200 of 273, without a line end. It may be cut short: "
        "fetch it again, or add a line end if it is complete.",
    ),
    "file cut short in a household": (
        joined(H, P) + H[:150],
        "extract.dat, line 3 (H record): the file ends at column 150 of 159, without a line end.",
    ),
    "shifted household": (
        joined(H[:20] + H[21:], P),
        "extract.dat, line 1 (H record), columns 56-59: COUNTY '010 ' is not digits. The record is shifted or damaged: "
        "correct it, or fetch the file again.",
    ),
    "shifted person": (
        joined(H, P[:20] + b" " + P[20:]),
        "extract.dat, line 2 (P record), columns 74-76: AGE ' 03' is not digits.",
    ),
    "serial of a household": (
        joined(household("0000000x"), P),
        "extract.dat, line 1 (H record), columns 8-15: SERIAL '0000000x' is not digits.",
    ),
    "state": (joined(household(state="4 ")), "columns 54-55: STATEFIP '4 ' is not digits."),
    "enumdist": (joined(household(enumdist="12-3")), "columns 125-128: ENUMDIST '12-3' is not digits."),
    "gq not a digit": (joined(household(gq=" ")), "(H record), column 94: GQ ' ' is not digits."),
    "gqtype not a digit": (joined(household(gqtype="a")), "(H record), column 95: GQTYPE 'a' is not digits."),
    "serial of a person": (joined(H, person("       1")), "columns 8-15: SERIAL '       1' is not digits."),
    "race not a digit": (joined(H, person(race=" ")), "(P record), column 85: RACE ' ' is not digits."),
    "hispan not a digit": (joined(H, person(hispan="?")), "(P record), column 89: HISPAN '?' is not digits."),
    "gq 7": (
        joined(household(gq="7")),
        "extract.dat, line 1 (H record), column 94: GQ '7' is not 0 to 6. Correct the record.",
    ),
    "gqtype 1": (
        joined(household(gqtype="1")),
        "column 95: GQTYPE '1' is not 0, 2, 3, 4, 6, 7, 8 or 9 (1 and 5 do not occur in 1940). Correct the record.",
    ),
    "gqtype 5": (joined(household(gqtype="5")), "column 95: GQTYPE '5' is not 0, 2, 3, 4, 6, 7, 8 or 9"),
    "race 0": (joined(H, person(race="0")), "extract.dat, line 2 (P record), column 85: RACE '0' is not 1 to 6."),
    "race 7": (joined(H, person(race="7")), "column 85: RACE '7' is not 1 to 6."),
    "age 136": (joined(H, person(age="136")), "columns 74-76: AGE '136' is not 000 to 135."),
    "hispan 5": (joined(H, person(hispan="5")), "column 89: HISPAN '5' is not 0, 1, 2, 3, 4 or 9."),
    "hispan 8": (joined(H, person(hispan="8")), "column 89: HISPAN '8' is not 0, 1, 2, 3, 4 or 9."),
    "person first": (
        joined(P, H),
        "extract.dat, line 1, column 1: a person 'P' comes before any household 'H'. Begin the file with the person's "
        "household.",
    ),
    "person of another household": (
        joined(H, P, person(2)),
        "extract.dat, line 3 (P record), columns 8-15: SERIAL '00000002' is not that of the household above, "
        "'00000001'. Put persons after their household, or use drop_orphans to leave such persons out.",
    ),
    "empty file": (b"", "extract.dat: the file is empty. Fetch it again, or name another."),
    "binary file": (
        bytes(range(256)) * 20,
        "extract.dat: the file is binary, not text. Name the text file, plain or gzip.",
    ),
    "utf-16": (
        SMALL.decode().encode("utf-16"),
        "extract.dat: the file is UTF-16, not plain text. Save it as ASCII or UTF-8.",
    ),
    "damaged gzip": (gzip.compress(SMALL)[:-20], "extract.dat: the gzip file is damaged ("),
    "gzip of nothing": (gzip.compress(b""), "extract.dat: the file is empty."),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_its_place_value_and_remedy(read, case):
    data, text = BAD[case]
    with pytest.raises(InputError, match=re.escape(text)):
        read(data)


@pytest.mark.parametrize("case", [name for name, (_, text) in BAD.items() if ", line" in text])
def test_the_message_does_not_depend_on_pieces_and_threads(read, case):
    messages = set()
    for options in ({}, {"piece": 100, "threads": 1}, {"piece": 300, "threads": 3}):
        with pytest.raises(InputError) as caught:
            read(BAD[case][0] if case == "person first" else SMALL + BAD[case][0], **options)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_the_first_of_several_wrong_lines_is_named(read):
    wrong = joined(household(1), person(1, race="8"))
    for threads in (1, 4):
        with pytest.raises(InputError, match=r"line 12 \(P record\), column 85"):
            read(joined(H, P) * 5 + wrong * 50, piece=400, threads=threads)


def test_a_missing_file_a_folder_and_no_threads_are_refused(tmp_path, read):
    with pytest.raises(InputError, match=r"nowhere\.dat: no such file\. Check the name and the folder\."):
        read_ipums_1940(tmp_path / "nowhere.dat")
    with pytest.raises(InputError, match=r"cannot be opened \(Is a directory\)\. Name a file you may read\."):
        read_ipums_1940(tmp_path)
    with pytest.raises(InputError, match=r"threads must be at least 1\. Got 0 instead\."):
        read(SMALL, threads=0)


def test_a_file_in_which_no_household_begins_is_refused_before_it_fills_memory(read, monkeypatch):
    monkeypatch.setattr("tallyveil.files.formats.lines.LONGEST_RECORD", 5000)
    with pytest.raises(InputError, match=r"extract\.dat: no new record begins in \d,\d{3} bytes\. This is not a file"):
        read(b"H" + b"0" * 100_000, piece=500)


# --- writing


@st.composite
def populations(draw) -> Census1940:
    """A few districts with units of all kinds and persons where there is a unit for them."""
    codes = draw(
        st.lists(st.from_regex(r"[0-9]{2}00[0-2]00[0-9]{3}", fullmatch=True), min_size=1, max_size=4, unique=True)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = len(codes)
    built = rng.integers(0, 4, (size, 9)) * (rng.random((size, 9)) < draw(st.sampled_from([0.2, 0.6, 1.0])))
    built[built.sum(axis=1) == 0, 8] = 1
    most = draw(st.sampled_from([1, 3, 40]))
    people = rng.integers(0, most + 1, (size, 8, 24)) * (rng.random((size, 8, 24)) < 0.3) * (built[:, :8, None] > 0)
    spine = Spine.from_codes(codes, lengths=LENGTHS, root="us")
    return Census1940(
        people=Histogram(
            spine=spine, schema=PERSONS_1940, leaves=Counts.from_dense(people.reshape(size, PERSONS_1940.cells))
        ),
        facilities=Facilities(spine=spine, attribute="hhgq", types=TYPES_1940, leaves=Counts.from_dense(built[:, :8])),
        housing=Histogram(spine=spine, schema=UNITS_2020, leaves=Counts.from_dense(built[:, [8, 0]])),
    )


def town(*, built=(2, 1), vacant=0, occupied=None, people=((0, 12, 5), (1, 36, 1)), code="4400100001") -> Census1940:
    """One district: units by type, and (type is in the cell) persons."""
    spine = Spine.from_codes([code], lengths=LENGTHS, root="us")
    kinds = np.array([[*built, *[0] * (8 - len(built))]])
    counts = np.zeros((1, PERSONS_1940.cells), np.int64)
    for _, at, number in people:
        counts[0, at] = number
    homes = np.array([[vacant, built[0] if occupied is None else occupied]])
    return Census1940(
        people=Histogram(spine=spine, schema=PERSONS_1940, leaves=Counts.from_dense(counts)),
        facilities=Facilities(spine=spine, attribute="hhgq", types=TYPES_1940, leaves=Counts.from_dense(kinds)),
        housing=Histogram(spine=spine, schema=UNITS_2020, leaves=Counts.from_dense(homes)),
    )


def written(census: Census1940, path: Path) -> bytes:
    write_ipums_1940(census.people, census.facilities, census.housing, path)
    return path.read_bytes()


@few
@given(populations(), st.sampled_from([1, 2]), st.sampled_from([3000, 1 << 20]))
def test_what_is_written_reads_back_the_same(tmp_path_factory, census, threads, piece):
    path = tmp_path_factory.getbasetemp() / "round_trip.dat"
    data = written(census, path)
    assert same(read_ipums_1940(path, threads=threads, piece=piece), census)
    assert as_counters(census) == counts_by_hand(data)


def test_more_persons_than_the_counters_hold_still_read_back(tmp_path):
    crowded = town(built=(1, 1), people=((0, 3, 120), (1, 24, 10_050)))
    data = written(crowded, tmp_path / "crowded.dat").splitlines()
    assert data[0][15:17] == b"99"
    assert data[-1][15:19] == b"9999"
    assert same(read_ipums_1940(tmp_path / "crowded.dat", piece=1000), crowded)


# --- anything at all


@st.composite
def damaged(draw, data: bytes) -> bytes:
    """A file with a few bytes changed, deleted or inserted, or cut short."""
    rows = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(rows) - 1))
        how = draw(st.sampled_from(["flip", "set", "delete", "insert", "cut", "repeat"]))
        if how == "flip":
            rows[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "set":
            rows[at] = draw(st.sampled_from(b"\n\r\0 HP09|#\xff"))
        elif how == "delete":
            del rows[at : at + draw(st.integers(1, 200))]
        elif how == "insert":
            rows[at:at] = draw(st.binary(min_size=1, max_size=30))
        elif how == "cut":
            del rows[at:]
        else:
            rows[at:at] = rows[at : at + 300]
        if not rows:
            break
    return bytes(rows)


@few
@given(st.one_of(damaged(SMALL), st.binary(max_size=600)), st.booleans(), st.sampled_from([64, 1 << 20]))
@example(b"P", True, 64)
@example(joined(person(1)), True, 64)
def test_anything_else_is_read_or_refused_and_never_breaks(tmp_path_factory, data, drop_orphans, piece):
    path = tmp_path_factory.getbasetemp() / "fuzz.dat"
    path.write_bytes(data)
    try:
        census = read_ipums_1940(path, drop_orphans=drop_orphans, piece=piece)
    except InputError:
        return
    lines = data.split(b"\n")
    assert census.people.total() + census.dropped == sum(row[:1] == b"P" for row in lines)
    units = census.facilities.leaves.total() + census.housing.leaves.dense()[:, 0].sum()
    assert units == sum(row[:1] == b"H" for row in lines)


@pytest.mark.slow
def test_a_large_random_population_reads_back_the_same(tmp_path):
    rng = np.random.default_rng(1940)
    codes = [f"{i // 100:02d}{i // 10 % 10:04d}{i:04d}" for i in range(2000)]
    spine = Spine.from_codes(codes, lengths=LENGTHS, root="us")
    built = rng.integers(0, 3, (2000, 9)) * [60, 1, 1, 1, 1, 1, 1, 1, 5] + (np.arange(9) == 8)
    people = rng.poisson(4, (2000, 8, 24)) * (built[:, :8, None] > 0)
    census = Census1940(
        people=Histogram(spine=spine, schema=PERSONS_1940, leaves=Counts.from_dense(people.reshape(2000, 192))),
        facilities=Facilities(spine=spine, attribute="hhgq", types=TYPES_1940, leaves=Counts.from_dense(built[:, :8])),
        housing=Histogram(spine=spine, schema=UNITS_2020, leaves=Counts.from_dense(built[:, [8, 0]])),
    )
    data = written(census, tmp_path / "large.dat")
    assert len(data) > 200e6
    for threads in (1, 2):
        assert same(read_ipums_1940(tmp_path / "large.dat", threads=threads), census)
