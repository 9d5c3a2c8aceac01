import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from folders import edit, edit_certificate, failing, put, reseal
from small_release import small_exact_values, small_noisy, small_people, small_release
from tallyveil import Areas, Histogram, Schema, Spine, Strategy
from tallyveil.engine.topdown import topdown
from tallyveil.errors import FolderError, InputError
from tallyveil.files import codebook_to_toml, read_codebook, read_counts, read_release, write_release
from tallyveil.files.atomic import new_folder
from tallyveil.files.release_folder import level_checks, write_folder
from tallyveil.files.release_folder.measurement_files import file_name, measured_pairs, measurement_sizes
from tallyveil.files.tables.read import UNITS_FROM_DATA
from tallyveil.files.tables.write import codebook_for, write_table
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Filter
from tallyveil.privacy import Invariant, RunKey
from tallyveil.release.certificate import Certificate, Observed
from tallyveil.release.declare import declared_of
from tallyveil.release.measurements import Measurements
from tallyveil.release.release import Release


@pytest.fixture(scope="module")
def release() -> Release:
    return small_release()


@pytest.fixture(scope="module")
def noisy() -> Measurements:
    return small_noisy()


@pytest.fixture(scope="module")
def folder(release, noisy, tmp_path_factory) -> Path:
    """The release with all its measurements."""
    place = tmp_path_factory.mktemp("all") / "release"
    write_release(release, place, measurements=measured_pairs(release.strategy), noisy=noisy)
    return place


def places(noisy: Measurements, query: str, level: str) -> np.ndarray:
    """All places of a query at a level that are measured, in no order."""
    size = noisy.schema.query(query).size
    units = np.flatnonzero(noisy.shares[level].spans)
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


def test_a_written_release_is_read_back_unchanged(release, noisy, folder):
    back = read_release(folder)
    assert back.histogram == release.histogram
    assert back.strategy == release.strategy
    assert back.facilities.leaves == release.facilities.leaves
    assert back.certificate == release.certificate
    assert set(back.certificate.to_json()) == {
        "declared",
        "measurement",
        "observed",
    }  # the list of files is the folder's
    assert back.histogram.stamps == back.measurements.stamps == ("seeded: not for publication",)
    assert back.measurements.exact == noisy.exact
    assert back.optimised is None


def test_saved_measurements_answer_as_the_live_ones_did(release, noisy, folder):
    back = read_release(folder).measurements
    for query, level in measured_pairs(release.strategy):
        index = places(noisy, query, level)
        assert np.array_equal(back.ask(level, query, index), noisy.ask(level, query, index))


