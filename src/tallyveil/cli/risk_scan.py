"""``tallyveil risk scan``: how exposed everybody is, before release or after it."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.options import (
    Codebook,
    Data,
    Epsilon,
    FacilitiesFile,
    Invariants,
    Json,
    Rho,
    StrategyName,
    Units,
    emit_json,
)
from tallyveil.cli.tables import INTERNAL
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.privacy import Strategy
    from tallyveil.release.measurements import Measurements
    from tallyveil.risk import Scan


def scan(
    truth: Data,
    codebook: Codebook,
    release: Annotated[
        Path | None, typer.Option(help="Release folder, whose strategy and saved measurements are used.")
    ] = None,
    strategy: StrategyName = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    invariant: Invariants = None,
    facilities: FacilitiesFile = None,
    units: Units = None,
    prior: Annotated[
        list[str] | None, typer.Option(help="Prior of an intruder (default 1/2). Can be repeated.")
    ] = None,
    level: Annotated[list[str] | None, typer.Option(help="Level to scan (default: all). Can be repeated.")] = None,
    query: Annotated[
        list[str] | None, typer.Option(help="Query that the intruder uses (default: all). Can be repeated.")
    ] = None,
    detail_only: Annotated[
        bool, typer.Option("--detail-only", help="Use the detailed query only, as in the paper.")
    ] = False,
    attack: Annotated[
        str,
        typer.Option(help="What the intruder wants to know: characteristics, responded, truthful, attribute or cell."),
    ] = "characteristics",
    attribute: Annotated[
        str | None, typer.Option(help="Attribute that is unknown to the intruder (for --attack attribute).")
    ] = None,
    above: Annotated[
        bool,
        typer.Option("--above", help="Also scan with the count of the unit above and the sum of the siblings' counts."),
    ] = False,
    key_file: Annotated[Path | None, typer.Option(help="Key of the run, whose noise is drawn again.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run, for research: its noise is drawn again.")] = None,
    most: Annotated[int, typer.Option(help="Number of most exposed units per level that -o lists.")] = 20,
    threads: Annotated[int | None, typer.Option(help="Number of threads (default: all cores).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="New folder for tables and a plot.")] = None,
    as_json: Json = False,
) -> None:
    """Measure how exposed each person is to an intruder who knows everyone else in the unit. Not for publication.

    Before release, figures are averages over the noise. After release (saved measurements, a key or a seed), they are
    computed from the noise that was drawn. Both concern the noisy counts of one level before post-processing. For
    published counts, which depend on the noisy counts of all levels, use "risk simulate".

    [bold]Examples[/bold]

      tallyveil risk scan blocks.parquet --codebook b.toml --rho 1 --prior 1/2 --prior 1/10

      tallyveil risk scan p.csv --codebook p.toml --units u.csv --strategy pl94-2020-us-persons --facilities f.csv

      tallyveil risk scan blocks.parquet --codebook b.toml --release release -o exposed
    """
    from tallyveil.files.release_folder.folder import refuse_existing

    if output is not None:
        refuse_existing(output)
    if most < 0:
        raise InputError(f"--most must be 0 or more. Got {most} instead.")
    if detail_only and query:
        raise InputError("--detail-only and --query are both given. Give one.")
    queries = ["detailed"] if detail_only else query
    if release is not None:
        if any(given is not None for given in (strategy, epsilon, rho, invariant, facilities)):
            raise InputError(
                "a release has its strategy and facilities. Leave --strategy, its budget and the like out."
            )
        people, plan, built, drawn = _released(truth, release, codebook, units, key=key_file, seed=seed)
    else:
        people, plan, built = _planned(truth, codebook, units, strategy, epsilon, rho, invariant, facilities)
        drawn = None
    levels, again = level, _drawn_again(people, plan, key_file, seed)
    if again is not None:
        if release is not None:
            _check_key(release, drawn, again)
        drawn = again
    elif drawn is not None:
        drawn, levels = _what_was_saved(drawn, plan, level)
    if release is not None and drawn is None:
        words = f"{release}: no measurements were saved, so figures are averages over the noise of its strategy"
        typer.echo(f"tallyveil: {words}", err=True)
    found = _scan(
        people,
        plan,
        priors=prior or ["1/2"],
        measurements=drawn,
        levels=levels,
        queries=queries,
        attack=attack,
        attribute=attribute,
        facilities=built,
        most=most,
        threads=threads,
    )
    _note_what_was_not_drawn(found)
    frames = found.frames() | ({"above": _above(people, plan, prior, level, threads)} if above else {})
    if as_json:
        emit_json(_as_json(found, frames))
    else:
        _show(found, people)
        if above:
            _show_above(frames["above"])
    if output is not None:
        _write(found, frames, output)


def _released(
    truth: Path, release: Path, codebook: Path, units: Path | None, *, key: Path | None, seed: int | None
) -> tuple[Histogram, Strategy, Facilities | None, Measurements | None]:
    from tallyveil.cli.reading import read_truth_and_releases
    from tallyveil.release.declared import SEEDED

    given = read_truth_and_releases(truth, [release], codebook, units=units)
    (one,) = given.releases.values()
    if one.strategy is None:
        raise InputError(f"{release}: says nothing of its noise. Give a release's folder, or --strategy without it.")
    stamped = SEEDED in one.histogram.stamps
    if (stamped and key is not None) or (not stamped and seed is not None):
        made, give = ("a seed", "--seed N") if stamped else ("a key", "--key-file K")
        raise InputError(f"{release} was made with {made}. Give that, {give}, or neither.")
    return given.truth, one.strategy, one.facilities, one.measurements


def _planned(
    truth: Path,
    codebook: Path,
    units: Path | None,
    strategy: str | None,
    epsilon: str | None,
    rho: str | None,
    invariant: list[str] | None,
    facilities: Path | None,
) -> tuple[Histogram, Strategy, Facilities | None]:
    from tallyveil.cli.strategies import choose_strategy, find_facilities
    from tallyveil.files.tables.read import read_counts

    if strategy is None and epsilon is None and rho is None:
        raise InputError("a scan needs the noise: --rho R, --epsilon E, a --strategy, or a --release.")
    people = read_counts(truth, codebook, units=units)
    plan = choose_strategy(people, strategy, epsilon=epsilon, rho=rho, delta=None, invariants=invariant or [])
    return people, plan, find_facilities(facilities, plan, people)


def _what_was_saved(
    drawn: Measurements, plan: Strategy, levels: list[str] | None
) -> tuple[Measurements | None, list[str] | None]:
    """The measurements and the levels to scan: those for which a release saved something."""
    from tallyveil.risk.scan.saved import saved_by_level

    saved = saved_by_level(drawn)
    if not any(saved.values()):
        return None, levels
    if any(len(saved[level]) < len(plan.queries[level]) for level in levels or saved if level in saved):
        names = ", ".join(f"{query}@{level}" for level, queries in saved.items() for query in queries)
        typer.echo(f"tallyveil: only what was saved is scanned: {names}", err=True)
    return drawn, [level for level in saved if saved[level]] if levels is None else levels


def _drawn_again(people: Histogram, plan: Strategy, key_file: Path | None, seed: int | None) -> Measurements | None:
    """The noise that a key or a seed draws."""
    from tallyveil.mechanisms.measure import measure
    from tallyveil.privacy import RunKey

    if key_file is not None and seed is not None:
        raise InputError("--seed and --key-file are both given. Give one.")
    if seed is not None:
        return measure(people, plan, RunKey.from_seed(seed))
    if key_file is None:
        return None
    if not key_file.exists():
        raise InputError(f"{key_file}: no such file. Give the key that the release was made with.")
    return measure(people, plan, RunKey.from_file(key_file))


def _check_key(release: Path, saved: Measurements | None, again: Measurements) -> None:
    """Refuse a key or a seed that is not the release's, as far as that can be checked."""
    from tallyveil.risk.scan.saved import check_same_noise

    try:
        checked = saved is not None and check_same_noise(saved, again)
    except InputError as problem:
        raise InputError(f"{release}: {problem}") from None
    if not checked:
        words = f"{release} saved no measurements, so it cannot be checked that this drew its noise"
        typer.echo(f"tallyveil: {words}", err=True)


