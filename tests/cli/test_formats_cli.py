"""Published microdata on the command line: every command that reads a table reads them, too."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from command_line import figures, run
from ipums_extract import write_ipums_1940
from tallyveil.cli.options import FileFormat
from tallyveil.errors import InputError
from tallyveil.evaluate import error
from tallyveil.files import (
    read_mdf_1940,
    read_mdf_2020,
    read_release,
    write_counts,
    write_mdf_1940,
)
from tallyveil.files.formats.by_name import FORMATS
from tallyveil.files.release_folder.manifest import manifest_of
from tallyveil.files.release_folder.mdf_files import refuse_unless_mdf
from tallyveil.files.tables.side import facilities_table
from tallyveil.files.tables.write import write_table
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.spine_optimiser import optimise_spine
from tallyveil.populations import Population, census_1940, census_2020
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.protect import protect, protect_to_folder
from tallyveil.protection.verify import verify_release
from tallyveil.release.canonical import canonical_bytes, parse_canonical
from tallyveil.runs import progress

BUDGET = ("--strategy", "e2e-2018", "--epsilon", "1", "--seed", "1", "--threads", "1")


@pytest.fixture(scope="module")
def town() -> Population:
    return census_1940(persons=20_000, seed=7)


@pytest.fixture(scope="module")
def released(town):
    strategy = Strategy.preset("e2e-2018", epsilon=1)
    return [protect(town, strategy, seed=1, replicate=number) for number in range(2)]


@pytest.fixture(scope="module")
def place(town, released, tmp_path_factory) -> Path:
    """A synthetic extract, two releases of it as MDF, and the same truth as a table."""
    folder = tmp_path_factory.mktemp("published")
    write_ipums_1940(town.people, town.facilities, town.housing, folder / "EXT1940USCB.dat")
    for number, release in enumerate(released):
        (folder / f"run{number}").mkdir()
        write_mdf_1940(release.histogram, town.facilities, town.housing, folder / f"run{number}")
    write_counts(town.people, folder / "town.parquet", layout="long")
    return folder


def test_the_names_of_the_option_are_those_of_the_library():
    assert [name.value for name in FileFormat] == list(FORMATS)


def test_evaluate_takes_an_extract_and_mdf_files_and_gives_the_figures_of_the_arrays(place, town, released):
    told = figures("evaluate", str(place / "EXT1940USCB.dat"), str(place / "run0"), str(place / "run1" / "MDF_PER.dat"))
    assert [each["release"] for each in told["releases"]] == ["run0", "MDF_PER.dat"]
    for each, release in zip(told["releases"], released, strict=True):
        table = error(town, release)
        mine = [(row["level"], row["query"], row["statistic"], row["value"]) for row in each["error"]]
        assert mine == list(table[["level", "query", "statistic", "value"]].itertuples(index=False, name=None))
        assert {row["kind"] for row in each["implausible"]}  # the facilities of the file give the occupied homes


def test_files_of_the_same_name_are_told_apart_by_their_folder(place):
    files = [str(place / f"run{number}" / "MDF_PER.dat") for number in (0, 1)]
    told = figures("evaluate", str(place / "EXT1940USCB.dat"), *files, "--query", "total", "--level", "county")
    assert [each["release"] for each in told["releases"]] == files
    pooled = figures("evaluate", str(place / "EXT1940USCB.dat"), *files, "--query", "total", "--pool")
    assert [each["release"] for each in pooled["releases"]] == ["all together"]


def test_a_format_by_name_gives_what_its_recognition_gives(place):
    words = ["evaluate", str(place / "EXT1940USCB.dat"), str(place / "run0"), "--query", "total"]
    assert figures(*words, "--format", "ipums-1940") == figures(*words)
    wrong = run(*words, "--format", "mdf-1940")
    assert wrong.returncode == 2
    assert "MDF_UNIT" in wrong.stderr
    assert run(*words, "--format", "sas").returncode == 2


@pytest.mark.parametrize("release", ["run0", "run0/MDF_PER.dat"])
def test_a_table_with_a_codebook_is_compared_with_an_mdf(place, release):
    words = ["--query", "race", "--level", "county"]
    book = ["--codebook", str(place / "town.codebook.toml"), "--units", str(place / "town.units.parquet")]
    table = figures("evaluate", str(place / "town.parquet"), str(place / release), *book, *words)
    extract = figures("evaluate", str(place / "EXT1940USCB.dat"), str(place / "run0"), *words)
    assert table["releases"][0]["error"] == extract["releases"][0]["error"]


def test_a_codebook_and_a_format_are_refused_together_and_neither_is_refused_for_a_table(place):
    words = [str(place / "run0"), "--query", "total"]
    book = ["--codebook", str(place / "town.codebook.toml")]
    both = run("evaluate", str(place / "EXT1940USCB.dat"), *words, *book, "--format", "ipums-1940")
    assert (both.returncode, both.stdout) == (2, "")
    assert "--codebook and --format are both given" in both.stderr
    neither = run("evaluate", str(place / "town.parquet"), *words)
    assert (neither.returncode, neither.stdout) == (2, "")
    assert (
        "what its columns mean is unknown. Give --codebook FILE, or --format for published microdata" in neither.stderr
    )
    gone = run("evaluate", str(place / "gone.dat"), *words, "--format", "ipums-1940")
    assert gone.returncode == 2
    assert "gone.dat: no such file or folder" in gone.stderr


def test_protect_reads_an_extract_with_its_facilities_and_gives_the_release_of_the_arrays(place, released, tmp_path):
    done = run("protect", str(place / "EXT1940USCB.dat"), "--format", "ipums-1940", *BUDGET, "-o", str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    made = read_release(tmp_path / "r")
    assert made.histogram.leaves == released[0].histogram.leaves
    assert "units from data: not covered by the guarantee" in made.certificate.declared.stamps
    assert not (tmp_path / "r" / "source.toml").exists()
    assert run("verify", str(tmp_path / "r")).returncode == 0
    told = figures("evaluate", str(place / "EXT1940USCB.dat"), str(tmp_path / "r"), "--query", "total")
    assert told["releases"][0]["error"]
    units = ["--units", str(place / "town.units.parquet")]
    listed = run("protect", str(place / "EXT1940USCB.dat"), *units, *BUDGET, "-o", str(tmp_path / "listed"))
    assert listed.returncode == 0, listed.stderr
    assert "units from data" not in listed.stderr


def test_a_release_folder_with_its_source_needs_no_codebook(place, tmp_path):
    book = ["--codebook", str(place / "town.codebook.toml"), "--units", str(place / "town.units.parquet")]
    words = ["--epsilon", "1", "--seed", "1", "--threads", "1", "-o", str(tmp_path / "r")]
    assert run("protect", str(place / "town.parquet"), *book, *words).returncode == 0
    told = figures("evaluate", str(place / "town.parquet"), str(tmp_path / "r"), "--query", "total")
    assert told == figures("evaluate", str(place / "town.parquet"), str(tmp_path / "r"), "--query", "total", *book)


def test_compare_reads_published_microdata(place):
    paths = [str(place / name) for name in ("EXT1940USCB.dat", "run0")]
    assert json.dumps(figures("compare", *paths, "--level", "county", "--query", "total"))


def test_sweep_and_audit_read_an_extract(place, tmp_path):
    words = ["--allocation", "e2e-2018", "--epsilon", "1", "--replicates", "1", "--query", "total", "--threads", "1"]
    swept = run("sweep", str(place / "EXT1940USCB.dat"), *words, "-o", str(tmp_path / "sweep"))
    assert swept.returncode == 0, swept.stderr
    assert len(pd.read_csv(next((tmp_path / "sweep").glob("*.csv")), comment="#"))
    audit = ["audit", str(place / "EXT1940USCB.dat"), "--mechanism", "geometric", "--epsilon", "1", "--query", "total"]
    done = run(*audit, "--runs", "200", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr


# --- protect --mdf


def test_risk_scan_reads_an_extract_with_its_facilities_as_it_reads_the_table(place, town):
    words = ["--strategy", "e2e-2018", "--epsilon", "1", "--level", "county", "--threads", "1"]
    extract = figures("risk", "scan", str(place / "EXT1940USCB.dat"), *words, "--format", "ipums-1940")
    write_table(facilities_table(town.facilities), place / "facilities.parquet")
    book = ["--codebook", str(place / "town.codebook.toml"), "--units", str(place / "town.units.parquet")]
    built = ["--facilities", str(place / "facilities.parquet")]
    assert extract == figures("risk", "scan", str(place / "town.parquet"), *book, *built, *words)
    neither = run("risk", "scan", str(place / "town.parquet"), *words)
    assert neither.returncode == 2
    assert "Give --codebook FILE, or --format for published microdata" in neither.stderr


def test_risk_simulate_reads_an_extract_with_its_facilities_as_it_reads_the_table(place, town):
    leaf = str(town.people.spine.labels("enumdist")[0])
    cell = town.people.schema.query("detailed").labels()[int(town.people.leaves.cell[0])]
    words = ["--strategy", "e2e-2018", "--epsilon", "1", "--unit", leaf, "--cell", cell, "--prior", "1/2"]
    words += ["--runs", "100", "--workers", "1"]
    extract = figures("risk", "simulate", str(place / "EXT1940USCB.dat"), *words)
    book = ["--codebook", str(place / "town.codebook.toml"), "--units", str(place / "town.units.parquet")]
    built = ["--facilities", str(place / "facilities.parquet")]
    write_table(facilities_table(town.facilities), place / "facilities.parquet")
    assert extract == figures("risk", "simulate", str(place / "town.parquet"), *book, *built, *words)


@pytest.fixture(scope="module")
def with_mdf(place, tmp_path_factory) -> Path:
    """A release of the extract that is also written as microdata."""
    folder = tmp_path_factory.mktemp("mdf") / "r"
    done = run("protect", str(place / "EXT1940USCB.dat"), *BUDGET, "--mdf", "-o", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_a_release_is_written_as_microdata_that_give_the_same_counts(with_mdf, place):
    made, census = read_release(with_mdf), read_mdf_1940(with_mdf / "MDF_PER.dat")
    assert made.histogram.total() == census.people.total()
    level = "county"
    assert (made.histogram.at(level).dense() == census.people.at(level).dense()).all()
    assert census.people.stamps == made.certificate.declared.stamps  # seeded, and so on
    assert census.housing.answer("h1", level="us").dense()[0, 0] == 0  # vacant units are not part of a release
    by_release = figures("evaluate", str(place / "EXT1940USCB.dat"), str(with_mdf), "--query", "race")
    alone = figures("evaluate", str(place / "EXT1940USCB.dat"), str(with_mdf / "MDF_PER.dat"), "--query", "race")
    assert by_release["releases"][0]["error"] == alone["releases"][0]["error"]


def test_verify_accepts_the_microdata_and_refuses_one_moved_person(with_mdf, tmp_path):
    told = figures("verify", str(with_mdf))
    assert told["holds"]
    (found,) = [check for check in told["checks"] if check["name"] == "microdata"]
    assert found["words"] == "20,000 persons, as in the counts"
    moved = tmp_path / "moved"
    shutil.copytree(with_mdf, moved)
    rows = (moved / "MDF_PER.dat").read_bytes()
    (moved / "MDF_PER.dat").write_bytes(rows.replace(b"|18|1|1|", b"|18|1|2|", 1))
    sealed_again(moved)
    (broken,) = [check for check in json.loads(run("verify", str(moved), "--json").stdout)["checks"]
                 if check["holds"] is False]  # fmt: skip
    assert broken["name"] == "microdata"
    assert "MDF_PER.dat does not hold the persons of release.parquet" in broken["words"]
    (moved / "MDF_PER.dat").unlink()
    sealed_again(moved)
    assert "an MDF consists of MDF_PER.dat, MDF_UNIT.dat" in run("verify", str(moved)).stdout


def sealed_again(folder: Path) -> None:
    """List the files anew in the certificate, as a forger would."""
    certificate = parse_canonical((folder / "certificate.json").read_bytes())
    certificate["files"] = manifest_of(folder)
    (folder / "certificate.json").write_bytes(canonical_bytes(certificate))


def test_microdata_of_blocks_are_written_without_units(tmp_path):
    census = census_2020(persons=3_000, seed=1)
    strategy = Strategy.default(census.people.spine, census.people.schema, rho=1)
    protect_to_folder(census.people, strategy, tmp_path / "r", seed=1, mdf=True)
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert {"MDF_PER.dat", "STAMPS.txt"} <= names
    assert "MDF_UNIT.dat" not in names
    read = read_mdf_2020(tmp_path / "r" / "MDF_PER.dat").people
    assert (read.at("county").dense() == read_release(tmp_path / "r").histogram.at("county").dense()).all()
    assert "seeded: not for publication" in read.stamps


def test_microdata_are_in_the_order_of_the_spine_where_an_optimised_one_was_measured(tmp_path):
    census = census_2020(persons=1_500, seed=1)
    spine, blocks = census.people.spine, census.people.spine.labels("block")
    tribal = Areas.from_codes(spine, leaf=blocks[::2], area=["Hopi"] * len(blocks[::2]))
    made = optimise_spine(spine, tribal=tribal, facilities=census.facilities)
    assert made.spine.labels("block") != blocks  # measured in another order
    strategy = Strategy.default(spine, census.people.schema, rho=1)
    release = protect_to_folder(census.people, strategy, tmp_path / "r", seed=1, mdf=True, optimised=made)
    read, kept = read_mdf_2020(tmp_path / "r" / "MDF_PER.dat").people, release.histogram.leaves.dense()
    assert (read.leaves.dense() == kept[[blocks.index(code) for code in read.spine.labels("block")]]).all()
    assert read.total() == int(kept.sum()) == census.people.total()
    assert all(finding.holds is not False for finding in verify_release(tmp_path / "r"))
    assert run("verify", str(tmp_path / "r")).returncode == 0


def test_mdf_is_refused_before_any_noise_where_no_such_file_exists(place, tmp_path):
    words = ["protect", str(place / "EXT1940USCB.dat"), "--epsilon", "1", "--seed", "1", "--mdf"]
    unbounded = run(*words, "-o", str(tmp_path / "r"))
    assert (unbounded.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "the strategy must bound persons by facilities at level enumdist, as e2e-2018 does" in unbounded.stderr
    assert run(*words, "--plan").returncode == 2
    (tmp_path / "t.csv").write_text("county,age\n1,a\n2,b\n")
    (tmp_path / "t.toml").write_text(
        '[geography]\nroot = "us"\nlevels = ["county"]\n[attributes]\nage = ["a", "b"]\n[table]\nlayout = "persons"\n'
    )
    other = ["protect", str(tmp_path / "t.csv"), "--codebook", str(tmp_path / "t.toml"), "--epsilon", "1", "--mdf"]
    done = run(*other, "-o", str(tmp_path / "r"))
    assert done.returncode == 2
    assert "--mdf is for counts on schemas.PERSONS_1940 or schemas.PERSONS_2020" in done.stderr


def test_bounds_above_the_leaves_do_not_give_every_person_a_unit(town):
    strategy = Strategy.preset("e2e-2018", epsilon=1)
    refuse_unless_mdf(town.people, strategy)
    raised = tuple(replace(c, level="county") if isinstance(c, FacilityBounds) else c for c in strategy.constraints)
    assert raised != strategy.constraints
    with pytest.raises(InputError, match="must bound persons by facilities at level enumdist"):
        refuse_unless_mdf(town.people, replace(strategy, constraints=raised))


def test_reading_a_large_extract_shows_its_progress(place, monkeypatch):
    words = ["evaluate", str(place / "EXT1940USCB.dat"), str(place / "run0"), "--query", "total", "--json"]
    assert run(*words).stderr == ""
    monkeypatch.setattr(progress, "LARGE", 1)
    assert run(*words).stderr.startswith("EXT1940USCB.dat: done after ")
