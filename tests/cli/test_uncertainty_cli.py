"""``tallyveil uncertainty`` on a small release."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from small_release import small_noisy, small_release
from tallyveil import Areas, Histogram, Schema, Spine, Strategy, verify_release
from tallyveil.cli.publish import tables as publish_tables
from tallyveil.cli.uncertainty import uncertainty
from tallyveil.errors import InputError
from tallyveil.files import read_release, write_release, write_tables
from tallyveil.protection.protect import protect, protect_to_folder

app = typer.Typer()
app.command()(uncertainty)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    release = small_release()
    place = tmp_path_factory.mktemp("made") / "release"
    write_release(release, place, noisy=small_noisy())
    return place


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "release"))


def run(folder: Path, *words: str, replicates: int = 2):
    done = CliRunner().invoke(app, [str(folder), "--replicates", str(replicates), "--threads", "1", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "levels").iterdir())}


def test_margins_are_printed_and_put_beside_the_counts_and_the_release_still_holds(folder):
    certificate = json.loads((folder / "certificate.json").read_text())
    done = run(folder)
    assert "2 of 2 re-runs done" in done.stderr
    assert "Margins of error, in persons, from 2 re-runs" in done.stdout
    assert "No bias in the re-runs is larger than the standard deviation of the noise." in done.stdout
    assert done.stdout.splitlines()[-1].startswith("At level tract, about nine in ten totals are within ")
    assert "noise and post-processing only. Errors of the census itself" in done.stdout
    assert "computed from the release alone: no budget was spent" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["county", "total", "0", "or", "more", "0", "6"] in lines  # an invariant
    table = pd.read_parquet(folder / "levels" / "tract.parquet")
    assert "age:adult_moe90" in table
    assert (table["age:adult_moe90"] > 0).all()
    assert False not in {finding.holds for finding in verify_release(folder)}
    after = json.loads((folder / "certificate.json").read_text())
    assert {name for name in after["files"] if after["files"][name] != certificate["files"][name]} == {
        f"levels/{level}.parquet" for level in ("us", "county", "tract")
    }
    assert {**after, "files": None} == {**certificate, "files": None}


def test_margins_of_chosen_queries_only(folder):
    done = json.loads(run(folder, "--json", "--no-write", "--query", "age", "--level", "tract").stdout)
    assert {(row["level"], row["query"]) for row in done["margins"]} == {("tract", "age")}
    with pytest.raises(InputError, match="shoe size"):
        run(folder, "--query", "shoe size")


def test_json_has_the_margins_and_the_same_seed_gives_the_same(folder):
    done = json.loads(run(folder, "--json", "--no-write").stdout)
    assert (done["confidence"], done["replicates"], done["areas"], done["written"]) == (0.9, 2, None, [])
    assert len(done["notes"]) >= 3
    first = done["margins"][0]
    assert (first["level"], first["query"], first["margin"], first["most"]) == ("us", "total", 0, None)
    assert [row["level"] for row in done["margins"] if row["query"] == "home"] == ["us", "county", "tract"]
    assert json.loads(run(folder, "--json", "--no-write").stdout) == done
    assert json.loads(run(folder, "--json", "--no-write", "--seed", "9").stdout)["margins"] != done["margins"]


def test_no_write_leaves_the_tables_and_levels_choose_which_are_written(folder):
    before = tables(folder)
    run(folder, "--no-write")
    assert tables(folder) == before
    run(folder, "--levels", "county,us")
    assert {name for name, text in tables(folder).items() if before[name] != text} == {"county.parquet", "us.parquet"}


def test_tables_of_margins_and_areas_go_to_a_folder(folder, tmp_path):
    areas, out = tmp_path / "areas.csv", tmp_path / "out"
    areas.write_text("tract,area\n011,north\n021,north\n032,south\n")
    done = json.loads(run(folder, "--areas", str(areas), "--level", "tract", "-o", str(out), "--json").stdout)
    assert sorted(path.name for path in out.iterdir()) == [
        *("STAMPS.txt", "areas.csv", "margins.csv", "margins.parquet")
    ]
    assert (out / "STAMPS.txt").read_text() == "Stamped: seeded: not for publication\n"
    margins = pd.read_csv(out / "margins.csv")
    assert set(margins["level"]) == {"tract", "area"}
    assert len(margins) == len(pd.read_parquet(out / "margins.parquet")) == len(done["margins"])
    table = pd.read_csv(out / "areas.csv")
    assert table[["area", "total"]].to_numpy().tolist() == [["north", 22], ["south", 3]]
    of = margins[(margins["level"] == "area") & (margins["query"] == "total")].set_index("least")["margin"]
    assert table["total_moe90"].tolist() == [of[2], of[0]]  # north has two leaves, south one
    assert done["areas"][0]["total"] == 22
    with pytest.raises(InputError, match=r"exists. Name a new folder"):
        run(folder, "-o", str(out))


def test_a_release_without_its_strategy_is_refused_with_the_reason(folder):
    (folder / "strategy.toml").unlink()
    with pytest.raises(InputError, match=r"no strategy.toml, so it is unknown how .* Ask whoever made the release"):
        run(folder)


def test_a_release_measured_on_an_optimised_spine_is_run_again_on_it(tmp_path, monkeypatch):
    columns = {"state": ["1"] * 4, "tract": ["1a"] * 4, "group": ["1a1"] * 4, "block": ["w", "x", "y", "z"]}
    spine = Spine.from_columns(columns, root="us")
    made = spine.optimised(place=Areas.from_codes(spine, leaf=["x", "z"], area=["Troy", "Troy"]))
    schema = Schema(attributes={"age": ["child", "adult"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1, 2, 3], cell=[0, 1, 0, 1], count=[30, 40, 50, 60])
    release = protect(people, Strategy.default(spine, schema, epsilon=1), seed=1, optimised=made)
    write_release(release, tmp_path / "r")
    seen = []

    def watched(*given, optimised, **more):
        seen.append(optimised)
        return protect(*given, optimised=optimised, **more)

    monkeypatch.setattr("tallyveil.protection.protect.protect", watched)
    run(tmp_path / "r")
    assert [one.spine == made.spine for one in seen] == [True, True]
    assert False not in {finding.holds for finding in verify_release(tmp_path / "r")}


def test_a_signed_release_is_refused_before_the_work(folder, monkeypatch):
    (folder / "certificate.sig").write_bytes(b"0" * 64)
    monkeypatch.setattr("tallyveil.protection.protect.protect", lambda *_, **__: pytest.fail("worked"))
    with pytest.raises(InputError, match="the folder is signed, and margins would change what was signed"):
        run(folder)


def test_counts_that_were_hardly_measured_are_named(tmp_path):
    release = small_release(rho="1/10000")  # noise of hundreds on counts of tens: what is known comes from above
    plan = replace(release.strategy, constraints=())
    write_release(replace(release, strategy=plan, measurements=None, facilities=None), tmp_path / "weak")
    notes = json.loads(run(tmp_path / "weak", "--json", "--no-write").stdout)["notes"]
    assert [
        note
        for note in notes
        if note.startswith("Counts that were hardly measured directly") and "total at tract" in note
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--replicates", "0"], r"--replicates must be 1 or more. Got 0 instead."),
        (["--threads", "0"], r"--threads must be 1 or more. Got 0 instead."),
        (["--level", "ward"], r"unknown level 'ward'. The levels are us, county, tract."),
    ],
)
def test_what_cannot_be_asked_is_refused_before_the_work(folder, words, line):
    with pytest.raises(InputError, match=line):
        run(folder, *words)
    assert "total_moe90" not in pd.read_parquet(folder / "levels" / "us.parquet")


def test_margins_do_not_change_what_is_read(folder, made):
    run(folder)
    assert read_release(folder).histogram == read_release(made).histogram


def test_the_detailed_counts_have_margins_too_and_tables_writes_them_as_uncertainty_estimates_them(folder, tmp_path):
    done = run(folder, "--no-write", "--json", replicates=10)
    told = [row for row in json.loads(done.stdout)["margins"] if (row["level"], row["query"]) == ("tract", "detailed")]
    assert told
    assert run(folder, "--no-write", "--level", "tract").stdout.count("tract detailed") == 1
    tables_app = typer.Typer()
    tables_app.command()(publish_tables)
    place = tmp_path / "tables"
    words = [str(folder), "--query", "detailed", "--level", "tract", "--margins", "-o", str(place)]
    made = CliRunner().invoke(tables_app, words, catch_exceptions=False)
    assert made.exit_code == 0, made.stderr
    wide, tidy = pd.read_csv(place / "tract.csv"), pd.read_csv(place / "tract_tidy.csv")
    columns = [name for name in wide if name.startswith("detailed:") and not name.endswith("_moe90")]

    def expected(count):
        return next(row["margin"] for row in reversed(told) if count >= row["least"])

    for name in columns:
        assert wide[f"{name}_moe90"].tolist() == [expected(count) for count in wide[name]]
    assert tidy["moe90"].notna().all()
    rows = tidy[tidy["query"] == "detailed"]
    assert rows["moe90"].tolist() == [expected(count) for count in rows["count"]]
    assert "No margin was computed" not in (place / "README.txt").read_text()


def test_tables_name_the_queries_that_have_no_margin(folder, tmp_path):
    run(folder, "--level", "tract", "--query", "total")
    write_tables(folder, tmp_path / "t", levels=["tract"], queries=["detailed"])
    assert "No margin was computed for age, home, detailed.\n" in (tmp_path / "t" / "README.txt").read_text()


def test_margins_come_from_estimates_where_the_measurements_allow_it(tmp_path):
    people = small_release().histogram
    strategy = Strategy.default(people.spine, people.schema, rho="1/10")
    for saved, name in ((None, "all"), ([("age", "county")], "some")):
        protect_to_folder(people, strategy, tmp_path / name, seed=4, measurements=saved)
    done = run(tmp_path / "all")
    assert "Margins of error, in persons, from unbiased estimates" in done.stdout
    assert "Method: unbiased estimates from the saved measurements (all measurements of all levels" in done.stdout
    assert "re-runs done" not in done.stderr
    assert False not in {finding.holds for finding in verify_release(tmp_path / "all")}
    table = pd.read_parquet(tmp_path / "all" / "levels" / "tract.parquet")
    result = json.loads(run(tmp_path / "all", "--no-write", "--json").stdout)
    row = next(row for row in result["margins"] if (row["level"], row["query"]) == ("tract", "total"))
    assert (row["least_margin"], row["most_margin"]) == (table.total_moe90.min(), table.total_moe90.max())
    assert "from 2 re-runs" in run(tmp_path / "all", "--method", "re-runs", "--no-write").stdout
    partly = run(tmp_path / "some", "--no-write").stdout
    assert (
        "Method: re-runs of the release as if it were the truth (what was measured at level 'us' does not det" in partly
    )
    with pytest.raises(InputError, match="does not determine home"):
        run(tmp_path / "some", "--method", "estimates")
