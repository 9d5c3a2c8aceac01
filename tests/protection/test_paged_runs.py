"""People who are read in parts get the release that they would get from memory, byte for byte."""

import os
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from interrupted_jobs import contents
from typer.testing import CliRunner

from small_release import SCHEMA, small_facilities, small_people, small_strategy
from tallyveil import Histogram, Spine, Strategy, verify_release
from tallyveil.cli.main import app
from tallyveil.cli.synth import write_population
from tallyveil.errors import EndedAfterNoise, InputError
from tallyveil.files.tables import paged
from tallyveil.files.tables.read import read_counts
from tallyveil.files.tables.write import write_counts
from tallyveil.nouns.paged_counts import PagedCounts
from tallyveil.populations import census_1940, census_2020
from tallyveil.privacy import RunKey
from tallyveil.protection.protect import protect, protect_to_folder
from tallyveil.scale import memory_limit


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr("tallyveil.engine.level.CHUNK", 50)
    monkeypatch.setattr("tallyveil.nouns.paged_counts.KEPT", 1 << 14)
    monkeypatch.setattr("tallyveil.nouns.paged_counts.TOGETHER", 100)


def in_parts(people: Histogram, folder, monkeypatch, rows: int = 20) -> Histogram:
    """The same people, in a file of many row groups that is read in parts."""
    path, again = folder / "people.parquet", folder / "groups.parquet"
    if not again.exists():
        write_counts(people, path)
        pq.write_table(pq.read_table(path), again, row_group_size=rows)
    monkeypatch.setattr(paged, "COUNT_BYTES", 1 << 50)
    with memory_limit("8G"):
        read = read_counts(again, folder / "people.codebook.toml", units=people.spine)
    assert isinstance(read.leaves, PagedCounts)
    return replace(read, stamps=people.stamps)


CENSUSES = {
    "1940": (census_1940(persons=8_000, seed=2), Strategy.preset("e2e-2018", epsilon=1)),
    "2020": (census_2020(persons=3_000, seed=3), Strategy.preset("pl94-2020-us-persons")),
    "informed": (census_2020(persons=3_000, seed=4), Strategy.preset("pl94-2020-us-persons").with_estimator("tree")),
    "from leaves": (
        census_2020(persons=2_000, seed=5),
        replace(Strategy.preset("pl94-2020-us-persons"), estimator="tree", information_from="block"),
    ),
}


@pytest.mark.parametrize("name", CENSUSES)
def test_the_release_of_people_in_parts_is_that_of_the_same_people_in_memory(name, tmp_path, monkeypatch):
    census, strategy = CENSUSES[name]
    pairs = [("hhgq", census.people.spine.leaf)] if name != "1940" else None
    given = {"facilities": census.facilities, "seed": 1, "measurements": pairs, "estimates": name == "2020"}
    protect_to_folder(census.people, strategy, tmp_path / "whole", **given)
    parts = in_parts(census.people, tmp_path, monkeypatch)
    release = protect_to_folder(parts, strategy, tmp_path / "parts", threads=2, **given)
    assert isinstance(release.histogram.leaves, PagedCounts)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert all(finding.holds is not False for finding in verify_release(tmp_path / "parts"))
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("seed", range(6))
def test_with_every_kind_of_constraint_too(seed, tmp_path, monkeypatch):
    people = small_people()
    built = small_facilities(people)
    strategy = small_strategy(people, rho=[0.01, 5][seed % 2])
    parts = in_parts(people, tmp_path, monkeypatch, rows=1 + seed % 3)
    whole = protect(people, strategy, facilities=built, seed=seed)
    assert protect(parts, strategy, facilities=built, seed=seed).histogram == whole.histogram


