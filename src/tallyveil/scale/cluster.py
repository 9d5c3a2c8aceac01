"""Work on a Dask cluster: the engine's pieces of levels, and batches of runs.

Tasks are submitted a few at a time, so that the scheduler never holds more than a few parcels. A task's name is a
random number of the job and the numbers of a level and its units, or of a batch; nothing is hashed for it. If a worker
dies, the scheduler gives its tasks to others. Noise is a function of its place, so a task that runs twice draws the
same noise twice. If the scheduler dies, the run ends (``LostCluster``); finished pieces are kept where a run keeps
them.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any, final

from tallyveil._workers import workers
from tallyveil.errors import InputError, LostCluster
from tallyveil.scale.place import ClusterPlace
from tallyveil.scale.remote import Failed, Refused, Wanted, hold, refusal_of, work
from tallyveil.scale.sealed import Sealed

PATIENCE = 30  # seconds to wait for a scheduler and for a first worker
RECOUNT = 5  # seconds after which workers are counted again
AHEAD = 2  # tasks that are submitted for each thread of the cluster
CERTIFICATES = ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
# In this process and in those that it starts: parcels are larger than Dask likes the arguments of tasks to be, nothing
# is spilled to disk, and no pages tell about the work.
SETTINGS = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.admin.large-graph-warning-threshold": "1TB",
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


@contextmanager
def open_cluster(place: ClusterPlace | str, *, seeded: bool = True) -> Iterator[Cluster]:
    """Connect to a cluster, or start processes here, and refuse workers that would not compute the same bytes.

    Parameters
    ----------
    place
        ``tls://HOST:PORT``, ``tcp://HOST:PORT`` or ``local:N``.
    seeded
        Whether the noise comes from a seed. Otherwise true counts and a secret key travel, and plain text is refused.

    Examples
    --------
    ::

        with open_cluster("local:2") as cluster:
            release = protect(people, strategy, seed=1, cluster=cluster)
    """
    place = ClusterPlace(place) if isinstance(place, str) else place
    place.refuse_plaintext(seeded=seeded)
    try:
        import dask
        import distributed  # noqa: F401 (is it there?)
    except ImportError:
        raise InputError('a cluster needs Dask, which is not installed: pip install "tallyveil[cluster]"') from None
    with dask.config.set(SETTINGS), _connected(place) as client:
        cluster = Cluster(client, place)
        cluster.check()
        yield cluster


@final
class Cluster:
    """An open cluster. ``run`` is for the engine, ``map`` for batches of runs; both give results in order."""

    def __init__(self, client: Any, place: ClusterPlace) -> None:
        from tallyveil.scale.same import what_runs_here  # not for the scheduler, which imports this module too

        self.place = place
        self._client, self._job, self._maps = client, secrets.token_hex(8), 0
        self._threads, self._counted = 1, -math.inf
        self._wanted = Wanted(what_runs_here(), place.encrypted)

    @property
    def threads(self) -> int:
        """How many tasks can run at the same time. Workers may join and leave."""
        if time.monotonic() > self._counted + RECOUNT:
            try:
                self._threads = max(1, int(sum(self._client.nthreads().values())))
            except OSError as problem:
                raise self._lost(problem) from None
            self._counted = time.monotonic()
        return self._threads

    def check(self) -> None:
        """Refuse workers that would not compute the same bytes, or that would leave something on a disk."""
        with suppress(TimeoutError):
            self._client.wait_for_workers(1, timeout=PATIENCE)
        found = self._client.run(refusal_of, self._wanted, on_error="return")
        if not found:
            raise InputError(f"cluster {self.place.address}: no worker has joined within {PATIENCE} s. Start some.")
        for worker, words in found.items():
            if isinstance(words, Exception):
                words = f"{type(words).__name__} ({words}). Install tallyveil there, as it is here"
            if words is not None:
                raise InputError(f"cluster {self.place.address}: worker {worker} is refused: {words}.")

    def run(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Solve the pieces of a level on the cluster (``_workers.Run``). What cannot travel runs on threads here."""
        from tallyveil.scale.travelling import TravellingLevel

        level = TravellingLevel.of(function)
        if level is None:
            with workers() as mapped:
                yield from mapped(function, items)
            return
        spans = list(items)
        kept = {number: piece for number, span in enumerate(spans) if (piece := level.kept(span)) is not None}
        missing = [number for number in range(len(spans)) if number not in kept]
        parcels = ((number, level.name(spans[number]), level.parcel(spans[number])) for number in missing)
        solved = ((n, level.done(spans[n], outcome)) for n, outcome in self._completed(level.shared, parcels))
        yield from _in_order(kept, solved, len(spans))

    def map(self, function: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        """Call a function on items like ``map``. The function, which may hold data, travels once to each worker."""
        listed = list(zip(*items, strict=False))
        parcels = ((number, str(number), arguments) for number, arguments in enumerate(listed))
        yield from _in_order({}, self._completed(lambda: _OnArguments(function), parcels), len(listed))

    def _completed(
        self, shared: Callable[[], Any], parcels: Iterator[tuple[int, str, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Submit parcels a few at a time; gives the number and the outcome of each in the order of completion."""
        from distributed import as_completed

        self._maps += 1
        prefix, common = f"tallyveil-{self._job}-{self._maps}", None
        numbers: dict[str, int] = {}
        done = as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        try:
            while True:
                while len(numbers) < AHEAD * self.threads and (parcel := next(parcels, None)) is not None:
                    number, name, content = parcel
                    common = common or self._submit(hold, Sealed.of(shared()), key=f"{prefix}-shared")
                    future = self._submit(work, self._wanted, common, Sealed.of(content), key=f"{prefix}-{name}")
                    numbers[future.key] = number
                    done.add(future)
                    del future
                if not numbers:
                    return
                future, result = next(done)
                yield numbers.pop(future.key), self._outcome(future, result)
                del future, result
        finally:
            if numbers:
                with suppress(Exception):  # the scheduler may be gone
                    self._client.cancel([*done.futures, common], force=True)

    def _submit(self, function: Callable[..., Any], *arguments: Any, key: str) -> Any:
        if self._client.status != "running":
            raise self._lost("the connection to the scheduler is closed")
        try:
            return self._client.submit(function, *arguments, key=key, pure=False)
        except OSError as problem:
            raise self._lost(problem) from None

    def _outcome(self, future: Any, result: Any) -> Any:
        """What a task returned; its error, or the loss of the cluster, is raised."""
        if future.status != "finished" or not isinstance(result, Sealed):
            raise self._lost(result[1] if isinstance(result, tuple) else result)
        outcome = result.opened()
        if isinstance(outcome, Refused):
            raise self._lost(f"worker {outcome.worker} joined and is refused: {outcome.words}")
        if isinstance(outcome, Failed):
            raise outcome.problem
        return outcome

    def _lost(self, why: object) -> LostCluster:
        """The error that ends the run. Finished pieces are kept, so it is not the work's own error."""
        words = f"{type(why).__name__}: {why}" if isinstance(why, BaseException) else str(why)
        return LostCluster(f"the cluster {self.place.address} was lost ({words.splitlines()[0]}). Start it again.")


@final
class _OnArguments:
    """A function of one tuple of arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        return self.function(*arguments)


def _in_order(known: dict[int, Any], completed: Iterator[tuple[int, Any]], count: int) -> Iterator[Any]:
    """Results in the order of their numbers; those that are completed too early are held."""
    held = dict(known)
    for number in range(count):
        while number not in held:
            early, outcome = next(completed)
            held[early] = outcome
        yield held.pop(number)


@contextmanager
def _connected(place: ClusterPlace) -> Iterator[Any]:
    """A client of the cluster's scheduler, closed at the end; processes of this machine end with it."""
    if place.processes is None:
        with _client(place, place.address, _security(place)) as client:
            yield client
        return
    from distributed import LocalCluster, Security

    security = Security.temporary()  # a certificate of this run alone, in memory
    with (
        TemporaryDirectory(prefix="tallyveil-") as folder,
        LocalCluster(
            n_workers=place.processes,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=security,
            dashboard_address=None,
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            memory_limit=0,
            local_directory=folder,
            preload=["tallyveil.scale.local_worker"],
            silence_logs=logging.ERROR,
        ) as started,
        _client(place, started.scheduler_address, security) as client,
    ):
        yield client


@contextmanager
def _client(place: ClusterPlace, address: str, security: Any) -> Iterator[Any]:
    from distributed import Client

    try:
        client = Client(address, security=security, timeout=PATIENCE, set_as_default=False, name="tallyveil")
    except (OSError, ValueError, TypeError) as problem:
        words = str(problem).partition("\n")[0]
        raise InputError(
            f"cluster {place.address}: no scheduler answers there ({words}). Start it, or correct the address."
        ) from None
    try:
        yield client
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close(timeout=PATIENCE if client.status == "running" else 1)


def _security(place: ClusterPlace) -> Any:
    """The certificates of Dask's own configuration, which ``tls://`` needs."""
    from distributed import Security

    security = Security(require_encryption=True) if place.encrypted else Security()
    if place.encrypted and not (security.tls_ca_file and security.tls_client_cert):
        names = ", ".join(f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in CERTIFICATES)
        raise InputError(f"cluster {place.address}: no certificates. Set {names} (see docs/how-to/cluster.md).")
    return security
