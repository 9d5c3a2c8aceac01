"""``tallyveil risk scan``: how exposed every person is, before or after a release."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from tallyveil.cli.reading import People
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.optimised_spine import OptimisedSpine
    from tallyveil.privacy import Strategy
    from tallyveil.release.measurements import Measurements
    from tallyveil.release.release import Release
    from tallyveil.risk import Scan
    from tallyveil.risk.scan.saved import ReleaseNoise


def scan(
    truth: options.Data,
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    release: Annotated[
        Path | None, typer.Option(help="Release folder; its strategy and saved measurements are used.")
    ] = None,
    strategy: options.StrategyOrDefault = None,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    invariant: options.Invariants = None,
    facilities: options.FacilitiesFile = None,
    units: options.Units = None,
    prior: options.Priors = None,
    level: Annotated[list[str] | None, typer.Option(help="Level to scan (default: all). Can be repeated.")] = None,
    query: options.UsedQueries = None,
    detail_only: Annotated[
        bool, typer.Option("--detail-only", help="Use the detailed query only, as in the paper.")
    ] = False,
    attack: options.AttackName = "characteristics",
    attribute: options.UnknownAttribute = None,
    unknown: options.UnknownPeople = 0,
    share: options.UnknownShare = None,
    above: Annotated[
        bool,
        typer.Option(
            "--above", help="Also scan for an intruder who uses the counts of the unit above and the siblings."
        ),
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(help="Key file of the run, from which its noise is drawn again.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run, from which its noise is drawn again.")] = None,
    most: Annotated[int, typer.Option(help="Number of most exposed units to list per level (with -o).")] = 20,
    threads: options.Threads = None,
    output: options.NewFolder = None,
    as_json: options.Json = False,
) -> None:
    """Measure how exposed each person is to an intruder who knows everyone else in the unit. Not for publication.

    Before a release, figures are averages over the noise. After a release (with saved measurements, a key file or a
    seed), they are computed from the noise that was drawn. Both concern the noisy counts of one level before
    post-processing. For published counts, which depend on the noisy counts of all levels, use "risk simulate".

    [bold]Examples[/bold]

      tallyveil risk scan blocks.parquet --codebook b.toml --rho 1 --prior 1/2 --prior 1/10

      tallyveil risk scan p.csv --codebook p.toml --units u.csv --strategy pl94-2020-us-persons --facilities f.csv

      tallyveil risk scan blocks.parquet --codebook b.toml --release release -o exposed

      tallyveil risk scan blocks.parquet --codebook b.toml --rho 1 --level block --unknown 10 --above

      tallyveil risk scan EXT1940USCB.dat --strategy e2e-2018 --epsilon 1
    """
    from tallyveil.cli.reading import read_people
    from tallyveil.cli.risk_scan_output import conclusion, scan_as_json, show_hierarchy, show_scan, write_scan
    from tallyveil.files.atomic import refuse_unwritable
    from tallyveil.risk import Attack
    from tallyveil.risk.scan.saved import ReleaseNoise

    if output is not None:
        refuse_unwritable(output)
    options.check_threads(threads)
    if most < 0:
        raise InputError(f"--most must be 0 or more. Got {most} instead.")
    if detail_only and query:
        raise InputError("--detail-only and --query are both given. Give one.")
    made: Release | None = None
    if release is not None:
        if any(option is not None for option in (strategy, epsilon, rho, invariant, facilities)):
            raise InputError(
                "a release has its strategy and facilities. Leave --strategy, its budget and the like out."
            )
        people, plan, made = _released(truth, release, codebook, file_format, units)
        public = made.facilities
    else:
        if strategy is None and epsilon is None and rho is None:
            raise InputError("a scan needs the noise: --rho R, --epsilon E, a --strategy, or a --release.")
        read = read_people(truth, codebook, file_format, units=units)
        people, plan, public = _planned(read, strategy, epsilon, rho, invariant, facilities)
    redrawn = _drawn_again(people, plan, made, key_file, seed)
    noise = _noise(release, made, level) if redrawn is None else ReleaseNoise(measurements=redrawn, levels=level)
    if made is not None and made.optimised is not None:
        people, public = _as_measured(people, plan, public, made.optimised)
    queries = ["detailed"] if detail_only else query
    found = _scan(
        people,
        plan,
        threads=threads,
        priors=prior or ["1/2"],
        measurements=noise.measurements,
        levels=noise.levels,
        attack=Attack(kind=attack, attribute=attribute, queries=queries),  # type: ignore[arg-type]
        facilities=public,
        unknown=unknown,
        share=share,
        most=most,
    )
    _note_expected_figures(found)
    frames = found.frames() | (
        {"above": _above(people, plan, prior, level, threads, unknown=unknown, share=share)} if above else {}
    )
    if as_json:
        options.emit_json(scan_as_json(found, frames, unknown))
    else:
        show_scan(found, people, unknown)
        if above:
            show_hierarchy(frames["above"])
        typer.echo(conclusion(found, people.schema))
    if output is not None:
        write_scan(found, frames, output)


def _released(
    truth: Path,
    release: Path,
    codebook: Path | None,
    file_format: str | None,
    units: Path | None,
) -> tuple[Histogram, Strategy, Release]:
    """The counts, the strategy and the release."""
    from tallyveil.cli.reading import read_truth_and_releases

    given = read_truth_and_releases(truth, [release], codebook, units=units, file_format=file_format)
    folder = next(iter(given.releases.values()), None)  # None for a baseline
    if folder is None or folder.strategy is None:
        raise InputError(f"{release}: the strategy is missing. Give the folder of a release, or --strategy instead.")
    return given.truth, folder.strategy, folder


def _as_measured(
    people: Histogram, plan: Strategy, facilities: Facilities | None, optimised: OptimisedSpine
) -> tuple[Histogram, Facilities | None]:
    """The counts and facilities on the spine that was measured; refused if exact counts are of other units."""
    from tallyveil.privacy import FacilityBounds, Invariant

    for one in plan.constraints:
        if isinstance(one, Invariant | FacilityBounds) and not optimised.keeps(one.level):
            raise InputError(
                f"the release was measured on an optimised spine, which rebuilds every {one.level}, so a scan cannot "
                f"use this constraint: {one.words()}. Use risk simulate."
            )
    typer.echo("tallyveil: the units below are those of the optimised spine that was measured", err=True)
    moved = facilities and replace(facilities, spine=optimised.spine, leaves=facilities.leaves.taken(optimised.leaf))
    return optimised.moved(people), moved


def _planned(
    read: People,
    strategy: str | None,
    epsilon: str | None,
    rho: str | None,
    invariant: list[str] | None,
    facilities: Path | None,
) -> tuple[Histogram, Strategy, Facilities | None]:
    """The counts, and the strategy and facilities of the options."""
    from tallyveil.cli.strategies import choose_strategy, find_facilities

    people = read.counts
    plan = choose_strategy(people, strategy, epsilon=epsilon, rho=rho, invariants=invariant or [])
    return people, plan, find_facilities(facilities, plan, people, own=read.facilities)


def _drawn_again(
    people: Histogram, plan: Strategy, made: Release | None, key_file: Path | None, seed: int | None
) -> Measurements | None:
    """The measurements that a key or a seed draws, which are those of the release if there is one."""
    from tallyveil.mechanisms.measure import measure
    from tallyveil.privacy import RunKey

    if key_file is not None and seed is not None:
        raise InputError("--seed and --key-file are both given. Give one.")
    if key_file is not None and not key_file.exists():
        raise InputError(f"{key_file}: no such file. Give the key that the release was made with.")
    if seed is None and key_file is None:
        return None
    key = RunKey.from_file(key_file) if key_file is not None else RunKey.from_seed(seed or 0)
    drawn = measure(people, plan, key, optimised=None if made is None else made.optimised)
    stated = made.certificate.measurement if made is not None and made.certificate is not None else None
    if made is not None and stated != drawn.identifier:
        raise InputError(
            f"the {'seed' if key_file is None else 'key'} gives measurement {drawn.identifier} of these counts, and "
            f"the release states {stated or 'none'}. Give its key or seed, and the counts that it was made from."
        )
    return drawn


def _noise(release: Path | None, made: Release | None, levels: list[str] | None) -> ReleaseNoise:
    """The saved noise to scan with. A line on stderr says what is not known of a release's noise."""
    from tallyveil.risk.scan.saved import ReleaseNoise

    if made is None:
        return ReleaseNoise(measurements=None, levels=levels)
    noise = ReleaseNoise.of(made.measurements, levels)
    if noise.note:
        typer.echo(f"tallyveil: {release}: {noise.note}", err=True)
    return noise


