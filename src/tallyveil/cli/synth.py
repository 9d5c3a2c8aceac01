"""``tallyveil synth``: a synthetic census as files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.populations import Population


class Shape(StrEnum):
    """Which census to imitate."""

    census_1940 = "1940"
    census_2020 = "2020"
    uniform = "uniform"


def synth(
    shape: Annotated[Shape, typer.Argument(help="Census to imitate: 1940, 2020, or the uniform tree of flaxman2019.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Table of counts to write (.parquet or .csv).")],
    persons: Annotated[int, typer.Option(help="Number of persons.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of the population. The same seed gives the same census.")] = 1,
) -> None:
    """Write a synthetic census: a table of counts with its codebook, units, facilities, housing and areas.

    [bold]Examples[/bold]

      tallyveil synth 1940 --persons 100000 --seed 7 -o town.parquet

      tallyveil synth 2020 --persons 1000000 -o state.parquet
    """
    from tallyveil import populations

    if output.exists():
        raise InputError(f"{output} exists. Name a new file; nothing is overwritten.")
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{output}: a table's name ends in .csv or .parquet. Name it so.")
    make = {
        Shape.census_1940: populations.census_1940,
        Shape.census_2020: populations.census_2020,
        Shape.uniform: populations.uniform_tree,
    }[shape]
    typer.echo(f"making {persons:,} persons", err=True)
    population = make(persons=persons, seed=seed)
    try:
        with TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
            made = write_population(population, Path(folder) / output.name)
            for file in reversed(made):  # the counts last: where they are, all is
                file.replace(output.parent / file.name)
    except OSError as problem:
        raise InputError(f"{output}: cannot be written ({problem.strerror}). Name another place.") from None
    for file in made:
        typer.echo(output.parent / file.name)
    from tallyveil.cli.reading import outline

    made_of = f"{population.people.total():,} invented persons; {outline(population.people)}"
    typer.echo(f"{made_of}. The files beside {output} describe it and limit its counts.", err=True)


def write_population(population: Population, output: Path) -> list[Path]:
    """Write the tables of a population to one folder, and return their names, counts first."""
    from tallyveil.files.tables.side import areas_table, facilities_table, housing_table
    from tallyveil.files.tables.write import beside, write_counts, write_table

    tables = {}
    if population.facilities is not None:
        tables["facilities.parquet"] = facilities_table(population.facilities)
    if population.housing is not None:
        tables["housing.parquet"] = housing_table(population.housing)
    for kind, areas in population.areas.items():
        tables[f"{kind}.areas.parquet"] = areas_table(areas)
    for ending, table in tables.items():
        write_table(table, beside(output, ending))
    write_counts(population.people, output)
    return [output, *(beside(output, ending) for ending in ("codebook.toml", "units.parquet", *tables))]
