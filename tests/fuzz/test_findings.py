"""What fault injection found (and what holds for all of it): bad input ends in one short line, the rest in a report."""

import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tallyveil as tv
from command_line import TOWN_BOOK, run
from tallyveil.errors import BudgetError, DataError, InputError, StrategyError, UnknownUnitError, one_line
from tallyveil.files.tables.codebook_toml import codebook_from_toml, read_codebook
from tallyveil.privacy import Bound, Invariant
from tallyveil.privacy.budget import exact
from tallyveil.privacy.strategy_toml import strategy_from_toml, strategy_to_toml

PLAN = tv.Strategy(mechanism="gaussian", budget=1, levels={"us": 1}, queries={"us": {"total": 1}}, attributes=("age",))
ROWS = {"county": ["1", "2"], "block": ["11", "21"], "age": ["child", "adult"], "count": [1, 2]}


def test_a_file_with_one_state_is_protected_with_all_its_measurements(tmp_path):
    levels = ("state", "county", "tract", "block_group", "block")
    spine = tv.Spine.from_columns(
        {level: ["44"[: depth + 1] + "0" * depth] for depth, level in enumerate(levels)}, root="us"
    )
    people = tv.Histogram.from_entries(spine, tv.schemas.PERSONS_2020, unit=[0], cell=[0], count=[5])
    plan = replace(tv.Strategy.preset("pl94-2020-us-persons"), constraints=())
    release = tv.protect(people, plan, seed=1, measurements=None)
    tv.write_release(release, tmp_path / "r", measurements=None)
    assert not [one for one in tv.verify_release(tmp_path / "r") if one.holds is False]
    empty = list((tmp_path / "r" / "measurements").rglob("block/*.parquet"))
    assert empty
    assert all(pyarrow.parquet.read_metadata(file).num_rows == 0 for file in empty)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('count = "count"', 'count = ""', "[table] count must be text that is not empty. Got '' instead."),
        ('root = "us"', 'root = ["us"]', "[geography] root must be text that is not empty. Got ['us'] instead."),
        ("[table]", "[[zeros]]\nage = 1.5\n[table]", "[zeros], item 1 age must be a list. Got 1.5 instead."),
        ('"adult"]', "1]", "[attributes] age, item 2 must be text. Got 1 instead."),
        ("[table]", '[table]\ntotal = ""', "[table] total must be text that is not empty. Got '' instead."),
        ("[table]", "[table]\nwhere = {x = 1.5}", "[table] where x must be text or a whole number. Got 1.5 instead."),
        ("[table]", '[table]\nignore = "x"', "[table] ignore must be a list. Got 'x' instead. Write ['x']."),
        ("[table]", "[groupings]\nold = 3\n[table]", "[groupings] old must be a table. Got 3 instead."),
        ("[table]", '[groupings.old]\nof = "age"\n[table]', "[groupings] old: groups is missing."),
        ('root = "us"', f"root = {'9' * 5000}", "not TOML: Exceeds the limit (4300 digits)"),
    ],
)
def test_a_value_of_another_type_in_a_codebook_is_refused_by_its_field(old, new, line):
    with pytest.raises(DataError, match=re.escape(line)):
        codebook_from_toml(TOWN_BOOK.replace(old, new))


@pytest.mark.parametrize(
    ("constraint", "line"),
    [
        ('invariant = 1\nlevel = "us"', "constraint: invariant must be text that is not empty. Got 1 instead."),
        ('invariant = "total"\nlevel = []', "constraint: level must be text that is not empty. Got [] instead."),
        ('bound = ["a"]\nlevel = "us"\nleast = 1', "constraint: bound must be text that is not empty. Got ['a']"),
        ("zero = {age = 3}", "constraint: zero age must be a list. Got 3 instead."),
        ('bound = "total"\nlevel = "us"\nmost = 1\nunits = 3', "units must be a list of codes as text"),
    ],
)
def test_a_value_of_another_type_in_a_constraint_is_refused_by_its_field(constraint, line):
    with pytest.raises(StrategyError, match=re.escape(line)):
        strategy_from_toml(f"{strategy_to_toml(PLAN)}\n[[constraints]]\n{constraint}\n")


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("passes = {us = 3}", "passes us must be a list. Got 3 instead."),
        ("only_child = 1", "only_child must be true or false. Got 1 instead."),
        ("name = 3", "name must be text. Got 3 instead."),
    ],
)
def test_a_value_of_another_type_in_a_strategy_is_refused_by_its_field(field, line):
    kept = [one for one in strategy_to_toml(PLAN).splitlines() if not one.startswith(field.split()[0])]
    with pytest.raises(StrategyError, match=re.escape(line)):
        strategy_from_toml("\n".join([field, *kept]))


