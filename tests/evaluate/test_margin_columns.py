"""Margins stand beside the counts in a release's tables, and nothing else in the folder changes."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from folders import edit as edit_table
from folders import failing, reseal
from small_release import small_noisy, small_people, small_release
from tallyveil import Histogram, Schema, Strategy, sign_release
from tallyveil.errors import InputError
from tallyveil.evaluate.margin_classes import MarginClass, Margins
from tallyveil.files import read_release, write_release
from tallyveil.files.release_folder import margin_columns
from tallyveil.files.release_folder.margin_columns import area_table, write_margins
from tallyveil.files.release_folder.signing import write_key_pair
from tallyveil.nouns.areas import Areas
from tallyveil.protection.verify import verify_release
from tallyveil.release.certificate import Certificate, Observed
from tallyveil.release.declare import declared_of
from tallyveil.release.release import Release


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    release = small_release()
    place = tmp_path_factory.mktemp("made") / "release"
    write_release(release, place, noisy=small_noisy())
    return place


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "release"))


def margins_for(*pairs, below=2, above=7, start=6, confidence=0.9, areas=None) -> Margins:
    """Released counts up to 5 have one margin, larger ones another."""
    few = MarginClass(least=0, most=start - 1, n=9, margin=below, bias=0.0, noise_sd=1.0)
    many = MarginClass(least=start, most=None, n=9, margin=above, bias=0.0, noise_sd=1.0)
    return Margins(classes=dict.fromkeys(pairs, (few, many)), confidence=confidence, replicates=1, areas=areas)


def all_pairs() -> list[tuple[str, str]]:
    return [(level, query) for level in ("us", "county", "tract") for query in ("total", "age", "home")]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_each_count_has_its_margin_in_the_next_column(folder):
    before = pd.read_parquet(folder / "levels" / "tract.parquet")
    paths = write_margins(folder, margins_for(*all_pairs()))
    assert [path.name for path in paths] == ["us.parquet", "county.parquet", "tract.parquet"]
    after = pd.read_parquet(folder / "levels" / "tract.parquet")
    counts = [name for name in before if name not in ("county", "tract")]
    assert after.columns.tolist() == ["county", "tract", *(f"{name}{end}" for name in counts for end in ("", "_moe90"))]
    pd.testing.assert_frame_equal(after[before.columns], before)
    for name in counts:
        assert after[f"{name}_moe90"].tolist() == np.where(before[name] > 5, 7, 2).tolist()
        assert after[f"{name}_moe90"].dtype == np.int64


def test_the_release_still_holds_in_every_check_and_reads_the_same(folder, made):
    write_margins(folder, margins_for(*all_pairs()))
    assert failing(folder) == {}
    assert read_release(folder).histogram == read_release(made).histogram
    changed = {name for name, text in contents(folder).items() if contents(made).get(name) != text}
    assert changed == {"certificate.json", *(f"levels/{level}.parquet" for level in ("us", "county", "tract"))}


def test_writing_again_replaces_margins_and_the_same_margins_give_the_same_bytes(folder):
    write_margins(folder, margins_for(*all_pairs()))
    once = contents(folder)
    write_margins(folder, margins_for(*all_pairs(), below=1, above=99))
    table = pd.read_parquet(folder / "levels" / "county.parquet")
    assert sorted({int(margin) for name in table if name.endswith("_moe90") for margin in table[name]}) == [1, 99]
    assert not [name for name in table if name.endswith("_moe90_moe90")]
    write_margins(folder, margins_for(*all_pairs()))
    assert contents(folder) == once


def test_margins_of_some_levels_and_queries_leave_the_others_as_they_are(folder):
    write_margins(folder, margins_for(*all_pairs()))
    write_margins(folder, margins_for(("county", "age"), ("area", "total"), ("county", "detailed"), below=0, above=0))
    county = pd.read_parquet(folder / "levels" / "county.parquet")
    assert not county[["age:child_moe90", "age:adult_moe90"]].to_numpy().any()
    assert set(county["total_moe90"]) == {7}
    assert not [name for name in county if name.startswith("detailed")]
    assert "total_moe90" in pd.read_parquet(folder / "levels" / "tract.parquet")


def test_a_run_that_stops_on_the_way_changes_nothing_and_leaves_nothing(folder, made):
    margins, asked = margins_for(*all_pairs()), []

    class StoppedError(Exception):
        pass

    class Stopping:
        confidence, classes = margins.confidence, margins.classes

        def at(self, level, query, *, row, first, counts):
            asked.append(level)
            if level == "tract" and len(counts):
                raise StoppedError
            return margins.at(level, query, row=row, first=first, counts=counts)

    with pytest.raises(StoppedError):
        write_margins(folder, Stopping())
    assert set(asked) == {"us", "county", "tract"}
    assert contents(folder) == contents(made)


@pytest.mark.parametrize("failing_rename", [1, 2, 3, 4])
def test_a_rename_that_fails_is_undone_and_leaves_nothing(folder, made, monkeypatch, failing_rename):
    done, right = [], Path.replace

    def sometimes(self, target):
        done.append(target)
        if len(done) == failing_rename:
            raise KeyboardInterrupt
        return right(self, target)

    monkeypatch.setattr(Path, "replace", sometimes)
    with pytest.raises(KeyboardInterrupt):
        write_margins(folder, margins_for(*all_pairs()))
    assert contents(folder) == contents(made)


def test_a_signed_folder_is_refused_with_one_line(folder):
    write_key_pair(folder.with_name("office"))
    sign_release(folder, folder.with_name("office"))
    before = contents(folder)
    with pytest.raises(InputError, match=r"certificate.sig: the folder is signed, and margins would change what was"):
        write_margins(folder, margins_for(*all_pairs()))
    assert contents(folder) == before


def test_a_signed_folder_is_signed_again_with_its_own_key_and_no_other(folder):
    office, other = folder.with_name("office"), folder.with_name("other")
    public = write_key_pair(office)
    write_key_pair(other)
    with pytest.raises(InputError, match="is not signed"):
        write_margins(folder, margins_for(*all_pairs()), sign_with=office)
    sign_release(folder, office)
    before = contents(folder)
    with pytest.raises(InputError, match="is not the signature of this folder by"):
        write_margins(folder, margins_for(*all_pairs()), sign_with=other)
    assert contents(folder) == before
    write_margins(folder, margins_for(*all_pairs()), sign_with=office)
    assert "total_moe90" in pd.read_parquet(folder / "levels" / "tract.parquet")
    assert [one.name for one in verify_release(folder, public) if one.holds is False] == []
    assert [one.holds for one in verify_release(folder, public) if one.name == "signature"] == [True]
    (folder / "certificate.json").write_bytes((folder / "certificate.json").read_bytes() + b"\n")
    with pytest.raises(InputError, match="what was changed since, is not signed again"):
        write_margins(folder, margins_for(*all_pairs()), sign_with=office)


def test_a_table_that_was_changed_is_refused_instead_of_being_listed_anew(folder):
    edit_table(folder / "levels" / "county.parquet", lambda table: table.assign(total=[1, 2, 3]))
    before = contents(folder)
    with pytest.raises(InputError, match=r"county.parquet: not the file that certificate.json lists"):
        write_margins(folder, margins_for(*all_pairs()))
    assert contents(folder) == before


def test_a_folder_made_elsewhere_without_a_certificate_gets_margins_too(folder):
    (folder / "certificate.json").unlink()
    write_margins(folder, margins_for(*all_pairs()))
    assert "total_moe90" in pd.read_parquet(folder / "levels" / "tract.parquet")
    assert not (folder / "certificate.json").exists()


def test_a_large_table_is_rewritten_piece_by_piece(folder, monkeypatch):
    monkeypatch.setattr(margin_columns, "PIECE_ROWS", 2)
    write_margins(folder, margins_for(*all_pairs()))
    whole = pd.read_parquet(folder / "levels" / "tract.parquet")
    assert len(whole) == 6
    assert failing(folder) == {}
    monkeypatch.undo()
    write_margins(folder, margins_for(*all_pairs()))
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "levels" / "tract.parquet"), whole)


def test_codes_stay_text_in_dictionaries(folder, made):
    write_margins(folder, margins_for(*all_pairs()))
    old, new = (pyarrow.parquet.read_schema(place / "levels" / "tract.parquet") for place in (made, folder))
    assert [new.field(name).type for name in old.names] == [old.field(name).type for name in old.names]


def test_margins_of_another_share_or_without_a_table_are_refused(folder):
    with pytest.raises(InputError, match=r"margins of 95% cannot be called _moe90. Make margins of 90%"):
        write_margins(folder, margins_for(*all_pairs(), confidence=0.95))
    (folder / "levels" / "tract.parquet").unlink()
    before = contents(folder)
    with pytest.raises(InputError, match=r"tract.parquet: no such table, so margins cannot be added"):
        write_margins(folder, margins_for(*all_pairs()))
    assert contents(folder) == before


def edit(path: Path, **columns) -> None:
    edit_table(path, lambda table: table.assign(**columns))
    reseal(path.parent.parent)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([3, -1, 2], "levels/county.parquet, total_moe90: -1, but a margin of error is 0 or more"),
        ([3, 1.5, 2], "levels/county.parquet, total_moe90: holds double, not int64"),
        (["3", "x", "2"], "levels/county.parquet, total_moe90: holds string, not int64"),
        (pd.array([3, None, 2], "Int64"), "levels/county.parquet, total_moe90: 1 values are missing"),
    ],
)
def test_margins_that_cannot_be_are_found(folder, values, line):
    write_margins(folder, margins_for(*all_pairs()))
    edit(folder / "levels" / "county.parquet", total_moe90=values)
    found = failing(folder)
    assert found == {"levels": found["levels"]}
    assert found["levels"].replace("large_string", "string") == line


def test_a_changed_count_beside_margins_and_margins_of_nothing_are_found(folder):
    write_margins(folder, margins_for(*all_pairs()))
    path = folder / "levels" / "county.parquet"
    whole = path.read_bytes()
    edit(path, total=pd.read_parquet(path)["total"] + [1, 0, 0])
    assert failing(folder)["levels"] == "levels/county.parquet, county 01, total: 21, but release.parquet gives 20"
    path.write_bytes(whole)
    edit(path, income_moe90=[1, 2, 3])
    assert failing(folder)["levels"] == "levels/county.parquet: columns differ (income_moe90)"


def test_a_label_that_looks_like_a_margin_is_a_count_and_margins_beside_it_are_refused(tmp_path):
    people = small_people()
    schema = Schema(attributes={"age": ["a", "a_moe90"], "home": ["house", "prison", "dorm"]})
    people = Histogram(spine=people.spine, schema=schema, leaves=people.leaves)
    plan = Strategy.default(people.spine, schema, rho=1)
    declared = declared_of(plan, people.spine, schema, facilities=False, stamps=())
    certificate = Certificate(declared=declared, observed=Observed(levels=()))
    write_release(Release(histogram=people, strategy=plan, certificate=certificate), tmp_path / "odd")
    assert failing(tmp_path / "odd") == {}
    with pytest.raises(InputError, match="the column age:a_moe90 holds counts, so margins cannot use that name"):
        write_margins(tmp_path / "odd", margins_for(("county", "age")))


def test_areas_have_counts_and_margins_in_a_table_of_their_own():
    people = small_people()
    areas = Areas.from_codes(people.spine, leaf=["011", "021", "032"], area=["north", "north", "south"])
    made = margins_for(("area", "total"), ("area", "age"), ("us", "home"), start=2)  # north has two leaves
    table = area_table(people, areas, made).to_pydict()
    assert table == {
        "area": ["north", "south"],
        "total": [22, 3],
        "total_moe90": [7, 2],
        "age:child": [5, 0],
        "age:child_moe90": [7, 2],
        "age:adult": [17, 3],
        "age:adult_moe90": [7, 2],
    }
