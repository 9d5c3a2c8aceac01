import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from small_release import page_of, small_people, small_release
from tallyveil.errors import InputError
from tallyveil.files import read_counts, read_release, write_release
from tallyveil.files.measured import file_name, measured_pairs, measurement_sizes, noisy_pieces
from tallyveil.files.release_folder import new_folder
from tallyveil.files.tables import UNITS_FROM_DATA
from tallyveil.files.write import write_table
from tallyveil.release import Release


@pytest.fixture(scope="module")
def release() -> Release:
    return small_release()


@pytest.fixture(scope="module")
def folder(release, tmp_path_factory) -> Path:
    """The release with all its measurements."""
    place = tmp_path_factory.mktemp("all") / "release"
    write_release(release, place, measurements=measured_pairs(release.strategy), page=page_of(release))
    return place


def places(release: Release, query: str, level: str) -> np.ndarray:
    """All places of a query at a level that are measured, in no order."""
    size = release.histogram.schema.query(query).size
    units = np.flatnonzero(release.measurements.shares[level].spans)
    return np.random.default_rng(1).permutation((units[:, None] * size + np.arange(size)).reshape(-1))


def test_the_folder_holds_what_the_contract_says_and_nothing_else(folder):
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    measured = ["total", "age", "home", "detailed"]
    queries = {"us": measured[1:], "county": measured, "tract": measured}
    assert files == {
        *("release.parquet", "spine.parquet", "facilities.parquet", "strategy.toml", "codebook.toml"),
        *("certificate.json", "certificate.html"),
        *(f"levels/{level}.parquet" for level in queries),
        *(f"measurements/{level}/{query}.parquet" for level, names in queries.items() for query in names),
        *(f"measurements/exact/{level}/total.parquet" for level in ("us", "county")),
    }


def test_a_written_release_is_read_back_unchanged(release, folder):
    back = read_release(folder)
    assert back.histogram == release.histogram
    assert back.strategy == release.strategy
    assert back.facilities.leaves == release.facilities.leaves
    assert back.certificate["declared"] == release.certificate["declared"]
    assert back.certificate["observed"] == json.loads(json.dumps(release.certificate["observed"]))
    assert (back.certificate["approver"], back.certificate["reference"]) == ("", "")
    assert back.histogram.stamps == back.measurements.stamps == ("seeded: not for publication",)
    assert back.measurements.exact == release.measurements.exact


def test_saved_measurements_answer_as_the_live_ones_did(release, folder):
    back = read_release(folder).measurements
    for query, level in measured_pairs(release.strategy):
        index = places(release, query, level)
        assert np.array_equal(back.ask(level, query, index), release.measurements.ask(level, query, index))


def test_saved_measurements_answer_from_several_pieces_too(release, tmp_path, monkeypatch):
    monkeypatch.setattr(noisy_pieces, "__kwdefaults__", {"size": 8})  # two units of three numbers at a time
    write_release(release, tmp_path / "r", measurements=[("home", "tract")])
    path = tmp_path / "r" / "measurements" / "tract" / "home.parquet"
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 3
    back = read_release(tmp_path / "r").measurements
    index = places(release, "home", "tract")
    assert np.array_equal(back.ask("tract", "home", index), release.measurements.ask("tract", "home", index))


def test_release_parquet_has_levels_attributes_and_non_zero_counts(release, folder):
    table = pd.read_parquet(folder / "release.parquet")
    assert list(table.columns) == ["county", "tract", "age", "home", "count"]
    assert (table["count"] > 0).all()
    assert table["count"].sum() == release.histogram.total()


def test_spine_parquet_lists_empty_units_too(folder):
    assert list(pd.read_parquet(folder / "spine.parquet")["tract"]) == ["011", "012", "013", "021", "031", "032"]


def test_tables_by_level_have_a_row_per_unit_and_a_column_per_label(folder):
    table = pd.read_parquet(folder / "levels" / "county.parquet")
    assert list(table.columns) == [
        *("county", "total", "age:child", "age:adult", "home:house", "home:prison", "home:dorm"),
    ]
    assert table["total"].tolist() == [20, 7, 10]
    assert table["age:adult"].tolist() == [16, 6, 10]


def test_measurements_have_unit_cell_value_variance_and_skip_units_that_are_not_measured(release, folder):
    table = pd.read_parquet(folder / "measurements" / "tract" / "age.parquet")
    assert list(table.columns) == ["unit", "cell", "value", "variance"]
    assert table["unit"].unique().tolist() == ["011", "012", "013", "031", "032"]  # 021 is an only child
    assert table["cell"].tolist()[:2] == ["child", "adult"]
    assert (table["variance"] == float(release.strategy.noise("tract", "age").variance)).all()
    county = pd.read_parquet(folder / "measurements" / "county" / "age.parquet")
    assert county["variance"].tolist() == [12, 12, 6, 6, 12, 12]  # county 02 pays for its tract too


