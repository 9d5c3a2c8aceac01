"""``tallyveil codebook``: options, partial drafts, and a table with coded attributes from file to evaluation."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tallyveil.cli.main import app
from tallyveil.errors import InputError

MESSY = Path(__file__).parents[2] / "examples" / "messy"


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_what_the_user_names_goes_into_the_draft(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("z,s,g,many\n" + "".join(f"{z},{s},{g},7\n" for z in "12" for s in "123" for g in "uv"))
    done = run("codebook", file, "--levels", "z, s", "--attributes", "g", "--count", "many")
    assert done.exit_code == 0
    assert "relative = true" in done.stdout
    assert 'count = "many"' in done.stdout
    assert "84 persons; units: all 1, z 2, s 6; labels: g 2\n" in done.stderr
    with pytest.raises(InputError, match=r"--levels: .*t\.csv has no column 'y'\. The columns are z, s, g, many"):
        run("codebook", file, "--levels", "z,y")


def test_a_partial_draft_is_written_and_the_command_says_what_to_fill_in(tmp_path):
    file, book = tmp_path / "t.csv", tmp_path / "t.toml"
    file.write_text("sex,agegroup\n" + "m,a\nf,b\nm,b\nf,a\n" * 5)
    done = run("codebook", file, "-o", book)
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        f"tallyveil: {file}: the draft is incomplete: no geographic column found among sex, agegroup. "
        f"Name the levels, coarse to fine (--levels A,B,C)."
    ]
    assert 'levels = [\n    "FILL_IN",\n]' in book.read_text()


def test_an_incomplete_draft_is_replaced_and_a_complete_one_is_not(tmp_path):
    file, book = tmp_path / "t.csv", tmp_path / "t.toml"
    file.write_text("sex,agegroup\n" + "m,a\nf,b\nm,b\nf,a\n" * 5)
    assert run("codebook", file, "-o", book).exit_code == 1
    assert run("codebook", file, "--levels", "agegroup", "-o", book).exit_code == 0
    assert "FILL_IN" not in book.read_text()
    with pytest.raises(InputError, match=r"t\.toml exists\. Name a new file"):
        run("codebook", file, "--levels", "sex", "-o", book)
    own = tmp_path / "own.toml"
    own.write_text('levels = ["FILL_IN"]\n')  # not a draft of this command
    with pytest.raises(InputError, match=r"own\.toml exists"):
        run("codebook", file, "-o", own)


def test_a_value_that_cannot_be_read_does_not_stop_the_draft_but_is_named(tmp_path):
    file, book = tmp_path / "t.csv", tmp_path / "t.toml"
    file.write_text("town,men,women\n" + "".join(f"t{i},{i},{'NA' if i == 4 else i}\n" for i in range(12)))
    done = run("codebook", file, "-o", book)
    assert done.exit_code == 1
    assert f"the draft does not read the table yet: {file}, row 5, column 'women': NA is not a whole" in done.stderr
    assert 'column = "{sex}"' in book.read_text()


def test_coded_attributes_are_published_in_words_and_the_release_knows_how_to_read_the_codes(tmp_path):
    book, release = tmp_path / "persons.toml", tmp_path / "release"
    drafted = run("codebook", MESSY / "persons.csv", "--dictionary", MESSY / "persons_dictionary.csv", "-o", book)
    assert drafted.exit_code == 0
    done = run("protect", MESSY / "persons.csv", "--codebook", book, "--epsilon", "4", "--threads", "1", "-o", release)
    assert done.exit_code == 0, done.stderr
    assert '"woman"' in (release / "codebook.toml").read_text()
    assert '[labels.sexe]\n1 = "man"' in (release / "source.toml").read_text()
    checked = run("verify", release)
    assert checked.exit_code == 0, checked.stdout
    error = run("evaluate", MESSY / "persons.csv", release, "--json")
    assert error.exit_code == 0
    assert json.loads(error.stdout)


def test_a_value_that_has_to_be_filled_in_is_not_called_left_out(tmp_path):
    rows = [f"r{i // 3},d{i},{s},{n}" for i in range(6) for s, n in (("f", 4), ("m", 4))]
    rows += [f"r{i},,{s},12" for i in range(2) for s in "fm"]
    (tmp_path / "t.csv").write_text("\n".join(["region,district,sex,count", *rows]) + "\n")
    done = run("codebook", str(tmp_path / "t.csv"), "-o", str(tmp_path / "t.toml"))
    assert done.exit_code == 1
    assert "FILL_IN" in (tmp_path / "t.toml").read_text()
    assert "rows of totals that are left out" not in done.stderr


def test_rows_of_totals_are_named_with_their_columns(tmp_path):
    ages, sexes = {"0-14": 140, "15-64": 630, "65+": 270, "Total": 1040}, {"f": 1, "m": 1, "Total": 2}
    rows = [
        f"r{i // 3},d{i},{sex},{age},{(i + 1) * sexes[sex] * ages[age]}"
        for i in range(6)
        for sex in sexes
        for age in ages
    ]
    (tmp_path / "t.csv").write_text("\n".join(["region,district,sex,age,count", *rows]) + "\n")
    done = run("codebook", str(tmp_path / "t.csv"), "-o", str(tmp_path / "t.toml"))
    assert "rows of totals that are left out: sex 'Total'; age 'Total'" in done.stderr