def test_a_toml_file_that_is_huge_or_not_text_is_refused(tmp_path):
    (tmp_path / "b.toml").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"b\.toml: cannot be read as text \(not UTF-8\)"):
        read_codebook(tmp_path / "b.toml")
    os.truncate(tmp_path / "b.toml", 1 << 26)
    with pytest.raises(DataError, match="larger than 32 MiB"):
        read_codebook(tmp_path / "b.toml")


def test_a_column_twice_is_refused_in_arrow_and_parquet(tmp_path):
    table = pa.table(ROWS).append_column("count", [[3, 4]])
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        with pytest.raises(DataError, match="column 'count' is in the header twice"):
            tv.read_counts(source, codebook_from_toml(TOWN_BOOK))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([["child"], ["adult"]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([(1, 2, 3), (1, 2, 3)], pa.month_day_nano_interval()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["child", "adult"])),
        pa.array([b"child", b"\xff"]),
    ],
    ids=lambda values: str(values.type)[:12],
)
@pytest.mark.parametrize("labels", ['["child", "adult"]', "[]"])
def test_a_column_that_cannot_be_labels_is_refused(values, labels):
    book = codebook_from_toml(TOWN_BOOK.replace('["child", "adult"]', labels))
    with pytest.raises(DataError, match=r"column 'age' holds .*, which cannot be read as labels. Save it as text."):
        tv.read_counts(pa.table({**ROWS, "age": values}), book)
    with pytest.raises(DataError, match="cannot be read as labels"):
        tv.read_counts(pa.table({**ROWS, "kind": values}), replace(book, where={"kind": "x"}))


def test_no_possible_cell_with_limits_that_cross_is_protected():
    spine = tv.Spine.from_columns({"county": ["1", "2"]}, root="us")
    schema = tv.Schema(attributes={"age": ["a", "b"], "sex": ["f", "m"]}, zeros=[{"age": ["a", "b"]}])
    people = tv.Histogram.from_entries(spine, schema, unit=[], cell=[], count=[])
    bounds = tuple(Bound(query=query, level=level, most=5) for query in ("age", "sex") for level in ("us", "county"))
    plan = replace(
        tv.Strategy.default(spine, schema, epsilon=1), constraints=(*bounds, Invariant(query="age", level="us"))
    )
    for rounding in ("margins", "cells"):
        assert tv.protect(people, replace(plan, rounding=rounding), seed=1).histogram.total() == 0


@pytest.mark.parametrize(
    "number", ["1e99999999999", "1e-99999999999", "1E+99999999999", f"1e{'9' * 5000}", "0e99999999999"]
)
def test_a_power_of_ten_is_bounded_before_it_is_built(number):
    with pytest.raises(BudgetError, match="epsilon must be between 1e-300 and 1e300"):
        exact(number, "epsilon")
    assert run("account", "--epsilon", number, "--delta", "1e-10").returncode == 2


@pytest.mark.parametrize("number", ["1/0", "٣", "²", "", "1/2/3", "nan", "0x1", "9" * 5000, "1e2/3", "1__0"])
def test_what_is_no_number_is_no_budget(number):
    with pytest.raises(BudgetError, match="epsilon must be a number such as"):
        exact(number, "epsilon")


@pytest.mark.parametrize(
    ("number", "value"),
    [(" 1e-300 ", Fraction(1, 10**300)), ("+1_000.50", Fraction(2001, 2)), (f"0.{'0' * 350}1e+352", Fraction(10))],
)
def test_every_number_within_bounds_is_taken_as_it_is_written(number, value):
    assert exact(number, "epsilon") == value


def test_whole_numbers_of_thousands_of_digits_are_refused_without_being_written():
    with pytest.raises(BudgetError, match="Got a larger one instead"):
        exact(10**5000, "epsilon")
    with pytest.raises(InputError, match="a seed is a whole number, 0 or more and below 2\\^1024"):
        tv.privacy.RunKey.from_seed(10**5000)
    assert exact(np.int64(3), "epsilon") == 3


def test_messages_are_one_short_printable_line_that_keeps_place_and_remedy():
    error = DataError(f"t.csv, row 1: label {'z' * 2_000_000!r}\n\x1b[31m\ud800 is unknown. Add it.").located("here")
    assert len(str(error)) <= 500
    assert str(error).isprintable()
    assert str(error).startswith("here: t.csv, row 1: label 'zzz")
    assert str(error).endswith("zzz'\\n\\x1b[31m\\ud800 is unknown. Add it.")
    assert one_line(one_line("a\nb" * 1000)) == one_line("a\nb" * 1000)


