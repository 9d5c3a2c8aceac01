import gzip
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tables import LAYOUTS, SCHEMA, persons_table, random_people, same

from tallyveil.errors import DataError, InputError
from tallyveil.files import (
    LABELS_FROM_DATA,
    UNITS_FROM_DATA,
    Codebook,
    draft_codebook,
    read_counts,
    read_units,
    write_counts,
)
from tallyveil.files.tables.write import codebook_for, units_table
from tallyveil.nouns.histogram import Filter


def frame(people, layout="long") -> pd.DataFrame:
    table = LAYOUTS[layout](people).to_pandas()
    return table.astype({name: str for name in table if not pd.api.types.is_integer_dtype(table[name])})


def book(people, layout="long", **fields) -> Codebook:
    return replace(codebook_for(people, layout), **fields)


def refused(source, codebook, *parts, **options):
    with pytest.raises(InputError) as caught:
        read_counts(source, codebook, **options)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_was_written_reads_back_the_same_in_every_layout_and_format(people, tmp_path, layout, ending):
    file = tmp_path / f"people.{ending}"
    write_counts(people, file, layout=layout)
    again = read_counts(file, tmp_path / "people.codebook.toml", units=tmp_path / "people.units.parquet")
    assert same(again, people)
    assert again.stamps == ()
    assert again.schema == SCHEMA


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "held", [lambda f: f, pl.from_pandas, pa.Table.from_pandas, lambda f: f.astype("category", errors="ignore")]
)
def test_pandas_polars_and_arrow_tables_are_read_alike(people, layout, held):
    units = units_table(people.spine)
    assert same(read_counts(held(frame(people, layout)), book(people, layout), units=units), people)


@pytest.mark.parametrize("seed", range(3))
def test_the_three_layouts_of_the_same_data_give_identical_histograms(seed):
    people = random_people(seed)
    read = [
        read_counts(make(people), book(people, layout), units=units_table(people.spine))
        for layout, make in LAYOUTS.items()
    ]
    assert all(same(one, people) for one in read)


def test_units_with_nobody_in_them_are_kept_when_the_list_has_them(people):
    again = read_counts(frame(people), book(people), units=units_table(people.spine))
    assert again.spine.size("tract") == 5
    assert again.at("tract").dense()[3].sum() == 0


def test_units_from_the_data_are_stamped_and_units_from_a_list_are_not(people):
    from_data = read_counts(frame(people), book(people))
    assert from_data.stamps == (UNITS_FROM_DATA,)
    assert UNITS_FROM_DATA == "units from data: not covered by the guarantee"
    assert from_data.spine.size("tract") == 4  # the empty one cannot be known
    assert read_counts(frame(people), book(people), units=people.spine).stamps == ()


def test_labels_from_the_data_are_stamped(people):
    attributes = {"age": (), "home": SCHEMA.attributes["home"]}
    found = read_counts(frame(people), book(people, attributes=attributes, zeros=()), units=people.spine)
    assert found.stamps == (LABELS_FROM_DATA,)
    assert LABELS_FROM_DATA == "labels from data: not covered by the guarantee"
    assert found.schema.attributes["age"] == ("adult", "child")
    assert found.total() == people.total()


@pytest.mark.parametrize(("mark", "stamp"), [("labels_from", LABELS_FROM_DATA), ("units_from", UNITS_FROM_DATA)])
def test_a_codebook_marked_as_drafted_stamps_until_the_mark_is_removed(people, mark, stamp):
    drafted = book(people, **{mark: "data"})
    assert read_counts(frame(people), drafted, units=people.spine).stamps == (stamp,)
    assert read_counts(frame(people), replace(drafted, **{mark: None}), units=people.spine).stamps == ()


