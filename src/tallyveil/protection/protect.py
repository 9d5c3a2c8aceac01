"""Protect: measure, then TopDown. The two steps of the paper, and the certificate.

Everything that can be refused is refused before any noise is drawn: whether a run ends after that could depend on the
noise, and would be information about the people that no budget pays for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tallyveil.engine.constraints import check_counts
from tallyveil.engine.feasibility import check_feasible
from tallyveil.engine.level import Progress
from tallyveil.engine.run_limits import RunLimits, run_limits
from tallyveil.engine.topdown import topdown
from tallyveil.errors import BudgetError, EndedAfterNoise, InputError
from tallyveil.files.atomic import refuse_existing
from tallyveil.files.release_folder.measurement_files import measured_pairs
from tallyveil.files.release_folder.signing import read_signing_key
from tallyveil.files.release_folder.write_folder import write_release
from tallyveil.files.tables.codebook import Codebook
from tallyveil.mechanisms.measure import exact_answers, measure
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.population import Population
from tallyveil.nouns.tables import refuse_clashing_names
from tallyveil.privacy.budget import text
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.certificate import Certificate, Observed
from tallyveil.release.declared import declared_of, stamps_of_run
from tallyveil.release.measurements import Measurements, Pair
from tallyveil.release.release import Release


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
    measurements: Sequence[Pair] | None = (),
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
        Change a parent as little as possible where the noise leaves constraints that cannot all hold, and record it.
        Without it the run ends there, and its budget is spent all the same.
    optimised
        A spine to measure and estimate on instead of the counts' own (``Spine.optimised``); the release is on theirs.
    measurements
        The (query, level) pairs whose noisy answers the release keeps, in memory; None for all of them.
    progress
        Called with a level, how many of its parents are done, and how many there are.

    Raises
    ------
    InputError
        Something is wrong with what was given. No noise was drawn, and nothing is spent.
    EndedAfterNoise
        The run ended after noise was drawn. Its budget counts as spent.

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
    people, built, run_key = _given(truth, facilities, seed, key)
    pairs = measured_pairs(strategy, measurements)
    release, noisy = _protected(
        people, strategy, built, run_key, replicate=replicate, threads=threads, failsafe=failsafe,
        optimised=optimised, progress=progress,
    )  # fmt: skip
    with _spent(strategy, run_key):
        return replace(release, measurements=noisy.saved(pairs)) if pairs else release


def protect_to_folder(
    truth: Histogram | Population,
    strategy: Strategy,
    folder: str | os.PathLike[str],
    *,
    facilities: Facilities | None = None,
    seed: int | None = None,
    key: RunKey | None = None,
    threads: int | None = None,
    failsafe: bool = True,
    optimised: OptimisedSpine | None = None,
    measurements: Sequence[Pair] | None = (),
    source: Codebook | None = None,
    sign_with: Path | None = None,
    progress: Progress | None = None,
) -> Release:
    """Protect counts and write the release as a new folder; measurements go to disk as they are drawn.

    The parameters are those of :func:`protect` and ``write_release``: ``source`` says how the data were read, and
    ``sign_with`` names a private key.
    """
    refuse_existing(folder)
    if not os.access(Path(folder).absolute().parent, os.W_OK):
        raise InputError(f"{folder}: cannot be written there. Name a folder in a folder you own.")
    if sign_with is not None:
        read_signing_key(sign_with)
    people, built, run_key = _given(truth, facilities, seed, key)
    refuse_clashing_names(people)
    pairs = measured_pairs(strategy, measurements)
    release, noisy = _protected(
        people, strategy, built, run_key, replicate=0, threads=threads, failsafe=failsafe,
        optimised=optimised, progress=progress,
    )  # fmt: skip
    with _spent(strategy, run_key):
        write_release(release, folder, measurements=pairs, noisy=noisy, source=source, sign_with=sign_with)
    return release


def checked_limits(
    people: Histogram, strategy: Strategy, facilities: Facilities | None, *, optimised: OptimisedSpine | None = None
) -> RunLimits:
    """What the constraints bound, after all that can be refused before noise was refused.

    Whether bounds and invariants can hold together is decided without the data. The data are compared with the bounds
    only if the strategy says so: the guarantee is then about neighbours that satisfy them.
    """
    exact = exact_answers(people, strategy)
    limits = run_limits(people.spine, people.schema, strategy, exact=exact, facilities=facilities, optimised=optimised)
    check_feasible(limits, exactly=not strategy.check_constraints)
    if strategy.neighbours == "add-or-remove" and strategy.check_constraints:
        _refuse_one_number_of_people(limits)
    if strategy.check_constraints:  # data that keep them also prove that they can be kept
        check_counts(people, limits.declared, limits.possible, whose="the data")
    return limits


def _refuse_one_number_of_people(limits: RunLimits) -> None:
    """Refuse bounds that leave one number of people only: no two datasets of which one has a person more keep them."""
    bounds = [one.all() for one in limits.carried[limits.measured.levels[0]]]
    least = max((sum(low.ravel().tolist()) for low, _ in bounds), default=0)
    most = min((sum(high.ravel().tolist()) for _, high in bounds), default=least + 1)
    if least == most:
        raise BudgetError(
            f'neighbours = "add-or-remove", but the constraints leave one number of people, {least:,}: nothing would '
            f'be protected. Drop a constraint, use --unchecked-constraints, or "replace-one".'
        )


def _given(
    truth: Histogram | Population, facilities: Facilities | None, seed: int | None, key: RunKey | None
) -> tuple[Histogram, Facilities | None, RunKey]:
    """The people, their facilities, and the key of the run."""
    if seed is not None and key is not None:
        raise InputError("a seed and a key are both given. Give one.")
    run_key = key or (RunKey.from_system() if seed is None else RunKey.from_seed(seed))
    if isinstance(truth, Population):
        return truth.people, truth.facilities if facilities is None else facilities, run_key
    return truth, facilities, run_key


def _protected(
    people: Histogram,
    strategy: Strategy,
    facilities: Facilities | None,
    key: RunKey,
    *,
    replicate: int,
    threads: int | None,
    failsafe: bool,
    optimised: OptimisedSpine | None,
    progress: Progress | None,
) -> tuple[Release, Measurements]:
    """A release without measurements, and the measurements it was made from, which can still ask the truth."""
    bounded = any(isinstance(constraint, FacilityBounds) for constraint in strategy.constraints)
    used = facilities if bounded else None
    declared = declared_of(
        strategy,
        people.spine,
        people.schema,
        facilities=used is not None or (optimised is not None and "facilities" in optimised.shaped_by),
        stamps=stamps_of_run(people, strategy, seeded=key.seeded),
        optimised=optimised,
        filter=people.filter,
    )
    limits = checked_limits(people, strategy, used, optimised=optimised)
    pool = _pool(threads)
    noisy = measure(people, strategy, key, replicate=replicate, optimised=optimised)
    with _spent(strategy, key), pool as run:
        histogram, solved = topdown(noisy, limits=limits, failsafe=failsafe, run=run, progress=progress)
    published = histogram if optimised is None else optimised.restored(histogram)
    release = Release(
        histogram=replace(published, filter=people.filter),
        strategy=strategy,
        certificate=Certificate(declared=declared, observed=Observed(levels=tuple(solved))),
        facilities=used,
        optimised=optimised,
    )
    return release, noisy


@contextmanager
def _spent(strategy: Strategy, key: RunKey) -> Iterator[None]:
    """Say of whatever ends a run after noise was drawn that its budget counts, and how to repeat it."""
    try:
        yield
    except Exception as problem:  # whatever it is: that the run ended is seen
        what = str(problem) or type(problem).__name__
        again = (
            "Run it again with the same key file or seed: it draws the same noise and costs nothing more."
            if key.repeatable
            else "A run with a key file (--key-file) can be repeated with the same noise; this one cannot."
        )
        raise EndedAfterNoise(
            f"{what.rstrip('.')}. Noise had been drawn, and that a run ends can depend on the noise: its budget "
            f"({strategy.unit} {text(strategy.budget)}) counts as spent. {again}"
        ) from problem


class _pool:  # noqa: N801
    """Threads that do a level's pieces in order; all work still waiting is dropped when something goes wrong."""

    def __init__(self, threads: int | None) -> None:
        if threads is not None and threads < 1:
            raise InputError(f"threads must be 1 or more. Got {threads} instead.")
        self._threads = threads or os.cpu_count() or 1

    def __enter__(self) -> Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]:
        self._workers = ThreadPoolExecutor(self._threads)
        return self._workers.map

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(wait=True, cancel_futures=True)