def test_measurements_that_a_release_kept_are_written_as_the_live_ones_are(release, noisy, folder, tmp_path):
    kept = replace(release, measurements=noisy.saved(measured_pairs(release.strategy)))
    write_release(kept, tmp_path / "r", measurements=measured_pairs(release.strategy))
    write_release(read_release(folder), tmp_path / "s", measurements=measured_pairs(release.strategy))
    for path in (path for path in folder.rglob("*") if path.is_file()):
        for other in ("r", "s"):
            assert (tmp_path / other / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_saved_measurements_answer_from_several_pieces_too(release, noisy, tmp_path, monkeypatch):
    monkeypatch.setattr(Measurements.pieces, "__kwdefaults__", {"size": 8})  # two units of three numbers at a time
    write_release(release, tmp_path / "r", measurements=[("home", "tract")], noisy=noisy)
    path = tmp_path / "r" / "measurements" / "tract" / "home.parquet"
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 3
    back = read_release(tmp_path / "r").measurements
    index = places(noisy, "home", "tract")
    assert np.array_equal(back.ask("tract", "home", index), noisy.ask("tract", "home", index))


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


@pytest.mark.parametrize("piece", [1, 40, 100])
def test_tables_by_level_are_the_same_in_however_many_pieces_they_are_written_and_verified(
    release, folder, tmp_path, monkeypatch, piece
):
    monkeypatch.setattr(write_folder, "LEVEL_PIECE", piece)
    write_release(release, tmp_path / "out")
    for level in release.histogram.spine.levels:
        mine, right = (pd.read_parquet(place / f"levels/{level}.parquet") for place in (tmp_path / "out", folder))
        assert mine.astype(str).equals(right.astype(str))
    for other in (1, 70, 1 << 20):
        monkeypatch.setattr(level_checks, "LEVEL_PIECE", other)
        assert not failing(tmp_path / "out")


def test_non_zero_answers_by_row_are_those_of_the_dense_table():
    rng, row_of_cell = np.random.default_rng(1), np.array([2, 0, 2, 1, 0, 2], dtype=np.int32)
    dense = rng.integers(1, 9, size=(50, 6)) * (rng.random((50, 6)) < 0.3)
    counts, right = Counts.from_dense(dense), np.zeros((4, 50), dtype=np.int64)  # a row without cells at the end
    for cell, row in enumerate(row_of_cell):
        right[row] += dense[:, cell]
    for first, last in ((0, 50), (7, 31), (20, 20)):
        start = counts.start[first : last + 1]
        begin, unit, answer = level_checks.answers_by_row(start, counts.cell, counts.count, row_of_cell, 4)
        found = np.zeros((4, last - first), dtype=np.int64)
        found[np.repeat(np.arange(4), np.diff(begin)), unit] = answer
        assert np.array_equal(found, right[:, first:last])
        assert (answer > 0).all()


def test_codes_of_leaves_are_plain_text_in_spine_parquet_and_other_codes_have_dictionaries(release, folder):
    file = pyarrow.parquet.ParquetFile(folder / "spine.parquet")
    coded = [file.metadata.row_group(0).column(i).has_dictionary_page for i in range(file.metadata.num_columns)]
    assert file.schema_arrow.names[-1] == release.histogram.spine.leaf
    assert pyarrow.types.is_string(file.schema_arrow.types[-1])
    assert all(pyarrow.types.is_dictionary(kind) for kind in file.schema_arrow.types[:-1])
    assert coded == [True] * (len(coded) - 1) + [False]


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
    assert people.stamps == ("seeded: not for publication",)  # they stick


def test_a_release_without_measurements_is_read_without_them(release, noisy, tmp_path):
    write_release(release, tmp_path / "r", noisy=noisy)
    assert (tmp_path / "r" / "measurements" / "exact").exists()
    assert read_release(tmp_path / "r").measurements is None
    write_release(release, tmp_path / "s")
    assert not (tmp_path / "s" / "measurements").exists()
    with pytest.raises(InputError, match="the release kept no measurements, so none can be published"):
        write_release(release, tmp_path / "t", measurements=[("total", "tract")])


def test_asking_for_what_was_not_saved_names_it_and_what_was(release, noisy, tmp_path):
    write_release(release, tmp_path / "r", measurements=[("home", "tract"), ("total", "county")], noisy=noisy)
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
    assert (back.strategy, back.certificate, back.measurements) == (None, None, None)
    assert back.histogram.total() == release.histogram.total()
    assert back.histogram.stamps == ("seeded: not for publication", UNITS_FROM_DATA)
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


def test_a_file_of_measurements_with_a_row_too_few_is_refused(release, noisy, tmp_path):
    write_release(release, tmp_path / "r", measurements=[("home", "tract")], noisy=noisy)
    path = tmp_path / "r" / "measurements" / "tract" / "home.parquet"
    pd.read_parquet(path).iloc[:-1].to_parquet(path)
    with pytest.raises(InputError, match=r"home.parquet: 14 rows, but the measured units have 15"):
        read_release(tmp_path / "r")
    pd.read_parquet(path).drop(columns="value").to_parquet(path)
    with pytest.raises(InputError, match="no integer column 'value'"):
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

    monkeypatch.setattr("tallyveil.files.release_folder.certificate_file.certificate_bytes", interrupted)
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
        "from tallyveil.files.release_folder import certificate_file, write_folder\n"
        "certificate_file.certificate_bytes = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_folder.write_release(small_release(), sys.argv[1])\n"
    )
    place = tmp_path / "r"
    tests = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
        capture_output=True,
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


