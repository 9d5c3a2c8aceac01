"""Many runs of a mechanism: how long they take, where they are made, how they are followed, what they depend on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.cli.audited import SimpleRuns, TopDownRuns
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.runs.progress import Steps

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
LONG = 3600.0  # seconds; more must be asked for
POOL = 5.0  # seconds of work from which other processes are worth their start


@final
@dataclass(frozen=True, kw_only=True)
class Batches:
    """Runs of a mechanism in batches; those in the store were made before."""

    run: Callable[[Histogram, range], Any]
    people: Histogram
    names: list[str]
    batch: int
    store: Mapping[str, Any] | None

    @contextmanager
    def made(
        self, workers: int | None, so_many: str, remedy: str, *, long: bool
    ) -> Iterator[tuple[Map, Callable[[int, int], None]]]:
        """Where they are made, and whom to tell of each; first it is said how long that will take."""
        from tallyveil.runs.progress import Steps

        known = sum(name in self.store for name in self.names) if self.store is not None else 0
        cores = workers or os.cpu_count() or 1
        seconds = _seconds_of(self.run, self.people, self.batch) * (len(self.names) - known) * self.batch / cores
        _announce(seconds, so_many, remedy, long=long)
        what, resumable = f"batches of {self.batch:,} runs", self.store is not None
        with (
            _pool_of(cores, seconds=seconds) as spread,
            Steps(what, len(self.names), done=known, resumable=resumable) as steps,
        ):
            yield spread, _follow(steps, known)


def _seconds_of(run: Callable[[Histogram, range], Any], people: Histogram, batch: int) -> float:
    """About how long one run takes on one core: some are made to see."""
    from tallyveil.cli.compiling import compiling_aloud

    def made(some: range) -> float:
        start = time.perf_counter()
        output = run(people, some)
        if isinstance(output, Iterator):
            for _ in output:
                pass
        return time.perf_counter() - start

    with compiling_aloud():
        made(range(1))
    tried = min(batch, 25)
    return made(range(tried)) / tried


def _announce(seconds: float, runs: str, remedy: str, *, long: bool) -> None:
    """Say how long it will take; more than an hour must be asked for."""
    from tallyveil.cli.planning import human_seconds

    if seconds > LONG and not long:
        raise InputError(f"{runs} take about {human_seconds(seconds)}. {remedy}, use fewer --runs, or say --long.")
    if seconds > POOL:
        typer.echo(f"this takes about {human_seconds(seconds)}", err=True)


def _follow(steps: Steps, known: int) -> Callable[[int, int], None]:
    """Progress that is told first of what was done before, then of each batch."""
    first = True

    def progress(*_: int) -> None:
        nonlocal first
        for _step in range(known if first else 1):
            steps.step()
        first = False

    return progress


@contextmanager
def _pool_of(workers: int, *, seconds: float) -> Iterator[Map]:
    """How batches run: here, or in other processes; work still waiting is dropped when something goes wrong."""
    if workers == 1 or seconds <= POOL:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_let_the_parent_stop)
    try:
        yield pool.map
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _let_the_parent_stop() -> None:
    """Ctrl-C reaches all processes of a terminal; the first one ends the others."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def settings_of(run: TopDownRuns | SimpleRuns) -> dict[str, Any]:
    """What the runs depend on besides the data; a strategy's shares as a digest, which is public as they are."""
    from hashlib import sha256

    from tallyveil.cli.audited import TopDownRuns
    from tallyveil.privacy.strategy_toml import strategy_to_toml

    if not isinstance(run, TopDownRuns):
        return {
            "mechanism": run.name,
            "budget": f"epsilon {run.epsilon}",
            "seed": run.seed,
            "holds for": run.neighbours,
        }
    plan = run.strategy
    digest = sha256(strategy_to_toml(plan.with_budget(**{plan.unit: 1})).encode()).hexdigest()[:12]
    return {
        "mechanism": "topdown",
        "budget": f"{plan.unit} {plan.budget}",
        "seed": run.seed,
        "strategy": digest,
    }
