"""Many runs of a mechanism on some datasets, in batches that a pool of processes can share and a store can keep."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram

RunMechanism = Callable[[Histogram, range], Any]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
Store = MutableMapping[str, NDArray[Any]]
RunsDone = Callable[[int, int], None]


@final
@dataclass(frozen=True, kw_only=True)
class Execution:
    """How many runs are executed. The result does not depend on any of it.

    Attributes
    ----------
    batch
        The number of runs in a batch.
    map
        Maps a function over the batches: the built-in, or a process pool's to use several cores.
    store
        Where batches are kept by name (:class:`tallyveil.runs.store.FolderStore` is a folder). Batches that are
        already there are not run again.
    progress
        Called with the number of runs that are done and the number of all runs, on all datasets.
    """

    batch: int = 1000
    map: Map = map
    store: Store | None = None
    progress: RunsDone | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"a batch must have 1 run or more. Got {self.batch} instead.")


@final
@dataclass(frozen=True)
class RunBatch:
    """Some consecutive runs on one dataset (``side``): from ``first`` to the one before ``last``."""

    side: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """The name under which a store keeps the batch."""
        return f"{self.side}-{self.first:09d}-{self.last:09d}"

    @property
    def runs(self) -> range:
        """The numbers of the runs."""
        return range(self.first, self.last)


def batches_of(sides: Sequence[str], runs: int, size: int, *, first: int = 0) -> list[RunBatch]:
    """The batches of all datasets from run ``first`` on, in the order in which they are run.

    >>> [batch.name for batch in batches_of(("people", "neighbour"), 150, 100)][:2]
    ['people-000000000-000000100', 'neighbour-000000000-000000100']
    """
    return [RunBatch(side, start, min(start + size, runs)) for start in range(first, runs, size) for side in sides]


def made_before(batches: Iterable[RunBatch], store: Container[str] | None) -> int:
    """How many of the batches a store has."""
    return 0 if store is None else sum(batch.name in store for batch in batches)


def outputs(
    job: Callable[[RunBatch], NDArray[Any]],
    sides: Sequence[str],
    runs: int,
    execution: Execution,
    *,
    columns: int | Mapping[str, int],
    first: int = 0,
) -> tuple[NDArray[Any], ...]:
    """The outputs on each dataset (runs x columns): those in the store, and those made and stored now.

    The runs are numbered from ``first`` to the one before ``runs``. The number of columns may differ between datasets.
    """
    store = {} if execution.store is None else execution.store
    report = execution.progress or (lambda *_: None)
    batches = batches_of(sides, runs, execution.batch, first=first)
    missing = [batch for batch in batches if batch.name not in store]
    whole = len(sides) * (runs - first)
    done = whole - sum(len(batch.runs) for batch in missing)
    report(done, whole)
    for batch, values in zip(missing, execution.map(job, missing), strict=True):
        store[batch.name] = values
        done += len(values)
        report(done, whole)
    tables: dict[str, list[NDArray[Any]]] = {side: [] for side in sides}
    for batch in batches:
        wanted = columns if isinstance(columns, int) else columns[batch.side]
        tables[batch.side].append(_checked(store[batch.name], batch, wanted))
    return tuple(np.concatenate(parts) for parts in tables.values())


def _checked(values: NDArray[Any], batch: RunBatch, columns: int) -> NDArray[Any]:
    """The values of a batch, refused if they were stored for another job."""
    if values.shape != (len(batch.runs), columns):
        raise InputError(
            f"stored runs {batch.name} have {' x '.join(map(str, values.shape))} values, not {len(batch.runs)} x "
            f"{columns}: they belong to another job. Use another folder."
        )
    return values