def test_errors_survive_being_pickled_between_processes():
    error = pickle.loads(pickle.dumps(UnknownUnitError("no such tract", row=3, code="9")))
    assert (str(error), error.row, error.code) == ("no such tract", 3, "9")


def test_what_nobody_foresaw_is_one_line_and_a_report_without_data(monkeypatch, tmp_path, town):
    def fail(*_, **__):
        secret = {"count": 987654}
        raise KeyError(f"planted {secret}")

    monkeypatch.setattr("tallyveil.files.tables.read.batches", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = run("protect", *town, "--epsilon", "1", "--plan")
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(
        r"tallyveil: an unexpected error \(KeyError in tallyveil/files/tables/read.py, line \d+\)\. This is a bug in "
        r"tallyveil; please report it with .*tallyveil-error-\w+\.txt, which holds no data\.\n",
        done.stderr,
    )
    (report,) = tmp_path.glob("tallyveil-error-*.txt")
    text = report.read_text()
    assert report.stat().st_mode & 0o777 == 0o600
    assert "builtins.KeyError" in text
    assert re.search(r"tallyveil/files/tables/read.py, line \d+, read_counts", text)
    assert "pyarrow" in text
    assert "planted" not in text
    assert "987654" not in text
    assert str(tmp_path) not in text
    assert os.path.expanduser("~") not in text


def test_out_of_memory_is_one_line(monkeypatch, town):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("tallyveil.files.tables.read.batches", fail)
    done = run("protect", *town, "--epsilon", "1", "--plan")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "there is not enough memory" in done.stderr


def test_a_file_name_that_is_not_text_in_this_locale_is_refused_in_a_line():
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-m", "tallyveil", "verify", "población"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("tallyveil: poblaci")
    assert done.stderr.endswith("not text in this locale. Set LC_ALL=C.UTF-8, or rename the file.\n")


def test_a_table_with_nobody_in_it_is_planned_and_protected(town, tmp_path):
    table = tmp_path / "town.csv"
    table.write_text(re.sub(r",\d+$", ",0", table.read_text(), flags=re.MULTILINE))
    assert run("protect", *town, "--epsilon", "1", "--plan").returncode == 0
    done = run("protect", *town, "--epsilon", "1", "--seed", "1", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert tv.read_release(tmp_path / "out").histogram.total() == 0


def test_a_draft_says_in_printable_lines_what_it_does_not_use(tmp_path):
    (tmp_path / "t.csv").write_text('"a\x1b[31m","line\nbreak",' + "z" * 3000 + "\n1,2,3\n")
    done = run("codebook", str(tmp_path / "t.csv"))
    lines = done.stderr.splitlines()
    assert lines
    assert all(line.isprintable() and len(line) <= 520 for line in lines)


@pytest.mark.parametrize("words", [["z" * 5000], ["protect", f"--{'z' * 5000}"], ["account", "--rho", "1", "z" * 5000]])
def test_words_that_are_no_command_or_option_are_quoted_in_part(words):
    done = run(*words)
    assert done.returncode == 2
    assert 0 < done.stderr.count("z") < 510


@pytest.mark.parametrize(("share", "line"), [(0.9, "there is not enough memory"), (0.1, "an unexpected error")])
def test_what_a_library_makes_of_too_little_memory_is_told_as_such(monkeypatch, tmp_path, town, share, line):
    def fail(*_, **__):
        raise ImportError("failed to map segment from shared object")

    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr("resource.getrlimit", lambda _: (round(used / share), resource.RLIM_INFINITY))
    monkeypatch.setattr("tallyveil.files.tables.read.batches", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = run("protect", *town, "--epsilon", "1", "--plan")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["0", "a.b", "a[0]", "a:>9", "a!r"])
def test_a_wide_table_may_have_attributes_with_any_name(tmp_path, name):
    """Names that mean something else in Python's format strings."""
    (tmp_path / "t.csv").write_text("block,child_n,adult_n\n1,3,4\n2,0,5\n")
    (tmp_path / "t.toml").write_text(
        f'[geography]\nlevels = ["block"]\nroot = "town"\n[attributes]\n"{name}" = ["child", "adult"]\n'
        f'[table]\nlayout = "wide"\ncolumn = "{{{name}}}_n"\n'
    )
    assert tv.read_counts(tmp_path / "t.csv", tmp_path / "t.toml").total() == 12