def test_the_same_release_gives_the_same_bytes(release, noisy, folder, tmp_path):
    write_release(release, tmp_path / "r", measurements=measured_pairs(release.strategy), noisy=noisy)
    for path in (path for path in folder.rglob("*") if path.is_file()):
        assert (tmp_path / "r" / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_names_of_files_differ_where_queries_do():
    queries = ["age", "total", "detailed", "age * home", "age.home", "age/home", "age%2Fhome", "ålder", "a b", "a_b"]
    names = [file_name(query) for query in queries]
    assert len(set(names)) == len(queries)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzå_.%0123456789ABCDEFGH") for name in names)


def test_the_size_of_measurements_is_said_before_they_are_written(release, noisy, tmp_path):
    sizes = measurement_sizes(noisy, [("detailed", "tract"), ("age", "county")])
    assert sizes.numbers == 5 * 6 + 3 * 2
    whole = measurement_sizes(noisy)
    assert whole.numbers == sum(
        int((noisy.shares[level].spans > 0).sum()) * release.histogram.schema.query(query).size
        for query, level in measured_pairs(release.strategy)
    )
    large = _large_measurements()
    stated = measurement_sizes(large, [("detailed", "block")])
    write_table(large.pieces("detailed", "block"), tmp_path / "m.parquet")
    assert stated.bytes == pytest.approx((tmp_path / "m.parquet").stat().st_size, rel=0.3)


def _large_measurements():
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


def test_measurements_of_another_spine_or_strategy_are_refused(release, noisy, tmp_path):
    other = Spine.from_columns({"county": ["1", "2"], "tract": ["11", "21"]}, root="us")
    people = Histogram.from_entries(other, release.histogram.schema, unit=[0], cell=[0], count=[1])
    moved = replace(release, histogram=people, facilities=None)
    for wrong in ({"release": moved, "noisy": noisy}, {"release": release, "noisy": small_noisy(rho=2)}):
        with pytest.raises(InputError, match="the measurements are of another spine or strategy than the release"):
            write_release(wrong["release"], tmp_path / "r", noisy=wrong["noisy"])
    assert list(tmp_path.iterdir()) == []


def test_a_release_without_a_certificate_is_refused(release, tmp_path):
    with pytest.raises(InputError, match="a release without a certificate cannot be written as a folder"):
        write_release(replace(release, certificate=None), tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda c: c.clear(), "certificate.json: the certificate has no declared part"),
        (lambda c: c.pop("observed"), "certificate.json: the certificate has no observed part"),
        (lambda c: c.update(approver="me"), "the certificate has the unknown field 'approver'"),
        (lambda c: c["declared"].pop("budget"), "certificate, declared: budget is missing"),
        (
            lambda c: c["declared"]["guarantee"].update(epsilon="1"),
            "declared guarantee epsilon must be a number. Got '1'",
        ),
        (lambda c: c["declared"]["budget"]["levels"][1].update(x=1), "declared budget levels, item 2: x is unknown"),
        (lambda c: c["observed"].update(levels=7), "certificate, observed levels: not a list of tables"),
    ],
)
def test_a_folder_with_a_certificate_of_other_fields_is_refused(release, tmp_path, change, line):
    write_release(release, tmp_path / "r")
    edit_certificate(tmp_path / "r", change)
    with pytest.raises(FolderError, match=line):
        read_release(tmp_path / "r")


def test_a_certificate_of_another_version_that_cannot_be_read_is_refused_with_both_versions(release, tmp_path):
    def older(certificate) -> None:
        certificate["declared"]["versions"]["tallyveil"] = "0.0.9"

    write_release(release, tmp_path / "r")
    edit_certificate(tmp_path / "r", older)
    assert read_release(tmp_path / "r").certificate.declared.versions["tallyveil"] == "0.0.9"
    edit_certificate(tmp_path / "r", lambda certificate: certificate["declared"].pop("budget"))
    here = re.escape(version("tallyveil"))
    line = (
        rf"certificate\.json: written by tallyveil 0\.0\.9, which tallyveil {here} cannot read "
        r"\(certificate, declared: budget is missing\)\. Read the folder with tallyveil 0\.0\.9\."
    )
    with pytest.raises(FolderError, match=line):
        read_release(tmp_path / "r")


def test_a_level_with_an_odd_name_is_written_and_read(tmp_path):
    people = small_people()
    spine = Spine.from_columns({"block group": ["1", "2"]}, root="a/b")
    odd = Histogram.from_entries(spine, people.schema, unit=[0, 1], cell=[0, 1], count=[3, 4])
    plan = Strategy.default(spine, odd.schema, epsilon=1)
    declared = declared_of(plan, spine, odd.schema, facilities=False, stamps=())
    certificate = Certificate(declared=declared, observed=Observed(levels=()))
    write_release(Release(histogram=odd, strategy=plan, certificate=certificate), tmp_path / "r")
    assert {path.name for path in (tmp_path / "r" / "levels").iterdir()} == {"a%2Fb.parquet", "block%20group.parquet"}
    assert read_release(tmp_path / "r").histogram == odd
    assert failing(tmp_path / "r") == {}


