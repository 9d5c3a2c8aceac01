"""``tallyveil protect``: from a table of people to a release folder, or to a plan of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError, one_line

if TYPE_CHECKING:
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.optimised_spine import OptimisedSpine
    from tallyveil.privacy import RunKey, Strategy
    from tallyveil.release.release import Release


def protect(
    context: typer.Context,
    data: options.Data,
    codebook: options.AnyCodebook = None,
    file_format: options.Format = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the release; it must not exist yet.")
    ] = None,
    facilities: options.FacilitiesFile = None,
    units: options.Units = None,
    strategy: options.StrategyName = None,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    delta: options.DeltaText = None,
    accounting: options.Accounting = None,
    estimator: options.Estimator = None,
    invariant: options.Invariants = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed for research only: anyone who knows it can remove the noise, so the release is stamped."
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="Secret key of the run (mode 0600), created if missing. The same key gives the same noise. "
            "KEY.bound binds it to one dataset; keep both files together."
        ),
    ] = None,
    measurements: Annotated[
        list[str] | None,
        typer.Option(metavar="QUERY@LEVEL", help='Also publish the noisy answers to a query at a level, or to "all".'),
    ] = None,
    failsafe: Annotated[
        bool,
        typer.Option(
            "--failsafe/--no-failsafe",
            help="If noise makes constraints conflict, change the parent as little as possible and record it. With "
            "--no-failsafe, the run stops there and its budget counts as spent.",
        ),
    ] = True,
    unchecked: Annotated[
        bool,
        typer.Option(
            "--unchecked-constraints",
            help="Enforce the bounds on the release, but never check the data against them. The guarantee then also "
            "covers data that violate the bounds.",
        ),
    ] = False,
    optimise_spine: Annotated[
        bool,
        typer.Option(
            "--optimise-spine",
            help="Measure on the optimised spine of 2020, which makes places and tribal areas more accurate; the "
            "release is on the published units. Needs four levels or more.",
        ),
    ] = False,
    places: Annotated[
        Path | None,
        typer.Option(help="Table of places for --optimise-spine (leaf code, area); leaves of a place stay together."),
    ] = None,
    tribal: Annotated[
        Path | None,
        typer.Option(help="Table of tribal areas for --optimise-spine (leaf code, area); units are split along them."),
    ] = None,
    mdf: Annotated[
        bool,
        typer.Option("--mdf", help="Also write the release as a microdata detail file (schemas of 1940 and 2020)."),
    ] = False,
    estimates: Annotated[
        bool,
        typer.Option(
            "--estimates",
            help="Also write estimates/: unbiased estimates of all levels with standard deviations (see estimate).",
        ),
    ] = False,
    sign: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Sign the certificate with this private key (see keygen).")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Resume an interrupted run; an error if the work beside the folder belongs to another run. Without "
            "this option, work of the same run is resumed, and work of another run is removed.",
        ),
    ] = False,
    title: Annotated[str | None, typer.Option(help="What is released, for readers of the certificate.")] = None,
    organisation: Annotated[str | None, typer.Option(help="Who releases it.")] = None,
    population: Annotated[
        str | None,
        typer.Option(help="Name of the people counted. Releases with the same name are about the same people."),
    ] = None,
    reference: Annotated[str | None, typer.Option(help="Number or name under which you keep the release.")] = None,
    approver: Annotated[str | None, typer.Option(help="Who approved the release.")] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger of the programme (see ledger): the budget is reserved there before noise is drawn, and "
            "refused beyond its limit."
        ),
    ] = None,
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Day of the release in UTC (default: today).")
    ] = None,
    threads: options.Threads = None,
    cluster: options.ClusterAddress = None,
    allow_plaintext: options.AllowPlaintext = False,
    memory: options.Memory = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show noise, time and file sizes without spending budget or writing files.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Protect counts of people: measure them with noise, make them consistent, and write a release folder.

    [bold]Examples[/bold]

      tallyveil protect blocks.parquet --codebook blocks.toml --epsilon 1 --plan

      tallyveil protect blocks.parquet --codebook blocks.toml --epsilon 1 --invariant total@state -o release

      tallyveil protect t.csv --codebook t.toml --strategy e2e-2018 --epsilon 1 --facilities f.csv -o release

      tallyveil protect blocks.parquet --codebook blocks.toml --rho 2 --optimise-spine --places places.csv -o release

      tallyveil protect blocks.parquet --codebook blocks.toml --rho 2 --cluster tls://10.0.0.1:8786 -o release
    """
    if output is not None:  # before everything else, and before anything slow is imported
        from tallyveil.files.work_folder import refuse_target

        refuse_target(output)
    from tallyveil._memory import gibibytes, memory_limit, peak
    from tallyveil.cli.clusters import cluster_place
    from tallyveil.cli.optimising import optimised_spine, refuse_unmeasurable, refuse_without_optimising
    from tallyveil.cli.reading import read_people
    from tallyveil.cli.strategies import choose_strategy, find_facilities, parse_pairs, warn_of_waste
    from tallyveil.files.ledger.lines import open_ledger
    from tallyveil.files.ledger.programme import programme_of
    from tallyveil.files.release_folder.mdf_files import refuse_unless_mdf
    from tallyveil.files.release_folder.measurement_files import measured_pairs
    from tallyveil.nouns.paged_counts import PagedCounts
    from tallyveil.privacy.calibrate import calibrated
    from tallyveil.privacy.presets import PRESETS
    from tallyveil.protection.spending import Spending
    from tallyveil.release.about import About

    if output is None and not plan:
        raise InputError("protect needs a folder to write: -o DIR. To see what would happen: --plan")
    if seed is not None and key_file is not None:
        raise InputError("--seed and --key-file are both given. A seed is for research; a key file for publication.")
    options.check_threads(threads)
    context.with_resource(memory_limit(memory))
    place = cluster_place(cluster, allow_plaintext=allow_plaintext, threads=threads)
    if place is not None:
        place.refuse_plaintext(seeded=seed is not None)
    if ledger is not None:  # one that is missing, was changed or cannot be written is refused before the work
        with open_ledger(ledger) as opened:
            programme_of(opened.read)
    about = About(
        title=title,
        organisation=organisation,
        population=population,
        reference=reference,
        approver=approver,
        date=date,
    )
    if not optimise_spine:
        refuse_without_optimising(places, tribal)
    read = read_people(data, codebook, file_format, units=units)
    people = read.counts
    if isinstance(people.leaves, PagedCounts):
        typer.echo(f"{data} would not fit into {memory}, and is read in parts, several times", err=True)
    measured = optimised_spine(people, places=places, tribal=tribal) if optimise_spine and strategy is None else None
    chosen = choose_strategy(
        people,
        strategy,
        epsilon=epsilon,
        rho=rho,
        delta=delta,
        invariants=invariant or [],
        check_constraints=not unchecked,
        optimised=measured,
        accounting=accounting.value if accounting else None,
        estimator=estimator.value if estimator else None,
        calibrate=measured is not None or not optimise_spine,
    )
    built = find_facilities(facilities, chosen, people, own=read.facilities)
    chosen = chosen.bounded_by(built)
    if optimise_spine and measured is None:  # a named strategy may have bounds from facilities
        measured = optimised_spine(people, places=places, tribal=tribal, facilities=built)
    if measured is not None:
        refuse_unmeasurable(people, chosen, built, measured)
        chosen = calibrated(chosen, spine=people.spine, schema=people.schema, optimised=measured)
    if strategy is not None and strategy not in PRESETS:
        warn_of_waste(chosen, chosen.exact_pairs(chosen.exactness(people.spine, people.schema, optimised=measured)))
    published = [] if not measurements else measured_pairs(chosen, parse_pairs(measurements))
    if mdf:
        refuse_unless_mdf(people, chosen)
    if plan:
        from tallyveil.cli.planning import print_plan

        print_plan(
            people, chosen, published, facilities=built, optimised=measured, threads=threads, seeded=seed is not None,
            as_json=as_json,
        )  # fmt: skip
        return
    assert output is not None
    announce(people, chosen, published, optimised=measured, seeded=seed is not None)
    release = _run(
        people,
        chosen,
        output,
        key=_key(seed, key_file),
        facilities=built,
        threads=threads,
        cluster=place,
        failsafe=failsafe,
        optimised=measured,
        measurements=published,
        source=read.codebook,
        sign_with=sign,
        mdf=mdf,
        estimates=estimates,
        resume=resume,
        about=about,
        ledger=None if ledger is None else Spending(ledger=ledger, sign_with=sign),
    )
    if memory is not None:
        typer.echo(f"memory: {gibibytes(peak())} at most, {memory} allowed", err=True)
    summarise(release, output, as_json=as_json)


