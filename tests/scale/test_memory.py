"""``--memory`` is kept by measurement, and a run that would need more is refused before noise is drawn."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from tallyveil import Histogram, Schema, Spine, Strategy, _memory
from tallyveil._memory import memory_limit, memory_size, near_limit, refuse_beyond_limit
from tallyveil._workers import workers, workers_ahead
from tallyveil.errors import InputError
from tallyveil.files.tables.read import read_counts
from tallyveil.files.tables.write import write_counts
from tallyveil.populations import census_2020
from tallyveil.protection.protect import protect_to_folder

SPINE = Spine.from_columns({"tract": ["1", "1", "2"], "block": ["11", "12", "21"]}, root="town")
PEOPLE = Histogram.from_entries(
    SPINE, Schema(attributes={"age": ["child", "adult"]}), unit=[0, 1, 2], cell=[0, 1, 1], count=[5, 6, 7]
)


@pytest.mark.parametrize(("text", "size"), [("500M", 500 << 20), ("1.5g", 3 << 29), ("2 GiB", 2 << 30), ("1000", 1000)])
def test_sizes_are_read_in_powers_of_1024(text, size):
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["", "4X", "-1G", "0", "four"])
def test_other_sizes_are_refused_with_an_example(text):
    with pytest.raises(InputError, match=r"memory must be a size such as 500M or 4G. Got"):
        memory_size(text)


def test_without_a_limit_nothing_is_refused():
    refuse_beyond_limit("reading")
    assert not near_limit()


def test_the_limit_ends_with_its_block():
    with memory_limit("1M"):
        assert near_limit()
        with memory_limit(None):
            assert not near_limit()
        assert near_limit()
    assert not near_limit()


def test_reading_beyond_the_limit_is_refused_with_what_is_in_use(tmp_path, monkeypatch):
    write_counts(PEOPLE, tmp_path / "p.parquet")
    monkeypatch.setattr(_memory, "resident", lambda: 3 << 30)
    with memory_limit("2G"), pytest.raises(InputError, match=r"p.parquet takes more than the 2.00 GiB of memory.*3.00"):
        read_counts(tmp_path / "p.parquet", tmp_path / "p.codebook.toml", units=SPINE)


def test_a_run_that_would_need_more_is_refused_before_noise_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(_memory, "resident", lambda: 1 << 30)
    strategy = Strategy.default(SPINE, PEOPLE.schema, epsilon=1)
    with (
        memory_limit("1.2G"),
        pytest.raises(InputError, match=r"needs about 1.39 GiB of memory.*1.20 GiB are allowed. Nothing was spent"),
    ):
        protect_to_folder(PEOPLE, strategy, tmp_path / "r", seed=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pool", [workers, workers_ahead])
def test_near_the_limit_pieces_run_one_at_a_time_and_in_order(monkeypatch, pool):
    monkeypatch.setattr(_memory, "resident", lambda: 9)
    running, most, pause = [], [], Event()

    def work(item):
        running.append(item)
        most.append(len(running))
        pause.wait(0.005)
        running.remove(item)
        return item

    with memory_limit(10), pool(4) as run:
        assert list(run(work, range(8))) == list(range(8))
    assert max(most) == 1


def _protected(folder: Path, persons: int, memory: str) -> tuple[int, str, float]:
    """Exit code, messages, and the peak memory in MiB, of ``protect`` in a process of its own."""
    write_counts(census_2020(persons=persons, seed=1).people, folder / "p.parquet")
    options = ["--rho", "1", "--seed", "1", "--memory", memory, "-o", str(folder / "release")]
    command = [sys.executable, "-m", "tallyveil", "protect", str(folder / "p.parquet"), *options]
    command += ["--codebook", str(folder / "p.codebook.toml"), "--units", str(folder / "p.units.parquet")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, said, usage.ru_maxrss / 1024


@pytest.mark.slow  # processes that load all machine code
@pytest.mark.parametrize(("persons", "memory"), [(20_000, "900M"), (300_000, "1500M"), (2_000_000, "1600M")])
def test_the_measured_peak_of_a_run_stays_below_its_limit(tmp_path, persons, memory):
    code, said, peak = _protected(tmp_path, persons, memory)
    assert code == 0, said
    assert peak < memory_size(memory) / 2**20
    assert "at most" in said


@pytest.mark.slow
@pytest.mark.parametrize(("persons", "memory"), [(20_000, "500M"), (300_000, "1G")])
def test_too_little_memory_ends_in_one_line_without_a_folder(tmp_path, persons, memory):
    code, said, _ = _protected(tmp_path, persons, memory)
    assert code == 2
    assert "of memory" in said.splitlines()[-1]
    assert not (tmp_path / "release").exists()