def test_exact_answers_are_saved_with_variance_0(folder):
    table = pd.read_parquet(folder / "measurements" / "exact" / "county" / "total.parquet")
    assert table["value"].tolist() == [20, 7, 10]
    assert table["variance"].tolist() == [0, 0, 0]


def test_the_counts_are_read_as_any_table_is(release, folder):
    people = read_counts(folder / "release.parquet", folder / "codebook.toml", units=folder / "spine.parquet")
    assert people == release.histogram
    assert people.stamps == ()


def test_a_release_without_measurements_is_read_without_them(release, tmp_path):
    write_release(release, tmp_path / "r")
    assert not (tmp_path / "r" / "certificate.html").exists()
    assert read_release(tmp_path / "r").measurements is None
    write_release(replace(release, measurements=None), tmp_path / "s")
    assert not (tmp_path / "s" / "measurements").exists()
    with pytest.raises(InputError, match="the release kept no measurements, so none can be published"):
        write_release(replace(release, measurements=None), tmp_path / "t", measurements=[("total", "tract")])


def test_asking_for_what_was_not_saved_names_it_and_what_was(release, tmp_path):
    write_release(release, tmp_path / "r", measurements=[("home", "tract"), ("total", "county")])
    back = read_release(tmp_path / "r").measurements
    back.ask("tract", "home", np.array([0]))
    with pytest.raises(
        InputError, match=r"age@tract was not saved with this release \(saved: total@county, home@tract"
    ):
        back.ask("tract", "age", np.array([0]))
    with pytest.raises(InputError, match="a unit whose parent took over its share is not measured"):
        back.ask("tract", "home", np.array([3 * 3]))


