"""One person changes one row or a declared number of rows, and rows that are left out are declared or refused."""

import io
import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import openpyxl
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tallyveil as tv
from command_line import figures, run
from folders import reseal
from tallyveil.errors import BudgetError, DataError, InputError
from tallyveil.files.formats.by_name import read_format
from tallyveil.files.formats.census import Census1940
from tallyveil.files.ledger.of_release import entry_of_folder
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.codebook_toml import codebook_from_toml, codebook_to_toml, read_codebook
from tallyveil.files.tables.draft import draft_table
from tallyveil.files.tables.form import FileForm
from tallyveil.files.tables.read import read_counts
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy import account_of
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.guarantee import account_of_loss
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import strategy_from_toml, strategy_to_toml
from tallyveil.protection.verify import verify_release
from tallyveil.release.declare import FILTERED

TOWNS, AGES = ("a", "b", "c"), ("child", "adult")
UNITS = pd.DataFrame({"town": TOWNS})
BOOK = Codebook(root="all", levels=("town",), attributes={"age": AGES}, layout="persons")
LONG = Codebook(root="all", levels=("town",), attributes={"age": AGES}, layout="long", count="n")


def failing(folder):
    return [finding for finding in verify_release(folder) if finding.holds is False]


def declared(folder):
    return json.loads((folder / "certificate.json").read_text(encoding="utf-8"))["declared"]


def released(people, folder, *, source=None, facilities=None, **budget):
    strategy = budget.pop("strategy", None) or Strategy.default(people.spine, people.schema, **budget)
    release = tv.protect(people, strategy, facilities=facilities, seed=1, measurements=None)
    tv.write_release(release, folder, source=source)
    return release


# One row changes how one row is read.

ROWS = st.lists(
    st.tuples(st.sampled_from(TOWNS), st.sampled_from(["3", "17", "18", "70", " 70", "?", "x y"])), min_size=2
)
FORMS = st.builds(
    FileForm,
    title_rows=st.integers(0, 2),
    header_rows=st.integers(1, 2),
    note_rows=st.integers(0, 2),
    strip=st.booleans(),
    zeros=st.sampled_from([(), ("-",)]),
)


def written(rows, form, folder, *, workbook):
    lines = [["a title"]] * form.title_rows + [["town", "age"]] + [["", "in years"]] * (form.header_rows - 1)
    lines += [*map(list, rows), *([["a note"]] * form.note_rows)]
    if workbook:
        book = openpyxl.Workbook()
        for line in lines:
            book.active.append(line)
        book.save(folder / "t.xlsx")
        return folder / "t.xlsx"
    (folder / "t.csv").write_text("".join(";".join(line) + "\n" for line in lines), encoding="utf-8")
    return folder / "t.csv"


@settings(max_examples=120)
@given(ROWS, FORMS, st.data(), st.booleans(), st.booleans(), st.booleans())
def test_one_row_of_a_table_of_persons_changes_how_one_person_is_counted(
    tmp_path_factory, rows, form, data, workbook, filtered, anywhere
):
    place = tmp_path_factory.mktemp("f")
    age = "age: in years" if form.header_rows == 2 else "age"
    book = Codebook(
        root="all", levels=("town",), attributes={age: ("?", "x y")}, bands={age: (0, 18, 65)}, layout="persons",
        form=form, where={"town": "a"} if filtered else {},
    )  # fmt: skip
    first = data.draw(st.integers(0, len(rows) - 1))
    others = rows[:first] + rows[first + 1 :]
    new = data.draw(st.tuples(st.sampled_from(TOWNS), st.sampled_from(["3", "18", "70 ", "?"])))
    to = data.draw(st.integers(0, len(others))) if anywhere else first
    both = [rows, [*others[:to], new, *others[to:]]]
    assume(not filtered or all(any(town == "a" for town, _ in some) for some in both))  # a filter keeps somebody
    one, other = (
        read_counts(written(some, form, place, workbook=workbook), book, units=UNITS).leaves.dense() for some in both
    )
    assert abs(one - other).sum() <= 2
    assert filtered or one.sum() == len(rows)


