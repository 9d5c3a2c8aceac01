"""A cluster computes what threads compute, and shows nothing of it. All tests share two worker processes."""

import os
import pickle
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from command_line import run as run_command
from command_line import write_town
from small_release import small_facilities, small_people, small_strategy
from tallyveil import About, Histogram, Schema, Spine, Strategy, protect, protect_to_folder
from tallyveil.auditing.mechanism_runs import SimpleRuns
from tallyveil.errors import DataError, EndedAfterNoise, InputError, LostCluster
from tallyveil.evaluate.audit.audit import audit
from tallyveil.evaluate.sweep import sweep, trials
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import RunKey
from tallyveil.privacy.streams import measurement_stream
from tallyveil.runs.batches import Execution
from tallyveil.scale import ClusterPlace, open_cluster
from tallyveil.scale import cluster as clusters
from tallyveil.scale.remote import SPILLING, Wanted, refusal
from tallyveil.scale.same import what_runs_here
from tallyveil.scale.sealed import Sealed


@pytest.fixture(scope="module")
def cluster():
    with open_cluster("local:2") as cluster:
        yield cluster


@pytest.fixture
def many_pieces(monkeypatch):
    monkeypatch.setattr("tallyveil.engine.level.CHUNK", 4)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def town(blocks: int, count: int = 3) -> Histogram:
    spine = Spine.from_columns(
        {"tract": [f"{b // 10:03d}" for b in range(blocks)], "block": [f"{b:04d}" for b in range(blocks)]}, root="us"
    )
    table = np.full((blocks, 4), count)
    table[::3, 1] = 0
    return Histogram(
        spine=spine, schema=Schema(attributes={"age": ["0", "1"], "sex": ["f", "m"]}), leaves=Counts.from_dense(table)
    )


def strategy_for(people: Histogram) -> Strategy:
    return Strategy.default(people.spine, people.schema, epsilon=2)


@pytest.mark.usefixtures("many_pieces")
def test_one_thread_two_threads_and_two_worker_processes_write_the_same_bytes(cluster, tmp_path):
    people = small_people()
    for name, where in {"one": {"threads": 1}, "two": {"threads": 2}, "cluster": {"cluster": cluster}}.items():
        protect_to_folder(
            people, small_strategy(people), tmp_path / name, facilities=small_facilities(people), seed=5,
            measurements=None, estimates=False, about=About(date="2026-01-01"), **where,
        )  # fmt: skip
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "cluster")
    assert "measurements/tract/age.parquet" in contents(tmp_path / "cluster")


def test_a_run_with_a_secret_key_gives_the_same_release_on_local_processes(cluster, tmp_path):
    people = town(20)
    here, there = (
        protect(people, strategy_for(people), key=RunKey.from_file(tmp_path / "key"), cluster=where)
        for where in (None, cluster)
    )
    assert there.histogram == here.histogram
    assert there.certificate.to_json() == here.certificate.to_json()


@pytest.mark.usefixtures("many_pieces")
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(cluster):
    people = town(60)
    killed = []

    def kill_one(level, *_):
        if level == "block" and not killed:
            killed.extend(cluster._client.run(os.getpid).values())
            os.kill(killed[0], signal.SIGKILL)

    release = protect(people, strategy_for(people), seed=1, cluster=cluster, progress=kill_one)
    assert killed
    assert release.histogram == protect(people, strategy_for(people), seed=1, threads=1).histogram


@pytest.mark.usefixtures("many_pieces")
def test_progress_is_told_as_on_one_machine(cluster):
    people = town(60)
    here, there = [], []
    protect(people, strategy_for(people), seed=1, threads=1, progress=lambda *step: here.append(step))
    protect(people, strategy_for(people), seed=1, cluster=cluster, progress=lambda *step: there.append(step))
    assert there == here
    assert len(there) > 5


@pytest.mark.slow
def test_the_runs_of_an_audit_are_the_same_on_a_cluster(cluster):
    people = town(3)
    moved = Histogram.from_entries(
        people.spine, people.schema, unit=[0, 1, 2, 2], cell=[0, 1, 2, 3], count=[4, 3, 3, 2]
    )
    people = Histogram.from_entries(
        people.spine, people.schema, unit=[0, 1, 2, 2], cell=[0, 1, 2, 3], count=[3, 3, 3, 3]
    )
    run = SimpleRuns(name="geometric", epsilon=Fraction(1), query="detailed", neighbours="replace-one", seed=1)
    here, there = (
        audit(run, people, moved, runs=100, execution=Execution(batch=10, map=spread)) for spread in (map, cluster.map)
    )
    assert there.as_json() == here.as_json()