def test_one_person_with_a_label_of_their_own_stamps_what_a_draft_reads_until_a_person_removes_the_mark():
    table = pd.DataFrame({"county": ["001"] * 5, "sex": ["f", "m", "f", "m", "x"]})
    drafted = draft_codebook(table)
    assert drafted.attributes == {"sex": ("f", "m", "x")}
    units = pd.DataFrame({"county": ["001", "003"]})
    book = replace(drafted, root="state", units_from=None)  # units are public, labels are not
    assert read_counts(table, book, units=units).stamps == (LABELS_FROM_DATA,)
    checked = replace(book, labels_from=None, attributes={"sex": ("f", "m", "x", "unknown")})
    assert read_counts(table, checked, units=units).stamps == ()


def test_stamps_and_filter_of_counts_are_written_beside_them_and_read_back(people, tmp_path):
    stamps = ("seeded: not for publication", 'odd "one"\nof two lines')
    shaped = replace(people, stamps=stamps, filter=Filter(where={"hiv": "yes"}))
    for layout in LAYOUTS:
        for ending in ("csv", "parquet"):
            file = tmp_path / f"{layout}.{ending}"
            write_counts(shaped, file, layout=layout)
            beside = tmp_path / f"{layout}.codebook.toml"
            again = read_counts(file, beside, units=tmp_path / f"{layout}.units.parquet")
            assert (again.stamps, again.filter) == (stamps, shaped.filter)
            assert same(again, people)
            assert read_counts(file, beside).stamps == (*stamps, UNITS_FROM_DATA)
            assert pq_metadata(file) == {}
    write_counts(people, tmp_path / "long.csv")
    assert read_counts(tmp_path / "long.csv", tmp_path / "long.codebook.toml", units=people.spine).stamps == ()


def pq_metadata(file):
    """What a Parquet file says besides its columns."""
    import pyarrow.parquet

    return {} if file.suffix == ".csv" else dict(pyarrow.parquet.read_schema(file).metadata or {})


def test_stamps_are_those_of_the_codebook_and_of_the_reading_each_once(people):
    stamped = book(people, labels_from="data", stamps=(LABELS_FROM_DATA, "seeded"))
    assert read_counts(frame(people), stamped).stamps == (LABELS_FROM_DATA, "seeded", UNITS_FROM_DATA)


def test_rows_kept_by_where_are_told_of_as_a_filter_with_what_was_filtered_before(people):
    table = frame(people).assign(hiv="no", level="tract")
    table.loc[0, "hiv"] = "yes"
    kept = read_counts(table, book(people, where={"hiv": "no"}, ignore=("level",)), units=people.spine)
    assert kept.filter == Filter(where={"hiv": "no"}, public=False)
    assert kept.total() == people.total() - table["count"][0]
    both = book(
        people,
        where={"level": "tract"},
        where_is_public=True,
        ignore=("hiv",),
        filtered=Filter(where={"hiv": "yes"}),
    )
    assert read_counts(table, both, units=people.spine).filter == Filter(where={"hiv": "yes", "level": "tract"})
    public = replace(both, filtered=Filter(where={"region": "1"}, public=True))
    assert public.filter == Filter(where={"region": "1", "level": "tract"}, public=True)
    contradiction = book(people, where={"hiv": "no"}, filtered=Filter(where={"hiv": "yes"}), ignore=("level",))
    refused(table, contradiction, "where keeps hiv = 'no', but [filtered] says that the table has only rows with 'yes'")
    assert read_counts(frame(people), book(people)).filter is None


@pytest.mark.parametrize("name", ["count", "n", "Freq", " N ", "total", "persons"])
def test_a_column_of_counts_in_a_table_of_persons_is_refused_unless_it_is_ignored(people, name):
    table = persons_table(people).to_pandas().astype(str)
    table[name] = 7
    refused(
        table,
        book(people, "persons"),
        f'the table: layout = "persons" counts each row as one person, but column {name!r} looks like a count',
        "or list it under [table] ignore",
    )
    refused(table, book(people, "persons", total=name), "looks like a count")  # persons have no total to check
    ignored = book(people, "persons", ignore=(name,))
    assert read_counts(table, ignored, units=people.spine).total() == people.total()
    kept = book(people, "persons", where={name: "7"})
    assert read_counts(table, kept, units=people.spine).total() == people.total()