@pytest.mark.parametrize("columns", [("town",), ("age",), ("town", "age")])
def test_cells_filled_from_above_are_refused_for_persons_and_not_drafted(columns):
    with pytest.raises(DataError, match=r"fill_down lets one row decide how others are read, but .*remove fill_down"):
        replace(BOOK, form=FileForm(fill_down=columns))
    replace(LONG, form=FileForm(fill_down=columns))
    rows = [(county if i == 0 else "", f"v{i}", i % 2) for county in "ABCD" for i in range(6)]
    table = pd.DataFrame(rows, columns=["county", "village", "sex"])
    assert draft_table(table, persons=True).book.form.fill_down == ()
    assert draft_table(table.assign(count=40)).book.form.fill_down == ("county",)


# Rows that are left out.

TABLE = pd.DataFrame(product("ab", AGES), columns=["town", "age"]).assign(n=[5, 7, 11, 13])


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (FileForm(total_rows={"town": ("b",)}), "rows with town = 'b' are left out"),
        (FileForm(total_rows={"town": ("b", "All")}), "rows with town = 'b' or 'All' are left out"),
        (FileForm(zeros=("-", "")), "counts written as '-' or '' are read as 0"),
        (
            FileForm(zeros=("-",), total_rows={"age": ("All",)}),
            "rows with age = 'All' are left out; counts written as '-' are read as 0",
        ),
    ],
)
@pytest.mark.parametrize("where", [{}, {"age": "adult"}])
def test_rows_left_out_and_texts_read_as_zero_are_declared_and_stamped_as_where_is(tmp_path, form, words, where):
    book = replace(LONG, form=form, where=where)
    people = read_counts(TABLE, book, units=UNITS)
    released(people, tmp_path / "r", source=book, epsilon=1)
    said = "only rows with age = 'adult' are counted; " if where else ""
    certificate = declared(tmp_path / "r")
    assert certificate["filter"] == {"words": said + words, "public": False}
    assert f"all records pass the filter ({said}{words})" in certificate["guarantee"]["holds_for"]
    assert FILTERED in certificate["stamps"]
    assert not failing(tmp_path / "r")
    again = tv.read_release(tmp_path / "r").histogram
    assert again.filter == people.filter
    public = read_counts(TABLE, replace(book, where_is_public=True), units=UNITS)
    released(public, tmp_path / "p", epsilon=1)
    assert declared(tmp_path / "p")["filter"] == {"words": said + words, "public": True}
    assert FILTERED not in declared(tmp_path / "p")["stamps"]


def test_texts_read_as_zero_are_declared_also_where_a_column_of_totals_could_have_them():
    wide = Codebook(root="all", levels=("town",), attributes={"age": AGES}, column="{age}", ignore=("all",),
                    form=FileForm(zeros=("-",)))  # fmt: skip
    table = pd.DataFrame({"town": ["a", "b"], "child": ["3", "-"], "adult": ["4", "8"], "all": ["7", "8"]})
    assert read_counts(table, wide, units=UNITS).filter is not None
    hidden = table.assign(child=["3", "-"], adult=["4", "-"], all=["7", "-"])
    assert read_counts(hidden, replace(wide, total="all"), units=UNITS).filter is not None
    with pytest.raises(DataError, match="7, but the cells sum to 4"):
        read_counts(table.assign(child="-"), replace(wide, total="all"), units=UNITS)


