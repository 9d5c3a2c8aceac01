"""The plan of a run, printed: noise, usable counts, time, memory, file sizes, and the guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tallyveil.cli.account import print_account
from tallyveil.cli.options import emit_json
from tallyveil.cli.presets import print_noise
from tallyveil.files.release_folder.measurement_files import Sizes, measurement_sizes
from tallyveil.privacy import account_of
from tallyveil.release.declare import stamps_of_run
from tallyveil.release.guarantee_words import agreement
from tallyveil.release.measurements import Measurements, Pair
from tallyveil.release.plan import PlannedNoise, effort_of, planned_noise, public_persons
from tallyveil.runs.progress import human_seconds

if TYPE_CHECKING:
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.privacy import Strategy


def print_plan(
    people: Histogram, strategy: Strategy, published: list[Pair], *, threads: int | None, as_json: bool
) -> None:
    """Print what a run would do. Nothing is drawn, spent or written."""
    noise, guarantee = planned_noise(strategy), account_of(strategy, spine=people.spine, schema=people.schema)
    persons, stamps = public_persons(people, strategy), stamps_of_run(people, strategy, seeded=False)
    effort = effort_of(strategy, people.spine, people.schema, persons=persons, threads=threads or 1)
    sizes, every = sizes_of(people, strategy, published), sizes_of(people, strategy, None)
    constraints = [constraint.words() for constraint in strategy.constraints]
    if as_json:
        plan: dict[str, Any] = {
            "guarantee": {**guarantee.as_json(), "holds_for": agreement(strategy, people.schema)},
            "noise": [{"level": n.level, "query": n.query, "sd": n.sd, "usable": n.usable} for n in noise],
            "constraints": constraints,
            "effort": {
                **effort.as_json(),
                "measurements": {"numbers": sizes.numbers, "bytes": sizes.bytes},
                "all_measurements": {"numbers": every.numbers, "bytes": every.bytes},
            },
            "stamps": list(stamps),
        }
        emit_json(plan)
        return
    typer.echo(described(people, strategy))
    typer.echo()
    print_noise(strategy)
    typer.echo()
    print_usable(strategy, noise)
    typer.echo(f"\nThe guarantee, {agreement(strategy, people.schema)}:")
    print_account(guarantee)
    if constraints:
        typer.echo("\nKept:")
        for words in constraints:
            typer.echo(f"  {words}")
    typer.echo("\nAbout:")
    typer.echo(f"  time          {human_seconds(effort.seconds)}")
    typer.echo(f"  memory        {human_bytes(effort.memory_bytes)}")
    typer.echo(
        f"  release       {human_bytes(effort.release_bytes)}, tables by level {human_bytes(effort.levels_bytes)}"
    )
    typer.echo(f"  measurements  {_measurements(sizes, every)}")
    for stamp in stamps:
        typer.echo(f"\nWould be stamped: {stamp}")
    typer.echo("\nNothing was spent.")


def described(people: Histogram, strategy: Strategy) -> str:
    """What is protected, in one line; the number of people only where it is published exactly."""
    return f"{people.total():,} persons: {people}" if strategy.neighbours == "replace-one" else str(people)


def print_usable(strategy: Strategy, noise: list[PlannedNoise]) -> None:
    """Print the smallest count that the noise of each query leaves usable, levels across."""
    from rich.console import Console
    from rich.table import Table

    title = "Smallest count with a coefficient of variation of 10%"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("query")
    for level in strategy.levels:
        table.add_column(level, justify="right")
    by_place = {(one.query, one.level): one for one in noise}
    queries = dict.fromkeys(query for level in reversed(list(strategy.queries.values())) for query in level)
    for query in queries:
        found = [by_place.get((query, level)) for level in strategy.levels]
        table.add_row(query, *("-" if one is None else f"{one.usable:,}" for one in found))
    Console().print(table)
    typer.echo("Both before post-processing, which mostly lowers them.")


def sizes_of(people: Histogram, strategy: Strategy, pairs: list[Pair] | None) -> Sizes:
    """How large the measurements of some pairs (or of all) will be; none is drawn."""

    def never(*_: Any) -> Any:
        raise AssertionError("a plan asks for no measurement")

    shape = Measurements(spine=people.spine, schema=people.schema, strategy=strategy, ask=never)
    return measurement_sizes(shape, pairs)


def human_bytes(size: float) -> str:
    """A size as people write it.

    >>> human_bytes(1500), human_bytes(21e9)
    ('1.5 kB', '21 GB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def _measurements(sizes: Sizes, every: Sizes) -> str:
    some = f"{sizes.numbers:,} numbers, {human_bytes(sizes.bytes)}" if sizes.numbers else "none published"
    return f"{some} (all of them: {every.numbers:,} numbers, {human_bytes(every.bytes)})"
