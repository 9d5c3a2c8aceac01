"""``tallyveil ledger``: what all releases about the same people cost together, and how much they may."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.files.ledger.lines import Lines
    from tallyveil.files.ledger.programme import Entry, Group, Programme

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
SignKey = Annotated[
    Path | None, typer.Option("--sign", metavar="KEY", help="Sign the new line with this private key (see keygen).")
]


@app.callback()
def ledger(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of the ledger, JSON lines.")],
) -> None:
    """Keep a ledger of all releases about the same people: what they cost together, and how much they may cost.

    Releases are grouped by the name of their population (protect --population). Costs of the same people add up;
    populations that were declared disjoint share nobody, so the larger cost counts; releases without a name add up with
    all. Releases made from one measurement count once. Seeded releases are listed, but do not count.

    [bold]Examples[/bold]

      tallyveil ledger programme.jsonl limit --epsilon 4 --delta 1e-10

      tallyveil ledger programme.jsonl add release_2025 release_2026

      tallyveil ledger programme.jsonl show

      tallyveil protect blocks.csv --codebook blocks.toml --epsilon 1 --ledger programme.jsonl -o release_2027
    """
    context.obj = file


@app.command()
def show(
    context: typer.Context,
    delta: options.DeltaText = None,
    public_key: Annotated[
        Path | None,
        typer.Option(metavar="KEY.pub", help="Public key of whoever keeps the ledger; every line must be signed."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(metavar="SHA256", help="Head that was noted earlier; it must still be in the ledger.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the chain, list the releases, and add them up with the arithmetic.

    [bold]Examples[/bold]

      tallyveil ledger programme.jsonl show --public-key office.pub
    """
    from tallyveil.files.ledger.lines import read_lines
    from tallyveil.files.ledger.programme import programme_of
    from tallyveil.files.release_folder.signing import read_public_key

    read = read_lines(context.obj)
    if public_key is not None:
        read.refuse_unsigned(read_public_key(public_key))
    if head is not None and head not in [line.digest for line in read.lines]:
        raise InputError(f"{read.path}: no line has the SHA-256 {head}. Lines were removed; restore a copy.")
    state = programme_of(read)
    groups = state.groups(delta=delta, pld=True)
    if as_json:
        options.emit_json(_as_json(read, state, groups))
        return
    _print(read, state, groups)


@app.command()
def add(
    context: typer.Context,
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders.")],
    sign: SignKey = None,
) -> None:
    """Add finished releases. They are added even beyond the limit, because they were made.

    [bold]Examples[/bold]

      tallyveil ledger programme.jsonl add release_2025 release_2026
    """
    from tallyveil.files.ledger.lines import open_ledger
    from tallyveil.files.ledger.of_release import entry_of_folder
    from tallyveil.files.ledger.programme import programme_of
    from tallyveil.privacy.several_releases import refuse_contradiction

    key = _key(sign)
    entries = [entry_of_folder(folder) for folder in releases]
    with open_ledger(context.obj, create=True) as ledger:
        state = programme_of(ledger.read)
        for i, (folder, entry) in enumerate(zip(releases, entries, strict=True)):
            known = next((e.line for e in state.entries if entry.certificate == e.certificate), None)
            if known:
                raise InputError(f"{folder} is already in the ledger, on line {known}. Nothing was added.")
            if known is not None:
                first = next(releases[j] for j in range(i) if entries[j].certificate == entry.certificate)
                raise InputError(f"{first} and {folder} are the same release. Nothing was added.")
            refuse_contradiction(entry.cost, [e.cost for e in state.entries])
            state = state.with_entry(entry)
        state.groups()  # losses that cannot be added are refused before anything is written
        for entry in entries:
            settled = _unsettled(programme_of(ledger.read), entry)
            ledger.append({**entry.to_json(), "entry": "release", "reservation": settled}, key)
        state = programme_of(ledger.read)
    _conclude(state)


@app.command()
def limit(
    context: typer.Context,
    epsilon: Annotated[str, typer.Option(help="Largest epsilon that all releases together may cost a person.")],
    delta: Annotated[str, typer.Option(help="Delta at which that epsilon holds.")] = "1e-10",
    sign: SignKey = None,
) -> None:
    """Set the limit. protect --ledger refuses a release beyond it before noise is drawn.

    [bold]Examples[/bold]

      tallyveil ledger programme.jsonl limit --epsilon 4 --delta 1e-10
    """
    from tallyveil.privacy.budget import exact, exact_delta, text

    content = {"epsilon": text(exact(epsilon, "epsilon")), "delta": text(exact_delta(delta))}
    _conclude(_appended(context.obj, {"entry": "limit", **content}, sign))


