"""sweep, audit, simulate and reproduce, killed once each and run again (slow tests)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import write_town

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")]
TIMES = {"seconds", "code", "versions"}  # of items of a paper: they differ between runs


def start(words: list[str], folder: Path) -> subprocess.Popen:
    """Start the program; its processes can be found by a variable of their environment."""
    return subprocess.Popen(
        [sys.executable, "-m", "tallyveil", *words],
        cwd=folder,
        env={**os.environ, "STARTED_IN": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes(folder: Path) -> list[int]:
    """The processes that the program started in a folder, and that have not ended."""
    found, wanted = [], f"STARTED_IN={folder}\0".encode()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and wanted in (place / "environ").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def contents(folder: Path) -> dict[str, object]:
    """The files of a folder; of times and charts only that they are there."""
    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.name == "item.json":
            record = json.loads(path.read_text())
            found[name] = {key: value for key, value in record.items() if key not in TIMES | {"files"}}
        else:
            found[name] = None if path.suffix in (".png", ".svg", ".html") else path.read_bytes()
    return found


ITEMS = ["kazan2022.table1", "kazan2022.table2", "kazan2022.table3", "kazan2022.figure1"]
JOBS = {  # the command, what it stores, and when it is killed
    "sweep": (["sweep", "DATA", "--epsilon", "1,2,4", "--replicates", "20"], "trials/[!.]*.parquet", 10),
    "audit": (["audit", "DATA", "--rho", "1/2", "--runs", "4000", "--workers", "2"], "runs/[!.]*.npy", 8),
    "simulate": (
        [
            "risk",
            "simulate",
            "DATA",
            "--rho",
            "1/2",
            "--unit",
            "11",
            "--cell",
            "adult",
            "--prior",
            "1/2",
            "--runs",
            "2000",
        ],
        "runs/[!.]*.npy",
        8,
    ),
    "reproduce": (["reproduce", *ITEMS], "[!.]*/item.json", 2),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_killed_job_is_resumed_to_the_same_result_and_leaves_nothing(tmp_path, name):
    words, made, enough = JOBS[name]
    town = write_town(tmp_path)
    words = [word for part in words for word in (town if part == "DATA" else [part])]
    whole = start([*words, "-o", "whole"], tmp_path)
    _, err = whole.communicate()
    assert whole.returncode == 0, err
    run = start([*words, "-o", "out"], tmp_path)
    while run.poll() is None and len(list(tmp_path.glob(f"out/{made}"))) < enough:
        time.sleep(0.005)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert run.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes(tmp_path) == []
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob(f"out/{made}")}
    again = start([*words, "-o", "out"], tmp_path)
    _, err = again.communicate()
    assert again.returncode == 0, err
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # they were not made again
    assert "were done before" in err or " kept " in err
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not list(tmp_path.rglob("*.unfinished"))
