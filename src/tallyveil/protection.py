"""Protect: measure, then TopDown. The two steps of the paper, and the certificate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tallyveil.certificate import declared_of, observed_of
from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.histogram import Histogram
from tallyveil.mechanisms.measure import measure
from tallyveil.optimised import OptimisedSpine
from tallyveil.populations.population import Population
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Strategy
from tallyveil.release import Release
from tallyveil.topdown.carried import run_limits
from tallyveil.topdown.constraints import check_counts
from tallyveil.topdown.decide import check_feasible
from tallyveil.topdown.engine import Progress, topdown


def protect(
    truth: Histogram | Population,
    strategy: Strategy,
    *,
    facilities: Facilities | None = None,
    seed: int | None = None,
    key: RunKey | None = None,
    replicate: int = 0,
    threads: int | None = None,
    failsafe: bool = True,
    optimised: OptimisedSpine | None = None,
    progress: Progress | None = None,
) -> Release:
    """Protect counts with a strategy.

    Parameters
    ----------
    truth
        The counts, or a synthetic census with its facilities.
    strategy
        The budget, how it is divided, and what must hold.
    facilities
        Public counts of households and group quarters, where the strategy bounds persons by them.
    seed, key
        Where randomness comes from: the operating system by default; a key (from a key file) gives the same noise for
        the same measurement again; a seed is for research and stamps the release.
    replicate
        Which sample of the noise: releases with different numbers are independent.
    threads
        How many to work with; the result does not depend on it. By default, all cores.
    failsafe
        Where noise leaves the children of a unit no way to keep their constraints, change the unit as little as
        possible. Without it such a run ends, and its budget counts all the same: whether it ends depends on the noise.
    optimised
        A spine to measure and estimate on instead of the counts' own (``Spine.optimised``); the release is on theirs.
    progress
        Called with a level, how many of its parents are done, and how many there are.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> people = Histogram.from_entries(
    ...     spine, Schema(attributes={"age": ["child", "adult"]}), unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7]
    ... )
    >>> release = protect(people, Strategy.default(spine, people.schema, epsilon=1), seed=1)
    >>> release.histogram.total()                     # as many people as there are; where and who they are is noisy
    57
    """
    people = truth.people if isinstance(truth, Population) else truth
    built = truth.facilities if facilities is None and isinstance(truth, Population) else facilities
    if seed is not None and key is not None:
        raise InputError("a seed and a key are both given. Give one.")
    run_key = key or (RunKey.from_system() if seed is None else RunKey.from_seed(seed))
    bounded = any(isinstance(constraint, FacilityBounds) for constraint in strategy.constraints)
    used = built if bounded else None
    measurements = measure(people, strategy, run_key, replicate=replicate, optimised=optimised)
    limits = run_limits(
        people.spine, people.schema, strategy, exact=measurements.exact, facilities=used, optimised=optimised
    )
    check_feasible(limits, exactly=not strategy.check_constraints)
    if strategy.check_constraints:  # data that keep them also prove that they can be kept
        check_counts(people, limits.declared, limits.possible, whose="the data")
    with _pool(threads) as run:
        histogram, solved = topdown(measurements, limits=limits, failsafe=failsafe, run=run, progress=progress)
    certificate = {
        "declared": declared_of(
            strategy,
            people.spine,
            people.schema,
            facilities=used is not None,
            stamps=people.stamps,
            seeded=run_key.seeded,
            measured_on=optimised.spine if optimised is not None else None,
        ),
        "observed": observed_of(solved),
    }
    return Release(
        histogram=histogram if optimised is None else optimised.restored(histogram),
        strategy=strategy,
        certificate=certificate,
        facilities=built if bounded else None,
        measurements=measurements,
    )


class _pool:  # noqa: N801
    """Threads that do a level's pieces in order; all work still waiting is dropped when something goes wrong."""

    def __init__(self, threads: int | None) -> None:
        self._threads = threads or os.cpu_count() or 1

    def __enter__(self) -> Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]:
        self._workers = ThreadPoolExecutor(self._threads)
        return self._workers.map

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(wait=True, cancel_futures=True)
