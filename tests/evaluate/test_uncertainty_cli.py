"""``tallyveil uncertainty`` on a small release."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from small_release import page_of, small_release
from tallyveil.cli.uncertainty import uncertainty
from tallyveil.errors import InputError
from tallyveil.files import read_release, verify_release, write_release

app = typer.Typer()
app.command()(uncertainty)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    release = small_release()
    place = tmp_path_factory.mktemp("made") / "release"
    write_release(release, place, page=page_of(release))
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
    certificate = (folder / "certificate.json").read_bytes()
    done = run(folder)
    assert "2 of 2 re-runs done" in done.stderr
    assert "Margins of error, in persons, from 2 re-runs" in done.stdout
    assert "unreliable" in done.stdout
    assert "noise and post-processing only. What a census itself gets wrong" in done.stdout
    assert "computed from the release alone: no budget was spent" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["county", "total", "0", "or", "more", "0", "0", "6"] in lines  # an invariant
    table = pd.read_parquet(folder / "levels" / "tract.parquet")
    assert "age:adult_moe90" in table
    assert (table["age:adult_moe90"] > 0).all()
    assert {finding.state for finding in verify_release(folder)} <= {"holds", "unchecked"}
    assert (folder / "certificate.json").read_bytes() == certificate


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
    with pytest.raises(InputError, match=r"no strategy.toml, so nobody can tell how .* Ask whoever made the release"):
        run(folder)


def test_a_release_measured_on_another_spine_says_so(folder):
    path = folder / "certificate.json"
    certificate = json.loads(path.read_text())
    assert "measured on another spine" not in run(folder, "--no-write").stdout
    certificate["declared"]["measured_on"] = {"us": 1, "county": 4, "tract": 6}
    path.write_text(json.dumps(certificate))
    assert "measured on another spine, which its folder does not hold" in run(folder, "--no-write").stdout


def test_counts_that_were_hardly_measured_are_named(tmp_path):
    release = small_release(rho="1/10000")  # noise of hundreds on counts of tens: what is known comes from above
    plan = replace(release.strategy, constraints=())
    write_release(replace(release, strategy=plan, measurements=None, facilities=None), tmp_path / "weak")
    notes = json.loads(run(tmp_path / "weak", "--json", "--no-write").stdout)["notes"]
    assert [note for note in notes if note.startswith("Hardly measured themselves") and "total at tract" in note]


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