def test_a_query_that_is_not_measured_cannot_be_published(release, tmp_path):
    with pytest.raises(InputError, match="query 'total' is not measured at level 'us'"):
        write_release(release, tmp_path / "r", measurements=[("total", "us")])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_made_elsewhere_needs_counts_and_codebook_only(release, folder, tmp_path):
    for name in ("release.parquet", "codebook.toml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    back = read_release(tmp_path)
    assert (back.strategy, dict(back.certificate), back.measurements) == (None, {}, None)
    assert back.histogram.total() == release.histogram.total()
    assert back.histogram.stamps == (UNITS_FROM_DATA,)
    assert "made elsewhere" in repr(back)
    with pytest.raises(InputError, match="a release without a strategy cannot be written as a folder"):
        write_release(back, tmp_path / "again")


@pytest.mark.parametrize("missing", ["release.parquet", "codebook.toml"])
def test_a_folder_without_counts_or_codebook_is_refused_by_name(folder, tmp_path, missing):
    for name in {"release.parquet", "codebook.toml"} - {missing}:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(InputError, match=f"not a release, {missing} is missing"):
        read_release(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_release(tmp_path / "nowhere")


def test_a_file_of_measurements_with_a_row_too_few_is_refused(release, tmp_path):
    write_release(release, tmp_path / "r", measurements=[("home", "tract")])
    path = tmp_path / "r" / "measurements" / "tract" / "home.parquet"
    pd.read_parquet(path).iloc[:-1].to_parquet(path)
    with pytest.raises(InputError, match=r"home.parquet: 14 rows, but the measured units have 15"):
        read_release(tmp_path / "r")
    pd.read_parquet(path).drop(columns="value").to_parquet(path)
    with pytest.raises(InputError, match="no column 'value' of whole numbers"):
        read_release(tmp_path / "r")
    path.write_bytes(b"not a table")
    with pytest.raises(InputError, match=r"home.parquet: cannot be read as Parquet"):
        read_release(tmp_path / "r")


@pytest.mark.parametrize(("text", "line"), [("{", "cannot be read as JSON"), ("[]", "not a certificate")])
def test_a_certificate_that_is_none_is_refused(release, tmp_path, text, line):
    write_release(release, tmp_path / "r")
    (tmp_path / "r" / "certificate.json").write_text(text)
    with pytest.raises(InputError, match=line):
        read_release(tmp_path / "r")


def test_an_existing_folder_is_refused_and_left_alone(release, tmp_path):
    place = tmp_path / "r"
    place.mkdir()
    (place / "mine").write_text("keep")
    with pytest.raises(InputError, match=r"exists. Name a new folder; nothing is overwritten"):
        write_release(release, place)
    assert [path.name for path in tmp_path.rglob("*")] == ["r", "mine"]


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path):
    with pytest.raises(InputError, match="nothing is overwritten"), new_folder(tmp_path / "r"):  # noqa: PT012
        (tmp_path / "r").mkdir()
        (tmp_path / "r" / "theirs").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["r", "theirs"]


def test_a_write_that_fails_leaves_nothing(release, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tallyveil.files.release_folder.certificate_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_release(release, tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(release, tmp_path):
    with pytest.raises(InputError, match=r"nowhere/r: there is no folder .*nowhere\. Make it"):
        write_release(release, tmp_path / "nowhere" / "r")


def test_a_killed_write_leaves_no_folder_of_that_name(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from small_release import small_release\n"
        "from tallyveil.files import release_folder\n"
        "release_folder.certificate_text = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "release_folder.write_release(small_release(), sys.argv[1])\n"
    )
    place = tmp_path / "r"
    tests = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], env={**os.environ, "PYTHONPATH": tests}, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = list(tmp_path.iterdir())
    assert not place.exists()
    assert [path.name.startswith(".r.") for path in left] == [True]  # what was being written, under another name


def test_others_may_read_the_folder_as_the_umask_says(folder):
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~umask
    assert stat.S_IMODE((folder / "release.parquet").stat().st_mode) == 0o666 & ~umask


def test_the_same_release_gives_the_same_bytes(release, folder, tmp_path):
    write_release(release, tmp_path / "r", measurements=measured_pairs(release.strategy), page=page_of(release))
    for path in (path for path in folder.rglob("*") if path.is_file()):
        assert (tmp_path / "r" / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_names_of_files_differ_where_queries_do():
    queries = ["age", "total", "detailed", "age * home", "age.home", "age/home", "age%2Fhome", "ålder", "a b", "a_b"]
    names = [file_name(query) for query in queries]
    assert len(set(names)) == len(queries)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzå_.%0123456789ABCDEFGH") for name in names)


def test_the_size_of_measurements_is_said_before_they_are_written(release, tmp_path):
    sizes = measurement_sizes(release.measurements, [("detailed", "tract"), ("age", "county")])
    assert sizes.numbers == 5 * 6 + 3 * 2
    whole = measurement_sizes(release.measurements)
    assert whole.numbers == sum(
        int((release.measurements.shares[level].spans > 0).sum()) * release.histogram.schema.query(query).size
        for query, level in measured_pairs(release.strategy)
    )
    large = _large_measurements()
    stated = measurement_sizes(large, [("detailed", "block")])
    write_table(noisy_pieces(large, "detailed", "block"), tmp_path / "m.parquet")
    assert stated.bytes == pytest.approx((tmp_path / "m.parquet").stat().st_size, rel=0.3)


def _large_measurements():
    from tallyveil import Schema, Spine, Strategy
    from tallyveil.measurements import Measurements

    spine = Spine.from_columns({"block": [f"{i:015}" for i in range(3000)]}, root="us")
    schema = Schema(attributes={"a": [f"a{i}" for i in range(8)], "b": [f"b{i}" for i in range(8)]})
    plan = Strategy.default(spine, schema, rho="0.1")
    sd = float(plan.noise("block", "detailed").variance) ** 0.5
    rng = np.random.default_rng(1)
    return Measurements(
        spine=spine,
        schema=schema,
        strategy=plan,
        ask=lambda _level, _query, index: np.rint(rng.normal(0, sd, len(index))).astype(np.int64),
    )


def test_measurements_on_another_spine_are_not_mixed_with_the_release(release, tmp_path):
    from tallyveil import Histogram, Spine

    other = Spine.from_columns({"county": ["1", "2"], "tract": ["11", "21"]}, root="us")
    people = Histogram.from_entries(other, release.histogram.schema, unit=[0], cell=[0], count=[1])
    moved = replace(release, histogram=people, facilities=None)
    with pytest.raises(InputError, match="the measurements are on another spine than the release"):
        write_release(moved, tmp_path / "r", measurements=[("total", "tract")])
    write_release(moved, tmp_path / "r")
    assert not (tmp_path / "r" / "measurements").exists()


def test_a_level_with_an_odd_name_is_written_and_read(tmp_path):
    from tallyveil import Histogram, Spine, Strategy

    people = small_people()
    spine = Spine.from_columns({"block group": ["1", "2"]}, root="a/b")
    odd = Histogram.from_entries(spine, people.schema, unit=[0, 1], cell=[0, 1], count=[3, 4])
    write_release(Release(histogram=odd, strategy=Strategy.default(spine, odd.schema, epsilon=1)), tmp_path / "r")
    assert {path.name for path in (tmp_path / "r" / "levels").iterdir()} == {"a%2Fb.parquet", "block%20group.parquet"}
    assert read_release(tmp_path / "r").histogram == odd
