"""Protect: measure, then TopDown, the two steps of the paper; and the certificate.

Every check that can be made is made before any noise is drawn. Whether a run ends after that could depend on the noise,
and would be information about the people that no budget pays for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tallyveil._workers import Run, workers
from tallyveil.blue.accuracy import unmeasured
from tallyveil.blue.estimate import estimate_pieces, estimation_problems
from tallyveil.blue.parts import check_reached
from tallyveil.engine.exact_values import exact_values
from tallyveil.engine.level import Progress
from tallyveil.engine.run_limits import RunLimits
from tallyveil.engine.set_aside import SetAside
from tallyveil.engine.topdown import topdown
from tallyveil.errors import EndedAfterNoise, InputError, LostCluster, TallyveilError
from tallyveil.files.ledger.of_release import entry_of
from tallyveil.files.ledger.programme import Entry
from tallyveil.files.release_folder.mdf_files import refuse_unless_mdf
from tallyveil.files.release_folder.measurement_files import measured_pairs
from tallyveil.files.release_folder.signing import read_signing_key
from tallyveil.files.release_folder.write_folder import write_release
from tallyveil.files.tables.codebook import Codebook
from tallyveil.files.work_folder import Say, refuse_target
from tallyveil.mechanisms.measure import measure
from tallyveil.mechanisms.noisy import histogram_of, run_key
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.paged_counts import PagedCounts
from tallyveil.nouns.population import Population
from tallyveil.nouns.tables import refuse_clashing_names
from tallyveil.privacy.budget import text
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.entropy import RunKey, Seal
from tallyveil.privacy.loss import loss_of
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.before_noise import checked_limits, refuse_full_disk, refuse_little_memory
from tallyveil.protection.resuming import KeptWork, job_seal, kept_work
from tallyveil.protection.spending import Spending, booking
from tallyveil.release.about import About
from tallyveil.release.certificate import Certificate, Observed
from tallyveil.release.declaration import Declared
from tallyveil.release.declare import declared_of, stamps_of_run
from tallyveil.release.measurements import Measurements, Pair
from tallyveil.release.release import Release
from tallyveil.scale.cluster import Cluster, open_cluster
from tallyveil.scale.place import ClusterPlace

Where = Cluster | ClusterPlace | str | None  # a cluster; None is this process


def protect(
    truth: Histogram | Population,
    strategy: Strategy,
    *,
    facilities: Facilities | None = None,
    seed: int | None = None,
    key: RunKey | None = None,
    replicate: int = 0,
    threads: int | None = None,
    cluster: Where = None,
    failsafe: bool = True,
    optimised: OptimisedSpine | None = None,
    measurements: Sequence[Pair] | None = (),
    about: About | None = None,
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
    cluster
        Where pieces of levels are solved instead of on threads: ``"tls://HOST:PORT"`` of a Dask scheduler,
        ``"local:N"`` for N processes here, or an open cluster (``tallyveil.scale.open_cluster``). The result is the
        same, byte for byte.
    failsafe
        Change a parent as little as possible where noise has made it impossible to keep all constraints, and record
        the change. Without the failsafe the run ends there, and its budget counts as spent.
    optimised
        A spine to measure and estimate on (``Spine.optimised``). The release is on the spine of the counts.
    measurements
        The (query, level) pairs whose noisy answers the release keeps in memory; None for all of them.
    about
        Words for readers of the certificate: title, organisation, population and so on. The date is today by default.
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
        key=run_key(seed, key), replicate=replicate, optimised=optimised, failsafe=failsafe, about=about,
        threads=threads, cluster=cluster, progress=progress,
    )  # fmt: skip
    pairs = measured_pairs(strategy, measurements)
    release, noisy = _protected(run, run.limits(), aside=SetAside() if run.paged else None)
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
    cluster: Where = None,
    failsafe: bool = True,
    optimised: OptimisedSpine | None = None,
    measurements: Sequence[Pair] | None = (),
    source: Codebook | None = None,
    sign_with: Path | None = None,
    mdf: bool = False,
    estimates: bool = False,
    resume: bool = False,
    about: About | None = None,
    ledger: Spending | None = None,
    progress: Progress | None = None,
    say: Say = lambda _: None,
) -> Release:
    """Protect counts and write the release as a new folder; measurements go to disk as they are drawn.

    The parameters are those of :func:`protect` and ``write_release``: ``source`` says how the data were read,
    ``sign_with`` names a private key, and ``mdf`` adds the release as a microdata detail file. ``estimates`` adds the
    best linear unbiased estimates of all levels with their standard deviations (``tv.estimate``), which are computed
    from the same noisy answers and cost nothing more. ``ledger`` is the programme's ledger: the budget is reserved
    there before noise is drawn, and refused beyond its limit.

    A run with a key file or a seed keeps its finished work beside the folder (``files.work_folder``). If it is
    interrupted, the same call resumes it; work of another run is removed, or with ``resume`` refused. ``say`` is called
    with a sentence about what is resumed.
    """
    refuse_target(folder)
    if sign_with is not None:
        read_signing_key(sign_with)
    run = _ProtectionRun(
        people=histogram_of(truth), facilities=_facilities_used(truth, facilities, strategy), strategy=strategy,
        key=run_key(seed, key), optimised=optimised, failsafe=failsafe, about=about, threads=threads,
        cluster=cluster, progress=progress,
    )  # fmt: skip
    refuse_clashing_names(run.people)
    if mdf:
        refuse_unless_mdf(run.people, strategy)
        if run.paged:
            raise _needs_memory("a microdata detail file")
    pairs = measured_pairs(strategy, measurements)
    if estimates:
        check_estimable(run)
    refuse_full_disk(folder, run.people, run.strategy, pairs, optimised=optimised)
    limits = run.limits()
    refuse_little_memory(run.people, run.strategy, threads=threads)
    with kept_work(folder, run.seal(), limits.measured, resume=resume, say=say) as work, booking(ledger) as budget:
        release, noisy = _protected(
            run, limits, work, aside=SetAside(Path(folder).absolute().parent) if run.paged else None,
            reserve=lambda made: budget.reserve(run.entry(Path(folder).name, made)),
        )  # fmt: skip
        with _spent(run, work):
            write_release(
                release, folder, measurements=pairs, noisy=noisy, source=source, sign_with=sign_with, mdf=mdf,
                estimates=estimate_pieces(noisy, facilities=run.facilities) if estimates else (),
            )  # fmt: skip
        budget.confirm(Path(folder))
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
    about: About | None
    threads: int | None
    cluster: Where
    progress: Progress | None

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise InputError(f"threads must be 1 or more. Got {self.threads} instead.")
        if self.threads is not None and self.cluster is not None:
            raise InputError("threads and a cluster are both given. A cluster has its own threads: give one of them.")
        if self.paged and self.optimised is not None:
            raise _needs_memory("an optimised spine")
        object.__setattr__(self, "strategy", self.strategy.bounded_by(self.facilities))
        self.strategy.check(self.people.spine, self.people.schema)
        spine, schema = self.people.spine, self.people.schema
        measured = calibrated(self.strategy, spine=spine, schema=schema, optimised=self.optimised)
        object.__setattr__(self, "strategy", measured)
        loss_of(self.people, measured, self.optimised)  # refuses accounting that the rows of a person rule out

    @property
    def paged(self) -> bool:
        """Whether the people are read in parts, because they would not keep the limit on memory."""
        return isinstance(self.people.leaves, PagedCounts)

    def declared(self, limits: RunLimits) -> Declared:
        """What the certificate declares, from public inputs alone."""
        shaped = self.optimised is not None and "facilities" in self.optimised.shaped_by
        return declared_of(
            self.strategy,
            self.people.spine,
            self.people.schema,
            facilities=self.facilities is not None or shaped,
            stamps=stamps_of_run(self.people, self.strategy, seeded=self.key.seeded),
            seeded=self.key.seeded,
            optimised=self.optimised,
            filter=self.people.filter,
            rows_per_person=self.people.rows_per_person,
            about=(self.about or About()).dated(),
            exact_values=exact_values(limits, self.strategy),
        )

    @contextmanager
    def workers(self) -> Iterator[Run]:
        """Where pieces of levels are solved: on threads of this process, or on a cluster."""
        seeded = self.key.seeded
        if self.cluster is None:
            with workers(self.threads) as mapped:
                yield mapped
        elif isinstance(self.cluster, Cluster):
            self.cluster.place.refuse_plaintext(seeded=seeded)
            yield self.cluster.run
        else:
            with open_cluster(self.cluster, seeded=seeded) as cluster:
                yield cluster.run

    def limits(self) -> RunLimits:
        """What the run must keep, after every check that can be made before noise is drawn."""
        return checked_limits(self.people, self.strategy, self.facilities, optimised=self.optimised)

    def seal(self) -> Seal | None:
        """The seal of the run's work, if the run can be repeated."""
        if not self.key.repeatable:
            return None
        options = (self.failsafe, self.replicate)
        return job_seal(self.key, self.people, self.strategy, self.facilities, self.optimised, options)

    def entry(self, name: str, certificate: Certificate) -> Entry:
        """What a ledger records about the run."""
        return entry_of(name, loss_of(self.people, self.strategy, self.optimised), certificate)


