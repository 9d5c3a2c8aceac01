"""Where many runs are made: in this process or in others, after an estimate of how long they will take."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

import typer

from tallyveil.errors import InputError
from tallyveil.runs.progress import Steps, compiling_aloud, human_seconds

if TYPE_CHECKING:
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.runs.batches import Map, RunBatch, RunMechanism

LONG = 3600.0  # seconds; longer work needs --long
POOL = 5.0  # seconds of work from which starting other processes pays
PROBE = 25  # runs that are timed


class Elsewhere(Protocol):
    """Another place where batches are made, such as an open cluster (``scale``)."""

    @property
    def threads(self) -> int:
        """How many batches can be made at the same time."""

    @property
    def map(self) -> Map:
        """Maps a function over batches."""


@final
@dataclass(frozen=True, kw_only=True)
class Batches:
    """Batches of at most ``size`` runs that are to be made; ``done`` of them were made before."""

    run: RunMechanism
    people: Histogram
    batches: Sequence[RunBatch]
    size: int
    done: int
    resumable: bool

    @contextmanager
    def made(
        self, workers: int | None, so_many: str, remedy: str, *, long: bool, elsewhere: Elsewhere | None = None
    ) -> Iterator[tuple[Map, Callable[[int, int], None]]]:
        """A map to make the batches with and a function to report progress to, after announcing the time needed."""
        cores = (workers or os.cpu_count() or 1) if elsewhere is None else elsewhere.threads
        total = len(self.batches)
        runs = sum(len(batch.runs) for batch in self.batches) * (1 - self.done / total)
        seconds = self._seconds_per_run() * runs / cores
        _announce(seconds, so_many, remedy, long=long)
        unit = f"batches of {self.size:,} runs"
        alone = elsewhere is None and (cores == 1 or seconds <= POOL)
        with (
            _pool(1 if alone else cores) if elsewhere is None else nullcontext(elsewhere.map) as pool_map,
            Steps(unit, total, done=self.done, abreast=1 if alone else cores, resumable=self.resumable) as steps,
        ):
            yield pool_map, _follow(steps, total)

    def _seconds_per_run(self) -> float:
        """About how long one run takes on one core, from a few that are timed."""
        with compiling_aloud():
            self._time(range(1))
        probe = range(min(self.size, PROBE))
        return self._time(probe) / len(probe)

    def _time(self, runs: range) -> float:
        start = time.perf_counter()
        output = self.run(self.people, runs)
        if isinstance(output, Iterator):
            for _ in output:
                pass
        return time.perf_counter() - start


def check_workers(workers: int | None) -> None:
    """Refuse a number of processes below 1."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be 1 or more. Got {workers} instead.")


def _announce(seconds: float, runs: str, remedy: str, *, long: bool) -> None:
    """Say how long the work will take; refuse more than an hour unless it was asked for."""
    if seconds > LONG and not long:
        raise InputError(f"{runs} take about {human_seconds(seconds)}. {remedy}, use fewer --runs, or add --long.")
    if seconds > POOL:
        typer.echo(f"this takes about {human_seconds(seconds)}", err=True)


def _follow(steps: Steps, total: int) -> Callable[[int, int], None]:
    """Progress in steps, from the number of runs that are done and the number of all runs."""
    reported = 0

    def progress(done: int, runs: int) -> None:
        nonlocal reported
        while reported < total * done // runs:
            steps.step()
            reported += 1

    return progress


@contextmanager
def _pool(workers: int) -> Iterator[Map]:
    """The built-in map, or that of a pool of processes; waiting work is cancelled when something goes wrong."""
    if workers == 1:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_follow_parent)
    try:
        yield pool.map
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _follow_parent() -> None:
    """End this process when its parent has ended, and only then.

    Ctrl-C and a terminal that closes reach every process; the parent ends the others. A parent that was killed cannot,
    and a worker would wait for it forever.
    """
    import signal
    from multiprocessing import parent_process
    from threading import Thread

    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    parent = parent_process()

    def end_with_it() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=end_with_it, daemon=True).start()