def test_reading_in_many_pieces_gives_the_same(people, tmp_path, monkeypatch):
    from tallyveil.files.tables import sources

    file = tmp_path / "persons.parquet"
    write_counts(people, file, layout="persons")
    pieces = sources.batches
    monkeypatch.setattr("tallyveil.files.tables.read.batches", lambda *given, **more: pieces(*given, **more, size=2))
    assert same(read_counts(file, book(people, "persons"), units=people.spine), people)


def test_one_code_is_cut_into_levels(people):
    table = frame(people).rename(columns={"tract": "geoid"}).drop(columns=["state", "county"])
    cut = book(people, levels=(), code="geoid", lengths={"state": 2, "county": 5, "tract": 7})
    assert same(read_counts(table, cut, units=people.spine), people)


def test_numbers_that_lost_their_zeros_are_refused_with_a_remedy_that_works(people):
    table = frame(people).astype({"state": int, "county": int, "tract": int})
    refused(
        table, book(people), "column 'state'", "int64", "leading zeros are lost", "[geography] pad = {state = DIGITS}"
    )
    pad = {"state": 2, "county": 5, "tract": 7}
    assert same(read_counts(table, book(people, pad=pad), units=people.spine), people)


def test_a_short_code_is_refused_with_its_row_and_the_remedy_works(people, tmp_path):
    table = frame(people).drop(columns=["state", "county"]).astype({"tract": int})
    table.to_csv(tmp_path / "t.csv", index=False)
    cut = book(people, levels=(), code="tract", lengths={"state": 2, "county": 5, "tract": 7})
    refused(tmp_path / "t.csv", cut, "t.csv, row 1, column 'tract'", "'900101' has 6", "not the 7", "pad = {tract = 7}")
    assert same(read_counts(tmp_path / "t.csv", replace(cut, pad={"tract": 7}), units=people.spine), people)


def test_only_the_rows_asked_for_are_kept_and_messages_count_all_rows(people):
    table = frame(people)
    other = table.assign(level="county", count=-1)
    both = pd.concat([other, table.assign(level="tract")])
    only = book(people, where={"level": "tract"})
    assert same(read_counts(both, only, units=people.spine), people)
    both.iloc[len(other) + 2, both.columns.get_loc("count")] = -7
    refused(both, only, f"row {len(other) + 3}", "-7", "negative")
    refused(both, book(people, where={"level": "block"}), "no rows with level = 'block'")


WRITTEN = {
    "another spelling": (["adult", "child"], "Adult", "'adult', 'child'"),
    "a band": (["7", "30"], "15-64", "'7', '30'"),
    "spaces": ([" yes ", "no"], "yes", "' yes ', 'no'"),
    "truth values": ([True, False], "True", "'true', 'false'"),
    "empty cells": ([None, None], "yes", "an empty cell"),
    "many values": (["a", "b", "c", "d"], "e", "'a', 'b', 'c', ..."),
}


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("layout", ["persons", "long", "wide"])
@pytest.mark.parametrize("with_others", [False, True])
def test_a_filter_whose_value_no_row_has_is_refused_with_values_that_occur(tmp_path, kind, layout, with_others):
    values, value, shown = WRITTEN[kind]
    shape = {"persons": {}, "long": {"count": "n"}, "wide": {"column": "n"}}[layout]
    table = pa.table({"town": ["a"] * len(values), "kept": values, "year": ["2020"] * len(values)})
    table = table if layout == "persons" else table.append_column("n", pa.array([3] * len(values)))
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    others = {"year": 2020} if with_others else {}
    towns = Codebook(
        root="all", levels=("town",), attributes={}, layout=layout, where={**others, "kept": value}, ignore=("year",),
        **shape,
    )  # fmt: skip
    listed = pa.table({"town": ["a", "b"]})
    told = f"no row has {value!r} in column 'kept', so [table] where keeps nobody. The column has {shown}."
    with pytest.raises(DataError, match=re.escape(told)):
        read_counts(tmp_path / "t.parquet", towns, units=listed)
    assert read_counts(table.slice(0, 0), towns, units=listed).total() == 0