def _scan(people: Histogram, plan: Strategy, *, threads: int | None, **given: Any) -> Scan:
    import os
    from concurrent.futures import ThreadPoolExecutor

    from tallyveil.risk import scan as scan_people
    from tallyveil.runs.progress import LevelProgress

    if threads is not None and threads < 1:
        raise InputError(f"--threads must be 1 or more. Got {threads} instead.")
    work = {level: people.spine.size(level) ** 0.7 for level in given["levels"] or people.spine.levels}  # about
    long = people.leaves.entries > 2_000_000
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool, LevelProgress(work, what="pieces") as progress:
        return scan_people(people, plan, run=pool.map, progress=progress.update if long else None, **given)


def _note_what_was_not_drawn(found: Scan) -> None:
    """After release, people whose unit is measured with another of which nothing was saved have expected figures."""
    groups = found.groups[(found.when == "after") & ~found.groups.drawn & ~found.groups.certain]
    if len(groups):
        people = int(groups[groups.prior == groups.prior.iloc[0]].people.sum())
        where = ", ".join(dict.fromkeys(groups.measured_at))
        words = (
            f"{people:,} people are measured with the {where}, of which nothing was saved: theirs are expected figures"
        )
        typer.echo(f"tallyveil: {words}", err=True)


def _above(
    people: Histogram, plan: Strategy, priors: list[str] | None, levels: list[str] | None, threads: int | None
) -> pd.DataFrame:
    """The scan with the hierarchy, of the finest level asked for."""
    import os
    from concurrent.futures import ThreadPoolExecutor

    import pandas as pd

    from tallyveil.risk import scan_above

    level = max(levels or people.spine.levels, key=people.spine.depth)
    found = []
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for prior in dict.fromkeys(priors or ["1/2"]):
            frame = scan_above(people, plan, prior=prior, level=level, run=pool.map, progress=_telling())
            found.append(frame.assign(prior=prior))
    return pd.concat(found, ignore_index=True)


