"""What a cluster gains: CPU seconds here and on two worker processes, bytes that travel, and Amdahl's law beyond.

Seconds are CPU seconds, so that other work on the machine does not count. What the program does here is serial; what is
done on the workers is divided among them. Dask's own threads here (its scheduler among them) are shown, but left out of
the model: they work beside the program, and mostly as long as it lasts, however much it does. The last columns are a
model, not a measurement: seconds here + seconds there / n.

    python bench/cluster.py [persons] [runs]
"""

import sys
import time
from collections.abc import Callable
from functools import partial

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.auditing.audit_job import AuditJob
from tallyveil.auditing.mechanism_runs import TopDownRuns
from tallyveil.auditing.neighbours import choose_neighbour
from tallyveil.populations import census_2020
from tallyveil.protection.protect import protect
from tallyveil.runs.batches import Execution
from tallyveil.scale import Cluster, open_cluster
from tallyveil.scale.sealed import Sealed

MODELLED = (2, 8, 32, 128)


def measured(cluster: Cluster, work: Callable[[], object]) -> tuple[float, float, float]:
    """CPU seconds of some work in this thread, in Dask's threads of this process, and in all workers."""
    there = sum(cluster._client.run(time.process_time).values())
    here, everything = time.thread_time(), time.process_time()
    work()
    here, everything = time.thread_time() - here, time.process_time() - everything
    return here, everything - here, sum(cluster._client.run(time.process_time).values()) - there


def show(name: str, alone: float, here: float, dask: float, there: float) -> None:
    gains = " ".join(f"{alone / (here + there / n):6.1f}" for n in MODELLED)
    print(f"{name:<34} {alone:8.1f} {here:8.2f} {dask:8.2f} {there:8.1f}   {gains}", flush=True)


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def count_bytes(tally: dict[str, int]) -> None:
    """Count what is sealed (parcels) and opened (results) in this process."""
    seal, opened = Sealed.of.__func__, Sealed.opened

    def sealing(cls: type[Sealed], value: object) -> Sealed:
        sealed: Sealed = seal(cls, value)
        tally["out"] = tally.get("out", 0) + sealed.__sizeof__()
        tally["tasks"] = tally.get("tasks", 0) + 1
        return sealed

    def opening(self: Sealed) -> object:
        tally["back"] = tally.get("back", 0) + self.__sizeof__()
        return opened(self)

    Sealed.of = classmethod(sealing)  # type: ignore[method-assign, assignment]
    Sealed.opened = opening  # type: ignore[method-assign]


def audit_of(runs: int) -> AuditJob:
    spine = Spine.from_columns({"tract": ["1", "1", "2", "2"], "block": ["11", "12", "21", "22"]}, root="town")
    schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    people = Histogram.from_entries(
        spine, schema, unit=[0, 0, 1, 2, 3, 3], cell=[0, 1, 2, 3, 0, 2], count=[9, 4, 7, 5, 3, 8]
    )
    run = TopDownRuns(strategy=Strategy.default(spine, schema, epsilon=2), facilities=None, seed=1, delta=0.0)
    other, proven = choose_neighbour(people, run.proven, move=None, remove=None)
    return AuditJob(
        mechanism=run, people=people, neighbour=other, proven=proven, query="detailed", runs=runs, confidence=0.95
    )


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 16_000_000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    strategy, job = Strategy.preset("pl94-2020-us-persons"), audit_of(runs)
    tally: dict[str, int] = {}
    threads = " ".join(f"{n:>6}" for n in MODELLED)
    print(f"{'':<34} {'one':>8} {'here':>8} {'Dask':>8} {'workers':>8}   gain modelled for")
    print(f"{'CPU seconds':<34} {'thread':>8} {'':>8} {'here':>8} {'':>8}   {threads} threads")
    with open_cluster("local:2") as cluster:
        protect(census_2020(persons=200_000, seed=1), strategy, seed=1, cluster=cluster)  # machine code is loaded
        protect(census_2020(persons=200_000, seed=1), strategy, seed=1, threads=1)
        count_bytes(tally)
        for persons in (most // 8, most):
            tally.clear()
            people = census_2020(persons=persons, seed=1)
            alone = seconds(partial(protect, people, strategy, seed=1, threads=1))
            figures = measured(cluster, partial(protect, people, strategy, seed=1, cluster=cluster))
            show(f"a release of {persons:,} persons", alone, *figures)
            out, back = (tally[way] / 2**20 for way in ("out", "back"))
            print(f"    {tally['tasks']:,} parcels: {out:.1f} MiB to the workers, {back:.1f} MiB back", flush=True)
        alone = seconds(lambda: job.audit(Execution(batch=job.batch)))
        show(f"an audit of {2 * runs:,} runs", alone, *measured(
            cluster, lambda: job.audit(Execution(batch=job.batch, map=cluster.map))
        ))  # fmt: skip


if __name__ == "__main__":
    main()
