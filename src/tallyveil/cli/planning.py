"""The plan of a run, printed: noise, usable counts, time, memory, file sizes, and the guarantee."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from tallyveil.cli.account import print_account
from tallyveil.cli.options import emit_json
from tallyveil.cli.presets import print_by_level, print_noise, shown_queries
from tallyveil.cli.reading import outline
from tallyveil.cli.tables import figure, records
from tallyveil.engine.exact_values import exact_values
from tallyveil.engine.run_limits import run_limits
from tallyveil.files.release_folder.measurement_files import Sizes, planned_sizes
from tallyveil.mechanisms.measure import exact_answers
from tallyveil.nouns.schema import TOTAL
from tallyveil.privacy import sentences
from tallyveil.privacy.guarantee import guarantee_of
from tallyveil.privacy.loss import loss_of
from tallyveil.release.declare import measured_on, stamps_of_run
from tallyveil.release.measurements import Pair
from tallyveil.release.plan import PlannedNoise, effort_of, human_bytes, planned_noise, public_persons
from tallyveil.runs.progress import human_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.optimised_spine import OptimisedSpine
    from tallyveil.privacy import Strategy

MOST_LEAVES = 1_000_000  # the accuracy of larger trees takes more than ten seconds


def print_plan(
    people: Histogram,
    strategy: Strategy,
    published: list[Pair],
    *,
    facilities: Facilities | None = None,
    optimised: OptimisedSpine | None = None,
    threads: int | None,
    seeded: bool = False,
    as_json: bool,
) -> None:
    """Print what a run would do. Nothing is drawn, spent or written."""
    spine, schema = people.spine, people.schema
    exact = strategy.exact_pairs(strategy.exactness(spine, schema, optimised=optimised))
    noise = planned_noise(strategy, exact)
    persons, stamps = public_persons(people, strategy), stamps_of_run(people, strategy, seeded=seeded)
    known = exact_answers(people, strategy)
    limits = run_limits(spine, schema, strategy, exact=known, facilities=facilities, optimised=optimised)
    promised = guarantee_of(
        loss_of(people, strategy, optimised),
        rows_per_person=people.rows_per_person,
        filter=people.filter,
        stamps=stamps,
        seeded=seeded,
        exact_values=exact_values(limits, strategy),
    )
    measured = spine if optimised is None else optimised.spine
    effort = effort_of(strategy, measured, schema, persons=persons, threads=threads or 1)
    sizes, every = (planned_sizes(people, strategy, pairs, optimised=optimised) for pairs in (published, None))
    accuracy = _accuracy(people, strategy, facilities, optimised)
    constraints = [constraint.words() for constraint in strategy.constraints]
    if as_json:
        plan: dict[str, Any] = {
            "guarantee": {**promised.account.as_json(), "holds_for": sentences.holds_for(promised)},
            "noise": [one.as_json() for one in noise],
            "accuracy": None if accuracy is None else records(accuracy),
            "constraints": constraints,
            "effort": {
                **effort.as_json(),
                "measurements": {"numbers": sizes.numbers, "bytes": sizes.bytes},
                "all_measurements": {"numbers": every.numbers, "bytes": every.bytes},
            },
            "stamps": list(stamps),
        }
        if optimised is not None:
            plan["measured_on"] = asdict(measured_on(optimised))
        emit_json(plan)
        return
    typer.echo(described(people, strategy))
    if optimised is not None:
        typer.echo(optimised_in_words(optimised))
    typer.echo()
    print_noise(strategy, exact)
    typer.echo()
    print_usable(strategy, noise, exact)
    if accuracy is not None:
        typer.echo()
        _print_accuracy(strategy, accuracy)
    elif people.spine.size(people.spine.leaf) > MOST_LEAVES:
        typer.echo(f"\nThe accuracy of estimates is not computed here for more than {MOST_LEAVES:,} leaves.")
    typer.echo(f"\n{sentences.heading(promised)}")
    print_account(promised.account, promised=promised)
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
    if stamps:
        typer.echo()
    for stamp in stamps:
        typer.echo(f"Would be stamped: {stamp}")
    typer.echo(f"\n{_conclusion(strategy, noise)} Nothing was spent.")


def _accuracy(
    people: Histogram, strategy: Strategy, facilities: Facilities | None, optimised: OptimisedSpine | None
) -> pd.DataFrame | None:
    """The expected accuracy of estimates, or None where it is unknown or would take long."""
    from tallyveil.blue.accuracy import expected_accuracy
    from tallyveil.errors import InputError

    if people.spine.size(people.spine.leaf) > MOST_LEAVES:
        return None
    try:
        return expected_accuracy(
            people.spine, people.schema, strategy, facilities=facilities, optimised=optimised, published=True
        )
    except InputError:  # the measurements do not determine the counts, so there are no estimates
        return None


def _print_accuracy(strategy: Strategy, accuracy: pd.DataFrame) -> None:
    """Print the expected standard deviations of estimates, levels across."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("query")
    for level in strategy.levels:
        table.add_column(level, justify="right")
    by_place = {(row.query, row.level): float(row.sd) for row in accuracy.itertuples()}
    for query in dict.fromkeys(accuracy["query"]):
        cells = [by_place.get((query, level)) for level in strategy.levels]
        table.add_row(str(query), *("" if sd is None else "exact" if sd == 0 else figure(sd) for sd in cells))
    typer.echo("Expected standard deviation of estimates from all measurements (tallyveil estimate)")
    Console(markup=False).print(table)