def announce(
    people: Histogram,
    strategy: Strategy,
    published: list[tuple[str, str]],
    *,
    optimised: OptimisedSpine | None = None,
    seeded: bool = False,
) -> None:
    """Say what is about to happen, how large the measurements will be, and how the release will be stamped."""
    from tallyveil.cli.planning import described, optimised_in_words
    from tallyveil.files.release_folder.measurement_files import planned_sizes
    from tallyveil.privacy.sentences import budget, rows_of_a_person
    from tallyveil.release.declare import stamps_of_run
    from tallyveil.release.plan import human_bytes

    spends = budget(strategy.budgets, people.rows_per_person or 1)
    typer.echo(one_line(f"protecting {described(people, strategy)}; {spends}"), err=True)
    if optimised is not None:
        typer.echo(optimised_in_words(optimised), err=True)
    if published:
        sizes = planned_sizes(people, strategy, published, optimised=optimised)
        typer.echo(f"measurements: {sizes.numbers:,} numbers, about {human_bytes(sizes.bytes)}", err=True)
    if people.rows_per_person is not None:
        typer.echo(rows_of_a_person(people.rows_per_person), err=True)
    for stamp in stamps_of_run(people, strategy, seeded=seeded):
        typer.echo(f"stamped: {stamp}", err=True)


