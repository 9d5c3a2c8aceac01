"""``tallyveil protect``: from a table of people to a release's folder, or to a plan of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.privacy import RunKey, Strategy
    from tallyveil.release.release import Release

Pair = tuple[str, str]


def protect(
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file of people.")],
    codebook: Annotated[Path, typer.Option(help="What its columns mean (TOML).")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The folder to write; it must be new.")] = None,
    facilities: Annotated[Path | None, typer.Option(help="Facilities by leaf and type, for bounds.")] = None,
    units: Annotated[Path | None, typer.Option(help="The public list of units, the empty ones too.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="A preset's name or a strategy's TOML file (default: equal shares).")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="The budget, pure; for a Gaussian strategy at its delta.")] = None,
    rho: Annotated[str | None, typer.Option(help="The budget, zero-concentrated.")] = None,
    delta: Annotated[str | None, typer.Option(help="delta at which epsilon is reported (default 1e-10).")] = None,
    invariant: Annotated[
        list[str] | None, typer.Option(metavar="QUERY@LEVEL", help="Keep a query exactly at a level, as total@state.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For research: anyone can take the noise away. Stamped.")] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="The run's secret key (mode 0600), made if missing; the same key, the same noise. It belongs to one "
            "set of people: keep KEY.bound beside it."
        ),
    ] = None,
    measurements: Annotated[
        list[str] | None,
        typer.Option(metavar="QUERY@LEVEL", help="Publish the noisy answers of a query at a level; or all."),
    ] = None,
    failsafe: Annotated[
        bool,
        typer.Option(
            "--failsafe/--no-failsafe",
            help="Where the noise leaves constraints that conflict, change a parent least and record it. Without it, "
            "the run ends there and its budget is spent.",
        ),
    ] = True,
    unchecked: Annotated[
        bool,
        typer.Option(
            "--unchecked-constraints",
            help="Enforce bounds on the release only, and never compare the data with them. The guarantee then also "
            "covers data that break them.",
        ),
    ] = False,
    sign: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Sign the certificate with this private key (see keygen).")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="How many (default: all cores). The release is the same.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show noise, time and sizes; spend and write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Protect counts of people: measure with noise, make them consistent, write a release's folder.

    [bold]Examples[/bold]

      tallyveil protect blocks.parquet --codebook blocks.toml --epsilon 1 --plan

      tallyveil protect blocks.parquet --codebook blocks.toml --epsilon 1 --invariant total@state -o release

      tallyveil protect t.csv --codebook t.toml --strategy e2e-2018 --epsilon 1 --facilities f.csv -o release
    """
    from tallyveil.files.release_folder.folder import refuse_existing
    from tallyveil.files.release_folder.measured import measured_pairs
    from tallyveil.files.tables.codebook import read_codebook
    from tallyveil.files.tables.read import read_counts

    if output is None and not plan:
        raise InputError("protect needs a folder to write: -o DIR. To see what would happen: --plan")
    if output is not None:
        refuse_existing(output)
    if seed is not None and key_file is not None:
        raise InputError("--seed and --key-file are both given. A seed is for research; a key file for publication.")
    if threads is not None and threads < 1:
        raise InputError(f"--threads must be 1 or more. Got {threads} instead.")
    book = read_codebook(codebook)
    people = read_counts(data, book, units=units)
    chosen = choose_strategy(
        people,
        strategy,
        epsilon=epsilon,
        rho=rho,
        delta=delta,
        invariants=invariant or [],
        check_constraints=not unchecked,
    )
    built = find_facilities(facilities, chosen, people)
    published = [] if not measurements else measured_pairs(chosen, parse_pairs(measurements))
    if plan:
        from tallyveil.cli.planning import print_plan

        print_plan(people, chosen, published, threads=threads, as_json=as_json)
        return
    assert output is not None
    announce(people, chosen, published)
    release = _run(
        people,
        chosen,
        output,
        key=_key(seed, key_file),
        facilities=built,
        threads=threads,
        failsafe=failsafe,
        measurements=published,
        source=book,
        sign_with=sign,
    )
    summarise(release, output, as_json=as_json)


def choose_strategy(
    people: Histogram,
    name: str | None,
    *,
    epsilon: str | None,
    rho: str | None,
    delta: str | None,
    invariants: list[str],
    check_constraints: bool = True,
) -> Strategy:
    """The named strategy or the default one, with the budget, delta, invariants and checks asked for."""
    from dataclasses import replace

    from tallyveil.cli.strategies import find_strategy
    from tallyveil.privacy import Invariant, Strategy
    from tallyveil.privacy.budget import exact_delta

    if epsilon is not None and rho is not None:
        raise InputError("--epsilon and --rho are both given. Give one.")
    if name is not None:
        chosen = find_strategy(name, epsilon=epsilon, rho=rho)
    elif epsilon is None and rho is None:
        raise InputError("protect needs a budget: --epsilon E, --rho R, or a --strategy that has one.")
    else:
        chosen = Strategy.default(people.spine, people.schema, epsilon=epsilon, rho=rho)
    if delta is not None:
        chosen = replace(chosen, delta=exact_delta(delta)).with_budget(epsilon=epsilon, rho=rho)
    if not check_constraints:
        chosen = replace(chosen, check_constraints=False)
    known = [(c.query, c.level) for c in chosen.constraints if isinstance(c, Invariant)]
    wanted = dict.fromkeys((chosen.spelled(query), level) for query, level in map(parse_pair, invariants))
    added = [pair for pair in wanted if pair not in known]
    if added:
        extra = tuple(Invariant(query=query, level=level) for query, level in added)
        chosen = replace(chosen, constraints=(*chosen.constraints, *extra))
    chosen.check(people.spine, people.schema)
    return chosen