class Stop(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("first", ["parts", "whole"])
def test_a_run_may_be_interrupted_in_parts_and_resumed_in_memory_and_the_other_way_round(first, tmp_path, monkeypatch):
    census, strategy = CENSUSES["2020"]
    parts = in_parts(census.people, tmp_path, monkeypatch)
    people = {"parts": parts, "whole": census.people}
    second = "whole" if first == "parts" else "parts"
    key = RunKey.from_file(tmp_path / "key")
    given = {"facilities": census.facilities, "key": key}
    protect_to_folder(people[second], strategy, tmp_path / "undisturbed", **given)
    said = []

    def stop(level, done, of):
        if level == "block" and done > of // 2:
            raise Stop

    with pytest.raises(Stop):
        protect_to_folder(people[first], strategy, tmp_path / "out", progress=stop, **given)
    protect_to_folder(people[second], strategy, tmp_path / "out", say=said.append, **given)
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")
    assert said[0].startswith("resuming: ")


def test_what_needs_all_people_at_once_is_refused_before_noise_is_drawn(tmp_path, monkeypatch):
    census, strategy = CENSUSES["2020"]
    parts = in_parts(census.people, tmp_path, monkeypatch)
    for given in ({"mdf": True}, {"optimised": census.people.spine.optimised()}):
        with pytest.raises(InputError, match=r"needs all of them at once. Allow more \(--memory\)") as refused:
            protect_to_folder(parts, strategy, tmp_path / "out", facilities=census.facilities, seed=1, **given)
        assert not isinstance(refused.value, EndedAfterNoise)
    assert not (tmp_path / "out").exists()


def test_a_file_that_changes_after_noise_was_drawn_ends_the_run_without_a_word_about_its_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("tallyveil.nouns.paged_counts.KEPT", 1)
    census, strategy = CENSUSES["2020"]
    parts = in_parts(census.people, tmp_path, monkeypatch)
    path, other = tmp_path / "groups.parquet", tmp_path / "other.parquet"
    table = pq.read_table(path)
    planted = table.set_column(table.column_names.index("count"), "count", [np.full(table.num_rows, 918273)])
    pq.write_table(planted, other, row_group_size=20)

    def change(level, done, of):
        if level == "block_group" and done == of:
            path.write_bytes(other.read_bytes())

    with pytest.raises(EndedAfterNoise, match=r"(changed while it was read|cannot be read).*counts as spent") as ended:
        protect_to_folder(parts, strategy, tmp_path / "out", facilities=census.facilities, seed=1, progress=change)
    assert "918273" not in str(ended.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_pieces_of_people_in_parts_travel_to_a_cluster(tmp_path, monkeypatch):
    census, strategy = CENSUSES["2020"]
    parts = in_parts(census.people, tmp_path, monkeypatch)
    given = {"facilities": census.facilities, "seed": 1}
    protect_to_folder(census.people, strategy, tmp_path / "whole", **given)
    protect_to_folder(parts, strategy, tmp_path / "parts", cluster="local:2", **given)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_the_command_says_that_it_reads_in_parts_and_writes_the_same_release(tmp_path, monkeypatch):
    people = census_1940(persons=8_000, seed=2)
    table = tmp_path / "people.parquet"
    write_population(people, table)
    pq.write_table(pq.read_table(table), table, row_group_size=20)
    units = tmp_path / "people.units.parquet"
    monkeypatch.setattr(paged, "COUNT_BYTES", 1 << 50)
    runner, outcomes = CliRunner(), {}
    for name, more in {"whole": [], "parts": ["--memory", "8G"], "plan": ["--memory", "8G", "--plan"]}.items():
        given = [
            "--codebook",
            str(tmp_path / "people.codebook.toml"),
            "--units",
            str(units),
            "--epsilon",
            "1",
            "--seed",
            "1",
        ]
        outcomes[name] = runner.invoke(app, ["protect", str(table), *given, *more, "-o", str(tmp_path / name)])
        assert outcomes[name].exit_code == 0, outcomes[name].output
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert f"{table} would not fit into 8G, and is read in parts, several times\n" in outcomes["parts"].stderr
    assert "in parts" not in outcomes["whole"].stderr
    assert not (tmp_path / "plan").exists()


def test_what_waits_on_disk_are_released_counts_in_a_file_without_a_name(tmp_path, monkeypatch):
    planted = 91_827_364
    spine = Spine.from_columns({"block": [f"{unit:02}" for unit in range(40)]}, root="town")
    unit, cell = np.divmod(np.arange(80), 2)
    people = Histogram.from_entries(spine, SCHEMA, unit=unit, cell=cell, count=np.where(unit % 10, 3, planted))
    parts, written, seen = in_parts(people, tmp_path, monkeypatch), [], []

    def pwrite(file, data, at):
        written.append(data)
        seen.extend(path.name for path in tmp_path.iterdir())
        return os_pwrite(file, data, at)

    os_pwrite = os.pwrite
    monkeypatch.setattr("tallyveil.engine.set_aside.os.pwrite", pwrite)
    protect_to_folder(parts, Strategy.default(spine, people.schema, epsilon=1), tmp_path / "out", seed=3)
    assert sum(len(data) for data in written) > 40 * 2
    assert not any(np.int32(planted).tobytes() in data for data in written)
    assert set(seen) <= {
        "people.parquet",
        "people.codebook.toml",
        "people.units.parquet",
        "groups.parquet",
        ".out.work",
    }