def check_estimable(run: _ProtectionRun) -> None:
    """Refuse estimates that the strategy's measurements do not determine, before any noise is drawn."""
    people, strategy = run.people, run.strategy
    blank = unmeasured(people.spine, people.schema, strategy, optimised=run.optimised)
    problems, named = estimation_problems(blank, facilities=run.facilities, noise=False)
    for level, names in named.items():
        kept = run.optimised is None or run.optimised.keeps(level)  # others are put together from leaves
        at = level if kept else people.spine.leaf
        check_reached(problems, {at: [people.schema.query(name) for name in names]})


def _needs_memory(what: str) -> InputError:
    return InputError(
        f"these people are read in parts, because they would not keep the limit on memory, and {what} needs all of "
        f"them at once. Allow more (--memory)."
    )


def _facilities_used(
    truth: Histogram | Population, facilities: Facilities | None, strategy: Strategy
) -> Facilities | None:
    """The facilities that the strategy bounds persons by: those of the population unless others are given."""
    if not any(isinstance(constraint, FacilityBounds) for constraint in strategy.constraints):
        return None
    return truth.facilities if facilities is None and isinstance(truth, Population) else facilities


def _protected(
    run: _ProtectionRun,
    limits: RunLimits,
    work: KeptWork | None = None,
    *,
    aside: SetAside | None = None,
    reserve: Callable[[Certificate], None] = lambda _: None,
) -> tuple[Release, Measurements]:
    """A release without measurements, and the measurements it was made from, which can still query the truth.

    ``reserve`` is called, with the certificate so far, when everything has been checked and before noise is drawn.
    """
    declared = run.declared(limits)
    with run.workers() as mapped:
        noisy = measure(
            run.people, run.strategy, run.key, replicate=run.replicate, optimised=run.optimised, exact=limits.exact
        )
        certificate = Certificate(declared=declared, observed=Observed(levels=()), measurement=noisy.identifier)
        reserve(certificate)
        with _spent(run, work):
            try:
                histogram, solved = topdown(
                    noisy, facilities=run.facilities, limits=limits, failsafe=run.failsafe, run=mapped,
                    progress=run.progress, kept=work, aside=aside,
                )  # fmt: skip
            except LostCluster:
                raise
            except TallyveilError:
                if work is not None:
                    work.remove()  # it would end in the same way again
                raise
    published = histogram if run.optimised is None else run.optimised.restored(histogram)
    release = Release(
        histogram=replace(published, filter=run.people.filter, rows_per_person=run.people.rows_per_person),
        strategy=run.strategy,
        certificate=replace(certificate, observed=Observed(levels=solved)),
        facilities=run.facilities,
        optimised=run.optimised,
    )
    return release, noisy


