"""Every kind of corruption is found, by the check that should find it, even where the list of files was made anew."""

import errno
import json
import os
import re
import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from folders import edit, edit_certificate, failing, holds, put, reseal, unchecked
from small_release import SOURCE, small_noisy, small_release, solved_release
from tallyveil import Strategy, protect, verify_release
from tallyveil.errors import InputError
from tallyveil.files import codebook_from_toml, codebook_to_toml, read_codebook, write_release
from tallyveil.files.release_folder.manifest import regular_file
from tallyveil.files.release_folder.measurement_files import measured_pairs
from tallyveil.populations import census_2020


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Released by hand, with all measurements but one: TopDown cannot be run again."""
    release = small_release()
    place = tmp_path_factory.mktemp("made") / "release"
    pairs = [pair for pair in measured_pairs(release.strategy) if pair != ("age", "us")]
    write_release(release, place, measurements=pairs, noisy=small_noisy(), source=codebook_from_toml(SOURCE))
    return place


@pytest.fixture(scope="module")
def solved(tmp_path_factory) -> Path:
    """Released by TopDown, with all measurements."""
    noisy, place = small_noisy(epsilon=4), tmp_path_factory.mktemp("solved") / "release"
    write_release(solved_release(noisy), place, measurements=measured_pairs(noisy.strategy), noisy=noisy)
    return place


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "release"))


@pytest.fixture
def whole(solved, tmp_path) -> Path:
    return Path(shutil.copytree(solved, tmp_path / "whole"))


CHECKS = [
    *("certificate", "signature", "manifest", "shares", "labels", "files", "page", "rendering", "observed", "spine"),
    *("counts", "strategy", "codebook", "source", "facilities", "measured spine", "stamps", "levels", "children"),
    *("structural zeros", "bounds", "invariants", "microdata", "measurements", "estimates"),
    *("declared", "post-processing"),
]


def test_a_release_as_written_holds_in_every_check(solved):
    findings = verify_release(solved)
    assert [finding.name for finding in findings] == CHECKS
    assert {finding.name for finding in findings if not finding.holds} == {"signature"}
    assert findings[1].as_json() == {
        "name": "signature",
        "holds": None,
        "words": "not signed, so nobody can notice if all files were changed together",
    }
    words = {finding.name: finding.words for finding in findings}
    assert words["stamps"] == "seeded: not for publication"
    assert words["manifest"] == "22 files have the SHA-256 that certificate.json lists"
    assert words["post-processing"].startswith("TopDown, run again on the measurements, gives this release")


def test_what_the_folder_does_not_hold_is_unchecked(made):
    assert unchecked(made) == {
        "signature": "not signed, so nobody can notice if all files were changed together",
        "post-processing": "10 of 11 measured queries are saved: TopDown needs all of them",
    }
    assert failing(made) == {}


def test_a_changed_file_is_found_by_the_list_and_never_parsed(folder, monkeypatch):
    (folder / "release.parquet").write_bytes(b"PAR1 garbage PAR1")
    monkeypatch.setattr("tallyveil.files.release_folder.strict.read_counts", lambda *_, **__: pytest.fail("parsed"))
    found = verify_release(folder)
    broken = {finding.name: finding.words for finding in found if finding.holds is False}
    assert broken == {"manifest": "release.parquet is not the file that the certificate lists"}
    assert {finding.name: finding.holds for finding in found}["counts"] is None


def test_each_file_is_opened_once(whole, monkeypatch):
    opened = []

    def counted(path):
        opened.append(path.relative_to(whole).as_posix())
        return regular_file(path)

    monkeypatch.setattr("tallyveil.files.release_folder.manifest.regular_file", counted)
    monkeypatch.setattr(
        "tallyveil.files.release_folder.measurement_files._open", lambda *_: pytest.fail("opened by its name")
    )
    monkeypatch.setattr("tallyveil.files.tables.sources._parquet", lambda *_: pytest.fail("opened by its name"))
    assert failing(whole) == {}
    assert "post-processing" not in unchecked(whole)
    files = sorted(path.relative_to(whole).as_posix() for path in whole.rglob("*") if path.is_file())
    assert sorted(opened) == sorted(files * 2)  # verified twice


@pytest.mark.parametrize("name", ["manifest.HELD", "measurement_checks.MOST_HELD"])
def test_what_is_too_large_to_hold_is_read_from_disk(whole, monkeypatch, name):
    monkeypatch.setattr(f"tallyveil.files.release_folder.{name}", 10)
    assert failing(whole) == {}
    assert "post-processing" not in unchecked(whole)


@pytest.mark.slow
@pytest.mark.parametrize("measurements", [(), None], ids=["plain", "all"])
def test_a_folder_of_the_2020_redistricting_file_is_verified_in_five_seconds(tmp_path, measurements):
    plan = Strategy.preset("pl94-2020-us-persons")
    release = protect(census_2020(persons=20_000, seed=1), plan, seed=1, measurements=measurements)
    write_release(release, tmp_path / "r", measurements=measured_pairs(plan, measurements))
    verify_release(tmp_path / "r")  # loads and compiles
    start = time.perf_counter()
    assert failing(tmp_path / "r") == {}
    assert time.perf_counter() - start < 5


# One kind of thing that is not a release's file after another (case 7)


def test_a_file_that_is_not_of_the_release_is_found_wherever_it_is(folder):
    for name in ("truth.csv", "levels/truth.csv", "measurements/truth.csv", "measurements/exact/us/age.parquet", ".x"):
        (folder / name).write_text("county,count\n")
        assert failing(folder)["manifest"] == f"{name} is not listed"
        assert failing(folder)["files"] == f"not of this release: {name}"
        reseal(folder)
        assert failing(folder) == {"files": f"not of this release: {name}"}
        (folder / name).unlink()
        reseal(folder)
    assert failing(folder) == {}


def test_a_folder_without_files_and_one_in_place_of_a_file_are_found(folder):
    (folder / "levels" / "more").mkdir()
    assert failing(folder) == {"files": "levels/more: a folder without files"}
    (folder / "levels" / "more").rmdir()
    (folder / "certificate.html").unlink()
    (folder / "certificate.html").mkdir()
    found = failing(folder)
    assert found["manifest"] == "certificate.html is listed but missing"
    assert found["files"] == "certificate.html: a folder without files"
    (folder / "certificate.json").unlink()
    (folder / "certificate.json").mkdir()
    assert failing(folder)["certificate"] == "certificate.json: a folder without files"


@pytest.mark.parametrize("name", ["release.parquet", "levels/us.parquet", "certificate.json", "certificate.html"])
def test_a_symbolic_link_is_found_even_to_the_right_file(folder, tmp_path, name):
    shutil.move(folder / name, tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    assert failing(folder)["files"] == f"{name}: a symbolic link"


def test_a_link_to_a_folder_of_tables_is_found(folder, tmp_path):
    shutil.move(folder / "levels", tmp_path / "levels")
    (folder / "levels").symlink_to(tmp_path / "levels")
    found = failing(folder)
    assert found["files"] == "levels: a symbolic link"
    assert "levels/county.parquet is listed but missing" in found["manifest"]


def test_a_pipe_or_a_socket_is_found_and_nobody_waits_for_it(folder):
    (folder / "release.parquet").unlink()
    os.mkfifo(folder / "release.parquet")
    assert failing(folder)["files"] == "release.parquet: neither a file nor a folder"
    (folder / "certificate.json").unlink()
    os.mkfifo(folder / "certificate.json")
    assert failing(folder)["certificate"] == "certificate.json: neither a file nor a folder"
    (folder / "release.parquet").unlink()
    (folder / "certificate.json").unlink()
    here = os.getcwd()
    os.chdir(folder)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("release.parquet")
            assert failing(folder)["files"] == "release.parquet: neither a file nor a folder"
    finally:
        os.chdir(here)


def test_a_file_that_cannot_be_read_is_found(folder, monkeypatch):
    def broken_disk(path):
        if path.name == "spine.parquet":
            raise OSError(errno.EIO, "Input/output error")
        return regular_file(path)

    monkeypatch.setattr("tallyveil.files.release_folder.manifest.regular_file", broken_disk)
    assert failing(folder) == {"manifest": "spine.parquet cannot be read (Input/output error)"}


@pytest.mark.parametrize(
    "name",
    ["release.parquet", "spine.parquet", "strategy.toml", "codebook.toml", "certificate.html", "certificate.json"],
)
def test_a_missing_file_is_named_and_nothing_crashes(folder, name):
    (folder / name).unlink()
    found = failing(folder)
    assert found["files"] == f"missing: {name}"
    if name == "certificate.json":
        assert found["certificate"] == "certificate.json: missing"
        return
    assert found["manifest"] == f"{name} is listed but missing"
    reseal(folder)
    assert failing(folder)["files"] == f"missing: {name}"


def test_missing_tables_are_found(folder):
    shutil.rmtree(folder / "levels")
    reseal(folder)
    found = failing(folder)
    assert found == {"files": "missing: levels/county.parquet, levels/tract.parquet, levels/us.parquet"}


def test_a_name_that_no_terminal_should_show_is_escaped(folder):
    odd = os.fsdecode(b"levels/\xff\x1b[31m.csv")
    (folder / odd).write_text("x")
    assert failing(folder)["files"] == "not of this release: levels/\\udcff\\x1b[31m.csv"


# Columns, types and metadata of tables


@pytest.mark.parametrize(
    "name",
    [
        "release.parquet",
        "spine.parquet",
        "facilities.parquet",
        "levels/county.parquet",
        "measurements/tract/home.parquet",
        "measurements/exact/county/total.parquet",
    ],
)
def test_a_column_or_a_note_more_is_found_in_every_table(folder, name):
    path = folder / name
    whole = path.read_bytes()
    edit(path, lambda table: table.assign(true_count=7))
    reseal(folder)
    assert f"{name}: columns differ (true_count)" in failing(folder).values()
    path.write_bytes(whole)
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.replace_schema_metadata({"truth": "[1, 2, 3]"}), path)
    reseal(folder)
    assert f"{name}: holds more than its columns (truth)" in failing(folder).values()
    fields = [field.with_metadata({"truth": "5"}) if i == 0 else field for i, field in enumerate(table.schema)]
    pyarrow.parquet.write_table(table.cast(pa.schema(fields)), path)
    reseal(folder)
    assert f"{name}: holds more than its columns (metadata)" in failing(folder).values()


def test_a_table_with_a_gap_is_found(folder):
    path = folder / "measurements" / "tract" / "home.parquet"
    table = pyarrow.parquet.read_table(path)
    values = pa.array([None, *table.column("value").to_pylist()[1:]], pa.int64())
    pyarrow.parquet.write_table(table.set_column(2, "value", values), path)
    reseal(folder)
    assert failing(folder) == {"measurements": "measurements/tract/home.parquet, value: 1 values are missing"}


def test_rows_in_another_order_are_found(folder):
    for name in ("release.parquet", "spine.parquet", "facilities.parquet"):
        whole = (folder / name).read_bytes()
        edit(folder / name, lambda table: table.iloc[::-1])
        reseal(folder)
        assert [words for words in failing(folder).values() if words.startswith(f"{name}, row 1, ")], name
        (folder / name).write_bytes(whole)


# Counts


def test_a_changed_count_is_found_in_levels_and_invariants(folder):
    edit(folder / "release.parquet", put(1, "count", 10))
    reseal(folder)
    found = failing(folder)
    assert set(found) == {"levels", "invariants"}
    assert found["levels"] == "levels/tract.parquet, tract 011, total: 15, but release.parquet gives 16"
    assert found["invariants"].startswith("county 01, total total: 21, but the invariant is 20")


@pytest.mark.parametrize(
    ("row", "column", "value", "line"),
    [
        (0, "count", -1, "release.parquet, row 1, column 'count': count -1 is negative"),
        (2, "count", 0, "release.parquet: 8 rows instead of 7"),
        (1, "tract", "099", "tract '099' is not in the list of units"),
        (1, "age", "old", "unknown label 'old'"),
        (1, "county", "02", "is in county '01' by the list of units, but in '02' here"),
        (1, "count", 2**63 - 1, ""),
    ],
)
def test_counts_that_cannot_be_are_found(folder, row, column, value, line):
    edit(folder / "release.parquet", put(row, column, value))
    reseal(folder)
    found = failing(folder)
    assert line in found.get("counts", found.get("levels"))


def test_a_row_in_another_county_is_found_wherever_it_stands(folder):
    whole = (folder / "release.parquet").read_bytes()
    for row, county in enumerate(pd.read_parquet(folder / "release.parquet")["county"]):
        edit(folder / "release.parquet", put(row, "county", "02" if county == "01" else "01"))
        reseal(folder)
        found = failing(folder)["counts"]
        assert re.search(rf"row {row + 1}: .* is in county '{county}' by the list of units", found)
        (folder / "release.parquet").write_bytes(whole)


def test_a_count_that_is_not_whole_is_found(folder):
    def halve(table):
        table["count"] = table["count"] / 2
        return table

    edit(folder / "release.parquet", halve)
    reseal(folder)
    assert failing(folder) == {"counts": "release.parquet, count: holds double, not int64"}


def test_a_row_dropped_from_a_level_or_added_to_it_is_found(folder):
    path = folder / "levels" / "tract.parquet"
    whole = path.read_bytes()
    edit(path, lambda table: table.iloc[:-1])
    reseal(folder)
    assert failing(folder) == {"levels": "levels/tract.parquet: 5 rows, but tract has 6 units"}
    assert unchecked(folder)["children"] == "levels/tract.parquet cannot be compared"
    path.write_bytes(whole)
    edit(path, lambda table: pd.concat([table, table.iloc[-1:]]))
    reseal(folder)
    assert failing(folder)["levels"] == "levels/tract.parquet: 7 rows, but tract has 6 units"


def test_a_number_changed_in_a_level_breaks_the_sums_of_its_parent(folder):
    edit(folder / "levels" / "tract.parquet", put(0, "age:adult", 12))
    reseal(folder)
    found = failing(folder)
    assert found["levels"] == "levels/tract.parquet, tract 011, age:adult: 12, but release.parquet gives 11"
    assert found["children"] == "county 01, age:adult: 16, but its tract rows sum to 17"


def test_a_unit_renamed_in_a_level_is_found(folder):
    edit(folder / "levels" / "tract.parquet", put(2, "tract", "099"))
    reseal(folder)
    assert failing(folder)["levels"] == "levels/tract.parquet, row 3, tract: 099, not 013"


def test_a_column_dropped_from_a_level_is_found_but_margins_of_error_may_be_added_beside_their_counts(folder):
    path = folder / "levels" / "county.parquet"
    whole = path.read_bytes()

    def with_margins(table, column="total", after="total", value=3):
        table.insert(list(table.columns).index(after) + 1, f"{column}_moe90", value)
        return table

    edit(path, with_margins)
    reseal(folder)
    assert failing(folder) == {}
    path.write_bytes(whole)
    for wrong, line in [
        (lambda table: with_margins(table, after="age:child"), "columns differ (in their order)"),
        (lambda table: with_margins(table, column="income"), "columns differ (income_moe90)"),
        (lambda table: with_margins(table, value=1.5), "holds double, not int64"),
        (lambda table: with_margins(table, value=-1), "-1, but a margin of error is 0 or more"),
        (lambda table: table.drop(columns="age:child"), "columns differ (age:child)"),
        (lambda table: table.assign(total=table["total"] + 0.5), "total: holds double, not int64"),
    ]:
        edit(path, wrong)
        reseal(folder)
        assert line in failing(folder)["levels"]
        path.write_bytes(whole)


def test_a_unit_missing_from_the_spine_is_found(folder):
    edit(folder / "spine.parquet", lambda table: table[table["tract"] != "013"])  # nobody lives there
    reseal(folder)
    found = failing(folder)
    assert "6 rows, but tract has 5 units" in found["levels"]
    assert "declared" in found
    edit(folder / "spine.parquet", lambda table: table[table["tract"] != "011"])
    reseal(folder)
    assert "'011' is not in the list of units" in failing(folder)["counts"]


def test_somebody_in_an_impossible_cell_is_found(folder):
    edit(
        folder / "release.parquet",
        lambda table: table.assign(home=table["home"].where(table["age"] == "adult", "prison")),
    )
    reseal(folder)
    assert failing(folder)["structural zeros"] == "tract 011 has 4 persons in the impossible cell child*prison"


# Bounds, invariants, budget


def test_people_without_facilities_or_too_many_for_them_are_found(folder):
    path = folder / "facilities.parquet"
    whole = path.read_bytes()
    edit(path, lambda table: table[table["type"] != "prison"])
    reseal(folder)
    assert failing(folder)["bounds"] == "tract 011, home prison: 2 persons, not between 0 and 0"
    path.write_bytes(whole)
    edit(path, put(5, "count", 7))
    reseal(folder)
    assert failing(folder)["bounds"] == "tract 021, home dorm: 6 persons, not between 7 and 140"
    path.unlink()
    reseal(folder)
    found = failing(folder)
    assert found["facilities"] == "facilities.parquet is missing, though the strategy has bounds from facilities"
    assert "bounds" not in found


def test_a_bound_on_a_query_is_checked(folder):
    path = folder / "strategy.toml"
    path.write_text(path.read_text().replace("adult = 3", "adult = 7"))
    reseal(folder)
    found = failing(folder)
    assert found["bounds"].startswith("county 02, age adult: 6 persons, not between 7 and")
    assert "adult at least 7" in found["declared"]


def test_an_invariant_that_was_changed_is_found_and_so_is_one_that_is_gone(folder):
    path = folder / "measurements" / "exact" / "county" / "total.parquet"
    edit(path, put(1, "value", 8))
    reseal(folder)
    assert failing(folder) == {"invariants": "county 02, total total: 7, but the invariant is 8"}
    shutil.rmtree(path.parent)
    reseal(folder)
    assert failing(folder) == {"files": "missing: measurements/exact/county/total.parquet"}
    assert unchecked(folder)["invariants"] == "no exact answers in the folder for total@county"
    shutil.rmtree(folder / "measurements")
    reseal(folder)
    assert failing(folder) == {}
    assert unchecked(folder)["invariants"] == "no exact answers in the folder for total@county"


def test_shares_that_do_not_add_up_are_found(folder):
    path = folder / "strategy.toml"
    path.write_text(path.read_text().replace('tract = "1/3"', 'tract = "1/4"'))
    reseal(folder)
    found = failing(folder)
    assert found == {"shares": found["shares"]}
    assert "shares of levels sum to 11/12, not 1" in found["shares"]


def test_another_budget_than_the_certificate_says_is_found(folder):
    path = folder / "strategy.toml"
    path.write_text(path.read_text().replace('rho = "1"', 'rho = "2"'))
    reseal(folder)
    found = failing(folder)
    assert found["declared"].startswith("certificate.json, declared budget levels 1 rho: 0.33")
    assert "row 1, variance" in found["measurements"]
    assert found["rendering"] == "certificate.html is not the page of this certificate"


def test_a_strategy_for_another_census_is_found(folder):
    path = folder / "strategy.toml"
    path.write_text(path.read_text().replace("county", "province"))
    reseal(folder)
    assert "is for the levels us, province, tract; the data has us, county, tract" in failing(folder)["strategy"]


# Text: strategy, codebook, source


@pytest.mark.parametrize(("name", "check"), [("strategy.toml", "strategy"), ("codebook.toml", "codebook")])
def test_a_comment_in_a_text_file_is_found(folder, name, check):
    path = folder / name
    path.write_text(path.read_text() + "# in truth there are 37\n")
    reseal(folder)
    assert check in failing(folder)
    assert "not as tallyveil writes it (a comment, another order or spelling)" in failing(folder)[check]


def test_a_source_with_a_comment_or_other_labels_is_found(folder):
    path = folder / "source.toml"
    whole = path.read_text()
    path.write_text(f"# truth\n{whole}")
    reseal(folder)
    assert failing(folder) == {
        "source": "source.toml, line 1: not as tallyveil writes it (a comment, another order or spelling)"
    }
    path.write_text(whole.replace('"dorm"', '"hotel"'))
    reseal(folder)
    assert failing(folder) == {"source": "source.toml has other attributes or labels than codebook.toml"}


def test_a_codebook_that_says_more_than_the_counts_need_is_found(folder):
    path = folder / "codebook.toml"
    path.write_text(path.read_text().replace('count = "count"', 'count = "count"\nignore = ["truth 37"]'))
    reseal(folder)
    assert failing(folder)["codebook"] == "codebook.toml is not the codebook of release.parquet"


def test_stamps_must_agree_and_none_may_be_missing(folder):
    reseal(folder, lambda certificate: certificate["declared"].update(stamps=[]), render=True)
    assert failing(folder)["stamps"] == "certificate.json, declared stamps: not those of codebook.toml"
    book = folder / "codebook.toml"
    book.write_text(codebook_to_toml(replace(read_codebook(book), stamps=())))
    drafted = replace(codebook_from_toml(SOURCE), labels_from="data")
    (folder / "source.toml").write_text(codebook_to_toml(drafted))
    reseal(folder, render=True)
    assert failing(folder)["stamps"].endswith("'labels from data: not covered by the guarantee' is missing")


# The certificate and its page


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda d: d["guarantee"].update(epsilon=1.0), "declared guarantee epsilon: 1.0, but the strategy gives"),
        (lambda d: d["constraints"].pop(), "declared constraints"),
        (lambda d: d["constraints"][0].update(words="x"), "declared constraints 1 words: 'x', but the strategy gives"),
        (lambda d: d["budget"]["queries"][2].update(sd=0.1), "declared budget queries 3 sd: 0.1"),
        (lambda d: d["spine"].update(tract=7), "declared spine tract: 7, but the strategy gives 6"),
        (lambda d: d["spine"].update(tract=True), "declared spine tract: True, but the strategy gives 6"),
        (lambda d: d.update(host="mine"), "declared host: 'mine', but the strategy gives None"),
        (lambda d: d.update(host=None), "declared host: None, but the strategy gives None"),
        (lambda d: d.update(facilities=False), "declared facilities: False, but the strategy gives True"),
        (lambda d: d["versions"].update(truth=37), "is not a table of versions"),
    ],
)
def test_an_edited_certificate_is_found_alone_by_its_page_and_with_its_page_by_what_is_declared(folder, change, line):
    edit_certificate(folder, lambda certificate: change(certificate["declared"]))
    assert failing(folder)["page"] == (
        "certificate.html does not carry the SHA-256 of this certificate.json: one of them was changed"
    )
    reseal(folder, render=True)
    assert line in failing(folder)["declared"]


def test_an_edited_certificate_is_found_whatever_versions_made_it(folder):
    reseal(folder, lambda certificate: certificate["declared"]["versions"].update(numpy="9.9"))
    assert failing(folder) == {}
    assert unchecked(folder)["rendering"].startswith("made with numpy 9.9 (here ")
    edit_certificate(folder, lambda certificate: certificate["observed"]["worst"].update(gap=0.5))
    assert "page" in failing(folder)


def test_a_folder_of_another_version_has_its_own_sentences_but_the_figures_of_its_strategy(folder):
    def older(certificate):
        declared = certificate["declared"]
        declared["versions"]["tallyveil"] = "0.1.0"
        declared["guarantee"]["words"] = "said in another way"
        declared["expected_error"][-1]["sd"] *= 1.5

    reseal(folder, older)
    assert failing(folder) == {}
    (words,) = [one.words for one in verify_release(folder) if one.name == "declared"]
    assert words == "what strategy, spine and schema give, sentences and expected errors apart"
    assert "and the sentences of certificate.json" in unchecked(folder)["spelling"]
    reseal(folder, lambda certificate: certificate["declared"]["guarantee"].update(epsilon=0.01))
    assert "declared guarantee epsilon: 0.01" in failing(folder)["declared"]


def test_other_versions_leave_topdown_unchecked(whole):
    reseal(whole, lambda certificate: certificate["declared"]["versions"].update(platform="Plan9 vax"))
    assert failing(whole) == {}
    assert "platform Plan9 vax" in unchecked(whole)["post-processing"]
    reseal(whole, lambda certificate: certificate["declared"]["versions"].pop("platform"), render=True)
    assert "post-processing" not in unchecked(whole)  # an early release does not say


def test_comments_and_spelling_that_other_versions_wrote_are_said_to_be_unchecked(whole):
    assert "spelling" not in {finding.name for finding in verify_release(whole)}  # each file is compared then
    reseal(whole, lambda certificate: certificate["declared"]["versions"].update(numpy="9.9"))
    names = [name for name in ("codebook.toml", "strategy.toml", "source.toml") if (whole / name).exists()]
    for name in names:
        (whole / name).write_text("# Jane Doe lives in block 11\n" + (whole / name).read_text())
    reseal(whole)
    assert failing(whole) == {}
    words = unchecked(whole)["spelling"]
    assert words.startswith("made with numpy 9.9 (here ")
    assert f"comments, order and spelling of {', '.join(names)}" in words


def test_whether_a_run_was_seeded_is_a_fact_that_agrees_with_its_stamps(folder):
    def stated(value):
        def change(certificate):
            certificate["declared"].pop("seeded", None)
            certificate["declared"] |= {} if value is None else {"seeded": value}

        reseal(folder, change, render=True)
        return failing(folder)

    assert [stated(value) for value in (True, False, None)] == [{}, {}, {}]  # a stamp can come from the data
    assert "declared seeded: 'Jane Doe'" in stated("Jane Doe")["declared"]
    assert stated(True) == {}
    book = folder / "codebook.toml"
    book.write_text(re.sub(r"^stamps = \[.*?\]\n", "", book.read_text(), flags=re.DOTALL | re.MULTILINE))
    reseal(folder, lambda certificate: certificate["declared"].update(stamps=[]), render=True)
    assert "'seeded: not for publication' is missing" in failing(folder)["stamps"]


def test_figures_of_solving_that_do_not_add_up_are_found(folder):
    reseal(folder, lambda c: c["observed"]["totals"].update(general=0), render=True)
    assert failing(folder) == {"observed": "certificate.json, observed totals general: 0, but the levels give 1"}
    reseal(folder, lambda c: c["observed"]["totals"].update(general=1))
    for change, line in [
        (lambda o: o.update(truth=37), "observed truth: 37, but the levels give None"),
        (lambda o: o["levels"][0].update(truth=37), "observed levels, item 1: truth is unknown"),
        (lambda o: o["levels"][0].pop("fast"), "observed levels, item 1: fast is missing"),
        (lambda o: o["levels"][0].pop("gap"), "observed levels, item 1: gap is missing"),
        (lambda o: o["worst"].update(gap=0.0), "observed worst gap: 0.0, but the levels give 1e-09"),
        (lambda o: o["totals"].update(relaxed_persons=0), "observed totals relaxed_persons: 0, but the levels give 2"),
    ]:
        whole = (folder / "certificate.json").read_bytes()
        reseal(folder, lambda certificate, change=change: change(certificate["observed"]))
        assert line in failing(folder)["observed"]
        (folder / "certificate.json").write_bytes(whole)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"{}\n", "certificate.json has no declared part"),
        (b"[]\n", "certificate.json: not a certificate"),
        (b"", "certificate.json: cannot be read as JSON"),
        (b"\xff\xfe", "certificate.json: cannot be read as JSON"),
        (b'{"a": "\0"}', "certificate.json: cannot be read as JSON"),
        (b"[" * 100_000, "certificate.json: cannot be read as JSON (nested too deeply)"),
        (b'{"a":' * 100_000, "certificate.json: cannot be read as JSON (nested too deeply)"),
        (b'{"a": NaN}', "cannot be read as JSON (NaN is not a number)"),
        (b'{"a": 1e999}', "cannot be written as JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read as JSON (Exceeds the limit"),
        (b'{"a": "\\ud800"}', "cannot be written as JSON"),
        (b'{"a": 1, "a": 2}', "cannot be read as JSON (the key 'a' is repeated)"),
    ],
)
def test_a_certificate_that_is_none_gives_a_line(folder, text, line):
    (folder / "certificate.json").write_bytes(text)
    assert line in failing(folder)["certificate"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("  ", "   ", 1),
        lambda text: text + "\n",
        lambda text: text[:-1],
        lambda text: json.dumps(json.loads(text)),
        lambda text: text.replace("{\n", '{\n  "declared": {},\n', 1),
    ],
)
def test_another_spelling_of_the_certificate_is_found(folder, change):
    path = folder / "certificate.json"
    path.write_text(change(path.read_text()))
    assert "certificate" in failing(folder)


def test_fields_that_no_certificate_has_and_a_list_of_files_that_is_none_are_found(folder):
    whole = (folder / "certificate.json").read_bytes()
    reseal(folder, lambda certificate: certificate.update(truth=37))
    assert failing(folder)["certificate"] == "certificate.json: unknown field 'truth'"
    (folder / "certificate.json").write_bytes(whole)
    edit_certificate(folder, lambda certificate: certificate["files"].update({"release.parquet": 7}))
    assert failing(folder)["manifest"] == "certificate.json, files release.parquet: 7 is not a SHA-256"
    edit_certificate(folder, lambda certificate: certificate.pop("files"))
    assert failing(folder)["certificate"] == "certificate.json has no files part"


def test_a_list_of_files_that_names_others_reads_none_of_them(folder):
    (folder / "certificate.json").write_bytes((folder / "certificate.json").read_bytes())
    edit_certificate(folder, lambda certificate: certificate["files"].update({"../../x": "0" * 64}))
    assert failing(folder)["manifest"] == "../../x is listed but missing"


@pytest.mark.parametrize(
    ("change", "check", "line"),
    [
        (lambda page: page.replace("</body>", "<script>1</script></body>"), "page", "has a script"),
        (lambda page: page.replace('<div class="stamp"', '<!-- <div class="stamp"'), "page", "has a comment"),
        (lambda page: page.replace("seeded: not for publication", ""), "page", "does not show the stamp: seeded"),
        (lambda page: page.replace("<strong>", "<strong>0.01 "), "rendering", "is not the page of this certificate"),
        (lambda _: "", "page", "does not carry the SHA-256"),
        (lambda page: page.replace("certificate-sha256", "x"), "page", "does not carry the SHA-256"),
    ],
)
def test_an_edited_page_is_found_even_where_the_list_of_files_follows(folder, change, check, line):
    path = folder / "certificate.html"
    path.write_text(change(path.read_text()))
    assert failing(folder)["manifest"] == "certificate.html is not the file that the certificate lists"
    reseal(folder)
    assert line in failing(folder)[check]


def test_a_page_that_is_no_text_gives_a_line(folder):
    (folder / "certificate.html").write_bytes(b"\xff\x00")
    reseal(folder)
    assert failing(folder)["page"] == "certificate.html: not UTF-8 text"


# Measurements


def test_measurements_out_of_order_or_with_another_variance_are_found(folder):
    path = folder / "measurements" / "tract" / "home.parquet"
    whole = path.read_bytes()
    for change, line in [
        (lambda table: table.iloc[::-1], "row 1, unit: 032, not 011"),
        (lambda table: put(0, "cell", "dorm")(table), "row 1, cell: dorm, not house"),
        (lambda table: put(4, "variance", 1.0)(table), "row 5, variance: 1.0, not 12.0"),
        (lambda table: table.drop(columns="cell"), "columns differ (cell)"),
        (lambda table: table.iloc[:-1], "14 rows instead of 15"),
        (lambda table: table.assign(value=table["value"] + 0.5), "holds double, not int64"),
    ]:
        edit(path, change)
        reseal(folder)
        found = failing(folder)
        assert list(found) == ["measurements"]
        assert line in found["measurements"]
        path.write_bytes(whole)


def test_measurements_zeroed_or_of_another_release_are_found_where_all_are_there(whole, tmp_path):
    path = whole / "measurements" / "tract" / "detailed.parquet"
    right = path.read_bytes()
    edit(path, lambda table: table.assign(value=0))
    reseal(whole)
    assert list(failing(whole)) == ["post-processing"]
    assert "TopDown, run again on the measurements, " in failing(whole)["post-processing"]
    path.write_bytes(right)
    noisy = small_noisy(seed=8, epsilon=4)
    write_release(solved_release(noisy), tmp_path / "b", measurements=measured_pairs(noisy.strategy), noisy=noisy)
    shutil.rmtree(whole / "measurements")
    shutil.copytree(tmp_path / "b" / "measurements", whole / "measurements")
    reseal(whole)
    assert list(failing(whole)) == ["post-processing"]


def test_what_was_observed_must_come_out_again(whole):
    def change(certificate):
        level = certificate["observed"]["levels"][1]
        level["gap"] = (level["gap"] or 0.0) + 1e-12

    reseal(whole, change, render=True)
    assert failing(whole) == {
        "post-processing": "TopDown, run again on the measurements, observes other figures than certificate.json"
    }


# Any content whatever


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"\xff" * 5000, b"a,b\n1,2\n"])
@pytest.mark.parametrize("name", ["release.parquet", "levels/us.parquet", "measurements/us/home.parquet"])
def test_garbage_in_place_of_a_table_gives_a_line_even_if_it_is_listed(folder, name, content):
    (folder / name).write_bytes(content)
    assert not holds(folder)
    reseal(folder)
    assert [words for words in failing(folder).values() if words.startswith(f"{name}: cannot be read as Parquet")]


def test_pages_of_a_table_that_are_garbage_give_a_line(folder):
    for name in ("release.parquet", "levels/tract.parquet", "measurements/tract/detailed.parquet", "spine.parquet"):
        path = folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[:4] + b"\xaa" * 60 + whole[64:])
        reseal(folder)
        assert failing(folder), name
        path.write_bytes(whole)


@pytest.mark.parametrize("name", ["strategy.toml", "codebook.toml", "source.toml"])
@pytest.mark.parametrize(
    "content",
    [b"a = " + b"[" * 100_000, b"a = 1\na = 2\n", b"\xff", b"\0", b"", b"rho = 1e999", b"[" + b"a." * 3_000 + b"a]\n"],
)
def test_any_content_of_a_text_file_gives_a_line_even_if_it_is_listed(folder, name, content):
    (folder / name).write_bytes(content)
    reseal(folder)
    assert not holds(folder)


def test_certificates_with_parts_of_the_wrong_kind_give_lines(folder):
    for change in (
        lambda c: c["declared"].update(guarantee=[]),
        lambda c: c["declared"].update(stamps={"a": 1}),
        lambda c: c["declared"].update(stamps=[["a"]]),
        lambda c: c["declared"].update(versions=7),
        lambda c: c["declared"].update(measured_on="x"),
        lambda c: c["declared"].pop("guarantee"),
        lambda c: c["declared"]["guarantee"].update(epsilon=10**400),
        lambda c: c["observed"].update(levels=7),
        lambda c: c["observed"].update(levels=[7]),
        lambda c: c["observed"].update(totals=[]),
    ):
        whole = (folder / "certificate.json").read_bytes()
        reseal(folder, change)
        assert failing(folder)
        (folder / "certificate.json").write_bytes(whole)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        verify_release(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="not a folder"):
        verify_release(tmp_path / "file")


def test_an_empty_folder_fails(tmp_path):
    assert failing(tmp_path) == {
        "certificate": "certificate.json: missing",
        "files": "missing: certificate.json, certificate.html, strategy.toml, codebook.toml, release.parquet, "
        "spine.parquet",
    }


def test_stamps_of_counts_and_measurements_reach_the_certificate_and_its_page(tmp_path):
    release = small_release()
    marked = replace(release, histogram=replace(release.histogram, stamps=("from a sketch",)))
    write_release(marked, tmp_path / "r", noisy=replace(small_noisy(), stamps=("tried out",)))
    assert failing(tmp_path / "r") == {}
    found = {finding.name: finding.words for finding in verify_release(tmp_path / "r")}
    assert found["stamps"] == "seeded: not for publication; from a sketch; tried out"
    page = (tmp_path / "r" / "certificate.html").read_text()
    assert page.count("<p>from a sketch</p>") == page.count("<p>tried out</p>") == 1
