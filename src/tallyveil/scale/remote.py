"""What runs on a worker: the check that it may, and one task.

A task never raises: Dask would write its error, with a traceback, into the worker's log, and messages can hold counts.
Errors travel back as values, sealed like results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from tallyveil.scale.sealed import Sealed

SPILLING = (
    "it may spill data to disk. Start it with DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=False and "
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL=False"
)


@final
@dataclass(frozen=True)
class Wanted:
    """What a worker must be: what runs on it, and whether all its connections must be encrypted."""

    versions: Mapping[str, str]
    encrypted: bool


@final
@dataclass(frozen=True)
class Refused:
    """Why a worker may not take part, in words."""

    worker: str
    words: str


@final
@dataclass(frozen=True)
class Failed:
    """The error of a task, and where it was raised (without any data)."""

    problem: Exception


def hold(shared: Sealed) -> Sealed:
    """A task whose result is what many tasks have in common. If its worker dies, the scheduler runs it again."""
    return shared


def work(wanted: Wanted, shared: Sealed, parcel: Sealed) -> Sealed:
    """Call the shared function on what is in the parcel."""
    from distributed import get_worker

    try:
        words = refusal(wanted, get_worker())
        if words is not None:
            return Sealed.of(Refused(get_worker().address, words))
        return Sealed.of(shared.opened()(parcel.opened()))
    except Exception as problem:  # see above
        return _failed(problem)


def refusal_of(wanted: Wanted, dask_worker: Any) -> str | None:
    """Why this worker may not take part (``Client.run`` fills in the worker); None if it may."""
    return refusal(wanted, dask_worker)


def refusal(wanted: Wanted, worker: Any) -> str | None:
    """Why a worker may not take part; None if it may."""
    from tallyveil.scale.same import difference, what_runs_here

    addresses = (worker.address, worker.scheduler.address)
    if wanted.encrypted and not all(address.startswith("tls://") for address in addresses):
        return "its connections are not encrypted. Start it with --protocol tls and certificates"
    if not isinstance(worker.data, dict):
        return SPILLING
    different = difference(wanted.versions, what_runs_here())
    return None if different is None else f"{different}. Install the same packages everywhere"


def _failed(problem: Exception) -> Sealed:
    try:
        return Sealed.of(Failed(problem))
    except Exception:  # an error that cannot be pickled
        return Sealed.of(Failed(RuntimeError(f"{type(problem).__name__} on a worker")))
