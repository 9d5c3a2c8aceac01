"""People who would not keep the limit on memory are read from Parquet in parts."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyveil import Histogram, Schema, Spine, _memory
from tallyveil.errors import DataError
from tallyveil.files.tables import paged
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.tables.read import read_counts
from tallyveil.nouns.paged_counts import PagedCounts

BOOK = Codebook(
    root="land",
    levels=("town", "block"),
    attributes={"age": ("child", "adult"), "sex": ("f", "m")},
    layout="long",
    count="count",
)
UNITS = pa.table({"town": ["a", "a", "a", "b", "b"], "block": ["1", "2", "3", "4", "5"]})


def rows(*found: tuple[str, str, str, int]) -> pa.Table:
    town = dict(zip("12345", "aaabb", strict=True))
    names = ("block", "age", "sex", "count")
    return pa.table(
        {"town": [town[row[0]] for row in found], **dict(zip(names, zip(*found, strict=True), strict=True))}
    )


def random_rows(seed: int, layout: str = "long") -> pa.Table:
    draw = np.random.default_rng(seed)
    found = [
        (block, age, sex, int(count))
        for block in "12345"
        for age in ("child", "adult")
        for sex in "fm"
        for count in draw.integers(1, 9, draw.integers(0, 2))
    ]
    table = rows(*(found or [("1", "child", "f", 1)]))
    if layout == "persons":
        table = table.take(np.repeat(np.arange(table.num_rows), table["count"].to_numpy())).drop(["count"])
    return table


def saved(table: pa.Table, folder, size: int):
    path = folder / f"people-{size}.parquet"
    pq.write_table(table, path, row_group_size=size)
    return path


@pytest.fixture(autouse=True)
def in_parts(monkeypatch):
    monkeypatch.setattr(paged, "COUNT_BYTES", 1 << 50)
    with _memory.memory_limit("4G"):
        yield


@pytest.mark.parametrize("layout", ["long", "persons", "wide"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_people_in_parts_are_the_people(tmp_path, layout, seed, size):
    shape = {"column": "{age}"} if layout == "wide" else {"count": "count"} if layout == "long" else {}
    book = Codebook(root="land", levels=BOOK.levels, attributes=BOOK.attributes, layout=layout, **shape)
    table = random_rows(seed, layout)
    if layout == "wide":
        frame = (
            random_rows(seed)
            .to_pandas()
            .pivot_table(index=["town", "block", "sex"], columns="age", values="count", aggfunc="sum")
        )
        table = pa.Table.from_pandas(frame.reindex(columns=["child", "adult"]).fillna(0).astype(int).reset_index())
    path = saved(table, tmp_path, size)
    people = read_counts(path, book, units=UNITS)
    assert isinstance(people.leaves, PagedCounts) == (pq.ParquetFile(path).num_row_groups > 1)
    with _memory.memory_limit(None):
        whole = read_counts(path, book, units=UNITS)
    assert people == whole
    assert list(people.identifying_bytes()) == list(whole.identifying_bytes())
    for level in people.spine.levels:
        assert np.array_equal(people.answer("age", level=level).dense(), whole.answer("age", level=level).dense())


def test_rows_in_another_order_than_the_units_are_refused_by_their_units(tmp_path):
    table = rows(("1", "child", "f", 1), ("4", "child", "f", 1), ("2", "adult", "f", 1))
    for size in (1, 2):
        with pytest.raises(
            DataError, match=r"block '4' comes before block '2', which is before it .* sort the rows by unit"
        ):
            read_counts(saved(table, tmp_path, size), BOOK, units=UNITS)


@pytest.mark.parametrize("size", [1, 2])
def test_a_row_that_is_there_twice_is_refused_even_if_a_row_group_ends_between(tmp_path, size):
    table = rows(("1", "child", "f", 1), ("2", "child", "f", 1), ("2", "child", "f", 4), ("3", "adult", "f", 1))
    with pytest.raises(DataError, match=r"block '2' with age 'child', sex 'f' is in rows 2 and 3"):
        read_counts(saved(table, tmp_path, size), BOOK, units=UNITS).total()


def test_a_unit_that_is_not_listed_is_refused_with_its_row(tmp_path):
    table = rows(("1", "child", "f", 1), ("2", "child", "f", 1), ("5", "child", "f", 4))
    with pytest.raises(DataError, match=r"row 3: block '5' is not in the list of units"):
        read_counts(saved(table, tmp_path, 1), BOOK, units=UNITS.slice(0, 4))


def test_a_file_that_changes_while_it_is_used_is_refused_and_its_counts_are_not_told(tmp_path, monkeypatch):
    monkeypatch.setattr("tallyveil.nouns.paged_counts.KEPT", 1)
    table = rows(*((block, "child", "f", 11) for block in "12345"))
    path = saved(table, tmp_path, 1)
    people = read_counts(path, BOOK, units=UNITS)
    assert people.total() == 55
    other = tmp_path / "other.parquet"
    pq.write_table(rows(*((block, "child", "f", 12) for block in "12345")), other, row_group_size=1)
    assert path.stat().st_size == other.stat().st_size
    path.write_bytes(other.read_bytes())  # in place: the open file is this one
    with pytest.raises(DataError, match=r"the file changed while it was read") as refused:
        list(people.canonical_bytes())
    assert "12" not in str(refused.value).replace(str(path), "")


def test_without_a_list_of_units_or_with_one_row_group_people_are_read_at_once(tmp_path):
    table = rows(("1", "child", "f", 1), ("2", "child", "f", 1))
    assert not isinstance(read_counts(saved(table, tmp_path, 1), BOOK).leaves, PagedCounts)
    assert not isinstance(read_counts(saved(table, tmp_path, 2), BOOK, units=UNITS).leaves, PagedCounts)


def test_impossible_cells_are_found_in_every_part(tmp_path):
    schema = Schema(attributes=BOOK.attributes, zeros=[{"age": ["adult"], "sex": ["m"]}])
    table = rows(("1", "child", "f", 1), ("2", "child", "f", 1), ("4", "adult", "m", 1))
    people = read_counts(saved(table, tmp_path, 1), BOOK, units=UNITS)
    spine = Spine.from_columns(
        {name: UNITS[name].to_pylist() for name in ("town", "block")}, root=people.spine.levels[0]
    )
    with pytest.raises(DataError, match=r"block '4' counts people in the impossible cell 'adult\*m'"):
        Histogram(spine=spine, schema=schema, leaves=people.leaves)


def test_rows_that_the_codebook_leaves_out_are_left_out_of_every_part(tmp_path):
    kept = rows(("1", "child", "f", 1), ("3", "child", "f", 1), ("3", "adult", "m", 4), ("5", "adult", "f", 2))
    other = rows(("2", "child", "f", 7), ("4", "child", "f", 7))
    marked = [
        table.append_column("year", pa.array([year] * table.num_rows))
        for table, year in ((kept, "2020"), (other, "2010"))
    ]
    table = pa.concat_tables(marked).sort_by("block")
    book = replace(BOOK, where={"year": "2020"})
    people = read_counts(saved(table, tmp_path, 1), book, units=UNITS)
    assert isinstance(people.leaves, PagedCounts)
    assert people.leaves.dense().tolist() == [[1, 0, 0, 0], [0] * 4, [1, 0, 0, 4], [0] * 4, [0, 0, 2, 0]]
    assert people.filter == book.filter
    nobody = read_counts(saved(table, tmp_path, 2), replace(BOOK, where={"year": "2010", "age": "adult"}), units=UNITS)
    assert nobody.total() == 0


def test_a_filter_whose_value_no_row_has_is_refused_also_where_rows_are_read_in_parts(tmp_path):
    table = random_rows(5).append_column("kept", pa.array(["yes"] * random_rows(5).num_rows))
    path = saved(table, tmp_path, 3)
    assert isinstance(read_counts(path, replace(BOOK, where={"kept": "yes"}), units=UNITS).leaves, PagedCounts)
    with pytest.raises(DataError, match=r"no row has 'Yes' in column 'kept', so .* keeps nobody"):
        read_counts(path, replace(BOOK, where={"kept": "Yes"}), units=UNITS)