def find_facilities(file: Path | None, strategy: Strategy, people: Histogram) -> Facilities | None:
    """The facilities in the file; a strategy that bounds people by facilities needs them, no other takes them."""
    from tallyveil.files.release_folder.folder import facility_attribute
    from tallyveil.files.tables.side import read_facilities

    attribute = facility_attribute(strategy)
    if attribute is None:
        if file is not None:
            raise InputError(
                f"{file}: the strategy has no bounds from facilities. Leave --facilities out, or add them."
            )
        return None
    if file is None:
        raise InputError(
            f"the strategy bounds persons by {attribute} with counts of facilities. Give them: --facilities FILE "
            f"(columns {people.spine.leaf}, type, count)."
        )
    return read_facilities(file, people.spine, attribute=attribute, types=people.schema.attributes[attribute])


def parse_pairs(words: list[str]) -> list[Pair] | None:
    """The (query, level) pairs that were written; None for all."""
    return None if "all" in words else [parse_pair(word) for word in words]


def parse_pair(word: str) -> Pair:
    """A query and a level from ``QUERY@LEVEL``.

    >>> parse_pair("votingage * hispanic@county")
    ('votingage * hispanic', 'county')
    """
    query, at, level = word.rpartition("@")
    if not at or not query.strip() or not level.strip():
        raise InputError(f'{word!r}: write it as QUERY@LEVEL, such as "total@state".')
    return query.strip(), level.strip()


def announce(people: Histogram, strategy: Strategy, published: list[Pair]) -> None:
    """Say what is about to happen, and how large the measurements will be."""
    from tallyveil.cli.planning import described, human_bytes, sizes_of
    from tallyveil.release.declared import stamps_of_run

    typer.echo(f"protecting {described(people, strategy)}, {strategy.unit} {strategy.budget}", err=True)
    if published:
        sizes = sizes_of(people, strategy, published)
        typer.echo(f"measurements: {sizes.numbers:,} numbers, about {human_bytes(sizes.bytes)}", err=True)
    for stamp in stamps_of_run(people, strategy, seeded=False):
        typer.echo(f"stamped: {stamp}", err=True)


def summarise(release: Release, output: Path, *, as_json: bool) -> None:
    """Print where the release is and what it guarantees."""
    from tallyveil.privacy.budget import up_to_digits

    assert release.certificate is not None
    certificate = release.certificate.to_json()
    declared, observed = certificate["declared"], certificate["observed"]
    guarantee = declared["guarantee"]
    if as_json:
        names = ("epsilon", "rho", "delta")
        told = {"folder": str(output), **{name: guarantee[name] for name in names}, "stamps": declared["stamps"]}
        typer.echo(json.dumps({**told, "observed": observed}, indent=2, ensure_ascii=False))
        return
    totals, worst = observed["totals"], observed["worst"]
    at = "" if guarantee["delta"] is None else f" at delta {guarantee['delta']:g}"
    solved = f"{totals['parents']:,} parents solved, {totals['general']:,} by a general solver"
    gap = "unknown" if worst["gap"] is None else f"{worst['gap']:.2g}"
    typer.echo(f"{solved}; worst certified gap {gap}; {totals['relaxed']:,} relaxed", err=True)
    for stamp in declared["stamps"]:
        typer.echo(f"stamped: {stamp}", err=True)
    typer.echo(str(output))
    held = guarantee["words"].partition(", ")[2]
    what = "Protected" if not declared["stamps"] else "Protected, but stamped"
    typer.echo(f"{what}: epsilon {up_to_digits(guarantee['epsilon'], 4)}{at}, {held}.", err=True)


def _key(seed: int | None, key_file: Path | None) -> RunKey | None:
    """The key of the run, if one was asked for."""
    from tallyveil.privacy import RunKey

    try:
        return RunKey.from_seed(seed) if seed is not None else RunKey.from_file(key_file) if key_file else None
    except OSError as problem:
        raise InputError(f"{key_file}: cannot be read or made ({problem.strerror}). Name another key file.") from None


def _run(people: Histogram, strategy: Strategy, output: Path, **given: Any) -> Release:
    from tallyveil.protection.protect import protect_to_folder
    from tallyveil.release.plan import effort_of, public_persons
    from tallyveil.runs.progress import LevelProgress

    persons = public_persons(people, strategy)
    work = effort_of(strategy, people.spine, people.schema, persons=persons).work
    with LevelProgress(work) as progress:
        return protect_to_folder(people, strategy, output, progress=progress.update, **given)
