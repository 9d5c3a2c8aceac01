"""Files as offices write them are read as they are: titles, notes, totals, merged cells, encodings, missing values."""

import gzip
from dataclasses import replace
from itertools import product

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tallyveil as tv
from tallyveil.cli.main import app
from tallyveil.errors import DataError, InputError
from tallyveil.files import codebook_from_toml, codebook_to_toml, read_counts
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.columns import Batch
from tallyveil.files.tables.draft import draft_table
from tallyveil.files.tables.draft.encodings import likely_encoding
from tallyveil.files.tables.form import FileForm, formed, joined_names
from tallyveil.files.tables.geography import read_spine

REGIONS = {"Norte": ["Belém", "Marabá"], "Nordeste": ["Açailândia", "Codó", "São Luís"], "Sul": ["Chapecó"]}
QUARTERS, SEXES = ["Centro", "Vila Nova"], ["Homens", "Mulheres"]


def people(seed=3):
    rng = np.random.default_rng(seed)
    rows = [(r, m, q, s) for r, towns in REGIONS.items() for m, q, s in product(towns, QUARTERS, SEXES)]
    counts = rng.integers(40, 9_000, len(rows))
    return pd.DataFrame(rows, columns=["Região", "Município", "Bairro", "Sexo"]).assign(População=counts)


def as_published(table, *, thousands=".", merged=True, totals=True, titles=2, notes=2):
    """The lines of a table as an office publishes it."""
    lines = [f"Tabela {i}: residentes por bairro" + ";" * 5 for i in range(titles)]
    lines += [";;;;;"] * bool(titles) + [";".join([*table.columns, "Taxa (%)"])]
    number = lambda n: f"{n:,}".replace(",", thousands)  # noqa: E731
    before = ["", "", "", ""]
    for region, part in table.groupby("Região", sort=False):
        for row in part.itertuples(index=False):
            place = list(row[:3])
            same = [merged and place[: i + 1] == before[: i + 1] for i in range(3)]
            shown = ["" if alike else value for alike, value in zip(same, place, strict=True)]
            lines.append(";".join([*shown, row[3], number(row[4]), f"{row[4] % 90},5"]))
            before = place
        lines += [f"Total {region};;;;{number(part.População.sum())};"] * totals
    lines += [f"Total geral;;;;{number(table.População.sum())};"] * totals
    lines += ["(1) Dados preliminares." + ";" * 5] * bool(notes) + ["Fonte: Secretaria de Saúde"] * max(0, notes - 1)
    return "\r\n".join(lines) + "\r\n"


def counted(histogram, columns):
    """People by unit and labels, in order."""
    frame = histogram.to_pandas()
    return frame.set_index(list(columns))["count"].sort_index()


def equal(histogram, table):
    columns = list(table.columns[:-1])
    counts = table.set_index(columns)[table.columns[-1]]
    assert counted(histogram, columns).to_dict() == counts[counts > 0].to_dict()


def test_a_municipal_table_in_latin_1_with_all_its_ornaments_is_read_as_it_is(tmp_path):
    file = tmp_path / "populacao.csv"
    file.write_bytes(as_published(people()).encode("cp1252"))
    draft = draft_table(file)
    assert draft.book.form == FileForm(
        encoding="cp1252",
        title_rows=2,
        note_rows=2,
        fill_down=("Região", "Município", "Bairro"),
        total_rows={"Região": ("Total Nordeste", "Total Norte", "Total Sul", "Total geral")},
        thousands=".",
    )
    assert (draft.book.layout, draft.book.count, draft.missing) == ("long", "População", ())
    equal(read_counts(file, draft.book), people())
    again = codebook_from_toml(draft.to_toml())
    assert again == draft.book
    assert codebook_from_toml(codebook_to_toml(again)) == again
    assert read_spine(file, again).size("Bairro") == 12


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig"])
def test_a_list_of_units_is_read_in_utf_8_or_in_the_encoding_of_the_table(tmp_path, encoding):
    file, listed = tmp_path / "populacao.csv", tmp_path / "bairros.csv"
    file.write_bytes(as_published(people()).encode("cp1252"))
    rows = [*people()[["Região", "Município", "Bairro"]].drop_duplicates().to_numpy(), ["Sul", "Chapecó", "São João"]]
    lines = [";".join(row) for row in (["Região", "Município", "Bairro"], *rows)]
    listed.write_bytes("\r\n".join(lines).encode(encoding))
    book = draft_table(file).book
    counts = read_counts(file, book, units=listed)
    assert counts.spine.size("Bairro") == 13  # one of them is empty
    equal(counts, people())
    assert read_spine(listed, book).size("Bairro") == 13


def test_a_list_of_units_in_an_encoding_that_nothing_names_is_refused_with_both_remedies(tmp_path):
    listed = tmp_path / "bairros.csv"
    listed.write_bytes("Região;Município;Bairro\nSul;Chapecó;Centro\n".encode("cp1252"))
    book = draft_table(people()).book
    with pytest.raises(DataError, match=r"not UTF-8 text. Save it again as UTF-8; or, if a codebook describes it"):
        read_counts(people(), book, units=listed)