def test_a_filter_whose_values_occur_but_in_no_row_together_keeps_nobody():
    table = pa.table({"town": ["a", "a"], "sex": ["f", "m"], "year": ["2020", "2021"]})
    both = Codebook(root="all", levels=("town",), attributes={}, layout="persons", where={"sex": "f", "year": "2021"})
    assert read_counts(table, both, units=pa.table({"town": ["a"]})).total() == 0


def test_further_columns_are_named_in_one_warning_unless_they_are_listed(people):
    table = frame(people).assign(extra=1, more=2)
    with pytest.warns(UserWarning, match="extra, more") as caught:
        read_counts(table, book(people))
    assert len(caught) == 1
    read_counts(table, book(people, ignore=("extra", "more")))


def test_gz_tabs_and_a_byte_order_mark_are_understood(people, tmp_path):
    text = frame(people).to_csv(index=False, sep="\t")
    (tmp_path / "t.csv").write_text("\ufeff" + text, encoding="utf-8")
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(text)
    for name in ("t.csv", "t.csv.gz"):
        assert same(read_counts(tmp_path / name, book(people), units=people.spine), people)


# ---- bad input: file, row or column, value and remedy


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("-3", ("-3 is negative", "0 or more")),
        ("2.5", ("2.5 is not a whole number",)),
        ("", ("the count is missing", "write 0")),
        ("many", ("many is not a whole number",)),
        ("1e3", ("1e3 is not a whole number",)),
        ("99999999999999999999", ("too large",)),
        ("nan", ("nan is not a whole number",)),
    ],
)
@pytest.mark.parametrize("layout", ["long", "wide"])
def test_a_wrong_count_in_a_csv_is_refused_with_file_row_and_column(people, tmp_path, value, parts, layout):
    table = frame(people, layout)
    column = "count" if layout == "long" else "adult_house"
    table[column] = table[column].astype(str)
    table.loc[2, column] = value
    file = tmp_path / "people.csv"
    table.to_csv(file, index=False)
    refused(file, book(people, layout), "people.csv, row 3", f"column '{column}'", *parts)


@pytest.mark.parametrize("value", [-1, 0.5, np.nan, np.inf, 1e300])
def test_a_wrong_count_in_a_frame_is_refused_with_row_and_column(people, value):
    table = frame(people).astype({"count": float})
    table.loc[1, "count"] = value
    refused(table, book(people), "row 2, column 'count'")


def test_an_unknown_label_is_refused_with_the_known_ones(people):
    table = frame(people)
    table.loc[3, "home"] = "boat"
    refused(
        table, book(people), "row 4, column 'home'", "'boat'", "house, prison, dorm", "add the label to [attributes]"
    )


def test_a_missing_label_or_code_is_refused(people):
    table = frame(people)
    table.loc[3, "home"] = None
    refused(table, book(people), "row 4, column 'home'", "the value is missing", '"" to [attributes]', "[labels.home]")
    table = frame(people)
    table.loc[0, "county"] = ""
    refused(table, book(people), "row 1, column 'county'", "the value is missing")


def test_people_in_an_impossible_cell_are_refused(people):
    table = frame(people)
    table.loc[0, "home"] = "prison"
    refused(table, book(people), "impossible cell 'child*prison'")


def test_a_unit_under_two_parents_is_refused(people):
    table = frame(people)
    table.loc[len(table)] = ["44", "44001", "4400701", "child", "dorm", 1]
    refused(table, book(people), "tract '4400701' lies in county '44001' and in county '44007'")
    refused(table, book(people), "row 7: tract '4400701' is in county '44007' by the list", units=people.spine)


def test_a_unit_outside_the_list_is_refused_with_its_row(people):
    table = frame(people)
    table.loc[2, "tract"] = "0900199"
    refused(table, book(people), "row 3: tract '0900199' is not in the list of units", units=people.spine)