@pytest.mark.parametrize("notes", [1, 2, 3])
@pytest.mark.parametrize("workbook", [False, True])
@pytest.mark.parametrize("layout", ["persons", "long", "wide"])
def test_rows_of_the_table_are_not_left_out_as_notes(tmp_path, notes, workbook, layout):
    kinds = {
        "persons": (BOOK, ["town", "age"], [["a", "child"], ["b", "adult"], ["c", "adult"]]),
        "long": (LONG, ["town", "age", "n"], [["a", "child", "1"], ["b", "adult", "2"], ["c", "adult", "3"]]),
        "wide": (
            Codebook(root="all", levels=("town",), attributes={"age": AGES}, column="{age}"),
            ["town", *AGES], [["a", "1", "1"], ["b", "0", "2"], ["c", "3", "-"]],
        ),
    }  # fmt: skip
    book, header, rows = kinds[layout]
    lines = [header, *rows, ["Source: register of 2020"]]
    if workbook:
        made, file = openpyxl.Workbook(), tmp_path / "t.xlsx"
        for line in lines:
            made.active.append(line)
        made.save(file)
    else:
        file = tmp_path / "t.csv"
        file.write_text("".join(";".join(line) + "\n" for line in lines), encoding="utf-8")
    book = replace(book, form=FileForm(note_rows=notes, zeros=("-",)))
    if notes == 1:
        assert read_counts(file, book, units=UNITS).total() in (3, 6, 7)
        return
    words = rf"{notes - 1} of the last {notes} rows, which \[file\] note_rows leaves out, have what a row .*Correct"
    with pytest.raises(DataError, match=words):
        read_counts(file, book, units=UNITS)


def extract(*, orphans=1):
    """Four households of four districts, a prison, and people whose SERIAL is that of no household above them."""

    def line(width, fields):
        text = bytearray(b"0" * width)
        for first, value in fields.items():
            text[first - 1 : first - 1 + len(value)] = value.encode()
        return bytes(text) + b"\n"

    data = io.BytesIO()
    for i in range(1, 5):
        gq, gqtype = ("3", "2") if i == 4 else ("1", "0")
        home = {1: "H", 8: f"{i:08}", 54: "44", 56: "0010", 94: gq, 95: gqtype, 125: f"{i:04}"}
        data.write(line(159, home))
        for j in range(3):
            serial = f"{i:08}" if i > 1 or j >= orphans else "99999999"
            data.write(line(273, {1: "P", 8: serial, 74: "030", 85: "1", 89: "0"}))
    return data.getvalue()


@pytest.mark.parametrize("orphans", [0, 1, 2])
def test_an_extract_declares_who_is_left_out_and_facilities_that_come_from_its_people(tmp_path, orphans):
    (tmp_path / "EXT1940USCB.dat").write_bytes(extract(orphans=orphans))
    spine = Spine.from_columns(
        {"state": ["44"] * 5, "county": ["440010"] * 5, "enumdist": [f"440010000{i}" for i in range(1, 6)]}, root="us"
    )
    census = read_format(tmp_path / "EXT1940USCB.dat", "ipums-1940", units=spine)
    assert isinstance(census, Census1940)
    assert census.dropped == orphans
    assert census.facilities.from_people
    strategy = Strategy.preset("e2e-2018", epsilon=4)
    assert any(isinstance(one, FacilityBounds) for one in strategy.constraints)
    released(census.people, tmp_path / "r", strategy=strategy, facilities=census.facilities)
    certificate = declared(tmp_path / "r")
    assert certificate["filter"]["words"].startswith("persons whose SERIAL is not that of the household above")
    assert FILTERED in certificate["stamps"]
    (bound,) = [one for one in certificate["constraints"] if one["words"].startswith("persons by hhgq")]
    assert bound["source"] == "truth"
    assert "public" not in bound["source_in_words"]
    assert bound["words"].endswith("the facilities are counted in the file of the people, and exact")
    assert bound["words"] in certificate["guarantee"]["holds_for"].partition("agree on all invariants")[2]
    assert certificate["guarantee"]["invariants"] == 1 + sum(
        type(one).__name__ == "Invariant" for one in strategy.constraints
    )
    assert not failing(tmp_path / "r")
    assert bound["words"] in entry_of_folder(tmp_path / "r").invariants
    again = tv.read_release(tmp_path / "r").strategy
    assert strategy_from_toml(strategy_to_toml(again)) == again
    public = replace(census.facilities, from_people=False)
    released(census.people, tmp_path / "p", strategy=strategy, facilities=public)
    assert {one["source"] for one in declared(tmp_path / "p")["constraints"]} == {"facilities", "truth"}