@app.command()
def disjoint(
    context: typer.Context,
    populations: Annotated[list[str], typer.Argument(metavar="NAME NAME...", help="Names of populations.")],
    sign: SignKey = None,
) -> None:
    """Declare that nobody is in two of these populations, so that the largest of their costs counts, not the sum.

    [bold]Examples[/bold]

      tallyveil ledger programme.jsonl disjoint "Residents of Delaware" "Residents of England"
    """
    from tallyveil.release.about import About, people_named

    names = {people_named(About(population=name).population or ""): name for name in populations}
    if len(names) < 2 or len(names) < len(populations):
        raise InputError(
            "disjoint needs two or more different names of populations; capitals, spaces and how accents are encoded "
            "make no difference."
        )
    state = _appended(context.obj, {"entry": "disjoint", "populations": populations}, sign)
    known = {people_named(entry.population) for entry in state.entries if entry.population is not None}
    for unknown in (name for people, name in names.items() if people not in known):
        typer.echo(f"No release in the ledger has the population {unknown!r} yet. Check its spelling.", err=True)
    _conclude(state)


@app.command()
def reserve(
    context: typer.Context,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    delta: options.DeltaText = None,
    reference: Annotated[
        str | None, typer.Option(help="Reference of the release to come; protect --reference takes the reservation.")
    ] = None,
    population: Annotated[str | None, typer.Option(help="Name of the people who will be counted.")] = None,
    neighbours: Annotated[str, typer.Option(help="Neighbours: replace-one or add-or-remove.")] = "replace-one",
    cancel: Annotated[
        int | None, typer.Option(metavar="LINE", help="Cancel the reservation on this line instead.")
    ] = None,
    sign: SignKey = None,
) -> None:
    """Reserve budget for a release to come, or cancel such a reservation.

    A budget that a run reserved cannot be cancelled: the run may have drawn noise.

    [bold]Examples[/bold]

      tallyveil ledger programme.jsonl reserve --epsilon 1 --reference 2027/3 --population "Residents of Delaware"

      tallyveil ledger programme.jsonl reserve --cancel 7
    """
    from tallyveil.files.ledger.lines import open_ledger
    from tallyveil.files.ledger.programme import open_reservation, programme_of

    if cancel is not None:
        with open_ledger(context.obj) as ledger:
            open_reservation(programme_of(ledger.read), cancel, "reserved")
            ledger.append({"entry": "cancelled", "reservation": cancel}, _key(sign))
            state = programme_of(ledger.read)
        _conclude(state)
        return
    if reference is None or (epsilon is None) == (rho is None):
        raise InputError("reserve needs --reference, and one of --epsilon and --rho.")
    entry = _planned(epsilon, rho, delta, reference=reference, population=population, neighbours=neighbours)
    with open_ledger(context.obj, create=True) as ledger:
        state = programme_of(ledger.read)
        if any(e.status == "reserved" and e.reference == reference for e in state.entries):
            raise InputError(f"there is a reservation for reference {reference!r} already. Cancel it first.")
        state.with_entry(entry).groups()
        state.refuse_beyond_limit(entry)
        ledger.append({**entry.to_json(), "entry": "reserved", "reservation": None}, _key(sign))
        state = programme_of(ledger.read)
    _conclude(state)


def _planned(
    epsilon: str | None, rho: str | None, delta: str | None, *, reference: str, population: str | None, neighbours: str
) -> Entry:
    from tallyveil.files.ledger.programme import Entry
    from tallyveil.privacy.budget import exact, exact_delta
    from tallyveil.privacy.several_releases import Cost
    from tallyveil.release.about import About

    if neighbours not in ("replace-one", "add-or-remove"):
        raise InputError(f"--neighbours must be replace-one or add-or-remove. Got {neighbours!r} instead.")
    about = About(reference=reference, population=population)
    cost = Cost(
        name=f"planned {reference}",
        accountant="pure" if epsilon is not None else "zcdp",
        loss=exact(epsilon, "epsilon") if epsilon is not None else exact(rho or "", "rho"),
        neighbours=neighbours,
        delta=exact_delta(delta or "1e-10") if rho is not None else None,
    )
    return Entry(line=0, status="reserved", cost=cost, population=about.population, reference=about.reference)


def _unsettled(state: Programme, entry: Entry) -> int | None:
    """The line of a run that made this release but did not confirm it."""
    mine = [e for e in state.entries if e.population == entry.population and e.cost.same_measurement(entry.cost)]
    open_runs = [e for e in mine if e.status in ("running", "spent")]
    return open_runs[0].line if open_runs else None


def _appended(path: Path, content: dict[str, Any], sign: Path | None) -> Programme:
    from tallyveil.files.ledger.lines import open_ledger
    from tallyveil.files.ledger.programme import programme_of

    key = _key(sign)
    with open_ledger(path, create=True) as ledger:
        programme_of(ledger.read)  # a ledger that cannot be understood is not continued
        ledger.append(content, key)
        return programme_of(ledger.read)