def summarise(release: Release, output: Path, *, as_json: bool) -> None:
    """Print where the release is and what it guarantees."""
    from tallyveil.privacy import sentences
    from tallyveil.privacy.guarantee import Guarantee

    assert release.certificate is not None
    certificate = release.certificate.to_json()
    declared, observed = certificate["declared"], certificate["observed"]
    guarantee = declared["guarantee"]
    if as_json:
        names = ("epsilon", "rho", "delta")
        figures = {"folder": str(output), **{name: guarantee[name] for name in names}, "stamps": declared["stamps"]}
        options.emit_json({**figures, "observed": observed})
        return
    typer.echo(str(output))
    typer.echo(_exceptions(observed["totals"]["relaxed"], observed["worst"]["gap"]), err=True)
    for line in sentences.outcome(Guarantee.from_declared(declared)):
        typer.echo(one_line(line), err=True)


def _exceptions(relaxed: int, gap: float | None) -> str:
    """Whether the counts are what they should be: consistent, and as close to the noisy answers as possible."""
    from tallyveil.engine.estimate.problem import GAP

    found = []
    if relaxed:
        found.append(
            f"The noise made constraints conflict in {relaxed:,} place{'s' if relaxed > 1 else ''}, where the counts "
            f"above were changed as little as possible"
        )
    if gap is None or gap > GAP:
        found.append("Not all counts are proven to be as close to the noisy answers as possible")
    if found:
        return f"{'. '.join(found)}: see observed in certificate.json."
    return "The counts are consistent at all levels, and as close to the noisy answers as that allows."


def _key(seed: int | None, key_file: Path | None) -> RunKey | None:
    """The key of the run, if one was asked for."""
    from tallyveil.files.atomic import refuse_inside_release
    from tallyveil.privacy import RunKey

    if key_file is not None:
        refuse_inside_release(key_file)  # which will be published
    try:
        return RunKey.from_seed(seed) if seed is not None else RunKey.from_file(key_file) if key_file else None
    except OSError as problem:
        raise InputError(f"{key_file}: cannot be read or made ({problem.strerror}). Name another key file.") from None


def _run(people: Histogram, strategy: Strategy, output: Path, **given: Any) -> Release:
    from tallyveil.cli.compiling import compile_first
    from tallyveil.protection.protect import protect_to_folder
    from tallyveil.release.plan import effort_of, public_persons
    from tallyveil.runs.progress import LevelProgress

    compile_first()
    persons = public_persons(people, strategy)
    work = effort_of(strategy, people.spine, people.schema, persons=persons).work
    with LevelProgress(work) as progress:
        return protect_to_folder(people, strategy, output, progress=progress.update, say=progress.say, **given)