def test_duplicate_rows_are_refused_with_both_rows(people):
    long = pd.concat([frame(people), frame(people).iloc[[1]]], ignore_index=True)
    refused(long, book(people), "tract '0900101' with age 'adult', home 'house' is in rows 2 and 7")
    wide = pd.concat([frame(people, "wide"), frame(people, "wide").iloc[[1]]], ignore_index=True)
    refused(wide, book(people, "wide"), "tract '0900102' is listed twice (rows 2 and 6)")
    refused(wide, book(people, "wide"), "tract '0900102' is in rows 2 and 6", units=people.spine)
    twice = pd.concat([frame(people, "persons")] * 2)
    assert read_counts(twice, book(people, "persons")).total() == 2 * people.total()


def test_a_total_that_the_cells_do_not_sum_to_is_refused(people):
    table = frame(people, "wide")
    cells = table.columns[3:]
    table["total"] = table[cells].sum(axis=1)
    checked = book(people, "wide", total="total")
    assert same(read_counts(table, checked), people)
    table.loc[4, "total"] += 1
    refused(table, checked, "row 5, column 'total': 4, but the cells sum to 3. Correct the rows")


def test_totals_that_do_not_match_are_counted_over_all_pieces_and_the_first_three_are_named(tmp_path, monkeypatch):
    from tallyveil.files.tables import sources

    rows = {"county": [f"{i:03}" for i in range(9)], "f": range(9), "m": range(9)}
    table = pd.DataFrame(rows).assign(total=lambda t: t.f + t.m + (t.f % 2))
    file = tmp_path / "t.parquet"
    table.to_parquet(file)
    pieces = sources.batches
    monkeypatch.setattr("tallyveil.files.tables.read.batches", lambda *given, **more: pieces(*given, **more, size=2))
    wide = Codebook(levels=("county",), root="us", attributes={"sex": ("f", "m")}, column="{sex}", total="total")
    refused(
        file,
        wide,
        "row 2, column 'total': 3, but the cells sum to 2; row 4, column 'total': 7, but the cells sum to 6; "
        "row 6, column 'total': 11, but the cells sum to 10. In all, 4 of 9 rows do not match.",
    )


# ---- mixed layouts: some attributes in rows, the others in the names of columns


def mixed(people, in_columns: str) -> pd.DataFrame:
    """One row per leaf and label of the other attribute, by a plain pivot; leaves without people too."""
    long, names = frame(people), list(people.spine.levels[1:])
    in_rows = next(name for name in people.schema.attributes if name != in_columns)
    table = long.pivot_table(
        index=[*names, in_rows], columns=in_columns, values="count", aggfunc="sum", fill_value=0
    ).reset_index()
    for label in people.schema.attributes[in_columns]:
        table[f"n {label}"] = table.get(label, 0)
    return table[[*names, in_rows, *(f"n {label}" for label in people.schema.attributes[in_columns])]]


@pytest.mark.parametrize("in_columns", ["age", "home"])
@pytest.mark.parametrize("seed", range(2))
def test_attributes_in_rows_and_in_columns_give_the_same_people_as_a_long_table(seed, in_columns, tmp_path):
    people = random_people(seed)
    table, codebook = mixed(people, in_columns), book(people, "wide", column=f"n {{{in_columns}}}")
    assert same(read_counts(table, codebook, units=people.spine), people)
    table["total"] = table.iloc[:, -len(people.schema.attributes[in_columns]) :].sum(axis=1)
    table.sample(frac=1, random_state=seed).to_csv(tmp_path / "t.csv", index=False)
    checked = replace(codebook, total="total")  # the total of a row, not of a unit
    assert same(read_counts(tmp_path / "t.csv", checked, units=people.spine), people)
    table.loc[0, "total"] += 5
    refused(table, checked, "row 1, column 'total'")


def test_a_mixed_table_takes_labels_of_rows_from_the_data_but_not_those_of_columns(people):
    table = mixed(people, "home")
    found = read_counts(
        table,
        book(people, "wide", column="n {home}", zeros=(), attributes={"age": (), "home": SCHEMA.attributes["home"]}),
    )
    assert found.schema.attributes["age"] == ("adult", "child")
    assert found.total() == people.total()
    with pytest.raises(InputError, match=r"\[attributes\] home has no labels\. A wide table needs them"):
        book(people, "wide", column="n {home}", attributes={"age": (), "home": ()})


