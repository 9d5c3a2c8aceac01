"""``tallyveil estimate``: any count with its margin, from the measurements of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from tallyveil.blue.result import TreeEstimates
    from tallyveil.nouns.areas import Areas
    from tallyveil.release.release import Release

SHOWN = 40  # rows on the terminal; files and JSON have all


def estimate(
    source: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder with measurements.")],
    level: Annotated[
        list[str] | None,
        typer.Option("--level", help="Level (default: all, or none with --area). Can be repeated."),
    ] = None,
    area: Annotated[
        Path | None, typer.Option("--area", help="Table that assigns leaves to areas off the spine (leaf code, area).")
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option("--query", help="Query (default: those of the release's tables by level). Can be repeated."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.9,
    compare: Annotated[bool, typer.Option("--compare", help="Show the published counts beside the estimates.")] = False,
    covariance: Annotated[
        bool, typer.Option("--covariance", help="Also give the covariances of all figures (JSON, or -o FILE.json).")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the figures: .csv, .parquet or .json.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Estimate any count with its exact standard deviation, for units or for areas made of leaves.

    The estimates are unbiased, and combine the noisy measurements of all levels by least squares. They cost no budget.
    They can be negative; intervals are cut at zero.

    [bold]Examples[/bold]

      tallyveil protect t.csv --codebook t.toml --rho 1 --measurements all -o release

      tallyveil estimate release --level county --query total --query "age * sex"

      tallyveil estimate release --area districts.csv --query age --compare -o districts.csv

      tallyveil estimate release --level county --query age --covariance --json
    """
    from tallyveil.blue.estimate import estimate as estimated
    from tallyveil.blue.intervals import normal_quantile
    from tallyveil.cli.reading import find_areas
    from tallyveil.files.atomic import refuse_inside_release

    normal_quantile(confidence)  # a wrong confidence is refused before the work
    if output is not None and output.suffix.lower() not in (".csv", ".parquet", ".json"):
        raise InputError(f"{output}: the name of the file ends in .csv, .parquet or .json. Use one of these.")
    if output is not None:
        refuse_inside_release(output)
    if covariance and not as_json and (output is None or output.suffix.lower() != ".json"):
        raise InputError("--covariance gives a matrix, which only JSON can hold. Add --json, or -o FILE.json.")
    release = _read(source)
    areas = find_areas(area, release.histogram)
    found = estimated(release, levels=level, queries=query, areas=areas, confidence=confidence, covariance=covariance)
    frame = found.to_pandas()
    if compare:
        frame["published"] = _published(release, frame, areas)
    result = _as_json(found, frame) if as_json or (output is not None and output.suffix.lower() == ".json") else {}
    if output is not None:
        _write(frame, result, output)
    if as_json:
        options.emit_json(result)
        return
    _show(frame, found)
    if output is not None:
        typer.echo(f"{output}: {len(frame):,} figures")


def _read(folder: Path) -> Release:
    """The release, which must have measurements."""
    from tallyveil.files.release_folder.read_folder import read_release

    release = read_release(folder)
    if release.measurements is None:
        raise InputError(
            f"{folder}: no measurements are saved in it, and estimates are made from them. Protect again with the same "
            f"key and --measurements all (or --estimates, which needs none saved)."
        )
    return release


def _published(release: Release, frame: pd.DataFrame, areas: Areas | None) -> np.ndarray:
    """The published count of each row."""
    import numpy as np

    people, out = release.histogram, np.zeros(len(frame), np.int64)
    names = frame["query"].astype(str)
    spots = frame["level"].astype(object) if "level" in frame else None
    for place in [None] if spots is None else dict.fromkeys(spots):
        level = place if isinstance(place, str) else None
        for name in dict.fromkeys(names):
            query = people.schema.query(name)
            mine = (names == name).to_numpy()
            if spots is not None:
                mine = mine & ((spots == level).to_numpy() if level is not None else spots.isna().to_numpy())
            if not mine.any():
                continue
            if level is None:
                assert areas is not None
                leaves = people.answer(name, level=people.spine.leaf)
                counts, units = areas.tabulate(leaves).dense(), {code: i for i, code in enumerate(areas.names)}
            else:
                counts = people.answer(name, level=level).dense()
                units = {code: i for i, code in enumerate(people.spine.labels(level))}
            cells = {label: i for i, label in enumerate(query.labels())}
            rows = frame.loc[mine, "unit"].astype(str).map(units), frame.loc[mine, "cell"].astype(str).map(cells)
            out[mine] = counts[rows[0].to_numpy(np.int64), rows[1].to_numpy(np.int64)]
    return out


def _as_json(found: TreeEstimates, frame: pd.DataFrame) -> dict[str, Any]:
    from tallyveil.cli.tables import records

    rows = [{name: value for name, value in row.items() if value is not None} for row in records(frame)]
    result: dict[str, Any] = {"information": found.information, "confidence": found.confidence, "rows": rows}
    if found.covariance is not None:
        result["covariance"] = found.covariance.tolist()
    return result


def _write(frame: pd.DataFrame, result: dict[str, Any], output: Path) -> None:
    import pyarrow as pa

    from tallyveil.files.tables.write import write_table, write_text

    if output.suffix.lower() == ".json":
        write_text(options.json_text(result) + "\n", output)
    else:
        write_table(pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None), output)


def _show(frame: pd.DataFrame, found: TreeEstimates) -> None:
    from tallyveil.cli.tables import figure, print_table

    percent = f"{100 * found.confidence:g}%"
    places = frame["level"].astype(object) if "level" in frame else frame["unit"].map(lambda _: "area")
    rows = frame.assign(place=places.where(places.notna(), "area").astype(str)).head(SHOWN)
    for name in ("unit", "query", "cell"):
        rows[name] = rows[name].astype(str)
    rows["interval"] = [f"{figure(low)} to {figure(high)}" for low, high in zip(rows.low, rows.high, strict=True)]
    names = ["place", "unit", "query", "cell", "estimate", "sd", "interval"]
    headings = dict(
        zip(names, ["level", "unit", "query", "cell", "estimate", "sd", f"{percent} interval"], strict=True)
    )
    if "published" in frame:
        headings["published"] = "published"
    print_table(rows, title="Counts with their margins", headings=headings)
    if len(frame) > SHOWN:
        typer.echo(f"{len(frame) - SHOWN:,} more figures: write all of them with -o FILE, or use --json.")
    typer.echo(f"Made from {found.information}.")
    typer.echo(_conclusion(frame, percent))


def _conclusion(frame: pd.DataFrame, percent: str) -> str:
    from tallyveil.cli.tables import figure

    inexact = frame[frame["sd"] > 0]
    if not len(inexact):
        return f"All {len(frame):,} figures are exact."
    least, most = figure(float(inexact["sd"].min())), figure(float(inexact["sd"].max()))
    spread = least if least == most else f"{least} to {most}"
    words = f"Standard deviations are {spread} persons; each interval holds the true count with {percent} confidence."
    if "published" in frame:
        inside = ((frame["published"] >= frame["low"]) & (frame["published"] <= frame["high"])).mean()
        words += f" {100 * inside:.0f}% of the published counts lie in their interval."
    return words