@settings(max_examples=25)
@given(
    st.sampled_from([".", " ", "\u00a0", "'"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16"]),
)
def test_no_ornament_changes_what_is_counted(tmp_path_factory, thousands, merged, totals, titles, notes, encoding):
    file = tmp_path_factory.mktemp("f") / "t.csv"
    text = as_published(people(), thousands=thousands, merged=merged, totals=totals, titles=titles, notes=notes)
    file.write_bytes(text.encode(encoding))
    equal(read_counts(file, draft_table(file).book), people())


def test_a_compressed_file_is_looked_at_too(tmp_path):
    file = tmp_path / "t.csv.gz"
    file.write_bytes(gzip.compress(as_published(people()).encode("cp1252")))
    equal(read_counts(file, draft_table(file).book), people())


@pytest.mark.parametrize("names", [["2019", "2020"], ["0-14", "15-64", "65+"]])
@pytest.mark.parametrize("title", [["Table 1: People by sex and group"], ["Table 1", "People by sex"], None])
def test_names_of_columns_in_two_rows_are_joined(tmp_path, names, title):
    rng = np.random.default_rng(1)
    book = openpyxl.Workbook()
    sheet = book.active
    if title:
        sheet.append(title)
    sheet.append([])
    sheet.append(
        ["Province", "Ward", "Name", "Men", *[""] * (len(names) - 1), "Women", *[""] * (len(names) - 1), "All"]
    )
    sheet.append(["", "", "", *names, *names, ""])
    counts = rng.integers(0, 400, (18, 2 * len(names)))
    for i, row in enumerate(counts.tolist()):
        sheet.append([i // 6 + 1, f"{i // 6 + 1:02}{i:03}", f"Ward {i}", *row, sum(row)])
    sheet.append(["Source: National Institute of Statistics"])
    book.save(tmp_path / "t.xlsx")
    draft = draft_table(tmp_path / "t.xlsx")
    assert (draft.book.form.header_rows, draft.book.form.note_rows) == (2, 1)
    assert draft.book.column == "{sex}: {" + list(draft.book.attributes)[1] + "}"
    assert draft.book.total == "All"
    read = read_counts(tmp_path / "t.xlsx", draft.book)
    assert read.leaves.dense().tolist() == counts.tolist()


def test_names_in_three_rows_hold_for_all_columns_under_them():
    header = [
        ["", "", "Men", "", "", "", "All"],
        ["Code", "Name", "Young", "", "Old", "", ""],
        ["", "", "a", "b", "a", "b", ""],
    ]
    assert joined_names(header) == [
        "Code",
        "Name",
        "Men: Young: a",
        "Men: Young: b",
        "Men: Old: a",
        "Men: Old: b",
        "All",
    ]


def test_a_column_without_a_name_is_not_taken_for_a_second_row_of_names(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("town,,men,women\n" + "".join(f"t{i},x{i},{i},{2 * i}\n" for i in range(20)), encoding="utf-8")
    assert draft_table(file).book.form == FileForm()


def line_list(rng):
    """Cases of an epidemic, as a clerk has typed them."""
    chiefdoms = {"Bo": ["Kakua", "Bo 2"], "Kenema": ["Nongowa", "Luawa"], "Kailahun": ["Luawa", "Jawei"]}
    rows = []
    for i in range(400):
        district = rng.choice(list(chiefdoms))
        age = rng.choice([str(rng.integers(0, 90))] * 8 + ["", "NA", "unknown"])
        sex = rng.choice(["M", "F", "F", "f ", ""])
        rows.append((f"C{i:04}", age, sex, district, rng.choice(chiefdoms[district]), rng.choice(["", "seen", "lost"])))
    return pd.DataFrame(rows, columns=["case", "age", "sex", "district", "chiefdom", "comments"])


def test_a_line_list_with_ages_missing_values_and_two_spellings_is_counted_whole():
    table = line_list(np.random.default_rng(7))
    draft = draft_table(table)
    assert draft.book.bands == {"age": (0, 15, 65)}
    assert draft.book.words == {
        "age": ("0-14", "15-64", "65+", "not stated", "unknown"), "sex": ("F", "M", "not stated")
    }  # fmt: skip
    assert draft.book.ignore == ("case", "comments")
    read = read_counts(table, draft.book)
    band = pd.to_numeric(table.age, errors="coerce")
    ages = [
        *(int(band.between(low, high).sum()) for low, high in ((0, 14), (15, 64), (65, 200))),
        int(table.age.isin(["", "NA"]).sum()),
        int((table.age == "unknown").sum()),
    ]
    assert read.answer("age", level="all").dense()[0].tolist() == ages
    sexes = table.sex.str.strip().str.upper().value_counts()
    assert read.answer("sex", level="all").dense()[0].tolist() == [sexes["F"], sexes["M"], sexes[""]]
    assert codebook_from_toml(draft.to_toml()) == draft.book


def test_bands_and_codes_with_one_word_are_those_of_pandas_for_any_type_of_column():
    ages = pd.Series([0, 4, 5, 17, 18, 64, 65, 101, None])
    table = pd.DataFrame({"town": ["a", "b", "c"] * 3, "age": ages, "kind": list("112233123")})
    book = Codebook(
        root="all", levels=("town",), layout="persons", attributes={"age": ("",), "kind": ("1", "2", "3")},
        bands={"age": (0, 5, 18, 65)}, labels={
            "kind": {"1": "a", "2": "b", "3": "a"},
            "age": {"0-4": "0-4", "5-17": "5-17", "18-64": "18-64", "65+": "65+", "": "?"},
        },
    )  # fmt: skip
    read = read_counts(table, book)
    assert read.answer("age", level="all").dense()[0].tolist() == [2, 2, 2, 2, 1]
    assert read.answer("kind", level="all").dense()[0].tolist() == [6, 3]
    wide = Codebook(root="all", levels=("town",), attributes={"k": ("x", "y", "z")}, column="{k}",
                    labels={"k": {"x": "one", "y": "two", "z": "one"}})  # fmt: skip
    counts = pd.DataFrame({"town": ["a", "b"], "x": [1, 2], "y": [10, 20], "z": [100, 200]})
    assert read_counts(counts, wide).answer("k", level="town").dense().tolist() == [[101, 10], [202, 20]]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            FileForm(total_rows={"land": ("Total",)}),
            r"no column 'land', which \[file\] in the codebook names\. The columns are Região.*Give the table that",
        ),
        (FileForm(fill_down=("land",)), r"no column 'land', which \[file\] in the codebook names"),
    ],
)
def test_a_form_that_does_not_fit_is_refused_by_the_name_of_its_field(form, message):
    book = replace(draft_table(people()).book, form=form)
    with pytest.raises(DataError, match=message):
        read_counts(people(), book)


def test_totals_in_a_table_of_persons_are_refused():
    with pytest.raises(DataError, match=r"total_rows repeat people of other rows, but .* use where in \[table\]"):
        Codebook(levels=("town",), attributes={}, layout="persons", form=FileForm(total_rows={"town": ("All",)}))


def test_labels_that_only_sound_like_totals_are_kept():
    rows = [(f"R{i // 4}", f"T{i}", kind, 10 + i) for i in range(12) for kind in ("All day", "All", "Half day")]
    table = pd.DataFrame(rows, columns=["region", "town", "care", "children"])
    draft = draft_table(table)
    assert draft.book.form.total_rows == {"care": ("FILL_IN",)}
    assert draft.missing[-1].startswith("rows with care 'All' may be totals")
    people_with_totals = pd.concat([people(), people().assign(Sexo="Total", População=7)])
    assert draft_table(people_with_totals).book.form.total_rows == {"Sexo": ("FILL_IN",)}


def test_a_gap_in_the_first_column_of_a_line_list_is_no_merged_cell():
    rng = np.random.default_rng(5)
    table = line_list(rng)[["sex", "age", "district", "chiefdom"]]
    table.loc[0, "sex"] = "M"
    assert draft_table(table).book.form.fill_down == ()


def test_a_release_of_an_untidy_file_is_evaluated_without_a_codebook(tmp_path):
    file = tmp_path / "populacao.csv"
    file.write_bytes(as_published(people()).encode("cp1252"))
    book = draft_table(file).book
    truth = read_counts(file, book)
    release = tv.protect(truth, tv.Strategy.default(truth.spine, truth.schema, epsilon=2), seed=1)
    tv.write_release(release, tmp_path / "release", source=book)
    from tallyveil.files.release_folder.read_folder import read_source

    assert read_source(tmp_path / "release") == book


def portal(*, rounded=False, names=True):
    """A download from a statistical portal: totals of sexes, ages and units are rows like all others."""
    rng = np.random.default_rng(11)
    leaves = [f"P{p}{m}" for p in range(1, 4) for m in "abcde"]
    base = {cell: int(rng.integers(0, 900)) for cell in product(leaves, "MF", ("Y0-14", "Y15-64", "Y65+"))}
    units = ["XX", "P1", "P2", "P3", *leaves]
    rows = []
    for geo, sex, age in product(units, "TMF", ("TOTAL", "Y0-14", "Y15-64", "Y65+")):
        whole = {"XX": "P", "T": "MF", "TOTAL": "Y"}
        parts = [n for (g, s, a), n in base.items() if g.startswith(whole.get(geo, geo))
                 and s in whole.get(sex, sex) and a.startswith(whole.get(age, age))]  # fmt: skip
        rows.append((geo, f"Unit {geo}", sex, age, 2021, sum(parts) // 5 * 5 if rounded else sum(parts)))
    table = pd.DataFrame(rows, columns=["geo", "geo_name", "sex", "age", "time", "value"])
    return (table if names else table.drop(columns="geo_name")), base


@pytest.mark.parametrize("names", [True, False])
def test_totals_among_labels_and_codes_of_coarser_units_are_found_by_their_sums(names):
    table, base = portal(names=names)
    draft = draft_table(table)
    assert {name: set(marks) for name, marks in draft.book.form.total_rows.items()} == {
        "geo": {"XX", "P1", "P2", "P3"}, "sex": {"T"}, "age": {"TOTAL"}
    }  # fmt: skip
    assert (draft.book.code, dict(draft.book.lengths)) == ("geo", {"geo_2": 2, "geo": 3})
    read = read_counts(table, draft.book)
    assert read.total() == sum(base.values())
    assert counted(read, ["geo", "sex", "age"]).to_dict() == {cell: n for cell, n in base.items() if n}
    assert read.spine.labels("geo_2") == ["P1", "P2", "P3"]


def test_rows_are_kept_if_their_numbers_do_not_add_up_and_are_doubted_if_they_are_called_totals():
    table, _ = portal()
    table.loc[table.sex == "T", "value"] += 1
    assert "sex" not in draft_table(table).book.form.total_rows
    rounded, _ = portal(rounded=True)
    found = draft_table(rounded).book.form.total_rows
    assert set(found["age"]) == {"TOTAL"}  # by its name, and sums that are close


def test_a_place_that_begins_like_another_is_not_above_it():
    rows = [("Volta", town, sex, n) for town, n in (("Ho", 40), ("Hohoe", 40), ("Keta", 60)) for sex in "MF"] * 4
    table = pd.DataFrame(rows, columns=["region", "town", "sex", "n"])
    assert draft_table(table).book.form.total_rows == {}


def test_columns_of_subtotals_are_no_labels_and_labels_name_their_attribute(tmp_path):
    book, rng = openpyxl.Workbook(), np.random.default_rng(2)
    sheet, grades = book.active, ["Grade 1", "Grade 2", "Grade 3"]
    sheet.append(["Region", "District", "School", "Boys", *[None] * 3, "Girls", *[None] * 3, "Grand total"])
    sheet.append([*[None] * 3, *grades, "Total", *grades, "Total", None])
    counts = rng.integers(5, 60, (12, 2, 3))
    for i, (boys, girls) in enumerate(counts.tolist()):
        region, district = (["Ashanti", "Volta"][i // 6], f"D{i // 3}") if i % 3 == 0 else (None, None)
        region = region if i % 6 == 0 else None
        row = [*boys, sum(boys), *girls, sum(girls), sum(boys) + sum(girls)]
        sheet.append([region, district, f"School {i}", *row])
        if i % 6 == 5:
            sheet.append([f"Total {i}", *[None] * 10, int(counts[i - 5 : i + 1].sum())])
    book.save(tmp_path / "t.xlsx")
    draft = draft_table(tmp_path / "t.xlsx")
    assert draft.book.attributes == {"sex": ("Boys", "Girls"), "grade": tuple(grades)}
    assert draft.book.levels == ("Region", "District", "School")
    assert draft.book.form.fill_down == ("Region", "District")
    assert {"Boys: Total", "Girls: Total"} <= set(draft.book.ignore)
    assert read_counts(tmp_path / "t.xlsx", draft.book).total() == counts.sum()


def test_codes_of_few_units_beside_their_names_stay_the_codes():
    rows = [
        (f"M{i // 3}", f"Kunta {i}", f"{7 * i + 4:03}", f"{i + 1} 05{i}", f"{i} 300", f"{2 * i + 1} 35{i}")
        for i in range(9)
    ]
    draft = draft_table(pd.DataFrame(rows, columns=["Maakunta", "Kunta", "Kuntakoodi", "Miehet", "Naiset", "Yhteensä"]))
    assert (draft.book.levels, draft.book.names) == (("Maakunta", "Kuntakoodi"), {"Kuntakoodi": "Kunta"})
    assert draft.book.total == "Yhteensä"


@pytest.mark.parametrize("below", [False, True])
def test_regions_above_or_below_their_districts_in_one_column_are_left_out_as_sums(below):
    rng, rows, base = np.random.default_rng(4), [], []
    for region in ("Northern", "Central", "Southern"):
        part = [(f"  {region} {i}", *rng.integers(500, 9_000, 2).tolist()) for i in range(5)]
        base += part
        total = (f"{region} Region", sum(n for _, n, _ in part), sum(n for *_, n in part))
        rows += [*part, total] if below else [total, *part]
    nation = ("MALAWI", sum(n for _, n, _ in base), sum(n for *_, n in base))
    rows = [*rows, nation] if below else [nation, *rows]
    table = pd.DataFrame(rows, columns=["Area", "Male", "Female"])
    draft = draft_table(table)
    assert set(draft.book.form.total_rows["Area"]) == {
        "MALAWI",
        *(f"{r} Region" for r in ("Northern", "Central", "Southern")),
    }
    assert read_counts(table, draft.book).total() == nation[1] + nation[2]
    assert draft_table(pd.DataFrame(base, columns=table.columns)).book.form.total_rows == {}


def test_row_numbers_without_a_name_are_ignored_and_spaces_around_names_do_not_split_units(tmp_path):
    rows = [(f"R{i // 8}{' ' * (i % 3)}", f"T{i // 2}", "MF"[i % 2], f"{1_000 + i:,}") for i in range(32)]
    pd.DataFrame(rows, columns=["State", "LGA", "Sex", "Pop 2021"]).to_csv(tmp_path / "t.csv")  # with its index
    draft = draft_table(tmp_path / "t.csv")
    assert (draft.book.levels, draft.book.root, draft.book.count) == (("State", "LGA"), "us", "Pop 2021")
    assert (draft.book.ignore, draft.book.form.strip) == (("column 1",), True)
    read = read_counts(tmp_path / "t.csv", draft.book)
    assert (read.total(), read.spine.size("State"), read.spine.size("LGA")) == (sum(range(1_000, 1_032)), 4, 16)
    assert codebook_from_toml(draft.to_toml()) == draft.book


def test_states_with_names_are_not_those_of_the_united_states():
    table = pd.DataFrame([(f"{s} State", f"{s}{i}", x, i) for s in "ABC" for i in range(9) for x in "MF"])
    assert draft_table(table.set_axis(["State", "LGA", "sex", "n"], axis=1)).book.root == "all"


def test_households_and_their_members_are_no_levels():
    rng = np.random.default_rng(3)
    rows = [(h, p, 1 + h % 4, f"0{1 + h % 4}0{1 + h % 3}", rng.choice(["Head", "Child"]), rng.choice(["1", "2"]))
            for h in range(1, 90) for p in range(1, 1 + rng.integers(2, 6))]  # fmt: skip
    draft = draft_table(pd.DataFrame(rows, columns=["hhid", "pid", "county", "ward", "relation", "sex"]).astype(str))
    assert draft.book.levels == ("county", "ward")
    assert draft.book.attributes.keys() == {"relation", "sex"}
    assert draft.book.ignore == ("hhid", "pid")


def test_dashes_stand_for_nobody_and_suppressed_counts_are_asked_for():
    rows = [(f"G{i // 6}", f"W{i // 2}", "MV"[i % 2], ["-", "12", "7", "30"][i % 4]) for i in range(24)]
    table = pd.DataFrame(rows, columns=["Gemeente", "Wijk", "Geslacht", "Aantal"])
    draft = draft_table(table)
    assert draft.book.form.zeros == ("-",)
    assert read_counts(table, draft.book).total() == 6 * 49
    table.loc[5, "Aantal"] = "<5"
    with pytest.raises(
        DataError, match=r"row 6, column 'Aantal': <5 is not a whole number\. Give the count itself, also"
    ):
        read_counts(table, draft.book)
    table.loc[5, "Aantal"] = ""
    with pytest.raises(
        DataError, match=r'row 6, .* the count is missing\. .* write \[file\] zeros = \[""\] in the codebook'
    ):
        read_counts(table, draft.book)
    empty_too = replace(draft.book, form=FileForm(zeros=("-", "")))
    assert read_counts(table, empty_too).total() == 6 * 49 - 12
    numbers = table.assign(Aantal=pd.to_numeric(table.Aantal, errors="coerce"))
    assert read_counts(numbers, empty_too).total() == 6 * 49 - 12


def _of_latvia(country: str) -> bytes:
    """Regions with subtotals that say so, and a country by its name alone."""
    towns = {
        "Rīga": {"Rīga": 931},
        "Kurzeme": {"Liepāja": 872, "Dobele": 42750},
        "Latgale": {"Krāslava": 752, "Ludza": 98},
    }
    rows = [f"{region} kopā;;{sum(inside.values())}" for region, inside in towns.items()]
    rows += [f"{region};{town};{number}" for region, inside in towns.items() for town, number in inside.items()]
    people = sum(sum(inside.values()) for inside in towns.values())
    return "\r\n".join(["reģions;novads;skaits", *rows, f"{country};;{people}"]).encode()


def test_a_country_by_its_name_below_subtotals_is_a_total_too(tmp_path):
    (tmp_path / "t.csv").write_bytes(_of_latvia("Latvija"))
    draft = draft_table(tmp_path / "t.csv", count="skaits")
    marks = {name: set(values) for name, values in draft.book.form.total_rows.items()}
    assert marks == {"reģions": {"Rīga kopā", "Kurzeme kopā", "Latgale kopā", "Latvija"}}
    people = read_counts(tmp_path / "t.csv", draft.book)
    assert people.total() == 931 + 872 + 42750 + 752 + 98
    assert [people.spine.size(level) for level in people.spine.levels] == [1, 3, 5]


def test_a_country_is_no_total_where_its_regions_do_not_add_up(tmp_path):
    text = _of_latvia("Latvija").decode().replace("Latgale;Ludza;98", "Latgale;Ludza;99")
    (tmp_path / "t.csv").write_text(text)
    draft = draft_table(tmp_path / "t.csv", count="skaits")
    assert "Latvija" not in {value for values in draft.book.form.total_rows.values() for value in values}
    with pytest.raises(InputError):  # refused, and not read with people who are counted twice
        read_counts(tmp_path / "t.csv", draft.book)


def test_a_level_that_is_called_a_code_has_a_note_that_readers_will_see_it():
    table = pd.DataFrame(
        {"Kód obce": ["500119", "500132", "500159"], "Obec": ["Týn", "Krumlov", "Třeboň"], "Počet": [3, 5, 9]}
    )
    note = '"Kód obce",  # readers will see this name; for another one, rename the column in the file'
    assert note in draft_table(table, levels=["Kód obce"], count="Počet").to_toml()
    renamed = table.rename(columns={"Kód obce": "obec", "Obec": "název"})
    assert "readers will see" not in draft_table(renamed, levels=["obec"], count="Počet").to_toml()


# ---- columns that take no part in sums


def with_subtotals(rng=None):
    """Provinces with a row of totals for each sex above their wards; names and codes do not say which rows they are."""
    rng = rng or np.random.default_rng(5)
    rows, base = [], 0
    for province, region in (("A", "N"), ("B", "N"), ("C", "S"), ("D", "S")):
        wards = [(f"{d:02d}", f"{w:02d}") for d in (1, 2, 3) for w in range(1, 5)]
        cells = {(*ward, sex): rng.integers(20, 900, 2) for ward in wards for sex in "mf"}
        for sex in "mf":
            whole = sum(n for (_, _, s), n in cells.items() if s == sex)
            rows.append((region, province, "00", "00", sex, whole.sum(), *whole))
            base += int(whole.sum())
        rows += [(region, province, d, w, sex, n.sum(), *n) for (d, w, sex), n in cells.items()]
    columns = ["region", "province", "district", "ward", "sex", "total", "young", "old"]
    return pd.DataFrame(rows, columns=columns), base


def _irrelevant(kind, rng, rows):
    """Values that say nothing about people."""
    few = rng.random(rows)
    return {
        "remarks": np.where(few < 0.08, "checked", np.where(few < 0.15, "revised", "")),
        "words for totals": np.where(few < 0.08, "total checked", np.where(few < 0.15, "total revised", "")),
        "status": np.where(few < 0.5, "final", "preliminary"),
        "rate": [f"{90 + 9 * x:.2f}" for x in few],
        "serial": np.arange(1, rows + 1),
        "constant": np.full(rows, "2024 census"),
        "date": [f"2024-{1 + int(12 * x):02d}-01" for x in few],
    }[kind]


@settings(max_examples=40, deadline=None)
@given(
    kinds=st.lists(
        st.sampled_from(["remarks", "words for totals", "status", "rate", "serial", "constant", "date"]),
        min_size=1, max_size=3, unique=True,
    ),
    place=st.integers(0, 8), name=st.sampled_from(["note", "หมายเหตุ", "zz"]), seed=st.integers(0, 99),
)  # fmt: skip
def test_columns_that_say_nothing_about_people_never_hide_rows_of_totals_silently(kinds, place, name, seed):
    rng = np.random.default_rng(seed)
    table, base = with_subtotals()
    for i, kind in enumerate(kinds):
        table.insert(place, f"{name} {i}", _irrelevant(kind, rng, len(table)))
    draft = draft_table(table, levels=["region", "province", "district", "ward"])
    assert draft.missing or read_counts(table, draft.book).total() == base


@pytest.mark.parametrize("kind", ["remarks", "status"])
def test_rows_of_totals_are_left_out_beside_remarks_as_they_are_without(kind):
    table, base = with_subtotals()
    marks = draft_table(table).book.form.total_rows
    table = table.assign(note=_irrelevant(kind, np.random.default_rng(7), len(table)))
    draft = draft_table(table)
    assert (draft.missing, draft.book.form.total_rows) == ((), marks)
    assert read_counts(table, draft.book).total() == base


def test_totals_by_name_that_are_nearly_right_are_left_out_beside_remarks_that_say_total():
    table, _ = with_subtotals()
    table.loc[table.ward == "00", "ward"] = "Total"
    table["total"] += np.where(table.ward == "Total", 3, 0)
    table["young"] += np.where(table.ward == "Total", 1, 0)
    table["old"] += np.where(table.ward == "Total", 2, 0)
    table["note"] = np.where(table.ward == "01", "total " + table.sex, "")
    draft = draft_table(table, levels=["region", "province", "district", "ward"])
    assert draft.book.form.total_rows["ward"][0] == "Total"
    assert "note" not in draft.book.form.total_rows


# ---- merged cells and totals


PLACES = [("N", "a"), ("N", "b"), ("S", "c"), ("S", "d")]
IN_PLACES = Codebook(
    root="all", levels=("region", "town"), attributes={"sex": ("f", "m")}, layout="long", count="n",
    form=FileForm(fill_down=("region", "town"), total_rows={"region": ("All", "Sum"), "sex": ("T",)}),
)  # fmt: skip


@st.composite
def merged_with_totals(draw):
    """Rows of people, and the same rows with merged cells and rows of totals first, between regions and last."""
    counts = draw(st.lists(st.integers(1, 9), min_size=8, max_size=8))
    plain = [(*place, sex, n) for (place, sex), n in zip(product(PLACES, "fm"), counts, strict=True)]
    shown, before = [], ("", "")

    def add(region, town, sex, n):
        nonlocal before
        merged = [draw(st.booleans()) and region == before[0], draw(st.booleans()) and (region, town) == before]
        shown.append(("" if merged[0] else region, "" if merged[1] else town, sex, str(n)))
        before = (region, town)

    def total():
        nonlocal before
        name, by_sex = draw(st.sampled_from(["All", "Sum"])), draw(st.booleans())
        rows = [(name, "", "f", "40"), (draw(st.sampled_from(["", name])), "", "m", "41")]
        shown.extend(rows if by_sex else [(name, "", "", "81")])
        before = ("", "")

    total() if draw(st.booleans()) else None
    for i, row in enumerate(plain):
        add(*row)
        if i % 2 and draw(st.booleans()):
            add(*row[:2], "T", 9)
        if i in (3, 7) and draw(st.booleans()):
            total()
    return plain, shown


@settings(max_examples=150, deadline=None)
@given(tables=merged_with_totals(), size=st.integers(1, 5))
def test_merged_cells_beside_rows_of_totals_are_read_as_the_plain_table(tables, size):
    columns = ["region", "town", "sex", "n"]
    plain, shown = (pd.DataFrame(rows, columns=columns) for rows in tables)
    whole = read_counts(shown, IN_PLACES)
    assert whole == read_counts(plain.astype(str), replace(IN_PLACES, form=FileForm()))
    pieces = [Batch(name="t", table=pa.Table.from_pandas(shown[i : i + size], preserve_index=False),
                    rows=np.arange(i, min(i + size, len(shown)))) for i in range(0, len(shown), size)]  # fmt: skip
    kept = [piece.table.column("n").to_pylist() for piece in formed(iter(pieces), IN_PLACES.form)]
    assert sum(int(n) for piece in kept for n in piece) == plain.n.sum()


def test_a_merged_total_of_a_sheet_holds_for_all_of_its_rows(tmp_path):
    book = openpyxl.Workbook()
    for row in [("town", "sex", "n"), ("a", "f", 5), (None, "m", 7), ("All", "f", 5), (None, "m", 7)]:
        book.active.append(row)
    book.active.merge_cells("A2:A3")
    book.active.merge_cells("A4:A5")
    book.save(tmp_path / "t.xlsx")
    form = FileForm(fill_down=("town",), total_rows={"town": ("All",)})
    assert read_counts(tmp_path / "t.xlsx", replace(IN_PLACES, levels=("town",), form=form)).total() == 12


def test_empty_cells_cannot_both_mark_totals_and_have_the_value_above():
    form = FileForm(fill_down=("region",), total_rows={"region": ("",)})
    with pytest.raises(DataError, match=r"marks the empty cells of column 'region', but fill_down gives them"):
        read_counts(pd.DataFrame({"region": ["N"], "town": ["a"], "sex": ["f"], "n": ["1"]}),
                    replace(IN_PLACES, form=form))  # fmt: skip


# ---- rows above the table and empty rows

LISTED = Codebook(root="all", levels=("town",), attributes={"sex": ("f", "m")}, layout="persons")
HEADERS = {1: ("sex", [["town", "sex", "note"]]), 2: ("who: sex", [["town", "who", "note"], ["", "sex", ""]])}


def file_of(lines, folder, kind):
    if kind == "xlsx":
        book = openpyxl.Workbook()
        for line in lines:
            book.active.append([cell or None for cell in line])
        book.save(folder / "t.xlsx")
    else:
        (folder / "t.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    return folder / f"t.{kind}"


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
@pytest.mark.parametrize("header_rows", [1, 2])
@pytest.mark.parametrize("layout", ["persons", "long"])
def test_people_below_names_of_columns_that_are_repeated_are_not_left_out_as_titles(
    tmp_path, kind, header_rows, layout
):
    sex, header = HEADERS[header_rows]
    body = [["a", "f", "2"], ["b", "m", "3"]]
    book = replace(
        LISTED, attributes={sex: ("f", "m")}, layout=layout, **({"count": "note"} if layout == "long" else {})
    )
    book = replace(book, ignore=("note",) if layout == "persons" else ())
    for titles in ([], [["A list"]], [["A list", "2020"], ["of people"]]):
        read = lambda lines, rows: read_counts(  # noqa: E731
            file_of(lines, tmp_path, kind), replace(book, form=FileForm(title_rows=rows, header_rows=header_rows))
        )
        assert read([*titles, *header, *body], len(titles)).total() == (2 if layout == "persons" else 5)
        for swallowed in ([], body[:1], body):
            above = [*titles, *header, *swallowed]
            with pytest.raises(DataError, match=rf"the names of the columns are among the first {len(above)} rows"):
                read([*above, *header, *body], len(above))


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_person_above_the_names_of_columns_is_no_title(tmp_path, kind):
    book = replace(LISTED, form=FileForm(title_rows=1), ignore=("note",))
    lines = [["A list", "2020", ""], ["town", "sex", "note"], ["b", "m", ""]]
    assert read_counts(file_of(lines, tmp_path, kind), book).total() == 1
    lines[0] = ["a", "f", ""]
    with pytest.raises(DataError, match=r"a row of the table is among the first 1 rows, which \[file\] title_rows"):
        read_counts(file_of(lines, tmp_path, kind), book)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([("a", "f", ""), ("b", "m", ""), ("", "", ""), (" ", "", " ")]), min_size=1, max_size=9),
    st.sampled_from([0, 1]),
)
def test_rows_without_any_value_are_skipped_and_not_counted(tmp_path_factory, rows, title_rows):
    folder = tmp_path_factory.mktemp("f")
    book = replace(LISTED, form=FileForm(title_rows=title_rows), ignore=("note",))
    lines = [["A list"]] * title_rows + [["town", "sex", "note"], *rows]
    read = lambda lines: read_counts(file_of(lines, folder, "csv"), book, units=pd.DataFrame({"town": ["a", "b"]}))  # noqa: E731
    people = sum(bool(row[0].strip()) for row in rows)
    assert read(lines).total() == people
    with pytest.raises(DataError, match=rf"row {people + 1}, column 'sex': unknown label 'x'"):
        read([*lines, ["a", "x", ""]])


# ---- thousands and decimals

NUMBERS = Codebook(root="all", levels=("town",), attributes={}, layout="wide", column="n")


def numbers(*cells):
    return pd.DataFrame({"town": [f"t{i}" for i in range(len(cells))], "n": list(cells)})


@settings(deadline=None)
@given(st.lists(st.integers(1, 999_999), min_size=1, max_size=6), st.lists(st.integers(0, 999), max_size=3))
def test_dots_before_three_zeros_are_asked_about_and_read_as_the_codebook_says(thousands, few):
    table = numbers(*(f"{n:,}.000".replace(",", "") for n in thousands), *map(str, few))
    by_dots = numbers(*(f"{n * 1000:,}".replace(",", ".") for n in thousands), *map(str, few))
    read = lambda table, mark: read_counts(table, replace(NUMBERS, form=FileForm(thousands=mark))).total()  # noqa: E731
    assert read(table, "") == sum(thousands) + sum(few)
    assert read(by_dots, ".") == 1000 * sum(thousands) + sum(few)
    if max(thousands) < 1000:
        with pytest.raises(
            DataError, match=r"row 1, column .n.: \d+\.000 may be a number of thousands or have three dec"
        ):
            read(table, None)
    else:  # 1000.000 has three decimals
        assert read(table, None) == read(table, "")
    book = replace(NUMBERS, form=FileForm(thousands=""))
    assert codebook_from_toml(codebook_to_toml(book)).form.thousands == ""


@pytest.mark.parametrize("shows", ["0.000", "3.00", "7.", "1234.000", "1.0000"])
def test_another_number_in_the_column_shows_that_dots_are_decimal_points(shows):
    assert read_counts(numbers("1.000", "12.000", shows), NUMBERS).total() == 13 + int(float(shows))


@pytest.mark.parametrize("cell", ["0.500", "012.345", "000.001", 12.345, 1.001, -1.001, 0.125])
@pytest.mark.parametrize("source", ["sheet", "frame"])
def test_fractions_are_no_thousands(tmp_path, cell, source):
    table = numbers(cell, "1.234")
    if source == "sheet":
        table.to_excel(tmp_path / "t.xlsx", index=False)
    table = tmp_path / "t.xlsx" if source == "sheet" else table
    with pytest.raises(
        DataError, match=r"row 1, column 'n': .* is not a whole number with thousands separated by '\.'"
    ):
        read_counts(table, replace(NUMBERS, form=FileForm(thousands=".")))


# ---- encodings

THAI = "เขตสุขภาพ;จังหวัด;อำเภอ;ตำบล;เพศ;จำนวน\n01;เชียงใหม่;เมืองเชียงใหม่;เกาะแต้ว;ชาย;12\n07;ขอนแก่น;น้ำพอง;กุดน้ำใส;หญิง;9\n"
OTHERS = [
    ("cp1251", "ОБЛАСТЬ;ВСЕГО;МУЖЧИНЫ;ЖЕНЩИНЫ"), ("iso8859-5", "ОБЛАСТЬ;ВСЕГО;КРАЙ;РАЙОН;ГОРОД"),
    ("koi8-r", "Область;Всего;мужчины;женщины"), ("cp1252", "Région;Âge;Effectif élevé;été;Île"),  # noqa: RUF001
    ("cp1253", "ΝΟΜΟΣ;ΣΥΝΟΛΟ;ΑΝΔΡΕΣ"), ("cp1253", "Νομός;Σύνολο;άνδρες;γυναίκες"),
    ("cp949", "시도;시군구;읍면동;남자;여자;합계;서울특별시"), ("cp932", "都道府県;市区町村;人口;男;女"),
    ("gb18030", "省;市;县;男;女;合计;人口"), ("big5", "縣市;鄉鎮;男;女;合計;人口"),
    ("cp1250", "Powiat;Płeć;Łącznie;Śląskie"),
    ("cp1255", "מחוז;נפה;יישוב;גברים;נשים;סך הכל"), ("cp1256", "المحافظة;المديرية;ذكور;إناث;المجموع"),
    ("cp1254", "İl;İlçe;Nüfus;Şırnak;Muğla;ÇANKIRI"), ("cp1258", "Tinh;Quân;Nam;Nư;Thôn"),  # noqa: RUF001
]  # fmt: skip


@pytest.mark.parametrize("text", [THAI, THAI.replace(";", "\t"), "อำเภอ,รวม\n", "ตำบล,จำนวนคน,SSS\n"])
def test_thai_text_is_told_by_its_vowels_that_have_a_consonant(text):
    found = likely_encoding(text.encode("cp874"), whole=True)
    assert (found.name, found.is_sure) == ("cp874", True)


@pytest.mark.parametrize(("encoding", "text"), OTHERS, ids=[f"{e}-{t[:4]}" for e, t in OTHERS])
def test_no_other_text_is_taken_for_thai(encoding, text):
    found = likely_encoding(f"a;b\n{text}\n{text}\n".encode(encoding), whole=True)
    assert found.name != "cp874"


def test_an_encoding_that_puts_capitals_inside_words_is_refused():
    words = ";".join(["ЈгЙЧЙМйщСеЪдЗИд", "ЛУаЁбЙЪиЂРвО", "КбЕУЗЭЇЙбЕ"] * 3)
    found = likely_encoding(words.encode("iso8859-5"), whole=True)
    assert found.name != "iso8859-5"
    rightly = likely_encoding("Область;Район;Город;кВт;МВтч;Всего".encode("iso8859-5"), whole=True)  # noqa: RUF001
    assert rightly.name == "iso8859-5"


def test_the_command_says_what_to_do_if_a_guessed_encoding_is_wrong(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(as_published(people()).encode("cp1252"))
    remedy = "read as cp1252; if letters are wrong, draft again with --encoding NAME\n"
    assert remedy in CliRunner().invoke(app, ["codebook", str(file)]).stderr
    asked = CliRunner().invoke(app, ["codebook", str(file), "--encoding", "cp1252"]).stderr
    assert "read as cp1252\n" in asked