def test_a_mixed_table_with_a_row_twice_is_refused_even_if_its_people_are_in_other_cells(people):
    table = mixed(people, "home")
    again = table.iloc[[0]].assign(**dict(zip(table.columns[-3:], table.iloc[0, -3:].to_numpy()[::-1], strict=True)))
    table = pd.concat([table, again], ignore_index=True)
    refused(table, book(people, "wide", column="n {home}"), f"with age '{again.age[0]}' is in rows 1 and {len(table)}")


def test_a_mixed_table_without_its_column_of_labels_or_with_an_unknown_label_is_refused(people):
    table, codebook = mixed(people, "home"), book(people, "wide", column="n {home}")
    refused(table.drop(columns="age"), codebook, "no column 'age'")
    table.loc[1, "age"] = "old"
    refused(table, codebook, "row 2, column 'age': unknown label 'old'")


def test_a_wide_row_twice_is_refused_even_if_its_people_are_in_other_cells(people):
    wide = frame(people, "wide")
    other = wide.iloc[[0]].copy()
    other.iloc[0, 3:] = wide.iloc[0, 3:].to_numpy()[::-1]
    wide = pd.concat([wide, other], ignore_index=True)
    refused(wide, book(people, "wide", zeros=()), "tract '0900101' is in rows 1 and 6", units=people.spine)


# ---- words for codes


def test_codes_are_published_as_words_and_read_again_in_the_same_way(people):
    codes = {"child": "1", "adult": "2"}
    table, words = frame(people).replace({"age": codes}), {code: word for word, code in codes.items()}
    coded = book(people, attributes={**SCHEMA.attributes, "age": ("1", "2")}, labels={"age": words})
    assert same(read_counts(table, coded, units=people.spine), people)
    assert same(read_counts(table.astype({"age": int}), coded, units=people.spine), people)
    assert replace(coded, attributes={**SCHEMA.attributes, "age": ()}) == coded  # the dictionary lists the codes
    table.loc[2, "age"] = "9"
    refused(table, coded, "row 3, column 'age': unknown label '9'. Known are 1, 2.")
    wide = frame(people, "wide").rename(columns=lambda name: name.replace("child", "1").replace("adult", "2"))
    assert same(read_counts(wide, replace(coded, layout="wide", column="{age}_{home}"), units=people.spine), people)


# ---- a column twice


def test_a_column_that_occurs_twice_is_refused_in_every_kind_of_table(people, tmp_path):
    twice = pa.table([pa.array(["09"]), pa.array(["09001"])], names=["state", "state"])
    pyarrow.parquet.write_table(twice, tmp_path / "t.parquet")
    for source in (tmp_path / "t.parquet", twice, pd.DataFrame([["09", "09001"]], columns=["state", "state"])):
        refused(source, book(people), "column 'state' is in the header twice. Rename one.")


def test_a_codebook_that_does_not_fit_is_refused_with_the_columns_there_are(people):
    table = frame(people).rename(columns={"home": "dwelling"})
    refused(table, book(people), "no column 'home'", "dwelling", "tallyveil codebook")
    refused(frame(people), book(people, "wide"), "no column 'child_house' and 5 more")
    refused(frame(people), book(people, root=None), "level 'state' has 2 units", 'root = "us"')


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ("empty",)),
        (b"\x00\x01\x02binary", ("binary file",)),
        (b"PAR1 but not really", ("cannot be read",)),
        ("state,county,tract,age,home,count\n09,09001,Ångström,child,house,1\n".encode("latin-1"), ("not UTF-8",)),
        (b"state,county,tract,age,home,count\n09,09001,0900101,child\n", ("rows differ in length",)),
        (b"state,state,tract,age,home,count\n09,09001,0900101,child,house,1\n", ("'state' is in the header twice",)),
        (b"state,county,tract,age,home,count\n", ("no rows",)),
    ],
    ids=["empty", "binary", "false parquet", "encoding", "short row", "header", "no rows"],
)
def test_a_broken_file_is_refused_with_its_name(people, tmp_path, content, parts):
    file = tmp_path / "broken.csv"
    file.write_bytes(content)
    refused(file, book(people), "broken.csv", *parts)


