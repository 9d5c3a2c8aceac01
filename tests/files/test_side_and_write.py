import numpy as np
import pandas as pd
import pytest

from tallyveil import Areas, Facilities, Histogram, Spine, Strategy, protect
from tallyveil.errors import InputError
from tallyveil.files import (
    read_areas,
    read_counts,
    read_facilities,
    read_housing,
    read_release,
    write_counts,
    write_release,
)
from tallyveil.files.atomic import replacing
from tallyveil.files.release_folder.layout import level_part
from tallyveil.files.tables.side import areas_table, facilities_table, housing_table
from tallyveil.files.tables.write import units_table, wide_table, write_table
from tallyveil.nouns.census_schemas import UNITS_2020

TYPES = ("house", "prison", "dorm")


def test_facilities_housing_and_areas_read_back_as_written(people):
    spine = people.spine
    built = Facilities.from_entries(
        spine, attribute="home", types=TYPES, unit=[0, 0, 4], kind=[0, 1, 2], count=[9, 1, 2]
    )
    again = read_facilities(facilities_table(built), spine, attribute="home", types=TYPES)
    assert np.array_equal(again.leaves.dense(), built.leaves.dense())
    housing = Histogram.from_entries(spine, UNITS_2020, unit=[0, 1, 1], cell=[0, 0, 1], count=[3, 4, 5])
    assert np.array_equal(read_housing(housing_table(housing), spine).leaves.dense(), housing.leaves.dense())
    areas = Areas.from_codes(spine, leaf=["4400101", "0900102"], area=["Å", "B"])
    again = read_areas(areas_table(areas), spine)
    assert (again.names, again.of_leaf.tolist()) == (areas.names, areas.of_leaf.tolist())


def test_areas_tabulate_the_leaves_they_are_made_of(people):
    areas = Areas.from_codes(people.spine, leaf=["4400701", "0900101", "0900102"], area=["x", "y", "x"])
    dense = people.leaves.dense()
    assert areas.tabulate(people.leaves).dense().tolist() == [(dense[4] + dense[1]).tolist(), dense[0].tolist()]


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ({"tract": ["0900101"], "type": ["barn"], "count": [1]}, ("row 1, column 'type'", "'barn'", "house, prison")),
        ({"tract": ["0900101"], "type": ["house"], "count": [-1]}, ("row 1, column 'count'", "-1 is negative")),
        ({"tract": ["09"], "type": ["house"], "count": [1]}, ("row 1", "tract '09' is not among")),
        ({"tract": [900101], "type": ["house"], "count": [1]}, ("leading zeros are lost",)),
        ({"tract": ["0900101"], "kind": ["house"], "count": [1]}, ("needs the columns tract, type, count", "kind")),
        (
            {"tract": ["0900101"] * 2, "type": ["house"] * 2, "count": [1, 1]},
            ("rows 1 and 2 are about the same thing",),
        ),
    ],
)
def test_a_wrong_side_table_is_refused(people, table, parts):
    with pytest.raises(InputError) as caught:
        read_facilities(pd.DataFrame(table), people.spine, attribute="home", types=TYPES)
    for part in parts:
        assert part in str(caught.value)


def test_a_leaf_in_two_areas_is_refused_with_its_row(people):
    table = pd.DataFrame({"tract": ["0900101", "0900102", "0900101"], "area": ["x", "x", "y"]})
    with pytest.raises(InputError, match=r"row 1: tract '0900101' is in area 'x' and in another"):
        read_areas(table, people.spine)


def test_a_level_table_has_one_row_per_unit_and_one_column_per_number(people):
    queries = ["total", "age", "kind * age"]
    table = level_part(people, people.at("county"), "county", queries, np.arange(3)).to_pandas()
    assert list(table)[:3] == ["state", "county", "total"]
    assert "age * kind:child*house" in table
    assert table["age:adult"].tolist() == [4, 2, 2]
    assert (table["age:child"] + table["age:adult"]).tolist() == table["total"].tolist()


def test_a_seeded_release_stays_stamped_whatever_it_is_written_as_and_read_from(people, tmp_path):
    plan, stamp = Strategy.default(people.spine, people.schema, epsilon=1), "seeded: not for publication"
    release = protect(people, plan, seed=1, threads=1)
    assert stamp in release.histogram.stamps
    write_release(release, tmp_path / "release")
    from_folder = read_release(tmp_path / "release").histogram
    write_counts(from_folder, tmp_path / "counts.csv", layout="wide")
    beside = {"codebook": tmp_path / "counts.codebook.toml", "units": tmp_path / "counts.units.parquet"}
    from_table = read_counts(tmp_path / "counts.csv", **beside)
    assert stamp in from_table.stamps
    (tmp_path / "release" / "certificate.json").unlink()  # the codebook alone still says it
    assert stamp in read_release(tmp_path / "release").histogram.stamps


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "t.txt"
    file.write_text("old")

    def fail() -> None:
        with replacing(file) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_place_that_cannot_be_written_is_refused(people, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_counts(people, tmp_path / "none" / "t.csv")
    with pytest.raises(InputError, match=r"ends in \.csv or \.parquet"):
        write_table(units_table(people.spine), tmp_path / "t.xlsx")


def test_wide_columns_that_would_share_a_name_are_refused():
    from tallyveil import Schema

    spine = Spine.from_columns({"a_b": ["1"]}, root="r")
    people = Histogram.from_entries(spine, Schema(attributes={"x": ["a"], "y": ["b"]}), unit=[0], cell=[0], count=[1])
    with pytest.raises(InputError, match="two columns would be called 'a_b'"):
        wide_table(people)