def _scan(people: Histogram, plan: Strategy, *, threads: int | None, **settings: Any) -> Scan:
    """Scan with a pool of threads, and with progress where it takes long."""
    from concurrent.futures import ThreadPoolExecutor

    from tallyveil.risk import scan as scan_people
    from tallyveil.runs.progress import LevelProgress

    levels = settings["levels"] or people.spine.levels
    work = {level: people.spine.size(level) ** 0.7 for level in levels}  # roughly proportional to the time
    long = people.leaves.entries > 2_000_000
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool, LevelProgress(work, what="pieces") as progress:
        return scan_people(people, plan, run=pool.map, progress=progress.update if long else None, **settings)


def _note_expected_figures(found: Scan) -> None:
    """Say for how many people figures are averages after a release, because their noise was not saved."""
    groups = found.groups[(found.when == "after") & ~found.groups.drawn & ~found.groups.certain]
    if len(groups):
        people = int(groups[groups.prior == groups.prior.iloc[0]].people.sum())
        levels = ", ".join(dict.fromkeys(groups.measured_at))
        words = f"figures of {people:,} people are averages: they are measured with the {levels}, which was not saved"
        typer.echo(f"tallyveil: {words}", err=True)


def _above(
    people: Histogram,
    plan: Strategy,
    priors: list[str] | None,
    levels: list[str] | None,
    threads: int | None,
    **others: Any,
) -> pd.DataFrame:
    """The scan with the hierarchy, at the finest of the levels."""
    from concurrent.futures import ThreadPoolExecutor

    import pandas as pd

    from tallyveil.risk import scan_above

    level = max(levels or people.spine.levels, key=people.spine.depth)
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        frames = [
            scan_above(
                people, plan, prior=prior, level=level, run=pool.map, progress=_case_progress(), **others
            ).assign(prior=prior)
            for prior in dict.fromkeys(priors or ["1/2"])
        ]
    return pd.concat(frames, ignore_index=True)


def _case_progress() -> Callable[[int, int], None]:
    """A function that says every five seconds how many cases are done."""
    started = reported = time.monotonic()

    def update(done: int, of: int) -> None:
        nonlocal reported
        now = time.monotonic()
        if now - reported > 5:
            reported = now
            seconds = (now - started) / done * (of - done)
            typer.echo(f"{done:,} of {of:,} cases with a unit above done, about {seconds:.0f} s left", err=True)

    return update
