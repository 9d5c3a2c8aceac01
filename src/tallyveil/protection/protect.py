"""Protect: measure, then TopDown, the two steps of the paper; and the certificate.

Every check that can be made is made before any noise is drawn. Whether a run ends after that could depend on the noise,
and would be information about the people that no budget pays for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tallyveil._workers import workers
from tallyveil.blue.accuracy import unmeasured
from tallyveil.blue.estimate import estimate_pieces, estimation_problem
from tallyveil.engine.level import Progress
from tallyveil.engine.topdown import topdown
from tallyveil.errors import EndedAfterNoise, InputError
from tallyveil.files.atomic import refuse_existing
from tallyveil.files.release_folder.mdf_files import refuse_unless_mdf
from tallyveil.files.release_folder.measurement_files import measured_pairs
from tallyveil.files.release_folder.signing import read_signing_key
from tallyveil.files.release_folder.write_folder import write_release
from tallyveil.files.tables.codebook import Codebook
from tallyveil.mechanisms.measure import measure
from tallyveil.mechanisms.noisy import histogram_of, run_key
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.population import Population
from tallyveil.nouns.tables import refuse_clashing_names
from tallyveil.privacy.budget import text
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.before_noise import checked_limits
from tallyveil.release.certificate import Certificate, Observed
from tallyveil.release.declaration import Declared
from tallyveil.release.declare import declared_of, stamps_of_run
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
        The budget, how it is divided, and the constraints.
    facilities
        Public counts of households and group quarters, where the strategy bounds persons by them.
    seed, key
        The source of randomness, the operating system by default. A key (from a key file) gives the same noise again
        for the same measurement. A seed is for research, and the release is stamped accordingly.
    replicate
        Which sample of the noise to draw; releases with different numbers are independent.
    threads
        The number of threads, all cores by default. The result does not depend on it.
    failsafe
        Change a parent as little as possible where noise has made it impossible to keep all constraints, and record
        the change. Without the failsafe the run ends there, and its budget counts as spent.
    optimised
        A spine to measure and estimate on (``Spine.optimised``). The release is on the spine of the counts.
    measurements
        The (query, level) pairs whose noisy answers the release keeps in memory; None for all of them.
    progress
        Called with a level, how many of its parents are done, and how many there are.

    Raises
    ------
    InputError
        The input is invalid. No noise was drawn, and no budget is spent.
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
    run = _ProtectionRun(
        people=histogram_of(truth), facilities=_facilities_used(truth, facilities, strategy), strategy=strategy,
        key=run_key(seed, key), replicate=replicate, optimised=optimised, failsafe=failsafe, threads=threads,
        progress=progress,
    )  # fmt: skip
    pairs = measured_pairs(strategy, measurements)
    release, noisy = _protected(run)
    with _spent(run):
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
    mdf: bool = False,
    estimates: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Protect counts and write the release as a new folder; measurements go to disk as they are drawn.

    The parameters are those of :func:`protect` and ``write_release``: ``source`` says how the data were read,
    ``sign_with`` names a private key, and ``mdf`` adds the release as a microdata detail file. ``estimates`` adds the
    best linear unbiased estimates of all levels with their standard deviations (``tv.estimate``), which are computed
    from the same noisy answers and cost nothing more.
    """
    refuse_existing(folder)
    if not os.access(Path(folder).absolute().parent, os.W_OK):
        raise InputError(f"{folder}: cannot be written there. Name a folder in a folder you own.")
    if sign_with is not None:
        read_signing_key(sign_with)
    run = _ProtectionRun(
        people=histogram_of(truth), facilities=_facilities_used(truth, facilities, strategy), strategy=strategy,
        key=run_key(seed, key), optimised=optimised, failsafe=failsafe, threads=threads, progress=progress,
    )  # fmt: skip
    refuse_clashing_names(run.people)
    if mdf:
        refuse_unless_mdf(run.people, strategy)
    pairs = measured_pairs(strategy, measurements)
    if estimates:
        check_estimable(run)
    release, noisy = _protected(run)
    with _spent(run):
        margins = estimate_pieces(noisy, facilities=run.facilities) if estimates else ()
        write_release(
            release, folder, measurements=pairs, noisy=noisy, source=source, sign_with=sign_with, mdf=mdf,
            estimates=margins,
        )  # fmt: skip
    return release