# The list of files


def test_the_certificate_is_canonical_and_lists_every_other_file_with_its_digest(folder):
    data = (folder / "certificate.json").read_bytes()
    certificate = json.loads(data)
    assert data == (json.dumps(certificate, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    del files["certificate.json"]
    assert certificate["files"] == {name: sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def test_the_page_carries_the_digest_of_the_certificate_without_its_list_and_not_the_list(folder):
    certificate = json.loads((folder / "certificate.json").read_text())
    listed = certificate.pop("files")
    digest = sha256((json.dumps(certificate, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode())
    page = (folder / "certificate.html").read_text()
    assert f'<meta name="certificate-sha256" content="{digest.hexdigest()}">' in page
    assert not any(one in page for one in listed.values())
    assert "<div><span>Approved by</span></div>" in page  # no approver was named: signed by hand


def test_a_certificate_that_json_cannot_hold_is_refused_before_the_folder_appears(release, tmp_path):
    declared = release.certificate.declared
    endless = replace(declared, guarantee=replace(declared.guarantee, epsilon=float("nan")))
    with pytest.raises(InputError, match="cannot be written as JSON"):
        write_release(replace(release, certificate=replace(release.certificate, declared=endless)), tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_source_toml_says_how_the_input_was_read(release, tmp_path):
    book = codebook_for(release.histogram, "wide")
    write_release(release, tmp_path / "r", source=book)
    assert codebook_to_toml(read_codebook(tmp_path / "r" / "source.toml")) == codebook_to_toml(book)
    assert failing(tmp_path / "r") == {}


def test_a_filter_of_the_source_stands_in_the_codebook_of_the_release(release, tmp_path):
    kept_by = Filter(where={"level": "tract"}, public=True)
    book = replace(codebook_for(release.histogram, "long"), where={"level": "tract"}, where_is_public=True)
    people, plan = release.histogram, release.strategy
    values, words = small_exact_values(people, plan, release.facilities), {"stamps": people.stamps, "filter": kept_by}
    declared = declared_of(plan, people.spine, people.schema, facilities=True, exact_values=values, **words)
    filtered = replace(release, certificate=replace(release.certificate, declared=declared))
    write_release(filtered, tmp_path / "r", source=book)
    assert failing(tmp_path / "r") == {}
    assert read_release(tmp_path / "r").histogram.filter == kept_by
    write_release(filtered, tmp_path / "s")  # declares a filter that the folder does not know
    assert "declared filter" in failing(tmp_path / "s")["declared"]


# Levels of only children, and optimised spines


def test_a_level_of_only_children_is_written_as_a_table_without_rows(tmp_path):
    spine = Spine.from_columns({"county": ["1", "2"], "tract": ["1a", "2a"]}, root="us")
    people = Histogram.from_entries(spine, small_people().schema, unit=[0, 1], cell=[0, 3], count=[3, 4])
    plan = replace(Strategy.default(spine, people.schema, rho=1), only_child=True)
    noisy = measure(people, plan, RunKey.from_seed(1))
    counts, solved = topdown(noisy)
    declared = declared_of(plan, spine, people.schema, facilities=False, stamps=noisy.stamps)
    release = Release(
        histogram=counts,
        strategy=plan,
        certificate=Certificate(declared=declared, observed=Observed(levels=tuple(solved))),
    )
    write_release(release, tmp_path / "r", measurements=measured_pairs(plan), noisy=noisy)
    table = pyarrow.parquet.read_table(tmp_path / "r" / "measurements" / "tract" / "age.parquet")
    assert (table.num_rows, table.column_names) == (0, ["unit", "cell", "value", "variance"])
    assert failing(tmp_path / "r") == {}
    again, _ = topdown(read_release(tmp_path / "r").measurements)
    assert again == counts


def optimised_release() -> tuple[Release, Measurements]:
    """A town measured on a spine that is split along a tribal area, its block groups made anew."""
    columns = {
        "state": ["1"] * 8,
        "tract": ["1a"] * 5 + ["1b"] * 3,
        "group": ["1a1", "1a1", "1a2", "1a2", "1a2", "1b1", "1b1", "1b2"],
        "block": ["z", "y", "x", "w", "v", "u", "t", "s"],  # not in the order of their groups
    }
    spine = Spine.from_columns(columns, root="us")
    tribal = Areas.from_codes(spine, leaf=["w", "t"], area=["Pueblo", "Pueblo"])
    made = spine.optimised(tribal=tribal, place=Areas.from_codes(spine, leaf=["z", "x"], area=["Troy", "Troy"]))
    schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    rng = np.random.default_rng(3)
    people = Histogram.from_entries(
        spine, schema, unit=np.repeat(np.arange(8), 4), cell=np.tile(range(4), 8), count=rng.integers(0, 30, 32)
    )
    plan = replace(Strategy.default(spine, schema, epsilon=3), constraints=(Invariant(query="total", level="state"),))
    noisy = measure(people, plan, RunKey.from_seed(1), optimised=made)
    counts, solved = topdown(noisy)
    values, stamps = small_exact_values(people, plan, optimised=made), noisy.stamps
    declared = declared_of(plan, spine, schema, facilities=False, stamps=stamps, optimised=made, exact_values=values)
    release = Release(
        histogram=made.restored(counts),
        strategy=plan,
        certificate=Certificate(
            declared=declared, observed=Observed(levels=tuple(solved)), measurement=noisy.identifier
        ),
        optimised=made,
    )
    return release, noisy


def test_measurements_on_an_optimised_spine_are_written_with_it_and_can_be_processed_again(tmp_path):
    release, noisy = optimised_release()
    write_release(release, tmp_path / "r", measurements=measured_pairs(release.strategy), noisy=noisy)
    assert failing(tmp_path / "r") == {}
    units = pd.read_parquet(tmp_path / "r" / "measurements" / "spine.parquet")
    assert list(units["block"]) == noisy.spine.labels("block") != release.histogram.spine.labels("block")
    table = pd.read_parquet(tmp_path / "r" / "measurements" / "group" / "age.parquet")
    assert list(table["unit"].unique()) == noisy.spine.labels("group")
    exact = pd.read_parquet(tmp_path / "r" / "measurements" / "exact" / "state" / "total.parquet")
    assert list(exact["unit"]) == ["1"]  # of the published spine
    back = read_release(tmp_path / "r")
    for mine, theirs in ((back.optimised, release.optimised), (back.measurements.optimised, release.optimised)):
        assert (mine.spine, mine.standard, mine.shaped_by) == (theirs.spine, theirs.standard, theirs.shaped_by)
        assert np.array_equal(mine.leaf, theirs.leaf)
        assert {level: list(part) for level, part in mine.part_of.items()} == {
            level: list(part) for level, part in theirs.part_of.items()
        }
    again, solved = topdown(back.measurements)
    assert back.optimised.restored(again) == release.histogram
    assert Observed(levels=tuple(solved)) == back.certificate.observed


def test_the_optimised_spine_is_written_without_measurements_too_and_must_fit(tmp_path):
    release, _ = optimised_release()
    write_release(release, tmp_path / "r")
    assert failing(tmp_path / "r") == {}
    path = tmp_path / "r" / "measurements" / "spine.parquet"
    whole = path.read_bytes()
    edit(path, put(0, "block", "w"))
    reseal(tmp_path / "r")
    assert "measured spine" in failing(tmp_path / "r")
    path.write_bytes(whole)
    edit(path, lambda table: table.iloc[:-1])
    reseal(tmp_path / "r")
    assert "has other levels or leaves than the published one" in failing(tmp_path / "r")["measured spine"]
    shutil.rmtree(tmp_path / "r" / "measurements")
    with pytest.raises(InputError, match=r"measurements/spine.parquet is missing, though the certificate states"):
        read_release(tmp_path / "r")


def test_an_optimised_spine_that_nobody_declared_is_found(folder, tmp_path):
    place = Path(shutil.copytree(folder, tmp_path / "r"))
    shutil.copy(place / "spine.parquet", place / "measurements" / "spine.parquet")
    reseal(place)
    assert failing(place)["measured spine"].endswith("though the certificate declares no optimised spine")