def test_facilities_from_the_people_shape_no_spine():
    census = tv.populations.census_2020(seed=1, persons=2_000)
    hidden = replace(census.facilities, from_people=True)
    census.people.spine.optimised(facilities=census.facilities)
    with pytest.raises(InputError, match="not public, and cannot shape a spine"):
        census.people.spine.optimised(facilities=hidden)


# Rows of a person.


def records(rows_of):
    """Rows of persons: how many each of them has."""
    ids = [f"{1000 + i}" for i, rows in enumerate(rows_of) for _ in range(rows)]
    return pd.DataFrame({"id": ids, "town": [TOWNS[i % 2] for i in range(len(ids))], "age": AGES[0]}).sample(
        frac=1, random_state=1
    )


@settings(max_examples=60)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.none() | st.integers(1, 6), st.booleans())
def test_persons_with_more_rows_than_allowed_are_refused_with_their_number(rows_of, at_most, spaced):
    book = replace(BOOK, person="id", at_most=at_most)
    several, table = sum(rows > (at_most or 1) for rows in rows_of), records(rows_of)
    if spaced:
        table["id"] = [f"{one} " * (i % 2) or one for i, one in enumerate(table["id"])]
    if not several:
        assert read_counts(table, book, units=UNITS).rows_per_person == (at_most or 1)
        return
    words = rf"{several} persons have more than {at_most or 1} rows? by column 'id' \(at most {max(rows_of)}\)"
    with pytest.raises(DataError, match=words) as refused:
        read_counts(table, book, units=UNITS)
    assert not any(one in str(refused.value) for one in table["id"])


def test_only_rows_that_are_counted_count_and_every_one_has_an_identifier(tmp_path):
    table = records([2, 1, 3])
    first = table.drop_duplicates("id").index
    table["year"] = ["2020" if i in first else "2021" for i in table.index]
    book = replace(BOOK, person="id", where={"year": "2020"}, ignore=("id", "year"))
    assert read_counts(table, book, units=UNITS).total() == 3
    for gap in ("", " ", None):
        with pytest.raises(DataError, match="row 3, column 'id': the value is missing"):
            read_counts(table.assign(id=["x", "y", gap, "z", "u", "v"]), replace(book, where={}), units=UNITS)
    with pytest.raises(DataError, match="no column 'name'"):
        read_counts(table, replace(BOOK, person="name"), units=UNITS)
    file = tmp_path / "t.parquet"
    table.drop(columns="year").to_parquet(file, row_group_size=2, index=False)
    with tv.scale.memory_limit("64 GiB"), pytest.raises(DataError, match="2 persons have more than 1 row"):
        read_counts(file, replace(BOOK, person="id"), units=UNITS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layout": "long", "count": "n", "person": "id"}, "person = 'id' needs layout = \"persons\""),
        ({"at_most": 2}, "at_most = 2 must be 1 or more, and needs person"),
        ({"person": "id", "at_most": 0}, "at_most = 0 must be 1 or more"),
        ({"rows_per_person": 0}, "rows_per_person = 0 must be 1 or more"),
    ],
)
def test_what_is_said_of_a_person_must_make_sense(changed, message):
    with pytest.raises(DataError, match=message):
        replace(BOOK, **changed)


