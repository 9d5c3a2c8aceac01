"""``tallyveil demo``: a synthetic census protected with the 2018 rules, and what that did to its counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from tallyveil.histogram import Histogram
    from tallyveil.populations import Population
    from tallyveil.privacy import Strategy
    from tallyveil.release import Release

PERSONS, CENSUS_SEED, NOISE_SEED = 5_000_000, 1940, 1
STRATIFIED = "votingage * hispanic * race"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write; it must be new.")] = Path(
        "tallyveil-demo"
    ),
) -> None:
    """Make a synthetic census, protect it with the 2018 rules at epsilon 1, and show the error by level.

    [bold]Examples[/bold]

      tallyveil demo

      tallyveil demo -o another-folder
    """
    from tallyveil.cli.compiling import compiling_aloud
    from tallyveil.cli.protect import write
    from tallyveil.cli.synth import write_population
    from tallyveil.files.release_folder import new_folder, refuse_existing
    from tallyveil.populations import census_1940
    from tallyveil.privacy import Strategy

    refuse_existing(output)
    strategy = Strategy.preset("e2e-2018", epsilon=1)
    with compiling_aloud(), new_folder(output) as place:
        typer.echo(f"making {PERSONS:,} persons", err=True)
        census = census_1940(persons=PERSONS, seed=CENSUS_SEED)
        typer.echo("protecting them", err=True)
        release = protected(census, strategy)
        write_population(census, place / "census.parquet")
        write(release, place / "release", [])
    people = census.people
    typer.echo(f"A synthetic 1940 census of {people.total():,} persons, protected with the 2018 rules at epsilon 1\n")
    print_errors(errors_by_level(people, release.histogram))
    print_outcome(release, strategy, output)


class Errors(NamedTuple):
    """How far a query's published answers at a level are from the truth, in persons."""

    level: str
    query: str
    counts: int
    median: float
    p95: float
    exact: float


def errors_by_level(truth: Histogram, published: Histogram) -> list[Errors]:
    """Absolute errors of totals and of stratified counts (those above 0 in the truth or the release)."""
    import numpy as np

    table = []
    for level in truth.spine.levels:
        for query in ("total", STRATIFIED):
            true, noisy = (one.answer(query, level=level).dense() for one in (truth, published))
            error = np.abs(noisy - true)[(true > 0) | (noisy > 0)]
            median, p95 = np.percentile(error, [50, 95])
            table.append(Errors(level, query, error.size, float(median), float(p95), float((error == 0).mean())))
    return table


def print_errors(errors: list[Errors]) -> None:
    """Print the errors, a row for each level and query."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Absolute error, in persons", title_justify="left", box=None, pad_edge=False)
    table.add_column("level")
    table.add_column("query", no_wrap=True)
    for heading in ("counts", "median", "95th percentile", "exact"):
        table.add_column(heading, justify="right")
    for one in errors:
        figures = f"{one.counts:,}", f"{one.median:,.0f}", f"{one.p95:,.0f}", f"{one.exact:.0%}"
        table.add_row(one.level if one.query == "total" else "", one.query, *figures)
    Console().print(table)


def print_outcome(release: Release, strategy: Strategy, output: Path) -> None:
    """Print what is guaranteed, where the files are, and what to try next."""
    declared = release.certificate["declared"]
    invariants = [constraint.words() for constraint in strategy.constraints if constraint.source == "truth"]
    census = f"{output / 'census'}"
    typer.echo(f"""
Guaranteed: {declared["guarantee"]["words"]} ({"; ".join(invariants)})
Stamped: {"; ".join(declared["stamps"])}

{output / "release"}: the release; its certificate.html says how it was made
{census}.parquet: the census it was made from, with codebook, units and facilities beside it

Next:
  tallyveil verify {output / "release"}
  tallyveil protect {census}.parquet --codebook {census}.codebook.toml --units {census}.units.parquet \\
    --facilities {census}.facilities.parquet --strategy e2e-2018 --epsilon 2 --plan""")


def protected(census: Population, strategy: Strategy) -> Release:
    """The protected census, with progress by level on stderr."""
    from tallyveil.cli.progress import LevelProgress
    from tallyveil.plan import effort_of
    from tallyveil.protection import protect

    work = effort_of(strategy, census.people.spine, census.people.schema, persons=PERSONS).work
    with LevelProgress(work) as progress:
        return protect(census, strategy, seed=NOISE_SEED, progress=progress.update)