def _key(sign: Path | None) -> Any:
    from tallyveil.files.release_folder.signing import read_signing_key

    return None if sign is None else read_signing_key(sign)


def _conclude(state: Programme) -> None:
    typer.echo(sentence(state, state.groups(pld=True)))


def sentence(state: Programme, groups: list[Group]) -> str:
    """What the programme costs a person, and what is left, in a sentence or two."""
    from tallyveil.privacy.sentences import OTHER_FILTERS, STAMPED_ABOVE, spent

    limit = None if state.limit is None else (state.limit.epsilon, state.limit.delta)
    if not groups:
        return spent(None, None, (), limit)
    worst = groups[0]
    said = spent(worst.loss, None if worst.pure else _delta(state, worst), worst.populations, limit)
    said = f"{said} {OTHER_FILTERS}" if any(group.other_filters for group in groups) else said
    stamped = any(entry.stamps for entry in state.entries if not entry.seeded)
    return f"{said} {STAMPED_ABOVE}" if stamped else said


def _delta(state: Programme, group: Group) -> float:
    delta = group.together.account.delta
    return delta if delta is not None else float(state.limit.delta) if state.limit else 1e-10


def _print(read: Lines, state: Programme, groups: list[Group]) -> None:
    from tallyveil.files.ledger.programme import STATUS_IN_WORDS
    from tallyveil.privacy import sentences

    for entry in (entry for entry in state.entries if not entry.seeded):
        of = entry.population or "no population named, so it adds up with all"
        typer.echo(
            f"line {entry.line}: {entry.cost.name}, {sentences.cost(entry.cost)}, {STATUS_IN_WORDS[entry.status]}"
        )
        typer.echo(f"  people: {of}; measurement {entry.cost.measurement or 'unknown'}")
        for line in sentences.conditions(entry.filter, entry.invariants, entry.constraints, entry.stamps):
            typer.echo(line)
    seeded = [entry for entry in state.entries if entry.seeded]
    if seeded:
        typer.echo("Seeded, for research only; not counted:")
        for entry in seeded:
            typer.echo(f"line {entry.line}: {entry.cost.name}, {sentences.cost(entry.cost)}")
    for pair in sorted(sorted(pair) for pair in state.disjoint):
        typer.echo(f"disjoint: {' and '.join(pair)}")
    for both in state.contradicted():
        typer.echo(
            f"{' and '.join(both)} were declared disjoint, but one measurement has both names: they are the same "
            f"people, and their costs add up"
        )
    for group in groups:
        typer.echo(f"\n{' and '.join(group.populations) or 'Everybody'}:")
        counted, all_ = len(group.together.counted), [c.name for c in group.together.counted]
        typer.echo(f"  {counted} measurement{'' if counted == 1 else 's'}, each once: {', '.join(all_)}")
        for step in sentences.composed(group.together)[2]:
            typer.echo(f"  {step}")
        if group.pld_epsilon is not None:
            typer.echo(f"  {sentences.tighter(group.pld_epsilon, _delta(state, group))}")
        elif group.pld_reason is not None:
            typer.echo(f"  no epsilon from privacy loss distributions: {group.pld_reason}")
    lines = "1 line" if len(read.lines) == 1 else f"{len(read.lines):,} lines"
    typer.echo(f"\nThe chain of {lines} holds. Head: {read.head}")
    if signed := sum(line.signed is not None for line in read.lines):
        typer.echo(
            f"{signed} of {len(read.lines)} lines are signed; show --public-key checks that all are, by that key."
        )
    typer.echo("Note the head: that lines were removed at the end can only be seen by comparing it (show --head).")
    if read.torn:
        typer.echo(
            "The last line is torn: a write was interrupted. It counts for nothing, and the next line replaces it."
        )
    typer.echo(sentence(state, groups))


def _as_json(read: Lines, state: Programme, groups: list[Group]) -> dict[str, Any]:
    from tallyveil.privacy.sentences import composed

    worst = groups[0] if groups else None
    bound = state.limit
    return {
        "lines": len(read.lines),
        "head": read.head,
        "torn": read.torn,
        "entries": [
            {"line": e.line, "status": e.status, **e.to_json(), "delta": _number(e.cost.delta)} for e in state.entries
        ],
        "disjoint": sorted(sorted(pair) for pair in state.disjoint),
        "groups": [
            {
                "populations": list(group.populations),
                **group.together.account.as_json(),
                "pld_epsilon": group.pld_epsilon,
                "pld_reason": group.pld_reason,
                "counted": [cost.name for cost in group.together.counted],
                "steps": list(composed(group.together)[2]),
            }
            for group in groups
        ],
        "epsilon": None if worst is None else worst.epsilon,
        "limit": None if bound is None else {"epsilon": float(bound.epsilon), "delta": float(bound.delta)},
        "within_limit": None if bound is None else state.within_limit(groups),
        "sentence": sentence(state, groups),
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
