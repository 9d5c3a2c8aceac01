"""Tables to publish: what is read back from every format is the release."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tallyveil as tv
from command_line import run as command
from tallyveil.errors import InputError
from tallyveil.evaluate.margins import margins
from tallyveil.files.published import workbook
from tallyveil.files.published.level_tables import ALL, level_tables
from tallyveil.files.published.write_tables import write_tables
from tallyveil.files.release_folder.margin_columns import write_margins
from tallyveil.files.tables.codebook_toml import read_codebook

openpyxl = pytest.importorskip("openpyxl")
ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "ri_2010_block.parquet"
LABELS = {"age": ["=1+1", "65+"], "sex": ["f", "-m"]}


@pytest.fixture(scope="module")
def people():
    """Codes with leading zeros that repeat under parents, labels that look like formulas, and empty units."""
    rng = np.random.default_rng(1)
    paths = [(f"0{d}", f"00{v}", f"{b}") for d in (1, 2) for v in (1, 2, 3) for b in "ABCD"]
    columns = {level: [path[i] for path in paths] for i, level in enumerate(("district", "village", "block"))}
    spine = tv.Spine.from_columns(columns, root="land", relative=True)
    schema = tv.Schema(attributes=LABELS)
    counts = rng.poisson(3, (24, 4)) * (rng.random((24, 1)) < 0.8)
    unit, cell = np.nonzero(counts)
    return tv.Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=counts[unit, cell])


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    place = tmp_path_factory.mktemp("published") / "release"
    strategy = tv.Strategy.default(people.spine, people.schema, epsilon=4)
    release = tv.protect(people, strategy, seed=1, threads=1)
    tv.write_release(release, place)
    write_margins(place, margins(release, lambda again, i: again if i else people, replicates=2))
    return place


def tidy(frame: pd.DataFrame, query: str) -> dict[tuple[str, ...], int]:
    rows = frame[frame["query"] == query]
    names = ["district", "village", "block", "age", "sex"]
    return {tuple(row[:-1]): int(row[-1]) for row in rows[[*names, "count"]].itertuples(index=False) if int(row[-1])}


def released(folder: Path) -> dict[tuple[str, ...], int]:
    table = pd.read_parquet(folder / "release.parquet").astype({"count": int})
    return {tuple(row[:-1]): int(row[-1]) for row in table.itertuples(index=False)}


def test_every_format_gives_back_the_release(folder, tmp_path):
    for kind in ("csv", "parquet", "xlsx"):
        write_tables(folder, tmp_path / kind, format=kind, queries=["detailed"])
    read = {
        "csv": pd.read_csv(tmp_path / "csv" / "block_tidy.csv", dtype=str),
        "parquet": pd.read_parquet(tmp_path / "parquet" / "block_tidy.parquet").astype(str),
        "xlsx": pd.read_excel(tmp_path / "xlsx" / "block.xlsx", sheet_name="block tidy", dtype=str),
    }
    for kind, frame in read.items():
        plain = frame.replace({"'=1+1": "=1+1", "'-m": "-m"}) if kind == "csv" else frame
        assert tidy(plain, "detailed") == released(folder), kind


def test_tidy_and_wide_tables_agree_with_the_tables_of_the_release_and_have_their_margins(folder, tmp_path):
    write_tables(folder, tmp_path / "out", format="parquet", levels=["village"])
    wide = pd.read_parquet(tmp_path / "out" / "village.parquet")
    pd.testing.assert_frame_equal(wide, pd.read_parquet(folder / "levels" / "village.parquet"))
    long = pd.read_parquet(tmp_path / "out" / "village_tidy.parquet").astype({"age": str, "sex": str, "query": str})
    for query, column in (("total", "total"), ("age", "age:65+"), ("sex", "sex:-m")):
        rows = long[long["query"] == query]
        rows = rows[(rows[query] == column.partition(":")[2])] if query != "total" else rows
        assert rows["count"].tolist() == wide[column].tolist()
        assert rows["moe90"].tolist() == wide[f"{column}_moe90"].tolist()
        other = {"age": "sex", "sex": "age", "total": "age"}[query]
        assert set(rows[other]) == {ALL}
    assert list(wide.columns[:2]) == ["district", "village"]
    assert set(wide.village) == {"001", "002", "003"}  # the user's own codes


def test_labels_that_look_like_formulas_are_text_in_excel_and_are_marked_in_csv(folder, tmp_path):
    write_tables(folder, tmp_path / "x", format="xlsx", levels=["block"])
    write_tables(folder, tmp_path / "c", format="csv", levels=["block"])
    sheet = openpyxl.load_workbook(tmp_path / "x" / "block.xlsx")["block tidy"]
    cells = [cell for row in sheet.iter_rows() for cell in row if isinstance(cell.value, str)]
    assert any(cell.value == "=1+1" for cell in cells)
    assert {cell.data_type for cell in cells} == {"s"}
    with (tmp_path / "c" / "block_tidy.csv").open(newline="") as file:
        texts = {text for row in csv.reader(file) for text in row}
    assert {"'=1+1", "'-m", "65+"} <= texts


def test_a_workbook_begins_with_the_guarantee_in_words(folder, tmp_path):
    write_tables(folder, tmp_path / "x", format="xlsx", levels=["district"])
    book = openpyxl.load_workbook(tmp_path / "x" / "district.xlsx")
    assert book.sheetnames == ["README", "district", "district tidy"]
    words = " ".join(str(row[0].value) for row in book["README"].iter_rows())
    assert "Guarantee: 4-differential privacy (pure)" in words
    assert "Stamped: seeded: not for publication" in words
    assert (tmp_path / "x" / "README.txt").read_text().startswith("Tables of release\n")


def test_tables_say_what_was_released_and_by_whom(people, tmp_path):
    strategy = tv.Strategy.default(people.spine, people.schema, epsilon=4)
    about = tv.About(
        title="Measles, 2024", organisation="Ministry of Health", population="cases of 2024", date="2025-02-01"
    )
    tv.write_release(tv.protect(people, strategy, seed=1, threads=1, about=about), tmp_path / "release")
    write_tables(tmp_path / "release", tmp_path / "out", format="csv")
    lines = (tmp_path / "out" / "README.txt").read_text().splitlines()
    assert lines[:5] == [
        "Measles, 2024", "Released by: Ministry of Health", "People counted: cases of 2024", "Date: 2025-02-01", ""
    ]  # fmt: skip


def test_a_table_longer_than_a_sheet_continues_with_the_next_parent(folder, tmp_path, monkeypatch):
    from tallyveil.files.published import level_tables as module

    monkeypatch.setattr(workbook, "ROWS", 51)
    monkeypatch.setattr(module, "NUMBERS", 50)
    write_tables(folder, tmp_path / "x", format="xlsx", levels=["block"])
    book = openpyxl.load_workbook(tmp_path / "x" / "block.xlsx")
    sheets = [name for name in book.sheetnames if name.startswith("block tidy")]
    assert len(sheets) > 1
    parents = [{tuple(row[:2]) for row in book[name].iter_rows(min_row=2, values_only=True)} for name in sheets]
    assert all(book[name].max_row <= 51 for name in sheets)
    assert not set.intersection(*parents[:2])
    assert set().union(*parents) == {(d, v) for d in ("01", "02") for v in ("001", "002", "003")}


def test_what_no_workbook_can_hold_is_refused_before_anything_is_written(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(workbook, "MOST", 10)
    with pytest.raises(InputError, match=r"level 'block' has \d+ rows, too many for an Excel workbook"):
        write_tables(folder, tmp_path / "x", format="xlsx", levels=["block"])
    monkeypatch.setattr(workbook, "COLUMNS", 3)
    with pytest.raises(InputError, match="more than the 3 of an Excel sheet"):
        write_tables(folder, tmp_path / "x", format="xlsx", levels=["district"])
    assert not (tmp_path / "x").exists()


def test_sdmx_names_every_unit_by_one_code_and_totals_by_its_own(folder, tmp_path):
    write_tables(folder, tmp_path / "s", format="sdmx-csv")
    frame = pd.read_csv(tmp_path / "s" / "block.csv", dtype=str)
    start = ["STRUCTURE", "STRUCTURE_ID", "ACTION", "GEO_LEVEL", "REF_AREA", "AGE", "SEX", "OBS_VALUE", "MOE90"]
    assert list(frame.columns) == start
    assert set(frame.STRUCTURE_ID) == {"TALLYVEIL:RELEASE(1.0)"}
    totals = frame[(frame.AGE == ALL) & (frame.SEX == ALL)]
    assert totals.REF_AREA.is_unique
    assert "01/001/A" in set(totals.REF_AREA)
    assert totals.OBS_VALUE.astype(int).sum() == tv.read_release(folder).histogram.total()
    assert not frame.duplicated(["REF_AREA", "AGE", "SEX"]).any()


def test_the_whole_code_of_the_users_file_is_a_column_of_the_leaves_only(folder):
    release = tv.read_release(folder)
    block = level_tables(folder, release, "block", [], code="GEOID")
    assert next(block.wide()).column_names[0] == "GEOID"
    village = level_tables(folder, release, "village", [], code="GEOID")
    assert "GEOID" not in next(village.wide()).column_names


def test_a_release_by_other_software_says_that_it_has_no_certificate(people, tmp_path):
    tv.files.write_counts(people, tmp_path / "release.parquet")
    (tmp_path / "release.codebook.toml").rename(tmp_path / "codebook.toml")
    write_tables(tmp_path, tmp_path / "out", levels=["district"])
    assert "no certificate, so nothing is known of its protection" in (tmp_path / "out" / "README.txt").read_text()


def test_the_command_lists_what_it_wrote_and_refuses_what_it_cannot_write(folder, tmp_path):
    done = command("tables", str(folder), "--level", "district", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(tmp_path / "out" / n) for n in ("README.txt", "district.csv", "district_tidy.csv")
    ]
    assert "2 tables and a README. They hold what" in done.stderr
    by = " * ".join(read_codebook(folder / "codebook.toml").attributes)
    assert f"Counts by {by} are left out: {folder} has them too. To write them: --query detailed\n" in done.stderr
    for name, query in (("all", "detailed"), ("named", " * ".join(reversed(by.split(" * "))))):
        whole = command("tables", str(folder), "--level", "district", "--query", query, "-o", str(tmp_path / name))
        assert "left out" not in whole.stderr, whole.stderr
    for words, message in (
        (["--level", "moon"], "unknown level 'moon'"),
        (["--query", "shoe"], "shoe"),
        (["--level", "district"], "exists. Name a new folder"),
    ):
        failed = command("tables", str(folder), *words, "-o", str(tmp_path / "out"))
        assert failed.returncode == 2
        assert message in failed.stderr


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the real counts (../shared/data) are not there")
def test_real_blocks_go_to_excel_and_back_and_join_with_the_file_they_came_from(tmp_path):
    people = tv.files.read_counts(DATA, ROOT / "examples" / "ri_2010_block.toml")
    release = tv.protect(people, tv.Strategy.default(people.spine, people.schema, epsilon=1), seed=1)
    tv.write_release(replace(release, measurements=None), tmp_path / "release")
    write_tables(tmp_path / "release", tmp_path / "x", format="xlsx", levels=["block"], queries=["detailed"])
    frame = pd.read_excel(tmp_path / "x" / "block.xlsx", sheet_name="block tidy", dtype=str)
    names = [*people.spine.levels[-1:], *people.schema.attributes]
    back = frame[frame["query"] == "detailed"].set_index(names)["count"].astype(int).sort_index()
    table = pd.read_parquet(tmp_path / "release" / "release.parquet").astype(dict.fromkeys(names, str))
    cells = people.spine.size("block") * people.schema.query("detailed").size
    assert len(back) == cells  # few enough cells for zeros to be listed
    assert back[back > 0].to_dict() == table.set_index(names)["count"].sort_index().to_dict()
    columns = list(people.spine.levels)
    original = pd.read_parquet(DATA, columns=columns).astype(str)
    joined = original.merge(frame[columns].drop_duplicates(), how="outer", on=columns, indicator=True)
    assert (joined["_merge"] == "both").all()  # every code of the file has a row, and no row has another code
    assert len(joined) == len(original)
