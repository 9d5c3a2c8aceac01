"""Options that several commands share, each with one spelling and one help text, and the emitter of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

Data = Annotated[Path, typer.Argument(help="CSV or Parquet file of people or counts.")]
Codebook = Annotated[Path, typer.Option(help="TOML file that describes the columns.")]
Units = Annotated[Path | None, typer.Option(help="Public list of all units, including those with nobody in them.")]
FacilitiesFile = Annotated[
    Path | None, typer.Option("--facilities", help="Table of facilities by leaf and type, from which bounds follow.")
]
StrategyName = Annotated[str | None, typer.Option("--strategy", help="Name of a preset, or a TOML file.")]
Epsilon = Annotated[str | None, typer.Option(help="Privacy-loss budget, as epsilon of pure differential privacy.")]
Rho = Annotated[str | None, typer.Option(help="Privacy-loss budget, as rho of zero-concentrated differential privacy.")]
Delta = Annotated[float | None, typer.Option(help="Delta at which epsilon is reported.")]
Invariants = Annotated[
    list[str] | None,
    typer.Option("--invariant", metavar="QUERY@LEVEL", help="Release a query exactly at a level, as in total@state."),
]
Workers = Annotated[
    int | None, typer.Option(help="Number of processes (default: all cores). The result does not depend on it.")
]
Long = Annotated[bool, typer.Option("--long", help="Run even if it will take more than an hour.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def json_text(value: Any) -> str:
    """The value as indented JSON; infinities and not-a-number are refused, since JSON has neither."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def emit_json(value: Any) -> None:
    """Print a result for programs."""
    typer.echo(json_text(value))