def test_a_missing_file_or_a_folder_is_refused(people, tmp_path):
    refused(tmp_path / "none.csv", book(people), "none.csv: no such file")
    refused(tmp_path, book(people), "a folder, not a table")
    refused(object(), book(people), "object is not a table")


def test_a_list_of_units_that_repeats_one_is_refused(people):
    units = pd.concat([units_table(people.spine).to_pandas()] * 2).astype(str)
    with pytest.raises(InputError, match=r"the units: tract '0900101' is listed twice \(rows 1 and 6\)"):
        read_units(units, book(people))


@given(st.binary(max_size=300))
def test_random_bytes_only_ever_give_our_errors(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("fuzz") / "t.csv"
    file.write_bytes(content)
    codebook = Codebook(levels=("a",), attributes={"b": ("x",)}, layout="long", count="n", root="r")
    with suppress(InputError):
        read_counts(file, codebook)


cells = st.one_of(
    st.none(),
    st.text(max_size=4),
    st.integers(-5, 2**70),
    st.floats(),
    st.sampled_from(["1", "x", "01", "child", ""]),
)


@given(
    columns=st.lists(st.sampled_from(["a", "b", "n", "x", "total", "extra"]), min_size=1, max_size=6, unique=True),
    data=st.data(),
    layout=st.sampled_from(["wide", "long", "persons"]),
)
@pytest.mark.filterwarnings("ignore:.*columns not in the codebook")
def test_random_tables_only_ever_give_our_errors(tmp_path_factory, columns, data, layout):
    rows = data.draw(st.integers(0, 4))
    table = pd.DataFrame(
        {name: data.draw(st.lists(cells, min_size=rows, max_size=rows)) for name in columns}, dtype=object
    )
    fields = {"column": "{b}"} if layout == "wide" else {"count": "n"} if layout == "long" else {}
    codebook = Codebook(levels=("a",), attributes={"b": ("x",)}, layout=layout, root="r", **fields)
    file = tmp_path_factory.mktemp("fuzz") / "t.csv"
    table.to_csv(file, index=False)
    for source in (file, table):
        with suppress(InputError):
            assert read_counts(source, codebook).total() >= 0


def test_a_column_with_the_form_of_a_count_and_an_unknown_label_is_told_to_lose_its_people():
    table = pd.DataFrame(
        {"town": ["a"], "young_f": [1], "young_m": [2], "old_f": [3], "old_m": [4], "old_x": [5], "note_z": [6]}
    )
    book = Codebook(
        levels=("town",), attributes={"age": ("young", "old"), "sex": ("f", "m")}, layout="wide", column="{age}_{sex}"
    )
    with pytest.warns(
        UserWarning, match="ignored: old_x, note_z. List them.*But 'old_x' has the form of a count.*add 'x' to"
    ) as told:
        assert read_counts(table, book).total() == 10
    assert len(told) == 1
    assert "note_z' has" not in str(told[0].message)


@pytest.mark.parametrize("count", [5, 2**53 + 1, 2**60])
def test_counts_without_a_sign_are_read_as_they_are(count):
    table = pa.table({"town": ["a"], "count": pa.array([count], pa.uint64())})
    book = Codebook(levels=("town",), attributes={}, layout="long", count="count")
    assert read_counts(table, book).total() == count


def test_a_count_without_a_sign_that_is_too_large_is_refused_with_its_row():
    table = pa.table({"town": ["a", "b"], "count": pa.array([1, 2**63], pa.uint64())})
    book = Codebook(root="us", levels=("town",), attributes={}, layout="long", count="count")
    with pytest.raises(InputError, match=r"row 2, column 'count': 9223372036854775808 is too large to be a count"):
        read_counts(table, book)