@dataclass(frozen=True, kw_only=True, eq=False)
class _ProtectionRun:
    """Everything that determines a run, and how it is carried out (the last three)."""

    people: Histogram
    facilities: Facilities | None
    strategy: Strategy
    key: RunKey
    replicate: int = 0
    optimised: OptimisedSpine | None
    failsafe: bool
    threads: int | None
    progress: Progress | None

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise InputError(f"threads must be 1 or more. Got {self.threads} instead.")

    def declared(self) -> Declared:
        """What the certificate declares, from public inputs alone."""
        shaped = self.optimised is not None and "facilities" in self.optimised.shaped_by
        return declared_of(
            self.strategy,
            self.people.spine,
            self.people.schema,
            facilities=self.facilities is not None or shaped,
            stamps=stamps_of_run(self.people, self.strategy, seeded=self.key.seeded),
            optimised=self.optimised,
            filter=self.people.filter,
        )


def check_estimable(run: _ProtectionRun) -> None:
    """Refuse estimates that the strategy's measurements do not determine, before any noise is drawn."""
    people, strategy = run.people, run.strategy
    blank = unmeasured(people.spine, people.schema, strategy, optimised=run.optimised)
    problem, named = estimation_problem(blank, facilities=run.facilities, noise=False)
    for level in named:
        if run.optimised is None or run.optimised.keeps(level):
            problem.place(level)


def _facilities_used(
    truth: Histogram | Population, facilities: Facilities | None, strategy: Strategy
) -> Facilities | None:
    """The facilities that the strategy bounds persons by: those of the population unless others are given."""
    if not any(isinstance(constraint, FacilityBounds) for constraint in strategy.constraints):
        return None
    return truth.facilities if facilities is None and isinstance(truth, Population) else facilities


def _protected(run: _ProtectionRun) -> tuple[Release, Measurements]:
    """A release without measurements, and the measurements it was made from, which can still query the truth."""
    declared = run.declared()
    limits = checked_limits(run.people, run.strategy, run.facilities, optimised=run.optimised)
    noisy = measure(
        run.people, run.strategy, run.key, replicate=run.replicate, optimised=run.optimised, exact=limits.exact
    )
    with _spent(run), workers(run.threads) as mapped:
        histogram, solved = topdown(noisy, limits=limits, failsafe=run.failsafe, run=mapped, progress=run.progress)
    published = histogram if run.optimised is None else run.optimised.restored(histogram)
    release = Release(
        histogram=replace(published, filter=run.people.filter),
        strategy=run.strategy,
        certificate=Certificate(declared=declared, observed=Observed(levels=solved)),
        facilities=run.facilities,
        optimised=run.optimised,
    )
    return release, noisy


@contextmanager
def _spent(run: _ProtectionRun) -> Iterator[None]:
    """Add to any error raised after noise was drawn that the budget counts as spent, and how to repeat the run."""
    try:
        yield
    except Exception as problem:  # any error at all: that the run ended can be observed
        what = str(problem) or type(problem).__name__
        again = (
            "Run it again with the same key file or seed: it draws the same noise and costs nothing more."
            if run.key.repeatable
            else "A run with a key file (--key-file) can be repeated with the same noise; this one cannot."
        )
        raise EndedAfterNoise(
            f"{what.rstrip('.')}. Noise had been drawn, and that a run ends can depend on the noise: its budget "
            f"({run.strategy.unit} {text(run.strategy.budget)}) counts as spent. {again}"
        ) from problem