def _telling() -> Callable[[int, int], None]:
    """Says every five seconds how many of the cases with a unit above are done."""
    started = told = time.monotonic()

    def update(done: int, of: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told > 5:
            told = now
            left = (now - started) / done * (of - done)
            typer.echo(f"{done:,} of {of:,} cases with a unit above done, about {left:.0f} s left", err=True)

    return update


def _show_above(frame: pd.DataFrame) -> None:
    """By how many others of the cell the unit above has, on average over people."""
    import pandas as pd

    from tallyveil.cli.tables import print_table, with_error

    classes = [-1, 0, 1, 2, 5, 10, math.inf]
    labels = ["nobody", "1", "2", "3 to 5", "6 to 10", "11 or more"]
    cut = frame.assign(others=pd.cut(frame.others, classes, labels=labels))
    figures = ["alone", "right_decision", "gain", "loss", "tie"]
    errors = [f"{name}_se" for name in figures[1:]]  # one seed draws for all cases, so errors are taken to add up
    weighted = cut.assign(**{name: cut[name] * cut.people for name in [*figures, *errors]})
    sums = weighted.groupby(["prior", "others"], observed=True, sort=False)[["people", *figures, *errors]].sum()
    means = sums.div(sums.people, axis="index").assign(people=sums.people).reset_index()
    shown = means.assign(others=means.others.astype(str))
    if frame[errors].notna().any(axis=None):
        told = {
            name: map(with_error, means[name], means[f"{name}_se"].where(means.right_decision_se > 0))
            for name in figures[1:]
        }
        shown = shown.assign(**{name: list(texts) for name, texts in told.items()})
    headings = {"prior": "prior", "others": "others of the cell in siblings", "people": "people", "alone": "without it"}
    headings |= {"right_decision": "rightly claimed", "gain": "gain", "loss": "loss", "tie": "tie"}
    levels = f"{frame.measured_at.iloc[-1]}, with that of the {frame.above.iloc[-1]} and the siblings' sum"
    print_table(shown, title=f"Detailed count of the {levels} (flat prior on the siblings)", headings=headings)


def _as_json(found: Scan, frames: dict[str, pd.DataFrame]) -> dict[str, Any]:
    from tallyveil.cli.tables import records

    told: dict[str, Any] = {"note": INTERNAL}
    told |= {name: getattr(found, name) for name in ("when", "attack", "attribute", "queries")}
    return told | {name: records(frame) for name, frame in frames.items() if name not in ("cells", "exposed")}


def _show(found: Scan, people: Histogram) -> None:
    from tallyveil.cli.tables import print_table

    when = "expected over the noise" if found.when == "before" else "given the noise that was drawn"
    used = "every query of the level" if found.queries is None else ", ".join(found.queries)
    typer.echo(f"{INTERNAL}\n")
    typer.echo(f"{people.total():,} persons, each a target of an intruder who knows all others of the unit")
    typer.echo(f"attack: {found.attack}{f' ({found.attribute})' if found.attribute else ''}; uses {used}; {when}\n")
    figures = {
        "prior": "prior",
        "people": "people",
        "unique": "unique",
        "posterior": "posterior",
        "risk": "over prior",
        "right_decision": "rightly claimed",
        "tie": "tie",
    }
    print_table(found.levels, title="By level", headings={"level": "level", **figures, "certain": "given away"})
    leaf = found.levels.level.iloc[-1]
    groups, sizes = (frame[frame.level == leaf] for frame in (found.groups, found.sizes))
    if len(groups) > groups.prior.nunique():
        headings = {"measured_at": "measured with the", "share": "share", "settled": "settled by exact counts"}
        print_table(groups, title=f"People who are measured alike ({leaf})", headings={**headings, **figures})
    if found.when == "after" or len(groups) > groups.prior.nunique():
        print_table(sizes, title=f"By the {leaf}'s number of people", headings={"size": "people in it", **figures})


def _write(found: Scan, frames: dict[str, pd.DataFrame], output: Path) -> None:
    from tallyveil.cli.tables import can_draw, write_frames
    from tallyveil.files.release_folder.folder import new_folder

    with new_folder(output) as place:
        write_frames(frames, place, internal=True)
        if drawn := can_draw():
            from tallyveil.report.plots import write_plot
            from tallyveil.report.risk_plots import posterior_plot

            leaf = found.levels.level.iloc[-1]
            frame = found.posteriors[found.posteriors.level == leaf]
            when = "expected over the noise" if found.when == "before" else "given the noise that was drawn"
            chart = posterior_plot(frame, title=f"What an intruder believes of each person of a {leaf}, {when}")
            write_plot(chart, place / "posteriors")
    typer.echo(f"{output}: tables{' and a plot' if drawn else ''} (internal: they show the truth)", err=True)
