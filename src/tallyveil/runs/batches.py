"""Many runs of a mechanism on two datasets, in batches that a pool of processes can share and a store can keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
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
        Called with the number of runs that are done and the number of all runs, on both datasets.
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


def batches_of(sides: tuple[str, str], runs: int, size: int) -> list[RunBatch]:
    """The batches of both datasets, in the order in which they are run.

    >>> [batch.name for batch in batches_of(("people", "neighbour"), 150, 100)][:2]
    ['people-000000000-000000100', 'neighbour-000000000-000000100']
    """
    return [RunBatch(side, first, min(first + size, runs)) for first in range(0, runs, size) for side in sides]


def outputs(
    job: Callable[[RunBatch], NDArray[Any]], sides: tuple[str, str], runs: int, execution: Execution, *, columns: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The outputs of all runs on each dataset (runs x columns): those in the store, and those made and stored now."""
    store = {} if execution.store is None else execution.store
    report = execution.progress or (lambda *_: None)
    batches = batches_of(sides, runs, execution.batch)
    missing = [batch for batch in batches if batch.name not in store]
    done = 2 * runs - sum(len(batch.runs) for batch in missing)
    report(done, 2 * runs)
    for batch, values in zip(missing, execution.map(job, missing), strict=True):
        store[batch.name] = values
        done += len(values)
        report(done, 2 * runs)
    tables = {batch: _checked(store[batch.name], batch, columns) for batch in batches}
    one, two = (np.concatenate([tables[batch] for batch in batches if batch.side == side]) for side in sides)
    return one, two


def _checked(values: NDArray[Any], batch: RunBatch, columns: int) -> NDArray[Any]:
    """The values of a batch, refused if they were stored for another job."""
    if values.shape != (len(batch.runs), columns):
        raise InputError(
            f"stored runs {batch.name} have {' x '.join(map(str, values.shape))} values, not {len(batch.runs)} x "
            f"{columns}: they belong to another job. Use another folder."
        )
    return values