def brute_force(strategy, spine, schema, rows):
    """The largest loss between datasets that differ in all records of one person, from each count that differs."""
    places = list(product(range(spine.size(spine.leaf)), range(schema.cells)))
    worst = Fraction(0)
    removed = [()] if strategy.neighbours == "add-or-remove" else list(combinations_with_replacement(places, rows))
    for old, new in product(removed, combinations_with_replacement(places, rows)):
        loss = Fraction(0)
        for level in strategy.levels:
            unit_of = [spine.leaves_under(level).searchsorted(leaf, side="right") - 1 for leaf in range(len(places))]
            for query in strategy.queries[level]:
                row_of, noise = schema.query(query).row_of_cell, strategy.noise(level, query)
                change = Counter((int(unit_of[leaf]), int(row_of[cell])) for leaf, cell in new)
                change.subtract((int(unit_of[leaf]), int(row_of[cell])) for leaf, cell in old)
                power = 1 if strategy.mechanism == "geometric" else 2
                loss += noise.loss * sum(abs(n) ** power for n in change.values())
        worst = max(worst, loss)
    return worst


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-or-remove"])
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": "1/2"}])
def test_the_loss_of_a_person_is_that_of_all_its_rows(rows, neighbours, budget):
    spine = Spine.from_columns({"town": ["a", "b"]}, root="all")
    schema = Schema(attributes={"age": AGES})
    strategy = replace(Strategy.default(spine, schema, **budget), neighbours=neighbours)
    loss = Loss(strategy=strategy, spine=spine, schema=schema, rows_per_person=rows)
    assert loss.in_all() == brute_force(strategy, spine, schema, rows)
    figures, one = account_of_loss(loss), account_of(strategy, spine=spine, schema=schema)
    if "epsilon" in budget:
        assert figures.epsilon == rows * one.epsilon
        assert figures.per_attribute == {name: rows * value for name, value in one.per_attribute.items()}
    else:
        assert figures.rho == rows**2 * one.rho
        assert (figures.pld_epsilon is None) == (rows > 1)
    assert rows == 1 or all(figures.within_level[level] > value for level, value in one.within_level.items())
    blind = replace(loss, spine=None, schema=None)
    assert blind.in_all() == strategy.budget * (rows if "epsilon" in budget else rows**2)


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": "1/2"}])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-or-remove"])
def test_certificate_folder_account_and_ledger_count_all_rows_of_a_person(tmp_path, budget, neighbours):
    table, place = records([5, 1, 2]), tmp_path / "r"
    (tmp_path / "t.toml").write_text(codebook_to_toml(replace(BOOK, person="id", at_most=5)), encoding="utf-8")
    book = read_codebook(tmp_path / "t.toml")
    assert (book.person, book.at_most) == ("id", 5)
    people = read_counts(table, book, units=UNITS)
    strategy = replace(Strategy.default(people.spine, people.schema, **budget), neighbours=neighbours)
    release = released(people, place, source=book, strategy=strategy)
    unit, times = ("epsilon", 5) if "epsilon" in budget else ("rho", 25)
    one = account_of(strategy, spine=people.spine, schema=people.schema)
    certificate, spent = declared(place), times * Fraction(budget[unit])
    assert certificate["rows_per_person"] == 5
    assert certificate["guarantee"][unit] == pytest.approx(times * getattr(one, unit), rel=1e-12)
    assert "up to 5 records" in certificate["guarantee"]["neighbours_in_words"]
    assert "up to 5 records" in certificate["guarantee"]["holds_for"]
    assert release.histogram.rows_per_person == tv.read_release(place).histogram.rows_per_person == 5
    assert not failing(place)
    assert entry_of_folder(place).cost.loss == spent
    assert entry_of_folder(place).cost.pairs is None
    assert figures("account", "--release", str(place))[unit] == pytest.approx(float(spent))
    again = tmp_path / "again.parquet"
    tv.files.write_counts(people, again)
    assert read_counts(again, tmp_path / "again.codebook.toml").rows_per_person == 5
    text = (place / "codebook.toml").read_text(encoding="utf-8")
    (place / "codebook.toml").write_text(text.replace("rows_per_person = 5", "rows_per_person = 1"), encoding="utf-8")
    reseal(place)
    assert {"declared", "stamps"} <= {finding.name for finding in failing(place)}