@pytest.mark.slow
def test_the_trials_of_a_sweep_are_the_same_on_a_cluster(cluster):
    people = town(12)
    wanted = trials({"even": [strategy_for(people)]}, replicates=2)
    kept = [{}, {}]
    for entries, spread in zip(kept, (map, cluster.map), strict=True):
        sweep(people, wanted, _ProtectAgain(people), levels=["tract"], queries=["total"], entries=entries, map=spread)
    assert kept[0].keys() == kept[1].keys()
    assert all(kept[0][name].equals(kept[1][name]) for name in kept[0])


class _ProtectAgain:
    def __init__(self, people):
        self.people = people

    def __call__(self, strategy, replicate):
        return protect(self.people, strategy, seed=1, replicate=replicate, threads=1)


@pytest.mark.usefixtures("many_pieces")
def test_neither_logs_nor_names_of_tasks_nor_folders_show_counts_or_keys(cluster):
    """Also not when a task fails: Dask would write the arguments of a task that raises into the log."""
    people, key = town(30, count=1_977_326_743), RunKey.from_seed(11)
    stream = measurement_stream(key, people, strategy_for(people)).travelling_key()
    protect(people, strategy_for(people), key=key, cluster=cluster)
    with pytest.raises(DataError, match="bad 1977326743"):
        list(cluster.map(_fail, [1_977_326_743], [stream]))
    client = cluster._client
    names = client.run_on_scheduler(lambda dask_scheduler: sorted({str(t[0]) for t in dask_scheduler.transition_log}))
    assert any(name.endswith("-2-0-0-1") for name in names), names  # the names of pieces
    seen = [client.get_worker_logs(), client.get_scheduler_logs(), names]
    folders = client.run(lambda dask_worker: _all_bytes(dask_worker.local_directory))
    for secret in (stream, key._bytes, (1_977_326_743).to_bytes(4, "little")):
        assert not any(secret in found for found in folders.values())
        for spelled in (secret.hex(), repr(secret)[2:-1]):
            assert spelled not in repr(seen)
    assert "1977326743" not in repr(seen)
    assert "1,977,326,743" not in repr(seen)


def _fail(count, key):
    raise DataError(f"bad {count} {len(key)}")


def _all_bytes(folder):
    from pathlib import Path

    files = [path for path in Path(folder).parent.rglob("*") if path.is_file()]
    return b"".join(str(path).encode() + path.read_bytes() for path in files)


def test_errors_of_tasks_are_raised_here_and_the_cluster_goes_on(cluster):
    with pytest.raises(ZeroDivisionError):
        list(cluster.map(divmod, [1, 2], [1, 0]))
    assert list(cluster.map(divmod, [7, 9], [2, 2])) == [(3, 1), (4, 1)]


def test_results_come_in_order_and_items_are_taken_a_few_at_a_time(cluster):
    taken = []

    def parcels():
        for number in range(40):
            taken.append(number)
            yield number, f"piece-{number}", (number,)

    done = cluster._completed(lambda: clusters._OnArguments(abs), parcels())
    first = next(done)
    assert len(taken) <= clusters.AHEAD * cluster.threads
    assert sorted([first, *done]) == [(number, number) for number in range(40)]
    assert list(cluster.map(abs, range(-40, 0))) == list(range(40, 0, -1))


def test_work_that_is_stopped_is_cancelled(cluster):
    results = cluster.map(abs, range(1000))
    next(results)
    results.close()
    end = time.monotonic() + 10
    while cluster._client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        assert time.monotonic() < end


def test_a_worker_with_other_packages_is_refused_in_a_line(cluster, monkeypatch):
    other = {**what_runs_here(), "numpy": "1.26.4"}
    monkeypatch.setattr(cluster, "_wanted", Wanted(other, True))
    with pytest.raises(
        InputError, match=r"worker tls://127.0.0.1:\d+ is refused: numpy .* instead of 1\.26\.4\. Install the same"
    ):
        cluster.check()
    with pytest.raises(EndedAfterNoise, match=r"joined and is refused: numpy .*Noise had been drawn") as raised:
        protect(town(20), strategy_for(town(20)), seed=1, cluster=cluster)
    assert isinstance(raised.value.__cause__, LostCluster)


def worker(**changed):
    scheduler = SimpleNamespace(address=changed.pop("scheduler", "tls://a:1"))
    return SimpleNamespace(**{"address": "tls://b:2", "data": {}, "scheduler": scheduler, **changed})


def test_a_worker_that_spills_to_disk_or_is_not_encrypted_is_refused():
    wanted = Wanted(what_runs_here(), True)
    assert refusal(wanted, worker()) is None
    assert refusal(wanted, worker(data=SimpleNamespace())) == SPILLING
    for plain in (worker(address="tcp://b:2"), worker(scheduler="tcp://a:1")):
        assert "not encrypted" in refusal(wanted, plain)
        assert refusal(replace(wanted, encrypted=False), plain) is None


