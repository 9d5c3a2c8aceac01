"""A cluster of processes of its own, over TLS: killed, interrupted and searched for secrets (slow tests)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, Security

from tallyveil.files.tables.codebook_toml import read_codebook
from tallyveil.files.tables.read import read_counts
from tallyveil.privacy import RunKey, Strategy
from tallyveil.privacy.streams import measurement_stream

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")]

PIECES = "import tallyveil.engine.level as level; level.CHUNK = 512; from tallyveil.cli import main; main()"
PROGRAM = [sys.executable, "-c", PIECES]  # a level in many pieces, so that there is a middle
TRACTS, BLOCKS, CELLS = 120, 40, 64
PLANTED = 1_603_927_411  # the count of one block
CODEBOOK = """
[geography]
root = "us"
levels = ["tract", "block"]
[attributes]
a = ["0", "1", "2", "3", "4", "5", "6", "7"]
b = ["0", "1", "2", "3", "4", "5", "6", "7"]
[table]
layout = "long"
count = "count"
"""


class TlsCluster:
    """A scheduler and two workers as processes of Dask's own commands, with their logs and folders."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, {}
        folder.mkdir(exist_ok=True)
        names = {"ca": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}
        security = Security.temporary()
        for name, attribute in names.items():
            (folder / f"{name}.pem").write_text(getattr(security, attribute))
        tls = {"CA_FILE": "ca"}
        tls |= {f"{role}__CERT": "cert" for role in ("CLIENT", "SCHEDULER", "WORKER")}
        tls |= {f"{role}__KEY": "key" for role in ("CLIENT", "SCHEDULER", "WORKER")}
        self.environment = {
            f"DASK_DISTRIBUTED__COMM__TLS__{name}": f"{folder}/{file}.pem" for name, file in tls.items()
        }
        self.security = security

    def start(self, *, spilling: bool = False) -> str:
        """Start everything; gives the address."""
        memory = {f"DASK_DISTRIBUTED__WORKER__MEMORY__{name}": "False" for name in ("TARGET", "SPILL")}
        debug = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "debug"}
        self._spawn("scheduler", ["--protocol", "tls", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                                  "--scheduler-file", self.folder / "address.json"], debug)  # fmt: skip
        wait_for((self.folder / "address.json").exists)
        self.address = json.loads((self.folder / "address.json").read_text())["address"]
        self._spawn("worker", [self.address, "--nthreads", "1", "--nworkers", "2", "--no-dashboard",
                               "--local-directory", self.folder / "local"],
                    debug | ({} if spilling else memory))  # fmt: skip
        with Client(self.address, security=self.security, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        return self.address

    def _spawn(self, kind: str, words: list[object], environment: dict[str, str]) -> None:
        with (self.folder / f"{kind}.log").open("ab") as log:
            self.processes[kind] = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *map(str, words)],
                env=os.environ | self.environment | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, kind: str) -> None:
        self.processes[kind].kill()
        self.processes[kind].wait()
        (self.folder / "address.json").unlink(missing_ok=True)

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def all_bytes(self) -> bytes:
        """Logs, task names in them, and all that is in the workers' folders."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.suffix != ".pem"]
        return b"".join(str(path).encode() + path.read_bytes() for path in files)


def wait_for(condition, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def tls(tmp_path):
    cluster = TlsCluster(tmp_path / "cluster")
    yield cluster
    cluster.stop()


@pytest.fixture
def table(tmp_path) -> Path:
    """Counts with one that is easy to find."""
    rng = np.random.default_rng(1)
    lines = ["tract,block,a,b,count"]
    for block in range(TRACTS * BLOCKS):
        for cell in rng.choice(CELLS, 12, replace=False):
            count = PLANTED if block == 777 and len(lines) % 12 == 1 else rng.integers(1, 9)
            lines.append(f"{block // BLOCKS:03d},{block:05d},{cell // 8},{cell % 8},{count}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "t.toml").write_text(CODEBOOK)
    return tmp_path


def start(folder: Path, tls: TlsCluster, *words: object) -> subprocess.Popen:
    command = [*PROGRAM, "protect", "t.csv", "--codebook", "t.toml", "--rho", "0.5", "--key-file", "key",
               "--date", "2026-01-01", *map(str, words)]  # fmt: skip
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=os.environ | tls.environment, **pipes)


def finish(run: subprocess.Popen, code: int = 0) -> str:
    out, err = run.communicate(timeout=300)
    assert run.returncode == code, err
    return out + err


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kept(folder: Path, name: str) -> list[Path]:
    """Pieces of the lowest level in the work folder of a run."""
    return list((folder / f".{name}.work").glob("*2-0-*"))


def test_a_scheduler_that_is_killed_a_run_that_is_resumed_a_ledger_and_no_traces(tls, table):
    ledger = ["ledger", "ledger.jsonl"]
    subprocess.run([*PROGRAM, *ledger, "limit", "--epsilon", "9"], cwd=table, check=True, capture_output=True)
    finish(start(table, tls, "-o", "here", "--threads", "1"))
    address = tls.start()
    run = start(table, tls, "-o", "there", "--ledger", "ledger.jsonl", "--cluster", address)
    wait_for(lambda: len(kept(table, "there")) >= 2 or run.poll() is not None)
    tls.kill("scheduler")
    said = finish(run, code=1)
    assert "tallyveil: the cluster" in said, said
    assert "was lost" in said
    assert "Finished work is kept in" in said
    assert not (table / "there").exists()
    tls.kill("worker")
    address = tls.start()
    run = start(table, tls, "-o", "there", "--ledger", "ledger.jsonl", "--cluster", address)
    pids = tls_workers(tls)
    wait_for(lambda: len(kept(table, "there")) >= 8 or run.poll() is not None)
    os.kill(pids[0], signal.SIGKILL)  # a worker, too
    assert "resumed: " in finish(run)
    assert contents(table / "there") == contents(table / "here")
    shown = json.loads(
        subprocess.run([*PROGRAM, *ledger, "show", "--json"], cwd=table, capture_output=True, check=True).stdout
    )
    assert shown["epsilon"] < 9  # the measurement counts once, or two would not fit
    people = read_counts(table / "t.csv", read_codebook(table / "t.toml"))
    key = RunKey.from_file(table / "key")
    stream = measurement_stream(key, people, Strategy.default(people.spine, people.schema, rho="0.5"))
    found = tls.all_bytes()
    assert b"tallyveil-" in found  # names of tasks: the logs are told everything
    secrets = [stream.travelling_key(), key._bytes, PLANTED.to_bytes(4, "little")]
    for secret in secrets:
        for spelled in (secret, secret.hex().encode(), repr(secret)[2:-1].encode()):
            assert spelled not in found
    for spelled in (f"{PLANTED}", f"{PLANTED:,}"):
        assert spelled.encode() not in found


def tls_workers(tls: TlsCluster) -> list[int]:
    with Client(tls.address, security=tls.security, set_as_default=False) as client:
        return list(client.run(os.getpid).values())


def test_ctrl_c_cancels_the_tasks_and_leaves_the_cluster_alone(tls, table):
    address = tls.start()
    run = start(table, tls, "-o", "there", "--cluster", address)
    wait_for(lambda: len(kept(table, "there")) >= 2 or run.poll() is not None)
    run.send_signal(signal.SIGINT)
    assert "interrupted; nothing was left half-written. Finished work is kept" in finish(run, code=130)
    with Client(address, security=tls.security, set_as_default=False) as client:
        wait_for(lambda: client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0)
        assert len(client.nthreads()) == 2


def test_a_cluster_that_may_spill_is_refused_before_noise_is_drawn(tls, table):
    address = tls.start(spilling=True)
    said = finish(start(table, tls, "-o", "there", "--cluster", address), code=2)
    assert "it may spill data to disk. Start it with DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=False" in said
    assert "spent" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_local_processes_end_with_a_run_that_is_interrupted_or_killed(table, number):
    """Ctrl-C in a terminal reaches all processes of the run."""
    command = [*PROGRAM, "protect", "t.csv", "--codebook", "t.toml", "--rho", "0.5", "--key-file", "key",
               "--cluster", "local:2", "-o", "there"]  # fmt: skip
    run = subprocess.Popen(command, cwd=table, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(lambda: len(kept(table, "there")) >= 2 or run.poll() is not None)
    group = run.pid
    assert len(members(group)) >= 3
    os.killpg(group, number) if number == signal.SIGINT else run.kill()
    _, said = run.communicate(timeout=60)
    if number == signal.SIGINT:
        assert run.returncode == 130
        assert said.strip().splitlines()[-1].startswith("tallyveil: interrupted; nothing was left half-written.")
        assert "Traceback" not in said, said
    wait_for(lambda: not members(group), seconds=30)


def members(group: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found
