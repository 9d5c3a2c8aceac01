"""``tallyveil demo``: a synthetic census protected with the 2018 rules, and what that did to its counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.populations import Population
    from tallyveil.privacy import Strategy
    from tallyveil.release.release import Release

PERSONS, CENSUS_SEED, NOISE_SEED = 5_000_000, 1940, 1
STRATIFIED = "votingage * hispanic * race"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder; it must not exist yet.")] = Path(
        "tallyveil-demo"
    ),
) -> None:
    """Protect a synthetic census with the 2018 rules at epsilon 1, show the error by level, and write its report.

    [bold]Examples[/bold]

      tallyveil demo

      tallyveil demo -o another-folder
    """
    from tallyveil.cli.compiling import compile_first
    from tallyveil.cli.synth import write_population
    from tallyveil.files.atomic import new_folder, refuse_unwritable
    from tallyveil.populations import census_1940
    from tallyveil.privacy import Strategy

    refuse_unwritable(output)
    strategy = Strategy.preset("e2e-2018", epsilon=1)
    compile_first()
    with new_folder(output) as place:
        typer.echo(f"making {PERSONS:,} persons", err=True)
        census = census_1940(persons=PERSONS, seed=CENSUS_SEED)
        typer.echo("protecting them", err=True)
        release = protected(census, strategy, place / "release")
        write_population(census, place / "census.parquet")
        reported = write_public_report(release, place / "report.html")
    people = census.people
    typer.echo(f"A synthetic 1940 census of {people.total():,} persons, protected with the 2018 rules at epsilon 1\n")
    print_errors(people, release.histogram)
    print_outcome(release, output)
    if reported:
        typer.echo(f"\nThe public report: {output / 'report.html'} (open it in a browser)")


def write_public_report(release: Release, path: Path) -> bool:
    """Write the report, if the library that draws its charts is installed; otherwise a line says what to install."""
    from tallyveil.cli.tables import can_draw
    from tallyveil.report.page import write_report

    if not can_draw():
        return False
    typer.echo("writing the report", err=True)
    write_report(release, path)
    return True


def print_errors(truth: Histogram, published: Histogram) -> None:
    """Print absolute errors of totals and of stratified counts (those above 0 in the truth or the release)."""
    from tallyveil.cli.tables import print_table
    from tallyveil.evaluate import error
    from tallyveil.evaluate.error import shown_tail

    table = error(truth, published, queries=["total", STRATIFIED])
    wide = table.pivot(index=["level", "query", "n"], columns="statistic", values="value")
    wide = wide.loc[list(truth.spine.levels)].reset_index()
    wide = wide.assign(
        median=wide.median_abs.round(),
        p95=shown_tail(wide).round(),
        exact=[f"{share:.0%}" for share in wide.share_exact],
    )
    headings = {"level": "level", "query": "query", "n": "counts", "median": "median", "p95": "95th percentile"}
    print_table(wide, title="Absolute error, in persons", headings=headings | {"exact": "exact"})


def print_outcome(release: Release, output: Path) -> None:
    """Print what is guaranteed, where the files are, and what to try next."""
    from tallyveil.privacy import sentences
    from tallyveil.privacy.guarantee import Guarantee

    assert release.certificate is not None
    promised = Guarantee.from_declared(release.certificate.declared.to_json())
    census = f"{output / 'census'}"
    for line in sentences.in_short(promised):
        typer.echo(line)
    typer.echo(f"""
{output / "release"}: the release; its certificate.html says how it was made
{census}.parquet: the census it was made from, with codebook, units and facilities beside it

Next:
  tallyveil verify {output / "release"}
  tallyveil evaluate {census}.parquet {output / "release"} --codebook {census}.codebook.toml
  tallyveil protect {census}.parquet --codebook {census}.codebook.toml --units {census}.units.parquet \\
    --facilities {census}.facilities.parquet --strategy e2e-2018 --epsilon 2 --plan""")


def protected(census: Population, strategy: Strategy, output: Path) -> Release:
    """The protected census, written to a folder, with progress by level on stderr."""
    from tallyveil.protection.protect import protect_to_folder
    from tallyveil.release.about import About
    from tallyveil.release.plan import effort_of
    from tallyveil.runs.progress import LevelProgress

    work = effort_of(strategy, census.people.spine, census.people.schema, persons=PERSONS).work
    with LevelProgress(work) as progress:
        about = About(title="A synthetic census of 1940", organisation="tallyveil demo")
        return protect_to_folder(census, strategy, output, seed=NOISE_SEED, about=about, progress=progress.update)