def test_a_folder_of_an_earlier_version_that_declared_no_rows_left_out_still_verifies(tmp_path):
    book = replace(LONG, form=FileForm(zeros=("-",)))
    people = replace(read_counts(TABLE, book, units=UNITS), filter=None)
    released(people, tmp_path / "r", source=None, epsilon=1)
    (tmp_path / "r" / "source.toml").write_text(codebook_to_toml(book), encoding="utf-8")
    reseal(tmp_path / "r")
    assert [finding.name for finding in failing(tmp_path / "r")] == ["stamps"]  # by this version, it would be declared
    reseal(tmp_path / "r", lambda certificate: certificate["declared"]["versions"].update(tallyveil="0.1"), render=True)
    assert not failing(tmp_path / "r")


def test_a_run_enters_the_loss_of_a_person_in_the_ledger_and_keeps_its_limit(tmp_path):
    table, ledger = tmp_path / "t.csv", str(tmp_path / "l.jsonl")
    records([3, 1, 2]).to_csv(table, index=False)
    UNITS.to_csv(tmp_path / "u.csv", index=False)
    (tmp_path / "t.toml").write_text(codebook_to_toml(replace(BOOK, person="id", at_most=3)), encoding="utf-8")

    def protect(name, *more):
        words = ["protect", str(table), "--codebook", str(tmp_path / "t.toml"), "--units", str(tmp_path / "u.csv")]
        return run(*words, "--ledger", ledger, "-o", str(tmp_path / name), *more)

    run("ledger", ledger, "limit", "--epsilon", "5")
    first = protect("one", "--epsilon", "1")
    assert first.returncode == 0, first.stderr
    assert "A person has at most 3 records, which was checked by their identifiers" in first.stderr
    beyond = protect("two", "--epsilon", "1")
    assert beyond.returncode == 2
    assert "the limit of the ledger is epsilon 5" in beyond.stderr
    assert not (tmp_path / "two").exists()
    plan = protect("three", "--epsilon", "1", "--plan", "--json")
    assert json.loads(plan.stdout)["guarantee"]["epsilon"] == 3
    refused = protect("four", "--rho", "1", "--accounting", "pld")
    assert refused.returncode == 2
    assert 'accounting = "pld" is for one record per person, but a person has up to 3 here' in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["one"]


def test_accounting_by_distribution_is_refused_for_persons_with_several_rows():
    spine, schema = Spine.from_columns({"town": TOWNS}, root="all"), Schema(attributes={"age": AGES})
    strategy = Strategy.default(spine, schema, rho=1)
    by_pld = replace(strategy, accounting="pld", epsilon=Fraction(3))
    Loss(strategy=by_pld, spine=spine, schema=schema)
    with pytest.raises(BudgetError, match='Use accounting = "zcdp"'):
        Loss(strategy=by_pld, spine=spine, schema=schema, rows_per_person=2)


def test_nothing_is_said_about_the_rows_of_a_person_where_no_column_names_persons(tmp_path):
    people = read_counts(records([1, 1, 1]).drop(columns="id"), BOOK, units=UNITS)
    released(people, tmp_path / "r", epsilon=1)
    assert people.rows_per_person is None
    assert "rows_per_person" not in declared(tmp_path / "r")
    assert "rows_per_person" not in (tmp_path / "r" / "codebook.toml").read_text(encoding="utf-8")


@given(
    st.dictionaries(st.sampled_from(["where", "other"]), st.text(min_size=1, max_size=3), max_size=2),
    st.lists(st.text(min_size=1, max_size=9), max_size=2, unique=True),
    st.booleans(),
    st.none() | st.integers(1, 9),
    st.none() | st.integers(1, 9),
)
def test_filters_and_rows_of_persons_are_read_back_from_toml(where, others, public, at_most, rows):
    assume(where or others)
    filtered = tv.nouns.histogram.Filter(where=where, others=tuple(others), public=public)
    book = replace(BOOK, filtered=filtered, person="id", at_most=at_most, rows_per_person=rows)
    assert codebook_from_toml(codebook_to_toml(book)) == book
