"""Every kind of corruption is found, by the check that should find it."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from small_release import page_of, small_release
from tallyveil.errors import InputError
from tallyveil.files import verify_release, write_release
from tallyveil.files.measured import measured_pairs


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    release = small_release()
    place = tmp_path_factory.mktemp("made") / "release"
    write_release(release, place, measurements=measured_pairs(release.strategy), page=page_of(release))
    return place


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "release"))


def failing(folder: Path) -> dict[str, str]:
    return {finding.check: finding.detail for finding in verify_release(folder) if finding.state == "fails"}


def edit(path: Path, change) -> None:
    table = pd.read_parquet(path)
    for name in table.columns:
        if isinstance(table[name].dtype, pd.CategoricalDtype):
            table[name] = table[name].astype(str)
    change(table).to_parquet(path, index=False)


def put(row: int, column: str, value):
    def change(table):
        table.loc[row, column] = value
        return table

    return change


def edit_json(path: Path, change) -> None:
    certificate = json.loads(path.read_text())
    change(certificate)
    path.write_text(json.dumps(certificate))


def test_a_release_as_written_holds_in_every_check(made):
    findings = verify_release(made)
    assert {finding.check: finding.state for finding in findings} == dict.fromkeys(
        [
            *("files", "shares", "spine", "counts", "certificate", "strategy", "facilities", "levels", "children"),
            *("structural zeros", "bounds", "invariants", "measurements", "declared", "observed", "stamps"),
        ],
        "holds",
    )
    assert findings[-1].as_json() == {
        "check": "stamps",
        "state": "holds",
        "detail": "seeded: not for publication",
    }


def test_a_changed_count_is_found_in_levels_and_invariants(folder):
    edit(folder / "release.parquet", put(1, "count", 10))
    found = failing(folder)
    assert set(found) == {"levels", "invariants"}
    assert found["levels"] == "levels/us.parquet, us us, total: 37, but release.parquet gives 38"
    assert found["invariants"].startswith("county 01, total total: 21, but the invariant is 20")


@pytest.mark.parametrize(
    ("row", "column", "value", "line"),
    [
        (0, "count", -1, "row 1, column 'count': count -1 is negative"),
        (2, "count", 0, "row 3, column 'count': 0, but a release has non-zero rows only"),
        (1, "tract", "099", "tract '099' is not in the list of units"),
        (1, "age", "old", "unknown label 'old'"),
        (1, "county", "02", "is in county '01' by the list of units, but in '02' here"),
    ],
)
def test_counts_that_cannot_be_are_found(folder, row, column, value, line):
    edit(folder / "release.parquet", put(row, column, value))
    found = failing(folder)
    assert list(found) == ["counts"]
    assert line in found["counts"]


def test_a_count_that_is_not_whole_is_found(folder):
    def halve(table):
        table["count"] = table["count"] / 2
        return table

    edit(folder / "release.parquet", halve)
    assert "is not a whole number" in failing(folder)["counts"]


def test_a_row_dropped_from_a_level_is_found(folder):
    edit(folder / "levels" / "tract.parquet", lambda table: table.iloc[:-1])
    found = failing(folder)
    assert found["levels"] == "levels/tract.parquet: 5 rows, but tract has 6 units"
    assert found["children"] == "tract: rows are missing, so they cannot be added up"


def test_a_row_added_to_a_level_is_found(folder):
    edit(folder / "levels" / "tract.parquet", lambda table: pd.concat([table, table.iloc[-1:]]))
    assert failing(folder)["levels"] == "levels/tract.parquet: 7 rows, but tract has 6 units"


def test_a_number_changed_in_a_level_breaks_the_sums_of_its_parent(folder):
    edit(folder / "levels" / "tract.parquet", put(0, "age:adult", 12))
    found = failing(folder)
    assert found["levels"] == "levels/tract.parquet, tract 011, age:adult: 12, but release.parquet gives 11"
    assert found["children"] == "county 01, age:adult: 16, but its tract rows sum to 17"


def test_a_unit_renamed_in_a_level_is_found(folder):
    edit(folder / "levels" / "tract.parquet", put(2, "tract", "099"))
    assert failing(folder)["levels"] == "levels/tract.parquet, tract 013, tract: 099, but release.parquet gives 013"


def test_a_column_dropped_from_a_level_is_found_but_margins_of_error_may_be_added(folder):
    path = folder / "levels" / "county.parquet"
    edit(path, lambda table: table.assign(total_moe90=3))
    assert failing(folder) == {}
    edit(path, lambda table: table.drop(columns="age:child"))
    assert failing(folder)["levels"] == "levels/county.parquet: columns differ (age:child)"


def test_a_column_of_another_kind_is_found(folder):
    edit(folder / "levels" / "county.parquet", lambda table: table.assign(total=table["total"].astype(float)))
    assert failing(folder)["levels"] == "levels/county.parquet, total: holds double, not int64"


def test_a_unit_missing_from_the_spine_is_found(folder):
    edit(folder / "spine.parquet", lambda table: table[table["tract"] != "013"])  # nobody lives there
    found = failing(folder)
    assert "6 rows, but tract has 5 units" in found["levels"]
    assert "declared" in found
    edit(folder / "spine.parquet", lambda table: table[table["tract"] != "011"])
    assert "'011' is not in the list of units" in failing(folder)["counts"]


def test_somebody_in_an_impossible_cell_is_found(folder):
    edit(
        folder / "release.parquet",
        lambda table: table.assign(home=table["home"].where(table["age"] == "adult", "prison")),
    )
    assert failing(folder)["structural zeros"] == "tract 011 has 4 persons in the impossible cell child*prison"


def test_people_without_facilities_or_too_many_for_them_are_found(folder):
    path = folder / "facilities.parquet"
    whole = path.read_bytes()
    edit(path, lambda table: table[table["type"] != "prison"])
    assert failing(folder)["bounds"] == "tract 011, home prison: 2 persons, not between 0 and 0"
    path.write_bytes(whole)
    edit(path, put(5, "count", 7))
    assert failing(folder)["bounds"] == "tract 021, home dorm: 6 persons, not between 7 and 140"
    path.unlink()
    found = failing(folder)
    assert found["facilities"] == "facilities.parquet is missing, though the strategy has bounds from facilities"
    assert "bounds" not in found


def test_a_bound_on_a_query_is_checked(folder):
    path = folder / "strategy.toml"
    path.write_text(path.read_text().replace("adult = 3", "adult = 7"))
    found = failing(folder)
    assert found["bounds"].startswith("county 02, age adult: 6 persons, not between 7 and")
    assert "but the strategy gives 'age in every county: adult at least 7'" in found["declared"]


def test_an_invariant_that_was_changed_is_found_and_one_that_is_gone_is_unchecked(folder):
    path = folder / "measurements" / "exact" / "county" / "total.parquet"
    edit(path, put(1, "value", 8))
    assert failing(folder) == {"invariants": "county 02, total total: 7, but the invariant is 8"}
    path.unlink()
    finding = next(one for one in verify_release(folder) if one.check == "invariants")
    assert (finding.state, finding.detail) == ("unchecked", "no exact answers in the folder for total@county")


def test_shares_that_do_not_add_up_are_found(folder):
    path = folder / "strategy.toml"
    path.write_text(path.read_text().replace('tract = "1/3"', 'tract = "1/4"'))
    found = failing(folder)
    assert found == {"shares": found["shares"]}
    assert "shares of levels sum to 11/12, not 1" in found["shares"]


def test_another_budget_than_the_certificate_says_is_found(folder):
    path = folder / "strategy.toml"
    path.write_text(path.read_text().replace('rho = "1"', 'rho = "2"'))
    found = failing(folder)
    assert found["declared"].startswith("certificate.json, declared guarantee epsilon: 10.03")
    assert "row 1, variance" in found["measurements"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda d: d["guarantee"].update(epsilon=1.0), "declared guarantee epsilon: 1.0, but the strategy gives 10.03"),
        (lambda d: d["constraints"].pop(), "declared constraints"),
        (lambda d: d["constraints"][0].update(words="x"), "declared constraints 1 words: 'x', but the strategy gives"),
        (lambda d: d["budget"]["queries"][2].update(sd=0.1), "declared budget queries 3 sd: 0.1"),
        (lambda d: d["spine"].update(tract=7), "declared spine tract: 7, but the strategy gives 6"),
        (lambda d: d.update(host="mine"), "declared host: 'mine', but the strategy gives None"),
        (lambda d: d.pop("guarantee"), "declared guarantee: None, but the strategy gives"),
        (lambda d: d.update(facilities=False), "declared facilities: False, but the strategy gives True"),
    ],
)
def test_an_edited_certificate_is_found(folder, change, line):
    edit_json(folder / "certificate.json", lambda certificate: change(certificate["declared"]))
    found = failing(folder)
    assert list(found) == ["declared"]
    assert line in found["declared"]


def test_other_versions_and_free_fields_are_no_fault(folder):
    def change(certificate):
        certificate["declared"]["versions"]["numpy"] = "9.9"
        certificate["approver"], certificate["reference"] = "the board", "DRB 17"

    edit_json(folder / "certificate.json", change)
    assert failing(folder) == {}


def test_figures_of_solving_that_do_not_add_up_are_found(folder):
    edit_json(folder / "certificate.json", lambda c: c["observed"]["totals"].update(general=0))
    assert failing(folder) == {"observed": "certificate.json, observed totals general: 0, but the levels' is 1"}


def test_a_certificate_without_its_parts_is_found(folder):
    (folder / "certificate.json").write_text("{}")
    found = failing(folder)
    assert found["declared"] == "certificate.json has no declared part"
    assert found["observed"] == "certificate.json has no observed part"


def test_a_stamp_missing_from_the_page_is_found(folder):
    page = folder / "certificate.html"
    page.write_text(page.read_text().replace("seeded: not for publication", ""))
    assert failing(folder) == {"stamps": "certificate.html does not show the stamp: seeded: not for publication"}


def test_measurements_out_of_order_or_with_another_variance_are_found(folder):
    path = folder / "measurements" / "tract" / "home.parquet"
    whole = path.read_bytes()
    edit(path, lambda table: table.iloc[::-1])
    assert failing(folder) == {"measurements": "measurements/tract/home.parquet: row 1, unit: 032, not 011"}
    path.write_bytes(whole)
    edit(path, put(4, "variance", 1.0))
    assert failing(folder) == {"measurements": "measurements/tract/home.parquet: row 5, variance: 1.0, not 12.0"}
    path.write_bytes(whole)
    edit(path, lambda table: table.drop(columns="cell"))
    assert failing(folder) == {"measurements": "measurements/tract/home.parquet: no column 'cell'"}


@pytest.mark.parametrize("name", ["release.parquet", "spine.parquet", "strategy.toml", "codebook.toml"])
def test_a_missing_file_is_named_and_nothing_crashes(folder, name):
    (folder / name).unlink()
    assert failing(folder)["files"] == f"missing: {name}"


def test_missing_tables_and_a_missing_certificate_are_found(folder):
    shutil.rmtree(folder / "levels")
    (folder / "certificate.json").unlink()
    found = failing(folder)
    assert found["files"] == "missing: certificate.json, levels"
    assert found["levels"] == "levels/us.parquet is missing"
    assert "cannot be read as JSON" in found["certificate"]


def test_a_strategy_for_another_census_is_found(folder):
    path = folder / "strategy.toml"
    path.write_text(path.read_text().replace("county", "province"))
    found = failing(folder)
    assert list(found) == ["strategy"]
    assert "is for the levels us, province, tract; the data has us, county, tract" in found["strategy"]


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        verify_release(tmp_path / "nowhere")
