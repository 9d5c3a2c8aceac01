"""Options that several commands share, each with one spelling and one help text, and the emitter of JSON."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tallyveil.errors import InputError

Data = Annotated[Path, typer.Argument(help="CSV, Parquet or Excel file of people or counts, or published microdata.")]
Codebook = Annotated[Path, typer.Option(help="TOML file that describes the columns.")]
AnyCodebook = Annotated[
    Path | None,
    typer.Option("--codebook", help="TOML file that describes the columns; not needed for published microdata."),
]
Units = Annotated[Path | None, typer.Option(help="Public list of all units, including empty ones.")]
FacilitiesFile = Annotated[
    Path | None, typer.Option("--facilities", help="Table of facilities by leaf and type; bounds are derived from it.")
]
StrategyName = Annotated[str | None, typer.Option("--strategy", help="Name of a preset, or a TOML file.")]
StrategyOrDefault = Annotated[
    str | None, typer.Option("--strategy", help="Name of a preset, or a TOML file (default: equal shares).")
]
Epsilon = Annotated[str | None, typer.Option(help="Privacy-loss budget: epsilon (pure differential privacy).")]
Rho = Annotated[str | None, typer.Option(help="Privacy-loss budget: rho (zero-concentrated differential privacy).")]


class AccountingName(StrEnum):
    """Accountants of Gaussian noise."""

    zcdp = "zcdp"
    pld = "pld"


Accounting = Annotated[
    AccountingName | None,
    typer.Option(
        help="How Gaussian noise is accounted for: pld gives the same epsilon at delta as zcdp, with less noise "
        "(default: that of the strategy, or zcdp).",
    ),
]


class EstimatorName(StrEnum):
    """Estimators of a release."""

    topdown = "topdown"
    tree = "tree"


Estimator = Annotated[
    EstimatorName | None,
    typer.Option(
        help="What each level is estimated from: tree also uses what the levels below measured, topdown does not. The "
        "noise is the same (default: that of the strategy).",
    ),
]
DeltaText = Annotated[str | None, typer.Option("--delta", help="Delta at which epsilon is reported (default: 1e-10).")]
Invariants = Annotated[
    list[str] | None,
    typer.Option(
        "--invariant", metavar="QUERY@LEVEL", help="Query to publish without noise at a level, for example total@state."
    ),
]
Workers = Annotated[
    int | None, typer.Option(help="Number of processes (default: all cores). The result does not depend on it.")
]
Threads = Annotated[
    int | None, typer.Option(help="Number of threads (default: all cores). The result does not depend on it.")
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory that this process may use, such as 4G: near it, pieces run one at a time; a large Parquet file is "
        "read in parts if it would not fit (the rows in the order of the units, which --units lists); a run that needs "
        "more is refused before noise is drawn. The result does not depend on it.",
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on a Dask cluster: tls://HOST:PORT, tcp://HOST:PORT, or local:N for N processes here. The result "
        "does not depend on it.",
    ),
]
AllowPlaintext = Annotated[
    bool,
    typer.Option(
        "--allow-plaintext",
        help="Let the true counts and the key of the noise travel to --cluster tcp://HOST:PORT in plain text.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the random draws. The same seed gives the same result.")]
NewFolder = Annotated[
    Path | None, typer.Option("--output", "-o", help="New folder for tables and plots; it must not exist yet.")
]
ResumableFolder = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for the runs. Unfinished runs in it are resumed.")
]
ReleaseFolder = Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder.")]
Truth = Annotated[Path, typer.Argument(help="CSV, Parquet or Excel file of the true counts, or published microdata.")]
Releases = Annotated[
    list[Path],
    typer.Argument(
        metavar="RELEASE",
        help="Release or baseline folders, published microdata, or tables with the same codebook.",
    ),
]
Pool = Annotated[bool, typer.Option("--pool", help="Treat several releases as replicates of one strategy.")]
AreasFile = Annotated[
    Path | None, typer.Option("--areas", help="Table that assigns leaves to areas off the spine (leaf code, area).")
]
Levels = Annotated[list[str] | None, typer.Option("--level", help="Level (default: all). Can be repeated.")]
Queries = Annotated[
    list[str] | None,
    typer.Option("--query", help="Query (default: the total, each attribute and all cells). Can be repeated."),
]
Priors = Annotated[
    list[str] | None, typer.Option("--prior", help="Prior of an intruder (default: 1/2). Can be repeated.")
]
AttackName = Annotated[
    str,
    typer.Option(
        "--attack",
        help="What the intruder wants to know: characteristics, responded, truthful, attribute or cell.",
    ),
]
UnknownAttribute = Annotated[
    str | None,
    typer.Option("--attribute", help="Attribute that is unknown to the intruder (for --attack attribute)."),
]
UnknownPeople = Annotated[
    int, typer.Option("--unknown", help="Number of people besides the target whom the intruder does not know.")
]
UnknownShare = Annotated[
    str | None,
    typer.Option("--share", help="Probability that an unknown person is counted like the target (default: the prior)."),
]
UsedQueries = Annotated[
    list[str] | None,
    typer.Option("--query", help="Query that the intruder uses (default: all). Can be repeated."),
]
Long = Annotated[bool, typer.Option("--long", help="Run even if it will take more than an hour.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class FileFormat(StrEnum):
    """Formats of published microdata (``files.read_format``)."""

    ipums_1940 = "ipums-1940"
    mdf_1940 = "mdf-1940"
    mdf_2020 = "mdf-2020"
    ppmf_2010 = "ppmf-2010"


Format = Annotated[
    FileFormat | None,
    typer.Option("--format", help="Format of published microdata (default: recognised by the first line)."),
]


class CountMechanism(StrEnum):
    """Noise of a single count."""

    gaussian = "gaussian"
    geometric = "geometric"


def json_text(value: Any) -> str:
    """The value as indented JSON; infinities and not-a-number are refused, since JSON has neither."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def emit_json(value: Any) -> None:
    """Print a result for programs."""
    typer.echo(json_text(value))


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads below 1."""
    if threads is not None and threads < 1:
        raise InputError(f"--threads must be 1 or more. Got {threads} instead.")


def refuse_unless_resumable(output: Path | None, part: str) -> None:
    """Refuse an existing folder, unless it holds work that can be resumed."""
    from tallyveil.files.atomic import refuse_unwritable

    if output is not None and not (output / part / "job.json").exists():
        refuse_unwritable(output)
