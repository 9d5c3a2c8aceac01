"""tallyveil units: a list of units that can be given back, from files of every form."""

import shutil
from pathlib import Path

import pytest

import tallyveil as tv
from command_line import TOWN, TOWN_BOOK, run, write_town

MESSY = Path(__file__).parents[2] / "examples" / "messy"


@pytest.mark.parametrize("name", ["list.csv", "list.parquet"])
def test_the_list_of_a_table_gives_its_units_back_with_their_names(tmp_path, name):
    data = shutil.copy(MESSY / "schools.csv", tmp_path)
    book, listed, final = (str(tmp_path / one) for one in ("schools.toml", name, "final.toml"))
    assert run("codebook", data, "-o", book).returncode == 0
    done = run("units", data, "--codebook", book, "-o", listed)
    assert (done.returncode, done.stdout) == (0, f"{listed}\n")
    assert "14 units of level établissement, as found in" in done.stderr
    assert "Add those where nobody was counted, from a public register." in done.stderr
    Path(final).write_text(Path(book).read_text().replace('units_from = "data"', ""))
    drafted = tv.files.read_codebook(final)
    own, again = tv.files.read_counts(data, drafted), tv.files.read_counts(data, drafted, units=listed)
    assert own.spine == again.spine
    assert own.spine.names.keys() == again.spine.names.keys() == {"établissement"}
    assert [one for one in again.stamps if one.startswith("units")] == []


def test_whole_codes_in_one_column_are_listed_in_one_column(tmp_path):
    data, book, listed = (tmp_path / name for name in ("d.csv", "d.toml", "list.csv"))
    data.write_text("geoid,age,count\n4401,child,2\n4402,adult,3\n4501,adult,1\n")
    book.write_text(
        '[geography]\nroot = "us"\ncode = "geoid"\nlengths = {state = 2, county = 4}\n'
        '[attributes]\nage = ["child", "adult"]\n[table]\nlayout = "long"\ncount = "count"\n'
    )
    done = run("units", str(data), "--codebook", str(book), "-o", str(listed))
    assert done.returncode == 0, done.stderr
    assert listed.read_text().replace('"', "").split() == ["geoid", "4401", "4402", "4501"]
    drafted = tv.files.read_codebook(book)
    assert tv.files.read_counts(data, drafted, units=listed).spine == tv.files.read_counts(data, drafted).spine


def test_codes_that_repeat_under_parents_are_listed_with_them(tmp_path):
    (tmp_path / "d.csv").write_text(TOWN.replace(",11,", ",1,").replace(",21,", ",1,"))
    (tmp_path / "d.toml").write_text(TOWN_BOOK.replace('root = "us"', 'root = "us"\nrelative = true'))
    data, book, listed = (str(tmp_path / name) for name in ("d.csv", "d.toml", "list.csv"))
    done = run("units", data, "--codebook", book, "-o", listed)
    assert done.returncode == 0, done.stderr
    drafted = tv.files.read_codebook(book)
    assert tv.files.read_counts(data, drafted, units=listed).spine == tv.files.read_counts(data, drafted).spine


def test_a_list_is_not_overwritten(tmp_path):
    data = write_town(tmp_path)
    listed = tmp_path / "list.csv"
    listed.write_text("county,block\n")
    done = run("units", *data, "-o", str(listed))
    assert done.returncode == 2
    assert f"{listed} exists. Name a new file; nothing is overwritten." in done.stderr
    assert listed.read_text() == "county,block\n"