@pytest.mark.usefixtures("no_noise")
def test_the_truth_and_a_secret_key_travel_in_plain_text_only_if_told():
    people = town(10)
    with pytest.raises(InputError, match=r"cluster tcp://h:1: a run without a seed .* plain text\. Use tls://"):
        protect(people, strategy_for(people), cluster="tcp://h:1")
    ClusterPlace("tcp://h:1").refuse_plaintext(seeded=True)
    ClusterPlace("tcp://h:1", allow_plaintext=True).refuse_plaintext(seeded=False)
    ClusterPlace("tls://h:1").refuse_plaintext(seeded=False)
    ClusterPlace("local:1").refuse_plaintext(seeded=False)


@pytest.mark.parametrize("address", ["local", "local:", "local:x", "host:1", "tcp://host", "ftp://h:1", "tls://:1", ""])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(InputError, match=r"not an address\. Write tls://HOST:PORT, tcp://HOST:PORT or local:N"):
        ClusterPlace(address)


@pytest.mark.usefixtures("no_noise")
def test_no_processes_and_threads_beside_a_cluster_are_refused():
    with pytest.raises(InputError, match=r"0 processes\. Write local:1 or more"):
        ClusterPlace("local:0")
    with pytest.raises(InputError, match="threads and a cluster are both given"):
        protect(town(10), strategy_for(town(10)), cluster="local:1", threads=2)


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r'pip install "tallyveil\[cluster\]"'), open_cluster("local:1"):
        pass


@pytest.mark.usefixtures("no_noise")
def test_where_no_scheduler_answers_the_error_says_so(monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE", 1)
    with pytest.raises(InputError, match=r"cluster tcp://127\.0\.0\.1:9: no scheduler answers there"):
        protect(town(10), strategy_for(town(10)), seed=1, cluster="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match=r"no certificates\. Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE"):
        protect(town(10), strategy_for(town(10)), cluster="tls://127.0.0.1:9")


def test_a_cluster_without_workers_is_refused_after_a_while(monkeypatch):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(clusters, "PATIENCE", 1)
    pages = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None, scheduler_kwargs=pages) as empty,
        Client(empty, set_as_default=False) as client,
        pytest.raises(InputError, match=r"cluster tcp://h:1: no worker has joined within 1 s\. Start some"),
    ):
        clusters.Cluster(client, ClusterPlace("tcp://h:1")).check()


def test_sealed_bytes_are_not_shown_or_hashed():
    from dask.base import tokenize

    first, second = Sealed.of(17), pickle.loads(pickle.dumps(Sealed.of(17)))
    assert repr(first) == "<Sealed>"
    assert tokenize(first) != tokenize(first) != tokenize(second)
    assert second.opened() == 17


@pytest.fixture
def shared_cluster(cluster, monkeypatch):
    """Commands use the processes that are there already; gives the places that were opened."""
    opened = []

    def open_it(place, *, seeded=True):
        place.refuse_plaintext(seeded=seeded)
        opened.append(place.address)
        return nullcontext(cluster)

    monkeypatch.setattr("tallyveil.scale.cluster.open_cluster", open_it)
    monkeypatch.setattr("tallyveil.protection.protect.open_cluster", open_it)
    return opened


COMMANDS = {
    "protect": ("--epsilon", "1", "--seed", "3", "--date", "2026-01-01"),
    "audit": ("--epsilon", "1", "--runs", "100"),
    "sweep": ("--epsilon", "1", "--replicates", "2", "--no-samples", "--level", "county", "--query", "total"),
    "risk simulate": ("--epsilon", "1", "--unit", "11", "--cell", "adult", "--prior", "1/2", "--runs", "200"),
}


@pytest.mark.parametrize(
    "command", [name if name == "protect" else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_commands_write_the_same_files_on_a_cluster(shared_cluster, tmp_path, command):
    given = [*command.split(), *write_town(tmp_path), *COMMANDS[command]]
    for name, where in {"here": [], "there": ["--cluster", "local:2"]}.items():
        done = run_command(*given, *where, "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    assert shared_cluster == ["local:2"]
    here, there = (
        {name: file for name, file in contents(tmp_path / where).items() if not name.endswith((".svg", ".png"))}
        for where in ("here", "there")
    )
    assert there == here
    assert len(there) >= 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cluster", "local:2", "--threads", "2"), "--threads and --cluster are both given"),
        (("--allow-plaintext",), "--allow-plaintext is for --cluster tcp://HOST:PORT"),
        (("--cluster", "tcp://h:1"), "would send true counts and the key of its noise in plain text. Use tls://"),
        (("--cluster", "here"), "cluster 'here': not an address"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_read(tmp_path, words, said):
    done = run_command("protect", "missing.csv", "--codebook", "missing.toml", "-o", str(tmp_path / "out"), *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = run_command("audit", "missing.csv", "--epsilon", "1", "--cluster", "local:2", "--workers", "1")
    assert "--workers and --cluster are both given" in done.stderr
