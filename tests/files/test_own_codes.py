"""Codes stay the user's: repeated codes and names of units, from a table to a folder and its side tables and back."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folders import edit, failing, holds, put, reseal
from repeated_codes import relative_spine, relative_trees
from tallyveil import Histogram, Schema, Spine, Strategy, protect
from tallyveil.errors import InputError
from tallyveil.files import (
    codebook_from_toml,
    read_areas,
    read_codebook,
    read_counts,
    read_facilities,
    read_housing,
    read_release,
    write_counts,
    write_release,
)
from tallyveil.files.tables.side import areas_table, facilities_table
from tallyveil.nouns.spine import UnitNames
from tallyveil.release.certificate import Certificate, Observed
from tallyveil.release.declare import declared_of
from tallyveil.release.release import Release

AGES = Schema(attributes={"age": ["child", "adult"]})
ROWS = {"county": ["1", "1", "11", "11"], "tract": ["12", "2", "2", "3"]}
BOOK = """
[geography]
root = "state"
levels = ["county", "tract"]
relative = true
names = {county = "county_name", tract = "place"}
[table]
layout = "long"
count = "n"
"""
NAMED = pd.DataFrame({**ROWS, "county_name": ["Kent"] * 2 + ["Sussex"] * 2, "place": list("abcd"), "n": [1, 2, 3, 4]})


def folder_of(spine: Spine, place: Path) -> Path:
    """A release folder made by hand: one child in the first leaf."""
    people = Histogram.from_entries(spine, AGES, unit=[0], cell=[0], count=[1])
    plan = Strategy.default(spine, AGES, epsilon=1)
    declared = declared_of(plan, spine, AGES, facilities=False, stamps=())
    certificate = Certificate(declared=declared, observed=Observed(levels=()))
    write_release(Release(histogram=people, strategy=plan, certificate=certificate), place / "r")
    return place / "r"


def same_spine(one: Spine, two: Spine) -> bool:
    """Equal keys, own codes and names."""
    own = all(np.array_equal(one.own_codes(level), two.own_codes(level)) for level in one.levels)
    return one == two and own and one.names == two.names and one.relative == two.relative


@settings(deadline=None, max_examples=8)
@given(relative_trees(), st.data())
def test_a_folder_reads_back_to_the_same_spine_own_codes_and_names(tree, data):
    spine = relative_spine(tree)
    words = st.text("aé京 =*,", min_size=1, max_size=3).filter(str.strip)
    names = {
        level: UnitNames(column=f"{level} name", of_unit=tuple(data.draw(words) for _ in range(spine.size(level))))
        for level in data.draw(st.lists(st.sampled_from(spine.levels), unique=True))
    }
    spine = replace(spine, names=names)
    with TemporaryDirectory() as place:
        folder = folder_of(spine, Path(place))
        assert same_spine(read_release(folder).histogram.spine, spine)
        rows = pd.read_parquet(folder / "spine.parquet").astype(str)
        assert sorted(rows[list(spine.levels)].itertuples(index=False, name=None)) == sorted(tree[1])
        people = read_release(folder).histogram
        write_counts(people, Path(place) / "t.csv")
        again = read_counts(
            Path(place) / "t.csv",
            read_codebook(Path(place) / "t.codebook.toml"),
            units=Path(place) / "t.units.parquet",
        )
        assert same_spine(again.spine, spine)
        assert again == people


def test_tables_by_level_have_names_beside_codes_and_verify_knows_them(tmp_path):
    folder = folder_of(read_counts(NAMED, codebook_from_toml(BOOK)).spine, tmp_path)
    columns = list(pd.read_parquet(folder / "levels" / "tract.parquet").columns)
    assert columns == ["county", "county_name", "tract", "place", "total", "age:child", "age:adult"]
    assert not {"spine", "levels", "codebook", "counts"} & set(failing(folder))
    edit(folder / "levels" / "county.parquet", put(1, "county_name", "Kent"))
    reseal(folder)
    assert failing(folder)["levels"] == "levels/county.parquet, row 2, county_name: Kent, not Sussex"


# ---- names


def test_names_are_kept_and_change_neither_the_identity_of_a_spine_nor_its_noise():
    named = read_counts(NAMED, codebook_from_toml(BOOK))
    plain = read_counts(NAMED, replace(codebook_from_toml(BOOK), names={}, ignore=("county_name", "place")))
    assert named.spine.names["county"] == UnitNames(column="county_name", of_unit=("Kent", "Sussex"))
    assert named.spine.names["tract"].of_unit == ("a", "b", "c", "d")
    assert named == plain
    assert b"".join(named.identifying_bytes()) == b"".join(plain.identifying_bytes())
    plan = Strategy.default(named.spine, named.schema, epsilon=1)
    assert protect(named, plan, seed=1).histogram == protect(plain, plan, seed=1).histogram


def test_a_unit_with_two_names_is_refused_with_both():
    table = NAMED.assign(county_name=["Kent", "Kent County", "Sussex", "Sussex"])
    with pytest.raises(InputError, match="county '1' has two names in column 'county_name': 'Kent' and 'Kent County'"):
        read_counts(table, codebook_from_toml(BOOK))


def test_names_come_from_the_list_of_units_if_there_is_one():
    units = NAMED.drop(columns="n").assign(county_name=["K"] * 2 + ["S"] * 2)
    table = NAMED.drop(columns=["county_name", "place"])
    people = read_counts(table, codebook_from_toml(BOOK), units=units)
    assert people.spine.names["county"].of_unit == ("K", "S")
    with pytest.raises(InputError, match="no column 'place', which the codebook names as the names of level 'tract'"):
        read_counts(NAMED, codebook_from_toml(BOOK), units=units.drop(columns="place"))
    with pytest.raises(InputError, match="no column 'county_name' and 1 more, which the codebook names"):
        read_counts(table, codebook_from_toml(BOOK))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ('{block = "b"}', r"\[geography\] names: 'block' is not a level \(county, tract\)"),
        ('{county = "tract"}', "column 'tract' of level 'county' is used twice, or has the name of a level"),
        ('{county = "n", tract = "n"}', "column 'n' of level 'county' is used twice"),
    ],
)
def test_names_of_no_level_or_from_a_column_that_is_used_are_refused(names, message):
    with pytest.raises(InputError, match=message):
        codebook_from_toml(BOOK.replace('{county = "county_name", tract = "place"}', names))


def test_a_column_of_names_that_a_release_would_have_twice_is_refused():
    book = codebook_from_toml(BOOK.replace('{county = "county_name", tract = "place"}', '{county = "total"}'))
    people = read_counts(NAMED.rename(columns={"county_name": "total"}).drop(columns="place"), book)
    with pytest.raises(InputError, match=r"two columns of the release would be called 'total'\. Rename the col"):
        people.to_arrow()


# ---- side tables


@pytest.fixture(scope="module")
def spine() -> Spine:
    return Spine.from_columns(ROWS, root="state", relative=True)


@pytest.mark.parametrize(
    "columns",
    [
        {"county": ["11", "1"], "tract": ["2", "12"]},  # all geographic columns
        {"tract": ["11/2", "1/12"]},  # paths
        {"tract": ["11/2", "12"]},  # a path, and an own code that is unique
    ],
)
def test_side_tables_find_leaves_by_columns_by_path_or_by_a_unique_own_code(spine, columns):
    facilities = pd.DataFrame({**columns, "type": ["house", "prison"], "count": [5, 7]})
    built = read_facilities(facilities, spine, attribute="home", types=["house", "prison"])
    assert built.leaves.dense().tolist() == [[0, 7], [0, 0], [5, 0], [0, 0]]
    assert read_areas(pd.DataFrame({**columns, "area": ["A", "B"]}), spine).of_leaf.tolist() == [1, -1, 0, -1]
    housing = pd.DataFrame({**columns, "occupied": [1, 2], "vacant": [3, 4]})
    assert read_housing(housing, spine).leaves.dense().tolist() == [[4, 2], [0, 0], [3, 1], [0, 0]]  # vacant, occupied
    again = read_facilities(facilities_table(built), spine, attribute="home", types=["house", "prison"])
    assert again.leaves == built.leaves
    assert facilities_table(built).column_names == ["county", "tract", "type", "count"]


def test_a_side_table_with_an_own_code_of_two_leaves_is_refused(spine):
    with pytest.raises(
        InputError, match=r"row 1: tract '2' is the code of 2 units\. Give the path of one, such as '1/2'"
    ):
        read_areas(pd.DataFrame({"tract": ["2"], "area": ["A"]}), spine)
    read_areas(areas_table(read_areas(pd.DataFrame({"tract": ["1/2"], "area": ["A"]}), spine)), spine)


# ---- other combinations


def test_an_optimised_spine_with_repeated_codes_is_measured_read_back_and_holds(tmp_path):
    rows = [(s, t, g, b) for s in "AB" for t in "12" for g in "1" for b in "123"]
    columns = pd.DataFrame(rows, columns=["state", "tract", "group", "block"]).to_dict("list")
    spine = Spine.from_columns(columns, root="us", relative=True)
    place = read_areas(pd.DataFrame({**columns, "area": ["x", "y", "x"] * 4}), spine)
    people = Histogram.from_entries(spine, AGES, unit=range(12), cell=[0, 1] * 6, count=range(12))
    optimised = spine.optimised(place=place)
    plan = Strategy.default(spine, AGES, epsilon=1)
    release = protect(people, plan, seed=1, optimised=optimised, measurements=None)
    write_release(
        release, tmp_path / "r", measurements=[(q, level) for level in plan.queries for q in plan.queries[level]]
    )
    again = read_release(tmp_path / "r")
    assert again.histogram == release.histogram
    assert again.optimised.spine == optimised.spine
    assert holds(tmp_path / "r")


def test_a_release_table_without_empty_units_is_aligned_by_the_columns_of_codes():
    """In such a table a code may no longer repeat, so that its units have other keys."""
    from tallyveil.evaluate.sources import aligned

    book = codebook_from_toml(BOOK.replace('names = {county = "county_name", tract = "place"}', ""))
    table = NAMED.drop(columns=["county_name", "place"])
    truth, released = read_counts(table, book), read_counts(table.iloc[[0, 2, 3]], book)
    assert released.spine.labels("tract") == ["12", "2", "3"]
    assert aligned(released, truth).leaves.dense().tolist() == [[1], [0], [3], [4]]


def test_units_of_other_levels_than_the_codebook_are_refused(spine):
    book = codebook_from_toml(BOOK.replace('"county", "tract"]', '"county", "block"]').replace(', tract = "place"', ""))
    with pytest.raises(InputError, match="the codebook has the levels county, block, but the units have county, tract"):
        read_counts(NAMED.rename(columns={"tract": "block"}).drop(columns="place"), book, units=spine)


DATA = Path(__file__).parents[3] / "shared" / "data" / "ri_2010_block.parquet"


@pytest.mark.skipif(not DATA.exists(), reason="the real census counts are not beside the project")
def test_every_original_code_of_rhode_island_joins_with_the_release(tmp_path):
    book = read_codebook(Path(__file__).parents[2] / "examples" / "ri_2010_block.toml")
    people = read_counts(DATA, book)
    certificate = declared_of(
        plan := Strategy.default(people.spine, people.schema, epsilon=1), people.spine, people.schema,
        facilities=False, stamps=(),
    )  # fmt: skip
    made = Certificate(declared=certificate, observed=Observed(levels=()))
    write_release(Release(histogram=people, strategy=plan, certificate=made), tmp_path / "r", source=book)
    table, keys = pd.read_parquet(DATA), list(book.levels)
    for level in keys:
        by = keys[: keys.index(level) + 1]
        released = pd.read_parquet(tmp_path / "r" / "levels" / f"{level}.parquet").astype(dict.fromkeys(by, str))
        sums = table.groupby(by, as_index=False)["total"].sum().merge(released, how="outer", on=by)
        assert len(sums) == len(released)
        assert (sums.total_x == sums.total_y).all()