@contextmanager
def _spent(run: _ProtectionRun, work: KeptWork | None = None) -> Iterator[None]:
    """Add to any error raised after noise was drawn that the budget counts as spent, and how to repeat the run."""
    try:
        yield
    except Exception as problem:  # any error at all: that the run ended can be observed
        _raise_interruption(problem)
        ours = isinstance(problem, TallyveilError | OSError | MemoryError)  # others may quote true counts
        what = str(problem) if ours and str(problem) else type(problem).__name__
        if isinstance(problem, MemoryError):
            what = f"there is not enough memory ({what.rstrip('.')})"
        again = (
            "Run it again with the same key file or seed: it draws the same noise and costs nothing more."
            if run.key.repeatable
            else "A run with a key file (--key-file) can be repeated with the same noise; this one cannot."
        )
        if work is not None and work.parents():
            again += f" Finished work is kept in {work.path}, and is resumed."
        raise EndedAfterNoise(
            f"{what.rstrip('.')}. Noise had been drawn, and that a run ends can depend on the noise: its budget "
            f"({run.strategy.unit} {text(run.strategy.budget)}) counts as spent. {again}"
        ) from problem


def _raise_interruption(problem: BaseException) -> None:
    """Raise the interruption that caused a problem, if any: a compiled kernel turns it into a SystemError."""
    cause: BaseException | None = problem
    while cause is not None:
        if not isinstance(cause, Exception):
            raise cause
        cause = cause.__cause__