def described(people: Histogram, strategy: Strategy) -> str:
    """What is protected, in one line; the number of people only where it is published exactly."""
    return f"{people.total():,} persons; {outline(people)}" if strategy.neighbours == "replace-one" else outline(people)


def optimised_in_words(optimised: OptimisedSpine) -> str:
    """The spine that is measured, and what shaped it, in a sentence."""
    by = f", shaped by {' and '.join(optimised.shaped_by)}" if optimised.shaped_by else ""
    return f"Measured on an optimised spine{by} ({str(optimised).partition('(')[2]}; published on the standard one."


def print_usable(strategy: Strategy, noise: list[PlannedNoise], exact: Sequence[Pair]) -> None:
    """Print the smallest count that the noise of each query leaves usable, levels across."""
    by_place = {(one.query, one.level): one for one in noise}
    rows = [
        [query, *(_usable(by_place.get((query, level))) for level in strategy.levels)]
        for query in shown_queries(strategy, exact)
    ]
    print_by_level("Smallest count with a coefficient of variation of 10%", list(strategy.levels), rows)
    typer.echo("Both before post-processing, which mostly lowers them.")


def _conclusion(strategy: Strategy, noise: list[PlannedNoise]) -> str:
    """What the noise of the finest level means for its counts, in a sentence."""
    leaf = list(strategy.levels)[-1]
    here = [one for one in noise if one.level == leaf and one.sd is not None]
    if not here:
        return f"Everything that is counted at level {leaf} would be exact."
    one = next((one for one in here if one.query == TOTAL), here[0])
    counts = "total" if one.query == TOTAL else f"count of {one.query}"
    return (
        f"A {counts} at level {leaf} would get noise with a standard deviation of {figure(one.sd)} persons before "
        f"post-processing."
    )


def _usable(one: PlannedNoise | None) -> str:
    if one is None:
        return "-"
    return "exact" if one.usable is None else f"{one.usable:,}"


def _measurements(sizes: Sizes, every: Sizes) -> str:
    some = f"{sizes.numbers:,} numbers, {human_bytes(sizes.bytes)}" if sizes.numbers else "none published"
    return f"{some} (all of them: {every.numbers:,} numbers, {human_bytes(every.bytes)})"
